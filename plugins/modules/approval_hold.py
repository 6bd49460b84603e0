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

from ansible_collections.graceful.azure.plugins.module_utils._module_of_call import main_of


def main():
    main_of("approval_hold")


if __name__ == "__main__":
    main()
