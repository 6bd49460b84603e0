# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A report, and what many of them say, as an HTML page that needs no script and no other file. Pure, but for the templates
that it reads and compiles.

Everything in a report may come from outside, so the templates escape all of it.
"""

from __future__ import annotations

import functools
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from ansible import constants as C
from ansible_collections.graceful.azure.plugins.module_utils._events import CANCELLED, IN_PROGRESS, NOT_APPROVED, SERVING
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold, listed, plural
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import seconds
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.ending import outcome_words
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.status import DRAINED, STATES
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.verdicts import Kind
from ansible_collections.graceful.azure.plugins.plugin_utils._story.history import MEASURES, OfType
from ansible_collections.graceful.azure.plugins.plugin_utils._story.story import Report, end_of, is_out, shares, states_for
from ansible_collections.graceful.azure.plugins.plugin_utils._text import columns, duration, printable
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json
from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, Template

TOP, LANE = 24, 46
"""The height of a lane. Its name stands above it, so that on a phone, too, the whole width is for the time."""
LONG_NAME = 48
LAST_LABEL, LAST_LABEL_NARROW = 94, 82
"""In percent of the width: a label further to the right would be cut off."""
TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400)
WORDS = {**{state: state.replace("_", " ") for state in STATES}, "needs_person": "needs a person"}
"""The states as a run calls them."""
MEANINGS = {
    "waiting": "still serves",
    "draining": "gets nothing new, ends what is under way",
    "ready": "drained, not approved yet",
    "approved": "waits for the start",
    "started": "the impact may come, or is there",
    "restoring": "takes its duties back",
    "restored": "back in service",
    "unobserved": "cannot be reached",
}
OUTCOME_WORDS = {IN_PROGRESS: "not over yet", NOT_APPROVED: "over, not approved by us"}
MOST_NAMES = 3
MOST_SENTENCES = 6
CLOCKS_DIFFER = 2.0
"""Seconds by which the service's clock may differ without a word. C(NotBefore) has whole seconds."""
BY_EARLIER = "from the earlier report"


class Times:
    """Moments as people read them, in the time zone of this machine. Durations are those between the times as they are shown."""

    @staticmethod
    def at(moment: float | None) -> str:
        return "" if moment is None else time.strftime("%H:%M:%S", time.localtime(moment))

    @staticmethod
    def day(moment: float) -> str:
        return time.strftime("%Y-%m-%d", time.localtime(moment))

    @staticmethod
    def between(begin: float, end: float) -> str:
        return exact(math.floor(end) - math.floor(begin))


def exact(seconds: int) -> str:
    """A duration that agrees with the times beside it: nothing is rounded up to two hours."""
    for size, unit, part, of_part in ((2 * 86400, "days", 86400, (3600, "h")), (7200, "h", 3600, (60, "min")), (120, "min", 60, (1, "s"))):
        if seconds >= size:
            rest = seconds % part // of_part[0]
            return f"{seconds // part} {unit}" + (f" {rest} {of_part[1]}" if rest else "")
    return f"{seconds} s"


@functools.cache
def _template(name: str) -> Template:
    # Not Ansible's templating: what is in a report must never be a template itself.
    # Each pass runs in a process of its own. The first that needs a template leaves it compiled for the others, in the folder of this run, which only its
    # user may write. Ansible removes that when the run ends.
    compiled, templates = FileSystemBytecodeCache(C.DEFAULT_LOCAL_TMP), FileSystemLoader(Path(__file__).parent)
    return Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, loader=templates, bytecode_cache=compiled).get_template(name)


