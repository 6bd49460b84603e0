# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What do all observations say together? Hosts with their places, events and holds. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ansible_collections.graceful.azure.plugins.module_utils._absence import APART
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import TASK
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import TRAFFIC
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.addresses import Addresses, addresses_of
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import Document, DocumentError, Run
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import Event, add_new, ask_rules, meet_events, name_members
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.judgement import claims
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.memory import HostMemory, read_memory
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import CHANGED, all_traffic
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.records import read_holds
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.verdicts import Kind, Reason, reasons
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.restore_service import LOST_SPOT, TASKS, lost_steps, records_in
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import still_held
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings


@dataclass(frozen=True)
class Observed:
    """Everything from which a pass decides. After C(observe) has made it, nothing in it changes."""

    document: Document
    hosts: dict[str, Host]  # by name
    events: dict[str, Event]  # by folded id
    addresses: Addresses
    faults: list[Reason]  # those that concern no single host
    first_found: float | None

    @property
    def now(self) -> float:
        return self.document.now

    @property
    def run(self) -> Run:
        return self.document.run

    @property
    def waves(self) -> int:
        """In how many rounds Ansible turns to all hosts. One round has as many hosts as forks."""
        return math.ceil(len(self.hosts) / max(1, self.run.forks or 1))

    def members(self, event: Event) -> list[Host]:
        return [self.hosts[name] for name in event.members]

    def events_of(self, host: Host) -> list[Event]:
        """The events that are known to concern a host, also those that no longer stand."""
        return [event for event in self.events.values() if host.name in event.hosts]

    def may_mean(self, event: Event) -> list[Host]:
        """The targets that an event may name, although their own services do not show it yet."""
        return [host for host in self.hosts.values() if event.may_mean(host, self.now)]


def observe(document: Document) -> Observed:
    """Combine the observations of a checked document. The order matters: each part uses the parts before it."""
    now = document.now
    memory = read_memory(document.memory, document.settings)
    hosts = {name: _meet_host(name, document, memory.hosts[name]) for name in document.settings}
    _refuse_shared_folders(hosts)
    addresses = addresses_of(hosts.values(), document.run.partial)
    _meet_traffic(hosts, document, addresses)
    events = meet_events(hosts, memory.events, now)
    read_holds(hosts, events, document.machines, now, ours={*TASKS, *(name for provider in TRAFFIC.values() for name in provider.tasks)})
    for event in events.values():
        name_members(event, hosts, now)
    for host in hosts.values():
        _note_absences(host, hosts, events, now)
        _forget_times_out(host, events)
    for event in events.values():
        ask_rules(event, hosts)
        _tell_hosts(event, hosts)
    for host in hosts.values():
        host.conflicts.extend(claims(host, hosts))
        host.events.sort(key=lambda event: (event.not_before_at is None, event.not_before_at or 0, event.key))
        host.fatal_since = _since(host.fatal, host.memory.fatal_since, now)
        _note_answer(host, document.run.check)
        _note_heard(host)
        _note_passed(host)
        _note_lost_records(host, events)
        _note_lost_duties(host, events)
        _take_result(host, events, document)
    _note_failed_approvals(hosts, events, now)
    of_balancers = dict.fromkeys(reason for host in hosts.values() for reason in host.blind if reason.kind is Kind.BALANCER)
    faults = [*of_balancers, *reasons(Kind.MISTAKE, (event.unasked or "" for event in events.values()))]
    return Observed(document, hosts, events, addresses, faults, memory.first_found)


def _meet_host(name: str, document: Document, memory: HostMemory) -> Host:
    settings, look = document.settings[name], document.observations[name]
    for balancer in settings.load_balancers:
        if balancer["provider"] not in TRAFFIC:
            raise DocumentError(f"settings of {name}: {balancer['provider']!r} is no provider; there is {', '.join(TRAFFIC)}")
    resource_name = look.resource_name or settings.resource_name or memory.resource_name
    host = Host(
        name,
        settings,
        look,
        memory,
        [(TRAFFIC[balancer["provider"]], balancer) for balancer in settings.load_balancers],
        resource_name=resource_name,
        # After a silence, another VM may answer.
        told_name=memory.told_name if look.told_name is None and look.events is not None else look.told_name,
        booted_at=memory.booted_at if memory.boot_id and look.boot_id in (None, memory.boot_id) else document.now,
        addresses=look.addresses or memory.addresses,
        state_folder=look.state_folder or memory.state_folder,
        answer=memory.answer,
        held_since=dict(memory.held_since),
    )
    if look.fatal:
        host.fatal.append(Reason(Kind.MISTAKE, look.fatal))
    if host.was_read and not resource_name:
        host.fatal.append(Reason(Kind.MISTAKE, "its metadata service does not tell this host's name; set graceful_azure_resource_name"))
    host.fatal.extend(reasons(Kind.MISTAKE, [wrong_name(settings.resource_name, host.told_name)]))
    host.silent_since = _since(not host.was_read, memory.silent_since, document.now)
    host.mute_since = _since(not host.tells, memory.mute_since, document.now)
    return host


