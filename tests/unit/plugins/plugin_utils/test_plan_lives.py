# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random lives of events, hosts, balancers and operators: what must hold in every one of them."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.support.model import Model

NAMES = ("web1", "web2", "web3")
HOSTS = st.sampled_from(NAMES)


class Lives(RuleBasedStateMachine):
    @initialize(balancers=st.sampled_from([("lb1",), ("lb1", "lb2")]), services=st.booleans(), least=st.sampled_from([0, 1, "50%"]))
    def begin(self, balancers, services, least):
        drain = {"services": ["web.service"] if services else []}
        self.model = Model(hosts=3, balancers=balancers, drain_host=drain, min_in_service=least)
        for name in NAMES:
            self.model.settings[name]["resource_name"] = self.model.hosts[name]["azure_name"]
        self.operators = {(lb, name): "ready" for lb in balancers for name in NAMES}
        self.count = 0

    def servers(self, name):
        return [servers[name] for servers in self.model.servers.values()]

    # The world's life

    @rule(hosts=st.sets(HOSTS, min_size=1, max_size=2), kind=st.sampled_from(["Reboot", "Freeze", "Redeploy"]), notice=st.sampled_from([20, 300, 900]))
    def announce(self, hosts, kind, notice):
        if len(self.model.events) < 3:
            self.count += 1
            self.model.announce(f"E{self.count}", *sorted(hosts), event_type=kind, notice=notice)

    @rule(host=HOSTS)
    def fail_without_notice(self, host):
        if len(self.model.events) < 3:
            self.count += 1
            self.model.announce(f"E{self.count}", host, status="Started")

    @precondition(lambda self: self.model.events)
    @rule(pick=st.integers(0, 2))
    def start(self, pick):
        event_id = sorted(self.model.events)[pick % len(self.model.events)]
        event = self.model.events[event_id]
        posted = any(posted == event_id for _at, posted, _by in self.model.posted)
        if event["event_status"] == "Scheduled" and (posted or event["not_before_at"] <= self.model.now):
            self.model.start(event_id)

    @precondition(lambda self: self.model.events)
    @rule(pick=st.integers(0, 2))
    def over(self, pick):
        self.model.over(sorted(self.model.events)[pick % len(self.model.events)])

    @rule(host=HOSTS, sessions=st.integers(0, 2))
    def sessions(self, host, sessions):
        for server in self.servers(host):
            server["sessions"] = sessions

    @rule(host=HOSTS, connections=st.integers(0, 1))
    def connections(self, host, connections):
        self.model.hosts[host]["connections"] = [{"port": 80, "peer": "10.0.0.77", "count": 1}] * connections

    @rule(host=HOSTS, silent=st.booleans(), which=st.sampled_from(["silent", "service_silent"]))
    def silence(self, host, silent, which):
        self.model.hosts[host][which] = silent

    @rule(down=st.booleans(), fatal=st.booleans())
    def balancer(self, down, fatal):
        self.model.down_balancers.clear()
        if down:
            self.model.down_balancers["lb1"] = {"reached": fatal, "error": "gone", **({"fatal": "no right"} if fatal else {})}

    @rule()
    def reload(self):
        """The balancer loses what was set at run time; so it loses an operator's maintenance, too."""
        for name, server in self.model.servers["lb1"].items():
            server["process"] += 1
            server["admin_state"] = "ready"
            self.operators["lb1", name] = "ready"

    @rule(host=HOSTS)
    def operator_takes_out(self, host):
        if not any(server["record"] for server in self.servers(host)):
            for lb, servers in self.model.servers.items():
                servers[host]["admin_state"] = "maint"
                self.operators[lb, host] = "maint"

    @rule(seconds=st.sampled_from([1.0, 2.0, 30.0, 400.0]))
    def time_passes(self, seconds):
        self.model.now += seconds

    @rule(machine=st.sampled_from([*NAMES, "lb1", "lb2"]), seconds=st.sampled_from([-3600.0, 0.0, 3600.0]))
    def clock(self, machine, seconds):
        self.model.skew[machine] = seconds

    @rule()
    def killed(self):
        self.model.killed()

    @rule(passes=st.integers(1, 4))
    def passes(self, passes):
        for _pass in range(passes):
            self.one_pass()

    # What must hold

    def one_pass(self):
        model = self.model
        before = len(model.posted)
        rotation = {name: [s["admin_state"] for s in self.servers(name)] for name in NAMES}
        busy = {name: any(s["sessions"] or s["queue"] for s in self.servers(name)) or model.hosts[name]["connections"] for name in NAMES}
        records = {name: any(s["record"] for s in self.servers(name)) for name in NAMES}
        outcome = model.go()
        azure = {model.hosts[name]["azure_name"]: name for name in NAMES}
        for _at, event_id, _by in model.posted[before:]:
            for resource in model.events[event_id]["resources"]:
                name = azure[resource]
                assert "ready" not in rotation[name], f"{event_id} approved with {name} in rotation"
                assert not busy[name], f"{event_id} approved with {name} busy"
                assert not model.hosts[name]["silent"], f"{event_id} approved with {name} silent"
        for name in NAMES:
            after = [s["admin_state"] for s in self.servers(name)]
            put_back = any(was != "ready" and now == "ready" for was, now in zip(rotation[name], after))
            named = any(model.hosts[name]["azure_name"] in event["resources"] for event in model.events.values())
            assert not (put_back and named and records[name]), f"{name} put back while an event names it"
        return outcome

    def teardown(self):
        if not hasattr(self, "model"):
            return
        model = self.model
        model.down_balancers.clear()
        for name in NAMES:
            model.hosts[name].update(silent=False, service_silent=False, connections=[])
            for server in self.servers(name):
                server["sessions"] = 0
        model.events.clear()
        model.killed()
        for _pass in range(60):
            outcome = self.one_pass()
            if outcome["finished"]:
                break
        assert outcome["finished"] and not outcome["failed_run"], outcome["messages"]
        for (lb, name), wanted in self.operators.items():
            assert model.servers[lb][name]["admin_state"] == wanted, (lb, name)
            assert model.servers[lb][name]["record"] is None
        for name in NAMES:
            assert not model.hosts[name]["tasks"]


Lives.TestCase.settings = settings(deadline=None, stateful_step_count=50)
TestLives = Lives.TestCase
