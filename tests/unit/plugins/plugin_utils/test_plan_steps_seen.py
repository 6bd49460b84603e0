# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host is ready when a look of this pass has seen its drain steps done. A record says only what was done once."""

from __future__ import annotations

import pytest

from tests.support.model import Model
from tests.support.steps import steps_of

ON = "web.service is active again, although it was stopped for the event"


def model_of(**more):
    return Model(min_in_service=0, drain_host={"steps": steps_of("web")}, **more)


def drains(model, name="web1"):
    return [at for at, host, role, _ids in model.steps if (host, role) == (name, "drain_host")]


def busy(model, name):
    model.hosts[name]["connections"] = [{"port": 80, "peer": "10.0.0.9", "count": 1}]


def states(model):
    return {name: decision["state"] for name, decision in model.outcome["hosts"].items()}


@pytest.fixture
def drained():
    """web1 is drained and waits for web2."""
    model = model_of()
    busy(model, "web2")
    model.announce("e1", "web1", "web2")
    model.until(lambda outcome: states(model)["web1"] == "ready")
    return model


def test_what_was_started_again_is_taken_off_again_before_the_approval(drained):
    drained.hosts["web1"]["on"] = [ON]
    drained.hosts["web2"]["connections"] = []
    outcome = drained.go()
    assert outcome["hosts"]["web1"]["state"] == "draining" and outcome["hosts"]["web1"]["step"]["role"] == "drain_host"
    assert ON in outcome["hosts"]["web1"]["reason"] and len(drains(drained)) == 2 and drained.posted == []
    drained.until(lambda outcome: drained.posted)
    assert drained.hosts["web1"]["on"] == [] and len(drains(drained)) == 2


def test_what_stays_on_is_never_approved_and_told(drained):
    drained.hosts["web2"]["connections"] = []
    drained._take = lambda name, step: None  # whatever is done, somebody starts it again
    drained.hosts["web1"]["on"] = [ON]
    for _pass in range(20):
        assert ON in drained.go()["hosts"]["web1"]["reason"]
    assert drained.posted == []


def test_a_look_that_did_not_look_at_them_proves_nothing(drained):
    drained.hosts["web2"]["connections"] = []
    seen = drained.observe_host
    drained.observe_host = lambda name: {key: value for key, value in seen(name).items() if key != "still_on"}
    for _pass in range(8):
        drained.go()
    assert drained.posted == [] and states(drained) == {"web1": "draining", "web2": "draining"}
    drained.observe_host = seen
    drained.until(lambda outcome: drained.posted, 4)


def test_they_are_looked_at_only_where_it_matters():
    model = model_of()

    def asked():
        return {name for name in model.names if (model.turn(name) or {"options": {}})["options"].get("duties")}

    model.go()
    model.go()
    assert asked() == set()
    busy(model, "web1")
    model.announce("e1", "web1")
    model.until(lambda outcome: not model.in_rotation("web1"))
    assert asked() == set()
    model.hosts["web1"]["connections"] = []
    model.until(lambda outcome: drains(model))
    assert asked() == {"web1"}
    model.go()
    # No pass more than it takes to look after the step.
    assert model.posted and len(drains(model)) == 1
    model.start("e1")
    model.go()
    model.go()
    assert asked() == set()


def test_a_killed_run_looks_before_it_approves(drained):
    drained.hosts["web2"]["connections"] = []
    drained.hosts["web1"]["on"] = [ON]
    drained.killed()
    drained.until(lambda outcome: drained.posted)
    assert drained.hosts["web1"]["on"] == [] and len(drains(drained)) == 2


