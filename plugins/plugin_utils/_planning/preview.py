# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What does check mode say about each event: which rule decides, what will be done, why and when? Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping

from ansible_collections.graceful.azure.plugins.module_utils._spellings import listed
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.approval import begins
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.candidates import Decided
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import Event
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.judgement import maintenance
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.observation import Observed
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.status import Decision, Statuses
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.steps import step_words
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.verdicts import Kind, words
from ansible_collections.graceful.azure.plugins.plugin_utils._rules import BUILT_IN, KEPT, Rule
from ansible_collections.graceful.azure.plugins.plugin_utils._text import clock, duration

_ACTIONS = {
    "prepare_and_approve": "out of the balancer and drained, then approved",
    "prepare": "out of the balancer and drained, never approved by us",
    "approve": "approved without preparing",
    "ignore": "left alone",
}

NAMED = 10
"""Up to so many hosts are named. More are counted."""


def preview(decided: Decided, statuses: Statuses, decisions: Mapping[str, Decision], unread: Iterable[str]) -> list[str]:
    """Lines for a person, for the last pass of a run in check mode. C(unread): the hosts whose service was not read."""
    observed = decided.observed
    events = sorted(observed.events.values(), key=lambda event: (not event.hosts, event.not_before_at or 0, event.event_id))
    if not events:
        return [f"Check mode: nothing is changed. {no_event('No event stands', unread)}{_looked_at(observed)}", *_counted(observed)]
    lines = ["Check mode: nothing is changed. What would be done:"]
    for event in events:
        lines.append(f"{event.label} ({', '.join(event.resources)}): {_when(event, observed.now)}")
        lines.extend(f"    {line}" for line in _event(decided, statuses, decisions, event))
    return [*lines, *_counted(observed)]


def _looked_at(observed: Observed) -> str:
    """A sentence: which machines this look has read."""
    hosts = [host for host in observed.hosts.values() if host.was_read]
    names = [host.name for host in hosts] if len(hosts) <= NAMED else [f"{len(hosts)} hosts"]
    balancers = dict.fromkeys(place.machine for host in hosts for place in host.places if place.machine and place.machine not in observed.hosts)
    return f" Looked at: {', '.join([*names, *balancers])}." if hosts else ""


def _counted(observed: Observed) -> Iterator[str]:
    """Lines about the ports whose connections are counted: because a balancer leads there (those that the settings name are no news), or for several hosts."""
    alike: dict[tuple[str, str], list[str]] = {}
    counting: dict[tuple[str | None, int], list[str]] = {}
    for host in observed.hosts.values():
        for port in host.ports if host.network else ():
            counting.setdefault((host.network, port), []).append(host.name)
        if host.ports and host.is_told_its_ports:
            leading = dict.fromkeys(place.machine for place in host.places if not place.ports.isdisjoint(host.ports))
            ports = f"port{'s' if len(host.ports) > 1 else ''} {', '.join(map(str, host.ports))}"
            alike.setdefault((ports, ", ".join(leading) or "its balancer"), []).append(host.name)
    for (ports, balancers), names in alike.items():
        leads = f"{balancers} {'send' if ', ' in balancers else 'sends'} requests there"
        yield f"{', '.join(names)}: clients are counted on {ports}, because {leads} (graceful_azure_ports would choose others)"
    # Without its addresses, nobody knows which ports are its own. The other types of balancers need the setting.
    unseen = [host for host in observed.hosts.values() if host.is_told_its_ports and not host.ports and host.addresses and not host.blind]
    names = [host.name for host in unseen if any(place.group for place in host.places)]
    if names:
        yield f"{', '.join(names)}: no balancer tells a port of its own, so who connects past the balancers is not seen (set graceful_azure_ports)"
    for (_network, port), names in counting.items():
        if len(names) > 1:
            yield f"{', '.join(names)} are on one machine: on port {port}, each counts the clients of the others, too. Give each a port of its own"


def not_looked_at(unread: Mapping[str, str], told: Collection[str]) -> list[str]:
    """A line for each host that could not be read, unless a message tells of it. C(unread): per host the reason. C(told): the hosts of the messages."""
    return [f"{name} could not be read: {why}" for name, why in unread.items() if name not in told]


def no_event(words: str, unread: Iterable[str]) -> str:
    """The sentence that there is no event, or that this is unknown. C(unread): the hosts whose service was not read."""
    return f"{words}." if not unread else f"Whether an event stands is not known: {', '.join(unread)} could not be read."


