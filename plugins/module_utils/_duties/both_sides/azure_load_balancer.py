# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What both sides know of addresses in pools of Azure Load Balancer: the options of a duty, what is wrong with them, and what keeps a host busy. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._azure_access import ACCESS, access_mistakes
from ansible_collections.graceful.azure.plugins.module_utils._spellings import DOWN, POOL, POOL_EXAMPLE, in_rotation, normal_address

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.options import Mistakes, Specs

OPTIONS: Specs = {
    "pool": {"type": "str", "required": True, "means": "give the resource id of the backend address pool"},
    "address": {"type": "str"},
    "ip_address": {"type": "str"},
    **ACCESS,
}


def option_mistakes(name: str, options: Mapping[str, Any]) -> Mistakes:
    if options.get("pool") and not re.match(POOL, options["pool"], re.IGNORECASE):
        yield "pool", "%r is not a resource id such as %s" % (options["pool"], POOL_EXAMPLE)
    if options.get("address") and options.get("ip_address"):
        yield "address", "excludes ip_address; give one of them"
    if options.get("ip_address") and normal_address(options["ip_address"]) is None:
        yield "ip_address", "%r is not an IP address" % options["ip_address"]
    yield from access_mistakes(options)


def azure_address(place: str, address: dict[str, Any]) -> tuple[str, ...]:
    """What keeps an address of a pool of Azure Load Balancer from being out. A change counts when Azure has finished it."""
    if address["admin_state"] != DOWN:
        return (in_rotation(place),)
    return () if address["settled"] else ("%s: Azure has not finished the change yet" % place,)
