# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Holds on what runs, such as services: each is stopped when the one before it is down, and they are started in reverse. The base of such drivers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Generic, TypeVar

from ansible_collections.graceful.azure.plugins.module_utils._conditions import AS_LEFT, CHANGED_MEANWHILE, NONE, REBOOTED
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import AGAIN, Driver, State
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import CHANGING, HELD, RESTORING, holders, new_record

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from typing import Any, Protocol

    from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Hold, RecordReader
    from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Events, Record, Request

# Conditions, besides those of every thing.
NOT_RUNNING = "not_running"
STOPPING = "stopping"
STARTING = "starting"
# Seconds for which one step waits for what goes down or comes up quickly.
QUICK_SECONDS = 2.0

# By which a thing is known to its manager.
Key = TypeVar("Key")

if TYPE_CHECKING:
    Key_contra = TypeVar("Key_contra", contravariant=True)

    class Manager(Protocol[State, Key_contra]):
        """What is asked about the things."""

        def show(self, __things: Collection[Key_contra]) -> list[State]: ...

        def stop(self, __thing: Key_contra) -> None: ...

        def start(self, __thing: Key_contra) -> None: ...

        def boot_id(self) -> str: ...


class DryManager:
    """A manager whose things obey at once and in memory only: for check mode. ``driver``: the class that knows such things."""

    def __init__(self, manager: Any, driver: type[StoppedInOrder[Any, Any]]) -> None:
        self._manager = manager
        self._driver = driver
        self._told: dict[Any, dict[str, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def show(self, things: Collection[Any]) -> list[Any]:
        return [seen._replace(**self._told.get(self._driver.key(seen), {})) for seen in self._manager.show(things)]

    def stop(self, thing: Any) -> None:
        self._told[thing] = {**self._driver.left, **self._driver.settled}

    def start(self, thing: Any) -> None:
        self._told[thing] = {**self._driver.found, **self._driver.settled}


class StoppedInOrder(Driver[State], Generic[State, Key]):
    """Things of a machine that are stopped one after the other, and started again in reverse order.

    ``manager``: what is asked and told about the things, by their keys. It also knows the boot. ``wanted``: these keys; None for all that are held.
    """

    in_order = True
    kind: str
    # What a record says of a thing that runs and is stopped.
    found: dict[str, Any]
    left: dict[str, Any]
    # What else is so of a thing that has done what it was told.
    settled: dict[str, Any] = {}
    # The names of things that are stopped after these, in a call of their own.
    later: Sequence[str] = ()

    def __init__(
        self,
        manager: Manager[State, Key],
        store: RecordReader,
        request: Request,
        wanted: list[Key] | None,
        timeout: float = 0.0,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._manager = manager
        self._store = store
        self._request = request
        self._named = wanted
        self._deadline = monotonic() + timeout if timeout else None
        self._monotonic = monotonic
        self._sleep = sleep
        self._boot_id: str | None = None
        # Whether it is an error that there is no such thing.
        self._insists = True
        # The keys of the things of all steps so far.
        self._known: list[Key] = []

    def to_stop(self, named: list[Key], records: list[Record]) -> list[Key]:
        """What is stopped if these are to be down, in order. ``records``: all there are, in the order in which the things were stopped."""
        return named

    def missing(self, seen: State) -> Exception | None:
        """The error if there is no such thing; None if there is."""
        raise NotImplementedError

    def hindrance(self, hold: Hold[State]) -> str | None:
        """Why the thing cannot be started, in a sentence; None if it can. If it can be later, this sets C(hold.waiting_for)."""
        raise NotImplementedError

    def failure(self, record: Record, seen: State) -> Exception | None:
        """The error if the thing was started and will not be back by itself."""
        return None

    # What a thing is: its key, how a record names it and which key that is, its name and state in sentences, what the module returns of it, and how
    # it is. A subclass has these functions.
    key: Callable[[State], Key]
    subject: Callable[[Key], dict[str, Any]]
    key_in: Callable[[dict[str, Any]], Key]
    label: Callable[[State], str]
    state: Callable[[State], str]
    shown: Callable[[State], dict[str, Any]]
    is_up: Callable[[State], bool]
    is_down: Callable[[State], bool]
    is_back: Callable[[Record, State], bool]
    # Whether it must be told to start, so that it is back; whether it is back when it has ended; whether it is started before all others.
    needs_start: Callable[[State], bool]
    ends: Callable[[State], bool] = staticmethod(lambda seen: False)
    is_first: Callable[[Key], bool] = staticmethod(lambda key: False)

    def seen_now(self, things: Collection[Key]) -> list[State]:
        return self._manager.show(things)

    def check(self) -> None:
        self._show()

    def look(self) -> list[tuple[str, State, Record | None]]:
        now = self._monotonic()
        self._step_ends = now + QUICK_SECONDS if self._deadline is None else min(now + QUICK_SECONDS, self._deadline)
        found = self._show()
        if found and self._boot_id is None:
            self._boot_id = self._manager.boot_id()
        self._known += [self.key(seen) for seen in found if self.key(seen) not in self._known]
        return [(self.label(seen), seen, self._read(self.key(seen))) for seen in found]

    def condition(self, record: Record | None, seen: State) -> str:
        """What became of a hold.

        none               runs, and nobody says that it should not
        not_running        was not running when it was found: nothing to stop, nothing to start again
        stopping           is to be stopped, or on its way down
        held               is down, as we left it
        starting           is to be started again, or on its way up
        rebooted           runs again because the host was booted anew
        changed_meanwhile  runs again in the same boot: somebody else acted. It is stopped once more, and a second time only a person decides
        """
        if record is None:
            return NOT_RUNNING if self.is_down(seen) else NONE if self.is_up(seen) else STOPPING
        if record["phase"] == RESTORING:
            return NONE if self.is_back(record, seen) else STARTING
        if self.is_up(seen) and record["boot_id"] != self._boot_id:
            return REBOOTED
        if record["phase"] == CHANGING:
            return AS_LEFT if self.is_down(seen) else STOPPING
        return CHANGED_MEANWHILE if self.is_up(seen) else AS_LEFT

    def put(self, hold: Hold[State], events: Events) -> Iterator[Record | None]:
        record = self._wanted(hold, events)
        yield record
        condition = self.condition(record, hold.seen)
        if condition == STOPPING:
            if record is not None and self.is_up(hold.seen):
                self._manager.stop(self.key(hold.seen))
                hold.acted = True
            if not self._await(hold, self.is_down):
                return
        elif condition != AS_LEFT:
            return
        if record is not None and record["phase"] == CHANGING:
            yield dict(record, phase=HELD)

    def conflict(self, hold: Hold[State]) -> str:
        return "%s was stopped and is %s again in the same boot: somebody else started it, so it was not touched." % (
            self.label(hold.seen),
            self.state(hold.seen),
        )

    def give_back(self, hold: Hold[State], record: Record) -> Iterator[Record | None]:
        condition = self.condition(record, hold.seen)
        hindrance = self.hindrance(hold)
        if hold.waiting_for:
            return
        if record.get(AGAIN) and condition != CHANGED_MEANWHILE:
            hold.tell(self._told_again(hold))
        if condition == CHANGED_MEANWHILE:
            hold.tell(self.conflict(hold))
        elif hindrance:
            hold.tell(hindrance)
        elif condition not in (NONE, REBOOTED) or not self.is_back(record, hold.seen):
            record = dict(record, phase=RESTORING)
            yield record
            if self.needs_start(hold.seen):
                self._manager.start(self.key(hold.seen))
                hold.acted = True
            if self.ends(hold.seen) and not record.get("started"):
                # Only now, because the start may be refused. From now on, a thing that is down has run to its end.
                record = dict(record, started=True)
                yield record
            if not self._await(hold, lambda seen: self.is_back(record, seen) or self.failure(record, seen) is not None):
                return
            error = self.failure(record, hold.seen)
            if error:
                raise error
        yield None

    def more(self, seen: State) -> dict[str, Any]:
        """What a new record says besides."""
        return {}

    def _wanted(self, hold: Hold[State], events: Events) -> Record | None:
        """The record as it should be before anything is stopped; None: no record."""
        record, seen = hold.record, hold.seen
        if record is None:
            return self._new_record(seen, events) if self.is_up(seen) else None
        condition = self.condition(record, seen)
        if record["phase"] == RESTORING:
            if condition == NONE and not self.is_up(seen):
                # It ran to its end. There is nothing to stop, and it must not run once more.
                return None
            return dict(record, phase=CHANGING, boot_id=self._boot_id, events=events, **({"started": False} if "started" in record else {}))
        again = self._down_again(hold, record)
        if again is None and condition == CHANGED_MEANWHILE:
            hold.waiting_for = self._stays_on(hold.seen)
        return dict(again or record, events=events)

    def describe(self, hold: Hold[State]) -> dict[str, Any]:
        """What the module returns of a thing."""
        return dict(
            self.shown(hold.seen),
            found=hold.shown["found"] if hold.shown else None,
            held_by=holders(hold.record),
            condition=self.came_to(hold, hold.seen),
        )

    def untouched(self, hold: Hold[State]) -> bool:
        # If the start is refused, the record stays, because the thing must still be started.
        return self._request.present and self.is_up(hold.seen)

    def look_only(self) -> list[tuple[str, State, Record | None]]:
        """The things for somebody who changes nothing. What is not there any more is as good as down, and no error."""
        self._insists = False
        return self.look()

    def why_on(self, things: list[tuple[str, State, Record | None]]) -> list[str]:
        """What is not down of the things that a look has returned, in sentences."""
        return [self._why_on(record, seen) for _name, seen, record in things if not self.is_down(seen)]

    def _why_on(self, record: Record | None, seen: State) -> str:
        said = "%s is %s" % (self.label(seen), self.state(seen))
        condition = self.condition(record, seen)
        if condition == REBOOTED:
            return said + " since the host was booted anew"
        if record is None or condition != CHANGED_MEANWHILE:
            return said
        return self._stays_on(seen) if record.get(AGAIN) else said + " again, although it was stopped for the event"

    def _stays_on(self, seen: State) -> str:
        return "%s was stopped twice for the event and is %s again: end what starts it, or take it out of graceful_azure_duties" % (
            self.label(seen),
            self.state(seen),
        )

    def _down_again(self, hold: Hold[State], record: Record) -> Record | None:
        """The record of what runs again and is to be stopped once more; None if that was done before, so that a person must decide."""
        condition = self.condition(record, hold.seen)
        if condition == REBOOTED:
            return {key: value for key, value in dict(record, phase=CHANGING, boot_id=self._boot_id).items() if key != AGAIN}
        if condition == CHANGED_MEANWHILE and not record.get(AGAIN):
            hold.tell(self._told_again(hold))
            return dict(record, phase=CHANGING, **{AGAIN: True})
        return None

    def _told_again(self, hold: Hold[State]) -> str:
        return "%s was started by somebody else while it was held, and was stopped once more." % self.label(hold.seen)

    def _show(self) -> list[State]:
        records = sorted(self._store.records(self.kind), key=lambda record: record["order"])
        self._next_order = records[-1]["order"] + 1 if records else 0
        found = self.seen_now(self.targets(records))
        for seen in found:
            error = self.missing(seen)
            # What has no record needs nothing when it is released.
            if error and self._request.present and self._insists and self.key(seen) not in self._known:
                raise error
        return found

    def targets(self, records: list[Record]) -> list[Key]:
        """The keys of the things of this call, in order. ``records``: as for C(to_stop)."""
        if self._request.present:
            if self._named is None:
                raise AssertionError("only a release may leave them out")
            return self.to_stop(self._named, records)
        along_with = {self.key_in(record["subject"]): record.get("along_with") for record in reversed(records)}
        held = sorted(along_with, key=lambda key: not self.is_first(key))
        if self._named is None:
            # What is back already stays in the result.
            return self._known + [key for key in held if key not in self._known]
        # What was stopped along with another comes back after it. Before, the other might be started as well.
        # If a release was cut off between the two, only what was stopped along is left.
        ours = [key for key in held if along_with[key] in self._named or along_with[key] not in held and key in self._named]
        return ours + [key for key in reversed(self._named) if key not in held]

    def _new_record(self, seen: State, events: Events) -> Record:
        order, self._next_order = self._next_order, self._next_order + 1
        return new_record(
            self.kind, self.subject(self.key(seen)), dict(self.found), dict(self.left), events, boot_id=self._boot_id, order=order, **self.more(seen)
        )

    def _await(self, hold: Hold[State], condition: Callable[[State], bool]) -> bool:
        """Look until the condition is met or the time of the step is over. Returns whether it is met."""
        while True:
            (hold.seen,) = self.seen_now([self.key(hold.seen)])
            if condition(hold.seen):
                return True
            left = self._step_ends - self._monotonic()
            if left <= 0:
                self._wait_for(hold)
                return False
            self._sleep(min(self.pause, left))

    def _wait_for(self, hold: Hold[State]) -> None:
        hold.waiting_for = "%s is %s" % (self.label(hold.seen), self.state(hold.seen))

    def _read(self, key: Key) -> Record | None:
        return self._store.read(self.kind, self.subject(key))
