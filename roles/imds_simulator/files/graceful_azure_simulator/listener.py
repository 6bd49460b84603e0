# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An address that listens, with a thread for each connection."""

from __future__ import annotations

import socket
import threading
import time

from .connection import Connection
from .process import in_background
from .refusals import Refused

CONNECTION_LIMIT = 1000  # of each address
BACKLOG = 4096  # clients that the kernel lets wait


class Listener:
    """A socket that listens, and the connections of its clients."""

    def __init__(self, address, answer, now):
        self.answer = answer
        self.now = now
        self.free = threading.Semaphore(CONNECTION_LIMIT)
        self.connections = set()
        self.lock = threading.Lock()
        family, sockaddr = address
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                self.sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            self.sock.bind(sockaddr)
            self.sock.listen(BACKLOG)
        except OSError as error:
            raise Refused(f"cannot listen at {url(sockaddr)}: {error.strerror}") from None
        self.url = url(self.sock.getsockname())

    def run(self):
        while True:
            try:
                sock = self.sock.accept()[0]
            except OSError:
                # The client is gone already, or the process has no file left for it. Other connections end soon.
                time.sleep(0.02)
                continue
            # At the limit, a new client takes the place of one that keeps its connection without a request. If there is none, it waits.
            if not self.free.acquire(blocking=False):
                self._make_room()
                self.free.acquire()
            try:
                in_background(self._serve, sock)
            except RuntimeError:  # the system has no thread left for it
                sock.close()
                self.free.release()
                time.sleep(0.02)

    def _serve(self, sock):
        connection = Connection(sock, self.answer, self.now)
        with self.lock:
            self.connections.add(connection)
        try:
            connection.serve()
        finally:
            with self.lock:
                self.connections.discard(connection)
            self.free.release()

    def _make_room(self):
        """Ends the connection that has waited longest for a request."""
        with self.lock:
            idle = [(connection.idle_since, id(connection), connection) for connection in self.connections]
        idle = [entry for entry in idle if entry[0] is not None]
        if idle:
            min(idle)[2].end_idle()


def url(sockaddr):
    """The URL of a socket's address."""
    host, port = sockaddr[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
