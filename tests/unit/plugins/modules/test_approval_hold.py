# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is recorded of an approval; what is approved is tested with scheduled_events_approve."""

from __future__ import annotations

import json
import time

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _approval_record as approvals
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import HoldError

from tests.support.calls import told
from tests.support.service import Clock, Posting, document, event

READY = ["FrontEnd_IN_0", "BackEnd_IN_0"]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "state"


@pytest.fixture
def recorded(folder):
    """Whether each recorded event is known to be accepted."""

    def recorded():
        records = [json.loads(path.read_text()) for path in folder.glob("*.json")] if folder.exists() else []
        assert all((record["kind"], record["subject"], record["done"]) == ("task", {"name": "approved"}, True) for record in records)
        return {event_id: entry["details"]["posted"] for record in records for event_id, entry in record["events"].items()}

    return recorded


@pytest.fixture
def approve(folder):
    def call(*answers, event_ids=("A",), posts=(200,), **args):
        given = {"event_ids": list(event_ids), "ready_resources": READY, "state_dir": str(folder), **args}
        with Posting(*answers, posts=posts) as service:
            check = given.pop("check", False)
            result = told("approval_hold", dict(given, imds_url=service.url), check, clock=Clock())
        call.posted = [request.json for request in service.requests("POST")]
        return result

    return call


def test_it_is_recorded_before_it_is_sent_and_once_more_when_it_was_accepted(approve, recorded):
    seen = []

    def see(handler):
        seen.append(recorded())
        handler.send_response(200)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    result = approve(document(event("A"), event("B")), event_ids=["a"], posts=(see,), reason="why", event_details={"A": {"not_before": "then"}})
    assert (result["changed"], result["approved"]) == (True, ["A"])
    assert seen == [{"A": False}] and recorded() == {"A": True}
    # The others are kept, and a second time nothing is less certain.
    assert approve(document(event("A"), event("B")), event_ids=["A", "B"])["approved"] == ["A", "B"]
    assert recorded() == {"A": True, "B": True}
    assert approve(document(event("A")), posts=(403,))["failed"]
    assert recorded() == {"A": True, "B": True}


@pytest.mark.parametrize(("posts", "left"), [((401,), {}), ((400, 400), {}), ((503,) * 9, {"A": False}), ((lambda handler: None,) * 9, {"A": False})])
def test_what_stays_recorded_of_a_failure(approve, recorded, posts, left):
    assert approve(document(event("A")), posts=posts, request_timeout=0.2)["failed"]
    assert recorded() == left


def test_what_went_meanwhile_is_not_recorded(approve, recorded):
    both = document(event("A"), event("B"), incarnation=1)
    result = approve(both, document(event("B"), incarnation=2), event_ids=["A", "B"], posts=(400, 200))
    assert (result["approved"], recorded()) == (["B"], {"B": True})
    assert approve(document(event("C", EventStatus="Started", NotBefore="")), event_ids=["C"])["not_approved"] == [{"event_id": "C", "reason": "started"}]
    assert recorded() == {"B": True}


@pytest.mark.parametrize("first", [503, lambda handler: None])
def test_what_may_have_been_accepted_in_a_try_before_stays_recorded(approve, recorded, first):
    """The answer to it is lost, and by the time that it is sent again the event has begun."""
    begun = document(event("A", EventStatus="Started", NotBefore=""), incarnation=2)
    result = approve(document(event("A"), incarnation=1), begun, posts=(first, 400), request_timeout=0.2)
    assert (result["approved"], recorded()) == ([], {"A": False})


@pytest.mark.parametrize("more", [{"check": True}, {"record": False}])
def test_without_a_record(approve, recorded, folder, more):
    assert approve(document(event("A")), **more)["approved"] == ["A"]
    assert recorded() == {} and not folder.exists()
    assert len(approve.posted) == (0 if "check" in more else 1)


def test_what_cannot_be_recorded_is_not_sent(approve, folder):
    folder.write_text("")
    result = approve(document(event("A")))
    assert result["failed"] and str(folder) in result["msg"]
    assert approve.posted == []


def test_what_was_sent_is_told_though_it_cannot_be_recorded(approve, recorded, monkeypatch):
    def fail(self, approved, unsure):
        raise HoldError("The disk is full.")

    monkeypatch.setattr(approvals.ApprovalRecords, "end", fail)
    result = approve(document(event("A")))
    assert (result["approved"], result["warnings"], recorded()) == (["A"], ["The disk is full."], {"A": False})


