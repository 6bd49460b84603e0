# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The watcher as a process, against the simulator and receivers on loopback."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time

import pytest
import yaml
from graceful_azure_watcher.hold import FastHold
from graceful_azure_watcher.settings import DEFAULTS

from tests.support.checkout import ROOT, must_pass
from tests.support.patience import patient, until
from tests.support.playbook import play_here, this_machine
from tests.support.ports import free_port
from tests.support.processes import frozen
from tests.support.receiver import KEY, TOKEN, Awx, Receiver, Webhook, certificate
from tests.support.simulator import Simulator
from tests.support.watcher import HURRY, ROLE, Watcher, noted, noting

# Nothing moves an event on but the test.
STILL = {"NoticeSeconds": None, "ImpactSeconds": None, "SettleSeconds": None, "NotBefore": ""}


@pytest.fixture(name="simulator")
def make_simulator():
    with Simulator(["www_1", "www_2"]) as simulator:
        yield simulator


@pytest.fixture(name="watcher")
def make_watcher(tmp_path, simulator):
    watcher = Watcher(tmp_path, simulator.urls["www_1"], constants=HURRY)
    yield watcher
    watcher.close()


def running(watcher):
    """Started, and answered by its service."""
    process = watcher.start()
    path = watcher.folder / "run/status.json"
    until(lambda: path.exists() and json.loads(path.read_text())["answers"], 15, what=watcher.log.read_text)
    return process


# run


def test_a_command_from_appeared_to_gone(simulator, watcher, tmp_path):
    watcher.set(action="run", command=noting(tmp_path / "noted"), repeat=1)
    process = running(watcher)
    neighbours = simulator.post_event(Resources=["www_2"], **STILL)
    posted = time.time()
    event_id = simulator.post_event(Resources=["www_1", "www_2", "no pattern*"], **STILL)
    (appeared,) = watcher.wait_for("appeared")
    assert time.time() - posted < patient(3)
    assert appeared["event_id"] == event_id
    until(lambda: noted(tmp_path / "noted"), 15)
    watcher.wait_for("action_started", 2)  # repeated, since something stands
    simulator.start(event_id)
    watcher.wait_for("changed")
    # One that was under way ends first.
    until(lambda: "changed" in [document["why"] for document in noted(tmp_path / "noted")], 15)
    simulator.complete(event_id)
    watcher.wait_for("gone")
    until(lambda: noted(tmp_path / "noted")[-1]["gone"], 15)
    until(lambda: watcher.begun() == [], 15)
    documents = noted(tmp_path / "noted")
    assert [document["why"] for document in documents if document["why"] != "repeat"] == ["appeared", "changed", "gone"]
    assert all(document["target"] == "www_1,www_2" for document in documents)
    assert [event["event_id"] for event in documents[0]["events"]] == [event_id]
    assert documents[0]["events"][0]["affects_host"] is True
    assert (documents[-1]["events"], documents[-1]["gone"][0]["event_id"]) == ([], event_id)
    assert watcher.lines("names_left_out")[0]["names"] == "no pattern*"
    assert not [line for line in watcher.lines() if line.get("event_id") == neighbours]

    # Written after the state, the metrics last.
    until(lambda: watcher.metrics()['actions_started_total{kind="run"}'] == len(documents), 15)
    shown = watcher.run("--status")
    assert shown.returncode == 0 and "host www_1" in shown.stdout and "no event names this host" in shown.stdout
    process.terminate()
    assert process.wait(patient(5)) == 0
    assert watcher.run("--status").returncode == 3


def test_never_two_at_once_and_ended_with_the_watcher(simulator, watcher, tmp_path):
    watcher.set(action="run", command=noting(tmp_path / "noted", "import time", "time.sleep(60)"))
    process = running(watcher)
    event_id = simulator.post_event(**STILL)
    until(lambda: noted(tmp_path / "noted"), 15)
    simulator.start(event_id)
    watcher.wait_for("changed")
    time.sleep(0.5)
    assert len(noted(tmp_path / "noted")) == 1
    process.terminate()
    assert process.wait(patient(5)) == 0
    assert "ended" in watcher.lines()[-1]["what"]


def test_one_look_after_the_other(simulator, watcher, tmp_path):
    """What was refused, and what was seen through to its end, is forgotten."""

    def look():
        status = watcher.run("--once").returncode
        return status, len(watcher.lines("action_started")), watcher.begun()

    event_id = simulator.post_event(**STILL)
    with Receiver() as receiver:
        receiver.answers = [lambda _handler: time.sleep(0.3) or (401, b"")]
        watcher.set(action="eda", url=receiver.url, secret_file=watcher.secret())
        assert look() == (1, 1, [])
    watcher.set(action="run", command=noting(tmp_path / "noted"))
    assert look() == (0, 2, [event_id])
    simulator.cancel(event_id)
    assert look() == (0, 3, [])
    assert look() == (0, 3, [])
    assert [document["why"] for document in noted(tmp_path / "noted")] == ["appeared", "gone"]


