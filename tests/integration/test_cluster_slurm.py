# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes of a real Slurm, drained for an event while jobs run, and given back."""

from __future__ import annotations

import pytest

from tests.support.cluster_bed import Bed, only
from tests.support.nodes import NODES
from tests.support.patience import patient, until
from tests.support.simulator import SHORT
from tests.support.slurm import NEEDS, PROGRAMS, Cluster

# tests/unit/plugins/module_utils/test_cluster.py and test_cluster_slurm.py hold the same with recorded answers, in a second.
pytestmark = [*NODES, NEEDS, pytest.mark.long, pytest.mark.timeout(300)]


class SlurmBed(Bed):
    def __init__(self, cluster, folder):
        super().__init__(cluster, folder, type="slurm", name="batch", timeout=patient(30))

    def is_as_before(self):
        """For a moment after it is resumed, the controller does not know whether the node responds."""
        until(lambda: self.shown() == ("IDLE", ""), 30)

    def shown(self, name="web1"):
        """State and reason, as the controller keeps them."""
        return self.cluster.state(name), self.cluster.reason(name)


@pytest.fixture(name="cluster", scope="module")
def make_cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture(name="bed")
def make_bed(cluster, tmp_path):
    yield SlurmBed(cluster, tmp_path)
    try:
        until(lambda: all(cluster.state(name) == "IDLE" for name in cluster.workers), 30)
    finally:
        # A test that failed leaves nothing to the next one.
        cluster["ctl"].run("scancel", "--user=root")
        cluster["ctl"].run("scontrol", "update", f"nodename={','.join(cluster.workers)}", "state=resume")


def test_no_job_is_lost(bed):
    """Jobs come all the time. The one that runs ends in peace, no new one starts on the node, and each job is done once."""
    done = bed.folder / "done"
    done.mkdir()

    def submit(script, *options):
        return bed.cluster.submit(f"{script}; hostname >> {done}/$SLURM_JOB_ID", *options)

    first = submit(f"until [ -e {bed.folder}/enough ]; do sleep 0.2; done", "--nodelist=web1")
    until(lambda: bed.cluster.jobs().get(first) == ["RUNNING", "web1"], 30)
    jobs = [first, *(submit("sleep 1") for _number in range(8))]
    at_once = bed.hold(timeout=0)
    assert not at_once["done"] and at_once["waiting_for"].endswith("on web1") and bed.shown()[1].startswith("graceful.azure: Azure scheduled event (")
    (bed.folder / "enough").touch()
    held = bed.hold()
    assert held["done"] and only(held)["condition"] == "held" and bed.shown()[0] == "IDLE+DRAIN"
    later = [submit("sleep 1") for _number in range(4)]
    until(lambda: bed.cluster.jobs() == {}, 60)
    assert {(done / job).read_text() for job in later} == {"web2\n"}
    assert [(done / job).read_text().count("\n") for job in jobs + later] == [1] * 13
    released = bed.release()
    assert released["done"] and released["conflicts"] == [] and bed.records() == []
    bed.is_as_before()


def test_check_mode_and_a_second_run(bed):
    assert bed.hold(check=True)["changed"] and bed.shown() == ("IDLE", "") and bed.records() == []
    assert bed.hold()["changed"] and not bed.hold()["changed"]
    assert bed.release(check=True)["changed"] and bed.shown()[0] == "IDLE+DRAIN"
    assert bed.release()["changed"] and not bed.release()["changed"]


def test_a_long_job_is_requeued_if_that_is_wanted(bed):
    job = bed.cluster.submit("sleep 120", "--nodelist=web1")
    until(lambda: bed.cluster.jobs().get(job) == ["RUNNING", "web1"], 30)
    held = bed.hold(options={"requeue": True})
    assert held["done"], held
    assert bed.cluster.jobs()[job] == ["PENDING"]
    bed.cluster["ctl"].must("scancel", job)
    assert bed.release()["done"]


def test_a_lost_record(bed):
    bed.see_a_lost_record_given_back()


def test_what_an_administrator_drained_stays(bed):
    bed.cluster["ctl"].must("scontrol", "update", "nodename=web1", "state=drain", "reason=disk is broken")
    held = bed.hold()
    assert held["done"] and not held["changed"] and only(held)["condition"] == "taken_out_by_others"
    assert not bed.release()["changed"] and bed.shown() == ("IDLE+DRAIN", "disk is broken")
    bed.cluster["ctl"].must("scontrol", "update", "nodename=web1", "state=resume")


