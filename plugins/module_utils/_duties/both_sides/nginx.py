# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What both sides know of servers of nginx: the options of a duty, and the sentences about what keeps a host busy. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._conditions import ALREADY_OUT
from ansible_collections.graceful.azure.plugins.module_utils._duties.options import HOSTS, QUIET
from ansible_collections.graceful.azure.plugins.module_utils._nginx_lines import comes_back
from ansible_collections.graceful.azure.plugins.module_utils._spellings import in_rotation, plural

if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.options import Specs

OPTIONS: Specs = {
    "hosts": HOSTS,
    "server": {"type": "str"},
    "files": {"type": "list", "elements": "path"},
    "configuration": {"type": "path"},
    "quiet": QUIET,
}


def nginx_server(place: str, server: dict[str, Any]) -> tuple[str, ...]:
    """Which connections nginx still has to a server, or that this is unknown."""
    if server["never_out"]:
        return (never_out(place, server["never_out"]),)
    if server["in_service"] and server["down"] and server["condition"] == ALREADY_OUT:
        return (not_loaded(place),)
    if server["in_service"]:
        return (in_rotation(place),)
    if comes_back(server):
        return ("somebody else removed the parameter down from %s: the next reload of nginx puts it into rotation" % place,)
    found = []
    if server["connections"]:
        found.append("%s of nginx to %s" % (plural(server["connections"], "connection"), place))
    elif server["former"]:  # the request of such a client may be the one that has the connection
        found.append("%s of workers from before the reload may still go to %s" % (plural(server["former"], "client"), place))
    if server["uncounted"]:
        found.append("%s: %s" % (place, server["uncounted"]))
    return tuple(found)


def not_loaded(place: str) -> str:
    return "%s has the parameter down, but the configuration was changed after nginx has loaded it: reload nginx" % place


def never_out(place: str, why: str) -> str:
    return "nothing can take %s out: %s" % (place, why)


def nginx_beside(machine: str, address: str, connections: int) -> str:
    """About connections to a host that belong to none of its lines."""
    return "%s of nginx on %s to %s, without an upstream" % (plural(connections, "connection"), machine, address)


def nginx_stays(directive: str) -> str:
    """About a directive that passes requests to a host itself."""
    return "%s sends requests to it without an upstream, and nothing can take it out there: put the address into an upstream" % directive
