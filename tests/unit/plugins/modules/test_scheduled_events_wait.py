# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.modules import scheduled_events_wait as module

from tests.support.service import Clock, Service, document, event

KEYS = {"events", "document_incarnation", "resource_name", "elapsed", "outcome", "changed"}
NONE = document()
STANDS = document(event("A"))
FIRST = {"seconds": 5, "answered": False}


@pytest.fixture
def wait(run_module):
    def call(*answers, name="FrontEnd_IN_0", **args):
        call.clock = Clock()
        with Service(*answers, name=name) as service:
            result = run_module(module, call.clock, imds_url=service.url, **args)
        call.seen = service.seen
        return result

    return call


def test_a_state_is_met(wait):
    result = wait(NONE, NONE, STANDS)
    assert KEYS <= set(result)
    assert (result["outcome"], result["elapsed"], result["changed"]) == ("present", 2.0, False)
    assert result["events"][0]["event_id"] == "A"
    assert (result["document_incarnation"], result["resource_name"]) == (5, "FrontEnd_IN_0")


def test_this_host_alone_is_the_default(wait):
    assert wait(document(event("A", Resources=["elsewhere"])), timeout=2)["outcome"] == "timeout"
    assert wait(document(event("A", Resources=["elsewhere"])), affecting_host_only=False)["outcome"] == "present"


def test_time_is_over(wait):
    result = wait(STANDS, state="absent", timeout=3)
    assert result["failed"]
    assert KEYS <= set(result)
    assert (result["outcome"], result["elapsed"]) == ("timeout", 3.0)
    assert result["events"][0]["event_id"] == "A"
    assert "Timed out after 3.0 s waiting for absent" in result["msg"]


def test_the_last_error_is_told(wait):
    result = wait(503, timeout=3)
    assert KEYS <= set(result)
    assert (result["outcome"], result["events"], result["document_incarnation"]) == ("timeout", [], None)
    assert "503" in result["msg"]


def test_a_mistake_has_the_same_keys(wait):
    result = wait(400)
    assert result["failed"]
    assert KEYS - {"changed"} <= set(result)
    assert result["outcome"] is None
    assert "400" in result["msg"]


@pytest.mark.parametrize(("answer", "outcome"), [(NONE, None), (STANDS, "present")])
def test_check_mode_reads_once(wait, answer, outcome):
    result = wait(answer, check=True)
    assert not result.get("failed")
    assert KEYS <= set(result)
    assert result["outcome"] == outcome
    assert wait.clock.slept == []
    assert len([request for request in wait.seen if "scheduledevents" in request.path]) == 1


def test_one_step_for_the_action_plugin(wait):
    result = wait(NONE, NONE, 503, _part=FIRST)
    assert not result.get("failed")
    assert result["outcome"] is None
    assert "503" in result["_error"]
    assert wait(NONE, timeout=3, _part=FIRST)["outcome"] is None
    assert wait(NONE, STANDS, timeout=3, _part=FIRST)["outcome"] == "present"


def test_a_step_after_an_answer_waits_through_what_would_be_a_mistake(wait):
    assert wait(400, _part=FIRST)["failed"]
    assert "400" in wait(400, _part={"seconds": 5, "answered": True})["_error"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": -1}, ["timeout", "-1"]),
        ({"timeout": "nan"}, ["timeout", "nan"]),
        ({"timeout": "inf"}, ["timeout", "inf"]),
        ({"timeout": "never"}, ["timeout"]),
        ({"sleep": -1}, ["sleep", "-1"]),
        ({"delay": -1}, ["delay", "-1"]),
        ({"delay": 9, "timeout": 9}, ["delay", "9"]),
        ({"state": "gone"}, ["state", "gone", "absent"]),
        ({"state": []}, ["state", "empty"]),
        ({"event_ids": []}, ["event_ids", "empty"]),
        ({"query": "[?event_type == Freeze]"}, ["query", "'Freeze'"]),
    ],
)
def test_what_cannot_be_meant(wait, options, words):
    result = wait(NONE, **options)
    assert result["failed"]
    assert wait.seen == []
    for word in words:
        assert word in result["msg"]
