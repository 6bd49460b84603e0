# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a pass costs for 5 to 500 hosts that are reached over ssh, with few forks and with many.

Each host is an address of the loopback network with an ssh connection of its own, all of them served by one sshd of
ours. So the modules run on the controller's own cores, too: a pass lasts longer here than on machines that are far
away. What the controller itself spends is counted apart, by a mark in the environment of its processes.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path

from tests.bench.stage import StageError
from tests.support import patience, playbook, sshd
from tests.support.checkout import BUILD, ROOT
from tests.support.haproxy import Haproxy
from tests.support.inventory import behind_haproxy, state_dir, write_inventory
from tests.support.ports import free_port
from tests.support.processes import cpu_seconds, kill, marked
from tests.support.simulator import Simulator

# Hosts and forks. Ansible has five forks, unless somebody sets more.
SIZES = ((5, 5), (20, 20), (100, 5), (100, 50))
MANY = ((500, 50),)
MODELLED = ((100, 5), (500, 50))
CONNECTIONS = Path(__file__).resolve().parent / "connections"
LISTENS = 16
FIRST, BALANCER = ipaddress.ip_address("127.0.1.1"), "127.0.9.1"
PASSES = 4
EVENTS = 3
PATIENCE = 600.0
NOTICE = timedelta(minutes=15)
# Where no metadata service is.
NOBODY = "http://127.0.0.1:9"
MARK = "BENCH_MARK"


class Hosts:
    """So many hosts, a balancer that knows them all, and their metadata services."""

    settings = {}
    """More of the playbook's environment."""

    def __init__(self, folder, count, forks):
        self.folder = folder
        self.forks = forks
        self.names = [f"vm{number:03}" for number in range(1, count + 1)]
        self.addresses = {name: str(FIRST + number) for number, name in enumerate(self.names)}
        self.mark = uuid.uuid4().hex
        self.closing = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as closing:
            self.folder.mkdir(parents=True)
            self._start_machines(closing)
            servers = "".join(f"  server {name} {address}:9\n" for name, address in self.addresses.items())
            self.haproxy = Haproxy(self.folder, f"backend web\n{servers}")
            closing.callback(self.haproxy.stop)
            closing.callback(self._end_all)
            self._write_inventory()
            self.configuration = playbook.write_configuration(self.folder)
            self.closing = closing.pop_all()
        return self

    def __exit__(self, *failure):
        self.closing.close()

    def _start_machines(self, closing):
        self.ports = self._start_sshds(closing)
        self.simulator = closing.enter_context(Simulator(self.names))

    def _start_sshds(self, closing):
        """The port of each address. One sshd listens on so many at most."""
        if not sshd.SSHD:
            raise StageError("no sshd: apt-get install openssh-server")
        sshd.make_keys(self.folder)
        addresses = [*self.addresses.values(), BALANCER]
        ports = {}
        for first in range(0, len(addresses), LISTENS):
            some, port = addresses[first : first + LISTENS], free_port()
            ports.update(dict.fromkeys(some, port))
            words = sshd.command(self.folder, *(f"{address}:{port}" for address in some), name=f"sshd_config-{port}", more="MaxStartups 1000\n")
            with (self.folder / "sshd.log").open("ab") as log:
                process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=log)
            closing.callback(process.wait)
            closing.callback(process.terminate)
        return ports

    def _write_inventory(self):
        hosts = {
            name: {
                "ansible_host": address,
                "ansible_port": self.ports[address],
                "graceful_azure_imds_url": self.simulator.urls[name],
                **state_dir(self.folder, name),
            }
            for name, address in self.addresses.items()
        }
        everybody = {**sshd.reached(self.folder), "ansible_python_interpreter": sys.executable}
        balancer = {"ansible_host": BALANCER, "ansible_port": self.ports[BALANCER], **state_dir(self.folder, "balancer")}
        duties = [behind_haproxy(self.haproxy.socket, ["balancer"])]
        write_inventory(self.folder / "inventory.json", hosts, duties, {"balancer": balancer}, everybody=everybody)

    @contextlib.contextmanager
    def watching(self):
        """A watch_events; yields the file with its journal."""
        journal = self.folder / "journal.jsonl"
        journal.unlink(missing_ok=True)
        short = Path("/tmp" if len(str(self.folder)) > 60 else self.folder)
        control = short / f"cp{os.getpid()}"
        settings = {MARK: self.mark, "ANSIBLE_FORKS": str(self.forks), "ANSIBLE_SSH_CONTROL_PATH_DIR": str(control), **self.settings}
        environment = playbook.surroundings(self.configuration, short, **settings)
        words = ["-e", "target=web", "-e", f"handle_events_journal={journal}"]
        command = [playbook.program(), "-i", self.folder / "inventory.json", "graceful.azure.watch_events", *words]
        with (self.folder / "playbook.log").open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=ROOT, start_new_session=True)
        try:
            yield journal
        finally:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience.patient(10))
            self._end_all()
            process.wait()
            shutil.rmtree(control, ignore_errors=True)

    def _marked(self):
        """The controller's processes, ssh's lasting connections among them."""
        return marked(f"{MARK}={self.mark}")

    def cpu(self):
        """CPU seconds that the controller's processes have spent, those that were waited for included."""
        return cpu_seconds(self._marked())

    def _end_all(self):
        for pid in self._marked():
            kill(pid)

    def announce(self, name):
        """A Reboot of that host."""
        self.simulator.post_event(EventType="Reboot", Resources=[name], NoticeSeconds=None)

    def is_out(self, name):
        return self.haproxy.flags("web", name)[0] != 0


