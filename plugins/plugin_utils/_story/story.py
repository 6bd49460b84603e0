# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What happened in a run: it is put together pass by pass, while the run goes on or later from its journal. Pure.

A story is JSON. Its schema is C(docs/report.schema.json). All moments are Unix seconds by the controller's clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ansible_collections.graceful.azure.plugins.module_utils._events import COMPLETED, IN_PROGRESS, NOT_APPROVED, SERVING
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold
from ansible_collections.graceful.azure.plugins.plugin_utils._comparable import comparable
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import seconds
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.ending import outcome_words
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import label_of
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.steps import step_words
from ansible_collections.graceful.azure.plugins.plugin_utils._replay import is_moment
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json

Story = Json
"""A story as it grows, see C(begin)."""
PassLine = Json
"""A pass as a line of the journal has it."""
Report = Json
"""A story as it is written, see C(as_report)."""
VERSION = 1
MOST_REASONS = 50
"""How many reasons are kept for one state of a host. A host that waits for days must not fill the memory."""
TOO_EARLY = 1.0
"""Seconds by which a time in a record may be too early."""
OF_MEMORY = {
    "event_type": "event_type",
    "event_source": "event_source",
    "resources": "resources",
    "description": "description",
    "duration_in_seconds": "duration_in_seconds",
    "not_before": "not_before",
    "seen": "first_seen",
    "approved": "approved_at",
    "started": "seen_started",
    "gone": "gone_at",
}
"""The fields of an event in the story, and what the memory of the plan calls them."""
TOLD = {"seen": "appeared", "approved": "was approved", "started": "started", "gone": "is over"}
"""What is told when a moment of an event becomes known."""
TOLD_BEFORE = {"seen": "was there already", "started": "had started already"}
"""The same, where it was so before the run looked."""


def begin(run: Json, names: Iterable[str], continues: Json | None = None) -> Story:
    """A story in which nothing has happened yet.

    C(run): the settings of the run, as the document of a pass has them. C(continues): see C(continued).
    """
    return {
        "version": VERSION,
        "run": {"started": run["started"], "updated": run["started"], "passes": 0, "check": bool(run.get("check")), "finished": False, "failed": False,
                "messages": [], "continues": continues},
        "hosts": {name: _no_host() for name in names},
        "events": {},
        "entries": [],
        "steps": {},
        "tried": [],
    }  # fmt: skip


def _no_host() -> Json:
    return {"resource_name": None, "drain_limit": None, "states": [], "out": []}


def check_version(report: Report) -> None:
    """Raises C(ValueError) if another release wrote it."""
    if report["version"] != VERSION:
        raise ValueError(f"it has version {report['version']!r}, and this release reads {VERSION}")


def continued(name: str, report: Report, names: Iterable[str]) -> Json | None:
    """What a run that begins takes over from a report: nothing if that run has finished, or if none of its events was in progress.

    C(name): of the page of the report. C(names): the targets of the new run. Raises C(KeyError), C(TypeError), C(ValueError), C(IndexError) or
    C(AttributeError) if this is no report.
    """
    check_version(report)
    run, targets = report["run"], set(names)
    events = [event for event in report["events"] if event["outcome"] == IN_PROGRESS and targets.intersection(event["hosts"])]
    if run["finished"] or not events:
        return None
    out = [host["name"] for host in report["hosts"] if host["name"] in targets and is_out(host)]
    return {
        "report": name,
        "started": _moment(run["started"]),
        "updated": _moment(run["updated"]),
        "out": out,
        "events": [
            {
                "event_id": str(event["event_id"]),
                **{field: None if event[field] is None else _moment(event[field]) for field in ("seen", "approved", "started")},
                "not_before": event["not_before"] if isinstance(event["not_before"], str) and seconds(event["not_before"]) is not None else None,
            }
            for event in events
        ],
    }


def _moment(found: Any) -> float:
    if not is_moment(found):
        raise ValueError(f"{found!r} is no time in Unix seconds")
    return float(found)


