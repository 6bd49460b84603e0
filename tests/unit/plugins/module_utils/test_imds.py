# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import gzip
import http.server
import json
import math
import tracemalloc

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _imds
from ansible_collections.graceful.azure.plugins.module_utils._imds import (
    ImdsClient,
    ImdsError,
    ImdsProtocolError,
    ImdsSetupError,
    ImdsStatusError,
    ImdsUnreachableError,
    check_seconds,
    check_url,
)

from tests.support.service import DATE, Clock, Service, document, drop, trickle


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def ask(clock):
    """The error or the answer of one GET of the events."""

    def call(service, deadline=None, **options):
        url = service if isinstance(service, str) else service.url
        client = ImdsClient(url, monotonic=clock.monotonic, sleep=clock.sleep, **options)
        try:
            return client.get_events(deadline)
        except ImdsError as error:
            return error
        finally:
            client.close()

    return call


def test_what_is_asked(ask):
    with Service(document()) as service:
        answer = ask(service, api_version="2019-08-01")
    (request,) = service.seen
    assert json.loads(answer.body) == document()
    assert answer.service_time.isoformat() == "2016-09-19T18:14:47+00:00"
    assert request.path == "/metadata/scheduledevents?api-version=2019-08-01"
    assert request.headers["Metadata"] == "true"
    assert "X-Forwarded-For" not in request.headers


