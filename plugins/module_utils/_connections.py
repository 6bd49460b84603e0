# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counts the TCP connections of this machine that may still be in use, by local port and peer, and tells which ports cannot be counted.

A connection counts as long as somebody may still wait for something:

- The client has sent its request and closed its side, and waits for the answer.
- The application has written its answer and closed, and the kernel still sends it. This ends when the client has it, or when the kernel gives up a
  client that does not answer any more (tcp_orphan_retries, some two minutes).
- The handshake is not over on this side. The client may have sent its request already.

The connections are read from the kernel's tables. This needs neither a tool nor a special right. The tables are those of the network namespace in
which the reader runs. Those that the kernel forwards elsewhere are told by its connection tracking, which only root may read, and those that a
transparent proxy takes over by netlink.
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import os
import struct
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.graceful.azure.plugins.module_utils import _connection_tracking
from ansible_collections.graceful.azure.plugins.module_utils._connection_tracking import TrackingError
from ansible_collections.graceful.azure.plugins.module_utils._netlink import NetlinkError
from ansible_collections.graceful.azure.plugins.module_utils._proc import read
from ansible_collections.graceful.azure.plugins.module_utils._sock_diag import diverted, may_be_in_use
from ansible_collections.graceful.azure.plugins.module_utils._spellings import canonical, check_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from ipaddress import IPv4Address, IPv6Address
    from typing import Any

# The kernel's tables in /proc/net, and whether one may be missing: the second is where the kernel runs without IPv6.
TABLES = (("tcp", False), ("tcp6", True))

LISTENING = "0A"
# Why a port on which somebody waits for UDP cannot be counted.
UDP = "it is a UDP port, and only TCP is counted"


class ConnectionsError(Exception):
    """A table cannot be read or understood, or a text is not an address. The message is a whole sentence."""


def parse_address(address: int | str | IPv4Address | IPv6Address) -> str:
    """The address in the form in which addresses are compared. Raises ConnectionsError if it is none."""
    try:
        return canonical(address)
    except ValueError:
        raise ConnectionsError("%r is not an IPv4 or IPv6 address" % (address,)) from None


def decode_endpoint(text: str) -> tuple[str, int]:
    """The address and the port in a column of the kernel's tables."""
    digits, port = text.split(":")
    return _decode_address(digits), int(port, 16)


# Whoever samples a table reads the same rows twenty times a second, and this is most of what that takes.
@functools.lru_cache(maxsize=1 << 14)
def _decode_address(digits: str) -> str:
    # The kernel prints an address as 32-bit words. Each has the byte order of the machine.
    words = [int(digits[start : start + 8], 16) for start in range(0, len(digits), 8)]
    return parse_address(ipaddress.ip_address(struct.pack("=%dI" % len(words), *words)))


class Table(NamedTuple):
    """What one of the kernel's tables tells of some local ports."""

    connections: list[tuple[int, str, int]]  # of each connection that counts: the port, the peer and the peer's port
    listening: dict[int, set[str]]  # per port on which somebody listens: the addresses


def each_row(text: str, ports: set[int], take: Callable[[int, str, str, str, str, str], None]) -> None:
    """Call C(take) with each row about one of the local ports: with the port, and the columns local, remote, state, queues and timer as they are."""
    # The first line is the heading.
    for line in text.splitlines()[1:]:
        try:
            local, remote, state, queues, timer = line.split(None, 6)[1:6]
            port = int(local.rsplit(":", 1)[1], 16)
            if port in ports:
                take(port, local, remote, state, queues, timer)
        except (ValueError, IndexError, struct.error):
            raise ConnectionsError("The kernel's table of TCP connections has a line that cannot be understood: %r" % (line,)) from None


def parse_table(text: str, ports: set[int]) -> Table:
    """The connections to the given local ports that count, and who listens there."""
    found = Table([], {})
    # The kernel may list a connection twice if others come and go while it is read.
    known: set[tuple[str, str]] = set()

    def take(port: int, local: str, remote: str, state: str, queues: str, _timer: str) -> None:
        if state == LISTENING:
            found.listening.setdefault(port, set()).add(decode_endpoint(local)[0])
        elif (local, remote) not in known and may_be_in_use(int(state, 16), int(queues.split(":")[0], 16)):
            known.add((local, remote))
            found.connections.append((port, *decode_endpoint(remote)))

    each_row(text, ports, take)
    return found


