# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Approvals through Azure Resource Manager, against its stand-in, a process that serves TLS."""

from __future__ import annotations

import http.client
import json
import ssl
import time
import urllib.parse

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._azure_resource_manager import (
    AuthenticationError,
    AzureError,
    NotFoundError,
    NotPermittedError,
    TimeOverError,
)
from ansible_collections.graceful.azure.plugins.modules.azure_event_acknowledge import run

from tests.support.azure import ACKNOWLEDGE, COMPUTE, EVENT, NEEDED, OTHER_EVENT, SET, stand_in
from tests.support.simulator import Simulator

pytestmark = NEEDED
VM, AVAILABILITY_SET = COMPUTE + "/virtualMachines/web1", COMPUTE + "/availabilitySets/as"
RESOURCES = [{"id": SET, "events": [EVENT, OTHER_EVENT]}, {"id": VM, "events": [EVENT]}, {"id": AVAILABILITY_SET, "events": [EVENT]}]


@pytest.fixture(name="azure", scope="module")
def start_azure(tmp_path_factory):
    with stand_in(tmp_path_factory.mktemp("azure"), compute=RESOURCES) as azure:
        yield azure


@pytest.fixture(name="asked")
def ask_azure(azure):
    """What the module asks for from now on: method, path and status of each request that is not for a token."""
    azure.control("DELETE", "faults")
    azure.settings(denied=[])
    before = len(azure.control("GET", "requests"))
    return lambda: [(each["Method"], each["Path"], each["Status"]) for each in azure.control("GET", "requests")[before:] if "/oauth2/" not in each["Path"]]


def acknowledge(azure, *event_ids, resource=SET, check_mode=False, ready_until=None, **more):
    found = azure.params(resource_id=resource, event_ids=list(event_ids or [EVENT]), ready_until=ready_until, **more)
    return run(found, check_mode)


def path(resource, event_id=EVENT, version="2025-11-01"):
    return f"{resource}/providers/Microsoft.Maintenance/scheduledevents/{event_id}/acknowledge?api-version={version}"


@pytest.mark.parametrize("resource", [SET, VM, AVAILABILITY_SET])
def test_one_request_for_an_event(azure, asked, resource):
    before = len(azure.acknowledged())
    assert acknowledge(azure, resource=resource) == {"changed": True, "approved": [EVENT]}
    assert asked() == [("POST", path(resource), 200)]
    assert azure.acknowledged()[before:] == [EVENT]


def test_each_event_once(azure, asked):
    assert acknowledge(azure, EVENT, OTHER_EVENT, EVENT)["approved"] == [EVENT, OTHER_EVENT]
    assert asked() == [("POST", path(SET), 200), ("POST", path(SET, OTHER_EVENT), 200)]


def test_check_mode_sends_nothing_at_all(azure):
    before = len(azure.control("GET", "requests"))
    assert acknowledge(azure, check_mode=True) == {"changed": True, "approved": [EVENT]}
    assert len(azure.control("GET", "requests")) == before


@pytest.mark.parametrize(
    "given, said",
    [
        ({"resource": "web"}, "resource_id is 'web'; it must be a resource id such as"),
        ({"resource": SET + "/virtualMachines/0"}, "it must be a resource id such as"),
        ({"resource": SET + "?x=y"}, "it must be a resource id such as"),
        ({"event_ids": ["../x"]}, "is not the id of an event"),
        ({"event_ids": ["e1/acknowledge?"]}, "is not the id of an event"),
        ({"event_ids": [""]}, "is not the id of an event"),
        ({"timeout": 0}, "timeout is 0"),
        ({"timeout": float("nan")}, "timeout is nan"),
        ({"ready_until": 1.0}, "It was too long ago that everybody was found ready. Nothing was approved."),
    ],
)
def test_nonsense_is_refused_before_anything_is_sent(azure, asked, given, said):
    event_ids = given.pop("event_ids", [EVENT])
    with pytest.raises((AzureError, ValueError)) as error:
        acknowledge(azure, *event_ids, **given)
    assert said in str(error.value)
    assert asked() == []


def test_no_event(azure):
    with pytest.raises(ValueError, match="event_ids is an empty list"):
        run(azure.params(resource_id=SET, event_ids=[], ready_until=None), False)


@pytest.mark.parametrize("event_id, resource", [("0" * 8, SET), (OTHER_EVENT, VM), (EVENT, SET + "2")])
def test_what_azure_does_not_know(azure, event_id, resource):
    with pytest.raises(NotFoundError) as error:
        acknowledge(azure, event_id, resource=resource)
    assert f"Azure knows no event {event_id} of {resource}" in str(error.value)


def test_what_was_approved_before_a_failure_is_told(azure):
    with pytest.raises(AzureError) as error:
        acknowledge(azure, EVENT, "0" * 8)
    assert f"Approved before that: {EVENT}." in str(error.value)


