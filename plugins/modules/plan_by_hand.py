#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation only; the work is done by the action plugin of the same name on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: plan_by_hand
short_description: "Internal: decide what is shown and what is released by hand"
version_added: 1.0.0
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
  - Checks the options of the playbook C(graceful.azure.holds), which are variables that begin with C(holds_). Finds the machines on which the
    records of a host are. Decides from what was seen there what is shown, what is released, and what is refused.
  - Runs on the controller and connects to no host.
extends_documentation_fragment:
  - graceful.azure._attributes
options:
  phase:
    description:
      - What is asked for.
    type: str
    required: true
    choices:
      options: Check the options and return them. Fails if one is wrong, or is not the same for all targets. Once for the whole play.
      places: Return the machines on which the records of this host are. Fails if the host's variables are wrong.
      release: Decide for all hosts of the play, and show what is held. Once for the whole play. What is refused is returned as data.
      released: Say what was given back for this host, and which events still name it.
author:
  - The graceful.azure authors (@graceful-azure)
"""

EXAMPLES = r"""
- name: Decide what is shown and what is released
  graceful.azure.plan_by_hand:
    phase: release
  run_once: true
  register: graceful_azure_held
"""

RETURN = r"""
options:
  description: The options by their names without C(holds_). No list means all.
  returned: with O(phase=options)
  type: dict
  sample: {release: true, repair: false, gone: false, json: false, event_ids: null, servers: null}
connection:
  description: How Ansible reaches a machine that does not say it.
  returned: with O(phase=places)
  type: str
  sample: ssh
unsaid_connections:
  description: The machines that do not say how they are reached, if another one is reached in another way than the usual one.
  returned: with O(phase=places)
  type: list
  elements: str
  sample: []
server:
  description: The host's name in its balancer.
  returned: with O(phase=places)
  type: str
  sample: web1
machines:
  description: The C(name) and the C(state_dir) of each machine with records of the host, which may be null. The first one is the host itself.
  returned: with O(phase=places)
  type: list
  elements: dict
  sample: [{name: web1, state_dir: null}, {name: lb1, state_dir: null}]
places:
  description: How to look at each of the host's balancers.
  returned: with O(phase=places)
  type: list
  elements: dict
  sample:
    - {machine: lb1, provider: haproxy, server: web1, key: lb1 /run/haproxy/admin.sock, module: haproxy_info, options: {servers: [web1]}}
mistakes:
  description: Why nothing may be released, one sentence each.
  returned: with O(phase=release)
  type: list
  elements: str
  sample: []
hosts:
  description:
    - For each host the records to be C(shown), whether C(nothing) is held, what is C(unread), why it is C(refused) to release anything for it, and
      what to C(release), V(everything), V(servers) or nothing. C(still) has the events that still name it.
      C(give_back) has what this host gives back for no host of the inventory, each by a C(module)
      with its C(options) on a C(machine).
  returned: with O(phase=release)
  type: dict
  sample:
    web1: {shown: [], still: [], nothing: true, unread: [], refused: '', release: everything, give_back: []}
strays:
  description: The records that are held for no host of the inventory.
  returned: with O(phase=release)
  type: list
  elements: dict
  sample: []
unclaimed:
  description: The records on the balancers that belong to no balancer that was looked at.
  returned: with O(phase=release)
  type: list
  elements: dict
  sample: []
"""
