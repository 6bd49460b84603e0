# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.check_settings); see its module for the options.

Reads the variables of the hosts and has them checked. It connects to no host and changes nothing.
"""

from __future__ import annotations

import errno
import math
import os
import time
from urllib.parse import urlsplit

from ansible import constants as C
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.graceful.azure.plugins.module_utils._imds import DEFAULT_URL
from ansible_collections.graceful.azure.plugins.module_utils._spellings import listed
from ansible_collections.graceful.azure.plugins.plugin_utils._controller_action import ControllerAction
from ansible_collections.graceful.azure.plugins.plugin_utils._core import too_old
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.health_probe import pools_cut
from ansible_collections.graceful.azure.plugins.plugin_utils._former_variables import mistakes_in as former_mistakes
from ansible_collections.graceful.azure.plugins.plugin_utils._former_variables import written_in as written_former
from ansible_collections.graceful.azure.plugins.plugin_utils._notify import notices
from ansible_collections.graceful.azure.plugins.plugin_utils._options import check_number
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.acts import needs_files
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import Run
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.turns import first_turns
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.needed import VARIABLES, lacking
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import (
    DUTIES,
    FOLDER,
    LEAST_OBSERVE,
    NOTIFY,
    check_boolean,
    check_path,
    forbidden,
    machines_of,
    misspelt,
    names_for_run,
    read_responder,
    read_settings,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._story.files import METRICS_ENDING
from ansible_collections.graceful.azure.plugins.plugin_utils._text import printable
from ansible_collections.graceful.azure.plugins.plugin_utils._variables import of_hosts, resolve, unsaid_connections, usual_connection
from ansible_collections.graceful.azure.plugins.plugin_utils._verbosity import kept_inside

IMDS_URL, AZURE = "graceful_azure_imds_url", urlsplit(DEFAULT_URL).hostname
"""Where events are read, and the address at which Azure tells them."""

display = Display()


def _try_to_append(path, check_mode):
    """Raises OSError where the file cannot be appended to. Check mode does not make it."""
    if check_mode and not os.path.exists(path):
        _see_that_files_fit(os.path.dirname(path) or ".")
        return
    with open(path, "a", encoding="utf-8"):
        pass


def _try_to_make(folder, check_mode):
    """Raises OSError where no file can be written into the folder. It is made if it is missing, but not in check mode."""
    if not check_mode:
        os.makedirs(folder, exist_ok=True)
    if os.path.exists(folder):
        _see_that_files_fit(folder)


def _see_that_files_fit(folder):
    """Raises OSError where no file can be written into a folder."""
    os.stat(os.path.join(folder, "."))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _metrics_mistakes(path, check_mode):
    """What is wrong with the file of the metrics. It is not written yet, because the collector would read an empty one."""
    if not path.endswith(METRICS_ENDING) or os.path.basename(path) == METRICS_ENDING:
        yield f"handle_events_metrics: {path!r} must be a file whose name ends with {METRICS_ENDING}; node_exporter reads no others"
    elif os.path.isdir(path):
        yield f"handle_events_metrics: {path!r} is a folder; name a file in it"
    else:
        try:
            _try_to_make(os.path.dirname(path) or ".", check_mode)
            if os.path.exists(path):
                _try_to_append(path, check_mode)
        except OSError as error:
            yield f"handle_events_metrics: {path!r} cannot be written: {error.strerror}"


def _path(args, option, mistakes):
    """The path in an option, or None. A number would be one of a file that is open already."""
    path = args.get(option)
    if not path or isinstance(path, str):
        return path
    mistakes.append(f"handle_events_{option}: {path!r} cannot be read as a path")
    return None


def begin_run(args, settings, mistakes, forks, check_mode=False):
    """How the passes of a run begin, and the clock that it is measured by. Adds to the mistakes what is wrong in its own options.

    C(args): the options of the task. C(settings): those of all hosts. C(forks): how many hosts Ansible works on at a time.
    """
    # A run in check mode looks and ends.
    wait = check_boolean(mistakes, "handle_events_wait", args["wait"]) and not check_mode
    run = {"started": time.time(), "wait": wait, "watch": bool(args.get("watch", False)), "forks": int(forks or 1), "check": bool(check_mode)}
    run["task_timeout"] = float(C.TASK_TIMEOUT or 0)
    run["look_twice"] = not check_mode and not wait
    for option, least in (("timeout", 0.0), ("sleep", 0.0), ("observe_timeout", LEAST_OBSERVE)):
        given = args.get(option, getattr(Run, option, None))
        run[option] = check_number(mistakes, f"handle_events_{option}", given, least)
    journal, report, metrics = (_path(args, option, mistakes) for option in ("journal", "report", "metrics"))
    if journal:
        try:
            _try_to_append(journal, check_mode)
        except OSError as error:
            mistakes.append(f"handle_events_journal: {journal!r} cannot be written: {error.strerror}")
    if report:
        try:
            _try_to_make(report, check_mode)
        except OSError as error:
            mistakes.append(f"handle_events_report: {report!r} must be a folder in which files can be written: {error.strerror}")
    if metrics:
        mistakes.extend(_metrics_mistakes(metrics, check_mode))
    turns = {} if mistakes else first_turns(settings, check_mode, run["observe_timeout"])
    with_files = not mistakes and needs_files(settings)
    return {"settings": settings, "run": run, "with_files": with_files, "turns": turns, "seen": {"hosts": {}, "balancers": {}}, "number": 0, "memory": {}}


def too_few_forks(hosts, forks):
    """A sentence where a pass cannot look at so many hosts at once, or in a few rounds; in a list."""
    rounds = math.ceil(hosts / forks)
    if rounds <= 4:
        return []
    return [
        f"{forks} forks for {hosts} hosts: a pass looks at them in {rounds} rounds, one after"
        f" the other; set forks (--forks, or Forks of the job template) to {math.ceil(hosts / 4)} or more"
    ]


def read_elsewhere(urls):
    """A sentence where events are read at another address than Azure's, as after a trial with a simulator; in a list. C(urls): per host, None if not set."""
    others = {name: url for name, url in urls.items() if url and urlsplit(str(url)).hostname != AZURE}
    if not others:
        return []
    places = list(dict.fromkeys(others.values()))
    return [
        f"{listed(list(others))}: events are read at {listed(places)} ({IMDS_URL}), not at Azure's address {AZURE}."
        " Remove it after a trial: as long as it is set, no real event is seen."
    ]


