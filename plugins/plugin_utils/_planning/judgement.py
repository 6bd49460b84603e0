# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What does an observation mean: busy and with what, idle, ready, over, given back? Pure.

Each judgement is made only here, with the words that people read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._absence import LAG
from ansible_collections.graceful.azure.plugins.module_utils._duties.options import LOOKS
from ansible_collections.graceful.azure.plugins.module_utils._events import DELETING
from ansible_collections.graceful.azure.plugins.module_utils._pools import not_in_pools
from ansible_collections.graceful.azure.plugins.module_utils._spellings import listed, plural
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.groups import comes_later
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import Event
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import BALANCER, FREE, Count, Place
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.steps import Step
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.verdicts import Kind, Reason, Verdict, no, reasons
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Arrived, Json

if TYPE_CHECKING:
    from ansible_collections.graceful.azure.plugins.plugin_utils._planning.observation import Observed

FRESH = 10.0
"""Seconds for which an observation counts as current."""
STOOD_STILL = 300.0
"""Seconds after which an observation is of no use although it is of this pass: no pass takes so long, so the controller stood still in its middle."""
UNWATCHED = 5.0
"""Seconds for which nobody may have read a host before a look that news ended. After a longer time, no step rests on the observation before it."""
PATIENCE = 30.0
"""Seconds after which a run gives up on a fault that may pass. A mistake that only a person can mend has a time of its own."""
ONCE_MORE = "idle; one more look must show the same"
LET_IT_ANSWER = "start what should answer, correct graceful_azure_health_url or graceful_azure_health_port, or set graceful_azure_health_unanswered to warn"
OWN_TASKS = (
    "if that file makes this answer fail, it can never pass, and the host stays out after the event; let graceful_azure_health_url ask for another answer"
)
ASKED_TOO_EARLY = (
    "that comes back only after this answer, so the host would stay out after the event; let graceful_azure_health_url ask for another answer, or put that duty"
    " after those that bring traffic"
)


@dataclass(frozen=True)
class Drain:
    """How far a host is drained."""

    busy: tuple[Reason, ...]  # what keeps it from being idle
    idle_looks: int  # idle looks in a row
    too_early: bool  # whether the time without a request, or without a balancer on a machine, is still too short
    arrivals: dict[str, Arrived]  # per place that is out: the requests that came since
    not_running: dict[str, float]  # per machine without a balancer: since when, by its own clock
    quiet_left: float  # seconds without a new request that must still pass, as far as the passes have seen
    looks_outside: int = 0  # idle looks in a row at its balancers alone, if it may be approved from outside


def judge_drain(host: Host, now: float) -> Drain:
    """Count the idle looks at a host."""
    quiet = host.settings.quiet
    counted = {place.name: (place, place.count) for place in host.places if place.count}
    counted.update({way: (place, count) for place in host.places for way, count in place.past})
    arrivals = {name: _arrivals(host, name, count, now) for name, (_place, count) in counted.items()}
    closed = {name for name, (place, _count) in counted.items() if name == place.name and place.nothing_comes}
    # Where nothing can come, and nothing came, two idle looks prove as much as a long time.
    open_ones = {name: arrived for name, arrived in arrivals.items() if arrived["came"] or name not in closed}
    loud = {name: arrived for name, arrived in open_ones.items() if arrived["span"] < quiet}
    at_places = [Reason(Kind.BUSY, *told) for place in host.places for told in zip_longest(place.busy, place.booting, fillvalue="")]
    came = [_came(counted[name][0], name, arrived) for name, arrived in loud.items() if arrived["came"]]
    outside = [*host.blind, *at_places, *reasons(Kind.BUSY, came)]
    busy = [*outside, *_connections(host)]
    if host.observation.is_silent:
        busy.append(Reason(Kind.UNREAD, host.silence))
    # A look that waited for the end of the last request or connection counts as two.
    own = [0 if host.observation.ended else host.observation.looks] if host.ports else []
    looked_at = [place.looks for place in host.places if place.looks is not None]
    looked = looked_at + own
    known = 0 if _is_booted_anew(host) else host.memory.looks
    looks = 0 if busy else min(known + min(looked, default=1), LOOKS)
    not_running = {machine: min(host.memory.not_running.get(machine, at), at) for machine, at in host.traffic.not_running.items()}
    too_early = bool(loud) or any(at - not_running[machine] < quiet for machine, at in host.traffic.not_running.items())
    if too_early or not is_fresh(host, now):
        # After so short a time, a second look would prove nothing.
        looks = min(looks, LOOKS - 1)
    looks_outside = 0
    if host.settings.outside and looked_at and not outside:
        looks_outside = min(host.memory.looks_outside + min(looked_at), LOOKS)
        if too_early or not _are_fresh(_looks_at_places(host), host, now):
            looks_outside = min(looks_outside, LOOKS - 1)
    left = max([0.0, *(quiet - arrived["span"] for arrived in open_ones.values())]) if arrivals else quiet
    return Drain(tuple(busy), looks, too_early, arrivals, not_running, left, looks_outside)


