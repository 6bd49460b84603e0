# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the variables of the hosts say, checked and brought into the plan's form. Pure but for the task files that it parses.

What a host hands over is in C(_duties/listed.py), and what its former variables mean in C(_former_variables.py). The playbook checks the variables of all
hosts before the first pass, and a role that is used alone checks those that it reads. Both call the functions here.
"""

from __future__ import annotations

import difflib
import functools
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import yaml
from ansible.parsing.dataloader import DataLoader
from ansible_collections.graceful.azure.plugins.module_utils._azure_access import ACCESS, access_mistakes
from ansible_collections.graceful.azure.plugins.module_utils._health_check import AddressError, split_url
from ansible_collections.graceful.azure.plugins.module_utils._minimum import parse_minimum
from ansible_collections.graceful.azure.plugins.module_utils._spellings import meant
from ansible_collections.graceful.azure.plugins.plugin_utils import _former_variables as former
from ansible_collections.graceful.azure.plugins.plugin_utils._duties import listed
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import TRAFFIC, uncounted
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.on_host import HostDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._helper import VARIABLE as HELPER
from ansible_collections.graceful.azure.plugins.plugin_utils._options import (
    check_address,
    check_boolean,
    check_imds_url,
    check_number,
    check_path,
    check_port,
    is_set,
    port,
    read_options,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._own_files import DONE
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import seconds
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.by_platform import PLATFORMS, VARIABLE, no_platform
from ansible_collections.graceful.azure.plugins.plugin_utils._rules import check_rules, rules_of
from ansible_collections.graceful.azure.plugins.plugin_utils._steps import approve_event
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import OBSERVE_TIMEOUT
from ansible_collections.graceful.azure.plugins.plugin_utils._task_files import task_file_problem
from ansible_collections.graceful.azure.plugins.plugin_utils._text import plain
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, Json, Options, Specs, Variables

Files = tuple[str, DataLoader]
"""The folder to which paths of task files are relative, and what reads the files."""
ROLES = ("load_balancer", "drain_host", "restore_service", "approve_event")
ROLES_FOLDER = os.path.join(os.path.dirname(__file__), "..", "..", "roles")

# The one that is written in C takes a tenth of the time.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# Options of the roles that the passes set themselves.
_SET_BY_PASSES = ("state", "wait", "event_ids", "event_details", "reason", "min_in_service", "ready_resources")
_SET_WITH_FILES = (DONE, "graceful_azure_failure")

DUTIES = listed.DUTIES
OURS = "graceful_azure_"
GIVEN: Specs = {
    "ports": {"type": "list", "elements": "int"},
    "drain_timeout": {"type": "float", "default": 120},
    "health_url": {"type": "str"},
    "health_port": {"type": "int"},
    "health_address": {"type": "str", "default": "localhost"},
    "health_validate_certs": {"type": "bool", "default": True},
    "health_unanswered": {"type": "str", "choices": ["refuse", "warn"], "default": "refuse"},
    "restore_timeout": {"type": "float", "default": 300},
    "approve_through": {"type": "str", "choices": ["metadata_service", *approve_event.OUTSIDE], "default": "metadata_service"},
    "approve_resource": {"type": "str"},
    "approve_access": {"type": "dict", "default": {}},
}
"""Variables of a host besides its duties, without C(graceful_azure_)."""
FOLDER = "graceful_azure_state_dir"
"""Where the records of a machine lie, a balancer's too."""
OF_DUTIES = (DUTIES, *(OURS + name for name in GIVEN))
"""What is read of a host about its duties."""
OF_HOSTS = (
    *("graceful_azure_imds_url", "graceful_azure_resource_name", "graceful_azure_rules", "graceful_azure_min_in_service"),
    *("graceful_azure_unknown_resources", "graceful_azure_may_be_off", FOLDER, VARIABLE, HELPER),
)
"""What is read of a host besides its duties and the variables of the roles."""
OF_RUNS = (
    *("handle_events_timeout", "handle_events_sleep", OBSERVE_TIMEOUT, "handle_events_wait", "handle_events_journal", "handle_events_report"),
    *("handle_events_metrics", "handle_events_unknown_targets"),
)
NOTIFY = "handle_events_notify"
"""It has secrets, so it is resolved where it is used, and what a run carries from pass to pass has nothing of it."""
_LEFT_BY_RUNS = tuple(OURS + name for name in ("plan", "alone", "turns", "host", "balancers", "failure"))

