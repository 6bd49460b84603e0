# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which modules take a step, where, and in which order? Private to the collection; pure.

A step is taken in the turn of its host, without the role, as long as no task file of the user's own belongs to it. An act has

C(part)    what the judgement of the step calls it (C(_steps/without_role.py)), which also tells whether it is still due after those before it
C(module)  which module is run
C(args)    its options, but for those that each machine has of its own (C(state_dir), C(imds_url))
C(balancer)  which of the balancers of the host it is about, from 0, if it is about one
C(expected)  of an approval from outside: what must be read again before it is sent; see C(_steps/approve_event.py)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ansible_collections.graceful.azure.plugins.plugin_utils._drain_steps.listed import groups_in, groups_out
from ansible_collections.graceful.azure.plugins.plugin_utils._drain_steps.registry import KINDS
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import Run
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import Balancer
from ansible_collections.graceful.azure.plugins.plugin_utils._providers.registry import PROVIDERS
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.approve_event import act_outside
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.load_balancer import in_order
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.restore_service import ended
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Act, Acts, DrainStep, Json, Options, StepGroup, StepJson

APPROVING = 5.0
"""Seconds that one attempt to approve may take at least. What did not come to its end is tried again in the next pass."""
APPROVING_OUTSIDE = 10.0
"""The same for an attempt from outside, which may have to log in first."""


def acts_of(step: StepJson, host: Host, run: Run) -> Acts | None:
    """What a step does: pairs of a machine (None: the host itself) and its acts, in order; None where the role has to do it.

    C(step): the step as JSON.
    """
    return _ACTS[step["role"]](step, host, run)


def needs_roles(settings: dict[str, Json]) -> bool:
    """Whether a step of any host may need a role. C(settings): per host, as in the document."""
    return any(map(_needs_role, settings.values()))


def _needs_role(values: Json) -> bool:
    steps, restore = values["drain_host"]["steps"], values["restore_service"]
    of_balancers = any(PROVIDERS[balancer["provider"]].tasks for balancer in values["load_balancers"])
    return of_balancers or bool(restore.get("before") or restore.get("after")) or _of_steps([*groups_out(steps), *groups_in(steps)], {}) is None


def modules_of(balancers: Iterable[Balancer], steps: Iterable[DrainStep] = ()) -> list[str]:
    """The modules that most steps run. C(balancers): pairs of a provider and its settings. C(steps): the drain steps of the hosts."""
    found = {module for provider, settings in balancers for _machine, module, _args in provider.acts(settings, "out", {}, {}) or ()}
    found |= {KINDS[step["type"]].module for step in steps} | {kind.module for kind in KINDS.values() if kind.common}
    return sorted(found | {"approval_hold", "task_hold", "wait_for_answer"})


def _act(part: str, module: str, **args: Any) -> Act:
    return {"part": part, "module": module, "args": {key: value for key, value in args.items() if value is not None}}


def _hold(step: StepJson) -> Options:
    return {"state": "present", "event_ids": step["event_ids"], "event_details": step["event_details"], "reason": step["reason"]}


def _release(step: StepJson) -> Options:
    return {"state": "absent", "event_ids": step["event_ids"]}


def _load_balancer(step: StepJson, host: Host, run: Run) -> Acts | None:
    return _balancer(host, step["state"], step)


def _balancer(host: Host, direction: str, step: StepJson) -> Acts | None:
    """The acts at each balancer in its turn: the outermost first goes out, and is the last to come in."""
    hold = _hold(step) if direction == "out" else _release(step)
    acts: Acts = []
    for number, (provider, settings) in in_order(enumerate(host.balancers), direction):
        found = provider.acts(settings, direction, hold, step)
        if found is None:
            return None
        acts.extend((machine, [dict(_act("balancer", module, **args), balancer=number)]) for machine, module, args in found)
    return acts


def _approve_event(step: StepJson, host: Host, run: Run) -> Acts:
    if step.get("witness"):
        return _approve_outside(step, host, run)
    sent = _act(
        "sent",
        "approval_hold",
        event_ids=step["event_ids"],
        event_details=step["event_details"],
        reason=step["reason"],
        ready_resources=step["ready_resources"],
        ready_until=step["ready_until"],
        resource_name=host.settings.resource_name or host.observation.resource_name,
        timeout=max(APPROVING, run.observe_timeout),
    )
    return [(None, [sent])]


def _approve_outside(step: StepJson, host: Host, run: Run) -> Acts:
    """The event is read again through another VM, and then approved without those that it names."""
    seen = _act("seen", "scheduled_events_info", event_ids=step["event_ids"], request_timeout=max(APPROVING, run.observe_timeout))
    timeout = max(APPROVING_OUTSIDE, run.observe_timeout)
    if host.settings.outside is None:
        raise AssertionError("otherwise the step would have no witness")
    machine, module, args = act_outside(host.settings.outside, step["event_ids"], ready_until=step["ready_until"], timeout=timeout)
    kinds = {event_id: details.get("event_type") for event_id, details in step["event_details"].items()}
    expected = {event_id: {"event_type": kinds.get(event_id), "ready": step["ready_resources"]} for event_id in step["event_ids"]}
    return [(step["witness"], [seen]), (machine, [dict(_act("sent", module, **args), expected=expected)])]


def _drain_host(step: StepJson, host: Host, run: Run) -> Acts | None:
    groups = groups_out(host.settings.drain_host.steps)
    acts = _of_steps(groups, _hold(step), step.get("force"))
    if acts is None:
        return None
    if step["idle"]:
        return [(None, [*acts, _act("drained", "task_hold", name=["drained"], done=True, this_boot=True, **_hold(step))])]
    return [(None, [act for group, act in zip(groups, acts) if not group["idle"]])]


def _of_steps(groups: Sequence[StepGroup], hold: Options, force: bool | None = None) -> list[Act] | None:
    """An act for each group of drain steps; None where a role has to do any."""
    acts = []
    for group in groups:
        kind = KINDS[group["type"]]
        args = kind.acts(group, hold)
        if args is None:
            return None
        acts.append(_act("steps", kind.module, **args, **({"force": force} if kind.asks_first else {})))
    return acts


def _restore_service(step: StepJson, host: Host, run: Run) -> Acts | None:
    settings, there = host.settings.restore_service, step["records"]
    given_back = _balancer(host, "in", step)
    first = _of_steps(groups_in(host.settings.drain_host.steps, there), _release(step))
    if settings.before or settings.after or given_back is None or first is None:
        return None
    # A look that saw the event gone has asked already. But what is still to be started cannot have answered.
    has_answered = host.observation.is_new and host.observation.asked and host.observation.unanswered is None and not first
    if settings.ask and not has_answered:
        first.append(_act("answer", "wait_for_answer", timeout=0, **settings.ask))
    over = ended(there)
    last = [_act("forgotten", "task_hold", name=over, **_release(step))] if over else []
    # Since when it is tried is the next run's to know.
    last.append(_act("restoring", "task_hold", name=["restoring"], **_hold(step)))
    return [(None, first), *given_back, (None, last)]


_ACTS: dict[str, Callable[[StepJson, Host, Run], Acts | None]] = {
    "load_balancer": _load_balancer,
    "approve_event": _approve_event,
    "drain_host": _drain_host,
    "restore_service": _restore_service,
}
