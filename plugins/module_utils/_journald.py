# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes an entry to the journal of systemd on this machine, in the journal's own protocol. Without such a journal, nothing happens.

An entry is a message of fields. A field is C(NAME=value) and a line break. A value with line breaks comes as the name, a line break, its length in 8 bytes,
the value and a line break.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKET = "/run/systemd/journal/socket"
IDENTIFIER = "graceful-azure"
# How many bytes of a value are written. A larger message would need a file.
MOST = 16384
# How long a journal that takes nothing is waited for.
SECONDS = 0.5


def entry(fields: Mapping[str, object]) -> bytes:
    """The bytes of an entry. C(fields): the values by their names. Of a list, each value is a field of its own."""
    lines = []
    for name, values in [("SYSLOG_IDENTIFIER", IDENTIFIER), *fields.items()]:
        for value in values if isinstance(values, (list, tuple)) else [values]:
            data = str(value).encode("utf-8", "backslashreplace")[:MOST]
            # The long form is right for every value.
            lines.append(name.encode() + (b"\n" + struct.pack("<Q", len(data)) + data if b"\n" in data else b"=" + data) + b"\n")
    return b"".join(lines)


def write(fields: Mapping[str, object], path: str = SOCKET) -> bool:
    """Write an entry, or nothing if there is no journal or it refuses it. False if the journal was too busy: then the entry can be written later."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
            journal.settimeout(SECONDS)
            journal.sendto(entry(fields), path)
    except socket.timeout:
        return False
    except OSError:
        pass
    return True
