# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role approve_event alone, with the stand-in for Azure Resource Manager and hosts that cannot be asked."""

from __future__ import annotations

import pytest

from tests.support.azure import ACKNOWLEDGE, NEEDED, SET, stand_in

pytestmark = NEEDED


@pytest.fixture(name="azure")
def make_azure(tmp_path, monkeypatch, bed):
    compute = [{"id": SET, "vms": ["web1", "web2"]}]
    with stand_in(tmp_path, "--imds-control", bed.simulator.control, compute=compute) as azure:
        azure.log_in(monkeypatch)
        yield azure


def approve(azure, **variables):
    how = {"through": "azure_resource_manager", "resource": SET, "access": azure.access()}
    known = {**{f"graceful_azure_approve_{name}": value for name, value in how.items()}, "approve_event_witness": "web2"}
    return "approve_event", {**known, "graceful_azure_resource_name": "web1", **variables}


# test_what_is_refused and test_a_metadata_service_that_does_not_answer take the same way.
@pytest.mark.long
def test_a_host_that_cannot_be_reached(bed, azure):
    mine = bed.event("web1")
    predicted = bed.run(approve(azure), check=True, host="dead")
    assert predicted.status == 0 and predicted.step.result["approved"] == [mine], predicted.output
    assert azure.acknowledged() == [] and bed.simulator.statuses(mine) == ["Scheduled"]
    run = bed.run(approve(azure), approve(azure), host="dead")
    assert run.status == 0, run.output
    first, second = (step.result for step in run.steps)
    assert first == {"done": True, "changed": True, "reason": f"approved {mine}", "failed_hosts": [], "approved": [mine], "not_approved": []}
    assert second["not_approved"] == [{"event_id": mine, "reason": "started"}] and second["changed"] is False
    assert azure.acknowledged() == [mine] and bed.simulator.statuses(mine) == ["Scheduled", "Started"]
    assert bed.posted() == []


def test_a_host_that_can_send_it_does(bed, azure):
    mine = bed.event("web1")
    run = bed.run(approve(azure))
    assert run.status == 0 and run.step.result["approved"] == [mine], run.output
    assert azure.acknowledged() == [] and bed.posted() == [mine]


def test_a_metadata_service_that_does_not_answer(bed, azure):
    mine = bed.event("web1")
    bed.simulator.fault({"Status": 400}, vm="web1")
    run = bed.run(approve(azure, approve_event_event_ids=[mine.lower()]))
    assert run.status == 0 and run.step.result["approved"] == [mine], run.output
    assert azure.acknowledged() == [mine] and bed.posted() == []


def test_what_is_refused(bed, azure):
    both, other = bed.event("web1", "web2"), bed.event("web2")
    azure.settings(denied=[ACKNOWLEDGE])
    denied = {"approve_event_ready_resources": ["WEB1", "web2"], "approve_event_event_ids": [both]}
    run = bed.run(
        approve(azure, approve_event_event_ids=[both]),
        approve(azure, approve_event_event_ids=[other], approve_event_ready_resources=["web2"]),
        approve(azure, approve_event_witness="dead"),
        approve(azure, **denied),
        approve(azure, approve_event_witness=None),
        approve(azure, approve_event_witness="web9"),
        approve(azure, graceful_azure_approve_resource=SET + "/virtualMachines/0"),
        approve(azure, graceful_azure_approve_resource=None),
        approve(azure, graceful_azure_resource_name=None),
        host="dead",
    )
    said = [step.failure for step in run.steps]
    assert f"event '{both}' names 'web2', which is not said to be ready. Nothing was approved." in said[0], run.output
    assert "names 'web2' and not this host, which is 'web1'" in said[1]
    assert "approve_event_witness: dead cannot be asked" in said[2]
    assert f"lacks the action {ACKNOWLEDGE} on the scope {SET}/providers/Microsoft.Maintenance/scheduledevents/{both}" in said[3]
    assert "Scheduled Events Contributor" in said[3]
    assert "approve_event_witness: not set" in said[4]
    assert "approve_event_witness: 'web9' is not in the inventory" in said[5]
    assert f"is an instance of a scale set; give the scale set, {SET}" in said[6]
    assert "graceful_azure_approve_resource: not set" in said[7]
    assert "graceful_azure_resource_name: not set" in said[8]
    assert azure.acknowledged() == [] and bed.posted() == []
