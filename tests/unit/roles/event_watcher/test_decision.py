# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the watcher starts when. Time is a number."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import pytest
from graceful_azure_watcher.decision import ASTRAY, BUSY, DONE, FAILED, HOLD, OUT, REFUSED, TAKEN, UNDO, Decider, FastPath

REPEAT = 60.0


def event(event_id="E1", event_type="Reboot", status="Scheduled", resources=("www_1",), seconds=600.0):
    return {
        "event_id": event_id,
        "event_type": event_type,
        "event_status": status,
        "not_before": "2026-11-21T12:00:00Z" if status == "Scheduled" else None,
        "resources": list(resources),
        "seconds_until_not_before": seconds if status == "Scheduled" else None,
    }


def ids(events):
    return [found["event_id"] for found in events]


class World:
    """A decider and its time. ``start()`` starts what is due, which is told, and ``end()`` has it end."""

    def __init__(self, *unfinished):
        self.decider = Decider(REPEAT, unfinished)
        self.now = 1000.0

    def see(self, *events):
        return [(what, found["event_id"]) for what, found in self.decider.observe(list(events), self.now)]

    def start(self):
        task = self.decider.due(self.now)
        if task is not None:
            self.decider.started(task)
        return task

    def end(self, outcome=DONE):
        self.decider.ended(outcome, self.now)

    def seconds_until_due(self, most=2000):
        start = self.now
        while self.decider.due(self.now) is None:
            self.now += 1
            if self.now > start + most:
                return None
        return self.now - start


@pytest.fixture
def world():
    return World()


def test_nothing_is_started_before_the_first_answer_and_without_an_event(world):
    assert world.start() is None
    assert world.see() == []
    assert world.start() is None


def test_each_change_starts_it_once(world):
    assert world.see(event()) == [("appeared", "E1")]
    task = world.start()
    assert (task.why, ids(task.events), task.gone) == ("appeared", ["E1"], [])
    world.end()
    assert world.see(event()) == []
    assert world.start() is None
    assert world.see(event(status="Started")) == [("changed", "E1")]
    assert world.start().why == "changed"
    world.end()
    assert world.see() == [("gone", "E1")]
    task = world.start()
    assert (task.why, task.events, ids(task.gone)) == ("gone", [], ["E1"])
    world.end()
    assert world.seconds_until_due() is None
    assert world.decider.unfinished == []


def test_never_two_at_once_and_a_change_meanwhile_starts_it_again_at_its_end(world):
    world.see(event())
    world.start()
    world.see(event(), event("E2"))
    assert world.start() is None
    world.end()
    assert ids(world.start().events) == ["E1", "E2"]


@pytest.mark.parametrize("outcome", [FAILED, REFUSED])
def test_failures_back_off_up_to_a_bound_and_never_end(world, outcome):
    world.see(event())
    pauses = []
    for _number in range(100):
        world.start()
        world.end(outcome)
        pauses.append(world.seconds_until_due())
    assert pauses[:7] == [1, 2, 4, 8, 16, 30, 30]
    assert set(pauses[7:]) == {30}


def test_it_is_failing_from_a_failure_to_a_success_while_there_is_something_to_be_done(world):
    world.see(event())
    world.start()
    assert not world.decider.failing
    world.end(FAILED)
    assert world.decider.failing
    # Neither a change nor another start is a success.
    world.see(event(status="Started"))
    world.start()
    assert world.decider.failing
    world.end()
    assert not world.decider.failing
    world.see()
    world.start()
    world.end(FAILED)
    assert world.decider.failing
    world.seconds_until_due()
    world.start()
    world.end(BUSY)
    assert not world.decider.failing


@pytest.mark.parametrize("outcome", [FAILED, REFUSED])
def test_what_failed_for_an_event_that_is_over_is_no_failure_of_the_next(world, outcome):
    world.see(event())
    world.start()
    world.end(REFUSED)
    world.see()
    assert not world.decider.failing
    world.see(event("E2"))
    assert not world.decider.failing
    world.start()
    world.see()
    world.end(outcome)
    assert world.decider.failing == (outcome == FAILED)


def test_a_change_ends_the_back_off(world):
    world.see(event())
    for _number in range(8):
        world.start()
        world.end(FAILED)
        world.seconds_until_due()
    world.start()
    world.end(FAILED)
    assert world.start() is None
    world.see(event(status="Started"))
    assert world.start().why == "changed"


def test_it_is_repeated_while_something_stands(world):
    world.see(event())
    world.start()
    world.end()
    assert world.seconds_until_due() == REPEAT
    assert world.start().why == "repeat"


