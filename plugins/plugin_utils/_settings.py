# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the variables of the hosts say, checked and brought into the plan's form. Private to the collection.

Names, types, choices and defaults come from the argument specs of the roles. The playbook checks the variables of
all hosts before the first pass, and a role that is used alone checks those that it reads. Both call the functions here.
"""

from __future__ import annotations

import difflib
import functools
import ipaddress
import math
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml
from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible_collections.graceful.azure.plugins.module_utils._health_check import AddressError, split_url
from ansible_collections.graceful.azure.plugins.module_utils._minimum import parse_minimum
from ansible_collections.graceful.azure.plugins.plugin_utils._drain_steps.listed import drain_steps, mistakes_in, steps_of
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.registry import PLATFORMS, VARIABLE, is_absolute
from ansible_collections.graceful.azure.plugins.plugin_utils._rules import check_rules, rules_of
from ansible_collections.graceful.azure.plugins.plugin_utils._steps import approve_event
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.load_balancer import BALANCERS, settings_of
from ansible_collections.graceful.azure.plugins.plugin_utils._text import first_line
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, DrainStep, Json, Options, Variables

Files = tuple[str, DataLoader]
"""The folder to which paths of task files are relative, and what reads the files."""
Specs = dict[str, Json]
"""Options by their names, each as an argument spec has it."""
ROLES = ("load_balancer", "drain_host", "restore_service", "approve_event")
ROLES_FOLDER = os.path.join(os.path.dirname(__file__), "..", "..", "roles")

# The one that is written in C takes a tenth of the time.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# Options of the roles that the passes set themselves.
_SET_BY_PASSES = ("state", "wait", "event_ids", "event_details", "reason", "min_in_service", "ready_resources")

OF_HOSTS = (
    *("graceful_azure_imds_url", "graceful_azure_resource_name", "graceful_azure_rules", "graceful_azure_min_in_service"),
    *("graceful_azure_unknown_resources", "graceful_azure_may_be_off", "graceful_azure_state_dir", VARIABLE),
)
"""What is read of a host besides the variables of the roles."""
OF_RUNS = (
    *("handle_events_timeout", "handle_events_sleep", "handle_events_observe_timeout", "handle_events_wait", "handle_events_journal", "handle_events_report"),
    *("handle_events_metrics", "handle_events_unknown_targets"),
)
NOTIFY = "handle_events_notify"
"""It is resolved for each notification, because its templates have more to read then."""
_LEFT_BY_RUNS = ("graceful_azure_plan", "graceful_azure_turns", "graceful_azure_host", "graceful_azure_balancers", "graceful_azure_failure")

PREFIX = "load_balancer_"
ADDRESS = "ansible_host"
"""Where Ansible reaches a host. If this is an IP address, a balancer may know the host by it."""
LIST = "load_balancer_list"
"""Several balancers of one host. An entry has the options of load_balancer without the prefix."""
TASK_FILES = {
    "drain_host": ("drain_host_before", "drain_host_after"),
    "restore_service": ("restore_service_before", "restore_service_after"),
}
"""Options that name a task file of the user's own. Those of load_balancer are known to the kinds of balancers."""
STEPS = ("drain_host_before", "drain_host_steps", "drain_host_services", "drain_host_after")
"""The options that the drain steps of a host are made of."""
# The modules take a text with commas for these, and so it may come from the command line. Of the last one there is mostly one.
_LISTS_OR_TEXTS = ("load_balancer_event_ids", "drain_host_event_ids", "restore_service_event_ids", "load_balancer_health_probe_peer")
_WRONG_TYPE = re.compile(r"argument '(\w+)' is of type .* unable to convert to (\w+):")
_TYPES = {"bool": "true or false", "int": "a whole number", "float": "a number", "list": "a list", "dict": "a dictionary", "str": "a text"}
CLOSE, CLOSE_ELSEWHERE = 0.9, 0.92
"""How alike a variable's name and one of ours must be to be told, from 0 to 1: where it begins as ours do, and where it does not."""
PREFIXES = ("graceful_azur", "handle_event", "load_balancer_", "drain_host_", "approve_event_", "restore_service_")


@functools.cache
def _stated(role: str) -> Specs:
    """The options of a role's main entry point, as its argument spec has them; for reading alone."""
    with open(os.path.join(ROLES_FOLDER, role, "meta", "argument_specs.yml"), encoding="utf-8") as spec:
        options: Specs = yaml.load(spec, Loader=_LOADER)["argument_specs"]["main"]["options"]
    return options


