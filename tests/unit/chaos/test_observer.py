# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The observer of the chaos tests sees each thing that must not be, in records in which nothing else is wrong."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest

from tests.chaos.observer import judge, read_balancer, read_log
from tests.chaos.scenarios import HOSTS
from tests.chaos.stage import Controller

OUT, BACK, APPROVED, STARTED, GONE = 1005.0, 1016.0, 1010.0, 1010.3, 1014.0
EVENT_ID = "A-B"


def servers(**changed):
    found = {f"web/{host}": ["ready", True, 1, 1] for host in HOSTS}
    found["others/parked"] = ["maint", True, 3, 0]
    found.update({f"web/{host}": value for host, value in changed.items()})
    return found


@pytest.fixture(name="record")
def a_good_record():
    """A reboot of web1 from notice to end, of 20 s, seen every 0.1 s."""
    samples = []
    for tick in range(0, 200):
        time = 1000 + tick / 10
        busy = 1 if time < OUT + 2 else 0
        samples.append([time, servers(web1=["drain", True, 1, busy]) if OUT <= time < BACK else servers()])
    lasting = {key: [admin, weight, "127.0.0.1:1"] for key, (admin, _up, weight, _busy) in servers().items()}
    return {
        "hosts": list(HOSTS),
        "least": 1,
        "yields": 135,
        "forbidden": [],
        "samples": samples,
        "before": lasting,
        "after": copy.deepcopy(lasting),
        "events": [
            {
                "EventId": EVENT_ID,
                "EventType": "Reboot",
                "Resources": ["web1"],
                "NoticeSeconds": 900,
                "History": [{"Time": 1001.0, "Status": "Scheduled"}, {"Time": STARTED, "Status": "Started"}, {"Time": GONE, "Status": "Completed"}],
                "Approvals": [{"Time": APPROVED, "Vm": "web1"}],
            }
        ],
        "requests": [{"Time": 1000 + second, "Vm": "web1", "Method": "GET", "Path": "/metadata/scheduledevents?x=1", "Status": 200} for second in range(2, 19)],
        "load": [{"start": 1000 + number / 5, "seconds": 0.1, "outcome": "ok", "backend": "web2"} for number in range(95)],
        "log": [{"backend": "web2", "start": 1000 + number / 5, "seconds": 0.1, "status": 200} for number in range(97)],
        "log_of": "HAProxy",
        "log_of_requests": True,
        "unnoted": [],
        "controllers": [
            {
                "name": "first",
                "begin": 1000.5,
                "end": 1018.0,
                "hung": False,
                "killed": False,
                "status": 0,
                "limit": 100,
                "output": "",
                "result": [
                    {
                        "event_id": EVENT_ID.lower(),
                        "event_type": "Reboot",
                        "resources": ["web1"],
                        "outcome": "completed",
                        "hosts": {"web1": {"state": "restored", "reason": "back as it was found"}},
                    }
                ],
            }
        ],
        "left": [],
        "deaf": [],
    }


def numbers(record):
    return sorted({sentence[:3] for sentence in judge(record)})


def test_nothing_is_wrong(record):
    assert judge(record) == []


def change(record, since, until, key, value):
    for sample in record["samples"]:
        if since <= sample[0] < until:
            sample[1][key] = value


