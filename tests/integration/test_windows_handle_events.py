# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""handle_events with two Linux hosts and two modelled Windows hosts behind one HAProxy."""

from __future__ import annotations

import time

import pytest

from tests.support.checkout import BUILD
from tests.support.patience import patient
from tests.support.simulator import SHORT
from tests.support.windows.inventory import shape
from tests.support.windows.mixed import OFF_DUTY, ON_DUTY, Mixed


@pytest.fixture
def mixed(tmp_path):
    found = Mixed(tmp_path)
    yield found
    found.close()


@pytest.mark.long
def test_an_event_of_both_kinds_of_hosts(mixed):
    """In make test, a run of tests/chaos/test_chaos.py does so that is killed, and whose metadata service errs."""
    event_id = mixed.simulator.post_event(EventType="Reboot", Resources=["web1", "win1"], **SHORT)
    run = mixed.site.run()
    assert run.status == 0, run.output
    event = run.event(event_id)
    assert event["outcome"] == "completed"
    assert {name: said["state"] for name, said in event["hosts"].items()} == {"web1": "restored", "win1": "restored"}
    approvals = mixed.simulator.event(event_id)["Approvals"]
    assert len(approvals) == 1
    # It was down when the event started, together with the service that depends on it.
    assert mixed.seen[event_id, "Started"] == {"win1": OFF_DUTY, "win2": ON_DUTY}
    mixed.check_nothing_is_left()
    # The acceptance playbook makes these calls, too (test_windows_acceptance.py).
    made = {shape(call)[:3] for host in mixed.hosts.values() for call in host.calls()}
    assert {shaped[:2] for shaped in made} <= {
        ("ansible.windows.win_powershell", "look"),
        ("ansible.windows.win_powershell", "service"),
        ("ansible.windows.win_powershell", "write"),
        ("ansible.windows.win_uri", "GET"),
        ("ansible.windows.win_uri", "POST"),
        *((f"microsoft.iis.{module}", state) for module in ("website", "web_app_pool") for state in ("started", "stopped")),
        *((f"microsoft.iis.{module}_info", "") for module in ("website", "web_app_pool")),
    }


@pytest.mark.long
def test_check_mode_shows_the_plan_and_sends_nothing(mixed):
    event_id = mixed.simulator.post_event(EventType="Reboot", Resources=["win1"])
    run = mixed.site.run("handle_events", "--check")
    assert run.status == 0 and event_id in run.output, run.output
    assert mixed.simulator.requests(method="POST") == []
    assert all(call["args"].get("url_method", "GET") == "GET" for host in mixed.hosts.values() for call in host.calls())
    mixed.check_nothing_is_left()


def test_what_the_controller_lacks_is_told_before_the_first_pass(mixed):
    mixed.write(graceful_azure_platform="windows")
    mixed.site.environment["ANSIBLE_COLLECTIONS_PATH"] = str(BUILD / "collections")
    run = mixed.site.run()
    assert run.status != 0
    assert "win1, win2: the controller has no ansible.windows" in run.output and "win1, win2: the controller has no microsoft.iis" in run.output
    assert mixed.simulator.requests() == [] and [host.calls() for host in mixed.hosts.values()] == [[], []]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_damaged_record_is_put_aside_by_hand(mixed):
    """Until then, nothing is done on its host. test_windows.py holds what the module does."""
    path = r"C:\ProgramData\graceful_azure\service-Cart-0123456789.json"
    with mixed.hosts["win1"].change() as state:
        state["folders"]["c:\\programdata\\graceful_azure"] = {}
        state["files"][path] = "ew=="
    shown = path.replace("\\", r"\\")  # as JSON has it
    run = mixed.site.run("holds")
    assert run.status == 0 and f"The record {path} cannot be used: it is not complete JSON." in run.output, run.output
    run = mixed.site.run("holds", holds_repair=True)
    assert run.status == 0 and f"{shown}.damaged-" in run.output, run.output
    assert [name.startswith(f"{path}.damaged-") for name in mixed.hosts["win1"].state()["files"]] == [True]
    mixed.check_nothing_is_left()


LIVES = {
    "Freeze": {"EventType": "Freeze", "Resources": ["web2", "win2"]},
    "Redeploy": {"EventType": "Redeploy", "Resources": ["win1", "win2"]},
    "Preempt": {"EventType": "Preempt", "Resources": ["win2"], "NoticeSeconds": 60},
    "no notice": {"EventType": "Reboot", "Resources": ["win1", "web1"], "EventStatus": "Started", "ImpactSeconds": 20},
}


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("life", LIVES)
def test_lives_of_events(mixed, life):
    event_id = mixed.simulator.post_event(**{"ImpactSeconds": 2, "SettleSeconds": 1, **LIVES[life]})
    run = mixed.site.run()
    assert run.status == 0, run.output
    assert run.events, run.output
    event = run.event(event_id)
    assert event["outcome"] == ("not_approved" if life == "no notice" else "completed")
    assert set(event["hosts"]) == set(LIVES[life]["Resources"])
    if life != "no notice":
        for name in LIVES[life]["Resources"]:
            if name in mixed.hosts:
                assert mixed.seen[event_id, "Started"][name] == OFF_DUTY
    mixed.check_nothing_is_left()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_cancelled_event(mixed):
    # Its connection stays, so it is never drained and never approved.
    with mixed.hosts["win1"].change() as state:
        port = mixed.site.listeners["win1"].port
        state["connections"] = [[port, "10.0.0.9", 5000, "Established"]]
    event_id = mixed.simulator.post_event(EventType="Reboot", Resources=["win1"])
    process = mixed.site.start("handle_events")
    mixed.site.await_state("win1", "drain")
    time.sleep(3)
    mixed.simulator.cancel(event_id)
    run = mixed.site.finish(process)
    assert run.status == 0 and run.event(event_id)["outcome"] == "cancelled", run.output
    assert mixed.simulator.event(event_id)["Approvals"] == []
    mixed.check_nothing_is_left()