@pytest.mark.parametrize(("words", "left"), [(("state=resume",), ("IDLE", "")), (("state=drain", "reason=mine now"), ("IDLE+DRAIN", "mine now"))])
def test_what_an_administrator_changed_is_told_and_left(bed, words, left):
    assert bed.hold()["done"]
    bed.cluster["ctl"].must("scontrol", "update", "nodename=web1", *words)
    assert bed.hold()["conflicts"]
    if left == ("IDLE", ""):
        # It was drained once more. Who resumes it for the second time wants it so.
        until(lambda: bed.shown()[0] == "IDLE+DRAIN" and bed.shown()[1].startswith("graceful.azure: Azure scheduled event ("), 30)
        bed.cluster["ctl"].must("scontrol", "update", "nodename=web1", *words)
        assert not bed.hold(timeout=0)["done"]
    # On a busy machine a node may not answer for a moment, and Slurm shows that, too.
    until(lambda: bed.shown() == left, 30)
    released = bed.release()
    assert released["conflicts"] and bed.records() == []
    until(lambda: bed.shown() == left, 30)
    bed.cluster["ctl"].run("scontrol", "update", "nodename=web1", "state=resume")


def test_a_reboot_of_the_node(bed):
    """Slurm keeps the drain, and has the node as down when it comes back too late. Both end when it is given back."""
    assert bed.hold()["done"]
    node = bed.cluster["web1"]
    node.halt()
    until(lambda: bed.cluster.state("web1").startswith("DOWN"), 60, pause=0.5)
    bed.cluster.boot("web1")
    early = bed.release(timeout=0)
    assert not early["done"] and "Slurm (batch): " in early["waiting_for"], early
    bed.cluster.start(node)
    released = bed.release(timeout=patient(30))
    assert released["done"] and released["conflicts"] == [] and bed.records() == [], released


def test_without_a_controller(bed):
    ctl = bed.cluster["ctl"]
    ctl.must("pkill", "slurmctld")
    until(lambda: ctl.run("pgrep", "slurmctld").returncode, 30)
    failed = bed.hold()
    assert failed["failed"] and "Slurm (batch): `scontrol show node` failed: " in failed["msg"] and bed.records() == []
    ctl.start("slurmctld", "-D")
    until(lambda: bed.cluster.state("web1") == "IDLE", 30, pause=0.3)


class TestHandleEvents:
    @pytest.fixture(name="ready")
    def connect(self, bed, site):
        hosts = {}
        for name in bed.cluster.workers:
            python = bed.cluster[name].wrappers(site.folder / "programs" / name, PROGRAMS)
            hosts[name] = {"ansible_python_interpreter": str(python), "graceful_azure_duties": site.duties({"name": "batch", "type": "slurm", "node": name})}
        site.write_inventory(**hosts)
        return site

    @pytest.mark.parametrize("kind", ["Reboot", "Freeze"])
    def test_an_event_waits_for_the_job(self, ready, bed, kind):
        job = bed.cluster.submit("sleep 20", "--nodelist=web1")
        until(lambda: bed.cluster.jobs().get(job) == ["RUNNING", "web1"], 30)
        event_id = ready.simulator.post_event(EventType=kind, Resources=["web1"], **SHORT)
        process = ready.start("handle_events", handle_events_timeout=patient(100))
        until(lambda: "DRAIN" in bed.cluster.state("web1"), 60, "web1 is drained")
        approvals = []
        while bed.cluster.jobs():
            assert approvals == []
            # Of the moment before the next look at the jobs.
            approvals = ready.simulator.event(event_id)["Approvals"]
        run = ready.finish(process)
        assert run.status == 0 and run.event(event_id)["outcome"] == "completed", run.output
        assert ready.records() == []
        bed.is_as_before()

    def test_cancelled(self, ready, bed):
        event_id = ready.simulator.post_event(EventType="Reboot", Resources=["web1"], NoticeSeconds=600)
        process = ready.start("handle_events", graceful_azure_rules=[{"name": "wait", "action": "prepare"}])
        until(lambda: "DRAIN" in bed.cluster.state("web1"), 60, "web1 is drained")
        ready.simulator.cancel(event_id)
        run = ready.finish(process)
        assert run.status == 0 and run.event(event_id)["outcome"] == "cancelled", run.output
        assert ready.records() == []
        bed.is_as_before()

    def test_a_controller_that_is_killed(self, ready, bed):
        event_id = ready.simulator.post_event(EventType="Reboot", Resources=["web1"], **SHORT)
        process = ready.start("handle_events")
        until(lambda: "DRAIN" in bed.cluster.state("web1"), 60, "web1 is drained")
        ready.kill(process)
        run = ready.run(handle_events_timeout=patient(100))
        assert run.status == 0 and run.event(event_id)["outcome"] == "completed", run.output
        assert ready.records() == []
        bed.is_as_before()


def test_the_node_of_another_machine_is_told_and_stays(bed):
    told = bed.hold(options={"node": "web2"})
    assert told["msg"].endswith("The slurmd of this machine runs on web1, and that of the node web2 on web2. See whether the option node is right.")
    assert bed.shown("web2") == ("IDLE", "") and bed.records() == []
    assert only(bed.hold(options={"node": "web1"}))["condition"] == "held"
    assert bed.release()["done"]
