# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The simulated clock, and the timetable that does things when they are due."""

from __future__ import annotations

import collections
import heapq
import itertools
import threading
import time

from .checks import SECONDS_LIMIT
from .refusals import Refused

# Calendars end soon after this time, so no step leads beyond it.
LAST_TIME = 200 * SECONDS_LIMIT


class Clock:
    """Simulated time. It runs as real time does, faster, slower or not at all, and can be moved forward in steps."""

    def __init__(self, scale=1.0):
        self._begun = time.monotonic()
        # The simulated seconds that had passed at the last change, the real time of that change, and the speed since then.
        # One tuple, because other threads read it at any moment.
        self._course = 0.0, self._begun, scale

    @property
    def scale(self):
        return self._course[2]

    def passed(self):
        """Simulated seconds since the start."""
        passed, since, scale = self._course
        return passed + (time.monotonic() - since) * scale

    def time(self):
        """The simulated time of day, in Unix seconds."""
        passed, since, scale = self._course
        # The monotonic clock is read once: on a busy machine two readings would differ. At scale 1 this is real time plus the steps.
        ahead = passed - (since - self._begun) + (time.monotonic() - since) * (scale - 1)
        return time.time() + ahead

    def real(self, simulated):
        """How many real seconds that takes. None if time stands still."""
        return simulated / self.scale if self.scale else None

    def set_scale(self, scale):
        self._go_on(0, scale)

    def step_to(self, passed):
        """Moves time forward to that moment. It never goes back."""
        self._go_on(passed, self.scale)

    def _go_on(self, least, scale):
        passed, since, before = self._course
        now = time.monotonic()
        self._course = max(least, passed + (now - since) * before), now, scale


# Something to do at a time. If ``alive`` says no, it would do nothing any more.
Timer = collections.namedtuple("Timer", "due number act arguments alive")


class Timetable:
    """Does things when they are due, in simulated or in real time. One lock, ``changed``, protects it all."""

    def __init__(self, clock):
        self.clock = clock
        self.changed = threading.Condition(threading.RLock())
        self._simulated, self._real = [], []
        self._numbers = itertools.count()

    def later(self, delay, act, *arguments, alive=lambda: True):
        """After simulated seconds."""
        with self.changed:
            heapq.heappush(self._simulated, Timer(self.clock.passed() + delay, next(self._numbers), act, arguments, alive))
            self.changed.notify_all()

    def soon(self, delay, act, *arguments):
        """After real seconds, at any speed of the clock."""
        with self.changed:
            heapq.heappush(self._real, Timer(time.monotonic() + delay, next(self._numbers), act, arguments, None))
            self.changed.notify_all()

    def next(self):
        """Simulated seconds until something is due, or None."""
        with self.changed:
            due = self._next_due()
            return None if due is None else max(0.0, due - self.clock.passed())

    def _next_due(self):
        while self._simulated and not self._simulated[0].alive():
            heapq.heappop(self._simulated)
        return self._simulated[0].due if self._simulated else None

    def run(self):
        """Does what is due, for ever."""
        with self.changed:
            while True:
                waits = [3600.0]
                for timers, now, real in ((self._real, time.monotonic(), lambda wait: wait), (self._simulated, self.clock.passed(), self.clock.real)):
                    if not timers:
                        continue
                    if timers[0].due <= now:
                        timer = heapq.heappop(timers)
                        timer.act(*timer.arguments)
                        waits.append(0)
                    else:
                        waits.append(real(timers[0].due - now))
                wait = min(wait for wait in waits if wait is not None)
                if wait > 0:
                    self.changed.wait(wait)

    def step(self, seconds):
        """Moves time forward. What is due meanwhile happens at its own time."""
        with self.changed:
            self._step_to(self.clock.passed() + seconds)

    def step_to_next(self):
        """Moves time forward to what is due next."""
        with self.changed:
            due = self._next_due()
            if due is None:
                raise Refused("Nothing is due.", 409)
            self._step_to(due)

    def _step_to(self, end):
        if self.clock.time() + end - self.clock.passed() > LAST_TIME:
            raise Refused("The step leads beyond the calendar.")
        while self._simulated and self._simulated[0].due <= end:
            timer = heapq.heappop(self._simulated)
            self.clock.step_to(timer.due)
            timer.act(*timer.arguments)
        self.clock.step_to(end)
        self.changed.notify_all()

    def set_scale(self, scale):
        with self.changed:
            self.clock.set_scale(scale)
            self.changed.notify_all()

    def wait_until(self, due, given_up):
        """Waits for a simulated time. False if ``given_up`` says yes before."""
        with self.changed:
            remaining = due - self.clock.passed()
            while remaining > 0:
                real = self.clock.real(remaining)
                self.changed.wait(min(0.5, real if real is not None else 0.5))
                if given_up():
                    return False
                remaining = due - self.clock.passed()
        return True
