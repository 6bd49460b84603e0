# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tells the roles how far a step is, by what its modules returned."""

from __future__ import annotations

DOCUMENTATION = r"""
name: judge
short_description: "Internal: how far a step of a role is"
version_added: 1.0.0
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
  - The roles decide nothing themselves. They ask this filter.
  - It passes what a role's modules returned to the functions that judge it. The playbooks use the same functions.
author:
  - The graceful.azure authors (@graceful-azure)
options:
  _input:
    description:
      - What is judged. This is the name of a role, or one of V(approval_from_outside) (an approval without the host), V(drain_steps) (what is taken out
        of duty, and in which order), V(event_watcher) (what is wrong with the variables of that role), V(events) (for which events a role acts),
        V(deadline) (until when) and V(rounds) (how a wait goes on).
      - The other arguments and the result depend on it. For a role, they are described in the file of that name in C(plugins/plugin_utils/_steps), those of
        V(approval_from_outside) in C(approve_event.py) there. For V(drain_steps), see C(plugins/plugin_utils/_duties/groups.py), for V(event_watcher)
        C(plugins/plugin_utils/_watcher_setup.py), and for the others C(plugins/plugin_utils/_steps/events.py).
    type: str
    choices: [load_balancer, drain_host, approve_event, approval_from_outside, restore_service, drain_steps, event_watcher, events, deadline, rounds]
    required: true
"""

EXAMPLES = r"""
- name: Give the result
  ansible.builtin.set_fact:
    approve_event_result: >-
      {{ ('approve_event' | graceful.azure.judge(read=read, sent=sent, event_ids=[], event_details={}, ready_resources=[])).result }}
"""

RETURN = r"""
_value:
  description: The judgement. For a role, C(result) is the result of the role. The other keys tell its tasks what to do.
  type: raw
"""

import time

from ansible.errors import AnsibleFilterError
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.groups import drain_steps
from ansible_collections.graceful.azure.plugins.plugin_utils._steps import approve_event, drain_host, load_balancer, restore_service
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.events import deadline, events_of_hold, rounds


def _event_watcher(given):
    # No pass asks for it, so no pass loads it.
    from ansible_collections.graceful.azure.plugins.plugin_utils._watcher_setup import mistakes

    return mistakes(given)


STEPS = {
    "load_balancer": load_balancer.progress,
    "drain_host": drain_host.progress,
    "approve_event": approve_event.progress,
    "approval_from_outside": approve_event.progress_outside,
    "restore_service": restore_service.progress,
    "drain_steps": drain_steps,
    "event_watcher": _event_watcher,
    "events": events_of_hold,
}
TIMES = {"deadline": deadline, "rounds": rounds}


def judge(what, **told):
    try:
        return TIMES[what](time.time(), **told) if what in TIMES else STEPS[what](**told)
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from None


class FilterModule:
    def filters(self):
        return {"judge": judge}
