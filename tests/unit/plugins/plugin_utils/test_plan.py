# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan, run pass by pass in a small world of its own."""

from __future__ import annotations

import copy
import re

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._absence import LAG
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import HostObservation
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import REHEARSAL, RULE_OF_REHEARSAL
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.plan import plan
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.turns import PAUSE
from ansible_collections.graceful.azure.plugins.plugin_utils._run.passes import _table
from ansible_collections.graceful.azure.plugins.plugin_utils._text import clock

from tests.support.model import BEFORE, Model, iso, service


def state(outcome, name):
    return outcome["hosts"][name]["state"]


def result(outcome, event_id):
    (found,) = [event for event in outcome["events"] if event["event_id"] == event_id]
    return found


def test_nothing_to_do_ends_at_once():
    model = Model()
    outcome = model.go()
    assert outcome["finished"] and not outcome["failed_run"]
    assert outcome["events"] == [] and model.steps == []


def test_the_whole_life_of_a_reboot():
    model = Model()
    model.announce("e1", "web1")
    model.go()
    assert model.in_rotation("web1") == [] and model.in_rotation("web2") == ["lb1"]
    model.until(lambda outcome: model.posted)
    assert [event_id for _at, event_id, _by in model.posted] == ["e1"]
    model.go()
    model.start("e1")
    for _pass in range(5):
        assert state(model.go(), "web1") == "started"
        assert model.in_rotation("web1") == []
    model.over("e1")
    outcome = model.finish()
    assert not outcome["failed_run"], outcome["messages"]
    assert model.in_rotation("web1") == ["lb1"] and not model.held("web1")
    assert result(outcome, "e1")["outcome"] == "completed"
    assert result(outcome, "e1")["hosts"]["web1"]["state"] == "restored"


def test_out_in_the_first_pass_that_sees_the_event():
    model = Model()
    model.go()
    model.announce("e1", "web2")
    model.go()
    assert model.in_rotation("web2") == []


@pytest.mark.parametrize("condition", ["none", "lost"])
def test_a_server_that_is_out_only_because_its_name_does_not_resolve_is_held(condition):
    model = Model()
    server = {"admin_state": "maint", "returns_by_itself": True, "unresolved": True, "condition": condition, "held_by": [], "in_service": False}
    seen = model.observe_balancer("lb1")
    seen["servers"][0].update(server)
    model.observe_balancer = lambda lb: copy.deepcopy(seen)
    model.announce("e1", "web1")
    model.go()
    outcome = model.go()
    assert outcome["hosts"]["web1"]["step"]["role"] == "load_balancer"
    assert model.posted == []


def test_no_other_step_delays_going_out():
    model = Model(hosts=3)
    model.announce("e1", "web1")
    model.go()
    model.go()
    model.go()
    model.announce("e2", "web2")
    outcome = model.go()
    assert {name: (d["step"] or {}).get("role") for name, d in outcome["hosts"].items()} == {"web1": None, "web2": "load_balancer", "web3": None}
    model.go()
    assert [event_id for _at, event_id, _by in model.posted] == ["e1"]


def test_a_host_in_peace_is_looked_at_in_the_pass_after_another_shows_its_event():
    model = Model(hosts=3)
    model.announce("e1", "web1")
    model.go()
    model.go()
    model.announce("e2", "web2")
    model.go()
    model.go()
    assert model.in_rotation("web2") == []


@pytest.mark.parametrize("killed", [False, True], ids=["same run", "next run"])
def test_an_event_that_only_an_older_document_of_another_host_shows_is_over(killed):
    """web1's service shows it no more, web2 was last read while it stood: what web1's own says counts."""
    model = Model(rules=[{"name": "wait", "action": "prepare", "lead_time": None, "on_drain_timeout": "hold"}])
    model.announce("e1", "web1")
    model.until(lambda outcome: state(outcome, "web1") == "ready")
    if killed:
        model.killed()
        model.go()
    past = model.observe_host("web2")
    model.over("e1")
    model.seen["web2"] = dict(past, at=model.now + 100)
    outcome = model.go()
    assert state(outcome, "web1") == "restoring" and outcome["hosts"]["web1"]["step"]["role"] == "restore_service"
    outcome = model.finish()
    assert not outcome["failed_run"] and result(outcome, "e1")["outcome"] == "cancelled"


def test_a_document_without_the_event_that_is_older_than_one_with_it_ends_nothing():
    model = Model()
    past = model.observe_host("web1")
    model.announce("e1", "web1")
    model.until(lambda outcome: state(outcome, "web1") == "approved")
    model.seen["web1"] = dict(past, at=model.now + 100)
    for _pass in range(3):
        assert state(model.go(), "web1") == "approved"
    assert model.in_rotation("web1") == []


def test_a_silent_host_taken_for_another_of_its_name_is_brought_back_when_its_own_service_knows_better():
    model = Model()
    model.settings["web1"]["resource_name"] = model.hosts["web1"]["azure_name"]
    model.hosts["web1"]["silent"] = True
    model.announce("e1", "web1", shown_to=["web2"])
    model.go()
    assert model.in_rotation("web1") == []
    model.hosts["web1"]["silent"] = False
    model.incarnation = 1
    model.seen["web2"] = dict(model.observe_host("web2"), document_incarnation=50, at=model.now + 100)
    model.until(lambda outcome: model.in_rotation("web1"), passes=8)
    assert model.posted == []


@pytest.mark.parametrize(
    ("forks", "steps", "role", "beside"),
    [
        (3, [], "approve_event", True),
        (2, [], "approve_event", False),  # it could come after the other
        (3, [service()], "drain_host", True),
        (3, [BEFORE], "drain_host", True),
    ],
)
def test_a_host_that_goes_out_leaves_others_their_steps_as_long_as_none_delays_it(forks, steps, role, beside):
    def world(passes):
        model = Model(hosts=3, drain_host={"steps": steps})
        model.run.update(forks=forks)
        model.announce("e1", "web1")
        for _pass in range(passes):
            model.go()
        return model

    passes = next(count for count in range(9) if (world(count).go()["hosts"]["web1"]["step"] or {}).get("role") == role)
    model = world(passes - 1)
    model.announce("e2", "web2", shown_to=["web1"])
    model.go()
    model.events["e2"]["shown_to"] = model.names
    outcome = model.go()
    assert outcome["hosts"]["web2"]["step"]["role"] == "load_balancer"
    assert (outcome["hosts"]["web1"]["step"] or {}).get("role") == (role if beside else None)
    assert model.until(lambda outcome: len(model.posted) == 2)


def test_approved_only_after_two_idle_looks():
    model = Model()
    model.announce("e1", "web1")
    model.go()
    model.servers["lb1"]["web1"]["sessions"] = 1
    for _pass in range(4):
        assert state(model.go(), "web1") == "draining"
    model.servers["lb1"]["web1"]["sessions"] = 0
    model.go()
    assert model.posted == []
    model.servers["lb1"]["web1"]["queue"] = 1
    model.go()
    model.servers["lb1"]["web1"]["queue"] = 0
    model.go()
    assert model.posted == []
    model.go()
    assert len(model.posted) == 1


def test_a_host_that_is_out_already_is_not_said_to_go_out():
    """Its record is written for a second event."""
    model = Model()
    model.announce("e1", "web1")
    model.until(lambda outcome: not model.in_rotation("web1"))
    model.killed()
    model.announce("e2", "web1", event_type="Freeze")
    reasons = [model.go()["hosts"]["web1"]["reason"] for _pass in range(3)]
    assert "out of its balancer, and its record there is being completed" in reasons
    assert not any("taken out" in reason for reason in reasons)


class TestReloadThatKeepsTheState:
    """load-server-state-from-file: the server stays out, in another process."""

    def test_the_new_process_is_noted_once(self):
        model = Model()
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        model.go()
        for process in (2, 3):
            model.servers["lb1"]["web1"]["process"] = process
            steps = len(model.steps)
            for _pass in range(4):
                model.go()
            assert [role for _at, _name, role, _ids in model.steps[steps:]] == ["load_balancer"]
        assert model.servers["lb1"]["web1"]["record"]["process"] == 3

    def test_an_operator_who_puts_it_back_afterwards_is_heard(self):
        model = Model()
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        model.servers["lb1"]["web1"]["process"] = 2
        model.go()
        model.go()
        model.servers["lb1"]["web1"]["admin_state"] = "ready"
        for _pass in range(3):
            outcome = model.go()
        assert model.in_rotation("web1") == ["lb1"] and "somebody else set www/web1 on lb1 to ready" in outcome["hosts"]["web1"]["reason"]


class TestChecksOfHaproxy:
    def restoring(self, **more):
        model = Model(**more)
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        model.start("e1")
        model.servers["lb1"]["web1"]["checks_fail"] = True
        model.over("e1")
        model.until(lambda outcome: "waits in drain" in outcome["hosts"]["web1"]["reason"])
        return model

    def test_a_host_is_not_back_before_they_pass(self):
        model = self.restoring()
        for _pass in range(5):
            outcome = model.go()
            assert state(outcome, "web1") == "restoring" and not outcome["finished"] and model.in_rotation("web1") == []
        del model.servers["lb1"]["web1"]["checks_fail"]
        outcome = model.finish()
        assert not outcome["failed_run"] and state(outcome, "web1") == "restored" and model.in_rotation("web1") == ["lb1"]

    def test_what_never_passes_needs_a_person(self):
        model = self.restoring()
        outcome = model.until(lambda outcome: state(outcome, "web1") == "needs_person")
        reason = outcome["hosts"]["web1"]["reason"]
        assert reason.startswith("not restored within 300 s: www/web1 waits in drain") and reason.endswith("; each run tries again")

    def test_the_same_event_again_meanwhile(self):
        """On its way back it is not out for sure: it goes out again before it is approved."""
        model = self.restoring()
        posted = len(model.posted)
        model.announce("e1", "web1")
        assert model.go()["hosts"]["web1"]["step"]["role"] == "load_balancer" and len(model.posted) == posted
        assert not model.servers["lb1"]["web1"]["record"].get("restoring")

    @pytest.mark.parametrize(("checked", "ask", "warned"), [(False, {}, True), (True, {}, False), (False, {"port": 80}, False)])
    def test_where_nothing_can_tell_whether_it_serves_again(self, checked, ask, warned):
        model = Model(restore_service={"timeout": 300.0, "unanswered": "refuse", "ask": ask})
        model.servers["lb1"]["web1"]["checked"] = checked
        assert model.go()["warnings"] == []
        model.announce("e1", "web1")
        outcome = model.go()
        assert ["HAProxy has no health check of www/web1 on lb1" in warning for warning in outcome["warnings"]] == [True] * warned
        assert not outcome["failed_run"] and model.in_rotation("web1") == []
        assert model.go()["warnings"] == []


def test_what_cannot_be_counted_is_busy_and_says_why():
    model = Model()
    model.announce("e1", "web1")
    model.servers["lb1"]["web1"]["uncounted"] = "process 7 of HAProxy from before a reload may still serve it"
    for _pass in range(5):
        outcome = model.go()
    assert model.posted == []
    assert "www/web1 on lb1: process 7 of HAProxy from before a reload may still serve it" in outcome["hosts"]["web1"]["reason"]
    model.servers["lb1"]["web1"]["uncounted"] = None
    model.until(lambda outcome: model.posted, 3)


def test_a_connection_on_the_host_keeps_it_from_being_approved_but_the_balancers_pool_does_not():
    model = Model()
    model.announce("e1", "web1")
    model.hosts["web1"]["connections"] = [{"port": 80, "peer": "10.0.0.4", "count": 7}, {"port": 80, "peer": "10.0.0.9", "count": 1}]
    for _pass in range(6):
        outcome = model.go()
    assert model.posted == [] and "10.0.0.9" in outcome["hosts"]["web1"]["reason"]
    model.hosts["web1"]["connections"].pop()
    model.until(lambda outcome: model.posted, 3)


class TestPortsThatCannotBeCounted:
    UNHEARD = {"port": 80, "why": "nobody listens on it", "unheard": True}
    HIDDEN = {"port": 80, "why": "it may be forwarded elsewhere", "unheard": False}

    @pytest.mark.parametrize("entry", [UNHEARD, HIDDEN])
    def test_are_never_idle(self, entry):
        model = Model(drain_host={"steps": [service("app")]})
        model.announce("e1", "web1", notice=300)
        model.hosts["web1"]["uncounted"] = [entry]
        outcome = model.go()
        told = f"web1: port 80 cannot be counted: {entry['why']} (graceful_azure_ports). As long as this is so, the host never counts as idle"
        assert outcome["warnings"] == [told]
        for _pass in range(20):
            outcome = model.go()
            assert outcome["warnings"] == []
        assert model.posted == [] and "services" not in model.hosts["web1"]["tasks"]
        assert f"port 80 cannot be counted: {entry['why']}" in outcome["hosts"]["web1"]["reason"]
        # Nor does another run take them for idle, which knows only the records.
        model.killed()
        for _pass in range(20):
            model.go()
        assert model.posted == [] and "services" not in model.hosts["web1"]["tasks"]
        # Somebody corrects it.
        model.hosts["web1"]["uncounted"] = []
        model.until(lambda outcome: model.posted, 5)

    def test_what_is_stopped_before_the_host_is_idle_does_not_prove_that_they_could_be_counted(self):
        """A service that stands before the balancer is stopped first. That nobody listens on a port which somebody misspelt is not its doing."""
        model = Model(drain_host={"steps": [dict(service("worker"), first=True, idle=False)]})
        model.announce("e1", "web1", notice=300)
        model.hosts["web1"]["uncounted"] = [self.UNHEARD]
        for _run in range(2):
            for _pass in range(20):
                model.go()
            assert model.posted == [] and model.hosts["web1"]["tasks"]
            model.killed()

    def test_are_told_before_there_is_an_event(self):
        model = Model()
        model.hosts["web1"]["uncounted"] = [self.UNHEARD]
        assert model.go()["warnings"] and model.outcome["finished"]

    @pytest.mark.parametrize("killed", [False, True])
    @pytest.mark.parametrize("steps", [[], [service("app")], [BEFORE]])
    def test_a_service_that_was_stopped_keeps_nobody_from_being_ready(self, killed, steps):
        """It stops by itself as soon as it is out, or a drain step stops it. Another run knows it from the records."""
        model = Model(drain_host={"steps": steps})
        model.announce("e1", "web1")
        model.go()
        assert not model.in_rotation("web1")
        model.hosts["web1"]["uncounted"] = [self.UNHEARD]
        if killed:
            model.killed()
        model.until(lambda outcome: model.posted, 8)

    def test_what_was_drained_by_a_version_that_did_not_tell_who_listened(self):
        model = Model(drain_host={"steps": [service("app")]})
        model.announce("e1", "web1")
        model.until(lambda outcome: model.hosts["web1"]["tasks"], 8)
        for record in (model.servers["lb1"]["web1"]["record"]["events"], *model.hosts["web1"]["tasks"].values()):
            record["e1"]["details"].pop("heard", None)
        model.killed()
        model.hosts["web1"]["uncounted"] = [self.UNHEARD]
        model.until(lambda outcome: model.posted, 8)

    def test_who_listened_before_the_event_was_known_tells_nothing_for_the_next(self):
        model = Model(watch=True)
        for _pass in range(3):
            model.go()
        model.hosts["web1"]["uncounted"] = [self.UNHEARD]
        for _pass in range(3):
            model.go()
        model.announce("e1", "web1", notice=300)
        for _pass in range(10):
            model.go()
        assert model.posted == []

    def test_a_stopped_listener_does_not_hide_what_is_forwarded(self):
        model = Model()
        model.announce("e1", "web1", notice=300)
        model.go()
        model.hosts["web1"]["uncounted"] = [self.HIDDEN]
        for _pass in range(10):
            model.go()
        assert model.posted == []


@pytest.mark.parametrize("pool", [{"own_ports": {"10.0.0.4": [40001, 40002]}}, {"own_ports": None, "connections": 2}], ids=["ports", "number"])
def test_another_program_on_the_balancers_machine_is_none_of_its_pool(pool):
    """Such as a second HAProxy that nobody has named, or a job."""
    model = Model()
    shown = model.observe_balancer

    def observe_balancer(lb):
        seen = shown(lb)
        for server in seen["servers"]:
            server.update(pool)
        return seen

    model.observe_balancer = observe_balancer
    model.announce("e1", "web1")
    model.hosts["web1"]["connections"] = [{"port": 80, "peer": "10.0.0.4", "count": 3, "peer_ports": [40001, 40002, 40100]}]
    for _pass in range(6):
        outcome = model.go()
    assert model.posted == [] and outcome["hosts"]["web1"]["reason"] == "1 connection from 10.0.0.4 on port 80"
    # The look waits until they are gone.
    look = next(turn["options"] for turn in outcome["turns"]["web1"] if "ignored_peers" in turn.get("options", ()))
    assert (look["ignored_peers"], look["told_apart"]) == ([], ["10.0.0.4"])
    model.hosts["web1"]["connections"] = [{"port": 80, "peer": "10.0.0.4", "count": 1, "peer_ports": [40002]}]
    model.until(lambda outcome: model.posted, 3)


def test_services_are_stopped_after_the_connections_and_before_the_approval():
    model = Model(drain_host={"steps": [service("nginx")]})
    model.announce("e1", "web1")
    model.until(lambda outcome: model.posted)
    assert [role for _at, _name, role, _ids in model.steps] == ["load_balancer", "drain_host", "approve_event"]


def test_a_host_whose_service_is_silent_is_drained_to_the_end_and_approved_through_another():
    model = Model(hosts=3, min_in_service=0, drain_host={"steps": [service("nginx")]})
    model.settings["web1"]["resource_name"] = "vm_web1"
    model.hosts["web1"]["service_silent"] = True
    model.announce("e1", "web1", "web2")
    model.until(lambda outcome: model.posted, 10)
    assert "services" in model.hosts["web1"]["tasks"] and [by for _at, _event_id, by in model.posted] == ["web2"]


def test_what_only_a_silent_service_could_approve_waits_for_it():
    model = Model(drain_host={"steps": [service("nginx")]})
    model.settings["web1"]["resource_name"] = "vm_web1"
    model.hosts["web1"]["service_silent"] = True
    model.announce("e1", "web1")
    for _pass in range(8):
        outcome = model.go()
    assert "services" in model.hosts["web1"]["tasks"] and model.posted == []
    assert state(outcome, "web1") == "ready" and "waits for the metadata service of web1" in outcome["hosts"]["web1"]["reason"]
    model.hosts["web1"]["service_silent"] = False
    model.until(lambda outcome: model.posted, 3)


