# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.alone); see its module for the options.

Hands the variables of one host, and what it has registered, to C(plugin_utils/_run/alone.py). It decides nothing and changes nothing on any machine.
"""

from __future__ import annotations

import time

from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.graceful.azure.plugins.plugin_utils._controller_action import ControllerAction
from ansible_collections.graceful.azure.plugins.plugin_utils._core import too_old
from ansible_collections.graceful.azure.plugins.plugin_utils._former_variables import written_in
from ansible_collections.graceful.azure.plugins.plugin_utils._run.alone import begin, one_pass, refused
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import forbidden, names_for_role, read_role
from ansible_collections.graceful.azure.plugins.plugin_utils._text import printable
from ansible_collections.graceful.azure.plugins.plugin_utils._variables import of_hosts, resolve, unsaid_connections
from ansible_collections.graceful.azure.plugins.plugin_utils._verbosity import kept_inside

AWAIT_CHECKS = "__load_balancer_await_checks"
"""The playbook holds sets it to false: a host that is gone for good passes no checks."""

display = Display()


class ActionModule(ControllerAction):
    """Begins a role for one host, says how it goes on, or how it ended."""

    def run(self, tmp=None, task_vars=None):
        result = dict(super().run(tmp, task_vars), changed=False)
        if self._task.args.get("phase") == "end":
            # As an assertion does it, the result is shown also without -v.
            return dict(result, _ansible_verbose_always=True, **_ended(task_vars["graceful_azure_alone"]))
        if self._task.args.get("phase") == "pass":
            last = task_vars["graceful_azure_alone"]
            result.update({key: last[key] for key in ("connection", "unsaid_connections", "passes")})
            result.update(one_pass(task_vars, last, time.time()))
            result["passes"] += 1
        else:
            result.update(self._begin(self._task.args["role"], task_vars), passes=0)
        result["goes_on"] = self.goes_on(result["finished"], result["passes"])
        result["failure"], result["warnings"] = printable(result["failure"]), printable(result.get("warnings") or [])
        for line in result.pop("lines"):
            display.display(line)
        if not result["finished"]:
            time.sleep(result["pause"])
        return kept_inside(result)

    def _begin(self, role, task_vars):
        hostvars, name = task_vars["hostvars"], task_vars["inventory_hostname"]
        values, unresolved = resolve(self._templar, names_for_role(role), task_vars)
        values.update(written_in(task_vars))
        settings, mistakes = read_role(role, name, values, set(hostvars), task_vars["playbook_dir"], self._loader, unresolved)
        mistakes = [*too_old(), *mistakes, *forbidden(load_extra_vars(self._loader), alone=True)]
        # A play of the user may say how all machines are reached.
        usual = self._task.get_play().connection
        if mistakes:
            return dict(refused("; ".join(mistakes)), connection=usual, unsaid_connections=[])
        machines = {machine for balancer in settings.get("load_balancers", ()) for machine in balancer["hosts"]}
        reached = of_hosts(sorted(machines), hostvars, self._task)
        settings["used"]["await_checks"] = task_vars.get(AWAIT_CHECKS)
        begun = begin(role, name, settings, time.time(), self._task.check_mode)
        return dict(begun, connection=usual, unsaid_connections=unsaid_connections(reached, usual))


def _ended(last):
    """What a person reads in the end. An assertion would show what it compares, too, and where in this collection it is written."""
    return {"failed": True, "msg": last["failure"]} if last["failure"] else {"msg": printable(last["result"]["reason"])}
