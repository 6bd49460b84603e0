# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""handle_events --check explains what it would do."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.timeout(300)


def test_every_event_with_its_rule_and_what_why_and_when(site):
    first = site.simulator.post_event(EventType="Redeploy", Resources=["web1"], NoticeSeconds=600)
    second = site.simulator.post_event(EventType="Freeze", Resources=["web2"], DurationInSeconds=2)
    third = site.simulator.post_event(EventType="Reboot", Resources=["elsewhere"])
    rules = [{"name": "short freezes", "when": "event_type == 'Freeze' && duration_in_seconds == `2`", "action": "ignore"}]
    run = site.run("handle_events", "--check", graceful_azure_rules=rules)
    assert run.status == 0, run.output
    for words in (
        f"Redeploy {first} (web1): Scheduled, not before",
        "rule 'built-in: known event type' decides (no other rule is met): out of the balancer and drained, then approved",
        "preparing begins at once; to be ready by",
        "web1: draining: next it goes out of its balancer",
        f"Freeze {second} (web2): Scheduled, not before",
        "rule 'short freezes' decides (when: event_type == 'Freeze' && duration_in_seconds == `2`): left alone",
        "web2: in_service: rule 'short freezes': left alone",
        f"Reboot {third} (elsewhere): Scheduled",
        "names none of the targets: left alone",
    ):
        assert words in run.output, words
    assert run.event(first)["outcome"] == "in_progress"
    assert run.about == {"check": True, "unread": {}, "failed": False, "messages": []}
    assert site.admin_states() == {"web1": "ready", "web2": "ready"}
    assert not (site.folder / "state").exists()
    assert all(site.simulator.event(event_id)["Approvals"] == [] for event_id in (first, second, third))


def test_the_preset_and_a_name_that_is_none(site):
    short = site.simulator.post_event(EventType="Freeze", Resources=["web2"], DurationInSeconds=2)
    run = site.run("handle_events", "--check", graceful_azure_rules="azure_sample")
    assert run.status == 0, run.output
    assert f"Freeze {short} (web2)" in run.output
    assert "rule 'azure_sample: a freeze of less than 9 s' decides" in run.output
    assert "approved without preparing" in run.output

    wrong = site.run("handle_events", "--check", graceful_azure_rules="azure-sample")
    assert wrong.status != 0
    assert "'azure-sample' is neither a list of rules nor a preset (azure_sample)" in wrong.output
