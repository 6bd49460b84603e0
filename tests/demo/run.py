# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""make demo: four web servers under load go through Azure's events, first with the collection and then without.

Ends with 0 when no request failed with the collection, the control shows what the impacts cost without it, and the
playbook ended well. Needs HAProxy and what tests/setup.sh makes; no root.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.demo import records, schedule, timeline  # noqa: E402
from tests.demo.playbook import Playbook  # noqa: E402
from tests.demo.screen import Screen, table  # noqa: E402
from tests.support.simulator import SimulatorError  # noqa: E402
from tests.support.world import REQUESTS_PER_SECOND, TICK, World, WorldError  # noqa: E402

# Load before the first and after the last event, so that the picture shows the ordinary state on both sides.
QUIET_SECONDS = 2.0
# So long the load runs before an impact of the control: time enough for the requests of 2 s to be under way.
LEAD_SECONDS = 3.0
# The demo gives up on a run that has not come to its end by then.
PATIENCE_SECONDS = 300.0
LOAD_REPORT_SECONDS = 10.0


def take_folder(wanted):
    """The folder, or with -2 and so on behind its name while another demo runs in it; emptied, and locked as long as we live."""
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
    raise WorldError("A hundred demos are running in {0} already.".format(wanted.parent))


class Azure:
    """Announces the events of the schedule, and carries their impacts out on the world's servers."""

    def __init__(self, world, screen):
        self.world = world
        self.screen = screen
        self.zero = None
        self.planned = {}  # by event id
        self.seen = {}  # event id: the statuses told so far
        self.out_since = {}
        self.events = []

    def announce(self, planned):
        event_id = self.world.simulator.post_event(**schedule.document(planned))
        self.planned[event_id] = planned
        self.seen[event_id] = 0
        if self.zero is None:
            self.zero = self.screen.zero = time.time()

    def numbers(self):
        return {event_id: planned.number for event_id, planned in self.planned.items()}

    def id_of(self, number):
        return next((event_id for event_id, its in self.numbers().items() if its == number), None)

    def is_due(self, planned):
        if planned in self.planned.values():
            return False
        if planned.once_started is not None:
            event = self.event(self.id_of(planned.once_started))
            return event is not None and records.history_time(event, "Started") is not None
        return self.zero is None or time.time() - self.zero >= planned.at

    def event(self, event_id):
        return next((event for event in self.events if event["EventId"] == event_id), None)

    def tick(self, servers):
        for planned in schedule.SCHEDULE:
            if self.is_due(planned):
                self.announce(planned)
        self.events = self.world.simulator.events()
        for event in self.events:
            planned = self.planned[event["EventId"]]
            for step in event["History"][self.seen[event["EventId"]] :]:
                self.tell(step["Status"], planned, event)
            self.seen[event["EventId"]] = len(event["History"])
            self.cancel_when_out(event, planned, servers)

    def tell(self, status, planned, event):
        name = "event {0}, {1} of {2}".format(planned.number, planned.event_type, " and ".join(planned.hosts))
        if status == "Started":
            by = "approved, starts" if event["Approvals"] else "starts by itself"
            self.screen.say("azure", "{0}: {1}".format(name, by))
            for host in planned.hosts:
                self.world.hit(planned.event_type, host, planned.impact)
                done = "frozen for {0} s" if planned.event_type == "Freeze" else "killed, back in {0} s"
                self.screen.say("host", "{0} {1}".format(host, done.format(planned.impact)))
        else:
            words = {"Scheduled": "announced", "Completed": "over", "Cancelled": "cancelled by Azure"}
            self.screen.say("azure", "{0}: {1}".format(name, words[status]))

    def cancel_when_out(self, event, planned, servers):
        """Cancels an event of the schedule one second after its hosts left the balancer, approved or not."""
        if not planned.cancelled or event["History"][-1]["Status"] != "Scheduled":
            return
        if all(servers[host].admin != "ready" for host in planned.hosts):
            since = self.out_since.setdefault(planned.number, time.time())
            if time.time() - since >= 1.0:
                self.world.simulator.cancel(event["EventId"])

    def finished(self):
        return len(self.events) == len(schedule.SCHEDULE) and all(event["History"][-1]["Status"] in ("Completed", "Cancelled") for event in self.events)


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
                what = "out, {0}".format(server.admin) if server.admin != "ready" else "held for dead by the health check"
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


