# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counting the clients of a worker of nginx that is shutting down."""

from __future__ import annotations

import os

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _nginx_connections
from ansible_collections.graceful.azure.plugins.module_utils._nginx import Worker
from ansible_collections.graceful.azure.plugins.module_utils._nginx_addresses import leads_to
from ansible_collections.graceful.azure.plugins.module_utils._nginx_connections import Connections
from ansible_collections.graceful.azure.plugins.module_utils._sock_diag import Answered

TCP = """\
head
0: 0900000A:0050 00000000:0000 0A 0:0 0:0 0 0 0 10 1
1: 0900000A:0050 01010101:03E9 01 0:0 0:0 0 0 0 11 1
2: 0900000A:0FA1 0500000A:0050 01 0:0 0:0 0 0 0 12 1
"""
UNIX = """\
head
0: 00000002 00000000 00010000 0001 01 20 /run/door
1: 00000003 00000000 00000000 0001 03 21 /run/door
2: 00000003 00000000 00000000 0001 03 22 /run/other
3: 00000003 00000000 00000000 0001 03 23
"""


@pytest.fixture(autouse=True, name="answers")
def make_answers(monkeypatch):
    """What the kernel tells: the server has answered, and its client has got something after that."""
    told = Answered({"12"}, set(), {"11": 99.0, "12": 100.0}, {"11": 100.002})
    monkeypatch.setattr(_nginx_connections, "answered", lambda inodes: told)
    return told


def test_clients_on_unix_sockets_are_pending_too(tmp_path):
    for pid, inodes in ((1, (10, 20)), (2, (10, 11, 12, 20, 21, 22, 23))):
        (tmp_path / str(pid) / "fd").mkdir(parents=True)
        for number, inode in enumerate(inodes):
            os.symlink("socket:[%d]" % inode, tmp_path / str(pid) / "fd" / str(number))
    (tmp_path / "1" / "net").mkdir()
    (tmp_path / "1" / "net" / "tcp").write_text(TCP)
    (tmp_path / "1" / "net" / "unix").write_text(UNIX)
    connections = Connections(1, [Worker(2, 5, True, (1, 0))], str(tmp_path))
    # The client by TCP has its connection to a server.
    assert connections.pending(2) == 1
    # If a client may have several, each may have a request without one.
    assert connections.pending(2, several=True) == 2
    assert connections.to({"/run/door"}) == 1


def unix_bed(folder, unix):
    for pid, inodes in ((1, (20,)), (2, (20, 23))):
        (folder / str(pid) / "fd").mkdir(parents=True)
        for number, inode in enumerate(inodes):
            os.symlink("socket:[%d]" % inode, folder / str(pid) / "fd" / str(number))
    (folder / "1" / "net").mkdir()
    (folder / "1" / "net" / "unix").write_text("head\n" + unix)
    return Connections(1, [Worker(2, 5, False, (1, 0))], str(folder))


def test_a_unix_socket_that_is_named_through_a_link(tmp_path):
    """As /var/run is one to /run."""
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to("run")
    bound = tmp_path / "link" / "app.sock"
    unix = "0: 2 0 10000 0001 01 30 %s\n0: 3 0 0 0001 03 31 %s\n0: 3 0 0 0001 03 23\n" % (bound, bound)
    connections = unix_bed(tmp_path, unix)
    assert leads_to("unix:%s" % (tmp_path / "link" / "app.sock"), "http") == leads_to("unix:%s" % (tmp_path / "run" / "app.sock"), "http")
    (place,) = leads_to("unix:%s" % bound, "http")
    assert connections.to({place}) == 1 and connections.unseen(place) == 0


def test_a_request_that_waits_in_the_queue_of_a_unix_socket_counts(tmp_path):
    unix = "0: 2 0 10000 0001 01 30 /run/app.sock\n0: 2 0 0 0001 02 0 /run/app.sock\n0: 3 0 0 0001 03 23\n"
    assert unix_bed(tmp_path, unix).to({"/run/app.sock"}) == 1


