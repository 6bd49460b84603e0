# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Duties on the machine's side: how their entries are read, the order of acts, and what they tell. The real programs are in tests/integration/test_duty.py."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
import requests
from ansible_collections.graceful.azure.plugins.module_utils._cluster_types import TYPES as CLUSTERS
from ansible_collections.graceful.azure.plugins.module_utils._duties import all_types
from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import Duty
from ansible_collections.graceful.azure.plugins.module_utils._duties.in_order import in_order
from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import DriverError
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Store
from ansible_collections.graceful.azure.plugins.modules import duty
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import types
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.duty import Duty as SettingsDuty

from tests.support.azure import LB, POOL
from tests.support.azure_here import Here
from tests.support.service import Clock

HAPROXY = {"type": "haproxy", "hosts": ["lb1"], "server": "web1"}
NGINX = {"type": "nginx", "hosts": ["lb1"], "server": "10.0.0.4:80"}
PROBE = {"type": "health_probe", "action": "file", "file": "/tmp/out"}
AZURE = {"type": "azure_load_balancer", "pool": POOL, "address": "a"}


PATHS = [
    (HAPROXY, "socket"),
    (NGINX, "configuration"),
    (PROBE, "file"),
    (AZURE, "ca_file"),
    ({"type": "consul"}, "token_file"),
    ({"type": "kubernetes"}, "kubeconfig"),
    ({"type": "patroni"}, "ca_cert"),
    ({"type": "redis"}, "password_file"),
]


