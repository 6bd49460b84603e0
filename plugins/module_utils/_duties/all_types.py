# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The types of duties, and how the entries of C(graceful_azure_duties) are read."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple, cast

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.graceful.azure.plugins.module_utils._duties.options import (
    mistakes_together,
    name_mistakes,
    path_mistakes,
    spelled_out,
    told_mistake,
    type_mistake,
    unknown_options,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import Call, Duty
    from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine


# The files of duties, each with the names of its C(CALLS). A file has the name of its type, but all members of clusters are in one.
MEMBERS = "cluster"
FILES = {
    "haproxy": ("haproxy_hold", "haproxy_info"),
    "nginx": ("nginx_hold", "nginx_info"),
    "health_probe": ("health_probe_hold", "health_probe_info"),
    "azure_load_balancer": ("azure_load_balancer_hold", "azure_load_balancer_info"),
    "tasks": ("task_hold",),
    "service": ("service_hold",),
    "iis": ("iis_hold",),
    MEMBERS: ("cluster_hold",),
}


def load(file: str) -> ModuleType:
    """Only the file that is needed is loaded, because each run of a module starts Python anew. Ansible sends what is imported by its name."""
    found: ModuleType
    if file == "haproxy":
        from ansible_collections.graceful.azure.plugins.module_utils._duties import haproxy as found
    elif file == "nginx":
        from ansible_collections.graceful.azure.plugins.module_utils._duties import nginx as found
    elif file == "health_probe":
        from ansible_collections.graceful.azure.plugins.module_utils._duties import health_probe as found
    elif file == "azure_load_balancer":
        from ansible_collections.graceful.azure.plugins.module_utils._duties import azure_load_balancer as found
    elif file == "tasks":
        from ansible_collections.graceful.azure.plugins.module_utils._duties import tasks as found
    elif file == "service":
        from ansible_collections.graceful.azure.plugins.module_utils._duties import service as found
    elif file == "iis":
        from ansible_collections.graceful.azure.plugins.module_utils._duties import iis as found
    else:
        from ansible_collections.graceful.azure.plugins.module_utils._duties import cluster as found
    return found


def types() -> list[str]:
    return [*(file for file in FILES if file != MEMBERS), *load(MEMBERS).DUTIES]


def class_of(kind: str) -> type[Duty] | None:
    """The class of a type; None if there is no such type."""
    found: type[Duty] | None = load(kind).DUTIES.get(kind)
    return found


def calls() -> dict[str, Callable[[], Call]]:
    """What a machine can be asked about its duties, by its name: functions that load it."""

    def load_call(file: str, name: str) -> Call:
        found: Call = load(file).CALLS[name]()
        return found

    return {name: functools.partial(load_call, file, name) for file, names in FILES.items() for name in names}


class CheckedEntry(NamedTuple):
    """One entry, checked."""

    duty: type[Duty]
    name: str
    options: dict[str, Any]

    def on(self, machine: Machine) -> Duty:
        return self.duty(self.name, self.options, machine)


def read_list(given: Iterable[Any], machine: type[Machine]) -> list[CheckedEntry]:
    """The entries of one host, in their order. Raises ValueError that names each option that is wrong."""
    found: dict[str, CheckedEntry] = {}
    mistakes: list[str] = []
    for number, each in enumerate(given):
        place = "duties[%d]" % number
        try:
            found[place] = read(each, machine, place)
        except ValueError as error:
            mistakes.append(str(error).rstrip("."))
    together = mistakes_together((place, entry.duty.type, entry.name, entry.duty.once) for place, entry in found.items())
    mistakes.extend(told_mistake(*mistake) for mistake in together)
    if mistakes:
        raise ValueError("; ".join(mistakes) + ".")
    return list(found.values())


def read(given: Any, machine: type[Machine], where: str = "duty") -> CheckedEntry:
    """One entry as it is written: a dictionary, or the name of a service."""
    written = spelled_out(given)
    mistake = type_mistake(written, types())
    if mistake:
        raise ValueError(told_mistake(where, *mistake) + ".")
    duty = cast("type[Duty]", class_of(written["type"]))
    refused = machine.refuses(duty.type)
    if refused:
        raise ValueError("%s: %s." % (where, refused))
    name = duty.type if written.get("name") in (None, "") else str(written["name"])
    mistakes = [*unknown_options(written, duty.options)]
    set_ones = {key: value for key, value in written.items() if key in duty.options and value is not None}
    spec = machine.spec_of(duty.options)
    checked = ArgumentSpecValidator(spec).validate(set_ones)
    mistakes += [("", error.msg.rstrip(".")) for error in checked.errors]
    options = checked.validated_parameters
    if not mistakes:
        mistakes = [*name_mistakes(written, duty.options, duty.name_pattern, duty.needs_name), *path_mistakes(spec, options), *duty.mistakes(name, options)]
    if mistakes:
        raise ValueError("; ".join(told_mistake(where, option, sentence) for option, sentence in mistakes) + ".")
    return CheckedEntry(duty, name, options)