def page(report: Report) -> str:
    """The page of a report; see C(as_report)."""
    report = printable(report)
    run, hosts = report["run"], report["hosts"]
    involved = [host for host in hosts if host["out"] or any(state["state"] not in SERVING for state in host["states"])]
    axis = _Axis(run["started"], max(run["updated"], run["started"] + 1))
    labels = _labels(report["events"])
    named = _Named(report["events"], labels)
    event_types = {event["event_id"]: event["event_type"] for event in report["events"]}
    earlier = {fold(event["event_id"]): event for event in (run.get("continues") or {}).get("events", ())}
    events = [_Event(event, labels[event["event_id"]], earlier.get(fold(event["event_id"])) or {}, hosts, report["events"]) for event in report["events"]]
    heading = _heading(report["events"], labels)
    status, is_bad, to_do = _status(run, report["events"], hosts, labels)
    return _template("page.html.j2").render(
        heading=f"Scheduled events: {heading}",
        title=f"{heading}, {Times.day(run['started'])} {Times.at(run['started'])}",
        run=run,
        zone=time.strftime("%Z", time.localtime(run["started"])),
        times=Times,
        status=status,
        is_bad=is_bad,
        to_do=[named(sentence) for sentence in to_do],
        continues=run.get("continues"),
        taken_over=listed((run.get("continues") or {}).get("out", ())),
        messages=[named(message) for message in run["messages"]],
        events=[{"sentence": event.sentence(), **event.cells()} for event in events],
        most=MOST_SENTENCES,
        at_the_top=list(_of_all(hosts, run)),
        entries=[_entry(entry, named(_entry_words(entry, event_types)), labels.get(entry["event_id"], "")) for entry in report["entries"]],
        involved=[_row(host, run, named) for host in involved],
        quiet=[host["name"] for host in hosts if host not in involved],
        lanes=[_lane(axis, number, host, run["updated"], events) for number, host in enumerate(involved)],
        ticks=axis.ticks(),
        states=list(WORDS),
        shown_states=[state for state in WORDS if any(state == part["state"] for host in involved for part in host["states"])],
        words=WORDS,
        meanings=MEANINGS,
        height=TOP + LANE * len(involved),
    )


def _heading(events: Sequence[Json], labels: dict[str, str]) -> str:
    if len(events) <= MOST_NAMES:
        return ", ".join(labels.values()) or "no event"
    kinds = Counter(event["event_type"] or "event" for event in events)
    return ", ".join(f"{number} x {kind}" for kind, number in kinds.items())


def _labels(events: Sequence[Json]) -> dict[str, str]:
    """Per id how an event is called. Where two would be called the same, each has the beginning of its id, too."""
    labels = {event["event_id"]: f"{event['event_type'] or 'Event'} of {listed(event['resources'] or ()) or 'nobody'}" for event in events}
    twice = {label for label, number in Counter(labels.values()).items() if number > 1}
    return {event_id: f"{label} ({event_id[:8]})" if label in twice else label for event_id, label in labels.items()}


class _Named:
    """Writes the names of events instead of their ids."""

    def __init__(self, events: Sequence[Json], labels: dict[str, str]) -> None:
        self._labels = {fold(event_id): label for event_id, label in labels.items()}
        kinds = "|".join(sorted({re.escape(event["event_type"] or "event") for event in events}))
        ids = "|".join(sorted(map(re.escape, labels), key=len, reverse=True))
        self._pattern = re.compile(rf"(?<![\w-])(?:(?:{kinds}) )?({ids})(?![\w-])", re.IGNORECASE) if labels else None

    def __call__(self, text: str) -> str:
        return self._pattern.sub(lambda found: self._labels[fold(found[1])], text) if self._pattern else text


def _entry(entry: Json, text: str, label: str) -> Json:
    """A row of what happened in order. An event is not named twice."""
    is_bad = entry["kind"] in ("person", "failure")
    return {"time": entry["time"], "host": entry["host"] or "", "text": text, "event": "" if label in text else label, "is_bad": is_bad}


def _entry_words(entry: Json, event_types: dict[str, str | None]) -> str:
    text: str = entry["text"]
    if "state" in entry:
        text = f"{WORDS[entry['state']]}: {entry['reason']}"
    elif "outcome" in entry:
        kind = event_types.get(entry["event_id"]) or "event"
        why = f": {entry['reason']}" if entry.get("reason") else ""
        text = f"{kind} {entry['event_id']}: {OUTCOME_WORDS.get(entry['outcome'], entry['outcome'])}{why}"
    return text


