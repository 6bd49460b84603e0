# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import types

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.graceful.azure.plugins.action.wait_for_answer import ActionModule

WHY = "http://localhost/: status 503"
NO = {"failed": True, "answered": False, "reason": WHY, "msg": f"No answer within 5 s: {WHY}", "elapsed": 5.0}
YES = {"changed": False, "answered": True, "reason": None, "elapsed": 0.1}


@pytest.fixture
def action(monkeypatch):
    """The action with a module of scripted results, each of which takes 5 seconds."""
    action = ActionModule.__new__(ActionModule)
    action._task = types.SimpleNamespace(args={"url": "http://localhost/", "timeout": 60}, check_mode=False, async_val=0)
    action._connection = types.SimpleNamespace(transport="local")
    now = [100.0]
    results = []

    def execute(module_args=None, task_vars=None, wrap_async=False):
        now[0] += 5
        return dict(results.pop(0))

    monkeypatch.setattr(ActionBase, "run", lambda self, tmp=None, task_vars=None: {})
    action._execute_module = execute
    action.monotonic = lambda: now[0]
    action.results = results
    return action


def test_the_seconds_are_those_of_the_whole_wait(action):
    action.results.extend([NO, NO, YES])
    assert action.run(task_vars={"inventory_hostname": "web1"}) == dict(YES, elapsed=15.0)


def test_a_time_out_speaks_of_the_whole_wait(action):
    action.results.extend([NO] * 12)
    result = action.run(task_vars={"inventory_hostname": "web1"})
    assert result == dict(NO, msg="No answer within 60 s: http://localhost/: status 503", elapsed=60.0)


def test_another_failure_ends_the_wait(action):
    action.results.append({"failed": True, "msg": "url must be like http://localhost:8080/health, not 'x'"})
    assert action.run(task_vars={"inventory_hostname": "web1"})["msg"].startswith("url must be")


def test_one_try(action):
    action._task.args["timeout"] = 0
    action.results.append(dict(NO, failed=False))
    assert action.run(task_vars={})["answered"] is False


def test_what_a_person_is_told(action):
    assert action.progress(NO) == "an answer (http://localhost/: status 503)"
    assert action.progress(None) == action.progress(YES) == "an answer"
