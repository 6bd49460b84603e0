# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The connections of a Windows host and its own addresses, as a look tells them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from ansible_collections.graceful.azure.plugins.module_utils._addresses import not_local
from ansible_collections.graceful.azure.plugins.module_utils._connections import UDP, ConnectionsError, Counted, by_peer, parse_address
from ansible_collections.graceful.azure.plugins.module_utils._new_connections import NewConnections
from ansible_collections.graceful.azure.plugins.module_utils._spellings import leads_back
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows import Windows
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json

Part = tuple[int, str, int, str]
"""A local port, a peer, its port, and the state of the connection."""
LOOK_SECONDS = 1.0
"""Seconds between two looks while something is waited for: each starts a module on the host."""
WATCH_SECONDS = 0.8
"""Seconds for which one call watches for new connections. A connection that came and went between two calls leaves its trace, unless the client ended it."""
SERVED = ("established", "closewait", "synreceived", "finwait1", "closing", "lastack", "5", "8", "4", "6", "9", "10")
"""The states of connections that are served still, by their names and numbers. In the last three, the host has closed, and what it sent last is yet to
be acknowledged."""
ENDED = ("timewait", "11")
LONG_AGO = 60.0


def _parts(line: str) -> Part:
    """What a line of a sample tells. An address of a link has its interface behind it."""
    try:
        port, peer, peer_port, state = line.split()
        return int(port), parse_address(peer.partition("%")[0]), int(peer_port), state.lower()
    except (ValueError, ConnectionsError):
        raise ConnectionsError(f"The host told a connection that cannot be understood: {line!r}") from None


def _found(parts: Iterable[Part]) -> dict[tuple[int, str, int, str], float | None]:
    """The same for C(NewConnections). Windows tells neither when a connection was closed nor, here, its local address."""
    return {(port, peer, peer_port, ""): 0.0 if state in ENDED else None for port, peer, peer_port, state in parts}


def connections_in(lines: Iterable[str], ports: Collection[int], told_apart: Iterable[str] = ()) -> list[Json]:
    """The connections to local ports that may still be in use, as C(by_peer) tells them."""
    found = map(_parts, lines)
    return by_peer(((port, peer, peer_port) for port, peer, peer_port, state in found if port in ports and state in SERVED), told_apart)


def counted(windows: Windows, ports: Collection[int], told_apart: Iterable[str] = ()) -> Counted:
    """The connections of this moment, and the ports that cannot be counted. Each call looks anew.

    What WinNAT forwards, as to a container, has no listener, so such a port cannot be counted. For C(netsh interface portproxy), a service of the host
    listens.
    """
    if not ports:
        return Counted([], [])
    windows.want(ports=ports)
    seen = windows.look(once="connections")
    if not seen.samples:
        raise ConnectionsError("look.ps1 told nothing about connections")
    uncounted = [{"port": port, "why": UDP if port in seen.udp else "nobody listens on it", "unheard": True} for port in sorted(set(ports) - seen.listening)]
    return Counted(connections_in(seen.samples[-1].lines, set(ports), told_apart), uncounted)


def own_addresses(texts: Iterable[str]) -> list[str]:
    """The sorted addresses of the host, without loopback and link-local ones. An address of a link has its interface behind it."""
    return not_local(text.partition("%")[0] for text in texts)


class WindowsArrivals(NewConnections):
    """The new connections to the host, in place of C(Arrivals), which reads the tables of Linux."""

    def __init__(self, windows: Windows, ports: Collection[int], ignored: Iterable[str], monotonic: Callable[[], float]) -> None:
        self._windows, self._ports, self._monotonic = windows, set(ports), monotonic
        windows.want(ports=ports)
        # What the host asks itself is no request of a user's.
        self._ignored = {*ignored, *own_addresses(windows.look().addresses)}
        began = monotonic()
        first, *later = (self._samples(0.0) if ports else []) or [[]]
        self._ended_before = any(state in ENDED for *_connection, state in first)
        super().__init__(_found(first), began, began)
        self._take(later)

    def see(self) -> None:
        """Watch for a moment."""
        self._take(self._samples(WATCH_SECONDS) if self._ports else [])

    def _take(self, samples: Iterable[Sequence[Part]]) -> None:
        for sample in samples:
            self.take(_found(sample), self._monotonic())
        self.at = self._monotonic()

    def _samples(self, seconds: float) -> list[list[Part]]:
        """Those of one call, without the connections that do not count."""
        samples = self._windows.look(once="arrivals", watch=seconds).samples
        ignored, ports = self._ignored, self._ports
        return [[part for part in map(_parts, sample.lines) if part[0] in ports and part[1] not in ignored and not leads_back(part[1])] for sample in samples]

    @property
    def closed_ago(self) -> float:
        """Windows does not tell when a connection was closed. If there are any, one may have been closed just before this began."""
        return self.quiet_for if self._ended_before else LONG_AGO
