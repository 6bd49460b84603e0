# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the kernel tells by netlink of sockets: on which something has come back, and which a transparent proxy has taken over."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._sock_diag import answered

from tests.support.checkout import BUILD
from tests.support.patience import patient


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_what_has_come_back_and_what_was_sent_since(family, address):
    with socket.create_server((address, 0), family=family) as server, socket.create_connection(server.getsockname()[:2]) as client:
        inode = str(os.fstat(client.fileno()).st_ino)
        with server.accept()[0] as other:
            client.sendall(b"question")
            other.recv(100)
            asked = time.monotonic()
            told = answered({inode})
            assert told[:3] == (set(), set(), {}) and abs(told.sent[inode] - asked) < patient(0.5)
            time.sleep(0.02)
            other.sendall(b"answer")
            client.recv(100)
            told, now = answered({inode}), time.monotonic()
            assert told[:2] == ({inode}, {inode}) and told.sent[inode] < told.received[inode] and abs(told.received[inode] - now) < patient(0.5)
            time.sleep(0.02)
            client.sendall(b"another question")
            told = answered({inode})
            assert told[:2] == ({inode}, set()) and told.received[inode] < told.sent[inode]
            assert answered({"1"}) == (set(), set(), {}, {})


def test_where_nothing_was_sent_no_time_is_told():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client, server.accept()[0] as other:
        inode = str(os.fstat(other.fileno()).st_ino)
        client.sendall(b"question")
        other.recv(100)
        told = answered({inode})
        assert told.sent == {} and set(told.received) == {inode}


def run(*words, **more):
    subprocess.run(words, check=True, **more)


@pytest.fixture
def networks():
    """Two network namespaces that are connected. In the second, whoever listens on port 3129 takes over what comes to port 80."""
    names = [f"graceful-{os.getpid()}-{letter}" for letter in "ab"]
    for name in names:
        run("ip", "netns", "add", name)
    try:
        run("ip", "link", "add", "ga0", "netns", names[0], "type", "veth", "peer", "name", "ga0", "netns", names[1])
        for number, name in enumerate(names, 1):
            run("ip", "-n", name, "address", "add", f"192.0.2.{number}/24", "dev", "ga0")
            run("ip", "-n", name, "link", "set", "ga0", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", names[1], "rule", "add", "fwmark", "1", "lookup", "100")
        run("ip", "-n", names[1], "route", "add", "local", "0.0.0.0/0", "dev", "lo", "table", "100")
        rule = ["-p", "tcp", "--dport", "80", "-j", "TPROXY", "--on-port", "3129", "--tproxy-mark", "1"]
        run("ip", "netns", "exec", names[1], "iptables", "-t", "mangle", "-A", "PREROUTING", *rule)
        yield names
    finally:
        for name in names:
            run("ip", "netns", "delete", name)


DIVERTED = """
import json, socket, sys
from ansible_collections.graceful.azure.plugins.module_utils._connections import counted
listener = socket.socket()
listener.setsockopt(socket.SOL_IP, 19, int(sys.argv[1]))
listener.bind(("0.0.0.0", 3129))
listener.listen()
listener.settimeout(60)
print("listening", flush=True)
if sys.argv[1] == "1":
    client, _peer = listener.accept()
print(json.dumps(counted([3129, 80])), flush=True)
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("iptables"), reason="needs root and iptables")
def test_what_a_transparent_proxy_takes_over(networks):
    environment = dict(os.environ, PYTHONPATH=str(BUILD / "collections"))
    for transparent in ("1", "0"):
        command = ["ip", "netns", "exec", networks[1], sys.executable, "-c", DIVERTED, transparent]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as proxy:
            assert proxy.stdout.readline() == "listening\n"
            code = "import socket, sys; c = socket.create_connection(('192.0.2.2', 80)); print('connected', flush=True); sys.stdin.read()"
            client = ["ip", "netns", "exec", networks[0], sys.executable, "-c", code]
            with subprocess.Popen(client if transparent == "1" else ["true"], stdin=subprocess.PIPE) as other:
                connections, _uncounted = json.loads(proxy.stdout.readline())
                other.stdin.close()
        found = [(each["port"], each["peer"], each["count"]) for each in connections]
        assert found == ([(80, "192.0.2.1", 1), (3129, "192.0.2.1", 1)] if transparent == "1" else [])