def test_no_step_is_taken_on_a_host_whose_records_cannot_be_read():
    model = Model(drain_host={"steps": [BEFORE, service("nginx")]})
    model.settings["web1"]["resource_name"] = "vm_web1"
    model.hosts["web1"]["silent"] = True
    model.announce("e1", "web1")
    for _pass in range(8):
        model.go()
    assert [role for _at, _name, role, _ids in model.steps] == ["load_balancer"]


def test_a_cancelled_event_restores():
    model = Model()
    model.announce("e1", "web1")
    model.servers["lb1"]["web1"]["sessions"] = 3
    for _pass in range(3):
        model.go()
    model.over("e1")
    outcome = model.finish()
    assert result(outcome, "e1")["outcome"] == "cancelled"
    assert model.in_rotation("web1") == ["lb1"] and not outcome["failed_run"]


def test_an_event_without_notice_is_drained_for_and_never_approved():
    model = Model()
    model.announce("e1", "web1", status="Started")
    model.go()
    assert model.in_rotation("web1") == []
    for _pass in range(5):
        model.go()
    model.over("e1")
    outcome = model.finish()
    assert model.posted == []
    assert result(outcome, "e1")["outcome"] == "not_approved"
    assert _table(outcome)[0] == "Reboot e1 (vm_web1): not_approved (it had started when this run first saw it, and no record tells of an approval)"
    assert model.in_rotation("web1") == ["lb1"]


def test_one_event_for_two_hosts_waits_for_the_slower():
    model = Model(hosts=4)
    model.announce("e1", "web1", "web2")
    model.servers["lb1"]["web2"]["sessions"] = 1
    for _pass in range(8):
        outcome = model.go()
    assert model.posted == [] and state(outcome, "web1") == "ready"
    assert "web2" in outcome["hosts"]["web1"]["reason"]
    model.servers["lb1"]["web2"]["sessions"] = 0
    model.until(lambda outcome: model.posted, 4)
    assert len(model.posted) == 1


def test_an_event_that_names_a_stranger_is_prepared_and_never_approved():
    model = Model()
    model.announce("e1", "web1", "vm_elsewhere")
    for _pass in range(8):
        outcome = model.go()
    assert model.posted == [] and model.in_rotation("web1") == []
    assert "vm_elsewhere" in outcome["hosts"]["web1"]["reason"]
    model.start("e1")
    model.go()
    model.over("e1")
    outcome = model.finish()
    assert not outcome["failed_run"] and result(outcome, "e1")["outcome"] == "not_approved"
    assert _table(outcome)[0].endswith(": not_approved (not approved by us: vm_elsewhere is none of the targets)")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda model: model.servers["lb1"]["web2"].update(sessions=2), "web2: not drained since TIME: 2 sessions, 0 queued at www/web2 on lb1"),
        (lambda model: model.refuse.update({("web1", "approve_event"): "HTTP 503", ("web2", "approve_event"): "HTTP 503"}), "HTTP 503"),
        (lambda model: model.refuse.update({("web1", "load_balancer"): "no rights"}), "web1: no rights; each pass tries again"),
    ],
)
def test_the_end_says_why_an_event_was_not_approved(change, why):
    model = Model(hosts=4)
    model.announce("e1", "web1", "web2")
    change(model)
    for _pass in range(40):
        model.go()
    model.start("e1")
    model.go()
    model.over("e1")
    model.refuse.clear()
    outcome = model.finish()
    said = re.sub(r"\d\d:\d\d:\d\d \w+", "TIME", _table(outcome)[0])
    assert model.posted == [] and said == f"Reboot e1 (vm_web1, vm_web2): not_approved ({why})"


def test_a_stranger_may_be_ignored():
    model = Model(unknown_resources="ignore")
    model.announce("e1", "web1", "vm_elsewhere")
    model.until(lambda outcome: model.posted, 6)


def test_an_event_that_names_no_target_is_left_alone():
    model = Model()
    model.announce("e1", "vm_elsewhere")
    outcome = model.go()
    assert outcome["finished"] and outcome["events"] == [] and model.steps == []


def test_the_same_name_in_two_sets_is_told_apart_by_the_event_id():
    model = Model(hosts=3)
    for name in ("web1", "web2"):
        model.hosts[name]["azure_name"] = "set_0"
    model.announce("e1", "web1", shown_to=["web1", "web3"])
    model.go()
    assert model.in_rotation("web1") == [] and model.in_rotation("web2") == ["lb1"]


def test_a_silent_host_is_taken_out_by_what_its_neighbour_sees_and_not_approved():
    model = Model()
    model.settings["web1"]["resource_name"] = "VM_WEB1"
    model.hosts["web1"]["silent"] = True
    model.announce("e1", "web1")
    for _pass in range(6):
        model.go()
    assert model.in_rotation("web1") == [] and model.posted == []


def test_a_failed_read_restores_nothing():
    model = Model()
    model.announce("e1", "web1")
    model.until(lambda outcome: model.posted)
    model.start("e1")
    model.go()
    model.over("e1")
    for name in model.names:
        model.hosts[name]["service_silent"] = True
    for _pass in range(10):
        outcome = model.go()
        assert model.in_rotation("web1") == [] and not outcome["finished"]
    for name in model.names:
        model.hosts[name]["service_silent"] = False
    assert not model.finish()["failed_run"]
    assert model.in_rotation("web1") == ["lb1"]


def test_restored_only_when_no_event_names_the_host():
    model = Model()
    model.announce("e1", "web1")
    model.until(lambda outcome: model.posted)
    model.announce("e2", "web1", event_type="Freeze")
    model.go()
    model.start("e1")
    model.go()
    model.over("e1")
    for _pass in range(3):
        model.go()
        assert model.in_rotation("web1") == []
    model.until(lambda outcome: len(model.posted) == 2, 10)
    model.start("e2")
    model.go()
    model.over("e2")
    outcome = model.finish()
    assert model.in_rotation("web1") == ["lb1"] and len(outcome["events"]) == 2


@pytest.mark.parametrize("moment", range(1, 14))
def test_killed_at_any_pass_and_run_again(moment):
    model = Model(drain_host={"steps": [service("nginx")]})
    model.announce("e1", "web1")

    def world(number):
        if number == 7:
            model.start("e1")
        if number == 10:
            model.over("e1")

    for number in range(1, 60):
        world(number)
        if number == moment:
            model.killed()
        outcome = model.go()
        if outcome["finished"] and number > 13:
            break
    assert model.in_rotation("web1") == ["lb1"] and not model.held("web1")
    assert not outcome["failed_run"], outcome["messages"]


def test_an_operators_maintenance_stays():
    model = Model(hosts=3)
    model.servers["lb1"]["web1"]["admin_state"] = "maint"
    model.announce("e1", "web1")
    model.until(lambda outcome: model.posted, 6)
    model.start("e1")
    model.go()
    model.over("e1")
    outcome = model.finish()
    assert model.servers["lb1"]["web1"]["admin_state"] == "maint"
    assert result(outcome, "e1")["hosts"]["web1"]["state"] == "in_service" and not outcome["failed_run"]


def test_put_back_by_somebody_else_is_reported_and_neither_touched_nor_approved():
    model = Model()
    model.announce("e1", "web1")
    model.go()
    model.servers["lb1"]["web1"]["admin_state"] = "ready"
    for _pass in range(6):
        outcome = model.go()
    assert state(outcome, "web1") == "needs_person" and outcome["failed_run"]
    assert model.posted == [] and model.in_rotation("web1") == ["lb1"]


def test_a_reloaded_balancer_is_put_right():
    model = Model()
    model.announce("e1", "web1")
    model.go()
    model.servers["lb1"]["web1"].update(admin_state="ready", process=2)
    model.go()
    assert model.in_rotation("web1") == []


def test_what_a_killed_rehearsal_left_is_told_as_rehearsed():
    """Azure has cancelled nothing, and no event of Azure is over."""
    model = Model(rules=[{"name": RULE_OF_REHEARSAL}])
    model.announce("e1", "web1", description=REHEARSAL)
    assert model.until(lambda _outcome: model.held("web1"))["hosts"]["web1"]["event"] == "rehearsed Reboot e1"
    model.killed()
    model.over("e1")
    for settings in model.settings.values():
        settings["rules"] = []
    outcome = model.finish()
    assert result(outcome, "e1")["outcome"] == "cancelled" and _table(outcome)[0] == "rehearsed Reboot e1 (vm_web1): over"


@pytest.mark.parametrize(("rehearsed", "said"), [(True, "not over after 10 s"), (False, "not over when handle_events_timeout (10 s) ran out")])
def test_no_option_is_named_that_a_rehearsal_does_not_read(rehearsed, said):
    model = Model(timeout=10.0)
    model.run["rehearsed"] = rehearsed
    model.announce("e1", "web1", description=REHEARSAL)
    model.servers["lb1"]["web1"]["sessions"] = 1
    outcome = model.finish()
    assert any(f"rehearsed Reboot e1: {said}" in message for message in outcome["messages"]), outcome["messages"]


def test_nobody_says_of_a_rehearsed_event_that_azure_starts_it():
    model = Model()
    model.announce("e1", "web1", description=REHEARSAL)
    told = []

    def note(outcome):
        told.append(outcome["hosts"]["web1"])
        return model.posted

    model.until(note)
    told.append(model.go()["hosts"]["web1"])
    assert [(said["state"], said["reason"], said["until"]) for said in told[-2:]] == [
        ("ready", "is being approved", None),
        ("approved", "waits until the simulator starts it", None),
    ]
    assert any(said["state"] == "draining" and said["until"] for said in told), "the time to drain counts as for any event"
    model.start("e1")
    assert model.go()["hosts"]["web1"]["reason"] == "stays out until the simulator says that the event is over"


def test_a_not_before_that_stays_the_same_is_told_as_the_same_moment():
    """The service tells the time in whole seconds, so how long it still is until NotBefore is never exact."""
    model = Model(hosts=3)
    model.announce("e1", "web1", "elsewhere")
    model.go()
    told = []
    for shift in (0.9, -0.5, 0.5, -0.9):
        model.events["e1"]["not_before_at"] += shift
        told.append(model.until(lambda outcome: state(outcome, "web1") == "ready" or told)["hosts"]["web1"]["until"])
    assert len(set(told)) == 1 and told[0] is not None


def test_one_of_two_balancers_cannot_be_reached():
    model = Model(hosts=3, balancers=("lb1", "lb2"))
    model.down_balancers["lb2"] = {"reached": False, "error": "no route"}
    model.balancer_of("web3")["hosts"] = ["lb1"]
    model.announce("e1", "web1")
    model.announce("e3", "web3")
    for _pass in range(8):
        outcome = model.go()
    assert model.servers["lb1"]["web1"]["admin_state"] == "drain"
    assert state(outcome, "web1") == "draining", "the next look may tell"
    for _pass in range(8):
        outcome = model.go()
    assert state(outcome, "web1") == "needs_person" and outcome["failed_run"]
    assert outcome["hosts"]["web1"]["until_is"] == "Azure may start it from"
    assert [event_id for _at, event_id, _by in model.posted] == ["e3"]
    model.down_balancers.clear()
    model.until(lambda outcome: len(model.posted) == 2, 8)
    assert model.in_rotation("web1") == []


def test_a_balancer_that_is_restarted_does_not_end_the_run():
    model = Model()
    model.announce("e1", "web1")
    model.until(lambda outcome: model.posted)
    model.start("e1")
    model.go()
    model.down_balancers["lb1"] = {"reached": False, "fatal": "no socket", "error": "no socket"}
    for _pass in range(10):
        assert not model.go()["finished"]
    model.down_balancers.clear()
    model.over("e1")
    assert not model.finish()["failed_run"]
    assert model.in_rotation("web1") == ["lb1"]


def test_a_mistake_on_one_host_touches_nothing_there_and_the_others_go_on():
    model = Model(hosts=3)
    model.hosts["web1"]["fatal"] = "/var/lib/graceful_azure/x.json: cut in half"
    model.settings["web1"]["resource_name"] = "vm_web1"
    model.announce("e1", "web1")
    model.announce("e2", "web2")
    model.until(lambda outcome: model.posted, 8)
    assert model.in_rotation("web1") == ["lb1"]
    assert {name for _at, name, _role, _ids in model.steps} == {"web2"}
    model.start("e2")
    model.go()
    model.over("e2")
    outcome = model.finish()
    assert outcome["failed_run"] and any("cut in half" in message for message in outcome["messages"])
    assert model.in_rotation("web2") == ["lb1"]


def test_an_approval_that_fails_is_tried_again():
    model = Model()
    model.announce("e1", "web1")
    model.refuse["web1", "approve_event"] = "503"
    for _pass in range(8):
        outcome = model.go()
    assert "503" in outcome["hosts"]["web1"]["reason"]
    model.refuse.clear()
    model.until(lambda outcome: model.posted, 3)


@pytest.mark.parametrize("wait", [True, False], ids=["waits", "one step"])
def test_an_approval_that_always_fails_keeps_no_other_event_from_its_own(wait):
    model = Model()
    approve = model._approve_event

    def refuse(name, step):
        if step["event_ids"] == ["e1"]:
            model.results[name]["failure"] = {"pass": model.number, "message": "status 400"}
        else:
            approve(name, step)

    model._approve_event = refuse
    for event_id in ("e1", "e2"):
        model.announce(event_id, "web1")
    for _run in range(1 if wait else 4):
        model.killed()
        model.run.update(wait=wait, look_twice=not wait)
        for _pass in range(12 if wait else 4):
            if model.go()["finished"] and not model.outcome["once_more"]:
                break
    assert {event_id for _at, event_id, _by in model.posted} == {"e2"}


@pytest.mark.parametrize("skew", [0, 3600, -3600])
def test_readiness_holds_for_a_short_while_by_the_clock_of_the_host_that_approves(skew):
    model = Model(hosts=3)
    model.skew = {"web1": skew}
    model.announce("e1", "web1")
    model.until(lambda _outcome: model.posted)
    (at, _event_id, _name) = model.posted[0]
    # 15 s, and 1 s for each target; seconds of its clock are whole.
    assert model.outcome["hosts"]["web1"]["step"]["ready_until"] == pytest.approx(at + skew + 18, abs=1.01)


def test_a_clock_that_is_not_known_bounds_nothing():
    seen = {"time": "1970-01-01T00:01:00Z", "at": 98.0, "age": 0.5}
    clocks = [Host("web1", None, HostObservation(**dict(seen, **more)), None, None).clock(100.0) for more in ({}, {"time": None}, {"at": None}, {"age": 0.0})]
    assert clocks == [61.5, None, None, 62.0]


def test_where_an_approval_fails_another_member_tries():
    model = Model(hosts=3, min_in_service=0)
    model.refuse["web1", "approve_event"] = "no answer"
    model.announce("e1", "web1", "web2")
    model.until(lambda outcome: model.posted, 10)
    assert [by for _at, _event_id, by in model.posted] == ["web2"]


def test_a_silent_member_is_not_restored_before_its_own_records_were_read():
    model = Model(hosts=3, min_in_service=0, load_balancer={"provider": "none"}, drain_host={"steps": [service("web.service")]})
    model.announce("e1", "web1", "web2")
    model.until(lambda outcome: model.posted)
    model.start("e1")
    model.go()
    model.hosts["web2"]["silent"] = True
    model.over("e1")
    for _pass in range(20):
        outcome = model.go()
        assert not outcome["finished"] and state(outcome, "web2") == "unobserved"
    assert state(outcome, "web1") == "restored"
    model.hosts["web2"]["silent"] = False
    outcome = model.finish()
    assert not outcome["failed_run"] and not model.held("web2") and state(outcome, "web2") == "restored"
    model.hosts["web2"]["silent"] = True
    assert state(model.go(), "web2") == "restored"


def test_what_somebody_else_did_is_told_at_the_end():
    model = Model()
    model.announce("e1", "web1")
    model.until(lambda outcome: model.posted)
    model.over("e1")
    model.now += 2
    model.go()
    model.results["web1"]["restore_service"].update(conflicts=["shop.service is active again: somebody else started it"])
    outcome = model.finish()
    assert result(outcome, "e1")["hosts"]["web1"] == {"state": "restored", "reason": "shop.service is active again: somebody else started it"}
    assert not outcome["failed_run"]


def test_a_server_that_somebody_else_keeps_out_needs_a_person_at_the_end():
    model = Model()
    model.announce("e1", "web1")
    model.until(lambda outcome: model.posted)
    model.over("e1")
    model.until(lambda _outcome: not model.held("web1"))
    model.servers["lb1"]["web1"]["admin_state"] = "maint"
    said = "www/web1 was left in drain and is in maint now (MAINT): somebody else changed it, so it was not touched"
    model.results["web1"]["restore_service"].update(conflicts=[f"{said}."])
    outcome = model.finish()
    told = f"{said}; still out: www/web1 on lb1 is in maint. Put it back when the host should serve"
    assert result(outcome, "e1")["hosts"]["web1"] == {"state": "needs_person", "reason": told} and outcome["failed_run"]


def test_rules_are_asked_of_the_newest_document_and_for_the_hosts_that_are_named():
    rules = [{"name": "mine", "when": "affects_host && event_status == 'Started'", "action": "ignore"}]
    model = Model(hosts=3, rules=rules)
    model.announce("e1", "web1")
    old = model.observe_host("web2")
    model.start("e1")
    model.now += 1
    model.seen["web2"] = old
    assert plan(model.world())["hosts"]["web1"]["reason"] == "rule 'mine': left alone"


def test_a_watch_goes_on_beside_the_hold_for_a_vm_that_was_deleted():
    model = Model(watch=True)
    model.announce("e1", "web1", event_type="Terminate")
    model.until(lambda outcome: model.posted)
    model.start("e1")
    model.go()
    model.hosts["web1"]["silent"] = True
    model.over("e1")
    model.finish()
    model.killed()
    model.number = 0
    for _pass in range(60):
        assert not model.go()["finished"]
    model.hosts["web1"]["silent"] = False
    assert not model.finish()["failed_run"]
    assert model.in_rotation("web1") == ["lb1"]


