#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_observation
short_description: "Internal: look at a host, and return faults as data"
version_added: 1.0.0
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
    Elsewhere use M(graceful.azure.scheduled_events_info) and M(graceful.azure.connections_info).
  - Reads the scheduled events, the connections to the host and the records of holds on it. It never fails and
    never makes a host unreachable, because the passes must go on whatever happens to one host.
  - With O(wait) the look also contains the pause between two passes. The host itself waits, so that a new event ends the pause at once.
extends_documentation_fragment:
  - graceful.azure._attributes
  - graceful.azure._imds
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details:
      - Nothing is changed, except that the folder O(state_dir) is made if missing. Check mode does not make it.
  idempotent:
    support: full
options:
  ports:
    description:
      - Local TCP ports whose connections are counted.
    type: list
    elements: int
    default: []
  state_dir:
    description:
      - The folder of the records of holds on this host.
    type: path
    default: /var/lib/graceful_azure
  timeout:
    description:
      - Seconds that one answer of the metadata service may take.
    type: float
    default: 5
  wait:
    description:
      - How many seconds the look goes on until there is something new. It reads the metadata service once a second.
    type: float
    default: 0
  known:
    description:
      - RV(fingerprint) of an earlier look. Everything that differs from it is new.
    type: str
    default: ''
  await_idle:
    description:
      - Whether the look also ends when nobody was connected in two counts in a row.
    type: bool
    default: false
  at_least:
    description:
      - For how many seconds the look goes on even if O(await_idle) is fulfilled. It goes on reading the metadata service while a look at a balancer
        waits.
    type: float
    default: 0
  ignored_peers:
    description:
      - Addresses whose connections O(await_idle) ignores, such as those that a balancer keeps open.
    type: list
    elements: str
    default: []
  heard:
    description:
      - The O(ports) on which somebody was seen listening before. If nobody does now, whoever did was stopped, so O(await_idle) does not wait for
        them.
    type: list
    elements: int
    default: []
  told_apart:
    description:
      - Addresses, such as those of a balancer. RV(connections) also tells the ports from which their connections come.
    type: list
    elements: str
    default: []
  expected:
    description:
      - Ids of events. If the metadata service no longer lists one of them, the look reads the service again after a second. So one look is
        enough to see twice that an event is over.
    type: list
    elements: str
    default: []
  ask:
    description:
      - What must answer before the host goes back into its balancer. It is asked once at the end of the look, if an event that has
        not started affects the host and the host has no record of a hold. So a mistake in these settings is found while the
        host still serves.
      - Without O(ask.url) and O(ask.port) nothing is asked.
    type: dict
    default: {}
    suboptions:
      url:
        description:
          - An C(http) or C(https) URL. A status from 200 to 399 is an answer.
        type: str
      port:
        description:
          - A TCP port that must accept a connection.
        type: int
      host:
        description:
          - The name or address to which O(ask.port) belongs.
        type: str
        default: localhost
      validate_certs:
        description:
          - Whether the certificate of an C(https) URL must be valid.
        type: bool
        default: true
      always:
        description:
          - Whether to ask even if no event affects the host.
        type: bool
        default: false
      held:
        description:
          - Whether to ask even if the host is held, as long as an event is still to come.
        type: bool
        default: false
      back:
        description:
          - Whether to ask only if one of O(expected) is gone. The host may go back then.
        type: bool
        default: false
  steps:
    description:
      - Duties that were handed over. At its end the look also tells which of them are on again.
      - Each has a C(type) and C(names). The type C(iis) has C(sites) and C(pools), the type C(tasks) has C(record) and C(file), and a member of a cluster
        has C(options).
    type: list
    elements: dict
    default: []
  marks:
    description:
      - Duties of types whose clusters tell by name what C(graceful.azure) has taken out, in the same form. At its end the look asks these clusters.
      - What bears that name and has no record is one of RV(holds), with C(marked), if it tells its events. If it tells none, it is RV(fatal).
    type: list
    elements: dict
    default: []
author:
  - The graceful.azure authors (@graceful-azure)
"""

EXAMPLES = r"""
- name: Look at the host
  graceful.azure.host_observation:
    ports: [80]
  register: graceful_azure_host
"""

RETURN = r"""
reached:
  description: Whether the module ran on the host.
  returned: always
  type: bool
  sample: true
error:
  description: What went wrong when the host or its metadata service was read.
  returned: when it could not be read
  type: str
  sample: "Failed to connect to the host via ssh: connect to host 10.0.0.4 port 22: No route to host"
