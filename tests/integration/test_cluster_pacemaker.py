# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes of a real Pacemaker, taken out for an event and given back: by the module, and by handle_events."""

from __future__ import annotations

import json
import os
import sys
import time

import pytest

from tests.support.cluster_bed import EVENT, Bed, only
from tests.support.cluster_site import see_one_of_two_events_gone
from tests.support.nodes import NODES
from tests.support.pacemaker import NEEDS, PROGRAMS, Cluster
from tests.support.patience import patient, until
from tests.support.simulator import SHORT

# tests/unit/plugins/module_utils/test_cluster.py and test_cluster_pacemaker.py hold the same with recorded answers, in a second.
pytestmark = [*NODES, NEEDS, pytest.mark.long, pytest.mark.timeout(300)]


class PacemakerBed(Bed):
    def __init__(self, cluster, folder):
        super().__init__(cluster, folder, type="pacemaker", name="ha", timeout=patient(20))

    def running(self, name="web1"):
        return self.cluster.running(self.cluster[name])

    def settled(self):
        """Wait until all resources run."""
        until(lambda: sum(self.running().values()) == self.cluster.resources, 30)


@pytest.fixture(name="cluster", scope="module")
def make_cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("pacemaker")) as cluster:
        yield cluster


@pytest.fixture(name="bed")
def make_bed(cluster, tmp_path):
    before = cluster.constraints(cluster["web1"])
    yield PacemakerBed(cluster, tmp_path)
    assert cluster.constraints(cluster["web1"]) == before


def test_out_drained_and_back(bed):
    dry = bed.hold(check=True)
    assert dry["changed"] and bed.records() == [] and bed.running()["web1"] > 0
    began = time.monotonic()
    held = bed.hold()
    assert held["done"] and held["changed"] and only(held)["condition"] == "held", held
    assert time.monotonic() - began < 15
    assert bed.running() == {"web1": 0, "web2": 3} and len(bed.records()) == 1
    again = bed.hold()
    assert again["done"] and not again["changed"]
    joined = bed.hold(event_ids=["another"])
    assert only(joined)["held_by"] == [EVENT, "another"]
    assert only(bed.release(event_ids=["another"]))["condition"] == "held"
    released = bed.release()
    assert released["done"] and released["changed"] and released["conflicts"] == [] and only(released)["serves"]
    assert bed.records() == [] and not bed.release()["changed"]
    bed.settled()


def test_a_resource_that_takes_long_to_stop_is_waited_for(bed):
    """Without a recurring monitor, crm_mon shows it nowhere while it stops."""
    web1 = bed.cluster["web1"]
    slow = (
        '<primitive id="slow" class="ocf" provider="pacemaker" type="Dummy"><instance_attributes id="slow-a"><nvpair id="slow-o" name="op_sleep" value="6"/>'
        '</instance_attributes><operations><op id="slow-t" name="stop" interval="0" timeout="60s"/></operations></primitive>'
    )
    prefers = '<rsc_location id="slow-1" rsc="slow" node="web1" score="1000"/>'
    web1.must("cibadmin", "--create", "--scope", "resources", "--xml-text", slow)
    web1.must("cibadmin", "--modify", "--allow-create", "--scope", "constraints", "--xml-text", prefers)

    def role():
        return next((one.get("role") for one in bed.cluster.status(web1).iter("resource") if one.get("id") == "slow"), None)

    try:
        until(lambda: role() == "Started" and bed.cluster.places(web1)["slow"] == ["web1"], 60)
        assert not bed.hold(timeout=0)["done"]
        until(lambda: bed.running()["web1"] == 0 and role() == "Stopping", 30)
        held = bed.hold(timeout=0)
        assert not held["done"] and held["waiting_for"] == "1 resource runs on web1", held
        assert bed.hold(timeout=patient(30))["done"] and role() != "Stopping"
    finally:
        web1.must("cibadmin", "--delete", "--xpath", "//rsc_location[@id='slow-1']")
        bed.release()
        web1.must("cibadmin", "--delete", "--xpath", "//primitive[@id='slow']")
        until(lambda: "slow" not in bed.cluster.places(web1), 60)
        bed.settled()


