# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbooks with hosts behind Azure Load Balancer, that is, its strict stand-in."""

from __future__ import annotations

import shutil

import pytest

from tests.support.azure import LB, MEMBERS, NEEDED, POOL, stand_in
from tests.support.ports import free_port
from tests.support.site import Site, wait_until

pytestmark = NEEDED
ADDRESS = {"web1": "a", "web2": "d"}


class AzureSite(Site):
    """The site with a pool of Azure in place of its HAProxy. web1 has no state there, and web2 has Up."""

    def __init__(self, folder, azure, **more):
        super().__init__(folder)
        self.azure = azure
        self.write(**more)

    def write(self, own=(), **more):
        options = {"load_balancer_provider": "azure_load_balancer", "load_balancer_hosts": [], "load_balancer_azure_pool": POOL, **self.azure.options()}
        addresses = {name: {"load_balancer_azure_address": address} for name, address in {**ADDRESS, **dict(own)}.items()}
        self.write_inventory({**options, **more}, **addresses)

    def reboot(self, *names, **more):
        return self.simulator.post_event(**{"EventType": "Reboot", "Resources": list(names), "ImpactSeconds": 1, "SettleSeconds": 1, **more})

    def is_as_found(self):
        return self.azure.members() == MEMBERS and self.azure.balancer()["tags"] == {"owner": "me"}

    def requests(self, method):
        return [each for each in self.azure.control("GET", "requests") if each["Method"] == method]


@pytest.fixture(name="site")
def make_site(tmp_path, monkeypatch):
    with stand_in(tmp_path) as azure:
        for name, value in azure.environment().items():
            monkeypatch.setenv(name, value)
        site = AzureSite(tmp_path, azure)
        yield site
        site.close()


def test_a_reboot_is_seen_through(site):
    event_id = site.reboot("web1")
    process = site.start("handle_events")
    wait_until(lambda: site.azure.state("a") == "Down", 60, "web1 out")
    assert site.azure.state("d") == "Up"
    assert site.simulator.event(event_id)["Approvals"] == []
    run = site.finish(process)
    assert run.status == 0, run.output
    assert run.event(event_id)["outcome"] == "completed"
    assert {name: said["state"] for name, said in run.event(event_id)["hosts"].items()} == {"web1": "restored"}
    assert [approval["Vm"] for approval in site.simulator.event(event_id)["Approvals"]] == ["web1"]
    assert site.is_as_found()
    assert site.records() == []


def test_two_hosts_of_one_pool_at_once(site):
    event_id = site.reboot("web1", "web2")
    run = site.run(graceful_azure_min_in_service=0)
    assert run.status == 0, run.output
    assert run.event(event_id)["outcome"] == "completed"
    assert site.is_as_found()


@pytest.mark.parametrize("wiped", [False, True])
def test_the_successor_of_a_killed_controller_needs_only_the_records_at_azure(site, wiped):
    event_id = site.reboot("web1", ImpactSeconds=600)
    process = site.start("handle_events")
    wait_until(lambda: site.azure.state("a") == "Down", 60, "web1 out")
    site.kill(process)
    if wiped:
        shutil.rmtree(site.folder / "state" / "web1", ignore_errors=True)
    if site.simulator.event(event_id)["Approvals"]:
        site.simulator.complete(event_id)
    else:
        site.simulator.cancel(event_id)
    wait_until(lambda: site.simulator.statuses(event_id)[-1] in ("Completed", "Cancelled"), 20, "the event gone")
    run = site.run()
    assert run.status == 0, run.output
    assert site.is_as_found(), run.output


def test_the_playbook_holds_shows_and_releases(site):
    site.reboot("web1", ImpactSeconds=600)
    process = site.start("handle_events")
    wait_until(lambda: site.azure.state("a") == "Down", 60, "web1 out")
    site.kill(process)
    shown = site.run("holds")
    assert shown.status == 0, shown.output
    assert "azure_address a (web)" in shown.output
    released = site.run("holds", holds_release=True)
    assert released.status == 0, released.output
    assert site.is_as_found()


