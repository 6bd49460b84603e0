# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Members of real clusters, while handle_events is killed at its every task.

The first run takes a member through a Reboot. It is killed at the first or the last occurrence of a task, or in a turn, in which steps are taken. Another run
follows. At the end the cluster is as it was, nothing is on record, and the clients have lost nothing. tests/integration/test_cluster_*.py kill the module
beside each change.
"""

from __future__ import annotations

import os

import pytest

from tests.chaos import killer
from tests.chaos.clusters import CASE_LIMIT, play, scenario_of
from tests.chaos.stage import read_trace
from tests.support.cluster_members import KINDS
from tests.support.cluster_site import NEEDED

KILLS = 26
# A case may need an undisturbed one before it to learn the tasks, and a second try.
pytestmark = [*NEEDED, pytest.mark.long, pytest.mark.timeout(3 * CASE_LIMIT + 120)]

SEED = os.environ.get("CHAOS_SEED", "1")


@pytest.fixture(name="members", scope="module", params=[pytest.param(name, marks=list(kind.needed)) for name, kind in KINDS.items()])
def start_members(request, tmp_path_factory):
    kind = KINDS[request.param]
    with kind.started(tmp_path_factory.mktemp(request.param)) as cluster:
        yield kind(cluster)


@pytest.mark.parametrize("number", range(KILLS))
def test_killed_at_a_task(members, number, tmp_path, testrun_uid):
    scenario = scenario_of(members.step["type"])

    def learn(_case):
        play(members, tmp_path / "0")
        return {"trace": read_trace(tmp_path / "0")}

    # Workers that outlive their controller have cases of their own in test_chaos.py.
    case = killer.at_a_task(scenario, number, KILLS, SEED, killer.undisturbed(scenario, SEED, testrun_uid, learn), who=("all",))
    print(f"killed {case.delay:g} s after the beginning of {case.task!r} number {case.occurrence}; to play it again: {case.replay()}")
    if not play(members, tmp_path / "1", case):
        assert play(members, tmp_path / "2", killer.again(case)), "the run was over before the kill"
