# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ports for servers that start later, and sockets that listen at once."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from pathlib import Path

from tests.support.patience import patient

# Below Linux's ip_local_port_range: no outgoing connection takes such a port between now and the server's start.
FIRST, LAST = 20000, 32767


def free_port():
    """A free TCP port of 127.0.0.1. All test processes of a user share one counter, so that none is given out twice in a row."""
    with (Path(tempfile.gettempdir()) / f"graceful-azure-ports-{os.getuid()}").open("a+") as counter:
        fcntl.flock(counter, fcntl.LOCK_EX)
        counter.seek(0)
        port = int(counter.read() or LAST)
        for _number in range(FIRST, LAST):
            port = port + 1 if port < LAST else FIRST
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            counter.truncate(0)
            counter.write(str(port))
            return port
    raise OSError("no port of 127.0.0.1 from %d to %d is free" % (FIRST, LAST))


def taken(port):
    """How many clients of a TCP port of 127.0.0.1 the server has accepted and, so far, read: it may answer them, whatever comes next."""
    with open("/proc/net/tcp", encoding="utf-8") as stream:
        rows = [line.split() for line in stream][1:]
    # Established, with nothing to be read, and with a file of the server.
    return sum(row[1] == f"0100007F:{port:04X}" and row[3] == "01" and row[4].endswith(":00000000") and row[9] != "0" for row in rows)


def accepts(port, address="127.0.0.1"):
    """Whether somebody takes connections there."""
    try:
        with socket.create_connection((address, port), patient(2)) as connection:
            # To a port that nobody listens on yet, a socket may get connected with itself.
            return connection.getsockname() != connection.getpeername()
    except OSError:
        return False


def listener(address="127.0.0.1", only_ipv6=True):
    """A socket that listens on a free TCP port of that address, as socket.create_server makes it from Python 3.8 on."""
    listening = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listening.family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only_ipv6)
        listening.bind((address, 0))
        listening.listen()
    except OSError:
        listening.close()
        raise
    return listening
