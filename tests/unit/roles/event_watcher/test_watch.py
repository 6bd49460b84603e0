# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The watcher's ticks against a metadata service of scripted answers, in scripted time; and receivers that are ill."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import HELD, Request, Store, new_record
from graceful_azure_watcher import actions, cli, settings, system, watch
from graceful_azure_watcher.decision import ASTRAY, BUSY, DONE, FAILED, REFUSED, TAKEN, Task
from graceful_azure_watcher.settings import DEFAULTS, Settings, SettingsError

from tests.support.patience import patient, until
from tests.support.receiver import KEY, TOKEN, Awx, Receiver
from tests.support.service import Clock, Service, document, drop, event, trickle
from tests.support.watcher import lay_out, parse


@pytest.fixture(name="made")
def make(tmp_path, monkeypatch):
    """Makes a watcher of the action file on a service; its clock and what it told the service manager hang on it."""
    told = []
    monkeypatch.setattr(system, "notify", told.append)
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)

    def made(service, **options):
        clock = Clock()
        # The client has the real one, and repeats nothing that is to be over long before it.
        clock.now = -1e6
        folders = {"state_dir": str(tmp_path / "holds"), "data_dir": str(tmp_path), "run_dir": str(tmp_path)}
        watcher = watch.Watcher(
            Settings(dict(DEFAULTS, **{"action": "file", "imds_url": service.url, **folders, **options})), "1.2.3", clock.monotonic, clock.sleep
        )
        watcher.clock, watcher.told = clock, told
        watcher.load()
        return watcher

    return made


def said(capsys, what):
    return [line for line in map(parse, capsys.readouterr().err.splitlines()) if line["what"] == what]


def test_a_failed_read_is_no_observation(made, capsys):
    with Service(document(event("a")), 503, drop, b"<html>", document(), name="FrontEnd_IN_0") as service:
        watcher = made(service)
        watcher.tick()
        for _number in range(3):
            watcher.clock.now += 1
            watcher.tick()
            assert [found["event_id"] for found in watcher.decider.events.values()] == ["a"]
        watcher.tick()
        watcher.clock.now += 1
        watcher.tick()
    assert watcher.decider.events == {}
    assert watcher.clock.slept == []
    assert (watcher.counts["answers"], watcher.counts["errors"]) == (3, 3)


