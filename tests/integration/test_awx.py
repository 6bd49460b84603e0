# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""AWX: set up by a playbook, against a stand-in of its API; and jobs as it starts them, by the real ansible-runner."""

from __future__ import annotations

import json
import os
import subprocess
import time

import pytest

from tests.support.awx import Awx
from tests.support.checkout import BUILD
from tests.support.others import fetch
from tests.support.programs import Job
from tests.support.site import wait_until

# The last package with awx.awx, in the version of AWX that docs/awx.md is about.
PACKAGE = "ansible==12.3.0"
SETTINGS = {
    "awx_setup_inventory": "VMs",
    "awx_setup_inventory_file": "inventory.yml",
    "awx_setup_project": "Maintenance",
    "awx_setup_project_scm_url": "https://git.example.com/maintenance.git",
    "awx_setup_credentials": ["ssh"],
    "awx_setup_host_config_key": "a-key",
}
NOTIFICATION = {"type": "webhook", "configuration": {"url": "https://pager.example.com", "http_method": "POST", "headers": {}}}


@pytest.fixture(scope="module", name="collections")
def awx_collection():
    folder = BUILD / "others"
    fetch(PACKAGE, "awx.awx", folder)
    return folder


@pytest.fixture(name="awx")
def stand_in():
    awx = Awx()
    for kind, name in (("organizations", "Default"), ("credentials", "ssh")):
        awx.add(kind, name=name)
    yield awx
    awx.close()


class TestSetUp:
    @pytest.fixture(autouse=True)
    def _prepare(self, awx, collections):
        self.awx = awx
        self.environment = dict(
            os.environ,
            CONTROLLER_HOST=awx.url,
            CONTROLLER_OAUTH_TOKEN=awx.token,
            ANSIBLE_COLLECTIONS_PATH=os.pathsep.join([str(BUILD / "collections"), str(collections)]),
            ANSIBLE_NOCOLOR="1",
        )

    def run(self, *arguments, token=None, **settings):
        command = ["ansible-playbook", "graceful.azure.awx", "-e", json.dumps({**SETTINGS, **settings}), *arguments]
        environment = dict(self.environment, CONTROLLER_OAUTH_TOKEN=token) if token else self.environment
        before = len(self.awx.changes)
        done = subprocess.run(command, env=environment, cwd=str(BUILD), capture_output=True, text=True, timeout=100, check=False)
        return done.returncode, done.stdout + done.stderr, self.awx.changes[before:]

    @pytest.mark.timeout(240)
    def test_all_of_it_and_a_second_run_changes_nothing(self):
        status, output, _changes = self.run(awx_setup_notification=NOTIFICATION)
        assert status == 0, output
        template = self.awx.one("job_templates", "Handle scheduled events")
        wanted = {"ask_variables_on_launch": True, "ask_job_type_on_launch": True, "allow_simultaneous": True, "job_slice_count": 1, "timeout": 0}
        assert {name: template[name] for name in wanted} == wanted
        assert (template["playbook"], template["host_config_key"]) == ("handle_events.yml", "a-key")
        # A provisioning callback cannot answer.
        survey = self.awx.hangs("job_templates", "Handle scheduled events", "survey_spec")["spec"]
        assert [question["variable"] for question in survey if not question["required"]] == ["target", "handle_events_wait", "handle_events_timeout"]
        assert self.awx.hangs("job_templates", "Handle scheduled events", "credentials") == [self.awx.one("credentials", "ssh")["id"]]
        notified = self.awx.hangs("job_templates", "Handle scheduled events", "notification_templates_error")
        assert notified == [self.awx.one("notification_templates", "Scheduled events need a person")["id"]]
        source = self.awx.one("inventory_sources", "The project's inventory")
        wanted = {"inventory": self.awx.one("inventories", "VMs")["id"], "source_project": self.awx.one("projects", "Maintenance")["id"]}
        assert {name: source[name] for name in wanted} == wanted and (source["source"], source["source_path"]) == ("scm", "inventory.yml")
        assert len(self.awx.objects["inventory_updates"]) == 1
        schedule = self.awx.one("schedules", "A pass over all scheduled events")
        assert schedule["extra_data"] == {"target": "all", "handle_events_wait": "false"} and schedule["rrule"].endswith("FREQ=MINUTELY;INTERVAL=1")
        # What fails every minute is told to nobody.
        assert schedule["unified_job_template"] == self.awx.one("job_templates", "Take a pass over all scheduled events")["id"]
        assert not self.awx.hangs("job_templates", "Take a pass over all scheduled events", "notification_templates_error")
        injected = self.awx.one("credential_types", "Secret of the watchers of scheduled events")["injectors"]
        assert injected == {"extra_vars": {"event_watcher_secret": "{{ secret }}"}}
        status, output, changes = self.run(awx_setup_notification=NOTIFICATION)
        assert (status, changes) == (0, []), output
        assert "changed=0" in output
        # The names of a whole scale set.
        target = ",".join(f"{'vmss' * 15}_{number:03d}" for number in range(1000))
        assert self.awx.answer("POST", f"{template['url']}launch/", {}, {"extra_vars": {"target": target}})[0] == 201

    @pytest.mark.timeout(240)
    def test_check_mode_on_a_fresh_awx_and_on_one_that_has_all_but_the_templates(self):
        status, output, changes = self.run("--check", awx_setup_notification=NOTIFICATION)
        assert (status, changes) == (0, []), output
        assert "What names the project, the inventory or the notification would be made, too" in output
        for kind, name in (("projects", "Maintenance"), ("inventories", "VMs")):
            self.awx.add(kind, name=name, organization=self.awx.one("organizations", "Default")["id"], kind="")
        status, output, changes = self.run("--check")
        assert (status, changes) == (0, []), output
        assert "would be made, too" not in output

    @pytest.mark.long
    def test_what_is_there_is_named(self):
        """An inventory and a project that somebody else made."""
        for kind, name in (("projects", "Maintenance"), ("inventories", "VMs")):
            self.awx.add(kind, name=name, organization=self.awx.one("organizations", "Default")["id"], kind="smart")
        status, output, changes = self.run(awx_setup_inventory_file="", awx_setup_project_scm_url="", awx_setup_schedule_target="web")
        assert status == 0, output
        assert not [path for method, path, _document in changes if "/inventor" in path or "/projects/" in path]
        assert self.awx.one("job_templates", "Handle scheduled events")["inventory"] == self.awx.one("inventories", "VMs")["id"]
        assert self.awx.one("schedules", "A pass over all scheduled events")["extra_data"]["target"] == "web"

    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({"awx_setup_inventory": ""}, "awx_setup_inventory is missing"),
            ({"awx_setup_project": None}, "awx_setup_project is missing"),
            ({"awx_setup_credentials": "ssh"}, "awx_setup_credentials must be a list"),
            ({"awx_setup_host_config_key": "a key\n"}, "awx_setup_host_config_key"),
            ({"awx_setup_notification": {"configuration": {}}}, "awx_setup_notification must be a dictionary"),
        ],
    )
    def test_bad_input(self, settings, said):
        status, output, changes = self.run(**settings)
        assert status != 0 and said in output and changes == []

    def test_a_wrong_token(self):
        status, output, changes = self.run(token="another")
        assert status != 0 and "Invalid authentication credentials" in output and changes == []


