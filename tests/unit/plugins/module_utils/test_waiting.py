# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._imds import ImdsClient, ImdsError, ImdsProtocolError, ImdsSetupError, ImdsStatusError
from ansible_collections.graceful.azure.plugins.module_utils._selection import Selection, SelectionError
from ansible_collections.graceful.azure.plugins.module_utils._waiting import Reader, Wait, timeout_message

from tests.support.service import Clock, Service, document, drop, event

NAME = "FrontEnd_IN_0"


@pytest.fixture
def clock():
    return Clock()


def client_of(service, clock, **options):
    return ImdsClient(service.url, monotonic=clock.monotonic, sleep=clock.sleep, **options)


def started(event_id="a"):
    return event(event_id, EventStatus="Started", NotBefore="")


# Reading once


def test_a_reading(clock):
    with Service(document(event("a"), incarnation="7")) as service:
        reading = Reader(client_of(service, clock)).read()
    assert [found["event_id"] for found in reading.events] == ["a"]
    assert reading.events[0]["affects_host"] is True
    assert reading.events[0]["seconds_until_not_before"] == 900
    assert reading.document_incarnation == 7
    assert reading.resource_name == NAME
    assert reading.service_time.isoformat() == "2016-09-19T18:14:47+00:00"
    assert reading.warnings == []


def test_the_name_is_not_asked_where_it_is_given(clock):
    with Service(document(event("a"))) as service:
        reading = Reader(client_of(service, clock), resource_name=" backend_in_0 ").read()
    assert len(service.seen) == 1
    assert reading.resource_name == "backend_in_0"
    assert reading.events[0]["affects_host"] is True


@pytest.mark.parametrize("body", [b"", b" \r\n"])
def test_an_empty_body_is_no_events(clock, body):
    with Service(body) as service:
        reading = Reader(client_of(service, clock), NAME).read()
    assert (reading.events, reading.document_incarnation) == ([], 0)


@pytest.mark.parametrize("name", [404, 500, 400, "<html>", drop])
def test_the_service_does_not_tell_the_name(clock, name):
    with Service(document(event("a")), name=name) as service:
        reading = Reader(client_of(service, clock)).read()
    assert reading.events[0]["affects_host"] is None
    assert reading.resource_name is None
    assert "resource_name" in reading.warnings[0]


def test_the_name_is_asked_within_the_deadline(clock):
    with Service(document(event("a")), name=503) as service:
        reading = Reader(client_of(service, clock)).read(clock.now + 2)
    assert clock.slept == [1]
    assert reading.events[0]["affects_host"] is None


def test_who_insists_on_the_name_reads_nothing_without_it_and_asks_again(clock):
    with Service(document(event("a")), name=503) as service:
        reader = Reader(client_of(service, clock), insists=True)
        with pytest.raises(ImdsStatusError):
            reader.read(clock.now + 2)
        service.name = NAME
        assert reader.read().resource_name == NAME


def test_who_insists_goes_on_without_a_name_that_is_refused(clock):
    with Service(document(event("a")), name=400) as service:
        reader = Reader(client_of(service, clock), insists=True)
        asked = [reader.read().events[0]["affects_host"] for _read in range(3)]
        # Once for the name, three times for the events.
        assert asked == [None] * 3 and len(service.seen) == 4


def test_the_name_is_needed(clock):
    with Service(document(event("a")), name=404) as service, pytest.raises(ImdsError, match="which affecting_host_only needs. .*resource_name"):
        Reader(client_of(service, clock)).read(name_needed_by="affecting_host_only")


@pytest.mark.parametrize("answer", [{}, [], {"Events": []}, document(event("a"), event("A")), b"<html>", b"null"])
def test_what_is_no_document(clock, answer):
    with Service(answer if isinstance(answer, bytes) else (200, answer, {})) as service:
        with pytest.raises(ImdsProtocolError) as caught:
            Reader(client_of(service, clock), NAME).read()
    assert service.url in str(caught.value)
    assert caught.value.status == 200
    assert clock.slept == []


