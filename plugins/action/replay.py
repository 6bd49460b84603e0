# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.replay); see its module for the options.

Reads a journal on the controller, lets the pure plan decide each pass anew and shows it.
"""

from __future__ import annotations

import os

from ansible.utils.display import Display
from ansible_collections.graceful.azure.plugins.plugin_utils._controller_action import ControllerAction
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.steps import step_words
from ansible_collections.graceful.azure.plugins.plugin_utils._replay import ReplayError, read_pass, replay
from ansible_collections.graceful.azure.plugins.plugin_utils._text import clock, printable

display = Display()


class ActionModule(ControllerAction):
    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _validated, args = self.validate_argument_spec(argument_spec={"journal": {"type": "path", "required": True}, "number": {"type": "int"}})
        result.update(changed=False, passes=0, different=0, unreadable=[])
        path = os.path.abspath(args["journal"])
        wanted = args["number"]
        found = set()
        shown = {}
        try:
            with open(path, encoding="utf-8", errors="replace") as journal:
                for number, line in enumerate(journal, start=1):
                    try:
                        recorded = read_pass(line)
                        found.add(recorded["world"].get("pass"))
                        if wanted is not None and recorded["world"].get("pass") != wanted:
                            continue
                        told = replay(recorded)
                    except ReplayError as error:
                        # A run that was killed leaves half a line.
                        result["unreadable"].append(f"{path}: line {number} {error}")
                        continue
                    result["passes"] += 1
                    result["different"] += bool(told["differences"])
                    shown = self._show(told, shown)
        except OSError as error:
            return dict(result, failed=True, msg=f"journal {path} cannot be read: {error.strerror}")
        for sentence in result["unreadable"]:
            display.warning(printable(sentence))
        result.update(self._verdict(path, result, wanted, found))
        if not result.get("failed"):
            display.display(printable(result["msg"]))
        return result

    @staticmethod
    def _verdict(path, result, wanted, found):
        if not result["passes"]:
            if wanted is not None and found:
                return {"failed": True, "msg": f"{path} holds no pass {wanted}; its passes are {min(found)} to {max(found)}"}
            return {"failed": True, "msg": f"{path} holds no pass"}
        passes = f"{result['passes']} pass{'' if result['passes'] == 1 else 'es'} planned again"
        if result["different"]:
            return {"failed": True, "msg": f"{passes}, {result['different']} of them decided otherwise than the run did"}
        return {"msg": f"{passes}, each decided as the run did"}

    @staticmethod
    def _show(told, before):
        """Show a pass. A host that stands as in the pass before is left out; returns what was shown of each."""
        now = told["time"]
        lines = {}
        for name, decision in told["hosts"].items():
            line = f"    {name}  {decision['state']}  {decision['reason']}"
            if decision["step"]:
                line += f"  ({step_words(decision['step'])}: {decision['step']['role']} {decision['step']['state']})"
            if decision["until"]:
                line += f"  until {clock(decision['until'], now)}"
            lines[name] = line
        run = told["run_started"]
        # Passes of several runs may follow each other in one file.
        fresh = lines if before.get("run") != run else {name: line for name, line in lines.items() if before["lines"].get(name) != line}
        if fresh or told["differences"]:
            verdict = "decided OTHERWISE than the run did" if told["differences"] else "as the run decided"
            display.display(f"{clock(now)}  pass {told['pass']} of the run of {clock(run, 0)}: {verdict}", color="red" if told["differences"] else None)
            for line in fresh.values():
                display.display(printable(line))
            for sentence in told["differences"]:
                display.display(printable(f"    differs: {sentence}"), color="red")
        return {"run": run, "lines": lines}
