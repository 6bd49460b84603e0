# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Turns the variable C(target) into a host pattern of Ansible. A target has names of hosts and groups, names in Azure, and patterns. Private; pure.

Ansible ignores the parts of a pattern that it does not understand, and goes on even without any host. Here both are mistakes.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager, split_host_pattern
from ansible.parsing.dataloader import DataLoader
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Variables

Groups = Mapping[str, Sequence[str]]
"""The names of the hosts of each group."""
EVERYBODY = ("all", "*")
LOCAL = ("localhost", "127.0.0.1", "::1")
"""Names that Ansible knows without an inventory."""
NO_HOST = "matches no host, by its name in the inventory or by graceful_azure_resource_name"
_PART = re.compile(r"(?:\[[^\]]*\]|[^:,])+")
_SLICE = re.compile(r"(.+?)\[(?:-?\d+|\d*[:-]\d*)\]$")
_BALANCED = re.compile(r"(?:[^\[\]]|\[[^\[\]]*\])*$")
_SET = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*")
"""A set of a regular expression without its last bracket; a bracket that comes first is one of its characters."""
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*$")


class TargetError(Exception):
    """The target has an unknown part, or one that cannot be understood."""


def _regex_end(text: str) -> int:
    """The end of the regular expression with which a text begins: the first comma or colon outside all brackets."""
    depth = place = 0
    while place < len(text):
        char = text[place]
        if char == "\\":
            place += 1
        elif char == "[":
            found = _SET.match(text, place)
            if not found:
                raise AssertionError("the bracket alone matches")
            place = found.end()
        elif char in "({":
            depth += 1
        elif char in ")}":
            depth -= 1
        elif char in ":," and depth <= 0:
            return place
        place += 1
    return len(text)


def _part_end(text: str, odd: Iterable[re.Pattern[str]]) -> int:
    """The end of the name or pattern with which a text begins. C(odd): expressions for the names that contain a comma or a colon."""
    for name in odd:
        found = name.match(text)
        if found:
            return found.end(1)
    if text.startswith("~"):
        return _regex_end(text)
    found = _PART.match(text)
    return found.end() if found else 0


def _split(target: Any, names: Collection[str], azure: Collection[str] = ()) -> list[str]:
    """The parts of a target. A name of the inventory, or a name in Azure (C(azure), in small letters), is one part, whatever characters it has."""
    if isinstance(target, (list, tuple)):
        entries = [str(entry) for entry in target]
        whole = [_body(entry) in names or _body(entry).lower() in azure for entry in entries]
        return [part for entry, one in zip(entries, whole) for part in ([entry] if one else _split(entry, names, azure))]
    odd = [
        re.compile(f"({re.escape(name)})\\s*(?:[:,]|$)", flags)
        for known, flags in ((names, 0), (azure, re.IGNORECASE))
        for name in sorted(known, key=len, reverse=True)
        if re.search("[:,]", name)
    ]
    parts = []
    rest = str(target).strip(":, ")
    while rest:
        sign = rest[0] if rest[0] in "!&" else ""
        end = len(sign) + _part_end(rest[len(sign) :], odd)
        parts.append(rest[:end].strip())
        rest = rest[end:].lstrip(":, ")
    return parts


def _body(part: str) -> str:
    return part[1:] if part[:1] in ("!", "&") else part


def _is_pattern(body: str) -> bool:
    return body.startswith("~") or bool(re.search(r"[*?\[]", body))


def _hosts_pattern(names: Sequence[str]) -> str:
    """A pattern for exactly these hosts. Ansible would split names with a comma or a colon, so the pattern is a regular expression."""
    if len(names) == 1 and _PLAIN.match(names[0]):
        return names[0]
    escaped = ["".join(c if c.isalnum() or c in "_-" else f"\\x{ord(c):02x}" if ord(c) < 256 else c for c in name) for name in names]
    return f"~^({'|'.join(escaped)})$"


def _problem(body: str) -> str | None:
    """What is wrong with a pattern, as the end of a sentence, or None. Ansible would ignore such a pattern, which may add hosts."""
    if not body.startswith("~"):
        if _BALANCED.match(body):
            return None
        return "has a bracket without its counterpart; write web[0:1] for the first two hosts of the group web, or ~web[12]$ for names that end in 1 or 2"
    if not body[1:].strip():
        return "means every name; write a regular expression after ~, such as ~web[12]$"
    try:
        re.compile(body[1:])
    except (re.error, OverflowError) as error:
        return f"is not a regular expression: {error}; write one such as ~web[12]$"
    return None


def _pattern(body: str, groups: Groups) -> str:
    """A pattern with the same meaning for Ansible. If Ansible would split the text, or read only a part, the pattern lists the hosts instead."""
    if split_host_pattern(body) == [body]:
        return body
    expression = re.compile(body[1:] if body.startswith("~") else fnmatch.translate(body))
    met = [name for name in groups if (name == body if body in groups else expression.match(name))]
    found = {host for name in met for host in groups[name]}
    if body not in groups:
        found.update(name for name in groups["all"] if expression.match(name))
    return _hosts_pattern([name for name in groups["all"] if name in found])


def needs_variables(target: Any, groups: Groups) -> bool:
    """Whether the variables of the hosts are needed to find the hosts of the target."""
    parts = _split(target, {*groups, *groups["all"]})
    return _means_everybody(parts) or any(_unknown(_body(part), groups) for part in parts)


