# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The simulator passes the conformance suite; the suite tells another service from it; the table of facts names what there is."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys

import pytest

from tests.conformance import run as suite
from tests.matrix import environments
from tests.support.checkout import ROOT
from tests.support.patience import patient
from tests.support.simulator import Simulator

RUNNER = ROOT / "tests" / "conformance" / "run.py"


@pytest.fixture(scope="module")
def simulator():
    with Simulator(["a", "b", "c", "d"], options=["--domains", "2"]) as simulator:
        yield simulator


@pytest.fixture(scope="module")
def control(simulator):
    return suite.Simulator(simulator.control, patient(5))


@pytest.mark.parametrize("number", suite.CASES)
def test_the_simulator_does_what_is_known(control, number):
    assert suite.run(suite.CASES[number], control.first, control) is None


def runner(*arguments):
    done = subprocess.run([sys.executable, str(RUNNER), *arguments], capture_output=True, text=True, timeout=patient(100), check=False)
    return done.returncode, done.stdout


@pytest.mark.timeout(200)
def test_without_the_control_address_it_only_reads(simulator, monkeypatch, capsys):
    monkeypatch.setattr(suite.time, "sleep", lambda _seconds: None)
    before = len(simulator.requests())
    assert suite.main(["--url", simulator.urls["a"]]) == 0
    requests = simulator.requests()[before:]
    assert requests
    assert {request["Method"] for request in requests} == {"GET"}
    told = capsys.readouterr().out
    assert "UNLIKE" not in told
    assert f"not asked (malformed): {suite.CASES['A3'].title}" in told
    assert suite.main(["--url", simulator.urls["a"], "--malformed"]) == 0
    assert "not asked (malformed)" not in capsys.readouterr().out
    assert all(not event["Approvals"] for event in simulator.events() if event["EventStatus"] == "Scheduled")


def test_five_requests_a_second_are_enough(capsys):
    """V1 asks seven times; an address needs no http://."""
    with Simulator(["a"], options=["--rate", "5"]) as simulator:
        assert suite.main(["--url", simulator.urls["a"].partition("://")[2], "--case", "V1"]) == 0
    assert "V1   as known" in capsys.readouterr().out


def test_an_instance_endpoint_that_refuses_redirects_nowhere(monkeypatch):
    """As the real one with an unknown version; it has versions of its own."""
    asked = []
    service = suite.Service("http://127.0.0.1:1")
    monkeypatch.setattr(suite, "send", lambda _url, _method, path, query, *_more: asked.append((path, query)) or suite.Answer(400, {}, b""))
    assert suite.run(suite.CASES["T9"], service, None) is None
    assert ("/metadata/instance", ["api-version=2021-02-01"]) in asked


@pytest.mark.parametrize("address", ["127.0.0.1:1", "http://127.0.0.1:1", "127.0.0.1:abc", "metadata service"])
def test_a_control_address_that_is_none(simulator, address, capsys):
    address = address.replace("metadata service", simulator.urls["a"])
    assert suite.main(["--control", address, "--case", "T1"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"{address} is no control address of a simulator: ")
    assert told.err.count("\n") == 1


def test_another_service_is_told_from_it(simulator):
    """The control address is no metadata service."""
    status, told = runner("--url", simulator.control, "--case", "T2", "--case", "D1", "--case", "I2")
    assert status == 1
    assert told.count("UNLIKE") == 3
    assert runner("--url", "http://127.0.0.1:1", "--case", "T1")[0] == 1


@pytest.mark.parametrize(
    ("fault", "number"),
    [
        ({"Status": 200, "Body": "{}"}, "T2"),
        ({"Incarnation": 1}, "D3"),
        ({"Stale": True}, "D17"),
        ({"IsoDates": True}, "D18"),
        ({"ClockOff": 60}, "D4"),
        ({"UnknownType": "x"}, "D11"),
        ({"StringNumbers": True}, "D2"),
        ({"Status": 503}, "L1"),
        ({"Huge": 1}, "D6"),
        ({"Redirect": "/"}, "T9"),
    ],
)
def test_a_service_that_does_otherwise_is_told_from_it(control, monkeypatch, fault, number):
    """Each of these faults, all the time, is found by its case."""
    control.clear()
    monkeypatch.setattr(control, "clear", lambda: None)
    method = "POST" if number == "L1" else "GET"
    control.ask("POST", "/faults", {"Fault": fault, "Method": method, **({"Skip": 1, "Times": 1} if number == "D4" else {})})
    try:
        if number == "D4":
            control.add(NoticeSeconds=900)
        assert suite.run(suite.CASES[number], control.first, control)
    finally:
        monkeypatch.undo()
        control.clear()


# The table of facts

ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "tests" / "SIMULATOR.md").read_text().splitlines()
    if re.match(r"\| [A-Z][0-9]", line)
]


def test_every_case_has_its_row_and_every_row_what_shows_it():
    shown_by_cases = [number for row in ROWS for number in row[4].split(", ") if re.fullmatch("[A-Z][0-9]+", number)]
    assert sorted(shown_by_cases) == sorted(suite.CASES)
    assert len({row[0] for row in ROWS}) == len(ROWS)
    for number, _fact, built, learnt, shown in ROWS:
        assert (shown == "-") == built.startswith("no"), number
        assert {word.split()[-1] for word in learnt.split(",")} <= {"documented", "observed", "assumed"}, number


@pytest.mark.parametrize(("path", "name"), sorted({found for row in ROWS for found in re.findall(r"`([\w/]+\.py)::(\w+)`", row[4])}))
def test_tests_that_the_table_names_are_there(path, name):
    tree = ast.parse((ROOT / "tests" / path).read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_runner_is_python_3_7():
    tree = ast.parse(RUNNER.read_text(), feature_version=(3, 7))
    imported = {alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= sys.stdlib_module_names


def test_the_list_of_cases():
    status, told = runner("--list")
    assert status == 0
    assert len(told.splitlines()) == len(suite.CASES)
    assert json.loads((RUNNER.parent / "vectors" / "2020-07-01.json").read_text())["DocumentIncarnation"] == 10


@pytest.mark.long
@pytest.mark.parametrize("minor", range(7, 14))
def test_with_every_python(minor):
    """Simulator and suite with each Python that the machine has."""
    python = environments.find_python(f"3.{minor}")
    if python is None:
        pytest.fail(f"Python 3.{minor} is not on this machine", pytrace=False)
    with Simulator(["a", "b", "c", "d"], options=["--domains", "2"], python=str(python)) as simulator:
        command = [str(python), str(RUNNER), "--control", simulator.control, "--patience", str(patient(5))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=patient(100), check=False)
        assert done.returncode == 0, done.stdout
