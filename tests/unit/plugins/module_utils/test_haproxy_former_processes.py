# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tables of a kernel that is made up; the integration tests have real processes."""

from __future__ import annotations

import os
import pathlib
import sys

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _haproxy_former_processes
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_former_processes import (
    answering_processes,
    master_socket,
    own_connections,
)
from ansible_collections.graceful.azure.plugins.module_utils._proc import identity

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
ROW = "   0: %s %s %s 00000000:00000000 00:00000000 00000000     0        0 %d 1 0000000000000000 20 4 30 10 -1\n"
OWN = "0100007F:A000" if sys.byteorder == "little" else "7F000001:A000"
NOBODY = "00000000:0000"


@pytest.fixture
def proc(tmp_path):
    class Proc:
        path = str(tmp_path)
        (tmp_path / "uptime").write_text("100000.00 150000.00\n")
        booted = 1_700_000_000
        (tmp_path / "stat").write_text("cpu 1 2 3\nbtime %d\n" % booted)

        def process(self, pid, command, comm="haproxy", sockets=(), tcp="", tcp6="", network="1", age=50, inner=None, parent=1):
            folder = tmp_path / str(pid)
            for name in ("fd", "ns"):
                (folder / name).mkdir(parents=True)
            ids = "%d\t%d" % (pid, inner) if inner else str(pid)
            (folder / "status").write_text("Name:\t%s\nPid:\t%d\nPPid:\t%d\nNSpid:\t%s\n" % (comm, pid, parent, ids))
            ticks = (100000 - age) * os.sysconf("SC_CLK_TCK")
            (folder / "stat").write_text("%d (%s) S %d " % (pid, comm, parent) + "0 " * 17 + "%d 0\n" % ticks)
            (folder / "comm").write_text(comm + "\n")
            (folder / "cmdline").write_text(command.replace(" ", "\0") + "\0")
            # The processes of a network have the same tables.
            tables = tmp_path / ("network-%s" % network)
            if not tables.exists():
                tables.mkdir()
                for name in ("tcp", "tcp6"):
                    (tables / name).write_text(HEADER)
            os.symlink(tables, folder / "net")
            for name, rows in (("tcp", tcp), ("tcp6", tcp6)):
                (tables / name).write_text((tables / name).read_text() + rows)
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
    proc.process(9, command, sockets=[1], tcp=ROW % (OWN, NOBODY, "0A", 1))
    assert former_processes(10, proc) == ([9] if known else [])


def test_another_command_line_of_a_process_that_listens_no_more(proc):
    """HAProxy was upgraded, or its configuration has got another name. Other HAProxys on the machine have their own former processes and masters."""
    proc.process(10, "/opt/haproxy-3.0/haproxy -f /etc/h.cfg -sf 9")
    proc.process(9, "/opt/haproxy-2.8/haproxy -f /etc/h.cfg", sockets=[1], tcp=ROW % (OWN, "0400000A:1F90", "01", 1))
    proc.process(7, "haproxy -W -f /etc/other.cfg")
    proc.process(20, "haproxy -W -f /etc/other.cfg", sockets=[2], tcp=ROW % (OWN, NOBODY, "0A", 2), parent=7)
    proc.process(6, "haproxy -W -f /etc/other.cfg", sockets=[3], tcp=ROW % (OWN, "0400000A:1F90", "01", 3), parent=7)
    proc.process(30, "haproxy -f /etc/third.cfg", sockets=[4])
    (pathlib.Path(proc.path) / "30" / "net" / "unix").write_text(
        "Num       RefCount Protocol Flags    Type St Inode Path\n0000000000000000: 00000002 00000000 00010000 0001 01 4 /run/third.sock\n"
    )
    assert former_processes(10, proc) == [9]


