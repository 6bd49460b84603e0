# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the page for a browser is told, and that nothing which happens to it reaches the demo."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
import urllib.error
import urllib.request

import pytest

from tests.demo import live, records
from tests.support.haproxy import Server
from tests.support.patience import patient, until
from tests.unit.demo import made

READY, DRAIN = Server("ready", True), Server("drain", True)
HOSTS = ("web1", "web2")


def event(event_id="E1", statuses=((100, "Scheduled"),), approvals=(), hosts=("web1",)):
    return made.event(event_id, hosts, statuses, approvals)


def report(time, requests, failed=0, **answers):
    return {"time": time, "requests": requests, "failed": failed, "answers": answers}


def recorded(**more):
    """A run 20 seconds after its first event."""
    return {
        "axis": records.Axis(100.0),
        "begin": 98.0,
        "end": 120.0,
        "events": [],
        "numbers": {"E1": 1, "E2": 2},
        "states": [(98.5, {"web1": READY, "web2": READY})],
        "impacts": [],
        "journal": [],
        "load": [],
        **more,
    }


def told(**more):
    return live.part("With", HOSTS, recorded(**more))


def test_before_anything_has_happened():
    part = told()
    assert (part["begin"], part["end"], part["requests"], part["failed"], part["events"]) == (-2, 20, 0, 0, [])
    assert [(host["name"], host["state"], host["since"], host["answers"], host["events"]) for host in part["hosts"]] == [
        ("web1", records.IN_SERVICE, -2, 0, []),
        ("web2", records.IN_SERVICE, -2, 0, []),
    ]


def test_a_host_that_is_drained_and_then_hit():
    states = [(98.5, {"web1": READY, "web2": READY}), (102, {"web1": DRAIN, "web2": READY})]
    events = [event(statuses=((100, "Scheduled"), (115, "Started")), approvals=[114.5])]
    journal = [{"time": 110, "event_ids": ["E1"], "hosts": {"web1": {"state": "ready"}}}]
    # The end of the impact is still to come.
    impacts = [{"host": "web1", "type": "Reboot", "begin": 115, "end": 140}]
    host, other = told(states=states, events=events, journal=journal, impacts=impacts)["hosts"]
    assert (host["state"], host["since"], host["events"]) == (records.IMPACT, 15, [1])
    assert [tuple(segment) for segment in host["lane"]] == [
        (records.IN_SERVICE, -2, 2),
        (records.DRAINING, 2, 10),
        (records.READY, 10, 15),
        (records.IMPACT, 15, 20),
    ]
    assert (other["state"], other["events"]) == (records.IN_SERVICE, [])


@pytest.mark.parametrize(
    "statuses, approvals, shown",
    [
        (["Scheduled"], [], "announced"),
        (["Scheduled"], [1], "approved"),
        (["Scheduled", "Started"], [1], "started"),
        (["Scheduled", "Started", "Completed"], [1], "completed"),
        (["Scheduled", "Cancelled"], [], "cancelled"),
    ],
)
def test_what_an_event_is_now(statuses, approvals, shown):
    assert live.status(event(statuses=[(100, status) for status in statuses], approvals=approvals)) == shown


def test_events_have_their_times_and_stand_in_their_order():
    over = event("E2", [(104, "Scheduled"), (106, "Started"), (112, "Completed")], [105.5, 105.25], ("web1", "web2"))
    rows = told(events=[over, event()])["events"]
    assert rows == [
        {"number": 1, "type": "Reboot", "hosts": ["web1"], "status": "announced", "appeared": 0, "approved": None, "started": None, "over": None},
        {"number": 2, "type": "Reboot", "hosts": ["web1", "web2"], "status": "completed", "appeared": 4, "approved": 5.25, "started": 6, "over": 12},
    ]
    # What is over no longer stands beside the host.
    assert [host["events"] for host in told(events=[over, event()])["hosts"]] == [[1], []]


def test_requests_are_counted_by_the_second_and_by_server():
    load = [report(101, 240, web1=120, web2=120), report(102, 480, web1=240, web2=240), report(104, 900, 7, web1=240, web2=640)]
    part = told(load=load)
    assert (part["requests"], part["failed"]) == (900, 7)
    assert part["load"] == [{"requests": 240, "failed": 0}, {"requests": 210, "failed": 3.5}]
    assert [host["answers"] for host in part["hosts"]] == [0, 200]
    # Of a single report no rate is known.
    assert [host["answers"] for host in told(load=load[:1])["hosts"]] == [0, 0]


