# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.give_back); see its module for the options."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.registry import run_module


class ActionModule(ActionBase):
    TRANSFERS_FILES = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        args = self._task.args
        result.update(run_module(self, args["module"], args["options"], task_vars))
        return result