class TestReadiness:
    def test_in_rotation_when_approved(self, record):
        change(record, OUT, APPROVED + 0.1, "web/web1", ["ready", True, 1, 0])
        assert numbers(record) == ["(1)"]

    def test_a_session_when_approved(self, record):
        change(record, OUT, APPROVED + 0.1, "web/web1", ["drain", True, 1, 2])
        (sentence,) = judge(record)
        assert sentence.startswith("(1)") and "2 sessions" in sentence and "10.00 s" in sentence

    @pytest.mark.parametrize(("witness", "well"), [("load", {"outcome": "ok"}), ("log", {"status": 200})])
    def test_a_request_that_was_still_being_answered(self, record, witness, well):
        record[witness].append({"start": OUT - 0.1, "seconds": APPROVED + 1 - OUT, "backend": "web1", **well})
        assert numbers(record) == ["(1)"]

    @pytest.mark.parametrize(("witness", "well"), [("load", {"outcome": "ok"}), ("log", {"status": 200})])
    def test_a_request_that_was_sent_to_a_server_that_is_out(self, record, witness, well):
        row = {"start": OUT - 0.1, "seconds": 0.1, "backend": "web1", **well}
        record[witness].append(row)
        assert judge(record) == []
        row["start"] = OUT + 1
        assert numbers(record) == ["(2)"]

    @pytest.mark.parametrize("connection", ["new", "kept"])
    def test_a_request_on_a_connection_that_was_there_before(self, record, connection):
        """A balancer of connections leaves an open one where it is. The host closes it with its next answer, which may come a while later."""
        row = {"start": OUT + 1, "seconds": 0.1, "backend": "web1", "outcome": "ok", "connection": connection}
        record["load"].append(row)
        assert numbers(record) == ["(2)"]
        record["log_of_requests"] = False
        assert numbers(record) == ([] if connection == "kept" else ["(2)"])
        # The log tells of a connection that was opened since then.
        record["log"].append({"start": OUT + 1, "seconds": 0.1, "backend": "web1", "status": 200})
        assert numbers(record) == ["(2)"]

    def test_back_too_early(self, record):
        change(record, GONE - 1, BACK, "web/web1", ["ready", True, 1, 0])
        assert numbers(record) == ["(2)"]

    def test_back_for_a_moment(self, record):
        change(record, OUT + 1, OUT + 1.5, "web/web1", ["ready", True, 1, 0])
        assert numbers(record) == ["(2)"]

    def test_a_second_event_that_came_while_it_was_out(self, record):
        second = copy.deepcopy(record["events"][0])
        second.update(EventId="C-D", Approvals=[])
        second["History"] = [{"Time": 1009.0, "Status": "Scheduled"}, {"Time": 1019.0, "Status": "Cancelled"}]
        record["events"].append(second)
        told = copy.deepcopy(record["controllers"][0]["result"][0])
        told.update(event_id="C-D", outcome="cancelled")
        record["controllers"][0]["result"].append(told)
        record["controllers"][0]["end"] = 1019.5
        assert numbers(record) == ["(2)"]


class TestApproval:
    def test_through_a_stranger(self, record):
        record["events"][0]["Approvals"][0]["Vm"] = "web2"
        assert numbers(record) == ["(3)"]

    def test_against_the_rule(self, record):
        record["forbidden"] = [0]
        assert numbers(record) == ["(3)"]
        record["events"][0]["Approvals"] = []
        assert numbers(record) == []


class TestTheEnd:
    @pytest.mark.parametrize("value", [["drain", 1, "127.0.0.1:1"], ["ready", 2, "127.0.0.1:1"], None])
    def test_a_server_is_not_as_before(self, record, value):
        record["after"]["web/web1"] = value
        assert numbers(record) == ["(4)"]

    def test_what_nobody_named_was_touched(self, record):
        change(record, 1010, 1010.2, "others/parked", ["ready", True, 3, 0])
        assert numbers(record) == ["(4)"]

    def test_an_operators_server_was_touched(self, record):
        record["before"]["web/web1"][0] = record["after"]["web/web1"][0] = "maint"
        assert "(4)" in numbers(record)

    def test_a_weight(self, record):
        change(record, 1010, 1010.2, "web/web1", ["drain", True, 9, 0])
        assert numbers(record) == ["(4)"]

    @pytest.mark.parametrize(("key", "value"), [("left", ["state/web1/x.json"]), ("deaf", ["web1"])])
    def test_what_is_left(self, record, key, value):
        record[key] = value
        assert numbers(record) == ["(4)"]