def test_a_redirect_is_no_empty_list(clock):
    with Service((302, "", {"Location": "http://portal.example.org"})) as service, pytest.raises(ImdsProtocolError):
        Reader(client_of(service, clock), NAME).read()


def test_the_same_bytes_are_not_parsed_again_but_time_goes_on(clock, monkeypatch):
    dates = iter(["Mon, 19 Sep 2016 18:14:47 GMT", "Mon, 19 Sep 2016 18:15:47 GMT", "Mon, 19 Sep 2016 18:16:47 GMT"])
    with Service(document(event("a")), document(event("a")), document(event("a"), event("b"))) as service:
        monkeypatch.setattr("http.server.BaseHTTPRequestHandler.date_time_string", None)
        service._server.RequestHandlerClass.date_time_string = lambda *_: next(dates)
        reader = Reader(client_of(service, clock), NAME)
        assert reader.read().events[0]["seconds_until_not_before"] == 900
        monkeypatch.setattr(reader, "_parse", lambda answer: pytest.fail("parsed again"))
        assert reader.read().events[0]["seconds_until_not_before"] == 840
        monkeypatch.undo()
        assert [found["event_id"] for found in reader.read().events] == ["a", "b"]


def test_a_number_that_comes_again_is_another_document(clock):
    # The service was disabled and began anew.
    with Service(document(event("a"), incarnation=1), document(incarnation=1)) as service:
        reader = Reader(client_of(service, clock), NAME)
        assert [len(reader.read().events), len(reader.read().events)] == [1, 0]


# Waiting


@pytest.fixture
def wait(clock):
    """A wait against a service; the result or the error."""

    def call(*answers, state=("present",), timeout=10, sleep=1, delay=0, name=NAME, step=math.inf, first=True, options=None, **selection):
        selection.setdefault("affecting_host_only", True)
        with Service(*answers, name=name) as service:
            client = client_of(service, clock, **(options or {}))
            try:
                return Wait(Reader(client), Selection(**selection), list(state), timeout, sleep, delay).run(step, first)
            except (ImdsError, SelectionError) as error:
                return error
            finally:
                call.requests = service.requests()
                client.close()

    return call


NONE = document()
STANDS = document(event("a"))
STARTED = document(started())
OTHERS = document(event("b", Resources=["elsewhere"]))


@pytest.mark.parametrize(
    ("state", "answers", "outcome", "looks"),
    [
        (["present"], [STANDS], "present", 1),
        (["present"], [NONE, OTHERS, STANDS], "present", 3),
        (["scheduled"], [NONE, STARTED, STANDS], "scheduled", 3),
        (["started"], [NONE, STANDS, STARTED], "started", 3),
        (["absent"], [STANDS, STARTED, NONE], "absent", 4),
        (["absent"], [STANDS, OTHERS], "absent", 3),
        (["absent"], [NONE], "absent", 2),
        # A document with a greater number proves it alone, one with a smaller number does not.
        (["absent"], [STANDS, document(incarnation=6)], "absent", 2),
        (["absent"], [STANDS, document(incarnation=4), STANDS, document(incarnation=4)], "absent", 5),
        (["absent"], [STANDS, b"", STARTED, b"", NONE], "absent", 6),
        (["absent", "present"], [b"", b"", STANDS], "present", 3),
        (["absent", "started"], [STANDS, STARTED], "started", 2),
        (["absent", "started"], [STANDS, NONE], "absent", 3),
        (["started", "present"], [STANDS], "present", 1),
        (["started", "present"], [STARTED], "started", 1),
        (["present", "started"], [STARTED], "present", 1),
        (["started"], [document(event("a"), started("b"))], "started", 1),
        (["scheduled", "started"], [document(event("a"), started("b"))], "scheduled", 1),
    ],
)
def test_states(wait, clock, state, answers, outcome, looks):
    result = wait(*answers, state=state)
    assert result.outcome == outcome
    assert len(wait.requests) == looks
    assert clock.slept == [1] * (looks - 1)
    assert result.elapsed == looks - 1


