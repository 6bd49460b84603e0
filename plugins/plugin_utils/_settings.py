# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the variables of the hosts say, checked and brought into the plan's form. Private to the collection.

Only place where the plan's side knows the names of role and inventory variables. Types and
choices come from the roles' own argument specs, so that a mistake is found before the first
pass and not when an event comes.
"""

from __future__ import annotations

import difflib
import math
import os

import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.graceful.azure.plugins.module_utils._minimum import parse_minimum
from ansible_collections.graceful.azure.plugins.plugin_utils._rules import check_rules, rules_of

ROLES = ("load_balancer", "drain_host", "restore_service")
ROLES_FOLDER = os.path.join(os.path.dirname(__file__), "..", "..", "roles")

# Options of the roles that the passes set themselves.
_SET_BY_PASSES = ("state", "wait", "event_ids", "event_details", "reason", "min_in_service")

# What else users set, or what a run itself leaves on the hosts.
VARIABLES = (
    *("graceful_azure_imds_url", "graceful_azure_resource_name", "graceful_azure_rules", "graceful_azure_min_in_service"),
    *("graceful_azure_unknown_resources", "graceful_azure_state_dir"),
    *("graceful_azure_settings", "graceful_azure_plan", "graceful_azure_host", "graceful_azure_balancers", "graceful_azure_failure"),
    *("handle_events_timeout", "handle_events_sleep", "handle_events_observe_timeout", "handle_events_wait", "handle_events_journal"),
)
PREFIXES = ("graceful_azur", "handle_event", "load_balancer_", "drain_host_", "approve_event_", "restore_service_")


def role_options(all_of_them=False):
    """The options of the roles' main entry points that users set, by variable name; or all that these roles have."""
    options = {}
    for role in (*ROLES, "approve_event") if all_of_them else ROLES:
        with open(os.path.join(ROLES_FOLDER, role, "meta", "argument_specs.yml"), encoding="utf-8") as spec:
            stated = yaml.safe_load(spec)["argument_specs"]["main"]["options"]
        for name, option in stated.items():
            if all_of_them or name[len(role) + 1:] not in _SET_BY_PASSES:
                options[name] = option
    return options


def _check_number(mistakes, variables, name, least, default):
    """A number of seconds from C(least) up; the default after a mistake was noted."""
    value = variables.get(name)
    if value is None:
        return default
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number) or number < least:
        mistakes.append(f"{name}: {value!r} is no number of seconds from {least:g} up")
        return default
    return number


def _check_minimum(mistakes, value):
    if value is None:
        return 1
    try:
        return parse_minimum(value)
    except ValueError as error:
        mistakes.append(f"graceful_azure_min_in_service: {error}")
        return 1


def read_settings(hosts, known_hosts):
    """Check the variables of all hosts; returns the plan's settings and every mistake as a sentence.

    C(hosts): per inventory name its variables (None: not set). C(known_hosts): every inventory name.
    """
    options = role_options()
    settings = {}
    mistakes = []
    told = {}
    for name, variables in hosts.items():
        found = []
        settings[name] = _settings_of(name, variables, options, known_hosts, found)
        for mistake in found:
            told.setdefault(mistake, []).append(name)
    balancers = {balancer for values in settings.values() for balancer in values["load_balancer"]["hosts"]}
    for name in sorted(balancers & {name for name in hosts if settings[name]["load_balancer"]["provider"] is None}):
        told = {mistake: [other for other in names if other != name] for mistake, names in told.items()}
        told.setdefault("a balancer of the others, and no target: give the group of the VMs alone as target", []).append(name)
    mistakes.extend(f"{', '.join(names)}: {mistake}" for mistake, names in told.items() if names)
    mistakes.extend(_claimed_twice(settings))
    return settings, mistakes


