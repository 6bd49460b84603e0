# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The resident watcher: what it costs beside a bare loop of requests and one of curl and jq, and how quick it is."""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import time
from functools import partial

import pytest

from tests.bench.figures import SHELL_LOOP
from tests.bench.responder import megabytes
from tests.bench.stage import StageError, cpu_of
from tests.support.guests import Guests, booted
from tests.support.pages import PACKAGES
from tests.support.patience import until
from tests.support.simulator import Simulator
from tests.support.watched import KINDS, measure, measure_fast_path
from tests.support.watcher import Watcher

# As short as it can be, once a second.
BARE_LOOP = """
import sys, time, requests
at = time.monotonic()
while True:
    said = requests.get(sys.argv[1] + "/metadata/scheduledevents?api-version=2020-07-01", headers={"Metadata": "true"}, timeout=10).json()
    for event in said["Events"]:
        print(event["EventId"], time.time(), flush=True)
    at += 1
    time.sleep(max(0, at - time.monotonic()))
"""
# The loop of the shell says the ids, and this one when.
SHELL_STAMP = 'while read -r id; do echo "$id $(date +%s.%N)"; done'
STAMP = ["sh", "-c", 'date +%s.%N >> "$0"']
STILL = {"NoticeSeconds": None, "ImpactSeconds": None, "SettleSeconds": None}


def cost(stage, span=60):
    """CPU and memory of a minute at 1 Hz without an event; the first seconds, in which each loads its libraries, apart."""
    with Simulator(["watcher", "requests", "shell"]) as simulator:
        watcher = Watcher(stage.folder / "watcher-cost", simulator.urls["watcher"], action="file")
        shell = SHELL_LOOP.format(seconds=span + 30, url=simulator.urls["shell"])
        processes = {
            "ours": watcher.start(resident=True),
            "requests": subprocess.Popen([sys.executable, "-c", BARE_LOOP, simulator.urls["requests"]]),
            "curl and jq": subprocess.Popen(["bash", "-c", shell], stdout=subprocess.DEVNULL),
        }
        try:
            time.sleep(5)
            before = {who: cpu_of(process.pid) for who, process in processes.items()}
            time.sleep(span)
            cpu = {who: 100 * (cpu_of(process.pid) - before[who]) / span for who, process in processes.items()}
            memory = {who: megabytes(process.pid) for who, process in processes.items()}
        finally:
            for process in processes.values():
                process.kill()
                process.wait()
    peers = ("requests", "curl and jq")
    # The kernel counts in hundredths of a second.
    tolerance = 100 * 0.01 / span
    return [
        {
            "what": f"the watcher, {span} s at 1 Hz: CPU (at most that of requests and {tolerance:.2f} %, a tick of the kernel's count)",
            "ours": f"{cpu['ours']:.2f} % of a core",
            "peer": ", ".join(f"{who} {cpu[who]:.2f} %" for who in peers),
            "ok": cpu["ours"] <= cpu["requests"] + tolerance,
            "figures": cpu,
        },
        {
            "what": "the watcher: memory",
            "ours": f"{memory['ours']:.1f} MB",
            "peer": f"requests {memory['requests']:.1f} MB",
            "ok": memory["ours"] <= memory["requests"],
            "figures": memory,
        },
    ]


def quickness(stage, vms=5, rounds=20):
    """Events at any moment between two looks: until the answer that shows it, until the fast path's and the action's commands; and until
    the peers, which look as often, print the event's id."""
    names = [f"vm-{number}" for number in range(vms)]
    # The shell's loop looks for events of web1.
    peers = {"requests": "peer", "curl and jq": "web1"}
    shown, fast, acted = [], [], []
    printed = {who: [] for who in peers}
    with Simulator([*names, *peers.values()]) as simulator:
        watchers, processes = {}, []
        try:
            shell = SHELL_LOOP.format(seconds=3600, url=simulator.urls["web1"])
            commands = {"requests": [sys.executable, "-c", BARE_LOOP, simulator.urls["peer"]], "curl and jq": ["bash", "-c", f"{{ {shell}\n}} | {SHELL_STAMP}"]}
            for who, command in commands.items():
                with (stage.folder / f"printed-{who}").open("wb") as stream:
                    processes.append(subprocess.Popen(command, stdout=stream, start_new_session=True))
            for name in names:
                folder = stage.folder / name
                watchers[name] = Watcher(
                    folder, simulator.urls[name], action="run", command=[*STAMP, str(folder / "acted")], fast_path=[*STAMP, str(folder / "fast")], repeat=600
                )
                watchers[name].start()
                time.sleep(0.1 + random.random() / 3)
            for name in names:
                until(partial(simulator.requests, name), 15)
            for number in range(1, rounds + 1):
                time.sleep(1 + random.random())
                event_id = simulator.post_event(EventType="Preempt", Resources=[*names, *peers.values()], **STILL)
                began = simulator.event(event_id)["History"][0]["Time"]
                for name, watcher in watchers.items():
                    stamps = [until(partial(last_stamp, watcher.folder / what, began), 15) for what in ("fast", "acted")]
                    times = [request["Time"] for request in simulator.requests(name) if began <= request["Time"] <= stamps[0]]
                    shown.append(times[-1] - began if times else 0.0)
                    fast.append(stamps[0] - (times[-1] if times else began))
                    acted.append(stamps[1] - began)
                for who, times in printed.items():
                    times.append(until(partial(printed_at, stage.folder / f"printed-{who}", event_id), 15) - began)
                simulator.cancel(event_id)
                for watcher in watchers.values():
                    # What follows the end of an event is no beginning of the next.
                    watcher.wait_for("action_done", 2 * number)
        finally:
            for watcher in watchers.values():
                watcher.close()
            for process in processes:
                # The shell's loop is more than one.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return [
        {
            "what": f"event visible until the answer that shows it ({len(shown)} times)",
            "ours": words(shown),
            "peer": "limits: median 0.6 s, p99 1.1 s; until its id is printed: " + ", ".join(f"{who} {words(times)}" for who, times in printed.items()),
            "ok": statistics.median(shown) <= 0.6 and p99(shown) <= 1.1,
            "figures": {"seconds": shown, **printed},
        },
        {
            "what": "from that answer until the fast path's command runs",
            "ours": words(fast),
            "peer": "limit 0.1 s",
            "ok": p99(fast) <= 0.1,
            "figures": {"seconds": fast},
        },
        {"what": "event visible until the action's command runs", "ours": words(acted), "peer": "", "figures": {"seconds": acted}},
    ]


