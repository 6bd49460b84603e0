#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: iis_hold
short_description: Stop sites and application pools of IIS for an event, and start those again that ran
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Stops sites and application pools of IIS on a Windows host for an event and records which ones ran (a hold), or releases the hold. When the last
    event is released, they are started again in reverse order.
  - Sites are stopped first. A site that is stopped refuses new requests, and those under way go on. Then the pools are stopped. A pool is down when
    its requests under way have ended, at the latest after the time that IIS gives it (C(shutdownTimeLimit)).
  - It never restarts IIS, and it never makes or removes a site or a pool.
  - If somebody else starts a held site or pool in the same boot, this is reported and it is left alone. If it runs again because the host was
    rebooted, this is no conflict.
  - Experimental. It was tried against a modelled host only.
extends_documentation_fragment:
  - graceful.azure._hold
  - graceful.azure._hold.steps
  - graceful.azure._attributes
attributes:
  platform:
    platforms: windows
options:
  sites:
    description:
      - Names of the sites, in the order in which they are stopped.
    type: list
    elements: str
    default: []
  pools:
    description:
      - Names of the application pools, in the order in which they are stopped. Name only pools that no other site needs.
      - Without O(sites) and O(pools), O(state=absent) applies to all that are held.
    type: list
    elements: str
    default: []
requirements:
  - The collections C(ansible.windows) and C(microsoft.iis) on the controller
seealso:
  - module: graceful.azure.service_hold
"""

EXAMPLES = r"""
- name: Stop the site, then its pool
  graceful.azure.iis_hold:
    sites: [Shop]
    pools: [ShopPool]
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    timeout: 60

- name: The event is over
  graceful.azure.iis_hold:
    state: absent
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    timeout: 60

- name: See what would be stopped
  graceful.azure.iis_hold:
    sites: [Shop]
    pools: [ShopPool]
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
  check_mode: true
  register: predicted

- name: Show it
  ansible.builtin.debug:
    msg: "{{ predicted.things | selectattr('condition', 'equalto', 'held') | map(attribute='name') }}"
"""

RETURN = r"""
things:
  description: The sites and pools, in the order in which they are stopped or started.
  returned: success
  type: list
  elements: dict
  contains:
    type:
      description: V(site) or V(pool).
      type: str
    name:
      description: Its name.
      type: str
    state:
      description: V(started), V(starting), V(stopped), V(stopping) or V(missing).
      type: str
    found:
      description: The state before the module changed it. Null if it did not run.
      type: dict
    held_by:
      description: The events that hold it.
      type: list
      elements: str
    condition:
      description: What became of the hold, in the words of M(graceful.azure.service_hold).
      type: str
  sample:
    - type: site
      name: Shop
      state: stopped
      found: {state: started}
      held_by: [602d9444-d2cd-49c7-8624-8643e7171297]
      condition: held
done:
  description: Whether there is nothing left to wait for.
  returned: success
  type: bool
  sample: true
waiting_for:
  description: What the module waits for. Null when everything is done.
  returned: success
  type: str
  sample: pool ShopPool is stopping
conflicts:
  description: Where somebody else acted in the meantime, one sentence each.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Engine
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Request, hold_argument_spec
from ansible_collections.graceful.azure.plugins.module_utils._iis import POOL, SITE, DryIis, Things
from ansible_collections.graceful.azure.plugins.module_utils._polling import check_seconds


def argument_spec():
    return dict(
        hold_argument_spec(),
        sites={"type": "list", "elements": "str", "default": []},
        pools={"type": "list", "elements": "str", "default": []},
        timeout={"type": "float", "default": 0},
    )


REQUIRED_IF = [("state", "present", ("event_ids",))]


def run(params, check_mode, iis, store):
    """``iis`` and ``store`` are those of the host."""
    request = Request.from_params(params)
    timeout = check_seconds("timeout", params["timeout"])
    things = [(SITE, name) for name in params["sites"]] + [(POOL, name) for name in params["pools"]]
    if request.present and not things:
        raise ValueError("sites and pools are empty: name at least one site or pool.")
    if check_mode:
        iis, timeout = DryIis(iis), 0.0
    engine = Engine(Things(iis, store, request, list(dict.fromkeys(things)) or None), store, request)
    engine.run(timeout)
    return engine.result("things")


def main():
    module = AnsibleModule(argument_spec=argument_spec(), required_if=REQUIRED_IF, supports_check_mode=True)
    module.fail_json(msg="IIS runs on Windows hosts only, and this is none.")


if __name__ == "__main__":
    main()