ADDRESS = "ansible_host"
"""Where Ansible reaches a host. If this is an IP address, a balancer may know the host by it."""
_READ_BY = {
    "load_balancer": (),
    "drain_host": ("ports", "drain_timeout"),
    "restore_service": tuple(name for name in GIVEN if name.startswith(("health_", "restore_"))),
    "approve_event": tuple(name for name in GIVEN if name.startswith("approve_")),
}
"""The variables of C(GIVEN) that each role reads. All but the last one read the duties."""
# The modules take a text with commas for these, and so it may come from the command line.
_LISTS_OR_TEXTS = ("load_balancer_event_ids", "drain_host_event_ids", "restore_service_event_ids")
LEAST_OBSERVE = 0.1
"""Seconds that a look may take at least."""
CLOSE, CLOSE_ELSEWHERE = 0.9, 0.92
"""How alike a variable's name and one of ours must be to be told, from 0 to 1: where it begins as ours do, and where it does not."""
PREFIXES = ("graceful_azur", "handle_event", *(f"{role}_" for role in ROLES))


@functools.cache
def _stated(role: str) -> Specs:
    """The options of a role's main entry point, as its argument spec has them; for reading alone."""
    with open(os.path.join(ROLES_FOLDER, role, "meta", "argument_specs.yml"), encoding="utf-8") as spec:
        options: Specs = yaml.load(spec, Loader=_LOADER)["argument_specs"]["main"]["options"]
    return options


@functools.cache
def role_options(all_of_them: bool = False) -> Specs:
    """The options of the roles' main entry points that users set, by variable name; or all that these roles have. For reading alone."""
    options: Specs = {}
    for role in ROLES:
        for name, option in _stated(role).items():
            if all_of_them or name[len(role) + 1 :] not in _SET_BY_PASSES:
                options[name] = option
    return options


@functools.cache
def _used_by(role: str) -> Specs:
    """The options of a role that say how it is used."""
    more = {name: {"or_text": True} for name in _LISTS_OR_TEXTS} | {"approve_event_timeout": {"least": 0.001}}
    return {name: {**option, **more.get(name, {})} for name, option in _stated(role).items()}


class Duties(NamedTuple):
    """What a host hands over."""

    entries: list[listed.ListedDuty]
    is_missing: bool = False  # whether nothing says it


def _called(option: str) -> str:
    return OURS + option


def _called_access(option: str) -> str:
    return f"{OURS}approve_access.{option}"


def _duties_of(variables: Variables, known_hosts: Collection[str], files: Files, mistakes: list[str], needed: bool = True) -> Duties:
    """C(needed): whether it is a mistake if nothing says what the host hands over."""
    if variables.get(DUTIES) is None:
        if needed:
            mistakes.append(f"{DUTIES}: not set; write what the host hands over, such as {listed.EXAMPLE}, or [] for nothing")
        return Duties([], is_missing=True)
    folder, loader = files
    given = listed.written(variables[DUTIES], mistakes)
    return Duties(listed.read_entries(given, known_hosts, folder, lambda path: task_file_problem(path, loader), mistakes))


def _given_of(variables: Variables, names: Collection[str], mistakes: list[str]) -> Options:
    """The values of these of C(GIVEN), and the defaults of the others."""
    given = {option: variables[OURS + option] for option in names if OURS + option in variables}
    values, _wrong = read_options(given, {name: GIVEN[name] for name in names}, _called, mistakes)
    values = {**{name: spec.get("default") for name, spec in GIVEN.items()}, **values}
    access = values["approve_access"]
    mistakes.extend(f"{OURS}approve_access: there is no option {key}{meant(key, ACCESS)}; there are {', '.join(ACCESS)}" for key in access if key not in ACCESS)
    values["approve_access"], _wrong = read_options(access, ACCESS, _called_access, mistakes)
    return values


def _check_minimum(mistakes: list[str], value: Any) -> int | str:
    if value is None:
        return 1
    try:
        return parse_minimum(value)
    except ValueError as error:
        mistakes.append(f"graceful_azure_min_in_service: {error}")
        return 1


