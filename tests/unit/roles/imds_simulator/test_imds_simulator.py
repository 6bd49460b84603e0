# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The simulator, asked from outside as its users ask it.

IMDS_SIMULATOR_PYTHON names another Python to run it with.
"""

from __future__ import annotations

import ast
import concurrent.futures
import email.utils
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from datetime import datetime, timezone

import hypothesis
import hypothesis.strategies as st
import pytest
from graceful_azure_simulator import connection
from graceful_azure_simulator.metadata_service import MetadataService
from graceful_azure_simulator.options import parse_arguments
from graceful_azure_simulator.process import is_at, lock_pid_file
from graceful_azure_simulator.refusals import Refused
from graceful_azure_simulator.scale_set import ScaleSet
from graceful_azure_simulator.scenario_files import chosen_scenario
from graceful_azure_simulator.vms import Vm

from tests.support.asking import EVENTS_PATH, METADATA, Answer, address_of, approve, ask, control, document, status_of, talk
from tests.support.patience import patient, until
from tests.support.ports import free_port
from tests.support.simulator import CODE, PYTHON, SCRIPT, ControlError, Simulator, copy_simulator

FIRST_FIELDS = ["EventId", "EventType", "ResourceType", "Resources", "EventStatus", "NotBefore"]
FIELDS = {
    "2017-03-01": FIRST_FIELDS,
    "2017-08-01": FIRST_FIELDS,
    "2017-11-01": FIRST_FIELDS,
    "2019-01-01": FIRST_FIELDS,
    "2019-04-01": [*FIRST_FIELDS, "Description"],
    "2019-08-01": [*FIRST_FIELDS, "Description", "EventSource"],
    "2020-07-01": [*FIRST_FIELDS, "Description", "EventSource", "DurationInSeconds"],
}
RFC_1123 = re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-9]{2} (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT")


class soon:
    """Equal to a time that is not shorter, and not much longer than the machine needs at present."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __eq__(self, other):
        return self.seconds - 0.01 <= other <= self.seconds + patient(0.25)

    def __repr__(self):
        return f"soon after {self.seconds}"


def elapsed(event, status):
    """Seconds from the event's first appearance."""
    times = {entry["Status"]: entry["Time"] for entry in event["History"]}
    return times[status] - event["History"][0]["Time"]


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    log = tmp_path_factory.mktemp("simulator") / "log"
    with log.open("wb") as file, Simulator({"web-1": "127.0.0.1:0", "web-2": "127.0.0.1:0", "Web-6": "[::1]:0"}, python=PYTHON, stderr=file) as simulator:
        yield simulator
    # Whatever the tests did to it, it had nothing to complain about.
    assert log.read_text() == ""


@pytest.fixture
def simulator(running):
    """The running simulator, without events or faults of the test before."""
    running.reset()
    return running


@pytest.fixture
def url(simulator):
    return simulator.urls["web-1"]


# Starting and ending