def test_one_look_that_is_ended(simulator, watcher, tmp_path):
    """Its action has come to its end, its fast path has not: the action is not run again."""
    watcher.set(action="run", command=noting(tmp_path / "noted"))
    event_id = simulator.post_event(**STILL)
    assert watcher.run("--once").returncode == 0
    simulator.cancel(event_id)
    other = simulator.post_event(EventType="Preempt", **STILL)
    watcher.set(fast_path=["sleep", "60"])
    process = watcher.start("--once")
    watcher.wait_for("action_done", 2)
    process.terminate()
    assert process.wait(patient(5)) == 1
    assert watcher.begun() == [other]


def test_one_look_that_somebody_has_enough_of(simulator, watcher, tmp_path):
    """Ctrl-C ends its command, too, and needs no explanation."""
    watcher.set(action="run", command=["sh", "-c", 'echo $$ > "$0"; exec sleep 60', str(tmp_path / "pid")])
    simulator.post_event(**STILL)
    process = watcher.start("--once")
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), 15)
    process.send_signal(signal.SIGINT)
    assert process.wait(patient(5)) == 1
    assert "Traceback" not in watcher.log.read_text()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_what_is_begun_is_on_disk_before(simulator, watcher, tmp_path):
    event_id = simulator.post_event(**STILL)
    watcher.set(action="run", command=["cp", str(tmp_path / "data/state.json"), str(tmp_path / "then.json")])
    assert watcher.run("--once").returncode == 0
    assert [event["event_id"] for event in json.loads((tmp_path / "then.json").read_text())["begun"]] == [event_id]


