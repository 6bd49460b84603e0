# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math

from ansible_collections.graceful.azure.plugins.module_utils._events import describe
from ansible_collections.graceful.azure.plugins.module_utils._spellings import listed
from ansible_collections.graceful.azure.plugins.module_utils._waiting import TIMEOUT, result_values, timeout_message, wait_argument_spec
from ansible_collections.graceful.azure.plugins.plugin_utils._wait_action import WaitAction


class ActionModule(WaitAction):
    """Carries the wait across everything that happens to the host: an event takes its connection away."""

    DEFAULT_TIMEOUT = wait_argument_spec()["timeout"]["default"]
    LONGEST_CALL_SECONDS = 30.0

    def limit(self, timeout):
        return timeout or math.inf

    def step_args(self, seconds, left, last):
        last = last or {}
        answered = last.get("document_incarnation") is not None
        args = dict(self._task.args, timeout=0 if left == math.inf else left, _part={"seconds": seconds, "answered": answered})
        if last:
            # What earlier calls have waited for and learned need not be waited for, or asked, again.
            args["delay"] = 0
            if last.get("resource_name"):
                args["resource_name"] = last["resource_name"]
        elif args.get("delay") and left < self._seconds() < math.inf:
            args["delay"] = max(0.0, float(args["delay"]) - (self._seconds() - left))
        return args

    def finished(self, result):
        return bool(result.get("failed")) or result.get("outcome") is not None

    def progress(self, result):
        events = (result or {}).get("events") or []
        return f"{' or '.join(self._states())}; {listed([describe(event) for event in events]) or 'no such event'}"

    def timed_out(self, result, error, elapsed):
        last = result or result_values(None, [])
        message = timeout_message(self._states(), last["events"], elapsed, error or last.get("_error"))
        return dict(last, failed=True, msg=message, outcome=TIMEOUT)

    def _wait(self, seconds, task_vars):
        started = self.monotonic()
        result = super()._wait(seconds, task_vars)
        result.pop("_error", None)
        # The last call knows its own part alone.
        return dict(result, changed=False, elapsed=round(self.monotonic() - started, 3))

    def _states(self):
        states = self._task.args.get("state", "present")
        return states.split(",") if isinstance(states, str) else [str(state) for state in states]
