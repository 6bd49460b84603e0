# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asks the kernel by netlink, which needs no tool."""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._spellings import reason_of

if TYPE_CHECKING:
    from collections.abc import Iterator

# From <linux/netlink.h>.
MESSAGE = "=IHHII"  # struct nlmsghdr: length, type, flags, number, port
ATTRIBUTE = "=HH"  # struct nlattr: length, type
ERROR, DONE = 2, 3
DUMP = 0x301  # NLM_F_REQUEST and NLM_F_DUMP
TYPE_BITS = 0x3FFF
ANSWER_SECONDS = 2.0
BUFFER_BYTES = 1 << 18


class NetlinkError(Exception):
    """The kernel does not tell. The message says why, as a phrase."""


def dump(protocol: int, kind: int, body: bytes) -> Iterator[bytes]:
    """All entries of one of the kernel's lists, each without the head of its message."""
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as kernel:
            kernel.settimeout(ANSWER_SECONDS)
            kernel.sendto(struct.pack(MESSAGE, struct.calcsize(MESSAGE) + len(body), kind, DUMP, 1, 0) + body, (0, 0))
            while True:
                data, start = kernel.recv(BUFFER_BYTES), 0
                while start + struct.calcsize(MESSAGE) <= len(data):
                    length, told, _flags, _number, _port = struct.unpack_from(MESSAGE, data, start)
                    content = data[start + struct.calcsize(MESSAGE) : start + length]
                    if told == DONE:
                        return
                    if told == ERROR:
                        raise NetlinkError(os.strerror(-struct.unpack_from("=i", content)[0]))
                    yield content
                    start += length + 3 & ~3
    except socket.timeout:
        raise NetlinkError("the kernel does not answer within %g s" % ANSWER_SECONDS) from None
    except OSError as error:
        raise NetlinkError(reason_of(error)) from error


def attributes(data: bytes) -> dict[int, bytes]:
    """The attributes in this data, by their types."""
    found = {}
    start = 0
    while start + struct.calcsize(ATTRIBUTE) <= len(data):
        length, kind = struct.unpack_from(ATTRIBUTE, data, start)
        if length < struct.calcsize(ATTRIBUTE):
            break
        found[kind & TYPE_BITS] = data[start + struct.calcsize(ATTRIBUTE) : start + length]
        start += length + 3 & ~3
    return found