@functools.cache
def role_options(all_of_them: bool = False, roles: tuple[str, ...] = ROLES) -> Specs:
    """The options of the roles' main entry points that users set, by variable name; or all that these roles have. For reading alone."""
    options: Specs = {}
    for role in roles:
        for name, option in _stated(role).items():
            if all_of_them or name[len(role) + 1 :] not in _SET_BY_PASSES:
                options[name] = option
    return options


@functools.cache
def _of_one_balancer() -> Specs:
    """The options of a balancer, by variable name. For reading alone."""
    options = {name: option for name, option in role_options(roles=("load_balancer",)).items() if name != LIST}
    # Where there are several, each entry has it.
    return dict(options, load_balancer_provider=dict(options["load_balancer_provider"], required=True))


def _check_number(mistakes: list[str], values: Variables, name: str, least: float) -> float | None:
    """A number of seconds from C(least) up; the default after a mistake was noted."""
    value: Any = values.get(name)
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if math.isfinite(number) and number >= least:
        return number
    if value is not None:
        mistakes.append(f"{name}: {value!r} is not a number of seconds from {least:g} up")
    default = role_options()[name].get("default")
    return default if default is None else float(default)


def _check_minimum(mistakes: list[str], value: Any) -> int | str:
    if value is None:
        return 1
    try:
        return parse_minimum(value)
    except ValueError as error:
        mistakes.append(f"graceful_azure_min_in_service: {error}")
        return 1


def _port(value: Any) -> int | None:
    """The number of a TCP port, or None."""
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and 1 <= int(text) <= 65535 else None


def _check_port(mistakes: list[str], name: str, port: Any) -> None:
    if _port(port) is None:
        mistakes.append(f"{name}: {port!r} is not a TCP port from 1 to 65535")


def check_boolean(mistakes: list[str], name: str, value: Any) -> bool:
    """Whether it is true. What is neither true nor false is a mistake; the filter C(bool) would take it for false."""
    try:
        return bool(boolean(value))
    except TypeError:
        mistakes.append(f"{name}: {value!r} is neither true nor false")
        return False


def check_path(mistakes: list[str], name: str, value: Any, where: str = "") -> None:
    """A path on another machine must be absolute: the working folder of a module is another one in each run. C(~) and C($HOME) are the machine's own."""
    if value is None or value == "":
        return
    if not isinstance(value, str) or not is_absolute(value):
        mistakes.append(f"{where}{name}: {value!r} is not an absolute path; write one that begins with /")


def _check_imds_url(mistakes: list[str], url: Any) -> None:
    if url is None:
        return
    # Only here: the client brings a library that takes longer to load than all the rest.
    from ansible_collections.graceful.azure.plugins.module_utils._imds import ImdsSetupError, check_url

    try:
        check_url(url)
    except ImdsSetupError as error:
        mistakes.append(f"graceful_azure_{error}")


def _check_address(mistakes: list[str], name: str, address: str) -> None:
    """A name or a bare IP address, as it can be connected to."""
    try:
        ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        if ":" in address or not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9.])?", address):
            mistakes.append(f"{name}: {address!r} is neither a name nor an IP address; write it without a scheme, brackets or a port")


def _task_problem(tasks: Iterable[Any], loader: DataLoader) -> str | None:
    """A sentence about the first of these tasks that cannot be loaded, or None. One that cannot ends a run for all hosts, rescued by nothing."""
    for task in tasks:
        if not isinstance(task, dict):
            return f"{task!r} is not a task"
        inner = [inner for key in ("block", "rescue", "always") for inner in task.get(key) or ()]
        try:
            # A role of this collection includes it, so short names of its modules are known.
            if "block" in task:
                problem = _task_problem(inner, loader)
            else:
                Task.load({"collections": ["graceful.azure"], **task}, loader=loader)
                problem = None
        except AnsibleError as error:
            problem = first_line(error)
        if problem:
            return problem
    return None


def _check_task_files(mistakes: list[str], values: Variables, names: Iterable[str], playbook_dir: str, loader: DataLoader) -> None:
    for name in names:
        if values.get(name):
            path = os.path.join(playbook_dir, str(values[name]))
            problem = _task_file_problem(path, loader)
            if problem:
                mistakes.append(f"{name}: {problem}")


