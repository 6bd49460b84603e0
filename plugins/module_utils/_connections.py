# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.
# Do not use this from other collections or standalone plugins/modules!

"""Counts the TCP connections of this machine that may still be in use, by local port and peer.

A half-closed connection counts, too: the client has sent its request, closed its side, and waits for the answer.

The connections are read from the kernel's tables. This needs neither a tool nor a special right. The tables are those of the network namespace in
which the reader runs.
"""

from __future__ import annotations

import ipaddress
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from ipaddress import IPv4Address, IPv6Address
    from typing import Any

# If the kernel runs without IPv6, the second table is missing. That is no mistake.
TABLE_V4 = "/proc/net/tcp"
TABLE_V6 = "/proc/net/tcp6"

# ESTABLISHED and CLOSE_WAIT.
_SERVED = ("01", "08")


class ConnectionsError(Exception):
    """A table cannot be read or understood, or a text is not an address. The message is a whole sentence."""


def parse_address(address: int | str | IPv4Address | IPv6Address) -> str:
    """The address in the form in which addresses are compared: an IPv4-mapped IPv6 address becomes an IPv4 address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        raise ConnectionsError("%r is not an IPv4 or IPv6 address" % (address,)) from None
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def decode_endpoint(text: str) -> tuple[str, int]:
    """The address and the port in a column of the kernel's tables."""
    digits, port = text.split(":")
    # The kernel prints an address as 32-bit words. Each has the byte order of the machine.
    words = [int(digits[start : start + 8], 16) for start in range(0, len(digits), 8)]
    return parse_address(ipaddress.ip_address(struct.pack("=%dI" % len(words), *words))), int(port, 16)


def parse_table(text: str, ports: set[int]) -> list[tuple[int, str]]:
    """The established and half-closed connections to the given local ports: a list with one (port, peer) for each connection."""
    found = []
    # The first line is the heading.
    for line in text.splitlines()[1:]:
        try:
            local, remote, state = line.split()[1:4]
            port = int(local.rsplit(":", 1)[1], 16)
            if state in _SERVED and port in ports:
                found.append((port, decode_endpoint(remote)[0]))
        except (ValueError, IndexError, struct.error):
            raise ConnectionsError("The kernel's table of TCP connections has a line that cannot be understood: %r" % (line,)) from None
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
        if not 1 <= port <= 65535:
            raise ValueError("ports: %d is not a TCP port, which goes from 1 to 65535" % port)


def established(ports: Iterable[int], table_v4: str = TABLE_V4, table_v6: str = TABLE_V6) -> list[dict[str, Any]]:
    """The established and half-closed connections to the local C(ports): a sorted list of {port, peer, count}."""
    wanted = set(ports)
    counts: dict[tuple[int, str], int] = {}
    for path, optional in ((table_v4, False), (table_v6, True)):
        for connection in parse_table(read_table(path, optional), wanted):
            counts[connection] = counts.get(connection, 0) + 1
    return [{"port": port, "peer": peer, "count": counts[port, peer]} for port, peer in sorted(counts)]
