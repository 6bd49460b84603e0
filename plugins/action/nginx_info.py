# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.nginx_info): its wait goes on across a lost connection to the balancer."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.plugin_utils._steps.nginx import still_there
from ansible_collections.graceful.azure.plugins.plugin_utils._wait_action import WaitAction


class ActionModule(WaitAction):
    def run(self, tmp=None, task_vars=None):
        try:
            quiet = float(self._task.args.get("quiet") or 0)
        except (TypeError, ValueError):
            quiet = 0.0  # the module says what is wrong with it
        # One call sees the whole span without a connection.
        self.STEP_SECONDS = max(self.STEP_SECONDS, quiet + 2)
        return super().run(tmp, task_vars)

    def finished(self, result):
        return bool(result.get("failed") or result.get("idle"))

    def progress(self, result):
        named = [server for server in (result or {}).get("servers", []) if self._named(server["server"])]
        busy = [sentence for server in named for sentence in still_there(f"{server['server']} in upstream {server['upstream']}", server)]
        return "; ".join(busy) or "the balancer's servers to be idle"

    def _named(self, name):
        servers = self._task.args.get("wait_for", self._task.args.get("servers"))
        if isinstance(servers, str):
            servers = servers.split(",")
        return servers is None or name in servers
