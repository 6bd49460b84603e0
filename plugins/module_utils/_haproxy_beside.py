# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Traffic of HAProxy that reaches hosts past their servers: C(dispatch), C(option transparent), servers that take their address from the request, and Lua.

No state of a server stops it, and no counter tells it. What the configuration says is told before an event, and HAProxy tells where its requests go.
"""

from __future__ import annotations

import collections
import re
import socket
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._conditions import READY
from ansible_collections.graceful.azure.plugins.module_utils._connections import ConnectionsError, parse_address
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_configuration import destinations
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_former_processes import answering_processes, own_connections
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_servers import HaproxyError, number
from ansible_collections.graceful.azure.plugins.module_utils._spellings import parse_places, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._haproxy import Haproxy
    from ansible_collections.graceful.azure.plugins.module_utils._haproxy_servers import HaproxyState
    from ansible_collections.graceful.azure.plugins.module_utils._spellings import Endpoint, Searched

# The address of a server that has none of its own.
ANYWHERE = ("0.0.0.0", "::")
OF_REQUEST = "it takes the address from the request"
OF_CODE = "its code may open connections, which no counter of HAProxy tells"


def passes(seen: HaproxyState, getaddrinfo: Callable[..., Any] = socket.getaddrinfo) -> list[dict[str, Any]]:
    """What sends requests past the servers that lead to one address.

    Each has its C(backend), its C(text), and the places that it C(leads_to), or why these are not known (C(unresolved)). C(total): how many requests have
    gone that way. Without it, nobody tells that.
    """
    found = [
        dict(_pass(server.backend, "server %s" % server.name, OF_REQUEST), total=server.total_sessions)
        for server in seen.servers.values()
        if server.address in ANYWHERE and server.in_rotation
    ]
    told = [destinations(pid, seen.backends) for pid in seen.pids]
    others = [_dispatch(backend, address, getaddrinfo) for backend, address in dict.fromkeys(each for one in told for each in one.dispatches)]
    served = set(seen.backends_with_servers)
    # With servers, HAProxy takes these.
    without = sorted({name for one in told for name in one.transparent} & set(seen.backends) - served)
    others.extend(_pass(backend, "option transparent", OF_REQUEST) for backend in without)
    found.extend(dict(other, total=number(seen.backends.get(other["backend"], {}).get("stot"))) for other in others)
    found.extend(_pass("global", text, OF_CODE) for text in dict.fromkeys(each for one in told for each in one.lua))
    return found


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
    except (OSError, OverflowError, UnicodeError, ConnectionsError) as error:
        return _pass(backend, directive, "%s does not resolve (%s)" % (host, reason_of(error)))


def with_own_connections(seen: dict[str, Any], addresses: Iterable[str], haproxy: Haproxy) -> dict[str, Any]:
    """The same look, and with it the connections of HAProxy itself.

    C(own_ports): for each server that is out, from which ports HAProxy is connected to it. C(beside): how many requests go there that are of no server which
    leads there: past the servers, or of one that led there before its address was changed, by DNS or by somebody. If something sends requests past the servers
    (C(passes)), also how many go to these addresses elsewhere. None if HAProxy does not tell.
    """
    out = [server for server in seen["servers"] if server["admin_state"] != READY and server["address"]]
    own = own_connections(answering_processes(seen["process"]["pid"], None)) if out else None
    for server in seen["servers"]:
        server["own_ports"] = None
        server["beside"] = 0
    for server in out if own is not None else ():
        server["own_ports"] = {}
    for server in out:
        for (address, port), remote in own or ():
            if _leads((server["address"], server["port"]), remote):
                server["own_ports"].setdefault(address, []).append(port)
    searched = [place for text in addresses for place in parse_places([text])] if seen["passes"] else []
    seen["beside"] = {}
    if not out or not _may_be_more(seen["passes"], out, searched, own):
        return seen
    try:
        state, streams = haproxy.look_at_own(), haproxy.streams()
    except HaproxyError:
        for server in out:
            server["beside"] = None
        return seen
    leading = {key: (server.address, server.port) for key, server in state.servers.items()}
    strange: collections.Counter[Endpoint] = collections.Counter()
    for (key, at), requests in streams.items():
        strange[at] += 0 if _leads(leading.get(key), at) else requests
    for server in out:
        server["beside"] = sum(requests for at, requests in strange.items() if _leads((server["address"], server["port"]), at))
    elsewhere = {at: requests for at, requests in strange.items() if not any(_leads(place, at) for place in leading.values())}
    seen["beside"] = {text: sum(n for at, n in elsewhere.items() if _leads(place, at)) for text, place in zip(addresses, searched)}
    return seen


def _may_be_more(past: Sequence[dict[str, Any]], out: list[dict[str, Any]], searched: list[Searched], own: list[tuple[Endpoint, Endpoint]] | None) -> bool:
    """Whether it is worth to ask for all requests under way, which may be many. The kernel tells, if that may be asked."""
    if own is None:
        return bool(past)
    known = [place for place in searched if any(_leads(place, remote) for _local, remote in own)]
    return bool(known) or any(sum(map(len, server["own_ports"].values())) > (server["connections"] or 0) for server in out)


def _leads(place: tuple[str | None, int | None] | None, at: Endpoint) -> bool:
    """Whether a place is an endpoint. One without a port is all of its address."""
    return place is not None and place[0] == at[0] and place[1] in (None, at[1])