def test_the_same_command_line_in_another_folder(proc, tmp_path):
    """A relative path names another configuration there, and its clients are not ours. What listens no more may be ours all the same."""
    for pid, folder in ((10, "first"), (9, "first"), (8, "second"), (7, "second")):
        proc.process(pid, "haproxy -D -f h.cfg", sockets=[pid], tcp=ROW % (OWN, NOBODY, "0A", pid))
        os.symlink("/srv/" + folder, tmp_path / str(pid) / "cwd")
    assert former_processes(10, proc) == [9]


def test_another_haproxy_ends_while_it_is_looked_at(proc):
    """The kernel's tables are gone with it. The next one listens all the same, and is no former process."""
    proc.process(10, "haproxy -f /etc/h.cfg", sockets=[1], tcp=ROW % (OWN, NOBODY, "0A", 1))
    proc.process(20, "haproxy -f /etc/other.cfg", sockets=[2], tcp=ROW % (OWN, NOBODY, "0A", 2))
    proc.process(15, "haproxy -f /etc/third.cfg", sockets=[3], tcp=ROW % (OWN, NOBODY, "0A", 3))
    tables = pathlib.Path(proc.path) / "15" / "net"
    tables.unlink()
    assert former_processes(10, proc) == []


def test_another_haproxy_is_reloaded_while_it_is_looked_at(proc, monkeypatch):
    """Its former process listens no more, and its new one started right after the processes were listed."""
    proc.process(10, "haproxy -f /etc/h.cfg", sockets=[1], tcp=ROW % (OWN, NOBODY, "0A", 1))
    proc.process(20, "haproxy -f /etc/other.cfg", sockets=[2], tcp=ROW % (OWN, "0400000A:1F90", "01", 2))
    listed = _haproxy_former_processes.process_ids

    def reloaded(path):
        ids = listed(path)
        if 21 not in ids:
            proc.process(21, "haproxy -f /etc/other.cfg -sf 20", sockets=[3], tcp=ROW % (OWN, NOBODY, "0A", 3))
        return ids

    monkeypatch.setattr(_haproxy_former_processes, "process_ids", reloaded)
    assert _haproxy_former_processes.former_processes([10], proc.path) == []


def test_which_of_two_containers_answers_is_not_known(proc):
    """On the network of the machine. What the other one is connected to is not ours."""
    os.symlink("10", pathlib.Path(proc.path) / "self")
    proc.process(10, "haproxy -f /etc/h.cfg", inner=8, sockets=[1], tcp=ROW % (OWN, "0400000A:1F90", "01", 1))
    assert own_connections(answering_processes(8, None, proc=proc.path), proc.path) == [(("127.0.0.1", 40960), ("10.0.0.4", 8080))]
    proc.process(11, "haproxy -f /etc/h.cfg", inner=8, sockets=[2], tcp=ROW % (OWN, "0400000A:1F90", "01", 2))
    assert own_connections(answering_processes(8, None, proc=proc.path), proc.path) is None


def former_connections(pid, uptime, hard_stop_after=None, started=None, proc="/proc"):
    return _haproxy_former_processes.former_connections(answering_processes(pid, uptime, started, proc), pid, uptime, hard_stop_after, proc)


def former_processes(pid, proc, uptime=50):
    return _haproxy_former_processes.former_processes(answering_processes(pid, uptime, proc=proc.path), proc.path)


def counted(pid, proc, uptime=50, **more):
    """Where everything can be counted."""
    former = former_connections(pid, uptime, proc=proc.path, **more)
    assert former.problem() is None
    return former.connections


def test_others_are_left_out(proc):
    proc.process(10, "haproxy -f /etc/h.cfg")
    proc.process(11, "haproxy -f /etc/h.cfg", comm="bash")
    proc.process(12, "haproxy -f /etc/h.cfg", network="2")
    assert former_processes(10, proc) == []


