# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What both sides know of servers of HAProxy: the options of a duty, and the sentences about what keeps a host busy. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._conditions import DRAIN, MAINT, READY
from ansible_collections.graceful.azure.plugins.module_utils._duties.options import HOSTS, QUIET
from ansible_collections.graceful.azure.plugins.module_utils._spellings import in_rotation, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, TypeVar

    from ansible_collections.graceful.azure.plugins.module_utils._duties.options import Specs

    Line = TypeVar("Line", bound=Mapping[str, Any])

OPTIONS: Specs = {
    "hosts": HOSTS,
    "server": {"type": "str"},
    "socket": {"type": "path", "default": "/run/haproxy/admin.sock"},
    "backends": {"type": "list", "elements": "str"},
    "state": {"type": "str", "choices": [DRAIN, MAINT]},
    "quiet": QUIET,
    "hard_stop_after": {"type": "float"},
    "absent": {"type": "str", "choices": ["unknown", "no_traffic"], "default": "unknown"},
}


def is_in_rotation(server: Mapping[str, Any]) -> bool:
    """Whether a server that a look tells of gets requests, whatever its weight and its health."""
    return bool(server["admin_state"] == READY)


def is_meant(options: Mapping[str, Any], backend: str | None) -> bool:
    """Whether a backend is one of those that the options name, if they name any."""
    return not options.get("backends") or backend in options["backends"]


def meant_passes(options: Mapping[str, Any], passes: Iterable[Line]) -> list[Line]:
    """What sends requests past the servers, in the backends that the options name if they name any. What is global belongs to no backend."""
    return [line for line in passes if line["backend"] == "global" or is_meant(options, line["backend"])]


def pass_of(line: Mapping[str, Any]) -> str:
    """What people call something that sends requests past the servers."""
    return "%s in %s" % (line["text"], line["backend"])


def is_named(options: Mapping[str, Any], server: Mapping[str, Any]) -> bool:
    """Whether a server is the host's by its name."""
    return bool(server["server"] == options["server"]) and is_meant(options, server["backend"])


def haproxy_server(place: str, server: dict[str, Any], leads_to: str = "") -> tuple[str, ...]:
    """Which requests a server of HAProxy still has, or that this is unknown. ``leads_to``: the host's address, if the server has another name than the host."""
    if is_in_rotation(server):
        too = ", which leads to %s too," % leads_to if leads_to else ""
        return (in_rotation(place + too),)
    if server["sessions"] or server["queue"]:
        return ("%s, %d queued at %s" % (plural(server["sessions"], "session"), server["queue"], place),)
    if server.get("uncounted"):
        return ("%s: %s" % (place, server["uncounted"]),)
    # A journal of an older version does not have these.
    if server.get("shared"):
        beyond = "%s at %s, which leads to the same address and port as %s"
        return tuple(beyond % (plural(requests, "session"), other, place) for other, requests in server["shared"])
    beside = server["beside"]
    if beside is None:
        return ("HAProxy does not tell ('show sess all') which requests it has sent to where %s leads, of other servers or of none" % place,)
    return ("%s under way to where %s leads, of no server there" % (plural(beside, "request"), place),) if beside else ()


def haproxy_beside(machine: str, address: str, requests: int) -> str:
    """About requests to a host that belong to no server."""
    return "%s of HAProxy on %s under way to %s, of no server" % (plural(requests, "request"), machine, address)


def haproxy_went(requests: int, way: str, since: str) -> str:
    """About requests that went where nobody knows. C(since): a time, or words for it."""
    return "%s came through %s since %s, and nobody knows whether to it" % (plural(requests, "request"), way, since)


def haproxy_passes(directive: str) -> str:
    """About a directive that sends requests to a host without a server."""
    return "%s sends requests to it without a server, and nothing can take it out there: put the address into a server line" % directive
