# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Task files of the user's own as a drain step. Private to the collection; pure. Those that stand for a balancer are in C(_steps/custom.py).

There is only the record to look at (module C(task_hold)): it is put before C(out) first runs, says when that is done, and is removed when C(in) is done.
"""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.graceful.azure.plugins.plugin_utils._drain_steps.kind import Kind
from ansible_collections.graceful.azure.plugins.plugin_utils._own_files import holding, own_file
from ansible_collections.graceful.azure.plugins.plugin_utils._types import DrainStep, Json, Options, StepGroup, StepJson

OUT_RECORD, IN_RECORD = "drain_host_step_", "restore_service_step_"
"""How the names of its records begin: of those that are put when a step goes out, and of those that a step without C(out) needs when it comes in."""


class Tasks(Kind):
    name = "tasks"
    task_files = ("out", "back")
    options = {"out": {"type": "path"}, "back": {"type": "path"}, "traffic": {"type": "bool", "default": False}}
    module = "task_hold"
    needs_idle = False

    def brings_traffic(self, options: Options) -> bool:
        return bool(options.get("traffic"))

    def step(self, options: Options) -> DrainStep:
        files = {"out": str(options.get("out") or ""), "in": str(options.get("back") or "")}
        return dict(files, record=(OUT_RECORD if files["out"] else IN_RECORD) + options["name"])

    def mistakes(self, options: Options) -> Iterator[tuple[str, str]]:
        given = [way for way in self.task_files if options.get(way)]
        if not given:
            yield "", "neither out nor back is set; give at least one task file"
        elif self.brings_traffic(options) and len(given) < len(self.task_files):
            yield "", "with traffic: true, both task files are needed, out and back"

    def look(self, group: StepGroup) -> Options:
        (step,) = group["steps"]
        return dict(super().look(group), record=step["record"], file=step["out"])

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
