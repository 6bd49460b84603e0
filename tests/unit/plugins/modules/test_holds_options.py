# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the modules that put and release holds, as a host sees them."""

from __future__ import annotations

import pytest

from tests.support.calls import told


@pytest.mark.parametrize("module", ["haproxy_hold", "service_hold", "task_hold"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"event_ids": []}, "event_ids is an empty list. Name at least one event."),
        ({"event_ids": [""]}, "event_ids contains an empty id."),
        ({}, "event_ids"),
        ({"event_ids": ["A"], "event_details": {"A": 3}}, "event_details['A'] is 3; it must be a dictionary."),
        ({"state": "absent", "event_ids": []}, "leave the option out to release the hold for every event"),
        ({"state": "gone", "event_ids": ["A"]}, "value of state must be one of: present, absent, got: gone"),
    ],
)
def test_mistakes_name_the_option(tmp_path, module, options, said):
    own = {"haproxy_hold": {"server": "web1"}, "service_hold": {"services": ["a"]}, "task_hold": {"name": "n"}}[module]
    result = told(module, dict(own, state_dir=str(tmp_path / "state"), **options))
    assert result["failed"] and said in result["msg"], result
    assert "exception" not in result and not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("module", "options", "said"),
    [
        ("service_hold", {"services": ["a"], "event_ids": ["A"], "timeout": -1}, "timeout is -1.0; it must be a number of seconds"),
        ("service_hold", {"services": ["a"], "event_ids": ["A"], "timeout": "nan"}, "timeout is nan"),
        ("service_hold", {"services": ["a"], "event_ids": ["A"], "timeout": "soon"}, "timeout"),
        ("service_hold", {"services": [], "event_ids": ["A"]}, "services is an empty list"),
        ("service_hold", {"event_ids": ["A"]}, "services"),
        ("service_hold", {"services": ["a b"], "event_ids": ["A"]}, "'a b' is not the name of a systemd unit (option services)."),
        ("haproxy_hold", {"server": "a;b", "event_ids": ["A"]}, "'a;b' is no name of a server or backend of HAProxy"),
        ("haproxy_hold", {"server": "a", "event_ids": ["A"], "backends": []}, "backends is an empty list"),
        ("haproxy_hold", {"server": "a", "event_ids": ["A"], "out_state": "ready"}, "value of out_state must be one of: drain, maint"),
        ("haproxy_info", {"servers": ["a"], "timeout": "inf"}, "timeout is inf"),
        ("haproxy_info", {"servers": ["a"], "quiet": -1}, "quiet is -1.0; it must be a number of seconds, 0 or more."),
        ("haproxy_info", {"servers": []}, "servers is an empty list"),
    ],
)
def test_their_own(tmp_path, module, options, said):
    result = told(module, dict(options, state_dir=str(tmp_path / "state")))
    assert result["failed"] and said in result["msg"], result
    assert "exception" not in result and not (tmp_path / "state").exists()


def test_check_mode_writes_no_record(tmp_path):
    options = {"name": "n", "event_ids": ["A"], "state_dir": str(tmp_path / "state")}
    assert told("task_hold", options, check=True)["changed"]
    assert not (tmp_path / "state").exists()
    assert told("task_hold", options)["held_by"] == ["A"]
    assert not told("task_hold", options)["changed"]
