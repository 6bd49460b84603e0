# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.plan); see its module for the options.

Gathers what every host registered, lets the pure plan decide, shows what changed. Nothing is
decided here and nothing is changed on any machine.
"""

from __future__ import annotations

import errno
import json
import math
import os
import time

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.ending import WATCH, longest_wait_for_quiet
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.pace import first_pace
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.plan import plan
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.preview import no_event, not_looked_at, preview
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import (
    check_boolean,
    check_path,
    forbidden,
    misspelt,
    read_settings,
    unresolved,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._text import clock, duration, printable

REMINDER = 5.0
"""Seconds after which a host's line is shown again though nothing changed, at first; then a tenth of what it has waited."""
LONGEST_REMINDER = 300.0
LEFT = "it has left the run: a task file of its own could not reach a machine, or ended it for this host; another run carries on"
GONE = {"graceful_azure_host": {"reached": False, "left": True, "fatal": LEFT, "error": LEFT}}
"""What is known of a host that has left the play."""
RESULTS = ("load_balancer", "drain_host", "approve_event", "restore_service")
SHOWN = ("mistakes", "warnings", "messages", "table")

display = Display()


def _table(planned):
    """The closing table, a line for each event and each of its hosts, and for each host that could not be read."""
    events = planned["events"]
    lines = [] if events else [no_event("No event names any of the targets", planned["unread"])]
    for event in events:
        lines.append(f"{event['event_type'] or 'event'} {event['event_id']} ({', '.join(event['resources'])}): {event['outcome']}")
        lines.extend(f"    {name}: {said['state']}, {said['reason']}" for name, said in event["hosts"].items())
    return lines + not_looked_at(planned)


def _try_to_append(path, check_mode):
    """Raises OSError where the file cannot be appended to. Check mode does not make it."""
    if check_mode and not os.path.exists(path):
        folder = os.path.dirname(path) or "."
        os.stat(os.path.join(folder, "."))
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return
    with open(path, "a", encoding="utf-8"):
        pass