def test_an_answer_that_does_not_show_an_event_is_confirmed_and_an_empty_one_is_none(made, capsys):
    stands, gone = document(event("a")), document()
    with Service(stands, b"", gone, stands, gone, b"", b"", gone, stands, document(incarnation=6), name="FrontEnd_IN_0") as service:
        watcher = made(service)
        seen = []
        for _number in range(10):
            watcher.tick()
            watcher.clock.now += 1
            seen.append(len(watcher.decider.events))
    assert seen == [1, 1, 1, 1, 1, 1, 1, 0, 1, 0]
    told = [parse(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["what"] for line in told if line["what"] in ("appeared", "gone")] == ["appeared", "gone"] * 2
    # Once each time that it begins.
    assert [line["events"] for line in told if line["what"] == "doubt"] == ["a", "a"]


@pytest.mark.parametrize("answer", [b"", document()])
def test_a_new_process_that_is_answered_once_without_its_events_gives_nothing_back(made, tmp_path, answer):
    begun = [{"event_id": "a", "resources": ["FrontEnd_IN_0"]}]
    (tmp_path / "state.json").write_text(json.dumps({"begun": begun}))
    shown = document(event("a", EventType="Preempt"))
    with Service(answer, shown, document(), document(), name="FrontEnd_IN_0") as service:
        watcher = made(service, fast_path=["true"], fast_path_undo=["true"])
        watcher.fast.held, watcher.fast.done = {"a": "a"}, True
        asked = []
        for _number in range(4):
            watcher.read()
            asked.append((watcher.decider.due(watcher.clock.now), watcher.counts["fast_path_started"]))
            watcher.clock.now += 1
    assert [task and (task.why, len(task.events), len(task.gone)) for task, _count in asked] == [None, ("changed", 1, 0), ("changed", 1, 0), ("gone", 0, 1)]
    assert [count for _task, count in asked] == [0, 0, 0, 1]


def test_the_same_trouble_is_told_once_a_minute(made, capsys):
    with Service(500) as service:
        watcher = made(service, resource_name="a")
        for _number in range(125):
            watcher.tick()
            watcher.clock.now += 1
    assert [line["seconds"] for line in said(capsys, "no_answer")] == ["0", "60", "120"]


def test_a_service_that_is_not_there_yet_is_given_more_and_more_time(made):
    with Service(drop, drop, drop, drop, drop, drop, document(), name="me") as service:
        watcher = made(service)
        for _number in range(7):
            watcher.tick()
    assert watcher.told == [f"WATCHDOG_USEC={(seconds + 20) * 1000000}" for seconds in (20, 40, 80, 120, 120, 120, 10)]


@pytest.mark.parametrize(("headers", "seconds"), [({"Retry-After": "7"}, 7), ({"Retry-After": "86400"}, 60), ({}, 2)])
def test_too_many_requests(made, headers, seconds):
    with Service((429, b"", headers), document(), name="me") as service:
        watcher = made(service)
        watcher.tick()
        for _number in range(seconds):
            assert len(service.requests()) == 1
            watcher.clock.now += 1
            watcher.tick()
        assert len(service.requests()) == 2


def test_without_the_hosts_name_nothing_is_known(made, capsys):
    with Service(document(event("a")), name=404) as service:
        watcher = made(service)
        watcher.tick()
        assert watcher.decider.due(watcher.clock.now) is None
        assert "resource_name" in said(capsys, "no_answer")[0]["text"]


def test_a_name_that_is_another_vms_does_not_hide_the_events_of_this_one(made, capsys):
    with Service(document(event("a")), name="FrontEnd_IN_0") as service:
        watcher = made(service, resource_name="another_1")
        for _number in range(2):
            watcher.tick()
            watcher.clock.now += 1
        assert list(watcher.decider.events) == ["a"]
        assert [line["text"] for line in said(capsys, "wrong_name")] == [
            "resource_name is another_1, and the metadata service calls this VM FrontEnd_IN_0. That counts: correct the setting"
        ]
        watcher = made(service, resource_name="frontend_in_0")
        watcher.tick()
        assert list(watcher.decider.events) == ["a"] and said(capsys, "wrong_name") == []


def test_who_does_not_tell_its_name_at_once_is_asked_again(made, capsys):
    with Service(document(event("a")), name=503) as service:
        watcher = made(service, resource_name="another_1")
        watcher.tick()
        service.name = "FrontEnd_IN_0"
        for seconds in (watch.REMIND_SECONDS - 1, 1):
            assert list(watcher.decider.events) == []
            watcher.clock.now += seconds
            watcher.tick()
        assert list(watcher.decider.events) == ["a"] and len(said(capsys, "wrong_name")) == 1


def test_a_state_that_cannot_be_read_is_told_and_left_behind(made, tmp_path, capsys):
    for text in ("", "[]", '{"begun": [1]}', '{"begun": [{"event_id": "a"}]}'):
        (tmp_path / "state.json").write_text(text)
        with Service(document(), name="me") as service:
            watcher = made(service)
            assert watcher.decider.unfinished == []
        assert len(said(capsys, "state_lost")) == 1


@pytest.mark.parametrize("kept", [{}, {"event_type": 7}, {"event_status": None}])
def test_a_state_that_lacks_something_stops_nothing(made, tmp_path, kept, capsys):
    """Of an event that stands, and of one that is gone."""
    begun = [{"event_id": name, "resources": ["FrontEnd_IN_0"], **kept} for name in ("a", "b")]
    (tmp_path / "state.json").write_text(json.dumps({"begun": [*begun, {"event_id": "c", "resources": [1]}]}))
    with Service(document(event("a")), name="FrontEnd_IN_0") as service:
        watcher = made(service)
        for _number in range(2):
            watcher.tick()
            watcher.clock.now += 1
    first, second = said(capsys, "action_started")
    assert (first["events"], "gone" in first) == ("a", False)
    assert (second["events"], second["gone"]) == ("a", "b")


def test_what_an_earlier_one_has_left_is_read_under_the_lock(made, tmp_path, monkeypatch, capsys):
    """Between the start of this one and the end of that, something was begun."""
    monkeypatch.setattr(signal, "signal", lambda *_arguments: None)
    with Service(document(), name="FrontEnd_IN_0") as service:
        watcher = made(service)
        watcher._monotonic, watcher._sleep = time.monotonic, time.sleep
        (tmp_path / "state.json").write_text(json.dumps({"begun": [{"event_id": "a", "resources": ["FrontEnd_IN_0"]}]}))
        assert watcher.once()
    assert [line["event_id"] for line in said(capsys, "gone")] == ["a"]


def seconds_pass(watcher, so):
    """One tick a second, in which a command comes to its end, until it is so."""

    def tick():
        watcher.clock.now += 1
        watcher.tick()
        time.sleep(0.01)
        return so()

    until(tick, 15)


def test_a_fast_path_is_undone_until_that_is_recorded(made, monkeypatch, capsys):
    with Service(document(event("a", EventType="Preempt")), document(), name="FrontEnd_IN_0") as service:
        watcher = made(service, fast_path=["true"], fast_path_undo=["true"])
        seconds_pass(watcher, lambda: watcher.fast.done)
        write = watcher._hold.write

        def fail(ids, done, events):
            if not ids:
                raise watcher._hold.Error("read-only")
            write(ids, done, events)

        monkeypatch.setattr(watcher._hold, "write", fail)
        seconds_pass(watcher, lambda: watcher.fast.failures == 2)
        assert list(watcher.fast.held) == ["a"] and watcher._hold.read()[0] == ["a"]
        assert watcher.state(watcher.clock.now)["fast_path_failing"]
        monkeypatch.undo()
        seconds_pass(watcher, lambda: not watcher.fast.held)
        assert watcher._hold.read()[0] == []
        assert not watcher.state(watcher.clock.now)["fast_path_failing"]
    texts = [line["text"] for line in said(capsys, "fast_path_failed")]
    assert texts == ["what it has undone is still recorded"] * 2


@pytest.fixture(name="unwritable")
def make_unwritable():
    """Has no record of a watcher's fast path be written, until it is called with None."""
    with pytest.MonkeyPatch.context() as patch:

        def put(watcher):
            if watcher is None:
                patch.undo()
                return

            def fail(_ids, _done, _events):
                raise watcher._hold.Error("read-only")

            patch.setattr(watcher._hold, "write", fail)

        yield put


def test_no_fast_path_is_undone_before_its_record_says_so(made, unwritable, capsys):
    with Service(document(event("a", EventType="Preempt")), document(), name="FrontEnd_IN_0") as service:
        watcher = made(service, fast_path=["true"], fast_path_undo=["true"])
        seconds_pass(watcher, lambda: watcher.fast.done)
        unwritable(watcher)
        for _second in range(5):
            watcher.clock.now += 1
            watcher.tick()
            assert (watcher._command, watcher.counts["fast_path_started"], watcher._hold.read()) == (None, 1, (["a"], True))
        assert watcher.state(watcher.clock.now)["fast_path_failing"]
        # Once a minute.
        assert [line["text"] for line in said(capsys, "fast_path_record")] == ["read-only"]
        unwritable(None)
        seconds_pass(watcher, lambda: not watcher.fast.held)
        assert watcher.counts["fast_path_started"] == 2 and watcher._hold.read() == ([], False)
        assert not watcher.state(watcher.clock.now)["fast_path_failing"]


def test_one_look_whose_fast_path_cannot_be_recorded_has_failed(made, unwritable, monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda *_arguments: None)
    with Service(document(), name="FrontEnd_IN_0") as service:
        watcher = made(service, fast_path=["true"], fast_path_undo=["true"])
        # The client has the real clock.
        watcher.clock.now = time.monotonic()
        watcher._hold.write(["a"], True, [])
        unwritable(watcher)
        assert (watcher.once(), watcher.counts["fast_path_started"], watcher._is_unrecorded) == (False, 0, True)
        unwritable(None)
        watcher.clock.now += 1
        assert watcher.once() is True and watcher._hold.read() == ([], False)


def test_a_fast_path_that_could_not_be_recorded_is_recorded_later(made, unwritable):
    preempt, another = event("a", EventType="Preempt"), event("b", EventType="Preempt")
    with Service(document(preempt), document(preempt), document(preempt, another), name="FrontEnd_IN_0") as service:
        watcher = made(service, fast_path=["true"])
        unwritable(watcher)
        watcher.tick()
        # Nothing delays it.
        assert watcher.counts["fast_path_started"] == 1
        seconds_pass(watcher, lambda: watcher.fast.done and len(watcher.fast.held) == 2)
        assert watcher._hold.read() == ([], False) and watcher.state(watcher.clock.now)["fast_path_failing"]
        unwritable(None)
        watcher.clock.now += 1
        watcher.tick()
        assert watcher._hold.read() == (["a", "b"], True) and not watcher.state(watcher.clock.now)["fast_path_failing"]
        assert watcher.counts["fast_path_started"] == 1


@pytest.mark.parametrize("appears", ["mounted", "mended"])
def test_a_record_that_can_be_read_only_later_is_undone_all_the_same(made, tmp_path, capsys, appears):
    """Its disk is mounted after the start, or it was damaged; the event is over by then. Until it can be read, that is trouble."""
    with Service(document(), name="FrontEnd_IN_0") as service:
        earlier = made(service, fast_path=["true"])
        earlier._hold.write(["a"], True, [])
        (path,) = (tmp_path / "holds").iterdir()
        text = path.read_bytes()
        if appears == "mended":
            path.write_bytes(b"")
        else:
            (tmp_path / "holds").rename(tmp_path / "disk")
        watcher = made(service, fast_path=["true"], fast_path_undo=["true"])
        for _second in range(65):
            watcher.clock.now += 1
            watcher.tick()
        assert watcher.counts["fast_path_started"] == 0
        assert watcher.state(watcher.clock.now)["fast_path_failing"] == (appears == "mended")
        assert len(said(capsys, "fast_path_record")) == (2 if appears == "mended" else 0)
        if appears == "mended":
            path.write_bytes(text)
        else:
            (tmp_path / "disk").rename(tmp_path / "holds")
        # Two answers prove that its event is over.
        asked = len(service.requests())
        seconds_pass(watcher, lambda: watcher.counts["fast_path_started"])
        assert len(service.requests()) - asked >= 2
        seconds_pass(watcher, lambda: not watcher.fast.held)
        assert watcher._hold.read() == ([], False) and not watcher.state(watcher.clock.now)["fast_path_failing"]


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path):
    """As a file on a full disk, where no systemd keeps it."""
    folders = {name: str(tmp_path / name) for name in ("state_dir", "data_dir", "run_dir")}
    config, told = tmp_path / "config.json", tmp_path / "told"
    with open("/dev/full", "wb") as full, Service(document(event("a")), name="FrontEnd_IN_0") as service:
        config.write_text(json.dumps({"action": "file", "path": str(told), "imds_url": service.url, **folders}))
        subprocess.run([sys.executable, "-I", lay_out(tmp_path / "code"), "--config", config, "--once"], stderr=full, timeout=patient(60), check=False)
    assert [found["event_id"] for found in json.loads(told.read_text())["events"]] == ["a"]


