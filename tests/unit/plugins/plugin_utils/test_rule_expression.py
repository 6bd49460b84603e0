# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with a rule's when, found before any event stands."""

from __future__ import annotations

import itertools

import jmespath
import pytest
from ansible_collections.graceful.azure.plugins.module_utils._events import EVENT_KEYS
from ansible_collections.graceful.azure.plugins.module_utils._selection import SelectionError, compile_expression
from ansible_collections.graceful.azure.plugins.plugin_utils._rule_expression import expression_mistakes
from ansible_collections.graceful.azure.plugins.plugin_utils._rules import check_rules

FULL = {
    "event_id": "602d9444-d2cd-49c7-8624-8643e7171297",
    "event_type": "Reboot",
    "event_status": "Scheduled",
    "event_source": "Platform",
    "resource_type": "VirtualMachine",
    "resources": ["web_0", "web_1"],
    "not_before": "2026-09-19T18:29:47Z",
    "description": "Host server is undergoing maintenance.",
    "duration_in_seconds": 5,
    "affects_host": True,
    "seconds_until_not_before": 5.0,
}
OTHERS = {
    "event_id": ["Reboot", "5"],
    "event_type": ["Freeze", "Redeploy", "Preempt", "Terminate", "Teleport", None],
    "event_status": ["Started", None],
    "event_source": ["User", None],
    "resource_type": [None],
    "resources": [[], ["vm1"], ["Reboot"]],
    "not_before": ["2027-01-01T00:00:00Z", None],
    "description": ["", "Reboot", "vm1", None],
    "duration_in_seconds": [-1, 0, 60, None],
    "affects_host": [False, None],
    "seconds_until_not_before": [-3.5, 60.0, None],
}
EVENTS = [FULL] + [dict(FULL, **{key: value}) for key, values in OTHERS.items() for value in values]

SENSIBLE = [
    "event_type == 'Reboot'",
    "event_type != 'Freeze'",
    "event_type == 'Teleport'",
    "event_type == 'Freeze' && duration_in_seconds >= `0` && duration_in_seconds < `9`",
    "event_type == 'Freeze' || event_type == 'Reboot'",
    "contains(['Reboot', 'Redeploy'], event_type)",
    "contains(`[\"Reboot\", \"Migrate\"]`, event_type)",
    "!contains(['Reboot', 'Redeploy'], event_type)",
    "event_source == 'User' && event_status == 'Scheduled'",
    "event_source != 'User'",
    "contains(resources, 'web_0')",
    "resources == ['web_0']",
    "resources[0] == 'web_0'",
    "resources[?starts_with(@, 'db-')]",
    "resources[?starts_with(@, 'db-')] | [0]",
    "resources[?contains(@, 'spare')] == `[]`",
    "length(resources) > `1`",
    "length(resources[?ends_with(@, '_0')]) == length(resources)",
    "length(resources[?@ != 'web_0']) == `0`",
    "seconds_until_not_before > `3600`",
    "seconds_until_not_before < `86400` && seconds_until_not_before > `-5.5`",
    "seconds_until_not_before",
    "not_before == `null`",
    "not_before < '2026-12-24'",
    "not_before >= '2026-12-24T08:00' && not_before < '2027-01-02T00:00:00Z'",
    "starts_with(not_before, '2026-12-24')",
    "description && contains(description, 'Live Migration')",
    "contains(description || '', 'Spot')",
    "(event_source || 'Platform') == 'Platform'",
    "(event_type || 'none') == 'none'",
    "not_null(event_source, 'nobody') == 'nobody'",
    "affects_host == `true`",
    "affects_host",
    "!affects_host",
    "event_id == '602d9444-d2cd-49c7-8624-8643e7171297'",
    "event_type == `null`",
    "`true`",
    "`false`",
    "@.event_type == 'Reboot'",
    "@ | event_type == 'Reboot'",
    "{kind: event_type, names: resources} | kind == 'Reboot' && names[0] == 'web_0'",
    "[event_type, event_source] == ['Freeze', 'User']",
    "[event_type, event_source][?@ == 'User']",
    "type(not_before) == 'null'",
    "to_string(duration_in_seconds) == '5'",
    "to_number('5') == duration_in_seconds",
    "max([duration_in_seconds, `0`]) < `10`",
    "sort(resources)[0] == 'web_0'",
    "join(',', resources) == 'web_0,web_1'",
    "max_by(resources, &length(@)) == 'web_10'",
    "map(&length(@), resources)[0] > `3`",
    "starts_with(event_type, 'Re')",
    "contains(event_type, 'boot')",
    "resources[:2] == ['web_0', 'web_1']",
    "resources[*] == ['web_0']",
    "keys(@)[?@ == 'event_id']",
]


