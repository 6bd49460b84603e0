#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation only; the work is done by the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: history
short_description: "Internal: show what many reports say of each type of event"
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
    Elsewhere use the playbook C(graceful.azure.history).
  - Reads the reports that runs wrote with C(handle_events_report), on the controller. It connects to no host and asks no service.
extends_documentation_fragment:
  - graceful.azure._attributes
options:
  folder:
    description: Path of the folder on the controller with the reports.
    type: path
    required: true
  page:
    description: Path of an HTML page to write, with the same table and a picture.
    type: path
"""

EXAMPLES = r"""
- name: Show what happened in this year
  graceful.azure.history:
    folder: /var/log/graceful-azure/reports
"""

RETURN = r""" # """
