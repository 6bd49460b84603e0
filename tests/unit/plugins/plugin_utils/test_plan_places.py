# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Servers whose names lead elsewhere: who counts as the host, and who goes out with it."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.haproxy import haproxy_server
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_beside import OF_CODE
from ansible_collections.graceful.azure.plugins.module_utils._spellings import address_text
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.addresses import addresses_of
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import read_document
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.observation import observe

from tests.support.model import Model


class Moving(Model):
    """``at``: where each server leads, as address and port. ``own``: the addresses of each host. A server C(spare) is no host's."""

    def __init__(self, hosts=3, **settings):
        super().__init__(hosts=hosts, **settings)
        self.own = {name: [f"10.0.0.{number + 1}"] for number, name in enumerate(self.names)}
        self.networks = dict.fromkeys(self.names, None)
        self.at = {name: (addresses[0], 80) for name, addresses in self.own.items()}
        self.at["spare"] = ("10.0.0.99", 80)
        for servers in self.servers.values():
            servers["spare"] = dict(copy.deepcopy(servers[self.names[0]]))
        self.balancer = {"addresses": ["10.0.0.50"], "network": "the balancer's"}

    def observe_host(self, name):
        seen = super().observe_host(name)
        return dict(seen, addresses=self.own[name], network=self.networks[name] or name) if seen.get("events") is not None else seen

    def observe_balancer(self, lb):
        seen = dict(super().observe_balancer(lb), **self.balancer)
        for server in seen["servers"] or ():
            record = self.servers[lb][server["server"]]["record"] or {}
            server["address"], server["port"] = self.at[server["server"]]
            server.update(leads_to=record.get("leads_to"), for_server=record.get("for_server"))
        for record in seen.get("holds") or ():
            held = self.servers[lb][record["subject"]["server"]]["record"]
            record.update({key: held[key] for key in ("leads_to", "for_server") if key in held})
        return seen

    def _put_out(self, lb, name, step, for_server=None):
        server = self.servers[lb][name]
        if server["record"] is None:
            address, port = self.at[name]
            server["record"] = {"left": "drain", "events": {}, "leads_to": {"address": address, "port": port}, "process": server["process"]}
            if for_server:
                server["record"]["for_server"] = for_server
        server["record"]["events"] = dict(self._entries(step, lb), **server["record"]["events"])
        server["admin_state"] = "drain"

    def _load_balancer(self, name, step):
        if step["state"] == "in":
            self._give_back(name, step)
            return
        for lb in self.servers:
            self._put_out(lb, name, step)
            for other, at in self.at.items():
                if other != name and address_text(*at) in step["addresses"].get(lb, ()):
                    self._put_out(lb, other, step, name)

    def _give_back(self, name, step):
        for servers in self.servers.values():
            for other in [name, *(n for n, s in servers.items() if (s["record"] or {}).get("for_server") == name)]:
                ids = {i.lower() for i in step["event_ids"]}
                record = servers[other]["record"]
                if record:
                    record["events"] = {i: e for i, e in record["events"].items() if i.lower() not in ids}
                    if not record["events"]:
                        servers[other].update(admin_state="ready", record=None)

    def said(self, name):
        return self.outcome["hosts"][name]["state"], self.outcome["hosts"][name]["reason"]


def passing(text="dispatch 10.0.0.1:80", to=("10.0.0.1", 80), unresolved=None):
    return {"backend": "old", "text": text, "leads_to": [{"address": to[0], "port": to[1]}] if to else [], "unresolved": unresolved}


def test_what_sends_requests_to_the_host_without_a_server_never_counts_as_out():
    model = Moving()
    model.balancer["passes"] = [passing()]
    model.announce("e1", "web1", notice=100.0)
    model.go()
    why = "dispatch 10.0.0.1:80 in old on lb1 sends requests to it without a server, and nothing can take it out there: put the address into a server line"
    for _pass in range(60):
        model.go()
    assert why in model.said("web1")[1] and model.posted == []


