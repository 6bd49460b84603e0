#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation only; the work is done by the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: plan_by_hand
short_description: "Internal: decide what is shown and what is released by hand"
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
  - Checks the options of the playbook C(graceful.azure.holds), finds the machines on which the records of a host are, and decides from what was seen
    there what is shown, what is released, and what is refused.
  - Runs on the controller and connects to no host.
extends_documentation_fragment:
  - graceful.azure._attributes
options:
  phase:
    description: What is asked for.
    type: str
    required: true
    choices:
      options: Check the options and return them. Once for the whole play.
      places: Return the machines on which the records of this host are.
      release: Decide for all hosts of the play, and show what is held. Once for the whole play. What is refused is data.
      released: Say what was given back for this host, and which events still name it.
"""

EXAMPLES = r"""
- name: Decide what is shown and what is released
  graceful.azure.plan_by_hand:
    phase: release
  run_once: true
  register: graceful_azure_held
"""

RETURN = r""" # """
