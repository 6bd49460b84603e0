# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.report); see its module for the options.

Reads a journal on the controller and writes a report of each run in it.
"""

from __future__ import annotations

import os

from ansible.utils.display import Display
from ansible_collections.graceful.azure.plugins.plugin_utils._controller_action import ControllerAction
from ansible_collections.graceful.azure.plugins.plugin_utils._story import files
from ansible_collections.graceful.azure.plugins.plugin_utils._story.journal import stories
from ansible_collections.graceful.azure.plugins.plugin_utils._text import printable

display = Display()


class ActionModule(ControllerAction):
    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _validated, args = self.validate_argument_spec(
            argument_spec={"journal": {"type": "path", "required": True}, "folder": {"type": "path", "required": True}}
        )
        journal, folder = os.path.abspath(args["journal"]), os.path.abspath(args["folder"])
        result.update(changed=False, reports=[], unreadable=[])
        try:
            with open(journal, encoding="utf-8", errors="replace") as lines:
                for story, sentence in stories(lines):
                    if story is None:
                        result["unreadable"].append(f"{journal}: {sentence}")
                    else:
                        self._write(folder, story, result)
        except OSError as error:
            return dict(result, failed=True, msg=f"{error.filename or journal}: {error.strerror}")
        for sentence in result["unreadable"]:
            display.warning(printable(sentence))
        if not result["reports"]:
            return dict(result, failed=True, msg=f"{journal} holds no pass")
        for path in result["reports"]:
            display.display(printable(path))
        return result

    def _write(self, folder, story, result):
        if self._task.check_mode:
            path = f"{os.path.join(folder, files.name_of(story))}.html"
            result["changed"] = result["changed"] or not os.path.exists(path)
        else:
            # The runs before this one are written already.
            story["run"]["continues"] = files.unfinished(folder, story["run"]["started"], story["hosts"])
            path, is_new = files.write(folder, story)
            result["changed"] = result["changed"] or is_new
        result["reports"].append(path)
