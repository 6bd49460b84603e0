# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A pass from a journal, planned again. Private to the collection; pure.

A line of the journal (see the action C(plan)) holds all that a pass was planned from and what
was decided, so the plan of this collection's version can be held against what a run did.
"""

from __future__ import annotations

import json

from ansible_collections.graceful.azure.plugins.plugin_utils._planning.plan import plan
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json

RECORDED = ("state", "reason", "until", "events", "step")
"""What the journal keeps of a decision."""


class ReplayError(ValueError):
    """A line of a journal that holds no pass. Its text says why."""


def read_pass(line: str) -> Json:
    """The pass of one line of a journal."""
    try:
        recorded = json.loads(line)
    except ValueError:
        raise ReplayError("is cut off or no JSON") from None
    if not isinstance(recorded, dict) or not all(isinstance(recorded.get(key), dict) for key in ("world", "hosts")):
        raise ReplayError("holds no pass")
    return recorded


def replay(recorded: Json) -> Json:
    """Plan a pass again; returns what is decided now, and every difference to what was decided then as a sentence."""
    try:
        # A copy: the plan writes into its memory.
        outcome = json.loads(json.dumps(plan(json.loads(json.dumps(recorded["world"])))))
        started = recorded["world"]["run"]["started"]
        number, now = recorded["world"]["pass"], recorded["world"]["now"]
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, AssertionError) as error:
        raise ReplayError(f"cannot be planned: {type(error).__name__}: {error}") from None
    return {
        "pass": number,
        "time": now,
        "run_started": started,
        "hosts": {name: {key: decision[key] for key in RECORDED} for name, decision in outcome["hosts"].items()},
        "events": outcome["events"],
        "differences": _differences(recorded, outcome),
    }


def _differences(recorded: Json, outcome: Json) -> list[str]:
    found: list[str] = []
    for name in [*outcome["hosts"], *(name for name in recorded["hosts"] if name not in outcome["hosts"])]:
        now, then = outcome["hosts"].get(name) or {}, recorded["hosts"].get(name) or {}
        found.extend(f"{name}: {key} was {then.get(key)!r}, is {now.get(key)!r}" for key in RECORDED if now.get(key) != then.get(key))
    is_now = {event["event_id"]: event for event in outcome["events"]}
    was = {event["event_id"]: event for event in recorded.get("events") or ()}
    for event_id in dict.fromkeys([*is_now, *was]):
        if is_now.get(event_id) != was.get(event_id):
            found.append(f"event {event_id} was {was.get(event_id)!r}, is {is_now.get(event_id)!r}")
    return found
