#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation only; the work is done by the action plugin of the same name on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: check_awx_setup
short_description: "Internal: check the settings of the playbook that sets up AWX"
version_added: 1.0.0
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
  - Checks the settings of the playbook C(graceful.azure.awx), which are variables that begin with C(awx_setup_). Fails with a sentence for each mistake.
  - If there is none, it returns what the tasks of the playbook need.
  - Runs on the controller, connects to no host and does not ask AWX.
extends_documentation_fragment:
  - graceful.azure._attributes
options:
  made:
    description: What the tasks that make the C(project), the C(inventory) and the C(notification) returned.
    type: dict
    default: {}
  refused:
    description: What a module of awx.awx said when it failed at the first question to AWX. Fails with this text and with what the user can mend.
    type: str
author:
  - The graceful.azure authors (@graceful-azure)
"""

EXAMPLES = r"""
- name: Refuse what cannot be right
  graceful.azure.check_awx_setup:
  register: setup
"""

RETURN = r"""
msg:
  description: Every mistake, one sentence each.
  returned: if a setting is wrong
  type: str
  sample: "awx_setup_schedule is maybe: must be true or false."
can_go_on:
  description: Whether the objects that the next tasks need exist. False only in check mode.
  returned: if no setting is wrong
  type: bool
  sample: true
schedule:
  description:
    - The settings of the schedule, with their defaults.
    - Other settings are returned in the same way. Secrets are not returned.
  returned: if no setting is wrong
  type: dict
  sample: {"enabled": true, "minutes": 1, "timeout": 600, "target": "all"}
"""
