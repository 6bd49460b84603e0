# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the simulator's README shows, done as it stands there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from graceful_azure_simulator.event_fields import MOVES
from graceful_azure_simulator.fault_fields import FAULT_CHECKS
from graceful_azure_simulator.scenario_library import SCENARIOS
from graceful_azure_simulator.scenarios import ENTRY_CHECKS

from tests.support.asking import ask
from tests.support.checkout import ROOT
from tests.support.patience import patience, patient
from tests.support.simulator import SCRIPT, Simulator, copy_simulator

README = (ROOT / "roles" / "imds_simulator" / "README.md").read_text()

# What a user would have: a client that polls, and approves what it sees.
MY_CLIENT = """
import json, time, urllib.error, urllib.request

def ask(url, body=None):
    request = urllib.request.Request(url + "/metadata/scheduledevents?api-version=2020-07-01", body, {"Metadata": "true"})
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read() or b"{}")

def run(url, seconds):
    over, approved = time.monotonic() + seconds, set()
    while time.monotonic() < over:
        for event in ask(url)["Events"]:
            if event["EventStatus"] == "Scheduled" and event["EventId"] not in approved and event["EventType"] == "Reboot" and event["EventSource"] == "User":
                approved.add(event["EventId"])
                ask(url, json.dumps({"StartRequests": [{"EventId": event["EventId"]}]}).encode())
        time.sleep(0.02)
"""


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)```$", README, re.MULTILINE | re.DOTALL)


def test_three_scenarios_in_python(tmp_path):
    (program,) = blocks("python")
    # As fast as the machine can be asked at present.
    for old, new in (('"120"', f'"{2000 / patience():g}"'), ("seconds=13", f"seconds={patient(1.2):g}")):
        assert old in program
        program = program.replace(old, new)
    (tmp_path / "my_client.py").write_text(MY_CLIENT)
    (tmp_path / "try.py").write_text(program)
    copy_simulator(tmp_path)
    done = subprocess.run([sys.executable, "try.py"], cwd=tmp_path, capture_output=True, text=True, timeout=patient(60), check=True)
    lines = done.stdout.splitlines()
    assert [line.partition(" [{")[0].partition(" []")[0] for line in lines] == [
        "user-reboot ['Scheduled', 'Started', 'Completed']",
        "live-migration ['Scheduled', 'Started', 'Completed']",
        "cancelled ['Scheduled', 'Cancelled']",
    ]
    assert "'Vm': 'web-1'" in lines[0]


@pytest.mark.skipif(not shutil.which("curl"), reason="there is no curl")
def test_an_event_from_a_shell(tmp_path):
    """The commands with curl and those of ctl, one after the other."""
    shell = "".join(block for block in blocks("shell") if block.startswith(("curl", "python3 imds_simulator.py ctl add")))
    assert shell.count("\n") == 9
    copy_simulator(tmp_path)
    # Time stands still but for steps: whatever the commands take, the second E1 is not over before it is completed.
    with Simulator(["web-1"], options=["--time-scale", "0"]) as simulator:
        # ctl adds an E1, too: the first must be over.
        shell = shell.replace("python3 imds_simulator.py ctl add", "$PYTHON imds_simulator.py ctl clock step=1000; $PYTHON imds_simulator.py ctl add")
        for old, new in (("http://127.0.0.1:8169", simulator.control), ("http://127.0.0.1:8171", simulator.urls["web-1"]), ("python3", "$PYTHON")):
            shell = shell.replace(old, new)
        environment = {**os.environ, "PYTHON": sys.executable, "IMDS_SIMULATOR_CONTROL": simulator.control, "no_proxy": "*"}
        done = subprocess.run(["sh", "-ec", shell], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=patient(60), check=False)
        # Its clock was set on by the notice, so the second E1 is Started, and can be completed.
        assert done.returncode == 0, done.stderr
        assert [simulator.events()[number]["EventStatus"] for number in (0, 1)] == ["Completed", "Completed"]
        assert len(simulator.events()[0]["Approvals"]) == 1
        assert simulator.ask("GET", "/state")["Faults"][0]["Fault"] == {"Status": 503}


def test_a_network_of_its_own(tmp_path):
    """Its lines within the namespace, at an address that every machine has: first as they are, then where the simulator does not start."""
    (shell,) = (block for block in blocks("shell") if block.startswith("unshare"))
    shell = shell.partition("sh -c '\n")[2].rpartition("'")[0]
    for old, new in (
        ("    ip link set lo up\n    ip address add 169.254.169.254/32 dev lo\n", ""),
        ("169.254.169.254:80", "127.0.0.1:0"),
        ("127.0.0.1:8169", "127.0.0.1:0"),
        ("python3", f"'{sys.executable}'"),
        ("your-client", "cat addresses"),
    ):
        assert old in shell
        shell = shell.replace(old, new)
    assert "169.254" not in shell

    def run(shell):
        (tmp_path / "addresses").write_text("of the last time\n")
        done = subprocess.run(["sh", "-c", shell], cwd=tmp_path, capture_output=True, text=True, timeout=patient(20), check=False)
        return done.returncode, done.stdout

    copy_simulator(tmp_path)
    status, told = run(shell)
    assert status == 0
    assert json.loads(told)["vms"].keys() == {"web-1"}
    assert run(shell.replace("--vm", "--vn")) == (1, "")


def test_faults_one_after_the_other(tmp_path):
    (shell,) = (block for block in blocks("shell") if block.startswith("python3 imds_simulator.py ctl fault"))
    *faults, requests = shell.splitlines()
    with Simulator(["web-1"]) as simulator:
        environment = {**os.environ, "IMDS_SIMULATOR_CONTROL": simulator.control}

        def run(line):
            command = [sys.executable, str(SCRIPT), *line.split()[2:]]
            return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=patient(20), check=True).stdout

        for fault in faults:
            run(fault)
        for _request in range(5):
            ask(simulator.urls["web-1"])
        with pytest.raises(OSError):
            ask(simulator.urls["web-1"])
        assert ask(simulator.urls["web-1"]).status == 200
        assert [line.rpartition("  ")[2] for line in run(requests).splitlines()] == ["500", "200", "200", "200", "no answer", "200"]


def test_every_scenario_and_how_long_it_lasts():
    known = dict(re.findall(r"`([a-z0-9-]+)`\s([0-9.]+\s(?:s|min|days))", README.partition("`--list-scenarios`")[2].partition("\n\n")[0]))
    assert list(known) == list(SCENARIOS)
    units = {"s": 1, "min": 60, "days": 86400}
    for name, time in known.items():
        number, unit = time.split()[:2]
        ends = []
        for event in SCENARIOS[name]["events"]:
            notice = 0 if event.get("EventStatus") == "Started" else event["NoticeSeconds"]
            life = event["CancelSeconds"] if "CancelSeconds" in event else notice + event["ImpactSeconds"] + event["SettleSeconds"]
            ends.append(event.get("After", 0) + life)
        assert abs(float(number) * units[unit] - max(ends)) <= units[unit] / 2, name


def test_a_command_goes_on_when_the_service_ends():
    """Systemd would end it with the simulator."""
    assert "A command that still runs when the simulator ends goes on to its own end." in README
    assert "\nKillMode=process\n" in (ROOT / "roles" / "imds_simulator" / "templates" / "imds_simulator.service.j2").read_text()


def test_every_option_field_and_fault_is_told():
    """The options by the command itself, all else by the README."""
    told = subprocess.run([sys.executable, str(SCRIPT), "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    explained = set(re.findall(r"^  (?:-h, )?(--[a-z-]+).*?(?:\n? {8,}| {2,})\w", told.partition("\noptions:\n")[2], re.MULTILINE))
    assert explained == {"--help", *re.findall(r"--[a-z-]+", told.partition("\n\n")[0])}
    assert set(re.findall(r"`(--[a-z-]+)", README)) - explained <= {"--control"}
    for name in (*FAULT_CHECKS, *ENTRY_CHECKS, *MOVES, "Probability", "Seed", "Skip"):
        assert name in README, name
    assert json.loads((SCRIPT.with_name("scenario.schema.json")).read_text())["title"]
