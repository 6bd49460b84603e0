# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes this host's own health answer fail, so that whoever probes it sends no new requests: the driver for the hold engine.

The balancer is told nothing. It asks the host, and must have noticed after a time that the user knows. How the answer is made to fail is in
C(_health_actions).
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._conditions import ALREADY_OUT, AS_LEFT, CHANGED_MEANWHILE, FAILING, LOST, NONE, PASSING, UNDER_WAY
from ansible_collections.graceful.azure.plugins.module_utils._connections import ConnectionsError, counted, parse_address
from ansible_collections.graceful.azure.plugins.module_utils._file_systems import identity_of
from ansible_collections.graceful.azure.plugins.module_utils._health_actions import (
    Dry,
    ProbeError,
    Refused,
    SeenAnswer,
    action_from,
    action_of,
    as_recorded,
    steady_clock,
    subject_of,
)
from ansible_collections.graceful.azure.plugins.module_utils._health_check import ask_url
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Driver
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import CHANGING, HELD, RESTORING, check_writable, holders, new_record
from ansible_collections.graceful.azure.plugins.module_utils._new_connections import Arrivals
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import HEALTH_PROBE, may_have_passed
from ansible_collections.graceful.azure.plugins.module_utils._systemd import Systemd

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._connections import Counted
    from ansible_collections.graceful.azure.plugins.module_utils._health_actions import Action
    from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Hold, RecordReader
    from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Events, Record, Request
    from ansible_collections.graceful.azure.plugins.module_utils._timeout import RunCommand

SAMPLE_SECONDS = 0.05
LOOK_SECONDS = 0.5


def condition_of(record: Record | None, seen: SeenAnswer, boot_id: str | None) -> str:
    """What became of the hold on a health answer.

    none               it passes, and there is no hold
    already_out        it fails, but we did not make it fail
    held               it fails, as we left it
    changing           it is about to fail, or to pass again
    lost               it should fail and passes, but no person has changed it: the host was booted anew, or the run that should have made it
                       fail was cut off
    changed_meanwhile  it passes in the same boot although we made it fail: somebody else has changed it
    """
    if record is None:
        return ALREADY_OUT if seen.fails else NONE
    if seen.fails:
        return AS_LEFT
    if seen.moves and record["phase"] != HELD:
        return UNDER_WAY
    if record["phase"] == RESTORING:
        return NONE
    if record["phase"] == CHANGING or record["boot_id"] != boot_id:
        return LOST
    return CHANGED_MEANWHILE


def failing_for(action: Action, record: Record | None, condition: str, boot_id: str | None, clock: float) -> float | None:
    """For how many seconds the health answer has failed; None if it does not, or if nobody can tell. After a reboot, the time begins with the boot."""
    if condition == ALREADY_OUT:
        return action.out_for()
    if condition != AS_LEFT:
        return None
    if record is None:
        raise AssertionError("so it is held")
    if record["phase"] != HELD:
        return 0.0
    held, redone = clock - (record["clock"] if record["boot_id"] == boot_id else 0.0), action.redone_for()
    return max(0.0, held if redone is None else min(held, redone))


