# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Holds on the host's own health answer: real files and commands, and kills at each boundary."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import pathlib
import shutil
import socket
import subprocess
import threading
import time
from types import SimpleNamespace

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _health_actions, _health_probe
from ansible_collections.graceful.azure.plugins.module_utils._connections import Counted
from ansible_collections.graceful.azure.plugins.module_utils._duties import all_types
from ansible_collections.graceful.azure.plugins.module_utils._duties import health_probe as duty
from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.health_probe import not_passing
from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
from ansible_collections.graceful.azure.plugins.module_utils._health_actions import (
    KEPT,
    MARK,
    Command,
    File,
    ProbeError,
    Refused,
    UnitOfProbe,
    action_of,
    record_in,
)
from ansible_collections.graceful.azure.plugins.module_utils._health_probe import HealthAnswers, condition_of, describe
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Engine
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Request, Store
from ansible_collections.graceful.azure.plugins.module_utils._new_connections import Arrivals
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import HEALTH_PROBE
from ansible_collections.graceful.azure.plugins.module_utils._systemd import Systemd, SystemdError
from graceful_azure_watcher.hold import FastHold

from tests.support.calls import call
from tests.support.killed import Killed
from tests.support.patience import patient
from tests.support.ports import listener


class DyingStore(Store):
    """Dies before or after the write of that number."""

    def __init__(self, folder, at=None, after=False):
        super().__init__(folder)
        self.left, self.after = at, after

    def replace(self, record, wanted):
        if self.left == 0 and not self.after:
            raise Killed
        super().replace(record, wanted)
        if self.left == 0:
            raise Killed
        if self.left is not None:
            self.left -= 1


def run_command(words, handle_exceptions=True):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


class Host:
    """One host with a health answer, made to fail in one of the ways."""

    def __init__(self, folder, kind):
        self.folder, self.kind = folder, kind
        self.state_dir = str(folder / "state")
        self.switch = folder / "switch"
        self.boot, self.now = "boot-1", 100.0
        self.details = {}
        if kind == "in":
            self.switch.write_text("serves\n")

    def action(self):
        if self.kind == "command":
            return Command(f"touch {self.switch}", f"rm -f {self.switch}", run_command)
        return File(str(self.switch), self.kind)

    def hold(self, *events, state="present", store=None, dry=False, passes=None):
        store = store or Store(self.state_dir, dry=dry)
        request = Request(state == "present", list(events) or None, details=self.details)
        driver = HealthAnswers(
            store, request, self.action() if state == "present" else None, lambda record: action_of(record, None, run_command),
            self.boot, dry=dry, clock=lambda: self.now, passes=lambda: passes,
        )  # fmt: skip
        engine = Engine(driver, store, request)
        engine.run()
        self.conflicts = engine.conflicts
        self.answers = [driver.describe(hold) for hold in engine.current]
        return engine.changed

    def see(self, run=run_command, **more):
        """What a look tells, with a notice of 12 s."""
        known = dict.fromkeys(("service", "responder_port", "url"), None)
        known.update(action="file", file=str(self.switch), file_means=self.kind, notice=12.0, ports=[], peer=["168.63.129.16"])
        known.update(wait_for=[], quiet=0.0, timeout=0.0, state_dir=self.state_dir, command_out=None, command_back=None)
        os.makedirs(self.state_dir, 0o700, exist_ok=True)
        return call("health_probe_info", dict(known, **more), run_command=run)

    def release(self, *events, **more):
        return self.hold(*events, state="absent", **more)

    @property
    def fails(self):
        return self.switch.exists() == (self.kind != "in")

    @property
    def records(self):
        return os.listdir(self.state_dir) if os.path.isdir(self.state_dir) else []


@pytest.fixture(name="host", params=["out", "in", "command"])
def make_host(tmp_path, request):
    return Host(tmp_path, request.param)


def test_out_and_back_as_it_was_found(host):
    before = host.switch.stat().st_ino if host.kind == "in" else None
    assert host.hold("A", dry=True) and not host.fails and not host.records
    assert host.hold("A") and host.fails
    assert host.answers[0]["condition"] == "held" and host.answers[0]["held_by"] == ["A"]
    assert not host.hold("a") and host.hold("B")
    assert host.release("A") and host.fails
    assert host.release("B", dry=True) and host.fails
    assert host.release("B") and not host.fails and not host.records
    assert not host.release("B")
    if before:
        assert host.switch.stat().st_ino == before and host.switch.read_text() == "serves\n"
        assert not os.path.exists(str(host.switch) + KEPT)


