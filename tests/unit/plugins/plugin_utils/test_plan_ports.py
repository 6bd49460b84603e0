# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where C(graceful_azure_ports) is not set, connections are counted on the ports to which the balancers lead."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import TRAFFIC, settings_of
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.addresses import addresses_of
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import MachineObservation

from tests.support.model import Model, service
from tests.support.nginx import line_told

CLIENT = {"port": 8080, "peer": "10.0.0.9", "count": 1}
OTHER = {"port": 22, "peer": "10.0.0.9", "count": 1}
UNHEARD = {"port": 8080, "why": "nobody listens on it", "unheard": True}
COUNTS = "its connections on port 8080 have not been counted yet"


class Told(Model):
    """HAProxy's servers lead to port 8080 of the hosts. A look counts what it was asked to count."""

    def __init__(self, ports=None, **settings):
        super().__init__(drain_host={"ports": ports, **settings.pop("drain_host", {})}, **settings)
        self.own = {name: [f"10.0.1.{number + 1}"] for number, name in enumerate(self.names)}
        self.at = {name: (addresses[0], 8080) for name, addresses in self.own.items()}
        self.asked = []  # per pass: the ports that web1 was asked for

    def observe_host(self, name):
        turn = self.turn(name)
        ports = turn["options"]["ports"] if turn else self.settings[name]["drain_host"]["ports"] or []
        if name == "web1":
            self.asked.append(ports)
        seen = super().observe_host(name)
        if "connections" not in seen:
            return seen
        for key in ("connections", "uncounted"):
            seen[key] = [each for each in seen[key] if each["port"] in ports]
        return dict(seen, ports=ports, addresses=self.own[name], network=name)

    def next_look(self, name):
        """The options of the next look at a host."""
        return next(turn["options"] for turn in self.outcome["turns"][name] if "options" in turn and "machine" not in turn)

    def observe_balancer(self, lb):
        seen = dict(super().observe_balancer(lb), addresses=["10.0.1.50"], network=lb)
        for server in seen["servers"] or ():
            server["address"], server["port"] = self.at[server["server"]]
        return seen


def test_a_connection_to_the_port_of_the_balancers_line_keeps_the_host_from_being_approved():
    model = Told()
    model.announce("e1", "web1")
    model.hosts["web1"]["connections"] = [CLIENT, OTHER]
    for _pass in range(8):
        outcome = model.go()
    assert model.posted == [] and outcome["hosts"]["web1"]["reason"] == "1 connection from 10.0.0.9 on port 8080"
    model.hosts["web1"]["connections"].remove(CLIENT)
    model.until(lambda outcome: model.posted, 3)


def test_ports_that_the_next_look_counts_are_no_matter_once_the_event_has_started():
    """A new run learns the ports from the balancers, and asks for them from its second pass on."""
    model = Told()
    model.announce("e1", "web1")
    model.until(lambda _outcome: model.posted)
    model.start("e1")
    model.killed()
    decided = model.go()["hosts"]["web1"]
    assert (decided["state"], decided["reason"]) == ("started", "stays out until Azure says that the event is over")


def test_when_its_time_is_over_the_line_says_how_to_find_the_clients():
    model = Told(drain_host={"timeout": 10.0})
    model.announce("e1", "web1")
    model.hosts["web1"]["connections"] = [CLIENT, OTHER]
    for _pass in range(20):
        outcome = model.go()
    assert outcome["hosts"]["web1"]["reason"] == (
        "not drained in time (on_drain_timeout: hold), still to end: 1 connection from 10.0.0.9 on port 8080."
        " To see what is left: on web1: ss -tnp 'sport = :8080' (Windows: netstat -n)"
    )
    # Each client of a host may be asked for on its balancer's machine, too.
    commands = {kind: TRAFFIC[kind].left_by({"socket": "/run/h a.sock", "server": "10.0.0.4:80"}) for kind in ("haproxy", "nginx", "health_probe")}
    assert commands == {"haproxy": "echo 'show sess' | sudo socat stdio '/run/h a.sock'", "nginx": "ss -tn dst 10.0.0.4:80", "health_probe": ""}
    assert TRAFFIC["nginx"].left_by({"server": "unix:/run/app.sock"}) == ""


@pytest.mark.parametrize("ports", [[], [80]])
def test_what_is_set_is_taken_as_it_is(ports):
    model = Told(ports=ports)
    model.announce("e1", "web1")
    model.hosts["web1"]["connections"] = [CLIENT]
    model.until(lambda outcome: model.posted, 4)
    assert all(asked == ports for asked in model.asked)


