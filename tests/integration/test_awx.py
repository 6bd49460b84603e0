# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""AWX: set up by a playbook, against a stand-in of its API; and jobs as it starts them, by the real ansible-runner.

What sets it up is run against a real AWX where GRACEFUL_AZURE_AWX_URL and GRACEFUL_AZURE_AWX_TOKEN, of an administrator, say which:
in an organization of its own, "Tests of graceful.azure", which is removed before and after each test. AWX must be able to clone
GRACEFUL_AZURE_AWX_PROJECT, a repository with the files of docs/run-it.md. The type of credential is of no organization, and stays.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time

import pytest

from tests.support.awx import Awx, RealAwx, fetch_collection
from tests.support.checkout import BUILD, ROOT
from tests.support.patience import patient, until
from tests.support.programs import Job
from tests.support.simulator import SHORT

# The last package with awx.awx, in the version of AWX that docs/run-it.md is about.
SETTINGS = {
    "awx_setup_inventory": "Tested VMs",
    "awx_setup_inventory_file": "inventory.yml",
    "awx_setup_project": "Tested maintenance",
    "awx_setup_project_scm_url": os.environ.get("GRACEFUL_AZURE_AWX_PROJECT", "https://git.example.com/maintenance.git"),
    "awx_setup_credentials": ["tested ssh"],
    "awx_setup_host_config_key": "a-key",
}
# Without a secret, which AWX would not tell again.
NOTIFICATION = {"type": "mattermost", "configuration": {"mattermost_url": "https://chat.example.com", "mattermost_no_verify_ssl": False}}
NOTIFIED = "Scheduled events need a person"
HANDLES = "Handle scheduled events"
PASSES = "Take a pass over all scheduled events"


@pytest.fixture(scope="module", name="collections")
def awx_collection():
    return fetch_collection()


@pytest.fixture(name="awx")
def an_awx():
    url = os.environ.get("GRACEFUL_AZURE_AWX_URL")
    if url:
        awx = RealAwx(url, os.environ["GRACEFUL_AZURE_AWX_TOKEN"])
    else:
        awx = Awx()
        awx.add("organizations", name=awx.organization)
    awx.add("credentials", name="tested ssh")
    yield awx
    awx.close()


