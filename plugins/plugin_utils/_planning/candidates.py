# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is the one next step for each host? Private to the collection; pure."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.graceful.azure.plugins.plugin_utils._planning.approval import approvals, begins, is_not_ours
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.judgement import LOOKS, is_done_with, is_ready, judge_drain, unanswered
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.minimum import below_minimum, must_yield, yields_at
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.observation import Observed
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import CHANGED
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.steps import Wait, step


@dataclass(frozen=True)
class Decided:
    """What is decided in a pass, and why. Events are given by their folded id."""

    observed: Observed
    drains: dict            # per host: how far it is drained
    wanted_out: set         # hosts that an event wants out
    steps: dict             # per host: its step
    waiting: dict           # per host and event: what it waits for where preparing has not begun
    unanswered: set         # hosts and events: the host does not answer, and the event waits for that
    restoring_since: dict   # per host: since when it is tried to bring it back
    was_ready: set          # events all of whose hosts are ready
    counted_out: set        # hosts and events for which the time to drain was asked

    def step(self, host):
        return self.steps.get(host.name)

    def is_ready(self, host, event):
        return is_ready(host, self.drains[host.name], event, self.step(host))

    def needs_second_look(self, host):
        """Whether nothing but a second look is missing for a host to be idle."""
        drain = self.drains[host.name]
        in_hand = any((host.name, event.key) not in self.waiting for event in host.events)
        return in_hand and not (self.step(host) or drain.busy or host.fatal) and drain.looks < LOOKS


def decide(observed):
    """Find the step of each host.

    Each row of the table has one kind of step for all hosts to which that applies. The first row that has a host gives its step.
    """
    hosts = observed.hosts
    drains = {host.name: judge_drain(host, observed.now) for host in hosts.values()}
    preparing, waiting, unheard = _preparing(observed)
    wanted_out = {host.name for host in hosts.values() if _is_wanted_out(host, preparing, observed)}
    lacking = {name: events for name, events in preparing.items() if _lacks_out(hosts[name], events)}
    out_already = {name: events for name, events in preparing.items() if name not in lacking}

    out, short, leaving = _go_out(lacking, observed)
    forget = _forget(out_already, observed)
    restore, restoring_since = _restore([host for host in hosts.values() if not host.fatal and host.name not in wanted_out], observed)
    stop = _stop_services(out_already, observed, drains)
    weighed = approvals(observed, drains, _first_of(out, forget, restore, stop), leaving)
    table = (out, forget, restore, weighed.steps, stop)
    # The steps of different roles in one pass run one after the other, and nothing may delay a host that has to go out: then all others
    # wait for the next pass. But going out that takes several passes, or fails again and again, stops nobody.
    is_urgent = any(not hosts[name].leaves_again for name in out)
    return Decided(
        observed=observed,
        drains=drains,
        wanted_out=wanted_out,
        steps=out if is_urgent else _first_of(*table),
        waiting={**waiting, **short, **weighed.waiting},
        unanswered=unheard,
        restoring_since=restoring_since,
        was_ready=weighed.was_ready,
        counted_out=weighed.counted_out,
    )


def _first_of(*rows):
    """Per host the step of the first row that has one."""
    return {name: found for row in reversed(rows) for name, found in row.items()}


def _preparing(observed):
    """Per host the events for which it is to be prepared now; what it waits for with the others; and those that wait because it does not answer."""
    preparing, waiting, unheard = {}, {}, set()
    for host in observed.hosts.values():
        for event in host.events if not host.fatal else ():
            if not event.prepares:
                continue
            silent = [] if must_yield(host, [event], observed.now) or event.key in host.held_ids else _silent_members(event, observed)
            if begins(host, event) > observed.now:
                why = f"rule {event.rule['name']!r} begins {event.rule['lead_time']:g} s before NotBefore"
                waiting[host.name, event.key] = Wait(why, begins(host, event))
            elif silent:
                # Shortly before the impact it goes out all the same, because that comes in any case: its requests are saved, and a person
                # brings it back.
                why = unanswered(host) if host.name in silent else f"waits for {', '.join(silent)}, which would not come back after the event"
                waiting[host.name, event.key] = Wait(why, yields_at(host, [event]))
                if host.name in silent:
                    unheard.add((host.name, event.key))
            else:
                preparing.setdefault(host.name, []).append(event)
    return preparing, waiting, unheard


