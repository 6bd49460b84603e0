# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import locale
import time
from datetime import datetime, timezone

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._events import API_VERSIONS, EVENT_KEYS, EventsError, parse_document, parse_time
from ansible_collections.graceful.azure.plugins.module_utils._selection import Selection
from hypothesis import given
from hypothesis import strategies as st

from tests.support.patience import patient
from tests.support.service import document, event

NOW = datetime(2016, 9, 19, 18, 14, 47, tzinfo=timezone.utc)


def parse(*events, api_version="2020-07-01", name="FrontEnd_IN_0", now=NOW):
    return parse_document(document(*events), api_version, name, now)


def only(*events, **options):
    (found,) = parse(*events, **options).events
    return found


# What each version does not know yet.
LACKING = {
    "2017-03-01": ("description", "event_source", "duration_in_seconds"),
    "2017-08-01": ("description", "event_source", "duration_in_seconds"),
    "2017-11-01": ("description", "event_source", "duration_in_seconds"),
    "2019-01-01": ("description", "event_source", "duration_in_seconds"),
    "2019-04-01": ("event_source", "duration_in_seconds"),
    "2019-08-01": ("duration_in_seconds",),
    "2020-07-01": (),
}
FIELDS = {"description": "Description", "event_source": "EventSource", "duration_in_seconds": "DurationInSeconds"}


@pytest.mark.parametrize("version", API_VERSIONS)
def test_every_version_in_one_shape(version):
    fields = {FIELDS[key]: None for key in LACKING[version]}
    if version == "2017-03-01":
        fields.update(Resources=["_FrontEnd_IN_0", "_BackEnd_IN_0"], NotBefore="2016-09-19T18:29:47Z")
    expected = {
        "event_id": "602d9444-d2cd-49c7-8624-8643e7171297",
        "event_type": "Reboot",
        "event_status": "Scheduled",
        "event_source": "Platform",
        "resource_type": "VirtualMachine",
        "resources": ["FrontEnd_IN_0", "BackEnd_IN_0"],
        "not_before": "2016-09-19T18:29:47Z",
        "description": "Host server is undergoing maintenance.",
        "duration_in_seconds": 9,
        "affects_host": True,
        "seconds_until_not_before": 900.0,
    }
    expected.update(dict.fromkeys(LACKING[version]))
    parsed = parse(event(**fields), api_version=version)
    assert parsed.events == [expected]
    assert parsed.incarnation == 5
    assert parsed.warnings == []
    assert tuple(parsed.events[0]) == EVENT_KEYS


def test_an_event_of_which_only_the_id_is_told():
    parsed = parse_document({"DocumentIncarnation": 1, "Events": [{"EventId": "a"}]}, "2017-03-01", "x", NOW)
    assert parsed.events == [dict(dict.fromkeys(EVENT_KEYS), event_id="a", resources=[], affects_host=False)]
    assert parsed.warnings == []


def test_fields_that_nobody_knows_are_left_alone():
    assert "Extra" not in only(event(Extra={"a": [1]}))


@pytest.mark.parametrize("name", ["FrontEnd_IN_0", "frontend_in_0", "BACKEND_IN_0"])
def test_names_are_compared_without_case(name):
    assert only(event(), name=name)["affects_host"] is True


@pytest.mark.parametrize("name", ["FrontEnd", "FrontEnd_IN_01", "_FrontEnd_IN_0", "IN_0"])
def test_names_are_compared_whole(name):
    assert only(event(), name=name)["affects_host"] is False


def test_the_underscore_goes_in_the_preview_alone():
    assert only(event(Resources=["__a"]), api_version="2017-03-01")["resources"] == ["_a"]
    assert only(event(Resources=["_a"]), api_version="2017-08-01")["resources"] == ["_a"]
    assert only(event(Resources=["_a"]), api_version="2017-03-01", name="_A")["affects_host"] is True


def test_without_a_name_nobody_knows_whether_it_affects_the_host():
    assert only(event(), name=None)["affects_host"] is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Mon, 19 Sep 2016 18:29:47 GMT", 900),
        ("Fri, 19 Sep 2016 18:29:47 GMT", 900),
        ("Monday, 19 September 2016 18:29:47 GMT", 900),
        ("19 Sep 2016 18:29:47 GMT", 900),
        ("mon, 19 sep 2016 18:29:47 gmt", 900),
        ("  Mon, 19 Sep 2016 18:29:47 UTC ", 900),
        ("2016-09-19T18:29:47Z", 900),
        ("2016-09-19T18:29:47", 900),
        ("2016-09-19 18:29:47Z", 900),
        ("2016-09-19T18:29:47.999Z", 900),
        ("2016-09-19T18:29:47.1234567Z", 900),
        ("2016-09-19T20:29:47+02:00", 900),
        ("2016-09-19T17:29:47-0100", 900),
    ],
)
def test_not_before(text, seconds):
    parsed = parse(event(NotBefore=text))
    assert parsed.events[0]["not_before"] == "2016-09-19T18:29:47Z"
    assert parsed.events[0]["seconds_until_not_before"] == seconds
    assert parsed.warnings == []


