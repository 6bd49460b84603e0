# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What both sides know of the user's own task files: the options of a duty, what is wrong with them, and the names of its records. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.options import Mistakes, Specs

# The files are on the controller.
OPTIONS: Specs = {"out": {"type": "path"}, "back": {"type": "path"}, "traffic": {"type": "bool", "default": False}}
# How the names of the records of tasks begin: of those that take a host off, of those that only put it back, and of those that bring traffic.
OUT_RECORD, BACK_RECORD, TRAFFIC_RECORD = "drain_host_step_", "restore_service_step_", "load_balancer_step_"
STEP_RECORDS = (OUT_RECORD, BACK_RECORD, TRAFFIC_RECORD)
# The name of the last in versions that allowed a host only one.
FORMER_RECORD = "load_balancer_custom"
# Tasks of these names have the records of the options that there were before.
OUT_NAMES, BACK_NAMES = ("drain_host_before", "drain_host_after"), ("restore_service_before", "restore_service_after")


def option_mistakes(name: str, options: Mapping[str, Any]) -> Mistakes:
    if not (options.get("out") or options.get("back")):
        yield "", "neither out nor back is set; give at least one task file"


def record_of_tasks(name: str, options: Mapping[str, Any]) -> str:
    """The name of the record of a duty of task files."""
    if options.get("traffic"):
        return TRAFFIC_RECORD + name
    return name if name in OUT_NAMES + BACK_NAMES else (OUT_RECORD if options.get("out") else BACK_RECORD) + name
