# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""scheduled_events_wait on a host that goes away: a network namespace with an sshd and a metadata service of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.support.playbook import Playbook
from tests.support.simulator import Simulator
from tests.support.site import descendants

SSHD = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin:/sbin")

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces are made by root alone: sudo make test"),
    pytest.mark.skipif(not (SSHD and shutil.which("ip")), reason="no sshd or ip: apt-get install openssh-server iproute2"),
]

# Of the range for benchmarks, one pair for each process.
NUMBER = os.getpid() % 60
NEAR, FAR = f"198.18.77.{4 * NUMBER + 1}", f"198.18.77.{4 * NUMBER + 2}"


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


class Host:
    """A host that can be silenced, frozen and rebooted."""

    def __init__(self, folder):
        self.folder = folder
        self.name = f"ga-wait-{NUMBER}"
        self.link = f"gaw{NUMBER}"
        ip("netns", "add", self.name)
        ip("link", "add", self.link, "type", "veth", "peer", "name", "inner", "netns", self.name)
        ip("addr", "add", f"{NEAR}/30", "dev", self.link)
        ip("link", "set", self.link, "up")
        for arguments in (["link", "set", "lo", "up"], ["addr", "add", "169.254.169.254/32", "dev", "lo"], ["link", "set", "inner", "up"]):
            ip("-n", self.name, *arguments)
        ip("-n", self.name, "addr", "add", f"{FAR}/30", "dev", "inner")
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        (folder / "user.pub").rename(folder / "authorized_keys")
        (folder / "sshd_config").write_text(
            f"ListenAddress {FAR}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized_keys\nPidFile none\n"
            "StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nSubsystem sftp internal-sftp\n"
        )
        self.sshd = None
        self.boot()
        self.simulator = Simulator({"vm-1": "169.254.169.254:80"}, control=f"{FAR}:8000", prefix=["ip", "netns", "exec", self.name])

    def boot(self):
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        self.sshd = subprocess.Popen(
            ["ip", "netns", "exec", self.name, SSHD, "-D", "-e", "-f", self.folder / "sshd_config"], stderr=subprocess.DEVNULL
        )

    def signal(self, number):
        """To everything that runs there but the metadata service."""
        for pid in [self.sshd.pid, *descendants(self.sshd.pid)]:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def shut_down(self):
        self.signal(signal.SIGTERM)
        time.sleep(0.2)
        self.signal(signal.SIGKILL)
        self.sshd.wait()

    def silence(self):
        ip("link", "set", self.link, "down")

    def speak(self):
        ip("link", "set", self.link, "up")

    def go_through(self, event_id):
        """The event starts, and is over 2 s later; also while nobody can reach the host."""
        code = "import sys, urllib.request as u; u.urlopen(u.Request(sys.argv[1], method='POST'))"
        url = f"{self.simulator.control}/events/{event_id}/start"
        subprocess.run(["ip", "netns", "exec", self.name, sys.executable, "-c", code, url], check=True)

    def close(self):
        self.signal(signal.SIGCONT)
        self.shut_down()
        self.simulator.close()
        for arguments in (["link", "del", self.link], ["netns", "del", self.name]):
            subprocess.run(["ip", *arguments], check=False)


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    running = Host(tmp_path_factory.mktemp("host"))
    yield running
    running.close()


@pytest.fixture
def wait(tmp_path, host):
    """Starts the wait; a call of what it returns gives the task's result."""
    variables = {
        "ansible_host": FAR,
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(host.folder / "user"),
        "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o IdentitiesOnly=yes",
    }
    playbook = Playbook(tmp_path, {"far": variables})
    started = []

    def start(looks=3, **args):
        seen = len(host.simulator.requests())
        event_id = host.simulator.post_event(Resources=["vm-1"], NoticeSeconds=None, ImpactSeconds=1, SettleSeconds=1)
        tasks = [
            # Opens the connection that later tasks share, as any play does.
            {"name": "before", "ansible.builtin.ping": {}},
            {"name": "waited", "graceful.azure.scheduled_events_wait": dict({"event_ids": [event_id], "state": "absent"}, **args)},
        ]
        environment = {"ANSIBLE_SSH_CONTROL_PATH_DIR": str(tmp_path / "cp"), "ANSIBLE_TIMEOUT": "5"}
        process = playbook.start(tasks, environment=environment)
        started.append(process)
        deadline = time.monotonic() + 40
        while len(host.simulator.requests()) < seen + looks:
            assert time.monotonic() < deadline
            time.sleep(0.1)

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
    for socket in (tmp_path / "cp").glob("*"):
        subprocess.run(["ssh", "-O", "exit", "-o", f"ControlPath={socket}", FAR], check=False, stderr=subprocess.DEVNULL)


def ssh_below(process):
    """The ssh processes that a playbook has left, but those that keep a shared connection open."""
    found = []
    for pid in descendants(process.pid):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                command = file.read().split("\0")
        except FileNotFoundError:
            continue
        if command[0].endswith("ssh"):
            found.append(command)
    return found


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
    deadline = time.monotonic() + 15
    while any("scheduled_events_wait" in line for line in running_in(host)):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def running_in(host):
    pids = subprocess.run(["ip", "netns", "pids", host.name], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    for pid in pids:
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                yield file.read()
        except FileNotFoundError:
            continue
