# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the journal of each host is told, and when."""

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._story.host_journal import behind, now_written, with_entries

LOOK = {"name": "web1", "options": {"wait": 0.0}}


def outcome(state, *turns, standing=("E1",), ids=("E1",)):
    decision = {"state": state, "reason": "2 sessions\x1b", "event": "Reboot E1" if ids else None, "events": list(standing)}
    events = [{"event_id": event_id, "hosts": {"web1": {"state": state}}} for event_id in ids]
    return {"hosts": {"web1": decision}, "events": events, "turns": {"web1": list(turns or [LOOK])}}


def entry(found, last=None):
    """The entry of the first turn."""
    (turn, *_others) = with_entries(found, {"web1": last} if last else {})["web1"]
    return turn["options"].get("journal")


def test_a_new_state():
    assert entry(outcome("draining")) == {"MESSAGE": "draining: 2 sessions\\x1b (Reboot E1)", "PRIORITY": 6, "STATE": "draining", "EVENT_ID": ["E1"]}
    assert entry(outcome("needs_person"))["PRIORITY"] == 4
    # The event is gone, and still it is the one that the host is restored from.
    assert entry(outcome("restoring", standing=()))["EVENT_ID"] == ["E1"]
    assert LOOK == {"name": "web1", "options": {"wait": 0.0}}


@pytest.mark.parametrize(
    ("state", "last", "is_told"),
    [
        ("draining", ["draining", ["E1"]], False),
        ("draining", ["draining", ["E0"]], True),
        ("ready", ["draining", ["E1"]], True),
        ("in_service", None, False),
        ("in_service", ["restored", ["E1"]], False),
        ("in_service", ["waiting", ["E1"]], True),
    ],
)
def test_each_state_is_told_once(state, last, is_told):
    assert bool(entry(outcome(state), last)) == is_told


def test_the_look_at_a_balancer_tells_nothing():
    turn = {"machine": "lb1", "options": {}, "acts": [{"part": "forgotten", "args": {}}]}
    assert with_entries(outcome("draining", turn), {})["web1"] == [turn]


def acts(*ids):
    return {"name": "web1", "acts": [{"part": "steps", "args": {}}, {"part": "forgotten", "args": {"event_ids": list(ids)}}]}


def test_the_last_act_tells_that_the_host_is_back():
    (turn,) = with_entries(outcome("restoring", acts("E1"), standing=()), {})["web1"]
    assert turn["acts"][0]["args"] == {} and turn["acts"][1]["args"]["journal"]["STATE"] == "restored"
    assert turn["acts"][1]["args"]["journal"]["EVENT_ID"] == ["E1"]
    # The host is back, and only the record of the approval was left.
    (turn,) = with_entries(outcome("restored", acts("E1"), standing=()), {"web1": ["restored", ["E1"]]})["web1"]
    assert "journal" not in turn["acts"][1]["args"]
    # Another event still holds it.
    (turn,) = with_entries(outcome("restoring", acts("E1"), standing=("E2",)), {})["web1"]
    assert "journal" not in turn["acts"][1]["args"]


def test_what_a_busy_journal_missed_is_told_once_more():
    (look,) = with_entries(outcome("draining"), {})["web1"]
    missed = [{"turn": look, "reached": True, "journal_missed": True}]
    once = now_written({"web1": missed}, {})
    assert entry(outcome("draining"), once["web1"]) == look["options"]["journal"]
    for results in (missed, [{"turn": look, "reached": True}]):
        twice = now_written({"web1": results}, once)
        assert twice == {"web1": ["draining", ["E1"]]} and entry(outcome("draining"), twice["web1"]) is None


def test_so_is_that_a_host_is_back():
    (turn,) = with_entries(outcome("restoring", acts("E1"), standing=()), {})["web1"]
    written = now_written({"web1": [{"turn": turn, "acts": [{"part": "forgotten", "journal_missed": True}]}]}, {})
    back = outcome("restored", standing=())
    assert behind(back, written) == ["web1"] and entry(back, written["web1"])["STATE"] == "restored"
    written = now_written({"web1": [{"turn": turn, "acts": [{"part": "forgotten"}]}]}, {})
    assert behind(back, written) == [] and entry(back, written["web1"]) is None


def test_what_was_written_is_what_was_carried_out():
    (look,) = with_entries(outcome("draining"), {})["web1"]
    assert now_written({"web1": [{"turn": look, "reached": True}]}, {}) == {"web1": ["draining", ["E1"]]}
    assert now_written({"web1": [{"turn": look, "ended": True}]}, {}) == {"web1": ["draining", ["E1"]]}
    assert now_written({"web1": [{"turn": look, "reached": False}]}, {"web1": ["x", []]}) == {"web1": ["x", []]}
    assert now_written({"web1": [{"turn": LOOK, "reached": True}], "web2": ()}, {}) == {}
    (turn,) = with_entries(outcome("restoring", acts("E1"), standing=()), {})["web1"]
    forgotten = {"part": "forgotten", "changed": True}
    assert now_written({"web1": [{"turn": turn, "acts": [forgotten]}]}, {}) == {"web1": ["restored", ["E1"]]}
    assert now_written({"web1": [{"turn": turn, "acts": [dict(forgotten, failed=True)]}]}, {}) == {}


@pytest.mark.parametrize(
    ("state", "written", "is_behind"),
    [
        ("restored", {"web1": ["restoring", ["E1"]]}, True),
        ("in_service", {"web1": ["waiting", ["E1"]]}, True),
        ("restored", {"web1": ["restored", ["E1"]]}, False),
        ("restored", {}, False),
        ("needs_person", {"web1": ["restoring", ["E1"]]}, False),
    ],
)
def test_a_journal_that_ends_before_its_host_was_back(state, written, is_behind):
    assert behind(outcome(state), written) == (["web1"] if is_behind else [])
