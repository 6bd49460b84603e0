#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_hold
short_description: Stop services of systemd for an event, and start again those that ran
version_added: 0.1.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Puts a hold on services, or releases it. Held services are stopped in the order given, each when the one before is
    down. When the last event is released they are started again in reverse.
  - Only what ran when it was found is started again. Whether a service is enabled is never touched.
  - Units that systemd would stop along with a service, because they require it or are part of it, are held with it, and so
    are sockets, timers and paths that would start it again. Mounts, automounts and swaps are among them; targets, slices,
    scopes and devices are not. A mount that is in use cannot be unmounted, and keeps the hold waiting.
  - A service of C(Type=oneshot) that was stopped while it ran is started again and waited for until it has run to its end.
  - A service that somebody else started again in the same boot is reported and left alone. One that runs again because
    the host was booted anew is no conflict, and is not stopped again for the events that were known then.
  - A socket whose service runs again, whoever started it, cannot be started any more. It is reported and left alone.
extends_documentation_fragment:
  - graceful.azure._hold
  - graceful.azure._attributes
attributes:
  diff_mode:
    support: full
  idempotent:
    support: full
    details:
      - A call that only waits on is no change. One that stops or starts a service is.
options:
  services:
    description:
      - Names of the services, in the order in which they are stopped. Other units are named with their type, such as
        V(web.socket).
      - Required for O(state=present). With O(state=absent) leaving it out means all that are held.
    type: list
    elements: str
  timeout:
    description:
      - For how many seconds to wait on the host until all is done. V(0) takes one step, which waits 2 seconds at most.
      - When it runs out the module does not fail, RV(done) is V(false), and a later call goes on.
    type: float
    default: 0
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
      description: What systemd calls its state.
      type: str
    found:
      description: What was found when the hold was put; null when it was not running.
      type: dict
    held_by:
      description: The events that hold the service.
      type: list
      elements: str
    condition:
      description:
        - V(held) is down, and was stopped by this module.
        - V(stopping) is to be stopped or on its way down, V(starting) is to be started or on its way up.
        - V(not_running) did not run when it was found, and is not started again, or was started again and ran to its end.
        - V(rebooted) runs again because the host was booted anew.
        - V(changed_meanwhile) is not as this module left it, because somebody else acted; it was not touched.
        - V(none) runs and is not held.
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
  description: What is waited for, null when all is done.
  returned: success
  type: str
  sample: shop.service is deactivating
conflicts:
  description: Where somebody else acted meanwhile, a sentence each.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils._holds import (
    HoldError,
    Request,
    Store,
    check_timeout,
    hold_argument_spec,
)
from ansible_collections.graceful.azure.plugins.module_utils._systemd import (
    DrySystemd,
    ServiceHolder,
    Systemd,
    SystemdError,
)


def run(params, check_mode, run_command):
    request = Request.from_params(params)
    timeout = check_timeout(params["timeout"])
    if params["services"] is not None and not params["services"]:
        raise ValueError("services is an empty list: name at least one service.")
    systemd = Systemd(run_command)
    holder = ServiceHolder(
        DrySystemd(systemd) if check_mode else systemd,
        Store(params["state_dir"], dry=check_mode),
        request,
        params["services"],
    )
    return holder.run(0.0 if check_mode else timeout)


def main():
    module = AnsibleModule(
        argument_spec=dict(
            hold_argument_spec(),
            services={"type": "list", "elements": "str"},
            timeout={"type": "float", "default": 0},
        ),
        required_if=[("state", "present", ("event_ids", "services"))],
        supports_check_mode=True,
    )
    try:
        result = run(module.params, module.check_mode, module.run_command)
    except (SystemdError, HoldError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
