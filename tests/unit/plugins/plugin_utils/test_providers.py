# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The seam between the plan and the balancers: what a provider has to tell, and that the plan needs no more."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import TRAFFIC
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.haproxy import has_no_server
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.traffic import TWO_WAYS, TrafficDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import DocumentError, read_document
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.observation import observe
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import CHANGED, FREE, HELD, Count, Group, NextLook, Place, Traffic
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.plan import plan
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.verdicts import Kind, Reason

from tests.support.model import SOCKET, Model

KEY = "lb1 gates"


class Gates(TrafficDuty):
    """A made-up balancer: a park with a gate for each host, and guests."""

    name = "gates"
    title = "the porter"

    def traffic(self, settings, host, machines, addresses):
        look = machines[KEY].result if KEY in machines else {}
        if look.get("gates") is None:
            return Traffic(serves=False, unread=(Reason(Kind.UNREAD, "nobody is at the gates"),))
        gate = look["gates"][host.name]
        held_by = frozenset(event_id.lower() for event_id in gate["notes"])
        group = Group(KEY, "the park", tuple({"server": name, "in_service": g["open"], "backup": False} for name, g in look["gates"].items()))
        place = Place(
            name=f"the gate of {host.name}",
            machine="lb1",
            in_rotation=gate["open"],
            state="open" if gate["open"] else "shut",
            serves=gate["open"],
            busy=("the gate is open",) if gate["open"] else (f"{gate['guests']} guests are inside",) if gate["guests"] else (),
            count=None if gate["open"] else Count("the porter", look["clock"], gate["visits"], gate.get("quiet_for", 0.0)),
            condition=HELD if held_by else FREE,
            held_by=held_by,
            must_go_out=gate["open"],
            group=group,
            member=host.name,
            checked=False,
        )
        return Traffic((place,), serves=place.serves)

    def records(self, settings, machines):
        for record in (machines[KEY].records or ()) if KEY in machines else ():
            if record.subject["gate"] == settings["server"]:
                yield record, machines[KEY]

    def out_since(self, record, entry, is_new):
        return (entry.since,) if record.kind == "gate" else None

    def arrived(self, settings, place, came, begun):
        return f"{came} climbed over {place.name}"

    def looks(self, settings, waits, searched):
        if not settings:
            return []
        names = [name for name, _mine in settings]
        wait_for = [name for name in names if name in waits]
        return [NextLook(KEY, "lb1", "park.gates_info", {"gates": names}, wait_for, max(waits.values(), default=0.0))]


class Park(Model):
    """The model with gates instead of HAProxy."""

    def __init__(self, **settings):
        super().__init__(load_balancer={"provider": "gates"}, drain_host={"ports": []}, **settings)
        self.gates = {name: {"open": True, "guests": 0, "visits": 0, "notes": {}} for name in self.names}
        self.porter_is_there = True

    def world(self):
        holds = [{"kind": "gate", "subject": {"gate": name}, "events": gate["notes"]} for name, gate in self.gates.items() if gate["notes"]]
        look = {"reached": True, "clock": self.now, "time": self._clock("lb1"), "gates": self.gates if self.porter_is_there else None, "holds": holds}
        return dict(super().world(), balancers={KEY: copy.deepcopy(look)})

    def _load_balancer(self, name, step):
        self.gates[name].update(open=False, notes=dict(self._entries(step, "lb1"), **self.gates[name]["notes"]))

    def _give_back(self, name, step):
        notes = {event_id: note for event_id, note in self.gates[name]["notes"].items() if event_id not in step["event_ids"]}
        self.gates[name].update(open=not notes, notes=notes)

    def said(self, name):
        return self.outcome["hosts"][name]["state"], self.outcome["hosts"][name]["reason"]


@pytest.fixture(name="park")
def make_park(monkeypatch):
    monkeypatch.setitem(TRAFFIC, "gates", Gates())
    return Park()


