#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: scheduled_events_wait
short_description: Wait until Scheduled Events of an Azure VM appear, start or are over
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Reads the Scheduled Events of the VM on which the module runs, until one of the states in O(state) is reached. It reads them once a second, or
    as often as O(sleep) says.
  - The host may freeze, reboot or be silent during the wait. The machine that runs Ansible connects to it again until O(timeout) is over. From
    time to time it shows what it waits for.
  - On the host, each call ends by itself after at most half a minute. Only the first answer of the service may take longer.
  - Errors of the service that may go away do not end the wait. If the wait times out, the message contains the last error.
extends_documentation_fragment:
  - graceful.azure._imds
  - graceful.azure._selection
  - graceful.azure._selection.event_ids
  - graceful.azure._selection.affecting_host
  - graceful.azure._selection.wait
  - graceful.azure._attributes.windows
  - graceful.azure._attributes
  - graceful.azure._attributes.imds
attributes:
  check_mode:
    details:
      - In check mode, the module reads once and does not wait. RV(outcome) is null if no state is reached. As a forecast, one document is enough
        for V(absent).
options:
  _part:
    description:
      - Private to this collection. The action plugin of this module waits in short calls. With this option it tells each call how long it may take, and
        what earlier calls found.
    type: dict
seealso:
  - module: graceful.azure.scheduled_events_info
  - module: graceful.azure.scheduled_events_approve
  - plugin: graceful.azure.scheduled_events_wait
    plugin_type: lookup
    description: Waits in the same way on the machine that runs Ansible.
"""

EXAMPLES = r"""
- name: Wait for an event that is going to hit this host
  graceful.azure.scheduled_events_wait:
    timeout: 0
  register: found

- name: Wait until it has started or is over, through the reboot itself
  graceful.azure.scheduled_events_wait:
    event_ids: "{{ found.events | map(attribute='event_id') }}"
    state: [absent, started]
    timeout: 1200
  register: waited

- name: Wait until it is over
  graceful.azure.scheduled_events_wait:
    event_ids: "{{ found.events | map(attribute='event_id') }}"
    state: absent
    timeout: 1200
  when: waited.outcome == 'started'

- name: Wait a minute for the eviction of a spot VM, and go on if none is announced
  graceful.azure.scheduled_events_wait:
    event_types: [Preempt]
    timeout: 60
  register: eviction
  failed_when: eviction is failed and eviction.outcome != 'timeout'

- name: Say when it comes
  ansible.builtin.debug:
    msg: "Evicted in {{ eviction.events[0].seconds_until_not_before }} s"
  when: eviction.outcome == 'present'
"""

RETURN = r"""
events:
  description: The selected events, as M(graceful.azure.scheduled_events_info) returns them.
  returned: always
  type: list
  elements: dict
  sample: [{event_id: 602d9444-d2cd-49c7-8624-8643e7171297, event_type: Reboot, event_status: Scheduled, resources: [web_0]}]
document_incarnation:
  description: Number of the document, as M(graceful.azure.scheduled_events_info) returns it.
  returned: always
  type: int
  sample: 5
resource_name:
  description: Name of this host, from the option O(resource_name) or from the service.
  returned: always
  type: str
  sample: web_0
elapsed:
  description: How many seconds the wait took.
  returned: always
  type: float
  sample: 23.1
outcome:
  description:
    - The state that was reached, or V(timeout).
    - Null if the wait ended for another reason, or if no state is reached in check mode.
  returned: always
  type: str
  sample: present
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils._imds import ImdsError, client_from_params, imds_argument_spec
from ansible_collections.graceful.azure.plugins.module_utils._selection import Selection, SelectionError, selection_argument_spec
from ansible_collections.graceful.azure.plugins.module_utils._waiting import (
    TIMEOUT,
    Wait,
    result_values,
    timeout_message,
    wait_argument_spec,
)


def argument_spec():
    return dict(
        imds_argument_spec(),
        _part={"type": "dict"},
        **selection_argument_spec(affecting_host_only=True),
        **wait_argument_spec(),
    )


def run(params, check_mode, client_of=None):
    """Returns the result and the warnings. The result has ``failed`` if the wait failed. ``client_of`` makes the client from the options."""
    # The action plugin says after how many seconds to return even without an outcome, and whether an earlier call had an answer.
    part = params["_part"]
    try:
        selection = Selection.from_params(params)
        wait = Wait.from_params((client_of or client_from_params)(params), selection, params)
        if check_mode:
            result = wait.look()
        elif part is None:
            result = wait.run()
        else:
            result = wait.run(float(part["seconds"]), first=not part["answered"])
    except (ImdsError, SelectionError) as error:
        return dict(result_values(None, []), failed=True, msg=str(error), elapsed=0.0, outcome=None), []

    values = dict(result_values(result.reading, result.events), changed=False, elapsed=round(result.elapsed, 3), outcome=result.outcome)
    if part is not None and result.outcome in (TIMEOUT, None):
        # The action plugin knows the whole wait. It reports the timeout.
        values.update(outcome=None, _error=result.error and str(result.error))
    elif result.outcome == TIMEOUT:
        values.update(failed=True, msg=timeout_message(wait.states, result.events, result.elapsed, result.error))
    return values, result.reading.warnings if result.reading else []


def main():
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    values, warnings = run(module.params, module.check_mode)
    for warning in warnings:
        module.warn(warning)
    if values.pop("failed", False):
        module.fail_json(**values)
    module.exit_json(**values)


if __name__ == "__main__":
    main()
