# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What kills a run: at which task, or at which moment, and what comes after."""

from __future__ import annotations

import fcntl
import hashlib
import json
import random
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDER = ROOT / "build" / "chaos"

COMPANY = ("none", "none", "none", "after", "along")
"""A second controller: none, one that starts with the run after the kill, one that runs all along."""
DELAYS = (0.0, 0.0, 0.1, 0.3, 0.7)
"""Seconds between the beginning of the task and the kill: before anything is done, or in the midst of it."""


@dataclass(frozen=True)
class Case:
    """One run: the scenario, how its first controller dies, who else is there, what the metadata services do wrong."""

    scenario: str
    seed: str = "0"
    task: str | None = None
    occurrence: int = 1
    delay: float = 0.0
    at: float | None = None  # seconds after the start of the controller, instead of a task
    who: str = "all"  # dies: the controller alone, or all its processes
    company: str = "none"
    fault: dict | None = None  # see stage.py

    @property
    def kind(self):
        kill = f"task, {self.who}" if self.task else f"moment, {self.who}" if self.at is not None else ""
        return ", ".join(filter(None, ["fault" if self.fault else "", kill])) or "no kill"

    def replay(self):
        """The command that runs this very case again."""
        wanted = {key: value for key, value in asdict(self).items() if value != getattr(type(self), key, None)}
        return f"build/venv/bin/python -m tests.chaos.replay {shlex.quote(json.dumps(wanted))}"


def digest():
    """Changes with whatever a run of the playbooks consists of."""
    told = hashlib.sha256()
    for folder in ("playbooks", "plugins", "roles"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".yml", ".py") and "imds_simulator" not in path.parts:
                told.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    told.update((HERE / "scenarios.py").read_bytes())
    return told.hexdigest()[:16]


def listing(scenario, run):
    """The tasks of an undisturbed run with their last occurrence, in order, and how long it took: from ``run(Case)`` or an earlier one."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"listing-{scenario}.json"
    current = digest()
    with open(path, "a+", encoding="utf-8") as stream:
        # Tests run side by side, and one is enough.
        fcntl.flock(stream, fcntl.LOCK_EX)
        stream.seek(0)
        text = stream.read()
        known = json.loads(text) if text else {}
        if known.get("digest") != current:
            known = dict(run(Case(scenario)), digest=current)
            stream.seek(0)
            stream.truncate()
            stream.write(json.dumps(known))
    return known


def points(scenario, tasks, seed):
    """Where to kill, in the order of the dice: the first and the last occurrence of every distinct task."""
    found = [(task, occurrence) for task, last in tasks.items() for occurrence in sorted({1, last})]
    random.Random(f"{seed}/{scenario}").shuffle(found)
    return found


def case(scenario, number, seed, known, kills):
    """The case of this number: the first ``kills`` are at a task as long as there is another, the rest at random moments."""
    name = f"{seed}/{scenario}/{number}"
    dice = random.Random(name)
    who, company, delay = dice.choice(("alone", "all")), dice.choice(COMPANY), dice.choice(DELAYS)
    wanted = points(scenario, known["tasks"], seed)[:kills]
    if number < len(wanted):
        task, occurrence = wanted[number]
        return Case(scenario, name, task=task, occurrence=occurrence, delay=delay, who=who, company=company)
    return Case(scenario, name, at=round(dice.uniform(0.5, known["seconds"]), 2), who=who, company=company)
