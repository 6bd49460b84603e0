# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What entries and options of several types of duties have in common, for the plan and for the machine that acts. Pure.

The options of each type are in C(both_sides), those of the members of clusters in their own files. An option is as in an argument specification. Besides,
the settings read C(means) (what to write if it is not set) and C(or_text) (whether a text with commas may stand for the list).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._spellings import NAME_IS_OF, NOT_ABSOLUTE, meant, mistake_in_seconds, without_service

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from re import Pattern
    from typing import Any

    Specs = dict[str, dict[str, Any]]
    # Pairs of an option and a sentence. Without an option it is about the whole entry.
    Mistakes = Iterator[tuple[str, str]]

# What every entry may have besides the options of its type.
COMMON = ("type", "name")
# What the name of a service may be, with the dollar of named instances on Windows.
SERVICE_NAME = re.compile(r"[A-Za-z0-9:_.\\@$][A-Za-z0-9:_.\\@$-]*\Z")
# The addresses from which the probes of Azure Load Balancer come: the service tag AzureLoadBalancer.
AZURE_PROBES = ["168.63.129.16", "fe80::1234:5678:9abc"]

MACHINES = "give the inventory names of the machines on which the balancer runs"
HOSTS: dict[str, Any] = {"type": "list", "elements": "str", "required": True, "means": MACHINES}
# Seconds for which no new request may have come before a host that is out counts as drained.
QUIET: dict[str, Any] = {"type": "float", "default": 3}
# In how many looks running it must also have been idle.
LOOKS = 2


def common_mistakes(specs: Specs, options: Mapping[str, Any]) -> Mistakes:
    """What is wrong with numbers of seconds and with C(hosts), whatever the type. C(options): with the defaults of those not set."""
    for option, spec in specs.items():
        mistake = mistake_in_seconds(options[option]) if spec["type"] == "float" and options.get(option) is not None else ""
        if mistake:
            yield option, mistake
    if options.get("hosts") == []:
        yield "hosts", "empty; %s" % MACHINES


def path_mistakes(specs: Specs, options: Mapping[str, Any]) -> Mistakes:
    """What is wrong with paths on this machine."""
    for option, spec in specs.items():
        if "path" in (spec["type"], spec.get("elements")):
            given = options.get(option) or ()
            yield from ((option, NOT_ABSOLUTE % path) for path in ([given] if isinstance(given, str) else given) if not path.startswith("/"))


def spelled_out(written: Any) -> Any:
    """An entry as a dictionary. A text is the name of a service."""
    return {"type": "service", "name": written} if isinstance(written, str) else written


def type_mistake(entry: Any, known: Collection[str]) -> tuple[str, str] | None:
    """Why nobody knows the type of an entry."""
    if not isinstance(entry, dict):
        return "", "%r is neither a dictionary nor the name of a service" % (entry,)
    kind = entry.get("type")
    if isinstance(kind, str) and kind in known:
        return None
    problem = "not set" if kind is None or kind == "" else "%r is no type of duty%s" % (kind, meant(kind, known))
    return "type", "%s; there are %s" % (problem, ", ".join(known))


def unknown_options(entry: Mapping[Any, Any], specs: Specs) -> Mistakes:
    there = (*COMMON, *specs)
    for key in entry:
        if key not in there:
            yield "", "there is no option %s%s; for the type %s there are %s" % (key, meant(key, there), entry["type"], ", ".join(there))


def name_mistakes(entry: Mapping[Any, Any], specs: Specs, pattern: Pattern[str], needed: str) -> Mistakes:
    """C(pattern): what it may be. C(needed): why it cannot be left out where no option is set; empty if it can."""
    name = entry.get("name")
    if name is None or name == "":
        if needed and not any(entry.get(option) for option in specs):
            yield "name", "not set; %s" % needed
    elif isinstance(name, bool) or not isinstance(name, (str, int)) or not pattern.match(str(name)):
        yield "name", "%r is not a plain word; %s" % (name, NAME_IS_OF)


def told_mistake(where: str, option: str, sentence: str) -> str:
    """A mistake as people read it. C(where): what the entry is called."""
    return "%s%s: %s" % (where, "." + option if option else "", sentence)


def mistakes_together(entries: Iterable[tuple[str, str, str, str]]) -> Iterator[tuple[str, str, str]]:
    """What is wrong with the entries of a host beside each other: which entry, and then as above.

    C(entries): what each is called, its type and name, and why there may be no other of its type; empty if there may.
    """
    known: dict[str, str] = {}
    single: dict[str, str] = {}
    for called, kind, name, once in entries:
        first = known.setdefault(without_service(name), called)
        if first != called:
            yield called, "name", "%r stands in %s already; give each entry a name of its own" % (name, first)
        only = single.setdefault(kind, called) if once else called
        if only != called:
            yield called, "", "only one entry may be of the type %s, because %s; %s is one" % (kind, once, only)
