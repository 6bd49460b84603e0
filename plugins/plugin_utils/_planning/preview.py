# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What does check mode say about each event: which rule decides, what will be done, why and when? Private to the collection; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ansible_collections.graceful.azure.plugins.plugin_utils._planning.memory import EventMemory, Memory, read_memory
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.steps import step_words
from ansible_collections.graceful.azure.plugins.plugin_utils._rules import Rule
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.events import RESERVE
from ansible_collections.graceful.azure.plugins.plugin_utils._text import clock, duration
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json

_ACTIONS = {
    "prepare_and_approve": "out of the balancer and drained, then approved",
    "prepare": "out of the balancer and drained, never approved by us",
    "approve": "approved without preparing",
    "ignore": "left alone",
}


def preview(planned: Json, now: float) -> list[str]:
    """Lines for a person, made from what the action C(plan) returns for the one pass of a run in check mode."""
    memory = read_memory(planned["memory"], planned["settings"])
    events = sorted(memory.events.values(), key=lambda event: (not event.hosts, event.not_before_at or 0, event.event_id))
    if not events:
        return [f"Check mode: nothing is changed. {no_event('No event stands', planned['unread'])}", *not_looked_at(planned)]
    lines = ["Check mode: nothing is changed. What would be done:"]
    for event in events:
        lines.append(f"{event.event_type or 'event'} {event.event_id} ({', '.join(event.resources)}): {_when(event, now)}")
        lines.extend(f"    {line}" for line in _event(planned, memory, event, now))
    return lines + not_looked_at(planned)


def not_looked_at(planned: Json) -> list[str]:
    """A line with the reason for each host that could not be read, unless a message tells it already."""
    return [f"{name} could not be read: {why}" for name, why in planned["unread"].items() if name not in planned["told"]]


def no_event(words: str, unread: Iterable[str]) -> str:
    """The sentence that there is no event, or that this is unknown. C(unread): the hosts whose service was not read."""
    return f"{words}." if not unread else f"Whether an event stands is not known: {', '.join(unread)} could not be read."


def _when(event: EventMemory, now: float) -> str:
    if event.recalled or event.hosts and not event.rule:
        return "over, known only by what is still held for it"
    if event.status == "Started":
        return "Started"
    return f"{event.status}, no NotBefore" if event.not_before_at is None else f"{event.status}, not before {_moment(event.not_before_at, now)}"


def _moment(at: float, now: float) -> str:
    return f"{clock(at, now)} (in {duration(at - now)})" if at > now else f"{clock(at, now)} (past)"


def _event(planned: Json, memory: Memory, event: EventMemory, now: float) -> list[str]:
    """The lines about one event, below its headline."""
    if not event.hosts:
        return ["names none of the targets: left alone"]
    lines = list(_rule(planned, memory, event, event.rule, now)) if event.rule else []
    (told,) = [entry for entry in planned["events"] if entry["event_id"] == event.event_id]
    for name, said in told["hosts"].items():
        line = f"{name}: {said['state']}: {said['reason']}"
        decision = planned["hosts"][name]
        step = decision["step"]
        if step and event.event_id in step["event_ids"]:
            line += f"; next {step_words(step)}" if step["role"] == "drain_host" else f"; next it {step_words(step)}"
        # A host in several events tells the time of the most urgent one.
        if decision["until"] and decision["event_id"] == event.event_id:
            line += f"; until {_moment(decision['until'], now)}"
        lines.append(line)
    return lines


def _rule(planned: Json, memory: Memory, event: EventMemory, rule: Rule, now: float) -> Iterator[str]:
    """Which rule decides, and what follows from it."""
    if event.mistake:
        yield event.mistake
        return
    if event.unasked:
        yield event.unasked
    because = f" (when: {rule['when']})" if rule["when"] else " (no other rule is met)" if rule["name"].startswith("built-in: ") else " (for every event)"
    yield f"rule {rule['name']!r} decides{because}: {_ACTIONS[rule['action']]}"
    if rule["action"] == "ignore":
        return
    if event.status == "Started":
        yield "it has started: nothing is left to approve, hosts go back when it is gone"
        return
    at, prepares = event.not_before_at, rule["action"] != "approve"
    if prepares:
        begins = None if rule["lead_time"] is None or at is None else at - rule["lead_time"]
        deadline = "" if at is None else f"; deadline {clock(at - RESERVE, now)}"
        yield f"preparing begins {'at once' if begins is None or begins <= now else _moment(begins, now)}{deadline}"
    if rule["action"] == "prepare":
        return
    strangers = ", ".join(_strangers(planned, memory, event))
    is_held = bool(strangers) and any(planned["settings"][name]["unknown_resources"] != "ignore" for name in event.hosts)
    if prepares and not is_held:
        late = ", or not drained in time (on_drain_timeout: approve)" if rule["on_drain_timeout"] == "approve" else "; never, if not drained in time"
        yield f"approved when all of its hosts are ready{late}"
    if is_held:
        yield f"not approved by us: {strangers} is none of the targets (graceful_azure_unknown_resources: hold)"
    elif strangers:
        yield f"{strangers} is none of the targets and not asked (graceful_azure_unknown_resources: ignore)"


def _strangers(planned: Json, memory: Memory, event: EventMemory) -> list[str]:
    known = {(memory.hosts[name].resource_name or planned["settings"][name]["resource_name"] or "").lower() for name in event.hosts}
    return [name for name in event.resources if name.lower() not in known]
