# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The targets in tests/integration/targets, run by ansible-test of the installed ansible-core. tests/matrix runs them with the oldest."""

from __future__ import annotations

import pytest

from tests.support.ansible_test import TARGETS, not_run, run_targets
from tests.support.public import public_plugins


def test_every_public_module_filter_and_lookup_has_a_target():
    names = {plugin.name if plugin.kind == "module" else f"{plugin.kind}_{plugin.name}" for plugin in public_plugins().values()}
    assert len(names) > 8
    assert set(TARGETS) == names


@pytest.mark.timeout(300)
def test_one_target(tmp_path):
    said = run_targets(tmp_path, "task_hold", seconds=290)
    assert "Running task_hold integration test role" in said, said


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_target(tmp_path):
    said = run_targets(tmp_path, seconds=890)
    assert not_run(said) == [], said
