# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which sentences say the same, although their numbers differ."""

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._comparable import comparable


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the balancer notices within 12 s", "the balancer notices within 9 s"),
        ("has not answered for 9.5 s", "has not answered for 12.25 s"),
        ("2 sessions, 0 queued at www/web1 on lb1", "1 session, 3 queued at www/web1 on lb1"),
        ("10 jobs run on web1", "9 jobs run on web1"),
        ("2 new connections came to port 80, the last from 10.0.0.9", "1 new connection came to port 80 from fd00::9"),
        ("it passes; 2 new connections came to port 80, the last from 10.0.0.9; 2 jobs left", "it passes; 1 job left"),
        ("refused after 12.5 ms", "refused after 3 ms"),
        ("node2 lacks 512 bytes", "node2 lacks 7 bytes"),
        ("it was refused. Tried at 2026-11-27T02:10:00Z", "it was refused. Tried at 2026-11-27T02:20:11Z"),
        ("02:10:00.123 [error] closed", "02:10:05.7 [error] closed"),
        ("2026/11/27 14:07:03 [emerg] 17807#17807: unknown directive", "2026/11/27 14:07:04 [emerg] 17921#17921: unknown directive"),
        ("E1127 14:07:03.123456    1234 memcache.go:265] refused", "E1127 14:07:09.234567    1240 memcache.go:265] refused"),
        ("2026-11-27 14:07:03,123 - ERROR - no node", "2026-11-27 14:07:05,4 - ERROR - no node"),
        ("<HTTPConnection object at 0x7f2c8c0a>: refused", "<HTTPConnection object at 0x7f2c9d11>: refused"),
        ("folder /x cannot be written (try 1)", "folder /x cannot be written (try 2)"),
        ("/home/ops/.ansible/tmp/ansible-tmp-1764209400.1-77-12: no space left", "/home/ops/.ansible/tmp/ansible-tmp-1764209405.25-81-9: no space left"),
    ],
)
def test_only_numbers_have_changed(one, other):
    assert comparable(one) == comparable(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("waits for web2", "waits for web3"),
        ("lb1 cannot be reached", "lb2 cannot be reached"),
        ("1 of 2 in service, 1 must stay", "1 of 3 in service, 2 must stay"),
        ("1 connection from 10.0.0.4 on port 80", "1 connection from 10.0.0.5 on port 80"),
        ("1 connection from 10.0.0.4 on port 80", "1 connection from 10.0.0.4 on port 81"),
        ("1 new connection came to port 80 from 10.0.0.9", "1 new connection came to port 81 from 10.0.0.9"),
        ("1 new connection came to port 80 from 10.0.0.9", "it is drained"),
        ("port 80 cannot be counted", "port 81 cannot be counted"),
        ("http://web1/health: status 503", "http://web1/health: status 500"),
    ],
)
def test_something_else_has_changed(one, other):
    assert comparable(one) != comparable(other)
