# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The faults of the chaos tests: each is met by the requests that it is meant for, and what was met is told from the simulator's list."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.chaos.faults import met, orders
from tests.chaos.scenarios import SCENARIOS
from tests.chaos.test_chaos import EVERY_POINT, OF_APPROVALS, faults_of_approvals

PATH = "/metadata/scheduledevents?api-version=2020-07-01"


def asked(*told):
    """The simulator's list of requests, each as (VM, method, status)."""
    return [{"Vm": vm, "Method": method, "Path": PATH, "Status": status} for vm, method, status in told]


def test_a_fault_of_some_requests():
    fault = {"vm": None, "method": "POST", "nth": 2, "times": 1, "fault": {"Status": 503}}
    assert orders(fault, ["web1", "web2"]) == [{"Vm": None, "Method": "POST", "Fault": {"Status": 503}, "Times": 1, "Skip": 1}]
    assert met(fault, asked(("web1", "POST", 200), ("web1", "GET", 200), ("web2", "POST", 503)))
    assert not met(fault, asked(("web1", "POST", 503), ("web1", "GET", 503))), "there was no second"
    assert not met(fault, asked(("web1", "POST", 503), ("web1", "POST", 200))), "the second had none"
    assert not met(dict(fault, vm="web2"), asked(("web2", "POST", 200), ("web1", "POST", 503)))


@pytest.mark.parametrize(
    ("wrong", "status", "so"),
    [
        ({"Drop": True}, None, True),
        ({"Drop": True}, 200, False),
        ({"DropAnswer": True}, 200, False),
        ({"Delay": 3.0}, 200, True),
        ({"Delay": 12.0}, None, True),
        ({"Status": 200, "Body": "null"}, 200, True),
        ({"Status": 405}, 200, False),
    ],
)
def test_how_it_was_answered(wrong, status, so):
    assert met({"vm": "web1", "method": "GET", "nth": 1, "times": 1, "fault": wrong}, asked(("web1", "GET", status))) == so


def test_turns_that_were_met_and_one_that_was_not():
    fault = {"turns": [{"Status": 500}, {"Drop": True}], "offset": 0}
    assert met(fault, asked(("web1", "GET", 200), ("web1", "POST", None), ("web2", "GET", 200), ("web1", "GET", 200), ("web1", "GET", 500)))
    assert not met(fault, asked(("web1", "GET", 200), ("web1", "POST", None), ("web1", "GET", 200), ("web1", "GET", 200)))
    assert not met(fault, asked(("web1", "GET", 200))), "nobody asked twice"


def test_each_fault_of_the_approval_is_tried_in_two_scenarios_and_one_in_each():
    told = [(scenario, name) for scenario, name, fault in faults_of_approvals() if fault["method"] == "POST"]
    assert len(told) == len(set(told))
    assert Counter(scenario for scenario, _name in told) == {name: 1 for name, it in SCENARIOS.items() if it.approvals and name != EVERY_POINT}
    assert min(Counter(name for _scenario, name in told)[name] for name in OF_APPROVALS) >= 2