class TestTheMinimum:
    def test_it_stays(self, record):
        record["least"] = 4
        assert numbers(record) == ["(5)"]
        record["least"] = 3
        assert numbers(record) == []
        change(record, 1008, 1008.1, "web/web3", ["ready", False, 1, 0])
        assert numbers(record) == ["(5)"]

    def test_it_yields_for_the_events_hosts_alone(self, record):
        record["least"] = 4
        record["events"][0]["NoticeSeconds"] = record["yields"] + OUT - 1001
        assert judge(record) == []
        change(record, OUT + 1, OUT + 1.1, "web/web3", ["ready", False, 1, 0])
        assert numbers(record) == ["(5)"]

    def test_it_yields_no_sooner(self, record):
        record["least"] = 4
        record["events"][0]["NoticeSeconds"] = record["yields"] + OUT + 2 - 1001
        assert numbers(record) == ["(5)"]

    def test_it_yields_for_what_starts_by_itself(self, record):
        record["least"] = 4
        event = record["events"][0]
        event.update(History=[{"Time": OUT - 0.1, "Status": "Started"}, {"Time": GONE, "Status": "Completed"}], Approvals=[])
        record["controllers"][0]["result"][0]["outcome"] = "not_approved"
        assert judge(record) == []


class TestTheImpact:
    def let_it_start_by_itself(self, record, started):
        event = record["events"][0]
        event["Approvals"] = []
        event["History"] = [{"Time": 1001.0, "Status": "Scheduled"}, {"Time": started, "Status": "Started"}, {"Time": started + 1, "Status": "Completed"}]
        change(record, 1000, started + 0.2, "web/web1", ["ready", True, 1, 0])
        record["controllers"][0]["result"][0]["outcome"] = "not_approved"
        record["controllers"][0]["end"] = 1019.5
        change(record, started + 0.2, 1019, "web/web1", ["drain", True, 1, 0])

    def test_hit_in_rotation_though_there_was_time(self, record):
        self.let_it_start_by_itself(record, 1017.0)
        assert numbers(record) == ["(6)"]

    def test_hit_in_rotation_when_there_was_none(self, record):
        self.let_it_start_by_itself(record, 1008.0)
        record["load"].append({"start": 1007.9, "seconds": 0.1, "outcome": "status 502", "backend": "web1"})
        assert judge(record) == []

    def test_the_minimum_had_yielded_and_it_was_still_in_rotation(self, record):
        self.let_it_start_by_itself(record, 1017.0)
        record.update(least=4, yields=5)
        record["events"][0]["NoticeSeconds"] = 16
        assert numbers(record) == ["(6)"]

    def do_nothing(self, record, statuses, gone):
        event = record["events"][0]
        event.update(Approvals=[], History=[{"Time": time, "Status": status} for time, status in zip((1001.0, gone), statuses)])
        change(record, 1000, 1020, "web/web1", ["ready", True, 1, 0])
        told = record["controllers"][0]["result"][0]
        told["outcome"] = "not_approved" if "Started" in statuses else "cancelled"
        told["hosts"]["web1"]["state"] = "in_service"

    @pytest.mark.parametrize("statuses", [("Started", "Completed"), ("Scheduled", "Cancelled")])
    def test_never_taken_out(self, record, statuses):
        self.do_nothing(record, statuses, 1017.0)
        (sentence,) = judge(record)
        assert sentence.startswith("(6)") and "web1 was never taken out" in sentence

    def test_never_taken_out_in_a_time_that_was_too_short(self, record):
        self.do_nothing(record, ("Started", "Completed"), 1014.0)
        assert judge(record) == []

    @pytest.mark.parametrize(("witness", "failed"), [("load", {"outcome": "status 503"}), ("log", {"status": 503})])
    def test_a_failed_request(self, record, witness, failed):
        record[witness].append({"start": 1012.0, "seconds": 0.1, "backend": "", **failed})
        (sentence,) = judge(record)
        assert sentence.startswith("(7) 1 of 9") and "12.00 s" in sentence

    def test_a_log_that_does_not_tell_of_all(self, record):
        del record["log"][90:]
        (sentence,) = judge(record)
        assert sentence.startswith("(7) ") and "HAProxy's log tells of" in sentence
        # A connection may carry several requests.
        record["log_of_requests"] = False
        assert judge(record) == []


def test_approved_on_a_record_that_does_not_say_that_the_change_was_made(record):
    record["unnoted"] = ["nginx_server-1.json"]
    (sentence,) = judge(record)
    assert sentence.startswith("(4) ") and "nginx_server-1.json" in sentence


