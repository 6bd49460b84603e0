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
import functools
import ipaddress
import math
import os
import re

import yaml
from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible_collections.graceful.azure.plugins.module_utils._answers import AddressError, split_url
from ansible_collections.graceful.azure.plugins.module_utils._minimum import parse_minimum
from ansible_collections.graceful.azure.plugins.plugin_utils._rules import check_rules, rules_of

ROLES = ("load_balancer", "drain_host", "restore_service", "approve_event")
ROLES_FOLDER = os.path.join(os.path.dirname(__file__), "..", "..", "roles")

# Options of the roles that the passes set themselves.
_SET_BY_PASSES = ("state", "wait", "event_ids", "event_details", "reason", "min_in_service", "ready_resources")

# What else users set, or what a run itself leaves on the hosts.
VARIABLES = (
    *("graceful_azure_imds_url", "graceful_azure_resource_name", "graceful_azure_rules", "graceful_azure_min_in_service"),
    *("graceful_azure_unknown_resources", "graceful_azure_may_be_off", "graceful_azure_state_dir"),
    *("graceful_azure_settings", "graceful_azure_plan", "graceful_azure_host", "graceful_azure_balancers", "graceful_azure_failure"),
    *("handle_events_timeout", "handle_events_sleep", "handle_events_observe_timeout", "handle_events_wait", "handle_events_journal"),
    "handle_events_unknown_targets",
)
TASK_FILES = ("drain_host_before", "drain_host_after", "restore_service_before", "restore_service_after")
"""Options that name a task file of the user's own, besides those of the provider custom."""
_WRONG_TYPE = re.compile(r"argument '(\w+)' is of type .* unable to convert to (\w+):")
_TYPES = {"bool": "true or false", "int": "a whole number", "float": "a number", "list": "a list", "dict": "a dictionary", "str": "a text"}
QUIET = 3.0
"""Seconds without a new session after which a server that is out counts as drained, where nothing else is set."""
CLOSE, CLOSE_ELSEWHERE = 0.9, 0.92
"""How alike a variable's name and one of ours must be to be told, from 0 to 1: where it begins as ours do, and where it does not."""
PREFIXES = ("graceful_azur", "handle_event", "load_balancer_", "drain_host_", "approve_event_", "restore_service_")


@functools.cache
def _stated(role):
    """The options of a role's main entry point, as its argument spec has them; for reading alone."""
    with open(os.path.join(ROLES_FOLDER, role, "meta", "argument_specs.yml"), encoding="utf-8") as spec:
        return yaml.safe_load(spec)["argument_specs"]["main"]["options"]


def role_options(all_of_them=False):
    """The options of the roles' main entry points that users set, by variable name; or all that these roles have."""
    options = {}
    for role in ROLES:
        for name, option in _stated(role).items():
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
        mistakes.append(f"{name}: {value!r} is not a number of seconds from {least:g} up")
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


def _port(value):
    """The number of a TCP port, or None."""
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and 1 <= int(text) <= 65535 else None


def _check_port(mistakes, name, port):
    if _port(port) is None:
        mistakes.append(f"{name}: {port!r} is not a TCP port from 1 to 65535")


def check_boolean(mistakes, name, value):
    """Whether it is true. What is neither true nor false is a mistake; the filter C(bool) would take it for false."""
    try:
        return boolean(value)
    except TypeError:
        mistakes.append(f"{name}: {value!r} is neither true nor false")
        return False


def check_path(mistakes, name, value, where=""):
    """A path on another machine must be absolute: the working folder of a module is another one in each run. C(~) and C($HOME) are the machine's own."""
    if value is None or value == "":
        return
    if not isinstance(value, str) or not value.startswith(("/", "~", "$")):
        mistakes.append(f"{where}{name}: {value!r} is not an absolute path; write one that begins with /")


def _check_imds_url(mistakes, url):
    if url is None:
        return
    # Only here: the client brings a library that takes longer to load than all the rest.
    from ansible_collections.graceful.azure.plugins.module_utils._imds import ImdsSetupError, check_url

    try:
        check_url(url)
    except ImdsSetupError as error:
        mistakes.append(f"graceful_azure_{error}")


def _check_address(mistakes, name, address):
    """A name or a bare IP address, as it can be connected to."""
    try:
        ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        if ":" in address or not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9.])?", address):
            mistakes.append(f"{name}: {address!r} is neither a name nor an IP address; write it without a scheme, brackets or a port")


def _task_problem(tasks, loader):
    """A sentence about the first of these tasks that cannot be loaded, or None. One that cannot ends a run for all hosts, rescued by nothing."""
    for task in tasks:
        if not isinstance(task, dict):
            return f"{task!r} is not a task"
        inner = [inner for key in ("block", "rescue", "always") for inner in task.get(key) or ()]
        try:
            problem = _task_problem(inner, loader) if "block" in task else Task.load(task, loader=loader) and None
        except AnsibleError as error:
            problem = str(error).strip().splitlines()[0]
        if problem:
            return problem
    return None