@pytest.mark.parametrize("when", SENSIBLE)
def test_no_false_alarm(when):
    assert expression_mistakes(when) == []


@pytest.mark.parametrize(
    ("when", "words"),
    [
        # Words that differ from a known one by case or blanks, and words that do not exist.
        ("event_type == 'reboot'", ["never true", "'Reboot'"]),
        ("'REDEPLOY ' == event_type", ["'Redeploy'"]),
        ("event_type != 'freeze'", ["always true", "'Freeze'"]),
        ("event_status == 'scheduled'", ["'Scheduled'"]),
        ("event_status == 'Completed'", ["one of Scheduled, Started"]),
        ("event_source == 'platform'", ["'Platform'"]),
        ("event_source == 'Azure'", ["one of Platform, User"]),
        ("resource_type == 'VM'", ["VirtualMachine"]),
        ("contains(['Reboot', 'redeploy'], event_type)", ["'redeploy'", "write 'Redeploy'"]),
        ("contains(`[\"Reboot\", \"user\"]`, event_source || 'Reboot')", ["write 'User'"]),
        ("starts_with(event_type, 're')", ["write 'Re'"]),
        ("contains(event_type, 'BOOT')", ["write 'boot'"]),
        ("(event_type || 'none') == 'NONE'", ["write 'none'"]),
        ("{a: event_type}.a == 'reboot'", ["'Reboot'"]),
        ("[event_type][?@ == 'reboot']", ["'Reboot'"]),
        ("type(resources) == 'list'", ["array"]),
        # Values of another type.
        ("event_type == `5`", ["event_type is a string", "number"]),
        ("event_id == `null`", ["event_id is never null"]),
        ("resources != `null`", ["always true", "resources is never null"]),
        ("resources == 'vm1'", ["contains(resources, 'vm1')"]),
        ("resources != 'vm1'", ["!contains(resources, 'vm1')"]),
        ("resources == `[1]`", ["entries", "string"]),
        ("resources[0] == `1`", ["resources[0]", "number"]),
        ("resources[?@ == `1`]", ["string", "number"]),
        ("contains(resources, `5`)", ["entries of resources", "number"]),
        ("not_before == `5`", ["seconds_until_not_before"]),
        ("not_before < `5`", ["seconds_until_not_before"]),
        ("not_before < 'tomorrow'", ["2026-01-31T12:00:00Z"]),
        ("not_before == 'Mon, 19 Sep 2016 18:29:47 GMT'", ["2026-01-31T12:00:00Z"]),
        ("seconds_until_not_before < '60'", ["backticks", "`60`"]),
        ("duration_in_seconds == '-1'", ["`-1`"]),
        ("affects_host == 'true'", ["`true`"]),
        ("length(resources) == '1'", ["`1`"]),
        ("!event_type == 'Reboot'", ["!event_type", "true or false"]),
        ("event_type.event_id", ["event_id is looked up in a string"]),
        ("resources[?event_type == 'Reboot']", ["event_type is looked up in a string"]),
        ("[?event_type == 'Reboot']", ["one event, not of a list"]),
        ("[0].event_type == 'Reboot'", ["one event, not of a list"]),
        ("event_type[0] == 'R'", ["no list"]),
        # Calls that fail for every event.
        ("contains(event_type, `5`)", ["cannot be evaluated"]),
        ("starts_with(resources, 'web')", ["cannot be evaluated", "resources is a list"]),
        ("contains(resources)", ["1 argument", "takes 2"]),
        ("lower(event_type) == 'reboot'", ["no function 'lower'", "starts_with"]),
        # What is true for every event.
        ("event_type == 'Reboot' || 'redeploy'", ["always true", "event_type == 'Redeploy'"]),
        ("'User'", ["always true", "event_source == 'User'"]),
        ("length(resources)", ["every number is true", "length(resources) > `0`"]),
        # Unknown words, wherever they stand.
        ("event_type == Freeze", ["'Freeze'", "single quotes"]),
        ("length(resource) > `1`", ["'resource'"]),
        ("resources[?contains(@, name)]", ["'name'"]),
        ("sort_by(resources, &size)[0] == 'a'", ["'size'"]),
        ("{a: event_type, b: typ}.a == 'Reboot'", ["'typ'"]),
        ("!(affects_host && event_typ)", ["'event_typ'"]),
        # Other languages.
        ("duration_in_seconds > 5", ["backticks"]),
        ("event_type = 'Reboot'", ["=="]),
        ("event_type == 'Reboot' and affects_host", ["&&"]),
        ("event_type ==", ["no JMESPath expression"]),
        ("", ["no JMESPath expression"]),
    ],
)
def test_each_mistake_says_what_is_wrong(when, words):
    (mistake,) = expression_mistakes(when)
    for word in words:
        assert word in mistake
    assert "..." not in mistake


