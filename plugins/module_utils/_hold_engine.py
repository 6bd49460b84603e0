# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Puts and releases holds on things of any kind, and continues what was cut off.

The engine knows records and events, and the order in which records are written and things are changed. It does not know the things.
A C(Driver) knows one kind of thing: it looks at the thing, compares it with its record, and changes it.

A record is written and synced to disk before the change that it describes (phase ``changing`` or ``restoring``). It is written once more when
the driver sees that the change is done. So a run that continues after another was cut off does the same as every run.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Generic, TypeVar

from ansible_collections.graceful.azure.plugins.module_utils._conditions import CHANGED_MEANWHILE, NONE
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import RESTORING, holders, same_content
from ansible_collections.graceful.azure.plugins.module_utils._proc import read_boot_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, Protocol

    from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Events, Record, Request

    class RecordStore(Protocol):
        """Where the records lie, as far as the engine needs it."""

        def locked(self, create: bool = False) -> AbstractContextManager[bool]: ...

        def replace(self, record: Record | None, wanted: Record | None) -> None: ...

    class RecordReader(Protocol):
        """The same for drivers that only read."""

        def read(self, kind: str, subject: dict[str, Any]) -> Record | None: ...

        def records(self, kind: str | None = None) -> list[Record]: ...


class DriverError(Exception):
    """What is held cannot be asked, or does not do what it is told; the text is a full sentence."""


def this_boot() -> str:
    """Which boot of the machine this is. What a record says of another boot counts no more, so it must be known."""
    boot_id = read_boot_id()
    if not boot_id:
        raise DriverError("/proc/sys/kernel/random/boot_id cannot be read, so nobody knows which boot of the machine this is.")
    return boot_id


# What a look of a driver tells of one of its things that is there.
State = TypeVar("State")

# The field of a record that says that somebody else put the thing back in this boot, and that it was taken out once more.
AGAIN = "again"

# How often a thing is changed and looked at again before the engine gives up.
ROUNDS = 5


class Driver(Generic[State]):
    """What a driver must be able to do for the engine.

    ``put`` and ``give_back`` are generators. The engine writes each record that they yield before they go on. None deletes the record.
    So the code after a C(yield) runs when the record is on disk.

    A driver that has changed a thing and must look whether that is done sets C(hold.look_again) and ends. The engine looks, and asks it once more.
    One that ends undone says why in C(hold.waiting_for).
    """

    # The errors that mean that the thing refused a change, and nothing was changed.
    Refused: type[Exception] | tuple[type[Exception], ...] = ()
    # Whether each thing is changed only when the thing before it is done. All records are then written before the first change, because the change
    # of one thing may change another as well.
    in_order = False
    # Whether all records are written before the first change, also when holds are released: one change then changes all things.
    together = False
    # How long to wait between two steps, in seconds.
    pause = 0.5

    def check(self) -> None:
        """Raise an error for a mistake in the options. It runs before the folder is made or locked."""

    def look(self) -> Sequence[tuple[str, State | None, Record | None]]:
        """The things of this call, in the order in which they are changed: for each its name, its state and its record.

        The state is None if the thing does not exist any more.
        """
        raise NotImplementedError

    def condition(self, record: Record | None, seen: State) -> str:
        """What became of the hold."""
        return NONE

    # What a diff shows about a thing that does not exist any more, besides who holds it.
    view_of_none: dict[str, Any] = {}

    def view(self, record: Record | None, seen: State) -> dict[str, Any]:
        """The same about one that is there."""
        return {}

    def describe(self, hold: Hold[State]) -> dict[str, Any]:
        """What a module returns of the thing."""
        raise NotImplementedError

    def came_to(self, hold: Hold[State], seen: State) -> str:
        """The condition that a module returns. A thing that somebody else changed, and that was brought to where it belongs, is there."""
        return CHANGED_MEANWHILE if hold.conflict and not hold.acted else self.condition(hold.record, seen)

    def shortages(self, holds: list[Hold[State]]) -> list[str]:
        """Why nothing may be held now: too few would stay in service. One sentence each."""
        return []

    def put(self, hold: Hold[State], events: Events) -> Iterator[Record | None]:
        """Hold the thing for these events: those on the record and those of the request."""
        raise NotImplementedError

    def conflict(self, hold: Hold[State]) -> str:
        """The sentence for a thing that somebody else has changed, and that is left as it is (condition CHANGED_MEANWHILE)."""
        raise NotImplementedError

    def keep(self, hold: Hold[State], record: Record) -> Record:
        """The record of a thing that other events still hold. The engine tells of what somebody else has changed."""
        return record

    def give_back(self, hold: Hold[State], record: Record) -> Iterator[Record | None]:
        """Change the thing back, because no event holds it any more. ``record``: the hold's own."""
        raise NotImplementedError

    def gone(self, hold: Hold[State]) -> str | None:
        """The sentence for a thing that does not exist any more, whose record is deleted."""

    def untouched(self, hold: Hold[State]) -> bool:
        """Whether the record of this thing goes back to what it was after a change was refused."""
        return True

    def stuck(self) -> Exception:
        """The error to raise if the things do not change as they were told."""
        raise NotImplementedError


