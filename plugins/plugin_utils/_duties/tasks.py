# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Task files of the user's own, which may also stand for a balancer. Pure.

There is only the record to look at (module C(task_hold)): it is put before C(out) first runs, says when that is done, and is removed when C(in) is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.tasks import (
    FORMER_RECORD,
    OPTIONS,
    TRAFFIC_RECORD,
    option_mistakes,
    record_of_tasks,
)
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import TASK
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.on_host import HostDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.traffic import TrafficDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._own_files import holding, own_file
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import HELD, Place, Traffic
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import UNREACHABLE, RoleResult, is_unreachable, role_result
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, DrainStep, Json, Options, Result, StepGroup, StepJson

if TYPE_CHECKING:
    from ansible_collections.graceful.azure.plugins.plugin_utils._planning.addresses import Addresses
    from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import Machines, Record, RecordedEvent
    from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host


class TasksDuty(HostDuty):
    name = "tasks"
    task_files = ("out", "back")
    options = OPTIONS
    own_mistakes = staticmethod(option_mistakes)
    module = "task_hold"
    needs_idle = False
    windows = True
    nouns = {TASK: "note"}

    def brings_traffic(self, options: Options) -> bool:
        return bool(options.get("traffic"))

    def step(self, options: Options) -> DrainStep:
        return {"out": str(options.get("out") or ""), "in": str(options.get("back") or ""), "record": record_of_tasks(options["name"], options)}

    def mistakes(self, options: Options) -> Iterator[tuple[str, str]]:
        yield from super().mistakes(options)
        if self.brings_traffic(options) and sum(bool(options.get(way)) for way in self.task_files) == 1:
            yield "", "with traffic: true, both task files are needed, out and back"

    def looks(self, group: StepGroup) -> list[Options]:
        return [{"type": self.name, "name": step["name"], "out": step["out"]} for step in group["steps"]]

    def acts(self, group: StepGroup, hold: Options, step: StepJson) -> Options:
        (given,) = group["steps"]
        if hold["state"] == "absent" and not given["out"]:
            # It did nothing when the host went out, so it has no record yet.
            hold = dict(holding(step), done=False)
        # What the files changed on the host may be gone after a reboot.
        return dict({"name": [given["record"]]}, **({"this_boot": True} if hold["state"] == "present" else {}), **hold)

    def file(self, group: StepGroup, hold: Options) -> Json:
        (given,) = group["steps"]
        return own_file(given["record"], given["out" if hold["state"] == "present" else "in"])


class TrafficTasksDuty(TrafficDuty):
    """Those with C(traffic): a balancer of the user's own. Nothing can be seen of it. What is known is for which events the task file has run to its end,
    by the record on the host. C(TasksDuty) checks the entry."""

    name = "custom"
    tasks = (FORMER_RECORD,)

    def settings(self, options: Options, host: str) -> BalancerSettings:
        """C(records): the names under which it may be on record. The first is the one that is put."""
        return {"out": str(options.get("out") or ""), "back": str(options.get("back") or ""), "records": [TRAFFIC_RECORD + str(options.get("name") or "tasks")]}

    def judge(self, settings: BalancerSettings, direction: str, acts: Sequence[Result]) -> RoleResult:
        """C(acts): the result of M(graceful.azure.task_hold), with C(file) if the task file must run first."""
        if not acts:
            return role_result(False, "its task files have not begun")
        hold = acts[0]
        if is_unreachable(hold):
            reason = UNREACHABLE
        elif hold.get("file"):
            reason = hold["waiting_for"]
        elif direction == "out":
            reason = "the host is out"
        else:
            reason = "the host stays out for other events" if hold.get("held_by") else "the host is not held"
        return role_result(not (hold.get("file") or is_unreachable(hold)), reason, acts)

    def traffic(self, settings: BalancerSettings, host: Host, machines: Machines, addresses: Addresses) -> Traffic:
        held_by = frozenset(key for record in settings["records"] for key in host.task_holds(record))
        if held_by:
            place = Place("", condition=HELD, held_by=held_by)
        else:
            place = Place("", in_rotation=True, must_go_out=True, busy=("not out of its balancer yet",))
        return Traffic((place,), serves=place.in_rotation)

    def out_since(self, record: Record, entry: RecordedEvent, is_new: bool) -> tuple[str | None, ...] | None:
        # The host is out at the end of the task file, and a run that sees that end for itself knows better.
        is_ours = record.name == FORMER_RECORD or record.name.startswith(TRAFFIC_RECORD)
        if not is_ours or not record.done or not is_new:
            return None
        return entry.since, record.done_since

    def acts(self, settings: BalancerSettings, direction: str, hold: Options, step: StepJson) -> Iterator[tuple[None, str, Options]]:
        # What was taken out once stays out, also for an event that joins.
        records = settings["records"]
        yield None, "task_hold", dict(hold, name=records[:1] if direction == "out" else records)

    def file(self, settings: BalancerSettings, direction: str) -> Json:
        return own_file(settings["records"][0], settings["out" if direction == "out" else "back"])
