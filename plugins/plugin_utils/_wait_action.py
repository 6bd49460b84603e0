# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The base of actions that wait on a host that may go away meanwhile.

A module that waits for minutes ends when its host reboots. If the host falls silent, the task hangs for minutes more. So the action calls the module
again and again, for a short time each. A call ends by itself on the host, and a lost connection costs no more than one call.
"""

from __future__ import annotations

import hashlib
import math
import time
from typing import Any

from ansible.errors import AnsibleAuthenticationFailure, AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.by_platform import is_windows, run_module
from ansible_collections.graceful.azure.plugins.plugin_utils._text import last_words, printable, was_killed
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Options, Variables

display = Display()


class WaitAction(ActionBase):
    """Calls the module of the task's name until finished(), or until the time of the task's option timeout is over.

    A subclass says when it is finished, and what people read meanwhile. The module must have an option timeout as well: each call gets a part of
    the time.
    """

    _supports_check_mode = True
    _supports_async = True
    TRANSFERS_FILES = False

    #: Default of the module's option timeout in seconds. 0 means one call (but see limit()).
    DEFAULT_TIMEOUT = 0.0
    #: Seconds of one call, and between two messages to people.
    CALL_SECONDS = 5.0
    #: In a long wait, calls become longer up to this, because each call starts a Python on the host.
    LONGEST_CALL_SECONDS = 5.0
    #: Seconds between a lost connection and the next try.
    PAUSE_SECONDS = 1.0

    # For tests, which script the clock.
    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    def limit(self, timeout: float) -> float:
        """Seconds for the whole wait, by the task's timeout: 0 for one call, math.inf for no limit."""
        return timeout

    def step_args(self, seconds: float, left: float, last: Json | None) -> Options:
        """Arguments of one call. C(seconds): its time. C(left): the rest of the whole time. C(last): the result of the call before, or None."""
        return dict(self._task.args, timeout=seconds)

    def finished(self, result: Json) -> bool:
        """Whether this result ends the wait. It may be the result of a failure."""
        raise NotImplementedError

    def progress(self, result: Json | None) -> str:
        """What the action waits for, in a few words. C(result): the last one, or None."""
        raise NotImplementedError

    def timed_out(self, result: Json | None, error: Exception | None, elapsed: float) -> Json:
        """The result when the time is over. C(error): why the connection is lost, or None."""
        if error is not None:
            raise error
        return result or {}

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Json:
        result: Json = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        seconds = self._seconds()
        if self._task.check_mode or self._task.async_val or not seconds > 0:
            result.update(self._run_module(task_vars, wrap_async=self._task.async_val))
        else:
            result.update(self._wait(seconds, task_vars))
        return result

    def _seconds(self) -> float:
        # A wrong value goes to the module unchanged, because the module's message names it.
        try:
            seconds = float(self._task.args.get("timeout", self.DEFAULT_TIMEOUT))
        except (TypeError, ValueError):
            return 0.0
        return self.limit(seconds) if 0 <= seconds < math.inf else 0.0

    def _wait(self, seconds: float, task_vars: Variables) -> Json:
        started = told = self.monotonic()
        if seconds > self.CALL_SECONDS:
            self._notice_silence()
        last: Json | None = None
        error: Exception | None = None
        elapsed = 0.0
        while True:
            step = max(self.CALL_SECONDS, min(self.LONGEST_CALL_SECONDS, elapsed))
            answer, error = self._step(step, seconds - elapsed, last, error is not None, task_vars)
            if answer is not None:
                last = answer
                if self.finished(answer):
                    return answer
            else:
                self._reset_connection()
                self.sleep(max(0.0, min(self.PAUSE_SECONDS, seconds - (self.monotonic() - started))))
            elapsed = self.monotonic() - started
            if elapsed >= seconds:
                if error is not None:
                    # The temporary folder on a host that cannot be reached is not removed, because the task would fail in that.
                    self._connection._shell.tmpdir = None
                return self.timed_out(last, error, elapsed)
            if self.monotonic() - told >= self.CALL_SECONDS - 0.5:
                told = self.monotonic()
                self._tell(task_vars, last, error, elapsed, seconds)

    def _run_module(self, task_vars: Variables, **options: Any) -> Json:
        if is_windows(self, task_vars):
            return run_module(self, self._task.action.rpartition(".")[2], options.get("module_args", self._task.args), task_vars)
        result: Json = self._execute_module(task_vars=task_vars, **options)
        return result

    def _step(self, step: float, left: float, last: Json | None, was_lost: bool, task_vars: Variables) -> tuple[Json | None, Exception | None]:
        """One call: its result and None, or None and the error."""
        args = self.step_args(min(step, left), left, last)
        try:
            result = self._run_module(task_vars, module_args=args)
        except AnsibleAuthenticationFailure as error:
            # Trying a wrong password for minutes locks accounts. But a host that boots may also refuse a correct one.
            if last is None:
                raise
            return None, error
        except AnsibleConnectionFailure as error:
            return None, error
        except AnsibleError as error:
            # The host is going down, or came back with an empty disk, so the module cannot be copied to it.
            if last is None and not was_lost:
                raise
            self._connection._shell.tmpdir = None
            return None, error
        if "module_stdout" in result and (last is not None or was_lost or was_killed(result)):
            return None, AnsibleConnectionFailure(f"The module ended without a result (rc {result.get('rc')}): {last_words(result)}")
        return result, None

    def _notice_silence(self) -> None:
        """Make ssh end by itself a few seconds after the host has become silent."""
        connection = self._connection
        if connection.transport != "ssh":
            return
        try:
            common = connection.get_option("ssh_common_args") or ""
            connection.set_option("ssh_common_args", f"{common} -o ServerAliveInterval=1 -o ServerAliveCountMax=5".strip())
            if not connection.get_option("control_path"):
                # A connection that is shared with earlier tasks was opened without these options.
                who = "-".join(str(connection.get_option(name)) for name in ("host", "port", "remote_user"))
                digest = hashlib.sha256(f"patient-{who}".encode()).hexdigest()
                connection.set_option("control_path", f"%(directory)s/{digest[:10]}")
        except KeyError:
            # This is another connection plugin with the name ssh, without these options.
            return

    def _reset_connection(self) -> None:
        try:
            self._connection.reset()
        except AnsibleError as error:
            display.vvv(f"could not reset the connection: {error}")

    def _tell(self, task_vars: Variables, result: Json | None, error: Exception | None, elapsed: float, seconds: float) -> None:
        limit = "" if seconds == math.inf else f" of {seconds:.0f}"
        lost = "" if error is None else "; the host cannot be reached"
        line = f"{task_vars['inventory_hostname']}: waiting for {self.progress(result)}, {elapsed:.0f}{limit} s{lost}"
        display.display(printable(line))
