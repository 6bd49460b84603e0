# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A site whose hosts are members of a real cluster."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import time
import uuid

import pytest

from tests.support.patience import patient, until
from tests.support.site import Site

NEEDED = [
    pytest.mark.skipif(os.geteuid() != 0, reason="a host gets another boot id by root alone: sudo make test"),
    pytest.mark.skipif(not shutil.which("unshare"), reason="no unshare: apt-get install util-linux"),
]
# Python as it runs on a host whose boot id is in a file.
INTERPRETER = """\
#!/bin/sh
exec env {surroundings} unshare -m sh -c 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"' {boot} {python} "$@"
"""


def see_one_of_two_events_gone(site, name, is_out):
    """A second event names a host of a site that is out for another one, which is cancelled then. The host stays out until the second one is over."""

    def holders():
        return [set(json.loads(path.read_text())["events"]) for path in site.records() if "cluster" in path.name]

    def reads():
        return sum(request["Method"] == "GET" and request["Vm"] == name for request in site.simulator.requests())

    first = site.simulator.post_event(EventType="Reboot", Resources=[name], NoticeSeconds=600)
    process = site.start("handle_events", graceful_azure_rules=[{"name": "wait", "when": "event_type == 'Reboot'", "action": "prepare"}])
    site.reach(process, is_out, f"{name} is out")
    second = site.simulator.post_event(EventType="Freeze", Resources=[name], NoticeSeconds=600, ImpactSeconds=None, SettleSeconds=1)
    site.reach(process, lambda: "Started" in site.simulator.statuses(second), "the second event is approved")
    assert holders() == [{first, second}] and is_out()
    site.simulator.cancel(first)
    before = reads()
    site.reach(process, lambda: reads() > before + 4, "the run has seen that the first event is gone")
    assert second in holders()[0] and is_out()
    site.simulator.complete(second)
    run = site.finish(process)
    assert run.status == 0, run.output
    assert [run.event(event_id)["outcome"] for event_id in (first, second)] == ["cancelled", "completed"], run.output
    assert run.event(second)["hosts"][name]["state"] == "restored" and not is_out() and site.records() == [], run.output


class ClusterSite(Site):
    """``nodes`` are the members of the cluster by the names of the hosts: each can ``stop`` and ``start``. ``step`` are the options that all share.

    A node may have ``surroundings``, the environment of whatever runs on its host, and ``booted``, which is told the boot id at each boot.
    """

    def __init__(self, folder, nodes, variables=None, **step):
        super().__init__(folder, names=tuple(nodes))
        self.nodes = nodes
        hosts = {}
        for name, node in nodes.items():
            interpreter = folder / f"python-{name}"
            surroundings = " ".join(shlex.quote(f"{key}={value}") for key, value in getattr(node, "surroundings", {}).items())
            interpreter.write_text(INTERPRETER.format(surroundings=surroundings, boot=self._boot(name), python=sys.executable))
            interpreter.chmod(0o755)
            self.boot(name)
            hosts[name] = {"ansible_python_interpreter": str(interpreter), "graceful_azure_duties": [dict(step, **node.options)]}
        # No balancer knows them.
        self.write_inventory(variables, **hosts)

    def _boot(self, name):
        return self.folder / f"boot-{name}"

    def boot(self, name):
        """The host has another boot from now on."""
        boot_id = str(uuid.uuid4())
        self._boot(name).write_text(boot_id + "\n")
        if hasattr(self.nodes[name], "booted"):
            self.nodes[name].booted(boot_id)

    def reboot(self, name):
        """A host goes down in an orderly way, as when Azure reboots it, and comes up again."""
        self.nodes[name].stop()
        self.boot(name)
        time.sleep(1)
        self.nodes[name].start()

    def see_through(self, kind, name, impact, **more):
        """One event of a host from its notice to its end. Returns the run and the event's id."""
        event_id = self.simulator.post_event(EventType=kind, Resources=[name], ImpactSeconds=None, SettleSeconds=1)
        process = self.start("handle_events", **{"handle_events_timeout": patient(150), **more})
        self.reach(process, lambda: "Started" in self.simulator.statuses(event_id), "the event is started")
        impact(name)
        self.simulator.complete(event_id)
        run = self.finish(process)
        assert run.status == 0, run.output
        assert run.event(event_id)["hosts"][name]["state"] == "restored", run.output
        assert self.records() == []
        return run

    def see_killed_and_continued(self, name, recorded=100, started=120):
        """A Reboot whose run is killed as soon as there is a record, and that the next run sees through. ``recorded``, ``started``: seconds to wait."""
        event_id = self.simulator.post_event(EventType="Reboot", Resources=[name], ImpactSeconds=None, SettleSeconds=1)
        process = self.start("handle_events")
        until(lambda: any("cluster" in path.name for path in self.records()), recorded, "there is a record")
        self.kill(process)
        process = self.start("handle_events", handle_events_timeout=patient(150))
        self.simulator.wait_for(event_id, "Started", started)
        self.reboot(name)
        self.simulator.complete(event_id)
        run = self.finish(process)
        assert run.status == 0 and run.event(event_id)["hosts"][name]["state"] == "restored", run.output
        assert self.records() == []

    def see_cancelled(self, name, is_out, **more):
        """An event that is cancelled when the host is out."""
        event_id = self.simulator.post_event(EventType="Reboot", Resources=[name])
        process = self.start("handle_events", graceful_azure_rules=[{"name": "wait", "action": "prepare"}], **{"handle_events_timeout": patient(150), **more})
        self.reach(process, is_out, f"{name} is out")
        self.simulator.cancel(event_id)
        run = self.finish(process)
        assert run.status == 0, run.output
        assert run.event(event_id)["outcome"] == "cancelled", run.output
        assert run.event(event_id)["hosts"][name]["state"] == "restored", run.output
        assert self.records() == []
        return run