def wrong_name(given: str | None, told: str | None) -> str:
    """A sentence if the settings call a VM otherwise than its metadata service does, or empty. Its events would be taken for those of another VM, and the other
    way round."""
    if not (given and told) or told.lower() == given.strip().lower():
        return ""
    return f"graceful_azure_resource_name is {given}, and its metadata service calls this VM {told}: set that, or leave it out"


def _since(is_so: object, before: float | None, now: float) -> float | None:
    """Since when something is so; None if it is not. C(before): what the former pass knew of that. The clock may have been set back since."""
    return (now if before is None else min(before, now)) if is_so else None


def _refuse_shared_folders(hosts: dict[str, Host]) -> None:
    """Two targets with one folder would take each other's records for their own, and one of them for ready because the other is."""
    sharers: dict[str, list[Host]] = {}
    for host in hosts.values():
        if host.state_folder.get("id"):
            sharers.setdefault(host.state_folder["id"], []).append(host)
    for sharing in sharers.values():
        for host in sharing if len(sharing) > 1 else ():
            others = " and ".join(other.name for other in sharing if other is not host)
            why = (
                f"{host.name} and {others} have the same folder for their records ({host.state_folder['path']}): they are one machine, or share"
                " the folder over a network. Leave all but one out of the target, or give each a graceful_azure_state_dir of its own"
            )
            host.fatal.append(Reason(Kind.MISTAKE, why))


def _meet_traffic(hosts: dict[str, Host], document: Document, addresses: Addresses) -> None:
    """Where traffic reaches each host, and which balancers could not be read."""
    asked: dict[str, list[tuple[Host, BalancerSettings]]] = {}
    for host in hosts.values():
        for provider, settings in host.balancers:
            asked.setdefault(provider.name, []).append((host, settings))
    told = {name: iter(TRAFFIC[name].traffic_of_all(found, document.machines, addresses)) for name, found in asked.items()}
    for host in hosts.values():
        host.traffic = all_traffic([(balancer, next(told[balancer[0].name])) for balancer in host.balancers])
        _note_traffic(host, document.now)


def _note_traffic(host: Host, now: float) -> None:
    """What follows from it for a host."""
    # While a balancer cannot be read, it leads where it led.
    told = set(host.memory.ports) if host.blind else set()
    host.told_ports = sorted(told.union(*(place.ports for place in host.places if not place.owner)))
    host.fatal.extend(reasons(Kind.MISTAKE, host.traffic.mistakes))
    host.conflicts.extend(place.conflict for place in host.places if place.condition == CHANGED and not place.owner)
    host.blind_since = _since(host.blind, host.memory.blind_since, now)
    if host.blind and not host.places and host.traffic.is_helpless:
        host.fatal.extend(host.blind)


def _note_absences(host: Host, hosts: dict[str, Host], events: dict[str, Event], now: float) -> None:
    """Note when the host's service was read and did not show an event that names it: the last two reads that lie apart.

    An empty body does not count if something is held for the event, or its impact is still to come. Otherwise nothing is lost if the event is over too early.
    """
    host.absent = {key: at for key, at in host.memory.absent.items() if key in events}
    for key, event in events.items():
        if event.standing and host.name in event.shown_by:
            host.absent.pop(key, None)
        elif host.was_read and host.name in event.hosts and not (host.observation.empty_body and _is_wanted(event, hosts, now)):
            # What seems to be read later than now was read before the clock was set back.
            reads = [at for at in host.absent.get(key, []) if at <= host.read_at]
            for at in (host.read_at - host.observation.steady, host.read_at):
                if not reads or at >= reads[-1] + APART:
                    reads = [*reads[-1:], at]
            host.absent[key] = reads


def _forget_times_out(host: Host, events: dict[str, Event]) -> None:
    """If the host was back since it was out for an event, as where an event that is over is shown again, its time to drain begins anew."""
    ended = {key for key, event in events.items() if event.gone_at is not None}
    # What cannot be read may still hold it.
    back = [] if host.blind else [key for key in host.held_since if key not in host.held_ids and (host.in_rotation or key in ended)]
    for key in back:
        del host.held_since[key]


def _is_wanted(event: Event, hosts: dict[str, Host], now: float) -> bool:
    """Whether something is held for the event, or its impact is still to come."""
    comes = event.status == "Scheduled" and (event.not_before_at is None or event.not_before_at > now)
    return comes or bool(event.held) or any(event.key in host.held_ids for host in hosts.values())


def _tell_hosts(event: Event, hosts: dict[str, Host]) -> None:
    """Enter a standing event with all hosts that it names."""
    if event.standing and (event.mistake or event.action != "ignore"):
        for name in event.members:
            hosts[name].events.append(event)
            if event.mistake:
                hosts[name].fatal.append(Reason(Kind.MISTAKE, event.mistake))


