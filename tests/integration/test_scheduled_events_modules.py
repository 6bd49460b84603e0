# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modules for scheduled events, run by ansible-playbook against the simulator."""

from __future__ import annotations

import pytest

from tests.support.patience import patient
from tests.support.playbook import Playbook
from tests.support.simulator import Simulator

INFO = "graceful.azure.scheduled_events_info"
APPROVE = "graceful.azure.scheduled_events_approve"
WAIT = "graceful.azure.scheduled_events_wait"


@pytest.fixture
def simulator():
    with Simulator(["vm-1", "vm-2"]) as running:
        yield running


@pytest.fixture
def run(tmp_path, simulator):
    playbook = Playbook(tmp_path)
    defaults = {"module_defaults": {"group/graceful.azure.imds": {"imds_url": simulator.urls["vm-1"]}}}

    def call(*tasks, **options):
        written = [dict({"name": name, module: args}, **keywords) for name, module, args, keywords in tasks]
        done = playbook.run(written, play=defaults, **options)
        assert "Traceback" not in done.output
        return done

    return call


def task(name, module, keywords=None, **args):
    return name, module, args, keywords or {}


def test_an_event_from_announcement_to_its_end(run, simulator):
    event_id = simulator.post_event(EventType="Reboot", Resources=["VM-1", "vm-2"], NoticeSeconds=None, ImpactSeconds=None, SettleSeconds=0.5)
    mine = {"event_ids": [event_id.upper()]}
    done = run(
        task("standing", INFO, affecting_host_only=True),
        task("present", WAIT),
        task("predicted", APPROVE, {"check_mode": True}, **mine),
        task("untouched", INFO),
        task("approved", APPROVE, **mine),
        task("started", WAIT, state=["absent", "started"], timeout=20, sleep=0.1, **mine),
        task("again", APPROVE, **mine),
        task("impact_over", "ansible.builtin.uri", url=f"{simulator.control}/events/{event_id}/complete", method="POST"),
        task("over", WAIT, state="absent", timeout=20, sleep=0.1, **mine),
        task("gone", APPROVE, **mine),
        task("nothing", INFO),
    )
    (event,) = done["standing"]["events"]
    assert event["event_id"] == event_id
    assert event["resources"] == ["VM-1", "vm-2"]
    assert done["standing"]["resource_name"] == "vm-1"
    assert done["present"]["outcome"] == "present"
    assert (done["predicted"]["changed"], done["predicted"]["approved"]) == (True, [event_id])
    assert done["untouched"]["events"][0]["event_status"] == "Scheduled"
    assert (done["approved"]["changed"], done["approved"]["approved"]) == (True, [event_id])
    assert (done["started"]["outcome"], done["started"]["changed"]) == ("started", False)
    assert (done["again"]["changed"], done["again"]["not_approved"]) == (False, [{"event_id": event_id, "reason": "started"}])
    assert (done["over"]["outcome"], done["over"]["events"]) == ("absent", [])
    assert (done["gone"]["changed"], done["gone"]["not_approved"]) == (False, [{"event_id": event_id.upper(), "reason": "absent"}])
    assert done["nothing"]["events"] == []
    assert done.status == 0
    assert len(simulator.requests(method="POST")) == 1
    assert simulator.approvers(event_id) == ["vm-1"]


def test_events_of_other_hosts(run, simulator):
    own = simulator.post_event(Resources=["vm-1"], NoticeSeconds=None)
    foreign = simulator.post_event(Resources=["vm-2"], NoticeSeconds=None)
    done = run(
        task("refused", APPROVE, event_ids=[own, foreign]),
        task("empty", APPROVE, event_ids=[]),
        task("named", APPROVE, event_ids=[foreign], resource_name="VM-2"),
        task("allowed", APPROVE, event_ids=[own], allow_other_hosts=True),
    )
    assert foreign in done["refused"]["msg"] and "vm-2" in done["refused"]["msg"]
    assert "event_ids" in done["empty"]["msg"]
    assert done["named"]["approved"] == [foreign]
    assert done["allowed"]["approved"] == [own]
    assert len(simulator.requests(method="POST")) == 2


