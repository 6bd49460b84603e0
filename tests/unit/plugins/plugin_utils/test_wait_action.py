# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleAuthenticationFailure, AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.graceful.azure.plugins.plugin_utils import _wait_action
from ansible_collections.graceful.azure.plugins.plugin_utils._wait_action import WaitAction

from tests.support.service import Clock

LOST = AnsibleConnectionFailure("no route to host")
KILLED = {"failed": True, "module_stdout": "", "module_stderr": "Terminated", "rc": 143}
BROKEN = {"failed": True, "module_stdout": "", "module_stderr": "python3: not found", "rc": 127}


class Connection:
    transport = "ssh"

    def __init__(self):
        self.options = {"ssh_common_args": "-F none", "control_path": None, "host": "h", "port": None, "remote_user": "u"}
        self.resets = 0
        self._shell = SimpleNamespace(tmpdir="/home/u/.ansible/tmp/x")

    def get_option(self, name):
        return self.options[name]

    def set_option(self, name, value):
        self.options[name] = value

    def reset(self):
        self.resets += 1


class Waiting(WaitAction):
    """Each call takes as long as it may, or as long as the script says."""

    def __init__(self, script, **args):
        self._task = SimpleNamespace(args=args, action="graceful.azure.some_module", check_mode=False, async_val=0)
        self._connection = Connection()
        self.script = list(script)
        self.calls = []
        self.clock = Clock()
        self.monotonic, self.sleep = self.clock.monotonic, self.clock.sleep

    def _execute_module(self, module_args=None, task_vars=None, wrap_async=False, **_more):
        args = self._task.args if module_args is None else module_args
        self.calls.append(args)
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        seconds = None
        if isinstance(answer, tuple):
            answer, seconds = answer
        if isinstance(answer, Exception):
            self.clock.now += seconds or 0
            raise answer
        self.clock.now += args.get("timeout", 0) if seconds is None else seconds
        return dict(answer)

    def finished(self, result):
        return bool(result.get("done") or result.get("failed"))

    def progress(self, result):
        return f"things to be done ({(result or {}).get('left', 'nobody knows')})"

    def go(self):
        return self.run(task_vars={"inventory_hostname": "web1"})


@pytest.fixture(autouse=True)
def shown(monkeypatch):
    lines = []
    monkeypatch.setattr(_wait_action.display, "display", lines.append)
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp=None, task_vars=None: {})
    return lines


def timeouts(action):
    return [round(args["timeout"], 2) for args in action.calls]


def test_short_calls_until_it_is_done(shown):
    action = Waiting([{"left": 3}, {"left": 1}, ({"done": True}, 2)], timeout=60, other="x")
    assert action.go() == {"done": True}
    assert timeouts(action) == [5, 5, 5]
    assert {args["other"] for args in action.calls} == {"x"}
    assert shown == ["web1: waiting for things to be done (3), 5 of 60 s", "web1: waiting for things to be done (1), 10 of 60 s"]


def test_the_last_call_gets_what_is_left():
    action = Waiting([{}], timeout="12")
    assert action.go() == {}
    assert timeouts(action) == [5, 5, 2]
    assert action.clock.now == 1012


def test_one_call_where_no_time_is_given():
    for args in ({}, {"timeout": 0}):
        action = Waiting([{"left": 1}], **args)
        assert action.go() == {"left": 1}
        assert action.calls == [args]


@pytest.mark.parametrize("timeout", ["soon", None, -1, "nan", float("inf"), [1]])
def test_what_is_no_time_is_the_modules_to_refuse(timeout):
    action = Waiting([({"failed": True, "msg": "timeout"}, 0)], timeout=timeout)
    assert action.go()["failed"]
    assert len(action.calls) == 1


@pytest.mark.parametrize("way", ["check_mode", "async_val"])
def test_one_call_in_check_mode_and_in_the_background(way):
    action = Waiting([{"left": 1}], timeout=60)
    setattr(action._task, way, 300)
    assert action.go() == {"left": 1}
    assert action.calls == [{"timeout": 60}]


def test_no_end(shown):
    class Endless(Waiting):
        def limit(self, timeout):
            return timeout or math.inf

    action = Endless([{}] * 100 + [{"done": True}], timeout=0)
    assert action.go() == {"done": True}
    assert shown[0].endswith(", 5 s")


def test_a_lost_connection_is_taken_up_again(shown):
    action = Waiting([{"left": 2}, (LOST, 3), (LOST, 3), ({"done": True}, 1)], timeout=60)
    assert action.go() == {"done": True}
    assert action._connection.resets == 2
    assert action.clock.slept == [1, 1]
    assert timeouts(action) == [5, 5, 5, 5]
    assert shown[-1] == "web1: waiting for things to be done (2), 13 of 60 s; the host cannot be reached"


