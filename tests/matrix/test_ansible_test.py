# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The targets in tests/integration/targets with ansible-test of the oldest core. tests/checks runs them with the newest."""

from __future__ import annotations

import pytest

from tests.matrix import environments
from tests.support.ansible_test import not_run, run_targets


@pytest.mark.long
@pytest.mark.timeout(environments.MAKE_SECONDS + 900)
def test_every_target(tmp_path):
    programs = environments.core(environments.oldest_core())
    said = run_targets(tmp_path, programs=programs, seconds=890)
    assert not_run(said) == [], said
