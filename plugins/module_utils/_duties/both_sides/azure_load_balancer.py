# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What both sides know of addresses in pools of Azure Load Balancer: the options of a duty, what is wrong with them, and what keeps a host busy. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._azure_access import ACCESS, access_mistakes
from ansible_collections.graceful.azure.plugins.module_utils._spellings import DOWN, POOL, POOL_EXAMPLE, in_rotation, last_part, normal_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
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


def is_in_pool(way: Mapping[str, Any]) -> bool:
    """Whether a way past a pool is another address in that pool."""
    return str(way["pool"]).lower() == str(way["at"]).lower()


def way_past(pool: str, way: Mapping[str, Any]) -> tuple[str, str]:
    """What sends connections to a member of a pool past its administrative state, and the sentence that says so."""
    balancer = pool.split("/")[-3]
    ports = "all ports" if 0 in way["ports"] else "port " + ", ".join(map(str, way["ports"]))
    if way.get("probed") is False:
        name = "load balancing rule %s of %s" % (way["rule"], balancer)
        return name, "%s has no probe, so it sends connections to %s of it, whatever the administrative state is: give it a probe" % (name, ports)
    if way["rule"]:
        name = "inbound NAT rule %s of %s" % (way["rule"], balancer)
        return name, "%s sends connections to %s of it, whatever the administrative state is" % (name, ports)
    name = "%s in pool %s" % (way["name"], last_part(way["pool"]))
    if way["of"] is None or is_in_pool(way):
        told = "%s of %s leads to it, too, and its rules send connections to %s: add a duty azure_load_balancer with this pool and the address %s"
        return name, told % (name, balancer, ports, way["name"])
    told = "%s of %s is the same address, and its rules send connections to %s: add a duty azure_load_balancer with this pool"
    return name, told % (name, balancer, ports)


def not_counted(pool: str, ports: Iterable[int]) -> str:
    """About ports to which the rules of a pool send connections and that graceful_azure_ports does not have."""
    told = (
        "the rules of pool %s send connections to port %s of it, which graceful_azure_ports does not"
        " have: nobody counts these connections, so they do not keep it from its event. Add the port"
    )
    return told % (last_part(pool), ", ".join(map(str, ports)))
