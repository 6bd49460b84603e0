# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A pass, planned again from what a journal holds of it."""

from __future__ import annotations

import copy
import json

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.plan import plan
from ansible_collections.graceful.azure.plugins.plugin_utils._replay import RECORDED, ReplayError, read_pass, replay
from ansible_collections.graceful.azure.plugins.plugin_utils._story.journal import stories

from tests.support.model import Model


@pytest.fixture(name="recorded")
def make_recorded():
    """A pass as the action writes it: a host that drains, one that serves."""
    model = Model()
    model.announce("e1", "web1")
    model.go()
    world = json.loads(json.dumps(model.world()))
    outcome = plan(copy.deepcopy(world))
    hosts = {name: {key: decision[key] for key in RECORDED} for name, decision in outcome["hosts"].items()}
    return {"time": world["now"], "pass": world["pass"], "hosts": hosts, "events": outcome["events"], "world": world}


def test_the_same_again_and_again(recorded):
    line = json.dumps(recorded)
    first, second = replay(recorded), replay(recorded)
    assert first == second
    assert first["differences"] == []
    assert first["hosts"]["web1"]["state"] == "draining"
    assert first["pass"] == recorded["pass"]
    assert json.dumps(recorded) == line, "the record was written to"


def test_a_difference_is_told(recorded):
    recorded["hosts"]["web1"]["reason"] = "because"
    recorded["hosts"]["web9"] = {"state": "ready"}
    recorded["events"][0]["outcome"] = "completed"
    found = replay(recorded)["differences"]
    assert len(found) == 3
    assert "web1: reason was 'because'" in found[0]
    assert "web9: state was 'ready'" in found[1]
    assert "e1" in found[2] and "completed" in found[2] and "in_progress" in found[2]


@pytest.mark.parametrize("line", ['{"time": 1, "wor', "", "[]", '{"hosts": {}}', '{"hosts": {}, "world": 5}', '{"hosts": {}, "world": {"now": 1, "pass": 1}}'])
def test_a_line_without_a_pass(line):
    with pytest.raises(ReplayError):
        read_pass(line)


def test_a_pass_that_can_be_read(recorded):
    assert read_pass(json.dumps(recorded)) == recorded


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("world", "now"), "noon", "world.now is 'noon' and no time"),
        (("world", "now"), None, "world.now is None and no time"),
        (("world", "now"), True, "world.now is True and no time"),
        (("world", "now"), float("nan"), "world.now is nan and no time"),
        (("world", "now"), 1e18, "world.now is 1e.18 and no time"),
        (("world", "run", "started"), [], r"world.run.started is \[\] and no time"),
        (("time",), {}, "time is {} and no time"),
        (("world", "pass"), 1.5, "world.pass is 1.5 and no whole number"),
        (("pass",), "1", "pass is '1' and no whole number"),
        (("world", "memory"), [], "world.memory is no dictionary"),
        (("world", "results"), "x", "world.results is no dictionary"),
        (("hosts", "web1"), None, "the decision for web1"),
        (("hosts", "web1", "reason"), None, "the decision for web1"),
        (("hosts", "web1", "step"), "x", "the decision for web1"),
        (("events",), None, "events is no list"),
        (("events", 0), "e1", "events is no list"),
    ],
)
def test_a_pass_that_is_damaged(recorded, place, value, said):
    found = recorded
    for key in place[:-1]:
        found = found[key]
    found[place[-1]] = value
    line = json.dumps(recorded)
    with pytest.raises(ReplayError, match=f"holds a damaged pass: {said}"):
        read_pass(line)
    ((told, sentence),) = stories([line])
    assert told is None and sentence.startswith("line 1 holds a damaged pass: ")


def test_a_pass_without_any_host(recorded):
    recorded["world"]["settings"] = {}
    with pytest.raises(ReplayError, match="cannot be planned"):
        replay(recorded)


@pytest.mark.parametrize("world", [{}, {"now": 1, "pass": 1, "run": {}, "settings": {"web1": {}}, "hosts": {}, "balancers": {}}])
def test_a_world_that_cannot_be_planned(world):
    with pytest.raises(ReplayError, match="cannot be planned"):
        replay({"hosts": {}, "world": world})


def test_an_observation_that_does_not_say_when_it_was_made(recorded):
    """It has no events, so only the event that is remembered asks for that."""
    for observed in recorded["world"]["hosts"].values():
        observed["events"] = []
        del observed["at"]
    with pytest.raises(ReplayError, match="cannot be planned"):
        replay(recorded)


def test_a_pass_that_an_earlier_version_wrote(recorded):
    """It kept less of the last step."""
    del recorded["world"]["memory"]["hosts"]["web1"]["last_step"]["state"]
    assert replay(recorded)["differences"] == []