def run_with_collection(world, screen, playbook):
    """The events of the schedule, with the playbook; what was recorded."""
    screen.plain()
    screen.say("demo", "with graceful.azure: {0} requests/s, {1} events".format(REQUESTS_PER_SECOND, len(schedule.SCHEDULE)))
    world.forget()
    world.start_load("load-with")
    begin = time.time()
    watcher = Watcher(world, screen)
    azure = Azure(world, screen)
    deadline = time.time() + PATIENCE_SECONDS
    while not (playbook.watching and time.time() >= begin + QUIET_SECONDS) and not playbook.failed and time.time() < deadline:
        watcher.tick()
        playbook.tick(True, {})
        time.sleep(TICK)
    if not playbook.watching:
        raise WorldError("The playbook did not come to look at the hosts. See {0}".format(playbook.log))
    trouble = None
    while trouble is None:
        servers = watcher.tick()
        azure.tick(servers)
        playbook.tick(not azure.finished(), azure.numbers())
        if azure.finished() and not playbook.running:
            break
        if playbook.failed:
            trouble = "the playbook failed: see {0}".format(playbook.log)
        elif time.time() > deadline:
            trouble = "not at its end after {0:.0f} s".format(PATIENCE_SECONDS)
        time.sleep(TICK)
    playbook.stop()
    watcher.wait(QUIET_SECONDS)
    end = time.time()
    if trouble is None and not all(records.in_service(server) for server in world.observe().values()):
        trouble = "not every server is back in service"
    requests = world.stop_load()
    return {
        "axis": records.Axis(azure.zero),
        # What came before is the playbook's start.
        "begin": max(begin, azure.zero - QUIET_SECONDS),
        "end": end,
        "events": azure.events,
        "numbers": azure.numbers(),
        "states": world.states,
        "impacts": world.impacts,
        "requests": requests,
        "journal": playbook.read_journal(),
        "trouble": trouble,
    }


def run_control(world, screen, recorded):
    """The impacts that were recorded, again at the same times, with nobody acting; what was recorded."""
    screen.zero = None
    screen.plain()
    screen.say("demo", "control: the same impacts at the same times, the collection absent")
    impacts = sorted(recorded["impacts"], key=lambda impact: impact["begin"])
    world.await_servers()
    world.forget()
    world.start_load("load-control")
    begin = time.time()
    watcher = Watcher(world, screen)
    axis = None
    for impact in impacts:
        due = recorded["axis"].at(impact["begin"])
        if axis is None:
            axis = records.Axis(begin, due - LEAD_SECONDS)
            screen.zero = begin - axis.at(begin)
        while axis.at(time.time()) < due:
            servers = watcher.tick()
            now = time.time()
            if not world.due and all(records.in_service(server) for server in servers.values()) and due - axis.at(now) > LEAD_SECONDS + 1:
                # Nothing is wrong, and nothing will be for a while: on to the next impact.
                axis.jump(now, due - LEAD_SECONDS)
                screen.zero = now - axis.at(now)
            time.sleep(TICK)
        seconds = impact["end"] - impact["begin"]
        world.hit(impact["type"], impact["host"], seconds)
        done = "frozen for {0:.0f} s" if impact["type"] == "Freeze" else "killed, back in {0:.0f} s"
        screen.say("host", "{0} {1}".format(impact["host"], done.format(seconds)))
    while world.due:
        watcher.wait(TICK)
    deadline = time.time() + 10
    while not all(records.in_service(server) for server in watcher.tick().values()) and time.time() < deadline:
        time.sleep(TICK)
    watcher.wait(QUIET_SECONDS)
    end = time.time()
    axis = axis or records.Axis(begin)
    return {"axis": axis, "begin": begin, "end": end, "states": world.states, "impacts": world.impacts, "requests": world.stop_load()}


