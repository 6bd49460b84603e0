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


@pytest.fixture(scope="module")
def whole_bed(tmp_path_factory):
    bed = RoleBed(tmp_path_factory.mktemp("bed"))
    folder = bed.folder / "slurm"
    folder.mkdir()
    pretend(folder, bed.folder / "bin")
    yield bed
    bed.close()


@pytest.fixture
def bed(whole_bed):
    whole_bed.reset()
    idle(whole_bed.folder / "slurm")
    (whole_bed.units / "app.service").write_text("active\n")
    return whole_bed


def told(bed, name):
    return (bed.folder / "slurm" / name).read_text().split()


OUT = [
    out("E1"),
    ("drain_host", {"drain_host_event_ids": ["E1"], **DUTIES}),
]
BACK = ("restore_service", DUTIES)


def test_out_and_back(bed):
    def see():
        assert told(bed, "state") == ["IDLE+DRAIN"] and (bed.units / "app.service").read_text() == "inactive\n"

    run = bed.run(*OUT, see, OUT[1], BACK, BACK)
    assert run.status == 0 and not any(step.failure for step in run.steps), run.output
    assert [step.result["changed"] for step in run.steps] == [True, True, False, True, False], run.output
    assert told(bed, "log") == ["drain", "resume"] and bed.records("web1") == bed.records("lb1") == {} and bed.admin() == 0


def test_what_is_put_back_during_the_wait_is_taken_out_again(bed):
    """The node is drained first. Somebody resumes it while the role waits for the last connection."""
    slurm = bed.folder / "slurm"

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
    assert run.status == 0 and told(bed, "log") == ["drain", "drain"] and told(bed, "state") == ["IDLE+DRAIN"], run.output
    said = "Slurm: somebody else put web1 back while it was held, and it was taken out once more."
    assert run.steps[1].result["done"] and run.steps[1].result["conflicts"] == [said], run.output


# Quick: unit/plugins/module_utils/test_cluster.py::TestOut.
@pytest.mark.long
def test_what_is_left_is_told_and_the_services_run_on(bed):
    (bed.folder / "slurm" / "jobs").write_text("7 RUNNING\n")
    run = bed.run(OUT[0], ("drain_host", dict(OUT[1][1], graceful_azure_drain_timeout=2)), ("drain_host", {"drain_host_state": "running", **DUTIES}))
    assert "1 job runs on web1" in run.steps[1].failure, run.output
    assert (bed.units / "app.service").read_text() == "active\n"
    assert run.steps[2].result["done"] and told(bed, "log") == ["drain", "resume"]


# Quick: the same.
@pytest.mark.long
def test_check_mode(bed):
    run = bed.run(*OUT, check=True)
    assert run.status == 0 and told(bed, "log") == [] and bed.records("web1") == {}, run.output
