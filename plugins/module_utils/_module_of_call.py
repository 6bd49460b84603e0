# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.
# Do not use this from other collections or standalone plugins/modules!

"""A module that is one call of C(_handle.py)."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils._abandoned_module import end_unless_read
from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import ThisMachine
from ansible_collections.graceful.azure.plugins.module_utils._handle import CALLS, answer
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import DEFAULT_STATE_DIR


def main_of(name: str) -> None:
    call = CALLS[name]()
    module = AnsibleModule(argument_spec=call.spec, supports_check_mode=True, **call.conditions)

    def machine(params):  # type: ignore[no-untyped-def]
        return ThisMachine(module.run_command, params.get("state_dir") or DEFAULT_STATE_DIR, module.check_mode, still_wanted=end_unless_read)

    result = answer(name, module.params, machine)
    for warning in result.pop("warnings", ()):
        module.warn(warning)
    if result.pop("failed", False):
        module.fail_json(**result)
    module.exit_json(**result)