class TestTheRun:
    @pytest.mark.parametrize("changed", [{"status": 2}, {"result": None}, {"output": "Traceback (most recent call last)"}, {"limit": 10}, {"result": []}])
    def test_did_not_end_well(self, record, changed):
        record["controllers"][0].update(changed)
        assert numbers(record) == ["(8)"]

    def test_failed_since_a_service_was_at_fault_to_the_end_and_said_so(self, record):
        record["requests"][-1]["Fault"] = True
        record["controllers"][0].update(status=2)
        assert numbers(record) == ["(8)"]
        record["controllers"][0]["output"] = "web1: its metadata service cannot be read: status 500"
        assert numbers(record) == []
        record["controllers"][0]["status"] = 250
        assert numbers(record) == ["(8)"]
        del record["requests"][-1]["Fault"]
        record["controllers"][0]["status"] = 2
        assert numbers(record) == ["(8)"]

    def test_did_not_end_at_all(self, record):
        record["controllers"][0].update(hung=True, status=None, result=None, end=1019.9)
        (sentence,) = judge(record)
        assert sentence.startswith("(8) the first controller") and "did not end" in sentence

    def test_killed_is_not_judged(self, record):
        again = dict(record["controllers"][0], name="next", begin=1009.0)
        record["controllers"][0].update(killed=True, status=-9, result=None, end=1008.0)
        record["controllers"].append(again)
        assert judge(record) == []

    @pytest.mark.parametrize("changed", [{"outcome": "cancelled"}, {"outcome": "in_progress"}, {"event_id": "x"}, {"event_type": "Freeze"}, {"hosts": {}}])
    def test_told_what_is_not_so(self, record, changed):
        record["controllers"][0]["result"][0].update(changed)
        assert numbers(record) == ["(8)"]

    @pytest.mark.parametrize("state", ["in_service", "needs_person", "approved"])
    def test_told_of_a_state_that_is_not_so(self, record, state):
        record["controllers"][0]["result"][0]["hosts"]["web1"]["state"] = state
        assert numbers(record) == ["(8)"]

    @pytest.mark.parametrize("fault", [False, True])
    def test_a_service_that_said_that_it_had_approved_what_it_had_not(self, record, fault):
        record["events"][0]["Approvals"] = []
        sent = dict(record["requests"][0], Time=APPROVED, Method="POST", **({"Fault": True} if fault else {}))
        record["requests"].append(sent)
        assert numbers(record) == ([] if fault else ["(8)"])
        sent["Status"] = 500
        assert numbers(record) == ["(8)"]

    def test_ended_before_the_event(self, record):
        record["controllers"][0]["end"] = 1013.0
        assert numbers(record) == ["(8)"]


def test_a_controller_that_did_not_end_is_recorded_as_hung(tmp_path):
    output = tmp_path / "first.txt"
    output.write_text("PLAY [Handle]\n", encoding="utf-8")
    controller = Controller("first", SimpleNamespace(returncode=None), output, 150.0)
    told = controller.record()
    assert told["hung"] and not told["killed"] and told["end"] >= told["begin"]
    controller.end = controller.begin + 5
    assert not controller.record()["hung"]


def test_what_haproxys_log_says():
    text = "[WARNING]  (1) : Server web/web1 is DOWN.\nrequest web1 1000.250 30 2001 200\nrequest <NOSRV> 1001.000 0 4 503\n"
    assert read_log(text) == [
        {"backend": "web1", "start": 1000.28, "seconds": 2.001, "status": 200},
        {"backend": "<NOSRV>", "start": 1001.0, "seconds": 0.004, "status": 503},
    ]


def test_what_haproxy_says():
    text = (
        "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight a b c srv_port\n"
        "3 web 1 web1 127.0.0.1 2 8 40 - - - 81\n3 web 2 web2 127.0.0.1 0 0 1 - - - 82\n4 others 1 x 127.0.0.1 2 1 1 - - - 83\n\n"
        "# pxname,svname,qcur,qmax,scur,\nweb,FRONTEND,,,7,\nweb,web1,1,0,2,\nweb,web2,0,0,0,\nweb,BACKEND,0,0,3,\n\n"
    )
    sample, lasting = read_balancer(text)
    assert sample == {"web/web1": ["drain", True, 40, 3], "web/web2": ["ready", False, 1, 0], "others/x": ["maint", True, 1, 0]}
    assert lasting["web/web1"] == ["drain", 40, "127.0.0.1:81"]
