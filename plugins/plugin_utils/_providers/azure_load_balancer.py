# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Azure Load Balancer: what an observation of a pool (module azure_load_balancer_info) means for the hosts in it. Private to the collection; pure.

Azure is asked and changed from the controller. The records are tags of the load balancer, so neither the VM nor a file of the controller is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._duties.words import azure_address
from ansible_collections.graceful.azure.plugins.module_utils._pools import Pool
from ansible_collections.graceful.azure.plugins.module_utils._spellings import called
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.addresses import Addresses
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import NOT_LOOKED_AT, Entry, MachineObservation, Machines, Record
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import fold
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import (
    CHANGED,
    FREE,
    HELD,
    NOBODY,
    Group,
    NextLook,
    Place,
    Provider,
    Searched,
    Traffic,
    unread,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._steps import azure_load_balancer as words
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.azure_resource_manager import ACCESS, CONTROLLER
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.balancer import AZURE_PROBE
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, Json, Options, StepJson

if TYPE_CHECKING:
    from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host

KIND = "azure_address"
CONDITIONS = {"none": FREE, "already_out": FREE, "held": HELD, "changing": HELD, "restoring": HELD, "changed_meanwhile": CHANGED}
STEP_SECONDS = 20.0
"""Seconds that one step may take. Azure refuses a write while another one of the same load balancer goes on, so hosts of one pool wait for each other."""


def _key(settings: BalancerSettings) -> str:
    return f"{CONTROLLER} {settings['pool'].lower()}"


class AzureLoadBalancer(Provider):
    name = "azure_load_balancer"
    title = "Azure Load Balancer"
    where = ("azure_pool", "azure_address", "azure_ip_address", *(f"azure_{name}" for name in ACCESS))
    unclaimed = "is of no pool that was looked at. It is not released."

    def traffic(self, settings: BalancerSettings, host: Host, hosts: dict[str, Host], machines: Machines, addresses: Addresses) -> Traffic:
        machine = machines.get(_key(settings)) or NOT_LOOKED_AT
        result = machine.result
        if result.get("addresses") is None:
            return Traffic(serves=False, unread=(unread(words.place_name(settings), result),))
        mine = [address for address in result["addresses"] if words.is_mine(settings, address)]
        mistakes = tuple(words.mistakes_in(settings, result))
        places = () if mistakes else tuple(_place(settings, machine, address) for address in mine)
        return Traffic(places, any(place.serves for place in places), mistakes=mistakes)

    def records(self, settings: BalancerSettings, machines: Machines) -> Iterator[tuple[Record, MachineObservation]]:
        machine = machines.get(_key(settings)) or NOT_LOOKED_AT
        for record in machine.records or ():
            of_pool = record.kind == KIND and record.subject.get("pool", "").lower() == settings["pool"].lower()
            if of_pool and called(settings["server"]) in (called(record.for_server), called(record.subject.get("address"))):
                yield record, machine

    def out_since(self, record: Record, entry: Entry, is_new: bool) -> tuple[str | None, ...] | None:
        return (entry.since,) if record.kind == KIND else None

    def looks(self, settings: Sequence[tuple[str, BalancerSettings]], waits: Mapping[str, float], searched: Searched) -> Iterator[NextLook]:
        found: dict[str, Options] = {}
        for _name, values in settings:
            options = found.setdefault(_key(values), {"pools": [values["pool"]], "servers": [], "errors_as_result": True, **values["access"]})
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
        yield CONTROLLER, "azure_load_balancer_hold", dict(known, **hold)

    def shows(self, result: Json, act: Json) -> bool:
        def states(addresses: Iterable[Json] | None) -> dict[tuple[str, str], tuple[str, set[str]]]:
            return {(each["pool"].lower(), each["name"]): (each["admin_state"], set(map(fold, each["held_by"]))) for each in addresses or ()}

        told, seen = states(act.get("addresses")), states(result.get("addresses"))
        return bool(told) and all(seen.get(key) == state for key, state in told.items())

    def names(self, record: Json) -> tuple[str, str]:
        name = record.get("for_server") or record["subject"]["address"]
        return name, name

    def shown(self, record: Json) -> dict[str, str]:
        subject = record["subject"]
        return {"held": f"{KIND} {subject['address']} ({subject['pool'].split('/')[-1]})", "socket": "none"}

    def give_back(self, record: Json, options: Options) -> tuple[str, Options]:
        access = {name: options[name] for name in ACCESS if options.get(name)}
        subject = record["subject"]
        return "azure_load_balancer_hold", dict(access, pools=[subject["pool"]], address=subject["address"], state="absent")


def _place(settings: BalancerSettings, machine: MachineObservation, address: Json) -> Place:
    label = words.place_name(settings)
    condition = CONDITIONS[address["condition"]]
    in_rotation = words.may_send(address)
    others = [each for each in machine.result["addresses"] if each["pool"] == address["pool"]]
    return Place(
        name=label,
        machine=CONTROLLER,
        in_rotation=in_rotation,
        state=address["admin_state"],
        serves=address["admin_state"] != words.DOWN,
        busy=azure_address(words.place_name(settings), address),
        seen=machine.looked_at,
        # Azure has said that it is done. Only the host itself can tell more.
        looks=machine.looks(twice=not in_rotation),
        condition=condition,
        held_by=frozenset(map(fold, address["held_by"])),
        # If the run that took it out was cut off, the record must say that it is out. Otherwise, what a person sets would count as a loss.
        must_go_out=condition != CHANGED and (in_rotation or address["condition"] in ("changing", "restoring") or not address.get("noted", True)),
        group=Group(
            (machine.key, address["pool"].lower()),
            f"pool {words.pool_name(settings)}",
            tuple({"server": each["name"], "in_service": each["admin_state"] != words.DOWN, "backup": False} for each in others),
        ),
        member=address["name"],
        # Azure does not tell what its probes see.
        health=NOBODY,
        # The probe's own connections are no requests.
        pools=(Pool(AZURE_PROBE),),
        # With Up, Azure does not ask the probe.
        checked=(address["found"] or {}).get("admin_state") != "Up",
        conflict=f"somebody else set {label} to {address['admin_state']}: left as it is" if condition == CHANGED else "",
    )
