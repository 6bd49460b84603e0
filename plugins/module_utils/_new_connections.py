# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether new TCP connections come to this machine, by local port.

The kernel does not count them for each port. So its tables are read again and again, and what was not there before is a new connection, in whatever
state. A connection that this machine closes first stays in the tables for a minute, so it is never missed. Its peer may connect from the same port again
meanwhile: then it is open again, or was closed later. Connections that are forwarded elsewhere stay in the kernel's connection tracking for two minutes,
whoever closes them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils import _connection_tracking
from ansible_collections.graceful.azure.plugins.module_utils._connection_tracking import TrackingError
from ansible_collections.graceful.azure.plugins.module_utils._connections import LISTENING, TABLES, decode_endpoint, each_row, read_table
from ansible_collections.graceful.azure.plugins.module_utils._proc import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Optional

    # The local port, the peer's address and port, and the local address.
    Connection = tuple[int, str, int, str]
    # Connections, and when each was closed; None if it was not.
    Found = Mapping[Connection, Optional[float]]

TIME_WAIT = "06"
# For how long the kernel keeps a closed connection, and in which units it counts down.
TIME_WAIT_SECONDS = 60.0
TICKS = 100.0
# By how many seconds two readings may differ about when a connection was closed: a long table takes its time.
SAME_SECONDS = 0.4
# Seconds between two readings of the connection tracking. It may be long, and forgets nothing so soon.
TRACKING_SECONDS = 0.5
# For how long it keeps a closed connection, unless the sysctl of this name says otherwise.
TRACKED_SECONDS = 120.0
TRACKED_SYSCTL = "sys/net/netfilter/nf_conntrack_tcp_timeout_time_wait"


def parse(text: str, ports: set[int], now: float) -> dict[Connection, float | None]:
    """Each connection to the local ports, and for those in TIME_WAIT when they were closed."""
    found: dict[Connection, float | None] = {}

    def take(port: int, local: str, remote: str, state: str, _queues: str, timer: str) -> None:
        if state == LISTENING:
            return
        connection = (port, *decode_endpoint(remote), local)
        left = int(timer.rsplit(":", 1)[1], 16) / TICKS
        found[connection] = now - max(0.0, TIME_WAIT_SECONDS - left) if state == TIME_WAIT else None

    each_row(text, ports, take)
    return found


class NewConnections:
    """Those that have come since this was made. ``known``: those that were there. ``last``: when the last of them may have come."""

    def __init__(self, known: Found, last: float, began: float) -> None:
        self._known = known
        self._last = last
        self.began = self.at = began
        # How many have come, by local port.
        self.new: dict[int, int] = {}
        # Whom the last one came from, by local port.
        self.peers: dict[int, str] = {}

    def take(self, found: Found, at: float) -> None:
        """Note what was there at this moment."""
        for connection, closed in found.items():
            if self._is_known(connection, closed):
                continue
            self.new[connection[0]] = self.new.get(connection[0], 0) + 1
            self.peers[connection[0]] = connection[1]
            self._last = at
        # One that has gone may come again.
        self._known = found
        self.at = at

    def _is_known(self, connection: Connection, closed: float | None) -> bool:
        if connection not in self._known:
            return False
        before = self._known[connection]
        return before is None or closed is not None and closed <= before + SAME_SECONDS

    @property
    def quiet_for(self) -> float:
        """Seconds without a new connection that this has seen."""
        return max(0.0, self.at - max(self._last, self.began))


class Arrivals(NewConnections):
    """The new connections to this machine. ``ignored``: addresses whose connections do not count."""

    def __init__(self, ports: Iterable[int], ignored: Iterable[str], monotonic: Callable[[], float]) -> None:
        self._ports = set(ports)
        self._ignored = set(ignored)
        self._monotonic = monotonic
        self._forwarded: dict[Connection, float | None] = {}
        self._tracked_at: float | None = None
        known, began = self.read()
        # One that was closed a moment ago may have come a moment ago.
        super().__init__(known, max((closed for closed in known.values() if closed is not None), default=began - TIME_WAIT_SECONDS), began)

    def read(self) -> tuple[Found, float]:
        """The connections that are there now, and the time. ``see`` takes them."""
        found: dict[Connection, float | None] = {}
        for name, optional in TABLES:
            text = read_table(os.path.join("/proc/net", name), optional)
            found.update(parse(text, self._ports, self._monotonic()))
        found.update(self._track())
        return {connection: closed for connection, closed in found.items() if connection[1] not in self._ignored}, self._monotonic()

    def see(self, read: tuple[Found, float] | None = None, but: tuple[str, int] | None = None) -> None:
        """Read the tables once more, or take what was read. ``but``: the address and port of a peer whose connections do not count."""
        found, at = read or self.read()
        self.take({connection: closed for connection, closed in found.items() if connection[1:3] != but}, at)

    @property
    def closed_ago(self) -> float:
        """Seconds since a connection was closed before this began, at most a minute."""
        return max(0.0, self.at - self._last)

    def _track(self) -> Found:
        """The connections that are forwarded elsewhere. Who counts the open ones says it if they cannot be read."""
        now = self._monotonic()
        if self._tracked_at is None or now - self._tracked_at >= TRACKING_SECONDS:
            self._tracked_at = now
            try:
                seen = _connection_tracking.forwarded(self._ports)
            except TrackingError:
                seen = []
            kept = float(read("/proc", TRACKED_SYSCTL).strip() or TRACKED_SECONDS) if seen else TRACKED_SECONDS
            before = self._forwarded
            self._forwarded = {}
            for each in seen:
                connection = each.port, each.peer, each.peer_port, each.address
                closed = now - max(0.0, kept - each.left) if each.state == _connection_tracking.TIME_WAIT else None
                told = before.get(connection)
                # The kernel tells whole seconds.
                is_same = closed is not None and told is not None and closed <= told + 1.0 + SAME_SECONDS
                self._forwarded[connection] = told if is_same else closed
        return self._forwarded
