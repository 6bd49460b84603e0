# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many branches of transport, model, planning and holds the unit tests run. pyproject.toml names the files; ``make coverage`` shows what is missing."""

from __future__ import annotations

import json
import sys
import tomllib

import pytest

from tests.support.checkout import ROOT, must_pass

LEAST = 95  # percent


@pytest.fixture(name="measured", scope="module")
def measure(tmp_path_factory):
    folder = tmp_path_factory.mktemp("coverage")
    data, told = folder / "data", folder / "told.json"
    coverage = [sys.executable, "-m", "coverage"]
    command = ("run", f"--data-file={data}", "-m", "pytest", "--quiet", "tests/unit/plugins")
    must_pass(*coverage, *command, env={"HYPOTHESIS_PROFILE": "coverage"}, timeout=1700)
    must_pass(*coverage, "json", f"--data-file={data}", "-o", str(told), "--quiet")
    return json.loads(told.read_text())


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_branches_of_every_part_are_run(measured):
    """In each file, not on average: a part that nothing tests would vanish among the others."""
    run = {name: file["summary"] for name, file in measured["files"].items()}
    assert len(run) > 25
    few = {name: round(100 * each["covered_branches"] / each["num_branches"], 1) for name, each in run.items() if each["num_branches"]}
    assert {name: percent for name, percent in few.items() if percent < LEAST} == {}


def test_every_file_that_is_named_is_there():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert [pattern for pattern in settings["tool"]["coverage"]["run"]["include"] if not any(ROOT.glob(pattern))] == []
