# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hold of the fast path: a record beside those of the collection's modules, which ``graceful.azure.holds`` shows."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.module_utils._hold_records import (
    CHANGING,
    HELD,
    HoldError,
    Request,
    Store,
    fold,
    holders,
    new_record,
    scan_records,
)
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import APPROVED, BEING_RESTORED, FAST_PATH, TASK, was_posted

_SUBJECT = {"name": FAST_PATH}
# Another process keeps the folder for milliseconds. Who is stuck must not stop the watcher.
_LOCK_SECONDS = 0.5
# The playbooks forget these records last, once the host is back in its load balancer.
_FORGOTTEN_LAST = (APPROVED, BEING_RESTORED)


def look(state_dir):
    """The ids of the events that hold anything on this host, and of those whose records are forgotten last; None: that cannot be told."""
    try:
        records, problems = scan_records(state_dir)
    except HoldError:
        return None, set()
    held, last = set(), set()
    for record in records:
        name = record["subject"].get("name") if record["kind"] == TASK else None
        if name == FAST_PATH:
            # The watcher's own: what it does is undone by no job.
            continue
        ids = {fold(event_id): entry for event_id, entry in record["events"].items()}
        held.update(ids)
        if name in _FORGOTTEN_LAST:
            # An approval that may not have been sent is forgotten without anything being restored.
            last.update(event_id for event_id, entry in ids.items() if was_posted(entry.get("details")))
    return None if problems else held, last


class FastHold:
    Error = HoldError

    def __init__(self, state_dir):
        self._store = Store(state_dir, lock_seconds=_LOCK_SECONDS)

    def read(self):
        """The ids that hold it, and whether the command had come to its end. Raises HoldError if the record cannot be read."""
        record = self._store.read(TASK, _SUBJECT)
        return ([], False) if record is None else (holders(record), record["done"])

    def write(self, ids, done, events):
        """Record that these events hold it, or that none does any more. Raises HoldError if the record cannot be written."""
        with self._store.locked(create=bool(ids)):
            record = self._store.read(TASK, _SUBJECT)
            if not ids:
                if record is not None:
                    self._store.delete(record)
                return
            details = {event["event_id"]: {"resources": event["resources"], "event_type": event["event_type"]} for event in events}
            request = Request(True, ids, "fast path of the watcher", {fold(key): value for key, value in details.items()})
            if record is None:
                record = new_record(TASK, _SUBJECT, {}, {}, {}, done=False)
            self._store.write(dict(record, events=request.added_to(record["events"]), done=done, phase=HELD if done else CHANGING))
