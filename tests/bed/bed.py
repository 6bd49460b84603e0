# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A bed of real hosts on one machine: booted guests with systemd and sshd, a balancer before them, and a metadata service.

Needs root. Everything lies in one folder (--folder), and in network namespaces whose names begin with that bed's own:
nothing of it is seen in the machine's own network. Several beds may be up at once. A supervisor keeps the bed up until
``down``, until a guest or the simulator fails, or until its time (--lifetime) is over, and takes everything down then.

    bed.py up                 builds the image when needed, boots, and returns when every guest answers
    bed.py down               takes everything down; none up is no mistake
    bed.py reboot NAME        as the guest itself would
    bed.py reset NAME         as when the power fails
    bed.py wipe NAME          the same, from an empty disk
    bed.py event JSON         a new event, the body of the simulator's POST /events; prints the answer
    bed.py events             all events so far
    bed.py event-start ID     moves an event on now; also event-complete and event-cancel
    bed.py impact             reads an event, and does to its VMs what Azure would; the simulator calls this
    bed.py load-start         a steady load from outside on what stands in front
    bed.py load-stop          ends it and prints the counts; see summary() in tests/support/load.py
    bed.py front-state        what the balancer itself says of each server
    bed.py front-log          what a balancer outside the guests has logged: connections, and states of servers

The folder's inventory.yml reaches the guests over ssh. What stands in front (--front of up) is one of tests/bed/front.py.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bed import doors, front, image, kernel  # noqa: E402
from tests.bed.guest import BALANCER_PORT, FILES, PROBE_ADDRESS, Guest  # noqa: E402
from tests.support import load, simulator  # noqa: E402
from tests.support.patience import patient  # noqa: E402
from tests.support.processes import command_of  # noqa: E402

MOVES = ("start", "complete", "cancel")

LOCKS = Path("/run/graceful-azure-beds")
MOST_BEDS = 100

UP_SECONDS = 60
FREEZE_SECONDS = 6
SILENT_SECONDS = 8
LOAD_RATE = 100
LOAD_LIMIT = 5
# Azure has no way to end a connection, and while the administrative state is Down the application does not know. So with the front "azure",
# clients do not keep a connection for ever, or no host would ever be idle.
AZURE_KEPT_SECONDS = 5


class Mistake(Exception):
    """What the caller should be told, without a traceback."""


