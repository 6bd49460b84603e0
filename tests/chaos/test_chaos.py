# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""handle_events killed at any moment, met by others like it and by bad services; an observer judges each run.

Every case prints its seed and the command that plays it again. CHAOS_SEED (1) chooses other points, moments and company.
The whole matrix is marked long: some 400 runs, for two processes on two cores:
    build/venv/bin/python -m pytest -m long --numprocesses 2 --dist worksteal tests/chaos
"""

from __future__ import annotations

import json
import os
import random
import time

import pytest

from tests.chaos import killer, stage
from tests.chaos.killer import Case
from tests.chaos.observer import judge
from tests.chaos.scenarios import SCENARIOS

# One run may last as long as the stage lets it, and may need an undisturbed one before it to learn the tasks.
pytestmark = pytest.mark.timeout(2 * stage.CASE_LIMIT + 120)

SEED = os.environ.get("CHAOS_SEED", "1")
# One scenario with a kill at each point; of the others, each seed takes some points.
EVERY_POINT = "reboot"
KILLS = {scenario: 80 if scenario == EVERY_POINT else 5 for scenario in SCENARIOS}
MOMENTS = 10

STATUSES = (400, 404, 410, 429, 500, 503)
FAULTS = {
    **{f"status_{status}": {"Status": status, "Body": "{}"} for status in STATUSES},
    "delay": {"Delay": 3.0},
    "long_delay": {"Delay": 12.0},
    "drop": {"Drop": True},
    # An approval that is carried out, and nobody hears of it.
    "drop_answer": {"DropAnswer": True},
    # The length that is told is not the body's: the connection ends before it.
    "cut": {"Status": 200, "Body": '{"DocumentIncarnation": 1, "Ev', "Headers": {"Content-Length": "400"}},
    "html": {"Status": 200, "Body": "<html><body>Sign in to the network</body></html>"},
    "no_list": {"Status": 200, "Body": '{"DocumentIncarnation": 2, "Events": {"EventId": "x"}}'},
    "null": {"Status": 200, "Body": "null"},
}


def run(case, record_property):
    """Plays the case; what the observer finds is the test's failure."""
    print(f"seed {case.seed}; to play it again: {case.replay()}")
    began = time.monotonic()
    record = stage.play(case)
    violations = judge(record)
    told = {
        "scenario": case.scenario,
        "kind": case.kind,
        "seed": case.seed,
        "killed": record["reached"],
        "seconds": time.monotonic() - began,
        "violations": violations,
        "replay": case.replay(),
    }
    record_property("chaos", told)
    if violations:
        kept = killer.FOLDER / "violated"
        kept.mkdir(parents=True, exist_ok=True)
        path = kept / (case.seed.replace("/", "-") + ".json")
        path.write_text(json.dumps(record), encoding="utf-8")
        outputs = "\n".join(f"--- {controller['name']}\n{controller['output'][-3000:]}" for controller in record["controllers"])
        pytest.fail("\n".join([*violations, f"seed {case.seed}; again: {case.replay()}", f"the record: {path}", outputs]), pytrace=False)
    # A fault that no request was left for proves nothing.
    assert record["fault_begun"] or not case.fault
    return record


def chosen(scenario, number):
    known = killer.listing(scenario, stage.list_tasks)
    return killer.case(scenario, number, SEED, known, KILLS[scenario]), known


# The sample of the normal suite


def test_killed_before_the_approval_is_known_while_a_service_errs(record_property):
    """Both in one run, since a run takes half a minute."""
    task = "graceful.azure.approve_event : Give the result"
    fault = {"vm": "web2", "method": "GET", "nth": 3, "times": 4, "fault": FAULTS["status_500"]}
    record = run(Case("reboot", "sample", task=task, who="alone", company="after", fault=fault), record_property)
    assert record["reached"]
    assert [request["Status"] for request in record["requests"] if request["Vm"] == "web2"].count(500) == 4


# Everything


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_undisturbed(scenario, record_property):
    run(Case(scenario, f"{SEED}/{scenario}/undisturbed"), record_property)


@pytest.mark.long
@pytest.mark.parametrize(("scenario", "number"), [(scenario, number) for scenario, kills in KILLS.items() for number in range(kills + MOMENTS)])
def test_killed(scenario, number, record_property):
    case, known = chosen(scenario, number)
    if scenario == EVERY_POINT:
        count = len(killer.points(scenario, known["tasks"], SEED))
        assert count <= KILLS[scenario], "there are more points than cases"
        if number >= count + MOMENTS:
            pytest.skip(f"there are {count} points")
    run(case, record_property)


def faults():
    # Where a host is looked at first, is drained, is approved; its own service and another's.
    for name in FAULTS:
        for nth, times in ((1, 1), (3, 4)):
            yield f"{name}-get-{nth}", {"vm": "web1", "method": "GET", "nth": nth, "times": times, "fault": FAULTS[name]}
        yield f"{name}-post", {"vm": "web1", "method": "POST", "nth": 1, "times": 1, "fault": FAULTS[name]}
    for name in ("status_500", "drop", "html"):
        yield f"{name}-other", {"vm": "web2", "method": "GET", "nth": 2, "times": 6, "fault": FAULTS[name]}
        # Just when it restarts, and for long.
        yield f"{name}-late", {"vm": "web1", "method": "GET", "nth": 6, "times": 8, "fault": FAULTS[name]}


def turns():
    # Each fault at each request: in one scenario at every one, in the others at some.
    for scenario in SCENARIOS:
        some = random.Random(f"{SEED}/{scenario}/turns").sample(range(2 * len(FAULTS)), 2)
        yield from ((scenario, offset) for offset in (range(2 * len(FAULTS)) if scenario == EVERY_POINT else sorted(some)))


@pytest.mark.long
@pytest.mark.parametrize(("scenario", "offset"), list(turns()))
def test_a_fault_at_every_second_request(scenario, offset, record_property):
    fault = {"turns": list(FAULTS.values()), "offset": offset}
    run(Case(scenario, f"{SEED}/{scenario}/turns-{offset}", fault=fault), record_property)


@pytest.mark.long
@pytest.mark.parametrize("fault", [pytest.param(fault, id=name) for name, fault in faults()])
def test_fault(fault, request, record_property):
    run(Case("reboot", f"fault/{request.node.callspec.id}", fault=fault), record_property)
