# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Windows hosts, modelled, with every ansible-core: what it sends to PowerShell differs."""

from __future__ import annotations

import pytest

from tests.matrix import environments
from tests.support.simulator import SHORT
from tests.support.windows.mixed import OFF_DUTY, Mixed

pytestmark = [pytest.mark.long, pytest.mark.timeout(environments.MAKE_SECONDS + 300)]


@pytest.mark.parametrize("core", environments.CORES)
def test_an_event_of_both_kinds_of_hosts(tmp_path, core):
    programs = environments.core(core)
    mixed = Mixed(tmp_path, python=programs / "python", programs=programs)
    try:
        event_id = mixed.simulator.post_event(EventType="Reboot", Resources=["web1", "win1"], **SHORT)
        run = mixed.site.run()
        assert run.status == 0 and run.event(event_id)["outcome"] == "completed", run.output
        assert mixed.seen[event_id, "Started"]["win1"] == OFF_DUTY
        mixed.check_nothing_is_left()
    finally:
        mixed.close()
