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
import subprocess
import sys
import time

import pytest

from tests.support.patience import patient, until
from tests.support.ports import accepts, free_port
from tests.support.simulator import Control

PLAYBOOK = [
    {
        "hosts": "all",
        "connection": "local",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": sys.executable, "ansible_pipelining": True},
        "tasks": [{"import_role": {"name": "graceful.azure.imds_simulator"}}],
    }
]


class Role:
    """The role with its variables; a call runs it, and returns the number of changes."""

    def __init__(self, folder):
        self.folder = folder
        self.prefix = []
        self.ports = [free_port() for _number in range(3)]
        self.directory = folder / "simulator"
        self.variables = {
            "imds_simulator_directory": str(self.directory),
            "imds_simulator_vms": {name: f"127.0.0.1:{port}" for name, port in zip(("web 1", "web-2"), self.ports)},
            "imds_simulator_control": f"127.0.0.1:{self.ports[2]}",
            "imds_simulator_python": sys.executable,
            "imds_simulator_service": "process",
        }
        (folder / "play.yml").write_text(json.dumps(PLAYBOOK))

    def __call__(self, *arguments, **variables):
        status, output = self.run(*arguments, **variables)
        assert status == 0, output
        return int(re.search(r"changed=([0-9]+)", output).group(1))

    def run(self, *arguments, **variables):
        self.variables.update({f"imds_simulator_{name}": value for name, value in variables.items()})
        done = subprocess.run(
            [*self.prefix, "ansible-playbook", "-i", "here,", "play.yml", "-e", json.dumps(self.variables), *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=patient(100),
            check=False,
        )
        return done.returncode, done.stdout

    def pid(self):
        return int((self.directory / "imds_simulator.pid").read_text())

    def events(self):
        return [event["EventId"] for event in Control(f"http://127.0.0.1:{self.ports[2]}").events()]

    def listens(self):
        return [port for port in self.ports if accepts(port)]


@pytest.fixture
def role(tmp_path):
    role = Role(tmp_path)
    yield role
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        os.kill(role.pid(), signal.SIGTERM)


@pytest.mark.timeout(300)
@pytest.mark.long
def test_started_changed_killed_and_stopped(role):
    assert role("--check") > 0
    assert not role.directory.exists()

    assert role() > 0
    assert role.listens() == role.ports
    stand_in = subprocess.run([sys.executable, str(role.directory / "azure_simulator.py"), "--help"], capture_output=True, text=True, check=True)
    assert "--load-balancers" in stand_in.stdout
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

    # Code of another version, and a run that was cut off before it came to the new start.
    code = role.directory / "graceful_azure_simulator"
    names = sorted(path.name for path in code.iterdir())
    (code / "of_another_version.py").write_text("")
    (code / "cli.py").write_text("")
    pid = role.pid()
    status, output = role.run("--check", "--diff")
    assert status == 0 and "+from .ctl import ctl" in output, output
    assert role.pid() == pid and (code / "cli.py").read_text() == ""
    assert role() > 0
    assert sorted(path.name for path in code.iterdir()) == names
    assert role.pid() != pid
    pid = role.pid()
    os.utime(code / "cli.py", (time.time() + 1, time.time() + 1))
    assert role() > 0
    assert role.pid() != pid

    # Killed: its pid file stays, with a number that another process may bear now.
    os.kill(role.pid(), signal.SIGKILL)
    until(lambda: not role.listens(), 10, pause=0.02)
    (role.directory / "imds_simulator.pid").write_text(f"{os.getpid()}\n")
    assert role(scenario="hardware-failure", options=["--time-scale", 0]) > 0
    assert role.listens() == role.ports
    assert len(role.events()) == 1

    assert role(state="absent") == 2
    assert role.listens() == []
    assert not role.directory.exists()


# The argument specs are in test_roles.py.
@pytest.mark.long
def test_mistakes_are_told(role):
    vms = role.variables["imds_simulator_vms"]
    status, output = role.run(vms={})
    assert status != 0
    assert "imds_simulator_vms is empty" in output
    status, output = role.run(vms=vms, scenario={"events": [{"EventType": "Reboot"}], "faults": [{"Fault": {}}]})
    assert status != 0
    assert "event 1: An event needs the field Resources" in output
    assert "scenario.json: fault 1: Fault needs Status" in output
    assert "Traceback" not in output
    assert role.listens() == []


def test_a_real_metadata_service_is_not_hidden(role):
    """By all that the role may find, in one run: which it refuses."""
    tag = role.folder / "asset_tag"
    tag.write_text("7783-7084-3265-9085-8269-3286-77\n")
    other = role.folder / "other"
    other.write_text("Default string\n")
    cases = [
        {"tag": str(tag), "network": str(tag), "allow": False},  # an Azure VM's own network
        {"tag": str(tag), "network": str(tag), "allow": True},
        {"tag": str(tag), "network": "/none", "allow": False},  # a container's there
        {"tag": str(other), "network": str(tag), "allow": False},
        {"tag": "/none", "network": str(tag), "allow": False},
    ]
    look = {
        "name": "{{ case }}",
        "include_role": {"name": "graceful.azure.imds_simulator", "tasks_from": "azure.yml", "rolespec_validate": False},
        "vars": {
            "__imds_simulator_asset_tag_file": "{{ case.tag }}",
            "__imds_simulator_first_network_file": "{{ case.network }}",
            "imds_simulator_allow_on_azure": "{{ case.allow }}",
        },
    }
    refused = {"set_fact": {"refused": "{{ refused + [case] }}"}}
    tasks = {"block": [look], "rescue": [refused]}
    (role.folder / "one.yml").write_text(json.dumps([tasks]))
    play = {**PLAYBOOK[0], "tasks": [{"include_tasks": "one.yml", "loop": cases, "loop_control": {"loop_var": "case"}}]}
    play["tasks"].append({"assert": {"that": ["refused == expected"]}})
    play["vars"] = {**play["vars"], "refused": [], "expected": cases[:1]}
    (role.folder / "play.yml").write_text(json.dumps([play]))
    status, output = role.run()
    assert status == 0, output
    assert "would hide the real metadata service" in output


@pytest.mark.timeout(300)
@pytest.mark.skipif(os.geteuid() != 0, reason="networks are made by root alone: sudo make test")
def test_at_the_link_local_address_of_an_own_network(role):
    network = f"imds-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", network], check=True)
    try:
        role.prefix = ["ip", "netns", "exec", network]
        role.variables["imds_simulator_vms"] = {"web 1": "169.254.169.254:80"}

        def addresses():
            done = subprocess.run([*role.prefix, "ip", "-o", "-4", "address", "show", "dev", "lo"], capture_output=True, text=True, check=True)
            return "169.254.169.254/32" in done.stdout

        assert role() > 0
        assert addresses()
        url = "http://169.254.169.254/metadata/instance/compute/name?api-version=2021-02-01&format=text"
        code = "import sys, urllib.request; print(urllib.request.urlopen(urllib.request.Request(sys.argv[1], headers={'Metadata': 'true'})).read().decode())"
        done = subprocess.run([*role.prefix, sys.executable, "-c", code, url], capture_output=True, text=True, check=True, timeout=patient(20))
        assert done.stdout == "web 1\n"
        assert role(state="stopped") > 0
        assert not addresses()
    finally:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(role.pid(), signal.SIGTERM)
        subprocess.run(["ip", "netns", "delete", network], check=True)