@pytest.mark.parametrize(("seconds", "pause"), [(-5.0, 60), (30.0, 60), (599.0, 60), (1200.0, 120), (600000.0, 900), (None, 60)])
def test_an_event_days_ahead_is_repeated_less_often(world, seconds, pause):
    world.see(event(seconds=seconds))
    world.start()
    world.end()
    assert world.seconds_until_due() == pause


@pytest.mark.parametrize("other", [event("E2", status="Started"), event("E2", seconds=30.0), event("E2", seconds=None)])
def test_an_event_that_is_near_is_not_made_to_wait_by_one_that_is_days_ahead(world, other):
    world.see(event(seconds=600000.0), other)
    world.start()
    world.end()
    assert world.seconds_until_due() == REPEAT


def test_what_was_begun_wrongly_is_failing_and_begun_again_as_seldom_as_if_it_were_right(world):
    for seconds, pause in ((600.0, 60), (600000.0, 900)):
        world.see(event(seconds=seconds))
        world.start()
        world.end(ASTRAY)
        assert world.decider.failing and world.seconds_until_due() == pause
    # It has begun something, so that what is begun is to be finished; that, too, not in haste.
    world.see()
    pauses = []
    for _number in range(12):
        assert ids(world.start().gone) == ["E1"]
        world.end(ASTRAY)
        pauses.append(world.seconds_until_due())
    assert (min(pauses), pauses[-1]) == (60, 300)


def test_one_that_is_under_way_is_looked_at_again_soon(world):
    world.see(event())
    world.start()
    world.end(BUSY)
    assert world.seconds_until_due() == 15
    assert world.start().why == "busy"


def test_what_was_taken_over_is_asked_for_soon_and_then_less_and_less_often(world):
    world.see(event(seconds=6000.0))
    pauses = []
    for _number in range(8):
        world.start()
        world.end(TAKEN)
        pauses.append(world.seconds_until_due())
        assert world.start().why == "busy"
        world.end(BUSY)
        world.seconds_until_due()
    # Never less often than it would be repeated.
    assert pauses == [15, 30, 60, 120, 240, 480, 600, 600]
    world.start()
    world.end(DONE)
    world.seconds_until_due()
    world.start()
    world.end(TAKEN)
    assert world.seconds_until_due() == 15


def test_jobs_that_fail_are_launched_again_with_longer_and_longer_pauses(world):
    world.see(event())
    pauses = []
    for _number in range(7):
        world.start()
        world.end(TAKEN)
        world.seconds_until_due()
        world.start()
        world.end(FAILED)
        # The next launch is no success until its job is one.
        assert world.decider.failing
        pauses.append(world.seconds_until_due())
        world.start()
        world.end(TAKEN)
        assert world.decider.failing
        world.seconds_until_due()
        world.start()
        world.end(FAILED)
        world.seconds_until_due()
    assert pauses == [1, 4, 16, 30, 30, 30, 30]
    world.start()
    world.end(DONE)
    assert not world.decider.failing


def test_what_was_taken_over_for_an_event_that_is_gone_is_not_taken_for_done(world):
    world.see(event())
    world.start()
    world.end(DONE)
    world.see()
    world.start()
    world.end(TAKEN)
    assert ids(world.decider.unfinished) == ["E1"] and world.seconds_until_due() == 15
    world.start()
    world.end(DONE)
    assert world.decider.unfinished == [] and world.seconds_until_due() is None


def test_an_event_that_goes_before_anything_was_begun_is_forgotten(world):
    world.see(event())
    world.start()
    world.end(REFUSED)
    assert world.see() == [("gone", "E1")]
    assert world.seconds_until_due() is None


@pytest.mark.parametrize("outcome", [FAILED, BUSY])
def test_an_event_for_which_something_was_begun_is_finished_after_it_is_gone(world, outcome):
    world.see(event())
    world.start()
    world.see()
    world.end(outcome)
    for _number in range(20):
        assert ids(world.start().gone) == ["E1"]
        world.end(FAILED)
        assert world.seconds_until_due() <= 300
    world.start()
    world.end()
    assert world.seconds_until_due() is None


def test_an_event_that_comes_again_is_no_longer_gone(world):
    world.see(event())
    world.start()
    world.end()
    world.see()
    world.start()
    world.see(event("e1"))
    world.end()
    task = world.start()
    assert (ids(task.events), task.gone) == (["e1"], [])


def test_a_new_process_starts_again_and_finishes_what_went_meanwhile():
    world = World(event("E1"), event("E2"))
    assert world.see(event("E1"), event("E3")) == [("stands", "E1"), ("appeared", "E3"), ("gone", "E2")]
    task = world.start()
    assert (ids(task.events), ids(task.gone)) == (["E1", "E3"], ["E2"])
    world.end()
    assert ids(world.decider.unfinished) == ["E1", "E3"]


