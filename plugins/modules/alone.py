#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation only; the work is done by the action plugin of the same name on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: alone
short_description: "Internal: what one host does next in a role that is used alone"
version_added: 1.0.0
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
  - With O(role), checks the variables that this role reads and begins it for one host. After that, says after each pass how the role goes on.
  - Runs on the controller for each host and connects to none. It never fails. Mistakes and failures are RV(failure), which the last task of the role tells.
extends_documentation_fragment:
  - graceful.azure._attributes
options:
  role:
    description:
      - The role that begins.
    type: str
    choices: [load_balancer, drain_host, approve_event, restore_service]
  phase:
    description:
      - What is asked for.
    type: str
    default: begin
    choices:
      begin: Begin a role.
      pass: Say how it goes on after a pass, from what the host has registered.
author:
  - The graceful.azure authors (@graceful-azure)
"""

EXAMPLES = r"""
- name: Begin
  graceful.azure.alone:
    role: drain_host
  register: graceful_azure_alone

- name: Decide after a pass
  graceful.azure.alone:
    phase: pass
  register: graceful_azure_alone
"""

RETURN = r"""
turns:
  description: What the host does in the next pass, as M(graceful.azure.plan) returns it.
  returned: unless RV(finished)
  type: dict
  sample: {}
files:
  description: The task file of the user's own that is to run before that.
  returned: unless the settings are wrong
  type: dict
  sample: {}
finished:
  description: Whether the role ends with this pass.
  returned: always
  type: bool
  sample: false
goes_on:
  description: Whether the next pass is an include inside this one.
  returned: always
  type: bool
  sample: true
result:
  description: The result of the role, as far as it is known.
  returned: always
  type: dict
  sample:
    done: true
    changed: true
    reason: "web1 is held (www on lb1: drain)"
failure:
  description: Why the role fails. Empty if it does not.
  returned: always
  type: str
  sample: ""
connection:
  description: How Ansible reaches a machine that does not say it.
  returned: always
  type: str
  sample: ssh
unsaid_connections:
  description: The machines of the host's balancers that do not say how they are reached, if another one is reached in another way than the usual one.
  returned: always
  type: list
  elements: str
  sample: []
"""
