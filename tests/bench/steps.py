# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each type of drain step for clusters costs, beside the playbook that one writes by hand for the same product.

For each type one cluster runs. The same member of it gets a Reboot again and again. In turn the collection takes it through with the ready-made step, and the
hand-written playbook of playbooks/steps. Clients use the cluster meanwhile. ``sights.py`` says when the member is drained and when it is back.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path
from unittest import mock

import pytest

from tests.bench.figures import seconds
from tests.bench.providers import machine
from tests.bench.sights import SIGHTS
from tests.bench.stage import COLLECTIONS, HERE, StageError, middle
from tests.demo import records
from tests.support.checkout import BUILD, SURROUNDINGS
from tests.support.cluster_members import KINDS
from tests.support.cluster_site import NEEDED, ClusterSite
from tests.support.patience import patient
from tests.support.processes import kill_all

OURS = "watch_events"
ROUNDS = 4
LONGEST = 200.0
PEERS = HERE / "playbooks" / "steps"
# One that has waited for this long is watching, whatever the machine has to do.
WATCHING = 2.0
# Seconds after the start of the event in which the member must be seen drained: whoever approves is to have waited for it.
EARLY = 2.0
# Seconds for which the event stands when the member is up again. Azure's are minutes.
SETTLED = 5.0


def visible_at(simulator, event_id):
    return records.history_time(simulator.event(event_id), "Scheduled")


class Run:
    """One Reboot of a member, with one of the playbooks."""

    def __init__(self, site, members, playbook, waiting, log):
        self.site, self.members, self.playbook, self.waiting, self.log = site, members, playbook, waiting, log

    def play(self):
        """The figures: seconds from the moment at which the event was visible, or gone, and what clients got."""
        members, simulator = self.members, self.site.simulator
        members.state()
        name = members.chosen()
        process = self.site.start(self.playbook, handle_events_timeout=patient(LONGEST), log=self.log)
        try:
            self._await_watching(process)
            with members.use() as got, SIGHTS[members.step["type"]](members, name) as sight:
                time.sleep(self.waiting)
                event_id = simulator.post_event(EventType="Reboot", Resources=[name], ImpactSeconds=None, SettleSeconds=1)
                self._until(process, lambda: "Started" in simulator.statuses(event_id), "the event is started")
                # The looks come now and then, and whoever approves has looked by itself.
                self._until(process, lambda: sight.when("out", visible_at(simulator, event_id)), f"{name} is {sight.drained}", EARLY)
                members.reboot(self.site, name)
                sight.await_up()
                time.sleep(SETTLED)
                simulator.complete(event_id)
                self._until(process, lambda: process.poll() is not None, "the playbook ends")
                ended = time.time()
                event = simulator.event(event_id)
                gone = records.history_time(event, "Completed")
                self._until(None, lambda: sight.when("back", gone), f"{name} is back")
        except BaseException:
            kill_all(process.pid)
            raise
        if process.returncode != 0:
            raise StageError(f"{self.playbook} ended with {process.returncode}: {self.log.read_text(encoding='utf-8')[-3000:]}")
        visible, approved = visible_at(simulator, event_id), event["Approvals"][0]["Time"]
        drained = sight.when("out", visible)
        return {
            "member": name,
            "drained": drained - visible,
            "approved": approved - visible,
            "back": sight.when("back", gone) - gone,
            "ended": ended - gone,
            "what": got.what,
            "done": got.done,
            "lost": len(got.lost),
            "longest_gap": got.longest_gap,
        }

    def _await_watching(self, process):
        """Until the playbook has asked the metadata service of each host for events, and waits for one."""
        begun = time.time()
        asked = {}

        def is_watching():
            new = [ask for ask in self.site.simulator.requests() if ask["Time"] >= begun and "/scheduledevents" in ask["Path"]]
            asked.update((ask["Vm"], True) for ask in new)
            return len(asked) == len(self.site.names)

        self._until(process, is_watching, "the playbook watches")
        time.sleep(WATCHING)

    def _until(self, process, condition, what, patience=LONGEST):
        deadline = time.monotonic() + patient(patience)
        while not condition():
            if process and process.poll() is not None and not condition():
                raise StageError(f"{self.playbook} ended with {process.returncode} before this: {what}: {self.log.read_text(encoding='utf-8')[-3000:]}")
            if time.monotonic() > deadline:
                raise StageError(f"{self.playbook}: not within {patience:.0f} s: {what}")
            time.sleep(0.05)


