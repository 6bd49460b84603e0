# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Members of real clusters, while handle_events is killed at its every task.

The first run takes a member through a Reboot. It is killed at the first or the last occurrence of a task, or in a turn, in which steps are taken. Another run
follows. At the end the cluster is as it was, nothing is on record, and the clients have lost nothing. tests/integration/test_cluster_*.py kill the module
beside each change.
"""

from __future__ import annotations

import json
import os
import signal
import time
from unittest import mock

import pytest

from tests.chaos import killer
from tests.chaos.stage import read_trace
from tests.support.cluster_members import KINDS
from tests.support.cluster_site import NEEDED, ClusterSite

KILLS = 26
# Seconds for all runs of a case, and for one of them.
CASE_LIMIT, RUN_LIMIT = 300.0, 200.0
# A case may need an undisturbed one before it to learn the tasks, and a second try.
pytestmark = [*NEEDED, pytest.mark.long, pytest.mark.timeout(3 * CASE_LIMIT + 120)]

SEED = os.environ.get("CHAOS_SEED", "1")


@pytest.fixture(name="members", scope="module", params=[pytest.param(name, marks=list(kind.needed)) for name, kind in KINDS.items()])
def start_members(request, tmp_path_factory):
    kind = KINDS[request.param]
    with kind.started(tmp_path_factory.mktemp(request.param)) as cluster:
        yield kind(cluster)


def play(members, folder, case=None):
    """See a Reboot through, with a run that is killed and the one after it. Returns whether the first run was killed."""
    folder.mkdir()
    site = ClusterSite(folder, members.nodes, **members.step)
    kill = {"task": case.task, "occurrence": case.occurrence, "delay": case.delay, "who": case.who} if case else None
    environment = {
        "ANSIBLE_CALLBACK_PLUGINS": str(killer.HERE / "plugins" / "callback"),
        "ANSIBLE_CALLBACKS_ENABLED": "chaos_killer",
        "CHAOS_TRACE": str(folder / "trace.jsonl"),
        "CHAOS_KILL": json.dumps(kill),
    }
    try:
        before, name = members.state(), members.chosen()
        with members.clients():
            event_id = site.simulator.post_event(EventType="Reboot", Resources=[name], ImpactSeconds=None, SettleSeconds=1)
            with mock.patch.dict(os.environ, environment):
                process = site.start("handle_events", handle_events_timeout=RUN_LIMIT)
            was_killed = is_hit = False
            ends = time.monotonic() + CASE_LIMIT
            while process.poll() in (None, -signal.SIGKILL):
                if process.returncode is not None:
                    was_killed = True
                    process.stdout.close()
                    process = site.start("handle_events", handle_events_timeout=RUN_LIMIT)
                if not is_hit and "Started" in site.simulator.statuses(event_id):
                    is_hit = True
                    members.reboot(site, name)
                    site.simulator.complete(event_id)
                assert time.monotonic() < ends, f"not over within {CASE_LIMIT:g} s: {site.simulator.event(event_id)}"
                time.sleep(0.05)
            run = site.finish(process)
        assert run.status == 0 and is_hit, run.output
        # The run after one that was killed at its end finds no event.
        assert [host["state"] for event in run.events or () for host in event["hosts"].values()] in ([], ["restored"], ["in_service"]), run.output
        assert members.state() == before and site.records() == [], run.output
    finally:
        site.close()
    return was_killed


@pytest.mark.parametrize("number", range(KILLS))
def test_killed_at_a_task(members, number, tmp_path, testrun_uid):
    scenario = f"{members.step['type']}_reboot"

    def learn(_case):
        play(members, tmp_path / "0")
        return {"trace": read_trace(tmp_path / "0")}

    # Workers that outlive their controller have cases of their own in test_chaos.py.
    case = killer.at_a_task(scenario, number, KILLS, SEED, killer.undisturbed(scenario, SEED, testrun_uid, learn), who=("all",))
    print(f"killed {case.delay:g} s after the beginning of {case.task!r} number {case.occurrence}")
    if not play(members, tmp_path / "1", case):
        assert play(members, tmp_path / "2", killer.again(case)), "the run was over before the kill"