def test_killed_while_its_command_runs(simulator, watcher, tmp_path):
    """The next watcher waits for the command that the dead one left, and finishes what went meanwhile."""
    watcher.set(action="run", command=noting(tmp_path / "noted", "import os, time", f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.05)"))
    process = running(watcher)
    event_id = simulator.post_event(**STILL)
    until(lambda: noted(tmp_path / "noted"), 15)
    process.kill()
    process.wait()
    simulator.cancel(event_id)
    watcher.start()
    busy, *_more = watcher.wait_for("action_busy")
    assert "earlier watcher" in busy["text"]
    assert [line["event_id"] for line in watcher.lines("gone")] == [event_id]
    assert len(noted(tmp_path / "noted")) == 1
    (tmp_path / "go").touch()
    # Not told by anybody, so looked at again after a while: sooner by a change.
    other = simulator.post_event(**STILL)
    watcher.wait_for("action_done")
    document = noted(tmp_path / "noted")[-1]
    assert ([event["event_id"] for event in document["events"]], [event["event_id"] for event in document["gone"]]) == ([other], [event_id])


def test_a_command_that_fails_cannot_be_started_or_does_not_end(simulator, watcher, tmp_path):
    watcher.set(action="run", command=["/nowhere/at/all"])
    event_id = simulator.post_event(**STILL)
    assert watcher.run("--once").returncode == 1
    assert "cannot be started: No such file" in watcher.lines("action_refused")[-1]["text"]
    watcher.set(command=[sys.executable, "-S", "-c", "raise SystemExit(3)"])
    assert watcher.run("--once").returncode == 1
    assert watcher.lines("action_failed")[-1]["text"] == "status 3"
    watcher.set(command=["sleep", "60"], command_timeout=1)
    assert watcher.run("--once").returncode == 1
    assert watcher.lines("action_failed")[-1]["text"] == "ended by force after 1 s"
    simulator.cancel(event_id)


# The fast path


def test_the_fast_path(simulator, watcher, tmp_path):
    """Started at most 0.1 s after the answer that shows the event, unless the machine is busy; recorded; undone once no event names the host."""
    stamp = ["sh", "-c", 'date +%s.%N >> "$0"; exec cat > /dev/null', str(tmp_path / "out")]
    undo = ["sh", "-c", 'date +%s.%N >> "$0"', str(tmp_path / "undone")]
    watcher.set(action="file", path=tmp_path / "told.json", fast_path=stamp, fast_path_undo=undo)
    running(watcher)
    other = simulator.post_event(EventType="Freeze", **STILL)
    watcher.wait_for("action_done")
    assert watcher.record() is None
    took = []
    for number in range(1, 4):
        event_id = simulator.post_event(EventType="Preempt", **STILL)
        watcher.wait_for("fast_path_done", number)
        assert (list(watcher.record()["events"]), watcher.record()["done"]) == ([event_id], True)
        shown = next(line for line in watcher.lines("appeared") if line["event_id"] == event_id)
        assert shown["type"] == "Preempt"
        started = float((tmp_path / "out").read_text().splitlines()[-1])
        posted = simulator.event(event_id)["History"][0]["Time"]
        took.append(started - min(request["Time"] for request in simulator.requests("www_1") if request["Time"] > posted))
        simulator.cancel(event_id)
        watcher.wait_for("gone", 2 * number - 1)
        assert watcher.record() is not None  # the freeze still names it
        simulator.cancel(other)
        watcher.wait_for("fast_path_undone", number)
        assert watcher.record() is None
        other = simulator.post_event(EventType="Freeze", **STILL)
        watcher.wait_for("appeared", 2 * number + 1)
    assert min(took) <= 0.1, took
    before = [line["what"] for line in watcher.lines()]
    assert before.index("fast_path_out") < before.index("action_started", before.index("fast_path_out"))
    assert len((tmp_path / "undone").read_text().splitlines()) == 3


@pytest.mark.parametrize("fault", ["Empty", "Stale"])
def test_an_answer_without_the_event_undoes_no_fast_path(simulator, watcher, tmp_path, fault):
    """An empty one, and a document from before the event."""
    watcher.set(action="file", path=tmp_path / "told.json", fast_path=noting(tmp_path / "out"), fast_path_undo=noting(tmp_path / "undone"))
    running(watcher)
    event_id = simulator.post_event(EventType="Preempt", **STILL)
    watcher.wait_for("fast_path_done")
    simulator.fault({fault: True}, vm="www_1", times=1)
    asked = len(simulator.requests("www_1"))
    until(lambda: len(simulator.requests("www_1")) >= asked + 9, 15)
    assert (watcher.lines("gone"), noted(tmp_path / "undone")) == ([], [])
    assert list(watcher.record()["events"]) == [event_id]
    simulator.cancel(event_id)
    watcher.wait_for("fast_path_undone")


def test_the_fast_path_of_a_watcher_that_was_killed_is_undone_by_the_next(simulator, watcher, tmp_path):
    watcher.set(action="file", fast_path=noting(tmp_path / "out"), fast_path_undo=noting(tmp_path / "undone"))
    process = running(watcher)
    event_id = simulator.post_event(EventType="Terminate", **STILL)
    watcher.wait_for("fast_path_done")
    process.kill()
    process.wait()
    simulator.cancel(event_id)
    watcher.start()
    watcher.wait_for("fast_path_undone")
    assert (len(noted(tmp_path / "out")), len(noted(tmp_path / "undone"))) == (1, 1)
    assert watcher.record() is None


def test_a_record_that_cannot_be_written_keeps_nobody_from_being_taken_out(simulator, watcher, tmp_path):
    (tmp_path / "holds").write_text("no folder")
    watcher.set(action="file", fast_path=noting(tmp_path / "out"))
    running(watcher)
    simulator.post_event(EventType="Preempt", **STILL)
    watcher.wait_for("fast_path_done")
    assert len(noted(tmp_path / "out")) == 1
    assert "Not a directory" in watcher.lines("fast_path_record")[0]["text"]


# awx


def test_a_job_template_by_token(simulator, watcher):
    with Awx() as awx:
        watcher.set(action="awx", url=awx.url, secret_file=watcher.secret(TOKEN), repeat=1)
        running(watcher)
        event_id = simulator.post_event(Resources=["www_1", "www_2"], **STILL)
        (done,) = watcher.wait_for("action_done")
        (job,) = awx.jobs
        assert done["text"] == f"job {job['id']}"
        assert json.loads(job["extra_vars"]) == {"target": "www_1,www_2", "graceful_azure_event_ids": [event_id], "graceful_azure_gone_event_ids": []}
        # While it runs, nobody launches another, also not for what changed and what is gone.
        for move, what in ((simulator.start, "changed"), (simulator.complete, "gone")):
            move(event_id)
            watcher.wait_for(what)
            busy = watcher.wait_for("action_busy", len(watcher.lines("action_busy")) + 1)
            assert {line["text"] for line in busy} == {f"job {job['id']} is under way"}
        job["status"] = "failed"
        watcher.wait_for("action_done", 2)
        assert json.loads(awx.jobs[-1]["extra_vars"])["graceful_azure_gone_event_ids"] == [event_id]
        assert len(awx.jobs) == 2
        assert awx.most_at_once == 1
    assert TOKEN not in watcher.log.read_text()


def test_a_job_that_fails_is_launched_again_and_one_that_has_finished_everything_spares_another(simulator, watcher, tmp_path):
    with Awx() as awx:
        watcher.set(action="awx", url=awx.url, secret_file=watcher.secret(TOKEN))
        running(watcher)
        event_id = simulator.post_event(**STILL)
        watcher.wait_for("action_done")
        awx.end(awx.jobs[0], "failed")
        assert watcher.wait_for("action_failed")[0]["text"] == "job 100 has failed"
        until(lambda: len(awx.jobs) == 2, 15)
        simulator.start(event_id)
        simulator.complete(event_id)
        watcher.wait_for("gone")
        hosts = {"web1": {"state": "restored", "reason": ""}}
        awx.jobs[1].update(artifacts={"graceful_azure": [{"event_id": event_id, "outcome": "completed", "hosts": hosts}]})
        awx.end(awx.jobs[1])
        until(lambda: watcher.begun() == [], 15)
        assert watcher.lines("action_done")[-1]["text"] == "job 101 has finished it"
        assert len(awx.jobs) == 2


def test_the_second_vm_of_an_event_finds_the_job_of_the_first(simulator, watcher):
    """For which it leaves some time."""
    with Awx() as awx:
        watcher.set(action="awx", url=awx.url, secret_file=watcher.secret(TOKEN))
        event_id = simulator.post_event(Resources=["www_2", "www_1"], **STILL)
        awx.add_job({"target": "www_2,www_1", "graceful_azure_event_ids": [event_id.lower()]})
        process = running(watcher)
        watcher.wait_for("action_busy")
        assert awx.posted() == []
        assert awx.seen[0]["time"] - simulator.requests("www_1")[0]["Time"] >= HURRY["actions.TURN_SECONDS"]
        process.terminate()
        process.wait(patient(5))


def test_a_job_is_found_among_those_of_a_schedule(simulator, watcher):
    """Each minute a job without the variables, for longer than the event's own job runs."""
    with Awx() as awx:
        watcher.set(action="awx", url=awx.url, secret_file=watcher.secret(TOKEN))
        event_id = simulator.post_event(**STILL)
        assert watcher.run("--once").returncode == 0
        own = awx.jobs[-1]
        for _minute in range(70):
            awx.end(awx.add_job({}))
        assert watcher.run("--once").returncode == 0
        assert watcher.lines("action_busy")[-1]["text"] == f"job {own['id']} is under way"
        # Another VM's job for the end of the event has been successful, though it began before most of them.
        finishing = awx.add_job({"target": "www_1", "graceful_azure_event_ids": [], "graceful_azure_gone_event_ids": [event_id]})
        for job in [own, *(awx.add_job({}) for _minute in range(70)), finishing]:
            awx.end(job)
        simulator.cancel(event_id)
        assert watcher.run("--once").returncode == 0
        assert watcher.lines("action_done")[-1]["text"] == f"job {finishing['id']}"
        assert len(awx.posted()) == 1


@pytest.mark.parametrize(
    ("options", "token", "what", "said"),
    [
        ({"may_look": False}, TOKEN, "action_done", "job 100"),
        ({}, "wr0ng", "action_refused", "status 401"),
        ({"survey": {"reason": True}}, TOKEN, "action_refused", "value missing"),
        ({"survey": {"target": True}, "ask_variables": False}, TOKEN, "action_failed", "job 100 was launched without graceful_azure_event_ids"),
    ],
)
def test_a_job_template_with_other_rights(simulator, watcher, options, token, what, said):
    with Awx(**options) as awx:
        watcher.set(action="awx", url=awx.url, secret_file=watcher.secret(token))
        simulator.post_event(**STILL)
        assert watcher.run("--once").returncode == (0 if what == "action_done" else 1)
        assert said in watcher.lines(what)[-1]["text"]


def test_a_job_without_its_target_is_not_launched_again_in_haste(simulator, watcher, tmp_path):
    with Awx(ask_variables=False) as awx:
        watcher.set(action="awx", url=awx.url, secret_file=watcher.secret(TOKEN))
        running(watcher)
        event_id = simulator.post_event(**STILL)
        (failed,) = watcher.wait_for("action_failed")
        assert "launched without target" in failed["text"] and "ask_variables_on_launch" in failed["text"]
        time.sleep(1.5)
        assert len(awx.posted()) == 1
    assert watcher.begun() == [event_id]
    until(lambda: watcher.metrics()["action_failing"] == 1, 15)
    assert watcher.run("--status").returncode == 1


def test_a_provisioning_callback(simulator, watcher):
    with Awx() as awx:
        watcher.set(action="awx", auth="host_config_key", url=awx.url, secret_file=watcher.secret(KEY))
        both = simulator.post_event(Resources=["www_1", "www_2"], **STILL)
        assert watcher.run("--once").returncode == 1
        assert "names other VMs too" in watcher.lines("action_refused")[-1]["text"]
        assert awx.seen == []
        simulator.cancel(both)
        simulator.post_event(Resources=["WWW_1"], **STILL)
        assert watcher.run("--once").returncode == 0
        assert watcher.run("--once").returncode == 0
        assert [line["what"] for line in watcher.lines() if line["what"].startswith("action_")][-3:] == ["action_done", "action_started", "action_busy"]


@pytest.mark.parametrize(
    ("options", "key", "at_work", "what", "said"),
    [
        ({}, KEY, None, "action_done", "status 201"),
        ({}, "wr0ng", None, "action_refused", "status 403"),
        ({"hosts": ()}, KEY, None, "action_refused", "No matching host could be found!"),
        ({"hosts": ("www_1", "www_2")}, KEY, None, "action_refused", "Multiple hosts matched the request!"),
        ({}, KEY, "www_1", "action_busy", "a job for this host is under way"),
        ({"allow_simultaneous": False}, KEY, "www_1", "action_busy", "a job for this host is under way"),
        ({}, KEY, "www_2", "action_done", "status 201"),
        ({"allow_simultaneous": False}, KEY, "www_2", "action_done", "status 201"),
        ({"ask_variables": False}, KEY, None, "action_done", "status 201"),
        ({"survey": {"reason": True}}, KEY, None, "action_refused", "Cannot start automatically, user input required!"),
    ],
)
def test_what_a_provisioning_callback_may_be_told(simulator, watcher, options, key, at_work, what, said):
    """``at_work`` is the host of a job that runs."""
    with Awx(**options) as awx:
        if at_work:
            awx.add_job({})["limit"] = at_work
        watcher.set(action="awx", auth="host_config_key", url=awx.url, secret_file=watcher.secret(key))
        simulator.post_event(Resources=["www_1"], **STILL)
        assert watcher.run("--once").returncode == (what == "action_refused")
        assert said in watcher.lines(what)[-1]["text"]
        limits = [at_work] * bool(at_work) + ["www_1"] * (what == "action_done")
        assert [job["limit"] for job in awx.jobs] == limits


LAUNCHED = [
    ((400, {"variables_needed_to_start": ["'reason' value missing"]}), "action_refused"),
    ((403, {"detail": "You do not have permission."}), "action_refused"),
    ((404, {"detail": "Not found."}), "action_refused"),
    ((302, b""), "action_refused"),
    ((503, b"<html>starting</html>"), "action_failed"),
    ((200, b"<html>sign in</html>"), "action_failed"),
    ((201, b"no JSON"), "action_failed"),
    ((201, b"[]"), "action_failed"),
    ((201, b"null"), "action_failed"),
    (None, "action_failed"),
]
CALLED_BACK = [
    ((403, {"detail": "You do not have permission."}), "action_refused"),
    ((404, {"detail": "Not found."}), "action_refused"),
    ((503, b"<html>starting</html>"), "action_failed"),
    ((200, b"<html>sign in</html>"), "action_failed"),
    (None, "action_failed"),
]


@pytest.mark.parametrize(("auth", "answer", "what"), [("token", *case) for case in LAUNCHED] + [("host_config_key", *case) for case in CALLED_BACK])
def test_every_other_answer(simulator, watcher, auth, answer, what):
    asked = ["jobs/", "launch/"] if auth == "token" else ["callback/"]
    with Receiver() as receiver:
        receiver.answers = [(403, b"")] * (len(asked) - 1) + [lambda _handler: answer]
        url = receiver.url + "api/v2/job_templates/7/"
        watcher.set(action="awx", auth=auth, url=url, secret_file=watcher.secret(TOKEN))
        simulator.post_event(Resources=["www_1"], **STILL)
        assert watcher.run("--once").returncode == 1
        assert [line["what"] for line in watcher.lines()][-1] == what
        assert [request["path"].rpartition("7/")[2].partition("?")[0] for request in receiver.seen] == asked


def test_a_receiver_that_refuses_is_down_and_comes_back(simulator, watcher):
    port = free_port()
    watcher.set(action="awx", url=f"http://127.0.0.1:{port}/api/v2/job_templates/7/", secret_file=watcher.secret(TOKEN))
    running(watcher)
    simulator.post_event(**STILL)
    (refused, *_more) = watcher.wait_for("action_refused")
    assert refused["text"] == f"http://127.0.0.1:{port}: Connection refused"
    with Awx(port=port) as awx:
        awx.answers = [(403, b"no right to look"), (403, b"no right to launch")]
        watcher.wait_for("action_done", seconds=25)
        assert len(awx.jobs) == 1
    assert len(watcher.lines("action_started")) == len(watcher.lines("action_refused")) + len(watcher.lines("action_failed")) + 1


def test_what_was_never_begun_is_not_finished(simulator, watcher, tmp_path):
    """The receiver refuses, and the event is cancelled."""
    watcher.set(action="eda", url=f"http://127.0.0.1:{free_port()}/", secret_file=watcher.secret())
    running(watcher)
    event_id = simulator.post_event(**STILL)
    watcher.wait_for("action_refused", 2)
    simulator.cancel(event_id)
    watcher.wait_for("gone")
    started = len(watcher.lines("action_started"))
    # The next try would have come within two seconds.
    time.sleep(2.5)
    assert len(watcher.lines("action_started")) == started
    assert watcher.begun() == []
    assert watcher.run("--status").returncode == 0


def test_the_status_tells_of_an_action_that_fails(simulator, watcher):
    with Webhook() as webhook:
        watcher.set(action="eda", url=webhook.url, secret_file=watcher.secret("rev0ked"))
        running(watcher)
        until(lambda: watcher.run("--status").returncode == 0, 15)
        simulator.post_event(**STILL)
        watcher.wait_for("action_refused")
        until(lambda: watcher.metrics()["action_failing"] == 1, 15)
        assert watcher.run("--status").returncode == 1
        watcher.secret(TOKEN)
        watcher.wait_for("action_done")
        until(lambda: watcher.metrics()["action_failing"] == 0, 15)
        assert watcher.run("--status").returncode == 0
    assert abs(watcher.metrics()["last_answer_timestamp_seconds"] - time.time()) < 15


def test_the_status_tells_of_a_fast_path_that_fails(simulator, watcher, tmp_path):
    watcher.set(action="file", fast_path=["test", "-e", str(tmp_path / "mended")])
    running(watcher)
    simulator.post_event(EventType="Preempt", **STILL)
    watcher.wait_for("fast_path_failed")
    until(lambda: watcher.metrics()["fast_path_failing"] == 1, 15)
    shown = watcher.run("--status")
    assert shown.returncode == 1 and "fast path failed" in shown.stdout
    (tmp_path / "mended").touch()
    watcher.wait_for("fast_path_done")
    until(lambda: watcher.metrics()["fast_path_failing"] == 0, 15)
    assert watcher.run("--status").returncode == 0


@pytest.mark.parametrize(("action", "receiver"), [("eda", Webhook), ("awx", Awx)])
def test_certificates(simulator, watcher, tmp_path, action, receiver):
    right, wrong = certificate(tmp_path, "localhost"), certificate(tmp_path, "elsewhere.example.com")
    simulator.post_event(**STILL)
    for ca_file, served, said in ((None, right, "self-signed"), (wrong, right, "not valid"), (wrong, wrong, "not valid"), (right, right, None)):
        with receiver(tls=served) as called:
            watcher.set(action=action, url=called.url, secret_file=watcher.secret(TOKEN), ca_file=ca_file and str(ca_file))
            done = watcher.run("--once")
            assert done.returncode == (1 if said else 0)
            assert len(called.posted()) == (0 if said else 1)
            assert said is None or said in done.stderr.replace("self signed", "self-signed")


# eda, file


def test_a_webhook_and_twenty_events_at_once(simulator, watcher):
    ids = [simulator.post_event(Resources=["www_1"], Description="x" * 5000, **STILL) for _number in range(20)]
    with Webhook() as webhook:
        for auth, secret in (("token", TOKEN), ("hmac", KEY), ("hmac", "wr0ng")):
            watcher.set(action="eda", auth=auth, url=webhook.url, secret_file=watcher.secret(secret))
            assert watcher.run("--once").returncode == (1 if secret == "wr0ng" else 0)
        documents = webhook.documents()
    assert len(documents) == 3
    assert [event["event_id"] for event in documents[0]["events"]] == ids
    assert documents[0]["source"] == "graceful.azure.event_watcher"
    assert "status 401" in watcher.lines("action_refused")[-1]["text"]
    assert not any(secret in watcher.log.read_text() for secret in (TOKEN, KEY, "wr0ng"))


def test_a_file(simulator, watcher, tmp_path):
    watcher.set(action="file", path=tmp_path / "told.json")
    assert watcher.run("--once").returncode == 0
    assert not (tmp_path / "told.json").exists()
    event_id = simulator.post_event(**STILL)
    assert watcher.run("--once").returncode == 0
    assert json.loads((tmp_path / "told.json").read_text())["events"][0]["event_id"] == event_id
    simulator.cancel(event_id)
    assert watcher.run("--once").returncode == 0
    assert json.loads((tmp_path / "told.json").read_text())["events"] == []
    assert [line["what"] for line in watcher.lines() if "event_id" in line] == ["appeared", "gone"]


# The metadata service, the process


def test_a_service_that_errs_is_silent_and_comes_back(simulator, watcher, tmp_path):
    """Nothing is gone because of it, and it is asked again every second."""
    watcher.set(action="file", path=tmp_path / "told.json")
    process = running(watcher)
    simulator.post_event(**STILL)
    watcher.wait_for("action_done")
    # It must not get through the first of them before the last is there.
    with frozen(process.pid):
        simulator.fault({"Status": 503}, times=6)
        simulator.fault({"Drop": True}, times=1)
        simulator.fault({"Status": 200, "Body": "<html>"}, times=1)
    (again,) = watcher.wait_for("answers_again")
    assert 0.6 <= float(again["seconds"]) < patient(5)
    assert len(watcher.lines("no_answer")) == 1 and "503" in watcher.lines("no_answer")[0]["text"]
    assert watcher.lines("gone") == []
    until(lambda: watcher.metrics()["errors_total"] >= 3, 15)
    simulator.fault({"Status": 429, "Headers": {"Retry-After": "1"}}, times=1)
    watcher.wait_for("answers_again", 2)
    times = [request["Time"] for request in simulator.requests("www_1")]
    assert max(later - earlier for earlier, later in zip(times, times[1:], strict=False)) >= 0.95


def test_it_asks_once_a_second(simulator, watcher):
    watcher.constants = None
    watcher.set(action="file")
    process = running(watcher)

    def asked():
        return [request["Time"] for request in simulator.requests("www_1") if "scheduledevents" in request["Path"]]

    def steadily():
        """Where the machine is busy, one request may be late, and so the next one early."""
        times = asked()
        return len(times) > 3 and abs((times[-1] - times[-4]) / 3 - 1) < 0.1

    until(steadily, 10)
    process.terminate()
    process.wait(patient(5))
    times = asked()
    assert len(times) - 1 <= times[-1] - times[0] + 0.9


def test_it_ends_at_once_while_the_service_is_silent(simulator, watcher):
    watcher.set(action="file")
    process = running(watcher)
    simulator.fault({"Delay": 30})
    time.sleep(1.5)
    process.terminate()
    start = time.monotonic()
    assert process.wait(patient(5)) == 0
    # The request would go on for ten.
    assert time.monotonic() - start < min(patient(2), 9)


def test_a_second_one_does_no_harm(simulator, watcher):
    watcher.set(action="file")
    running(watcher)
    for word in ([], ["--once"]):
        second = watcher.run(*word)
        assert second.returncode == 75
        assert "Another watcher runs already" in second.stderr
    assert watcher.run("--status").returncode == 0


def test_the_status_tells_of_code_and_settings_that_were_replaced(simulator, watcher):
    """What an earlier process wrote is forgotten before this one counts as started, also while the service is silent."""
    watcher.set(action="file")
    (watcher.folder / "run").mkdir()
    (watcher.folder / "run/status.json").write_text(json.dumps({"version": "0.1", "settings": "older", "last_answer_age": None, "written": 0}))
    simulator.fault({"Delay": 30})
    watcher.start()
    watcher.wait_for("started")
    assert "restart it" not in watcher.run("--status").stdout
    watcher.set(repeat=61)
    assert "with the settings as they were when it was started: restart it" in watcher.run("--status").stdout
    with (watcher.code / "notes.py").open("a") as stream:
        stream.write("# newer\n")
    assert "it still runs as version 1.2.3+" in watcher.run("--status").stdout


@pytest.mark.parametrize("seconds", [-3600, 3600])
def test_a_clock_that_is_an_hour_off(simulator, watcher, tmp_path, seconds):
    wrapper = tmp_path / "off.py"
    wrapper.write_text(
        f"import runpy, sys, time\nright = time.time\ntime.time = lambda: right() + {seconds}\n"
        "sys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    simulator.post_event(NoticeSeconds=900)
    watcher.constants = None
    watcher.set(action="file", path=tmp_path / "told.json")
    command = watcher.command("--once")
    done = subprocess.run([command[0], str(wrapper), *command[2:]], capture_output=True, text=True, timeout=patient(30), check=False)
    assert done.returncode == 0, done.stderr
    assert 890 < json.loads((tmp_path / "told.json").read_text())["events"][0]["seconds_until_not_before"] <= 900


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"action": None}, "action is not given"),
        ({"action": "eda", "url": "gopher://x/", "secret_file": "/nowhere"}, "must be like https://"),
        ({"action": "eda", "url": "https://x/", "secret_file": "/nowhere"}, "The secret /nowhere cannot be read: No such file"),
        ({"action": "file", "imds_url": "https://169.254.169.254"}, "imds_url"),
    ],
)
def test_bad_settings_end_it_with_a_sentence(watcher, settings, said):
    watcher.set(**settings)
    for words in ([], ["--check"]):
        done = watcher.run(*words)
        assert done.returncode == 78
        assert said in done.stderr and "Traceback" not in done.stderr


