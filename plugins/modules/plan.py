#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation only; the work is done by the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: plan
short_description: "Internal: decide one step for every host of a pass"
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
  - Takes what was observed on the hosts of the play, and their settings. Decides one step for each host, with a reason in words and a deadline.
  - Runs on the controller once for the whole play and connects to no host. Mistakes are data, so that it never fails while a run goes on.
    Only the last task of a run fails (O(phase=result)), where a person is needed or the run's time is over.
extends_documentation_fragment:
  - graceful.azure._attributes
options:
  phase:
    description: V(pass) plans one pass. V(result) shows what became of each event.
    type: str
    choices: [pass, result]
    default: pass
  journal:
    description: Path of a file on the controller to which each pass is appended as a line of JSON.
    type: path
  report:
    description: A folder on the controller for the report of the run.
    type: path
  metrics:
    description: A file on the controller for the textfile collector of Prometheus' node_exporter.
    type: path
  story:
    description: Whether the result keeps what happened so far, even if nothing is written.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Plan one pass
  graceful.azure.plan:
  run_once: true
  register: graceful_azure_plan
"""

RETURN = r""" # """