class ActionModule(ActionBase):
    """Phase C(settings) checks the variables; phase C(pass) makes the plan of one pass."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        args = self._task.args
        result["changed"] = False
        if args.get("phase") == "result":
            result.update(self._close(task_vars["graceful_azure_plan"]))
            return result
        # What a host saw last that has left the play, whatever for, is no observation of this pass.
        active = set(task_vars["ansible_play_hosts"])
        known = {name: task_vars["hostvars"].raw_get(name) if name in active else GONE for name in task_vars["ansible_play_hosts_all"]}
        if args.get("phase") == "settings":
            inventory, forks, folder = list(task_vars["hostvars"]), task_vars.get("ansible_forks"), task_vars["playbook_dir"]
            result.update(self._check(args, known, inventory, forks, folder, self._loader, self._task.check_mode))
            result["mistakes"].extend(unresolved(known, self._template(known)))
            result["mistakes"].extend(forbidden(load_extra_vars(self._loader)))
            result["warnings"].extend(self._balancers_sockets(result["settings"], task_vars["hostvars"]))
            result["mistakes"].extend(self._balancers_folders(result["settings"], task_vars["hostvars"]))
            result["run"]["partial"] = self._is_partial(result["settings"], known, task_vars["hostvars"])
            result["run"]["look_twice"] = not self._task.check_mode and not result["run"]["wait"]
        else:
            result.update(self._pass(args, known, task_vars["graceful_azure_plan"]))
            if self._task.check_mode:
                result["table"] = preview(result, time.time())
        # What a person reads; everything else keeps the original text.
        result.update({key: printable(result[key]) for key in SHOWN if key in result})
        return result

    @staticmethod
    def _close(planned):
        """The end of a run: the closing table as lines, and whether the run failed and why."""
        for line in printable(planned["table"]):
            display.display(line)
        if planned["finished"] and not planned["failed_run"]:
            return {}
        return {"failed": True, "msg": "; ".join(printable(planned["messages"])) or "the run ended before everything was done; start it again"}

    def _template(self, known):
        """A function that templates a text with the variables of a host of that name."""

        def template(text, name):
            return self._templar.copy_with_new_env(available_variables=known[name]).template(text)

        return template

    @staticmethod
    def _is_partial(settings, known, hostvars):
        """Whether other hosts of the inventory are behind balancers too and are no targets: nobody looks at these."""
        balancers = {host for values in settings.values() for host in values["load_balancer"]["hosts"]}
        return any("load_balancer_hosts" in hostvars.raw_get(name) for name in hostvars if name not in known and name not in balancers)

    def _balancers_sockets(self, settings, hostvars):
        """Sentences about sockets that are set for a balancer, where nothing reads them, and that the hosts behind it do not have."""
        used = {}
        for values in settings.values():
            for name in values["load_balancer"]["hosts"]:
                used.setdefault(name, set()).add(values["load_balancer"]["socket"])
        for name in sorted(set(used) & set(hostvars) - set(settings)):
            try:
                own = self._of_balancer(hostvars, name, "load_balancer_haproxy_socket")
            except AnsibleError:
                continue
            if own is not None and own not in used[name]:
                yield (
                    f"{name}: nothing reads load_balancer_haproxy_socket ({own!r}) of a balancer; set it for the hosts behind it, which have"
                    f" {', '.join(map(repr, sorted(map(str, used[name]))))}"
                )

    def _of_balancer(self, hostvars, name, variable):
        """A balancer's own value of a variable. A balancer is no target, so nothing else reads its variables."""
        variables = hostvars.raw_get(name)
        return self._templar.copy_with_new_env(available_variables=variables).template(variables.get(variable))

    def _balancers_folders(self, settings, hostvars):
        """Mistakes in the balancers' own C(graceful_azure_state_dir)."""
        mistakes = []
        for name in sorted({host for values in settings.values() for host in values["load_balancer"]["hosts"] if host in hostvars}):
            try:
                folder = self._of_balancer(hostvars, name, "graceful_azure_state_dir")
            except AnsibleError as error:
                mistakes.append(f"{name}: graceful_azure_state_dir cannot be resolved: {str(error).strip().splitlines()[0]}")
            else:
                check_path(mistakes, "graceful_azure_state_dir", folder, f"balancer {name}: ")
        return mistakes

    @staticmethod
    def _check(args, known, inventory, forks, playbook_dir="", loader=None, check_mode=False):
        """The first call of a run: settings and mistakes, and the clock that the run is measured by."""
        variables = {name: facts.get("graceful_azure_settings") or {} for name, facts in known.items()}
        settings, mistakes = read_settings(variables, set(inventory), playbook_dir, loader)
        warnings = misspelt(known)
        # A run in check mode makes one pass.
        wait = check_boolean(mistakes, "handle_events_wait", args["wait"]) and not check_mode
        run = {"started": time.time(), "wait": wait, "watch": bool(args.get("watch", False)), "forks": int(forks or 1), "check": bool(check_mode)}
        for option, least in (("timeout", 0.0), ("sleep", 0.0), ("observe_timeout", 0.1)):
            try:
                run[option] = float(args[option])
            except (TypeError, ValueError):
                run[option] = math.nan
            if isinstance(args[option], bool) or not math.isfinite(run[option]) or run[option] < least:
                mistakes.append(f"handle_events_{option}: {args[option]!r} is not a number of seconds from {least:g} up")
        if args.get("journal"):
            try:
                _try_to_append(args["journal"], check_mode)
            except OSError as error:
                mistakes.append(f"handle_events_journal: {args['journal']!r} cannot be written: {error.strerror}")
        rounds = 3
        if not mistakes:
            # A run that takes one step takes it again where it fails, and looks until no session has come for as long as it is asked to.
            seconds = longest_wait_for_quiet(settings)
            if run["wait"]:
                seconds = run["timeout"] + (WATCH if run["watch"] else 0)
            # The loop of passes is nested four deep: Ansible prepares a whole loop before its first round.
            rounds = max(rounds, math.ceil((seconds / max(1.0, run["sleep"]) + 10) ** (1 / 4)))
        pace, looks = first_pace({} if mistakes else settings, check_mode)
        if run["forks"] * 4 < len(settings):
            warnings.append(
                f"{run['forks']} forks for {len(settings)} hosts: a pass looks at them in {math.ceil(len(settings) / run['forks'])} rounds, one after"
                f" the other; set forks (--forks, or Forks of the job template) to {math.ceil(len(settings) / 4)} or more"
            )
        return {
            "warnings": warnings,
            "mistakes": mistakes,
            "settings": settings,
            "run": run,
            "rounds": rounds,
            "pace": pace,
            "looks": looks,
            "number": 0,
            "memory": {},
        }

    def _pass(self, args, known, last):
        world = {
            "now": time.time(),
            "pass": last["number"] + 1,
            "run": last["run"],
            "settings": last["settings"],
            "hosts": {name: facts.get("graceful_azure_host") or {} for name, facts in known.items()},
            "balancers": self._balancers(known),
            "results": {name: self._results(facts) for name, facts in known.items()},
            "memory": last["memory"],
        }
        # The plan works on plain data, as it would on a pass read from a file.
        outcome = plan(json.loads(json.dumps(world, default=str)))
        self._tell(outcome, last, world)
        warnings = outcome.pop("warnings")
        carried = {key: last[key] for key in ("settings", "run", "rounds", "mistakes")}
        result = dict(carried, number=world["pass"], table=_table(outcome), **outcome)
        if args.get("journal") and not last["run"]["check"]:
            try:
                self._write(args["journal"], world, outcome)
            except OSError as error:
                # The hosts matter more than the book about them.
                warnings = [*warnings, f"handle_events_journal: {args['journal']!r} cannot be written any more: {error.strerror}"]
        if warnings:
            result["warnings"] = warnings
        return result

    @staticmethod
    def _balancers(known):
        """Every look at a balancer that any host made in this pass, by the balancer's key."""
        return {
            item["look"]["key"]: item
            for facts in known.values()
            for item in (facts.get("graceful_azure_balancers") or {}).get("results") or ()
            if isinstance(item.get("look"), dict)
        }

    @staticmethod
    def _results(facts):
        results = {role: facts[f"{role}_result"] for role in RESULTS if f"{role}_result" in facts}
        results["failure"] = facts.get("graceful_azure_failure")
        return results

    @staticmethod
    def _tell(outcome, last, world):
        """Show a line for every host whose state or reason changed, or that has been long in the same."""
        told = dict(last["memory"].get("told") or {})
        for name, decision in outcome["hosts"].items():
            before = told.get(name) or {}
            said = [decision["state"], decision["reason"], decision["event"]]
            fresh = before.get("said", [None])[0] != said[0] or before.get("said") != said and world["now"] - before["at"] >= 1
            waited = world["now"] - decision["since"]
            reminder = min(max(REMINDER, waited / 10), LONGEST_REMINDER)
            still = decision["state"] not in ("in_service", "restored") and world["now"] - before.get("at", 0) >= reminder
            quiet = not before and (decision["state"], decision["reason"]) == ("in_service", "no event names it")
            if quiet or not (fresh or still):
                continue
            told[name] = {"said": said, "at": world["now"]}
            line = f"{clock(world['now'])}  {name}  {decision['state']}"
            if decision["event"]:
                line += f"  {decision['event']}"
            line += f"  {decision['reason']}"
            if waited >= 1:
                line += f"  (for {duration(waited)}"
                line += f", until {clock(decision['until'])})" if (decision["until"] or 0) > world["now"] else ")"
            elif decision["until"]:
                line += f"  (until {clock(decision['until'])})"
            display.display(printable(line), color="yellow" if decision["state"] in ("needs_person", "unobserved") else None)
        outcome["memory"]["told"] = told

    @staticmethod
    def _write(path, world, outcome):
        """Append the pass to the journal: what was observed, so that it can be planned again, and what came of it."""
        hosts = {
            name: {key: decision[key] for key in ("state", "reason", "until", "events", "step")}
            for name, decision in outcome["hosts"].items()
        }
        line = {"time": world["now"], "pass": world["pass"], "hosts": hosts, "events": outcome["events"], "world": world}
        with open(path, "a", encoding="utf-8") as journal:
            journal.write(json.dumps(line, default=str) + "\n")
