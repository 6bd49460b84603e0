# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Simulated time, what the real service does beside answering, and what is told of VMs."""

from __future__ import annotations

import concurrent.futures
import email.utils
import json
import re
import threading
import time
import types

import pytest
from graceful_azure_simulator import simulated_time

from tests.support.asking import EVENTS_PATH, METADATA, approve, ask, control, document, talk
from tests.support.patience import patient, until
from tests.support.simulator import ControlError, Simulator

STILL = ("--time-scale", "0")
GET = f"GET {EVENTS_PATH}?api-version=2020-07-01 HTTP/1.1\r\nMetadata: true\r\n\r\n".encode()


def approval(event_id):
    """The bytes of an approval."""
    body = json.dumps({"StartRequests": [{"EventId": event_id}]})
    head = f"POST {EVENTS_PATH}?api-version=2020-07-01 HTTP/1.1\r\nMetadata: true\r\nContent-Length: {len(body)}\r\n"
    return f"{head}\r\n{body}".encode()


def statuses_in(received):
    """Of all answers on one connection."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 ([0-9]{3}) ", received)]


def date_of(answer):
    return email.utils.parsedate_to_datetime(answer.headers["Date"]).timestamp()


@pytest.fixture(scope="module")
def still():
    """A simulator whose time stands still but for steps."""
    with Simulator(["a", "b"], options=STILL) as simulator:
        yield simulator


# The clock


def test_a_life_of_twenty_minutes_in_steps(still):
    url = still.urls["a"]
    event_id = still.post_event(EventType="Freeze", Resources=["a"], NoticeSeconds=900, ImpactSeconds=7, SettleSeconds=293)
    begun = still.event(event_id)["History"][0]["Time"]
    still.step(899)
    answer = ask(url)
    event = answer.json["Events"][0]
    assert event["EventStatus"] == "Scheduled"
    # Date and NotBefore are of the same clock.
    assert 0 <= email.utils.parsedate_to_datetime(event["NotBefore"]).timestamp() - date_of(answer) <= 1
    assert still.ask("GET", "/clock")["Next"] == pytest.approx(1, abs=0.01)
    still.step(601)
    assert document(url)["Events"] == []
    # What was due in the step happened at its own time, not at the end.
    history = {entry["Status"]: entry["Time"] - begun for entry in still.event(event_id)["History"]}
    assert history == pytest.approx({"Scheduled": 0, "Started": 900, "Completed": 1200}, abs=0.2)
    assert still.ask("GET", "/clock")["Time"] - begun == pytest.approx(1500, abs=5)


def test_steps_to_what_is_due_next(still):
    event_id = still.post_event(NoticeSeconds=60, ImpactSeconds=30, SettleSeconds=30)
    still.step()
    assert still.statuses(event_id) == ["Scheduled", "Started"]
    still.step()
    assert still.statuses(event_id) == ["Scheduled", "Started", "Completed"]
    with pytest.raises(ControlError, match="409: .*Nothing is due"):
        still.step()


def test_what_does_nothing_any_more_is_not_due(still):
    event_id = still.post_event(NoticeSeconds=900, CancelSeconds=950, ImpactSeconds=12, SettleSeconds=0, FurtherImpacts=[20])
    called_off = still.post_event(NoticeSeconds=300, ApprovalSeconds=60)
    approve(still.urls["a"], called_off)
    assert still.ask("GET", "/clock")["Next"] == pytest.approx(60)
    still.cancel(called_off)
    assert still.ask("GET", "/clock")["Next"] == pytest.approx(900)
    still.start(event_id)
    assert still.ask("GET", "/clock")["Next"] == pytest.approx(12)
    still.complete(event_id)
    assert still.ask("GET", "/clock")["Next"] is None
    with pytest.raises(ControlError, match="409: .*Nothing is due"):
        still.step()


def test_next_leads_to_the_very_moment():
    """Whatever floating point makes of the way there."""
    timetable = simulated_time.Timetable(simulated_time.Clock(0))
    moments = [number / 7 + number * 1e5 for number in range(1, 100)]
    done = []
    for moment in moments:
        timetable.later(moment, done.append, moment)
    for number in range(len(moments)):
        timetable.step_to_next()
        assert len(done) == number + 1
        assert timetable.clock.passed() == moments[number]


class WatchedClock(simulated_time.Clock):
    """Asked by another thread after each of its changes."""

    seen = None

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if self.seen is not None:
            self.seen.append(self.passed())


def test_a_change_of_the_clock_is_seen_as_one(monkeypatch):
    real = types.SimpleNamespace(now=0.0)
    monkeypatch.setattr(simulated_time, "time", types.SimpleNamespace(monotonic=lambda: real.now, time=lambda: real.now))
    clock = WatchedClock(100)
    clock.seen = []
    real.now = 10.0
    clock.seen.clear()
    clock.set_scale(7)
    assert set(clock.seen) == {1000.0}
    assert (clock.passed(), clock.scale) == (1000.0, 7)


def test_a_wish_that_is_refused_leaves_the_clock_as_it_was(still):
    with pytest.raises(ControlError, match="409: .*Nothing is due"):
        still.ask("POST", "/clock", {"Scale": 5, "Next": True})
    assert still.ask("GET", "/clock")["Scale"] == 0


def test_an_approval_starts_an_event_though_time_stands_still(still):
    event_id = still.post_event(NoticeSeconds=None)
    begun = time.monotonic()
    assert approve(still.urls["a"], event_id).status == 200
    still.wait_for(event_id, "Started")
    assert time.monotonic() - begun < patient(1)
    still.complete(event_id)


def test_time_that_runs_faster():
    with Simulator(["a"], options=["--time-scale", "600"]) as simulator:
        event_id = simulator.post_event(NoticeSeconds=300, ImpactSeconds=60, SettleSeconds=60)
        simulator.wait_for(event_id, "Completed", 5)
        times = [entry["Time"] for entry in simulator.event(event_id)["History"]]
        late = 600 * patient(0.5)
        assert 300 <= times[1] - times[0] < 300 + late
        assert 120 <= times[2] - times[1] < 120 + late
        before, real = simulator.ask("GET", "/clock")["Time"], time.monotonic()
        time.sleep(0.1)
        assert simulator.ask("POST", "/clock", {"Scale": 0})["Time"] - before >= 600 * 0.1
        assert time.monotonic() - real < patient(5)
        stopped = simulator.ask("GET", "/clock")
        assert (stopped["Scale"], stopped["Next"]) == (0, None)


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ({}, "The clock needs Scale, or one of Step and Next"),
        ({"Step": 1, "Next": True}, "one of Step and Next"),
        ({"Step": -1}, "Step must be a number of seconds"),
        ({"Step": "1"}, "Step must be a number of seconds"),
        ({"Scale": -1}, "Scale must be a number from 0"),
        ({"Scale": True}, "Scale must be a number from 0"),
        ({"Next": False}, "Next must be true"),
        ({"Speed": 2}, "unknown field"),
        ([], "must be an object"),
    ],
)
def test_a_bad_wish_for_the_clock(still, wish, told):
    with pytest.raises(ControlError, match="400: ") as refused:
        still.ask("POST", "/clock", wish)
    assert told in str(refused.value)


def test_the_clock_does_not_leave_the_calendar():
    with Simulator(["a"], options=STILL) as simulator:
        with pytest.raises(ControlError, match="400: .*beyond the calendar"):
            for _time in range(300):
                simulator.step(10**9)
        with pytest.raises(ControlError, match="400: .*beyond the calendar"):
            simulator.ask("POST", "/clock", {"Scale": 5, "Step": 10**9})
        assert simulator.ask("GET", "/clock")["Scale"] == 0


# What the real service does, too


def test_the_first_answer_is_late_and_a_client_that_left_did_nothing():
    with Simulator(["a", "b"], options=[*STILL, "--first-answer", "120"]) as simulator, concurrent.futures.ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(document, url) for url in simulator.urls.values()]
        event_id = simulator.post_event(NoticeSeconds=None)
        talk(simulator.urls["a"], approval(event_id))
        while len(simulator.requests()) < 3:
            time.sleep(0.01)
        simulator.step(119)
        time.sleep(0.1)
        assert not any(one.done() for one in asking)
        simulator.step(2)
        for one in asking:
            assert [event["EventId"] for event in one.result(patient(5))["Events"]] == [event_id]
        # Who had sent an approval and left at once approved nothing.
        assert simulator.event(event_id)["Approvals"] == []


def test_events_are_shown_some_time_after_the_first_request():
    with Simulator(["a", "b"], options=[*STILL, "--events-after", "300"]) as simulator:
        event_id = simulator.post_event(NoticeSeconds=3600)
        simulator.step(1000)
        url = simulator.urls["a"]
        assert document(url) == {"DocumentIncarnation": 1, "Events": []}
        assert approve(url, event_id).status == 400
        simulator.step(299)
        assert document(url) == {"DocumentIncarnation": 1, "Events": []}
        simulator.step(2)
        for url in simulator.urls.values():
            assert document(url)["DocumentIncarnation"] == 2
            assert [event["EventId"] for event in document(url)["Events"]] == [event_id]
        assert approve(url, event_id).status == 200


def test_it_is_switched_off_when_nobody_asks():
    with Simulator(["a"], options=[*STILL, "--disable-after", "86400"]) as simulator:
        url = simulator.urls["a"]
        assert document(url)["DocumentIncarnation"] == 1
        for _time in range(3):
            simulator.cancel(simulator.post_event())
        assert document(url)["DocumentIncarnation"] == 7
        tag = ask(url).headers["ETag"]
        simulator.step(86399)
        assert document(url)["DocumentIncarnation"] == 7
        simulator.step(86401)
        assert document(url)["DocumentIncarnation"] == 1
        assert ask(url, headers={**METADATA, "If-None-Match": tag}).status == 200
        # By hand, with an event that stands.
        event_id = simulator.post_event(NoticeSeconds=None)
        assert simulator.ask("POST", "/disable") == {"DocumentIncarnation": 1}
        assert simulator.ask("GET", "/state")["On"] is False
        assert document(url)["DocumentIncarnation"] == 2
        assert document(url)["Events"][0]["EventId"] == event_id
        # Only a request that is one switches it on.
        simulator.ask("POST", "/disable")
        assert ask(url, headers={}).status == 400
        assert simulator.ask("GET", "/state")["On"] is False


def test_five_requests_a_second_and_then_429():
    with Simulator(["a", "b"], options=["--rate", "5"]) as simulator:
        url, other = simulator.urls.values()
        # All on one connection and at once: that takes no second.
        received = talk(url, GET * 8 + b"GET /metadata/instance HTTP/1.1\r\n\r\n")
        assert statuses_in(received) == [200] * 5 + [429] * 4
        assert "Too many requests" in json.loads(received.rpartition(b"\r\n\r\n")[2])["error"]
        assert ask(other).status == 200
        time.sleep(1.1)
        assert ask(url).status == 200


def test_no_rate_unless_asked_for(still):
    assert {ask(still.urls["a"]).status for _time in range(20)} == {200}


def test_realistic_is_all_of_it():
    with Simulator(["a", "b"], options=[*STILL, "--realistic", "--first-answer", "0", "--rate", "9"]) as simulator:
        url = simulator.urls["a"]
        event_id = simulator.post_event(NoticeSeconds=None)
        assert document(url)["Events"] == []
        simulator.step(301)
        assert [event["EventId"] for event in document(url)["Events"]] == [event_id]
        with pytest.raises(ControlError, match="400: .*one update domain"):
            simulator.post_event(Resources=["a", "b"])
        assert set(statuses_in(talk(url, GET * 20))) == {200, 429}
        simulator.step(86401)
        time.sleep(1.1)
        assert document(url) == {"DocumentIncarnation": 1, "Events": []}


# VMs


def test_an_event_hits_one_update_domain():
    with Simulator(["a", "b", "c"], options=["--domains", "2"]) as simulator:
        assert [ask(url, path="/metadata/instance/compute/platformUpdateDomain").json for url in simulator.urls.values()] == ["0", "1", "0"]
        simulator.post_event(Resources=["a", "C", "stranger"])
        with pytest.raises(ControlError, match="400: .*one update domain; these are of the domains 0, 1"):
            simulator.post_event(Resources=["a", "B"])


def test_what_is_told_of_vms(tmp_path):
    options = ["--compute", "zone=2", "--compute", "a/vmScaleSetName=set", "--compute", "a/zone=1", "--compute", "tags=role:web;ring:one:two"]
    with Simulator(["a", "b"], options=options) as simulator:
        a, b = (ask(url, path="/metadata/instance/compute").json for url in simulator.urls.values())
        assert (a["zone"], b["zone"], a["vmScaleSetName"]) == ("1", "2", "set")
        assert a["tags"] == "role:web;ring:one:two"
        assert a["tagsList"] == [{"name": "role", "value": "web"}, {"name": "ring", "value": "one:two"}]
        assert ask(simulator.urls["a"], path="/metadata/instance/compute/tagsList/1/value", query="format=text").body == b"one:two"
        for field in ("name", "vmScaleSetName", "location", "zone", "resourceId", "placementGroupId", "tags", "vmId"):
            assert isinstance(ask(simulator.urls["b"], path=f"/metadata/instance/compute/{field}").json, str)
        assert a["resourceId"].endswith("/virtualMachines/a")


def test_the_versions(still):
    url = still.urls["a"]
    versions = ask(url, path="/metadata/versions", version=None).json["apiVersions"]
    assert {"2017-03-01", "2020-07-01", "2021-02-01"} <= set(versions)
    assert versions == sorted(versions)
    assert ask(url, path="/metadata/versions", version=None, headers={}).status == 400
    assert ask(url, "POST", path="/metadata/versions", version=None).status == 405
    assert ask(url, path="/metadata/versions/x", version=None).status == 404


# Lives that the fields of an event give


def test_an_approved_event_waits_for_other_tenants(still):
    event_id = still.post_event(NoticeSeconds=900, ApprovalSeconds=240)
    for url in still.urls.values():
        assert approve(url, event_id).status == 200
    time.sleep(0.3)
    still.step(239)
    assert still.statuses(event_id) == ["Scheduled"]
    still.step(2)
    assert still.statuses(event_id) == ["Scheduled", "Started"]
    # Never later than without an approval; with null the approval alone starts nothing.
    event_id = still.post_event(NoticeSeconds=100, ApprovalSeconds=240)
    by_hand = still.post_event(NoticeSeconds=None, ApprovalSeconds=None)
    approve(still.urls["a"], event_id, by_hand)
    still.step(101)
    assert still.statuses(event_id)[:2] == ["Scheduled", "Started"]
    time.sleep(0.3)
    assert still.statuses(by_hand) == ["Scheduled"]


def test_an_event_that_is_called_off(still):
    event_id = still.post_event(NoticeSeconds=900, CancelSeconds=300)
    too_late = still.post_event(NoticeSeconds=100, CancelSeconds=300, ImpactSeconds=None)
    still.step(301)
    assert still.statuses(event_id) == ["Scheduled", "Cancelled"]
    assert still.statuses(too_late) == ["Scheduled", "Started"]


def test_further_impacts_while_started(still):
    event_id = still.post_event(EventType="Reboot", Impact="Freeze", NoticeSeconds=10, ImpactSeconds=5, SettleSeconds=95, FurtherImpacts=[30, 60, 500])
    still.step(11)
    shown = document(still.urls["a"])
    still.step(80)
    assert document(still.urls["a"]) == shown
    event = still.event(event_id)
    assert [entry["Time"] - event["History"][1]["Time"] for entry in event["Impacts"]] == pytest.approx([0, 30, 60], abs=0.2)
    assert (event["EventType"], event["Impact"]) == ("Reboot", "Freeze")
    assert "Impact" not in shown["Events"][-1]
    still.step(1000)
    assert len(still.event(event_id)["Impacts"]) == 3


def test_many_readers_see_one_document_for_one_incarnation():
    """At each incarnation, and at each time, all VMs and all readers are told the same."""
    told, wrong, over = {}, [], threading.Event()

    def read(url):
        while not over.is_set():
            answer = document(url)
            events = [(event["EventId"], event["EventStatus"]) for event in answer["Events"]]
            if told.setdefault(answer["DocumentIncarnation"], events) != events:
                wrong.append(answer)

    with Simulator(["a", "b"], options=["--time-scale", "100"]) as simulator, concurrent.futures.ThreadPoolExecutor(4) as pool:
        try:
            for url in [*simulator.urls.values()] * 2:
                pool.submit(read, url)
            for number in range(20):
                read_before = len(told)
                simulator.post_event(NoticeSeconds=number, ImpactSeconds=number / 2, SettleSeconds=1)
                until(lambda: len(told) > read_before, 5, "somebody has read it", pause=0)  # noqa: B023
            simulator.wait_for(simulator.events()[-1]["EventId"], "Completed")
        finally:
            over.set()
    assert not wrong
    assert len(told) > 10


def test_the_log_of_requests_and_its_end(still):
    for _time in range(5):
        ask(still.urls["b"])
    assert len(control(still, "GET", "/requests?last=3").json) == 3
    assert control(still, "GET", "/requests?last=3").json == still.requests()[-3:]
    assert control(still, "GET", "/requests?last=x").status == 400
