# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _hold_records

from tests.support.calls import call


@pytest.fixture
def hold(tmp_path):
    def hold(ids=("A",), state="present", check=False, **more):
        params = {
            "name": ["custom"],
            "state": state,
            "done": None,
            "this_boot": False,
            "event_ids": None if ids is None else list(ids),
            "event_details": {},
            "reason": "why",
            "state_dir": str(tmp_path / "state"),
        }
        result = call("task_hold", dict(params, **more), check)
        return result["changed"], result["held"], result["done"], result["held_by"]

    return hold


def test_the_life_of_a_hold(hold, tmp_path):
    assert hold() == (True, False, False, ["A"])
    assert hold() == (False, True, False, ["A"])
    assert hold(done=True) == (True, True, True, ["A"])
    assert hold() == (False, True, True, ["A"])  # what is done stays done
    assert hold(["B"]) == (True, True, True, ["A", "B"])
    assert hold(["a"], "absent") == (True, True, True, ["B"])
    assert hold(["a"], "absent") == (False, True, True, ["B"])
    assert hold(["B"], "absent") == (True, True, False, [])
    assert hold(None, "absent") == (False, False, False, [])
    assert list((tmp_path / "state").iterdir()) == []


def test_tasks_that_are_done_for_each_event(hold):
    """They are done for the events on the record, and once more if another joins, however many calls that takes."""
    assert hold(done=False) == (True, False, False, ["A"])
    hold(done=True)
    assert hold(done=False) == (False, True, True, ["A"])
    assert hold(["A", "B"], done=False) == (True, True, False, ["A", "B"])
    assert hold(["A", "B"], done=False) == (False, True, False, ["A", "B"])
    hold(["A", "B"], done=True)
    assert hold(["B"], done=False) == (False, True, True, ["A", "B"])


def test_since_when_it_is_done(hold, tmp_path, monkeypatch):
    """Nothing but being done, or done once more, tells of another time."""
    times = iter("abcdef")
    monkeypatch.setattr(_hold_records, "utc_now", lambda: next(times))

    def told():
        (path,) = (tmp_path / "state").iterdir()
        record = json.loads(path.read_text())
        return record["events"]["A"]["since"], record.get("done_since")

    seen = []
    undone = {"ids": ["A", "B"], "state": "absent", "done": False}
    for options in ({}, {"done": True}, {"done": True}, {"ids": ["B"]}, undone, {"done": True}):
        hold(**options)
        seen.append(told())
    assert seen == [("a", None), ("a", "b"), ("a", "b"), ("a", "b"), ("a", "b"), ("a", "f")]


def test_check_mode_tells_whether_the_last_would_go(hold, tmp_path):
    assert hold(check=True) == (True, False, False, ["A"])
    assert not (tmp_path / "state").exists()
    hold(["A", "B"], done=True)
    assert hold(["A"], "absent", check=True) == (True, True, True, ["B"])
    assert hold(["A", "B"], "absent", check=True) == (True, True, False, [])
    assert hold() == (False, True, True, ["A", "B"])


def test_what_is_being_undone_is_done_no_more(hold):
    hold(["A", "B"], done=True)
    assert hold(["A"], "absent", done=False) == (True, True, True, ["B"])  # another event keeps it
    assert hold(["B"], "absent", done=False) == (True, True, False, ["B"])
    assert hold(["B"], "absent", done=False) == (False, True, False, ["B"])
    # An event that comes meanwhile finds that it is to be done again.
    assert hold(["C"]) == (True, True, False, ["B", "C"])
    assert hold(["B", "C"], done=True) == (True, True, True, ["B", "C"])
    assert hold(None, "absent", done=False) == (True, True, False, ["B", "C"])
    assert hold(None, "absent", done=True) == (True, True, False, [])


def test_an_event_that_comes_before_the_undoing_has_ended(hold):
    hold(["A"], done=True)
    assert hold(["A"], "absent", done=False) == (True, True, False, ["A"])
    # Another run does it again for B, before what undoes it has come to its end.
    assert hold(["A", "B"], done=True) == (True, True, True, ["A", "B"])
    assert hold(["A"], "absent", done=True) == (True, True, False, ["B"])
    assert hold(["B"]) == (False, True, False, ["B"])


def test_whether_these_are_the_last(tmp_path):
    params = {
        "name": ["n", "m"],
        "state": "present",
        "done": None,
        "this_boot": False,
        "event_ids": ["A"],
        "event_details": {},
        "reason": "",
        "state_dir": str(tmp_path / "s"),
    }
    assert call("task_hold", params)["last"] is False
    assert call("task_hold", dict(params, name=["m"], event_ids=["B"]))["held_by"] == ["A", "B"]
    gone = dict(params, state="absent", done=False)
    assert call("task_hold", dict(gone, name=["m"]), True)["last"] is False
    both = call("task_hold", gone, True)
    assert (both["last"], both["held"], both["held_by"]) == (True, True, ["A", "B"])
    assert call("task_hold", dict(gone, done=None, event_ids=None))["held_by"] == []
    nothing = call("task_hold", gone)
    assert (nothing["last"], nothing["held"], nothing["changed"]) == (False, False, False)


def test_the_record(hold, tmp_path):
    hold(done=True)
    (path,) = (tmp_path / "state").iterdir()
    record = json.loads(path.read_text())
    since = record["events"]["A"].pop("since")
    assert record.pop("done_since") == since
    record.pop("machine", None)  # where the machine tells it
    assert record == {
        "version": 1,
        "kind": "task",
        "subject": {"name": "custom"},
        "found": {},
        "left": {},
        "phase": "held",
        "events": {"A": {"reason": "why", "details": {}}},
        "done": True,
    }
    assert since.endswith("Z")


def test_the_difference(tmp_path):
    params = {
        "name": ["n"],
        "state": "present",
        "done": True,
        "this_boot": False,
        "event_ids": ["A"],
        "event_details": {},
        "reason": "",
        "state_dir": str(tmp_path / "s"),
    }
    assert call("task_hold", params, True)["diff"] == {
        "before": {"n": {"done": False, "held_by": []}},
        "after": {"n": {"done": True, "held_by": ["A"]}},
    }


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"name": [" "]}, "name is empty"),
        ({"name": []}, "name is empty"),
        ({"ids": []}, "event_ids is an empty list"),
        ({"ids": None}, "event_ids is required"),
    ],
)
def test_mistakes(hold, more, said):
    with pytest.raises(ValueError, match=said):
        hold(**more)