def test_a_lacking_right_is_named_with_its_scope_and_role(azure, asked):
    azure.settings(denied=[ACKNOWLEDGE])
    with pytest.raises(NotPermittedError) as error:
        acknowledge(azure)
    scope = f"{SET}/providers/Microsoft.Maintenance/scheduledevents/{EVENT}"
    assert f"lacks the action {ACKNOWLEDGE} on the scope {scope}." in str(error.value) and "Scheduled Events Contributor" in str(error.value)
    assert [status for _method, _path, status in asked()] == [403]


def test_wrong_credentials(azure):
    with pytest.raises(AuthenticationError, match="The secret is wrong"):
        acknowledge(azure, secret="wrong")


@pytest.mark.parametrize("status", [409, 429, 500, 503])
def test_what_passes_is_outlasted(azure, asked, status):
    azure.fault({"Status": status, "Headers": {"Retry-After": "0"}}, times=2, Path="/acknowledge")
    assert acknowledge(azure)["approved"] == [EVENT]
    assert [answer for _method, _path, answer in asked()] == [status, status, 200]


@pytest.mark.parametrize("status", [203, 302, 307])
def test_another_answer_is_no_approval(azure, status):
    before = len(azure.acknowledged())
    azure.fault({"Status": status}, Path="/acknowledge")
    with pytest.raises(AzureError, match=f"was answered with {status}, which is no answer of the resource manager"):
        acknowledge(azure)
    assert len(azure.acknowledged()) == before


def test_but_not_beyond_the_time_for_which_all_are_ready(azure):
    azure.fault({"Status": 503}, times=100, Path="/acknowledge")
    began = time.monotonic()
    with pytest.raises(TimeOverError, match="503"):
        acknowledge(azure, ready_until=time.time() + 1.0)
    azure.control("DELETE", "faults")
    assert time.monotonic() - began < 5


class TestStandIn:
    """It is strict, and starts the event in the simulator of the metadata services."""

    def ask(self, azure, method, where, token=True):
        place = urllib.parse.urlsplit(azure.url)
        connection = http.client.HTTPSConnection(place.netloc, context=ssl.create_default_context(cafile=azure.ca_file), timeout=10)
        headers = {}
        if token:
            form = "grant_type=client_credentials&client_id=app&client_secret=right&scope=x/.default"
            connection.request("POST", "/tenant/oauth2/v2.0/token", form)
            headers = {"Authorization": "Bearer " + json.loads(connection.getresponse().read())["access_token"]}
        connection.request(method, where, headers=headers)
        answer = connection.getresponse()
        body = json.loads(answer.read())
        connection.close()
        return answer.status, body.get("error", {}).get("code")

    @pytest.mark.parametrize(
        "method, where, answer",
        [
            ("POST", path(SET), (200, None)),
            ("POST", path(SET.upper(), EVENT.upper()), (200, None)),
            ("POST", path(SET, version="2023-10-01-preview"), (200, None)),
            ("POST", path(SET, version="2024-05-01"), (400, "InvalidApiVersionParameter")),
            ("POST", path(SET).split("?", maxsplit=1)[0], (400, "MissingApiVersionParameter")),
            ("GET", path(SET), (405, "MethodNotAllowed")),
            ("GET", path(SET).replace("/acknowledge", ""), (405, "MethodNotAllowed")),
            ("POST", path(SET).replace("/acknowledge", ""), (405, "MethodNotAllowed")),
            ("POST", path(SET, "nothing"), (404, "ScheduledEventNotFound")),
            ("POST", path(SET + "2"), (404, "ResourceNotFound")),
        ],
    )
    def test_its_answers(self, azure, asked, method, where, answer):
        assert asked() == [] and self.ask(azure, method, where) == answer

    def test_it_needs_a_token(self, azure, asked):
        assert asked() == [] and self.ask(azure, "POST", path(SET), token=False) == (401, "AuthenticationFailed")

    def test_an_acknowledgement_starts_the_event(self, tmp_path):
        compute = [{"id": VM}, {"id": SET, "vms": ["web2", "web3"]}]
        with Simulator(["web1", "web2"]) as simulator, stand_in(tmp_path, "--imds-control", simulator.control, compute=compute) as azure:
            mine = simulator.post_event(Resources=["WEB1"], NoticeSeconds=None, ImpactSeconds=None)
            with pytest.raises(NotFoundError):
                acknowledge(azure, mine, resource=SET)  # it is another resource's
            assert simulator.statuses(mine) == ["Scheduled"]
            for _twice in range(2):
                acknowledge(azure, mine.lower(), resource=VM)
            assert simulator.statuses(mine) == ["Scheduled", "Started"] and azure.acknowledged() == [mine, mine]
            simulator.complete(mine)
            with pytest.raises(NotFoundError):
                acknowledge(azure, mine, resource=VM)
            simulator.close()
            with pytest.raises(TimeOverError, match="503 ServiceUnavailable"):
                acknowledge(azure, mine, resource=VM, timeout=1.0)
