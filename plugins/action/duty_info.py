# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.duty_info); see its module for the options."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.plugin_utils._duty_action import DutyInfoAction


class ActionModule(DutyInfoAction):
    """Runs the module for the duties of this machine, and asks Azure from here."""
