# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Approvals from outside: what is ready is approved although none of the VMs that the event names can send it; nothing else is."""

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.acts import acts_of
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.approval import APPROVAL_REPEAT, SILENT
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import read_document
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.observation import observe
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.without_role import is_due, judge

from tests.support.model import Model, service

RESOURCE = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/web"
OUTSIDE = {"through": "azure_resource_manager", "title": "Azure Resource Manager", "resource": RESOURCE, "access": {"client_id": "app"}}
UNREACHABLE, UNREAD = {"silent": True}, {"service_silent": True}


def world(hosts=3, silent=("web1",), how=None, allowed=True, **settings):
    """Some hosts are silent from the beginning; their names in Azure are in the inventory. HAProxy counts what is left."""
    model = Model(hosts=hosts, min_in_service=0, **{"drain_host": {"ports": []}, **settings})
    for name in model.names:
        model.settings[name].update(resource_name=f"vm_{name}", outside=OUTSIDE if allowed else None)
    for name in silent:
        model.hosts[name].update(how or UNREACHABLE)
    return model


def passes(model, number=20):
    for _number in range(number):
        outcome = model.go()
    return outcome


def reason(model, name):
    return model.outcome["hosts"][name]["reason"]


@pytest.mark.parametrize("how", [UNREACHABLE, UNREAD])
class TestSent:
    def test_for_a_silent_host_that_is_out_and_idle(self, how):
        model = world(how=how)
        began = model.now
        model.announce("e1", "web1")
        outcome = model.until(lambda outcome: model.acknowledged, 20)
        assert [(event_id, name) for _at, event_id, name in model.acknowledged] == [("e1", "web1")] and model.posted == []
        assert model.acknowledged[0][0] - began >= SILENT
        assert outcome["hosts"]["web1"]["state"] == "ready"
        assert reason(model, "web1") == "is being approved through Azure Resource Manager, since web1 cannot send it"
        model.go()
        assert model.outcome["hosts"]["web1"]["state"] == "approved"

    def test_for_several_that_are_silent(self, how):
        model = world(silent=("web1", "web2"), how=how)
        model.announce("e1", "web1", "web2")
        model.until(lambda outcome: model.acknowledged, 20)
        assert {reason(model, name) for name in ("web1", "web2")} == {"is being approved through Azure Resource Manager, since none of web1, web2 can send it"}
        assert len(passes(model, 5)["events"]) == 1 and len(model.acknowledged) == 1

    def test_again_after_a_minute_and_not_before(self, how):
        model = world(how=how)
        model.announce("e1", "web1")
        model.until(lambda outcome: len(model.acknowledged) == 2, 60)
        first, second = (at for at, _event_id, _name in model.acknowledged)
        assert APPROVAL_REPEAT <= second - first <= APPROVAL_REPEAT + 3 * model.pass_seconds

    def test_a_killed_run_is_followed_by_one_that_sends_it_again(self, how):
        model = world(how=how)
        model.announce("e1", "web1")
        model.until(lambda outcome: model.acknowledged, 20)
        model.killed()
        model.until(lambda outcome: len(model.acknowledged) == 2, 20)

    def test_and_the_event_is_seen_through(self, how):
        model = world(how=how)
        model.announce("e1", "web1")
        model.until(lambda outcome: model.acknowledged, 20)
        model.start("e1")
        passes(model, 3)
        model.hosts["web1"].update(silent=False, service_silent=False)
        model.over("e1")
        outcome = model.finish()
        assert not outcome["failed_run"] and outcome["events"][0]["outcome"] == "completed"
        assert model.in_rotation("web1") == ["lb1"]

    def test_by_another_host_or_witness_if_one_fails(self, how):
        model = world(hosts=4, silent=("web1", "web2"), how=how)
        model.announce("e1", "web1", "web2")
        model.refuse = {("web1", "approve_event"): "403"}
        model.until(lambda outcome: model.acknowledged, 20)
        assert [name for _at, _event_id, name in model.acknowledged] == ["web2"]

    def test_what_azure_refuses_is_told_and_needs_a_person_in_the_end(self, how):
        model = world(how=how)
        model.announce("e1", "web1")
        model.refuse = {("web1", "approve_event"): "The identity lacks the action X on the scope Y."}
        outcome = model.until(lambda outcome: outcome["hosts"]["web1"]["state"] == "needs_person", 60)
        assert "The identity lacks the action X on the scope Y." in outcome["hosts"]["web1"]["reason"] and model.acknowledged == []

    def test_by_witnesses_in_turn_after_a_failure(self, how):
        model = world(how=how)
        model.announce("e1", "web1")
        model.refuse = {("web1", "approve_event"): "web2 cannot be reached"}
        seen = set()
        for _number in range(20):
            seen.add((model.go()["hosts"]["web1"]["step"] or {}).get("witness"))
        assert seen == {None, "web2", "web3"}