class TestEntries:
    def test_every_type_is_read_with_its_defaults(self):
        (haproxy, nginx, probe, azure, tasks, service, *clusters) = all_types.read_list(
            [HAPROXY, NGINX, PROBE, AZURE, {"type": "tasks", "out": "out.yml"}, "app", {"type": "consul"}], Machine
        )
        assert (haproxy.name, haproxy.options["socket"], haproxy.options["quiet"], haproxy.options["state"]) == ("haproxy", "/run/haproxy/admin.sock", 3, None)
        assert nginx.options["files"] is None and azure.options["auth_source"] == "auto" and tasks.options["traffic"] is False
        assert [probe.options[name] for name in ("interval", "threshold", "margin", "file_means")] == [5, 2, 2, "out"]
        assert (service.duty.type, service.name) == ("service", "app") and clusters[0].options["url"]

    def test_the_types_are_those_of_the_contract(self):
        assert {*all_types.types()} == {*("haproxy nginx health_probe azure_load_balancer tasks service iis".split()), *CLUSTERS}
        for kind in all_types.types():
            assert all_types.class_of(kind).type == kind
        traffic = {kind for kind in all_types.types() if all_types.class_of(kind).traffic}
        assert traffic == {"haproxy", "nginx", "health_probe", "azure_load_balancer"}

    @pytest.mark.parametrize("file", all_types.FILES)
    def test_the_list_names_the_calls_of_each_file(self, file):
        """They are known before a file is loaded."""
        assert set(all_types.load(file).CALLS) == set(all_types.FILES[file])

    @pytest.mark.parametrize("kind", all_types.types())
    def test_their_options_are_those_of_the_settings(self, kind):
        """What the settings accept, the machine takes, in the same types."""
        there, here = types()[kind], all_types.class_of(kind)
        assert set(types()) == set(all_types.types())
        for said in ("once", "needs_name", "name_pattern"):
            assert getattr(here, said) == getattr(there, said)
        assert here.closes == getattr(there, "closes", False)
        assert here.own_mistakes == there.own_mistakes or (here.own_mistakes, there.own_mistakes) == (Duty.own_mistakes, SettingsDuty.own_mistakes)

        def plain(specs):
            # A task file is on the controller. On the machine its path is a word.
            told = {name: {key: spec[key] for key in ("type", "elements", "choices") if key in spec} for name, spec in specs.items()}
            return {name: {"type": "str"} if kind == "tasks" and spec["type"] == "path" else spec for name, spec in told.items()}

        assert plain(there.options) == plain(here.options)
        given = {name: spec["default"] for name, spec in there.options.items() if "default" in spec}
        assert given == {name: here.options[name].get("default") for name in given}

    @pytest.mark.parametrize(
        ("entry", "said"),
        [
            (3, "duties[0]: 3 is neither a dictionary nor the name of a service."),
            ({}, "duties[0].type: not set; there are haproxy, nginx,"),
            ({"type": ["haproxy"]}, "duties[0].type: ['haproxy'] is no type of duty"),
            ({"type": "haprox"}, "duties[0].type: 'haprox' is no type of duty; did you mean haproxy?; there are haproxy,"),
            (dict(HAPROXY, sockt="/x"), "duties[0]: there is no option sockt; did you mean socket?; for the type haproxy there are type, name,"),
            ({"type": "haproxy"}, "duties[0]: missing required arguments: hosts."),
            (dict(HAPROXY, hosts=[]), "duties[0].hosts: empty; give the inventory names of the machines on which the balancer runs."),
            (dict(HAPROXY, server=""), "duties[0].server: not set; give the name that the balancer has for the host."),
            (dict(HAPROXY, quiet=-1), "duties[0].quiet: is -1.0; it must be a number of seconds, 0 or more."),
            (dict(HAPROXY, state="down"), "duties[0]: value of state must be one of: drain, maint, got: down."),
            *((dict(entry, **{option: "up"}), f"duties[0].{option}: 'up' is not an absolute path; write one that begins with /.") for entry, option in PATHS),
            (dict(NGINX, files=["up.conf"]), "duties[0].files: 'up.conf' is not an absolute path; write one that begins with /."),
            (dict(PROBE, file=None), "duties[0].file: not set; action: file needs it."),
            (dict(PROBE, interval=0), "duties[0].interval: 0 is not a number of seconds greater than 0; give the figure of the balancer's probe."),
            (dict(PROBE, peer=["lb"]), "duties[0].peer: "),
            (dict(AZURE, pool="web"), "duties[0].pool: 'web' is not a resource id such as /subscriptions/"),
            (dict(AZURE, ip_address="10.0.0.4"), "duties[0].address: excludes ip_address; give one of them."),
            (dict(AZURE, address=None, ip_address="web1"), "duties[0].ip_address: 'web1' is not an IP address."),
            (dict(AZURE, secret="x"), "duties[0]: there is no option secret;"),
            (dict(AZURE, arm_url="http://a"), "duties[0].arm_url: 'http://a' does not begin with https://; tokens are sent there."),
            ({"type": "tasks"}, "duties[0]: neither out nor back is set; give at least one task file."),
            ({"type": "service"}, "duties[0].name: not set; it is the name of the unit."),
            ("worker@", "duties[0].name: 'worker@' is a template; name an instance of it, such as worker@1."),
            ("a b", "duties[0].name: 'a b' is not a plain word;"),
            ({"type": "iis", "sites": ["Shop"]}, "duties[0]: IIS runs on Windows hosts only, and this is none."),
            ({"type": "consul", "url": "x"}, "duties[0].url: 'x' does not begin with http:// or https:// and a host;"),
        ],
    )
    def test_mistakes_name_the_option(self, entry, said):
        with pytest.raises(ValueError) as told:
            all_types.read_list([entry], Machine)
        assert str(told.value).startswith(said) and str(told.value).endswith(".")

    def test_all_mistakes_are_told_at_once(self):
        with pytest.raises(ValueError) as told:
            all_types.read_list([{"type": "tasks"}, "app", "app", PROBE, dict(PROBE, name="other")], Machine)
        assert str(told.value) == (
            "duties[0]: neither out nor back is set; give at least one task file; duties[2].name: 'app' stands in duties[1] already;"
            " give each entry a name of its own;"
            " duties[4]: only one entry may be of the type health_probe, because all that is held of a host's health answers goes back together;"
            " duties[3] is one."
        )


class Bell(Duty):
    """A made-up duty. C(world): what is there, by name, and what was done."""

    type = "bell"
    world = {}

    def look(self):
        self.world["asked"].append(self.name)
        state = self.world[self.name]
        if state == "strange":
            raise DriverError("The bell cannot be heard.")
        left = self.world.get(f"left at {self.name}", 0)
        self.world[f"left at {self.name}"] = max(0, left - 1)
        return self.seen(state, state == "in", busy=["1 guest"] if left else [])

    def change(self, act):
        state = "out" if act.request.present else "in"
        if self.world.get("stuck") == self.name:
            raise DriverError("The bell is stuck.")
        changed = self.world[self.name] != state
        self.world[self.name] = state
        self.world["acts"].append((self.name, state, act.request.event_ids, act.timeout))
        return {
            "done": self.world.get("slow") != self.name,
            "changed": changed,
            "waiting_for": [],
            "conflicts": [],
            "diff": {"before": {}, "after": {}},
        }


class Door(Bell):
    type = "door"
    traffic = True
    quiet = 1.0


class Lamp(Door):
    """The host's own answer."""

    type = "lamp"
    answers_checks = True


