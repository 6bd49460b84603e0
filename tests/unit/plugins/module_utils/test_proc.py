# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import socket

from ansible_collections.graceful.azure.plugins.module_utils._proc import namespace, read, socket_inodes, stat_fields


def test_this_process():
    pid = os.getpid()
    with socket.socket() as own:
        inode = str(os.fstat(own.fileno()).st_ino)
        assert inode in socket_inodes(pid, "/proc")
    assert inode not in socket_inodes(pid, "/proc")
    assert stat_fields(pid, "/proc")[1] == str(os.getppid())
    assert namespace(pid, "net", "/proc") == namespace("self", "net", "/proc")


def test_a_name_with_spaces_and_brackets(tmp_path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text("7 (a) b (c)) S 1 7 7\n")
    assert stat_fields(7, str(tmp_path)) == ["S", "1", "7", "7"]


def test_a_process_that_has_ended(tmp_path):
    proc = str(tmp_path)
    assert (read(proc, 7, "cmdline"), stat_fields(7, proc), namespace(7, "net", proc), socket_inodes(7, proc)) == ("", [], None, set())


def test_it_ends_while_its_files_are_listed(tmp_path, monkeypatch):
    (tmp_path / "7" / "fd").mkdir(parents=True)
    (tmp_path / "7" / "fd" / "3").symlink_to("socket:[12]")

    def gone(_path):
        raise ProcessLookupError

    monkeypatch.setattr(os, "readlink", gone)
    assert socket_inodes(7, str(tmp_path)) == set()


def test_what_may_not_be_listed(tmp_path, monkeypatch):
    def denied(_path):
        raise PermissionError

    monkeypatch.setattr(os, "listdir", denied)
    assert socket_inodes(7, str(tmp_path)) is None
