# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The duties of a host that bring no traffic, and which of them are one act. Pure.

The settings are read in C(_duties/listed.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.tasks import BACK_NAMES
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import ON_HOST
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.on_host import HostDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._former_variables import AFTER
from ansible_collections.graceful.azure.plugins.plugin_utils._types import DrainStep, Options, StepGroup


def step_of(kind: HostDuty, options: Options, idle: bool, first: bool = False) -> DrainStep:
    """The normalised step of an entry. C(options): those of the entry, and C(name)."""
    step = dict(kind.step(options), name=str(options["name"]), type=kind.name, idle=idle)
    # It comes back when the host is in its balancers again.
    return dict(step, first=True) if first or step["name"] == BACK_NAMES[1] else step


def comes_later(each: DrainStep | StepGroup) -> bool:
    """Whether a step or a group comes back only when the host is in its balancers again."""
    return bool(each.get("first")) and not ON_HOST[each["type"]].closes


def idle_ones(kinds: Iterable[tuple[str, HostDuty]]) -> list[bool]:
    """Whether each step waits until the host is idle, where that is not said by duties that bring traffic. C(kinds): pairs of a name and a kind."""
    found, idle = [], False
    for name, kind in kinds:
        idle = idle or kind.needs_idle or name == AFTER
        found.append(idle)
    return found


def groups_out(steps: Iterable[DrainStep]) -> list[StepGroup]:
    """The steps that go out, those together that are one call. A group has C(type), C(idle), C(first), C(names), C(steps) and C(later), the names of its type
    in the groups after it."""
    groups = _groups([step for step in steps if step["out"]])
    for number, group in enumerate(groups):
        group["later"] = [name for other in groups[number + 1 :] if other["type"] == group["type"] for name in other["names"]]
    return groups


def groups_in(steps: Iterable[DrainStep], there: Collection[str] | None = None) -> list[StepGroup]:
    """The same of those that come in, the last first. A group without names stands for all that is on record still.

    C(there): the kinds of records that the host has; None if nobody knows.
    """
    found = _groups([step for step in steps if step["in"]])[::-1]
    for kind in ON_HOST.values():
        own = [group for group in found if kind.record and group["type"] == kind.name]
        if kind.record and not (there is None or kind.record in there):
            found = [group for group in found if group not in own or kind.bears_name]
        elif kind.record and own:
            # What the settings name no more, and what went along with others, comes in with the last of them.
            own[-1]["names"] = []
        elif kind.record and (kind.common or there is not None):
            found.insert(0, _group(kind))
    return found


def _group(kind: HostDuty, idle: bool = True, first: bool = False) -> StepGroup:
    return {"type": kind.name, "idle": idle, "first": first, "names": [], "steps": []}


def _groups(steps: Iterable[DrainStep]) -> list[StepGroup]:
    found: list[StepGroup] = []
    for step in steps:
        group = _group(ON_HOST[step["type"]], step["idle"], bool(step.get("first")))
        is_same = bool(found) and all(found[-1][key] == group[key] for key in ("type", "idle", "first"))
        if not (is_same and ON_HOST[step["type"]].together):
            found.append(group)
        found[-1]["names"].append(step["name"])
        found[-1]["steps"].append(step)
    return found