def test_a_host_that_is_away_from_the_start():
    action = Waiting([(LOST, 3), ({"done": True}, 1)], timeout=60)
    assert action.go() == {"done": True}


def test_a_host_that_never_comes_back():
    action = Waiting([{}, (LOST, 3)], timeout=20)
    with pytest.raises(AnsibleConnectionFailure, match="no route"):
        action.go()
    assert 20 <= action.clock.now - 1000 < 23
    assert all(args["timeout"] > 0 for args in action.calls)
    # Nothing is to be cleaned up where nobody answers.
    assert action._connection._shell.tmpdir is None


def test_a_subclass_says_what_a_timeout_is():
    class Telling(Waiting):
        def timed_out(self, result, error, elapsed):
            return dict(result, failed=True, msg=f"{elapsed:.0f} s, {error}")

    assert Telling([{"left": 1}], timeout=10).go() == {"left": 1, "failed": True, "msg": "10 s, None"}
    assert "no route" in Telling([{"left": 1}, (LOST, 9)], timeout=10).go()["msg"]


def test_a_failed_call_is_the_subclass_to_judge():
    assert Waiting([({"failed": True, "msg": "no such port"}, 0)], timeout=10).go() == {"failed": True, "msg": "no such port"}


def test_a_module_that_was_killed_with_its_host():
    assert Waiting([{}, (KILLED, 1), ({"done": True}, 1)], timeout=60).go() == {"done": True}
    assert Waiting([(KILLED, 1), ({"done": True}, 1)], timeout=60).go() == {"done": True}
    with pytest.raises(AnsibleConnectionFailure, match="Terminated"):
        Waiting([(KILLED, 1)], timeout=60).go()


def test_a_module_that_cannot_run_is_a_failure_at_once():
    action = Waiting([(BROKEN, 1)], timeout=60)
    assert action.go() == BROKEN
    assert len(action.calls) == 1


def test_after_a_call_that_worked_a_broken_module_is_a_host_on_its_way():
    assert Waiting([{}, (BROKEN, 1), ({"done": True}, 1)], timeout=60).go() == {"done": True}


def test_a_wrong_password_is_not_tried_again():
    action = Waiting([AnsibleAuthenticationFailure("permission denied")], timeout=60)
    with pytest.raises(AnsibleAuthenticationFailure):
        action.go()
    assert len(action.calls) == 1


def test_a_host_that_boots_refuses_a_right_password():
    assert Waiting([{}, AnsibleAuthenticationFailure("booting"), ({"done": True}, 1)], timeout=60).go() == {"done": True}


def test_a_mistake_is_raised_at_once():
    action = Waiting([AnsibleError("no such module")], timeout=60)
    with pytest.raises(AnsibleError, match="no such module"):
        action.go()
    assert len(action.calls) == 1


def test_a_disk_that_came_back_empty():
    action = Waiting([(LOST, 1), AnsibleError("failed to transfer file"), ({"done": True}, 1)], timeout=60)
    assert action.go() == {"done": True}
    assert action._connection._shell.tmpdir is None


def test_ssh_ends_by_itself_when_the_host_is_silent():
    action = Waiting([{"done": True}], timeout=60)
    action.go()
    options = action._connection.options
    assert options["ssh_common_args"] == "-F none -o ServerAliveInterval=1 -o ServerAliveCountMax=5"
    assert options["control_path"].startswith("%(directory)s/")
    assert len(options["control_path"]) <= 24


def test_the_users_own_control_path_stays():
    action = Waiting([{"done": True}], timeout=60)
    action._connection.options["control_path"] = "/run/user/%%C"
    action.go()
    assert action._connection.options["control_path"] == "/run/user/%%C"


@pytest.mark.parametrize("args", [{"timeout": 5}, {}])
def test_one_short_call_uses_the_connection_as_it_is(args):
    action = Waiting([{"done": True}], **args)
    action.go()
    assert action._connection.options["ssh_common_args"] == "-F none"


def test_other_connections_are_left_alone():
    action = Waiting([{"done": True}], timeout=60)
    action._connection.transport = "local"
    action.go()
    assert action._connection.options["ssh_common_args"] == "-F none"


def test_a_reset_that_fails():
    def reset():
        raise AnsibleConnectionFailure("again")

    action = Waiting([(LOST, 1), ({"done": True}, 1)], timeout=60)
    action._connection.reset = reset
    assert action.go() == {"done": True}
