# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The look at a host that goes on until there is something new; the clock is the test's."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _health_check, _host_look, _this_host
from ansible_collections.graceful.azure.plugins.module_utils._connections import Counted
from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import HoldError
from ansible_collections.graceful.azure.plugins.module_utils._imds import ImdsError
from ansible_collections.graceful.azure.plugins.module_utils._waiting import Reading

EVENT = {
    "event_id": "A",
    "event_type": "Reboot",
    "event_status": "Scheduled",
    "resources": ["web1"],
    "not_before": "2026-11-21T12:00:00Z",
    "affects_host": True,
}


class Scene:
    """A metadata service and a table of connections, each a list of what is told at which second."""

    def __init__(self, monkeypatch, tmp_path):
        self.now = 100.0
        self.events = {0: []}
        self.numbers = {0: 1}
        self.connections = {0: []}
        self.uncounted = []
        self.reads = []
        self.no_name = []  # why there is none
        self.params = {
            "imds_url": "http://127.0.0.1:1",
            "api_version": "2020-07-01",
            "request_timeout": 1,
            "resource_name": "web1",
            "ports": [80],
            "state_dir": str(tmp_path / "state"),
            "timeout": 5.0,
            "ask_name": False,
            "wait": 0.0,
            "known": "",
            "await_idle": False,
            "at_least": 0.0,
            "ignored_peers": [],
            "told_apart": [],
            "heard": [],
            "expected": [],
            "shown_in": {},
            "ask": {},
            "duties": [],
            "before": [],
            "marks": [],
        }
        self.insists = None
        monkeypatch.setattr(_host_look, "Reader", self._reader)
        monkeypatch.setattr(_this_host, "counted", lambda ports, told_apart: Counted(self._at(self.connections), self.uncounted))

    def _reader(self, client, name, insists=False):
        self.insists = insists
        return self

    def _at(self, told):
        return told[max(second for second in told if second <= self.now - 100.0)]

    def read(self, deadline):
        self.reads.append(self.now - 100.0)
        events = self._at(self.events)
        if events is None:
            raise ImdsError("no answer")
        for error in self.no_name:
            if self.insists and error.passing:
                raise error
        empty = events == "empty"
        name = None if self.no_name else "web1"
        number = 0 if empty else self._at(self.numbers)
        return Reading([] if empty else events, number, name, None, [], empty)

    def sleep(self, seconds):
        self.now += seconds

    def run_command(self, *_words, **_more):
        return None

    def look(self, **params):
        self.reads.clear()
        machine = Machine(self.run_command, monotonic=lambda: self.now, sleep=self.sleep)
        return _host_look.HostLook(dict(self.params, **params), machine).run()


@pytest.fixture(name="scene")
def make_scene(monkeypatch, tmp_path):
    return Scene(monkeypatch, tmp_path)


def test_without_a_wait_it_reads_once(scene):
    seen = scene.look()
    assert scene.reads == [0.0] and seen["events"] == [] and seen["looks"] == 1 and seen["waited"] == 0.0


@pytest.mark.parametrize("passing", [False, True])
def test_without_a_name_that_may_still_be_told_nothing_was_read(scene, passing):
    """The events came late, so no time was left for the name. A service that refuses to tell it is another matter."""
    error = ImdsError("no time was left")
    error.passing = passing
    scene.no_name = [error]
    seen = scene.look()
    if passing:
        assert seen["events"] is None and seen["error"] == "no time was left" and seen["passing"] is True
    else:
        assert seen["events"] == [] and seen["resource_name"] is None


def test_what_the_service_calls_the_host_is_told_beside_the_name_that_is_given(scene):
    asked = []

    def tell(deadline, retry_until):
        asked.append((deadline, retry_until))
        if len(asked) > 1:
            raise ImdsError("it has no such page")
        return "web9"

    scene.client = SimpleNamespace(get_resource_name=tell)
    assert "told_name" not in scene.look() and asked == []
    seen = scene.look(ask_name=True)
    assert (seen["told_name"], seen["resource_name"]) == ("web9", "web1") and asked == [(102.0, 100.0)]
    assert scene.look(ask_name=True)["told_name"] == ""
    scene.events = {0: None}
    assert "told_name" not in scene.look(ask_name=True) and len(asked) == 2, "it is silent, so it is asked in a later look"


def test_with_nothing_new_it_waits_and_reads_each_second(scene):
    known = scene.look()["fingerprint"]
    seen = scene.look(known=known, wait=4.0)
    assert scene.reads == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert (seen["waited"], seen["age"], seen["fingerprint"]) == (4.0, 0.0, known)