def name_in_azure(variables: Variables) -> str | None:
    """What the settings call a host in Azure, or None."""
    name = variables.get("graceful_azure_resource_name")
    return str(name) if is_set(name) else None


def observe_timeout(variables: Variables, mistakes: list[str]) -> float | None:
    """The seconds that a look may take, or None if nothing says it."""
    given = variables.get(OBSERVE_TIMEOUT)
    return check_number(mistakes, OBSERVE_TIMEOUT, given, LEAST_OBSERVE) if is_set(given) else None


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
    duties: dict[str, Duties] = {}
    mistakes: list[str] = []
    told: dict[str, list[str]] = {}
    for name, variables in hosts.items():
        found: list[str] = []
        untold = (unresolved or {}).get(name) or {}
        settings[name], duties[name] = _settings_of(name, variables, known_hosts, files, set(untold), found)
        for mistake in (*found, *untold.values()):
            told.setdefault(mistake, []).append(name)
    balancers = machines_of(settings)
    for name in sorted(balancers & {name for name in hosts if duties[name].is_missing}):
        told = {mistake: [other for other in names if other != name] for mistake, names in told.items()}
        told.setdefault("a balancer of the others, and no target: give the group of the VMs alone as target", []).append(name)
    mistakes.extend(f"{', '.join(names)}: {mistake}" for mistake, names in told.items() if names)
    mistakes.extend(_claimed_twice(settings, duties))
    mistakes.extend(_same_member(duties))
    return settings, mistakes


def machines_of(settings: Mapping[str, Json]) -> set[str]:
    """The names of the machines on which the balancers of these hosts run."""
    return {machine for values in settings.values() for balancer in values["load_balancers"] for machine in balancer["hosts"]}


def names_for_run() -> set[str]:
    """The names of the variables that the playbook reads of each host."""
    return {*role_options(), *OF_DUTIES, *OF_HOSTS, *OF_RUNS, ADDRESS}


def names_for_role(role: str) -> set[str]:
    """The names of the variables that a role reads."""
    names = {*_stated(role), *(OURS + name for name in _READ_BY[role]), ADDRESS}
    names |= {FOLDER, "graceful_azure_imds_url", "graceful_azure_resource_name", OBSERVE_TIMEOUT}
    return names if role == "approve_event" else {*names, DUTIES}


def read_role(
    role: str,
    name: str,
    variables: Variables,
    known_hosts: Collection[str],
    playbook_dir: str = "",
    loader: DataLoader | None = None,
    unresolved: Mapping[str, str] | None = None,
) -> tuple[Json, list[str]]:
    """Check the variables that a role reads which is used alone; returns the settings that it needs, in the plan's form, and every mistake as a sentence.

    C(name): that of the host in the inventory. The other arguments are those of C(read_settings), for one host.
    """
    files = (playbook_dir, loader or DataLoader())
    unresolved = unresolved or {}
    mistakes: list[str] = []
    is_former = former.mistakes_in(variables)
    used, _wrong = read_options(variables, {option: spec for option, spec in _used_by(role).items() if option not in unresolved}, str, mistakes)
    _check_details(mistakes, used, f"{role}_event_details")
    given = _given_of(variables, _READ_BY[role], mistakes)
    settings: Json = {
        "used": {option[len(role) + 1 :]: value for option, value in used.items()},
        "resource_name": name_in_azure(variables),
    }
    settings["used"]["observe_timeout"] = observe_timeout(variables, mistakes)
    if role == "approve_event":
        settings["outside"] = _outside_of(given)
        _note(mistakes, unresolved, _mistakes_outside(given))
        if settings["outside"]:
            _note(mistakes, unresolved, _witness_mistakes(used, variables, known_hosts))
    else:
        is_back = used.get("drain_host_state") == "running"
        duties = _duties_of(variables, known_hosts, files, mistakes, not (is_back or is_former or DUTIES in unresolved))
        settings["load_balancers"] = listed.balancers_of(duties.entries, name, variables.get(ADDRESS))
        # What the other roles do with the variables that this one does not read is none of its business.
        settings["drain_host"], settings["restore_service"] = _drain_of(given, duties, mistakes), _restore_of(given, variables, mistakes)
        # A role alone counts the ports that are set: it has not looked at the balancers when it begins to count.
        settings["drain_host"]["ports"] = settings["drain_host"]["ports"] or []
        known: Options = {}
        if role == "drain_host" and not is_back:
            known = {"ports": settings["drain_host"]["ports"], "timeout": settings["drain_host"]["timeout"]}
        elif role == "restore_service":
            known = {"asked": settings["restore_service"]["ask"]}
        settings["load_balancers"] = _beside(settings["load_balancers"], mistakes, unresolved, **known)
        _note(mistakes, unresolved, _file_mistakes(role, used, variables, duties))
        why = uncounted(used.get("load_balancer_min_in_service"), (entry.provider for entry in duties.entries if entry.traffic))
        if why:
            mistakes.append(f"load_balancer_min_in_service: {why}")
    _check_machine(variables, mistakes)
    for option in (f"{role}_event_ids", "approve_event_ready_resources"):
        if variables.get(option) == []:
            mistakes.append(f"{option}: an empty list; name at least one, or leave it out")
    return settings, [*is_former, *mistakes, *unresolved.values()]


