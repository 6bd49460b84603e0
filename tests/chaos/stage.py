# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a case is played: a world under load, handle_events in the surroundings of a user, and a record of it all.

As in the demo there are no threads: everything happens between two looks at the balancer. Ten looks and twenty requests a second are enough to see what
goes wrong. With more, the cases that are played side by side leave Ansible little of two cores.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

from tests.chaos import faults, killer
from tests.chaos.fronts import FRONTS
from tests.chaos.killer import FOLDER, HERE
from tests.chaos.points import ALL as ALL_POINTS
from tests.chaos.scenarios import ALL
from tests.chaos.strike import strike
from tests.support.checkout import ROOT, SURROUNDINGS
from tests.support.patience import patient
from tests.support.playbook import ansible_settings, program, run_facts, surroundings
from tests.support.processes import command_of, kill, marked
from tests.support.simulator import SimulatorError
from tests.support.world import BACKEND

RATE = 20.0  # requests per second
TICK = 0.1
RUN_LIMIT = 150.0
REPEAT = 60.0  # more, where an answer of 200 may be a fault: an approval that has no effect is sent again after so long
CASE_LIMIT = 300.0
DESERTED = 30.0  # after the end of the last controller nothing comes any more
LATE = 20.0  # for which workers of a killed run may live on
# A worker of Ansible whose controller was killed alone writes its result into a queue that only workers have open any more. It waits for ever, and changes
# nothing more: its module is over. Others wait for the lock that it holds meanwhile.
ORPHANED = ("(anon_pipe_write)", "(pipe_write)")
BEHIND_IT = ("(futex_do_wait)", "(futex_wait_queue)", "(futex_wait_queue_me)")
AT_ONCE = 3  # controllers, wherever they run: with more of them two cores are late for a deadline


class Controller:
    """One handle_events."""

    def __init__(self, name, process, output, limit):
        self.name = name
        self.limit = limit
        self.process = process
        self.output = output
        self.begin = time.time()
        self.end = None

    @property
    def killed(self):
        return self.process.returncode == -signal.SIGKILL

    def record(self):
        output = self.output.read_text(encoding="utf-8", errors="replace")
        return {
            "name": self.name,
            "begin": self.begin,
            "end": time.time() if self.end is None else self.end,
            "hung": self.end is None,
            "killed": self.killed,
            "status": self.process.returncode,
            "result": run_facts(output).get("graceful_azure"),
            "limit": self.limit,
            "output": output,
        }