class TestNeverSent:
    @pytest.mark.parametrize("how", [UNREACHABLE, UNREAD])
    def test_by_default(self, how):
        model = world(how=how, allowed=False)
        model.announce("e1", "web1")
        passes(model, 100)
        assert model.acknowledged == model.posted == [] and "Azure Resource Manager" not in str(model.outcome)
        assert "looks_outside" not in str(model.memory) and "found_ready" not in str(model.memory)

    def test_where_a_vm_of_the_event_can_send_it(self):
        model = world(how=UNREAD)
        model.announce("e1", "web1", "web2")
        model.until(lambda outcome: model.posted, 20)
        assert [name for _at, _event_id, name in model.posted] == ["web2"] and model.acknowledged == []

    def test_for_a_silent_host_beside_one_that_could_send_it(self):
        """What is not ready as it ever was is not approved: the judgement from outside is only for events that nobody can approve."""
        model = world()
        model.announce("e1", "web1", "web2")
        passes(model, 60)
        assert model.acknowledged == model.posted == []

    def test_unless_all_members_want_it(self):
        model = world(silent=("web1", "web2"), how=UNREAD)
        model.settings["web2"]["outside"] = None
        model.announce("e1", "web1", "web2")
        passes(model, 40)
        assert model.acknowledged == model.posted == []
        assert "only a VM that it names can approve it" in reason(model, "web1")

    def test_within_a_few_seconds_of_silence(self):
        model = world(silent=())
        model.announce("e1", "web1", event_type="Reboot")
        model.refuse = {("web1", "approve_event"): "no answer"}
        model.until(lambda outcome: outcome["hosts"]["web1"]["step"] and outcome["hosts"]["web1"]["step"]["role"] == "approve_event")
        model.refuse = {}
        for _number in range(10):
            model.hosts["web1"]["service_silent"] = not model.hosts["web1"]["service_silent"]
            model.go()
        assert model.acknowledged == [] and model.posted != []

    def test_while_sessions_are_left_at_a_balancer(self):
        model = world()
        model.servers["lb1"]["web1"]["sessions"] = 1
        model.announce("e1", "web1")
        passes(model, 40)
        assert model.acknowledged == [] and "do not say yet" in reason(model, "web1")
        model.servers["lb1"]["web1"]["sessions"] = 0
        model.until(lambda outcome: model.acknowledged, 10)

    def test_while_requests_still_come(self):
        model = world()
        model.announce("e1", "web1")
        for _number in range(40):
            model.servers["lb1"]["web1"]["total"] += 1
            model.go()
        assert model.acknowledged == []

    def test_before_the_time_without_a_request_is_over(self):
        model = world(load_balancer={"quiet": 40.0})
        began = model.now
        model.announce("e1", "web1")
        model.until(lambda outcome: model.acknowledged, 60)
        assert model.acknowledged[0][0] - began >= 40.0

    def test_while_a_balancer_cannot_be_read(self):
        model = world(balancers=("lb1", "lb2"))
        model.announce("e1", "web1")
        model.go()
        model.down_balancers["lb2"] = {"error": "no answer", "reached": False}
        passes(model, 40)
        assert model.acknowledged == []

    def test_after_one_look(self):
        model = world(how=UNREACHABLE)
        model.servers["lb1"]["web1"]["sessions"] = 1
        model.announce("e1", "web1")
        passes(model, 10)
        model.servers["lb1"]["web1"]["sessions"] = 0
        model.go()
        assert model.acknowledged == []

    def test_unprepared(self):
        model = world(rules=[{"name": "as it is", "when": None, "action": "approve", "lead_time": None, "on_drain_timeout": "hold"}])
        model.announce("e1", "web1", event_type="Freeze")
        passes(model, 40)
        assert model.acknowledged == []

    def test_because_the_time_to_drain_is_over(self):
        rule = {"name": "hurry", "when": None, "action": "prepare_and_approve", "lead_time": None, "on_drain_timeout": "approve"}
        model = world(rules=[rule], drain_host={"ports": [80], "timeout": 10.0})
        model.announce("e1", "web1")
        passes(model, 60)
        assert model.acknowledged == model.posted == []

    def test_if_a_rule_only_prepares(self):
        model = world(rules=[{"name": "p", "when": None, "action": "prepare", "lead_time": None, "on_drain_timeout": "hold"}])
        model.announce("e1", "web1")
        passes(model, 40)
        assert model.acknowledged == [] and "Azure" not in reason(model, "web1")

    @pytest.mark.parametrize("settings", [{}, {"unknown_resources": "hold"}])
    def test_for_strangers(self, settings):
        model = world(**settings)
        model.announce("e1", "web1", "somebody")
        passes(model, 40)
        assert model.acknowledged == []

    def test_once_it_has_started(self):
        model = world()
        model.announce("e1", "web1", status="Started")
        passes(model, 40)
        assert model.acknowledged == []

    def test_on_a_doubt_of_what_the_event_is(self):
        model = world()
        model.announce("e1", "web1")
        shown = model.observe_host

        def differs(name):
            seen = shown(name)
            for event in (seen.get("events") or []) if name == "web3" else []:
                event["event_type"] = "Redeploy"
            return seen

        model.observe_host = differs
        passes(model, 40)
        assert model.acknowledged == []

    def test_on_the_doubt_of_an_empty_body(self):
        model = world(how={"empty_body": True})
        model.announce("e1", "web1")
        passes(model, 8)
        model.hosts["web1"].update(empty_body=False, silent=True)
        passes(model, 40)
        assert model.acknowledged == []

    def test_against_what_the_own_service_says(self):
        """It has shown the event, and does not any more: that is no silence."""
        model = world(silent=())
        model.refuse = {("web1", "approve_event"): "refused"}
        model.announce("e1", "web1")
        passes(model, 6)
        model.events["e1"]["shown_to"] = ["web2", "web3"]
        passes(model, 30)
        assert model.acknowledged == []

    def test_if_nobody_shows_the_event_any_more(self):
        model = world(silent=(), drain_host={"ports": [80]})
        model.hosts["web1"]["connections"] = [{"peer": "10.0.0.9", "port": 80, "count": 1}]
        model.announce("e1", "web1")
        passes(model, 6)
        for name in model.names:
            model.hosts[name].update(service_silent=True, connections=[])
        passes(model, 40)
        assert model.acknowledged == []

    def test_in_check_mode(self):
        model = world()
        model.run["check"] = True
        model.announce("e1", "web1")
        outcome = passes(model, 20)
        assert not any("acts" in turn for turns in outcome["turns"].values() for turn in turns)


