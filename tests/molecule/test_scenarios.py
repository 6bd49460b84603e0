# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The molecule scenarios: the collection on booted guests, see tests/bed/bed.py."""

from __future__ import annotations

import os
import sys

import pytest

from tests.support.checkout import BUILD, ROOT, must_pass

SCENARIOS = sorted(path.parent.name for path in (ROOT / "extensions" / "molecule").glob("*/molecule.yml"))
LONG = ("kills",)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", [pytest.param(name, marks=pytest.mark.long if name in LONG else ()) for name in SCENARIOS])
def test_scenario(scenario):
    if os.geteuid() != 0:
        pytest.skip("real hosts are booted by root alone: sudo make test")
    try:
        must_pass("molecule", "test", "--scenario-name", scenario, timeout=590)
    finally:
        # However it ended.
        must_pass(sys.executable, "tests/bed/bed.py", "--folder", str(BUILD / "bed" / "molecule"), "down")
