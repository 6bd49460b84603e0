# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is told of a pass: lines, journal, report, metrics, notices.

Each sink is told of every pass, and returns what went wrong, as sentences. A run goes on without it, because the hosts matter more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ansible_collections.graceful.azure.plugins.module_utils._events import SERVING
from ansible_collections.graceful.azure.plugins.plugin_utils._comparable import SECONDS, comparable
from ansible_collections.graceful.azure.plugins.plugin_utils._notify import notices
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.status import FAULTS
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.verdicts import Kind
from ansible_collections.graceful.azure.plugins.plugin_utils._story import files, metrics, story
from ansible_collections.graceful.azure.plugins.plugin_utils._text import clock, duration, printable
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json

REMINDER = 15.0
"""Seconds after which a host's line is shown again although nothing changed. Later it is a quarter of the time that the host has waited."""
REMINDER_OF_SECONDS = 60.0
"""The same where only seconds have passed in its reason."""
LONGEST_REMINDER = 300.0
"""The most that both become."""
REMINDER_OF_FAULT = 60.0
"""Seconds after which a fault is told again. Later it is half of the time for which the fault has stood."""
LONGEST_REMINDER_OF_FAULT = 3600.0
"""The most that this becomes."""


@dataclass(frozen=True)
class PassResult:
    """What one pass came to."""

    run: Json  # as in the document
    outcome: Json  # what the plan returned
    line: Json  # the pass as the journal has it
    last: Json  # what the former pass returned, with what the sinks kept there
    kept: Json  # what the sinks keep for the next pass


class Sink(Protocol):
    def tell(self, told: PassResult) -> Iterable[str]:
        """Tell of a pass. Returns sentences: what went wrong."""


class Lines:
    """A line for every host whose state or reason has changed, or has been the same for long. Hosts with the same fault share a line. C(show): shows a
    line, in a color or None."""

    def __init__(self, show: Callable[[str, str | None], None]) -> None:
        self._show = show

    def tell(self, told: PassResult) -> Iterable[str]:
        now = told.line["time"]
        shown = dict(told.last["memory"].get("told") or {})
        lines: dict[tuple[str, ...], list[str]] = {}
        hosts: Json = told.outcome["hosts"]
        # Hosts with the same fault are told again together, whenever each of them came to have it.
        again = {_alike(name, decision) for name, decision in hosts.items() if _is_due(decision, shown.get(name), now)}
        for name, decision in hosts.items():
            alike = _alike(name, decision)
            if _is_news(decision, shown.get(name), now) or alike in again:
                shown[name] = {"said": _said(decision), "at": now}
                # Check mode ends with an account of every host, so its lines show only who is waited for.
                if alike in again or not told.run.get("check"):
                    lines.setdefault(alike, []).append(name)
        for names in lines.values():
            self._show(printable(_line(names, hosts, now)), "yellow" if hosts[names[0]]["state"] in FAULTS else None)
        told.outcome["memory"]["told"] = shown
        return ()


def _said(decision: Json) -> list[str | None]:
    """What a line tells of a host. Seconds that pass are no news, nor are fewer requests."""
    return [decision["state"], comparable(decision["reason"]), decision["event"]]


def _alike(name: str, decision: Json) -> tuple[str, ...]:
    """The key of the line of a host."""
    return (decision["state"], decision["reason"]) if decision["state"] in FAULTS else (name,)


def _is_news(decision: Json, before: Json | None, now: float) -> bool:
    """Whether there is anything to tell of a host that was not told. C(before): what was told last, and when."""
    if not before:
        return bool(decision["kind"] != Kind.NOTHING.value)
    # A reason that changes from one second to the next is told at most once a second, but never missing where something is done for it.
    is_other = before["said"] != _said(decision) and (decision["step"] or now - before["at"] >= _distance(decision, now))
    return bool(before["said"][0] != decision["state"] or is_other)


def _distance(decision: Json, now: float) -> float:
    """Seconds between two lines of a host whose reason has changed. While it drains for long, each client that leaves would be a line."""
    if decision["state"] != "draining" or decision["kind"]:
        return 1.0
    waited: float = now - decision["since"]
    return min(max(1.0, waited / 4), REMINDER)


def _is_due(decision: Json, before: Json | None, now: float) -> bool:
    """Whether what was told of a host is told again, since it has been so for long."""
    state = decision["state"]
    if not before or state in SERVING or decision["kind"] == Kind.LOOK.value:
        return False
    if state == "unobserved" and not decision["event"]:
        return False  # it may be off for days
    waited = now - decision["since"]
    if state in FAULTS:
        distance = min(max(REMINDER_OF_FAULT, waited / 2), LONGEST_REMINDER_OF_FAULT)
    else:
        first = REMINDER_OF_SECONDS if SECONDS.search(decision["reason"]) else REMINDER
        distance = min(max(first, waited / 4), LONGEST_REMINDER)
    return bool(now - before["at"] >= distance)


