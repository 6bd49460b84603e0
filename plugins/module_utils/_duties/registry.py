# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The types of duties, and how the entries of C(graceful_azure_duties) are read."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.errors import UnsupportedError
from ansible_collections.graceful.azure.plugins.module_utils._spellings import meant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import ModuleType
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import Call, Duty
    from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine


# What every entry may have besides the options of its type.
COMMON = ("type", "name")


# Only the file that is needed is loaded, because each run of a module starts Python anew. Ansible sends what is imported by its name.


def _haproxy() -> ModuleType:
    from ansible_collections.graceful.azure.plugins.module_utils._duties import haproxy

    return haproxy


def _nginx() -> ModuleType:
    from ansible_collections.graceful.azure.plugins.module_utils._duties import nginx

    return nginx


def _health_probe() -> ModuleType:
    from ansible_collections.graceful.azure.plugins.module_utils._duties import health_probe

    return health_probe


def _azure_load_balancer() -> ModuleType:
    from ansible_collections.graceful.azure.plugins.module_utils._duties import azure_load_balancer

    return azure_load_balancer


def _tasks() -> ModuleType:
    from ansible_collections.graceful.azure.plugins.module_utils._duties import tasks

    return tasks


def _service() -> ModuleType:
    from ansible_collections.graceful.azure.plugins.module_utils._duties import service

    return service


def _iis() -> ModuleType:
    from ansible_collections.graceful.azure.plugins.module_utils._duties import iis

    return iis


def _cluster() -> ModuleType:
    from ansible_collections.graceful.azure.plugins.module_utils._duties import cluster

    return cluster


class File(NamedTuple):
    """A file of duties: how it is loaded, and the names of its C(CALLS)."""

    load: Callable[[], ModuleType]
    calls: tuple[str, ...]


# By their types. All members of clusters are in one file.
FILES = {
    "haproxy": File(_haproxy, ("haproxy_hold", "haproxy_info")),
    "nginx": File(_nginx, ("nginx_hold", "nginx_info")),
    "health_probe": File(_health_probe, ("health_probe_hold", "health_probe_info")),
    "azure_load_balancer": File(_azure_load_balancer, ("azure_load_balancer_hold", "azure_load_balancer_info")),
    "tasks": File(_tasks, ("task_hold",)),
    "service": File(_service, ("service_hold",)),
    "iis": File(_iis, ("iis_hold",)),
}
MEMBERS = File(_cluster, ("cluster_hold",))


def types() -> list[str]:
    return [*FILES, *MEMBERS.load().DUTIES]


def class_of(kind: str) -> type[Duty] | None:
    """The class of a type; None if there is no such type."""
    found: type[Duty] | None = FILES.get(kind, MEMBERS).load().DUTIES.get(kind)
    return found


def calls() -> dict[str, Callable[[], Call]]:
    """What a machine can be asked about its duties, by its name: functions that load it."""

    def load(file: File, name: str) -> Call:
        found: Call = file.load().CALLS[name]()
        return found

    return {name: functools.partial(load, file, name) for file in (*FILES.values(), MEMBERS) for name in file.calls}


class Entry(NamedTuple):
    """One entry, checked."""

    duty: type[Duty]
    name: str
    options: dict[str, Any]

    def on(self, machine: Machine) -> Duty:
        return self.duty(self.name, self.options, machine)


def read_list(given: Iterable[Any], machine: type[Machine], where: str = "duties") -> list[Entry]:
    """The entries of one host, in their order. Raises ValueError that names each option that is wrong. ``where``: what the list is called."""
    found: list[Entry] = []
    mistakes: list[str] = []
    known: dict[str, str] = {}
    for number, each in enumerate(given):
        place = "%s[%d]" % (where, number)
        try:
            entry = read(each, machine, place)
        except ValueError as error:
            mistakes.append(str(error).rstrip("."))
            continue
        if entry.duty.once and any(other.duty is entry.duty for other in found):
            mistakes.append("%s: a host has one %s only" % (place, entry.duty.type))
        if entry.name in known:
            mistakes.append("%s.name: %r is the name of %s already; give each its own" % (place, entry.name, known[entry.name]))
        known.setdefault(entry.name, place)
        found.append(entry)
    if mistakes:
        raise ValueError("; ".join(mistakes) + ".")
    return found


def read(given: Any, machine: type[Machine], where: str = "duty") -> Entry:
    """One entry as it is written: a dictionary, or the name of a service."""
    told = {"type": "service", "name": given} if isinstance(given, str) else given
    if not isinstance(told, dict):
        raise ValueError("%s: %r is neither a dictionary nor the name of a service." % (where, given))
    kind = told.get("type")
    duty = class_of(kind) if isinstance(kind, str) else None
    if duty is None:
        problem = "not set" if kind is None else "%r is no type of duty%s" % (kind, meant(kind, types()))
        raise ValueError("%s.type: %s; there is %s." % (where, problem, ", ".join(types())))
    refused = machine.refuses(duty.type)
    if refused:
        raise ValueError("%s: %s." % (where, refused))
    name = duty.type if told.get("name") in (None, "") else str(told["name"])
    options, mistakes = _checked(duty, {key: value for key, value in told.items() if key not in COMMON and value is not None}, machine)
    if not mistakes:
        mistakes = [*_wrong_name(duty, told.get("name"), name, options), *duty.mistakes(name, options)]
    if mistakes:
        raise ValueError("; ".join("%s%s: %s" % (where, "." + option if option else "", sentence) for option, sentence in mistakes) + ".")
    return Entry(duty, name, options)


def _checked(cls: type[Duty], given: dict[str, Any], machine: type[Machine]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The options in their types, with defaults, and what is wrong with them."""
    checked = ArgumentSpecValidator(machine.spec_of(cls.options)).validate(given)
    there = (*COMMON, *sorted(cls.options))
    mistakes = [
        ("", "there is no option %s%s; there are %s" % (key, meant(key, there), ", ".join(there))) for key in sorted(checked.unsupported_parameters, key=str)
    ]
    mistakes += [("", error.msg.rstrip(".")) for error in checked.errors if not isinstance(error, UnsupportedError)]
    return checked.validated_parameters, mistakes


def _wrong_name(cls: type[Duty], given: Any, name: str, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    needed = cls.needs_name(options) if given in (None, "") else ""
    if needed:
        yield "name", "not set; %s" % needed
    elif isinstance(given, (bool, dict, list)) or not cls.names.match(name):
        yield "name", "%r is not a plain word; write it of letters, digits, dots, dashes and underscores" % (given,)
