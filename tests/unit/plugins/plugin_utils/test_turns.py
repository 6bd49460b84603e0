# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a pass says how the next one looks."""

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._helper import STAY
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.judgement import PATIENCE
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.plan import plan
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.turns import (
    DRAIN,
    IDLE,
    LONG_DRAIN,
    PAUSE,
    READINGS,
    first_turns,
)

from tests.support.model import Model

LEAVES = 2 * DRAIN
"""How long a look waits for a host that goes out in the same pass."""


@pytest.fixture(name="model")
def make_model():
    model = Model(hosts=3)
    model.run.update(forks=5, sleep=1.0)
    return model


def waits(outcome):
    """For how long each host that is looked at waits for news."""
    return {name: turn["options"].get("wait", 0.0) for name, turns in outcome["turns"].items() for turn in turns if "machine" not in turn and "options" in turn}


def balancer(model):
    """Which servers the look at the balancer waits for, and for how long; None where nobody looks."""
    found = [(turn["options"]["wait_for"], turn["options"]["timeout"]) for turn in model.machine_turns() if "acts" not in turn]
    return found[0] if found else None


def test_the_first_pass_looks_at_everything_at_once(model):
    turns = first_turns(model.settings, False, 5.0)
    assert waits({"turns": turns}) == {"web1": 0.0, "web2": 0.0, "web3": 0.0}
    assert [[turn["name"] for turn in turns[name]] for name in model.names] == [
        ["look at haproxy on lb1", "look at web1"],
        ["look at web2"],
        ["look at web3"],
    ]
    assert turns["web1"][0]["options"]["servers"] == ["web1", "web2", "web3"]


def test_with_nothing_to_do_all_wait_for_news_and_the_balancer_is_asked_once(model):
    assert waits(model.go()) == {"web1": IDLE, "web2": IDLE, "web3": IDLE} and balancer(model) == ([], 0.0)


def test_meanwhile_the_helper_of_the_balancer_stays():
    assert IDLE + 10.0 < STAY


@pytest.mark.parametrize("trouble", [{"error": "connection refused", "reached": False}, {"fatal": "no socket"}])
def test_a_balancer_that_cannot_be_read_is_looked_at_again(model, trouble):
    model.down_balancers["lb1"] = trouble
    model.go()
    model.go()
    assert balancer(model) == ([], 0.0)


def test_a_balancer_that_hangs_is_left_in_peace_for_a_while(model):
    model.down_balancers["lb1"] = {"error": "hangs", "reached": False, "cut_off": 6.0, "began": model.now - 6.0, "at": model.now}
    assert model.go() and balancer(model) is None
    model.now += 10.0
    assert model.go() and balancer(model) is not None


def test_a_host_that_hangs_is_left_in_peace_for_a_while(model):
    model.hosts["web2"]["silent"] = True
    silent = model.observe_host
    model.observe_host = lambda name: dict(silent(name), **({"cut_off": 6.0} if name == "web2" else {}))
    assert [turn.get("pause") for turn in model.go()["turns"]["web2"]] == [model.run["sleep"]]
    model.seen["web2"]["began"] = model.seen["web2"]["at"] = model.now - 12.0
    model.decide()
    assert [turn["name"] for turn in model.outcome["turns"]["web2"] if "options" in turn] == ["look at web2"]


