# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.rehearse); see its module for the options.

Hands what was registered to C(plugin_utils/_run/rehearsal.py) and shows what comes of it. It changes nothing on any machine.
"""

from __future__ import annotations

import base64
import io
import os
import time
import zipfile

from ansible import constants as C
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.graceful.azure.plugins.plugin_utils._controller_action import ControllerAction
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import TRAFFIC
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.observation import wrong_name
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.by_platform import WINDOWS, run_module, told_by
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.needed import VARIABLES
from ansible_collections.graceful.azure.plugins.plugin_utils._run import gather, rehearsal
from ansible_collections.graceful.azure.plugins.plugin_utils._text import failure, joined, plain, printable
from ansible_collections.graceful.azure.plugins.plugin_utils._variables import resolve, target_of
from ansible_collections.graceful.azure.plugins.plugin_utils._verbosity import kept_inside

SIMULATOR = os.path.join(os.path.dirname(__file__), "..", "..", "roles", "imds_simulator", "files")
STARTER = """
import base64, fcntl, glob, os, shutil, stat, subprocess, sys, tempfile, time

def is_left(folder):
    found = os.lstat(folder)
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode) or not set(os.listdir(folder)) <= OURS:
        # A folder of that name may be somebody's own.
        return False
    try:
        # Its simulator holds a lock as long as it lives.
        with open(os.path.join(folder, "imds_simulator.pid")) as pid_file:
            fcntl.flock(pid_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return time.time() - found.st_mtime > 60
    except OSError:
        return False
    return True

OURS = {"simulator.zip", "imds_simulator.pid", "imds_simulator.log"}
for old in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), "graceful_azure-*.rehearse")):
    try:
        if is_left(old):
            shutil.rmtree(old, ignore_errors=True)
    except OSError:
        # Another one has removed it meanwhile.
        pass
folder = tempfile.mkdtemp(prefix="graceful_azure-", suffix=".rehearse")
path = os.path.join(folder, "simulator.zip")
with open(path, "wb") as file:
    file.write(base64.b64decode(sys.stdin.read()))
print(folder, flush=True)
status = subprocess.call([sys.executable, path, *sys.argv[1:], "--background", folder], stdin=subprocess.DEVNULL)
if status:
    shutil.rmtree(folder, ignore_errors=True)
sys.exit(status)
"""
"""Starts the simulator in a folder of its own on the host. Prints the folder, and then what the simulator says. Removes what rehearsals have left there."""
MAIN = """
import os, shutil, sys
from graceful_azure_simulator.cli import main

