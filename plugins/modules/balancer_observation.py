#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation only; the action plugin of the same name runs the module that looks on the balancer."""

from __future__ import annotations

DOCUMENTATION = r"""
module: balancer_observation
short_description: "Internal: look at a balancer, and return faults as data"
version_added: 1.0.0
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
    Elsewhere use the module itself, such as M(graceful.azure.haproxy_info).
  - Looks at a balancer with the module for its kind. It never fails and never makes a host unreachable,
    because the passes must go on whatever happens to one balancer.
extends_documentation_fragment:
  - graceful.azure._attributes
options:
  provider:
    description:
      - The kind of balancer, as the types of C(graceful_azure_duties) call it.
    type: str
    required: true
  module:
    description:
      - The name of the module of this collection that looks.
    type: str
    required: true
  options:
    description:
      - The options of that module.
    type: dict
    required: true
author:
  - The graceful.azure authors (@graceful-azure)
"""

EXAMPLES = r"""
- name: Look at the balancer
  graceful.azure.balancer_observation:
    provider: haproxy
    module: haproxy_info
    options: {socket: /run/haproxy/admin.sock, servers: [web1]}
  delegate_to: lb1
  register: balancer
"""

RETURN = r"""
reached:
  description: Whether the module ran on the balancer.
  returned: always
  type: bool
  sample: true
error:
  description: What went wrong when the balancer was read.
  returned: when it could not be read
  type: str
  sample: "Failed to connect to the host via ssh: connect to host 10.0.0.9 port 22: No route to host"
fatal:
  description: What a person must repair before anything can be done there.
  returned: when there is such a thing
  type: str
  sample: There is no HAProxy socket /run/haproxy/admin.sock.
at:
  description: When the look ended, by the controller's clock, in seconds since 1970.
  returned: always
  type: float
  sample: 1795243046.25
other_holds:
  description: Records of holds on the balancer that belong to no HAProxy that was read, as M(graceful.azure.haproxy_info) returns them.
  returned: when the module ran on the balancer
  type: list
  elements: dict
  sample: []
servers:
  description: As M(graceful.azure.haproxy_info) returns them, with all its other keys. Null if the balancer was not read.
  returned: always
  type: list
  elements: dict
  sample: []
"""
