# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: connections_info
short_description: Counts TCP connections to ports of this host
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Counts the TCP connections, IPv4 and IPv6, to local O(ports) that may still be in use, by port and peer.
  - A half-closed connection counts, too. Its client has sent a request and closed its own side, and waits for the answer.
  - A connection that the application has closed counts as long as the kernel still sends. If the client does not answer any more, the kernel gives
    up after some two minutes (C(net.ipv4.tcp_orphan_retries)).
  - A connection that the kernel forwards elsewhere counts, too, such as one to a container with a published port. It is read from the kernel's
    connection tracking, which needs root.
  - A port whose connections cannot be counted is never idle. RV(uncounted) says why.
  - With O(timeout) it waits until there is none. The role P(graceful.azure.drain_host#role) finds out with this whether a host is drained.
extends_documentation_fragment:
  - graceful.azure._attributes.windows
  - graceful.azure._attributes
attributes:
  check_mode:
    details:
      - It looks once and does not wait.
  diff_mode:
    support: N/A
options:
  ports:
    description:
      - The local TCP ports whose connections are counted.
    type: list
    elements: int
    required: true
  ignored_peers:
    description:
      - Addresses whose connections do not count towards RV(count) and RV(idle), whoever has them.
      - Load balancers keep idle connections to a host in a pool for the next request, and they know themselves whether a request is under way.
        Use O(pools) if something else on the load balancer's machine may be connected, too.
      - An IPv4 address also stands for its IPv4-mapped IPv6 address.
    type: list
    elements: str
    default: []
  pools:
    description:
      - Connections of load balancers that do not count towards RV(count) and RV(idle). Others from the same address do, such as those of another
        program on the load balancer's machine.
    type: list
    elements: dict
    default: []
    suboptions:
      address:
        description:
          - The address from which the load balancer reaches this host.
        type: str
        required: true
      ports:
        description:
          - The ports from which it does.
        type: list
        elements: int
      at_most:
        description:
          - How many connections it has, if the ports are not known.
          - If you give neither this nor O(pools[].ports), all connections from there are the load balancer's.
        type: int
      to_port:
        description: To which of O(ports) they go. Without it, they may go to any.
        type: int
  heard:
    description:
      - The ports on which somebody was seen listening before, as RV(heard) of an earlier look told. If nobody listens on one of them any more, its
        service was stopped, so the port counts as idle.
    type: list
    elements: int
    default: []
  state_dir:
    description:
      - The folder of the records of holds on this host. The ports that could be counted before a hold was put there count as O(heard).
      - Without it, no records are read.
    type: path
  timeout:
    description:
      - How many seconds to wait until no connection that counts is left. V(0) looks once and does not wait.
      - When the time is over, the module does not fail. RV(idle) is then V(false).
    type: float
    default: 0
notes:
  - It looks at the network namespace in which it runs. It does not see connections that go straight to a container with an address of its own.
  - UDP is not counted.
  - The host may go away and come back while the task waits.
seealso:
  - module: graceful.azure.duty_info
"""

EXAMPLES = r"""
- name: See who is connected to the web server
  graceful.azure.connections_info:
    ports: [80, 443]
  register: connections

- name: Wait until nobody but the load balancer is connected
  graceful.azure.connections_info:
    ports: [8080]
    ignored_peers: [10.0.0.4]
    timeout: 120
  register: connections
  failed_when: not connections.idle

- name: Show what is left
  ansible.builtin.debug:
    var: connections.left

- name: See how many connections come from outside of this machine
  graceful.azure.connections_info:
    ports: [5432]
    ignored_peers: [127.0.0.1, "::1"]
  register: database

- name: Go on only if there is none
  ansible.builtin.assert:
    that: database.count == 0
    fail_msg: "Still connected: {{ database.connections | rejectattr('ignored') | map(attribute='peer') | join(', ') }}"
"""

RETURN = r"""
connections:
  description: The connections to O(ports), including those of ignored peers.
  returned: success
  type: list
  elements: dict
  contains:
    port:
      description: The local port.
      returned: success
      type: int
      sample: 8080
    peer:
      description: The address of the other side. An IPv4-mapped address is given as IPv4.
      returned: success
      type: str
      sample: 10.0.0.7
    count:
      description: How many connections there are from this peer to this port.
      returned: success
      type: int
      sample: 2
    ignored:
      description: Whether none of them counts, because of O(ignored_peers) or O(pools).
      returned: success
      type: bool
      sample: false
  sample:
    - port: 8080
      peer: 10.0.0.7
      count: 2
      ignored: false
count:
  description: How many connections there are, without those of ignored peers.
  returned: success
  type: int
  sample: 2
idle:
  description: Whether RV(count) is zero and every port can be counted.
  returned: success
  type: bool
  sample: false
uncounted:
  description: The ports whose connections cannot be counted.
  returned: success
  type: list
  elements: dict
  contains:
    port:
      description: The local port.
      returned: always
      type: int
      sample: 8082
    why:
      description: Why, as a phrase.
      returned: always
      type: str
      sample: nobody listens on it, and no connection to it is forwarded elsewhere
  sample: []
heard:
  description: O(heard), and the other ports that can be counted. Give it to a later look, so that a service that was stopped meanwhile counts as idle.
  returned: success
  type: list
  elements: int
  sample: [8080]
left:
  description: For each port that still has connections that count, or cannot be counted, a phrase that says so.
  returned: success
  type: list
  elements: str
  sample:
    - 2 connections on port 8080
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils._connections import ConnectionsError, check_ports, counted, parse_address
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import HoldError, list_records
from ansible_collections.graceful.azure.plugins.module_utils._polling import check_seconds, poll
from ansible_collections.graceful.azure.plugins.module_utils._pools import Pool, not_in_pools
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import heard_in, still_uncounted, why_uncounted
from ansible_collections.graceful.azure.plugins.module_utils._spellings import plural

LOOK_SECONDS = 0.5


def check(params):
    """The connections that do not count; raises where an option's value cannot be right."""
    if not params["ports"]:
        raise ValueError("ports is empty: name at least one local TCP port")
    check_ports(params["ports"])
    check_seconds("timeout", params["timeout"])
    try:
        ignored = [Pool(parse_address(peer)) for peer in params["ignored_peers"]]
    except ConnectionsError as error:
        raise ValueError("ignored_peers: %s" % error) from None
    try:
        return ignored + [Pool(parse_address(pool["address"]), pool.get("ports"), pool.get("at_most"), pool.get("to_port")) for pool in params["pools"] or ()]
    except ConnectionsError as error:
        raise ValueError("pools: %s" % error) from None


def argument_spec():
    return {
        "ports": {"type": "list", "elements": "int", "required": True},
        "ignored_peers": {"type": "list", "elements": "str", "default": []},
        "pools": {
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": {
                "address": {"type": "str", "required": True},
                "ports": {"type": "list", "elements": "int"},
                "at_most": {"type": "int"},
                "to_port": {"type": "int"},
            },
        },
        "heard": {"type": "list", "elements": "int", "default": []},
        "state_dir": {"type": "path"},
        "timeout": {"type": "float", "default": 0},
    }