def test_a_vm_that_was_deleted_without_notice_is_gone_for_every_later_run():
    model = Model()
    model.announce("e1", "web1", event_type="Preempt", status="Started")
    model.go()
    model.hosts["web1"]["silent"] = True
    model.over("e1")
    for _run in range(2):
        outcome = model.finish()
        assert not outcome["failed_run"], outcome["messages"]
        assert result(outcome, "e1")["hosts"]["web1"]["state"] == "unobserved" and model.held("web1")
        model.killed()
    # Nor does it hold up what else there is.
    model.announce("e2", "web2")
    model.until(lambda outcome: model.posted)
    model.over("e2")
    began = model.now
    model.finish()
    assert model.now - began < 60


@pytest.mark.parametrize("killed", [False, True])
def test_what_another_event_left_held_on_a_vm_that_was_deleted(killed):
    """Nobody can be asked whether the other one is over, and nobody is expected back."""
    model = Model()
    model.announce("e1", "web1")
    model.announce("e2", "web1", event_type="Preempt", notice=60)
    for _pass in range(3):
        model.go()
    model.over("e1")
    model.go()
    model.now += 60
    model.start("e2")
    model.go()
    model.hosts["web1"]["silent"] = True
    model.over("e2")
    if killed:
        model.killed()
    began = model.now
    outcome = model.finish()
    assert not outcome["failed_run"] and model.now - began < 60, outcome["messages"]
    assert result(outcome, "e1")["hosts"]["web1"]["state"] == "unobserved" and model.held("web1")
    model.killed()
    model.run = dict(model.run, watch=True)
    for _pass in range(60):
        assert not model.go()["finished"]
    model.hosts["web1"]["silent"] = False
    assert not model.finish()["failed_run"]
    assert model.in_rotation("web1") == ["lb1"] and not model.held("web1")


def test_a_vm_of_whose_deletion_no_record_tells_is_waited_for_until_the_time_out():
    """Nothing is recorded on a VM with a damaged record, and the run that saw the deleting event is dead."""
    model = Model()
    model.announce("e1", "web1")
    model.until(lambda outcome: model.held("web1"))
    model.over("e1")
    model.hosts["web1"]["fatal"] = "a record: cut in half"
    model.announce("e2", "web1", event_type="Preempt", notice=20)
    for _pass in range(3):
        model.go()
    model.hosts["web1"].update(silent=True, fatal=None)
    model.over("e2")
    model.killed()
    model.number = 0
    for _pass in range(30):
        outcome = model.go()
        assert not outcome["finished"] and outcome["hosts"]["web1"]["state"] == "unobserved"
    model.now = model.run["started"] + model.run["timeout"]
    outcome = model.go()
    assert outcome["finished"] and outcome["failed_run"]
    assert len(outcome["messages"]) == 1 and "web1: unobserved" in outcome["messages"][0], outcome["messages"]
    assert model.held("web1") and not model.in_rotation("web1") and not model.posted


def test_what_a_hold_tells_is_read_by_the_clock_of_its_machine():
    model = Model(rules=[{"name": "by hand", "action": "prepare"}])
    model.skew = {"lb1": 3600.0, "web1": 3600.0}
    model.announce("e1", "web1", notice=60)
    model.go()
    model.servers["lb1"]["web1"]["record"]["events"]["e1"]["details"]["not_before"] = iso(model.now + 3600 + 58)
    model.killed()
    model.now += 120
    model.over("e1")
    assert result(model.finish(), "e1")["outcome"] == "completed"


@pytest.mark.parametrize(("action", "outcome"), [("prepare_and_approve", "not_approved"), ("prepare", "completed"), (None, "completed"), ({}, "completed")])
def test_what_the_rule_asked_is_known_from_the_hold(action, outcome):
    model = Model()
    details = {"event_type": "Reboot", "resources": ["vm_web1"], "not_before": None, "action": action}
    model.servers["lb1"]["web1"].update(admin_state="drain", record={"left": "drain", "process": 1, "events": {"e0": {"since": "x", "details": details}}})
    assert result(model.finish(), "e0")["outcome"] == outcome


def test_the_next_run_knows_that_nothing_was_approved():
    model = Model()
    model.announce("e1", "web1", notice=60)
    model.servers["lb1"]["web1"]["sessions"] = 1
    model.go()
    model.now += 60
    model.start("e1")
    model.go()
    model.killed()
    model.over("e1")
    model.servers["lb1"]["web1"]["sessions"] = 0
    assert result(model.finish(), "e1")["outcome"] == "not_approved"
    assert model.posted == []


@pytest.mark.parametrize(("seconds", "skew", "outcome"), [(30, 0, "completed"), (70, 0, "not_approved"), (30, 3600, "completed"), (70, -3600, "not_approved")])
def test_a_run_that_was_killed_while_it_approved(seconds, skew, outcome):
    """The event started before its NotBefore only if the approval was sent, whatever the clock of the VM says."""
    model = Model()
    model.skew = {"web1": skew}
    model.announce("e1", "web1", notice=60)
    model.until(lambda _outcome: model.in_rotation("web1") == [])
    details = {"event_type": "Reboot", "resources": ["vm_web1"], "not_before": iso(model.run["started"] + 60 + skew), "action": "prepare_and_approve"}
    model.hosts["web1"]["tasks"]["approved"] = {"e1": {"since": "x", "details": dict(details, posted=False)}}
    model.killed()
    model.now = model.events["e1"]["not_before_at"] - 60 + seconds
    model.start("e1")
    model.go()
    model.over("e1")
    assert result(model.finish(), "e1")["outcome"] == outcome
    assert model.posted == []


def test_what_was_being_approved_and_still_waits_is_approved_again():
    model = Model()
    model.announce("e1", "web1")
    model.until(lambda _outcome: model.posted)
    model.hosts["web1"]["tasks"]["approved"]["e1"]["details"]["posted"] = False
    model.killed()
    model.posted = []
    model.until(lambda _outcome: model.posted)


@pytest.mark.parametrize("killed", [False, True], ids=["same run", "next run"])
def test_an_approval_is_known_until_the_last_host_of_its_event_is_back(killed):
    """The host that sent the approval is back while the other one still boots."""
    model = Model()
    model.announce("e1", "web1", "web2")
    model.until(lambda _outcome: model.posted)
    (sender,) = {by for _at, _event_id, by in model.posted}
    other = "web2" if sender == "web1" else "web1"
    model.start("e1")
    model.go()
    model.hosts[other]["silent"] = True
    model.go()
    model.over("e1")
    model.until(lambda _outcome: model.in_rotation(sender))
    # It counts as given back, and stays so.
    assert [state(model.go(), sender) for _pass in range(4)] == ["restored"] * 4
    assert model.hosts[sender]["tasks"]["approved"] and not model.outcome["finished"]
    if killed:
        model.killed()
    model.hosts[other]["silent"] = False
    outcome = model.finish()
    assert result(outcome, "e1")["outcome"] == "completed"
    assert all(model.in_rotation(name) and not model.held(name) and not model.hosts[name]["tasks"].get("approved") for name in ("web1", "web2"))


def test_an_operators_host_of_which_only_the_approval_is_recorded_was_not_taken_out():
    model = Model(hosts=3)
    model.servers["lb1"]["web1"]["admin_state"] = "maint"
    model.announce("e1", "web1")
    model.until(lambda _outcome: model.posted)
    model.start("e1")
    model.over("e1")
    model.killed()
    (told,) = model.finish()["events"]
    assert (told["outcome"], told["hosts"]["web1"]["state"]) == ("completed", "in_service")


@pytest.mark.parametrize("passes", range(1, 8))
def test_no_approval_is_left_on_a_host_that_rests_while_another_is_brought_back(passes):
    model = Model(hosts=5)
    model.announce("e1", "web1", "web2", "web3")
    model.until(lambda _outcome: model.posted)
    ((_at, _event_id, sender),) = model.posted
    other = "web3" if sender != "web3" else "web2"
    model.start("e1")
    model.go()
    model.over("e1")
    model.servers["lb1"][other]["checks_fail"] = True
    model.until(lambda _outcome: model.in_rotation(sender))
    for _pass in range(passes):
        model.go()
    model.servers["lb1"][other]["checks_fail"] = False
    assert result(model.finish(), "e1")["outcome"] == "completed"
    assert not any(model.held(name) or model.hosts[name]["tasks"].get("approved") for name in model.hosts)


def test_runs_of_one_step_tell_that_an_event_of_two_hosts_was_completed():
    model = Model(hosts=4, wait=False)
    model.run = dict(model.run, look_twice=True)
    model.announce("e1", "web1", "web2")
    told = []
    for number in range(6):
        while not model.go()["finished"]:
            pass
        told += [(event["outcome"], {name: said["state"] for name, said in event["hosts"].items()}) for event in model.outcome["events"]]
        if number == 1:
            assert model.posted
            model.start("e1")
            model.over("e1")
        model.killed()
        model.now += 60
    assert told[-1] == ("completed", {"web1": "restored", "web2": "restored"}) and [outcome for outcome, _hosts in told].count("completed") == 1


def test_all_whom_an_event_named_are_told_when_only_a_hold_knows_it():
    """Also an operator's own, of which nothing is held; but nobody whose name several bear."""
    model = Model(hosts=4)
    model.servers["lb1"]["web2"]["admin_state"] = "maint"
    model.announce("e1", "web1", "web2", "elsewhere")
    model.until(lambda _outcome: model.in_rotation("web1") == [])
    model.over("e1")
    model.killed()
    model.hosts["web4"]["azure_name"] = "VM_web3"
    assert {name: said["state"] for name, said in result(model.finish(), "e1")["hosts"].items()} == {"web1": "restored", "web2": "in_service"}
    assert model.servers["lb1"]["web2"]["admin_state"] == "maint"


class TestStrangersIgnored:
    """What may turn out a target is no stranger yet."""

    @staticmethod
    def model(**more):
        model = Model(hosts=3, min_in_service=0, unknown_resources="ignore", **more)
        model.balancer_of("web1")["provider"] = "none"
        return model

    @staticmethod
    def both_are_ready(model, passes=20):
        model.until(lambda outcome: model.posted, passes)
        assert model.in_rotation("web2") == []

    @pytest.mark.parametrize("age", [0.1, 3.0], ids=["a moment older", "rested"])
    @pytest.mark.parametrize("provider", ["none", "haproxy"])
    def test_a_target_that_was_last_read_before_the_event_appeared(self, provider, age):
        model = self.model()
        model.balancer_of("web1")["provider"] = provider
        model.servers["lb1"]["web1"]["admin_state"] = "maint"
        for _pass in range(3):
            model.go()
        model.seen["web2"] = dict(model.observe_host("web2"), at=model.now - age)
        model.rests("web2")
        model.announce("e1", "web1", "web2")
        outcome = model.go()
        assert model.posted == [] and state(outcome, "web1") == "ready" and "web2" in outcome["hosts"]["web1"]["reason"]
        self.both_are_ready(model)

    @pytest.mark.parametrize("fault", [{"fatal": "x.json: cut in half"}, {"silent": True}, {"service_silent": True}], ids=lambda fault: next(iter(fault)))
    def test_a_target_whose_name_is_not_known(self, fault):
        model = self.model()
        model.hosts["web2"].update(fault)
        model.announce("e1", "web1", "web2")
        for _pass in range(40):
            outcome = model.go()
        assert model.posted == [] and "waits for web2" in outcome["hosts"]["web1"]["reason"]
        model.hosts["web2"].update(fatal=None, silent=False, service_silent=False)
        self.both_are_ready(model)

    def test_a_target_whose_own_document_lags_behind(self):
        model = self.model()
        model.announce("e1", "web1", "web2", shown_to=["web1"])
        for _pass in range(4):
            outcome = model.go()
            assert model.posted == []
        assert "web2" in outcome["hosts"]["web1"]["reason"]
        model.events["e1"]["shown_to"] = model.names
        self.both_are_ready(model)

    def test_a_target_whose_own_document_lags_behind_when_it_answers_for_the_first_time(self):
        """Nobody knew its name in Azure before."""
        model = self.model()
        model.hosts["web2"]["silent"] = True
        model.announce("e1", "web1", "web2", shown_to=["web1"])
        for _pass in range(10):
            model.go()
        model.hosts["web2"]["silent"] = False
        for _pass in range(4):
            outcome = model.go()
            assert model.posted == [] and "waits for a later look at web2" in outcome["hosts"]["web1"]["reason"]
        model.events["e1"]["shown_to"] = model.names
        self.both_are_ready(model)

    def test_a_target_that_is_silent_and_may_be_another_of_its_name(self):
        model = self.model()
        for name in ("web2", "web3"):
            model.hosts[name]["azure_name"] = model.settings[name]["resource_name"] = "set_0"
        model.hosts["web2"]["silent"] = True
        model.announce("e1", "web1", "web2", shown_to=["web1", "web2"])
        for _pass in range(20):
            outcome = model.go()
        assert model.posted == [] and "waits for a later look at web2" in outcome["hosts"]["web1"]["reason"]
        model.hosts["web2"]["silent"] = False
        self.both_are_ready(model)
        assert model.in_rotation("web3") == ["lb1"]

    def test_a_silent_target_that_alone_bears_the_name_is_a_member(self):
        model = self.model()
        model.settings["web2"]["resource_name"] = "VM_web2"
        model.hosts["web2"]["silent"] = True
        model.announce("e1", "web1", "web2")
        for _pass in range(20):
            model.go()
        assert model.posted == [] and model.in_rotation("web2") == []

    def test_an_outsider_is_not_waited_for(self):
        model = self.model()
        model.announce("e1", "web1", "elsewhere")
        model.until(lambda outcome: model.posted, 2)

    @pytest.mark.parametrize("comes", [True, False])
    def test_a_service_that_lags_behind_is_asked_for_some_seconds(self, comes):
        """Its neighbours show an event that bears the name of web2, and nobody else is named."""
        model = self.model()
        model.announce("e1", "web2", shown_to=["web1"])
        outcome = model.go()
        assert not outcome["finished"] and "web1 was told of Reboot e1, which names a VM called web2" in outcome["hosts"]["web2"]["reason"]
        if comes:
            model.events["e1"]["shown_to"] = ["web1", "web2"]
            model.until(lambda outcome: model.posted, 15)
        else:
            outcome = model.finish(passes=20)
            assert model.in_rotation("web2") == ["lb1"] and model.now - model.run["started"] >= LAG and not outcome["failed_run"]

    def test_approved_unprepared(self):
        model = self.model(rules=[{"name": "quick", "action": "approve"}])
        model.announce("e1", "web1", "web2", shown_to=["web1"])
        for _pass in range(4):
            assert "waits for a later look at web2" in model.go()["hosts"]["web1"]["reason"] and model.posted == []
        model.until(lambda outcome: model.posted, 15)

    def test_a_vm_of_that_name_in_another_set_is_none_of_them_after_some_seconds(self):
        model = self.model()
        model.announce("e1", "web1", "vm_web2", shown_to=["web1"])
        model.until(lambda outcome: model.posted, 15)
        assert LAG <= model.posted[0][0] - model.run["started"] <= LAG + PAUSE and model.in_rotation("web2") == ["lb1"]

    def test_the_same_where_looks_are_few(self):
        model = self.model()
        model.pass_seconds = 30.0
        model.announce("e1", "vm_web2", shown_to=["web1"])
        assert not model.finish(passes=4)["failed_run"]
        assert model.in_rotation("web2") == ["lb1"]


