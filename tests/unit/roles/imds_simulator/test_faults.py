# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The faults beyond status, delay and drop: when they come, and what they do."""

from __future__ import annotations

import email.utils
import http.client
import json
import time

import pytest

from tests.support.asking import EVENTS_PATH, METADATA, address_of, approve, ask, control, document, talk
from tests.support.patience import patient
from tests.support.simulator import Simulator

GONE = (http.client.RemoteDisconnected, ConnectionError)
GET = b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nMetadata: true\r\n\r\n"


@pytest.fixture(scope="module")
def running():
    with Simulator(["a", "b"], options=["--time-scale", "0", "--seed", "7"]) as simulator:
        yield simulator


@pytest.fixture
def simulator(running):
    running.reset()
    return running


@pytest.fixture
def url(simulator):
    return simulator.urls["a"]


# When they come


def statuses(url, count):
    return [ask(url).status for _time in range(count)]


def test_the_first_requests_are_left_alone(simulator, url):
    simulator.fault(Status=503, times=1, vm="a", around={"Skip": 2})
    assert ask(simulator.urls["b"]).status == 200
    assert statuses(url, 5) == [200, 200, 503, 200, 200]


def test_a_probability_and_its_seed(simulator, url):
    seen = []
    for _time in range(2):
        simulator.clear_faults()
        simulator.fault(Status=503, around={"Probability": 0.5, "Seed": 3})
        seen.append(statuses(url, 30))
    assert seen[0] == seen[1]
    assert 5 < seen[0].count(503) < 25
    simulator.clear_faults()
    simulator.fault(Status=503, around={"Probability": 0.5, "Seed": 4})
    assert statuses(url, 30) != seen[0]
    simulator.clear_faults()
    simulator.fault(Status=503, around={"Probability": 1})
    assert set(statuses(url, 10)) == {503}


def test_the_seed_of_the_command_line():
    seen = []
    for _time in range(2):
        with Simulator(["a"], options=["--seed", "1"]) as simulator:
            simulator.fault(Status=503, around={"Probability": 0.5})
            seen.append(statuses(simulator.urls["a"], 20))
    assert seen[0] == seen[1]
    assert {200, 503} == set(seen[0])


def test_a_window_of_time(simulator, url):
    simulator.fault(Status=503, around={"After": 10, "For": 20})
    assert ask(url).status == 200
    simulator.step(11)
    assert ask(url).status == 503
    assert len(simulator.ask("GET", "/faults")) == 1
    simulator.step(20)
    assert ask(url).status == 200
    # It is over, and told no more.
    assert simulator.ask("GET", "/faults") == simulator.ask("GET", "/state")["Faults"] == []


def test_to_the_begin_and_the_end_of_a_fault(simulator, url):
    simulator.fault(Status=503, around={"After": 10, "For": 20})
    assert simulator.ask("GET", "/clock")["Next"] == pytest.approx(10)
    simulator.step()
    assert ask(url).status == 503
    assert simulator.ask("GET", "/clock")["Next"] == pytest.approx(20)
    simulator.step()
    assert ask(url).status == 200
    simulator.fault(Status=503, around={"After": 10})
    simulator.clear_faults()
    assert simulator.ask("GET", "/clock")["Next"] is None


# Answers in the service's place


def test_portal_redirect_and_empty(simulator, url):
    simulator.fault(Portal=True, times=1)
    answer = ask(url)
    assert (answer.status, answer.headers.get_content_type()) == (200, "text/html")
    assert b"password" in answer.body
    simulator.fault(Redirect="http://127.0.0.1:9/elsewhere", times=1)
    answer = ask(url)
    assert (answer.status, answer.headers["Location"]) == (302, "http://127.0.0.1:9/elsewhere")
    simulator.fault(Empty=True, times=1)
    answer = ask(url)
    assert (answer.status, answer.body, answer.headers.get_content_type()) == (200, b"", "application/json")