def test_settings_are_checked_beside_the_watcher_and_nothing_is_started(simulator, watcher, tmp_path):
    watcher.set(action="run", command=noting(tmp_path / "noted"))
    simulator.post_event(**STILL)
    done = watcher.run("--check")
    assert (done.returncode, done.stdout + done.stderr, noted(tmp_path / "noted")) == (0, "", [])
    running(watcher)
    assert watcher.run("--check").returncode == 0


def test_it_tells_the_service_manager(simulator, watcher, tmp_path):
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(patient(10))
        watcher.set(action="file")
        process = watcher.start(env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "JOURNAL_STREAM": "1:2"})
        words = [manager.recv(100).decode() for _number in range(4)]
        process.send_signal(signal.SIGTERM)
        while words[-1] != "STOPPING=1":
            words.append(manager.recv(100).decode())
    assert process.wait(patient(5)) == 0
    assert words[0] == "READY=1" and words.count("WATCHDOG=1") >= 2
    assert "WATCHDOG_USEC=30000000" in words
    assert watcher.log.read_text().startswith("<6>what=started ")


# The role, on the machine of the tests

SYSTEMCTL = """#!/bin/sh
echo "$1" >> "${0%/*}/asked"
case $1 in is-enabled) echo enabled ;; show) printf 'LoadState=loaded\\nActiveState=active\\n' ;; esac
"""


