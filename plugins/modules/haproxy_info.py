#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: haproxy_info
short_description: Read the state of HAProxy's servers, and what is held
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Reads the state of HAProxy through its runtime socket, on the balancer's machine. It changes nothing.
  - With O(timeout) it waits until the servers have no session and no queue in two looks in a row. The wait goes on if the
    connection to the balancer is lost, and it shows what it waits for.
extends_documentation_fragment:
  - graceful.azure._attributes
attributes:
  check_mode:
    support: full
    details:
      - It looks once and does not wait.
  diff_mode:
    support: N/A
options:
  socket:
    description:
      - The runtime socket of HAProxy, C(stats socket) in its configuration.
      - The socket of the master process (C(haproxy -S)) and its prefixes such as C(@1) are refused. Name the stats socket of the worker.
    type: path
    default: /run/haproxy/admin.sock
  servers:
    description:
      - Names of the servers to look at. Backends that have none of them are left out. By default no backend is left out.
      - A backend is not left out if one of its servers leads to O(addresses), or to where one of the servers named led when it
        was taken out.
    type: list
    elements: str
  addresses:
    description:
      - IP addresses of the hosts behind the servers, each with or without a port, such as V(10.0.0.4) and V(10.0.0.4:80).
    type: list
    elements: str
    default: []
  state_dir:
    description:
      - The folder of the records of holds on the balancer.
    type: path
    default: /var/lib/graceful_azure
  timeout:
    description:
      - How many seconds to wait until the servers of O(wait_for) are idle. V(0) looks once and does not wait.
      - When the time is over, the module does not fail. RV(idle) is then V(false).
    type: float
    default: 0
  quiet:
    description:
      - For how many seconds no new session may have come to the servers of O(wait_for) before they count as idle.
      - This time begins again with every new session, and after a reload of HAProxy.
      - It has no effect if O(timeout) is V(0).
    type: float
    default: 0
  absent:
    description:
      - What it means if no process of HAProxy runs on this machine.
      - V(unknown) fails, because HAProxy may be starting again.
      - V(no_traffic) succeeds with RV(absent=true) and no servers. Use it for the passive machine of an active and passive pair.
      - A socket that exists and does not answer is a failure in both cases. So is a machine on which the user may not see the
        processes of others.
    type: str
    choices: [unknown, no_traffic]
    default: unknown
  wait_for:
    description:
      - Names of the servers that O(timeout) waits for. By default these are all of O(servers). It is an error if HAProxy does not have one of them.
    type: list
    elements: str
  backends:
    description:
      - The backends in which O(timeout) waits for these servers, and about which RV(idle) speaks. By default these are all backends.
        It is an error if none of them has one of the servers.
    type: list
    elements: str
    default: []
  hard_stop_after:
    description:
      - The value of C(hard-stop-after) in HAProxy's own configuration, in seconds. HAProxy ends a process from before a reload
        after that time.
      - Give it only if the connections of such a process cannot be counted (RV(servers[].uncounted)). They then count as ended
        when the new process has run for that long and 10 seconds more.
      - Without this option such a process may live for ever, as it does without C(hard-stop-after) in HAProxy's configuration.
    type: float
seealso:
  - module: graceful.azure.haproxy_hold
"""

EXAMPLES = r"""
- name: Wait until nothing runs on web1 any more
  graceful.azure.haproxy_info:
    servers: [web1]
    timeout: 60
  delegate_to: lb1
  register: balancer

- name: Go on only when it is idle
  ansible.builtin.assert:
    that: balancer.idle

- name: Look at all servers of all backends
  graceful.azure.haproxy_info:
  delegate_to: lb1
  register: everything

- name: Show which of them are held, and for which events
  ansible.builtin.debug:
    msg: "{{ item.backend }}/{{ item.server }}: {{ item.held_by | join(', ') }}"
  loop: "{{ everything.servers | selectattr('held_by') }}"
  loop_control:
    label: "{{ item.server }}"

- name: Wait until web1 serves again
  graceful.azure.haproxy_info:
    servers: [web1]
  delegate_to: lb1
  register: returned
  until: returned.servers | selectattr('server', 'equalto', 'web1') | rejectattr('in_service') | length == 0
  retries: 30
  delay: 2
"""

RETURN = r"""
process:
  description: The process of HAProxy that answered. Null if none runs (RV(absent)).
  returned: success
  type: dict
  contains:
    pid:
      description: Its process id.
      type: int
    started:
      description: When it started, in seconds since 1970.
      type: int
  sample: {pid: 4711, started: 1795243046}
level:
  description:
    - What the socket allows. M(graceful.azure.haproxy_hold) needs V(admin). Null if HAProxy does not say, as before version 2.0, and if none
      runs (RV(absent)).
  returned: success
  type: str
  sample: admin
