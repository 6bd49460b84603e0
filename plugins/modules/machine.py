#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: machine
short_description: "Internal: take the acts of a request, then look"
version_added: 1.0.0
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
  - Answers a request of M(graceful.azure.turn) on the machine on which it runs. The look comes after the acts, so it is never older than they are.
extends_documentation_fragment:
  - graceful.azure._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  request:
    description:
      - The acts and the look.
    type: dict
    required: true
author:
  - The graceful.azure authors (@graceful-azure)
"""

EXAMPLES = r"""
- name: Look at the host
  graceful.azure.machine:
    request:
      look:
        call: host_observation
        args: {}
"""

RETURN = r"""
acts:
  description: The result of each act, in their order. Null for one that was not begun.
  returned: success
  type: list
  elements: dict
  sample: []
look:
  description: The result of the look.
  returned: if the request has one
  type: dict
  sample: {}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils._abandoned_module import end_unless_read
from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import ThisMachine
from ansible_collections.graceful.azure.plugins.module_utils._handle import handle
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import DEFAULT_STATE_DIR


def main():
    # The request goes into no log: Ansible would write all of it there.
    module = AnsibleModule(argument_spec={"request": {"type": "dict", "required": True}}, supports_check_mode=True, no_log=True)

    def machine(params):
        return ThisMachine(module.run_command, params.get("state_dir") or DEFAULT_STATE_DIR, module.check_mode, still_wanted=end_unless_read)

    module.exit_json(changed=False, **handle(module.params["request"], machine))


if __name__ == "__main__":
    main()
