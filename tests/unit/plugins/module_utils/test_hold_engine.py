# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine of holds with a made-up kind of thing. What the real drivers make of it is in their own tests."""

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._conditions import CHANGED_MEANWHILE, NONE
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Driver, Engine
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import (
    CHANGING,
    HELD,
    RESTORING,
    SIZE_LIMIT,
    HoldError,
    Request,
    Store,
    new_record,
)

KIND = "lamp"


class BrokenError(Exception):
    """A lamp that cannot be switched."""


class Lamps(Driver):
    """Lamps, which a hold switches off. ``lit`` has them all, and ``log`` what happened, in its order."""

    Refused = BrokenError

    def __init__(self, store, lit, log):
        self.store, self.lit, self.log = store, lit, log
        self.names = list(lit)
        self.broken, self.slow = set(), set()

    def look(self):
        return [(name, {"lit": self.lit[name]} if name in self.lit else None, self.store.read(KIND, {"name": name})) for name in self.names]

    def view(self, record, seen):
        return dict(seen)

    def put(self, hold, events):
        record = hold.record or new_record(KIND, {"name": hold.name}, {"lit": True}, {"lit": False}, {})
        if hold.seen["lit"]:
            yield dict(record, events=events, phase=CHANGING)
            self.switch(hold, False)
        if not hold.waiting_for and not (hold.look_again and not self.in_order):
            yield dict(record, events=events, phase=HELD)

    def condition(self, record, seen):
        return CHANGED_MEANWHILE if record and record["phase"] == HELD and seen["lit"] else NONE

    def conflict(self, hold):
        return "%s was lit by somebody else" % hold.name

    def give_back(self, hold, record):
        yield dict(record, phase=RESTORING)
        if hold.name in self.slow:
            hold.waiting_for = hold.name
            return
        if not hold.seen["lit"]:
            self.switch(hold, True)
        if self.in_order or not hold.look_again:
            yield None

    def switch(self, hold, lit):
        if hold.name in self.broken:
            raise BrokenError
        self.log.append((hold.name, lit))
        hold.acted = hold.look_again = True
        if hold.name in self.slow:
            hold.waiting_for = hold.name
        else:
            self.lit[hold.name] = lit
        if self.in_order:
            hold.look_again = False

    def gone(self, hold):
        return "%s is gone" % hold.name

    def stuck(self):
        return RuntimeError("stuck")


class InOrder(Lamps):
    in_order = True


@pytest.fixture
def log():
    return []


@pytest.fixture
def store(tmp_path, log):
    class Logging(Store):
        def write(self, record):
            log.append((record["subject"]["name"], record["phase"]))
            super().write(record)

        def delete(self, record):
            log.append((record["subject"]["name"], "deleted"))
            super().delete(record)

    return Logging(str(tmp_path / "state"))


@pytest.fixture
def lamps(store, log):
    return Lamps(store, {"a": True, "b": True}, log)


def run(driver, ids=("A",), present=True, timeout=0.0, sleep=None, details=None):
    request = Request(present, ids if ids is None else list(ids), "why", details, now="T")
    now = iter(range(100))
    engine = Engine(driver, driver.store, request, monotonic=lambda: float(next(now)), sleep=sleep)
    engine.run(timeout)
    return engine


def test_each_record_is_written_before_its_change_and_once_more_after_it(lamps, log):
    engine = run(lamps)
    assert engine.changed and lamps.lit == {"a": False, "b": False}
    assert log == [("a", CHANGING), ("a", False), ("b", CHANGING), ("b", False), ("a", HELD), ("b", HELD)]
    assert engine.diff == {
        "before": dict.fromkeys("ab", {"lit": True, "held_by": []}),
        "after": dict.fromkeys("ab", {"lit": False, "held_by": ["A"]}),
    }
    del log[:]
    assert not run(lamps).changed and log == []
    assert run(lamps, present=False).changed
    assert log == [("a", RESTORING), ("a", True), ("b", RESTORING), ("b", True), ("a", "deleted"), ("b", "deleted")]