backends:
  description: The backends that have any of the servers named.
  returned: success
  type: list
  elements: dict
  contains:
    backend:
      description: The backend.
      type: str
    sticky:
      description: Whether it has sticky sessions, so that a known client still goes to a server in drain.
      type: bool
  sample:
    - backend: www
      sticky: false
servers:
  description: All servers of these backends, not only those of O(servers).
  returned: success
  type: list
  elements: dict
  contains:
    backend:
      description: The backend.
      type: str
    server:
      description: The server's name.
      type: str
    address:
      description: Its address, null when it has none.
      type: str
    port:
      description:
        - Its port. Null if the configuration gives it none, or a negative offset to the port to which the client connected.
        - HAProxy shows a positive offset, such as C(:+1000), as if it were a port.
      type: int
    source_address:
      description: The balancer's own address from which it reaches the server. Null on loopback and if there is no route.
      type: str
    own_ports:
      description:
        - The connections that HAProxy itself has to a server that is out of rotation, in use or kept for the next request. For each address of the
          balancer's machine, the local ports.
        - Null if the server is in rotation, if the task may not list HAProxy's open files, if HAProxy is in another container than the task, and if it
          may be one of several containers on the machine's own network.
      type: dict
    connections:
      description: How many connections HAProxy says that it has to the server, in use or kept. Null if it does not say, as before version 2.2.
      type: int
    admin_state:
      description: V(ready), V(drain) or V(maint), for whatever reason.
      type: str
    operational:
      description: V(up), V(down), V(starting) or V(stopping), as health checks see it.
      type: str
    backup:
      description: Whether it is a backup server.
      type: bool
    in_service:
      description: Whether it gets new traffic and could answer. For a backup server, whether it would get traffic.
      type: bool
    silent:
      description:
        - Why nothing accepts connections at a server that gets traffic although nobody checks it. HAProxy takes such a server for up.
          RV(servers[].in_service) is then V(false).
        - The module asks each of them once, all side by side, and waits one second at most.
        - Null if something accepts connections, if HAProxy checks the server, if it cannot be asked because it has no address or no port of its own, or if no
          server of the backend accepts connections, which proves nothing.
      type: str
    unresolved:
      description:
        - Whether its name does not resolve, as for a slot of C(server-template) without an address.
        - Such a server could not serve. It does not count if a percentage of the servers must stay in service.
      type: bool
    returns_by_itself:
      description:
        - Whether it is out only because its name does not resolve, or because the server that it tracks is out. It is in rotation as soon as DNS answers,
          or with that server, so M(graceful.azure.haproxy_hold) holds it like a server in rotation.
      type: bool
    returns_by_agent:
      description:
        - Whether somebody, such as its agent, has taken it out and its agent check is enabled, so that an answer C(ready) puts it back.
          M(graceful.azure.haproxy_hold) therefore holds it, and disables the agent check.
      type: bool
    status:
      description: What HAProxy itself calls the server's state.
      type: str
    weight:
      description: The weight that is set.
      type: int
    sessions:
      description:
        - Sessions that the server has now. This includes sessions that a former process of HAProxy still serves after a reload.
        - Several servers may have the same address. If it is unknown to which of them a former process is connected, each of them
          counts the connection.
      type: int
    queue:
      description: Requests that wait for this server.
      type: int
    uncounted:
      description:
        - Why there may be more sessions than RV(servers[].sessions) says. RV(servers[].idle) is then V(false). Null if everything was counted.
        - A process of HAProxy from before a reload goes on until its clients are gone. It has each server as it was before the reload. So a client
          that is connected to it may still send requests to any server.
        - In two cases its connections cannot be counted. Either the task may not list its open files, which needs C(become). Or the task cannot
          see HAProxy's processes at all, because HAProxy and the task run in different containers.
      type: str
    total_sessions:
      description:
        - Sessions that the process of HAProxy has sent to the server since it started, C(stot) of its statistics. In HTTP mode it grows
          with every request, in TCP mode with every connection. Health checks are not counted.
      type: int
    arrived:
      description:
        - Sessions that have come to the server since it is held. Null if this is unknown, such as after a reload.
      type: int
    quiet_for:
      description: For how many seconds this module has seen RV(servers[].total_sessions) unchanged. V(0) with a single look.
      type: float
    agent:
      description:
        - V(enabled) or V(disabled), the state of the server's agent check. Null if it has none. M(graceful.azure.haproxy_hold) disables it,
          because an answer such as C(ready) would put the server back.
      type: str
    idle:
      description:
        - Whether it had no session and no queue and everything was counted.
        - With O(timeout), in two looks in a row, and no new session had come for as long as O(quiet) says.
      type: bool
    checked:
      description:
        - Whether HAProxy knows its health, from a check of its own or of another server that it tracks.
        - An agent does not tell it. If the agent is silent, HAProxy leaves the server up.
      type: bool
    process_noted:
      description:
        - Whether the record of its hold names the process of HAProxy that answers. V(true) without a hold.
        - After a reload that kept the server's state (C(load-server-state-from-file)) it is V(false) until M(graceful.azure.haproxy_hold)
          has run again for an event that holds the server. Only from then on can the module distinguish a person who sets the server to
          V(ready) from a HAProxy that has lost its state.
      type: bool
    noted:
      description: Whether the record says that the server is out. V(false) if the run that took it out was cut off. The next call notes it.
      type: bool
    restoring:
      description: Whether its hold is being released. This may wait for HAProxy's health checks.
      type: bool
    condition:
      description:
        - V(none) - the server is in rotation and not held, or would be if its name resolved or what it tracks were (RV(servers[].returns_by_itself)).
        - V(held) - it is out and as M(graceful.azure.haproxy_hold) left it.
        - V(already_out) - somebody else took it out.
        - V(lost) - it should be out and is in rotation, because HAProxy was reloaded or restarted, or because a run was killed.
        - V(changed_meanwhile) - it is held and not as it was left, because somebody else acted.
      type: str
    found:
      description: What was found before the change.
      type: dict
    left:
      description: How it was left.
      type: dict
    held_by:
      description: The events that hold the server.
      type: list
      elements: str
    leads_to:
      description:
        - The C(address) and C(port) to which the server led when the hold was put. Null if it led nowhere, if the server is
          not held, and if the record does not say.
      type: dict
    for_server:
      description: The server for which this one was taken out, because it leads to the same machine; null for any other.
      type: str
  sample:
    - backend: www
      server: web1
      address: 10.0.0.4
      port: 8080
      source_address: 10.0.0.9
      own_ports: {10.0.0.9: [40312]}
      connections: 1
      admin_state: drain
      operational: up
      backup: false
      in_service: false
      silent: null
      unresolved: false
      returns_by_itself: false
      returns_by_agent: false
      status: DRAIN
      weight: 100
      sessions: 0
      queue: 0
      uncounted:
      total_sessions: 5120
      arrived: 0
      quiet_for: 0.0
      agent: null
      idle: true
      checked: true
      process_noted: true
      noted: true
      restoring: false
      condition: held
      found: {admin_state: ready, weight: 100}
      left: {admin_state: drain, weight: 100}
      held_by: [602d9444-d2cd-49c7-8624-8643e7171297]
      leads_to: {address: 10.0.0.4, port: 8080}
      for_server: null
