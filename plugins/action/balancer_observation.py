# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.balancer_observation); see its module for the options."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.plugin_utils._duties.registry import TRAFFIC
from ansible_collections.graceful.azure.plugins.plugin_utils._look_action import LookAction


class ActionModule(LookAction):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        args = self._task.args
        return self.look_at_balancer(TRAFFIC[args["provider"]], args["module"], args["options"], task_vars)