class TestByModule:
    """Each look at these hosts starts a module, so what does not concern them leaves them in peace for a while."""

    @pytest.fixture(name="model", params=[["web1", "web2", "web3"], ["web3"]], ids=["all", "one"])
    def make(self, request):
        model = Model(hosts=3)
        model.run.update(forks=5, sleep=1.0)
        observe = model.observe_host
        model.observe_host = lambda name: dict(observe(name), by_module=name in request.param)
        model.dear = set(request.param) - {"web1"}
        return model

    def test_a_drain_of_another(self, model):
        model.announce("e1", "web1")
        model.servers["lb1"]["web1"]["sessions"] = 1
        looked = [set(waits(model.go())) for _pass in range(6)]
        assert looked[:3] == [{"web1", "web2", "web3"} - model.dear] * 2 + [{"web1", "web2", "web3"}]
        assert sum("web3" in names for names in looked) == 2

    def test_not_where_they_wait_for_news_or_a_new_event_may_name_them(self, model):
        assert set(waits(model.go())) == {"web1", "web2", "web3"}
        model.announce("e1", "web1", "web2", shown_to=["web1"])
        assert set(waits(model.go())) == {"web1", "web2", "web3"}

    def test_nor_before_an_approval(self, model):
        model.announce("e1", "web1", "web3")
        model.servers["lb1"]["web1"]["sessions"] = 1
        outcome = model.until(lambda outcome: outcome["hosts"]["web3"]["state"] == "ready")
        assert outcome["hosts"]["web1"]["state"] == "draining" and set(waits(outcome)) >= {"web1", "web3"}

    @pytest.mark.parametrize("back", [0.5, 3600.0])
    def test_a_clock_that_was_set_back_ends_it(self, model, back):
        model.announce("e1", "web1")
        model.go()
        assert set(waits(model.outcome)) == {"web1", "web2", "web3"} - model.dear
        model.now -= model.pass_seconds + back
        assert set(waits(model.go())) == {"web1", "web2", "web3"}

    def test_a_look_that_news_have_ended_had_none_until_then(self, model):
        model.go()
        model.now += 2 * PAUSE
        model.news_for = 100.0
        model.announce("e1", "web1")
        model.seen["web1"]["at"] -= 200.0
        outcome = model.go()
        assert outcome["hosts"]["web1"]["step"]["role"] == "load_balancer" and set(waits(outcome)) == {"web1", "web2", "web3"} - model.dear


def test_a_silent_host_does_not_hold_up_each_pass_of_what_does_not_concern_it(model):
    model.hosts["web3"]["silent"] = True
    model.announce("e1", "web1")
    model.servers["lb1"]["web1"]["sessions"] = 1
    looked = [set(waits(model.go())) for _pass in range(6)]
    assert [("web3" in names, {"web1", "web2"} <= names) for names in looked] == [(number in (2, 5), True) for number in range(6)]


def test_while_something_cannot_be_read_passes_follow_each_other_as_long_as_that_may_be_over_soon(model):
    model.hosts["web2"]["service_silent"] = True
    assert set(waits(model.go()).values()) == {PAUSE}
    model.now += PATIENCE
    assert set(waits(model.go()).values()) == {IDLE}


def test_a_new_event_that_not_all_have_shown_has_everybody_looked_at(model):
    # The service of web2 was read a moment before the event appeared.
    model.announce("e1", "web1", "web2", shown_to=["web1"])
    assert waits(model.go()) == {"web1": LEAVES, "web2": 0.0, "web3": 0.0}


def test_a_new_event_is_drained_for(model):
    model.announce("e1", "web1")
    outcome = model.go()
    # One of the others has the time to wait at the balancer.
    assert waits(outcome) == {"web1": LEAVES, "web2": 0.0, "web3": 0.0} and balancer(model) == (["web1"], LEAVES)
    # It goes out before it is looked at.
    assert [turn["name"] for turn in outcome["turns"]["web1"]] == ["take web1 out on lb1", "look at web1"]
    look = outcome["turns"]["web1"][1]["options"]
    assert look["await_idle"] and look["ignored_peers"] == ["10.0.0.4"]
    # It is idle. Only the second look is missing, so nobody waits longer than for that.
    quiet = model.settings["web1"]["load_balancers"][0]["quiet"]
    assert look["at_least"] == quiet - 1.0
    assert waits(model.go()) == {"web1": quiet + READINGS, "web2": 0.0, "web3": 0.0}


def test_without_a_look_at_a_balancer_an_idle_host_is_not_waited_for():
    model = Model(hosts=3, load_balancer={"provider": "custom", "quiet": 3.0})
    model.run.update(forks=5, sleep=1.0)
    model.announce("e1", "web1")
    model.until(lambda outcome: any(turn["options"]["await_idle"] for turn in outcome["turns"]["web1"] if "options" in turn))
    (look,) = [turn["options"] for turn in model.outcome["turns"]["web1"] if "options" in turn]
    assert look["at_least"] == 0.0


