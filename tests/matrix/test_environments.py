# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a machine lacks is told, never skipped."""

from __future__ import annotations

import sys

import pytest

from tests.matrix import environments


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    monkeypatch.setattr(environments, "BUILD", tmp_path)


def told(call):
    with pytest.raises(pytest.fail.Exception) as failure:
        call()
    return str(failure.value)


def test_no_python(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert told(lambda: environments.core("2.17")) == "ansible-core 2.17 needs Python 3.10 or 3.11 or 3.12 with the module venv; this machine has none"
    assert (environments.oldest_core(), environments.newest_core()) == ("2.17", "2.21")
    assert told(lambda: environments.target("3.7")) == "Python 3.7 with the module venv is not on this machine"


def test_a_machine_with_a_new_python_alone(monkeypatch):
    monkeypatch.setattr(environments, "find_python", lambda minor: sys.executable if minor == "3.13" else None)
    assert (environments.oldest_core(), environments.newest_core()) == ("2.18", "2.21")


@pytest.mark.long
def test_no_package(monkeypatch):
    # No index is asked.
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(environments, "find_python", lambda _minor: sys.executable)
    monkeypatch.setattr(environments, "CORES", {"1.0": ("3.13",)})
    said = told(lambda: environments.core("1.0"))
    assert said.startswith(f"ansible-core ~= 1.0.0, requests, jmespath could not be installed for {sys.executable}: ERROR: No matching distribution")
    assert "\n" not in said