class TestRules:
    def test_ignore_leaves_the_host_alone_and_is_not_waited_for(self):
        model = Model(rules=[{"name": "no freezes", "when": "event_type == 'Freeze'", "action": "ignore"}])
        model.announce("e1", "web1", event_type="Freeze")
        outcome = model.go()
        assert outcome["finished"] and not outcome["failed_run"] and model.steps == []
        assert result(outcome, "e1")["outcome"] == "in_progress"

    def test_prepare_is_not_approved(self):
        model = Model(rules=[{"name": "by hand", "action": "prepare"}])
        model.announce("e1", "web1")
        for _pass in range(8):
            outcome = model.go()
        assert model.posted == [] and state(outcome, "web1") == "ready"

    def test_approve_takes_nothing_out(self):
        model = Model(rules=[{"name": "quick", "action": "approve"}])
        model.announce("e1", "web1")
        model.go()
        assert len(model.posted) == 1 and model.in_rotation("web1") == ["lb1"]

    @pytest.mark.parametrize("killed", [False, True])
    def test_what_was_approved_unprepared_and_becomes_another_type_is_judged_anew(self, killed):
        """Otherwise the host would be moved in the middle of its requests, because a rule lets freezes pass."""
        model = Model(rules=[{"name": "short", "when": "event_type == 'Freeze'", "action": "approve"}])
        model.announce("e1", "web1", event_type="Freeze")
        model.until(lambda outcome: model.posted)
        model.go()
        assert model.in_rotation("web1") == ["lb1"]
        if killed:
            model.killed()
        model.incarnation += 1
        model.events["e1"]["event_type"] = "Redeploy"
        model.until(lambda outcome: state(outcome, "web1") == "approved" and not model.in_rotation("web1"), 5)
        # It stays so, also if that turns out to be a freeze.
        model.events["e1"]["event_type"] = "Freeze"
        for _pass in range(3):
            model.go()
            assert model.in_rotation("web1") == []
        model.over("e1")
        assert not model.finish()["failed_run"] and model.in_rotation("web1") == ["lb1"]

    @pytest.mark.parametrize("killed", [False, True])
    @pytest.mark.parametrize("rules", [[], [{"name": "no upgrades", "when": "event_type == 'Upgrade'", "action": "ignore"}]])
    def test_what_was_approved_and_becomes_another_type_is_not_approved_again_as_that(self, killed, rules):
        """Unless its rules say so. The host stays out: the impact may come."""
        model = Model(rules=rules)
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        model.incarnation += 1
        model.events["e1"]["event_type"] = "Upgrade"
        if killed:
            model.killed()
        for _pass in range(45):
            model.go()
            assert len(model.posted) == 1 and model.in_rotation("web1") == []
        model.events["e1"]["event_type"] = "Redeploy"
        model.until(lambda outcome: len(model.posted) == 2)
        model.start("e1")
        model.go()
        model.over("e1")
        assert not model.finish()["failed_run"] and model.in_rotation("web1") == ["lb1"]

    @pytest.mark.parametrize("action", ["ignore", "approve"])
    def test_who_was_approved_for_another_type_and_is_put_back_by_a_reload_is_taken_out_again(self, action):
        """The rules of the new type would not have taken it out."""
        model = Model(rules=[{"name": "redeploy", "when": "event_type == 'Redeploy'", "action": action}])
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        model.incarnation += 1
        model.events["e1"]["event_type"] = "Redeploy"
        for _pass in range(4):
            model.go()
        model.servers["lb1"]["web1"].update(process=2, admin_state="ready")
        for _pass in range(4):
            model.go()
        assert model.in_rotation("web1") == []
        model.start("e1")
        for _pass in range(4):
            model.go()
            assert model.in_rotation("web1") == []
        model.over("e1")
        assert not model.finish()["failed_run"] and model.in_rotation("web1") == ["lb1"]

    def test_lead_time(self):
        model = Model(rules=[{"name": "late", "lead_time": 300}])
        model.announce("e1", "web1", notice=400)
        assert state(model.go(), "web1") == "waiting"
        while model.now < model.events["e1"]["not_before_at"] - 302:
            model.go()
            assert model.in_rotation("web1") == ["lb1"]
        model.until(lambda outcome: not model.in_rotation("web1"), 3)

    def test_an_unknown_type_is_prepared_and_not_approved(self):
        model = Model()
        model.announce("e1", "web1", event_type="Teleport")
        for _pass in range(6):
            model.go()
        assert model.in_rotation("web1") == [] and model.posted == []

    def test_on_drain_timeout_hold_goes_on(self):
        model = Model(drain_host={"timeout": 10.0})
        model.announce("e1", "web1")
        model.servers["lb1"]["web1"]["sessions"] = 1
        for _pass in range(20):
            outcome = model.go()
        assert model.posted == [] and state(outcome, "web1") == "draining"
        assert not outcome["failed_run"]
        late = "not drained in time (on_drain_timeout: hold)"
        left = "To see what is left: on lb1: echo 'show sess' | sudo socat stdio /run/haproxy/admin.sock"
        assert outcome["hosts"]["web1"]["reason"] == f"{late}, still to end: 1 session, 0 queued at www/web1 on lb1. {left}"
        # The time that is over is not a time to wait for. But so long Azure waits.
        assert outcome["hosts"]["web1"]["until"] == model.events["e1"]["not_before_at"]
        assert outcome["hosts"]["web1"]["until_is"] == "Azure may start it from"
        model.servers["lb1"]["web1"]["sessions"] = 0
        # Who is idle is about to be approved: that its time was over is no matter any more.
        assert model.go()["hosts"]["web1"]["reason"] == "idle; one more look must show the same"

    def test_why_it_was_not_approved_is_what_kept_it_longest(self):
        """And not what the last second brought."""
        model = Model(drain_host={"timeout": 10.0})
        model.announce("e1", "web1")
        model.servers["lb1"]["web1"]["sessions"] = 3
        begun = model.now
        for _pass in range(20):
            outcome = model.go()
        why = outcome["memory"]["events"]["e1"]["unapproved"]
        assert re.fullmatch(r"web1: not drained since \d\d:\d\d:\d\d \S+: 3 sessions, 0 queued at www/web1 on lb1", why), why
        model.servers["lb1"]["web1"]["sessions"] = 1
        model.go()
        # The client is gone in the last second, and one look more would have to show it.
        model.servers["lb1"]["web1"]["sessions"] = 0
        model.go()
        model.start("e1")
        outcome = model.go()
        why = outcome["memory"]["events"]["e1"]["unapproved"]
        assert re.fullmatch(r"web1: not drained from \S+ \S+ to \S+ \S+: 1 session, 0 queued at www/web1 on lb1", why), why
        assert clock(begun)[:5] in why and "one more look" not in why
        model.over("e1")
        assert result(model.finish(), "e1")["outcome"] == "not_approved"

    def test_on_drain_timeout_approve(self):
        model = Model(drain_host={"timeout": 10.0}, rules=[{"name": "impatient", "on_drain_timeout": "approve"}])
        model.announce("e1", "web1")
        model.servers["lb1"]["web1"]["sessions"] = 1
        model.until(lambda outcome: model.posted, 9)
        assert model.posted[0][0] >= model.run["started"] + 10

    @pytest.mark.parametrize("seen", [True, False])
    def test_on_drain_timeout_approve_begins_anew_where_the_balancer_forgot(self, seen):
        """Also in a run that looks on, and does not see it itself."""
        model = Model(drain_host={"timeout": 60.0}, rules=[{"name": "impatient", "on_drain_timeout": "approve"}])
        model.announce("e1", "web1")
        server = model.servers["lb1"]["web1"]
        server["sessions"] = 1
        model.go()
        model.go()
        model.now += 100
        server.update(admin_state="ready", process=server["process"] + 1)
        out_at = model.now
        (model if seen else model.another()).go()
        assert server["admin_state"] == "drain" and model.posted == []
        model.until(lambda outcome: model.posted, 60)
        assert model.posted[0][0] >= out_at + 60

    def test_on_drain_timeout_approve_waits_for_the_way_out_of_a_balancer_of_the_users_own(self):
        model = Model(drain_host={"timeout": 10.0}, load_balancer={"provider": "custom"}, rules=[{"name": "impatient", "on_drain_timeout": "approve"}])
        model.refuse["web1", "load_balancer"] = "the balancer's interface is down"
        model.announce("e1", "web1")
        model.hosts["web1"]["connections"] = [{"port": 80, "peer": "10.0.0.77", "count": 1}]
        for _pass in range(20):
            model.go()
        assert model.posted == []

    def test_a_rule_that_comes_to_ignore_gives_back(self):
        """What was taken out is not left out, whether the same run took it or one before it."""
        for killed in (False, True):
            model = Model()
            model.announce("e1", "web1")
            model.until(lambda outcome: not model.in_rotation("web1"))  # noqa: B023
            if killed:
                model.killed()
            for settings in model.settings.values():
                settings["rules"] = [{"name": "leave it", "action": "ignore"}]
            assert state(model.go(), "web1") == "restoring" and not model.outcome["finished"]
            outcome = model.finish()
            assert not outcome["failed_run"] and model.in_rotation("web1") == ["lb1"] and not model.held("web1")
            assert result(outcome, "e1")["hosts"]["web1"] == {"state": "in_service", "reason": "rule 'leave it': left alone"}

    @pytest.mark.parametrize("killed", [False, True])
    @pytest.mark.parametrize("when", ["not_before < '2027-01-16'", "seconds_until_not_before > `0`", "event_status == 'Scheduled'"])
    def test_what_was_decided_stands_once_it_has_started(self, when, killed):
        """By then a rule that looks at the time sees nothing."""
        model = Model(rules=[{"name": "by hand", "when": when, "action": "prepare"}, {"name": "else", "action": "ignore"}])
        model.announce("e1", "web1", notice=30)
        model.until(lambda outcome: not model.in_rotation("web1"))
        model.now += 30
        model.start("e1")
        if killed:
            model.killed()
        assert state(model.go(), "web1") == "started" and model.in_rotation("web1") == []
        model.over("e1")
        outcome = model.finish()
        assert result(outcome, "e1")["outcome"] == "completed" and model.in_rotation("web1") == ["lb1"]

    def test_an_event_that_is_not_due_keeps_nobody_out(self):
        model = Model(timeout=900.0, rules=[{"name": "late", "when": "event_type == 'Redeploy'", "lead_time": 600}])
        model.announce("b", "web1", event_type="Redeploy", notice=5 * 86400)
        model.announce("a", "web1")
        model.until(lambda outcome: model.posted)
        model.start("a")
        model.go()
        model.over("a")
        model.until(lambda outcome: model.in_rotation("web1"), 4)
        outcome = model.finish()
        assert result(outcome, "a")["outcome"] == "completed" and result(outcome, "b")["hosts"]["web1"]["state"] == "waiting"
        assert not outcome["failed_run"], outcome["messages"]

    @pytest.mark.parametrize("moved", [0.0, 40.0, -20.0])
    def test_on_drain_timeout_approve_never_waits_past_the_deadline(self, moved):
        model = Model(rules=[{"name": "impatient", "on_drain_timeout": "approve"}])
        model.announce("e1", "web1", notice=60)
        model.servers["lb1"]["web1"]["sessions"] = 1
        model.go()
        assert model.go()["hosts"]["web1"]["until"] == model.run["started"] + 60 - 15
        model.events["e1"]["not_before_at"] += moved
        deadline = model.run["started"] + 60 + moved - 15
        assert model.go()["hosts"]["web1"]["until"] == deadline
        model.until(lambda outcome: model.posted, 60)
        assert deadline <= model.posted[0][0] < deadline + model.pass_seconds

    @pytest.mark.parametrize(("notice", "until"), [(None, 120), (900, 120), (100, 85)])
    def test_a_drain_is_told_to_end_when_its_time_is_over_and_never_past_the_deadline(self, notice, until):
        model = Model()
        model.announce("e1", "web1", notice=notice)
        model.servers["lb1"]["web1"]["sessions"] = 1
        model.go()
        assert model.go()["hosts"]["web1"]["until"] == model.run["started"] + until

    def test_the_time_to_drain_begins_when_the_users_own_way_out_is_at_its_end(self):
        model = Model(drain_host={"timeout": 20.0}, load_balancer={"provider": "custom"}, rules=[{"name": "impatient", "on_drain_timeout": "approve"}])
        model.announce("e1", "web1")
        model.hosts["web1"].update(slow_way_out=True, connections=[{"port": 80, "peer": "10.0.0.77", "count": 1}])
        for _pass in range(20):
            model.go()
        assert model.posted == []
        model.hosts["web1"]["slow_way_out"] = False
        out_at = model.now
        model.until(lambda outcome: model.posted, 20)
        assert model.posted[0][0] >= out_at + 20

    @pytest.mark.parametrize("out_for", [0.0, 14.0])
    def test_the_end_of_the_users_own_way_out_is_known_after_a_death(self, out_for):
        model = Model(drain_host={"timeout": 20.0}, load_balancer={"provider": "custom"}, rules=[{"name": "impatient", "on_drain_timeout": "approve"}])
        model.announce("e1", "web1")
        model.hosts["web1"].update(slow_way_out=True, connections=[{"port": 80, "peer": "10.0.0.77", "count": 1}])
        for _pass in range(20):
            model.go()
        model.hosts["web1"]["slow_way_out"] = False
        out_at = model.now
        model.go()
        model.now = out_at + max(out_for, model.pass_seconds)
        model.killed()
        model.until(lambda outcome: model.posted, 20)
        assert out_at + 20 <= model.posted[0][0] <= out_at + 20 + 2 * model.pass_seconds

    def test_different_rules_in_one_event(self):
        model = Model()
        model.settings["web1"]["rules"] = [{"name": "mine", "action": "ignore"}]
        model.announce("e1", "web1", "web2")
        outcome = model.go()
        assert model.steps == [] and outcome["failed_run"]


class TestNothingBeforeItsTime:
    """Being out and idle is not enough for what is not to be prepared yet."""

    RULES = [{"name": "late", "when": "event_type == 'Redeploy'", "lead_time": 300}]

    def days_ahead(self, model, passes=8):
        for _pass in range(passes):
            model.go()
        assert "e2" not in [event_id for _at, event_id, _by in model.posted]
        model.now = model.events["e2"]["not_before_at"] - 290
        model.until(lambda outcome: "e2" in [event_id for _at, event_id, _by in model.posted], 8)

    def test_with_no_balancer(self):
        model = Model(rules=self.RULES, load_balancer={"provider": "none"})
        model.announce("e2", "web1", event_type="Redeploy", notice=86400)
        self.days_ahead(model)

    def test_an_operators_maintenance(self):
        model = Model(rules=self.RULES)
        model.servers["lb1"]["web1"]["admin_state"] = "maint"
        model.announce("e2", "web1", event_type="Redeploy", notice=86400)
        self.days_ahead(model)

    def test_out_for_another_event(self):
        model = Model(rules=self.RULES, timeout=1e6)
        model.announce("e1", "web1", event_type="Freeze")
        model.announce("e2", "web1", event_type="Redeploy", notice=86400)
        self.days_ahead(model)
        assert model.servers["lb1"]["web1"]["record"]["events"].keys() == {"e1", "e2"}


class TestWhatAzureMayDo:
    """What was announced need not be what happens."""

    @pytest.mark.parametrize("later", [-500.0, 500.0])
    def test_not_before_moves(self, later):
        model = Model()
        model.announce("e1", "web1", notice=900)
        model.servers["lb1"]["web1"]["sessions"] = 1
        model.go()
        model.events["e1"]["not_before_at"] += later
        model.incarnation += 1
        model.now += 20
        outcome = model.go()
        deadline = model.events["e1"]["not_before_at"] - 15
        assert state(outcome, "web1") == "draining"
        assert outcome["memory"]["events"]["e1"]["not_before_at"] - 15 == pytest.approx(deadline)

    def test_it_starts_by_itself_in_mid_drain(self):
        model = Model(drain_host={"steps": [service("web.service")]})
        model.announce("e1", "web1", notice=20)
        model.servers["lb1"]["web1"]["sessions"] = 1
        model.go()
        model.go()
        model.start("e1")
        for _pass in range(5):
            assert state(model.go(), "web1") == "started" and model.in_rotation("web1") == []
            assert "services" not in model.hosts["web1"]["tasks"]
        model.servers["lb1"]["web1"]["sessions"] = 0
        model.until(lambda outcome: "services" in model.hosts["web1"]["tasks"], 5)
        model.over("e1")
        outcome = model.finish()
        assert model.posted == [] and model.in_rotation("web1") == ["lb1"]
        assert result(outcome, "e1")["outcome"] == "not_approved"

    def test_a_freeze_that_lasts_longer_than_announced_and_several_impacts_while_started(self):
        model = Model()
        model.announce("e1", "web1", event_type="Freeze", duration_in_seconds=5)
        model.until(lambda outcome: model.posted)
        model.start("e1")
        for _impact in range(3):
            model.hosts["web1"]["silent"] = True
            model.now += 40
            model.go()
            model.hosts["web1"]["silent"] = False
            model.now += 10
            assert state(model.go(), "web1") == "started" and model.in_rotation("web1") == []
        model.over("e1")
        assert not model.finish()["failed_run"] and model.in_rotation("web1") == ["lb1"]
        assert len(model.posted) == 1

    def test_a_reboot_that_turns_out_a_freeze(self):
        model = Model(drain_host={"steps": [service("web.service")]})
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        model.start("e1")
        model.go()
        # It never went away, and its services are still stopped.
        model.over("e1")
        assert not model.finish()["failed_run"]
        assert model.in_rotation("web1") == ["lb1"] and not model.held("web1")

    def test_out_first_where_there_is_time_for_nothing_else(self):
        model = Model(hosts=2, min_in_service=1, drain_host={"steps": [BEFORE, service("web.service")]})
        model.announce("e1", "web1", event_type="Preempt", notice=5)
        outcome = model.go()
        assert outcome["hosts"]["web1"]["step"]["role"] == "load_balancer" and model.in_rotation("web1") == []

    def test_predicted_days_ahead_is_prepared_at_once(self):
        model = Model(timeout=1e6)
        model.announce("e1", "web1", event_type="Redeploy", notice=7 * 86400)
        model.go()
        assert model.in_rotation("web1") == []
        model.until(lambda outcome: model.posted, 10)

    def test_ten_hosts_at_once_with_a_minimum_of_half(self):
        model = Model(hosts=10, min_in_service="50%", timeout=1e6)
        for name in model.names:
            model.announce(f"e_{name}", name, notice=3600)
        out = set()
        while len(out) < 10:
            model.go()
            out = {name for name in model.names if not model.in_rotation(name)}
            left = min((event["not_before_at"] - model.now for event in model.events.values()), default=0)
            assert len(out) <= 5 or left <= 135 + model.pass_seconds
            # What is approved is over soon, and makes room for the next.
            for event_id in [posted for _at, posted, _by in model.posted if posted in model.events]:
                model.over(event_id)
            model.until(lambda outcome: True)
            if not model.events:
                break
        assert not model.finish()["failed_run"]
        assert len(model.posted) == 10 and all(model.in_rotation(name) for name in model.names)


