# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.host_observation); see its module for the options."""

from __future__ import annotations

import time

from ansible_collections.graceful.azure.plugins.plugin_utils._look import LookAction

INTERVAL = 1.0
"""Seconds that lie at least between two reads of one metadata service: Azure's advice for polling."""


ANSWER = 4.0
"""Seconds that the host's own service may take to answer, where it is asked."""


class ActionModule(LookAction):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        args = dict(self._task.args)
        interval = max(INTERVAL, float(args.pop("interval", INTERVAL)))
        rest = float(args.pop("rest", 0))
        last = task_vars.get("graceful_azure_host") or {}
        since = time.time() - last.get("at", 0)
        # Where the clock was set back nothing is known of how long ago it was.
        if 0 <= since < rest:
            return dict(last, changed=False, rested=True, news=False)
        if self.is_spared(last):
            time.sleep(interval)
            return dict(last, changed=False, rested=True, news=False)
        time.sleep(max(0.0, min(interval, interval - since)))
        timeout, wait = float(args.get("timeout", 5)), float(args.get("wait", 0))
        # The metadata service is read once more at the end of the wait, and again where an expected event is gone.
        seconds = timeout + wait + (timeout if wait else 0) + (timeout + INTERVAL if args.get("expected") else 0) + (ANSWER if args.get("ask") else 0)
        result = self.look("graceful.azure.host_observation", dict(args, known=last.get("fingerprint", "")), task_vars, seconds)
        news = result.get("fingerprint") != last.get("fingerprint")
        return dict(result, rested=False, news=news, at=time.time() - result.get("age", 0.0))
