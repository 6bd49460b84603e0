# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A look that does not come to its end is cut off, and one without a result says why there is none."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import select
import signal
import subprocess
import time
import types

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.graceful.azure.plugins.action.turn import ActionModule
from ansible_collections.graceful.azure.plugins.module_utils._events import READ_SECONDS
from ansible_collections.graceful.azure.plugins.plugin_utils import _look_action, _time_limit
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.by_platform import OVERHEAD
from ansible_collections.graceful.azure.plugins.plugin_utils._time_limit import CutOffError, TimeLimit, pause

from tests.support.patience import patient, until

TASK_VARS = {"ansible_forks": 1, "ansible_play_hosts_all": ["web1"], "graceful_azure_helper": False}


@pytest.fixture
def action(monkeypatch):
    """A look whose grace is short; C(action.process) is what its connection started."""
    monkeypatch.setattr(_look_action, "GRACE", 0.1)
    monkeypatch.setattr(_look_action, "GRACE_EACH", 0.0)
    action = ActionModule.__new__(ActionModule)
    action.closed = []
    action._task = types.SimpleNamespace(delegate_to=None)
    action._templar = types.SimpleNamespace(template=lambda value: value)
    action._connection = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir="/tmp/x"), close=lambda: action.closed.append(True))

    def start():
        action.process = subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE)
        return action.process

    action.start = start
    return action


def look(action, execute, seconds=0.1, is_unwanted=None):
    action._execute_module = lambda **_args: execute()
    began = time.monotonic()
    result = action.look("module", {}, TASK_VARS, seconds, is_unwanted)
    return result, time.monotonic() - began


def test_a_look_that_hangs_is_cut_off_and_its_process_ended(action):
    result, seconds = look(action, lambda: action.start().communicate())
    assert 0.2 <= seconds < patient(2)
    assert result["reached"] is False and "fatal" not in result and "did not finish its answer within 0.2 s" in result["error"]
    assert action.process.wait(patient(5)) == -signal.SIGTERM
    assert action._connection._shell.tmpdir is None


def test_a_connection_that_makes_another_error_of_it_and_tries_again(action):
    def execute():
        try:
            try:
                action.start().wait()
            finally:
                raise BrokenPipeError
        except OSError:
            action.start().wait()

    result, seconds = look(action, execute)
    assert seconds < patient(4) and result["cut_off"] == pytest.approx(0.2) and "fatal" not in result
    assert action.process.wait(patient(5)) == -signal.SIGTERM


def test_a_process_that_belongs_to_another_user_by_now_keeps_no_other_one(action, monkeypatch):
    """As C(sudo) does on this machine."""
    end, others = subprocess.Popen.terminate, []

    def terminate(process):
        if process in others:
            raise PermissionError(1, "Operation not permitted")
        end(process)

    def execute():
        own = action.start()
        others.append(subprocess.Popen(["sleep", "60"]))
        return own and others[0].wait()

    with monkeypatch.context() as patch:
        patch.setattr(subprocess.Popen, "terminate", terminate)
        result, seconds = look(action, execute)
    assert seconds < patient(4) and result["cut_off"] == pytest.approx(0.2) and "fatal" not in result
    assert action.process.wait(patient(5)) == -signal.SIGTERM
    others[0].terminate()
    others[0].wait(patient(5))


SSH = "Shared connection to 10.0.0.11 closed.\r\n"
TRACEBACK = "Traceback (most recent call last):\r\n  File ...\r\nImportError: libssl.so.3: cannot open shared object file\r\n"


@pytest.mark.parametrize(
    ("stderr", "stdout", "said"),
    [
        # What ssh says of itself hides nothing: its terminal has put the errors of the module into the output.
        (SSH, "/bin/sh: 1: /usr/bin/python9: not found\r\n", "/bin/sh: 1: /usr/bin/python9: not found"),
        (
            f"Warning: Permanently added '10.0.0.11' (ED25519) to the list of known hosts.\r\n{SSH}",
            TRACEBACK,
            "ImportError: libssl.so.3: cannot open shared object file",
        ),
        ("", TRACEBACK, "ImportError: libssl.so.3: cannot open shared object file"),
        ("python3: not found\n", "", "python3: not found"),
        # A machine that reboots ends the connection, and there is nothing else.
        (SSH, "", "Shared connection to 10.0.0.11 closed."),
        ("", "", "MODULE FAILURE"),
    ],
)
def test_a_module_that_ends_without_a_result_is_quoted(action, stderr, stdout, said):
    result, _seconds = look(action, lambda: {"failed": True, "msg": "MODULE FAILURE", "module_stderr": stderr, "module_stdout": stdout, "rc": 127})
    assert result["error"] == result["fatal"] == said