class TestWhatOnlyTheHostCanTell:
    """Its connections and its drain steps: known if it was found ready before it fell silent, and not otherwise."""

    @pytest.mark.parametrize("drain", [{"ports": [80]}, {"ports": [], "steps": [service("nginx")]}])
    def test_unknown(self, drain):
        model = world(drain_host=drain)
        model.announce("e1", "web1")
        passes(model, 60)
        assert model.acknowledged == []
        assert "not approved through Azure Resource Manager: it was not found ready before it fell silent" in reason(model, "web1")

    def ready_then_silent(self, **drain):
        model = world(silent=(), drain_host={"ports": [80], "steps": [service("nginx")], **drain})
        model.refuse = {("web1", "approve_event"): "no answer"}
        model.announce("e1", "web1")
        model.until(lambda outcome: (outcome["hosts"]["web1"]["step"] or {}).get("role") == "approve_event")
        model.refuse = {}
        model.hosts["web1"]["silent"] = True
        return model

    def test_known(self):
        model = self.ready_then_silent()
        model.until(lambda outcome: model.acknowledged, 30)
        assert model.posted == []

    def test_forgotten_when_the_run_is_killed(self):
        model = self.ready_then_silent()
        model.go()
        model.killed()
        passes(model, 60)
        assert model.acknowledged == []

    def test_forgotten_when_it_was_in_rotation_again(self):
        model = self.ready_then_silent()
        model.go()
        model.servers["lb1"]["web1"].update(admin_state="ready", process=2)
        passes(model, 60)
        assert model.in_rotation("web1") == [] and model.acknowledged == []

    def test_forgotten_when_it_was_busy_again(self):
        model = self.ready_then_silent()
        model.hosts["web1"].update(silent=False, service_silent=True, connections=[{"peer": "10.0.0.9", "port": 80, "count": 1}])
        passes(model, 5)
        model.hosts["web1"].update(silent=True)
        passes(model, 60)
        assert model.acknowledged == []

    def test_nothing_else_tells_whether_it_serves(self):
        model = world(load_balancer={"provider": "none", "hosts": []})
        model.announce("e1", "web1")
        passes(model, 60)
        assert model.acknowledged == [] and "nobody but itself can tell" in reason(model, "web1")