def test_the_control_has_no_events_and_leaves_out_where_nothing_happened():
    axis = records.Axis(98.0, -3.0)
    axis.jump(105.0, 30.0)
    control = {key: value for key, value in recorded(axis=axis).items() if key not in ("events", "numbers", "journal")}
    part = live.part("Control", HOSTS, control)
    assert (part["begin"], part["end"], part["gaps"], part["events"]) == (-3, 45, [(4, 30)], [])


@pytest.fixture(name="page")
def serve_a_page(tmp_path):
    with live.Live("A <title>", tmp_path / "live.log", HOSTS, [(None, "demo", "begins"), (1.2, "load", "240 requests"), (1.5, "azure", "announced")]) as page:
        yield page


def get(page, path=""):
    with urllib.request.urlopen(page.url() + path, timeout=patient(5)) as answer:
        return answer.read().decode()


def test_the_page_needs_nothing_else():
    text = live.PAGE.read_text()
    assert re.findall(r"""(?:src|href)\s*=\s*["']([^"']+)""", text) == ["data:,"]
    assert "innerHTML" not in text and "@import" not in text and "url(" not in text
    # A state without a style of its own would not be seen.
    assert [state for state, _meaning in live.MEANINGS if "." + state.replace(" ", "_") + " {" not in text] == []


def test_the_page_and_its_data_are_served(page):
    assert "watch it in a browser: " + page.url() == page.address()
    assert get(page) == live.PAGE.read_text()
    state = json.loads(get(page, "state"))
    assert state["parts"] == [] and state["title"] == "A <title>" and not state["ended"]
    assert state["lines"] == [[None, "demo", "begins"], [1.5, "azure", "announced"]]
    page.show("With", recorded)
    page.show("With", lambda: recorded(load=[report(101, 240)]))
    page.show("Control", recorded)
    assert [(part["heading"], part["requests"]) for part in json.loads(get(page, "state"))["parts"]] == [("With", 240), ("Control", 0)]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(page, "other")


def test_what_goes_wrong_ends_that_request_alone(page, tmp_path, capfd):
    page.show("With", lambda: {}["axis"])
    with pytest.raises(OSError):
        get(page, "state")
    assert "KeyError: 'axis'" in (tmp_path / "live.log").read_text()
    page.show("With", recorded)
    assert len(json.loads(get(page, "state"))["parts"]) == 1
    assert capfd.readouterr() == ("", "")


def test_a_client_that_says_nothing_holds_nobody_up(page):
    with socket.create_connection(page.server.server_address):
        assert get(page)


def test_without_a_page_all_goes_on(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError("no address left")

    monkeypatch.setattr(live.ThreadingTCPServer, "__init__", refuse)
    with live.Live("Title", tmp_path / "live.log", HOSTS, []) as page:
        assert page.address() == "no page for a browser: no address left"
        page.show("With", recorded)
        page.end()


def test_the_end_does_not_wait_for_a_page_that_nobody_has_opened(page):
    begin = time.monotonic()
    page.end()
    assert time.monotonic() - begin < live.FORGOTTEN_SECONDS


def test_the_end_waits_for_a_page_that_is_open(page, monkeypatch):
    monkeypatch.setattr(live, "FORGOTTEN_SECONDS", patient(5))
    get(page, "state")
    states = []

    def ask():
        until(lambda: page.ended, 5, "the page has ended", pause=0.2)
        states.append(json.loads(get(page, "state")))

    asker = threading.Thread(target=ask)
    asker.start()
    page.end()
    assert page.complete.is_set()
    asker.join()
    assert states[0]["ended"]


def test_a_page_that_was_closed_meanwhile_does_not_hold_the_end_up_for_long(page, monkeypatch):
    monkeypatch.setattr(live, "FORGOTTEN_SECONDS", 0.3)
    get(page, "state")
    begin = time.monotonic()
    page.end()
    assert time.monotonic() - begin < patient(5)
    assert not page.complete.is_set()


def test_who_has_read_an_answer_is_known_to_be_there(page, monkeypatch):
    """However late the thread that answered goes on."""
    answer = live._Handler._answer

    def slow(handler, *arguments):
        answer(handler, *arguments)
        time.sleep(0.5)

    monkeypatch.setattr(live._Handler, "_answer", slow)
    get(page, "state")
    assert page.asked is not None