@pytest.mark.parametrize("version", ["2017-03-01", "2019-08-01"])
def test_older_versions(run, simulator, version):
    event_id = simulator.post_event(Resources=["vm-1"], NoticeSeconds=None)
    done = run(
        task("standing", INFO, api_version=version),
        task("approved", APPROVE, api_version=version, event_ids=[event_id]),
    )
    (event,) = done["standing"]["events"]
    assert (event["resources"], event["affects_host"], event["duration_in_seconds"]) == (["vm-1"], True, None)
    assert done["approved"]["approved"] == [event_id]


def test_hostile_words_stay_words(run, simulator, tmp_path):
    trap = tmp_path / "trap"
    words = "{{ lookup('pipe', 'touch %s') }}; touch %s\n'\"$(touch %s)" % (trap, trap, trap)
    event_id = simulator.post_event(Resources=["vm-1", words], NoticeSeconds=None, Description=words, EventType="{{ 7 * 7 }}")
    done = run(
        task("standing", INFO),
        task("shown", "ansible.builtin.debug", msg="{{ standing.events[0].description }}{{ standing.events[0].resources[1] }}"),
        task("again", INFO, query="[?description == '{}']".format("x"), event_ids="{{ standing.events | map(attribute='event_id') }}"),
        task("waited", WAIT, timeout=1, sleep=0.2, state="absent"),
        task("approved", APPROVE, event_ids=[event_id]),
    )
    (event,) = done["standing"]["events"]
    assert (event["description"], event["resources"][1], event["event_type"]) == (words, words, "{{ 7 * 7 }}")
    assert done["shown"]["msg"] == words * 2
    assert done["waited"]["outcome"] == "timeout"
    assert done["approved"]["approved"] == [event_id]
    assert not trap.exists()


def test_a_wait_shows_what_it_waits_for_and_ends_in_time(run, simulator):
    simulator.post_event(EventId="A-1", Resources=["vm-1"], NoticeSeconds=None)
    simulator.fault({"Status": 503}, times=2)
    done = run(task("waited", WAIT, state="absent", timeout=12), task("checked", WAIT, {"check_mode": True}, state="absent"))
    assert "here: waiting for absent; A-1 (Reboot, Scheduled), " in done.output
    waited = done["waited"]
    assert waited["failed"]
    assert 12 <= waited["elapsed"] < 40
    assert (waited["outcome"], waited["changed"]) == ("timeout", False)
    assert waited["events"][0]["event_id"] == "A-1"
    assert "Timed out after " in waited["msg"]
    assert "_error" not in waited and "_part" not in waited
    assert (done["checked"]["outcome"], done["checked"].get("failed", False)) == (None, False)
    assert done["checked"]["elapsed"] < 5


def test_an_answer_without_the_event_is_not_its_end(run, simulator):
    """Empty ones and, for the approval, a document from before the event."""
    event_id = simulator.post_event(Resources=["vm-1"], NoticeSeconds=None)
    mine = {"event_ids": [event_id]}
    simulator.fault(Empty=True, times=3)
    stale = {"Vm": None, "Method": None, "Fault": {"Stale": True}, "Times": 1}
    done = run(
        task("waited", WAIT, state="absent", timeout=patient(2), sleep=0.2, **mine),
        task("fault", "ansible.builtin.uri", url=f"{simulator.control}/faults", method="POST", body=stale, body_format="json", status_code=[200, 201, 204]),
        task("approved", APPROVE, **mine),
    )
    assert (done["waited"]["outcome"], done["waited"]["events"][0]["event_id"]) == ("timeout", event_id)
    assert (done["approved"]["approved"], done["approved"]["not_approved"]) == ([event_id], [])


def test_a_slow_first_answer(run, simulator):
    simulator.post_event(Resources=["vm-1"], NoticeSeconds=None)
    simulator.fault({"Delay": 7}, times=1)
    done = run(task("waited", WAIT, timeout=30, request_timeout=2))
    assert done["waited"]["outcome"] == "present"
    assert 7 <= done["waited"]["elapsed"] < 30


def test_in_the_background(run, simulator):
    simulator.post_event(Resources=["vm-1"], NoticeSeconds=None)
    done = run(task("waited", WAIT, {"async": int(patient(20)), "poll": 1}, timeout=10))
    assert done["waited"]["outcome"] == "present"
