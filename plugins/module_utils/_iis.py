# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.
# Do not use this from other collections or standalone plugins/modules!

"""Sites and application pools of IIS, and holds on them: the driver for the engine of holds.

A site that is stopped refuses new requests, and those under way go on. A pool that is stopped ends when they have ended: until then it is stopping.
So sites are stopped before pools, and nothing is cut.
"""

from __future__ import annotations

import collections
import time

from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import CHANGED_MEANWHILE, NONE, Driver
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import CHANGING, HELD, RESTORING, holders, new_record

KIND = "iis"
SITE, POOL = "site", "pool"
STARTED, STARTING, STOPPED, STOPPING, MISSING = "started", "starting", "stopped", "stopping", "missing"

# Conditions, besides those of every thing.
NOT_RUNNING = "not_running"
REBOOTED = "rebooted"
# Seconds for which one step waits for what goes down or comes up quickly, and seconds between two looks.
STEP_SECONDS = 2.0
LOOK_SECONDS = 0.5

# A site or an application pool: ``type`` is SITE or POOL.
Thing = collections.namedtuple("Thing", "type name state")


class IisError(Exception):
    """IIS cannot be asked, or does not do what it is told; the text is a full sentence."""


class Refused(IisError):
    """A change was refused."""


class DryIis:
    """An IIS that obeys at once and in memory only: for check mode."""

    def __init__(self, iis):
        self._iis = iis
        self._told = {}
        self.boot_id = iis.boot_id

    def show(self, things):
        return [thing._replace(state=self._told.get(thing[:2], thing.state)) for thing in self._iis.show(things)]

    def stop(self, thing):
        self._told[thing[:2]] = STOPPED

    def start(self, thing):
        self._told[thing[:2]] = STARTED


def is_up(thing):
    return thing.state in (STARTED, STARTING)


def condition_of(record, thing, boot_id):
    """What became of a hold.

    none               runs, and nobody says that it should not
    not_running        did not run when it was found
    stopping           is to be stopped, or on its way down
    held               is down, as we left it
    starting           is to be started again, or on its way up
    rebooted           runs again because the host was booted anew
    changed_meanwhile  runs again in the same boot: somebody else acted
    """
    if record is None:
        return NONE if is_up(thing) else STOPPING if thing.state == STOPPING else NOT_RUNNING
    if record["phase"] == RESTORING:
        return NONE if thing.state == STARTED else STARTING
    if is_up(thing) and record["boot_id"] != boot_id:
        return REBOOTED
    if record["phase"] == CHANGING:
        return HELD if thing.state == STOPPED else STOPPING
    return CHANGED_MEANWHILE if is_up(thing) else HELD


