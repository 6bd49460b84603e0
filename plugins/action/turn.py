# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.turn); see its module for the options."""

from __future__ import annotations

import contextlib
import time

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.registry import TRAFFIC
from ansible_collections.graceful.azure.plugins.plugin_utils._look_action import INTERVAL, LookAction
from ansible_collections.graceful.azure.plugins.plugin_utils._news import News
from ansible_collections.graceful.azure.plugins.plugin_utils._own_files import DONE, args_of, result_of
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.registry import OVERHEAD, is_windows, run_module
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.without_role import is_due

OWN = {
    "approval_hold": ("state_dir", "imds_url"),
    "host_observation": ("state_dir", "imds_url"),
    "scheduled_events_info": ("imds_url",),
    "azure_event_acknowledge": (),
    "wait_for_answer": (),
}
"""Which options of a module each machine has of its own. All other modules have a folder of records."""
PASSED_ON = ("diff", "warnings", "deprecations")
"""What Ansible shows of a result."""

_done = {}
"""What the acts of this pass returned, also those of earlier turns. The loop over the turns of a host runs in one process of its own."""


class ActionModule(LookAction):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        turn = self._task.args["turn"]
        # What goes wrong here is told by the step that needs it.
        with contextlib.suppress(AnsibleError, OSError):
            for module in () if is_windows(self, task_vars) else turn.get("prepare", ()):
                self._configure_module(f"graceful.azure.{module}", {}, task_vars)
        acts = self._act(turn, task_vars) if turn.get("acts") else []
        # The look waits for nothing after a failure, after the last step of the host, which was idle before it, and if a step has waited itself.
        at_once = any(act.get("failed") or act.get("unreachable") or act["part"] == "drained" or _has_waited(act, turn) for act in acts)
        is_back = turn.get("unless_back") and not any(act["part"] == "restoring" for act in acts)
        result = self._look(turn, task_vars, at_once) if "options" in turn and not is_back else {"changed": False}
        if acts:
            result.update(acts=acts, changed=any(act.get("changed") for act in acts))
            for key in PASSED_ON:
                found = [entry for act in acts for entry in _as_list(act.pop(key, None))]
                if found:
                    result[key] = _as_list(result.get(key)) + found
        time.sleep(turn.get("pause", 0))
        return result

    def _act(self, turn, task_vars):
        """Run the acts that are due. Returns what each module returned, also if it failed or its machine could not be reached."""
        name, machine = task_vars["inventory_hostname"], turn.get("machine")
        file = _done_file(name, task_vars)
        done = _done.setdefault((name, self._task.args.get("number")), [])
        told = []
        for act in turn["acts"]:
            if not is_due(act, name, turn["balancers"], done + told):
                continue
            try:
                args = self._with_own(act["module"], args_of(act, file))
                if act["part"] == "sent" and is_windows(self, task_vars):
                    args["timeout"] += OVERHEAD  # how long the plan is true (ready_until) stays as it is
                result = run_module(self, act["module"], args, task_vars)
            except AnsibleConnectionFailure as error:
                self._connection._shell.tmpdir = None
                result = {"unreachable": True, "msg": str(error)}
            except (AnsibleError, OSError) as error:
                result = {"failed": True, "msg": str(error)}
            result.pop("invocation", None)
            where = {"balancer": act["balancer"]} if "balancer" in act else {}
            if machine and where:
                where["item"] = machine
            told.append(dict(result_of(act, result, file), part=act["part"], ended_at=time.time(), **where))
        done.extend(told)
        return told

    def _look(self, turn, task_vars, at_once):
        args = self._task.args
        news = News(args["news"], args.get("known") or ()) if args.get("news") else None
        if "module" in turn:
            return self.look_at_balancer(TRAFFIC[turn["provider"]], turn["module"], self._with_own(turn["module"], turn["options"]), task_vars, news)
        interval = max(INTERVAL, float(args.get("interval", INTERVAL)))
        options = self._with_own("host_observation", turn["options"])
        without_wait = dict(options, wait=0.0)
        result = self.look_at_host(without_wait if at_once else options, task_vars, news, turn, interval)
        if not (result.get("ended") and turn.get("again")):
            return result
        # The look that was ended has written it.
        return self.look_at_host(dict(without_wait, journal={}), task_vars, news)

    def _with_own(self, module, args):
        """The options of a module, with the options that each machine has of its own."""
        return dict(args, **{name: self._task.args[name] for name in OWN.get(module, ("state_dir",)) if self._task.args.get(name)})


def _done_file(name, task_vars):
    """The record of the task file that ran at the end of the former pass and said that it is done, or None."""
    passed = task_vars.get("graceful_azure_plan") or {}
    file = (passed.get("files") or {}).get(name)
    failed = (task_vars.get("graceful_azure_failure") or {}).get("pass") == passed.get("number")
    return file["record"] if file and not failed and boolean(task_vars.get(DONE), strict=False) else None


def _has_waited(act, turn):
    """Whether a drain step waited as long as a pass may, and is not done. It does not matter then whether the host is idle."""
    return act["part"] == "steps" and not act.get("done") and any(todo["part"] == "steps" and todo["args"].get("timeout") for todo in turn["acts"])


def _as_list(value):
    return list(value) if isinstance(value, (list, tuple)) else [value] if value else []