class TestAMadeUpProvider:
    def test_the_whole_life_of_an_event(self, park):
        park.announce("e1", "web1")
        outcome = park.go()
        assert outcome["hosts"]["web1"]["step"]["role"] == "load_balancer"
        assert outcome["warnings"] == [
            "web1: nothing tells whether it serves again after the event: the porter has no health check of the gate of web1, and neither"
            " graceful_azure_health_url nor graceful_azure_health_port is set. It gets requests as soon as the event is over"
        ]
        park.gates["web1"]["guests"] = 3
        park.go()
        assert park.said("web1") == ("draining", "3 guests are inside") and park.posted == []
        park.gates["web1"]["guests"] = 0
        park.until(lambda outcome: park.posted, passes=4)
        park.start("e1")
        park.go()
        assert park.said("web1") == ("started", "stays out until Azure says that the event is over") and not park.gates["web1"]["open"]
        park.over("e1")
        outcome = park.finish()
        assert not outcome["failed_run"], outcome["messages"]
        assert park.gates["web1"]["open"] and outcome["events"][0]["outcome"] == "completed"

    def test_what_still_arrives_keeps_a_host_from_being_drained(self, park):
        park.announce("e1", "web1")
        for visits in range(5):
            park.gates["web1"]["visits"] = visits
            park.go()
        assert park.said("web1") == ("draining", "3 climbed over the gate of web1") and park.posted == []

    def test_the_minimum_in_service_is_counted_in_its_group(self, park):
        park.announce("e1", "web1", "web2")
        outcome = park.go()
        assert [outcome["hosts"][name]["step"] is not None for name in ("web1", "web2")] == [True, False]
        assert park.said("web2") == ("waiting", "1 of 2 in service in the park (web1 goes out), 1 must stay")

    def test_a_run_that_was_killed_is_continued_from_its_records(self, park):
        park.announce("e1", "web1")
        park.until(lambda outcome: park.posted)
        park.killed()
        park.over("e1")
        outcome = park.finish()
        assert not outcome["failed_run"] and park.gates["web1"]["open"]

    def test_where_nobody_can_tell_nothing_is_approved(self, park):
        park.porter_is_there = False
        park.announce("e1", "web1")
        for _pass in range(5):
            park.go()
        assert park.said("web1") == ("waiting", "nobody is at the gates; whether web1 is out is not known yet") and park.posted == []
        for _pass in range(12):
            park.go()
        assert park.said("web1") == ("needs_person", "nobody is at the gates") and park.posted == []

    def test_its_machines_are_looked_at(self, park):
        park.announce("e1", "web1")
        park.go()
        (turn,) = park.machine_turns()
        assert (turn["key"], turn["machine"], turn["module"]) == (KEY, "lb1", "park.gates_info")
        assert (turn["options"]["gates"], turn["options"]["wait_for"]) == (["web1", "web2"], ["web1"]) and turn["options"]["timeout"] > 0.0

    def test_beside_haproxy(self, park):
        """Each host has its own kind; each kind looks at its own machines."""
        park.balancer_of("web2")["provider"] = "haproxy"
        world = park.world()
        world["balancers"][f"lb1 {SOCKET}"] = dict(park.observe_balancer("lb1"), at=0.0)
        outcome = plan(dict(world, **{"pass": 1}))
        assert [turn["key"] for turns in outcome["turns"].values() for turn in turns if "machine" in turn] == [f"lb1 {SOCKET}", KEY]
        assert outcome["hosts"]["web2"]["state"] == "in_service"


def places(model, name="web1", **server):
    """What the provider of a host makes of its look, with these values in its server."""
    seen = model.observe_balancer("lb1")
    seen["servers"][0].update(server)
    model.observe_balancer = lambda lb: copy.deepcopy(seen)
    return observe(read_document(model.world())).hosts[name].places