class Shutter(Bell):
    type = "shutter"
    closes = True


@pytest.fixture(name="world")
def make_world(monkeypatch):
    made_up = SimpleNamespace(DUTIES={kind.type: kind for kind in (Bell, Door, Lamp, Shutter)}, CALLS={})
    monkeypatch.setattr(all_types, "FILES", {})
    monkeypatch.setattr(all_types, "load", lambda file: made_up)
    monkeypatch.setattr(Bell, "world", {"door": "in", "bell": "in", "gong": "in", "acts": [], "asked": []})
    return Bell.world


@pytest.fixture(name="ask")
def make_ask(world):
    clock = Clock()

    def ask(*names, to="out", check_mode=False, timeout=0.0, **more):
        entries = [{"type": "door" if name == "door" else "bell", "name": name} for name in names]
        acts = [{"duty": entry, "to": to, "event_ids": ["A"], **more} for entry in entries]
        machine = Machine(check_mode=check_mode, monotonic=clock.monotonic, sleep=clock.sleep)
        return in_order({"acts": acts, "look": entries, "timeout": timeout}, machine)

    ask.clock, ask.world = clock, world
    return ask


class TestHandle:
    def test_acts_in_order_and_then_a_look(self, ask, world):
        told = ask("bell", "gong")
        assert [each[:3] for each in world["acts"]] == [("bell", "out", ["A"]), ("gong", "out", ["A"])]
        assert told["done"] and told["changed"] and [each["state"] for each in told["duties"]] == ["out", "out"]
        assert not ask("bell", "gong")["changed"]

    def test_the_first_that_is_not_done_ends_it(self, ask, world):
        world["slow"] = "bell"
        told = ask("bell", "gong")
        assert not told["done"] and [(each["name"], each["done"]) for each in told["acts"]] == [("bell", False)]
        assert [(each["name"], each["state"]) for each in told["duties"]] == [("bell", "out"), ("gong", "in")]

    def test_so_does_one_that_fails(self, ask, world):
        world["stuck"] = "bell"
        told = ask("bell", "gong")
        assert told["acts"][0]["failed"] == "The bell is stuck." and not told["changed"] and not told["done"]
        assert [each["state"] for each in told["duties"]] == ["in", "in"]

    def test_what_cannot_be_seen_is_unknown(self, ask, world):
        world["gong"] = "strange"
        seen = in_order({"look": [{"type": "bell", "name": "gong"}]}, Machine())["duties"][0]
        assert seen["state"] == "unknown" and seen["serves"] is None and seen["problem"] == "The bell cannot be heard."
        assert seen["busy"] == ["gong cannot be looked at: The bell cannot be heard"]

    def test_what_brings_no_traffic_waits_until_there_is_none(self, ask, world):
        world["left at door"] = 3
        told = ask("door", "bell", timeout=10.0)
        assert told["done"] and world["bell"] == "out"
        # Three looks with guests, and then a second without any new one.
        assert ask.clock.slept == [0.5] * 5
        assert world["asked"][:-2] == ["door"] * 6

    def test_and_is_not_begun_when_the_time_is_over(self, ask, world):
        world["left at door"] = 100
        told = ask("door", "bell", timeout=2.0)
        assert not told["done"] and told["acts"][1]["waiting_for"] == ["1 guest"] and world["bell"] == "in" and world["door"] == "out"
        # Without any time either, it takes the moment that it needs to be sure.
        world["left at door"] = 0
        assert ask("door", "bell")["done"] and world["bell"] == "out"

    def test_nothing_is_waited_for_on_the_way_back_and_in_check_mode(self, ask, world):
        world["left at door"] = 100
        assert ask("door", "bell", check_mode=True)["done"]
        assert ask("bell", "door", to="back")["done"] and "door" not in world["asked"][:-4]

    def test_a_call_has_one_time_for_all_acts(self, ask, world):
        ask("bell", "gong", timeout=30.0)
        assert [each[3] for each in world["acts"]] == [30.0, 30.0]
        ask("bell", timeout=5.0, to="back")
        assert world["acts"][-1][3] == 5.0

    def test_the_way_back_of_a_whole_list(self, world, monkeypatch):
        """Each would wait for the check that needs the one after it."""
        later = {}
        monkeypatch.setattr(Bell, "change", lambda self, act, change=Bell.change: later.update({self.name: act.checked_later}) or change(self, act))
        world.update(lamp="out", shutter="out")
        clock = Clock()
        machine = Machine(monotonic=clock.monotonic, sleep=clock.sleep)
        entries = [{"type": "bell", "name": "gong"}, {"type": "shutter"}, {"type": "lamp"}, {"type": "door"}, {"type": "bell"}]
        params = {**dict.fromkeys(duty.argument_spec()), "duties": entries, "state": "back", "timeout": 0.0}
        assert duty.run(params, machine)["done"]
        assert [name for name, *_rest in world["acts"]] == ["bell", "shutter", "lamp", "door", "gong"]
        assert later == {"bell": False, "shutter": False, "lamp": True, "door": True, "gong": False}
        assert duty.run({**params, "duties": entries[2:]}, machine)["done"] and not any(later[name] for name in ("lamp", "door"))
        duty.run({**params, "state": "out", "event_ids": ["A"]}, machine)
        assert [name for name, *_rest in world["acts"]][-5:] == ["gong", "shutter", "lamp", "door", "bell"]

    @pytest.mark.parametrize(
        ("act", "said"),
        [
            ({"to": "in"}, "acts[0].to: 'in' is neither out nor back."),
            ({"event_ids": []}, "event_ids is an empty list. Name at least one event."),
            ({"event_ids": None}, "event_ids is required"),
            ({"event_details": {"A": 3}}, "event_details['A'] is 3; it must be a dictionary."),
            ({"min_in_service": "most"}, "acts[0].min_in_service: 'most' is neither a number of servers"),
            ({"duty": {"type": "bel"}}, "acts[0].duty.type: 'bel' is no type of duty; did you mean bell?"),
            ({"timeout": -1}, "timeout is -1; it must be a number of seconds"),
        ],
    )
    def test_a_mistake_touches_nothing(self, world, act, said):
        right = {"duty": {"type": "bell", "name": "gong"}, "to": "out", "event_ids": ["A"]}
        with pytest.raises(ValueError) as told:
            in_order({"acts": [{**right, **act}, right]}, Machine())
        assert said in str(told.value) and not world["acts"]


