# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of the playbook awx: what is refused, and what follows from them."""

from __future__ import annotations

import re

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._awx_setup import SETTINGS, TEXTS, check, explain_refusal, read_setup

from tests.support.checkout import ROOT

NEEDED = {"awx_setup_inventory": "VMs", "awx_setup_project": "Maintenance"}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        dict.fromkeys(set(SETTINGS) - {*NEEDED, "awx_setup_schedule", "awx_setup_schedule_minutes"}),
        dict.fromkeys(set(TEXTS) - set(NEEDED), ""),
        *({"awx_setup_schedule": value} for value in (True, False, "yes", "Off", 1, "0")),
        *({"awx_setup_schedule_minutes": value} for value in (1, "60")),
        *({"awx_setup_forks": value} for value in (0, 20, "20", "")),
        *({"awx_setup_project_scm_url": url} for url in ("https://git.example.com/web.git", "git@git.example.com:web.git", "/srv/git/web")),
        {"awx_setup_credentials": ["ssh", 5], "awx_setup_host_config_key": "a-key", "awx_setup_playbook": "ours/handle.yaml"},
        {"awx_setup_notification": {"type": "slack"}},
        {"awx_setup_notification": {"type": "slack", "configuration": {"token": "x"}}},
    ],
)
def test_what_is_right(settings):
    assert list(check({**NEEDED, **settings})) == []


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("value", [5, ["web"], True])
def test_a_name_that_is_no_text(name, value):
    assert f"{name} is {value}: must be a text, in quotes if it is a number." in check({**NEEDED, name: value})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"awx_setup_shedule": False, "awx_setup_fork": 1}, "There is no setting awx_setup_fork, awx_setup_shedule."),
        ({"awx_setup_inventory": ""}, "awx_setup_inventory is missing."),
        ({"awx_setup_project": None}, "awx_setup_project is missing."),
        ({"awx_setup_project_scm_url": "git.example.com/web"}, "awx_setup_project_scm_url is git.example.com/web: must be what git clones"),
        ({"awx_setup_project_scm_url": "https://x/y\n"}, "awx_setup_project_scm_url is "),
        ({"awx_setup_credentials": "ssh"}, "awx_setup_credentials is ssh: must be a list of names."),
        ({"awx_setup_credentials": {"ssh": 1}}, "awx_setup_credentials is {'ssh': 1}: must be a list of names."),
        ({"awx_setup_playbook": "handle_events"}, "awx_setup_playbook is handle_events: must be a file in the project, such as handle_events.yml."),
        ({"awx_setup_holds_playbook": "/holds.yml"}, "awx_setup_holds_playbook is /holds.yml: must be a file in the project, such as holds.yml."),
        *(({"awx_setup_forks": value}, f"awx_setup_forks is {value}: must be a whole number") for value in ("many", -1, 1.5, True)),
        *(({"awx_setup_host_config_key": value}, "awx_setup_host_config_key must be a text without white space") for value in ("a b", "a\n", 5)),
        *(({"awx_setup_schedule": value}, f"awx_setup_schedule is {value}: must be true or false.") for value in ("maybe", 2, [])),
        ({"awx_setup_schedule": None}, "awx_setup_schedule is : must be true or false."),
        *(({"awx_setup_schedule_minutes": value}, f"awx_setup_schedule_minutes is {value}: must be a whole number") for value in (0, "five", 1.5, -1, True)),
        ({"awx_setup_schedule_minutes": None}, "awx_setup_schedule_minutes is : must be a whole number"),
        *(({"awx_setup_notification": value}, "awx_setup_notification must be a dictionary with") for value in ({"configuration": {}}, "slack", ["slack"])),
        ({"awx_setup_notification": {"type": "slack", "configuration": None}}, "awx_setup_notification.configuration must be a dictionary."),
    ],
)
def test_what_is_wrong(settings, said):
    mistakes = list(check({**NEEDED, **settings}))
    assert [mistake for mistake in mistakes if mistake.startswith(said)], mistakes


