# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Questions to the registered result of a task. Pure.

A result is what a module returned, with C(unreachable), C(failed), C(skipped) and C(changed) as Ansible registers them. A result of a
loop over machines has its machine in C(item).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import Any

from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Result

UNREACHABLE = "the host cannot be reached"
STAYS_OUT = "it stays out of its load balancer"
OBSERVE_TIMEOUT = "handle_events_observe_timeout"
"""Also playbooks and roles that are no run of events read it."""
NOTHING: Result = MappingProxyType({"skipped": True})
"""The result of a task that had nothing to do."""
RoleResult = dict[str, Any]
"""The result of a role: C(done), C(changed), C(reason), C(failed_hosts), C(conflicts), and what the role adds."""


def role_result(done: bool, reason: str, acts: Sequence[Result] = (), failed_hosts: Iterable[str] = (), **more: Any) -> RoleResult:
    """What a role has come to. C(acts): the results of what it did. C(more): what the role adds."""
    changed, conflicts = any(map(is_changed, acts)), gathered(acts, "conflicts")
    return {"done": done, "changed": changed, "reason": reason, "failed_hosts": list(failed_hosts), "conflicts": conflicts, **more}


def is_unreachable(result: Result) -> bool:
    return bool(result.get("unreachable"))


def is_failed(result: Result) -> bool:
    return bool(result.get("failed")) and not is_unreachable(result)


def is_skipped(result: Result) -> bool:
    """Whether there was nothing to run. The result of a task that has not run yet is empty, and not skipped."""
    return bool(result.get("skipped"))


def is_changed(result: Result) -> bool:
    return bool(result.get("changed"))


def too_slow(name: str, why: str) -> str:
    """A sentence about a host that answers, and never in time. C(why): the error of the last look."""
    return f"{name} is slow: {why}. Run it again, or set {OBSERVE_TIMEOUT}, such as to 30"


def is_done(result: Result) -> bool:
    """Whether what was to be done is done. A module that was not run because there is nothing to do is as good as done."""
    return bool(result.get("done", is_skipped(result))) and not is_unreachable(result)


def together(results: Sequence[Result]) -> Result:
    """The results of the drain steps that were taken so far, as one. A step is only taken when those before it are done."""
    if not results:
        return NOTHING
    return {
        "changed": any(map(is_changed, results)),
        "done": all(map(is_done, results)),
        "waiting_for": next((result.get("waiting_for") for result in results if not is_done(result)), None),
        "conflicts": gathered(results, "conflicts"),
        "unreachable": any(map(is_unreachable, results)),
        "failed": any(map(is_failed, results)),
    }


def without_answer(results: Sequence[Result]) -> list[str]:
    """The machines of a loop whose module failed, then those that could not be reached."""
    return [result["item"] for result in results if is_failed(result)] + [result["item"] for result in results if is_unreachable(result)]


def of_machines(machines: Sequence[str], acts: Sequence[Result], is_open: bool, said: Iterable[str]) -> RoleResult:
    """The result of a role that acts on the machines of a balancer. C(is_open): whether something is left to do there. C(said): phrases for the reason."""
    failed_hosts = without_answer(acts)
    done = bool(machines) and {act["item"] for act in acts}.issuperset(machines) and not (failed_hosts or is_open)
    conflicts = [told for act in acts for told in _told_there(act, "conflicts")]
    return role_result(done, " ".join(" ".join(said).split()), acts, failed_hosts, conflicts=conflicts)


def trouble_at(machines: Sequence[str], acts: Sequence[Result]) -> list[str]:
    """Sentences about the machines of a balancer: what failed there, what somebody else changed, and which of them were not asked."""
    found: list[str] = []
    for act in acts:
        if is_unreachable(act):
            found.append(f"{act['item']} cannot be reached.")
        elif is_failed(act):
            found.append(f"{act['item']}: {act.get('msg')}")
        for key in ("conflicts", "refused", "waiting_for"):
            found.extend(_told_there(act, key))
    asked = {act["item"] for act in acts}
    # Nothing is known about a machine that was left out.
    return found + [f"{machine} was not asked." for machine in machines if machine not in asked]


def _told_there(act: Result, key: str) -> list[str]:
    """The sentences of an act under a key, with its machine."""
    return [f"{act['item']}: {told}" for told in act.get(key) or ()]


def gathered(results: Iterable[Result], key: str) -> list[Any]:
    """The lists that the results have under a key, as one list."""
    return [entry for result in results for entry in result.get(key) or ()]


def held_for(results: Iterable[Result], released: Iterable[str]) -> list[str]:
    """The ids of the events that still hold something after a release. C(results): those of its acts. C(released): the events that it was for."""
    ended = set(map(fold, released))
    return list(dict.fromkeys(event_id for result in results for event_id in _holders(result) if fold(event_id) not in ended))


def still_held(held_by: Sequence[str]) -> list[str]:
    """The phrase for what C(held_for) returned, if there is any."""
    return [f"still held for {', '.join(held_by)}"] if held_by else []


def _holders(result: Result) -> Iterator[str]:
    """The ids of the events that hold what a call was about: it has one thing, or a list of them."""
    yield from result.get("held_by") or ()
    for value in result.values():
        for thing in value if isinstance(value, list) else ():
            if isinstance(thing, dict):
                yield from thing.get("held_by") or ()