class Hold(Generic[State]):
    """The hold on one thing in this call: the thing and its record, at first and now, and what the result tells about them."""

    def __init__(self, name: str, there: State | None, record: Record | None, before: dict[str, Any]) -> None:
        self.name = name
        # None: it does not exist any more.
        self.there = there
        self.first = record
        self.record = record
        self.shown = record
        self.before = before
        self.condition = NONE
        self.conflict: str | None = None
        self.waiting_for: str | None = None
        # Whether this call changed the thing itself. Whether this round gave it a command, so that it must be looked at again.
        self.acted = False
        self.look_again = False

    @property
    def seen(self) -> State:
        """The thing, where it is known to be there: the engine puts and gives back nothing else."""
        if self.there is None:
            raise AssertionError
        return self.there

    @seen.setter
    def seen(self, seen: State) -> None:
        self.there = seen

    @property
    def noted(self) -> Record:
        """The record, where it is known that there is one."""
        if self.record is None:
            raise AssertionError
        return self.record

    def tell(self, conflict: str | None) -> None:
        """Note the sentence about somebody else's change, unless there is one already."""
        self.conflict = self.conflict or conflict

    @property
    def changed(self) -> bool:
        if self.acted:
            return True
        if self.record is None or self.first is None:
            return self.record is not self.first
        return bool(self.record["events"] != self.first["events"])


