# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The roles drain_host and restore_service with a host that is a member of a cluster. Its programs only pretend; test_cluster_slurm.py has the real ones."""

from __future__ import annotations

import threading

import pytest

from tests.support.patience import until
from tests.support.pretended_slurm import idle, pretend
from tests.support.roles import RoleBed, duties, haproxy, out

DUTIES = duties({"type": "slurm", "name": "batch", "node": "web1"}, haproxy(), "app")


class SlurmBed(RoleBed):
    """The programs of Slurm pretend."""

    def __init__(self, folder):
        super().__init__(folder)
        self.slurm = folder / "slurm"
        self.slurm.mkdir()
        pretend(self.slurm, folder / "bin")

    def reset(self):
        super().reset()
        idle(self.slurm)
        self.unit("app", "active")

    def told(self, name):
        return (self.slurm / name).read_text().split()


BED = SlurmBed
OUT = [
    out("E1"),
    ("drain_host", {"drain_host_event_ids": ["E1"], **DUTIES}),
]
BACK = ("restore_service", DUTIES)


def test_out_and_back(bed):
    def see():
        assert bed.told("state") == ["IDLE+DRAIN"] and bed.unit("app") == "inactive"

    run = bed.run(*OUT, see, OUT[1], BACK, BACK)
    assert run.status == 0 and not any(step.failure for step in run.steps), run.output
    assert [step.result["changed"] for step in run.steps] == [True, True, False, True, False], run.output
    assert bed.told("log") == ["drain", "resume"] and bed.records("web1") == bed.records("lb1") == {} and bed.admin() == 0


def test_what_is_put_back_during_the_wait_is_taken_out_again(bed):
    """The node is drained first. Somebody resumes it while the role waits for the last connection."""
    slurm = bed.slurm

    def resume():
        try:
            until(lambda: any('"phase": "held"' in path.read_text() for path in bed.state_dir("web1").glob("cluster-*.json")), 60, "the node is drained")
            (slurm / "reason").write_text("")
            (slurm / "new").write_text("IDLE\n")
            (slurm / "new").rename(slurm / "state")
        finally:
            bed.let_go()

    other = threading.Thread(target=resume)
    with bed.request(direct=True):
        other.start()
        run = bed.run(OUT[0], ("drain_host", dict(OUT[1][1], graceful_azure_ports=[bed.webs["web1"].port])))
    other.join()
    assert run.status == 0 and bed.told("log") == ["drain", "drain"] and bed.told("state") == ["IDLE+DRAIN"], run.output
    said = "Slurm: somebody else put web1 back while it was held, and it was taken out once more."
    assert run.steps[1].result["done"] and run.steps[1].result["conflicts"] == [said], run.output


# Quick: unit/plugins/module_utils/test_cluster.py::TestOut.
@pytest.mark.long
def test_what_is_left_is_told_and_the_services_run_on(bed):
    (bed.slurm / "jobs").write_text("7 RUNNING\n")
    run = bed.run(OUT[0], ("drain_host", dict(OUT[1][1], graceful_azure_drain_timeout=2)), ("drain_host", {"drain_host_state": "running", **DUTIES}))
    assert "1 job runs on web1" in run.steps[1].failure, run.output
    assert bed.unit("app") == "active"
    assert run.steps[2].result["done"] and bed.told("log") == ["drain", "resume"]


# Quick: the same.
@pytest.mark.long
def test_check_mode(bed):
    run = bed.run(*OUT, check=True)
    assert run.status == 0 and bed.told("log") == [] and bed.records("web1") == {}, run.output
