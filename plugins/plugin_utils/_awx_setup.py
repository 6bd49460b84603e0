# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of the playbook awx: what is wrong with them, and what follows from them. Pure.

A mistake is what AWX would refuse when half of the objects exist already, or would accept and never do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.graceful.azure.plugins.plugin_utils._text import as_text
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Variables

TEXTS = (
    *("awx_setup_execution_environment", "awx_setup_holds_playbook", "awx_setup_inventory", "awx_setup_inventory_file", "awx_setup_organization"),
    *("awx_setup_playbook", "awx_setup_project", "awx_setup_project_scm_branch", "awx_setup_project_scm_url", "awx_setup_schedule_target"),
)
SETTINGS = (
    *TEXTS,
    *("awx_setup_credentials", "awx_setup_forks", "awx_setup_host_config_key", "awx_setup_notification", "awx_setup_schedule"),
    "awx_setup_schedule_minutes",
)
PLAYBOOKS = {"awx_setup_playbook": "handle_events.yml", "awx_setup_holds_playbook": "holds.yml"}
TRUE = ("true", "yes", "on", "1")
FALSE = ("false", "no", "off", "0")
NAMES = (
    "awx_setup_organization, awx_setup_credentials, awx_setup_execution_environment, and awx_setup_project without awx_setup_project_scm_url"
    " and awx_setup_inventory without awx_setup_inventory_file, must each name what AWX has once, or give its number."
)
LOGIN = "AWX is asked at CONTROLLER_HOST, with CONTROLLER_OAUTH_TOKEN or CONTROLLER_USERNAME and CONTROLLER_PASSWORD."
TIMEOUT_SECONDS = 600
"""For each minute between two passes of the schedule, the seconds after which AWX ends a pass that hangs."""


def explain_refusal(message: str) -> str:
    """What AWX refused at the first question, and what the user can mend. C(message): what the module of awx.awx said."""
    is_answer = re.search(" items, expected 1|was not found", message)
    return f"{message} Nothing was changed. {NAMES if is_answer else LOGIN}"


def read_setup(values: Variables, made: Mapping[str, Json]) -> Json:
    """What the tasks of the playbook need, from settings without a mistake. It holds no secret.

    C(made): what the tasks for C(project), C(inventory) and C(notification) returned so far.

    Returns, besides settings with their defaults: C(makes_project), C(makes_inventory) and C(makes_notification) (otherwise the user has made the
    first two, and names them), C(project) and C(inventory) (the id if it was made, or the name if it is named; missing while neither is known),
    C(notifications) (a list with the id; missing if there is none), and C(can_go_on) (false if check mode did not make what the next tasks need).
    """
    makes = {
        "project": bool(values.get("awx_setup_project_scm_url")),
        "inventory": bool(values.get("awx_setup_inventory_file")),
        "notification": bool(values.get("awx_setup_notification")),
    }
    ids = {name: result["id"] for name, result in made.items() if result.get("id") is not None}
    minutes = int(values.get("awx_setup_schedule_minutes", 1))
    setup = {
        "organization": values.get("awx_setup_organization") or "Default",
        "credentials": values.get("awx_setup_credentials") or [],
        "forks": int(values.get("awx_setup_forks") or 0),
        "scm_branch": values.get("awx_setup_project_scm_branch") or "",
        "handle_events_playbook": values.get("awx_setup_playbook") or PLAYBOOKS["awx_setup_playbook"],
        "holds_playbook": values.get("awx_setup_holds_playbook") or PLAYBOOKS["awx_setup_holds_playbook"],
        "schedule": {
            "enabled": as_text(values.get("awx_setup_schedule", True)).lower() in TRUE,
            "minutes": minutes,
            "timeout": minutes * TIMEOUT_SECONDS,
            "target": values.get("awx_setup_schedule_target") or "all",
        },
        "can_go_on": not any(result.get("changed") and name not in ids for name, result in made.items()),
        **{f"makes_{name}": is_made for name, is_made in makes.items()},
    }
    if values.get("awx_setup_execution_environment"):
        setup["execution_environment"] = values["awx_setup_execution_environment"]
    for name in ("project", "inventory"):
        if name in ids or not makes[name]:
            # By its number if it has one: another organization may have the same name.
            setup[name] = ids.get(name, values[f"awx_setup_{name}"])
    if makes["notification"] and "notification" in ids:
        setup["notifications"] = [ids["notification"]]
    return setup


def check(values: Variables) -> Iterator[str]:
    """Every mistake as a sentence. C(values): the variables whose names begin with C(awx_setup_)."""

    def given(name: str, default: Any) -> Any:
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
    url = as_text(given("awx_setup_project_scm_url", "/"))
    if not re.fullmatch(r"/\S*|[^\s:]+:\S+", url):
        yield f"awx_setup_project_scm_url is {url}: must be what git clones, such as https://git.example.com/web.git."
    credentials = given("awx_setup_credentials", [])
    if not isinstance(credentials, (list, tuple)):
        yield f"awx_setup_credentials is {credentials}: must be a list of names."
    for name, example in PLAYBOOKS.items():
        playbook = as_text(given(name, example))
        if not re.fullmatch(r"[^/].*\.ya?ml", playbook):
            yield f"{name} is {playbook}: must be a file in the project, such as {example}."
    forks = as_text(given("awx_setup_forks", 0))
    if not re.fullmatch("[0-9]+", forks):
        yield f"awx_setup_forks is {forks}: must be a whole number, such as that of the hosts."
    key = given("awx_setup_host_config_key", "")
    if not isinstance(key, str) or re.search(r"\s", key):
        yield "awx_setup_host_config_key must be a text without white space or a line's end in it."
    schedule = as_text(values.get("awx_setup_schedule", True))
    if schedule.lower() not in TRUE + FALSE:
        yield f"awx_setup_schedule is {schedule}: must be true or false."
    minutes = as_text(values.get("awx_setup_schedule_minutes", 1))
    if not re.fullmatch("[1-9][0-9]*", minutes):
        yield f"awx_setup_schedule_minutes is {minutes}: must be a whole number, 1 or more."
    notification = given("awx_setup_notification", {})
    if not isinstance(notification, Mapping) or (notification and "type" not in notification):
        yield "awx_setup_notification must be a dictionary with type and configuration."
    elif not isinstance(notification.get("configuration", {}), Mapping):
        yield "awx_setup_notification.configuration must be a dictionary."
