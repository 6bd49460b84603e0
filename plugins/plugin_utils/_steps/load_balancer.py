# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The result of the role load_balancer. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import TRAFFIC
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import RoleResult, gathered, role_result
from ansible_collections.graceful.azure.plugins.plugin_utils._text import joined
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, Result


def judge(settings: BalancerSettings, direction: str, acts: Sequence[Result] = ()) -> RoleResult:
    """The C(load_balancer_result), as the role's argument specs say.

    C(settings): one balancer of the host, as in the settings that the plan reads: C(provider), C(hosts), C(server), C(state), ...
    C(direction): V(out) or V(in).
    C(acts): what came of the acts on each machine.
    """
    return TRAFFIC[settings["provider"]].judge(settings, direction, acts)


def in_order(balancers: Sequence[BalancerSettings], direction: str) -> list[int]:
    """The numbers of the balancers of a host, from 0, in the order in which it goes out or comes back. It goes out of the outermost first.

    Its health answer comes back before all others: their own checks may ask for it, and then it is waited for.
    """
    numbers = list(range(len(balancers)))
    if direction == "out":
        return numbers
    return sorted(numbers, key=lambda number: (not TRAFFIC[balancers[number]["provider"]].answers_checks, -number))


def judge_all(balancers: Sequence[BalancerSettings], direction: str, acts: Sequence[Result]) -> RoleResult:
    """The C(load_balancer_result) for the balancers of a host whose turn has come.

    C(balancers): the settings of each, the outermost first. C(acts): as for C(judge), each with the number of its balancer from 0 in C(balancer).
    """
    told: RoleResult = {}
    for number in in_order(balancers, direction):
        mine = _acts_at(number, acts)
        result = judge(balancers[number], direction, mine)
        told = _after(told, result) if told else result
        if not _goes_on(result, direction, mine):
            break
    return told


def is_turn_of(number: int, balancers: Sequence[BalancerSettings], direction: str, acts: Sequence[Result]) -> bool:
    """Whether a balancer may be changed now, after the results of those before it."""
    before = itertools.takewhile(lambda other: other != number, in_order(balancers, direction))
    return all(_goes_on(judge(balancers[other], direction, _acts_at(other, acts)), direction, _acts_at(other, acts)) for other in before)


def _acts_at(number: int, acts: Sequence[Result]) -> list[Result]:
    return [act for act in acts if (act.get("balancer") or 0) == number]


def _goes_on(result: RoleResult, direction: str, acts: Iterable[Result]) -> bool:
    """Whether the next balancer may be changed.

    Out: also if this one fails. In: only if this one is done, so that requests come back only when the inner balancers know the host again.
    """
    return not gathered(acts, "refused") if direction == "out" else result["done"]


def _after(before: RoleResult, result: RoleResult) -> RoleResult:
    """One result for a balancer and those before it. Its reason names the balancers that are not done, if there are any."""
    done = before["done"] and result["done"]
    reason = joined(each["reason"] for each in (before, result) if each["done"] == done)
    return role_result(done, reason, (before, result), before["failed_hosts"] + result["failed_hosts"])