@pytest.mark.parametrize(
    ("at", "other", "has_duty", "is_told"),
    [(8080, "52.0.0.9", False, True), (80, "52.0.0.9", False, False), (8080, "52.0.0.1", False, False), (8080, "52.0.0.9", True, False)],
)
def test_another_port_behind_address_translation_is_told_before_the_event(at, other, has_duty, is_told):
    """It stays in rotation: nobody knows whether it is the host. At the same port it is, and where another duty of the host names it."""
    model = Moving()
    if has_duty:
        (balancer,) = model.settings["web1"]["load_balancers"]
        model.settings["web1"]["load_balancers"].append(dict(balancer, server="spare"))
    model.own["web1"] = ["192.168.0.1"]
    model.at.update(web1=("52.0.0.1", 80), web2=(other, 81), spare=("52.0.0.1", at))
    told = "web1: www/spare on lb1 leads to 52.0.0.1:8080, where web1 has another port, and stays in rotation"
    assert any(warning.startswith(told) for warning in model.go()["warnings"]) == is_told


@pytest.mark.parametrize(("to", "is_its"), [(("52.0.0.1", 80), True), (("52.0.0.1", 81), False), (("52.0.0.9", 80), False)])
def test_what_sends_requests_to_the_host_behind_a_translated_address(to, is_its):
    """No target has the address as its own, and other targets have servers there, at other ports."""
    model = Moving()
    model.at.update(web1=("52.0.0.1", 80), web2=("52.0.0.1", 82), web3=("52.0.0.1", 83))
    model.balancer["passes"] = [passing("dispatch somewhere", to)]
    model.announce("e1", "web1")
    model.run = dict(model.run, check=True)
    model.decide()
    assert any("dispatch somewhere in old" in message for message in model.outcome["messages"]) == is_its, "before anything is done"
    model.killed()
    model.run = dict(model.run, check=False)
    for _pass in range(20):
        model.go()
    assert (model.posted == []) == is_its and ("dispatch somewhere in old" in model.said("web1")[1]) == is_its


def test_what_leads_nobody_knows_where_is_told_and_its_connections_count():
    model = Moving()
    model.balancer.update(passes=[passing("server any", None, "it takes the address from the request")], beside={"10.0.0.1": 2})
    model.go()
    assert any("web1: nobody knows whether server any in old on lb1 leads to it" in message for message in model.outcome["warnings"])
    model.announce("e1", "web1")
    for _pass in range(20):
        model.go()
    assert "2 requests of HAProxy on lb1 under way to 10.0.0.1, of no server" in model.said("web1")[1] and model.posted == []
    model.balancer["beside"] = {"10.0.0.1": 0}
    model.until(lambda outcome: model.posted)


@pytest.mark.parametrize("backends", [None, ["www"]])
@pytest.mark.parametrize("check", [False, True])
def test_code_in_lua_is_told_before_an_event_whatever_backends_are_set(check, backends):
    """It belongs to no backend, and what it sends is in no counter."""
    model = Moving()
    model.settings["web1"]["load_balancers"][0]["backends"] = backends
    model.balancer["passes"] = [dict(passing("lua-load /x.lua", None, OF_CODE), backend="global")]
    model.run = dict(model.run, check=check)
    model.decide()
    told = f"web1: nobody knows whether lua-load /x.lua in global on lb1 leads to it: {OF_CODE}"
    assert told in model.outcome["warnings"]


def test_requests_that_went_nobody_knows_where_between_two_looks_count():
    """Each is over before the next look, so that none of them is seen under way."""
    model = Moving()
    way = dict(passing("server any", None, "it takes the address from the request"), total=7)
    model.balancer.update(passes=[way], beside={})
    model.announce("e1", "web1")
    model.until(lambda outcome: not model.in_rotation("web1"), passes=8)
    for _pass in range(20):
        way["total"] += 1
        model.go()
    why = model.said("web1")[1]
    assert "requests came through server any in old on lb1 since " in why and "and nobody knows whether to it" in why and model.posted == []
    model.until(lambda outcome: model.posted, passes=12)


