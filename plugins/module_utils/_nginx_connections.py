# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Connections that the workers of nginx have to a server, also those of workers from before a reload.

nginx tells nothing about them, so they are read from the kernel. Only root and nginx's own user may see which process has which connection. For
others, each connection of this machine to the server's address counts, whoever has it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.graceful.azure.plugins.module_utils._connections import LISTENING, ConnectionsError, decode_endpoint
from ansible_collections.graceful.azure.plugins.module_utils._netlink import NetlinkError
from ansible_collections.graceful.azure.plugins.module_utils._proc import CONNECTED_UNIX, chosen_ports, namespace, read, socket_inodes, unix_sockets
from ansible_collections.graceful.azure.plugins.module_utils._sock_diag import answered

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ansible_collections.graceful.azure.plugins.module_utils._nginx import Worker
    from ansible_collections.graceful.azure.plugins.module_utils._sock_diag import Answered
    from ansible_collections.graceful.azure.plugins.module_utils._spellings import Destination, Endpoint

# ESTABLISHED, SYN_SENT, SYN_RECV and CLOSE_WAIT: nginx still has these open.
OPEN = ("01", "02", "03", "08")
ESTABLISHED = "01"
# FIN_WAIT1, FIN_WAIT2, LAST_ACK and CLOSING: nginx has closed its side, as with proxy_half_close, and may still read the answer.
HALF_CLOSED = ("04", "05", "09", "0B")
# What a process has closed altogether has no inode.
CLOSED = "0"
# One that still waits to be accepted.
WAITING_UNIX = "02"
LISTENING_UNIX = "01"
STREAM_UNIX = "0001"
# The kernel tells when something was sent and received to some milliseconds.
PASSED_ON_SECONDS = 0.01


class Connection(NamedTuple):
    inode: str
    local: Endpoint
    remote: Endpoint
    state: str


class UnixEnd(NamedTuple):
    inode: str
    path: str
    state: str
    type: str


