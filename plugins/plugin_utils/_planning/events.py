# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which events stand, whom do they name, and which rule decides? Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ansible_collections.graceful.azure.plugins.module_utils._absence import LAG, is_over
from ansible_collections.graceful.azure.plugins.module_utils._selection import SelectionError
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import Shown
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.memory import EventMemory
from ansible_collections.graceful.azure.plugins.plugin_utils._rules import UNASKED, Rule, rule_for
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.events import KEPT, RESERVE
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json

if TYPE_CHECKING:
    from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host

STEADY = 2.0
"""Seconds by which the same NotBefore may seem to move because a service tells the time in whole seconds. What people read keeps the first."""


REHEARSAL = "A rehearsal by graceful.azure.rehearse"
"""The description of an event that the playbook rehearse has made up."""
RULE_OF_REHEARSAL = "graceful.azure.rehearse"
"""The name of the rule that decides there. Records keep it, so that a later run knows what a rehearsal that was killed has left."""


def label_of(event_type: str | None, event_id: str, description: str | None = None) -> str:
    """What an event is called in sentences."""
    return f"{'rehearsed ' if description == REHEARSAL else ''}{event_type or 'event'} {event_id}"


@dataclass
class Event(EventMemory):
    """One event, as all metadata services together show it, or as the memory or a record describes it."""

    standing: bool = False  # whether a service shows it
    shown_by: dict[str, None] = field(default_factory=dict)  # hosts whose services show it, the newest observation last
    versions: set[tuple[str | None, ...]] = field(default_factory=set)  # the types and names that their documents give for it
    members: list[str] = field(default_factory=list)  # targets that it names
    strangers: list[str] = field(default_factory=list)  # names in it that no target has
    is_another: bool = False  # whether it is of another type than in the former pass
    held_at: float | None = None  # when the newest hold for it was put, if the clocks tell

    @property
    def key(self) -> str:
        return fold(self.event_id)

    @property
    def label(self) -> str:
        return label_of(self.event_type, self.event_id, self.description)

    @property
    def is_rehearsal(self) -> bool:
        """Whether it is made up. Then no impact comes, whatever its NotBefore says."""
        return self.description == REHEARSAL

    @property
    def announced_by(self) -> str:
        """Who says when it starts and ends, as people read it."""
        return "the simulator" if self.is_rehearsal else "Azure"

    @property
    def decided_by(self) -> Rule:
        """The rule that decides. Only for an event for which the rules were asked."""
        if self.rule is None:
            raise AssertionError
        return self.rule

    @property
    def prepares(self) -> bool:
        return self.action in ("prepare_and_approve", "prepare")

    @property
    def asks_approval(self) -> bool:
        return self.action in ("prepare_and_approve", "approve")

    @property
    def ignored(self) -> bool:
        """Whether it stands and a rule ignores it."""
        return self.standing and self.action == "ignore" and not self.mistake

    @property
    def started(self) -> bool:
        return self.status == "Started"

    @property
    def approved(self) -> bool:
        return self.approved_at is not None or self.approved_before

    @property
    def may_come(self) -> bool:
        """Whether its impact may come at any moment: it has started, or was approved, or a run that was killed may have approved it."""
        return self.started or self.approved or self.approving

    @property
    def deadline(self) -> float | None:
        return None if self.not_before_at is None else self.not_before_at - RESERVE

    @property
    def not_meant(self) -> list[str]:
        """Targets that have a name of the event but are other VMs: their own services have not shown it for C(LAG) seconds."""
        return [name for name in self.namesakes if name not in self.confirmed]

    def bears_name_of(self, host: Host) -> bool:
        return (host.resource_name or "").lower() in {name.lower() for name in self.resources}

    def is_on_trust(self, host: Host) -> bool:
        """Whether the event was taken to name a host while the host's own service told nothing, and the service has not shown the event since."""
        return host.name in self.unconfirmed and host.name not in self.confirmed

    def means_another(self, host: Host) -> bool:
        """Whether the event names another VM than a host that was taken out while its own service told nothing."""
        is_other = self.is_on_trust(host) and host.name in self.not_meant and host.name not in self.members
        return self.standing and is_other and not self.may_come

    def may_name_no_more(self, host: Host) -> bool:
        """Whether the host's own service shows the event without its name, and nobody shows it otherwise. Not once its impact may come."""
        return self.standing and host.name in self.unnamed and host.name in self.shown_by and len(self.versions) == 1 and not self.may_come

    def names_no_more(self, host: Host) -> bool:
        """The same, if two reads have shown it."""
        return self.may_name_no_more(host) and is_over([self.unnamed[host.name], host.read_at])

    def may_mean(self, host: Host, now: float) -> bool:
        """Whether it may name a host whose own service does not show it. That service may lag behind."""
        is_named = self.standing and (host.resource_name or "").lower() in {name.lower() for name in self.strangers}
        # A service that answers with an empty body tells nothing, so the wait for it is limited, too.
        return is_named and host.name not in self.not_meant and (host.tells or host.was_read and now < self.first_seen + LAG)

    def seconds_without(self, host: Host, since: float = 0.0) -> float:
        """For how many seconds since a moment a host's service has given documents without the event; -1 if the last read gave no document."""
        reads = self.without.get(host.name)
        return reads[1] - max(reads[0], since) if host.tells and reads else -1.0

    def is_over_for(self, host: Host) -> bool:
        """Whether a host's own service tells that the event is over. A service that never showed it may lag, so it must tell that for C(LAG) seconds."""
        may_lag = self.key in host.held_ids and self.is_on_trust(host)
        return host.shows_no_more(self) and (not may_lag or self.seconds_without(host) >= LAG)

    def details(self) -> Json:
        """The details of the event that a record keeps, for people and for runs that have not seen the event."""
        kept = {key: getattr(self, key) for key in (*KEPT, "action", "targets")}
        return dict(kept, rule=self.rule["name"] if self.rule else None)


