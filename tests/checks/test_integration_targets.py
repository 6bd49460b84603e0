# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The targets in tests/integration/targets, run by ansible-test of the installed ansible-core. tests/matrix runs them with the oldest."""

from __future__ import annotations

import pytest

from tests.support.ansible_test import run_targets
from tests.support.checkout import ROOT

FOLDER = ROOT / "tests" / "integration" / "targets"
TARGETS = sorted(path.name for path in FOLDER.iterdir() if not path.name.startswith("setup_"))


@pytest.mark.timeout(300)
def test_one_target(tmp_path):
    said = run_targets(tmp_path, "task_hold", seconds=290)
    assert "Running task_hold integration test role" in said, said


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_target(tmp_path):
    said = run_targets(tmp_path, seconds=890)
    assert [name for name in TARGETS if f"Running {name} integration test role" not in said] == [], said
