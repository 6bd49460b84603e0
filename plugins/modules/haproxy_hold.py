#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: haproxy_hold
short_description: Take a server out of HAProxy for an event, and put it back as it was
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Takes a server of HAProxy out for an event and records that (a hold), or releases the hold. It uses HAProxy's runtime socket, so it runs on the
    balancer's machine.
  - The record says what was found and which events hold the server. When the last event is released and the server is still
    as this module left it, the server goes back to what was found. Otherwise somebody else acted. This is reported, and the
    server is left alone.
  - A server that is found in maintenance or drain, for whatever reason, is never touched. There is one exception. A server
    that is out only because its name does not resolve is held all the same, because it would be in rotation as soon as DNS
    answers.
  - A reload or restart of HAProxy brings a server back into rotation. The module then takes it out again. It knows from HAProxy's
    process that no person put the server back.
  - The module changes the administrative state, and with it two things that would undo or forestall it. It disables the agent check of a
    server while it holds it. When a server with a health check leaves V(maint), it sets the server's health to down once, so that
    HAProxy's next checks decide. It never changes a weight, even if somebody else sets one in the meantime.
  - A server with a health check comes out of V(maint) only when its checks have passed. It first goes to V(drain), where HAProxy
    checks it and sends nobody there, and then back to what was found. Until then RV(waiting_for) says so. Without this step HAProxy
    would treat a server that comes out of maintenance as healthy, whatever runs there.
extends_documentation_fragment:
  - graceful.azure._hold
  - graceful.azure._attributes
attributes:
  diff_mode:
    support: full
