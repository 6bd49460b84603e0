#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation only; the work is done by the action plugin of the same name on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: history
short_description: "Internal: show what many reports say of each type of event"
version_added: 1.0.0
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
    Elsewhere use the playbook C(graceful.azure.history).
  - Reads the reports that runs wrote with C(handle_events_report). For each type of event it shows how much notice there was, how long hosts took to
    drain, how long the impact lasted, for how long hosts were out of service, and how often a person was needed.
  - It runs on the controller, connects to no host and asks no service.
extends_documentation_fragment:
  - graceful.azure._attributes
options:
  folder:
    description:
      - Path of the folder on the controller with the reports.
    type: path
    required: true
  page:
    description:
      - Path of an HTML page to write, with the same table and a picture.
    type: path
author:
  - The graceful.azure authors (@graceful-azure)
"""

EXAMPLES = r"""
- name: Show what happened in this year
  graceful.azure.history:
    folder: /var/log/graceful-azure/reports
    page: /var/www/history.html
"""

RETURN = r"""
runs:
  description: How many reports were read.
  returned: success
  type: int
  sample: 12
types:
  description: >-
    For each type of event the number of C(events), their C(outcomes), how often a host needed a person (C(needs_person)), and C(count), C(median) and
    C(worst) of C(notice), C(drain), C(impact) and C(out), in seconds. The worst notice is the shortest.
  returned: success
  type: dict
  sample:
    Reboot:
      events: 3
      outcomes: {completed: 3}
      needs_person: 0
      notice: {count: 3, median: 899.0, worst: 874.2}
      drain: {count: 3, median: 4.1, worst: 31.0}
      impact: {count: 3, median: 95.3, worst: 140.2}
      out: {count: 3, median: 118.8, worst: 190.1}
unreadable:
  description: Files that are no reports, one sentence each.
  returned: always
  type: list
  elements: str
  sample: []
"""
