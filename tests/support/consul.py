# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Agents of a real Consul as processes of this machine, a web server beside each, and clients that find the web servers through Consul."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import signal
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from tests.support.checkout import BUILD
from tests.support.meanwhile import Meanwhile
from tests.support.patience import patient, until
from tests.support.ports import free_port
from tests.support.processes import Processes
from tests.support.web import Web

PROGRAM = shutil.which("consul") or str(BUILD / "unpacked/usr/bin/consul")
NEEDS = pytest.mark.skipif(not Path(PROGRAM).exists(), reason="no consul in the PATH, and tests/setup.sh long could not unpack Debian's")


class Agent:
    """One node: a server of Consul, with a service ``web`` that passes while its web server listens."""

    enter = ()

    def __init__(self, consul, name, token=None):
        self._consul = consul
        self.name = name
        self.token = token
        self.ports = {name: free_port() for name in ("http", "dns", "serf_lan", "serf_wan", "server")}
        self.web = Web("HTTP/1.0")
        self.process = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.ports['http']}"

    @property
    def options(self):
        """Those of a drain step."""
        return {"url": self.url}

    def start(self):
        self._consul.start(self.name)

    def stop(self):
        self._consul.kill(self.name)

    def ask(self, method, path):
        """The status and the text of an answer."""
        request = urllib.request.Request(self.url + path, method=method, headers={"X-Consul-Token": self.token} if self.token else {})
        try:
            with urllib.request.urlopen(request, timeout=patient(20)) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def get(self, path):
        status, text = self.ask("GET", path)
        assert status == 200, (path, status, text)
        return json.loads(text)

    def maintain(self, enable, reason=""):
        """What an operator does with ``consul maint``."""
        query = urllib.parse.urlencode({"enable": "true" if enable else "false", "reason": reason})
        assert self.ask("PUT", f"/v1/agent/maintenance?{query}")[0] == 200

    def reason(self):
        """The reason of the maintenance mode, as the agent has it; None if it is not in that mode."""
        check = self.get("/v1/agent/checks").get("_node_maintenance")
        return None if check is None else check["Notes"]


class Consul:
    """A cluster of servers of Consul, one for each name. C(token): what its services, and what asks it here, need. The settings are added to its own."""

    def __init__(self, folder, names=("web1", "web2", "web3"), token=None, bind="127.0.0.1", **settings):
        self.folder = folder
        # Where the agents speak to each other.
        self.bind = bind
        self.service = {"token": token} if token else {}
        self.settings = settings
        self.agents = {name: Agent(self, name, token) for name in names}
        self._processes = Processes(folder)

    def __enter__(self):
        try:
            for agent in self:
                self.start(agent.name)
            self.settled()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error):
        self._processes.close()
        for agent in self:
            agent.web.close()

    def __getitem__(self, name):
        return self.agents[name]

    def __iter__(self):
        return iter(self.agents.values())

    def start(self, name):
        agent = self.agents[name]
        path = self.folder / f"{name}.json"
        check = {"tcp": f"127.0.0.1:{agent.web.port}", "interval": "200ms", "timeout": "1s"}
        path.write_text(
            json.dumps(
                {
                    "node_name": name,
                    "data_dir": str(self.folder / name),
                    "server": True,
                    "bootstrap_expect": len(self.agents),
                    "bind_addr": self.bind,
                    "client_addr": "127.0.0.1",
                    "disable_update_check": True,
                    # An agent that is ended by a signal stays a member, as one whose host is booted anew.
                    "leave_on_terminate": False,
                    "performance": {"raft_multiplier": 1},
                    "ports": dict(agent.ports, grpc=-1),
                    "retry_join": [f"{f'[{self.bind}]' if ':' in self.bind else self.bind}:{other.ports['serf_lan']}" for other in self],
                    "retry_interval": "1s",
                    "services": [dict({"name": "web", "port": agent.web.port, "check": check}, **self.service)],
                    **self.settings,
                }
            )
        )
        agent.process = self._processes.start(name, PROGRAM, "agent", "-config-file", path)

    def kill(self, name):
        """End an agent at once, as a reboot of its host does."""
        self._processes.stop(self.agents[name].process, signal.SIGKILL)

    def passing(self, service="web", asked=None):
        """The nodes that Consul offers for a service."""
        agent = self.agents[asked] if asked else next(iter(self))
        return {entry["Node"]["Node"] for entry in agent.get(f"/v1/health/service/{service}?passing")}

    def settled(self, names=None, seconds=40):
        """Wait until Consul offers the web servers of these nodes, by default of all."""
        wanted = set(names or self.agents)

        def is_offered():
            with contextlib.suppress(OSError, AssertionError, ValueError):
                return all(self.passing(asked=name) == wanted for name in self.agents)

        until(is_offered, seconds, f"{wanted} are offered", pause=0.1)


class Clients(Meanwhile):
    """Clients that ask Consul where the service is before each request. They count: ``answered`` per node, and ``failed``."""

    def __init__(self, consul, asked):
        self.answered, self.failed = {}, []
        self._consul, self._asked = consul, asked
        self._by_port = {agent.web.port: agent.name for agent in consul}
        super().__init__()

    def _run(self):
        number = 0
        while not self._ends.is_set():
            try:
                found = self._consul[self._asked].get("/v1/health/service/web?passing")
            except (OSError, AssertionError):
                # Its servers elect a leader, or the machine is busy.
                time.sleep(0.1)
                continue
            if found:
                port = sorted(entry["Service"]["Port"] for entry in found)[number % len(found)]
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                try:
                    connection.request("GET", "/")
                    status = connection.getresponse().status
                except OSError as error:
                    status = error
                finally:
                    connection.close()
                if status == 200:
                    self.answered[self._by_port[port]] = self.answered.get(self._by_port[port], 0) + 1
                else:
                    self.failed.append((self._by_port[port], status))
            else:
                self.failed.append(("Consul offers nobody", None))
            number += 1
            time.sleep(0.01)
