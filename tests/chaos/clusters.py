# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A member of a real cluster that is taken through a Reboot by a run that is killed, and by the run after it."""

from __future__ import annotations

import os
import signal
import time
from unittest import mock

from tests.chaos import killer
from tests.support.checkout import SURROUNDINGS
from tests.support.cluster_members import KINDS
from tests.support.cluster_site import ClusterSite
from tests.support.patience import patient

# Seconds for all runs of a case, and for one of them.
CASE_LIMIT, RUN_LIMIT = 300.0, 200.0


def scenario_of(kind):
    return f"{kind}_reboot"


def kind_of(scenario):
    """The type of the drain step; None if no member of a cluster is in this scenario."""
    return next((kind for kind in KINDS if scenario_of(kind) == scenario), None)


def play(members, folder, case=None, **variables):
    """See a Reboot through. Returns whether the first run was killed; fails if anything is lost, or left behind. C(variables): more of all hosts."""
    folder.mkdir()
    site = ClusterSite(folder, members.nodes, variables, **members.step)
    try:
        before, name = members.state(), members.chosen()
        with members.clients():
            event_id = site.simulator.post_event(EventType="Reboot", Resources=[name], ImpactSeconds=None, SettleSeconds=1)
            with mock.patch.dict(os.environ, killer.environment(folder, case)):
                process = site.start("handle_events", handle_events_timeout=patient(RUN_LIMIT))
            was_killed = is_hit = False
            ends = time.monotonic() + patient(CASE_LIMIT)
            while process.poll() in (None, -signal.SIGKILL):
                if process.returncode is not None:
                    was_killed = True
                    process.stdout.close()
                    process = site.start("handle_events", handle_events_timeout=patient(RUN_LIMIT))
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


def replay(case, folder):
    """Play a case with a cluster of its own, outside pytest."""
    kind = KINDS[kind_of(case.scenario)]
    (folder / "cluster").mkdir(parents=True)
    with mock.patch.dict(os.environ, SURROUNDINGS), kind.started(folder / "cluster") as cluster:
        return play(kind(cluster), folder / "run", case)
