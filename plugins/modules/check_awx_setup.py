#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation only; the work is done by the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: check_awx_setup
short_description: "Internal: check the settings of the playbook that sets up AWX"
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
  - Checks the variables that begin with C(awx_setup_), and fails with a sentence for each mistake. Otherwise it returns what the tasks of the playbook need.
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
"""

EXAMPLES = r"""
- name: Refuse what cannot be right
  graceful.azure.check_awx_setup:
  register: setup
"""

RETURN = r""" # """
