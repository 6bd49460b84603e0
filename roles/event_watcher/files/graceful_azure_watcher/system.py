# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What depends on the system that it runs on: locks, the service manager, process groups, files that are there whole."""

from __future__ import annotations

import errno
import os
import signal
import socket
import stat
import time

from ansible_collections.graceful.azure.plugins.module_utils._file_systems import replace_by, sync_folder

try:
    import fcntl
except ImportError:  # another system
    fcntl = None


class Locked(Exception):
    """Another process has it."""


def lock(path):
    """An open file that nobody else can lock while any process has it open. Raises Locked if another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        _check_regular(descriptor, path)
        # Whatever the umask says: anybody may ask whether somebody has it.
        os.fchmod(descriptor, 0o644)
        _flock(descriptor)
    except BlockingIOError:
        os.close(descriptor)
        raise Locked(path) from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _flock(descriptor):
    # Who asks whether it is locked has it, too, for a moment.
    for _attempt in range(4):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(0.02)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_locked(path):
    """Whether some process has it; None where this user may not ask."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        return None
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def unlock(descriptor):
    """Give it back, also where a child of a child still has it open."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def notify(words):
    """A word to the service manager, if there is one: READY=1, WATCHDOG=1, STOPPING=1, ..."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.sendto(words.encode(), address)
    except OSError:
        # The manager is being replaced. It asks again by its own means.
        pass


def end_group(process, number=signal.SIGTERM):
    """Signal a child and all that it started."""
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        pass


# No file of the watcher's own has as much. Whoever else may write one must not fill its memory.
READ_LIMIT = 4 << 20


def _check_regular(descriptor, path):
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "It is not a regular file", path)


def read_regular(path):
    """The bytes of a file. Raises OSError if it cannot be read. What is not a regular file, such as a FIFO that nobody writes to, keeps nobody waiting."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    with open(descriptor, "rb") as stream:
        _check_regular(descriptor, path)
        data = stream.read(READ_LIMIT + 1)
    if len(data) > READ_LIMIT:
        raise OSError(errno.EFBIG, f"It has more than {READ_LIMIT >> 20} MB", path)
    return data


def write_whole(path, text, mode=0o644, durable=False):
    """The file is there with this text, or as it was before; ``durable``: also after the power has failed."""
    replace_by(f"{path}.new", path, text.encode(), lambda descriptor: os.fchmod(descriptor, mode), durable)
    if durable:
        sync_folder(os.path.dirname(path))
