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


from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils._cluster import (
    KIND,
    DryMember,
    MemberError,
    Members,
    Tools,
    check_options,
)
from ansible_collections.graceful.azure.plugins.module_utils._cluster_types import TYPES
from ansible_collections.graceful.azure.plugins.module_utils._duties.cluster import LOOKS, Clock, bears_name, follow
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Engine
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import (
    HoldError,
    Request,
    Store,
    hold_argument_spec,
)
from ansible_collections.graceful.azure.plugins.module_utils._polling import check_seconds


def argument_spec():
    return dict(
        hold_argument_spec(),
        type={"type": "str", "choices": list(TYPES)},
        name={"type": "str"},
        options={"type": "dict"},
        force={"type": "bool", "default": False},
        timeout={"type": "float", "default": 0},
    )


REQUIRED_IF = [("state", "present", ("event_ids", "type", "name"))]


def run(params, check_mode, tools=None, store=None, types=None, clock=None):
    request = Request.from_params(params)
    clock = clock or Clock(0.0 if check_mode else check_seconds("timeout", params["timeout"]))
    tools, types = tools or Tools(), TYPES if types is None else types
    store = store or Store(params["state_dir"], dry=check_mode)
    wanted = [(params["type"], params["name"], _checked(types, params))] if request.present else _held(store, types, params, tools)
    results = []
    for type_name, name, options in wanted:
        member = types[type_name](options, tools)
        member = DryMember(member) if check_mode else member
        driver = Members(member, store, request, type_name, name, options, tools.boot_id(), params["force"])
        if params["timeout"] <= driver.pause:
            driver.pause = params["timeout"] / LOOKS
        results.append(follow(Engine(driver, store, request, clock.monotonic, clock.sleep), clock, "%s (%s)" % (member.title, name)))
    waiting_for = [waiting for _engine, waiting in results if waiting]
    engines = [engine for engine, _waiting in results]
    return {
        "changed": any(engine.changed for engine in engines),
        "members": [engine.driver.describe(hold) for engine in engines for hold in engine.current],
        "done": not waiting_for,
        "waiting_for": waiting_for[0] if waiting_for else None,
        "conflicts": [conflict for engine in engines for conflict in engine.conflicts],
        "diff": {way: {name: told for engine in engines for name, told in engine.diff[way].items()} for way in ("before", "after")},
    }


def _checked(types, params):
    """The options of the member in their types."""
    name = params["name"]
    if name is not None and not name.strip():
        raise ValueError("name is empty: give the hold a name.")
    options, mistakes = check_options(types[params["type"]], params["options"] or {})
    if mistakes:
        raise ValueError("; ".join("options%s: %s" % ("." + option if option else "", problem) for option, problem in mistakes) + ".")
    return options


def _held(store, types, params, tools):
    """The members that the request is about: those on record, or the one in its options if what was set there bears our name."""
    found = []
    for record in store.records(KIND):
        type_name, name = record["subject"]["type"], record["subject"]["name"]
        if params["type"] in (None, type_name) and params["name"] in (None, name):
            if type_name not in types:
                raise ValueError("The record %s is about a member of the type %s, which this release does not know." % (record["path"], type_name))
            found.append((type_name, name, record["options"]))
    if not found and params["type"] and params["options"] is not None:
        options = _checked(types, params)
        if bears_name(types[params["type"]](options, tools)):
            found.append((params["type"], params["name"] or params["type"], options))
    return found


def main():
    module = AnsibleModule(argument_spec=argument_spec(), required_if=REQUIRED_IF, supports_check_mode=True)
    try:
        result = run(module.params, module.check_mode)
    except (MemberError, HoldError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
