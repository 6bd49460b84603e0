#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: duty_info
short_description: See whether a host is on or off its duties, what keeps it there, and what is held
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Looks at the duties that M(graceful.azure.duty) takes a host off and puts it back on. It changes nothing.
  - What it returns is what was seen, and not what a record says. A duty that cannot be looked at is no failure. Its state is V(unknown), and
    RV(duties[].problem) says why.
extends_documentation_fragment:
  - graceful.azure._duties
  - graceful.azure._attributes
attributes:
  diff_mode:
    support: N/A
seealso:
  - module: graceful.azure.duty
"""

EXAMPLES = r"""
- name: See what the balancer has for the host
  graceful.azure.duty_info:
    duties: "{{ graceful_azure_duties }}"
  delegate_to: lb1
  register: balancer

- name: Go on only when it is off, and nothing is left
  ansible.builtin.assert:
    that:
      - balancer.duties | rejectattr('state', 'equalto', 'out') | length == 0
      - balancer.duties | map(attribute='busy') | flatten | length == 0

- name: See what runs on the host itself
  graceful.azure.duty_info:
    duties: "{{ graceful_azure_duties }}"
  register: host

- name: Show what is held, and for which events
  ansible.builtin.debug:
    msg: "{{ item.name }}: {{ item.held_by | join(', ') }}"
  loop: "{{ host.duties | selectattr('held_by') }}"
  loop_control:
    label: "{{ item.name }}"

- name: Wait until the node of a cluster serves again
  graceful.azure.duty_info:
    duties: [{type: consul}]
  register: node
  until: node.duties[0].serves
  retries: 30
  delay: 2
"""

RETURN = r"""
duties:
  description: The duties that belong to this machine, in the order of O(duties).
  returned: success
  type: list
  elements: dict
  contains:
    type:
      description: The type.
      type: str
    name:
      description: The name.
      type: str
    state:
      description:
        - V(in) - the host is on this duty.
        - V(out) - it is off, whoever took it off. It is not idle yet if RV(duties[].busy) says what is left.
        - V(changing) - it is on its way, or off in a part of its places, such as in one of two backends.
        - V(unknown) - it could not be looked at. RV(duties[].problem) says why.
      type: str
    serves:
      description: Whether something goes to the host on this duty, and could be answered. Null if nobody can tell.
      type: bool
    busy:
      description: What keeps the host from being off and idle, one sentence each. Empty if nothing does.
      type: list
      elements: str
    held_by:
      description: The events that hold it.
      type: list
      elements: str
    why:
      description: What somebody else has done, one sentence each.
      type: list
      elements: str
    problem:
      description: Why it could not be looked at, could not be taken off now, or why nobody could tell that it is off. Null if nothing is known against it.
      type: str
    doubts:
      description: What may send requests to the host past this duty, one sentence each. Nobody can tell whether it does.
      type: list
      elements: str
  sample:
    - type: haproxy
      name: haproxy
      state: out
      serves: false
      busy: ["2 sessions, 0 queued at www/web1"]
      held_by: [602d9444-d2cd-49c7-8624-8643e7171297]
      why: []
      problem: null
      doubts: []
left_out:
  description: The entries of O(duties) that belong to another machine, as M(graceful.azure.duty) returns them.
  returned: success
  type: list
  elements: dict
  sample:
    - {type: service, name: app, why: "It is a duty of web1 itself: run the task without delegate_to."}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils._duties.all_types import read_list
from ansible_collections.graceful.azure.plugins.module_utils._duties.in_order import duties_argument_spec, in_order, shown
from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import HoldError


def argument_spec():
    return duties_argument_spec()


def run(params, machine):
    read_list(params["duties"], type(machine))
    return {"changed": False, "duties": shown(in_order({"look": params["duties"]}, machine))["duties"], "left_out": []}


def main():
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    params = module.params
    try:
        # Nothing is written by a look.
        result = run(params, Machine(module.run_command, params["state_dir"], True, params["ports"]))
    except (HoldError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