def test_connections_of_no_server_at_its_own_place_are_none_of_the_pool():
    assert haproxy_server("www/web1", {"admin_state": "drain", "sessions": 0, "queue": 0, "beside": 1}) == (
        "1 request under way to where www/web1 leads, of no server there",
    )
    assert "does not tell" in haproxy_server("www/web1", {"admin_state": "drain", "sessions": 0, "queue": 0, "beside": None})[0]


@pytest.mark.parametrize("when", ["from the start", "when it is drained"])
def test_a_server_of_another_name_goes_out_with_the_host_and_comes_back_with_it(when):
    model = Moving()
    if when == "from the start":
        model.at["spare"] = ("10.0.0.1", 8080)
    model.announce("e1", "web1")
    model.go()
    if when != "from the start":
        model.at["spare"] = ("10.0.0.1", 8080)
        model.go()
        assert model.posted == [] and model.outcome["hosts"]["web1"]["step"]["addresses"] == {"lb1": ["10.0.0.1:8080"]}
    model.go()
    assert model.servers["lb1"]["spare"]["admin_state"] == "drain" and model.posted == []
    model.go()
    model.until(lambda outcome: model.posted)
    assert "www/spare on lb1 leads to 10.0.0.1:8080 too and is out" in model.said("web1")[1]
    model.start("e1")
    model.go()
    model.over("e1")
    outcome = model.finish()
    assert not outcome["failed_run"], outcome["messages"]
    assert {name: server["admin_state"] for name, server in model.servers["lb1"].items()} == dict.fromkeys(["web1", "web2", "web3", "spare"], "ready")
    assert [entry["outcome"] for entry in outcome["events"]] == ["completed"] and list(outcome["events"][0]["hosts"]) == ["web1"]


def test_a_run_that_was_killed_gives_it_back_even_where_it_leads_elsewhere_by_then():
    model = Moving()
    model.at["spare"] = ("10.0.0.1", 80)
    model.announce("e1", "web1")
    model.until(lambda outcome: model.posted)
    model.killed()
    model.at["spare"] = ("10.0.0.77", 80)
    model.start("e1")
    model.go()
    model.over("e1")
    outcome = model.finish()
    assert not outcome["failed_run"], outcome["messages"]
    assert model.servers["lb1"]["spare"]["admin_state"] == "ready" and model.in_rotation("web1") == ["lb1"]


def test_what_a_held_name_led_to_counts_without_the_hosts_own_addresses():
    """Behind address translation, and where the host is silent."""
    model = Moving()
    model.own = dict.fromkeys(model.names, [])
    model.announce("e1", "web1")
    model.go()
    model.at["web1"], model.at["spare"] = ("10.0.0.88", 80), ("10.0.0.1", 80)
    outcome = model.go()
    assert outcome["hosts"]["web1"]["step"]["addresses"] == {"lb1": ["10.0.0.1:80"]}
    outcome = model.go()
    note = "www/web1 on lb1 led to 10.0.0.1:80 when it was taken out and leads to 10.0.0.88:80 now; it stays out until it is given back"
    assert note in model.said("web1")[1]


def test_one_that_bears_the_name_of_another_target_asks_for_a_person():
    model = Moving()
    model.at["web1"], model.at["web2"] = model.at["web2"], model.at["web1"]
    model.announce("e1", "web1")
    for _pass in range(6):
        outcome = model.go()
    assert model.posted == [] and model.in_rotation("web2") == ["lb1"]
    state, reason = model.said("web1")
    assert state == "needs_person"
    assert (
        "www/web2 on lb1 leads to 10.0.0.1:80, which is web1, but by its name it is the server of web2: take it out by hand, or let it lead to web2 again"
    ) in reason
    # By hand, as asked for.
    model.servers["lb1"]["web2"]["admin_state"] = "maint"
    model.until(lambda outcome: model.posted, passes=6)
    assert outcome["hosts"]["web2"]["step"] is None


