# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: scheduled_events_wait
short_description: Wait for Scheduled Events of an Azure VM on the machine that runs Ansible
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Waits like M(graceful.azure.scheduled_events_wait) and returns the selected events that the service lists at the end.
  - A lookup runs on the machine that runs Ansible. It reads the events of that machine, whatever host the task is for. For a remote host, use the module.
  - Use the lookup in playbooks that run on the VM itself, with C(ansible-pull) or C(connection=local). You can also use it in tests, and on a controller
    in the same scale set or availability set.
  - Without an explicit O(imds_url), the lookup refuses to run unless C(ansible_connection) is C(local) and nothing is delegated. In C(loop) and C(with_)
    it cannot know that, so O(imds_url) is required there.
  - In check mode, it reads once and does not wait. As a forecast, one document is enough for V(absent).
extends_documentation_fragment:
  - graceful.azure._imds
  - graceful.azure._imds.lookup
  - graceful.azure._selection
  - graceful.azure._selection.affecting_host
  - graceful.azure._selection.wait
options:
  _terms:
    description:
      - Only events with these ids. Upper and lower case do not matter. Without ids, all events are selected.
    type: list
    elements: str
notes:
  - Use C(query), because C(lookup) does not return a list if it has only one element.
  - A lookup in a variable runs again whenever the variable is used. Keep its result with M(ansible.builtin.set_fact).
seealso:
  - module: graceful.azure.scheduled_events_wait
  - module: graceful.azure.scheduled_events_info
"""

EXAMPLES = r"""
- name: On the VM itself, wait for an event that is going to hit it
  hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - name: Wait
      ansible.builtin.set_fact:
        found: "{{ query('graceful.azure.scheduled_events_wait', timeout=0) }}"

    - name: Wait until it is over
      ansible.builtin.debug:
        msg: "It is over: {{ query('graceful.azure.scheduled_events_wait', found | map(attribute='event_id'), state='absent', timeout=1200) }}"

- name: From a controller in the same scale set, with its own metadata service
  hosts: all
  gather_facts: false
  tasks:
    - name: Wait for an event of this VM
      ansible.builtin.set_fact:
        found: "{{ query('graceful.azure.scheduled_events_wait', imds_url='http://169.254.169.254', resource_name=graceful_azure_resource_name, timeout=60) }}"

- name: Ask the simulator, and go on with a warning if nothing is announced within ten seconds
  hosts: localhost
  gather_facts: false
  vars:
    graceful_azure_imds_url: http://127.0.0.1:8171
  tasks:
    - name: Wait for an eviction
      ansible.builtin.set_fact:
        found: "{{ query('graceful.azure.scheduled_events_wait', event_types=['Preempt'], timeout=10, errors='warn') }}"

    - name: Say whether there is one
      ansible.builtin.debug:
        msg: "{{ found | map(attribute='event_id') | first | default('none is announced') }}"
"""

RETURN = r"""
_raw:
  description:
    - The selected events that the service lists when a state is reached, as M(graceful.azure.scheduled_events_info) returns them.
    - For V(absent), the list is empty.
  type: list
  elements: dict
"""

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible.utils.display import Display
from ansible_collections.graceful.azure.plugins.module_utils._imds import ImdsError, client_from_params
from ansible_collections.graceful.azure.plugins.module_utils._selection import Selection, SelectionError
from ansible_collections.graceful.azure.plugins.module_utils._waiting import TIMEOUT, Wait, timeout_message

display = Display()

NAME = "graceful.azure.scheduled_events_wait"

LOCAL = ("local", "ansible.builtin.local", "ansible.legacy.local")

# Ansible adds all of these once it knows the connection of the task. In loop, with_ and hostvars it does not know it yet. Then ansible_connection
# says nothing about the task.
SETTLED = ("ansible_host", "ansible_ssh_host", "ansible_timeout", "ansible_ssh_timeout")


class LookupModule(LookupBase):
    def run(self, terms, variables=None, **kwargs):
        variables = variables or {}
        # Before core 2.19, with_ adds wantlist.
        kwargs = {name: value for name, value in kwargs.items() if value is not None and name != "wantlist"}
        if "imds_url" not in kwargs and "graceful_azure_imds_url" in variables:
            kwargs["imds_url"] = self._templar.template(variables["graceful_azure_imds_url"])
        self.set_options(var_options=variables, direct=kwargs)
        params = self.get_options()
        unknown = sorted(set(kwargs) - set(params))
        if unknown:
            raise AnsibleLookupError(f"{NAME} has no option {', '.join(unknown)}. It has {', '.join(sorted(set(params) - {'_terms'}))}.")
        if "imds_url" not in kwargs and self.get_option_and_origin("imds_url", hostvars=variables)[1] == "default":
            self._refuse_other_machines(variables)

        # Without any term, all events are meant. A list of ids that turned out to be empty does not mean that.
        params["event_ids"] = [str(term) for term in self._flatten(terms)] if terms else None
        try:
            selection = Selection.from_params(params)
            wait = Wait.from_params(client_from_params(params), selection, params)
            result = wait.look() if variables.get("ansible_check_mode") else wait.run()
        except (ImdsError, SelectionError) as error:
            raise AnsibleLookupError(str(error)) from None
        if result.outcome == TIMEOUT:
            raise AnsibleLookupError(timeout_message(wait.states, result.events, result.elapsed, result.error))
        for warning in result.reading.warnings:
            display.warning(warning)
        return result.events

    def _refuse_other_machines(self, variables):
        connection = self._templar.template(variables.get("ansible_connection"))
        if "ansible_delegated_vars" in variables:
            where = "this task is delegated"
        elif not all(name in variables for name in SETTLED):
            where = "in loop, in with_ and in variables of other hosts it cannot know for which host it runs"
        elif connection not in LOCAL:
            where = f"ansible_connection is {connection} here"
        else:
            return
        raise AnsibleLookupError(
            f"The lookup {NAME} would read the events of the machine that runs Ansible: {where}. "
            f"Use the module {NAME}, which runs on the host, or give the option imds_url, which tells whose events are meant."
        )
