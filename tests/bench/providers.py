# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each kind of event costs behind each kind of balancer, on booted guests under load, with the collection and without it.

For each provider a bed is booted once. Every event comes to the same host, one after the other, first with the playbook and then
without it. One load goes on all the time; what became of an event is told from the requests that began while it lasted.
``python tests/bench/proven.py`` writes the rows into tests/PROVEN.md.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.bed.front import CLIENT, SECRET, TENANT
from tests.bench import proven
from tests.bench.stage import StageError
from tests.support import load, playbook
from tests.support.checkout import ROOT
from tests.support.guests import Guests
from tests.support.patience import patient, until
from tests.support.simulator import SimulatorError

SCENARIOS = ROOT / "extensions" / "molecule"
WATCH = "graceful.azure.watch_events"
HOST, VM = "web1", "www_1"
# Tried in this order, until the machine gives one. The highest rate is asked of HAProxy alone.
RATES = (500, 350, 250, 150)
HIGHEST_RATES = (1000, 850, 700)
LONG_EVERY = 101
PATIENCE = 170.0
# A reload of nginx closes idle connections of its clients; docs/nginx.md says why.
NO_KEPT = "nginx"


class Provider(NamedTuple):
    """``front`` is one of tests/bed/front.py, ``scenario`` has the settings that a user writes."""

    name: str
    front: str
    scenario: str
    environment: dict = {}


PROVIDERS = (
    Provider("haproxy", "haproxy", "default"),
    Provider("nginx", "nginx", "nginx"),
    Provider("health_probe", "probe", "health_probe"),
    Provider("azure_load_balancer", "azure", "azure_load_balancer", {"AZURE_CLIENT_ID": CLIENT, "AZURE_SECRET": SECRET, "AZURE_TENANT": TENANT}),
    Provider("health_probe, haproxy", "row", "in_a_row"),
)


class Kind(NamedTuple):
    """A kind of event. ``notice`` says whether the host can be ready in time, so that nothing may fail."""

    name: str
    fields: dict
    notice: bool = True
    cancelled: bool = False


# The seconds of an impact are a little longer than what the bed does to the guest.
KINDS = (
    Kind("Reboot", {"EventType": "Reboot", "ImpactSeconds": 5}),
    Kind("Freeze", {"EventType": "Freeze", "ImpactSeconds": 7}),
    Kind("Redeploy", {"EventType": "Redeploy", "ImpactSeconds": 11}),
    Kind("reimage", {"EventType": "Redeploy", "Description": "reimage", "ImpactSeconds": 11}),
    Kind("cancelled", {"EventType": "Reboot", "ImpactSeconds": 5}, cancelled=True),
    Kind("no notice", {"EventType": "Reboot", "EventStatus": "Started", "ImpactSeconds": 5}, notice=False),
    Kind("Preempt, 30 s", {"EventType": "Preempt", "NoticeSeconds": 30, "ImpactSeconds": 5}),
)
# The host is taken out and waits for somebody's approval. So the event can be cancelled at a moment at which the host is out.
PREPARE = [{"name": "leave the approval to others", "action": "prepare"}]
CANCEL_AFTER = 8.0
# The longest answer lasts four seconds. Before an impact as much time passes, so that it costs no request that began in the time of the event before.
REST = 4.5


class Span(NamedTuple):
    """From the moment at which an event was visible until everything was as before."""

    visible: float
    ended: float
    status: int | None = None
    outcome: str | None = None


class Requests:
    """What a running load has written so far: its files are read as they grow."""

    def __init__(self, folder):
        self.rows = []
        self._streams = {}
        self._folder = folder

    def read(self):
        for path in sorted(self._folder.glob("load*.csv")):
            stream = self._streams.setdefault(path, path.open(encoding="utf-8", newline=""))
            begin = stream.tell()
            text = stream.read()
            whole = text[: text.rfind("\n") + 1]
            stream.seek(begin + len(whole))
            for start, seconds, outcome, backend, kind, connection in csv.reader(whole.splitlines()):
                if start != load.COLUMNS[0]:
                    row = {"start": float(start), "seconds": float(seconds), "outcome": outcome, "backend": backend, "kind": kind, "connection": connection}
                    self.rows.append(dict(row, door=path.stem))
        return self.rows

    def close(self):
        for stream in self._streams.values():
            stream.close()


