# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import socket

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._proc import (
    has_same_file,
    namespace,
    path_through_root,
    read,
    socket_inodes,
    stat_fields,
)


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


@pytest.fixture(name="proc")
def make_proc(tmp_path):
    """Process 7 has a root of its own, in which everything has other contents."""
    root = tmp_path / "7" / "root"
    (root / "etc" / "real").mkdir(parents=True)
    (root / "etc" / "real" / "nginx.conf").write_text("")
    (root / "etc" / "absolute").symlink_to("/etc/real")
    (root / "etc" / "relative").symlink_to("../etc/./absolute")
    (root / "etc" / "up").symlink_to("../../../../etc/real")
    (root / "etc" / "circle").symlink_to("/etc/circle")
    return str(tmp_path)


@pytest.mark.parametrize("folder", ["real", "absolute", "relative", "up", "real/../real", "gone/../real"])
def test_a_path_of_a_process_with_a_root_of_its_own_follows_its_links(proc, folder):
    assert path_through_root(7, "/etc/%s/nginx.conf" % folder, proc) == proc + "/7/root/etc/real/nginx.conf"


def test_a_path_that_leads_in_a_circle_ends(proc):
    with pytest.raises(OSError, match="circle"):
        path_through_root(7, "/etc/circle", proc)
    assert has_same_file(7, "/etc/circle", proc) is False


def test_the_same_file_through_another_root(tmp_path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "root").symlink_to("/")
    (tmp_path / "file").write_text("")
    assert has_same_file(7, str(tmp_path / "file"), str(tmp_path)) is True
    assert has_same_file(os.getpid(), str(tmp_path / "file")) is True


def test_another_file_through_another_root(proc, tmp_path):
    path = tmp_path / "nginx.conf"
    path.write_text("")
    theirs = tmp_path / "7" / "root" / str(path).lstrip("/")
    assert has_same_file(7, str(path), proc) is False
    theirs.parent.mkdir(parents=True)
    theirs.write_text("")
    assert has_same_file(7, str(path), proc) is False
    # A bind mount has the same device and inode. So has a hard link, which needs no rights.
    theirs.unlink()
    os.link(path, theirs)
    assert has_same_file(7, str(path), proc) is True


def test_what_we_may_not_look_at_is_unknown(tmp_path, monkeypatch):
    def denied(_path):
        raise PermissionError

    monkeypatch.setattr(os, "readlink", denied)
    assert has_same_file(7, str(tmp_path), "/proc") is None
