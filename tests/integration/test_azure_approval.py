# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook handle_events with a VM that cannot send its approval, and the stand-in for Azure Resource Manager."""

from __future__ import annotations

import pytest

from tests.support.azure import ACKNOWLEDGE, NEEDED, SET, stand_in
from tests.support.inventory import UNREACHABLE
from tests.support.patience import patient, until
from tests.support.simulator import SHORT
from tests.support.site import Site

pytestmark = NEEDED


class SilentSite(Site):
    """The site with a HAProxy. web1 and web2 are of one scale set, and the event of web1 can be read on web2."""

    def use(self, azure, own=None, access=None, **more):
        self.azure = azure
        wanted = {
            "graceful_azure_approve_through": "azure_resource_manager",
            "graceful_azure_approve_resource": SET,
            "graceful_azure_approve_access": {**azure.access(), **(access or {})},
        }
        names = {name: {"graceful_azure_resource_name": name} for name in self.names}
        names["web1"].update(own or {})
        self.write_inventory({**wanted, **more}, **names)

    def reboot(self, **more):
        return self.simulator.post_event(**{"EventType": "Reboot", "Resources": ["web1"], "NoticeSeconds": 600, **SHORT, **more})

    def silence_service(self):
        self.simulator.fault({"Status": 400}, vm="web1")

    def sent(self):
        return [each for each in self.azure.control("GET", "requests") if each["Path"].split("?")[0].endswith("/acknowledge")]


SITE = SilentSite


@pytest.fixture(name="azure")
def make_azure(site, tmp_path):
    folder = tmp_path / "azure"
    folder.mkdir()
    with stand_in(folder, "--imds-control", site.simulator.control, compute=[{"id": SET, "vms": ["web1", "web2"]}]) as azure:
        site.environment = azure.environment()
        site.use(azure)
        yield azure


def test_a_reboot_is_seen_through(site, azure):
    site.silence_service()
    azure.fault({"Status": 429, "Headers": {"Retry-After": "1"}}, Method="POST", Path="/acknowledge")
    azure.fault({"Status": 503}, Method="POST", Path="/acknowledge")
    event_id = site.reboot()
    process = site.start("handle_events")

    def is_out():
        sent, out = azure.acknowledged(), site.admin_states()["web1"] == "drain"
        assert out or not sent
        return out

    until(is_out, 60, "web1 out")
    site.simulator.wait_for(event_id, "Started", 60)
    site.simulator.clear_faults()
    run = site.finish(process)
    assert run.status == 0, run.output
    assert "is being approved through Azure Resource Manager, since web1 cannot send it" in run.output
    assert run.event(event_id)["outcome"] == "completed"
    assert azure.acknowledged() == [event_id] and [each["Status"] for each in site.sent()] == [429, 503, 200]
    assert site.simulator.event(event_id)["Approvals"] == []
    assert site.admin_states() == dict.fromkeys(site.names, "ready") and site.records() == []


# The plan for such a host is in tests/unit/plugins/plugin_utils/test_plan_outside.py.
@pytest.mark.long
def test_a_host_that_cannot_be_reached(site, azure):
    site.use(azure, own={**UNREACHABLE, "graceful_azure_ports": []})
    event_id = site.reboot(ImpactSeconds=600)
    process = site.start("handle_events")
    until(lambda: azure.acknowledged() == [event_id], 60, "the acknowledgement")
    assert site.admin_states() == {"web1": "drain", "web2": "ready"}
    assert site.simulator.statuses(event_id) == ["Scheduled", "Started"]
    site.kill(process)


