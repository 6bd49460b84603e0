# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which modules take a step, where, and in which order? Pure.

A step is taken in the turn of its host, one act after the other. An act has

C(part)    what the judgement of the step calls it (C(_steps/without_role.py)), which also tells whether it is still due after those before it
C(module)  which call it is (C(module_utils/_handle.py)), or which module
C(args)    its options, but for those that each machine has of its own (C(state_dir), C(imds_url))
C(balancer)  which of the balancers of the host it is about, from 0, if it is about one
C(file)    which task file of the user's own must run before it is done, if any; see C(_own_files.py)
C(expected)  of an approval from outside: what must be read again before it is sent; see C(_steps/approve_event.py)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ansible_collections.graceful.azure.plugins.module_utils._events import types_meant
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import BEING_RESTORED, DRAINED, READY_TO_LEAVE
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import ON_HOST, TRAFFIC
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.groups import comes_later, groups_in, groups_out
from ansible_collections.graceful.azure.plugins.plugin_utils._own_files import holding
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import Run
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.approve_event import act_outside
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.load_balancer import in_order
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.restore_service import ended
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Act, Acts, Json, Options, StepGroup, StepJson

APPROVING = 5.0
"""Seconds that one attempt to approve may take at least. What did not come to its end is tried again in the next pass."""
APPROVING_OUTSIDE = 10.0
"""The same for an attempt from outside, which may have to log in first."""
PATIENT = 180.0
"""The same if nobody tries again. The first request of a VM may take two minutes. Every attempt has an end, or it would be cut off and sent after that."""


def acts_of(step: StepJson, host: Host, run: Run) -> Acts:
    """What a step does: pairs of a machine (None: the host itself) and its acts, in order. C(step): the step as JSON."""
    return _ACTS[step["role"]](step, host, run)


def file_of(step: StepJson, acts: Acts, waits_for: Json | None) -> Json | None:
    """The task file that is to run now. C(waits_for): the one for which the acts of the former pass wait. It is due if the step still needs it."""
    wanted = [act["file"] for _machine, todo in acts for act in todo if "file" in act]
    return dict(waits_for, event_ids=step["event_ids"]) if waits_for in wanted and waits_for else None


def needs_files(settings: dict[str, Json]) -> bool:
    """Whether a task file of the user's own may have to run. C(settings): per host, as in the document."""
    return any(_needs_files(values) for values in settings.values())


def _needs_files(values: Json) -> bool:
    of_balancers = any(TRAFFIC[balancer["provider"]].tasks for balancer in values["load_balancers"])
    return of_balancers or any(step["type"] == "tasks" for step in values["drain_host"]["steps"])


def as_act(part: str, module: str, **args: Any) -> Act:
    """An act. What is None is left out of its options."""
    return {"part": part, "module": module, "args": {key: value for key, value in args.items() if value is not None}}


def _release(step: StepJson) -> Options:
    # A role that is used alone may release whatever holds.
    return {"state": "absent", "event_ids": None if step.get("releases_all") else step["event_ids"]}


def _load_balancer(step: StepJson, host: Host, run: Run) -> Acts:
    along = [group for group in groups_out(host.settings.drain_host.steps) if group["first"]] if step.get("first") else []
    later = [group for group in groups_in(host.settings.drain_host.steps) if comes_later(group)]
    return [*([(None, _of_steps(along, step, force=True, part="along"))] if along else []), *_balancer(host, step["state"], step, later)]


def _balancer(host: Host, direction: str, step: StepJson, later: Sequence[StepGroup]) -> Acts:
    """The acts at each balancer in its turn: the outermost first goes out, and is the last to come in. C(later): what comes back after them."""
    hold = holding(step) if direction == "out" else _release(step)
    if direction == "in" and any(given["out"] for group in later for given in group["steps"]):
        # The checks of a balancer may need it.
        step = {**step, "checked_later": True}
    acts: Acts = []
    for number in in_order([settings for _provider, settings in host.balancers], direction):
        provider, settings = host.balancers[number]
        more: Json = {"balancer": number}
        file = provider.file(settings, direction)
        if file:
            more["file"] = file
        found = provider.acts(settings, direction, hold, step)
        acts.extend((machine, [dict(as_act("balancer", module, **args), **more)]) for machine, module, args in found)
    return acts


def _approve_event(step: StepJson, host: Host, run: Run) -> Acts:
    if step.get("witness"):
        return _approve_outside(step, host, run)
    sent = as_act(
        "sent",
        "approval_hold",
        event_ids=step["event_ids"],
        event_details=step["event_details"],
        reason=step["reason"],
        ready_resources=step["ready_resources"],
        ready_until=step["ready_until"],
        resource_name=host.settings.resource_name or host.observation.resource_name,
        timeout=max(PATIENT if step.get("patient") else APPROVING, run.observe_timeout),
        record=step.get("record"),
    )
    return [(None, [sent])]