def test_check_mode_writes_nothing(site):
    site.reboot("web1", NoticeSeconds=600)
    run = site.run("handle_events", "--check", "--diff")
    assert run.status == 0, run.output
    assert site.requests("PUT") == site.requests("PATCH") == []


@pytest.mark.parametrize(
    "fault, settings",
    [
        ({"Fault": {"Status": 409, "Headers": {"Retry-After": "1"}}, "Method": "PUT", "Times": 2}, {}),
        ({"Fault": {"Status": 429, "Headers": {"Retry-After": "2"}}, "Method": "PUT", "Times": 1}, {}),
        ({"Fault": {"Status": 412}, "Method": "PUT", "Times": 2}, {}),
        ({"Fault": {"Status": 503}, "Method": "GET", "Times": 3}, {}),
        ({"Fault": {"Status": 500}, "Method": "PATCH", "Times": 2}, {"operation_seconds": 3}),
    ],
)
def test_what_passes_is_outlasted(site, fault, settings):
    site.azure.settings(**settings)
    site.azure.control("POST", "faults", fault)
    event_id = site.reboot("web1")
    run = site.run()
    assert run.status == 0, run.output
    assert run.event(event_id)["outcome"] == "completed"
    assert site.is_as_found()


@pytest.mark.parametrize(
    "denied, scope",
    [
        ("Microsoft.Network/loadBalancers/read", LB),
        ("Microsoft.Network/loadBalancers/backendAddressPools/read", POOL),
        ("Microsoft.Network/loadBalancers/backendAddressPools/write", POOL),
        ("Microsoft.Resources/tags/write", LB),
    ],
)
def test_a_lacking_right_is_named_with_its_scope(site, denied, scope):
    site.azure.settings(denied=[denied])
    event_id = site.reboot("web1", NoticeSeconds=600)
    run = site.run(handle_events_timeout=15)
    assert run.status != 0
    assert f"lacks the action {denied} on the scope {scope}".lower() in run.output.lower()
    assert site.simulator.event(event_id)["Approvals"] == []
    assert site.is_as_found()


@pytest.mark.parametrize(
    "options, environment, said",
    [
        ({"load_balancer_azure_pool": POOL + "x"}, {}, "webx does not exist"),
        ({"load_balancer_azure_pool": "web"}, {}, "is not a resource id such as"),
        ({"drain_host_ports": []}, {}, "drain_host_ports: not set; provider azure_load_balancer needs"),
        ({}, {"AZURE_SECRET": "wrong"}, "The secret is wrong"),
        ({}, {"AZURE_TENANT": "elsewhere"}, "The tenant does not exist"),
        ({"load_balancer_azure_auth_source": "env"}, {"AZURE_SECRET": ""}, "secret is missing"),
    ],
)
def test_bad_input_is_told_before_anything_is_changed(site, monkeypatch, options, environment, said):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    event_id = site.reboot("web1", NoticeSeconds=600)
    run = site.run(handle_events_timeout=8, **options)
    assert run.status != 0
    assert said in run.output
    assert site.simulator.event(event_id)["Approvals"] == []
    assert site.is_as_found()
    assert site.requests("PUT") == site.requests("PATCH") == []


def test_an_address_that_is_missing_is_told(site):
    site.write(own={"web1": "zz"})
    event_id = site.reboot("web1", NoticeSeconds=600)
    run = site.run(handle_events_timeout=8)
    assert run.status != 0
    assert "the pool web has no address 'zz'" in run.output
    assert "its addresses are a, b, c, d" in run.output
    assert site.simulator.event(event_id)["Approvals"] == []
    assert site.requests("PUT") == site.requests("PATCH") == []


