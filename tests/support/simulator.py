# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The simulator of the role imds_simulator, started as a process of its own, and its control address.

For example::

    with Simulator(["web-1", "web-2"]) as simulator:
        event_id = simulator.post_event(EventType="Reboot", Resources=["web-1"], NoticeSeconds=None)
        ...  # something that talks to simulator.urls["web-1"]
        assert simulator.event(event_id)["Approvals"]
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "roles" / "imds_simulator" / "files" / "imds_simulator.py"
CODE = SCRIPT.with_name("graceful_azure_simulator")
START_SECONDS = 30
PYTHON = os.environ.get("IMDS_SIMULATOR_PYTHON", sys.executable)

# The proxies of the environment are none of ours.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def copy_simulator(folder):
    """Puts a copy of the simulator's command and code into a folder."""
    shutil.copy(SCRIPT, folder)
    shutil.copytree(CODE, folder / CODE.name, ignore=shutil.ignore_patterns("__pycache__"))


class ControlError(Exception):
    """The control address answered with an error."""

    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status = status


class Simulator:
    """A running simulator.

    ``vms`` are names, each with a free port of 127.0.0.1, or a dictionary of names and addresses; ``options`` are more of
    the command line. ``urls`` are the base URLs of the metadata services by name, ``control`` is the URL of the control
    address, ``process`` the process.
    """

    def __init__(self, vms=("web-1",), control=None, scenario=None, on_start=None, on_gone=None, python=PYTHON, prefix=(), options=(), **popen):
        addresses = vms if isinstance(vms, dict) else dict.fromkeys(vms, "127.0.0.1:0")
        command = [*prefix, python, str(SCRIPT)]
        for name, address in addresses.items():
            command += ["--vm", f"{name}={address}"]
        for option, value in (("--control", control), ("--scenario", scenario), ("--on-start", on_start), ("--on-gone", on_gone)):
            if value is not None:
                command += [option, str(value)]
        command += map(str, options)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, **popen)
        try:
            if not select.select([self.process.stdout], [], [], START_SECONDS)[0]:
                raise RuntimeError(f"The simulator did not start within {START_SECONDS} s.")
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError(f"The simulator ended with status {self.process.wait()}.")
        except BaseException:
            self.close()
            raise
        self.started = json.loads(line)
        self.urls = self.started["vms"]
        self.control = self.started["control"]

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

    def ask(self, method, path, value=None):
        """The answer of the control address; raises ControlError."""
        body = None if value is None else json.dumps(value).encode()
        request = urllib.request.Request(self.control + path, body, {"Content-Type": "application/json"}, method=method)
        try:
            with _opener.open(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise ControlError(error.code, error.read().decode(errors="replace")) from None

    def post_event(self, **fields):
        """Adds an event, by default a reboot of the first VM; returns its id."""
        return self.ask("POST", "/events", {"EventType": "Reboot", "Resources": [next(iter(self.urls))], **fields})["EventId"]

    def events(self):
        """Every event ever."""
        return self.ask("GET", "/events")

    def event(self, event_id):
        """The last event with this id."""
        return [event for event in self.events() if event["EventId"].lower() == event_id.lower()][-1]

    def statuses(self, event_id):
        """What the event has been, in order."""
        return [entry["Status"] for entry in self.event(event_id)["History"]]

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
        deadline = time.monotonic() + seconds
        while status not in self.statuses(event_id):
            if time.monotonic() > deadline:
                raise AssertionError(f"Event {event_id} is not {status} after {seconds} s: {self.event(event_id)}")
            time.sleep(0.02)

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
