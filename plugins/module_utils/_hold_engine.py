# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.
# Do not use this from other collections or standalone plugins/modules!

"""What is done about holds, whatever is held: put them, release them, and continue what was cut off.

The engine knows records and events, and the order in which records are written and things are changed. It knows nothing of what is held.
A C(Driver) knows one kind of thing: it looks at it, compares it with what was found and what was left, and changes it.

A record is written, and synced to disk, before the change that it speaks of (phase ``changing`` or ``restoring``), and once more when the
change is seen to be done. So a run that continues what was cut off takes the same way as every run.
"""

from __future__ import annotations

import collections
import itertools
import time

from ansible_collections.graceful.azure.plugins.module_utils._hold_records import RESTORING, same_content

# Conditions of a thing that every driver may tell, besides HELD.
NONE = "none"
CHANGED_MEANWHILE = "changed_meanwhile"

# So often a thing is changed and looked at again before it counts as one that does not obey.
ROUNDS = 5


class Driver:
    """What the engine asks of a driver.

    ``put`` and ``give_back`` are generators. Each record that they yield is written before they go on, and None deletes the record.
    So what stands after a C(yield) happens when the record is on disk.
    """

    # What is raised if the thing refused a change, so that nothing was changed.
    Refused = ()
    # Whether each thing is changed only when the one before is done. All are recorded before the first is taken out then: one may go along
    # with another.
    in_order = False
    # How long to wait between two steps, in seconds.
    pause = 0.5

    def check(self):
        """Raise an error for a mistake in the options. Nothing is locked and no folder made yet."""

    def look(self):
        """The things that this call is about, in the order in which they are changed: for each its name, what is seen of it, and its record.

        None is seen of a thing that does not exist any more.
        """
        raise NotImplementedError

    def condition(self, record, seen):
        """What became of the hold."""
        return NONE

    def view(self, record, seen):
        """What a diff shows of the thing."""
        raise NotImplementedError

    def refusals(self, holds):
        """Why nothing may be held now, one sentence each."""
        return []

    def put(self, hold, events):
        """Hold the thing for these events: those on the record and those of the request."""
        raise NotImplementedError

    def keep(self, hold, record):
        """The record of a thing that other events still hold."""
        return record

    def give_back(self, hold):
        """Change the thing back, because no event holds it any more."""
        raise NotImplementedError

    def gone(self, hold):
        """What to tell if the thing does not exist any more and its record goes, too."""

    def untouched(self, hold):
        """Whether a record that was written for this thing is taken back if the driver is refused."""
        return True

    def stuck(self):
        """The error to raise if the things do not obey."""
        raise NotImplementedError


class Hold:
    """One thing in this call: what was there at first, what is there now, and what is told of it."""

    def __init__(self, name, seen, record, before):
        self.name = name
        self.seen = seen
        self.first = self.record = self.shown = record
        self.before = before
        self.condition = NONE
        self.conflict = None
        self.waiting_for = None
        # Whether the thing itself was changed, and whether it was told something in this round and has to be looked at again.
        self.acted = False
        self.told = False

    def tell(self, conflict):
        """Say what somebody else did, unless something was said already."""
        self.conflict = self.conflict or conflict

    @property
    def changed(self):
        if self.acted or (self.record is None) != (self.first is None):
            return True
        return self.record is not None and self.record["events"] != self.first["events"]


class Engine:
    """Puts or releases holds on the things of one driver. Under the lock, each step looks, records and changes in one go."""

    def __init__(self, driver, store, request, monotonic=time.monotonic, sleep=time.sleep):
        self.driver = driver
        self.store = store
        self.request = request
        self._monotonic = monotonic
        self._sleep = sleep
        # Everything that this call was about, by name, and what the last step was about.
        self.holds = collections.OrderedDict()
        self.current = []
        self.refused = []
        self._continued = False

    def run(self, timeout=0.0):
        """Take one step, and further ones until nothing is waited for or the time is over. Between them the lock is free."""
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

    def step(self):
        """One step. The caller has the lock."""
        self._look()
        for hold in self.current:
            hold.waiting_for = None
            hold.condition = self.driver.condition(hold.record, hold.seen)
        if self.request.present:
            for hold in self.current:
                # Whether a record would become too large shows before the first is written.
                self._events(hold.record)
            self.refused = self.driver.refusals(self.current)
            if self.refused:
                return
        for _round in range(ROUNDS):
            self._take_round()
            if not any(hold.told for hold in self.current):
                return
            self._look()
        raise self.driver.stuck()

    @property
    def changed(self):
        return any(hold.changed for hold in self.holds.values())

    @property
    def conflicts(self):
        return [hold.conflict for hold in self.holds.values() if hold.conflict]

    @property
    def waiting_for(self):
        return [hold.waiting_for for hold in self.current if hold.waiting_for]

    @property
    def diff(self):
        return {
            "before": {name: hold.before for name, hold in self.holds.items()},
            "after": {hold.name: self.driver.view(hold.record, hold.seen) for hold in self.current},
        }

    def _look(self):
        self.current = []
        for name, seen, record in self.driver.look():
            if name not in self.holds:
                self.holds[name] = Hold(name, seen, record, self.driver.view(record, seen))
            hold = self.holds[name]
            hold.seen, hold.record, hold.shown, hold.told = seen, record, record or hold.shown, False
            self.current.append(hold)

    def _take_round(self):
        """Take every hold as far as it gets before the things have to be looked at again."""
        together = self.driver.in_order and self.request.present
        for holds in [self.current] if together else [[hold] for hold in self.current]:
            moves = [(hold, hold.record, self._move(hold)) for hold in holds]
            for hold, _before, move in moves:
                self._write(hold, itertools.islice(move, 1))
            intents = [hold.record for hold in holds]
            for hold, _before, move in moves:
                try:
                    self._write(hold, move)
                except self.driver.Refused:
                    # Nothing was changed, so the records say again what they said.
                    for (other, before, _move), intent in zip(moves, intents):
                        if same_content(other.record, intent) and self.driver.untouched(other):
                            self._write(other, [before])
                    raise
                if not (hold.conflict and hold.condition == CHANGED_MEANWHILE):
                    hold.condition = self.driver.condition(hold.record, hold.seen)
                if self.driver.in_order and hold.waiting_for:
                    return

    def _move(self, hold):
        """What has to be done about one hold. Yields records as drivers do."""
        record = hold.record
        if self.request.present and hold.seen is not None:
            yield from self.driver.put(hold, self._events(record))
            return
        if record is None:
            return
        begun = record["phase"] == RESTORING
        # A release that waits leaves alone what was held again meanwhile, for whatever event. Where things are given back in order, a step
        # may not have come to this one yet, so the phase does not tell.
        if self._continued and not begun and not self.driver.in_order:
            return
        remaining = self.request.taken_from(record["events"])
        if remaining and not (begun and hold.seen is not None):
            yield self.driver.keep(hold, dict(record, events=remaining))
        elif hold.seen is None:
            hold.tell(self.driver.gone(hold))
            yield None
        else:
            yield from self.driver.give_back(hold)

    def _events(self, record):
        """The events of the record and the request. Those that are being released do not hold any more."""
        return self.request.added_to({} if record is None or record["phase"] == RESTORING else record["events"])

    def _write(self, hold, records):
        for record in records:
            self.store.replace(hold.record, record)
            hold.record = record
            hold.shown = record or hold.shown