def add(story: Story, passed: PassLine, memory: Json) -> bool:
    """Add a pass; returns whether it brought anything new.

    C(passed): the pass as a line of the journal has it. C(memory): what the plan remembers after it.
    """
    now, run = passed["time"], story["run"]
    former = run["updated"]
    run.update(updated=now, passes=passed["pass"])
    before = len(story["entries"])
    results = passed["world"].get("results") or {}
    settings = passed["world"].get("settings") or {}
    remembered = memory.get("events") or {}
    # The cause stands before what follows from it: what was done, what is known of the events, and the states that follow.
    for name, decision in passed["hosts"].items():
        host = story["hosts"].setdefault(name, _no_host())
        of_host = (memory.get("hosts") or {}).get(name) or {}
        host["resource_name"] = of_host.get("resource_name") or host["resource_name"]
        host["drain_limit"] = ((settings.get(name) or {}).get("drain_host") or {}).get("timeout")
        held = held_since(name, passed, memory)
        if (story["steps"].get(name) or {}).get("role") == "load_balancer":
            # This run took it out after the former pass. Records have whole seconds.
            held = {key: max(since, former) if since > former - TOO_EARLY else since for key, since in held.items()}
        _add_act(story, name, results.get(name) or {}, passed, held, remembered)
        _add_out(host, decision, {} if of_host.get("in_rotation") else held, now)
    _add_events(story, passed, remembered)
    for name, decision in passed["hosts"].items():
        _add_state(story, name, story["hosts"][name], decision, now)
    _add_outcomes(story, passed, remembered)
    return len(story["entries"]) > before


def end(story: Story, finished: bool, failed: bool, messages: Iterable[str]) -> None:
    """Note how the run stands. C(messages): why it would fail if it ended now."""
    story["run"].update(finished=finished, failed=failed, messages=list(messages))


def held_since(name: str, passed: PassLine, memory: Json) -> dict[str, float]:
    """Per event for which a host is out, since when it is. The plan also remembers the events that are over, and an event lasts until its last host is back."""
    unfinished = {
        fold(told["event_id"])
        for told in passed["events"]
        if told["outcome"] == IN_PROGRESS and told["hosts"].get(name, {}).get("state", "restored") not in SERVING
    }
    known = ((memory.get("hosts") or {}).get(name) or {}).get("held_since") or {}
    return {key: since for key, since in known.items() if key in unfinished}


def standing_event(decision: Json) -> str | None:
    """The id of the event that a decision tells of, if it still stands."""
    standing: list[str] = decision.get("events") or []
    event_id: str | None = decision.get("event_id", next(iter(standing), None))
    return event_id if event_id in standing else None


def _entry(story: Story, at: float, kind: str, text: str, host: str | None = None, event_id: str | None = None, **more: str) -> None:
    """C(more): C(state) or C(outcome), and C(reason), of which the text is made."""
    story["entries"].append({"time": at, "kind": kind, "host": host, "event_id": event_id, "text": text, **more})


def _add_act(story: Story, name: str, results: Json, passed: PassLine, held: dict[str, float], remembered: dict[str, Json]) -> None:
    """The step that was decided in the former pass, with the result that this pass was planned from."""
    step = story["steps"].pop(name, None)
    if passed["hosts"][name].get("step"):
        story["steps"][name] = passed["hosts"][name]["step"]
        if story["steps"][name]["role"] == "approve_event":
            story["tried"] = sorted({*story["tried"], *story["steps"][name]["event_ids"]})
    if not step:
        return
    failure = results.get("failure") or {}
    result = results.get(step["role"]) or {}
    words = step_words(step)
    for event_id in step["event_ids"] or [None]:
        if failure.get("pass") == passed["pass"] - 1:
            _entry(story, passed["time"], "failure", f"{words}: failed: {failure.get('message')}", name, event_id)
        elif result.get("changed") or result.get("done"):
            reason = f": {result['reason']}" if result.get("reason") else ""
            text = f"{words}{reason}"
            known = [entry["text"] for entry in story["entries"] if entry["kind"] == "act" and (entry["host"], entry["event_id"]) == (name, event_id)]
            if text not in known[-1:]:
                _entry(story, _done_at(story, step, event_id, passed["time"], held, remembered), "act", text, name, event_id)


