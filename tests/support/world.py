# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A world under load: web servers behind a real HAProxy, the simulator, the load, and what happens to them.

Everything is a process on the loopback address, on ports that were free. Of the collection nothing here knows more than
the inventory. There are no threads: whoever uses the world calls tick() some twenty times a second, which looks at HAProxy and does what is due.
"""

from __future__ import annotations

import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

from tests.support import inventory, load
from tests.support.haproxy import AGE, Haproxy
from tests.support.patience import patient, until
from tests.support.ports import accepts
from tests.support.processes import Processes, find_program
from tests.support.simulator import Simulator, SimulatorError

BACKEND_PROGRAM = Path(load.__file__).with_name("backend.py")
# The same with a health answer that depends on a file.
PROBED_PROGRAM = BACKEND_PROGRAM.with_name("probed.py")

REQUESTS_PER_SECOND = 240
# HAProxy gives up on a server after 3 s and says so; a client that has heard nothing after 4 s has gone.
REQUEST_LIMIT = 4.0
TICK = 0.05

BACKEND = "web"

# As a careful administrator would write it. It is on the side of the run without the collection, too: connections that
# are refused are tried again on another server, and a dead server is noticed within two seconds.
CONFIGURATION = """\
global
    # The collection's way in: level admin, since it changes the state of servers.
    stats socket {{socket}} mode 600 level admin
    maxconn 4000

defaults
    mode http
    timeout connect 1s
    timeout client 30s
    # The slowest answer takes 2 s.
    timeout server 3s
    timeout http-keep-alive 30s
    retries 3
    option redispatch 1

frontend demo
    bind 127.0.0.1:{port}
    default_backend {backend}
    # Names the server that a request went to, in the answers that HAProxy gives in its place, too.
    http-after-response set-header X-Backend %[srv_name]

backend {backend}
    balance roundrobin
    option httpchk GET /
    # No pool of idle connections: all hosts of the world share one address, so that the pool's connections to a server
    # that is out could not be told from a user's. (pool-purge-delay at times keeps the last one for ever.)
    default-server check inter 1s fall 2 rise 2 pool-max-conn 0