class TestHaproxy:
    @pytest.mark.parametrize(
        ("server", "wanted"),
        [
            ({}, {"in_rotation": True, "serves": True, "condition": FREE, "must_go_out": True, "busy": ("www/web1 on lb1 is in rotation",)}),
            ({"admin_state": "drain"}, {"in_rotation": False, "condition": FREE, "must_go_out": False, "state": "drain", "busy": ()}),
            ({"admin_state": "maint", "sessions": 1}, {"busy": ("1 session, 0 queued at www/web1 on lb1",)}),
            ({"admin_state": "maint", "queue": 2}, {"busy": ("0 sessions, 2 queued at www/web1 on lb1",)}),
            ({"admin_state": "maint", "uncounted": "who knows"}, {"busy": ("www/web1 on lb1: who knows",)}),
            ({"admin_state": "drain", "condition": "held", "held_by": ["E1"]}, {"condition": HELD, "held_by": {"e1"}, "must_go_out": False}),
            ({"condition": "lost", "held_by": ["E1"]}, {"condition": HELD, "must_go_out": True}),
            ({"admin_state": "drain", "condition": "held", "process_noted": False}, {"must_go_out": True}),
            ({"admin_state": "drain", "condition": "held", "restoring": True}, {"must_go_out": True}),
            # The run that took it out was cut off before it could say so.
            ({"admin_state": "drain", "condition": "held", "noted": False}, {"must_go_out": True}),
            # It goes on to maint when its sessions are over.
            ({"admin_state": "drain", "condition": "held", "noted": False, "awaits_sessions": True, "sessions": 1}, {"must_go_out": False}),
            ({"admin_state": "drain", "condition": "held", "arrived": 1, "awaits_sessions": True, "sessions": 1}, {"must_go_out": False}),
            ({"admin_state": "drain", "condition": "held", "arrived": 1}, {"must_go_out": True}),
            ({"admin_state": "maint", "condition": "held", "arrived": 1}, {"must_go_out": False}),
            ({"admin_state": "maint", "returns_by_itself": True}, {"must_go_out": True, "returns": "serves again when its name resolves"}),
            (
                {"admin_state": "maint", "returns_by_itself": True, "status": "MAINT (via status/web1)"},
                {"must_go_out": True, "returns": "serves again when the server does that it tracks"},
            ),
            (
                {"admin_state": "drain", "condition": "already_out", "returns_by_agent": True},
                {"must_go_out": True, "returns": "serves again when its agent says so"},
            ),
            # Somebody else had taken it out, so only its agent check is ours.
            ({"admin_state": "drain", "condition": "held", "arrived": 1, "found": {"admin_state": "drain"}}, {"must_go_out": False}),
            (
                {"condition": "changed_meanwhile", "left": {"admin_state": "drain"}},
                {"condition": CHANGED, "conflict": f"somebody else set www/web1 on lb1 to ready, and drain was expected: left as it is. {TWO_WAYS}"},
            ),
        ],
    )
    def test_what_a_server_means(self, server, wanted):
        (place,) = places(Model(), **server)
        assert {key: getattr(place, key) for key in wanted} == wanted

    @pytest.mark.parametrize(
        ("backends", "seen", "said"),
        [
            ([], {"known_backends": []}, "no backend has a server 'web1x' (option server)"),
            ([], {"known_backends": ["api", "www"]}, "no backend has a server 'web1x' (option server); there are the backends api, www"),
            (
                [],
                {"known_backends": ["api", "www"], "known_servers": ["api/db", "www/web1", "www/web2"]},
                "no backend has a server 'web1x' (option server); there are api/db, www/web1, www/web2",
            ),
            (
                ["www"],
                {"known_backends": ["api", "www"], "known_servers": ["api/db", "www/web1", "www/web2"]},
                "none of the backends www has a server 'web1x' (option server); there are www/web1, www/web2",
            ),
            (
                ["wwww"],
                {"known_backends": ["api", "www"]},
                "HAProxy has no backend wwww (option backends); there are api, www",
            ),
        ],
    )
    def test_a_backend_that_does_not_exist_is_told_with_those_that_do(self, backends, seen, said):
        assert has_no_server({"server": "web1x", "backends": backends}, "lb1", seen) == f"balancer lb1: {said}"

    def test_each_backend_that_is_named_must_have_the_server(self):
        """Otherwise only the act itself would fail, for want of that one."""
        model = Model(load_balancer={"backends": ["www", "wwv"]})
        model.run["check"] = True
        outcome = model.go()
        told = "balancer lb1: HAProxy has no backend wwv (option backends); there are www"
        assert outcome["failed_run"] and outcome["messages"] == [f"web1, web2: {told}"]
        # What was taken out there before comes back.
        seen = model.observe_balancer("lb1")
        seen["holds"] = [{"kind": "haproxy_server", "subject": {"backend": "wwv", "server": name}, "events": {}} for name in model.names]
        model.observe_balancer = lambda lb: copy.deepcopy(seen)
        assert not model.go()["messages"]

    @pytest.mark.parametrize(("host", "is_mine"), [("web1", True), ("web9", False)])
    def test_what_was_taken_out_for_it_in_a_backend_that_is_no_longer_named_is_its_own(self, host, is_mine):
        """It may lead to another address of the host."""
        model = Model(load_balancer={"backends": ["www"], "host": "web1"})
        seen = model.observe_balancer("lb1")
        seen["servers"].append(dict(seen["servers"][0], backend="api", address="10.1.0.1", admin_state="drain", condition="held", held_by=["e1"]))
        entry = {"since": None, "details": {"host": host, "resources": ["vm_web1"]}}
        seen["holds"] = [{"kind": "haproxy_server", "subject": {"backend": "api", "server": "web1"}, "events": {"e1": entry}}]
        model.observe_balancer = lambda lb: copy.deepcopy(seen)
        model.until(lambda outcome: outcome["finished"] or outcome["hosts"]["web1"]["step"])
        acts = [act for turn in model.outcome["turns"]["web1"] for act in turn.get("acts", ()) if act["module"] == "haproxy_hold"]
        assert [act["args"]["host"] for act in acts] == (["web1"] if is_mine else [])

    def test_hosts_of_one_balancer_share_a_look_that_waits_for_those_that_drain(self):
        common = {"hosts": ["lb1"], "socket": SOCKET}
        settings = [
            ("web1", dict(common, server="web1")),
            ("web2", dict(common, server="web2", absent="no_traffic", hard_stop_after=30.0)),
            # Two hosts behind one name.
            ("web3", dict(common, server="web2", absent="")),
        ]
        (look,) = TRAFFIC["haproxy"].looks(settings, {"web2": 2.0, "web3": 5.0}, lambda name, _key: [name])
        assert (look.key, look.machine, look.module, look.wait_for, look.quiet) == (f"lb1 {SOCKET}", "lb1", "haproxy_info", ["web2"], 5.0)
        assert look.options == {
            "socket": SOCKET,
            "servers": ["web1", "web2"],
            "absent": "no_traffic",
            "addresses": ["web1", "web2", "web3"],
            "hard_stop_after": 30.0,
        }

    @pytest.mark.parametrize(
        ("result", "told"),
        [
            ({"reached": True, "level": "admin", "servers": [1]}, {"servers": [1]}),
            # Before version 2.0, HAProxy does not say what a socket allows.
            ({"reached": True, "level": None, "servers": [1]}, {"servers": [1]}),
            ({"reached": False, "absent": True}, {"error": "no HAProxy runs there"}),
            (
                {"reached": True, "level": "operator", "servers": [1]},
                {"servers": None, "fatal": "HAProxy socket /s allows only the level operator; admin is needed"},
            ),
            ({"reached": True, "level": "admin", "servers": [1], "state_dir_problem": "no folder"}, {"servers": None, "fatal": "no folder"}),
        ],
    )
    def test_what_a_look_means(self, result, told):
        read = TRAFFIC["haproxy"].read(result, {"socket": "/s"})
        assert {key: read.get(key) for key in ("fatal", "error", "servers") if key in read or key in told} == told

    def test_one_that_stays_in_drain_by_the_settings(self):
        (place,) = places(Model(load_balancer={"state": "drain"}), admin_state="drain", condition="held", arrived=1)
        assert not place.must_go_out

    @pytest.mark.parametrize(("held_by", "lacks"), [([], True), (["E1"], False), (["e1", "E2"], False), (["E2"], True)])
    def test_whoever_wants_it_out_holds_it(self, held_by, lacks):
        (place,) = places(Model(), admin_state="drain", condition="held", held_by=held_by)
        assert place.lacks_out({"e1"}) is lacks


class TestCustom:
    def test_it_is_out_when_its_task_file_is_done(self):
        model = Model(load_balancer={"provider": "custom"})
        (place,) = places(model)
        assert place.in_rotation and place.lacks_out({"e1"}) and place.busy == ("not out of its balancer yet",)
        model.announce("E1", "web1")
        model.go()
        model.number += 1
        model.seen.clear()
        (place,) = places(model)
        assert not place.in_rotation and not place.busy and not place.lacks_out({"e1"}) and place.lacks_out({"e1", "e2"})


def test_none_has_no_places_and_serves():
    host = observe(read_document(Model(load_balancer={"provider": "none"}).world())).hosts["web1"]
    assert host.places == () and host.traffic.serves and not host.in_rotation


def test_an_unknown_provider_is_told_by_name():
    there = "haproxy, nginx, health_probe, azure_load_balancer, custom, none"
    with pytest.raises(DocumentError, match=f"settings of web1: 'paper' is no provider; there is {there}"):
        plan(Model(load_balancer={"provider": "paper"}).world())
