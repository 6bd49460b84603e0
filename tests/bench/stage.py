# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The benchmark's stage: the demo's bed with a load, events at will, and playbooks with what they cost."""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path

from tests.demo import balancer, playbook, records
from tests.demo.bed import TICK, Bed, start_of
from tests.demo.schedule import HOSTS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PATIENCE = 120.0


class StageError(Exception):
    """Something did not come about; the text says what."""


def cpu_of(pid):
    """CPU seconds of a process, of its living offspring and of those that were waited for."""
    ticks = os.sysconf("SC_CLK_TCK")
    fields = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                words = Path("/proc", entry, "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            fields[int(entry)] = words
    total = 0
    wanted = [pid]
    while wanted:
        one = wanted.pop()
        if one in fields:
            total += sum(int(word) for word in fields[one][11:15])
            wanted.extend(child for child, words in fields.items() if int(words[1]) == one)
    return total / ticks


class Stage:
    """The bed, and what happened on it since the last call of begin()."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.bed = Bed(folder, HOSTS)
        self.events = []
        self.impacts = {}
        self.hit = set()
        self.runs = 0
        self.requests = []

    def __enter__(self):
        self.bed.start()
        self.bed.start_simulator()
        self.inventory = playbook.write_inventory(self.folder, self.bed)
        playbook.write_configuration(self.folder)
        return self

    def __exit__(self, *failure):
        self.bed.close()

    # What happens

    def begin(self):
        """A new record with a new load."""
        self.bed.await_servers()
        self.bed.forget()
        self.bed.observe()
        self.runs += 1
        self.bed.start_load("load-{0}".format(self.runs))

    def end(self):
        """The requests since begin()."""
        self.requests = self.bed.stop_load()
        return self.requests

    def announce(self, event_type, hosts, impact=5.0, notice=900.0, settle=2.0):
        told = self.bed.ask_simulator(
            "/events",
            {"EventType": event_type, "Resources": list(hosts), "NoticeSeconds": notice, "ImpactSeconds": impact, "SettleSeconds": settle},
        )
        self.impacts[told["EventId"]] = impact
        return told["EventId"]

    def cancel(self, event_id):
        self.bed.ask_simulator("/events/{0}/cancel".format(event_id), method="POST")

    def event(self, event_id):
        return next(event for event in self.bed.ask_simulator("/events") if event["EventId"] == event_id)

    def status(self, event_id):
        return self.event(event_id)["History"][-1]["Status"]

    def is_over(self, event_id):
        return self.status(event_id) in ("Completed", "Cancelled")

    def visible(self, event_id):
        return records.history_time(self.event(event_id), "Scheduled", "Started")

    def approved(self, event_id):
        approvals = self.event(event_id)["Approvals"]
        return min(approval["Time"] for approval in approvals) if approvals else None

    def out(self, host, since):
        """When the host was first seen out of the balancer since a moment; None when it was not."""
        return next((moment for moment, servers in self.bed.states if moment >= since and servers[host].admin != "ready"), None)

    def admin(self, host):
        return self.bed.observe()[host].admin

    def tick(self):
        self.bed.tick()
        for event in self.bed.ask_simulator("/events"):
            if event["EventId"] not in self.hit and records.history_time(event, "Started") is not None:
                self.hit.add(event["EventId"])
                for host in event["Resources"]:
                    self.bed.hit(event["EventType"], host, self.impacts[event["EventId"]])
        time.sleep(TICK)

    def until(self, condition, what, seconds=PATIENCE):
        """Lets time pass until the condition holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise StageError("{0}: not within {1:.0f} s".format(what, seconds))
            self.tick()

    def rest(self, seconds):
        deadline = time.monotonic() + seconds
        self.until(lambda: time.monotonic() >= deadline, "rest", seconds + 10)

    def set_server(self, host, words):
        balancer.ask(self.bed.socket, "set server {0}/{1} {2}".format(balancer.BACKEND, host, words))

    # Playbooks

    def play(self, name, *arguments, **environment):
        """Starts ansible-playbook; name is a playbook of the collection or a path. The process."""
        surroundings = playbook.surroundings(self.folder, self.bed.socket_folder)
        collections = [ROOT / "build" / "collections", ROOT / "build" / "bench" / "collections"]
        surroundings["ANSIBLE_COLLECTIONS_PATH"] = os.pathsep.join(str(path) for path in collections)
        surroundings.update(environment)
        program = Path(sys.executable).with_name("ansible-playbook")
        return self.bed.processes.start("playbook", program, "-i", self.inventory, name, "-e", "target=web", *arguments, env=surroundings, cwd=str(ROOT))

    def stop(self, process, number=None):
        return self.bed.processes.stop(process, number)

    def finish(self, process, seconds=PATIENCE):
        """Waits for a playbook; its exit code."""
        self.until(lambda: process.poll() is not None, "the end of {0}".format(process.args[-1]), seconds)
        return self.stop(process)

    def clear(self):
        """Whatever was left: no events, every server ready and alive, no holds."""
        for event in self.bed.ask_simulator("/events"):
            status = event["History"][-1]["Status"]
            if status == "Scheduled":
                self.cancel(event["EventId"])
            elif status == "Started":
                self.bed.ask_simulator("/events/{0}/complete".format(event["EventId"]), method="POST")
        self.until(lambda: not self.bed.due, "the end of the impacts")
        for host in HOSTS:
            self.set_server(host, "state ready")
        for record in (self.folder / "state").glob("*/*.json"):
            record.unlink()
        if not self.bed.await_servers():
            raise StageError("not every server came back")


def middle(values):
    return statistics.median(values)


__all__ = ["HERE", "ROOT", "Stage", "StageError", "cpu_of", "middle", "start_of"]
