# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A socket that takes what the journal of systemd takes, and reads it by the rules of its protocol."""

from __future__ import annotations

import re
import socket
import struct

from tests.support.patience import patient

NAME = re.compile(rb"[A-Z][A-Z0-9_]{0,63}\Z")


class Journald:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(patient(5))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def entry(self):
        """The next entry: the values of each field by its name."""
        return parse(self.socket.recv(1 << 20))


def parse(data):
    found = {}
    while data:
        line, _break, rest = data.partition(b"\n")
        name, is_short, value = line.partition(b"=")
        if not is_short:
            (length,) = struct.unpack("<Q", rest[:8])
            value, rest = rest[8 : 8 + length], rest[8 + length :]
            assert len(value) == length and rest[:1] == b"\n"
            rest = rest[1:]
        assert NAME.match(name), name
        found.setdefault(name.decode(), []).append(value.decode())
        data = rest
    return found
