# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The drain steps of a host as one list. Private to the collection; pure.

The settings are read here and nowhere else: roles and plan read the list.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from ansible_collections.graceful.azure.plugins.plugin_utils._drain_steps.kind import FileProblem, Kind
from ansible_collections.graceful.azure.plugins.plugin_utils._drain_steps.registry import KINDS
from ansible_collections.graceful.azure.plugins.plugin_utils._types import DrainStep, Json, StepGroup

OPTION = "drain_host_steps"
RESERVED = ("drain_host_before", "drain_host_after")
"""The names of the steps that these options make."""


def steps_of(
    before: str | None = None,
    steps: Any = (),
    services: Iterable[Any] | None = (),
    after: str | None = None,
    folder: str = "",
) -> list[DrainStep]:
    """The normalised steps, in the order in which they go out. The arguments are the values of C(drain_host_*). What C(mistakes_in) tells is left out."""
    first, last = ([{"name": f"drain_host_{name}", "type": "tasks", "out": path}] if path else [] for name, path in (("before", before), ("after", after)))
    entries = [_entry(entry) for entry in steps or ()] if isinstance(steps, (list, tuple)) else []
    given = [entry for entry in entries if entry and entry.get("name") not in (None, "") and str(entry.get("type")) in KINDS]
    named = [{"name": str(service), "type": "service"} for service in services or ()]
    found: list[DrainStep] = []
    idle = False
    for entry in [*first, *given, *named, *last]:
        kind = KINDS[entry["type"]]
        idle = idle or kind.needs_idle or entry in last
        found.append(dict(kind.step(dict(entry, name=str(entry["name"])), folder), name=str(entry["name"]), type=kind.name, idle=idle))
    for step in found:
        # Their records are those of a version that knew no other steps. No other step may have their names.
        if step["name"] in RESERVED:
            step["record"] = step["name"]
    return found


def groups_out(steps: Iterable[DrainStep]) -> list[StepGroup]:
    """The steps that go out, those together that are one call. A group has C(type), C(files), C(idle), C(names) and C(steps)."""
    return _groups([step for step in steps if step["out"]])


def groups_in(steps: Iterable[DrainStep], there: Collection[str] | None = None) -> list[StepGroup]:
    """The same of those that come in, the last first. A group without names stands for all that is on record still.

    C(there): the kinds of records that the host has; None if nobody knows.
    """
    found = _groups([step for step in steps if step["in"]])[::-1]
    for kind in KINDS.values():
        own = [group for group in found if kind.record and group["type"] == kind.name]
        if kind.record and not (there is None or kind.record in there):
            found = [group for group in found if group not in own or kind.bears_name]
        elif kind.record and own:
            # What the settings name no more, and what went along with others, comes in with the last of them.
            own[-1]["names"] = []
        elif kind.record and (kind.common or there is not None):
            found.insert(0, dict(_group(kind), idle=True))
    return found


def _group(kind: Kind) -> StepGroup:
    return {"type": kind.name, "files": kind.files or kind.name, "names": [], "steps": []}


def _groups(steps: Iterable[DrainStep]) -> list[StepGroup]:
    found: list[StepGroup] = []
    for step in steps:
        if not (found and found[-1]["type"] == step["type"] and KINDS[step["type"]].together):
            found.append(dict(_group(KINDS[step["type"]]), idle=step["idle"]))
        found[-1]["names"].append(step["name"])
        found[-1]["steps"].append(step)
    return found


def drain_steps(present: Collection[str] | None = None, **given: Any) -> Json:
    """What the roles go by: C(out), C(in) (groups), C(files_in) (whether task files run when the host comes in), C(in_only) (the records of steps
    that do nothing when the host goes out), C(undone) (the records of steps that no file of their own undoes), C(records) (the names of all records of
    task files that they may leave).

    C(present): the kinds of records that the host has; None if nobody knows.
    """
    steps = steps_of(**given)
    recorded = [step for step in steps if step.get("record")]
    return {
        "out": groups_out(steps),
        "in": groups_in(steps, present),
        "files_in": any(step["in"] for step in recorded),
        "in_only": [step["record"] for step in recorded if step["in"] and not step["out"]],
        "undone": [step["record"] for step in recorded if step["out"] and not step["in"]],
        "records": [step["record"] for step in recorded],
    }


def mistakes_in(steps: Any, services: Iterable[Any] | None, file_problem: FileProblem) -> Iterator[str]:
    """Sentences about what is wrong in C(drain_host_steps). C(file_problem): what is wrong with a task file, as a sentence, or None."""
    if not isinstance(steps, (list, tuple)):
        return
    known = {_plain(str(service)): "drain_host_services" for service in services or ()}
    known.update((name, "the options of the role") for name in RESERVED)
    for number, given in enumerate(steps):
        where = f"{OPTION}[{number}]"
        entry = _entry(given)
        if entry is None:
            yield f"{where}: {given!r} is neither a dictionary nor the name of a service"
            continue
        kind = KINDS.get(entry["type"]) if isinstance(entry.get("type"), str) else None
        if kind is None:
            told = f"{entry['type']!r} is no type of step{_meant(entry['type'], KINDS)}" if "type" in entry else "not set"
            yield f"{where}.type: {told}; there is {', '.join(KINDS)}"
        name = entry.get("name")
        if name is None or name == "":
            yield f"{where}.name: not set"
        elif isinstance(name, bool) or not isinstance(name, (str, int)) or not (kind or KINDS["tasks"]).names.fullmatch(str(name)):
            yield f"{where}.name: {name!r} is not a plain word; write it of letters, digits, dots, dashes and underscores"
        elif _plain(str(name)) in known:
            yield f"{where}.name: {name!r} stands in {known[_plain(str(name))]} already"
        else:
            known[_plain(str(name))] = where
        if kind:
            options = ("name", "type", *kind.options)
            yield from (f"{where}: there is no option {key}{_meant(key, options)}; there are {', '.join(options)}" for key in entry if key not in options)
            yield from (f"{where}{f'.{option}' if option else ''}: {problem}" for option, problem in kind.problems(entry, file_problem))


def _entry(given: Any) -> Json | None:
    """A step as a dictionary; None if it is none. A text is a service."""
    if isinstance(given, str):
        return {"name": given, "type": "service"}
    return given if isinstance(given, dict) else None


def _plain(name: str) -> str:
    return name.removesuffix(".service")


def _meant(word: object, words: Iterable[str]) -> str:
    close = difflib.get_close_matches(str(word), list(words), n=1)
    return f"; did you mean {close[0]}?" if close else ""