@pytest.mark.parametrize("comm", ["haproxy", "hapee-lb", "my (own) haproxy"])
def test_whatever_its_name(proc, comm):
    proc.process(10, "/opt/hapee-2.6/sbin/hapee-lb -Ws -f /etc/h.cfg -x /run/s -sf 9", comm=comm, parent=5)
    proc.process(9, "/opt/hapee-2.6/sbin/hapee-lb -Ws -f /etc/h.cfg", comm=comm, parent=5)
    proc.process(5, "/opt/hapee-2.6/sbin/hapee-lb -Ws -f /etc/h.cfg", comm=comm)
    assert former_processes(10, proc) == [9]  # and not the master


def test_in_a_container_that_is_seen_from_outside(proc):
    """It says that it is 10, and is 4710 here, where 10 is something else."""
    proc.process(10, "sleep 1000", comm="sleep")
    proc.process(4710, "haproxy -f /etc/h.cfg -sf 9", inner=10)
    proc.process(4709, "haproxy -f /etc/h.cfg", inner=9)
    assert answering_processes(10, 50, proc=proc.path) == [4710]
    assert former_processes(10, proc) == [4709]


@pytest.mark.parametrize(("age", "found"), [(0, True), (50, True), (105, True), (700, False)])
def test_by_its_age(proc, age, found):
    """A worker is forked when the configuration has been read; the time of HAProxy's start is older."""
    proc.process(10, "haproxy -f /etc/h.cfg", age=age)
    assert answering_processes(10, 50, proc=proc.path) == ([10] if found else [])


@pytest.mark.parametrize(
    ("since_boot", "found"),
    [(96_400, True), (96_399, True), (96_300, True), (96_470, False), (95_000, False), (99_950, False), (None, False)],
)
def test_by_its_start_where_its_clock_stood_still(proc, since_boot, found):
    """The machine was paused for nearly an hour, so HAProxy says that it runs for 50 s. It started 3600 s ago."""
    proc.process(10, "haproxy -f /etc/h.cfg", age=3600)
    started = None if since_boot is None else proc.booted + since_boot
    assert answering_processes(10, 50, started, proc.path) == ([10] if found else [])
    assert (former_connections(10, 50, started=started, proc=proc.path).problem() is None) == found


def test_a_process_that_cannot_be_seen(proc):
    proc.process(10, "bash", comm="bash")
    proc.process(11, "haproxy -f /etc/h.cfg", age=5000)
    for pid in (10, 11, 12):
        former = former_connections(pid, 50, proc=proc.path)
        assert former.problem().startswith("process %d of HAProxy cannot be seen from here" % pid)
    assert former_connections(12, None, proc=proc.path + "/none").problem()  # no Linux


@pytest.mark.parametrize(("uptime", "gone"), [(50, False), (69, False), (71, True), (None, False)])
def test_how_long_a_former_process_can_live(proc, uptime, gone):
    former = former_connections(12, uptime, hard_stop_after=60.0, proc=proc.path)
    assert (former.problem() is None) == gone


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("haproxy -Ws -f /etc/h.cfg -S /run/m.sock", "/run/m.sock"),
        ("haproxy -sf 9 -x sockpair@3 -Ws -S unix@/run/m.sock,level,admin -f /etc/h.cfg", "/run/m.sock"),
        ("haproxy -Ws -f /etc/h.cfg -S 127.0.0.1:9999", None),
        ("haproxy -Ws -f /etc/h.cfg -S abns@m", None),
        ("haproxy -Ws -f /etc/h.cfg -S", None),
        ("haproxy -Ws -f /etc/h.cfg", None),
    ],
)
def test_the_socket_of_the_master(proc, command, path):
    """By the file system of the master, which may be another one than ours."""
    proc.process(5, command)
    proc.process(9, "haproxy -Ws -f /etc/h.cfg", parent=5)
    assert master_socket(9, proc.path) == (path and "%s/5/root%s" % (proc.path, path))