def _check_details(mistakes: list[str], used: Options, option: str) -> None:
    # In YAML, an id may be a number and a time no text.
    used[option] = plain(used.get(option) or {})
    for event_id, details in used[option].items():
        if not isinstance(details, dict):
            mistakes.append(f"{option}[{event_id!r}]: {details!r} is not a dictionary")
        elif details.get("not_before") and seconds(details["not_before"]) is None:
            mistakes.append(f"{option}[{event_id!r}].not_before: {details['not_before']!r} is not a time; write one such as 2026-11-21T20:00:00Z")


def read_responder(variables: Variables, known_hosts: Collection[str], playbook_dir: str = "", loader: DataLoader | None = None) -> tuple[Json, list[str]]:
    """What the responder of a host needs, by the options of its duty C(health_probe) without C(responder_), what its units are called (C(unit)), and which
    file holds the host out (C(hold)); and every mistake as a sentence."""
    mistakes = former.mistakes_in(variables)
    duties = _duties_of(variables, known_hosts, (playbook_dir, loader or DataLoader()), mistakes, not mistakes)
    probe = next((entry for entry in duties.entries if entry.type == "health_probe"), None)
    if not probe:
        return {}, mistakes or [f"{DUTIES}: no entry is of the type health_probe, which says what the responder needs"]
    found = {name: probe.options[f"responder_{name}"] for name in ("port", "url", "untouched_port", "state", "python")}
    if found["port"]:
        # Each pass loads this file, and nobody else needs that one.
        from ansible_collections.graceful.azure.plugins.module_utils._health_actions import RESPONDER, responder_file

        found.update(unit=RESPONDER % found["port"], hold=responder_file(found["port"]))
    return found, [*mistakes, *(f"{probe.called(f'responder_{name}')}: not set; the responder needs it" for name in ("port", "url") if not found[name])]


def _note(mistakes: list[str], unresolved: Collection[str], found: Iterable[tuple[str, str]]) -> None:
    """Note mistakes, each with what it is about, once. What follows from variables whose value nobody knows is none."""
    told = (f"{option}: {sentence}" for option, sentence in found if option not in unresolved)
    mistakes.extend(mistake for mistake in told if mistake not in mistakes)


def _file_mistakes(role: str, used: Options, variables: Variables, duties: Duties) -> Iterator[tuple[str, str]]:
    """Steps with task files need to know the events."""
    is_back = role == "restore_service" or used.get("drain_host_state") == "running"
    files = any(entry.options.get("back") for entry in duties.entries if not entry.traffic)
    if is_back and files and used.get(f"{role}_wait") is False and not variables.get(f"{role}_event_ids"):
        yield f"{role}_event_ids", f"not set; steps ({role}_wait: false) with task files of your own need it"


def _witness_mistakes(used: Options, variables: Variables, known_hosts: Collection[str]) -> Iterator[tuple[str, str]]:
    """What an approval from outside needs if the role is used alone. The passes choose a witness themselves."""
    witness = used.get("approve_event_witness")
    if not witness:
        yield "approve_event_witness", "not set; a host that cannot be asked needs another target of its set, whose metadata service shows the event"
    elif witness not in known_hosts:
        yield "approve_event_witness", f"{witness!r} is not in the inventory"
    if not variables.get("graceful_azure_resource_name"):
        yield "graceful_azure_resource_name", "not set; approvals from outside need this host's name in Azure, since the host may be silent"


