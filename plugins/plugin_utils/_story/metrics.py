# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The metrics of a run, as the text that the textfile collector of Prometheus' node_exporter reads. Pure.

A run ends, but a counter must not begin again with the next run. So a run adds to what the file said when it began.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote

from ansible_collections.graceful.azure.plugins.module_utils._events import IN_PROGRESS, OVER
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.status import STATES
from ansible_collections.graceful.azure.plugins.plugin_utils._story.story import PassLine, Story, held_since
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json

Labels = Mapping[str, str]
PREFIX = "graceful_azure_"
ANSWERED = "host_last_answer_timestamp_seconds"
FAILED = "last_run_failed"
COUNTED = "# counted "
"""Begins a comment with the id of an event that a run has counted. As long as it holds a host, the next runs find it again."""
SAMPLE = re.compile(rf"({PREFIX}[a-z_]+\{{.*\}}|{COUNTED}\S+) (-?[0-9.]+)")
KEPT = 30 * 86400.0
"""Seconds for which such a comment stays."""


def read(text: str) -> dict[str, float]:
    """The values in a file that a former run wrote, by name and labels. What is no line of ours is left out."""
    return {found[1]: float(found[2]) for found in map(SAMPLE.fullmatch, text.splitlines()) if found}


def metrics(group: str, story: Story, passed: PassLine, memory: Json, before: dict[str, float]) -> str:
    """The text of the file after a pass.

    C(group): tells runs apart that write different files on the same machine. C(passed): the pass as a line of the journal has it. C(memory): what the plan
    remembers after it. C(before): what C(read) found when the run began; when a service answered last is noted there.
    """
    families = Families(group, before)
    run, hosts, events = story["run"], memory.get("hosts") or {}, memory.get("events") or {}
    _add_run(families, story, run)
    _add_events(families, story, passed, events)
    states = Counter(decision["state"] for decision in passed["hosts"].values())
    families.add("hosts", "gauge", "Targets in each state", [({"state": state}, states[state]) for state in STATES])
    families.add(
        "host_state", "gauge", "The state of each target; the one series with the state that it is in", [
            ({"host": name, "state": decision["state"]}, 1) for name, decision in passed["hosts"].items()
        ],
    )  # fmt: skip
    held = {name: list(held_since(name, passed, memory).values()) for name in passed["hosts"]}
    families.add("hosts_out", "gauge", "Targets that are out of their load balancers", [({}, sum(map(bool, held.values())))])
    families.add("holds", "gauge", "Targets that are out, counted once for each event for which they are", [({}, sum(map(len, held.values())))])
    families.add(
        "host_held_since_timestamp_seconds", "gauge", "Since when a target has been out of its load balancers",
        [({"host": name}, min(since)) for name, since in held.items() if since],
    )  # fmt: skip
    settings = passed["world"].get("settings") or {}
    families.add(
        ANSWERED, "gauge", "When the metadata service of a target last answered; 0: never", list(_answers(families, run, hosts, settings)),
    )  # fmt: skip
    return families.text()


def _add_run(families: Families, story: Story, run: Json) -> None:
    failed = int(run["failed"]) if run["finished"] else 0
    failures = {(entry["time"], entry["host"]) for entry in story["entries"] if entry["kind"] == "failure"}
    families.count("runs_total", "Runs that began", [({}, 1)])
    families.count("runs_failed_total", "Runs that ended with a failure", [({}, failed)])
    families.count("steps_failed_total", "Steps on a target that failed", [({}, len(failures))])
    families.add("run_in_progress", "gauge", "1 while a run goes on; a run that is killed leaves it so", [({}, int(not run["finished"]))])
    last = failed if run["finished"] else families.known(FAILED)
    families.add(FAILED, "gauge", "1 if the last run that ended did so with a failure", [({}, last)])
    families.add("last_run_start_timestamp_seconds", "gauge", "When the last run began", [({}, run["started"])])
    families.add("last_pass_timestamp_seconds", "gauge", "When the last pass of a run was planned; all other metrics are of this time", [({}, run["updated"])])