def of_type(stage, kind, rounds=ROUNDS):
    """The figures of one type of cluster: those of each run, ours and the peer's."""
    members_class = KINDS[kind]
    folder = stage.folder / f"steps-{kind}"
    (folder / "cluster").mkdir(parents=True)
    told = {"ours": [], "peer": []}
    playbooks = {"ours": OURS, "peer": str(PEERS / f"{kind}.yml")}
    # The path of a Unix socket is short.
    with members_class.started(folder / "cluster") as cluster, tempfile.TemporaryDirectory(prefix="graceful-azure-") as short:
        members = members_class(cluster)
        site = ClusterSite(Path(short), members.nodes, **members.step)
        try:
            for number in range(rounds):
                pair = ("ours", "peer") if number % 2 == 0 else ("peer", "ours")
                # Both ask every second. Events that always came at the same moment of that second would flatter one of the two.
                waiting = 0.1 + 1.2 * number / rounds
                for who in pair:
                    told[who].append(Run(site, members, playbooks[who], waiting, folder / f"{who}-{number}.log").play())
                    if who == "ours" and site.records():
                        raise StageError(f"{kind}: these records are left: {site.records()}")
        finally:
            site.close()
    return told


def rows_of(kind, told):
    """The rows of the table for one type."""
    rounds = len(told["ours"])

    def values(who, key):
        return [run[key] for run in told[who]]

    def row(what, key):
        ours, peer = values("ours", key), values("peer", key)
        ratio = middle(ours) / middle(peer) if middle(peer) > 0.1 else None
        return {
            "what": f"{kind}: {what}" + ("" if ratio is None else f", ratio {ratio:.2f}"),
            "ours": seconds(ours),
            "peer": seconds(peer),
            "figures": {"type": kind, "figure": key, "ours": ours, "peer": peer, "ratio": ratio},
        }

    what = told["ours"][0]["what"]
    lost = {who: sum(values(who, "lost")) for who in told}
    return [
        row(f"visible to drained ({rounds} runs each)", "drained"),
        row("visible to approved", "approved"),
        row("gone to back", "back"),
        row("gone to the playbook's end", "ended"),
        {
            "what": f"{kind}: {what} lost",
            **{who: lost_words(told[who], what) for who in told},
            "ok": lost["ours"] == 0,
            "figures": {"type": kind, "figure": "lost", "runs": told},
        },
    ]


def lost_words(runs, what):
    gaps = [run["longest_gap"] for run in runs if run["longest_gap"] is not None]
    words = f"{sum(run['lost'] for run in runs)} of {sum(run['done'] for run in runs):,}"
    return words + (f", longest pause {seconds(gaps)}" if gaps else "")


def why_not(kind):
    """Why this machine has no such cluster; None if it can have one."""
    return next((mark.kwargs["reason"] for mark in (*NEEDED, *KINDS[kind].needed) if mark.args[0]), None)


def steps(stage, kinds=tuple(SIGHTS), rounds=ROUNDS):
    """Every type of cluster, one after the other."""
    rows = [{"what": "the machine", "ours": machine(), "peer": "", "figures": {"machine": machine()}}]
    with mock.patch.dict(os.environ, surroundings()):
        for kind in kinds:
            missing = why_not(kind)
            if missing:
                rows.append({"what": kind, "ours": f"not run: {missing}", "peer": ""})
                continue
            try:
                rows += rows_of(kind, of_type(stage, kind, rounds))
            except (StageError, OSError, AssertionError, subprocess.SubprocessError, pytest.fail.Exception) as failure:
                rows.append({"what": kind, "ours": str(failure), "peer": "", "ok": False})
    return rows


def surroundings():
    """What Ansible is told, and where it is."""
    return {**SURROUNDINGS, "ANSIBLE_COLLECTIONS_PATH": COLLECTIONS, "PATH": os.pathsep.join([str(BUILD / "venv" / "bin"), os.environ["PATH"]])}
