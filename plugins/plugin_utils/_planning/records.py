# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What do the records tell about events and hosts? Pure.

A run that was killed leaves only the records of its holds. What the next run must know is read from them here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.tasks import BACK_NAMES, BACK_RECORD, STEP_RECORDS
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import BEING_RESTORED, TASK, heard_by, was_posted
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import Machines, Record, RecordedEvent, seconds
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import REHEARSAL, RULE_OF_REHEARSAL, Event, add_new
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import WHOLE, Host
from ansible_collections.graceful.azure.plugins.plugin_utils._rules import ACTIONS, kept_rule
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.events import RESERVE
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json

AFTER = (BEING_RESTORED, *BACK_NAMES)
"""Names of the records that are written after an event."""


@dataclass(frozen=True)
class Clock:
    """The clock of a machine that has a record."""

    shows: str | None
    now: float  # by the controller's clock
    at: float  # when it showed that, by the controller's clock: some time ago if the machine was not looked at in this pass

    def ours(self, moment: Any) -> float | None:
        """A date of this clock in Unix seconds of the controller's clock; None if one of them is unknown."""
        then, shows = seconds(moment), seconds(self.shows)
        return None if then is None or shows is None else self.at + then - shows


def read_holds(hosts: dict[str, Host], events: dict[str, Event], machines: Machines, now: float, ours: Collection[str]) -> None:
    """Note on hosts and events what all records tell. An event that is known only from a record joins the others.

    C(ours): the names of the task records that the roles leave. Other task records belong to the user.
    """
    for host in hosts.values():
        own = Clock(host.observation.time, now, host.observation.seen_at(now))
        records = [(record, own) for record in host.observation.holds or ()]
        found = (pair for provider, balancer in host.balancers for pair in provider.records(balancer, machines))
        records.extend((record, Clock(machine.result.get("time"), now, machine.seen_at(now))) for record, machine in found)
        held = set()
        for record, clock in records:
            if record.kind == TASK and record.name not in ours and not record.name.startswith(STEP_RECORDS):
                continue
            for event_id, entry in record.events.items():
                host.out_of.setdefault(fold(event_id), set()).update(map(str, entry.details.get("out_of") or ()))
                if fold(event_id) not in events and not _is_names(entry.details.get("resources")):
                    host.foreign_ids.add(event_id)  # no event of Azure: a person put the hold, and must release it
                    continue
                host.held_ids.add(fold(event_id))
                if not record.is_approval:
                    held.add(fold(event_id))
                _recall_answer(host, entry.details)
                host.probe_passed |= entry.details.get("passed") is True
                host.heard |= heard_by(record.kind, record.name, entry.details, host.ports)
                event = _recall_event(events, event_id, entry.details, clock, record.is_approval)
                add_new(event.hosts, [host.name, *(_bearers(hosts, entry.details.get("targets")) if event.recalled else ())])
                _note_hold(host, event, record, entry, clock)
        host.approved_ids = host.held_ids - held


def _is_names(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(name, str) for name in value)


def _recall_answer(host: Host, details: Json) -> None:
    """Note why the host did not answer when another run took it out, unless the settings have changed since."""
    if host.answer is None and details.get("unanswered") and details.get("asked") == host.settings.restore_service.ask:
        host.answer = str(details["unanswered"])


def _recall_event(events: dict[str, Event], event_id: str, details: Json, clock: Clock, is_approval: bool) -> Event:
    """The event of a hold.

    If no service shows the event, it is made from the record. If the event has started, or was approved, the record tells what was decided before.
    """
    key = fold(event_id)
    event = events.get(key)
    if event is None:
        event = events[key] = Event(
            first_seen=clock.now,
            event_id=event_id,
            event_type=details.get("event_type"),
            resources=details.get("resources") or [],
            description=REHEARSAL if details.get("rule") == RULE_OF_REHEARSAL else None,
            not_before=details.get("not_before"),
            not_before_at=clock.ours(details.get("not_before")),
            action=details.get("action") if details.get("action") in ACTIONS else "prepare",
            recalled=True,
            targets=details.get("targets"),
        )
    elif event.standing and (event.started or is_approval) and details.get("action") in ACTIONS:
        # What was decided was for an event of that type, but who was prepared for it stays out.
        if details.get("event_type") not in (None, event.event_type):
            event.action = event.action if event.rule else details["action"]
            return event
        if event.judged_late or not event.rule:
            event.rule = kept_rule(details)
        event.judged_late = False
        event.action = event.rule["action"] if event.rule else None
    return event


def _bearers(hosts: Mapping[str, Host], targets: object) -> list[str]:
    """The hosts that have these names in Azure: the targets of the run that put the hold. A name that several hosts have gives none."""
    bearers: dict[str, list[str]] = {}
    for host in hosts.values():
        bearers.setdefault((host.resource_name or "").lower(), []).append(host.name)
    found = [bearers.get(name.lower(), ()) for name in (targets if isinstance(targets, list) else ()) if isinstance(name, str) and name]
    return [names[0] for names in found if len(names) == 1]


def _note_hold(host: Host, event: Event, record: Record, entry: RecordedEvent, clock: Clock) -> None:
    """Note what a record tells about its event: that we approved it, when the hold was put, and since when the host is out for it."""
    if record.is_approval:
        if not was_posted(entry.details):
            event.approving, event.approving_until = True, clock.ours(entry.details.get("not_before"))
        elif event.approved_at is None:
            event.approved_before = True
    else:
        add_new(event.held, [host.name])
        _note_since(host, event, record, entry, clock)
    put = clock.ours(entry.since)
    if put is None or put > clock.now + WHOLE:
        return  # the clock was set back since then
    if record.name == BEING_RESTORED:
        host.restoring[event.key] = put
    if record.name not in AFTER and not (record.kind == TASK and record.name.startswith(BACK_RECORD)):
        event.held_at = max(put, event.held_at or put)


def _note_since(host: Host, event: Event, record: Record, entry: RecordedEvent, clock: Clock) -> None:
    """Note since when the host is out for the event, as the record tells. So the time does not begin again after a run was killed."""
    told = ((provider, provider.out_since(record, entry, event.first_seen == clock.now)) for provider, _balancer in host.balancers)
    provider, dates = next(((provider, dates) for provider, dates in told if dates is not None), (None, None))
    if provider is None or dates is None:
        return
    put = max(filter(None, map(clock.ours, dates)), default=clock.now)
    # Until its balancer must have noticed, the run that took it out counted it as in rotation.
    out = min(max([put, *(place.out_since for place in host.places if place.out_since is not None)]), clock.now)
    known = host.held_since.setdefault(event.key, out)
    # If the balancer lost its state, the host is in rotation again and its time begins again. Another run may have seen that, too.
    if host.in_rotation:
        host.held_since[event.key] = clock.now
    elif provider.may_forget and out > known + RESERVE:
        host.held_since[event.key] = out