class TestMinimumInService:
    def test_servers_of_one_name_on_different_balancers_are_different_servers(self):
        model = Model(hosts=4, balancers=("lb1", "lb2"))
        for name, site, server in (("web1", "lb1", "a"), ("web2", "lb1", "b"), ("web3", "lb2", "a"), ("web4", "lb2", "b")):
            model.balancer_of(name).update(hosts=[site], server=server)
        model.servers = {
            "lb1": {"a": model.servers["lb1"]["web1"], "b": model.servers["lb1"]["web2"]},
            "lb2": {"a": model.servers["lb2"]["web1"], "b": model.servers["lb2"]["web2"]},
        }
        model.announce("e1", "web1")
        model.announce("e2", "web3")
        outcome = plan(model.world())
        assert {name: (decision["step"] or {}).get("role") for name, decision in outcome["hosts"].items()} == {
            "web1": "load_balancer",
            "web2": None,
            "web3": "load_balancer",
            "web4": None,
        }

    def test_delays_the_second_host(self):
        model = Model(hosts=2, min_in_service=1)
        model.announce("e1", "web1", notice=900)
        model.announce("e2", "web2", notice=800)
        outcome = model.go()
        assert model.in_rotation("web2") == [] and model.in_rotation("web1") == ["lb1"]
        assert state(outcome, "web1") == "waiting"

    def test_yields_before_the_impact(self):
        model = Model(hosts=1, min_in_service=1)
        model.announce("e1", "web1", notice=300)
        while model.now < model.events["e1"]["not_before_at"] - 135 - 2:
            model.go()
            assert model.in_rotation("web1") == ["lb1"]
        model.until(lambda outcome: not model.in_rotation("web1"), 3)

    def test_yields_at_once_when_started(self):
        model = Model(hosts=1)
        model.announce("e1", "web1", status="Started")
        model.go()
        assert model.in_rotation("web1") == []

    def test_two_controllers_of_which_one_has_not_seen_all(self):
        one = Model(hosts=2)
        one.announce("e2", "web2", notice=800)
        one.decide()
        one.announce("e1", "web1", notice=700)
        two = one.another()
        two.decide()
        one.act()
        two.act()
        assert one.in_rotation("web1") == ["lb1"] and one.in_rotation("web2") == []
        for _pass in range(8):
            one.go()
            two.go()
            assert one.in_rotation("web1") == ["lb1"]
        assert {event_id for _at, event_id, _by in one.posted} == {"e2"}
        assert state(two.outcome, "web1") == "waiting"
        one.over("e2")
        for _pass in range(8):
            one.go()
            two.go()
        assert one.in_rotation("web2") == ["lb1"] and one.in_rotation("web1") == []
        assert {event_id for _at, event_id, _by in one.posted} == {"e1", "e2"}

    def test_a_controller_that_stood_still_takes_nobody_out_for_what_it_saw_before(self):
        """Another controller has brought the host back meanwhile, the event is over, and news end the first look after that."""
        model = Model(hosts=2)
        model.announce("e1", "web1", notice=20)
        model.until(lambda outcome: state(outcome, "web1") == "approved")
        other = model.another()
        model.over("e1")
        other.until(lambda outcome: other.in_rotation("web1"))
        model.now += 20.0
        model.news_for = 60.0
        model.go()
        assert model.in_rotation("web1") == ["lb1"]
        assert state(model.finish(), "web1") == "restored"
        assert model.in_rotation("web1") == ["lb1"]

    def test_a_late_step_of_a_run_that_was_killed(self):
        late = Model(hosts=2)
        late.announce("e2", "web2", notice=800)
        late.decide()
        late.announce("e1", "web1", notice=700)
        late.another().go()
        late.act()
        assert late.in_rotation("web1") == [] and late.in_rotation("web2") == ["lb1"]

    def test_a_step_that_yields_goes_out_whatever_stays(self):
        model = Model(hosts=1)
        model.announce("e1", "web1", notice=100)
        assert model.go()["hosts"]["web1"]["step"]["min_in_service"] is None and model.in_rotation("web1") == []

    def test_a_backup_server_does_not_stand_in(self):
        model = Model(hosts=3)
        model.servers["lb1"]["web3"]["backup"] = True
        model.announce("e1", "web1", notice=700)
        model.announce("e2", "web2", notice=800)
        outcome = model.go()
        assert model.in_rotation("web1") == [] and model.in_rotation("web2") == ["lb1"]
        assert "1 of 2 in service in www on lb1 (web1 goes out), 1 must stay" in outcome["hosts"]["web2"]["reason"]

    def test_a_backup_server_is_no_part_of_a_percentage(self):
        model = Model(hosts=4, min_in_service="50%")
        for name in ("web3", "web4"):
            model.servers["lb1"][name].update(backup=True, up=False)
        model.announce("e1", "web1")
        model.go()
        assert model.in_rotation("web1") == []

    @pytest.mark.parametrize(("others", "stays"), [(True, []), (False, ["lb1"])])
    def test_a_backup_server_itself_goes_where_another_serves(self, others, stays):
        model = Model(hosts=2)
        model.servers["lb1"]["web1"]["up"] = others
        model.servers["lb1"]["web2"]["backup"] = True
        model.announce("e1", "web2")
        model.go()
        assert model.in_rotation("web2") == stays

    @pytest.mark.parametrize("killed", [False, True], ids=["same run", "next run"])
    def test_whoever_is_approved_is_out_whatever_the_minimum_says(self, killed):
        """A reload of HAProxy put it into rotation again, and another has failed meanwhile."""
        model = Model(hosts=3, min_in_service=2)
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        model.go()
        model.servers["lb1"]["web1"].update(admin_state="ready", process=2)
        model.servers["lb1"]["web3"]["up"] = False
        if killed:
            model.killed()
        outcome = model.go()
        assert state(outcome, "web1") == "approved" and "is in rotation, although it is approved" in outcome["hosts"]["web1"]["reason"]
        assert outcome["hosts"]["web1"]["step"]["min_in_service"] is None
        assert model.in_rotation("web1") == []
        assert "in rotation" not in model.go()["hosts"]["web1"]["reason"]

    def test_whoever_is_not_approved_waits_for_the_minimum(self):
        model = Model(hosts=3, min_in_service=2)
        model.announce("e1", "web1")
        model.go()
        model.servers["lb1"]["web1"].update(admin_state="ready", process=2)
        model.servers["lb1"]["web3"]["up"] = False
        assert state(model.go(), "web1") == "waiting" and model.in_rotation("web1") == ["lb1"] and not model.posted

    def test_counts_what_really_serves(self):
        model = Model(hosts=3, min_in_service="50%")
        model.servers["lb1"]["web3"]["up"] = False
        model.announce("e1", "web1")
        assert state(model.go(), "web1") == "waiting"


class TestEnd:
    @pytest.mark.parametrize("hosts", [("web1",), ("web1", "web2")])
    def test_one_pass_that_could_not_read_is_no_success(self, hosts):
        model = Model(wait=False)
        for name in hosts:
            model.hosts[name]["service_silent"] = True
        outcome = model.go()
        assert outcome["finished"] and outcome["failed_run"] and list(outcome["unread"]) == list(hosts)

    def test_a_hold_of_a_persons_own_is_told(self):
        model = Model()
        model.servers["lb1"]["web1"].update(admin_state="drain", record={"left": "drain", "process": 1, "events": {"drill": {"since": "x", "details": {}}}})
        assert "held for 'drill'" in model.go()["hosts"]["web1"]["reason"]

    def test_a_server_that_is_out_without_a_hold_is_told(self):
        model = Model()
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        model.servers["lb1"]["web1"]["record"] = None
        model.over("e1")
        assert (
            "nothing of ours keeps it out, but an operator's maintenance does (www/web1 on lb1 is in drain)"
            in result(model.finish(), "e1")["hosts"]["web1"]["reason"]
        )

    def test_time_runs_out(self):
        model = Model(timeout=30.0)
        model.announce("e1", "web1")
        model.servers["lb1"]["web1"]["sessions"] = 1
        outcome = model.finish()
        assert outcome["failed_run"] and result(outcome, "e1")["outcome"] == "in_progress"

    def test_a_next_act_beyond_the_time_out_is_no_failure(self):
        model = Model(timeout=30.0, rules=[{"name": "late", "lead_time": 60}])
        model.announce("e1", "web1", notice=7 * 86400)
        outcome = model.finish()
        assert not outcome["failed_run"] and result(outcome, "e1")["outcome"] == "in_progress"

    def test_one_pass(self):
        model = Model(wait=False)
        model.announce("e1", "web1")
        outcome = model.go()
        assert outcome["finished"] and not outcome["failed_run"] and model.in_rotation("web1") == []

    def test_watching_waits_for_an_event(self):
        model = Model(watch=True)
        for _pass in range(5):
            assert not model.go()["finished"]
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        model.start("e1")
        model.go()
        model.over("e1")
        assert not model.finish()["failed_run"]

    def test_watching_ends_after_an_hour(self):
        """The next run reads the inventory again, with the VMs that have joined a scale set since."""
        model = Model(watch=True)
        assert not model.go()["finished"]
        model.now += 3500
        assert not model.go()["finished"]
        model.now += 100
        outcome = model.go()
        assert outcome["finished"] and not outcome["failed_run"]


class TestOthersHolds:
    def test_a_hold_that_a_person_put_is_left_to_the_person(self):
        model = Model()
        model.servers["lb1"]["web1"].update(admin_state="drain", record={"left": "drain", "process": 1, "events": {"mine": {"since": "x", "details": {}}}})
        outcome = model.go()
        assert outcome["finished"] and not outcome["failed_run"] and model.steps == []

    @pytest.mark.parametrize("not_before", ["Mon, 19 Sep 2016 18:29:47 GMT", "soon", 7, None])
    def test_whatever_a_record_says_of_its_event(self, not_before):
        details = {"event_type": None, "resources": ["vm_web1"], "not_before": not_before}
        model = Model()
        model.servers["lb1"]["web1"].update(admin_state="drain", record={"left": "drain", "process": 1, "events": {"e0": {"since": 9, "details": details}}})
        assert not model.finish()["failed_run"]
        assert model.in_rotation("web1") == ["lb1"]

    def test_a_record_of_a_users_own_task(self):
        model = Model()
        model.hosts["web1"]["tasks"]["mine"] = {"e0": {"since": "2026-01-01T00:00:00Z", "details": {"resources": ["vm_web1"]}}}
        assert model.go()["finished"] and model.steps == []


def test_a_host_that_cannot_go_out_does_not_stop_the_others():
    model = Model(hosts=3)
    model.announce("e1", "web1")
    model.go()
    model.refuse["web2", "load_balancer"] = "no"
    model.announce("e2", "web2")
    model.until(lambda outcome: model.posted, 8)
    assert model.posted[0][1] == "e1"


def test_a_rule_that_cannot_be_asked_is_told_and_leaves_nobody_in_rotation():
    model = Model(hosts=3)
    model.settings["web1"]["rules"] = [{"name": "live", "when": "contains(description, 'live')"}]
    model.announce("e1", "web1", description=None)
    model.announce("e2", "web2")
    for _pass in range(12):
        model.go()
    assert [event_id for _at, event_id, _by in model.posted] == ["e2"] and model.in_rotation("web1") == []
    model.over("e1")
    model.over("e2")
    outcome = model.finish()
    assert model.in_rotation("web1") == ["lb1"]
    assert outcome["failed_run"] and any("a rule cannot be asked of this event" in message for message in outcome["messages"])


def test_services_that_do_not_stop_are_no_reason_to_wait_where_the_rule_says_approve():
    model = Model(drain_host={"timeout": 10.0, "steps": [service("slow")]}, rules=[{"name": "impatient", "on_drain_timeout": "approve"}])
    model.refuse["web1", "drain_host"] = "still stopping"
    model.announce("e1", "web1")
    model.until(lambda outcome: model.posted, 12)


def test_a_step_that_fails_in_every_pass_is_tried_again_and_needs_a_person():
    model = Model(drain_host={"steps": [service("web.service")]})
    model.refuse["web1", "drain_host"] = "still stopping"
    model.announce("e1", "web1")
    outcome = model.until(lambda outcome: state(outcome, "web1") == "needs_person")
    tries = [at for at, name, role, _events in model.steps if role == "drain_host"]
    assert model.now - tries[0] >= 30 and len(tries) >= 10
    assert "still stopping" in outcome["hosts"]["web1"]["reason"] and model.posted == []
    model.refuse.clear()
    model.until(lambda outcome: model.posted, 5)


def test_approving_unprepared_counts_everybody_in_the_event():
    model = Model(hosts=2, min_in_service=1, rules=[{"name": "quick", "action": "approve"}])
    model.announce("e1", "web1", "web2")
    for _pass in range(4):
        model.go()
    assert model.posted == []


@pytest.mark.parametrize("action", ["approve", "ignore"])
def test_a_host_whose_impact_has_begun_does_not_count_whatever_its_rule(action):
    """It is in its balancer as yet, and the balancer may see it up."""
    model = Model(hosts=2, min_in_service=1, rules=[{"name": "freezes", "when": "event_type == 'Freeze'", "action": action}])
    model.announce("e1", "web1", event_type="Freeze", status="Started")
    model.announce("e2", "web2")
    for _pass in range(6):
        model.go()
    assert model.posted == [] and model.in_rotation("web2") == ["lb1"]
    assert model.outcome["hosts"]["web2"]["reason"] == "1 of 2 in service in www on lb1 (web1 goes out), 1 must stay"
    model.over("e1")
    model.until(lambda outcome: model.posted)


def test_members_of_whom_each_fails_to_approve_in_turn_need_a_person():
    model = Model(min_in_service=0)
    model.announce("e1", "web1", "web2")
    for name in model.names:
        model.refuse[name, "approve_event"] = "503"
    outcome = model.until(lambda outcome: state(outcome, "web1") == "needs_person" or state(outcome, "web2") == "needs_person")
    tries = [at for at, _name, role, _events in model.steps if role == "approve_event"]
    assert 30 <= model.now - tries[0] < 40 and {name for _at, name, role, _events in model.steps if role == "approve_event"} == {"web1", "web2"}
    assert "503" in str(result(outcome, "e1")["hosts"])
    model.refuse.clear()
    model.until(lambda outcome: model.posted, 3)
    assert state(model.go(), "web1") == "approved"


class TestAnotherControllersHold:
    """The balancers are read after the hosts, and a host's look may be some seconds old: a hold may be newer than it."""

    def taken_out_by_another(self, shown_to=("web2",), **settings):
        model = Model(hosts=3, min_in_service=0, **settings)
        model.announce("e1", "web1")
        model.servers["lb1"]["web1"]["sessions"] = 1
        model.go()
        model.announce("e2", "web2", shown_to=shown_to)
        model.another().go()
        assert model.in_rotation("web2") == []
        return model

    @pytest.mark.parametrize("shown_to", [["web2"], None], ids=["by itself", "by all"])
    @pytest.mark.parametrize("watch", [False, True])
    def test_is_not_released_because_of_a_look_that_is_older(self, watch, shown_to):
        model = self.taken_out_by_another(shown_to, watch=watch)
        model.rests("web2")
        for _pass in range(4):
            model.go()
            assert model.in_rotation("web2") == []
        model.until(lambda outcome: state(outcome, "web2") == "approved", 20)
        assert model.in_rotation("web2") == []

    def test_is_not_released_by_a_run_that_takes_one_step(self):
        model = self.taken_out_by_another(wait=False)
        past = model.seen["web2"]
        model.killed()
        model.seen["web2"] = past
        model.rests("web2")
        model.number = 1
        outcome = model.go()
        assert model.in_rotation("web2") == [] and not outcome["failed_run"]
        assert state(outcome, "web2") == "draining" and "since it was last looked at" in outcome["hosts"]["web2"]["reason"]

    def test_one_that_is_over_as_soon_as_it_holds_a_host_is_not_said_to_be_held_by_another(self):
        """As an event of a rehearsal is, and one that Azure withdraws."""
        model = Model()
        model.pass_seconds = 1.0
        model.announce("e1", "web1")
        model.until(lambda outcome: not model.in_rotation("web1"))
        model.over("e1")
        assert "brought back once a second look shows the same" in model.go()["hosts"]["web1"]["reason"]

    def test_is_released_by_a_look_that_is_newer(self):
        model = self.taken_out_by_another()
        model.over("e2")
        model.servers["lb1"]["web1"]["sessions"] = 0
        model.until(lambda outcome: model.in_rotation("web2") == ["lb1"], 6)

    @pytest.mark.parametrize("back", [3600, 60])
    def test_is_released_where_the_balancers_clock_was_set_back_since(self, back):
        model = self.taken_out_by_another()
        model.over("e2")
        model.skew["lb1"] = -back
        model.servers["lb1"]["web1"]["sessions"] = 0
        model.until(lambda outcome: model.in_rotation("web2") == ["lb1"], 6)


class TestTwoEventsOfWhichOneIsNotDue:
    rules = [{"name": "late", "when": "event_type == 'Redeploy'", "lead_time": 600}]

    def model(self, **settings):
        model = Model(rules=self.rules, **settings)
        model.announce("e9", "web1", event_type="Redeploy", notice=432000)
        model.announce("e1", "web1")
        return model

    def test_runs_that_take_one_step_approve_the_one_in_hand(self):
        model = self.model(wait=False, drain_host={"steps": [service("web.service")]})
        model.run["look_twice"] = True
        for _minute in range(4):
            model.killed()
            model.until(lambda outcome: outcome["finished"], 2)
            model.now += 60
        assert {event_id for _at, event_id, _by in model.posted} == {"e1"}

    def test_what_is_not_over_is_told_when_the_time_is(self):
        model = self.model(timeout=60)
        model.servers["lb1"]["web1"]["sessions"] = 1
        outcome = model.finish()
        assert outcome["failed_run"] and any("e1: not over when" in message for message in outcome["messages"]), outcome["messages"]
        assert not any("e9" in message for message in outcome["messages"])

    def test_each_is_told_as_it_is(self):
        model = self.model()
        model.servers["lb1"]["web1"]["sessions"] = 1
        for _pass in range(3):
            outcome = model.go()
        assert state(outcome, "web1") == "draining"
        assert result(outcome, "e1")["hosts"]["web1"]["state"] == "draining"
        assert "begins 600 s before NotBefore" in result(outcome, "e9")["hosts"]["web1"]["reason"]


class TestPutBackByHandAndNamedAgain:
    def put_back(self, **settings):
        """A run took web1 out and died, the event went, a person put the server back; now another event names it."""
        model = Model(hosts=3, **settings)
        model.announce("e1", "web1")
        model.until(lambda outcome: model.held("web1"))
        model.over("e1")
        model.killed()
        model.servers["lb1"]["web1"]["admin_state"] = "ready"
        model.now += 600
        model.announce("e2", "web1")
        return model

    @pytest.mark.parametrize("balancers", [("lb1",), ("lb1", "lb2")])
    def test_it_goes_out_for_the_new_one(self, balancers):
        model = self.put_back(balancers=balancers)
        assert model.in_rotation("web1") == ["lb1"]
        for _pass in range(20):
            model.go()
            assert model.in_rotation("web1") in ([], ["lb1"])
            if model.posted:
                break
        assert [event_id for _at, event_id, _by in model.posted] == ["e2"] and model.in_rotation("web1") == []
        model.start("e2")
        model.go()
        model.over("e2")
        outcome = model.finish()
        assert not outcome["failed_run"] and model.in_rotation("web1") == list(balancers) and not model.held("web1")

    def test_what_was_put_back_while_the_event_stood_is_left_alone(self):
        model = Model(hosts=3)
        model.announce("e1", "web1")
        model.announce("e2", "web1")
        model.until(lambda outcome: model.held("web1"))
        model.servers["lb1"]["web1"]["admin_state"] = "ready"
        model.over("e1")
        for _pass in range(10):
            outcome = model.go()
        assert state(outcome, "web1") == "needs_person" and model.posted == [] and model.in_rotation("web1") == ["lb1"]


def test_another_looks_at_the_balancer_for_a_host_that_has_left_the_run():
    model = Model(min_in_service=0)
    model.announce("e2", "web2")
    model.decide()
    assert [turn.get("machine") for turn in model.outcome["turns"]["web1"]] == [None, "lb1"]
    world = model.world()
    world["hosts"]["web1"] = {"reached": False, "left": True, "fatal": "it has left the run", "error": "it has left the run"}
    outcome = plan(world)
    assert outcome["turns"]["web1"] == [] and [turn.get("machine") for turn in outcome["turns"]["web2"]] == ["lb1", None, "lb1"]