def test_what_is_not_known_needs_no_wait(scene):
    scene.look(wait=4.0)
    assert scene.reads == [0.0]


@pytest.mark.parametrize(
    "news",
    [[EVENT], None],
    ids=["an event", "the service fell silent"],
)
def test_news_end_the_wait(scene, news):
    known = scene.look()["fingerprint"]
    scene.events[1.5] = news
    seen = scene.look(known=known, wait=4.0)
    assert seen["events"] == news and seen["waited"] == 2.0 and seen["fingerprint"] != known
    assert ("error" in seen) == (news is None)


@pytest.mark.parametrize("changed", [{"event_status": "Started", "not_before": None}, {"not_before": "2026-11-21T12:05:00Z"}, {"resources": ["web1", "web2"]}])
def test_a_change_of_an_event_is_news(scene, changed):
    scene.events[0] = [EVENT]
    known = scene.look()["fingerprint"]
    scene.events[1.0] = [dict(EVENT, **changed)]
    assert scene.look(known=known, wait=4.0)["waited"] == 1.0


def test_a_countdown_is_no_news(scene):
    scene.events[0] = [dict(EVENT, seconds_until_not_before=50.0)]
    known = scene.look()["fingerprint"]
    scene.events[0] = [dict(EVENT, seconds_until_not_before=49.0)]
    assert scene.look()["fingerprint"] == known


def test_a_service_that_stays_silent_is_no_news(scene):
    scene.events[0] = None
    known = scene.look()["fingerprint"]
    seen = scene.look(known=known, wait=2.0)
    assert seen["waited"] == 2.0 and seen["error"] == "no answer" and scene.reads == [0.0, 1.0, 2.0]


def test_two_idle_looks_running_end_the_wait(scene):
    known = scene.look()["fingerprint"]
    busy = [{"port": 80, "peer": "10.0.0.9", "count": 1}, {"port": 80, "peer": "10.0.0.4", "count": 3}]
    scene.connections = {0: busy, 0.5: [], 0.7: busy, 1.1: busy[1:]}
    seen = scene.look(known=known, wait=4.0, await_idle=True, ignored_peers=["10.0.0.4"])
    assert (seen["waited"], seen["looks"], seen["connections"]) == (pytest.approx(1.4), 2, busy[1:])


@pytest.mark.parametrize("took, pause", [(0.001, 0.2), (0.03, 0.3), (2.0, 0.5)])
def test_a_host_is_looked_at_often_until_it_is_idle_unless_a_look_takes_long(scene, monkeypatch, took, pause):
    known = scene.look()["fingerprint"]
    began = []

    def counted(ports, told_apart):
        began.append(scene.now)
        scene.now += took
        return Counted([{"port": 80, "peer": "10.0.0.9", "count": 1}], [])

    monkeypatch.setattr(_this_host, "counted", counted)
    scene.look(known=known, wait=6.0, await_idle=True)
    assert began[2] - began[1] == pytest.approx(took + pause)
    began.clear()
    scene.look(known=known, wait=6.0)
    assert began[2] - began[1] == pytest.approx(took + _this_host.LOOK_SECONDS)


def test_a_port_that_cannot_be_counted_is_not_idle(scene):
    known = scene.look()["fingerprint"]
    scene.uncounted = [{"port": 80, "why": "nobody listens on it", "unheard": True}]
    seen = scene.look(known=known, wait=2.0, await_idle=True)
    assert (seen["waited"], seen["looks"], seen["uncounted"]) == (2.0, 0, scene.uncounted)
    # Whoever listened was stopped.
    assert scene.look(known=known, wait=2.0, await_idle=True, heard=[80])["looks"] == 2
    scene.uncounted = [{"port": 80, "why": "it may be forwarded", "unheard": False}]
    assert scene.look(known=known, wait=2.0, await_idle=True, heard=[80])["looks"] == 0


def test_an_idle_look_goes_on_as_long_as_the_balancer_is_waited_for(scene):
    known = scene.look()["fingerprint"]
    seen = scene.look(known=known, wait=4.0, await_idle=True, at_least=2.5)
    assert seen["waited"] == pytest.approx(2.6) and scene.reads == pytest.approx([0.0, 1.0, 2.0])


def test_connections_alone_are_no_news(scene):
    known = scene.look()["fingerprint"]
    scene.connections[1.0] = [{"port": 80, "peer": "10.0.0.9", "count": 1}]
    assert scene.look(known=known, wait=2.0)["looks"] == 0


