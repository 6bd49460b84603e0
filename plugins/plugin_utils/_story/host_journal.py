# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is written to the journal of systemd on each host: its new state. Pure.

A look at the host or an act on it carries the entry, so it costs no module of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.graceful.azure.plugins.module_utils._events import SERVING
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.status import FAULTS
from ansible_collections.graceful.azure.plugins.plugin_utils._text import printable
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Act, Json, Turn

Written = dict[str, list[Any]]
"""Per host the state that was written last, and its events. If its journal was too busy to take that, C(MISSED) stands behind them."""
MISSED = "missed"
WARNING, INFO = 4, 6
LAST = "forgotten"
"""The act by which a host that is back deletes its last records."""


def with_entries(outcome: Json, written: Written) -> dict[str, list[Turn]]:
    """The turns of the next pass, with an entry where a host has another state than its journal says.

    C(outcome): that of the plan. C(written): per host the state that was written last, and its events.
    """
    told = {name: _Told(name, decision, outcome["events"]) for name, decision in outcome["hosts"].items()}
    return {name: [turn if "machine" in turn else told[name].with_entry(turn, written.get(name)) for turn in mine] for name, mine in outcome["turns"].items()}


def now_written(results: Mapping[str, Iterable[Json]], written: Written) -> Written:
    """What is written now. C(results): per host the results of its turns."""
    found = dict(written)
    for name, mine in results.items():
        for result in mine:
            turn = result.get("turn") or {}
            if "machine" in turn:
                continue
            # A look that news have ended had begun, and the entry comes first.
            entries = [(turn["options"].get("journal"), result)] if "options" in turn and (result.get("reached") or result.get("ended")) else []
            went_well = {act["part"]: act for act in result.get("acts") or () if not (act.get("failed") or act.get("unreachable"))}
            entries += [(act["args"].get("journal"), went_well[LAST]) for act in turn.get("acts") or () if act["part"] == LAST and LAST in went_well]
            for entry, outcome in entries:
                if entry:
                    found[name] = _after(entry, bool(outcome.get("journal_missed")), found.get(name) or [])
    return found


def _after(entry: Json, missed: bool, before: list[Any]) -> list[Any]:
    """What is written after the journal of a host was told. What it missed is told once more, and no more than that: each time costs the look half a second."""
    return [entry["STATE"], entry["EVENT_ID"], *([MISSED] if missed and MISSED not in before else [])]


def behind(outcome: Json, written: Written) -> list[str]:
    """The hosts that are back although their journals do not say so, as where the connection broke while a host was brought back."""
    back = [name for name, decision in outcome["hosts"].items() if decision["state"] in SERVING]
    return [name for name in back if name in written and (written[name][0] not in SERVING or MISSED in written[name])]


class _Told:
    """What the plan tells of a host, as entries."""

    def __init__(self, name: str, decision: Json, events: Iterable[Json]) -> None:
        self.decision = decision
        # The decision names no events that are gone.
        self.ids = sorted(event["event_id"] for event in events if event["hosts"].get(name, {}).get("state") == decision["state"])

    def with_entry(self, turn: Turn, last: list[Any] | None) -> Turn:
        added = dict(turn)
        if "options" in turn and self._is_new(last):
            added["options"] = dict(turn["options"], journal=self._entry(self.decision["state"], self.decision["reason"], self.ids))
        if "acts" in turn:
            added["acts"] = [self._with_last(act, last) for act in turn["acts"]]
        return added

    def _with_last(self, act: Act, last: list[Any] | None) -> Act:
        released = sorted(act["args"].get("event_ids") or ())
        if act["part"] != LAST or set(map(fold, self.decision["events"])) - set(map(fold, released)):
            return act
        if last == ["restored", released]:
            return act  # only the record of the approval was left
        return dict(act, args=dict(act["args"], journal=self._entry("restored", "is back in service", released)))

    def _is_new(self, last: list[Any] | None) -> bool:
        if last is not None and MISSED in last:
            return True
        if self.decision["state"] == "in_service":
            return last is not None and last[0] not in SERVING
        return last != [self.decision["state"], self.ids]

    def _entry(self, state: str, reason: str, ids: Sequence[str]) -> Json:
        event = f" ({self.decision['event']})" if self.decision["event"] else ""
        return {
            "MESSAGE": printable(f"{state}: {reason}{event}"),
            "PRIORITY": WARNING if state in FAULTS else INFO,
            "STATE": state,
            "EVENT_ID": ids,
        }