def test_what_keeps_anybody_from_counting_is_told_before_the_event():
    """Such as a former process that cannot be seen. The host would go out and never count as idle."""
    model = Moving()
    shown = model.observe_balancer
    model.observe_balancer = lambda lb: dict(shown(lb), hidden="process 9 of HAProxy cannot be seen from here")
    told = "balancer lb1: process 9 of HAProxy cannot be seen from here. As long as this is so, the host never counts as idle"
    assert model.go()["warnings"] == [f"{name}: {told}" for name in ("web1", "web2", "web3")]
    assert model.go()["warnings"] == [], "once is enough"


class TestTheNameInAnotherBackend:
    """A server of the host's name in the backend api leads to C(address)."""

    def site(self, address, own=("10.0.0.1",), **settings):
        model = Moving(load_balancer=settings)
        model.own["web1"] = list(own)
        shown = model.observe_balancer

        def observe_balancer(lb):
            seen = shown(lb)
            named = next(server for server in seen["servers"] if server["server"] == "web1")
            free = {"admin_state": "ready", "in_service": True, "condition": "none", "held_by": [], "leads_to": None}
            seen["servers"].append(dict(named, backend="api", address=address, **{**free, **self.api}))
            return seen

        self.api = {}
        model.observe_balancer = observe_balancer
        return model

    def places(self, model):
        observed = observe(read_document(model.world()))
        return {name: [place.name for place in host.places if place.must_go_out] for name, host in observed.hosts.items()}

    def test_of_another_machine_stays_and_is_told_of_before_the_event(self):
        model = self.site("10.0.0.14")
        model.go()
        told = "web1: api/web1 on lb1 leads to 10.0.0.14:80, which is no address of web1, so it is another machine's and stays as it is"
        assert [told in warning for warning in model.outcome["warnings"]] == [True]
        model.announce("e1", "web1")
        outcome = model.go()
        assert outcome["warnings"] == [], "once is enough"
        assert outcome["hosts"]["web1"]["step"]["backends"] == {"lb1 /run/haproxy/admin.sock": ["www"]}
        (acts,) = [acts for turn in model.outcome["turns"]["web1"] if turn.get("machine") == "lb1" for acts in turn.get("acts", ())]
        assert acts["args"]["backends"] == ["www"]

    def test_of_another_target_goes_out_with_that(self):
        model = self.site("10.0.0.2")
        assert self.places(model) == {"web1": ["www/web1 on lb1"], "web2": ["www/web2 on lb1", "api/web1 on lb1"], "web3": ["www/web3 on lb1"]}

    @pytest.mark.parametrize("address", ["10.0.0.1", "127.0.0.1", None])
    def test_the_name_decides(self, address):
        model = self.site(address)
        assert self.places(model)["web1"] == ["www/web1 on lb1", "api/web1 on lb1"]
        assert model.go()["warnings"] == []

    def test_the_name_decides_where_the_host_has_both_addresses(self):
        assert self.places(self.site("fd00::7", own=["10.0.0.1", "fd00::7"]))["web1"] == ["www/web1 on lb1", "api/web1 on lb1"]

    def test_the_name_decides_where_the_user_has_named_the_backends(self):
        assert self.places(self.site("10.0.0.14", backends=["www", "api"]))["web1"] == ["www/web1 on lb1", "api/web1 on lb1"]

    def test_the_name_decides_where_the_hosts_addresses_are_not_known(self):
        assert self.places(self.site("10.0.0.14", own=()))["web1"] == ["www/web1 on lb1", "api/web1 on lb1"]

    def test_the_name_decides_behind_address_translation_and_that_is_told(self):
        model = self.site("20.0.0.14", own=["192.168.0.1"])
        assert self.places(model)["web1"] == ["www/web1 on lb1", "api/web1 on lb1"]
        warnings = model.go()["warnings"]
        assert [warning.split(" leads to ")[0] for warning in warnings] == ["web1: www/web1 on lb1", "web1: api/web1 on lb1"]
        assert all("Its name decides: it goes out with web1" in warning for warning in warnings)

    def test_what_was_taken_out_by_its_name_is_given_back(self):
        model = self.site("10.0.0.14")
        self.api = {"admin_state": "drain", "in_service": False, "condition": "held", "held_by": ["e1"]}
        observed = observe(read_document(model.world()))
        assert [place.name for place in observed.hosts["web1"].places] == ["www/web1 on lb1", "api/web1 on lb1"]


