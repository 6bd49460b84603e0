# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Scenarios: the library, what an entry stands for, the check of a file and its schema."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import hypothesis
import hypothesis.strategies as st
import jsonschema
import pytest
from graceful_azure_simulator.fault_fields import FAULT_CHECKS
from graceful_azure_simulator.refusals import Refused
from graceful_azure_simulator.scenario_library import SCENARIOS
from graceful_azure_simulator.scenarios import ENTRY_CHECKS, checked_scenario
from graceful_azure_simulator.vms import COMPUTE_FIELDS

from tests.support.asking import approve, ask, document
from tests.support.checkout import ROOT
from tests.support.simulator import SCRIPT, ControlError, Simulator

SCHEMA = json.loads(SCRIPT.with_name("scenario.schema.json").read_text())
STILL = ("--time-scale", "0")


@pytest.fixture(scope="module")
def still():
    with Simulator(["a", "b", "c", "d"], options=[*STILL, "--domains", "2"]) as simulator:
        yield simulator


def begin(simulator, scenario, seconds=0.001):
    """Plays a scenario up to its first events; how many events there were before."""
    before = len(simulator.events())
    simulator.play(scenario)
    simulator.step(seconds)
    return before


# The library


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_of_the_library_plays_to_its_end(still, name):
    before = begin(still, name)
    url = still.urls["a"]
    life = []
    while still.ask("GET", "/clock")["Next"] is not None:
        events = document(url)["Events"]
        if not life or life[-1] != events:
            life.append(events)
        still.step()
    assert document(url)["Events"] == []
    played = still.events()[before:]
    assert played
    assert all(event["EventStatus"] in ("Completed", "Cancelled") for event in played)
    assert any(life)


def test_every_scenario_of_the_library_is_told_with_its_source():
    listed = subprocess.run([sys.executable, str(SCRIPT), "--list-scenarios"], stdout=subprocess.PIPE, text=True, check=True).stdout
    readme = (ROOT / "roles" / "imds_simulator" / "README.md").read_text()
    for name, scenario in SCENARIOS.items():
        assert f"{name}\n    {scenario['about']}\n    {scenario['source']}\n" in listed
        assert "https://" in scenario["source"]
        assert f"`{name}`" in readme
        jsonschema.validate(scenario, SCHEMA)


@pytest.mark.parametrize(
    ("name", "notice", "first"),
    [
        ("live-migration", 900, {"EventType": "Freeze", "DurationInSeconds": 5, "EventSource": "Platform"}),
        ("short-notice-freeze", 319, {"EventType": "Freeze"}),
        ("user-reboot", 872, {"EventType": "Reboot", "EventSource": "User", "DurationInSeconds": -1}),
        ("redeploy", 600, {"EventType": "Redeploy", "EventSource": "Platform"}),
        ("spot-eviction-5s", 5, {"EventType": "Preempt"}),
        ("scale-in", 300, {"EventType": "Terminate"}),
        ("predicted-failure", 604800, {"EventType": "Redeploy"}),
        ("hardware-failure", 0, {"EventType": "Reboot", "EventStatus": "Started", "NotBefore": ""}),
    ],
)
def test_what_is_special_to_a_scenario(still, name, notice, first):
    before = begin(still, name)
    event = still.events()[before]
    assert first.items() <= event.items()
    assert event["Resources"] == ["a"]
    while still.ask("GET", "/clock")["Next"] is not None:
        still.step()
    times = {entry["Status"]: entry["Time"] for entry in still.events()[before]["History"]}
    assert times["Started"] - event["History"][0]["Time"] == pytest.approx(notice, abs=0.1)


def test_the_others(still):
    def play(name, steps=100):
        before = begin(still, name)
        for _time in range(steps):
            if still.ask("GET", "/clock")["Next"] is None:
                break
            still.step()
        return still.events()[before:]

    assert [entry["Status"] for entry in play("cancelled")[0]["History"]] == ["Scheduled", "Cancelled"]
    assert len(play("repeated-freeze")[0]["Impacts"]) == 3
    turned = play("reboot-becomes-freeze")[0]
    assert (turned["EventType"], turned["Impact"]) == ("Reboot", "Freeze")
    assert play("whole-domain")[0]["Resources"] == ["a", "c"]
    upgrade = play("os-image-upgrade")
    assert [event["Resources"] for event in upgrade] == [["a", "c"], ["b", "d"]]
    assert upgrade[1]["History"][0]["Time"] - upgrade[0]["History"][-1]["Time"] == pytest.approx(0, abs=0.1)
    overlapping = play("overlapping")
    assert overlapping[1]["History"][0]["Time"] < overlapping[0]["History"][1]["Time"] < overlapping[2]["History"][-1]["Time"]


