# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""New connections, counted in the real tables of the kernel."""

from __future__ import annotations

import http.server
import socket
import threading
import time

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _connection_tracking
from ansible_collections.graceful.azure.plugins.module_utils._connection_tracking import Forwarded
from ansible_collections.graceful.azure.plugins.module_utils._health_check import ask_url
from ansible_collections.graceful.azure.plugins.module_utils._new_connections import Arrivals

from tests.support.ports import free_port


def listen():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(8)
    return listener, listener.getsockname()[1]


def connect(listener, port, source="127.0.0.1", server_closes_first=True, source_port=0, address="127.0.0.1"):
    client = socket.socket()
    client.bind((source, source_port))
    client.connect((address, port))
    served, _peer = listener.accept()
    for one in (served, client) if server_closes_first else (client, served):
        one.close()


def test_what_comes_between_two_readings_is_counted():
    listener, port = listen()
    with listener:
        arrivals = Arrivals([port], [], time.monotonic)
        arrivals.see()
        assert arrivals.new == {}
        connect(listener, port)
        connect(listener, port)
        arrivals.see()
        assert arrivals.new == {port: 2} and arrivals.quiet_for == 0.0
        assert arrivals.peers == {port: "127.0.0.1"}
        time.sleep(0.05)
        arrivals.see()
        assert arrivals.new == {port: 2} and arrivals.quiet_for >= 0.05


def test_who_connects_from_the_same_port_again_is_counted():
    """The kernel has kept the former connection, which looks the same."""
    listener, port = listen()
    with listener:
        source_port = free_port()
        connect(listener, port, source_port=source_port)
        arrivals = Arrivals([port], [], time.monotonic)
        for number in (1, 2):
            time.sleep(0.5)
            arrivals.see()
            connect(listener, port, source_port=source_port)
            arrivals.see()
            assert arrivals.new == {port: number}
        time.sleep(0.5)
        arrivals.see()
        assert arrivals.new == {port: 2} and arrivals.quiet_for >= 0.5


def test_who_connects_from_the_same_port_to_another_address_is_counted():
    listener = socket.socket()
    listener.bind(("0.0.0.0", 0))
    listener.listen(8)
    port, source_port = listener.getsockname()[1], free_port()
    with listener:
        connect(listener, port, source_port=source_port)
        arrivals = Arrivals([port], [], time.monotonic)
        connect(listener, port, source_port=source_port, address="127.0.0.2")
        arrivals.see()
        assert arrivals.new == {port: 1}


def test_the_probe_does_not_count():
    listener, port = listen()
    with listener:
        arrivals = Arrivals([port], ["127.0.0.9"], time.monotonic)
        connect(listener, port, "127.0.0.9")
        arrivals.see()
        assert arrivals.new == {}


def test_a_connection_that_was_closed_a_moment_before_is_seen():
    listener, port = listen()
    with listener:
        assert Arrivals([port], [], time.monotonic).closed_ago >= 60
        connect(listener, port)
        assert Arrivals([port], [], time.monotonic).closed_ago < 2


def test_connections_that_are_forwarded_are_seen(monkeypatch):
    """Whoever closes them, the kernel remembers them. Its connection tracking is read twice a second at most."""
    told, reads, now = [], [], [100.0]

    def forwarded(ports):
        reads.append(now[0])
        return [Forwarded(8080, *each, "10.0.0.4") for each in told]

    monkeypatch.setattr(_connection_tracking, "forwarded", forwarded)
    arrivals = Arrivals([8080], ["168.63.129.16"], lambda: now[0])
    assert arrivals.closed_ago >= 60
    told += [("10.0.0.9", 4000, 3, 431999), ("168.63.129.16", 4001, 7, 119)]
    for _number in range(10):
        now[0] += 0.1
        arrivals.see()
    assert arrivals.new == {8080: 1} and len(reads) <= 4
    # It was closed ten seconds ago, and one that comes now is another.
    told[:] = [("10.0.0.9", 4000, 7, 110)]
    assert Arrivals([8080], [], lambda: now[0]).closed_ago == pytest.approx(10, abs=0.1)
    told.append(("10.0.0.9", 4002, 2, 60))
    now[0] += 1
    arrivals.see()
    assert arrivals.new == {8080: 2}
    # The kernel tells whole seconds. Where it tells more than before, somebody has connected from the same port again.
    for left, came in ((109, 2), (109, 2), (108, 2), (107, 2), (119, 3), (119, 3)):
        told[:] = [("10.0.0.9", 4000, 7, left)]
        now[0] += 0.6
        arrivals.see()
        assert arrivals.new == {8080: came}


class Failing(http.server.BaseHTTPRequestHandler):
    """A health answer that fails, with a body that nobody reads."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(503)
        self.send_header("Content-Length", "9")
        if self.server.closes:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(b"not today")

    def log_message(self, format, *args):
        pass


@pytest.mark.parametrize("closes", [True, False])
def test_what_we_ask_ourselves_is_no_new_connection_then_and_later(closes):
    # No connection to this port was closed in the last minute.
    with http.server.ThreadingHTTPServer(("127.0.0.1", free_port()), Failing) as server:
        server.closes = closes
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        url = f"http://127.0.0.1:{port}/health"
        arrivals = Arrivals([port], [], time.monotonic)
        for _number in range(20):
            assert ask_url(url, 2, True, leave_no_trace=True) == f"{url}: status 503"
            arrivals.see()
        assert arrivals.new == {}
        # Nor does a later look find one that was closed a moment ago.
        assert Arrivals([port], [], time.monotonic).closed_ago > 50
        # Somebody else's is seen.
        with socket.create_connection(("127.0.0.1", port)):
            arrivals.see()
            assert arrivals.new == {port: 1}
        server.shutdown()
