# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with the settings of the playbook awx: what AWX would refuse when half is made, or would take and never do. Private; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

TEXTS = (
    *("awx_setup_execution_environment", "awx_setup_holds_playbook", "awx_setup_inventory", "awx_setup_inventory_file", "awx_setup_organization"),
    *("awx_setup_playbook", "awx_setup_project", "awx_setup_project_scm_branch", "awx_setup_project_scm_url", "awx_setup_schedule_target"),
)
SETTINGS = (
    *TEXTS,
    *("awx_setup_credentials", "awx_setup_forks", "awx_setup_host_config_key", "awx_setup_notification", "awx_setup_schedule"),
    "awx_setup_schedule_minutes",
)
SWITCH = ("true", "yes", "on", "1", "false", "no", "off", "0")


def check(values):
    """Every mistake as a sentence. C(values): the variables whose names begin with C(awx_setup_)."""
    return list(_mistakes(values))


def _text(value):
    """A value as a template writes it."""
    return "" if value is None else str(value)


def _mistakes(values):
    def given(name, default):
        return values.get(name) or default

    unknown = sorted(set(values) - set(SETTINGS))
    if unknown:
        yield f"There is no setting {', '.join(unknown)}."
    no_texts = [f"{name} is {values[name]}" for name in TEXTS if not isinstance(values.get(name, ""), (str, type(None)))]
    if no_texts:
        yield f"{', '.join(no_texts)}: must be a text, in quotes if it is a number."
    if not values.get("awx_setup_inventory"):
        yield "awx_setup_inventory is missing. Name the inventory that has the VMs and their balancers; with awx_setup_inventory_file it is made."
    if not values.get("awx_setup_project"):
        yield "awx_setup_project is missing. Name the project that has the playbooks; with awx_setup_project_scm_url it is made."
    url = _text(given("awx_setup_project_scm_url", "/"))
    if not re.fullmatch(r"/\S*|[^\s:]+:\S+", url):
        yield f"awx_setup_project_scm_url is {url}: must be what git clones, such as https://git.example.com/web.git."
    credentials = given("awx_setup_credentials", [])
    if not isinstance(credentials, (list, tuple)):
        yield f"awx_setup_credentials is {credentials}: must be a list of names."
    for name, example in (("awx_setup_playbook", "handle_events.yml"), ("awx_setup_holds_playbook", "holds.yml")):
        playbook = _text(given(name, example))
        if not re.fullmatch(r"[^/].*\.ya?ml", playbook):
            yield f"{name} is {playbook}: must be a file in the project, such as {example}."
    forks = _text(given("awx_setup_forks", 0))
    if not re.fullmatch("[0-9]+", forks):
        yield f"awx_setup_forks is {forks}: must be a whole number, such as that of the hosts."
    key = given("awx_setup_host_config_key", "")
    if not isinstance(key, str) or re.search(r"\s", key):
        yield "awx_setup_host_config_key must be a text without white space or a line's end in it."
    schedule = _text(values.get("awx_setup_schedule", True))
    if schedule.lower() not in SWITCH:
        yield f"awx_setup_schedule is {schedule}: must be true or false."
    minutes = _text(values.get("awx_setup_schedule_minutes", 1))
    if not re.fullmatch("[1-9][0-9]*", minutes):
        yield f"awx_setup_schedule_minutes is {minutes}: must be a whole number, 1 or more."
    notification = given("awx_setup_notification", {})
    if not isinstance(notification, Mapping) or (notification and "type" not in notification):
        yield "awx_setup_notification must be a dictionary with type and configuration."
    elif not isinstance(notification.get("configuration", {}), Mapping):
        yield "awx_setup_notification.configuration must be a dictionary."
