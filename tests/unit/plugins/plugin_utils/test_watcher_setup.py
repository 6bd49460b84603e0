# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role event_watcher refuses before it changes anything. What the watcher itself says, too, is in test_settings.py."""

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._watcher_setup import IS_WINDOWS, mistakes

AWX = {"action": "awx", "url": "https://awx.example.com/api/v2/job_templates/7/", "secret": "s3cret"}
GIVEN = {
    "host": "web1", "state": "present", "graceful_azure_platform": "", "ansible_connection": "ssh", "ansible_shell_type": "sh",
    "action": "", "command": [], "command_timeout": 4200, "url": "", "auth": "token", "secret": "", "secret_file": "",
    "fast_path": [], "fast_path_undo": [], "fast_path_types": ["Preempt"], "repeat": 60,
}  # fmt: skip
LISTS = "event_watcher_command, event_watcher_fast_path, event_watcher_fast_path_undo and event_watcher_fast_path_types must be lists, like [touch, /run/out]."
WORDS = "A word of event_watcher_command, event_watcher_fast_path or event_watcher_fast_path_undo is empty, or neither text nor a number."


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, ["event_watcher_action is not given: it must be one of run, awx, eda, file."]),
        ({"action": "run"}, ["event_watcher_action run needs event_watcher_command."]),
        ({"action": "run", "command": "/usr/bin/handle --now"}, [LISTS]),
        ({"action": "file", "fast_path_types": "Preempt"}, [LISTS]),
        ({"action": "run", "command": ["/usr/bin/handle", ""]}, [WORDS]),
        ({"action": "run", "command": [["/usr/bin/handle"]]}, [WORDS]),
        ({"action": "run", "command": ["/usr/bin/handle", True]}, [WORDS]),
        ({"action": "file", "fast_path_undo": ["in"]}, ["event_watcher_fast_path_undo is given, but no event_watcher_fast_path that it undoes."]),
        ({"action": "file", "repeat": 0}, ["event_watcher_repeat must be a number of seconds from 1 up, not 0."]),
        ({"action": "file", "repeat": "often"}, ["event_watcher_repeat must be a number of seconds from 1 up, not 'often'."]),
        (dict(AWX, auth="hmac"), ["event_watcher_auth is 'hmac': with event_watcher_action awx it must be one of token, host_config_key."]),
        (dict(AWX, url=""), ["event_watcher_action awx needs event_watcher_url."]),
        (dict(AWX, url="https://me:hidden@awx.example.com/"), ["event_watcher_url must not carry a user name or password."]),
        (dict(AWX, secret=""), ["event_watcher_secret and event_watcher_secret_file: exactly one of the two must be given."]),
        (dict(AWX, secret_file="/k"), ["event_watcher_secret and event_watcher_secret_file: exactly one of the two must be given."]),
        (dict(AWX, secret="first\nsecond"), ["event_watcher_secret must be one line of printable characters without blanks."]),
    ],
)
def test_mistakes(given, said):
    assert mistakes(dict(GIVEN, **given)) == said


@pytest.mark.parametrize(
    "given",
    [{"action": "run", "command": ["/usr/bin/handle", "--port", 8080]}, {"action": "file", "repeat": "60", "command_timeout": 1.5}, AWX],
)
def test_what_is_right(given):
    assert mistakes(dict(GIVEN, **given)) == []


@pytest.mark.parametrize("state", ["present", "absent"])
@pytest.mark.parametrize(
    ("told", "is_windows"),
    [
        ({"ansible_connection": "psrp"}, True),
        ({"ansible_shell_type": "powershell"}, True),
        ({"graceful_azure_platform": "windows"}, True),
        ({"graceful_azure_platform": "linux", "ansible_connection": "winrm"}, False),
    ],
)
def test_a_windows_host_is_refused(told, is_windows, state):
    assert mistakes({**GIVEN, "action": "file", "state": state, **told}) == [f"web1 {IS_WINDOWS}"] * is_windows


def test_of_a_watcher_that_is_removed_nothing_else_is_checked():
    assert mistakes({**GIVEN, "state": "absent"}) == []
