# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The watcher of the role event_watcher, laid out as the role does it and started as a process of its own."""

from __future__ import annotations

import compileall
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from tests.support.checkout import ROOT
from tests.support.patience import patient, until

ROLE = ROOT / "roles" / "event_watcher"


def lay_out(folder):
    """The folder with the watcher's code, as it is on a VM."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in yaml.safe_load((ROLE / "vars/main.yml").read_text())["__event_watcher_files"]:
        shutil.copy(ROLE / "files" / name, folder)
    (folder / "VERSION").write_text("1.2.3\n")
    compileall.compile_dir(folder, quiet=1)
    return folder


# As __main__ does it, with other constants: "MODULE.NAME" and a value.
HURRIED = """
import json, runpy, sys
from importlib import import_module
folder, constants = sys.argv[1], json.loads(sys.argv[2])
sys.argv[1:3] = []
runpy.run_path(folder + "/__main__.py", run_name="watcher")["lay_out"]()
for name, value in constants.items():
    module, name = name.split(".")
    setattr(import_module("graceful_azure_watcher." + module), name, value)
from graceful_azure_watcher.cli import main
sys.exit(main(folder))
"""
HURRY = {"watch.READ_SECONDS": 0.1, "actions.TURN_SECONDS": 0.5, "decision.BUSY_PAUSE": 0.5}


class Watcher:
    """A watcher, its settings and what it logs. ``start()`` starts it; more than once is more than one process.

    ``constants`` make it quicker than it is, so that tests are; None leaves it alone.
    """

    def __init__(self, folder, imds_url, python=sys.executable, constants=None, **settings):
        self.constants = constants
        self.folder = folder
        self.python = python
        self.code = lay_out(folder / "code")
        self.log = folder / "log"
        self.log.touch()
        self.processes = []
        self.config = folder / "config.json"
        self.settings = {
            "imds_url": imds_url,
            "state_dir": str(folder / "holds"),
            "data_dir": str(folder / "data"),
            "run_dir": str(folder / "run"),
            "textfile": str(folder / "watcher.prom"),
        }
        self.set(**settings)

    def set(self, **settings):
        self.settings.update({name: str(value) if isinstance(value, Path) else value for name, value in settings.items()})
        self.config.write_text(json.dumps(self.settings))

    def secret(self, text="s3cret", mode=0o600):
        path = self.folder / "secret"
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    def command(self, *words):
        program = [str(self.code)] if self.constants is None else ["-c", HURRIED, str(self.code), json.dumps(self.constants)]
        return [self.python, "-I", *program, "--config", str(self.config), *words]

    def start(self, *words, resident=False, **popen):
        """``resident`` starts it without a word, as the unit does, with the settings where the unit has them."""
        command = self.command(*words)
        if resident:
            command = [self.python, "-I", "-c", HURRIED, str(self.code), json.dumps({"cli.CONFIG": str(self.config)})]
            popen.setdefault("env", {**os.environ, "MALLOC_ARENA_MAX": "1"})
        with self.log.open("ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **popen)
        self.processes.append(process)
        return process

    def run(self, *words, **run):
        done = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=patient(60), check=False, **run)
        with self.log.open("a") as log:
            log.write(done.stderr)
        return done

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def lines(self, what=None):
        """What was logged, as dictionaries, or those lines that begin so."""
        parsed = [parse(line) for line in self.log.read_text().splitlines() if line.startswith("what=")]
        return [line for line in parsed if what in (None, line["what"])]

    def wait_for(self, what, count=1, seconds=15):
        """The lines of that kind, once there are so many."""

        def enough():
            found = self.lines(what)
            return len(found) >= count and found

        return until(enough, seconds, lambda: f"{what} is missing in:\n{self.log.read_text()}")

    def metrics(self):
        rows = [line for line in (self.folder / "watcher.prom").read_text().splitlines() if not line.startswith("#")]
        return {name.replace("graceful_azure_watcher_", ""): float(value) for name, value in (row.rsplit(" ", 1) for row in rows)}

    def begun(self):
        """The events for which it has begun to act, as it has them on disk."""
        return [event["event_id"] for event in json.loads((self.folder / "data/state.json").read_text())["begun"]]

    def record(self):
        """The record of the fast path's hold, or None."""
        folder = Path(self.settings["state_dir"])
        found = list(folder.glob("*.json")) if folder.exists() else []
        assert len(found) < 2
        return json.loads(found[0].read_text()) if found else None


def parse(line):
    fields = re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\S*)', line)
    return {key: json.loads(value) if value.startswith('"') else value for key, value in fields}


def noting(path, *more):
    """A command that appends its input to a file, one line each time, and then does more, a line of Python."""
    program = "import sys\nwith open(sys.argv[1], 'a') as stream:\n    stream.write(sys.stdin.read() + chr(10))\n" + "\n".join(more)
    return [sys.executable, "-S", "-c", program, str(path)]


def noted(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()] if os.path.exists(path) else []
