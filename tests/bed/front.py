# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What may stand in front of the web guests, and what each balancer says of its servers.

``haproxy``  a guest with HAProxy
``nginx``    a guest with nginx
``probe``    a balancer as Azure's is, outside the guests: it forwards connections, probes, and takes no orders
``azure``    the same, and the stand-in for Azure Resource Manager, whose administrative states it follows
``row``      ``probe`` for some clients and ``haproxy`` for others, with the same web guests behind both
"""

from __future__ import annotations

import asyncio
import csv
import datetime
import json
import re
import socket
import sys
from pathlib import Path
from typing import NamedTuple

from tests.bed import kernel
from tests.bed.guest import BALANCER_PORT, FILES, PROBE_ADDRESS, WEB_PORT
from tests.support.processes import find_program
from tests.support.simulator import AZURE_SCRIPT

FOLLOWER = Path(__file__).with_name("follower.py")
# With these the controller asks the stand-in for a token: AZURE_CLIENT_ID, AZURE_SECRET, AZURE_TENANT.
CLIENT, SECRET, TENANT = "app", "secret", "tenant"
BALANCER = "/subscriptions/bed/resourceGroups/bed/providers/Microsoft.Network/loadBalancers/front"
POOL = f"{BALANCER}/backendAddressPools/web"


class Front(NamedTuple):
    """Which parts one has. ``program`` is what the guest that balances runs, if there is one."""

    program: str | None = None
    level4: bool = False
    azure: bool = False


FRONTS = {
    "haproxy": Front("haproxy"),
    "nginx": Front("nginx"),
    "probe": Front(level4=True),
    "azure": Front(level4=True, azure=True),
    "row": Front("haproxy", level4=True),
}


class Level4:
    """A HAProxy in TCP mode in the bed's network, outside the guests."""

    def __init__(self, bed, socket_path):
        self.bed = bed
        self.socket = socket_path
        self.log_file = bed.folder / "front.log"
        self.address = bed.address(1)

    async def run(self, orders):
        """Until it ends. Without ``orders`` nobody can tell it anything."""
        webs = [guest for guest in self.bed.guests if guest.kind == "web"]
        configuration = self.bed.folder / "front.cfg"
        text = (
            (FILES / "level4.cfg")
            .read_text()
            .format(
                socket=self.socket,
                level="admin" if orders else "user",
                address=self.address,
                port=BALANCER_PORT,
                probe_address=PROBE_ADDRESS,
                servers="\n".join(f"    server {guest.name} {guest.address}:{WEB_PORT} track probe/{guest.name}" for guest in webs),
                probes="\n".join(f"    server {guest.name} {guest.address}:{WEB_PORT}" for guest in webs),
            )
        )
        configuration.write_text(text)
        program = find_program("haproxy")
        if not program:
            raise OSError("not installed: haproxy")
        with self.log_file.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                program, "-db", "-f", configuration, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=kernel.die_with_parent
            )
        raise OSError(f"the balancer in front ended with status {await process.wait()}, see {self.log_file}")

    def states(self):
        """A line for each server: its name and what the balancer says of it."""
        return [f"{row['svname']} {row['status'].lower()}" for row in self._stat() if row["svname"] not in ("FRONTEND", "BACKEND")]

    def is_ready(self):
        """Whether it has all servers up, by their probes."""
        try:
            return all(line.endswith(" up") for line in self.states())
        except OSError:
            return False

    def _stat(self):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5)
            client.connect(str(self.socket))
            client.sendall(b"show stat\n")
            text = b"".join(iter(lambda: client.recv(65536), b"")).decode()
        return [row for row in csv.DictReader(text.lstrip("# ").splitlines()) if row["pxname"] == "web"]

    def log(self):
        """What it logged, in order: connections that ended, and what it said of servers."""
        return [entry for entry in map(read_line, self.log_file.read_text().splitlines()) if entry]


def read_line(line):
    """An entry of the log of Level4; None for what is neither of a connection nor of a server's state."""
    when, _blank, text = line.partition(" ")
    try:
        moment = datetime.datetime.fromisoformat(when).timestamp()
    except ValueError:
        return None
    if text.startswith("{"):
        entry = json.loads(text)
        # -1 where there was none.
        return {"time": moment, **entry, "connect": entry["connect"] / 1000, "lasted": entry["lasted"] / 1000}
    if said := re.match(r"Server web/(\S+) (.*)", text):
        state = re.search(r"DRAIN|DOWN|UP|drain", said[2])
        return {"time": moment, "server": said[1], "state": state and state[0].upper(), "said": said[2]}
    return None


# Azure's management


def resources(guests):
    """The load balancer as Azure would tell it, with a pool of these guests."""
    # Both ways to say that the probe decides.
    members = [
        {"name": guest.vm, "properties": {"ipAddress": guest.address, **({"adminState": "None"} if number == 1 else {})}} for number, guest in enumerate(guests)
    ]
    pool = {"name": "web", "properties": {"loadBalancerBackendAddresses": members}}
    return [{"id": BALANCER, "name": "front", "tags": {"owner": "bed"}, "properties": {"backendAddressPools": [pool]}}]


async def run_stand_in(bed, network, started):
    """The stand-in, in the network of the controller; ``started`` gets its URL and the file of its certificate."""
    folder = bed.folder / "azure"
    folder.mkdir(exist_ok=True)
    (folder / "balancers.json").write_text(json.dumps(resources([guest for guest in bed.guests if guest.vm])))
    command = [sys.executable, AZURE_SCRIPT, "--load-balancers", folder / "balancers.json", "--client", f"{CLIENT}={SECRET}", "--tenant", TENANT]
    command += ["--certificate-dir", folder]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, preexec_fn=inside(network))
    if line := await process.stdout.readline():
        started.set_result(json.loads(line))
    raise OSError(f"the stand-in for Azure Resource Manager ended with status {await process.wait()}")


async def run_follower(bed, network, socket_path):
    """What makes the balancer follow the administrative states of the pool."""
    command = [sys.executable, FOLLOWER, bed.azure["url"], bed.azure["ca_file"], socket_path]
    command += [f"{guest.address}={guest.name}" for guest in bed.guests if guest.vm]
    with (bed.folder / "follower.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*map(str, command), stdout=log, preexec_fn=inside(network))
    raise OSError(f"the follower of the administrative states ended with status {await process.wait()}")


def inside(network):
    def prepare():
        kernel.die_with_parent()
        kernel.enter_network(network)

    return prepare
