# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bed of booted guests does to a guest what it says, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.checkout import must_pass

if os.geteuid() != 0:
    pytest.skip("real hosts are booted by root alone: sudo make test", allow_module_level=True)

pytestmark = pytest.mark.timeout(300)  # the first time the image is built

ASK_SERVICE = """
import urllib.request
request = urllib.request.Request("http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01", headers={"Metadata": "true"})
print(urllib.request.urlopen(request, timeout=5).read().decode())
"""

ASK_CONTROL = """
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:8169/state", timeout=5).read().decode())
"""


class Bed:
    def __init__(self, folder):
        self.folder = folder

    def run(self, *words):
        options = ["--folder", str(self.folder), "--web", "1", "--balancers", "0"]
        return must_pass(sys.executable, "tests/bed/bed.py", *options, *words, timeout=200)

    @property
    def names(self):
        number = json.loads((self.folder / "bed.json").read_text())["number"]
        return f"bed{number}", f"198.18.{number}.11"

    def ssh(self, command, given=None):
        options = ["-i", self.folder / "key", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=1"]
        words = [self.folder / "ssh", *options, f"root@{self.names[1]}", command]
        done = subprocess.run(words, input=given, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=10, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    def until_ssh(self, command):
        """What the guest answers, as soon as it does."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if (answer := self.ssh(command)) is not None:
                return answer
            time.sleep(0.1)
        raise AssertionError(f"no answer to {command}")


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    bed = Bed(tmp_path_factory.mktemp("bed"))
    try:
        bed.run("up")
        yield bed
    finally:
        bed.run("down")


BOOT = "cat /proc/sys/kernel/random/boot_id"


def test_a_service_of_its_own(bed):
    bed.run("event", '{"EventType": "Freeze", "Resources": ["www_1"], "NoticeSeconds": null}')
    (event,) = json.loads(bed.ssh("python3 -", ASK_SERVICE))["Events"]
    assert (event["EventType"], event["Resources"]) == ("Freeze", ["www_1"])


def test_pause(bed):
    bed.run("pause", "web1")
    assert bed.ssh("true") is None
    bed.run("resume", "web1")
    assert bed.until_ssh("systemctl is-active web") == "active"


def test_silence(bed):
    boot = bed.ssh(BOOT)
    bed.run("silence", "web1")
    assert bed.ssh("true") is None
    bed.run("unsilence", "web1")
    assert bed.until_ssh(BOOT) == boot


@pytest.mark.parametrize(("act", "kept"), [("reboot", True), ("reset", True), ("wipe", False)])
def test_boots_again(bed, act, kept):
    boot = bed.until_ssh(f"touch /root/mine; sync; {BOOT}")
    bed.run(act, "web1")
    deadline = time.monotonic() + 20
    while bed.until_ssh(BOOT) == boot:
        assert time.monotonic() < deadline
    assert (bed.ssh("test -e /root/mine") is not None) == kept


def test_killed_supervisor(tmp_path):
    """Guests do not outlive it, and nothing that it left disturbs anybody."""
    bed = Bed(tmp_path / "bed")
    try:
        bed.run("up")
        name, dummy = bed.names
        os.kill(int((bed.folder / "supervisor.lock").read_text()), signal.SIGKILL)
        bed.run("down")
        assert not [path.name for path in Path("/run/netns").iterdir() if path.name.split("-")[0] == name]
        assert not list(Path("/sys/fs/cgroup").glob(f"*/{name}"))
        bed.run("up")
        assert bed.ssh("true") is not None
    finally:
        bed.run("down")


@pytest.mark.long
def test_the_role_of_the_simulator_makes_a_service(bed, tmp_path):
    """Beside the bed's own metadata service, at another port of the same address."""
    variables = {
        "imds_simulator_vms": {'100% $me "q"': "169.254.169.254:8171"},
        "imds_simulator_control": "127.0.0.1:8169",
        "imds_simulator_options": ["--time-scale", 0],
        "imds_simulator_on_start": "sh -c 'echo \"$0 %n\"' it",
        "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
    }
    (tmp_path / "play.yml").write_text(json.dumps([{"hosts": "web", "gather_facts": False, "roles": ["graceful.azure.imds_simulator"]}]))

    def role(**more):
        (tmp_path / "vars.json").write_text(json.dumps({**variables, **more}))
        told = must_pass(
            "ansible-playbook", "-i", str(bed.folder / "inventory.yml"), str(tmp_path / "play.yml"), "-e", f"@{tmp_path / 'vars.json'}", timeout=100
        )
        return "changed=0 " not in told

    def state():
        return bed.ssh("systemctl is-enabled imds_simulator; systemctl is-active imds_simulator; python3 -", ASK_CONTROL)

    assert role()
    enabled, active, told = state().split("\n", 2)
    assert (enabled, active) == ("enabled", "active")
    assert list(json.loads(told)["Vms"]) == ['100% $me "q"']
    assert not role()
    assert bed.ssh("systemctl kill --signal=KILL imds_simulator; sleep 0.5; systemctl is-active imds_simulator || true") == "failed"
    assert role(imds_simulator_scenario="redeploy")
    assert state().split("\n")[1] == "active"
    assert role(imds_simulator_state="absent")
    assert bed.ssh("systemctl cat imds_simulator || echo none") == "none"
    assert bed.ssh("ls /var/lib | grep -c imds_simulator || true") == "0"
    assert not role(imds_simulator_state="absent")
