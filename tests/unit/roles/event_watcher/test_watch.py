# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The watcher's ticks against a metadata service of scripted answers, in scripted time; and receivers that are ill."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
from graceful_azure_watcher import actions, system, watch
from graceful_azure_watcher.decision import FAILED, REFUSED, Task
from graceful_azure_watcher.settings import DEFAULTS, Settings

from tests.support.receiver import TOKEN, Receiver
from tests.support.service import Clock, Service, document, drop, event, trickle
from tests.support.watcher import parse, until


@pytest.fixture(name="made")
def make(tmp_path, monkeypatch):
    """Makes a watcher of the action file on a service; its clock and what it told the service manager hang on it."""
    told = []
    monkeypatch.setattr(system, "notify", told.append)
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)

    def made(service, **settings):
        clock = Clock()
        folders = {"state_dir": str(tmp_path / "holds"), "data_dir": str(tmp_path), "run_dir": str(tmp_path)}
        watcher = watch.Watcher(
            Settings(dict(DEFAULTS, action="file", imds_url=service.url, **folders, **settings)), "1.2.3", clock.monotonic, clock.sleep
        )
        watcher.clock, watcher.told = clock, told
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
    assert watcher.decider.events == {}
    assert watcher.clock.slept == []
    assert (watcher.counts["answers"], watcher.counts["errors"]) == (2, 3)


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


def test_a_state_that_cannot_be_read_is_told_and_left_behind(made, tmp_path, capsys):
    for text in ("", "[]", '{"begun": [1]}', '{"begun": [{"event_id": "a"}]}'):
        (tmp_path / "state.json").write_text(text)
        with Service(document(), name="me") as service:
            watcher = made(service)
            assert watcher.decider.unfinished == []
        assert len(said(capsys, "state_lost")) == 1


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


TASK = Task("appeared", [{"event_id": "E1", "resources": ["www_1"]}], [])


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_text(TOKEN)
    path.chmod(0o600)
    return str(path)


def result_of(url, secret, task=TASK):
    settings = Settings(dict(DEFAULTS, action="eda", url=url, secret_file=secret))
    request = actions.begin(settings, task, "www_1", "1.2.3", None)
    return until(request.poll)


@pytest.mark.parametrize(
    "answer",
    [
        trickle(seconds=30),
        trickle(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"x", seconds=30),
        lambda handler: time.sleep(3),
    ],
    ids=["head", "body", "silent"],
)
def test_a_receiver_that_never_comes_to_an_end(secret, monkeypatch, answer):
    monkeypatch.setattr(actions, "REQUEST_SECONDS", 0.3)
    start = time.monotonic()
    with Receiver() as receiver:
        receiver.answers = [answer]
        assert result_of(receiver.url, secret)[0] == FAILED
    assert time.monotonic() - start < 2


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
    until((tmp_path / "up").exists)
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

    until(lambda: not members())


def test_what_is_written_is_there_whole(tmp_path):
    path = tmp_path / "state"
    system.write_whole(str(path), json.dumps([1]), 0o600, durable=True)
    assert path.read_text() == "[1]" and path.stat().st_mode & 0o777 == 0o600
    system.write_whole(str(path), "2")
    assert (path.read_text(), [entry.name for entry in tmp_path.iterdir()]) == ("2", ["state"])
