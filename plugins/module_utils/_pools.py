# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which connections are a balancer's own, and no client's. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


class Pool(NamedTuple):
    """Connections of a balancer that are no requests of clients: the balancer itself says what is under way."""

    address: str  # from where they come
    # The ports from which they come, if these are known. Otherwise at most so many are the balancer's; with None all of them.
    ports: list[int] | None = None
    at_most: int | None = None
    # The port of this host to which they go, if that is known: others may go to other ports, also from the same port.
    to_port: int | None = None


def not_in_pools(connections: Iterable[dict[str, Any]], pools: Iterable[Pool]) -> list[dict[str, Any]]:
    """The connections that belong to none of these pools: each with the `count` of those."""
    connections = list(connections)
    # Per peer: to which ports a connection from each of its ports may go.
    ports: dict[str, dict[int, set[int | None]]] = {}
    left: dict[tuple[str, int | None], float] = {}
    for pool in pools:
        if pool.ports is not None:
            for port in pool.ports:
                ports.setdefault(pool.address, {}).setdefault(port, set()).add(pool.to_port)
        else:
            key = pool.address, pool.to_port
            left[key] = left.get(key, 0) + (math.inf if pool.at_most is None else pool.at_most)
    # What is found where it goes is nowhere else. Where the port is translated on the way, it goes to another one.
    there = {
        (connection["peer"], port)
        for connection in connections
        for port in connection.get("peer_ports", ())
        if connection["port"] in ports.get(connection["peer"], {}).get(port, ())
    }
    found = []
    for connection in connections:
        peer, count = connection["peer"], connection["count"]
        known = {port for port, to in ports.get(peer, {}).items() if {connection["port"], None} & to or (peer, port) not in there}
        # If nobody has told from which ports they come, as many may be the balancer's as it has.
        count -= len(known & set(connection["peer_ports"])) if "peer_ports" in connection else min(count, len(known))
        for key in ((peer, connection["port"]), (peer, None)):
            taken = min(count, left.get(key, 0))
            left[key] = left.get(key, 0) - taken
            count -= taken
        if count > 0:
            found.append(dict(connection, count=count))
    return found
