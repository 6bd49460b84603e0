#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation only; the work is done by the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: replay
short_description: "Internal: plan the passes of a journal again"
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
    Elsewhere use the playbook C(graceful.azure.replay).
  - Decides every pass of a journal (C(handle_events_journal)) again from what was observed then, and fails if a decision differs.
  - It runs on the controller, connects to no host and asks no service.
extends_documentation_fragment:
  - graceful.azure._attributes
options:
  journal:
    description: Path of the journal on the controller.
    type: path
    required: true
  number:
    description: Number of the pass. Without it, all passes.
    type: int
"""

EXAMPLES = r"""
- name: See what was decided in the third pass, and why
  graceful.azure.replay:
    journal: /tmp/journal
    number: 3
"""

RETURN = r""" # """
