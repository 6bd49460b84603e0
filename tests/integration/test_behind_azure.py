# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page docs/behind-azure.md, and what docs/approve-from-outside.md adds to it: their settings are accepted, and their commands, typed one after the
other, handle events."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import read_settings

from tests.support.azure import NEEDED
from tests.support.pages import NAMED, blocks, follow

PAGE, OUTSIDE = "docs/behind-azure.md", "docs/approve-from-outside.md"
PORTS = ("8443", "8171", "8172", "8169", "8181", "8182")


def inventories():
    for page in (PAGE, OUTSIDE):
        for kind, text in blocks(page):
            content = yaml.safe_load(text) if kind == "yaml" else None
            if isinstance(content, dict) and all("hosts" in group for group in content.values()):
                found = NAMED.match(text)
                yield pytest.param(content, id=found[1] if found else page)


@pytest.mark.parametrize("content", list(inventories()))
def test_settings_are_accepted(content):
    (group,) = content.values()
    hosts = {}
    for name, own in group["hosts"].items():
        variables = {**group["vars"], **(own or {})}
        text = json.dumps(variables)
        known = {**{key: value for key, value in variables.items() if isinstance(value, str)}, "inventory_hostname": name, "inventory_dir": "/tmp"}
        for key, value in known.items():
            text = text.replace(f"{{{{ {key} }}}}", value)
        hosts[name] = {"graceful_azure_duties": [], **json.loads(text)}
        for duty in hosts[name]["graceful_azure_duties"]:
            # Otherwise it takes the address.
            assert duty["type"] != "azure_load_balancer" or "address" in duty or "ansible_host" in variables
    settings, mistakes = read_settings({name: {**variables, "inventory_hostname": name} for name, variables in hosts.items()}, set(hosts))
    assert mistakes == []
    assert set(settings) == set(hosts)


# test_azure_handle_events.py has such an event.
@pytest.mark.long
@NEEDED
def test_the_commands_handle_an_event(tmp_path):
    output = follow(tmp_path, PORTS, (PAGE, "Install it", "The administrative state", "Stop it"))
    assert "completed" in output
    assert output.count('"Method": "PUT"') == 2, output
    after_last_put = output.rpartition('"Method": "PUT"')[2]
    assert "adminState" not in after_last_put and "graceful-azure-" not in after_last_put


# In make test: test_the_commands_handle_an_event for the page, test_azure_approval.py for what this part shows.
@pytest.mark.long
@pytest.mark.timeout(400)
@NEEDED
def test_all_commands_in_a_row_handle_two_events(tmp_path):
    parts = [(PAGE, "Install it", "The administrative state"), (OUTSIDE, "Try it")]
    output = follow(tmp_path, PORTS, *parts, (PAGE, "Stop it"))
    assert len(re.findall(r"\(web1\): completed$", output, re.MULTILINE)) == 2, output
    assert "is being approved through Azure Resource Manager, since web1 cannot send it" in output
    assert '"Resource": "/subscriptions/S/' in output