def result(rows, requests, control):
    """result.json."""
    return {
        "requests_total": len(requests),
        "requests_failed": records.count_failed(requests),
        "control": {"requests_total": len(control), "requests_failed": records.count_failed(control)},
        "events": [{key: value for key, value in row.items() if key not in ("number", "failed")} for row in rows],
    }


def picture(rows, collection, control):
    hosts = schedule.HOSTS
    events = [dict(row, gone=collection["end"] if row["gone"] is None else row["gone"]) for row in rows]
    parts = []
    for heading, part, its_events in (
        ("With graceful.azure", collection, events),
        ("Control: the same impacts, nobody acting", control, []),
    ):
        lanes = records.lanes(hosts, part["states"], part["impacts"], part["begin"], part["end"], part["events"], part["journal"])
        parts.append(timeline.Part(heading, lanes, part["impacts"], part["requests"], its_events, part["axis"].gaps()))
    title = "Four web servers behind HAProxy go through {0} Azure events at {1} requests per second".format(len(rows), REQUESTS_PER_SECOND)
    return timeline.draw(title, parts, collection["begin"], max(collection["end"], control["end"]), REQUESTS_PER_SECOND)


def demo(folder, screen):
    """The whole demo; whether it showed what it is for."""
    begun = time.monotonic()
    with World(folder, schedule.HOSTS) as world:
        world.start()
        everybody = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        inventory = world.write_inventory(folder / "inventory.yml", everybody=everybody)
        screen.say("demo", "HAProxy at http://127.0.0.1:{0}, {1} web servers, a metadata service for each".format(world.port("haproxy"), len(world.names)))
        playbook = Playbook(world, folder, inventory, screen)
        recorded = run_with_collection(world, screen, playbook)
        control = run_control(world, screen, recorded)
    collection, control = records.on_axis(recorded), records.on_axis(control)
    rows = records.event_rows(collection["events"], collection["journal"], collection["states"], collection["requests"], collection["end"])
    for row in rows:
        row["number"] = recorded["numbers"][row["event_id"]]
    rows.sort(key=lambda row: row["number"])
    told = result(rows, collection["requests"], control["requests"])
    write(folder / "result.json", json.dumps(told, indent=2) + "\n")
    write(folder / "timeline.svg", picture(rows, collection, control))
    screen.plain()
    screen.plain(table(rows, told["requests_total"], told["requests_failed"], told["control"]["requests_total"], told["control"]["requests_failed"]))
    screen.plain()
    for name in ("timeline.svg", "result.json"):
        screen.plain("{0:<13} {1}".format(name, os.path.relpath(folder / name)))
    screen.plain("{0:<13} {1:.0f} s".format("took", time.monotonic() - begun))
    verdicts = [recorded["trouble"]]
    if told["requests_failed"]:
        verdicts.append("{0} requests failed although the collection was there".format(told["requests_failed"]))
    if not told["control"]["requests_failed"] and not recorded["trouble"]:
        verdicts.append("no request failed in the control: this run proves nothing")
    verdicts = [verdict for verdict in verdicts if verdict]
    for verdict in verdicts:
        screen.plain("demo: " + verdict)
    return not verdicts


def write(path, text):
    draft = path.with_name(path.name + ".new")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)


class Interruption:
    """Ctrl-C and SIGTERM end the demo once, and surely.

    Python drops an exception that a signal raises while an object is being deleted. So the signal is also noted here, and
    the loops of the demo ask for it with check(). While the demo cleans up, further signals are left alone.
    """

    def __init__(self):
        self.came = False

    def install(self):
        # A shell starts what it runs in the background with SIGINT ignored, and Python then raises nothing by itself.
        for number in (signal.SIGINT, signal.SIGTERM):
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "demo", help="folder for all that it writes; emptied first")
    output = parser.parse_args().output.resolve()
    INTERRUPTION.install()
    try:
        return 0 if demo(take_folder(output), Screen()) else 1
    except (WorldError, SimulatorError) as error:
        print("demo: {0}".format(error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted; everything it started was stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