@pytest.mark.parametrize("suspended", [0.0, 600.0])
def test_what_was_answered_before_the_controller_was_suspended_is_not_taken_for_new(action, monkeypatch, suspended):
    """The answer has come in the meantime, and the steady clock, by which the look is limited, has stood still."""
    later = 0.0
    monkeypatch.setattr(_look_action, "time", types.SimpleNamespace(time=lambda: time.time() + later, sleep=time.sleep))

    def execute():
        nonlocal later
        later = suspended
        return {"acts": [{"changed": True, "done": True}], "look": {"events": [], "age": 0.0}}

    action._execute_module = lambda **_args: execute()
    request = {"acts": [{"call": "task_hold", "args": {}}], "look": {"call": "host_observation", "args": {}}}
    answer = action.ask(request, TASK_VARS, 0.1)
    assert answer["look"]["reached"] is not bool(suspended) and ("events" in answer["look"]) is not bool(suspended)
    # What was done was done.
    assert answer["acts"] == [{"changed": True, "done": True}]


def test_a_look_that_is_not_wanted_any_more_is_ended(action):
    def exec_command():
        action.start().communicate()

    result, seconds = look(action, exec_command, seconds=30, is_unwanted=lambda: True)
    assert seconds < patient(2) and result["ended"] is True and "reached" not in result and "error" not in result
    assert action.process.wait(patient(5)) == -signal.SIGTERM
    # The host lives: what Ansible has put there is removed as ever, by a connection of its own.
    assert action._connection._shell.tmpdir == "/tmp/x" and action.closed


def test_what_is_done_before_a_connection_is_waited_for_is_not_ended(action):
    result, _seconds = look(action, lambda: time.sleep(0.5) or {"acts": [], "look": {"events": []}}, seconds=30, is_unwanted=lambda: True)
    assert result["reached"] is True and "ended" not in result


def test_a_run_that_is_dead_waits_for_nothing(action, monkeypatch):
    parents = iter([1, 2])
    monkeypatch.setattr(_time_limit.os, "getppid", lambda: next(parents, 2))

    def exec_command():
        action.start().communicate()

    result, seconds = look(action, exec_command, seconds=30)
    assert seconds < patient(2) and result["ended"] is True


@pytest.mark.parametrize("killed", [True, False])
def test_a_worker_of_a_killed_run_ends_and_gives_nobody_its_result(killed):
    """Ansible writes a result into a pipe. If nobody reads it, the worker waits there for ever."""
    fork, (ours, theirs) = multiprocessing.get_context("fork"), os.pipe()

    def worker(run):
        until(lambda: not killed or os.getppid() != run, 10)
        _time_limit.end_if_run_was_killed()
        os.write(theirs, b"result")

    def controller():
        process = fork.Process(target=worker, args=[os.getpid()])
        process.start()
        if not killed:
            process.join()
        os.kill(os.getpid(), signal.SIGKILL)

    run = fork.Process(target=controller)
    run.start()
    os.close(theirs)
    run.join(patient(20))
    assert select.select([ours], [], [], patient(20))[0], "the worker waits"
    assert os.read(ours, 100) == (b"" if killed else b"result")
    os.close(ours)


@pytest.mark.parametrize(
    ("said", "seems_off"),
    [
        ("ssh: connect to host web1 port 22: Connection timed out", True),
        ("ssh: connect to host web1 port 22: No route to host", True),
        ("ssh: connect to host web1 port 22: Connection refused", False),
        ("Host key verification failed.", False),
    ],
)
def test_where_nothing_answers_the_machine_may_be_off(action, said, seems_off):
    def fail():
        raise AnsibleConnectionFailure(f"Failed to connect to the host via ssh: {said}")

    result, _seconds = look(action, fail)
    assert (result["reached"], result["seems_off"]) == (False, seems_off) and said in result["error"]


def test_acts_are_not_ended_and_have_more_time(action, monkeypatch):
    monkeypatch.setattr(_look_action, "ACT", 0.2)
    request = {"acts": [{"call": "task_hold", "args": {}}], "look": {"call": "host_observation", "args": {}}}

    def exec_command(**_args):
        action.start().communicate()

    action._execute_module = exec_command
    began = time.monotonic()
    answer = action.ask(request, TASK_VARS, 0.1, lambda: True)
    assert 0.4 <= time.monotonic() - began < patient(3)
    assert answer["acts"][0]["unreachable"] and answer["look"]["cut_off"] == pytest.approx(0.2), "it is spared for a look's time"


@pytest.fixture
def rung():
    """When the alarm of a task rings. The test itself has one, too."""
    rung = []
    former, left = signal.signal(signal.SIGALRM, lambda *_: rung.append(True)), signal.setitimer(signal.ITIMER_REAL, 0)[0]
    yield rung
    signal.setitimer(signal.ITIMER_REAL, left)
    signal.signal(signal.SIGALRM, former)


