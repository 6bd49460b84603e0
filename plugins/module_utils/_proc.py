# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the kernel tells of processes, read from its files.

``proc`` is the folder of these files. What cannot be read is empty or None: a process may end at any moment, and may belong to another user.
"""

from __future__ import annotations

import errno
import os
import re

# How many symbolic links a path may have, as in the kernel.
LINKS = 40

# The state of a Unix socket that was accepted.
CONNECTED_UNIX = "03"

# States of a process that has ended, although the kernel still lists it.
ENDED = ("Z", "X")


def read(*parts: object) -> str:
    """The text of one of these files. The parts are joined to its path."""
    try:
        with open("/".join(map(str, parts)), "rb") as stream:
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def process_ids(proc: str = "/proc") -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(proc) if name.isdigit())
    except OSError:  # no Linux
        return []


def read_boot_id(proc: str = "/proc") -> str:
    """Which boot of the machine this is; empty if the machine does not tell it."""
    return read(proc, "sys", "kernel", "random", "boot_id").strip()


def program(pid: int | str, proc: str = "/proc") -> str:
    """The name of the program that a process runs."""
    return read(proc, pid, "comm").strip()


def command_line(pid: int | str, proc: str) -> list[str]:
    return read(proc, pid, "cmdline").split("\0")


def stat_fields(pid: int | str, proc: str) -> list[str]:
    """The fields of a process in ``stat`` after its name: its state, its parent, and so on."""
    # The name, in brackets, may have spaces and brackets of its own.
    return read(proc, pid, "stat").rpartition(")")[2].split()


def has_ended(pid: int | str, proc: str = "/proc") -> bool:
    """Whether a process does not run any more, also if the kernel still lists it."""
    fields = stat_fields(pid, proc)
    return not fields or fields[0] in ENDED


def parent(pid: int | str, proc: str = "/proc") -> int | None:
    fields = stat_fields(pid, proc)
    return int(fields[1]) if fields else None


def started_ticks(pid: int, proc: str = "/proc") -> int | None:
    """When a process started, in ticks since the machine booted; None if it does not run."""
    fields = stat_fields(pid, proc)
    return int(fields[19]) if len(fields) > 19 and fields[0] not in ENDED else None


def started_at(pid: int, proc: str = "/proc") -> float | None:
    """When a process started, in seconds since 1970 by the present clock, to a second; None if it does not run."""
    ticks, boot = started_ticks(pid, proc), re.search(r"^btime (\d+)$", read(proc, "stat"), re.MULTILINE)
    return None if ticks is None or boot is None else int(boot.group(1)) + ticks / os.sysconf("SC_CLK_TCK")


def identity(pid: int, proc: str = "/proc") -> str | None:
    """What tells a process from every other that ever had its id: its start, to a tick, and the boot of the machine. None if it does not run."""
    ticks = started_ticks(pid, proc)
    return None if ticks is None else "%d/%d/%s" % (pid, ticks, read_boot_id(proc))


def status_field(pid: int | str, field: str, proc: str) -> str:
    """A field of a process in ``status``; empty if it is not there."""
    match = re.search(r"^%s:\s*(.*)$" % field, read(proc, pid, "status"), re.MULTILINE)
    return match.group(1) if match else ""


def chosen_ports(proc: str) -> range | None:
    """The ports from which the kernel chooses that of a connection, if the program does not. None if the kernel does not tell them."""
    bounds = read(proc, "sys", "net", "ipv4", "ip_local_port_range").split()
    return range(int(bounds[0]), int(bounds[1]) + 1) if len(bounds) == 2 else None


def namespace(pid: int | str, kind: str, proc: str) -> str | None:
    """An id of a namespace of a process, such as that of its network (``net``) or its file systems (``mnt``)."""
    try:
        return os.readlink(os.path.join(proc, str(pid), "ns", kind))
    except OSError:
        return None


def path_through_root(pid: int | str, path: str, proc: str = "/proc") -> str:
    """The path by which we reach what a process has at an absolute path. The process may have other mounts, or another root.

    A symbolic link in the path leads to where the process would get. If the kernel followed it from here, it would lead to our own files.
    """
    root = os.path.join(proc, str(pid), "root")
    found, todo, links = "", path.split("/"), 0
    while todo:
        part = todo.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            found = os.path.dirname(found).rstrip("/")
            continue
        try:
            target = os.readlink("%s%s/%s" % (root, found, part))
        except PermissionError:
            raise
        except OSError:  # no link, or not there
            found += "/" + part
            continue
        links += 1
        if links > LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if target.startswith("/"):
            found = ""
        todo = target.split("/") + todo
    return root + (found or "/")


def has_same_file(pid: int | str, path: str, proc: str = "/proc") -> bool | None:
    """Whether a process has the same file or folder as we have at an absolute path. None if we may not look: only root may look at every process.

    A unit of systemd has mounts of its own with settings such as C(PrivateTmp), so that another namespace does not mean other files. A container has
    other files.
    """
    try:
        return os.path.samestat(os.stat(path_through_root(pid, path, proc)), os.stat(path))
    except PermissionError:
        return None
    except OSError:
        return False


def unix_sockets(pid: int, proc: str) -> list[list[str]]:
    """The fields of each Unix socket of the network of a process. The flags are the fourth, type, state and inode follow, and the last is its path, if it has
    one: an end that was accepted has that of the socket that listens, and the end that connected has none."""
    lines = (line.split(None, 7) for line in read(proc, pid, "net", "unix").splitlines()[1:])
    return [fields for fields in lines if len(fields) > 6]


def socket_inodes(pid: int, proc: str) -> set[str] | None:
    """The inodes of the open sockets of a process; None if they may not be listed. A process that has ended has none."""
    folder = os.path.join(proc, str(pid), "fd")
    inodes = set()
    try:
        for name in os.listdir(folder):
            try:
                found = re.match(r"socket:\[(\d+)\]", os.readlink(os.path.join(folder, name)))
            except FileNotFoundError:  # closed meanwhile
                continue
            if found:
                inodes.add(found.group(1))
    except (FileNotFoundError, ProcessLookupError):
        return set()
    except OSError:
        return None
    return inodes