class HealthAnswers(Driver[SeenAnswer]):
    """Health answers of this host: the one of an action, or all that are on record.

    ``action_of`` makes the action of a record. ``passes``: whether the probe's answer passes where it is asked; None if it is not asked.
    """

    Refused = (Refused,)

    def __init__(
        self,
        store: RecordReader,
        request: Request,
        action: Action | None,
        action_of: Callable[[Record], Action],
        boot_id: str,
        dry: bool = False,
        clock: Callable[[], float] = steady_clock,
        passes: Callable[[], bool | None] = lambda: None,
    ) -> None:
        self._store = store
        self._request = request
        self._action = action
        self._action_of = action_of
        self._boot_id = boot_id
        self._dry = dry
        self._clock = clock
        self._passes = passes
        self._actions: list[Action] | None = None

    def check(self) -> None:
        if self._action and self._request.present:
            self._action.check()

    def look(self) -> list[tuple[str, SeenAnswer, Record | None]]:
        if self._actions is None:
            own = as_recorded(self._action, record_of(self._store, self._action)) if self._action else None
            if own and self._request.present:
                found = [own]
            else:
                found = [self._action_of(record) for record in self._store.records(HEALTH_PROBE)]
                if own and (own.name, own.on) not in [(action.name, action.on) for action in found] and record_of(self._store, own):
                    found.append(own)
            self._actions = [Dry(action) for action in found] if self._dry else found
        things = []
        for action in self._actions:
            record = record_of(self._store, action)
            things.append((_called(action), action.look(record, self._boot_id), record))
        return things

    def condition(self, record: Record | None, seen: SeenAnswer) -> str:
        return condition_of(record, seen, self._boot_id)

    def view(self, record: Record | None, seen: SeenAnswer) -> dict[str, Any]:
        return {"state": FAILING if seen.fails else PASSING}

    def describe(self, hold: Hold[SeenAnswer]) -> dict[str, Any]:
        """What the modules return of a health answer."""
        action = self._named(hold)
        seen = action.look(hold.record, self._boot_id)
        return describe(action, seen, hold.record, self.came_to(hold, seen), self._boot_id, self._clock())

    def untouched(self, hold: Hold[SeenAnswer]) -> bool:
        action = self._named(hold)
        # A command that failed may have done a part of its work.
        if not self._request.present or action.name == "command":
            return False
        # So may what was told to stop, and a file that cannot be removed again.
        seen = action.look(hold.record, self._boot_id)
        return not seen.fails and not seen.moves

    def put(self, hold: Hold[SeenAnswer], events: Events) -> Iterator[Record | None]:
        action, record = self._named(hold), hold.record
        condition = self.condition(record, hold.seen)
        if condition == ALREADY_OUT:
            yield None
            return
        if condition in (NONE, LOST):
            if record is not None and condition == LOST and record["phase"] == HELD:
                events = self._request.anew(events)
            record = new_record(
                HEALTH_PROBE,
                subject_of(action.name, action.on),
                self._found(record, events),
                {"state": FAILING},
                events,
                boot_id=self._boot_id,
                clock=self._clock(),
                **action.more,
            )
            yield record
            action.fail(record)
            hold.acted = True
            # A command counts as done when it has ended well, and the record says so.
            if action.name != "command":
                hold.seen = action.look(record, self._boot_id)
                condition = self.condition(record, hold.seen)
                if condition != AS_LEFT:
                    hold.waiting_for = hold.seen.told
                    return
            yield dict(record, phase=HELD, clock=self._clock())
            return
        if record is None:
            raise AssertionError("all other conditions are those of a hold")
        record = dict(record, events=events, found=self._found(record, events))
        if condition == UNDER_WAY:
            hold.waiting_for = hold.seen.told
            if record["phase"] == RESTORING:
                # It is about to pass again. When it does, it is made to fail again.
                record = dict(record, phase=CHANGING)
        elif condition == CHANGED_MEANWHILE:
            hold.tell(self.conflict(hold))
        elif record["phase"] == CHANGING:
            action.complete(record)
            record.update(phase=HELD, boot_id=self._boot_id, clock=self._clock())
        else:
            record["phase"] = HELD
            if record["boot_id"] != self._boot_id:
                # It has failed since the boot. If a person lets it pass in this boot, that is no loss.
                record.update(boot_id=self._boot_id, clock=0.0)
        yield record

    def give_back(self, hold: Hold[SeenAnswer], record: Record) -> Iterator[Record | None]:
        action = self._named(hold)
        condition = self.condition(record, hold.seen)
        if condition == CHANGED_MEANWHILE:
            hold.tell(self.conflict(hold))
        elif condition == UNDER_WAY:
            yield dict(record, phase=RESTORING)
            hold.waiting_for = hold.seen.told
            return
        elif condition == AS_LEFT or action.name == "command":
            if record["phase"] == CHANGING:
                # From the next phase on, a file that has only a part of the mark is somebody else's.
                action.complete(record)
            # Whether a command was cut off before its end or after it, nobody can tell.
            record = dict(record, phase=RESTORING)
            yield record
            said = action.pass_again()
            if said:
                hold.tell(said)
            else:
                hold.acted = True
                hold.seen = action.look(None, self._boot_id)
                if hold.seen.fails or hold.seen.moves:
                    hold.waiting_for = hold.seen.told
                    return
        yield None

    def _found(self, record: Record | None, events: Events) -> dict[str, Any]:
        """What was found. An answer that did not pass before the hold may have since, if it is slow to fail: then this tells it.

        Where a run has seen it pass (C(passed) of the details of an event), what was handed over since may make it fail.
        """
        found = dict(record["found"]) if record else {"state": PASSING}
        if record is None or not may_have_passed(found):
            passed = any((entry.get("details") or {}).get("passed") is True for entry in events.values())
            passes = passed or self._passes()
            found.update({} if passes is None else {"passed": passes})
        return found

    def stuck(self) -> Exception:
        return ProbeError("The health answer of this host is not as it was told.")

    def _named(self, hold: Hold[SeenAnswer]) -> Action:
        if self._actions is None:
            raise AssertionError("the things were looked at")
        return next(action for action in self._actions if _called(action) == hold.name)

    def conflict(self, hold: Hold[SeenAnswer]) -> str:
        return "The health answer was made to fail, and passes again in the same boot (%s): somebody else changed it, so it was not touched.%s" % (
            hold.seen.told,
            self._named(hold).forget(),
        )