@pytest.mark.parametrize("direction", ["out", "back"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_kill_at_each_write_is_put_right(host, at, after, direction):
    if direction == "back":
        host.hold("A")
    act = host.hold if direction == "out" else host.release
    try:
        act("A", store=DyingStore(host.state_dir, at, after))
    except Killed:
        pass
    act("A")
    assert host.fails == (direction == "out") and not host.conflicts
    host.release("A")
    assert not host.fails and not host.records and not host.conflicts


def test_a_kill_on_the_way_out_then_the_event_is_over(host):
    for at in range(3):
        for after in (False, True):
            try:
                host.hold("A", store=DyingStore(host.state_dir, at, after))
            except Killed:
                pass
            host.release("A")
            assert not host.fails and not host.records and not host.conflicts


def test_a_release_that_was_cut_off_and_a_new_event(host):
    for at in range(2):
        for after in (False, True):
            host.hold("A")
            try:
                host.release("A", store=DyingStore(host.state_dir, at, after))
            except Killed:
                pass
            host.hold("B")
            # A kill before the first write has released nothing.
            assert host.fails and host.answers[0]["held_by"] == (["B"] if (at, after) != (0, False) else ["A", "B"])
            host.release("A", "B")
            assert not host.fails and not host.records


@pytest.mark.parametrize("host", ["out", "in"], indirect=True)
def test_what_fails_already_is_left_alone(host):
    if host.kind == "out":
        host.switch.write_text("maintenance until noon\n")
    else:
        host.switch.unlink()
    assert not host.hold("A") and not host.records
    assert host.answers[0]["condition"] == "already_out"
    assert not host.release("A") and host.fails


@pytest.mark.parametrize("host", ["out"], indirect=True)
@pytest.mark.parametrize("told", [True, False, None])
def test_a_run_that_has_seen_the_url_pass_tells_it(host, told):
    """What was handed over since may make it fail."""
    host.details = {"a": {} if told is None else {"passed": told}}
    host.hold("A", passes=False)
    assert host.answers[0]["found"] == {"state": "passing", "passed": told is True}


@pytest.mark.parametrize("host", ["out"], indirect=True)
def test_whether_the_url_has_passed_is_recorded(host):
    """Before the hold or since. What passed once may be stopped, and after a reboot may not run yet."""
    host.hold("A", passes=False)
    assert host.answers[0]["found"] == {"state": "passing", "passed": False}
    host.hold("A", passes=True)
    assert host.answers[0]["found"] == {"state": "passing", "passed": True}
    host.switch.unlink()
    host.boot = "boot-2"
    host.hold("A", passes=False)
    assert host.fails and host.answers[0]["found"] == {"state": "passing", "passed": True}
    assert host.release("A") and not host.records


@pytest.mark.parametrize("host", ["out"], indirect=True)
@pytest.mark.parametrize("answered", [False, True])
def test_a_record_of_an_older_version_tells_whether_anybody_answered(host, answered):
    host.hold("A")
    (name,) = [name for name in host.records if name.endswith(".json")]
    path = pathlib.Path(host.state_dir, name)
    record = json.loads(path.read_text())
    record["found"]["answered"] = answered
    path.write_text(json.dumps(record))
    with listener() as listening:
        url = "http://127.0.0.1:%d/" % listening.getsockname()[1]
    assert host.see(url=url, notice=0.0)["idle"] is answered
    assert host.release("A") and not host.fails


@pytest.mark.parametrize("host", ["out"], indirect=True)
@pytest.mark.parametrize(("statuses", "passed"), [([404], False), ([503, 200], True), ([200], True), ([204], True)])
def test_an_answer_that_never_passed_proves_nothing_when_it_fails(host, statuses, passed, monkeypatch):
    """A wrong path gives 404 before the hold, and after it. A balancer forgives a bad answer, too."""
    asked = []

    def ask_url(url, *_more, **_options):
        asked.append(url)
        status = 404 if host.fails else statuses[min(len(asked), len(statuses)) - 1]
        return None if status < 400 else f"{url}: status {status}"

    monkeypatch.setattr(_health_probe, "ask_url", ask_url)
    monkeypatch.setattr(duty, "AGAIN_SECONDS", 0.001)
    monkeypatch.setattr(duty, "ANSWER_SECONDS", 0.05)
    options = {"action": "file", "file": str(host.switch), "url": "http://127.0.0.1:8080/health", "event_ids": ["A"], "state_dir": host.state_dir}
    call("health_probe_hold", options, run_command=run_command)
    told = host.see(url=options["url"], notice=0.0)
    assert told["answer"]["found"] == {"state": "passing", "passed": passed} and not told["probe"]["passes"]
    assert told["notice_left"] == 0 and told["idle"] is passed


@pytest.mark.parametrize("host", ["out"], indirect=True)
@pytest.mark.parametrize("listens", [False, True])
def test_what_the_fast_path_of_the_watcher_has_made_fail_need_not_have_passed(host, listens, monkeypatch):
    """It comes before every run, so no run could see the URL pass. But where nobody answers, a wrong URL tells the same."""
    monkeypatch.setattr(duty, "ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(duty, "AGAIN_SECONDS", 0.001)
    event = {"event_id": "E", "event_type": "Terminate", "resources": ["web1"]}

    def ask_url(url, *_more, connected, **_options):
        if listens:
            connected(("127.0.0.1", 40000))
        return f"{url}: status 503"

    monkeypatch.setattr(_health_probe, "ask_url", ask_url)
    FastHold(host.state_dir).write(["E"], True, [event])
    options = {"action": "file", "file": str(host.switch), "url": "http://127.0.0.1:8081/", "event_ids": ["E"], "state_dir": host.state_dir}
    assert (not_passing(host.see(url=options["url"])) is None) is listens
    call("health_probe_hold", options, run_command=run_command)
    told = host.see(url=options["url"], notice=0.0)
    assert told["answer"]["condition"] == "held" and told["idle"] is listens


@pytest.mark.parametrize("host", ["out"], indirect=True)
def test_what_an_operator_has_taken_out_need_not_have_passed(host, monkeypatch):
    host.switch.write_text("maintenance until noon\n")
    monkeypatch.setattr(_health_probe, "ask_url", lambda url, *_more, connected, **_options: connected(("127.0.0.1", 40000)) or f"{url}: status 404")
    assert host.see(url="http://127.0.0.1:8080/health", notice=0.0)["idle"]


def test_who_has_the_same_health_file(tmp_path):
    """Whether it is there or not. Two paths may lead to one file."""
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.symlink_to(one)
    ids = [Host(folder, "out").see()["file_id"] for folder in (one, other)]
    assert ids[0] is not None and ids[0] == ids[1]
    Host(one, "out").switch.touch()
    assert Host(other, "out").see()["file_id"] == ids[0] != Host(tmp_path, "out").see()["file_id"]


@pytest.mark.parametrize("host", ["out"], indirect=True)
@pytest.mark.parametrize("listens", [False, True])
def test_silence_is_no_proof_that_the_probe_fails(host, listens, monkeypatch):
    """Whether nobody listens, or somebody who says nothing."""
    monkeypatch.setattr(duty, "ANSWER_SECONDS", 0.1)
    with listener() as listening:
        url = "http://127.0.0.1:%d/" % listening.getsockname()[1]
        if not listens:
            listening.close()
        options = {"action": "file", "file": str(host.switch), "url": url, "event_ids": ["A"], "state_dir": host.state_dir}
        assert call("health_probe_hold", options, run_command=run_command)["changed"]
        told = host.see(url=url, notice=0.0)
    assert told["answer"]["found"] == {"state": "passing", "passed": False} and told["probe"]["answered"] is listens
    assert told["notice_left"] == 0 and not told["idle"]


@pytest.mark.parametrize("host", ["out"], indirect=True)
def test_a_slow_answer_hides_no_new_connection(host, monkeypatch):
    """The tables are read 20 times a second, also while the health answer is asked. The request for it does not count."""
    own, slept = ("127.0.0.1", 40000), []
    tables = iter([[], [("10.0.0.4", 5)], [own, ("10.0.0.4", 6)]])
    last = threading.Event()

    class Tables(Arrivals):
        def read(self):
            table = next(tables, [])
            if own in table:
                last.set()
            return {(80, *peer, "10.0.0.5"): None for peer in table}, self._monotonic()

    def ask_url(url, *_more, connected, **_options):
        connected(own)
        slept.append(last.wait(patient(5)))
        return f"{url}: status 503"

    monkeypatch.setattr(_health_probe, "Arrivals", Tables)
    monkeypatch.setattr(_health_probe, "ask_url", ask_url)
    monkeypatch.setattr(_health_probe, "counted", lambda ports: Counted([], []))
    monkeypatch.setattr(_health_probe, "SAMPLE_SECONDS", 0.001)
    host.hold("A")
    told = host.see(url="http://localhost/health", ports=[80])
    assert slept == [True] and told["new_connections"] == [{"port": 80, "count": 2, "peer": "10.0.0.4"}]


@pytest.mark.parametrize("host", ["out"], indirect=True)
@pytest.mark.parametrize("port", [0, 65536])
def test_a_port_that_is_none_is_refused(host, port):
    """Nothing is ever connected there, so the host would count as idle."""
    with pytest.raises(ValueError, match=f"ports: {port} is not a TCP port from 1 to 65535"):
        host.see(ports=[80, port])


@pytest.mark.parametrize("host", ["out"], indirect=True)
def test_several_may_only_check(host):
    """Their connections are no requests."""
    host.hold("A")
    sources = ("127.0.0.7", "127.0.0.8", "127.0.0.9")
    with listener() as listening, contextlib.ExitStack() as clients:
        at = listening.getsockname()
        for source in sources:
            clients.enter_context(socket.create_connection(at, source_address=(source, 0)))
        told = host.see(ports=[at[1]], peer=["127.0.0.8", "127.0.0.9"])
    assert [entry["peer"] for entry in told["connections"]] == ["127.0.0.7"]


@pytest.mark.parametrize("host", ["out", "in"], indirect=True)
def test_what_an_operator_took_out_a_moment_ago_is_not_out_yet(host, monkeypatch):
    os.makedirs(host.state_dir, 0o700)
    host.switch.unlink() if host.kind == "in" else host.switch.write_text("maintenance until noon\n")
    told = host.see()
    assert told["answer"]["condition"] == "already_out"
    assert 6 < told["notice_left"] <= 12 and not told["idle"]
    real, ago = time.time, 5.0
    monkeypatch.setattr(time, "time", lambda: real() + ago)
    assert 1 < host.see()["notice_left"] <= 7
    ago = 100.0
    assert host.see()["notice_left"] == 0 and host.see()["idle"]
    # The clock was set back: nobody knows since when, so the time begins with this look.
    ago = -3600.0
    assert 6 < host.see()["notice_left"] <= 12 and not host.see()["idle"]


@pytest.mark.parametrize("host", ["out"], indirect=True)
def test_for_how_long_it_has_passed_since_a_hold_was_released(host, monkeypatch):
    """So a run knows it that has not seen the release."""
    host.hold("A")
    assert host.see()["passing_for"] is None
    host.release("A")
    assert host.see()["passing_for"] < 5
    os.utime(host.state_dir, (time.time() - 40,) * 2)
    assert 40 <= host.see()["passing_for"] < 45
    # No longer than since the boot, also where no record was ever there, or the clock was set back.
    for then in (0.0, time.time() + 3600):
        os.utime(host.state_dir, (then, then))
        assert host.see()["passing_for"] == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=5)
    shutil.rmtree(host.state_dir)
    assert Store(host.state_dir).unchanged_for() == math.inf


def test_a_unit_that_an_operator_stopped_a_moment_ago_is_not_out_yet():
    now = time.monotonic()
    calls = []

    def systemctl(words, **_more):
        calls.append(words)
        return 0, "InactiveEnterTimestampMonotonic=%d\n" % ((now - 5) * 1e6), ""

    assert 5 <= UnitOfProbe("health", Systemd(systemctl)).out_for() < 10
    assert calls[0][-1] == "health.service"


def test_a_stopped_unit_that_systemd_has_forgotten_fails_since_the_first_look(tmp_path):
    """systemd unloads a unit that is not enabled as soon as it is stopped, and then shows no time of its end."""

    def systemctl(words, **_more):
        is_time = "--property=InactiveEnterTimestampMonotonic" in words
        return 0, "InactiveEnterTimestampMonotonic=0\n" if is_time else "ActiveState=inactive\nLoadState=loaded\n", ""

    told = Host(tmp_path, "out").see(systemctl, action="service", service="health")
    assert told["answer"]["condition"] == "already_out" and 6 < told["notice_left"] <= 12 and not told["idle"]
    unit = UnitOfProbe("health", Systemd(systemctl))
    assert unit.out_for() is None and unit.redone_for() is None, "after a stop of ours, the record tells the time"


@pytest.mark.parametrize(
    ("unit", "told"),
    [
        ("health.socket", "Triggers=health.service\nAccept=no"),
        ("health.socket", "Triggers=health.service\nAccept=yes"),
        ("health.target", "Wants=health.service"),
    ],
)
def test_a_unit_of_which_the_service_answers(unit, told):
    """It would go on to answer, unless systemd starts one for each connection."""

    def systemctl(words, **_more):
        return 0, "ActiveState=active\nLoadState=loaded\n%s\n" % told, ""

    with contextlib.nullcontext() if "Accept=yes" in told else pytest.raises(ProbeError, match="health.service, which would go on"):
        UnitOfProbe(unit, Systemd(systemctl)).check()


def test_a_socket_that_is_held_is_seen_whatever_it_starts(tmp_path):
    """Such as one that a former release held and a boot started again: only what is seen is given back."""
    state = "active"

    def systemctl(words, **_more):
        nonlocal state
        state = {"stop": "inactive", "start": "active"}.get(words[1], state)
        triggers = "" if hold_it else "Triggers=health.service\n"
        return 0, "ActiveState=%s\nLoadState=loaded\n%s" % (state, triggers), ""

    def go(boot, present):
        request = Request(present, ["A"])
        action = UnitOfProbe("health.socket", Systemd(systemctl)) if present else None
        driver = HealthAnswers(Store(host.state_dir), request, action, lambda record: action_of(record, Systemd(systemctl), systemctl), boot)
        Engine(driver, Store(host.state_dir), request).run()

    host, hold_it = Host(tmp_path, "out"), True
    known = {"action": "service", "service": "health.socket"}
    go("boot-1", present=True)
    hold_it, state = False, "active"
    told = host.see(systemctl, **known)
    assert told["problem"] is None and told["answer"]["held_by"] == ["A"]
    entry = all_types.read(dict(known, type="health_probe"), Machine)
    assert entry.duty(entry.name, entry.options, Machine(systemctl, host.state_dir, False)).look()["problem"] is None
    go("boot-2", present=False)
    assert not host.records
    assert "health.service, which would go on" in host.see(systemctl, **known)["problem"]


@pytest.mark.parametrize("host", ["out", "in"], indirect=True)
def test_somebody_lets_it_pass_in_the_same_boot(host):
    host.hold("A")
    host.switch.unlink() if host.kind == "out" else host.switch.write_text("another\n")
    assert not host.hold("A") and not host.fails
    assert host.answers[0]["condition"] == "changed_meanwhile" and "somebody else changed it" in host.conflicts[0]
    host.release("A")
    assert not host.fails and not host.records and "somebody else changed it" in host.conflicts[0]
    if host.kind == "in":
        assert host.switch.read_text() == "another\n" and KEPT in host.conflicts[0]


@pytest.mark.parametrize("host", ["out", "in"], indirect=True)
def test_somebody_lets_it_pass_and_one_of_two_events_is_over(host):
    host.hold("A")
    host.hold("B")
    host.switch.unlink() if host.kind == "out" else host.switch.write_text("another\n")
    host.release("A")
    assert host.answers[0]["condition"] == "changed_meanwhile" and "somebody else changed it" in host.conflicts[0]
    assert not host.fails and host.answers[0]["held_by"] == ["B"]


def test_a_reboot_that_lets_it_pass_is_no_conflict(host):
    host.hold("A")
    host.switch.write_text("") if host.kind == "in" else host.switch.unlink()
    host.boot, host.now = "boot-2", 7.0
    assert host.hold("A") and host.fails and not host.conflicts
    assert host.answers[0]["failing_for"] == 0.0


@pytest.mark.parametrize("host", ["out", "in"], indirect=True)
def test_a_reboot_resets_the_time_for_which_it_fails(host):
    host.hold("A")
    host.now = 130.0
    host.hold("A")
    assert host.answers[0]["failing_for"] == 30.0
    host.boot, host.now = "boot-2", 7.0
    host.hold("A")
    assert host.answers[0]["failing_for"] == 7.0 and host.answers[0]["noted"]
    # From now on, whoever lets it pass has acted.
    host.switch.unlink() if host.kind == "out" else host.switch.write_text("x")
    host.hold("A")
    assert host.conflicts


@pytest.mark.parametrize("host", ["out", "in"], indirect=True)
def test_a_run_that_was_cut_off_after_the_change_has_not_noted_it(host):
    with pytest.raises(Killed):
        host.hold("A", store=DyingStore(host.state_dir, 1))
    assert host.fails
    (record,), action = Store(host.state_dir).records(HEALTH_PROBE), host.action()
    seen = action.look(record, host.boot)
    assert not describe(action, seen, record, condition_of(record, seen, host.boot), host.boot, host.now)["noted"]
    host.hold("A")
    assert host.answers[0]["noted"]
    host.now += 5
    host.hold("A")
    assert host.answers[0]["failing_for"] == 5.0


@pytest.mark.parametrize("host", ["out"], indirect=True)
def test_an_operators_file_in_place_of_ours_stays(host):
    host.hold("A")
    host.switch.write_text("maintenance until noon\n")
    host.release("A")
    assert host.fails and not host.records and "was written by somebody else" in host.conflicts[0]


@pytest.mark.parametrize("host", ["out"], indirect=True)
def test_an_operators_empty_file_in_place_of_ours_stays(host):
    host.hold("A")
    host.switch.unlink()
    host.switch.touch()
    host.now += 60.0
    assert host.see()["answer"]["failing_for"] < 30.0, "the balancer has seen it pass, and must notice anew"
    host.release("A")
    assert host.fails and not host.records and "was written by somebody else" in host.conflicts[0]


@pytest.mark.parametrize("host", ["out"], indirect=True)
@pytest.mark.parametrize("part", [20, len(MARK), len(MARK) + 50])
@pytest.mark.parametrize("again", [True, False])
def test_a_mark_of_which_a_run_that_was_cut_off_wrote_a_part_is_ours(host, again, part):
    with pytest.raises(Killed):
        host.hold("A", store=DyingStore(host.state_dir, 1))
    host.switch.write_text((MARK + '{"version": 1, ' + " " * 50)[:part])
    if again:
        host.hold("A")
        assert list(record_in(host.switch.read_bytes(), "file", str(host.switch))["events"]) == ["A"]
        host.release("A")
    else:
        with pytest.raises(Killed):
            host.release("A", store=DyingStore(host.state_dir, 0, after=True))
        assert list(record_in(host.switch.read_bytes(), "file", str(host.switch))["events"]) == ["A"]
        host.release("A")
    assert not host.fails and not host.records and not host.conflicts


class TestTheRecordIsGone:
    """The folder was on a disk that was replaced, and what makes the answer fail was not."""

    @pytest.fixture
    def host(self, tmp_path):
        host = Host(tmp_path, "out")
        host.hold("A")
        for name in host.records:
            (tmp_path / "state" / name).unlink()
        host.boot = "boot-2"
        return host

    def test_the_file_tells_it(self, host):
        seen = host.see()
        assert seen["answer"]["condition"] == "held" and seen["answer"]["held_by"] == ["A"]
        assert [(record["from_mark"], list(record["events"])) for record in seen["holds"]] == [(True, ["A"])]

    def test_it_is_given_back_when_its_event_is_over(self, host):
        store = Store(host.state_dir)
        for dry in (True, False):
            request = Request(False, ["A"])
            store = Store(host.state_dir, dry=dry)
            driver = HealthAnswers(store, request, host.action(), lambda record: action_of(record, None, run_command), host.boot, dry=dry)
            engine = Engine(driver, store, request)
            engine.run()
            assert engine.changed and not engine.conflicts and host.fails == dry
        assert not host.records and host.see()["answer"]["condition"] == "none"

    def test_it_is_held_on_and_written_anew(self, host):
        host.hold("B", dry=True)
        assert not host.records
        host.hold("B")
        (record,) = Store(host.state_dir).records(HEALTH_PROBE)
        assert sorted(record["events"]) == ["A", "B"] and record["phase"] == "held" and record["boot_id"] == "boot-2"
        assert host.release("A") and host.fails and host.release("B") and not host.fails and not host.records

    @pytest.mark.parametrize("content", [MARK, MARK + "{"])
    def test_a_file_that_does_not_tell_it_needs_a_person(self, host, content):
        """Such as one of the version before."""
        host.switch.write_text(content)
        for act in (host.see, lambda: host.hold("A")):
            with pytest.raises(ProbeError, match="switch is of graceful.azure, but its record is gone"):
                act()
        assert host.switch.read_text() == content and not host.records

    def test_a_file_whose_absence_means_out_needs_a_person(self, tmp_path):
        folder = tmp_path / "in"
        folder.mkdir()
        host = Host(folder, "in")
        host.hold("A")
        for name in host.records:
            (folder / "state" / name).unlink()
        with pytest.raises(ProbeError, match=f"switch{KEPT} is of graceful.azure, but its record is gone"):
            host.see()


def test_a_hold_of_the_version_before_is_given_back(tmp_path):
    host = Host(tmp_path, "out")
    host.hold("A")
    host.switch.write_text(MARK)
    assert host.see()["answer"]["condition"] == "held" and not host.hold("A")
    assert host.release("A") and not host.fails and not host.conflicts


@pytest.mark.parametrize("host", ["out"], indirect=True)
def test_a_full_disk_leaves_neither_a_file_nor_a_record(host, monkeypatch):
    real = os.write

    def full(fd, data):
        if data.startswith(MARK.encode()):
            raise OSError(28, "No space left on device")
        return real(fd, data)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(Refused, match="switch cannot be written: No space left on device"):
        host.hold("A")
    assert not host.fails and not host.records


@pytest.mark.parametrize("host", ["out"], indirect=True)
def test_a_file_that_cannot_be_removed_again_keeps_its_record(host, monkeypatch):
    """It would fail for ever, and count as an operator's."""

    def refused(call, is_ours):
        def refuse(what, *args, **options):
            if is_ours(what, *args):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS))
            return call(what, *args, **options)

        return refuse

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", refused(os.write, lambda fd, data: data.startswith(MARK.encode())))
        patched.setattr(os, "unlink", refused(os.unlink, lambda path: str(path) == str(host.switch)))
        with pytest.raises(Refused, match="switch cannot be written: Read-only file system"):
            host.hold("A")
    assert host.fails and host.records
    host.hold("A")
    assert host.answers[0]["condition"] == "held"
    host.release("A")
    assert not host.fails and not host.records


