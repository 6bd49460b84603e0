# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was observed, put together: hosts, events, balancers, holds. Private to the collection; pure.

The world that C(World) takes is one JSON document:

C(now)       the controller's clock, Unix seconds
C(pass)      number of this pass, from 1
C(run)       C(started) (Unix seconds), C(timeout) (s), C(wait) (more passes follow), C(watch) (an event is waited for),
             C(partial) (others behind balancers are no targets)
C(settings)  per host: what its variables say (see C(_settings.read_settings))
C(hosts)     per host: its observation; C(events) null means that its service was not read
C(balancers) per balancer key (see C(balancer_key)): its observation, C(servers) null when it was not read
C(results)   per host: what each role said last (C(<role>)), and C(failure) (C(pass), C(message)) of a step that failed
C(memory)    C(memory) of the former pass's outcome, empty at first
"""

from __future__ import annotations

import ipaddress

from ansible_collections.graceful.azure.plugins.module_utils._events import parse_time
from ansible_collections.graceful.azure.plugins.module_utils._selection import SelectionError
from ansible_collections.graceful.azure.plugins.plugin_utils._rules import ACTIONS, UNASKED, kept_rule, rule_for

APPROVED = "approved"
"""Name of the record that the role approve_event leaves on a VM through which it approved (module approval_hold)."""
APPROVAL_REPEAT = 60.0
"""Seconds after which an approved event that has not started is approved again."""
DRAINED = "drained"
"""Name of the record that the role drain_host leaves on a VM whose services are down and whose tasks are done."""
RESTORING = "restoring"
"""Name of the record that the role restore_service leaves on a VM that it could not restore in one step."""
AFTER = (RESTORING, "restore_service_before", "restore_service_after")
"""Names of the records that are put when an event is over."""
TASKS = (APPROVED, DRAINED, "load_balancer_custom", "drain_host_before", "drain_host_after", *AFTER)
"""Names of all records of tasks that the roles leave."""
WATCH = 86400.0
"""Seconds for which a run that watches goes on without an event; a schedule or unit starts the next."""
LAG = 10.0
"""Seconds after which a VM that does not show the event of another one is not of its set."""
RESERVE = 15.0
"""Seconds before NotBefore at which an event's deadline lies."""
WHOLE = 2.0
"""Seconds by which times may differ that are told in whole seconds, one on a record and one by the clock beside it."""


def balancer_key(host, socket):
    """The name of one HAProxy process: its machine's inventory name and its runtime socket."""
    return f"{host} {socket}"


def fold(event_id):
    return event_id.lower()


def _seconds(text):
    """Unix seconds of a date as events and holds bear it; None for anything else."""
    try:
        return parse_time(text).timestamp()
    except (AttributeError, TypeError, ValueError):
        return None


def _note_on(server):
    """What is to be told of a server that leads elsewhere than its name says, or None."""
    place = f"{server['backend']}/{server['server']} on {server['machine']}"
    led = server.get("leads_to")
    if server.get("leads_to_host"):
        return None if server["admin_state"] == "ready" else f"{place} leads to {server['leads_to_host']} too and is out"
    if not led or server.get("address") is None or led == {"address": server["address"], "port": server.get("port")}:
        return None
    return (
        f"{place} led to {place_text(led.get('address') or '', led.get('port'))} when it was taken out and leads to"
        f" {place_text(server['address'], server.get('port'))} now; it stays out until it is given back"
    )


def _is_names(value):
    return isinstance(value, list) and bool(value) and all(isinstance(name, str) for name in value)


