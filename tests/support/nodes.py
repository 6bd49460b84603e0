# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes of a cluster on this machine: each has a network, a host name, processes and some folders of its own, and the file system of the machine.

They see one another over a bridge of their own and nothing else. All of it ends with the processes that hold the namespaces.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys

import pytest

from tests.support.checkout import must_pass
from tests.support.patience import patient
from tests.support.processes import find_program

NEEDED = ("setpriv", "unshare", "nsenter", "ip", "mount")
# A process that ends with the one that started it, however that ends.
TIED = ("setpriv", "--pdeathsig", "KILL")
# It is the first process of a node, so it also collects what its processes leave.
FIRST = "trap 'exit 0' TERM; echo ready; while :; do sleep 3600 & wait; done"

NODES = [
    pytest.mark.skipif(os.geteuid() != 0, reason="nodes of a cluster are namespaces, which root alone makes: sudo make test"),
    pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason="no unshare or ip: apt-get install util-linux iproute2"),
]


def needs(*programs, packages):
    """The mark of a test that runs these programs."""
    missing = [program for program in programs if not find_program(program)]
    return pytest.mark.skipif(bool(missing), reason=f"no {', '.join(missing)}: apt-get install {packages}")


class Node:
    """One node. C(folders): which folders of the machine it has of its own; they are empty at first and outlive a reboot, but for those under /run."""

    # The programs of its cluster know which node they run on.
    options: dict = {}

    def __init__(self, name, address, folder, folders=(), peers=()):
        self.name = name
        self.address = address
        self.folder = folder
        self.folders = folders
        self.peers = list(peers)
        self.process = None
        self.boots = 0

    def boot(self, bridge):
        """Make its namespaces and connect it."""
        self.boots += 1
        lines = ["set -e", "mount --make-rprivate /", f"hostname {self.name}", "mount -t tmpfs tmpfs /run", "mkdir -p /run/lock"]
        for number, path in enumerate(self.folders):
            own = self.folder / self.name / str(number)
            if not own.exists():
                own.mkdir(parents=True)
                shutil.copystat(path, own)
                os.chown(own, os.stat(path).st_uid, os.stat(path).st_gid)
            lines.append(f"mount --bind {own} {path}")
        (self.folder / self.name).mkdir(parents=True, exist_ok=True)
        boot_id, hosts = self.folder / self.name / "boot_id", self.folder / self.name / "hosts"
        boot_id.write_text(f"{self.name}-boot-{self.boots}\n")
        hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in self.peers))
        lines += ["mount -t tmpfs tmpfs /dev/shm", f"mount --bind {boot_id} /proc/sys/kernel/random/boot_id", f"mount --bind {hosts} /etc/hosts"]
        lines += ["ip link set lo up", FIRST]
        words = [*TIED, "unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", "\n".join(lines)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert self.process.stdout.readline() == "ready\n", f"{self.name} did not boot"
        self.first = int(must_pass("pgrep", "-P", str(self.process.pid)).split()[0])
        own = f"v{self.first}"
        must_pass("nsenter", "-t", str(bridge), "-n", "ip", "link", "add", own, "type", "veth", "peer", "name", "eth0", "netns", str(self.first))
        must_pass("nsenter", "-t", str(bridge), "-n", "ip", "link", "set", own, "master", "br0", "up")
        self.must("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.must("ip", "link", "set", "eth0", "up")

    @property
    def enter(self):
        """The words before a command that runs there."""
        return ["nsenter", "-t", str(self.first), "-m", "-u", "-i", "-n", "-p", "--"]

    def run(self, *words, timeout=60, **more):
        return subprocess.run([*self.enter, *words], capture_output=True, text=True, timeout=patient(timeout), check=False, **more)

    def must(self, *words, **more):
        done = self.run(*words, **more)
        assert done.returncode == 0, (self.name, words, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout

    def start(self, *words, log=None):
        """Start a program there that stays."""
        with open(log or self.folder / self.name / f"{os.path.basename(words[0])}.log", "ab") as out:
            return subprocess.Popen([*self.enter, *words], stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)

    def halt(self):
        """Take its power away: all its processes end at once."""
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.first, signal.SIGKILL)
            self.process.kill()
            self.process.wait(patient(10))
            self.process.stdout.close()
            self.process = None

    def wrappers(self, folder, programs):
        """Programs of the same names that run there, and a Python that finds them first: for a host of Ansible that is this node."""
        folder.mkdir(parents=True, exist_ok=True)
        for program in programs:
            # By its path: the name alone would be this script again.
            self._script(folder / program, " ".join([*self.enter, find_program(program)]))
        return self._script(folder / "python3", f"env PATH={folder}:$PATH {sys.executable}")

    @staticmethod
    def _script(path, words):
        path.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        path.chmod(0o755)
        return path


class Nodes:
    """Some nodes that see one another."""

    def __init__(self, folder, names, folders=()):
        addresses = {name: f"10.99.0.{number + 1}" for number, name in enumerate(names)}
        self.nodes = {name: Node(name, address, folder, folders, addresses.items()) for name, address in addresses.items()}
        self._bridge = None

    def __enter__(self):
        words = [*TIED, "unshare", "--net", "bash", "-c", "ip link add br0 type bridge && ip link set br0 up && echo ready && exec sleep infinity"]
        self._bridge = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        try:
            assert self._bridge.stdout.readline() == "ready\n", "there is no bridge"
            for node in self.nodes.values():
                node.boot(self._bridge.pid)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error):
        for node in self.nodes.values():
            node.halt()
        if self._bridge:
            self._bridge.kill()
            self._bridge.wait(patient(10))
            self._bridge.stdout.close()

    def __getitem__(self, name):
        return self.nodes[name]

    def __iter__(self):
        return iter(self.nodes.values())

    def boot(self, name):
        self.nodes[name].boot(self._bridge.pid)
