# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How far a host is drained, or taken back. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import (
    NOTHING,
    UNREACHABLE,
    RoleResult,
    is_done,
    is_unreachable,
    role_result,
    still_held,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._text import joined
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Result


def judge(
    host: str,
    steps: Result = NOTHING,
    state: str = "drained",
    busy: Sequence[str] = (),
    failed_hosts: Sequence[str] = (),
    held_by: Sequence[str] = (),
) -> RoleResult:
    """The C(drain_host_result), as the role's argument specs say.

    C(host): its name in the inventory.
    C(steps): what the drain steps came to, as one result. A module that was not run because there is nothing to stop is as good as done: leave it out.
    C(state): V(drained) or V(running).
    C(busy): what keeps the host from being idle, in sentences. C(failed_hosts): the machines that did not tell it.
    C(held_by): with V(running), the ids of other events that still hold any of it.
    """
    of_steps = _steps_left(steps)
    left = [*busy, *of_steps]
    still = still_held(held_by)
    said = [*([f"not {state}"] if left else still or [state]), *left, *(still if left else ()), *(steps.get("conflicts") or ())]
    return role_result(not busy and is_done(steps), f"{host} is {joined(said)}", [steps], failed_hosts, left=left, waiting_for=of_steps)


def _steps_left(steps: Result) -> list[str]:
    if is_unreachable(steps):
        return [UNREACHABLE]
    return [steps["waiting_for"]] if steps.get("waiting_for") else []
