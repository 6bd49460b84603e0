# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The base of actions that run the module of their name, or what stands for it on the host's platform."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.by_platform import is_windows, run_module
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Variables


class PlatformAction(NormalAction):
    _supports_check_mode = True
    _supports_async = True
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> dict[str, Any]:
        if not is_windows(self, task_vars):
            result: dict[str, Any] = super().run(tmp, task_vars)
            return result
        module = self._task.action.rpartition(".")[2]
        return dict(run_module(self, module, self._task.args, task_vars or {}))
