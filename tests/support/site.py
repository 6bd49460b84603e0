# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A site to run the playbooks against: hosts on this machine, a real HAProxy, the simulator."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys

from tests.support.checkout import BUILD
from tests.support.haproxy import Haproxy
from tests.support.inventory import LOCAL, behind_haproxy, state_dir, web_host, write_inventory
from tests.support.meanwhile import Meanwhile
from tests.support.patience import patient, until
from tests.support.playbook import ansible_settings, run_facts
from tests.support.processes import kill_all
from tests.support.simulator import SHORT, Simulator
from tests.support.web import Web

RUN_SECONDS = 180


class Run:
    """A playbook that ended: its exit status, its output and what set_stats carried: the events, and what it says about the run."""

    def __init__(self, status, output):
        self.status = status
        self.output = output
        facts = run_facts(output)
        self.events, self.about = facts.get("graceful_azure"), facts.get("graceful_azure_run")

    def event(self, event_id):
        (found,) = [event for event in self.events if event["event_id"].lower() == event_id.lower()]
        return found


class Playbooks:
    """Runs playbooks against an ``inventory``, which whoever makes this writes into the folder, and hosts of these ``names`` with a metadata service each.

    ``programs``: the folder of the ansible-playbook that runs, by default the first on PATH.
    """

    def __init__(self, folder, names, inventory="inventory.json", programs=None):
        self.folder = folder
        self.names = list(names)
        self.inventory = folder / inventory
        self.program = str(programs / "ansible-playbook") if programs else "ansible-playbook"
        self.environment = {}  # what runs have besides that of this process
        self.processes = []
        self.simulator = Simulator(self.names)

    def start(self, playbook, *arguments, log=None, **variables):
        """Start a playbook of the collection, or that of a path. C(log): a file for what it prints, which is kept for ``finish`` otherwise."""
        name = playbook if os.sep in playbook else f"graceful.azure.{playbook}"
        command = [self.program, "-i", str(self.inventory), name, *arguments]
        command += ["-e", json.dumps(dict({"target": "web", "handle_events_timeout": patient(60)}, **variables))]
        environment = {**os.environ, "ANSIBLE_SHOW_CUSTOM_STATS": "1", **ansible_settings(self.folder), **self.environment}
        with log.open("w", encoding="utf-8") if log else contextlib.nullcontext(subprocess.PIPE) as stdout:
            process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.STDOUT, text=True, env=environment, cwd=str(BUILD), start_new_session=True)
        self.processes.append(process)
        return process

    @staticmethod
    def finish(process, seconds=RUN_SECONDS):
        output, _nothing = process.communicate(timeout=patient(seconds))
        return Run(process.returncode, output)

    def run(self, playbook="handle_events", *arguments, **variables):
        return self.finish(self.start(playbook, *arguments, **variables))

    def kill(self, process):
        """End a playbook as AWX does, at once and with all that it started."""
        kill_all(process.pid)
        process.communicate()

    def reach(self, process, condition, what, seconds=100):
        """Until the condition holds while a playbook runs. What that has said is the test's failure."""
        try:
            until(lambda: condition() or process.poll() is not None, seconds, what)
            assert process.poll() is None, f"it has ended before this: {what}"
        except AssertionError as error:
            kill_all(process.pid)
            raise AssertionError(f"{error}\n{process.communicate()[0]}") from None

    def records(self):
        return sorted(path for path in (self.folder / "state").glob("*/*.json"))

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                self.kill(process)
        self.simulator.close()


class BehindHaproxy(Playbooks):
    """Hosts that are the servers of a backend C(www) of ``haproxy``, which a subclass starts."""

    haproxy: Haproxy

    def duties(self, *others, **options):
        """What a host hands over: HAProxy with these options, and then the others, which wait until the host is idle."""
        return [{**behind_haproxy(self.haproxy.socket), **options}, *others]

    def admin_states(self):
        return {name: {0: "ready", 1: "maint", 8: "drain"}.get(self.haproxy.flags("www", name)[0]) for name in self.names}

    def await_state(self, name, state, seconds=30):
        until(lambda: self.admin_states()[name] == state, seconds, f"{name} {state}")

    def close(self):
        super().close()
        self.haproxy.stop()


class Site(BehindHaproxy):
    """``names`` are the hosts, ``balancers`` the inventory names under which the one HAProxy is known. ``python`` is what runs on the hosts."""

    def __init__(self, folder, names=("web1", "web2"), variables=None, balancers=("lb1",), python=sys.executable, programs=None):
        super().__init__(folder, names, programs=programs)
        self.python = str(python)
        # No connection stays open where nobody asks: a drained host has none.
        self.listeners = {name: Web("HTTP/1.0") for name in names}
        servers = "".join(f"  server {name} 127.0.0.1:{listener.port}\n" for name, listener in self.listeners.items())
        proxy = folder / "proxy"
        proxy.mkdir()
        self.haproxy = Haproxy(proxy, f"frontend in\n  bind unix@{proxy}/front.sock\n  default_backend www\nbackend www\n{servers}")
        self.write_inventory(variables or {}, balancers)

    def write_inventory(self, variables=None, balancers=("lb1",), **of_hosts):
        hosts = {
            name: {**web_host(self.folder, name, self.simulator.urls[name], listener.port), **of_hosts.get(name, {})}
            for name, listener in self.listeners.items()
        }
        machines = {name: {**state_dir(self.folder, name), **of_hosts.get(name, {})} for name in balancers}
        everybody = {**LOCAL, "ansible_python_interpreter": self.python}
        write_inventory(self.inventory, hosts, self.duties(hosts=list(balancers)), machines, variables, everybody)

    def see_a_reboot_through(self):
        """A Reboot of web1 from notice to the end: approved once, and everything as it was."""
        event_id = self.simulator.post_event(EventType="Reboot", Resources=["web1"], **SHORT)
        run = self.run()
        assert run.status == 0, run.output
        assert run.event(event_id)["outcome"] == "completed"
        assert {name: said["state"] for name, said in run.event(event_id)["hosts"].items()} == {"web1": "restored"}
        assert self.simulator.approvers(event_id) == ["web1"]
        assert self.admin_states() == dict.fromkeys(self.names, "ready")
        assert self.records() == []
        return run

    def close(self):
        super().close()
        for listener in self.listeners.values():
            listener.close()


class FrontClients(Meanwhile):
    """Ask HAProxy at a Unix socket, one request after the other. C(more): more of the head of each request."""

    def __init__(self, front, more=""):
        super().__init__()
        self._front, self._request = front, f"GET / HTTP/1.1\r\nHost: x\r\n{more}Connection: close\r\n\r\n".encode()
        self.asked, self.lost = 0, []

    def _run(self):
        while not self._ends.wait(0.05):
            try:
                with socket.socket(socket.AF_UNIX) as client:
                    client.settimeout(patient(10))
                    client.connect(self._front)
                    client.sendall(self._request)
                    answer = client.recv(65536)
                if not re.match(rb"HTTP/1\.\d 200 ", answer):
                    self.lost.append(answer)
            except OSError as error:
                self.lost.append(error)
            self.asked += 1


def until_said(process, text):
    """Read what a run prints, up to the line with this text, which is returned."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text.lower() in line.lower():
            return line
    raise AssertionError(f"not said: {text}\n{''.join(lines)}")
