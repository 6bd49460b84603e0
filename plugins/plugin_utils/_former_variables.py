# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The former variables of a host, which nobody reads any more, and what takes their place. Pure.

Whoever still sets one is told so, with the entry of C(graceful_azure_duties) or the variable that takes its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml
from ansible_collections.graceful.azure.plugins.module_utils._azure_access import ACCESS as _ACCESS
from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.tasks import BACK_NAMES, OUT_NAMES
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import ON_HOST
from ansible_collections.graceful.azure.plugins.plugin_utils._options import is_set
from ansible_collections.graceful.azure.plugins.plugin_utils._text import plain
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Variables

PREFIX = "load_balancer_"
LIST = "load_balancer_list"
CUSTOM = "custom"
BEFORE, AFTER = OUT_NAMES
STEPS = (BEFORE, "drain_host_steps", "drain_host_services", AFTER)
"""The variables of which the drain steps of a host are made."""

VARIABLES = {
    "drain_host_ports": "ports",
    "drain_host_timeout": "drain_timeout",
    "restore_service_url": "health_url",
    "restore_service_port": "health_port",
    "restore_service_address": "health_address",
    "restore_service_validate_certs": "health_validate_certs",
    "restore_service_unanswered": "health_unanswered",
    "restore_service_timeout": "restore_timeout",
    "approve_event_through": "approve_through",
    "approve_event_azure_resource": "approve_resource",
}
"""Each with what takes its place, without C(graceful_azure_)."""
ACCESS = {f"approve_event_azure_{name}": name for name in _ACCESS}
"""Each with the key of C(graceful_azure_approve_access) that takes its place."""

_ON_MACHINES = {"hosts": "hosts", "server": "server", "quiet": "quiet"}
_HEALTH_PROBE = (
    *("action", "file", "file_means", "service", "command_out", "iis_site", "interval", "threshold", "margin", "url", "peer"),
    *("responder_port", "responder_url", "responder_untouched_port", "responder_state", "responder_python"),
)
PROVIDERS: dict[str, dict[str, str]] = {
    "haproxy": {**_ON_MACHINES, **{f"haproxy_{name}": name for name in ("socket", "backends", "state", "hard_stop_after", "absent")}},
    "nginx": {**_ON_MACHINES, "nginx_files": "files", "nginx_configuration": "configuration"},
    "health_probe": {"quiet": "quiet", "health_probe_command_in": "command_back", **{f"health_probe_{name}": name for name in _HEALTH_PROBE}},
    "azure_load_balancer": {"quiet": "quiet", **{f"azure_{name}": name for name in ("pool", "address", "ip_address", *_ACCESS)}},
    CUSTOM: {"custom_out": "out", "custom_in": "back"},
    "none": {},
}
"""Per value of C(load_balancer_provider): its options without their prefix, each with what takes its place in an entry."""
_OPTIONS = tuple(dict.fromkeys(("provider", *(option for options in PROVIDERS.values() for option in options), "timeout")))
BALANCER = tuple(f"{PREFIX}{option}" for option in _OPTIONS if option != "timeout")
"""The variables that tell of a single balancer."""
DUTIES = (LIST, *BALANCER, *STEPS)
"""The variables in whose place C(graceful_azure_duties) is."""
WAITING = tuple(name for name, duty in ON_HOST.items() if duty.needs_idle)
"""The types of steps that waited until the host was idle."""


def names() -> tuple[str, ...]:
    """All of the variables."""
    return (*DUTIES, *BACK_NAMES, *VARIABLES, *ACCESS)


def written_in(variables: Variables) -> Variables:
    """Those of them that are still set, as they are written: their templates belong into what takes their place."""
    return {name: variables[name] for name in names() if name in variables}


def mistakes_in(values: Variables) -> list[str]:
    """A sentence about what is still set, with what takes its place. C(values): the variables as the user wrote them, with their templates."""
    of_duties = [name for name in (*DUTIES, *BACK_NAMES) if is_set(values.get(name))]
    mistakes = [f"{', '.join(of_duties)}: no longer read; write graceful_azure_duties: {_shown(entries_of(values))}"] if of_duties else []
    mistakes.extend(
        f"{name}: no longer read; write graceful_azure_{option}: {_shown(values[name])}" for name, option in VARIABLES.items() if is_set(values.get(name))
    )
    access = {option: values[name] for name, option in ACCESS.items() if is_set(values.get(name))}
    if access:
        of_access = [name for name in ACCESS if is_set(values.get(name))]
        mistakes.append(f"{', '.join(of_access)}: no longer read; write graceful_azure_approve_access: {_shown(access)}")
    return mistakes


def _shown(value: Any) -> str:
    """A value as YAML in one line."""
    return str(yaml.safe_dump(plain([value]), default_flow_style=True, sort_keys=False, width=100_000)).strip()[1:-1]


def entries_of(values: Variables) -> list[Json]:
    """The entries of C(graceful_azure_duties) that say the same, in their order, as far as the variables can be understood."""
    before, after = BACK_NAMES
    steps = entries_of_steps(values)
    waiting = next((number for number, step in enumerate(steps) if str(step.get("type")) in WAITING or step.get("name") == AFTER), len(steps))
    return [*_file(after, "back", values), *steps[:waiting], *_traffic(values), *steps[waiting:], *_file(before, "back", values)]


def _traffic(values: Variables) -> Iterator[Json]:
    given = values.get(LIST)
    if isinstance(given, list):
        balancers = [entry for entry in given if isinstance(entry, dict)]
    else:
        balancers = [{name[len(PREFIX) :]: values[name] for name in BALANCER if is_set(values.get(name))}]
    seen: list[object] = []
    for balancer in balancers:
        provider = balancer.get("provider", "none" if not balancer else "TYPE")
        if provider == "none":
            continue
        known = PROVIDERS.get(provider, {}) if isinstance(provider, str) else {}
        entry = {"type": "tasks", "traffic": True} if provider == CUSTOM else {"type": provider}
        if provider in seen:
            entry["name"] = f"{entry['type']}_{seen.count(provider) + 1}"
        seen.append(provider)
        yield {**entry, **{known[option]: value for option, value in balancer.items() if option in known and is_set(value)}}


def entries_of_steps(values: Variables) -> list[Json]:
    """The entries for what ran on a host. C(values): those of C(STEPS)."""
    entries = _file(BEFORE, "out", values)
    steps, services = values.get("drain_host_steps") or (), values.get("drain_host_services") or ()
    for entry in steps if isinstance(steps, (list, tuple)) else ():
        if isinstance(entry, str):
            entries.append({"type": "service", "name": entry})
        elif isinstance(entry, dict):
            entries.append({"back" if option == "in" else option: value for option, value in entry.items()})
    entries.extend({"type": "service", "name": service} for service in dict.fromkeys(map(str, services if isinstance(services, (list, tuple)) else ())))
    return [*entries, *_file(AFTER, "out", values)]


def _file(variable: str, way: str, values: Variables) -> list[Json]:
    """The entry for a task file. It has the name of the variable, so that a record of an older version is its own."""
    return [{"type": "tasks", "name": variable, way: values[variable]}] if is_set(values.get(variable)) else []