def _task_file_problem(path: str, loader: DataLoader) -> str | None:
    """What is wrong with a task file, as a sentence, or None."""
    if not os.path.isfile(path):
        return f"there is no task file {path}"
    try:
        tasks = loader.load_from_file(path)
    except AnsibleError as error:
        return f"{path}: {first_line(error)}"
    problem = _task_problem(tasks or (), loader) if isinstance(tasks or [], list) else "it does not contain a list of tasks"
    return f"{path}: {problem}" if problem else None


def read_settings(
    hosts: Mapping[str, Variables],
    known_hosts: Collection[str],
    playbook_dir: str = "",
    loader: DataLoader | None = None,
    unresolved: Mapping[str, Mapping[str, str]] | None = None,
) -> tuple[dict[str, Json], list[str]]:
    """Check the variables of all hosts; returns the plan's settings and every mistake as a sentence.

    C(hosts): per inventory name the values of its variables. C(known_hosts): every inventory name.
    C(playbook_dir): what paths of task files are relative to. C(unresolved): per name what is to be told of variables that have no value.
    """
    files = (playbook_dir, loader or DataLoader())
    settings: dict[str, Json] = {}
    mistakes: list[str] = []
    told: dict[str, list[str]] = {}
    for name, variables in hosts.items():
        found: list[str] = []
        untold = (unresolved or {}).get(name) or {}
        settings[name] = _settings_of(name, variables, known_hosts, files, untold, found)
        for mistake in (*_not_of(untold, found), *untold.values()):
            told.setdefault(mistake, []).append(name)
    balancers = machines_of(settings)
    for name in sorted(balancers & {name for name in hosts if settings[name]["load_balancers"][0]["provider"] is None}):
        told = {mistake: [other for other in names if other != name] for mistake, names in told.items()}
        told.setdefault("a balancer of the others, and no target: give the group of the VMs alone as target", []).append(name)
    mistakes.extend(f"{', '.join(names)}: {mistake}" for mistake, names in told.items() if names)
    mistakes.extend(_claimed_twice(settings, {name for name, variables in hosts.items() if variables.get(LIST)}))
    return settings, mistakes


def machines_of(settings: Mapping[str, Json]) -> set[str]:
    """The names of the machines on which the balancers of these hosts run."""
    return {machine for values in settings.values() for balancer in values["load_balancers"] for machine in balancer["hosts"]}


def names_for_run() -> set[str]:
    """The names of the variables that the playbook reads of each host."""
    return {*role_options(), *OF_HOSTS, *OF_RUNS, LIST, ADDRESS}


def names_for_role(role: str) -> set[str]:
    """The names of the variables that a role reads, or hands on to the role load_balancer."""
    of_balancer = () if role == "approve_event" else role_options(roles=("load_balancer",))
    of_steps = STEPS if role == "restore_service" else ()
    names = {*role_options(all_of_them=True, roles=(role,)), *of_balancer, *of_steps, ADDRESS, "graceful_azure_state_dir", "graceful_azure_imds_url"}
    return names | {"graceful_azure_resource_name"} if role == "approve_event" else names


def check_role(
    role: str,
    variables: Variables,
    known_hosts: Collection[str],
    playbook_dir: str = "",
    loader: DataLoader | None = None,
    unresolved: Mapping[str, str] | None = None,
) -> list[str]:
    """Every mistake in the variables that a role reads which is used alone. The arguments are those of C(read_settings), for one host."""
    files = (playbook_dir, loader or DataLoader())
    unresolved = unresolved or {}
    mistakes: list[str] = []
    options = dict(role_options(all_of_them=True, roles=(role,)))
    options.pop(LIST, None)
    if role == "restore_service":
        # It puts back what drain_host took out, in reverse order.
        options.update({name: _stated("drain_host")[name] for name in STEPS})
    has_balancer = _has_balancer(role, variables)
    with_list = has_balancer and (LIST in unresolved or variables.get(LIST) not in (None, ""))
    if has_balancer:
        # The role's defaults are set, whatever the user has set.
        options = {**options, **_of_one_balancer()} if not with_list else {key: options[key] for key in options if key != "load_balancer_provider"}
    values = _with_defaults(variables, options, unresolved, mistakes)
    if with_list:
        # What is as the role's defaults have it is not set.
        _check_beside({key: value for key, value in variables.items() if value != options.get(key, {}).get("default")}, mistakes, "load_balancer_server")
        balancers = _balancers_of("", variables.get(LIST), variables.get(ADDRESS), known_hosts, files, mistakes)
    else:
        balancers = [_balancer_of("", values, variables.get(ADDRESS), known_hosts, files, mistakes)] if has_balancer else []
    if role == "drain_host":
        drain = _drain_of(values, files, mistakes)
        _beside(balancers, mistakes, ports=drain["ports"], timeout=drain["timeout"])
    if role == "restore_service":
        _beside(balancers, mistakes, asked=_restore_of(values, variables, files, mistakes)["ask"])
        _steps_of(values, files, mistakes)
    if role == "approve_event":
        _check_number(mistakes, values, "approve_event_timeout", 0.001)
        if _outside_of(values, mistakes):
            _check_witness(values, known_hosts, mistakes)
    _check_machine(values, mistakes)
    _check_step(role, values, mistakes)
    return [*_not_of(unresolved, mistakes), *unresolved.values()]


