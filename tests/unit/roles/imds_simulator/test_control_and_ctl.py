# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the control address has beside events and faults: state, page, commands of events; and ctl."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time

import pytest
from graceful_azure_simulator.cli import main
from graceful_azure_simulator.commands import Commands
from graceful_azure_simulator.events import Event
from graceful_azure_simulator.process import in_background
from graceful_azure_simulator.simulated_time import Clock

from tests.support.asking import approve, ask, control, document
from tests.support.patience import patient, until
from tests.support.ports import free_port
from tests.support.simulator import SCRIPT, ControlError, Simulator


@pytest.fixture(scope="module")
def simulator():
    with Simulator(["a", "b c"], options=["--allow-commands", "--command-timeout", "0.5"]) as simulator:
        yield simulator


# State and page


def test_the_state_tells_everything(simulator):
    event_id = simulator.post_event(NoticeSeconds=None)
    simulator.fault(Delay=0, times=3, vm="a")
    document(simulator.urls["a"])
    before = time.time()
    state = simulator.ask("GET", "/state")
    assert state["Vms"]["b c"] == {"Url": simulator.urls["b c"], "Domain": "1"}
    assert state["Events"][-1]["EventId"] == event_id
    assert state["Faults"] == [{"Vm": "a", "Method": None, "Times": 2, "Fault": {"Delay": 0}}]
    assert state["Requests"][-1]["Vm"] == "a"
    assert (state["On"], state["Scale"]) == (True, 1.0)
    assert before - 1 < state["Time"] < time.time() + 1
    simulator.clear_faults()
    simulator.cancel(event_id)


def test_the_page_needs_nothing_from_elsewhere(simulator):
    answer = control(simulator, "GET", "/")
    assert answer.headers.get_content_type() == "text/html"
    page = answer.body.decode()
    assert "://" not in page.replace("http://127.0.0.1:9/", "")
    assert not re.search(r"<(link|img|iframe)|src=|@import|url\(", page)
    # Nothing of what the simulator tells becomes markup.
    assert "innerHTML" not in page


def test_pages_of_others_may_not_act(simulator):
    host = simulator.control.partition("//")[2]
    body = {"EventType": "Reboot", "Resources": ["a"], "NoticeSeconds": None}

    def status(origin, host):
        return ask(simulator.control, "POST", "/events", version=None, headers={"Origin": origin, "Host": host}, body=body).status

    assert status(f"http://{host}", host) == 201
    assert status("http://localhost:1", "localhost:1") == 201
    before = len(simulator.events())
    for origin, asked in (("https://example.org", host), ("null", host), ("http://example.org", "example.org"), (f"https://{host}", host)):
        assert status(origin, asked) == 403
    assert len(simulator.events()) == before


# Commands


def test_the_commands_of_an_event_and_what_became_of_them(simulator, tmp_path):
    event_id = simulator.post_event(
        NoticeSeconds=None,
        ImpactSeconds=None,
        OnStart=f"sh -c 'cat > {tmp_path}/started; echo out; echo err >&2; exit 3'",
        OnGone="sh -c 'sleep 60 & echo begun; wait'",
    )
    simulator.start(event_id)
    until(lambda: simulator.event(event_id)["Commands"][0]["ExitStatus"] == 3 and simulator.event(event_id)["Commands"][0]["Output"].count("\n") == 2, 5)
    assert json.loads((tmp_path / "started").read_text())["EventStatus"] == "Started"
    command = simulator.event(event_id)["Commands"][0]
    assert sorted(command["Output"].splitlines()) == ["err", "out"]
    assert command["Problem"] is None
    # One that takes too long is ended with all that it started.
    simulator.complete(event_id)
    until(lambda: simulator.event(event_id)["Commands"][1]["Problem"], 5)
    command = simulator.event(event_id)["Commands"][1]
    assert command["Problem"] == "was ended after 0.5 s"
    assert 0.5 <= command["Seconds"] < patient(2)
    assert command["Output"] == "begun\n"


def test_a_command_that_cannot_be_run_is_told(simulator):
    event_id = simulator.post_event(EventStatus="Started", OnStart="/no/such/program x")
    until(lambda: simulator.event(event_id)["Commands"][0]["Problem"], 5)
    assert simulator.event(event_id)["Commands"][0]["Problem"] == "cannot be run: No such file or directory"