def _done_at(story: Story, step: Json, event_id: str | None, now: float, held: dict[str, float], remembered: dict[str, Json]) -> float:
    """When a step was done: before this pass began, and where the plan knows it better, at that time."""
    key = fold(event_id or "")
    if (step["role"], step["state"]) == ("load_balancer", "out"):
        since = held.get(key, now)
        return since if story["run"]["started"] <= since <= now else now
    if step["role"] == "approve_event":
        return _not_after_start(now, remembered.get(key) or {})
    return now


def _not_after_start(approved: float, of_memory: Json) -> float:
    """What has started can no longer be approved, so an approval that a pass learns of together with the start was not later than that."""
    started = of_memory.get("seen_started")
    return approved if started is None else min(approved, started)


def _add_state(story: Story, name: str, host: Json, decision: Json, now: float) -> None:
    states, event_id = host["states"], standing_event(decision)
    last = states[-1] if states else None
    started = (story["events"].get(event_id) or {}).get("started") if decision["state"] == "started" else None
    if last and started is not None:
        # The look saw the start before this pass was planned.
        now = min(now, max(started, last["from"]))
    if last is None or (last["state"], last["event_id"]) != (decision["state"], event_id):
        if last:
            last["until"] = now
        states.append({"state": decision["state"], "event_id": event_id, "from": now, "until": None, "reasons": []})
        if last or decision["state"] not in SERVING:
            kind = "person" if decision["state"] == "needs_person" else "state"
            text = f"{decision['state']}: {decision['reason']}"
            _entry(story, now, kind, text, name, event_id, state=decision["state"], reason=decision["reason"])
    reasons, kind = states[-1]["reasons"], decision.get("kind") or ""
    if (not reasons or comparable(reasons[-1]["reason"]) != comparable(decision["reason"])) and len(reasons) < MOST_REASONS:
        reasons.append({"at": now, "reason": decision["reason"], "kind": kind})


def _add_out(host: Json, decision: Json, held_since: dict[str, float], now: float) -> None:
    """Since when a host is out of its balancers, and until when it was. C(held_since): empty as long as a balancer may send it requests."""
    if decision["state"] in SERVING:
        if is_out(host):
            host["out"][-1]["until"] = now
    elif held_since and not is_out(host):
        host["out"].append({"from": min(held_since.values()), "until": None})


def is_out(host: Json) -> bool:
    """Whether a host was out of its balancers when its report was written last."""
    return bool(host["out"]) and host["out"][-1]["until"] is None


def end_of(span: Json, updated: float) -> float:
    """The end of a state of a host, or of a time out; if it goes on, when the report was written last."""
    end: float | None = span["until"]
    return updated if end is None else end


def _add_events(story: Story, passed: PassLine, remembered: dict[str, Json]) -> None:
    now = passed["time"]
    for told in passed["events"]:
        event_id = told["event_id"]
        of_memory = remembered.get(fold(event_id)) or {}
        event = story["events"].setdefault(event_id, {"event_id": event_id, "outcome": None, "hosts": {}, "before_run": [], **dict.fromkeys(OF_MEMORY)})
        known = {field: event[field] for field in TOLD}
        found = {field: of_memory[key] for field, key in OF_MEMORY.items() if of_memory.get(key) is not None}
        if passed["pass"] == 1 or event["seen"] is None and of_memory.get("recalled"):
            event["before_run"] += [field for field in ("seen", "started") if found.get(field) is not None]
        if found.get("started") is not None and found.get("seen") is not None:
            found["started"] = max(found["started"], found["seen"])  # it may have been read before the pass that counts as the first
        _take_approval(event, found, of_memory)
        event.update(found)
        event["service_ahead"] = _service_ahead(of_memory, event.get("service_ahead"))
        if event["gone"] is None and told["outcome"] != IN_PROGRESS:
            event["gone"] = now
        for field, words in TOLD.items():
            if known[field] is None and event[field] is not None:
                said = TOLD_BEFORE[field] if field in event["before_run"] else words
                _entry(story, event[field], "event", f"{label(event)} {said}", None, event_id)