class Bed:
    """One bed: its folder, its number on this machine, its guests."""

    def __init__(self, folder):
        self.folder = folder
        self.key = folder / "key"
        self.file = folder / "bed.json"
        self.lock = folder / "supervisor.lock"
        self.number = None
        self.image = None
        self.control = None
        self.azure = None
        self.guests = []
        self.doors = []

    @property
    def namespace(self):
        """The name of the network that all guests are in, and the beginning of everything else's name."""
        return f"bed{self.number}"

    def address(self, host):
        # 198.18.0.0/15 is set aside for benchmarks: no real network uses it. Each bed has its own part since ssh keeps
        # open connections by address.
        return f"198.18.{self.number}.{host}"

    def set(self, number, kinds, front_name, control=None, azure=None):
        self.number = number
        self.front_name = front_name
        self.front = front.FRONTS[front_name]
        self.level4 = front.Level4(self, LOCKS / f"{number}.sock") if self.front.level4 else None
        self.control = control
        self.azure = azure
        self.guests = [Guest(self, name, kind, place) for place, (name, kind) in enumerate(kinds.items(), 1)]

    def save(self):
        content = {
            "number": self.number,
            "front": self.front_name,
            "control": self.control,
            "azure": self.azure,
            "guests": {guest.name: guest.kind for guest in self.guests},
        }
        unfinished = self.file.with_suffix(".new")
        unfinished.write_text(json.dumps(content))
        unfinished.replace(self.file)

    def load(self):
        try:
            content = json.loads(self.file.read_text())
        except FileNotFoundError:
            raise Mistake(f"no bed is up in {self.folder}{self.last_words()}") from None
        self.set(content["number"], content["guests"], content["front"], content["control"], content["azure"])

    def last_words(self):
        """The end of the supervisor's log, which tells why it ended."""
        log = self.folder / "supervisor.log"
        words = log.read_text()[-1000:] if log.exists() else ""
        return words and f", its log ends with: {words}"

    def guest(self, name):
        for guest in self.guests:
            if name in (guest.name, guest.vm):
                return guest
        raise Mistake(f"no guest is named {name}, there are: {', '.join(guest.name for guest in self.guests)}")

    def front_addresses(self):
        """Where clients come to, on BALANCER_PORT."""
        outside = [self.level4.address] if self.level4 else []
        return outside + [guest.address for guest in self.guests if guest.kind == "balancer"][:1]

    def supervisor(self):
        """The process id of the supervisor, None when there is none."""
        with contextlib.suppress(FileNotFoundError), self.lock.open() as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                while not (written := stream.read()):
                    time.sleep(0.01)
                return int(written)
        return None

    # Reaching the guests

    def write_access(self):
        """The key, a command that reaches the guests' network, and the inventory."""
        if not self.key.exists():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bed", "-f", self.key], check=True)
        command = self.folder / "ssh"
        command.write_text(f'#!/bin/sh\nexec nsenter --net={kernel.NAMESPACES / self.namespace} ssh "$@"\n')
        command.chmod(0o755)
        inventory = {
            "all": {
                "vars": {
                    "ansible_user": "root",
                    "ansible_python_interpreter": "/usr/bin/python3",
                    "ansible_ssh_executable": str(command),
                    "ansible_ssh_private_key_file": str(self.key),
                    "ansible_ssh_common_args": " ".join(self.ssh_options),
                    # Everything over ssh itself: sftp and scp would not go through the command above.
                    "ansible_ssh_transfer_method": "piped",
                },
                "children": {
                    "web": {
                        "hosts": {
                            guest.name: {"ansible_host": guest.address, "graceful_azure_resource_name": guest.vm}
                            for guest in self.guests
                            if guest.kind == "web"
                        }
                    },
                    "balancers": {"hosts": {guest.name: {"ansible_host": guest.address} for guest in self.guests if guest.kind == "balancer"}},
                },
            }
        }
        if self.azure:
            # Options of the duty.
            options = {"pool": front.POOL, "arm_url": self.azure["url"], "login_url": self.azure["url"], "ca_file": self.azure["ca_file"]}
            inventory["all"]["children"]["web"]["vars"] = {"bed_azure": options}
        # JSON is YAML.
        (self.folder / "inventory.yml").write_text(json.dumps(inventory, indent=2) + "\n")

    ssh_options = ("-o StrictHostKeyChecking=no", "-o UserKnownHostsFile=/dev/null", "-o LogLevel=ERROR")

    def ssh(self, guest, *command):
        """Run a command on a guest. Its status is not asked for: the connection may end with the guest."""
        subprocess.run(self._reach(guest, *command), check=False)

    def ask_guest(self, guest, *command, given=None):
        """What a command on a guest says on standard output."""
        return subprocess.run(self._reach(guest, *command), input=given, stdout=subprocess.PIPE, text=True, check=True).stdout

    def _reach(self, guest, *command):
        """The words of a command that reaches a guest."""
        return [self.folder / "ssh", "-i", self.key, *" ".join(self.ssh_options).split(), f"root@{guest.address}", *command]

    def ask_simulator(self, path, body=None):
        """The answer to a GET, or to a POST of a text."""
        kernel.enter_network(self.namespace)
        method, data = ("GET", None) if body is None else ("POST", body.encode())
        return json.dumps(simulator.Control(self.control).ask(method, path, data))


# The supervisor


