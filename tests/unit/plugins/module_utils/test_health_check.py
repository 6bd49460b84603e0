# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import gzip
import os
import socket
import threading
import time
import tracemalloc

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._health_check import AddressError, ask_port, ask_url, silent_places, split_url

from tests.support.patience import patient
from tests.support.ports import listener


@contextlib.contextmanager
def server(*pieces, pause=0.0, address="127.0.0.1", sent=None):
    """A server that sends the same bytes to everybody, and the requests that it got. What it has sent is added to C(sent)."""
    listening = listener(address)
    requests = []
    sent = [] if sent is None else sent
    over = threading.Event()

    def serve():
        while True:
            try:
                connection = listening.accept()[0]
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                requests.append(connection.recv(65536).decode("latin-1"))
                for piece in pieces:
                    connection.sendall(piece)
                    sent.append(piece)
                    over.wait(pause)
                if not pieces:
                    over.wait(10)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield "http://localhost:%d" % listening.getsockname()[1], requests
    finally:
        over.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(patient(5))


def answer(status):
    return b"HTTP/1.1 %d Whatever\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n" % status


@pytest.mark.parametrize("status", [200, 500])
def test_the_body_is_neither_read_nor_decoded(status):
    body = gzip.compress(gzip.compress(b"\0" * (64 << 20)))
    head = b"HTTP/1.1 %d Whatever\r\nContent-Encoding: gzip, gzip\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
    with server(head + body) as (url, requests):
        tracemalloc.start()
        reason = ask_url(url, 2, True)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert reason == (None if status == 200 else f"{url}: status 500")
    assert peak < 2 << 20
    assert "Accept-Encoding: identity" in requests[0]


@pytest.mark.parametrize("status", [200, 204, 301, 302, 399])
def test_what_is_an_answer(status):
    with server(answer(status)) as (url, requests):
        assert ask_url(url, 2, True) is None
    # The redirect was not followed.
    assert len(requests) == 1


@pytest.mark.parametrize("status", [400, 404, 500, 503])
def test_what_is_none(status):
    with server(answer(status)) as (url, _requests):
        assert ask_url(url, 2, True) == "%s: status %d" % (url, status)


def test_the_request():
    with server(answer(200)) as (url, requests):
        assert ask_url(url + "/health?deep=1&x=%20#part", 2, True) is None
    assert requests[0].startswith("GET /health?deep=1&x=%20 HTTP/1.1\r\nHost: localhost:")


