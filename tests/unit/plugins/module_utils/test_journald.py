# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import time

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _journald

from tests.support.journald import Journald


def test_an_entry(tmp_path):
    with Journald(tmp_path / "socket") as journald:
        _journald.write({"MESSAGE": "web1 = größe", "STATE": "draining", "PRIORITY": 6, "EVENT_ID": ["e1", "e2"]}, str(tmp_path / "socket"))
        entry = journald.entry()
    assert entry == {
        "SYSLOG_IDENTIFIER": ["graceful-azure"], "MESSAGE": ["web1 = größe"], "STATE": ["draining"], "PRIORITY": ["6"], "EVENT_ID": ["e1", "e2"]
    }  # fmt: skip


@pytest.mark.parametrize("text", ["two\nlines", "\n", "", "a\nFORGED=1\n"])
def test_no_text_forges_a_field(tmp_path, text):
    with Journald(tmp_path / "socket") as journald:
        _journald.write({"MESSAGE": text}, str(tmp_path / "socket"))
        assert journald.entry() == {"SYSLOG_IDENTIFIER": ["graceful-azure"], "MESSAGE": [text]}


def test_a_host_without_a_journal(tmp_path):
    (tmp_path / "file").write_text("")
    # There is nothing to be written later.
    assert _journald.write({"MESSAGE": "x"}, str(tmp_path / "none")) and _journald.write({"MESSAGE": "x"}, str(tmp_path / "file"))


def test_a_journal_that_takes_nothing_holds_up_nobody(tmp_path):
    began = time.monotonic()
    with Journald(tmp_path / "socket"):
        took = []
        for _number in range(int(open("/proc/sys/net/unix/max_dgram_qlen").read()) + 2 if os.path.exists("/proc/sys/net/unix/max_dgram_qlen") else 600):
            took.append(_journald.write({"MESSAGE": "x"}, str(tmp_path / "socket")))
            if not took[-1]:
                break
        # It says so, for the entry can be written later.
        assert took[0] and not took[-1]
    assert time.monotonic() - began < 10