def test_where_both_go_out_nobody_is_asked():
    model = Moving()
    model.settings = {name: dict(settings, min_in_service=0) for name, settings in model.settings.items()}
    model.at["web1"], model.at["web2"] = model.at["web2"], model.at["web1"]
    model.announce("e1", "web1", "web2")
    model.until(lambda outcome: model.posted, passes=8)
    assert all("needs_person" != decision["state"] for decision in model.outcome["hosts"].values())


def test_both_places_of_a_host_count_for_the_minimum():
    model = Moving(min_in_service=3)
    model.at["spare"] = ("10.0.0.1", 80)
    model.announce("e1", "web1")
    model.go()
    assert model.said("web1") == ("waiting", "3 of 4 in service in www on lb1, 3 must stay")
    assert model.in_rotation("web1") == ["lb1"]


def test_a_backend_with_no_other_server_keeps_a_host_of_another_name_waiting_for_nothing():
    """Waiting brings that backend no other server, and the impact comes anyway."""
    model = Moving(min_in_service=1)
    model.at["spare"] = ("10.0.0.1", 8080)
    shown = model.observe_balancer

    def observe(lb):
        seen = shown(lb)
        for server in seen["servers"] or ():
            if server["server"] == "spare":
                server["backend"] = "admin"
        return seen

    model.observe_balancer = observe
    model.announce("e1", "web1")
    model.until(lambda outcome: (outcome["hosts"]["web1"]["step"] or {}).get("addresses") == {"lb1": ["10.0.0.1:8080"]}, passes=3)
    assert model.said("web1")[0] == "draining"


def test_only_in_the_backends_that_the_user_named():
    model = Moving(load_balancer={"backends": ["www"]})
    model.at["spare"] = ("10.0.0.1", 80)
    seen = model.observe_balancer("lb1")
    seen["servers"][-1]["backend"] = "other"
    model.observe_balancer = lambda lb: copy.deepcopy(seen)
    observed = observe(read_document(model.world()))
    assert [place.member for place in observed.hosts["web1"].places] == ["web1"]


@pytest.mark.parametrize(("port", "told"), [(80, True), (None, True), (81, False)])
def test_what_backends_leaves_out_at_the_same_place_is_told_and_keeps_it_busy(port, told):
    """Its requests come over connections of HAProxy's own, so that nobody else counts them."""
    model = Moving(load_balancer={"backends": ["www"]})
    model.at["spare"] = ("10.0.0.1", port)
    sessions = [1]

    def observe(lb, look=model.observe_balancer):
        seen = look(lb)
        seen["servers"][-1]["backend"] = "api"
        for server in seen["servers"]:
            if server["server"] == "web1" and told:
                server["shared"] = [["api/spare", sessions[0]]] if sessions[0] and server["admin_state"] != "ready" else []
        return seen

    model.observe_balancer = observe
    model.go()
    assert any("api/spare on lb1 leads to 10.0.0.1" in warning for warning in model.outcome["warnings"]) is told
    model.announce("e1", "web1")
    if told:
        for _pass in range(20):
            model.go()
        assert "1 session at api/spare, which leads to the same address and port as www/web1 on lb1" in model.said("web1")[1]
        assert model.posted == []
        sessions[0] = 0
    model.until(lambda outcome: model.posted)


@pytest.mark.parametrize(
    ("led", "for_server", "is_mine"),
    [("10.0.0.1", None, True), ("10.0.0.1", "web1", True), ("10.0.0.8", None, False), ("10.0.0.8", "web1", False), (None, None, False)],
)
def test_what_is_held_in_a_backend_that_is_no_longer_named(led, for_server, is_mine):
    """It is the host's if it led to the host's address. In another backend, another machine may have the name."""
    model = Moving(load_balancer={"backends": ["www"]})
    seen = model.observe_balancer("lb1")
    held = next(server for server in seen["servers"] if server["server"] == "web1")
    name = "slot7" if for_server else "web1"
    seen["servers"].append(dict(held, backend="api", server=name, admin_state="drain", condition="held", held_by=["E1"]))
    details = {"event_type": "Reboot", "resources": ["web1"], "action": "prepare"}
    subject = {"socket": "/s", "backend": "api", "server": name}
    record = {"kind": "haproxy_server", "subject": subject, "for_server": for_server, "leads_to": led and {"address": led, "port": 8080}}
    seen["holds"] = [dict(record, events={"E1": {"details": details}})]
    model.observe_balancer = lambda lb: copy.deepcopy(seen)
    observed = observe(read_document(model.world()))
    assert observed.hosts["web1"].held_ids == ({"e1"} if is_mine else set())
    assert observed.hosts["web2"].held_ids == set()