def _when(event: Event, now: float) -> str:
    if event.recalled or event.hosts and not event.rule:
        return "over, known only by what is still held for it"
    if event.started:
        return "Started"
    return f"{event.status}, no NotBefore" if event.not_before_at is None else f"{event.status}, not before {_moment(event.not_before_at, now)}"


def _moment(at: float, now: float) -> str:
    return f"{clock(at, now)} (in {duration(at - now)})" if at > now else f"{clock(at, now)} (past)"


def _event(decided: Decided, statuses: Statuses, decisions: Mapping[str, Decision], event: Event) -> Iterator[str]:
    """The lines about one event, below its headline."""
    if not event.hosts:
        yield "names none of the targets: left alone"
    if event.unasked:
        yield event.unasked
    if event.mistake:
        yield event.mistake
    elif event.hosts and event.rule:
        yield from _rule(decided, event, event.rule)
    for name in event.hosts:
        status, decision = statuses[name, event.key], decisions[name]
        step, said = decision["step"], status.why
        more = []
        # That it is approved through another way is a reason, which tells why.
        if step and event.event_id in step["event_ids"] and not step.get("through"):
            # Nothing is being done here. What comes next says the same.
            said = tuple(reason for reason in said if reason.kind is not Kind.ACT)
            if not any(reason.kind is Kind.RECORD for reason in said):
                more.append(f"next {step_words(step)}" if step["role"] == "drain_host" else f"next it {step_words(step)}")
        if event.prepares and not event.started:
            # Whoever works on it hears of the approval now, when it can still be prevented.
            more.extend(reason.text for reason in maintenance(decided.observed.hosts[name]) if reason not in said)
        # A host in several events tells the time of the most urgent one.
        if decision["until"] and decision["event_id"] == event.event_id:
            more.append(f"{decision['until_is']} {_moment(decision['until'], decided.observed.now)}")
        yield f"{name}: {status.state}: {'; '.join(filter(None, [words(said), *more]))}"


def _begins(decided: Decided, event: Event) -> str:
    """When the preparation begins. The line of a host that waits says why and until when."""
    now, hosts = decided.observed.now, decided.observed.members(event)
    at = max((begins(host, event) for host in hosts), default=-math.inf)
    if at > now:
        return f"preparing begins {_moment(at, now)}"
    waiting = [host.name for host in hosts if (host.name, event.key) in decided.waiting and not decided.step(host)]
    if waiting and len(waiting) == len(hosts):
        return "preparing waits, see below"
    begun = all(event.key in host.held_ids for host in hosts if host.name not in waiting)
    others = f"; {listed(waiting)} {'waits' if len(waiting) == 1 else 'wait'}, see below" if waiting else ""
    return f"preparing {'has begun' if begun else 'begins at once'}{others}"


def _because(rule: Rule) -> str:
    """Why a rule decides, as its headline ends."""
    if rule["when"] == KEPT:
        return f", {KEPT}"
    return f" (when: {rule['when']})" if rule["when"] else " (no other rule is met)" if rule["name"] in BUILT_IN else " (for every event)"


def _rule(decided: Decided, event: Event, rule: Rule) -> Iterator[str]:
    """Which rule decides, and what follows from it."""
    now = decided.observed.now
    is_past = event.started and rule["action"] != "ignore"
    decides = "decided" if rule["when"] == KEPT else "has decided" if is_past else "decides"
    headline = f"rule {rule['name']!r} {decides}{_because(rule)}"
    if is_past:
        yield headline
        yield "nothing is left to approve, hosts go back when the event is gone"
        return
    yield f"{headline}: {_ACTIONS[rule['action']]}"
    if rule["action"] == "ignore":
        return
    if event.prepares:
        ready_by = "" if event.deadline is None else f"; to be ready by {clock(event.deadline, now)}"
        yield f"{_begins(decided, event)}{ready_by}"
    approval = decided.approvals.get(event.key)
    if not event.asks_approval or not approval:
        return
    stranger = approval.about(Kind.STRANGER)
    if stranger:
        yield f"{stranger.text} (graceful_azure_unknown_resources: hold)"
        return
    if event.prepares:
        late = (
            ", or not drained in time (on_drain_timeout: approve)"
            if rule["on_drain_timeout"] == "approve"
            else "; if one is not drained in time, it goes on draining, and the event is approved once it is idle"
        )
        yield f"approved when all of its hosts are ready{late}"
    if event.strangers:
        yield f"{', '.join(event.strangers)} is none of the targets and not asked (graceful_azure_unknown_resources: ignore)"
