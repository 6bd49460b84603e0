# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.modules import scheduled_events_approve as module

from tests.support.service import Clock, Posting, document, event

STARTED = {"EventStatus": "Started", "NotBefore": ""}


@pytest.fixture
def approve(run_module):
    def call(*answers, event_ids, posts=(200,), name="FrontEnd_IN_0", **args):
        with Posting(*answers, posts=posts, name=name) as service:
            result = run_module(module, Clock(), imds_url=service.url, event_ids=event_ids, **args)
        call.seen = service.seen
        call.posted = [request.json for request in service.requests("POST")]
        return result

    return call


def ids(*names):
    return {"StartRequests": [{"EventId": name} for name in names]}


def test_one_of_several(approve):
    result = approve(document(event("A"), event("B")), event_ids=["b"])
    assert (result["changed"], result["approved"], result["not_approved"]) == (True, ["B"], [])
    assert approve.posted == [ids("B")]


def test_several_in_one_request(approve):
    result = approve(document(event("A"), event("B")), event_ids=["b", "A", "a"])
    assert result["approved"] == ["B", "A"]
    assert approve.posted == [ids("B", "A")]


@pytest.mark.parametrize("status", [404, 410, 429, 503])
def test_before_it_is_sent_again_the_events_are_read_again(approve, status):
    """While the service updates the document, the event comes to name one more VM, which is not known to be ready."""
    one, two = (document(event("A", Resources=names)) for names in (["FrontEnd_IN_0"], ["FrontEnd_IN_0", "BackEnd_IN_0"]))
    result = approve(one, two, event_ids=["A"], ready_resources=["FrontEnd_IN_0"], posts=(status, 200))
    assert result["failed"] and "BackEnd_IN_0" in result["msg"]
    # Only where the service itself failed may it have accepted the first one.
    assert ("may have been accepted" in result["msg"]) is (status == 503)
    assert approve.posted == [ids("A")]


def test_an_event_that_has_started_meanwhile_is_no_failure(approve):
    """The answer to the first request may have been lost."""
    result = approve(document(event("A")), document(event("A", **STARTED)), event_ids=["A"], posts=(503, 200))
    assert not result.get("failed") and result["approved"] == ["A"]


def test_what_needs_no_approval(approve):
    result = approve(document(event("A", **STARTED)), event_ids=["a", "gone"])
    assert (result["changed"], result["approved"]) == (False, [])
    assert result["not_approved"] == [{"event_id": "A", "reason": "started"}, {"event_id": "gone", "reason": "absent"}]
    assert approve.posted == []


@pytest.mark.parametrize("answer", [b"", document(), document(incarnation=4)])
def test_one_answer_without_the_event_is_no_absence(approve, answer):
    result = approve(answer, document(event("A")), event_ids=["A"])
    assert (result["approved"], result["not_approved"]) == (["A"], [])


def test_two_documents_without_the_event_are_an_absence(approve):
    result = approve(b"", document(), event_ids=["A"])
    assert (result["changed"], result["not_approved"]) == (False, [{"event_id": "A", "reason": "absent"}])
    assert len([request for request in approve.seen if "scheduledevents" in request.path]) == 3


def test_empty_bodies_do_not_tell_whether_it_is_absent(approve):
    result = approve(b"", event_ids=["A", "B"])
    assert result["failed"] and "'A', 'B'" in result["msg"] and "empty body" in result["msg"] and "Nothing was approved" in result["msg"]
    assert approve.posted == []


def test_the_rest_is_approved(approve):
    result = approve(document(event("A", **STARTED), event("B")), event_ids=["A", "B", "C"])
    assert result["changed"] is True
    assert approve.posted == [ids("B")]
    assert [entry["event_id"] for entry in result["not_approved"]] == ["A", "C"]


@pytest.mark.parametrize("status", ["Pending", "Completed", None, ""])
def test_only_what_is_scheduled(approve, status):
    result = approve(document(event("A"), event("B", EventStatus=status)), event_ids=["A", "B"])
    assert result["failed"] and "'B' has the status" in result["msg"] and "Nothing was approved" in result["msg"]
    assert approve.posted == []


@pytest.mark.parametrize("fields", [{"Resources": ["elsewhere"]}, {"Resources": []}, {"Resources": None}, dict(STARTED, Resources=["elsewhere"])])
def test_events_of_other_hosts(approve, fields):
    answer = document(event("A"), event("B", **fields))
    result = approve(answer, event_ids=["A", "B"])
    assert result["failed"]
    assert "'B'" in result["msg"] and "allow_other_hosts" in result["msg"] and "'FrontEnd_IN_0'" in result["msg"]
    assert approve.posted == []


def test_events_of_other_hosts_allowed(approve):
    result = approve(document(event("A"), event("B", Resources=["elsewhere"])), event_ids=["A", "B"], allow_other_hosts=True, name=404)
    assert result["approved"] == ["A", "B"]
    # Whose name does not matter is not asked for it.
    assert [request.path for request in approve.seen if "instance" in request.path] == []
    assert "warnings" not in result


