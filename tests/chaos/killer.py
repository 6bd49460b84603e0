# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What kills a run: at which task, or at which moment, and what comes after."""

from __future__ import annotations

import fcntl
import json
import random
import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tests.chaos.points import POINTS, REQUESTS
from tests.chaos.points import WINDOWS as WINDOWS_POINTS
from tests.chaos.scenarios import SCENARIOS, VARIANTS
from tests.support.checkout import BUILD

HERE = Path(__file__).resolve().parent
FOLDER = BUILD / "chaos"

COMPANY = ("none", "none", "none", "after", "along")
"""A second controller: none, one that starts with the run after the kill, one that runs all along."""
DELAYS = (0.0, 0.0, 0.1, 0.3, 0.7)
"""Seconds between the beginning of the task and the kill: before anything is done, or in the midst of it."""
TURN = "Act on hosts and balancers and look at them"
"""The task in which most steps are taken, a module after the other, each some 0.3 s."""
DELAYS_OF_TURN = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 1.2)

EVERY_POINT = "reboot"
"""The one scenario with a kill at each point."""
KILLS = {name: 50 if name == EVERY_POINT else 10 if scenario.own_tasks else 7 for name, scenario in SCENARIOS.items()}
"""Kills at a task in each scenario; where it has fewer points, the rest are at random moments as well."""
MOMENTS = {name: 0 if name in VARIANTS else 10 for name in SCENARIOS}
"""Kills at random moments in each scenario."""
WINDOWS_KILLS = 26
"""Kills at a task of a run with Windows hosts."""
FILE = ("Begin with what is not done", "Run it", "Do what comes")
"""How the tasks begin that run a task file of the user's own, with those of the file."""
PASS = ("Plan", *FILE)
"""How the tasks of a pass begin. Before and after the passes nothing is done that a kill could interrupt."""
TRACE = "trace.jsonl"
"""The file with the tasks of the first controller, in its folder."""
STRIDE = 3
"""So many points further does the share of the next scenario begin."""


@dataclass(frozen=True)
class Case:
    """One run: the scenario, how its first controller dies, who else is there, what the metadata services do wrong."""

    scenario: str
    seed: str = "0"
    task: str | None = None
    occurrence: int = 1
    delay: float = 0.0
    at: float | None = None  # seconds after the start of the controller, instead of a task
    once_approved: bool = False  # as soon as a metadata service has taken an approval, instead of both
    point: str | None = None  # a name in points.py, instead of all three
    who: str = "all"  # dies: the controller alone, all its processes, at a point nothing but the helper that is there, or the connections to helpers
    company: str = "none"
    fault: dict | None = None  # see faults.py

    @property
    def kind(self):
        moment = f"moment, {self.who}" if self.at is not None or self.once_approved else ""
        kill = f"task, {self.who}" if self.task else f"point, {self.who}" if self.point else moment
        return ", ".join(filter(None, ["fault" if self.fault else "", kill])) or "no kill"

    def replay(self):
        """The command that runs this very case again."""
        wanted = {key: value for key, value in asdict(self).items() if value != getattr(type(self), key, None)}
        return f"build/venv/bin/python -m tests.chaos.replay {shlex.quote(json.dumps(wanted))}"


def environment(folder, case=None):
    """What has the controller write down its tasks, and die at that of the case."""
    kill = {"task": case.task, "occurrence": case.occurrence, "delay": case.delay, "who": case.who} if case and case.task else None
    return {
        "ANSIBLE_CALLBACK_PLUGINS": str(HERE / "plugins" / "callback"),
        "ANSIBLE_CALLBACKS_ENABLED": "chaos_killer",
        "CHAOS_TRACE": str(folder / TRACE),
        "CHAOS_KILL": json.dumps(kill),
    }


