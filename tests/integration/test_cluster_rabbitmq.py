# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes of a real RabbitMQ, taken out for an event and given back, under counted publishes: by the module, and by handle_events."""

from __future__ import annotations

import os
import time

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _cluster_rabbitmq

from tests.support.cluster_bed import EVENT, Bed, only
from tests.support.cluster_site import NEEDED as ROOT_NEEDED
from tests.support.cluster_site import ClusterSite
from tests.support.module import killed
from tests.support.patience import until
from tests.support.processes import descendants, frozen
from tests.support.rabbitmq import NEEDS, PLAIN, Publisher, RabbitMQ

# tests/unit/plugins/module_utils/test_cluster_rabbitmq.py holds the same with recorded answers, in a second.
pytestmark = [*NEEDS, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(name="cluster", scope="module")
def make_cluster(tmp_path_factory):
    with RabbitMQ(tmp_path_factory.mktemp("rabbitmq")) as cluster:
        yield cluster


@pytest.fixture(name="bed")
def make_bed(cluster, tmp_path, monkeypatch):
    # The command line tools find the nodes by these.
    for key, value in cluster.environment.items():
        monkeypatch.setenv(key, f"{value}:{os.environ['PATH']}" if key == "PATH" else value)
    yield Bed(cluster, tmp_path, type="rabbitmq", name="queues", timeout=40)
    cluster.settled()


def done(result):
    assert result.get("done"), result


def test_out_drained_and_back(bed):
    node = bed.cluster["web1"]
    assert node.leads() == 2
    dry = bed.hold(check=True)
    assert dry["changed"] and bed.records() == [] and not node.is_out()
    with Publisher(bed.cluster) as publisher:
        until(lambda: len(publisher.confirmed) > 20, 20, "messages are confirmed")
        held = bed.hold()
        assert held["done"] and held["changed"] and only(held)["condition"] == "held", held
        assert node.is_out() and node.leads() == 0 and not node.listens()
        (record,) = bed.records()
        assert record["found"]["maintenance"] is False and record["phase"] == "held"
        # A queue without copies stays where it is.
        assert PLAIN in node.must("rabbitmqctl", "list_queues", "--local", "name")
        again = bed.hold()
        assert again["done"] and not again["changed"]
        assert only(bed.hold(event_ids=["another"]))["held_by"] == [EVENT, "another"]
        assert only(bed.release(event_ids=["another"]))["condition"] == "held"
        released = bed.release()
        assert released["done"] and released["changed"] and released["conflicts"] == [] and only(released)["serves"]
        assert bed.records() == [] and not bed.release()["changed"] and node.listens()
    assert publisher.lost_connections == 1 and publisher.missing() == set() and publisher.longest_gap < 10


def test_one_by_one(bed):
    """With one node out the queues would lose their majority without a second one."""
    done(bed.hold("web2"))
    waiting = bed.hold(timeout=0)
    assert waiting["waiting_for"] == "without web1@localhost, 1 of the 3 nodes of the cluster would serve, and 2 are needed"
    assert not waiting["changed"] and len(bed.records()) == 1 and not bed.cluster["web1"].is_out()
    done(bed.release("web2"))
    bed.cluster.settled()
    done(bed.hold())
    done(bed.release())


def test_an_operator_s_maintenance_stays(bed):
    node = bed.cluster["web1"]
    node.must("rabbitmq-upgrade", "drain")
    held = bed.hold()
    assert held["done"] and not held["changed"] and only(held)["condition"] == "taken_out_by_others" and bed.records() == []
    assert not bed.release()["changed"] and node.is_out()
    node.must("rabbitmq-upgrade", "revive")


def test_what_an_operator_ended_is_told_and_left(bed):
    node = bed.cluster["web1"]
    done(bed.hold())
    node.must("rabbitmq-upgrade", "revive")
    told = bed.hold()
    assert told["conflicts"] and told["changed"] and told["done"]
    node.must("rabbitmq-upgrade", "revive")
    told = bed.hold(timeout=0)
    assert not told["changed"] and not told["done"] and only(told)["condition"] == "changed_meanwhile"
    released = bed.release()
    assert released["conflicts"] and bed.records() == [] and not node.is_out()


def test_a_restart_ends_it_and_it_is_set_again(bed):
    node = bed.cluster["web1"]
    done(bed.hold())
    node.stop()
    gone = bed.hold(timeout=0)
    assert "RabbitMQ (queues): `rabbitmq-diagnostics status` failed: unable to perform an operation on node" in gone["msg"], gone
    node.start()
    node.wait()
    assert not node.is_out()
    held = bed.hold()
    assert held["done"] and held["conflicts"] == [] and node.is_out(), held
    node.stop()
    assert "unable to perform an operation" in bed.release(timeout=0)["waiting_for"]
    node.start()
    node.wait()
    released = bed.release()
    assert released["done"] and released["conflicts"] == [] and bed.records() == []


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("way", ["out", "back"])
def test_killed_beside_the_change(bed, way, after):
    node = bed.cluster["web1"]
    if way == "back":
        done(bed.hold())
    state = "present" if way == "out" else "absent"
    assert killed("cluster_hold", bed.arguments(state=state), getattr(_cluster_rabbitmq.RabbitMQ, way), after=after)
    (record,) = bed.records()
    assert record["phase"] == ("changing" if way == "out" else "restoring") and node.is_out() == ((way == "out") == after)
    if way == "out":
        assert only(bed.hold())["condition"] == "held"
    released = bed.release()
    assert released["done"] and released["conflicts"] == [] and bed.records() == []


def test_a_node_that_hangs(bed):
    node = bed.cluster["web1"]
    with frozen(*descendants(node.process.pid)):
        failed = bed.hold()
        assert failed["failed"] and "RabbitMQ (queues): " in failed["msg"], failed
    assert bed.records() == []


class TestEvents:
    """The playbook handle_events, from the notice to the end, under counted publishes."""

    pytestmark = ROOT_NEEDED

    @pytest.fixture(name="site")
    def make_site(self, bed, tmp_path):
        site = ClusterSite(tmp_path, bed.cluster.nodes, name="queues", type="rabbitmq")
        with Publisher(bed.cluster) as publisher:
            yield site
        site.close()
        assert publisher.confirmed and publisher.missing() == set()

    def test_reboot(self, bed, site):
        node = bed.cluster["web1"]

        def reboot(name):
            assert node.leads() == 0
            site.reboot(name)
            node.wait()
            # The reboot has ended the maintenance mode. What an impact left stays so, as with services.
            assert not node.is_out()

        site.see_through("Reboot", "web1", reboot)
        until(node.listens, 10, "it serves again")

    def test_freeze(self, bed, site):
        def freeze(_name):
            with frozen(*descendants(bed.cluster["web1"].process.pid)):
                time.sleep(6)

        site.see_through("Freeze", "web1", freeze)

    def test_cancelled(self, bed, site):
        site.see_cancelled("web1", bed.cluster["web1"].is_out)

    def test_a_run_that_is_killed_is_continued(self, bed, site):
        site.see_killed_and_continued("web1")
        assert not bed.cluster["web1"].is_out()