class TestTasks:
    @pytest.fixture(name="ask")
    def make_ask(self, tmp_path):
        def ask(entry, to=None, boot="one", **more):
            machine = Machine(state_dir=str(tmp_path / "state"))
            machine.boot_id = lambda: boot
            acts = [{"duty": entry, "to": to, "event_ids": ["A"], **more}] if to else []
            told = in_order({"acts": acts, "look": [entry]}, machine)
            return told["acts"][0] if to else told["duties"][0]

        ask.store = Store(str(tmp_path / "state"))
        ask.records = ask.store.records
        return ask

    def test_from_the_first_run_to_the_last(self, ask):
        entry = {"type": "tasks", "name": "cache", "out": "out.yml", "back": "back.yml"}
        assert ask(entry)["state"] == "in" and ask(entry)["busy"] == ["out.yml has not run"]
        begun = ask(entry, "out", done=False)
        assert begun["changed"] and not begun["done"] and begun["waiting_for"] == ["out.yml has not run to its end"]
        assert (ask(entry)["state"], ask(entry)["held_by"]) == ("changing", ["A"])
        assert ask(entry, "out", done=True)["done"] and not ask(entry, "out", done=True)["changed"]
        assert ask(entry)["state"] == "out" and ask(entry)["busy"] == [] and ask(entry)["serves"] is None
        again = ask(entry, boot="two")
        assert again["state"] == "in" and again["busy"] == ["out.yml did not run since the host was booted anew"]
        assert ask.records()[0]["subject"] == {"name": "drain_host_step_cache"}
        undoing = ask(entry, "back", done=False)
        assert undoing["last"] and not undoing["done"] and undoing["waiting_for"] == ["back.yml has not run to its end"]
        assert ask(entry, "back", done=True)["done"] and not ask.records() and ask(entry)["state"] == "in"

    @pytest.mark.parametrize(
        ("entry", "name"),
        [
            ({"name": "drain_host_before", "out": "a"}, "drain_host_before"),
            ({"name": "cdn", "out": "a", "traffic": True}, "load_balancer_step_cdn"),
            ({"name": "cache", "back": "a"}, "restore_service_step_cache"),
        ],
    )
    def test_how_its_record_is_called(self, ask, entry, name):
        ask({"type": "tasks", **entry}, "out", done=True)
        assert [record["subject"]["name"] for record in ask.records()] == [name]

    def test_what_sends_traffic_is_elsewhere_and_outlives_a_boot(self, ask):
        entry = {"type": "tasks", "name": "front", "out": "out.yml", "traffic": True}
        ask(entry, "out", done=True)
        assert ask(entry, boot="two")["state"] == "out"

    def test_what_an_older_version_recorded_of_it(self, ask):
        entry = {"type": "tasks", "name": "front", "out": "out.yml", "back": "back.yml", "traffic": True}
        ask(entry, "out", done=True)
        (record,) = ask.records()
        os.unlink(record["path"])
        assert ask(entry)["state"] == "in"
        ask.store.write(dict(record, subject={"name": "load_balancer_custom"}))
        assert (ask(entry)["state"], ask(entry)["held_by"]) == ("out", ["A"])


