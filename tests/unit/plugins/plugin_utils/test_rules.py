# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._rules import PRESETS, check_rules, rule_for, rules_of
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import read_settings

from tests.support.model import Model

EVENT = {
    "event_id": "e1",
    "event_type": "Freeze",
    "event_status": "Scheduled",
    "event_source": "Platform",
    "resource_type": "VirtualMachine",
    "resources": ["web_0"],
    "not_before": None,
    "description": "",
    "duration_in_seconds": 0,
    "affects_host": True,
    "seconds_until_not_before": None,
}


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("prepare", ["'prepare'", "neither a list of rules nor a preset", "azure_sample"]),
        ("Azure_Sample", ["Azure_Sample", "azure_sample"]),
        ({"name": "a"}, ["neither a list of rules nor a preset"]),
        (7, ["7", "neither a list"]),
        (["prepare"], ["rule 1", "not a dictionary"]),
        ([{"when": "event_type == 'Freeze'"}], ["rule 1", "name is required"]),
        ([{"name": "a", "then": 1}], ["(a)", "then"]),
        ([{"name": "a", "action": "drain"}], ["(a)", "drain", "prepare_and_approve"]),
        ([{"name": "a", "on_drain_timeout": "fail"}], ["(a)", "fail", "hold"]),
        ([{"name": "a", "lead_time": -1}], ["(a)", "lead_time", "-1"]),
        ([{"name": "a", "lead_time": True}], ["(a)", "lead_time", "True"]),
        ([{"name": "a", "lead_time": float("nan")}], ["(a)", "lead_time"]),
        ([{"name": "a", "lead_time": "-1"}], ["(a)", "lead_time", "'-1'"]),
        ([{"name": "a", "lead_time": "an hour"}], ["(a)", "lead_time", "'an hour'"]),
        ([{"name": "a", "when": 7}], ["(a)", "when", "7"]),
        ([{"name": "a", "when": "event_type =="}], ["(a)", "when"]),
        ([{"name": "a", "when": "event_type == Freeze"}], ["(a)", "Freeze"]),
        ([{"name": "a", "when": "starts_with(not_before, '2027')"}], ["(a)", "not_before is null", "starts_with(not_before || '', '2027')"]),
        ([{"name": "a"}, {"name": "a"}], ["another rule has the same name"]),
    ],
)
def test_each_mistake_is_told_with_its_rule(rules, words):
    (mistake,) = check_rules(rules)
    for word in words:
        assert word in mistake


SHORT = "event_type == 'Freeze' && duration_in_seconds < `9`"


@pytest.mark.parametrize("when", [SHORT, "!(duration_in_seconds > `8`)", "abs(duration_in_seconds) <= `2`", "event_source == 'User' || " + SHORT])
def test_an_unknown_length_is_no_short_one(when):
    """-1 is less than every limit, so such a rule would leave hosts unprepared for what may take an hour."""
    event = dict(EVENT, event_type="Freeze")

    def decides(text, seconds):
        rules = [{"name": "short", "when": text, "action": "ignore"}]
        assert check_rules(rules) == []
        return rule_for(rules, dict(event, duration_in_seconds=seconds))["name"] == "short"

    assert decides(when, 2) and not decides(when, -1)
    assert decides(f"duration_in_seconds == `-1` || ({when})", -1)
    assert not decides(f"seconds_until_not_before > `-5` && ({when})", -1)


@pytest.mark.parametrize(
    ("when", "is_true"),
    [
        ("event_type == 'Freeze'", True),
        ("duration_in_seconds < `0`", True),
        ("!(duration_in_seconds >= `0`)", True),
        ("contains(`[-1, 0]`, duration_in_seconds)", True),
        ("to_string(duration_in_seconds) == '-1'", True),
        (None, True),
        ("duration_in_seconds >= `0`", False),
        ("duration_in_seconds > `60`", False),
        ("duration_in_seconds == `0`", False),
    ],
)
def test_what_else_is_asked_of_an_unknown_length(when, is_true):
    event = dict(EVENT, event_type="Freeze", duration_in_seconds=-1)
    assert (rule_for([{"name": "any", "when": when, "action": "approve"}], event)["name"] == "any") is is_true


def test_all_mistakes_at_once():
    assert len(check_rules([{"name": "a", "x": 1, "action": "y", "lead_time": "z"}, {}])) == 4


@pytest.mark.parametrize("rules", [None, [], "azure_sample", [{"name": "a"}], [{"name": "a", "when": "contains(resources, 'web_0')", "lead_time": 0}]])
def test_no_mistake(rules):
    assert check_rules(rules) == []


