# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The list C(graceful_azure_duties): what is wrong with it, and what it says in the plan's form. Pure."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.tasks import FORMER_RECORD
from ansible_collections.graceful.azure.plugins.module_utils._duties.options import (
    QUIET,
    mistakes_together,
    name_mistakes,
    spelled_out,
    type_mistake,
    unknown_options,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import CUSTOM, NONE, settings_of, types
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.duty import Duty
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.groups import idle_ones, step_of
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.on_host import HostDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._options import Called, is_set, read_options
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, DrainStep, Options

DUTIES = "graceful_azure_duties"
EXAMPLE = "[{type: haproxy, hosts: [lb1]}, app]"
FileProblem = Callable[[str], str | None]
"""Returns what is wrong with a task file, as a sentence, or None."""


Written = tuple[Any, Called]
"""An entry as the user wrote it, and what people call it and its options. An empty text stands for the entry itself."""


class ListedDuty(NamedTuple):
    """One duty of a host."""

    type: str
    name: str
    duty: Duty
    options: Options  # in their types, with the defaults of those that are not set, and C(name)
    called: Called

    @property
    def traffic(self) -> bool:
        return self.duty.brings_traffic(self.options)

    @property
    def provider(self) -> str:
        """What the settings of a balancer call it."""
        return CUSTOM if self.type == "tasks" else self.type


def written(value: Any, mistakes: list[str]) -> list[Written]:
    """The entries as the user wrote them."""
    if isinstance(value, (list, tuple)):
        return [(entry, _called(number)) for number, entry in enumerate(value)]
    mistakes.append(f"{DUTIES}: {value!r} is not a list; write one such as {EXAMPLE}, or [] for a host that hands over nothing")
    return []


def _called(number: int) -> Called:
    return lambda option: f"{DUTIES}[{number}]" + (f".{option}" if option else "")


def read_entries(given: Iterable[Written], known_hosts: Collection[str], folder: str, file_problem: FileProblem, mistakes: list[str]) -> list[ListedDuty]:
    """The entries, without those of which nobody knows the type.

    C(known_hosts): every inventory name. C(folder): what paths of task files are relative to.
    """
    entries: list[ListedDuty] = []
    for raw, called in given:
        entry = _read_entry(raw, called, folder, mistakes)
        if entry:
            entries.append(entry)
            mistakes.extend(_more_mistakes(entry, known_hosts, file_problem))
    mistakes.extend(_mistakes_together(entries))
    return entries


def _read_entry(raw: Any, called: Called, folder: str, mistakes: list[str]) -> ListedDuty | None:
    def note(found: Iterable[tuple[str, str]]) -> None:
        mistakes.extend(f"{called(option)}: {sentence}" for option, sentence in found)

    known, raw = types(), spelled_out(raw)
    unknown = type_mistake(raw, known)
    if unknown:
        note([unknown])
        return None
    kind, duty = raw["type"], known[raw["type"]]
    note(unknown_options(raw, duty.options))
    note(name_mistakes(raw, duty.options, duty.name_pattern, duty.needs_name))
    name = str(raw["name"]) if is_set(raw.get("name")) else kind
    read, wrong = read_options(raw, duty.options, called, mistakes, duty.task_files)
    read.update({option: os.path.join(folder, read[option]) for option in duty.task_files if read[option]}, name=name)
    note(mistake for mistake in duty.mistakes(read) if mistake[0] not in wrong)
    return ListedDuty(kind, name, duty, read, called)


def _more_mistakes(entry: ListedDuty, known_hosts: Collection[str], file_problem: FileProblem) -> Iterator[str]:
    """What is wrong with names and paths on the controller."""
    for host in entry.options.get("hosts") or ():
        if host not in known_hosts:
            yield f"{entry.called('hosts')}: {host!r} is not in the inventory"
    for option in entry.duty.task_files:
        problem = file_problem(entry.options[option]) if entry.options[option] else None
        if problem:
            yield f"{entry.called(option)}: {problem}"


def _mistakes_together(entries: Sequence[ListedDuty]) -> Iterator[str]:
    """What is wrong with the entries of a host beside each other."""
    called = {entry.called(""): entry.called for entry in entries}
    for place, option, sentence in mistakes_together((entry.called(""), entry.type, entry.name, entry.duty.once) for entry in entries):
        yield f"{called[place](option)}: {sentence}"
    traffic = [number for number, entry in enumerate(entries) if entry.traffic]
    for number, entry in enumerate(entries):
        if traffic and traffic[0] < number < traffic[-1] and not entry.traffic:
            later = [entries[other] for other in traffic if other > number][0]
            yield (
                f"{entry.called('')}: it brings no traffic and stands between entries that do. It would wait until the host is idle, and the host is not while"
                f" {later.called('')} brings traffic. Put it before all entries that bring traffic, or after them"
            )


def balancers_of(entries: Iterable[ListedDuty], host: str, address: str | None) -> list[BalancerSettings]:
    """The settings of the duties that bring traffic, as the plan reads them. C(address): the C(ansible_host) of the host, or None."""
    found = [
        dict(settings_of(entry.provider, entry.options, host, address), quiet=entry.options.get("quiet", QUIET["default"]))
        for entry in entries
        if entry.traffic
    ]
    first = next((balancer for balancer in found if balancer["provider"] == CUSTOM), None)
    if first:
        # It stands for the first one.
        first["records"].append(FORMER_RECORD)
    return found or [dict(settings_of(NONE, {}, host, address), quiet=QUIET["default"])]


def steps_of(entries: Sequence[ListedDuty]) -> list[DrainStep]:
    """The other duties as drain steps, as the plan reads them."""
    steps = [(number, entry, entry.duty) for number, entry in enumerate(entries) if isinstance(entry.duty, HostDuty) and not entry.traffic]
    traffic = [number for number, entry in enumerate(entries) if entry.traffic]
    if not traffic:
        # Nobody says what the host must be idle for, but its type. A service may have connections that only the host itself can count.
        idle = idle_ones((entry.name, duty) for _number, entry, duty in steps)
        return [step_of(duty, entry.options, waits) for (_number, entry, duty), waits in zip(steps, idle)]
    return [step_of(duty, entry.options, number > traffic[0], first=number < traffic[0]) for number, entry, duty in steps]