def kinds(stage, rounds=20):
    """Each kind of action on booted guests under load: until out of rotation. Of the events some are reboots, the others freezes."""
    if os.geteuid() != 0:
        raise StageError("real hosts are booted by root alone")
    guests = Guests(stage.folder / "guests", web=2, balancers=1)
    rows = []
    try:
        guests.bed("--lifetime", "7200", "up")
        for kind in KINDS:
            try:
                out, load, first_tasks = measure(guests, kind, ["Reboot" if number % 5 == 0 else "Freeze" for number in range(rounds)])
            except AssertionError as failure:
                rows.append({"what": f"{kind}: event visible until out of rotation", "ours": str(failure), "peer": "", "ok": False})
                continue
            rows.append(
                {
                    "what": f"{kind}: event visible until out of rotation ({rounds} times, {load['requests_total']} requests)",
                    "ours": f"median {statistics.median(out):.1f} s, worst {max(out):.1f} s, {load['requests_failed']} failed",
                    "peer": "",
                    "ok": load["requests_failed"] == 0,
                    "figures": {"seconds": out, "load": load},
                }
            )
            if first_tasks:
                said, received = first_tasks["said"], first_tasks["received"]
                rows.append(
                    {
                        "what": "awx: the watcher's journal says action_started until the first task of the playbook, by ansible-runner",
                        "ours": f"median {statistics.median(said):.1f} s, worst {max(said):.1f} s",
                        "peer": f"from the launch as received: median {statistics.median(received):.1f} s, worst {max(received):.1f} s",
                        "figures": {"seconds": said, "received": received},
                    }
                )
    except pytest.fail.Exception as failure:
        raise StageError(str(failure)) from failure
    finally:
        guests.bed("down")
    return rows


def fast_path(stage, rounds=20):
    """A Spot VM with 30 s of notice, nobody but the fast path acting: until the command, until the balancer's checks have the VM out."""
    if os.geteuid() != 0:
        raise StageError("real hosts are booted by root alone")
    try:
        with booted(stage.folder / "spot", web=2, balancers=1, packages=PACKAGES) as guests:
            took, load = measure_fast_path(guests, rounds)
    except (AssertionError, pytest.fail.Exception) as failure:
        raise StageError(str(failure)) from failure
    command, down = zip(*took, strict=True)
    return [
        {
            "what": f"fast path: answer that shows the event until the command has run ({rounds} evictions)",
            "ours": f"median {statistics.median(command):.3f} s, worst {max(command):.3f} s",
            "peer": "",
            "figures": {"seconds": command},
        },
        {
            "what": f"fast path: command until the balancer's checks have the VM out ({load['requests_total']} requests)",
            "ours": f"median {statistics.median(down):.2f} s, worst {max(down):.2f} s, {load['requests_failed']} failed",
            "peer": "limit 3 s: two checks, one a second, and a second",
            "ok": max(down) <= 3 and load["requests_failed"] == 0,
            "figures": {"seconds": down, "load": load},
        },
    ]


def printed_at(path, event_id):
    """When a peer first printed that id; None while it has not."""
    rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]
    return next((float(when) for printed, when in rows if printed == event_id), None)


def last_stamp(path, after):
    """The last time noted in the file, if it is later than that."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return float(lines[-1]) if lines and float(lines[-1]) >= after else None


def p99(values):
    return sorted(values)[int(len(values) * 0.99)]


def words(values):
    return f"median {statistics.median(values):.3f} s, p99 {p99(values):.3f} s, worst {max(values):.3f} s"


def watcher(stage):
    return cost(stage) + quickness(stage)
