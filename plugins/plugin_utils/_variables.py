# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The values of variables. A variable that cannot be resolved is a mistake and does not count as not set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ansible import constants as C
from ansible import context
from ansible.errors import AnsibleError
from ansible_collections.graceful.azure.plugins.plugin_utils._text import first_line
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Variables

if TYPE_CHECKING:
    from ansible.playbook.task import Task
    from ansible.template import Templar


def resolve(templar: Templar, names: Iterable[str], variables: Variables) -> tuple[Variables, dict[str, str]]:
    """Resolve the named variables of one host.

    Returns the values of those that are set and, by name, a sentence without a full stop about each one that cannot be resolved.
    C(variables): all variables of the host, as they are written. The templates may refer to any of them.
    """
    templar = templar.copy_with_new_env(available_variables=variables)
    values: Variables = {}
    mistakes: dict[str, str] = {}
    for name in sorted(names):
        if name in variables:
            try:
                value = templar.template(variables[name])
                # Before core 2.19, the value of a vaulted variable is not a text.
                values[name] = str(value) if getattr(value, "__ENCRYPTED__", False) else value
            except AnsibleError as error:
                mistakes[name] = f"{name}: {variables[name]!r} cannot be resolved: {first_line(error)}"
    return values, mistakes


def target_of(templar: Templar, variables: Variables) -> str:
    """The C(target) of this play, as one pattern that a person can type."""
    target = resolve(templar, ["target"], variables)[0].get("target", "all")
    return target if isinstance(target, str) else ",".join(map(str, target))


def of_hosts(names: Iterable[str], hostvars: Any, task: Task) -> dict[str, Variables]:
    """All that these hosts have, as a task of this play has it. C(hostvars) alone leaves out what the play itself sets."""
    manager, play = hostvars._variable_manager, task.get_play()
    return {name: manager.get_vars(play=play, host=hostvars._inventory.get_host(name), task=task) for name in names}


def usual_connection() -> str:
    """How Ansible reaches a machine that does not say it."""
    return str(context.CLIARGS.get("connection") or C.DEFAULT_TRANSPORT)


def unsaid_connections(machines: Mapping[str, Variables], usual: str) -> list[str]:
    """The machines that do not say how they are reached, if another one is reached in another way than the usual one.

    In a loop over machines, Ansible reaches a machine without C(ansible_connection) as it reached the machine before. After localhost, that would be the
    controller itself. C(machines): the variables of each.
    """
    connections = {name: variables.get("ansible_connection") for name, variables in machines.items()}
    if set(connections.values()) <= {None, usual}:
        return []
    return sorted(name for name, connection in connections.items() if connection is None)
