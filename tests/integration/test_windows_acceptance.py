# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The acceptance playbook runs to its end against the model, and every call that the collection makes on Windows hosts is in it."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.needed import HEALTH_ACTIONS
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows_modules import CALLS, MODULES

from tests.support.checkout import BUILD, ROOT, must_pass
from tests.support.playbook import ansible_settings
from tests.support.simulator import Simulator
from tests.support.windows.inventory import fetch_collections, shape, surroundings, variables
from tests.support.windows.model import ModelledHost, script_name

PLATFORMS = ROOT / "plugins" / "plugin_utils" / "_platforms"
OF_THE_PLAYBOOK = {"ansible.windows.win_service", "ansible.windows.win_file"}
"""What only makes and removes what the playbook tries itself on."""


def accept(folder, host, simulator):
    inventory = folder / "inventory.json"
    inventory.write_text(json.dumps({"all": {"hosts": {"win1": variables(host, simulator.urls["win1"])}}}))
    # It begins at the folder in which the user calls the playbook, which the shell puts into PWD.
    report = "report.json"
    urls = {"accept_windows_imds_url": simulator.urls["win1"], "accept_windows_control_url": simulator.control}
    given = {"target": "all", "accept_windows_report": report, **urls}
    command = ("ansible-playbook", "-i", inventory, "graceful.azure.accept_windows", "-e", json.dumps(given))
    said = must_pass(*command, env={**ansible_settings(folder), **surroundings(), "PWD": str(folder)}, cwd=BUILD)
    return said, json.loads((folder / report).read_text())


@pytest.fixture(name="calls", scope="module")
def _calls(tmp_path_factory):
    """What was called on the host."""
    fetch_collections()
    folder = tmp_path_factory.mktemp("accept")
    host = ModelledHost.make(folder / "win1", listens=[135], connections=[[5985, "10.0.0.4", 40000, "Established"]])
    before = host.state()
    with Simulator(["win1"]) as simulator:
        output, report = accept(folder, host, simulator)
    assert "Every call did what it should" in output
    assert host.mistakes() == [] and "not run" not in report.values()
    assert report["health_site"]["answers"][0]["on"] == "graceful-azure-test"
    # It leaves nothing behind.
    assert {key: value for key, value in host.state().items() if key != "booted"} == {key: value for key, value in before.items() if key != "booted"}
    return host.calls()


def test_it_makes_every_call(calls):
    called = {call["module"] for call in calls} - OF_THE_PLAYBOOK
    told = set()
    for path in PLATFORMS.glob("windows*.py"):
        told |= set(re.findall(r"[\"'f]((?:ansible\.windows|microsoft\.iis)\.[a-z_]+)[\"']", path.read_text(encoding="utf-8")))
    told |= {f"{name}_info" for name in told if name.startswith("microsoft.iis.")}
    assert called == told
    scripts = {call["args"]["script"] for call in calls if "script" in call["args"]}
    assert scripts == {script_name(path.read_text(encoding="ascii")) for path in PLATFORMS.glob("scripts/*.ps1")} | {"test_service"}


def test_it_calls_every_module_in_every_way():
    (play,) = yaml.safe_load((ROOT / "playbooks" / "accept_windows.yml").read_text(encoding="utf-8"))
    told = [(key, value) for task in play["tasks"][0]["block"] for key, value in task.items() if key.startswith("graceful.azure.")]
    assert {name.rpartition(".")[2] for name, _args in told} == {*MODULES, "machine"}
    calls = [(args["call"], args["args"]) for name, args in told if name == "graceful.azure.machine"]
    assert {call for call, _args in calls} == set(CALLS)
    for way in ("hold", "info"):
        actions = {args["action"] for call, args in calls if call == f"health_probe_{way}" and args.get("state") != "absent"}
        # A service is looked at in the same call as a file.
        assert actions == set(HEALTH_ACTIONS) - ({"service"} if way == "info" else set())


def test_it_makes_them_in_every_shape(calls):
    made = {shape(call) for call in calls}
    script = "ansible.windows.win_powershell"
    assert {
        ("ansible.windows.win_uri", "GET"),
        ("ansible.windows.win_uri", "POST", "body"),
        ("ansible.windows.win_wait_for", "started", "port"),
        (script, "service", "stop"),
        (script, "service", "start"),
        (script, "write", "writes", False),
        (script, "write", "writes", True),
        (script, "write", "deletes", True),
        (script, "write", "moves", True),
        ("microsoft.iis.website", "stopped"),
        ("microsoft.iis.website", "started"),
        ("microsoft.iis.web_app_pool", "stopped"),
        ("microsoft.iis.web_app_pool", "started"),
        ("microsoft.iis.website_info", ""),
        ("microsoft.iis.web_app_pool_info", ""),
    } <= made
    asked = {part for shaped in made if shaped[1] == "look" for part in shaped[2:]}
    assert asked == {f"{key}: {value}" for key in ("Files", "Services", "Ports") for value in (True, False)}