@pytest.mark.parametrize("moves", [False, True])
def test_what_stopped_although_its_stop_was_refused_keeps_its_record(tmp_path, monkeypatch, moves):
    states = iter([_health_actions.SeenAnswer(False, False, "it runs"), *[_health_actions.SeenAnswer(not moves, moves, "it stops")] * 9])
    monkeypatch.setattr(File, "look", lambda action, record, boot: next(states))
    monkeypatch.setattr(File, "fail", lambda action, record: (nothing for nothing in ()).throw(Refused("The stop was not answered.")))
    host = Host(tmp_path, "out")
    with pytest.raises(Refused, match="was not answered"):
        host.hold("A")
    assert len(host.records) > 0


def test_a_stop_that_was_not_answered_in_time_is_no_refusal():
    """The unit may stop all the same."""

    def stop(name):
        raise SystemdError("systemctl stop was not answered.")

    unit = UnitOfProbe("web.service", SimpleNamespace(stop=stop, names=lambda names, option: names))
    with pytest.raises(ProbeError, match="was not answered") as error:
        unit.fail({})
    assert not isinstance(error.value, Refused)


@pytest.mark.parametrize("host", ["out"], indirect=True)
@pytest.mark.parametrize("call", ["fchmod", "ftruncate"])
def test_a_file_system_that_knows_no_modes_or_cuts_is_told(host, monkeypatch, call):
    def refuse(fd, value):
        raise PermissionError(1, "Operation not permitted")

    if call == "ftruncate":
        with pytest.raises(Killed):
            host.hold("A", store=DyingStore(host.state_dir, 1))
        host.switch.write_text(MARK[:5])
    monkeypatch.setattr(_health_actions.os, call, refuse)
    with pytest.raises(Refused, match="switch cannot be written: Operation not permitted"):
        host.hold("A")
    assert host.fails == (call == "ftruncate")


