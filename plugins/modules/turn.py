#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation only; the work is done by the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: turn
short_description: "Internal: take one turn of a pass"
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
  - Does what M(graceful.azure.plan) decided, and looks at the host, or at the machine to which the task is delegated. It never fails and never
    makes a host unreachable, because the passes must go on whatever happens to one machine.
extends_documentation_fragment:
  - graceful.azure._attributes
attributes:
  diff_mode:
    support: full
options:
  turn:
    description: What to do, as M(graceful.azure.plan) returns it.
    type: dict
    required: true
  number:
    description: The number of the last pass. What the acts of earlier turns of this one came to decides which others are due.
    type: int
  file:
    description: The task file of the user's own that ran at the end of the last pass, with its C(record).
    type: dict
  news:
    description: Path of a file on the controller that the first turn with news writes. The looks of others that wait then end.
    type: path
  known:
    description: Pairs of an event's id and status that are no news. Needed with O(news).
    type: list
    elements: list
    default: []
  interval:
    description: How many seconds must pass between two looks at the same host. The minimum is 1.
    type: float
    default: 1
  imds_url:
    description: Base URL of the host's metadata service. See M(graceful.azure.scheduled_events_info).
    type: str
  state_dir:
    description: The folder of the records of holds on the machine.
    type: path
"""

EXAMPLES = r"""
- name: Act on hosts and balancers and look at them
  graceful.azure.turn:
    turn: "{{ turn }}"
  delegate_to: "{{ turn.machine | default(omit) }}"
  loop: "{{ graceful_azure_plan.turns[inventory_hostname] }}"
  loop_control:
    loop_var: turn
  register: graceful_azure_turns
"""

RETURN = r""" # """
