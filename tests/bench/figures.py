# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The figures: how long and how much. Each part gets the stage and returns rows for the table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from tests.bench.stage import HERE, IMPACT, SETTLE, StageError, cpu_of, middle
from tests.demo import records
from tests.support.backend import SLOW_SECONDS
from tests.support.checkout import BUILD
from tests.support.patience import patient

OURS = "graceful.azure.watch_events"
PEER = str(HERE / "playbooks" / "handwritten.yml")
HOSTS = ("web1", "web2", "web3", "web4")
DOCUMENT_SCRIPT = HERE / "document.py"

# Below these nobody comes. The service is asked once a second.
POLLING = "0-1 s: 1 Hz polling"
ANSWER = "{0:g} s: the last answer under way".format(SLOW_SECONDS)
HIT = "{0:g} s: the impact".format(IMPACT + SETTLE)


def seconds(values):
    """Median and worst, as words."""
    return "{0:.2f} s ({1:.2f}-{2:.2f})".format(middle(values), min(values), max(values))


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def document(stage):
    """A document of 1,000 events with 20 resources each, in a process of its own as a module would be."""
    environment = dict(os.environ, PYTHONPATH=str(BUILD / "collections"))
    told = json.loads(subprocess.run([sys.executable, DOCUMENT_SCRIPT], env=environment, check=True, capture_output=True, text=True).stdout)
    return [
        {
            "what": "1,000 events with 20 resources: parsed, normalised, selected (median of {0})".format(told["runs"]),
            "ours": "{0:.1f} ms".format(told["milliseconds"]),
            "peer": "limit 50 ms",
            "ok": told["milliseconds"] <= 50,
            "figures": told,
        }
    ]


def info_against_uri(stage, rounds=20):
    """The same GET by both, in turn, in one run of ansible-playbook."""
    times = stage.folder / "task-times.jsonl"
    process = stage.play(
        str(HERE / "playbooks" / "info_vs_uri.yml"),
        *("-e", "rounds={0}".format(rounds)),
        ANSIBLE_CALLBACK_PLUGINS=str(HERE / "callbacks"),
        ANSIBLE_CALLBACKS_ENABLED="task_times",
        TASK_TIMES=str(times),
    )
    if stage.finish(process) != 0:
        raise StageError("info_vs_uri.yml failed: see {0}".format(stage.folder / "playbook.log"))
    told = read_lines(times)
    ours = [line["seconds"] for line in told if line["task"] == "Info"]
    peer = [line["seconds"] for line in told if line["task"].startswith("Uri")]
    if len(ours) != rounds or len(peer) != rounds:
        raise StageError("{0} and {1} times instead of {2} each".format(len(ours), len(peer), rounds))
    ratio = middle(ours) / middle(peer)
    return [
        {
            "what": "scheduled_events_info against uri, the same GET (median of {0}), ratio {1:.2f}".format(rounds, ratio),
            "ours": seconds(ours),
            "peer": seconds(peer),
            "ok": ratio <= 1.1,
            "figures": {"ours": ours, "peer": peer, "ratio": ratio},
        }
    ]


SHELL_LOOP = """
end=$((SECONDS + {seconds}))
while [ $SECONDS -lt $end ]; do
    curl -s --noproxy '*' -H Metadata:true '{url}/metadata/scheduledevents?api-version=2020-07-01' |
        jq -r '.Events[] | select(.Resources | index("web1")) | .EventId'
    sleep 1
done
"""


