# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the options of one kind of balancer say, and what the results of its modules mean. Private to the collection; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ansible_collections.graceful.azure.plugins.module_utils._pools import Pool
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.duty import Duty
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import RoleResult
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, Json, Options, Result

AZURE_PROBE = "168.63.129.16"
"""The address from which the probes of Azure Load Balancer come."""
Claim = tuple[str, tuple[Any, ...], str | None]
"""See C(Balancer.claims)."""
MACHINES = "give the inventory names of the machines on which the balancer runs"
HOSTS: Json = {"type": "list", "elements": "str", "required": True, "means": MACHINES}
"""The option C(hosts): inventory names of the machines on which a balancer runs."""
QUIET: Json = {"type": "float", "default": 3}
"""The option C(quiet): seconds for which no new request may have come before a host that is out counts as drained."""


def without_hosts(options: Options) -> Iterable[tuple[str, str]]:
    """The mistake of a balancer that runs nowhere."""
    if options["hosts"] == []:
        yield "hosts", f"empty; {MACHINES}"


class Balancer(Duty):
    """One kind of balancer. This base class is also used for hosts that have no balancer.

    C(settings): one balancer of a host, as in the settings that the plan reads: C(provider), C(hosts), C(server), C(state), ...
    C(options): the same balancer by the options of its entry in C(graceful_azure_duties).
    C(direction): V(out) or V(in).
    C(acts): the registered results of the modules that change it. C(looks): those of the module that looks at it.
    """

    one_for_each_machine: dict[str, str] = {}
    """Its options that tell which balancer on a machine is meant, each with its key in the settings. They are set for the hosts behind the balancer."""

    def brings_traffic(self, options: Options) -> bool:
        return True

    def settings(self, options: Options, host: str) -> BalancerSettings:
        """Its own settings, besides those that all kinds have (C(load_balancer.settings_of)). C(host): the host's name in the inventory."""
        return {}

    def completed(self, options: Options, host: str, address: str | None) -> Options:
        """The options, with what is known of the host where it is not set.

        C(host): the host's name in the inventory. C(address): its C(ansible_host), or None.
        """
        return options

    def beside(
        self,
        settings: BalancerSettings,
        ports: Sequence[int] | None = None,
        asked: Options | None = None,
        timeout: float | None = None,
    ) -> Iterable[tuple[str, str]]:
        """What is wrong with other variables of the host because of this balancer: pairs of a variable, without C(graceful_azure_), and a sentence.

        None stands for what the caller does not know. C(ports), C(timeout): C(graceful_azure_ports) and C(graceful_azure_drain_timeout). C(asked): what
        must answer before the host goes back, as the modules take it.
        """
        return ()

    def with_ports(self, settings: BalancerSettings, ports: Iterable[int]) -> BalancerSettings:
        """Its settings, with what it needs of the role drain_host."""
        return settings

    def known_by(self, settings: BalancerSettings) -> str:
        """The option that tells which one of the balancer's servers the host is."""
        return "server"

    def claims(self, settings: BalancerSettings) -> Iterable[Claim]:
        """What belongs to this host alone, so that no other host may have it.

        Three things each: where it is (a name for people), what it is, and which part of it is claimed, or None for all of it.
        """
        return ()

    def judge(self, settings: BalancerSettings, direction: str, acts: Sequence[Result], check_mode: bool = False) -> RoleResult:
        """The C(load_balancer_result)."""
        return {"done": True, "changed": False, "reason": "no load balancer knows this host", "failed_hosts": [], "conflicts": []}

    def needs_tasks(self, direction: str, acts: Sequence[Result]) -> bool:
        """Whether task files of the user must run in that direction."""
        return False

    def looks_at(self, settings: BalancerSettings) -> list[str]:
        """The machines on which C(look_<provider>.yml) of the role drain_host must look."""
        return []

    def busy(self, settings: BalancerSettings, looks: Sequence[Result]) -> list[str]:
        """Sentences: which requests the balancer still has for the host, or that this is unknown."""
        return []

    def pools(self, settings: BalancerSettings, looks: Sequence[Result]) -> list[Pool]:
        """With which connections the balancer checks the host, or keeps them for later."""
        return []
