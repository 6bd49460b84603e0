# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that forwards a port to a container, as Docker does, and a client on another machine. Each of the three is a network namespace."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.checkout import must_pass
from tests.support.nodes import TIED
from tests.support.processes import PATH, find_program

NEEDS = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces are made by root alone: sudo make test"),
    pytest.mark.skipif(not all(map(find_program, ("ip", "nft", "unshare", "nsenter"))), reason="no ip or nft: apt-get install iproute2 nftables"),
]
PORT = 8081
CLIENT, HOST = "10.77.0.2", "10.77.0.1"
RULES = f"add table ip nat; add chain ip nat pre {{ type nat hook prerouting priority -100; }}; add rule ip nat pre tcp dport {PORT} dnat to 172.30.0.2:80"
SERVER = """
import socket, sys
listening = socket.socket()
listening.bind(("0.0.0.0", 80))
listening.listen(8)
print("ready", flush=True)
served = []
for line in sys.stdin:
    served.append(listening.accept()[0])
    print("accepted", flush=True)
"""
CALLER = f"""
import socket, sys
calling = socket.create_connection(("{HOST}", {PORT}), timeout=10)
print(calling.getsockname()[1], flush=True)
sys.stdin.read()
"""


class PublishedPort:
    """Port 8081 of the host leads to port 80 of the container. Nobody listens on the host itself."""

    def __init__(self):
        self.processes = []
        self.host, self.container, self.client = (self._space() for _name in range(3))
        for number, other, near, far in ((0, self.container, "172.30.0.1", "172.30.0.2"), (1, self.client, HOST, CLIENT)):
            self.at(self.host, "ip", "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", str(other.pid))
            self.at(self.host, "ip", "address", "add", f"{near}/24", "dev", f"v{number}")
            self.at(self.host, "ip", "link", "set", f"v{number}", "up")
            self.at(other, "ip", "address", "add", f"{far}/24", "dev", "eth0")
            self.at(other, "ip", "link", "set", "eth0", "up")
            self.at(other, "ip", "route", "add", "default", "via", near)
        self.at(self.host, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        self.at(self.host, "nft", RULES)
        self.server = self._start(self.container, SERVER)
        assert self.server.stdout.readline() == "ready\n"

    def _space(self):
        holder = subprocess.Popen([*TIED, "unshare", "--net", "sh", "-c", "ip link set lo up; echo; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.processes.append(holder)
        holder.stdout.readline()
        return holder

    @staticmethod
    def enter(space):
        """The words before a command that runs there."""
        return ["nsenter", "-t", str(space.pid), "--net", "--"]

    def at(self, space, *words):
        return must_pass(*self.enter(space), *words, env=dict(os.environ, PATH=PATH))

    def _start(self, space, program):
        words = [*TIED, *self.enter(space), sys.executable, "-c", program]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def call(self):
        """A client's connection, served by the container. It ends with the input of the process that is returned."""
        caller = self._start(self.client, CALLER)
        assert caller.stdout.readline().strip().isdigit()
        self.server.stdin.write("accept\n")
        self.server.stdin.flush()
        assert self.server.stdout.readline() == "accepted\n"
        return caller

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
