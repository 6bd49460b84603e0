# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Duties that bring no traffic, as the plan has them in its settings."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.plugin_utils._duties import listed


def steps_of(*duties, folder=""):
    """The arguments are entries of C(graceful_azure_duties), read as the settings read them. Mistakes are told elsewhere."""
    return listed.steps_of(listed.read_entries(listed.written(duties, []), (), folder, lambda path: None, []))
