# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Duties that bring no traffic, as the plan has them in its settings."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.plugin_utils._duties import listed
from ansible_collections.graceful.azure.plugins.plugin_utils._former_variables import entries_of_steps


def steps_of(before=None, steps=(), services=(), after=None, folder=""):
    """The arguments are the values of C(drain_host_*), read as the settings read them. Mistakes are told elsewhere."""
    given = {"drain_host_before": before, "drain_host_steps": steps, "drain_host_services": services, "drain_host_after": after}
    entries = listed.read_entries(entries_of_steps(given), (), folder, lambda path: None, [])
    return listed.steps_of(entries, is_former=True)