def _line(names: Sequence[str], hosts: Json, now: float) -> str:
    """The line of some hosts that are in the same state, for the same reason."""
    decision = hosts[names[0]]
    parts = [clock(now), ", ".join(names), decision["shown"], *_events(names, hosts), decision["reason"]]
    waited = now - decision["since"]
    times = [f"for {duration(waited)}"] if waited >= 1 else []
    if decision["until"]:
        times.append(f"{decision['until_is']} {clock(decision['until'], now)}")
    return "  ".join([*parts, *([f"({', '.join(times)})"] if times else [])])


def _events(names: Sequence[str], hosts: Json) -> list[str]:
    """The events of these hosts, each with its hosts if it is not that of all."""
    events: dict[str, list[str]] = {}
    for name in names:
        if hosts[name]["event"]:
            events.setdefault(hosts[name]["event"], []).append(name)
    return [event if len(of_event) == len(names) else f"{event} ({', '.join(of_event)})" for event, of_event in events.items()]


class Written:
    """What is written to a file or a folder, the value of an option."""

    option = ""

    def __init__(self, path: str) -> None:
        self._path = path

    def tell(self, told: PassResult) -> Iterator[str]:
        try:
            self.write(told)
        except OSError as error:
            yield f"handle_events_{self.option}: {self._path!r} cannot be written any more: {error.strerror}"

    def write(self, told: PassResult) -> None:
        raise NotImplementedError


class Journal(Written):
    """A line of JSON for each pass, so that it can be planned again."""

    option = "journal"

    def write(self, told: PassResult) -> None:
        with open(self._path, "a", encoding="utf-8") as journal:
            journal.write(json.dumps(told.line, default=str) + "\n")


class Story:
    """What happened in the run so far, for the sinks after it. C(folder): where reports are, if there are any."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder

    def tell(self, told: PassResult) -> Iterable[str]:
        so_far = told.last.get("story")
        if not so_far:
            names = list(told.line["hosts"])
            so_far = story.begin(told.run, names, files.unfinished(self._folder, told.run["started"], names) if self._folder else None)
        is_new = story.add(so_far, told.line, told.outcome["memory"])
        story.end(so_far, told.outcome["finished"], told.outcome["failed_run"], told.outcome["messages"])
        told.kept.update(story=so_far, is_news=is_new or told.outcome["finished"])
        return ()


class Report(Written):
    """The report of the run, written where the story has brought anything new."""

    option = "report"

    def write(self, told: PassResult) -> None:
        is_needed = told.kept["is_news"] or not told.last.get("report")
        told.kept["report"] = files.write(self._path, told.kept["story"])[0] if is_needed else told.last["report"]


class Metrics(Written):
    """Figures for Prometheus."""

    option = "metrics"

    def write(self, told: PassResult) -> None:
        # What former runs had counted.
        told.kept["counted"] = told.last["counted"] if "counted" in told.last else files.read_metrics(self._path)
        text = metrics.metrics(files.group_of(self._path), told.kept["story"], told.line, told.outcome["memory"], told.kept["counted"])
        files.write_metrics(self._path, text)


class Notices:
    """What people are told. C(templar), C(variables): how the variable with the receivers is read."""

    def __init__(self, templar: Any, variables: Json) -> None:
        self._templar = templar
        self._variables = variables

    def tell(self, told: PassResult) -> Iterable[str]:
        told.kept["notices"] = told.last.get("notices") or notices.begin()
        found: Iterable[str] = notices.tell(told.kept["notices"], told.kept["story"], told.line, told.outcome["memory"], self._templar, self._variables)
        return found


def sinks_of(options: Json, check: bool, show: Callable[[str, str | None], None], templar: Any = None, to_tell: Json | None = None) -> list[Sink]:
    """The sinks of a run. C(options): those of the module C(plan). C(to_tell): all variables of a host, if people are told. Check mode has only lines."""
    found: list[Sink] = [Lines(show)]
    if check:
        return found
    if options.get("journal"):
        found.append(Journal(options["journal"]))
    if options.get("report") or options.get("metrics") or options.get("story") or to_tell:
        found.append(Story(options.get("report")))
    if options.get("report"):
        found.append(Report(options["report"]))
    if options.get("metrics"):
        found.append(Metrics(options["metrics"]))
    if to_tell:
        found.append(Notices(templar, to_tell))
    return found
