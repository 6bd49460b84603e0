# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The journal of a real run, planned again."""

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._replay import read_pass, replay

from tests.support.simulator import SHORT

pytestmark = pytest.mark.timeout(300)


def test_every_pass_of_a_run_is_decided_as_the_run_did(site):
    journal = site.folder / "journal"
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], **SHORT)
    run = site.run(handle_events_journal=str(journal))
    assert run.status == 0, run.output

    lines = journal.read_text().splitlines()
    assert len(lines) > 3
    states = []
    for line in lines:
        recorded = read_pass(line)
        assert replay(recorded)["differences"] == []
        assert replay(recorded)["events"] == recorded["events"]
        states.append(recorded["hosts"]["web1"]["state"])
    assert states[-1] == "restored" and "draining" in states

    # The same by the playbook, of which no host is needed.
    shown = site.run("replay", replay_journal=str(journal))
    assert shown.status == 0, shown.output
    assert f"{len(lines)} passes planned again, each decided as the run did" in shown.output
    assert re.search(r"web1  draining  .*load_balancer out", shown.output)
    assert event_id in json.dumps(json.loads(lines[0])["events"])

    one = site.run("replay", replay_journal=str(journal), replay_pass=2)
    assert one.status == 0, one.output
    assert "pass 2 of the run" in one.output and "pass 3" not in one.output
    assert re.search(r"web2  in_service  no event names it", one.output)

    # A pass that was decided otherwise, and the half line of a run that was killed.
    other = json.loads(lines[1])
    other["hosts"]["web1"]["state"] = "in_service"
    journal.write_text("\n".join([lines[0], json.dumps(other), lines[2][:50]]))
    different = site.run("replay", replay_journal=str(journal))
    assert different.status != 0
    assert "differs: web1: state was 'in_service'" in different.output
    assert "1 of them decided otherwise" in different.output
    assert re.search(r"line 3\s+is\s+cut off", different.output)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "replay_journal"),
        ({"replay_journal": "nowhere.journal"}, "nowhere.journal"),
        ({"replay_journal": "/dev/null"}, "holds no pass"),
        ({"replay_journal": "/dev/null", "replay_pass": "last"}, "last"),
    ],
)
def test_a_journal_that_cannot_be_replayed(site, variables, said):
    run = site.run("replay", **variables)
    assert run.status != 0
    assert said in run.output
    assert "Traceback" not in run.output
