# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbooks with hosts behind Azure Load Balancer, that is, its strict stand-in: events, kills and two at once."""

from __future__ import annotations

import pytest

from tests.support.azure import NEEDED
from tests.support.azure_site import AzureSite
from tests.support.inventory import UNREACHABLE
from tests.support.patience import until
from tests.support.processes import forget_records

pytestmark = NEEDED

SITE = AzureSite


def test_a_reboot_is_seen_through(site):
    event_id = site.reboot("web1")
    process = site.start("handle_events")

    def is_out():
        approvals, out = site.simulator.event(event_id)["Approvals"], site.azure.state("a") == "Down"
        assert out or not approvals
        return out

    until(is_out, 60, "web1 out")
    assert site.azure.state("d") == "Up"
    run = site.finish(process)
    assert run.status == 0, run.output
    assert run.event(event_id)["outcome"] == "completed"
    assert {name: said["state"] for name, said in run.event(event_id)["hosts"].items()} == {"web1": "restored"}
    assert site.simulator.approvers(event_id) == ["web1"]
    assert site.is_as_found()
    assert site.records() == []


# test_azure_load_balancer.py has two hosts of one pool at once.
@pytest.mark.long
def test_two_hosts_of_one_pool_at_once(site):
    event_id = site.reboot("web1", "web2")
    run = site.run(graceful_azure_min_in_service=0)
    assert run.status == 0, run.output
    assert run.event(event_id)["outcome"] == "completed"
    assert site.is_as_found()


@pytest.mark.parametrize("wiped", [pytest.param(False, marks=pytest.mark.long), True])
def test_the_successor_of_a_killed_controller_needs_only_the_records_at_azure(site, wiped):
    event_id = site.reboot("web1", ImpactSeconds=600)
    process = site.start("handle_events")
    until(lambda: site.azure.state("a") == "Down", 60, "web1 out")
    site.kill(process)
    if wiped:
        forget_records(site.folder / "state" / "web1")
    # Whether or not it was approved before the kill, and whether that has started it yet.
    site.simulator.reset()
    assert site.simulator.statuses(event_id)[-1] in ("Completed", "Cancelled")
    run = site.run()
    assert run.status == 0, run.output
    assert site.is_as_found(), run.output


# It is in test_azure_provider.py.
@pytest.mark.long
def test_a_host_is_found_by_its_private_address(site):
    site.write(ip_address="{{ '10.0.0.4' if inventory_hostname == 'web1' else '10.0.0.7' }}", address=None)
    event_id = site.reboot("web1")
    process = site.start("handle_events")
    until(lambda: site.azure.state("a") == "Down", 60, "web1 out")
    run = site.finish(process)
    assert run.status == 0, run.output
    assert run.event(event_id)["outcome"] == "completed"
    assert site.is_as_found()


# The order of a list is in test_steps.py.
@pytest.mark.long
def test_an_entry_of_a_list_goes_out_with_the_others(site):
    site.write([site.duty(), *site.duties()])
    event_id = site.reboot("web1")
    process = site.start("handle_events")
    until(lambda: site.azure.state("a") == "Down" and site.admin_states()["web1"] != "ready", 60, "web1 out of both")
    run = site.finish(process)
    assert run.status == 0, run.output
    assert run.event(event_id)["outcome"] == "completed"
    assert site.is_as_found()
    assert site.admin_states() == dict.fromkeys(site.names, "ready")


# test_the_successor_of_a_killed_controller_needs_only_the_records_at_azure is killed, too.
@pytest.mark.long
def test_a_run_that_is_killed_while_azure_is_changing_is_continued(site):
    site.azure.settings(operation_seconds=3)
    event_id = site.reboot("web1")
    process = site.start("handle_events")
    until(lambda: bool(site.requests("PUT")), 60, "the first write")
    site.kill(process)
    assert site.azure.balancer()["tags"] != {"owner": "me"}
    run = site.run()
    assert run.status == 0, run.output
    assert run.event(event_id)["outcome"] == "completed"
    assert site.is_as_found()


# test_azure_load_balancer.py has two hosts of one pool at once.
@pytest.mark.long
def test_two_controllers_at_once_are_harmless(site):
    event_id = site.reboot("web1", "web2")
    both = [site.start("handle_events", graceful_azure_min_in_service=0) for _number in range(2)]
    runs = [site.finish(process) for process in both]
    assert [run.status for run in runs] == [0, 0], runs[0].output + runs[1].output
    assert {run.event(event_id)["outcome"] for run in runs} == {"completed"}
    assert site.is_as_found()


# It is in test_plan_minimum.py.
@pytest.mark.long
def test_a_dead_target_does_not_count_as_in_service(site):
    """Azure does not tell what its probes see, so the other one stays as long as it may. Of the other two addresses, one is Down."""
    site.write(of_hosts={"web2": {**UNREACHABLE, "graceful_azure_may_be_off": True}})
    event_id = site.reboot("web1", NoticeSeconds=600)
    run = site.run(graceful_azure_min_in_service=2, handle_events_wait=False, graceful_azure_health_url="")
    assert site.azure.state("a") == "absent" and site.simulator.event(event_id)["Approvals"] == [], run.output
    assert "web2: " in run.event(event_id)["hosts"]["web1"]["reason"]
