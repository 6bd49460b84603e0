# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.
# Do not use this from other collections or standalone plugins/modules!

"""Reads a state again and again until a condition is met, or the time is over."""

from __future__ import annotations

import math
import time


def check_seconds(name, value, least=0.0):
    """Refuse a value that is not a length of time: a negative number, infinity, NaN."""
    if not (math.isfinite(value) and value >= least):
        raise ValueError("%s must be a number of seconds from %g up, not %r" % (name, least, value))


def poll(look, satisfied, timeout, pause, monotonic=time.monotonic, sleep=time.sleep):
    """Call C(look) until C(satisfied) is true for its result, for C(timeout) seconds at most. Returns the last result, and the seconds that passed."""
    start = monotonic()
    while True:
        seen = look()
        left = timeout - (monotonic() - start)
        if satisfied(seen) or left <= 0:
            return seen, monotonic() - start
        sleep(min(pause, left))