def test_nobody_is_approved_who_is_not_ready(approve, recorded):
    result = approve(document(event("A", Resources=[*READY, "other"])))
    assert "'other', which is not said to be ready" in result["msg"]
    assert recorded() == {} and approve.posted == []


@pytest.mark.parametrize(("planned", "sent"), [("Freeze", True), ("Redeploy", False), (None, True)])
def test_what_has_become_of_another_type_is_not_approved(approve, recorded, planned, sent):
    result = approve(document(event("A", EventType="Freeze")), event_details={"A": {"event_type": planned}})
    assert [len(approve.posted), recorded()] == ([1, {"A": True}] if sent else [0, {}])
    if not sent:
        assert "event 'A' was to be approved as 'Redeploy' and is 'Freeze' now. Nothing was approved." in result["msg"]


class TestBounded:
    """A step of a pass: all of it within some seconds, whatever the service does."""

    @staticmethod
    def slow(seconds):
        """No answer for so many seconds, and then none."""

        def handle(handler):
            time.sleep(seconds)
            handler.close_connection = True

        return handle

    @pytest.fixture
    def step(self, folder):
        """The module as it runs on a host, with time that passes; the seconds that it took, and how often it sent something."""

        def call(answer, **service_args):
            timeout = service_args.pop("timeout")
            with Posting(answer, **service_args) as service:
                began = time.monotonic()
                args = {"event_ids": ["A"], "ready_resources": READY, "state_dir": str(folder), "timeout": timeout}
                result = told("approval_hold", dict(args, imds_url=service.url))
                return result, time.monotonic() - began, len(service.requests("POST"))

        return call

    def test_a_post_that_is_never_answered(self, step, recorded):
        result, seconds, posted = step(document(event("A")), posts=(self.slow(2),), timeout=1.2)
        assert "POST" in result["msg"] and "no whole answer" in result["msg"] and 1 <= seconds < 2
        # It may have come to the service all the same.
        assert posted == 1 and recorded() == {"A": False}

    @pytest.mark.parametrize("silent", ["document", "name"])
    def test_a_document_or_a_name_that_never_comes(self, step, recorded, silent):
        never = self.slow(2)
        scripts = {"document": (never, "FrontEnd_IN_0"), "name": (document(event("A")), never)}
        answer, name = scripts[silent]
        result, seconds, posted = step(answer, name=name, timeout=1.1)
        assert result["failed"] and seconds < 1 and posted == 0 and recorded() == {}

    def test_nothing_is_sent_where_recording_took_all_the_time(self, approve, recorded, monkeypatch):
        begin = approvals.ApprovalRecords.begin
        clocks = []
        monkeypatch.setattr(approvals.Approval, "from_params", self.keep_clock(approvals.Approval.from_params, clocks))
        monkeypatch.setattr(approvals.ApprovalRecords, "begin", lambda self, ids: (begin(self, ids), clocks[0].sleep(4.5)))
        assert "No time was left" in approve(document(event("A")), timeout=5)["msg"]
        assert approve.posted == [] and recorded() == {}

    @staticmethod
    def keep_clock(from_params, clocks):
        def make(client, params):
            clocks.append(client.sleep.__self__)
            return from_params(client, params)

        return make

    @pytest.mark.parametrize(("age", "sent"), [(-1, True), (1, False)])
    def test_nothing_is_sent_once_readiness_is_too_old(self, approve, recorded, age, sent):
        result = approve(document(event("A")), ready_until=time.time() - age)
        assert len(approve.posted) == int(sent) and recorded() == ({"A": True} if sent else {})
        assert sent or "too long ago" in result["msg"]

    def test_what_may_have_been_sent_before_stays_recorded_when_nothing_is_sent_now(self, approve, recorded):
        assert approve(document(event("A")), posts=(lambda handler: None,) * 9, request_timeout=0.1)["failed"]
        assert recorded() == {"A": False}
        assert approve(document(event("A"), event("B")), event_ids=["A", "B"], ready_until=0)["failed"]
        assert recorded() == {"A": False}
        assert approve(document(event("A")))["approved"] == ["A"] and recorded() == {"A": True}

    @pytest.mark.parametrize("timeout", [0, -1])
    def test_a_time_that_is_none(self, approve, timeout):
        assert approve(document(event("A")), timeout=timeout)["msg"].startswith("timeout is ")