def look(ports, pools, heard, count):
    """What is connected now, as the module returns it. ``count`` tells the connections to these ports."""
    found = count(ports, told_apart=[pool.address for pool in pools if pool.ports is not None])
    left = {}
    others = {(other["port"], other["peer"]): other["count"] for other in not_in_pools(found.connections, pools)}
    for connection in found.connections:
        connection.pop("peer_ports", None)
        counts = others.get((connection["port"], connection["peer"]), 0)
        connection["ignored"] = not counts
        if counts:
            left[connection["port"]] = left.get(connection["port"], 0) + counts
    uncounted = [{"port": each["port"], "why": each["why"]} for each in still_uncounted(found.uncounted, heard)]
    sentences = ["%s on port %d" % (plural(left[port], "connection"), port) for port in sorted(left)]
    sentences += why_uncounted(uncounted)
    return {
        "connections": found.connections,
        "count": sum(left.values()),
        "uncounted": uncounted,
        "heard": sorted((heard | set(ports)).difference(each["port"] for each in uncounted)),
        "idle": not sentences,
        "left": sentences,
    }


def run(params, check_mode, count=None, records=list_records):
    """``count``: what counts the connections. ``records``: what reads the records in a folder."""
    pools = check(params)
    timeout = 0 if check_mode else params["timeout"]
    heard = set(params["heard"])
    if params["state_dir"]:
        heard |= heard_in(records(params["state_dir"]), params["ports"])
    count = count or counted
    seen, _elapsed = poll(lambda: look(params["ports"], pools, heard, count), lambda seen: seen["idle"], timeout, LOOK_SECONDS)
    return seen


def main():
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        seen = run(module.params, module.check_mode)
    except (ValueError, ConnectionsError, HoldError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **seen)


if __name__ == "__main__":
    main()
