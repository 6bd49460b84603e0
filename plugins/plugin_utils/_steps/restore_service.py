# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How far the role restore_service has come. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.tasks import BACK_NAMES, OUT_NAMES, OUT_RECORD, STEP_RECORDS, TRAFFIC_RECORD
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import APPROVED, NOTES
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import (
    NOTHING,
    STAYS_OUT,
    UNREACHABLE,
    RoleResult,
    gathered,
    is_done,
    is_skipped,
    is_unreachable,
    role_result,
    still_held,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._text import joined
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Result

TASKS = (*NOTES, *BACK_NAMES, *OUT_NAMES)
"""Names of the task records that the roles leave on a host. They end with this role. The host's provider and its drain steps may have more."""


def ended(there: Collection[str], known: Collection[str] = ()) -> list[str]:
    """Which of the records that a host has end with this role: also those of drain steps that are set no more. C(known): those that are set."""
    return _in_order([*(name for name in TASKS if name in there), *(name for name in there if name.startswith(STEP_RECORDS)), *known])


def _in_order(names: Iterable[str]) -> list[str]:
    """The record of the approval goes last: as long as there is any other, the next run must know what became of the event."""
    return sorted(dict.fromkeys(names), key=lambda name: name == APPROVED)


def records_in(steps: Iterable[Json], balancers: Iterable[Json]) -> list[str]:
    """The names of the records of all task files that the settings of a host have: of its drain steps and of its balancers."""
    names = [step["record"] for step in steps if step.get("record")]
    return names + [name for balancer in balancers for name in balancer.get("records") or ()]


def lost_steps(there: Collection[str], known: Collection[str]) -> list[str]:
    """Sentences about drain steps that are on record and that nobody can undo. C(there): the host's records. C(known): what C(records_in) tells."""
    prefixes = (OUT_RECORD, TRAFFIC_RECORD)
    names = [name[len(prefix) :] for prefix in prefixes for name in there if name.startswith(prefix) and name not in known]
    return [f"the duty {name} was handed over, and graceful_azure_duties has it no more: take it back by hand" for name in names]


LOST_SPOT = "{}: it was taken out there, and graceful_azure_duties has that no more: see whether it is back, or put it back by hand"
"""The sentence about a place at a balancer that nobody can give back. See C(TrafficDuty.spots)."""


def judge(
    host: str,
    steps: Result = NOTHING,
    answer: Result = NOTHING,
    balancer: RoleResult | None = None,
    lost: Sequence[str] = (),
    last: Result = NOTHING,
    held_by: Sequence[str] = (),
) -> RoleResult:
    """The C(restore_service_result), as the role's argument specs say.

    C(host): its name in the inventory.
    C(steps): what the drain steps came to, as one result.
    C(answer): what the host answered.
    C(balancer): the C(load_balancer_result) of giving the host back; None, or any, as long as C(may_go_back) does not allow that.
    C(lost): what C(lost_steps) tells.
    C(last): the same as C(steps) of those that come back after that. C(held_by): the ids of other events that still hold any of it.

    A module that was not run because there is nothing to start or to ask is as good as done: leave its result out.
    """
    given_back: RoleResult = balancer if balancer and may_go_back(steps, answer) else {}
    left = _left(steps, answer, given_back) or ([] if is_done(last) else [last.get("waiting_for") or UNREACHABLE])
    conflicts = [*lost, *gathered((steps, given_back, last), "conflicts")]
    still = still_held(held_by)
    is_unanswered = is_done(steps) and not is_unreachable(answer) and not may_go_back(steps, answer)
    state = ["not restored", *([STAYS_OUT] if is_unanswered else ())] if left else still or ["restored"]
    reason = f"{host} is {joined([*state, *left, *(still if left else ()), *conflicts])}"
    failed_hosts = given_back.get("failed_hosts") or ()
    return role_result(not left, reason, (steps, given_back, last), failed_hosts, conflicts=conflicts, left=left, unanswered=is_unanswered)


def may_go_back(steps: Result = NOTHING, answer: Result = NOTHING) -> bool:
    """Whether requests may be sent to the host again: everything runs that has to answer, and it answers."""
    return is_done(steps) and bool(answer.get("answered", is_skipped(answer)))


def _left(steps: Result, answer: Result, given_back: Result) -> list[str]:
    if is_unreachable(steps) or is_unreachable(answer):
        return [UNREACHABLE]
    if not is_done(steps):
        return [steps.get("waiting_for") or "its services do not run yet"]
    if not may_go_back(steps, answer):
        return [answer.get("reason") or "it was not asked"]
    return [] if given_back.get("done") else [given_back.get("reason") or "it is not given back yet"]
