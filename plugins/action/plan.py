# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.plan); see its module for the options.

Hands what every host registered to one pass of the run (C(plugin_utils/_run/)), and shows what changed. It decides nothing and changes nothing on any machine.
"""

from __future__ import annotations

import time

from ansible import constants as C
from ansible.utils.display import Display
from ansible_collections.graceful.azure.plugins.plugin_utils._controller_action import ControllerAction
from ansible_collections.graceful.azure.plugins.plugin_utils._notify import notices
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.steps import step_words
from ansible_collections.graceful.azure.plugins.plugin_utils._run import rehearsal
from ansible_collections.graceful.azure.plugins.plugin_utils._run.passes import carried_on, farewells, one_pass
from ansible_collections.graceful.azure.plugins.plugin_utils._run.sinks import sinks_of
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import NOTIFY
from ansible_collections.graceful.azure.plugins.plugin_utils._text import plain, printable
from ansible_collections.graceful.azure.plugins.plugin_utils._verbosity import kept_inside

SHOWN = ("warnings", "messages", "table")
"""What a person reads; everything else keeps the original text."""

display = Display()


class ActionModule(ControllerAction):
    """Phase C(pass) makes the plan of one pass; phase C(result) ends a run."""

    def run(self, tmp=None, task_vars=None):
        result = dict(super().run(tmp, task_vars), changed=False)
        last = task_vars["graceful_azure_plan"]
        if self._task.args.get("phase") == "result":
            if last.get("notices"):
                result["warnings"] = notices.end(last["notices"], self._templar, task_vars)
            result.update(self._close(last))
            return result
        active = set(task_vars["ansible_play_hosts"])
        known = {name: task_vars["hostvars"].raw_get(name) if name in active else None for name in last["settings"]}
        # Nobody is told of the event of a rehearsal.
        to_tell = task_vars if task_vars.get(NOTIFY) and not self._task.args.get("story") else None
        sinks = sinks_of(self._task.args, last["run"].get("check"), self._show, self._templar, to_tell)
        # Ansible removes this folder when the run ends.
        result.update(one_pass(known, last, sinks, time.time(), C.DEFAULT_LOCAL_TMP))
        if self._task.args.get("story"):
            begun = plain(task_vars["graceful_azure_rehearse_begin"])
            watched, lines = rehearsal.watched(task_vars["inventory_hostname"], dict(result, seen=plain(result["seen"])), begun, time.time())
            result.update(watched)
            result["goes_on"] = self.goes_on(result["finished"], result["number"])
            for line in printable(lines):
                self._show(line)
        if result["finished"]:
            result["farewells"] = farewells(result)
        result.update({key: printable(result[key]) for key in SHOWN if key in result})
        if not self._task.args.get("story"):
            # The last pass counts. That of a rehearsal is about no event of Azure.
            result["ansible_stats"] = carried_on(result)
        for name, decision in result["hosts"].items():
            if decision["step"] and not result["finished"]:
                display.v(printable(f"{name}: next {step_words(decision['step'])}"))
        return kept_inside(result)

    @staticmethod
    def _show(line, color=None):
        display.display(line, color=color)

    @staticmethod
    def _close(last):
        """The end of a run: the closing table as lines, and whether the run failed and why."""
        for line in printable(last["table"]):
            display.display(line)
        if last.get("report"):
            display.display(printable(f"The report of this run: {last['report']}"))
        if last["finished"] and not last["failed_run"]:
            return {}
        why = "this run failed; the lines above say why" if last["messages"] else "the run ended before everything was done; start it again"
        return {"failed": True, "msg": why}
