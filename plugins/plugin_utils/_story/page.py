# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A report, and what many of them say, as an HTML page that needs no script and no other file. Private to the collection; pure, but for the templates
that it reads.

Everything in a report may come from outside, so the templates escape all of it.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ansible_collections.graceful.azure.plugins.plugin_utils._story.history import MEASURES, OfType
from ansible_collections.graceful.azure.plugins.plugin_utils._story.story import SERVING, Report
from ansible_collections.graceful.azure.plugins.plugin_utils._text import duration, plural, printable
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json
from jinja2 import Environment, Template

WIDTH, LEFT, LANE, TOP = 1000, 150, 28, 24
LONG_NAME = 20
TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400)
MEANINGS = {
    "in_service": "in service",
    "restored": "restored",
    "waiting": "waiting: still serves",
    "draining": "draining: ends what is under way",
    "ready": "ready: drained, not approved yet",
    "approved": "approved: waits for the start",
    "started": "started: the impact",
    "restoring": "restoring",
    "needs_person": "needs a person",
    "unobserved": "not observed",
}


class Times:
    """Moments as people read them, in the time zone of this machine."""

    @staticmethod
    def at(moment: float | None) -> str:
        return "" if moment is None else time.strftime("%H:%M:%S", time.localtime(moment))

    @staticmethod
    def day(moment: float) -> str:
        return time.strftime("%Y-%m-%d", time.localtime(moment))

    @staticmethod
    def lasted(seconds: float) -> str:
        return duration(seconds)


@functools.cache
def _template(name: str) -> Template:
    # Not Ansible's templating: what is in a report must never be a template itself.
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(Path(__file__).with_name(name).read_text(encoding="utf-8"))


def page(report: Report) -> str:
    """The page of a report; see C(as_report)."""
    report = printable(report)
    run, hosts = report["run"], report["hosts"]
    involved = [host for host in hosts if host["out"] or any(state["state"] not in SERVING for state in host["states"])]
    axis = _Axis(run["started"], max(run["updated"], run["started"] + 1))
    return _template("page.html.j2").render(
        title="Scheduled events: " + (_names(report["events"]) or "none"),
        run=run,
        zone=time.strftime("%Z", time.localtime(run["started"])),
        times=Times,
        events=[dict(event, sentence=_sentence(event, hosts)) for event in report["events"]],
        entries=report["entries"],
        involved=[dict(host, last=_last(host)) for host in involved],
        quiet=[host["name"] for host in hosts if host not in involved],
        lanes=[_lane(axis, number, host, run["updated"]) for number, host in enumerate(involved)],
        ticks=axis.ticks(),
        marks=[mark for event in report["events"] for mark in _marks(axis, event)],
        states=list(MEANINGS),
        shown_states=[state for state in MEANINGS if any(state == part["state"] for host in involved for part in host["states"])],
        meanings=MEANINGS,
        width=WIDTH,
        height=TOP + LANE * len(involved) + 4,
        left=LEFT,
    )


class _Axis:
    def __init__(self, begin: float, end: float) -> None:
        self._begin, self._end = begin, end

    def x(self, moment: float) -> float:
        share = (moment - self._begin) / (self._end - self._begin)
        return round(LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - 10), 1)

    def ticks(self) -> list[Json]:
        span = self._end - self._begin
        step = next((step for step in TICKS if span / step <= 9), TICKS[-1] * (1 + int(span / TICKS[-1] / 9)))
        first = -(-self._begin // step) * step
        return [{"x": self.x(moment), "label": Times.at(moment)} for moment in _range(first, self._end, step)]


def _range(first: float, last: float, step: float) -> Iterator[float]:
    while first <= last:
        yield first
        first += step


def _names(events: Sequence[Json]) -> str:
    kinds = [event["event_type"] or "event" for event in events]
    return ", ".join(kind if kinds.count(kind) == 1 else f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds))


def _lane(axis: _Axis, number: int, host: Json, updated: float) -> Json:
    bars = []
    for state in host["states"]:
        until = state["until"] or updated
        x = axis.x(state["from"])
        reason = state["reasons"][-1]["reason"] if state["reasons"] else ""
        title = f"{state['state']}, {Times.at(state['from'])} to {Times.at(until)}: {reason}"
        bars.append({"state": state["state"], "x": x, "width": max(1.5, round(axis.x(until) - x, 1)), "title": title})
    out = []
    for span in host["out"]:
        until = span["until"] or updated
        out.append({"x1": axis.x(span["from"]), "x2": axis.x(until), "title": f"out of its load balancer for {duration(until - span['from'])}"})
    return {"y": TOP + LANE * number, "name": host["name"], "squeeze": len(host["name"]) > LONG_NAME, "bars": bars, "out": out}


