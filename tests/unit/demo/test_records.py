# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From records to lanes and rows: what the demo claims follows from what was recorded."""

from __future__ import annotations

import pytest

from tests.demo import records
from tests.demo.records import APPROVED, DEAD, DRAINING, IMPACT, IN_SERVICE, READY, RESTORING, STARTED, Segment
from tests.support.haproxy import Server
from tests.unit.demo import made

UP = Server("ready", True)
DRAIN = Server("drain", True)
DEAD_SERVER = Server("ready", False)


def states(*moments):
    return [(time, {"web1": server, "web2": UP}) for time, server in moments]


def event(event_id="e1", resources=("web1",), history=(), approvals=()):
    return made.event(event_id, resources, history, approvals)


def entry(time, state, event_ids=("e1",), host="web1"):
    return {"time": time, "event_ids": list(event_ids), "hosts": {host: {"state": state}}}


def request(start, outcome="ok", seconds=0.1, backend="web1"):
    return {"start": start, "seconds": seconds, "outcome": outcome, "backend": backend, "kind": "fast", "connection": "new"}


WHOLE = states((0, UP), (12, DRAIN), (30, DEAD_SERVER), (32, UP))
LIFE = event(history=[(10, "Scheduled"), (20, "Started"), (28, "Completed")], approvals=[19, 19.5])
JOURNAL = [entry(11, "waiting"), entry(13, "draining"), entry(17, "ready"), entry(21, "started"), entry(29, "restoring")]


def test_event_row_takes_each_time_from_its_witness():
    (row,) = records.event_rows([LIFE], JOURNAL, WHOLE, [], 40)
    assert row == {
        "event_id": "e1",
        "event_type": "Reboot",
        "resources": ["web1"],
        "outcome": "completed",
        "appeared": 0,
        "detected": 1,
        "out_of_load_balancer": 2,
        "drained": 7,
        "approved": 9,
        "started": 10,
        "gone": 18,
        "restored": 22,
        "failed": 0,
    }


def test_times_count_from_the_first_event():
    later = event("e2", ["web2"], [(15, "Scheduled"), (25, "Cancelled")])
    rows = records.event_rows([later, LIFE], JOURNAL, WHOLE, [], 40)
    assert [row["appeared"] for row in rows] == [5, 0]


def test_an_event_that_nobody_acted_on_has_no_times():
    idle = event(history=[(10, "Scheduled"), (20, "Started"), (28, "Completed")])
    (row,) = records.event_rows([idle], [], states((0, UP)), [], 40)
    assert [row[key] for key in ("detected", "out_of_load_balancer", "drained", "approved", "restored")] == [None] * 5
    assert row["gone"] == 18


def test_cancelled_event():
    life = event(history=[(10, "Scheduled"), (14, "Cancelled")])
    (row,) = records.event_rows([life], [entry(11, "draining")], states((0, UP), (12, DRAIN), (16, UP)), [], 40)
    assert (row["outcome"], row["approved"], row["started"], row["drained"], row["restored"]) == ("cancelled", None, None, None, 6)


def test_with_several_hosts_the_last_one_counts():
    both = [
        (0, {"web1": UP, "web2": UP}),
        (12, {"web1": DRAIN, "web2": UP}),
        (13, {"web1": DRAIN, "web2": DRAIN}),
        (31, {"web1": UP, "web2": DRAIN}),
        (33, {"web1": UP, "web2": UP}),
    ]
    life = event(resources=["web1", "web2"], history=[(10, "Scheduled"), (20, "Started"), (28, "Completed")])
    journal = [
        {"time": 15, "event_ids": ["e1"], "hosts": {"web1": {"state": "ready"}, "web2": {"state": "draining"}}},
        {"time": 18, "event_ids": ["e1"], "hosts": {"web1": {"state": "ready"}, "web2": {"state": "ready"}}},
    ]
    (row,) = records.event_rows([life], journal, both, [], 40)
    assert (row["out_of_load_balancer"], row["drained"], row["restored"]) == (3, 8, 23)


def test_one_host_that_was_never_taken_out_leaves_the_time_open():
    life = event(resources=["web1", "web2"], history=[(10, "Scheduled"), (20, "Started"), (28, "Completed")])
    (row,) = records.event_rows([life], JOURNAL, WHOLE, [], 40)
    assert (row["out_of_load_balancer"], row["restored"]) == (None, None)


def test_a_second_event_finds_its_host_out_already():
    second = event("e2", history=[(21, "Scheduled"), (25, "Started"), (29, "Completed")], approvals=[24])
    journal = [*JOURNAL[:4], entry(23, "ready", ["e1", "e2"])]
    row = records.event_rows([LIFE, second], journal, WHOLE, [], 40)[1]
    assert (row["appeared"], row["detected"], row["out_of_load_balancer"], row["drained"], row["restored"]) == (11, 13, 11, 11, 22)


def test_of_two_stretches_the_one_counts_in_which_the_event_ended():
    twice = states((0, UP), (8, DRAIN), (12, UP), (14, DRAIN), (30, UP))
    (row,) = records.event_rows([LIFE], JOURNAL, twice, [], 40)
    assert (row["out_of_load_balancer"], row["restored"]) == (4, 20)


