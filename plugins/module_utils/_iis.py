# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sites and application pools of IIS, and holds on them: the driver for the engine of holds.

A site that is stopped refuses new requests, and those under way go on. A pool that is stopped ends when they have ended: until then it is stopping.
So sites are stopped before pools, and nothing is cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Tuple

from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import DriverError
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import IIS
from ansible_collections.graceful.azure.plugins.module_utils._stopped_in_order import StoppedInOrder

if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Hold
    from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Record

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


class IisRefused(IisError):
    """A change was refused."""


class Things(StoppedInOrder[Thing, ThingKey]):
    """Sites and pools."""

    Refused = IisRefused
    kind = IIS
    found, left = {"state": STARTED}, {"state": STOPPED}

    key = staticmethod(lambda thing: thing[:2])
    subject = staticmethod(lambda key: {"type": key[0], "name": key[1]})
    key_in = staticmethod(lambda subject: (subject["type"], subject["name"]))
    label = staticmethod(lambda thing: "%s %s" % thing[:2])
    state = staticmethod(lambda thing: thing.state)
    shown = staticmethod(lambda thing: thing._asdict())
    is_up = staticmethod(lambda thing: thing.state in (STARTED, STARTING))
    is_down = staticmethod(lambda thing: thing.state in (STOPPED, MISSING))
    is_back = staticmethod(lambda record, thing: thing.state == STARTED)
    needs_start = staticmethod(lambda thing: thing.state == STOPPED)

    def missing(self, seen: Thing) -> Exception | None:
        return IisError("IIS has no %s." % self.label(seen)) if seen.state == MISSING else None

    def view(self, record: Record | None, seen: Thing) -> dict[str, Any]:
        return {"state": seen.state}

    def hindrance(self, hold: Hold[Thing]) -> str | None:
        if hold.seen.state == STOPPING:
            # Our own stop is under way. When it is down, it can be started.
            self._wait_for(hold)
        if hold.seen.state == MISSING:
            return "%s was running when it was stopped and is not there any more: it was not started." % self.label(hold.seen)
        return None
