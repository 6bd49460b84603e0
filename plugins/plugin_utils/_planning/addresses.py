# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whose is an address? Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._spellings import LOOPBACK, address_text
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json

if TYPE_CHECKING:
    from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host


def addresses_of(hosts: Collection[Host], partial: bool = False) -> Addresses:
    """The C(Addresses) of all targets. C(partial): other hosts behind the same balancers are no targets, and nobody knows their addresses."""
    owners: dict[str, set[str]] = {}
    claims: dict[tuple[str | None, int | None], set[str]] = {}
    for host in hosts:
        for address in host.addresses or ():
            owners.setdefault(address, set()).add(host.name)
        for port in host.ports:
            claims.setdefault((host.network, port), set()).add(host.name)
    # An address of one host may be an address of another one that was never read: a virtual address, or that of a balancer of Azure.
    return Addresses(owners, claims, not partial and all(host.addresses is not None for host in hosts))


@dataclass(frozen=True)
class Addresses:
    """What leads to a host, and to nobody else."""

    owners: dict[str, set[str]]  # names of the targets, by address
    claims: dict[tuple[str | None, int | None], set[str]]  # names of the targets whose connections are counted, by network and port
    all_known: bool

    def leads_to(self, host: Host, at: tuple[str | None, int | None], led: Collection[Json | None], named: Collection[str | None], machine: Json) -> bool:
        """Whether an address and port lead to the host, and to no other target, as far as can be told.

        C(led): where the host's places led when they were taken out. C(named): the addresses to which the places of its own name lead.
        C(machine): the look at the balancer's machine.
        """
        address, port = at
        if address is None:
            return False
        owners = self.owners.get(address, ())
        if owners and host.name not in owners:
            return False
        if {"address": address, "port": port} in led:
            return True
        if (self.all_known or address in named) and self._is_own(host, address, machine):
            return True
        return self._counts(host, port, machine) and (bool(owners) or ipaddress.ip_address(address).is_loopback)

    def may_lead_to(self, host: Host, at: tuple[str | None, int | None], named: Collection[str | None], machine: Json) -> bool:
        """Whether an address is the host's, and nobody can tell whether another host has it as well. The rest as for C(leads_to)."""
        return at[0] is not None and self._is_own(host, at[0], machine) and not self.leads_to(host, at, (), named, machine)

    def searched(self, host: Host, machine: Json) -> list[str]:
        """What leads to the host, as texts for a look at that machine."""
        known = host.addresses or []
        own = [address for address in known if self._is_own(host, address, machine)]
        shared = [*LOOPBACK, *(address for address in known if address not in own)]
        return own + [address_text(address, port) for port in host.ports if self._counts(host, port, machine) for address in shared]

    def ports_of(self, host: Host, leads_to: Iterable[tuple[str | None, int | None]], machine: Json) -> frozenset[int]:
        """The host's own ports among these addresses and ports. Behind another address, the port may be another machine's, or stand for another port."""
        return frozenset(port for address, port in leads_to if address is not None and port and self._is_on(host, address, machine))

    def _is_on(self, host: Host, address: str, machine: Json) -> bool:
        """Whether an address is on the host itself, as the balancer's machine reaches it."""
        if ipaddress.ip_address(address).is_loopback:
            return self._is_here(host, machine)
        return address in (host.addresses or ()) and (address not in (machine.get("addresses") or ()) or self._is_here(host, machine))

    def _is_own(self, host: Host, address: str, machine: Json) -> bool:
        """Whether an address is the host's alone among the targets. Bridges of containers have the same one on every machine, the balancer's too."""
        return self.owners.get(address) == {host.name} and self._is_on(host, address, machine)

    @staticmethod
    def _is_here(host: Host, machine: Json) -> bool:
        """Whether the balancer runs on the host itself."""
        return host.network is not None and host.network == machine.get("network")

    def _counts(self, host: Host, port: int | None, machine: Json) -> bool:
        """Whether the port alone tells the host from all targets that share its machine, which is the balancer's, too."""
        return self._is_here(host, machine) and self.claims.get((host.network, port)) == {host.name}
