# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The base of balancers in which a host is one of the servers: HAProxy and nginx. Each runs on machines of its own. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ansible_collections.graceful.azure.plugins.plugin_utils._duties.traffic import CONDITIONS, TrafficDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import CHANGED, NextLook, SearchedAt, Traffic
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import gathered
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, Json, Options, Result

if TYPE_CHECKING:
    from ansible_collections.graceful.azure.plugins.plugin_utils._planning.addresses import Addresses
    from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import MachineObservation, Machines, Record
    from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host

Owners = dict[Any, dict[str, None]]
"""The names of the targets that have a thing at a balancer's machine by its name, in order, by that thing."""


class ServersDuty(TrafficDuty):
    has_records_elsewhere = True
    look_module = ""
    told_apart: tuple[str, ...] = ()
    """The fields that tell a server from all others, in the results of looks and in the subjects of records."""
    left_key, now_key = "", ""
    """Under what a record says how a server was left, and a look how it is."""

    def keys(self, settings: BalancerSettings) -> list[tuple[str, str]]:
        """The machines of a host's balancers, each with its key: the machine's inventory name, and which balancer there."""
        raise NotImplementedError

    def own(self, settings: BalancerSettings, host: Host, machine: MachineObservation) -> Iterable[Hashable]:
        """What is a host's by its name at a machine."""
        raise NotImplementedError

    def traffic_among(self, settings: BalancerSettings, host: Host, owners: Mapping[str, Owners], machines: Machines, addresses: Addresses) -> Traffic:
        """The C(Traffic) of a host beside others. C(owners): the C(Owners) at each machine, by the key of its look."""
        raise NotImplementedError

    def mine(self, settings: BalancerSettings, machine: MachineObservation) -> Iterable[Record]:
        """The records on a machine that are about the host with these settings."""
        raise NotImplementedError

    def ask_for(self, options: Options, settings: BalancerSettings) -> None:
        """Have the options of a look ask also for what these settings need, besides C(servers) and C(addresses)."""

    def states(self, settings: BalancerSettings, act: Result) -> Iterable[str]:
        """Phrases: what the servers at one machine are."""
        raise NotImplementedError

    def traffic_of_all(self, asked: Sequence[tuple[Host, BalancerSettings]], machines: Machines, addresses: Addresses) -> Iterator[Traffic]:
        # Each host asks for the owners of all things there, so they are found once.
        owners: dict[str, Owners] = {}
        for host, settings in asked:
            for _name, key in self.keys(settings):
                there = owners.setdefault(key, {})
                for thing in self.own(settings, host, machines[key]):
                    there.setdefault(thing, {})[host.name] = None
        for host, settings in asked:
            yield self.traffic_among(settings, host, owners, machines, addresses)

    def spots(self, settings: BalancerSettings) -> Iterator[tuple[str, str]]:
        for machine, key in self.keys(settings):
            where = key.replace(f" {self.name}", "", 1)
            yield machine, f"{self.name} on {where}, server {settings['server']}"

    def records(self, settings: BalancerSettings, machines: Machines) -> Iterator[tuple[Record, MachineObservation]]:
        keys = {key for _name, key in self.keys(settings)}
        for machine in (machine for key, machine in machines.items() if key in keys):
            yield from ((record, machine) for record in self.mine(settings, machine))

    def looks(self, settings: Sequence[tuple[str, BalancerSettings]], waits: Mapping[str, float], searched: SearchedAt) -> Iterator[NextLook]:
        found: dict[str, tuple[str, Options]] = {}
        longest: dict[str, float] = {}
        for name, values in settings:
            server = values["server"]
            for machine, key in self.keys(values):
                _machine, options = found.setdefault(key, (machine, {"servers": [], "addresses": []}))
                if server not in options["servers"]:
                    options["servers"].append(server)
                options["addresses"].extend(searched(name, key))
                self.ask_for(options, values)
            if name in waits:
                longest[server] = max(longest.get(server, 0.0), waits[name])
        for key, (machine, options) in found.items():
            wait_for = [server for server in options["servers"] if server in longest]
            yield NextLook(key, machine, self.look_module, options, wait_for, max((longest[server] for server in wait_for), default=0.0))

    @staticmethod
    def held(record: Json, called: str) -> str:
        """What a record holds, for the playbook holds. C(called): the server."""
        together = f" (together with {record['for_server']})" if record.get("for_server") else ""
        return f"{record['kind']} {called}{together}"

    def changed(self, look: Json, record: Json) -> tuple[str, str] | None:
        subject = record["subject"]
        for server in look.get("servers") or ():
            if all(server[key] == subject[key] for key in self.told_apart) and CONDITIONS.get(server["condition"]) == CHANGED:
                return str(record["left"][self.left_key]), str(server[self.now_key])
        return None

    def said(self, settings: BalancerSettings, acts: Sequence[Result]) -> list[str]:
        """Phrases: what is held, and where."""
        is_held = any(server["held_by"] for server in gathered(acts, "servers"))
        return [f"{settings['server']} is {'held' if is_held else 'not held'}", *(f"({state})" for act in acts for state in self.states(settings, act))]


def other_than(host: Host, names: Iterable[str]) -> str | None:
    """The first of the names that is another target's, or None."""
    return next((name for name in names if name != host.name), None)


def may_be_anothers(place: str, at: str, host: str, option: str) -> str:
    """About something in rotation that leads to an address of the host, which another one may have as well. C(option): what leaves it out."""
    return (
        f"{place} leads to {at}, which is an address of {host}, and stays in rotation: a host that is no target, or that was not read, may have that address,"
        f" too. Give all hosts behind the balancer as target. If it is another machine's, set the option {option}"
    )
