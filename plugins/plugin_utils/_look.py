# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One look at a machine, told as data whatever happens to it. Private to the collection.

The passes of the playbook handle_events must go on when a machine is silent, half dead or set
up wrong, so a look never fails: C(reached) says whether the module ran there, C(error) what
went wrong, C(fatal) what a person must mend.
"""

from __future__ import annotations

import time

from ansible.errors import AnsibleAuthenticationFailure, AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase


def _signalled(result):
    """Whether a module's process was ended from outside, as a reboot does, rather than failed."""
    return "module_stdout" in result and (result.get("rc", 0) >= 128 or result.get("rc", 0) < 0)


def _first_line(text):
    lines = [line.strip() for line in str(text).splitlines() if line.strip()]
    return lines[0] if lines else "no message"


class LookAction(ActionBase):
    """Runs a module once and returns its result, or a result that says why there is none."""

    TRANSFERS_FILES = False

    def look(self, module_name, module_args, task_vars):
        """The module's result with C(reached) and C(began) (controller's clock, Unix seconds) added."""
        began = time.time()
        try:
            result = self._execute_module(module_name=module_name, module_args=module_args, task_vars=task_vars)
        except AnsibleAuthenticationFailure as error:
            result = {"reached": False, "fatal": _first_line(error), "error": _first_line(error)}
        except AnsibleConnectionFailure as error:
            self._connection._shell.tmpdir = None  # nothing can be tidied up there
            result = {"reached": False, "error": _first_line(error)}
        except (AnsibleError, OSError) as error:
            result = {"reached": False, "fatal": _first_line(error), "error": _first_line(error)}
        else:
            if result.get("unreachable"):
                result = {"reached": False, "error": _first_line(result.get("msg"))}
            elif result.get("failed"):
                said = _first_line(result.get("msg"))
                if "module_stdout" in result:
                    said = _first_line(result.get("module_stderr") or result.get("module_stdout") or said)
                failure = {"reached": False, "error": said}
                if not _signalled(result):
                    failure["fatal"] = said
                result = failure
            else:
                result = dict(result, reached=True)
        result.setdefault("changed", False)
        result["began"] = began
        return result

    def cleanup(self, force=False):
        """Tidy up; a machine that went silent meanwhile is no error of the look."""
        try:
            super().cleanup(force=force)
        except AnsibleConnectionFailure:
            pass