class TestItsActs:
    def step(self):
        model = world()
        model.announce("e1", "web1")
        model.until(lambda outcome: model.acknowledged, 20)
        return model, model.outcome["hosts"]["web1"]["step"]

    def test_another_vm_shows_the_event_again_and_then_it_is_sent(self):
        model, step = self.step()
        host = observe(read_document(model.world())).hosts["web1"]
        (witness, (seen,)), (machine, (sent,)) = acts_of(step, host, observe(read_document(model.world())).run)
        assert (witness, seen["part"], seen["module"], seen["args"]["event_ids"]) == ("web2", "seen", "scheduled_events_info", ["e1"])
        assert (machine, sent["part"], sent["module"]) == ("localhost", "sent", "azure_event_acknowledge")
        assert sent["args"]["resource_id"] == RESOURCE and sent["args"]["client_id"] == "app" and "access" not in sent["args"]
        assert sent["args"]["ready_until"] == step["ready_until"] > model.now
        assert sent["expected"] == {"e1": {"event_type": "Reboot", "ready": ["vm_web1"]}}
        turns = [turn for turn in model.outcome["turns"]["web1"] if "acts" in turn]
        assert [turn.get("asks") for turn in turns] == [True, None]

    SHOWN = {"event_id": "E1", "event_type": "Reboot", "event_status": "Scheduled", "resources": ["VM_web1"]}

    @pytest.mark.parametrize(
        "seen, due",
        [
            ({"events": [SHOWN]}, True),
            ({"events": []}, False),
            ({"events": [dict(SHOWN, event_status="Started")]}, False),
            ({"events": [dict(SHOWN, event_type="Redeploy")]}, False),
            ({"events": [dict(SHOWN, resources=["vm_web1", "vm_web9"])]}, False),
            ({"failed": True, "msg": "no answer", "events": [SHOWN]}, False),
            ({"unreachable": True, "msg": "gone"}, False),
            (None, False),
        ],
    )
    def test_only_as_it_is_still_shown(self, seen, due):
        act = {"part": "sent", "expected": {"e1": {"event_type": "Reboot", "ready": ["vm_web1"]}}}
        done = [] if seen is None else [dict(seen, part="seen")]
        assert is_due(act, "web1", [], done) is due
        result, failure = judge("approve_event", "approved", ["e1"], "web1", [], done)
        failed = bool(seen) and bool(seen.get("failed") or seen.get("unreachable"))
        assert bool(failure) is failed and not result.get("approved")

    def test_what_azure_answers_is_the_result(self):
        seen = {"part": "seen", "events": [self.SHOWN]}
        accepted = judge("approve_event", "approved", ["e1"], "web1", [], [seen, {"part": "sent", "approved": ["e1"], "changed": True}])
        assert accepted[0]["approved"] == ["e1"] and accepted[1] is None
        refused = judge("approve_event", "approved", ["e1"], "web1", [], [seen, {"part": "sent", "failed": True, "msg": "403"}])
        assert refused[1] == "403"