def test_a_look_from_before_the_ports_were_known_is_no_idle_look():
    """The host is out already, held by a run that was killed. Nothing else keeps it from being idle."""
    model = Told()
    model.announce("e1", "web1")
    model.until(lambda outcome: not model.in_rotation("web1"), 3)
    model.killed()
    assert model.go()["hosts"]["web1"]["reason"] == f"out, {COUNTS}" and model.asked[-1] == []
    assert model.memory["hosts"]["web1"].get("looks", 0) == 0
    model.until(lambda outcome: model.posted, 3)


@pytest.mark.parametrize(("ports", "is_told"), [([443], True), ([80], False), (None, False)])
def test_clients_over_udp_of_a_port_that_is_counted_are_told_once(ports, is_told):
    """A balancer that leads to a port does so by TCP."""
    model = Told(watch=True, ports=ports)
    model.hosts["web1"]["udp"] = [443, 8080]
    warnings = [warning for _pass in range(3) for warning in model.go()["warnings"]]
    why = "web1: UDP is served on port 443, too, as by HTTP/3 or DNS. Its clients cannot be counted: only those of TCP keep the host busy"
    assert warnings == ([why] if is_told else [])


def test_the_host_goes_out_once_its_ports_have_been_counted_and_at_once_where_the_impact_is_near():
    """Whoever serves there may stop as soon as the host is out."""
    model = Told(hosts=3)
    model.announce("e1", "web1")
    model.announce("e2", "web2", notice=30)
    model.go()
    assert model.in_rotation("web1") and not model.in_rotation("web2")
    look = model.next_look("web1")
    assert (look["ports"], look["wait"], look.get("await_idle", False)) == ([8080], 0.0, False)
    model.go()
    assert not model.in_rotation("web1")
    model.hosts["web1"]["uncounted"] = [UNHEARD]
    model.until(lambda outcome: "e1" in [event_id for _at, event_id, _name in model.posted], 6)


def test_a_port_that_cannot_be_counted_is_told_before_the_event_and_is_never_idle():
    model = Told(watch=True)
    model.hosts["web1"]["uncounted"] = [UNHEARD]
    assert model.go()["warnings"] == []
    why = "port 8080 cannot be counted: nobody listens on it"
    whence = "a balancer leads there; graceful_azure_ports would choose others"
    assert model.go()["warnings"] == [f"web1: {why} ({whence}). As long as this is so, the host never counts as idle"]
    model.announce("e1", "web1", notice=300)
    for _pass in range(20):
        outcome = model.go()
    assert model.posted == [] and why in outcome["hosts"]["web1"]["reason"]


def test_idle_hosts_are_looked_at_once_more_and_then_rest_as_others_do():
    model = Told(watch=True)
    model.go()
    looks = [model.next_look(name) for name in model.names]
    assert [(look["ports"], look["wait"]) for look in looks] == [([8080], 0.0)] * 2
    model.go()
    assert model.next_look("web1")["wait"] > 0


@pytest.mark.parametrize(
    ("at", "balancer"),
    [
        (("10.0.9.9", 8080), {}),  # of a gateway, or of a balancer in between: its port need not be the host's
        (("10.0.1.1", None), {}),  # the client's own port
        ((None, 8080), {}),
        (("127.0.0.1", 8080), {}),
        (("10.0.1.1", 8080), {"addresses": ["10.0.1.1"]}),  # a bridge of containers, which the balancer's machine has, too
    ],
)
def test_what_does_not_lead_to_an_address_of_the_host_says_nothing_of_its_ports(at, balancer):
    model = Told()
    shown = model.observe_balancer
    model.observe_balancer = lambda lb: dict(shown(lb), **balancer)
    model.at["web1"] = at
    model.announce("e1", "web1")
    model.until(lambda outcome: model.posted, 4)
    assert all(asked == [] for asked in model.asked)


def test_a_balancer_on_the_host_itself_leads_there_by_loopback():
    model = Told()
    shown = model.observe_balancer
    model.observe_balancer = lambda lb: dict(shown(lb), network="web1")
    model.at["web1"] = ("127.0.0.1", 8081)
    model.go()
    model.go()
    assert model.asked[-1] == [8081]


def test_while_a_balancer_cannot_be_read_it_leads_where_it_led():
    model = Told(balancers=("lb1", "lb2"), watch=True)
    model.go()
    model.down_balancers["lb1"] = model.down_balancers["lb2"] = {"reached": False, "error": "no route"}
    model.go()
    assert model.next_look("web1")["ports"] == [8080]
    model.down_balancers.clear()
    model.at["web1"] = ("10.0.1.1", 9090)
    model.go()
    assert model.next_look("web1")["ports"] == [9090]