def read_table(path: str, optional: bool) -> str:
    """The text of a table. One that is optional may be missing."""
    try:
        with open(path) as table:
            return table.read()
    except FileNotFoundError:
        if optional:
            return ""
        raise ConnectionsError("%s does not exist: connections can be counted on Linux only" % path) from None
    except OSError as error:
        raise ConnectionsError("%s cannot be read: %s" % (path, error.strerror)) from error


def check_ports(ports: Iterable[int]) -> None:
    """Raises ValueError if one of the option's ports is none."""
    for port in ports:
        check_port("ports", port)


class Counted(NamedTuple):
    """What is connected to some ports of a machine, and for which of them nobody can tell."""

    connections: list[dict[str, Any]]  # as C(by_peer) tells them
    # Each with port, why (a phrase), and unheard: whether that is because nobody listens. After a service was stopped, nobody does.
    uncounted: list[dict[str, Any]]


def counted(ports: Iterable[int], proc: str = "/proc", told_apart: Iterable[str] = ()) -> Counted:
    """The connections to the local C(ports) that may still be in use, those that are forwarded too, and the ports whose connections cannot be counted."""
    wanted = set(ports)
    connections: list[tuple[int, str, int]] = []
    listening: dict[int, set[str]] = {}
    for name, optional in TABLES:
        table = parse_table(read_table(os.path.join(proc, "net", name), optional), wanted)
        connections += table.connections
        for port, addresses in table.listening.items():
            listening.setdefault(port, set()).update(addresses)
    unreadable = ""
    seen: set[int] = set()
    try:
        for connection in _connection_tracking.forwarded(wanted, proc):
            seen.add(connection.port)
            if connection.is_open:
                connections.append((connection.port, connection.peer, connection.peer_port))
    except TrackingError as error:
        unreadable = str(error) if _connection_tracking.forwards(proc) else ""
    # Where the kernel does not tell, nobody sees that somebody takes over connections that were made to other ports.
    with contextlib.suppress(NetlinkError):
        connections += diverted(wanted.intersection(listening))
    untracked = _connection_tracking.untracked(proc) if wanted else set()
    uncounted = []
    for port in sorted(wanted):
        if port in untracked:
            why = "IPVS forwards it, and does not tell the kernel's connection tracking (sysctl net.ipv4.vs.conntrack)"
            uncounted.append({"port": port, "why": why, "unheard": False})
        elif port not in listening and port not in seen:
            uncounted.append({"port": port, "why": _why_unheard(port, unreadable, proc), "unheard": True})
        # Whoever listens on loopback addresses alone has no clients but on this machine, whose tables tell them.
        elif unreadable and not all(ipaddress.ip_address(address).is_loopback for address in listening.get(port, ())):
            why = (
                "it may be forwarded elsewhere, and the kernel's connection tracking cannot be read (%s): it needs root, and CAP_NET_ADMIN in a container"
                % unreadable
            )
            uncounted.append({"port": port, "why": why, "unheard": False})
    return Counted(by_peer(connections, told_apart), uncounted)


def _why_unheard(port: int, unreadable: str, proc: str) -> str:
    """Why a port that nobody listens on cannot be counted."""
    if udp_among([port], proc):
        return UDP
    if unreadable:
        return "nobody listens on it, and only root can tell whether it is forwarded elsewhere"
    return "nobody listens on it, and no connection to it is forwarded elsewhere"


def udp_among(ports: Iterable[int], proc: str = "/proc") -> list[int]:
    """Those of these ports on which somebody waits for UDP. The kernel does not tell of its clients."""
    lines = (line.split() for name in ("udp", "udp6") for line in read(proc, "net", name).splitlines()[1:])
    return sorted({int(fields[1].rpartition(":")[2], 16) for fields in lines if len(fields) > 1}.intersection(ports))


def by_peer(connections: Iterable[tuple[int, str, int]], told_apart: Iterable[str] = ()) -> list[dict[str, Any]]:
    """A sorted list of {port, peer, count}. C(told_apart): the peers of which C(peer_ports) tells the ports, too."""
    ports: dict[tuple[int, str], list[int]] = {}
    for port, peer, peer_port in connections:
        ports.setdefault((port, peer), []).append(peer_port)
    apart = set(told_apart)
    return [
        dict({"port": port, "peer": peer, "count": len(ports[port, peer])}, **({"peer_ports": sorted(ports[port, peer])} if peer in apart else {}))
        for port, peer in sorted(ports)
    ]
