# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One guest: a booted Debian with an address, a disk and a network namespace of its own."""

from __future__ import annotations

import asyncio
import shutil
import time
import uuid
from pathlib import Path

from tests.bed import kernel
from tests.support.patience import patient

HERE = Path(__file__).resolve().parent
FILES = HERE / "files"
APPLICATION = [HERE.parent / "support" / name for name in ("backend.py", "probed.py")]

SSH_PORT = 22
WEB_PORT = 8080
# The same application.
SECOND_WEB_PORT = 8089  # not one that the pages of docs/ take
BALANCER_PORT = 80
# From which Azure probes. It lies in the bed's network, outside the guests.
PROBE_ADDRESS = "168.63.129.16"

CONFIGURATIONS = {"haproxy": "haproxy.cfg", "nginx": "nginx.conf"}

QUICK_END = 1.0
MOST_QUICK_ENDS = 3


class Guest:
    """What is known of a guest, as it stands in the bed's file too."""

    def __init__(self, bed, name, kind, number):
        self.bed = bed
        self.name = name
        self.kind = kind  # web or balancer
        # Names that Azure would give are not those of the inventory.
        self.vm = f"www_{number}" if kind == "web" else None
        self.address = bed.address(number + 10)
        self.namespace = f"{bed.namespace}-{name}"
        self.group = kernel.ControlGroup(f"{bed.namespace}/{name}")
        self.folder = bed.folder / "guests" / name

    @property
    def ports(self):
        return (SSH_PORT, WEB_PORT if self.kind == "web" else BALANCER_PORT)

    # What the supervisor does

    def make_network(self):
        lan, own = self.bed.namespace, self.namespace
        kernel.ip(
            f"netns add {own}",
            f"link add eth0 netns {own} type veth peer name {self.name} netns {lan}",
        )
        kernel.ip(
            f"address add {self.address}/24 dev eth0",
            "link set eth0 up",
            "link set lo up",
            f"route add {PROBE_ADDRESS}/32 dev eth0",
            namespace=own,
        )
        kernel.ip(f"link set {self.name} master bridge up", namespace=lan)

    def make_disk(self):
        """An empty layer over the image, with what tells this guest from the others."""
        upper = self.folder / "upper"
        etc = upper / "etc"
        wanted = etc / "systemd/system/multi-user.target.wants"
        wanted.mkdir(parents=True)
        (etc / "hostname").write_text(self.name + "\n")
        (etc / "machine-id").write_text(uuid.uuid4().hex + "\n")
        ssh = upper / "root/.ssh"
        ssh.mkdir(parents=True)
        (upper / "root").chmod(0o700)
        ssh.chmod(0o700)
        shutil.copy(self.bed.key.with_suffix(".pub"), ssh / "authorized_keys")
        if self.kind == "web":
            for unit in FILES.glob("*.service"):
                shutil.copy(unit, etc / "systemd/system")
            for enabled in ("web.service", "worker.service"):
                (wanted / enabled).symlink_to(f"/etc/systemd/system/{enabled}")
            programs = upper / "usr/local/lib/web"
            programs.mkdir(parents=True)
            for program in APPLICATION:
                shutil.copy(program, programs)
            # Where somebody may put the file "maintenance".
            (upper / "var/lib/web").mkdir(parents=True)
        else:
            program = self.bed.front.program
            (wanted / f"{program}.service").symlink_to(f"/lib/systemd/system/{program}.service")
            (etc / program).mkdir()
            (etc / program / CONFIGURATIONS[program]).write_text(self.balancer_configuration(program))
        kernel.mount_overlay(self.bed.image, self.folder)

    def balancer_configuration(self, program):
        text = (FILES / CONFIGURATIONS[program]).read_text()
        webs = [guest for guest in self.bed.guests if guest.kind == "web"]
        if program == "nginx":
            return text.replace("# SERVERS", "\n        ".join(f"server {guest.address}:{WEB_PORT};  # {guest.name}" for guest in webs))
        # Behind two balancers, new connections to the port are counted, so this one's health checks must not come there.
        port = f" port {SECOND_WEB_PORT}" if self.bed.front.level4 else ""
        return text + "".join(f"    server {guest.name} {guest.address}:{WEB_PORT} weight 100{port}\n" for guest in webs)

    def remove_disk(self):
        kernel.unmount_overlay(self.folder)
        for part in ("upper", "work", "root"):
            shutil.rmtree(self.folder / part)

    async def run(self):
        """Boot it, and boot it again whenever it ends: it asked for a reboot, or was killed."""
        quick_ends = 0
        while quick_ends < MOST_QUICK_ENDS:
            began = time.monotonic()
            with (self.folder / "console.log").open("ab") as console:
                process = await asyncio.create_subprocess_exec(
                    "systemd-nspawn",
                    "--quiet",
                    "--boot",
                    f"--directory={self.folder}/root",
                    f"--machine={self.namespace}",
                    f"--hostname={self.name}",
                    f"--network-namespace-path={kernel.NAMESPACES / self.namespace}",
                    "--register=no",
                    "--keep-unit",
                    "--resolv-conf=off",
                    "--timezone=off",
                    "--link-journal=no",
                    "--console=pipe",
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=console,
                    stderr=console,
                    preexec_fn=self.before_boot,
                )
                status = await process.wait()
            print(f"{self.name} ended with status {status} after {time.monotonic() - began:.1f} s", flush=True)
            quick_ends = quick_ends + 1 if time.monotonic() - began < QUICK_END else 0
            self.group.empty()
            self.resume()
            if self.wipe_wanted.exists():
                self.remove_disk()
                self.make_disk()
                self.wipe_wanted.unlink()
        raise OSError(f"{self.name} does not boot, see {self.folder}/console.log")

    def before_boot(self):
        kernel.die_with_parent()
        self.group.enter()

    async def wait_until_up(self, seconds):
        deadline = time.monotonic() + patient(seconds)
        for port in self.ports:
            while not await self.answers(port):
                if time.monotonic() > deadline:
                    raise OSError(f"{self.name} does not answer on port {port}, see {self.folder}/console.log")
                await asyncio.sleep(0.05)

    async def answers(self, port):
        try:
            dummy, writer = await asyncio.wait_for(asyncio.open_connection(self.address, port), 1)
        except OSError:  # which a time-out is, too
            return False
        writer.close()
        return True

    # What anybody may do to it, from any process

    @property
    def wipe_wanted(self):
        return self.folder / "wipe"

    def pause(self):
        self.group.freeze(True)

    def resume(self):
        self.group.freeze(False)

    def silence(self):
        """No frame in or out, and nobody is told."""
        kernel.ip(f"link set {self.name} down", namespace=self.bed.namespace)

    def unsilence(self):
        kernel.ip(f"link set {self.name} up", namespace=self.bed.namespace)

    def reboot(self):
        self.bed.ssh(self, "systemctl", "--no-block", "reboot")

    def reset(self):
        """Killed as when the power fails, and booted anew from its disk."""
        self.group.kill()

    def wipe(self):
        """Killed, and booted anew from an empty disk."""
        self.wipe_wanted.touch()
        self.group.kill()
