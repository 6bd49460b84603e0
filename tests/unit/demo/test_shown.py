# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reading of HAProxy's state, the schedule, the table and the picture."""

from __future__ import annotations

import io
from xml.etree import ElementTree

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._story.page import MEANINGS, WORDS

from tests.demo import playbook, records, run, schedule, screen, stage, timeline
from tests.support.haproxy import Server, read_state

STATE = """\
1
# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight
3 web 1 web1 127.0.0.1 2 0 1
3 web 2 web2 127.0.0.1 2 8 1
3 web 3 web3 127.0.0.1 0 0 1
3 web 4 web4 127.0.0.1 0 1 1
4 other 1 web1 127.0.0.1 2 1 1

"""

ROW = {
    "number": 1,
    "event_id": "e1",
    "event_type": "Reboot",
    "resources": ["web1", "web2"],
    "outcome": "completed",
    "appeared": 2.0,
    "detected": 3.0,
    "out_of_load_balancer": 4.5,
    "drained": 9.0,
    "approved": 10.0,
    "started": 10.5,
    "gone": 18.0,
    "restored": None,
    "failed": 3,
}


def test_state_of_the_servers():
    assert read_state(STATE, "web") == {
        "web1": Server("ready", True),
        "web2": Server("drain", True),
        "web3": Server("ready", False),
        "web4": Server("maint", False),
    }


def test_the_demo_without_a_choice_shows_what_it_promises():
    planned = schedule.SCENARIOS[schedule.DEFAULT].events
    assert {one.event_type for one in planned} == {"Freeze", "Reboot", "Redeploy"}
    assert any(one.cancelled for one in planned)
    assert any(len(one.hosts) == 2 for one in planned)


@pytest.mark.parametrize("name", schedule.SCENARIOS)
def test_every_scenario_can_be_carried_out(name):
    planned = schedule.SCENARIOS[name].events
    assert [one.number for one in planned] == list(range(1, len(planned) + 1))
    assert planned[0].at == 0
    for one in planned:
        assert set(one.hosts) <= set(schedule.HOSTS)
        assert (one.at is None) != (one.once_started is None)
        # An event that is waited for comes earlier, and starts.
        assert one.once_started is None or (one.once_started < one.number and not planned[one.once_started - 1].cancelled)
        assert schedule.document(one)["NoticeSeconds"] == schedule.NOTICE[one.event_type]
    # Without an impact, the control would have nothing to show.
    assert not all(one.cancelled for one in planned)


def test_the_scenarios_are_listed_with_what_they_show():
    lines = schedule.choices().splitlines()
    assert [line.split()[0] for line in lines] == list(schedule.SCENARIOS)
    assert [line.split()[0] for line in lines if line.endswith("The default.")] == [schedule.DEFAULT]
    assert all(one.about in line for one, line in zip(schedule.SCENARIOS.values(), lines))


@pytest.mark.parametrize("name, status", [("help", 0), ("reebot", 2)])
def test_help_and_a_wrong_name_list_the_scenarios_and_start_nothing(name, status, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["run.py", "--scenario", name, "--output", str(tmp_path / "output")])
    assert run.main() == status
    told = capsys.readouterr()
    assert schedule.choices() in (told.err if status else told.out)
    assert status == 0 or "there is no scenario 'reebot'" in told.err
    assert list(tmp_path.iterdir()) == []


def test_table_counts_from_when_the_event_became_visible():
    text = screen.table([ROW], 14000, 0, 9000, 224)
    cells = next(line for line in text.splitlines() if line.startswith("1 Reboot")).split()
    assert cells == ["1", "Reboot", "web1,", "web2", "1.0", "2.5", "7.0", "8.0", "8.5", "16.0", "-", "3"]
    assert "14,000 requests      0 failed" in text
    assert "9,000 requests    224 failed" in text


def test_lines_on_a_screen_without_colours():
    stream = io.StringIO()
    shown = screen.Screen(stream)
    shown.say("azure", "event 1 announced")
    assert stream.getvalue() == "           azure    event 1 announced\n"
    assert shown.lines == [(None, "azure", "event 1 announced")]


def test_picture_is_well_formed_whatever_the_names():
    hostile = "w<&\"'1"
    lanes = {hostile: [records.Segment(records.IN_SERVICE, 0, 5), records.Segment(records.IMPACT, 5, 9), records.Segment(records.IN_SERVICE, 9, 20)]}
    requests = [
        {"start": 5.0, "seconds": 1.0, "outcome": "status 502", "backend": hostile, "kind": "fast", "connection": "new"},
        {"start": 6.0, "seconds": 1.0, "outcome": "closed <&>", "backend": "", "kind": "fast", "connection": "new"},
        {"start": 7.0, "seconds": 1.0, "outcome": "ok", "backend": hostile, "kind": "fast", "connection": "new"},
    ]
    event = dict(ROW, resources=[hostile], event_type="<Re&boot>", restored=19.0)
    impacts = [{"host": hostile, "type": "Reboot", "begin": 5, "end": 9}]
    parts = [timeline.Part("One", lanes, impacts, requests, [event]), timeline.Part("Two", lanes, impacts, requests, [])]
    root = ElementTree.fromstring(timeline.draw("Title & more", parts, 0, 20, 240))
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert words.count("3 requests, 2 failed") == 2
    assert words.count("1 failed") == 4  # the lane's and the one without a server, in both parts
    assert words.count("reboot") == 2
    assert "event 1: <Re&boot>" in words


