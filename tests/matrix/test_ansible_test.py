# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a contributor may run with ansible-test: the unit tests, and the targets in tests/integration/targets with the oldest core.

tests/checks runs the targets with the newest core, and ansible-test sanity.
"""

from __future__ import annotations

import tomllib

import pytest

from tests.matrix import environments
from tests.support.ansible_test import not_run, run_targets, run_units
from tests.support.checkout import ROOT

# A core, and the Python for which its ansible-test runs the unit tests. Every core runs them on a controller, and every Python of hosts those of modules.
# In containers, public CI does the same.
UNITS = [
    ("2.17", "3.7"),
    ("2.17", "3.10"),
    ("2.18", "3.8"),
    ("2.18", "3.11"),
    ("2.19", "3.12"),
    ("2.20", "3.9"),
    ("2.20", "3.12"),
    ("2.21", "3.13"),
]


@pytest.mark.long
@pytest.mark.timeout(environments.MAKE_SECONDS + 900)
def test_every_target(tmp_path):
    programs = environments.core(environments.oldest_core())
    said = run_targets(tmp_path, programs=programs, seconds=890)
    assert not_run(said) == [], said


@pytest.mark.long
@pytest.mark.timeout(environments.MAKE_SECONDS + 1800)
@pytest.mark.parametrize(("core", "python"), UNITS)
def test_every_unit_test(tmp_path, core, python):
    if environments.find_python(python) is None:
        pytest.fail(f"Python {python} with the module venv is not on this machine", pytrace=False)
    passed = run_units(tmp_path, environments.core(core), python, seconds=1790)
    assert passed["modules"] >= 250 and passed["module_utils"] >= 1600
    assert passed.get("controller", 0) >= (3500 if python in environments.CORES[core] else 0)


def test_every_core_and_python_has_its_unit_tests():
    assert {core for core, python in UNITS if python in environments.CORES[core]} == set(environments.CORES)
    assert {python for _core, python in UNITS} == set(environments.TARGETS)


def test_public_ci_runs_the_unit_tests_for_the_same_ones():
    sessions = tomllib.loads((ROOT / "antsibull-nox.toml").read_text())["sessions"]
    listed = sessions["ansible_test_units"]["core_python_versions"]
    assert [(core, python) for core, pythons in listed.items() for python in pythons if core != "devel"] == UNITS