def _silent_members(event, observed):
    """The members that would not come back after the event. Where there is one, nobody goes out before it must, and nothing is approved."""
    return [host.name for host in observed.members(event) if host.refuses_unanswered and event.key not in host.held_ids]


def _is_wanted_out(host, preparing, observed):
    """Whether an event keeps the host out. One that is not due yet, or waits for a person, keeps nobody out."""
    if host.fatal:
        return False
    # Where an event prepares nobody, a host that is out stays out: the impact may come at any moment, or we are to approve it.
    unprepared = [event for event in host.events if not event.prepares]
    return host.name in preparing or any(event.may_come or event.asks_approval and not is_not_ours(event, observed) for event in unprepared)


def _lacks_out(host, events):
    wanted = {event.key for event in events}
    return any(place.lacks_out(wanted) for place in host.places)


def _go_out(lacking, observed):
    """Take hosts out, the most urgent first, as far as the minimum in service allows."""
    steps, waiting = {}, {}
    # Hosts that still serve and will not for long: those about to go out, and those whose impact may come.
    leaving = {
        name
        for event in observed.events.values()
        if event.standing and event.action == "approve" and (event.started or event.approved_at)
        for name in event.members
    }

    def urgency(name):
        events = lacking[name]
        at = events[0].not_before_at
        # Those who go out whatever the minimum says go first: the others are weighed against what they leave.
        forced = must_yield(observed.hosts[name], events, observed.now)
        return (not forced, not any(event.started for event in events), at is None, at or 0, events[0].key, name)

    for name in sorted(lacking, key=urgency):
        host, events = observed.hosts[name], lacking[name]
        least = None if must_yield(host, events, observed.now) else host.settings.min_in_service
        short = None if least is None else below_minimum(host, observed.hosts, leaving)
        if short:
            waiting.update(((name, event.key), Wait(short, yields_at(host, events))) for event in events)
            continue
        leaving.add(name)
        # Another controller may be about to take out another: who has the balancer's lock counts again.
        also = {}
        for place in host.places:
            if not place.by_name and not place.owner:
                also.setdefault(place.machine, []).append(place.leads_to)
        steps[name] = step("load_balancer", "out", events, min_in_service=least, addresses=also)
    return steps, waiting, leaving


def _forget(preparing, observed):
    """What was put back by hand, while nobody else held it, serves as any other place does, and is to go out as any other."""
    steps = {}
    for name, events in preparing.items():
        host, wanted = observed.hosts[name], {event.key for event in events}
        changed = [place.held_by for place in host.places if place.condition == CHANGED]
        stale = [event for event in _done_with(host, observed) if any(event.key in held_by and not held_by & wanted for held_by in changed)]
        if stale:
            steps[name] = step("load_balancer", "in", stale)
    return steps


def _done_with(host, observed):
    """Events that hold the host and ask for that no more."""
    return [event for event in observed.events.values() if event.key in host.held_ids and is_done_with(event, host)]


def _stop_services(preparing, observed, drains):
    """What runs on a host stops when it is idle. Steps that need not wait for that have been asked for all along."""
    steps = {}
    for name, events in preparing.items():
        host = observed.hosts[name]
        due, drain = host.settings.drain_host.out, drains[name]
        # After the impact services are as that left them.
        is_hit = any(event.started and event.was_ready for event in host.events)
        if host.look.holds is None or is_hit or {event.key for event in events} <= host.drained:
            continue
        if due and (drain.looks >= LOOKS or not due[0]["idle"]):
            steps[name] = step("drain_host", "drained", events, quiet=drain.quiet_left)
    return steps


def _restore(hosts, observed):
    """Bring back those whom no event wants out. Where only the host's own service shows the event no more, another's newer document still does."""
    steps, tried = {}, {}
    for host in hosts:
        gone = _done_with(host, observed) if host.held_ids and host.observed else []
        if gone:
            since = max(host.restoring.get(event.key, observed.now) for event in gone)
            known = host.memory.restoring_since
            tried[host.name] = since if known is None else min(known, since)
            steps[host.name] = step("restore_service", "restored", gone, records=host.records)
    return steps, tried
