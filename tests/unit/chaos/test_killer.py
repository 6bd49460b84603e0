# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the chaos tests kill: everywhere in one scenario, and wherever something changes in each."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections import Counter

import pytest

from tests.chaos import killer
from tests.chaos.killer import DELAYS_OF_TURN, EVERY_POINT, KILLS, MOMENTS, TURN, Case
from tests.chaos.scenarios import SCENARIOS

AROUND = ["Check the settings before anything is done", "More passes", "End if all is done", "Tell what became of each event"]
LOOKS = [TURN, "Plan"]
FILES = ["Begin with what is not done", "Run it", "Do what comes first", "Do what comes last"]
AGAIN = {"More passes": 4, "End if all is done": 6, **dict.fromkeys(FILES[:2], 2), **dict.fromkeys(LOOKS, 6)}


def tasks(scenario):
    """What a run of a scenario may consist of: every task with its last occurrence."""
    files = FILES if scenario.own_tasks else []
    return {task: AGAIN.get(task, 1) for task in [*AROUND[:2], *LOOKS, *files, *AROUND[2:]]}


KNOWN = {name: {"trace": tasks(scenario), "controllers": [{"begin": 100.0, "end": 140.0}]} for name, scenario in SCENARIOS.items()}


def has_no_files(scenario):
    return not SCENARIOS[scenario].own_tasks


def points(scenario, seed="1"):
    return killer.points(scenario, KNOWN[scenario]["trace"], seed)


class TestPoints:
    def test_one_scenario_has_them_all(self):
        known = KNOWN[EVERY_POINT]["trace"]
        found = points(EVERY_POINT)
        assert len(found) == KILLS[EVERY_POINT]
        assert {point for point in found if point[0] != TURN} == {point for point in {(task, 1) for task in known} | set(known.items()) if point[0] != TURN}
        # Each turn several times, and none in which nothing is done yet.
        turns = Counter(occurrence for task, occurrence in found if task == TURN)
        assert set(turns) == set(range(2, known[TURN] + 1)) and min(turns.values()) >= 5

    def test_a_turn_is_killed_at_many_moments(self):
        cases = [killer.case(EVERY_POINT, number, "1", KNOWN[EVERY_POINT]) for number in range(KILLS[EVERY_POINT])]
        assert {case.delay for case in cases if case.task == TURN} == set(DELAYS_OF_TURN)

    @pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != EVERY_POINT])
    def test_the_others_have_all_that_changes_something_and_nothing_around_the_passes(self, scenario):
        known = KNOWN[scenario]["trace"]
        found = points(scenario)
        assert len(found) == len(set(found)) == min(KILLS[scenario], 2 + known[TURN] - 1 if has_no_files(scenario) else 99)
        assert {(task, occurrence) for task in set(FILES) & set(known) for occurrence in (1, known[task])} <= set(found)
        assert not {task for task, _occurrence in found} & set(AROUND)
        assert not has_no_files(scenario) or {occurrence for task, occurrence in found if task == TURN} >= set(range(3, known[TURN] - 1))

    @pytest.mark.parametrize("seed", ["1", "2", "abc"])
    def test_together_they_have_each_several_times(self, seed):
        killed = Counter()
        there = Counter()
        for scenario in SCENARIOS:
            known = KNOWN[scenario]["trace"]
            killed.update((task, "turn" if task == TURN else "first" if occurrence == 1 else "last") for task, occurrence in points(scenario, seed))
            there.update((task, which) for task, last in known.items() if task != TURN for which in (("first", "last") if last > 1 else ("first",)))
        wanted = {point for point in there if point[0] not in AROUND}
        assert killed[TURN, "turn"] >= 4 * len(SCENARIOS)
        assert not {point for point in wanted if killed[point] < 2}

    def test_too_many_points_are_an_error(self):
        with pytest.raises(AssertionError, match="more points than cases"):
            killer.points(EVERY_POINT, {str(number): 2 for number in range(KILLS[EVERY_POINT])}, "1")


class TestCases:
    def test_moments_come_after_the_points_and_before_the_end(self):
        cases = [killer.case("freeze", number, "1", KNOWN["freeze"]) for number in range(KILLS["freeze"] + MOMENTS["freeze"])]
        assert [(case.task, case.occurrence) for case in cases[: KILLS["freeze"]]] == points("freeze")
        assert all(case.task is None and 0.5 <= case.at <= 36 for case in cases[KILLS["freeze"] :])

    def test_the_same_seed_is_the_same_case(self):
        assert killer.case("reboot", 3, "1", KNOWN["reboot"]) == killer.case("reboot", 3, "1", KNOWN["reboot"])
        assert killer.case("reboot", 3, "1", KNOWN["reboot"]) != killer.case("reboot", 3, "2", KNOWN["reboot"])

    def test_a_second_try_is_killed_earlier_and_alone(self):
        case = Case("reboot", "x", task="Plan", occurrence=5, delay=0.3, who="alone", company="along")
        assert killer.again(case, {"Plan": 5}) == Case("reboot", "x/again", task="Plan", occurrence=2, who="alone", company="after")
        assert killer.again(dataclasses.replace(case, occurrence=21), {"Plan": 10}).occurrence == 5, "by half of the passes that there were"
        assert killer.again(dataclasses.replace(case, occurrence=1), {}).occurrence == 1
        assert killer.again(Case("reboot", "x", at=20.0), {}) == Case("reboot", "x/again", at=12.0)

    @pytest.mark.parametrize("number", [3, KILLS[EVERY_POINT] + 2])
    def test_a_case_can_be_played_again_from_its_command(self, number):
        fault = {"vm": None, "method": "POST", "nth": 1, "times": 1, "fault": {"Status": 200, "Body": '{"a": "it\'s"'}}
        case = dataclasses.replace(killer.case("reboot", number, "1", KNOWN["reboot"]), fault=fault)
        python, dash_m, module, told = shlex.split(case.replay())
        assert (python, dash_m, module) == ("build/venv/bin/python", "-m", "tests.chaos.replay")
        assert Case(**json.loads(told)) == case


def test_every_scenario_leaves_a_server():
    for scenario in SCENARIOS.values():
        assert {host for event in scenario.events for host in event.hosts} < set(scenario.hosts)


def test_the_minimum_yields_when_its_scenario_says():
    assert SCENARIOS["min_yields"].yields == 25
    assert SCENARIOS["reboot"].yields == 135