def _has_balancer(role: str, variables: Variables) -> bool:
    """Whether a role that is used alone reads what the balancers are. Services are started again whatever they are."""
    return role in ("load_balancer", "restore_service") or (role == "drain_host" and variables.get("drain_host_state") != "running")


def machines_of_role(role: str, variables: Variables) -> list[str]:
    """The machines at which a role acts or looks in a loop. C(variables): those of one host, in which C(check_role) has found no mistake."""
    entries = (variables.get(LIST) or [{"hosts": variables.get("load_balancer_hosts")}]) if _has_balancer(role, variables) else []
    return [str(machine) for entry in entries for machine in entry.get("hosts") or ()]


def _check_step(role: str, values: Variables, mistakes: list[str]) -> None:
    """What the passes set themselves, and whoever uses a role alone may set wrongly."""
    for name in (f"{role}_event_ids", "approve_event_ready_resources"):
        if values.get(name) == []:
            mistakes.append(f"{name}: an empty list; name at least one, or leave it out")
    is_back = role == "restore_service" or values.get("drain_host_state") == "running"
    if is_back and not values.get(f"{role}_wait", True) and not values.get(f"{role}_event_ids") and _restores_by_files(values):
        mistakes.append(f"{role}_event_ids: not set; steps ({role}_wait: false) with task files of your own need it")


def _check_witness(values: Variables, known_hosts: Collection[str], mistakes: list[str]) -> None:
    """What an approval from outside needs if the role is used alone. The passes choose a witness themselves."""
    witness = values.get("approve_event_witness")
    if not witness:
        mistakes.append("approve_event_witness: not set; a host that cannot be asked needs another target of its set, whose metadata service shows the event")
    elif str(witness) not in known_hosts:
        mistakes.append(f"approve_event_witness: {witness!r} is not in the inventory")
    if not values.get("graceful_azure_resource_name"):
        mistakes.append("graceful_azure_resource_name: not set; approve_event_through needs this host's name in Azure, since the host may be silent")


def _outside_of(values: Variables, mistakes: list[str]) -> Json | None:
    """How approvals are sent from outside, or None."""
    mistakes.extend(approve_event.mistakes_in(values))
    for path in approve_event.paths_of(values):
        check_path(mistakes, path, values.get(path))
    return approve_event.outside_of(values)


def _restores_by_files(values: Variables) -> bool:
    """Whether task files of the user's own run when the host is put back."""
    given = {name[len("drain_host_") :]: values.get(name) for name in STEPS}
    return any(values.get(name) for name in TASK_FILES["restore_service"]) or drain_steps(**given)["files_in"]


def _not_of(unresolved: Collection[str], mistakes: Iterable[str]) -> list[str]:
    """Without what follows from variables whose value nobody knows."""
    return [mistake for mistake in mistakes if mistake.partition(":")[0] not in unresolved]