class TestNotReadIsNotSettled:
    def test_a_balancer_that_cannot_be_read_where_no_event_is_known(self):
        model = Model()
        model.announce("e1", "web1")
        model.until(lambda outcome: model.held("web1"))
        model.killed()
        model.over("e1")
        model.down_balancers["lb1"] = {"reached": False, "error": "no route"}
        began = model.now
        outcome = model.finish()
        assert outcome["failed_run"] and 30 <= model.now - began < 40
        assert any("balancer lb1: no route" in message for message in outcome["messages"])
        # One that comes back in time is no mistake.
        model.killed()
        model.until(lambda outcome: not outcome["finished"], 1)
        model.down_balancers.clear()
        outcome = model.finish()
        assert not outcome["failed_run"] and model.in_rotation("web1") == ["lb1"]

    def test_a_balancer_that_cannot_be_read_after_the_event_is_read_again_before_it_needs_a_person(self):
        model = Model(balancers=("lb1", "lb2"))
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        model.start("e1")
        model.go()
        model.over("e1")
        model.down_balancers["lb2"] = {"reached": False, "error": "no route"}
        began = model.now
        for _pass in range(2):
            told = model.go()["hosts"]["web1"]
        assert (told["state"], told["reason"], told["until_is"]) == ("restoring", "balancer lb2: no route", "needs a person after")
        assert told["until"] == began + model.settings["web1"]["restore_service"]["timeout"]

    @pytest.mark.parametrize("back", [False, True])
    def test_a_run_that_takes_one_step_looks_twice(self, back):
        model = Model(wait=False)
        model.run["look_twice"] = True
        model.down_balancers["lb1"] = {"reached": False, "error": "no route"}
        assert not model.go()["finished"]
        if back:
            model.down_balancers.clear()
        outcome = model.go()
        assert outcome["finished"] and outcome["failed_run"] is not back

    @pytest.mark.parametrize("provider", ["custom", "none"])
    def test_a_silent_member_whose_records_lie_on_itself(self, provider):
        model = Model(load_balancer={"provider": provider}, drain_host={"steps": [service("web.service")]}, min_in_service=0)
        for name in model.names:
            model.settings[name]["resource_name"] = model.hosts[name]["azure_name"]
        model.announce("e1", "web1", "web2")
        model.until(lambda outcome: model.posted)
        model.killed()
        model.over("e1")
        model.hosts["web2"]["silent"] = True
        for _pass in range(20):
            outcome = model.go()
            assert not outcome["finished"]
        assert state(outcome, "web2") == "unobserved" and not model.held("web1")
        model.hosts["web2"]["silent"] = False
        assert not model.finish()["failed_run"] and not model.held("web2")

    def test_a_silent_member_of_a_deleting_event_that_was_cancelled(self):
        model = Model(min_in_service=0)
        model.announce("e1", "web1", "web2", event_type="Preempt", notice=600)
        model.servers["lb1"]["web1"]["sessions"] = 1
        for _pass in range(3):
            model.go()
        model.hosts["web2"]["silent"] = True
        model.over("e1")
        for _pass in range(20):
            assert not model.go()["finished"]
        model.hosts["web2"]["silent"] = False
        outcome = model.finish()
        assert not outcome["failed_run"] and model.in_rotation("web2") == ["lb1"]
        assert result(outcome, "e1")["outcome"] == "cancelled"


@pytest.mark.parametrize("known", ["by its hold", "by its service in the second pass"])
def test_a_host_that_was_seen_to_be_back_is_not_waited_for_when_it_falls_silent(known):
    model = Model(hosts=3, min_in_service=0)
    for name in model.names:
        model.settings[name]["resource_name"] = model.hosts[name]["azure_name"]
    model.announce("e1", "web1", "web2")
    model.until(lambda outcome: model.posted)
    model.killed()
    if known != "by its hold":
        for host in model.hosts.values():
            host["service_silent"] = True
        model.go()
        for host in model.hosts.values():
            host["service_silent"] = False
        model.go()
    model.over("e1")
    model.now += 3
    model.refuse["web2", "restore_service"] = "still starting"
    for _pass in range(4):
        model.go()
    assert model.in_rotation("web1") == ["lb1"]
    model.hosts["web1"]["silent"] = True
    model.go()
    model.refuse.clear()
    began = model.now
    assert not model.finish()["failed_run"] and model.now - began < 20


def test_a_look_that_failed_does_not_begin_the_time_to_restore_anew():
    model = Model()
    model.announce("e1", "web1")
    model.until(lambda outcome: model.posted)
    model.over("e1")
    model.now += 3
    began = model.now
    model.refuse["web1", "restore_service"] = "web.service does not start"
    outcome = model.go()
    while not outcome["finished"]:
        model.hosts["web1"]["service_silent"] = model.number % 10 == 0
        outcome = model.go()
    assert 300 <= model.now - began < 320 and any("not restored within 300 s" in message for message in outcome["messages"])


def test_what_is_recorded_when_the_event_is_over_does_not_make_looks_old():
    model = Model()
    model.announce("e1", "web1")
    model.until(lambda outcome: model.posted)
    model.over("e1")
    model.now += 3
    model.refuse["web1", "restore_service"] = "not all tasks are done"
    for _pass in range(4):
        model._put("web1", "restore_service_before", {"event_ids": ["e1"], "reason": "", "event_details": {"e1": {}}})
        outcome = model.go()
        assert outcome["hosts"]["web1"]["step"]["role"] == "restore_service"


def test_an_approval_that_was_refused_long_ago_makes_no_later_failure_graver():
    model = Model()
    model.announce("e1", "web1")
    model.refuse["web1", "approve_event"] = "503"
    model.until(lambda outcome: outcome["hosts"]["web1"]["step"] and outcome["hosts"]["web1"]["step"]["role"] == "approve_event")
    model.go()
    model.refuse.clear()
    model.hosts["web1"]["connections"] = [{"port": 80, "peer": "10.0.0.77", "count": 1}]
    for _pass in range(20):
        model.go()
    model.refuse["web1", "load_balancer"] = "one failure"
    model.servers["lb1"]["web1"].update(admin_state="ready", process=2)
    model.go()
    assert state(model.go(), "web1") == "draining"


def test_the_time_to_restore_begins_anew_after_another_event():
    model = Model()
    model.announce("e1", "web1")
    model.until(lambda outcome: model.posted)
    model.over("e1")
    model.refuse["web1", "restore_service"] = "still starting"
    model.go()
    model.go()
    model.announce("e2", "web1")
    model.go()
    model.now += 600
    model.over("e2")
    outcome = model.go()
    assert state(outcome, "web1") == "restoring" and not outcome["finished"]
    model.refuse.clear()
    assert not model.finish()["failed_run"]


@pytest.mark.parametrize(
    ("change", "members"),
    [({"resources": ["vm_web1", "vm_web2", "vm_web3"]}, ["web1", "web2", "web3"]), ({"event_type": "Redeploy"}, ["web1", "web2"])],
)
def test_an_event_that_documents_describe_differently_is_not_approved(change, members):
    """Azure is not known to change an event under its id; were it to, an older description must not be approved."""
    model = Model(hosts=4, min_in_service=0)
    model.announce("e1", "web1", "web2")
    model.go()
    model.go()
    older, observe_host = model.observe_host("web1"), model.observe_host
    model.events["e1"].update(change)
    model.incarnation += 1
    # The service of one of them lags behind.
    model.observe_host = lambda name: dict(observe_host(name), events=older["events"]) if name == "web1" else observe_host(name)
    for _pass in range(10):
        model.go()
        assert model.posted == []
    model.observe_host = observe_host
    model.until(lambda outcome: model.posted, 10)
    assert [name for name in model.settings if not model.in_rotation(name)] == members


class TestNamedNoMore:
    """Nor is Azure known to take a name out of an event; were it to, its host would be out for nothing."""

    @staticmethod
    def model():
        model = Model(hosts=3, min_in_service=0, drain_host={"steps": [service()]})
        model.announce("e1", "web1", "web2")
        return model

    @staticmethod
    def renamed(model, *names):
        model.events["e1"]["resources"] = [f"vm_{name}" for name in names]
        model.incarnation += 1

    def test_the_host_comes_back_and_the_others_stay_out(self):
        model = self.model()
        model.servers["lb1"]["web2"]["sessions"] = 1
        model.until(lambda outcome: state(outcome, "web1") == "ready", 10)
        self.renamed(model, "web2")
        model.until(lambda outcome: model.in_rotation("web1") == ["lb1"], 5)
        assert not model.held("web1") and model.in_rotation("web2") == [] and model.posted == []
        assert model.go()["hosts"]["web1"]["state"] == "in_service"
        self.renamed(model, "web1", "web2")
        model.until(lambda outcome: model.in_rotation("web1") == [], 5)
        model.servers["lb1"]["web2"]["sessions"] = 0
        model.until(lambda outcome: model.posted, 10)
        model.start("e1")
        model.go()
        model.over("e1")
        assert not model.finish()["failed_run"] and model.in_rotation("web1") == model.in_rotation("web2") == ["lb1"]

    def test_by_runs_of_one_step(self):
        model = self.model()
        model.servers["lb1"]["web2"]["sessions"] = 1
        for _minute in range(3):
            TestOnePass().run(model)
            model.now += 60
        assert model.in_rotation("web1") == []
        self.renamed(model, "web2")
        TestOnePass().run(model)
        assert model.in_rotation("web1") == ["lb1"] and not model.held("web1")

    def test_not_by_one_read(self):
        model = self.model()
        model.until(lambda outcome: model.in_rotation("web1") == [], 5)
        self.renamed(model, "web2")
        model.go()
        self.renamed(model, "web1", "web2")
        for _pass in range(3):
            model.go()
            assert model.in_rotation("web1") == [] and model.held("web1")

    def test_not_while_another_service_still_names_it(self):
        model = self.model()
        model.until(lambda outcome: model.in_rotation("web1") == [], 5)
        older, observe_host = model.observe_host("web2"), model.observe_host
        self.renamed(model, "web2")
        model.observe_host = lambda name: dict(observe_host(name), events=older["events"]) if name == "web2" else observe_host(name)
        for _pass in range(10):
            model.go()
            assert model.in_rotation("web1") == [] and model.posted == []

    def test_not_once_it_is_approved(self):
        model = self.model()
        model.until(lambda outcome: model.posted, 20)
        self.renamed(model, "web2")
        for _pass in range(10):
            model.go()
            assert model.in_rotation("web1") == []
        model.start("e1")
        model.go()
        model.over("e1")
        assert not model.finish()["failed_run"] and model.in_rotation("web1") == ["lb1"]


class TestOnePass:
    """Runs that take one step, as cron and schedules start them."""

    def run(self, model):
        """One of them; its last outcome. It knows nothing of the others."""
        model.killed()
        model.run = dict(model.run, wait=False, look_twice=True)
        while True:
            outcome = model.go()
            if outcome["finished"]:
                return outcome
            assert model.number < 3

    def test_they_see_an_event_through(self):
        model = Model()
        for settings in model.settings.values():
            settings["drain_host"]["steps"] = [service("web.service")]
        model.announce("e1", "web1")
        roles = []
        for _minute in range(3):
            before = len(model.steps)
            self.run(model)
            roles.append([step[2] for step in model.steps[before:]])
        assert roles == [["load_balancer"], ["drain_host"], ["approve_event"]]
        model.start("e1")
        self.run(model)
        model.over("e1")
        outcome = self.run(model)
        assert model.in_rotation("web1") == ["lb1"]
        assert result(outcome, "e1")["outcome"] == "in_progress"
        assert self.run(model)["events"] == []

    def test_an_event_that_is_approved_again_each_time_keeps_no_other_from_it(self):
        model = Model()
        for event_id in ("e1", "e2"):
            model.announce(event_id, "web1")
        for _minute in range(4):
            self.run(model)
            model.now += 60
        assert {event_id for _at, event_id, _by in model.posted} == {"e1", "e2"}

    def test_a_target_that_is_off_keeps_no_event_from_its_approval(self):
        """Nobody knows its name in Azure, and no run knows for how long it has been so."""
        model = Model(hosts=2)
        model.hosts["web2"]["silent"] = True
        model.announce("e1", "web1")
        for _minute in range(4):
            self.run(model)
            model.now += 60
        assert model.posted != []

    def test_one_look_is_not_enough(self):
        model = Model()
        model.announce("e1", "web1")
        self.run(model)
        model.servers["lb1"]["web1"]["sessions"] = 1
        self.run(model)
        assert model.posted == [] and model.number == 1
        model.servers["lb1"]["web1"]["sessions"] = 0
        self.run(model)
        assert len(model.posted) == 1 and model.number == 2

    @pytest.mark.parametrize("skew", [0, -3600])
    @pytest.mark.parametrize(("provider", "before"), [("haproxy", False), ("custom", False), ("none", True)])
    def test_the_time_to_drain_goes_on_from_one_to_the_next(self, provider, before, skew):
        rules = [{"name": "impatient", "on_drain_timeout": "approve"}]
        model = Model(rules=rules, load_balancer={"provider": provider}, drain_host={"steps": [BEFORE] if before else []})
        model.skew = {"web1": skew, "lb1": skew}
        model.announce("e1", "web1")
        model.hosts["web1"]["connections"] = [{"port": 80, "peer": "10.0.0.77", "count": 1}]
        for _minute in range(5):
            self.run(model)
            if model.posted:
                break
            model.now += 60
        assert 120 <= model.posted[0][0] - (model.events["e1"]["not_before_at"] - 900) < 200

    def test_a_vm_of_a_strangers_name_is_none_of_the_targets_in_the_next_one(self):
        model = Model(hosts=3, unknown_resources="ignore")
        model.announce("e1", "web1", "vm_web2", shown_to=["web1"])
        for _minute in range(2):
            assert model.posted == []
            self.run(model)
            model.now += 60
        assert len(model.posted) == 1 and model.in_rotation("web2") == ["lb1"]

    def over_and_not_restored(self):
        model = Model()
        model.announce("e1", "web1")
        for _minute in range(3):
            self.run(model)
            model.now += 60
        model.over("e1")
        model.refuse["web1", "restore_service"] = "web.service does not start"
        return model

    def test_a_host_that_is_not_restored_in_time_needs_a_person(self):
        """Each of them knows from the record since when it is tried."""
        model = self.over_and_not_restored()
        failed = []
        for _minute in range(7):
            failed.append(self.run(model)["failed_run"])
            model.now += 60
        assert failed == [False] * 5 + [True] * 2
        # One that was mended meanwhile needs nobody.
        said = model.refuse.pop(("web1", "restore_service"))
        twin = copy.deepcopy(model)
        assert not self.run(twin)["failed_run"] and not twin.held("web1")
        model.refuse["web1", "restore_service"] = said
        # Another event comes, and its end is a beginning.
        model.announce("e2", "web1")
        self.run(model)
        model.now += 60
        model.over("e2")
        assert not self.run(model)["failed_run"] and not self.run(model)["failed_run"]
        model.refuse.clear()
        assert not self.run(model)["failed_run"]
        assert model.in_rotation("web1") == ["lb1"] and not model.held("web1")

    def test_a_run_after_them_tries_for_itself(self):
        model = self.over_and_not_restored()
        self.run(model)
        model.now += 600
        model.refuse.clear()
        model.killed()
        model.run = dict(model.run, wait=True)
        assert not model.finish()["failed_run"] and not model.held("web1")

    def test_what_fails_is_tried_again_for_some_time(self):
        model = Model(drain_host={"steps": [service("web.service")]})
        model.announce("e1", "web1")
        self.run(model)
        model.refuse["web1", "drain_host"] = "still stopping"
        model.killed()
        began, outcome = model.now, None
        while outcome is None or outcome["once_more"]:
            outcome = model.go()
        assert 30 <= model.now - began < 40 and outcome["failed_run"] and any("still stopping" in message for message in outcome["messages"])

    def test_members_of_whom_each_fails_in_turn_are_not_tried_for_ever(self):
        model = Model(min_in_service=0)
        model.announce("e1", "web1", "web2")
        self.run(model)
        for name in model.names:
            model.refuse[name, "approve_event"] = "500"
        model.killed()
        began, outcome = model.now, None
        while outcome is None or not outcome["finished"] or outcome["once_more"]:
            outcome = model.go()
        assert 30 <= model.now - began < 45 and outcome["failed_run"]

    def test_nothing_to_see_twice(self):
        model = Model()
        self.run(model)
        assert model.number == 1


