#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nginx_info
short_description: Read the servers of nginx's upstreams, their connections, and what is held
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Reads the configuration files of the nginx that runs on this machine, and the connections that its workers have to each server of an upstream.
    It changes nothing.
  - Open-source nginx does not check its servers. So the module opens a connection to each server that is in service, once, and closes it at once.
  - Open-source nginx does not tell which requests it has. So the connections are read from the kernel, those of workers from before a reload, too.
  - With O(timeout) it waits until the servers are idle in two looks in a row. The wait goes on if the connection to the balancer is lost, and it
    shows what it waits for.
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
  servers:
    description:
      - Addresses of the servers to look at, as their lines have them. C(10.0.0.4) is the same as C(10.0.0.4:80).
      - Upstreams that have none of them, and no line that leads to one of their IP addresses, are left out. By default no upstream is left out.
    type: list
    elements: str
  addresses:
    description:
      - IP addresses, each with or without a port, such as V(10.0.0.4) and V([2001:db8::4]:80). Upstreams with a line that leads there are not left out.
    type: list
    elements: str
    default: []
  files:
    description:
      - Files for which RV(files) says what they are called without symbolic links.
    type: list
    elements: path
    default: []
  configuration:
    description:
      - The main configuration file of nginx. It tells which nginx is meant, if several run on this machine.
      - By default it is that of the only nginx on this machine.
    type: path
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
      - For how many seconds the servers of O(wait_for) must have had no connection before they count as idle.
      - It has no effect if O(timeout) is V(0).
    type: float
    default: 0
  wait_for:
    description:
      - The servers that O(timeout) waits for. By default these are all of O(servers). It is an error if no upstream has one of them.
    type: list
    elements: str
seealso:
  - module: graceful.azure.nginx_hold
"""

EXAMPLES = r"""
- name: Wait until nginx has no connection to web1 any more
  graceful.azure.nginx_info:
    servers: ["10.0.0.4:8080"]
    timeout: 60
  delegate_to: lb1
  become: true
  register: balancer

- name: Go on only when it is idle
  ansible.builtin.assert:
    that: balancer.idle

- name: Look at all upstreams before a change
  graceful.azure.nginx_info:
  delegate_to: lb1
  become: true
  register: everything

- name: Go on only if nginx accepts its configuration and may be reloaded
  ansible.builtin.assert:
    that:
      - everything.configuration_problem is none
      - everything.rights_problem is none

- name: Show which servers are held, and for which events
  ansible.builtin.debug:
    msg: "{{ item.upstream }}/{{ item.server }}: {{ item.held_by | join(', ') }}"
  loop: "{{ everything.servers | selectattr('held_by') }}"
  loop_control:
    label: "{{ item.server }}"
"""

RETURN = r"""
process:
  description: The master process of nginx.
  returned: success
  type: dict
  contains:
    pid:
      description: Its process id.
      type: int
    started:
      description: When it started, in ticks of the kernel since the machine booted.
      type: int
  sample: {pid: 4711, started: 120345}
configuration:
  description: The main configuration file.
  returned: success
  type: str
  sample: /etc/nginx/nginx.conf
configuration_problem:
  description:
    - What nginx says against the configuration as it is on disk (C(nginx -T)). Null if it accepts it.
    - If nginx reads other files than the module has read, the module fails.
  returned: success
  type: str
  sample: null
rights_problem:
  description: Why M(graceful.azure.nginx_hold) could not change nginx with the rights of this task. Null if it could.
  returned: success
  type: str
  sample: null
files:
  description: For each of O(files) its path without symbolic links, or null if it is not part of the configuration.
  returned: success
  type: dict
  sample: {}
