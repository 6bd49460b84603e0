#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation only; the work is done by the action plugin of the same name on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: check_settings
short_description: "Internal: check the variables of the hosts before anything is done"
version_added: 1.0.0
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
  - Without O(role), checks the variables of all hosts of the play and begins a run.
  - With O(role), checks what the responder of one host needs, and returns it.
  - Runs on the controller, connects to no host and changes nothing. If a variable is wrong it fails and names every mistake.
extends_documentation_fragment:
  - graceful.azure._attributes
options:
  role:
    description:
      - V(responder) for the responder to health probes. All other options are for a run of the playbook.
    type: str
    choices: [responder]
  timeout:
    description:
      - Seconds after which the run ends. Needed without O(role).
    type: float
  sleep:
    description:
      - Seconds between two looks at the same host. Needed without O(role).
    type: float
  observe_timeout:
    description:
      - How many seconds one look at a host may take. Needed without O(role).
    type: float
  wait:
    description:
      - Whether more passes follow. Needed without O(role).
    type: bool
  watch:
    description:
      - Whether the run waits for a first event.
    type: bool
    default: false
  journal:
    description:
      - Path of a file on the controller to which the passes will be written. It fails if that is impossible.
    type: path
  report:
    description:
      - Path of a folder on the controller to which the report will be written. It is made if it is missing. It fails if that is impossible.
    type: path
  metrics:
    description:
      - Path of a file on the controller to which the metrics will be written. Its name must end with C(.prom). It fails if that is impossible.
    type: path
author:
  - The graceful.azure authors (@graceful-azure)
"""

EXAMPLES = r"""
- name: Check the settings of all hosts
  graceful.azure.check_settings:
    timeout: 3600
    sleep: 1
    observe_timeout: 5
    wait: true
  run_once: true
  register: graceful_azure_plan

- name: Check what the responder needs
  graceful.azure.check_settings:
    role: responder
"""

RETURN = r"""
settings:
  description: The settings of each host, in the form that the plan reads.
  returned: without O(role)
  type: dict
  sample: {}
responder:
  description: What the responder of this host needs.
  returned: with O(role)
  type: dict
  sample: {}
run:
  description: The settings of the run, and when it began.
  returned: without O(role)
  type: dict
  sample: {}
with_files:
  description: Whether any host has task files of the user's own.
  returned: without O(role)
  type: bool
  sample: false
turns:
  description: What each host does in the first pass.
  returned: without O(role)
  type: dict
  sample: {}
seen:
  description: The last look at each host and at each balancer, of which there is none yet.
  returned: without O(role)
  type: dict
  sample: {}
connection:
  description: How Ansible reaches a machine that does not say it.
  returned: without O(role)
  type: str
  sample: ssh
unsaid_connections:
  description: The machines that do not say how they are reached, if another one is reached in another way than the usual one.
  returned: without O(role)
  type: list
  elements: str
  sample: []
number:
  description: The number of the last pass, which is V(0).
  returned: without O(role)
  type: int
  sample: 0
memory:
  description: What the first pass remembers, which is nothing.
  returned: without O(role)
  type: dict
  sample: {}
"""