class TestOverIsSeenTwice:
    """One wrong answer in the middle of an impact must not bring a host back."""

    def in_mid_impact(self):
        model = Model(hosts=1)
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        model.start("e1")
        assert state(model.go(), "web1") == "started"
        return model

    def test_the_impact_is_told_before_what_the_next_event_needs(self):
        model = self.in_mid_impact()
        model.announce("e2", "web1")
        model.hosts["web1"]["connections"] = [{"port": 80, "peer": "10.9.9.9", "count": 1}]
        model.settings["web1"]["drain_host"]["ports"] = [80]
        outcome = model.go()
        assert result(outcome, "e2")["hosts"]["web1"]["state"] == "draining"
        assert state(outcome, "web1") == "started" and outcome["hosts"]["web1"]["event"] == "Reboot e1"

    def taken_out_on_trust(self, trouble):
        """web1's own service tells nothing (C(trouble)); it is out because web2 shows the event."""
        model = Model(hosts=2, min_in_service=0)
        model.settings["web1"]["resource_name"] = "vm_web1"
        model.hosts["web1"][trouble] = True
        model.announce("e1", "web1", "web2", shown_to=["web2"])
        model.until(lambda outcome: model.in_rotation("web1") == [], 6)
        return model

    def test_one_look_without_the_event(self):
        model = self.in_mid_impact()
        event = model.events.pop("e1")
        model.expects_nothing("web1")  # its look did not read again
        outcome = model.go()
        # It was read, and nothing has changed for it.
        assert state(outcome, "web1") == "started" and "second look" in outcome["hosts"]["web1"]["reason"]
        assert result(outcome, "e1")["outcome"] == "in_progress" and model.turn("web1")["options"]["wait"] == 0.0
        model.events["e1"] = event
        assert state(model.go(), "web1") == "started" and model.in_rotation("web1") == []
        # The first of the two looks is forgotten.
        del model.events["e1"]
        model.expects_nothing("web1")
        assert "second look" in model.go()["hosts"]["web1"]["reason"]
        assert model.go()["hosts"]["web1"]["step"]["role"] == "restore_service"
        assert model.finish()["failed_run"] is False

    def test_a_look_that_reads_it_twice_is_enough(self):
        model = self.in_mid_impact()
        model.over("e1")
        assert model.go()["hosts"]["web1"]["step"]["role"] == "restore_service"

    def test_one_document_with_a_greater_number_is_enough(self):
        model = self.in_mid_impact()
        assert model.turn("web1")["options"]["shown_in"] == {"e1": model.incarnation}
        model.over("e1")
        model.expects_nothing("web1")
        assert model.go()["hosts"]["web1"]["step"]["role"] == "restore_service"

    def test_one_with_a_smaller_number_is_not(self):
        model = self.in_mid_impact()
        model.over("e1")
        model.incarnation = 1
        model.expects_nothing("web1")
        assert "second look" in model.go()["hosts"]["web1"]["reason"]
        assert model.go()["hosts"]["web1"]["step"]["role"] == "restore_service"

    def test_nor_is_one_if_nobody_knows_the_number_before(self):
        """A run that was killed leaves records, which have no numbers."""
        model = self.in_mid_impact()
        model.killed()
        model.over("e1")
        assert "second look" in model.go()["hosts"]["web1"]["reason"]

    @pytest.mark.parametrize("seconds", [1.0, 3.0])
    def test_one_that_is_not_younger_than_the_hold_proves_nothing(self, seconds):
        """The clocks tell that only to two seconds."""
        model = Model(hosts=1)
        model.announce("e1", "web1")
        model.until(lambda outcome: model.in_rotation("web1") == [])
        model.now += seconds - model.pass_seconds
        model.over("e1")
        model.expects_nothing("web1")
        role = (model.go()["hosts"]["web1"]["step"] or {}).get("role")
        assert (role == "restore_service") is (seconds > 2.0)

    def test_a_clock_that_is_set_back_between_two_reads_keeps_nobody_out(self):
        """The controller's. Those of the machines are right."""
        model = self.in_mid_impact()
        model.killed()
        model.over("e1")
        assert "second look" in model.go()["hosts"]["web1"]["reason"]
        model.now -= 1800
        model.skew = dict.fromkeys(("web1", "lb1"), 1800)
        model.until(lambda outcome: model.in_rotation("web1"), passes=6)

    def test_an_empty_body_ends_nothing_that_is_held(self):
        model = self.in_mid_impact()
        model.hosts["web1"]["empty_body"] = True
        for _pass in range(5):
            outcome = model.go()
            assert state(outcome, "web1") == "started" and "empty body" in outcome["hosts"]["web1"]["reason"]
        model.hosts["web1"]["empty_body"] = False
        assert state(model.go(), "web1") == "started" and model.in_rotation("web1") == []
        model.over("e1")
        assert not model.finish()["failed_run"] and model.in_rotation("web1") == ["lb1"]

    def test_an_empty_body_ends_nothing_that_is_still_to_come(self):
        model = Model(hosts=1, rules=[{"name": "later", "action": "prepare", "lead_time": 60}])
        model.announce("e1", "web1", notice=600.0)
        assert state(model.go(), "web1") == "waiting"
        model.hosts["web1"]["empty_body"] = True
        for _pass in range(5):
            assert not model.go()["finished"]
            assert state(model.outcome, "web1") == "waiting" and "still to come" in model.outcome["hosts"]["web1"]["reason"]
        # Nobody is held for it, and its time is over.
        model.now += 600
        assert result(model.finish(passes=5), "e1")["outcome"] == "completed"

    @pytest.mark.parametrize("when", ["from the start", "later"])
    def test_an_empty_body_hides_nothing_that_a_neighbour_shows(self, when):
        model = Model(hosts=3)
        model.hosts["web3"]["empty_body"] = when == "from the start"
        model.announce("e1", "web3")
        model.go()
        model.hosts["web3"]["empty_body"] = True
        for _pass in range(6):
            assert not model.go()["finished"]
        # Only itself can approve it, as soon as it tells of it again.
        assert model.in_rotation("web3") == [] and model.posted == []
        model.hosts["web3"]["empty_body"] = False
        model.until(lambda outcome: model.posted, passes=6)

    @pytest.mark.parametrize("action", ["prepare_and_approve", "approve"])
    def test_nothing_is_approved_on_an_empty_body(self, action):
        """Another VM of that name may be meant."""
        model = Model(hosts=2, rules=[{"name": "any", "action": action}], min_in_service=0)
        model.hosts["web1"]["empty_body"] = True
        model.announce("e1", "web1", "web2", shown_to=["web2"])
        for _pass in range(10):
            model.go()
        assert model.posted == [] and "empty body" in model.outcome["hosts"]["web1"]["reason"]
        model.hosts["web1"]["empty_body"] = False
        model.events["e1"]["shown_to"] = ["web1", "web2"]
        model.until(lambda outcome: model.posted, 8)

    def test_whoever_did_not_show_it_for_some_seconds_is_not_meant_whatever_comes_later(self):
        model = Model(hosts=2, min_in_service=0)
        model.announce("e1", "web1", "web2", shown_to=["web2"])
        while model.now - model.run["started"] <= LAG + 6:
            model.go()
        for trouble in ("empty_body", "service_silent"):
            model.hosts["web1"][trouble] = True
            for _pass in range(4):
                model.go()
            model.hosts["web1"][trouble] = False
        assert model.posted == [] and model.in_rotation("web1") == ["lb1"] and model.in_rotation("web2") == []

    def test_whoever_was_taken_out_for_a_namesake_comes_back_though_the_event_stands(self):
        model = Model(hosts=2, min_in_service=0)
        model.hosts["web1"]["empty_body"] = True
        model.announce("e1", "web1", "web2", shown_to=["web2"])
        model.until(lambda outcome: model.in_rotation("web1") == [], 5)
        model.hosts["web1"]["empty_body"] = False
        model.until(lambda outcome: model.in_rotation("web1") == ["lb1"], 30)
        assert model.events["e1"] and model.in_rotation("web2") == [] and model.posted == []
        assert model.now - model.run["started"] >= LAG

    @pytest.mark.parametrize("trouble", ["empty_body", "service_silent"])
    def test_a_service_that_lags_when_it_comes_back_ends_nothing_in_mid_impact(self, trouble):
        """The others have shown the event for long; its own has not had the time."""
        model = self.taken_out_on_trust(trouble)
        for _pass in range(8):
            model.go()
        model.start("e1")
        model.hosts["web1"][trouble] = False
        for _pass in range(20):
            model.go()
            assert model.in_rotation("web1") == []
        assert "stays out until the event is over" in model.outcome["events"][0]["hosts"]["web1"]["reason"]
        model.over("e1")
        assert not model.finish()["failed_run"] and model.in_rotation("web1") == ["lb1"]

    def test_whoever_is_approved_stays_out_whatever_its_service_shows(self):
        model = Model(hosts=2, min_in_service=0)
        model.settings["web1"]["resource_name"] = "vm_web1"
        model.hosts["web1"]["service_silent"] = True
        model.announce("e1", "web1", "web2", shown_to=["web2"])
        model.until(lambda outcome: model.posted, 20)
        model.hosts["web1"]["service_silent"] = False
        for _pass in range(20):
            model.go()
            assert model.in_rotation("web1") == []

    @pytest.mark.parametrize("between", [2.0, 30.0], ids=["looks every 2 s", "looks every 30 s"])
    @pytest.mark.parametrize("back", [0.0, 3600.0], ids=["steady clock", "clock set back"])
    def test_whoever_was_silent_until_it_was_over_comes_back(self, between, back):
        model = Model(hosts=2, min_in_service=0)
        model.pass_seconds = between
        model.settings["web1"]["resource_name"] = "vm_web1"
        model.hosts["web1"]["silent"] = True
        model.announce("e1", "web1", "web2", shown_to=["web2"])
        model.until(lambda outcome: model.in_rotation("web1") == [], 4)
        model.start("e1")
        model.go()
        model.hosts["web1"]["silent"] = False
        model.over("e1")
        model.go()
        model.now -= back
        model.seen = {}
        assert not model.finish(passes=30)["failed_run"]
        assert model.in_rotation("web1") == ["lb1"]

    @pytest.mark.parametrize("trouble", ["empty_body", "service_silent"])
    def test_nothing_is_approved_while_a_service_lags_that_was_silent(self, trouble):
        model = Model(hosts=2, min_in_service=0, unknown_resources="ignore")
        model.settings["web1"]["resource_name"] = "vm_web1"
        model.hosts["web1"][trouble] = True
        model.servers["lb1"]["web1"]["sessions"] = 3
        model.announce("e1", "web1", "web2", shown_to=["web2"])
        for _pass in range(10):
            model.go()
        model.hosts["web1"][trouble] = False
        began = model.now
        while model.now - began < LAG:
            model.go()
            assert model.posted == []

    def test_a_service_that_lags_when_it_comes_back_ends_nothing_although_the_others_are_down(self):
        model = self.taken_out_on_trust("service_silent")
        model.start("e1")
        model.go()
        model.hosts["web2"]["silent"] = True  # it is being rebooted
        model.hosts["web1"]["service_silent"] = False
        began = model.now
        while model.now - began < LAG:
            model.go()
            assert model.in_rotation("web1") == []
        model.events["e1"]["shown_to"] = ["web1", "web2"]
        model.go()
        assert state(model.outcome, "web1") == "started"

    def test_a_witness_that_cannot_be_asked_any_more_keeps_no_run_going(self):
        model = self.taken_out_on_trust("service_silent")
        model.hosts["web2"]["fatal"] = "the record cannot be used"
        model.hosts["web1"]["service_silent"] = False
        model.over("e1")
        outcome = model.finish()
        assert model.now - model.run["started"] < 400 and model.in_rotation("web1") == ["lb1"] and outcome["failed_run"]

    def test_a_vm_that_is_deleted_ends_nothing_for_another_that_tells_nothing(self):
        model = Model(hosts=2, min_in_service=0)
        model.hosts["web2"]["empty_body"] = True
        model.announce("e1", "web1", "web2", event_type="Terminate", shown_to=["web1"])
        model.until(lambda outcome: model.in_rotation("web2") == [], 6)
        model.start("e1")
        model.go()
        model.hosts["web1"]["silent"] = True
        for _pass in range(30):
            model.go()
        assert state(model.outcome, "web2") == "started" and "empty body" in model.outcome["hosts"]["web2"]["reason"]

    @pytest.mark.parametrize("action", ["prepare_and_approve", "approve", "ignore"])
    def test_an_empty_body_keeps_no_run_going_where_nothing_is_held(self, action):
        model = Model(hosts=2, min_in_service=2, rules=[{"name": "any", "action": action}])
        model.hosts["web1"]["empty_body"] = True
        model.announce("e1", "web1", status="Started", shown_to=["web2"])
        model.servers["lb1"]["web1"]["admin_state"] = "maint"  # an operator's
        model.go()
        assert not model.held("web1")
        model.over("e1")
        model.finish(passes=10)

    @pytest.mark.parametrize("every", [4, 6])
    def test_a_service_that_fails_now_and_then_keeps_no_host_out(self, every):
        model = Model(hosts=2, min_in_service=0)
        model.settings["web1"]["resource_name"] = "vm_web1"
        model.hosts["web1"]["service_silent"] = True
        model.announce("e1", "web1", shown_to=["web2"])
        model.until(lambda outcome: model.in_rotation("web1") == [], 6)
        model.over("e1")
        for number in range(30):
            model.hosts["web1"]["service_silent"] = number % every == 0
            model.go()
        assert model.in_rotation("web1") == ["lb1"]

    def test_a_witness_that_does_not_come_back_keeps_no_run_going(self):
        model = Model(hosts=2, rules=[{"name": "any", "action": "approve"}], min_in_service=0)
        model.settings["web1"]["resource_name"] = "vm_web1"
        model.hosts["web1"]["service_silent"] = True
        model.announce("e1", "web1", "web2", shown_to=["web2"])
        model.until(lambda outcome: model.posted, 6)
        model.start("e1")
        model.go()
        model.hosts["web2"]["silent"] = True
        model.hosts["web1"]["service_silent"] = False
        model.over("e1")
        model.finish(passes=400)
        assert model.now - model.run["started"] < 400

    def test_a_namesake_tells_nothing_of_the_end(self):
        model = Model(hosts=2, min_in_service=0, rules=[{"name": "late", "lead_time": 300.0}])
        model.hosts["web1"]["empty_body"] = True
        model.announce("e1", "web1", "web2", shown_to=["web2"])
        model.go()
        model.hosts["web1"]["empty_body"] = False
        for _pass in range(10):
            model.go()
        model.hosts["web2"]["empty_body"] = True
        for _pass in range(3):
            assert not model.go()["finished"]

    def test_the_only_one_that_it_names_is_waited_for_while_its_service_lags(self):
        model = Model(hosts=2, min_in_service=0)
        model.hosts["web1"]["empty_body"] = True
        model.announce("e1", "web1", shown_to=["web2"])
        model.go()
        model.hosts["web1"]["empty_body"] = False
        observe, began = model.observe_host, model.now
        # Its document is older than the one that shows the event.
        model.observe_host = lambda name: dict(observe(name), document_incarnation=1 if name == "web1" else 2)
        while model.now - began < LAG:
            assert not model.go()["finished"] and model.in_rotation("web1") == []
        model.events["e1"]["shown_to"] = ["web1", "web2"]
        model.until(lambda outcome: model.posted, 8)

    def test_who_answered_empty_and_then_nothing_at_all_is_not_approved(self):
        model = Model(hosts=2, min_in_service=0)
        model.hosts["web1"]["empty_body"] = True
        model.announce("e1", "web1", "web2", shown_to=["web2"])
        for _pass in range(6):
            model.go()
        model.hosts["web1"].update(service_silent=True, empty_body=False)
        for _pass in range(4):
            model.go()
        assert model.posted == []

    def test_a_name_that_is_added_later_has_its_own_time(self):
        model = Model(hosts=2, min_in_service=0)
        model.announce("e1", "web2", shown_to=["web2"])
        for _pass in range(10):
            model.go()
        model.events["e1"]["resources"] = ["vm_web1", "vm_web2"]
        model.go()
        model.hosts["web1"]["empty_body"] = True
        model.until(lambda outcome: model.in_rotation("web1") == [], 5)

    def test_records_that_cannot_be_read_may_hold_something(self):
        model = Model(hosts=1)
        seen = dict(model.observe_host("web1"), fatal="the record cannot be used", holds=None)
        model.observe_host = lambda name: dict(seen, at=model.now)
        assert not model.go()["finished"]
        outcome = model.finish()
        assert outcome["failed_run"] and model.now - model.run["started"] >= 10

    def test_a_run_that_takes_one_step_looks_twice(self):
        model = self.in_mid_impact()
        model.events.clear()
        model.killed()
        model.run = dict(model.run, wait=False, look_twice=True)
        assert not model.go()["finished"] and model.in_rotation("web1") == []
        assert model.go()["finished"] and model.in_rotation("web1") == ["lb1"]


@pytest.mark.parametrize("provider", ["haproxy", "custom", "none"])
def test_the_time_to_drain_begins_anew_for_an_event_that_is_shown_again(provider):
    """Documents without it have proved that it is over, and a later one has it."""
    model = Model(rules=[{"name": "r", "on_drain_timeout": "approve"}], timeout=1e5, min_in_service=0, load_balancer={"provider": provider})
    model.hosts["web1"]["connections"] = [{"port": 80, "peer": "10.9.9.9", "count": 1}]
    model.announce("e1", "web1", notice=7200.0)
    model.announce("e2", "web2", event_type="Freeze", status="Started")
    for _pass in range(20):
        model.go()
    event = model.events.pop("e1")
    model.incarnation += 1
    for _pass in range(5):
        model.go()
    assert not model.held("web1") and not model.posted
    model.now += 300
    model.events["e1"] = event
    model.incarnation += 1
    model.go()
    began = model.now
    model.until(lambda outcome: model.posted)
    assert model.now - began >= 110


def test_the_rule_of_an_event_that_was_over_does_not_decide_on_another_one_of_its_id():
    model = Model(hosts=3, timeout=1e5)
    # Keeps the run going.
    model.announce("e2", "web3", event_type="Freeze", status="Started")
    model.announce("e1", "web2")
    model.until(lambda outcome: model.posted)
    model.over("e1")
    model.until(lambda outcome: model.in_rotation("web2"))
    model.now += 60
    model.announce("e1", "web1", event_type="Upgrade")
    for _pass in range(20):
        model.go()
    assert len(model.posted) == 1 and model.in_rotation("web1") == []


def test_an_event_that_was_over_does_not_count_as_approved_if_it_is_shown_again():
    model = Model(hosts=3, timeout=1e5, min_in_service=2)
    model.announce("e1", "web2")
    model.until(lambda outcome: model.posted)
    # Keeps the run going, and the minimum from being met.
    model.announce("e2", "web3", event_type="Freeze", status="Started")
    model.over("e1")
    model.until(lambda outcome: model.in_rotation("web2"))
    model.now += 60
    model.announce("e1", "web1", notice=7200.0)
    for _pass in range(20):
        model.go()
    assert model.in_rotation("web3") == [] and model.in_rotation("web1") and len(model.posted) == 1


def test_services_that_came_back_are_stopped_again_for_an_event_that_is_shown_again():
    """Two documents without it in the middle of its impact: the host was given back, and more of the impact may follow."""
    model = Model(hosts=1, drain_host={"steps": [service()]})
    model.announce("e1", "web1")
    model.until(lambda outcome: model.posted)
    model.start("e1")
    model.go()
    event = model.events["e1"]
    model.over("e1")
    model.until(lambda outcome: model.in_rotation("web1"))
    model.events["e1"] = event
    model.incarnation += 1
    model.until(lambda outcome: "drained" in model.hosts["web1"]["tasks"], passes=8)
    assert model.in_rotation("web1") == [] and len(model.posted) == 1