def test_not_before_lies_in_the_past():
    assert only(event(NotBefore="Mon, 19 Sep 2016 18:14:37 GMT"))["seconds_until_not_before"] == -10


@pytest.mark.parametrize("text", ["", " ", None])
def test_no_not_before(text):
    parsed = parse(event(NotBefore=text, EventStatus="Started"))
    assert parsed.events[0]["not_before"] is None
    assert parsed.events[0]["seconds_until_not_before"] is None
    assert parsed.warnings == []


@pytest.mark.parametrize(
    "text",
    [
        "soon",
        "now",
        "Mon, 32 Sep 2016 18:29:47 GMT",
        "Mon, 19 Foo 2016 18:29:47 GMT",
        "Mon, 19 Sep 2016 18:29:47 PST",
        "2016-13-19T18:29:47Z",
        "2016-09-19T24:00:01Z",
        "0001-01-01T00:00:00+10:00",
        "２０１６-09-19T18:29:47Z",
        "1474309787",
        "19/09/2016 18:29:47",
        1474309787,
        True,
        ["x"],
    ],
)
def test_a_not_before_that_cannot_be_read_is_unknown_and_never_now(text):
    parsed = parse(event("bad", NotBefore=text), event("good"))
    bad, good = parsed.events
    assert bad["not_before"] is None
    assert bad["seconds_until_not_before"] is None
    assert good["not_before"] == "2016-09-19T18:29:47Z"
    (warning,) = parsed.warnings
    assert "NotBefore" in warning and "'bad'" in warning and repr(text) in warning


def test_months_do_not_depend_on_the_locale():
    before = locale.setlocale(locale.LC_ALL)
    try:
        for name in ("de_DE.UTF-8", "fr_FR.UTF-8", "ja_JP.UTF-8", "C"):
            try:
                locale.setlocale(locale.LC_ALL, name)
            except locale.Error:
                continue
            assert parse_time("Thu, 05 May 2022 22:26:58 GMT") == datetime(2022, 5, 5, 22, 26, 58, tzinfo=timezone.utc)
            assert parse_time("Tue, 01 Mar 2022 22:26:58 GMT").month == 3
    finally:
        locale.setlocale(locale.LC_ALL, before)


@pytest.mark.parametrize(("value", "seconds"), [(9, 9), ("9", 9), (" -1 ", -1), (-1, -1), (0, 0), ("0", 0), (5.0, 5), ("5.0", 5), ("", None), (None, None)])
def test_duration(value, seconds):
    parsed = parse(event(DurationInSeconds=value))
    assert parsed.events[0]["duration_in_seconds"] == seconds
    assert parsed.warnings == []


@pytest.mark.parametrize("value", ["nine", True, 9.5, "9.5", [9], {}, 1e300, "9" * 400, float("inf"), float("nan")])
def test_a_duration_that_cannot_be_read(value):
    parsed = parse(event(DurationInSeconds=value))
    assert parsed.events[0]["duration_in_seconds"] is None
    assert "DurationInSeconds" in parsed.warnings[0]


@pytest.mark.parametrize("field", ["EventType", "EventStatus", "EventSource", "ResourceType", "Description"])
def test_a_text_that_is_none(field):
    parsed = parse(event(**{field: 7}), event("other"))
    assert len(parsed.events) == 2
    assert field in parsed.warnings[0]


def test_unknown_types_are_tolerated_and_known_ones_spelled_as_documented():
    first, second = parse(event("a", EventType="Teleport", EventStatus="Pending"), event("b", EventType="FREEZE", EventStatus="started")).events
    assert (first["event_type"], first["event_status"]) == ("Teleport", "Pending")
    assert (second["event_type"], second["event_status"]) == ("Freeze", "Started")


