# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides whether an event is over: the service no longer lists it. Pure. Nothing else may conclude that from answers that do not show the event.

An answer with an empty body proves nothing, and neither does a failed read. One document may be old or wrong. So an event is over

- if two documents do not show it that were read at least APART seconds one after the other, and none in between shows it
- or if one document does not show it whose DocumentIncarnation is greater than that of the last document that showed it. A smaller number proves nothing
  by itself: either the service began to count again after it was disabled, or the document is older. Then two documents decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._events import READ_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Seconds that must lie between two reads that prove something together. An answer that was kept somewhere for a moment is gone by then.
APART = 0.5
# Seconds after which to read again if the first read does not show the event: no sooner than Azure advises.
READ_AGAIN = READ_SECONDS
# Seconds by which the services of one set may differ. A VM that does not show an event for longer belongs to another set.
LAG = 10.0


def is_over(times: Sequence[float], incarnation: int | None = None, shown_in: int | None = None) -> bool:
    """Whether the event is over.

    C(times): when documents without the event were read since the last one that showed it, oldest first. C(incarnation): the number of the last of them.
    C(shown_in): the number of the last document that showed the event. None if it is not known.
    """
    if not times:
        return False
    has_moved_on = incarnation is not None and shown_in is not None and incarnation > shown_in
    return has_moved_on or times[-1] - times[0] >= APART


class Absence:
    """What the answers of one service tell about the absence of one event, or of all selected events together."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._incarnation: int | None = None
        self._shown_in: int | None = None

    def note(self, is_shown: bool, at: float, incarnation: int | None) -> None:
        """Note an answer. C(incarnation): the number of its document, None if its body was empty."""
        if is_shown:
            self._times = []
            self._shown_in = incarnation
        elif incarnation is not None:
            self._times = [*self._times[:1], at]
            self._incarnation = incarnation

    @property
    def is_proved(self) -> bool:
        return is_over(self._times, self._incarnation, self._shown_in)

    @property
    def is_doubtful(self) -> bool:
        """Whether a document did not show the event, and another one must tell the same."""
        return bool(self._times) and not self.is_proved


class Absences:
    """Which events are over, by the answers of one service."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        """C(keys): the events, by their folded ids, that are known from before the first answer."""
        self._absences: dict[str, Absence] = {}
        self.expect(keys)

    def expect(self, keys: Iterable[str]) -> None:
        """These events are known from elsewhere."""
        for key in keys:
            self._absences.setdefault(key, Absence())

    def note(self, shown: Iterable[str], at: float, incarnation: int | None) -> set[str]:
        """Note an answer, which shows these events. Returns those that it does not show and that are not over by that. What is over is forgotten."""
        shown = set(shown)
        self.expect(shown)
        for key, absence in self._absences.items():
            absence.note(key in shown, at, incarnation)
        self._absences = {key: absence for key, absence in self._absences.items() if not absence.is_proved}
        return set(self._absences) - shown