def _approve_outside(step: StepJson, host: Host, run: Run) -> Acts:
    """The event is read again through another VM, and then approved without those that it names."""
    seen = as_act("seen", "scheduled_events_info", event_ids=step["event_ids"], request_timeout=max(APPROVING, run.observe_timeout))
    timeout = None if step.get("patient") else max(APPROVING_OUTSIDE, run.observe_timeout)
    if host.settings.outside is None:
        raise AssertionError("otherwise the step would have no witness")
    machine, module, args = act_outside(host.settings.outside, step["event_ids"], ready_until=step["ready_until"], timeout=timeout)
    types = types_meant(step["event_details"])
    expected = {event_id: {"event_type": types.get(fold(event_id)), "ready": step["ready_resources"]} for event_id in step["event_ids"]}
    return [(step["witness"], [seen]), (machine, [dict(as_act("sent", module, **args), expected=expected)])]


def _drain_host(step: StepJson, host: Host, run: Run) -> Acts:
    if step["state"] == "running":
        return [(None, _back(step, host))]
    groups = groups_out(host.settings.drain_host.steps)
    first = [group for group in groups if group["first"]]
    if step["first"]:
        return [(None, [*_of_steps(first, step, step.get("force")), as_act("drained", "task_hold", name=[READY_TO_LEAVE], **_done(step))])]
    # What came first is looked at, and is not begun again while the host is out.
    rest = [group for group in groups if group not in first]
    if step["idle"]:
        return [(None, [*_of_steps(groups, step, step.get("force")), as_act("drained", "task_hold", name=[DRAINED], **_done(step))])]
    return [(None, _of_steps([group for group in rest if not group["idle"]], step, step.get("force")))]


def _back(step: StepJson, host: Host) -> list[Act]:
    """What puts back the duties that bring no traffic, and nothing else."""
    steps = host.settings.drain_host.steps
    undone = [given["record"] for given in steps if given.get("record") and given["out"] and not given["in"]]
    # First of all, because the records would tell the next run that all of it is done.
    forgotten = as_act("noted", "task_hold", name=[DRAINED, READY_TO_LEAVE, *undone], **_release(step))
    acts = [forgotten, *_of_steps(groups_in(steps, step["records"]), step, hold=_release(step), undone=undone)]
    only_back = [given["record"] for given in steps if given.get("record") and given["in"] and not given["out"]]
    return [*acts, as_act("drained", "task_hold", name=only_back, **_release(step))] if only_back else acts


def _done(step: StepJson) -> Options:
    return dict(holding(step), done=True, this_boot=True)


def _of_steps(
    groups: Sequence[StepGroup],
    step: StepJson,
    force: bool | None = None,
    hold: Options | None = None,
    part: str = "steps",
    undone: Sequence[str] = (),
) -> list[Act]:
    """An act for each group of drain steps. C(hold): the options that say what is held or released; by default what the step holds.

    C(undone): the records of steps that have no way back of their own.
    """
    acts = []
    hold = hold or holding(step)
    for group in groups:
        kind = ON_HOST[group["type"]]
        act = as_act(part, kind.module, **kind.acts(group, hold, step), **({"force": force} if kind.asks_first else {}))
        file = kind.file(group, hold)
        acts.append(dict(act, file=file) if file else act)
        if file and hold["state"] == "absent" and act["args"]["state"] == "present":
            # What goes back and never went out may undo any of these. So events that came meanwhile have them done again.
            acts.append(as_act("undone", "task_hold", name=[DRAINED, *undone], done=True, **hold))
    return acts


def _restore_service(step: StepJson, host: Host, run: Run) -> Acts:
    """The last duty comes back first. What stood before all that brings traffic comes back when the host is in its balancers again."""
    restore, steps, there = host.settings.restore_service, host.settings.drain_host.steps, step["records"]
    groups = groups_in(steps, there)
    # Nothing undoes these, so they only are no longer done: if another event comes now, they run again.
    undone = [given["record"] for given in steps if given.get("record") in there and given["out"] and not given["in"]]
    inner = [as_act("noted", "task_hold", name=undone, done=False, **_release(step))] if undone else []
    later = [group for group in groups if comes_later(group)]
    inner += _of_steps([group for group in groups if group not in later], step, hold=_release(step), undone=undone)
    # A look that saw the event gone has asked already. But what is still to be started cannot have answered.
    has_answered = host.observation.is_new and host.observation.asked and host.observation.unanswered is None and not inner
    if restore.ask and not (has_answered or _stays_out(step, host)):
        inner.append(as_act("answer", "wait_for_answer", **restore.ask))
    outer = _of_steps(later, step, hold=_release(step), part="last", undone=undone)
    over = ended(there, [given["record"] for given in steps if given["type"] == "tasks"])
    if over:
        outer.append(as_act("forgotten", "task_hold", name=over, **_release(step)))
    # Since when it is tried is the next run's to know.
    outer.append(as_act("restoring", "task_hold", name=[BEING_RESTORED], **holding(step)))
    return [(None, inner), *_balancer(host, "in", step, later), (None, outer)]


def _stays_out(step: StepJson, host: Host) -> bool:
    """Whether all that brings traffic to the host keeps it out for other events, so that it need not answer."""
    released = set(map(fold, step["event_ids"]))
    is_known = bool(host.places) and not (host.blind or step.get("releases_all"))
    return is_known and all(place.held_by - released for place in host.places)


_ACTS: dict[str, Callable[[StepJson, Host, Run], Acts]] = {
    "load_balancer": _load_balancer,
    "approve_event": _approve_event,
    "drain_host": _drain_host,
    "restore_service": _restore_service,
}
