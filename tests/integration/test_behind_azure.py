# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page docs/behind-azure.md: its settings are accepted, and its commands, typed one after the other, handle an event."""

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

PAGE = (ROOT / "docs" / "behind-azure.md").read_text()
PORTS = ("8443", "8171", "8172", "8169", "8181", "8182")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("text", blocks("yaml"), ids=lambda text: text.split("\n", 1)[0])
def test_settings_are_accepted(text):
    (group,) = yaml.safe_load(text).values()
    hosts = {name: {**group["vars"], "inventory_hostname": name, **(own or {})} for name, own in group["hosts"].items()}
    for name, variables in hosts.items():
        for key in ("graceful_azure_state_dir", "load_balancer_azure_address", "load_balancer_azure_ca_file"):
            if key in variables:
                variables[key] = variables[key].replace("{{ inventory_hostname }}", name).replace("{{ inventory_dir }}", "/tmp")
    assert read_settings(hosts, set(hosts))[1] == []


@NEEDED
def test_the_commands_handle_an_event(tmp_path):
    def here(text):
        for port in PORTS:
            text = text.replace(port, str(ports[port]))
        return text

    ports = {port: free_port() for port in PORTS}
    (tmp_path / "balancers.json").write_text(blocks("json")[0])
    (tmp_path / "inventory.yml").write_text(here(next(text for text in blocks("yaml") if text.startswith("# inventory.yml"))))
    commands = "".join(block for block in blocks("shell"))
    # The folder of an installed collection is this checkout's, and ctl has to be told another port.
    commands = re.sub(r"^SIMULATORS=.*$", f"SIMULATORS={ROOT}/roles/imds_simulator/files", commands, flags=re.MULTILINE)
    commands = here(commands)
    environment = dict(os.environ, IMDS_SIMULATOR_CONTROL=f"http://127.0.0.1:{ports['8169']}", **ansible_settings(tmp_path))
    command = ["bash", "-e", "-o", "pipefail", "-m", "-c", commands]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            output, _nothing = process.communicate(timeout=170)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, output
    assert "completed" in output
    assert output.count('"Method": "PUT"') == 2, output
    after_last_put = output.rpartition('"Method": "PUT"')[2]
    assert "adminState" not in after_last_put and "graceful-azure-" not in after_last_put
