#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation only; the work is done by the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: alone
short_description: "Internal: what one host does next in a role that is used alone"
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
  - With O(role), checks the variables that this role reads and begins it for one host. After that, says after each pass how the role goes on.
  - Runs on the controller for each host and connects to none. Mistakes and failures are data, and only V(end) of O(phase), the last task of the role, fails.
extends_documentation_fragment:
  - graceful.azure._attributes
options:
  role:
    description: The role that begins.
    type: str
    choices: [load_balancer, drain_host, approve_event, restore_service]
  phase:
    description:
      - V(begin) begins a role. V(pass) says how it goes on after a pass, from what the host has registered. V(end) tells the result, and fails if the
        role has failed.
    type: str
    choices: [begin, pass, end]
    default: begin
"""

EXAMPLES = r"""
- name: Begin
  graceful.azure.alone:
    role: drain_host
  register: graceful_azure_alone
"""

RETURN = r""" # """