FORGOTTEN: Json = {
    "rule": None,
    "approved_at": None,
    "approved_before": False,
    "approving": False,
    "approving_until": None,
    "seen_started": None,
    "refused_since": None,
}
"""What is not known any more of an event that was over, if another one may bear its id."""


def meet_events(hosts: dict[str, Host], remembered: dict[str, EventMemory], now: float) -> dict[str, Event]:
    """All events by their folded id, from the documents of all hosts and from the memory. The newest observation comes last."""
    documents: dict[str, list[tuple[Shown, Host]]] = {}
    for host in sorted(hosts.values(), key=lambda host: host.observation.at or 0):
        for shown in host.observation.events or ():
            documents.setdefault(fold(shown.event_id), []).append((shown, host))
    events: dict[str, Event] = {}
    for key, found in documents.items():
        first = found[0][0]
        known = remembered.get(key) or EventMemory(first_seen=now, event_id=first.event_id, not_before=first.not_before)
        # If it was over and is shown again, its hosts were back. If it is still to come, it may be another one. A record that is left tells of an approval.
        anew = known.gone_at is not None
        lost = FORGOTTEN if anew and all(shown.event_status == "Scheduled" for shown, _host in found) else {}
        is_another = known.event_type is not None and known.event_type != found[-1][0].event_type
        now_so = {"standing": True, "is_another": is_another, "status": first.event_status, "was_ready": known.was_ready and not anew}
        events[key] = Event(**{**vars(known), **now_so, **lost})
        _put_together(events[key], found)
    events.update((key, Event(**vars(event))) for key, event in remembered.items() if key not in events)
    return events


def _put_together(event: Event, found: Sequence[tuple[Shown, Host]]) -> None:
    """C(found): how the services show the event. In a large site this is much, so what only the newest tells is read once."""
    for shown, host in found:
        event.shown_by[host.name] = None
        if host.observation.document_incarnation is not None:
            event.shown_in[host.name] = host.observation.document_incarnation
        if shown.event_status == "Started":
            event.status = "Started"
            event.seen_started = host.read_at if event.seen_started is None else event.seen_started
        elif shown.seconds_until_not_before is not None:
            at = host.read_at + shown.seconds_until_not_before
            if event.not_before != shown.not_before or event.not_before_at is None or abs(at - event.not_before_at) > STEADY:
                event.not_before, event.not_before_at = shown.not_before, at
    if event.seen_started is not None and found[-1][1].read_at < event.seen_started + LAG:
        # Who shows it as Scheduled was read before that, or lags behind.
        event.status = "Started"
    different = {(shown.event_type, tuple(shown.resources)) for shown, _host in found}
    event.versions = {(event_type, *sorted(name.lower() for name in names)) for event_type, names in different}
    newest = found[-1][0]
    for name in ("event_id", "event_type", "resources", "event_source", "description", "duration_in_seconds"):
        setattr(event, name, getattr(newest, name))
    # A rule decides about the hosts that the event names, so affects_host is true for it, whichever host showed the event.
    event.document = dict(newest.document, event_status=event.status, affects_host=True)


def name_members(event: Event, hosts: dict[str, Host], now: float) -> None:
    """Find the target for each name in Resources: one whose own service shows the event or has shown it, or one that is silent."""
    known = [name for name in event.hosts if name in hosts]
    for host in hosts.values():
        if host.name in known or event.bears_name_of(host):
            _note_without(event, host)
            _note_unnamed(event, host)
    if event.standing and _is_shown_only_by_the_past(event, known, hosts):
        event.standing = False
    if not event.standing:
        event.members = known
        return
    for name in event.resources:
        found = _bearers(event, name, hosts, now)
        event.members.extend(found)
        if not found:
            event.strangers.append(name)
    if event.hosts and not event.members and _means_others(event, [hosts[name] for name in known]):
        # It was taken to name these hosts while they were silent, but it names other VMs of the same names.
        event.standing = False
        event.members = known
        return
    add_new(event.hosts, event.members)
    event.targets = [hosts[name].resource_name for name in event.members]