def misspelt(hosts):
    """A sentence for each variable that nobody reads and whose name is nearly that of one of ours. C(hosts): per name all its variables."""
    known = set(role_options(all_of_them=True)) | set(VARIABLES)
    found = {}
    for name, variables in hosts.items():
        for variable in variables:
            if variable not in known and variable.startswith(PREFIXES) and not variable.endswith("_result"):
                meant = difflib.get_close_matches(variable, known, n=1, cutoff=0.9)
                if meant:
                    found.setdefault((variable, meant[0]), []).append(name)
    return [f"{', '.join(names)}: nothing reads the variable {variable}; is {meant} meant?" for (variable, meant), names in sorted(found.items())]


def _settings_of(name, variables, options, known_hosts, mistakes):
    # What is not set comes as null, or as an empty text where templates yield nothing but texts (core before 2.19).
    values = {key: value for key, value in variables.items() if value is not None and value != ""}
    # Numbers of seconds are checked below, in words that name the limit.
    specs = {key: dict(option, type="raw") if option.get("type") == "float" else option for key, option in options.items()}
    validated = ArgumentSpecValidator(specs).validate({key: value for key, value in values.items() if key in specs})
    mistakes.extend(validated.error_messages)
    values.update(validated.validated_parameters)

    provider = values.get("load_balancer_provider")
    balancers = [str(host) for host in values.get("load_balancer_hosts") or ()]
    if provider == "haproxy" and not balancers:
        mistakes.append("load_balancer_hosts: empty; provider haproxy needs the inventory names of the machines on which the balancer runs")
    for host in balancers:
        if host not in known_hosts:
            mistakes.append(f"load_balancer_hosts: {host!r} is not in the inventory")
    if provider == "custom" and not (values.get("load_balancer_custom_out") and values.get("load_balancer_custom_in")):
        mistakes.append("load_balancer_custom_out and load_balancer_custom_in: both task files are needed for provider custom")
    rules = values.get("graceful_azure_rules")
    rule_mistakes = check_rules(rules)
    mistakes.extend(rule_mistakes)
    unknown_resources = values.get("graceful_azure_unknown_resources") or "hold"
    if unknown_resources not in ("hold", "ignore"):
        mistakes.append(f"graceful_azure_unknown_resources: {unknown_resources!r} is neither hold nor ignore")
    for port in values.get("drain_host_ports") or ():
        if not str(port).isdigit() or not 1 <= int(port) <= 65535:
            mistakes.append(f"drain_host_ports: {port!r} is no TCP port from 1 to 65535")
    return {
        "resource_name": str(values["graceful_azure_resource_name"]) if "graceful_azure_resource_name" in values else None,
        "rules": [] if rule_mistakes else rules_of(rules),
        "min_in_service": _check_minimum(mistakes, values.get("graceful_azure_min_in_service")),
        "unknown_resources": unknown_resources,
        "load_balancer": {
            "provider": provider,
            "hosts": balancers,
            "server": values.get("load_balancer_server") or name,
            "socket": values.get("load_balancer_haproxy_socket"),
            "backends": [str(backend) for backend in values.get("load_balancer_haproxy_backends") or ()],
        },
        "drain_host": {
            "ports": [int(port) for port in values.get("drain_host_ports") or () if str(port).isdigit()],
            "services": [str(service) for service in values.get("drain_host_services") or ()],
            "timeout": _check_number(mistakes, values, "drain_host_timeout", 0, 120.0),
            "before": bool(values.get("drain_host_before")),
            "after": bool(values.get("drain_host_after")),
        },
        "restore_service": {"timeout": _check_number(mistakes, values, "restore_service_timeout", 0, 300.0)},
    }


def _claimed_twice(settings):
    """Two hosts that stand for the same server of the same balancer: one's hold would be the other's."""
    owners = {}
    mistakes = []
    for name, values in settings.items():
        balancer = values["load_balancer"]
        if balancer["provider"] != "haproxy":
            continue
        for host in balancer["hosts"]:
            for backend in balancer["backends"] or [None]:
                claims = owners.setdefault((host, balancer["socket"], balancer["server"]), {})
                clash = claims.get(backend) or (claims and backend is None and next(iter(claims.values()))) or claims.get(None)
                if clash and clash != name:
                    mistakes.append(f"{name}: load_balancer_server: {balancer['server']!r} on {host} is {clash}'s server already")
                claims.setdefault(backend, name)
    return mistakes