def take_number():
    """The first number that no other bed on this machine has, and the lock that keeps it."""
    LOCKS.mkdir(exist_ok=True)
    for number in range(1, MOST_BEDS + 1):
        lock = (LOCKS / str(number)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return number, lock
        except BlockingIOError:
            lock.close()
    raise Mistake(f"{MOST_BEDS} beds are up on this machine")


def clear(bed):
    """Remove everything outside the folder that bears this bed's number, whoever left it there."""
    group = kernel.ControlGroup(bed.namespace)
    group.empty()
    group.remove()
    names = [path.name for path in kernel.NAMESPACES.glob(f"{bed.namespace}-*")]
    kernel.remove_namespaces([*names, bed.namespace])
    (LOCKS / f"{bed.number}.sock").unlink(missing_ok=True)


def clear_remains(bed):
    """What a supervisor that was killed left, if no other bed has its number by now."""
    with contextlib.suppress(Mistake):
        bed.load()
        with (LOCKS / str(bed.number)).open("w") as lock, contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            clear(bed)
        bed.file.unlink()


async def supervise(bed, kinds, front_name, lifetime):
    with contextlib.ExitStack() as stack:
        lock = stack.enter_context(bed.lock.open("a"))
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        number, number_lock = take_number()
        stack.enter_context(number_lock)
        bed.set(number, kinds, front_name)
        clear(bed)
        stack.callback(bed.file.unlink, missing_ok=True)
        stack.callback(clear, bed)

        stop = asyncio.Event()
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
        keeping = asyncio.create_task(keep(bed))
        await asyncio.wait({keeping, asyncio.create_task(stop.wait())}, timeout=lifetime, return_when=asyncio.FIRST_COMPLETED)
        if not keeping.cancel():
            try:
                keeping.result()
            except ExceptionGroup as group:
                raise Mistake("; ".join(map(str, group.exceptions))) from group


async def keep(bed):
    """Everything up, until something fails or this task is cancelled."""
    lan = bed.namespace
    kernel.ip(f"netns add {lan}")
    kernel.ip(
        "link set lo up",
        "link add bridge type bridge",
        f"address add {bed.address(1)}/24 dev bridge",
        f"address add {PROBE_ADDRESS}/32 dev bridge",
        "link set bridge up",
        namespace=lan,
    )
    for guest in bed.guests:
        guest.make_network()
    # Not before the namespaces have been made: their names are mounts, too.
    kernel.own_mounts()
    outside = kernel.own_network()
    kernel.enter_network(lan)
    bed.write_access()
    shutil.rmtree(bed.folder / "guests", ignore_errors=True)
    for guest in bed.guests:
        guest.make_disk()
        guest.group.make()

    async with asyncio.TaskGroup() as group:
        for guest in bed.guests:
            group.create_task(guest.run())
        group.create_task(run_simulator(bed))
        if bed.front.azure:
            started = asyncio.get_running_loop().create_future()
            group.create_task(front.run_stand_in(bed, outside, started))
            bed.azure = await started
            bed.write_access()
        for guest in bed.guests:
            await guest.wait_until_up(UP_SECONDS)
        if bed.level4:
            group.create_task(bed.level4.run(orders=bed.front.azure))
            while not bed.level4.is_ready():
                await asyncio.sleep(0.05)
        if bed.front.azure:
            group.create_task(front.run_follower(bed, outside, bed.level4.socket))
        while bed.control is None:
            await asyncio.sleep(0.02)
        bed.save()


async def run_simulator(bed):
    vms = [guest for guest in bed.guests if guest.vm]
    impact_command = f"{sys.executable} {Path(__file__).resolve()} --folder {bed.folder} impact"
    command = simulator.command([guest.vm for guest in vms], on_start=impact_command)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, preexec_fn=kernel.die_with_parent)
    if line := await process.stdout.readline():
        addresses = json.loads(line)
        for guest in vms:
            bed.doors.append(await doors.open_door(guest.namespace, urllib.parse.urlsplit(addresses["vms"][guest.vm]).port))
        bed.control = addresses["control"]
    raise OSError(f"the simulator ended with status {await process.wait()}")


# Commands