def _note_answer(host: Host, check: bool) -> None:
    """Note whether the host fails to answer restore_service although it serves. While it is held, the answer from before the hold counts.

    Outside check mode, a host without an event is asked only for the sake of others: see C(minimum.py).
    """
    if host.held_ids:
        return
    if host.observation.asked and (host.events or check):
        # It may serve at a balancer that cannot be read as it does at another one.
        serves = host.traffic.serves or bool(host.blind) and host.in_rotation
        host.answer = (host.observation.unanswered or "") if serves else ""
    elif not host.events:
        host.answer = None


def _note_heard(host: Host) -> None:
    """Note the ports that can be counted now, or could be since an event names the host. The records have told of earlier runs."""
    if host.observation.connections is not None:
        uncounted = {*host.not_counted_yet, *(each["port"] for each in host.observation.uncounted)}
        host.heard.update(set(host.ports).difference(uncounted))
    if host.events or host.held_ids:
        host.heard.update(host.memory.heard)


def _note_passed(host: Host) -> None:
    """Note whether its health answer passes, or has in this run. The records have told of earlier ones."""
    host.probe_passed = host.probe_passed or host.memory.probe_passed or any(place.passes for place in host.places)


def _note_lost_records(host: Host, events: dict[str, Event]) -> None:
    """Tell of records that are gone although their event stands, as after a reboot that emptied the folder. Nobody knows any more what was changed."""
    last = host.memory.last_step
    released = last.event_ids if last and (last.role == "restore_service" or last.state == "in") else []
    for key in set(host.memory.recorded) - host.recorded - set(map(fold, released)):
        event = events.get(key)
        if event and event.standing and host.name in event.members and not event.ignored:
            folder = host.observation.state_folder.get("path") or "its state folder"
            lost = f"its records in {folder} were removed while the event stood: what was stopped on it may not have been started again"
            add_new(event.conflicts.setdefault(host.name, []), [lost])


def _note_lost_duties(host: Host, events: dict[str, Event]) -> None:
    """Tell of what the host was taken off and the settings have no more. Nobody looks there, so nobody gives it back."""
    for key in host.held_ids:
        lost = lost_duties(host, key)
        if lost:
            add_new(events[key].lost.setdefault(host.name, []), lost)


def lost_duties(host: Host, key: str) -> list[str]:
    """What the host was taken off for an event and the settings have no more, in sentences. C(key): the folded id of the event."""
    spots = {spot for kind, settings in host.balancers for _machine, spot in kind.spots(settings)}
    recorded = records_in(host.settings.drain_host.steps, (settings for _kind, settings in host.balancers))
    own = {kind.kind: spot for kind in TRAFFIC.values() if kind.answers_checks for _machine, spot in kind.spots({"host": host.name})}
    there = [record for record in host.observation.holds or () if key in map(fold, record.events)]
    # The record of the health answer lies on the host itself. It tells this also where no other record does.
    gone = {own[record.kind] for record in there if record.kind in own} | host.out_of.get(key, set())
    names = [record.name for record in there if record.kind == TASK]
    return [*lost_steps(names, recorded), *map(LOST_SPOT.format, sorted(gone - spots))]


def _take_result(host: Host, events: dict[str, Event], document: Document) -> None:
    """Note the result of the host's step of the former pass."""
    results = document.results.get(host.name) or {}
    last = host.memory.last_step
    result = (results.get(last.role) or {}) if last else {}
    host.leaves_again = bool(last and last.role == "load_balancer" and last.state == "out")
    if last and last.role == "restore_service":
        host.restoring_reason = result.get("reason", "").strip()
        host.is_unanswered = bool(result.get("unanswered"))
        host.restoring_left = [*(result.get("left") or ()), *still_held(result.get("held_by") or ()), *(result.get("conflicts") or ())]
    if last and last.role == "drain_host" and not result.get("done"):
        host.drain_steps_left = list(result.get("waiting_for") or ())
    for event_id in (result.get("approved") or ()) if last and last.role == "approve_event" else ():
        if fold(event_id) in events:
            # The record that says so has been read before.
            events[fold(event_id)].approved_at, events[fold(event_id)].approved_before = document.now, False
    for event_id in last.event_ids if last and host.leaves_again and result.get("changed") else ():
        if fold(event_id) in events:
            # Its balancer may fail before a look has read the record.
            add_new(events[fold(event_id)].held, [host.name])
    for event_id in last.event_ids if last else ():
        if fold(event_id) in events and result.get("conflicts"):
            # They are kept, because people must read them even after the records are gone.
            add_new(events[fold(event_id)].conflicts.setdefault(host.name, []), result["conflicts"])
    failure = results.get("failure") or {}
    if failure.get("pass") == document.number - 1:
        host.failure = failure["message"]
    host.failing_since = _since(host.failure is not None, host.memory.failing_since, document.now)


def _note_failed_approvals(hosts: dict[str, Host], events: dict[str, Event], now: float) -> None:
    """Since when the approval of each event has failed, whichever host tried."""
    last_steps = [host.memory.last_step for host in hosts.values() if host.failure is not None]
    refused = {fold(event_id) for last in last_steps if last and last.role == "approve_event" for event_id in last.event_ids}
    for key, event in events.items():
        event.refused_since = _since(key in refused, event.refused_since, now)
