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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils._azure_load_balancer import Addresses, Pools, TagStore
from ansible_collections.graceful.azure.plugins.module_utils._azure_resource_manager import (
    AzureError,
    Client,
    TimeOverError,
    azure_argument_spec,
)
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import CHANGING, HELD, HoldError, holders, utc_now
from ansible_collections.graceful.azure.plugins.module_utils._polling import check_seconds
from ansible_collections.graceful.azure.plugins.module_utils._spellings import called

LOOK_SECONDS = 5.0


def run(params):
    pools = Pools(Client(params, check_seconds("timeout", params["timeout"]) or LOOK_SECONDS))
    store = TagStore(pools)
    driver = Addresses(pools, store, None, params["pools"])
    driver.check()
    found, holds = [], []
    for pool in params["pools"]:
        body = pools.read(pool)
        records = {record["subject"]["address"]: record for record in store.records(pool)}
        addresses = _with_ips(pools, pools.addresses(pool, body), body, params["servers"])
        for address in addresses:
            record = records.get(address.name)
            found.append(
                {
                    "pool": pool,
                    "name": address.name,
                    "ip_address": address.ip or (record or {}).get("ip"),
                    "admin_state": address.state,
                    # Once the record says that Azure had finished, what goes on in the pool is about others.
                    "settled": address.settled or (address.failed if record is None else record["phase"] == HELD),
                    "found": record["found"] if record else None,
                    "held_by": holders(record),
                    "noted": record is None or record["phase"] != CHANGING,
                    "condition": driver.condition(record, address),
                }
            )
        for name, record in sorted(records.items()):
            known = next((server for server in params["servers"] if called(server) in (called(name), called(record.get("ip")))), name)
            shown = {key: record[key] for key in ("kind", "subject", "found", "left", "events", "path")}
            holds.append(dict(shown, for_server=known))
    return {"changed": False, "addresses": found, "holds": holds, "time": utc_now(), "problem": None, "passing": False, "unread": pools.unread}


def _with_ips(pools, addresses, body, servers):
    """The addresses, and the IP addresses that only network interfaces know, as far as servers are not found without them."""
    entries = {entry.get("name"): entry for entry in (body.get("properties") or {}).get("loadBalancerBackendAddresses") or []}
    missing = set(map(called, servers)).difference(called(text) for address in addresses for text in (address.name, address.ip))
    found = []
    for address in addresses:
        if missing and not address.ip:
            address = address._replace(ip=pools.ip_of_interface(entries[address.name]))
            missing.discard(called(address.ip))
        found.append(address)
    return found


def main():
    module = AnsibleModule(
        argument_spec=dict(
            azure_argument_spec(),
            pools={"type": "list", "elements": "str", "required": True},
            servers={"type": "list", "elements": "str", "default": []},
            errors_as_result={"type": "bool", "default": False},
            wait_for={"type": "list", "elements": "str", "default": []},
            quiet={"type": "float", "default": 0},
            timeout={"type": "float", "default": 60},
            state_dir={"type": "path"},
        ),
        supports_check_mode=True,
    )
    try:
        result = run(module.params)
    except (AzureError, HoldError, ValueError) as error:
        if not module.params["errors_as_result"]:
            module.fail_json(msg=str(error))
        passing = isinstance(error, TimeOverError) or (getattr(error, "status", None) or 0) >= 500
        result = {"changed": False, "addresses": None, "holds": None, "time": utc_now(), "problem": str(error), "passing": passing, "unread": []}
    module.exit_json(**result)


if __name__ == "__main__":
    main()
