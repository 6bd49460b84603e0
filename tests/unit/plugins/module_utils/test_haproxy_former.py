# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tables of a kernel that is made up; the integration tests have real processes."""

from __future__ import annotations

import os
import sys

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_former import former_connections, former_processes

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
ROW = "   0: %s %s %s 00000000:00000000 00:00000000 00000000     0        0 %d 1 0000000000000000 20 4 30 10 -1\n"
OWN = "0100007F:A000" if sys.byteorder == "little" else "7F000001:A000"
NOBODY = "00000000:0000"


@pytest.fixture
def proc(tmp_path):
    class Proc:
        path = str(tmp_path)

        def process(self, pid, command, comm="haproxy", sockets=(), tcp="", tcp6="", network="1"):
            folder = tmp_path / str(pid)
            for name in ("fd", "net", "ns"):
                (folder / name).mkdir(parents=True)
            (folder / "comm").write_text(comm + "\n")
            (folder / "cmdline").write_text(command.replace(" ", "\0") + "\0")
            (folder / "net" / "tcp").write_text(HEADER + tcp)
            (folder / "net" / "tcp6").write_text(HEADER + tcp6)
            os.symlink("net:[%s]" % network, folder / "ns" / "net")
            os.symlink("/dev/null", folder / "fd" / "0")
            for number, inode in enumerate(sockets):
                os.symlink("socket:[%d]" % inode, folder / "fd" / str(number + 1))

    return Proc()


@pytest.mark.parametrize(
    ("command", "known"),
    [
        ("haproxy -f /etc/h.cfg -W", True),
        ("haproxy -sf 7 8 -x sockpair@3 -f /etc/h.cfg -W", True),
        ("haproxy -f /etc/h.cfg -W -st 7", True),
        ("haproxy -x /run/s -sf -f /etc/h.cfg -W", True),
        ("haproxy -f /etc/other.cfg -W", False),
        ("haproxy -f /etc/h.cfg", False),
    ],
)
def test_the_same_haproxy_by_its_command_line(proc, command, known):
    proc.process(10, "haproxy -sf 9 -x sockpair@4 -f /etc/h.cfg -W")
    proc.process(9, command)
    assert former_processes(10, proc.path) == ([9] if known else [])


def test_others_are_left_out(proc):
    proc.process(10, "haproxy -f /etc/h.cfg")
    proc.process(11, "haproxy -f /etc/h.cfg", comm="bash")
    proc.process(12, "haproxy -f /etc/h.cfg", network="2")
    assert former_processes(10, proc.path) == []
    assert former_processes(99, proc.path) == []  # in another pid namespace
    assert former_processes(11, proc.path) == []  # what bears the pid here is no HAProxy


@pytest.mark.skipif(sys.byteorder != "little", reason="the table is written for this order of bytes")
def test_its_connections_are_counted_by_where_they_go(proc):
    proc.process(10, "haproxy -f /etc/h.cfg", sockets=[1], tcp=ROW % (OWN, "0400000A:1F90", "01", 1))
    tcp = (
        ROW % (OWN, "0400000A:1F90", "01", 100)  # 10.0.0.4:8080
        + ROW % (OWN, "0400000A:1F90", "08", 101)  # half closed: what is left of it is not lost yet
        + ROW % (OWN, "0400000A:1F90", "01", 999)  # somebody else's
        + ROW % ("0100007F:0050", NOBODY, "0A", 102)  # listening
        + "a line that is cut"
    )
    tcp6 = (
        ROW % (OWN, "0000000000000000FFFF00000400000A:1F90", "01", 103)  # the same, mapped
        + ROW % (OWN, "00000000000000000000000001000000:0050", "02", 104)  # [::1]:80
    )
    proc.process(9, "haproxy -f /etc/h.cfg", sockets=[100, 101, 102, 103, 104], tcp=tcp, tcp6=tcp6)
    assert former_connections(10, proc.path) == {("10.0.0.4", 8080): 3, ("::1", 80): 1}


@pytest.mark.skipif(sys.byteorder != "little", reason="the table is written for this order of bytes")
@pytest.mark.parametrize(("listens", "counted"), [("0900000A:0050", False), ("00000000:0050", False), ("0800000A:0050", True), ("0900000A:01BB", True)])
def test_connections_of_clients_are_not_counted(proc, listens, counted):
    """Though the client is 10.0.0.4, a server. Nobody but a listener on the same address or on all gets a connection."""
    proc.process(10, "haproxy -f /etc/h.cfg")
    tcp = ROW % (listens, NOBODY, "0A", 1) + ROW % ("0900000A:0050", "0400000A:9C40", "01", 100)
    proc.process(9, "haproxy -f /etc/h.cfg", sockets=[100], tcp=tcp)
    assert former_connections(10, proc.path) == ({("10.0.0.4", 40000): 1} if counted else {})


@pytest.mark.skipif(sys.byteorder != "little", reason="the table is written for this order of bytes")
def test_clients_of_a_listener_of_both_families(proc):
    proc.process(10, "haproxy -f /etc/h.cfg")
    tcp6 = (
        ROW % ("0" * 32 + ":0050", "0" * 32 + ":0000", "0A", 1)
        + ROW % ("0000000000000000FFFF00000900000A:0050", "0000000000000000FFFF00000400000A:9C40", "01", 100)
    )
    proc.process(9, "haproxy -f /etc/h.cfg", sockets=[100], tcp6=tcp6)
    assert former_connections(10, proc.path) == {}


def test_without_the_rights_nothing_is_counted(proc, monkeypatch):
    proc.process(10, "haproxy -f /etc/h.cfg")
    proc.process(9, "haproxy -f /etc/h.cfg", sockets=[100], tcp=ROW % (OWN, OWN, "01", 100))
    real = os.listdir

    def refuse(path):
        if path.endswith("/fd"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "listdir", refuse)
    assert former_connections(10, proc.path) == {}
