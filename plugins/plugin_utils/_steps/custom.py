# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The user's own task files in place of a balancer: what the records of them mean. Private to the collection; pure."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.graceful.azure.plugins.plugin_utils._steps.balancer import Balancer
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import UNREACHABLE, RoleResult, is_changed, is_unreachable
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, Options, Result


class Custom(Balancer):
    """What C(graceful_azure_duties) says of it is in C(_drain_steps/tasks.py)."""

    def settings(self, options: Options, host: str) -> BalancerSettings:
        return {"out": str(options.get("out") or ""), "back": str(options.get("back") or "")}

    def needs_tasks(self, direction: str, acts: Sequence[Result]) -> bool:
        # Not out if that is done already, and not back in while other events hold the host.
        hold = acts[0]
        if "file" in hold:
            return bool(hold["file"])  # a pass has run the task file
        return not is_unreachable(hold) and (not hold["done"] if direction == "out" else bool(hold["last"]))

    def judge(
        self,
        settings: BalancerSettings,
        direction: str,
        acts: Sequence[Result],
        check_mode: bool = False,
        task_file: str = "",
        task_done: bool = False,
    ) -> RoleResult:
        """C(acts): the results of M(graceful.azure.task_hold) before the task file ran, and after it."""
        if not acts:
            return {"done": check_mode, "changed": False, "reason": "its task files have not begun", "failed_hosts": [], "conflicts": []}
        hold, needed = acts[0], self.needs_tasks(direction, acts)
        if task_done or needed:
            reason = f"{task_file} has {'set' if task_done else 'not set'} load_balancer_done"
        elif is_unreachable(hold):
            reason = UNREACHABLE
        elif direction == "out":
            reason = "the host is out already"
        else:
            reason = "the host stays out for other events" if hold.get("held") else "the host is not held"
        return {
            "done": check_mode or task_done or not needed and not is_unreachable(hold),
            "changed": any(map(is_changed, acts)),
            "reason": reason,
            "failed_hosts": [],
            "conflicts": [],
        }