class Engine(Generic[State]):
    """Puts or releases holds on the things of one driver. Under the lock, each step looks, records and changes in one go."""

    def __init__(
        self,
        driver: Driver[State],
        store: RecordStore,
        request: Request,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.driver = driver
        self.store = store
        self.request = request
        self._monotonic = monotonic
        self._sleep = sleep
        # All holds of this call by name, and those of the last step.
        self.holds: dict[str, Hold[State]] = {}
        self.current: list[Hold[State]] = []
        self.refused: list[str] = []
        self._continued = False

    def run(self, timeout: float = 0.0) -> None:
        """Take one step, and further steps until there is nothing to wait for or the time is over. Between steps the lock is free."""
        deadline = self._monotonic() + timeout
        if not self._continued:
            # A mistake leaves nothing behind, not even the folder.
            self.driver.check()
        while True:
            with self.store.locked(create=self.request.present):
                self.step()
            left = deadline - self._monotonic()
            if not self.waiting_for or left <= 0:
                return
            self._continued = True
            self._sleep(min(self.driver.pause, left))

    def step(self) -> None:
        """One step. The caller has the lock."""
        self._look()
        for hold in self.current:
            hold.waiting_for = None
            hold.condition = self._condition(hold)
        if self.request.present:
            for hold in self.current:
                # This raises an error if a record would become too large, before the first record is written.
                self._events(hold.record)
            self.refused = self.driver.shortages(self.current)
            if self.refused:
                return
        for _round in range(ROUNDS):
            self._take_round()
            if not any(hold.look_again for hold in self.current):
                return
            self._look()
        raise self.driver.stuck()

    @property
    def changed(self) -> bool:
        return any(hold.changed for hold in self.holds.values())

    @property
    def conflicts(self) -> list[str]:
        return [hold.conflict for hold in self.holds.values() if hold.conflict]

    @property
    def waiting_for(self) -> list[str]:
        return [hold.waiting_for for hold in self.current if hold.waiting_for]

    @property
    def diff(self) -> dict[str, Any]:
        return {
            "before": {name: hold.before for name, hold in self.holds.items()},
            "after": {hold.name: self._view(hold.record, hold.there) for hold in self.current},
        }

    def result(self, things: str) -> dict[str, Any]:
        """What a module returns. ``things``: the name under which it returns the things."""
        waiting_for = self.waiting_for
        return {
            "changed": self.changed,
            things: [self.driver.describe(hold) for hold in self.current],
            "done": not waiting_for,
            "waiting_for": waiting_for[0] if waiting_for else None,
            "conflicts": self.conflicts,
            "diff": self.diff,
        }

    def _condition(self, hold: Hold[State]) -> str:
        return NONE if hold.there is None else self.driver.condition(hold.record, hold.there)

    def _view(self, record: Record | None, there: State | None) -> dict[str, Any]:
        view = self.driver.view_of_none if there is None else self.driver.view(record, there)
        return dict(view, held_by=holders(record))

    def _look(self) -> None:
        self.current = []
        for name, there, record in self.driver.look():
            if name not in self.holds:
                self.holds[name] = Hold(name, there, record, self._view(record, there))
            hold = self.holds[name]
            hold.there, hold.record, hold.shown, hold.look_again = there, record, record or hold.shown, False
            self.current.append(hold)

    def _take_round(self) -> None:
        """Continue each hold up to the point at which its thing must be looked at again."""
        together = self.driver.together or self.driver.in_order and self.request.present
        for holds in [self.current] if together else [[hold] for hold in self.current]:
            moves = [(hold, hold.record, self._move(hold)) for hold in holds]
            for hold, _before, move in moves:
                self._write(hold, itertools.islice(move, 1))
            intents = [hold.record for hold in holds]
            for hold, _before, move in moves:
                try:
                    self._write(hold, move)
                except self.driver.Refused:
                    # Nothing was changed, so the records go back to what they were.
                    for (other, before, _move), intent in zip(moves, intents):
                        if same_content(other.record, intent) and self.driver.untouched(other):
                            self._write(other, [before])
                    raise
                if not (hold.conflict and hold.condition == CHANGED_MEANWHILE):
                    hold.condition = self._condition(hold)
                if self.driver.in_order and hold.waiting_for:
                    return

    def _move(self, hold: Hold[State]) -> Iterator[Record | None]:
        """Put, keep or release one hold. Yields records as drivers do."""
        record = hold.record
        if self.request.present and hold.there is not None:
            yield from self.driver.put(hold, self._events(record))
            return
        if record is None:
            return
        begun = record["phase"] == RESTORING
        # While a release waits, somebody may hold the thing again, and then the release leaves it alone. If things are given back in order, the
        # release may not have reached this thing yet, so its phase does not tell which is the case.
        if self._continued and not begun and not self.driver.in_order:
            return
        remaining = self.request.taken_from(record["events"])
        if remaining and not (begun and hold.there is not None):
            if self._condition(hold) == CHANGED_MEANWHILE:
                hold.tell(self.driver.conflict(hold))
            yield self.driver.keep(hold, dict(record, events=remaining))
        elif hold.there is None:
            hold.tell(self.driver.gone(hold))
            yield None
        else:
            yield from self.driver.give_back(hold, record)

    def _events(self, record: Record | None) -> Events:
        """The events of the record and of the request. If the record is being released, its events do not hold any more."""
        return self.request.added_to({} if record is None or record["phase"] == RESTORING else record["events"])

    def _write(self, hold: Hold[State], records: Iterable[Record | None]) -> None:
        for record in records:
            self.store.replace(hold.record, record)
            hold.record = record
            hold.shown = record or hold.shown