class TestAzure:
    @pytest.fixture(name="azure")
    def make_azure(self, monkeypatch):
        azure = Here()
        monkeypatch.setattr(requests.sessions, "HTTPAdapter", lambda: azure)
        for name, value in azure.environment().items():
            monkeypatch.setenv(name, value)
        return azure

    def ask(self, azure, to=None, name="a", check_mode=False, ports=(), **more):
        entry = {"type": "azure_load_balancer", "pool": POOL, "address": name, "arm_url": azure.url, "login_url": azure.url}
        machine = Machine(check_mode=check_mode, ports=ports, **azure.clock)
        acts = [{"duty": entry, "to": to, "event_ids": ["A"], **more}] if to else []
        told = in_order({"acts": acts, "look": [entry], "timeout": 20.0}, machine)
        return told["acts"][0] if to else told["duties"][0]

    def test_out_and_back(self, azure):
        seen = self.ask(azure)
        assert (seen["state"], seen["serves"], seen["busy"]) == ("in", True, ["a in pool web is in rotation"])
        assert self.ask(azure, "out", check_mode=True)["changed"] and azure.state("a") == "absent"
        assert self.ask(azure, "out")["done"] and azure.state("a") == "Down"
        seen = self.ask(azure)
        assert (seen["state"], seen["serves"], seen["busy"], seen["held_by"], seen["why"]) == ("out", False, [], ["A"], [])
        assert not self.ask(azure, "out")["changed"]
        assert self.ask(azure, "back")["changed"] and azure.state("a") == "absent" and self.ask(azure)["state"] == "in"

    def test_a_look_reads_each_resource_once(self, azure, monkeypatch):
        asked, send = [], azure.send
        monkeypatch.setattr(azure, "send", lambda request, *args, **options: asked.append(request) or send(request, *args, **options))
        self.ask(azure)
        assert sorted(request.path_url.split("?")[0] for request in asked if request.method == "GET") == [LB, POOL]

    def test_an_operators_maintenance_and_somebody_who_acts(self, azure):
        assert self.ask(azure, "out", "c")["done"] and self.ask(azure, name="c")["why"] == ["somebody else has c in pool web in Down"]
        self.ask(azure, "out")
        azure.act("a", "Up")
        told = self.ask(azure, "out")
        assert not told["done"] and told["waiting_for"] == ["a in pool web is in rotation"] and azure.state("a") == "Up"
        assert self.ask(azure)["why"] == ["somebody else set a in pool web to Up while it was held"]

    @pytest.mark.parametrize(
        ("ports", "busy", "doubts"),
        [([22], True, []), ([8080], False, []), ([], False, ["inbound NAT rule"]), ([80], False, ["the rules of pool web send connections to port 8080"])],
    )
    def test_what_the_load_balancer_sends_past_the_pool(self, azure, ports, busy, doubts):
        """In a run such a host never counts as out."""
        self.ask(azure, "out")
        resource = azure.balancer()
        resource["properties"]["inboundNatRules"] = [{"name": "ssh", "properties": {"backendPort": 22, "backendAddressPool": {"id": POOL}}}]
        if ports != [22]:
            rule = {"backendPort": 8080, "protocol": "Tcp", "backendAddressPool": {"id": POOL}, "probe": {"id": LB + "/probes/p"}}
            resource["properties"]["loadBalancingRules"] = [{"name": "web", "properties": rule}]
        azure.control("POST", "load-balancers", resource)
        seen = self.ask(azure, ports=ports)
        nat = "inbound NAT rule ssh of lb sends connections to port 22 of it, whatever the administrative state is"
        assert (seen["state"], seen["busy"]) == ("out", [nat] if busy else [])
        assert len(seen["doubts"]) == len(doubts) and all(map(str.startswith, seen["doubts"], doubts))

    def test_what_is_not_there(self, azure):
        seen = self.ask(azure, name="nobody")
        assert seen["state"] == "unknown" and "has no address named nobody" in seen["problem"]
