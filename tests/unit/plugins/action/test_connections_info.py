# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.action.connections_info import ActionModule


@pytest.fixture
def action():
    return ActionModule.__new__(ActionModule)


@pytest.mark.parametrize(
    ("result", "finished"), [({"idle": True}, True), ({"idle": False}, False), ({"failed": True, "msg": "no"}, True), ({"msg": "no"}, False)]
)
def test_when_it_is_finished(action, result, finished):
    assert action.finished(result) is finished


def test_what_a_person_is_told(action):
    assert action.progress({"left": ["1 connection on port 80", "2 connections on port 443"]}) == "1 connection on port 80, 2 connections on port 443"
    assert action.progress(None) == action.progress({"left": []}) == "connections to end"