def test_a_mistake_ends_the_look(scene, tmp_path):
    (tmp_path / "state").write_text("no folder")
    seen = scene.look(wait=4.0)
    # The service is read once all the same: when an event is over does not depend on records.
    assert str(tmp_path / "state") in seen["fatal"] and len(scene.reads) == 1 and seen["events"] == []


class TestExpected:
    """An event that is gone is looked at once more, unless the first document proves that it is over."""

    def test_what_is_gone_is_read_twice(self, scene):
        seen = scene.look(expected=["A"])
        assert scene.reads == [0.0, 1.0] and seen["events"] == [] and seen["steady"] == 1.0 and seen["empty_body"] is False

    def test_a_document_with_a_greater_number_proves_it_at_once(self, scene):
        scene.numbers[0] = 7
        assert scene.look(expected=["A"], shown_in={"A": 6})["steady"] == 0.0 and scene.reads == [0.0]

    @pytest.mark.parametrize(("numbers", "body"), [({"A": 7}, []), ({"A": 8}, []), ({"b": 1}, []), ({"A": 6}, "empty")])
    def test_no_other_number_does(self, scene, numbers, body):
        scene.events[0], scene.numbers[0] = body, 7
        seen = scene.look(expected=["A"], shown_in=numbers)
        assert scene.reads == [0.0, 1.0] and seen["steady"] == 1.0

    def test_of_two_events_each_is_proved(self, scene):
        scene.numbers[0] = 7
        scene.look(expected=["A", "B"], shown_in={"A": 6})
        assert scene.reads == [0.0, 1.0]

    def test_what_the_look_itself_has_shown_before(self, scene):
        scene.events[0] = [EVENT]
        known = scene.look()["fingerprint"]
        scene.events[1.5], scene.numbers[1.5] = [], 2
        seen = scene.look(expected=["A"], known=known, wait=4.0)
        assert scene.reads == [0.0, 1.0, 2.0] and seen["steady"] == 0.0 and seen["document_incarnation"] == 2

    def test_what_stands_is_read_once(self, scene):
        scene.events[0] = [EVENT]
        assert scene.look(expected=["a"])["steady"] == 0.0 and scene.reads == [0.0]

    def test_what_goes_while_it_waits(self, scene):
        scene.events[0] = [EVENT]
        known = scene.look()["fingerprint"]
        scene.events[1.5] = []
        seen = scene.look(expected=["A"], known=known, wait=4.0)
        assert scene.reads == [0.0, 1.0, 2.0, 3.0] and seen["steady"] == 1.0

    def test_what_is_there_again(self, scene):
        scene.events = {0: "empty", 0.5: [EVENT]}
        seen = scene.look(expected=["A"])
        assert scene.reads == [0.0, 1.0] and seen["events"] == [EVENT] and (seen["steady"], seen["empty_body"]) == (0.0, False)

    def test_another_event_that_goes_between_changes_nothing(self, scene):
        scene.events = {0: [dict(EVENT, event_id="b")], 0.5: []}
        seen = scene.look(expected=["A"])
        assert scene.reads == [0.0, 1.0] and seen["events"] == [] and seen["steady"] == 1.0

    def test_an_empty_body_is_told(self, scene):
        scene.events[0] = "empty"
        seen = scene.look()
        assert seen["empty_body"] is True and seen["events"] == []

    def test_a_read_that_fails_between_begins_anew(self, scene):
        scene.events = {0: [], 0.5: None}
        seen = scene.look(expected=["A"])
        assert seen["events"] is None and "error" in seen


ASK = {"url": "http://localhost:8080/health", "port": None, "host": "localhost", "validate_certs": True}