def test_all_mistakes_of_all_rules_at_once_each_with_its_rule():
    mistakes = check_rules(
        [
            {"name": "first", "when": "event_typ == 'Freeze' && durations < `9` || event_source == 'user'"},
            {"name": "second", "when": "resources == 'vm1'", "action": "hope"},
            {"name": "third", "when": "event_type == 'Freeze'"},
        ]
    )
    assert ["(first)" in mistake for mistake in mistakes] == [True] * 3 + [False] * 2
    assert ["(second)" in mistake for mistake in mistakes] == [False] * 3 + [True] * 2
    for word in ("'event_typ'", "'durations'", "'User'", "'hope'", "contains(resources, 'vm1')"):
        assert any(word in mistake for mistake in mistakes)


def test_nested_too_deeply():
    (mistake,) = expression_mistakes("!" * 700 + "affects_host")
    assert "nested too deeply" in mistake or "no JMESPath expression" in mistake


VALUES = [*EVENT_KEYS, "resources[0]", "length(resources)", "@", "[event_type]", "(event_source || 'none')", "!affects_host", "to_string(duration_in_seconds)"]
LITERALS = [
    "'Reboot'", "'reboot'", "'Teleport'", "'User'", "'user'", "'Started'", "'Completed'", "'VirtualMachine'", "'vm1'", "''", "'60'", "'5'", "'true'",
    "'2026-09-19T18:29:47Z'", "'2026-12'", "'none'", "`5`", "`0`", "`60.0`", "`true`", "`false`", "`null`", "`[]`", "`[\"vm1\"]`", "`[7]`", "`{}`",
]  # fmt: skip


def answers(text):
    """What an expression yields for each of the events; 'error' where it cannot be evaluated."""
    expression = jmespath.compile(text)
    found = []
    for event in EVENTS:
        try:
            found.append(bool(expression.search(event)))
        except (ValueError, TypeError):
            found.append("error")
    return found


@pytest.mark.parametrize("operator", ["==", "!=", "<", ">=", "contains", "contained", "starts_with"])
def test_what_is_a_mistake_answers_the_same_for_every_event(operator):
    """And what is none never fails because of a type that could be known."""
    called = {"contains": "contains({0}, {1})", "contained": "contains({1}, {0})", "starts_with": "starts_with({0}, {1})"}
    flagged = 0
    for value, literal in itertools.product(VALUES, LITERALS):
        text = called.get(operator, "{0} " + operator + " {1}").format(value, literal)
        found = answers(text)
        if expression_mistakes(text):
            flagged += 1
            # Letters can be put into an order whether or not they are a date.
            if not (value == "not_before" and operator in ("<", ">=")):
                assert len(set(found) - {"error"}) <= 1, text
        else:
            # With every field there, it can be evaluated.
            assert found[0] != "error", text
    assert flagged


@pytest.mark.parametrize("when", ["contains(description, event_source)", "resources[::0]", "event_id < duration_in_seconds"])
def test_what_jmespath_itself_does_not_catch_is_still_a_sentence(when):
    with pytest.raises(SelectionError, match="cannot be evaluated"):
        compile_expression(when, EVENT_KEYS).search(dict(FULL, event_source=None))
