# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _imds
from ansible_collections.graceful.azure.plugins.modules import scheduled_events_info as module

from tests.support.service import Clock, Service, document, event

EVENTS = document(event("A", EventType="Freeze"), event("B", EventStatus="Started", NotBefore="", Resources=["elsewhere"]))


@pytest.fixture
def info(run_module):
    def call(*answers, name="FrontEnd_IN_0", **args):
        with Service(*(answers or [EVENTS]), name=name) as service:
            result = run_module(module, Clock(), imds_url=service.url, **args)
        call.seen = service.seen
        return result

    return call


def test_everything(info):
    result = info()
    assert result["changed"] is False
    assert [(found["event_id"], found["affects_host"]) for found in result["events"]] == [("A", True), ("B", False)]
    assert (result["document_incarnation"], result["resource_name"]) == (5, "FrontEnd_IN_0")
    assert "warnings" not in result
    assert [request.path for request in info.seen] == [
        "/metadata/scheduledevents?api-version=2020-07-01",
        "/metadata/instance/compute/name?api-version=2021-02-01&format=text",
    ]


def test_one_request_where_the_name_is_given(info):
    assert info(resource_name="elsewhere", affecting_host_only=True)["events"][0]["event_id"] == "B"
    assert len(info.seen) == 1


def test_check_mode_reads_too(info):
    assert len(info(check=True)["events"]) == 2


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"event_ids": ["b"]}, ["B"]),
        ({"event_types": ["Freeze"]}, ["A"]),
        ({"event_types": "Freeze,Reboot"}, ["A", "B"]),
        ({"event_statuses": ["Started"]}, ["B"]),
        ({"affecting_host_only": True}, ["A"]),
        ({"query": "[?event_status == 'Scheduled']"}, ["A"]),
    ],
)
def test_selection(info, options, expected):
    assert [found["event_id"] for found in info(**options)["events"]] == expected


def test_the_name_is_not_told(info):
    result = info(name=404)
    assert result["resource_name"] is None
    assert {found["affects_host"] for found in result["events"]} == {None}
    assert "resource_name" in result["warnings"][0]
    assert "resource_name" in info(name=404, affecting_host_only=True)["msg"]


def test_a_doubt_is_a_warning(info):
    result = info(document(event("A", NotBefore="soon")))
    assert result["events"][0]["not_before"] is None
    assert "NotBefore" in result["warnings"][0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"api_version": "latest"}, ["api_version", "latest", "2020-07-01"]),
        ({"event_types": ["Restart"]}, ["event_types", "Restart", "Reboot"]),
        ({"event_statuses": ["Completed"]}, ["event_statuses", "Completed", "Started"]),
        ({"event_ids": []}, ["event_ids", "empty"]),
        ({"query": "[?event_type = 'Freeze']"}, ["query", "event_type = "]),
        ({"query": "[?event_type == Freeze]"}, ["query", "'Freeze'", "single quotes"]),
        ({"query": "[0]"}, ["query", "list of events"]),
        ({"request_timeout": -1}, ["request_timeout", "-1"]),
        ({"request_timeout": "soon"}, ["request_timeout"]),
        ({"imds_url": "https://169.254.169.254"}, ["imds_url", "https://169.254.169.254", "http://"]),
        ({"imds_url": "http://127.0.0.1:1"}, ["http://127.0.0.1:1/metadata/scheduledevents", "refused"]),
    ],
)
def test_what_cannot_be_meant(run_module, options, words):
    with Service(EVENTS) as service:
        result = run_module(module, Clock(), **dict({"imds_url": service.url}, **options))
    assert result["failed"]
    for word in words:
        assert word in result["msg"]


@pytest.mark.parametrize("answer", [b"<html>portal</html>", b"{}", b"[]", b"\xff", (302, "", {"Location": "/"}), document(event("a"), event("A")), 400])
def test_what_is_no_document_is_never_an_empty_list(info, answer):
    result = info(answer)
    assert result["failed"]
    assert "events" not in result
    assert "/metadata/scheduledevents" in result["msg"]


def test_requests_is_missing(run_module, monkeypatch):
    monkeypatch.setattr(_imds, "HAS_REQUESTS", False)
    result = run_module(module)
    assert result["failed"]
    assert "python3-requests (Debian, Ubuntu: apt-get; RHEL and its like: dnf)" in result["msg"] and " -m pip install requests" in result["msg"]