@pytest.mark.parametrize("one_step", [False, True])
def test_another_event_stands_after_the_reboot(one_step):
    """Event A reboots the host, event B names it, too. What came up with the host is stopped for B, and only when A is over."""
    model = model_of(rules=[{"name": "one", "when": "event_id == 'B'", "action": "prepare"}])
    model.announce("A", "web1")
    model.announce("B", "web1", notice=3000.0)
    model.until(lambda outcome: model.posted)
    assert {"A", "B"} <= set(model.hosts["web1"]["tasks"]["drained"])
    model.start("A")
    model.go()
    model.boots("web1")
    for _pass in range(5):
        model.go()
    assert len(drains(model)) == 1 and model.hosts["web1"]["on"]
    model.over("A")
    if one_step:
        model.run.update(wait=False, look_twice=True)
        model.killed()
    else:
        assert model.go()["hosts"]["web1"]["state"] == "draining"
    model.until(lambda outcome: states(model)["web1"] == "ready", 20)
    assert len(drains(model)) == 2 and model.hosts["web1"]["on"] == []


def test_the_impact_of_another_event_is_near_while_the_first_one_stands():
    """Event A reboots the host and goes on standing. B comes before A is over: what came up with the host is stopped for B in time."""
    model = model_of()
    busy(model, "web2")
    model.announce("A", "web1")
    model.announce("B", "web1", "web2", notice=1500.0)
    model.until(lambda outcome: model.posted)
    model.start("A")
    model.go()
    model.boots("web1")
    near = model.events["B"]["not_before_at"] - 120.0 - 15.0
    while model.now < near - 10.0:
        assert len(drains(model)) == 1 and model.hosts["web1"]["on"]
        model.now += 20.0
        model.go()
    model.until(lambda outcome: len(drains(model)) == 2, 20)
    assert model.now < near + 30.0 and model.hosts["web1"]["on"] == []
    model.hosts["web2"]["connections"] = []
    model.until(lambda outcome: [event_id for _at, event_id, _by in model.posted] == ["A", "B"], 20)


@pytest.mark.parametrize("is_silent", [False, True])
def test_records_that_a_reboot_removes_are_told(is_silent):
    """A folder that is emptied at boot. Nobody knows any more that the service was stopped, so nobody starts it."""
    model = model_of()
    model.announce("e1", "web1")
    model.until(lambda outcome: model.posted)
    model.start("e1")
    model.go()
    if is_silent:
        model.hosts["web1"]["silent"] = True
        model.go()
        model.hosts["web1"]["silent"] = False
    model.hosts["web1"]["tasks"] = {}
    model.go()
    model.over("e1")
    outcome = model.finish()
    (event,) = outcome["events"]
    assert "records in its state folder were removed while the event stood" in event["hosts"]["web1"]["reason"], event


def test_a_service_that_lags_behind_the_impact_does_not_stop_what_came_up():
    """The host was approved and booted anew, while its service still shows the event as Scheduled."""
    model = model_of()
    model.announce("e1", "web1")
    model.until(lambda outcome: model.posted)
    model.go()
    model.boots("web1")
    for _pass in range(5):
        model.go()
    assert len(drains(model)) == 1


@pytest.mark.parametrize("killed", [False, True])
def test_a_host_that_crashes_after_the_approval_is_drained_again_for_the_impact_that_is_still_to_come(killed):
    """Azure may begin an approved event minutes later. Its service goes on showing it as Scheduled, which no service does for so long after the impact."""
    model = model_of()
    model.announce("e1", "web1")
    model.until(lambda outcome: model.posted)
    model.go()
    model.boots("web1")
    if killed:
        model.killed()
    model.until(lambda outcome: len(drains(model)) == 2, 12)
    model.go()
    assert model.hosts["web1"]["on"] == [] and model.in_rotation("web1") == []
    model.start("e1")
    model.go()
    model.boots("web1")
    for _pass in range(12):
        model.go()
    assert len(drains(model)) == 2, "this was its own"


def test_nor_is_it_where_its_own_service_does_not_show_the_event():
    model = model_of()
    model.announce("e1", "web1")
    model.until(lambda outcome: model.posted)
    model.go()
    model.boots("web1")
    model.hosts["web1"]["service_silent"] = True
    for _pass in range(12):
        model.go()
    assert len(drains(model)) == 1