def _called(action: Action) -> str:
    return "%s %s" % (action.name, action.on)


def record_of(store: RecordReader, action: Action) -> Record | None:
    """The record on disk. Where that is lost, what was left of it beside the thing itself."""
    return store.read(HEALTH_PROBE, subject_of(action.name, action.on)) or action.marked()


def describe(action: Action, seen: SeenAnswer, record: Record | None, condition: str, boot_id: str | None, clock: float) -> dict[str, Any]:
    """What the modules return of a health answer."""
    return {
        "action": action.name,
        "on": action.on,
        "state": FAILING if seen.fails else PASSING,
        "told": seen.told,
        "found": record["found"] if record else None,
        "held_by": holders(record),
        "condition": condition,
        "failing_for": failing_for(action, record, condition, boot_id, clock),
        "noted": record is None or record["phase"] != CHANGING and record["boot_id"] == boot_id,
        "restoring": record is not None and record["phase"] == RESTORING,
    }


class Health:
    """What health answers need of the machine on which they are, besides what all duties do."""

    clock = staticmethod(steady_clock)
    check_writable = staticmethod(check_writable)
    sample_seconds = SAMPLE_SECONDS
    look_seconds = LOOK_SECONDS

    def __init__(self, run_command: RunCommand) -> None:
        self._run_command = run_command
        self._systemd = Systemd(run_command)

    def action_from(self, params: Mapping[str, Any]) -> Action | None:
        return action_from(params, self._systemd, self._run_command)

    def action_of(self, record: Record) -> Action:
        return action_of(record, self._systemd, self._run_command)

    @staticmethod
    def arrivals(ports: Collection[int], peers: Collection[str], monotonic: Callable[[], float]) -> Any:
        return Arrivals(ports, peers, monotonic)

    @staticmethod
    def file_id(path: str) -> str | None:
        return identity_of(path)

    @staticmethod
    def connections(ports: Collection[int]) -> Counted:
        return counted(ports)

    @staticmethod
    def ask(url: str, seconds: float, arrivals: Any = None) -> tuple[bool, str | None]:
        """Whether anybody accepts a connection there, and None if the URL answers, otherwise why not.

        As for a probe, any certificate will do. Connections that come meanwhile are counted in C(arrivals).
        """
        own: list[Any] = []
        readings: list[Any] = []
        with _read_on(arrivals, readings) if arrivals else contextlib.nullcontext():
            # It may be on one of the ports whose new connections are counted, and this is none.
            said = ask_url(url, seconds, validate_certs=False, leave_no_trace=True, connected=own.append)
        but = (parse_address(own[0][0].split("%", 1)[0]), own[0][1]) if own else None
        for reading in readings:
            arrivals.see(reading, but)
        return bool(own), said


@contextlib.contextmanager
def _read_on(arrivals: Any, readings: list[Any]) -> Iterator[None]:
    """Read the kernel's tables all the time while something else waits. It must be this thread that waits, because of its alarm clock."""
    done = threading.Event()

    def read() -> None:
        while not done.wait(SAMPLE_SECONDS):
            try:
                readings.append(arrivals.read())
            except ConnectionsError:
                return  # the next reading of the main thread says it

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield
    finally:
        done.set()
        reader.join()
