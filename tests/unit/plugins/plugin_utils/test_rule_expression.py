# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with a rule's when, found before any event stands."""

from __future__ import annotations

import itertools
import time

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
    "seconds_until_not_before": [-3.5, 60.0, None],
}
EVENTS = [FULL] + [dict(FULL, **{key: value}) for key, values in OTHERS.items() for value in values]
# Each meets one of the conditions that stand before a call below.
EVENTS_OF_GUARDS = [
    dict(FULL, event_status="Started", event_source="User"),
    dict(FULL, event_type="Freeze"),
    dict(FULL, event_type="Teleport"),
    dict(FULL, event_source=None),
    dict(FULL, duration_in_seconds=75),
    dict(FULL, seconds_until_not_before=90000.0),
    dict(FULL, not_before="2026-12-24T18:29:47Z"),
    dict(FULL, resources=["db-1"]),
    dict(FULL, description="Live"),
]

SENSIBLE = [
    "event_type == 'Reboot'",
    "event_type != 'Freeze'",
    "event_type == 'Teleport'",
    "event_type == 'Freeze' && duration_in_seconds >= `0` && duration_in_seconds < `9`",
    "event_type == 'Freeze' || event_type == 'Reboot'",
    "contains(['Reboot', 'Redeploy'], event_type)",
    'contains(`["Reboot", "Migrate"]`, event_type)',
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
    "starts_with(not_before || '', '2026-12-24')",
    "not_before && starts_with(not_before, '2026-12-24')",
    "not_before != `null` && starts_with(not_before, '2026-12-24')",
    "description && contains(description, 'Live Migration')",
    "contains(description || '', 'Spot')",
    "(event_source || 'Platform') == 'Platform'",
    "(event_type || 'none') == 'none'",
    "not_null(event_source, 'nobody') == 'nobody'",
    "affects_host == `true`",
    "affects_host",
    "affects_host && event_type == 'Freeze'",
    "!(affects_host && event_type == 'Freeze')",
    "event_id == '602d9444-d2cd-49c7-8624-8643e7171297'",
    "event_type == `null`",
    "`true`",
    "`false`",
    "`true` == `false`",
    "@.event_type == 'Reboot'",
    "@ | event_type == 'Reboot'",
    "{kind: event_type, names: resources} | kind == 'Reboot' && names[0] == 'web_0'",
    "[event_type, event_source] == ['Freeze', 'User']",
    "[event_type, event_source][?@ == 'User']",
    "type(not_before) == 'null'",
    "to_string(duration_in_seconds) == '5'",
    "to_number('5') == duration_in_seconds",
    "max([duration_in_seconds || `0`, `0`]) < `10`",
    "sort(resources)[0] == 'web_0'",
    "join(',', resources) == 'web_0,web_1'",
    "max_by(resources, &length(@)) == 'web_10'",
    "map(&length(@), resources)[0] > `3`",
    "starts_with(event_type, 'Re')",
    "contains(event_type, 'boot')",
    "resources[:2] == ['web_0', 'web_1']",
    "resources[*] == ['web_0']",
    "keys(@)[?@ == 'event_id']",
    "contains(['Freeze', 'Reboot'], event_type)",
    "contains(['Freeze', 'Reboot', null], event_type)",
    "event_type == 'Freeze' || event_type == 'Reboot' || event_type == 'Redeploy'",
    "event_type == 'Freeze' | @ && `true`",
    "event_type == 'Freeze' && (event_source == 'User' || length(resources) == `1`)",
    "!(event_type == 'Freeze' || event_type == 'Reboot')",
    "not_null(event_type, 'none') != 'none'",
    "(description || event_source || '') != ''",
    "duration_in_seconds != null && duration_in_seconds < `10`",
    "duration_in_seconds != `null` && abs(duration_in_seconds) < `10`",
    "duration_in_seconds && to_string(duration_in_seconds) == '-1'",
    "not_before == null || contains(not_before, 'T0')",
    "event_status == 'Scheduled' && ends_with(not_before || '', '00:00Z')",
    "description != null && (contains(description, 'Live') || contains(description, 'live'))",
    "type(description) == 'string' && starts_with(description, 'Host')",
    "contains(description || '', 'x')",
    "contains(not_null(description, ''), 'x')",
    "length(not_null(description, event_source, '')) > `3`",
    "contains([description, event_source], 'User')",
    "contains(to_string(description), 'migration')",
    "resources[?contains(@, 'web') || contains(@, 'api')]",
    "length(resources) == `1` && starts_with(resources[0], 'web')",
    "length(resources) > `1` && starts_with(resources[1], 'web')",
    "contains(join(',', resources), 'web')",
    "floor(seconds_until_not_before || `0`) > `60`",
    "seconds_until_not_before != `null` && ceil(seconds_until_not_before) > `60`",
    "not_before > '2026-12-23' && not_before < '2027-01-07' && contains(description || '', 'x')",
    "sort([event_type || '', event_source || ''])[0] == 'Freeze'",
    "event_type == 'Freeze' && resources[0] == 'Freeze'",
    "contains(resources, 'WEB_0')",
    "contains(resources, 'VM_0')",
    "resources[0] == 'VM_0'",
    "resources[5] == 'web_5'",
    "resources[5] != null",
    "resources[-1] == 'web_1'",
    "length(resources) > `5` && starts_with(resources[5], 'web')",
    "resources[0] && starts_with(resources[0], 'web')",
    "starts_with(resources[0], 'web')",
    "resources[?@ == 'web_0' || @ == 'web_1']",
    "resources[?contains(['web_0', 'web_1'], @)]",
    "resources[?starts_with(@, 'db-')] | [0] == 'db-1'",
    "resources[?starts_with(@, 'db-')] | length(@) > `0`",
    "length(resources[?starts_with(@, 'db-')]) > `0` && event_type == 'Redeploy'",
    "resources | length(@) == `1`",
    "resources | contains(@, 'web_0')",
    "resources | sort(@) | [0] == 'a'",
    "join('', sort(resources)) == 'ab'",
    "reverse(resources)[0] == 'x'",
    "to_string(@) != ''",
    "contains(to_string(@), 'Reboot')",
    "event_type != 'Terminate' && event_type != 'Preempt'",
    "!(event_type == 'Terminate') && !(event_type == 'Preempt')",
    "event_type == 'Migrate'",
    "event_type == 'MyNewType' || event_source == 'User'",
    "contains(['Freeze', 'Migrate', 'Teleport'], event_type)",
    "event_type && event_type != 'Freeze'",
    "event_source",
    "!event_source",
    "!description",
    "description",
    "!(description && contains(description, 'memory-preserving'))",
    "description == ''",
    "description != ''",
    "description == null || description == ''",
    "description == 'Host server is undergoing maintenance.'",
    "description == 'host server is undergoing maintenance.'",
    "contains(description, 'host server')",
    "starts_with(description, 'host')",
    "event_id == '602D9444-D2CD-49C7-8624-8643E7171297'",
    "starts_with(event_id, '602D')",
    "not_before",
    "!not_before",
    "not_before == null",
    "not_before != null",
    "not_before > ''",
    "not_before > '2026'",
    "not_before < '2026-12-24T18'",
    "not_before < '2026-12-24T18:30'",
    "not_before < '2026-12-24T18:30:00Z' || not_before > '2027-01-01T00:00:00Z'",
    "'2026-12-24' < not_before",
    "not_before == '2026-12-24T18:30:00Z'",
    "contains(not_before || '', 'T03:')",
    "ends_with(not_before || '', ':00Z')",
    "not_before && ends_with(not_before, '00Z')",
    "event_status == 'Scheduled' && starts_with(not_before, '2026-12-24')",
    "event_status == 'Scheduled' && seconds_until_not_before > `600`",
    "event_status == 'Scheduled' && floor(seconds_until_not_before) > `600`",
    "event_status != 'Started' && starts_with(not_before, '2026')",
    "event_status == 'Started' || starts_with(not_before, '2026')",
    "!(event_status == 'Started') && starts_with(not_before, '2026')",
    "event_type == 'Teleport' && not_before && starts_with(not_before, '2026')",
    "event_type == 'Teleport' && (not_before && starts_with(not_before, '2026'))",
    "not_before && event_type == 'Teleport' && starts_with(not_before, '2026')",
    "(not_before && event_type == 'Teleport') && starts_with(not_before, '2026')",
    "not_before && (event_type == 'Teleport' || starts_with(not_before, '2026'))",
    "!not_before || starts_with(not_before, '2026')",
    "seconds_until_not_before != null && abs(seconds_until_not_before) < `60`",
    "(seconds_until_not_before || `0`) < `60`",
    "not_null(seconds_until_not_before, `0`) < `60`",
    "floor(not_null(seconds_until_not_before, `0`)) < `60`",
    "seconds_until_not_before > duration_in_seconds",
    "seconds_until_not_before > `0` && duration_in_seconds < `5`",
    "duration_in_seconds == `-1` || duration_in_seconds > `60`",
    "duration_in_seconds == `0`",
    "duration_in_seconds == `5.0`",
    "duration_in_seconds",
    "duration_in_seconds >= `0` && duration_in_seconds <= `2`",
    "abs(duration_in_seconds) < `5`",
    "sum([duration_in_seconds, `1`]) > `5`",
    "max([duration_in_seconds, `1`]) > `5`",
    "contains(`[5, 10]`, duration_in_seconds)",
    "contains([`5`, `10`], duration_in_seconds)",
    "to_string(duration_in_seconds) == '-1'",
    "to_number(event_id) == null",
    "to_number(resources[0]) == `5`",
    "type(description) == 'null'",
    "type(duration_in_seconds) == 'number'",
    "affects_host == `true` && event_type == 'Freeze'",
    "affects_host == `true` || event_type == 'Freeze'",
    "affects_host != `false`",
    "resource_type == 'VirtualMachine'",
    "resource_type != 'VirtualMachine'",
    "event_source == event_source",
    "event_type == event_source",
    "not_null(event_source, description) == 'foo'",
    "not_null(description, event_source, 'x') == 'x'",
    "(event_source || 'nobody') != 'User'",
    "(event_source || description) == 'foo'",
    "[event_type, event_source] == ['Reboot', 'Platform']",
    "[event_type, event_source] == ['Teleport', 'Platform']",
    "contains([event_type, event_source], 'User')",
    "contains([event_type, description], 'user')",
    "contains([['Freeze', 'User'], ['Reboot', 'User']], [event_type, event_source])",
    "{t: event_type, s: event_source} == {t: 'Reboot', s: 'User'}",
    "{t: event_type}.t == 'Reboot'",
    "{t: not_before} | t && starts_with(t, '2026')",
    "{t: not_before, s: event_status} | s == 'Scheduled' && starts_with(t, '2026')",
    "not_before | @ && starts_with(@, '2026')",
    "values(@)[?@ == 'User']",
    "keys(@) | length(@) > `5`",
    "@",
    "event_type == 'Freeze' && `true`",
    "event_type == 'Freeze' || `false`",
    "!`false`",
    "\"event_type\" == 'Freeze'",
    'event_type == `"Freeze"`',
    'contains(`["Freeze"]`, event_type)',
    "event_type == 'Freeze' == `true`",
    "(event_type == 'Freeze') == (event_source == 'User')",
    "(event_type == 'Freeze' && 'short' || 'long') == 'short'",
    "(event_type == 'Teleport' && event_source || 'none') == 'User'",
    "(event_type == 'Teleport' && 'a') == 'a'",
    "length(event_type) == `6`",
    "length(description || '') > `0`",
    "contains('Freeze Reboot', event_type)",
    "contains('Freeze,Reboot', event_type) && event_source == 'User'",
    "event_type < 'N'",
    "event_type >= 'Reboot'",
    "event_status >= 'Scheduled'",
    "resources == `[]`",
    "resources != `[]`",
    "resources == ['vm1']",
    "resources[] == ['vm1']",
    "resources[0:1] == ['vm1']",
    "!resources",
    "min_by(resources, &length(@)) == 'a'",
    "sort_by(resources, &length(@))[0] == 'a'",
    "map(&starts_with(@, 'web'), resources) | contains(@, `true`)",
    "contains(map(&starts_with(@, 'web'), resources), `false`)",
    "length(resources[?!starts_with(@, 'web')]) == `0`",
    "resources[?!starts_with(@, 'web')] == `[]`",
    "contains(description || '', 'disk') || contains(description || '', 'hardware')",
    "event_source == 'User' && (contains(['Reboot', 'Redeploy'], event_type) || duration_in_seconds > `30`)",
    "not_before >= '2026-12-23' && not_before < '2027-01-07' && event_type != 'Terminate'",
    "join(',', resources[?starts_with(@, 'db-')]) == 'db-1'",
    "resources[?contains(@, 'db')] | [0] | starts_with(@ || '', 'db-1')",
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
        ('contains(`["Reboot", "user"]`, event_source || \'Reboot\')', ["write 'User'"]),
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
        ("not_before > '2026-1'", ["letter by letter", "2026-01-31T12:00:00Z"]),
        ("not_before == 'Mon, 19 Sep 2016 18:29:47 GMT'", ["2026-01-31T12:00:00Z"]),
        ("seconds_until_not_before < '60'", ["backticks", "`60`"]),
        ("duration_in_seconds == '-1'", ["`-1`"]),
        ("affects_host == 'true'", ["`true`"]),
        ("length(resources) == '1'", ["`1`"]),
        ("!event_type == 'Reboot'", ["!event_type", "true or false"]),
        ("event_type.event_id", ["event_id is looked up in a string"]),
        ("resources[?event_type == 'Reboot']", ["event_type is looked up in a string"]),
        ("[?event_type == 'Reboot']", ["one event, not for a list"]),
        ("[0].event_type == 'Reboot'", ["one event, not for a list"]),
        ("event_type[0] == 'R'", ["not a list"]),
        # Calls that fail for every event.
        ("contains(event_type, `5`)", ["cannot be evaluated"]),
        ("event_type == 'Teleport' && not_before && abs(resources) > `1`", ["cannot be evaluated", "resources is a list"]),
        ("resources[::0]", ["cannot be evaluated: slice step cannot be zero"]),
        ("starts_with(resources, 'web')", ["cannot be evaluated", "resources is a list"]),
        ("contains(resources)", ["cannot be evaluated", "2 arguments", "received 1"]),
        ("lower(event_type) == 'reboot'", ["no function 'lower'", "starts_with"]),
        # What is true for every event.
        ("event_type == 'Reboot' || 'redeploy'", ["always true", "event_type == 'Redeploy'"]),
        ("'User'", ["always true", "event_source == 'User'"]),
        ("length(resources)", ["every number is true", "length(resources) > `0`"]),
        ("['Freeze', 'Reboot']", ["always true", "contains(['Freeze', 'Reboot'], event_type)"]),
        ('`["User"]`', ["always true", "contains(['User'], event_source)"]),
        ("[event_type == 'Freeze', event_source == 'User']", ["always true", "&& or ||"]),
        ("{a: event_type}", ["always true", "&& or ||"]),
        ("`5`", ["every number is true"]),
        ("resources | 'web_0'", ["'web_0' stands alone", "always true"]),
        ("{a: event_type} | length(a || '')", ["every number is true"]),
        ("event_type == 'Freeze' | 'Reboot'", ["does not mean 'or'", "contains(['Freeze', 'Reboot'], event_type)"]),
        ("event_type == 'Freeze' | 'Reboot' | 'Redeploy'", ["does not mean 'or'", "contains(['Freeze', 'Reboot', 'Redeploy'], event_type)"]),
        ("event_type != 'Freeze' | 'Reboot'", ["does not mean 'or'", "!contains(['Freeze', 'Reboot'], event_type)"]),
        ("event_type == 'Freeze' | event_type == 'Reboot'", ["does not mean 'or'", "event_type == 'Freeze' || event_type == 'Reboot'"]),
        ("contains(resources, 'a') | contains(resources, 'b')", ["does not mean 'or'", "contains(resources, 'a') || contains(resources, 'b')"]),
        # What is never reached.
        ("event_type == ('Reboot' || 'Redeploy')", ["always 'Reboot'", "contains(['Reboot', 'Redeploy'], event_type)"]),
        ("('Reboot' || 'Redeploy' || 'Freeze') == event_type", ["always 'Reboot'", "contains(['Reboot', 'Redeploy', 'Freeze'], event_type)"]),
        ("event_type != ('Reboot' || 'Redeploy')", ["always 'Reboot'", "!contains(['Reboot', 'Redeploy'], event_type)"]),
        ("contains(event_type, 'Reboot' || 'Redeploy')", ["always 'Reboot'", "contains(event_type, 'Reboot') || contains(event_type, 'Redeploy')"]),
        ("starts_with(event_type, 'Re' || event_source)", ["always 'Re'", "starts_with(event_type, 'Re') || starts_with(event_type, event_source)"]),
        ("duration_in_seconds < (`5` || `9`)", ["always `5`", "duration_in_seconds < `5` || duration_in_seconds < `9`"]),
        ("contains(['Reboot' || 'Redeploy'], event_type)", ["always 'Reboot'", "'Reboot', 'Redeploy'"]),
        # A rule is checked for the hosts that the event names.
        ("!affects_host", ["never true", "only for the hosts that the event names"]),
        ("affects_host == `false`", ["never true", "only for the hosts that the event names"]),
        ("affects_host != `true`", ["never true", "only for the hosts that the event names"]),
        ("event_type == 'Freeze' && !affects_host", ["never true"]),
        ("affects_host || event_type == 'Freeze'", ["always true, because affects_host is; leave that out", "checked only for the hosts that the event names"]),
        ("`true` || event_type == 'Freeze'", ["always true, because `true` is; leave that out"]),
        ("event_type == 'Freeze' || event_source == 'User' || affects_host", ["always true, because affects_host is"]),
        ("affects_host == true", ["true stands in backticks: `true`"]),
        # Unknown words, wherever they stand.
        ("event_type == Freeze", ["'Freeze'", "single quotes"]),
        ("length(resource) > `1`", ["'resource'", "resources?"]),
        ("Event_Type == 'Reboot'", ["'Event_Type'", "Do you mean event_type?"]),
        ("source == 'User'", ["'source'", "Do you mean event_source?"]),
        ("resources[?contains(@, name)]", ["'name'"]),
        ("sort_by(resources, &size)[0] == 'a'", ["'size'"]),
        ("{a: event_type, b: typ}.a == 'Reboot'", ["'typ'"]),
        ("!(affects_host && event_typ)", ["'event_typ'"]),
        # Other languages.
        ("duration_in_seconds > 5", ["backticks"]),
        ("event_type = 'Reboot'", ["=="]),
        ("event_type == 'Reboot' and affects_host", ["&&"]),
        ("event_type ==", ["not a JMESPath expression"]),
        ("", ["not a JMESPath expression"]),
    ],
)
def test_each_mistake_says_what_is_wrong(when, words):
    (mistake,) = expression_mistakes(when)
    for word in words:
        assert word in mistake
    assert "..." not in mistake


