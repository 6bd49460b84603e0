# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Task files of the user's own: which of them is due, and when is it done? Pure.

Ansible itself runs such a file, so no act can. An act puts the record of the file (module C(task_hold)) and then waits: the pass runs the file once, after
its plan, and in the next pass the same act records that the file is done, if the file has said so. Until then nothing that comes later is done.
"""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import DRAINED
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Act, Json, Options, Result, StepJson

DONE = "graceful_azure_done"
"""The variable that a task file sets once its job is done."""


def own_file(record: str, path: str) -> Json:
    """What an act has in C(file): the C(record) that stands for a file, and the file's C(path)."""
    return {"record": record, "path": path}


def holding(step: StepJson) -> Options:
    """The options of a module that say for which events something is held. C(step): the step as JSON."""
    return {"state": "present", "event_ids": step["event_ids"], "event_details": step["event_details"], "reason": step["reason"]}


def args_of(act: Act, done: str | None) -> Options:
    """The options of an act, as far as a file has come. C(done): the record of the file that ran in the former pass and said that it is done, or None."""
    args: Options = act["args"]
    if "file" not in act:
        return args
    is_done = act["file"]["record"] == done
    if args["state"] == "absent":
        # A run that saw an event meanwhile may have found what the file undoes still done.
        return dict(args, done=is_done, name=[DRAINED, *args["name"]] if is_done else args["name"])
    return dict(args, done=True) if is_done else args


def result_of(act: Act, result: Json, done: str | None) -> Json:
    """The result of an act with C(file), if a file is to run before the act is done. The arguments are those of C(args_of)."""
    if "file" not in act or result.get("failed") or result.get("unreachable"):
        return result
    is_done = act["file"]["record"] == done
    # Coming back, only the last event needs the file: as long as others hold what it undoes, there is nothing to undo.
    through = is_done or (bool(result["done"]) if act["args"]["state"] == "present" else not result["last"])
    if through:
        return dict(result, done=True, file=None, has_run=is_done)
    return dict(result, done=False, file=act["file"], waiting_for=f"{act['file']['path']} has not set {DONE}")


def file_due(done: Iterable[Result]) -> Json | None:
    """The file that the acts so far wait for, or None."""
    return next((result["file"] for result in done if result.get("file")), None)
