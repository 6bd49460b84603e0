# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The base of the actions behind C(duty) and C(duty_info): which entry of a list of duties is done where.

A task runs on one machine, and no other is connected to. What belongs to this machine is done by the module there. What Azure's API does is done here, on
the controller. All else is left out, with a word.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.validation import check_type_list
from ansible.plugins.action import ActionBase
from ansible_collections.graceful.azure.plugins.module_utils._duties.all_types import CheckedEntry, read_list
from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import OUT, as_one
from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
from ansible_collections.graceful.azure.plugins.module_utils._duties.options import AZURE_PROBES
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import DEFAULT_STATE_DIR, HoldError
from ansible_collections.graceful.azure.plugins.modules import duty, duty_info
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import TRAFFIC, uncounted
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.by_platform import plain_paths, run_module
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Options, Variables

MACHINE, CONTROLLER = "machine", "controller"
LISTS = ("acts", "duties", "waiting_for", "conflicts", "warnings", "deprecations")


class AnyMachine(Machine):
    """For mistakes that can be told here. Whether there is such a duty on a machine, and where its paths lead, is told there."""

    @staticmethod
    def refuses(kind: str) -> str:
        return ""

    spec_of = staticmethod(plain_paths)


class EntryPlace(NamedTuple):
    """An entry as the module takes it, and where it is done. If nowhere: why, a sentence."""

    given: Json
    entry: CheckedEntry
    where: str
    why: str = ""


class DutyAction(ActionBase):
    """C(module): that of the subclass."""

    _supports_check_mode = True
    TRANSFERS_FILES = False
    module = ""

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Json:
        result: Json = super().run(tmp, task_vars)
        variables = task_vars or {}
        args = dict(self._task.args)
        try:
            # As the module would take it.
            duties = check_type_list(args.get("duties"))
        except TypeError:
            # The module says what is wrong.
            return {**result, **run_module(self, self.module, args, variables)}
        try:
            places = self._places(duties, variables)
            mistakes = list(self.mistakes(args, places, variables))
        except ValueError as error:
            mistakes = [str(error)]
        if mistakes:
            return {**result, "failed": True, "changed": False, "msg": " ".join(mistakes)}
        result.update(self.go(args, [place for place in places if not place.why], variables))
        result["left_out"] = [{"type": place.entry.duty.type, "name": place.entry.name, "why": place.why} for place in places if place.why]
        return result

    def mistakes(self, args: Options, places: Sequence[EntryPlace], task_vars: Variables) -> Iterable[str]:
        """Sentences: what is wrong besides the entries themselves."""
        return ()

    def go(self, args: Options, places: Sequence[EntryPlace], task_vars: Variables) -> Json:
        raise NotImplementedError

    def left_to_ansible(self, entry: CheckedEntry) -> str:
        """Why nobody but Ansible itself can do a duty; empty if it can be done."""
        return ""

    def part(self, module: str, args: Options, places: Sequence[EntryPlace], task_vars: Variables) -> Json:
        """Run a module for entries that are done at one place."""
        given = dict(args, duties=[place.given for place in places])
        if places[0].where == MACHINE:
            return run_module(self, module, given, task_vars)
        return _on_controller(module, given, self._task.check_mode)

    def _places(self, duties: Iterable[Any], task_vars: Variables) -> list[EntryPlace]:
        host = task_vars["inventory_hostname"]
        machine = self._task.delegate_to or host
        given = [self._completed(each, host, task_vars) for each in duties]
        return [EntryPlace(each, entry, *self._where(entry, host, machine)) for each, entry in zip(given, read_list(given, AnyMachine))]

    def _where(self, entry: CheckedEntry, host: str, machine: str) -> tuple[str, str]:
        if self.left_to_ansible(entry):
            return MACHINE, self.left_to_ansible(entry)
        if entry.duty.of_balancer:
            hosts = entry.options["hosts"]
            return MACHINE, "" if machine in hosts else f"It belongs to {', '.join(hosts)}, and this task runs on {machine}: delegate the task there."
        if entry.duty.by_controller:
            at_home = machine in (host, "localhost")
            return CONTROLLER, "" if at_home else f"It is done on the controller, and this task runs on {machine}: run the task without delegate_to."
        return MACHINE, "" if machine == host else f"It is a duty of {host} itself, and this task runs on {machine}: run the task without delegate_to."

    def _completed(self, each: Any, host: str, task_vars: Variables) -> Any:
        """The entry, with the host's own name where none is set."""
        if not isinstance(each, dict):
            return each
        traffic = TRAFFIC.get(str(each.get("type")))
        return traffic.completed(each, host, self._templar.template(task_vars.get("ansible_host"))) if traffic else each


class DutyInfoAction(DutyAction):
    """Looks at all entries."""

    module = "duty_info"

    def go(self, args: Options, places: Sequence[EntryPlace], task_vars: Variables) -> Json:
        return merged([self.part(self.module, args, part, task_vars) for part in _parts(places)])


