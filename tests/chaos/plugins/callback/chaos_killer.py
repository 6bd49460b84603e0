# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes down every task that begins, and kills the controller at one of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: chaos_killer
type: notification
short_description: Ends ansible-playbook at a given task
description:
  - Used by the chaos tests of this collection.
  - E(CHAOS_TRACE) is the file to which every task that begins is written, a line of JSON each.
  - E(CHAOS_KILL) is a JSON object with RV(ignore:task), RV(ignore:occurrence), RV(ignore:delay) and RV(ignore:who).
"""

STRIKE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "strike.py")


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "chaos_killer"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self):
        super().__init__()
        self.begun = time.monotonic()
        self.seen = Counter()
        self.kill = json.loads(os.environ.get("CHAOS_KILL", "null"))

    def v2_playbook_on_task_start(self, task, is_conditional):
        name = task.get_name()
        self.seen[name] += 1
        with open(os.environ["CHAOS_TRACE"], "a", encoding="utf-8") as stream:
            stream.write(json.dumps({"task": name, "occurrence": self.seen[name], "at": time.monotonic() - self.begun}) + "\n")
        if self.kill and (name, self.seen[name]) == (self.kill["task"], self.kill["occurrence"]):
            delay = self.kill["delay"]
            process = subprocess.Popen([sys.executable, "-I", "-S", STRIKE, str(os.getpid()), str(delay), self.kill["who"]])
            if not delay:
                process.wait()