def _status(run: Json, events: Sequence[Json], hosts: Sequence[Json], labels: dict[str, str]) -> tuple[str, bool, list[str]]:
    """How the run ended, whether that is bad, and what the reader should do."""
    out = [host["name"] for host in hosts if is_out(host)]
    stay = f" Until then {listed(out)} may still be out of service." if out else " No host was out of service."
    again = "start handle_events again with the same targets. It continues where this one stopped."
    persons = [f"{host['name']} needs a person: {_reason(host['states'][-1])}" for host in hosts if _state(host) == "needs_person"]
    persons = persons[:MOST_SENTENCES] + ([f"{len(persons) - MOST_SENTENCES} more hosts need a person."] if len(persons) > MOST_SENTENCES else [])
    open_events = [labels[event["event_id"]] for event in events if event["outcome"] in (None, IN_PROGRESS)]
    if not run["finished"]:
        words = f"This run has not finished (last written {Times.at(run['updated'])}): it still goes on, or it was killed."
        return words, True, [*persons, f"If there is a later report of these hosts, read that one. If there is none and no run goes on, {again}{stay}"]
    if run["failed"]:
        return "The run failed.", True, [*persons, f"When the cause below is mended, {again}{stay}"]
    if open_events:
        words = f"The run ended, but {listed(open_events)} {'is' if len(open_events) == 1 else 'are'} not over."
        return words, True, [*persons, f"Unless a schedule or a watcher starts the next run, {again}{stay}"]
    others = [host["name"] for host in hosts if _state(host) not in SERVING]
    if others:
        return "The run came to its end.", True, [*persons, f"Look at {listed(others)}: not back in service when the run ended."]
    return "Nothing to do: " + ("every event is over, and every host is in service." if events else "no event named any of the hosts."), False, []


def _state(host: Json) -> str:
    return host["states"][-1]["state"] if host["states"] else "in_service"


def _reason(state: Json) -> str:
    return state["reasons"][-1]["reason"] if state["reasons"] else ""


def _of_all(hosts: Sequence[Json], run: Json) -> Iterator[str]:
    """What is told of all hosts together: how many were out at once, and what the report cannot tell."""
    spans = [span for host in hosts for span in host["out"]]
    if not spans:
        return
    changes = sorted([(span["from"], 1) for span in spans] + [(span["until"], -1) for span in spans if span["until"] is not None])
    now, most, since = 0, 0, spans[0]["from"]
    for at, change in changes:
        now += change
        if now > most:
            most, since = now, at
    if most < len(hosts):
        verb = "was" if most == 1 else "were"
        yield f"At most {most} of {len(hosts)} hosts {verb} out of service at the same time (first at {Times.at(since)})."
    elif most > 1:
        yield f"{'Both' if most == 2 else f'All {most}'} hosts were out of service at the same time, first at {Times.at(since)}."
    else:
        yield "The only host was out of service."
    begin, end = min(span["from"] for span in spans), max(end_of(span, run["updated"]) for span in spans)
    yield (
        "The collection sees no requests, so it cannot tell whether any was lost. The logs of your load balancers can:"
        f" look from {Times.at(begin)} to {Times.at(end)}."
    )


def _row(host: Json, run: Json, named: Callable[[str], str]) -> Json:
    """A host in the table, and why it took so long."""
    lasted = sum(math.floor(end_of(span, run["updated"])) - math.floor(span["from"]) for span in host["out"])
    words = WORDS.get(_state(host), _state(host))
    if _state(host) not in SERVING:
        words += f": {named(_reason(host['states'][-1]))}"
    return {
        "name": host["name"],
        "resource_name": host["resource_name"] or "",
        "lasted": exact(lasted) if host["out"] else "never",
        "spans": [
            f"{Times.at(span['from'])} to {Times.at(span['until']) or 'now'}" + (" (began before this run)" if span["from"] < run["started"] else "")
            for span in host["out"]
        ],
        "last": f"not back yet: {words}" if is_out(host) else words,
        "waits": [_wait(host, state, run, named) for state in host["states"] if state["state"] not in SERVING],
    }


