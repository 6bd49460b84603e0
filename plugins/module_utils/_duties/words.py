# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sentences about what keeps a host on a duty, from what was seen of it. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._spellings import plural

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def in_rotation(place: str) -> str:
    return "%s is in rotation" % place


def haproxy_server(place: str, server: dict[str, Any], leads_to: str = "") -> tuple[str, ...]:
    """Which requests a server of HAProxy still has, or that this is unknown. ``leads_to``: the host's address, if the server has another name than the host."""
    if server["admin_state"] == "ready":
        too = ", which leads to %s too," % leads_to if leads_to else ""
        return (in_rotation(place + too),)
    if server["sessions"] or server["queue"]:
        return ("%s, %d queued at %s" % (plural(server["sessions"], "session"), server["queue"], place),)
    if server.get("uncounted"):
        return ("%s: %s" % (place, server["uncounted"]),)
    # Journals of older releases do not have it.
    beside = server.get("beside", 0)
    if beside is None:
        return ("HAProxy does not tell ('show sess all') which requests it has sent to where %s leads, of other servers or of none" % place,)
    return ("%s under way to where %s leads, of no server there" % (plural(beside, "request"), place),) if beside else ()


def haproxy_passes(directive: str) -> str:
    """About a directive that sends requests to a host without a server."""
    return "%s sends requests to it without a server, and nothing can take it out there: put the address into a server line" % directive


def nginx_server(place: str, server: dict[str, Any]) -> tuple[str, ...]:
    """Which connections nginx still has to a server, or that this is unknown."""
    if server.get("never_out"):  # journals of older releases do not have it
        return (never_out(place, server["never_out"]),)
    if server["in_service"] and server["down"] and server["condition"] == "already_out":
        return ("%s has the parameter down, but the configuration was changed after nginx has loaded it: reload nginx" % place,)
    if server["in_service"]:
        return (in_rotation(place),)
    if comes_back(server):
        return ("somebody else removed the parameter down from %s: the next reload of nginx puts it into rotation" % place,)
    found = []
    if server["connections"]:
        found.append("%s of nginx to %s" % (plural(server["connections"], "connection"), place))
    if server["former"]:
        found.append("%s of workers from before the reload may still go to %s" % (plural(server["former"], "client"), place))
    if server["uncounted"]:
        found.append("%s: %s" % (place, server["uncounted"]))
    return tuple(found)


def never_out(place: str, why: str) -> str:
    return "nothing can take %s out: %s" % (place, why)


def comes_back(server: dict[str, Any]) -> bool:
    """Whether nginx still has the parameter of our hold and the file has it no more, because somebody else removed it."""
    return bool(server["condition"] == "changed_meanwhile" and not server["down"] and not server["in_service"])


def nginx_stays(directive: str) -> str:
    """About a directive that passes requests to a host itself."""
    return "%s sends requests to it without an upstream, and nothing can take it out there: put the address into an upstream" % directive


def health_answer(place: str, look: Mapping[str, Any], url: str | None) -> tuple[str, ...]:
    """What keeps a host from being idle, as far as its health answer and new connections tell."""
    answer = look["answer"]
    if answer["state"] != "failing":
        return ("%s passes" % place,)
    found = []
    if is_wrong(look):
        done = "its command was run" if answer["action"] == "command" else answer["told"]
        found.append(
            "%s still passes although %s: it is not what the answer depends on (action and what belongs to it), or url is not what the probe asks" % (url, done)
        )
    if look["notice_left"]:
        found.append("the balancer notices within %d s" % math.ceil(look["notice_left"]))
    elif look.get("new_connections"):
        found.extend("%s came to port %s" % (plural(entry["count"], "new connection"), entry["port"]) for entry in look["new_connections"])
    return tuple(found)


def is_wrong(look: Mapping[str, Any]) -> bool:
    """Whether the answer passes although it was made to fail."""
    return look["answer"]["state"] == "failing" and bool((look.get("probe") or {}).get("passes"))


def azure_address(place: str, address: dict[str, Any]) -> tuple[str, ...]:
    """What keeps an address of a pool of Azure Load Balancer from being out. A change counts when Azure has finished it."""
    if address["admin_state"] != "Down":
        return (in_rotation(place),)
    return () if address["settled"] else ("%s: Azure has not finished the change yet" % place,)