class TestAnAddressOfSeveral:
    """A server leads to the frontend address of a balancer of Azure, which every VM behind that has, or to one that another VM takes over."""

    def model(self, *, bearers=("web1", "web2", "web3")):
        model = Moving()
        model.at["spare"] = ("10.0.0.200", 80)
        for name in bearers:
            model.own[name].append("10.0.0.200")
        model.announce("e1", "web1", "web2")
        model.settings = {name: dict(settings, min_in_service=0) for name, settings in model.settings.items()}
        return model

    @staticmethod
    def spare(model):
        return model.servers["lb1"]["spare"]["admin_state"]

    def test_it_is_nobodys(self):
        model = self.model()
        model.until(lambda outcome: model.posted, passes=8)
        assert self.spare(model) == "ready"

    def test_where_the_others_are_silent_from_the_start(self):
        model = self.model()
        model.hosts["web3"]["silent"] = model.hosts["web2"]["silent"] = True
        for _pass in range(5):
            model.go()
        assert model.said("web1")[0] in ("draining", "ready") and self.spare(model) == "ready"

    def test_where_the_others_go_silent_one_after_the_other(self):
        model = self.model(bearers=("web1", "web2"))
        model.until(lambda outcome: model.posted, passes=8)
        model.start("e1")
        for name in ("web2", "web1"):
            model.hosts[name]["silent"] = True
            model.go()
            model.go()
            assert self.spare(model) == "ready"

    def test_where_the_others_are_no_targets(self):
        model = self.model(bearers=("web1",))
        model.run = dict(model.run, partial=True)
        model.until(lambda outcome: model.posted, passes=8)
        assert self.spare(model) == "ready"

    @pytest.mark.parametrize(("bearers", "partial", "is_told"), [(("web1",), True, True), (("web1",), False, False), (("web1", "web2"), True, False)])
    def test_before_an_event_it_is_told_that_nobody_knows(self, bearers, partial, is_told):
        """It stays in rotation, and the event of the host is approved."""
        model = self.model(bearers=bearers)
        model.events.clear()
        model.run = dict(model.run, partial=partial, check=True)
        told = (
            "web1: www/spare on lb1 leads to 10.0.0.200:80, which is an address of web1, and stays in rotation: a host that is no target, or that was not read"
        )
        assert [warning.startswith(told) for warning in model.go()["warnings"]] == [True] * is_told


