# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.
# Do not use this from other collections or standalone plugins/modules!

"""Traffic of HAProxy that reaches hosts past their servers: C(dispatch), C(option transparent), servers that take their address from the request, and Lua.

No state of a server stops it, and no counter tells it. What the configuration says is told before an event, and the connections are read from the kernel.
"""

from __future__ import annotations

import collections
import re
import socket
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._connections import ConnectionsError, parse_address
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_configuration import destinations
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_former_processes import answering_processes, own_connections
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_servers import READY, parse_places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._haproxy_former_processes import Endpoint
    from ansible_collections.graceful.azure.plugins.module_utils._haproxy_servers import HaproxyState

# The address of a server that has none of its own.
ANYWHERE = ("0.0.0.0", "::")
OF_REQUEST = "it takes the address from the request"


def passes(seen: HaproxyState, getaddrinfo: Callable[..., Any] = socket.getaddrinfo) -> tuple[list[dict[str, Any]], bool]:
    """What sends requests past the servers that lead to one address, and whether anything may do so that is not told, such as Lua.

    Each has its C(backend), its C(text), and the places that it C(leads_to), or why these are not known (C(unresolved)).
    """
    found = [
        _pass(server.backend, "server %s" % server.name, OF_REQUEST)
        for server in seen.servers.values()
        if server.address in ANYWHERE and server.admin_state == READY
    ]
    told = [destinations(pid) for pid in seen.pids]
    for backend, address in dict.fromkeys(each for one in told for each in one.dispatches):
        found.append(_dispatch(backend, address, getaddrinfo))
    served = set(seen.backends_with_servers)
    # With servers, HAProxy takes these.
    without = sorted({name for one in told for name in one.transparent} & set(seen.backends) - served)
    found.extend(_pass(backend, "option transparent", OF_REQUEST) for backend in without)
    return found, bool(found) or any(one.lua for one in told)


def _pass(backend: str, text: str, unresolved: str | None, leads_to: Iterable[Endpoint] = ()) -> dict[str, Any]:
    places = [{"address": address, "port": port} for address, port in sorted(leads_to)]
    return {"backend": backend, "text": text, "leads_to": places, "unresolved": unresolved}


def _dispatch(backend: str, text: str, getaddrinfo: Callable[..., Any]) -> dict[str, Any]:
    directive = "dispatch " + text
    host, _colon, port = re.sub(r"\Aipv[46]@", "", text).rpartition(":")
    if "$" in text or not port.isdigit():
        return _pass(backend, directive, "its address cannot be read")
    if host in ("", "*", *ANYWHERE):
        return _pass(backend, directive, OF_REQUEST)
    try:
        found = getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        return _pass(backend, directive, None, {(parse_address(at[0].partition("%")[0]), int(port)) for _family, _type, _proto, _name, at in found})
    except (OSError, OverflowError, ConnectionsError) as error:
        return _pass(backend, directive, "%s does not resolve (%s)" % (host, getattr(error, "strerror", None) or error))


def with_own_connections(seen: dict[str, Any], addresses: Iterable[str], ask: Callable[[], HaproxyState]) -> dict[str, Any]:
    """The same look, and with it the connections of HAProxy itself.

    C(own_ports): for each server that is out, from which ports HAProxy is connected to it. If there is traffic past the servers (C(strays)), also how many
    connections are of no server: to the place of each server that is out (C(beside)), and to these addresses elsewhere. None if nobody can tell.

    C(ask): asks HAProxy for its state once more. A connection that was there before and after is one that it counts, or is none of a server.
    """
    out = [server for server in seen["servers"] if server["admin_state"] != READY and server["address"]]
    pid = seen["process"]["pid"]
    own = own_connections(answering_processes(pid, None)) if out or seen["strays"] else None
    for server in seen["servers"]:
        server["own_ports"] = None if own is None or server not in out else {}
        server["beside"] = 0
    for server in out:
        for (address, port), (to_address, to_port) in own or ():
            if to_address == server["address"] and server["port"] in (None, to_port):
                server["own_ports"].setdefault(address, []).append(port)
    seen["beside"] = {}
    if not seen["strays"]:
        return seen
    state = ask() if own else None
    still = set(own_connections(answering_processes(pid, None)) or ()) if own else set()
    extra = _of_no_server(state, [connection for connection in own or () if connection in still]) if state else collections.Counter()
    for server in out:
        server["beside"] = None if own is None else sum(n for at, n in extra.items() if at[0] == server["address"] and server["port"] in (None, at[1]))
    led = {(server.address, server.port) for server in state.servers.values()} if state else set()
    for text in addresses:
        ((wanted, at_port),) = parse_places([text])
        elsewhere = {at: n for at, n in extra.items() if at not in led and (at[0], None) not in led}
        seen["beside"][text] = sum(n for at, n in elsewhere.items() if at[0] == wanted and at_port in (None, at[1]))
    return seen


def _of_no_server(state: HaproxyState, connections: list[tuple[Endpoint, Endpoint]]) -> collections.Counter[Endpoint]:
    """How many connections go to each place beyond those that HAProxy counts at its servers there, and beyond checks that are under way."""
    found: collections.Counter[Endpoint] = collections.Counter(remote for _local, remote in connections)
    for address, port in list(found):
        there = [server for server in state.servers.values() if server.address == address]
        counted = sum(server.connections or 0 for server in there if server.port in (None, port))
        asked = sum(server.check_asked + server.agent_asked for server in state.servers.values() if address in server.asked_at)
        found[address, port] = max(0, found[address, port] - counted - asked)
    return +found
