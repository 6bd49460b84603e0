# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Booted guests of tests/bed, for tests: what they are told and what they say; and Ansible on them."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import re
import subprocess
import sys
import unittest

from tests.bed import kernel
from tests.support.checkout import BUILD, ROOT, must_pass
from tests.support.patience import patient
from tests.support.simulator import Control
from tests.support.watcher import parse

ENTRY = "graceful.azure.event_watcher"
COLLECTION = "/root/.ansible/collections/ansible_collections/graceful/azure"


class Guests:
    """A bed of booted guests with their metadata service. What is said of one is said of web1, unless another is named."""

    def __init__(self, folder, web=1, balancers=0, packages=(), front=None):
        """What stands in front is one of tests/bed/front.py; it has the balancers that it needs."""
        self.folder = folder
        self.options = ["--folder", str(folder), "--web", str(web), "--packages", " ".join(packages)]
        self.options += ["--balancers", str(balancers)] if front is None else ["--front", front]

    def bed(self, *words):
        return must_pass(sys.executable, "tests/bed/bed.py", *self.options, *words, timeout=400)

    @property
    def namespace(self):
        """Of the network that they are in."""
        return f"bed{json.loads((self.folder / 'bed.json').read_text())['number']}"

    @property
    def gateway(self):
        """The address at which this machine is reached from there."""
        return f"198.18.{self.namespace[3:]}.1"

    def inventory(self):
        return json.loads((self.folder / "inventory.yml").read_text())["all"]

    def address(self, name):
        (address,) = [group["hosts"][name]["ansible_host"] for group in self.inventory()["children"].values() if name in group["hosts"]]
        return address

    def reach(self, name):
        """The words of a command that reaches a guest."""
        common = self.inventory()["vars"]
        words = [common["ansible_ssh_executable"], "-i", common["ansible_ssh_private_key_file"], *common["ansible_ssh_common_args"].split()]
        return [*words, "-o", "ConnectTimeout=2", f"root@{self.address(name)}"]

    def ssh(self, command, given=None, seconds=60, name="web1"):
        return subprocess.run(
            [*self.reach(name), command],
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=patient(seconds),
            check=False,
        )

    def says(self, command, given=None, seconds=60, name="web1"):
        done = self.ssh(command, given, seconds, name)
        assert done.returncode == 0, done.stdout.decode()
        return done.stdout.decode().strip()

    def unpack(self, what, folder):
        """Sends what these words tell tar to pack."""
        with subprocess.Popen(["tar", "--create", *what], stdout=subprocess.PIPE) as archive:
            self.says(f"mkdir -p {folder} && tar --extract --no-same-owner --directory {folder}", archive.stdout.read(), 120)

    def play(self, variables, *words, **play):
        """Runs a play on web1, of C(roles) or C(tasks). The number of changes, and what was said."""
        path = self.folder / "play.yml"
        path.write_text(json.dumps([{"hosts": "web1", "gather_facts": False, **play}]))
        said = must_pass("ansible-playbook", "-i", str(self.folder / "inventory.yml"), str(path), "-e", json.dumps(variables), *words, timeout=200)
        return int(re.search(r"changed=([0-9]+)", said).group(1)), said

    def role(self, *words, **variables):
        """Runs the role of the watcher."""
        return self.play({f"event_watcher_{name}": value for name, value in variables.items()}, *words, roles=[ENTRY])

    def event(self, **fields):
        fields = {"EventType": "Reboot", "Resources": ["www_1"], "NoticeSeconds": None, "ImpactSeconds": None, "SettleSeconds": None, **fields}
        return json.loads(self.bed("event", json.dumps(fields)))["EventId"]

    def ask_simulator(self, path, body=None):
        """Its control address is in the guests' network."""
        control = Control(json.loads((self.folder / "bed.json").read_text())["control"])

        def ask():
            kernel.enter_network(self.namespace)
            return control.ask("GET" if body is None else "POST", path, body)

        # A thread that has moved stays there, and ends.
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            return thread.submit(ask).result()

    def lines(self, what):
        """What the watcher has logged, each with the time of the journal."""
        rows = self.says("journalctl --output=short-unix --unit graceful-azure-watcher").splitlines()
        return [{**line, "time": float(row.split()[0])} for row, line in ((row, parse(row)) for row in rows) if line.get("what") == what]

    def shows(self, name):
        return self.says(f"systemctl show --value --property {name} graceful-azure-watcher")


@contextlib.contextmanager
def booted(folder, web=1, balancers=0, packages=(), front=None):
    """Guests that are up, for as long as it lasts."""
    if os.geteuid() != 0:
        raise unittest.SkipTest("real hosts are booted by root alone: sudo make test")
    guests = Guests(folder, web, balancers, packages, front)
    try:
        guests.bed("up")
        yield guests
    finally:
        guests.bed("down")


def install_ansible(guest):
    """What the page installs from the network, which a guest has not: the same packages, and this checkout."""
    packages = BUILD / "guest-ansible"
    if not (packages / "bin").exists():
        words = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(packages)]
        must_pass(*words, "--python-version", "3.11", "--only-binary=:all:", "ansible-core==2.19.*", "requests", "jmespath", timeout=300)
    guest.unpack(["--directory", str(packages), "--exclude=__pycache__", "."], "/opt/graceful-azure/packages")
    guest.unpack(["--directory", str(ROOT), "--exclude=__pycache__", "galaxy.yml", "plugins", "roles", "playbooks", "meta"], COLLECTION)
    program = '#!/bin/sh\nPYTHONPATH=/opt/graceful-azure/packages exec /usr/bin/python3 /opt/graceful-azure/packages/bin/ansible-playbook "$@"\n'
    guest.says("mkdir -p /opt/graceful-azure/bin /etc/graceful-azure && cat > /opt/graceful-azure/bin/ansible-playbook", program.encode())
    guest.says("chmod +x /opt/graceful-azure/bin/ansible-playbook")
