# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is tested on the machine's own HAProxy, on every other version that can be had.

Each version runs the tests in a process of its own, so that they choose the program as one setting.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.matrix import environments, haproxies
from tests.support.checkout import ROOT

# The program is fetched first; the tests take half a minute on a machine that has nothing else to do.
pytestmark = pytest.mark.timeout(environments.MAKE_SECONDS + 900)

INFO = "tests/integration/test_haproxy_info.py"
HOLD = "tests/integration/test_haproxy_hold.py"
CONFIGURATIONS = "tests/integration/test_haproxy_configurations.py"
# What a version can change most easily: its answers, its states, and what it does to sessions.
SAMPLE = [
    INFO + "::TestWhatItSees::test_what_takes_no_traffic_is_not_in_service",
    HOLD + "::TestEveryState",
    *(f"{CONFIGURATIONS}::{name}" for name in ("TestHashes", "TestBackup", "TestTrack", "TestDynamicServers")),
]


def run_with(version, *tests):
    program = haproxies.haproxy(version)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=0", "--durations-min=60", *tests],
        cwd=ROOT,
        env=dict(os.environ, GRACEFUL_AZURE_HAPROXY=str(program), GRACEFUL_AZURE_HAPROXY_VERSION=version),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"HAProxy {version}:\n{done.stdout}", pytrace=False)


# This one needs no mirror of Debian.
@pytest.mark.parametrize("version", list(haproxies.PYTHON_PACKAGES))
def test_a_sample(version):
    run_with(version, *SAMPLE)


@pytest.mark.long
@pytest.mark.parametrize("version", haproxies.VERSIONS)
def test_every_version(version):
    run_with(version, INFO, HOLD, CONFIGURATIONS)


def test_a_machine_without_a_mirror(monkeypatch, tmp_path):
    """What a machine lacks is told, never skipped."""
    monkeypatch.setattr(environments, "BUILD", tmp_path)
    monkeypatch.setattr(haproxies, "BUILD", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(pytest.fail.Exception) as failure:
        haproxies.haproxy("3.0")
    assert str(failure.value) == (
        "HAProxy 3.0 cannot be had from Debian's trixie: this machine's apt knows no mirror of Debian (or has not read its lists: apt-get update)"
    )