def test_failed_requests_are_counted_between_visible_and_restored():
    requests = [request(9, "status 502"), request(10.5, "status 502"), request(31, "status 504"), request(31), request(33, "status 502")]
    (row,) = records.event_rows([LIFE], JOURNAL, WHOLE, requests, 40)
    assert row["failed"] == 2
    assert records.count_failed(requests) == 4


def test_lane_with_the_collection():
    impacts = [{"host": "web1", "type": "Reboot", "begin": 20, "end": 25}]
    lane = records.lanes(["web1"], WHOLE, impacts, 0, 40, [LIFE], JOURNAL)["web1"]
    assert lane == [
        Segment(IN_SERVICE, 0, 12),
        Segment(DRAINING, 12, 17),
        Segment(READY, 17, 20),
        Segment(IMPACT, 20, 25),
        Segment(STARTED, 25, 28),
        Segment(RESTORING, 28, 32),
        Segment(IN_SERVICE, 32, 40),
    ]


def test_a_lane_has_the_states_that_the_playbook_told_until_the_last_event_is_gone():
    second = event("e2", history=[(21, "Scheduled"), (27, "Started"), (29, "Completed")], approvals=[26])
    journal = [
        entry(11, "waiting"),
        entry(16, "ready"),
        entry(17, "ready"),
        entry(19.5, "approved"),
        entry(21, "started"),
        entry(25, "draining"),
        entry(27, "started"),
    ]
    lane = records.lanes(["web1"], WHOLE, [], 0, 40, [LIFE, second], [*journal, entry(31, "started")])["web1"]
    assert [(segment.state, segment.begin) for segment in lane] == [
        (IN_SERVICE, 0),
        (DRAINING, 12),
        (READY, 16),
        (APPROVED, 19.5),
        (STARTED, 21),
        (DRAINING, 25),
        (STARTED, 27),
        (RESTORING, 29),
        (IN_SERVICE, 32),
    ]


def test_lane_of_a_cancelled_event_drains_until_it_is_gone():
    life = event(history=[(10, "Scheduled"), (14, "Cancelled")])
    lane = records.lanes(["web1"], states((0, UP), (12, DRAIN), (16, UP)), [], 0, 20, [life], [])["web1"]
    assert [segment.state for segment in lane] == [IN_SERVICE, DRAINING, RESTORING, IN_SERVICE]
    assert lane[2] == Segment(RESTORING, 14, 16)


def test_lane_of_the_control_shows_what_the_health_check_saw():
    impacts = [{"host": "web1", "type": "Reboot", "begin": 10, "end": 15}]
    lanes = records.lanes(["web1", "web2"], states((0, UP), (12, DEAD_SERVER), (17, UP)), impacts, 0, 20)
    assert lanes["web1"] == [Segment(IN_SERVICE, 0, 10), Segment(IMPACT, 10, 15), Segment(DEAD, 15, 17), Segment(IN_SERVICE, 17, 20)]
    assert lanes["web2"] == [Segment(IN_SERVICE, 0, 20)]


def test_lanes_leave_no_gap():
    segments = [Segment(READY, 2, 6), Segment(IMPACT, 3, 4), Segment(IMPACT, -5, 1)]
    flat = records.flatten(segments, 0, 10)
    assert flat[0].begin == 0
    assert flat[-1].end == 10
    assert all(left.end == right.begin and left.state != right.state for left, right in zip(flat, flat[1:]))


def test_rate_counts_answers_when_they_are_given():
    requests = [request(0.0, seconds=0.1), request(0.2, seconds=2.0), request(0.3, "status 502")]
    rates = records.per_second(requests, 0, 3, lambda one: one["outcome"] == "ok", width=1)
    assert rates == [(0, 1), (1, 0), (2, 1)]


@pytest.mark.parametrize("server, expected", [(UP, True), (DRAIN, False), (DEAD_SERVER, False), (Server("maint", True), False)])
def test_in_service(server, expected):
    assert records.in_service(server) is expected


def test_axis_counts_from_its_zero_and_jumps():
    axis = records.Axis(100.0)
    assert (axis.at(98), axis.at(103)) == (-2, 3)
    axis.jump(110.0, 25.0)
    assert (axis.at(109), axis.at(110), axis.at(112)) == (9, 25, 27)
    assert axis.gaps() == [(10, 25)]


def test_all_records_are_moved_to_the_axis():
    recorded = {
        "axis": records.Axis(10.0),
        "begin": 8,
        "end": 42,
        "states": WHOLE,
        "impacts": [{"host": "web1", "type": "Reboot", "begin": 20, "end": 25}],
        "requests": [request(11)],
        "journal": JOURNAL,
        "events": [LIFE],
    }
    moved = records.on_axis(recorded)
    assert (moved["begin"], moved["end"]) == (-2, 32)
    assert [moment for moment, _servers in moved["states"]] == [-10, 2, 20, 22]
    assert (moved["impacts"][0]["begin"], moved["impacts"][0]["end"]) == (10, 15)
    assert (moved["requests"][0]["start"], moved["journal"][0]["time"]) == (1, 1)
    (row,) = records.event_rows(moved["events"], moved["journal"], moved["states"], moved["requests"], moved["end"])
    assert row == records.event_rows([LIFE], JOURNAL, WHOLE, [], 42)[0]