def test_the_last_node_waits_unless_forced(bed):
    assert bed.hold("web2")["done"]
    waiting = bed.hold(timeout=0)
    assert waiting["waiting_for"] == "Pacemaker has no other node that is online and may run what runs on web1"
    assert not waiting["changed"] and bed.running()["web1"] == 3
    forced = bed.hold(force=True)
    assert forced["done"] and bed.running() == {"web1": 0, "web2": 0}
    assert bed.release()["done"] and bed.release("web2")["done"]
    bed.settled()


def test_a_node_waits_whose_resources_no_other_node_takes(bed):
    """A resource has failed on the other node, so Pacemaker runs it there no more until somebody clears that."""
    node, failures = bed.cluster["web2"], ("crm_attribute", "--type", "status", "--node", "web2", "--name", "fail-count-r1#start_0")
    node.must(*failures, "--update", "INFINITY")
    until(lambda: bed.cluster.places(node)["r1"] == ["web1"], 30)
    waiting = bed.hold(timeout=0)
    assert waiting["waiting_for"] == "without web1, Pacemaker would run this nowhere (crm_simulate): r1"
    assert not waiting["changed"] and bed.running()["web1"] > 0
    node.must(*failures, "--delete")
    assert bed.hold()["done"] and bed.running() == {"web1": 0, "web2": 3}
    assert bed.release()["done"]
    bed.settled()


def test_a_resource_of_one_node_alone_goes_down_with_it(bed):
    """By the configuration it may run nowhere else, so no waiting helps."""
    node = bed.cluster["web2"]
    node.must("cibadmin", "--create", "--scope", "constraints", "--xml-text", '<rsc_location id="alone" rsc="r1" node="web2" score="-INFINITY"/>')
    until(lambda: bed.cluster.places(node)["r1"] == ["web1"], 30)
    held = bed.hold()
    assert held["done"] and bed.cluster.places(node) == {"r1": [], "r2": ["web2"], "r3": ["web2"]}
    assert bed.release()["done"]
    node.must("cibadmin", "--delete", "--xpath", "//rsc_location[@id='alone']")
    bed.settled()


PROMOTABLE = """<clone id="pair"><meta_attributes id="pair-m"><nvpair id="pair-p" name="promotable" value="true"/></meta_attributes>
<primitive id="state" class="ocf" provider="pacemaker" type="Stateful"/></clone>"""


def test_a_node_waits_whose_resource_would_be_promoted_nowhere(bed):
    """The copy on the other node may not be promoted, as one whose data are behind."""
    node = bed.cluster["web2"]
    node.must("cibadmin", "--create", "--scope", "resources", "--xml-text", PROMOTABLE)
    ban = '<rsc_location id="behind" rsc="pair" node="web2" role="Master" score="-INFINITY"/>'
    node.must("cibadmin", "--create", "--scope", "constraints", "--xml-text", ban)
    until(lambda: bed.cluster.promoted_on(node) == ["web1"] and sum(bed.running().values()) == 5, 60)
    waiting = bed.hold(timeout=0)
    assert waiting["waiting_for"] == "without web1, Pacemaker would run this nowhere (crm_simulate): state (promoted)"
    node.must("cibadmin", "--delete", "--xpath", "//rsc_location[@id='behind']")
    assert bed.hold()["done"]
    until(lambda: bed.cluster.promoted_on(node) == ["web2"], 30)
    assert bed.release()["done"]
    node.must("crm_resource", "--resource", "pair", "--meta", "--set-parameter", "target-role", "--parameter-value", "Stopped")
    until(lambda: sum(bed.running().values()) == 3, 30)
    node.must("cibadmin", "--delete", "--xpath", "//clone[@id='pair']")
    bed.settled()


def test_a_lost_record(bed):
    bed.see_a_lost_record_given_back()


def test_an_operator_s_standby_stays(bed):
    node = bed.cluster["web2"]
    node.must("crm_attribute", "--node", "web1", "--name", "standby", "--update", "on")
    held = bed.hold()
    assert held["done"] and not held["changed"] and only(held)["condition"] == "taken_out_by_others" and bed.records() == []
    assert not bed.release()["changed"]
    assert node.must("crm_attribute", "--node", "web1", "--name", "standby", "--query", "--quiet").strip() == "on"
    node.must("crm_attribute", "--node", "web1", "--name", "standby", "--delete")
    until(lambda: bed.cluster.online(node) == {"web1", "web2"}, 30)