def test_neither_proxy_nor_netrc_nor_cookies_of_the_environment(ask, monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("default login user password secret\n")
    netrc.chmod(0o600)
    with Service(500) as proxy, Service(document()) as service:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.setenv("NETRC", str(netrc))
        assert not isinstance(ask(service), ImdsError)
    assert not proxy.seen
    assert "Authorization" not in service.seen[0].headers


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_an_error(ask, clock, status):
    with Service(document()) as elsewhere, Service((status, "", {"Location": elsewhere.url})) as service:
        error = ask(service)
    assert not elsewhere.seen
    assert isinstance(error, ImdsProtocolError)
    assert not error.passing
    assert str(status) in str(error) and elsewhere.url in str(error) and "redirect" in str(error)
    assert clock.slept == []


@pytest.mark.parametrize(
    ("status", "slept"),
    [
        (400, []),
        (401, []),
        (403, []),
        (405, []),
        (404, [1, 2, 4]),
        (410, [1, 2, 4, 8, 11, 11, 11, 11, 11]),
        (429, [2, 4, 8, 16]),
        (500, [1, 2, 4]),
        (503, [1, 2, 4]),
        (drop, [1, 2, 4]),
    ],
)
def test_what_is_repeated(ask, clock, status, slept):
    with Service(status) as service:
        error = ask(service)
    assert clock.slept == slept
    assert len(service.seen) == len(slept) + 1
    assert service.url in str(error)
    assert error.url.startswith(service.url)
    if isinstance(status, int):
        assert isinstance(error, ImdsStatusError)
        assert error.status == status
    assert error.passing == bool(slept)


def test_updating_is_repeated_for_70_seconds(ask, clock):
    with Service(410) as service:
        ask(service)
    assert sum(clock.slept) == 70


def test_nobody_listens(ask, clock):
    error = ask("http://127.0.0.1:1")
    assert isinstance(error, ImdsUnreachableError)
    assert "refused" in str(error)
    assert clock.slept == [1, 2, 4]


@pytest.mark.parametrize("fault", [404, 410, 429, 503, drop])
def test_a_fault_that_passes(ask, clock, fault):
    with Service(fault, fault, document()) as service:
        answer = ask(service)
    assert json.loads(answer.body) == document()
    assert len(clock.slept) == 2


@pytest.mark.parametrize(("value", "slept"), [("7", 7), ("0", 0), ("Mon, 19 Sep 2016 18:14:50 GMT", 3), ("soon", 2), ("-1", 2), (DATE, 0), ("1.5", 2)])
def test_retry_after(ask, clock, value, slept):
    with Service((429, "", {"Retry-After": value}), document()) as service:
        ask(service)
    assert clock.slept == [slept]


def test_retry_after_counts_for_too_many_requests_alone(ask, clock):
    with Service((503, "", {"Retry-After": "30"}), document()) as service:
        ask(service)
    assert clock.slept == [1]


def test_no_retry_begins_after_the_deadline(ask, clock):
    with Service(503) as service:
        error = ask(service, deadline=clock.now + 3)
    assert clock.slept == [1]
    assert error.retry_in == 2


def test_a_long_retry_after_is_not_waited_for_past_the_deadline(ask, clock):
    with Service((429, "", {"Retry-After": "600"})) as service:
        error = ask(service)
    assert clock.slept == []
    assert error.retry_in == 600


@pytest.mark.parametrize("value", ["31536000", "9" * 12, "9" * 5000, "Sat, 19 Sep 2116 18:14:47 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"])
@pytest.mark.parametrize("seconds", [math.inf, 10 * 365 * 86400.0, None])
def test_nobody_sleeps_for_a_year(ask, clock, value, seconds):
    with Service((429, "", {"Retry-After": value})) as service:
        error = ask(service, deadline=None if seconds is None else clock.now + seconds)
    assert clock.slept == []
    assert error.status == 429 and error.retry_in >= 31536000


def test_nothing_is_asked_once_the_time_is_over(ask, clock):
    with Service(document()) as service:
        error = ask(service, deadline=clock.now)
    assert isinstance(error, ImdsUnreachableError)
    assert service.seen == []


@pytest.mark.parametrize(
    "answer",
    [
        trickle(),
        trickle(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b" "),
        trickle(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        trickle(b"", b""),
    ],
    ids=["head", "body", "chunks", "silence"],
)
def test_an_answer_is_bounded_in_time_whatever_trickles_in(answer):
    with Service(answer) as service:
        client = ImdsClient(service.url, request_timeout=0.3)
        start = client.monotonic()
        with pytest.raises(ImdsUnreachableError, match="no whole answer within 0.3 s"):
            client.get_events(deadline=start + 1)
        assert client.monotonic() - start < 4


def test_a_longer_time_for_one_answer():
    with Service(trickle(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b" ", seconds=0.5)) as service:
        client = ImdsClient(service.url, request_timeout=0.2)
        assert client.get_events(request_timeout=30).body.strip() == b""


def test_a_body_of_10_mb(ask, clock):
    with Service(b" " * 10_000_000) as service:
        error = ask(service)
    assert isinstance(error, ImdsProtocolError)
    assert "8 MB" in str(error) and service.url in str(error)
    assert clock.slept == []


NESTED = gzip.compress(gzip.compress(b"\0" * (64 << 20)))


@pytest.mark.parametrize("status", [200, 302, 400, 503])
@pytest.mark.parametrize("encoding", ["gzip, gzip", "gzip", "deflate", "br", "x-unknown"])
def test_nothing_is_decoded(ask, clock, status, encoding):
    """A kilobyte that unfolds to 64 MB, in an answer of any status: nothing is unfolded, whatever urllib3 would do."""
    assert len(NESTED) < 3000
    with Service((status, NESTED, {"Content-Encoding": encoding, "Location": "/elsewhere"})) as service:
        error = ask(service)
        tracemalloc.start()
        again = ask(service)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    for refused in (error, again):
        assert isinstance(refused, ImdsProtocolError) and "Content-Encoding" in str(refused)
    assert clock.slept == []
    assert peak < 2 << 20
    assert {request.headers["Accept-Encoding"] for request in service.seen} == {"identity"}


def test_identity_is_no_encoding(ask):
    body = json.dumps(document()).encode()
    with Service((200, body, {"Content-Encoding": "Identity"})) as service:
        assert ask(service).body == body


def test_a_redirect_is_not_read_any_further_than_another_answer(ask):
    with Service((302, b" " * (10 << 20), {"Location": "/elsewhere"})) as service:
        assert "more than 8 MB" in str(ask(service))


def test_an_answer_in_pieces(ask):
    body = json.dumps(document()).encode()

    def answer(handler):
        pieces = (body[:10], body[10:])
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        handler.wfile.write(b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n")

    with Service(answer) as service:
        assert ask(service).body == body


def test_an_answer_that_breaks_off(ask, clock):
    def broken(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        handler.close_connection = True

    with Service(broken, document()) as service:
        assert json.loads(ask(service).body) == document()
    assert clock.slept == [1]


def test_no_http_at_all(ask):
    def answer(handler):
        handler.wfile.write(b"220 mail.example.org ESMTP\r\n")
        handler.close_connection = True

    with Service(answer) as service:
        assert isinstance(ask(service), ImdsUnreachableError)


def test_a_connection_that_the_service_closed_meanwhile():
    def close_after(handler):
        body = json.dumps(document()).encode()
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        handler.close_connection = True

    clock = Clock()
    with Service(close_after) as service:
        client = ImdsClient(service.url, monotonic=clock.monotonic, sleep=clock.sleep)
        for _each in range(3):
            assert json.loads(client.get_events().body) == document()
        client.close()


def test_without_a_date_the_own_clock_counts(ask, monkeypatch):
    with Service((200, document(), {})) as service:
        monkeypatch.setattr(http.server.BaseHTTPRequestHandler, "send_response", http.server.BaseHTTPRequestHandler.send_response_only)
        answer = ask(service)
    assert answer.service_time.year > 2016


@pytest.mark.parametrize(
    "body",
    [
        b"<html><title>Log in</title>",
        b"{",
        b"\xff\xfe{}",
        b'{"a": "\xe4"}',
        b"[" * 100_000,
        b'{"DocumentIncarnation": NaN, "Events": []}',
        b'{"a": ' + b"9" * 5000 + b"e}",
    ],
    ids=["html", "cut", "utf-16", "latin-1", "deep", "nan", "digits"],
)
def test_what_is_no_json(body):
    client = ImdsClient("http://127.0.0.1:1")
    with pytest.raises(ImdsProtocolError) as caught:
        client.decode_json(body)
    assert "http://127.0.0.1:1/metadata/scheduledevents" in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert not caught.value.passing


def test_the_words_of_an_answer_are_shown_on_one_short_line(ask):
    with Service((400, '{"error": "Bad\nrequest. \x1b[31m' + "x" * 5000, {})) as service:
        error = ask(service)
    assert "Bad\\nrequest" in str(error)
    assert "\x1b" not in str(error) and "\n" not in str(error)
    assert len(str(error)) < 500


def test_post():
    body = {"StartRequests": [{"EventId": "a"}]}
    clock = Clock()
    with Service(503, 200) as service:
        ImdsClient(service.url, monotonic=clock.monotonic, sleep=clock.sleep).post_events(body)
    assert [request.json for request in service.requests("POST")] == [body, body]
    assert service.seen[0].headers["Content-Type"] == "application/json"
    assert service.seen[0].headers["Metadata"] == "true"
    assert service.seen[0].path == "/metadata/scheduledevents?api-version=2020-07-01"


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_post_goes_by_the_status(status):
    with Service((status, b"" if status == 204 else b"what?", {})) as service:
        ImdsClient(service.url).post_events({})


def test_resource_name():
    with Service(name="  set_12\n") as service:
        assert ImdsClient(service.url).get_resource_name() == "set_12"
    (request,) = service.seen
    assert request.path == "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
    assert request.headers["Metadata"] == "true"


@pytest.mark.parametrize("name", ["", "\n", "<html>", '{"error": "no"}', "a\nb", "x" * 300, b"\xff"])
def test_what_is_no_resource_name(name):
    with Service(name=name) as service, pytest.raises(ImdsProtocolError):
        ImdsClient(service.url).get_resource_name()


@pytest.mark.parametrize("url", ["http://169.254.169.254", "http://h", "http://127.0.0.1:8080/", "http://[::1]:80", "HTTP://h/prefix"])
def test_usable_urls(url):
    assert check_url(url) == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    ["", "169.254.169.254", "https://h", "ftp://h", "http://", "http://h:port", "http://h:99999", "http://h:0", "http://u:p@h", "http://h?a=b"]
    + ["http://h#f", "http://h h", "http://h\r\nX-Forwarded-For: a", "http://[::1", None, 7, "file:///etc/passwd"],
)
def test_unusable_urls(url):
    with pytest.raises(ImdsSetupError, match="imds_url: "):
        check_url(url)


@pytest.mark.parametrize("host", ["a..b", "a" * 70, "nowhere.invalid"])
def test_hosts_that_do_not_exist(ask, host):
    assert host in str(ask(f"http://{host}"))


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "ten", None, True, []])
def test_unusable_request_timeouts(value):
    with pytest.raises(ImdsSetupError, match="request_timeout is .*; it must be a number of seconds above 0"):
        ImdsClient(request_timeout=value)


def test_seconds():
    assert check_seconds("timeout", 0) == 0
    assert check_seconds("timeout", "1.5") == 1.5
    with pytest.raises(ImdsSetupError, match="timeout is -1; it must be a number of seconds, 0 or more"):
        check_seconds("timeout", -1)


@pytest.mark.parametrize("version", ["latest", "2021-01-01", "", None])
def test_unknown_api_versions(version):
    with pytest.raises(ImdsSetupError, match="api_version: .* is not one of 2017-03-01, .*2020-07-01"):
        ImdsClient(api_version=version)


def test_requests_is_missing(monkeypatch):
    monkeypatch.setattr(_imds, "HAS_REQUESTS", False)
    with pytest.raises(ImdsSetupError, match="requests"):
        ImdsClient()


def test_a_setup_error_is_a_value_error():
    assert issubclass(ImdsSetupError, ValueError)


def test_connecting_has_a_limit_of_its_own(monkeypatch):
    seen = []
    monkeypatch.setattr(_imds.requests.Session, "request", lambda *args, **kwargs: seen.append(kwargs) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ImdsClient("http://127.0.0.1:1").get_events()
    connect, answer = seen[0]["timeout"]
    assert 1 < connect <= 5
    assert answer == 10
    assert seen[0]["allow_redirects"] is False


def test_the_session_does_not_trust_the_environment():
    session = _imds._session(None)
    assert session.trust_env is False
    assert session.proxies == {}
