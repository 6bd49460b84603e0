# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Holds on addresses of Azure Load Balancer, against the stand-in for the resource manager as a process that serves TLS: what needs time or a connection."""

from __future__ import annotations

import concurrent.futures

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _azure_resource_manager as arm

from tests.support.azure import MEMBERS, NEEDED, stand_in
from tests.support.patience import patient
from tests.support.playbook import Playbook

pytestmark = NEEDED


@pytest.fixture(name="azure")
def fixture_azure(tmp_path):
    with stand_in(tmp_path) as azure:
        yield azure


def test_hosts_of_one_pool_do_not_overwrite_each_other(azure):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        told = list(pool.map(azure.hold, "abd", timeout=patient(60)))
    assert [each["addresses"][0]["condition"] for each in told] == ["held"] * 3
    assert [azure.state(name) for name in "abcd"] == ["Down"] * 4
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(azure.release, "abd", timeout=patient(60)))
    assert azure.members() == MEMBERS and azure.balancer()["tags"] == {"owner": "me"}


def test_two_controllers_that_act_at_once_are_harmless(azure):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda _: azure.hold(), range(2), timeout=patient(60)))
    assert azure.state("a") == "Down"
    azure.release()
    assert azure.members() == MEMBERS


def test_a_certificate_that_is_not_known_is_refused(azure):
    with pytest.raises(arm.AzureError, match="certificate"):
        azure.hold(ca_file=None)


def test_the_module_runs_under_ansible(azure, tmp_path):
    names = ("client_id", "secret", "tenant", "arm_url", "login_url", "ca_file", "pools", "event_ids", "address")
    args = {key: azure.params(address="a")[key] for key in names}
    task = {"name": "held", "graceful.azure.machine": {"call": "azure_load_balancer_hold", "args": args}}
    ran = Playbook(tmp_path).run([task], arguments=["--diff"])
    assert ran.status == 0 and ran["held"]["changed"] and azure.state("a") == "Down", ran.output


@pytest.mark.parametrize(
    "fault, passing",
    [({"Status": 503, "Headers": {"Retry-After": "60"}}, True), ({"Status": 403}, False), ({"Drop": True}, True)],
)
def test_a_look_that_fails_says_whether_that_may_pass(azure, tmp_path, fault, passing):
    azure.fault(fault, Method="GET", times=99)
    names = ("client_id", "secret", "tenant", "arm_url", "login_url", "ca_file", "pools")
    args = {"timeout": patient(3), **{key: azure.params()[key] for key in names}}
    ran = Playbook(tmp_path).run([{"name": "told", "graceful.azure.machine": {"call": "azure_load_balancer_info", "args": args}}])
    told = ran["told"]
    assert told["addresses"] is None and told["problem"] and told["passing"] is passing and not told["failed"], ran.output