def until(condition, what):
    try:
        patience.until(condition, PATIENCE, what, pause=0.02)
    except AssertionError as error:
        raise StageError(str(error)) from error


def lines(path):
    return path.read_text(encoding="utf-8").count("\n") if path.exists() else 0


def begins(line):
    """When a pass began to look, and what it waited for news."""
    hosts = json.loads(line)["world"]["hosts"].values()
    return min(host["began"] for host in hosts if host.get("began")), min(host.get("waited") or 0.0 for host in hosts)


def reboot_of(name):
    """The event, as the service shows it."""
    at = (datetime.now(timezone.utc) + NOTICE).strftime("%a, %d %b %Y %H:%M:%S GMT")
    event = {"EventId": str(uuid.uuid4()).upper(), "EventType": "Reboot", "ResourceType": "VirtualMachine", "Resources": [name], "EventStatus": "Scheduled"}
    return dict(event, NotBefore=at, Description="", EventSource="Platform", DurationInSeconds=-1)


def write_document(path, number, events):
    whole = path.with_suffix(".new")
    whole.write_text(json.dumps({"DocumentIncarnation": number, "Events": events}), encoding="utf-8")
    whole.replace(path)


class ModelHosts(Hosts):
    """The same, but what the hosts do costs next to nothing (model.py)."""

    def _start_machines(self, closing):
        self.document, self.posted = self.folder / "document.json", []
        write_document(self.document, 0, [])
        short = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="graceful-azure-")))
        self.settings = {"BENCH_MODEL": str(short / "socket"), "ANSIBLE_CONNECTION_PLUGINS": str(CONNECTIONS)}
        words = [sys.executable, "-m", "tests.bench.model", short / "socket", self.document]
        with (self.folder / "model.log").open("wb") as log:
            environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT), str(BUILD / "collections")]))
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT, env=environment)
        closing.callback(process.wait)
        closing.callback(process.terminate)
        until((short / "socket").exists, "the model answers")

    def _write_inventory(self):
        hosts = {
            name: {"ansible_host": name, "graceful_azure_resource_name": name, "graceful_azure_imds_url": NOBODY, **state_dir(self.folder, name)}
            for name in self.names
        }
        duties = [behind_haproxy(self.haproxy.socket, ["balancer"])]
        everybody = {"ansible_connection": "model_machine", "ansible_python_interpreter": sys.executable}
        write_inventory(self.folder / "inventory.json", hosts, duties, {"balancer": state_dir(self.folder, "balancer")}, everybody=everybody)

    def announce(self, name):
        self.posted.append(reboot_of(name))
        write_document(self.document, len(self.posted), self.posted)


def one_size(folder, count, forks, kind=Hosts):
    """Seconds of a pass less its pause, the controller's CPU seconds per host and look, seconds from visible to out."""
    with kind(folder, count, forks) as hosts, hosts.watching() as journal:
        # The first pass connects.
        until(lambda: lines(journal) >= 2, "two passes")
        with journal.open(encoding="utf-8") as stream:
            silent = [name for name, seen in json.loads(stream.readlines()[1])["world"]["hosts"].items() if not seen.get("reached")]
        if silent:
            raise StageError(f"not reached: {', '.join(silent)}")
        spent, first = hosts.cpu(), lines(journal)
        until(lambda: lines(journal) >= first + PASSES, f"{PASSES} passes")
        spent = (hosts.cpu() - spent) / PASSES / count
        passes = [begins(line) for line in journal.read_text(encoding="utf-8").splitlines()[1:]]
        whole = [later[0] - earlier[0] - earlier[1] for earlier, later in zip(passes, passes[1:])]
        reaction = []
        for number in range(EVENTS):
            name = hosts.names[number * (count - 1) // (EVENTS - 1)]
            hosts.announce(name)
            appeared = time.monotonic()
            until(lambda name=name: hosts.is_out(name), f"{name} out")
            reaction.append(time.monotonic() - appeared)
        return whole, spent, reaction


def scale(stage, sizes=SIZES, kind=Hosts, over="over ssh"):
    """A row per size."""
    rows = []
    for count, forks in sizes:
        whole, spent, reaction = one_size(stage.folder / f"{kind.__name__}-{count}-{forks}", count, forks, kind)
        rows.append(
            {
                "what": f"{count} hosts {over}, forks {forks}: a pass, less its pause; visible to out; controller's CPU per host and pass",
                "ours": f"{statistics.median(whole):.1f} s; {statistics.median(reaction):.1f} s ({min(reaction):.1f}-{max(reaction):.1f}); {spent:.2f} s",
                "peer": "limit 0.2 s of CPU",
                "ok": spent <= 0.2,
                "figures": {"hosts": count, "forks": forks, "passes": whole, "cpu_per_host": spent, "reaction": reaction},
            }
        )
    return rows


def many(stage):
    """More hosts than one machine can play without being the limit itself: what it costs the controller is told apart."""
    return scale(stage, MANY)


def modelled(stage):
    """What many hosts cost the controller alone: the hosts are a model."""
    return scale(stage, MODELLED, ModelHosts, "that are modelled")