def test_connections_to_a_unix_socket_of_a_container(tmp_path):
    """Nobody listens on it here, and the container may have another path for it."""
    unix = "0: 3 0 0 0001 03 23 /in/app.sock\n0: 2 0 0 0001 02 0 /in/app.sock\n0: 3 0 0 0002 03 25 /in/log\n0: 3 0 0 0001 03 24\n"
    unix += "0: 2 0 10000 0001 01 30 /run/b.sock\n0: 3 0 0 0001 03 31 /run/b.sock\n"
    connections = unix_bed(tmp_path, unix)
    assert connections.unseen("/run/app.sock") == 2
    assert connections.unseen("/run/b.sock") == 0
    assert connections.to({"/in/app.sock"}) == 2 and connections.unseen("/in/app.sock") == 0


def test_a_connection_that_nginx_has_half_closed_counts(tmp_path):
    """With proxy_half_close, nginx tells the server that the client has sent everything, and then waits for the answer."""
    (tmp_path / "2" / "fd").mkdir(parents=True)
    (tmp_path / "1" / "fd").mkdir(parents=True)
    os.symlink("socket:[12]", tmp_path / "2" / "fd" / "3")
    (tmp_path / "1" / "net").mkdir()
    table = tmp_path / "1" / "net" / "tcp"
    half_closed = TCP.replace("0500000A:0050 01", "0500000A:0050 05")
    table.write_text(half_closed)
    server = {("10.0.0.5", 80)}
    assert Connections(1, [Worker(2, 5, True, (1, 0))], str(tmp_path)).to(server) == 1
    # It has closed it altogether, and only the kernel still waits.
    table.write_text(half_closed.replace("0 0 0 12 1", "0 0 0 0 1"))
    assert Connections(1, [Worker(2, 5, True, (1, 0))], str(tmp_path)).to(server) == 0


def test_connections_to_a_host_that_no_line_explains_are_counted(tmp_path):
    for pid in "12":
        (tmp_path / pid / "fd").mkdir(parents=True)
    os.symlink("socket:[12]", tmp_path / "2" / "fd" / "3")
    (tmp_path / "1" / "net").mkdir()
    (tmp_path / "1" / "net" / "tcp").write_text(TCP)
    found = Connections(1, [Worker(2, 5, True, (1, 0))], str(tmp_path))
    assert [found.beside("10.0.0.5", port, set()) for port in (None, 80, 81)] == [1, 1, 0]
    # Another line leads there, and somebody else is connected there.
    assert (found.beside("10.0.0.5", None, {("10.0.0.5", 80)}), found.beside("1.1.1.1", None, set())) == (0, 0)
    # The host is a client of nginx.
    os.symlink("socket:[10]", tmp_path / "1" / "fd" / "6")
    os.symlink("socket:[11]", tmp_path / "2" / "fd" / "4")
    assert Connections(1, [Worker(2, 5, True, (1, 0))], str(tmp_path)).beside("1.1.1.1", None, set()) == 0


def test_clients_on_a_port_that_the_reload_has_closed_are_pending_too(tmp_path):
    for pid, inodes in ((1, (10,)), (2, (11, 12))):
        (tmp_path / str(pid) / "fd").mkdir(parents=True)
        for number, inode in enumerate(inodes):
            os.symlink("socket:[%d]" % inode, tmp_path / str(pid) / "fd" / str(number))
    (tmp_path / "1" / "net").mkdir()
    # It listens on port 81 only. The connection on port 80 came from a client, the other one begins here.
    (tmp_path / "1" / "net" / "tcp").write_text(TCP.replace("0: 0900000A:0050", "0: 0900000A:0051").replace("0900000A:0FA1", "0900000A:9C40"))
    worker = Worker(2, 5, True, (1, 0))
    (tmp_path / "sys" / "net" / "ipv4").mkdir(parents=True)
    bounds = tmp_path / "sys" / "net" / "ipv4" / "ip_local_port_range"
    bounds.write_text("32768\t60999\n")
    os.unlink(tmp_path / "2" / "fd" / "1")
    assert Connections(1, [worker], str(tmp_path)).pending(2) == 1
    os.symlink("socket:[12]", tmp_path / "2" / "fd" / "1")
    assert Connections(1, [worker], str(tmp_path)).pending(2) == 0


