# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How far the role drain_host has come. Private to the collection; pure."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.graceful.azure.plugins.plugin_utils._duties.registry import TRAFFIC
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import (
    NOTHING,
    UNREACHABLE,
    RoleResult,
    is_changed,
    is_done,
    is_skipped,
    is_unreachable,
    together,
    without_answer,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, Json, Result, StepGroup

LOOKING = 0.6
"""Seconds that a look at the balancer takes beyond those for which no session may come."""
LONGEST_LOOK = 4.0
"""Seconds after which a step of a pass leaves the rest to the next one."""


def judge(
    host: str,
    settings: BalancerSettings,
    state: str = "drained",
    looks: Sequence[Result] = (),
    connections: Result = NOTHING,
    steps: Result = NOTHING,
    forgotten: Result = NOTHING,
    early: Result = NOTHING,
    check_mode: bool = False,
) -> RoleResult:
    """The C(drain_host_result): C(done), C(changed), C(reason), C(failed_hosts), C(conflicts), C(left), C(waiting_for).

    C(host): its name in the inventory.
    C(settings): one balancer of the host, as in the settings that the plan reads.
    C(state): V(drained) or V(running).
    C(looks): what the provider's module that looks returned on each machine. For C(haproxy) the results of M(graceful.azure.haproxy_info).
    C(connections): the result of M(graceful.azure.connections_info) on the host.
    C(steps): what the drain steps came to, as one result.
    C(forgotten): the result of M(graceful.azure.task_hold) that removed the records. Only with V(running).
    C(early): the same of the steps that do not wait until the host is idle.

    A module that was not run because there is nothing to look at or to stop is as good as done: leave its result out.
    """
    return _result(host, state, busy(settings, looks), without_answer(looks), connections, steps, forgotten, early, check_mode)


def _result(
    host: str,
    state: str,
    going_on: Sequence[str],
    unanswered: list[str],
    connections: Result,
    steps: Result,
    forgotten: Result,
    early: Result,
    check_mode: bool,
) -> RoleResult:
    if state == "running":
        left = of_steps = _steps_left(steps)
        done, failed_hosts, changed = is_done(steps), [], is_changed(steps) or is_changed(forgotten)
    else:
        of_steps = _steps_left(early) or _steps_left(steps)
        left = _steps_left(early) or [*going_on, *_connected(connections), *of_steps]
        done, failed_hosts, changed = not left, unanswered, is_changed(steps)
    conflicts = list(steps.get("conflicts") or ())
    said = [f"not {state}" if left else state, *left, *conflicts]
    return {
        "done": check_mode or done,
        "changed": changed,
        "reason": f"{host} is {'; '.join(said)}",
        "failed_hosts": failed_hosts,
        "conflicts": conflicts,
        "left": left,
        "waiting_for": of_steps,
    }


def progress(
    host: str,
    state: str,
    balancers: Sequence[BalancerSettings],
    looks: Sequence[Result],
    connections: Result,
    steps: Sequence[Result],
    forgotten: Result,
    group: StepGroup | None = None,
    check_mode: bool = False,
    patience: float = 0.0,
    wait: bool = True,
) -> Json:
    """What the tasks of the role go by.

    C(balancers): the balancers of the host, as in the settings that the plan reads.
    C(looks): as for C(judge), with one of C(machines) in C(item).
    C(steps): the results of the drain steps that were taken so far, each with C(early) (whether it does not wait until the host is idle).
    C(group): the drain steps that may come next, if any.
    C(patience): seconds that the wait may still take.

    Returns C(result) (the C(drain_host_result)), C(machines) (what is to be looked at: C(machine), C(provider), C(settings), C(number),
    C(server), C(quiet)), C(busy) (what still goes on in the balancers), C(idle) (whether steps that wait for that may be taken), C(down) (whether all steps so
    far are done), C(next) (whether C(group) is to be taken now), C(look_seconds) (how long the looks may take), and C(pools) (the
    connections that are not counted).
    """
    taken = together(steps)
    early = together([step for step in steps if step.get("early")])
    # Templates of core before 2.19 yield texts.
    quiets = [float(settings["quiet"]) for settings in balancers]
    seen = [[dict(look, item=look["item"]["machine"]) for look in looks if look["item"]["number"] == number] for number in range(len(balancers))]
    going_on = [sentence for settings, own in zip(balancers, seen) for sentence in busy(settings, own)]
    unanswered = [machine for own in seen for machine in without_answer(own)]
    idle = not going_on and bool(connections.get("idle", is_skipped(connections)))
    # Two looks, half a second apart, belong to it in any case. A wait must not last into the impact. A single step looks for as long as is asked, or it
    # would never be done.
    least = max(quiets) + LOOKING
    if wait:
        least = min(least, LONGEST_LOOK)
    return {
        "result": _result(host, state, going_on, unanswered, connections, taken, forgotten, early, check_mode),
        "machines": [
            {
                "machine": machine,
                "provider": settings["provider"],
                "settings": settings,
                "number": number,
                "server": settings["server"],
                "quiet": quiets[number],
            }
            for number, settings in enumerate(balancers)
            for machine in TRAFFIC[settings["provider"]].looks_at(settings)
        ],
        "busy": going_on,
        "idle": idle,
        "down": is_done(taken),
        "next": check_mode or is_done(taken) and (idle or not (group and group["idle"])),
        "look_seconds": max(patience, least),
        "pools": [pool._asdict() for settings, own in zip(balancers, seen) for pool in TRAFFIC[settings["provider"]].pools(settings, own)],
    }


def busy(settings: BalancerSettings, looks: Sequence[Result]) -> list[str]:
    """Sentences: what still goes on in the host's balancer, or that nobody can tell."""
    return TRAFFIC[settings["provider"]].busy(settings, looks)


def _connected(connections: Result) -> list[str]:
    return [UNREACHABLE] if is_unreachable(connections) else list(connections.get("left") or ())


def _steps_left(steps: Result) -> list[str]:
    if is_unreachable(steps):
        return [UNREACHABLE]
    return [steps["waiting_for"]] if steps.get("waiting_for") else []
