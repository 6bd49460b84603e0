# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The demo's test bed: web servers behind a real HAProxy, the simulator, the load, and what happens to them.

Everything is a process on the loopback address, on ports that were free. Nothing here knows the collection. There are
no threads: whoever uses the bed calls tick() some twenty times a second, which looks at HAProxy and does what is due.
"""

from __future__ import annotations

import contextlib
import csv
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

from tests.demo import balancer

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
SIMULATOR = ROOT / "roles" / "imds_simulator" / "files" / "imds_simulator.py"

REQUESTS_PER_SECOND = 240
# HAProxy gives up on a server after 3 s and says so; a client that has heard nothing after 4 s has gone.
REQUEST_LIMIT = 4.0
TICK = 0.05


class BedError(Exception):
    """The bed could not be set up; the text is for the user."""


def reserve_port():
    """A free port, kept for us by a socket that does not listen: connections to it are refused until a server does."""
    keeper = socket.socket()
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    keeper.bind(("127.0.0.1", 0))
    return keeper


def find_program(name, hint):
    path = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"]))
    if not path:
        raise BedError("{0} was not found on PATH or in /usr/sbin. {1}".format(name, hint))
    return path


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
        for pid, started in offspring:
            if start_of(pid) == started:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        # Only now: if an interruption cuts this short, close() ends the process.
        self.running.pop(process, None)


def start_of(pid):
    """When a process started, to tell it from a later one of the same id; None when it is gone."""
    try:
        with open("/proc/{0}/stat".format(pid), encoding="utf-8", errors="replace") as stream:
            return stream.read().rpartition(")")[2].split()[19]
    except (FileNotFoundError, ProcessLookupError):
        return None


def descendants(pid):
    """The processes that a process started and that those started, with their start: [(pid, start)]."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open("/proc/{0}/stat".format(entry), encoding="utf-8", errors="replace") as stream:
                    fields = stream.read().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(int(fields[1]), []).append((int(entry), fields[19]))
    found = []
    wanted = [pid]
    while wanted:
        for child in children.get(wanted.pop(), []):
            found.append(child)
            wanted.append(child[0])
    return found


