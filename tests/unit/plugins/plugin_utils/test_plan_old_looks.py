# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was seen before an event appeared, or before something was done, is no reason to approve, and keeps nobody from being seen."""

from __future__ import annotations

from tests.support.model import Model, service
from tests.unit.plugins.plugin_utils.test_plan_lives import Lives


def impact(hosts=2, **settings):
    model = Model(hosts=hosts, **settings)
    model.run.update(forks=5, sleep=1.0)
    model.announce("e1", "web1", shown_to=["web1"])
    model.until(lambda outcome: model.posted)
    model.start("e1")
    model.go()
    model.go()
    return model


def test_an_event_that_only_its_own_vm_shows_is_seen_while_another_is_hit():
    """Two VMs that are not of one set: each service shows only its own VM's events."""
    model = impact()
    model.pass_seconds = 15.0
    model.announce("e2", "web2", event_type="Preempt", notice=30.0, shown_to=["web2"])
    model.until(lambda outcome: outcome["hosts"]["web2"]["event"], passes=20)


def test_the_same_behind_two_balancers():
    model = impact(3, balancers=("lb1", "lb2"))
    model.pass_seconds = 15.0
    model.announce("e2", "web3", event_type="Preempt", notice=30.0, shown_to=["web3"])
    model.until(lambda outcome: outcome["hosts"]["web3"]["event"], passes=20)


def test_whoever_came_back_from_maintenance_since_the_last_look_is_not_approved_in_rotation():
    """web1 is in an operator's maintenance. He ends it, 20 s later comes the event; the look at the balancer is older than both."""
    model = Model(hosts=2, drain_host={"ports": []})
    model.run.update(forks=5, sleep=1.0)
    model.servers["lb1"]["web1"]["admin_state"] = "maint"
    for _number in range(4):
        model.go()
        model.now += 30
    former = model.observe_balancer("lb1")
    observe = model.observe_balancer
    model.now += 5
    model.go()
    # The look of the next pass is not answered before the event appears.
    model.observe_balancer = lambda lb: dict(former, rested=True)
    model.servers["lb1"]["web1"]["admin_state"] = "ready"
    model.now += 20
    model.announce("e1", "web1")
    model.go()
    model.observe_balancer = observe
    assert not model.posted, model.outcome["hosts"]["web1"]


def test_an_event_that_is_approved_unprepared_is_weighed_by_a_new_look_at_the_balancer():
    """The other server goes down during an idle look; the event that is approved without preparation comes after that."""
    model = Model(hosts=2, rules=[{"name": "at once", "action": "approve"}])
    model.run.update(forks=5, sleep=1.0)
    model.go()
    former = model.observe_balancer("lb1")
    observe = model.observe_balancer
    model.observe_balancer = lambda lb: dict(former, rested=True)
    model.servers["lb1"]["web2"]["up"] = False
    model.now += 25
    model.announce("e1", "web1", event_type="Freeze")
    model.go()
    model.observe_balancer = observe
    assert not model.posted, model.outcome["hosts"]["web1"]


def started(*names, **settings):
    """A model of two hosts, whose event for these names was approved and has started."""
    model = Model(hosts=2, **settings)
    model.run.update(forks=5, sleep=1.0)
    model.announce("e1", *names)
    model.until(lambda outcome: model.posted)
    model.start("e1")
    model.go()
    model.go()
    return model


def test_who_is_always_ended_comes_back_all_the_same():
    """However often news end the looks at it, somebody sees that the event is over."""
    model = started("web1")
    model.news_for = float("inf")
    model.over("e1")
    model.until(lambda outcome: model.in_rotation("web1"), passes=100)


def test_clients_that_came_while_a_look_was_ended_are_seen():
    """No balancer, a port that is counted, and a rule that begins late. News of another host end the look in which the client came."""
    model = Model(hosts=2, drain_host={"ports": [5432]}, load_balancer={"provider": "none"}, rules=[{"name": "late", "lead_time": 300.0}])
    model.run.update(forks=5, sleep=1.0)
    model.announce("e1", "web1", notice=400.0)
    model.until(lambda outcome: model.now >= model.events["e1"]["not_before_at"] - 300 - 3)
    assert not model.posted
    model.hosts["web1"]["connections"] = [{"port": 5432, "peer": "10.9.9.9", "count": 1}]
    model.news_for = 100.0
    model.now += 4
    model.decide()
    assert (model.outcome["hosts"]["web1"]["step"] or {}).get("role") != "approve_event"


def test_whoever_went_silent_while_it_was_left_in_peace_is_not_approved():
    """Found by random lives."""
    state = Lives()
    state.begin(balancers=("lb1",), services=True, least=0, rules="ignore", custom=False, unknown="hold", named=False)
    state.announce(hosts={"web1"}, kind="Reboot", late=False, notice=20, outside=())
    state.time_passes(seconds=1.0)
    for _number in range(10):
        state.killed()
    state.announce(hosts={"web1", "web2"}, kind="Reboot", late=False, notice=20, outside=())
    for _number in range(3):
        state.time_passes(seconds=1.0)
    state.host(fault={"silent": True}, host="web1")
    state.time_passes(seconds=1.0)
    state.teardown()


def test_a_look_from_before_the_controller_stood_still_is_no_reason_to_approve():
    """It was suspended in the middle of a pass, after its look at the balancer, which was reloaded meanwhile and has lost what it was told."""
    model = Model(hosts=2, drain_host={"steps": [service()]})
    model.announce("e1", "web1", notice=3600.0)
    model.until(lambda outcome: "drained" in model.hosts["web1"]["tasks"])
    former, observe = model.observe_balancer("lb1"), model.observe_balancer
    model.observe_balancer = lambda lb: former
    model.servers["lb1"]["web1"].update(admin_state="ready", process=2)
    model.now += 1200
    model.go()
    assert model.posted == []
    model.observe_balancer = observe
    model.until(lambda outcome: model.posted, passes=10)
    assert model.in_rotation("web1") == []


def test_what_has_started_is_not_told_as_scheduled_again_because_of_a_look_from_before():
    """web2's event is over within seconds, seen to start and to end by web1 alone."""
    model = Model()
    model.announce("e1", "web2", event_type="Freeze")
    model.until(lambda outcome: model.posted)
    former, look = model.seen["web2"], model._look
    model._look = lambda name: dict(former, rested=True) if name == "web2" else look(name)
    model.start("e1")
    states = [model.go()["hosts"]["web2"]["state"]]
    model.over("e1")
    states += [model.go()["hosts"]["web2"]["state"] for _pass in range(2)]
    assert states == ["started"] * 3
    model._look = look
    assert model.finish()["events"][0]["outcome"] == "completed"


def test_a_service_that_takes_its_start_back():
    model = Model()
    model.announce("e1", "web2", notice=300.0)
    model.start("e1")
    model.go()
    model.announce("e1", "web2", notice=300.0)
    model.until(lambda outcome: model.posted)
