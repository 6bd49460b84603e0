# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that goes away: a network namespace with an sshd and a metadata service of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

from tests.bed.kernel import ip
from tests.support import sshd
from tests.support.patience import until
from tests.support.ports import accepts
from tests.support.processes import kill_all
from tests.support.simulator import Simulator

# How many there may be at once: each has two addresses of the range for benchmarks.
NUMBERS = 60


class FarHost:
    """A host that can be silenced, frozen and rebooted; root alone can make one. ``variables`` are its own in an inventory."""

    def __init__(self, folder):
        self.folder = folder
        number = self._begin()
        near, self.address = f"198.18.77.{4 * number + 1}", f"198.18.77.{4 * number + 2}"
        ip(f"link add {self.link} type veth peer name inner netns {self.name}", f"addr add {near}/30 dev {self.link}", f"link set {self.link} up")
        inside = ("link set lo up", "addr add 169.254.169.254/32 dev lo", "link set inner up", f"addr add {self.address}/30 dev inner")
        ip(*inside, namespace=self.name)
        sshd.make_keys(folder)
        self.variables = {"ansible_host": self.address, "ansible_user": "root", **sshd.reached(folder)}
        self.sshd = None
        self.boot()
        self.simulator = Simulator({"vm-1": "169.254.169.254:80"}, control=f"{self.address}:8000", prefix=["ip", "netns", "exec", self.name])
        until(lambda: accepts(22, self.address), 20, "its sshd listens")

    def _begin(self):
        """Makes the first namespace whose number nobody has: another test, or one that was killed."""
        for number in range(NUMBERS):
            self.name, self.link = f"ga-wait-{number}", f"gaw{number}"
            if subprocess.run(["ip", "netns", "add", self.name], check=False, stderr=subprocess.DEVNULL).returncode == 0:
                return number
        raise OSError(f"all {NUMBERS} names of hosts are taken: see ip netns")

    def boot(self):
        self.sshd = subprocess.Popen(["ip", "netns", "exec", self.name, *sshd.command(self.folder, self.address)], stderr=subprocess.DEVNULL)

    def signal(self, number):
        """To everything that runs there but the metadata service."""
        kill_all(self.sshd.pid, number)

    def shut_down(self):
        self.signal(signal.SIGTERM)
        time.sleep(0.2)
        self.signal(signal.SIGKILL)
        self.sshd.wait()

    def silence(self):
        ip(f"link set {self.link} down")

    def speak(self):
        ip(f"link set {self.link} up")

    def go_through(self, event_id):
        """The event starts, and is over 2 s later; also while nobody can reach the host."""
        code = "import sys, urllib.request as u; u.urlopen(u.Request(sys.argv[1], method='POST'))"
        url = f"{self.simulator.control}/events/{event_id}/start"
        subprocess.run(["ip", "netns", "exec", self.name, sys.executable, "-c", code, url], check=True)

    @staticmethod
    def close_connections(folder):
        """End the connections that ansible-playbook left open, whose sockets lie in the folder."""
        for path in folder.glob("*"):
            subprocess.run(["ssh", "-O", "exit", "-o", f"ControlPath={path}", "any"], check=False, stderr=subprocess.DEVNULL)

    def close(self):
        self.signal(signal.SIGCONT)
        self.shut_down()
        self.simulator.close()
        for arguments in (["link", "del", self.link], ["netns", "del", self.name]):
            subprocess.run(["ip", *arguments], check=False)