class Event:
    """One event as all observed services together show it, or as this run or a hold remembers it."""

    def __init__(self, remembered):
        self.facts = remembered
        self.standing = False
        self.shown_by = []
        self.members = []
        self.strangers = []
        self.versions = set()   # what the documents that show it say of what it is and whom it names
        self.held_at = None     # when the newest hold for it was put, as far as the clocks tell

    def __getattr__(self, name):
        try:
            return self.facts[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def key(self):
        return fold(self.facts["event_id"])

    @property
    def action(self):
        return self.facts["action"]

    @property
    def prepares(self):
        return self.action in ("prepare_and_approve", "prepare")

    @property
    def asks_approval(self):
        return self.action in ("prepare_and_approve", "approve")

    @property
    def ignored(self):
        """Whether it stands and a rule has it left alone."""
        return self.standing and self.action == "ignore" and not self.facts.get("mistake")

    @property
    def started(self):
        return self.facts["status"] == "Started"

    @property
    def comes(self):
        """Whether its impact may come at any moment: it has started, or was approved, or may have been by a run that was killed."""
        return self.started or self.facts.get("approved_at") is not None or "approving_until" in self.facts

    @property
    def namesakes(self):
        """Targets that bear a name of the event and are not meant by it: their own services have not shown it for long enough."""
        return [name for name in self.facts.get("namesakes", ()) if name not in self.facts.get("confirmed", ())]

    def bears_name_of(self, host):
        """Whether a name that the event bears is the host's, or one like it."""
        return (host.resource_name or "").lower() in {name.lower() for name in self.resources}

    @property
    def deadline(self):
        at = self.facts["not_before_at"]
        return None if at is None else at - RESERVE

    @property
    def label(self):
        return f"{self.facts['event_type'] or 'event'} {self.facts['event_id']}"

    def details(self):
        """What a hold keeps of the event, for whoever reads the record later, be it a person or a run that has not seen the event."""
        kept = {key: self.facts.get(key) for key in ("event_type", "resources", "not_before", "action", "targets")}
        return dict(kept, rule=(self.facts.get("rule") or {}).get("name"))


def place_text(address, port):
    """An address and a port as people write them, and as M(graceful.azure.haproxy_hold) reads them."""
    port = port or 0  # none of its own: the client's is taken
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


class Places:
    """Which addresses are whose: what leads to a host, and to nobody else.

    C(partial): other hosts behind the same balancers are no targets of this run. What addresses these have nobody knows.
    """

    def __init__(self, hosts, partial=False):
        self._addresses, self._networks, self._ports = {}, {}, {}
        # An address of one host may be an address of another one that was never read: a virtual address, or that of a balancer of Azure.
        self._all_known = not partial and all(host.addresses is not None for host in hosts)
        self._owners = {}   # names of the targets, by address
        self._claims = {}   # names of the targets whose connections are counted, by network and port
        for host in hosts:
            self._addresses[host.name] = host.addresses or []
            self._networks[host.name] = host.seen.get("network")
            self._ports[host.name] = host.drain["ports"]
            for address in self._addresses[host.name]:
                self._owners.setdefault(address, set()).add(host.name)
            for port in self._ports[host.name]:
                self._claims.setdefault((self._networks[host.name], port), set()).add(host.name)

    def leads_to(self, host, server, led, named, balancer):
        """Whether a server of HAProxy leads to the host, and to no other target, as far as can be told.

        C(led): where the host's servers led when they were taken out. C(named): the addresses to which the servers of its own name lead.
        C(balancer): the look at the balancer's machine.
        """
        address, port = server.get("address"), server.get("port")
        if address is None:
            return False
        owners = self._owners.get(address, ())
        if owners and host.name not in owners:
            return False
        if {"address": address, "port": port} in led:
            return True
        if (self._all_known or address in named) and self._is_own(host, address, balancer):
            return True
        return self._counts(host, port, balancer) and (bool(owners) or ipaddress.ip_address(address).is_loopback)

    def searched(self, host, balancer):
        """What leads to the host, as texts for the option addresses of the look at that balancer."""
        own = [address for address in self._addresses[host.name] if self._is_own(host, address, balancer)]
        shared = [*LOOPBACK, *(address for address in self._addresses[host.name] if address not in own)]
        return own + [place_text(address, port) for port in self._ports[host.name] if self._counts(host, port, balancer) for address in shared]

    def _is_own(self, host, address, balancer):
        """Whether an address is the host's alone among the targets. Bridges of containers have the same one on every machine, the balancer's too."""
        if self._owners.get(address) != {host.name}:
            return False
        return address not in (balancer.get("addresses") or ()) or self._is_here(host, balancer)

    def _is_here(self, host, balancer):
        """Whether the balancer runs on the host itself."""
        return self._networks[host.name] is not None and self._networks[host.name] == balancer.get("network")

    def _counts(self, host, port, balancer):
        """Whether the port alone tells the host from all targets that share its machine, which is the balancer's, too."""
        return self._is_here(host, balancer) and self._claims.get((self._networks[host.name], port)) == {host.name}


LOOPBACK = ("127.0.0.1", "::1")


class Host:
    """One target: its observation, what holds it, and the decision that is made for it."""

    def __init__(self, name, settings, seen, remembered):
        self.name = name
        self.settings = settings
        self.seen = seen
        self.memory = remembered
        self.events = []        # standing events that name it and that its rules do not ignore
        self.servers = []       # its servers on the balancers that were read, each with its balancer's key
        self.absent = []        # balancers on which no HAProxy runs, where the settings say that these carry no traffic
        self.blind = []         # sentences: balancers that could not be read
        self.helpless = True    # whether each of these is a mistake, not a passing fault
        self.fatal = []         # sentences: mistakes that forbid every step for this host
        self.conflicts = []     # sentences: somebody else acted
        self.notes = []         # what else is to be told of its servers
        self.held_ids = set()   # event ids (folded) of every hold for this host
        self.foreign_ids = set()  # ids that hold it and are no event's: a person's
        self.restoring = {}     # per event (folded id): since when it is tried to restore the host after it, by the record
        self.step = None        # the one step that is decided for it
        self.needed = False     # whether an event wants it out
        self.waiting = {}       # per event (folded id): (why, until) where preparing has not begun
        self.leaves_again = False  # whether its former step was to go out already
        self.busy = ""          # what keeps it from being drained

    @property
    def observed(self):
        """Whether its metadata service was read in this pass."""
        return self.seen.get("events") is not None

    @property
    def tells(self):
        """Whether its metadata service was read in this pass and gave a document. An empty body is no proof that no event names it."""
        return self.observed and not self.seen.get("empty_body")

    def observed_since(self, moment):
        """Whether its metadata service was read after that moment; None is long ago."""
        return self.observed and (moment is None or self.seen["at"] > moment + WHOLE)

    def shows_no_more(self, event):
        """Whether its metadata service was read in this pass, and has been seen twice without the event since the event came to hold anything."""
        reads = self.memory.get("absent", {}).get(event.key, ())
        return self.observed and sum(event.held_at is None or at > event.held_at + WHOLE for at in reads) >= 2

    def without(self, event, since=0.0):
        """For how many seconds, from that moment on, its service has given documents without the event; -1 where the last read gave none."""
        began, last = event.facts.get("without", {}).get(self.name) or (None, None)
        return last - max(began, since) if self.tells and last is not None else -1.0

    @property
    def incarnation(self):
        """Which of a set's documents it was read from: the service counts them up at every change."""
        return self.seen.get("document_incarnation") or 0

    @property
    def resource_name(self):
        return self.seen.get("resource_name") or self.settings["resource_name"] or self.memory.get("resource_name")

    @property
    def addresses(self):
        """Its IP addresses at the last look of this run that told them; None where none did."""
        return self.memory.get("addresses")

    @property
    def balancer(self):
        return self.settings["load_balancer"]

    @property
    def drain(self):
        return self.settings["drain_host"]

    @property
    def in_rotation(self):
        """Whether a balancer may still send it requests, as far as is known."""
        if self.balancer["provider"] == "custom":
            return not self.task_holds("load_balancer_custom")
        return any(server["admin_state"] == "ready" for server in self.servers)

    @property
    def serves(self):
        """Whether it serves as far as its balancer tells. Without a balancer of ours nobody else can tell, and it is taken to serve."""
        if self.balancer["provider"] == "haproxy":
            return any(server["in_service"] for server in self.servers)
        return self.balancer["provider"] == "none" or self.in_rotation

    @property
    def unanswered(self):
        """Why it did not answer though it serves, or None. The settings of restore_service are wrong then: after an event it would stay out."""
        return self.memory.get("unanswered")

    def _unanswered_details(self):
        """What a hold keeps of that: while the host is out, nobody can ask it again."""
        return {"unanswered": self.unanswered, "asked": self.settings["restore_service"]["ask"]} if self.unanswered else {}

    def recall_unanswered(self, details):
        """What a run before this one wrote there. Whoever has corrected the settings since is believed."""
        if details.get("unanswered") and details.get("asked") == self.settings["restore_service"].get("ask"):
            self.memory.setdefault("unanswered", str(details["unanswered"]))

    @property
    def refuses_unanswered(self):
        """Whether it stays in rotation, as far as there is time, where it does not answer."""
        return bool(self.unanswered) and self.settings["restore_service"].get("unanswered", "refuse") == "refuse"

    def quiet_left(self):
        """Seconds that are still to pass without a new session, as far as the passes have seen; all of them where one has just come."""
        quiet = self.balancer.get("quiet", 0.0)
        seen = (self.memory.get("arrivals") or {}).values()
        return max([0.0, *(quiet - place["span"] for place in seen)]) if seen else quiet

    @property
    def records(self):
        """What is recorded on the host itself: C(service), and the names of tasks."""
        return sorted({record["subject"].get("name", "service") for record in self.seen.get("holds") or ()})

    def task_holds(self, name):
        """Folded event ids for which the user's task file of that name ran to its end."""
        return {
            fold(event_id)
            for record in self.seen.get("holds") or ()
            if record["kind"] == "task" and record["subject"].get("name") == name and record["done"]
            for event_id in record["events"]
        }

    def clock(self, now):
        """What its own clock shows at that moment of the controller's, as near as its look tells; None where that does not."""
        then, at = _seconds(self.seen.get("time")), self.seen.get("at")
        return None if then is None or at is None else then + now - at - self.seen.get("age", 0.0)

    @property
    def drained(self):
        """Folded event ids for which services and tasks are done."""
        return self.task_holds(DRAINED)

    def take(self, role, events, state, **variables):
        """Decide a step; the first one decided stands."""
        if self.step is None:
            self.step = {
                "role": role,
                "state": state,
                "event_ids": [event.event_id for event in events],
                "event_details": {event.event_id: dict(event.details(), **self._unanswered_details()) for event in events},
                "reason": "; ".join(event.label for event in events),
            }
            self.step.update(variables)


class World:
    """All hosts and events of one pass, each with what concerns it."""

    def __init__(self, world):
        self.now = world["now"]
        self.run = world["run"]
        self.number = world["pass"]
        memory = world.get("memory") or {}
        self.memory = {"first_found": memory.get("first_found")}
        self.remembered = {key: dict(facts) for key, facts in (memory.get("events") or {}).items()}
        self.messages = []
        host_memory = memory.get("hosts") or {}
        self.hosts = {
            name: Host(name, settings, world["hosts"].get(name) or {}, dict(host_memory.get(name) or {}))
            for name, settings in world["settings"].items()
        }
        self.balancers = world["balancers"]
        self.results = world.get("results") or {}
        self.events = {}

        self._meet_hosts()
        self.places = Places(list(self.hosts.values()), bool(self.run.get("partial")))
        self._meet_events()
        self._meet_balancers()
        self._meet_holds()
        for event in self.events.values():
            self._name_members(event)
        self._note_absences()
        self._judge_events()
        self._note_answers()
        self._take_results()

    @property
    def end(self):
        """When the run's time is over; one that watches for a first event measures it from there."""
        if not self.run["watch"]:
            return self.run["started"] + self.run["timeout"]
        found = self.memory["first_found"]
        return self.run["started"] + WATCH if found is None else found + self.run["timeout"]

    @property
    def time_is_over(self):
        return self.now >= self.end

    def _meet_hosts(self):
        for host in self.hosts.values():
            if host.seen.get("fatal"):
                host.fatal.append(host.seen["fatal"])
            if host.seen.get("resource_name"):
                host.memory["resource_name"] = host.seen["resource_name"]
            elif host.observed and not host.resource_name:
                host.fatal.append(
                    "its metadata service does not tell this host's name; set graceful_azure_resource_name"
                )
            if host.seen.get("addresses"):
                host.memory["addresses"] = host.seen["addresses"]
            if host.observed:
                host.memory.pop("silent_since", None)
            else:
                host.memory.setdefault("silent_since", self.now)

    def _meet_events(self):
        """Put the documents of all observed hosts together, event by event; the newest look has the last word."""
        for host in sorted(self.hosts.values(), key=lambda host: host.seen.get("at") or 0):
            for shown in host.seen.get("events") or ():
                key = fold(shown["event_id"])
                event = self.events.get(key)
                if event is None:
                    event = self.events[key] = Event(self.remembered.setdefault(key, {"first_seen": self.now}))
                    event.standing = True
                    event.facts["status"] = shown["event_status"]
                event.shown_by.append(host.name)
                event.versions.add((shown["event_type"], *sorted(name.lower() for name in shown["resources"])))
                facts = event.facts
                for name in ("event_id", "event_type", "resources", "event_source", "description", "duration_in_seconds"):
                    facts[name] = shown[name]
                if shown["event_status"] == "Started":
                    facts["status"] = "Started"
                    facts.setdefault("seen_started", host.seen["at"])
                seconds = shown["seconds_until_not_before"]
                if seconds is not None and shown["event_status"] != "Started":
                    facts["not_before"] = shown["not_before"]
                    facts["not_before_at"] = host.seen["at"] + seconds
                facts.setdefault("not_before", shown["not_before"])
                facts.setdefault("not_before_at", None)
                # Rules are asked for the hosts that it names, whoever showed it.
                facts["document"] = dict(shown, event_status=facts["status"], affects_host=True)
        for key, facts in self.remembered.items():
            if key not in self.events:
                self.events[key] = Event(facts)

    def _name_members(self, event):
        """Which target each name in Resources stands for: one that shows the event itself or has shown it, or that is silent."""
        known = event.facts.setdefault("hosts", [])
        self._note_without(event, [host for host in self.hosts.values() if host.name in known or event.bears_name_of(host)])
        if event.standing and self._shown_only_by_the_past(event, [self.hosts[name] for name in known if name in self.hosts]):
            event.standing = False
        if not event.standing:
            event.members = [name for name in known if name in self.hosts]
            return
        confirmed = event.facts.setdefault("confirmed", [])
        for name in event.resources:
            bearers = [h for h in self.hosts.values() if h.resource_name and h.resource_name.lower() == name.lower()]
            found = [h.name for h in bearers if h.name in event.shown_by or h.name in confirmed]
            confirmed.extend(name for name in found if name not in confirmed)
            self._note_namesakes(event, name, bearers)
            # Another run took it out for this event, after it was last looked at here.
            found = found or [h.name for h in bearers if event.key in h.held_ids and not h.observed_since(event.held_at)]
            if not found and len(bearers) == 1 and not bearers[0].tells and bearers[0].name not in event.namesakes:
                found = [bearers[0].name]
                unconfirmed = event.facts.setdefault("unconfirmed", [])
                unconfirmed.extend(name for name in found if name not in unconfirmed)
            event.members.extend(found)
            if not found:
                event.strangers.append(name)
        if known and not event.members and self._means_others(event, [self.hosts[name] for name in known if name in self.hosts]):
            event.standing = False  # those whom it was taken to name, while they were silent, are others of the same name
            event.members = [name for name in known if name in self.hosts]
            return
        known.extend(name for name in event.members if name not in known)
        event.facts["targets"] = [self.hosts[name].resource_name for name in event.members]

    def _note_namesakes(self, event, name, bearers):
        """Remember whose own service, read after read, gives documents without the event for so long that another VM of that name is meant.

        A service that was silent may lag behind the others as much as any other when it comes back.
        """
        named = event.facts.setdefault("named", {}).setdefault(name.lower(), self.now)
        namesakes, empty = event.facts.setdefault("namesakes", []), event.facts.setdefault("answered_empty", [])
        for host in bearers:
            if host.seen.get("empty_body") and host.name not in empty:
                empty.append(host.name)
            if host.without(event, named) >= LAG and host.name not in namesakes:
                namesakes.append(host.name)

    @staticmethod
    def _note_without(event, hosts):
        """Since when the service of each host gives documents without the event, and when it gave the last. After a silence of LAG it begins anew."""
        noted = event.facts.setdefault("without", {})
        for host in hosts:
            if host.name in event.shown_by:
                noted.pop(host.name, None)
            elif host.tells:
                began, last = noted.get(host.name) or (host.seen["at"], host.seen["at"])
                noted[host.name] = (began if host.seen["at"] - last < LAG else host.seen["at"], host.seen["at"])

    @staticmethod
    def is_on_trust(event, host):
        """Whether the host was taken for one that the event names while its own service told nothing, and that has not shown the event since."""
        return host.name in event.facts.get("unconfirmed", ()) and host.name not in event.facts.get("confirmed", ())

    def is_over_for(self, event, host):
        """Whether the host's own service tells that the event is over. One that never showed it may lag, and must tell it for longer."""
        may_lag = event.key in host.held_ids and self.is_on_trust(event, host)
        return host.shows_no_more(event) and (not may_lag or host.without(event) >= LAG)

    @staticmethod
    def _means_others(event, known):
        """Whether an event names none of the targets that it was taken to name. While its impact may come, whoever is out for it stays out."""
        others = all(host.name in event.namesakes or not event.bears_name_of(host) for host in known)
        return others and not (event.comes and any(event.key in host.held_ids for host in known))

    def means_another(self, event, host):
        """Whether a host that was taken out while its own service told nothing is not the one that a standing event names."""
        is_other = self.is_on_trust(event, host) and host.name in event.namesakes and host.name not in event.members
        return event.standing and is_other and not event.comes

    def may_mean(self, event):
        """Targets whose name the event bears, and whose own service does not show it, perhaps because it lags behind those that do."""
        strangers = {name.lower() for name in event.strangers} if event.standing else ()
        named = [host for host in self.hosts.values() if (host.resource_name or "").lower() in strangers and host.name not in event.namesakes]
        # One that answers with an empty body tells nothing, and is not waited for longer.
        return [host for host in named if host.tells or host.observed and self.now < event.first_seen + LAG]

    def _shown_only_by_the_past(self, event, known):
        """Whether hosts that the event names were read without it, and it stands only in older documents of others."""
        if any(host.name in event.shown_by for host in known):
            return False
        newest = max((host.incarnation for host in known if host.tells), default=None)
        return newest is not None and all(self.hosts[name].incarnation <= newest for name in event.shown_by)

    def _note_absences(self):
        """When each host's service was last read without an event that names the host, two reads at most.

        One read may be wrong, so it ends nothing. An empty body tells nothing of an event for which something is held, or that is still to come.
        """
        for host in self.hosts.values():
            noted = host.memory["absent"] = {key: at for key, at in host.memory.get("absent", {}).items() if key in self.events}
            for key, event in self.events.items():
                if event.standing and host.name in event.shown_by:
                    noted.pop(key, None)
                elif host.observed and host.name in event.facts["hosts"] and not (host.seen.get("empty_body") and self._is_wanted(event)):
                    last = host.seen["at"]
                    reads = noted.get(key, [])
                    new = [at for at in (last - host.seen.get("steady", 0.0), last) if not reads or at > reads[-1]]
                    noted[key] = (reads + sorted(set(new)))[-2:]

    def _is_wanted(self, event):
        """Whether something is held for the event, or its impact is still to come."""
        comes = event.facts["status"] == "Scheduled" and (event.not_before_at is None or event.not_before_at > self.now)
        return comes or bool(event.facts.get("held")) or any(event.key in host.held_ids for host in self.hosts.values())

    def _meet_balancers(self):
        """Find each host's servers; say which balancers could not be read."""
        for key, seen in self.balancers.items():
            if seen.get("fatal"):
                self.messages.append(f"balancer {key.rpartition(' ')[0]}: {seen['fatal']}")
        for host in self.hosts.values():
            if host.balancer["provider"] == "haproxy":
                for machine in host.balancer["hosts"]:
                    self._meet_balancer(host, machine)
                if host.absent and len(host.absent) == len(set(host.balancer["hosts"])):
                    # One of a pair is to be active, and is perhaps about to become so.
                    host.blind.append(f"no HAProxy runs on any of its balancers ({', '.join(host.absent)})")
                    host.helpless = False
            for server in host.servers:
                if server["condition"] == "changed_meanwhile" and not server.get("owner"):
                    host.conflicts.append(
                        f"somebody else set {server['backend']}/{server['server']} on {server['machine']}"
                        f" to {server['admin_state']}: left as it is"
                    )
            host.notes = [note for note in map(_note_on, host.servers) if note]
            if host.blind and not host.servers and host.helpless:
                host.fatal.extend(host.blind)
            if host.blind:
                host.memory.setdefault("blind_since", self.now)
            else:
                host.memory.pop("blind_since", None)

    def _meet_balancer(self, host, machine):
        key = balancer_key(machine, host.balancer["socket"])
        seen = self.balancers.get(key) or {}
        if seen.get("absent") and host.balancer.get("absent") == "no_traffic":
            host.absent.append(machine)
            return
        if seen.get("servers") is None or seen.get("absent"):
            host.helpless = host.helpless and bool(seen.get("fatal"))
            host.blind.append(f"balancer {machine}: {seen.get('fatal') or seen.get('error') or 'not observed'}")
            return
        backends = host.balancer["backends"]
        waited = host.balancer["server"] in ((seen.get("look") or {}).get("wait_for") or ())
        mine = [
            dict(server, balancer=key, machine=machine, looks=2 if waited and server["idle"] else 1)
            for server in seen["servers"]
            if self._is_named(host, server)
        ]
        if not mine:
            where = f"none of the backends {', '.join(backends)}" if backends else "no backend"
            host.fatal.append(f"balancer {machine}: {where} has a server {host.balancer['server']!r} (load_balancer_server)")
        host.servers.extend(mine)
        host.servers.extend(self._of_other_names(host, key, machine, seen))

    def _of_other_names(self, host, key, machine, seen):
        """Servers of other names that lead to the host.

        A name may lead elsewhere since the hold was put (C(set server addr), C(server-template)), or have led elsewhere all along.
        """
        led = [record["leads_to"] for record in seen.get("holds") or () if record.get("leads_to") and self._is_held_for(host, record)]
        backends = host.balancer["backends"]
        named = {server.get("address") for server in seen["servers"] if self._is_named(host, server)}
        for server in seen["servers"]:
            if self._is_named(host, server) or (backends and server["backend"] not in backends):
                continue
            if not self.places.leads_to(host, server, led, named, seen):
                continue
            owner = self._owner(host, key, server)
            at = place_text(server["address"], server.get("port"))
            yield dict(server, balancer=key, machine=machine, looks=1, owner=owner, leads_to_host=at)

    @staticmethod
    def _is_named(host, server):
        """Whether a server of a balancer is the host's by its name."""
        backends = host.balancer["backends"]
        return server["server"] == host.balancer["server"] and (not backends or server["backend"] in backends)

    def _is_held_for(self, host, record):
        """Whether a record of a balancer is about the host's server, or about one of another name that was taken out with it."""
        backends = host.balancer["backends"]
        name = record.get("for_server") or record["subject"].get("server")
        return name == host.balancer["server"] and (not backends or record["subject"].get("backend") in backends)

    def _owner(self, host, key, server):
        """The other target to which a server belongs by its name, or None."""
        for other in self.hosts.values():
            balancer = other.balancer
            if other is host or balancer["provider"] != "haproxy" or balancer["server"] != server["server"]:
                continue
            keys = [balancer_key(machine, balancer["socket"]) for machine in balancer["hosts"]]
            if key in keys and (not balancer["backends"] or server["backend"] in balancer["backends"]):
                return other.name
        return None

    def _meet_holds(self):
        """Event ids of every hold, and events that only a hold still knows (a run before this one died)."""
        for host in self.hosts.values():
            records = [(r, None) for r in host.seen.get("holds") or ()]
            for key, seen in self.balancers.items():
                mine = {(s["backend"], s["server"]) for s in host.servers if s["balancer"] == key and s.get("leads_to_host") is None}
                absent = key in {balancer_key(machine, host.balancer["socket"]) for machine in host.absent}
                for record in seen.get("holds") or ():
                    subject = record["subject"]
                    # Where no HAProxy runs, a hold of the time before has to be released.
                    by_name = (subject.get("backend"), subject.get("server")) in mine or absent and subject.get("server") == host.balancer["server"]
                    if self._uses(host, key) and self._is_held_for(host, record) if record.get("for_server") else by_name:
                        records.append((record, key))
            for record, balancer in records:
                clock = (self.balancers[balancer] if balancer else host.seen).get("time")
                if record["kind"] == "task" and record["subject"].get("name") not in TASKS:
                    continue  # a user's own
                for event_id, entry in record["events"].items():
                    details = entry.get("details") or {}
                    if fold(event_id) not in self.events and not _is_names(details.get("resources")):
                        host.foreign_ids.add(event_id)  # no event of Azure's: a person holds it, and a person releases it
                        continue
                    host.held_ids.add(fold(event_id))
                    host.recall_unanswered(details)
                    self._recall(host, event_id, details, clock)
                    event = self.events[fold(event_id)]
                    put = self._by_our_clock(entry.get("since"), clock)
                    self._note_hold(host, event, record, details, put, clock)
                    if put is None or put > self.now + WHOLE:
                        continue  # a clock that was set back since tells nothing
                    if record["subject"].get("name") == RESTORING:
                        host.restoring[event.key] = put
                    if record["subject"].get("name") not in AFTER:
                        event.held_at = max(put, event.held_at or put)

    @staticmethod
    def _uses(host, key):
        """Whether the host has its servers on this balancer."""
        balancer = host.balancer
        return balancer["provider"] == "haproxy" and key in [balancer_key(machine, balancer["socket"]) for machine in balancer["hosts"]]

    def _note_hold(self, host, event, record, details, put, clock):
        """What a hold tells of an event: that we approved it, or since when this host is out for it."""
        if record["kind"] == "task" and record["subject"].get("name") == APPROVED:
            if details.get("posted", True):
                # A start that is long in coming: approve again at once.
                event.facts.setdefault("approved_at", self.now - APPROVAL_REPEAT)
            else:
                event.facts["approving_until"] = self._by_our_clock(details.get("not_before"), clock)
            return
        held = event.facts.setdefault("held", [])
        if host.name not in held:
            held.append(host.name)
        if self._tells_since_when_out(host, event, record):
            # By the clock of the machine that holds it, so that a run that was killed is no new beginning.
            if record["subject"].get("name") == "load_balancer_custom":
                # It is put when the user's tasks begin, and the host is out when they are at their end.
                put = max(filter(None, [put, self._by_our_clock(record.get("done_since"), clock)]), default=None)
            out = self.now if put is None else min(put, self.now)
            held_since = host.memory.setdefault("held_since", {})
            known = held_since.setdefault(event.key, out)
            # A balancer that forgot it has it in rotation again, and its time begins anew; so it does where another run saw that.
            if host.in_rotation:
                held_since[event.key] = self.now
            elif record["kind"] == "haproxy_server" and out > known + RESERVE:
                held_since[event.key] = out

    def _by_our_clock(self, moment, clock):
        """A date by the clock of a machine that has a record (the service's, as near as can be had), as Unix seconds of ours; None where either is unknown."""
        moment, clock = _seconds(moment), _seconds(clock)
        return None if moment is None or clock is None else self.now + moment - clock

    def _tells_since_when_out(self, host, event, record):
        """Whether the host was out for the event when the record was put, as far as anybody can tell."""
        provider, name = host.balancer["provider"], record["subject"].get("name")
        if provider == "custom":
            # A run that sees the end of the user's tasks for itself knows better.
            return name == "load_balancer_custom" and record["done"] and event.first_seen == self.now
        if provider == "none":
            return name in ("drain_host_before", DRAINED)
        return record["kind"] == "haproxy_server"

    def _recall(self, host, event_id, details, clock):
        """An event that no service shows any more is known by its hold; of one that has started, the hold knows what was decided before."""
        key = fold(event_id)
        event = self.events.get(key)
        if event is None:
            facts = {
                "event_id": event_id,
                "event_type": details.get("event_type"),
                "resources": details.get("resources") or [],
                "not_before": details.get("not_before"),
                "not_before_at": self._by_our_clock(details.get("not_before"), clock),
                "status": None,
                "hosts": [],
                "action": details.get("action") if details.get("action") in ACTIONS else "prepare",
                "first_seen": self.now,
                "recalled": True,
                "targets": details.get("targets"),
            }
            self.remembered[key] = facts
            event = self.events[key] = Event(facts)
        elif event.standing and event.started and details.get("action") in ACTIONS:
            if event.facts.pop("judged_late", False):
                del event.facts["rule"]
            event.facts["action"] = event.facts.setdefault("rule", kept_rule(details))["action"]
        known = event.facts.setdefault("hosts", [])
        also = self._bearers(details.get("targets")) if event.facts.get("recalled") else []
        known.extend(name for name in (host.name, *also) if name not in known)

    def _bearers(self, targets):
        """Who bears the Azure names of those that were targets when a hold was put; nobody for a name that several bear."""
        bearers = {}
        for host in self.hosts.values():
            bearers.setdefault((host.resource_name or "").lower(), []).append(host.name)
        found = [bearers.get(name.lower(), ()) for name in (targets if isinstance(targets, list) else ()) if isinstance(name, str) and name]
        return [names[0] for names in found if len(names) == 1]

    def _judge_events(self):
        """The rule for each event. What was decided stands once it has started: by then a rule that looks at the time sees nothing."""
        for event in self.events.values():
            if event.standing and event.members and not (event.started and event.facts.get("rule")):
                event.facts["judged_late"] = event.started
                self._judge(event)
            event.facts.setdefault("action", "prepare")
            mistake = event.facts.get("mistake")
            if event.standing and (mistake or event.action != "ignore"):
                for name in event.members:
                    self.hosts[name].events.append(event)
                    if mistake:
                        self.hosts[name].fatal.append(mistake)
            if event.facts.get("unasked"):
                self.messages.append(event.facts["unasked"])
        for host in self.hosts.values():
            host.events.sort(key=lambda event: (event.not_before_at is None, event.not_before_at or 0, event.key))

    def _note_answers(self):
        """Which hosts do not answer what restore_service asks, although they serve. What was asked before a hold was put counts as long as it is there."""
        for host in self.hosts.values():
            if host.held_ids:
                continue
            if "unanswered" in host.seen:
                host.memory["unanswered"] = host.seen["unanswered"] if host.serves else None
            elif not host.events:
                host.memory.pop("unanswered", None)

    def _judge(self, event):
        """Members whose rules differ forbid every act for it. A rule that cannot be asked keeps nobody in rotation, and nothing is approved by it."""
        rules = []
        facts = event.facts
        facts["mistake"] = facts["unasked"] = None
        for name in event.members:
            try:
                rule = rule_for(self.hosts[name].settings["rules"], facts["document"])
            except SelectionError as error:
                rule = UNASKED
                facts["unasked"] = f"{event.label}: graceful_azure_rules: a rule cannot be asked of this event, which is not approved by us: {error}"
            if rule not in rules:
                rules.append(rule)
        facts["rule"] = rules[0]
        facts["action"] = rules[0]["action"]
        if len(rules) > 1:
            facts["mistake"] = (
                f"{event.label}: graceful_azure_rules differ between its hosts ({', '.join(event.members)}):"
                f" {', '.join(repr(rule['name']) for rule in rules)}; give them the same rules"
            )

    def _take_results(self):
        """What the steps of the former pass said."""
        refused = set()
        for host in self.hosts.values():
            said = self.results.get(host.name) or {}
            last = host.memory.pop("last_step", None)
            result = (said.get(last["role"]) or {}) if last else {}
            host.leaves_again = bool(last and last["role"] == "load_balancer" and last.get("state", "out") == "out")
            host.memory["restoring"] = result.get("reason", "").strip() if last and last["role"] == "restore_service" else None
            if last and last["role"] == "approve_event":
                for event_id in result.get("approved") or ():
                    if fold(event_id) in self.events:
                        self.events[fold(event_id)].facts["approved_at"] = self.now
            for event_id in last["event_ids"] if last else ():
                if fold(event_id) in self.events:
                    self._note_conflicts(host, self.events[fold(event_id)], result.get("conflicts") or ())
            failure = said.get("failure") or {}
            if failure.get("pass") == self.number - 1:
                host.memory["failure"] = failure["message"]
                host.memory.setdefault("failing_since", self.now)
                refused.update(map(fold, last["event_ids"] if last and last["role"] == "approve_event" else ()))
            else:
                host.memory.pop("failure", None)
                host.memory.pop("failing_since", None)
        for key, event in self.events.items():
            # Whichever member tries.
            if key in refused:
                event.facts.setdefault("refused_since", self.now)
            else:
                event.facts.pop("refused_since", None)

    @staticmethod
    def _note_conflicts(host, event, sentences):
        """What a step left alone because somebody else had acted; it stays to be told when the records are gone."""
        if sentences:
            said = event.facts.setdefault("conflicts", {}).setdefault(host.name, [])
            said.extend(sentence for sentence in sentences if sentence not in said)