@pytest.mark.parametrize("fault", [{"Portal": True}, {"Redirect": "/"}, {"Empty": True}])
def test_such_an_answer_approves_nothing(simulator, url, fault):
    event_id = simulator.post_event(NoticeSeconds=None)
    simulator.fault(fault, method="POST", times=1)
    approve(url, event_id)
    assert simulator.event(event_id)["Approvals"] == []


# Other documents


def test_a_stale_document(simulator, url):
    first = simulator.post_event(NoticeSeconds=None)
    before = document(url)
    second = simulator.post_event(NoticeSeconds=None)
    simulator.fault(Stale=True, times=1)
    assert document(url) == before
    assert [event["EventId"] for event in document(url)["Events"]] == [first, second]
    simulator.start(first)
    simulator.fault(Stale=True, times=1)
    assert [event["EventStatus"] for event in document(url)["Events"]] == ["Scheduled", "Scheduled"]


def test_another_incarnation_and_numbers_as_strings(simulator, url):
    simulator.post_event(DurationInSeconds=9)
    simulator.fault(Incarnation=1, times=1)
    assert document(url)["DocumentIncarnation"] == 1
    right = document(url)
    simulator.fault(StringNumbers=True, times=1)
    told = document(url)
    assert told["DocumentIncarnation"] == str(right["DocumentIncarnation"])
    assert told["Events"][0]["DurationInSeconds"] == "9"
    simulator.fault(StringNumbers=True, times=1)
    assert "DurationInSeconds" not in document(url, "2019-08-01")["Events"][0]


def test_iso_dates_and_unknown_types(simulator, url):
    simulator.post_event()
    not_before = email.utils.parsedate_to_datetime(document(url)["Events"][0]["NotBefore"])
    simulator.fault(IsoDates=True, UnknownType="Hibernate", times=1)
    event = document(url)["Events"][0]
    assert event["NotBefore"] == not_before.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert event["EventType"] == "Hibernate"
    assert document(url)["Events"][0]["EventType"] == "Reboot"


def test_a_huge_document(simulator, url):
    event_id = simulator.post_event()
    simulator.fault(Huge=5000, times=1)
    answer = ask(url)
    events = answer.json["Events"]
    assert len(answer.body) > 10**6
    assert len({event["EventId"] for event in events}) == 5001
    assert events[0]["EventId"] == event_id
    assert list(events[0]) == list(events[-1])


def test_a_clock_that_is_off_by_an_hour(simulator, url):
    simulator.post_event()
    right, right_date = document(url)["Events"][0], ask(url).headers["Date"]
    simulator.fault(ClockOff=-3600, times=1)
    answer = ask(url)

    def hours_off(shown, right):
        return (email.utils.parsedate_to_datetime(shown) - email.utils.parsedate_to_datetime(right)).total_seconds() / 3600

    assert hours_off(answer.headers["Date"], right_date) == pytest.approx(-1, abs=0.001)
    assert hours_off(answer.json["Events"][0]["NotBefore"], right["NotBefore"]) == -1


def test_other_documents_know_no_entity_tags(simulator, url):
    tag = ask(url).headers["ETag"]
    simulator.fault(Stale=True, times=1)
    answer = ask(url, headers={**METADATA, "If-None-Match": tag})
    assert (answer.status, answer.headers["ETag"]) == (200, None)


def test_the_wrong_type_of_content(simulator, url):
    simulator.fault(ContentType="text/html", times=1)
    answer = ask(url)
    assert answer.headers.get_all("Content-Type") == ["text/html"]
    assert answer.json["Events"] == []


# Spoilt on the way


def test_an_answer_held_back_or_lost_counts_all_the_same(simulator, url):
    event_id = simulator.post_event(NoticeSeconds=None, ImpactSeconds=None)
    simulator.fault(DelayAnswer=0.2, times=1)
    begun = time.monotonic()
    assert approve(url, event_id).status == 200
    assert time.monotonic() - begun >= 0.2
    simulator.fault(DropAnswer=True, times=1)
    with pytest.raises(GONE):
        approve(url, event_id)
    assert len(simulator.event(event_id)["Approvals"]) == 2
    assert simulator.requests()[-1]["Status"] is None


