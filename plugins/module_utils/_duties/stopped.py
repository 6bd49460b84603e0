# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The base of duties whose things are stopped one after the other, by a driver that is a subclass of C(StoppedInOrder)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._conditions import CHANGED_MEANWHILE, REBOOTED
from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import IN, MOVING, OUT, Duty, outcome
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import AGAIN, Engine
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Request, holders
from ansible_collections.graceful.azure.plugins.module_utils._stopped_in_order import STARTING, STOPPING, DryManager

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import Act
    from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
    from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Record
    from ansible_collections.graceful.azure.plugins.module_utils._stopped_in_order import StoppedInOrder


class StoppedDuty(Duty):
    driver: type[StoppedInOrder[Any, Any]]

    @staticmethod
    def manager(machine: Machine) -> Any:
        """What the driver asks and tells about the things of a machine."""
        raise NotImplementedError

    @property
    def keys(self) -> list[Any]:
        """Their keys, in the order in which they are stopped."""
        return [self.name]

    def look(self) -> dict[str, Any]:
        """What is seen of them, those that are stopped along with them too."""
        driver = self.driver(self.manager(self.machine), self.machine.store(), Request(True, []), self.keys)
        driver.later = self.later
        things = driver.look_only()
        # What runs is there, such as a service whose file was removed.
        missing = [driver.missing(thing) for _name, thing, record in things if record is None and driver.is_down(thing)]
        if things and len(missing) == len(things) and all(missing):
            return dict(self.unseen(missing[0]), details={"missing": True})
        conditions = [driver.condition(record, thing) for _name, thing, record in things]
        down = [driver.is_down(thing) for _name, thing, _record in things]
        is_moving = any(condition in (STOPPING, STARTING) for condition in conditions) or any(down) and not all(down)
        return self.seen(
            OUT if all(down) else MOVING if is_moving else IN,
            any(driver.is_up(thing) for _name, thing, _record in things),
            busy=driver.why_on(things),
            held_by=[event_id for _name, _thing, record in things for event_id in holders(record)],
            problem=next((str(error) for error in missing if error), None),
            why=[sentence for (_name, thing, record), condition in zip(things, conditions) for sentence in _others(driver, thing, record, condition)],
            details={
                "things": [
                    dict(driver.shown(thing), held_by=holders(record), condition=condition) for (_name, thing, record), condition in zip(things, conditions)
                ]
            },
        )

    def change(self, act: Act) -> dict[str, Any]:
        return outcome(self.run(self.machine, act.request, self.keys, act.timeout, self.later))

    @classmethod
    def run(cls, machine: Machine, request: Request, wanted: list[Any] | None, timeout: float, later: Sequence[str] = ()) -> Engine[Any]:
        """Stop things in their order and hold them, or release the hold. C(wanted): their keys; None for all that are on record. C(later): the names of those
        that are stopped after them."""
        store, manager = machine.store(), cls.manager(machine)
        if machine.check_mode:
            manager, timeout = DryManager(manager, cls.driver), 0.0
        driver = cls.driver(manager, store, request, wanted, timeout, machine.monotonic, machine.sleep)
        driver.later = later
        engine = Engine(driver, store, request, machine.monotonic, machine.sleep)
        engine.run(timeout)
        return engine


def _others(driver: StoppedInOrder[Any, Any], thing: Any, record: Record | None, condition: str) -> Iterator[str]:
    """What was not our doing, in sentences."""
    if condition == CHANGED_MEANWHILE:
        yield "somebody else has started %s while it was held" % driver.label(thing)
    elif condition == REBOOTED:
        yield "%s runs again since the host was booted anew" % driver.label(thing)
    elif record is not None and record.get(AGAIN):
        yield "somebody else had started %s while it was held, and it was stopped once more" % driver.label(thing)
    elif record is None and driver.is_down(thing):
        yield "%s was down before" % driver.label(thing)
