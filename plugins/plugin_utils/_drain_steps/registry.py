# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The types of drain steps. Private to the collection; pure."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.module_utils._cluster_types import TYPES
from ansible_collections.graceful.azure.plugins.plugin_utils._drain_steps.cluster import Cluster
from ansible_collections.graceful.azure.plugins.plugin_utils._drain_steps.iis import Iis
from ansible_collections.graceful.azure.plugins.plugin_utils._drain_steps.kind import Kind
from ansible_collections.graceful.azure.plugins.plugin_utils._drain_steps.service import Service
from ansible_collections.graceful.azure.plugins.plugin_utils._drain_steps.tasks import Tasks

KINDS: dict[str, Kind] = {kind.name: kind for kind in (Service(), Tasks(), Iis(), *map(Cluster, TYPES.values()))}
"""By the values of C(type) in C(drain_host_steps)."""
