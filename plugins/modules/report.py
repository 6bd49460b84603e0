#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation only; the work is done by the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: "Internal: write the reports of the runs in a journal"
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
    Elsewhere use the playbook C(graceful.azure.report).
  - Reads a journal (C(handle_events_journal)) and writes a report of each run in it.
  - It runs on the controller, connects to no host and asks no service.
extends_documentation_fragment:
  - graceful.azure._attributes
options:
  journal:
    description: Path of the journal on the controller.
    type: path
    required: true
  folder:
    description: Path of the folder on the controller for the reports. A report of the same run is replaced.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Write the reports of the last night
  graceful.azure.report:
    journal: /var/log/graceful-azure/passes.jsonl
    folder: /var/www/reports
"""

RETURN = r""" # """