def up(bed, arguments):
    if os.geteuid() != 0:
        raise Mistake("guests are booted by root alone")
    if missing := kernel.missing_programs():
        raise Mistake(f"not installed: {', '.join(missing)} (tests/setup.sh test installs what is needed)")
    if bed.supervisor():
        raise Mistake(f"a bed is up in {bed.folder}")
    image.image(arguments.images, arguments.packages.split())
    bed.folder.mkdir(parents=True, exist_ok=True)
    log = bed.folder / "supervisor.log"
    bed.file.unlink(missing_ok=True)
    command = [sys.executable, __file__]
    for option in ("folder", "images", "packages", "web", "balancers", "front", "lifetime"):
        command += [f"--{option}", str(getattr(arguments, option))]
    command.append("supervise")
    with log.open("w") as stream:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True)
    try:
        while not bed.file.exists():
            if process.poll() is not None:
                raise Mistake(f"not up{bed.last_words()}")
            time.sleep(0.05)
    except BaseException:
        process.terminate()
        raise


def down(bed):
    pid = bed.supervisor()
    if pid is None:
        clear_remains(bed)
        return
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + patient(60)
    while bed.supervisor() == pid:
        if time.monotonic() > deadline:
            raise Mistake(f"the supervisor does not end, see {bed.folder}/supervisor.log")
        time.sleep(0.05)


def impact(bed, event):
    """What Azure does to the VMs of an event, all at once."""
    # A Spot VM that was evicted is off until somebody starts it. Here that is at once.
    acts = {"Freeze": freeze, "Reboot": Guest.reboot, "Redeploy": redeploy, "Preempt": Guest.reset}
    # Azure has no type of its own for it.
    act = reimage if event["Description"] == "reimage" else acts[event["EventType"]]
    threads = [threading.Thread(target=act, args=(bed.guest(name),)) for name in event["Resources"]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def freeze(guest):
    guest.pause()
    time.sleep(FREEZE_SECONDS)
    guest.resume()


def redeploy(guest):
    guest.silence()
    time.sleep(SILENT_SECONDS)
    guest.reset()
    guest.unsilence()


def reimage(guest):
    guest.silence()
    time.sleep(SILENT_SECONDS)
    guest.wipe()
    guest.unsilence()


def load_start(bed, rate, long_every, kept_seconds):
    """One process for each address that clients come to, with its share of the rate."""
    kernel.enter_network(bed.namespace)
    if kept_seconds is None and bed.front.azure:
        kept_seconds = AZURE_KEPT_SECONDS
    for old in bed.folder.glob("load*.csv"):
        old.unlink()
    addresses = bed.front_addresses()
    pids = []
    for number, address in enumerate(addresses, 1):
        records = load_records(bed, number)
        command = load.command(BALANCER_PORT, rate / len(addresses), LOAD_LIMIT, records, address, long_every=long_every, kept_seconds=kept_seconds)
        with (bed.folder / f"load-{number}.log").open("w") as log:
            pids.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True).pid)
    (bed.folder / "load.pid").write_text(" ".join(map(str, pids)))


def load_records(bed, number):
    return bed.folder / ("load.csv" if number == 1 else f"load-{number}.csv")


def load_stop(bed):
    """The counts of the load, and each request that failed."""
    pids = [int(pid) for pid in (bed.folder / "load.pid").read_text().split()]
    for pid in pids:
        if load.__file__ not in command_of(pid):
            raise Mistake("the load has ended before its time")
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    for pid in pids:
        while command_of(pid):
            time.sleep(0.05)
    rows = [row for number in range(1, len(pids) + 1) for row in load.read_requests(load_records(bed, number))]
    return load.summary(rows)


def front_state(bed):
    """What each balancer in front says of its servers, a line for each."""
    lines = []
    if bed.level4:
        lines += [f"level4 {line}" for line in bed.level4.states()]
    if bed.azure:
        (balancer,) = ask_stand_in(bed, "load-balancers")
        lines.append(f"tags {json.dumps(balancer['tags'], sort_keys=True)}")
        (pool,) = balancer["properties"]["backendAddressPools"]
        lines += [f"pool {json.dumps(member, sort_keys=True)}" for member in pool["properties"]["loadBalancerBackendAddresses"]]
    for guest in bed.guests:
        if guest.kind == "balancer" and bed.front.program == "nginx":
            lines += [f"{guest.name} {line}" for line in bed.ask_guest(guest, "nginx", "-T", "2>/dev/null").splitlines()]
        elif guest.kind == "balancer":
            said = bed.ask_guest(guest, "python3", "-", given=(FILES / "servers.py").read_text())
            lines += [f"{guest.name} {line}" for line in said.splitlines()]
    return lines


