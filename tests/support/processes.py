# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Processes: started in a folder and ended together, and what the kernel tells about those of others."""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import shutil
import signal
import subprocess
import time

from tests.support.patience import until

# Where programs lie, also those that are not on the PATH of everybody.
PATH = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"


def find_program(name):
    """The path of a program; None where there is none."""
    return shutil.which(name, path=PATH)


class Processes:
    """Starts processes and ends each of them again."""

    def __init__(self, folder):
        self.folder = folder
        self.running = {}  # and the signal that ends each
        # Should this program be killed without a chance to clean up, the kernel ends what it started.
        setpriv = shutil.which("setpriv")
        self.prefix = [setpriv, "--pdeathsig", "KILL"] if setpriv else []

    def start(self, name, *command, end_with=signal.SIGTERM, **options):
        """Starts a command; what it prints goes to the file NAME.log, standard output too unless told otherwise."""
        with open(self.folder / (name + ".log"), "ab") as log:
            options.setdefault("stdout", log)
            process = subprocess.Popen(self.prefix + [str(part) for part in command], stdin=subprocess.DEVNULL, stderr=log, start_new_session=True, **options)
        self.running[process] = end_with
        return process

    def stop(self, process, number=None, patience=5.0):
        """Ends one process, and what it started in turn."""
        self._await_end(process, self._tell(process, number), patience)
        return process.returncode

    def close(self, patience=5.0):
        """Ends all of them. All are told before any is waited for, so that together they take no longer than the slowest."""
        told = [(process, self._tell(process)) for process in reversed(list(self.running))]
        deadline = time.monotonic() + patience
        for process, offspring in told:
            self._await_end(process, offspring, max(0.1, deadline - time.monotonic()))

    def _tell(self, process, number=None):
        """Sends the signal that ends a process; returns what it has started so far."""
        offspring = descendants(process.pid)
        if process.poll() is None:
            process.send_signal(number or self.running.get(process, signal.SIGTERM))
            process.send_signal(signal.SIGCONT)
        return offspring

    def _await_end(self, process, offspring, patience):
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()
        for pid, started in offspring.items():
            if start_of(pid) == started:
                kill(pid)
        # Only now: if an interruption cuts this short, close() ends the process.
        self.running.pop(process, None)


def _stat(pid):
    """The fields of /proc/PID/stat that follow the name; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            return stream.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def start_of(pid):
    """When a process started, to tell it from a later one of the same id; None when it is gone."""
    fields = _stat(pid)
    return fields and fields[19]


def listens(pid):
    """Whether a process has a socket that takes connections."""
    inodes = set()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                inodes.add(os.readlink(f"/proc/{pid}/fd/{number}"))
        # Of TCP, the kernel looks through all places where a connection may be, which takes a hundred times as long.
        for table, state, inode, means in (("unix", 3, 6, "00010000"), ("tcp", 3, 9, "0A"), ("tcp6", 3, 9, "0A")):
            with open(f"/proc/{pid}/net/{table}", encoding="utf-8") as stream:
                rows = [line.split() for line in stream]
            if any(f"socket:[{row[inode]}]" in inodes for row in rows if len(row) > inode and row[state] == means):
                return True
    return False


def awaits_signal(pid, number):
    """Whether a process has a handler for a signal, and would run it now."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/status", encoding="utf-8") as stream:
        masks = dict(line.split(":", 1) for line in stream)
        return bool(int(masks["SigCgt"], 16) & ~int(masks["SigBlk"], 16) & 1 << number - 1)
    return False


def children(pid):
    """The processes that a process has started and that live."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as stream:
            return list(map(int, stream.read().split()))
    except OSError:
        return []


def command_of(pid):
    """The words of a process's command line, or the title that it has in their place; none when it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as stream:
            return [*filter(None, stream.read().rstrip("\0 ").split("\0"))]
    except OSError:
        return []


def commands():
    """The same of every process, by its id."""
    return {int(entry): command_of(entry) for entry in os.listdir("/proc") if entry.isdigit()}


def is_running(pid):
    """Whether a process is there and no zombie."""
    return (_stat(pid) or "Z")[0] != "Z"


def descendants(pid):
    """Every process below one, also those that made a session of their own, each with its start."""
    children = {}
    for entry in os.listdir("/proc"):
        fields = _stat(entry) if entry.isdigit() else None
        if fields:
            children.setdefault(int(fields[1]), []).append((int(entry), fields[19]))
    found = {}
    wanted = [pid]
    while wanted:
        for child, started in children.get(wanted.pop(), ()):
            found[child] = started
            wanted.append(child)
    return found