def test_what_is_no_news(model):
    model.announce("E1", "web1")
    assert model.go()["known"] == [["e1", "Scheduled"]]
    model.until(lambda outcome: model.posted)
    model.start("E1")
    # One service may lag behind another.
    assert model.go()["known"] == [["e1", "Scheduled"], ["e1", "Started"]]
    model.over("E1")
    assert ["e1", "Scheduled"] in model.go()["known"]


def test_the_time_since_requests_were_last_counted_counts(model):
    for settings in model.settings.values():
        settings["load_balancers"][0]["quiet"] = 3.0
    model.pass_seconds = 0.5
    model.announce("e1", "web1")
    model.until(lambda outcome: not model.in_rotation("web1"))
    model.go()

    def quiet(age):
        world = model.world()
        (look,) = world["balancers"].values()
        look.update(at=look["at"] - age, ended=True)
        return next(turn["options"]["at_least"] for turn in plan(world)["turns"]["web1"] if "at_least" in turn.get("options", ()))

    assert quiet(0.0) - quiet(1.0) == 1.0


def test_a_drain_has_everybody_looked_at(model):
    model.announce("e1", "web1")
    model.announce("e2", "web2", event_type="Freeze")
    model.until(lambda outcome: len(model.posted) == 2)
    model.announce("e3", "web3")
    model.servers["lb1"]["web3"]["sessions"] = 1
    for values in model.settings.values():
        values["min_in_service"] = 0
    for _pass in range(4):
        outcome = model.go()
    assert outcome["hosts"]["web3"]["state"] == "draining"
    assert waits(outcome) == {"web1": 0.0, "web2": 0.0, "web3": DRAIN} and balancer(model) == (["web3"], DRAIN)
    # Neither of the others has to wait itself.
    (looker,) = (name for name, turns in outcome["turns"].items() for turn in turns if "machine" in turn)
    assert looker != "web3"


def test_after_a_while_the_looks_of_a_drain_wait_longer_and_all_others_for_news(model):
    """Each pass is a dozen lines of Ansible's, and nothing has changed."""
    model.announce("e1", "web1")
    model.servers["lb1"]["web1"]["sessions"] = 1
    begun = model.now
    while model.now - begun < LONG_DRAIN + 10.0:
        outcome = model.go()
    assert outcome["hosts"]["web1"]["state"] == "draining"
    assert waits(outcome) == dict.fromkeys(model.names, PAUSE) and balancer(model) == (["web1"], PAUSE)
    # Something else is in hand now.
    model.announce("e2", "web2", event_type="Freeze")
    assert waits(model.go())["web3"] == 0.0
    # It waits for nobody once it is idle.
    model.over("e2")
    model.servers["lb1"]["web1"]["sessions"] = 0
    model.until(lambda outcome: model.posted, 6)


def test_the_looks_of_a_long_drain_do_not_go_past_the_next_act_by_the_clock(model):
    model.announce("e1", "web1", notice=LONG_DRAIN + 20.0)
    model.servers["lb1"]["web1"]["sessions"] = 1
    event = model.events["e1"]
    while model.now < event["not_before_at"] - 3.0:
        outcome = model.go()
    assert max(waits(outcome).values()) <= max(DRAIN, event["not_before_at"] - model.now + model.pass_seconds)


def test_during_the_impact_passes_follow_each_other_and_everybody_is_looked_at(model):
    model.announce("e1", "web1")
    model.until(lambda outcome: model.posted)
    model.start("e1")
    model.go()
    assert waits(model.go()) == dict.fromkeys(model.names, PAUSE) and balancer(model) == ([], 0.0)
    model.over("e1")
    outcome = model.go()
    assert outcome["hosts"]["web1"]["step"]["role"] == "restore_service" and set(waits(outcome).values()) == {0.0}


def test_a_look_that_was_ended_is_not_ended_again(model):
    model.announce("e1", "web1")
    model.servers["lb1"]["web1"]["sessions"] = 1
    model.go()
    model.news_for = 100.0
    outcome = model.go()
    assert waits(outcome)["web1"] == 0.0


def test_no_look_lasts_longer_than_a_task_may(model):
    model.run["task_timeout"] = 30.0
    assert set(waits(model.go()).values()) == {15.0}


