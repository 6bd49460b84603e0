# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import types

import pytest
from ansible_collections.graceful.azure.plugins.action.haproxy_info import ActionModule


@pytest.fixture
def action():
    action = ActionModule.__new__(ActionModule)
    action._task = types.SimpleNamespace(args={"servers": ["web1"]})
    return action


def server(name, sessions=0, queue=0):
    return {"backend": "www", "server": name, "sessions": sessions, "queue": queue}


@pytest.mark.parametrize(
    ("result", "finished"), [({"idle": True}, True), ({"idle": False}, False), ({"failed": True}, True), ({"failed": True, "idle": False}, True)]
)
def test_when_it_is_finished(action, result, finished):
    assert action.finished(result) is finished


def test_what_a_person_is_told(action):
    result = {"servers": [server("web1", 2), server("web1", 0, 1), server("web1"), server("web2", 9)]}
    assert action.progress(result) == "2 sessions, 0 queued on www/web1; 0 sessions, 1 queued on www/web1"
    action._task.args["servers"] = "web2,web3"
    assert action.progress(result) == "9 sessions, 0 queued on www/web2"
    assert action.progress({"servers": [server("web2", 1)]}) == "1 session, 0 queued on www/web2"
    del action._task.args["servers"]
    assert "web1" in action.progress(result) and "web2" in action.progress(result)
    assert action.progress(None) == action.progress({}) == "the balancer's servers to be idle"
