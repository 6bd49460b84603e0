# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is behind the modules C(duty) and C(duty_info): a list of duties is taken off or put back in its order, and then looked at."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._duties.all_types import read
from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import BACK, OUT, Act, least_of
from ansible_collections.graceful.azure.plugins.module_utils._duties.options import LOOKS
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import DEFAULT_STATE_DIR
from ansible_collections.graceful.azure.plugins.module_utils._polling import MOST_SECONDS, check_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import Duty
    from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine

# What an act may say besides the duty, the direction, the events and the time.
MORE = ("min_in_service", "addresses", "await_checks", "force", "done", "checked_later")


def duties_argument_spec() -> dict[str, Any]:
    """The options of both modules."""
    return {
        "duties": {"type": "list", "elements": "raw", "required": True},
        "ports": {"type": "list", "elements": "int", "default": []},
        "state_dir": {"type": "path", "default": DEFAULT_STATE_DIR},
    }


def in_order(request: Mapping[str, Any], machine: Machine) -> dict[str, Any]:
    """Take the acts of a request in their order, up to the first that is not done, and look.

    C(acts): each has a C(duty) (an entry of C(graceful_azure_duties)), C(to) (V(out) or V(back)), C(event_ids), C(event_details), C(reason), C(timeout)
    (seconds that it may take) and what C(MORE) names. C(look): entries, or dictionaries of a C(duty) and the C(addresses) for which a look at a balancer
    searches as well. C(timeout): for all acts together.

    A duty that brings no traffic is begun only when those before it, as far as they are in this request, bring none any more in two looks in a row.

    Returns C(acts), one for each that was begun, C(duties), one for each look, and C(done), C(changed) and C(diff) of all acts together. A mistake in the
    request is a C(ValueError), and then nothing was touched.
    """
    timeout = check_seconds("timeout", request.get("timeout") or 0.0)
    acts = [_act(each, machine, "acts[%d]" % number) for number, each in enumerate(request.get("acts") or ())]
    looks = [_look(each, machine, "look[%d]" % number) for number, each in enumerate(request.get("look") or ())]
    ends = machine.monotonic() + timeout
    told: list[dict[str, Any]] = []
    before: list[Duty] = []
    for number, (duty, act) in enumerate(acts):
        duty.later = [other.name for other, its in acts[number + 1 :] if other.type == duty.type and its.request.present]
        if number and act.request.present:
            # What fails here is told by its act.
            with contextlib.suppress(*duty.errors):
                duty.note_before()
    for duty, act in acts:
        left = max(0.0, ends - machine.monotonic())
        told.append(_take(duty, act._replace(timeout=max(act.timeout, left)), before, machine))
        if not told[-1]["done"]:
            break
        if act.request.present and duty.brings_traffic:
            before.append(duty)
    return {
        "acts": told,
        "duties": [duty.see() for duty in looks],
        "done": len(told) == len(acts) and all(act["done"] for act in told),
        "changed": any(act["changed"] for act in told),
        "diff": {way: {act["name"]: act["diff"][way] for act in told if act["diff"][way]} for way in ("before", "after")},
    }


def way_back(duties: Sequence[Duty]) -> tuple[list[int], set[int]]:
    """The numbers of the duties of a host, from 0, in the order in which they come back, and of those whose checks may need what comes back only after them.

    The last comes first. But the health answer comes before all else that brings traffic, and what stands before all of that, and takes connections while
    it is off, comes back after it. So it is in a run, too.
    """
    numbers = range(len(duties))[::-1]
    traffic = sorted((number for number in numbers if duties[number].brings_traffic), key=lambda number: not duties[number].answers_checks)
    later = [number for number in numbers if traffic and number < min(traffic) and not duties[number].closes]
    inner = [number for number in numbers if number not in traffic and number not in later]
    return inner + traffic + later, set(traffic if later else ())


def _act(each: Mapping[str, Any], machine: Machine, where: str) -> tuple[Duty, Act]:
    to = each.get("to")
    if to not in (OUT, BACK):
        raise ValueError("%s.to: %r is neither %s nor %s." % (where, to, OUT, BACK))
    params = {
        "state": "present" if to == OUT else "absent",
        "event_ids": each.get("event_ids"),
        "event_details": each.get("event_details") or {},
        "reason": each.get("reason") or "",
    }
    more = {key: each[key] for key in MORE if each.get(key) is not None}
    least_of(more, where + ".")
    act = Act(machine.request(params), check_seconds("timeout", each.get("timeout") or 0.0), **more)
    return read(each.get("duty"), type(machine), where + ".duty").on(machine), act


def _look(each: Any, machine: Machine, where: str) -> Duty:
    if not (isinstance(each, dict) and "duty" in each):
        return read(each, type(machine), where).on(machine)
    duty = read(each["duty"], type(machine), where + ".duty").on(machine)
    duty.searched = list(each.get("addresses") or ())
    return duty


def _take(duty: Duty, act: Act, before: list[Duty], machine: Machine) -> dict[str, Any]:
    """Take one act. ``before``: the duties before it that bring traffic and were taken off."""
    to = OUT if act.request.present else BACK
    told: dict[str, Any] = {
        "type": duty.type,
        "name": duty.name,
        "to": to,
        "changed": False,
        "conflicts": [],
        "diff": {"before": {}, "after": {}},
        "failed": None,
    }
    ends = machine.monotonic() + act.timeout
    if before and act.request.present and not duty.brings_traffic and not machine.check_mode:
        busy = _await_idle(before, machine, ends)
        if busy:
            return dict(told, done=False, waiting_for=busy)
    try:
        act = act._replace(timeout=max(0.0, ends - machine.monotonic()) if act.timeout else 0.0)
        return dict(told, **machine.take(lambda: duty.change(act)))
    except duty.errors as error:
        return dict(told, done=False, waiting_for=[], failed=str(error))


def _await_idle(duties: list[Duty], machine: Machine, ends: float) -> list[str]:
    """Look until these duties have brought nothing for as long as they say, and in C(LOOKS) looks in a row. Returns what is left when the time is over.

    Where nothing is left, the few seconds are taken that it needs to be sure.
    """
    quiet = max(duty.quiet for duty in duties)
    looks, since = 0, 0.0
    while True:
        busy = [sentence for duty in duties for sentence in duty.see()["busy"]]
        now = machine.monotonic()
        if busy and now >= ends:
            return busy
        looks = 0 if busy else looks + 1
        since = now if looks <= 1 else since
        if looks >= LOOKS and now - since >= quiet:
            return []
        next((duty for duty in duties if duty.answers_checks), duties[0]).watch(MOST_SECONDS)


def shown(answer: dict[str, Any]) -> dict[str, Any]:
    """What users see of an answer."""
    return dict(
        answer,
        acts=[{key: act[key] for key in ("type", "name", "to", "done", "changed", "waiting_for", "conflicts", "failed")} for act in answer["acts"]],
        duties=[{key: value for key, value in duty.items() if key != "details"} for duty in answer["duties"]],
    )