def _means_everybody(parts: Sequence[str]) -> bool:
    return any(part in EVERYBODY for part in parts) or all(part[0] == "!" for part in parts)


def _unknown(body: str, groups: Groups) -> bool:
    """Whether a part is neither a pattern nor a name of the inventory."""
    known = (*groups, *groups["all"], *LOCAL)
    if body in known:
        return False
    sliced = _SLICE.match(body)
    if sliced and not _is_pattern(sliced[1]):
        return sliced[1] not in known
    return not _is_pattern(body)


def find_hosts(
    target: Any,
    groups: Groups,
    variables: Mapping[str, Variables] | None = None,
    unknown: str | None = None,
    is_reported: bool = False,
) -> str:
    """The target as a host pattern of Ansible, with commas between its parts. It matches at least one host.

    C(target): a text or a list. C(groups): the names of the hosts of each group. C(variables): the variables of each host, or None.
    C(unknown): C(fail) if an unknown part is a mistake, C(ignore) if it is left out as long as other parts are known. The default is C(ignore) if the
    target comes from a report of an event (C(is_reported)), because such a report may name VMs that the inventory does not have.
    """
    unknown = unknown or ("ignore" if is_reported else "fail")
    if unknown not in ("fail", "ignore"):
        raise TargetError(f"handle_events_unknown_targets: {unknown!r} is neither fail nor ignore")
    pattern = _resolve(target, groups, variables, unknown == "ignore")
    if not _matches(pattern, groups):
        raise TargetError(f"target {_shown(target)} {NO_HOST}")
    return pattern


def _matches(pattern: str, groups: Groups) -> bool:
    """Whether the pattern matches any host. A limit of the command line does not count."""
    inventory = InventoryManager(DataLoader(), parse=False)
    for group, names in groups.items():
        inventory.add_group(group)
        for name in names:
            inventory.add_host(name, group)
    try:
        return bool(inventory.get_hosts(pattern))
    except AnsibleError:
        # There is no such host of a group, as in web[9].
        return False


def _shown(target: Any) -> str:
    return ",".join(map(str, target)) if isinstance(target, (list, tuple)) else str(target)


def _resolve(target: Any, groups: Groups, variables: Mapping[str, Variables] | None, ignore_unknown: bool) -> str:
    hosts = list(groups["all"])
    azure: dict[str, list[str]] = {}
    for name in hosts:
        bears = (variables[name].get("graceful_azure_resource_name") if variables else None) or name
        for key in sorted({name.lower(), str(bears).lower()}):
            azure.setdefault(key, []).append(name)
    parts = _split(target, {*groups, *hosts}, azure)
    shown = _shown(target)
    found: list[str] = []
    unknown: list[str] = []
    for part in parts:
        body = _body(part)
        sign = part[: len(part) - len(body)]
        called_so = [name for name in azure.get(body.lower(), ()) if name != body]
        if called_so and ignore_unknown and not sign and not _unknown(body, groups):
            # Whoever reports an event means a name in Azure, which another host or a group may have in the inventory.
            found.append(_hosts_pattern(called_so))
        if body.lower() in azure and _unknown(body, groups):
            found.append(sign + _hosts_pattern(azure[body.lower()]))
        elif body in hosts and body not in groups:
            found.append(sign + _hosts_pattern([body]))
        elif _is_pattern(body) and body not in groups and _problem(body):
            raise TargetError(f"target {shown}: {part} {_problem(body)}")
        elif not _unknown(body, groups):
            found.append(sign + (_pattern(body, groups) if body in groups or _is_pattern(body) else _hosts_pattern([body])))
        else:
            unknown.append(part)
    if not parts:
        raise TargetError("target is empty")
    narrowing = [part for part in unknown if part[0] in "!&"]
    if ignore_unknown and narrowing:
        # Without this part, the target would have more hosts.
        said = "a part with ! or & narrows the target and is not ignored; name a host or a group that the inventory has, or leave it out"
        raise TargetError(f"target {shown}: {', '.join(narrowing)} matches no host; {said}")
    if unknown and not (ignore_unknown and any(part[0] not in "!&" for part in found)):
        what = f"target {shown}" if not found else f"target {shown}: {', '.join(_body(part) or part for part in unknown)}"
        raise TargetError(f"{what} {NO_HOST}")
    if variables and _means_everybody(parts):
        found.extend(f"!{_hosts_pattern([name])}" for name in _balancers_of_others(hosts, variables))
    return ",".join(found)


def _balancers_of_others(hosts: Sequence[str], variables: Mapping[str, Variables]) -> list[str]:
    """Hosts that are balancers of others and have no duties themselves. They are not VMs to handle."""
    named: set[str] = set()
    behind: set[str] = set()
    for name in hosts:
        given = variables[name]
        duties = given.get("graceful_azure_duties")
        for entry in duties if isinstance(duties, Sequence) else ():
            balancers = entry.get("hosts") if isinstance(entry, Mapping) else None
            named.update(str(other) for other in balancers or () if other != name and not isinstance(balancers, str))
        # An empty list of duties is one, too.
        if duties is not None:
            behind.add(name)
    left_out = [name for name in hosts if name in named - behind]
    return left_out if len(left_out) < len(hosts) else []