@pytest.mark.parametrize(("value", "number"), [(5, 5), ("5", 5), (0, 0), ("-3", -3), (10**20, 10**20)])
def test_incarnation(value, number):
    assert parse_document({"DocumentIncarnation": value, "Events": []}, "2020-07-01").incarnation == number


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        "text",
        7,
        True,
        {},
        {"error": "no"},
        {"Events": []},
        {"DocumentIncarnation": 1},
        {"DocumentIncarnation": 1, "Events": None},
        {"DocumentIncarnation": 1, "Events": {}},
        {"DocumentIncarnation": 1, "Events": "none"},
        {"DocumentIncarnation": None, "Events": []},
        {"DocumentIncarnation": True, "Events": []},
        {"DocumentIncarnation": "five", "Events": []},
        {"DocumentIncarnation": 1.5, "Events": []},
        {"DocumentIncarnation": 1, "Events": [None]},
        {"DocumentIncarnation": 1, "Events": [[]]},
        {"DocumentIncarnation": 1, "Events": [{}]},
        {"DocumentIncarnation": 1, "Events": [{"EventId": ""}]},
        {"DocumentIncarnation": 1, "Events": [{"EventId": 7}]},
        {"DocumentIncarnation": 1, "Events": [{"EventId": "a", "Resources": "web_0"}]},
        {"DocumentIncarnation": 1, "Events": [{"EventId": "a", "Resources": [7]}]},
        {"DocumentIncarnation": 1, "Events": [{"EventId": "a"}, {"EventId": "a"}]},
        {"DocumentIncarnation": 1, "Events": [{"EventId": "a"}, {"EventId": "A"}]},
        {"DocumentIncarnation": 1, "Events": [{"EventId": "a"}, {"EventId": " a "}]},
    ],
)
def test_what_is_no_document(wrong):
    with pytest.raises(EventsError):
        parse_document(wrong, "2020-07-01", "x", NOW)


def test_duplicate_ids_are_named():
    with pytest.raises(EventsError, match="'A' is in it twice"):
        parse(event("a"), event("A"))


HOSTILE = ["{{ lookup('pipe', 'id') }}", "a; shutdown -h now", "a\nb", "'\"`$(id)", "\x1b[31m", "\u202e", "x" * 10000, "{% raw %}"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_strings_stay_as_they_are(text):
    found = only(event(Description=text, Resources=[text], EventType=text))
    assert (found["description"], found["resources"], found["event_type"]) == (text, [text], text)


def test_half_of_a_surrogate_pair_can_be_printed():
    wrong = json.loads('"a\\ud800b"')
    found = only(event(Description=wrong, Resources=[wrong]))
    assert found["description"] == "a?b"
    json.dumps(found, ensure_ascii=False).encode("utf-8")


def test_life_of_an_event():
    started = only(event(EventStatus="Started", NotBefore="", EventType="Freeze", DurationInSeconds=5))
    assert (started["event_status"], started["not_before"], started["duration_in_seconds"]) == ("Started", None, 5)
    failure = only(event(EventStatus="Started", NotBefore="", DurationInSeconds=-1))
    assert failure["duration_in_seconds"] == -1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELD_NAMES = ["EventId", "EventType", "ResourceType", "Resources", "EventStatus", "NotBefore", "Description", "EventSource", "DurationInSeconds"]


@given(
    st.fixed_dictionaries({"DocumentIncarnation": st.integers() | json_values, "Events": json_values})
    | st.lists(st.dictionaries(st.sampled_from(FIELD_NAMES), json_values | st.just("a")), max_size=3).map(lambda events: document(*events)),
    st.sampled_from(API_VERSIONS),
)
def test_whatever_the_document_it_is_events_or_a_clear_error(value, version):
    try:
        parsed = parse_document(value, version, "a", NOW)
    except EventsError:
        return
    for found in parsed.events:
        assert tuple(found) == EVENT_KEYS
    json.dumps(parsed.events, allow_nan=False).encode("utf-8")


def test_a_large_document_is_quick():
    events = [event(f"602d9444-d2cd-49c7-8624-{number:012d}", Resources=[f"scaleset_{number * 20 + host}" for host in range(20)]) for number in range(1000)]
    body = json.dumps(document(*events))
    selection = Selection(event_types=["Reboot"], affecting_host_only=True)
    seconds = []
    for _each in range(5):
        start = time.perf_counter()
        parsed = parse_document(json.loads(body), "2020-07-01", "ScaleSet_777", NOW)
        selected = selection.apply(parsed.events)
        seconds.append(time.perf_counter() - start)
    assert len(selected) == 1
    # Of a figure of 50 ms on a machine of its own; this one may be busy, or slow.
    assert min(seconds) < patient(0.2)
    print(f"{min(seconds) * 1000:.1f} ms")
