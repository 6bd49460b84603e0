# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.host_observation); see its module for the options."""

from __future__ import annotations

import time

from ansible_collections.graceful.azure.plugins.plugin_utils._look import LookAction

INTERVAL = 1.0
"""Seconds that lie at least between two looks at one host: Azure's advice for polling."""


class ActionModule(LookAction):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        args = dict(self._task.args)
        interval = max(INTERVAL, float(args.pop("interval", INTERVAL)))
        last = (task_vars.get("graceful_azure_host") or {}).get("at")
        if last is not None:
            time.sleep(min(interval, max(0.0, float(last) + interval - time.time())))
        return self.look("graceful.azure.host_observation", args, task_vars)
