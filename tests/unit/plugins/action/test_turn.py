# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long a host is looked at after its acts."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from ansible_collections.graceful.azure.plugins.action import turn as turn_action
from ansible_collections.graceful.azure.plugins.module_utils import _handle
from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
from ansible_collections.graceful.azure.plugins.plugin_utils import _look_action

from tests.support.patience import patient

ACTS = [
    {"part": "steps", "module": "cluster_hold", "args": {"type": "pacemaker"}},
    {"part": "drained", "module": "task_hold", "args": {"name": ["drained"]}},
]


@pytest.fixture(name="take")
def taking(monkeypatch):
    """Take a turn with these acts, whose calls return this. Returns the options of the look."""
    monkeypatch.setattr(turn_action, "_done", {})
    monkeypatch.setattr(turn_action.LookAction, "run", lambda self, tmp=None, task_vars=None: {})

    def take(acts, turn=None, interval=1.0, slept=None, **results):
        looks = []

        def answer(call, args, *_machine):
            looks.extend([args] if call == "host_observation" else [])
            return dict(results.get(call, {"changed": False}))

        def ask(_action, request, *_more):
            failure = next((result for result in results.values() if "unreachable" in result), None)
            return dict(failure) if failure else _handle.handle(request, lambda _params: Machine(sleep=(slept if slept is not None else []).append))

        action = turn_action.ActionModule.__new__(turn_action.ActionModule)
        turn = {"name": "web1", "acts": acts, "balancers": [], "options": {"wait": 2.0, "await_idle": True}, **(turn or {})}
        action._task = SimpleNamespace(args={"turn": turn, "number": 3, "state_dir": "/state", "interval": interval}, delegate_to=None)
        action._connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None))
        monkeypatch.setattr(_handle, "answer", answer)
        monkeypatch.setattr(_look_action, "ask_machine", ask)
        action.run(task_vars={"inventory_hostname": "web1"})
        return looks

    return take


def waits(looks):
    return [options["wait"] for options in looks]


@pytest.mark.parametrize(("timeout", "waited"), [(0, [2.0]), (1.0, [0.0])])
def test_while_something_is_left_on_the_host_either_the_step_waits_or_the_look(take, timeout, waited):
    acts = [{**ACTS[0], "args": {"type": "pacemaker", "timeout": timeout}}, ACTS[1]]
    assert waits(take(acts, cluster_hold={"done": False, "waiting_for": "2 resources run on web1"})) == waited


def test_when_the_last_step_is_done_nothing_is_waited_for(take):
    assert waits(take(ACTS, cluster_hold={"done": True})) == [0.0]


def test_steps_before_the_host_is_idle_do_not_say_that_it_is(take):
    acts = [{**ACTS[0], "args": {"type": "pacemaker", "timeout": 1.0}}]
    assert waits(take(acts, cluster_hold={"done": True})) == [2.0]


def test_nor_after_a_failure(take):
    assert waits(take(ACTS, cluster_hold={"failed": True, "msg": "no"})) == [0.0]


def test_nor_if_what_comes_later_is_not_begun(take):
    file = {"record": "drain_host_step_x", "path": "out.yml"}
    acts = [{"part": "steps", "module": "task_hold", "args": {"state": "present"}, "file": file}, ACTS[1]]
    assert waits(take(acts, task_hold={"failed": True, "msg": "no"})) == [0.0]


def test_an_approval_is_answered_at_once_since_the_host_may_go_down(take, monkeypatch):
    monkeypatch.setattr(turn_action, "is_windows", lambda *_: False)
    sent, slept = {"part": "sent", "module": "approval_hold", "args": {"event_ids": ["E1"], "timeout": 5.0}}, []
    assert waits(take([sent], {"read_at": time.time()}, 30.0, slept, approval_hold={"changed": True, "approved": ["E1"]})) == [0.0]
    assert max(slept) <= 1.0


def test_a_host_that_cannot_be_reached_is_asked_once(take):
    assert waits(take(ACTS, cluster_hold={"unreachable": True, "msg": "no route"})) == []


@pytest.mark.parametrize(("tries", "slow", "asked"), [(3, 9, 3), (3, 1, 2), (None, 9, 1)])
def test_a_machine_that_is_slow_is_asked_again_where_no_pass_follows(monkeypatch, tries, slow, asked):
    looks = []

    def ask(self, *_args, **_more):
        looks.append(True)
        return {"look": {"reached": False, "cut_off": 5.0} if len(looks) <= slow else {"reached": True, "changed": False}, "acts": []}

    monkeypatch.setattr(turn_action.LookAction, "run", lambda self, tmp=None, task_vars=None: {})
    monkeypatch.setattr(turn_action.LookAction, "ask", ask)
    action = turn_action.ActionModule.__new__(turn_action.ActionModule)
    turn = {"name": "web1", "options": {}, **({"tries": tries} if tries else {})}
    action._task = SimpleNamespace(args={"turn": turn}, delegate_to=None)
    found = action.run(task_vars={"inventory_hostname": "web1", "hostvars": {}})
    assert (len(looks), found["reached"]) == (asked, asked > slow)


def test_a_machine_that_hangs_does_not_keep_the_run_from_its_end(monkeypatch):
    monkeypatch.setattr(_look_action, "GRACE", 0.1)
    monkeypatch.setattr(_look_action, "GRACE_EACH", 0.0)
    monkeypatch.setattr(turn_action.LookAction, "run", lambda self, tmp=None, task_vars=None: {})
    monkeypatch.setattr(turn_action, "farewell", lambda *_: time.sleep(patient(10)))
    action = turn_action.ActionModule.__new__(turn_action.ActionModule)
    action._task = SimpleNamespace(args={"turn": {"name": "web1", "farewell": True}}, delegate_to=None)
    action._connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/tmp/x"))
    began = time.monotonic()
    assert action.run(task_vars={"inventory_hostname": "web1"}) == {"changed": False}
    assert time.monotonic() - began < patient(5)


@pytest.mark.parametrize("number", [3, "3"])
@pytest.mark.parametrize(("failed_in", "record"), [(3, None), (2, "drain_host_step_x")])
def test_a_file_that_failed_is_not_done_whatever_it_has_set_before(number, failed_in, record):
    args = {"file": {"record": "drain_host_step_x", "path": "out.yml"}, "number": number}
    task_vars = {"graceful_azure_done": True, "graceful_azure_failure": {"pass": failed_in, "message": "no"}}
    assert turn_action._done_file(args, task_vars) == record
