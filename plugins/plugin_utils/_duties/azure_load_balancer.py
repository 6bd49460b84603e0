# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Azure Load Balancer: the host's address in a pool. Pure.

Azure is asked and changed from the controller. The records are tags of the load balancer, so neither the VM nor a file of the controller is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._conditions import GOING_BACK, UNDER_WAY
from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.azure_load_balancer import (
    OPTIONS,
    azure_address,
    is_in_pool,
    not_counted,
    option_mistakes,
    way_past,
)
from ansible_collections.graceful.azure.plugins.module_utils._duties.options import AZURE_PROBES
from ansible_collections.graceful.azure.plugins.module_utils._pools import Pool
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import AZURE_ADDRESS
from ansible_collections.graceful.azure.plugins.module_utils._spellings import DOWN, called, fold, last_part, normal_address
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.traffic import CONDITIONS, Claim, TrafficDuty, left_as_it_is, notices_in
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.addresses import Addresses
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import MachineObservation, Machines, Record
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import (
    CHANGED,
    NOBODY,
    Group,
    NextLook,
    Place,
    SearchedAt,
    Traffic,
    lasting,
    unread,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.azure_resource_manager import CONTROLLER, access_of
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import RoleResult, gathered, is_failed, is_unreachable, role_result
from ansible_collections.graceful.azure.plugins.plugin_utils._text import joined
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, Json, Options, Result, StepJson

if TYPE_CHECKING:
    from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host


def pool_name(settings: BalancerSettings) -> str:
    return last_part(str(settings["pool"]))


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
        yield f"{place_name(settings)}: {len(mine)} addresses have it ({', '.join(each['name'] for each in mine)}); name one in the option address"
    if not mine:
        by_ip = normal_address(settings["server"])
        there = ", ".join(
            f"{each['name']} ({each['ip_address'] or 'IP address not known'})" if by_ip else each["name"]
            for each in result["addresses"]
            if each["pool"].lower() == settings["pool"].lower()
        )
        yield (
            f"the pool {pool_name(settings)} has no address {settings['server']!r} (option address or ip_address, otherwise"
            f" ansible_host if it is an IP address, otherwise the inventory name); its addresses are {there[:1000] or 'none'}"
            + "".join(f"; a member may be it whose network interface cannot be read: {said}" for said in (result.get("unread") or ())[:3])
        )


UP = "Up"
STEP_SECONDS = 20.0
"""Seconds that one step may take. Azure refuses a write while another one of the same load balancer goes on, so hosts of one pool wait for each other."""


def _key(settings: BalancerSettings) -> str:
    return f"{CONTROLLER} {settings['pool'].lower()}"


class AzureLoadBalancerDuty(TrafficDuty):
    name = "azure_load_balancer"
    kind = AZURE_ADDRESS
    by_others = "has the admin state {state}"
    nouns = {AZURE_ADDRESS: "Azure load balancer address"}
    needs_ports = "Azure does not tell which connections are left, so they are counted on the host"
    title = "Azure Load Balancer"
    options = OPTIONS
    own_mistakes = staticmethod(option_mistakes)
    has_records_elsewhere = True
    counts_again = True
    unclaimed = "is of no pool that was looked at. It is not released."

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
        known = next((name for name in (address, host) if name and normal_address(str(name))), None)
        return dict(options, ip_address=known) if known else dict(options, address=host)

    def known_by(self, settings: BalancerSettings) -> str:
        return str(next(iter(settings["known_as"])))

    def claims(self, settings: BalancerSettings) -> Iterator[Claim]:
        yield f"pool {pool_name(settings)}", (settings["pool"].lower(), called(settings["server"])), None

    def judge(self, settings: BalancerSettings, direction: str, acts: Sequence[Result]) -> RoleResult:
        act = acts[0] if acts else {}
        failed = not acts or is_failed(act) or is_unreachable(act)
        addresses = act.get("addresses") or ()
        out = direction == "out"
        in_rotation = out and any(address["admin_state"] != DOWN for address in addresses)
        if failed:
            reason = str(act.get("msg") or "Azure was not asked")
        else:
            waits = [*(act.get("refused") or ()), *([act["waiting_for"]] if act.get("waiting_for") else [])]
            reason = joined([*waits, *gathered(acts, "conflicts")]) or _state(settings, addresses)
        return role_result(not failed and bool(act.get("done")) and not in_rotation, reason, acts, [CONTROLLER] if failed else [])

    def traffic_of_all(self, asked: Sequence[tuple[Host, BalancerSettings]], machines: Machines, addresses: Addresses) -> Iterator[Traffic]:
        joining = {}
        for host, settings in asked:
            result = machines[_key(settings)].result
            for address in result.get("addresses") or ():
                left = _joins_in(host, address, result) if is_mine(settings, address) else 0.0
                if left > 0:
                    joining[settings["pool"].lower(), address["name"]] = left
        for host, settings in asked:
            yield self.traffic(settings, host, machines, addresses, joining)

    def traffic(
        self, settings: BalancerSettings, host: Host, machines: Machines, addresses: Addresses, joining: Mapping[tuple[str, str], float] = MappingProxyType({})
    ) -> Traffic:
        """C(joining): in how many seconds Azure must have noticed that a target answers again, by its pool and the name of its address."""
        machine = machines[_key(settings)]
        result = machine.result
        if result.get("addresses") is None:
            return Traffic(serves=False, unread=(unread(place_name(settings), result),))
        mine = [address for address in result["addresses"] if is_mine(settings, address)]
        mistakes = tuple(mistakes_in(settings, result))
        places = () if mistakes else tuple(_place(settings, machine, address, joining) for address in mine)
        past = () if mistakes else tuple(_past(settings, way) for way in ways_past(settings, host, result, addresses))
        doubts = tuple(_not_counted(settings, host, mine if places else ()))
        return Traffic(places + past, any(place.serves for place in places), mistakes=mistakes, doubts=doubts)

    def sharers(self, settings: BalancerSettings) -> str:
        return f"the pool {pool_name(settings)}"

    def records(self, settings: BalancerSettings, machines: Machines) -> Iterator[tuple[Record, MachineObservation]]:
        machine = machines[_key(settings)]
        for record in machine.records or ():
            of_pool = record.kind == AZURE_ADDRESS and record.subject.get("pool", "").lower() == settings["pool"].lower()
            if of_pool and called(settings["server"]) in (called(record.for_server), called(record.subject.get("address"))):
                yield record, machine

    def looks(self, settings: Sequence[tuple[str, BalancerSettings]], waits: Mapping[str, float], searched: SearchedAt) -> Iterator[NextLook]:
        found: dict[str, Options] = {}
        for _name, values in settings:
            options = found.setdefault(_key(values), {"pools": [values["pool"]], "servers": [], **values["access"]})
            if values["server"] not in options["servers"]:
                options["servers"].append(values["server"])
        for key, options in found.items():
            # Azure counts no connections, so there is nothing to wait for.
            yield NextLook(key, CONTROLLER, "azure_load_balancer_info", options)

    def read(self, result: Json, options: Options) -> Json:
        if not result.get("problem"):
            return result
        return dict(result, addresses=None, holds=None, **{"error" if result.get("passing") else "fatal": result["problem"]})

    def acts(self, settings: BalancerSettings, direction: str, hold: Options, step: StepJson) -> Iterator[tuple[str, str, Options]]:
        known = dict(settings["access"], pools=[settings["pool"]], timeout=STEP_SECONDS, **settings["known_as"])
        least = {"min_in_service": step.get("min_in_service")} if direction == "out" else {}
        yield CONTROLLER, "azure_load_balancer_hold", dict(known, **least, **hold)

    def spots(self, settings: BalancerSettings) -> Iterator[tuple[str, str]]:
        yield CONTROLLER, f"{settings['server']} in pool {settings['pool'].lower()}"

    def names(self, record: Json) -> tuple[str, str]:
        name = record.get("for_server") or record["subject"]["address"]
        return name, name

    def shown(self, record: Json) -> dict[str, str]:
        subject = record["subject"]
        return {"held": f"{AZURE_ADDRESS} {subject['address']} ({last_part(subject['pool'])})", "socket": "none"}

    def give_back(self, record: Json, options: Options) -> tuple[str, Options]:
        subject = record["subject"]
        return "azure_load_balancer_hold", dict(access_of(options), pools=[subject["pool"]], address=subject["address"], state="absent")


def ways_past(settings: BalancerSettings, host: Host, result: Result, addresses: Addresses) -> Iterator[Json]:
    """How else the load balancer sends connections to the host's ports, which no duty of the host ends."""
    past = result.get("past") or ()
    duties = [balancer for kind, balancer in host.balancers if kind.name == AzureLoadBalancerDuty.name] if past else []
    named = {balancer["pool"].lower() for balancer in duties}
    mine = {address["name"] for address in result["addresses"] if is_mine(settings, address)}
    of_duties = {address["name"] for address in result["addresses"] if any(is_mine(balancer, address) for balancer in duties)}
    for way in past:
        of_ports = 0 in way["ports"] or not set(host.ports).isdisjoint(way["ports"])
        if not of_ports or way["at"].lower() != settings["pool"].lower() or not (way["of"] in mine or _is_only_its(way.get("ip_address"), host, addresses)):
            continue
        if way["name"] not in of_duties if is_in_pool(way) else str(way["pool"]).lower() not in named:
            yield way


def _not_counted(settings: BalancerSettings, host: Host, mine: Iterable[Json]) -> Iterator[str]:
    """Sentences about the ports of the host to which the rules of its pool send connections that nobody counts."""
    for told in (address["ports"] for address in mine if address.get("ports")):
        # Any port may be of no use where they send them to all.
        ports = sorted(set(told).difference(host.ports, [0]))
        if ports:
            yield not_counted(settings["pool"], ports)


def _is_only_its(address: str | None, host: Host, addresses: Addresses) -> bool:
    """Whether an IP address is the host's, and no other target's."""
    return address is not None and addresses.owners.get(normal_address(address) or "") == {host.name}


def _past(settings: BalancerSettings, way: Json) -> Place:
    """A place from which nothing takes the host out."""
    name, why = way_past(settings["pool"], way)
    return lasting(name, CONTROLLER, why)


def _state(settings: BalancerSettings, addresses: Iterable[Json]) -> str:
    said = ", ".join(f"{address['admin_state'] or 'not there'}" for address in addresses) or "not there"
    held = any(address["held_by"] for address in addresses)
    return f"{place_name(settings)} is {'held' if held else 'not held'} ({said})"


def _serves(address: Json) -> bool:
    """Whether Azure sends it new connections. What is being given back gets none before Azure has finished."""
    return bool(address["admin_state"] != DOWN and address["condition"] != GOING_BACK)


def _joins_in(host: Host, address: Json, look: Result) -> float:
    """In how many seconds Azure must have noticed that a target answers again; 0 or less: it has.

    With C(Up), Azure does not ask the probe. A target that this run has not seen out counts at once: nobody knows since when it answers.
    """
    if address["admin_state"] == UP:
        return 0.0
    return notices_in(host, look, float(address.get("notice") or 0.0), math.inf if host.memory.back_at is None else 0.0)


def _server(address: Json, joins_in: float | None) -> Json:
    """An address in its group. C(joins_in): in how many seconds Azure must have noticed that it answers again, if it has not."""
    early = f"{address['name']}: Azure notices within {math.ceil(joins_in)} s that it answers" if joins_in and _serves(address) else None
    return {"server": address["name"], "in_service": _serves(address) and early is None, "backup": False, "silent": early, "early": early is not None}


def _place(settings: BalancerSettings, machine: MachineObservation, address: Json, joining: Mapping[tuple[str, str], float]) -> Place:
    label = place_name(settings)
    condition = CONDITIONS[address["condition"]]
    in_rotation = may_send(address)
    others = [each for each in machine.result["addresses"] if each["pool"] == address["pool"]]
    return Place(
        name=label,
        machine=CONTROLLER,
        in_rotation=in_rotation,
        state=address["admin_state"],
        serves=_serves(address),
        busy=azure_address(label, address),
        seen=machine.looked_at,
        # Azure has said that it is done. Only the host itself can tell more.
        looks=machine.looks(proves=not in_rotation),
        condition=condition,
        held_by=frozenset(map(fold, address["held_by"])),
        # If the run that took it out was cut off, the record must say that it is out. Otherwise, what a person sets would count as a loss.
        must_go_out=condition != CHANGED and (in_rotation or address["condition"] in (UNDER_WAY, GOING_BACK) or not address.get("noted", True)),
        group=Group(
            (machine.key, address["pool"].lower()),
            f"pool {pool_name(settings)}",
            tuple(_server(each, joining.get((settings["pool"].lower(), each["name"]))) for each in others),
        ),
        member=address["name"],
        # Azure does not tell what its probes see.
        health=NOBODY,
        # The probe's own connections are no requests.
        pools=tuple(map(Pool, AZURE_PROBES)),
        # With Up, Azure does not ask the probe.
        checked=(address["found"] or {}).get("admin_state") != UP,
        conflict=left_as_it_is(f"set {label} to {address['admin_state']}") if condition == CHANGED else "",
    )
