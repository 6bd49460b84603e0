#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation only; the work is done by the action plugin of the same name on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: plan
short_description: "Internal: decide one step for every host of a pass"
version_added: 1.0.0
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
  - Takes what was observed on the hosts of the play, and their settings. Decides one step for each host, with a reason in words and a deadline.
  - Runs on the controller once for the whole play and connects to no host. Mistakes are returned as data, so that it never fails
    while a run goes on. Only O(phase=result), the last task of a run, fails, where a person is needed or the run's time is over.
extends_documentation_fragment:
  - graceful.azure._attributes
options:
  phase:
    description:
      - What is asked for.
    type: str
    default: pass
    choices:
      pass: Plan one pass.
      result: Show what became of each event, a line for each, and fail where a person is needed.
  journal:
    description:
      - Path of a file on the controller. Each pass is appended to it as a line of JSON, with everything that it was planned from.
    type: path
  report:
    description:
      - A folder on the controller. The report of the run is written there as C(report-<start>.html) and C(report-<start>.json), again after each
        pass that brings anything new.
    type: path
  metrics:
    description:
      - A file on the controller for the textfile collector of Prometheus' node_exporter. It is replaced after each pass.
    type: path
author:
  - The graceful.azure authors (@graceful-azure)
"""

EXAMPLES = r"""
- name: Plan one pass
  graceful.azure.plan:
  run_once: true
  register: graceful_azure_plan
"""

RETURN = r"""
hosts:
  description: For each host its C(state), C(reason), C(since), C(until), C(event) and the C(step) to take, which may be null.
  returned: with O(phase=pass)
  type: dict
  sample:
    web1:
      state: draining
      reason: 2 sessions, 0 queued at www/web1 on lb1
events:
  description: For each event found, its outcome and the state of each of its hosts.
  returned: with O(phase=pass)
  type: list
  elements: dict
  sample: []
finished:
  description: Whether the run ends with this pass.
  returned: with O(phase=pass)
  type: bool
  sample: false
failed_run:
  description: Whether a person is needed or the run's time is over.
  returned: with O(phase=pass)
  type: bool
  sample: false
messages:
  description: What a person has to know if RV(failed_run) is true.
  returned: with O(phase=pass)
  type: list
  elements: str
  sample: []
"""