class Things(Driver):
    """Sites and pools. Each is stopped when the one before it is down, and they are started in reverse. ``things``: None for all that are held."""

    Refused = Refused
    in_order = True
    pause = LOOK_SECONDS

    def __init__(self, iis, store, request, things, monotonic=time.monotonic, sleep=time.sleep):
        self._iis = iis
        self._store = store
        self._request = request
        self._things = things
        self._monotonic = monotonic
        self._sleep = sleep
        self._boot_id = None
        # Those of all steps so far.
        self._known = []

    def check(self):
        self._refuse_missing(self._iis.show(self._targets()))

    def look(self):
        self._step_ends = self._monotonic() + STEP_SECONDS
        things = self._iis.show(self._targets())
        self._refuse_missing(things)
        if things and self._boot_id is None:
            self._boot_id = self._iis.boot_id()
        self._known += [thing[:2] for thing in things if thing[:2] not in self._known]
        return [(label(thing), thing, self._read(thing)) for thing in things]

    def condition(self, record, seen):
        return condition_of(record, seen, self._boot_id)

    def view(self, record, seen):
        return {"state": seen.state, "held_by": holders(record)}

    def describe(self, hold):
        """What the module returns of a site or a pool."""
        return {
            "type": hold.seen.type,
            "name": hold.seen.name,
            "state": hold.seen.state,
            "found": hold.shown["found"] if hold.shown else None,
            "held_by": holders(hold.record),
            "condition": CHANGED_MEANWHILE if hold.conflict else self.condition(hold.record, hold.seen),
        }

    def untouched(self, hold):
        return self._request.present and is_up(hold.seen)

    def put(self, hold, events):
        record, thing = hold.record, hold.seen
        condition = self.condition(record, thing)
        if record is None and condition == NONE:
            self._next_order += 1
            subject = {"type": thing.type, "name": thing.name}
            more = {"boot_id": self._boot_id, "order": self._next_order - 1}
            record = new_record(KIND, subject, {"state": STARTED}, {"state": STOPPED}, events, **more)
        elif record is None:
            if thing.state == STOPPING:
                self._wait_for(hold)
            yield None
            return
        elif record["phase"] == RESTORING or condition == REBOOTED and len(events) > len(record["events"]):
            # It came up with the host although earlier events held it. A new event needs it to be down.
            record = dict(record, phase=CHANGING, boot_id=self._boot_id, events=events)
        else:
            if condition == CHANGED_MEANWHILE:
                hold.tell(_conflict(thing))
            record = dict(record, events=events)
        yield record
        condition = self.condition(record, thing)
        if condition == STOPPING:
            if is_up(thing):
                self._iis.stop(thing)
                hold.acted = True
            if not self._await(hold, lambda seen: seen.state in (STOPPED, MISSING)):
                return
        if record["phase"] == CHANGING and self.condition(record, hold.seen) == HELD:
            yield dict(record, phase=HELD)

    def give_back(self, hold):
        record, thing = hold.record, hold.seen
        condition = self.condition(record, thing)
        if condition == CHANGED_MEANWHILE:
            hold.tell(_conflict(thing))
        elif thing.state == MISSING:
            hold.tell("%s was running when it was stopped and is not there any more: it was not started." % label(thing))
        elif thing.state == STOPPING:
            # Our own stop is under way. When it is down, it can be started.
            self._wait_for(hold)
            return
        elif condition not in (NONE, REBOOTED) or thing.state != STARTED:
            yield dict(record, phase=RESTORING)
            if thing.state == STOPPED:
                self._iis.start(thing)
                hold.acted = True
            if not self._await(hold, lambda seen: seen.state == STARTED):
                return
        yield None

    def _targets(self):
        records = sorted(self._store.records(KIND), key=lambda record: record["order"])
        self._next_order = records[-1]["order"] + 1 if records else 0
        if self._request.present:
            return list(self._things)
        held = [(record["subject"]["type"], record["subject"]["name"]) for record in reversed(records)]
        if self._things is None:
            return self._known + [thing for thing in held if thing not in self._known]
        return [thing for thing in held if thing in self._things] + [thing for thing in reversed(self._things) if thing not in held]

    def _refuse_missing(self, things):
        for thing in things:
            # What has no record needs nothing when it is released.
            if thing.state == MISSING and self._request.present and thing[:2] not in self._known:
                raise IisError("IIS has no %s." % label(thing))

    def _await(self, hold, condition):
        """Look until the condition is met or the time of the step is over. Returns whether it is met."""
        while True:
            hold.seen = self._iis.show([hold.seen[:2]])[0]
            if condition(hold.seen):
                return True
            left = self._step_ends - self._monotonic()
            if left <= 0:
                self._wait_for(hold)
                return False
            self._sleep(min(LOOK_SECONDS, left))

    @staticmethod
    def _wait_for(hold):
        hold.waiting_for = "%s is %s" % (label(hold.seen), hold.seen.state)

    def _read(self, thing):
        return self._store.read(KIND, {"type": thing.type, "name": thing.name})


def label(thing):
    return "%s %s" % (thing[0], thing[1])


def _conflict(thing):
    return "%s was stopped and is %s again in the same boot: somebody else started it, so it was not touched." % (label(thing), thing.state)
