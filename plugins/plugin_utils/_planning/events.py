# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which events stand, whom do they name, and which rule decides? Private to the collection; pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from ansible_collections.graceful.azure.plugins.module_utils._selection import SelectionError
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.memory import EventMemory
from ansible_collections.graceful.azure.plugins.plugin_utils._rules import UNASKED, rule_for
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.events import RESERVE

LAG = 10.0
"""Seconds after which a VM that does not show the event of another one is not of its set."""


def fold(event_id):
    return event_id.lower()


@dataclass
class Event(EventMemory):
    """One event as all metadata services together show it, or as this run or a hold remembers it."""

    standing: bool = False                           # whether a service shows it
    shown_by: list = field(default_factory=list)     # hosts whose services show it
    versions: set = field(default_factory=set)       # what their documents say of what it is and whom it names
    members: list = field(default_factory=list)      # targets that it names
    strangers: list = field(default_factory=list)    # names in it that no target bears
    held_at: float | None = None                     # when the newest hold for it was put, as far as the clocks tell

    @property
    def key(self):
        return fold(self.event_id)

    @property
    def label(self):
        return f"{self.event_type or 'event'} {self.event_id}"

    @property
    def prepares(self):
        return self.action in ("prepare_and_approve", "prepare")

    @property
    def asks_approval(self):
        return self.action in ("prepare_and_approve", "approve")

    @property
    def ignored(self):
        """Whether it stands and a rule has it left alone."""
        return self.standing and self.action == "ignore" and not self.mistake

    @property
    def started(self):
        return self.status == "Started"

    @property
    def may_come(self):
        """Whether its impact may come at any moment: it has started, or was approved, or may have been by a run that was killed."""
        return self.started or self.approved_at is not None or self.approving

    @property
    def deadline(self):
        return None if self.not_before_at is None else self.not_before_at - RESERVE

    @property
    def not_meant(self):
        """Targets that bear a name of the event and are not meant by it: their own services have not shown it for long enough."""
        return [name for name in self.namesakes if name not in self.confirmed]

    def bears_name_of(self, host):
        return (host.resource_name or "").lower() in {name.lower() for name in self.resources}

    def is_on_trust(self, host):
        """Whether a host was taken for one that the event names while its own service told nothing, and that has not shown the event since."""
        return host.name in self.unconfirmed and host.name not in self.confirmed

    def means_another(self, host):
        """Whether a host that was taken out while its own service told nothing is not the one that the event names."""
        is_other = self.is_on_trust(host) and host.name in self.not_meant and host.name not in self.members
        return self.standing and is_other and not self.may_come

    def may_mean(self, host, now):
        """Whether it bears the name of a host whose own service does not show it, perhaps because that lags behind those that do."""
        is_named = self.standing and (host.resource_name or "").lower() in {name.lower() for name in self.strangers}
        # One that answers with an empty body tells nothing, and is not waited for longer.
        return is_named and host.name not in self.not_meant and (host.tells or host.was_read and now < self.first_seen + LAG)

    def seconds_without(self, host, since=0.0):
        """For how many seconds, from that moment on, a host's service has given documents without the event; -1 if the last read gave none."""
        began, last = self.without.get(host.name) or (None, None)
        return last - max(began, since) if host.tells and last is not None else -1.0

    def is_over_for(self, host):
        """Whether a host's own service tells that the event is over. One that never showed it may lag, and must tell it for longer."""
        may_lag = self.key in host.held_ids and self.is_on_trust(host)
        return host.shows_no_more(self) and (not may_lag or self.seconds_without(host) >= LAG)

    def details(self):
        """What a hold keeps of the event, for whoever reads the record later, be it a person or a run that has not seen the event."""
        kept = {key: getattr(self, key) for key in ("event_type", "resources", "not_before", "action", "targets")}
        return dict(kept, rule=(self.rule or {}).get("name"))


def meet_events(hosts, remembered, now):
    """All events by their folded id: what the documents of all hosts show, the newest look last, and what is remembered."""
    events = {}
    for host in sorted(hosts.values(), key=lambda host: host.observation.at or 0):
        for shown in host.observation.events or ():
            key = fold(shown.event_id)
            if key not in events:
                known = vars(remembered[key]) if key in remembered else {"first_seen": now, "not_before": shown.not_before}
                events[key] = Event(**dict(known, standing=True, status=shown.event_status))
            _put_together(events[key], shown, host)
    events.update((key, Event(**vars(event))) for key, event in remembered.items() if key not in events)
    return events