@pytest.mark.parametrize(
    ("when", "null", "cures"),
    [
        ("starts_with(not_before, '2027-01')", "not_before", ["starts_with(not_before || '', '2027-01')", "not_before && starts_with(not_before, '2027-01')"]),
        ("length(not_before) > `5`", "not_before", ["length(not_before || '')"]),
        ("floor(seconds_until_not_before) < `5`", "seconds_until_not_before", ["floor(seconds_until_not_before || `0`)"]),
        ("max([seconds_until_not_before, `0`]) < `10`", "seconds_until_not_before", ["max([seconds_until_not_before || `0`, `0`])"]),
        # Guarded, but not against null.
        ("event_type == 'Freeze' && starts_with(not_before, '2027')", "not_before", ["starts_with(not_before || '', '2027')"]),
        ("event_type == 'Teleport' && starts_with(not_before, '2027')", "not_before", ["starts_with(not_before || '', '2027')"]),
        ("event_status == 'Started' && event_source == 'User' && starts_with(not_before, '2027')", "not_before", ["starts_with(not_before || '', '2027')"]),
        ("duration_in_seconds > `60` && duration_in_seconds < `90` && starts_with(not_before, '2027')", "not_before", ["not_before || ''"]),
        ("contains(resources, 'db-1') && starts_with(not_before, '2027')", "not_before", ["not_before || ''"]),
        ("length(resources) > `1` && starts_with(not_before, '2027')", "not_before", ["not_before || ''"]),
        ("contains(description, 'Live') && starts_with(not_before, '2027')", "not_before", ["not_before || ''"]),
        ("event_source && starts_with(not_before, '2027') || event_type == 'Freeze'", "not_before", ["not_before || ''"]),
        ("starts_with(not_before, '2027') || not_before && starts_with(not_before, '2028')", "not_before", ["starts_with(not_before || '', '2027')"]),
        ("event_type == 'Reboot' && (starts_with(not_before, '2027') || event_type == 'Reboot')", "not_before", ["not_before || ''"]),
        ("!starts_with(not_before, '2027')", "not_before", ["starts_with(not_before || '', '2027')"]),
        ("resources[?starts_with(@, 'db-')] && starts_with(not_before, '2027')", "not_before", ["not_before || ''"]),
    ],
)
def test_what_fails_where_a_field_is_null(when, null, cures):
    (mistake,) = expression_mistakes(when)
    assert f"fails where {null} " in mistake
    for cure in cures:
        assert cure in mistake
    assert "..." not in mistake
    if len(cures) > 1:
        assert [expression_mistakes(cure) for cure in cures] == [[], []]
    assert any("error" in answers(when, [dict(event, **{null: None})]) for event in [*EVENTS, *EVENTS_OF_GUARDS])


