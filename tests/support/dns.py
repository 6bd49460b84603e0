# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A DNS server for tests: every name has the same IPv4 addresses, which the test changes. With none, no name exists."""

from __future__ import annotations

import socket
import struct
import threading

from tests.support.patience import patient

A, NO_SUCH_NAME = 1, 3
RESPONSE = 0x8180  # recursion is asked for and there
TTL = 1


class Dns:
    def __init__(self, *addresses):
        self.addresses = list(addresses)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._over = False
        self._thread.start()

    def resolvers(self, name="ours"):
        """A section of HAProxy's configuration that asks this server, and soon believes its answers."""
        holds = "".join("  hold %s 200ms\n" % what for what in ("valid", "nx", "refused", "other", "timeout", "obsolete"))
        return "resolvers %s\n  nameserver here 127.0.0.1:%d\n%s  timeout resolve 200ms\n  timeout retry 200ms\n" % (name, self.port, holds)

    def close(self):
        self._over = True
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waker:
            waker.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join(patient(5))
        self._socket.close()

    def _serve(self):
        while True:
            query, client = self._socket.recvfrom(4096)
            if self._over:
                return
            if len(query) > 12:
                self._socket.sendto(self._answer(query), client)

    def _answer(self, query):
        end = 12
        while query[end]:
            end += query[end] + 1
        question = query[12 : end + 5]
        (kind,) = struct.unpack(">H", question[-4:-2])
        addresses = self.addresses if kind == A else []
        flags = RESPONSE | (0 if addresses else NO_SUCH_NAME)
        # Each answer points at the name in the question.
        records = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", A, 1, TTL, 4) + socket.inet_aton(address) for address in addresses)
        return query[:2] + struct.pack(">HHHHH", flags, 1, len(addresses), 0, 0) + question + records