def ask_stand_in(bed, what):
    context = ssl.create_default_context(cafile=bed.azure["ca_file"])
    with urllib.request.urlopen(f"{bed.azure['url']}/control/{what}", context=context, timeout=10) as answer:
        return json.load(answer)


def front_log(bed):
    if not bed.level4:
        raise Mistake("a balancer on a guest keeps no log: see the column backend in load.csv")
    followed = bed.folder / "follower.log"
    told = [json.loads(line) for line in followed.read_text().splitlines()] if bed.azure else []
    return sorted(bed.level4.log() + told, key=lambda entry: entry["time"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "build/bed/default", help="where this bed's files lie")
    parser.add_argument("--images", type=Path, default=ROOT / "build/bed", help="where the image lies")
    parser.add_argument("--packages", default="", help="more Debian packages for the guests, with blanks between")
    parser.add_argument("--web", type=int, default=3, help="how many web servers")
    parser.add_argument("--front", choices=front.FRONTS, default="haproxy", help="what stands in front of the web servers")
    parser.add_argument("--balancers", type=int, help="how many guests balance (one, or none where what stands in front is no guest)")
    parser.add_argument("--lifetime", type=float, default=3600, help="seconds after which it is taken down by itself")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in ("up", "supervise", "down", "events", "impact", "load-stop", "front-state", "front-log"):
        commands.add_parser(name)
    starting = commands.add_parser("load-start")
    starting.add_argument("--rate", type=float, default=LOAD_RATE, help="requests a second")
    starting.add_argument("--long-every", type=int, default=0, help="every so many requests, one asks for the long answer; 0: none")
    starting.add_argument("--kept-seconds", type=float, help="clients do not use a connection again after that time")
    for name in ("reboot", "reset", "wipe"):
        commands.add_parser(name).add_argument("name")
    commands.add_parser("event").add_argument("json")
    for move in MOVES:
        commands.add_parser(f"event-{move}").add_argument("id")
    arguments = parser.parse_args()
    if arguments.balancers is None:
        arguments.balancers = 1 if front.FRONTS[arguments.front].program else 0
    bed = Bed(arguments.folder.resolve())
    try:
        run(bed, arguments)
    except (Mistake, OSError, subprocess.CalledProcessError, simulator.SimulatorError) as mistake:
        sys.exit(f"bed: {mistake}")


def run(bed, arguments):
    command = arguments.command
    if command == "up":
        up(bed, arguments)
        return
    if command == "down":
        down(bed)
        return
    if command == "supervise":
        kinds = {f"web{number}": "web" for number in range(1, arguments.web + 1)}
        kinds.update({f"lb{number}": "balancer" for number in range(1, arguments.balancers + 1)})
        bed.image = image.image(arguments.images, arguments.packages.split())
        asyncio.run(supervise(bed, kinds, arguments.front, arguments.lifetime))
        return
    bed.load()
    if command == "event":
        print(bed.ask_simulator("/events", arguments.json))
    elif command == "events":
        print(bed.ask_simulator("/events"))
    elif command == "impact":
        impact(bed, json.load(sys.stdin))
    elif command == "load-start":
        load_start(bed, arguments.rate, arguments.long_every, arguments.kept_seconds)
    elif command == "load-stop":
        print(json.dumps(load_stop(bed)))
    elif command == "front-state":
        print(json.dumps(front_state(bed)))
    elif command == "front-log":
        print(json.dumps(front_log(bed)))
    elif command.startswith("event-"):
        print(bed.ask_simulator(f"/events/{urllib.parse.quote(arguments.id, safe='')}/{command.partition('-')[2]}", ""))
    else:
        getattr(bed.guest(arguments.name), command)()


if __name__ == "__main__":
    main()