class TestOneStep:
    """Runs of one step, as a schedule starts them. Each begins without knowing the ports."""

    def run(self, model):
        model.killed()
        model.run.update(look_twice=True)
        for _pass in range(6):
            if model.go()["finished"]:
                return
        raise AssertionError("it does not end")

    def test_they_take_a_host_out_and_drain_and_approve_it(self):
        model = Told(wait=False, drain_host={"steps": [service()]})
        model.announce("e1", "web1")
        self.run(model)
        assert not model.in_rotation("web1") and model.number == 2
        model.hosts["web1"]["connections"] = [CLIENT]
        self.run(model)
        assert "services" not in model.hosts["web1"]["tasks"]
        model.hosts["web1"]["connections"] = []
        for _run in range(3):
            self.run(model)
        assert model.posted and "services" in model.hosts["web1"]["tasks"]

    def test_without_an_event_there_is_one_look(self):
        model = Told(wait=False)
        self.run(model)
        assert model.number == 1


class TestCheckMode:
    def run(self, model):
        model.run.update(check=True)
        model.decide()
        while not model.outcome["finished"]:
            assert model.number < 3
            model.decide()
        return model.outcome["preview"]

    SAID = "web1, web2: clients are counted on port 8080, because lb1 sends requests there (graceful_azure_ports would choose others)"

    def test_it_shows_what_is_counted_and_who_told_it(self):
        model = Told(wait=False)
        assert self.run(model) == ["Check mode: nothing is changed. No event stands. Looked at: web1, web2, lb1.", self.SAID]
        assert model.number == 2

    @pytest.mark.parametrize(("ports", "at"), [(None, ("10.0.1.1", None)), (None, ("10.0.9.9", 8080)), ([], ("10.0.1.1", None))])
    def test_a_host_of_which_no_port_is_known_is_told(self, ports, at):
        """Who connects to it past its balancer would keep it from no event."""
        model = Told(wait=False, ports=ports)
        model.at["web1"] = at
        said = "web1: no balancer tells a port of its own, so who connects past the balancers is not seen (set graceful_azure_ports)"
        assert (said in self.run(model)) == (ports is None)

    def test_beside_an_event(self):
        model = Told(wait=False)
        model.at["web2"] = ("10.0.1.2", 9090)
        model.announce("e1", "web1")
        *_lines, one, two = self.run(model)
        assert (one, two) == (self.SAID.replace(", web2", ""), self.SAID.replace("web1, web2", "web2").replace("8080", "9090"))
        assert model.outcome["hosts"]["web1"]["step"] and model.steps == []

    def test_hosts_on_one_machine_with_the_same_port(self, monkeypatch):
        look = Told.observe_host
        monkeypatch.setattr(Told, "observe_host", lambda model, name: dict(look(model, name), network="vm1"))
        assert self.run(Told(wait=False))[2:] == [
            "web1, web2 are on one machine: on port 8080, each counts the clients of the others, too. Give each a port of its own"
        ]

    def test_what_cannot_be_counted_is_told(self):
        model = Told(wait=False)
        model.hosts["web1"]["uncounted"] = [UNHEARD]
        self.run(model)
        assert "web1: port 8080 cannot be counted" in model.outcome["warnings"][0]

    def test_what_the_settings_say_is_no_news(self):
        model = Told(ports=[8080], wait=False)
        assert self.run(model) == ["Check mode: nothing is changed. No event stands. Looked at: web1, web2, lb1."]
        assert model.number == 1


def test_lines_of_nginx_tell_ports_too():
    server = line_told("10.0.1.1:8080", leads_to=[{"address": "10.0.1.1", "port": 8080}, {"address": "10.0.9.9", "port": 80}])
    socket = dict(server, server="unix:/run/app.sock", leads_to=[{"address": "unix:/run/app.sock", "port": None}])
    look = {"reached": True, "passes": [], "beside": {}, "files": {}, "present": [], "configuration": "/nginx.conf", "holds": []}
    settings = settings_of("nginx", {"hosts": ["lb1"], "server": "10.0.1.1:8080"}, "web1")
    host = type("Host", (), {"name": "web1", "addresses": ["10.0.1.1"], "ports": [], "network": "a", "balancers": [(TRAFFIC["nginx"], settings)]})()
    machines = {"lb1 nginx": MachineObservation("lb1 nginx", copy.deepcopy(dict(look, servers=[server, socket])), None)}
    (traffic,) = TRAFFIC["nginx"].traffic_of_all([(host, settings)], machines, addresses_of([host]))
    assert [place.ports for place in traffic.places] == [{8080}]
