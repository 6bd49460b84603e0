#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: scheduled_events_approve
short_description: Approve Scheduled Events of an Azure VM, so that they start now
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Tells the instance metadata service of the VM on which the module runs that events may start now, before their C(NotBefore).
  - An approval counts for B(all) VMs in the event's C(Resources) and cannot be taken back. Approve an event only when all of them are ready.
  - The module reads the events again before it sends anything. It approves all of them with one request.
  - An event that has started or is gone needs no approval. The task then succeeds without a change. If an event has a status other than Scheduled or
    Started, the task fails.
  - One answer that does not list an event may be wrong or old. Then the module reads again after a second, before it sends anything. If the service
    answers with an empty body each time, nobody knows whether the event is gone, and the task fails.
extends_documentation_fragment:
  - graceful.azure._imds
  - graceful.azure._attributes.windows
  - graceful.azure._attributes
  - graceful.azure._attributes.imds
attributes:
  idempotent:
    support: partial
    details:
      - As long as the service shows an event as Scheduled, it is approved again. After an approval, this may last a while.
options:
  event_ids:
    description:
      - Ids of the events to approve. Upper and lower case do not matter.
    type: list
    elements: str
    required: true
  allow_other_hosts:
    description:
      - Whether to approve events that do not name this host. With V(false), one such event fails the task, and nothing is approved.
    type: bool
    default: false
  ready_resources:
    description:
      - Names of the VMs that are ready. Upper and lower case do not matter. If an event names any other VM, the task fails and nothing is
        approved.
      - Without this option, the module only checks that C(Resources) contains this host's name.
    type: list
    elements: str
seealso:
  - module: graceful.azure.scheduled_events_info
  - module: graceful.azure.scheduled_events_wait
"""

EXAMPLES = r"""
- name: Read announced events that hit this host
  graceful.azure.scheduled_events_info:
    affecting_host_only: true
    event_statuses: [Scheduled]
  register: upcoming

- name: Let them start now, because this host is ready
  graceful.azure.scheduled_events_approve:
    event_ids: "{{ upcoming.events | map(attribute='event_id') }}"
  when: upcoming.events | length > 0

- name: Approve an event of two VMs, because both are ready
  graceful.azure.scheduled_events_approve:
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    ready_resources: [web_1, web_2]
  register: approval

- name: Show what needed no approval any more, and why
  ansible.builtin.debug:
    msg: "{{ item.event_id }}: {{ item.reason }}"
  loop: "{{ approval.not_approved }}"
  loop_control:
    label: "{{ item.event_id }}"
"""

RETURN = r"""
approved:
  description: Ids of the approved events. In check mode, ids of the events that would be approved.
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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils._approving import Approval, ApprovalRefusedError
from ansible_collections.graceful.azure.plugins.module_utils._imds import ImdsError, client_from_params, imds_argument_spec
from ansible_collections.graceful.azure.plugins.module_utils._selection import SelectionError


def argument_spec():
    return dict(
        imds_argument_spec(),
        event_ids={"type": "list", "elements": "str", "required": True},
        allow_other_hosts={"type": "bool", "default": False},
        ready_resources={"type": "list", "elements": "str"},
    )


def run(params, check_mode, client_of=None):
    """Returns the result and the warnings. ``client_of`` makes the client of the service from the options."""
    approved, not_approved, warnings = Approval.from_params((client_of or client_from_params)(params), params).send(check_mode)
    return {"changed": bool(approved), "approved": approved, "not_approved": not_approved}, warnings


def main():
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result, warnings = run(module.params, module.check_mode)
    except (ImdsError, SelectionError, ApprovalRefusedError) as error:
        module.fail_json(msg=str(error))
    for warning in warnings:
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