def _outside_of(given: Options) -> Json | None:
    """How approvals are sent from outside, or None."""
    return approve_event.outside_of(*(given[f"approve_{name}"] for name in ("through", "resource", "access")))


def _mistakes_outside(given: Options) -> Iterator[tuple[str, str]]:
    way = approve_event.OUTSIDE.get(given["approve_through"])
    if way:
        yield from ((_called("approve_resource"), mistake) for mistake in way.mistakes(given["approve_resource"]))
        yield from ((_called_access(option), mistake) for option, mistake in access_mistakes(given["approve_access"]))


def misspelt(hosts: Mapping[str, Variables]) -> list[str]:
    """A sentence for each variable that nobody reads and whose name is nearly that of one of ours. C(hosts): per name all its variables."""
    known = {*role_options(all_of_them=True), *former.names(), *OF_DUTIES, *OF_HOSTS, *OF_RUNS, NOTIFY, *_LEFT_BY_RUNS}
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


def forbidden(extra: Iterable[str], alone: bool = False) -> list[str]:
    """A sentence for each extra variable, stronger than any other, that would have the last word over what the passes decide, and what task files say.

    C(alone): in a role that is used alone, users set its options.
    """
    ours = set(_SET_WITH_FILES) if alone else {*_SET_WITH_FILES, *role_options(all_of_them=True)} - set(role_options())
    return [f"{name}: given as an extra variable; the passes set it themselves, leave it out" for name in sorted(ours & set(extra))]


def _settings_of(
    name: str,
    variables: Variables,
    known_hosts: Collection[str],
    files: Files,
    unresolved: set[str],
    mistakes: list[str],
) -> tuple[Json, Duties]:
    for role in ROLES:
        # Of those that say how a role is used, the passes read the ones that they do not set themselves.
        specs = {option: spec for option, spec in _used_by(role).items() if option in role_options() and option not in unresolved}
        read_options(variables, specs, str, mistakes)
    is_former = former.mistakes_in(variables)
    mistakes.extend(is_former)
    duties = _duties_of(variables, known_hosts, files, mistakes, needed=not is_former and DUTIES not in unresolved)
    given = _given_of(variables, tuple(GIVEN), mistakes)
    values = {key: value for key, value in variables.items() if is_set(value)}
    _check_machine(values, mistakes)
    rules = values.get("graceful_azure_rules")
    rule_mistakes = check_rules(rules)
    mistakes.extend(rule_mistakes)
    unknown_resources = values.get("graceful_azure_unknown_resources") or "hold"
    if unknown_resources not in ("hold", "ignore"):
        mistakes.append(f"graceful_azure_unknown_resources: {unknown_resources!r} is neither hold nor ignore")
    drain, restore = _drain_of(given, duties, mistakes), _restore_of(given, variables, mistakes)
    balancers = listed.balancers_of(duties.entries, name, variables.get(ADDRESS))
    settings = {
        "resource_name": name_in_azure(values),
        "rules": [] if rule_mistakes else rules_of(rules),
        "min_in_service": _check_minimum(mistakes, values.get("graceful_azure_min_in_service")),
        "unknown_resources": unknown_resources,
        "may_be_off": check_boolean(mistakes, "graceful_azure_may_be_off", values.get("graceful_azure_may_be_off", False)),
        "load_balancers": _beside(balancers, mistakes, unresolved, drain["ports"] or [], restore["ask"], drain["timeout"]),
        "drain_host": drain,
        "restore_service": restore,
        "outside": _outside_of(given),
    }
    _note(mistakes, unresolved, _mistakes_outside(given))
    return settings, duties


