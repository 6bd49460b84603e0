# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What state is a host in, and what do people read about it? Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypedDict

from ansible_collections.graceful.azure.plugins.module_utils._absence import LAG
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.approval import is_sent_outside, ways_outside
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.candidates import Decided
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import Run
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import Event
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.judgement import (
    ONCE_MORE,
    OWN_TASKS,
    PATIENCE,
    connections_of,
    dead_in_rotation,
    drain_until,
    failing_for,
    has_ended,
    has_own_tasks,
    is_given_back,
    is_owed,
    maintenance,
    may_be_read_soon,
    out_by_others,
    silenced_by_us,
    silent_for,
    unanswered,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.observation import Observed
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import HELD, Place
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.verdicts import Kind, Reason, reasons, words
from ansible_collections.graceful.azure.plugins.plugin_utils._text import shows_connections
from ansible_collections.graceful.azure.plugins.plugin_utils._types import StepJson

STATES = ("in_service", "waiting", "draining", "ready", "approved", "started", "restoring", "restored", "needs_person", "unobserved")
FAULTS = ("needs_person", "unobserved")
"""States that end only when a person or a machine does something."""
DRAINED = ("ready", "approved")
"""States that tell that a host was drained."""
PRESSING = ("needs_person", "started", "draining", "unobserved", "waiting", "ready", "approved", "restoring", "restored")
"""States, the most urgent first. An impact comes before what is done for the next event."""
SHOWN_KINDS = (Kind.LATE, Kind.NOTHING, Kind.LOOK)
"""The kinds of reasons that a decision names: the page of a report asks for the first, the lines of a run leave out the second and tell the third once."""
UNTIL = {
    "draining": "drain until",
    "waiting": "goes out at the latest at",
    "restoring": "should be back by",
    "needs_person": "goes out all the same at",
}
"""What the time of a state is, if it is not that at which Azure starts the event."""
LEFT_OUT = "left out"
"""What lines call the state in_service where an operator keeps the host out."""
LONG_UNANSWERED = 10.0
"""Seconds without an answer after an event, after which people are told what else may be the cause than a host that still starts."""


class Status(NamedTuple):
    """The state of one host in one event, and why."""

    state: str
    why: tuple[Reason, ...]
    until: float | None = None
    tried_again: bool = False  # it needs a person, or passes by itself

    @property
    def reason(self) -> str:
        return words(self.why)

    @property
    def kind(self) -> str:
        return next((reason.kind.value for reason in self.why if reason.kind in SHOWN_KINDS), "")


Statuses = dict[tuple[str, str], Status]
"""What people read, per host and event."""


class Decision(TypedDict):
    """The next step of a host, and what people read about the host."""

    step: StepJson | None
    state: str
    shown: str  # the state as the lines of a run have it
    reason: str
    since: float | None  # since when it is in this state
    until: float | None  # never in the past
    until_is: str  # what C(until) is, as people read it before the time
    tried_again: bool  # if it needs a person: whether it may pass by itself
    kind: str  # of the reason, if it is one of C(SHOWN_KINDS)
    event: str | None  # the most urgent event, as people read it
    event_id: str | None  # its id
    events: list[str]  # the ids of the events that name it


def statuses_of(decided: Decided) -> Statuses:
    """What people read about each host in each of its events."""
    statuses = {}
    for host in decided.observed.hosts.values():
        for event in decided.observed.events_of(host):
            status = _status(decided, host, event)
            if event.key in host.held_ids:
                status = status._replace(why=(*status.why, *reasons(Kind.NOTE, host.notes)))
            statuses[host.name, event.key] = status
    return statuses


def most_urgent(statuses: Statuses, host: Host, observed: Observed) -> tuple[Status, Event | None]:
    """What people read about the host: its status in the most urgent of its events, and that event."""
    mine = [(statuses[host.name, event.key], event) for event in observed.events_of(host)]
    if not mine:
        return _status_without_event(host, observed), None
    return min(mine, key=lambda entry: PRESSING.index(entry[0].state) if entry[0].state in PRESSING else len(PRESSING))


def decision(decided: Decided, statuses: Statuses, host: Host) -> Decision:
    """The host's step, and what people read about the host."""
    observed = decided.observed
    status, event = most_urgent(statuses, host, observed)
    step = decided.step(host)
    return {
        "step": step.as_json(host) if step else None,
        "state": status.state,
        "shown": LEFT_OUT if status.state == "in_service" and out_by_others(host) and not host.wrong else status.state,
        "reason": status.reason,
        "since": host.memory.state_since if host.memory.state == status.state else observed.now,
        "until": _until(status, event, observed.now),
        "until_is": _until_is(status, event),
        "tried_again": status.tried_again,
        "kind": status.kind,
        "event": event.label if event else None,
        "event_id": event.event_id if event else None,
        "events": [each.event_id for each in observed.events_of(host) if each.standing],
    }


def _until(status: Status, event: Event | None, now: float) -> float | None:
    """The time of a status, if it is still to come. A rehearsal is over before its event would start."""
    never_comes = event is not None and event.is_rehearsal and status.until == event.not_before_at
    return None if status.until is None or status.until <= now or never_comes else status.until


def _until_is(status: Status, event: Event | None) -> str:
    """What the time of a status is, as people read it before the time."""
    if event and status.until == event.not_before_at:
        return "Azure would start it by itself from" if event.approved else "Azure may start it from"
    if status.state == "restoring" and status.why and status.why[0].kind is Kind.UNREAD:
        return "needs a person after"
    return UNTIL.get(status.state, "until")


def warnings(decided: Decided) -> Iterator[str]:
    """Sentences that a person should know and that stop nothing, each once in a run."""
    for host in decided.observed.hosts.values():
        told = ((topic, sentence) for topic, sentence in warned_of(host, decided.observed.run) if topic not in host.memory.warned)
        yield from (f"{host.name}: {sentence}" for _topic, sentence in told)


def warned_of(host: Host, run: Run) -> Iterator[tuple[str, str]]:
    """What a person should know of a host, and that stops nothing: pairs of a topic and a sentence."""
    silence, silenced = _silence(host, run), silenced_by_us(host)
    if silence:
        yield "unanswered", silence.text
    if silenced:
        yield "silenced", silenced.text
    if host.uncounted:
        whence = "a balancer leads there; graceful_azure_ports would choose others" if host.is_told_its_ports else "graceful_azure_ports"
        yield "uncounted", f"{'; '.join(host.uncounted)} ({whence}). As long as this is so, the host never counts as idle"
    if not run.check and any(event.prepares for event in host.events):
        # In check mode, it is a mistake that nobody could tell that the host is out.
        yield from (("untold", sentence) for sentence in host.untold)
    yield from unnoticed(host)
    unchecked = unchecked_places(host)
    if unchecked:
        yield (
            "unchecked",
            f"nothing tells whether it serves again after the event: {unchecked[0].balancer[0].title} has no health check of"
            f" {', '.join(place.name for place in unchecked)}, and neither graceful_azure_health_url nor graceful_azure_health_port is set."
            " It gets requests as soon as the event is over",
        )


def unnoticed(host: Host) -> Iterator[tuple[str, str]]:
    """What may go to a host although it counts as drained: pairs of a topic and a sentence."""
    if host.udp:
        ports = ", ".join(map(str, host.udp))
        yield "udp", f"UDP is served on port {ports}, too, as by HTTP/3 or DNS. Its clients cannot be counted: only those of TCP keep the host busy"
    yield from (("doubts", sentence) for sentence in host.traffic.doubts)


def _silence(host: Host, run: Run) -> Reason | None:
    """That a host does not answer, if people are told so now and it goes out all the same. In check mode also without an event."""
    if host.settings.restore_service.unanswered == "refuse":
        return None
    if host.unanswered and (host.events or run.check):
        return unanswered(host)
    return dead_in_rotation(host) if run.check else None


def unchecked_places(host: Host) -> list[Place]:
    """The host's places that the balancer would not check when they come back, if an event is about to take the host out."""
    ask = host.settings.restore_service.ask
    if ask is None or ask or not any(event.prepares for event in host.events):
        return []
    return [place for place in host.places if not place.checked]


def why_unread(host: Host) -> str:
    return words(host.fatal) or host.why_silent


def _status(decided: Decided, host: Host, event: Event) -> Status:
    """The status of one host in one standing event: the first case that fits."""
    observed = decided.observed
    now, busy = observed.now, decided.drains[host.name].busy
    wait = decided.waiting.get((host.name, event.key))
    if event.ignored and event.key not in host.held_ids and not host.fatal:
        return Status("in_service", (Reason(Kind.RULE, f"rule {event.decided_by['name']!r}: left alone"),))
    if host.fatal:
        return Status("needs_person", tuple(host.fatal))
    if event.ignored or not event.standing:
        return _status_after(decided, host, event)
    if host.name not in event.members:
        return _status_of_namesake(host, event)
    if host.conflicts and event.prepares and host.in_rotation and event.key in host.held_ids:
        return Status("needs_person", reasons(Kind.CONFLICT, host.conflicts), event.not_before_at)
    if host.blind and event.prepares:
        if not may_be_read_soon(host, observed):
            return Status("needs_person", host.blind, event.not_before_at)
        state = _state_so_far(host, event)
        # A run before this one may have taken it out.
        unknown = [Reason(Kind.BALANCER, f"whether {host.name} is out is not known yet")] if state == "waiting" else []
        return Status(state, (*host.blind, *unknown))
    if wait and wait.about(Kind.ANSWER):
        return Status("needs_person", wait.why, wait.until)
    if host.failure and failing_for(host, [event], now) >= PATIENCE:
        return Status("needs_person", (Reason(Kind.FAILURE, f"{host.failure}; each pass tries again"),), event.not_before_at, True)
    if event.started:
        return Status("started", _with_failure(host, _why_started(host, event, busy, now)))
    if host.observation.is_silent:
        return _status_silent(decided, host, event)
    approval = decided.approvals[event.key]
    if event.approved:
        again = "is in rotation, although it is approved, and goes out again; " if event.prepares and host.in_rotation else ""
        return Status("approved", _with_failure(host, (Reason(Kind.STATE, f"{again}waits until {event.announced_by} starts it"),)), event.not_before_at)
    if wait and not decided.step(host):
        return Status("waiting", _with_failure(host, wait.why), wait.until)
    if not event.prepares:
        why = approval.about(Kind.STRANGER) or Reason(Kind.RULE, f"rule {event.decided_by['name']!r}: to be approved unprepared")
        return Status("waiting", _with_failure(host, (why,)), event.not_before_at)
    if not decided.readiness(host, event).holds:
        until = drain_until(host, event, now)
        # The time to drain begins once no balancer sends it requests any more.
        is_out = not (host.in_rotation or host.blind)
        if host.wrong and not _is_going_out(decided, host):
            return Status("needs_person", _with_failure(host, host.wrong), event.not_before_at)
        draining = Status("draining", _with_failure(host, _why_draining(decided, host, event, until)), until if is_out else None)
        # When its time is over, Azure waits until then.
        return draining._replace(until=event.not_before_at) if draining.kind == Kind.LATE.value else draining
    return Status("ready", _with_failure(host, approval.why[:1]), event.not_before_at)


def _with_failure(host: Host, why: tuple[Reason, ...]) -> tuple[Reason, ...]:
    """The reasons, and why the host's last step failed."""
    if not host.failure:
        return why
    return (*why[:-1], why[-1]._replace(text=f"{why[-1].text} (last step failed: {host.failure})"))


def _status_silent(decided: Decided, host: Host, event: Event) -> Status:
    """The same for a host that cannot be reached."""
    observed, approval = decided.observed, decided.approvals[event.key]
    if decided.sent_through(event):
        return Status("ready", _with_failure(host, approval.why[:1]), event.not_before_at)
    silence = Reason(Kind.UNREAD, host.silence)
    if event.approved and event.sent_through:
        approved = Reason(Kind.STATE, f"was approved through {event.sent_through}; waits until {event.announced_by} starts it")
        return Status("approved", (*_with_failure(host, (approved,)), silence), event.not_before_at)
    why = decided.drains[host.name].busy
    ways = " or ".join(ways_outside(event, observed))
    ready = decided.readiness(host, event, outside=True)
    if ways and not ready.holds:
        why = (*why, Reason(Kind.UNREAD, f"not approved through {ways}: {ready.text}"))
    elif ways and not approval.about(Kind.STRANGER):
        doubt = approval.about(Kind.DOUBT, *([Kind.SIBLING] if is_sent_outside(event, observed) else []))
        why = (*why, doubt) if doubt else why
    return Status("unobserved", _with_failure(host, why), event.not_before_at)


def _status_of_namesake(host: Host, event: Event) -> Status:
    """The same for a host that the event was taken to name, although the host's own service does not show it."""
    is_held = event.key in host.held_ids
    if not event.bears_name_of(host):
        so_far = "restoring" if event.names_no_more(host) else _state_so_far(host, event)
        state, why = so_far if is_held else "in_service", f"{event.label} no longer names it"
    elif host.name not in event.not_meant:
        state = _state_so_far(host, event)
        why = f"its metadata service does not show {event.label}; if it still does not after {LAG:g} s, another VM of its name is meant"
    elif is_held and not event.means_another(host):
        stays = "it is in rotation" if host.in_rotation else "as it is out, it stays out until the event is over"
        state, why = _state_so_far(host, event), f"its metadata service does not show {event.label}; {stays}"
    else:
        state, why = "restoring" if is_held else "in_service", f"{event.label} means another VM of its name"
    return Status(state, (Reason(Kind.DOUBT, why),))


def _state_so_far(host: Host, event: Event) -> str:
    """The state of a host whose own service does not show the event, as long as that does not prove that the event is over or means another VM."""
    if not host.was_read:
        return "unobserved"
    if event.started or event.seen_started:
        return "started"
    if event.approved:
        return "approved"
    return "draining" if event.key in host.held_ids else "waiting"


def _why_started(host: Host, event: Event, busy: tuple[Reason, ...], now: float) -> tuple[Reason, ...]:
    if host.observation.is_silent:
        seconds = round(silent_for(host, now))
        return (Reason(Kind.UNREAD, f"has not answered for {seconds} s" if seconds else "does not answer"),)
    if not event.prepares:
        return (Reason(Kind.STATE, "the event has started"),)
    # What a person could mend before the impact is no matter now: who answers there may only be starting.
    said = tuple(reason._replace(text=reason.booting or reason.text) for reason in busy if reason.kind is not Kind.NOT_YET)
    return said or (Reason(Kind.STATE, f"stays out until {event.announced_by} says that the event is over"),)


def _is_going_out(decided: Decided, host: Host) -> bool:
    step = decided.step(host)
    return bool(step and step.role == "load_balancer")


def _being(decided: Decided) -> str:
    """How a phrase begins about what this pass does, or a run would do."""
    return "would be" if decided.observed.run.check else "is being"


def _why_draining(decided: Decided, host: Host, event: Event, until: float | None) -> tuple[Reason, ...]:
    step = decided.step(host)
    if _is_going_out(decided, host):
        if host.in_rotation or host.blind:
            return (Reason(Kind.ACT, f"{_being(decided)} taken out of its balancer"),)
        # It is out for another event, or the run that took it out was killed before the record said so.
        return (Reason(Kind.RECORD, f"out of its balancer, and its record there {_being(decided)} completed"),)
    going_on = going_on_at(decided, host)
    why = going_on or (Reason(Kind.ACT, "its duties are being handed over") if step else Reason(Kind.LOOK, ONCE_MORE),)
    # A killed run may have used up the time. Whether the host is drained is not known before this run has counted.
    is_counted = not host.not_counted_yet and (going_on or step)
    if until is None or decided.observed.now < until or not is_counted:
        return why
    late = f"not drained in time (on_drain_timeout: {event.decided_by['on_drain_timeout']})"
    find = f". To see what is left: {'; '.join(_commands(host))}" if decided.drains[host.name].busy and _commands(host) else ""
    return (Reason(Kind.LATE, f"{late}, still to end: {words(why)}{find}"),)


def going_on_at(decided: Decided, host: Host) -> tuple[Reason, ...]:
    """What keeps a host that goes out from being drained."""
    # A look tells of all drain steps, the step itself only of the one that it waits for.
    return (*decided.drains[host.name].busy, *reasons(Kind.STEP, host.observation.still_on or host.drain_steps_left))


def _commands(host: Host) -> list[str]:
    """What a person may type to see the requests and connections that are left, and where."""
    places = [place for place in host.places if place.busy]
    at_balancers = [f"on {place.machine}: {place.balancer[0].left_by(place.balancer[1])}" for place in places if place.balancer[0].left_by(place.balancer[1])]
    found = connections_of(host)
    ports = sorted({connection["port"] for connection in found})
    own = [f"on {host.name}: {shows_connections(ports)}"] if ports else []
    return list(dict.fromkeys([*at_balancers, *own]))


def _status_after(decided: Decided, host: Host, event: Event) -> Status:
    """The same for an event that no longer stands, is ignored, or is unknown because the host cannot be read."""
    observed = decided.observed
    silence = Reason(Kind.UNREAD, host.silence)
    if not event.ignored and not has_ended(event, observed) and not event.is_over_for(host):
        return Status(_state_so_far(host, event), (_why_not_over(host, event) if host.was_read else silence,))
    lost = event.lost.get(host.name)
    if lost and not (observed.run.wait and event.key in host.held_ids):
        # A run of one step takes no look after it, so nobody would tell it later.
        return Status("needs_person", reasons(Kind.CONFLICT, dict.fromkeys([*(event.conflicts.get(host.name) or ()), *lost])))
    if event.key not in host.held_ids or event.key in host.approved_ids:
        return _status_without_hold(host, event, observed)
    step = decided.step(host)
    going_back = f"{_being(decided)} put back" if step and step.role == "restore_service" else ""
    held = reasons(
        Kind.ACT if going_back else Kind.STATE,
        (place.still_out or f"{place.name} {going_back or place.balancer[0].still_out}" for place in host.places if place.name and place.condition == HELD),
    )
    if not host.was_read:
        return Status("unobserved", (silence, *held))
    if host.name in decided.wanted_out:
        return Status("restoring", (Reason(Kind.STATE, "another event still names it"),))
    since = restoring_since(decided, host)
    since = observed.now if since is None else since
    why = _why_restoring(host, observed.now - since) or held or (Reason(Kind.STATE, "what was changed for the event is still to be put back"),)
    limit = host.settings.restore_service.timeout
    # Somebody may have corrected it before this run began.
    if host.restoring_reason is not None and observed.now - since >= limit:
        late = Reason(Kind.FAILURE, f"not restored within {limit:g} s: {words(why)}; each run tries again")
        return Status("needs_person", (late, *reasons(Kind.CONFLICT, lost or ())), None, True)
    if why[0].kind is Kind.ANSWER:
        why = (why[0]._replace(text=f"not back yet: {why[0].text}"), *why[1:])
    return Status("restoring", why, since + limit)


def _why_restoring(host: Host, seconds: float) -> tuple[Reason, ...]:
    """Why the last step that was to bring the host back has not. C(seconds): for how long runs have tried."""
    if host.failure:
        return (Reason(Kind.FAILURE, host.failure),)
    if not host.restoring_reason:
        return ()
    if not host.is_unanswered:
        return (Reason(Kind.STEP, host.restoring_reason),)
    own = has_own_tasks(host) and seconds >= LONG_UNANSWERED
    return reasons(Kind.ANSWER, [*host.restoring_left, f"your own task file took it out: {OWN_TASKS}" if own else ""])


def restoring_since(decided: Decided, host: Host) -> float | None:
    """Since when runs have tried to bring the host back; None if none has."""
    return decided.restoring_since.get(host.name, host.memory.restoring_since)


def _status_without_hold(host: Host, event: Event, observed: Observed) -> Status:
    if host.blind and event.prepares:
        until = _blind_until(host, event, observed)
        return Status("restoring", host.blind, until) if observed.now < until else Status("needs_person", host.blind)
    # Where only the record of the approval is left, everything else was given back by an earlier run.
    was_prepared = event.recalled and event.prepares and event.approved and host.name in event.members
    was_held = host.name in event.held or was_prepared and not maintenance(host)
    if not is_given_back(host, event, observed) and (was_held or event.recalled):
        return Status("unobserved", (Reason(Kind.UNREAD, host.silence),))  # its own records cannot be read
    if not was_held:
        return Status("in_service", (Reason(Kind.STATE, "was not taken out"), *maintenance(host)))
    conflicts = event.conflicts.get(host.name) or []
    out = out_by_others(host)
    if conflicts and out:
        # What somebody else changed while we held it was left alone, and keeps the host out.
        return Status("needs_person", reasons(Kind.CONFLICT, [*conflicts, f"still out: {', '.join(out)}. Put it back when the host should serve"]))
    back = (Reason(Kind.STATE, "back as it was found"), *maintenance(host))
    return Status("restored", reasons(Kind.CONFLICT, conflicts) or back)


def _blind_until(host: Host, event: Event, observed: Observed) -> float:
    """Until when a run waits for a balancer that cannot be read after an event. Such a balancer may still hold the host out."""
    since = observed.now if host.blind_since is None else host.blind_since
    if not is_owed(host, event, observed) or host.held_since.get(event.key, since) >= since:
        return since + PATIENCE
    return max(since, since if event.gone_at is None else event.gone_at) + max(PATIENCE, host.settings.restore_service.timeout)


def _why_not_over(host: Host, event: Event) -> Reason:
    """Why an event that the host's service does not show is not over yet."""
    if host.observation.empty_body:
        return Reason(Kind.DOUBT, "its metadata service answered with an empty body, which ends no event that is held or still to come")
    # The times in records are whole seconds. Within these, nobody knows which came first.
    if event.held_at is not None and host.read_at <= event.held_at:
        return Reason(Kind.DOUBT, f"held for {event.label} since it was last looked at")
    return Reason(Kind.DOUBT, "its metadata service no longer shows the event; it is brought back once a second look shows the same")


def _status_without_event(host: Host, observed: Observed) -> Status:
    if host.fatal:
        return Status("needs_person", tuple(host.fatal))
    if not host.was_read:
        return Status("unobserved", (Reason(Kind.UNREAD, host.why_silent),))
    doubtful = next((event for event in observed.events.values() if event.may_mean(host, observed.now)), None)
    foreign = ", ".join(map(repr, sorted(host.foreign_ids)))
    more = reasons(Kind.NOTE, [f"held for {foreign}, no event of Azure's: whoever holds it gives it back"] if foreign else [])
    if doubtful:
        doubt = (
            f"{' and '.join(doubtful.shown_by)} was told of {doubtful.label}, which names a VM called {host.name}; if the metadata service of"
            f" {host.name} itself does not show that event within {LAG:g} s, another VM of this name is meant"
        )
        return Status("in_service", (*maintenance(host), Reason(Kind.DOUBT, doubt), *more))
    is_all = not maintenance(host) and not more
    return Status("in_service", (*maintenance(host), Reason(Kind.NOTHING if is_all else Kind.STATE, "no event names it"), *more))