def waiting_host(stage, span=60):
    """A host that waits for a minute at 1 Hz: its own share, not the controller's, beside a loop of curl and jq."""
    notes = {"ours": stage.folder / "cost-ours.jsonl", "peer": stage.folder / "cost-peer.jsonl"}
    wrapper = stage.folder / "python"
    wrapper.write_text('#!/bin/sh\nexec {0} {1} "$@"\n'.format(sys.executable, HERE / "cost.py"), encoding="utf-8")
    wrapper.chmod(0o755)
    begun = time.monotonic()
    process = stage.play(
        str(HERE / "playbooks" / "wait.yml"),
        *("-e", "seconds={0}".format(span), "-e", "ansible_python_interpreter={0}".format(wrapper)),
        COST_PYTHON=sys.executable,
        COST_FILE=str(notes["ours"]),
    )
    bash = stage.world.processes.start(
        "shell-loop",
        *(sys.executable, HERE / "cost.py", "-c", SHELL_LOOP.format(seconds=span, url=stage.world.simulator.urls["web1"])),
        env=dict(os.environ, COST_PYTHON="/bin/bash", COST_FILE=str(notes["peer"])),
    )
    if stage.finish(process, span + 60) != 0:
        raise StageError("wait.yml failed: see {0}".format(stage.folder / "playbook.log"))
    took = time.monotonic() - begun
    stage.finish(bash, 30)
    told = {}
    for who, path in notes.items():
        lines = read_lines(path)
        told[who] = {
            "calls": len(lines),
            "cpu_percent": 100 * sum(line["cpu"] for line in lines) / span,
            "megabytes": max(line["kilobytes"] for line in lines) / 1024,
        }
    words = {who: "{cpu_percent:.1f} % of a core, {megabytes:.0f} MB".format(**figures) for who, figures in told.items()}
    return [{"what": "a host waiting at 1 Hz for {0} s".format(span), **words, "figures": dict(told, took=took)}]


def journal_of(stage, name):
    return stage.folder / "journal-{0}.jsonl".format(name)


def pass_begins(entry):
    """When a pass began: its first look at a host. One that was ended is told as the one before it."""
    return min(host["began"] for host in entry["world"]["hosts"].values() if host.get("began") and not (host.get("rested") or host.get("ended")))


def idle_passes(entries):
    """The seconds of each pass with nothing to do less its pause, and of all passes the looks and the pauses. C(entries): of a journal."""
    begins = [pass_begins(entry) for entry in entries]
    # Whoever had the news was not ended.
    pauses = [max((host["waited"] for host in entry["world"]["hosts"].values() if not host.get("ended")), default=0.0) for entry in entries]
    looks = [entry["time"] - begin for entry, begin in zip(entries, begins)]
    # After news everybody is looked at once more, not sooner than a second after the last time: such a pass does not wait, and is no idle one.
    whole = [later - earlier - pause for earlier, later, pause in zip(begins[1:], begins[2:], pauses[1:]) if pause >= 0.5]
    return whole, looks, pauses


def idle_pass(stage, passes=10):
    """Passes with nothing to do, from the first look at a host to that of the next pass, less the pause, which lies in the looks.

    Events that name nobody here come and go, since without any news a pass lasts for a minute. On a slow machine few passes wait, so there are more.
    """
    journal = journal_of(stage, "idle")
    process = stage.play(OURS, "-e", "handle_events_journal={0}".format(journal))
    stage.until(lambda: read_lines(journal), "the first pass")
    while len(read_lines(journal)) < 2 * passes or len(idle_passes(read_lines(journal))[0]) < passes / 2 and len(read_lines(journal)) < 8 * passes:
        for change in (lambda: stage.announce("Reboot", ["elsewhere"]), lambda: stage.cancel(stage.world.simulator.events()[-1]["EventId"])):
            stage.rest(2.5)
            change()
            one_more = len(read_lines(journal)) + 1
            stage.until(lambda wanted=one_more: len(read_lines(journal)) >= wanted, "a pass with news")
    stage.stop(process)
    return idle_rows(read_lines(journal))


def idle_rows(entries):
    whole, looks, pauses = idle_passes(entries)
    if not whole:
        raise StageError("none of {0} passes waited: this machine is too slow or too busy to tell what an idle pass costs".format(len(entries)))
    return [
        {
            "what": "a pass with nothing to do, 4 hosts, less the pause on the hosts (median, range of {0})".format(len(whole)),
            "ours": seconds(whole),
            "peer": "limit 1 s",
            "ok": middle(whole) <= 1.0,
            "figures": {"passes": whole, "looks": looks, "pauses": pauses},
        }
    ]