def test_disks_that_are_full_stop_nothing(made, tmp_path, capsys, monkeypatch):
    def full(*_arguments, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(system, "write_whole", full)
    with Service(document(event("a")), name="FrontEnd_IN_0") as service:
        watcher = made(service, textfile=str(tmp_path / "x.prom"))
        watcher.tick()
        assert watcher.counts["actions_started"] == 1
    assert "No space left" in capsys.readouterr().err


# Receivers


TASK = Task("appeared", [{"event_id": "E1", "event_status": "Scheduled", "resources": ["www_1"]}], [])


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_text(TOKEN)
    path.chmod(0o600)
    return str(path)


def result_of(url, secret, task=TASK, follow=None, **settings):
    settings = Settings(dict(DEFAULTS, **{"action": "eda", "url": url, "secret_file": secret, **settings}))
    request = actions.begin(settings, task, "www_1", "1.2.3", None, follow=follow)
    return until(request.poll, 15)


def launch(receiver, secret, task=TASK, follow=None):
    return result_of(receiver.url.partition("/api")[0] + Awx.path, secret, task, follow, action="awx")


def call_back(receiver, secret, task=TASK, follow=None):
    Path(secret).write_text(KEY)
    return result_of(receiver.url.partition("/api")[0] + Awx.path, secret, task, follow, action="awx", auth="host_config_key")


@pytest.mark.parametrize(
    "answer",
    [
        trickle(seconds=30),
        trickle(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"x", seconds=30),
        lambda handler: time.sleep(30),
    ],
    ids=["head", "body", "silent"],
)
def test_a_receiver_that_never_comes_to_an_end(secret, monkeypatch, answer):
    monkeypatch.setattr(actions, "REQUEST_SECONDS", 0.3)
    start = time.monotonic()
    with Receiver() as receiver:
        receiver.answers = [answer]
        assert result_of(receiver.url, secret)[0] == FAILED
    assert time.monotonic() - start < patient(2)


@pytest.mark.parametrize("head", [b"nonsense\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort", b""])
def test_a_receiver_that_speaks_nonsense(secret, head):
    def answer(handler):
        handler.wfile.write(head)
        handler.close_connection = True

    with Receiver() as receiver:
        receiver.answers = [answer]
        outcome, text = result_of(receiver.url, secret)
    assert outcome == FAILED
    assert receiver.url.rstrip("/") in text


def test_a_mistake_of_the_watchers_own_is_a_failure_and_told(secret, monkeypatch):
    told = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    settings = Settings(dict(DEFAULTS, action="eda", url="http://127.0.0.1:1/", secret_file=secret))
    request = actions.Request(settings, lambda request: {}["nothing"], ())
    assert until(request.poll, 15) == (FAILED, "http://127.0.0.1:1: ended by a mistake in the watcher")
    assert told[0].exc_type is KeyError


DEEP = b"[" * 200000


NO_JOBS = (b"null", b"[]", b'"ok"', b"7", DEEP, b'{"results": ' + DEEP, b'{"results": {}}', b'{"results": [7, {}, {"extra_vars": 7}]}')


@pytest.mark.parametrize("answer", NO_JOBS)
@pytest.mark.parametrize("task", [TASK, Task("gone", [], TASK.events)], ids=["standing", "gone"])
def test_a_list_of_jobs_that_is_none_is_no_job(secret, answer, task):
    with Awx() as awx:
        awx.answers = [(200, answer)] * (1 if task.events else 2)
        assert launch(awx, secret, task) == (DONE, "job 100")


def test_jobs_of_others_with_any_variables_are_not_this_one(secret):
    with Awx() as awx:
        for variables in ("[" * 200000, "7", "null", [], '{"graceful_azure_event_ids": {"E1": 1}}', '{"graceful_azure_event_ids": [["E1"]]}'):
            awx.add_job({})["extra_vars"] = variables
        assert launch(awx, secret) == (TAKEN, "job 106")


@pytest.mark.parametrize(
    ("answer", "outcome", "said"),
    [
        ({"id": 7}, DONE, "job 7"),
        ({"id": 7, "ignored_fields": []}, DONE, "job 7"),
        ({"id": 7, "ignored_fields": {"extra_vars": {"other": 1}, "limit": "x"}}, DONE, "job 7"),
        ({"id": 7, "ignored_fields": ["extra_vars"]}, FAILED, "status 201, but not with a job as AWX describes it: "),
        ({"id": 7, "ignored_fields": {"extra_vars": "target"}}, FAILED, "status 201, but not with a job"),
        ({"id": 7, "ignored_fields": {"extra_vars": {"target": "www_1"}}}, ASTRAY, "job 7 was launched without target: the template must have ask_variables"),
        ({"ok": True}, FAILED, "status 201, but not with a job"),
        (b"", FAILED, "status 201, but not with a job"),
        (b'{"id": 7, "x": ' + DEEP, FAILED, "status 201, but not with a job"),
    ],
)
def test_answers_to_a_launch(secret, answer, outcome, said):
    with Receiver() as receiver:
        receiver.answers = [(403, b""), (201, answer)]
        result = launch(receiver, secret)
    assert result[0] == outcome and result[1].startswith(said)


def test_a_template_that_does_not_ask_for_variables(secret):
    """AWX drops what its survey does not ask for: every one, or those by which jobs are told apart."""
    for survey, lost in (({}, "target, graceful_azure_event_ids, "), ({"target": True}, "graceful_azure_event_ids, ")):
        with Awx(ask_variables=False, survey=survey) as awx:
            assert launch(awx, secret) == (
                ASTRAY,
                f"job 100 was launched without {lost}graceful_azure_gone_event_ids: the template must have ask_variables_on_launch",
            )


@pytest.mark.parametrize("how", [launch, call_back])
@pytest.mark.parametrize("status", [200, 202, 204])
def test_awx_says_201_when_it_has_begun_something(secret, how, status):
    with Receiver() as receiver:
        receiver.answers = [(403, b"")] * (how is launch) + [(status, b"" if status == 204 else b"<html>sign in</html>")]
        outcome, text = how(receiver, secret)
    assert outcome == FAILED and text.startswith(f"status {status}, where AWX says 201")


def test_an_event_of_another_vm_has_no_turn_here(secret, monkeypatch):
    """As the state on a disk that was copied tells of."""
    monkeypatch.setattr(actions, "TURN_SECONDS", 0.001)
    theirs = {"event_id": "E9", "resources": ["template_vm"]}
    for task in (Task("gone", [], [theirs]), Task("appeared", TASK.events, [theirs])):
        with Awx() as awx:
            assert launch(awx, secret, task) == (TAKEN, "job 100")


# What was launched, and what became of it.


GONE = Task("gone", [], TASK.events)
FOLD = {event["event_id"].lower() for event in TASK.events}


def result(*states, outcome="completed", event_id=TASK.events[0]["event_id"]):
    hosts = {f"web{number}": {"state": state, "reason": ""} for number, state in enumerate(states)}
    return {"graceful_azure": [{"event_id": event_id, "event_type": "Reboot", "resources": [], "outcome": outcome, "hosts": hosts}]}


@pytest.fixture(name="followed")
def make_followed(tmp_path):
    return actions.Follow(str(tmp_path / "holds"))


@pytest.fixture(name="record")
def recorder(tmp_path):
    """Puts the record ``name`` for the events of TASK, or takes it away; ``posted`` is what the approval's own has."""

    def put(name, posted=None, held=True):
        store = Store(str(tmp_path / "holds"))
        details = {} if posted is None else {event_id: {"posted": posted} for event_id in FOLD}
        with store.locked(create=True):
            record = new_record("task", {"name": name}, {}, {}, {}, done=True)
            if held:
                store.write(dict(record, events=Request(True, sorted(FOLD), "", details).added_to({}), phase=HELD))
            else:
                store.delete(record)

    return put


@pytest.mark.parametrize(
    ("change", "outcome", "said"),
    [
        ({"status": "running"}, BUSY, "job 100 is under way"),
        ({"status": "failed", "job_explanation": "no \x1b[31mhosts\n"}, FAILED, "job 100 has failed: 'no \\x1b[31mhosts'"),
        ({"status": "error"}, FAILED, "job 100 has failed"),
        ({"status": "canceled"}, ASTRAY, "job 100 was cancelled"),
        ({"status": "successful"}, DONE, "job 100 has finished it"),
        ({"status": "successful", "event_processing_finished": False}, BUSY, "job 100 is under way"),
    ],
)
def test_what_becomes_of_a_job_is_asked(secret, followed, change, outcome, said):
    with Awx() as awx:
        assert launch(awx, secret, follow=followed) == (TAKEN, "job 100")
        awx.jobs[0].update(change)
        assert launch(awx, secret, follow=followed) == (outcome, said)
        assert len(awx.jobs) == 1
        # Once its end is known nothing keeps the next from being launched.
        assert launch(awx, secret, follow=followed) == ((BUSY, said) if outcome == BUSY else (TAKEN, "job 101"))


@pytest.mark.parametrize(
    ("artifacts", "spared"),
    [
        (result("restored"), True),
        (result("restored", "in_service", outcome="cancelled"), True),
        (result("in_service", outcome="not_approved", event_id=TASK.events[0]["event_id"].upper()), True),
        (result("restored", "needs_person"), False),
        (result("restored", outcome="in_progress"), False),
        (result("unobserved"), False),
        (result(), False),
        (result("restored", event_id="another"), False),
        ({}, False),
        ({"graceful_azure": "nonenone"}, False),
        ({"graceful_azure": [7, {"hosts": {"a": 1}, "outcome": "completed"}]}, False),
        (None, False),
    ],
)
@pytest.mark.parametrize("known", [True, False], ids=["launched by this watcher", "by another"])
def test_a_job_that_has_finished_everything_spares_another_one(secret, followed, artifacts, spared, known):
    with Awx() as awx:
        launch(awx, secret, follow=followed)
        # While it runs the event ends.
        assert launch(awx, secret, GONE, followed) == (BUSY, "job 100 is under way")
        awx.jobs[0].update(artifacts=artifacts)
        awx.end(awx.jobs[0])
        told = launch(awx, secret, GONE, followed if known else None)
        assert told == ((DONE, "job 100 has finished it") if spared else (TAKEN, "job 101"))
        assert len(awx.posted()) == 2 - spared


def test_a_check_spares_nothing(secret, followed):
    with Awx() as awx:
        launch(awx, secret, follow=followed)
        awx.jobs[0].update(artifacts=result("restored"), job_type="check")
        awx.end(awx.jobs[0])
        assert launch(awx, secret, GONE, followed) == (TAKEN, "job 101")


def test_a_finishing_job_that_fails_is_launched_again(secret, followed):
    with Awx() as awx:
        assert launch(awx, secret, GONE, followed) == (TAKEN, "job 100")
        awx.end(awx.jobs[0], "failed")
        assert launch(awx, secret, GONE, followed)[0] == FAILED
        assert launch(awx, secret, GONE, followed) == (TAKEN, "job 101")
        awx.end(awx.jobs[1])
        assert launch(awx, secret, GONE, followed)[0] == DONE
        assert len(awx.jobs) == 2


@pytest.mark.parametrize(("answer", "outcome"), [((403, b""), DONE), ((404, b""), DONE), ((200, b"[]"), DONE), ((503, b""), BUSY)])
def test_a_job_whose_end_cannot_be_read_is_taken_for_done_as_a_job_of_others_is(secret, followed, answer, outcome):
    with Awx() as awx:
        launch(awx, secret, follow=followed)
        awx.end(awx.jobs[0], "failed")
        awx.answers = [(200, {"results": []}), answer]
        assert launch(awx, secret, follow=followed)[0] == outcome


@pytest.mark.parametrize(
    "other",
    [
        {"job_type": "check"},
        {"extra_vars": {"target": "web9"}},
        {"extra_vars": {"target": "www_1,web9,!web8"}},
        {"extra_vars": {}},
        {"extra_vars": {"target": ["www_1"]}},
        {},
    ],
)
def test_no_job_of_others_ends_an_event_that_holds_this_host(secret, followed, record, other):
    """A check, one for other hosts, and one that has taken a single step."""
    record("approved", posted=True)
    with Awx() as awx:
        assert launch(awx, secret, GONE, followed) == (TAKEN, "job 100")
        variables = json.loads(awx.jobs[0]["extra_vars"])
        awx.end(awx.jobs[0], "failed")
        named = {name: value for name, value in variables.items() if name != "target"}
        later = awx.add_job({**named, **other["extra_vars"]} if "extra_vars" in other else variables)
        later.update(job_type=other.get("job_type", "run"), artifacts=result("restored"))
        awx.end(later)
        assert launch(awx, secret, GONE, followed) == (FAILED, "job 100 has failed")
        assert launch(awx, secret, GONE, followed) == (TAKEN, "job 102")


@pytest.mark.parametrize(("job_type", "target", "outcome"), [("check", "www_1", TAKEN), ("run", "web9", TAKEN), ("run", "web9;www_1", DONE)])
def test_only_a_job_that_does_something_for_the_same_target_has_finished_it(secret, job_type, target, outcome):
    """Also where this host's records hold nothing: the one on a balancer may."""
    with Awx() as awx:
        job = awx.add_job({"target": target, "graceful_azure_event_ids": [], "graceful_azure_gone_event_ids": ["E1"]})
        job["job_type"] = job_type
        awx.end(job)
        assert launch(awx, secret, GONE)[0] == outcome


def test_a_job_that_claims_to_have_finished_what_still_holds_this_host_has_failed(secret, followed, record):
    record("approved", posted=True)
    with Awx() as awx:
        launch(awx, secret, GONE, followed)
        awx.jobs[0].update(artifacts=result("restored"))
        awx.end(awx.jobs[0])
        assert launch(awx, secret, GONE, followed) == (FAILED, "job 100 has finished it, but this host is not given back")
        assert launch(awx, secret, GONE, followed) == (TAKEN, "job 101")
        awx.end(awx.jobs[1])
        record("approved", held=False)
        assert launch(awx, secret, GONE, followed)[0] == DONE


@pytest.mark.parametrize("damaged", [False, True])
def test_a_job_whose_end_cannot_be_read_gives_no_host_back(tmp_path, secret, followed, record, damaged):
    record("approved", posted=True)
    for path in (tmp_path / "holds").glob("*.json") if damaged else ():
        path.write_text("{")
    with Awx() as awx:
        launch(awx, secret, GONE, followed)
        awx.end(awx.jobs[0])
        awx.answers = [(200, {"results": []}), (404, b"")]
        text = "job 100, of whose end nothing can be read: this host is not given back"
        assert launch(awx, secret, GONE, followed) == (FAILED, text)
        assert launch(awx, secret, GONE, followed) == (TAKEN, "job 101")


def test_a_token_that_may_not_look_ends_no_event_that_holds_this_host(secret, followed, record):
    record("approved", posted=True)
    with Awx(may_look=False) as awx:
        assert launch(awx, secret, GONE, followed) == (TAKEN, "job 100")
        record("approved", held=False)
        assert launch(awx, secret, GONE, followed)[0] == DONE


@pytest.mark.parametrize(
    ("target", "busy"),
    [
        ("www_1", True),
        ("www_2, www_1", True),
        ("www_2:www_1", True),
        ("db", False),
        ("www_11", False),
        ("www_1:www_2:!db", False),
        ("www_1:&db", False),
    ],
)
@pytest.mark.parametrize("job_type", ["run", "check"])
def test_a_job_for_another_target_keeps_nobody_waiting(secret, target, busy, job_type):
    with Awx() as awx:
        awx.add_job({"target": target, "graceful_azure_event_ids": ["E1"], "graceful_azure_gone_event_ids": []})["job_type"] = job_type
        assert launch(awx, secret) == ((BUSY, "job 100 is under way") if busy and job_type == "run" else (TAKEN, "job 101"))


def test_an_answer_that_is_encoded_is_not_looked_at(secret):
    with Receiver() as receiver:
        receiver.answers = [(403, b""), (201, b'{"id": 7}', ("Content-Encoding", "gzip, gzip"))]
        assert launch(receiver, secret) == (FAILED, "status 201, but not with a job as AWX describes it")
        assert receiver.posted()[0]["headers"]["Accept-Encoding"] == "identity"


def test_the_records_on_its_own_host_spare_a_callback(secret, followed, record):
    with Awx() as awx:
        assert call_back(awx, secret, follow=followed)[0] == TAKEN
        record("approved", posted=True)
        followed.look()
        awx.end(awx.jobs[0])
        # Its event is approved, by the record: so the job is at work or was.
        assert call_back(awx, secret, follow=followed) == (DONE, "its job was begun")
        # The event is over while the host is still out: a job must put it back.
        assert call_back(awx, secret, GONE, followed)[0] == TAKEN
        followed.look()
        assert call_back(awx, secret, GONE, followed)[0] == BUSY
        record("approved", held=False)
        followed.look()
        assert call_back(awx, secret, GONE, followed) == (DONE, "a job has finished it already: nothing is held on this host any more")
        assert len(awx.jobs) == 2


def test_a_callback_whose_job_has_done_nothing_is_made_again(secret, followed):
    with Awx() as awx:
        followed.look()
        assert call_back(awx, secret, follow=followed)[0] == TAKEN
        awx.end(awx.jobs[0], "failed")
        followed.look()
        assert call_back(awx, secret, follow=followed)[0] == TAKEN
        assert len(awx.jobs) == 2
        # Once the event has started nobody knows what the job would have done.
        started = TASK._replace(events=[dict(event, event_status="Started") for event in TASK.events])
        assert call_back(awx, secret, started, followed)[0] == DONE


def test_that_nothing_is_held_says_nothing_where_nothing_was_seen_to_be(secret, followed, record):
    """The balancer's record lies on the balancer. An approval that was not sent is forgotten without anything being restored."""
    record("approved", posted=False)
    followed.look()
    record("approved", held=False)
    record("event_watcher_fast_path")
    followed.look()
    assert followed.held == set() and not followed.is_settled(FOLD)
    with Awx() as awx:
        assert call_back(awx, secret, GONE, followed)[0] == TAKEN
        assert call_back(awx, secret, GONE, followed) == (DONE, "its job was begun, and nothing is held on this host any more")


def test_records_that_cannot_be_read_spare_nothing(tmp_path, secret, followed, record):
    record("approved", posted=True)
    followed.look()
    for path in (tmp_path / "holds").glob("*.json"):
        path.write_text("{")
    followed.look()
    assert followed.held is None and not followed.is_settled(FOLD)
    assert launch_run(secret, followed) != DONE


@pytest.mark.parametrize("task", [TASK, Task("gone", [], TASK.events)], ids=["standing", "gone"])
def test_records_that_cannot_be_read_say_nothing_of_a_callback(tmp_path, secret, followed, record, task):
    with Awx() as awx:
        followed.look()
        assert call_back(awx, secret, task, followed)[0] == TAKEN
        record("approved", posted=True)
        for path in (tmp_path / "holds").glob("*.json"):
            path.write_text("{")
        awx.end(awx.jobs[0])
        followed.look()
        assert call_back(awx, secret, task, followed) == (FAILED, "what its job has come to cannot be told: the records on this host cannot be read")
        assert call_back(awx, secret, task, followed) == (TAKEN, "status 201")


def launch_run(secret, follow, task=GONE, command=("true",)):
    folder = Path(secret).parent
    settings = Settings(dict(DEFAULTS, action="run", command=list(command)))
    action = actions.begin(settings, task, "www_1", "1.2.3", str(folder / "run.lock"), follow=follow)
    return DONE if isinstance(action, actions.Ended) else until(action.poll, 15) and "begun"


def test_a_command_that_has_finished_everything_is_not_run_again(secret, followed, record):
    record("approved", posted=True)
    followed.look()
    followed.ended_well = True
    assert launch_run(secret, followed) == "begun"
    record("approved", held=False)
    followed.look()
    assert launch_run(secret, followed) == DONE
    # This host's records tell nothing of other VMs.
    assert launch_run(secret, followed, Task("gone", [], [dict(event, resources=["www_1", "www_2"]) for event in TASK.events])) == "begun"
    # What stands is for the command to look at; and one that failed has finished nothing.
    assert launch_run(secret, followed, TASK) == "begun"
    followed.ended_well = False
    assert launch_run(secret, followed) == "begun"


def test_a_command_that_leaves_its_host_held_is_run_again_once_the_event_is_over(made, tmp_path, record):
    """One pass after the other, as with handle_events_wait: false. The second finds the service up again."""
    with Service(document(event("E1", Resources=["me"])), document(), name="me") as service:
        watcher = made(service, action="run", command=["true"])
        record("approved", posted=True)

        def act():
            watcher.act()
            until(lambda: watcher._look_at_running() or watcher._action is None, 15)
            return watcher.counts["actions_started"], watcher.decider.unfinished != []

        watcher.read()
        assert act() == (1, True)
        watcher.read()
        assert act() == (1, True)
        watcher.clock.now += 1
        watcher.read()
        assert act() == (2, True)
        watcher.clock.now += 15
        assert act() == (3, True)
        record("approved", held=False)
        watcher.clock.now += 60
        assert act() == (4, False)


def test_the_own_job_is_forgotten_for_a_later_one_of_another(secret, followed):
    with Awx() as awx:
        launch(awx, secret, follow=followed)
        awx.end(awx.jobs[0], "failed")
        later = awx.add_job(json.loads(awx.jobs[0]["extra_vars"]))
        assert launch(awx, secret, follow=followed) == (BUSY, "job 101 is under way")
        later.update(artifacts=result("restored"))
        awx.end(later)
        assert launch(awx, secret, GONE, followed) == (DONE, "job 101 has finished it")


def test_a_callback_tells_of_the_events_that_it_does_not_serve(secret):
    both = {"event_id": "E2", "resources": ["www_2", "www_1"]}
    with Awx() as awx:
        for outcome in (TAKEN, BUSY):
            result = call_back(awx, secret, TASK._replace(events=[*TASK.events, both]))
            assert result[0] == outcome and result[1].endswith("; it is not for E2, which other VMs share: give a token")
        awx.end(awx.jobs[-1])
        assert call_back(awx, secret) == (TAKEN, "status 201")


@pytest.mark.parametrize(
    ("options", "body", "status"),
    [
        ({}, {}, 403),
        ({}, {"host_config_key": "wr0ng", "extra_vars": {}}, 403),
        ({}, {"host_config_key": KEY}, 400),
        ({}, {"host_config_key": KEY, "extra_vars": {}}, 201),
        ({}, f"host_config_key={KEY}&extra_vars={{}}", 400),
        ({"ask_variables": False}, f"host_config_key={KEY}", 201),
        ({"survey": {"reason": True}}, {"host_config_key": KEY, "extra_vars": {}}, 400),
        ({"survey": {"reason": True}}, {"host_config_key": KEY, "extra_vars": {"reason": "x"}}, 201),
        ({"survey": {"reason": True}, "ask_variables": False}, {"host_config_key": KEY, "extra_vars": {"reason": "x"}}, 201),
    ],
)
def test_callbacks_of_others(options, body, status):
    """The rest of what is known of AWX, which the watcher never asks for."""
    data, kind = (body.encode(), "application/x-www-form-urlencoded") if isinstance(body, str) else (json.dumps(body).encode(), "application/json")
    with Awx(**options) as awx:
        request = urllib.request.Request(awx.url + "callback/", data, {"Content-Type": kind})
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
                assert (answer.status, answer.read(), answer.headers["Location"]) == (status, b"", "/api/v2/jobs/100/")
        except urllib.error.HTTPError as error:
            assert error.code == status
        wanted = [] if status != 201 else [{"reason": "" if "ask_variables" in options else "x"} if "survey" in options else {}]
        assert [json.loads(job["extra_vars"]) for job in awx.jobs] == wanted


def test_what_nobody_can_be_told(secret, tmp_path):
    assert result_of("http://127.0.0.1:1/", secret)[0] == REFUSED
    odd = TASK._replace(events=[{"event_id": "E1", "resources": ["{{ x }}", "a,b", "!www", ""]}])
    assert "none of the names" in result_of("http://127.0.0.1:1/", secret, odd)[1]
    settings = Settings(dict(DEFAULTS, action="eda", url="http://127.0.0.1:1/", secret_file=secret))
    (tmp_path / "secret").unlink()
    outcome, text = actions.begin(settings, TASK, "www_1", "1.2.3", None).poll()
    assert outcome == REFUSED and "cannot be read" in text


def test_a_command_ends_with_all_that_it_started(tmp_path):
    program = "import subprocess, sys, time; subprocess.Popen(['sleep', '60']); open(sys.argv[1], 'w').close(); time.sleep(60)"
    command = actions.Command([sys.executable, "-S", "-c", program, str(tmp_path / "up")], {}, 60)
    until((tmp_path / "up").exists, 15)
    group = command._process.pid
    command.stop()

    def members():
        found = []
        for path in (entry for entry in Path("/proc").iterdir() if entry.name.isdigit()):
            try:
                fields = (path / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(path.name)
        return found

    until(lambda: not members(), 15)


def test_what_is_written_is_there_whole(tmp_path):
    path = tmp_path / "state"
    system.write_whole(str(path), json.dumps([1]), 0o600, durable=True)
    assert path.read_text() == "[1]" and path.stat().st_mode & 0o777 == 0o600
    system.write_whole(str(path), "2")
    assert (path.read_text(), [entry.name for entry in tmp_path.iterdir()]) == ("2", ["state"])


@pytest.fixture(name="in_the_way")
def what_lies_in_the_way(tmp_path):
    """Puts a FIFO, which nobody reads or writes, or a link at a path."""
    (tmp_path / "others").write_text("another's")

    def put(kind, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "fifo":
            os.mkfifo(path)
        else:
            path.symlink_to(tmp_path / "others")

    yield put
    assert (tmp_path / "others").read_text() == "another's"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["fifo", "link"])
def test_whatever_lies_where_it_writes_keeps_nobody_waiting(tmp_path, in_the_way, kind):
    path = tmp_path / "file"
    in_the_way(kind, tmp_path / "file.new")
    system.write_whole(str(path), "1")
    assert path.read_text() == "1" and not path.is_symlink()
    path.unlink()
    in_the_way(kind, path)
    system.write_whole(str(path), "2", durable=True)
    assert path.read_text() == "2" and not path.is_symlink()
    (tmp_path / "file.new").mkdir()
    with pytest.raises(OSError):
        system.write_whole(str(path), "3")


@pytest.mark.timeout(60)
def test_fifos_at_all_its_files_stop_nothing(made, tmp_path, in_the_way, capsys):
    for name in ("state.json", "state.json.new", "status.json", "status.json.new", "watcher.prom", "watcher.prom.new", "told", "told.new"):
        in_the_way("fifo", tmp_path / name)
    with Service(document(event("a")), name="FrontEnd_IN_0") as service:
        watcher = made(service, textfile=str(tmp_path / "watcher.prom"), path=str(tmp_path / "told"))
        (lost,) = said(capsys, "state_lost")
        assert "not a regular file" in lost["text"]
        watcher.tick()
    assert json.loads((tmp_path / "told").read_text())["target"] == "FrontEnd_IN_0,BackEnd_IN_0"
    assert json.loads((tmp_path / "state.json").read_text())["begun"] and json.loads((tmp_path / "status.json").read_text())["events"]
    assert "graceful_azure_watcher_events" in (tmp_path / "watcher.prom").read_text()


@pytest.mark.timeout(20)
def test_fifos_where_it_reads_or_locks(tmp_path, in_the_way, capsys):
    for name in ("config.json", "status.json", "lock", "VERSION", "x.py", "ca.pem"):
        in_the_way("fifo", tmp_path / name)
    with pytest.raises(SettingsError, match="not a regular file"):
        settings.read(str(tmp_path / "config.json"))
    assert cli.show_status(dict(DEFAULTS, run_dir=str(tmp_path)), "1.2.3") == cli.EXIT_NOT_RUNNING
    with pytest.raises(OSError, match="not a regular file"):
        system.lock(str(tmp_path / "lock"))
    (tmp_path / "x.py").unlink()
    assert cli.installed_version(str(tmp_path)).startswith("unknown+")
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    secret.chmod(0o600)
    given = dict(DEFAULTS, action="eda", url="https://eda.example.com/endpoint", secret_file=str(secret))
    with pytest.raises(SettingsError, match="ca_file"):
        Settings(dict(given, ca_file=str(tmp_path / "ca.pem")))


def test_a_file_that_would_fill_its_memory_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(system, "READ_LIMIT", 10)
    (tmp_path / "file").write_text("1234567890")
    assert system.read_regular(str(tmp_path / "file")) == b"1234567890"
    (tmp_path / "file").write_text("12345678901")
    with pytest.raises(OSError, match="more than"):
        system.read_regular(str(tmp_path / "file"))


def test_what_must_outlive_a_power_failure_is_in_its_folder_then(tmp_path, monkeypatch):
    path, synced = tmp_path / "state", []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), path.exists())))
    system.write_whole(str(path), "1", durable=True)
    assert synced == [(False, False), (True, True)]
    system.write_whole(str(path), "2")
    assert len(synced) == 2


def test_who_asks_whether_it_is_locked_keeps_no_watcher_from_starting(tmp_path, monkeypatch):
    path = tmp_path / "lock"
    path.touch()
    asking = path.open()
    fcntl.flock(asking, fcntl.LOCK_SH)
    monkeypatch.setattr(time, "sleep", lambda _seconds: asking.close())
    system.unlock(system.lock(str(path)))


def test_anybody_may_ask_whether_it_is_locked(tmp_path, monkeypatch, capsys):
    path = tmp_path / "lock"
    before = os.umask(0o077)
    try:
        lock = system.lock(str(path))
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o644 and system.is_locked(str(path))
    system.unlock(lock)

    def closed(name, *_arguments):
        raise PermissionError(13, "Permission denied", name)

    monkeypatch.setattr(os, "open", closed)
    assert system.is_locked(str(path)) is None
    assert cli.show_status(dict(DEFAULTS, run_dir=str(tmp_path)), "1.2.3") == cli.EXIT_TROUBLE
    assert "may not look" in capsys.readouterr().out
