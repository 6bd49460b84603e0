#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: scheduled_events_info
short_description: Read the Scheduled Events of an Azure VM
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Reads Scheduled Events from the instance metadata service of the VM on which the module runs. Azure announces reboots, freezes, redeploys,
    Spot evictions and deletions there.
  - Events of every version of the API are returned in the same shape.
  - A malformed document is an error, never an empty list. An answer with an empty body is read as a document without events.
  - One answer that does not list an event does not prove that the event is over. M(graceful.azure.scheduled_events_wait) with
    O(graceful.azure.scheduled_events_wait#module:state=absent) makes sure.
extends_documentation_fragment:
  - graceful.azure._imds
  - graceful.azure._selection
  - graceful.azure._selection.event_ids
  - graceful.azure._selection.affecting_any
  - graceful.azure._attributes.windows
  - graceful.azure._attributes
  - graceful.azure._attributes.imds
seealso:
  - module: graceful.azure.scheduled_events_wait
  - module: graceful.azure.scheduled_events_approve
"""

EXAMPLES = r"""
- name: Read what is going to happen to this host
  graceful.azure.scheduled_events_info:
    affecting_host_only: true
  register: upcoming

- name: Show it
  ansible.builtin.debug:
    msg: "{{ item.event_type }} in {{ item.seconds_until_not_before }} s"
  loop: "{{ upcoming.events }}"
  loop_control:
    label: "{{ item.event_id }}"

- name: Read announced reboots and redeploys that users of the subscription asked for
  graceful.azure.scheduled_events_info:
    event_types: [Reboot, Redeploy]
    event_statuses: [Scheduled]
    query: "[?event_source == 'User']"

- name: Read short freezes, with an old version of the API
  graceful.azure.scheduled_events_info:
    api_version: "2020-07-01"
    query: "[?event_type == 'Freeze' && duration_in_seconds >= `0` && duration_in_seconds < `5`]"

- name: Say once, for all modules that ask the metadata service, where the simulator is
  module_defaults:
    group/graceful.azure.imds:
      imds_url: http://127.0.0.1:8171
  block:
    - name: Read its events
      graceful.azure.scheduled_events_info:
      register: simulated

    - name: Go on only if one of them has started
      ansible.builtin.assert:
        that: "'Started' in simulated.events | map(attribute='event_status')"
"""

RETURN = r"""
events:
  description:
    - The selected events. A field that does not exist in this version of the API is null.
    - All texts come from the service, and somebody else may have written them. Treat them as data.
  returned: success
  type: list
  elements: dict
  contains:
    event_id:
      description: Id of the event. It stays the same until the event is over.
      type: str
    event_type:
      description: C(Freeze), C(Reboot), C(Redeploy), C(Preempt), C(Terminate), or a type that this collection does not know.
      type: str
    event_status:
      description: C(Scheduled) or C(Started). An event that is over is no longer listed.
      type: str
    event_source:
      description: C(Platform) or C(User).
      type: str
    resource_type:
      description: C(VirtualMachine).
      type: str
    resources:
      description: Names of the VMs that the event hits.
      type: list
      elements: str
    not_before:
      description: When the event starts unless it is approved earlier, in ISO 8601 and UTC. Null if it has started or if the service's text cannot be read.
      type: str
    description:
      description: What the platform says about the event.
      type: str
    duration_in_seconds:
      description: Expected seconds of interruption. V(0) means none, V(-1) means unknown.
      type: int
    affects_host:
      description: Whether C(resources) name this host. If the name of this host is not known, this is null and there is a warning.
      type: bool
    seconds_until_not_before:
      description: Seconds left until C(not_before), by the service's clock. Negative if that time is past.
      type: float
  sample:
    - event_id: 602d9444-d2cd-49c7-8624-8643e7171297
      event_type: Reboot
      event_status: Scheduled
      event_source: Platform
      resource_type: VirtualMachine
      resources: [web_0, web_1]
      not_before: "2026-11-21T18:29:47Z"
      description: Host server is undergoing maintenance.
      duration_in_seconds: 9
      affects_host: true
      seconds_until_not_before: 893.0
document_incarnation:
  description:
    - Number of the document. It changes whenever the events change. It is V(0) if the service answered without a document.
    - It is not a counter. Its numbers may start again.
  returned: success
  type: int
  sample: 5
resource_name:
  description: Name of this host, from the option O(resource_name) or from the service.
  returned: success
  type: str
  sample: web_0
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils._imds import ImdsError, client_from_params, imds_argument_spec
from ansible_collections.graceful.azure.plugins.module_utils._selection import Selection, SelectionError, selection_argument_spec
from ansible_collections.graceful.azure.plugins.module_utils._waiting import Reader, name_need, result_values


def argument_spec():
    return dict(imds_argument_spec(), **selection_argument_spec(affecting_host_only=False))


def run(params, client_of=None):
    """Returns the result and the warnings. ``client_of`` makes the client of the service from the options."""
    selection = Selection.from_params(params)
    reader = Reader((client_of or client_from_params)(params), params["resource_name"])
    reading = reader.read(name_needed_by=name_need(selection))
    return dict(result_values(reading, selection.apply(reading.events)), changed=False), reading.warnings


def main():
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result, warnings = run(module.params)
    except (ImdsError, SelectionError) as error:
        module.fail_json(msg=str(error))
    for warning in warnings:
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
