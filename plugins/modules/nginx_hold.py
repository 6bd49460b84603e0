#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nginx_hold
short_description: Take a server of nginx out of its upstreams for an event, and put it back as it was
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Adds the parameter C(down) to a server's lines in every upstream of the nginx that runs on this machine, in C(http) and in C(stream), and
    lets nginx load it. All lines that lead to the same host go out together, in the same reload (see O(addresses)).
  - It does this only if no event has done so before, and records the lines that it found. A comment before each line says the same. If the record is lost,
    it is made again from this comment, as long as the line is as the module left it.
  - When the last event is released, the line becomes what it was, with its blanks and comments, and the module's own comment goes. The rest of the file is
    never touched.
  - The record is on disk before the first file is written. A call that was cut off at any point is continued by the next one.
  - nginx tests its configuration (C(nginx -T)) before anything is changed, and again before it loads the change. If it refuses, or if its former
    workers go on after the reload, all files are put back and the module fails. It also fails if nginx reads other files, or other contents,
    than the module has read.
  - If nginx has not loaded what its files have, such as a line that somebody else has written anew, the module reloads nginx. This is so when
    a hold is put on a line that has C(down) already, and when the last event is released.
  - A server that has C(down) without a hold belongs to an operator and is never touched.
extends_documentation_fragment:
  - graceful.azure._hold
  - graceful.azure._attributes
attributes:
  check_mode:
    details:
      - nginx tests its configuration as it is, but not with the change.
  diff_mode:
    support: full
options:
  server:
    description:
      - The server's address as its line has it, such as V(10.0.0.4:8080), V(web1.internal) or V(unix:/run/app.sock). V(10.0.0.4) is the same as
        V(10.0.0.4:80).
    type: str
    required: true
  addresses:
    description:
      - IP addresses of the server's host, each with or without a port, such as V(10.0.0.4), V(10.0.0.4:80) and V([2001:db8::4]:80). Lines that lead there
        are the same host.
      - Lines that lead to the same address and port as O(server) always are.
      - By default, lines that lead to the same IP address on another port are the same host, too. Every machine has V(127.0.0.1) and V(::1), so there only
        the same port is the same host. If other hosts share the address, give this option. An empty list is no other address.
      - Names are resolved on this machine.
      - The records of such lines name the server for which they are held. So O(state=absent) for O(server) gives them back without this option.
    type: list
    elements: str
  files:
    description:
      - The files in which to act. Each must belong to the configuration and name the server.
      - By default these are all files of the configuration that name the server in an upstream.
      - With O(state=absent) and O(event_ids), what these events hold in other files is released, too.
    type: list
    elements: path
  configuration:
    description:
      - The main configuration file of nginx. It tells which nginx is meant, if several run on this machine.
      - By default it is that of the only nginx on this machine.
    type: path
  min_in_service:
    description:
      - How many servers of each upstream must stay in service, a number or a percentage such as V(50%).
      - A server is in service if its line has no C(down) and something accepts connections where it leads. The module asks that from this machine, all
        servers side by side, for at most one second. A server that cannot be asked counts as long as its line has no C(down). See M(graceful.azure.nginx_info).
      - With O(state=present) the servers are counted under the same lock under which the server is taken out. If too few would stay,
        nothing is changed in any upstream, and RV(refused) says so.
      - Backup servers are not counted, unless the server is one itself.
      - An upstream in which all lines lead to the server's host, and none has the address O(server), is not counted. Waiting would bring no other server.
      - Without this option nothing is counted.
    type: str
notes:
  - The module needs to write the configuration files and to signal the master process of nginx, so it needs C(become).
  - The reload makes nginx load everything that its files have at that moment, also changes that somebody made before and has not loaded.
  - With each reload, nginx closes the connections of clients on which no request is under way.
  - The nginx of a container cannot be changed from outside of it. One in a mount namespace of its own that has the same files, such as a unit of
    systemd with C(PrivateTmp), can.
  - While two master processes serve with the same configuration, because the program of nginx is being replaced, the module fails. A former one that was
    told to quit does not matter.
seealso:
  - module: graceful.azure.nginx_info
"""

EXAMPLES = r"""
- name: Take web1 out of every upstream of the balancer for an event
  graceful.azure.nginx_hold:
    server: 10.0.0.4:8080
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    reason: Reboot at 22:26
  delegate_to: lb1
  become: true

- name: The event is over, so put web1 back
  graceful.azure.nginx_hold:
    server: 10.0.0.4:8080
    state: absent
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
  delegate_to: lb1
  become: true

- name: Take web1 out as soon as another server of each upstream stays in service
  graceful.azure.nginx_hold:
    server: 10.0.0.4:8080
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
    min_in_service: "1"
  delegate_to: lb1
  become: true
  register: taken_out
  until: not taken_out.refused
  retries: 30
  delay: 10

- name: Show which lines would be changed, and change none
  graceful.azure.nginx_hold:
    server: 10.0.0.4:8080
    files: [/etc/nginx/conf.d/shop.conf]
    event_ids: [602d9444-d2cd-49c7-8624-8643e7171297]
  delegate_to: lb1
  become: true
  check_mode: true
  diff: true
"""

RETURN = r"""
servers:
  description: The server as it is now, once for each of its lines and of those that lead to the same host.
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
      description: The number of the line. Null if the file no longer has it.
      type: int
    text:
      description: The line. Null if the file no longer has it.
      type: str
    down:
      description: Whether the line has the parameter C(down).
      type: bool
    backup:
      description: Whether the line has the parameter C(backup).
      type: bool
    condition:
      description:
        - V(held) - the line is as this module left it.
        - V(already_out) - it had C(down) and was not touched.
        - V(changed_meanwhile) - it is not as this module left it, because somebody else acted. It was not touched.
        - V(none) - it has no C(down) and is not held.
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
  sample:
    - context: http
      upstream: shop
      server: 10.0.0.4:8080
      file: /etc/nginx/conf.d/shop.conf
      line: 3
      text: server 10.0.0.4:8080 weight=2 down;
      down: true
      backup: false
      condition: held
      found: server 10.0.0.4:8080 weight=2;
      left: server 10.0.0.4:8080 weight=2 down;
      held_by: [602d9444-d2cd-49c7-8624-8643e7171297]
      noted: true
      restoring: false
      for_server: null
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
  sample: ["10.0.0.4:8080 stays: 1 of 2 in service in upstream shop, 1 must stay."]
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
"""

from ansible_collections.graceful.azure.plugins.module_utils._module_of_call import main_of


def main():
    main_of("nginx_hold")


if __name__ == "__main__":
    main()
