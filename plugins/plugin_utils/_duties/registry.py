# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The types of duties. Private to the collection; pure."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.plugin_utils._drain_steps.registry import KINDS
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.duty import Duty
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.load_balancer import BALANCERS, CUSTOM, NONE


def types() -> dict[str, Duty]:
    """By the values of C(type) in C(graceful_azure_duties)."""
    return {**{name: balancer for name, balancer in BALANCERS.items() if name not in (CUSTOM, NONE)}, **KINDS}
