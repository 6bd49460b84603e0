# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The event filter: which reports of watchers it lets by, and what becomes of them."""

from __future__ import annotations

import logging

import pytest
from graceful_azure_watcher.actions import document_of
from graceful_azure_watcher.decision import Task

from tests.support.eda import names_in

FILTER = names_in("event_filter", "watcher_reports")
Reports, main = FILTER["Reports"], FILTER["main"]
NOTHING = {"change": "nothing"}


def event(event_id="E1", *names, status="Scheduled", not_before="2026-11-21T12:00:00Z", seconds=900):
    return {
        "event_id": event_id,
        "event_status": status,
        "resources": list(names or ["vm-1"]),
        "not_before": not_before,
        "seconds_until_not_before": seconds,
    }


def report(*events, gone=(), **more):
    target = ",".join(dict.fromkeys(name for one in [*events, *gone] for name in one["resources"]))
    return {"source": "graceful.azure.event_watcher", "why": "appeared", "host": "vm-1", "target": target, "events": list(events), "gone": list(gone), **more}


def is_new(reports, now, *events, **more):
    return reports.take(report(*events, **more), now)["change"] == "reported"


class TestReports:
    def test_what_a_report_becomes(self):
        assert Reports().take(report(event("E1", "vm-1", "vm-2")), 0) == {"change": "reported", "target": "vm-1,vm-2", "lane": "vm-1,vm-2"}

    def test_what_the_watcher_sends(self):
        reports = Reports()
        one = event("E1", "vm-1", "all:!vm-1", "vm-2")
        for task in (Task("appeared", [one], []), Task("changed", [], [one])):
            assert reports.take(document_of(task, "vm-1", "1.0.0"), 0) == {"change": "reported", "target": "vm-1,vm-2", "lane": "vm-1,vm-2"}

    def test_a_target_of_the_settings(self):
        """As the group with all hosts behind one health probe."""
        document = document_of(Task("appeared", [event("E1", "vm-1")], []), "vm-1", "1.0.0", "web")
        assert Reports().take(document, 0) == {"change": "reported", "target": "web", "lane": "web"}

    def test_each_vm_of_an_event_reports_it(self):
        reports = Reports()
        answers = [is_new(reports, now, event("E1", "vm-1", "vm-2", seconds=900 - now), host=host) for now, host in enumerate(("vm-1", "vm-2", "vm-1"))]
        assert answers == [True, False, False]

    def test_what_is_new_at_once(self):
        reports = Reports()
        assert is_new(reports, 0, event("E1"))
        assert is_new(reports, 1, event("E1"), event("E2"))
        assert is_new(reports, 2, event("E1", status="Started", not_before=None), event("E2"))
        assert is_new(reports, 3, event("E2"), gone=[event("E1")])
        assert not is_new(reports, 4, event("E2"), gone=[event("E1")])
        # A service that showed nothing for a moment.
        assert is_new(reports, 5, event("E1"), event("E2"))
        assert is_new(reports, 6, event("E1", "vm-1", "vm-2"), event("E2"))

    def test_an_event_of_another_type_is_new(self):
        reports = Reports()
        kinds = ["Freeze", "Freeze", "Redeploy", "Redeploy"]
        assert [is_new(reports, now, dict(event(), event_type=kind)) for now, kind in enumerate(kinds)] == [True, False, True, False]

    def test_a_watcher_that_repeats_for_hours(self):
        reports = Reports()
        passed = [now for now in range(0, 18000, 60) if is_new(reports, now, event("E1"))]
        # Never more of them than runs of an hour can take.
        assert passed == [0, 300, 900, 2100, 4500, 8100, 11700, 15300]

    def test_a_vm_that_lags_behind(self):
        reports = Reports()
        assert is_new(reports, 0, event("E1"), host="vm-1")
        assert is_new(reports, 10, event("E1", status="Started", not_before=None), host="vm-1")
        # The other has not heard of it yet, and then has.
        assert not is_new(reports, 11, event("E1"), host="vm-2")
        assert not is_new(reports, 12, event("E1", status="Started", not_before=None), host="vm-2")
        assert is_new(reports, 20, gone=[event("E1")], host="vm-1")
        assert not is_new(reports, 21, event("E1", status="Started", not_before=None), host="vm-2")
        assert is_new(reports, 21.5, event("E1"), event("E2"), host="vm-2")
        assert not is_new(reports, 22, event("E2"), gone=[event("E1")], host="vm-2")
        # That is no lag any more: it stands again.
        assert is_new(reports, 31, event("E1"), host="vm-2")

    def test_a_vm_that_lags_for_ever_reminds_all_the_same(self):
        reports = Reports()
        assert is_new(reports, 0, event("E1", status="Started", not_before=None), host="vm-1")
        assert [now for now in range(60, 1000, 60) if is_new(reports, now, event("E1"), host="vm-2")] == [300, 900]

    def test_a_lane_has_the_runs_for_the_same_hosts_alone(self):
        reports = Reports()
        lanes = [reports.take(report(event(*words)), 0)["lane"] for words in (("E1", "vm-1", "vm-2"), ("E2", "VM-2", "vm-1"), ("E3", "vm-2"))]
        assert lanes == ["vm-1,vm-2", "vm-1,vm-2", "vm-2"]

    def test_an_event_is_reported_for_each_target_of_the_settings(self):
        """As where it names VMs of two pools, whose watchers have a target each: the run for one has no host of the other."""
        reports = Reports()
        one = event("E1", "vm-1", "vm-2")
        targets = [(0, "front"), (1, "back"), (2, "front"), (3, "back"), (300, "front"), (301, "back"), (302, "front"), (303, "back")]
        assert [now for now, target in targets if is_new(reports, now, one, target=target, host=target)] == [0, 1, 300, 301]
        # One without a target has all of them, whatever else it reports.
        assert is_new(reports, 304, one)
        assert not is_new(reports, 305, event("E1", "VM-2", "vm-1"), host="vm-2")
        assert [is_new(reports, 400, gone=[one], target=target, host="vm-1") for target in ("front", "back", "front")] == [True, True, False]

    def test_vms_that_differ_report_no_change_again_and_again(self):
        reports = Reports()
        moved = event(not_before="2026-11-21T12:05:00Z")
        said = [(event(), "vm-1"), (event(), "vm-2"), (moved, "vm-1"), (event(), "vm-2"), (moved, "vm-1"), (moved, "vm-2"), (event(), "vm-2"), (moved, "vm-1")]
        answers = [is_new(reports, now, shown, host=host) for now, (shown, host) in enumerate(said)]
        assert answers == [True, False, True, False, False, False, True, False]
        # Nor beside news of another event.
        assert [is_new(reports, now, *shown, host="vm-1") for now, shown in enumerate(([moved, event("E2")], [moved, event("E2")]), 8)] == [True, False]
        assert not is_new(reports, 10, event(), host="vm-2")

    @pytest.mark.parametrize("target", ["{{ lookup('pipe', 'id') }}", "vm-1,{{ x }}", "all:!vm-1", "vm-*", "~.*", "vm-1,", "", ["vm-1"], None, 1])
    def test_a_target_that_is_more_than_names(self, target, caplog):
        with caplog.at_level(logging.WARNING):
            assert Reports().take(report(event(), target=target), 0) == NOTHING
        assert "target must be names of hosts" in caplog.text

    @pytest.mark.parametrize(
        "more",
        [{"events": None}, {"events": [1]}, {"gone": "E1"}, {"events": [{"event_id": 1, "resources": []}]}, {"events": [{"event_id": "E1"}]}, {"events": []}],
    )
    def test_a_malformed_report(self, more, caplog):
        with caplog.at_level(logging.WARNING):
            assert Reports().take({**report(event()), **more}, 0) == NOTHING
        assert "refused" in caplog.text

    def test_no_text_of_a_sender_is_handed_on(self):
        taken = Reports().take(report(event("{{ id }}"), host="{{ host }}", why="{{ why }}", more="{{ more }}"), 0)
        assert taken == {"change": "reported", "target": "vm-1", "lane": "vm-1"}


@pytest.mark.parametrize("payload", [{"payload": {"source": "somebody else"}}, {"payload": [1]}, {"payload": "text"}, {"payload": None}, {}])
def test_what_is_no_report(payload, caplog):
    assert main(payload) == NOTHING and not caplog.text


def test_a_report_as_the_webhook_hands_it_on():
    given = {"payload": report(event()), "meta": {"endpoint": "endpoint", "headers": {"X": "{{ x }}"}}}
    assert [main(given)["change"] for _time in range(2)] == ["reported", "nothing"]
