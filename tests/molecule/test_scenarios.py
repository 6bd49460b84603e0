# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The molecule scenarios: the collection on booted guests, see tests/bed/bed.py."""

from __future__ import annotations

import os
import sys

import pytest

from tests.support.checkout import BUILD, ROOT, must_pass
from tests.support.pages import example
from tests.support.ports import free_port

SCENARIOS = sorted(path.parent.name for path in (ROOT / "extensions" / "molecule").glob("*/molecule.yml"))
# Each of them takes a minute or more, and `make test` has twelve minutes. It has `default`, a reboot behind HAProxy. What is special to the others, the
# integration tests see without booted guests (test_handle_events.py, test_health_probe.py, test_nginx_handle_events.py, test_azure_handle_events.py).
LONG = tuple(name for name in SCENARIOS if name != "default")


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


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_example_of_a_role_of_ones_own(tmp_path):
    """The files that docs/test-your-own-role.md has, as they are, but for ports and folders that are free."""
    ports = [free_port() for _number in range(2)]
    for name, text in example("own-role").items():
        for old, new in (("8171", str(ports[0])), ("8169", str(ports[1])), ("/tmp/notice-example", f"{tmp_path}/notice-example")):
            text = text.replace(old, new)
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    told = must_pass("molecule", "test", cwd=tmp_path / "project", timeout=590)
    assert "See that it was approved once" in told
    assert not list(tmp_path.glob("notice-example*"))
