# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the bed asks of the kernel: network namespaces, mounts, control groups."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

from tests.support.patience import patient
from tests.support.processes import kill

CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
PR_SET_PDEATHSIG = 1

NAMESPACES = Path("/run/netns")

libc = ctypes.CDLL(None, use_errno=True)


def _call(name, *arguments):
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def die_with_parent():
    """For preexec_fn: this process gets SIGKILL when the thread that started it ends."""
    _call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)


# Network


def ip(*lines, namespace=None):
    """Commands of ip, one each, in a network namespace where one is named."""
    inside = ["-netns", namespace] if namespace else []
    subprocess.run(["ip", *inside, "-batch", "-"], input="\n".join(lines), text=True, check=True)


def enter_network(namespace):
    """Move the calling thread, and what it starts from now on, into a network namespace: its name, or what own_network() gave."""
    if hasattr(namespace, "fileno"):
        _call("setns", namespace.fileno(), CLONE_NEWNET)
        return
    with (NAMESPACES / namespace).open("rb") as stream:
        _call("setns", stream.fileno(), CLONE_NEWNET)


def own_network():
    """The network that this thread is in now, to come back to. The caller closes it."""
    return open("/proc/thread-self/ns/net", "rb")


def listening_socket(namespace, address, port):
    """A socket that listens inside a network namespace, for a process that is outside."""
    made = []

    def make():
        enter_network(namespace)
        made.append(socket.create_server((address, port), backlog=128))

    # A thread that has moved would stay there: one of its own does it and ends.
    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if not made:
        raise OSError(f"could not listen on {address}:{port} in the namespace {namespace}")
    return made[0]


def remove_namespaces(names):
    """Kill whatever runs in these network namespaces, this process apart, and remove them."""
    for name in names:
        if not (NAMESPACES / name).exists():
            continue
        pids = subprocess.run(["ip", "netns", "pids", name], stdout=subprocess.PIPE, text=True, check=True).stdout
        for pid in map(int, pids.split()):
            if pid != os.getpid():
                kill(pid)
        subprocess.run(["ip", "netns", "delete", name], check=True)


# Mounts


def own_mounts():
    """What this process mounts from now on is seen by it and its children alone, and goes with them."""
    _call("unshare", CLONE_NEWNS)
    _call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)


def mount_overlay(lower, folder):
    """Mount folder/root, which is lower with all changes kept in folder/upper."""
    for name in ("upper", "work", "root"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={lower},upperdir={folder}/upper,workdir={folder}/work"
    subprocess.run(["mount", "-t", "overlay", "-o", options, "overlay", folder / "root"], check=True)


def unmount_overlay(folder):
    subprocess.run(["umount", "--lazy", folder / "root"], check=True)


# Control groups


def unified_hierarchy():
    """Where control groups of version 2 are mounted: alone, or beside those of version 1."""
    for path in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")):
        if (path / "cgroup.controllers").exists():
            return path
    raise OSError("no control groups of version 2 are mounted under /sys/fs/cgroup")


def hierarchies():
    """The mounted hierarchies that systemd-nspawn uses."""
    named = Path("/sys/fs/cgroup/systemd")
    return [unified_hierarchy()] + ([named] if (named / "cgroup.procs").exists() else [])


class ControlGroup:
    """A control group of the same name in every hierarchy that systemd-nspawn uses."""

    def __init__(self, name):
        self.unified = unified_hierarchy() / name
        self.paths = [hierarchy / name for hierarchy in hierarchies()]

    def make(self):
        for path in self.paths:
            path.mkdir(parents=True, exist_ok=True)

    def enter(self):
        for path in self.paths:
            (path / "cgroup.procs").write_text("0")

    def freeze(self, frozen):
        (self.unified / "cgroup.freeze").write_text("1" if frozen else "0")

    def pids(self):
        pids = set()
        for path in self.paths:
            for listed in path.rglob("cgroup.procs"):
                try:
                    pids.update(map(int, listed.read_text().split()))
                except OSError as error:
                    # A guest that shuts down removes groups below its own meanwhile.
                    if error.errno not in (errno.ENOENT, errno.ENODEV):
                        raise
        return pids

    def kill(self):
        """Kill every process that is in it now. Also one that is frozen: SIGKILL reaches it."""
        for pid in self.pids():
            kill(pid)

    def empty(self):
        """Kill until none is left."""
        deadline = time.monotonic() + patient(20)
        while pids := self.pids():
            self.kill()
            if time.monotonic() > deadline:
                raise OSError(f"{self.unified}: processes {pids} do not end")
            time.sleep(0.02)

    def remove(self):
        for path in self.paths:
            for below in sorted(path.rglob("*/"), reverse=True):
                below.rmdir()
            if path.exists():
                path.rmdir()


def missing_programs():
    return [name for name in ("ip", "mmdebstrap", "nsenter", "ssh", "ssh-keygen", "systemd-nspawn") if not shutil.which(name)]
