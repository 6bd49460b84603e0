# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A limit that guards against hanging does not fail a suite that is only slow."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support import patience
from tests.support.checkout import ROOT, must_pass

SLOW = """
import time
import pytest

@pytest.mark.timeout(0.3)
def test_it():
    time.sleep(0.6)
"""


@pytest.fixture(name="machine")
def pretended(monkeypatch):
    """A machine of two cores: its speed, beside the one for which the limits were written, and its load, as the work tells it and on average."""
    monkeypatch.delenv(patience.VARIABLE, raising=False)
    monkeypatch.setattr(patience.os, "sched_getaffinity", lambda _process: {0, 1})

    def be(speed=1.0, crowd=1.0, load=0.0):
        cpu = patience.REFERENCE_SECONDS / speed
        monkeypatch.setattr(patience, "_last", None)
        monkeypatch.setattr(patience, "_work", lambda: (cpu * crowd, cpu))
        monkeypatch.setattr(patience.os, "getloadavg", lambda: (load, load / 2, 0.0))

    return be


@pytest.mark.parametrize(
    ("machine_is", "times"),
    [
        ({}, 1),
        ({"speed": 2.0}, 1),
        ({"speed": 0.5}, 2),
        ({"crowd": 2.0, "load": 4.0}, 1),
        ({"crowd": 6.0}, 3),
        ({"load": 12.0}, 3),
        ({"speed": 0.5, "load": 8.0}, 4),
        ({"speed": 2.0, "load": 16.0}, 2),
        ({"speed": 0.1, "crowd": 9.0, "load": 20.0}, patience.MOST),
    ],
)
def test_slow_and_busy_machines_get_more(machine, machine_is, times):
    machine(**machine_is)
    assert patience.patient(10) == pytest.approx(10 * times)


def test_a_measurement_holds_for_a_while(machine, monkeypatch):
    machine(crowd=6.0)
    assert patience.patience() == pytest.approx(3)
    monkeypatch.setattr(patience, "_work", lambda: (1.0, 1.0))
    assert patience.patience() == pytest.approx(3)
    later = patience.time.monotonic() + patience.HOLDS_SECONDS + 1
    monkeypatch.setattr(patience.time, "monotonic", lambda: later)
    assert patience.patience() == patience.MOST


def test_the_work_takes_time():
    wall, cpu = patience._work()
    assert wall > 0 and cpu > 0


def test_the_limit_of_a_test(tmp_path):
    (tmp_path / "test_slow.py").write_text(SLOW)
    command = [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "-p", "tests.conftest", "-p", "no:cacheprovider", "-q", tmp_path]
    must_pass(*command, env={patience.VARIABLE: "20"})


def test_the_limit_of_a_command(monkeypatch):
    monkeypatch.setenv(patience.VARIABLE, "20")
    must_pass("sleep", "0.3", timeout=0.1)
    monkeypatch.setenv(patience.VARIABLE, "1")
    with pytest.raises(subprocess.TimeoutExpired):
        must_pass("sleep", "0.3", timeout=0.1)
