# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sites and application pools of IIS, and holds on them: the driver for the engine of holds.

A site that is stopped refuses new requests, and those under way go on. A pool that is stopped ends when they have ended: until then it is stopping.
So sites are stopped before pools, and nothing is cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Tuple

from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import AGAIN, CHANGED_MEANWHILE, NONE, REBOOTED, DriverError
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import RESTORING
from ansible_collections.graceful.azure.plugins.module_utils._stopped_in_order import StoppedInOrder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Hold
    from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Record

KIND = "iis"
SITE, POOL = "site", "pool"
STARTED, STARTING, STOPPED, STOPPING, MISSING = "started", "starting", "stopped", "stopping", "missing"

# The type of a thing, and its name.
ThingKey = Tuple[str, str]


class Thing(NamedTuple):
    """A site or an application pool: ``type`` is SITE or POOL."""

    type: str
    name: str
    state: str


class IisError(DriverError):
    """IIS cannot be asked, or does not do what it is told; the text is a full sentence."""


class Refused(IisError):
    """A change was refused."""


class Things(StoppedInOrder[Thing, ThingKey]):
    """Sites and pools."""

    Refused = Refused
    kind = KIND
    found, left = {"state": STARTED}, {"state": STOPPED}

    @staticmethod
    def key(thing: Thing) -> ThingKey:
        return thing[:2]

    @staticmethod
    def subject(key: ThingKey) -> dict[str, Any]:
        return {"type": key[0], "name": key[1]}

    @staticmethod
    def label(thing: Thing) -> str:
        return "%s %s" % thing[:2]

    @staticmethod
    def state(thing: Thing) -> str:
        return thing.state

    @staticmethod
    def shown(thing: Thing) -> dict[str, Any]:
        return {"type": thing.type, "name": thing.name, "state": thing.state}

    @staticmethod
    def is_up(thing: Thing) -> bool:
        return thing.state in (STARTED, STARTING)

    @staticmethod
    def is_down(thing: Thing) -> bool:
        return thing.state in (STOPPED, MISSING)

    @staticmethod
    def is_back(record: Record, thing: Thing) -> bool:
        return thing.state == STARTED

    def missing(self, seen: Thing) -> Exception | None:
        return IisError("IIS has no %s." % self.label(seen)) if seen.state == MISSING else None

    def view(self, record: Record | None, seen: Thing) -> dict[str, Any]:
        return {"state": seen.state}

    def give_back(self, hold: Hold[Thing], record: Record) -> Iterator[Record | None]:
        thing = hold.seen
        condition = self.condition(record, thing)
        if record.get(AGAIN) and condition != CHANGED_MEANWHILE:
            hold.tell(self._told_again(hold))
        if condition == CHANGED_MEANWHILE:
            self._tell_conflict(hold)
        elif thing.state == MISSING:
            hold.tell("%s was running when it was stopped and is not there any more: it was not started." % self.label(thing))
        elif thing.state == STOPPING:
            # Our own stop is under way. When it is down, it can be started.
            self._wait_for(hold)
            return
        elif condition not in (NONE, REBOOTED) or thing.state != STARTED:
            yield dict(record, phase=RESTORING)
            if thing.state == STOPPED:
                self._manager.start(self.key(thing))
                hold.acted = True
            if not self._await(hold, lambda seen: self.is_back(record, seen)):
                return
        yield None

    def targets(self, records: list[Record]) -> list[ThingKey]:
        if self._request.present:
            if self._named is None:
                raise AssertionError("only a release may leave them out")
            return list(self._named)
        held = [(record["subject"]["type"], record["subject"]["name"]) for record in reversed(records)]
        if self._named is None:
            return self._known + [thing for thing in held if thing not in self._known]
        return [thing for thing in held if thing in self._named] + [thing for thing in reversed(self._named) if thing not in held]
