# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The benchmark's stage: the demo's world, events at will, and playbooks with what they cost."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

from tests.demo import records
from tests.demo.schedule import HOSTS
from tests.support import playbook
from tests.support.checkout import BUILD, ROOT
from tests.support.patience import patient
from tests.support.processes import cpu_seconds, descendants
from tests.support.world import BACKEND, TICK, World

HERE = Path(__file__).resolve().parent
# The checkout as a collection, and beside it what the peers need.
COLLECTIONS = os.pathsep.join([str(BUILD / "collections"), str(BUILD / "bench" / "collections")])
PATIENCE = 120.0
# Seconds of an event's impact, and until it is gone then.
IMPACT, SETTLE = 5.0, 2.0


class StageError(Exception):
    """Something did not come about; the text says what."""


def cpu_of(pid):
    """CPU seconds of a process, of its living offspring and of those that were waited for."""
    return cpu_seconds([pid, *descendants(pid)])


class Stage:
    """The world, and what happened in it since the last call of begin()."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.world = World(folder, HOSTS)
        self.runs = 0
        self.requests = []

    def __enter__(self):
        self.world.start()
        self.inventory = self.world.write_inventory(self.folder / "inventory.yml")
        self.configuration = playbook.write_configuration(self.folder)
        return self

    def __exit__(self, *failure):
        self.world.close()

    # What happens

    def begin(self):
        """A new record with a new load."""
        self.world.await_servers()
        self.world.forget()
        self.world.observe()
        self.runs += 1
        self.world.start_load("load-{0}".format(self.runs))

    def end(self):
        """The requests since begin()."""
        self.requests = self.world.stop_load()
        return self.requests

    def announce(self, event_type, hosts, impact=IMPACT, notice=900.0, settle=SETTLE):
        fields = {"NoticeSeconds": notice, "ImpactSeconds": impact, "SettleSeconds": settle}
        return self.world.simulator.post_event(EventType=event_type, Resources=list(hosts), **fields)

    def cancel(self, event_id):
        self.world.simulator.cancel(event_id)

    def event(self, event_id):
        return self.world.simulator.event(event_id)

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
        return next((moment for moment, servers in self.world.states if moment >= since and servers[host].admin != "ready"), None)

    def admin(self, host):
        return self.world.observe()[host].admin

    def tick(self):
        self.world.tick()
        self.world.hit_started(self.world.simulator.events())
        time.sleep(TICK)

    def until(self, condition, what, seconds=PATIENCE):
        """Lets time pass until the condition holds."""
        deadline = time.monotonic() + patient(seconds)
        while not condition():
            if time.monotonic() > deadline:
                raise StageError("{0}: not within {1:.0f} s".format(what, seconds))
            self.tick()

    def rest(self, seconds):
        deadline = time.monotonic() + seconds
        self.until(lambda: time.monotonic() >= deadline, "rest", seconds + 10)

    def set_server(self, host, words):
        self.world.haproxy.ask("set server {0}/{1} {2}".format(BACKEND, host, words))

    # Playbooks

    def play(self, name, *arguments, **environment):
        """Starts ansible-playbook; name is a playbook of the collection or a path. The process."""
        environment = playbook.surroundings(self.configuration, self.world.socket_folder, ANSIBLE_COLLECTIONS_PATH=COLLECTIONS, **environment)
        # As a user has it: Python keeps what it has compiled, of both sides.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [playbook.program(), "-i", self.inventory, name, "-e", "target=web", *arguments]
        return self.world.processes.start("playbook", *command, env=environment, cwd=str(ROOT))

    def stop(self, process, number=None):
        return self.world.processes.stop(process, number)

    def finish(self, process, seconds=PATIENCE):
        """Waits for a playbook; its exit code."""
        self.until(lambda: process.poll() is not None, "the end of {0}".format(process.args[-1]), seconds)
        return self.stop(process)

    def clear(self):
        """Whatever was left: no events, every server ready and alive, no holds."""
        self.world.simulator.reset()
        self.until(lambda: not self.world.due, "the end of the impacts")
        for host in HOSTS:
            self.set_server(host, "state ready")
        for record in (self.folder / "state").glob("*/*.json"):
            record.unlink()
        if not self.world.await_servers():
            raise StageError("not every server came back")


def middle(values):
    return statistics.median(values)
