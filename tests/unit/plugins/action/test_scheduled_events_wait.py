# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.graceful.azure.plugins.action import scheduled_events_wait
from ansible_collections.graceful.azure.plugins.plugin_utils import _wait_action

from tests.support.service import Clock

EVENT = {"event_id": "A", "event_type": "Reboot", "event_status": "Started"}
ANSWERED = {"changed": False, "events": [EVENT], "document_incarnation": 5, "resource_name": "web_0", "elapsed": 5.0, "outcome": None, "_error": None}
UNANSWERED = dict(ANSWERED, events=[], document_incarnation=None, resource_name=None, _error="GET http://h failed: refused.")
MET = dict(ANSWERED, events=[], outcome="absent", elapsed=0.3)


class Action(scheduled_events_wait.ActionModule):
    def __init__(self, script, **args):
        self._task = SimpleNamespace(args=args, action="graceful.azure.scheduled_events_wait", check_mode=False, async_val=0)
        self._connection = SimpleNamespace(transport="local", reset=lambda: None, _shell=SimpleNamespace(tmpdir=None))
        self.script = list(script)
        self.calls = []
        self.clock = Clock()
        self.monotonic, self.sleep = self.clock.monotonic, self.clock.sleep

    def _execute_module(self, module_args=None, **_more):
        self.calls.append(module_args)
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(answer, Exception):
            self.clock.now += 3
            raise answer
        self.clock.now += answer["elapsed"]
        return dict(answer)


@pytest.fixture(autouse=True)
def shown(monkeypatch):
    lines = []
    monkeypatch.setattr(_wait_action.display, "display", lines.append)
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp=None, task_vars=None: {})
    return lines


def go(script, **args):
    action = Action(script, **args)
    return action, action.run(task_vars={"inventory_hostname": "web1"})


def test_steps(shown):
    action, result = go([ANSWERED, ANSWERED, MET], state="absent", event_ids=["a"], timeout=60, delay=2)
    assert result == {
        "changed": False,
        "events": [],
        "document_incarnation": 5,
        "resource_name": "web_0",
        "elapsed": 10.3,
        "outcome": "absent",
    }
    common = {"state": "absent", "event_ids": ["a"]}
    later = dict(common, delay=0, resource_name="web_0", _part={"seconds": 5, "answered": True})
    assert action.calls == [
        dict(common, timeout=60, delay=2, _part={"seconds": 5, "answered": False}),
        dict(later, timeout=55),
        dict(later, timeout=50, _part={"seconds": 10, "answered": True}),
    ]
    assert shown[0] == "web1: waiting for absent; A (Reboot, Started), 5 of 60 s"


def test_the_first_answer_is_still_awaited():
    action, result = go([UNANSWERED, ANSWERED, MET], state="absent")
    assert [args["_part"]["answered"] for args in action.calls] == [False, False, True]
    assert "resource_name" not in action.calls[1]


def test_the_default_is_300_s_and_0_has_no_end():
    action, result = go([MET])
    assert action.calls[0]["timeout"] == 300
    action, result = go([ANSWERED] * 200 + [MET], timeout=0)
    assert {args["timeout"] for args in action.calls} == {0}
    assert result["elapsed"] == 1000.3


def test_calls_grow_with_the_wait():
    action, result = go([dict(ANSWERED, elapsed=seconds) for seconds in (5, 5, 10, 20, 30, 30)] + [MET], timeout=0)
    assert [args["_part"]["seconds"] for args in action.calls] == [5, 5, 10, 20, 30, 30, 30]


def test_time_is_over():
    action, result = go([dict(ANSWERED, _error="GET http://h answered 503.")], state=["absent", "started"], timeout=10)
    assert result["failed"]
    assert (result["outcome"], result["elapsed"], result["events"]) == ("timeout", 10.0, [EVENT])
    assert "_error" not in result
    assert "10.0 s" in result["msg"] and "absent or started" in result["msg"] and "503" in result["msg"]


def test_the_delay_goes_on_where_it_was_when_the_host_is_lost_in_it():
    action, result = go([AnsibleConnectionFailure("lost"), MET], timeout=100, delay=60)
    assert [(args["timeout"], args["delay"]) for args in action.calls] == [(100, 60), (96, 56)]


def test_the_host_never_comes_back():
    action, result = go([ANSWERED, AnsibleConnectionFailure("no route to host")], state="absent", timeout=20)
    assert (result["failed"], result["outcome"], result["events"]) == (True, "timeout", [EVENT])
    assert "no route to host" in result["msg"]


def test_the_host_was_never_there():
    action, result = go([AnsibleConnectionFailure("no route to host")], state="absent", timeout=20)
    assert (result["outcome"], result["events"], result["document_incarnation"], result["resource_name"]) == ("timeout", [], None, None)
    assert "no route to host" in result["msg"]


def test_it_goes_on_after_a_reboot(shown):
    lost = AnsibleConnectionFailure("reset by peer")
    action, result = go([ANSWERED, lost, lost, MET], state="absent", timeout=60)
    assert result["outcome"] == "absent"
    assert result["elapsed"] == 13.3
    assert any("cannot be reached" in line for line in shown)


def test_a_failure_of_the_module_ends_it():
    action, result = go([ANSWERED, {"failed": True, "msg": "query: no list", "elapsed": 0.0, "outcome": None, "events": []}], timeout=60)
    assert (result["msg"], result["outcome"], result["elapsed"]) == ("query: no list", None, 5.0)


def test_hostile_ids_are_shown_on_one_line(shown):
    hostile = dict(ANSWERED, events=[dict(EVENT, event_id="a\n\x1b[31m" + "x" * 500)] * 9)
    go([hostile, MET], state="absent", timeout=60)
    assert "\n" not in shown[0] and "\x1b" not in shown[0] and len(shown[0]) < 400
    assert "and 6 more" in shown[0]