def test_one_in_time_is_left_alone_and_no_alarm_stays(action, rung):
    result, _seconds = look(action, lambda: {"acts": [], "look": {"events": []}}, seconds=5)
    assert result["reached"] is True and result["events"] == [] and "cut_off" not in result
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0) and not rung


@pytest.mark.parametrize("hangs", [False, True])
def test_the_alarm_of_the_task_goes_on(action, rung, hangs):
    signal.setitimer(signal.ITIMER_REAL, 300)
    _result, seconds = look(action, (lambda: time.sleep(60)) if hangs else lambda: {"acts": []})
    assert not rung and 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 300 - seconds
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    until(lambda: rung, 5, "the alarm has its handler")
    assert rung == [True]


def test_the_more_looks_at_once_the_longer_each_may_take(action, monkeypatch):
    monkeypatch.setattr(_look_action, "GRACE_EACH", 1.0)
    limits = []

    class Limit:
        def __init__(self, seconds, _is_unwanted, **_more):
            limits.append(seconds)

        def __enter__(self):
            return self

        def __exit__(self, *_error):
            return None

    monkeypatch.setattr(_look_action, "TimeLimit", Limit)
    action._execute_module = lambda **_args: {"acts": []}
    for forks, hosts in ((5, 100), (50, 20), (None, 1)):
        action.look("module", {}, dict(TASK_VARS, ansible_forks=forks, ansible_play_hosts_all=["web"] * hosts), 5.0)
    assert limits == pytest.approx([10.1, 25.1, 6.1])


def test_news_end_a_look_whose_transfer_hangs(action):
    """Without pipelining a module is copied first. A host whose disk hangs never answers that; another host has news meanwhile."""

    def put_file():
        action.start().communicate()

    result, seconds = look(action, put_file, seconds=8, is_unwanted=lambda: True)
    assert seconds < patient(5) and result["ended"] is True, (seconds, result)


def test_news_end_a_pause_on_the_controller():
    """A look at a Windows host waits on the controller, where nothing runs meanwhile."""
    limit, began = TimeLimit(30, lambda: True), time.monotonic()
    with pytest.raises(CutOffError), limit:
        pause(20)
    assert limit.ended and time.monotonic() - began < patient(5)


def test_a_windows_host_has_more_time(action, monkeypatch):
    limits = []
    monkeypatch.setattr(_look_action, "is_windows", lambda *_who: True)
    monkeypatch.setattr(_look_action, "TimeLimit", lambda seconds, _is_unwanted, **_more: limits.append(seconds) or contextlib.nullcontext())
    monkeypatch.setattr(_look_action, "ask_machine", lambda *_what: {"acts": [], "look": {"events": []}})
    action.look("module", {}, {}, 5.0)
    assert limits == pytest.approx([5.1 + OVERHEAD])


class TestRecordsOfOthers:
    """Two names of one machine, of which each run has one as its target."""

    VARS = {"inventory_hostname": "jobs1", "hostvars": {"jobs1": {}, "app1": {}}}

    def record(self, **details):
        return {"kind": "service", "events": {"A": {"since": "", "reason": "", "details": details}}, "path": "/state/service-x.json"}

    def look(self, action, *records):
        action._execute_module = lambda **_args: {"acts": [], "look": {"events": [], "holds": list(records)}}
        return action.look_at_host({}, dict(TASK_VARS, **self.VARS), None, {}, READ_SECONDS)

    def test_they_do_not_count_and_a_person_must_see_to_it(self, action):
        result = self.look(action, self.record(host="jobs1"), self.record(host="app1"))
        assert result["holds"] is None and result["of_others"] and result["fatal"].startswith("its folder has records of app1 (/state/service-x.json)")
        assert "graceful_azure_state_dir of its own" in result["fatal"]

    # Older records have no name, and a host may have had another name before.
    @pytest.mark.parametrize("details", [{}, {"host": "jobs1"}, {"host": "jobs-before"}])
    def test_its_own_count(self, action, details):
        result = self.look(action, self.record(**details))
        assert "fatal" not in result and result["holds"]


@pytest.mark.parametrize("since, least", [(0.4, 1.4), (5.0, 2.0)])
def test_a_look_that_has_to_rest_ends_with_the_look_at_the_balancers(action, monkeypatch, since, least):
    """The balancers are looked at meanwhile."""
    asked, rested = [], []
    clock = types.SimpleNamespace(time=lambda: 1000.0, sleep=rested.append)
    monkeypatch.setattr(_look_action, "time", clock)
    action.look = lambda _call, options, *_more: asked.append(options) or {"events": []}
    action.look_at_host({"wait": 3.6, "at_least": 2.0}, TASK_VARS, None, {"read_at": 1000.0 - since}, READ_SECONDS)
    assert rested == [pytest.approx(2.0 - least)] and asked[0]["at_least"] == pytest.approx(least)
