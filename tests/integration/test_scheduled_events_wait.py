# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""scheduled_events_wait on a host that goes away."""

from __future__ import annotations

import signal
import subprocess
import time

import pytest

from tests.support.needs import FAR_HOST as NEEDS
from tests.support.patience import until
from tests.support.playbook import Playbook
from tests.support.processes import command_of, descendants
from tests.support.simulator import SHORT

pytestmark = NEEDS


@pytest.fixture
def wait(tmp_path, host):
    """Starts the wait; a call of what it returns gives the task's result."""
    playbook = Playbook(tmp_path, {"far": host.variables})
    started = []

    def start(looks=3, **args):
        seen = len(host.simulator.requests())
        event_id = host.simulator.post_event(Resources=["vm-1"], NoticeSeconds=None, **SHORT)
        tasks = [
            # Opens the connection that later tasks share, as any play does.
            {"name": "before", "ansible.builtin.ping": {}},
            {"name": "waited", "graceful.azure.scheduled_events_wait": dict({"event_ids": [event_id], "state": "absent"}, **args)},
        ]
        environment = {"ANSIBLE_SSH_CONTROL_PATH_DIR": str(tmp_path / "cp"), "ANSIBLE_TIMEOUT": "5"}
        process = playbook.start(tasks, environment=environment)
        started.append(process)
        until(lambda: len(host.simulator.requests()) >= seen + looks, 40)

        def finish():
            done = playbook.finish(process, 80)
            assert "Traceback" not in done.output
            return done

        finish.process = process
        finish.event_id = event_id
        return finish

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()
    host.close_connections(tmp_path / "cp")


def ssh_below(process):
    """The ssh processes that a playbook has left, but those that keep a shared connection open."""
    return [command for command in map(command_of, descendants(process.pid)) if command and command[0].endswith("ssh")]


def test_a_host_that_reboots(host, wait):
    finish = wait(timeout=60)
    host.shut_down()
    host.go_through(finish.event_id)
    time.sleep(8)
    host.boot()
    done = finish()
    assert done["waited"]["outcome"] == "absent"
    assert done["waited"]["elapsed"] < 50
    assert "the host cannot be reached" in done.output


# The wait is in test_scheduled_events_wait.py of the actions.
@pytest.mark.long
def test_a_host_that_is_silent(host, wait):
    finish = wait(timeout=60)
    host.silence()
    try:
        host.go_through(finish.event_id)
        time.sleep(12)
        below = ssh_below(finish.process)
    finally:
        host.speak()
    done = finish()
    assert done["waited"]["outcome"] == "absent"
    assert done["waited"]["elapsed"] < 50
    # One that is trying at most, none that hangs.
    assert len(below) <= 1


def test_a_host_that_freezes(host, wait):
    finish = wait(timeout=60)
    host.signal(signal.SIGSTOP)
    try:
        host.go_through(finish.event_id)
        time.sleep(8)
    finally:
        host.signal(signal.SIGCONT)
    done = finish()
    assert done["waited"]["outcome"] == "absent"
    assert done["waited"]["elapsed"] < 50


# The wait is in test_scheduled_events_wait.py of the actions.
@pytest.mark.long
def test_a_host_that_never_comes_back(host, wait):
    # So many looks are more than the first call takes.
    finish = wait(timeout=16, looks=9)
    host.silence()
    try:
        done = finish()
    finally:
        host.speak()
    waited = done["waited"]
    assert waited["failed"]
    assert not waited.get("unreachable")
    assert waited["outcome"] == "timeout"
    assert 16 <= waited["elapsed"] < 50
    assert waited["events"][0]["event_id"] == finish.event_id
    assert waited["resource_name"] == "vm-1"
    assert "Timed out after" in waited["msg"] and "The last error" in waited["msg"]
    # What ran on the host has ended by itself.
    until(lambda: not any("scheduled_events_wait" in line for line in running_in(host)), 15, pause=0.2)


def running_in(host):
    pids = subprocess.run(["ip", "netns", "pids", host.name], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    return [" ".join(command_of(pid)) for pid in pids]