def test_in_order_all_are_recorded_first_and_each_waits_for_the_one_before(store, log):
    lamps = InOrder(store, {"a": True, "b": True}, log)
    lamps.slow.add("a")
    engine = run(lamps)
    assert engine.waiting_for == ["a"] and log == [("a", CHANGING), ("b", CHANGING), ("a", False)]
    lamps.slow.clear()
    del log[:]
    run(lamps)
    assert log == [("a", False), ("a", HELD), ("b", False), ("b", HELD)]
    del log[:]
    run(lamps, present=False)
    assert log == [("a", RESTORING), ("a", True), ("a", "deleted"), ("b", RESTORING), ("b", True), ("b", "deleted")]


def test_the_last_event_gives_it_back(lamps, store):
    run(lamps, ["A"])
    assert run(lamps, ["B"]).changed
    assert run(lamps, ["a"], present=False).changed and not lamps.lit["a"]
    assert [list(record["events"]) for record in store.records()] == [["B"], ["B"]]
    assert run(lamps, ["b"], present=False).changed and lamps.lit["a"] and store.records() == []


def test_what_somebody_else_changed_is_told_while_another_event_holds_it(lamps, store):
    run(lamps, ["A"])
    run(lamps, ["B"])
    lamps.lit["b"] = True
    engine = run(lamps, ["A"], present=False)
    assert engine.conflicts == ["b was lit by somebody else"] and engine.holds["b"].condition == CHANGED_MEANWHILE
    assert [list(record["events"]) for record in store.records()] == [["B"], ["B"]] and lamps.lit == {"a": False, "b": True}


def test_whoever_is_given_back_is_held_anew(lamps, store):
    run(lamps, ["A"])
    lamps.slow.update("ab")
    assert run(lamps, present=False).waiting_for == ["a", "b"]
    lamps.slow.clear()
    run(lamps, ["B"])
    assert {(tuple(record["events"]), record["phase"]) for record in store.records()} == {(("B",), HELD)}


@pytest.mark.parametrize("kind", [Lamps, InOrder])
def test_what_was_refused_is_not_on_record(store, log, kind):
    lamps = kind(store, {"a": True, "b": True}, log)
    lamps.broken.update("ab")
    with pytest.raises(BrokenError):
        run(lamps)
    assert store.records() == []


@pytest.mark.parametrize("later", ["A", "B"])
def test_a_release_that_waits_leaves_alone_what_is_held_again(lamps, store, later):
    run(lamps, ["A"])
    lamps.slow.add("a")

    def meanwhile(_seconds):
        lamps.slow.clear()
        run(lamps, [later])

    engine = run(lamps, ["A"], present=False, timeout=30.0, sleep=meanwhile)
    assert engine.waiting_for == [] and [list(record["events"]) for record in store.records()] == [[later], [later]]
    assert lamps.lit == {"a": False, "b": False}


def test_what_is_gone(lamps, store):
    run(lamps, ["A"])
    run(lamps, ["B"])
    del lamps.lit["b"]
    assert run(lamps, ["A"], present=False).conflicts == []
    engine = run(lamps, ["B"], present=False)
    assert engine.conflicts == ["b is gone"] and engine.changed and store.records() == []


def test_a_record_that_would_be_too_large_touches_nothing(lamps, log):
    with pytest.raises(HoldError, match="would make a record of"):
        run(lamps, details={"a": {"text": "x" * SIZE_LIMIT}})
    assert log == []


def test_nothing_is_changed_where_the_driver_says_why(lamps, log):
    lamps.shortages = lambda holds: ["%s must stay lit" % hold.name for hold in holds]
    assert run(lamps).refused == ["a must stay lit", "b must stay lit"] and log == []


def test_one_that_never_obeys(lamps):
    lamps.switch = lambda hold, lit: setattr(hold, "look_again", True)
    with pytest.raises(RuntimeError, match="stuck"):
        run(lamps)