options:
  socket:
    description:
      - The runtime socket of HAProxy, C(stats socket) in its configuration. It must have the level V(admin).
      - The socket of the master process (C(haproxy -S)) and its prefixes such as C(@1) are refused. Name the stats socket of the worker.
    type: path
    default: /run/haproxy/admin.sock
  server:
    description:
      - The server's name in HAProxy.
    type: str
    required: true
  backends:
    description:
      - The backends in which to act. By default these are all backends that have the server.
      - With O(state=absent) and O(event_ids), what these events hold in other backends is released, too. There, the server must have led to the
        same address when the hold was put.
    type: list
    elements: str
  addresses:
    description:
      - IP addresses, each with or without a port, such as V(10.0.0.4), V(10.0.0.4:80) and V([2001:db8::4]:80). The port V(0)
        means servers without a port of their own.
      - Servers with other names that lead there are the same machine. With O(state=present) they are taken out as well, in
        the same step and under the same lock. O(backends) applies to them, too.
      - Their records name the server for which they are held. So O(state=absent) for O(server) gives them back without this
        option, wherever they then lead.
    type: list
    elements: str
    default: []
  out_state:
    description:
      - The state to which the server is set. Requests in flight finish.
      - V(drain) accepts no new clients, but still serves clients with a sticky session.
      - V(maint) accepts nobody and stops the health checks. If the configuration has C(on-marked-down shutdown-sessions),
        V(maint) also ends the requests in flight. V(drain) does not.
      - By default it is V(maint) in a backend with sticky sessions, and V(drain) in all others. A backend has sticky sessions
        if it has a cookie or a stick table that stores servers. If such a table is in a section without servers, HAProxy
        does not say who uses it. Then every backend counts as sticky.
      - By default it is also V(maint) in a backend with C(use-server), C(option prefer-last-server) or C(persist rdp-cookie), if the configuration
        files of the running HAProxy can be read. These directives send requests to a server in V(drain).
      - If this option is not given, and sessions still come to a server that a hold has in V(drain), the next call sets the server to
        V(maint). If you choose V(drain), the server stays there.
      - If it is V(maint) and a hold has the server in V(drain), the server goes on to V(maint). It never goes from V(maint) to
        V(drain) for this reason.
    type: str
    choices: [drain, maint]
  absent:
    description:
      - What it means if no process of HAProxy runs on this machine.
      - V(unknown) fails. V(no_traffic) succeeds with RV(absent=true), because there is nothing to take out. With O(state=absent) the
        records of the hold are released, because there is nothing to put back.
    type: str
    choices: [unknown, no_traffic]
    default: unknown
  min_in_service:
    description:
      - How many servers of each backend must stay in service, a number or a percentage such as V(50%).
      - With O(state=present) the servers are counted under the same lock under which the server is taken out. If too few would stay,
        nothing is changed in any backend, and RV(refused) says so.
      - A server that nobody checks counts if something accepts connections at its address. See RV(graceful.azure.haproxy_info#module:servers[].silent).
      - Backup servers are not counted, unless the server is one itself.
      - A percentage refers to all servers that could serve. This includes servers that are down or in maintenance. It does not
        include slots of C(server-template) whose name does not resolve.
      - Without this option nothing is counted.
    type: str
  timeout:
    description:
      - With O(state=absent), how many seconds to wait until HAProxy's own health checks pass (RV(waiting_for)).
        V(0) takes one step and does not wait.
      - When the time is over, the module does not fail. The hold stays, and a later call continues.
      - Check mode does not wait. If the server must come out of V(maint), it predicts that the checks pass in time, and with V(0) that they are
        still to pass.
    type: float
    default: 120
  await_checks:
    description:
      - With O(state=absent), whether the hold stays until HAProxy's own health checks pass.
      - V(false) gives the server back at once. If HAProxy checks the server, it is down until its checks pass, and gets no requests
        until then. Use it for a server whose machine is gone for good.
    type: bool
    default: true
  hard_stop_after:
    description:
      - The value of C(hard-stop-after) in HAProxy's own configuration, in seconds. See M(graceful.azure.haproxy_info).
    type: float
notes:
  - The process of HAProxy decides which records belong to it, not the path of its socket. The module therefore finds a hold
    through any socket of the process, and after the path of the socket was changed.
  - A hold belongs to the server's name. If the name leads to another address later, as with C(set server ... addr) or
    C(server-template), the hold stays on the name until it is released. RV(servers[].leads_to) says where the name led before.
  - An agent check that answers C(ready) would put the server back within its interval. So the hold disables the agent check of a
    server that it takes out (C(disable agent)), and enables it again when the hold is released. An agent check that was disabled before stays disabled.
  - If the server was in drain or maintenance before the hold, such as by an answer of its agent, it stays as it is. But its agent check is disabled as
    well, if it is enabled. Otherwise the agent could put the server back in the middle of the event. If a person puts it back, it is taken out.
seealso:
  - module: graceful.azure.haproxy_info
"""

EXAMPLES = r"""
- name: Take web1 out of every backend of the balancer for an event
  graceful.azure.haproxy_hold:
    server: web1
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    reason: Reboot at 22:26
  delegate_to: lb1

- name: The event is over, so put web1 back, and wait a minute at most for HAProxy's health checks
  graceful.azure.haproxy_hold:
    server: web1
    state: absent
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    timeout: 60
  delegate_to: lb1
  register: given_back
  failed_when: given_back is failed or given_back.waiting_for

- name: Take web1 out as soon as half of the servers of each backend stay in service
  graceful.azure.haproxy_hold:
    server: web1
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    min_in_service: "50%"
  delegate_to: lb1
  register: taken_out
  until: not taken_out.refused
  retries: 30
  delay: 10

- name: Take web1 out on both machines of a pair, of which one has no HAProxy running
  graceful.azure.haproxy_hold:
    server: web1
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    absent: no_traffic
  delegate_to: "{{ item }}"
  loop: [lb1, lb2]

- name: Release every hold on a server whose machine is gone for good
  graceful.azure.haproxy_hold:
    server: web1
    state: absent
    await_checks: false
  delegate_to: lb1
"""

RETURN = r"""
servers:
  description: The server as it is now, once for each backend, and those that lead to the same machine (O(addresses)).
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
    admin_state:
      description: V(ready), V(drain) or V(maint), for whatever reason. Null if HAProxy no longer has the server.
      type: str
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
      description: Why there may be more sessions than RV(servers[].sessions) says, as M(graceful.azure.haproxy_info) returns it.
      type: str
    total_sessions:
      description:
        - Sessions that the process of HAProxy has sent to the server since it started, C(stot) of its statistics.
      type: int
    arrived:
      description:
        - Sessions that have come to the server since it is held. Null if this is unknown.
      type: int
    agent:
      description: V(enabled) or V(disabled), the state of the server's agent check. Null if it has none.
      type: str
    condition:
      description:
        - V(held) - the server is out and as this module left it.
        - V(already_out) - it was found in maintenance or drain, has no agent check that is enabled, and was not touched.
        - V(changed_meanwhile) - it is not as this module left it, because somebody else acted. It was not touched.
        - V(none) - it is in rotation and not held.
      type: str
    found:
      description: What was found before the change.
      type: dict
    left:
      description: How the module left it.
      type: dict
    held_by:
      description: The events that hold the server.
      type: list
      elements: str
    noted:
      description: Whether the record says that the server is out. V(false) if the run that took it out was cut off. The next call notes it.
      type: bool
    leads_to:
      description:
        - The C(address) and C(port) to which the server led when the hold was put. Null if it led nowhere or if the server is
          not held.
      type: dict
    for_server:
      description: The server for which this one was taken out, because it leads to the same machine (O(addresses)); null for any other.
      type: str
    put_right:
      description: Whether HAProxy had lost the server's state in a reload or restart, and the server was taken out again.
      type: bool
  sample:
    - backend: www
      server: web1
      admin_state: drain
      status: DRAIN
      weight: 100
      sessions: 3
      queue: 0
      uncounted:
      total_sessions: 5120
      arrived: 0
      agent: null
      condition: held
      found: {admin_state: ready, weight: 100}
      left: {admin_state: drain, weight: 100}
      held_by: [602d9444-d2cd-49c7-8624-8643e7171297]
      noted: true
      leads_to: {address: 10.0.0.4, port: 8080}
      for_server: null
      put_right: false
conflicts:
  description: Where somebody else acted in the meantime, one sentence each.
  returned: success
  type: list
  elements: str
  sample: []
refused:
  description: Where too few servers would have stayed in service (O(min_in_service)), one sentence each. In that case nothing was changed.
  returned: success
  type: list
  elements: str
  sample: ["web1 stays: 1 of 2 in service in www, 1 must stay."]
absent:
  description: Whether no process of HAProxy runs on this machine, so that there was nothing to do. It is only true with O(absent=no_traffic).
  returned: success
  type: bool
  sample: false
waiting_for:
  description:
    - Where the server is not back yet, because HAProxy's health checks must pass first, one sentence each. The hold stays until then.
      Call the module again, or give it a O(timeout).
  returned: success
  type: list
  elements: str
  sample: ["www/web1 waits in drain until HAProxy's health check passes (DOWN: L4CON, Connection refused)"]
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
"""

from ansible_collections.graceful.azure.plugins.module_utils._module_of_call import main_of


def main():
    main_of("haproxy_hold")


if __name__ == "__main__":
    main()
