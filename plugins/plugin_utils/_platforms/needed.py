# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which collections of others a run needs, and whether the controller has them."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml
from ansible.module_utils.compat.version import LooseVersion
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import ON_HOST
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.by_platform import VARIABLE, WINDOWS, told_by
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Variables

COLLECTIONS = {"ansible.windows": "3.8.0", "microsoft.iis": "1.3.0"}
"""The collections whose modules run on Windows hosts, and the oldest versions with which that was tried."""
OF_STEPS = {"iis": "microsoft.iis"}
"""Types of drain steps that need another one."""
OF_ACTIONS = {"iis_site": "microsoft.iis"}
"""Ways to make a health answer fail that need another one."""
HEALTH_ACTIONS = ("file", "service", "iis_site")
"""The ways to make a health answer fail that Windows hosts have."""
VARIABLES = (VARIABLE, "ansible_connection", "ansible_shell_type")


def no_such_action(action: str) -> str:
    """The sentence that no Windows host has this way to make a health answer fail."""
    *others, last = HEALTH_ACTIONS
    return f"the option action: {action} is not possible on a Windows host; there are {', '.join(others)} and {last}."


def what_to_install(collection: str) -> str:
    """The sentence that says which version of a collection is needed, and how it is installed."""
    version = COLLECTIONS[collection]
    return f"Windows hosts need {collection} {version} or later there (ansible-galaxy collection install '{collection}:>={version}')."


def installed(collection: str) -> str | None:
    """The version of a collection on this machine, or None. One that lies there without a version is taken for new enough."""
    try:
        (folder, *_others) = importlib.import_module(f"ansible_collections.{collection}").__path__
    except ImportError:
        return None
    readers: tuple[tuple[str, Callable[[Any], Any]], ...] = (
        ("MANIFEST.json", lambda file: json.load(file)["collection_info"]),
        ("galaxy.yml", yaml.safe_load),
    )
    for name, read in readers:
        try:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                return str(read(file)["version"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return "999"


def lacking(hosts: Mapping[str, Variables], settings: Mapping[str, Json], version_of: Callable[[str], str | None] = installed) -> Iterator[str]:
    """Sentences about what Windows hosts do not have, and about what the controller lacks for them. C(hosts): per name the values of C(VARIABLES)."""
    wanted: dict[str, list[str]] = {}
    for name in sorted(name for name, variables in hosts.items() if told_by(variables) == WINDOWS):
        balancers, steps = settings[name]["load_balancers"], settings[name]["drain_host"]["steps"]
        for balancer in balancers:
            if balancer["provider"] == "health_probe" and balancer["action"] and balancer["action"] not in HEALTH_ACTIONS:
                yield f"{name}: {no_such_action(balancer['action'])}"
        for step in steps:
            if not ON_HOST[step["type"]].windows:
                yield f"{name}: graceful_azure_duties: {step['name']}: no Windows host can have a duty of the type {step['type']}"
        of_steps = {OF_STEPS[step["type"]] for step in steps if step["type"] in OF_STEPS}
        of_actions = {OF_ACTIONS[balancer["action"]] for balancer in balancers if balancer.get("action") in OF_ACTIONS}
        for collection in ["ansible.windows", *sorted(of_steps | of_actions)]:
            wanted.setdefault(collection, []).append(name)
    for collection, names in wanted.items():
        found = version_of(collection)
        if found is None or LooseVersion(found) < LooseVersion(COLLECTIONS[collection]):
            has = f"no {collection}" if found is None else f"an old {collection} ({found})"
            yield f"{', '.join(names)}: the controller has {has}. {what_to_install(collection)}"
