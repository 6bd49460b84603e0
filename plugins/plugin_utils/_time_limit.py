# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A time limit for what an action does.

The limit also ends a call that hangs in a connection: it raises an error there, and ends the processes for which the connection waits.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import time
from collections.abc import Callable
from types import FrameType

TICK = 0.1
"""Seconds between two checks whether the block must end."""


class CutOffError(BaseException):
    """The time is over. Connection plugins catch every Exception and try again, so this is a BaseException."""


class TimeLimit:
    """A context that ends its block after a number of seconds, together with the processes for which the block waits.

    If C(is_unwanted()) is true, or if the run was killed, the block ends sooner, but only while it waits for a connection or in C(pause()). Everything else in
    the block is short, and may be half done. C(must_finish): it does not end sooner.
    """

    def __init__(self, seconds: float, is_unwanted: Callable[[], bool] | None = None, must_finish: bool = False) -> None:
        self.seconds = seconds
        self.must_finish = must_finish
        self.is_unwanted = is_unwanted
        self.parent = os.getppid()
        self.over = False
        self.ended = False

    def __enter__(self) -> TimeLimit:
        self.began = time.monotonic()
        self.handler = signal.signal(signal.SIGALRM, self._tick)
        self.left = signal.setitimer(signal.ITIMER_REAL, min(TICK, self.seconds), TICK)[0]
        return self

    def __exit__(self, *_error: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.handler)
        if self.left:
            # The task's keyword timeout uses the same timer.
            signal.setitimer(signal.ITIMER_REAL, max(0.001, self.left - (time.monotonic() - self.began)))
        if self.over:
            raise CutOffError from None

    def _tick(self, _signal: int, frame: FrameType | None) -> None:
        if not self.over:
            self.over = time.monotonic() - self.began >= self.seconds
        if not (self.over or self.must_finish) and self._is_given_up() and _waits(frame):
            self.over = self.ended = True
        if not self.over:
            return
        # A connection plugin may turn the exception into another error and try again, so it is raised once a second.
        signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)
        while frame:
            for value in list(frame.f_locals.values()):
                if isinstance(value, subprocess.Popen) and value.pid:
                    with contextlib.suppress(OSError):  # it may be another user's by now, as sudo is
                        value.terminate()
            frame = frame.f_back
        raise CutOffError

    def _is_given_up(self) -> bool:
        # If the run was killed, its worker processes live on, because they have a session of their own.
        return os.getppid() != self.parent or bool(self.is_unwanted and self.is_unwanted())


def pause(seconds: float) -> None:
    """Wait on the controller. A time limit may end this like a command that a connection runs."""
    time.sleep(seconds)


def end_if_run_was_killed() -> None:
    """End this process if the run whose worker it is was killed: Ansible would write the result into a pipe that nobody reads, and wait there for ever."""
    run = multiprocessing.parent_process()
    if run is not None and run.pid != os.getppid():
        os._exit(1)


def _waits(frame: FrameType | None) -> bool:
    """Whether a connection runs a command (its method of that name is on the stack) or nothing runs at all."""
    while frame:
        if frame.f_code.co_name in ("exec_command", "put_file") or frame.f_code is pause.__code__:
            return True
        frame = frame.f_back
    return False
