# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The examples of docs/examples, each with the real balancer that it is for, three web servers and a load."""

from __future__ import annotations

import contextlib
import os
import time

import pytest

from tests.support.own_balancers import UML, Apache, Envoy, Ipvs, in_thread
from tests.support.own_steps import write_switch
from tests.support.patience import patient
from tests.support.processes import find_program
from tests.support.simulator import SHORT
from tests.support.site import Site
from tests.support.sshd import SSHD
from tests.support.web import SwitchedWeb

pytestmark = pytest.mark.timeout(240)

# In tests/setup.sh, root installs what is needed.
APACHE_NEEDED = pytest.mark.skipif(not find_program("apache2"), reason="no apache2: apt-get install apache2-bin")
IPVS_NEEDED = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces are made by root alone: sudo make test"),
    pytest.mark.skipif(
        not all([SSHD, *map(find_program, ("ip", "ipvsadm", "insmod", UML))]),
        reason="no IPVS: apt-get install ipvsadm kmod user-mode-linux openssh-server iproute2",
    ),
]


def see_a_reboot_through(site):
    """A reboot of web1 and web3 under load. web1 is out during the impact, in which its web server is dead. An operator had web3 disabled, and it stays so."""
    site.disable("web3")
    before = site.state()
    assert [name for name in site.names if site.is_out(name)] == ["web3"]
    checked = site.run("handle_events", "--check")
    assert checked.status == 0, checked.output
    began = time.time()
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1", "web3"], ImpactSeconds=2, SettleSeconds=1)
    process = site.start("handle_events", handle_events_timeout=patient(200))
    site.reach(process, lambda: "Started" in site.simulator.statuses(event_id), "the event is started", 120)
    hit = time.time()
    assert [name for name in site.names if site.is_out(name)] == ["web1", "web3"]
    site.kill_web("web1")
    time.sleep(1.5)
    assert site.is_out("web1")
    up = time.time()
    site.start_web("web1")
    run = site.finish(process)
    assert run.status == 0, run.output
    event = run.event(event_id)
    assert event["outcome"] == "completed"
    assert {name: said["state"] for name, said in event["hosts"].items()} == {"web1": "restored", "web3": "restored"}
    assert len(site.simulator.event(event_id)["Approvals"]) == 1
    assert site.state() == before
    assert site.own_records() == [] and site.records() == []
    over = time.time()
    time.sleep(1.0)
    requests = site.requests()
    assert len(requests) > 200 and [request for request in requests if request["outcome"] != "ok"] == []
    by_web1 = [request["start"] for request in requests if request["backend"] == "web1"]
    assert [start for start in by_web1 if start < began] and [start for start in by_web1 if start > over]
    assert not [start for start in by_web1 if hit < start < up]
    assert not [request for request in requests if request["backend"] == "web3" and request["start"] > began]
    print(f"{len(requests)} requests, 0 failed, approved after {hit - began:.1f} s, back after {over - began:.1f} s")


# The example of Envoy shows the same in make test, and these two take the longest.
@pytest.mark.long
@APACHE_NEEDED
def test_apache(tmp_path):
    with contextlib.closing(Apache(tmp_path)) as site:
        see_a_reboot_through(site)


# The task files of the page are parsed by test_docs.py; a way out of the user's own is in test_roles_load_balancer.py.
@pytest.mark.long
def test_envoy(tmp_path):
    with contextlib.closing(Envoy(tmp_path)) as site:
        see_a_reboot_through(site)


# It boots a kernel of its own.
@pytest.mark.long
@IPVS_NEEDED[0]
@IPVS_NEEDED[1]
def test_ipvs(tmp_path):
    def work():
        Ipvs.enter()
        with contextlib.closing(Ipvs(tmp_path)) as site:
            see_a_reboot_through(site)

    try:
        in_thread(work)
    finally:
        Ipvs.remove()


def test_a_way_out_that_makes_the_answer_fail(tmp_path):
    """It is said before the event, and again while the host waits for that answer."""
    switch = tmp_path / "maintenance"
    with contextlib.closing(Site(tmp_path)) as site:
        site.listeners["web1"].close()
        site.listeners["web1"] = SwitchedWeb(switch)
        site.write_inventory({"graceful_azure_duties": [{"type": "tasks", "traffic": True, **write_switch(tmp_path, switch)}]})
        site.simulator.post_event(EventType="Reboot", Resources=["web1"], **SHORT)
        process = site.start("handle_events", handle_events_timeout=patient(200))
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "your own task file took it out" in line:
                switch.unlink()
                break
        run = site.finish(process)
        output = "".join(lines) + run.output
        assert run.status == 0, output
        # A line is said again after a while.
        told, *_again = [number for number, line in enumerate(lines) if "does not since your own task file takes it out" in line]
        waits, *_again = [number for number, line in enumerate(lines) if "  restoring  " in line and "still to be put back" in line]
        assert told < waits, output
