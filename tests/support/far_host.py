# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that goes away: a network namespace with an sshd and a metadata service of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.support.simulator import Simulator
from tests.support.site import descendants

SSHD = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin:/sbin")

NEEDS = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces are made by root alone: sudo make test"),
    pytest.mark.skipif(not (SSHD and shutil.which("ip")), reason="no sshd or ip: apt-get install openssh-server iproute2"),
]

# Of the range for benchmarks, one pair for each process.
NUMBER = os.getpid() % 60
NEAR, FAR = f"198.18.77.{4 * NUMBER + 1}", f"198.18.77.{4 * NUMBER + 2}"


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


class FarHost:
    """A host that can be silenced, frozen and rebooted; root alone can make one. ``variables`` are its own in an inventory."""

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
        self.variables = {
            "ansible_host": FAR,
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(folder / "user"),
            "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o IdentitiesOnly=yes",
        }
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

    @staticmethod
    def close_connections(folder):
        """End the connections that ansible-playbook left open, whose sockets lie in the folder."""
        for socket in folder.glob("*"):
            subprocess.run(["ssh", "-O", "exit", "-o", f"ControlPath={socket}", FAR], check=False, stderr=subprocess.DEVNULL)

    def close(self):
        self.signal(signal.SIGCONT)
        self.shut_down()
        self.simulator.close()
        for arguments in (["link", "del", self.link], ["netns", "del", self.name]):
            subprocess.run(["ip", *arguments], check=False)
