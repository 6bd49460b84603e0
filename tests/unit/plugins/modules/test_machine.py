# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests that no machine can answer."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.graceful.azure.plugins.module_utils import _handle
from ansible_collections.graceful.azure.plugins.module_utils._handle import handle
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms import windows_modules

from tests.support.calls import ScriptedMachine
from tests.support.module import run_module

HOLD = {"call": "task_hold", "args": {"name": ["x"], "event_ids": ["E1"]}}
BAD_ACTS = [
    ({"call": "nope", "args": {}}, "call: 'nope' is none of approval_hold,"),
    ({**HOLD, "args": [1]}, "args: [1] is no dictionary"),
    ({"args": {}}, "call: None"),
]


@pytest.mark.parametrize(("bad", "why"), BAD_ACTS)
def test_a_call_that_is_none_fails_alone(bad, why, tmp_path):
    good = {"call": "task_hold", "args": {**HOLD["args"], "state_dir": str(tmp_path / "state")}}
    answer = handle({"acts": [bad, good], "look": bad}, lambda params: ScriptedMachine(state_dir=str(params.get("state_dir"))))
    assert [each["failed"] for each in (answer["acts"][0], answer["look"])] == [True, True]
    assert answer["acts"][0]["msg"].startswith(why) and answer["look"]["msg"].startswith(why)
    assert answer["acts"][1]["changed"]


@pytest.mark.parametrize("request_", [{"acts": 5}, {"acts": [5]}, {"look": 5}])
def test_a_request_that_is_none_is_refused_on_both_platforms(request_):
    told = [run_module("machine", {"request": request_}), windows_modules.run(None, "machine", {"request": request_}, {})]
    assert all(each["failed"] and "request" in each["msg"] for each in told), told


@pytest.mark.parametrize("args", [{"call": "hold_repair", "args": "x"}, {}, {"call": "hold_repair", "request": {}}])
def test_windows_hosts_check_the_options_of_the_module_too(args):
    assert windows_modules.run(None, "machine", args, {})["failed"] and run_module("machine", args)["failed"]


def test_what_was_done_before_a_windows_host_goes_down_is_told(monkeypatch):
    """Such as an approval: the host reboots as soon as it is sent."""
    asked = []

    def approve(params, machine):
        asked.append("approval")
        return {"changed": True, "approved": ["E1"], "done": True}

    def look(params, machine):
        asked.append("look")
        raise AnsibleConnectionFailure("no route")

    monkeypatch.setitem(_handle.CALLS, "approval_hold", lambda: _handle.Call({}, approve))
    monkeypatch.setitem(_handle.CALLS, "task_hold", lambda: _handle.Call({}, look))
    monkeypatch.setitem(_handle.CALLS, "host_observation", lambda: _handle.Call({}, look))
    action = SimpleNamespace(_task=SimpleNamespace(check_mode=False))
    sent, put, seen = ({"call": name, "args": {}} for name in ("approval_hold", "task_hold", "host_observation"))
    answer = windows_modules.answer_request(action, {"acts": [sent], "look": seen}, {})
    assert answer["acts"][0]["approved"] == ["E1"] and answer["look"]["unreachable"] and answer["look"]["msg"] == "no route"
    asked.clear()
    answer = windows_modules.answer_request(action, {"acts": [sent, put, put], "look": seen}, {})
    assert asked == ["approval", "look"] and [act.get("unreachable", False) for act in answer["acts"]] == [False, True, True]
    assert answer["look"]["unreachable"]
    with pytest.raises(AnsibleConnectionFailure):
        windows_modules.answer_request(action, {"look": seen}, {})
