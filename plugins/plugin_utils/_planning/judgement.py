# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What does an observation mean: busy and with what, idle, ready, over, given back? Private to the collection; pure.

Each judgement is made here once, with the words that people read.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import FREE
from ansible_collections.graceful.azure.plugins.plugin_utils._text import plural

LOOKS = 2
"""Idle looks in a row after which a host is drained, if no request came meanwhile for as long as C(load_balancer_quiet) says."""
FRESH = 10.0
"""Seconds for which a look counts as one of this moment."""
PATIENCE = 30.0
"""Seconds for which anything but a mistake must stand that only a person can mend, before a run gives up on it."""
DELETED = ("Preempt", "Terminate")
"""Event types after which the VM is not expected back."""


@dataclass(frozen=True)
class Drain:
    """How far a host is drained."""

    busy: str            # what keeps it from being idle
    looks: int           # idle looks in a row
    too_early: bool      # whether it is not known for long enough that no request comes, or that a machine is without a balancer
    arrivals: dict       # per place that is out: what came since
    not_running: dict    # per machine without a balancer: since when, by its own clock
    quiet_left: float    # seconds that are still to pass without a new request, as far as the passes have seen


def judge_drain(host, now):
    """Count the idle looks at a host."""
    quiet = host.settings.quiet
    arrivals = {place.name: _arrivals(host, place, now) for place in host.places if place.count}
    loud = {name: seen for name, seen in arrivals.items() if seen["span"] < quiet}
    by_name = {place.name: place for place in host.places}
    busy = [*host.blind, *(sentence for place in host.places for sentence in place.busy)]
    busy.extend(_came(by_name[name], seen) for name, seen in loud.items() if seen["came"])
    busy.extend(_connections(host))
    if host.look.is_silent:
        busy.append(f"silent: {host.why_silent}")
    # A look that waited for the end of the last request or connection has looked twice.
    own = [0 if host.look.ended else host.look.looks] if host.ports else []
    looked = [place.looks for place in host.places if place.looks is not None] + own
    looks = 0 if busy else min(host.memory.looks + min(looked, default=1), LOOKS)
    not_running = {machine: min(host.memory.not_running.get(machine, at), at) for machine, at in host.traffic.not_running.items()}
    too_early = bool(loud) or any(at - not_running[machine] < quiet for machine, at in host.traffic.not_running.items())
    if too_early or not is_fresh(host, now):
        # Too short a time for a second look to tell anything.
        looks = min(looks, LOOKS - 1)
    left = max([0.0, *(quiet - seen["span"] for seen in arrivals.values())]) if arrivals else quiet
    return Drain("; ".join(busy), looks, too_early, arrivals, not_running, left)


def is_fresh(host, now):
    """Whether what is known of the host and of its balancers was seen in this pass or a moment ago. Nothing is approved otherwise.

    The pass in which its event appears may have begun long before that, with a look at the balancer, and an idle look has lasted a minute.
    """
    if not host.look.is_new:
        return False  # it may have gone silent since
    appears = any(event.first_seen == now for event in host.events)
    seen = [(bool(place.looks), place.seen) for place in host.places if place.looks is not None]
    if host.ports:
        seen.append((host.look.is_new, None if host.look.ended else host.look.at))
    return all(is_new and not appears or at is not None and now - at <= FRESH for is_new, at in seen)


def _came(place, seen):
    provider, balancer = place.balancer
    return provider.arrived(balancer, place, seen["came"], seen["begun"])


def _arrivals(host, place, now):
    """Since when no request has come to a place that is out, by the steady clock of its machine and in one process.

    The state of a place says what its balancer was told, the count what it does.
    """
    count = place.count
    before = host.memory.arrivals.get(place.name)
    since = count.clock - count.quiet_for
    if not before or before["process"] != count.process or before["since"] > count.clock:
        before = {"process": count.process, "total": count.total, "since": since, "came": 0, "begun": now}
    elif before["total"] != count.total:
        before = dict(before, total=count.total, since=since, came=before["came"] + max(0, count.total - before["total"]))
    return dict(before, span=count.clock - before["since"])


def _connections(host):
    """Sentences about the connections that are counted on the host itself, those aside that a balancer keeps in its pool."""
    if not host.ports:
        return []
    if host.look.connections is None:
        return [f"its connections cannot be counted: {host.why_silent}"]
    pools = {place.pool_address for place in host.places}
    return [
        f"{plural(connection['count'], 'connection')} from {connection['peer']} on port {connection['port']}"
        for connection in host.look.connections
        if connection["peer"] not in pools
    ]


def is_ready(host, drain, event, step):
    """Out everywhere, idle in two looks running, services down and the user's tasks done, for this event. C(step): the one that the host takes."""
    if host.fatal or drain.looks < LOOKS or (step and step.role != "approve_event"):
        return False
    return not host.settings.drain_host.out or event.key in host.drained


