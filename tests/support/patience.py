# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Guards against hanging wait longer where the machine is slow, or has much else to do.

What the collection promises, as "SIGTERM ends it within a second", stays a plain number.
"""

from __future__ import annotations

import os
import time

# A number of one's own: every guard waits so many times as long.
VARIABLE = "TESTS_PATIENCE"
MOST = 8.0
# Seconds of a core that the work below takes on the machine for which the limits were written, and how much went on there for each core: make test.
REFERENCE_SECONDS = 0.007
USUAL_LOAD = 2.0
# For how long a measurement holds: load comes and goes while the suite runs.
HOLDS_SECONDS = 20.0

_last = None


def patient(seconds):
    """How long to wait, at present, where these seconds are enough in make test on a fast machine."""
    return seconds * patience()


def until(condition, seconds, what=None, pause=0.05):
    """What the condition returns as soon as that is true. C(what): what it stands for, as a text or as a function that tells it."""
    began = time.monotonic()
    while True:
        found = condition()
        if found:
            return found
        # Only now: the machine may have got busy meanwhile.
        if time.monotonic() - began > patient(seconds):
            raise AssertionError(f"not within {seconds:g} s: {what() if callable(what) else what or condition}")
        time.sleep(pause)


def patience():
    """How many times as long all takes at present, from 1 to MOST."""
    global _last
    given = os.environ.get(VARIABLE)
    if given:
        return float(given)
    now = time.monotonic()
    if _last is None or now - _last[0] > HOLDS_SECONDS:
        _last = (now, measured())
    return _last[1]


def measured():
    wall, cpu = _work()
    # A short piece of work may get through between two others. What is at work beside it comes sooner or later.
    load = max(wall / cpu, max(os.getloadavg()[:2]) / len(os.sched_getaffinity(0)))
    return min(MOST, max(1.0, cpu / REFERENCE_SECONDS * max(1.0, load / USUAL_LOAD)))


def loop_seconds():
    """How fast this machine is: seconds of a core that a fixed piece of work takes, the least of some."""
    return min(_work()[1] for _number in range(5))


def _work():
    """Seconds that passed, and seconds of a core, for a fixed amount of work."""
    wall, cpu = time.perf_counter(), time.thread_time()
    sum(number * number for number in range(200_000))
    return time.perf_counter() - wall, time.thread_time() - cpu