class ActAction(DutyAction):
    """Takes a host off its duties, or puts it back."""

    module = "duty"

    def left_to_ansible(self, entry: CheckedEntry) -> str:
        return "Its task files are run by the roles and playbooks: include them yourself." if entry.duty.type == "tasks" else ""

    def mistakes(self, args: Options, places: Sequence[EntryPlace], task_vars: Variables) -> Iterable[str]:
        here = [place.entry for place in places if not place.why]
        delegated = self._task.delegate_to
        if delegated not in (None, "", task_vars["inventory_hostname"]) and places and not here:
            names = list(dict.fromkeys(name for place in places if place.entry.duty.of_balancer for name in place.entry.options["hosts"]))
            known = f"the balancers of these duties are {', '.join(names)}" if names else "none of these duties has hosts"
            yield f"delegate_to: nothing of these duties is done on {delegated}; {known}."
        why = uncounted(args.get("min_in_service"), (place.entry.duty.type for place in places if place.entry.duty.type in TRAFFIC))
        if why:
            yield f"min_in_service: {why}."
        counted = [entry.duty.type for entry in here if entry.duty.type in TRAFFIC and TRAFFIC[entry.duty.type].needs_ports]
        if args.get("state", OUT) == OUT and counted and not args.get("ports") and any(not entry.duty.traffic for entry in here):
            yield (
                f"ports: not set; {counted[0]} does not tell which connections are left, so they are counted on the host before it is taken off the duties"
                " that bring no traffic. Give the ports on which it serves."
            )

    def go(self, args: Options, places: Sequence[EntryPlace], task_vars: Variables) -> Json:
        out = args.get("state", OUT) == OUT
        parts = _parts(places)
        limit = args.get("timeout", duty.argument_spec()["timeout"]["default"])
        timeout, began = _seconds(limit), time.monotonic()
        told: list[Json] = []
        for part in parts if out else parts[::-1]:
            left = max(0.0, timeout - (time.monotonic() - began)) if timeout else limit
            is_due = all(result.get("done") for result in told)
            busy = self._connected(args, part, left, task_vars, _past_azure(parts, told)) if told and is_due and out else []
            if is_due and not busy:
                told.append(self.part(self.module, dict(args, timeout=left), part, task_vars))
            else:
                told.append(self._unbegun(args, part, busy, task_vars))
        if not told:
            return {"changed": False, "done": True, **{key: [] for key in ("acts", "duties", "waiting_for", "conflicts")}}
        return merged(told if out else told[::-1])

    def _connected(self, args: Options, part: Sequence[EntryPlace], left: float, task_vars: Variables, past: list[str]) -> list[str]:
        """Which connections the host still has, in sentences, after it was taken out of what the controller asks. They are waited for.

        C(past): why it is still in rotation there. Waiting mends that never.
        """
        if self._task.check_mode or part[0].where != MACHINE or all(place.entry.duty.traffic for place in part):
            return []
        if past:
            return past
        # By the records, a service that an earlier call stopped is known to have listened.
        folder = args.get("state_dir") or DEFAULT_STATE_DIR
        seen = run_module(self, "connections_info", {"ports": args["ports"], "ignored_peers": AZURE_PROBES, "state_dir": folder, "timeout": left}, task_vars)
        return [str(seen.get("msg"))] if seen.get("failed") else [] if seen.get("idle") else list(seen.get("left") or ["the host has connections"])

    def _unbegun(self, args: Options, part: Sequence[EntryPlace], busy: list[str], task_vars: Variables) -> Json:
        """The result for entries that were not begun: only a look."""
        known: Options = {key: args[key] for key in ("ports", "state_dir") if key in args}
        return dict(self.part("duty_info", known, part, task_vars), done=False, waiting_for=busy)


def _parts(places: Iterable[EntryPlace]) -> list[list[EntryPlace]]:
    """Those that stand together and are done at one place."""
    return [list(group) for _where, group in itertools.groupby(places, key=lambda place: place.where)]


def merged(parts: Sequence[Json]) -> Json:
    """One result of the results for several places."""
    result: Json = {"changed": any(part.get("changed") for part in parts)}
    for key in LISTS:
        found = [part[key] for part in parts if key in part]
        if found or key == "duties":
            result[key] = [each for entries in found for each in entries]
    if any("done" in part for part in parts):
        result["done"] = all(part.get("done") for part in parts)
    diffs = [part["diff"] for part in parts if isinstance(part.get("diff"), dict)]
    if diffs:
        result["diff"] = as_one(diffs)
    for part in parts:
        # What a connection or a module that broke off says is kept as it is.
        result.update((key, part[key]) for key in ("failed", "msg", "unreachable", "exception", "module_stdout", "module_stderr", "rc") if part.get(key))
    return result


def _past_azure(parts: Iterable[Sequence[EntryPlace]], told: Iterable[Json]) -> list[str]:
    """What was seen to keep the host in rotation at what the controller asks, in sentences. C(told): the results of the first of these parts."""
    looks = [duty for part, result in zip(parts, told) if part[0].where == CONTROLLER for duty in result.get("duties") or ()]
    return [sentence for duty in looks for sentence in duty["busy"]]


def _on_controller(module: str, args: Options, check_mode: bool) -> Json:
    """Run a module in this process, for what no machine of its own has."""
    kind = duty if module == "duty" else duty_info
    conditions = {"required_if": duty.REQUIRED_IF} if kind is duty else {}
    checked = ArgumentSpecValidator(plain_paths(kind.argument_spec()), **conditions).validate(args)
    if checked.error_messages:
        return {"failed": True, "changed": False, "msg": "; ".join(checked.error_messages)}
    params = checked.validated_parameters
    try:
        result: Json = kind.run(params, Machine(None, params["state_dir"], check_mode or kind is duty_info, params["ports"]))
    except (HoldError, ValueError) as error:
        return {"failed": True, "changed": False, "msg": str(error)}
    return result


def _seconds(value: Any) -> float:
    # A wrong value goes to the module unchanged, which names it.
    try:
        return max(0.0, float(value))
    except (TypeError, ValueError):
        return 0.0
