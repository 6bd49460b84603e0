# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What only netlink tells of the TCP sockets of this network, and not the kernel's tables. It needs no special right."""

from __future__ import annotations

import ipaddress
import socket
import struct
import time
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.graceful.azure.plugins.module_utils._netlink import attributes, dump
from ansible_collections.graceful.azure.plugins.module_utils._spellings import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

# From <linux/netlink.h>, <linux/sock_diag.h> and <linux/inet_diag.h>.
NETLINK_SOCK_DIAG = 4
BY_FAMILY = 20
REQUEST = "=BBBBI48x"  # struct inet_diag_req_v2: family, protocol, extensions, padding, states, and no single socket
INFO, SOCKOPT = 2, 22
# struct inet_diag_msg: family, state, local and remote port, local and remote address, bytes to be sent, inode
ENTRY = struct.Struct("=BBxx2s2s16s16s20xI4xI")
# In struct inet_diag_sockopt, from Linux 5.10 on.
TRANSPARENT = 1 << 5
# In struct tcp_info of <linux/tcp.h>: the milliseconds since something was sent, and was received; and, from Linux 4.1 on, how many bytes the other side
# has confirmed, and how many were received.
SENT_AGO_AT, RECEIVED_AGO_AT, CONFIRMED_AT, RECEIVED_AT = 44, 52, 120, 128
# From <net/tcp_states.h>.
ESTABLISHED, SYN_RECV, FIN_WAIT1, TIME_WAIT, CLOSE, CLOSE_WAIT, LAST_ACK, LISTEN, CLOSING = 1, 3, 4, 6, 7, 8, 9, 10, 11
SERVED = (ESTABLISHED, SYN_RECV, CLOSE_WAIT)
# The application has closed. What is in their queue is yet to be sent or acknowledged.
SENDING = (FIN_WAIT1, LAST_ACK, CLOSING)


class Socket(NamedTuple):
    state: int
    port: int
    address: bytes
    peer_port: int
    unsent: int
    inode: str
    more: dict[int, bytes]

    @property
    def peer(self) -> str:
        return canonical(ipaddress.ip_address(self.address))

    @property
    def is_transparent(self) -> bool:
        """Whether it may take connections to addresses and ports that are not its own (TPROXY)."""
        return bool(self.more.get(SOCKOPT, b"\0")[0] & TRANSPARENT)


class Answered(NamedTuple):
    """Sockets by their inodes."""

    ever: set[str]  # on which something was received
    last: set[str]  # of these, those on which nothing was sent since
    received: dict[str, float]  # when something was received last, by the monotonic clock
    sent: dict[str, float]  # when something was sent last, if the other side has confirmed anything


def answered(inodes: Collection[str], monotonic: Callable[[], float] = time.monotonic) -> Answered:
    """On which of these sockets something was received, and when. Raises NetlinkError."""
    found = Answered(set(), set(), {}, {})
    for each in _sockets(0xFFF & ~_states(TIME_WAIT, CLOSE, LISTEN)):
        info = each.more.get(INFO, b"") if each.inode in inodes else b""
        if len(info) < RECEIVED_AT + 8:
            continue
        now = monotonic()
        sent_ago, received_ago = (struct.unpack_from("=I", info, at)[0] for at in (SENT_AGO_AT, RECEIVED_AGO_AT))
        if struct.unpack_from("=Q", info, CONFIRMED_AT)[0]:
            found.sent[each.inode] = now - sent_ago / 1000.0
        if struct.unpack_from("=Q", info, RECEIVED_AT)[0]:
            found.received[each.inode] = now - received_ago / 1000.0
            found.ever.add(each.inode)
            if received_ago < sent_ago:
                found.last.add(each.inode)
    return found


def diverted(ports: Collection[int]) -> list[tuple[int, str, int]]:
    """The connections that somebody has taken over who listens on one of these ports, although they were made to other ports, as the rule TPROXY does.

    Each with a port of these, the peer, and the peer's port. Whose of several listeners a connection is, nobody tells. Raises NetlinkError.
    """
    listening = list(_sockets(_states(LISTEN))) if ports else []
    takers = {each.port for each in listening if each.is_transparent and each.port in ports}
    if not takers:
        return []
    own = {each.port for each in listening}
    taken = (each for each in _sockets(_states(*SERVED, *SENDING)) if each.is_transparent and each.port not in own)
    return [(port, each.peer, each.peer_port) for each in taken if may_be_in_use(each.state, each.unsent) for port in sorted(takers)]


def may_be_in_use(state: int, unsent: int) -> bool:
    """Whether a connection in this state, with so many bytes in its queue, may be in use."""
    return state in SERVED or state in SENDING and unsent > 0


def _states(*numbers: int) -> int:
    return sum(1 << number for number in numbers)


def _sockets(states: int) -> Iterator[Socket]:
    for family, size in ((socket.AF_INET, 4), (socket.AF_INET6, 16)):
        for entry in dump(NETLINK_SOCK_DIAG, BY_FAMILY, struct.pack(REQUEST, family, socket.IPPROTO_TCP, 1 << INFO - 1, 0, states)):
            if len(entry) < ENTRY.size:
                continue
            _family, state, port, peer_port, _local, peer, unsent, inode = ENTRY.unpack_from(entry)
            ends = int.from_bytes(port, "big"), peer[:size], int.from_bytes(peer_port, "big")
            yield Socket(state, *ends, unsent, str(inode), attributes(entry[ENTRY.size :]))
