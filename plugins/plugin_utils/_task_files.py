# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether task files of the user's own can be loaded."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible_collections.graceful.azure.plugins.plugin_utils._text import first_line


def task_file_problem(path: str, loader: DataLoader) -> str | None:
    """What is wrong with a task file, as a sentence, or None. One that cannot be loaded ends a run for all hosts, rescued by nothing."""
    if not os.path.isfile(path):
        return f"there is no task file {path}"
    try:
        tasks = loader.load_from_file(path)
    except AnsibleError as error:
        return f"{path}: {first_line(error)}"
    problem = _task_problem(tasks or (), loader) if isinstance(tasks or [], list) else "it does not contain a list of tasks"
    return f"{path}: {problem}" if problem else None


def _task_problem(tasks: Iterable[Any], loader: DataLoader) -> str | None:
    """A sentence about the first of these tasks that cannot be loaded, or None."""
    for task in tasks:
        if not isinstance(task, dict):
            return f"{task!r} is not a task"
        inner = [inner for key in ("block", "rescue", "always") for inner in task.get(key) or ()]
        try:
            # A role of this collection includes it, so short names of its modules are known.
            if "block" in task:
                problem = _task_problem(inner, loader)
            else:
                Task.load({"collections": ["graceful.azure"], **task}, loader=loader)
                problem = None
        except AnsibleError as error:
            problem = first_line(error)
        if problem:
            return problem
    return None
