# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbooks with hosts behind Azure Load Balancer, that is, its strict stand-in: what goes wrong, and what somebody else does."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.azure import LB, NEEDED, POOL
from tests.support.azure_site import AzureSite
from tests.support.inventory import UNREACHABLE
from tests.support.patience import patient, until
from tests.support.site import until_said

pytestmark = NEEDED

SITE = AzureSite


def test_the_playbook_holds_shows_and_releases(site):
    site.reboot("web1", ImpactSeconds=600)
    process = site.start("handle_events")
    until(lambda: site.azure.state("a") == "Down", 60, "web1 out")
    site.kill(process)
    shown = site.run("holds")
    assert shown.status == 0, shown.output
    assert "Azure load balancer address a (web)" in shown.output
    released = site.run("holds", holds_release=True)
    assert released.status == 0, released.output
    assert site.is_as_found()


def test_check_mode_writes_nothing(site):
    site.reboot("web1", NoticeSeconds=600)
    run = site.run("handle_events", "--check", "--diff")
    assert run.status == 0, run.output
    assert site.requests("PUT") == site.requests("PATCH") == []


FAULTS = (
    ("PUT", 409, 2, {"Retry-After": "1"}),
    ("PUT", 429, 1, {"Retry-After": "2"}),
    ("PUT", 412, 2, {}),
    ("GET", 503, 3, {}),
    ("PATCH", 500, 2, {}),
)


# Each fault is in tests/unit/plugins/module_utils/test_azure_load_balancer.py.
@pytest.mark.long
def test_what_passes_is_outlasted(site):
    """All of it in one run. The unit tests have each by itself."""
    site.azure.settings(operation_seconds=2)
    for method, status, times, headers in FAULTS:
        site.azure.fault({"Status": status, "Headers": headers}, times=times, Method=method)
    event_id = site.reboot("web1")
    run = site.run()
    assert run.status == 0, run.output
    assert run.event(event_id)["outcome"] == "completed"
    assert site.is_as_found()
    answers = Counter((each["Method"], each["Status"]) for each in site.asked())
    assert {(method, status) for method, status, times, _headers in FAULTS if answers[method, status] < times} == set()


RIGHTS = (
    ("Microsoft.Network/loadBalancers/read", LB),
    ("Microsoft.Network/loadBalancers/backendAddressPools/read", POOL),
    ("Microsoft.Resources/tags/write", LB),
    ("Microsoft.Network/loadBalancers/backendAddressPools/write", POOL),
)


# Each right is in tests/unit/plugins/module_utils/test_azure_load_balancer.py.
@pytest.mark.long
def test_a_lacking_right_is_named_with_its_scope(site):
    """In one run: as soon as one is named, it is there, and the next is lacking. At first the secret is wrong."""
    site.azure.settings(clients={"app": "another"})
    event_id = site.reboot("web1", NoticeSeconds=600)
    process = site.start("handle_events", handle_events_timeout=patient(25))
    until_said(process, "The secret is wrong")
    site.azure.settings(clients={"app": "right"})
    for action, scope in RIGHTS:
        site.azure.settings(denied=[action])
        until_said(process, f"lacks the action {action} on the scope {scope}")
        until(site.is_as_found, 5, "nothing changed")
    output = process.stdout.read()
    assert process.wait() != 0
    assert f"lacks the action {action} on the scope {scope}" in output
    assert site.simulator.event(event_id)["Approvals"] == []
    assert site.is_as_found()


# The settings are in test_duties_settings.py, the credentials in test_azure_load_balancer.py of the module_utils.
@pytest.mark.parametrize(
    "options, variables, environment, said",
    [
        ({"pool": "web"}, {}, {}, "is not a resource id such as"),
        pytest.param({}, {"graceful_azure_ports": []}, {}, "graceful_azure_ports: not set; azure_load_balancer needs", marks=pytest.mark.long),
        ({}, {}, {"AZURE_TENANT": "elsewhere"}, "The tenant does not exist"),
        pytest.param({"auth_source": "env"}, {}, {"AZURE_SECRET": ""}, "secret is missing", marks=pytest.mark.long),
    ],
)
def test_bad_input_is_told_before_anything_is_changed(site, options, variables, environment, said):
    site.environment.update(environment)
    event_id = site.reboot("web1", NoticeSeconds=600)
    site.write(**options)
    run = site.run(handle_events_timeout=patient(8), **variables)
    assert run.status != 0
    assert said in run.output
    assert site.simulator.event(event_id)["Approvals"] == []
    assert site.is_as_found()
    assert site.requests("PUT") == site.requests("PATCH") == []


def test_a_pool_and_an_address_that_are_missing_are_told(site):
    site.write(own={"web1": "zz"}, of_hosts={"web2": {"graceful_azure_duties": [site.duty(pool=POOL + "x")]}})
    event_id = site.reboot("web1", "web2", NoticeSeconds=600)
    run = site.run(handle_events_timeout=patient(8))
    assert run.status != 0
    assert "the pool web has no address 'zz'" in run.output
    assert "its addresses are a, b, c, d" in run.output
    assert "webx does not exist" in run.output
    assert site.simulator.event(event_id)["Approvals"] == []
    assert site.is_as_found()
    assert site.requests("PUT") == site.requests("PATCH") == []


# The driver does the same in tests/unit/plugins/module_utils/test_azure_load_balancer.py.
@pytest.mark.long
def test_what_somebody_else_changed_is_reported_and_left(site):
    event_id = site.reboot("web1", ImpactSeconds=4)
    process = site.start("handle_events")
    until(lambda: bool(site.simulator.event(event_id)["Approvals"]), 60, "the approval")
    site.azure.act("a", "Up")
    run = site.finish(process)
    assert "somebody else set" in run.output
    assert site.azure.state("a") == "Up"


# The release is in test_azure_load_balancer.py.
@pytest.mark.long
def test_the_address_of_a_vm_that_is_gone_for_good_is_given_back(site):
    site.reboot("web1", ImpactSeconds=600)
    process = site.start("handle_events")
    until(lambda: site.azure.state("a") == "Down", 60, "web1 out")
    site.kill(process)
    site.write(of_hosts={"web1": UNREACHABLE})
    refused = site.run("holds", holds_release=True)
    assert "cannot be reached" in refused.output
    assert site.azure.state("a") == "Down"
    released = site.run("holds", holds_release=True, holds_gone=True)
    assert site.is_as_found(), released.output