def undisturbed(scenario, seed, suite, play):
    """The record of the scenario's run without a kill: from ``play(Case)``, or the one of this suite that somebody played before."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / f"undisturbed-{scenario}.json", "a+", encoding="utf-8") as stream:
        # Tests run side by side, and one is enough.
        fcntl.flock(stream, fcntl.LOCK_EX)
        stream.seek(0)
        text = stream.read()
        known = json.loads(text) if text else {}
        if known.get("suite") != suite:
            known = dict(play(Case(scenario, f"{seed}/{scenario}/undisturbed")), suite=suite)
            stream.truncate(0)
            stream.write(json.dumps(known))
    return known


def places(tasks):
    """The first and the last occurrence of each task, and the turns but the first."""
    found = [(task, occurrence) for task, last in tasks.items() if task != TURN for occurrence in sorted({1, last})]
    return found, [(TURN, occurrence) for occurrence in range(2, tasks.get(TURN, 1) + 1)]


def filled(found, turns, kills):
    """These places, and the turns again and again."""
    return found + [turns[number % len(turns)] for number in range(kills - len(found) if turns else 0)]


def points(scenario, tasks, seed):
    """Where to kill, as (task, occurrence): the first and the last occurrence of every task of one scenario, and each turn but the first, which only
    looks, again and again; of the others a share.

    A share has what runs a task file of the user's own, and so many of the other points of a pass, beginning where the share of the scenario before ends,
    that together they have them all.
    """
    found, turns = places(tasks)
    if scenario == EVERY_POINT:
        assert len(found) + len(turns) <= KILLS[scenario], "there are more points than cases"
        return filled(found, turns, KILLS[scenario])
    turn = [name for name in SCENARIOS if name != EVERY_POINT].index(scenario)
    needed = [point for point in found if point[0].startswith(FILE)]
    assert len(needed) <= KILLS[scenario], "there are more points than cases"
    others = turns + [point for point in found if point[0].startswith(PASS) and point not in needed]
    begin = (random.Random(seed).randrange(100) + STRIDE * turn) % len(others)
    return (needed + others[begin:] + others[:begin])[: KILLS[scenario]]


def case(scenario, number, seed, record):
    """The case of this number: at a task of the undisturbed run as long as there is another, then at a random moment."""
    name = f"{seed}/{scenario}/{number}"
    dice = random.Random(name)
    who, company, delay = dice.choice(("alone", "all")), dice.choice(COMPANY), dice.choice(DELAYS)
    wanted = points(scenario, record["trace"], seed)
    if number < len(wanted):
        task, occurrence = wanted[number]
        delay = dice.choice(DELAYS_OF_TURN) if task == TURN else delay
        return Case(scenario, name, task=task, occurrence=occurrence, delay=delay, who=who, company=company)
    # No run takes as long as another.
    longest = 0.9 * (record["controllers"][0]["end"] - record["controllers"][0]["begin"])
    return Case(scenario, name, at=round(dice.uniform(0.5, longest), 2), who=who, company=company)


def behind(front, seed):
    """The cases of another provider, by name: its scenarios without a kill, a kill at each of its points, and kills at a task and after the approval."""
    reboot = f"{front}_reboot"

    def named(name, scenario=reboot, **more):
        return name, Case(scenario, f"{seed}/{front}/{name}", **more)

    yield named("undisturbed")
    points = list(POINTS[front])
    for number, point in enumerate(points):
        yield named(point, point=point, company="after" if number % 3 == 1 else "none")
    yield named("in a turn", task=TURN, occurrence=3, delay=0.4, who="alone")
    yield named("once approved", once_approved=True, company="along")
    yield named("beside another", scenario=f"{front}_overlapping", company="along")
    middle = [point for point in points if "second record" in point][0]
    yield named("cancelled", scenario=f"{front}_cancelled", point=middle)
    yield named("no notice", scenario=f"{front}_no_notice", point=middle, who="alone")


def of_helpers(seed):
    """The cases in which the helper of a machine is killed or the connections to helpers are cut, and the controller goes on, by name: at each request of a
    Reboot, and between a record and a change behind the other providers. Azure's API is asked on the controller, so there is no helper."""
    for who in ("helper", "connection"):
        for request in REQUESTS:
            yield f"haproxy {who} {request}", Case(EVERY_POINT, f"{seed}/{who}/{request}", point=request, who=who)
    for front in [front for front in POINTS if front != "azure"]:
        for point in [point for point in POINTS[front] if "record" in point]:
            yield f"{front} {point}", Case(f"{front}_reboot", f"{seed}/helper/{front}/{point}", point=point, who="helper")


def of_windows(seed):
    """The cases of a group with Windows hosts, by name: its scenarios without a kill, a kill at each of its points, and kills after the approval."""

    def named(name, scenario, **more):
        return name, Case(f"windows_{scenario}", f"{seed}/windows/{name}", **more)

    for scenario in ("reboot", "freeze", "overlapping"):
        yield named(f"undisturbed {scenario}", scenario)
    for number, point in enumerate(WINDOWS_POINTS):
        yield named(point, "freeze", point=point, who=("all", "alone")[number % 2], company="after" if number % 5 == 1 else "none")
    yield named("once approved", "reboot", once_approved=True, company="along")
    yield named("beside another", "overlapping", company="along")
    yield named("cancelled", "cancelled", task=TURN, occurrence=4, delay=0.4)
    yield named("no notice", "no_notice", task=TURN, occurrence=3, delay=0.7, who="alone")


def at_a_task(scenario, number, kills, seed, record, who=("alone", "all")):
    """The kill of this number: at the first and the last occurrence of each task of the undisturbed run, and in each turn, again and again."""
    found, turns = places(record["trace"])
    assert len(found) <= kills, "there are more points than cases"
    task, occurrence = filled(found, turns, kills)[number]
    name = f"{seed}/{scenario}_task/{number}"
    dice = random.Random(name)
    # A turn of a Windows host has many short calls, and that of a member of a cluster takes long.
    delay = dice.choice(DELAYS) if task != TURN else round(dice.uniform(0.1, 4.0), 2)
    return Case(scenario, name, task=task, occurrence=occurrence, delay=delay, who=dice.choice(who))


def again(case, trace):
    """For a run that was over before the kill: the same one, killed earlier, at once, and with nobody along who did the step first.

    C(trace): how often each task came in that run. The one that was not disturbed may have taken twice as many passes.
    """
    company = "after" if case.company == "along" else case.company
    if case.point in REQUESTS:
        requests = list(REQUESTS)
        return replace(case, seed=f"{case.seed}/again", company=company, point=requests[requests.index(case.point) // 2])
    earlier = {"at": round(0.6 * case.at, 2)} if case.task is None else {"occurrence": max(1, min(case.occurrence, trace.get(case.task, 1)) // 2)}
    return replace(case, seed=f"{case.seed}/again", delay=0.0, company=company, **earlier)
