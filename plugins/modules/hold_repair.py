#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hold_repair
short_description: Put damaged records of holds aside
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - A damaged record (cut in half, no JSON, owned by another user) stops every step on its machine, because nobody can tell what it held.
    This module renames it in the same folder. Then it holds nothing any more.
  - What it held is left as it is. A person has to put it back. The name of the record says what it is.
  - A record that the user may not read, or that a newer release wrote, is not damaged. It is left where it is.
extends_documentation_fragment:
  - graceful.azure._attributes.windows
  - graceful.azure._attributes
attributes:
  diff_mode:
    support: none
    details:
      - RV(put_aside) says what was renamed, in check mode too.
options:
  state_dir:
    description:
      - The folder for records on the machine on which this module runs.
    type: path
    default: /var/lib/graceful_azure
seealso:
  - module: graceful.azure.haproxy_hold
  - module: graceful.azure.service_hold
  - module: graceful.azure.task_hold
"""

EXAMPLES = r"""
- name: Put damaged records aside
  graceful.azure.hold_repair:
  register: repair

- name: Tell what is to be put back by hand
  ansible.builtin.debug:
    msg: "{{ repair.put_aside }}"

- name: See what would be put aside
  graceful.azure.hold_repair:
  check_mode: true
  register: damaged

- name: Fail if there is a record that only another user or a newer release can read
  ansible.builtin.assert:
    that: damaged.left | length == 0
    fail_msg: "{{ damaged.left | join(' ') }}"
"""

RETURN = r"""
put_aside:
  description: Every damaged record.
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: Where it was.
      type: str
    to:
      description: Where it is now. It is never read again.
      type: str
    problem:
      description: What is wrong with it.
      type: str
  sample:
    - path: /var/lib/graceful_azure/haproxy_server-www-web1-0a1b2c3d4e.json
      to: /var/lib/graceful_azure/haproxy_server-www-web1-0a1b2c3d4e.json.damaged-2026-11-21T065303Z
      problem: The record cannot be used, it is not complete JSON.
left:
  description: Records that cannot be used and are not damaged, one sentence each.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import DEFAULT_STATE_DIR, HoldError, put_aside


def argument_spec():
    return {"state_dir": {"type": "path", "default": DEFAULT_STATE_DIR}}


def run(params, check_mode, put_aside=put_aside):
    """``put_aside``: how it is done on another machine than this."""
    aside, left = put_aside(params["state_dir"], check_mode)
    return {"changed": bool(aside), "put_aside": aside, "left": [str(problem) for problem in left]}


def main():
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = run(module.params, module.check_mode)
    except HoldError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
