# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What sends traffic to the hosts of a run, one world for each provider, and what the observer is told of it.

Each look says of every host whether it can get new requests, as the programs themselves tell: HAProxy's state, the file and the processes of nginx,
the pool in Azure. Nothing here is code of the collection, nor asks it.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
import subprocess
import sys
import time
from urllib.parse import urlsplit

from tests.chaos.observer import read_balancer, read_log
from tests.support import azure
from tests.support.haproxy import Haproxy
from tests.support.nginx import Nginx as NginxProgram
from tests.support.ports import free_port
from tests.support.processes import start_of
from tests.support.windows import mixed
from tests.support.windows.inventory import fetch_collections
from tests.support.windows.inventory import surroundings as of_windows
from tests.support.world import BACKEND, PROBED_PROGRAM, World, reserve_port

# What the collection has no business with: these servers lead to no host of the world. Nobody connects to them.
OTHERS = """
backend others
    server spare 127.0.0.1:9 weight 7
    server parked 127.0.0.1:9 weight 3 disabled
"""

# HAProxy's own word on every request, when it has come to its end.
LOG = """\
    option dontlognull
    log stdout format raw local0
    log-format "request %s %Ts.%ms %Ti %Ta %ST"
"""

# A balancer of connections. It gets no command of the collection's: it probes the hosts, or the follower of Azure's pool tells it.
CONNECTIONS = """\
global
    # Of two threads that write at once one gives its line up, and the log is a witness.
    nbthread 1
    stats socket {{socket}} mode 600 level admin
    maxconn 4000

defaults
    mode tcp
    timeout connect 1s
    timeout client 30s
    timeout server 30s
    retries 3
    option redispatch 1

frontend demo
    bind 127.0.0.1:{port}
    default_backend {backend}
    log stdout format raw local0
    log-format "connection %s %Ts.%ms %Tt %ts"

backend {backend}
    balance roundrobin
    option httpchk GET /health
    default-server inter 500ms fall 2 rise 2
"""

NGINX = """\
  log_format seen '$upstream_addr $msec $request_time $status';
  upstream {backend} {{
{servers}  }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    keepalive_timeout 30s;
    access_log {log} seen;
    location / {{
      proxy_pass http://{backend};
      proxy_connect_timeout 1s;
      proxy_read_timeout 3s;
    }}
  }}
"""

# The health_probe figures of the balancer above.
PROBE = {"interval": 0.5, "threshold": 2, "margin": 1}


def watched(configuration):
    """HAProxy's configuration with the log, and the others."""
    logging = configuration.replace("frontend demo\n", "frontend demo\n" + LOG)
    # Of two threads that write at once one gives its line up, and the log is a witness.
    return logging.replace("global\n", "global\n    nbthread 1\n") + OTHERS


def read_connections(text):
    """The connections in the output of a HAProxy that balances connections. One that HAProxy or the server broke off has failed."""
    rows = []
    for line in text.splitlines():
        if line.startswith("connection "):
            _word, server, accepted, milliseconds, ended = line.split()
            well = server != "<NOSRV>" and ended[0] in "-Cc"
            rows.append({"backend": server, "start": float(accepted), "seconds": int(milliseconds) / 1000, "status": 200 if well else 503})
    return rows


class Front(World):
    """HAProxy with a runtime socket, which the provider haproxy changes."""

    balancer = "HAProxy"
    # Whether a row of its log is a request, and not a connection with perhaps several.
    of_requests = True
    # The connections of clients that lose no request.
    promised = ("new", "kept")

    def __init__(self, folder, names):
        super().__init__(folder, names, adapt=watched)

    def environment(self):
        """More of the controller's environment."""
        return {}

    def look(self):
        """Every host's state for a sample, and what must come back."""
        return read_balancer(self.haproxy.ask("show servers state; show stat"))

    def rows(self):
        """The rows of the balancer's log."""
        return read_log((self.folder / "haproxy.log").read_text(encoding="utf-8"))

    def left(self):
        """What must not be there at the end, besides records."""
        return []