def marked(mark):
    """The processes whose environment has this text, however they were started: what a killed program left, too."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/environ", "rb") as stream:
                if mark.encode() in stream.read():
                    yield int(entry)


_SIZES = 200
"""How many marks a process has."""
_numbers = itertools.count()


def helpers(marks=None, forks=None):
    """The processes that answer for runs on this machine (C(module_utils/_helper.py)), and their forks, in the order of their starts.

    Their environment tells nothing. C(marks): limits on the size of message queues, one of which whoever started them had. C(forks): these alone, or
    none of them. Only a helper itself leads a session.
    """
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        # All tests ask, and few processes are helpers.
        with contextlib.suppress(OSError), open(f"/proc/{entry}/cmdline", "rb", buffering=0) as command:
            if command.read().startswith(b"graceful_azure") and (marks is None or _soft_limit(entry, "Max msgqueue size") in marks):
                # Only now: it may have ended since it was listed.
                state = _stat(entry) or "Z"
                if state[0] != "Z" and forks in (None, state[3] != entry):
                    found.append((int(state[19]), int(entry)))
    return [pid for _start, pid in sorted(found)]


def _soft_limit(pid, name):
    """A limit of a process; None if it has none, or has ended: the kernel then shows an empty file."""
    with open(f"/proc/{pid}/limits", encoding="utf-8") as limits:
        words = [line[len(name) :].split()[0] for line in limits if line.startswith(name)]
    return int(words[0]) if words and words[0].isdigit() else None


@contextlib.contextmanager
def marked_helpers(of_all=False):
    """While this lasts, the helpers that this process brings about can be told from others. Gives their marks; C(of_all): also those of other times."""
    before = resource.getrlimit(resource.RLIMIT_MSGQUEUE)
    first = (before[1] if before[1] > 0 else 10**6) - _SIZES * (os.getpid() % 4000 + 1)
    mark = first + next(_numbers) % _SIZES
    resource.setrlimit(resource.RLIMIT_MSGQUEUE, (mark, before[1]))
    try:
        yield range(first, first + _SIZES) if of_all else (mark,)
    finally:
        resource.setrlimit(resource.RLIMIT_MSGQUEUE, before)


def helper_folders(marks):
    """The folders in which these helpers listen. Those of helpers that live no more may be somebody else's, such as of a test that has killed one."""
    found = set()
    for pid in helpers(marks, forks=False):
        with contextlib.suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    found.add(os.readlink(f"/proc/{pid}/fd/{number}"))
    return {path for path in found if os.path.basename(path).startswith("graceful_azure-")}


def await_requests(seconds=30):
    """Until the helpers that this process has brought about answer no request. A run that is killed leaves them some that are half done."""
    mark = resource.getrlimit(resource.RLIMIT_MSGQUEUE)[0]
    until(lambda: not helpers((mark,), forks=True), seconds, "the end of all requests to helpers")


def forget_records(folder):
    """Remove a folder of records, if there is one, and let no request of a run that was killed write there afterwards."""
    await_requests()
    if os.path.exists(folder):
        shutil.rmtree(folder)


def cpu_seconds(pids):
    """What these processes have spent, with those that they waited for."""
    found = filter(None, map(_stat, pids))
    return sum(int(word) for fields in found for word in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def kill(pid, number=signal.SIGKILL):
    """Sends a signal to a process that may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


@contextlib.contextmanager
def frozen(*pids):
    """As long as this lasts, these processes do nothing."""
    for pid in pids:
        kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            kill(pid, signal.SIGCONT)


def kill_all(pid, number=signal.SIGKILL):
    """Sends a signal to a process and to everything below it."""
    if number == signal.SIGKILL:
        _stop_all(pid)
    # The process first: it must not see those below it die.
    for one in [pid, *descendants(pid)]:
        kill(one, number)


def _stop_all(pid, seconds=5.0):
    """Stops them all, so that none starts another one that nobody has seen."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        running = [one for one in (pid, *descendants(pid)) if (_stat(one) or "Z")[0] not in "TtZX"]
        if not running:
            return
        for one in running:
            kill(one, signal.SIGSTOP)
        time.sleep(0.001)