def start(*arguments, **more):
    return subprocess.Popen([PYTHON, str(SCRIPT), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def is_running(pid):
    """Whether there is such a process, and no dead one that nobody has asked about."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_one_line_of_json_tells_the_addresses_and_sigterm_ends_it():
    port = free_port()
    process = start("--vm", f"a=127.0.0.1:{port}", "--vm", "b=c=[::1]:0", "--control", "localhost:0")
    line = json.loads(process.stdout.readline())
    assert line["vms"].keys() == {"a", "b=c"}
    assert line["vms"]["a"] == f"http://127.0.0.1:{port}"
    assert re.fullmatch(r"http://\[::1\]:[1-9][0-9]+", line["vms"]["b=c"])
    assert re.fullmatch(r"http://127\.0\.0\.1:[1-9][0-9]+", line["control"])
    for url in line["vms"].values():
        assert document(url) == {"DocumentIncarnation": 1, "Events": []}
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=1) == ("", "")
    assert process.returncode == 0


def test_sigterm_ends_it_within_a_second_whatever_it_does():
    with Simulator(["a"], on_start="sleep 5", python=PYTHON) as simulator:
        simulator.post_event(EventStatus="Started")
        simulator.post_event(NoticeSeconds=None)
        simulator.fault(Delay=30)
        host = address_of(simulator.urls["a"])
        connections = [socket.create_connection(host) for _time in range(20)]
        for connection in connections[:10]:
            connection.sendall(b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nMetadata: true\r\n\r\n")
        while len(simulator.requests()) < 10:
            time.sleep(0.01)
        begun = time.monotonic()
        simulator.process.terminate()
        assert simulator.process.wait(patient(5)) == 0
        assert time.monotonic() - begun < 1
        for connection in connections:
            connection.close()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "--vm"),
        (["--vm", "a"], "'a' is not NAME=ADDRESS:PORT"),
        (["--vm", "=127.0.0.1:0"], "NAME=ADDRESS:PORT"),
        (["--vm", "a\nb=127.0.0.1:0"], "NAME=ADDRESS:PORT"),
        (["--vm", "a=127.0.0.1"], "port from 0 (any free one) to 65535"),
        (["--vm", "a=127.0.0.1:65536"], "'127.0.0.1:65536'"),
        (["--vm", "a=127.0.0.1:http"], "'127.0.0.1:http'"),
        (["--vm", "a=:80"], "neither an IPv4 address nor an IPv6 address in brackets"),
        (["--vm", "a=::1:80"], "neither an IPv4 address nor an IPv6 address in brackets"),
        (["--vm", "a=[127.0.0.1]:80"], "'[127.0.0.1]'"),
        (["--vm", "a=no.such.host.invalid:80"], "'no.such.host.invalid'"),
        (["--vm", "a=" + "x" * 70 + ".\u00e4:80"], "neither an IPv4"),
        (["--vm", "a=127.0.0.1:0", "--vm", "A=127.0.0.1:0"], "the name 'A' is given twice"),
        (["--vm", "a=127.0.0.1:0", "--control", "1"], "argument --control"),
        (["--vm", "a=127.0.0.1:0", "--on-start", ""], "argument --on-start: the command is empty"),
        (["--vm", "a=127.0.0.1:0", "--on-gone", "sh -c 'x"], "argument --on-gone"),
        (["--vm", "a=127.0.0.1:0", "--unknown"], "--unknown"),
        (["--vm", "a=127.0.0.1:0", "--scen", "x"], "--scen"),
        (["--vm", "a=127.0.0.1:0", "extra"], "extra"),
    ],
)
def test_a_mistake_in_the_command_line(capfd, arguments, told):
    with pytest.raises(SystemExit) as ended:
        parse_arguments(arguments)
    assert ended.value.code == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert told in err
    assert err.startswith("imds_simulator.py: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("scenario", "told"),
    [
        (None, "No such file or directory"),
        ("{", "This is no JSON"),
        (b"\xff", "This is no JSON"),
        ("[" * 100000, "This is no JSON"),
        ([], "A scenario must be an object"),
        ({"event": []}, 'unknown field "event"; known are events, faults'),
        ({"events": {}}, "events must be a list"),
        ({"events": [{"EventType": "Reboot", "Resources": []}, {"EventType": "Reboot"}]}, "event 2: An event needs the field Resources"),
        ({"events": [{"EventType": "Reboot", "Resources": [], "After": -1}]}, "event 1: After must be a number of seconds"),
        ({"faults": [{"Fault": {"Drop": True}, "Vm": "x"}]}, "fault 1: Vm must be one of the VMs (a) or null"),
    ],
)
def test_a_mistake_in_a_scenario(tmp_path, scenario, told):
    path = tmp_path / "scenario.json"
    if scenario is not None:
        path.write_bytes(scenario if isinstance(scenario, bytes) else (scenario if isinstance(scenario, str) else json.dumps(scenario)).encode())
    with pytest.raises(Refused, match=re.escape(told)) as refused:
        chosen_scenario(str(path), ["a"])
    assert str(refused.value).startswith(f"--scenario {path}: ")


def test_a_start_that_fails_ends_with_one_line_and_status_2(tmp_path):
    (tmp_path / "bad.json").write_text("{")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "127.0.0.1:{}".format(taken.getsockname()[1])
        processes = {
            start("--vm", f"a={address}"): f"cannot listen at http://{address}: Address already in use",
            start("--vm", "a=127.0.0.1:0", "--scenario", str(tmp_path / "bad.json")): "This is no JSON",
            start("--vm", "a=nobody"): "'nobody' is not ADDRESS:PORT",
        }
        for process, told in processes.items():
            out, err = process.communicate(timeout=patient(10))
            assert process.returncode == 2
            assert out == ""
            assert told in err
            assert err.count("\n") == 1


def test_the_code_is_python_3_7_and_needs_nothing_else():
    for path in [SCRIPT, *CODE.glob("*.py")]:
        tree = ast.parse(path.read_text(), feature_version=(3, 7))
        imported = {alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        imported |= {node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level}
        assert imported <= sys.stdlib_module_names | {CODE.name}, path


def test_imports_go_in_one_direction():
    """As the list of the package says: each file imports files above it alone, and all files are in it."""
    listed = re.findall(r"^        (\S.*)$", (CODE / "__init__.py").read_text(), re.MULTILINE)
    above = []
    for name in (name for line in listed for name in line.split(", ")):
        tree = ast.parse((CODE / f"{name}.py").read_text())
        assert [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level and node.module not in above] == []
        above.append(name)
    assert sorted(above) == sorted(path.stem for path in CODE.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("isolated", [[], ["-I"]])
def test_a_copy_runs_from_any_folder_and_leaves_nothing_there(tmp_path, isolated):
    copy = tmp_path / "copy"
    copy.mkdir()
    copy_simulator(copy)
    files = sorted(copy.rglob("*"))
    # A file of the same name where it is started is another.
    (tmp_path / CODE.name).mkdir()
    (tmp_path / CODE.name / "__init__.py").write_text("raise AssertionError\n")
    (tmp_path / "link.py").symlink_to(copy / SCRIPT.name)
    for command in ("copy/imds_simulator.py", copy / SCRIPT.name, "link.py"):
        done = subprocess.run([PYTHON, *isolated, command, "--check", "none"], cwd=tmp_path, capture_output=True, text=True, timeout=patient(20), check=False)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", "imds_simulator.py: none: No such file or directory\n")
    assert sorted(copy.rglob("*")) == files


# The document


@pytest.mark.parametrize("version", FIELDS)
def test_each_version_shows_its_fields_and_no_others(simulator, url, version):
    before = time.time()
    event_id = simulator.post_event(
        EventType="Freeze", Resources=["web-1", "Web_2"], Description="d", EventSource="User", DurationInSeconds=9, NoticeSeconds=600
    )
    event = document(url, version)["Events"][0]
    assert list(event) == FIELDS[version]
    preview = version == "2017-03-01"
    not_before = event.pop("NotBefore")
    if preview:
        seconds = datetime.strptime(not_before, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc).timestamp()
    else:
        assert RFC_1123.fullmatch(not_before)
        seconds = email.utils.parsedate_to_datetime(not_before).timestamp()
    assert before + 599 <= seconds <= time.time() + 600
    everything = {
        "EventId": event_id,
        "EventType": "Freeze",
        "ResourceType": "VirtualMachine",
        "Resources": ["_web-1", "_Web_2"] if preview else ["web-1", "Web_2"],
        "EventStatus": "Scheduled",
        "Description": "d",
        "EventSource": "User",
        "DurationInSeconds": 9,
    }
    assert event == {name: everything[name] for name in FIELDS[version] if name != "NotBefore"}


def test_defaults_of_an_event(simulator, url):
    before = time.time()
    simulator.post_event(EventType="Reboot", Resources=["web-1"])
    event = document(url)["Events"][0]
    assert re.fullmatch("[0-9A-F]{8}-([0-9A-F]{4}-){3}[0-9A-F]{12}", event["EventId"])
    not_before = email.utils.parsedate_to_datetime(event["NotBefore"]).timestamp()
    assert before + 899 <= not_before <= time.time() + 900
    report = simulator.events()[-1]
    assert (report["NoticeSeconds"], report["ImpactSeconds"], report["SettleSeconds"]) == (900, 7, 5)


def test_values_are_shown_as_given(simulator, url):
    given = {
        "EventId": "mine/1 ?#%\u00e4",
        "EventType": "Unheard of; {{ x }}\n",
        "ResourceType": "CloudService",
        "Resources": ["_odd", "nobody's", "\"'\ud800", ""],
        "NotBefore": "Tue, 19 Sep 2016 18:29:47 GMT",  # was a Monday
        "Description": "\u0000<b>",
        "EventSource": "Martian",
        "DurationInSeconds": 0,
    }
    assert simulator.post_event(**given) == given["EventId"]
    shown = document(url)["Events"][0]
    assert shown == {**given, "EventStatus": "Scheduled"}
    preview = document(url, "2017-03-01")["Events"][0]
    assert preview["NotBefore"] == given["NotBefore"]
    assert preview["Resources"] == ["_odd", "_nobody's", "_\"'\ud800", "_"]
    simulator.start(given["EventId"])
    assert document(url)["Events"][0] == {**given, "EventStatus": "Started", "NotBefore": ""}
    assert document(url, "2017-03-01")["Events"][0]["NotBefore"] == ""


def test_not_before_is_english_whatever_the_locale():
    environment = {**os.environ, "LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", "TZ": "Asia/Tokyo"}
    with Simulator(["a"], env=environment, python=PYTHON) as simulator:
        before = time.time()
        simulator.post_event(NoticeSeconds=3600)
        not_before = document(simulator.urls["a"])["Events"][0]["NotBefore"]
        assert RFC_1123.fullmatch(not_before)
        assert before + 3599 <= email.utils.parsedate_to_datetime(not_before).timestamp() <= time.time() + 3600


def test_all_vms_see_the_same_and_the_incarnation_grows_exactly_when_events_change(simulator):
    def incarnation():
        documents = [document(url) for url in simulator.urls.values()]
        assert documents[1:] == documents[:-1]
        return documents[0]["DocumentIncarnation"]

    first = incarnation()
    event_id = simulator.post_event()
    assert incarnation() == first + 1
    other = simulator.post_event(EventStatus="Started", ImpactSeconds=None)
    assert incarnation() == first + 2
    simulator.fault(Status=503, method="POST")
    approve(simulator.urls["web-1"], event_id)
    simulator.clear_faults()
    with pytest.raises(ControlError):
        simulator.start(other)
    with pytest.raises(ControlError):
        simulator.post_event(EventId=event_id)
    assert incarnation() == first + 2
    simulator.start(event_id)
    assert incarnation() == first + 3
    simulator.complete(event_id)
    assert incarnation() == first + 4
    simulator.complete(other)
    assert incarnation() == first + 5


def test_answers_carry_date_and_type_and_keep_the_connection(simulator, url):
    connection = http.client.HTTPConnection(*address_of(url), timeout=patient(10))
    for _time in range(3):
        before = time.time()
        connection.request("GET", EVENTS_PATH + "?api-version=2020-07-01", headers=METADATA)
        answer = Answer(connection.getresponse())
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("application/json")
        assert before - 1 <= email.utils.parsedate_to_datetime(answer.headers["Date"]).timestamp() <= time.time()
        assert answer.headers["Connection"] != "close"
        sock = connection.sock
    assert connection.sock is sock
    connection.request("GET", EVENTS_PATH + "?api-version=2020-07-01", headers={**METADATA, "Connection": "close"})
    assert connection.getresponse().headers["Connection"] == "close"
    connection.close()


def test_entity_tags(simulator, url):
    simulator.post_event()
    tag = ask(url).headers["ETag"]
    for sent in (tag, f'"other", {tag}', "W/" + tag, "*"):
        answer = ask(url, headers={**METADATA, "If-None-Match": sent})
        assert (answer.status, answer.body, answer.headers["ETag"]) == (304, b"", tag)
        assert answer.headers["Date"]
    assert ask(url, headers={**METADATA, "If-None-Match": '"other"'}).status == 200
    event_id = simulator.post_event()
    answer = ask(url, headers={**METADATA, "If-None-Match": tag})
    assert answer.status == 200
    assert answer.headers["ETag"] != tag
    # On POST the header means nothing.
    assert approve(url, event_id, headers={**METADATA, "If-None-Match": answer.headers["ETag"]}).status == 200


# What the metadata service refuses


def error_of(answer):
    assert isinstance(answer.json["error"], str)
    return answer.json["error"]


def test_the_metadata_header(simulator, url):
    event_id = simulator.post_event(NoticeSeconds=None)
    for value in ("true", "True", "TRUE", " true "):
        assert ask(url, headers={"Metadata": value}).status == 200
    for headers in ({}, {"Metadata": "false"}, {"Metadata": ""}, {"X-Metadata": "true"}):
        for version in FIELDS:
            answer = ask(url, version=version, headers=headers)
            assert answer.status == 400
            assert "Metadata: true" in error_of(answer)
            if version != "2017-03-01":
                assert approve(url, event_id, version=version, headers=headers).status == 400
    assert simulator.event(event_id)["Approvals"] == []
    incarnation = document(url)["DocumentIncarnation"]
    assert approve(url, event_id, version="2017-03-01", headers={}, DocumentIncarnation=str(incarnation)).status == 200
    assert len(simulator.event(event_id)["Approvals"]) == 1


def test_forwarded_requests_and_repeated_parameters_are_rejected(simulator, url):
    for path in (EVENTS_PATH, "/metadata/instance"):
        assert "X-Forwarded-For" in error_of(ask(url, path=path, headers={**METADATA, "X-Forwarded-For": "10.0.0.1"}))
        assert ask(url, path=path, headers={**METADATA, "x-forwarded-for": ""}).status == 400
        for query in ("api-version=2020-07-01", "api-version=2019-01-01", "API-VERSION=2020-07-01", "a=&a="):
            answer = ask(url, path=path, query=query)
            assert answer.status == 400
            assert "repeated" in error_of(answer)
        assert ask(url, path=path, query="other=1&format=json").status == 200


@pytest.mark.parametrize("version", [None, "", "latest", "2020-07-02", "2020-07-01 ", "2021-02-01", "%00", "%ff%fe", "2017-03-01%0a"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_version_is_told_newer_ones(simulator, url, version, method):
    answer = ask(url, method, version=version and version.replace(" ", "+"))
    assert answer.status == 400
    assert error_of(answer)
    assert "2020-07-01" in answer.json["newest-versions"]


def test_other_methods_and_paths(simulator, url):
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "BREW"):
        for headers in (METADATA, {}):
            answer = ask(url, method, headers=headers)
            assert answer.status == 405
            assert answer.headers["Allow"] == "GET, POST"
            assert error_of(answer)
    answer = ask(url, "HEAD")
    assert (answer.status, answer.body) == (405, b"")
    answer = ask(url, "POST", path="/metadata/instance")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET")
    for path in ("/", "/metadata", "/metadata/scheduledevents/", "/metadata/scheduledevents/x", "/metadata//scheduledevents", "/events", "/requests"):
        answer = ask(url, path=path)
        assert answer.status == 404
        assert error_of(answer)
    assert ask(url, path="/metadata/scheduledEvents").status == 200


# Approval


def test_an_approval_starts_an_event_within_a_second(simulator):
    event_id = simulator.post_event(EventId="AbC-1", NoticeSeconds=60)
    answer = approve(simulator.urls["web-2"], "abc-1")
    assert (answer.status, answer.body) == (200, b"")
    shown, answered = document(simulator.urls["web-1"])["Events"][0]["EventStatus"], time.time()
    simulator.wait_for(event_id, "Started")
    event = simulator.event(event_id)
    # Not at once, unless the answer itself came late.
    assert shown == "Scheduled" or answered >= event["History"][1]["Time"]
    assert [entry["Vm"] for entry in event["Approvals"]] == ["web-2"]
    assert 0 < event["History"][1]["Time"] - event["Approvals"][0]["Time"] < 1
    # Approved again: accepted while it stands, and recorded.
    assert approve(simulator.urls["web-1"], event_id).status == 200
    event = simulator.event(event_id)
    assert [entry["Vm"] for entry in event["Approvals"]] == ["web-2", "web-1"]
    assert simulator.statuses(event_id) == ["Scheduled", "Started"]
    simulator.complete(event_id)
    answer = approve(simulator.urls["web-1"], event_id)
    assert answer.status == 400
    assert event_id in error_of(answer)


def test_an_approval_starts_an_event_that_does_not_start_by_itself(simulator, url):
    event_id = simulator.post_event(NoticeSeconds=None)
    approve(url, event_id)
    simulator.wait_for(event_id, "Started")


def test_an_approval_of_several_is_all_or_nothing(simulator, url):
    first, second = simulator.post_event(NoticeSeconds=None), simulator.post_event(NoticeSeconds=None)
    gone = simulator.post_event()
    simulator.cancel(gone)
    for other in (gone, "unknown", ""):
        assert approve(url, first, other, second).status == 400
    assert [simulator.event(event_id)["Approvals"] for event_id in (first, second, gone)] == [[], [], []]
    assert approve(url, first, second, first).status == 200
    assert [len(simulator.event(event_id)["Approvals"]) for event_id in (first, second)] == [1, 1]
    simulator.wait_for(first, "Started")
    simulator.wait_for(second, "Started")


@pytest.mark.parametrize("content_type", ["application/json", "application/x-www-form-urlencoded", None])
def test_the_type_of_an_approval_does_not_matter(simulator, url, content_type):
    event_id = simulator.post_event(NoticeSeconds=None)
    headers = {**METADATA, **({"Content-Type": content_type} if content_type else {})}
    assert approve(url, event_id, headers=headers, DocumentIncarnation="no matter", Other=1).status == 200


@pytest.mark.parametrize(
    "body",
    [
        None,
        "",
        "null",
        "[]",
        "{}",
        '"x"',
        "{",
        b"\xff\xfe",
        "NaN",
        '{"StartRequests": null}',
        '{"StartRequests": []}',
        '{"StartRequests": {"EventId": "ID"}}',
        '{"StartRequests": ["ID"]}',
        '{"StartRequests": [{}]}',
        '{"StartRequests": [{"EventId": null}]}',
        '{"StartRequests": [{"EventId": 1}]}',
        '{"StartRequests": [{"EventId": ["ID"]}]}',
        '{"StartRequests": [{"EventId": "ID"}, {}]}',
        "[" * 500000,
        '{"a":' * 100000,
        "9" * 1000000,
        '{"StartRequests": [{"EventId": "ID"}], "x": 1e}',
    ],
    ids=range(22),
)
def test_a_malformed_approval_is_refused(simulator, url, body):
    event_id = simulator.post_event(NoticeSeconds=None)
    answer = ask(url, "POST", body=body.replace("ID", event_id) if isinstance(body, str) else body)
    assert answer.status == 400
    assert error_of(answer)
    assert simulator.event(event_id)["Approvals"] == []


def test_an_approval_of_the_preview_needs_the_current_incarnation(simulator, url):
    # An approval alone does not start it, and so leaves the incarnation as it is.
    event_id = simulator.post_event(NoticeSeconds=None, ApprovalSeconds=None)
    current = document(url, "2017-03-01")["DocumentIncarnation"]
    for bad in (current - 1, current + 1, str(current - 1), "x", "", None, [current], True, float(current), -1, "9" * 30):
        answer = approve(url, event_id, version="2017-03-01", DocumentIncarnation=bad)
        assert answer.status == 400
        assert "DocumentIncarnation" in error_of(answer)
    assert approve(url, event_id, version="2017-03-01").status == 400
    assert simulator.event(event_id)["Approvals"] == []
    assert approve(url, event_id, version="2017-03-01", DocumentIncarnation=current).status == 200
    assert approve(url, event_id, version="2017-03-01", DocumentIncarnation=str(current)).status == 200
    simulator.start(event_id)
    assert approve(url, event_id, version="2017-03-01", DocumentIncarnation=str(current)).status == 400


def test_approvals_at_the_same_time_are_each_recorded_once(simulator):
    event_id = simulator.post_event(NoticeSeconds=None, ImpactSeconds=None)
    vms = list(simulator.urls) * 20
    with concurrent.futures.ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(lambda vm: approve(simulator.urls[vm], event_id).status, vms))
    assert answers == [200] * len(vms)
    assert sorted(entry["Vm"] for entry in simulator.event(event_id)["Approvals"]) == sorted(vms)
    simulator.wait_for(event_id, "Started")
    assert simulator.statuses(event_id) == ["Scheduled", "Started"]


# The life of an event


def test_an_event_lives_by_its_timers(simulator):
    event_id = simulator.post_event(NoticeSeconds=0.3, ImpactSeconds=0.2, SettleSeconds=0.1)
    at_once = simulator.post_event(NoticeSeconds=0, ImpactSeconds=0, SettleSeconds=0)
    without_notice = simulator.post_event(EventStatus="Started", ImpactSeconds=0.1, SettleSeconds=0)
    stays = simulator.post_event(NoticeSeconds=0, ImpactSeconds=0, SettleSeconds=None)
    simulator.wait_for(event_id, "Completed")
    event = simulator.event(event_id)
    assert simulator.statuses(event_id) == ["Scheduled", "Started", "Completed"]
    assert elapsed(event, "Started") == soon(0.3)
    assert elapsed(event, "Completed") == soon(0.6)
    assert event["EventStatus"] == "Completed"
    assert simulator.statuses(at_once) == ["Scheduled", "Started", "Completed"]
    assert simulator.statuses(without_notice) == ["Started", "Completed"]
    assert elapsed(simulator.event(without_notice), "Completed") == soon(0.1)
    assert simulator.statuses(stays) == ["Scheduled", "Started"]
    assert [event["EventId"] for event in document(simulator.urls["web-1"])["Events"]] == [stays]


def test_null_leaves_an_event_to_the_control_address(simulator, url):
    by_hand = {"NoticeSeconds": None, "ImpactSeconds": None, "SettleSeconds": None}
    event_id = simulator.post_event(**by_hand)
    assert RFC_1123.fullmatch(document(url)["Events"][0]["NotBefore"])
    answer = control(simulator, "POST", f"/events/{event_id}/start")
    assert answer.status == 200
    assert answer.json["EventStatus"] == "Started"
    assert document(url)["Events"][0]["EventStatus"] == "Started"
    impact_by_hand = simulator.post_event(NoticeSeconds=0, ImpactSeconds=None, SettleSeconds=0)
    simulator.wait_for(impact_by_hand, "Started")
    assert simulator.complete(event_id)["EventStatus"] == "Completed"
    assert simulator.statuses(event_id) == ["Scheduled", "Started", "Completed"]
    assert simulator.statuses(impact_by_hand) == ["Scheduled", "Started"]
    assert [event["EventId"] for event in document(url)["Events"]] == [impact_by_hand]


@pytest.fixture(name="still", scope="module")
def stand_still():
    """One of its own, whose time stands still but for steps."""
    with Simulator(["web-1"], options=["--time-scale", "0"], python=PYTHON) as simulator:
        yield simulator


def test_moves_that_a_state_does_not_allow(still):
    simulator = still

    def refused(event_id, *moves):
        for move in moves:
            answer = control(simulator, "POST", f"/events/{event_id}/{move}")
            assert answer.status == 409
            assert event_id in error_of(answer)

    event_id = simulator.post_event()
    refused(event_id, "complete")
    simulator.start(event_id)
    refused(event_id, "start", "cancel")
    simulator.complete(event_id)
    refused(event_id, "start", "complete", "cancel")
    cancelled = simulator.post_event(NoticeSeconds=20)
    simulator.cancel(cancelled)
    refused(cancelled, "start", "complete", "cancel")
    started = simulator.post_event(EventStatus="Started", ImpactSeconds=1, SettleSeconds=20)
    simulator.step(2)
    simulator.complete(started)  # settling: its impact is over
    simulator.step(30)  # and no timer of old moves them again
    assert simulator.statuses(event_id) == ["Scheduled", "Started", "Completed"]
    assert simulator.statuses(cancelled) == ["Scheduled", "Cancelled"]
    assert simulator.statuses(started) == ["Started", "Completed"]
    for move in ("start", "complete", "cancel"):
        answer = control(simulator, "POST", f"/events/unknown/{move}")
        assert answer.status == 404
        assert error_of(answer)


def test_an_id_is_unique_while_its_event_stands(still):
    simulator, url = still, still.urls["web-1"]
    event_id = simulator.post_event(EventId="twice", NoticeSeconds=30)
    for same in ("twice", "TWICE"):
        answer = control(simulator, "POST", "/events", {"EventType": "Freeze", "Resources": [], "EventId": same})
        assert answer.status == 409
        assert error_of(answer)
    simulator.cancel(event_id)
    simulator.post_event(EventId="Twice", NoticeSeconds=None)
    simulator.step(35)  # the first one's notice is no notice of the second
    assert document(url)["Events"][0]["EventStatus"] == "Scheduled"
    assert [event["EventStatus"] for event in simulator.events() if event["EventId"].lower() == "twice"] == ["Cancelled", "Scheduled"]
    simulator.start("tWICE")
    assert simulator.statuses("twice") == ["Scheduled", "Started"]


def test_started_and_scheduled_events_stand_side_by_side(simulator, url):
    ids = [simulator.post_event(NoticeSeconds=None, Resources=[name]) for name in ("web-1", "elsewhere", "web-2")]
    simulator.start(ids[1])
    assert [(event["EventId"], event["EventStatus"]) for event in document(url)["Events"]] == [
        (ids[0], "Scheduled"),
        (ids[1], "Started"),
        (ids[2], "Scheduled"),
    ]


# The control address


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (["x"], "must be an object"),
        ({}, "EventType"),
        ({"EventType": "Reboot"}, "Resources"),
        ({"Resources": []}, "EventType"),
        ({"EventType": 1, "Resources": []}, "EventType must be a string, not 1."),
        ({"EventType": None, "Resources": []}, "EventType"),
        ({"EventType": "x", "Resources": "web-1"}, "Resources must be a list of strings"),
        ({"EventType": "x", "Resources": ["web-1", 2]}, "Resources must be a list of strings"),
        ({"EventType": "x", "Resources": None}, "Resources"),
        ({"EventType": "x", "Resources": [], "EventId": ""}, "EventId"),
        ({"EventType": "x", "Resources": [], "EventId": 5}, "EventId"),
        ({"EventType": "x", "Resources": [], "EventStatus": "Completed"}, "EventStatus must be Scheduled or Started"),
        ({"EventType": "x", "Resources": [], "EventStatus": ["Started"]}, "EventStatus"),
        ({"EventType": "x", "Resources": [], "NotBefore": 5}, "NotBefore"),
        ({"EventType": "x", "Resources": [], "Description": None}, "Description"),
        ({"EventType": "x", "Resources": [], "EventSource": True}, "EventSource"),
        ({"EventType": "x", "Resources": [], "ResourceType": {}}, "ResourceType"),
        ({"EventType": "x", "Resources": [], "DurationInSeconds": -2}, "DurationInSeconds"),
        ({"EventType": "x", "Resources": [], "DurationInSeconds": 1.5}, "DurationInSeconds"),
        ({"EventType": "x", "Resources": [], "DurationInSeconds": "9"}, "DurationInSeconds"),
        ({"EventType": "x", "Resources": [], "DurationInSeconds": True}, "DurationInSeconds"),
        ({"EventType": "x", "Resources": [], "NoticeSeconds": -0.1}, "NoticeSeconds"),
        ({"EventType": "x", "Resources": [], "NoticeSeconds": "1"}, "NoticeSeconds"),
        ({"EventType": "x", "Resources": [], "ImpactSeconds": False}, "ImpactSeconds"),
        ({"EventType": "x", "Resources": [], "SettleSeconds": 1e18}, "SettleSeconds"),
        ({"EventType": "x", "Resources": [], "Noticeseconds": 1}, 'unknown field "Noticeseconds"'),
        ({"EventType": "x", "Resources": [], "After": 1}, 'unknown field "After"'),
        ('{"EventType": "x", "Resources": [], "NoticeSeconds": 1e999}', "NoticeSeconds"),
        ('{"EventType": "x", "Resources": [], "NoticeSeconds": NaN}', "no JSON"),
        ('{"EventType": "x", "Resources": [], "NoticeSeconds": 1' + "0" * 5000 + "}", "no JSON"),
        ('{"EventType": "x", "Resources": ' + "[" * 900 + "]" * 900 + "}", ""),
        ("", "no JSON"),
        (b"\xc3\x28", "no JSON"),
        ("[" * 100000, "no JSON"),
    ],
    ids=range(34),
)
def test_a_bad_event_is_refused(simulator, url, fields, told):
    before = document(url)
    answer = control(simulator, "POST", "/events", fields)
    assert answer.status == 400
    assert told in error_of(answer)
    assert document(url) == before


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ([], "must be an object"),
        ({}, "Fault"),
        ({"Fault": None}, "Fault must be an object"),
        ({"Fault": {}}, "Fault needs Status, Delay or Drop"),
        ({"Fault": {"Body": "x"}}, "Fault needs Status, Delay or Drop"),
        ({"Fault": {"Delay": 1, "Body": "x"}}, "without Status"),
        ({"Fault": {"Status": 500, "Drop": True}}, "both Status and Drop"),
        ({"Fault": {"Status": "500"}}, "Status must be an HTTP status"),
        ({"Fault": {"Status": 100}}, "Status must be an HTTP status"),
        ({"Fault": {"Status": 600}}, "Status must be an HTTP status"),
        ({"Fault": {"Status": True}}, "Status must be an HTTP status"),
        ({"Fault": {"Status": 500, "Body": {}}}, "Body must be a string"),
        ({"Fault": {"Status": 500, "Body": "\ud800"}}, "Body must be a string"),
        ({"Fault": {"Status": 500, "Headers": []}}, "Headers must be an object"),
        ({"Fault": {"Status": 500, "Headers": {"A": 1}}}, "Headers must be an object"),
        ({"Fault": {"Status": 500, "Headers": {"A b": "x"}}}, "Headers must be an object"),
        ({"Fault": {"Status": 500, "Headers": {"A": "x\r\nB: y"}}}, "Headers must be an object"),
        ({"Fault": {"Status": 500, "Headers": {"A": "\u20ac"}}}, "Headers must be an object"),
        ({"Fault": {"Delay": -1}}, "Delay must be a number of seconds"),
        ({"Fault": {"Delay": None}}, "Delay must be a number of seconds"),
        ({"Fault": {"Drop": False}}, "Drop must be true"),
        ({"Fault": {"Drop": 1}}, "Drop must be true"),
        ({"Fault": {"Drop": True, "Status2": 1}}, 'unknown field "Status2"'),
        ({"Fault": {"Drop": True}, "Vm": "web-9"}, "Vm must be one of the VMs (web-1, web-2, Web-6) or null"),
        ({"Fault": {"Drop": True}, "Vm": ["web-1"]}, "Vm"),
        ({"Fault": {"Drop": True}, "Method": "PUT"}, "Method"),
        ({"Fault": {"Drop": True}, "Method": "get"}, "Method"),
        ({"Fault": {"Drop": True}, "Times": 0}, "Times must be a positive integer or null"),
        ({"Fault": {"Drop": True}, "Times": 1.0}, "Times"),
        ({"Fault": {"Drop": True}, "Times": True}, "Times"),
        ({"Fault": {"Drop": True}, "vm": None}, 'unknown field "vm"'),
        ("x", "no JSON"),
    ],
    ids=range(32),
)
def test_a_bad_fault_is_refused(simulator, url, fault, told):
    answer = control(simulator, "POST", "/faults", fault)
    assert answer.status == 400
    assert told in error_of(answer)
    assert ask(url).status == 200


def test_control_answers_its_paths_alone(simulator):
    answer = control(simulator, "POST", "/events", {"EventType": "x", "Resources": []})
    assert (answer.status, list(answer.json)) == (201, ["EventId"])
    assert control(simulator, "DELETE", "/faults").status == 200
    for path in ("/", "/event", "/events/", "/events/x", "/events/x/stop", "/events/x/start/", "/faults/1", EVENTS_PATH, "//events", "/%65vents/x"):
        answer = control(simulator, "POST", path)
        assert answer.status == 404
        assert error_of(answer)
    for method, path in (
        ("PUT", "/events"),
        ("DELETE", "/events"),
        ("GET", "/events/x/start"),
        ("PUT", "/faults"),
        ("POST", "/requests"),
        ("DELETE", "/requests"),
        ("TRACE", "/faults"),
    ):
        answer = control(simulator, method, path)
        assert answer.status == 405
        assert error_of(answer)
        assert method not in answer.headers["Allow"]
    for path in ("/", "/events"):
        answer = control(simulator, "HEAD", path)
        assert (answer.status, answer.body) == (200, b"")
    assert control(simulator, "HEAD", "/disable").status == 405


def test_bodies_over_1_mb(simulator, url):
    fits = json.dumps({"EventType": "x", "Resources": []})
    assert control(simulator, "POST", "/events", fits + " " * (1024 * 1024 - len(fits))).status == 201
    for base, path in ((simulator.control, "/events"), (simulator.control, "/faults"), (url, EVENTS_PATH)):
        for size in (1024 * 1024 + 1, 10**7):
            answer = ask(base, "POST", path, version="2020-07-01", body=b" " * size)
            assert answer.status == 413
            assert error_of(answer)
            assert answer.headers["Connection"] == "close"
    # Sent in chunks, and announced but not sent.
    chunked = b"POST /events HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert status_of(talk(simulator.control, chunked, (b"80000\r\n" + b" " * 0x80000 + b"\r\n") * 3)) == 413
    assert status_of(talk(simulator.control, chunked, b"fffffffffffff\r\n")) == 413
    assert status_of(talk(simulator.control, b"POST /events HTTP/1.1\r\nContent-Length: 99999999999999999999\r\nExpect: 100-continue\r\n\r\n")) == 413


def test_the_list_of_requests(simulator, url):
    simulator.fault(Drop=True, method="POST", times=1)
    seen_before = len(simulator.requests())
    begun = time.time()
    ask(url, query="x=%20y")
    ask(url, "PUT", version=None)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        approve(url, "x")
    ask(simulator.urls["Web-6"], path="/metadata/instance/compute/name", version="1", query="format=text")
    seen = simulator.requests()[seen_before:]
    assert [(entry["Vm"], entry["Method"], entry["Path"], entry["Status"]) for entry in seen] == [
        ("web-1", "GET", EVENTS_PATH + "?api-version=2020-07-01&x=%20y", 200),
        ("web-1", "PUT", EVENTS_PATH, 405),
        ("web-1", "POST", EVENTS_PATH + "?api-version=2020-07-01", None),
        ("Web-6", "GET", "/metadata/instance/compute/name?api-version=1&format=text", 200),
    ]
    times = [entry["Time"] for entry in seen]
    assert times == sorted(times)
    assert begun <= times[0] <= times[-1] <= time.time()
    assert list(seen[0]) == ["Time", "Vm", "Method", "Path", "Status"]


# Faults


def test_faults_answer_before_every_other_check(simulator, url):
    simulator.fault({"Status": 503, "Body": "<busy>", "Headers": {"Retry-After": "7", "content-TYPE": "text/html", "Date": "never"}})
    for method, headers, version in (("GET", METADATA, "2020-07-01"), ("PUT", {}, None), ("POST", {"X-Forwarded-For": "x"}, "x")):
        answer = ask(url, method, headers=headers, version=version)
        assert (answer.status, answer.body) == (503, b"<busy>")
        assert answer.headers["Retry-After"] == "7"
        assert answer.headers.get_all("Content-Type") == ["text/html"]
        assert answer.headers.get_all("Date") == ["never"]
    # Nothing else has faults.
    assert ask(url, path="/metadata/instance").status == 200
    assert ask(url, path="/metadata").status == 404
    assert control(simulator, "GET", "/events").status == 200
    simulator.clear_faults()
    assert ask(url).status == 200


def test_a_faulted_approval_approves_nothing(simulator, url):
    event_id = simulator.post_event(NoticeSeconds=None)
    simulator.fault(Status=200, method="POST", times=1)
    simulator.fault(Drop=True, method="POST", times=1)
    assert approve(url, event_id).status == 200
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        approve(url, event_id)
    assert simulator.event(event_id)["Approvals"] == []
    assert approve(url, event_id).status == 200
    assert len(simulator.event(event_id)["Approvals"]) == 1


def test_faults_of_one_vm_and_one_method(simulator):
    urls = simulator.urls
    simulator.fault(Status=500, vm="WEB-1", method="POST")
    simulator.fault(Status=501, vm="web-2")
    simulator.fault(Status=502, method="GET")
    assert [ask(urls[name]).status for name in ("web-1", "web-2", "Web-6")] == [502, 501, 502]
    assert [ask(urls[name], "POST").status for name in ("web-1", "web-2", "Web-6")] == [500, 501, 400]


def test_faults_count_down_across_vms_and_come_in_the_order_given(simulator):
    simulator.fault(Status=500, times=2)
    simulator.fault(Status=429, times=1)
    simulator.fault(Status=410, times=2)
    names = ["web-1", "web-2", "Web-6", "web-1", "web-2", "Web-6"]
    assert [ask(simulator.urls[name]).status for name in names] == [500, 500, 429, 410, 410, 200]


def test_faults_count_right_under_load(simulator):
    simulator.fault(Status=503, times=50)
    urls = list(simulator.urls.values()) * 40
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(lambda url: ask(url).status, urls))
    assert (statuses.count(503), statuses.count(200)) == (50, 70)


def test_a_delay_goes_on_to_the_next_fault_or_the_answer(simulator, url):
    simulator.fault(Delay=0.1)
    simulator.fault(Status=503, times=1)
    simulator.fault(Delay=0.1, times=1)
    for status, seconds in ((503, 0.1), (200, 0.2), (200, 0.1)):
        begun = time.monotonic()
        assert ask(url).status == status
        assert time.monotonic() - begun == soon(seconds)
    event_id = simulator.post_event(NoticeSeconds=None)
    assert approve(url, event_id).status == 200
    assert len(simulator.event(event_id)["Approvals"]) == 1


def test_a_delayed_approval_whose_client_went_away_approves_nothing(simulator, url):
    event_id = simulator.post_event(NoticeSeconds=None)
    simulator.fault(Delay=0.2, times=1)
    seen_before = len(simulator.requests())
    body = json.dumps({"StartRequests": [{"EventId": event_id}]}).encode()
    with socket.create_connection(address_of(url)) as sock:
        sock.sendall(b"POST /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nMetadata: true\r\n")
        sock.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        while len(simulator.requests()) == seen_before:
            time.sleep(0.01)
    time.sleep(0.3)
    assert simulator.event(event_id)["Approvals"] == []
    assert simulator.requests()[-1]["Status"] is None


def test_a_delay_ends_with_its_client(simulator, url):
    """The place of one that is gone is free for others."""
    simulator.fault(Delay=60, times=1)
    seen_before = len(simulator.requests())
    tasks = f"/proc/{simulator.process.pid}/task"
    with socket.create_connection(address_of(url)) as sock:
        sock.sendall(b"GET /metadata/scheduledevents HTTP/1.1\r\n\r\n")
        while len(simulator.requests()) == seen_before:
            time.sleep(0.01)
        time.sleep(0.1)
        threads = len(os.listdir(tasks))
    until(lambda: len(os.listdir(tasks)) < threads, 3)


def test_faults_without_a_body(simulator, url):
    simulator.fault(Status=200, times=1)
    answer = ask(url)
    assert (answer.status, answer.body) == (200, b"")
    for status in (204, 304):
        simulator.fault(Status=status, Body="unseen", times=1)
        received = talk(url, b"GET /metadata/scheduledevents HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert b"unseen" not in received
        assert received.count(b"HTTP/1.1 ") == 2


def test_faults_may_lie_about_the_length(simulator, url):
    simulator.fault({"Status": 200, "Body": "{}", "Headers": {"content-length": "100"}}, times=1)
    received = talk(url, b"GET /metadata/scheduledevents HTTP/1.1\r\n\r\n")
    assert received.lower().count(b"content-length") == 1
    assert b"Connection: close" in received
    assert received.endswith(b"\r\n\r\n{}")
    simulator.fault({"Status": 302, "Headers": {"Location": "http://127.0.0.1:1/", "Connection": "close"}}, times=1)
    received = talk(url, b"GET /metadata/scheduledevents HTTP/1.1\r\n\r\n")
    assert received.lower().count(b"connection: close") == 1
    assert b"Location: http://127.0.0.1:1/" in received


# The instance endpoint


def test_the_instance_endpoint(simulator):
    def leaves(value):
        return [leaf for item in value.values() for leaf in leaves(item)] if isinstance(value, dict) else [value]

    instances = {name: ask(url, path="/metadata/instance", version="anything", query="extra=1").json for name, url in simulator.urls.items()}
    for name, value in instances.items():
        assert value["compute"]["name"] == name
        assert all(isinstance(leaf, str) for leaf in leaves(value["compute"]))
        interface = value["network"]["interface"][0]
        assert re.fullmatch("[0-9A-F]{12}", interface["macAddress"])
        assert re.fullmatch(r"10(\.[0-9]+){3}", interface["ipv4"]["ipAddress"][0]["privateIpAddress"])
        parts = {
            "/metadata/instance/compute/name": name,
            "/METADATA/Instance/network/interface/0/macAddress": interface["macAddress"],
            "/metadata/instance/network/interface/0/ipv4/ipAddress/0/privateIpAddress/": interface["ipv4"]["ipAddress"][0]["privateIpAddress"],
        }
        for path, text in parts.items():
            answer = ask(simulator.urls[name], path=path, version="2021-02-01", query="format=text")
            assert (answer.status, answer.body.decode()) == (200, text)
            assert answer.headers["Content-Type"].startswith("text/plain")
        assert ask(simulator.urls[name], path="/metadata/instance/compute").json == value["compute"]
        assert ask(simulator.urls[name], path="/metadata/instance/compute/name").json == name
    assert len({value["network"]["interface"][0]["macAddress"] for value in instances.values()}) == 3
    url = simulator.urls["web-1"]
    assert ask(url, path="/metadata/instance", query="format=text").body == b"compute/\nnetwork/"
    assert ask(url, path="/metadata/instance/network/interface", query="format=text").body == b"0/"
    assert ask(url, path="/metadata/instance", headers={}).status == 400
    assert ask(url, path="/metadata/instance", version=None).status == 400
    for path in ("compute/x", "compute/name/x", "network/interface/1", "network/interface/-1", "network/interface/x", "%00"):
        assert ask(url, path=f"/metadata/instance/{path}").status == 404


# HTTP itself


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\n\r\n", 400),
        (b"G\xffT / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA : b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA: \x00\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 505),
        (b"GET /" + b"x" * 20000 + b" HTTP/1.1\r\n\r\n", 431),
        (b"x" * 200000, 431),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20000 + b"\r\n", 431),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 0x10\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", 400),
    ],
    ids=range(20),
)
def test_broken_http_is_answered_and_closed(simulator, sent, status):
    received = talk(simulator.control, sent)
    assert status_of(received) == status
    head, body = received.split(b"\r\n\r\n", 1)
    assert b"\r\nConnection: close" in head
    assert json.loads(body)["error"]


def test_http_that_is_unusual_but_right(simulator, url):
    path = b"/metadata/scheduledevents?api-version=2020-07-01"
    assert status_of(talk(url, b"\r\n\r\nGET " + path + b" HTTP/1.1\r\nmETADATA:true\r\n\r\n")) == 200
    assert status_of(talk(url, b"GET " + path + b" HTTP/1.1\nMetadata: true\n\n")) == 200
    assert status_of(talk(url, b"GET http://169.254.169.254" + path + b" HTTP/1.1\r\nMetadata: true\r\n\r\n")) == 200
    # Two requests at once, and one byte by byte.
    request = b"GET " + path + b" HTTP/1.1\r\nMetadata: true\r\nContent-Length: 3\r\n\r\nabc"
    assert talk(url, request * 2).count(b"HTTP/1.1 200") == 2
    assert status_of(talk(url, *(request[index : index + 1] for index in range(len(request))))) == 200
    # HTTP/1.0
    received = talk(url, b"GET " + path + b" HTTP/1.0\r\nMetadata: true\r\n\r\n")
    assert status_of(received) == 200
    assert b"Connection: close" in received
    received = talk(url, (b"GET " + path + b" HTTP/1.0\r\nMetadata: true\r\nConnection: Keep-Alive\r\n\r\n") * 2)
    assert received.count(b"HTTP/1.1 200") == 2


def test_a_body_in_chunks_and_one_that_waits_to_be_asked_for(simulator, url):
    event_id = simulator.post_event(NoticeSeconds=None)
    body = json.dumps({"StartRequests": [{"EventId": event_id}]}).encode()
    head = b"POST /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nMetadata: true\r\n"
    chunks = b"".join(b"1;x=y\r\n%c\r\n" % byte for byte in body) + b"0\r\nTrailer: x\r\n\r\n"
    assert status_of(talk(url, head + b"Transfer-Encoding: Chunked\r\n\r\n" + chunks)) == 200
    received = talk(url, head + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body), body)
    assert received.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert len(simulator.event(event_id)["Approvals"]) == 2


def test_clients_that_vanish_do_no_harm(simulator, url):
    for sent in (b"", b"GET ", b"POST /metadata/scheduledevents HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc"):
        for reset in (False, True):
            sock = socket.create_connection(address_of(url))
            sock.sendall(sent)
            if reset:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            sock.close()
    assert ask(url).status == 200


fuzz = hypothesis.settings(deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
fields = st.sampled_from(
    "EventId EventType Resources EventStatus NoticeSeconds DurationInSeconds Vm Method Fault Times Status Body Headers Delay Drop StartRequests".split()
)
values = st.sampled_from(["Reboot", "Started", "web-1", "GET", True, 0, 1, 1.5, 503]) | st.none() | st.text() | st.integers() | st.floats()
documents = st.recursive(values, lambda inner: st.lists(inner) | st.dictionaries(fields | st.text(), inner), max_leaves=10)


@hypothesis.settings(fuzz, max_examples=fuzz.max_examples // 3)
@hypothesis.given(st.dictionaries(fields, documents) | documents)
def test_any_json_is_answered(running, value):
    for base, path in ((running.control, "/events"), (running.control, "/faults"), (running.urls["web-1"], EVENTS_PATH)):
        assert ask(base, "POST", path, body=json.dumps(value)).status in (201, 400, 409)
        running.clear_faults()


@fuzz
@hypothesis.given(
    st.lists(
        st.binary(max_size=20)
        | st.sampled_from([b"GET ", b"POST ", b"/metadata/scheduledevents", b"?api-version=2020-07-01", b"%", b"&a=b", b" HTTP/1.1", b"\r\n", b"\r\n\r\n"])
        | st.sampled_from([b"Metadata: true\r\n", b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n", b"3\r\n", b"{}"])
    )
)
def test_any_bytes_are_survived(running, parts):
    received = talk(running.urls["web-1"], b"".join(parts))
    assert received == b"" or received.startswith(b"HTTP/1.1 ")
    assert ask(running.urls["web-1"]).status == 200


class Dawdler:
    """The socket and the clock of a client that sends a byte every C(PAUSE) seconds, and then nothing more."""

    PAUSE = 0.1

    def __init__(self, sent):
        self.left = [bytes([byte]) for byte in sent]
        self.received, self.now, self.closed = b"", 0.0, False

    def monotonic(self):
        return self.now

    def settimeout(self, seconds):
        self._patience = seconds

    def recv(self, _most):
        if self.left and self._patience >= self.PAUSE:
            self.now += self.PAUSE
            return self.left.pop(0)
        self.now += self._patience
        raise TimeoutError

    def sendall(self, data):
        self.received += data

    def setsockopt(self, *_option):
        pass

    def shutdown(self, _how):
        pass

    def close(self):
        self.closed = True


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", None),
        (b"GET /metadata/sche", 408),
        (b"GET /metadata/scheduledevents HTTP/1.1\r\nMetadata: tr", 408),
        (b"POST /metadata/scheduledevents HTTP/1.1\r\nContent-Length: 100\r\n\r\n{", 408),
        (b"POST /metadata/scheduledevents HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", 408),
        (b"POST /metadata/scheduledevents HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 408),
    ],
)
def test_a_client_that_dawdles_is_told_so_in_the_end(monkeypatch, sent, status):
    client = Dawdler(sent)
    monkeypatch.setattr(connection, "time", client)
    connection.Connection(client, MetadataService(Vm("a", 0), ScaleSet(None, None)).answer).serve()
    assert status_of(client.received) == status
    if status:
        assert b"\r\nConnection: close\r\n" in client.received
    # However it dribbles: the whole request has the time, not each byte. Before it, and after an answer, it has time as well.
    least = connection.REQUEST_SECONDS
    assert client.closed and least <= client.now <= least + connection.HANG_UP_SECONDS + 2 * Dawdler.PAUSE


def test_many_at_once(simulator):
    """As many requests on fresh and on kept connections as there are answers, and every one recorded."""

    def client(number):
        url = list(simulator.urls.values())[number % 3]
        connection = http.client.HTTPConnection(*address_of(url), timeout=patient(20))
        for _time in range(10):
            connection.request("GET", EVENTS_PATH + "?api-version=2020-07-01", headers=METADATA)
            answer = Answer(connection.getresponse())
            assert answer.status == 200
            assert len(answer.json["Events"]) == 3
            if number % 2:
                connection.close()
        connection.close()

    for _time in range(3):
        simulator.post_event(NoticeSeconds=None)
    seen_before = len(simulator.requests())
    with concurrent.futures.ThreadPoolExecutor(60) as pool:
        list(pool.map(client, range(60)))
    assert len(simulator.requests()) - seen_before == 600


def test_the_idle_simulator_does_nothing(simulator):
    def cpu():
        with open(f"/proc/{simulator.process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    simulator.post_event(NoticeSeconds=60)

    def rests():
        before = cpu()
        time.sleep(0.1)
        return cpu() == before

    with socket.create_connection(address_of(simulator.control)):
        # Only now it has done all that the tests before wanted of it.
        until(rests, 10)
        before = cpu()
        time.sleep(0.5)
        assert cpu() - before <= 1


# Scenarios and commands


def test_a_scenario_plays_by_itself(tmp_path):
    scenario = {
        "events": [
            {"After": 0.4, "EventId": "later", "EventType": "Freeze", "Resources": ["b"], "NoticeSeconds": 0.1},
            {"EventId": "first", "EventType": "Reboot", "Resources": ["a"], "EventStatus": "Started", "ImpactSeconds": 0.1, "SettleSeconds": 0},
            {"After": 0.1, "EventId": "stays", "EventType": "Reboot", "Resources": ["a"]},
            {"After": 0.2, "EventId": "STAYS", "EventType": "Reboot", "Resources": ["a"]},
        ],
        "faults": [{"Vm": "B", "Fault": {"Status": 429}, "Times": 1}, {"Fault": {"Status": 404}, "Times": 1}],
    }
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(scenario))
    before = time.time()
    with Simulator(["a", "b"], scenario=path, python=PYTHON, stderr=subprocess.PIPE) as simulator:
        after = time.time()
        assert [ask(simulator.urls[name]).status for name in "abba"] == [404, 429, 200, 200]
        while len(simulator.events()) < 3 or len(simulator.statuses("later")) < 2:
            time.sleep(0.02)
        events = {event["EventId"]: event for event in simulator.events()}
        assert list(events) == ["first", "stays", "later"]
        assert before < events["first"]["History"][0]["Time"] < after + patient(0.1)
        # Each by its own time from the beginning, however late another one was.
        for name, seconds in (("stays", 0.1), ("later", 0.4)):
            at = events[name]["History"][0]["Time"]
            assert at >= before + seconds and (at < after + seconds or at - after == soon(seconds))
        assert simulator.statuses("first") == ["Started", "Completed"]
        simulator.process.terminate()
        assert simulator.process.stderr.read() == b'imds_simulator.py: scenario: event 4: An event "STAYS" stands already.\n'
        simulator.process.stderr.close()


def test_commands_run_with_the_event_and_nobody_waits(tmp_path, request):
    script = tmp_path / "note it.sh"
    # None of them ends before all is seen.
    goes_on = tmp_path / "goes on"
    goes_on.touch()
    request.addfinalizer(goes_on.unlink)
    script.write_text(f'#!/bin/sh\ncat > "$1.tmp"; mv "$1.tmp" "$1"; echo said "$2"; while [ -e "{goes_on}" ]; do sleep 0.1; done\n')
    script.chmod(0o755)
    with Simulator(
        ["a"],
        on_start=f"'{script}' {tmp_path}/start 'as one'",
        on_gone=f"'{script}' {tmp_path}/gone gone",
        python=PYTHON,
        stderr=subprocess.PIPE,
    ) as simulator:
        # More than a pipe takes at once.
        resources = [f"vm-{number}" for number in range(10000)]
        event_id = simulator.post_event(Resources=resources, NoticeSeconds=None, ImpactSeconds=None)
        assert not (tmp_path / "start").exists()
        simulator.start(event_id)
        simulator.complete(event_id)
        while not ((tmp_path / "start").exists() and (tmp_path / "gone").exists()):
            time.sleep(0.01)
        started, gone = (json.loads((tmp_path / name).read_text()) for name in ("start", "gone"))
        assert (started["EventId"], started["EventStatus"], started["Resources"]) == (event_id, "Started", resources)
        assert [entry["Status"] for entry in started["History"]] == ["Scheduled", "Started"]
        assert (gone["EventId"], gone["EventStatus"]) == (event_id, "Completed")
        (tmp_path / "gone").unlink()
        cancelled = simulator.post_event()
        simulator.cancel(cancelled)
        while not (tmp_path / "gone").exists():
            time.sleep(0.01)
        assert json.loads((tmp_path / "gone").read_text())["EventStatus"] == "Cancelled"
        assert json.loads((tmp_path / "start").read_text())["EventId"] == event_id
        said = [simulator.process.stderr.readline() for _time in range(3)]
        assert sorted(said) == [b"said as one\n", b"said gone\n", b"said gone\n"]
        assert [command["Seconds"] for event in simulator.events() for command in event["Commands"]] == [None] * 3
        simulator.process.terminate()
        assert simulator.process.wait(1) == 0
        assert simulator.process.stdout.readline() == b""
        simulator.process.stderr.close()


def test_commands_that_fail_do_no_harm(tmp_path):
    with Simulator(["a"], on_start=f"{tmp_path}/missing", on_gone="sh -c 'exec <&-; exit 3'", python=PYTHON, stderr=subprocess.PIPE) as simulator:
        for _time in range(2):
            event_id = simulator.post_event(NoticeSeconds=0, ImpactSeconds=0.1, SettleSeconds=0)
            simulator.wait_for(event_id, "Completed")
        simulator.process.terminate()
        assert simulator.process.stderr.read() == f"imds_simulator.py: {tmp_path}/missing cannot be run: No such file or directory\n".encode() * 2
        simulator.process.stderr.close()


def test_it_leaves_no_dead_children(tmp_path):
    with Simulator(["a"], on_start="true", on_gone=f"touch {tmp_path}/gone", python=PYTHON) as simulator:
        simulator.post_event(EventStatus="Started", ImpactSeconds=0, SettleSeconds=0)
        while not (tmp_path / "gone").exists():
            time.sleep(0.01)
        listed = ["ps", "--ppid", str(simulator.process.pid), "-o", "pid="]
        until(lambda: subprocess.run(listed, stdout=subprocess.PIPE, check=False).stdout.split() == [], 5, "no child is left")


def test_it_ends_by_itself(tmp_path):
    began = time.monotonic()
    process = start("--vm", "a=127.0.0.1:0", "--background", str(tmp_path), "--end-after", "0.5")
    assert process.communicate(timeout=patient(10))[1] == ""
    while (tmp_path / "imds_simulator.pid").exists():
        assert time.monotonic() < began + patient(10)
        time.sleep(0.01)
    assert time.monotonic() > began + 0.5


def test_it_ends_when_nobody_asks_any_more(tmp_path):
    process = start("--vm", "a=127.0.0.1:0", "--background", str(tmp_path), "--end-unasked", "1")
    (url,) = json.loads(process.communicate(timeout=patient(10))[0])["vms"].values()
    running = tmp_path / "imds_simulator.pid"
    for _request in range(6):
        document(url)
        last = time.monotonic()
        time.sleep(0.3)
    assert running.exists()
    until(lambda: not running.exists(), 10)
    assert time.monotonic() >= last + 1


def test_in_the_background(tmp_path):
    process = start("--vm", "a=127.0.0.1:0", "--background", str(tmp_path), "--on-start", "echo said")
    out, err = process.communicate(timeout=patient(10))  # nothing of it keeps the pipes open
    assert (process.returncode, err) == (0, "")
    pid = int((tmp_path / "imds_simulator.pid").read_text())
    try:
        line = json.loads(out)
        assert document(line["vms"]["a"])["Events"] == []
        event = {"EventType": "Reboot", "Resources": ["a"], "EventStatus": "Started"}
        assert ask(line["control"], "POST", "/events", version=None, body=event).status == 201
        while (tmp_path / "imds_simulator.log").read_text() != "said\n":
            time.sleep(0.01)
        # A second one leaves the first and its pid file alone.
        out, err = start("--vm", "a=127.0.0.1:0", "--background", str(tmp_path)).communicate(timeout=patient(10))
        assert (out, int((tmp_path / "imds_simulator.pid").read_text())) == ("", pid)
        assert f"process {pid} runs with this directory already" in err
    finally:
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 1
    while (tmp_path / "imds_simulator.pid").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process = start("--vm", "a=127.0.0.1:0", "--background", str(tmp_path / "missing"))
    out, err = process.communicate(timeout=patient(10))
    assert (process.returncode, out) == (2, "")
    assert "No such file or directory" in err
    # Nor is a pid file left where there can be no log.
    (tmp_path / "imds_simulator.log").unlink()
    (tmp_path / "imds_simulator.log").mkdir()
    out, err = start("--vm", "a=127.0.0.1:0", "--background", str(tmp_path)).communicate(timeout=patient(10))
    assert (out, err) == ("", f"imds_simulator.py: --background {tmp_path}: Is a directory\n")
    assert not (tmp_path / "imds_simulator.pid").exists()


def test_a_pid_file_is_removed_by_its_own_process_alone(tmp_path):
    pid_file, pids = tmp_path / "imds_simulator.pid", []
    try:
        for _time in range(2):
            assert start("--vm", "a=127.0.0.1:0", "--background", str(tmp_path)).communicate(timeout=patient(10))[1] == ""
            pids.append(int(pid_file.read_text()))
            if len(pids) == 1:
                pid_file.unlink()  # by somebody else
        there = []
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
            until(lambda pid=pid: not is_running(pid), 5)
            there.append(pid_file.exists())
        assert there == [True, False]
    finally:
        for pid in filter(is_running, pids):
            os.kill(pid, signal.SIGKILL)
    assert (tmp_path / "imds_simulator.log").read_text() == ""


def test_a_pid_file_that_its_process_removes_just_now(monkeypatch, tmp_path):
    """Between its opening and its locking: a file that has no name any more is no lock."""
    path = tmp_path / "imds_simulator.pid"
    removed = []

    def lock(_file, _how):
        if not removed:
            removed.append(path.unlink())

    monkeypatch.setattr("fcntl.flock", lock)
    pid_file = lock_pid_file(str(path))
    assert is_at(pid_file, path)
    os.close(pid_file)
