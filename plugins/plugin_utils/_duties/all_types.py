# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The types of duties. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.graceful.azure.plugins.module_utils._cluster_types import TYPES
from ansible_collections.graceful.azure.plugins.module_utils._minimum import asks_for_none
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.azure_load_balancer import AzureLoadBalancerDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.cluster import ClusterDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.duty import Duty
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.haproxy import HaproxyDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.health_probe import HealthProbeDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.iis import IisDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.nginx import NginxDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.nothing import Nothing
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.on_host import HostDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.service import ServiceDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.tasks import TasksDuty, TrafficTasksDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.traffic import TrafficDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, Options

CUSTOM: str = TrafficTasksDuty.name
NONE: str = Nothing.name
"""What a duty of the type C(tasks) is that brings traffic, and what there is in the settings if nothing brings any."""

TRAFFIC: dict[str, TrafficDuty] = {
    duty.name: duty for duty in (HaproxyDuty(), NginxDuty(), HealthProbeDuty(), AzureLoadBalancerDuty(), TrafficTasksDuty(), Nothing())
}
"""What brings traffic, by the key C(provider) of the settings."""
ON_HOST: dict[str, HostDuty] = {duty.name: duty for duty in (ServiceDuty(), TasksDuty(), IisDuty(), *map(ClusterDuty, TYPES.values()))}
"""What brings none, by the values of C(type) in C(graceful_azure_duties)."""


def types() -> dict[str, Duty]:
    """All of them, by the values of C(type)."""
    return {**{name: duty for name, duty in TRAFFIC.items() if name not in (CUSTOM, NONE)}, **ON_HOST}


def uncounted(least: object, providers: Iterable[str]) -> str:
    """What is wrong with a minimum in service where none of these duties that bring traffic counts it; empty if nothing is. C(least): as it is given."""
    counts = [TRAFFIC[provider].counts_again for provider in providers]
    if not least or asks_for_none(least) or not counts or any(counts):
        return ""
    *others, last = (name for name, duty in TRAFFIC.items() if duty.counts_again)
    return f"set, and nothing counts it: a role or module that is used alone counts only where a duty is of the type {', '.join(others)} or {last}"


def settings_of(provider: str, options: Options, host: str, address: str | None = None) -> BalancerSettings:
    """The settings of one balancer. C(options): those of its entry in C(graceful_azure_duties). C(host): the host's name in the inventory.

    C(address): its C(ansible_host), if it has one.
    """
    duty = TRAFFIC[provider]
    given = {name: value for name, value in options.items() if value is not None and value != ""}
    options = duty.completed({**{name: spec.get("default") for name, spec in duty.options.items()}, **given}, host, address)
    return {
        "provider": provider,
        "hosts": [str(machine) for machine in options.get("hosts") or ()],
        "server": str(options.get("server") or host),
        **duty.settings(options, host),
    }
