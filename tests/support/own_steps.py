# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts with a duty of their users' own, each as docs/examples has it."""

from __future__ import annotations

import yaml

from tests.support import pages
from tests.support.inventory import LOCAL, state_dir
from tests.support.playbook import Playbook
from tests.support.site import Playbooks


def files_of_example(example, here=None):
    """The files of one example. C(here): the texts in them that are other ones here, such as paths."""
    found = pages.example(example)
    for name in found:
        for there, other in (here or {}).items():
            found[name] = found[name].replace(there, other)
    return found


def write_example(folder, example, here=None):
    for name, text in files_of_example(example, here).items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def write_switch(folder, switch):
    """Task files that make a file on web1 and take it away again: their paths as a duty has them."""
    paths = {}
    for way, state in (("out", "touch"), ("back", "absent")):
        path = folder / f"{way}.yml"
        path.write_text(
            f"- ansible.builtin.file: {{path: '{switch}', state: {state}}}\n  when: inventory_hostname == 'web1'\n"
            "- ansible.builtin.set_fact: {graceful_azure_done: true}\n"
        )
        paths[way] = str(path)
    return paths


class OwnFiles:
    """The task files of an example, run on web1 one at a time, as the roles run them. C(machines): more variables of web1, and other machines."""

    def __init__(self, folder, example, here=None, **machines):
        write_example(folder, example, here)
        inventory = yaml.safe_load((folder / "inventory.yml").read_text())
        variables = {name: value for name, value in inventory["web"]["vars"].items() if name != "graceful_azure_duties"}
        hosts = {name: {"ansible_connection": "local", **own} for name, own in {"web1": {}, **machines}.items()}
        self.folder = folder
        self._playbook = Playbook(folder, hosts, **variables)

    def run(self, *ways, check=False):
        """Whether each of these files, one after the other, says that it is done."""
        tasks = []
        for number, way in enumerate(ways):
            tasks.append({"name": f"begin_{number}", "ansible.builtin.set_fact": {"graceful_azure_done": False}})
            tasks.append({"name": f"files_{number}", "ansible.builtin.include_tasks": f"{self.folder}/tasks/{way}.yml"})
            tasks.append({"name": f"said_{number}", "ansible.builtin.debug": {"msg": "{{ graceful_azure_done }}"}})
        started = self._playbook.start(tasks, hosts="web1", arguments=["--check"] if check else [])
        done = self._playbook.finish(started, seconds=300)
        assert done.status == 0 and "fatal:" not in done.output, done.output
        return [done[f"said_{number}"]["msg"] is True for number in range(len(ways))]


class OwnStep(Playbooks):
    """A site whose hosts are those of the example's inventory."""

    def __init__(self, folder, example, here=None):
        write_example(folder, example, here)
        inventory = yaml.safe_load((folder / "inventory.yml").read_text())
        super().__init__(folder, inventory["web"]["hosts"], "inventory.yml")
        for name, own in inventory["web"]["hosts"].items():
            own.clear()
            own.update(LOCAL, graceful_azure_imds_url=self.simulator.urls[name], **state_dir(folder, name))
        self.inventory.write_text(yaml.safe_dump(inventory, sort_keys=False))