def test_a_command_that_cannot_even_be_passed_on_is_told_and_the_next_one_runs(capfd):
    commands = Commands("echo \ud800", "true")
    event = Event({"EventType": "Reboot", "Resources": []}, Clock())
    commands.started(event)
    commands.gone(event)
    in_background(commands.run)
    until(lambda: event.commands[1]["ExitStatus"] == 0, 5)
    assert event.commands[0]["Problem"].startswith("cannot be run: 'utf-8' codec can't encode character")
    assert capfd.readouterr().err.startswith("imds_simulator.py: echo cannot be run: ")


def test_commands_where_the_system_knows_ascii_alone():
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with Simulator(["a"], options=["--allow-commands"], env=environment) as simulator:
        with pytest.raises(ControlError, match="400: .*OnStart must be a command that this system's encoding can carry"):
            simulator.post_event(EventStatus="Started", OnStart="echo ä")
        simulator.post_event(EventStatus="Started", OnStart="echo a")
        until(lambda: simulator.events()[0]["Commands"][0]["Output"] == "a\n", 5)


def test_the_end_of_a_long_output_is_kept(simulator):
    event_id = simulator.post_event(EventStatus="Started", OnStart=f'{sys.executable} -c \'print("x" * 100000 + "end")\'')
    until(lambda: simulator.event(event_id)["Commands"][0]["Output"].endswith("end\n"), 5)
    assert len(simulator.event(event_id)["Commands"][0]["Output"]) == 4096


def test_a_standard_error_that_nobody_reads_stops_nothing():
    # More than a pipe takes.
    with Simulator(["a"], on_start=f"{sys.executable} -c 'print(\"x\" * 70000)'", stderr=subprocess.PIPE) as simulator:
        for number in range(3):
            event_id = simulator.post_event(EventStatus="Started", EventId="E", ImpactSeconds=None)
            until(lambda: simulator.events()[-1]["Commands"][0]["ExitStatus"] == 0, 5)  # nor does the command wait
            until(lambda: simulator.events()[-1]["Commands"][0]["Output"].endswith("x\n"), 5)
            # What is complained of under way waits for nobody, either.
            simulator.play({"events": [{"EventType": "Reboot", "Vm": 1, "EventId": "E"}]})
            until(lambda: simulator.ask("GET", "/clock")["Next"] is None, 5)
            assert document(simulator.urls["a"])["Events"]
            simulator.complete(event_id)
            assert len(simulator.events()) == number + 1
        begun = time.monotonic()
        simulator.process.terminate()
        assert simulator.process.wait(patient(5)) == 0
        assert time.monotonic() - begun < 1
        simulator.process.stderr.close()


def test_a_command_at_every_impact(simulator):
    event_id = simulator.post_event(EventStatus="Started", FurtherImpacts=[0.1, 0.2], ImpactSeconds=0.3, SettleSeconds=0, OnStart="true")
    simulator.wait_for(event_id, "Completed")
    assert len(simulator.event(event_id)["Commands"]) == 3


def test_commands_from_outside_must_be_allowed():
    with Simulator(["a"]) as simulator:
        for wish in ({"OnStart": "true"}, {"OnGone": "true"}):
            with pytest.raises(ControlError, match="403: .*--allow-commands"):
                simulator.post_event(**wish)
            with pytest.raises(ControlError, match="403: "):
                simulator.play({"events": [{"EventType": "Reboot", "Vm": 1, **wish}]})
        assert simulator.events() == []


@pytest.mark.parametrize("command", ["", "  ", "sh -c 'x", 1, None, ["true"], "a\0b", "echo \ud800"])
def test_a_bad_command_is_refused(simulator, command):
    with pytest.raises(ControlError, match="400: .*OnStart must be"):
        simulator.post_event(OnStart=command)


def test_output_that_comes_after_the_end_of_the_simulator(tmp_path):
    with Simulator(["a"], on_start=f"sh -c 'sleep 0.3; echo late; touch {tmp_path}/done'", stderr=subprocess.PIPE) as simulator:
        simulator.post_event(EventStatus="Started")
        until(lambda: simulator.events()[0]["Commands"], 5)
        time.sleep(0.1)
        simulator.process.terminate()
        assert simulator.process.wait(1) == 0
        assert simulator.process.stderr.read() == b"late\n"
        assert (tmp_path / "done").exists()
        simulator.process.stderr.close()


