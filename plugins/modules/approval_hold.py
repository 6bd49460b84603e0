#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: approval_hold
short_description: Approve Scheduled Events of an Azure VM, and record on the VM that it was done
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Approves events as M(graceful.azure.scheduled_events_approve) does, and leaves a record on the VM, as M(graceful.azure.task_hold) does under the
    name C(approved). A later run that continues after a kill reads there who approved the event.
  - The record is written before anything is sent, and again when the approval was accepted. Until then its detail C(posted) is V(false). It stays
    V(false) if nobody can tell whether the service got the request. If the service refused the request, nothing is recorded.
extends_documentation_fragment:
  - graceful.azure._imds
  - graceful.azure._attributes.windows
  - graceful.azure._attributes
  - graceful.azure._attributes.imds
attributes:
  idempotent:
    support: partial
    details:
      - An event is approved again as long as the service shows it as Scheduled, which can take a while.
options:
  event_ids:
    description:
      - Ids of the events to approve. Upper and lower case do not matter.
    type: list
    elements: str
    required: true
  ready_resources:
    description:
      - Names of the VMs that are ready. Upper and lower case do not matter. If an event names any other VM, the task fails and nothing is
        approved.
    type: list
    elements: str
    required: true
  timeout:
    description:
      - How many seconds it may take in all to read the events again and to approve them. Without it each request is tried again as long
        as O(request_timeout) and the service's errors allow.
    type: float
  ready_until:
    description:
      - Until when O(ready_resources) is true, in seconds since 1970 by the host's clock. Nothing is sent after that.
    type: float
  record:
    description:
      - Whether to write the record.
    type: bool
    default: true
  event_details:
    description:
      - What else to keep in the record about the events, as a dictionary for each event id.
      - If the C(event_type) given here differs from the event's present type, the event is not approved.
    type: dict
    default: {}
  reason:
    description:
      - The reason, for the person who reads the record.
    type: str
    default: ""
  state_dir:
    description:
      - The folder for records on the VM. It is made if missing, and only its owner can read it.
    type: path
    default: /var/lib/graceful_azure
seealso:
  - module: graceful.azure.scheduled_events_approve
  - module: graceful.azure.task_hold
"""

EXAMPLES = r"""
- name: Approve an event, because these two VMs are ready
  graceful.azure.approval_hold:
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    ready_resources: [web_1, web_2]

- name: Approve it only if it is still a reboot and that takes no more than 20 seconds
  graceful.azure.approval_hold:
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    ready_resources: [web_1, web_2]
    event_details:
      602d9444-d2cd-49c7-8624-8643e7171297: {event_type: Reboot}
    reason: Both are out of the load balancer.
    timeout: 20

- name: Look at what happens to this host
  graceful.azure.scheduled_events_info:
    affecting_host_only: true
    event_statuses: [Scheduled]
  register: upcoming

- name: Approve all of it, if it names no other VM, and record it
  graceful.azure.approval_hold:
    event_ids: "{{ upcoming.events | map(attribute='event_id') }}"
    ready_resources: ["{{ upcoming.resource_name }}"]
  register: approval
  when: upcoming.events | length > 0

- name: Show what needed no approval any more, and why
  ansible.builtin.debug:
    msg: "{{ item.event_id }}: {{ item.reason }}"
  loop: "{{ approval.not_approved | default([]) }}"
  loop_control:
    label: "{{ item.event_id }}"
"""

RETURN = r"""
approved:
  description: Ids of the approved events. In check mode, those that would be approved.
  returned: success
  type: list
  elements: str
  sample: [602d9444-d2cd-49c7-8624-8643e7171297]
not_approved:
  description: Events for which no approval was sent.
  returned: success
  type: list
  elements: dict
  contains:
    event_id:
      description: Id of the event.
      type: str
    reason:
      description: V(started) or V(absent).
      type: str
  sample:
    - event_id: 3474C1DD-0917-49F4-85F7-84B9E366719B
      reason: started
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils._approving import Approval, RefusedError
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Driver, Engine
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import HELD, HoldError, Request, Store, fold, hold_argument_spec, holders, new_record
from ansible_collections.graceful.azure.plugins.module_utils._imds import ImdsError, ImdsStatusError, check_seconds, client_from_params, imds_argument_spec
from ansible_collections.graceful.azure.plugins.module_utils._selection import SelectionError