def test_ids_are_compared_without_case(wait):
    assert wait(document(event("ABC")), event_ids=["abc"]).outcome == "present"


def test_time_is_over(wait, clock):
    result = wait(NONE, timeout=3)
    assert result.outcome == "timeout"
    # The last look leaves time for its answer, and yet the whole time is waited.
    assert clock.slept == [1, 1, 0.75, 0.25]
    assert result.elapsed == 3
    assert result.error is None
    assert result.reading.document_incarnation == 5


def test_a_time_shorter_than_a_look(wait, clock):
    result = wait(NONE, timeout=0.1)
    assert (result.outcome, round(result.elapsed, 3), len(wait.requests)) == ("timeout", 0.1, 1)


def test_no_limit(wait, clock):
    result = wait(*[NONE] * 400, STANDS, timeout=0)
    assert result.outcome == "present"
    assert result.elapsed == 400


def test_delay_and_sleep(wait, clock):
    assert wait(NONE, NONE, STANDS, delay=2, sleep=0.5).outcome == "present"
    assert clock.slept == [2, 0.5, 0.5]


def test_a_fault_that_passes_is_waited_through(wait, clock):
    result = wait(NONE, *[503] * 4, STANDS, timeout=60)
    assert result.outcome == "present"
    assert clock.slept == [1, 1, 2, 4, 1]


def test_the_last_error_is_told(wait, clock):
    result = wait(STANDS, 503, state=["absent"], timeout=20)
    assert result.outcome == "timeout"
    assert isinstance(result.error, ImdsStatusError)
    assert [found["event_id"] for found in result.events] == ["a"]
    message = timeout_message(["absent"], result.events, result.elapsed, result.error)
    assert "20.0 s" in message and "absent" in message and "a (Reboot, Scheduled)" in message and "503" in message


def test_a_failed_read_is_no_absence(wait):
    assert wait(STANDS, 500, state=["absent"], timeout=5).outcome == "timeout"
    assert wait(STANDS, b"<html>", state=["absent"], timeout=5).outcome == "timeout"


def test_an_empty_body_is_no_absence(wait):
    result = wait(STANDS, b"", state=["absent"], timeout=5)
    assert (result.outcome, result.elapsed) == ("timeout", 5)
    message = timeout_message(["absent"], result.events, result.elapsed, result.error)
    assert "no selected event stood, but one answer, or an empty one, does not prove that" in message


@pytest.mark.parametrize(("sleep", "slept"), [(0, [0.5]), (0.2, [0.5]), (1, [1]), (60, [1])])
def test_an_absence_is_confirmed_soon_and_not_at_once(wait, clock, sleep, slept):
    assert wait(NONE, state=["absent"], sleep=sleep).outcome == "absent"
    assert clock.slept == slept


def test_no_time_for_the_second_read_of_an_absence(wait):
    assert wait(NONE, state=["absent"], timeout=0.4).outcome == "timeout"


@pytest.mark.parametrize(("answer", "outcome"), [(NONE, "absent"), (b"", None), (STANDS, None)])
def test_one_look_forecasts_an_absence(clock, answer, outcome):
    with Service(answer) as service:
        assert Wait(Reader(client_of(service, clock), NAME), Selection(), ["absent"], 10, 1, 0).look().outcome == outcome
    assert clock.slept == []


@pytest.mark.parametrize("answer", [400, b"<html>", b"{}", (302, "", {"Location": "/"})])
def test_a_mistake_ends_the_wait_at_once(wait, clock, answer):
    assert isinstance(wait(answer), ImdsError)
    assert clock.slept == []


@pytest.mark.parametrize("answer", [400, b"<html>", b"{}", (302, "", {"Location": "/"})])
def test_a_service_out_of_order_is_waited_through(wait, answer):
    assert wait(NONE, answer, STANDS).outcome == "present"
    assert wait(answer, STANDS, first=False).outcome == "present"


