# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role approve_event against the simulator."""

from __future__ import annotations


def approve(*event_ids, **variables):
    ids = {"approve_event_event_ids": list(event_ids)} if event_ids else {}
    return "approve_event", {**ids, **variables}


def test_exactly_the_event_that_was_named(bed):
    first, _second = bed.event("web1"), bed.event("web1")
    predicted = bed.run(approve(first), check=True)
    assert predicted.status == 0 and predicted.step.result["approved"] == [first], predicted.output
    assert bed.posted() == []
    run = bed.run(approve(first.lower()), approve(first))
    assert run.status == 0, run.output
    now, later = [step.result for step in run.steps]
    assert now == {"done": True, "changed": True, "reason": f"approved {first}", "failed_hosts": [], "approved": [first], "not_approved": []}
    assert later["not_approved"] == [{"event_id": first, "reason": "started"}] and later["changed"] is False
    assert later["reason"] == f"nothing to approve for {first}"
    assert bed.posted() == [first]
    assert bed.records("web1") == {}


def test_all_events_that_name_this_host(bed):
    bed.event("web2")
    mine = []

    def announce():
        mine.extend([bed.event("web1"), bed.event("WEB1")])

    def answer_once_with_an_empty_body():
        bed.simulator.fault(Empty=True, vm="web1", times=1)

    run = bed.run(approve(), announce, answer_once_with_an_empty_body, approve(), approve())
    assert run.status == 0, run.output
    assert (run.steps[0].result["changed"], run.steps[0].result["reason"]) == (False, "no scheduled event names this host")
    # An empty body is asked about once more.
    assert sorted(run.steps[1].result["approved"]) == sorted(bed.posted()) == sorted(mine)
    assert [entry["reason"] for entry in run.steps[2].result["not_approved"]] == ["started", "started"] and not run.steps[2].result["changed"]


def test_nobody_is_approved_who_is_not_ready(bed):
    both, hostile = bed.event("web1", "web2"), bed.event("web1", "{{ 7 * 7 }}; rm -rf x")
    run = bed.run(
        approve(both),
        approve(both, approve_event_ready_resources=["web1"]),
        approve(hostile, approve_event_ready_resources=["web1", "web2"]),
        approve(),
        approve(bed.event("web2")),
        approve(both, approve_event_ready_resources=["WEB1", "web2"]),
    )
    for step, event_id, name in ((0, both, "web2"), (1, both, "web2"), (2, hostile, "{{ 7 * 7 }}; rm -rf x")):
        said = run.steps[step].failure
        assert f"event '{event_id}' names '{name}', which" in said and said.endswith("Nothing was approved."), said
    assert "Nothing was approved." in run.steps[3].failure
    assert "and not this host" in run.steps[4].failure
    assert run.steps[5].failure == "" and run.steps[5].result["approved"] == [both]
    assert bed.posted() == [both]


def test_steps_leave_a_record(bed):
    mine = bed.event("web1")
    bed.simulator.fault({"Status": 401}, method="POST")
    step = approve(mine, approve_event_wait=False)

    def see():
        assert bed.records("web1") == {} and bed.posted() == []
        bed.simulator.clear_faults()

    failed, approved = bed.run(step, see, step, rolespec=False).steps
    assert "401" in failed.failure
    assert approved.result["approved"] == [mine] and approved.result["done"]
    assert bed.records("web1") == {"approved": [mine]} and bed.posted() == [mine]
    assert bed.hosts_on_record("web1") == {"web1"}


def test_what_had_started_by_itself_leaves_no_record(bed):
    mine = bed.event("web1", EventStatus="Started")
    step = approve(mine, approve_event_wait=False)
    (run,) = bed.run(step, rolespec=False).steps
    assert run.result["not_approved"] == [{"event_id": mine, "reason": "started"}]
    assert bed.records("web1") == {} and bed.posted() == []


def test_an_event_that_does_not_begin(bed):
    mine = bed.event("web1")
    # The approval is taken and lost.
    bed.simulator.fault({"Status": 200}, method="POST")
    run = bed.run(approve(mine, approve_event_timeout=2))
    assert mine in run.step.failure and run.step.result["approved"] == [mine]


BAD = [
    ({"approve_event_event_ids": []}, "approve_event_event_ids: an empty list; name at least one, or leave it out"),
    ({"approve_event_ready_resources": []}, "approve_event_ready_resources: an empty list; name at least one, or leave it out"),
    ({"approve_event_timeout": -5}, "approve_event_timeout: -5 is not a number of seconds from 0.001 up"),
    ({"approve_event_event_ids": ["no-such-event"], "graceful_azure_imds_url": "ftp://127.0.0.1"}, "imds_url"),
]


def test_bad_input(bed):
    bed.event("web1")
    run = bed.run(*(approve(**variables) for variables, _message in BAD))
    for (variables, message), step in zip(BAD, run.steps, strict=True):
        assert message in step.failure, (variables, step.failure)
    assert bed.posted() == []