@pytest.mark.parametrize(("ready", "approved"), [(["frontend_in_0", "BackEnd_IN_0"], ["A"]), (["FrontEnd_IN_0"], None), ([], None)])
def test_everybody_has_to_be_ready(approve, ready, approved):
    answer = document(event("A", Resources=["FrontEnd_IN_0", "BackEnd_IN_0"]), event("B", **STARTED, Resources=["FrontEnd_IN_0", "x"]))
    result = approve(answer, event_ids=["A", "B"], ready_resources=ready)
    if approved:
        assert result["approved"] == approved
    else:
        assert result["failed"]
        assert "ready_resources" in result["msg"] and "BackEnd_IN_0" in result["msg"]
        assert approve.posted == []


@pytest.mark.parametrize("answer", [document(event("A")), document()])
def test_the_name_is_not_known(approve, answer):
    result = approve(answer, event_ids=["A"], name=404)
    assert result["failed"]
    assert "resource_name" in result["msg"]
    assert approve.posted == []


def test_the_name_is_given(approve):
    assert approve(document(event("A")), event_ids=["A"], name=404, resource_name="backend_in_0")["approved"] == ["A"]


def test_the_preview_wants_the_incarnation(approve):
    answer = document(event("A", Resources=["_FrontEnd_IN_0"]), incarnation=5)
    approve(answer, event_ids=["A"], api_version="2017-03-01")
    assert approve.posted == [dict(ids("A"), DocumentIncarnation="5")]
    (post,) = [request for request in approve.seen if request.method == "POST"]
    assert post.path == "/metadata/scheduledevents?api-version=2017-03-01"
    assert post.headers["Metadata"] == "true"


def test_check_mode_predicts(approve):
    result = approve(document(event("A"), event("B", **STARTED)), event_ids=["A", "B"], check=True)
    assert (result["changed"], result["approved"]) == (True, ["A"])
    assert result["not_approved"] == [{"event_id": "B", "reason": "started"}]
    assert approve.posted == []
    assert approve(document(event("A", Resources=["elsewhere"])), event_ids=["A"], check=True)["failed"]


def test_a_failed_request_is_repeated(approve):
    result = approve(document(event("A")), event_ids=["A"], posts=(503, 500, 200))
    assert result["approved"] == ["A"]
    assert approve.posted == [ids("A")] * 3


def test_an_approval_that_fails_for_good(approve):
    result = approve(document(event("A")), event_ids=["A"], posts=(503,))
    assert result["failed"]
    assert "503" in result["msg"]
    assert len(approve.posted) == 4


def test_an_approval_that_is_refused(approve):
    result = approve(document(event("A")), event_ids=["A"], posts=((400, "malformed", {}),))
    assert result["failed"]
    assert "malformed" in result["msg"]
    assert len(approve.posted) == 1


def test_one_of_several_goes_meanwhile(approve):
    both = document(event("A"), event("B"), incarnation=1)
    result = approve(both, document(event("B"), incarnation=2), event_ids=["A", "B"], posts=(400, 200))
    assert approve.posted == [ids("A", "B"), ids("B")]
    assert (result["approved"], result["not_approved"]) == (["B"], [{"event_id": "A", "reason": "absent"}])


def test_the_preview_incarnation_is_stale(approve):
    first = document(event("A", Resources=["_FrontEnd_IN_0"]), incarnation=1)
    second = document(event("A", Resources=["_FrontEnd_IN_0"]), incarnation=2)
    result = approve(first, second, event_ids=["A"], posts=(400, 200), api_version="2017-03-01")
    assert [posted["DocumentIncarnation"] for posted in approve.posted] == ["1", "2"]
    assert result["approved"] == ["A"]


def test_a_document_that_never_rests(approve):
    answers = [document(event("A", Resources=["_FrontEnd_IN_0"]), incarnation=number) for number in range(9)]
    result = approve(*answers, event_ids=["A"], posts=(400,), api_version="2017-03-01")
    assert result["failed"]
    assert len(approve.posted) == 3


def test_it_starts_while_it_is_approved(approve):
    result = approve(document(event("A")), document(event("A", **STARTED)), event_ids=["A"], posts=(400,))
    assert (result["changed"], result["not_approved"]) == (False, [{"event_id": "A", "reason": "started"}])


@pytest.mark.parametrize("event_ids", [[], [""], ["A", " "]])
def test_no_ids(approve, event_ids):
    result = approve(document(event("A")), event_ids=event_ids)
    assert result["failed"]
    assert "event_ids" in result["msg"]
    assert approve.seen == []


@pytest.mark.parametrize("answer", [b"<html>", document(event("A"), event("a")), 400, (302, "", {"Location": "/"})])
def test_without_a_document_nothing_is_approved(approve, answer):
    assert approve(answer, event_ids=["A"])["failed"]
    assert approve.posted == []