def test_what_is_no_master(proc):
    proc.process(5, "supervise -S /run/m.sock haproxy", comm="supervise")
    proc.process(9, "haproxy -f /etc/h.cfg", parent=5)
    assert master_socket(9, proc.path) is None
    assert master_socket(6, proc.path) is None


@pytest.mark.skipif(sys.byteorder != "little", reason="the table is written for this order of bytes")
def test_its_connections_are_counted_by_where_they_go(proc):
    proc.process(10, "haproxy -f /etc/h.cfg", sockets=[1], tcp=ROW % (OWN, "0400000A:1F90", "01", 1))
    tcp = (
        ROW % (OWN, "0400000A:1F90", "01", 100)  # 10.0.0.4:8080
        + ROW % (OWN, "0400000A:1F90", "08", 101)  # half closed: what is left of it is not lost yet
        + ROW % (OWN, "0400000A:1F90", "01", 100)  # once more: the table changed while it was read
        + ROW % (OWN, "0400000A:1F90", "01", 999)  # somebody else's
        + ROW % ("0100007F:0050", NOBODY, "0A", 102)  # listening
        + "a line that is cut"
    )
    tcp6 = (
        ROW % (OWN, "0000000000000000FFFF00000400000A:1F90", "01", 103)  # the same, mapped
        + ROW % (OWN, "00000000000000000000000001000000:0050", "02", 104)  # [::1]:80
    )
    proc.process(9, "haproxy -f /etc/h.cfg", sockets=[100, 101, 102, 103, 104], tcp=tcp, tcp6=tcp6)
    assert counted(10, proc) == {("10.0.0.4", 8080): 3, ("::1", 80): 1}


@pytest.mark.skipif(sys.byteorder != "little", reason="the table is written for this order of bytes")
@pytest.mark.parametrize(
    ("listens", "port", "client", "to_server"),
    [
        ("0900000A:0050", "0050", True, False),
        ("00000000:0050", "0050", True, False),
        # Nobody listens there any more, and the kernel has not chosen that port.
        ("0800000A:0050", "0050", True, True),
        ("0900000A:01BB", "0050", True, True),
        ("0900000A:01BB", "9C41", False, True),
    ],
)
def test_connections_of_clients(proc, listens, port, client, to_server):
    """Though the client is 10.0.0.4, a server. Where it is not certain whose a connection is, it counts as both."""
    proc.process(10, "haproxy -f /etc/h.cfg")
    tcp = ROW % (listens, NOBODY, "0A", 1) + ROW % ("0900000A:" + port, "0400000A:9C40", "01", 100)
    proc.process(9, "haproxy -f /etc/h.cfg", sockets=[100], tcp=tcp)
    former = former_connections(10, 50, proc=proc.path)
    assert former.connections == ({("10.0.0.4", 40000): 1} if to_server else {})
    assert former.problem() == ("1 client of process 9 of HAProxy from before a reload may still send requests to it" if client else None)


@pytest.mark.skipif(sys.byteorder != "little", reason="the table is written for this order of bytes")
def test_clients_that_use_quic(proc):
    """Each has a socket on the port of the listener, or they share one. The kernel has chosen the ports of the sockets for name servers and the log."""
    proc.process(10, "haproxy -f /etc/h.cfg")
    proc.process(9, "haproxy -f /etc/h.cfg", sockets=[100, 101, 102, 103])
    (pathlib.Path(proc.path) / "9" / "net" / "udp").write_text(
        HEADER
        + ROW % ("0900000A:01BB", "0400000A:9C40", "01", 100)
        + ROW % ("00000000:01BB", NOBODY, "07", 101)
        + ROW % ("0900000A:9C41", "0300000A:0035", "01", 102)
        + ROW % ("00000000:9C42", NOBODY, "07", 103)
        + ROW % ("00000000:01BB", NOBODY, "07", 200)
    )
    assert former_connections(10, 50, proc=proc.path).problem() == "2 clients of process 9 of HAProxy from before a reload may still send requests to it"


