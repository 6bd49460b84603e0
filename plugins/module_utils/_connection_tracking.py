# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The TCP connections that the kernel forwards elsewhere, as those to a container with a published port. They are in none of the tables of sockets.

They are read from the kernel's connection tracking by netlink, which needs no tool, but CAP_NET_ADMIN. Where that is missing, the file
/proc/net/nf_conntrack is read, which needs root and is left out of many kernels. What is forwarded without connection tracking, such as by eBPF, nobody
sees here.
"""

from __future__ import annotations

import functools
import glob
import ipaddress
import os
import re
import socket
import struct
import sys
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.graceful.azure.plugins.module_utils._addresses import local_addresses
from ansible_collections.graceful.azure.plugins.module_utils._netlink import NetlinkError, attributes, dump
from ansible_collections.graceful.azure.plugins.module_utils._proc import read
from ansible_collections.graceful.azure.plugins.module_utils._spellings import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    # The name of an interface, an address, and the mask that says which other addresses have the same way.
    Route = tuple[str, int, int]

# From <linux/netlink.h> and <linux/netfilter/nfnetlink.h>.
NETLINK_NETFILTER = 12
FAMILY = "=BBH"  # struct nfgenmsg: family, version, resource
GET = 1 << 8 | 1  # NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_GET
# From <linux/netfilter/nfnetlink_conntrack.h>.
TUPLE_ORIG, TUPLE_REPLY, PROTOINFO, TIMEOUT = 1, 2, 4, 7
TUPLE_IP, TUPLE_PROTO = 1, 2
V4_SRC, V4_DST, V6_SRC, V6_DST = 1, 2, 3, 4
PROTO_NUM, SRC_PORT, DST_PORT = 1, 2, 3
PROTOINFO_TCP, TCP_STATE = 1, 1
# From <linux/netfilter/nf_conntrack_tcp.h>. From SYN_RECV to LAST_ACK, either side may still have something to say.
STATES = ("NONE", "SYN_SENT", "SYN_RECV", "ESTABLISHED", "FIN_WAIT", "CLOSE_WAIT", "LAST_ACK", "TIME_WAIT", "CLOSE", "SYN_SENT2")
OPEN = range(2, 7)
ESTABLISHED, TIME_WAIT = 3, 7
ENDS = r"src=(\S+) dst=(\S+) sport=(\d+) dport=(\d+) (?:packets=\d+ bytes=\d+ )?"
# Modules of the kernel that are loaded once a rule leads connections elsewhere, be it to another port of this machine.
REDIRECTING = re.compile(r"^(xt_REDIRECT|ipt_REDIRECT|ip6t_REDIRECT|nft_redir\w*|xt_nat|nft_nat) ", re.MULTILINE)
# From <linux/ipv6_route.h>: of a route that refuses packets, or leads to this machine.
NOWHERE = 0x00000200 | 0x00100000 | 0x80000000
LINE = re.compile(r"^ipv[46]\s+\d+\s+tcp\s+6 (?:(\d+) )?(?:([A-Z_0-9]+) )?%s(?:\[UNREPLIED\] )?%s" % (ENDS, ENDS), re.MULTILINE)


class TrackingError(Exception):
    """The connection tracking cannot be read. The message says why, as a phrase."""


class Forwarded(NamedTuple):
    port: int  # to which the client has connected
    peer: str
    peer_port: int
    state: int
    left: int  # seconds after which the kernel forgets it if nothing more is sent
    address: str  # to which the client has connected

    @property
    def is_open(self) -> bool:
        return self.state in OPEN


class Direction(NamedTuple):
    """One direction of a connection."""

    source: bytes
    destination: bytes
    source_port: int
    port: int


class TrackedConnection(NamedTuple):
    """One connection as the client has begun it, and as its answers come."""

    sent: Direction
    answer: Direction
    state: int
    left: int


def tracks(proc: str = "/proc") -> bool:
    """Whether the kernel tracks any connection in this network. If it does not, it forwards none by rules."""
    return read(proc, "sys/net/netfilter/nf_conntrack_count").strip() not in ("", "0")


def forwards(proc: str = "/proc") -> bool:
    """Whether the kernel may lead connections elsewhere: it passes packets on from one interface to another, or has what a rule such as REDIRECT needs."""
    if REDIRECTING.search(read(proc, "modules")):
        return True
    return any(read(path).strip() not in ("", "0") for path in glob.glob(os.path.join(proc, "sys/net/ipv[46]/conf/*/forwarding")))


def untracked(proc: str = "/proc") -> set[int]:
    """The ports that IPVS forwards without telling the connection tracking."""
    if read(proc, "sys/net/ipv4/vs/conntrack").strip() == "1":
        return set()
    return {int(port, 16) for port in re.findall(r"^TCP\s+\S+:([0-9A-F]{4})\s", read(proc, "net/ip_vs"), re.MULTILINE)}


def forwarded(ports: Iterable[int], proc: str = "/proc") -> list[Forwarded]:
    """The connections to these ports that go elsewhere: to another address, or to another port. Raises TrackingError."""
    wanted = set(ports)
    if not (wanted and tracks(proc)):
        return []
    own = {ipaddress.ip_address(address).packed for address in local_addresses(proc)}
    try:
        entries = list(_told(_dump(), wanted))
    except TrackingError:
        # In a container, root may lack the right for netlink. Some kernels have the file.
        text = read(proc, "net/nf_conntrack")
        if not text:
            raise
        entries = list(_written(text))
    return list(_elsewhere(entries, wanted, own, functools.lru_cache(maxsize=None)(lambda source: _is_inside(source, proc))))


def _elsewhere(entries: Iterable[TrackedConnection], ports: set[int], own: set[bytes], is_inside: Callable[[bytes], bool]) -> Iterator[Forwarded]:
    """Those of the connections to these ports that are forwarded. C(own): the addresses of this machine. C(is_inside): of an address, whether it is
    that of a container or pod of this machine.
    """
    for sent, answer, state, left in entries:
        if sent.port not in ports or (answer.source, answer.source_port) == (sent.destination, sent.port):
            continue  # nobody has changed where it goes: if it comes to this machine, the tables of sockets have it
        if sent.source in own and sent.destination not in own:
            continue  # this machine is the client
        if sent.destination not in own and is_inside(sent.source):
            continue  # so is a pod, such as one that is connected to the address of a service of its cluster
        source, destination = (canonical(ipaddress.ip_address(each)) for each in (sent.source, sent.destination))
        yield Forwarded(sent.port, source, sent.source_port, state, left, destination)


def _is_inside(source: bytes, proc: str) -> bool:
    """Whether packets to an address go to an interface that is no device, and leads nowhere else: a bridge or a veth."""
    routes = list(_routes_ipv4(proc) if len(source) == 4 else _routes_ipv6(proc))
    address = int.from_bytes(source, sys.byteorder if len(source) == 4 else "big")
    found = [(bin(mask).count("1"), name) for name, network, mask in routes if address & mask == network]
    if not found:
        return False
    name = max(found)[1]
    is_virtual = os.path.realpath(os.path.join("/sys/class/net", name)).startswith("/sys/devices/virtual/")
    return is_virtual and all(other != name for other, _network, mask in routes if not mask)


def _routes_ipv4(proc: str) -> Iterator[Route]:
    lines = [line.split() for line in read(proc, "net", "route").splitlines()[1:]]
    return ((fields[0], int(fields[1], 16), int(fields[7], 16)) for fields in lines if len(fields) > 7)


def _routes_ipv6(proc: str) -> Iterator[Route]:
    for fields in (line.split() for line in read(proc, "net", "ipv6_route").splitlines()):
        if len(fields) > 9 and not int(fields[8], 16) & NOWHERE:
            length = int(fields[1], 16)
            yield fields[9], int(fields[0], 16), (1 << length) - 1 << 128 - length


def _written(text: str) -> Iterator[TrackedConnection]:
    """The entries in the file of the connection tracking. One whose state is not told is in use."""
    for found in LINE.finditer(text):
        left, state, *ends = found.groups()
        sent, answer = _end(*ends[:4]), _end(*ends[4:])
        yield TrackedConnection(sent, answer, STATES.index(state) if state in STATES else ESTABLISHED, int(left or 0))


def _end(source: str, destination: str, source_port: str, port: str) -> Direction:
    return Direction(ipaddress.ip_address(source).packed, ipaddress.ip_address(destination).packed, int(source_port), int(port))


def _told(messages: Iterable[bytes], ports: set[int]) -> Iterator[TrackedConnection]:
    """The entries in messages of netlink, as far as they have one of the ports.

    Of a connection that it forwards by a short cut (a flowtable of nftables), the kernel tells neither time nor state, here and in the file.
    """
    # There may be a hundred thousand. Most have none of the ports, and need not be taken apart.
    marks = [struct.pack("=HH", 6, DST_PORT) + struct.pack("!H", port) for port in ports]
    for message in messages:
        if not any(mark in message for mark in marks):
            continue
        found = attributes(message)
        sent, answer = _tuple(found.get(TUPLE_ORIG)), _tuple(found.get(TUPLE_REPLY))
        if sent and answer:
            state = attributes(attributes(found.get(PROTOINFO, b"")).get(PROTOINFO_TCP, b"")).get(TCP_STATE)
            yield TrackedConnection(sent, answer, state[0] if state else ESTABLISHED, int.from_bytes(found.get(TIMEOUT, b""), "big"))


def _tuple(data: bytes | None) -> Direction | None:
    """One direction of a TCP connection; None for another protocol."""
    parts = attributes(data or b"")
    addresses, ports = attributes(parts.get(TUPLE_IP, b"")), attributes(parts.get(TUPLE_PROTO, b""))
    if ports.get(PROTO_NUM) != bytes([socket.IPPROTO_TCP]):
        return None
    source, destination = (addresses.get(v4, addresses.get(v6, b"")) for v4, v6 in ((V4_SRC, V6_SRC), (V4_DST, V6_DST)))
    return Direction(source, destination, *(int.from_bytes(ports.get(name, b""), "big") for name in (SRC_PORT, DST_PORT)))


def _dump() -> Iterator[bytes]:
    """The attributes of each entry of the connection tracking."""
    try:
        for entry in dump(NETLINK_NETFILTER, GET, struct.pack(FAMILY, socket.AF_UNSPEC, 0, 0)):
            yield entry[struct.calcsize(FAMILY) :]
    except NetlinkError as error:
        raise TrackingError(str(error)) from error
