# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the demo and the shell have in common: a folder, who carries events out, who watches HAProxy, and how a signal ends them."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import time

from tests.demo import records
from tests.support.world import TICK, WorldError

LOAD_REPORT_SECONDS = 10.0
# How far back the page for a browser shows the load.
LOAD_REPORTS = 60
# If the control address decides when an impact is over, a server is hit for so long.
OPEN_IMPACT_SECONDS = 7


def take_folder(wanted):
    """The folder, or with -2 and so on behind its name while another process has it; emptied, and locked as long as we live."""
    for number in range(1, 100):
        folder = wanted if number == 1 else wanted.with_name("{0}-{1}".format(wanted.name, number))
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        return folder
    raise WorldError("A hundred of them are running in {0} already.".format(wanted.parent))


def count(number, noun):
    """A number with its noun."""
    return "{0} {1}{2}".format(number, noun, "" if number == 1 else "s")


def measured(world):
    """What the world has recorded until now, as copies that another thread may read."""
    return {"states": list(world.states), "impacts": list(world.impacts), "load": world.load_reports(LOAD_REPORTS)}


class Azure:
    """Tells what becomes of the simulator's events, and carries their impacts out on the world's servers."""

    def __init__(self, world, screen):
        self.world = world
        self.screen = screen
        self.events = []
        self.numbers = {}  # by event id
        self.told = []  # of each event: how much of its history was told

    def tick(self):
        events = self.world.simulator.events()
        for place, event in enumerate(events):
            self.numbers.setdefault(event["EventId"], place + 1)
        # The page, which another thread makes, needs the number of every event that it sees.
        self.events = events
        for place, event in enumerate(events):
            if place == len(self.told):
                self.told.append(0)
            for step in event["History"][self.told[place] :]:
                self.tell(step["Status"], event)
            self.told[place] = len(event["History"])

    def tell(self, status, event):
        kind, hosts = event["EventType"], event["Resources"]
        name = "event {0}, {1} of {2}".format(self.numbers[event["EventId"]], kind, " and ".join(hosts))
        if status == "Started":
            by = "approved, starts" if event["Approvals"] else "starts by itself"
            self.screen.say("azure", "{0}: {1}".format(name, by))
            seconds = OPEN_IMPACT_SECONDS if event["ImpactSeconds"] is None else event["ImpactSeconds"]
            for host in hosts:
                if host in self.world.web:
                    self.world.hit(kind, host, seconds)
                    self.screen.say("host", "{0} {1}".format(host, impact_words(kind, seconds)))
        else:
            words = {"Scheduled": "announced", "Completed": "over", "Cancelled": "cancelled by Azure"}
            self.screen.say("azure", "{0}: {1}".format(name, words[status]))


def impact_words(event_type, seconds):
    return "{0} {1:g} s".format("frozen for" if event_type == "Freeze" else "killed, back in", round(seconds, 1))


class Watcher:
    """Tells on the screen what HAProxy does with the servers, and now and then how the load fares."""

    def __init__(self, world, screen):
        self.world = world
        self.screen = screen
        self.servers = None
        self.told = time.time()

    def tick(self):
        INTERRUPTION.check()
        servers = self.world.tick()
        for name, server in servers.items():
            before = self.servers[name] if self.servers else server
            if before == server:
                continue
            if records.in_service(before) and not records.in_service(server):
                what = "set to {0}".format(server.admin) if server.admin != "ready" else "held for dead by the health check"
                self.screen.say("haproxy", "{0} {1}".format(name, what))
            elif records.in_service(server) and not records.in_service(before):
                self.screen.say("haproxy", "{0} in service".format(name))
        self.servers = servers
        if time.time() - self.told >= LOAD_REPORT_SECONDS:
            self.told = time.time()
            so_far = self.world.load_so_far()
            self.screen.say("load", "{requests:,} requests, {failed:,} failed".format(**so_far))
        return servers

    def wait(self, seconds):
        until = time.time() + seconds
        while time.time() < until:
            self.tick()
            time.sleep(TICK)


class Interruption:
    """Ctrl-C and SIGTERM end the demo once, and surely.

    Python drops an exception that a signal raises while an object is being deleted. So the signal is also noted here, and
    the loops of the demo ask for it with check(). While the demo cleans up, further signals are left alone.
    """

    def __init__(self):
        self.came = False

    def install(self, *more):
        """``more`` are further signals that end it."""
        # A shell starts what it runs in the background with SIGINT ignored, and Python then raises nothing by itself.
        for number in (signal.SIGINT, signal.SIGTERM, *more):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number, frame):
        if not self.came:
            self.came = True
            raise KeyboardInterrupt

    def check(self):
        """KeyboardInterrupt where a signal came whose exception was lost."""
        if self.came:
            raise KeyboardInterrupt


INTERRUPTION = Interruption()
