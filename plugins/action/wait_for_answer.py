# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The wait of M(graceful.azure.wait_for_answer) in short calls, which goes on when the host comes back."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.plugin_utils._wait_action import WaitAction


class ActionModule(WaitAction):
    def run(self, tmp=None, task_vars=None):
        started = self.monotonic()
        result = super().run(tmp, task_vars)
        if "elapsed" in result:
            # The module knows of its last call alone.
            result["elapsed"] = round(self.monotonic() - started, 3)
        return result

    def finished(self, result):
        # A call whose time ran out has failed and says that there was no answer; any other failure is final.
        return result.get("answered") is not False

    def progress(self, result):
        return f"an answer ({result['reason']})" if result and result.get("reason") else "an answer"

    def timed_out(self, result, error, elapsed):
        result = super().timed_out(result, error, elapsed)
        return dict(result, msg=f"No answer within {elapsed:.0f} s: {result['reason']}")
