# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The simulator of the role imds_simulator, started as a process of its own, and whoever talks to its control address.

For example::

    with Simulator(["web-1", "web-2"]) as simulator:
        event_id = simulator.post_event(EventType="Reboot", Resources=["web-1"], NoticeSeconds=None)
        ...  # something that talks to simulator.urls["web-1"]
        assert simulator.event(event_id)["Approvals"]
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import shutil
import subprocess
import sys
import threading
import urllib.parse

from tests.support.checkout import ROOT
from tests.support.patience import patient, until

SCRIPT = ROOT / "roles" / "imds_simulator" / "files" / "imds_simulator.py"
# The stand-in for Azure Resource Manager.
AZURE_SCRIPT = SCRIPT.with_name("azure_simulator.py")
CODE = SCRIPT.with_name("graceful_azure_simulator")
START_SECONDS = 30
# Of an event whose impact is soon over.
SHORT = {"ImpactSeconds": 1, "SettleSeconds": 1}
PYTHON = os.environ.get("IMDS_SIMULATOR_PYTHON", sys.executable)


def copy_simulator(folder):
    """Puts a copy of the simulator's command and code into a folder."""
    shutil.copy(SCRIPT, folder)
    shutil.copytree(CODE, folder / CODE.name, ignore=shutil.ignore_patterns("__pycache__"))


class SimulatorError(Exception):
    """The simulator did not start, or does not answer."""


class ControlError(SimulatorError):
    """The control address answered with an error."""

    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status = status


def command(vms, control=None, scenario=None, on_start=None, on_gone=None, python=PYTHON, options=()):
    """The words that start a simulator; see Simulator."""
    addresses = vms if isinstance(vms, dict) else dict.fromkeys(vms, "127.0.0.1:0")
    words = [python, str(SCRIPT)]
    for name, address in addresses.items():
        words += ["--vm", f"{name}={address}"]
    for option, value in (("--control", control), ("--scenario", scenario), ("--on-start", on_start), ("--on-gone", on_gone)):
        if value is not None:
            words += [option, str(value)]
    return [*words, *map(str, options)]


class Control:
    """Talks to a simulator's control address. Each thread has a connection of its own, which stays open."""

    urls = {}

    def __init__(self, control):
        self.control = control
        self._lines = threading.local()

    def ask(self, method, path, value=None):
        """The answer of the control address; raises ControlError."""
        if not hasattr(self._lines, "line"):
            self._lines.line = http.client.HTTPConnection(urllib.parse.urlsplit(self.control).netloc, timeout=patient(30))
        line = self._lines.line
        body = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
        for attempt in (1, 2):
            try:
                line.request(method, path, body, {"Content-Type": "application/json"})
                answer = line.getresponse()
                told = answer.read().decode(errors="replace")
                break
            except (OSError, http.client.HTTPException) as error:
                line.close()
                # A connection that was idle for long may have been closed at the other end.
                if attempt == 2 or not isinstance(error, (ConnectionError, http.client.RemoteDisconnected)):
                    raise SimulatorError(f"The simulator does not answer: {error!r}") from error
        if answer.status >= 300:
            raise ControlError(answer.status, told)
        return json.loads(told)

    def post_event(self, **fields):
        """Adds an event, by default a reboot of the first VM; returns its id."""
        return self.ask("POST", "/events", {"EventType": "Reboot", "Resources": list(self.urls)[:1], **fields})["EventId"]

    def events(self):
        """Every event ever."""
        return self.ask("GET", "/events")

    def event(self, event_id):
        """The last event with this id."""
        return [event for event in self.events() if event["EventId"].lower() == event_id.lower()][-1]

    def statuses(self, event_id):
        """What the event has been, in order."""
        return [entry["Status"] for entry in self.event(event_id)["History"]]

    def approvers(self, event_id):
        """The VMs that have approved it, each as often as it has."""
        return [approval["Vm"] for approval in self.event(event_id)["Approvals"]]

    def start(self, event_id):
        return self._move(event_id, "start")

    def complete(self, event_id):
        return self._move(event_id, "complete")

    def cancel(self, event_id):
        return self._move(event_id, "cancel")

    def _move(self, event_id, move):
        return self.ask("POST", f"/events/{urllib.parse.quote(event_id, safe='')}/{move}")

    def wait_for(self, event_id, status, seconds=10):
        """Waits until the event has been ``status``."""
        until(lambda: status in self.statuses(event_id), seconds, lambda: f"event {event_id} {status}: {self.event(event_id)}", pause=0.02)

    def requests(self, vm=None, method=None):
        """Every request that the metadata services saw, or those of one VM or method."""
        seen = self.ask("GET", "/requests")
        return [request for request in seen if vm in (None, request["Vm"]) and method in (None, request["Method"])]

    def fault(self, fault=None, vm=None, method=None, times=None, around=None, **more):
        """Adds a fault: ``fault({"Status": 503}, times=2)`` or ``fault(Delay=1, vm="web-1")``; ``around`` has fields beside these."""
        self.ask("POST", "/faults", {"Vm": vm, "Method": method, "Fault": {**(fault or {}), **more}, "Times": times, **(around or {})})

    def clear_faults(self):
        self.ask("DELETE", "/faults")

    def reset(self):
        """Ends every event that stands, and every fault."""
        self.clear_faults()
        moves = {"Scheduled": self.cancel, "Started": self.complete}
        while True:
            standing = [event for event in self.events() if event["EventStatus"] in moves]
            if not standing:
                return
            for event in standing:
                with contextlib.suppress(ControlError):  # it moved on by itself meanwhile
                    moves[event["EventStatus"]](event["EventId"])

    def step(self, seconds=None):
        """Sets time on, by default to whatever is due next."""
        return self.ask("POST", "/clock", {"Next": True} if seconds is None else {"Step": seconds})

    def play(self, scenario):
        """Plays a scenario, by its name or as it stands in a file."""
        return self.ask("POST", "/scenarios", {"Name": scenario} if isinstance(scenario, str) else scenario)


class Simulator(Control):
    """A running simulator.

    ``vms`` are names, each with a free port of 127.0.0.1, or a dictionary of names and addresses; ``options`` are more of
    the command line. ``urls`` are the base URLs of the metadata services by name, ``control`` is the URL of the control
    address, ``process`` the process. ``start`` starts it as Processes.start does; whoever gives that ends it, too.
    """

    def __init__(self, vms=("web-1",), control=None, scenario=None, on_start=None, on_gone=None, python=PYTHON, prefix=(), options=(), start=None, **popen):
        words = [*prefix, *command(vms, control, scenario, on_start, on_gone, python, options)]
        self.process = start("simulator", *words, stdout=subprocess.PIPE) if start else subprocess.Popen(words, stdout=subprocess.PIPE, **popen)
        try:
            if not select.select([self.process.stdout], [], [], patient(START_SECONDS))[0]:
                raise SimulatorError(f"The simulator did not start within {START_SECONDS} s.")
            line = self.process.stdout.readline()
            if not line:
                raise SimulatorError(f"The simulator ended with status {self.process.wait()}.")
        except BaseException:
            self.close()
            raise
        started = json.loads(line)
        self.urls = started["vms"]
        super().__init__(started["control"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the process."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        self.process.stdout.close()
