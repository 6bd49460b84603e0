# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the watcher says."""

from __future__ import annotations

import pytest
from graceful_azure_watcher import notes

from tests.support.watcher import parse

STATE = {
    "version": "1+a",
    "settings": "5e7",
    "host": "www_1",
    "action": "awx",
    "doing": "done at noon (job 7)",
    "error": None,
    "written": 1795273200.5,
    "last_answer_age": 0.4,
    "action_failing": True,
    "fast_path_failing": False,
    "seconds_until_not_before": 12.5,
    "events": [
        {"event_id": "E1", "type": "Reboot", "status": "Scheduled", "not_before": "2026-11-21T12:00:00Z", "resources": "www_1,www_2"},
        {"event_id": "E2", "type": 'odd"\n', "status": None, "not_before": None, "resources": "www_1"},
    ],
    "fast_path_held": ["E1"],
    "answers": 5,
    "errors": 1,
    "actions_started": 2,
    "actions_failed": 1,
    "fast_path_started": 1,
    "fast_path_failed": 0,
}


@pytest.mark.parametrize("value", ["plain", "with blank", 'quote"', "a=b", "line\nbreak", "\x1b[31mred", "", "größe", "end\\"])
def test_a_line_is_one_line_and_can_be_read_again(value):
    text = notes.line("gone", {"event_id": value, "none": None, "seconds": 1.0})
    assert text.isprintable()
    assert parse(text) == {"what": "gone", "event_id": value, "seconds": "1"}


def test_metrics():
    rows = [line for line in notes.metrics(STATE).splitlines() if not line.startswith("#")]
    assert 'graceful_azure_watcher_events{status="Scheduled",type="Reboot"} 1' in rows
    assert 'graceful_azure_watcher_events{status="",type="odd\\"\\n"} 1' in rows
    assert "graceful_azure_watcher_seconds_until_not_before 12.5" in rows
    assert "graceful_azure_watcher_not_before_timestamp_seconds 1795273212.6" in rows
    assert "graceful_azure_watcher_written_timestamp_seconds 1795273200.5" in rows
    assert 'graceful_azure_watcher_actions_failed_total{kind="awx"} 1' in rows
    assert "graceful_azure_watcher_last_answer_age_seconds 0.4" in rows
    assert "graceful_azure_watcher_last_answer_timestamp_seconds 1795273200.1" in rows
    assert "graceful_azure_watcher_action_failing 1" in rows and "graceful_azure_watcher_fast_path_failing 0" in rows
    assert not [row for row in rows if "not_before" in row and row.endswith("None")]


def test_what_is_not_known_is_no_number_but_no_answer_yet_is_one_very_long_ago():
    lines = notes.metrics(dict(STATE, events=[], last_answer_age=None, seconds_until_not_before=None)).splitlines()
    unknown = ("graceful_azure_watcher_last_answer_age", "graceful_azure_watcher_not_before", "graceful_azure_watcher_seconds", "graceful_azure_watcher_events")
    assert not [line for line in lines if line.startswith(unknown)]
    assert "graceful_azure_watcher_last_answer_timestamp_seconds 0" in lines


def status(installed="1+a", running=True, settings="5e7", **other):
    return notes.status(dict(STATE, **other), installed, running, settings)


def test_status_for_people():
    lines = status()
    assert lines[0] == "graceful-azure-watcher 1+a, running"
    assert "  Reboot E1 Scheduled, not before 2026-11-21T12:00:00Z: www_1,www_2" in lines
    assert any("2 started, 1 failed" in line for line in lines)
    assert any("fast path failed, or its record cannot be read or written" in line for line in status(fast_path_failing=True))
    assert status(running=False) == ["graceful-azure-watcher 1+a, not running"]
    assert status(running=None) == ["graceful-azure-watcher 1+a, perhaps running: this user may not look"]
    assert any("not answered yet (refused)" in line for line in status(last_answer_age=None, error="refused"))


def test_the_status_of_one_that_was_started_before_something_was_replaced():
    assert not any("restart it" in line for line in status())
    assert "as version 1+a: restart it" in status(installed="2+b")[1]
    assert "with the settings as they were when it was started: restart it" in status(settings="0ther")[1]
    # One that knows of no such thing is older.
    older = {key: value for key, value in STATE.items() if key != "settings"}
    assert "as version 1+a: restart it" in notes.status(older, "2+b", True, "5e7")[1]


FORGED = "red\x1b[31m\r\nAll is well\u202e\x9b\ud800"


def test_what_anybody_says_is_shown_on_its_line_and_paints_nothing():
    events = [dict(STATE["events"][0], type=FORGED, resources=FORGED)]
    shown = status(error=FORGED, doing=FORGED, host=FORGED, events=events, fast_path_held=[FORGED])
    assert len(shown) == len(status(error="well", events=events))
    for text in [*shown, notes.line("gone", {"text": FORGED})]:
        assert text.isprintable()
    for row in notes.metrics(dict(STATE, events=events)).splitlines():
        assert row.isprintable()
    assert notes.clean(FORGED) == "red\\x1b[31m\\r\\nAll is well\\u202e\\x9b\\ud800"
    assert notes.clean(ValueError("größe")) == "größe"
