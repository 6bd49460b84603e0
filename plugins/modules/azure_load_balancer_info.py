#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: azure_load_balancer_info
short_description: Show the administrative states in a backend pool of Azure Load Balancer, and who holds them
version_added: 0.2.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Reads backend address pools and the records that M(graceful.azure.azure_load_balancer_hold) keeps as tags of the load balancer. It changes nothing.
  - Azure does not tell how many connections an address still has. Count them on the host.
  - It has been tried against the stand-in of this collection only, not against Azure.
extends_documentation_fragment:
  - graceful.azure._azure
  - graceful.azure._attributes
options:
  pools:
    description: Resource ids of the backend address pools.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: See what is out
  graceful.azure.azure_load_balancer_info:
    pools: ["{{ pool_id }}"]
  delegate_to: localhost
"""

RETURN = r"""
addresses:
  description: All addresses of the pools, with the keys that M(graceful.azure.azure_load_balancer_hold) returns, and C(ip_address).
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
      condition: held
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils._azure_load_balancer import Addresses, Pools, TagStore
from ansible_collections.graceful.azure.plugins.module_utils._azure_resource_manager import AzureError, Client, azure_argument_spec
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import HoldError, check_timeout, holders


def run(params):
    pools = Pools(Client(params, check_timeout(params["timeout"])))
    store = TagStore(pools)
    driver = Addresses(pools, store, None, params["pools"])
    driver.check()
    found = []
    for pool in params["pools"]:
        for address in pools.addresses(pool, pools.read(pool)):
            record = store.read(pool, address.name)
            found.append(
                {
                    "pool": pool,
                    "name": address.name,
                    "ip_address": address.ip,
                    "admin_state": address.state,
                    "found": record["found"] if record else None,
                    "held_by": holders(record),
                    "condition": driver.condition(record, address),
                }
            )
    return {"changed": False, "addresses": found}


def main():
    module = AnsibleModule(
        argument_spec=dict(
            azure_argument_spec(),
            pools={"type": "list", "elements": "str", "required": True},
            timeout={"type": "float", "default": 60},
        ),
        supports_check_mode=True,
    )
    try:
        result = run(module.params)
    except (AzureError, HoldError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
