# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.rehearse); see its module for the options.

Hands what was registered to C(plugin_utils/_run/rehearsal.py) and shows what comes of it. It changes nothing on any machine.
"""

from __future__ import annotations

import os
import time
import zipfile

from ansible import constants as C
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.graceful.azure.plugins.plugin_utils._controller_action import ControllerAction
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.registry import TRAFFIC
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.needed import VARIABLES
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.registry import WINDOWS, told_by
from ansible_collections.graceful.azure.plugins.plugin_utils._run import gather, rehearsal
from ansible_collections.graceful.azure.plugins.plugin_utils._text import failure, plain, printable
from ansible_collections.graceful.azure.plugins.plugin_utils._variables import resolve
from ansible_collections.graceful.azure.plugins.plugin_utils._verbosity import kept_inside

SIMULATOR = os.path.join(os.path.dirname(__file__), "..", "..", "roles", "imds_simulator", "files")
NOTHING = {"hosts": {}, "balancers": {}}

display = Display()


class ActionModule(ControllerAction):
    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        result.update(changed=False, **getattr(self, f"_{self._task.args['phase']}")(task_vars))
        return kept_inside(result)

    def _check(self, task_vars):
        """Whether anything may be rehearsed at all. Nothing has been changed yet."""
        hostvars = task_vars["hostvars"]
        values, unresolved = resolve(self._templar, rehearsal.OPTIONS, task_vars)
        options, mistakes = rehearsal.read(values, load_extra_vars(self._loader))
        mistakes = [*unresolved.values(), *mistakes]
        for name in task_vars["ansible_play_hosts_all"]:
            platform, _unresolved = resolve(self._templar, VARIABLES, hostvars[name])
            if told_by(platform) == WINDOWS:
                mistakes.append(f"{name}: it is a Windows host, on which no simulator runs; try it with graceful.azure.accept_windows")
        return failure(mistakes) if mistakes else {"options": options}

    def _before(self, task_vars):
        """Whether it may be rehearsed now, after all hosts were looked at."""
        mistakes = []
        for name in task_vars["ansible_play_hosts_all"]:
            mistakes.extend(f"{name}: {obstacle}." for obstacle in _obstacles(task_vars["hostvars"].raw_get(name)))
        if mistakes:
            return failure(mistakes)
        if task_vars["ansible_check_mode"]:
            self._preview(task_vars)
        elif C.DEFAULT_STDOUT_CALLBACK == "default":
            _show(["Output in few lines: export ANSIBLE_STDOUT_CALLBACK=graceful.azure.brief"])
        return {"simulator": _packed()}

    @staticmethod
    def _preview(task_vars):
        options = task_vars["graceful_azure_rehearse"]["options"]
        for name in task_vars["ansible_play_hosts_all"]:
            facts = task_vars["hostvars"].raw_get(name)
            minimum = task_vars["graceful_azure_plan"]["settings"][name]["min_in_service"]
            _show([rehearsal.service_line(name, plain(facts["graceful_azure_rehearse_real"])), *rehearsal.preview_lines(name, _looks(facts), options, minimum)])

    def _pool(self, task_vars):
        """The looks at the other targets of its pools, as a pass has them."""
        name, plan = task_vars["inventory_hostname"], task_vars["graceful_azure_plan"]
        return {"turns": {name: rehearsal.pool_turns(name, plain(plan), _told(task_vars))}, "number": plan["number"], "run": plan["run"]}

    def _begin(self, task_vars):
        """Why this host may not be rehearsed now, or how long everything may take."""
        name, plan = task_vars["inventory_hostname"], plain(task_vars["graceful_azure_plan"])
        obstacles = _obstacles(task_vars)
        if task_vars["graceful_azure_rehearse_pool"]["turns"][name]:
            looks = gather.observations({name: task_vars}, NOTHING)["balancers"]
            obstacles += [short for short in [rehearsal.too_few(name, plan, _told(task_vars), plain(looks), time.time())] if short]
        if obstacles:
            return {"problem": "; ".join(obstacles)}
        settings = plan["settings"][name]
        times = rehearsal.times_of(
            task_vars["graceful_azure_rehearse"]["options"], settings["drain_host"]["timeout"], settings["restore_service"].get("timeout") or 0.0
        )
        return {"problem": "", "resource_name": _name_in_azure(name, task_vars), "looks": _looks(task_vars), **times}

    def _wait(self, task_vars):
        """The minimum in service of a run for one host does not know whether the balancer sends anything to the others."""
        seconds, lines = rehearsal.unnoticed(task_vars["inventory_hostname"], _rehearsed(task_vars), time.time())
        _show(lines)
        time.sleep(seconds)
        return {}

    def _announce(self, task_vars):
        """Announce the event at the simulator on the host. Returns its id, and what the balancers have counted before."""
        seen = gather.observations({task_vars["inventory_hostname"]: task_vars}, NOTHING)
        announced = time.time()
        body = rehearsal.event(task_vars["graceful_azure_rehearse"]["options"], task_vars["graceful_azure_rehearse_begin"])
        args = {"url": f"{self._task.args['control']}/events", "method": "POST", "body_format": "json", "body": body, "status_code": [201], "use_proxy": False}
        told = self._execute_module(module_name="ansible.builtin.uri", module_args=args, task_vars=task_vars)
        if told.get("failed") or told.get("unreachable"):
            return told
        return {"event_id": told["json"]["EventId"], "counted": rehearsal.counted(plain(seen["balancers"])), "announced": announced}

    def _told(self, task_vars):
        """What the passes have come to. Those that give the host back follow if it is not back."""
        name, plan, begun = task_vars["inventory_hostname"], task_vars["graceful_azure_plan"], task_vars["graceful_azure_rehearse_event"]
        times = rehearsal.reached(name, plain(plan["story"]), begun["announced"])
        is_through = plan["finished"] and not plan["failed_run"] and not plan["hosts"][name]["step"]
        return {
            "times": times,
            "requests": rehearsal.requests(begun["counted"], rehearsal.counted(plain(plan["seen"]["balancers"]))),
            "is_back": is_through and times["approved"] is not None and (times["out"] is None or times["back"] is not None),
            "problem": rehearsal.not_approved(plan["hosts"][name]["reason"], times, task_vars["graceful_azure_rehearse_begin"]["timeout"]),
        }

    def _end(self, task_vars):
        """All that is known of a host at its end. C(graceful_azure_rehearse_failure): why the rehearsal broke off, if it did."""
        name, found = task_vars["inventory_hostname"], {"real": plain(task_vars["graceful_azure_rehearse_real"])}
        begun, told = task_vars["graceful_azure_rehearse_begin"], task_vars.get("graceful_azure_rehearse_told") or {}
        if begun["problem"]:
            return {"rehearsed": dict(found, problem=begun["problem"])}
        problems = [task_vars.get("graceful_azure_rehearse_failure"), told.get("problem")]
        if "times" in told:
            found.update(times=dict(told["times"]), requests=told["requests"])
            plan = task_vars["graceful_azure_plan"]
            if not told["is_back"] and plan.get("failed_run"):
                problems.append(f"it was not given back: {'; '.join(plan['messages'])}")
            elif not told["is_back"] and told["times"]["out"] is not None:
                found["times"]["back"] = time.time() - task_vars["graceful_azure_rehearse_event"]["announced"]
        if "times" in found and found["times"]["back"] is not None:
            back_at = task_vars["graceful_azure_rehearse_event"]["announced"] + found["times"]["back"]
            balancers = task_vars["graceful_azure_plan"]["settings"][name]["load_balancers"]
            found["noticed_at"] = back_at + max(TRAFFIC[balancer["provider"]].noticed_after(balancer) for balancer in balancers)
        found["problem"] = "; ".join(problem for problem in problems if problem)
        found["differences"] = list(rehearsal.differences(plain(begun["looks"]), _looks(task_vars)))
        if "times" in found:
            _show(rehearsal.unseen_return(name, (task_vars["graceful_azure_plan"].get("hosts") or {}).get(name, {}).get("state"), found))
        return {"rehearsed": found}

    def _table(self, task_vars):
        hosts = _rehearsed(task_vars)
        left = [name for name in task_vars["ansible_play_hosts_all"] if name not in hosts]
        _show(rehearsal.table(hosts, task_vars["graceful_azure_rehearse"]["options"]))
        wrong = [name for name, found in hosts.items() if found["problem"] or found.get("differences")]
        if not (wrong or left):
            return {}
        return failure([f"the rehearsal of {', '.join(wrong or left)} failed; the lines above say why.", *([f"Not begun: {', '.join(left)}."] if left else [])])


def _obstacles(facts):
    """Why a host may not be rehearsed now. C(facts): its variables."""
    looks = _looks(facts)
    real = plain(facts["graceful_azure_rehearse_real"])
    found = [rehearsal.unreached(real), rehearsal.standing(real), rehearsal.unread(looks), rehearsal.held(looks)]
    found += [rehearsal.unproven(looks), rehearsal.unanswered(plain(facts["graceful_azure_rehearse_answer"]))]
    return [sentence for sentence in found if sentence]


def _told(task_vars):
    """What the targets have told before the first of them was rehearsed."""
    told = {}
    for name in task_vars["ansible_play_hosts_all"]:
        facts = task_vars["hostvars"].raw_get(name)
        answer, real = plain(facts.get("graceful_azure_rehearse_answer") or {}), plain(facts["graceful_azure_rehearse_real"])
        told[name] = {"resource_name": real.get("resource_name"), "unanswered": answer.get("reason") if answer.get("answered") is False else None}
    return told


def _rehearsed(task_vars):
    """What is known of the hosts that were rehearsed, by name."""
    ends = {name: plain(task_vars["hostvars"].raw_get(name).get("graceful_azure_rehearse_end") or {}) for name in task_vars["ansible_play_hosts_all"]}
    return {name: end["rehearsed"] for name, end in ends.items() if "rehearsed" in end}


def _looks(facts):
    return plain(facts["graceful_azure_rehearse_look"]["results"])


def _name_in_azure(name, task_vars):
    real = task_vars["graceful_azure_rehearse_real"]
    return str(task_vars.get("graceful_azure_resource_name") or real.get("resource_name") or name)


def _packed():
    """The simulator as one file, which Python runs. Ansible removes it from the controller when the run ends."""
    path = os.path.join(C.DEFAULT_LOCAL_TMP, "graceful-azure-simulator.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.write(os.path.join(SIMULATOR, "imds_simulator.py"), "__main__.py")
        package = os.path.join(SIMULATOR, "graceful_azure_simulator")
        for file in sorted(os.listdir(package)):
            if file.endswith(".py"):
                packed.write(os.path.join(package, file), f"graceful_azure_simulator/{file}")
    return path


def _show(lines):
    for line in printable(list(lines)):
        display.display(line)