def _put_together(event, shown, host):
    event.shown_by.append(host.name)
    event.versions.add((shown.event_type, *sorted(name.lower() for name in shown.resources)))
    for name in ("event_id", "event_type", "resources", "event_source", "description", "duration_in_seconds"):
        setattr(event, name, getattr(shown, name))
    if shown.event_status == "Started":
        event.status = "Started"
        event.seen_started = host.observation.at if event.seen_started is None else event.seen_started
    elif shown.seconds_until_not_before is not None:
        event.not_before = shown.not_before
        event.not_before_at = host.observation.at + shown.seconds_until_not_before
    # Rules are asked for the hosts that it names, whoever showed it.
    event.document = dict(shown.document, event_status=event.status, affects_host=True)


def name_members(event, hosts, now):
    """Which target each name in Resources stands for: one that shows the event itself or has shown it, or that is silent."""
    known = [name for name in event.hosts if name in hosts]
    for host in hosts.values():
        if host.name in known or event.bears_name_of(host):
            _note_without(event, host)
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
        # Those whom it was taken to name while they were silent are others of the same name.
        event.standing = False
        event.members = known
        return
    add_new(event.hosts, event.members)
    event.targets = [hosts[name].resource_name for name in event.members]


def add_new(known, names):
    """Append the names that are not there yet."""
    for name in names:
        if name not in known:
            known.append(name)


def _note_without(event, host):
    """Since when the service of a host gives documents without the event, and when it gave the last. After a silence of LAG it begins anew."""
    at = host.observation.at
    if host.name in event.shown_by:
        event.without.pop(host.name, None)
    elif host.tells:
        began, last = event.without.get(host.name) or (at, at)
        event.without[host.name] = (began if at - last < LAG else at, at)


def _bearers(event, resource, hosts, now):
    """The targets that a name in Resources stands for."""
    bearers = [host for host in hosts.values() if host.resource_name and host.resource_name.lower() == resource.lower()]
    found = [host.name for host in bearers if host.name in event.shown_by or host.name in event.confirmed]
    add_new(event.confirmed, found)
    # If its own service gives documents without the event for long enough, another VM of that name is meant. A service that was silent may
    # lag behind the others as much as any other when it comes back.
    named = event.named.setdefault(resource.lower(), now)
    add_new(event.answered_empty, [host.name for host in bearers if host.observation.empty_body])
    add_new(event.namesakes, [host.name for host in bearers if event.seconds_without(host, named) >= LAG])
    # Another run took it out for this event, after it was last looked at here.
    found = found or [host.name for host in bearers if event.key in host.held_ids and not host.was_read_since(event.held_at)]
    if not found and len(bearers) == 1 and not bearers[0].tells and bearers[0].name not in event.not_meant:
        found = [bearers[0].name]
        add_new(event.unconfirmed, found)
    return found


def _means_others(event, known):
    """Whether an event names none of the targets that it was taken to name. While its impact may come, whoever is out for it stays out."""
    others = all(host.name in event.not_meant or not event.bears_name_of(host) for host in known)
    return others and not (event.may_come and any(event.key in host.held_ids for host in known))


def _is_shown_only_by_the_past(event, known, hosts):
    """Whether hosts that the event names were read without it, and it stands only in older documents of others."""
    if any(name in event.shown_by for name in known):
        return False
    newest = max((hosts[name].incarnation for name in known if hosts[name].tells), default=None)
    return newest is not None and all(hosts[name].incarnation <= newest for name in event.shown_by)


def ask_rules(event, hosts):
    """Let the rules decide. What was decided stands once the event has started: by then a rule that looks at the time sees nothing."""
    if event.standing and event.members and not (event.started and event.rule):
        event.judged_late = event.started
        _decide(event, hosts)
    event.action = event.action or "prepare"


def _decide(event, hosts):
    """Members whose rules differ forbid every act for it. A rule that cannot be asked keeps nobody in rotation, and nothing is approved by it."""
    rules = []
    event.mistake = event.unasked = None
    for name in event.members:
        try:
            rule = rule_for(hosts[name].settings.rules, event.document)
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