class TestSetUp:
    @pytest.fixture(autouse=True)
    def _prepare(self, awx, collections):
        self.awx = awx
        self.organization = awx.one("organizations", awx.organization)["id"]
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("CONTROLLER_")}
        self.environment.update(
            CONTROLLER_HOST=awx.url,
            ANSIBLE_COLLECTIONS_PATH=os.pathsep.join([str(BUILD / "collections"), str(collections)]),
            ANSIBLE_NOCOLOR="1",
        )

    def run(self, *arguments, login=None, **settings):
        """The status, what is said, and what was changed, which a real AWX does not tell."""
        given = {"awx_setup_organization": self.awx.organization, **SETTINGS, **settings}
        command = ["ansible-playbook", "graceful.azure.awx", "-e", json.dumps(given), *arguments]
        environment = {**self.environment, **(login or {"CONTROLLER_OAUTH_TOKEN": self.awx.token})}
        before = len(self.awx.changes)
        done = subprocess.run(command, env=environment, cwd=str(BUILD), capture_output=True, text=True, timeout=patient(100), check=False)
        return done.returncode, done.stdout + done.stderr, list(self.awx.changes[before:])

    def one(self, kind, name):
        return self.awx.one(kind, name, organization=self.organization)

    def hangs(self, name, what):
        return self.awx.hangs("job_templates", name, what, organization=self.organization)

    @pytest.mark.timeout(240)
    def test_all_of_it_then_nothing_more_then_some_of_it_taken_out(self):
        """While another organization has all of the same names."""
        if not self.awx.real:
            other = self.awx.add("organizations", name="Other")
            for kind, name in (("projects", "Tested maintenance"), ("inventories", "Tested VMs"), ("notification_templates", NOTIFIED)):
                self.awx.add(kind, name=name, organization=other)
            for name in (HANDLES, PASSES):
                self.awx.add("job_templates", name=name, organization=other, host_config_key="theirs")
        settings = {"awx_setup_schedule_minutes": 2, "awx_setup_notification": NOTIFICATION}
        wanted = {**settings, "awx_setup_forks": 20, "awx_setup_project_scm_branch": "HEAD"}
        status, output, _changes = self.run(**wanted)
        assert status == 0, output
        self.judge_all_of_it()

        # By the other way to log in.
        login = None if self.awx.real else {"CONTROLLER_USERNAME": self.awx.users[0], "CONTROLLER_PASSWORD": self.awx.password}
        status, output, changes = self.run(login=login, **wanted)
        assert (status, changes) == (0, []), output
        assert "changed=0" in output
        if not self.awx.real:
            assert len(self.awx.objects["inventory_updates"]) == 1
            # No token for that user is left behind.
            assert self.awx.tokens == {}
        # The names of a whole scale set.
        target = ",".join(f"{'vmss' * 15}_{number:03d}" for number in range(1000))
        assert self.awx.launch(self.one("job_templates", HANDLES), {"target": target}) == 201

        status, output, _changes = self.run(awx_setup_host_config_key="")
        assert status == 0, output
        template = self.one("job_templates", HANDLES)
        assert (template["host_config_key"], template["forks"]) == ("", 0)
        assert self.one("projects", "Tested maintenance")["scm_branch"] == ""
        assert self.hangs(HANDLES, "notification_templates_error") == []
        assert self.awx.found("notification_templates", NOTIFIED, organization=self.organization) == []
        if not self.awx.real:
            assert self.awx.one("job_templates", HANDLES, organization=other)["host_config_key"] == "theirs"
            assert len(self.awx.found("notification_templates", NOTIFIED)) == 1

    def judge_all_of_it(self):
        template = self.one("job_templates", HANDLES)
        wanted = {"ask_variables_on_launch": True, "ask_job_type_on_launch": True, "allow_simultaneous": True, "job_slice_count": 1, "timeout": 0}
        assert {name: template[name] for name in wanted} == wanted
        assert (template["playbook"], template["host_config_key"], template["forks"]) == ("handle_events.yml", "a-key", 20)
        # A provisioning callback cannot answer.
        survey = self.hangs(HANDLES, "survey_spec")["spec"]
        assert [question["variable"] for question in survey if not question["required"]] == ["target", "handle_events_wait", "handle_events_timeout"]
        assert self.hangs(HANDLES, "credentials") == [self.awx.one("credentials", "tested ssh")["id"]]
        notified = self.one("notification_templates", NOTIFIED)
        assert self.hangs(HANDLES, "notification_templates_error") == [notified["id"]]
        # AWX sends it for cancelled jobs, too, and whoever gets one must be able to find that out there.
        assert "cancels" in notified["description"]
        inventory, project = self.one("inventories", "Tested VMs"), self.one("projects", "Tested maintenance")
        assert (template["inventory"], template["project"], project["scm_branch"]) == (inventory["id"], project["id"], "HEAD")
        source = self.awx.one("inventory_sources", "The project's inventory")
        assert (source["inventory"], source["source_project"]) == (inventory["id"], project["id"])
        assert (source["source"], source["source_path"]) == ("scm", "inventory.yml")
        schedule = self.awx.one("schedules", "A pass over all scheduled events")
        assert schedule["extra_data"] == {"target": "all", "handle_events_wait": "false"} and schedule["rrule"].endswith("FREQ=MINUTELY;INTERVAL=2")
        # What fails every minute is told to nobody. Passes wait for each other, but not for ever.
        passes = self.one("job_templates", PASSES)
        assert (schedule["unified_job_template"], passes["allow_simultaneous"], passes["timeout"]) == (passes["id"], False, 1200)
        assert not self.hangs(PASSES, "notification_templates_error")
        injected = self.awx.one("credential_types", "Secret of the watchers of scheduled events")["injectors"]
        assert injected == {"extra_vars": {"event_watcher_secret": "{{ secret }}"}}

    @pytest.mark.timeout(240)
    def test_check_mode_on_a_fresh_awx_and_on_one_that_has_all_but_the_templates(self):
        status, output, changes = self.run("--check", awx_setup_notification=NOTIFICATION)
        assert (status, changes) == (0, []), output
        assert "Whatever refers to the project, the inventory or the notification would be created, too" in output
        assert self.awx.found("projects", "Tested maintenance") == []
        self.have_inventory_and_project()
        status, output, changes = self.run("--check")
        assert (status, changes) == (0, []), output
        assert "would be made, too" not in output
        assert self.awx.found("job_templates", HANDLES) == []

    def have_inventory_and_project(self):
        url = SETTINGS["awx_setup_project_scm_url"]
        self.awx.add("projects", name="Tested maintenance", organization=self.organization, scm_type="git", scm_url=url)
        self.awx.add("inventories", name="Tested VMs", organization=self.organization, kind="")

    @pytest.mark.long
    def test_what_is_there_is_named(self):
        """An inventory and a project that somebody else made."""
        self.have_inventory_and_project()
        status, output, changes = self.run(awx_setup_inventory_file="", awx_setup_project_scm_url="", awx_setup_schedule_target="web")
        assert status == 0, output
        assert not [path for method, path, _document in changes if "/inventor" in path or "/projects/" in path]
        assert self.awx.found("inventory_sources", "The project's inventory") == []
        template = self.awx.one("job_templates", HANDLES)
        assert template["inventory"] == self.awx.one("inventories", "Tested VMs")["id"]
        assert template["project"] == self.awx.one("projects", "Tested maintenance")["id"]
        assert self.awx.one("schedules", "A pass over all scheduled events")["extra_data"]["target"] == "web"

    def refused(self, *said, **given):
        """That it says so, and that nothing was made."""
        status, output, changes = self.run(**given)
        output = " ".join(output.split())
        assert status != 0 and changes == []
        assert [text for text in said if text not in output] == [], output
        assert self.awx.found("projects", "Tested maintenance") == []

    def test_bad_input(self):
        self.refused("awx_setup_inventory is missing", "awx_setup_project is missing", awx_setup_inventory="", awx_setup_project=None)
        self.refused(
            "awx_setup_credentials is ssh: must be a list of names",
            "awx_setup_forks is many: must be a whole number",
            "awx_setup_host_config_key must be",
            "awx_setup_holds_playbook is holds: must be a file in the project, such as holds.yml",
            "awx_setup_notification must be a dictionary",
            "awx_setup_playbook is handle_events: must be a file in the project",
            "awx_setup_project_scm_url is git.example.com/web: must be what git clones",
            "awx_setup_schedule is maybe: must be true or false",
            "awx_setup_schedule_minutes is 0: must be a whole number, 1 or more",
            "awx_setup_schedule_target is ['web']: must be a text",
            awx_setup_credentials="ssh",
            awx_setup_forks="many",
            awx_setup_holds_playbook="holds",
            awx_setup_host_config_key="a key\n",
            awx_setup_notification={"configuration": {}},
            awx_setup_playbook="handle_events",
            awx_setup_project_scm_url="git.example.com/web",
            awx_setup_schedule="maybe",
            awx_setup_schedule_minutes=0,
            awx_setup_schedule_target=["web"],
        )

    @pytest.mark.long
    @pytest.mark.parametrize("wrong", ["five", "1.5", -1, True, None])
    def test_minutes_that_are_no_number(self, wrong):
        self.refused(f"awx_setup_schedule_minutes is {'' if wrong is None else wrong}: must be a whole number", awx_setup_schedule_minutes=wrong)

    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({"awx_setup_credentials": ["tested ssh", "nobody's"]}, "/api/v2/credentials/?name=nobody%27s returned 0 items, expected 1"),
            pytest.param({"awx_setup_execution_environment": "none"}, "execution_environments/?name=none returned 0 items", marks=pytest.mark.long),
            pytest.param({"awx_setup_inventory_file": ""}, "inventories/?name=Tested+VMs returned 0 items", marks=pytest.mark.long),
            pytest.param({"awx_setup_organization": "none"}, "organizations/?name=none returned 0 items", marks=pytest.mark.long),
            pytest.param({"awx_setup_project_scm_url": ""}, "project Tested maintenance in organization", marks=pytest.mark.long),
        ],
    )
    def test_what_is_not_there_is_told_before_anything_is_made(self, settings, said):
        self.refused(said, "Nothing was changed. awx_setup_organization, ", "must each name what AWX has once, or give its number.", **settings)

    @pytest.mark.long
    def test_a_notification_of_a_type_that_is_none(self):
        self.refused("value of notification_type must be one of", "got: pager", awx_setup_notification={"type": "pager"})

    @pytest.mark.parametrize(
        ("login", "said"),
        [
            pytest.param({"CONTROLLER_OAUTH_TOKEN": "another"}, "Invalid authentication credentials for", id="token"),
            pytest.param(
                {"CONTROLLER_USERNAME": "admin", "CONTROLLER_PASSWORD": "another"},
                "Failed to get token: HTTP Error 401: Unauthorized",
                id="password",
                marks=pytest.mark.long,
            ),
        ],
    )
    def test_a_wrong_login(self, login, said):
        self.refused(said, "Nothing was changed. AWX is asked at CONTROLLER_HOST, with CONTROLLER_OAUTH_TOKEN or CONTROLLER_USERNAME", login=login)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_the_tests_of_the_set_up_run_against_an_awx_that_is_named():
    """A stand-in in a process of its own is one."""
    with subprocess.Popen([sys.executable, "-m", "tests.support.awx"], cwd=str(ROOT), stdout=subprocess.PIPE, text=True) as awx:
        try:
            named = dict(pair.split("=", 1) for pair in shlex.split(awx.stdout.readline()))
            command = [sys.executable, "-m", "pytest", "-q", "-m", "long or not long", "-k", "TestSetUp and not minutes", __file__]
            done = subprocess.run(command, cwd=str(ROOT), env={**os.environ, **named}, capture_output=True, text=True, timeout=patient(380), check=False)
        finally:
            awx.terminate()
    assert done.returncode == 0 and " failed" not in done.stdout, done.stdout


