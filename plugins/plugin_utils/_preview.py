# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What check mode says of each event: which rule decides, what will be done, why and when. Private to the collection; pure."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.plugin_utils._words import clock, duration, step
from ansible_collections.graceful.azure.plugins.plugin_utils._world import RESERVE

_ACTIONS = {
    "prepare_and_approve": "out of the balancer and drained, then approved",
    "prepare": "out of the balancer and drained, never approved by us",
    "approve": "approved without preparing",
    "ignore": "left alone",
}


def preview(planned, now):
    """Lines for a person; takes what the action C(plan) returns for the one pass of a run in check mode."""
    events = sorted(planned["memory"]["events"].values(), key=lambda facts: (not facts.get("hosts"), facts.get("not_before_at") or 0, facts["event_id"]))
    unread = planned["unread"]
    if not events:
        return [f"Check mode: nothing is changed. {no_event('No event stands', unread)}", *not_looked_at(planned)]
    lines = ["Check mode: nothing is changed. What would be done:"]
    for facts in events:
        lines.append(f"{facts['event_type'] or 'event'} {facts['event_id']} ({', '.join(facts['resources'])}): {_when(facts, now)}")
        lines.extend(f"    {line}" for line in _event(planned, facts, now))
    return lines + not_looked_at(planned)


def not_looked_at(planned):
    """A line for each host that could not be read, with the reason, where no message tells it already."""
    told = [message.partition(":")[0] for message in planned["messages"]]
    return [f"{name} could not be read: {why}" for name, why in planned["unread"].items() if name not in told]


def no_event(words, unread):
    """That there is none, or that nobody can tell: C(unread) are the hosts whose service was not read."""
    return f"{words}." if not unread else f"Whether an event stands is not known: {', '.join(unread)} could not be read."


def _when(facts, now):
    at = facts.get("not_before_at")
    if facts.get("recalled") or facts.get("hosts") and "rule" not in facts:
        return "over, known only by what is still held for it"
    if facts["status"] == "Started":
        return "Started"
    return f"{facts['status']}, no NotBefore" if at is None else f"{facts['status']}, not before {_moment(at, now)}"


def _moment(at, now):
    return f"{clock(at, now)} (in {duration(at - now)})" if at > now else f"{clock(at, now)} (past)"


def _event(planned, facts, now):
    """What is said of one event, below its headline."""
    if not facts.get("hosts"):
        return ["names none of the targets: left alone"]
    lines = []
    if "rule" in facts:
        lines.extend(_rule(planned, facts, now))
    (told,) = [event for event in planned["events"] if event["event_id"] == facts["event_id"]]
    for name, said in told["hosts"].items():
        lines.append(f"{name}: {said['state']}: {said['reason']}")
        decision = planned["hosts"][name]
        if decision["step"] and facts["event_id"] in decision["step"]["event_ids"]:
            lines[-1] += f"; next it {step(decision['step'])}" if decision["step"]["role"] != "drain_host" else f"; next {step(decision['step'])}"
        # A host in several events tells the time of the most pressing one.
        if decision["until"] and decision["event"] and decision["event"].endswith(f" {facts['event_id']}"):
            lines[-1] += f"; until {_moment(decision['until'], now)}"
    return lines


def _rule(planned, facts, now):
    """Which rule decides, and all that follows from it."""
    if facts.get("mistake"):
        return [facts["mistake"]]
    settings = planned["settings"][facts["hosts"][0]]
    rule = facts["rule"]
    what = _ACTIONS[rule["action"]]
    because = f" (when: {rule['when']})" if rule["when"] else " (no other rule is met)" if rule["name"].startswith("built-in: ") else " (for every event)"
    lines = [f"rule {rule['name']!r} decides{because}: {what}"]
    if facts.get("unasked"):
        lines.insert(0, facts["unasked"])
    if rule["action"] == "ignore":
        return lines
    if facts["status"] == "Started":
        return [*lines, "it has started: nothing is left to approve, hosts go back when it is gone"]
    at = facts["not_before_at"]
    prepares = rule["action"] != "approve"
    if prepares:
        begins = None if rule["lead_time"] is None or at is None else at - rule["lead_time"]
        lines.append(f"preparing begins {'at once' if begins is None or begins <= now else _moment(begins, now)}")
        if at is not None:
            lines[-1] += f"; deadline {clock(at - RESERVE, now)}"
    if rule["action"] != "prepare":
        if prepares:
            approved = "when all of its hosts are ready"
            approved += ", or not drained in time (on_drain_timeout: approve)" if rule["on_drain_timeout"] == "approve" else "; never, if not drained in time"
            lines.append(f"approved {approved}")
        strangers = _strangers(planned, facts)
        if strangers and settings["unknown_resources"] != "ignore":
            if prepares:
                lines.pop()
            lines.append(f"not approved by us: {', '.join(strangers)} is none of the targets (graceful_azure_unknown_resources: hold)")
        elif strangers:
            lines.append(f"{', '.join(strangers)} is none of the targets and not asked (graceful_azure_unknown_resources: ignore)")
    return lines


def _strangers(planned, facts):
    known = set()
    for name in facts["hosts"]:
        told = planned["memory"]["hosts"].get(name) or {}
        known.add((told.get("resource_name") or planned["settings"][name]["resource_name"] or "").lower())
    return [name for name in facts["resources"] if name.lower() not in known]