def _check_task_file(mistakes, variables, name, playbook_dir, loader):
    path = os.path.join(playbook_dir, str(variables[name]))
    if not os.path.isfile(path):
        mistakes.append(f"{name}: there is no task file {path}")
        return
    try:
        tasks = loader.load_from_file(path)
    except AnsibleError as error:
        mistakes.append(f"{name}: {path}: {str(error).strip().splitlines()[0]}")
        return
    problem = _task_problem(tasks or (), loader) if isinstance(tasks or [], list) else "it does not contain a list of tasks"
    if problem:
        mistakes.append(f"{name}: {path}: {problem}")


def read_settings(hosts, known_hosts, playbook_dir="", loader=None):
    """Check the variables of all hosts; returns the plan's settings and every mistake as a sentence.

    C(hosts): per inventory name its variables (None: not set). C(known_hosts): every inventory name.
    C(playbook_dir): what paths of task files are relative to.
    """
    files = (playbook_dir, loader or DataLoader())
    options = role_options()
    settings = {}
    mistakes = []
    told = {}
    for name, variables in hosts.items():
        found = []
        settings[name] = _settings_of(name, variables, options, known_hosts, files, found)
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
    found, meant = {}, {}
    for name, variables in hosts.items():
        for variable in variables:
            if variable not in meant:
                alike = variable not in known and not variable.startswith("ansible_") and not variable.endswith("_result")
                cutoff = CLOSE if variable.startswith(PREFIXES) else CLOSE_ELSEWHERE
                meant[variable] = difflib.get_close_matches(variable, known, n=1, cutoff=cutoff) if alike else []
            if meant[variable]:
                found.setdefault((variable, meant[variable][0]), []).append(name)
    return [f"{', '.join(names)}: nothing reads the variable {variable}; is {meant} meant?" for (variable, meant), names in sorted(found.items())]


def unresolved(hosts, template):
    """A sentence for each variable of ours that would be taken for not set: a template in which something is undefined, or null for a number.

    C(hosts): per name all its variables, as they are written. C(template): templates a text with the variables of a host.
    """
    options = role_options()
    found = {}
    for name, variables in hosts.items():
        for variable in sorted((set(options) | set(VARIABLES)) & set(variables)):
            text = variables[variable]
            option = options.get(variable, {})
            if text is None and "default" in option and option["type"] not in ("str", "path"):
                found.setdefault(f"{variable}: null is not {_TYPES[option['type']]}; leave it out for the default", []).append(name)
            if isinstance(text, str) and "{" in text:
                try:
                    template(text, name)
                except AnsibleError as error:
                    found.setdefault(f"{variable}: {text!r} cannot be resolved: {str(error).strip().splitlines()[0]}", []).append(name)
    return [f"{', '.join(names)}: {mistake}" for mistake, names in found.items()]


def forbidden(extra):
    """A sentence for each extra variable, stronger than any other, that would have the last word over what the passes decide."""
    ours = set(role_options(all_of_them=True)) - set(role_options())
    return [f"{name}: given as an extra variable; the passes set it themselves, leave it out" for name in sorted(ours & set(extra))]


def _type_mistakes(messages, values, told):
    """What Ansible says of options, without names of Python's classes and without what was told already in other words."""
    for message in messages:
        wrong = _WRONG_TYPE.match(message)
        if not wrong:
            yield message
        elif not any(mistake.startswith(f"{wrong[1]}: ") for mistake in told):
            yield f"{wrong[1]}: {values.get(wrong[1])!r} cannot be read as {_TYPES.get(wrong[2], wrong[2])}"


