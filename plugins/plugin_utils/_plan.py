# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan: what was observed, the settings and a clock in, one decision per host out.

Private to the collection. Pure: no I/O, no Ansible, no state of its own. What one pass must
remember for the next (two idle looks running, what was approved) is part of the input
and of the output, so any pass can be planned again from a file.
"""

from __future__ import annotations

import math

from ansible_collections.graceful.azure.plugins.module_utils._minimum import shortage
from ansible_collections.graceful.azure.plugins.plugin_utils._account import Account
from ansible_collections.graceful.azure.plugins.plugin_utils._words import clock, unanswered
from ansible_collections.graceful.azure.plugins.plugin_utils._world import APPROVAL_REPEAT, LAG, RESERVE, World, balancer_key, fold

LOOKS = 2
"""Idle looks running after which a host is drained, where no session came meanwhile for as long as C(load_balancer_quiet) says."""
READY = 15.0
"""Seconds for which a host that was found ready counts as ready."""
READY_EACH = 1.0
"""The same, for each target more: the more there are, the longer it takes until a step begins."""


def plan(observed):
    """Decide one step per host. Takes the document that C(_world) describes; returns what C(Account.outcome) says."""
    world = World(observed)
    return Account(world, _Plan(world)).outcome()


def _plural(number, noun):
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class _Plan:
    """The steps of one pass, left on the hosts."""

    def __init__(self, world):
        self.world = world
        # Hosts that still serve and will not for long: those about to go out, and those whose impact may come.
        self.leaving = {
            name
            for event in world.events.values()
            if event.standing and event.action == "approve" and (event.started or event.facts.get("approved_at"))
            for name in event.members
        }
        self.too_early = set()   # hosts of which it is not known for long enough that no session comes, or that a balancer is without a HAProxy
        self.unanswered = set()  # (host, event) where the host does not answer, and the event waits for that
        self._decide()

    def _decide(self):
        leaving = []
        for host in self.world.hosts.values():
            self._ask_whose(host)
            self._count_looks(host)
            if host.fatal:
                continue
            preparing = [event for event in host.events if event.prepares and self._due(host, event) and self._answered(host, event)]
            # An event that is not due yet, or waits for a person, keeps nobody out.
            host.needed = bool(preparing) or any(self._may_come_unprepared(event) for event in host.events)
            if preparing:
                self._prepare(host, preparing, leaving)
            elif not host.needed and host.held_ids and host.observed:
                self._restore(host)
        self._take_out(leaving)
        for event in self.world.events.values():
            self._approve(event)
        self._urgent_first()

    def _ask_whose(self, host):
        """A server that leads to this host and bears the name of another target cannot go out for this one: a person must say what it is."""
        for server in host.servers:
            owner = self.world.hosts.get(server.get("owner"))
            if owner and server["admin_state"] == "ready" and not any(event.prepares for event in owner.events):
                host.conflicts.append(
                    f"{server['backend']}/{server['server']} on {server['machine']} leads to {server['leads_to_host']}, which is {host.name},"
                    f" but by its name it is the server of {owner.name}: take it out by hand, or let it lead to {owner.name} again"
                )

    def _urgent_first(self):
        """Steps of different roles in one pass run one after the other: going out of a balancer waits for no other."""
        steps = [host for host in self.world.hosts.values() if host.step]
        # But a step that goes on over several passes, or fails again and again, does not stop the others.
        if any(host.step["state"] == "out" and not host.leaves_again for host in steps):
            for host in steps:
                if host.step["state"] != "out":
                    host.step = None

    def _due(self, host, event):
        begins = self._begins(host, event)
        if self.world.now >= begins:
            return True
        host.waiting[event.key] = (f"rule {event.rule['name']!r} begins {event.rule['lead_time']:g} s before NotBefore", begins)
        return False

    def _answered(self, host, event):
        """Whether the host may go out for the event. Where one of its hosts would not come back nobody goes out before it must, and nothing is approved.

        Shortly before the impact it goes out all the same, because the impact comes in any case: its requests are saved, and a person brings it back.
        """
        silent = [name for name in event.members if self.world.hosts[name].refuses_unanswered and event.key not in self.world.hosts[name].held_ids]
        if not silent or event.key in host.held_ids or self._must_yield(host, [event]):
            return True
        if host.name in silent:
            self.unanswered.add((host.name, event.key))
        why = unanswered(host) if host.name in silent else f"waits for {', '.join(silent)}, which would not come back after the event"
        host.waiting[event.key] = (why, self._yields_at(host, [event]))
        return False

    @staticmethod
    def _begins(host, event):
        """When the rule lets preparing the host for the event begin."""
        lead_time = event.rule["lead_time"]
        if event.started or lead_time is None or event.not_before_at is None or event.key in host.held_ids:
            return -math.inf
        return event.not_before_at - lead_time

    def _prepare(self, host, preparing, leaving):
        wanted = {event.key for event in preparing}
        if host.balancer["provider"] == "custom":
            if not wanted <= host.task_holds("load_balancer_custom"):
                leaving.append((host, preparing))
                return
        lacking = [
            server
            for server in host.servers
            if server["condition"] != "changed_meanwhile"
            and not server.get("owner")
            and (
                (server["admin_state"] == "ready")
                # Out only because its name does not resolve: nobody may count on that.
                or (server.get("returns_by_itself") and server["condition"] in ("none", "lost"))
                or (server["condition"] in ("held", "lost") and (self._to_be_noted(server) or not wanted <= {fold(i) for i in server["held_by"]}))
            )
        ]
        # In `maint` no directive but those of persistence sends it anything.
        served = host.balancer.get("state") != "drain" and any(
            server["condition"] == "held" and server["admin_state"] == "drain" and server.get("arrived") for server in host.servers
        )
        stale = [event for event in self._over_and_held(host) if self._holds_changed_server(host, event, wanted)]
        if lacking or served:
            leaving.append((host, preparing))
        elif stale:
            # What was put back by hand, while nobody else held it, serves as any other server does, and is to go out as any other.
            host.take("load_balancer", stale, "in")
        elif self._drain_step_needed(host, wanted):
            host.take("drain_host", preparing, "drained", quiet=host.quiet_left())

    @staticmethod
    def _to_be_noted(server):
        """Whether a hold is to be put again though it is there: it is being released, or HAProxy kept the state over a reload.

        In the second case the new process belongs into the record. Otherwise a person who sets the server to ready is taken
        for a HAProxy that has lost its state. It happens once after each reload.
        """
        return server.get("restoring") or not server.get("process_noted", True)

    @staticmethod
    def _holds_changed_server(host, event, wanted):
        """Whether the event holds a server of the host that somebody else set since, and none of those that want the host out does."""
        changed = [{fold(i) for i in server["held_by"]} for server in host.servers if server["condition"] == "changed_meanwhile"]
        return any(event.key in held_by and not held_by & wanted for held_by in changed)

    def _drain_step_needed(self, host, wanted):
        """Whether the role drain_host has anything to do besides looking, which every pass does anyway."""
        if host.seen.get("holds") is None or self._impacted(host):
            return False
        if wanted <= host.drained:
            return False
        if host.drain["before"]:
            return True
        return bool((host.drain["services"] or host.drain["after"]) and host.memory["looks"] >= LOOKS)

    @staticmethod
    def _impacted(host):
        """Whether an event that was prepared for has started: then services are as the impact left them."""
        return any(event.started and event.facts.get("was_ready") for event in host.events)

    def _count_looks(self, host):
        """How many looks running the host was out everywhere and idle; C(host.busy) says what is left."""
        busy = []
        if host.blind:
            busy.extend(host.blind)
        arrivals = {}
        for server in host.servers:
            place = f"{server['backend']}/{server['server']} on {server['machine']}"
            if server["admin_state"] == "ready":
                too = f", which leads to {server['leads_to_host']} too," if server.get("leads_to_host") else ""
                busy.append(f"{place}{too} is in rotation")
                continue
            if server["sessions"] or server["queue"]:
                busy.append(f"{_plural(server['sessions'], 'session')}, {server['queue']} queued at {place}")
            elif server.get("uncounted"):
                busy.append(f"{place}: {server['uncounted']}")
            if "total_sessions" in server:  # a journal of a version before does not tell
                arrivals[place] = self._arrivals(host, server, (host.memory.get("arrivals") or {}).get(place))
        host.memory["arrivals"] = arrivals
        quiet = host.balancer.get("quiet", 0.0)
        loud = [place for place, seen in arrivals.items() if seen["span"] < quiet]
        busy.extend(self._still_served(host, place, arrivals[place]) for place in loud if arrivals[place]["came"])
        if host.balancer["provider"] == "custom" and host.in_rotation:
            busy.append("not out of its balancer yet")
        if host.drain["ports"]:
            if host.seen.get("connections") is None:
                busy.append("its connections cannot be counted: " + (host.seen.get("error") or "not observed"))
            else:
                pools = {server.get("source_address") for server in host.servers}
                for connection in host.seen["connections"]:
                    if connection["peer"] not in pools:
                        busy.append(
                            f"{_plural(connection['count'], 'connection')} from {connection['peer']} on port {connection['port']}"
                        )
        if not host.seen.get("reached", True):
            busy.append("silent: " + (host.seen.get("error") or "not observed"))
        host.busy = "; ".join(busy)
        # A look that waited for the end of the last session or connection has looked twice.
        looks = min([server["looks"] for server in host.servers] + ([host.seen.get("looks", 1)] if host.drain["ports"] else []), default=1)
        host.memory["looks"] = 0 if busy else min(host.memory.get("looks", 0) + looks, LOOKS)
        absent = self._absent_too_short(host, quiet)
        if loud or absent:
            # Too short a time for a second look to tell anything.
            self.too_early.add(host.name)
            host.memory["looks"] = min(host.memory["looks"], LOOKS - 1)

    def _arrivals(self, host, server, before):
        """Since when no session has come to a server that is out, by the steady clock of the balancer and in one process of HAProxy.

        C(before): what the pass before knew. The state of the server says what HAProxy was told, the total what it does.
        """
        balancer = self.world.balancers[server["balancer"]]
        process, clock, total = balancer["process"], balancer["clock"], server["total_sessions"]
        since = clock - server.get("quiet_for", 0.0)
        if not before or before["process"] != process or before["since"] > clock:
            before = {"process": process, "total": total, "since": since, "came": 0, "begun": self.world.now}
        elif before["total"] != total:
            before = dict(before, total=total, since=since, came=before["came"] + max(0, total - before["total"]))
        return dict(before, span=clock - before["since"], state=server["admin_state"])

    @staticmethod
    def _still_served(host, place, seen):
        """The sentence about a server that gets sessions although it is out."""
        told = (
            f"{_plural(seen['came'], 'session')} came to {place} since {clock(seen['begun'])} although it is in {seen['state']}:"
            " look for use-server, option persist, force-persist and stick in the configuration of HAProxy"
        )
        if seen["state"] == "drain" and host.balancer.get("state") == "drain":
            told += "; load_balancer_haproxy_state: drain keeps it from going on to maint"
        return told

    def _absent_too_short(self, host, quiet):
        """Whether a balancer has been without a HAProxy for too short a time: it may be starting again."""
        before = host.memory.get("without_haproxy") or {}
        clocks = {machine: self.world.balancers[balancer_key(machine, host.balancer["socket"])]["clock"] for machine in host.absent}
        host.memory["without_haproxy"] = {machine: min(before.get(machine, now), now) for machine, now in clocks.items()}
        return any(now - host.memory["without_haproxy"][machine] < quiet for machine, now in clocks.items())

    def is_ready(self, host, event):
        """Out everywhere, idle in two looks running, services down and the user's tasks done, for this event."""
        if host.fatal or host.memory["looks"] < LOOKS or (host.step and host.step["role"] != "approve_event"):
            return False
        if host.drain["before"] or host.drain["services"] or host.drain["after"]:
            return event.key in host.drained
        return True

    @staticmethod
    def looks_once(host):
        """Whether nothing but a second look is missing for a host to be idle."""
        in_hand = any(event.key not in host.waiting for event in host.events)
        return in_hand and not (host.step or host.busy or host.fatal) and host.memory["looks"] < LOOKS

    def _over_and_held(self, host):
        """Events that hold the host and that its own service, read twice after they came to hold it, does not show, or that a rule ignores."""
        held = [event for event in self.world.events.values() if event.key in host.held_ids]
        return [
            event
            for event in held
            if event.ignored or (not event.standing or self.world.means_another(event, host)) and self.world.is_over_for(event, host)
        ]

    def _restore(self, host):
        gone = self._over_and_held(host)
        if not gone:
            # Its own service shows the event no more, another's, with a newer document, still does.
            return
        tried_since = max(host.restoring.get(event.key, self.world.now) for event in gone)
        host.memory["restoring_since"] = min(host.memory.get("restoring_since", tried_since), tried_since)
        host.take("restore_service", gone, "restored", records=host.records)

    def _take_out(self, leaving):
        """Take hosts out, the most urgent first, as far as the minimum in service allows."""

        def urgency(item):
            at = item[1][0].not_before_at
            started = any(event.started for event in item[1])
            # Those who go out whatever the minimum says go first: the others are weighed against what they leave.
            return (not self._must_yield(*item), not started, at is None, at or 0, item[1][0].key, item[0].name)

        for host, preparing in sorted(leaving, key=urgency):
            least = None if self._must_yield(host, preparing) else host.settings["min_in_service"]
            short = None if least is None else self._below_minimum(host)
            if short:
                host.waiting.update((event.key, (short, self._yields_at(host, preparing))) for event in preparing)
                continue
            self.leaving.add(host.name)
            # Another controller may be about to take out another: who has the balancer's lock counts again.
            also = {}
            for server in host.servers:
                if server.get("leads_to_host") and not server.get("owner"):
                    also.setdefault(server["machine"], []).append(server["leads_to_host"])
            host.take("load_balancer", preparing, "out", min_in_service=least, addresses=also)

    def _yields_at(self, host, events):
        ends = [event.not_before_at for event in events if event.not_before_at is not None]
        return min(ends) - host.drain["timeout"] - RESERVE if ends else None

    def _must_yield(self, host, events):
        at = self._yields_at(host, events)
        return any(event.comes for event in events) or (at is not None and self.world.now >= at)

    def _may_come_unprepared(self, event):
        """Whether a host that is out stays out for an event that prepares nobody: its impact may come at any moment, or we are to approve it."""
        return not event.prepares and (event.comes or (event.asks_approval and not self.forbidden(event)))

    def _below_minimum(self, host, others=()):
        """A sentence where taking the host out would leave a backend with too few servers in service, or None.

        A backend that has the host under another name alone is not asked: waiting brings it no other server.
        """
        for server in host.servers:
            if not server["in_service"] or server.get("owner") or not self._is_named_there(host, server):
                continue
            backend = [s for s in self.world.balancers[server["balancer"]]["servers"] if s["backend"] == server["backend"]]
            lost = {
                left["server"]
                for other in self.world.hosts.values()
                if other is not host and (other.name in self.leaving or other.name in others)
                for left in other.servers
                if (left["balancer"], left["backend"]) == (server["balancer"], server["backend"]) and not left.get("owner")
            }
            # Those of other names that lead to this host go out with it.
            lost.update(
                s["server"] for s in host.servers
                if (s["balancer"], s["backend"]) == (server["balancer"], server["backend"]) and s is not server and not s.get("owner")
            )
            place = f"{server['backend']} on {server['machine']}"
            short = shortage(host.settings["min_in_service"], server["server"], backend, place, lost)
            if short:
                return short
        return None

    @staticmethod
    def _is_named_there(host, server):
        """Whether the server's backend has the host under its own name, too."""
        own = {(s["balancer"], s["backend"]) for s in host.servers if s["server"] == host.balancer["server"]}
        return (server["balancer"], server["backend"]) in own

    def _approve(self, event):
        """Let one member approve the event, if everything that it names is ready."""
        if not event.standing or event.status != "Scheduled" or not event.members:
            return
        members = [self.world.hosts[name] for name in event.members]
        if event.prepares and any(self._begins(host, event) > self.world.now for host in members):
            # Somebody who happens to be out and idle is not ready for what is not to be prepared yet.
            return
        if event.prepares and all(self.is_ready(host, event) for host in members):
            event.facts["was_ready"] = True
        if not event.asks_approval or self.forbidden(event) or any(host.fatal for host in members):
            return
        if event.prepares and any(host.refuses_unanswered for host in members):
            return
        for host in members:
            if event.prepares:
                if not self.is_ready(host, event) and not self._timed_out(host, event):
                    return
            else:
                short = None if self._must_yield(host, [event]) else self._below_minimum(host, event.members)
                if short:
                    host.waiting[event.key] = (short, self._yields_at(host, [event]))
                    return
        approved_at = event.facts.get("approved_at")
        if approved_at is not None and self.world.now - approved_at < APPROVAL_REPEAT:
            return
        doubt = self.doubt(event)
        if doubt:
            if not event.prepares:
                for host in members:
                    host.waiting[event.key] = (doubt, event.not_before_at)
            return
        # One whose attempt has failed lets another try.
        for host in sorted(members, key=lambda host: "failure" in host.memory):
            if host.name in event.shown_by and (host.step is None or host.step["role"] == "drain_host"):
                host.step = None
                self.leaving.update(event.members if not event.prepares else ())
                ready = [member.resource_name for member in members] + list(event.strangers)
                host.take("approve_event", [event], "approved", ready_resources=ready, ready_until=self._ready_until(host))
                return

    def doubt(self, event):
        """Why an event whose members are ready cannot be approved yet, or None."""
        if not any(name in event.shown_by for name in event.members):
            return f"only a VM that it names can approve it: waits for the metadata service of {', '.join(event.members)}"
        if len(event.versions) > 1:
            return f"what it is, or whom it names, is told in different ways by {', '.join(event.shown_by)}: waits until it is the same"
        confirmed = event.facts.get("confirmed", ())
        empty = [name for name in event.members if name not in confirmed and name in event.facts.get("answered_empty", ())]
        if empty:
            # Names repeat across sets. Whoever answers nothing is prepared for it, and nothing is approved on that.
            return f"waits for {', '.join(empty)}, whose metadata service answered with an empty body: another VM of that name may be meant"
        if not event.strangers:
            return None
        strangers = {name.lower() for name in event.strangers}
        since = min([event.first_seen, *(self.world.hosts[name].memory.get("held_since", {}).get(event.key, self.world.now) for name in event.members)])
        for host in self.world.hosts.values():
            if not host.resource_name:
                return f"waits for {host.name}, whose name in Azure may be {' or '.join(event.strangers)} (graceful_azure_resource_name)"
            told = host.tells and host.seen["at"] >= since + LAG and not self.world.is_on_trust(event, host)
            if host.resource_name.lower() in strangers and host.name not in event.namesakes and not told:
                return f"waits for a later look at {host.name}, which may be {host.resource_name} or another VM of that name"
        return None

    def _ready_until(self, host):
        """Until when those who are ready now count as ready, by the host's own clock, or None where that is not known."""
        own = host.clock(self.world.now)
        return None if own is None else own + READY + READY_EACH * len(self.world.hosts)

    def forbidden(self, event):
        """Whether the event names somebody besides the targets and is therefore not ours to approve."""
        return bool(event.strangers) and any(
            self.world.hosts[name].settings["unknown_resources"] != "ignore" for name in event.members
        )

    def _timed_out(self, host, event):
        """Whether the rule lets an undrained host be approved, and its time to drain is over."""
        if event.rule["on_drain_timeout"] != "approve" or host.in_rotation or host.blind:
            return False
        since = self.held_since(host, event)
        if since is None:
            return False
        ends = since + host.drain["timeout"]
        return self.world.now >= (ends if event.deadline is None else min(ends, event.deadline))

    def held_since(self, host, event):
        """Since when the host is out of every balancer for the event, or None."""
        since = host.memory.setdefault("held_since", {})
        if event.key not in since and not host.in_rotation and not host.blind:
            since[event.key] = self.world.now
        return since.get(event.key)