@pytest.mark.skipif(sys.byteorder != "little", reason="the table is written for this order of bytes")
def test_clients_of_all_its_listeners(proc):
    proc.process(10, "haproxy -f /etc/h.cfg")
    tcp6 = ROW % ("0" * 32 + ":0050", "0" * 32 + ":0000", "0A", 1) + ROW % (
        "0000000000000000FFFF00000900000A:0050",
        "0000000000000000FFFF00000400000A:9C40",
        "01",
        100,
    )
    proc.process(9, "haproxy -f /etc/h.cfg", sockets=[100, 101, 102], tcp6=tcp6)
    (pathlib.Path(proc.path) / "9" / "net" / "unix").write_text(
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        "0000000000000000: 00000003 00000000 00000000 0001 03 101 /run/haproxy/front.sock.9.tmp\n"
        "0000000000000000: 00000003 00000000 00000000 0001 03 102\n"  # to a server, or of a pair
        "0000000000000000: 00000002 00000000 00010000 0001 01 103 /run/haproxy/front.sock.9.tmp\n"
        "0000000000000000: 00000003 00000000 00000000 0001 03 104 /run/other.sock\n"
    )
    for pid in (7, 8):
        proc.process(pid, "haproxy -f /etc/h.cfg", sockets=[100] if pid == 7 else [])
    former = former_connections(10, 50, proc=proc.path)
    assert not former.connections
    assert former.problem() == "3 clients of process 7, 9 of HAProxy from before a reload may still send requests to it"
    told = [identity(pid, proc.path) for pid in (7, 9)]
    assert former.problem(told[:1]) == "2 clients of process 9 of HAProxy from before a reload may still send requests to it"
    assert former.problem(told) is None
    # They go by themselves.
    assert former.lasting is None
    # Another process with this id, or the same one in another boot of the machine.
    assert former.problem([one.replace("9995", "9994") for one in told] + [one + "another" for one in told]) == former.problem()


@pytest.mark.skipif(sys.byteorder != "little", reason="the table is written for this order of bytes")
@pytest.mark.parametrize("command", ["haproxy -W -f /etc/h.cfg", "haproxy -D -f /etc/h.cfg -p /run/h.pid"])
def test_one_that_still_accepts_clients(proc, command):
    """HAProxy was started twice, or a reload did not end the former process. Its clients come and go between two looks. One of another configuration is
    another HAProxy."""
    ports = ("0900000A:0050", "0900000A:01BB")
    proc.process(10, "haproxy -W -f /etc/h.cfg", sockets=[100, 101], tcp="".join(ROW % (port, NOBODY, "0A", 100 + n) for n, port in enumerate(ports)))
    for pid, line, place in ((9, command, ports[0]), (8, command, "0800000A:0050"), (7, "haproxy -f /etc/other.cfg", ports[0])):
        proc.process(pid, line, sockets=[pid], tcp=ROW % (place, NOBODY, "0A", pid))
    former = former_connections(10, 50, proc=proc.path)
    assert former.problem() == "process 9 of HAProxy accepts clients on the same ports as the one that answers, and may send them to it"
    assert former.lasting == former.problem()
    # The server was out in it before the other one was started.
    assert former.problem([identity(9, proc.path)]) is None


def test_without_the_rights_a_former_process_may_have_clients(proc, monkeypatch):
    for pid in (8, 9, 10):
        proc.process(pid, "haproxy -f /etc/h.cfg")
    real = os.listdir

    def refuse(path):
        if path.endswith("/fd"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "listdir", refuse)
    former = former_connections(10, 50, proc=proc.path)
    # Their connections to the server cannot be counted either, even if it is out there.
    assert former.problem([identity(8, proc.path), identity(9, proc.path)]) == former.problem()
    assert former.problem().startswith("process 8, 9 of HAProxy from before a reload may still serve it, and user id")
    assert former_connections(10, 50, hard_stop_after=20.0, proc=proc.path).problem() is None
