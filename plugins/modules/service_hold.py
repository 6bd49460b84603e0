#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_hold
short_description: Stop systemd services for an event, and start those again that ran
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Stops services for an event and records which ones ran (a hold), or releases the hold. Services are stopped in the order given, each when the one
    before is down. When the last event is released, they are started again in reverse order.
  - Only services that ran before are started again. The module never enables or disables a service.
  - Some units would stop along with a service, because they require it or are part of it. They are held with it. So are sockets, timers and paths that
    would start it again. Mounts, automounts and swaps are included; targets, slices, scopes and devices are not. A mount that is in use cannot be
    unmounted, so the module waits for it.
  - A service of C(Type=oneshot) that was stopped while it ran is started again. The module then waits until it has finished.
  - If somebody else starts a held service in the same boot, the next call with O(state=present) reports this and stops it once more. If somebody starts
    it for the second time, the call leaves it alone, is not done, and says so in RV(waiting_for). A release reports it and leaves it alone.
  - If a held service runs again because the host was rebooted, this is no conflict. The next call with O(state=present) stops it again.
  - If the service of a held socket runs again, whoever started it, the socket cannot be started any more. This is reported and the socket is left alone.
extends_documentation_fragment:
  - graceful.azure._hold
  - graceful.azure._hold.steps
  - graceful.azure._attributes.windows
  - graceful.azure._attributes
options:
  services:
    description:
      - Names of the services, in the order in which they are stopped. Give other units with their type, such as V(web.socket).
      - Required for O(state=present). Without it, O(state=absent) applies to all held services.
      - With O(state=absent), a service that was stopped along with another comes back when the other one does. A service that is not held needs
        nothing, even if systemd does not know it.
    type: list
    elements: str
seealso:
  - module: graceful.azure.cluster_hold
  - module: graceful.azure.iis_hold
  - module: graceful.azure.task_hold
"""

EXAMPLES = r"""
- name: Stop the application, then its database
  graceful.azure.service_hold:
    services: [shop, postgresql]
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    timeout: 60

- name: The event is over
  graceful.azure.service_hold:
    state: absent
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    timeout: 60

- name: Stop the queue worker, and fail if it is not down after two minutes
  graceful.azure.service_hold:
    services: [worker]
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    timeout: 120
  register: stopped
  failed_when: stopped is failed or not stopped.done

- name: See what would stop along with the database
  graceful.azure.service_hold:
    services: [postgresql]
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
  check_mode: true
  register: predicted

- name: Show it
  ansible.builtin.debug:
    msg: "{{ predicted.services | map(attribute='name') }}"

- name: Start everything that is held, whatever event holds it
  graceful.azure.service_hold:
    state: absent
    timeout: 60
"""

RETURN = r"""
services:
  description: The services, in the order in which they are stopped or started.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The full name of the unit.
      type: str
    active_state:
      description: Its state, as systemd calls it.
      type: str
    found:
      description: The state before the module changed it. Null if it did not run.
      type: dict
    held_by:
      description: The events that hold the service.
      type: list
      elements: str
    condition:
      description:
        - V(held) - this module stopped it, and it is down.
        - V(stopping) - it has to stop or is stopping. V(starting) - it has to start or is starting.
        - V(not_running) - it did not run before and is not started again, or it was started again and has finished.
        - V(rebooted) - it runs again because the host was rebooted.
        - V(changed_meanwhile) - it is not as this module left it, because somebody else acted. It was not touched. With O(state=present) that is so
          when somebody has started it for the second time. The first time it is stopped once more, and RV(conflicts) says so.
        - V(none) - it runs and is not held.
      type: str
  sample:
    - name: shop.service
      active_state: inactive
      found: {active_state: active}
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
  sample: shop.service is deactivating
conflicts:
  description: Where somebody else acted in the meantime, one sentence each.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible_collections.graceful.azure.plugins.module_utils._module_of_call import main_of


def main():
    main_of("service_hold")


if __name__ == "__main__":
    main()
