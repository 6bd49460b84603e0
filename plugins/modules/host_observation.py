#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_observation
short_description: One look at a host, told as data whatever happens
version_added: 0.1.0
description:
  - Part of the playbook C(graceful.azure.handle_events); elsewhere use M(graceful.azure.scheduled_events_info)
    and M(graceful.azure.connections_info).
  - Reads once the scheduled events, the connections to the host and the records of holds on it. It never fails and
    never makes a host unreachable, since the passes go on whatever happens to one host.
extends_documentation_fragment:
  - graceful.azure._attributes
  - graceful.azure._imds
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details:
      - Nothing is changed but the folder O(state_dir), which is made when it is missing, never in check mode.
  idempotent:
    support: full
options:
  ports:
    description:
      - Local TCP ports whose established connections are counted.
    type: list
    elements: int
    default: []
  state_dir:
    description:
      - The folder of the records of holds on this host.
    type: path
    default: /var/lib/graceful_azure
  timeout:
    description:
      - Seconds that the look may take.
    type: float
    default: 5
  interval:
    description:
      - Seconds that lie at least between two looks at the same host, one at least.
    type: float
    default: 1
author:
  - The graceful.azure authors (@graceful-azure)
"""

EXAMPLES = r"""
- name: Look at the host
  graceful.azure.host_observation:
    ports: [80]
  register: graceful_azure_host
"""

RETURN = r"""
reached:
  description: Whether the module ran on the host.
  returned: always
  type: bool
  sample: true
error:
  description: What went wrong, where the host or its metadata service could not be read.
  returned: when it could not be read
  type: str
  sample: "Failed to connect to the host via ssh: connect to host 10.0.0.4 port 22: No route to host"
fatal:
  description: What a person must mend before anything can be done there.
  returned: when there is such a thing
  type: str
  sample: The state folder /var/lib/graceful_azure cannot be written by user id 1000.
at:
  description: When the look began, by the controller's clock, in seconds since 1970.
  returned: always
  type: float
  sample: 1795243046.25
time:
  description: The host's own clock, ISO 8601 in UTC.
  returned: when the host was reached
  type: str
  sample: "2026-11-21T06:53:03Z"
resource_name:
  description: The host's name in C(Resources), null when its service was not read or does not tell it.
  returned: when the host was reached
  type: str
  sample: web_0
events:
  description: The events as M(graceful.azure.scheduled_events_info) returns them; null when the service was not read.
  returned: when the host was reached
  type: list
  elements: dict
  sample: []
passing:
  description: Whether RV(error) of the metadata service is one that passes by itself.
  returned: when the service was not read
  type: bool
  sample: true
document_incarnation:
  description: The number of the document.
  returned: when the service was read
  type: int
  sample: 7
connections:
  description: Established connections by local port and peer; null when they could not be counted.
  returned: when the host was reached
  type: list
  elements: dict
  sample:
    - port: 80
      peer: 10.0.0.9
      count: 3
holds:
  description: Every record of a hold on this host, as it stands in its file.
  returned: when the host was reached
  type: list
  elements: dict
  sample: []
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils._connections import ConnectionsError, established
from ansible_collections.graceful.azure.plugins.module_utils._holds import (
    DEFAULT_STATE_DIR,
    HoldError,
    check_writable,
    list_records,
    utc_now,
)
from ansible_collections.graceful.azure.plugins.module_utils._imds import (
    ImdsError,
    client_from_params,
    imds_argument_spec,
)
from ansible_collections.graceful.azure.plugins.module_utils._waiting import read_events


def observe(params, create, monotonic=time.monotonic):
    """The look, as data. A mistake stands in C(fatal), what may pass in C(error)."""
    seen = {"time": utc_now(), "events": None, "resource_name": None, "connections": None, "holds": []}
    deadline = monotonic() + params["timeout"]
    try:
        check_writable(params["state_dir"], create)
        seen["holds"] = [
            # A balancer may run on this host or, in tests, share its folder: its holds are told by its own look.
            record for record in list_records(params["state_dir"]) if record["kind"] in ("service", "task")
        ]
    except HoldError as error:
        seen["fatal"] = str(error)
        return seen
    try:
        client = client_from_params(params)
    except ValueError as error:
        seen["fatal"] = str(error)
        return seen
    try:
        reading = read_events(client, resource_name=params["resource_name"], deadline=deadline)
    except ImdsError as error:
        seen["error"] = str(error)
        seen["passing"] = error.passing
    else:
        seen.update(
            events=reading.events,
            resource_name=reading.resource_name,
            document_incarnation=reading.document_incarnation,
        )
    try:
        seen["connections"] = established(params["ports"])
    except ConnectionsError as error:
        seen["fatal"] = str(error)
    return seen


def main():
    module = AnsibleModule(
        argument_spec=dict(
            imds_argument_spec(),
            ports={"type": "list", "elements": "int", "default": []},
            state_dir={"type": "path", "default": DEFAULT_STATE_DIR},
            timeout={"type": "float", "default": 5},
            interval={"type": "float", "default": 1},
        ),
        supports_check_mode=True,
    )
    module.exit_json(changed=False, **observe(module.params, create=not module.check_mode))


if __name__ == "__main__":
    main()
