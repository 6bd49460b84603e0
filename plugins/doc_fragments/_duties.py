# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  duties:
    description:
      - The duties, in the order of C(graceful_azure_duties), whose entries they are. A plain text is the name of a service.
      - Each has a C(type) and, if it is not the only one of its type, a C(name). The other keys are the options of the type, see
        U(https://github.com/graceful-azure/graceful.azure/blob/main/docs/duties.md). No entry has a secret.
      - What is wrong in an entry fails the task before anything is touched.
    type: list
    elements: raw
    required: true
  ports:
    description:
      - The local TCP ports on which the host serves. The duties V(health_probe) and V(azure_load_balancer) need them, because their load balancers do not
        tell which connections are left. They are counted on the host.
    type: list
    elements: int
    default: []
  state_dir:
    description:
      - The folder of the records of holds, on the machine on which this module runs.
    type: path
    default: /var/lib/graceful_azure
attributes:
  platform:
    support: partial
    platforms: linux, windows
    details:
      - On Windows hosts there are V(health_probe), V(service), V(iis) and V(tasks). It is experimental there, runs on the controller, and needs the
        collections C(ansible.windows) and, for IIS, C(microsoft.iis).
      - An entry of the type V(azure_load_balancer) runs on the controller, which needs C(requests).
notes:
  - The module works on one machine. An entry with C(hosts) belongs to those machines, so delegate the task to each of them. V(azure_load_balancer) and
    the duties of the host itself belong to a task that is not delegated. Entries that belong elsewhere are left out, and RV(left_out) says why.
"""
