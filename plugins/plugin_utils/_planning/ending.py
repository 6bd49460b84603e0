# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What became of the events, is the run over, and did it fail? Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ansible_collections.graceful.azure.plugins.module_utils._events import CANCELLED, COMPLETED, DELETING, IN_PROGRESS, NOT_APPROVED, SERVING
from ansible_collections.graceful.azure.plugins.module_utils._spellings import listed
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.candidates import Decided
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import Run
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import REHEARSAL, Event
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.judgement import (
    PATIENCE,
    dead_in_rotation,
    failing_for,
    gone_at,
    has_ended,
    is_deleted,
    is_given_back,
    is_lost,
    is_owed,
    is_slow,
    silent_for,
    stood_for,
    unanswered,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.observation import Observed
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.status import FAULTS, Statuses, most_urgent, restoring_since, why_unread
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.turns import QUIET_SEEN
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.verdicts import Kind, Reason, reasons, words
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import OBSERVE_TIMEOUT
from ansible_collections.graceful.azure.plugins.plugin_utils._text import joined
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json

WATCH = 3600.0
"""Seconds for which a run that watches goes on without an event. A schedule or a unit starts the next run, which reads the inventory again: nobody watches a
VM that has joined since."""
PATIENCE_FATAL = 10.0
"""Seconds for which a mistake must stand before a run gives up on that host."""
QUIET_PATIENCE = 30.0
"""Seconds beyond twice C(quiet) for which a run of one step waits until that time is over."""


@dataclass(frozen=True)
class Message:
    text: str
    short: str = ""  # the same for those who read the closing table too, if that is less
    hosts: tuple[str, ...] = ()  # the hosts of which it tells
    is_theirs: bool = False  # whether the lines of these hosts tell it, too
    in_table: bool = False  # whether the closing table tells it of each of these hosts, too


@dataclass(frozen=True)
class Ending:
    finished: bool
    once_more: bool  # whether a run of one step may try a failed step again
    messages: list[Message]  # why the run would fail if it ended now
    first_found: float | None  # when the run first found an event that concerns it
    end: float  # when the run's time is over


def ending(decided: Decided, statuses: Statuses) -> Ending:
    """Whether the run ends with this pass, and how."""
    observed = decided.observed
    run, hosts = observed.run, observed.hosts.values()
    events = of_targets(observed)
    is_concerned = any(event.action != "ignore" and not _is_left_behind(event, observed) for event in events)
    first_found = observed.now if is_concerned and observed.first_found is None else observed.first_found
    end = _end_of(run, first_found)
    time_is_over = observed.now >= end
    left = [event for event in events if not _is_through(decided, statuses, event, end)]
    undecided = any(observed.may_mean(event) for event in observed.events.values())
    helpless = all(host.fatal for host in hosts)
    patient = all(_is_patient(host, observed) for host in hosts)
    nothing_left = not left and not undecided and patient and (is_concerned or helpless or not run.watch)
    look_again = _looks_again(decided)
    overdue = [event for event in left if time_is_over and not _next_act_is_later(decided, event, end)]
    return Ending(
        finished=(not run.wait and not look_again) or nothing_left and not (run.check and look_again) or time_is_over,
        once_more=not run.wait and not time_is_over and all(failing_for(host, host.events, observed.now) < PATIENCE for host in hosts),
        messages=_messages(decided, statuses, overdue, time_is_over),
        first_found=first_found,
        end=end,
    )


def of_targets(observed: Observed) -> list[Event]:
    """The events that name a target, in the order in which they appeared."""
    return sorted((event for event in observed.events.values() if event.hosts), key=lambda event: (event.first_seen, event.key))


def result(decided: Decided, statuses: Statuses, event: Event) -> Json:
    """What became of an event."""
    mine = {name: statuses[name, event.key] for name in event.hosts}
    return {
        "event_id": event.event_id,
        "event_type": event.event_type,
        "resources": event.resources,
        "outcome": _outcome(decided.observed, statuses, event),
        "hosts": {name: {"state": status.state, "reason": status.reason} for name, status in mine.items()},
    }


def outcome_words(outcome: str, hosts: Mapping[str, Json], why: str | None = None, description: str | None = None) -> str:
    """An outcome as people read it. It must not sound like a good end if a host needs a person.

    C(hosts): per host of the event its state. C(description): that of the event.
    """
    if outcome == IN_PROGRESS:
        return outcome
    persons = [name for name, status in hosts.items() if status["state"] == "needs_person"]
    but = f", but {listed(persons)} {'needs' if len(persons) == 1 else 'need'} a person" if persons else ""
    # Nobody has cancelled a rehearsal that was killed.
    return f"{'over' if description == REHEARSAL else outcome}{f' ({why})' if why else ''}{but}"


def is_doubtful(host: Host, observed: Observed) -> bool:
    """Whether an event of the host, or the host's name in one that holds it, was missing in one read, so that the next look may end it."""
    events = observed.events_of(host)
    if any(event.key in host.held_ids and event.may_name_no_more(host) and not event.names_no_more(host) for event in events):
        return True
    gone = [event for event in events if not event.standing and event.key in host.absent]
    return any(not has_ended(event, observed) and not event.is_over_for(host) for event in gone)


def _end_of(run: Run, first_found: float | None) -> float:
    """When the run's time is over. A run that watches counts it from the first event."""
    if not run.watch:
        return run.started + run.timeout
    return run.started + WATCH if first_found is None else first_found + run.timeout


def _outcome(observed: Observed, statuses: Statuses, event: Event) -> str:
    gone = gone_at(event, observed)
    if gone is None or not has_ended(event, observed) or not _is_settled(observed, statuses, event):
        return IN_PROGRESS
    approved = _was_approved(event, gone)
    if not approved and not event.seen_started and event.not_before_at is not None and gone < event.not_before_at:
        return CANCELLED
    return NOT_APPROVED if event.asks_approval and not approved else COMPLETED


def _was_approved(event: Event, gone: float) -> bool:
    """Whether we approved it. If a run was killed while it did, a start before NotBefore tells so: an event that nobody approves starts at NotBefore."""
    if event.approved or not event.approving:
        return event.approved
    return event.approving_until is None or (event.seen_started or gone) < event.approving_until


def _is_through(decided: Decided, statuses: Statuses, event: Event, end: float) -> bool:
    """Whether a run need not wait for this event any more."""
    observed = decided.observed
    hosts = [observed.hosts[name] for name in event.hosts]
    if all(_is_hopeless(decided, host, event, end) for host in hosts):
        return True
    # The record of the approval goes last.
    is_recorded = any(event.key in host.approved_ids and statuses[host.name, event.key].state in SERVING for host in hosts)
    return (event.ignored or has_ended(event, observed)) and _is_settled(observed, statuses, event) and not is_recorded


def _is_settled(observed: Observed, statuses: Statuses, event: Event) -> bool:
    """Whether nothing is left to do for the hosts of an event that is over."""
    for name in event.hosts:
        host, state = observed.hosts[name], statuses[name, event.key].state
        if state not in (*SERVING, *FAULTS) or _may_be_mended(host, event, observed):
            return False
        if state == "unobserved" and not is_deleted(host, observed):
            return False
    return True


def _may_be_mended(host: Host, event: Event, observed: Observed) -> bool:
    """Whether a run still waits for a host that cannot be given back because of a mistake. While a machine boots or restarts, it looks set up wrong."""
    if not host.fatal or host.observation.left or is_deleted(host, observed) or not is_owed(host, event, observed):
        return False
    return stood_for(gone_at(event, observed), observed.now) < host.settings.restore_service.timeout


def _is_hopeless(decided: Decided, host: Host, event: Event, end: float) -> bool:
    """Whether nothing can be done for the host until a person mends something, and nothing on it must be given back."""
    if is_owed(host, event, decided.observed) or (event.approved and not is_given_back(host, event, decided.observed)):
        return bool(host.observation.left)
    if host.fatal:
        return True
    # If one balancer is set up wrong, the host still goes out of the others when its event begins or the minimum allows it.
    wait = decided.waiting.get((host.name, event.key))
    acts = decided.step(host) is not None or wait is not None and (wait.until is None or wait.until <= end)
    return bool(host.blind and host.traffic.is_helpless and not acts) and stood_for(host.blind_since, decided.observed.now) >= PATIENCE


def _is_left_behind(event: Event, observed: Observed) -> bool:
    """Whether only holds for deleted VMs are left of the event. A run that watches does not end for these."""
    hosts = observed.members(event)
    is_silent = not any(host.observation.reached for host in hosts)
    return not event.standing and event.recalled and is_silent and (event.event_type in DELETING or all(is_deleted(host, observed) for host in hosts))


def _is_patient(host: Host, observed: Observed) -> bool:
    """Whether a fault of the host, if it has one, has stood for so long that a run no longer waits for its end."""
    now = observed.now
    if host.fatal:
        # While a balancer restarts, it looks set up wrong.
        limit = PATIENCE if host.blind else PATIENCE_FATAL
        nothing_at_stake = host.was_read and not host.observation.events and host.observation.holds is not None and not host.held_ids
        return stood_for(host.fatal_since, now) >= limit or nothing_at_stake
    if host.blind and stood_for(host.blind_since, now) < PATIENCE:
        return False
    if not host.is_unread and not is_lost(host, observed):
        return True
    return silent_for(host, now) >= (PATIENCE if host.observation.passing else PATIENCE_FATAL)


def _next_act_is_later(decided: Decided, event: Event, end: float) -> bool:
    """Whether the next step for a standing event comes after this run's end."""
    if not event.standing or event.started:
        return False
    hosts = decided.observed.members(event)
    waits = [decided.waiting[host.name, event.key] for host in hosts if (host.name, event.key) in decided.waiting]
    if waits:
        return all(wait.until is None or wait.until > end for wait in waits)
    is_foreign = not event.prepares and bool(decided.approvals[event.key].about(Kind.STRANGER))
    stands_ready = is_foreign or all(decided.readiness(host, event).holds for host in hosts)
    return not event.approved and stands_ready and (event.not_before_at is None or event.not_before_at > end)


def _looks_again(decided: Decided) -> bool:
    """Whether a run that takes one step needs another look for any host, or one in check mode.

    A host that was not restored in its time may be by the step of this pass, which may be the second where an event is over.
    """
    run, number, hosts = decided.observed.run, decided.observed.document.number, decided.observed.hosts.values()
    if number == 1 and any(host.not_counted_yet and (run.check or run.look_twice and not decided.step(host) and decided.is_in_hand(host)) for host in hosts):
        return True
    if (run.check or run.look_twice) and (is_slow(decided.observed) or number == 1 and any(host.blind and not host.traffic.is_helpless for host in hosts)):
        return True
    if not run.look_twice:
        return False
    if number <= 2 and any(_is_late_and_tried(decided, host) for host in hosts):
        return True
    # The first look at a host has not counted the ports of which only its balancers tell.
    first = 2 if any(host.ports and host.is_told_its_ports for host in hosts) else 1
    return number <= first and any(_needs_second_look(decided, host) for host in hosts) or any(_needs_time(decided, host) for host in hosts)


def _is_late_and_tried(decided: Decided, host: Host) -> bool:
    since = restoring_since(decided, host)
    return since is not None and bool(decided.step(host)) and decided.observed.now - since >= host.settings.restore_service.timeout


def _needs_second_look(decided: Decided, host: Host) -> bool:
    """Whether the host needs a second look. Two looks prove that it is drained, or that its event is over. A machine that cannot be read may be restarting."""
    if restoring_since(decided, host) is not None and decided.step(host):
        return False
    observed = decided.observed
    # The first look does not ask whether those that would stay in service answer.
    unasked = any(wait.about(Kind.LOOK) for (name, _event), wait in decided.waiting.items() if name == host.name)
    return unasked or decided.needs_second_look(host) or bool(host.blind) or host.is_unread or is_lost(host, observed) or is_doubtful(host, observed)


def _needs_time(decided: Decided, host: Host) -> bool:
    """Whether an idle host only needs more time without a request or without a balancer. The next run would count this time from the beginning."""
    drain, step = decided.drains[host.name], decided.step(host)
    in_hand = [event for event in host.events if event.prepares and not event.started and (host.name, event.key) not in decided.waiting]
    # Where nothing tells since when somebody else keeps it out, each run begins to count until its balancer must have noticed.
    by_others = [place for place in host.places if place.seen_out_since is not None and (place.noticing or decided.needs_second_look(host))]
    if (drain.busy or not drain.too_early) and not by_others or all(event.approved for event in in_hand):
        return False
    notice = max((kind.noticed_after(settings) for kind, settings in (place.balancer for place in by_others)), default=0.0)
    if decided.observed.now - decided.observed.run.started >= 2 * host.settings.quiet + QUIET_PATIENCE + notice:
        return False
    if by_others:
        return True
    # This step also waits for that time, as long as a look would.
    too_short = step is not None and step.role == "drain_host" and drain.quiet_left > QUIET_SEEN
    return too_short or decided.needs_second_look(host)


def _messages(decided: Decided, statuses: Statuses, late: Iterable[Event], time_is_over: bool) -> list[Message]:
    """Why the run would fail if it ended now, each reason once. C(late): events that should be over by now."""
    observed = decided.observed
    run, hosts = observed.run, observed.hosts.values()
    lines = {host.name: most_urgent(statuses, host, observed)[0] for host in hosts}
    in_table = {host.name: [statuses[host.name, event.key].why for event in observed.events_of(host)] for host in hosts}
    # The preview tells of each event which rule cannot be asked.
    told = {fault for whys in in_table.values() for why in whys for fault in why} | {
        fault for fault in observed.faults if run.check and fault.kind is Kind.MISTAKE
    }
    messages = [Message(fault.text, in_table=fault in told) for fault in observed.faults]
    reported: set[tuple[str, Reason]] = set()

    def tell(names: list[str], *why: Reason) -> None:
        # What is wrong with a balancer is told of the balancer, not once more for each host behind it.
        new = [reason for reason in why if reason.kind is not Kind.BALANCER and not reported.issuperset((name, reason) for name in names)]
        if any(reason.kind is not Kind.NOTE for reason in new):
            reported.update((name, reason) for name in names for reason in new)
            is_theirs = all(lines[name].state == "needs_person" and set(new) <= set(lines[name].why) for name in names)
            is_listed = all(any(set(new) <= set(why) for why in in_table[name]) for name in names)
            messages.append(Message(f"{', '.join(names)}: {words(new)}", hosts=tuple(names), is_theirs=is_theirs, in_table=is_listed))

    for event in late:
        # A rehearsal has a time of its own.
        after = f"not over after {run.timeout:g} s" if run.rehearsed else f"not over when handle_events_timeout ({run.timeout:g} s) ran out"
        why = f"{event.label}: {after}"
        messages.append(Message(f"{why}{_waited_for(event, statuses)}", why))
    # A mistake in the settings of a group is told once, not for each of its hosts.
    for reason in dict.fromkeys(reason for host in hosts for reason in host.fatal):
        tell([host.name for host in hosts if reason in host.fatal], reason)
    for host in hosts:
        if _is_patient(host, observed) or time_is_over or not run.wait:
            for reason in _given_up(host, observed):
                tell([host.name], reason)
    # In check mode each host is asked, even if no event names it or its event has time.
    for host in hosts if run.check else ():
        if host.refuses_unanswered:
            tell([host.name], unanswered(host))
        dead = dead_in_rotation(host)
        if dead and host.settings.restore_service.unanswered == "refuse":
            tell([host.name], dead)
        for place in host.places:
            for reason in (*reasons(Kind.BUSY, [place.stays]), *reasons(Kind.MISTAKE, [place.wrong])):
                tell([host.name], reason)
        for reason in reasons(Kind.MISTAKE, [*host.untold, *host.observation.unseen]):
            tell([host.name], reason)
    if not any(host.observation.reached for host in hosts) and not all(host.settings.may_be_off for host in hosts):
        messages.append(Message(f"none of the targets could be {'read' if any(host.observation.cut_off for host in hosts) else 'reached'}"))
    for event in of_targets(observed):
        for name in event.hosts:
            if statuses[name, event.key].state == "needs_person":
                tell([name], *statuses[name, event.key].why)
    return messages


def _given_up(host: Host, observed: Observed) -> Iterator[Reason]:
    """What could not be read of a host."""
    if not host.fatal:
        yield from host.blind
    namesake = _may_be_named(host, observed)
    if host.is_unread:
        yield Reason(Kind.UNREAD, joined([f"its metadata service cannot be read: {host.observation.error}", *namesake]))
    if is_lost(host, observed):
        missed = "read" if host.observation.cut_off else "reached"
        unwatched = "" if namesake else ", and no event is known that names it, so nobody watches it"
        why = f"{joined([f'it cannot be {missed}{unwatched}: {why_unread(host)}', *namesake]).rstrip('.')}."
        off = "; if it may be switched off, set graceful_azure_may_be_off for it" if host.observation.seems_off else ""
        mend = f"Set {OBSERVE_TIMEOUT}, such as to 30" if host.observation.cut_off else "Mend it"
        yield Reason(Kind.UNREAD, f"{why} {mend}, or leave it out of the target{off}")


def _may_be_named(host: Host, observed: Observed) -> list[str]:
    """A sentence if events name VMs that are no known target, and the host's name in Azure is not known."""
    events = [event for event in observed.events.values() if event.standing and event.strangers]
    if host.resource_name or not events:
        return []
    told = (f"{listed(list(event.shown_by))} shows {event.label} for {listed(event.strangers)}" for event in events)
    return [f"{' and '.join(told)}, which may be this host: set graceful_azure_resource_name"]


def _waited_for(event: Event, statuses: Statuses) -> str:
    """The hosts that have not finished an event, and why."""
    mine = [(name, statuses[name, event.key]) for name in event.hosts]
    waited = [f"{name}: {status.state}: {status.reason}" for name, status in mine if status.state not in SERVING]
    return f" ({joined(waited)})" if waited else ""
