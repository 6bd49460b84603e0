#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: duty
short_description: Take a host off its duties for an event, and put it back
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - A duty is something that a host does for others. It serves behind a load balancer, is a member of a cluster, or runs a service. The list O(duties) is that
    of the variable C(graceful_azure_duties), so this module does by hand what the roles and playbooks of this collection do.
  - With O(state=out) the host is taken off each duty in the order of the list, and a record says what was found and for which events (a hold). With
    O(state=back) the holds are released from the last to the first, but V(health_probe) before other duties that bring traffic. When the last event of a hold
    is released, what was found comes back.
  - The first duty that is not done ends the call, and RV(waiting_for) says why. A later call continues.
  - A duty that brings no traffic, such as a service, is begun only when those before it in the same call, such as V(haproxy), bring none any more.
  - What is off already is left alone, for example a server in an operator's maintenance. If somebody else changes what is held, this is reported, and what
    they did stays.
  - After that it looks. RV(duties) is what was there then.
extends_documentation_fragment:
  - graceful.azure._duties
  - graceful.azure._attributes
attributes:
  check_mode:
    details:
      - What it predicts is in RV(acts). RV(duties) is what is there.
  diff_mode:
    support: full
  idempotent:
    details:
      - A call that only continues to wait is no change.
      - A duty V(health_probe) with a command runs its command again if that failed.
options:
  state:
    description:
      - V(out) takes the host off and records it. V(back) releases the holds.
    type: str
    choices: [out, back]
    default: out
  event_ids:
    description:
      - Ids of the events for which the host is taken off, or whose holds are released. Upper and lower case do not matter.
      - Required for O(state=out). Without this option, O(state=back) releases the holds of all events.
    type: list
    elements: str
  event_details:
    description:
      - What else to record about the events, as a dictionary for each event id.
    type: dict
    default: {}
  reason:
    description:
      - The reason, for people who read the records.
    type: str
    default: ""
  min_in_service:
    description:
      - How many servers of each backend of V(haproxy), upstream of V(nginx) or pool of V(azure_load_balancer) must stay in service, a number or a percentage
        such as V(50%). If too few would stay, the host stays, too, and RV(waiting_for) says so.
      - Without this option nothing is counted. It is refused where only other duties bring traffic.
    type: str
  force:
    description:
      - Whether a member of a cluster goes out even if its cluster cannot spare it.
    type: bool
    default: false
  timeout:
    description:
      - How many seconds the whole call may wait, such as for requests to end, for services to stop or for health checks to pass.
      - When the time is over, the module does not fail. RV(done) is then V(false), and a later call continues.
      - With V(0) each duty takes one step.
    type: float
    default: 120
seealso:
  - module: graceful.azure.duty_info
  - module: graceful.azure.connections_info
"""

EXAMPLES = r"""
# A host with graceful_azure_duties:
#   - {type: haproxy, hosts: [lb1, lb2]}
#   - app
- name: Take the host out of its balancers, and wait until they have no request for it any more
  graceful.azure.duty:
    duties: "{{ graceful_azure_duties }}"
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    reason: Reboot at 22:26
  delegate_to: "{{ item }}"
  loop: [lb1, lb2]
  register: balancers
  until: balancers.done and not balancers.duties | map(attribute='busy') | flatten
  retries: 30
  delay: 2

- name: Stop what runs on the host
  graceful.azure.duty:
    duties: "{{ graceful_azure_duties }}"
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
  register: host
  failed_when: host is failed or not host.done

- name: The event is over, so start the application again
  graceful.azure.duty:
    duties: "{{ graceful_azure_duties }}"
    state: back
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
  register: host
  failed_when: host is failed or not host.done

- name: Let the balancers send requests again
  graceful.azure.duty:
    duties: "{{ graceful_azure_duties }}"
    state: back
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
  delegate_to: "{{ item }}"
  loop: [lb1, lb2]

- name: See what would happen to one service
  graceful.azure.duty:
    duties: [app]
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
  check_mode: true
  diff: true
"""

RETURN = r"""
done:
  description: Whether there is nothing left to wait for.
  returned: success
  type: bool
  sample: true