@pytest.mark.parametrize("when", ["contains(description, 'Live Migration')", "starts_with(event_source, 'P')", "abs(duration_in_seconds) < `5`"])
def test_what_only_an_old_version_lacks_need_not_be_guarded(when):
    """The first is what everybody writes. Where one breaks all the same, test_plan.py has what happens."""
    assert expression_mistakes(when) == []


def test_each_call_that_fails_is_told_by_itself():
    mistakes = expression_mistakes("floor(seconds_until_not_before) == `5` || starts_with(not_before || '', '2027') || starts_with(not_before, '2028')")
    cures = ("floor(seconds_until_not_before || `0`)", "starts_with(not_before || '', '2028')")
    assert [cure in mistake for cure, mistake in zip(cures, mistakes)] == [True, True]
    assert len(mistakes) == 2


def test_what_fails_for_another_reason_tells_the_event():
    (mistake,) = expression_mistakes("starts_with(resources[1], 'web')")
    assert 'an event with resources ["vm_0"]' in mistake and "cannot be evaluated" in mistake and "starts_with()" in mistake


def test_the_check_of_a_long_rule_takes_no_time():
    words = ", ".join(f"'word {number}'" for number in range(30))
    when = " || ".join(f"{field} && contains([{words}], {field})" for field in ("description", "event_id", "event_type", "resources[0]"))
    when += " || " + " || ".join(f"duration_in_seconds < `{number}` && seconds_until_not_before > `{number}`" for number in range(30))
    began = time.process_time()
    assert expression_mistakes(when) == []
    assert time.process_time() - began < 5
    (mistake,) = expression_mistakes(when + " || starts_with(not_before, '2027')")
    assert "starts_with(not_before || '', '2027')" in mistake


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
    assert "nested too deeply" in mistake or "not a JMESPath expression" in mistake
    for depth in range(20, 700, 20):
        mistakes = expression_mistakes("!" * depth + "description")
        assert all("deep" in mistake or "recursion" in mistake or "not a JMESPath" in mistake for mistake in mistakes), depth


