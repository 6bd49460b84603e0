#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: machine
short_description: "Internal: ask a machine"
version_added: 1.0.0
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
  - Takes the acts of a request and then looks (O(request)), or answers one call alone (O(call)). A look comes after the acts, so it is never older than they
    are.
extends_documentation_fragment:
  - graceful.azure._attributes.windows
  - graceful.azure._attributes
attributes:
  diff_mode:
    support: full
options:
  request:
    description: Acts and a look, as C(plugins/module_utils/_handle.py) says. What goes wrong in one of them is in its result.
    type: dict
    suboptions:
      acts:
        description: The acts, in their order.
        type: list
        elements: dict
      look:
        description: The look.
        type: dict
      journal:
        description: What the journal of the machine is told first.
        type: dict
  call:
    description: The name of one call. Its result is that of this module.
    type: str
  args:
    description: The options of O(call).
    type: dict
    default: {}
  helper:
    description: The name of the process that answers the later requests of the run in place of this module. The module's process becomes it.
    type: str
author:
  - The graceful.azure authors (@graceful-azure)
"""

EXAMPLES = r"""
- name: Look at the host
  graceful.azure.machine:
    call: host_observation
    args:
      ports: [80]
"""

RETURN = r""" # """

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils._abandoned_module import end_unless_read
from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
from ansible_collections.graceful.azure.plugins.module_utils._handle import answer, handle
from ansible_collections.graceful.azure.plugins.module_utils._helper import start
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import DEFAULT_STATE_DIR

REQUEST = {"acts": {"type": "list", "elements": "dict"}, "look": {"type": "dict"}, "journal": {"type": "dict"}}
OPTIONS = {
    "request": {"type": "dict", "options": REQUEST},
    "call": {"type": "str"},
    "args": {"type": "dict", "default": {}},
    "helper": {"type": "str"},
}
CONDITIONS = {"required_one_of": [("request", "call")], "mutually_exclusive": [("request", "call")]}


def main():
    # The request goes into no log: Ansible would write all of it there.
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True, no_log=True, **CONDITIONS)

    def machine(still_wanted):
        def there(params):
            return Machine(module.run_command, params.get("state_dir") or DEFAULT_STATE_DIR, module.check_mode, still_wanted=still_wanted)

        return there

    def answer_request(args, still_wanted):
        return dict(handle(args["request"], machine(still_wanted)), changed=False)

    helper, call = module.params["helper"], module.params["call"]
    if call is None:
        result = answer_request(module.params, end_unless_read)
        module.exit_json(**(dict(result, helper=start(helper, answer_request)) if helper else result))
    result = answer(call, module.params["args"], machine(end_unless_read))
    for warning in result.pop("warnings", ()):
        module.warn(warning)
    result.setdefault("changed", False)
    if result.pop("failed", False):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