def misspelt(hosts: Mapping[str, Variables]) -> list[str]:
    """A sentence for each variable that nobody reads and whose name is nearly that of one of ours. C(hosts): per name all its variables."""
    known = {*role_options(all_of_them=True), *OF_HOSTS, *OF_RUNS, NOTIFY, *_LEFT_BY_RUNS, LIST}
    found: dict[tuple[str, str], list[str]] = {}
    meant: dict[str, list[str]] = {}
    for name, variables in hosts.items():
        for variable in variables:
            if variable not in meant:
                alike = variable not in known and not variable.startswith("ansible_") and not variable.endswith("_result")
                cutoff = CLOSE if variable.startswith(PREFIXES) else CLOSE_ELSEWHERE
                meant[variable] = difflib.get_close_matches(variable, known, n=1, cutoff=cutoff) if alike else []
            if meant[variable]:
                found.setdefault((variable, meant[variable][0]), []).append(name)
    return [f"{', '.join(names)}: nothing reads the variable {variable}; is {ours} meant?" for (variable, ours), names in sorted(found.items())]


def forbidden(extra: Iterable[str]) -> list[str]:
    """A sentence for each extra variable, stronger than any other, that would have the last word over what the passes decide."""
    ours = set(role_options(all_of_them=True)) - set(role_options())
    return [f"{name}: given as an extra variable; the passes set it themselves, leave it out" for name in sorted(ours & set(extra))]


def _type_mistakes(messages: Iterable[str], values: Variables, told: Sequence[str]) -> Iterator[str]:
    """What Ansible says of options, without names of Python's classes and without what was told already in other words."""
    for message in messages:
        wrong = _WRONG_TYPE.match(message)
        if not wrong:
            yield message
        elif not any(mistake.startswith(f"{wrong[1]}: ") for mistake in told):
            yield f"{wrong[1]}: {values.get(wrong[1])!r} cannot be read as {_TYPES.get(wrong[2], wrong[2])}"


def _with_defaults(variables: Variables, options: Specs, unresolved: Collection[str], mistakes: list[str]) -> Variables:
    """The values of what is set, and the defaults of these options, in the types that they have. A mistake for each that is of another."""
    # Null and an empty text stand for what is not set, as templates yield them.
    values = {key: value for key, value in variables.items() if value is not None and value != ""}
    for key, option in options.items():
        value = variables.get(key)
        if option["type"] == "list" and key not in _LISTS_OR_TEXTS and key in values and isinstance(value, (str, bool, int, float)):
            mistakes.append(f"{key}: {value!r} is {'a text' if isinstance(value, str) else 'a single value'}; it must be a list")
        # A text, a path, or an option without a default may be left empty.
        if key in variables and key not in values and "default" in option and option["type"] not in ("str", "path"):
            mistakes.append(f"{key}: {'null' if value is None else 'an empty text'} is not {_TYPES[option['type']]}; leave it out for the default")
    # Numbers of seconds are checked where they are read, in words that name the limit.
    specs = {key: dict(option, type="raw") if option["type"] == "float" else option for key, option in options.items() if key not in unresolved}
    validated = ArgumentSpecValidator(specs).validate({key: value for key, value in values.items() if key in specs})
    mistakes.extend(_type_mistakes(validated.error_messages, values, mistakes))
    return {**values, **validated.validated_parameters}


def _settings_of(
    name: str,
    variables: Variables,
    known_hosts: Collection[str],
    files: Files,
    unresolved: Collection[str],
    mistakes: list[str],
) -> Json:
    of_balancer = _of_one_balancer()
    with_list = LIST in unresolved or variables.get(LIST) not in (None, "")
    options = {key: option for key, option in role_options().items() if key not in of_balancer and key != LIST}
    if not with_list:
        options.update(of_balancer)
    values = _with_defaults(variables, options, unresolved, mistakes)
    if with_list:
        _check_beside(variables, mistakes)
        balancers = _balancers_of(name, variables.get(LIST), variables.get(ADDRESS), known_hosts, files, mistakes)
    else:
        balancers = [_balancer_of(name, values, variables.get(ADDRESS), known_hosts, files, mistakes)]
    _check_machine(values, mistakes)
    _check_number(mistakes, values, "approve_event_timeout", 0.001)
    rules = values.get("graceful_azure_rules")
    rule_mistakes = check_rules(rules)
    mistakes.extend(rule_mistakes)
    unknown_resources = values.get("graceful_azure_unknown_resources") or "hold"
    if unknown_resources not in ("hold", "ignore"):
        mistakes.append(f"graceful_azure_unknown_resources: {unknown_resources!r} is neither hold nor ignore")
    drain, restore = _drain_of(values, files, mistakes), _restore_of(values, variables, files, mistakes)
    return {
        "resource_name": str(values["graceful_azure_resource_name"]) if "graceful_azure_resource_name" in values else None,
        "rules": [] if rule_mistakes else rules_of(rules),
        "min_in_service": _check_minimum(mistakes, values.get("graceful_azure_min_in_service")),
        "unknown_resources": unknown_resources,
        "may_be_off": check_boolean(mistakes, "graceful_azure_may_be_off", values.get("graceful_azure_may_be_off", False)),
        "load_balancers": _beside(balancers, mistakes, drain["ports"], restore["ask"], drain["timeout"]),
        "drain_host": drain,
        "restore_service": restore,
        "outside": _outside_of(values, mistakes),
    }


