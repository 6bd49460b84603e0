#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation only; the action plugin of the same name runs the module."""

from __future__ import annotations

DOCUMENTATION = r"""
module: give_back
short_description: "Internal: release a hold on a balancer by hand"
version_added: 1.0.0
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
  - Runs the module of this collection that M(graceful.azure.plan_by_hand) named.
extends_documentation_fragment:
  - graceful.azure._attributes
options:
  module:
    description:
      - The name of the module without the collection.
    type: str
    required: true
  options:
    description:
      - The options of the module.
    type: dict
    required: true
author:
  - The graceful.azure authors (@graceful-azure)
"""

EXAMPLES = r"""
- name: Give back a server that belongs to no host of the inventory
  graceful.azure.give_back:
    module: haproxy_hold
    options: {server: web4, state: absent}
  delegate_to: lb1
"""

RETURN = r"""
conflicts:
  description: Where somebody else acted meanwhile, with all other keys that the module returns.
  returned: as by the module
  type: list
  elements: str
  sample: []
"""