class TestWhoseAddress:
    """What leads to web1, with port 8080 counted there."""

    def addresses(self, own, networks=("a", "b"), ports=(8080, 8080), partial=False):
        hosts = []
        for number, name in enumerate(("web1", "web2")):
            host = type("Host", (), {})()
            host.name, host.ports, host.network, host.addresses = name, [ports[number]], networks[number], own[number]
            hosts.append(host)
        return addresses_of(hosts, partial), hosts[0]

    @pytest.mark.parametrize(
        ("own", "networks", "ports", "balancer", "server", "leads"),
        [
            ((["10.0.0.1"], ["10.0.0.2"]), "ab", (8080, 8080), {}, ("10.0.0.1", 1), True),
            ((["10.0.0.1"], ["10.0.0.2"]), "ab", (8080, 8080), {}, ("10.0.0.1", None), True),
            ((["10.0.0.1"], ["10.0.0.2"]), "ab", (8080, 8080), {}, ("10.0.0.2", 8080), False),
            ((["10.0.0.1"], ["10.0.0.2"]), "ab", (8080, 8080), {}, (None, 8080), False),
            # A bridge of containers, which every machine has, the balancer too.
            ((["172.17.0.1"], ["172.17.0.1"]), "ab", (8080, 8080), {}, ("172.17.0.1", 8080), False),
            ((["172.17.0.1"], []), "ab", (8080, 8080), {"addresses": ["172.17.0.1"]}, ("172.17.0.1", 8080), False),
            # Loopback is the balancer's own machine.
            ((["10.0.0.1"], ["10.0.0.2"]), "ab", (8080, 8080), {"network": "c"}, ("127.0.0.1", 8080), False),
            ((["10.0.0.1"], ["10.0.0.2"]), "ab", (8080, 8080), {"network": "a"}, ("127.0.0.1", 8080), True),
            ((["10.0.0.1"], ["10.0.0.2"]), "ab", (8080, 8080), {"network": "a"}, ("127.0.0.1", 8081), False),
            # Several targets on one machine: the ports tell them apart.
            ((["10.0.0.1"], ["10.0.0.1"]), "aa", (8080, 8081), {"network": "a"}, ("127.0.0.1", 8080), True),
            ((["10.0.0.1"], ["10.0.0.1"]), "aa", (8080, 8081), {"network": "a"}, ("10.0.0.1", 8080), True),
            ((["10.0.0.1"], ["10.0.0.1"]), "aa", (8080, 8081), {"network": "a"}, ("::1", 8081), False),
            ((["10.0.0.1"], ["10.0.0.1"]), "aa", (8080, 8080), {"network": "a"}, ("127.0.0.1", 8080), False),
        ],
    )
    def test_it(self, own, networks, ports, balancer, server, leads):
        addresses, host = self.addresses(own, networks, ports)
        assert addresses.leads_to(host, (server[0], server[1]), [], set(), balancer) is leads

    @pytest.mark.parametrize("unknown", [{"partial": True}, {"own": (["10.0.0.1", "10.0.0.200"], None)}])
    def test_while_the_addresses_of_others_are_unknown_only_those_of_its_own_servers_count(self, unknown):
        """Another host may have 10.0.0.200 as well, as every VM behind an Azure Load Balancer with Floating IP may, or take it over."""
        addresses, host = self.addresses(**dict({"own": (["10.0.0.1", "10.0.0.200"], ["10.0.0.2"])}, **unknown))
        assert not addresses.leads_to(host, ("10.0.0.200", 80), [], {"10.0.0.1"}, {})
        assert addresses.leads_to(host, ("10.0.0.1", 8080), [], {"10.0.0.1"}, {})
        # Its own server leads to another VM.
        assert not addresses.leads_to(host, ("10.0.0.2", 80), [], {"10.0.0.2"}, {})

    def test_where_a_name_led_unless_another_target_has_that_address_now(self):
        led = [{"address": "10.0.0.7", "port": 80}, {"address": "10.0.0.2", "port": 80}]
        addresses, host = self.addresses((["10.0.0.1"], ["10.0.0.2"]))
        assert addresses.leads_to(host, ("10.0.0.7", 80), led, set(), {})
        assert not addresses.leads_to(host, ("10.0.0.7", 81), led, set(), {})
        assert not addresses.leads_to(host, ("10.0.0.2", 80), led, set(), {})

    def test_what_is_searched_for(self):
        addresses, host = self.addresses((["10.0.0.1", "172.17.0.1"], ["172.17.0.1"]))
        assert addresses.searched(host, {"network": "c"}) == ["10.0.0.1"]
        addresses, host = self.addresses((["10.0.0.1"], ["10.0.0.1"]), "aa", (8080, 8081))
        assert addresses.searched(host, {"network": "a"}) == ["127.0.0.1:8080", "[::1]:8080", "10.0.0.1:8080"]

    def test_as_a_text(self):
        assert [address_text("10.0.0.1", 80), address_text("::1", 80), address_text("10.0.0.1", None)] == ["10.0.0.1:80", "[::1]:80", "10.0.0.1:0"]