def _is_booted_anew(host: Host) -> bool:
    """Whether the host was booted since the look before. What was seen before that proves nothing."""
    return bool(host.memory.boot_id and host.observation.boot_id and host.memory.boot_id != host.observation.boot_id)


def is_outdated(host: Host, waves: int) -> bool:
    """Whether nobody read the host for a while before its look was ended, as after the controller stood still. Another one may have gone on meanwhile.

    C(waves): how often the hosts fill the forks. A pass over many hosts takes so much longer.
    """
    return host.observation.ended and host.observation.unwatched > UNWATCHED * waves


def is_fresh(host: Host, now: float) -> bool:
    """Whether the observations of the host and of its balancers are of this pass, or at most C(FRESH) seconds old. Otherwise nothing is approved. Those of
    this pass may be older, but not older than C(STOOD_STILL).

    In the pass in which an event appears, only the age counts: that pass may have looked at the balancer a minute before.
    """
    if not host.observation.is_new:
        return False  # it may have gone silent since
    looks = _looks_at_places(host)
    if host.ports:
        looks.append((host.observation.is_new, None if host.observation.ended else host.observation.at))
    return _are_fresh(looks, host, now)


def _looks_at_places(host: Host) -> list[tuple[bool, float | None]]:
    """Per place that was looked at: whether that was in this pass, and when it was."""
    return [(bool(place.looks), place.seen) for place in host.places if place.looks is not None]


def _are_fresh(looks: Iterable[tuple[bool, float | None]], host: Host, now: float) -> bool:
    appears = any(event.first_seen == now for event in host.events)
    return all(at is not None and now - at <= (STOOD_STILL if is_new and not appears else FRESH) for is_new, at in looks)


def _came(place: Place, name: str, arrived: Arrived) -> str:
    provider, balancer = place.balancer
    if name != place.name:
        return provider.went(name, arrived["came"], arrived["begun"])
    return provider.arrived(balancer, place, arrived["came"], arrived["begun"])


def _arrivals(host: Host, name: str, count: Count, now: float) -> Arrived:
    """Since when no request has come to a place that is out, or may have come past it.

    The clock is the steady one of its machine, and the count that of one process. The state of a place only says what the balancer was told. The count
    says what the balancer does.
    """
    before = host.memory.arrivals.get(name)
    since = count.clock - count.quiet_for
    if not before or before["process"] != count.process or before["since"] > count.clock:
        before = {"process": count.process, "total": count.total, "since": since, "came": 0, "begun": now}
    elif before["total"] != count.total:
        before = dict(before, total=count.total, since=since, came=before["came"] + max(0, count.total - before["total"]))
    return dict(before, span=count.clock - before["since"])


def _connections(host: Host) -> tuple[Reason, ...]:
    """What the connections that are counted on the host itself tell, without those from the addresses of balancers, and what cannot be counted."""
    if not host.ports or host.observation.is_silent:
        return ()  # a silent host is busy in any case
    if host.observation.connections is None:
        return (Reason(Kind.BUSY, f"its connections cannot be counted: {host.why_silent}"),)
    ports = host.not_counted_yet
    is_out = ports and host.places and not host.in_rotation and not host.blind
    not_yet = [f"{'out, ' if is_out else ''}its connections on port {port} have not been counted yet" for port in ports]
    counted = [f"{plural(found['count'], 'connection')} from {found['peer']} on port {found['port']}" for found in connections_of(host)]
    return (*reasons(Kind.NOT_YET, not_yet), *reasons(Kind.BUSY, [*host.uncounted, *counted]))


def connections_of(host: Host) -> list[Json]:
    """The connections on the host itself that keep it busy."""
    pools = [pool for place in host.places for pool in (*place.pools, *place.told)]
    # What comes from where a balancer tells its connections is mostly one of these. It began or ended between the two looks, so nobody knows it by its port.
    busy = {pool.address for place in host.places if place.busy for pool in place.told}
    ports = set(host.ports)
    found = not_in_pools(host.observation.connections or (), pools)
    return [connection for connection in found if connection["port"] in ports and connection["peer"] not in busy]


