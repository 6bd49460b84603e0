# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""handle_events killed at any moment, met by others like it and by bad services; an observer judges each run.

Every case prints its seed and the command that plays it again. CHAOS_SEED (1) chooses other points, moments and company.
The whole matrix is marked long: some 400 runs, for three processes on two cores:
    build/venv/bin/python -m pytest -m 'long or not long' --numprocesses 3 --dist worksteal tests/chaos

What is sampled, in the scenarios of scenarios.py:
- kills at a task: in `reboot` at the first and the last occurrence of every task, and in each turn, in which steps are taken, at several
  moments. In the others, at those of each task of a role that changes or records something, and at so many more of a pass
  (killer.points) that over the scenarios each is killed at several times; not the tasks that a pass skips or that lie around the
  passes. Those of drain_host, which has a step in two scenarios alone, and that change nothing, are killed at now and then
- kills at ten moments, but in variants, and at more where a scenario has fewer points than kills
- a fault at every second request: in `reboot` with five of the thirty ways in which faults and requests can meet, in the
  others with one
- a fault of the approval: in `reboot` each, in every other scenario that has an approval one of five
- faults of several requests running, in `reboot` alone

All these run behind HAProxy. Behind every other provider (nginx, health_probe, azure_load_balancer, two in a row) there are a dozen cases each (-k behind).
They are killed at each point between a record and a change (points.py), in a turn and after the approval. One runs beside another controller.

The helper of a machine alone is killed at each request of a Reboot and at points (-k helper), or the connections to all of them are cut. The controller then
gets no answer, and goes on.

A group with Windows hosts (-k windows), which are modelled (tests/support/windows), is killed before each call that changes something on one of them, at
each task of a run, and in turns. Each fault meets several requests of a Windows host's service, and its approval. A proxy that answers nobody is set.
"""

from __future__ import annotations

import json
import os
import random
import time

import pytest

from tests.chaos import killer, stage
from tests.chaos.faults import FAULTS, OF_WINDOWS
from tests.chaos.killer import EVERY_POINT, KILLS, MOMENTS, WINDOWS_KILLS, Case
from tests.chaos.observer import judge
from tests.chaos.points import POINTS, REQUESTS
from tests.chaos.scenarios import SCENARIOS
from tests.support.world import BACKEND

# One run may last as long as the stage lets it, may need an undisturbed one before it to learn the tasks, and a second try.
pytestmark = pytest.mark.timeout(3 * stage.CASE_LIMIT + 120)

SEED = os.environ.get("CHAOS_SEED", "1")
OF_APPROVALS = ("drop", "drop_answer", "status_503", "status_400", "cut")


def run(case, record_property, play=stage.play):
    """Plays the case; what the observer finds is the test's failure."""
    print(f"seed {case.seed}; to play it again: {case.replay()}")
    began = time.monotonic()
    record = play(case)
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


# The sample of the normal suite


def test_killed_before_the_approval_is_known_while_a_service_errs(record_property):
    """Both in one run, since a run takes half a minute."""
    fault = {"vm": "web2", "method": "GET", "nth": 3, "times": 4, "fault": FAULTS["status_500"]}
    record = run(Case("reboot", "sample", once_approved=True, who="alone", company="after", fault=fault), record_property)
    assert record["reached"]
    assert [request["Status"] for request in record["requests"] if request["Vm"] == "web2"].count(500) == 4


def test_windows_killed_while_a_service_errs(record_property):
    """A Linux and a Windows host of one event. The controller dies between a record and its change."""
    fault = {"vm": "win1", "method": "GET", "nth": 3, "times": 4, "fault": FAULTS["status_500"]}
    record = run(Case("windows_reboot", "sample of windows", point="records, not the services", who="alone", fault=fault), record_property)
    assert record["reached"] and len(record["events"][0]["Approvals"]) == 1
    assert [request["Status"] for request in record["requests"] if request["Vm"] == "win1"].count(500) == 4


# Everything


def undisturbed(scenario, suite):
    return killer.undisturbed(scenario, SEED, suite, stage.play)


def all_were_out(record):
    for event in record["events"]:
        for server in (f"{BACKEND}/{host}" for host in event["Resources"]):
            seen = {servers[server][0] for when, servers in record["samples"] if when >= event["History"][0]["Time"]}
            assert seen - {"ready"}, f"{server} was never out"


def named(cases):
    """Cases by their names, as parameters of a test."""
    return [pytest.param(case, id=name.replace(",", "").replace(":", "").replace(" ", "_")) for name, case in cases]


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_undisturbed(scenario, record_property, testrun_uid):
    record = run(Case(scenario, f"{SEED}/{scenario}/undisturbed"), record_property, lambda _case: undisturbed(scenario, testrun_uid))
    assert len(record["events"]) == len(SCENARIOS[scenario].events)
    told = [entry["event_id"].lower() for entry in record["controllers"][0]["result"]]
    assert sorted(told) == sorted(event["EventId"].lower() for event in record["events"])
    all_were_out(record)


def run_until_killed(case, record_property):
    """Run a case whose kill may come too late. Then it is run once more, with an earlier one."""
    record = run(case, record_property)
    if not record["reached"]:
        case = killer.again(case, record["trace"])
        record = run(case, record_property)
    assert record["reached"], f"the run was over before the kill; again: {case.replay()}"


