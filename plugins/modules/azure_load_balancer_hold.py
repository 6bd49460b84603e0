#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: azure_load_balancer_hold
short_description: Take an address in backend pools of Azure Load Balancer out for an event, and give it back
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Sets the administrative state of one host's address to C(Down) and records what it was (a hold), or releases the hold. Azure sends no new connections
    to such an address. Open TCP connections live on.
  - When the last event is released, the state goes back to exactly what was found, including none at all.
  - An address that is C(Down) already is somebody else's, and is not touched. If somebody else changes a held address, this is reported and it is left alone.
  - The records are tags of the load balancer, with names that begin with C(graceful-azure-). See the page C(docs/azure-load-balancer.md).
  - Run it where Azure Resource Manager can be reached, usually with C(delegate_to=localhost).
  - It has been tried against the stand-in of this collection only, not against Azure.
extends_documentation_fragment:
  - graceful.azure._azure
  - graceful.azure._attributes
  - graceful.azure._attributes.azure_resource_manager
attributes:
  diff_mode:
    support: full
options:
  pools:
    description: Resource ids of the backend address pools that have the address.
    type: list
    elements: str
    required: true
  address:
    description: The name of the address in the pools. One of O(address) and O(ip_address) is needed.
    type: str
  ip_address:
    description:
      - The private IP address, by which the address is found in the pools. Where the pool does not show it, the network interface is asked.
    type: str
  state:
    description: V(present) takes the address out and records it. V(absent) releases the hold.
    type: str
    choices: [present, absent]
    default: present
  event_ids:
    description:
      - Ids of the events for which the hold is made or released. Upper and lower case do not matter.
      - Required for O(state=present). Without this option, O(state=absent) releases the hold for every event.
    type: list
    elements: str
  event_details:
    description: What else to record about the events, as a dictionary for each event id. Tags have little room.
    type: dict
    default: {}
  reason:
    description: The reason, for people who read the record. Its first 60 characters are recorded.
    type: str
    default: ""
  state_dir:
    description: Accepted because every module with holds has it. The records are tags, so it is not used.
    type: path
seealso:
  - module: graceful.azure.azure_load_balancer_info
"""

EXAMPLES = r"""
- name: Take the host out of its pool
  graceful.azure.azure_load_balancer_hold:
    pools: ["{{ pool_id }}"]
    ip_address: 10.0.0.4
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
  delegate_to: localhost

- name: The event is over
  graceful.azure.azure_load_balancer_hold:
    pools: ["{{ pool_id }}"]
    ip_address: 10.0.0.4
    state: absent
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
  delegate_to: localhost

- name: Take the host out of two pools, and fail if Azure has not finished after two minutes
  graceful.azure.azure_load_balancer_hold:
    pools: ["{{ public_pool_id }}", "{{ internal_pool_id }}"]
    address: web1
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    timeout: 120
  delegate_to: localhost
  register: taken_out
  failed_when: taken_out is failed or not taken_out.done

- name: Give the host back, whatever event holds it
  graceful.azure.azure_load_balancer_hold:
    pools: ["{{ public_pool_id }}", "{{ internal_pool_id }}"]
    address: web1
    state: absent
  delegate_to: localhost
  register: given_back

- name: Say where somebody else has acted in the meantime
  ansible.builtin.debug:
    var: given_back.conflicts
  when: given_back.conflicts | length > 0
"""

RETURN = r"""
addresses:
  description: The address in each pool.
  returned: success
  type: list
  elements: dict
  contains:
    pool:
      description: Resource id of the pool.
      type: str
    name:
      description: The name of the address in the pool.
      type: str
    admin_state:
      description: V(None), V(Up), V(Down), or V(absent) if the address has no administrative state. Null if the address does not exist any more.
      type: str
    found:
      description: The state before the module changed it. Null if it is not held.
      type: dict
    held_by:
      description: The events that hold the address.
      type: list
      elements: str
    condition:
      description:
        - V(held) - it is C(Down), as this module left it.
        - V(changing) - it is to be set to C(Down), or Azure is doing it. V(restoring) - it is to be given back, or Azure is doing it.
        - V(already_out) - somebody else had set it to C(Down). It was not touched.
        - V(changed_meanwhile) - somebody else changed it while it was held. It was not touched.
        - V(none) - it is not held.
      type: str
  sample:
    - pool: /subscriptions/S/resourceGroups/RG/providers/Microsoft.Network/loadBalancers/LB/backendAddressPools/POOL
      name: web1
      admin_state: Down
      found: {admin_state: None}
      held_by: [602d9444-d2cd-49c7-8624-8643e7171297]
      condition: held
done:
  description: Whether Azure has finished.
  returned: success
  type: bool
  sample: true
waiting_for:
  description: What Azure has not finished. Null when everything is done.
  returned: success
  type: str
  sample: null
conflicts:
  description: Where somebody else acted in the meantime, one sentence each.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible_collections.graceful.azure.plugins.module_utils._module_of_call import main_of


def main():
    main_of("azure_load_balancer_hold")


if __name__ == "__main__":
    main()