def test_a_host_is_found_by_its_private_address(site):
    site.write(load_balancer_azure_ip_address="{{ '10.0.0.4' if inventory_hostname == 'web1' else '10.0.0.7' }}", own={"web1": None, "web2": None})
    event_id = site.reboot("web1")
    process = site.start("handle_events")
    wait_until(lambda: site.azure.state("a") == "Down", 60, "web1 out")
    run = site.finish(process)
    assert run.status == 0, run.output
    assert run.event(event_id)["outcome"] == "completed"
    assert site.is_as_found()


def test_what_somebody_else_changed_is_reported_and_left(site):
    event_id = site.reboot("web1", ImpactSeconds=8)
    process = site.start("handle_events")
    wait_until(lambda: bool(site.simulator.event(event_id)["Approvals"]), 60, "the approval")
    site.azure.act("a", "Up")
    run = site.finish(process)
    assert "somebody else set" in run.output
    assert site.azure.state("a") == "Up"


def test_an_entry_of_a_list_goes_out_with_the_others(site):
    where = {name[len("load_balancer_"):]: value for name, value in site.azure.options().items()}
    listed = [
        {"provider": "azure_load_balancer", "azure_pool": POOL, "azure_address": "{{ azure_name }}", **where},
        {"provider": "haproxy", "hosts": ["lb1"], "haproxy_socket": str(site.haproxy.socket)},
    ]
    own = {name: {"azure_name": address} for name, address in ADDRESS.items()}
    single = dict.fromkeys(("load_balancer_hosts", "load_balancer_provider", "load_balancer_haproxy_socket"))
    site.write_inventory({"load_balancer_list": listed, **single}, **own)
    event_id = site.reboot("web1")
    process = site.start("handle_events")
    wait_until(lambda: site.azure.state("a") == "Down" and site.admin_states()["web1"] != "ready", 60, "web1 out of both")
    run = site.finish(process)
    assert run.status == 0, run.output
    assert run.event(event_id)["outcome"] == "completed"
    assert site.is_as_found()
    assert site.admin_states() == dict.fromkeys(site.names, "ready")


def test_a_run_that_is_killed_while_azure_is_changing_is_continued(site):
    site.azure.settings(operation_seconds=4)
    event_id = site.reboot("web1", ImpactSeconds=3)
    process = site.start("handle_events")
    wait_until(lambda: bool(site.requests("PUT")), 60, "the first write")
    site.kill(process)
    assert site.azure.balancer()["tags"] != {"owner": "me"}
    run = site.run()
    assert run.status == 0, run.output
    assert run.event(event_id)["outcome"] == "completed"
    assert site.is_as_found()


def test_two_controllers_at_once_are_harmless(site):
    event_id = site.reboot("web1", "web2")
    both = [site.start("handle_events", graceful_azure_min_in_service=0) for _number in range(2)]
    runs = [site.finish(process) for process in both]
    assert [run.status for run in runs] == [0, 0], runs[0].output + runs[1].output
    assert {run.event(event_id)["outcome"] for run in runs} == {"completed"}
    assert site.is_as_found()


def test_the_address_of_a_vm_that_is_gone_for_good_is_given_back(site):
    site.reboot("web1", ImpactSeconds=600)
    process = site.start("handle_events")
    wait_until(lambda: site.azure.state("a") == "Down", 60, "web1 out")
    site.kill(process)
    gone = {"load_balancer_azure_address": "a", "ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": free_port()}
    options = {"load_balancer_provider": "azure_load_balancer", "load_balancer_hosts": [], "load_balancer_azure_pool": POOL, **site.azure.options()}
    site.write_inventory(options, web1=gone, web2={"load_balancer_azure_address": "d"})
    refused = site.run("holds", holds_release=True)
    assert "cannot be reached" in refused.output
    assert site.azure.state("a") == "Down"
    released = site.run("holds", holds_release=True, holds_gone=True)
    assert site.is_as_found(), released.output