def test_the_first_answer_has_120_seconds(clock, monkeypatch):
    timeouts = []
    with Service(NONE) as service:
        client = client_of(service, clock, request_timeout=10)
        exchange = client._exchange

        def spy(method, url, deadline, request_timeout, body):
            if "scheduledevents" in url:
                timeouts.append(request_timeout)
            return exchange(method, url, deadline, request_timeout, body)

        monkeypatch.setattr(client, "_exchange", spy)
        Wait(Reader(client, NAME), Selection(), ["present"], 3, 1, 0).run()
        Wait(Reader(client, NAME), Selection(), ["present"], 1, 1, 0).run(first=False)
        client.request_timeout = 200
        Wait(Reader(client, NAME), Selection(), ["absent"], 1, 1, 0).run()
    assert timeouts == [120, 10, 10, 10, 10, 10, 200, 200]


def test_the_name_is_waited_for(wait, clock):
    result = wait(STANDS, name=404, timeout=10)
    assert result.outcome == "timeout"
    assert "resource_name" in str(result.error)


def test_without_need_the_name_is_asked_once(wait):
    result = wait(NONE, name=404, timeout=20, affecting_host_only=False)
    assert result.outcome == "timeout"
    assert result.error is None
    assert "resource_name" in result.reading.warnings[0]


def test_a_query_that_does_not_fit_ends_the_wait(wait):
    assert isinstance(wait(STANDS, query="[0]"), SelectionError)


def test_a_step_comes_back_without_an_outcome(wait, clock):
    result = wait(NONE, timeout=300, step=5)
    assert result.outcome is None
    assert result.elapsed == 5
    assert len(wait.requests) == 5


def test_a_step_repeats_nothing_after_its_end(wait, clock):
    result = wait((429, "", {"Retry-After": "60"}), timeout=300, step=5)
    assert result.outcome is None
    assert result.elapsed == 5
    assert len(wait.requests) == 1
    assert result.error.status == 429


@pytest.mark.parametrize("value", ["31536000", "Sat, 19 Sep 2116 18:14:47 GMT", "9" * 40])
@pytest.mark.parametrize("timeout", [0, 100 * 365 * 86400.0])
def test_a_wait_without_an_end_asks_again_however_long_the_service_wants_to_be_left_alone(wait, clock, value, timeout):
    assert wait((429, "", {"Retry-After": value}), STANDS, timeout=timeout).outcome == "present"
    assert clock.slept == [60]


def test_a_step_after_a_delay(wait, clock):
    assert wait(NONE, timeout=300, step=5, delay=20).elapsed == 25


def test_one_look(clock):
    with Service(NONE) as service:
        result = Wait(Reader(client_of(service, clock), NAME), Selection(), ["present"], 300, 1, 20).look()
    assert result.outcome is None
    assert clock.slept == []
    assert len(service.requests()) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state": []}, "state: the list is empty"),
        ({"state": ["gone"]}, "state: 'gone' is not one of present, scheduled, started, absent"),
        ({"timeout": -1}, "timeout is -1;"),
        ({"timeout": float("nan")}, "timeout is nan;"),
        ({"timeout": float("inf")}, "timeout is inf;"),
        ({"sleep": -0.1}, "sleep is -0.1;"),
        ({"sleep": "often"}, "sleep is 'often';"),
        ({"sleep": 10**400}, "sleep is 1000"),
        ({"delay": -1}, "delay is -1;"),
        ({"delay": 10}, "delay: 10 s leave nothing of the timeout of 10 s"),
        ({"delay": float("inf"), "timeout": 0}, "delay is inf;"),
    ],
)
def test_options_that_cannot_be_meant(wait, options, message):
    error = wait(NONE, **options)
    assert isinstance(error, ImdsSetupError)
    assert str(error).startswith(message)
    assert wait.requests == []