def leaving_bed(folder, table=TCP):
    for pid, inodes in ((1, (10,)), (2, (10, 11, 12))):
        (folder / str(pid) / "fd").mkdir(parents=True)
        for number, inode in enumerate(inodes):
            os.symlink("socket:[%d]" % inode, folder / str(pid) / "fd" / str(number))
    (folder / "1" / "net").mkdir()
    (folder / "1" / "net" / "tcp").write_text(table)
    return Connections(1, [Worker(2, 5, True, (1, 0))], str(folder))


def test_a_client_whose_server_has_not_answered_may_be_sent_to_another(tmp_path, answers):
    answers.ever.clear()
    connections = leaving_bed(tmp_path)
    assert connections.pending(2) == 1
    # In stream, only a connection that cannot be opened is tried elsewhere.
    assert connections.pending(2, once={("10.0.0.5", 80)}) == 0
    answers.ever.add("12")
    assert connections.pending(2) == 0


@pytest.mark.parametrize("reused", [None, {("10.0.0.5", 80)}])
def test_on_a_connection_that_was_kept_an_older_answer_does_not_count(tmp_path, answers, reused):
    connections = leaving_bed(tmp_path)
    assert (connections.pending(2, reused=reused), connections.pending(2, reused={("10.0.0.6", 80)})) == (1, 0)
    answers.last.add("12")
    assert connections.pending(2, reused=reused) == 0


def test_a_client_whose_server_does_not_accept_the_connection_may_be_sent_to_another(tmp_path, answers):
    answers.ever.clear()
    connections = leaving_bed(tmp_path, TCP.replace("0500000A:0050 01", "0500000A:0050 02"))
    assert connections.pending(2, once={("10.0.0.5", 80)}) == 1


def test_a_client_that_has_got_nothing_of_the_answer_may_be_sent_to_another(tmp_path, answers):
    """The server has sent a part of the header, or something else that is no answer, and may fail now."""
    connections = leaving_bed(tmp_path)
    answers.sent["11"] = 98.9
    assert connections.pending(2) == 1
    del answers.sent["11"]
    assert connections.pending(2) == 1


def test_each_answer_needs_a_client_of_its_own(tmp_path, answers):
    """One client is gone, and the worker reads the answer for itself. The other one has sent a part of a request on a connection that it has used before."""
    more = "3: 0900000A:0FA2 0600000A:0050 01 0:0 0:0 0 0 0 13 1\n4: 0900000A:0050 01010101:03EA 01 0:0 0:0 0 0 0 14 1\n"
    connections = leaving_bed(tmp_path, TCP + more)
    for inode in (13, 14):
        os.symlink("socket:[%d]" % inode, tmp_path / "2" / "fd" / str(inode))
    connections = Connections(1, [Worker(2, 5, True, (1, 0))], str(tmp_path))
    answers.ever.add("13")
    answers.received.update({"13": 101.0, "14": 102.0})
    answers.sent["14"] = 90.0
    assert connections.pending(2) == 1
    # Both have got something, each of its own server. One of them has spoken since, as who has a websocket may.
    answers.sent["14"] = 101.0
    assert connections.pending(2) == 0


def test_an_answer_of_which_nginx_waits_for_more_is_passed_on_to_who_has_got_its_beginning(tmp_path, answers):
    connections = leaving_bed(tmp_path)
    answers.received["12"] = 200.0
    assert connections.pending(2) == 0
    # The client has sent something since, and may have another request.
    answers.received["11"] = 150.0
    assert connections.pending(2) == 1
