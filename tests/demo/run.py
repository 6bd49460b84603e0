# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""make demo: four web servers under load go through Azure's events, first with the collection and then without.

A scenario says which events. A page for a browser shows hosts, events and requests as they happen. Ends with 0 when no request failed with the
collection, the control shows what the impacts cost without it, and the playbook ended well. Needs HAProxy and what tests/setup.sh makes; no root.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.demo import records, schedule, timeline  # noqa: E402
from tests.demo.live import Live  # noqa: E402
from tests.demo.playbook import Playbook  # noqa: E402
from tests.demo.screen import Screen, table  # noqa: E402
from tests.demo.stage import INTERRUPTION, Azure, Watcher, count, impact_words, measured, take_folder  # noqa: E402
from tests.support.patience import patient  # noqa: E402
from tests.support.simulator import SimulatorError  # noqa: E402
from tests.support.world import REQUESTS_PER_SECOND, TICK, World, WorldError  # noqa: E402

# Load before the first and after the last event, so that the picture shows the ordinary state on both sides.
QUIET_SECONDS = 2.0
# So long the load runs before an impact of the control: time enough for the requests of 2 s to be under way.
LEAD_SECONDS = 3.0
# The demo gives up on a run that has not come to its end by then.
PATIENCE_SECONDS = 300.0
WITH = "With graceful.azure"
CONTROL = "Control: the same impacts, nobody acting"


class Announcer(Azure):
    """Announces the events of a scenario, too, and cancels those that it says."""

    def __init__(self, world, screen, planned):
        super().__init__(world, screen)
        self.planned = planned
        self.zero = None
        self.ids = {}  # by the number of an event
        self.out_since = {}

    def announce(self, planned):
        event_id = self.world.simulator.post_event(**schedule.document(planned))
        self.ids[planned.number] = event_id
        self.numbers[event_id] = planned.number
        if self.zero is None:
            self.zero = self.screen.zero = time.time()

    def event(self, number):
        return next((event for event in self.events if event["EventId"] == self.ids.get(number)), None)

    def is_due(self, planned):
        if planned.number in self.ids:
            return False
        if planned.once_started is not None:
            event = self.event(planned.once_started)
            return event is not None and records.history_time(event, "Started") is not None
        return self.zero is None or time.time() - self.zero >= planned.at

    def follow(self, servers):
        """What is due now; ``servers`` are those of HAProxy."""
        for planned in self.planned:
            if self.is_due(planned):
                self.announce(planned)
        self.tick()
        for planned in self.planned:
            if planned.cancelled and planned.number in self.ids:
                self.cancel_when_out(planned, servers)

    def cancel_when_out(self, planned, servers):
        """Cancels an event one second after its hosts left the balancer, approved or not."""
        event = self.event(planned.number)
        if event["History"][-1]["Status"] == "Scheduled" and all(servers[host].admin != "ready" for host in planned.hosts):
            since = self.out_since.setdefault(planned.number, time.time())
            if time.time() - since >= 1.0:
                self.world.simulator.cancel(event["EventId"])

    def finished(self):
        return len(self.events) == len(self.planned) and all(event["History"][-1]["Status"] in ("Completed", "Cancelled") for event in self.events)


def run_with_collection(world, screen, playbook, planned, live):
    """The planned events, with the playbook; what was recorded."""
    screen.plain()
    screen.say("demo", "with graceful.azure: {0} requests/s, {1}".format(REQUESTS_PER_SECOND, count(len(planned), "event")))
    world.forget()
    world.start_load("load-with")
    begin = time.time()
    watcher = Watcher(world, screen)
    azure = Announcer(world, screen, planned)

    def so_far():
        """What was recorded until now."""
        now = time.time()
        return {
            "axis": records.Axis(now if azure.zero is None else azure.zero),
            # What came before is the playbook's start.
            "begin": begin if azure.zero is None else max(begin, azure.zero - QUIET_SECONDS),
            "end": now,
            "events": azure.events,
            "numbers": dict(azure.numbers),
            "journal": list(playbook.journal.entries),
            **measured(world),
        }

    live.show(WITH, so_far)
    deadline = time.time() + patient(PATIENCE_SECONDS)
    while not (playbook.watching and time.time() >= begin + QUIET_SECONDS) and not playbook.failed and time.time() < deadline:
        watcher.tick()
        playbook.tick(True, {})
        time.sleep(TICK)
    if not playbook.watching:
        raise WorldError("The playbook did not come to look at the hosts. See {0}".format(playbook.log.path))
    trouble = None
    while trouble is None:
        servers = watcher.tick()
        azure.follow(servers)
        playbook.tick(not azure.finished(), azure.numbers)
        if azure.finished() and not playbook.running:
            break
        if playbook.failed:
            trouble = "the playbook failed: see {0}".format(playbook.log.path)
        elif time.time() > deadline:
            trouble = "not at its end after {0:.0f} s".format(PATIENCE_SECONDS)
        time.sleep(TICK)
    playbook.stop()
    watcher.wait(QUIET_SECONDS)
    end = time.time()
    if trouble is None and not all(records.in_service(server) for server in world.observe().values()):
        trouble = "not every server is back in service"
    requests = world.stop_load()
    recorded = dict(so_far(), end=end, requests=requests, trouble=trouble)
    live.show(WITH, lambda: recorded)
    return recorded


