# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What starts the playbooks, as it runs for users: ansible-runner as AWX starts it, and ansible-rulebook."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading

from tests.support.checkout import BUILD
from tests.support.processes import kill_all

PROJECT = {"handle_events.yml": "- import_playbook: graceful.azure.handle_events"}


class Rulebook:
    """A running ansible-rulebook with a rulebook of the collection, or one in its place. ``before`` are words before the command, ``environment``
    is added to this one's."""

    def __init__(self, folder, inventory, name, before=(), environment=None, rulebook=None, **variables):
        self.output = folder / f"{name}.txt"
        given = folder / f"{name}.json"
        given.write_text(json.dumps(variables))
        environment = dict(os.environ, **environment or {})
        rulebook = rulebook or f"graceful.azure.{name}"
        command = [*before, "ansible-rulebook", "--rulebook", rulebook, "--inventory", inventory, "--vars", given, "--print-events"]
        with self.output.open("wb") as stream:
            self.process = subprocess.Popen(
                list(map(str, command)), stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, env=environment, cwd=str(BUILD)
            )

    def text(self):
        return self.output.read_text(encoding="utf-8", errors="replace")

    def runs(self):
        """How many playbooks it has started."""
        return self.text().count("PLAY [Handle scheduled events]")

    def close(self):
        kill_all(self.process.pid)
        self.process.wait()


class Job:
    """One job as AWX starts it: ansible-runner, with a folder that has project, inventory and variables. ``playbook`` is the name of the
    playbook, and the texts of the project's files by their names."""

    def __init__(self, folder, inventory, environment=None, playbook=("handle_events.yml", PROJECT), **variables):
        for name in ("project", "inventory", "env"):
            (folder / name).mkdir(parents=True)
        name, project = playbook
        for path, text in project.items():
            (folder / "project" / path).write_text(text + "\n")
        shutil.copy(inventory, folder / "inventory" / "hosts.json")
        (folder / "env" / "extravars").write_text(json.dumps(variables))
        (folder / "env" / "envvars").write_text(json.dumps(environment or {}))
        self.events = folder / "artifacts" / "job" / "job_events"
        command = ["ansible-runner", "run", str(folder), "--playbook", name, "--ident", "job"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def said(self):
        """What AWX would have shown by now."""
        texts = []
        for path in self.events.glob("*.json"):
            try:
                texts.append(json.loads(path.read_text(encoding="utf-8")).get("stdout", ""))
            except (ValueError, FileNotFoundError):
                continue  # it is being written
        return "\n".join(texts)

    def artifacts(self):
        """What AWX keeps of set_stats."""
        found = [json.loads(path.read_text(encoding="utf-8")) for path in self.events.glob("*.json")]
        (stats,) = [event for event in found if event["event"] == "playbook_on_stats"]
        return stats["event_data"]["artifact_data"]

    def on_end(self, tell):
        """Calls C(tell) with all that the job said and its status, once it has ended."""

        def await_it():
            output, _nothing = self.process.communicate()
            tell(output, "successful" if self.process.returncode == 0 else "failed")

        threading.Thread(target=await_it, daemon=True).start()

    def kill(self):
        """As AWX cancels it: everything in its container, at once."""
        kill_all(self.process.pid)
        self.process.communicate()
