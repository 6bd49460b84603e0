# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Three real Redis servers, each with a Sentinel beside it, and clients that count what was acknowledged."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import threading
import time

import pytest

from tests.support.patience import patient, until
from tests.support.ports import free_port
from tests.support.processes import Processes, find_program

SERVER = find_program("redis-server")
SENTINEL = find_program("redis-sentinel")


def version():
    """Of the server, as numbers; none if there is no server."""
    said = subprocess.run([SERVER, "--version"], capture_output=True, text=True, check=False).stdout if SERVER and SENTINEL else ""
    return tuple(int(number) for number in re.findall(r"v=(\d+)\.(\d+)", said)[0]) if "v=" in said else ()


NEEDED = pytest.mark.skipif(version() < (6, 2), reason="no redis-server and redis-sentinel 6.2 or newer: apt-get install redis-server redis-sentinel")

# The options of the duty that all hosts share.
STEP = {"name": "cache", "type": "redis"}
GROUP = "shop"
PASSWORD = "a-secret-of-the-tests"
SENTINEL_PASSWORD = "another-secret"
START_SECONDS = 30

SERVER_FILE = """\
bind {bind}
port {port}
dir {folder}
save ""
repl-diskless-sync-delay 0
requirepass "{password}"
masterauth "{password}"
"""
SENTINEL_FILE = """\
bind {bind}
port {port}
dir {folder}
requirepass "{sentinel_password}"
sentinel sentinel-pass "{sentinel_password}"
{sentinel_more}sentinel monitor {group} {host} {master} 2
sentinel auth-pass {group} "{password}"
sentinel down-after-milliseconds {group} 5000
sentinel failover-timeout {group} 20000
"""


class Refused(Exception):
    """The server answered with an error."""


class Client:
    """One connection, that sends one command after the other."""

    def __init__(self, port, password, seconds=10.0):
        self._socket = socket.create_connection(("127.0.0.1", port), seconds)
        self._stream = self._socket.makefile("rb")
        if password:
            self.call("AUTH", password)

    def call(self, *words):
        parts = [str(word).encode() for word in words]
        self._socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        return self._answer()

    def _answer(self):
        line = self._stream.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("closed")
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"-":
            raise Refused(rest)
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == "-1" else self._stream.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return None if rest == "-1" else [self._answer() for _number in range(int(rest))]
        return rest

    def close(self):
        self._stream.close()
        self._socket.close()


class Node:
    """One host: its Redis and its Sentinel."""

    def __init__(self, folder, name, processes, host="127.0.0.1"):
        self.name = name
        self.host = host
        self.folder = folder / name
        self.folder.mkdir()
        self.port, self.sentinel_port = free_port(), free_port()
        self._processes = processes
        self.server = self.sentinel = None

    def write(self, master, more="", sentinel_more=""):
        """The files of the first start: who is the master."""
        values = {"folder": self.folder, "password": PASSWORD, "sentinel_password": SENTINEL_PASSWORD, "group": GROUP, "master": master.port}
        # What asks here does so at 127.0.0.1, whatever the servers call each other.
        values.update(host=self.host, bind="127.0.0.1 ::1" if ":" in self.host else "127.0.0.1", sentinel_more=sentinel_more)
        text = SERVER_FILE.format(port=self.port, **values) + more
        if master is not self:
            text += f"replicaof {self.host} {master.port}\n"
        self.configuration.write_text(text)
        (self.folder / "sentinel.conf").write_text(SENTINEL_FILE.format(port=self.sentinel_port, **values))

    @property
    def configuration(self):
        return self.folder / "redis.conf"

    def start_server(self):
        self.server = self._processes.start(f"{self.name}-redis", SERVER, self.configuration)

    def start_sentinel(self):
        self.sentinel = self._processes.start(f"{self.name}-sentinel", SENTINEL, self.folder / "sentinel.conf")

    def start(self):
        self.start_server()
        self.start_sentinel()

    def stop(self):
        """As when the host is shut down."""
        self._processes.stop(self.server)
        self._processes.stop(self.sentinel)

    def ask(self, *words):
        """What its Redis answers."""
        return self._ask(self.port, PASSWORD, words)

    def ask_sentinel(self, *words):
        return self._ask(self.sentinel_port, SENTINEL_PASSWORD, words)

    @staticmethod
    def _ask(port, password, words):
        with contextlib.closing(Client(port, password)) as client:
            return client.call(*words)

    @property
    def role(self):
        return self.ask("ROLE")[0]

    @property
    def priority(self):
        return self.ask("CONFIG", "GET", "replica-priority")[1]

    @property
    def options(self):
        """The options of the drain step on this host."""
        return {
            "master": GROUP,
            "address": f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}",
            "password_file": str(self.folder.parent / "password"),
            "sentinel": f"127.0.0.1:{self.sentinel_port}",
            "sentinel_password_file": str(self.folder.parent / "sentinel-password"),
        }


