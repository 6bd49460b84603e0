# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Task files of the user's own as a drain step. Private to the collection; pure.

There is only the record to look at (module C(task_hold)): it is put before C(out) first runs, says when that is done, and is removed when C(in) is done.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from ansible_collections.graceful.azure.plugins.plugin_utils._drain_steps.kind import FileProblem, Kind
from ansible_collections.graceful.azure.plugins.plugin_utils._types import DrainStep, Json, Options, StepGroup

OUT_RECORD, IN_RECORD = "drain_host_step_", "restore_service_step_"
"""How the names of its records begin: of those that are put when a step goes out, and of those that a step without C(out) needs when it comes in."""


class Tasks(Kind):
    name = "tasks"
    options = ("out", "in")
    module = "task_hold"
    needs_idle = False

    def step(self, options: Options, folder: str) -> DrainStep:
        files = {way: os.path.join(folder, str(options[way])) if options.get(way) else "" for way in self.options}
        return dict(files, record=(OUT_RECORD if files["out"] else IN_RECORD) + options["name"])

    def problems(self, options: Json, file_problem: FileProblem) -> Iterator[tuple[str, str]]:
        if not any(options.get(way) for way in self.options):
            yield "", "neither out nor in is set; give at least one task file"
        for way in self.options:
            problem = file_problem(str(options[way])) if options.get(way) else None
            if problem:
                yield way, problem

    def look(self, group: StepGroup) -> Options:
        (step,) = group["steps"]
        return dict(super().look(group), record=step["record"], file=step["out"])

    def acts(self, group: StepGroup, hold: Options) -> None:
        return None