def _add_events(families: Families, story: Story, passed: PassLine, events: dict[str, Json]) -> None:
    unfinished = {fold(told["event_id"]) for told in passed["events"] if told["outcome"] == IN_PROGRESS}
    standing = [event for key, event in events.items() if key in unfinished and event.get("gone_at") is None]
    kinds = Counter((event.get("event_type") or "", event.get("status") or "") for event in standing)
    families.add(
        "events", "gauge", "Events that stand and name a target", [({"status": status, "type": kind}, count) for (kind, status), count in kinds.items()]
    )
    ended = {_counted(event): event for event in story["events"].values() if event["outcome"] not in (None, IN_PROGRESS)}
    over = Counter((event["event_type"] or "", event["outcome"]) for mark, event in ended.items() if not families.is_known(mark))
    families.keep(ended, story["run"]["updated"], forgotten=map(_counted, story["events"].values()))
    # They begin at 0 while the event stands. Prometheus counts no increase where a series begins.
    kinds_seen = {event["event_type"] or "" for event in story["events"].values()}
    counted = [({"outcome": outcome, "type": kind}, over[kind, outcome]) for kind in kinds_seen for outcome in OVER]
    families.count("events_over_total", "Events that are over, by what became of them", counted)
    begins: dict[str, float] = {}
    for event in standing:
        # An event that a rule leaves alone is no deadline.
        if event.get("not_before_at") is not None and event.get("seen_started") is None and event.get("action") != "ignore":
            for name in event.get("hosts") or ():
                begins[name] = min(begins.get(name, event["not_before_at"]), event["not_before_at"])
    families.add(
        "host_not_before_timestamp_seconds", "gauge", "When the first event that names a target may start; not if it has started or is left alone",
        [({"host": name}, at) for name, at in begins.items()],
    )  # fmt: skip


def _counted(event: Json) -> str:
    return COUNTED + quote(fold(event["event_id"]))


def _answers(families: Families, run: Json, hosts: dict[str, Json], settings: dict[str, Json]) -> Iterator[tuple[Labels, float]]:
    for name, host in hosts.items():
        silent = host.get("silent_since") is not None
        if not silent:
            families.note(ANSWERED, {"host": name}, run["updated"])
        if not (silent and (settings.get(name) or {}).get("may_be_off")):
            yield {"host": name}, families.known(ANSWERED, {"host": name})


class Families:
    """The metrics, in the order in which they are written."""

    def __init__(self, group: str, before: dict[str, float]) -> None:
        self._group = group
        self._before = before
        self._lines: list[str] = []

    def known(self, name: str, labels: Labels | None = None) -> float:
        """What was noted last, in this run or a former one, or 0."""
        return self._before.get(self._series(name, labels or {}), 0)

    def note(self, name: str, labels: Labels, value: float) -> None:
        self._before[self._series(name, labels)] = value

    def is_known(self, mark: str) -> bool:
        return mark in self._before

    def keep(self, marks: Iterable[str], now: float, forgotten: Iterable[str]) -> None:
        """Write these comments, and those that former runs have written less than C(KEPT) seconds ago."""
        gone = set(forgotten)
        kept = {mark: at for mark, at in self._before.items() if mark.startswith(COUNTED) and mark not in gone and abs(now - at) < KEPT}
        self._lines += [f"{mark} {_number(at)}" for mark, at in sorted({**kept, **dict.fromkeys(marks, now)}.items())]

    def add(self, name: str, kind: str, words: str, samples: Iterable[tuple[Labels, float]]) -> None:
        self._write(name, kind, words, {self._series(name, labels): value for labels, value in samples})

    def count(self, name: str, words: str, samples: Iterable[tuple[Labels, float]]) -> None:
        """A counter: to these of the run is added what former runs counted."""
        counted = {series: value for series, value in self._before.items() if series.startswith(f"{PREFIX}{name}{{")}
        for labels, value in samples:
            series = self._series(name, labels)
            counted[series] = counted.get(series, 0) + value
        self._write(name, "counter", words, counted)

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def _write(self, name: str, kind: str, words: str, values: Mapping[str, float]) -> None:
        if values:
            self._lines += [f"# HELP {PREFIX}{name} {words}.", f"# TYPE {PREFIX}{name} {kind}"]
            self._lines += [f"{series} {_number(value)}" for series, value in sorted(values.items())]

    def _series(self, name: str, labels: Labels) -> str:
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in sorted({**labels, "group": self._group}.items()))
        return f"{PREFIX}{name}{{{shown}}}"


def _number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _escaped(text: object) -> str:
    return str(text).replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