def urgency(events: Sequence[Event]) -> tuple[Any, ...]:
    """The key by which hosts are sorted, the most urgent first. C(events): those of a host, its own most urgent first."""
    at = events[0].not_before_at
    return not any(event.started for event in events), at is None, at or 0, events[0].key


def add_new(known: list[str], names: Iterable[str]) -> None:
    """Append the names that are not there yet."""
    for name in names:
        if name not in known:
            known.append(name)


def _note_without(event: Event, host: Host) -> None:
    """Note since when the service of a host gives documents without the event, and when it gave the last. After a silence of LAG the time begins again.

    A long time between two looks is no silence: a user may want few, and a pass over many hosts takes long.
    """
    if host.name in event.shown_by:
        event.without.pop(host.name, None)
    elif host.tells:
        at, mute_since = host.read_at, host.memory.mute_since
        began = event.without.get(host.name, (at, at))[0]
        is_back = mute_since is not None and at - mute_since >= LAG
        # The clock may have been set back.
        event.without[host.name] = (at if is_back else min(began, at), at)


def _note_unnamed(event: Event, host: Host) -> None:
    """Note since when the service of a host shows the event without the host's name."""
    if event.bears_name_of(host):
        event.unnamed.pop(host.name, None)
    elif host.name in event.shown_by:
        event.unnamed[host.name] = min(event.unnamed.get(host.name, host.read_at), host.read_at)


def _bearers(event: Event, resource: str, hosts: dict[str, Host], now: float) -> list[str]:
    """The targets for which a name in Resources stands."""
    bearers = [host for host in hosts.values() if host.resource_name and host.resource_name.lower() == resource.lower()]
    found = [host.name for host in bearers if host.name in event.shown_by or host.name in event.confirmed]
    add_new(event.confirmed, found)
    # If a host's own service gives documents without the event for LAG, the event names another VM of that name. When a silent service comes back,
    # it may also lag for that time.
    named = event.named.setdefault(resource.lower(), now)
    add_new(event.answered_empty, [host.name for host in bearers if host.observation.empty_body])
    add_new(event.namesakes, [host.name for host in bearers if event.seconds_without(host, named) >= LAG])
    # If the event holds a host that was not read since, another run took this host out for it.
    found = found or [host.name for host in bearers if event.key in host.held_ids and not host.was_read_since(event.held_at)]
    if not found and len(bearers) == 1 and not bearers[0].tells and bearers[0].name not in event.not_meant:
        found = [bearers[0].name]
        add_new(event.unconfirmed, found)
    return found


def _means_others(event: Event, known: Sequence[Host]) -> bool:
    """Whether an event names none of the targets that it was taken to name. Not while a host is out for it and its impact may come."""
    others = all(host.name in event.not_meant or not event.bears_name_of(host) for host in known)
    return others and not (event.may_come and any(event.key in host.held_ids for host in known))


def _is_shown_only_by_the_past(event: Event, known: Sequence[str], hosts: dict[str, Host]) -> bool:
    """Whether the event stands only in documents that are older than those of the hosts that it names, which do not show it."""
    if any(name in event.shown_by for name in known):
        return False
    newest = max((hosts[name].incarnation for name in known if hosts[name].tells), default=None)
    return newest is not None and all(hosts[name].incarnation <= newest for name in event.shown_by)


def ask_rules(event: Event, hosts: dict[str, Host]) -> None:
    """Let the rules decide. Once the impact may come, the decision stays: a rule that uses the time before NotBefore could not decide any more, and who was
    taken out for an event that is approved must not come back, whatever its rules say by now."""
    # Whom it finds in service by a rule for another type may be hit harder than that rule had in mind. What is approved once more is approved as what it is.
    is_open = event.is_another and not (event.prepares and event.started)
    stay_out = event.prepares and event.may_come
    if event.standing and event.members and (is_open or not (event.may_come and event.rule)):
        event.judged_late = event.started
        _decide(event, hosts)
        if stay_out:
            event.action = "prepare_and_approve" if event.asks_approval and not event.mistake else "prepare"
            # The records say what stands in the rule, and are all that a later look goes by.
            event.rule = {**event.decided_by, "action": event.action}
            event.unasked, event.mistake = event.unasked or event.mistake, None
    event.action = event.action or "prepare"


def _decide(event: Event, hosts: dict[str, Host]) -> None:
    """If the rules of the members differ, nothing is done for the event. If a rule cannot be evaluated, the hosts are prepared and not approved."""
    rules: list[Rule] = []
    event.mistake = event.unasked = None
    for name in event.members:
        try:
            rule = rule_for(hosts[name].settings.rules, event.document or {})
        except SelectionError as error:
            rule = UNASKED
            event.unasked = f"{event.label}: graceful_azure_rules: a rule cannot be asked of this event, which is not approved by us: {error}"
        if rule not in rules:
            rules.append(rule)
    event.rule = rules[0]
    event.action = rules[0]["action"]
    if len(rules) > 1:
        event.mistake = (
            f"{event.label}: graceful_azure_rules differ between its hosts ({', '.join(event.members)}):"
            f" {', '.join(repr(rule['name']) for rule in rules)}; give them the same rules"
        )