def _marks(axis: _Axis, event: Json) -> Iterator[Json]:
    for field, words, dash in (("seen", "appears", "none"), ("started", "starts", "5 3"), ("gone", "is over", "1 3")):
        if event[field] is not None:
            title = f"{event['event_type'] or 'event'} {event['event_id']} {words} at {Times.at(event[field])}"
            yield {"x": axis.x(event[field]), "dash": dash, "title": title}


def _last(host: Json) -> str:
    state = host["states"][-1]
    reason = state["reasons"][-1]["reason"] if state["reasons"] else ""
    return f"{state['state']}: {reason}"


def _sentence(event: Json, hosts: Iterable[Json]) -> str:
    """An event in one sentence."""
    kind = event["event_type"] or "An event"
    parts = [f"{kind} of {', '.join(event['resources'] or ()) or 'nobody'}: seen at {Times.at(event['seen'])}"]
    out = {host["name"]: host["seconds_out"] for host in hosts if host["name"] in event["hosts"] and host["out"]}
    if event["approved"]:
        parts.append(f"approved at {Times.at(event['approved'])}" + (f", {duration(event['approved'] - event['seen'])} later" if event["seen"] else ""))
    elif event["outcome"] not in (None, "in_progress"):
        parts.append("not approved by us")
    if event["started"] and event["gone"]:
        parts.append(f"started at {Times.at(event['started'])} and over after {duration(event['gone'] - event['started'])}")
    elif event["gone"]:
        parts.append(f"gone at {Times.at(event['gone'])}")
    if out:
        parts.append(f"out of service: {', '.join(f'{name} for {duration(lasted)}' for name, lasted in out.items())}")
    return "; ".join(parts) + f". Outcome: {(event['outcome'] or 'unknown').replace('_', ' ')}."


HEAD = ("type", "events", *MEASURES.values(), "needed a person")


def _rows(found: dict[str, OfType]) -> Iterator[tuple[str, ...]]:
    for name, of_type in found.items():
        told = of_type.as_json()
        outcomes = ", ".join(f"{number} {(outcome or 'unknown').replace('_', ' ')}" for outcome, number in told["outcomes"].items())
        cells = [f"{duration(told[key]['median'])} ({duration(told[key]['worst'])})" if told[key] else "" for key in MEASURES]
        yield (name, f"{told['events']} ({outcomes})", *cells, str(told["needs_person"] or "never"))


def history_lines(found: dict[str, OfType], runs: int) -> Iterator[str]:
    """What many reports say, as lines of a terminal. C(found): see C(history)."""
    table = [HEAD, *printable(list(_rows(found)))]
    widths = [max(len(row[column]) for row in table) for column in range(len(HEAD))]
    events = plural(sum(of_type.events for of_type in found.values()), "event")
    yield f"{events} in the reports of {plural(runs, 'run')}; medians, and the worst in brackets"
    for row in table:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()


def history_page(found: dict[str, OfType], reports: Sequence[Report]) -> str:
    """The same as a page, with a dot for each event or host."""
    started = [report["run"]["started"] for report in reports]
    return _template("history.html.j2").render(
        events=plural(sum(of_type.events for of_type in found.values()), "event"),
        runs=plural(len(reports), "run"),
        first=Times.day(min(started)),
        last=Times.day(max(started)),
        head=HEAD,
        rows=printable(list(_rows(found))),
        pictures=[_dots(title, {name: of_type.values[key] for name, of_type in found.items()}) for key, title in MEASURES.items()],
    )


def _dots(title: str, values: dict[str, list[float]]) -> Json:
    values = {name: mine for name, mine in values.items() if mine}
    most: float = max((value for mine in values.values() for value in mine), default=0.0) or 1.0
    step = next((step for step in TICKS if most / step <= 9), most)

    def x(value: float) -> float:
        return round(LEFT + value / most * (WIDTH - LEFT - 20), 1)

    lanes = [
        {"name": printable(name), "y": TOP + 14 + LANE * number, "dots": [{"x": x(value), "title": duration(value)} for value in mine]}
        for number, (name, mine) in enumerate(values.items())
    ]
    ticks = [{"x": x(value), "label": duration(value)} for value in _range(0, most, step)]
    return {"title": title[0].upper() + title[1:], "height": TOP + LANE * len(lanes) + 8, "lanes": lanes, "ticks": ticks}