def _settings_of(name, variables, options, known_hosts, files, mistakes):
    # What is not set comes as null, or as an empty text where templates yield nothing but texts (core before 2.19).
    values = {key: value for key, value in variables.items() if value is not None and value != ""}
    for key, value in values.items():
        if isinstance(value, (str, bool, int, float)) and options.get(key, {}).get("type") == "list":
            mistakes.append(f"{key}: {value!r} is {'a text' if isinstance(value, str) else 'a single value'}; it must be a list")
    for key, option in options.items():
        # A text, a path, or an option without a default is not set then.
        if variables.get(key) == "" and "default" in option and option["type"] not in ("str", "path"):
            mistakes.append(f"{key}: an empty text is not {_TYPES[option['type']]}; leave it out for the default")
    # Numbers of seconds are checked below, in words that name the limit.
    specs = {key: dict(option, type="raw") if option.get("type") == "float" else option for key, option in options.items()}
    validated = ArgumentSpecValidator(specs).validate({key: value for key, value in values.items() if key in specs})
    mistakes.extend(_type_mistakes(validated.error_messages, values, mistakes))
    values.update(validated.validated_parameters)

    provider = values.get("load_balancer_provider")
    balancers = [str(host) for host in values.get("load_balancer_hosts") or ()]
    if provider == "haproxy" and not balancers:
        mistakes.append("load_balancer_hosts: empty; provider haproxy needs the inventory names of the machines on which the balancer runs")
    for host in balancers:
        if host not in known_hosts:
            mistakes.append(f"load_balancer_hosts: {host!r} is not in the inventory")
    custom = ("load_balancer_custom_out", "load_balancer_custom_in") if provider == "custom" else ()
    if not all(values.get(key) for key in custom):
        mistakes.append("load_balancer_custom_out and load_balancer_custom_in: both task files are needed for provider custom")
    for key in (*custom, *TASK_FILES):
        if values.get(key):
            _check_task_file(mistakes, values, key, *files)
    # What is no number was told above.
    if isinstance(values.get("restore_service_port"), int):
        # As it was written: int() takes more for a number than the role does.
        _check_port(mistakes, "restore_service_port", variables["restore_service_port"])
    _check_address(mistakes, "restore_service_address", str(values.get("restore_service_address") or "localhost"))
    if values.get("restore_service_url"):
        try:
            split_url(values["restore_service_url"])
        except AddressError as error:
            mistakes.append(f"restore_service_url: {error}")
    check_path(mistakes, "graceful_azure_state_dir", values.get("graceful_azure_state_dir"))
    # A word with @ is refused by name where HAProxy is asked.
    if "@" not in str(values.get("load_balancer_haproxy_socket")):
        check_path(mistakes, "load_balancer_haproxy_socket", values.get("load_balancer_haproxy_socket"))
    _check_imds_url(mistakes, values.get("graceful_azure_imds_url"))
    _check_number(mistakes, values, "load_balancer_timeout", 0, None)
    _check_number(mistakes, values, "approve_event_timeout", 0.001, None)
    rules = values.get("graceful_azure_rules")
    rule_mistakes = check_rules(rules)
    mistakes.extend(rule_mistakes)
    unknown_resources = values.get("graceful_azure_unknown_resources") or "hold"
    if unknown_resources not in ("hold", "ignore"):
        mistakes.append(f"graceful_azure_unknown_resources: {unknown_resources!r} is neither hold nor ignore")
    may_be_off = check_boolean(mistakes, "graceful_azure_may_be_off", values.get("graceful_azure_may_be_off", False))
    for port in values.get("drain_host_ports") or ():
        _check_port(mistakes, "drain_host_ports", port)
    return {
        "resource_name": str(values["graceful_azure_resource_name"]) if "graceful_azure_resource_name" in values else None,
        "rules": [] if rule_mistakes else rules_of(rules),
        "min_in_service": _check_minimum(mistakes, values.get("graceful_azure_min_in_service")),
        "unknown_resources": unknown_resources,
        "may_be_off": may_be_off,
        "load_balancer": {
            "provider": provider,
            "hosts": balancers,
            "server": values.get("load_balancer_server") or name,
            "socket": values.get("load_balancer_haproxy_socket"),
            "hard_stop_after": _check_number(mistakes, values, "load_balancer_haproxy_hard_stop_after", 0, None),
            "state": values.get("load_balancer_haproxy_state"),
            "quiet": _check_number(mistakes, values, "load_balancer_quiet", 0, QUIET),
            "absent": values.get("load_balancer_haproxy_absent") or "unknown",
            "backends": [str(backend) for backend in values.get("load_balancer_haproxy_backends") or ()],
        },
        "drain_host": {
            "ports": [number for number in map(_port, values.get("drain_host_ports") or ()) if number is not None],
            "services": [str(service) for service in values.get("drain_host_services") or ()],
            "timeout": _check_number(mistakes, values, "drain_host_timeout", 0, 120.0),
            "before": bool(values.get("drain_host_before")),
            "after": bool(values.get("drain_host_after")),
        },
        "restore_service": {
            "timeout": _check_number(mistakes, values, "restore_service_timeout", 0, 300.0),
            "unanswered": values.get("restore_service_unanswered") or "refuse",
            "ask": _what_to_ask(values),
        },
    }


def _what_to_ask(values):
    """What must answer before the host goes back, as the modules take it; empty where nothing does."""
    url, port = values.get("restore_service_url"), _port(values.get("restore_service_port"))
    if not url and port is None:
        return {}
    asked = {"validate_certs": values.get("restore_service_validate_certs", True)}
    if url:
        asked["url"] = url
    if port is not None:
        asked.update(port=port, host=str(values.get("restore_service_address") or "localhost"))
    return asked


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