def label(event: Json) -> str:
    """What an event is called in sentences."""
    return label_of(event["event_type"], event["event_id"], event["description"])


def approval_is_known(event: Json) -> bool:
    """Whether an event was approved, as far as this run knows, by whomever."""
    return event["approved"] is not None or "approved" in event["before_run"]


def _take_approval(event: Json, found: Json, of_memory: Json) -> None:
    """The first approval counts. One that the plan knows from a record alone has no time."""
    at = found.pop("approved", None)
    if approval_is_known(event):
        return
    if of_memory.get("approved_before"):
        event["before_run"].append("approved")
    elif at is not None:
        found["approved"] = _not_after_start(at, of_memory)


def _add_outcomes(story: Story, passed: PassLine, remembered: dict[str, Json]) -> None:
    for told in passed["events"]:
        event = story["events"][told["event_id"]]
        if told["outcome"] != IN_PROGRESS and event["outcome"] != told["outcome"]:
            why = (remembered.get(fold(told["event_id"])) or {}).get("unapproved") if told["outcome"] == NOT_APPROVED else None
            event["unapproved"] = why
            text = f"{label(event)}: {outcome_words(told['outcome'], told['hosts'], why, event['description'])}"
            _entry(story, passed["time"], "outcome", text, None, told["event_id"], outcome=told["outcome"], **({"reason": why} if why else {}))
            # A run that was killed while it approved has left a record that does not say whether it did. The outcome says that it did.
            began = (remembered.get(fold(told["event_id"])) or {}).get("approving") and told["outcome"] == COMPLETED
            if began and not approval_is_known(event) and told["event_id"] not in story["tried"]:
                event["before_run"].append("approved")
        event.update(outcome=told["outcome"], hosts=told["hosts"])


def _service_ahead(of_memory: Json, known: float | None) -> float | None:
    """How many seconds the metadata service's clock is ahead of the controller's, as far as C(NotBefore) tells it."""
    written, here = seconds(of_memory.get("not_before")), of_memory.get("not_before_at")
    return known if written is None or here is None else round(written - here, 1)


def shares(host: Json, events: Iterable[Json]) -> dict[str, list[Json]]:
    """Per event of a report when a host of it was out for that event. What is out for several events at once counts once.

    Such a time is that of the event that appeared first, until that one is over. Then it is that of the next. Bringing the host back belongs to the event
    that was over before, until another one appears.
    """
    found: dict[str, list[Json]] = {}
    mine = sorted((event for event in events if host["name"] in event["hosts"]), key=lambda event: event["seen"] or 0)
    for span in host["out"]:
        at, left = span["from"], [event for event in mine if _touches(span, event)]
        while left:
            first = left.pop(0)
            left = [event for event in left if first["gone"] is not None and _ends_after(event, first["gone"])]
            until = max(at, first["gone"], left[0]["seen"] or 0) if left else span["until"]
            if until is None or until > at:
                found.setdefault(first["event_id"], []).append({"from": at, "until": until})
                at = until
    return found


def states_for(host: Json, event_id: str) -> list[Json]:
    """The states in which a host of a report was for an event."""
    return [state for state in host["states"] if fold(state["event_id"] or "") == fold(event_id)]


def _touches(span: Json, event: Json) -> bool:
    """Whether the host was out at any time at which the event stood."""
    return _ends_after(event, span["from"]) and (event["seen"] is None or span["until"] is None or span["until"] >= event["seen"])


def _ends_after(event: Json, moment: float) -> bool:
    return event["gone"] is None or event["gone"] >= moment


def as_report(story: Story) -> Report:
    """What is written for people and programs: the entries in the order of time, and for how long each host was out."""
    found = {key: value for key, value in story.items() if key not in ("steps", "tried", "events", "hosts")}
    found["entries"] = sorted(story["entries"], key=lambda entry: entry["time"])
    found["events"] = sorted(story["events"].values(), key=lambda event: (event["seen"] is None, event["seen"]))
    found["hosts"] = [
        {"name": name, **host, "seconds_out": round(sum(end_of(span, story["run"]["updated"]) - span["from"] for span in host["out"]), 1)}
        for name, host in story["hosts"].items()
    ]
    return found
