# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers a load balancer's probe with the application's own health, and with 503 while this host is held for an event.

The listening sockets come from systemd. One that systemd calls "untouched" gets the application's health, whether or not the host is held.
The host is held while the file --hold is there. If that cannot be told, the application's health counts: a fault of the responder must not take a host
out. Each answer closes its connection, because a balancer that keeps one would not see the next state.

Standard library alone, Python 3.7 and later.
"""

import argparse
import asyncio
import functools
import os
import signal
import socket
import ssl
import sys
from urllib.parse import urlsplit

FIRST_SOCKET = 3
UNTOUCHED = "untouched"
HEAD_LIMIT = 8192
HEAD_SECONDS = 5.0
TOGETHER = 64

REASONS = {200: "OK", 400: "Bad Request", 405: "Method Not Allowed", 503: "Service Unavailable"}


class Application:
    """The application's own health."""

    def __init__(self, url, seconds):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("--url %r is not like http://localhost:8080/health" % (url,))
        self._host, self._port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = None
        if parts.scheme == "https":
            # It is this host's own application. Its certificate names the service and not localhost.
            self._tls = ssl.create_default_context()
            self._tls.check_hostname = False
            self._tls.verify_mode = ssl.CERT_NONE
        target = (parts.path or "/") + ("?" + parts.query if parts.query else "")
        self._request = "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: graceful.azure responder\r\nConnection: close\r\n\r\n" % (target, parts.netloc)
        self._seconds = seconds

    async def status(self):
        """The status that it answers, and words where there is none."""
        try:
            return await asyncio.wait_for(self._ask(), self._seconds), ""
        except asyncio.TimeoutError:
            return 503, "the application did not answer within %g s" % self._seconds
        except (OSError, ValueError, EOFError, asyncio.LimitOverrunError) as error:
            return 503, "the application cannot be asked: %s" % (error,)

    async def _ask(self):
        reader, writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
        try:
            writer.write(self._request.encode("ascii"))
            line = await reader.readuntil(b"\n")
            version, _space, rest = line.partition(b" ")
            status = int(rest[:3])
            if not version.startswith(b"HTTP/") or not 100 <= status <= 599:
                raise ValueError("its answer is not HTTP")
            return status
        finally:
            writer.close()


class Responder:
    def __init__(self, application, hold):
        self._application = application
        self._hold = hold
        self._free = None

    def is_held(self):
        try:
            os.stat(self._hold)
        except OSError:
            # It is not there, or nobody can tell.
            return False
        return True

    async def serve(self, listeners):
        """Answer on these sockets until a signal comes. Each is a pair: the socket, and whether its answer is untouched by holds."""
        self._free = asyncio.Semaphore(TOGETHER)
        stop = asyncio.Event()
        loop = asyncio.get_event_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        servers = [await asyncio.start_server(functools.partial(self._answer, untouched), sock=listener, limit=HEAD_LIMIT) for listener, untouched in listeners]
        await stop.wait()
        for server in servers:
            server.close()

    async def _answer(self, untouched, reader, writer):
        try:
            async with self._free:
                status, why, with_body = await self._judge(reader, untouched)
                body = ("%s\n" % (why or REASONS.get(status, "status %d" % status))).encode("utf-8", "backslashreplace")
                head = "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
                writer.write((head % (status, REASONS.get(status, "Status"), len(body))).encode("ascii") + (body if with_body else b""))
                await asyncio.wait_for(writer.drain(), HEAD_SECONDS)
        except (OSError, asyncio.TimeoutError):
            pass  # who asked has gone
        finally:
            writer.close()

    async def _judge(self, reader, untouched):
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_SECONDS)
        except asyncio.TimeoutError:
            return 400, "no request came", True
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return 400, "that is no request", True
        method = head.split(b" ", 1)[0]
        if method not in (b"GET", b"HEAD"):
            return 405, "only GET and HEAD are answered", True
        with_body = method == b"GET"
        if not untouched and self.is_held():
            return 503, "held for a scheduled event", with_body
        status, why = await self._application.status()
        return status, why, with_body


def sockets_of_systemd():
    """The listening sockets that systemd hands over, each with whether its answer is untouched."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return []
    count = int(os.environ.get("LISTEN_FDS", "0"))
    names = os.environ.get("LISTEN_FDNAMES", "").split(":") + [""] * count
    return [(socket.socket(fileno=FIRST_SOCKET + number), names[number] == UNTOUCHED) for number in range(count)]


def listen(port):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    return listener


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--url", required=True, help="the application's own health")
    parser.add_argument("--hold", required=True, help="the file that is there while the host is held")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long the application may take")
    parser.add_argument("--port", type=int, help="listen there; without systemd")
    parser.add_argument("--untouched-port", type=int, help="listen there, too, and answer the application's health whatever is held; without systemd")
    arguments = parser.parse_args()
    try:
        application = Application(arguments.url, arguments.seconds)
    except ValueError as error:
        sys.exit(str(error))
    listeners = sockets_of_systemd()
    listeners += [(listen(port), untouched) for port, untouched in ((arguments.port, False), (arguments.untouched_port, True)) if port]
    if not listeners:
        sys.exit("systemd handed over no socket; give --port to run it by hand")
    for listener, _untouched in listeners:
        listener.setblocking(False)
    asyncio.run(Responder(application, arguments.hold).serve(listeners))


if __name__ == "__main__":
    main()