def test_no_proxy_is_asked(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with server(answer(200)) as (url, _requests):
        assert ask_url(url, 2, True) is None


def test_nobody_listens():
    with listener() as free:
        port = free.getsockname()[1]
    assert ask_url("http://127.0.0.1:%d/" % port, 2, True) == "http://127.0.0.1:%d/: Connection refused" % port
    assert ask_port("127.0.0.1", port, 2) == "port %d of 127.0.0.1: Connection refused" % port


def test_a_server_that_says_nothing():
    with server() as (url, _requests):
        assert ask_url(url, 0.1, True) == "%s: no answer in time" % url


def test_a_server_that_answers_letter_by_letter():
    letters = [bytes([letter]) for letter in answer(200)]
    sent = []
    with server(*letters, pause=0.05, sent=sent) as (url, _requests):
        assert ask_url(url, 0.2, True) == "%s: no answer in time" % url
        # Half a second by the server's clock.
        assert len(sent) < 10


def test_something_that_is_not_http():
    with server(b"SSH-2.0-OpenSSH_9.2\r\n") as (url, _requests):
        assert ask_url(url, 2, True) == "%s: the answer is not HTTP (BadStatusLine)" % url


def test_a_name_that_is_unknown():
    assert ask_url("http://nowhere.invalid/", 2, True).startswith("http://nowhere.invalid/: ")
    assert ask_port("nowhere.invalid", 80, 2).startswith("port 80 of nowhere.invalid: ")


def test_https_on_a_plain_port():
    with server(answer(200)) as (url, _requests):
        assert "https" in ask_url(url.replace("http:", "https:"), 2, False)


def test_a_port():
    with server(b"") as (url, _requests):
        assert ask_port("localhost", int(url.rsplit(":", 1)[1]), 2) is None


@pytest.mark.skipif(not os.path.exists("/proc/net/if_inet6"), reason="no IPv6 on this machine")
def test_a_port_over_ipv6():
    with server(b"", address="::1") as (url, _requests):
        assert ask_port("::1", int(url.rsplit(":", 1)[1]), 2) is None


def test_a_port_of_a_name_that_cannot_be_looked_up():
    assert ask_port("web1..example.com", 80, 2).startswith("port 80 of web1..example.com: ")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("localhost:8080", "url must be like http://localhost:8080/health"),
        ("ftp://localhost/", "url must be like http://localhost:8080/health"),
        ("http:///health", "url must be like http://localhost:8080/health"),
        ("", "url must be like http://localhost:8080/health"),
        ("http://localhost:http/", "cannot be understood"),
        ("http://[::1/", "cannot be understood"),
        ("http://localhost/a b", "plain ASCII without spaces"),
        ("http://localhost/a\r\nX: y", "plain ASCII without spaces"),
        ("http://web1..example.com/health", "url must name its host with 1 to 63 characters before, between and after the dots"),
        ("http://%s.example.com/" % ("a" * 64), "url must name its host with 1 to 63 characters"),
        ("http://localhost/\u00e4", "plain ASCII without spaces"),
    ],
)
def test_urls_that_cannot_be_asked(url, message):
    with pytest.raises(AddressError, match=message):
        split_url(url)


def test_a_password_is_not_shown():
    with pytest.raises(AddressError) as caught:
        split_url("http://me:secret@localhost/")
    assert "secret" not in str(caught.value)


def test_parts_of_a_url():
    assert split_url("https://[::1]:8443") == ("https", "::1", 8443, "/")
    assert split_url("http://web.:80/")[1] == "web."
    assert split_url("http://web?x=1") == ("http", "web", None, "/?x=1")


def test_many_places_are_asked_side_by_side(tmp_path):
    """What drops everything costs one time-out, however many there are."""
    heard = listener("127.0.0.1")
    path = str(tmp_path / "app.sock")
    local = socket.socket(socket.AF_UNIX)
    local.bind(path)
    local.listen()
    busy = socket.socket(socket.AF_UNIX)
    busy.bind(str(tmp_path / "b.sock"))
    busy.listen(0)
    full = socket.socket()
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    clients = [socket.socket() for _number in range(3)]
    waiting = [socket.socket(socket.AF_UNIX) for _number in range(3)]
    try:
        for client in clients:
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        for client in waiting:
            client.setblocking(False)
            client.connect_ex(busy.getsockname())
        gone = listener("127.0.0.1")
        refused = gone.getsockname()
        gone.close()
        places = [heard.getsockname(), path, busy.getsockname(), str(tmp_path / "none.sock"), refused, full.getsockname(), ("::1", 70000)]
        began = time.monotonic()
        found = silent_places([*places, *places], seconds=0.3)
        assert time.monotonic() - began < 5
        assert found == {
            heard.getsockname(): None,
            path: None,
            busy.getsockname(): f"{tmp_path}/b.sock: no answer in time",
            str(tmp_path / "none.sock"): f"{tmp_path}/none.sock: No such file or directory",
            refused: f"port {refused[1]} of 127.0.0.1: Connection refused",
            full.getsockname(): f"port {full.getsockname()[1]} of 127.0.0.1: no answer in time",
            ("::1", 70000): "port 70000 of ::1: Invalid argument",
        }
    finally:
        for each in (heard, local, busy, full, *clients, *waiting):
            each.close()
