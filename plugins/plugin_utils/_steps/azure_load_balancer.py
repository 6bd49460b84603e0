# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Azure Load Balancer: what its options say, and what the results of its modules mean, in words. Private to the collection; pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Sequence

from ansible_collections.graceful.azure.plugins.module_utils._duties.words import azure_address
from ansible_collections.graceful.azure.plugins.module_utils._pools import Pool
from ansible_collections.graceful.azure.plugins.module_utils._spellings import called
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.azure_resource_manager import ACCESS, CONTROLLER, access_mistakes, access_of
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.balancer import AZURE_PROBE, QUIET, Balancer, Claim
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import RoleResult, gathered, is_changed, is_failed, is_skipped, is_unreachable
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, Json, Options, Result

DOWN = "Down"
POOL = re.compile(
    r"/subscriptions/[^/?#%\s]+/resourceGroups/[^/?#%\s]+/providers/Microsoft\.Network/loadBalancers/[^/?#%\s]+/backendAddressPools/[^/?#%\s]+\Z", re.IGNORECASE
)
POOL_EXAMPLE = "/subscriptions/S/resourceGroups/RG/providers/Microsoft.Network/loadBalancers/LB/backendAddressPools/POOL"


def is_ip_address(text: object) -> bool:
    try:
        return bool(ipaddress.ip_address(str(text)))
    except ValueError:
        return False


def pool_name(settings: BalancerSettings) -> str:
    return str(settings["pool"]).rsplit("/", maxsplit=1)[-1]


def place_name(settings: BalancerSettings) -> str:
    return f"{settings['server']} in pool {pool_name(settings)}"


def is_mine(settings: BalancerSettings, address: Json) -> bool:
    """Whether an address in the result of azure_load_balancer_info is the host's."""
    return address["pool"].lower() == settings["pool"].lower() and called(settings["server"]) in (called(address["name"]), called(address["ip_address"]))


def may_send(address: Json) -> bool:
    """Whether Azure may still send new connections there. A change counts when Azure has finished it."""
    return address["admin_state"] != DOWN or not address["settled"]


def mistakes_in(settings: BalancerSettings, result: Result) -> Iterator[str]:
    """Sentences: why a host cannot be taken out there."""
    mine = [address for address in result["addresses"] if is_mine(settings, address)]
    if len(mine) > 1:
        yield f"{place_name(settings)}: {len(mine)} addresses have it ({', '.join(each['name'] for each in mine)}); name one in load_balancer_azure_address"
    if not mine:
        by_ip = is_ip_address(settings["server"])
        there = ", ".join(
            f"{each['name']} ({each['ip_address'] or 'IP address not known'})" if by_ip else each["name"]
            for each in result["addresses"]
            if each["pool"].lower() == settings["pool"].lower()
        )
        yield (
            f"the pool {pool_name(settings)} has no address {settings['server']!r} (load_balancer_azure_address or load_balancer_azure_ip_address, otherwise"
            f" ansible_host if it is an IP address, otherwise the inventory name); its addresses are {there[:1000] or 'none'}"
            + "".join(f"; a member may be it whose network interface cannot be read: {said}" for said in (result.get("unread") or ())[:3])
        )


class AzureLoadBalancer(Balancer):
    options = {
        "pool": {"type": "str", "required": True, "means": "give the resource id of the backend address pool"},
        "address": {"type": "str"},
        "ip_address": {"type": "str"},
        "quiet": QUIET,
        **ACCESS,
    }

    def settings(self, options: Options, host: str) -> BalancerSettings:
        address, ip_address = str(options.get("address") or ""), str(options.get("ip_address") or "")
        return {
            "hosts": [],
            "host": host,
            "server": address or ip_address,
            "pool": str(options.get("pool") or ""),
            "known_as": {"address": address} if address else {"ip_address": ip_address},
            "access": access_of(options),
        }

    def completed(self, options: Options, host: str, address: str | None) -> Options:
        if options.get("address") or options.get("ip_address"):
            return options
        known = next((str(name) for name in (address, host) if is_ip_address(name)), None)
        return dict(options, ip_address=known) if known else dict(options, address=host)

    def mistakes(self, options: Options) -> Iterator[tuple[str, str]]:
        pool, address, ip_address = (options.get(name) for name in ("pool", "address", "ip_address"))
        if pool and not POOL.match(pool):
            yield "pool", f"{pool!r} is not a resource id such as {POOL_EXAMPLE}"
        if address and ip_address:
            yield "address", "excludes ip_address; give one of them"
        if ip_address and not is_ip_address(ip_address):
            yield "ip_address", f"{ip_address!r} is not an IP address"
        yield from access_mistakes(options)

    def beside(
        self,
        settings: BalancerSettings,
        ports: Sequence[int] | None = None,
        asked: Options | None = None,
        timeout: float | None = None,
    ) -> Iterator[tuple[str, str]]:
        if ports is not None and not ports:
            yield (
                "ports",
                "not set; azure_load_balancer needs the ports on which the application serves: Azure does not tell which connections are left, so they are"
                " counted on the host",
            )

    def known_by(self, settings: BalancerSettings) -> str:
        return str(next(iter(settings["known_as"])))

    def claims(self, settings: BalancerSettings) -> Iterator[Claim]:
        yield f"pool {pool_name(settings)}", (settings["pool"].lower(), called(settings["server"])), None

    def judge(self, settings: BalancerSettings, direction: str, acts: Sequence[Result], check_mode: bool = False) -> RoleResult:
        act = acts[0] if acts else {}
        failed = not acts or is_failed(act) or is_unreachable(act)
        addresses = act.get("addresses") or ()
        out = direction == "out"
        in_rotation = out and not check_mode and any(address["admin_state"] != DOWN for address in addresses)
        conflicts = gathered(acts, "conflicts")
        if failed:
            reason = str(act.get("msg") or "Azure was not asked")
        else:
            reason = "; ".join([*([act["waiting_for"]] if act.get("waiting_for") else []), *conflicts]) or _state(settings, addresses)
        return {
            "done": not failed and bool(act.get("done")) and not in_rotation,
            "changed": any(map(is_changed, acts)),
            "reason": reason,
            "failed_hosts": [CONTROLLER] if failed else [],
            "conflicts": conflicts,
        }

    def looks_at(self, settings: BalancerSettings) -> list[str]:
        return [CONTROLLER]

    def busy(self, settings: BalancerSettings, looks: Sequence[Result]) -> list[str]:
        return [sentence for look in looks for sentence in _busy(settings, look)]

    def pools(self, settings: BalancerSettings, looks: Sequence[Result]) -> list[Pool]:
        return [Pool(AZURE_PROBE)]


def _busy(settings: BalancerSettings, look: Result) -> list[str]:
    if is_unreachable(look) or is_failed(look):
        return [str(look.get("msg") or "Azure was not asked")]
    if is_skipped(look):
        return []
    mine = [address for address in look["addresses"] if is_mine(settings, address)]
    return [sentence for address in mine for sentence in azure_address(place_name(settings), address)] if mine else list(mistakes_in(settings, look))


def _state(settings: BalancerSettings, addresses: Iterable[Json]) -> str:
    said = ", ".join(f"{address['admin_state'] or 'not there'}" for address in addresses) or "not there"
    held = any(address["held_by"] for address in addresses)
    return f"{place_name(settings)} is {'held' if held else 'not held'} ({said})"
