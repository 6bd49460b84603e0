# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""May this event be approved now, and by whom? Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ansible_collections.graceful.azure.plugins.module_utils._absence import LAG
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.clusters import wait_unprepared
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import Event
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.judgement import (
    PATIENCE,
    Drain,
    drain_until,
    is_borne_with,
    is_fresh,
    readiness,
    silent_for,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.minimum import below_minimum, kept_by, must_yield, nobody_can_count, yields_at
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.observation import Observed
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.steps import Step, step
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.verdicts import Kind, Reason, Verdict, no, reasons
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json

APPROVAL_REPEAT = 60.0
"""Seconds after which an event that this run approved and that has not started is approved again. What an earlier run approved is approved again at once."""
READY = 15.0
"""Seconds for which a host that was found ready counts as ready."""
READY_EACH = 1.0
"""Seconds more for each target: the more targets there are, the later a step begins."""
SILENT = 10.0
"""Seconds for which none of the VMs that an event names must have answered before it is approved from outside."""


def stranger(event: Event, observed: Observed) -> Reason | None:
    """Why the event is not ours to approve, if it names a VM that is no target."""
    if not event.strangers or all(host.settings.unknown_resources == "ignore" for host in observed.members(event)):
        return None
    return Reason(Kind.STRANGER, f"not approved by us: {', '.join(event.strangers)} is none of the targets")


def begins(host: Host, event: Event) -> float:
    """When the preparation of the host for the event may begin, as its rule says."""
    lead_time = event.decided_by["lead_time"]
    if event.started or lead_time is None or event.not_before_at is None or event.key in host.held_ids:
        return -math.inf
    return event.not_before_at - lead_time


def ways_outside(event: Event, observed: Observed) -> list[str]:
    """The names of the ways by which an event may be approved if none of its VMs can send that; empty if that is not wanted for all of them.

    That is only for events for which the hosts are prepared: what is not known to be ready is not approved from outside.
    """
    members = observed.members(event)
    wanted = event.prepares and event.asks_approval and members and all(host.settings.outside for host in members)
    return sorted({host.settings.outside["title"] for host in members if host.settings.outside}) if wanted else []


def is_sent_outside(event: Event, observed: Observed) -> bool:
    """Whether none of the VMs that the event names can send its approval, and it may be sent without them.

    A VM whose own service was read and does not show the event contradicts it. That is a doubt, and no silence.
    """
    silent = all(silent_for(host, observed.now) >= SILENT for host in observed.members(event))
    return silent and bool(ways_outside(event, observed)) and bool(_witnesses(event, observed))


def _witnesses(event: Event, observed: Observed) -> list[str]:
    """The names of the hosts through which the event can be read again."""
    return [name for name in event.shown_by if observed.hosts[name].observation.reached and not observed.hosts[name].fatal]


def _doubt(event: Event, observed: Observed) -> str | None:
    """Why an event whose members are ready cannot be approved yet, because of what is not known of it."""
    if not any(name in event.shown_by for name in event.members) and not is_sent_outside(event, observed):
        names, ways = ", ".join(event.members), " or ".join(ways_outside(event, observed))
        if ways and not any(host.was_read for host in observed.members(event)):
            return f"waits for the metadata service of {names}; if none of them answers for {SILENT:g} s, it is approved through {ways}"
        return f"only a VM that it names can approve it: waits for the metadata service of {names}"
    if len(event.versions) > 1:
        return f"what it is, or whom it names, is told in different ways by {', '.join(event.shown_by)}: waits until it is the same"
    empty = [name for name in event.members if name not in event.confirmed and name in event.answered_empty]
    if empty:
        # The same name may occur in several sets. A host that answers without a document is prepared, but that is no basis for an approval.
        return f"waits for {', '.join(empty)}, whose metadata service answered with an empty body: another VM of that name may be meant"
    unmet = [host.name for host in observed.hosts.values() if host.is_unmet and is_borne_with(host, observed)]
    if unmet and event.prepares:
        return f"waits up to {PATIENCE:g} s for {', '.join(unmet)}, which was not reached yet: it may be one machine with {' or '.join(event.members)}"
    if not event.strangers:
        return None
    strangers = {name.lower() for name in event.strangers}
    since = min([event.first_seen, *(host.held_since.get(event.key, observed.now) for host in observed.members(event))])
    for host in observed.hosts.values():
        if not host.resource_name:
            return f"waits for {host.name}, whose name in Azure may be {' or '.join(event.strangers)} (graceful_azure_resource_name)"
        # A run of one step is too short to see for how long that service has not shown the event, so the age of the event counts. Others wait for C(not_meant).
        has_told = not observed.run.wait and host.tells and host.read_at >= since + LAG and not event.is_on_trust(host) and host.memory.mute_since is None
        if host.resource_name.lower() in strangers and host.name not in event.not_meant and not has_told:
            return f"waits for a later look at {host.name}, which may be {host.resource_name} or another VM of that name"
    return None


@dataclass
class Approvals:
    """The result of judging all events, one after the other."""

    steps: dict[str, Step] = field(default_factory=dict)  # per host: the step by which it approves
    verdicts: dict[str, Verdict] = field(default_factory=dict)  # per event: whether it may be approved in this pass
    waiting: dict[tuple[str, str], Verdict] = field(default_factory=dict)  # per host and event: what an event waits for that is approved without preparation
    was_ready: set[str] = field(default_factory=set)  # the events of which all hosts are ready
    counted_out: set[tuple[str, str]] = field(default_factory=set)  # hosts and events whose time to drain was measured


def approvals(observed: Observed, drains: Mapping[str, Drain], steps: Mapping[str, Step], leaving: Iterable[str], queued: Collection[str]) -> Approvals:
    """Judge each event that stands, and choose one host to approve each that may be approved.

    C(steps): the steps that the hosts have to take besides, by name. C(leaving): names of the hosts that will not serve for long. C(queued): of those whose
    turn in their cluster has not come, so that their time to drain has not begun.
    """
    judged = Approvals()
    leaving = set(leaving)
    # A host approves one event in a pass. Those that are approved already (a run of one step approves them again), and those whose approval has just failed,
    # come last, so that they keep no other from it.
    for event in sorted(observed.events.values(), key=lambda event: (event.approved, event.refused_since is not None)):
        if not event.standing or not event.members:
            continue
        taken = {**steps, **judged.steps}
        why = tuple(_obstacles(event, observed, drains, taken, leaving, queued, judged))
        judged.verdicts[event.key] = Verdict(not why, why or (Reason(Kind.ACT, "is being approved"),))
        members, outside = observed.members(event), is_sent_outside(event, observed)
        if why:
            # While only a doubt is left, each host of an event that is not prepared for tells it.
            only_doubtful = not event.prepares and why[0].kind is Kind.DOUBT
            judged.waiting.update(((host.name, event.key), no(*why, until=event.not_before_at)) for host in members if only_doubtful)
            continue
        # If the attempt of one host has failed, another host tries.
        for host in sorted(members, key=lambda host: host.failure is not None):
            if (outside or host.name in event.shown_by) and (host.name not in taken or taken[host.name].role == "drain_host"):
                leaving.update(event.members if not event.prepares else ())
                ready = [member.resource_name for member in members] + list(event.strangers)
                more: Json = _from_outside(host, event, observed) if outside else {"ready_until": _ready_until(host.clock(observed.now), observed)}
                judged.steps[host.name] = step("approve_event", "approved", [event], ready_resources=ready, **more)
                if outside:
                    judged.verdicts[event.key] = Verdict(True, (_sent_through(more["through"], event),))
                break
    return judged


def _obstacles(
    event: Event,
    observed: Observed,
    drains: Mapping[str, Drain],
    steps: Mapping[str, Step],
    leaving: set[str],
    queued: Collection[str],
    judged: Approvals,
) -> Iterator[Reason]:
    """Why the event may not be approved in this pass, the weightiest reason first. Notes in C(judged) what else follows from that."""
    now, members, outside = observed.now, observed.members(event), is_sent_outside(event, observed)
    never = _never(event, observed)
    yield from never
    if event.status != "Scheduled":
        yield Reason(Kind.STATE, f"its status is {event.status}")
        return
    unready = [host for host in members if event.prepares and not readiness(host, drains[host.name], event, steps.get(host.name), outside).holds]
    # Before the preparation begins, a host is not ready, even if it happens to be out and idle.
    is_early = event.prepares and any(begins(host, event) > now for host in members)
    if event.prepares and not is_early and not unready:
        judged.was_ready.add(event.key)
    if is_early:
        yield Reason(Kind.TIME, f"rule {event.decided_by['name']!r} does not prepare it yet")
    # What is not ready is never approved from outside, whatever a rule says about hosts that are not drained in time.
    if not (outside or never or is_early):
        unready = [host for host in unready if host.name in queued or not _is_timed_out(host, event, now, judged)]
    missing = [host.name for host in members if host.fatal or host in unready]
    if missing:
        yield Reason(Kind.SIBLING, f"waits for {', '.join(missing)}")
    going = leaving | {name for name, taken in steps.items() if taken.role == "drain_host"}
    unsafe = None if event.prepares or never or missing else _unsafe(event, observed, leaving, going)
    if unsafe:
        name, verdict = unsafe
        judged.waiting[name, event.key] = verdict
        yield from verdict.why
    if event.approved_at is not None and now - event.approved_at < APPROVAL_REPEAT:
        yield Reason(Kind.TIME, "was approved a moment ago")
    yield from reasons(Kind.DOUBT, [_doubt(event, observed) or ""])


NEVER = (Kind.STRANGER, Kind.RULE, Kind.ANSWER)
"""What the reasons of C(_never) are about."""


def _never(event: Event, observed: Observed) -> list[Reason]:
    """Why the event is not for us to approve, whatever becomes of its hosts."""
    why = [stranger(event, observed)]
    if not event.asks_approval:
        why.append(Reason(Kind.RULE, f"rule {event.decided_by['name']!r}: prepared, not approved"))
    silent = [host.name for host in observed.members(event) if event.prepares and host.refuses_unanswered]
    if silent:
        why.append(Reason(Kind.ANSWER, f"not approved by us: {', '.join(silent)} did not answer while in service, and may not come back"))
    return [reason for reason in why if reason]


def _unsafe(event: Event, observed: Observed, leaving: set[str], going: set[str]) -> tuple[str, Verdict] | None:
    """The first host of an event that is approved without preparation which must not go down yet, and why.

    C(going): names of the hosts that go out, of their clusters, too.
    """
    now = observed.now
    for host in observed.members(event):
        if must_yield(host, [event], now):
            continue
        if not is_fresh(host, now):
            return host.name, no(Reason(Kind.TIME, "its balancer is looked at once more"))
        if nobody_can_count(host):
            return host.name, no(*host.blind, until=yields_at(host, [event]))
        short = below_minimum(host, observed.hosts, leaving | set(event.members))
        if short:
            return host.name, kept_by(short, host, [event])
        turn = wait_unprepared(host, event, observed, going)
        if turn:
            return host.name, no(turn, until=yields_at(host, [event]))
    return None


def _sent_through(way: str, event: Event) -> Reason:
    names = ", ".join(event.members)
    why = f"none of {names} can" if len(event.members) > 1 else f"{names} cannot"
    return Reason(Kind.STATE, f"is being approved through {way}, since {why} send it")


def _from_outside(host: Host, event: Event, observed: Observed) -> Json:
    """What a step needs that approves from outside. If an attempt has failed, another VM is asked to show the event."""
    witnesses = _witnesses(event, observed)
    witness = witnesses[observed.document.number % len(witnesses) if event.refused_since is not None else 0]
    if host.settings.outside is None:
        raise AssertionError("as C(is_sent_outside) has told")
    # It is carried out on the controller.
    return {"witness": witness, "through": host.settings.outside["title"], "ready_until": _ready_until(observed.now, observed)}


def _is_timed_out(host: Host, event: Event, now: float, judged: Approvals) -> bool:
    """Whether the event may be approved although a host is not drained: its rule allows it, and the host's time to drain is over."""
    if event.decided_by["on_drain_timeout"] != "approve" or host.in_rotation or host.blind:
        return False
    judged.counted_out.add((host.name, event.key))
    ends = drain_until(host, event, now)
    return ends is not None and now >= ends


def _ready_until(now: float | None, observed: Observed) -> float | None:
    """Until when the hosts that are ready now count as ready. C(now): by the clock of whoever approves; None if that is unknown."""
    return None if now is None else now + READY + READY_EACH * len(observed.hosts)