def temporary(site):
    return {"ANSIBLE_REMOTE_TEMP": str(site.folder / "tmp")}


@pytest.mark.long
@pytest.mark.timeout(200)
def test_a_job_that_is_cancelled_and_the_next_one(site, tmp_path):
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], ImpactSeconds=None)
    first = Job(tmp_path / "first", site.inventory, temporary(site), target="web")
    try:
        # Progress is there to be read while it runs.
        until(lambda: f"web1  started  Reboot {event_id}" in first.said(), 60, "the start told")
        assert first.process.poll() is None
    finally:
        first.kill()
    assert site.admin_states()["web1"] == "drain"
    site.simulator.complete(event_id)
    time.sleep(0.2)
    # The survey gives texts.
    second = Job(tmp_path / "second", site.inventory, temporary(site), target="web", handle_events_wait="true", handle_events_timeout=patient(60))
    output, _nothing = second.process.communicate(timeout=patient(100))
    assert second.process.returncode == 0, output
    (told,) = second.artifacts()["graceful_azure"]
    assert (told["event_id"], told["outcome"], told["hosts"]["web1"]["state"]) == (event_id, "completed", "restored")
    assert site.admin_states() == {"web1": "ready", "web2": "ready"} and site.records() == []


@pytest.mark.long
@pytest.mark.timeout(200)
def test_a_schedule_that_takes_one_pass_a_minute(site, tmp_path):
    """Each pass a job of its own; together they see an event through."""
    event_id = site.simulator.post_event(EventType="Freeze", Resources=["web2"], **SHORT)
    outcomes = []
    while not outcomes or site.records():
        job = Job(tmp_path / str(len(outcomes)), site.inventory, temporary(site), target="web", handle_events_wait="false")
        output, _nothing = job.process.communicate(timeout=patient(60))
        assert job.process.returncode == 0, output
        outcomes.append([told["outcome"] for told in job.artifacts()["graceful_azure"]])
        assert len(outcomes) < 8, outcomes
    # Out, approved, and once it is gone back: a step each, and none to spare while it lasts.
    assert outcomes[0] == ["in_progress"] and 3 <= len(outcomes) <= 5
    assert site.simulator.approvers(event_id) == ["web2"]
    assert site.admin_states() == {"web1": "ready", "web2": "ready"}