class Nginx(Front):
    """nginx, which says nothing of its servers: a host is out when all workers that serve have read a file in which it is down."""

    balancer = "nginx"
    # A reload closes idle connections of clients, and a request may just be on its way.
    promised = ("new",)
    door = None

    def start_balancer(self):
        folder = self.folder / "nginx"
        folder.mkdir()
        servers = "".join(f"    server 127.0.0.1:{self.port(name)}; # {name}\n" for name in self.names)
        log = self.folder / "requests.log"
        self.nginx = NginxProgram(folder, http=NGINX.format(backend=BACKEND, servers=servers, port=self.port("haproxy"), log=log), start=self.processes.start)
        self.out = set()

    def port(self, name):
        # nginx takes no port that another socket keeps.
        if name == "haproxy":
            self.door = self.door or free_port()
            return self.door
        return super().port(name)

    def observe(self):
        return {}

    def duties(self):
        server = "127.0.0.1:{{ graceful_azure_ports[0] }}"
        return [{"type": "nginx", "hosts": ["balancer"], "configuration": str(self.nginx.configuration), "server": server}]

    def look(self):
        with self.nginx.configuration.open(encoding="utf-8") as stream:
            text = stream.read()
            changed = os.fstat(stream.fileno()).st_mtime
        started = self._serving_since()
        for name in self.names if started else ():
            if re.search(rf"server 127\.0\.0\.1:{self.port(name)}\b[^;]*\bdown\b", text):
                if min(started) >= changed:
                    self.out.add(name)
            elif max(started) >= changed:
                self.out.discard(name)
        sample = {f"{BACKEND}/{name}": ["out" if name in self.out else "ready", True, 1, 0] for name in self.names}
        lasting = {key: [admin, weight, None] for key, (admin, _up, weight, _busy) in sample.items()}
        return sample, {**lasting, "nginx.conf": text, "its mode": self.nginx.configuration.stat().st_mode}

    def _serving_since(self):
        """When the workers started that are not shutting down."""
        boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        started = filter(None, map(start_of, self.nginx.workers()))
        return [boot + int(at) / os.sysconf("SC_CLK_TCK") for at in started]

    def rows(self):
        hosts = {f"127.0.0.1:{self.port(name)}": name for name in self.names}
        found = []
        for line in (self.folder / "requests.log").read_text(encoding="utf-8").splitlines():
            # Of several servers that were tried, the last has answered.
            *_tried, server, ended, seconds, status = line.replace(",", "").split()
            row = {"backend": hosts.get(server, ""), "start": float(ended) - float(seconds), "seconds": float(seconds), "status": int(status)}
            # The client had gone: that is told by the load.
            found.append(dict(row, status=200 if row["status"] == 499 else row["status"]))
        return found

    def left(self):
        return [f"file {path.name}" for path in self.nginx.configuration.parent.glob(".*graceful*")]


class Probe(Front):
    """A balancer of connections that probes the hosts, which the provider health_probe lets fail."""

    of_requests = False

    def start(self):
        for name in self.names:
            self.keepers[f"{name} probe"] = reserve_port()
        super().start()

    def start_web(self, name):
        words = ("--name", name, "--port", self.port(name), "--probe-port", self.port(f"{name} probe"), "--file", self.file(name))
        self.web[name] = self.processes.start(name, sys.executable, "-I", "-S", PROBED_PROGRAM, *words)

    def file(self, name):
        return self.folder / f"{name}-health"

    def configuration(self):
        return self.connections(self.port("haproxy"))

    def connections(self, port):
        servers = "".join(f"    server {name} 127.0.0.1:{self.port(name)} check port {self.port(f'{name} probe')}\n" for name in self.names)
        return CONNECTIONS.format(port=port, backend=BACKEND) + servers

    def duties(self):
        file, url = str(self.folder / "{{ inventory_hostname }}-health"), "http://127.0.0.1:{{ probe_port }}/health"
        # The ports of their probes differ, so the settings do not tell that they are one pool.
        return [{"type": "health_probe", "pool": BACKEND, "action": "file", "file": file, "url": url, **PROBE}]

    def host_variables(self, name):
        return {"probe_port": self.port(f"{name} probe")}

    def look(self):
        return self.look_at(self.haproxy)

    def look_at(self, haproxy):
        """A host is out when its health answer fails and the balancer has noticed."""
        sample, lasting = read_balancer(haproxy.ask("show servers state; show stat"))
        for name in self.names:
            found = sample[f"{BACKEND}/{name}"]
            fails = self.file(name).exists()
            found[0] = "out" if fails and not found[1] else "ready"
            lasting[f"health file of {name}"] = fails
        return sample, lasting

    def rows(self):
        return read_connections((self.folder / "haproxy.log").read_text(encoding="utf-8"))


class Azure(Probe):
    """The stand-in for Azure, and a balancer of connections that follows the pool: an address that is Down gets no new connection."""

    balancer = "the balancer of Azure's pool"
    STATES = (None, "None", "Up")

    def start_balancer(self):
        members = []
        for number, name in enumerate(self.names):
            state = self.STATES[number % len(self.STATES)]
            members.append(azure.member(name, f"10.0.0.{number + 4}", **({"adminState": state} if state else {})))
        command = azure.command(self.folder, resources=[azure.balancer(members)])
        self.azure = azure.Process(self.processes.start("azure", *command, stdout=subprocess.PIPE, text=True))
        self.line = http.client.HTTPSConnection(urlsplit(self.azure.url).netloc, context=ssl.create_default_context(cafile=self.azure.ca_file), timeout=10)
        self.followed = {}
        super().start_balancer()
        for member in members:
            if member["properties"].get("adminState") == "Up":
                # Azure does not ask the probe.
                self.haproxy.ask(f"disable health {BACKEND}/{member['name']}")

    def duties(self):
        return [{"type": "azure_load_balancer", "pool": azure.POOL, "address": "{{ inventory_hostname }}", **self.azure.access()}]

    def environment(self):
        return self.azure.environment()

    def start_load(self, name, rate, **more):
        # Azure lets open connections live. Ours end by themselves, since no application here ends those that clients keep.
        super().start_load(name, rate, new_every=1, **more)

    def look(self):
        balancer = self._balancer()
        pool = balancer["properties"]["backendAddressPools"][0]["properties"]
        # While a change is under way, nobody knows whether it has come into force. Down counts when it is done, everything else at once.
        done = pool["provisioningState"] == "Succeeded"
        for member in pool["loadBalancerBackendAddresses"]:
            state = "drain" if member["properties"].get("adminState") == "Down" else "ready"
            if self.followed.get(member["name"], "ready") != state and (done or state == "ready"):
                self.haproxy.ask(f"set server {BACKEND}/{member['name']} state {state}")
                self.followed[member["name"]] = state
        sample, lasting = read_balancer(self.haproxy.ask("show servers state; show stat"))
        settings = {key: value for key, value in pool.items() if key != "provisioningState"}
        return sample, {**lasting, "pool": settings, "tags": balancer["tags"]}

    def _balancer(self):
        for attempt in (1, 2):
            try:
                self.line.request("GET", "/control/load-balancers")
                return json.load(self.line.getresponse())[0]
            except (OSError, http.client.HTTPException):
                self.line.close()
                if attempt == 2:
                    raise
        return None

    def close(self):
        if hasattr(self, "line"):
            self.line.close()
        super().close()


