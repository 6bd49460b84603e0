# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is the one next step for each host? Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.graceful.azure.plugins.module_utils._duties.options import LOOKS
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import APPROVED
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import ON_HOST
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.approval import approvals, begins, stranger
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.clusters import clusters_of, wait_for_turn
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import Event, urgency
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.judgement import (
    Drain,
    had_impact,
    is_deleted,
    is_done_with,
    is_outdated,
    is_owed,
    judge_drain,
    readiness,
    unanswered,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.minimum import below_minimum, kept_by, must_yield, yields_at
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.observation import Observed
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import CHANGED
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.steps import Step, step
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.verdicts import Kind, Reason, Verdict, no

Steps = dict[str, Step]
"""Per host: a step."""
Preparing = dict[str, list[Event]]
"""Per host: the events for which it is prepared."""
Waits = dict[tuple[str, str], Verdict]
"""Per host and event: why the host has no step for the event yet."""


@dataclass(frozen=True)
class Decided:
    """What is decided in a pass, and why. Events are given by their folded id."""

    observed: Observed
    drains: dict[str, Drain]  # per host: how far it is drained
    wanted_out: set[str]  # hosts that an event keeps out
    steps: Steps
    waiting: Waits  # before a host is prepared
    approvals: dict[str, Verdict]  # events that wait for their approval: whether they may be approved now
    restoring_since: dict[str, float]  # per host: since when runs have tried to bring it back
    was_ready: set[str]  # events of which all hosts are ready
    counted_out: set[tuple[str, str]]  # hosts and events whose time to drain was measured

    def step(self, host: Host) -> Step | None:
        return self.steps.get(host.name)

    def readiness(self, host: Host, event: Event, outside: bool = False) -> Verdict:
        return readiness(host, self.drains[host.name], event, self.step(host), outside)

    def sent_through(self, event: Event) -> str | None:
        """What the event is approved through in this pass, if not through a VM; None otherwise."""
        found = (one.variables.get("through") for one in self.steps.values() if one.role == "approve_event" and event in one.events)
        return next(filter(None, found), None)

    def is_in_hand(self, host: Host) -> bool:
        """Whether an event of the host is being prepared, and does not wait for anything before that."""
        return any((host.name, event.key) not in self.waiting for event in host.events)

    def needs_second_look(self, host: Host) -> bool:
        """Whether a host only needs a second look to count as idle."""
        drain = self.drains[host.name]
        if any(host.is_off_first([event]) is None for event in host.events if event.prepares):
            return True
        is_drained = any(event.key in host.drained and not event.started for event in host.events)
        is_unseen = is_drained and bool(host.settings.drain_host.out) and host.observation.still_on is None
        return self.is_in_hand(host) and not (self.step(host) or drain.busy or host.fatal) and (is_unseen or drain.idle_looks < LOOKS)


def decide(observed: Observed) -> Decided:
    """Find the step of each host.

    Each row of the table has one kind of step, for all hosts that could take it. A host takes the step of the first row in which it stands.
    """
    hosts = observed.hosts
    drains = {host.name: judge_drain(host, observed.now) for host in hosts.values()}
    preparing, waiting = _preparing(observed)
    wanted_out = {host.name for host in hosts.values() if _is_wanted_out(host, preparing, observed)}
    turns = wait_for_turn(preparing, observed)
    queued = {(name, event.key): no(turns[name], until=yields_at(hosts[name], preparing[name])) for name in turns for event in preparing[name]}
    lacking = {name: events for name, events in preparing.items() if _lacks_out(hosts[name], events)}
    out_already = {name: events for name, events in preparing.items() if name not in lacking}

    out, short, leaving = _go_out({name: events for name, events in lacking.items() if name not in turns}, observed)
    forget = _forget(out_already, observed)
    restore, restoring_since = _restore([host for host in hosts.values() if not host.fatal and host.name not in wanted_out], observed)
    stop = _stop_services({name: events for name, events in out_already.items() if name not in turns}, observed, drains)
    weighed = approvals(observed, drains, _first_of(out, forget, restore, stop), leaving, turns)
    table = (out, forget, restore, weighed.steps, stop)
    steps = _first_of(*table)
    # Nothing may delay a host that must go out. The hosts take their steps side by side, if there are enough forks. Otherwise one step may come after
    # another, so the others wait for the next pass. A host that already tried to go out in the former pass does not stop them: that may take long, or
    # fail each time.
    if observed.waves > 1 and any(not hosts[name].leaves_again for name in out):
        steps = {name: found for name, found in steps.items() if name in out}
    steps = {name: found for name, found in steps.items() if not is_outdated(hosts[name], observed.waves)}
    return Decided(
        observed=observed,
        drains=drains,
        wanted_out=wanted_out,
        steps=steps,
        waiting={**waiting, **queued, **short, **weighed.waiting},
        approvals=weighed.verdicts,
        restoring_since=restoring_since,
        was_ready=weighed.was_ready,
        counted_out=weighed.counted_out,
    )


def _first_of(*rows: Steps) -> Steps:
    """Per host the step of the first row that has one."""
    return {name: found for row in reversed(rows) for name, found in row.items()}


def _preparing(observed: Observed) -> tuple[Preparing, Waits]:
    """Sort the events of each host: those for which it is prepared now, and those that wait."""
    preparing: Preparing = {}
    waiting: Waits = {}
    for host in observed.hosts.values():
        for event in host.events if not host.fatal else ():
            if not event.prepares:
                continue
            silent = [] if must_yield(host, [event], observed.now) or event.key in host.held_ids else _silent_members(event, observed)
            if begins(host, event) > observed.now:
                why = Reason(Kind.TIME, f"rule {event.decided_by['name']!r} begins {event.decided_by['lead_time']:g} s before NotBefore")
                waiting[host.name, event.key] = no(why, until=begins(host, event))
            elif silent:
                # Shortly before the impact, which comes in any case, the host goes out all the same. That saves its requests, and a person brings it
                # back.
                others = Reason(Kind.SIBLING, f"waits for {', '.join(silent)}, which would not come back after the event")
                waiting[host.name, event.key] = no(unanswered(host) if host.name in silent else others, until=yields_at(host, [event]))
            else:
                preparing.setdefault(host.name, []).append(event)
    return preparing, waiting


def _silent_members(event: Event, observed: Observed) -> list[str]:
    """The members that would not come back after the event. If there is one, no host goes out before it must, and the event is not approved."""
    return [host.name for host in observed.members(event) if host.refuses_unanswered and event.key not in host.held_ids]


def _is_wanted_out(host: Host, preparing: Preparing, observed: Observed) -> bool:
    """Whether an event keeps the host out. An event that is not due yet, or a mistake that waits for a person, does not."""
    if host.fatal:
        return False
    # An event for which no host is prepared keeps a host out that is out already, if its impact may come at any moment or we are about to approve it.
    unprepared = [event for event in host.events if not event.prepares]
    return host.name in preparing or any(event.may_come or event.asks_approval and not stranger(event, observed) for event in unprepared)


def _lacks_out(host: Host, events: Iterable[Event]) -> bool:
    wanted = {event.key for event in events}
    return any(place.lacks_out(wanted) for place in host.places)


def _go_out(lacking: Preparing, observed: Observed) -> tuple[Steps, Waits, set[str]]:
    """Take hosts out, the most urgent first, as far as the minimum in service allows."""
    steps: Steps = {}
    waiting: Waits = {}
    # Hosts that still serve but soon will not: those that are about to go out, and those whose impact may come.
    leaving = {name for event in observed.events.values() if event.standing and event.may_come for name in event.members}

    def order(name: str) -> tuple[Any, ...]:
        # The hosts that must go out regardless of the minimum come first, because the minimum of the others depends on them.
        return not must_yield(observed.hosts[name], lacking[name], observed.now), *urgency(lacking[name]), name

    for name in sorted(lacking, key=order):
        host, events = observed.hosts[name], lacking[name]
        least = None if must_yield(host, events, observed.now) else host.settings.min_in_service
        short = None if least is None else below_minimum(host, observed.hosts, leaving)
        is_off_first = host.is_off_first(events)
        if short and short.kind is Kind.MINIMUM and is_off_first is False and _only_hands_over(host):
            # Only then may another one serve: the checks of a balancer may pass for the leader alone.
            steps[name] = _drain(host, events, observed, first=True)
            continue
        if short:
            waiting.update(((name, event.key), kept_by(short, host, events)) for event in events)
            continue
        leaving.add(name)
        if least is not None and host.not_counted_yet and observed.document.number == 1:
            # Whoever stops listening when the host is out has been seen listening before. The next pass follows at once.
            continue
        if not is_off_first and least is not None:
            if is_off_first is False:
                steps[name] = _drain(host, events, observed, first=True)
            continue
        also: dict[str, list[str]] = {}
        for place in host.places:
            if place.leads_to and not place.owner:
                also.setdefault(place.machine, []).append(place.leads_to)
        # The minimum goes along, because another controller may take out another host now: the module counts again under the balancer's lock.
        # Shortly before the impact, nothing may keep the host in its balancers. What stands before these goes along.
        along = {} if is_off_first else {"first": True}
        steps[name] = step("load_balancer", "out", events, min_in_service=least, addresses=also, **along)
    return steps, waiting, leaving


def _only_hands_over(host: Host) -> bool:
    """Whether the host serves on, as the others do, when it is off what stands before its balancers."""
    return all(ON_HOST[given["type"]].hands_over for given in host.settings.drain_host.first)


def _forget(preparing: Preparing, observed: Observed) -> Steps:
    """Release holds for past events on places that somebody put back by hand. Then these places go out for the next event like any other."""
    steps = {}
    for name, events in preparing.items():
        host, wanted = observed.hosts[name], {event.key for event in events}
        changed = [place.held_by for place in host.places if place.condition == CHANGED]
        stale = [event for event in _done_with(host, observed) if any(event.key in held_by and not held_by & wanted for held_by in changed)]
        if stale:
            steps[name] = step("load_balancer", "in", stale)
    return steps


def _done_with(host: Host, observed: Observed) -> list[Event]:
    """The events that hold the host but no longer need to."""
    return [event for event in observed.events.values() if event.key in host.held_ids and is_done_with(event, host)]


def _stop_services(preparing: Preparing, observed: Observed, drains: Mapping[str, Drain]) -> Steps:
    """What runs on a host stops when it is idle. Drain steps that need not wait for that are asked for from the beginning."""
    steps = {}
    for name, events in preparing.items():
        host = observed.hosts[name]
        due, drain = host.settings.drain_host.out, drains[name]
        # After the impact, services and members of clusters stay as the impact left them, until the impact of another event is near.
        ahead = [event for event in events if not had_impact(host, event, observed)]
        is_hit = any(had_impact(host, event, observed) for event in host.events) and not (ahead and must_yield(host, ahead, observed.now))
        is_drained = {event.key for event in events} <= host.drained
        if host.observation.holds is None or is_hit or is_drained and not host.observation.still_on:
            continue
        is_idle = drain.idle_looks >= LOOKS
        rest = [given for given in due if not given.get("first")]
        if due and (is_idle or rest and not rest[0]["idle"]):
            steps[name] = _drain(host, events, observed, quiet=drain.quiet_left, idle=is_idle)
    return steps


def _drain(host: Host, events: list[Event], observed: Observed, first: bool = False, quiet: float = 0.0, idle: bool = False) -> Step:
    """The step that takes a host off its other duties. C(first): only off those that stand before what brings traffic."""
    # Shortly before the impact, the cluster is not asked any more whether it can spare the host.
    force = {"force": True} if clusters_of(host) and must_yield(host, events, observed.now) else {}
    return step("drain_host", "drained", events, quiet=quiet, idle=idle, first=first, **force)


def _restore(hosts: Iterable[Host], observed: Observed) -> tuple[Steps, dict[str, float]]:
    """Bring back the hosts that no event keeps out. The record of an approval stays until no other host is held for the event."""
    steps: Steps = {}
    tried: dict[str, float] = {}
    for host in hosts:
        gone = _done_with(host, observed) if host.held_ids and host.was_read else []
        needed = {event.key for event in gone if _is_held_elsewhere(host, event, observed)}
        gone = [event for event in gone if event.key not in needed & host.approved_ids]
        if gone:
            since = max(host.restoring.get(event.key, observed.now) for event in gone)
            known = host.memory.restoring_since
            tried[host.name] = since if known is None else min(known, since)
            steps[host.name] = step("restore_service", "restored", gone, records=[record for record in host.records if record != APPROVED or not needed])
    return steps, tried


def _is_held_elsewhere(host: Host, event: Event, observed: Observed) -> bool:
    """Whether another host is yet to be brought back. If the run is killed before that, the next one must know what became of the event."""
    others = [other for name, other in observed.hosts.items() if name in event.hosts and other is not host]
    held = [other for other in others if is_owed(other, event, observed) and event.key not in other.approved_ids]
    return any(not is_deleted(other, observed) for other in held)