@pytest.mark.parametrize("seen", ["started", "over", "killed"])
def test_two_events_are_approved_and_the_first_one_reboots_the_host(seen):
    """The second may start at any moment, so what came up with the host is stopped for it at once."""
    model = model_of()
    for event_id in ("A", "B"):
        model.announce(event_id, "web1")
    model.until(lambda outcome: len(model.posted) == 2)
    model.start("A")
    model.boots("web1")
    if seen != "started":
        model.over("A")
    if seen == "killed":
        model.killed()
    model.until(lambda outcome: len(drains(model)) == 2, 5)
    assert model.hosts["web1"]["on"] == [] and not model.in_rotation("web1")
    model.start("B")
    model.go()
    model.boots("web1")
    for _pass in range(5):
        model.go()
    # That was its own.
    assert len(drains(model)) == 2


def test_idle_looks_of_an_earlier_boot_do_not_count():
    model = Model(min_in_service=0)
    busy(model, "web2")
    model.announce("e1", "web1", "web2")
    model.until(lambda outcome: states(model)["web1"] == "ready")
    model.boots("web1")
    model.go()
    assert states(model)["web1"] == "draining" and model.memory["hosts"]["web1"]["looks"] == 1


@pytest.mark.parametrize("first", [False, True])
def test_what_comes_back_after_a_balancer_may_be_what_its_checks_need(first):
    """Otherwise HAProxy waits for a check of what comes back only after it, and the host stays out for ever."""
    haproxy = {"type": "haproxy", "hosts": ["lb1"]}
    # A task file that only follows takes nothing off.
    after = {"type": "tasks", "name": "restore_service_after", "back": "/after.yml"}
    model = Model(min_in_service=0, drain_host={"steps": steps_of("web", haproxy, after) if first else steps_of(haproxy, "web", after)})
    model.announce("e1", "web1")
    model.until(lambda outcome: model.posted)
    model.start("e1")
    model.over("e1")

    def back(outcome):
        acts = (act for turn in outcome["turns"]["web1"] for act in turn.get("acts", ()) if act["module"] == "haproxy_hold")
        return [act["args"] for act in acts if act["args"]["state"] == "absent"]

    (args,) = model.until(back) and back(model.outcome)
    assert bool(args.get("checked_later")) is first


@pytest.mark.parametrize("kind", ["rabbitmq", "consul"])
def test_what_takes_no_connections_while_it_is_out_comes_back_before_the_host_is_asked(kind):
    """It may be what must answer. Without a reboot, its listeners stay closed until it is back."""
    model = Model(min_in_service=0, drain_host={"steps": steps_of({"type": kind}, {"type": "haproxy", "hosts": ["lb1"]})})
    model.settings["web1"]["restore_service"]["ask"] = {"port": 5672}
    model.announce("e1", "web1", event_type="Freeze")
    model.until(lambda outcome: model.posted)
    model.start("e1")
    model.over("e1")

    def acts(outcome):
        return [act["module"] for turn in outcome["turns"]["web1"] for act in turn.get("acts", ()) if act["module"] != "task_hold"]

    model.until(lambda outcome: outcome["hosts"]["web1"]["step"] and outcome["hosts"]["web1"]["step"]["role"] == "restore_service")
    first = ["cluster_hold", "wait_for_answer", "haproxy_hold"]
    assert acts(model.outcome) == (first if kind == "rabbitmq" else [*first[1:], first[0]])


@pytest.mark.parametrize("killed", [False, True])
def test_a_rule_that_looks_at_the_time_decides_no_more_once_the_event_is_approved(killed):
    """Its impact comes, whatever the rules would say a moment later. Another run knows it by the record of the approval."""
    rules = [{"name": "in time", "when": "seconds_until_not_before > `600`"}, {"name": "late", "action": "ignore"}]
    model = Model(min_in_service=0, rules=rules)
    model.announce("e1", "web1", notice=620.0)
    model.until(lambda outcome: model.posted)
    ends = model.now + 40.0
    while model.now < ends:
        model.go()
        if killed:
            model.killed()
        assert not model.in_rotation("web1")
    model.start("e1")
    model.over("e1")
    assert not model.finish()["failed_run"] and model.in_rotation("web1")