def test_the_picture_has_the_words_of_the_report():
    told = dict(timeline.MEANINGS)
    assert list(told) == list(timeline.COLOURS)
    meant = {word: f"{word}: {MEANINGS[state]}" if state in MEANINGS else word for state, word in WORDS.items()}
    assert {state: meant.get(state) for state in told if state not in (records.IMPACT, records.DEAD)}.items() <= told.items()


def test_two_events_at_once_have_a_row_each():
    page = timeline.Page(0, 60, 240)
    first, second, third = dict(ROW, appeared=0, gone=20), dict(ROW, appeared=10, gone=30), dict(ROW, appeared=40, gone=50)
    assert timeline.life_rows([first, second, third], "web1", page) == [[first, third], [second]]


@pytest.mark.parametrize(
    "line, shown",
    [
        ("07:00:02  web1  draining  Reboot E1  2 sessions on lb1  (for 3 s)\n", "web1 draining Reboot (event 1): 2 sessions on lb1 (for 3 s)"),
        ("TASK [Plan] ****\n", None),
        ("changed: [web1]\n", None),
        ("\n", None),
        ("fatal: [web1]: FAILED! => {}\n", "fatal: [web1]: FAILED! => {}"),
        ("[ERROR]: " + 300 * "x" + "\n", "[ERROR]: " + 151 * "x" + "..."),
    ],
)
def test_what_is_shown_of_the_playbook(line, shown):
    assert playbook.account(line, {"E1": 1}) == shown


def test_a_growing_file_is_read_line_by_line(tmp_path):
    growing = playbook.Growing(tmp_path / "log")
    assert list(growing.new_lines()) == []
    growing.path.write_text("one\ntw")
    assert list(growing.new_lines()) == ["one\n"]
    with growing.path.open("a") as stream:
        stream.write("o\n")
    assert list(growing.new_lines()) == ["two\n"]
    assert list(growing.new_lines()) == []


class Simulator:
    """Has the events that a test gives it."""

    def __init__(self):
        self.given = []

    def events(self):
        return self.given


class Bed:
    """Notes whom an event hits."""

    def __init__(self):
        self.simulator = Simulator()
        self.web = {"web1": None, "web2": None}
        self.hits = []

    def hit(self, *hit):
        self.hits.append(hit)


def of_simulator(event_id, hosts, statuses, seconds=4, approvals=0):
    history = [{"Time": 10.0 + place, "Status": status} for place, status in enumerate(statuses)]
    approved = [{"Time": 10.5, "Vm": hosts[0]}] * approvals
    return {"EventId": event_id, "EventType": "Freeze", "Resources": hosts, "ImpactSeconds": seconds, "History": history, "Approvals": approved}


def test_an_event_is_told_and_carried_out_once():
    bed, shown = Bed(), screen.Screen(io.StringIO())
    azure = stage.Azure(bed, shown)
    azure.tick()
    bed.simulator.given = [of_simulator("E1", ["web1", "web2"], ["Scheduled"])]
    azure.tick()
    azure.tick()
    assert bed.hits == []
    bed.simulator.given = [of_simulator("E1", ["web1", "web2"], ["Scheduled", "Started", "Completed"], approvals=1)]
    azure.tick()
    azure.tick()
    assert bed.hits == [("Freeze", "web1", 4), ("Freeze", "web2", 4)]
    assert [words for _seconds, who, words in shown.lines if who == "azure"] == [
        "event 1, Freeze of web1 and web2: announced",
        "event 1, Freeze of web1 and web2: approved, starts",
        "event 1, Freeze of web1 and web2: over",
    ]


def test_what_a_player_may_announce_does_no_harm():
    """A VM that is not there, an impact without a length, and the id of an event that is gone."""
    bed, shown = Bed(), screen.Screen(io.StringIO())
    azure = stage.Azure(bed, shown)
    bed.simulator.given = [of_simulator("E1", ["web1", "web9"], ["Started", "Completed"], seconds=None), of_simulator("E1", ["web2"], ["Scheduled", "Started"])]
    azure.tick()
    assert bed.hits == [("Freeze", "web1", stage.OPEN_IMPACT_SECONDS), ("Freeze", "web2", 4)]