class Bed:
    """Web servers, HAProxy, simulator and load; and a record of what happens to them."""

    def __init__(self, folder, names):
        self.folder = Path(folder)
        self.names = list(names)
        self.haproxy = find_program("haproxy", "On Debian and Ubuntu: apt-get install haproxy")
        self.processes = Processes(self.folder)
        # The name of a socket may have 107 characters, and HAProxy adds to it. A path in the build folder may be longer.
        short = len(tempfile.gettempdir()) <= 50
        self.socket_folder = Path(tempfile.mkdtemp(prefix="graceful-azure-", dir=None if short else "/tmp"))
        self.socket = str(self.socket_folder / "admin.sock")
        self.keepers = {}
        self.web = {}
        self.load = None
        self.load_file = None
        self.simulator = None
        self.urls = {}
        self.control = None
        self.line_to_simulator = None
        self.due = []
        self.states = []
        self.impacts = []

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()

    # Starting and ending

    def start(self):
        for name in [*self.names, "haproxy"]:
            self.keepers[name] = reserve_port()
        for name in self.names:
            self.start_web(name)
        for name in self.names:
            self.await_port(name)
        path = self.folder / "haproxy.cfg"
        path.write_text(self.configuration(), encoding="utf-8")
        self.processes.start("haproxy", self.haproxy, "-db", "-f", path)
        self.await_port("haproxy")
        self.await_socket()
        self.await_servers()

    def configuration(self):
        return balancer.configuration(self.socket, self.port("haproxy"), {name: self.port(name) for name in self.names})

    def close(self):
        self.processes.close()
        for keeper in self.keepers.values():
            keeper.close()
        shutil.rmtree(self.socket_folder, ignore_errors=True)

    def port(self, name):
        return self.keepers[name].getsockname()[1]

    def start_web(self, name):
        self.web[name] = self.processes.start(name, sys.executable, "-I", "-S", HERE / "backend.py", "--name", name, "--port", self.port(name))

    def await_port(self, name):
        deadline = time.monotonic() + 20
        trouble = "it does not listen"
        while time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", self.port(name)), 1) as connection:
                    # To a port that nobody listens on yet, a socket may get connected with itself.
                    if connection.getsockname() != connection.getpeername():
                        return
            except OSError as error:
                trouble = error
            time.sleep(0.05)
        raise BedError("{0} did not start: {1}. See {2}".format(name, trouble, self.folder / (name + ".log")))

    def await_socket(self):
        """HAProxy gives its socket the right name, and listens there, a moment after it listens on its ports."""
        deadline = time.monotonic() + 20
        while True:
            try:
                balancer.ask(self.socket, "show info")
                return
            except (FileNotFoundError, ConnectionRefusedError):
                if time.monotonic() > deadline:
                    raise BedError("HAProxy does not answer on its socket. See {0}".format(self.folder / "haproxy.log")) from None
            time.sleep(TICK)

    def await_servers(self, seconds=20):
        """Waits until HAProxy has every server in service; what it had to wait for is for the caller to judge."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if all(server == ("ready", True) for server in self.observe().values()):
                return True
            time.sleep(TICK)
        return False

    # The simulator

    def start_simulator(self):
        """One process, the metadata service of every VM; sets urls (a dict of name and URL) and control."""
        command = [sys.executable, SIMULATOR, "--control", "127.0.0.1:0"]
        for name in self.names:
            command += ["--vm", name + "=127.0.0.1:0"]
        self.simulator = self.processes.start("simulator", *command, stdout=subprocess.PIPE)
        line = self.simulator.stdout.readline()
        if not line:
            raise BedError("The simulator did not start. See {0}".format(self.folder / "simulator.log"))
        told = json.loads(line)
        self.urls, self.control = told["vms"], told["control"]

    def ask_simulator(self, path, body=None, method=None):
        """One request to the simulator's control address, and its answer."""
        if self.line_to_simulator is None:
            self.line_to_simulator = http.client.HTTPConnection(urllib.parse.urlsplit(self.control).netloc, timeout=10)
        data = None if body is None else json.dumps(body)
        verb = method or ("GET" if data is None else "POST")
        for attempt in (1, 2):
            try:
                self.line_to_simulator.request(verb, path, data, {"Content-Type": "application/json"})
                answer = self.line_to_simulator.getresponse()
                told = json.loads(answer.read() or b"null")
                break
            except (OSError, http.client.HTTPException) as error:
                self.line_to_simulator.close()
                # A connection that was idle for long may have been closed at the other end.
                if attempt == 2 or not isinstance(error, (ConnectionError, http.client.RemoteDisconnected)):
                    raise BedError("The simulator does not answer: {0!r}. See {1}".format(error, self.folder / "simulator.log")) from error
        if answer.status >= 300:
            raise BedError("The simulator answers {0} to {1}: {2}".format(answer.status, path, told))
        return told

    # The load

    def start_load(self, name, rate=REQUESTS_PER_SECOND):
        self.load_file = self.folder / (name + ".csv")
        self.load = self.processes.start(
            name,
            *(sys.executable, "-I", "-S", HERE / "load.py", "--port", self.port("haproxy"), "--rate", rate),
            *("--limit", REQUEST_LIMIT, "--records", self.load_file),
        )

    def load_so_far(self):
        """What the load says of itself: requests and failed."""
        lines = (self.load_file.with_suffix(".log")).read_text(encoding="utf-8").splitlines()
        return json.loads(lines[-1]) if lines else {"requests": 0, "failed": 0}

    def stop_load(self):
        """Lets the requests under way end; the records of all of them, as dicts."""
        if self.load.poll() is not None:
            raise BedError("The load ended by itself. See {0}".format(self.load_file.with_suffix(".log")))
        self.processes.stop(self.load, patience=REQUEST_LIMIT + 5)
        return read_requests(self.load_file)

    # What happens to the servers

    def hit(self, event_type, name, seconds):
        """What the platform does to a VM: Freeze stops its server for so long, everything else kills and restarts it."""
        now = time.time()
        self.impacts.append({"host": name, "type": event_type, "begin": now, "end": now + seconds})
        impact = self.impacts[-1]
        if event_type == "Freeze":
            self.web[name].send_signal(signal.SIGSTOP)
        else:
            self.processes.stop(self.web[name], signal.SIGKILL)
        self.due.append((now + seconds, self.recover, impact))

    def recover(self, impact):
        impact["end"] = time.time()
        if impact["type"] == "Freeze":
            self.web[impact["host"]].send_signal(signal.SIGCONT)
        else:
            self.start_web(impact["host"])

    def observe(self):
        """Asks HAProxy for its servers, and records what changed."""
        servers = balancer.read_state(balancer.ask(self.socket, "show servers state " + balancer.BACKEND))
        if not self.states or self.states[-1][1] != servers:
            self.states.append((time.time(), servers))
        return servers

    def tick(self):
        """Does what is due and looks at HAProxy; the servers as it sees them."""
        now = time.time()
        for item in [item for item in self.due if item[0] <= now]:
            self.due.remove(item)
            item[1](*item[2:])
        return self.observe()

    def forget(self):
        """Begins a new record."""
        self.states = []
        self.impacts = []


def read_requests(path):
    """The records that the load wrote: a list of dicts."""
    with open(path, encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        row["start"] = float(row["start"])
        row["seconds"] = float(row["seconds"])
    return rows