def out_since(host, event, now):
    """Since when the host is out of every balancer for the event, or None."""
    if event.key not in host.held_since and not host.in_rotation and not host.blind:
        return now
    return host.held_since.get(event.key)


def drain_until(host, event, now):
    """Until when the host is to be drained for the event; None if there is no limit."""
    since = out_since(host, event, now)
    ends = [] if since is None else [since + host.settings.drain_host.timeout]
    return min([*ends, *([] if event.deadline is None else [event.deadline])], default=None)


def claims(host, hosts):
    """Sentences about places that lead to this host and bear the name of another target. They cannot go out for this one: a person must say what they are."""
    for place in host.places:
        owner = hosts.get(place.owner)
        if owner and place.in_rotation and not any(event.prepares for event in owner.events):
            yield (
                f"{place.name} leads to {place.leads_to}, which is {host.name},"
                f" but by its name it is the server of {owner.name}: take it out by hand, or let it lead to {owner.name} again"
            )


def maintenance(host):
    """Which places of the host are out though nothing of ours holds them, and why: mostly an operator took them out."""
    out = [place for place in host.places if not place.in_rotation and place.condition == FREE and not place.owner]
    told = [f"{place.name} is in {place.state}" for place in out if not place.returns]
    said = [f"in an operator's maintenance ({', '.join(told)})"] if told else []
    said.extend(f"{place.name} {place.returns}" for place in out if place.returns)
    return "; ".join(said)


def unanswered(host):
    """A sentence about a host that serves and does not answer what restore_service asks."""
    when = "it is in service, and does not answer" if host.in_rotation else "when it was in service it did not answer"
    return (
        f"{when} what restore_service asks ({host.unanswered}): it would stay out after the event;"
        " correct restore_service_url or restore_service_port, or set restore_service_unanswered to warn"
    )


def silent_for(host, now):
    return now - (now if host.silent_since is None else host.silent_since)


def failing_for(host, events, now):
    """Seconds for which the host's steps have failed, or the approvals of one of these events, whoever tried."""
    since = [host.failing_since, *(event.refused_since for event in events)]
    return max((now - moment for moment in since if moment is not None), default=0.0)


def is_lost(host, observed):
    """Whether nobody can tell of the host: it cannot be reached, may not be off, and no event is known that names it."""
    return not (host.look.reached or host.fatal or host.settings.may_be_off or observed.events_of(host))


def is_over(event, observed):
    """Whether the event is known to be over: a host that it names was read twice without it, or nothing more is to be expected from any of them."""
    if event.standing:
        return False
    if any(event.is_over_for(host) for host in _witnesses(event, observed)):
        return True
    return all(_is_deleted_for_good(host, observed) or event.is_over_for(host) for host in observed.members(event))


def _witnesses(event, observed):
    """The hosts whose services tell whether the event is over: those that have shown it, as long as any of these can be asked, and no namesake."""
    hosts = observed.members(event)
    confirmed = [host for host in hosts if host.name in event.confirmed and silent_for(host, observed.now) < PATIENCE and not host.fatal]
    return confirmed or [host for host in hosts if host.name not in event.not_meant] or hosts


def _is_deleted_for_good(host, observed):
    return is_deleted(host, observed) and silent_for(host, observed.now) >= PATIENCE


def is_deleted(host, observed):
    """Whether an event that deletes the host's VM has had its time."""
    return any(event.event_type in DELETED and not event.standing and _has_started(event, observed.now) for event in observed.events_of(host))


def _has_started(event, now):
    # A hold without a NotBefore was put when the event had started.
    recalled_started = event.recalled and event.not_before_at is None
    return event.seen_started or event.approved_at or recalled_started or event.not_before_at is not None and now >= event.not_before_at


def is_done_with(event, host):
    """Whether an event asks for nothing to be held on a host any more: a rule ignores it, or the host's own service, read twice, does not show it."""
    return event.ignored or (not event.standing or event.means_another(host)) and event.is_over_for(host)


def is_seen_given_back(host, event, observed):
    """Whether this pass shows that no hold for an event that is over is left on the host."""
    if event.standing or host.fatal or event.key in host.held_ids or host.look.holds is None or host.blind and event.prepares:
        return False
    return is_over(event, observed) or event.is_over_for(host)


def is_given_back(host, event, observed):
    return not event.standing and (host.name in event.given_back or is_seen_given_back(host, event, observed))


def is_owed(host, event, given_back):
    """Whether something is held for the event and will have to be given back, as far as is known where it cannot be read now."""
    return event.key in host.held_ids or not event.ignored and host.name in event.held and not given_back


def gone_at(event, observed):
    """When the event was first known to be over, or None."""
    if event.standing or event.gone_at is not None or not is_over(event, observed):
        return None if event.standing else event.gone_at
    return observed.now
