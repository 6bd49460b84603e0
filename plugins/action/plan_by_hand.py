# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.plan_by_hand); see its module for the options.

Gathers the variables and what was seen, and asks the pure functions what follows. Nothing is decided here and nothing is changed.
"""

from __future__ import annotations

import json
import shlex
import time

from ansible import context
from ansible.utils.display import Display
from ansible_collections.graceful.azure.plugins.plugin_utils._by_hand import (
    NOTHING,
    OPTIONS,
    VARIABLES,
    Options,
    Target,
    decide,
    lines,
    look_at_host,
    read_options,
    read_places,
    released,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._controller_action import ControllerAction
from ansible_collections.graceful.azure.plugins.plugin_utils._core import too_old
from ansible_collections.graceful.azure.plugins.plugin_utils._former_variables import written_in as written_former
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import FOLDER
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import OBSERVE_TIMEOUT
from ansible_collections.graceful.azure.plugins.plugin_utils._text import failure, plain, printable
from ansible_collections.graceful.azure.plugins.plugin_utils._variables import resolve, target_of, unsaid_connections, usual_connection
from ansible_collections.graceful.azure.plugins.plugin_utils._verbosity import kept_inside

OF_LOOK = (OBSERVE_TIMEOUT, "graceful_azure_resource_name")
"""What the look at a host reads."""
RESULTS = {"everything": "restore_service_result", "servers": "load_balancer_result"}
"""Where the role leaves its result that releases so much."""

display = Display()


class ActionModule(ControllerAction):
    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _validated, args = self.validate_argument_spec(
            argument_spec={"phase": {"type": "str", "required": True, "choices": ["options", "places", "release", "released"]}}
        )
        result.update(changed=False, **getattr(self, f"_{args['phase']}")(task_vars))
        return kept_inside(result)

    def _options(self, task_vars):
        """What the user asked for. The variables of one host stand for all, so they must be the same for all."""
        names = sorted(name for name in task_vars if name.startswith("holds_"))
        values, unresolved = resolve(self._templar, names, task_vars)
        mistakes = [*too_old(), *unresolved.values()]
        targets = [task_vars["hostvars"].raw_get(name) for name in task_vars["ansible_play_hosts"]]
        for name in OPTIONS:
            if any(name in variables and variables[name] != task_vars.get(name) for variables in targets):
                mistakes.append(f"{name} differs between the targets; give it once for all of them")
        # What cannot be resolved is told as that, and as nothing else.
        options, wrong = read_options(values)
        mistakes = [f"{mistake}. {NOTHING}" for mistake in mistakes] + wrong
        return failure(mistakes) if mistakes else {"options": options._asdict()}

    def _places(self, task_vars):
        """Where the records of this host are, and the folders of the machines."""
        name, hostvars = task_vars["inventory_hostname"], task_vars["hostvars"]
        variables, unresolved = resolve(self._templar, (*VARIABLES, *OF_LOOK, FOLDER), task_vars)
        look, slips = look_at_host(name, variables)
        places, wrong = read_places(name, {**variables, **written_former(task_vars)}, hostvars)
        folders = {name: variables.get(FOLDER)}
        mistakes = [f"{name}: {mistake}" for mistake in unresolved.values()] + slips + wrong
        for machine in (place["machine"] for place in places):
            if machine in hostvars and machine not in folders:
                found, unresolved = resolve(self._templar, [FOLDER], _variables(hostvars, machine))
                folders[machine] = found.get(FOLDER)
                mistakes.extend(f"{machine}: {mistake}" for mistake in unresolved.values())
        if mistakes:
            return failure(f"{mistake}. Nothing is released for {name}." for mistake in mistakes)
        return {
            "connection": usual_connection(),
            "unsaid_connections": unsaid_connections({machine: hostvars.raw_get(machine) for machine in folders}, usual_connection()),
            "look": look,
            "machines": [{"name": machine, "state_dir": folder} for machine, folder in folders.items()],
            "places": [dict(place, options=_with_folder(place["options"], folders[place["machine"]])) for place in places],
        }

    def _release(self, task_vars):
        """What follows from the looks. A host that has left the play was not looked at."""
        hostvars, names = task_vars["hostvars"], task_vars["ansible_play_hosts"]
        targets, owned = {}, {}
        for name in names:
            facts = hostvars.raw_get(name)
            look = {"host": facts["graceful_azure_host"], "balancers": facts["graceful_azure_balancers"]["results"]}
            targets[name] = Target(**plain(look))
            owned[name] = facts["graceful_azure_to_look_at"]["places"]
        doubts = []
        for name in hostvars:
            if name not in owned:
                variables, unresolved = resolve(self._templar, VARIABLES, _variables(hostvars, name))
                owned[name], wrong = read_places(name, variables)
                doubts.extend([f"{name}: {mistake}" for mistake in unresolved.values()] + wrong)

        def owners(machine):
            return {place["server"] for places in owned.values() for place in places if place["machine"] == machine}

        left = len(names) < len(task_vars["ansible_play_hosts_all"])
        options = Options(**task_vars["graceful_azure_options"]["options"])
        decided = decide(options, targets, left, owners, doubts)
        # All hosts of the target, because those that share a balancer are handled together.
        run = f"{_command('handle_events')} -e target={shlex.quote(target_of(self._templar, task_vars))}"
        for line in lines(options, decided, _command("holds"), run, time.time()):
            display.display(line)
        if options.json:
            held = {name: of_host["shown"] for name, of_host in decided["hosts"].items()}
            display.display(json.dumps({"held": held, "strays": decided["strays"], "unclaimed": decided["unclaimed"]}, indent=4))
        return decided

    def _released(self, task_vars):
        name = task_vars["inventory_hostname"]
        mine = task_vars["graceful_azure_held"]["hosts"][name]
        conflicts = task_vars[RESULTS[mine["release"]]].get("conflicts") or ()
        event_ids = task_vars["graceful_azure_options"]["options"]["event_ids"]
        for line in printable(list(released(name, mine, conflicts, self._task.check_mode, event_ids))):
            display.display(line)
        return {}


def _command(playbook):
    """How this playbook was called, or how another one is called in the same way."""
    inventory = [word for path in context.CLIARGS.get("inventory") or () for word in ("-i", shlex.quote(str(path)))]
    return " ".join(["ansible-playbook", *inventory, f"graceful.azure.{playbook}"])


def _variables(hostvars, name):
    """The variables of another host than the one for which the task runs."""
    return dict(hostvars.raw_get(name), hostvars=hostvars)


def _with_folder(options, folder):
    return dict(options, state_dir=folder) if folder else options