class Connections:
    """The connections of one nginx at one moment. ``workers``: all of its workers."""

    def __init__(self, master: int, workers: Iterable[Worker], proc: str = "/proc") -> None:
        net = os.path.join(proc, str(master), "net")
        # The tables come first: what is closed after that does not count, because its process has no such file any more.
        self._tcp = ip_tables(net, "tcp")
        # nginx has a connected UDP socket for each client that it passes on.
        self._udp = ip_tables(net, "udp")
        self._unix = [UnixEnd(found[6], found[7], found[5], found[4]) for found in unix_sockets(master, proc) if len(found) == 8]
        self._workers = {worker.pid: socket_inodes(worker.pid, proc) for worker in workers}
        self._listening = socket_inodes(master, proc)
        networks = namespace(master, "net", proc), namespace("self", "net", proc)
        # What the kernel tells of all connections, once it was asked.
        self._answered: Answered | None = None
        self._is_elsewhere = None not in networks and networks[0] != networks[1]
        self._own_ports = chosen_ports(proc)
        self.known = self._listening is not None and None not in self._workers.values()

    def to(self, addresses: set[Destination]) -> int:
        """How many connections go to these addresses: pairs of an address and a port, or paths of Unix sockets."""
        paths = [address for address in addresses if isinstance(address, str)]
        ends = [end for end in self._unix if end.state in (CONNECTED_UNIX, WAITING_UNIX)] if paths else []
        found = sum(1 for end in ends if os.path.realpath(end.path) in paths)
        return found + sum(1 for connection in self._open(self._tcp + self._udp) if connection.remote in addresses)

    def own_ports(self, addresses: set[Destination]) -> dict[str, list[int]]:
        """From which ports the TCP connections to these addresses come, by the address from which they come."""
        found: dict[str, list[int]] = {}
        for connection in self._open(self._tcp):
            if connection.remote in addresses:
                found.setdefault(connection.local[0], []).append(connection.local[1])
        return found

    def unseen(self, path: str) -> int:
        """How many connections may go to a Unix socket on which nobody listens in this network: somebody in a container may, at the same file.

        Their ends are in the table of this network, by the path that the socket has in the container. So those that nobody here has accepted count.
        """
        listening = {end.path for end in self._unix if end.state == LISTENING_UNIX}
        if path in map(os.path.realpath, listening):
            return 0
        strange = (end.path for end in self._unix if end.state in (CONNECTED_UNIX, WAITING_UNIX) and end.type == STREAM_UNIX and end.path not in listening)
        return sum(1 for found in strange if os.path.realpath(found) != path)

    def beside(self, address: str, port: int | None, addresses: set[Destination]) -> int:
        """How many connections go to an address, on any port if there is none, and to none of these addresses. No line of an upstream leads there: a
        variable does, or code, or a name that has led there before. 0 if it is unknown whose connections there are.

        Without UDP: nginx keeps its sockets to name servers and for its logs for ever. Without what nginx has accepted: the host may be its client.
        """
        if not self.known:
            return 0
        accepting = self._accepting()
        there = (connection.remote for connection in self._open(self._tcp) if connection.local[1] not in accepting)
        return sum(1 for remote in there if remote[0] == address and port in (None, remote[1]) and remote not in addresses)

    def _open(self, table: Iterable[Connection]) -> Iterator[Connection]:
        """The open connections of a table that the workers have. Without the rights to see whose they are, all of this machine."""
        own = {inode for inodes in self._workers.values() for inode in inodes or ()} if self.known else None
        for connection in table:
            is_open = connection.state in OPEN or connection.state in HALF_CLOSED and connection.inode != CLOSED
            if is_open and (own is None or connection.inode in own):
                yield connection

    def pending(
        self,
        pid: int,
        several: bool = False,
        reused: Collection[Destination] | None = (),
        once: Collection[Destination] = (),
        counted: Collection[Destination] = (),
    ) -> int | None:
        """How many clients of a worker may still be sent to any server; None if that is unknown. Raises NetlinkError if only the kernel could tell.

        Such a client may have sent a part of a request. The worker chooses the server when it has all of it. Those are the clients beyond its connections
        to servers, and all of them if a client may have several of these (C(several)). Or its server has not answered yet: if that fails, or takes too
        long, the worker tries another one. So it may as long as it has passed nothing on to the client. Such a client may also be gone, and the worker
        reads on for itself, as with a cache. Then another client seems to have its server.

        C(reused): the servers to which a connection may have had requests before, None for all. C(once): those for which nothing is tried again once
        there is a connection, as in stream. C(counted): those to which every connection counts anyway.
        """
        listening, own = self._listening, self._workers[pid]
        if not self.known or listening is None or own is None:
            return None
        ports = self._accepting()
        mine = [connection for connection in self._tcp if connection.inode in own and connection.state in OPEN]
        to_servers = [connection for connection in mine if connection.local[1] not in ports and not self._is_of_former_port(connection.local[1])]
        # A connection that was accepted has the path of the socket that listens. Connections to servers have none.
        paths = {end.path for end in self._unix if end.state == LISTENING_UNIX and end.inode in listening}
        local = sum(1 for end in self._unix if end.state == CONNECTED_UNIX and end.path in paths and end.inode in own)
        clients = len(mine) - len(to_servers) + local
        if several:
            return clients
        others = (connection for connection in to_servers if connection.remote not in counted)
        again = [connection for connection in others if connection.state != ESTABLISHED or connection.remote not in once]
        done = [connection for connection in again if self._is_answered(connection, reused)]
        # Nobody tells when something was sent on a Unix socket.
        outward = {connection.inode for connection in to_servers}
        passed_on = min(len(done), self._passed_on(done, (connection for connection in mine if connection.inode not in outward)) + local) if done else 0
        return max(0, clients - len(to_servers)) + len(again) - passed_on

    def _is_answered(self, connection: Connection, reused: Collection[Destination] | None) -> bool:
        """Whether the answer of a server has begun. Otherwise nginx may send the request to another one."""
        is_reused = reused is None or connection.remote in reused
        told = self._told()
        return connection.inode in (told.last if is_reused else told.ever)

    def _passed_on(self, servers: Iterable[Connection], clients: Iterable[Connection]) -> int:
        """For how many of these servers there may be a client of its own to which the worker has passed on what came from the server.

        That is one to which the worker has sent something after its last request, or after the last thing that came from the server: who has a websocket
        may speak at any time.
        """
        told = self._told()
        got = [client.inode for client in clients if client.inode in told.sent]
        served = [inode for inode in got if told.sent[inode] > told.received.get(inode, 0.0)]
        received = sorted((told.received[server.inode] for server in servers), reverse=True)
        sent = sorted((told.sent[inode] for inode in got if inode not in served), reverse=True)
        found = 0
        for at in received:
            if found < len(sent) and sent[found] >= at - PASSED_ON_SECONDS:
                found += 1
        return found + len(served)

    def _told(self) -> Answered:
        """What the kernel tells of the connections of all workers."""
        if self._is_elsewhere:
            raise NetlinkError("nginx is in another network namespace")
        if self._answered is None:
            self._answered = answered(set().union(*(inodes or () for inodes in self._workers.values())))
        return self._answered

    def _accepting(self) -> set[int]:
        """The ports on which nginx accepts clients."""
        listening = self._listening or set()
        return {connection.local[1] for connection in self._tcp if connection.state == LISTENING and connection.inode in listening}

    def _is_of_former_port(self, port: int) -> bool:
        """Whether a connection on this port came from a client, although nothing listens on it any more: the reload may have closed the port."""
        return self._own_ports is not None and port not in self._own_ports


def listening(pid: int, proc: str = "/proc") -> set[tuple[str, int]] | None:
    """The ports on which a process listens, each with the network in which it does. None if that cannot be seen."""
    own, network, net = socket_inodes(pid, proc), namespace(pid, "net", proc), os.path.join(proc, str(pid), "net")
    if own is None:
        return None
    return {(network or "", socket.local[1]) for socket in ip_tables(net, "tcp") if socket.state == LISTENING and socket.inode in own}


def ip_tables(net: str, protocol: str) -> list[Connection]:
    """The sockets in the tables of TCP or UDP, over IPv4 and IPv6."""
    return ip_table(read(net, protocol)) + ip_table(read(net, protocol + "6"))


def ip_table(text: str) -> list[Connection]:
    found = []
    # The first line is the heading.
    for line in text.splitlines()[1:]:
        fields = line.split()
        try:
            found.append(Connection(fields[9], decode_endpoint(fields[1]), decode_endpoint(fields[2]), fields[3]))
        except (ValueError, IndexError):
            raise ConnectionsError("The kernel's table of connections has a line that cannot be understood: %r" % (line,)) from None
    return found