class Sentinels:
    """The cluster. ``names`` are the hosts; the first one is the master at first. ``host``: the address or name by which the servers know each other."""

    def __init__(self, folder, names=("redis1", "redis2", "redis3"), more="", host="127.0.0.1", sentinel_more=""):
        self.processes = Processes(folder)
        self.nodes = {name: Node(folder, name, self.processes, host) for name in names}
        (folder / "password").write_text(PASSWORD + "\n")
        (folder / "sentinel-password").write_text(SENTINEL_PASSWORD + "\n")
        try:
            for node in self.nodes.values():
                node.write(self.nodes[names[0]], more, sentinel_more)
                node.start_server()
            # A Sentinel asks for replicas when it starts, and then every ten seconds.
            self._await(lambda: all(node.role == "master" or node.ask("ROLE")[3] == "connected" for node in self.nodes.values()), "replicas follow")
            for node in self.nodes.values():
                node.start_sentinel()
            self.await_whole()
        except BaseException:
            self.close()
            raise

    def __getitem__(self, name):
        return self.nodes[name]

    def master(self):
        """The node that the first Sentinel that answers names as the master."""
        for node in self.nodes.values():
            with contextlib.suppress(OSError, Refused):
                port = int(node.ask_sentinel("SENTINEL", "GET-MASTER-ADDR-BY-NAME", GROUP)[1])
                return next(one for one in self.nodes.values() if one.port == port)
        raise AssertionError("no Sentinel answers")

    def await_whole(self):
        """Until every Sentinel knows all servers and Sentinels, and every replica is linked."""
        self._await(lambda: all(map(self._is_whole, self.nodes.values())), "Redis and its Sentinels found each other")

    def _await(self, condition, what):
        def holds():
            with contextlib.suppress(OSError, Refused):
                return condition()

        until(holds, START_SECONDS, what)

    def _is_whole(self, node):
        try:
            replicas = [dict(zip(fields[::2], fields[1::2])) for fields in node.ask_sentinel("SENTINEL", "REPLICAS", GROUP)]
            others = node.ask_sentinel("SENTINEL", "SENTINELS", GROUP)
        except (OSError, Refused):
            return False
        linked = [fields for fields in replicas if fields["flags"] == "slave" and fields["master-link-status"] == "ok"]
        return len(linked) == len(self.nodes) - 1 == len(others)

    def close(self):
        self.processes.close()


class Writers:
    """Clients that write one number after the other, with a short pause after each. They ask a Sentinel for the master whenever a connection fails."""

    def __init__(self, cluster, clients=4, pause=0.005):
        self.cluster = cluster
        self._pause = pause
        self.acknowledged = []
        self.refused = 0
        self.longest_gap = 0.0
        self._last = time.monotonic()
        self._lock = threading.Lock()
        self._numbers = iter(range(1 << 40))
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._write, daemon=True) for _number in range(clients)]
        for thread in self._threads:
            thread.start()

    def _write(self):
        client = None
        while not self._over.is_set():
            with self._lock:
                number = next(self._numbers)
            try:
                if client is None:
                    client = Client(self.cluster.master().port, PASSWORD, 40)
                client.call("SADD", "written", number)
            except (OSError, Refused):
                with self._lock:
                    self.refused += 1
                if client is not None:
                    client.close()
                client = None
                self._over.wait(0.02)
                continue
            with self._lock:
                now = time.monotonic()
                self.longest_gap = max(self.longest_gap, now - self._last)
                self._last = now
                self.acknowledged.append(number)
            self._over.wait(self._pause)

    def stop(self):
        self._over.set()
        for thread in self._threads:
            thread.join(patient(60))

    def lost(self):
        """The numbers that were acknowledged and that the master does not have."""
        there = {int(number) for number in self.cluster.master().ask("SMEMBERS", "written")}
        return sorted(set(self.acknowledged) - there)