@pytest.mark.long
@pytest.mark.parametrize(("scenario", "number"), [(scenario, number) for scenario, kills in KILLS.items() for number in range(kills + MOMENTS[scenario])])
def test_killed(scenario, number, record_property, testrun_uid):
    case = killer.case(scenario, number, SEED, undisturbed(scenario, testrun_uid))
    run_until_killed(case, record_property)


def faults():
    for name, fault in FAULTS.items():
        # Where a host is drained and approved.
        yield f"{name}-get", {"vm": "web1", "method": "GET", "nth": 3, "times": 4, "fault": fault}
        yield f"{name}-post", {"vm": "web1", "method": "POST", "nth": 1, "times": 1, "fault": fault}
    for name in ("status_500", "drop", "html"):
        yield f"{name}-other", {"vm": "web2", "method": "GET", "nth": 2, "times": 6, "fault": FAULTS[name]}
        # Just when it restarts, and for long.
        yield f"{name}-late", {"vm": "web1", "method": "GET", "nth": 6, "times": 8, "fault": FAULTS[name]}


@pytest.mark.long
@pytest.mark.parametrize("fault", [pytest.param(fault, id=name) for name, fault in faults()])
def test_fault(fault, request, record_property):
    run(Case(EVERY_POINT, f"fault/{request.node.callspec.id}", fault=fault), record_property)


def faults_of_approvals():
    approving = {name: scenario.approvals for name, scenario in SCENARIOS.items() if scenario.approvals and name != EVERY_POINT}
    for turn, (scenario, approvals) in enumerate(approving.items()):
        name = OF_APPROVALS[turn % 5]
        # The first and its repetition, or the last alone.
        nth, times = ((1, 2), (approvals, 1))[turn % 2]
        yield scenario, name, {"vm": None, "method": "POST", "nth": nth, "times": times, "fault": FAULTS[name]}


@pytest.mark.long
@pytest.mark.parametrize(("scenario", "name", "fault"), [pytest.param(*told, id="-".join(told[:2])) for told in faults_of_approvals()])
def test_a_fault_of_the_approval(scenario, name, fault, record_property):
    run(Case(scenario, f"{scenario}/approval-{name}", fault=fault), record_property)


def turns():
    # An offset beside the next meets other requests, and two further on each request meets the next fault.
    ways = range(2 * len(FAULTS))
    for scenario in SCENARIOS:
        some = sorted(random.Random(f"{SEED}/{scenario}/turns").sample(ways, 1))
        yield from ((scenario, offset) for offset in (ways[::6] if scenario == EVERY_POINT else some))


@pytest.mark.long
@pytest.mark.parametrize(("scenario", "offset"), list(turns()))
def test_a_fault_at_every_second_request(scenario, offset, record_property):
    fault = {"turns": list(FAULTS.values()), "offset": offset}
    run(Case(scenario, f"{SEED}/{scenario}/turns-{offset}", fault=fault), record_property)


# Helpers


@pytest.mark.long
@pytest.mark.parametrize("case", named(killer.of_helpers(SEED)))
def test_helper(case, record_property):
    record = run(case, record_property)
    if not record["reached"] and case.point in REQUESTS:
        record = run(killer.again(case, record["trace"]), record_property)
    assert record["reached"], f"nothing was killed; again: {case.replay()}"
    assert not any(controller["killed"] for controller in record["controllers"])


# Behind other providers

BEHIND = {(front, name): case for front in POINTS for name, case in killer.behind(front, SEED)}


@pytest.mark.long
@pytest.mark.parametrize("case", [pytest.param(case, id="-".join(key).replace(" ", "_")) for key, case in BEHIND.items()])
def test_behind(case, record_property):
    record = run(case, record_property)
    expected = case.point is not None or case.task is not None or case.once_approved
    assert record["reached"] == expected, f"the run was over before the kill; again: {case.replay()}"
    all_were_out(record)


# With Windows hosts


@pytest.mark.long
@pytest.mark.parametrize("case", named(killer.of_windows(SEED)))
def test_windows(case, record_property):
    record = run(case, record_property)
    assert record["reached"] == (case.kind != "no kill" and case.company != "along" or case.once_approved), f"no kill; again: {case.replay()}"


@pytest.mark.long
@pytest.mark.parametrize("number", range(WINDOWS_KILLS))
def test_windows_killed_at_a_task(number, record_property, testrun_uid):
    case = killer.at_a_task("windows_reboot", number, WINDOWS_KILLS, SEED, undisturbed("windows_reboot", testrun_uid))
    run_until_killed(case, record_property)


def faults_of_windows():
    for name, fault in OF_WINDOWS.items():
        # Where the host is drained, and where the event starts and ends.
        yield f"{name}-get", {"vm": "win1", "method": "GET", "nth": 3, "times": 4, "fault": fault}
        yield f"{name}-post", {"vm": "win1", "method": "POST", "nth": 1, "times": 1, "fault": fault}
    for name in ("status_410", "drop", "redirect"):
        yield f"{name}-late", {"vm": "win1", "method": "GET", "nth": 7, "times": 4, "fault": OF_WINDOWS[name]}


@pytest.mark.long
@pytest.mark.parametrize("fault", [pytest.param(fault, id=name) for name, fault in faults_of_windows()])
def test_windows_fault(fault, request, record_property):
    # Nobody else can send the approval, and a reboot ends what is held.
    run(Case("windows_alone", f"windows/{request.node.callspec.id}", fault=fault), record_property)
