# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.
# Do not use this from other collections or standalone plugins/modules!

"""Connections that former processes of HAProxy still have.

After a reload the former process serves its requests to their end, and no socket tells of them any more: the process
that answers counts its own sessions alone. What the former one still has is read from the kernel.
"""

from __future__ import annotations

import collections
import ipaddress
import os
import re
import struct

# States in which nothing goes over a connection: closed, and waiting for new ones.
LISTENING = "0A"
QUIET = ("07", LISTENING)


def former_connections(pid, proc="/proc"):
    """How many connections the former processes of HAProxy ``pid`` made, by remote (address, port).

    Nothing is counted where HAProxy runs in another pid namespace, or where the rights to look are missing.
    """
    counted = collections.Counter()
    for former in former_processes(pid, proc):
        counted.update(_connections(former, proc))
    return counted


def former_processes(pid, proc="/proc"):
    """The other processes of the same HAProxy: run with the same command line, but for what a reload adds to it.

    The master is among them where there is one; it has no connection to a server.
    """
    own = _command(pid, proc)
    if own is None:
        return []
    others = (int(name) for name in os.listdir(proc) if name.isdigit() and int(name) != pid)
    return sorted(other for other in others if _command(other, proc) == own)


def _command(pid, proc):
    """The command line of a HAProxy and its network, None for any other process."""
    folder = os.path.join(proc, str(pid))
    if "haproxy" not in _read(os.path.join(folder, "comm")):
        return None
    words = []
    skipped = None
    for word in _read(os.path.join(folder, "cmdline")).split("\0"):
        if word in ("-sf", "-st", "-x"):
            skipped = word
        elif skipped and (word.isdigit() or skipped == "-x"):
            # -sf and -st are followed by any number of process ids, -x by one socket.
            skipped = None if skipped == "-x" else skipped
        else:
            skipped = None
            words.append(word)
    try:
        network = os.readlink(os.path.join(folder, "ns", "net"))
    except OSError:
        network = None
    return words, network


def _connections(pid, proc):
    folder = os.path.join(proc, str(pid))
    inodes = set()
    try:
        for name in os.listdir(os.path.join(folder, "fd")):
            try:
                match = re.match(r"socket:\[(\d+)\]", os.readlink(os.path.join(folder, "fd", name)))
            except FileNotFoundError:  # closed meanwhile
                continue
            if match:
                inodes.add(match.group(1))
    except OSError:  # gone meanwhile, or not for us to see
        return
    rows = []
    for table in ("tcp", "tcp6"):
        rows += [line.split() for line in _read(os.path.join(folder, "net", table)).splitlines()[1:]]
    rows = [fields for fields in rows if len(fields) > 9]
    listening = {_endpoint(fields[1]) for fields in rows if fields[3] == LISTENING}
    for fields in rows:
        if fields[3] not in QUIET and fields[9] in inodes:
            address, port = _endpoint(fields[1])
            # One that somebody listens for came from a client, who may sit on the machine of a server.
            if not listening & {(address, port), ("0.0.0.0", port), ("::", port)}:
                yield _endpoint(fields[2])


def _endpoint(text):
    address, colon, port = text.partition(":")
    # Groups of 32 bits, each in the machine's own order of bytes.
    words = [int(address[start : start + 8], 16) for start in range(0, len(address), 8)]
    known = ipaddress.ip_address(struct.pack("=%dI" % len(words), *words))
    return str(getattr(known, "ipv4_mapped", None) or known), int(port, 16)


def _read(path):
    try:
        with open(path, "rb") as stream:
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
