# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a service answers: one try, over HTTP or with a bare connection."""

from __future__ import annotations

import contextlib
import errno
import http.client
import os
import selectors
import signal
import socket
import ssl
import struct
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ansible_collections.graceful.azure.plugins.module_utils._spellings import is_lookable, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, Optional

    from ansible_collections.graceful.azure.plugins.module_utils._spellings import Destination

# Seconds for an answer of the host's own service, once for its port and once for its URL.
ANSWER_SECONDS = 2.0
# How long a bare connection to one of many places may take to be there, and to how many places connections are opened at a time.
CONNECT_SECONDS = 1.0
AT_ONCE = 200
# Errors before an answer. After each of them it makes sense to try again. UnicodeError: the host is no name that can be looked up.
_TROUBLE = (OSError, http.client.HTTPException, UnicodeError)


def asked_spec() -> dict[str, dict[str, Any]]:
    """The options that say what is asked."""
    return {
        "url": {"type": "str"},
        "port": {"type": "int"},
        "host": {"type": "str", "default": "localhost"},
        "validate_certs": {"type": "bool", "default": True},
    }


class AddressError(ValueError):
    """A URL that cannot be used. Its text is a whole sentence."""


def split_url(url: str) -> tuple[str, str, int | None, str]:
    """The parts of a URL that a request needs."""
    try:
        parts = urlsplit(url)
        place = parts.netloc
    except ValueError as error:
        raise AddressError("url %r cannot be understood: %s" % (url, error)) from None
    if "@" in place:
        # The URL itself is not shown: it has a password in it.
        raise AddressError("url must not carry a user name or password")
    if place.count(":") > 1 and not place.startswith("["):
        raise AddressError("url must have an IPv6 address in brackets, like http://[::1]:8080/health, not %r" % (url,))
    behind = place.rpartition("]")[2]
    try:
        port = parts.port
    except ValueError as error:
        raise AddressError("url %r cannot be understood: %s" % (url, error)) from None
    if port == 0 or (place.startswith("[") and behind and not behind.startswith(":")):
        raise AddressError("url must have a port from 1 to 65535 or none, not %r" % (url,))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise AddressError("url must be like http://localhost:8080/health, not %r" % (url,))
    if any(character <= " " or character == "\x7f" for character in url) or not url.isascii():
        raise AddressError("url must be plain ASCII without spaces, not %r" % (url,))
    if not is_lookable(parts.hostname):
        raise AddressError("url must name its host with 1 to 63 characters before, between and after the dots, not %r" % (url,))
    target = (parts.path or "/") + ("?" + parts.query if parts.query else "")
    return parts.scheme, parts.hostname, port, target


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    # The time-out of a socket counts for each operation alone, so it never ends an answer that arrives letter by letter.
    def stop(signum: int, frame: object) -> None:
        raise socket.timeout("timed out")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _why(error: Exception) -> str:
    if isinstance(error, socket.timeout):
        return "no answer in time"
    if isinstance(error, http.client.HTTPException):
        return "the answer is not HTTP (%s)" % (type(error).__name__,)
    return reason_of(error)


def https_context(validate_certs: bool, ca_cert: str | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_cert)
    if not validate_certs:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def ask_url(
    url: str, request_timeout: float, validate_certs: bool, leave_no_trace: bool = False, connected: Callable[[tuple[str, int]], object] = lambda own: None
) -> str | None:
    """None if the URL answers with a status 2xx or 3xx, otherwise why not. Redirects are not followed. No proxy is used.

    With ``leave_no_trace`` the connection is reset in the end, so that the kernel does not keep it for a minute, for somebody who counts connections.
    ``connected`` is called with the connection's own address and port.
    """
    scheme, host, port, target = split_url(url)
    connection: http.client.HTTPConnection
    if scheme == "https":
        connection = http.client.HTTPSConnection(host, port, timeout=request_timeout, context=https_context(validate_certs))
    else:
        connection = http.client.HTTPConnection(host, port, timeout=request_timeout)
    try:
        with _at_most(request_timeout):
            connection.connect()
            connected(connection.sock.getsockname()[:2])
            if leave_no_trace:
                connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.request("GET", target, headers={"User-Agent": "graceful.azure", "Connection": "close"})
            response = connection.getresponse()
            status = response.status
            if leave_no_trace:
                # So that the server is not reset in the middle of a small answer.
                response.read(65536)
            response.close()
    except _TROUBLE as error:
        return "%s: %s" % (url, _why(error))
    finally:
        connection.close()
    return told_status(url, status)


def told_status(url: str, status: int) -> str | None:
    """None if a status is one of a service that answers, otherwise the reason why not."""
    return None if 200 <= status <= 399 else "%s: status %d" % (url, status)


def ask(
    asked: Mapping[str, Any],
    seconds: float,
    of_port: Callable[[str, int, float], str | None] | None = None,
    of_url: Callable[[str, float, bool], str | None] | None = None,
) -> str | None:
    """None if a port and a URL answer, otherwise why not. C(asked): C(port), C(host), C(url) and C(validate_certs), as the options are called.

    C(of_port), C(of_url): how they are asked, if not from here.
    """
    reason = None
    if asked.get("port"):
        reason = (of_port or ask_port)(asked.get("host") or "localhost", asked["port"], seconds)
    if reason is None and asked.get("url"):
        try:
            reason = (of_url or ask_url)(asked["url"], seconds, asked["validate_certs"])
        except AddressError as error:
            reason = str(error)
    return reason


def ask_port(host: str, port: int, request_timeout: float) -> str | None:
    """None if something accepts connections on the port, otherwise why not."""
    try:
        with _at_most(request_timeout), socket.create_connection((host, port), request_timeout):
            return None
    except _TROUBLE as error:
        return "port %d of %s: %s" % (port, host, _why(error))


def silent_places(places: Iterable[Destination], seconds: float = CONNECT_SECONDS) -> dict[Destination, Optional[str]]:
    """Per place, why nothing accepts connections there, or None if something does. All are asked side by side, and none for longer than that."""
    todo = list(dict.fromkeys(places))
    found: dict[Destination, Optional[str]] = {}
    for start in range(0, len(todo), AT_ONCE):
        _ask_places(todo[start : start + AT_ONCE], seconds, found)
    return found


def _ask_places(places: Iterable[Destination], seconds: float, found: dict[Destination, Optional[str]]) -> None:
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
        for place in places:
            family = socket.AF_UNIX if isinstance(place, str) else socket.AF_INET6 if ":" in place[0] else socket.AF_INET
            try:
                connection = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
                connection.setblocking(False)
                number = connection.connect_ex(place)
            except (OSError, OverflowError) as error:
                number = getattr(error, "errno", None) or errno.EINVAL
            if isinstance(place, str) and number == errno.EAGAIN:
                # Its queue of new connections is full.
                found[place] = _silent(place, None)
            elif number in (errno.EINPROGRESS, errno.EWOULDBLOCK):
                found[place] = _silent(place, None)
                selector.register(connection, selectors.EVENT_WRITE, place)
            else:
                found[place] = _silent(place, number) if number else None
        deadline = time.monotonic() + seconds
        while selector.get_map() and time.monotonic() < deadline:
            for key, _events in selector.select(max(0.0, deadline - time.monotonic())):
                selector.unregister(key.fileobj)
                number = key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # type: ignore[union-attr]
                found[key.data] = _silent(key.data, number) if number else None


def _silent(place: Destination, number: int | None) -> str:
    where = place if isinstance(place, str) else "port %d of %s" % (place[1], place[0])
    return "%s: %s" % (where, "no answer in time" if number is None else os.strerror(number))