def readiness(host: Host, drain: Drain, event: Event, step: Step | None, outside: bool = False) -> Verdict:
    """Whether the host is ready for the event: out everywhere, idle in two looks in a row, its drain steps done for this event as a look of this pass saw.

    C(step): the host's step in this pass. C(outside): whether the event is approved from outside. Then a host that cannot be reached is ready if its
    balancers say in two looks that it is out and idle, and if what only the host itself can tell was so when it could be reached last: nobody connected
    to its ports, and its drain steps done.
    """
    if host.fatal:
        return no(*host.fatal)
    if step and step.role != "approve_event":
        return no(Reason(Kind.STEP, "it has another step to take"))
    if outside and host.observation.is_silent:
        return _readiness_by_others(host, drain, event)
    if drain.idle_looks < LOOKS:
        return no(*(drain.busy or [Reason(Kind.LOOK, ONCE_MORE)]))
    if host.settings.drain_host.out and not (event.key in host.drained and host.observation.still_on == []):
        return no(*(reasons(Kind.STEP, host.observation.still_on or ()) or [Reason(Kind.STEP, "its duties are not handed over")]))
    return Verdict(True)


def had_impact(host: Host, event: Event, observed: Observed) -> bool:
    """Whether the impact of the event is behind the host. Then its drain steps are not taken again: see "After a reboot" in docs/clusters.md."""
    if event.key not in host.booted_since:
        return event.started and event.was_ready
    # The host was booted since it was prepared for the event. If that is approved and has not started, its service may lag, or it was another's impact.
    held = (observed.events[key] for key in host.held_ids if key != event.key and key in observed.events)
    others = any(other.started or not other.standing and (other.seen_started is not None or other.approved) for other in held)
    # No service lags for so long: the host crashed, or somebody has booted it.
    is_ahead = host.name in event.shown_by and stood_for(host.booted_at, observed.now) >= LAG
    return event.started or event.approved and not (others or is_ahead)


def _readiness_by_others(host: Host, drain: Drain, event: Event) -> Verdict:
    if not any(place.looks is not None for place in host.places):
        return no(Reason(Kind.UNREAD, "nobody but itself can tell whether it serves"))
    if drain.looks_outside < LOOKS:
        return no(Reason(Kind.BUSY, "its balancers do not say yet, in two looks, that it is out and idle"))
    own = ["its connections (graceful_azure_ports)"] if host.ports else []
    own += ["its duties"] if host.settings.drain_host.out else []
    if own and event.key not in host.memory.found_ready:
        return no(Reason(Kind.UNREAD, f"it was not found ready before it fell silent, and nobody can look at {' and '.join(own)} now"))
    return Verdict(True)


def found_ready(host: Host, events: Iterable[Event]) -> list[str]:
    """The events for which the host is known to have been ready. C(events): those for which it is ready now."""
    if host.in_rotation or host.blind or host.fatal:
        return []
    if host.observation.reached and host.observation.is_new:
        return [event.key for event in events]
    return [key for key in host.memory.found_ready if any(event.key == key for event in host.events)]


def out_since(host: Host, event: Event, now: float) -> float | None:
    """Since when the host is out of every balancer for the event, or None."""
    if event.key not in host.held_since and not host.in_rotation and not host.blind:
        return now
    return host.held_since.get(event.key)


def drain_until(host: Host, event: Event, now: float) -> float | None:
    """When the time to drain the host for the event is over; None if there is no limit."""
    since = out_since(host, event, now)
    ends = [] if since is None else [since + host.settings.drain_host.timeout]
    return min([*ends, *([] if event.deadline is None else [event.deadline])], default=None)


def claims(host: Host, hosts: dict[str, Host]) -> Iterator[str]:
    """Sentences about places in rotation that lead to this host but have the name of another target. A person must decide to which host they belong."""
    for place in host.places:
        owner = hosts.get(place.owner) if place.owner else None
        if owner and place.in_rotation and not any(event.prepares for event in owner.events):
            yield (
                f"{place.name} leads to {place.leads_to}, which is {host.name},"
                f" but by its name it is the server of {owner.name}: take it out by hand, or let it lead to {owner.name} again"
            )