def _beside(
    balancers: Iterable[BalancerSettings],
    mistakes: list[str],
    unresolved: Collection[str],
    ports: Sequence[int] | None = None,
    asked: Options | None = None,
    timeout: float | None = None,
) -> list[BalancerSettings]:
    """The balancers with what they need of the host's other variables, and what is wrong with these."""
    known = [(TRAFFIC[balancer["provider"]], balancer) for balancer in balancers]
    for kind, balancer in known:
        _note(mistakes, unresolved, ((_called(option), mistake) for option, mistake in kind.beside(balancer, ports, asked, timeout)))
    return [kind.with_ports(balancer, ports or []) for kind, balancer in known]


def _check_machine(values: Variables, mistakes: list[str]) -> None:
    """What modules need on each machine."""
    check_path(mistakes, FOLDER, values.get(FOLDER))
    check_imds_url(mistakes, values.get("graceful_azure_imds_url"))
    if values.get(VARIABLE) is not None and values[VARIABLE] not in PLATFORMS:
        mistakes.append(no_platform(values[VARIABLE]))
    check_boolean(mistakes, HELPER, values.get(HELPER, True))


def _drain_of(given: Options, duties: Duties, mistakes: list[str]) -> Json:
    ports = given["ports"]
    for number in ports or ():
        check_port(mistakes, _called("ports"), number)
    return {
        "ports": None if ports is None else [number for number in ports if port(number) is not None],
        "timeout": given["drain_timeout"],
        "steps": listed.steps_of(duties.entries),
    }


def _restore_of(given: Options, variables: Variables, mistakes: list[str]) -> Json:
    if given["health_port"] is not None:
        # As it was written: int() takes more for a number than the modules do.
        check_port(mistakes, _called("health_port"), variables[_called("health_port")])
    check_address(mistakes, _called("health_address"), given["health_address"])
    if given["health_url"]:
        try:
            split_url(given["health_url"])
        except AddressError as error:
            mistakes.append(f"{_called('health_url')}: {error}")
    return {
        "timeout": given["restore_timeout"],
        "unanswered": given["health_unanswered"],
        "ask": _what_to_ask(given),
    }


def _what_to_ask(values: Options) -> Options:
    """What must answer before the host goes back, as the modules take it; empty where nothing does."""
    url, number = values["health_url"], port(values["health_port"])
    if not url and number is None:
        return {}
    asked = {"validate_certs": values["health_validate_certs"]}
    if url:
        asked["url"] = url
    if number is not None:
        asked.update(port=number, host=values["health_address"])
    return asked


def _claimed_twice(settings: Mapping[str, Json], duties: Mapping[str, Duties]) -> list[str]:
    """Two hosts that stand for the same server of the same balancer: one's hold would be the other's."""
    owners: dict[tuple[str, tuple[Any, ...]], dict[str | None, str]] = {}
    mistakes: list[str] = []
    for name, values in settings.items():
        entries = [entry for entry in duties[name].entries if entry.traffic]
        for entry, balancer in zip(entries, values["load_balancers"]):
            kind = TRAFFIC[balancer["provider"]]
            for where, claimed, part in kind.claims(balancer):
                claims = owners.setdefault((balancer["provider"], claimed), {})
                clash = claims.get(part) or (claims and part is None and next(iter(claims.values()))) or claims.get(None)
                if clash and clash != name:
                    of_clash = f"{balancer['server']!r} on {where} is {clash}'s server already. Each host needs its own"
                    mistakes.append(f"{name}: {entry.called(kind.known_by(balancer))}: {of_clash}")
                claims.setdefault(part, name)
    return mistakes


def _same_member(duties: Mapping[str, Duties]) -> Iterator[str]:
    """Two hosts that stand for the same member of a cluster: each would take out the one, and nobody the other."""
    found = [
        (name, entry, place)
        for name, mine in duties.items()
        for entry in mine.entries
        for place in (entry.duty.places(entry.options) if isinstance(entry.duty, HostDuty) else ())
    ]
    owners: dict[tuple[str, str, str], str] = {}
    for name, entry, (cluster, _option, given) in sorted(found, key=lambda each: each[2][2] is not None):
        owners.setdefault((entry.type, cluster, given or name), name)
    for name, entry, (cluster, option, given) in found:
        owner = owners[entry.type, cluster, given or name]
        if given and owner != name:
            yield (
                f"{name}: {entry.called(option)}: {given!r} of the {entry.type} cluster {cluster} is {owner}'s already; name this host's own, or set cluster in"
                " both where these are two clusters"
            )
