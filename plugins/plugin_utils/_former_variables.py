# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The former variables of a host, and what takes their place. Private to the collection; pure.

Nothing else knows them: here they become entries of C(graceful_azure_duties) and values of other C(graceful_azure_*) variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Options, Specs, Variables

Written = tuple[Any, Callable[[str], str]]
"""An entry as the user wrote it, and what people call it and its options. An empty text stands for the entry itself."""
PREFIX = "load_balancer_"
LIST, PROVIDER = "load_balancer_list", "load_balancer_provider"
CUSTOM = "custom"
BEFORE, AFTER = "drain_host_before", "drain_host_after"
STEPS = (BEFORE, "drain_host_steps", "drain_host_services", AFTER)
"""The variables of which the drain steps of a host are made."""
LISTS: Specs = {
    "drain_host_steps": {"type": "list", "elements": "raw", "default": []},
    "drain_host_services": {"type": "list", "elements": "str", "default": []},
}
RESTORING = ("restore_service_before", "restore_service_after")
"""Task files that run whenever a host is put back, before all else and after all else."""

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
_ACCESS = ("auth_source", "client_id", "profile", "cloud_environment", "arm_url", "login_url", "identity_url", "ca_file")
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


class Unread(NamedTuple):
    """What is set for a provider that the host does not have."""

    provider: str | None
    option: str
    value: Any
    called: str


def names() -> tuple[str, ...]:
    """All of the variables."""
    return (*DUTIES, *RESTORING, *VARIABLES, *ACCESS)


def is_set(value: Any) -> bool:
    """Null and an empty text stand for what is not set, as templates yield them."""
    return value is not None and not (isinstance(value, str) and not value)


def options_of(provider: str, entry: Options) -> Options:
    """The options of an entry in C(graceful_azure_duties). C(entry): those of the role load_balancer without their prefix."""
    known = PROVIDERS.get(provider) or {}
    return {known[option]: value for option, value in entry.items() if option in known}


def entries_of_balancers(values: Variables, mistakes: list[str]) -> tuple[list[Written], list[Unread]]:
    """The entries for the balancers of a host, and what is set that none of them reads."""
    entries: list[Written] = []
    unread: list[Unread] = []
    for number, (given, where) in enumerate(_balancers(values, mistakes)):
        provider, prefix = given.get("provider"), f"{where}." if where else PREFIX
        if provider is None or provider == "":
            mistakes.append(f"{prefix}provider: not set; write one of {', '.join(PROVIDERS)}")
        elif not isinstance(provider, str) or provider not in PROVIDERS:
            mistakes.append(f"{prefix}provider: {provider!r} is none of {', '.join(PROVIDERS)}")
        known = PROVIDERS.get(provider, {}) if isinstance(provider, str) else {}
        for option, value in given.items():
            if option not in known and option != "provider" and option in _OPTIONS:
                owner = next((name for name, options in PROVIDERS.items() if option in options), None)
                unread.append(Unread(owner, PROVIDERS[owner][option] if owner else option, value, prefix + option))
        if known:
            entry = {"type": "tasks", "traffic": True} if provider == CUSTOM else {"type": provider}
            entry.update(options_of(str(provider), given), name=f"load_balancer_{provider}" + (f"_{number}" if number else ""))
            if "hosts" in known and not is_set(entry.get("hosts")):
                entry["hosts"] = []
            entries.append((entry, _caller(where or PROVIDER, prefix, {**known, "provider": "type"})))
    return entries, unread


def _balancers(values: Variables, mistakes: list[str]) -> Iterator[tuple[Json, str]]:
    """The options of each balancer without their prefix, and what the entry is called, if it is one of a list."""
    given = values.get(LIST)
    if not is_set(given):
        yield {option: values[PREFIX + option] for option in _OPTIONS if option != "timeout" and PREFIX + option in values}, ""
        return
    beside = sorted(name for name in BALANCER if is_set(values.get(name)))
    if beside:
        mistakes.append(f"{LIST}: excludes {', '.join(beside)}; set that in its entries")
    if not isinstance(given, list) or not given:
        mistakes.append(f"{LIST}: {given!r}; give a list of dictionaries, one for each balancer")
        return
    for number, entry in enumerate(given):
        where = f"{LIST}[{number}]"
        if not isinstance(entry, dict):
            mistakes.append(f"{where}: {entry!r} is not a dictionary")
            continue
        mistakes.extend(f"{where}: there is no option {key}; there are {', '.join(_OPTIONS)}" for key in entry if key not in _OPTIONS)
        yield entry, where


def entries_of_steps(values: Variables) -> list[Written]:
    """The entries for the drain steps of a host. C(values): those of C(STEPS)."""
    entries: list[Written] = []
    entries.extend(entries_of_files(BEFORE, values))
    steps = values.get("drain_host_steps") or ()
    for number, entry in enumerate(steps if isinstance(steps, (list, tuple)) else ()):
        where = f"drain_host_steps[{number}]"
        if isinstance(entry, str):
            entry = {"type": "service", "name": entry}
        elif isinstance(entry, dict):
            entry = {"back" if option == "in" else option: value for option, value in entry.items()}
        entries.append((entry, _caller(where, f"{where}.", {"in": "back"})))
    services = values.get("drain_host_services") or ()
    for service in dict.fromkeys(map(str, services if isinstance(services, (list, tuple)) else ())):
        entries.append(({"type": "service", "name": service}, lambda option: "drain_host_services"))
    return [*entries, *entries_of_files(AFTER, values)]


def entries_of_files(variable: str, values: Variables) -> list[Written]:
    """The entry for a task file that one of the variables names; none if it is not set."""
    way = "back" if variable in RESTORING else "out"
    return [({"type": "tasks", "name": variable, way: values[variable]}, lambda option: variable)] if values.get(variable) else []


def _caller(where: str, prefix: str, options: dict[str, str]) -> Callable[[str], str]:
    """What people call an entry and its options. C(options): per former option what takes its place."""
    former = {option: name for name, option in options.items()}
    return lambda option: f"{prefix}{former.get(option, option)}" if option else where
