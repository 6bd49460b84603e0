# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A service that runs on the host: a unit of systemd, or what another platform has in its place. The name of the duty is that of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.service import NAME, option_mistakes
from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import CHANGING, IN, OUT, Duty, holding, outcome
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import AGAIN, CHANGED_MEANWHILE, REBOOTED, Engine
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Request, hold_argument_spec, holders
from ansible_collections.graceful.azure.plugins.module_utils._polling import check_seconds
from ansible_collections.graceful.azure.plugins.module_utils._stopped_in_order import STARTING, STOPPING, DryManager
from ansible_collections.graceful.azure.plugins.module_utils._systemd import Services

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import Act, Call, Machine
    from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Record
    from ansible_collections.graceful.azure.plugins.module_utils._stopped_in_order import StoppedInOrder


class ServiceDuty(Duty):
    type = "service"
    names = NAME
    own_mistakes = staticmethod(option_mistakes)

    @classmethod
    def needs_name(cls, options: dict[str, Any]) -> str:
        return "give the name of the service"

    def look(self) -> dict[str, Any]:
        driver = Services(self.machine.services(), self.machine.store(), Request(True, []), [self.name])
        return look_at(self, driver)

    def change(self, act: Act) -> dict[str, Any]:
        return outcome(change(self.machine, Services, self.machine.services(), act.request, [self.name], act.timeout))


def hold_spec() -> dict[str, Any]:
    """The options of C(hold)."""
    return dict(hold_argument_spec(), services={"type": "list", "elements": "str"}, timeout={"type": "float", "default": 0})


def hold(params: Mapping[str, Any], machine: Machine, request: Request) -> dict[str, Any]:
    """Stop services in their order and hold them, or release the hold. Without C(services): all that are on record."""
    timeout = check_seconds("timeout", params["timeout"])
    if params["services"] is not None and not params["services"]:
        raise ValueError("services is an empty list: name at least one service.")
    return change(machine, Services, machine.services(), request, params["services"], timeout).result("services")


def change(machine: Machine, driver: Any, manager: Any, request: Request, wanted: list[Any] | None, timeout: float) -> Engine[Any]:
    """Stop things in their order and hold them, or release the hold. C(driver): a subclass of C(StoppedInOrder), whose manager this is."""
    store = machine.store()
    if machine.check_mode:
        manager, timeout = DryManager(manager, driver), 0.0
    engine = Engine(driver(manager, store, request, wanted, timeout, machine.monotonic, machine.sleep), store, request, machine.monotonic, machine.sleep)
    engine.run(timeout)
    return engine


def look_at(duty: Duty, driver: StoppedInOrder[Any, Any]) -> dict[str, Any]:
    """What is seen of things that are stopped in order, those that are stopped along with them too."""
    things = driver.look_only()
    # What runs is there, such as a service whose file was removed.
    missing = [driver.missing(thing) for _name, thing, record in things if record is None and driver.is_down(thing)]
    if things and len(missing) == len(things) and all(missing):
        return dict(duty.unseen(missing[0]), details={"missing": True})
    conditions = [driver.condition(record, thing) for _name, thing, record in things]
    down = [driver.is_down(thing) for _name, thing, _record in things]
    is_moving = any(condition in (STOPPING, STARTING) for condition in conditions) or any(down) and not all(down)
    return duty.seen(
        OUT if all(down) else CHANGING if is_moving else IN,
        any(driver.is_up(thing) for _name, thing, _record in things),
        busy=driver.why_on(things),
        held_by=[event_id for _name, _thing, record in things for event_id in holders(record)],
        problem=next((str(error) for error in missing if error), None),
        why=[sentence for (_name, thing, record), condition in zip(things, conditions) for sentence in _others(driver, thing, record, condition)],
        details={
            "things": [dict(driver.shown(thing), held_by=holders(record), condition=condition) for (_name, thing, record), condition in zip(things, conditions)]
        },
    )


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


DUTIES: dict[str, type[Duty]] = {"service": ServiceDuty}
CALLS: dict[str, Callable[[], Call]] = {"service_hold": lambda: holding(hold_spec(), hold, needs=("services",))}