def _wait(host: Json, state: Json, run: Json, named: Callable[[str], str]) -> Json:
    until = end_of(state, run["updated"])
    is_first = state is host["states"][0] and any(span["from"] < run["started"] for span in host["out"])
    return {
        "from": state["from"],
        "words": WORDS.get(state["state"], state["state"]),
        "lasted": Times.between(state["from"], until) + (" in this run" if is_first else ""),
        "reasons": [{"at": "" if said["at"] <= state["from"] else Times.at(said["at"]), "reason": named(said["reason"])} for said in state["reasons"]],
    }


class _Axis:
    def __init__(self, begin: float, end: float) -> None:
        self._begin, self._end = begin, end

    def x(self, moment: float) -> float:
        """In percent of the width, so that the picture is as wide as the page, and its words are not smaller on a phone."""
        share = (moment - self._begin) / (self._end - self._begin)
        return round(min(1.0, max(0.0, share)) * 100, 2)

    def ticks(self) -> list[Json]:
        span = self._end - self._begin
        step = _step(span, TICKS[-1] * (1 + int(span / TICKS[-1] / 9)))
        first = -(-self._begin // step) * step
        return [_tick(number, self.x(moment), Times.at(moment)) for number, moment in enumerate(_range(first, self._end, step))]


def _tick(number: int, x: float, label: str) -> Json:
    """C(number): which of the ticks it is. On a narrow page every second one has its label."""
    return {"x": x, "label": label if x <= LAST_LABEL else "", "narrow": number % 2 == 0 and x <= LAST_LABEL_NARROW}


def _step(span: float, otherwise: float) -> float:
    """From one tick to the next."""
    return next((step for step in TICKS if span / step <= 9), otherwise)


def _range(first: float, last: float, step: float) -> Iterator[float]:
    while first <= last:
        yield first
        first += step


def _lane(axis: _Axis, number: int, host: Json, updated: float, events: Sequence[_Event]) -> Json:
    bars = []
    for state in host["states"]:
        until = end_of(state, updated)
        x = axis.x(state["from"])
        title = f"{WORDS.get(state['state'], state['state'])}, {Times.at(state['from'])} to {Times.at(until)}: {_reason(state)}"
        # A state that has just begun is seen, too.
        width = max(0.4, round(axis.x(until) - x, 2))
        bars.append({"state": state["state"], "x": min(x, 100 - width), "width": width, "title": title})
    out = []
    for span in host["out"]:
        until = end_of(span, updated)
        title = f"out of its load balancer for {Times.between(span['from'], until)}"
        out.append({"x1": axis.x(span["from"]), "x2": axis.x(until), "title": title})
    marks = [mark for event in events if host["name"] in event.hosts for mark in event.marks(axis)]
    name = host["name"] if len(host["name"]) <= LONG_NAME else host["name"][: LONG_NAME - 1] + "\u2026"
    return {"y": TOP + LANE * number, "name": name, "bars": bars, "out": out, "marks": marks}


class _Event:
    """An event in words. C(earlier): what the run said of it that this one continues. C(events): all events of the run."""

    def __init__(self, event: Json, label: str, earlier: Json, hosts: Iterable[Json], events: Sequence[Json]) -> None:
        self._event, self._label, self._earlier = event, label, earlier
        self._before = event.get("before_run") or ()
        self.hosts = set(event["hosts"])
        self._mine = [host for host in hosts if host["name"] in self.hosts]
        out = {host["name"]: shares(host, events).get(event["event_id"]) for host in self._mine}
        self._out = {name: spans for name, spans in out.items() if spans}

    def _known(self, field: str) -> float | None:
        """A moment as this run knows it, or the run before."""
        earlier: float | None = self._earlier.get(field)
        mine: float | None = self._event[field]
        return earlier if earlier is not None else mine

    def _not_before(self) -> tuple[float | None, str]:
        """When it may start, by the service's clock, and what to know of that."""
        own, ahead = seconds(self._event["not_before"]), self._event.get("service_ahead") or 0.0
        if own is not None:
            return own, f"the service's clock is {abs(ahead):g} s {'ahead' if ahead > 0 else 'behind'}" if abs(ahead) >= CLOCKS_DIFFER else ""
        told = seconds(self._earlier.get("not_before"))
        return told, BY_EARLIER if told is not None else "it had started" if self._event["started"] is not None else ""

    def sentence(self) -> str:
        """An event in one sentence, and more where a host was slow."""
        parts = [self._seen(), *filter(None, [self._approved(), self._over()])]
        if self._out:
            parts.append("out of service: " + listed([f"{name}{_out_for(spans)}" for name, spans in self._out.items()]))
        return f"{self._label}: {'; '.join(parts)}. Outcome: {self._outcome(self._event.get('unapproved'))}." + "".join(self._late())

    def _outcome(self, why: str | None = None) -> str:
        outcome = self._event["outcome"] or "unknown"
        return outcome_words(OUTCOME_WORDS.get(outcome, outcome), self._event["hosts"], why, self._event["description"])

    def _seen(self) -> str:
        if self._earlier.get("seen") is not None:
            return f"an earlier run saw it at {Times.at(self._earlier['seen'])}"
        if "seen" in self._before:
            return f"it was there already when this run first looked at {Times.at(self._event['seen'])}"
        return f"seen at {Times.at(self._event['seen'])}"

    def _approved(self) -> str:
        event, seen, at = self._event, self._known("seen"), self._known("approved")
        if at is None:
            if "approved" in self._before:
                return "approved before this run began"
            if event["outcome"] == CANCELLED:
                return f"withdrawn by Azure before it was approved, noticed at {Times.at(event['gone'])}"
            if event["outcome"] in (None, IN_PROGRESS):
                return "not approved yet"
            return "not approved by us" if event["outcome"] == NOT_APPROVED else "this run knows of no approval"
        words = f"approved at {Times.at(at)}" + (" by the earlier run" if self._earlier.get("approved") is not None else "")
        is_whole = seen is not None and at >= seen and ("seen" not in self._before or self._earlier.get("seen") is not None)
        words += f", {Times.between(seen, at)} later" if is_whole and seen is not None else ""
        not_before = self._not_before()[0]
        left = None if not_before is None else math.floor(not_before - (event.get("service_ahead") or 0.0)) - math.floor(at)
        return words + (f", {duration(left)} before its NotBefore" if left is not None and left > 0 else "")

    def _over(self) -> str:
        event, started = self._event, self._known("started")
        since = "had started when this run first looked" if "started" in self._before and self._earlier.get("started") is None else ""
        if started is not None and event["gone"] is not None:
            lasted = "" if since else f", after {Times.between(started, event['gone'])}"
            return f"{since or f'started at {Times.at(started)}'} and over at {Times.at(event['gone'])}{lasted}"
        if started is not None:
            return since or f"started at {Times.at(started)}"
        return f"over at {Times.at(event['gone'])}" if event["gone"] is not None and event["outcome"] != CANCELLED else ""

    def _late(self) -> Iterator[str]:
        """For each host that was slow to drain when its time was over, and when it was drained."""
        found = []
        for host in self._mine:
            mine = states_for(host, self._event["event_id"])
            late = next((said["at"] for state in mine for said in state["reasons"] if said.get("kind") == Kind.LATE.value), None)
            if late is not None:
                drained = next((state["from"] for state in mine if state["state"] in DRAINED and state["from"] > late), None)
                limit = f" of {host['drain_limit']:g} s" if host.get("drain_limit") is not None else ""
                end = f"it was drained at {Times.at(drained)}" if drained is not None else "it was not drained"
                if late <= host["states"][0]["from"]:
                    found.append(f" {host['name']} had not drained when this run first looked, and its limit{limit} had passed; {end}.")
                    continue
                found.append(f" {host['name']} had not drained when its limit{limit} passed at {Times.at(late)}; {end}.")
        yield from found[:MOST_SENTENCES]
        if len(found) > MOST_SENTENCES:
            yield f" {len(found) - MOST_SENTENCES} more hosts had not drained in time."

    def cells(self) -> Json:
        """The event as a row of a table."""
        event = self._event
        not_before, about = self._not_before()
        lasts = event["duration_in_seconds"]
        details = [f"source: {event['event_source']}"] if event.get("event_source") else []
        details += [f"expected to last {exact(lasts)}" if lasts is not None and lasts >= 0 else "expected duration not told"]
        return {
            "label": self._label,
            "event_id": event["event_id"],
            "description": event["description"] or "",
            "details": "; ".join(details),
            "seen": self._cell("seen", "first look of this run"),
            "not_before": (Times.at(not_before) or "not told", about),
            "approved": self._cell("approved", "") if self._known("approved") is not None else (self._unknown_approval(), ""),
            "started": self._cell("started", "first look of this run"),
            "gone": (Times.at(event["gone"]), ""),
            "outcome": self._outcome(),
        }

    def _unknown_approval(self) -> str:
        if "approved" in self._before:
            return "before this run"
        return "no" if self._event["outcome"] in (CANCELLED, NOT_APPROVED) else ""

    def _cell(self, field: str, words: str) -> tuple[str, str]:
        if self._earlier.get(field) is not None:
            return Times.at(self._earlier[field]), BY_EARLIER
        return Times.at(self._event[field]), words if field in self._before else ""

    def marks(self, axis: _Axis) -> Iterator[Json]:
        for field, words, kind in (("seen", "appeared", "seen"), ("started", "started", "start"), ("gone", "over", "over")):
            if self._event[field] is not None:
                before = " or before" if field in self._before else ""
                yield {"x": axis.x(self._event[field]), "kind": kind, "title": f"{self._label}: {words} at {Times.at(self._event[field])}{before}"}


def _out_for(spans: Sequence[Json]) -> str:
    ended = [span for span in spans if span["until"] is not None]
    lasted = exact(sum(math.floor(span["until"]) - math.floor(span["from"]) for span in ended))
    if len(ended) < len(spans):
        return (f" for {lasted}, and again" if ended else "") + f" since {Times.at(spans[-1]['from'])}, not back yet"
    return f" for {lasted}"


HEAD = ("type", "events", *MEASURES.values(), "needed a person")


def _rows(found: dict[str, OfType]) -> Iterator[tuple[str, ...]]:
    for name, of_type in found.items():
        told = of_type.as_json()
        outcomes = ", ".join(f"{number} {(outcome or 'unknown').replace('_', ' ')}" for outcome, number in told["outcomes"].items())
        cells = [f"{duration(told[key]['median'])} ({duration(told[key]['worst'])})" if told[key] else "" for key in MEASURES]
        yield (name, f"{told['events']} ({outcomes})", *cells, str(told["needs_person"] or "never"))


def history_lines(found: dict[str, OfType], runs: int) -> Iterator[str]:
    """What many reports say, as lines of a terminal. C(found): see C(history)."""
    events = plural(sum(of_type.events for of_type in found.values()), "event")
    yield f"{events} in the reports of {plural(runs, 'run')}; medians, and the worst in brackets"
    yield from columns([HEAD, *printable(list(_rows(found)))])


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

    def x(value: float) -> float:
        # In percent of the width. A dot at the edge is whole.
        return round(3 + value / most * 94, 2)

    lanes = [
        {"name": printable(name), "y": TOP + LANE * number, "dots": [{"x": x(value), "title": duration(value)} for value in mine]}
        for number, (name, mine) in enumerate(values.items())
    ]
    ticks = [_tick(number, x(value), duration(value)) for number, value in enumerate(_range(0, most, _step(most, most)))]
    return {"title": title[0].upper() + title[1:], "height": TOP + LANE * len(lanes), "lanes": lanes, "ticks": ticks}
