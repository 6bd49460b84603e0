#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: task_hold
short_description: Record that your own tasks changed a host for an event
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Writes or removes a record (a hold) of what your own task files change. The module changes nothing else. A later run reads from the record what was
    done and what must be undone, even if it is on another controller.
  - With O(state=absent) and O(done=false), RV(last) says whether this releases the last event. If so, run the tasks that undo the change. The record
    then says that they have begun.
extends_documentation_fragment:
  - graceful.azure._attributes.windows
  - graceful.azure._attributes
attributes:
  diff_mode:
    support: full
options:
  name:
    description:
      - What the tasks do, in one word. It is the name of the record on this machine. Each name gets a record of its own.
    type: list
    elements: str
    required: true
  done:
    description:
      - With O(state=present), whether the tasks have done their job. A record that says so keeps saying so until it is removed, or until the tasks
        that undo the change begin. V(false) keeps it as well, unless an event joins. For that event the tasks are to run again.
      - With O(state=absent), whether the tasks that undo the change have done their job. V(false) keeps the record of the last event, and records that the
        change is no longer in place. If a new event comes now, the change is made again. V(true) says that these tasks have finished. If other events are on
        the record by then, they came in the meantime, and the record says that the change must be made again for them.
      - Without this option, O(state=present) records that the tasks are not done yet. O(state=absent) releases the events, and the change stays in
        place for the events that remain.
    type: bool
  this_boot:
    description:
      - Whether what the tasks have done ends with the boot of the host. Then the record counts as not done after a reboot, and the tasks are to run again.
        It is for changes of the host itself.
    type: bool
    default: false
  journal:
    description:
      - Internal to the playbooks of this collection. Fields of an entry that is written to the journal of systemd on the host after that, with
        C(graceful-azure) as its C(SYSLOG_IDENTIFIER). On a host without such a journal, and in check mode, nothing is written.
    type: dict
    default: {}
  state:
    description:
      - V(present) makes the change and records it as a hold. V(absent) releases the hold.
    type: str
    choices: [present, absent]
    default: present
  event_ids:
    description:
      - Ids of the events for which the hold is made or released. They are kept as given. When they are compared, upper and lower case do not matter.
      - Required for O(state=present). Without this option, O(state=absent) releases the hold for every event.
      - An empty list is an error.
    type: list
    elements: str
  event_details:
    description:
      - What else to record about the events, as a dictionary for each event id.
      - If the hold already has an id, the new details replace the old ones.
    type: dict
    default: {}
  reason:
    description:
      - The reason, for people who read the record. It is recorded for the ids that this call adds.
    type: str
    default: ""
  state_dir:
    description:
      - The folder for records on the machine on which this module runs. The record of each hold is a JSON file.
      - A missing folder is created so that only its owner can read it. It is never created in check mode or for O(state=absent).
      - It must belong to root or to the user who runs the task, and must not be writable by everybody.
    type: path
    default: /var/lib/graceful_azure
seealso:
  - module: graceful.azure.duty
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

- name: Is this the last event?
  graceful.azure.task_hold:
    name: load_balancer_custom
    state: absent
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    done: false
  register: release

- name: Take it in again
  ansible.builtin.include_tasks: in.yml
  when: release.last

- name: Forget it
  graceful.azure.task_hold:
    name: load_balancer_custom
    state: absent
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    done: "{{ release.last | ternary(true, omit) }}"
"""

RETURN = r"""
held:
  description: Whether there was a record of any of these names before this call.
  returned: success
  type: bool
  sample: true
done:
  description: Whether the records say that the tasks of all these names have done their job. V(false) if there is no record.
  returned: success
  type: bool
  sample: true
last:
  description: Whether these are the last events on a record, so that no other event needs the change any more.
  returned: success
  type: bool
  sample: false
held_by:
  description: The events that are on the record after this call.
  returned: success
  type: list
  elements: str
  sample: [602d9444-d2cd-49c7-8624-8643e7171297]
journal_missed:
  description: Whether the journal was too busy to take the entry in O(journal). It may be sent again.
  returned: when the journal was too busy
  type: bool
  sample: true
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
from ansible_collections.graceful.azure.plugins.module_utils._duties.tasks import CALLS
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import HoldError


def main():
    call = CALLS["task_hold"]()
    module = AnsibleModule(argument_spec=call.spec, supports_check_mode=True, **call.conditions)
    try:
        result = call.run(module.params, Machine(module.run_command, module.params["state_dir"], module.check_mode))
    except (HoldError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
