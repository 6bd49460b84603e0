# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""On which TCP connections of this network something has come back. The kernel tells by netlink, without any special right."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.graceful.azure.plugins.module_utils._netlink import attributes, dump

if TYPE_CHECKING:
    from collections.abc import Collection

# From <linux/netlink.h>, <linux/sock_diag.h> and <linux/inet_diag.h>.
NETLINK_SOCK_DIAG = 4
BY_FAMILY = 20
REQUEST = "=BBBBI48x"  # struct inet_diag_req_v2: family, protocol, extensions, padding, states, and no single socket
INFO = 2
# All but TIME_WAIT, CLOSE and LISTEN.
STATES = 0xFFF & ~(1 << 6 | 1 << 7 | 1 << 10)
# In struct inet_diag_msg.
INODE_AT, MESSAGE_BYTES = 68, 72
# In struct tcp_info of <linux/tcp.h>: the milliseconds since something was sent, and was received; and how many bytes were received, from Linux 4.1 on.
SENT_AGO_AT, RECEIVED_AGO_AT, RECEIVED_AT = 44, 52, 128


class Answered(NamedTuple):
    """Sockets by their inodes."""

    ever: set[str]  # on which something was received
    last: set[str]  # of these, those on which nothing was sent since


def answered(inodes: Collection[str]) -> Answered:
    """Which of these sockets have received something. Raises NetlinkError."""
    found = Answered(set(), set())
    for family in (socket.AF_INET, socket.AF_INET6):
        for entry in dump(NETLINK_SOCK_DIAG, BY_FAMILY, struct.pack(REQUEST, family, socket.IPPROTO_TCP, 1 << INFO - 1, 0, STATES)):
            if len(entry) < MESSAGE_BYTES:
                continue
            inode = str(struct.unpack_from("=I", entry, INODE_AT)[0])
            info = attributes(entry[MESSAGE_BYTES:]).get(INFO, b"") if inode in inodes else b""
            if len(info) < RECEIVED_AT + 8 or not struct.unpack_from("=Q", info, RECEIVED_AT)[0]:
                continue
            found.ever.add(inode)
            if struct.unpack_from("=I", info, RECEIVED_AGO_AT)[0] < struct.unpack_from("=I", info, SENT_AGO_AT)[0]:
                found.last.add(inode)
    return found
