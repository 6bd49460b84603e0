# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.history); see its module for the options.

Reads the reports in a folder of the controller and shows what they say of each type of event.
"""

from __future__ import annotations

import glob
import json
import os

from ansible.utils.display import Display
from ansible_collections.graceful.azure.plugins.plugin_utils._controller_action import ControllerAction
from ansible_collections.graceful.azure.plugins.plugin_utils._story import files
from ansible_collections.graceful.azure.plugins.plugin_utils._story.history import history
from ansible_collections.graceful.azure.plugins.plugin_utils._story.page import history_lines
from ansible_collections.graceful.azure.plugins.plugin_utils._story.story import check_version
from ansible_collections.graceful.azure.plugins.plugin_utils._text import printable

display = Display()


class ActionModule(ControllerAction):
    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _validated, args = self.validate_argument_spec(argument_spec={"folder": {"type": "path", "required": True}, "page": {"type": "path"}})
        folder = os.path.abspath(args["folder"])
        result.update(changed=False, unreadable=[])
        if not os.path.isdir(folder):
            return dict(result, failed=True, msg=f"history_folder: {folder} is no folder; name the one that handle_events_report names")
        reports = []
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "report-*.json"))):
            try:
                with open(path, encoding="utf-8") as stream:
                    report = json.load(stream)
                check_version(report)
                history([report])
                reports.append(report)
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                result["unreadable"].append(f"{path} is no report: {error.strerror if isinstance(error, OSError) else error}")
        for sentence in result["unreadable"]:
            display.warning(printable(sentence))
        if not reports:
            return dict(result, failed=True, msg=f"history_folder: {folder} has no report; runs write reports there with handle_events_report")
        found = history(sorted(reports, key=lambda report: report["run"]["started"]))
        result.update(runs=len(reports), types={name: of_type.as_json() for name, of_type in found.items()})
        for line in history_lines(found, len(reports)):
            display.display(printable(line))
        if args["page"] and not self._task.check_mode:
            try:
                result["changed"] = files.write_history(os.path.abspath(args["page"]), found, reports)
            except OSError as error:
                return dict(result, failed=True, msg=f"history_page: {args['page']!r} cannot be written: {error.strerror}")
        return result
