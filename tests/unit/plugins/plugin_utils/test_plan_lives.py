# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random lives of events, hosts, balancers, operators and controllers: what must hold in every one of them."""

from __future__ import annotations

import math

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.support.model import Model, service

NAMES = ("web1", "web2", "web3")
HOSTS = st.sampled_from(NAMES)
DELETING = ("Preempt", "Terminate")
TYPES = ("Reboot", "Freeze", "Redeploy", *DELETING, "Teleport")
OUTSIDER = "vm_elsewhere"
RULES = {
    "none": [],
    "lead time": [{"name": "late", "lead_time": 200}],
    "prepare": [{"name": "by hand", "when": "event_type == 'Freeze'", "action": "prepare"}],
    "ignore": [{"name": "no freezes", "when": "event_type == 'Freeze'", "action": "ignore"}],
    "impatient": [{"name": "impatient", "on_drain_timeout": "approve"}],
}
TIMEOUT = 120.0
RESERVE = 15.0
STALE = 8.0
"""Seconds for which a look may be old, or one VM's document behind another's."""
CONTROLLER = ("run", "memory", "results", "number", "outcome", "seen")
"""What each controller has for itself."""


class Lives(RuleBasedStateMachine):
    @initialize(
        balancers=st.sampled_from([("lb1",), ("lb1", "lb2")]),
        services=st.booleans(),
        least=st.sampled_from([0, 1, "50%"]),
        rules=st.sampled_from(sorted(RULES)),
        custom=st.booleans(),
        unknown=st.sampled_from(["hold", "ignore"]),
        named=st.booleans(),
        ports=st.sampled_from([[80], [80], []]),
        from_outside=st.booleans(),
    )
    def begin(self, balancers, services, least, rules, custom, unknown, named, ports=(80,), from_outside=False):
        drain = {"steps": [service()] if services else [], "timeout": TIMEOUT, "ports": list(ports)}
        self.model = Model(hosts=3, balancers=balancers, drain_host=drain, min_in_service=least, rules=RULES[rules], unknown_resources=unknown)
        for name in NAMES if from_outside else ():
            self.model.settings[name]["outside"] = {"through": "azure_resource_manager", "title": "Azure", "resource": "/x", "access": {}}
        self.from_outside, self.ports = from_outside, ports
        for name in NAMES if named else ():
            self.model.settings[name]["resource_name"] = self.model.hosts[name]["azure_name"]
        if custom:
            self.model.balancer_of("web3")["provider"] = "custom"
        self.rules = rules
        self.least = math.ceil(3 * 0.5) if least == "50%" else least
        self.operators = {(lb, name): "ready" for lb in balancers for name in NAMES}
        self.count = 0
        self.deleted = set()
        self.known = {}  # per event: when it was seen for the first time by anybody, its NotBefore at several times, when it was over
        self.out = {}  # per event and host: since when that is out of every balancer while the event stands
        self.other = None

    def servers(self, name):
        return [servers[name] for servers in self.model.servers.values()] if self.model.provider(name) == "haproxy" else []

    # The world's life

    def appears(self, hosts, outside=(), late=False, **more):
        hosts = sorted(set(hosts) - self.deleted)
        if hosts and len(self.model.events) < 3:
            self.count += 1
            event_id = f"E{self.count}"
            self.model.announce(event_id, *hosts, *outside, shown_to=hosts[:1] if late else None, **more)
            event = self.model.events[event_id]
            self.known[event_id] = {"event": event, "at": self.model.now, "ends": [event["not_before_at"]], "moved": -math.inf, "over": math.inf}

    @rule(
        hosts=st.sets(HOSTS, min_size=1, max_size=2),
        kind=st.sampled_from(TYPES),
        notice=st.sampled_from([20, 300, 900]),
        late=st.booleans(),
        outside=st.sampled_from([(), (), (), (OUTSIDER,)]),
    )
    def announce(self, hosts, kind, notice, late, outside):
        self.appears(hosts, event_type=kind, notice=notice, late=late, outside=outside)

    @rule(host=HOSTS)
    def fail_without_notice(self, host):
        self.appears([host], status="Started")

    def pick(self, number):
        return sorted(self.model.events)[number % len(self.model.events)]

    @precondition(lambda self: self.model.events)
    @rule(number=st.integers(0, 2), cancelled=st.sampled_from([False, False, True]))
    def goes_on(self, number, cancelled):
        event_id = self.pick(number)
        event = self.model.events[event_id]
        posted = any(posted == event_id for _at, posted, _by in self.model.posted + self.model.acknowledged)
        if event["event_status"] == "Started":
            self.over(event_id)
        elif cancelled:
            self.goes(event_id)
        elif posted or event["not_before_at"] <= self.model.now:
            self.model.start(event_id)

    @precondition(lambda self: self.model.events)
    @rule(number=st.integers(0, 2), seconds=st.sampled_from([-250, -30, 30, 600]))
    def not_before_moves(self, number, seconds):
        event_id = self.pick(number)
        event = self.model.events[event_id]
        if event["event_status"] == "Scheduled":
            event["not_before_at"] = max(self.model.now, event["not_before_at"] + seconds)
            self.model.incarnation += 1
            known = self.known[event_id]
            known["ends"] = [*(known["ends"] if self.model.now - known["moved"] < STALE else known["ends"][-1:]), event["not_before_at"]]
            known["moved"] = self.model.now

    def over(self, event_id):
        event = self.model.events[event_id]
        for name in NAMES if event["event_type"] in DELETING else ():
            if self.model.hosts[name]["azure_name"] in event["resources"]:
                # A VM that is deleted does not come back.
                self.deleted.add(name)
                self.model.hosts[name]["silent"] = True
        self.goes(event_id)

    def goes(self, event_id):
        self.model.over(event_id)
        self.known[event_id]["over"] = self.model.now

    @rule(host=HOSTS, sessions=st.sampled_from([0, 0, 1]), connections=st.sampled_from([0, 0, 1]))
    def work(self, host, sessions, connections):
        for server in self.servers(host):
            server["sessions"] = sessions
        self.model.hosts[host]["connections"] = [{"port": 80, "peer": "10.0.0.77", "count": 1}] * connections

    @rule(host=HOSTS, fault=st.sampled_from([{}, {}, {"silent": True}, {"service_silent": True}, {"fatal": "a record: cut in half"}]))
    def host(self, host, fault):
        self.model.hosts[host].update(dict({"silent": host in self.deleted, "service_silent": False, "fatal": None}, **fault))

    @rule(fault=st.sampled_from([None, None, {"reached": False, "error": "gone"}, {"reached": True, "error": "gone", "fatal": "no right"}]))
    def balancer(self, fault):
        self.model.down_balancers.clear()
        if fault:
            self.model.down_balancers["lb1"] = fault

    @rule()
    def reload(self):
        """The balancer loses what was set at run time; so it loses an operator's maintenance, too."""
        for name, server in self.model.servers["lb1"].items():
            server["process"] += 1
            server["admin_state"] = "ready"
            self.operators["lb1", name] = "ready"

    @rule(host=HOSTS)
    def operator_takes_out(self, host):
        if self.servers(host) and not any(server["record"] for server in self.servers(host)):
            for lb, servers in self.model.servers.items():
                servers[host]["admin_state"] = "maint"
                self.operators[lb, host] = "maint"

    @rule(slow=st.booleans())
    def users_own_way_out(self, slow):
        self.model.hosts["web3"]["slow_way_out"] = slow

    @rule(seconds=st.sampled_from([1.0, 2.0, 30.0, 400.0]))
    def time_passes(self, seconds):
        self.model.now += seconds
        self.one_pass()

    @precondition(lambda self: self.rules != "impatient")
    @rule(machine=st.sampled_from([*NAMES, "lb1", "lb2"]), seconds=st.sampled_from([-3600.0, 0.0, 3600.0]))
    def clock(self, machine, seconds):
        self.model.skew[machine] = seconds

    @rule(seconds=st.sampled_from([0.0, 0.0, 3.0, 30.0]))
    def looks_are_ended(self, seconds):
        self.model.news_for = seconds

    @rule()
    def killed(self):
        self.model.killed()

    @rule()
    def another_controller(self):
        """From now on another one's run goes on; that of the first may go on later."""
        mine = {name: getattr(self.model, name) for name in CONTROLLER}
        if self.other is None:
            self.model.killed()
            self.model.seen = {}
        else:
            for name, value in self.other.items():
                setattr(self.model, name, value)
        self.other = mine

    @rule(passes=st.integers(1, 6))
    def passes(self, passes):
        for _pass in range(passes):
            self.one_pass()

    @rule(passes=st.integers(6, 8))
    def many_passes(self, passes):
        self.passes(passes)

    # What must hold

    def action(self, event):
        if event["event_type"] == "Freeze" and self.rules in ("prepare", "ignore"):
            return self.rules
        known = event["event_type"] != "Teleport" or self.rules in ("lead time", "impatient")
        return "prepare_and_approve" if known else "prepare"

    def naming(self, name):
        """Events that a look of this pass may still show, or may not show yet as they are, each with what is known of it."""
        azure_name = self.model.hosts[name]["azure_name"]
        return [known for known in self.known.values() if azure_name in known["event"]["resources"] and self.model.now - known["over"] < STALE]

    def ends(self, known):
        """The NotBefores that a look of this pass may show."""
        return [end for end in (known["ends"] if self.model.now - known["moved"] < STALE else known["ends"][-1:]) if end is not None]

    def due(self, known):
        """Whether the rule has it prepared by now."""
        event = known["event"]
        if self.action(event) == "ignore":
            return False
        return self.rules != "lead time" or event["event_status"] == "Started" or self.model.now >= max(self.ends(known)) - 200

    def may_yield(self, name):
        """Whether the minimum in service gives way for this host: an event has started, was approved and may start, or is near."""
        posted = {event_id for _at, event_id, _by in self.model.posted + self.model.acknowledged}
        return any(
            known["event"]["event_status"] == "Started"
            or known["event"]["event_id"] in posted
            or any(self.model.now >= end - TIMEOUT - RESERVE for end in self.ends(known))
            for known in self.naming(name)
            if self.action(known["event"]) != "ignore"
        )

    def in_time(self, event_id, name):
        """Whether there was still time for the drain, as far as the test can tell."""
        since = self.out.get((event_id, name), self.model.now)
        return self.model.now < min([since + TIMEOUT - 1, *(end - RESERVE for end in self.ends(self.known[event_id]))])

    def look_on(self):
        """Documents catch up, and hosts are out or are not."""
        model = self.model
        for event_id, event in model.events.items():
            if model.now - self.known[event_id]["at"] > STALE:
                event["shown_to"] = model.names
            for name in NAMES:
                if model.in_rotation(name) or model.hosts[name]["azure_name"] not in event["resources"]:
                    self.out.pop((event_id, name), None)
                else:
                    self.out.setdefault((event_id, name), model.now)

    def unheard_of(self):
        """VMs that were deleted and of which no record tells it, while one tells of another event that named them: a run waits for those."""
        model = self.model
        records = [server["record"]["events"] for servers in model.servers.values() for server in servers.values() if server["record"]]
        records += [entry for name in NAMES if name not in self.deleted for entry in model.hosts[name]["tasks"].values()]
        told = [entry["details"] for events in records for entry in events.values()]
        naming = {name: [event["event_type"] for event in told if model.hosts[name]["azure_name"] in event["resources"]] for name in self.deleted}
        return sorted(name for name, types in naming.items() if types and not set(types) & set(DELETING))

    def serving(self, lb):
        return {name for name, server in self.model.servers[lb].items() if server["admin_state"] == "ready"}

    def one_pass(self):
        model = self.model
        self.look_on()
        before, sent = len(model.posted), len(model.acknowledged)
        rotation = {name: bool(model.in_rotation(name)) for name in NAMES}
        states = {name: [s["admin_state"] for s in self.servers(name)] or [model.hosts[name]["own_balancer"]] for name in NAMES}
        serving = {lb: self.serving(lb) for lb in model.servers}
        records = {name: any(s["record"] for s in self.servers(name)) or "load_balancer_custom" in model.hosts[name]["tasks"] for name in NAMES}
        shown = [known for event_id, known in self.known.items() if event_id in model.events]
        due = {name: any(self.due(known) for known in self.naming(name) if known in shown and name in known["event"]["shown_to"]) for name in NAMES}
        yields = {name: self.may_yield(name) for name in NAMES}
        outcome = model.go()
        model.now -= model.pass_seconds
        azure = {model.hosts[name]["azure_name"]: name for name in NAMES}
        for _at, event_id, _by in model.posted[before:]:
            event = model.events[event_id]
            assert event["event_status"] == "Scheduled" and self.action(event) == "prepare_and_approve", f"{event_id} approved"
            for resource in event["resources"]:
                if resource == OUTSIDER:
                    continue
                name = azure[resource]
                assert not rotation[name], f"{event_id} approved with {name} in rotation"
                assert not model.hosts[name]["fatal"], f"{event_id} approved with {name} damaged"
                if self.rules == "impatient" and not self.in_time(event_id, name):
                    continue
                assert model.idle(name) or not self.ports and not any(s["sessions"] for s in self.servers(name)), f"{event_id} approved with {name} busy"
                assert not model.hosts[name]["silent"], f"{event_id} approved with {name} silent"
        for _at, event_id, _by in model.acknowledged[sent:]:
            event = model.events[event_id]
            assert self.from_outside and event["event_status"] == "Scheduled" and self.action(event) == "prepare_and_approve", f"{event_id} approved"
            for name in (azure[resource] for resource in event["resources"] if resource != OUTSIDER):
                assert not rotation[name], f"{event_id} approved from outside with {name} in rotation"
                assert not any(s["sessions"] for s in self.servers(name)), f"{event_id} approved from outside with {name} busy"
                if not model.hosts[name]["silent"]:
                    assert model.idle(name) or not self.ports, f"{event_id} approved from outside with {name} busy"
                elif model.settings[name]["drain_host"]["steps"]:
                    assert "drained" in model.hosts[name]["tasks"], f"{event_id} approved from outside with services on {name}"
        for name in NAMES:
            now_in = [s["admin_state"] for s in self.servers(name)] or [model.hosts[name]["own_balancer"]]
            put_back = any(was != "ready" and now == "ready" for was, now in zip(states[name], now_in))
            assert not (put_back and due[name] and records[name]), f"{name} put back while an event names it"
        for lb, served in serving.items():
            left = self.serving(lb)
            taken = [name for name in served - left if not yields[name]]
            assert not taken or len(left) >= self.least, f"{lb}: {taken} taken out, only {left} serve"
        self.look_on()
        model.now += model.pass_seconds
        return outcome

    def teardown(self):
        if not hasattr(self, "model"):
            return
        model = self.model
        model.down_balancers.clear()
        model.news_for = 0.0
        for name in NAMES:
            model.hosts[name].update(silent=name in self.deleted, service_silent=False, fatal=None, connections=[])
            for server in self.servers(name):
                server["sessions"] = 0
        for event_id in list(model.events):
            self.goes(event_id)
        # Whether a VM that is silent was deleted nobody knows before the NotBefore of the event that does, by the clock of whoever recorded it.
        ends = [end for known in self.known.values() if self.deleted for end in known["ends"] if end is not None]
        model.now = max([model.now, *ends]) + STALE - min([0.0, *model.skew.values()])
        model.killed()
        unheard = self.unheard_of()
        for _pass in range(60):
            outcome = self.one_pass()
            if outcome["finished"]:
                break
        there = set(NAMES) - self.deleted
        if unheard and not outcome["finished"]:
            told = [told for event in outcome["events"] for told in event["hosts"].items()]
            waiting = {name for name, said in told if said["state"] not in ("in_service", "restored")}
            assert waiting == set(unheard), waiting
            model.now += model.run["timeout"]
            outcome = self.one_pass()
            assert outcome["failed_run"] and all(any(name in message for message in outcome["messages"]) for name in unheard), outcome["messages"]
        else:
            # A VM that was deleted and that nothing tells of any more is one that nobody watches.
            lost = self.deleted - {name for event in outcome["events"] for name in event["hosts"]}
            others = [message for message in outcome["messages"] if not message.startswith(tuple(f"{name}: it cannot be reached" for name in lost))]
            assert not others or not there, outcome["messages"]
            assert outcome["failed_run"] or not lost, lost
        assert outcome["finished"], outcome["messages"]
        for (lb, name), wanted in self.operators.items():
            if name in there and self.servers(name):
                assert model.servers[lb][name]["admin_state"] == wanted, (lb, name)
                assert model.servers[lb][name]["record"] is None
        for name in there:
            assert not model.hosts[name]["tasks"] and model.hosts[name]["own_balancer"] == "ready", name


Lives.TestCase.settings = settings(deadline=None, stateful_step_count=50)
TestLives = Lives.TestCase
