# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The load generator against servers that answer well, badly and not at all: what the demo counts as failed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import types

import pytest

from tests.support import load
from tests.support.world import World, reserve_port

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


def send(answer, numbers, limit=60):
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
    limit = 0.1 if outcome == "no answer in time" else 10
    for number in (1, 3):
        rows, dummy, one = send(answer, [number], limit=limit)
        assert [row[2:4] for row in rows] == [(outcome, backend)]
        assert (one.total, one.failed) == (1, 1)


def test_no_server_at_all():
    rows = Rows()
    with contextlib.closing(reserve_port()) as keeper:

        async def run():
            one = load.Load(keeper.getsockname()[1], 10, 60, rows)
            one.begin(1)
            while one.under_way:
                await asyncio.sleep(0.005)

        asyncio.run(run())
    assert [row[2] for row in rows] == ["no connection"]


def test_the_long_answer_has_its_time_on_top():
    rows, seen, dummy = send(answer_with(b"200 OK"), [101])
    assert [row[4] for row in rows] == ["fast"] and "GET /long HTTP/1.1" not in seen
    rows = Rows()

    async def run():
        keeper = await asyncio.get_running_loop().create_server(lambda: Server(b"HTTP/1.1 200 OK\r\n", []), "127.0.0.1", 0)
        one = load.Load(keeper.sockets[0].getsockname()[1], 10, 0.02, rows, long_every=2)
        one.begin(1)
        one.begin(2)
        await asyncio.sleep(0.08)
        # The first has run out of time, the second has not.
        assert [row[2:] for row in rows] == [("no answer in time", "", "fast", "kept")] and one.under_way == 1
        keeper.close()

    asyncio.run(run())


def test_connections_are_not_kept_for_ever(monkeypatch):
    rows, seen, clock = Rows(), [], types.SimpleNamespace(now=0.0)
    monkeypatch.setattr(load, "time", types.SimpleNamespace(time=time.time, monotonic=lambda: clock.now))

    async def run():
        server = await asyncio.get_running_loop().create_server(lambda: Server(answer_with(b"200 OK"), seen), "127.0.0.1", 0)
        one = load.Load(server.sockets[0].getsockname()[1], 10, 60, rows, kept_seconds=5)
        for number, passes in ((1, 4), (2, 2), (4, 0)):
            one.begin(number)
            while one.under_way:
                await asyncio.sleep(0.005)
            clock.now += passes
        server.close()

    asyncio.run(run())
    assert [row[2] for row in rows] == ["ok"] * 3
    assert seen.count("connection") == 2


def test_what_a_load_says_of_itself(capsys):
    one = load.Load(1, 1, 1, Rows())

    async def run():
        for outcome, backend in ((load.OK, "web1"), (load.OK, "web2"), (load.OK, "web1"), ("no answer in time", "")):
            request = load.Request("fast", "new")
            request.limit = asyncio.get_running_loop().call_later(1, print)
            one.end(request, outcome, backend)

    asyncio.run(run())
    one.report()
    said = json.loads(capsys.readouterr().out)
    assert (said["requests"], said["failed"], said["answers"]) == (4, 1, {"web1": 2, "web2": 1})


def test_the_last_reports_of_a_load_are_read(tmp_path):
    world = World.__new__(World)
    world.load_file = tmp_path / "load.csv"
    log = tmp_path / "load.log"
    log.write_text("")
    assert world.load_reports(3) == [] and world.load_so_far() == {"requests": 0, "failed": 0}
    reports = [{"time": 1.5 * number, "requests": 240 * number, "failed": 0, "answers": dict.fromkeys(("web1", "web2"), number)} for number in range(500)]
    log.write_text("".join(json.dumps(report) + "\n" for report in reports) + '{"time": 7')
    assert world.load_reports(3) == reports[-3:]
    assert world.load_so_far() == reports[-1]


def row(start, seconds=0.01, outcome=load.OK, backend="web1", kind="fast", connection="kept"):
    return {"start": start, "seconds": seconds, "outcome": outcome, "backend": backend, "kind": kind, "connection": connection}


def test_what_a_load_comes_to():
    rows = [
        row(0.0),
        row(1.0, backend="web2", connection="new"),
        row(2.0, 2.5, kind="slow"),
        row(2.5, 5.0, "no answer in time", "", connection="new"),
        row(3.0, backend="web2"),
        row(9.0, 4.0, kind="long"),
    ]
    told = load.summary(rows)
    assert (told["requests_total"], told["requests_failed"]) == (6, 1)
    assert told["connections"] == {"new": {"requests": 2, "failed": 1}, "kept": {"requests": 4, "failed": 0}}
    # The failed one kept its client for five seconds. The slow answer was half a second late, the long one was not late.
    assert told["longest_pause"] == 5.0
    # From 4.5, when the slow answer was there, to 9, when the last request began.
    assert told["longest_gap"] == 4.5
    assert told["backends"]["web1"] == {"requests": 3, "longest_gap": 7.0, "gap_began": 2.0, "gap_ended": 9.0}
    assert told["backends"]["web2"] == {"requests": 2, "longest_gap": 2.0, "gap_began": 1.0, "gap_ended": 3.0}
    assert told["failures"] == [{"time": 2.5, "outcome": "no answer in time", "kind": "fast", "connection": "new"}]
    nothing = load.summary([])
    assert (nothing["requests_total"], nothing["longest_pause"], nothing["longest_gap"], nothing["backends"]) == (0, None, None, {})