missing:
  description: Names in O(servers) that no backend has.
  returned: success
  type: list
  elements: str
  sample: []
holds:
  description:
    - Every record of a hold on a server of this HAProxy, as it is in its file. The process of HAProxy decides which records belong
      to it, not the path of the socket.
  returned: success
  type: list
  elements: dict
  sample: []
other_holds:
  description:
    - Every other record of a hold on a server of HAProxy in O(state_dir). It belongs to another HAProxy, or to one that is
      gone. If HAProxy cannot be asked, these are all records.
  returned: always
  type: list
  elements: dict
  sample: []
addresses:
  description: The IP addresses of the balancer's machine, without loopback and link-local addresses.
  returned: success
  type: list
  elements: str
  sample: [10.0.0.9]
network:
  description:
    - An id of the machine's network. It differs between machines, and between containers on one machine. Null if it cannot be read.
  returned: success
  type: str
  sample: 5d41402abc4b2a76
state_dir_problem:
  description: Why holds cannot be recorded in O(state_dir). Null if they can.
  returned: success
  type: str
  sample: The state folder /var/lib/graceful_azure cannot be written by user id 1000.
time:
  description: The balancer's own clock, ISO 8601 in UTC.
  returned: success
  type: str
  sample: "2026-11-21T06:53:03Z"
clock:
  description: The balancer's monotonic clock at the last look, in seconds. Nobody can set it, and it starts again when the machine boots.
  returned: success
  type: float
  sample: 86400.25
absent:
  description: Whether no process of HAProxy runs on this machine, so that nothing could be read. It is only true with O(absent=no_traffic).
  returned: success
  type: bool
  sample: false
idle:
  description:
    - Whether HAProxy has all servers of O(wait_for) and all of them were idle. Also V(true) with RV(absent=true), because no HAProxy sends anything.
  returned: success
  type: bool
  sample: true
"""

from ansible_collections.graceful.azure.plugins.module_utils._module_of_call import main_of


def main():
    main_of("haproxy_info")


if __name__ == "__main__":
    main()
