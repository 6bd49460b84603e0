# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One look at a machine, told as data whatever happens to it. Private to the collection.

The passes of the playbook handle_events must go on when a machine is silent, half dead or set
up wrong, so a look never fails: C(reached) says whether the module ran there, C(error) what
went wrong, C(fatal) what a person must mend. A machine that answers and does not come to an end
is cut off: nothing is changed by a look, so what goes on there does no harm.
"""

from __future__ import annotations

import signal
import subprocess
import time

from ansible.errors import AnsibleAuthenticationFailure, AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

GRACE = 4.0
"""Seconds that a look may take beyond those that its module needs: to connect, to begin and to answer."""
GRACE_EACH = 1.0
"""The same, for each look more that the controller may have to do at the same time."""


class _CutOffError(BaseException):
    """A look's time is over. Connections try again after an Exception, so this is none."""


class _Limit:
    """Ends what runs under it after so many seconds, and the processes that are waited for there."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.over = False

    def __enter__(self):
        self.began = time.monotonic()
        self.handler = signal.signal(signal.SIGALRM, self._end)
        # Once is not enough where something on the way turns it into another error and tries again.
        self.left = signal.setitimer(signal.ITIMER_REAL, self.seconds, 1.0)[0]

    def __exit__(self, *_error):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.handler)
        if self.left:
            # The keyword timeout of the task, which has the same clock.
            signal.setitimer(signal.ITIMER_REAL, max(0.001, self.left - (time.monotonic() - self.began)))
        if self.over:
            raise _CutOffError from None

    def _end(self, _signal, frame):
        self.over = True
        while frame:
            for value in list(frame.f_locals.values()):
                if isinstance(value, subprocess.Popen) and value.pid:
                    value.terminate()
            frame = frame.f_back
        raise _CutOffError


def _signalled(result):
    """Whether a module's process was ended from outside, as a reboot does, rather than failed."""
    return "module_stdout" in result and (result.get("rc", 0) >= 128 or result.get("rc", 0) < 0)


def _first_line(text):
    lines = [line.strip() for line in str(text).splitlines() if line.strip()]
    return lines[0] if lines else "no message"


class LookAction(ActionBase):
    """Runs a module once and returns its result, or a result that says why there is none."""

    TRANSFERS_FILES = False

    def look(self, module_name, module_args, task_vars, seconds):
        """The module's result with C(reached) and C(began) (controller's clock, Unix seconds) added. It may take C(seconds)."""
        began = time.time()
        beside = min(int(task_vars.get("ansible_forks") or 1), len(task_vars.get("ansible_play_hosts_all") or [1]))
        seconds += GRACE + GRACE_EACH * beside
        try:
            with _Limit(seconds):
                result = self._execute_module(module_name=module_name, module_args=module_args, task_vars=task_vars)
        except _CutOffError:
            self._connection._shell.tmpdir = None
            result = {"reached": False, "cut_off": seconds, "error": f"it answers, and the look did not come to its end within {seconds:g} s"}
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
                # What it could tell all the same.
                failure.update((key, result[key]) for key in ("other_holds",) if key in result)
                result = failure
            else:
                result = dict(result, reached=True)
        result.setdefault("changed", False)
        result["began"] = began
        return result

    @staticmethod
    def is_spared(last):
        """Whether a machine whose former look was cut off is left in peace, so that it holds up every second pass at most."""
        return 0 <= time.time() - last.get("began", 0) < 2 * last.get("cut_off", 0)

    def cleanup(self, force=False):
        """Tidy up; a machine that went silent meanwhile is no error of the look."""
        try:
            super().cleanup(force=force)
        except AnsibleConnectionFailure:
            pass
