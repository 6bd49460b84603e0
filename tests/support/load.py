# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A steady load: so many requests each second, whatever becomes of the earlier ones, and a record of every one.

A request begins at its time by the clock and not when the one before is answered, so a server that hangs cannot slow
the load down and hide what it costs. Nothing is tried twice. Every third request opens a connection of its own, the
others use connections kept open; every thirteenth asks for the answer that takes two seconds. With --long-every some ask
for the one that lasts four seconds. A request has failed when it did not get the whole right answer within its time limit,
for whatever reason; the long answer has its four seconds on top of that.

Runs until SIGTERM, lets the requests under way end, and writes one line of CSV for each request. On standard output
it says once a second, as a line of JSON, how many there were and how many failed.
"""

import argparse
import asyncio
import csv
import json
import os
import signal
import sys
import time

COLUMNS = ("start", "seconds", "outcome", "backend", "kind", "connection")
OK = "ok"
NEW_EVERY = 3
SLOW_EVERY = 13
IDLE_SECONDS = 5.0
# No report is longer.
REPORT_BYTES = 400
# After how long a good server answers: see backend.py.
DUE = {"fast": 0.0, "slow": 2.0, "long": 4.0}


def command(port, rate, limit, records, address="127.0.0.1", new_every=NEW_EVERY, long_every=0, kept_seconds=None):
    """The words that start a load; ``limit`` is how many seconds a request may take, ``records`` the file for what becomes of each."""
    words = ["--address", address, "--port", port, "--rate", rate, "--limit", limit, "--records", records, "--new-every", new_every, "--long-every", long_every]
    if kept_seconds is not None:
        words += ["--kept-seconds", kept_seconds]
    return [sys.executable, "-I", "-S", __file__, *map(str, words)]


def read_requests(path):
    """The records that a load wrote: a list of dicts."""
    with open(path, encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        row["start"] = float(row["start"])
        row["seconds"] = float(row["seconds"])
    return rows


def read_reports(path, most):
    """What a load last said on standard output, which lies in a file: so many reports at most."""
    with open(path, "rb") as stream:
        cut = stream.seek(max(0, stream.seek(0, os.SEEK_END) - most * REPORT_BYTES))
        lines = stream.read().splitlines(keepends=True)[1 if cut else 0 :]
    return [json.loads(line) for line in lines if line.startswith(b"{") and line.endswith(b"\n")][-most:]


def longest_gap(moments):
    """(seconds, begin, end) of the longest time between two of these moments; None if there is none."""
    moments = sorted(moments)
    return max(((later - earlier, earlier, later) for earlier, later in zip(moments, moments[1:])), default=None)


def summary(rows):
    """The counts of some records.

    ``longest_pause`` is the longest time that a client waited beyond the time when its answer was due, whether it got one or not.
    ``longest_gap`` is the longest time without any good answer, until the last request began. For each of ``backends`` it is the longest time in which no
    request began that this backend answered well: so long it was out, as clients see it.
    """
    good = [row for row in rows if row["outcome"] == OK]
    # The load ends with a last request. That some answers come two seconds later is no gap.
    last = max((row["start"] for row in rows), default=0.0)
    gap = longest_gap([last, *(min(last, row["start"] + row["seconds"]) for row in good)]) if rows else None
    begun = {}
    for row in good:
        begun.setdefault(row["backend"], []).append(row["start"])
    backends = {}
    for name, starts in sorted(begun.items()):
        seconds, began, ended = longest_gap(starts) or (None, None, None)
        backends[name] = {"requests": len(starts), "longest_gap": seconds, "gap_began": began, "gap_ended": ended}
    connections = {
        kind: {
            "requests": sum(row["connection"] == kind for row in rows),
            "failed": sum(row["connection"] == kind and row["outcome"] != OK for row in rows),
        }
        for kind in ("new", "kept")
    }
    return {
        "requests_total": len(rows),
        "requests_failed": len(rows) - len(good),
        "longest_pause": max((max(0.0, row["seconds"] - DUE[row["kind"]]) for row in rows), default=None),
        "longest_gap": gap and gap[0],
        "connections": connections,
        "backends": backends,
        "failures": [
            {"time": row["start"], "outcome": row["outcome"], "kind": row["kind"], "connection": row["connection"]} for row in rows if row["outcome"] != OK
        ],
    }


class Request:
    """One request and what became of it."""

    __slots__ = ("start", "begun", "kind", "connection", "limit")

    def __init__(self, kind, connection):
        self.start = time.time()
        self.begun = time.monotonic()
        self.kind = kind
        self.connection = connection
        self.limit = None


class Client(asyncio.Protocol):
    """One connection to the balancer, with at most one request on it."""

    def __init__(self, load, request):
        self.load = load
        self.request = request
        self.transport = None
        self.received = b""
        self.opened = time.monotonic()
        self.idle_since = 0.0

    def connection_made(self, transport):
        self.transport = transport
        if self.request is None:  # its time ran out while connecting
            transport.abort()
        else:
            self.send(self.request)

    def send(self, request):
        self.request = request
        self.received = b""
        self.transport.write(self.load.texts[request.kind, request.connection])

    def data_received(self, data):
        self.received += data
        head, found, body = self.received.partition(b"\r\n\r\n")
        if not found or self.request is None:
            return
        lines = head.split(b"\r\n")
        fields = {}
        for line in lines[1:]:
            name, dummy, value = line.partition(b":")
            fields[name.strip().lower()] = value.strip()
        if len(body) < int(fields.get(b"content-length", b"0")):
            return
        status = lines[0].split(b" ")[1].decode()
        self.end(OK if status == "200" else "status " + status, fields.get(b"x-backend", b"").decode())
        if fields.get(b"connection", b"").lower() == b"close":
            self.transport.close()

    def eof_received(self):
        if self.request is not None:
            self.end("closed without an answer", "")

    def connection_lost(self, exc):
        if self.request is not None:
            self.end("closed without an answer", "")
        self.load.forget(self)

    def time_out(self):
        self.end("no answer in time", "")
        if self.transport is not None:
            self.transport.abort()

    def end(self, outcome, backend):
        request, self.request = self.request, None
        self.load.end(request, outcome, backend)
        if outcome == OK and request.connection == "kept":
            self.idle_since = time.monotonic()
            if self.load.is_old(self):
                self.transport.close()
            else:
                self.load.idle.append(self)


class Load:
    """Begins the requests, keeps the idle connections, counts and writes."""

    def __init__(self, port, rate, limit, writer, address="127.0.0.1", new_every=NEW_EVERY, long_every=0, kept_seconds=None):
        self.address = address
        self.new_every = new_every
        self.long_every = long_every
        self.kept_seconds = kept_seconds
        self.port = port
        self.rate = rate
        self.limit = limit
        self.writer = writer
        self.idle = []
        self.total = 0
        self.failed = 0
        self.answers = {}  # good ones, by backend
        self.under_way = 0
        self.connecting = set()
        self.texts = {
            (kind, connection): "GET {0} HTTP/1.1\r\nHost: demo\r\nConnection: {1}\r\n\r\n".format(path, field).encode()
            for kind, path in (("fast", "/"), ("slow", "/slow"), ("long", "/long"))
            for connection, field in (("kept", "keep-alive"), ("new", "close"))
        }

    def begin(self, number):
        kind = "long" if self.long_every and number % self.long_every == 0 else "slow" if number % SLOW_EVERY == 0 else "fast"
        request = Request(kind, "kept" if number % self.new_every else "new")
        limit = self.limit + (DUE["long"] if kind == "long" else 0.0)
        self.under_way += 1
        loop = asyncio.get_running_loop()
        client = None
        while request.connection == "kept" and self.idle and client is None:
            client = self.idle.pop()
            if self.is_old(client):
                client.transport.close()
            if client.transport.is_closing():
                client = None
        if client is None:
            client = Client(self, request)
            request.limit = loop.call_later(limit, client.time_out)
            task = loop.create_task(self.connect(client, request))
            self.connecting.add(task)
            task.add_done_callback(self.connecting.discard)
        else:
            request.limit = loop.call_later(limit, client.time_out)
            client.send(request)

    async def connect(self, client, request):
        try:
            await asyncio.get_running_loop().create_connection(lambda: client, self.address, self.port)
        except OSError:
            if client.request is not None:
                client.end("no connection", "")

    def end(self, request, outcome, backend):
        request.limit.cancel()
        request.limit = None
        self.under_way -= 1
        self.total += 1
        if outcome == OK:
            self.answers[backend] = self.answers.get(backend, 0) + 1
        else:
            self.failed += 1
        seconds = time.monotonic() - request.begun
        self.writer.writerow(("{0:.4f}".format(request.start), "{0:.4f}".format(seconds), outcome, backend, request.kind, request.connection))

    def is_old(self, client):
        return self.kept_seconds is not None and time.monotonic() - client.opened > self.kept_seconds

    def forget(self, client):
        if client in self.idle:
            self.idle.remove(client)

    def close_old(self):
        # Before the balancer closes them: a request on a connection that is just being closed would be lost.
        oldest = time.monotonic() - IDLE_SECONDS
        for client in [client for client in self.idle if client.idle_since < oldest]:
            self.idle.remove(client)
            client.transport.close()

    def report(self):
        print(json.dumps({"time": round(time.time(), 2), "requests": self.total, "failed": self.failed, "answers": self.answers}), flush=True)

    async def run(self):
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        started = loop.time()
        number = 0
        told = started
        while not stop.is_set():
            now = loop.time()
            while number < (now - started) * self.rate:
                number += 1
                self.begin(number)
            if now - told >= 1.0:
                told = now
                self.close_old()
                self.report()
            await asyncio.sleep(max(0.0, started + number / self.rate - loop.time()))
        while self.under_way:
            await asyncio.sleep(0.02)
        self.report()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True, help="requests per second")
    parser.add_argument("--limit", type=float, required=True, help="seconds that a request may take")
    parser.add_argument("--new-every", type=int, default=NEW_EVERY, help="so many requests for each that opens a connection of its own")
    parser.add_argument("--records", required=True, help="file for one line of CSV per request")
    parser.add_argument("--long-every", type=int, default=0, help="every so many requests, one asks for the long answer; 0: none")
    parser.add_argument("--kept-seconds", type=float, help="a connection is not used again after that time")
    arguments = parser.parse_args()
    with open(arguments.records, "w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        options = (arguments.address, arguments.new_every, arguments.long_every, arguments.kept_seconds)
        asyncio.run(Load(arguments.port, arguments.rate, arguments.limit, writer, *options).run())


if __name__ == "__main__":
    main()