class Bed:
    """A booted bed with one front. ``seconds`` of the methods are those after which it is no use to wait longer."""

    def __init__(self, folder, provider, stage):
        self.provider = provider
        self.folder = folder
        self.guests = Guests(folder, web=3, front=provider.front)
        self.stage = stage
        self.requests = None
        self.playbooks = 0

    def __enter__(self):
        try:
            self.guests.bed("--lifetime", "3600", "up")
        except BaseException:
            self.guests.bed("down")
            raise
        return self

    def __exit__(self, *failure):
        self.guests.bed("down")

    # The load

    def begin_load(self, rate):
        self.guests.bed("load-start", "--rate", str(rate), "--long-every", str(LONG_EVERY))
        self.requests = Requests(self.folder)
        self.until(lambda: any(row["backend"] == HOST for row in self.requests.read()), f"an answer of {HOST}", 20)

    def end_load(self):
        """Every request, and what the balancer has logged."""
        self.guests.bed("load-stop")
        rows = self.requests.read()
        self.requests.close()
        # A balancer on a guest keeps no log.
        log = json.loads(self.guests.bed("front-log")) if self.provider.front in ("probe", "azure", "row") else []
        return rows, log

    def highest(self, rates, seconds=5):
        """The first of these rates that the machine gives, with nobody else at work."""
        for rate in rates:
            self.begin_load(rate)
            time.sleep(seconds)
            rows, _log = self.end_load()
            took = max(row["start"] for row in rows) - min(row["start"] for row in rows)
            if len(rows) >= 0.97 * rate * took and all(row["outcome"] == load.OK for row in rows) and load.summary(rows)["longest_pause"] < 0.5:
                return rate
        return rates[-1]

    # Events

    def until(self, condition, what, seconds=PATIENCE):
        until(condition, seconds, f"{self.provider.name}: {what}", pause=0.2)

    def announce(self, kind, **fields):
        """A new event, and when it was visible."""
        if not kind.notice:
            time.sleep(REST)
        event_id = self.guests.ask_simulator("/events", {"Resources": [VM], "SettleSeconds": 0, **kind.fields, **fields})["EventId"]
        return event_id, self.event(event_id)["History"][0]["Time"]

    def event(self, event_id):
        (event,) = [event for event in self.guests.ask_simulator("/events") if event["EventId"] == event_id]
        return event

    def await_end(self, event_id):
        self.until(lambda: self.event(event_id)["EventStatus"] in ("Completed", "Cancelled"), "the event's end")

    def await_service(self):
        """Until the host answers again; the moment after which all that began is over."""
        since = time.time()
        self.until(lambda: sum(row["start"] > since and row["backend"] == HOST for row in self.requests.read()[-2000:]) > 5, f"{HOST} in service", 60)
        time.sleep(1.0)
        return time.time()

    def start_playbook(self, *arguments):
        """A playbook that watches, as a user would have it; started early enough to be watching."""
        self.playbooks += 1
        journal = self.folder / f"journal-{self.playbooks}.jsonl"
        inventories = (self.folder / "inventory.yml", SCENARIOS / "shared" / "inventory", SCENARIOS / self.provider.scenario / "inventory")
        words = [word for path in inventories for word in ("-i", str(path))]
        environment = playbook.surroundings(
            self.stage.configuration, self.stage.world.socket_folder, ANSIBLE_REMOTE_TEMP="/tmp/ansible", **self.provider.environment
        )
        with (self.folder / f"playbook-{self.playbooks}.log").open("w") as log:
            process = subprocess.Popen(
                [playbook.program(), *words, WATCH, "-e", "target=web", "-e", f"handle_events_journal={journal}", *arguments],
                stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment, cwd=str(ROOT),
            )  # fmt: skip
        try:
            self.until(lambda: process.poll() is not None or (journal.exists() and journal.stat().st_size), "the first pass", 60)
        except BaseException:
            process.terminate()
            raise
        if process.poll() is not None:
            raise StageError(f"{self.provider.name}: the playbook ended before the event: {self.said()}")
        return process

    def said(self):
        return (self.folder / f"playbook-{self.playbooks}.log").read_text(encoding="utf-8", errors="replace")[-1500:]

    def handled(self, kind):
        """An event of that kind with the playbook."""
        process = self.start_playbook(*(["-e", json.dumps({"graceful_azure_rules": PREPARE})] if kind.cancelled else []))
        try:
            event_id, visible = self.announce(kind)
            if kind.cancelled:
                time.sleep(CANCEL_AFTER)
                self.guests.ask_simulator(f"/events/{event_id}/cancel", {})
            self.until(lambda: process.poll() is not None, "the playbook's end")
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        self.await_end(event_id)
        return Span(visible, self.await_service(), process.returncode, self.event(event_id)["EventStatus"])

    def hit(self, kind):
        """The same impact, and nobody does anything."""
        event_id, visible = self.announce(kind, NoticeSeconds=REST)
        self.await_end(event_id)
        return Span(visible, self.await_service())

    def state(self):
        """What the balancer itself says of its servers."""
        return json.loads(self.guests.bed("front-state"))


# What became of an event


def outcome(span, rows, log):
    """The figures of one event: what became of the requests that began in its time, and when the host was out."""
    mine = [row for row in rows if span.visible <= row["start"] <= span.ended]
    told = load.summary(mine)
    out = told["backends"].get(HOST) or {"longest_gap": None}
    lasted = span.ended - span.visible
    return {
        "requests": told["requests_total"],
        "failed": told["requests_failed"],
        "failed_new": told["connections"]["new"]["failed"],
        "failed_kept": told["connections"]["kept"]["failed"],
        "longest_pause": told["longest_pause"],
        "out": out["longest_gap"],
        "last_new": last_new(span, mine, log),
        "rate": told["requests_total"] / lasted if lasted else None,
        "status": span.status,
        "event_status": span.outcome,
        "failures": told["failures"][:20],
    }