def one_reaction(stage, number):
    """Events for three of the four hosts at once: for each the seconds to out from when its pass could read it, from visible, from the pass."""
    journal = journal_of(stage, "reaction-{0}".format(number))
    process = stage.play(OURS, "-e", "handle_events_journal={0}".format(journal))
    stage.until(lambda: read_lines(journal), "the first pass")
    # Not in step with the passes.
    stage.rest(1.0 + 0.13 * number)
    chosen = [HOSTS[(number + offset) % 4] for offset in range(3)]
    ids = {host: stage.announce("Reboot", [host]) for host in chosen}
    visible = {host: stage.visible(event_id) for host, event_id in ids.items()}
    stage.until(lambda: all(stage.admin(host) != "ready" for host in chosen), "three hosts out")
    found = []
    for host, event_id in ids.items():
        out = stage.out(host, visible[host])
        seen = next(entry for entry in read_lines(journal) if event_id in [event["event_id"] for event in entry["events"]])
        begins = pass_begins(seen)
        # A pass that waits for news on the hosts may have begun before there was anything to read.
        found.append((out - max(begins, visible[host]), out - visible[host], out - begins))
        if stage.status(event_id) == "Scheduled":
            stage.cancel(event_id)
    if stage.finish(process) != 0:
        raise StageError("the playbook failed: see {0}".format(stage.folder / "playbook.log"))
    stage.world.await_servers()
    return found


def reaction(stage, rounds=10):
    """Events under load: from the pass that first reads one to the server's new state."""
    stage.begin()
    found = [triple for number in range(rounds) for triple in one_reaction(stage, number)]
    from_pass, from_visible, whole = ([triple[place] for triple in found] for place in range(3))
    failed = records.count_failed(stage.end())
    return [
        {
            "what": "start of the pass that reads an event, or the event if that comes later, to server out, 3 events on 4 hosts, under load ({0} runs)".format(
                rounds
            ),
            "ours": seconds(from_pass),
            "peer": "limit 5 s",
            "ok": max(from_pass) <= 5.0,
            "figures": {"from_pass": from_pass, "from_visible": from_visible},
        },
        {"what": "the same from the event being visible", "ours": seconds(from_visible), "peer": "", "floor": POLLING},
        {"what": "the same from the start of the pass, with what it waited for news", "ours": seconds(whole), "peer": ""},
        {"what": "failed requests meanwhile", "ours": str(failed), "peer": "limit 0", "floor": "0", "ok": failed == 0},
    ]


def until_it_waits(number, rounds):
    """How many seconds after its start a playbook gets its event. Until then both have started, on a slow machine too, and wait.

    Both ask every second or so. Events that always came at the same moment of that second would flatter one of the two.
    """
    return patient(6.0) + 1.5 * number / rounds


def one_reboot(stage, name, waiting, *arguments):
    """A Reboot of web1 under load, so many seconds after the playbook was started: what it took."""
    stage.clear()
    stage.begin()
    process = stage.play(name, *arguments)
    stage.rest(waiting)
    before = cpu_of(process.pid)
    event_id = stage.announce("Reboot", ["web1"])
    visible = stage.visible(event_id)
    code = None
    cpu = before
    deadline = time.monotonic() + patient(120)
    while code is None:
        stage.tick()
        code = process.poll()
        if code is None:
            cpu = max(cpu, cpu_of(process.pid))
        if time.monotonic() > deadline:
            stage.stop(process)
            raise StageError("{0} did not end".format(name))
    ended = time.time()
    stage.stop(process)
    stage.world.await_servers()
    requests = stage.end()
    if code != 0:
        raise StageError("{0} ended with {1}: see {2}".format(name, code, stage.folder / "playbook.log"))
    return {
        "out": stage.out("web1", visible) - visible,
        "approved": stage.approved(event_id) - visible,
        "whole": ended - visible,
        "cpu": cpu - before,
        "failed": records.count_failed(requests),
        "requests": len(requests),
    }