PROBED = {"type": "health_probe", "interval": 1, "threshold": 1, "margin": 0}
ANSWERS = {
    "file": {"action": "file", "file": r"C:\inetpub\health\out.txt"},
    "service": {"action": "service", "service": "Answer"},
    "iis_site": {"action": "iis_site", "iis_site": "Health"},
}


def with_health(mixed):
    """Each Windows host gets a service and a site that only answer the probe."""
    for host in mixed.hosts.values():
        with host.change() as state:
            state["services"]["Answer"] = {"status": "Running"}
            state["sites"]["Health"] = {"state": "Started"}


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("answer", ANSWERS)
def test_behind_a_health_probe(mixed, answer):
    """The balancer asks the host itself. test_windows.py holds each of the answers by itself."""
    with_health(mixed)
    mixed.write({**PROBED, **ANSWERS[answer]})
    on_duty = mixed.duties("win1")
    event_id = mixed.simulator.post_event(EventType="Reboot", Resources=["win1"], **SHORT)
    run = mixed.site.run()
    assert run.status == 0 and run.event(event_id)["outcome"] == "completed", run.output
    down = {**OFF_DUTY, "Answer": "Stopped" if answer == "service" else "Running", "Health": "Stopped" if answer == "iis_site" else "Started"}
    assert mixed.seen[event_id, "Started"]["win1"] == down
    for host in mixed.hosts.values():
        assert not any("health" in path for path in host.state()["files"]) and host.mistakes() == [] and host.records() == {}
    assert mixed.duties("win1") == on_duty


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_health_site_that_is_not_there(mixed):
    """Nothing is changed and nothing is approved; the run says which site it is."""
    mixed.write({**PROBED, **ANSWERS["iis_site"]})
    before = mixed.duties("win1")
    event_id = mixed.simulator.post_event(EventType="Reboot", Resources=["win1"], NoticeSeconds=25, **SHORT)
    run = mixed.site.run(handle_events_timeout=patient(100))
    assert run.status != 0 and "IIS has no site Health (option iis_site)." in run.output, run.output
    assert mixed.simulator.event(event_id)["Approvals"] == [] and mixed.duties("win1") == before
    assert all(host.mistakes() == [] and host.records() == {} for host in mixed.hosts.values())


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_controller_is_killed_again_and_again(mixed):
    """Each run is killed a few calls later than the one before. The records survive, and the last run ends it."""
    event_id = mixed.simulator.post_event(EventType="Reboot", Resources=["win1", "win2"], NoticeSeconds=None, ImpactSeconds=3, SettleSeconds=1)
    kills = 0
    while mixed.simulator.event(event_id)["EventStatus"] in ("Scheduled", "Started") and kills < 25:
        limit = mixed.count_calls() + 5 + kills % 7 * 3
        process = mixed.site.start("handle_events")
        deadline = time.monotonic() + patient(60)
        while mixed.count_calls() < limit and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        if process.poll() is None:
            mixed.site.kill(process)
        kills += 1
        for name, host in mixed.hosts.items():
            if mixed.duties(name) != ON_DUTY and mixed.simulator.event(event_id)["EventStatus"] == "Scheduled":
                assert host.records(), f"{name} after {kills} kills"
    assert kills > 5
    run = mixed.site.run()
    assert run.status == 0, run.output
    assert mixed.seen[event_id, "Started"] == {"win1": OFF_DUTY, "win2": OFF_DUTY}
    mixed.check_nothing_is_left()


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", ["denied", "damaged", "terse", "slow", "away"])
def test_faults_of_one_host(mixed, fault):
    host = mixed.hosts["win1"]
    with host.change() as state:
        if fault == "denied":
            state["admin"] = False
        elif fault in ("slow", "away"):
            state.update({"slow": 0.7} if fault == "slow" else {"down_until": time.time() + 8})
        elif fault == "damaged":
            state["folders"]["c:\\programdata\\graceful_azure"] = {}
            state["files"][r"C:\ProgramData\graceful_azure\task-x-0123456789.json"] = "ew=="
        else:
            state["terse"] = True
    # What cannot be prepared for starts by itself.
    notice = 40 if fault in ("denied", "damaged") else 900
    event_id = mixed.simulator.post_event(EventType="Reboot", Resources=["win1", "win2"], NoticeSeconds=notice, **SHORT)
    run = mixed.site.run(handle_events_timeout=patient(150))
    approvals = mixed.simulator.event(event_id)["Approvals"]
    if notice == 900:
        assert run.status == 0 and len(approvals) == 1, run.output
        mixed.check_nothing_is_left()
        return
    assert run.status != 0 and approvals == []
    assert ("is no administrator" if fault == "denied" else "task-x-0123456789.json") in run.output
    assert host.mistakes() == [] and [call for call in host.calls() if "Verb" in (call["args"].get("parameters") or {})] == []
