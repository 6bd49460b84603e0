# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The examples in the roles' READMEs, run as they are printed."""

from __future__ import annotations

import re

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import read_role

from tests.support.inventory import changed
from tests.support.pages import blocks

KNOWN = {"web1", "edge1", "edge2", "inner1", "lb1"}
"""The hosts that the settings in the READMEs name."""


def examples(role):
    """The blocks of YAML in a README: plays, task files by their names, and settings."""
    found = [text for kind, text in blocks(f"roles/{role}/README.md") if kind == "yaml"]
    plays = [block for block in found if block.startswith("- ") and "\n  hosts: " in block]
    files = {block.split("\n", 1)[0][2:]: block for block in found if block.startswith("# ")}
    settings = [yaml.safe_load(block) for block in found if not block.startswith(("- ", "# "))]
    assert len(plays) + len(files) + len(settings) == len(found) and plays
    return plays, files, settings


@pytest.mark.parametrize("role", ["load_balancer", "drain_host", "restore_service", "approve_event"])
def test_settings_of_examples_are_accepted(tmp_path, role):
    for settings in examples(role)[2]:
        variables = {"graceful_azure_duties": [], **settings, **({"load_balancer_state": "out"} if role == "load_balancer" else {})}
        for name in re.findall(r"tasks/\w+\.yml", str(variables)):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("- name: Nothing\n  ansible.builtin.meta: noop\n")
        assert read_role(role, "web1", variables, KNOWN, str(tmp_path), DataLoader())[1] == []
        # What is checked here is not passed over.
        assert read_role(role, "web1", {**variables, "graceful_azure_duties": [{"name": "one"}]}, KNOWN, str(tmp_path), DataLoader())[1] != []


@pytest.mark.long
def test_examples(bed):
    balancer_plays, files, _settings = examples("load_balancer")
    (custom,) = [play for play in balancer_plays if "traffic: true" in play]
    plays = [play for play in balancer_plays if play != custom] + examples("drain_host")[0] + examples("restore_service")[0] + examples("approve_event")[0]
    for host in ("web1", "web2"):
        bed.event(host)
    # The web servers of the bed are not where those of the example are.
    at = {"web1": bed.webs["web1"].port, "web2": bed.webs["web2"].port}
    url = "{{ 'http://localhost:%d/' if inventory_hostname == 'web1' else 'http://localhost:%d/' }}" % (at["web1"], at["web2"])
    ports = "\"{{ [%d] if inventory_hostname == 'web1' else [%d] }}\"" % (at["web1"], at["web2"])
    text = "\n".join(plays).replace("http://localhost:8080/", f'"{url}"').replace("ports: [8080]", f"ports: {ports}")
    text = text.replace("hosts: [lb1]}", "hosts: [lb1], socket: $HAPROXY_SOCKET}")
    text = text.replace("graceful_azure_resource_name: web_1", "graceful_azure_resource_name: web1")
    # The examples say themselves what the hosts hand over.
    with changed(bed.inventory) as inventory:
        for variables in inventory["all"]["hosts"].values():
            for said in ("graceful_azure_duties", "graceful_azure_ports", "graceful_azure_health_url"):
                variables.pop(said, None)

    # The last example is for an event of both, which would have the one before it refuse.
    last = text.rindex("- name: Let an event of two hosts begin")
    run = bed.play(text[:last])
    assert run.returncode == 0, run.stdout
    assert [bed.admin("lb1", host) for host in at] == [0, 0]
    assert len(bed.posted()) == 2

    (bed.folder / "tasks").mkdir()
    for name, text_of_file in files.items():
        (bed.folder / name).write_text(text_of_file.replace("https://balancer.example.com/api/servers", f"http://127.0.0.1:{at['web1']}"))
    (bed.folder / "tasks" / "back.yml").write_text(files["tasks/out.yml"])
    together = bed.event("web1", "web2")
    run = bed.play(text[last:] + "\n" + custom)
    assert run.returncode == 0, run.stdout
    assert together in bed.posted()
    assert all(together in bed.records(host)["load_balancer_step_tasks"] for host in at)
