# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real ansible-playbook: its settings and surroundings, what a run tells, and small playbooks of tasks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.support.checkout import BUILD, must_pass
from tests.support.patience import patient


def ansible_settings(folder):
    """What every run of Ansible here is told by its environment: plain text, few round trips, temporary files below the folder."""
    return {
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),
        "ANSIBLE_REMOTE_TEMP": str(folder / "tmp"),
    }


CONFIGURATION = """\
[defaults]
home = {build}/ansible-home
collections_path = {build}/collections
local_tmp = {folder}/ansible
remote_tmp = {folder}/ansible
nocolor = true
display_ok_hosts = false
display_skipped_hosts = false

[connection]
pipelining = true
"""


def write_configuration(folder):
    """Ansible's configuration: the checkout as a collection, and nothing in the user's home folder."""
    path = folder / "ansible.cfg"
    path.write_text(CONFIGURATION.format(build=BUILD, folder=folder), encoding="utf-8")
    return path


def surroundings(configuration, temporary, **more):
    """The environment of ansible-playbook: no settings but those of its configuration, and ``more``.

    The folder for temporary files needs a short path: Ansible puts a Unix socket there.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    # What multiprocessing leaves behind in an interrupted run goes with the folder.
    environment.update(ANSIBLE_CONFIG=str(configuration), LC_ALL="C.UTF-8", TMPDIR=str(temporary), **more)
    return environment


def program():
    """The ansible-playbook of the Python that runs this."""
    return Path(sys.executable).with_name("ansible-playbook")


def run_facts(output):
    """What a run's set_stats carried, by its output: the events and what is said about the run; empty where there was none."""
    told = [line.strip()[len("RUN: ") :] for line in output.split("\n") if line.strip().startswith("RUN: ")]
    return json.loads(told[-1]) if told else {}


def this_machine(programs=None):
    """The words that have Ansible act on this machine alone, as the host "here". C(programs): the folder of its Python, by default of this one."""
    python = (programs or Path(sys.executable).parent) / "python"
    return ("-i", "here,", "-c", "local", "-e", f"ansible_python_interpreter={python}")


def play_here(folder, tasks, *words, programs=None, timeout=280, **play):
    """What is printed where these tasks are run on this machine, which must go well. C(programs): the folder of another ansible-playbook."""
    path = folder / "play.yml"
    path.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks, **play}]))
    command = programs / "ansible-playbook" if programs else program()
    return must_pass(command, *this_machine(programs), str(path), *words, timeout=timeout)


class Done:
    """A playbook that ended. ``results`` holds what its tasks registered, by the name of the task."""

    def __init__(self, status, output, results, seconds):
        self.status = status
        self.output = output
        self.results = results
        self.seconds = seconds

    def __getitem__(self, name):
        return self.results[name]


class Playbook:
    """Runs lists of tasks against an inventory, all below one folder.

    A task is a dictionary of its keywords with a one-word ``name``. It is registered, and if it fails, the next is run.
    """

    def __init__(self, folder, inventory=None, **variables):
        self.folder = folder
        self.inventory = folder / "inventory.json"
        hosts = inventory or {"here": {"ansible_connection": "local"}}
        common = dict({"ansible_python_interpreter": sys.executable}, **variables)
        self.inventory.write_text(json.dumps({"all": {"hosts": hosts, "vars": common}}))

    def start(self, tasks, arguments=(), hosts="all", play=None, environment=None, command="ansible-playbook"):
        results = self.folder / "results"
        results.mkdir(exist_ok=True)
        for old in results.iterdir():
            old.unlink()
        names = [task["name"] for task in tasks]
        told = ", ".join(f"'{name}': {name} | default('none')" for name in names)
        wanted = [dict({"register": task["name"], "ignore_errors": True}, **task) for task in tasks]
        wanted.append(
            {
                "name": "Write down what was registered",
                "ansible.builtin.copy": {"content": "{{ {" + told + "} | to_json }}", "dest": f"{results}/{{{{ inventory_hostname }}}}", "mode": "0600"},
                "connection": "local",
                "vars": {"ansible_connection": "local"},
                "check_mode": False,
                "delegate_to": "{{ omit }}",
            }
        )
        path = self.folder / "play.json"
        path.write_text(json.dumps([dict({"hosts": hosts, "gather_facts": False, "tasks": wanted}, **(play or {}))]))
        return subprocess.Popen(
            [command, "-i", str(self.inventory), str(path), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=str(self.folder),
            env={**os.environ, **ansible_settings(self.folder), **(environment or {})},
        )

    def finish(self, process, seconds=100):
        start = time.monotonic()
        try:
            output, _nothing = process.communicate(timeout=patient(seconds))
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        results = {path.name: json.loads(path.read_text()) for path in (self.folder / "results").iterdir()}
        if len(results) == 1:
            (results,) = results.values()
        return Done(process.returncode, output, results, time.monotonic() - start)

    def run(self, tasks, **options):
        return self.finish(self.start(tasks, **options))