def test_what_an_operator_removed_is_told_and_left(bed):
    remove = ("cibadmin", "--delete", "--xpath", "//rsc_location[starts-with(@id, 'graceful-azure-web1')]")
    assert bed.hold()["done"]
    bed.cluster["web2"].must(*remove)
    told = bed.hold()
    assert told["conflicts"] and told["changed"] and told["done"]
    bed.cluster["web2"].must(*remove)
    told = bed.hold(timeout=0)
    assert not told["changed"] and not told["done"] and only(told)["condition"] == "changed_meanwhile"
    released = bed.release()
    assert released["conflicts"] and bed.records() == []
    bed.settled()


KILLER = """#!/bin/sh
%s
case "$*" in *--modify*|*--delete*) kill -9 $PPID;; esac
%s
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("way", ["out", "back"])
def test_killed_beside_the_change(bed, tmp_path, when, way):
    """The module is killed just before the cluster is told, or just after it."""
    programs = tmp_path / "killer"
    programs.mkdir()
    call = 'case "$*" in *--query*) exec /usr/sbin/cibadmin "$@";; esac'
    (programs / "cibadmin").write_text(KILLER % ((call, "") if when == "before" else (call + '\n/usr/sbin/cibadmin "$@"', "")))
    (programs / "cibadmin").chmod(0o755)
    killing = ("env", f"PATH={programs}:{os.environ['PATH']}")
    if way == "back":
        assert bed.hold()["done"]
    finish = (bed.hold if way == "out" else bed.release)(prefix=killing, wait=False)
    with pytest.raises(AssertionError):
        finish()
    (record,) = bed.folder.glob("*/*.json")
    assert json.loads(record.read_text())["phase"] == ("changing" if way == "out" else "restoring")
    is_set = "graceful-azure-web1" in bed.cluster.constraints(bed.cluster["web1"])
    assert is_set == ((way, when) in (("out", "after"), ("back", "before")))
    if way == "out":
        assert only(bed.hold())["condition"] == "held"
    released = bed.release()
    assert released["done"] and released["conflicts"] == [] and bed.records() == []
    bed.settled()


def test_a_cluster_that_does_not_answer(bed):
    """Its daemon is stopped, as on a host that swaps. Nothing is changed, and the error says which program hung."""
    node = bed.cluster["web1"]
    pid = node.must("pgrep", "pacemaker-based").strip()
    node.must("kill", "-STOP", pid)
    try:
        failed = bed.hold()
        assert failed["failed"] and "Pacemaker (ha): " in failed["msg"] and "within 10 seconds" in failed["msg"], failed
    finally:
        node.must("kill", "-CONT", pid)
    assert bed.records() == []
    until(lambda: bed.cluster.online(bed.cluster["web2"]) == {"web1", "web2"}, 30)
    bed.settled()


def test_a_reboot_of_the_node(bed):
    """What is set lies in the configuration of the cluster: the node comes back and runs nothing until it is given back."""
    assert bed.hold()["done"]
    node = bed.cluster["web1"]
    node.halt()
    until(lambda: bed.cluster.online(bed.cluster["web2"]) == {"web2"}, 30)
    early = bed.running("web2")
    bed.cluster.boot("web1")
    starting = bed.release(timeout=0)
    assert not starting["done"] and "Pacemaker (ha): " in starting["waiting_for"], starting
    bed.cluster.start(node)
    until(lambda: bed.cluster.online(bed.cluster["web2"]) == {"web1", "web2"}, 60, pause=0.3)
    assert early["web2"] == 3 and bed.running("web2") == {"web1": 0, "web2": 3}
    released = bed.release(timeout=patient(30))
    assert released["done"] and released["conflicts"] == [] and bed.records() == []
    bed.settled()


class TestHandleEvents:
    @pytest.fixture(name="ready")
    def connect(self, bed, site):
        """Hosts of Ansible that are the nodes, as far as Pacemaker is concerned."""
        duties = site.duties({"name": "ha", "type": "pacemaker"})
        hosts = {}
        for name in ("web1", "web2"):
            python = bed.cluster[name].wrappers(site.folder / "programs" / name, PROGRAMS)
            hosts[name] = {"ansible_python_interpreter": str(python), "graceful_azure_duties": duties}
        site.write_inventory(**hosts)
        return site

    @pytest.mark.parametrize("kind", ["Reboot", "Freeze"])
    def test_an_event(self, ready, bed, kind):
        event_id = ready.simulator.post_event(EventType=kind, Resources=["web1"], ImpactSeconds=2, SettleSeconds=1)
        process = ready.start("handle_events")
        ready.reach(process, lambda: bed.running()["web1"] == 0, "nothing runs on web1", 60)
        run = ready.finish(process)
        assert run.status == 0 and run.event(event_id)["outcome"] == "completed", run.output
        assert run.event(event_id)["hosts"]["web1"]["state"] == "restored"
        assert ready.records() == [] and set(ready.admin_states().values()) == {"ready"}
        bed.settled()

    def test_cancelled_and_two_in_a_row(self, ready, bed):
        """web2 waits until web1 is back. Its event is cancelled before."""
        first = ready.simulator.post_event(EventType="Reboot", Resources=["web1"], ImpactSeconds=2, SettleSeconds=1)
        second = ready.simulator.post_event(EventType="Reboot", Resources=["web2"], **SHORT)
        process = ready.start("handle_events", handle_events_timeout=patient(120))
        until(lambda: bed.running()["web1"] == 0, 60, "nothing runs on web1")
        assert bed.running()["web2"] == 3 and ready.admin_states()["web2"] == "ready"
        run = ready.finish(process)
        assert run.status == 0, run.output
        assert "members of the pacemaker cluster ha go out one after the other" in run.output
        assert {run.event(event)["outcome"] for event in (first, second)} == {"completed"}
        third = ready.simulator.post_event(EventType="Reboot", Resources=["web1"], NoticeSeconds=600, **SHORT)
        process = ready.start("handle_events", graceful_azure_rules=[{"name": "wait", "action": "prepare"}])
        until(lambda: bed.running()["web1"] == 0, 60, "nothing runs on web1")
        ready.simulator.cancel(third)
        run = ready.finish(process)
        assert run.status == 0 and run.event(third)["outcome"] == "cancelled", run.output
        assert ready.records() == []
        bed.settled()

    def test_one_of_two_events_gone(self, ready, bed):
        see_one_of_two_events_gone(ready, "web1", lambda: "graceful-azure-web1" in bed.cluster.constraints(bed.cluster["web2"]) and not bed.running()["web1"])
        bed.settled()

    def test_a_controller_that_is_killed(self, ready, bed):
        event_id = ready.simulator.post_event(EventType="Reboot", Resources=["web1"], **SHORT)
        process = ready.start("handle_events")
        until(lambda: "graceful-azure-web1" in bed.cluster.constraints(bed.cluster["web2"]), 60, "the constraint is set")
        ready.kill(process)
        run = ready.run()
        assert run.status == 0 and run.event(event_id)["outcome"] == "completed", run.output
        assert ready.records() == []
        bed.settled()

    def test_without_pacemaker_the_host_is_not_drained_and_the_reason_names_the_step(self, ready, bed):
        empty = ready.folder / "empty"
        empty.mkdir()
        python = empty / "python3"
        python.write_text(f'#!/bin/sh\nexec env PATH={empty} {sys.executable} "$@"\n')
        python.chmod(0o755)
        duties = ready.duties({"name": "ha", "type": "pacemaker", "node": "none"})
        ready.write_inventory(web1={"ansible_python_interpreter": str(python), "graceful_azure_duties": duties})
        event_id = ready.simulator.post_event(EventType="Reboot", Resources=["web1"], NoticeSeconds=600)
        other = ready.simulator.post_event(EventType="Reboot", Resources=["web2"], **SHORT)
        run = ready.run(handle_events_timeout=patient(45), graceful_azure_min_in_service=0)
        assert "Pacemaker (ha): " in run.event(event_id)["hosts"]["web1"]["reason"], run.output
        assert ready.simulator.event(event_id)["Approvals"] == [] and run.event(other)["outcome"] == "completed"
