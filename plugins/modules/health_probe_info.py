#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: health_probe_info
short_description: See whether the host's health answer fails, whether its load balancer must have noticed, and which connections still come
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Looks at the health answer that M(graceful.azure.health_probe_hold) makes fail. It changes nothing.
  - The load balancer is not asked. It must have noticed when the answer has failed for O(notice) seconds.
  - After that, connections on O(ports) must end and no new ones may come. The module reads the kernel's tables 20 times a second while it looks. A
    connection that the client closes first and that is shorter than that may be missed.
extends_documentation_fragment:
  - graceful.azure._health_probe
  - graceful.azure._attributes.windows
  - graceful.azure._attributes
attributes:
  diff_mode:
    support: N/A
  idempotent:
    support: full
options:
  notice:
    description:
      - After how many seconds the load balancer must have noticed that the answer fails.
    type: float
    default: 0
  url:
    description:
      - The answer that the probe gets, as the host itself reaches it. If it is given, it is asked. An answer that passes although it is held shows
        that the wrong thing is acted on.
    type: str
  validate_certs:
    description:
      - Whether the certificate of O(url) must be valid.
    type: bool
    default: false
  ports:
    description:
      - The local TCP ports on which connections are counted.
    type: list
    elements: int
    default: []
  peer:
    description:
      - The addresses of those who only check the host, such as the load balancer's probe. Their connections do not count.
    type: list
    elements: str
    default: [168.63.129.16]
  wait_for:
    description:
      - If this is not empty, the module waits until nothing is left, at most for O(timeout) seconds. The names are those of the host.
    type: list
    elements: str
    default: []
  quiet:
    description:
      - For how many seconds no new connection may have come.
    type: float
    default: 0
  timeout:
    description:
      - How many seconds to wait. When the time is over, the module does not fail. RV(idle) is then V(false).
    type: float
    default: 0
  state_dir:
    description:
      - The folder with the records of holds.
    type: path
    default: /var/lib/graceful_azure
seealso:
  - module: graceful.azure.health_probe_hold
"""

EXAMPLES = r"""
- name: Wait until no new connection comes
  graceful.azure.health_probe_info:
    action: file
    file: /var/www/maintenance
    url: http://localhost:8080/health
    notice: 12
    ports: [8080]
    wait_for: [web1]
    quiet: 3
    timeout: 60

- name: See for how long the unit that answers the probe has been down
  graceful.azure.health_probe_info:
    action: service
    service: health-answer.service
    notice: 12
  register: probe

- name: Go on only when the load balancer must have noticed
  ansible.builtin.assert:
    that: probe.notice_left == 0
"""

RETURN = r"""
answer:
  description: The health answer, with the keys that M(graceful.azure.health_probe_hold) returns for it.
  returned: success
  type: dict
notice_left:
  description: After how many more seconds the load balancer must have noticed. Null if the answer does not fail. V(0) if nobody knows since when it fails.
  returned: success
  type: float
  sample: 3.5
probe:
  description: What O(url) answered. Null if it was not asked.
  returned: success
  type: dict
  contains:
    passes:
      description: Whether it answered with a status 2xx or 3xx.
      type: bool
    said:
      description: What it answered instead.
      type: str
  sample: {passes: false, said: "http://localhost:8080/health: status 503"}
connections:
  description: How many connections are open on each port, without those of O(peer).
  returned: success
  type: list
  elements: dict
  sample: [{port: 8080, peer: 10.0.0.4, count: 2}]
new_connections:
  description: How many new connections came to each port during the look.
  returned: success
  type: list
  elements: dict
  sample: [{port: 8080, count: 12}]
quiet_for:
  description: For how many seconds of the look no new connection came, once the load balancer must have noticed.
  returned: success
  type: float
  sample: 2.0
closed_ago:
  description: How many seconds before the end of the look the last new or closed connection was seen, at most 60.
  returned: success
  type: float
  sample: 60.0
idle:
  description: Whether the load balancer must have noticed, nothing is connected and nothing new came for O(quiet) seconds.
  returned: success
  type: bool
  sample: false
holds:
  description: The records of health answers of this host.
  returned: success
  type: list
  elements: dict
problem:
  description: Why the answer could not be made to fail. Null if nothing is known against it.
  returned: success
  type: str
state_dir_problem:
  description: Why no record can be written. Null if nothing is known against it.
  returned: success
  type: str
clock:
  description: The host's steady clock, in seconds.
  returned: success
  type: float
time:
  description: The host's clock.
  returned: success
  type: str
"""

from ansible_collections.graceful.azure.plugins.module_utils._module_of_call import main_of


def main():
    main_of("health_probe_info")


if __name__ == "__main__":
    main()
