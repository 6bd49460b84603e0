# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An approval through the metadata service of a host, and the record of what was approved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._approving import Approval, ApprovalRefusedError
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Driver, Engine
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import HELD, HoldError, Request, hold_argument_spec, new_record
from ansible_collections.graceful.azure.plugins.module_utils._imds import ImdsStatusError, check_seconds, imds_argument_spec
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import APPROVED, TASK, was_posted
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
    from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Hold
    from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Events, Record

SUBJECT = {"name": APPROVED}


class Approved(Driver["dict[str, str]"]):
    """The driver for the record of what was approved. Nothing else is changed on the VM."""

    def __init__(self, store: Any, forgotten: Collection[str]) -> None:
        self._store = store
        self._forgotten = forgotten

    def look(self) -> list[tuple[str, dict[str, str], Record | None]]:
        return [(SUBJECT["name"], SUBJECT, self._store.read(TASK, SUBJECT))]

    def put(self, hold: Hold[dict[str, str]], events: Events) -> Iterator[Record | None]:
        events = {event_id: entry for event_id, entry in events.items() if fold(event_id) not in self._forgotten}
        record = hold.record or new_record(TASK, SUBJECT, {}, {}, {})
        yield dict(record, events=events, done=True, phase=HELD) if events else None


class ApprovalRecords:
    """Records which events are approved. Each step locks the folder. The lock is free while the request is sent."""

    def __init__(self, store: Any, request: Request) -> None:
        self.store, self.request, self.reason, self.details = store, request, request.reason, request.details
        self.added: list[str] = []
        self.unsure: set[str] = set()

    def begin(self, event_ids: Iterable[str]) -> None:
        """Record that these events are about to be sent. Events that were accepted before stay as they are."""
        with self.store.locked(create=True):
            events = (self.store.read(TASK, SUBJECT) or {"events": {}})["events"]
            sure = {fold(event_id) for event_id, entry in events.items() if was_posted(entry.get("details"))}
            new = [event_id for event_id in event_ids if fold(event_id) not in sure]
            # An earlier try may have reached the service, whatever happens to this one.
            self.unsure |= set(map(fold, events)) - sure - set(map(fold, self.added))
            self.added += [event_id for event_id in new if event_id not in self.added]
            self._write(new, posted=False)

    def end(self, approved: Iterable[str], unsure: bool = False) -> None:
        """Record which events were accepted. Events that were not sent are removed, unless an earlier try may have been accepted."""
        kept = set(map(fold, approved))
        gone = set() if unsure else set(map(fold, self.added)) - kept - self.unsure
        with self.store.locked():
            self._write([event_id for event_id in self.added if fold(event_id) in kept], posted=True, forgotten=gone)

    def _write(self, event_ids: list[str], posted: bool, forgotten: Collection[str] = ()) -> None:
        details = {fold(event_id): dict(self.details.get(fold(event_id)) or {}, posted=posted) for event_id in event_ids}
        Engine(Approved(self.store, forgotten), self.store, Request(True, event_ids, self.reason, details, self.request.now)).step()


def argument_spec() -> dict[str, Any]:
    holds = hold_argument_spec()
    return dict(
        imds_argument_spec(),
        event_ids={"type": "list", "elements": "str", "required": True},
        ready_resources={"type": "list", "elements": "str", "required": True},
        timeout={"type": "float"},
        ready_until={"type": "float"},
        record={"type": "bool", "default": True},
        **{name: holds[name] for name in ("event_details", "reason", "state_dir")},
    )


def approve(params: Mapping[str, Any], machine: Machine) -> dict[str, Any]:
    """Approve events. Each is on record before the request is sent, and once more when it was accepted."""
    client = machine.client(params)
    deadline = None if params["timeout"] is None else client.monotonic() + check_seconds("timeout", params["timeout"], above=True)
    approval = Approval.from_params(client, params)
    approval.now = machine.clock()
    record = ApprovalRecords(machine.store(), machine.request(dict(params, state="present")))
    begin = record.begin if params["record"] else None
    try:
        approved, not_approved, warnings = approval.send(machine.check_mode, begin, deadline, params["ready_until"])
    except (ImdsStatusError, ApprovalRefusedError) as error:
        # If the service itself failed, it may have approved the events before.
        if record.added and not (isinstance(error, ImdsStatusError) and error.status >= 500):
            record.end([], approval.unsure)
        raise
    if record.added:
        try:
            record.end(approved, approval.unsure)
        except HoldError as error:
            warnings = [*warnings, str(error)]
    return {"changed": bool(approved), "approved": approved, "not_approved": not_approved, **({"warnings": warnings} if warnings else {})}