def maintenance(host: Host) -> tuple[Reason, ...]:
    """The places of the host that are out without a hold of ours, mostly because an operator took them out."""
    places = [place for place in _out_without_hold(host) if not place.returns]
    by_operator = [_by_others(place) for place in places if not place.wrong]
    phrases = [f"nothing of ours keeps it out, but an operator's maintenance does ({', '.join(by_operator)})"] if by_operator else []
    phrases.extend(place.by_others for place in places if place.wrong)
    phrases.extend(f"{place.name} {place.returns}" for place in _out_without_hold(host) if place.returns)
    return reasons(Kind.NOTE, phrases)


def out_by_others(host: Host) -> list[str]:
    """Phrases: which places are out without a hold of ours and do not come back by themselves."""
    return [_by_others(place) for place in _out_without_hold(host) if not place.returns]


def _by_others(place: Place) -> str:
    return place.by_others or f"{place.name} {place.balancer[0].by_others.format(state=place.state)}"


def _out_without_hold(host: Host) -> list[Place]:
    # A balancer that asks the host for its health may not have noticed yet.
    out = (place for place in host.places if place.is_out)
    return [place for place in out if place.condition == FREE and not place.owner]


def unanswered(host: Host) -> Reason:
    """Of a host that serves but does not answer restore_service."""
    when = "it is in service, and does not answer" if host.in_rotation else "when it was in service it did not answer"
    return Reason(Kind.ANSWER, f"{when} what it is asked ({host.unanswered}): it would stay out after the event; {LET_IT_ANSWER}")


def dead_in_rotation(host: Host) -> Reason | None:
    """Of a host that serves nobody, because nobody answers there, although a balancer that does not check it may send it requests.

    It would not come back after an event, but that keeps it in rotation for nobody's sake. So only check mode tells it.
    """
    why = host.observation.unanswered if host.observation.asked else None
    sent = [place for place in host.places if place.in_rotation and place.health != BALANCER and not place.owner]
    if not why or not sent or host.traffic.serves or host.held_ids or out_by_others(host) or any(event.started for event in host.events):
        return None
    return Reason(Kind.ANSWER, f"it does not answer at {why}, although {sent[0].balancer[0].title} may send it requests; {LET_IT_ANSWER}")


def may_fail_by_us(host: Host) -> bool:
    """Whether the host answered while it served, and only a duty that was handed over before its balancers, or a task file of the user's that takes it out
    of one, could have changed that.

    Nothing that would undo it comes before the answer is asked for after the event.
    """
    # Before it goes out, nothing else was handed over. After that, each question would be a new connection where these are counted.
    is_first = bool(_back_later(host)) and host.in_rotation and all(place.condition == FREE for place in host.places)
    undone = any(step["in"] and not step.get("first") for step in host.settings.drain_host.steps)
    is_calm = bool(host.events) and not any(event.started or event.approved for event in host.events)
    return is_calm and host.answer == "" and (is_first or not undone and has_own_tasks(host))


def _back_later(host: Host) -> list[str]:
    """The names of the duties that come back only when the host is in its balancers again, and so after it was asked."""
    return [step["name"] for step in host.settings.drain_host.steps if step["out"] and comes_later(step)]


def has_own_tasks(host: Host) -> bool:
    """Whether task files of the user's take the host out of a balancer."""
    return any(provider.tasks for provider, _settings in host.balancers)


def silenced_by_us(host: Host) -> Reason | None:
    """Of a host that has not answered restore_service since task files of the user's take it out, or since it was taken off what comes back later."""
    why, later = host.observation.unanswered, _back_later(host)
    if not (host.held_ids and host.observation.is_new and host.observation.asked and why and may_fail_by_us(host)):
        return None
    if later and not has_own_tasks(host):
        since = f"it answered what it is asked as long as it was on all of its duties, and does not since {listed(later)} was handed over"
        return Reason(Kind.ANSWER, f"{since} ({why}): {ASKED_TOO_EARLY}")
    since = "it answered what it is asked as long as it served, and does not since your own task file takes it out"
    return Reason(Kind.ANSWER, f"{since} ({why}): {OWN_TASKS}")


def stood_for(since: float | None, now: float) -> float:
    """For how many seconds a fault has stood; 0 if C(since) is None."""
    return now - (now if since is None else since)


def silent_for(host: Host, now: float) -> float:
    return stood_for(host.silent_since, now)


def is_borne_with(host: Host, observed: Observed) -> bool:
    """Whether this run still waits for a host that it cannot read. A run of one step waits for its second look: it knows nothing of the silence before."""
    seconds = silent_for(host, observed.now)
    return seconds < PATIENCE if observed.run.wait else seconds == 0


