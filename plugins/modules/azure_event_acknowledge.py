#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: azure_event_acknowledge
short_description: Approve Scheduled Events through Azure Resource Manager, without their VMs
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Acknowledges events of a VM, a scale set or an availability set at Azure Resource Manager, so that Azure starts them now. Azure calls it an
    acknowledgement. It has the same effect as an approval through the metadata service of a VM, counts for all VMs that the event names, and cannot
    be taken back.
  - Use it only where no VM that the event names can send the approval. Otherwise use M(graceful.azure.scheduled_events_approve), which reads the event
    again before it approves.
  - Azure documents no way to read an event there. So this module cannot check what the event is or whom it names. The caller must have read the event,
    for example on another VM of the same set.
  - It leaves no record. An acknowledgement that is sent twice does no harm.
  - It has been tried against the stand-in of this collection only, not against Azure.
extends_documentation_fragment:
  - graceful.azure._azure
  - graceful.azure._attributes
  - graceful.azure._attributes.azure_resource_manager
attributes:
  check_mode:
    details:
      - Check mode sends nothing, not even for a token. So it does not tell whether Azure would accept the acknowledgement.
  idempotent:
    support: none
    details:
      - Nobody can read whether an event was acknowledged already. The playbook C(handle_events) remembers it, and repeats the acknowledgement once a
        minute until the event starts.
options:
  resource_id:
    description:
      - Resource id of the virtual machine, the virtual machine scale set or the availability set that the events belong to. An instance of a scale set
        with uniform orchestration has none of its own here, so name the scale set.
    type: str
    required: true
  event_ids:
    description:
      - Ids of the events to acknowledge, one request for each.
    type: list
    elements: str
    required: true
  ready_until:
    description:
      - Until when it is true that all VMs of the events are ready, in seconds since 1970 by the clock of the controller. Nothing is sent after that.
    type: float
seealso:
  - module: graceful.azure.scheduled_events_approve
"""

EXAMPLES = r"""
- name: Approve an event of a VM that does not answer any more
  graceful.azure.azure_event_acknowledge:
    resource_id: /subscriptions/S/resourceGroups/RG/providers/Microsoft.Compute/virtualMachines/web1
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
  delegate_to: localhost

- name: Approve an event of a scale set, unless that takes more than 30 seconds
  graceful.azure.azure_event_acknowledge:
    resource_id: /subscriptions/S/resourceGroups/RG/providers/Microsoft.Compute/virtualMachineScaleSets/web
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    ready_until: "{{ now().timestamp() + 30 }}"
  delegate_to: localhost

- name: Ask another VM of the set which redeploy is announced for web_1 alone, which is silent
  graceful.azure.scheduled_events_info:
    event_statuses: [Scheduled]
    query: "[?event_type == 'Redeploy' && resources == ['web_1']]"
  delegate_to: web2
  register: upcoming

- name: Approve that with the managed identity of this machine
  graceful.azure.azure_event_acknowledge:
    resource_id: "{{ scale_set_id }}"
    event_ids: "{{ upcoming.events | map(attribute='event_id') }}"
    auth_source: msi
  delegate_to: localhost
  when: upcoming.events | length > 0
"""

RETURN = r"""
approved:
  description: Ids of the events that Azure accepted. In check mode, those that would be sent.
  returned: success
  type: list
  elements: str
  sample: [602d9444-d2cd-49c7-8624-8643e7171297]
"""

import re
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils._azure_access import azure_argument_spec
from ansible_collections.graceful.azure.plugins.module_utils._azure_resource_manager import (
    AzureError,
    Client,
    NotFoundError,
    NotPermittedError,
    check_id,
)
from ansible_collections.graceful.azure.plugins.module_utils._polling import check_seconds
from ansible_collections.graceful.azure.plugins.module_utils._spellings import OWNER_EXAMPLE, OWNER_OF_EVENTS, READY_LONG_AGO

API_VERSION = "2025-11-01"
ROLE = "Scheduled Events Contributor"
# The id becomes part of a URL, and comes from a metadata service.
EVENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")


def acknowledge(client, resource, event_id):
    """Send one acknowledgement."""
    path = "%s/providers/Microsoft.Maintenance/scheduledevents/%s/acknowledge" % (resource, event_id)
    try:
        client.post(path, API_VERSION)
    except NotPermittedError as error:
        raise NotPermittedError("%s The built-in role %s has it." % (error, ROLE), error.status, error.code) from error
    except NotFoundError as error:
        raise NotFoundError(
            "Azure knows no event %s of %s: the event is over, or it is an event of another resource, or there is no such resource. %s"
            % (event_id, resource, error),
            error.status,
            error.code,
        ) from error


def run(params, check_mode, clock=time.time):
    check_id("resource_id", params["resource_id"], OWNER_OF_EVENTS, OWNER_EXAMPLE)
    event_ids = list(dict.fromkeys(params["event_ids"]))
    if not event_ids:
        raise ValueError("event_ids is an empty list: name at least one event.")
    for event_id in event_ids:
        if not EVENT_ID.match(event_id):
            raise ValueError("event_ids: %r is not the id of an event." % event_id[:200])
    timeout = check_seconds("timeout", params["timeout"], above=True)
    if params["ready_until"] is not None:
        # Azure may refuse it for a while, and then it must not be sent too late.
        timeout = min(timeout, params["ready_until"] - clock())
    if timeout <= 0:
        raise ValueError(READY_LONG_AGO)
    if not check_mode:
        client = Client(params, timeout)
        for number, event_id in enumerate(event_ids):
            try:
                acknowledge(client, params["resource_id"], event_id)
            except AzureError as error:
                if number:
                    raise AzureError("%s Approved before that: %s." % (error, ", ".join(event_ids[:number]))) from error
                raise
    return {"changed": True, "approved": event_ids}


def main():
    module = AnsibleModule(
        argument_spec=dict(
            azure_argument_spec(),
            resource_id={"type": "str", "required": True},
            event_ids={"type": "list", "elements": "str", "required": True},
            ready_until={"type": "float"},
            timeout={"type": "float", "default": 60},
        ),
        supports_check_mode=True,
    )
    try:
        result = run(module.params, module.check_mode)
    except (AzureError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
