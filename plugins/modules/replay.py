#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation only; the work is done by the action plugin of the same name on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: replay
short_description: "Internal: plan the passes of a journal again"
version_added: 1.0.0
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
    Elsewhere use the playbook C(graceful.azure.replay).
  - Reads a journal that C(graceful.azure.handle_events) wrote with C(handle_events_journal). It decides every pass again from what was observed
    then. It shows state, reason, step and deadline of each host, and whether the run decided the same.
  - It runs on the controller, connects to no host and asks no service.
  - It fails if a decision differs. This can happen if another version of the collection wrote the journal.
  - A line that cannot be read, such as the last line of a run that was killed, is a warning.
extends_documentation_fragment:
  - graceful.azure._attributes
options:
  journal:
    description:
      - Path of the journal on the controller.
    type: path
    required: true
  number:
    description:
      - Number of the pass. Without it, all passes. A file with several runs has several passes of each number.
    type: int
author:
  - The graceful.azure authors (@graceful-azure)
"""

EXAMPLES = r"""
- name: See what was decided in the third pass, and why
  graceful.azure.replay:
    journal: /tmp/journal
    number: 3
"""

RETURN = r"""
passes:
  description: How many passes were planned again.
  returned: always
  type: int
  sample: 41
different:
  description: How many of them are now decided differently.
  returned: always
  type: int
  sample: 0
unreadable:
  description: Lines that contain no pass, one sentence each.
  returned: always
  type: list
  elements: str
  sample: []
msg:
  description: The result in words.
  returned: always
  type: str
  sample: 41 passes planned again, each decided as the run did
"""
