# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which hosts C(target) means: names of hosts and groups, names that Azure gives, and patterns. Private to the collection; pure."""

from __future__ import annotations

import re

EVERYBODY = ("all", "*")
LOCAL = ("localhost", "127.0.0.1", "::1")
"""Names that Ansible knows without an inventory."""
_PART = re.compile(r"(?:\[[^\]]*\]|[^:,])+")
_SLICE = re.compile(r"(.+?)\[(?:-?\d+|\d*[:-]\d*)\]$")
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*$")


class TargetError(Exception):
    """The target has a part that nobody knows."""


def _split(target, names):
    """The parts of a target. A name of the inventory that has a comma or a colon in it is one part."""
    if isinstance(target, (list, tuple)):
        return [part for entry in target for part in ([str(entry)] if _body(str(entry)) in names else _split(str(entry), names))]
    odd = sorted((name for name in names if re.search("[:,]", name)), key=len, reverse=True)
    parts = []
    rest = str(target).strip(":, ")
    while rest:
        sign = rest[0] if rest[0] in "!&" else ""
        found = next((name for name in odd if re.match(re.escape(name) + r"\s*(?:[:,]|$)", rest[len(sign):])), None)
        part = sign + found if found else _PART.match(rest)[0]
        parts.append(part.strip())
        rest = rest[len(part):].lstrip(":, ")
    return parts


def _body(part):
    return part[1:] if part[:1] in ("!", "&") else part


def _is_pattern(body):
    return body.startswith("~") or bool(re.search(r"[*?\[]", body))


def _hosts_pattern(names):
    """A pattern for exactly these hosts. What has a comma or a colon in it would be split, so it is written as a regular expression."""
    if len(names) == 1 and _PLAIN.match(names[0]):
        return names[0]
    escaped = ["".join(c if c.isalnum() or c in "_-" else f"\\x{ord(c):02x}" if ord(c) < 256 else c for c in name) for name in names]
    return f"~^({'|'.join(escaped)})$"


def needs_variables(target, groups):
    """Whether the variables of the inventory's hosts are needed to tell what the target means."""
    parts = _split(target, {*groups, *groups["all"]})
    return _means_everybody(parts) or any(_unknown(_body(part), groups) for part in parts)


def _means_everybody(parts):
    return any(part in EVERYBODY for part in parts) or all(part[0] == "!" for part in parts)


def _unknown(body, groups):
    """Whether it is neither a pattern nor a name of the inventory."""
    known = (*groups, *groups["all"], *LOCAL)
    if body in known:
        return False
    sliced = _SLICE.match(body)
    if sliced and not _is_pattern(sliced[1]):
        return sliced[1] not in known
    return not _is_pattern(body)


def resolve(target, groups, variables=None, ignore_unknown=False):
    """The target as a host pattern of Ansible's, whose parts lie between commas.

    C(groups): the names of hosts by group. C(variables): per host its variables, where they can be had. C(target) is a text or a list.
    """
    hosts = list(groups["all"])
    parts = _split(target, {*groups, *hosts})
    azure = {}
    for name in hosts:
        bears = (variables[name].get("graceful_azure_resource_name") if variables else None) or name
        for key in sorted({name.lower(), str(bears).lower()}):
            azure.setdefault(key, []).append(name)
    found, unknown = [], []
    for part in parts:
        body = _body(part)
        sign = part[:len(part) - len(body)]
        if not _unknown(body, groups):
            found.append(sign + (body if body in groups or _is_pattern(body) else _hosts_pattern([body])))
        elif body.lower() in azure:
            found.append(sign + _hosts_pattern(azure[body.lower()]))
        else:
            unknown.append(body)
    shown = target if isinstance(target, str) else ",".join(map(str, target)) if isinstance(target, (list, tuple)) else str(target)
    if not parts:
        raise TargetError("target is empty")
    if unknown and not (ignore_unknown and any(part[0] not in "!&" for part in found)):
        what = f"target {shown}" if not found else f"target {shown}: {', '.join(unknown)}"
        raise TargetError(f"{what} matches no host, by its name in the inventory or by graceful_azure_resource_name")
    if variables and _means_everybody(parts):
        found.extend(f"!{_hosts_pattern([name])}" for name in _balancers_of_others(hosts, variables))
    return ",".join(found)


def _balancers_of_others(hosts, variables):
    """Hosts that others name as their balancers, and that say of themselves that they are served by none: they are no VMs to handle."""
    named = set()
    for name in hosts:
        balancers = variables[name].get("load_balancer_hosts")
        named.update(str(other) for other in balancers or () if other != name and not isinstance(balancers, str))
    left_out = [name for name in hosts if name in named and not variables[name].get("load_balancer_provider")]
    return left_out if len(left_out) < len(hosts) else []
