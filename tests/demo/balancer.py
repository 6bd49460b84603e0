# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The demo's HAProxy: its configuration, and what its runtime socket says about the servers."""

from __future__ import annotations

import socket
from typing import NamedTuple

BACKEND = "web"

# As a careful administrator would write it. It is on the side of the run without the collection, too: connections that
# are refused are tried again on another server, and a dead server is noticed within two seconds.
CONFIGURATION = """\
global
    # The collection's way in: level admin, since it changes the state of servers.
    stats socket {socket} mode 600 level admin
    maxconn 4000

defaults
    mode http
    timeout connect 1s
    timeout client 30s
    # The slowest answer takes 2 s.
    timeout server 3s
    timeout http-keep-alive 30s
    retries 3
    option redispatch 1

frontend demo
    bind 127.0.0.1:{port}
    default_backend {backend}
    # Names the server that a request went to, in the answers that HAProxy gives in its place, too.
    http-after-response set-header X-Backend %[srv_name]

backend {backend}
    balance roundrobin
    option httpchk GET /
    # No pool of idle connections: all hosts of the demo share one address, so that the pool's connections to a server
    # that is out could not be told from a user's. (pool-purge-delay at times keeps the last one for ever.)
    default-server check inter 1s fall 2 rise 2 pool-max-conn 0
"""


def configuration(path, port, servers):
    """The text of haproxy.cfg for servers, a dict of name and port on this machine."""
    lines = ["    server {0} 127.0.0.1:{1}\n".format(name, number) for name, number in servers.items()]
    return CONFIGURATION.format(socket=path, port=port, backend=BACKEND) + "".join(lines)


class Server(NamedTuple):
    """What HAProxy says of one server."""

    admin: str  # ready, drain or maint
    up: bool  # what the health check says


# Bits of srv_admin_state in the answer to "show servers state".
MAINTENANCE = 0x01 | 0x02 | 0x04 | 0x20 | 0x40
DRAIN = 0x08 | 0x10


def read_state(text):
    """The servers of the answer to "show servers state": a dict of name and Server."""
    servers = {}
    columns = []
    for line in text.splitlines():
        if line.startswith("# "):
            columns = line[2:].split()
        row = dict(zip(columns, line.split()))
        if row.get("be_name") != BACKEND:
            continue
        bits = int(row["srv_admin_state"])
        admin = "maint" if bits & MAINTENANCE else "drain" if bits & DRAIN else "ready"
        servers[row["srv_name"]] = Server(admin, row["srv_op_state"] != "0")
    return servers


def ask(path, command):
    """One command on the runtime socket, and its whole answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(5)
        connection.connect(path)
        connection.sendall(command.encode() + b"\n")
        parts = []
        while True:
            part = connection.recv(65536)
            if not part:
                return b"".join(parts).decode()
            parts.append(part)