@pytest.mark.parametrize("host", ["out", "in"], indirect=True)
def test_the_meaning_of_the_file_is_that_of_the_record_while_it_is_held(host):
    kind = host.kind
    host.hold("A")
    host.kind = "in" if kind == "out" else "out"
    assert not host.hold("A") and not host.conflicts and host.answers[0]["condition"] == "held"
    assert host.see()["answer"]["condition"] == "held"
    host.release("A")
    assert not host.conflicts and not host.records and host.switch.exists() == (kind == "in")


def test_a_folder_that_is_not_there_is_told_before_anything_is_changed(tmp_path):
    host = Host(tmp_path, "out")
    host.switch = tmp_path / "nowhere" / "maintenance"
    with pytest.raises(ProbeError, match="there is no folder .*nowhere. Make the folder, or correct the option file"):
        host.hold("A")
    assert not host.records


@pytest.mark.parametrize("kind", ["out", "in"])
def test_a_link_that_leads_nowhere_is_no_file(tmp_path, kind):
    """Whoever answers the probe does not find it, so its being there does not tell that the answer fails."""
    host = Host(tmp_path, kind)
    host.switch.unlink(missing_ok=True)
    host.switch.symlink_to(tmp_path / "nowhere")
    with pytest.raises(ProbeError, match="switch is a link to something that is not there: remove the link, or correct the option file"):
        host.hold("A")
    assert not host.records and host.see()["answer"] is None and "a link to something" in host.see()["problem"]
    (tmp_path / "nowhere").touch()
    host.hold("A")
    assert host.answers[0]["condition"] == ("already_out" if kind == "out" else "held")