def run_control(world, screen, recorded, live):
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
    shown = recorded["axis"].at(impacts[0]["begin"]) - LEAD_SECONDS if impacts else 0.0
    axis = records.Axis(begin, shown)
    screen.zero = begin - shown

    def so_far():
        """What was recorded until now."""
        return {
            "axis": axis,
            "begin": begin,
            "end": time.time(),
            **measured(world),
        }

    live.show(CONTROL, so_far)
    for impact in impacts:
        due = recorded["axis"].at(impact["begin"])
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
        screen.say("host", "{0} {1}".format(impact["host"], impact_words(impact["type"], seconds)))
    while world.due:
        watcher.wait(TICK)
    deadline = time.time() + patient(10)
    while not all(records.in_service(server) for server in watcher.tick().values()) and time.time() < deadline:
        time.sleep(TICK)
    watcher.wait(QUIET_SECONDS)
    end = time.time()
    requests = world.stop_load()
    recorded = dict(so_far(), end=end, requests=requests)
    live.show(CONTROL, lambda: recorded)
    return recorded


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
        (WITH, collection, events),
        (CONTROL, control, []),
    ):
        lanes = records.lanes(hosts, part["states"], part["impacts"], part["begin"], part["end"], part["events"], part["journal"])
        parts.append(timeline.Part(heading, lanes, part["impacts"], part["requests"], its_events, part["axis"].gaps()))
    title = "Four web servers behind HAProxy go through {0} at {1} requests per second".format(count(len(rows), "Azure event"), REQUESTS_PER_SECOND)
    return timeline.draw(title, parts, collection["begin"], max(collection["end"], control["end"]), REQUESTS_PER_SECOND)


def demo(folder, screen, name):
    """The whole demo; whether it showed what it is for."""
    begun = time.monotonic()
    scenario = schedule.SCENARIOS[name]
    with (
        World(folder, schedule.HOSTS) as world,
        Live("The demo of graceful.azure: " + name, folder / "live.log", schedule.HOSTS, screen.lines) as live,
    ):
        world.start()
        everybody = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        inventory = world.write_inventory(folder / "inventory.yml", dict(scenario.variables), everybody)
        screen.say("demo", "HAProxy at http://127.0.0.1:{0}, {1} web servers, a metadata service for each".format(world.port("haproxy"), len(world.names)))
        screen.say("demo", "scenario {0}: {1}".format(name, scenario.about))
        screen.say("demo", live.address())
        playbook = Playbook(world, folder, inventory, screen)
        recorded = run_with_collection(world, screen, playbook, scenario.events, live)
        control = run_control(world, screen, recorded, live)
        live.end()
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
    for file in ("timeline.svg", "result.json", "reports"):
        screen.plain("{0:<13} {1}".format(file, os.path.relpath(folder / file)))
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--scenario", metavar="NAME", default=schedule.DEFAULT, help="what happens; help lists the scenarios")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "demo", help="folder for all that it writes; emptied first")
    arguments = parser.parse_args()
    if arguments.scenario == "help":
        print("make demo SCENARIO=NAME runs one of these:\n{0}".format(schedule.choices()))
        return 0
    if arguments.scenario not in schedule.SCENARIOS:
        print("demo: there is no scenario {0!r}. Nothing was started. Choose one of:\n{1}".format(arguments.scenario, schedule.choices()), file=sys.stderr)
        return 2
    INTERRUPTION.install()
    try:
        return 0 if demo(take_folder(arguments.output.resolve()), Screen(), arguments.scenario) else 1
    except (WorldError, SimulatorError) as error:
        print("demo: {0}".format(error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted; everything it started was stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
