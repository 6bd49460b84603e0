# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.balancer_observation); see its module for the options."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.plugin_utils._look import LookAction


class ActionModule(LookAction):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        result = self.look("graceful.azure.haproxy_info", dict(self._task.args), task_vars)
        if result["reached"] and result["level"] not in (None, "admin"):
            result["fatal"] = f"the HAProxy socket {self._task.args['socket']} allows only the level {result['level']}; admin is needed"
        elif result["reached"] and result.get("state_dir_problem"):
            result["fatal"] = result["state_dir_problem"]
        if result.get("fatal"):
            result["servers"] = None
        return result
