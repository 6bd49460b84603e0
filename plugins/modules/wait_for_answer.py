# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: wait_for_answer
short_description: Waits until a service on this host answers
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Asks a URL, connects to a TCP port, or both, from the host itself, until they answer.
  - Use it for a host that comes back from a reboot or a move, before it gets requests again.
extends_documentation_fragment:
  - graceful.azure._attributes.windows
  - graceful.azure._attributes
attributes:
  check_mode:
    support: full
    details:
      - It tries once and does not wait.
  diff_mode:
    support: N/A
  idempotent:
    support: full
options:
  url:
    description:
      - An C(http) or C(https) URL. A status from 200 to 399 is an answer; redirects are not followed.
      - No proxy is used, whatever the environment says.
    type: str
  port:
    description:
      - A TCP port that must accept a connection.
    type: int
  host:
    description:
      - The name or address to which O(port) belongs.
    type: str
    default: localhost
  timeout:
    description:
      - How many seconds to wait. After that the task fails.
      - V(0) tries once, and RV(answered) says whether there was an answer.
    type: float
    default: 0
  request_timeout:
    description:
      - Seconds that one try may take.
    type: float
    default: 2
  validate_certs:
    description:
      - Whether the certificate of an C(https) URL must be valid.
    type: bool
    default: true
notes:
  - The host may go away and come back while the task waits.
seealso:
  - module: ansible.builtin.uri
  - module: ansible.builtin.wait_for
"""

EXAMPLES = r"""
- name: Wait until the web server is back
  graceful.azure.wait_for_answer:
    url: http://localhost:8080/health
    timeout: 300

- name: See whether the database accepts connections
  graceful.azure.wait_for_answer:
    port: 5432
  register: database

- name: Go on only if it does
  ansible.builtin.assert:
    that: database.answered
    fail_msg: "{{ database.reason }}"

- name: Wait for a page with a certificate of its own, which takes up to ten seconds
  graceful.azure.wait_for_answer:
    url: https://localhost/health
    validate_certs: false
    request_timeout: 10
    timeout: 120
"""

RETURN = r"""
answered:
  description: Whether everything answered.
  returned: always
  type: bool
  sample: true
reason:
  description: Why there was no answer at the last try. Null if there was one.
  returned: always
  type: str
  sample: "http://localhost:8080/health: status 503"
elapsed:
  description: How many seconds the module waited.
  returned: always
  type: float
  sample: 4.2
"""

from ansible_collections.graceful.azure.plugins.module_utils._module_of_call import main_of


def main():
    main_of("wait_for_answer")


if __name__ == "__main__":
    main()
