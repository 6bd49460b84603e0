# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Members of real clusters, while handle_events is killed at its every task.

The first run takes a member through a Reboot. It is killed at the first or the last occurrence of a task, or in a turn, in which steps are taken. Another run
follows. At the end the cluster is as it was, nothing is on record, and the clients have lost nothing. tests/integration/test_cluster_*.py kill the module
beside each change.
"""

from __future__ import annotations

import contextlib
import os

import pytest

from tests.chaos import killer
from tests.chaos.clusters import CASE_LIMIT, play, scenario_of
from tests.chaos.stage import read_trace
from tests.support.cluster_members import KINDS, Lost
from tests.support.cluster_site import NEEDED

# There are 11 tasks to kill at, counting first and last occurrences; the others are turns. RabbitMQ has fewer, as each of its runs takes four times as long.
KILLS = {kind: 17 if kind == "rabbitmq" else 26 for kind in KINDS}
CASES = [pytest.param(kind, number, marks=KINDS[kind].needed, id=f"{kind}-{number}") for kind, kills in KILLS.items() for number in range(kills)]
# A case may need an undisturbed one before it to learn the tasks, and a second try.
pytestmark = [*NEEDED, pytest.mark.long, pytest.mark.timeout(3 * CASE_LIMIT + 120)]

SEED = os.environ.get("CHAOS_SEED", "1")


class Started:
    """The cluster that runs: the one for which there was a case last."""

    def __init__(self, make_folder):
        self._make_folder = make_folder
        self._kind = self._members = None
        self._stack = contextlib.ExitStack()

    @contextlib.contextmanager
    def lent(self, kind):
        """Its members. A case that fails leaves nothing to the next one."""
        if kind != self._kind:
            self.close()
            cluster = self._stack.enter_context(KINDS[kind].started(self._make_folder(kind)))
            self._kind, self._members = kind, KINDS[kind](cluster)
        try:
            yield self._members
        except BaseException:
            self.close()
            raise

    def close(self):
        self._kind = self._members = None
        self._stack.close()


@pytest.fixture(name="started", scope="module")
def start_one_after_the_other(tmp_path_factory):
    started = Started(tmp_path_factory.mktemp)
    yield started
    started.close()


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=KINDS[kind].needed) for kind in KINDS])
def test_without_the_step_clients_lose_something(started, kind, tmp_path, monkeypatch):
    """Otherwise the cases below prove nothing."""
    # Nobody waits for the job that has the node, so it must last until the reboot.
    monkeypatch.setattr(KINDS["slurm"], "LONG", 30)
    with pytest.raises(Lost), started.lent(kind) as members:
        play(members, tmp_path / "0", graceful_azure_rules=[{"name": "at once", "action": "approve"}])


@pytest.mark.parametrize(("kind", "number"), CASES)
def test_killed_at_a_task(started, kind, number, tmp_path, testrun_uid):
    with started.lent(kind) as members:
        see_killed(members, kind, number, tmp_path, testrun_uid)


def see_killed(members, kind, number, tmp_path, testrun_uid):
    scenario = scenario_of(kind)

    def learn(_case):
        play(members, tmp_path / "0")
        return {"trace": read_trace(tmp_path / "0")}

    # Workers that outlive their controller have cases of their own in test_chaos.py.
    case = killer.at_a_task(scenario, number, KILLS[kind], SEED, killer.undisturbed(scenario, SEED, testrun_uid, learn), who=("all",))
    print(f"killed {case.delay:g} s after the beginning of {case.task!r} number {case.occurrence}; to play it again: {case.replay()}")
    if not play(members, tmp_path / "1", case):
        earlier = killer.again(case, read_trace(tmp_path / "1"))
        assert play(members, tmp_path / "2", earlier), "the run was over before the kill"