def test_a_body_that_is_late_cut_or_slow(simulator, url):
    whole = ask(url).body
    late = patient(0.2)
    simulator.fault(DelayBody=late, times=1)
    connection = http.client.HTTPConnection(*address_of(url), timeout=patient(5))
    begun = time.monotonic()
    connection.request("GET", EVENTS_PATH + "?api-version=2020-07-01", headers=METADATA)
    answer = connection.getresponse()
    head_after = time.monotonic() - begun
    assert answer.read() == whole
    assert head_after < late * 0.75 < time.monotonic() - begun
    connection.close()
    for cut in (0, 10):
        simulator.fault(Cut=cut, times=1)
        received = talk(url, GET)
        assert b"Content-Length: %d\r\n" % len(whole) in received
        assert received.partition(b"\r\n\r\n")[2] == whole[:cut]
    simulator.fault(Slow=len(whole) * 4, times=1)
    begun = time.monotonic()
    assert ask(url).body == whole
    assert 0.15 < time.monotonic() - begun < patient(1)


def test_a_connection_that_is_dropped_after_the_body(simulator, url):
    simulator.fault(DropAfter=True, times=1)
    received = talk(url, GET * 2)
    assert received.count(b"HTTP/1.1 200") == 1
    assert b"Connection: keep-alive" in received
    assert json.loads(received.partition(b"\r\n\r\n")[2])["Events"] == []
    assert talk(url, GET * 2).count(b"HTTP/1.1 200") == 2


def test_faults_that_come_together(simulator, url):
    simulator.post_event()
    simulator.fault(Delay=0.1)
    simulator.fault(Delay=0.1, Slow=100000)
    simulator.fault(IsoDates=True)
    begun = time.monotonic()
    assert document(url)["Events"][0]["NotBefore"].endswith("Z")
    assert time.monotonic() - begun >= 0.2
    simulator.fault(Status=500, times=1)
    simulator.fault(Portal=True)
    assert [ask(url).status for _time in range(2)] == [500, 200]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ({"Fault": {"Status": 200, "Portal": True}}, "both Status and Portal"),
        ({"Fault": {"Drop": True, "Empty": True}}, "both Drop and Empty"),
        ({"Fault": {"Portal": "yes"}}, "Portal must be true"),
        ({"Fault": {"Redirect": "a\r\nb"}}, "Redirect must be a string of one line"),
        ({"Fault": {"Cut": -1}}, "Cut must be an integer"),
        ({"Fault": {"Slow": 0}}, "Slow must be a positive integer"),
        ({"Fault": {"Huge": 1.5}}, "Huge must be an integer"),
        ({"Fault": {"Incarnation": "1"}}, "Incarnation must be an integer"),
        ({"Fault": {"ClockOff": "1 h"}}, "ClockOff must be a number of seconds"),
        ({"Fault": {"UnknownType": None}}, "UnknownType must be a string"),
        ({"Fault": {"Empty": True, "Body": "x"}}, "without Status"),
        ({"Fault": {"Drop": True}, "Probability": 0}, "Probability must be a number over 0"),
        ({"Fault": {"Drop": True}, "Probability": 1.1}, "Probability must be a number over 0"),
        ({"Fault": {"Drop": True}, "Skip": -1}, "Skip must be an integer"),
        ({"Fault": {"Drop": True}, "After": None}, "After must be a number of seconds"),
        ({"Fault": {"Drop": True}, "Seed": "x"}, "Seed must be an integer"),
        ({"Fault": {"Slow": 0, "Cut": -1}, "Skip": -1}, "Cut must be an integer from 0 to 1000000000, not -1. Skip must be"),
        ({"Fault": {"Status": 199, "Drop": True}}, "from 200 to 599, not 199. Fault has both Status and Drop: one of them is what happens."),
        ({"Fault": {"Drop": 1, "Portal": True, "Body": "x"}}, "what happens. Fault has Body or Headers without Status."),
    ],
)
def test_bad_faults_and_every_mistake_of_them(simulator, url, fault, told):
    answer = control(simulator, "POST", "/faults", fault)
    assert answer.status == 400
    assert told in answer.json["error"]
    assert ask(url).status == 200