class Row(Probe):
    """Two in a row: clients come through a balancer of connections that probes, and others through a HAProxy with a runtime socket. Both send to the hosts."""

    balancer = "the two balancers"

    def configuration(self):
        # Its checks go to the other port, so that no connection of the application's own port is theirs.
        text = super(Probe, self).configuration()
        for name in self.names:
            text = text.replace(f"127.0.0.1:{self.port(name)}\n", f"127.0.0.1:{self.port(name)} check port {self.port(f'{name} probe')}\n")
        return text

    def start_balancer(self):
        super().start_balancer()
        self.keepers["outer"] = reserve_port()
        folder, sockets = self.folder / "outer", self.socket_folder / "outer"
        folder.mkdir()
        sockets.mkdir()
        self.outer = Haproxy(folder, program=self.program, whole=self.connections(self.port("outer")), sockets=sockets, start=self._start_outer)

    def _start_outer(self, _name, *command):
        return self.processes.start("outer", *command)

    def duties(self):
        return [*super().duties(), *super(Probe, self).duties()]

    def start_load(self, name, rate, **more):
        super().start_load(f"{name}-outer", rate / 2, port=self.port("outer"), **more)
        self.outer_load = self.load, self.load_file
        super().start_load(name, rate / 2, **more)

    def stop_load(self):
        inner = super().stop_load()
        self.load, self.load_file = self.outer_load
        return inner + super().stop_load()

    def look(self):
        """A host is out when no balancer sends to it."""
        sample, lasting = read_balancer(self.haproxy.ask("show servers state; show stat"))
        outer, lasting_outer = self.look_at(self.outer)
        for name in self.names:
            (admin, up, weight, busy), (admin_outer, up_outer, _weight, busy_outer) = (found[f"{BACKEND}/{name}"] for found in (sample, outer))
            sample[f"{BACKEND}/{name}"] = ["ready" if "ready" in (admin, admin_outer) else admin, up and up_outer, weight, busy + busy_outer]
        return sample, {**lasting, **{f"outer {key}": value for key, value in lasting_outer.items()}}

    def rows(self):
        return Front.rows(self) + read_connections((self.folder / "outer.log").read_text(encoding="utf-8"))


class Windows(Front):
    """A group of which those hosts are modelled Windows hosts whose names begin with win. HAProxy sends the load to processes of this machine, as ever.

    What is still on duty on such a host counts like a session: nothing may be approved while there is any.
    """

    def __init__(self, folder, names):
        super().__init__(folder, names)
        fetch_collections()
        self.models = {name: mixed.make_host(self.folder / "windows" / name) for name in names if name.startswith("win")}

    def environment(self):
        # Whoever asked a metadata service through this proxy would get no answer.
        proxy = dict.fromkeys(("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"), "http://127.0.0.1:9")
        return {**of_windows(), **proxy}

    def host_variables(self, name):
        # A host that reboots before the first look cannot tell its name.
        own = mixed.settings(self.models[name], self.simulator.urls[name], self.duties()) if name in self.models else {}
        return {"graceful_azure_resource_name": name, **own}

    def hit(self, event_type, name, seconds):
        super().hit(event_type, name, seconds)
        if name in self.models:
            model = self.models[name]
            (model.freeze if event_type == "Freeze" else model.reboot)(seconds)

    def look(self):
        sample, lasting = super().look()
        for name, model in self.models.items():
            duties = model.duties()
            sample[f"{BACKEND}/{name}"][3] += sum(state != "Stopped" for state in duties.values())
            lasting.update({f"{duty} of {name}": state for duty, state in duties.items()})
        return sample, lasting

    def left(self):
        found = [f"record {record} of {name}" for name, model in self.models.items() for record in model.records()]
        return found + [f"a wrong call on {name}: {mistake}" for name, model in self.models.items() for mistake in model.mistakes()]


FRONTS = {"haproxy": Front, "nginx": Nginx, "probe": Probe, "azure": Azure, "row": Row, "windows": Windows}
