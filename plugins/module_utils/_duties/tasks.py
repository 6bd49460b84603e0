# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the user's own task files do. Ansible runs the files; here is only the record of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.tasks import FORMER_RECORD, OPTIONS, option_mistakes, record_of_tasks
from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import IN, MOVING, NO_NAME, OUT, Duty, holding
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Driver, Engine
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import CHANGING, HELD, hold_argument_spec, holders, new_record, same_content
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import TASK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import Act, Call
    from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
    from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Hold, RecordReader
    from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Events, Record, Request


class TasksDuty(Duty):
    type = "tasks"
    # A task file is on the controller. Here its path is a word.
    options = {name: dict(spec, type="str") if spec["type"] == "path" else spec for name, spec in OPTIONS.items()}
    own_mistakes = staticmethod(option_mistakes)

    @property
    def brings_traffic(self) -> bool:
        return bool(self.given["traffic"])

    def look(self) -> dict[str, Any]:
        record = self.machine.store().read(TASK, {"name": self.record})
        if record is None and self.brings_traffic:
            record = self.machine.store().read(TASK, {"name": FORMER_RECORD})
        details = {"record": self.record}
        if not self.given.get("out"):
            # There is nothing to take off.
            return self.seen(OUT, None, held_by=holders(record), details=details)
        if record is None:
            return self.seen(IN, None, busy=["%s has not run" % self.given["out"]], details=details)
        if not record["done"]:
            return self.seen(MOVING, None, busy=[_unfinished(self.given["out"])], held_by=holders(record), details=details)
        if not self.brings_traffic and record.get("boot_id") != self.machine.boot_id():
            again = "%s did not run since the host was booted anew" % self.given["out"]
            return self.seen(IN, None, busy=[again], held_by=holders(record), why=[again], details=details)
        return self.seen(OUT, None, held_by=holders(record), details=details)

    def change(self, act: Act) -> dict[str, Any]:
        store = self.machine.store()
        # What changes the host itself ends with its boot. What sends it traffic is elsewhere.
        boot_id = None if self.brings_traffic else self.machine.boot_id()
        told = put(store, act.request, [self.record], act.done, boot_id)
        is_there = told["done"] if act.request.present else not told["last"] or bool(act.done) or not told["held"]
        way = "out" if act.request.present else "back"
        waiting_for = [] if is_there or not self.given.get(way) else [_unfinished(self.given[way])]
        return dict(told, done=not waiting_for, waiting_for=waiting_for, conflicts=[])

    @property
    def record(self) -> str:
        """The name of its record."""
        return record_of_tasks(self.name, self.given)


def _unfinished(file: str) -> str:
    return "%s has not run to its end" % file


class TaskRecords(Driver[str]):
    """The driver for the user's own tasks. They change things themselves, so there is only the record. ``boot_id``: this boot, if what is done ends with it."""

    def __init__(self, store: RecordReader, request: Request, names: list[str], done: bool | None, boot_id: str | None = None) -> None:
        self._boot_id = boot_id
        self._store = store
        self._request = request
        self._names = names
        self._done = done

    def look(self) -> list[tuple[str, str, Record | None]]:
        return [(name, name, self._store.read(TASK, {"name": name})) for name in self._names]

    def view(self, record: Record | None, seen: str) -> dict[str, Any]:
        return {"done": bool(record and record["done"])}

    def put(self, hold: Hold[str], events: Events) -> Iterator[Record | None]:
        record = hold.record or new_record(TASK, {"name": hold.name}, {}, {}, {}, done=False)
        if record["done"] and self._boot_id is not None and record.get("boot_id") != self._boot_id:
            record = dict(record, done=False)
        if self._done and not record["done"]:
            record = dict(record, done=True, done_since=self._request.now)
            if self._boot_id is not None:
                record["boot_id"] = self._boot_id
        elif self._done is False and not set(events) <= set(record["events"]):
            record = dict(record, done=False)
        yield dict(record, events=events, phase=HELD if record["done"] else CHANGING)

    def keep(self, hold: Hold[str], record: Record) -> Record:
        # It was held again after its undoing had begun, and now it is undone.
        return dict(record, done=False, phase=CHANGING) if self._done else record

    def give_back(self, hold: Hold[str], record: Record) -> Iterator[Record | None]:
        # One call says that the undoing begins, and a later one that it is done.
        yield dict(record, done=False, phase=CHANGING) if self._done is False else None


def hold_spec() -> dict[str, Any]:
    """The options of C(hold)."""
    return dict(
        hold_argument_spec(),
        name={"type": "list", "elements": "str", "required": True},
        done={"type": "bool"},
        this_boot={"type": "bool", "default": False},
        journal={"type": "dict", "default": {}},
    )


def hold(params: Mapping[str, Any], machine: Machine, request: Request) -> dict[str, Any]:
    """Write or remove records of these names. C(journal): what the journal of the host is told after that."""
    names = list(dict.fromkeys(params["name"]))
    if not names or not all(name.strip() for name in names):
        raise ValueError(NO_NAME)
    told = put(machine.store(), request, names, params["done"], machine.boot_id() if params["this_boot"] else None)
    if params["journal"] and not machine.check_mode and not machine.note(params["journal"]):
        told["journal_missed"] = True
    return told


def put(store: Any, request: Request, names: list[str], done: bool | None, boot_id: str | None) -> dict[str, Any]:
    """Write or remove the records of these names. Returns what they said before and say now."""
    engine = Engine(TaskRecords(store, request, names, done, boot_id), store, request)
    engine.run()
    before = [hold.first for hold in engine.current]
    after = [hold.record for hold in engine.current]
    return {
        "changed": not all(map(same_content, before, after)),
        "held": any(before),
        "done": all(record and record["done"] for record in after),
        "last": not request.present and any(record and not request.taken_from(record["events"]) for record in before),
        "held_by": list(dict.fromkeys(event_id for record in after for event_id in holders(record))),
        "diff": engine.diff,
    }


DUTIES: dict[str, type[Duty]] = {"tasks": TasksDuty}
CALLS: dict[str, Callable[[], Call]] = {"task_hold": lambda: holding(hold_spec(), hold)}
