#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation only; the work is done by the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: check_settings
short_description: "Internal: check the variables of the hosts before anything is done"
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
  - Checks the variables of all hosts of the play and begins a run; or checks what the responder of one host needs, and returns it.
  - Runs on the controller, connects to no host and changes nothing. If a variable is wrong it fails and names every mistake.
extends_documentation_fragment:
  - graceful.azure._attributes
options:
  role:
    description: V(responder) for the responder to health probes. All other options are the settings of a run (C(handle_events_*)).
    type: str
    choices: [responder]
  hosts:
    description: The hosts of the run. By default these are all hosts of the play. A rehearsal gives them.
    type: list
    elements: str
  timeout:
    description: Seconds after which the run ends.
    type: float
  sleep:
    description: Seconds between two looks at the same host.
    type: float
  observe_timeout:
    description: How many seconds one look at a host may take.
    type: float
  wait:
    description: Whether more passes follow.
    type: bool
  watch:
    description: Whether the run waits for a first event.
    type: bool
    default: false
  journal:
    description: Path of a file on the controller to which the passes will be written.
    type: path
  report:
    description: Path of a folder on the controller to which the report will be written.
    type: path
  metrics:
    description: Path of a file on the controller to which the metrics will be written.
    type: path
"""

EXAMPLES = r"""
- name: Check what the responder needs
  graceful.azure.check_settings:
    role: responder
"""

RETURN = r""" # """