def is_partial(settings, hostvars):
    """Whether other hosts of the inventory are behind balancers too and are no targets: nobody looks at these."""
    others = set(hostvars) - set(settings) - machines_of(settings)
    return any(_may_be_behind_a_balancer(hostvars.raw_get(name)) for name in others)


def _may_be_behind_a_balancer(variables):
    """As far as it can be told without resolving templates."""
    duties = variables.get(DUTIES, [])
    return not isinstance(duties, (list, tuple)) or any(isinstance(entry, dict) and "hosts" in entry for entry in duties)


class ActionModule(ControllerAction):
    """Checks all hosts of the play for the playbook, or what the responder of one host needs."""

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        result["changed"] = False
        old = too_old()
        if old:
            return dict(result, failed=True, msg="; ".join(old))
        is_responder = self._task.args.get("role") == "responder"
        checked, warnings, mistakes = self._check_responder(task_vars) if is_responder else self._check_run(task_vars)
        result.update({"failed": True, "msg": "; ".join(printable(mistakes))} if mistakes else checked)
        if warnings:
            result["warnings"] = printable(warnings)
        return kept_inside(result)

    def _check_responder(self, task_vars):
        values, unresolved = resolve(self._templar, [DUTIES], task_vars)
        found, mistakes = read_responder({**values, **written_former(task_vars)}, set(task_vars["hostvars"]), task_vars["playbook_dir"], self._loader)
        return {"responder": found}, [], [*mistakes, *unresolved.values()]

    def _check_run(self, task_vars):
        hostvars = task_vars["hostvars"]
        values, unresolved = {}, {}
        variables = of_hosts(self._task.args.get("hosts") or task_vars["ansible_play_hosts_all"], hostvars, self._task)
        for name, of_host in variables.items():
            values[name], unresolved[name] = resolve(self._templar, names_for_run(), of_host)
            values[name].update(written_former(of_host))
        settings, mistakes = read_settings(values, set(hostvars), task_vars["playbook_dir"], self._loader, unresolved)
        begun = begin_run(self._task.args, settings, mistakes, task_vars.get("ansible_forks"), self._task.check_mode)
        begun["run"].update(partial=is_partial(settings, hostvars), rehearsed=bool(self._task.args.get("hosts")))
        begun["connection"] = usual_connection()
        machines = {turn["machine"] for turns in begun["turns"].values() for turn in turns if "machine" in turn}
        known = {**{name: hostvars.raw_get(name) for name in machines}, **variables}
        begun["unsaid_connections"] = unsaid_connections(known, begun["connection"])
        if task_vars.get(NOTIFY):
            mistakes.extend(notices.mistakes(self._templar, task_vars))
        mistakes.extend(forbidden(load_extra_vars(self._loader)))
        mistakes.extend(self._mistakes_of_balancers(settings, hostvars))
        # What decides here may be templates.
        of_platforms = {name: resolve(self._templar, VARIABLES, of_host)[0] for name, of_host in variables.items()}
        mistakes.extend(lacking(of_platforms, settings))
        warnings = [
            *misspelt(variables),
            *too_few_forks(len(settings), begun["run"]["forks"]),
        ]
        # A rehearsal has told it of all its hosts. Now it asks for one of them.
        if not self._task.args.get("hosts"):
            if not mistakes:
                for line in printable(read_elsewhere({name: of_host.get(IMDS_URL) for name, of_host in values.items()})):
                    display.display(line)
            warnings.extend(pools_cut(settings, set(hostvars) - set(settings), lambda name: hostvars.raw_get(name).get(DUTIES)))
        return begun, warnings, mistakes

    def _mistakes_of_balancers(self, settings, hostvars):
        """Mistakes in what the balancers' machines say of themselves: C(graceful_azure_state_dir), and former variables."""
        mistakes = []
        for name in sorted(machines_of(settings) & set(hostvars)):
            variables = hostvars.raw_get(name)
            # Targets are told of theirs with all else that they say.
            if name not in settings:
                mistakes.extend(f"balancer {name}: {mistake}" for mistake in former_mistakes(variables))
            found, unresolved = resolve(self._templar, [FOLDER], variables)
            mistakes.extend(f"balancer {name}: {mistake}" for mistake in unresolved.values())
            check_path(mistakes, FOLDER, found.get(FOLDER), f"balancer {name}: ")
        return mistakes