fatal:
  description: What a person must repair before anything can be done there.
  returned: when there is such a thing
  type: str
  sample: The state folder /var/lib/graceful_azure cannot be written by user id 1000.
at:
  description: When the metadata service was last read, or else when the look ended, by the controller's clock in seconds since 1970.
  returned: always
  type: float
  sample: 1795243046.25
began:
  description: When the look began, by the controller's clock in seconds since 1970.
  returned: always
  type: float
  sample: 1795243045.75
age:
  description: Seconds from the last read of the metadata service to the end of the look.
  returned: when the host was reached
  type: float
  sample: 0.02
waited:
  description: Seconds that the look took longer because of O(wait).
  returned: when the host was reached
  type: float
  sample: 0.0
looks:
  description: In how many counts in a row nobody was connected.
  returned: when the host was reached
  type: int
  sample: 1
fingerprint:
  description: A digest of what the metadata service showed, to compare with another look.
  returned: when the host was reached
  type: str
  sample: 5d41402abc4b2a76
time:
  description: The host's own clock, ISO 8601 in UTC.
  returned: when the host was reached
  type: str
  sample: "2026-11-21T06:53:03Z"
addresses:
  description: The host's own IP addresses, without loopback and link-local addresses.
  returned: when the host was reached
  type: list
  elements: str
  sample: [10.0.0.4]
network:
  description: An id of the host's network. It differs between machines, and between containers on one machine.
  returned: when the host was reached
  type: str
  sample: 5d41402abc4b2a76
resource_name:
  description: The host's name in C(Resources). Null if its service was not read or does not give it.
  returned: when the host was reached
  type: str
  sample: web_0
events:
  description: The events as M(graceful.azure.scheduled_events_info) returns them. Null if the service was not read.
  returned: when the host was reached
  type: list
  elements: dict
  sample: []
passing:
  description: Whether RV(error) of the metadata service may go away by itself.
  returned: when the service was not read
  type: bool
  sample: true
document_incarnation:
  description: The number of the document.
  returned: when the service was read
  type: int
  sample: 7
empty_body:
  description: Whether the service answered with an empty body. It is read as a document without events.
  returned: when the service was read
  type: bool
  sample: false
steady:
  description: For how many seconds every read of this look has shown the same of the O(expected) events. 0 if there was only one such read.
  returned: when the service was read
  type: float
  sample: 1.0
unanswered:
  description: Why what O(ask) names did not answer. Null if it answered.
  returned: when it was asked
  type: str
  sample: "http://localhost:8080/health: status 404"
boot_id:
  description: Which boot of the host this is. Empty if the host does not tell it.
  returned: when the host was reached
  type: str
  sample: 4d7f1f26-3b0b-4b8e-9d0c-3a0f2f0c5b11
still_on:
  description: What is not out of duty of the O(steps), or cannot be looked at, in sentences.
  returned: when O(steps) were looked at
  type: list
  elements: str
  sample: ["worker.service is active again, although it was stopped for the event"]
connections:
  description:
    - Connections by local port and peer. Null if they could not be counted. For a peer of O(told_apart) also the ports from which they come, as C(peer_ports).
  returned: when the host was reached
  type: list
  elements: dict
  sample:
    - port: 80
      peer: 10.0.0.9
      count: 3
uncounted:
  description: The ports whose connections cannot be counted.
  returned: when the host was reached
  type: list
  elements: dict
  contains:
    port:
      description: The port.
      returned: always
      type: int
      sample: 8080
    why:
      description: Why, as a phrase.
      returned: always
      type: str
      sample: nobody listens on it, and no connection to it is forwarded elsewhere
    unheard:
      description: Whether that is so because nobody listens. It is also so after the service was stopped.
      returned: always
      type: bool
      sample: true
  sample: []
holds:
  description: Every record of a hold on this host, as it is in its file. Null if the records could not be read.
  returned: when the host was reached
  type: list
  elements: dict
  sample: []
state_folder:
  description: The folder of the records, and an id that two hosts with the same folder share. The id is null if it cannot be told.
  returned: when the host was reached
  type: dict
  sample: {path: /var/lib/graceful_azure, id: 5d41402abc4b2a76}
"""

from ansible_collections.graceful.azure.plugins.module_utils._module_of_call import main_of


def main():
    main_of("host_observation")


if __name__ == "__main__":
    main()
