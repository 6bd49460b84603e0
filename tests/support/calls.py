# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a machine can be asked, in the process of the test."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import ThisMachine
from ansible_collections.graceful.azure.plugins.module_utils._handle import CALLS
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import DEFAULT_STATE_DIR


def call(name, params, check=False, run_command=None, machine=None, **of_machine):
    """The result of one call; its errors are raised. ``of_machine``: arguments of C(ThisMachine)."""
    called = CALLS[name]()
    given = {option: params.get(option, spec.get("default")) for option, spec in called.spec.items()}
    there = machine or ThisMachine(run_command, given.get("state_dir") or DEFAULT_STATE_DIR, check, **of_machine)
    return called.run(given, there)
