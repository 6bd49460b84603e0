# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One request to the machine of the task, as a pass sends it."""

from __future__ import annotations

import time

from ansible.plugins.action import ActionBase
from ansible_collections.graceful.azure.plugins.plugin_utils import _helper


class ActionModule(ActionBase):
    TRANSFERS_FILES = False

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        if self._task.args["request"]["do"] == "farewell":
            _helper.farewell(self, task_vars)
            return {"changed": False}

        def run_module(args):
            return self._execute_module(module_name="asked", module_args=args, task_vars=task_vars)

        began = time.monotonic()
        answer = _helper.ask(self, {"request": self._task.args["request"]}, task_vars, run_module)
        name = _helper.name_of(self, _helper.machine_of(self, task_vars)[0])
        return dict(answer, took=time.monotonic() - began, name=name)