# ctl


@pytest.fixture
def ctl(simulator, capfd):
    """A function that is the command, and returns what it printed."""

    def ctl(*arguments, status=0, url=simulator.control):
        assert main(["ctl", "--control", url, *arguments]) == status
        out, err = capfd.readouterr()
        assert not (err if status == 0 else out)
        return out or err

    return ctl


def test_an_event_by_ctl(simulator, ctl):
    event_id = json.loads(ctl("add", "Freeze", "b c", "NoticeSeconds=null", "ImpactSeconds=null", "Description=x=y", "EventId=Ü/1"))["EventId"]
    assert event_id == "Ü/1"
    event = simulator.event(event_id)
    assert (event["Resources"], event["Description"], event["NoticeSeconds"]) == (["b c"], "x=y", None)
    approve(simulator.urls["a"], event_id)
    simulator.wait_for(event_id, "Started")
    ctl("complete", event_id)
    listed = ctl("events").partition("Ü/1  Freeze  Completed  b c\n")[2].splitlines()
    assert [line.split("Z  ")[1] for line in listed[:4]] == ["Scheduled", "Started", "Completed", "approved through a"]
    assert json.loads(ctl("--json", "events")) == simulator.events()
    assert "409: " in ctl("start", event_id, status=1)
    assert "404: " in ctl("cancel", "none", status=1)
    assert "400: DurationInSeconds" in ctl("add", "x", "y", "DurationInSeconds=soon", status=1)
    before = simulator.events()
    for slips, told in (
        (["a", "eventid=E"], "'eventid=E' is not FIELD=VALUE with one of the fields EventId, "),
        (["a", "NoticeSeconds=60", "NoticeSeconds=600"], "NoticeSeconds is given twice."),
        (["a", 'Resources=["b c"]'], "is not FIELD=VALUE with one of the fields"),
        (["a", "EventType=Freeze"], "'EventType=Freeze' is not FIELD=VALUE with one of the fields"),
        (["NoticeSeconds=60"], "An event needs a VM."),
    ):
        assert told in ctl("add", "Reboot", *slips, status=1)
    assert simulator.events() == before
    # What is a number, or true, in JSON may be a text here.
    event_id = json.loads(ctl("add", "Reboot", 'Resources=["a"]', "EventId=123", "Description=true", "NotBefore=\udcff"))["EventId"]
    event = simulator.event(event_id)
    assert (event_id, event["Description"], event["NotBefore"], event["Resources"]) == ("123", "true", "\udcff", ["a"])


def test_a_type_that_azure_does_not_have_is_added_and_told(simulator, capfd):
    """It may be a typing error, or a test of what Azure may send one day."""
    assert main(["ctl", "--control", simulator.control, "add", "Rebot", "a"]) == 0
    out, err = capfd.readouterr()
    assert simulator.event(json.loads(out)["EventId"])["EventType"] == "Rebot"
    assert "The event is of type 'Rebot', none of Freeze, Reboot, Redeploy, Preempt, Terminate." in err


def test_faults_requests_clock_and_scenarios_by_ctl(simulator, ctl, tmp_path):
    ctl("fault", "Vm=a", "Times=1", "Status=503", 'Headers={"Retry-After": "1"}', "Body=busy")
    answer = ask(simulator.urls["a"])
    assert (answer.status, answer.body, answer.headers["Retry-After"]) == (503, b"busy", "1")
    assert ctl("requests", "1").endswith("a  GET /metadata/scheduledevents?api-version=2020-07-01  503\n")
    for slip in ("times=1", "Tims=1", "Status", "web-1"):
        assert f"'{slip}' is not FIELD=VALUE" in ctl("fault", "Drop=true", slip, status=1)
    assert "Delay is given twice." in ctl("fault", "Delay=1", "Delay=5", status=1)
    for body in ('{"a": 1}', "7"):
        ctl("fault", "Times=1", "Status=200", "Vm=null", f"Body={body}")
        assert ask(simulator.urls["a"]).body == body.encode()
    ctl("fault", "Drop=true", url=simulator.control.partition("//")[2])
    assert simulator.ask("GET", "/faults") == [{"Vm": None, "Method": None, "Times": None, "Fault": {"Drop": True}}]
    ctl("clear-faults")
    assert ask(simulator.urls["a"]).status == 200
    before = json.loads(ctl("clock"))["Time"]
    assert json.loads(ctl("clock", "step=1000"))["Time"] >= before + 1000
    assert json.loads(ctl("clock", "scale=2"))["Scale"] == 2
    ctl("clock", "scale=1")
    assert "400: Next must be true, not 5." in ctl("clock", "next=5", status=1)
    path = tmp_path / "mine.json"
    path.write_text('{"events": [{"EventType": "Freeze", "Vm": 2}]}')
    assert json.loads(ctl("play", str(path))) == {"Events": 1, "Faults": 0}
    assert json.loads(ctl("play", "redeploy"))["Events"] == 1
    assert "no scenario of the library" in ctl("play", "none", status=1)
    ctl("clock", "next")
    assert json.loads(ctl("disable")) == {"DocumentIncarnation": 1}
    assert json.loads(ctl("state"))["On"] is False


