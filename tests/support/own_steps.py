# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts with a drain step of their users' own, each as docs/your-own-drain-step.md has it."""

from __future__ import annotations

import sys

import yaml

from tests.support.inventory import LOCAL, state_dir
from tests.support.pages import files_of
from tests.support.simulator import Simulator
from tests.support.site import Site

PAGE = "your-own-drain-step.md"


def files_of_example(example, here=None):
    """The files of one example of the page. C(here): the texts of the page that are other ones here, such as paths."""
    found = {}
    for name, text in files_of(PAGE).items():
        folder, slash, inner = name.partition("/")
        if slash and folder == example:
            for there, other in (here or {}).items():
                text = text.replace(there, other)
            found[inner] = text
    return found


class OwnStep(Site):
    """A site whose hosts are those of the example's inventory. C(of_hosts): variables of a host, besides those of the page, by its name."""

    def __init__(self, folder, example, here=None, of_hosts=None):
        self.folder, self.python, self.program = folder, sys.executable, "ansible-playbook"
        self.listeners, self.haproxy, self.processes = {}, None, []
        for name, text in files_of_example(example, here).items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        self.inventory = folder / "inventory.yml"
        inventory = yaml.safe_load(self.inventory.read_text())
        self.names = list(inventory["web"]["hosts"])
        self.simulator = Simulator(self.names)
        for group in inventory.values():
            for name, own in group["hosts"].items():
                own.clear()
                own.update(LOCAL, **state_dir(folder, name), **(of_hosts or {}).get(name, {}))
                if name in self.names:
                    own["graceful_azure_imds_url"] = self.simulator.urls[name]
        self.inventory.write_text(yaml.safe_dump(inventory, sort_keys=False))

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                self.kill(process)
        self.simulator.close()
