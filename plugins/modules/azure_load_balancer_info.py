#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: azure_load_balancer_info
short_description: Show the administrative states in a backend pool of Azure Load Balancer, and who holds them
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Reads backend address pools and the records that M(graceful.azure.azure_load_balancer_hold) keeps as tags of the load balancer. It changes nothing.
  - Azure does not tell how many connections an address still has. Count them on the host.
  - It has been tried against the stand-in of this collection only, not against Azure.
extends_documentation_fragment:
  - graceful.azure._azure
  - graceful.azure._attributes
  - graceful.azure._attributes.azure_resource_manager
options:
  pools:
    description: Resource ids of the backend address pools.
    type: list
    elements: str
    required: true
  servers:
    description:
      - Names or IP addresses by which hosts are known in the pools. RV(holds) says for which of them each record is.
    type: list
    elements: str
    default: []
  errors_as_result:
    description: Whether what goes wrong is returned as RV(problem), and is no failure. The passes of handle_events need that.
    type: bool
    default: false
  wait_for:
    description: Accepted because every module that looks at a load balancer has it. There is nothing to wait for, as Azure counts nothing.
    type: list
    elements: str
    default: []
  quiet:
    description: Accepted for the same reason as O(wait_for), and not used.
    type: float
    default: 0
  timeout:
    description:
      - Seconds for the whole call. Requests that Azure refuses for now are repeated in this time. V(0) stands for 5 seconds.
    type: float
    default: 60
  state_dir:
    description: Accepted because every module with holds has it. The records are tags, so it is not used.
    type: path
seealso:
  - module: graceful.azure.azure_load_balancer_hold
"""

EXAMPLES = r"""
- name: See what is out
  graceful.azure.azure_load_balancer_info:
    pools: ["{{ pool_id }}"]
  delegate_to: localhost

- name: Say once, for all modules that ask Azure, where the credentials come from
  delegate_to: localhost
  module_defaults:
    group/graceful.azure.azure_resource_manager:
      auth_source: cli
  block:
    - name: Look at the pool
      graceful.azure.azure_load_balancer_info:
        pools: ["{{ pool_id }}"]
      register: pool

    - name: Name the addresses that an event holds
      ansible.builtin.debug:
        msg: "{{ pool.addresses | selectattr('held_by') | map(attribute='name') }}"

- name: Wait until an operator has let another host serve again
  graceful.azure.azure_load_balancer_info:
    pools: ["{{ pool_id }}"]
  delegate_to: localhost
  register: pool
  until: pool.addresses | rejectattr('admin_state', 'equalto', 'Down') | length >= 2
  retries: 30
  delay: 10
"""

RETURN = r"""
addresses:
  description:
    - All addresses of the pools, with the keys that M(graceful.azure.azure_load_balancer_hold) returns, with C(ip_address) and with C(noted).
    - C(noted) is V(false) if the run that took the address out was cut off before the record said that it is out. The next call notes it.
  returned: success
  type: list
  elements: dict
  sample:
    - pool: /subscriptions/S/resourceGroups/RG/providers/Microsoft.Network/loadBalancers/LB/backendAddressPools/POOL
      name: web1
      ip_address: 10.0.0.4
      admin_state: Down
      found: {admin_state: None}
      held_by: [602d9444-d2cd-49c7-8624-8643e7171297]
      noted: true
      condition: held
holds:
  description: The records about addresses in the pools, with C(kind), C(subject), C(found), C(left), C(events), C(path) and C(for_server).
  returned: success
  type: list
  elements: dict
  sample: []
time:
  description: The clock of the machine that asked Azure.
  returned: success
  type: str
  sample: "2026-11-24T12:00:00Z"
unread:
  description: The network interfaces of members that could not be read because they do not exist or the identity may not, one sentence each.
  returned: success
  type: list
  elements: str
  sample: []
problem:
  description: What went wrong, if O(errors_as_result=true). RV(addresses) and RV(holds) are then null.
  returned: success
  type: str
passing:
  description: Whether the problem may be over soon, as when Azure does not answer.
  returned: success
  type: bool
  sample: false
"""

from ansible_collections.graceful.azure.plugins.module_utils._module_of_call import main_of


def main():
    main_of("azure_load_balancer_info")


if __name__ == "__main__":
    main()
