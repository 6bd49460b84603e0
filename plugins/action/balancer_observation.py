# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.balancer_observation); see its module for the options."""

from __future__ import annotations

import time

from ansible_collections.graceful.azure.plugins.plugin_utils._look import LookAction

SOCKET = 5.0
"""Seconds that HAProxy may take to answer, and its command line to be found."""


class ActionModule(LookAction):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        args = dict(self._task.args)
        rest = float(args.pop("rest", 0))
        last = self._last(task_vars) or {}
        if self.is_spared(last) or 0 <= time.time() - last.get("began", 0) < rest and not self._news(task_vars):
            return dict(last, rested=True)
        result = self.look("graceful.azure.haproxy_info", args, task_vars, float(args.get("timeout", 0)) + SOCKET)
        if result.get("absent"):
            result["error"] = "no HAProxy runs there"
        if result["reached"] and result["level"] not in (None, "admin"):
            result["fatal"] = f"the HAProxy socket {args['socket']} allows only the level {result['level']}; admin is needed"
        elif result["reached"] and result.get("state_dir_problem"):
            result["fatal"] = result["state_dir_problem"]
        if result.get("fatal"):
            result["servers"] = None
        return dict(result, rested=False)

    @staticmethod
    def _last(task_vars):
        """The former look at the same balancer in this run. The playbook holds has but one, and names its looks otherwise."""
        look = task_vars.get("look")
        key = look["key"] if isinstance(look, dict) else None
        for item in (task_vars.get("graceful_azure_balancers") or {}).get("results") or ():
            if key and isinstance(item.get("look"), dict) and item["look"]["key"] == key and item.get("began"):
                return {name: value for name, value in item.items() if name != "look" and not name.startswith("_ansible")}
        return None

    @staticmethod
    def _news(task_vars):
        """Whether any host of the play has seen something new in this pass."""
        hosts = (task_vars["hostvars"].raw_get(name) for name in task_vars["ansible_play_hosts_all"])
        return any((facts.get("graceful_azure_host") or {}).get("news", True) for facts in hosts)