def test_twenty_events_at_once_are_one_action(world):
    world.see(*(event(f"E{number}") for number in range(20)))
    assert len(world.start().events) == 20
    world.end()
    assert world.start() is None


@pytest.mark.parametrize(
    "other",
    [{"status": "Started"}, {"event_type": "Freeze"}, {"resources": ("www_1", "www_2")}],
)
def test_what_is_a_change(world, other):
    world.see(event(resources=("WWW_1",)))
    assert world.see(event(seconds=3.0)) == []
    assert world.see(event(**other)) == [("changed", "E1")]


STEPS = st.lists(
    st.one_of(
        st.sets(st.tuples(st.sampled_from("ABC"), st.sampled_from(["Scheduled", "Started"])), max_size=3),
        st.sampled_from([DONE, BUSY, FAILED, REFUSED, ASTRAY, TAKEN]),
        st.integers(1, 100),
    ),
    max_size=60,
)


@hypothesis.given(STEPS)
def test_whatever_happens_what_stands_in_the_end_is_acted_upon(steps):
    world = World()
    for step in steps:
        if isinstance(step, set):
            world.see(*(event(name, status=status) for name, status in dict(step).items()))
        elif isinstance(step, int):
            world.now += step
        elif world.decider.running is not None:
            world.end(step)
        elif world.start() is not None:
            assert world.start() is None
    last = [event("A"), event("D")]
    if world.decider.running is not None:
        world.end(FAILED)
    world.see(*last)
    assert world.seconds_until_due() <= 30
    task = world.start()
    assert ids(task.events) == ["A", "D"]
    world.end(DONE)
    # Whatever was begun is seen through once, and then there is rest.
    world.see()
    assert world.seconds_until_due() == 0
    assert {"A", "D"} <= set(ids(world.start().gone))
    world.end(DONE)
    assert world.seconds_until_due() is None


# The fast path


@pytest.fixture
def fast():
    return FastPath(["Preempt", "Terminate"])


def test_out_at_once_and_undone_when_no_event_names_the_host(fast):
    assert fast.due(0) is None
    fast.observe([event("R")])
    assert fast.due(0) is None
    fast.observe([event("R"), event("P", "preempt")])
    assert fast.due(0) == OUT
    assert fast.hold() == ["P"]
    fast.started(OUT)
    assert fast.due(0) is None
    fast.ended(True, 0)
    assert fast.due(0) is None
    fast.observe([event("R")])
    assert fast.due(0) is None
    fast.observe([])
    assert fast.due(0) == UNDO
    fast.started(UNDO)
    fast.ended(True, 0)
    assert fast.held == {}
    assert fast.due(0) is None


def test_a_second_event_holds_what_is_done_already(fast):
    fast.observe([event("P", "Preempt")])
    fast.hold()
    fast.started(OUT)
    fast.ended(True, 0)
    fast.observe([event("P", "Preempt"), event("T", "Terminate")])
    assert fast.due(0) == HOLD
    assert fast.hold() == ["P", "T"]
    assert fast.due(0) is None


def test_it_is_tried_again_while_its_event_stands(fast):
    fast.observe([event("P", "Preempt")])
    fast.hold()
    now, pauses = 0.0, []
    for _number in range(6):
        fast.started(OUT)
        fast.ended(False, now)
        pause = next(seconds for seconds in range(100) if fast.due(now + seconds) == OUT)
        pauses.append(pause)
        now += pause
    assert pauses == [1, 2, 4, 5, 5, 5]
    # An event of that type more is no time to wait.
    fast.started(OUT)
    fast.ended(False, now)
    fast.observe([event("P", "Preempt"), event("T", "Terminate")])
    assert fast.due(now) == OUT
    # Half done counts as done when it is undone.
    fast.observe([])
    assert fast.due(now + 10) == UNDO


def test_undoing_is_tried_again_and_gives_way_to_a_new_event(fast):
    fast = FastPath(["Preempt"], held=["P"], done=True)
    fast.observe([])
    assert fast.due(0) == UNDO
    fast.started(UNDO)
    fast.ended(False, 0)
    assert (fast.due(0), fast.due(1)) == (None, UNDO)
    fast.started(UNDO)
    fast.observe([event("Q", "Preempt")])
    fast.ended(True, 2)
    assert fast.due(2) == OUT
    assert fast.hold() == ["Q"]


def test_a_new_process_that_finds_it_half_done_does_it_again():
    fast = FastPath(["Preempt"], held=["P"], done=False)
    fast.observe([event("p", "Preempt")])
    assert fast.due(0) == OUT
