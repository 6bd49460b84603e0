#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: task_hold
short_description: Record that tasks of your own changed a host for an event
version_added: 0.1.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Puts or releases a hold that is a record and nothing else, for what the user's own task files change. A later run,
    also on another controller, learns from it what was done and what must be undone.
  - In check mode with O(state=absent) it tells whether this is the last event to be released, which is when the tasks
    that undo the change belong to run.
extends_documentation_fragment:
  - graceful.azure._hold
  - graceful.azure._attributes
attributes:
  diff_mode:
    support: full
options:
  name:
    description:
      - What the tasks do, in a word. It is the name of the hold on this machine.
    type: str
    required: true
  done:
    description:
      - Whether the tasks have done their job. What was recorded as done stays so until the hold is released.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Remember that the host is to be taken out by our own tasks
  graceful.azure.task_hold:
    name: load_balancer_custom
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
  register: hold

- name: Take it out
  ansible.builtin.include_tasks: out.yml
  when: not hold.done

- name: Remember that it is done
  graceful.azure.task_hold:
    name: load_balancer_custom
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    done: true

- name: Would this release the last hold?
  graceful.azure.task_hold:
    name: load_balancer_custom
    state: absent
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
  check_mode: true
  register: release

- name: Take it in again
  ansible.builtin.include_tasks: in.yml
  when: release.held and not release.held_by
"""

RETURN = r"""
held:
  description: Whether there was a hold before this call.
  returned: success
  type: bool
  sample: true
done:
  description: Whether the tasks have done their job, as far as it is recorded; V(false) when there is no hold.
  returned: success
  type: bool
  sample: true
held_by:
  description: The events that hold it after this call.
  returned: success
  type: list
  elements: str
  sample: [602d9444-d2cd-49c7-8624-8643e7171297]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils._holds import (
    CHANGING,
    HELD,
    HoldError,
    Request,
    Store,
    hold_argument_spec,
    holders,
    new_record,
    same_content,
)

KIND = "task"


def wanted(request, record, name, done):
    """The record as it should be; None: none."""
    if not request.present:
        remaining = request.taken_from(record["events"]) if record else {}
        return dict(record, events=remaining) if remaining else None
    if record is None:
        record = new_record(KIND, {"name": name}, {}, {}, {}, done=False)
    done = done or record["done"]
    return dict(record, events=request.added_to(record["events"]), done=done, phase=HELD if done else CHANGING)


def run(params, check_mode):
    request = Request.from_params(params)
    name = params["name"]
    if not name.strip():
        raise ValueError("name is empty: give the hold a name.")
    store = Store(params["state_dir"], dry=check_mode)
    with store.locked(create=request.present):
        before = store.read(KIND, {"name": name})
        after = wanted(request, before, name, params["done"])
        changed = not same_content(before, after)
        if changed and after is None:
            store.delete(before)
        elif changed:
            store.write(after)
    return {
        "changed": changed,
        "held": before is not None,
        "done": bool(after and after["done"]),
        "held_by": holders(after),
        "diff": {"before": {name: view(before)}, "after": {name: view(after)}},
    }


def view(record):
    return {"done": bool(record and record["done"]), "held_by": holders(record)}


def main():
    module = AnsibleModule(
        argument_spec=dict(
            hold_argument_spec(),
            name={"type": "str", "required": True},
            done={"type": "bool", "default": False},
        ),
        required_if=[("state", "present", ("event_ids",))],
        supports_check_mode=True,
    )
    try:
        result = run(module.params, module.check_mode)
    except (HoldError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