def test_the_first_that_is_true_decides():
    rules = [
        {"name": "no", "when": "event_type == 'Reboot'", "action": "ignore"},
        {"name": "yes", "when": "event_type == 'Freeze'", "action": "prepare"},
        {"name": "late", "action": "approve"},
    ]
    assert rule_for(rules, EVENT)["name"] == "yes"
    assert rule_for(rules, dict(EVENT, event_type="Redeploy"))["action"] == "approve"


@pytest.mark.parametrize(
    ("when", "true"),
    [("duration_in_seconds", True), ("description", False), ("not_before", False), ("resources", True), ("affects_host", True), ("resources[5]", False)],
)
def test_truth_is_that_of_jmespath(when, true):
    assert (rule_for([{"name": "mine", "when": when}], EVENT)["name"] == "mine") is true


@pytest.mark.parametrize(("when", "true"), [("description != null", True), ("not_before == null", True), ("not_before != null", False)])
def test_null_may_stand_without_backticks(when, true):
    rules = [{"name": "mine", "when": when}]
    assert check_rules(rules) == []
    assert (rule_for(rules, EVENT)["name"] == "mine") is true


def test_without_rules_known_types_are_approved_and_unknown_ones_are_not():
    assert rule_for([], EVENT)["action"] == "prepare_and_approve"
    assert rule_for(None, dict(EVENT, event_type="Teleport"))["action"] == "prepare"
    assert rule_for(None, dict(EVENT, event_type=None))["action"] == "prepare"


class TestPresets:
    @pytest.mark.parametrize("name", sorted(PRESETS))
    def test_a_preset_is_a_list_without_mistakes(self, name):
        assert check_rules(name) == check_rules(PRESETS[name]) == []
        assert rules_of(name) == PRESETS[name]

    @pytest.mark.parametrize("value", [None, "", [], [{"name": "a"}]])
    def test_a_list_is_itself(self, value):
        assert rules_of(value) == (value or [])

    @pytest.mark.parametrize(("lead_time", "seconds"), [("600", 600.0), ("0.5", 0.5), ("", None)])
    def test_a_lead_time_from_a_template_is_a_text_before_core_2_19(self, lead_time, seconds):
        rules = [{"name": "a", "lead_time": lead_time}]
        assert check_rules(rules) == []
        assert rule_for(rules_of(rules), EVENT)["lead_time"] == seconds

    @pytest.mark.parametrize(
        ("more", "action"),
        [
            ({"event_type": "Reboot", "event_source": "User"}, "approve"),
            ({"event_type": "Terminate", "event_source": "User"}, "approve"),
            ({"duration_in_seconds": 0}, "approve"),
            ({"duration_in_seconds": 8}, "approve"),
            ({"duration_in_seconds": 9}, "ignore"),
            ({"duration_in_seconds": -1}, "ignore"),
            ({"duration_in_seconds": None}, "ignore"),
            ({"event_type": "Reboot"}, "ignore"),
            ({"event_type": "Teleport", "event_source": None}, "ignore"),
        ],
    )
    def test_azure_sample_approves_what_the_sample_approves(self, more, action):
        rule = rule_for(rules_of("azure_sample"), dict(EVENT, **more))
        assert rule["action"] == action
        assert rule["name"].startswith("azure_sample: ")

    def test_the_plan_gets_the_list_and_a_wrong_name_is_told_with_its_host(self):
        hosts = {
            "web1": {"graceful_azure_duties": [], "graceful_azure_rules": "azure_sample"},
            "web2": {"graceful_azure_duties": [], "graceful_azure_rules": "sample"},
        }
        settings, mistakes = read_settings(hosts, {"web1", "web2"})
        assert settings["web1"]["rules"] == PRESETS["azure_sample"]
        assert len(mistakes) == 1
        for word in ("web2", "'sample'", "azure_sample"):
            assert word in mistakes[0]

    def test_it_approves_at_once_with_the_host_in_rotation_and_leaves_the_rest_alone(self):
        model = Model(rules=rules_of("azure_sample"))
        model.announce("short", "web1", event_type="Freeze", event_source="Platform", duration_in_seconds=5)
        model.announce("reboot", "web2", event_type="Reboot", event_source="Platform")
        model.go()
        model.go()
        assert [event_id for _at, event_id, _by in model.posted] == ["short"]
        assert model.in_rotation("web1") == model.in_rotation("web2") == ["lb1"]