KIND = "task"
SUBJECT = {"name": "approved"}


class Approved(Driver):
    """The driver for the record of what was approved. Nothing else is changed on the VM."""

    def __init__(self, store, forgotten):
        self._store = store
        self._forgotten = forgotten

    def look(self):
        return [(SUBJECT["name"], SUBJECT, self._store.read(KIND, SUBJECT))]

    def view(self, record, seen):
        return {"held_by": holders(record)}

    def put(self, hold, events):
        events = {event_id: entry for event_id, entry in events.items() if fold(event_id) not in self._forgotten}
        record = hold.record or new_record(KIND, SUBJECT, {}, {}, {})
        yield dict(record, events=events, done=True, phase=HELD) if events else None


class Record:
    """Records which events are approved. Each step locks the folder. The lock is free while the request is sent."""

    def __init__(self, params, store=None):
        request = Request.from_params(dict(params, state="present"))
        self.store, self.reason, self.details = store or Store(params["state_dir"]), request.reason, request.details
        self.added = []
        self.unsure = set()

    def begin(self, event_ids):
        """Record that these events are about to be sent. Events that were accepted before stay as they are."""
        with self.store.locked(create=True):
            events = (self.store.read(KIND, SUBJECT) or {"events": {}})["events"]
            sure = {fold(event_id) for event_id, entry in events.items() if (entry.get("details") or {}).get("posted", True)}
            new = [event_id for event_id in event_ids if fold(event_id) not in sure]
            # An earlier try may have reached the service, whatever happens to this one.
            self.unsure |= {fold(event_id) for event_id in events} - sure - {fold(event_id) for event_id in self.added}
            self.added += [event_id for event_id in new if event_id not in self.added]
            self._write(new, posted=False)

    def end(self, approved, unsure=False):
        """Record which events were accepted. Events that were not sent are removed, unless an earlier try may have been accepted."""
        kept = {fold(event_id) for event_id in approved}
        gone = set() if unsure else {fold(event_id) for event_id in self.added} - kept - self.unsure
        with self.store.locked():
            self._write([event_id for event_id in self.added if fold(event_id) in kept], posted=True, forgotten=gone)

    def _write(self, event_ids, posted, forgotten=()):
        details = {fold(event_id): dict(self.details.get(fold(event_id)) or {}, posted=posted) for event_id in event_ids}
        Engine(Approved(self.store, forgotten), self.store, Request(True, event_ids, self.reason, details)).step()


def argument_spec():
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


def run(params, check_mode, client_of=None, store=None, now=None):
    """Returns the result and the warnings. ``client_of`` makes the client of the service from the options. ``now``: the host's clock."""
    client = (client_of or client_from_params)(params)
    deadline = None if params["timeout"] is None else client.monotonic() + check_seconds("timeout", params["timeout"], positive=True)
    approval = Approval.from_params(client, params)
    approval.now = now or time.time
    record = Record(params, store)
    try:
        approved, not_approved, warnings = approval.send(check_mode, record.begin if params["record"] else None, deadline, params["ready_until"])
    except (ImdsStatusError, RefusedError) as error:
        # If the service itself failed, it may have approved the events before.
        if record.added and not (isinstance(error, ImdsStatusError) and error.status >= 500):
            record.end([], approval.unsure)
        raise
    if record.added:
        try:
            record.end(approved, approval.unsure)
        except HoldError as error:
            warnings = [*warnings, str(error)]
    return {"changed": bool(approved), "approved": approved, "not_approved": not_approved}, warnings


def main():
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result, warnings = run(module.params, module.check_mode)
    except (ImdsError, SelectionError, RefusedError, HoldError, ValueError) as error:
        module.fail_json(msg=str(error))
    for warning in warnings:
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