# Each of these is in tests/unit/plugins/plugin_utils/test_plan_outside.py.
@pytest.mark.long
@pytest.mark.parametrize(
    "options, services, says_why",
    [
        ({"graceful_azure_approve_through": "metadata_service", "graceful_azure_ports": []}, [], False),
        ({"graceful_azure_ports": []}, ["shop"], True),
        ({"graceful_azure_ports": [80]}, [], True),
        ({"graceful_azure_rules": [{"name": "by hand", "action": "prepare"}], "graceful_azure_ports": []}, [], False),
    ],
    ids=["by default", "services", "ports", "rule"],
)
def test_nothing_is_sent_for_what_is_not_known_to_be_ready(site, azure, options, services, says_why):
    site.use(azure, own={**UNREACHABLE, "graceful_azure_duties": site.duties(*services), **options})
    event_id = site.reboot()
    run = site.run(handle_events_timeout=patient(18))
    assert run.status != 0
    assert site.admin_states()["web1"] == "drain"
    assert site.sent() == [] and site.simulator.statuses(event_id) == ["Scheduled"]
    assert ("it was not found ready before it fell silent" in run.output) is says_why, run.output


# Each refusal is in tests/unit/plugins/modules/test_azure_event_acknowledge.py.
@pytest.mark.long
@pytest.mark.parametrize(
    "settings, environment, options, said",
    [
        ({"denied": [ACKNOWLEDGE]}, {}, {}, f"lacks the action {ACKNOWLEDGE} on the scope {SET}/providers/Microsoft.Maintenance/scheduledevents/"),
        ({}, {"AZURE_SECRET": ""}, {"access": {"auth_source": "env"}}, "secret is missing"),
        ({}, {"AZURE_SECRET": "wrong"}, {}, "The secret is wrong"),
        ({}, {}, {"graceful_azure_approve_resource": SET + "2"}, "Azure knows no event"),
    ],
    ids=["rights", "no credentials", "wrong credentials", "no such resource"],
)
def test_what_azure_refuses_is_told(site, azure, settings, environment, options, said):
    site.environment.update(environment)
    azure.settings(**settings)
    site.use(azure, **options)
    site.silence_service()
    event_id = site.reboot()
    run = site.run(handle_events_timeout=patient(20))
    assert run.status != 0
    assert said in run.output
    assert azure.acknowledged() == [] and site.simulator.statuses(event_id) == ["Scheduled"]


# The plan of the run after it is in tests/unit/plugins/plugin_utils/test_plan_outside.py.
@pytest.mark.long
def test_a_controller_that_is_killed_after_it_leaves_no_harm(site, azure):
    site.silence_service()
    # The second run must see it Started.
    event_id = site.reboot(ImpactSeconds=patient(8))
    process = site.start("handle_events")
    site.simulator.wait_for(event_id, "Started", 60)
    site.kill(process)
    site.simulator.clear_faults()
    run = site.run()
    assert run.status == 0, run.output
    # Nothing tells this run that the event was approved.
    assert run.event(event_id)["outcome"] in ("completed", "not_approved")
    assert azure.acknowledged() == [event_id]
    assert site.admin_states() == dict.fromkeys(site.names, "ready") and site.records() == []


# What is wrong is in test_settings.py.
@pytest.mark.parametrize(
    "options, said",
    [
        ({"graceful_azure_approve_resource": None}, "graceful_azure_approve_resource: not set"),
        pytest.param({"graceful_azure_approve_resource": "web"}, "graceful_azure_approve_resource: 'web' is not a resource id such as", marks=pytest.mark.long),
        pytest.param({"graceful_azure_approve_through": "carrier pigeon"}, "graceful_azure_approve_through", marks=pytest.mark.long),
        pytest.param(
            {"access": {"arm_url": "http://127.0.0.1"}},
            "graceful_azure_approve_access.arm_url: 'http://127.0.0.1' does not begin with https://",
            marks=pytest.mark.long,
        ),
    ],
)
def test_bad_input_is_told_before_anything_is_done(site, azure, options, said):
    site.use(azure, **options)
    site.reboot()
    run = site.run()
    assert run.status != 0 and said in run.output, run.output
    assert site.admin_states() == dict.fromkeys(site.names, "ready")