def reboot_against_handwritten(stage, rounds=6):
    """The same Reboot, ours and the hand-written playbook in turn."""
    told = {"ours": [], "peer": []}
    for number in range(rounds):
        pair = [("ours", OURS), ("peer", PEER)]
        waiting = until_it_waits(number, rounds)
        for who, name in pair if number % 2 == 0 else reversed(pair):
            told[who].append(one_reboot(stage, name, waiting))

    def values(who, key):
        return [run[key] for run in told[who]]

    def row(what, key, floor, limit):
        ratio = middle(values("ours", key)) / middle(values("peer", key))
        return {
            "what": "{0}, ratio {1:.2f}".format(what, ratio),
            "ours": seconds(values("ours", key)),
            "peer": seconds(values("peer", key)),
            "floor": floor,
            "ok": ratio <= limit,
            "figures": {"ours": values("ours", key), "peer": values("peer", key), "ratio": ratio},
        }

    lost = {who: sum(values(who, "failed")) for who in told}
    many = {who: sum(values(who, "requests")) for who in told}
    return [
        row("Reboot: visible to out of rotation ({0} runs each)".format(rounds), "out", POLLING, 0.45),
        row("Reboot: visible to approved", "approved", "{0}, {1}".format(POLLING, ANSWER), 0.7),
        row("Reboot: visible to the playbook's end", "whole", "{0}, {1}, {2}".format(POLLING, ANSWER, HIT), 0.85),
        row("Reboot: controller CPU from visible to the end", "cpu", "", 0.5),
        {
            "what": "Reboot: failed requests",
            "ours": "{0} of {1:,}".format(lost["ours"], many["ours"]),
            "peer": "{0} of {1:,}".format(lost["peer"], many["peer"]),
            "floor": "0",
            "ok": lost["ours"] == 0,
        },
    ]


def own_seconds(stage, journal):
    """The CPU seconds that the code of report and metrics itself takes for the passes in a journal, in a process of its own."""
    words = [sys.executable, str(HERE / "story.py"), str(journal), str(stage.folder / "story")]
    environment = dict(os.environ, PYTHONPATH=str(BUILD / "collections"))
    return json.loads(subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout)["seconds"]


def story(stage, rounds=8):
    """What report and metrics add to the CPU of a run: the same Reboot with them and without them, in turn."""
    told = {"with": [], "without": []}
    journal = journal_of(stage, "story")
    folder = stage.folder / "story"
    written = ("-e", "handle_events_report={0}".format(folder), "-e", "handle_events_metrics={0}".format(folder / "bench.prom"))
    own = []
    for number in range(rounds):
        for who in ("with", "without") if number % 2 == 0 else ("without", "with"):
            journal.unlink(missing_ok=True)
            # Both write a journal, so that it costs both the same.
            arguments = ("-e", "handle_events_journal={0}".format(journal), *(written if who == "with" else ()))
            cpu = one_reboot(stage, OURS, until_it_waits(number, rounds), *arguments)["cpu"]
            told[who].append(cpu)
            if who == "with":
                own.append(own_seconds(stage, journal) / cpu)
    ratio = middle(told["with"]) / middle(told["without"])
    return [
        {
            "what": "CPU of a Reboot with report and metrics, against the same without (median of {0}), ratio {1:.3f}".format(rounds, ratio),
            "ours": seconds(told["with"]),
            "peer": seconds(told["without"]),
            "ok": ratio <= 1.03,
            "figures": dict(told, ratio=ratio),
        },
        {
            "what": "the part of that CPU which their own code takes (median, range of {0})".format(rounds),
            "ours": "{0:.2f} % ({1:.2f}-{2:.2f})".format(100 * middle(own), 100 * min(own), 100 * max(own)),
            "peer": "limit 3 %",
            "ok": middle(own) <= 0.03,
            "figures": own,
        },
    ]