class TestSetup:
    MADE = {"changed": True, "id": 7}
    FOUND = {"changed": False, "id": 7}
    NOT_MADE = {"changed": True}
    SKIPPED = {"changed": False, "skipped": True}

    def test_the_defaults(self):
        assert read_setup(NEEDED, {}) == {
            "organization": "Default",
            "credentials": [],
            "forks": 0,
            "scm_branch": "",
            "handle_events_playbook": "handle_events.yml",
            "holds_playbook": "holds.yml",
            "schedule": {"enabled": True, "minutes": 1, "timeout": 600, "target": "all"},
            "makes_project": False,
            "makes_inventory": False,
            "makes_notification": False,
            "project": "Maintenance",
            "inventory": "VMs",
            "can_go_on": True,
        }

    def test_an_empty_setting_means_the_default(self):
        empty = dict.fromkeys(set(SETTINGS) - {*NEEDED, "awx_setup_schedule", "awx_setup_schedule_minutes"})
        assert read_setup({**NEEDED, **empty}, {}) == read_setup(NEEDED, {})

    def test_what_is_given(self):
        setup = read_setup({**NEEDED, "awx_setup_forks": "20", "awx_setup_execution_environment": "ours", "awx_setup_schedule_minutes": "5"}, {})
        assert (setup["forks"], setup["execution_environment"]) == (20, "ours")
        assert (setup["schedule"]["minutes"], setup["schedule"]["timeout"]) == (5, 3000)

    @pytest.mark.parametrize(("value", "enabled"), [(True, True), ("Yes", True), (1, True), (False, False), ("Off", False), ("0", False)])
    def test_whether_the_schedule_is_on(self, value, enabled):
        assert read_setup({**NEEDED, "awx_setup_schedule": value}, {})["schedule"]["enabled"] is enabled

    def test_what_is_made_is_unknown_before_and_known_by_its_number_after(self):
        settings = {**NEEDED, "awx_setup_project_scm_url": "/srv/git", "awx_setup_inventory_file": "hosts.yml", "awx_setup_notification": {"type": "slack"}}
        before = read_setup(settings, {})
        assert before["makes_project"] and before["makes_inventory"] and before["makes_notification"]
        assert not {"project", "inventory", "notifications"} & set(before)
        for result in (self.MADE, self.FOUND):
            after = read_setup(settings, dict.fromkeys(("project", "inventory", "notification"), result))
            assert (after["project"], after["inventory"], after["notifications"], after["can_go_on"]) == (7, 7, [7], True)

    def test_what_is_named_keeps_its_name(self):
        setup = read_setup(NEEDED, dict.fromkeys(("project", "inventory", "notification"), self.SKIPPED))
        assert (setup["project"], setup["inventory"], setup["can_go_on"]) == ("Maintenance", "VMs", True) and "notifications" not in setup

    @pytest.mark.parametrize("name", ["project", "inventory", "notification"])
    def test_check_mode_cannot_go_on_without_what_it_did_not_make(self, name):
        made = {**dict.fromkeys(("project", "inventory", "notification"), self.FOUND), name: self.NOT_MADE}
        assert read_setup(NEEDED, made)["can_go_on"] is False

    def test_it_holds_no_secret(self):
        settings = {**NEEDED, "awx_setup_host_config_key": "s3cret", "awx_setup_notification": {"type": "slack", "configuration": {"token": "s3cret"}}}
        assert "s3cret" not in str(read_setup(settings, {"notification": self.MADE}))


@pytest.mark.parametrize("message", ["credentials/?name=x returned 0 items, expected 1.", "The project x was not found."])
def test_a_wrong_name_is_explained_by_the_settings(message):
    told = explain_refusal(message)
    assert told.startswith(f"{message} Nothing was changed. awx_setup_organization, ") and "CONTROLLER_HOST" not in told


def test_another_refusal_is_explained_by_the_login():
    told = explain_refusal("Failed to get token: HTTP Error 401: Unauthorized.")
    assert "Nothing was changed. AWX is asked at CONTROLLER_HOST" in told and "awx_setup_" not in told


def test_the_documented_settings_are_those_that_are_known():
    table = re.findall(r"^\| (`awx_setup_.*?) \| ", (ROOT / "docs" / "playbooks.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(name for names in table for name in re.findall(r"awx_setup_\w+", names)) == sorted(SETTINGS)