def temporary(site):
    return {"ANSIBLE_REMOTE_TEMP": str(site.folder / "tmp")}


@pytest.mark.timeout(200)
def test_a_job_that_is_cancelled_and_the_next_one(site, tmp_path):
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], ImpactSeconds=None)
    first = Job(tmp_path / "first", site.inventory, temporary(site), target="web")
    try:
        # Progress is there to be read while it runs.
        wait_until(lambda: f"web1  started  Reboot {event_id}" in first.said(), 60, "the start told")
        assert first.process.poll() is None
    finally:
        first.kill()
    assert site.admin_states()["web1"] == "drain"
    site.simulator.ask("POST", f"/events/{event_id}/complete")
    time.sleep(0.2)
    # The survey gives texts.
    second = Job(tmp_path / "second", site.inventory, temporary(site), target="web", handle_events_wait="true", handle_events_timeout=60)
    output, _nothing = second.process.communicate(timeout=100)
    assert second.process.returncode == 0, output
    (told,) = second.artifacts()["graceful_azure"]
    assert (told["event_id"], told["outcome"], told["hosts"]["web1"]["state"]) == (event_id, "completed", "restored")
    assert site.admin_states() == {"web1": "ready", "web2": "ready"} and site.records() == []


@pytest.mark.long
@pytest.mark.timeout(200)
def test_a_schedule_that_takes_one_pass_a_minute(site, tmp_path):
    """Each pass a job of its own; together they see an event through."""
    event_id = site.simulator.post_event(EventType="Freeze", Resources=["web2"], ImpactSeconds=1, SettleSeconds=1)
    outcomes = []
    while not outcomes or site.records():
        job = Job(tmp_path / str(len(outcomes)), site.inventory, temporary(site), target="web", handle_events_wait="false")
        output, _nothing = job.process.communicate(timeout=60)
        assert job.process.returncode == 0, output
        outcomes.append([told["outcome"] for told in job.artifacts()["graceful_azure"]])
        assert len(outcomes) < 8, outcomes
    # Out, approved, and once it is gone back: a step each, and none to spare while it lasts.
    assert outcomes[0] == ["in_progress"] and 3 <= len(outcomes) <= 5
    assert [approval["Vm"] for approval in site.simulator.event(event_id)["Approvals"]] == ["web2"]
    assert site.admin_states() == {"web1": "ready", "web2": "ready"}