class TestAnswer:
    """What must answer after the event is asked while the host still serves."""

    @pytest.fixture(autouse=True)
    def answers(self, monkeypatch):
        self.asked = []
        self.url, self.port = "status 404", None
        monkeypatch.setattr(_this_host, "ask_url", self._ask_url)
        monkeypatch.setattr(_health_check, "ask_port", lambda host, port, seconds: self.asked.append((host, port)) or self.port)

    def _ask_url(self, url, seconds, certs, leave_no_trace=False):
        assert leave_no_trace, "a duty that counts the host's new connections would count this one"
        self.asked.append((url, certs))
        return self.url

    def test_nobody_is_asked_without_an_event(self, scene):
        assert "unanswered" not in scene.look(ask=ASK) and self.asked == []

    @pytest.mark.parametrize("event", [dict(EVENT, affects_host=False), dict(EVENT, event_status="Started")], ids=["of another VM", "Started"])
    def test_nor_for_an_event_that_is_not_to_be_prepared(self, scene, event):
        scene.events[0] = [event]
        assert "unanswered" not in scene.look(ask=ASK) and self.asked == []

    def test_nor_where_nothing_is_to_be_asked(self, scene):
        scene.events[0] = [EVENT]
        assert "unanswered" not in scene.look(ask={"validate_certs": True})

    def test_an_event_has_it_asked_in_the_same_look_and_once(self, scene):
        known = scene.look()["fingerprint"]
        scene.events[1.5] = [EVENT]
        seen = scene.look(known=known, wait=4.0, ask=ASK)
        assert seen["unanswered"] == "status 404" and self.asked == [(ASK["url"], True)]

    def test_an_answer_is_no_reason(self, scene):
        scene.events[0], self.url = [EVENT], None
        assert scene.look(ask=dict(ASK, port=80, host="::1"))["unanswered"] is None
        assert self.asked == [("::1", 80), (ASK["url"], True)]

    def test_a_closed_port_is_enough(self, scene):
        scene.events[0], self.port = [EVENT], "port 80 of localhost: Connection refused"
        assert scene.look(ask=dict(ASK, port=80))["unanswered"] == self.port and len(self.asked) == 1

    def test_check_mode_asks_without_an_event(self, scene):
        assert scene.look(ask=dict(ASK, always=True))["unanswered"] == "status 404"

    @pytest.mark.parametrize(("event", "held", "asks"), [(EVENT, True, True), (EVENT, False, False), (dict(EVENT, event_status="Started"), True, False)])
    def test_a_host_that_is_held_is_asked_only_if_that_is_wanted_and_its_event_is_still_to_come(self, scene, monkeypatch, event, held, asks):
        scene.events[0] = [event]
        monkeypatch.setattr(_this_host, "list_records", lambda folder: [{"kind": "task"}])
        assert ("unanswered" in scene.look(ask=dict(ASK, held=held))) is asks


def test_a_folder_of_records_that_is_not_absolute(scene):
    seen = scene.look(state_dir="state")
    assert "state folder state is not an absolute path" in seen["fatal"] and len(scene.reads) == 1


def test_which_duties_cannot_be_looked_at(scene, monkeypatch):
    def run_command(words, **_more):
        units = words[words.index("--") + 1 :]
        return 0, "\n\n".join("ActiveState=inactive\nLoadState=%s" % ("loaded" if unit == "shop.service" else "not-found") for unit in units), ""

    scene.run_command = run_command
    assert "unseen" not in scene.look()
    seen = scene.look(before=[{"type": "service", "name": "shop"}, {"type": "service", "name": "shopp"}, {"type": "service", "name": "s@"}])
    # In the middle of an event, things may be down or just starting.
    monkeypatch.setattr(_this_host.ThisHost, "records", lambda _host: [{"kind": "service"}])
    assert "unseen" not in scene.look(before=[{"type": "service", "name": "shopp"}])
    assert len(seen["unseen"]) == 2 and "systemd knows no unit 'shopp.service'" in seen["unseen"][0] and "is a template" in seen["unseen"][1]


def test_what_bears_our_name_in_a_cluster_and_has_no_record_is_a_hold(scene, monkeypatch):
    asked = []

    def marks(entries, machine, details):
        asked.append(details)
        return [{"kind": "cluster", "marked": True}], unknown

    monkeypatch.setattr(_host_look, "marks", marks)
    unknown = []
    assert scene.look()["holds"] == [] and asked == []
    seen = scene.look(marks=[{"type": "consul"}])
    assert seen["holds"] == [{"kind": "cluster", "marked": True}] and "fatal" not in seen
    # An event of Azure names VMs; without a name, a person must release it.
    assert asked == [{"resources": ["web1"]}]
    unknown = ["Consul (c): web1 was taken out"]
    assert scene.look(marks=[{"type": "consul"}])["fatal"] == unknown[0]


def test_a_record_that_is_damaged_during_a_look_is_told_before_marks(scene, monkeypatch):
    answers = iter([[], []])

    def records(host):
        for found in answers:
            return found
        raise HoldError("The record is damaged.")

    monkeypatch.setattr(_this_host.ThisHost, "records", records)
    monkeypatch.setattr(_host_look, "marks", lambda entries, machine, details: ([{"events": {}}], []))
    seen = scene.look(marks=[{"type": "consul"}], wait=2.0, known=scene.look()["fingerprint"])
    assert (seen["holds"], seen["fatal"]) == (None, "The record is damaged.")
