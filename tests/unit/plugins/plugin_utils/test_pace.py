# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a pass says how the next one looks."""

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.pace import DRAIN, PAUSE, REST, REST_IDLE, first_pace

from tests.support.model import Model


@pytest.fixture(name="model")
def make_model():
    model = Model(hosts=3)
    model.run.update(forks=5, sleep=1.0)
    return model


def waits(outcome):
    return {name: look["wait"] for name, look in outcome["pace"].items()}


def rests(outcome):
    return {name: look["rest"] for name, look in outcome["pace"].items()}


def balancer(outcome):
    (look,) = outcome["looks"]["web1"]
    return look["wait_for"], look["timeout"], look["rest"]


def test_the_first_pass_looks_at_everything_at_once(model):
    pace, looks = first_pace(model.settings)
    assert [(look["wait"], look["rest"]) for look in pace.values()] == [(0.0, 0.0)] * 3
    assert looks["web1"][0]["servers"] == ["web1", "web2", "web3"] and looks["web2"] == looks["web3"] == []


def test_with_nothing_to_do_all_wait_for_news_and_nobody_asks_the_balancer(model):
    outcome = model.go()
    assert waits(outcome) == {"web1": PAUSE, "web2": PAUSE, "web3": PAUSE} and set(rests(outcome).values()) == {0.0}
    assert balancer(outcome) == ([], 0.0, REST_IDLE)


def test_a_new_event_that_not_all_have_shown_has_everybody_looked_at(model):
    # The service of web2 was read a moment before the event appeared.
    model.announce("e1", "web1", "web2", shown_to=["web1"])
    outcome = model.go()
    assert waits(outcome) == {"web1": DRAIN, "web2": 0.0, "web3": 0.0} and set(rests(outcome).values()) == {0.0}


def test_a_new_event_is_drained_for(model):
    model.announce("e1", "web1")
    outcome = model.go()
    assert waits(outcome) == {"web1": DRAIN, "web2": 0.0, "web3": 0.0}
    assert rests(outcome) == {"web1": 0.0, "web2": REST_IDLE, "web3": REST_IDLE}
    assert balancer(outcome) == (["web1"], DRAIN, 0.0)
    assert outcome["pace"]["web1"]["await_idle"] and outcome["pace"]["web1"]["ignored_peers"] == ["10.0.0.4"]


def test_a_drain_leaves_the_others_in_peace(model):
    model.announce("e1", "web1")
    model.announce("e2", "web2", event_type="Freeze")
    model.until(lambda outcome: len(model.posted) == 2)
    model.announce("e3", "web3")
    model.servers["lb1"]["web3"]["sessions"] = 1
    for values in model.settings.values():
        values["min_in_service"] = 0
    model.go()
    outcome = model.go()
    assert outcome["hosts"]["web3"]["state"] == "draining"
    assert waits(outcome) == {"web1": 0.0, "web2": 0.0, "web3": DRAIN}
    assert rests(outcome) == {"web1": REST, "web2": REST, "web3": 0.0}
    assert balancer(outcome) == (["web3"], DRAIN, 0.0)


def test_while_an_event_only_takes_its_time_its_host_waits_for_news(model):
    model.announce("e1", "web1")
    model.until(lambda outcome: model.posted)
    model.start("e1")
    outcome = model.go()
    assert waits(outcome) == {"web1": PAUSE, "web2": PAUSE, "web3": PAUSE}
    assert rests(outcome) == {"web1": 0.0, "web2": REST_IDLE, "web3": REST_IDLE}
    assert balancer(outcome) == ([], 0.0, 0.0)
    model.over("e1")
    outcome = model.go()
    assert outcome["hosts"]["web1"]["step"]["role"] == "restore_service"
    assert waits(outcome)["web1"] == 0.0 and rests(outcome) == {"web1": 0.0, "web2": REST_IDLE, "web3": REST_IDLE}


def test_whoever_may_be_approved_is_looked_at_anew(model):
    model.announce("e1", "web1", "web2")
    model.servers["lb1"]["web2"]["sessions"] = 1
    outcome = model.until(lambda outcome: outcome["hosts"]["web1"]["state"] == "ready")
    assert outcome["hosts"]["web2"]["state"] == "draining" and rests(outcome) == {"web1": 0.0, "web2": 0.0, "web3": REST_IDLE}


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


def test_passes_that_are_to_lie_far_apart_wait_on_the_controller(model):
    model.run["sleep"] = 30.0
    assert set(waits(model.go()).values()) == {0.0}