servers:
  description: All servers of the upstreams that have any of the servers named, once for each line.
  returned: success
  type: list
  elements: dict
  contains:
    context:
      description: V(http) or V(stream).
      type: str
    upstream:
      description: The upstream. If the file is included in several upstreams, their names with commas between them.
      type: str
    server:
      description: The server's address.
      type: str
    file:
      description: The file that has the line, without symbolic links.
      type: str
    line:
      description: The number of the line.
      type: int
    text:
      description: The line.
      type: str
    double:
      description: Whether the same file has the same server more than once in this upstream. M(graceful.azure.nginx_hold) refuses such a server.
      type: bool
    down:
      description: Whether the line has the parameter C(down).
      type: bool
    backup:
      description: Whether the line has the parameter C(backup).
      type: bool
    loaded:
      description:
        - Whether nginx has loaded the line as it is. The record of a hold says which workers have loaded its line. While one of them takes
          requests, they have it as the hold left it.
          Otherwise all files of the configuration, and the links to them, must be older than the workers of nginx.
      type: bool
    in_service:
      description:
        - Whether new requests may come. V(false) only if the workers that take requests have the line with C(down), and its upstream follows that.
      type: bool
    never_out:
      description: Why the server gets requests whatever its line says, such as C(balancer_by_lua_block) in its upstream. Null if it does not.
      type: str
    connections:
      description:
        - How many connections nginx has to the server. Without the right to see whose connections these are (C(become)), all connections of this
          machine to the server's address.
      type: int
    former:
      description:
        - How many connections of clients the workers from before the reload have beyond their connections to servers. Such a worker chooses
          the server when it has the whole request, and it still knows the server without C(down).
        - If a client may have connections to several servers at a time, such as with HTTP/2 or C(mirror), all clients of these workers.
      type: int
    uncounted:
      description: Why there may be more than these. RV(servers[].idle) is then V(false). Null if everything was counted.
      type: str
    quiet_for:
      description: For how many seconds this module has seen no connection to the server. V(0) with a single look.
      type: float
    idle:
      description:
        - Whether it was not in service and none of these connections were there. It is never idle if somebody else has removed the parameter
          that the hold left, because the next reload brings it back.
        - With O(timeout), in two looks in a row, and for as long as O(quiet) says.
      type: bool
    condition:
      description:
        - V(none) - the line has no C(down) and is not held.
        - V(held) - the line is as M(graceful.azure.nginx_hold) left it.
        - V(already_out) - somebody else gave it C(down).
        - V(lost) - it should have C(down) and has not, because a run was killed.
        - V(changed_meanwhile) - it is held and not as it was left, because somebody else acted.
      type: str
    found:
      description: The line before the hold.
      type: str
    left:
      description: The line as the hold left it.
      type: str
    held_by:
      description: The events that hold the server.
      type: list
      elements: str
    noted:
      description: Whether the record says that the server is out. V(false) if the run that took it out was cut off. The next call notes it.
      type: bool
    restoring:
      description: Whether its hold is being released.
      type: bool
    for_server:
      description: The server that was named when the line was taken out, if the line writes it in another way or leads to the same host. Null otherwise.
      type: str
    leads_to:
      description: Where it leads. Each entry has the C(address), which is C(unix:) and a path for a Unix socket, and the C(port). Empty if that is not known.
      type: list
      elements: dict
    unresolved:
      description: Why it is not known where it leads. Null if it is.
      type: str
    silent:
      description:
        - Why nothing answers where it leads, as a phrase. Null if something does, if the line is out, if it cannot be asked, or if no server of the
          upstream answers, which proves nothing.
      type: str
  sample:
    - context: http
      upstream: shop
      server: 10.0.0.4:8080
      file: /etc/nginx/conf.d/shop.conf
      line: 3
      text: server 10.0.0.4:8080 weight=2 down;
      double: false
      down: true
      backup: false
      loaded: true
      never_out: null
      in_service: false
      connections: 0
      former: 0
      uncounted: null
      quiet_for: 0.0
      idle: true
      condition: held
      found: server 10.0.0.4:8080 weight=2;
      left: server 10.0.0.4:8080 weight=2 down;
      held_by: [602d9444-d2cd-49c7-8624-8643e7171297]
      noted: true
      restoring: false
      for_server: null
      leads_to: [{address: 10.0.0.4, port: 8080}]
      unresolved: null
      silent: null
passes:
  description:
    - Directives that pass requests to an address themselves, without an upstream, such as C(proxy_pass http://10.0.0.4:8080;). The parameter C(down)
      cannot take these out.
    - A variable in such an address has the values that C(set), C(map), C(geo) and C(split_clients) give it.
  returned: success
  type: list
  elements: dict
  contains:
    context:
      description: V(http) or V(stream).
      type: str
    text:
      description: The directive.
      type: str
    file:
      description: The file that has it, without symbolic links.
      type: str
    line:
      description: The number of the line.
      type: int
    leads_to:
      description: Where it leads, as RV(servers[].leads_to) tells. Empty if that is not known. The port is 0 if only the port is not known.
      type: list
      elements: dict
    unresolved:
      description: Why it is not known where it leads. Null if it is.
      type: str
  sample:
    - context: http
      text: proxy_pass http://10.0.0.4:8080;
      file: /etc/nginx/conf.d/admin.conf
      line: 7
      leads_to: [{address: 10.0.0.4, port: 8080}]
      unresolved: null
beside:
  description:
    - For each of O(addresses) how many connections nginx has there that belong to no line of an upstream. A variable leads there, or code, or a name
      that has led there before. V(0) without the right to see whose connections these are (C(become)).
  returned: success
  type: dict
  sample: {"10.0.0.4": 0}
missing:
  description: Names in O(servers) that no upstream has.
  returned: success
  type: list
  elements: str
  sample: []
present:
  description: The addresses of all servers in all upstreams.
  returned: success
  type: list
  elements: str
  sample: ["10.0.0.4:8080", "10.0.0.5:8080"]
holds:
  description: Every record of a hold on a server of this nginx, as it is in its file. If it is lost, as the comment before the held line says.
  returned: success
  type: list
  elements: dict
  sample: []
other_holds:
  description:
    - Every other record of a hold on a server of nginx in O(state_dir). Its file does not belong to the configuration of this nginx. If
      nginx cannot be found, these are all records.
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
idle:
  description: Whether an upstream has all servers of O(wait_for) and all of them were idle.
  returned: success
  type: bool
  sample: true
"""

from ansible_collections.graceful.azure.plugins.module_utils._module_of_call import main_of


def main():
    main_of("nginx_info")


if __name__ == "__main__":
    main()
