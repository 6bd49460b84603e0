# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The load generator against servers that answer well, badly and not at all; the ports and the processes of the bed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from tests.demo import bed, load

ANSWER = b"HTTP/1.1 {status}\r\nX-Backend: web1\r\nContent-Length: 2\r\n\r\nok"


class Rows(list):
    writerow = list.append


class Server(asyncio.Protocol):
    """Answers every request with the same bytes; None closes the connection instead."""

    def __init__(self, answer, seen):
        self.answer = answer
        self.seen = seen
        self.transport = None

    def connection_made(self, transport):
        self.transport = transport
        self.seen.append("connection")

    def data_received(self, data):
        self.seen.append(data.split(b"\r\n")[0].decode())
        if self.answer is None:
            self.transport.close()
        else:
            self.transport.write(self.answer)


def send(answer, numbers, limit=0.3):
    """What the load records when it begins the requests of these numbers, one after the other."""
    rows, seen = Rows(), []

    async def run():
        server = await asyncio.get_running_loop().create_server(lambda: Server(answer, seen), "127.0.0.1", 0)
        one = load.Load(server.sockets[0].getsockname()[1], 10, limit, rows)
        for number in numbers:
            one.begin(number)
            while one.under_way:
                await asyncio.sleep(0.005)
        server.close()
        return one

    one = asyncio.run(run())
    return rows, seen, one


def answer_with(status):
    return ANSWER.replace(b"{status}", status)


def test_good_answers_on_a_connection_that_is_kept():
    rows, seen, one = send(answer_with(b"200 OK"), [1, 2, 4])
    assert [row[2:] for row in rows] == [("ok", "web1", "fast", "kept")] * 3
    assert seen.count("connection") == 1
    assert (one.total, one.failed) == (3, 0)


def test_every_third_request_opens_a_connection_and_every_thirteenth_is_slow():
    rows, seen, dummy = send(answer_with(b"200 OK"), [3, 6, 13, 39])
    assert [row[4:] for row in rows] == [("fast", "new"), ("fast", "new"), ("slow", "kept"), ("slow", "new")]
    assert seen.count("connection") == 4
    assert seen.count("GET /slow HTTP/1.1") == 2


@pytest.mark.parametrize(
    "answer, outcome, backend",
    [
        (answer_with(b"503 Service Unavailable"), "status 503", "web1"),
        (None, "closed without an answer", ""),
        (b"HTTP/1.1 200 OK\r\nX-Backend: web1\r\nContent-Length: 9\r\n\r\nshort", "no answer in time", ""),
        (b"HTTP/1.1 200", "no answer in time", ""),
    ],
)
def test_whatever_is_no_whole_right_answer_has_failed(answer, outcome, backend):
    for number in (1, 3):
        rows, dummy, one = send(answer, [number], limit=0.1)
        assert [row[2:4] for row in rows] == [(outcome, backend)]
        assert (one.total, one.failed) == (1, 1)


def test_no_server_at_all():
    rows = Rows()
    with contextlib.closing(bed.reserve_port()) as keeper:

        async def run():
            one = load.Load(keeper.getsockname()[1], 10, 1, rows)
            one.begin(1)
            while one.under_way:
                await asyncio.sleep(0.005)

        asyncio.run(run())
    assert [row[2] for row in rows] == ["no connection"]


def test_a_reserved_port_refuses_until_a_server_listens():
    with contextlib.closing(bed.reserve_port()) as keeper:
        address = keeper.getsockname()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, 1)
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            server.bind(address)
            server.listen()
            socket.create_connection(address, 1).close()


def test_processes_end_with_what_they_started(tmp_path):
    processes = bed.Processes(tmp_path)
    mark = tmp_path / "pid"
    # The child leaves the session, as the workers of ansible-core 2.19 do.
    script = (
        "import subprocess, sys, time; p = subprocess.Popen(['sleep', '60'], start_new_session=True); open(sys.argv[1], 'w').write(str(p.pid)); time.sleep(60)"
    )
    process = processes.start("parent", sys.executable, "-c", script, mark)
    deadline = time.monotonic() + 10
    while not (mark.exists() and mark.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    child = int(mark.read_text())
    assert bed.start_of(child)
    processes.close()
    assert process.returncode == -signal.SIGTERM
    deadline = time.monotonic() + 5
    while Path("/proc", str(child)).exists() and zombie(child) is False and time.monotonic() < deadline:
        time.sleep(0.02)
    assert zombie(child) is not False


def zombie(pid):
    """Whether a dead process still waits to be collected by its parent; None when there is no trace of it."""
    try:
        return Path("/proc", str(pid), "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return None
