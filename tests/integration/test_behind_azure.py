# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page docs/behind-azure.md, and what docs/approve-from-outside.md adds to it: their settings are accepted, and their commands, typed one after the
other, handle events."""

from __future__ import annotations

import os
import re
import signal
import subprocess

import pytest
import yaml
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import read_settings

from tests.support.azure import NEEDED
from tests.support.checkout import ROOT
from tests.support.playbook import ansible_settings
from tests.support.ports import free_port

PORTS = ("8443", "8171", "8172", "8169", "8181", "8182")
# What the page has installed is this checkout.
INSTALLS = re.compile(r"^(python3 -m venv |\. venv/|pip install |ansible-galaxy ).*\n|^SIMULATORS=.*$", re.MULTILINE)
FILE = re.compile(r"# (\S+)\n")


def blocks(page, *headings):
    """Language and text of the code blocks below these headings, or of the whole page."""
    text = (ROOT / "docs" / page).read_text()
    parts = dict(part.split("\n", 1) for part in re.split(r"^##+ ", text, flags=re.MULTILINE)[1:] if "\n" in part)
    return re.findall(r"^```(\w+)\n(.*?)^```", "\n".join(parts[heading] for heading in headings) if headings else text, re.DOTALL | re.MULTILINE)


def inventories():
    for page in ("behind-azure.md", "approve-from-outside.md"):
        for kind, text in blocks(page):
            content = yaml.safe_load(text) if kind == "yaml" else None
            if isinstance(content, dict) and all("hosts" in group for group in content.values()):
                found = FILE.match(text)
                yield pytest.param(content, id=found[1] if found else page)


@pytest.mark.parametrize("content", list(inventories()))
def test_settings_are_accepted(content):
    (group,) = content.values()
    hosts = {name: {**group["vars"], "inventory_hostname": name, **(own or {})} for name, own in group["hosts"].items()}
    for name, variables in hosts.items():
        for key, value in variables.items():
            if isinstance(value, str):
                variables[key] = value.replace("{{ inventory_hostname }}", name).replace("{{ inventory_dir }}", "/tmp")
        if variables.get("load_balancer_provider") == "azure_load_balancer" and "load_balancer_azure_address" not in variables:
            # Otherwise it takes the address.
            assert "ansible_host" in variables
    settings, mistakes = read_settings({name: {"load_balancer_provider": "none", **variables} for name, variables in hosts.items()}, set(hosts))
    assert mistakes == []
    assert set(settings) == set(hosts)


def follow(folder, *parts):
    """Write the files and type the commands of these parts of pages (page, headings). Returns what the terminal shows."""

    def here(text):
        for port in PORTS:
            text = text.replace(port, str(ports[port]))
        return text

    ports = {port: free_port() for port in PORTS}
    commands = ""
    for page, *headings in parts:
        for kind, text in blocks(page, *headings):
            if kind == "shell":
                commands += INSTALLS.sub("", text)
            elif kind in ("json", "yaml", "python"):
                (folder / ("balancers.json" if kind == "json" else FILE.match(text)[1])).write_text(here(text))
    # ctl has to be told another port than its own.
    commands = f"SIMULATORS={ROOT}/roles/imds_simulator/files\n" + here(commands)
    environment = dict(os.environ, IMDS_SIMULATOR_CONTROL=f"http://127.0.0.1:{ports['8169']}", **ansible_settings(folder))
    command = ["bash", "-e", "-o", "pipefail", "-m", "-c", commands]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True) as process:
        try:
            output, _nothing = process.communicate(timeout=350)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, output
    return output


@NEEDED
def test_the_commands_handle_an_event(tmp_path):
    output = follow(tmp_path, ("behind-azure.md", "Install it", "The administrative state", "Stop it"))
    assert "completed" in output
    assert output.count('"Method": "PUT"') == 2, output
    after_last_put = output.rpartition('"Method": "PUT"')[2]
    assert "adminState" not in after_last_put and "graceful-azure-" not in after_last_put


# In make test: test_the_commands_handle_an_event for the page, test_azure_approval.py and test_health_probe.py for what these two parts show.
@pytest.mark.long
@pytest.mark.timeout(400)
@NEEDED
def test_all_commands_in_a_row_handle_three_events(tmp_path):
    parts = [("behind-azure.md", "Install it", "The administrative state"), ("approve-from-outside.md", "Try it")]
    output = follow(tmp_path, *parts, ("behind-azure.md", "A health probe", "Stop it"))
    assert len(re.findall(r"\(web1\): completed$", output, re.MULTILINE)) == 3, output
    assert "is being approved through Azure Resource Manager, since web1 cannot send it" in output
    assert '"Resource": "/subscriptions/S/' in output
    assert "the balancer notices within" in output
    assert not (tmp_path / "web1.maintenance").exists()