def failing_for(host: Host, events: Sequence[Event], now: float) -> float:
    """Seconds for which the host's steps have failed, or the approvals of one of these events on any host."""
    since = [host.failing_since, *(event.refused_since for event in events)]
    return max((now - moment for moment in since if moment is not None), default=0.0)


def is_slow(observed: Observed) -> bool:
    """Whether a time limit ended the look at a machine, which may answer now. A run of one step bears with it as long as one that waits."""
    looks = [machine.result.get("cut_off") for machine in observed.document.machines.values()]
    is_cut_off = any(looks) or any(host.observation.cut_off for host in observed.hosts.values())
    return is_cut_off and observed.now - observed.run.started < PATIENCE


def may_be_read_soon(host: Host, observed: Observed) -> bool:
    """Whether this run looks once more at the balancers of the host that could not be read. Most slow looks are followed by one that tells."""
    run = observed.run
    if host.traffic.is_helpless:
        return False
    if run.wait:
        return stood_for(host.blind_since, observed.now) < PATIENCE
    return (run.check or run.look_twice) and (observed.document.number == 1 or is_slow(observed))


def is_lost(host: Host, observed: Observed) -> bool:
    """Whether the host cannot be reached although no known event names it and the settings do not allow it to be off."""
    return not (host.observation.reached or host.fatal or host.settings.may_be_off or observed.events_of(host))


def has_ended(event: Event, observed: Observed) -> bool:
    """Whether the event is over: the service of a host that it names was read twice and did not show it, or each of these hosts is deleted for good."""
    if event.standing:
        return False
    if any(event.is_over_for(host) for host in _who_tells(event, observed)):
        return True
    return all(_is_deleted_for_good(host, observed) or event.is_over_for(host) for host in observed.members(event))


def _who_tells(event: Event, observed: Observed) -> list[Host]:
    """The hosts whose services tell whether the event is over.

    These are the hosts that have shown it. If none of them can be read any more, all hosts count, except those that only have the same name.
    """
    hosts = observed.members(event)
    confirmed = [host for host in hosts if host.name in event.confirmed and silent_for(host, observed.now) < PATIENCE and not host.fatal]
    return confirmed or [host for host in hosts if host.name not in event.not_meant] or hosts


def _is_deleted_for_good(host: Host, observed: Observed) -> bool:
    return is_deleted(host, observed) and silent_for(host, observed.now) >= PATIENCE


def is_deleted(host: Host, observed: Observed) -> bool:
    """Whether an event that deletes the host's VM has started, and no longer stands."""
    return any(event.event_type in DELETING and not event.standing and _has_started(event, observed.now) for event in observed.events_of(host))


def _has_started(event: Event, now: float) -> bool:
    # If the hold has no NotBefore, the event had started when the hold was put.
    recalled_started = event.recalled and event.not_before_at is None
    is_past = event.not_before_at is not None and now >= event.not_before_at
    return bool(event.seen_started or event.approved or recalled_started or is_past)


def is_done_with(event: Event, host: Host) -> bool:
    """Whether an event needs no hold on a host any more: a rule ignores it, or the host's own service was read twice and did not show it, or not its name."""
    return event.ignored or event.names_no_more(host) or (not event.standing or event.means_another(host)) and event.is_over_for(host)


def is_seen_given_back(host: Host, event: Event, observed: Observed) -> bool:
    """Whether this pass shows that no hold for an event that is over is left on the host."""
    is_held = event.key in host.held_ids and event.key not in host.approved_ids
    if event.standing or host.fatal or is_held or host.observation.holds is None or host.blind and event.prepares:
        return False
    return has_ended(event, observed) or event.is_over_for(host)


def is_given_back(host: Host, event: Event, observed: Observed) -> bool:
    return not event.standing and (host.name in event.given_back or is_seen_given_back(host, event, observed))


def is_owed(host: Host, event: Event, observed: Observed) -> bool:
    """Whether something is held for the event and must be given back later. If the host cannot be read now, the memory decides."""
    return event.key in host.held_ids or not event.ignored and host.name in event.held and not is_given_back(host, event, observed)


def gone_at(event: Event, observed: Observed) -> float | None:
    """When the event was first known to be over, or None."""
    if event.standing or event.gone_at is not None or not has_ended(event, observed):
        return None if event.standing else event.gone_at
    return observed.now
