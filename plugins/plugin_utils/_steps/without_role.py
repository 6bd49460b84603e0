# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The result of a step that was taken by its acts. Pure.

C(done): the results of the acts so far, each with its C(part) (see C(_planning/acts.py)). C(item) is the machine, if the act ran on another machine
than the host.
"""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.graceful.azure.plugins.plugin_utils._own_files import file_due
from ansible_collections.graceful.azure.plugins.plugin_utils._steps import approve_event, drain_host, load_balancer, restore_service
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import (
    NOTHING,
    STAYS_OUT,
    RoleResult,
    held_for,
    is_done,
    is_failed,
    role_result,
    still_held,
    together,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._text import joined
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Act, BalancerSettings, Result

UNFINISHED = role_result(False, "the role did not come to its end")
"""The result of a step that failed."""
COUNTING = ("steps", "last")
"""The parts of which each must be done before the next act of the same request is begun."""


def is_due(act: Act, name: str, balancers: Sequence[BalancerSettings], done: Sequence[Result]) -> bool:
    """Whether an act must be carried out, as the results of earlier turns show. C(balancers): the settings of the host's balancers.

    What is asked of a machine together with it comes before it, and the machine itself sees what that came to (C(_handle.py)).
    """
    part: str = act["part"]
    if act.get("always"):
        return True
    steps, answer = _of_part("steps", done), _result("answer", done)
    if part == "sent":
        # From outside, an event is approved as it was just read.
        return "expected" not in act or approve_event.is_still_so(act["expected"], _result("seen", done))
    if part == "undone":
        return bool(done and done[-1].get("has_run"))
    if part in ("steps", "drained", "answer"):
        return is_done(steps)
    if part == "balancer":
        direction = "out" if act["args"]["state"] == "present" else "in"
        asked = answer is not NOTHING or steps is not NOTHING
        is_next = load_balancer.is_turn_of(act["balancer"], balancers, direction, _acts_at_balancers(done))
        return is_next and (not asked or restore_service.may_go_back(steps, answer))
    if part in ("last", "forgotten", "restoring"):
        is_back = bool(restore_service.judge(name, steps, answer, _balancer(balancers, "in", done), last=_of_part("last", done))["done"])
        return is_back == (part != "restoring")
    return True


def judge(
    role: str,
    state: str,
    event_ids: Sequence[str],
    name: str,
    balancers: Sequence[BalancerSettings],
    done: Sequence[Result],
    lost: Sequence[str] = (),
) -> tuple[RoleResult, str | None]:
    """The result of the step, and why it failed, or None. C(lost): drain steps that nobody can undo, in sentences.

    The result has C(file) where a task file of the user's own must run first.
    """
    failure = _failure(role, state, name, balancers, done)
    if failure:
        return UNFINISHED, failure
    result = _judge(role, state, event_ids, name, balancers, done, lost)
    file = file_due(done)
    return dict(result, file=file) if file else result, None


def _judge(
    role: str, state: str, event_ids: Sequence[str], name: str, balancers: Sequence[BalancerSettings], done: Sequence[Result], lost: Sequence[str]
) -> RoleResult:
    if role == "approve_event":
        return approve_event.judge(event_ids, _result("sent", done))
    steps, is_out = _of_part("steps", done), state in ("out", "drained")
    held_by = [] if is_out else held_for([result for result in done if result["part"] in (*COUNTING, "balancer")], event_ids)
    if role == "load_balancer":
        result = _balancer(balancers, state, done)
        result = dict(result, reason=joined([result["reason"], *still_held(held_by)]))
    elif role == "drain_host":
        result = drain_host.judge(name, steps, state, held_by=held_by)
    else:
        given_back, last = _balancer(balancers, "in", done), _of_part("last", done)
        result = restore_service.judge(name, steps, _result("answer", done), given_back, lost=lost, last=last, held_by=held_by)
    return result if is_out else dict(result, held_by=held_by)


def _result(part: str, done: Sequence[Result]) -> Result:
    return next((result for result in done if result["part"] == part), NOTHING)


def _of_part(part: str, done: Sequence[Result]) -> Result:
    return together([result for result in done if result["part"] == part])


def _balancer(balancers: Sequence[BalancerSettings], direction: str, done: Sequence[Result]) -> RoleResult:
    return load_balancer.judge_all(balancers, direction, _acts_at_balancers(done))


def _acts_at_balancers(done: Sequence[Result]) -> list[Result]:
    return [result for result in done if result["part"] == "balancer"]


def _failure(role: str, state: str, name: str, balancers: Sequence[BalancerSettings], done: Sequence[Result]) -> str | None:
    outside = approve_event.failure_outside(done) if role == "approve_event" else None
    if outside:
        return outside
    # The act that records the restoring may fail, too. The failure that keeps the host from being restored matters more.
    failed = [result for result in done if is_failed(result) and result["part"] != "restoring"]
    if not failed:
        return None
    if failed[0]["part"] == "balancer":
        return str(_balancer(balancers, "in" if role == "restore_service" else state, done)["reason"])
    told = str(failed[0].get("msg") or "the step failed")
    return f"{name} is not restored; {STAYS_OUT}; {told}" if failed[0]["part"] == "answer" else told
