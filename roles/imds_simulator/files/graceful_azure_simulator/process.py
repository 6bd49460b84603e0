# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The process itself: threads, signals, open files, and its life in the background with a pid file."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading

from .output import announce
from .refusals import Refused


def in_background(act, *arguments):
    """Runs a function in a thread of its own, which does not keep the process from ending."""
    threading.Thread(target=act, args=arguments, daemon=True).start()


def keep_standard_streams_taken():
    """Opens what is closed of the three standard streams, so that no socket gets their numbers."""
    free = os.open(os.devnull, os.O_RDWR)
    while free <= 2:
        free = os.open(os.devnull, os.O_RDWR)
    os.close(free)


def ended_by_signals():
    """A pipe from which a byte can be read once SIGTERM or SIGINT has come, at any moment and in any thread."""
    ending, end = os.pipe()
    os.set_blocking(end, False)
    signal.set_wakeup_fd(end, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_arguments: None)
    return ending


def allow_files(count):
    """Raises the limit of open files, as far as the system allows."""
    try:
        import resource  # not on every system
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        count = min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def lock_pid_file(path):
    """The pid file, open and locked. The process whose number it has holds the lock as long as it lives."""
    import fcntl  # not on every system, as fork is not

    while True:
        pid_file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(pid_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(f"--background {os.path.dirname(path)}: process {os.read(pid_file, 20).decode().strip()} runs with this directory already.") from None
        # A simulator that was just ending may have removed it.
        if is_at(pid_file, path):
            return pid_file
        os.close(pid_file)


def is_at(file, path):
    """Whether an open file is the one that lies at that path."""
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(file), os.stat(path))
    return False


def go_to_background(directory, line):
    """Lets a child process go on, while this one prints the line and ends. The child gets the locked pid file and its path."""
    path = os.path.join(directory, "imds_simulator.pid")
    try:
        log = os.open(os.path.join(directory, "imds_simulator.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        pid_file = lock_pid_file(path)
        pid = os.fork()
        if pid:
            os.ftruncate(pid_file, 0)
            os.write(pid_file, b"%d\n" % pid)
    except OSError as error:
        raise Refused(f"--background {directory}: {error.strerror}") from None
    if pid:
        announce(line)
        sys.exit(0)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for new, old in ((nothing, 0), (nothing, 1), (log, 2)):
        os.dup2(new, old)
    return pid_file, path