"""


class WorldError(Exception):
    """The world could not be set up, or something of it has ended by itself; the text is for the user."""


def reserve_port():
    """A free port, kept for us by a socket that does not listen: connections to it are refused until a server does."""
    keeper = socket.socket()
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    keeper.bind(("127.0.0.1", 0))
    return keeper


class World:
    """Web servers, HAProxy, simulator and load; and a record of what happens to them.

    ``names`` are the hosts. ``adapt`` is given the text of HAProxy's configuration and returns the one that is used.
    """

    def __init__(self, folder, names, adapt=str):
        self.folder = Path(folder)
        self.names = list(names)
        self.adapt = adapt
        self.program = find_program("haproxy")
        if not self.program:
            raise WorldError("haproxy was not found on PATH or in /usr/sbin. On Debian and Ubuntu: apt-get install haproxy")
        self.processes = Processes(self.folder)
        # The name of a socket may have 107 characters, and HAProxy adds to it. A path in the build folder may be longer.
        short = len(tempfile.gettempdir()) <= 50
        self.socket_folder = Path(tempfile.mkdtemp(prefix="graceful-azure-", dir=None if short else "/tmp"))
        self.keepers = {}
        self.web = {}
        self.haproxy = None
        self.simulator = None
        self.load = None
        self.load_file = None
        self.due = []
        self.states = []
        self.impacts = []
        self.hit_by = set()

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()

    # Starting and ending

    def start(self):
        """Everything but the load."""
        for name in [*self.names, "haproxy"]:
            self.keepers[name] = reserve_port()
        for name in self.names:
            self.start_web(name)
        for name in self.names:
            self.await_port(name)
        start = self.processes.start
        self.start_balancer()
        self.await_port("haproxy")
        self.await_servers()
        try:
            self.simulator = Simulator(self.names, start=start)
        except SimulatorError as error:
            raise WorldError("{0} See {1}".format(error, self.folder / "simulator.log")) from error

    def start_balancer(self):
        """Whatever listens at the port of HAProxy."""
        try:
            proxy = {"program": self.program, "sockets": self.socket_folder, "start": self.processes.start, "age": AGE}
            self.haproxy = Haproxy(self.folder, whole=self.configuration(), **proxy)
        except AssertionError as error:
            raise WorldError("{0} See {1}".format(error, self.folder / "haproxy.log")) from error

    def configuration(self):
        text = CONFIGURATION.format(port=self.port("haproxy"), backend=BACKEND)
        return self.adapt(text + "".join("    server {0} 127.0.0.1:{1}\n".format(name, self.port(name)) for name in self.names))

    def write_inventory(self, path, variables=None, everybody=None):
        """``variables`` are more of the web servers', ``everybody`` are all machines'."""
        folder = self.folder
        hosts = {name: {**inventory.web_host(folder, name, self.simulator.urls[name], self.port(name)), **self.host_variables(name)} for name in self.names}
        balancers = {"balancer": inventory.state_dir(folder, "balancer")}
        return inventory.write_inventory(path, hosts, self.duties(), balancers, variables, inventory.LOCAL if everybody is None else everybody)

    def duties(self):
        """What every web server hands over."""
        return [inventory.behind_haproxy(self.haproxy.socket, ["balancer"])]

    def host_variables(self, name):
        """More variables of one web server."""
        return {}

    def close(self):
        self.processes.close()
        for keeper in self.keepers.values():
            keeper.close()
        shutil.rmtree(self.socket_folder, ignore_errors=True)

    def port(self, name):
        return self.keepers[name].getsockname()[1]

    def start_web(self, name):
        self.web[name] = self.processes.start(name, sys.executable, "-I", "-S", BACKEND_PROGRAM, "--name", name, "--port", self.port(name))

    def await_port(self, name):
        try:
            until(lambda: accepts(self.port(name)), 20, "it listens")
        except AssertionError as error:
            raise WorldError("{0} did not start: {1}. See {2}".format(name, error, self.folder / (name + ".log"))) from error

    def await_servers(self, seconds=20):
        """Waits until HAProxy has every server in service; what it had to wait for is for the caller to judge."""
        deadline = time.monotonic() + patient(seconds)
        while time.monotonic() < deadline:
            if all(server == ("ready", True) for server in self.observe().values()):
                return True
            time.sleep(TICK)
        return False

    # The load

    def start_load(self, name, rate=REQUESTS_PER_SECOND, port=None, **more):
        self.load_file = self.folder / (name + ".csv")
        port = self.port("haproxy") if port is None else port
        self.load = self.processes.start(name, *load.command(port, rate, REQUEST_LIMIT, self.load_file, **more))

    def load_reports(self, most):
        """What the load last said of itself, once a second: the time, and until then requests, failed, and the good answers of each backend."""
        return load.read_reports(self.load_file.with_suffix(".log"), most)

    def load_so_far(self):
        """What the load says of itself: requests and failed."""
        return (self.load_reports(2) or [{"requests": 0, "failed": 0}])[-1]

    def stop_load(self):
        """Lets the requests under way end; the records of all of them, as dicts."""
        if self.load.poll() is not None:
            raise WorldError("The load ended by itself. See {0}".format(self.load_file.with_suffix(".log")))
        self.processes.stop(self.load, patience=REQUEST_LIMIT + 5)
        return load.read_requests(self.load_file)

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
        """The end of an impact, unless another one of that host lasts longer."""
        impact["end"] = time.time()
        if any(other is not impact and other["host"] == impact["host"] and other["end"] > impact["end"] for other in self.impacts):
            return
        web = self.web[impact["host"]]
        if web.poll() is None:
            web.send_signal(signal.SIGCONT)
        else:
            self.start_web(impact["host"])

    def hit_started(self, events):
        """What the platform does to the hosts of those of the simulator's events that have started since."""
        for event in events:
            if event["EventId"] not in self.hit_by and any(step["Status"] == "Started" for step in event["History"]):
                self.hit_by.add(event["EventId"])
                for host in event["Resources"]:
                    self.hit(event["EventType"], host, event["ImpactSeconds"])

    def do_what_is_due(self):
        now = time.time()
        for item in [item for item in self.due if item[0] <= now]:
            self.due.remove(item)
            item[1](*item[2:])

    def observe(self):
        """Asks HAProxy for its servers, and records what changed."""
        servers = self.haproxy.states(BACKEND)
        if not self.states or self.states[-1][1] != servers:
            self.states.append((time.time(), servers))
        return servers

    def tick(self):
        """Does what is due and looks at HAProxy; the servers as it sees them."""
        self.do_what_is_due()
        return self.observe()

    def forget(self):
        """Begins a new record."""
        self.states = []
        self.impacts = []
