# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The wait of M(graceful.azure.connections_info) in short calls, which goes on when the host comes back."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.plugin_utils._wait_action import WaitAction


class ActionModule(WaitAction):
    def finished(self, result):
        return bool(result.get("failed") or result.get("idle"))

    def progress(self, result):
        return ", ".join((result or {}).get("left") or ["connections to end"])