def _beside(
    balancers: Iterable[BalancerSettings],
    mistakes: list[str],
    ports: Sequence[int] | None = None,
    asked: Options | None = None,
    timeout: float | None = None,
) -> list[BalancerSettings]:
    """The balancers with what they need of other roles, and what is wrong with that."""
    known = [(BALANCERS.get(balancer["provider"], BALANCERS["none"]), balancer) for balancer in balancers]
    for kind, balancer in known:
        mistakes.extend(mistake for mistake in kind.beside(balancer, ports, asked, timeout) if mistake not in mistakes)
    return [kind.with_ports(balancer, ports or []) for kind, balancer in known]


def _check_beside(variables: Variables, mistakes: list[str], *besides: str) -> None:
    """Options of a single balancer beside a list. How long the role load_balancer waits in all is none."""
    beside = sorted(key for key in _of_one_balancer() if key not in ("load_balancer_timeout", *besides) and variables.get(key) not in (None, ""))
    if beside:
        mistakes.append(f"{LIST}: excludes {', '.join(beside)}; set that in its entries")


def _check_machine(values: Variables, mistakes: list[str]) -> None:
    """What modules need on each machine."""
    check_path(mistakes, "graceful_azure_state_dir", values.get("graceful_azure_state_dir"))
    _check_imds_url(mistakes, values.get("graceful_azure_imds_url"))
    if values.get(VARIABLE) is not None and values[VARIABLE] not in PLATFORMS:
        mistakes.append(f"{VARIABLE}: {values[VARIABLE]!r} is none of {', '.join(PLATFORMS)}")


def _balancers_of(
    name: str,
    entries: Any,
    address: str | None,
    known_hosts: Collection[str],
    files: Files,
    mistakes: list[str],
) -> list[BalancerSettings]:
    """Several balancers of one host, the outermost first. Each entry is checked as the variables of a single one are, and named."""
    options = _of_one_balancer()
    names = [key[len(PREFIX) :] for key in options]
    balancers = []
    if not isinstance(entries, list) or not entries:
        mistakes.append(f"{LIST}: {entries!r}; give a list of dictionaries, one for each balancer")
        entries = [{"provider": "none"}]
    for number, entry in enumerate(entries):
        label = f"{LIST}[{number}]"
        found: list[str] = []
        if not isinstance(entry, dict):
            mistakes.append(f"{label}: {entry!r} is not a dictionary")
            entry = {"provider": "none"}
        variables = {f"{PREFIX}{key}": value for key, value in entry.items()}
        mistakes.extend(f"{label}: there is no option {key}; there are {', '.join(names)}" for key in entry if key not in names)
        values = _with_defaults(variables, options, (), found)
        balancers.append(_balancer_of(name, values, address, known_hosts, files, found))
        mistakes.extend(_of_entry(mistake, label, names) for mistake in found)
    for provider, kind in BALANCERS.items():
        if kind.once and sum(balancer["provider"] == provider for balancer in balancers) > 1:
            mistakes.append(f"{LIST}: only one entry may have the provider {provider}")
    return balancers


def _of_entry(mistake: str, label: str, names: Iterable[str]) -> str:
    """The sentence with the names of options as an entry of the list has them. What the user wrote stays: it is quoted, or the end of what Ansible says."""
    written = r"""got: .*$|(?<!\w)(?<!option )(?<!argument )(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?!\w)"""
    return re.sub(rf"{written}|\bload_balancer_({'|'.join(names)})\b", lambda found: f"{label}.{found[1]}" if found[1] else found[0], mistake)


