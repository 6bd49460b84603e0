# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A pass from a journal, planned again. Pure.

A line of the journal (see the action C(plan)) holds all that a pass was planned from and what
was decided, so the plan of this collection's version can be held against what a run did.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ansible_collections.graceful.azure.plugins.plugin_utils._planning.plan import plan
from ansible_collections.graceful.azure.plugins.plugin_utils._text import LAST_SECOND
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json

RECORDED = ("state", "reason", "kind", "until", "tried_again", "event_id", "events", "step")
"""What the journal keeps of a decision."""


def is_moment(found: object) -> bool:
    """Whether it is a time in Unix seconds."""
    return not isinstance(found, bool) and isinstance(found, (int, float)) and 0 <= found <= LAST_SECOND


class ReplayError(ValueError):
    """A line of a journal that holds no pass. Its text says why."""


def read_pass(line: str) -> Json:
    """The pass of one line of a journal."""
    try:
        recorded = json.loads(line)
    except ValueError:
        raise ReplayError("is cut off or no JSON") from None
    if not isinstance(recorded, dict) or not all(isinstance(recorded.get(key), dict) for key in ("world", "hosts")):
        raise ReplayError("holds no pass")
    world, run = recorded["world"], recorded["world"].get("run")
    if not isinstance(run, dict) or "started" not in run or not {"now", "pass"} <= set(world):
        raise ReplayError("holds no pass")
    for damage in _damage(recorded):
        raise ReplayError(f"holds a damaged pass: {damage}")
    return recorded


def _damage(recorded: Json) -> Iterator[str]:
    """A sentence for each value of the wrong type among those that the readers of a journal use themselves. The plan checks the others."""
    world = recorded["world"]
    times = {"world.now": world["now"], "world.run.started": world["run"]["started"], "time": recorded.get("time", world["now"])}
    for name, value in times.items():
        if not is_moment(value):
            yield f"{name} is {value!r} and no time in Unix seconds"
    for name, value in {"world.pass": world["pass"], "pass": recorded.get("pass", world["pass"])}.items():
        if isinstance(value, bool) or not isinstance(value, int):
            yield f"{name} is {value!r} and no whole number"
    for name in ("memory", "results"):
        if not isinstance(world.get(name), (dict, type(None))):
            yield f"world.{name} is no dictionary"
    for name, decision in recorded["hosts"].items():
        if not _is_decision(decision):
            yield f"the decision for {name} has no state or no reason, or its events or its step are damaged"
    events = recorded.get("events", [])
    if not isinstance(events, list) or not all(map(_is_event, events)):
        yield "events is no list of events with their outcomes and hosts"


def _is_decision(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and all(isinstance(found.get(key), str) for key in ("state", "reason"))
        and isinstance(found.get("events"), (list, type(None)))
        and isinstance(found.get("step"), (dict, type(None)))
    )


def _is_event(found: Any) -> bool:
    return isinstance(found, dict) and isinstance(found.get("event_id"), str) and "outcome" in found and isinstance(found.get("hosts"), dict)


def planned(recorded: Json) -> Json:
    """What the plan makes of a pass now."""
    try:
        # A copy: the plan writes into its memory.
        found: Json = json.loads(json.dumps(plan(json.loads(json.dumps(recorded["world"])))))
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, AssertionError, ArithmeticError) as error:
        raise ReplayError(f"cannot be planned: {type(error).__name__}: {error}") from None
    return found


def replay(recorded: Json) -> Json:
    """Plan a pass again; returns what is decided now, and every difference to what was decided then as a sentence."""
    outcome, world = planned(recorded), recorded["world"]
    return {
        "pass": world["pass"],
        "time": world["now"],
        "run_started": world["run"]["started"],
        "hosts": recorded_of(outcome),
        "events": outcome["events"],
        "differences": _differences(recorded, outcome),
    }


def recorded_of(outcome: Json) -> Json:
    """What the journal keeps of the decisions of a pass."""
    return {name: {key: decision[key] for key in RECORDED} for name, decision in outcome["hosts"].items()}


def _differences(recorded: Json, outcome: Json) -> list[str]:
    found: list[str] = []
    for name in [*outcome["hosts"], *(name for name in recorded["hosts"] if name not in outcome["hosts"])]:
        now, then = outcome["hosts"].get(name) or {}, recorded["hosts"].get(name) or {}
        found.extend(f"{name}: {key} was {then.get(key)!r}, is {now.get(key)!r}" for key in RECORDED if key in then and now.get(key) != then[key])
    is_now = {event["event_id"]: event for event in outcome["events"]}
    was = {event["event_id"]: event for event in recorded.get("events") or ()}
    for event_id in dict.fromkeys([*is_now, *was]):
        if is_now.get(event_id) != was.get(event_id):
            found.append(f"event {event_id} was {was.get(event_id)!r}, is {is_now.get(event_id)!r}")
    return found
