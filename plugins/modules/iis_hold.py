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

from ansible_collections.graceful.azure.plugins.module_utils._module_of_call import main_of


def main():
    main_of("iis_hold")


if __name__ == "__main__":
    main()
