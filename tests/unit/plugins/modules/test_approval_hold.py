# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is recorded of an approval; what is approved is tested with scheduled_events_approve."""

from __future__ import annotations

import json

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._holds import HoldError
from ansible_collections.graceful.azure.plugins.modules import approval_hold as module

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
def approve(run_module, folder):
    def call(*answers, event_ids=("A",), posts=(200,), **args):
        given = {"event_ids": list(event_ids), "ready_resources": READY, "state_dir": str(folder), **args}
        with Posting(*answers, posts=posts) as service:
            result = run_module(module, Clock(), imds_url=service.url, **given)
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
    def fail(self, approved):
        raise HoldError("The disk is full.")

    monkeypatch.setattr(module.Record, "end", fail)
    result = approve(document(event("A")))
    assert (result["approved"], result["warnings"], recorded()) == (["A"], ["The disk is full."], {"A": False})


def test_nobody_is_approved_who_is_not_ready(approve, recorded):
    result = approve(document(event("A", Resources=[*READY, "other"])))
    assert "'other', which is not said to be ready" in result["msg"]
    assert recorded() == {} and approve.posted == []
