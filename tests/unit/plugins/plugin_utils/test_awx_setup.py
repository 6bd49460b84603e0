# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is refused of the settings of the playbook awx."""

from __future__ import annotations

import re

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._awx_setup import SETTINGS, TEXTS, check

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
    assert check({**NEEDED, **settings}) == []


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
    mistakes = check({**NEEDED, **settings})
    assert [mistake for mistake in mistakes if mistake.startswith(said)], mistakes


def test_the_documented_settings_are_those_that_are_known():
    table = re.findall(r"^\| (`awx_setup_.*?) \| ", (ROOT / "docs" / "awx-why.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(name for names in table for name in re.findall(r"awx_setup_\w+", names)) == sorted(SETTINGS)
