# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads a state again and again until a condition is met, or the time is over."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._spellings import mistake_in_seconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    AnySeen = TypeVar("AnySeen")


# The bounds of a pause between two looks.
LEAST_SECONDS, MOST_SECONDS = 0.2, 0.5


def pause_after(took: float, most: float = MOST_SECONDS) -> float:
    """Seconds between two looks of one that waits: ten times as long as a look took, within bounds. With many servers or connections a look takes long."""
    return min(max(LEAST_SECONDS, 10 * took), most)


class Since:
    """Since when things have been as they are, over several looks."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since: dict[Any, tuple[Any, float]] = {}
        self._idle: dict[Any, int] = {}
        self.at = monotonic()

    def look(self) -> None:
        """Begin another look, of which ``note`` is told."""
        self.at = self._monotonic()

    def note(self, key: Any, state: Any) -> float:
        """Since when it has been so."""
        if self._since.get(key, (None, 0.0))[0] != state:
            self._since[key] = state, self.at
        return self._since[key][1]

    def note_idle(self, keys: set[Any]) -> None:
        """What is idle in this look, and nothing else."""
        self._idle = {key: self._idle.get(key, 0) + 1 for key in keys}

    def idle_in(self, looks: int) -> set[Any]:
        """What has been idle in so many looks in a row."""
        return {key for key, count in self._idle.items() if count >= looks}

    def quiet_for(self, key: Any) -> float:
        return self.at - self._since[key][1]


def check_seconds(option: str, value: float, least: float = 0.0, above: bool = False) -> float:
    """The value of an option that is a length of time."""
    mistake = mistake_in_seconds(value, least, above)
    if mistake:
        raise ValueError("%s %s." % (option, mistake))
    return value


def poll(
    look: Callable[[], AnySeen],
    satisfied: Callable[[AnySeen], object],
    timeout: float,
    pause: float,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[AnySeen, float]:
    """Call C(look) until C(satisfied) is true for its result, for C(timeout) seconds at most. Returns the last result, and the seconds that passed."""
    start = monotonic()
    while True:
        seen = look()
        left = timeout - (monotonic() - start)
        if satisfied(seen) or left <= 0:
            return seen, monotonic() - start
        sleep(min(pause, left))