def test_the_role_restarts_what_an_interrupted_run_left_running(simulator, watcher, tmp_path):
    """No file is changed by it: the first time nothing was before, then one was whose run came no further."""
    watcher.set(action="file")
    running(watcher)
    (tmp_path / "bin").mkdir()
    systemctl = tmp_path / "bin/systemctl"
    systemctl.write_text(SYSTEMCTL)
    systemctl.chmod(0o755)
    given = yaml.safe_load((ROLE / "tasks/present.yml").read_text())
    last = [task for task in given if task["name"] in ("Ask whether what runs is what lies there", "Run the watcher")]
    assert len(last) == 2
    cut_off = {"ansible.builtin.shell": {"cmd": "echo '# newer' >> notes.py", "chdir": str(watcher.code)}, "changed_when": False}
    unchanged = {f"__event_watcher_{name}": {"changed": False} for name in ("code_put", "version_put", "secret_done", "config", "unit_put")}
    places = {"event_watcher_python": sys.executable, "event_watcher_directory": str(watcher.code), "__event_watcher_config_file": str(watcher.config)}
    said = play_here(
        tmp_path,
        [*last, cut_off, *last],
        *("-e", json.dumps({**unchanged, **places, "__event_watcher_unit_found": {"stat": {"exists": True}}})),
        vars_files=[str(ROLE / "defaults/main.yml"), str(ROLE / "vars/main.yml")],
        environment={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"},
    )
    assert "changed=1 " in said
    asked = (tmp_path / "bin/asked").read_text().split()
    assert [word for word in asked if "re" in word] == ["daemon-reload", "daemon-reload", "restart"]


def test_the_locks_lie_where_the_unit_leaves_them():
    unit = (ROLE / "templates/graceful-azure-watcher.service.j2").read_text().splitlines()
    assert {f"RuntimeDirectory={os.path.basename(DEFAULTS['run_dir'])}", "RuntimeDirectoryPreserve=yes"} <= set(unit)


def included(**variables):
    return {
        "ansible.builtin.include_role": {"name": "graceful.azure.event_watcher", "tasks_from": variables.pop("tasks_from", "main.yml")},
        "vars": {f"event_watcher_{name}": value for name, value in variables.items()},
    }


def told(said):
    """Why nothing undoes the fast path, and the command that forgets it."""
    return re.findall("here is out by the watcher's fast path for E1, and (.*?) nothing undoes that.*(ansible here .* state=absent')", said)


def test_the_role_tells_of_a_host_that_a_former_fast_path_keeps_out(tmp_path):
    """And what it says gets rid of the record, wherever that lies."""
    hold = FastHold(str(tmp_path / "holds"))
    hold.write(["E1"], True, [])
    tasks = [included(tasks_from="fast_hold.yml", state=state) for state in ("present", "absent")]
    (present, absent) = told(play_here(tmp_path, tasks, "-e", f"graceful_azure_state_dir={tmp_path / 'holds'}"))
    assert (present[0], absent[0]) == ("without event_watcher_fast_path", "with the watcher gone")
    for state in ("present", "absent"):
        assert "include_tasks: fast_hold.yml" in (ROLE / f"tasks/{state}.yml").read_text()
    assert hold.read() == (["E1"], True)
    must_pass(*(word for word in shlex.split(present[1]) if word != "--become"), *this_machine())
    assert hold.read() == ([], False)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_whole_role_tells_of_it_and_removes_what_the_unit_leaves(tmp_path):
    """Also where one play first has it there and then removes it."""
    FastHold(str(tmp_path / "holds")).write(["E1"], True, [])
    (tmp_path / "run").mkdir()
    places = {"unit_file": "unit", "config_directory": "etc", "config_file": "etc/config.json", "data_directory": "data", "run_directory": "run"}
    variables = {f"__event_watcher_{name}": str(tmp_path / place) for name, place in places.items()}
    variables["__event_watcher_systemd_folder"] = str(tmp_path)
    variables.update(event_watcher_directory=str(tmp_path / "code"), event_watcher_python=sys.executable, graceful_azure_state_dir=str(tmp_path / "holds"))
    tasks = [included(action="file"), included(action="file", fast_path=["out"]), included(state="absent")]
    said = play_here(tmp_path, tasks, "-e", json.dumps(variables), "--check")
    assert [why for why, _command in told(said)] == ["without event_watcher_fast_path", "with the watcher gone"]
    assert f"changed: [here] => (item={tmp_path}/run)" in said


def test_the_commands_of_the_readme_run_it_without_systemd(simulator, tmp_path):
    blocks = re.findall(r"```(shell|json)\n(.*?)```", (ROLE / "README.md").read_text().partition("## Without systemd")[2].partition("\n## ")[0], re.DOTALL)
    (copy, settings, run) = (text for _kind, text in blocks)
    places = {
        "~/.ansible/collections/ansible_collections/graceful/azure": str(ROOT),
        "/usr/local/lib/graceful-azure-watcher": str(tmp_path / "code"),
        "/etc/graceful-azure-watcher": str(tmp_path / "etc"),
    }
    for place, here in places.items():
        copy, settings, run = (text.replace(place, here) for text in (copy, settings, run))
    subprocess.run(["sh", "-e"], input=copy, text=True, check=True, timeout=patient(20))
    wanted = yaml.safe_load((ROLE / "vars/main.yml").read_text())["__event_watcher_files"]
    assert {path.name for path in (tmp_path / "code").iterdir()} == {os.path.basename(name) for name in wanted}
    (tmp_path / "etc/secret").write_text("s3cret\n")
    (tmp_path / "etc/secret").chmod(0o600)
    given = dict(json.loads(settings), imds_url=simulator.urls["www_1"])
    for name in ("state_dir", "data_dir", "run_dir"):
        given[name] = str(tmp_path / name)
    (tmp_path / "etc/config.json").write_text(json.dumps(given))
    command = [sys.executable, *run.split()[1:], "--config", str(tmp_path / "etc/config.json")]
    assert subprocess.run([*command, "--check"], capture_output=True, check=False, timeout=patient(20)).returncode == 0
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert "what=started" in process.stderr.readline()
        until(lambda: subprocess.run([*command, "--status"], capture_output=True, check=False, timeout=patient(20)).returncode == 0, 15)
        process.terminate()
        assert process.wait(patient(10)) == 0


# A day, at one a second.
SOAK_POLLS = 86400


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_memory_stays_flat_and_no_descriptor_is_lost(simulator, watcher):
    """The answers of a day in minutes, with events that come and go, a receiver that fails, and a service that errs."""
    with Webhook() as webhook:
        watcher.constants = dict(HURRY, **{"watch.READ_SECONDS": 0.002, "watch.REPORT_SECONDS": 0.1, "decision.RETRY_MOST": 0.05})
        watcher.set(action="eda", url=webhook.url, secret_file=watcher.secret(TOKEN), fast_path=["true"], fast_path_undo=["true"], repeat=1)
        process = running(watcher)
        folder = f"/proc/{process.pid}"
        seen = []

        def answered(count):
            with contextlib.suppress(FileNotFoundError):
                return watcher.metrics()["answers_total"] >= count

        for part in range(1, 25):
            webhook.answers = [(503, b"")] * (part % 3)
            simulator.fault({"Status": 503}, times=1 + part % 3)
            event_id = simulator.post_event(EventType="Preempt", **STILL)
            until(functools.partial(answered, SOAK_POLLS / 24 * part), 120)
            simulator.cancel(event_id)
            watcher.wait_for("fast_path_undone", part, 60)
            with open(f"{folder}/status", encoding="utf-8") as stream:
                memory = int(next(line for line in stream if line.startswith("VmRSS")).split()[1])
            seen.append((memory, len(os.listdir(f"{folder}/fd"))))
    print(seen)
    assert seen[-1][0] - seen[4][0] < 1024
    assert max(files for _memory, files in seen) - min(files for _memory, files in seen) <= 3
