# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real HAProxy with a configuration and sockets of its own, and what it says of its servers."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import time
from typing import NamedTuple

from tests.support.patience import patient
from tests.support.processes import awaits_signal, descendants, listens

# The program under test: another one than the machine's where tests/matrix says so.
PROGRAM = os.environ.get("GRACEFUL_AZURE_HAPROXY", "haproxy")
# Its name in this test's process. A process that listens no more may be a former one of every HAProxy of its name, also of those that other tests run.
NAME = "haproxy-%d" % os.getpid()
START_SECONDS = 20
# Younger files need not be those that the process has loaded (OLDER in module_utils/_haproxy_configuration.py), and its start is told up to a second too early.
AGE = 3.1

GLOBAL = """\
global
  stats socket {folder}/admin.sock level admin mode 600
  stats socket {folder}/operator.sock level operator mode 600
  stats socket {folder}/user.sock level user mode 600
{more}
defaults
  mode http
  timeout connect 2s
  timeout client 10m
  timeout server 10m
  timeout queue 60s
"""


class Server(NamedTuple):
    """What HAProxy says of one server."""

    admin: str  # ready, drain or maint
    up: bool  # what the health check says


# Bits of srv_admin_state in the answer to "show servers state".
MAINTENANCE = 0x01 | 0x02 | 0x04 | 0x20 | 0x40
DRAIN = 0x08 | 0x10


@contextlib.contextmanager
def starting(folder, sections):
    """A function that starts a HAProxy with these sections, or others, in a folder of its own. All end with the block.

    With ``second`` it has a second socket, second.sock in its folder.
    """
    with contextlib.ExitStack() as stack:
        numbers = itertools.count()

        def start(sections=sections, more="", second=False, **how):
            own = folder / f"haproxy{next(numbers)}"
            own.mkdir()
            haproxy = Haproxy(own, sections, more + (f"  stats socket {own}/second.sock level admin\n" if second else ""), **how)
            stack.callback(haproxy.stop)
            return haproxy

        yield start


def read_state(text, backend):
    """The servers of a backend in the answer to "show servers state": a dict of name and Server."""
    servers = {}
    for row in rows_of(text):
        if row["be_name"] == backend:
            bits = int(row["srv_admin_state"])
            admin = "maint" if bits & MAINTENANCE else "drain" if bits & DRAIN else "ready"
            servers[row["srv_name"]] = Server(admin, row["srv_op_state"] != "0")
    return servers


def rows_of(text):
    """The lines of the answer to "show servers state", each with the names of its columns."""
    columns = []
    for line in text.splitlines():
        if line.startswith("# "):
            columns = line[2:].split()
        elif columns and line.strip():
            yield dict(zip(columns, line.split()))


class Haproxy:
    """HAProxy in the foreground. ``sections`` is the configuration below the defaults, ``more`` goes into global, ``program`` is what runs.

    ``whole`` is a configuration in place of all that, with a socket whose path it names as ``{socket}``. It lies in the folder
    ``sockets``, where that is another one: the path of a socket may have 107 characters, and HAProxy adds to it.
    ``master`` runs it under a master: True, or "socket" for one with a socket of its own.
    ``start`` starts a process as Processes.start does. Whoever gives that ends the process, too.
    ``age`` is how old the configuration is when HAProxy starts, in seconds: with AGE it counts as loaded.
    """

    def __init__(self, folder, sections="", more="", master=False, program=None, whole=None, sockets=None, start=None, age=0.0):
        self.folder = folder
        self._program = str(program or self._named())
        self._whole = whole
        self._start_process = start or self._popen
        self.socket = str((sockets or folder) / "admin.sock")
        self.operator_socket = str(folder / "operator.sock")
        self.user_socket = str(folder / "user.sock")
        self._configuration = folder / "haproxy.cfg"
        self._log = folder / "haproxy.log"
        self._master = master
        self._mode = ["-W", "-S", f"{folder}/master.sock,mode,600"] if master == "socket" else ["-W"] if master else ["-db"]
        self._processes = []
        self.configure(sections, more)
        time.sleep(age)
        self.start()

    def configure(self, sections, more=""):
        text = GLOBAL.format(folder=self.folder, more=more) + sections if self._whole is None else self._whole.replace("{socket}", self.socket)
        self._configuration.write_text(text)

    def _named(self):
        link = self.folder / NAME
        with contextlib.suppress(FileExistsError):
            link.symlink_to(shutil.which(PROGRAM) or PROGRAM)
        return link

    def start(self, *arguments):
        """Start a process; with ``-sf`` it takes over from the one that runs."""
        before = self._pid()
        command = [self._program, "-f", str(self._configuration), *self._mode, *arguments]
        self._processes.append(self._start_process("haproxy", *command))
        self._await(lambda: self._pid() not in (None, before))
        self._settle(*(int(word) for word in arguments if word.isdigit()))

    def _popen(self, _name, *command):
        with self._log.open("ab") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def reload(self):
        before = self._pid()
        if self._master:
            self._processes[-1].send_signal(signal.SIGUSR2)
            self._await(lambda: self._pid() not in (None, before))
            self._settle(before)
        else:
            self.start("-sf", str(before))

    def stop(self):
        """Stop every process, those of former reloads too."""
        for process in self._processes:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(patient(5))
        self._processes.clear()

    def restart(self):
        self.stop()
        self.start()

    def ask(self, line, path=None):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(patient(5))
            connection.connect(path or self.socket)
            connection.sendall(line.encode() + b"\n")
            answer = b""
            while True:
                piece = connection.recv(1 << 16)
                if not piece:
                    return answer.decode()
                answer += piece

    def states(self, backend):
        """Every server of a backend: a dict of name and Server."""
        return read_state(self.ask(f"show servers state {backend}"), backend)

    def flags(self, backend, server):
        """(srv_admin_state, srv_uweight) as HAProxy itself shows them."""
        return {(one[0], one[1]): one[2:] for one in self.servers()}[backend, server]

    def servers(self):
        """(backend, server, srv_admin_state, srv_uweight) of all of them."""
        rows = rows_of(self.ask("show servers state"))
        return [(row["be_name"], row["srv_name"], int(row["srv_admin_state"]), int(row["srv_uweight"])) for row in rows]

    def stat(self, proxy, name, column):
        """A column of the line in the answer to "show stat" that is about a server, or FRONTEND or BACKEND."""
        columns, *rows = (line.split(",") for line in self.ask("show stat").lstrip("# ").splitlines())
        return next(row[columns.index(column)] for row in rows if row[:2] == [proxy, name])

    def _pid(self):
        with contextlib.suppress(OSError):
            for line in self.ask("show info").splitlines():
                if line.startswith("Pid:"):
                    return int(line.split()[1])
        return None

    def _settle(self, *formers):
        """Wait until the former processes take no more clients, and a master the next signal."""
        for former in formers:
            self._await(lambda pid=former: not listens(pid))
        # While the master still loads, a signal would be lost. Not every version says when it is done.
        if self._master:
            top = self._processes[-1].pid
            self._await(lambda: any(awaits_signal(pid, signal.SIGUSR2) for pid in [top, *descendants(top)]))
            time.sleep(0.1)

    def _await(self, condition):
        deadline = time.monotonic() + patient(START_SECONDS)
        while not condition():
            died = self._processes[-1].poll() if self._processes else None
            if died or time.monotonic() > deadline:
                self.stop()
                raise AssertionError("HAProxy did not come up: " + self._log.read_text())
            time.sleep(0.01)
