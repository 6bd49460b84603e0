# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many servers of a backend must stay in service, and whether one of them may leave. Pure.

The plan asks before it decides, and the module that takes a server out asks again under the balancer's lock.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._conditions import DRAIN, MAINT
from ansible_collections.graceful.azure.plugins.module_utils._spellings import plural

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any


def parse_minimum(value: object) -> int | str:
    """The value of the option: a number of servers, or the text of a percentage."""
    text = str(value).strip()
    # For isdigit alone ² is a digit, but int refuses it.
    if text.endswith("%") and text[:-1].isdecimal() and int(text[:-1]) <= 100:
        return text
    if not isinstance(value, bool) and text.isdecimal():
        return int(text)
    raise ValueError('%r is neither a number of servers from 0 up nor a percentage such as "50%%"' % (value,))


def asks_for_none(value: object) -> bool:
    """Whether the option lets all servers go out at once. It may not have been checked yet."""
    return str(value).rstrip("%") == "0"


def minimum(value: int | str, servers: int) -> int:
    """How many servers C(graceful_azure_min_in_service) asks for in a backend of that many."""
    if isinstance(value, str) and value.strip().endswith("%"):
        return math.ceil(servers * float(value.strip()[:-1]) / 100)
    return int(value)


def shortage(value: int | str, name: str, backend: Collection[Mapping[str, Any]], place: str, leaving: Collection[str] = ()) -> str | None:
    """A phrase if too few servers would stay in service without the server of that name; otherwise None.

    ``backend`` is all servers of its backend, each with its ``server``, ``in_service`` and ``backup``; those that are
    ``leaving`` serve no more. A backup server takes nothing as long as another serves, so it counts for a backup alone.

    The base of a percentage is what could serve. A server that is down or in maintenance could. One whose name leads
    nowhere (``unresolved``) could not: a ``server-template`` has many such slots.

    Each server that does not count is told, with its reason: ``silent`` or ``out``, a phrase that begins with who it is.
    """
    backup = any(server["backup"] for server in backend if server["server"] == name)
    counted = [server for server in backend if (backup or not server["backup"]) and not server.get("unresolved")]
    serving = [server["server"] for server in counted if server["in_service"] and server["server"] not in leaving]
    least = minimum(value, len(counted))
    # It may not serve itself yet, such as one that has just come back.
    if sum(1 for each in serving if each != name) >= least:
        return None
    out = [_why_out(server) for server in counted if server["server"] not in serving and server["server"] not in leaving]
    why = " (%s)" % "; ".join(out[:3] + ["..."] * (len(out) > 3)) if out else ""
    short = "%d of %d in service in %s%s, %d must stay" % (len(serving), len(counted), place, why, least)
    if least > len(counted):
        short += ": the backend has %s, so this can never be met (graceful_azure_min_in_service)" % plural(len(counted), "server")
    return short


def stays(name: str, short: str) -> str:
    """The sentence about a server that may not go out. C(short): what C(shortage) returned."""
    return "%s stays: %s." % (name, short)


def _why_out(server: Mapping[str, Any]) -> str:
    """Why a server is not in service, as far as this is told. ``admin_state`` and ``operational`` are what HAProxy calls it."""
    told = server.get("silent") or server.get("out")
    if told:
        return str(told)
    if server.get("admin_state") in (MAINT, DRAIN):
        return "%s is in %s" % (server["server"], server["admin_state"])
    return "%s is %s" % (server["server"], "down" if server.get("operational") == "down" else "out")