def test_other_tenants(still):
    before = begin(still, "other-tenants")
    event_id = still.events()[before]["EventId"]
    approve(still.urls["b"], event_id)
    still.step(200)
    assert still.statuses(event_id) == ["Scheduled"]
    still.step(50)
    assert still.statuses(event_id) == ["Scheduled", "Started"]
    still.complete(event_id)


def test_a_scenario_by_its_name_at_the_start():
    with Simulator(["a"], scenario="hardware-failure") as simulator:
        while not simulator.events():
            pass
        assert simulator.events()[0]["History"][0]["Status"] == "Started"


def test_fewer_vms_than_the_scenario_was_written_for(tmp_path):
    with Simulator(["only"], options=STILL) as simulator:
        with pytest.raises(ControlError, match="event 3: Vm 2 is asked for, but there is only 1"):
            simulator.play("overlapping")
        assert simulator.events() == []
    scenario = {"events": [{"EventType": "Reboot", "Vm": "each"}, {"EventType": "Reboot", "Domain": 3}]}
    vms = ("--vm", "a=127.0.0.1:0", "--vm", "b=127.0.0.1:0")
    assert check(tmp_path, scenario, *vms) == (1, ["event 2: Domain 3 is asked for, but there are only 2."])
    assert check(tmp_path, scenario)[0] == 0
    done = subprocess.run([sys.executable, str(SCRIPT), *vms, "--scenario", str(tmp_path / "scenario.json")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "event 2: Domain 3 is asked for" in done.stderr


def test_an_event_of_two_update_domains_is_refused_before_anything_begins(still, tmp_path):
    scenario = {
        "events": [
            {"EventType": "Reboot", "Resources": ["a", "b"], "Name": "first"},
            {"EventType": "Freeze", "Vm": 1, "Follows": "first"},
            {"EventType": "Freeze", "Resources": ["a", "C", "stranger"]},
        ]
    }
    told = "event 1: An event hits VMs of one update domain; these are of the domains 0, 1."
    before = still.events()
    with pytest.raises(ControlError, match=f"400: .*{told}"):
        still.play(scenario)
    assert still.events() == before
    options = [*(f"--vm={name}=127.0.0.1:0" for name in "abc"), "--domains", "2"]
    assert check(tmp_path, scenario, *options) == (1, [told])
    done = subprocess.run([sys.executable, str(SCRIPT), *options, "--scenario", str(tmp_path / "scenario.json")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"imds_simulator.py: --scenario {tmp_path}/scenario.json: {told}\n")
    # Where nothing is said of domains an event hits any VMs.
    assert check(tmp_path, scenario, *options[:-2])[0] == 0


def test_what_follows_an_event_that_cannot_come_comes_all_the_same():
    scenario = {
        "events": [
            {"EventType": "Reboot", "Vm": 1, "EventId": "E"},
            {"EventType": "Freeze", "Vm": "each", "EventId": "e", "Name": "second"},
            {"EventType": "Freeze", "Vm": 1, "EventId": "F", "Follows": "second", "After": 5},
        ]
    }
    with Simulator(["a", "b"], options=STILL, stderr=subprocess.PIPE) as simulator:
        simulator.play(scenario)
        simulator.step(6)
        assert [event["EventId"] for event in simulator.events()] == ["E", "F"]
        simulator.process.terminate()
        assert simulator.process.stderr.read() == b'imds_simulator.py: scenario: event 2: An event "e" stands already.\n' * 2
        simulator.process.stderr.close()


def test_names_that_no_vm_here_has_are_told(tmp_path):
    path = tmp_path / "scenario.json"
    each, far = {"EventType": "Freeze", "Vm": "each"}, {"EventType": "Reboot", "Resources": ["A", "far"]}
    told = "event 2 hits far, which is none of the VMs here"
    vms = [f"--vm={name}=127.0.0.1:0" for name in "ab"]
    assert check(tmp_path, {"events": [each, far]}, *vms) == (0, ["2 events, 0 faults, no mistakes", told])
    with Simulator(["a", "b"], scenario=str(path), stderr=subprocess.PIPE) as simulator:
        assert simulator.play({"events": [each, far, far]}) == {"Events": 4, "Faults": 0, "NotSimulated": ["far"]}
        assert simulator.play({"events": [each]}) == {"Events": 2, "Faults": 0}
        simulator.process.terminate()
        assert simulator.process.stderr.read() == f"imds_simulator.py: scenario: {told}\n".encode()
        simulator.process.stderr.close()
    path.write_text('{"events": [{"EventType": "Reboot", "Resources": ["A", "far"]}]}')
    with Simulator(["a"], scenario=str(path), stderr=subprocess.PIPE) as simulator:
        told = simulator.ask("POST", "/events", {"EventType": "Reboot", "Resources": ["a", "b"], "EventId": "1"})
        assert told == {"EventId": "1", "NotSimulated": ["b"]}
        assert "NotSimulated" not in simulator.ask("POST", "/events", {"EventType": "Reboot", "Resources": ["A"]})
        simulator.process.terminate()
        assert simulator.process.stderr.read() == b"imds_simulator.py: scenario: event 1 hits far, which is none of the VMs here\n"
        simulator.process.stderr.close()


# What an entry stands for


def test_an_entry_follows_another(still):
    scenario = {
        "events": [
            {"Name": "first", "EventType": "Freeze", "Vm": "each", "NoticeSeconds": 10, "ImpactSeconds": 1, "SettleSeconds": 1, "Between": 5},
            {"Follows": "first", "After": 30, "EventType": "Reboot", "Resources": ["z"], "NoticeSeconds": 1},
        ]
    }
    before = begin(still, scenario)
    still.step(1000)
    events = still.events()[before:]
    assert [event["Resources"] for event in events] == [["a"], ["b"], ["c"], ["d"], ["z"]]
    gaps = [after["History"][0]["Time"] - event["History"][-1]["Time"] for event, after in zip(events, events[1:])]
    assert gaps == pytest.approx([5, 5, 5, 30], abs=0.1)


def test_a_scenario_tells_of_vms(tmp_path):
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps({"vms": {"A": {"zone": "3", "platformUpdateDomain": "9"}}, "events": [{"EventType": "Freeze", "Domain": 2}]}))
    with Simulator(["a", "b"], scenario=path) as simulator:
        assert ask(simulator.urls["a"], path="/metadata/instance/compute/zone").json == "3"
        while not simulator.events():
            pass
        assert simulator.events()[0]["Resources"] == ["b"]
        with pytest.raises(ControlError, match="400: .*told at the start"):
            simulator.play({"vms": {"a": {}}})


@pytest.mark.parametrize(
    ("wish", "status"),
    [({"Name": "no-such"}, 404), ({"Name": 1}, 400), ({"events": [{}]}, 400), ([], 400), ({"Name": "redeploy", "x": 1}, 400)],
)
def test_a_scenario_that_cannot_be_played(still, wish, status):
    before = len(still.events())
    with pytest.raises(ControlError) as refused:
        still.play(wish)
    assert refused.value.status == status
    assert len(still.events()) == before


# The check of a file


def check(tmp_path, scenario, *arguments):
    path = tmp_path / "scenario.json"
    path.write_text(scenario if isinstance(scenario, str) else json.dumps(scenario))
    done = subprocess.run([sys.executable, str(SCRIPT), "--check", str(path), *arguments], capture_output=True, text=True, check=False)
    return done.returncode, [line.partition(f"{path}: ")[2] for line in (done.stdout + done.stderr).splitlines()]


def test_every_mistake_with_its_place(tmp_path):
    scenario = {
        "event": [],
        "events": [
            {"EventType": "Reboot", "Vm": 1},
            {"EventType": 1, "NoticeSeconds": -1},
            {"EventType": "Freeze", "Vm": 1, "Domain": 1, "Follows": "x"},
            7,
        ],
        "faults": [{"Fault": {"Status": "503", "Cut": -1}, "Times": 0}, {"Vm": "b", "Fault": {"Drop": True}}],
        "vms": {"a": {"zone": 1}},
    }
    status, lines = check(tmp_path, scenario, "--vm", "a=127.0.0.1:0")
    assert status == 1
    assert lines == [
        'A scenario has an unknown field "event"; known are events, faults, vms, about, source, $schema.',
        "event 2: EventType must be a string, not 1.",
        "event 2: NoticeSeconds must be a number of seconds from 0 to 1000000000, not -1.",
        "event 2: An event needs the field Resources, Vm or Domain.",
        "event 3: An event has both Vm and Domain.",
        'event 3: Follows must be the Name of an event above, not "x".',
        "event 4: An event must be an object, not 7.",
        'fault 1: Status must be an HTTP status from 200 to 599, not "503".',
        "fault 1: Cut must be an integer from 0 to 1000000000, not -1.",
        "fault 1: Times must be a positive integer or null, not 0.",
        'fault 2: Vm must be one of the VMs (a) or null, not "b".',
        'vms "a": zone must be a string, not 1.',
    ]
    # Then those that only the VMs show.
    scenario = {"events": [{"EventType": "Reboot", field: number} for field, number in (("Vm", 5), ("Vm", 1), ("Vm", 6), ("Domain", 7))]}
    assert check(tmp_path, scenario, "--vm", "a=127.0.0.1:0") == (
        1,
        [f"event {number}: {what} is asked for, but there is only 1." for number, what in ((1, "Vm 5"), (3, "Vm 6"), (4, "Domain 7"))],
    )


def test_what_a_check_says(tmp_path):
    status, lines = check(tmp_path, {"events": [{"EventType": "Reboot", "Vm": 1}], "faults": [{"Vm": "any", "Fault": {"Drop": True}}]})
    assert (status, lines) == (0, ["1 event, 1 fault, no mistakes"])
    assert check(tmp_path, '{"$schema": "scenario.schema.json"}')[0] == 0
    status, lines = check(tmp_path, '{"events": [{"EventType": "x", "Vm": 1}], "events": []}')
    assert (status, lines) == (1, ['This is no JSON: the field "events" is given twice.'])
    status, lines = check(tmp_path, '{\n  "events": [,]}')
    assert status == 1
    assert re.match(r"This is no JSON: .*line 2 column 14", lines[0])
    done = subprocess.run([sys.executable, str(SCRIPT), "--check", str(tmp_path / "none")], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "No such file" in done.stderr


# The schema says the same as the check, but for what goes from one entry to another

numbers = st.sampled_from([0, 1, -1, 2, 1.5, 10**9, 10**10, 200, 503, 600])
strings = st.sampled_from(["", "x", "each", "GET", "Started", "a b", "line\n", "\u20ac"])
values = numbers | strings | st.sampled_from([True, False, None, [], ["x"], [1], {}, {"A": "b"}, {"A b": "c"}, {"A": 1}, {"A\n": ""}])
ENTRY_NAMES = [*ENTRY_CHECKS, "Unknown"]
FAULT_NAMES = [*FAULT_CHECKS, "Unknown"]
AROUND_NAMES = ["Vm", "Method", "Times", "Skip", "Probability", "Seed", "After", "For", "Unknown"]


def objects(names, **fixed):
    """Objects that are right but for a few fields."""
    return st.builds(lambda more: {**fixed, **more}, st.dictionaries(st.sampled_from(names), values, max_size=3))


entries = objects([name for name in ENTRY_NAMES if name != "Follows"], EventType="Reboot") | objects(ENTRY_NAMES, EventType="Reboot", Vm=1).map(
    lambda entry: {name: value for name, value in entry.items() if name != "Follows"}
)
faults = st.builds(lambda around, fault: {**around, "Fault": fault}, objects(AROUND_NAMES), objects(FAULT_NAMES) | values)
scenarios = st.fixed_dictionaries(
    {},
    optional={
        "events": st.lists(entries, max_size=1) | values,
        "faults": st.lists(faults, max_size=1) | values,
        "vms": st.dictionaries(st.sampled_from(["a", "b"]), objects(["zone", "tags", "name"]) | values, max_size=2) | values,
        "about": values,
        "$schema": values,
    },
)


@hypothesis.settings(deadline=None, max_examples=hypothesis.settings.default.max_examples * 3)
@hypothesis.given(scenarios | values)
def test_schema_and_check_agree(scenario):
    try:
        checked_scenario(scenario, None)
        passes = True
    except Refused:
        passes = False
    assert jsonschema.Draft7Validator(SCHEMA).is_valid(scenario) == passes


def test_the_schema_knows_every_field_of_the_check():
    definitions = SCHEMA["definitions"]
    assert list(definitions["event"]["properties"]) == list(ENTRY_CHECKS)
    assert sorted(definitions["fault"]["properties"]["Fault"]["properties"]) == sorted(FAULT_CHECKS)
    assert list(definitions["vm"]["properties"]) == COMPUTE_FIELDS
