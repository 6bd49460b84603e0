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


@pytest.mark.parametrize("line", ['{"time": 1, "wor', "", "[]", '{"hosts": {}}', '{"hosts": {}, "world": 5}'])
def test_a_line_without_a_pass(line):
    with pytest.raises(ReplayError):
        read_pass(line)


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