class Stage:
    """Plays one case in a folder of its own."""

    def __init__(self, folder, case):
        self.folder = Path(folder)
        self.case = case
        self.scenario = ALL[case.scenario]
        self.world = FRONTS[self.scenario.front](self.folder, self.scenario.hosts)
        self.limit = patient(RUN_LIMIT + (REPEAT if case.fault else 0.0))
        self.token = uuid.uuid4().hex
        self.controllers = []
        self.announced = {}  # ids by the number of the event
        self.cancelled = set()
        self.samples = []
        self.lasting = {}
        self.events = []

    def play(self):
        """The record of the run; see the observer."""
        with self.world:
            try:
                return self._play()
            finally:
                self._end_all()

    def _play(self):
        self.world.start()
        for command in self.scenario.operator:
            self.world.haproxy.ask(command)
        duties = self.scenario.duties(self.world.duties())
        self.inventory = self.world.write_inventory(self.folder / "inventory.json", {"graceful_azure_duties": duties, **self.scenario.variables})
        self.world.start_load("load", RATE)
        self._look()
        before = dict(self.lasting)
        self._let(0.7)
        for order in faults.orders(self.case.fault, self.scenario.hosts) if self.case.fault else ():
            self.world.simulator.ask("POST", "/faults", order)
        for number, announced in enumerate(self.scenario.events):
            if announced.once_started is None and announced.once_out is None:
                self._announce(number)
        if self.case.company == "along":
            self._start("along")
        self._start("first", kill=self.case)
        struck = self.case.at is None and not self.case.once_approved
        self.unnoted = []
        deadline = time.time() + patient(CASE_LIMIT)
        while not self._over():
            self.tick()
            first = self.controllers[-1] if len(self.controllers) == 1 or self.case.company == "along" else None
            if not struck and first is not None and self._strikes(first):
                struck = True
                if first.process.poll() is None:
                    strike(first.process.pid, self.case.who)
            ended = [controller.end for controller in self.controllers]
            if time.time() > deadline or None not in ended and time.time() > max(ended) + patient(DESERTED):
                break
        self._await_leftovers()
        # The balancer's checks notice a server's return within two seconds.
        self.world.await_servers(4)
        self._let(0.5)
        deaf = [host for host in self.scenario.hosts if not self._answers(host)]
        load = self.world.stop_load()
        requests = self.world.simulator.requests()
        for request, _fault in faults.meetings(self.case.fault, requests) if self.case.fault else ():
            request["Fault"] = True
        return {
            "case": self.case.replay(),
            "hosts": list(self.scenario.hosts),
            "least": self.scenario.least,
            "yields": self.scenario.yields,
            "forbidden": list(self.scenario.forbidden),
            "samples": self.samples,
            "before": before,
            "after": dict(self.lasting),
            "events": self.events,
            "requests": requests,
            "load": [row for row in load if row["connection"] in self.world.promised],
            "log": self.world.rows(),
            "log_of": self.world.balancer,
            "log_of_requests": self.world.of_requests,
            "unnoted": self.unnoted,
            "controllers": [controller.record() for controller in self.controllers],
            "left": [*self.left, *self.world.left(), *sorted(str(path.relative_to(self.folder)) for path in (self.folder / "state").rglob("*.json"))],
            "deaf": deaf,
            "fault_begun": bool(self.case.fault) and faults.met(self.case.fault, requests),
            "reached": self._reached(),
        }

    def _reached(self):
        """Whether somebody was killed."""
        if self.case.who not in ("helper", "connection"):
            return any(controller.killed for controller in self.controllers)
        counted = self.folder / "point"
        return counted.exists() and counted.stat().st_size >= ALL_POINTS[self.scenario.front][self.case.point][2]

    def _strikes(self, controller):
        if self.case.once_approved:
            return any(event["Approvals"] for event in self.events)
        return time.time() - controller.begin >= self.case.at

    # What happens

    def tick(self):
        self._look()
        approved = {event["EventId"] for event in self.events if event["Approvals"]}
        self.events = self.world.simulator.events()
        if {event["EventId"] for event in self.events if event["Approvals"]} - approved:
            self._see_records()
        self.world.hit_started(self.events)
        self._azure()
        self._controllers()
        self.world.do_what_is_due()
        time.sleep(TICK)

    def _see_records(self):
        """Notes the records of balancers that do not say yet that the change was made, as an approval is seen."""
        for path in (self.folder / "state").rglob("*.json"):
            with contextlib.suppress(OSError, ValueError):
                record = json.loads(path.read_text(encoding="utf-8"))
                if record["kind"] in ("nginx_server", "health_probe", "haproxy_server") and record["phase"] == "changing":
                    self.unnoted.append(path.name)

    def _look(self):
        sample, self.lasting = self.world.look()
        self.samples.append([time.time(), sample])

    def _out(self, host):
        return self.samples[-1][1][f"{BACKEND}/{host}"][0] != "ready"

    def _azure(self):
        """Events that wait for something, and the end of those that are cancelled."""
        known = {event["EventId"]: event for event in self.events}
        for number, announced in enumerate(self.scenario.events):
            event = known.get(self.announced.get(number))
            if event is None and number not in self.announced:
                other = known.get(self.announced.get(announced.once_started))
                if (announced.once_out and self._out(announced.once_out)) or (other and any(step["Status"] == "Started" for step in other["History"])):
                    self._announce(number)
            elif announced.cancelled and number not in self.cancelled and all(map(self._out, announced.hosts)):
                self.cancelled.add(number)
                # It may have been approved, and started, between two looks.
                with contextlib.suppress(SimulatorError):
                    self.world.simulator.cancel(event["EventId"])

    def _announce(self, number):
        self.announced[number] = self.world.simulator.post_event(**self.scenario.events[number].document())

    def _controllers(self):
        for controller in list(self.controllers):
            if controller.end is None and controller.process.poll() is not None:
                controller.end = time.time()
                if controller.killed and controller.name == "first" and self.case.company != "along":
                    self._start("next")
                    if self.case.company == "after":
                        self._start("second")

    def _over(self):
        gone = all(event["History"][-1]["Status"] in ("Completed", "Cancelled") for event in self.events)
        return bool(self.events) and gone and not self.world.due and all(controller.end is not None for controller in self.controllers)

    def _let(self, seconds):
        until = time.time() + seconds
        while time.time() < until:
            self._look()
            time.sleep(TICK)

    def _answers(self, host):
        connection = http.client.HTTPConnection("127.0.0.1", self.world.port(host), timeout=patient(3))
        try:
            connection.request("GET", "/")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    # The controllers

    def _start(self, name, kill=None):
        environment = surroundings(
            SURROUNDINGS["ANSIBLE_CONFIG"],
            self.world.socket_folder,
            ANSIBLE_SHOW_CUSTOM_STATS="1",
            **ansible_settings(self.folder),
            # By this, whatever a killed controller leaves is found.
            CHAOS_TOKEN=self.token,
        )
        environment.update(SURROUNDINGS, **self.world.environment())
        if kill is not None and kill.point is not None:
            event, pattern, nth = ALL_POINTS[self.scenario.front][kill.point]
            point = {"event": event, "pattern": pattern, "nth": nth, "count": str(self.folder / "point"), "who": kill.who}
            # Every Python of this controller, also those of its modules, reads what lies in this folder.
            environment.update(CHAOS_POINT=json.dumps(point), PYTHONPATH=str(HERE / "plugins" / "points"))
        if kill is not None:
            environment.update(killer.environment(self.folder, kill))
        journal = self.folder / f"journal-{name}.jsonl"
        variables = {"target": "web", "handle_events_timeout": self.limit - 20, "handle_events_journal": str(journal)}
        command = [
            program(),
            *("-i", str(self.inventory), "graceful.azure.handle_events", "-e", json.dumps(variables)),
        ]
        output = self.folder / f"{name}.txt"
        with output.open("wb") as stream:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, env=environment, cwd=str(ROOT), start_new_session=True
            )
        self.controllers.append(Controller(name, process, output, self.limit))

    def _leftovers(self):
        """Processes of our controllers that live: {pid: command, and what of the kernel it waits in}."""
        found = {}
        for pid in marked(f"CHAOS_TOKEN={self.token}"):
            with contextlib.suppress(OSError):
                found[pid] = f"{' '.join(command_of(pid))[:120]} ({Path('/proc', str(pid), 'wchan').read_text(encoding='utf-8')})"
        return found

    def _await_leftovers(self):
        """Workers that outlived their controller end by themselves. What they do late belongs to the run."""
        until = time.time() + patient(LATE)
        while self._leftovers() and time.time() < until:
            self.tick()
        left = list(self._leftovers().values())
        harmless = ORPHANED + BEHIND_IT if any(command.endswith(ORPHANED) for command in left) else ()
        self.left = [f"process {command}" for command in left if not command.endswith(harmless)]

    def _end_all(self):
        for pid in self._leftovers():
            kill(pid)
        for controller in self.controllers:
            controller.process.wait()


@contextlib.contextmanager
def room_for(controllers):
    """Waits until the other cases that are played leave room for so many."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as files:
        places = [files.enter_context(open(FOLDER / f"place-{number}", "w", encoding="utf-8")) for number in range(AT_ONCE)]
        with open(FOLDER / "turn", "w", encoding="utf-8") as turn:
            # One that needs two is not overtaken by those that need one.
            fcntl.flock(turn, fcntl.LOCK_EX)
            while controllers:
                place = places.pop(0)
                try:
                    fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    controllers -= 1
                except BlockingIOError:
                    places.append(place)
                    time.sleep(TICK)
        yield


def play(case, keep=None):
    """Plays a case and returns its record. Its folder is kept only where ``keep`` names one."""
    folder = Path(tempfile.mkdtemp(prefix="graceful-azure-chaos-")) if keep is None else Path(keep)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with room_for(1 if case.company == "none" else 2):
            return dict(Stage(folder, case).play(), trace=read_trace(folder))
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def read_trace(folder):
    """The tasks of the first controller, in order, each with its last occurrence."""
    path = folder / killer.TRACE
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines() if path.exists() else ())
    return {line["task"]: line["occurrence"] for line in lines}