def test_whoever_goes_out_whatever_the_minimum_says_is_counted_out_by_the_others():
    """After a reload an approved host is in rotation again, and so is one whose event comes sooner and may wait."""
    model = Model(hosts=3, min_in_service="50%")
    model.announce("e2", "web2", notice=600.0)
    model.until(lambda outcome: model.posted, 10)
    model.announce("e1", "web1", notice=300.0)
    for server in model.servers["lb1"].values():
        server.update(admin_state="ready", process=2)
    model.seen.clear()
    model.go()
    assert model.in_rotation("web2") == [] and model.in_rotation("web1") == ["lb1"]


class TestNobodyWatches:
    """A target that cannot be reached, and of which no event tells, is not watched by anybody: no success."""

    def test_a_run_waits_for_it_and_fails(self):
        model = Model(hosts=3)
        model.hosts["web3"]["silent"] = True
        began = model.now
        outcome = model.finish()
        assert outcome["failed_run"] and model.now - began >= 30
        (message,) = outcome["messages"]
        assert message.startswith("web3: it cannot be reached") and "timed out" in message and "graceful_azure_may_be_off" in message
        assert outcome["unread"] == {"web3": "timed out"}

    @pytest.mark.parametrize("named", ["web2", "vm_7"])
    def test_a_neighbour_shows_an_event_for_a_name_that_may_be_its_own(self, named):
        """It was said that no event was known that names it."""
        model = Model(hosts=2)
        model.hosts["web2"].update(silent=True, azure_name=named)
        model.announce("e1", "web2", notice=3600.0)
        model.run["wait"] = False
        (message,) = model.finish()["messages"]
        assert message.startswith(
            f"web2: it cannot be reached: timed out; web1 shows Reboot e1 for {named}, which may be this host: set graceful_azure_resource_name."
        )

    def test_nor_does_one_tell_its_name_whose_metadata_service_cannot_be_read(self):
        model = Model(hosts=2)
        model.hosts["web2"]["service_silent"] = True
        model.announce("e1", "web2", notice=3600.0)
        model.run["wait"] = False
        (message,) = model.finish()["messages"]
        assert message == (
            "web2: its metadata service cannot be read: no answer; web1 shows Reboot e1 for vm_web2, which may be this host: set graceful_azure_resource_name"
        )

    def test_a_host_that_refuses_ssh_is_not_off(self):
        model = Model(hosts=2)
        model.hosts["web2"]["silent"] = "Failed to connect to the host via ssh: Host key verification failed."
        (message,) = model.finish()["messages"]
        assert message.endswith("Host key verification failed. Mend it, or leave it out of the target")

    def test_what_answers_and_is_too_slow_is_not_called_silent(self):
        model = Model(hosts=1)
        model.hosts["web1"]["slow"] = True
        outcome = model.finish()
        assert outcome["messages"] == [
            "web1: it cannot be read, and no event is known that names it, so nobody watches it: the machine is reached,"
            " but did not finish its answer within 5 s."
            " Set handle_events_observe_timeout, such as to 30, or leave it out of the target",
            "none of the targets could be read",
        ]

    def test_one_slow_look_at_a_host_and_its_balancer_needs_nobody(self):
        model = Model(balancers=("lb1", "lb2"))
        model.announce("e1", "web1")
        model.go()
        # Behind a health probe, both are one machine.
        model.hosts["web1"]["slow"] = True
        for name in ("lb1", "lb2"):
            model.down_balancers[name] = {"reached": False, "cut_off": 5.0, "error": "did not finish its answer within 5 s"}
        assert state(model.go(), "web1") == "unobserved"
        model.hosts["web1"]["slow"] = False
        model.down_balancers.clear()
        model.until(lambda outcome: state(outcome, "web1") == "draining")

    @pytest.mark.parametrize("mode", [{"look_twice": True}, {"check": True}], ids=["one step", "check mode"])
    def test_nor_does_a_run_of_one_step_ask_for_somebody_while_it_looks_again(self, mode):
        def slow_model():
            model = Model(hosts=3)
            model.announce("e1", "web1")
            model.run.update(wait=False, **mode)
            model.pass_seconds = 11.0
            model.down_balancers["lb1"] = {"reached": False, "cut_off": 11.0, "error": "did not finish its answer within 11 s", "began": model.now}
            return model

        model = slow_model()
        outcome = model.go()
        assert not outcome["finished"] and state(outcome, "web1") == "waiting"
        model.down_balancers.clear()
        outcome = model.go()
        assert state(outcome, "web1") == "draining" and not outcome["failed_run"]
        model = slow_model()
        while not model.go()["finished"]:
            assert state(model.outcome, "web1") == "waiting"
            # It is not left alone meanwhile, as by a run that has other things to do.
            assert any("lb1" in turn["name"] and "options" in turn for turns in model.outcome["turns"].values() for turn in turns)
            model.down_balancers["lb1"]["began"] = model.now
        assert model.number == 4 and state(model.outcome, "web1") == "needs_person" and model.outcome["failed_run"]

    def test_nor_while_an_event_names_it(self):
        model = Model()
        model.announce("e1", "web1")
        model.until(lambda outcome: model.held("web1"))
        model.hosts["web1"]["slow"] = True
        outcome = model.go()
        assert state(outcome, "web1") == "unobserved"
        assert outcome["hosts"]["web1"]["reason"] == "the machine is reached, but did not finish its answer within 5 s"

    def test_it_may_come_back_meanwhile(self):
        model = Model()
        model.hosts["web2"]["silent"] = True
        assert not model.go()["finished"]
        model.hosts["web2"]["silent"] = False
        assert not model.finish(passes=3)["failed_run"]

    def test_a_run_that_takes_one_step_looks_again_and_fails(self):
        model = Model(wait=False)
        model.run["look_twice"] = True
        model.hosts["web2"]["silent"] = True
        assert not model.go()["finished"]
        outcome = model.go()
        assert outcome["finished"] and outcome["failed_run"]

    def test_a_host_that_may_be_off(self):
        model = Model()
        model.settings["web2"]["may_be_off"] = True
        model.hosts["web2"]["silent"] = True
        outcome = model.go()
        assert outcome["finished"] and not outcome["failed_run"] and outcome["unread"] == {"web2": "timed out"}

    def test_a_member_that_another_tells_of_is_watched(self):
        model = Model(hosts=3, wait=False)
        model.settings["web1"]["resource_name"] = model.hosts["web1"]["azure_name"]
        model.hosts["web1"]["silent"] = True
        model.announce("e1", "web1", status="Started")
        outcome = model.go()
        assert outcome["finished"] and not outcome["failed_run"], outcome["messages"]

    @pytest.mark.parametrize("event_type", ["Preempt", "Terminate"])
    @pytest.mark.parametrize("killed", [False, True], ids=["same run", "later run"])
    def test_a_vm_that_was_deleted(self, event_type, killed):
        model = Model(hosts=2)
        model.announce("e1", "web1", event_type=event_type)
        model.until(lambda outcome: model.posted)
        model.start("e1")
        model.go()
        model.hosts["web1"]["silent"] = True
        model.over("e1")
        model.now += 60
        if killed:
            model.killed()
        outcome = model.finish()
        assert not outcome["failed_run"], outcome["messages"]


class TestAMistakeThatOnlyAPersonCanMend:
    def test_the_run_ends_soon_where_nothing_else_is_to_be_done(self):
        model = Model()
        model.announce("e1", "web1")
        model.down_balancers["lb1"] = {"reached": False, "fatal": "There is no HAProxy socket"}
        began = model.now
        outcome = model.finish()
        assert outcome["failed_run"] and 30 <= model.now - began < 45

    def test_a_host_that_was_just_taken_out_is_not_left_alone(self):
        """The balancer fails before any look has read the record of the hold."""
        model = Model()
        model.announce("e1", "web1", notice=600)
        took = model._take

        def take(name, step):
            took(name, step)
            if step["role"] == "load_balancer":
                model.down_balancers["lb1"] = {"reached": False, "fatal": "There is no HAProxy socket"}

        model._take = take
        model.until(lambda outcome: model.down_balancers)
        began = model.now
        model.until(lambda outcome: model.now > began + 100)
        assert not model.outcome["finished"] and model.outcome["hosts"]["web1"]["state"] == "needs_person"
        model.down_balancers.clear()
        model.until(lambda outcome: model.posted)
        model.over("e1")
        assert not model.finish()["failed_run"] and model.in_rotation("web1") == ["lb1"]

    def test_one_of_two_balancers_where_nobody_was_taken_out(self):
        model = Model(balancers=("lb1", "lb2"), min_in_service=2)
        model.announce("e1", "web1", "web2", notice=7200)
        model.down_balancers["lb2"] = {"reached": False, "fatal": "There is no HAProxy socket"}
        began = model.now
        outcome = model.finish()
        assert outcome["failed_run"] and 30 <= model.now - began < 45

    def test_whoever_is_out_is_brought_back_first(self):
        model = Model(balancers=("lb1", "lb2"))
        model.announce("e1", "web1", notice=300)
        model.down_balancers["lb2"] = {"reached": False, "fatal": "There is no HAProxy socket"}
        began = model.now
        model.until(lambda outcome: model.now > began + 100)
        assert not model.outcome["finished"] and model.in_rotation("web1") == ["lb2"]
        model.over("e1")
        outcome = model.finish()
        assert outcome["failed_run"] and model.in_rotation("web1") == ["lb1", "lb2"]


def test_a_server_in_an_operators_maintenance_is_told_as_that():
    model = Model()
    model.servers["lb1"]["web1"]["admin_state"] = "maint"
    said = model.go()["hosts"]["web1"]
    assert said["state"] == "in_service"
    assert said["reason"] == "nothing of ours keeps it out, but an operator's maintenance does (www/web1 on lb1 is in maint); no event names it"
    assert (said["state"], said["shown"]) == ("in_service", "left out")


class TestArrivals:
    """A server that is out and still gets sessions is not drained, whatever its state says."""

    @staticmethod
    def quiet(model, seconds):
        for values in model.settings.values():
            values["load_balancers"][0]["quiet"] = seconds
        return model

    @staticmethod
    def served(model, passes, name="web1", lb="lb1"):
        """Passes with a session between any two looks, each over by the next look."""
        for _pass in range(passes):
            model.servers[lb][name]["total"] += 2
            outcome = model.go()
            assert state(outcome, name) in ("draining", "waiting") and model.posted == [], outcome["hosts"][name]
        return outcome

    def closed(self):
        """Out in maint, and the balancer has loaded nothing that could send it anything."""
        model = self.quiet(Model(load_balancer={"state": "maint"}, drain_host={"ports": []}), 60.0)
        model.servers["lb1"]["web1"]["nothing_comes"] = True
        model.announce("e1", "web1")
        model.go()
        assert model.servers["lb1"]["web1"]["admin_state"] == "maint" and model.machine_turns("lb1")[-1]["options"]["quiet"] > 0
        return model

    def test_where_nothing_can_come_two_idle_looks_are_enough(self):
        model = self.closed()
        outcome = model.go()
        assert model.posted == [] and "one more look" in outcome["hosts"]["web1"]["reason"]
        (look,) = [turn["options"] for turn in model.machine_turns("lb1")]
        assert (look["wait_for"], look["quiet"]) == (["web1"], 0.0)
        model.go()
        assert [event_id for _at, event_id, _by in model.posted] == ["e1"]

    def test_a_request_that_goes_on_there_keeps_it_busy(self):
        model = self.closed()
        model.servers["lb1"]["web1"]["sessions"] = 1
        for _pass in range(5):
            model.go()
        assert model.posted == []

    def test_where_something_has_come_all_the_same_the_time_counts(self):
        model = self.closed()
        self.served(model, 2)
        since = model.now
        model.until(lambda outcome: model.posted, 60)
        assert model.now - since >= 60.0

    def test_at_another_balancer_it_counts(self):
        model = self.quiet(Model(balancers=("lb1", "lb2"), load_balancer={"state": "maint"}, drain_host={"ports": []}), 20.0)
        model.servers["lb1"]["web1"]["nothing_comes"] = True
        model.announce("e1", "web1")
        since = model.now
        model.until(lambda outcome: model.posted, 60)
        assert model.now - since >= 20.0

    def test_out_by_use_server_it_goes_on_to_maint_and_is_drained_then(self):
        model = self.quiet(Model(), 3.0)
        model.announce("e1", "web1")
        model.go()
        assert model.servers["lb1"]["web1"]["admin_state"] == "drain"
        self.served(model, 1)
        assert model.servers["lb1"]["web1"]["admin_state"] == "maint"
        outs = [role for _at, name, role, _ids in model.steps if role == "load_balancer"]
        assert len(outs) == 2
        model.until(lambda outcome: model.posted, 6)

    @pytest.mark.parametrize("given", [None, "drain", "maint"])
    def test_while_sessions_come_in_any_state_it_is_never_approved_and_told_why(self, given):
        model = self.quiet(Model(load_balancer={"state": given}), 3.0)
        model.announce("e1", "web1")
        model.go()
        outcome = self.served(model, 20)
        reason = outcome["hosts"]["web1"]["reason"]
        assert "sessions came to www/web1 on lb1 since" in reason
        for directive in ("use-server", "option persist", "force-persist", "stick"):
            assert directive in reason
        assert ("state: drain keeps it from going on to maint" in reason) == (given == "drain")
        assert model.servers["lb1"]["web1"]["admin_state"] == ("drain" if given == "drain" else "maint")
        assert len(outcome["events"]) == 1
        model.until(lambda outcome: model.posted, 6)

    def test_a_run_that_was_killed_begins_anew(self):
        model = self.quiet(Model(), 6.0)
        model.announce("e1", "web1")
        model.go()
        for _pass in range(6):
            model.go()
            model.go()
            model.killed()
            assert model.posted == []
        for _pass in range(3):
            model.go()
        assert model.posted == []
        model.go()
        assert len(model.posted) == 1

    def test_another_process_of_haproxy_begins_anew(self):
        model = self.quiet(Model(), 6.0)
        model.announce("e1", "web1")
        model.go()
        for _pass in range(3):
            model.go()
        for server in model.servers["lb1"].values():
            server.update(process=2, admin_state="drain" if server["record"] else "ready")
            if server["record"]:
                server["record"]["process"] = 2
        for _pass in range(3):
            model.go()
        assert model.posted == []
        model.go()
        assert len(model.posted) == 1

    def test_a_look_that_was_not_taken_anew_is_no_second_one(self):
        """The balancer's own clock counts, not the passes."""
        model = self.quiet(Model(), 3.0)
        model.announce("e1", "web1")
        model.go()
        seen = model.observe_balancer("lb1")
        fresh = model.observe_balancer
        model.observe_balancer = lambda lb: copy.deepcopy(seen)
        for _pass in range(10):
            model.go()
        assert model.posted == []
        model.observe_balancer = fresh
        model.until(lambda outcome: model.posted, 2)

    def test_one_look_that_waited_has_seen_the_span(self):
        model = self.quiet(Model(), 3.0)
        model.announce("e1", "web1")
        model.go()
        fresh = model.observe_balancer

        def waited(lb):
            seen = fresh(lb)
            for server in seen["servers"]:
                server["quiet_for"] = 3.1
            return dict(seen, look={"wait_for": ["web1"]}, servers=[dict(server, idle=True) for server in seen["servers"]])

        model.observe_balancer = waited
        model.hosts["web1"]["looks"] = 2
        model.settings["web1"]["drain_host"]["ports"] = []
        model.go()
        assert len(model.posted) == 1

    def test_approve_when_the_time_to_drain_is_over_keeps_its_meaning(self):
        model = self.quiet(Model(rules=[{"name": "r", "on_drain_timeout": "approve"}], drain_host={"timeout": 20.0}), 3.0)
        model.announce("e1", "web1")
        model.go()
        for _pass in range(15):
            model.servers["lb1"]["web1"]["total"] += 1
            model.go()
        assert len(model.posted) == 1 and model.posted[0][0] - 1_800_000_000.0 >= 20


class TestAbsent:
    """The passive machine of a pair runs no HAProxy."""

    @staticmethod
    def pair(setting="no_traffic"):
        model = Model(balancers=("lb1", "lb2"))
        for values in model.settings.values():
            values["load_balancers"][0]["absent"] = setting
        TestAbsent.passive(model, "lb2")
        return model

    @staticmethod
    def passive(model, lb):
        model.observe = model.observe_balancer if not hasattr(model, "observe") else model.observe
        model.passive = {lb}

        def observe(name):
            if name not in model.passive:
                return model.observe(name)
            return {
                "reached": True,
                "at": model.now,
                "time": iso(model.now),
                "clock": model.now,
                "process": None,
                "absent": True,
                "servers": [],
                "holds": model.observe(name)["holds"],
                "error": "no HAProxy runs there",
            }

        model.observe_balancer = observe

    def test_carries_no_traffic_where_the_settings_say_so(self):
        model = self.pair()
        model.down_balancers = {}
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted, 6)

    def test_is_not_known_otherwise(self):
        model = self.pair("unknown")
        model.announce("e1", "web1")
        for _pass in range(10):
            outcome = model.go()
        assert model.posted == [] and "lb2" in outcome["hosts"]["web1"]["reason"]

    def test_when_it_becomes_active_the_host_is_taken_out_there(self):
        model = self.pair()
        model.announce("e1", "web1", "web2")
        for values in model.settings.values():
            values["min_in_service"] = 0
        model.servers["lb1"]["web2"]["sessions"] = 1
        model.go()
        model.go()
        model.servers["lb2"]["web1"].update(admin_state="ready", record=None)
        model.passive.clear()
        model.go()
        assert model.servers["lb2"]["web1"]["admin_state"] == "drain"

    def test_at_least_one_of_them_must_run(self):
        model = self.pair()
        model.announce("e1", "web1")
        model.passive = {"lb1", "lb2"}
        for _pass in range(10):
            outcome = model.go()
        assert model.posted == [] and "no HAProxy runs on any of its balancers (lb1, lb2)" in outcome["hosts"]["web1"]["reason"]

    def test_one_that_is_only_restarted_is_not_passive_yet(self):
        model = self.pair()
        for values in model.settings.values():
            values["load_balancers"][0]["quiet"] = 5.0
        model.passive = set()
        model.servers["lb2"]["web1"]["sessions"] = 1
        model.announce("e1", "web1")
        for _pass in range(5):
            model.go()
        model.passive = {"lb2"}
        model.go()
        model.go()
        assert model.posted == []
