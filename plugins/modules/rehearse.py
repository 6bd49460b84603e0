#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation only; the work is done by the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rehearse
short_description: "Internal: say what a rehearsal may do, and what came of it"
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Internal to the playbooks of this collection. Options and results may change with every release. Elsewhere use the playbook C(graceful.azure.rehearse).
  - Reads what other tasks have registered, and changes nothing. It asks the real metadata service in the phase V(begin), and the simulator in the phase
    V(announce).
extends_documentation_fragment:
  - graceful.azure._attributes
options:
  phase:
    description:
      - What is asked for.
    type: str
    required: true
    choices:
      before: Refuse if a host may not be rehearsed now, after all were looked at. In check mode, show what would be done.
      begin: Wait until the balancers must have noticed that the hosts before are back. Say whether this one is rehearsed now, and how long it may take.
      pool: Say the same, after the other targets of its pool were looked at.
      announce: Announce the event at the simulator, and note what the balancers have counted so far.
      told: Say what the passes have come to.
      end: Say all that is known of a host.
      table: Show all hosts, and fail if anything was wrong.
  imds_url:
    description:
      - The base URL of the real metadata service, in the phase V(begin). See M(graceful.azure.scheduled_events_info).
    type: str
  control:
    description:
      - The control address of the simulator, in the phase V(announce).
    type: str
"""

EXAMPLES = r"""
- name: Show what came of it
  graceful.azure.rehearse:
    phase: table
  run_once: true
"""

RETURN = r""" # """
