#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_hold
short_description: Take a host out of duty in its cluster for an event, and let it serve again
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Takes a member of a cluster out of duty for an event and records what it found (a hold), or releases the hold. When the last event is released,
    the member may serve again. It does not get back a role that it handed over.
  - The module runs on the member itself, and asks and tells the cluster through the member's own tools.
  - First it asks the cluster whether it can spare the member. If it cannot, nothing is changed, and the module waits.
  - The member is drained when the cluster says that nothing is left on it. The exit code of a command is no proof.
  - What the module sets bears the name C(graceful.azure) if the cluster knows names for it. If somebody else took the member out, nothing is set and
    nothing is given back. If somebody else has put the member back in the same boot, the next call with O(state=present) reports this and takes it out
    once more. The second time the call leaves it alone, is not done, and says so in RV(waiting_for). A release reports it and leaves it alone.
extends_documentation_fragment:
  - graceful.azure._hold
  - graceful.azure._attributes
attributes:
  diff_mode:
    support: full
  idempotent:
    support: full
    details:
      - A call that only continues to wait is no change. A call that takes the member out, or gives it back, is one.
options:
  type:
    description:
      - The type of the cluster. Required for O(state=present). Without it, O(state=absent) applies to the holds of all types.
    type: str
    choices: [pacemaker, slurm, patroni, rabbitmq, redis, consul, kubernetes]
  name:
    description:
      - A name for the hold, such as that of the duty. Required for O(state=present). Without it, O(state=absent) applies to all holds.
    type: str
  options:
    description:
      - The options of that type, see U(https://github.com/graceful-azure/graceful.azure/blob/main/docs/clusters.md).
      - The record keeps them, so O(state=absent) needs none. If the record is lost, O(state=absent) with O(type) and these options gives back a member that
        C(graceful.azure) has taken out, as far as the cluster knows names for that (Consul, Kubernetes, Pacemaker, Slurm).
    type: dict
  force:
    description:
      - Whether to take the member out without asking whether the cluster can spare it.
    type: bool
    default: false
  timeout:
    description:
      - How many seconds to wait until everything is done. V(0) takes one step, which does not wait.
      - When the time is over, the module does not fail. RV(done) is then V(false), and a later call continues.
    type: float
    default: 0
seealso:
  - module: graceful.azure.service_hold
  - module: graceful.azure.task_hold
"""

EXAMPLES = r"""
- name: Move everything that Pacemaker runs on this node to another one
  graceful.azure.cluster_hold:
    type: pacemaker
    name: ha
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    timeout: 60

- name: The event is over
  graceful.azure.cluster_hold:
    type: pacemaker
    name: ha
    state: absent
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    timeout: 60

- name: Let another Redis server become the master, and fail if none has after a minute
  graceful.azure.cluster_hold:
    type: redis
    name: cache
    options:
      master: shop
      password_file: /etc/redis/password
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    timeout: 60
  register: handed_over
  failed_when: handed_over is failed or not handed_over.done

- name: See whether Consul could do without this node now
  graceful.azure.cluster_hold:
    type: consul
    name: services
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
  check_mode: true
  register: predicted

- name: Show what it would have to wait for
  ansible.builtin.debug:
    var: predicted.waiting_for

- name: Let the host serve again in all its clusters, whatever event holds it
  graceful.azure.cluster_hold:
    state: absent
    timeout: 60
"""

RETURN = r"""
members:
  description: The member, or with O(state=absent) all members that were held.
  returned: success
  type: list
  elements: dict
  contains:
    type:
      description: The type of the cluster.
      type: str
    name:
      description: The name of the hold.
      type: str
    member:
      description: What the host is called in its cluster.
      type: str
    serves:
      description: Whether it may serve, because nobody took it out.
      type: bool
    left:
      description: What is still on it. Null if it is drained.
      type: str
    state:
      description: What the cluster tells about it. The keys depend on the type.
      type: dict
    found:
      description: The state before the module changed it. Null if it is not held.
      type: dict
    held_by:
      description: The events that hold it.
      type: list
      elements: str
    condition:
      description:
        - V(held) - this module took it out, and it is drained.
        - V(draining) - it is to be taken out, or something is left on it. V(returning) - what took it out is to be removed.
        - V(taken_out_by_others) - somebody else took it out.
        - V(rebooted) - it may serve again because the host was rebooted, or its part of the cluster was restarted.
        - V(changed_meanwhile) - what this module set is gone, because somebody else acted. It was not touched. With O(state=present) that is so
          when somebody has put it back for the second time. The first time it is taken out once more, and RV(conflicts) says so.
        - V(none) - it is not held.
      type: str
  sample:
    - type: pacemaker
      name: ha
      member: web1
      serves: false
      left: null
      state: {constraint: true, online: true, standby: false, resources: 0}
      found: {constraint: false, online: true, standby: false, resources: 2}
      held_by: [602d9444-d2cd-49c7-8624-8643e7171297]
      condition: held
done:
  description: Whether there is nothing left to wait for.
  returned: success
  type: bool
  sample: true
waiting_for:
  description: What the module waits for. Null when everything is done.
  returned: success
  type: str
  sample: 2 resources run on web1
conflicts:
  description: Where somebody else acted in the meantime, one sentence each.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible_collections.graceful.azure.plugins.module_utils._module_of_call import main_of


def main():
    main_of("cluster_hold")


if __name__ == "__main__":
    main()