def _balancer_of(
    name: str,
    values: Variables,
    address: str | None,
    known_hosts: Collection[str],
    files: Files,
    mistakes: list[str],
) -> BalancerSettings:
    options = _of_one_balancer()
    entry = {key[len(PREFIX) :]: values.get(key) for key in options}
    provider = entry["provider"] if entry["provider"] in BALANCERS else "none"
    entry = BALANCERS[provider].completed(entry, name, address)
    mistakes.extend(BALANCERS[provider].mistakes(entry))
    for host in map(str, entry["hosts"] or ()):
        if host not in known_hosts:
            mistakes.append(f"load_balancer_hosts: {host!r} is not in the inventory")
    _check_task_files(mistakes, values, [PREFIX + option for option in BALANCERS[provider].task_files], *files)
    for path in (option for kind in BALANCERS.values() for option in kind.paths(entry)):
        check_path(mistakes, PREFIX + path, entry[path])
    for key, option in options.items():
        if option["type"] == "float":
            entry[key[len(PREFIX) :]] = _check_number(mistakes, values, key, 0)
    return dict(settings_of(dict(entry, provider=provider), name), provider=entry["provider"], quiet=entry["quiet"])


def _drain_of(values: Variables, files: Files, mistakes: list[str]) -> Json:
    for port in values.get("drain_host_ports") or ():
        _check_port(mistakes, "drain_host_ports", port)
    _check_task_files(mistakes, values, TASK_FILES["drain_host"], *files)
    return {
        "ports": [number for number in map(_port, values.get("drain_host_ports") or ()) if number is not None],
        "timeout": _check_number(mistakes, values, "drain_host_timeout", 0),
        "steps": _steps_of(values, files, mistakes),
    }


def _steps_of(values: Variables, files: Files, mistakes: list[str]) -> list[DrainStep]:
    """The drain steps of a host."""
    playbook_dir, loader = files
    steps, services = values.get("drain_host_steps"), values.get("drain_host_services")
    mistakes.extend(mistakes_in(steps, services, lambda path: _task_file_problem(os.path.join(playbook_dir, path), loader)))
    return steps_of(values.get("drain_host_before"), steps, services, values.get("drain_host_after"), playbook_dir)


def _restore_of(values: Variables, variables: Variables, files: Files, mistakes: list[str]) -> Json:
    # What is no number was told already.
    if isinstance(values.get("restore_service_port"), int):
        # As it was written: int() takes more for a number than the role does.
        _check_port(mistakes, "restore_service_port", variables["restore_service_port"])
    _check_address(mistakes, "restore_service_address", str(values.get("restore_service_address") or "localhost"))
    if values.get("restore_service_url"):
        try:
            split_url(values["restore_service_url"])
        except AddressError as error:
            mistakes.append(f"restore_service_url: {error}")
    _check_task_files(mistakes, values, TASK_FILES["restore_service"], *files)
    return {
        "timeout": _check_number(mistakes, values, "restore_service_timeout", 0),
        "unanswered": values.get("restore_service_unanswered") or "refuse",
        "ask": _what_to_ask(values),
        "before": bool(values.get("restore_service_before")),
        "after": bool(values.get("restore_service_after")),
    }


def _what_to_ask(values: Variables) -> Options:
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


def _claimed_twice(settings: Mapping[str, Json], with_list: Collection[str]) -> list[str]:
    """Two hosts that stand for the same server of the same balancer: one's hold would be the other's. C(with_list): hosts with a list of balancers."""
    owners: dict[tuple[str, tuple[Any, ...]], dict[str | None, str]] = {}
    mistakes: list[str] = []
    balancers = [(name, number, balancer) for name, values in settings.items() for number, balancer in enumerate(values["load_balancers"])]
    for name, number, balancer in balancers:
        for where, claimed, part in BALANCERS[balancer["provider"]].claims(balancer) if balancer["provider"] in BALANCERS else ():
            claims = owners.setdefault((balancer["provider"], claimed), {})
            clash = claims.get(part) or (claims and part is None and next(iter(claims.values()))) or claims.get(None)
            if clash and clash != name:
                known_by = BALANCERS[balancer["provider"]].known_by(balancer)
                option = f"{LIST}[{number}].{known_by}" if name in with_list else f"load_balancer_{known_by}"
                mistakes.append(f"{name}: {option}: {balancer['server']!r} on {where} is {clash}'s server already")
            claims.setdefault(part, name)
    return mistakes