def last_new(span, rows, log):
    """Seconds from the moment at which the event was visible until the last new connection (where the balancer forwards connections) or request (where
    it forwards requests) came to the host before it was out; None if it was never out."""
    moments = []
    for door in sorted({row["door"] for row in rows}):
        starts = [row["start"] for row in rows if row["door"] == door and row["backend"] == HOST and row["outcome"] == load.OK]
        gap = load.longest_gap(starts)
        if gap is None:
            return None
        # Only the first door may be one that forwards connections.
        if log and door == "load":
            accepted = [entry["accepted"] for entry in log if entry.get("server") == HOST and span.visible <= entry.get("accepted", 0.0) <= span.ended]
            gap = load.longest_gap([span.visible, *accepted, span.ended])
        moments.append(gap[1])
    return max(moments) - span.visible if moments else None


def words(figures, provider, control=False):
    """One event in words."""
    said = f"{failed_words(figures, provider)} of {figures['requests']:,} failed, longest pause {proven.seconds(figures['longest_pause'])}"
    if figures["out"] is not None:
        said += f", out for {proven.seconds(figures['out'])}"
    if not control and figures["last_new"] is not None:
        said += f", the last new {'connection' if provider.front in ('probe', 'azure') else 'request'} after {proven.seconds(figures['last_new'])}"
    return said


def failed_words(figures, provider):
    if provider.name == NO_KEPT and figures["failed"]:
        return f"{figures['failed_new']} (new connections) and {figures['failed_kept']} (kept open)"
    return f"{figures['failed']}"


def is_right(kind, figures, provider):
    """Whether what must not happen did not; None where nothing can be promised."""
    if figures["status"] != 0:
        return False
    if not kind.notice:
        return None
    return (figures["failed_new"] if provider.name == NO_KEPT else figures["failed"]) == 0


def row(provider, kind, figures, control, rate, what=""):
    return {
        "what": f"{provider.name}, {kind.name}{what}",
        "ours": words(figures, provider),
        "peer": words(control, provider, control=True) if control else "nothing happens",
        "ok": is_right(kind, figures, provider),
        "figures": {"provider": provider.name, "event": kind.name, "rate": rate, "with": figures, "without": control},
    }


# The part


def of_provider(stage, provider, rate=None, kinds=KINDS, highest=False):
    """Its rows, and the rate that the load had."""
    with Bed(stage.folder / f"bed-{provider.front}", provider, stage) as bed:
        rate = rate or bed.highest(RATES)
        before = bed.state()
        bed.begin_load(rate)
        spans = {kind.name: bed.handled(kind) for kind in kinds}
        after = settled(bed, before)
        without = {kind.name: bed.hit(kind) for kind in kinds if not kind.cancelled}
        rows, log = bed.end_load()
        told = [
            row(provider, kind, outcome(spans[kind.name], rows, log), without.get(kind.name) and outcome(without[kind.name], rows, log), rate) for kind in kinds
        ]
        told.append(
            {
                "what": f"{provider.name}: what the balancer says of its servers after these events",
                "ours": "as before" if after == before else f"was {before}, is {after}",
                "peer": "",
                "ok": after == before,
            }
        )
        if highest:
            most = bed.highest(HIGHEST_RATES)
            bed.begin_load(most)
            with_it, without_it = bed.handled(kinds[0]), bed.hit(kinds[0])
            rows, log = bed.end_load()
            told.append(row(provider, kinds[0], outcome(with_it, rows, log), outcome(without_it, rows, log), most, f", at {most} requests/s"))
    return told, rate


def settled(bed, before, patience=15):
    """What the balancer says, once its checks have seen that the host is back."""
    deadline = time.monotonic() + patient(patience)
    while (state := bed.state()) != before and time.monotonic() < deadline:
        time.sleep(1)
    return state


def machine():
    """In words."""
    model = next((line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "unknown")
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / 1048576
    return f"{os.cpu_count()} cores ({model}), {memory:.0f} GB of memory"


def providers(stage):
    """Every provider with every kind of event."""
    if os.geteuid() != 0:
        return [{"what": "providers", "ours": "not run: real hosts are booted by root alone", "peer": ""}]
    told, rate = [{"what": "the machine", "ours": machine(), "peer": "", "figures": {"machine": machine()}}], None
    for provider in PROVIDERS:
        try:
            rows, rate = of_provider(stage, provider, rate, highest=provider.name == "haproxy")
            told += rows
        except (StageError, AssertionError, SimulatorError, OSError, subprocess.SubprocessError, pytest.fail.Exception) as failure:
            told.append({"what": provider.name, "ours": str(failure), "peer": "", "ok": False})
    return told
