# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kinds of balancers that the plan can work with. Private to the collection; pure."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import Provider
from ansible_collections.graceful.azure.plugins.plugin_utils._providers.azure_load_balancer import AzureLoadBalancer
from ansible_collections.graceful.azure.plugins.plugin_utils._providers.custom import Custom
from ansible_collections.graceful.azure.plugins.plugin_utils._providers.haproxy import Haproxy
from ansible_collections.graceful.azure.plugins.plugin_utils._providers.health_probe import HealthProbe
from ansible_collections.graceful.azure.plugins.plugin_utils._providers.nginx import Nginx
from ansible_collections.graceful.azure.plugins.plugin_utils._providers.none import NoBalancer

PROVIDERS: dict[str, Provider] = {provider.name: provider for provider in (Haproxy(), Nginx(), HealthProbe(), AzureLoadBalancer(), Custom(), NoBalancer())}
"""By the values of C(load_balancer_provider)."""