waiting_for:
  description: Why the call ended before the last duty, one sentence each.
  returned: success
  type: list
  elements: str
  sample: ["2 sessions, 0 queued at www/web1"]
conflicts:
  description: Where somebody else acted in the meantime, one sentence each.
  returned: success
  type: list
  elements: str
  sample: []
acts:
  description: What was done, one entry for each duty that was begun.
  returned: success
  type: list
  elements: dict
  contains:
    type:
      description: The type of the duty.
      type: str
    name:
      description: Its name.
      type: str
    to:
      description: V(out) or V(back).
      type: str
    done:
      description: Whether there is nothing left to wait for.
      type: bool
    changed:
      description: Whether this call changed something.
      type: bool
    waiting_for:
      description: What it waits for, one sentence each.
      type: list
      elements: str
    conflicts:
      description: Where somebody else acted, one sentence each.
      type: list
      elements: str
    failed:
      description: Why it failed. Null if it did not.
      type: str
  sample:
    - type: haproxy
      name: haproxy
      to: out
      done: true
      changed: true
      waiting_for: []
      conflicts: []
      failed: null
duties:
  description: What was there after that, as M(graceful.azure.duty_info) returns it.
  returned: success
  type: list
  elements: dict
  sample: [{type: haproxy, name: haproxy, state: out, serves: false, busy: [], held_by: [], why: [], problem: null, doubts: []}]
left_out:
  description:
    - The entries of O(duties) that belong to another machine, or to task files.
    - A task fails that is delegated to a machine to which none of them belongs.
  returned: success
  type: list
  elements: dict
  contains:
    type:
      description: The type of the duty.
      type: str
    name:
      description: Its name.
      type: str
    why:
      description: Where it belongs, a sentence.
      type: str
  sample:
    - {type: service, name: app, why: "It is a duty of web1 itself: run the task without delegate_to."}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils._duties.all_types import read_list
from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import BACK, OUT
from ansible_collections.graceful.azure.plugins.module_utils._duties.in_order import duties_argument_spec, in_order, shown, way_back
from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import HoldError, hold_argument_spec
from ansible_collections.graceful.azure.plugins.module_utils._polling import check_seconds


def argument_spec():
    holds = hold_argument_spec()
    return {
        **duties_argument_spec(),
        "state": {"type": "str", "choices": [OUT, BACK], "default": OUT},
        **{name: holds[name] for name in ("event_ids", "event_details", "reason")},
        "min_in_service": {"type": "str"},
        "force": {"type": "bool", "default": False},
        "timeout": {"type": "float", "default": 120},
    }


REQUIRED_IF = [("state", OUT, ("event_ids",))]
# The options that each act has.
OF_ACTS = ("event_ids", "event_details", "reason", "min_in_service", "force")


def run(params, machine):
    """Returns a result, which says itself whether it failed."""
    duties = [entry.on(machine) for entry in read_list(params["duties"], type(machine))]
    check_seconds("timeout", params["timeout"])
    of_each = {key: params[key] for key in OF_ACTS}
    order, checked_later = (range(len(duties)), set()) if params["state"] == OUT else way_back(duties)
    acts = [dict(of_each, duty=params["duties"][number], to=params["state"], checked_later=number in checked_later) for number in order]
    answer = shown(in_order({"acts": acts, "look": params["duties"], "timeout": params["timeout"]}, machine))
    answer["waiting_for"] = [sentence for act in answer["acts"] for sentence in act["waiting_for"]]
    answer["conflicts"] = [sentence for act in answer["acts"] for sentence in act["conflicts"]]
    failed = ["%s: %s" % (act["name"], act["failed"]) for act in answer["acts"] if act["failed"]]
    return dict(answer, left_out=[], **({"failed": True, "msg": failed[0]} if failed else {}))


def main():
    module = AnsibleModule(argument_spec=argument_spec(), required_if=REQUIRED_IF, supports_check_mode=True)
    params = module.params
    try:
        result = run(params, Machine(module.run_command, params["state_dir"], module.check_mode, params["ports"]))
    except (HoldError, ValueError) as error:
        module.fail_json(msg=str(error))
    if result.pop("failed", False):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