def test_a_responder_that_is_not_installed_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(_health_actions, "RESPONDER_FOLDER", str(tmp_path / "none"))
    monkeypatch.setattr(_health_actions, "RESPONDER_UNIT", str(tmp_path / "responder-%s.socket"))
    responder = File(_health_actions.responder_file(8079), "out", "responder")
    with pytest.raises(ProbeError, match="The responder is not installed here for port 8079: there is no folder .*none"):
        responder.check()
    (tmp_path / "none").mkdir()
    (tmp_path / "responder-8080.socket").touch()
    with pytest.raises(ProbeError, match="port 8079: there is no .*responder-8079.socket. .* or correct the option responder_port"):
        responder.check()
    (tmp_path / "responder-8079.socket").touch()
    responder.check()


def test_a_site_of_iis_is_for_windows_hosts_alone(host):
    with pytest.raises(ProbeError, match="iis_site is only possible on a Windows host"):
        _health_actions.action_from({"action": "iis_site", "iis_site": "Health"}, None, run_command)
    seen = host.see(action="iis_site", iis_site="Health")
    assert "iis_site is only possible on a Windows host" in seen["problem"] and seen["answer"] is None and not seen["idle"]


def test_a_command_that_fails_is_run_again_and_undone(tmp_path):
    host = Host(tmp_path, "command")
    (tmp_path / "block").mkdir()
    host.action = lambda: Command(f"sh -c 'touch {host.switch}; test ! -d {tmp_path}/block'", f"rm -f {host.switch}", run_command)
    with pytest.raises(Refused, match="ended with 1"):
        host.hold("A")
    assert len(host.records) == 1
    (tmp_path / "block").rmdir()
    assert host.hold("A") and host.answers[0]["condition"] == "held"
    host.release("A")
    assert not host.fails and not host.records


def test_a_record_without_the_command_that_lets_it_pass_again():
    """Without a word to split, shlex would read the standard input."""
    ran = []
    record = {"subject": {"action": "command", "on": "touch /out"}}
    action = action_of(record, None, lambda words, **_more: ran.append(words) or (125, "", "timeout: missing operand"))
    with pytest.raises(Refused, match="The command '' ended with 125: timeout: missing operand"):
        action.pass_again()
    assert ran == [["timeout", "-k", "1", "30"]]