def test_ctl_without_a_simulator(ctl):
    for url in ("http://127.0.0.1:1", "nonsense", "127.0.0.1:abc"):
        told = ctl("events", status=1, url=url)
        assert told.startswith(f"imds_simulator.py: {url} does not answer: ")
        assert told.count("\n") == 1


CUT = b"\r\nContent-Length: 9\r\n\r\n["


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 200 OK" + CUT, b"HTTP/1.1 500 No" + CUT])
def test_ctl_of_something_else(ctl, answer):
    with socket.create_server(("127.0.0.1", 0)) as listener, concurrent.futures.ThreadPoolExecutor(1) as pool:

        def serve():
            with listener.accept()[0] as served:
                served.recv(4096)
                served.sendall(answer)

        pool.submit(serve)
        url = "127.0.0.1:{}".format(listener.getsockname()[1])
        assert ctl("events", status=1, url=url).startswith(f"imds_simulator.py: {url} does not answer: ")


def test_ctl_as_a_program(simulator):
    def run(*arguments):
        environment = {**os.environ, "IMDS_SIMULATOR_CONTROL": simulator.control}
        return subprocess.run(
            [sys.executable, str(SCRIPT), "ctl", *arguments], env=environment, capture_output=True, text=True, timeout=patient(20), check=False
        )

    for arguments in (("--json", "requests"), ("requests", "--json", "--control", simulator.control)):
        done = run(*arguments)
        assert (done.returncode, json.loads(done.stdout)) == (0, simulator.requests()[-20:])
    assert run().returncode == 2
    assert "http://127.0.0.1:1 does not answer" in run("events", "--control", "http://127.0.0.1:1").stderr


def test_ctl_prints_what_the_terminal_cannot_show(simulator):
    simulator.cancel(simulator.post_event(EventType="\u2192 \ud800"))
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    command = [sys.executable, str(SCRIPT), "ctl", "--control", simulator.control, "events"]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=patient(20), check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"  \\u2192 \\ud800  Cancelled" in done.stdout


def test_an_output_that_takes_nothing(simulator, tmp_path):
    def run(arguments, output):
        command = [sys.executable, str(SCRIPT), *arguments]
        return subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, timeout=patient(20), check=False)

    (tmp_path / "scenario.json").write_text("{}")
    for arguments in (["ctl", "--control", simulator.control, "state"], ["--check", str(tmp_path / "scenario.json")], ["--list-scenarios"]):
        with open("/dev/full", "wb") as full:
            done = run(arguments, full)
        assert (done.returncode, done.stderr) == (1, "imds_simulator.py: standard output: No space left on device\n")
    reading, writing = os.pipe()
    os.close(reading)
    # Whoever reads no further is told nothing.
    assert run(["--list-scenarios"], writing).stderr == ""
    os.close(writing)


def test_a_simulator_without_standard_streams():
    # Started by a shell that closed them, as some supervisors do.
    port = free_port()

    def answers():
        with contextlib.suppress(OSError):
            return ask(f"http://127.0.0.1:{port}").status == 200

    line = f"exec '{sys.executable}' '{SCRIPT}' --vm a=127.0.0.1:{port} <&- >&- 2>&-"
    process = subprocess.Popen(["sh", "-c", line])
    try:
        until(answers, 5)
    finally:
        process.terminate()
    assert process.wait(patient(5)) == 0
