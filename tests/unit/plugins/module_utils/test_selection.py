# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import sys

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._events import EVENT_KEYS, parse_document
from ansible_collections.graceful.azure.plugins.module_utils._selection import Selection, SelectionError, check_event_ids, compile_expression

from tests.support.service import document, event

EVENTS = parse_document(
    document(
        event("A-1", EventType="Freeze", Resources=["web_0"], DurationInSeconds=5),
        event("B-2", EventType="Reboot", Resources=["web_1"], EventStatus="Started", NotBefore=""),
        event("C-3", EventType="Teleport", Resources=["web_0", "web_1"], EventSource="User"),
    ),
    "2020-07-01",
    "web_0",
).events


def ids(**options):
    return [found["event_id"] for found in Selection(**options).apply(EVENTS)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["A-1", "B-2", "C-3"]),
        ({"event_ids": ["c-3", " a-1 ", "nobody"]}, ["A-1", "C-3"]),
        ({"event_types": ["Reboot", "Freeze"]}, ["A-1", "B-2"]),
        ({"event_statuses": ["Started"]}, ["B-2"]),
        ({"affecting_host_only": True}, ["A-1", "C-3"]),
        ({"affecting_host_only": True, "event_statuses": ["Started"]}, []),
        ({"query": "[?event_type == 'Freeze']"}, ["A-1"]),
        ({"query": "[?contains(resources, 'web_1')]", "affecting_host_only": True}, ["C-3"]),
        ({"query": "[?duration_in_seconds < `6` && event_source == 'Platform']"}, ["A-1"]),
        ({"query": "[?!affects_host]"}, ["B-2"]),
        ({"query": "reverse(@)"}, ["C-3", "B-2", "A-1"]),
        ({"query": "[:1]"}, ["A-1"]),
        ({"query": "[].{kind: event_type, event: @} | [?kind == 'Reboot'].event"}, ["B-2"]),
        ({"query": "[?resources[?@ == 'web_1']]"}, ["B-2", "C-3"]),
        ({"query": "[?event_type == `Freeze`]"}, ["A-1"]),
    ],
)
def test_what_is_selected(options, expected):
    assert ids(**options) == expected


@pytest.mark.parametrize("query", ["[?", "", " ", "[?event_type = 'Freeze']", "[?event_type == 'Freeze'", "[?foo(@)]", "no_such_function(@)", "(" * 5000])
def test_a_broken_query(query):
    with pytest.raises(SelectionError, match="^query: ") as caught:
        Selection(query=query)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 800


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("[?event_type == Freeze]", "Freeze"),
        ('[?event_type == "Freeze"]', "Freeze"),
        ("[?Freeze == event_type]", "Freeze"),
        ("[?event_type != Freeze]", "Freeze"),
        ("[?contains(resources, web_0)]", "web_0"),
        ("[?EventType == 'Freeze']", "EventType"),
        ("[?affects_host && urgent]", "urgent"),
        ("[?affects_host == true]", "true"),
        ("[?not_before == null]", "null"),
        ("[?event_type == 'Freeze'].event", "event"),
        ("Events[?event_type == 'Freeze']", "Events"),
    ],
)
def test_a_word_that_is_no_key(query, word):
    with pytest.raises(SelectionError, match="^query: ") as caught:
        Selection(query=query)
    assert f"the word '{word}'" in str(caught.value)
    assert "single quotes" in str(caught.value)


@pytest.mark.parametrize("query", ["[0]", "length(@)", "[].event_id", "[?event_type == 'None'] | [0]", "[].{id: event_id}", "`true`", "[].resources", "`[1]`"])
def test_a_query_that_yields_no_list_of_events(query):
    with pytest.raises(SelectionError, match="^query: .* (instead of a list of events|are not events)"):
        ids(query=query)


@pytest.mark.parametrize("query", ["sort_by(@, &not_before)", "[?starts_with(not_before, '2016')]"])
def test_a_query_that_does_not_fit_the_values(query):
    with pytest.raises(SelectionError, match="^query: .*cannot be evaluated"):
        ids(query=query)


def test_a_query_over_no_events_at_all():
    assert Selection(query="[?event_type == 'Freeze']").apply([]) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"event_ids": []}, "event_ids: the list is empty"),
        ({"event_ids": [""]}, "event_ids: .* contains an empty id"),
        ({"event_ids": ["a", "  "]}, "event_ids: .* contains an empty id"),
        ({"event_types": []}, "event_types: the list is empty"),
        ({"event_types": ["Teleport"]}, "event_types: 'Teleport' is not one of Freeze, Reboot"),
        ({"event_types": ["freeze"]}, "event_types: 'freeze' is not one of Freeze, Reboot"),
        ({"event_statuses": ["Completed"]}, "event_statuses: 'Completed' is not one of Scheduled, Started"),
        ({"event_statuses": []}, "event_statuses: the list is empty"),
    ],
)
def test_options_that_cannot_be_meant(options, message):
    with pytest.raises(SelectionError, match=message):
        Selection(**options)


def test_event_ids():
    assert check_event_ids([" a ", "B"]) == ["a", "B"]


def test_jmespath_is_needed_for_a_query_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "jmespath", None)
    assert len(ids()) == 3
    with pytest.raises(SelectionError, match="jmespath"):
        Selection(query="@")


def test_an_expression_over_one_event():
    expression = compile_expression("event_type == 'Freeze' && duration_in_seconds < `6`", EVENT_KEYS)
    assert [expression.search(found) for found in EVENTS] == [True, False, False]
    with pytest.raises(SelectionError, match="'Freeze' is not a key"):
        compile_expression("event_type == Freeze", EVENT_KEYS)