status = main(sys.argv[1:])
shutil.rmtree(os.path.dirname(sys.argv[0]), ignore_errors=True)
os._exit(status)
"""
"""The simulator that removes its own folder when it ends, since nobody else does if the rehearsal was interrupted. Only what goes on in the background ends
there."""
NOTHING = {"hosts": {}, "balancers": {}}

display = Display()


class ActionModule(ControllerAction):
    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        result.update(getattr(self, f"_{self._task.args['phase']}")(task_vars))
        return kept_inside(dict(result, changed=False))

    def _before(self, task_vars):
        """Whether it may be rehearsed now, after all hosts were looked at. Nothing has been changed yet."""
        values, unresolved = resolve(self._templar, rehearsal.OPTIONS, task_vars)
        options, mistakes = rehearsal.read(values, load_extra_vars(self._loader))
        mistakes = [*unresolved.values(), *mistakes]
        for name in task_vars["ansible_play_hosts_all"]:
            platform, _unresolved = resolve(self._templar, VARIABLES, task_vars["hostvars"][name])
            if told_by(platform) == WINDOWS:
                mistakes.append(f"{name}: it is a Windows host, on which no simulator runs; try it with graceful.azure.accept_windows")
            facts = task_vars["hostvars"].raw_get(name)
            mistakes.extend(f"{name}: {obstacle}." for obstacle in _obstacles(facts, facts["graceful_azure_rehearse_real"], _name_given(task_vars, name)))
        if mistakes:
            return failure(mistakes)
        if task_vars["ansible_check_mode"]:
            self._preview(task_vars, options)
        elif C.DEFAULT_STDOUT_CALLBACK == "default":
            _show(["Output in few lines: export ANSIBLE_STDOUT_CALLBACK=graceful.azure.brief"])
        return {"options": options, "rules": rehearsal.RULES, "simulator": _packed(), "starter": STARTER}

    @staticmethod
    def _preview(task_vars, options):
        for name in task_vars["ansible_play_hosts_all"]:
            facts = task_vars["hostvars"].raw_get(name)
            settings = plain(task_vars["graceful_azure_plan"]["settings"][name])
            _show(
                [rehearsal.service_line(name, plain(facts["graceful_azure_rehearse_real"])), *rehearsal.preview_lines(name, _looks(facts), options, settings)]
            )

    def _begin(self, task_vars):
        """Whether this host is rehearsed now, and how long everything may take. No host is after one with which anything was wrong."""
        name, rehearsed = task_vars["inventory_hostname"], _rehearsed(task_vars)
        if task_vars["ansible_check_mode"] or any(_is_wrong(found) for found in rehearsed.values()):
            return {"begins": False}
        # The minimum in service of a run for one host does not know whether the balancer sends anything to the others.
        seconds, lines = rehearsal.unnoticed(name, rehearsed, time.time())
        _show(lines)
        time.sleep(seconds)
        service = {"imds_url": self._task.args["imds_url"]} if "imds_url" in self._task.args else {}
        real, given = run_module(self, "scheduled_events_info", service, task_vars), _name_given(task_vars, name)
        obstacles = _obstacles(task_vars, real, given)
        if obstacles:
            return {"begins": False, "rehearsed": {"real": real, "problem": joined(obstacles)}}
        options, plan = task_vars["graceful_azure_rehearse_before"]["options"], {**plain(task_vars["graceful_azure_plan"]), "told": _told(task_vars)}
        settings = plan["settings"][name]
        times = rehearsal.times_of(options, settings["drain_host"]["timeout"], settings["restore_service"].get("timeout") or 0.0)
        known_name = str(given or real.get("resource_name") or name)
        looks = rehearsal.pool_turns(name, plan)
        # As a pass has them.
        turns = {"turns": {name: looks}, "number": plan["number"], "run": plan["run"]}
        begun = {"begins": True, "first": "pool" if looks else "host", "real": real, "resource_name": known_name, "looks": _looks(task_vars)}
        return {**begun, **turns, **times, "settings": plan["settings"], "told": plan["told"]}

    def _pool(self, task_vars):
        """The same, after the other targets of its pools were looked at. Those that are just back are waited for, and then looked at again."""
        name, begun = task_vars["inventory_hostname"], plain(task_vars["graceful_azure_rehearse_begin"])
        looks = plain(gather.observations({name: task_vars}, NOTHING)["balancers"])
        found, seconds, lines = rehearsal.begin_in_pool(name, begun, looks, time.time())
        _show(lines)
        time.sleep(seconds)
        return found

    def _announce(self, task_vars):
        """Announce the event at the simulator on the host. Returns its id, and what the balancers have counted before."""
        seen = gather.observations({task_vars["inventory_hostname"]: task_vars}, NOTHING)
        # No plugin can say anything once the run is interrupted.
        _show([rehearsal.if_interrupted(task_vars["inventory_hostname"], target_of(self._templar, task_vars))])
        announced = time.time()
        body = rehearsal.event(task_vars["graceful_azure_rehearse_before"]["options"], task_vars["graceful_azure_rehearse_begin"])
        args = {"url": f"{self._task.args['control']}/events", "method": "POST", "body_format": "json", "body": body, "status_code": [201], "use_proxy": False}
        told = self._execute_module(module_name="ansible.builtin.uri", module_args=args, task_vars=task_vars)
        if told.get("failed") or told.get("unreachable"):
            return told
        return {"event_id": told["json"]["EventId"], "counted": rehearsal.counted(plain(seen["balancers"])), "announced": announced}

    def _told(self, task_vars):
        """What the passes have come to. Those that give the host back follow if it is not back."""
        name, plan, begun = task_vars["inventory_hostname"], task_vars["graceful_azure_plan"], task_vars["graceful_azure_rehearse_event"]
        begin, times = task_vars["graceful_azure_rehearse_begin"], rehearsal.reached(name, plain(plan["story"]), begun["announced"])
        is_through = plan["finished"] and not plan["failed_run"] and not plan["hosts"][name]["step"]
        return {
            "times": times,
            "requests": rehearsal.requests(begun["counted"], rehearsal.counted(plain(plan["seen"]["balancers"]))),
            "is_back": is_through and times["approved"] is not None and (times["out"] is None or times["back"] is not None),
            "problem": plan.get("broken_off") or rehearsal.not_approved(plan["hosts"][name], times, begin["timeout"]),
        }

    def _end(self, task_vars):
        """All that is known of a host at its end. C(graceful_azure_rehearse_failure): why the rehearsal broke off, if it did."""
        name, begun = task_vars["inventory_hostname"], task_vars["graceful_azure_rehearse_begin"]
        found, told = {"real": plain(begun["real"])}, task_vars.get("graceful_azure_rehearse_told") or {}
        problems = [task_vars.get("graceful_azure_rehearse_failure"), told.get("problem")]
        if "times" in told:
            found.update(times=dict(told["times"]), requests=told["requests"])
            plan = task_vars["graceful_azure_plan"]
            if not told["is_back"] and plan.get("failed_run"):
                problems.append(f"it was not given back: {joined(plan['messages'])}")
            elif not told["is_back"] and told["times"]["out"] is not None:
                found["times"]["back"] = time.time() - task_vars["graceful_azure_rehearse_event"]["announced"]
        if "times" in found and found["times"]["back"] is not None:
            back_at = task_vars["graceful_azure_rehearse_event"]["announced"] + found["times"]["back"]
            balancers = task_vars["graceful_azure_plan"]["settings"][name]["load_balancers"]
            found["noticed_at"] = back_at + max(TRAFFIC[balancer["provider"]].noticed_after(balancer) for balancer in balancers)
        found["problem"] = joined(problem for problem in problems if problem)
        found["differences"] = list(rehearsal.differences(plain(begun["looks"]), _looks(task_vars)))
        if "times" in found:
            _show(rehearsal.unseen_return(name, (task_vars["graceful_azure_plan"].get("hosts") or {}).get(name, {}).get("state"), found))
        return {"rehearsed": found}

    def _table(self, task_vars):
        hosts = _rehearsed(task_vars)
        left = [name for name in task_vars["ansible_play_hosts_all"] if name not in hosts]
        _show(rehearsal.table(hosts, task_vars["graceful_azure_rehearse_before"]["options"]))
        wrong = [name for name, found in hosts.items() if _is_wrong(found)]
        if not (wrong or left):
            return {}
        return failure([f"the rehearsal of {', '.join(wrong or left)} failed; the lines above say why.", *([f"Not begun: {', '.join(left)}."] if left else [])])


def _name_given(task_vars, name):
    """What the settings call a host in Azure, or None."""
    return task_vars["graceful_azure_plan"]["settings"][name]["resource_name"]


def _obstacles(facts, real, given):
    """Why a host may not be rehearsed now. C(facts): its variables. C(real): what its real metadata service answered. C(given): as the settings call it."""
    looks, real = _looks(facts), plain(real)
    found = [rehearsal.unreached(real), wrong_name(given, real.get("resource_name")), rehearsal.standing(real), rehearsal.unread(looks), rehearsal.held(looks)]
    found += [rehearsal.unproven(looks), rehearsal.unanswered(plain(facts["graceful_azure_rehearse_answer"]))]
    return [sentence for sentence in found if sentence]


def _told(task_vars):
    """What the targets have told before the first of them was rehearsed."""
    told = {}
    for name in task_vars["ansible_play_hosts_all"]:
        facts = task_vars["hostvars"].raw_get(name)
        answer, real = plain(facts.get("graceful_azure_rehearse_answer") or {}), plain(facts["graceful_azure_rehearse_real"])
        told[name] = {
            "resource_name": _name_given(task_vars, name) or real.get("resource_name"),
            "unanswered": answer.get("reason") if answer.get("answered") is False else None,
        }
    return told


def _rehearsed(task_vars):
    """What is known of the hosts that were rehearsed, by name."""
    found = {}
    for name in task_vars["ansible_play_hosts_all"]:
        facts = task_vars["hostvars"].raw_get(name)
        for result in ("graceful_azure_rehearse_begin", "graceful_azure_rehearse_end"):
            if "rehearsed" in (facts.get(result) or {}):
                found[name] = plain(facts[result]["rehearsed"])
    return found


def _is_wrong(found):
    """Whether anything was wrong with a host that was rehearsed."""
    return bool(found["problem"] or found.get("differences"))


def _looks(facts):
    return plain(facts["graceful_azure_rehearse_look"]["results"])


def _packed():
    """The simulator as the text that the program C(STARTER) takes: one file, which Python runs."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("__main__.py", MAIN)
        package = os.path.join(SIMULATOR, "graceful_azure_simulator")
        for name in sorted(os.listdir(package)):
            if name.endswith(".py"):
                packed.write(os.path.join(package, name), f"graceful_azure_simulator/{name}")
    return base64.b64encode(file.getvalue()).decode()


def _show(lines):
    for line in printable(list(lines)):
        display.display(line)
