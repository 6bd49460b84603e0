# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The machine's own IP addresses, read from the kernel's files without another program."""

from __future__ import annotations

import array
import fcntl
import hashlib
import ipaddress
import re
import socket
import struct
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._proc import namespace, read, read_boot_id

if TYPE_CHECKING:
    from collections.abc import Iterable

# The ioctl that lists the IPv4 addresses of all interfaces, from <linux/sockios.h>. The kernel's files do not say to which interface an address belongs.
SIOCGIFCONF = 0x8912
IFCONF = "iP"
# The size of struct ifreq: the name and a union, whose longest member is struct ifmap.
IFREQ_BYTES = 16 + (24 if struct.calcsize("P") == 8 else 16)
LIST_BYTES = 1 << 16

LOCAL = re.compile(r"\|-- (\S+)\n\s+/32 host LOCAL")


def own_addresses(proc: str = "/proc") -> list[str]:
    """The sorted addresses, without loopback and link-local ones. The list is empty if they cannot be read.

    The addresses of the loopback interface are left out, even those that a user has added. They need not belong to this machine alone: every VM behind
    an Azure Load Balancer with Floating IP has the frontend's address there.
    """
    found = set(LOCAL.findall(read(proc, "net", "fib_trie"))) - _on_loopback()
    # Each line ends with the name of the interface.
    found.update(_ipv6(line) for line in read(proc, "net", "if_inet6").splitlines() if line and line.split()[-1] != "lo")
    return not_local(found)


def local_addresses(proc: str = "/proc") -> set[str]:
    """Every address of this machine, those of its loopback interface too."""
    found = set(LOCAL.findall(read(proc, "net", "fib_trie")))
    found.update(_ipv6(line) for line in read(proc, "net", "if_inet6").splitlines() if line)
    return found


def _ipv6(line: str) -> str:
    """The address in a line of if_inet6, which begins with its 32 hexadecimal digits."""
    return ":".join(re.findall("....", line.split()[0]))


def not_local(texts: Iterable[str]) -> list[str]:
    """The sorted addresses among these texts, without loopback and link-local ones."""
    known = set()
    for text in texts:
        try:
            known.add(ipaddress.ip_address(text))
        except ValueError:
            continue
    return sorted(str(address) for address in known if not (address.is_loopback or address.is_link_local))


def _on_loopback() -> set[str]:
    """The IPv4 addresses of the loopback interface, whatever their labels. The set is empty if the kernel does not tell them."""
    answer = array.array("B", bytes(LIST_BYTES))
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            told = fcntl.ioctl(any_socket.fileno(), SIOCGIFCONF, struct.pack(IFCONF, LIST_BYTES, answer.buffer_info()[0]))
    except OSError:
        return set()
    length = struct.unpack(IFCONF, told)[0]
    entries = (answer[start : start + IFREQ_BYTES].tobytes() for start in range(0, length, IFREQ_BYTES))
    return {socket.inet_ntoa(entry[20:24]) for entry in entries if entry[:16].split(b"\0")[0].split(b":")[0] == b"lo"}


def network_of(proc: str = "/proc") -> str | None:
    """An id of this network namespace, or None if it cannot be found. Other machines, and other containers on this machine, have other ids."""
    boot, network = read_boot_id(proc), namespace("self", "net", proc)
    return hashlib.sha256((boot + network).encode()).hexdigest()[:16] if boot and network else None
