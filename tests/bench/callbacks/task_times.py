# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes the name and the seconds of every task that ran, one line of JSON each, to the file TASK_TIMES."""

from __future__ import annotations

import json
import os
import time

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: task_times
type: notification
short_description: Seconds of every task
description:
  - Used by the benchmarks of this collection. For plays with one host.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "task_times"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self):
        super().__init__()
        self.started = 0.0

    def v2_playbook_on_task_start(self, task, is_conditional):
        self.started = time.monotonic()

    def v2_runner_on_ok(self, result):
        seconds = time.monotonic() - self.started
        with open(os.environ["TASK_TIMES"], "a", encoding="utf-8") as stream:
            stream.write(json.dumps({"task": result._task.get_name(), "seconds": seconds}) + "\n")