VALUES = [*EVENT_KEYS, "resources[0]", "length(resources)", "@", "[event_type]", "(event_source || 'none')", "!affects_host", "to_string(duration_in_seconds)"]
LITERALS = [
    "'Reboot'", "'reboot'", "'Teleport'", "'User'", "'user'", "'Started'", "'Completed'", "'VirtualMachine'", "'vm1'", "''", "'60'", "'5'", "'true'",
    "'2026-09-19T18:29:47Z'", "'2026-12'", "'none'", "`5`", "`0`", "`60.0`", "`true`", "`false`", "`null`", "`[]`", "`[\"vm1\"]`", "`[7]`", "`{}`",
]  # fmt: skip


def answers(text, events=None):
    """What an expression yields for each of the events; 'error' where it cannot be evaluated."""
    expression = jmespath.compile(text)
    found = []
    for event in events or EVENTS:
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
        mistakes = expression_mistakes(text)
        if any(" fails where " in mistake for mistake in mistakes):
            assert found[0] != "error" and "error" in found, text
        elif mistakes:
            flagged += 1
            # Letters can be put into an order whether or not they are a date.
            if not (value == "not_before" and operator in ("<", ">=")):
                assert len(set(found) - {"error"}) <= 1, text
        else:
            # It can be evaluated whatever is null of what no version may lack.
            there = ("event_type", "event_status", "event_source", "resource_type", "description", "duration_in_seconds")
            known = [event for event in EVENTS if event["resources"] and None not in [event[field] for field in there]]
            assert "error" not in answers(text, known), text
    assert flagged


@pytest.mark.parametrize("when", ["contains(description, event_source)", "resources[::0]", "event_id < duration_in_seconds"])
def test_what_jmespath_itself_does_not_catch_is_still_a_sentence(when):
    with pytest.raises(SelectionError, match="cannot be evaluated"):
        compile_expression(when, EVENT_KEYS).search(dict(FULL, event_source=None))
