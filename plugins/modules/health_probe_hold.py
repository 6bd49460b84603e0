#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: health_probe_hold
short_description: Let the host's own health answer fail for an event, and let it pass again
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Makes the answer fail that a load balancer's health probe gets from this host, and records what it found (a hold), or releases the hold. The load
    balancer then sends no new connections. It notices by itself, after the time that its probe takes.
  - When the last event is released, the answer passes again, exactly as it was found.
  - An answer that fails already is left alone, for example if an operator's maintenance file is there. It is not held, and stays as it is.
  - If the answer passes again in the same boot although it is held, somebody else has acted. This is reported and nothing is touched. If the host was
    rebooted meanwhile, the answer is made to fail again.
  - Use M(graceful.azure.health_probe_info) to see whether the load balancer must have noticed, and what still arrives.
extends_documentation_fragment:
  - graceful.azure._hold
  - graceful.azure._health_probe
  - graceful.azure._attributes.windows
  - graceful.azure._attributes
attributes:
  diff_mode:
    support: full
  idempotent:
    support: full
    details:
      - A command that failed is run again by the next call.
seealso:
  - module: graceful.azure.health_probe_info
"""

EXAMPLES = r"""
- name: Let the health answer fail
  graceful.azure.health_probe_hold:
    action: file
    file: /var/www/maintenance
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]

- name: The event is over
  graceful.azure.health_probe_hold:
    state: absent
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]

- name: Let the answer fail by stopping the unit that gives it
  graceful.azure.health_probe_hold:
    action: service
    service: health-answer.service
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]

- name: Let the answer fail by commands of your own
  graceful.azure.health_probe_hold:
    action: command
    command_out: /usr/local/bin/serve off
    command_in: /usr/local/bin/serve on
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
  register: hold

- name: Go on only if the host is out for this event, and not because an operator took it out
  ansible.builtin.assert:
    that: hold.answers[0].condition == 'held'
"""

RETURN = r"""
answers:
  description: The health answers that were acted on.
  returned: success
  type: list
  elements: dict
  contains:
    action:
      description: How it is made to fail.
      type: str
    "on":
      description: What is acted on. A path, the name of a unit or of a site, or the command that makes the answer fail.
      type: str
    state:
      description: V(failing) or V(passing), as far as the thing that is acted on tells.
      type: str
    told:
      description: The state of that thing in words.
      type: str
    found:
      description: The state before the module changed it. Null if it is not held.
      type: dict
    held_by:
      description: The events that hold it.
      type: list
      elements: str
    condition:
      description:
        - V(held) - this module made it fail, and it fails.
        - V(changing) - it is about to fail or to pass again.
        - V(already_out) - it fails, but this module did not make it fail.
        - V(lost) - it should fail and passes, because the host was rebooted or a run was cut off. The next call makes it fail again.
        - V(changed_meanwhile) - it is not as this module left it, because somebody else acted. It was not touched.
        - V(none) - it passes and is not held.
      type: str
    failing_for:
      description:
        - For how many seconds it has failed. A reboot resets it. Null if it does not fail, or if nobody can tell.
        - If this module did not make it fail, this is what the file, its folder or systemd tells.
      type: float
    noted:
      description: Whether the record says since when it fails. V(false) after a reboot, or if the run that made it fail was cut off. The next call notes it.
      type: bool
    restoring:
      description: Whether a release of it has begun.
      type: bool
  sample:
    - action: file
      "on": /var/www/maintenance
      state: failing
      told: /var/www/maintenance is there
      found: {state: passing}
      held_by: [602d9444-d2cd-49c7-8624-8643e7171297]
      condition: held
      failing_for: 0.0
      noted: true
      restoring: false
done:
  description: Whether there is nothing left to wait for on the host itself. The load balancer may not have noticed yet.
  returned: success
  type: bool
  sample: true
waiting_for:
  description: What is not done yet. Empty when everything is done.
  returned: success
  type: list
  elements: str
  sample: []
conflicts:
  description: Where somebody else acted in the meantime, one sentence each.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible_collections.graceful.azure.plugins.module_utils._module_of_call import main_of


def main():
    main_of("health_probe_hold")


if __name__ == "__main__":
    main()