def test_whoever_may_be_approved_is_looked_at_anew(model):
    model.announce("e1", "web1", "web2")
    model.servers["lb1"]["web2"]["sessions"] = 1
    outcome = model.until(lambda outcome: outcome["hosts"]["web1"]["state"] == "ready")
    assert outcome["hosts"]["web2"]["state"] == "draining" and waits(outcome) == {"web1": 0.0, "web2": DRAIN, "web3": 0.0}


@pytest.mark.parametrize(("action", "names"), [("prepare", ["web1"]), ("prepare_and_approve", ["web1", "vm_of_others"])])
def test_whoever_is_ready_waits_for_news_if_its_event_is_not_ours_to_approve(model, action, names):
    for values in model.settings.values():
        values["rules"] = [{"name": "mine", "action": action}]
    model.announce("e1", *names)
    model.until(lambda outcome: outcome["hosts"]["web1"]["state"] == "ready")
    assert waits(model.go()) == dict.fromkeys(model.names, PAUSE)


def test_no_wait_goes_past_the_next_act_by_the_clock(model):
    for values in model.settings.values():
        values["rules"] = [{"name": "late", "lead_time": 300.0}]
    model.announce("e1", "web1", notice=303)
    model.go()
    outcome = model.go()
    assert outcome["hosts"]["web1"]["state"] == "waiting" and waits(outcome)["web1"] == pytest.approx(1.0)


def test_no_wait_goes_past_the_end_of_the_run():
    model = Model(timeout=3.0)
    model.run.update(forks=5)
    assert waits(model.go()) == {"web1": 3.0, "web2": 3.0}


def test_where_a_look_does_not_come_about_nobody_waits_for_its_end(model):
    model.hosts["web2"]["silent"] = True
    assert waits(model.go()) == {"web1": PAUSE, "web2": 0.0, "web3": PAUSE}


def test_fewer_forks_than_hosts_share_the_wait(model):
    model.run["forks"] = 2
    assert set(waits(model.go()).values()) == {PAUSE / 2}
    model.announce("e1", "web1")
    assert set(waits(model.go()).values()) == {0.0}


def test_fewer_forks_than_hosts_look_at_one_round_of_hosts_while_something_is_in_hand():
    """Those that have a part in it, and of the others those that were seen longest ago."""
    model = Model(hosts=9)
    model.run.update(forks=4, sleep=1.0)
    assert len(waits(model.go())) == 9
    model.announce("e1", "web1")
    model.servers["lb1"]["web1"]["sessions"] = 1
    looked = [set(waits(model.go())) for _pass in range(9)]
    assert all("web1" in names and len(names) == 4 for names in looked)
    assert set.union(*looked[:3]) == set.union(*looked[3:6]) == set.union(*looked[6:9]) == set(model.names)
    # A clock that was set back delays none of them.
    model.now -= 3600.0
    assert set.union(*(set(waits(model.go())) for _pass in range(4))) == set(model.names)
    model.announce("e2", "web1", "web8", shown_to=["web1"])
    assert len(waits(model.go())) == 9


def test_what_was_not_seen_for_ten_seconds_is_looked_at_in_any_case():
    """Only its own metadata service may show its event, which leaves half a minute."""
    model = Model(hosts=9)
    model.run.update(forks=2, sleep=1.0)
    model.pass_seconds = 6.0
    model.announce("e1", "web1")
    model.servers["lb1"]["web1"]["sessions"] = 1
    looked = [set(waits(model.go())) for _pass in range(9)]
    assert all(set.union(*three) == set(model.names) for three in zip(looked, looked[1:], looked[2:])) and any(len(names) == 2 for names in looked)


def test_whoever_has_left_the_run_takes_no_turn_of_others():
    model = Model(hosts=9)
    model.run.update(forks=2, sleep=1.0)
    observe = model.observe_host
    gone = {"reached": False, "left": True, "fatal": "it has left", "error": "it has left"}
    model.observe_host = lambda name: dict(gone, at=0.0) if name in ("web8", "web9") else observe(name)
    model.announce("e1", "web1")
    model.servers["lb1"]["web1"]["sessions"] = 1
    assert set.union(*(set(waits(model.go())) for _pass in range(8))) == set(model.names) - {"web8", "web9"}


def test_passes_that_are_to_lie_far_apart_wait_on_the_controller(model):
    model.run["sleep"] = 30.0
    assert set(waits(model.go()).values()) == {0.0}
