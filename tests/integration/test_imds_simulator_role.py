# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role imds_simulator, on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

PLAYBOOK = [
    {
        "hosts": "all",
        "connection": "local",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": sys.executable, "ansible_pipelining": True},
        "tasks": [{"import_role": {"name": "graceful.azure.imds_simulator"}}],
    }
]


def free_ports(count):
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _number in range(count)]
        return [sock.getsockname()[1] for sock in socks]


class Role:
    """The role with its variables; a call runs it, and returns the number of changes."""

    def __init__(self, folder):
        self.folder = folder
        self.ports = free_ports(3)
        self.directory = folder / "simulator"
        self.variables = {
            "imds_simulator_directory": str(self.directory),
            "imds_simulator_vms": {name: f"127.0.0.1:{port}" for name, port in zip(("web 1", "web-2"), self.ports)},
            "imds_simulator_control": f"127.0.0.1:{self.ports[2]}",
            "imds_simulator_python": sys.executable,
        }
        (folder / "play.yml").write_text(json.dumps(PLAYBOOK))

    def __call__(self, *arguments, **variables):
        status, output = self.run(*arguments, **variables)
        assert status == 0, output
        return int(re.search(r"changed=([0-9]+)", output).group(1))

    def run(self, *arguments, **variables):
        self.variables.update({f"imds_simulator_{name}": value for name, value in variables.items()})
        done = subprocess.run(
            ["ansible-playbook", "-i", "here,", "play.yml", "-e", json.dumps(self.variables), *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout

    def pid(self):
        return int((self.directory / "imds_simulator.pid").read_text())

    def events(self):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self.ports[2]}/events", timeout=5) as answer:
            return [event["EventId"] for event in json.load(answer)]

    def listens(self):
        def answers(port):
            with socket.socket() as sock:
                return sock.connect_ex(("127.0.0.1", port)) == 0

        return [port for port in self.ports if answers(port)]


@pytest.fixture
def role(tmp_path):
    role = Role(tmp_path)
    yield role
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        os.kill(role.pid(), signal.SIGTERM)


@pytest.mark.timeout(300)
def test_started_changed_killed_and_stopped(role):
    assert role("--check") > 0
    assert not role.directory.exists()

    assert role() > 0
    assert role.listens() == role.ports
    pid = role.pid()
    assert role() == 0

    # Other settings: check mode says so and leaves it alone, then another simulator takes its place.
    scenario = {"events": [{"EventId": "one", "EventType": "Reboot", "Resources": ["web 1"]}]}
    assert role("--check", scenario=scenario, on_start="echo 'a  b'") > 0
    assert role.pid() == pid
    assert role.events() == []
    assert role() > 0
    assert role.pid() != pid
    assert role.events() == ["one"]

    # Killed: its pid file stays, with a number that another process may bear now.
    os.kill(role.pid(), signal.SIGKILL)
    while role.listens():
        time.sleep(0.02)
    (role.directory / "imds_simulator.pid").write_text(f"{os.getpid()}\n")
    assert role() > 0
    assert role.listens() == role.ports

    assert role(state="stopped") == 1
    assert role.listens() == []


def test_mistakes_are_told(role):
    vms = role.variables["imds_simulator_vms"]
    status, output = role.run(vms={})
    assert status != 0
    assert "imds_simulator_vms is empty" in output
    status, output = role.run(vms=vms, scenario={"events": [{"EventType": "Reboot"}]})
    assert status != 0
    assert "event 1: An event needs the field Resources" in output
    assert "Traceback" not in output
    assert role.listens() == []
