# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One client's connection: reads requests from its socket and writes the answers.

Python's own HTTP server waits for ever for a client that dawdles, and looks up names.
"""

from __future__ import annotations

import contextlib
import email.utils
import http
import re
import socket
import time

from .http_messages import TOKEN, Request, refusal
from .refusals import Refused

BODY_LIMIT = 1024 * 1024
HEAD_LIMIT = 64 * 1024
LINE_LIMIT = 16 * 1024
IDLE_SECONDS = 75.0  # how long a kept connection may wait for its next request
REQUEST_SECONDS = 10.0  # from a request's first byte to its last, and as long again for the client to take the answer
HANG_UP_SECONDS = 2.0  # how long a client may go on sending after the last answer


class Connection:
    """One client's connection: reads one request after the other and answers each."""

    def __init__(self, sock, answer, now=time.time):
        self.sock = sock
        self.answer = answer
        self.now = now
        self.idle_since = None  # while no request has begun
        self.received = bytearray()
        self.deadline = time.monotonic() + REQUEST_SECONDS

    def serve(self):
        try:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while self._serve_one():
                pass
        except OSError:
            pass  # The client is gone, or takes no answer.
        finally:
            self.sock.close()

    def _serve_one(self):
        """Answers one request. False if the connection has to end."""
        self.idle_since = time.monotonic()
        try:
            while not self.received.lstrip(b"\r\n"):
                self.received.clear()
                self._receive()
        except socket.timeout:
            return False
        self.idle_since = None
        self.deadline = time.monotonic() + REQUEST_SECONDS
        try:
            request, keep = self._read_head()
        except Refused as refused:
            self._send(refusal(refused), keep=False)
            return False
        try:
            self._read_body(request)
        except Refused as refused:
            request.problem, keep = refused, False
        request.hung_up = self._hung_up
        head_only = request.method == "HEAD"
        try:
            response = self.answer(request)
        except Refused as refused:
            response = refusal(refused)
        if response is None or not self._send(response, keep, head_only):
            return False
        self.deadline = time.monotonic() + IDLE_SECONDS
        return True

    # Reading

    def _receive(self):
        remaining = self.deadline - time.monotonic()
        if remaining <= 0:
            raise socket.timeout
        self.sock.settimeout(remaining)
        data = self.sock.recv(65536)
        if not data:
            raise ConnectionResetError
        self.received += data

    def _receive_more(self):
        """The same, once a request has begun."""
        try:
            self._receive()
        except socket.timeout:
            raise Refused("The request took too long.", 408) from None

    def _line(self):
        """The next line, without its end."""
        searched = 0
        while True:
            end = self.received.find(b"\n", searched)
            if end >= 0 or len(self.received) > LINE_LIMIT:
                break
            searched = len(self.received)
            self._receive_more()
        if not 0 <= end <= LINE_LIMIT:
            raise Refused(f"A line is longer than {LINE_LIMIT} bytes.", 431)
        line = bytes(self.received[:end])
        del self.received[: end + 1]
        return line[:-1] if line.endswith(b"\r") else line

    def _lines(self):
        """The lines up to an empty one."""
        lines, size = [], 0
        while True:
            line = self._line()
            if not line:
                return lines
            size += len(line)
            if size > HEAD_LIMIT:
                raise Refused(f"The head is longer than {HEAD_LIMIT} bytes.", 431)
            lines.append(line.decode("latin-1"))

    def _bytes(self, count):
        while len(self.received) < count:
            self._receive_more()
        data = bytes(self.received[:count])
        del self.received[:count]
        return data

    def _read_head(self):
        """A request without its body, and whether the client lets the connection be kept."""
        self.received = self.received.lstrip(b"\r\n")
        lines = self._lines()
        match = re.fullmatch(rf"({TOKEN}) ([!-~\x80-\xff]+) HTTP/([0-9])\.([0-9])", lines[0])
        if not match:
            raise Refused("This is no request of HTTP/1.1.")
        method, target, major, minor = match.groups()
        if major != "1":
            raise Refused("HTTP/1.1 is spoken here.", 505)
        headers = {}
        for line in lines[1:]:
            match = re.fullmatch(rf"({TOKEN}):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*", line)
            if not match:
                raise Refused("A header is malformed.")
            headers.setdefault(match.group(1).lower(), []).append(match.group(2))
        wishes = [wish.strip().lower() for value in headers.get("connection", []) for wish in value.split(",")]
        keep = "close" not in wishes and (minor != "0" or "keep-alive" in wishes)
        return Request(method, target, headers), keep

    def _read_body(self, request):
        codings, lengths = request.headers.get("transfer-encoding", []), set(request.headers.get("content-length", []))
        if codings:
            if lengths:
                raise Refused("Content-Length and Transfer-Encoding exclude each other.")
            if [coding.lower() for coding in codings] != ["chunked"]:
                raise Refused("The only Transfer-Encoding known is chunked.", 501)
        elif not lengths:
            return
        elif len(lengths) > 1 or not re.fullmatch(r"[0-9]{1,30}", min(lengths)):
            raise Refused("Content-Length is malformed.")
        elif int(min(lengths)) > BODY_LIMIT:
            raise self._too_big()
        if request.headers.get("expect", [""])[0].lower() == "100-continue":
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.body = self._chunks() if codings else self._bytes(int(min(lengths)))

    def _chunks(self):
        body = bytearray()
        while True:
            match = re.fullmatch(rb"([0-9A-Fa-f]{1,15})[ \t]*(;.*)?", self._line())
            if not match:
                raise Refused("A chunk is malformed.")
            size = int(match.group(1), 16)
            if size == 0:
                self._lines()
                return bytes(body)
            if len(body) + size > BODY_LIMIT:
                raise self._too_big()
            body += self._bytes(size)
            if self._line():
                raise Refused("A chunk is malformed.")

    @staticmethod
    def _too_big():
        return Refused(f"The body is longer than {BODY_LIMIT} bytes.", 413)

    def _hung_up(self):
        self.sock.settimeout(0)
        try:
            return not self.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    # Writing

    def _write(self, data):
        self.sock.settimeout(REQUEST_SECONDS)
        self.sock.sendall(data)

    def _send(self, response, keep, head_only=False):
        """Sends an answer. True if the connection is kept."""
        bare = response.status in (204, 304)
        headers = {"date": ("Date", email.utils.formatdate(self.now() + response.clock_off, usegmt=True))}
        if response.body and not bare:
            headers["content-type"] = ("Content-Type", "text/plain; charset=utf-8")
        if not bare:
            headers["content-length"] = ("Content-Length", str(len(response.body)))
        own = {name.lower(): (name, value) for name, value in response.headers.items()}
        headers.update(own)
        # The headers of a fault may give a length of the body, right or wrong, or close the connection.
        keep = keep and not own.keys() & {"content-length", "transfer-encoding"} and "close" not in own.get("connection", ("", ""))[1].lower()
        if not keep:
            headers["connection"] = ("Connection", "close")
        else:
            headers.setdefault("connection", ("Connection", "keep-alive"))
        try:
            phrase = http.HTTPStatus(response.status).phrase
        except ValueError:
            phrase = ""
        lines = [f"HTTP/1.1 {response.status} {phrase}", *(": ".join(header) for header in headers.values()), "", ""]
        head, body = "\r\n".join(lines).encode("latin-1"), b"" if bare or head_only else response.body
        if response.sending:
            keep = self._write_as_faulted(head, body, response.sending) and keep
        else:
            self._write(head + body)
        if not keep:
            self._hang_up()
        return keep

    def _write_as_faulted(self, head, body, sending):
        """Sends the answer as a fault wants it. False if the connection has to end."""
        self._write(head)
        time.sleep(sending.get("DelayBody", 0))
        whole = len(body)
        body = body[: sending.get("Cut", whole)]
        piece = max(1, sending["Slow"] // 10) if "Slow" in sending else len(body) or 1
        for begin in range(0, len(body), piece):
            self._write(body[begin : begin + piece])
            if "Slow" in sending:
                time.sleep(piece / sending["Slow"])
        return len(body) == whole and "DropAfter" not in sending

    def end_idle(self):
        """Ends the connection from another thread, while no request has begun."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def _hang_up(self):
        """Reads what the client still sends. Unread bytes would make the kernel send a reset, which could overtake the answer."""
        self.sock.shutdown(socket.SHUT_WR)
        self.deadline = time.monotonic() + HANG_UP_SECONDS
        while True:
            self.received.clear()
            self._receive()
