# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What state is a host in, and what do people read about it? Private to the collection; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypedDict

from ansible_collections.graceful.azure.plugins.plugin_utils._planning.approval import doubt, is_not_ours, is_sent_outside, ways_outside
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.candidates import Decided
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import LAG, Event
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.judgement import (
    OWN_TASKS,
    PATIENCE,
    drain_until,
    failing_for,
    has_own_tasks,
    is_given_back,
    is_over,
    is_owed,
    is_ready_outside,
    maintenance,
    silenced_by_own_tasks,
    silent_for,
    unanswered,
    unready_from_outside,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.observation import Observed
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import HELD, Place
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.steps import Step
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.restore_service import STAYS_OUT
from ansible_collections.graceful.azure.plugins.plugin_utils._types import StepJson

PRESSING = ("needs_person", "started", "draining", "unobserved", "waiting", "ready", "approved", "restoring", "restored")
"""States, the most urgent first. An impact comes before what is done for the next event."""
LATE = "late"
"""The kind of a reason: the host was still not drained when its time was over. The page of a report asks for it."""
NOTHING = "nothing"
"""The kind of a reason: there is nothing to tell of the host."""
LONG_UNANSWERED = 10.0
"""Seconds without an answer after an event, after which people are told what else may be the cause than a host that still starts."""


class Told(NamedTuple):
    """What people read about one host in one event."""

    state: str
    reason: str
    until: float | None = None
    tried_again: bool = False  # it needs a person, or passes by itself
    kind: str = ""  # of the reason, where something is made of it: C(LATE) or C(NOTHING)


Report = dict[tuple[str, str], Told]
"""What people read, per host and event."""


class Decision(TypedDict):
    """The next step of a host, and what people read about the host."""

    step: StepJson | None
    state: str
    reason: str
    since: float | None  # since when it is in this state
    until: float | None  # never in the past
    tried_again: bool  # if it needs a person: whether it may pass by itself
    kind: str  # of the reason, see C(Told)
    event: str | None  # the most urgent event, as people read it
    event_id: str | None  # its id
    events: list[str]  # the ids of the events that name it


def report(decided: Decided) -> Report:
    """What people read about each host in each of its events."""
    found = {}
    for host in decided.observed.hosts.values():
        for event in decided.observed.events_of(host):
            told = _told(decided, host, event)
            if event.key in host.held_ids:
                told = told._replace(reason="; ".join([told.reason, *host.notes]))
            found[host.name, event.key] = told
    return found


def decision(decided: Decided, told: Report, host: Host) -> Decision:
    """The host's step, and what people read about the most urgent of its events."""
    observed = decided.observed
    events = observed.events_of(host)
    mine = [(told[host.name, event.key], event) for event in events]
    said: Told
    about: Event | None
    if mine:
        said, about = min(mine, key=lambda entry: PRESSING.index(entry[0].state) if entry[0].state in PRESSING else len(PRESSING))
    else:
        said, about = _told_without_event(host, observed), None
    step = decided.step(host)
    return {
        "step": step.as_json(host) if step else None,
        "state": said.state,
        "reason": said.reason,
        "since": host.memory.state_since if host.memory.state == said.state else observed.now,
        "until": said.until if said.until is not None and said.until > observed.now else None,
        "tried_again": said.tried_again,
        "kind": said.kind,
        "event": about.label if about else None,
        "event_id": about.event_id if about else None,
        "events": [event.event_id for event in events if event.standing],
    }


def warnings(decided: Decided) -> Iterator[str]:
    """Sentences that a person should know and that stop nothing, each once in a run."""
    for host in decided.observed.hosts.values():
        if warns_unanswered(host):
            yield f"{host.name}: {unanswered(host)}"
        if warns_silenced(host):
            yield f"{host.name}: {silenced_by_own_tasks(host)}"
        if host.uncounted and not host.memory.warned_uncounted:
            yield f"{host.name}: {'; '.join(host.uncounted)} (drain_host_ports). As long as this is so, the host never counts as idle"
        if not host.memory.warned_doubts:
            yield from (f"{host.name}: {sentence}" for sentence in host.traffic.doubts)
        unchecked = unchecked_places(host)
        if unchecked and not host.memory.warned_unchecked:
            yield (
                f"{host.name}: nothing tells whether it serves again after the event: {unchecked[0].balancer[0].title} has no health check of"
                f" {', '.join(place.name for place in unchecked)}, and neither restore_service_url nor restore_service_port is set."
                " It gets requests as soon as the event is over"
            )


def warns_unanswered(host: Host) -> bool:
    return bool(host.unanswered and not host.refuses_unanswered and host.events and not host.memory.warned_unanswered)


def warns_silenced(host: Host) -> bool:
    return bool(not host.memory.warned_silenced and silenced_by_own_tasks(host))


def unchecked_places(host: Host) -> list[Place]:
    """The host's places that the balancer would not check when they come back, if an event is about to take the host out."""
    ask = host.settings.restore_service.ask
    if ask is None or ask or not any(event.prepares for event in host.events):
        return []
    return [place for place in host.places if not place.checked]


def why_unread(host: Host) -> str:
    return "; ".join(host.fatal) or host.why_silent


def ready_reason(decided: Decided, event: Event) -> str:
    observed = decided.observed
    if is_not_ours(event, observed):
        return f"not approved by us: {', '.join(event.strangers)} is none of the targets"
    if not event.asks_approval:
        return f"rule {event.decided_by['name']!r}: prepared, not approved"
    silent = [host.name for host in observed.members(event) if host.refuses_unanswered]
    if silent:
        return f"not approved by us: {', '.join(silent)} did not answer while in service, and may not come back"
    through = decided.sent_through(event)
    if through:
        names = ", ".join(event.members)
        return f"is being approved through {through}, since {f'none of {names} can' if len(event.members) > 1 else f'{names} cannot'} send it"
    unready = [host.name for host in observed.members(event) if not decided.is_ready(host, event)]
    return f"waits for {', '.join(unready)}" if unready else doubt(event, observed) or "is being approved"


def _told(decided: Decided, host: Host, event: Event) -> Told:
    """What is told about one host in one standing event: the first case that fits."""
    observed = decided.observed
    now, busy = observed.now, decided.drains[host.name].busy
    wait = decided.waiting.get((host.name, event.key))
    if event.ignored and event.key not in host.held_ids and not host.fatal:
        return Told("in_service", f"rule {event.decided_by['name']!r}: left alone")
    if host.fatal:
        return Told("needs_person", "; ".join(host.fatal))
    if event.ignored or not event.standing:
        return _told_after(decided, host, event)
    if host.name not in event.members:
        return _told_of_namesake(host, event)
    if host.conflicts and event.prepares and host.in_rotation and event.key in host.held_ids:
        return Told("needs_person", "; ".join(host.conflicts), event.deadline)
    if host.blind and event.prepares:
        return Told("needs_person", "; ".join(host.blind), event.deadline)
    if wait and (host.name, event.key) in decided.unanswered:
        return Told("needs_person", *wait)
    if host.failure and failing_for(host, [event], now) >= PATIENCE:
        return Told("needs_person", f"{host.failure}; each pass tries again", event.deadline, True)
    failed = f" (last step failed: {host.failure})" if host.failure else ""
    if event.started:
        return Told("started", _told_started(host, event, busy, now) + failed)
    if host.observation.is_silent:
        return _told_silent(decided, host, event, busy, failed)
    if event.approved:
        again = "is in rotation, although it is approved, and goes out again; " if event.prepares and host.in_rotation else ""
        return Told("approved", again + "waits for the start" + failed, event.not_before_at)
    if wait and not decided.step(host):
        return Told("waiting", wait.why + failed, wait.until)
    if not event.prepares:
        why = ready_reason(decided, event) if is_not_ours(event, observed) else f"rule {event.decided_by['name']!r}: to be approved unprepared"
        return Told("waiting", why + failed, event.not_before_at)
    if not decided.is_ready(host, event):
        until = drain_until(host, event, now)
        reason, kind = _told_draining(decided.step(host), event, busy, until, now, host.drain_said, host.observation.still_on)
        return Told("draining", reason + failed, until, kind=kind)
    return Told("ready", ready_reason(decided, event) + failed, event.not_before_at)


def _told_silent(decided: Decided, host: Host, event: Event, busy: str, failed: str) -> Told:
    """The same for a host that cannot be reached."""
    observed = decided.observed
    if decided.sent_through(event):
        return Told("ready", ready_reason(decided, event) + failed, event.not_before_at)
    if event.approved and event.sent_through:
        return Told("approved", f"was approved through {event.sent_through}; waits for the start{failed}; {host.silence}", event.not_before_at)
    ways = " or ".join(ways_outside(event, observed))
    unready = unready_from_outside(host, decided.drains[host.name], event, decided.step(host)) if ways else None
    if unready:
        busy += f"; not approved through {ways}: {unready}"
    elif ways and not is_not_ours(event, observed):
        members = [member for member in observed.members(event) if member is not host]
        others = [member.name for member in members if not is_ready_outside(member, decided.drains[member.name], event, decided.step(member))]
        why = doubt(event, observed) or (is_sent_outside(event, observed) and others and f"waits for {', '.join(others)}")
        busy += f"; {why}" if why else ""
    return Told("unobserved", busy + failed, event.deadline)


def _told_of_namesake(host: Host, event: Event) -> Told:
    """The same for a host that the event was taken to name, although the host's own service does not show it."""
    is_held = event.key in host.held_ids
    if not event.bears_name_of(host):
        return Told(_state_so_far(host, event) if is_held else "in_service", f"{event.label} no longer names it")
    if host.name not in event.not_meant:
        why = f"its metadata service does not show {event.label}; if it still does not after {LAG:g} s, another VM of its name is meant"
        return Told(_state_so_far(host, event), why)
    if is_held and not event.means_another(host):
        stays = "it is in rotation" if host.in_rotation else "as it is out, it stays out until the event is over"
        return Told(_state_so_far(host, event), f"its metadata service does not show {event.label}; {stays}")
    return Told("restoring" if is_held else "in_service", f"{event.label} means another VM of its name")


def _state_so_far(host: Host, event: Event) -> str:
    """The state of a host whose own service does not show the event, as long as that does not prove that the event is over or means another VM."""
    if not host.was_read:
        return "unobserved"
    if event.started or event.seen_started:
        return "started"
    if event.approved:
        return "approved"
    return "draining" if event.key in host.held_ids else "waiting"


def _told_started(host: Host, event: Event, busy: str, now: float) -> str:
    if host.observation.is_silent:
        return f"silent for {silent_for(host, now):.0f} s"
    if not event.prepares:
        return "the event has started"
    return busy or "out until the event is gone"


def _told_draining(
    step: Step | None, event: Event, busy: str, until: float | None, now: float, said: Sequence[str], still_on: Sequence[str] | None
) -> tuple[str, str]:
    """The reason and its kind."""
    if step and step.role == "load_balancer":
        return "is to go out of its balancer", ""
    # What is left may have been told as what keeps the host busy.
    more = dict.fromkeys([*(still_on or ()), *said])
    going_on = "; ".join([*filter(None, [busy]), *(sentence for sentence in more if sentence not in busy)])
    idle = not going_on and not step
    what = going_on or ("services and tasks" if step else "idle, looked at once more")
    if until is None or now < until:
        return what, ""
    late = f"not drained in time (on_drain_timeout: {event.decided_by['on_drain_timeout']})"
    return (f"{late}, but {what}" if idle else f"{late}, still to end: {what}"), LATE


def _told_after(decided: Decided, host: Host, event: Event) -> Told:
    """The same for an event that no longer stands, is ignored, or is unknown because the host cannot be read."""
    observed = decided.observed
    silent = host.silence
    if not event.ignored and not is_over(event, observed) and not event.is_over_for(host):
        return Told(_state_so_far(host, event), _why_not_over(host, event) if host.was_read else silent)
    if event.key not in host.held_ids or event.key in host.approved_ids:
        return _told_without_hold(host, event, observed, silent)
    held = "; ".join(f"{place.name} is out" for place in host.places if place.name and place.condition == HELD)
    if not host.was_read:
        return Told("unobserved", "; ".join(part for part in (silent, held) if part))
    if host.name in decided.wanted_out:
        return Told("restoring", "another event still names it")
    since = restoring_since(decided, host)
    since = observed.now if since is None else since
    why = host.failure or host.restore_said or held or "holds remain"
    limit = host.settings.restore_service.timeout
    if has_own_tasks(host) and STAYS_OUT in why and observed.now - since >= LONG_UNANSWERED:
        why += f"; load_balancer_custom_out took it out: {OWN_TASKS}"
    # Somebody may have corrected it before this run began.
    if host.restore_said is not None and observed.now - since >= limit:
        return Told("needs_person", f"not restored within {limit:g} s: {why}; each run tries again", None, True)
    return Told("restoring", why, since + limit)


def restoring_since(decided: Decided, host: Host) -> float | None:
    """Since when runs have tried to bring the host back; None if none has."""
    return decided.restoring_since.get(host.name, host.memory.restoring_since)


def _told_without_hold(host: Host, event: Event, observed: Observed, silent: str) -> Told:
    if host.blind and event.prepares:
        until = _blind_until(host, event, observed)
        return Told("restoring", "; ".join(host.blind), until) if observed.now < until else Told("needs_person", "; ".join(host.blind))
    # Where only the record of the approval is left, everything else was given back by an earlier run.
    was_prepared = event.recalled and event.prepares and event.approved and host.name in event.members
    was_held = host.name in event.held or was_prepared and not maintenance(host)
    if not is_given_back(host, event, observed) and (was_held or event.recalled):
        return Told("unobserved", silent)  # its own records cannot be read
    if not was_held:
        return Told("in_service", "; ".join(filter(None, ["was not taken out", maintenance(host)])))
    return Told("restored", "; ".join(event.conflicts.get(host.name) or filter(None, ["back as it was found", maintenance(host)])))


def _blind_until(host: Host, event: Event, observed: Observed) -> float:
    """Until when a run waits for a balancer that cannot be read after an event. Such a balancer may still hold the host out."""
    since = observed.now if host.blind_since is None else host.blind_since
    if not is_owed(host, event, is_given_back(host, event, observed)) or host.held_since.get(event.key, since) >= since:
        return since + PATIENCE
    return max(since, since if event.gone_at is None else event.gone_at) + max(PATIENCE, host.settings.restore_service.timeout)


def _why_not_over(host: Host, event: Event) -> str:
    """Why an event that the host's service does not show is not over yet."""
    if host.observation.empty_body:
        return "its metadata service answered with an empty body, which ends no event that is held or still to come"
    if not host.was_read_since(event.held_at):
        return f"held for {event.label} since it was last looked at"
    return "its metadata service no longer shows the event; it is brought back once a second look shows the same"


def _told_without_event(host: Host, observed: Observed) -> Told:
    if host.fatal:
        return Told("needs_person", "; ".join(host.fatal))
    if not host.was_read:
        return Told("unobserved", host.why_silent)
    doubtful = next((event for event in observed.events.values() if event.may_mean(host, observed.now)), None)
    more = [maintenance(host)]
    if doubtful:
        more.append(
            f"{doubtful.label} bears its name at {', '.join(doubtful.shown_by)}; if its own metadata service does not show it within {LAG:g} s,"
            " another VM of that name is meant"
        )
    else:
        more.append("no event names it")
    if host.foreign_ids:
        more.append(f"held for {', '.join(map(repr, sorted(host.foreign_ids)))}, no event of Azure's: whoever holds it gives it back")
    said = [*filter(None, more)]
    return Told("in_service", "; ".join(said), kind=NOTHING if len(said) == 1 and not doubtful else "")
