# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.turn); see its module for the options."""

from __future__ import annotations

import contextlib
import time

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.graceful.azure.plugins.module_utils._events import READ_SECONDS
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import TRAFFIC
from ansible_collections.graceful.azure.plugins.plugin_utils._look_action import (
    LookAction,
    after_rest,
    balancer_seconds,
    grace,
    host_seconds,
    request_of,
    rest_of,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._news import News
from ansible_collections.graceful.azure.plugins.plugin_utils._own_files import DONE, args_of, result_of
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.by_platform import OVERHEAD, farewell, is_windows, run_module
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.without_role import COUNTING, is_due
from ansible_collections.graceful.azure.plugins.plugin_utils._time_limit import CutOffError, TimeLimit, end_if_run_was_killed
from ansible_collections.graceful.azure.plugins.plugin_utils._verbosity import kept_inside

OWN = {
    "approval_hold": ("state_dir", "imds_url"),
    "host_observation": ("state_dir", "imds_url"),
    "scheduled_events_info": ("imds_url",),
    "azure_event_acknowledge": (),
    "wait_for_answer": (),
}
"""Which options of a call each machine has of its own. All others have a folder of records."""
MODULES = ("scheduled_events_info", "azure_event_acknowledge")
"""Acts that are modules of their own."""
PASSED_ON = ("diff", "warnings", "deprecations")
"""What Ansible shows of a result."""

_done = {}
"""What the acts of this pass returned, also those of earlier turns. The loop over the turns of a host runs in one process of its own."""


class ActionModule(LookAction):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        turn = self._task.args["turn"]
        if turn.get("farewell"):
            return self._say_farewell(task_vars)
        news = News(self._task.args["news"], self._task.args.get("known") or ()) if self._task.args.get("news") else None
        acts, look = self._act(turn, task_vars, news)
        if "options" in turn and look is None:
            look = self._look(turn, task_vars, news, at_once=any(act.get("failed") or act.get("unreachable") for act in acts))
        result = {"changed": False} if look is None else look
        if acts:
            result.update(acts=acts, changed=any(act.get("changed") for act in acts))
            for key in PASSED_ON:
                found = [entry for act in acts for entry in _as_list(act.pop(key, None))]
                if found:
                    result[key] = _as_list(result.get(key)) + found
        time.sleep(turn.get("pause", 0))
        end_if_run_was_killed()
        return kept_inside(result)

    def _say_farewell(self, task_vars):
        """Tell the machine that the run is over. If that is not possible, what runs there for the run ends by itself."""
        with contextlib.suppress(AnsibleError, OSError, CutOffError), TimeLimit(grace(task_vars)):
            farewell(self, task_vars)
            return {"changed": False}
        self._connection._shell.tmpdir = None  # nobody tries to remove it there
        return {"changed": False}

    def _act(self, turn, task_vars, news):
        """Take the acts that are due, and look after the last one. Returns what each act came to, also if it failed or its machine could not be reached,
        and the look, or None if there was none."""
        name = task_vars["inventory_hostname"]
        file = _done_file(self._task.args, task_vars)
        done = _done.setdefault((name, self._task.args.get("number")), [])
        told, look, parts = [], None, _parts(turn.get("acts") or ())
        for number, part in enumerate(parts):
            due = [act for act in part if is_due(act, name, turn["balancers"], done + told)]
            if due:
                # The machine sees whether it is needed.
                due += [act for act in part if act["part"] == "restoring" and act not in due]
            if not due:
                continue
            if due[0]["module"] in MODULES:
                results = [self._run(act, args_of(act, file), task_vars) for act in due]
            else:
                results, look = self._take(turn, due, file, task_vars, news, looks="options" in turn and number == len(parts) - 1)
            told.extend(self._named(turn, act, result, file) for act, result in zip(due, results) if result is not None)
        done.extend(told)
        return told, look

    @staticmethod
    def _named(turn, act, result, file):
        result.pop("invocation", None)
        where = {"balancer": act["balancer"]} if "balancer" in act else {}
        if turn.get("machine") and where:
            where["item"] = turn["machine"]
        return dict(result_of(act, result, file), part=act["part"], ended_at=time.time(), **where)

    def _run(self, act, args, task_vars):
        """Run the module of an act."""
        try:
            return run_module(self, act["module"], self._with_own(act["module"], args), task_vars)
        except AnsibleConnectionFailure as error:
            self._connection._shell.tmpdir = None
            return {"unreachable": True, "msg": str(error)}
        except (AnsibleError, OSError) as error:
            return {"failed": True, "msg": str(error)}

    def _take(self, turn, due, file, task_vars, news, looks):
        """One request: the acts that are due, and the look if it is wanted."""
        calls = []
        for act in due:
            args = self._with_own(act["module"], args_of(act, file))
            if act["part"] == "sent" and is_windows(self, task_vars):
                args["timeout"] += OVERHEAD  # how long the plan is true (ready_until) stays as it is
            calls.append({"call": act["module"], "args": args, "counts": act["part"] in COUNTING and not act.get("always"), "at_once": _at_once(act)})
            if act["part"] == "restoring" and len(due) > 1:
                calls[-1]["otherwise"] = True
        if not looks:
            answer = self.ask(request_of(None, calls), task_vars, 0.0)
            return answer["acts"], None
        if "module" in turn:
            options = self._with_own(turn["module"], turn["options"])
            answer = self.ask(request_of({"call": turn["module"], "args": options}, calls), task_vars, balancer_seconds(options))
            return answer["acts"], TRAFFIC[turn["provider"]].read(dict(answer["look"], at=time.time()), options)
        options = self._with_own("host_observation", turn["options"])
        journal = options.pop("journal", None)
        interval = READ_SECONDS if any(act["part"] == "sent" for act in due) else self._interval
        rest = rest_of(turn, interval)
        look = {"call": "host_observation", "args": after_rest(options, rest), "rest": rest, "at_once": {"wait": 0.0}}
        answer = self.ask(request_of(look, calls, journal), task_vars, self._interval + host_seconds(options))
        return answer["acts"], self.seen_of_host(answer["look"], options, task_vars, news, turn)

    def _look(self, turn, task_vars, news, at_once):
        result = {}
        for _try in range(turn.get("tries", 1)):
            result = self._look_once(turn, task_vars, news, at_once)
            if not result.get("cut_off"):
                break
        return result

    def _look_once(self, turn, task_vars, news, at_once):
        if "module" in turn:
            return self.look_at_balancer(TRAFFIC[turn["provider"]], turn["module"], self._with_own(turn["module"], turn["options"]), task_vars, news)
        options = self._with_own("host_observation", turn["options"])
        return self.look_at_host(dict(options, wait=0.0) if at_once else options, task_vars, news, turn, self._interval)

    @property
    def _interval(self):
        return max(READ_SECONDS, float(self._task.args.get("interval", READ_SECONDS)))

    def _with_own(self, call, args):
        """The options of a call, with those that each machine has of its own."""
        return dict(args, **{name: self._task.args[name] for name in OWN.get(call, ("state_dir",)) if self._task.args.get(name)})


def _parts(acts):
    """The acts of a turn, one request each. What waits for a task file of the user's own, and what is a module of its own, ends one."""
    parts = [[]]
    for act in acts:
        parts[-1].append(act)
        if "file" in act or act["module"] in MODULES:
            parts.append([])
    return [part for part in parts if part]


def _done_file(args, task_vars):
    """The record of the task file that ran at the end of the former pass and said that it is done, or None."""
    file = args.get("file")
    # Before core 2.19, a template turns a number into a text.
    failed = str((task_vars.get("graceful_azure_failure") or {}).get("pass")) == str(args.get("number"))
    return file["record"] if file and not failed and boolean(task_vars.get(DONE), strict=False) else None


def _at_once(act):
    """When the look after an act waits for nothing. The last step is taken when the host is idle. If a step waits itself, it is seen in the next pass whether
    the host is. The host may go down as soon as it is approved, and the answer with it."""
    if act["part"] in ("drained", "sent"):
        return "begun"
    return "undone" if act["part"] == "steps" and act["args"].get("timeout") else ""


def _as_list(value):
    return list(value) if isinstance(value, (list, tuple)) else [value] if value else []
