# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the roles say of themselves: argument specs, defaults and README agree."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.support.checkout import ROOT

ROLES = ("load_balancer", "drain_host", "approve_event", "restore_service", "event_watcher")


def load(role, name):
    return yaml.safe_load((ROOT / "roles" / role / name).read_text())


def options(role):
    return load(role, "meta/argument_specs.yml")["argument_specs"]["main"]["options"]


def variables_of_files(role):
    """Every variable that the role's own files set or read, as far as its name tells that it is the role's own."""
    text = "".join(path.read_text() for folder in ("tasks", "vars", "defaults") for path in (ROOT / "roles" / role / folder).glob("*.yml"))
    return set(re.findall(rf"(?<![\w.])({role}_\w+)", text))


@pytest.mark.parametrize("role", ROLES)
def test_every_variable_bears_the_roles_name(role):
    assert all(name.startswith(f"{role}_") for name in options(role))
    assert all(name.startswith(f"{role}_") for name in load(role, "defaults/main.yml"))
    if (ROOT / "roles" / role / "vars" / "main.yml").exists():
        assert all(name.startswith(f"__{role}_") for name in load(role, "vars/main.yml"))


@pytest.mark.parametrize("role", ROLES)
def test_every_variable_is_in_the_argument_specs(role):
    # Facts and the names of records.
    others = {f"{role}_{name}" for name in ("result", "done", "idle", "before", "after", "custom")}
    assert variables_of_files(role) - others <= set(options(role))
    # One action reads those of the roles that are used alone. It calls them by their names without the role's.
    told = (ROOT / "plugins" / "plugin_utils" / "_run" / "alone.py").read_text() if role != "event_watcher" else ""
    assert {name for name in options(role) if f'"{name[len(role) + 1 :]}"' not in told} <= variables_of_files(role)


@pytest.mark.parametrize("role", ROLES)
def test_defaults_are_those_of_the_argument_specs(role):
    stated = {name: option["default"] for name, option in options(role).items() if "default" in option}
    defaults = load(role, "defaults/main.yml")
    assert defaults == stated


@pytest.mark.parametrize("role", ROLES)
def test_the_readme_leads_to_the_argument_specs_and_repeats_none_of_them(role):
    readme = (ROOT / "roles" / role / "README.md").read_text()
    assert "(meta/argument_specs.yml)" in readme
    assert [line for line in readme.splitlines() if re.match(rf"\| `{role}_\w+`", line)] == []
    known = {*options(role), f"{role}_result", *(name for other in ROLES for name in options(other))}
    assert {name for name in re.findall(rf"`({role}_\w+)", readme) if name not in known} == set()
