# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Three real Redis servers with Sentinels, under writes of which each is counted."""

from __future__ import annotations

import contextlib
import functools
import os
import time

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._cluster_redis import Redis, RedisServer

from tests.support.cluster_bed import arguments_of, hold_of
from tests.support.cluster_site import NEEDED as ROOT_NEEDED
from tests.support.cluster_site import ClusterSite
from tests.support.module import killed
from tests.support.needs import NEEDS_IPV6
from tests.support.patience import patient, until
from tests.support.processes import frozen
from tests.support.redis_sentinel import GROUP, NEEDED, SERVER, STEP, Sentinels, Writers
from tests.support.simulator import SHORT

pytestmark = [NEEDED, pytest.mark.timeout(300)]

# All that is told to servers while a master hands over, in order.
CHANGES = [
    "CLIENT PAUSE 5000",
    "CLIENT PAUSE 30000",
    "SENTINEL FAILOVER",
    "REPLICAOF",
    "CONFIG REWRITE",
    "CLIENT KILL",
    "CLIENT UNPAUSE",
    "CONFIG SET replica-priority 0",
]


def in_container(file):
    """The words before a server that has this file's folder at another place than the host."""
    return "unshare", "--mount", "sh", "-c", f'mount --bind {file.parent} /mnt && exec "$@"', "sh"


@pytest.fixture(name="cluster")
def make_cluster(tmp_path):
    cluster = Sentinels(tmp_path)
    yield cluster
    cluster.close()


@pytest.fixture(name="writers")
def make_writers(cluster):
    writers = Writers(cluster)
    until(lambda: len(writers.acknowledged) > 100, 30, "the writers write")
    yield writers
    writers.stop()


arguments, hold = (functools.partial(each, STEP) for each in (arguments_of, hold_of))


def nothing_lost(writers):
    before = len(writers.acknowledged)
    until(lambda: len(writers.acknowledged) > max(500, before + 100), 60, "writes go on")
    writers.stop()
    assert writers.lost() == []


def test_the_master_hands_over_and_no_acknowledged_write_is_lost(cluster, writers, tmp_path):
    """The short sample of the long tests below."""
    master = cluster["redis1"]
    predicted = hold(tmp_path, master, check=True)
    assert predicted["changed"] and predicted["done"]
    assert master.role == "master" and not (tmp_path / "state").exists()
    taken = hold(tmp_path, master, timeout=patient(20))
    assert taken["done"] and taken["changed"], taken
    assert master.role == "slave" and master.priority == "0"
    assert cluster.master() is not master
    # Sentinel may need a moment until it knows the new master.
    again = hold(tmp_path, master, timeout=patient(20))
    assert again["done"] and not again["changed"], again
    # Its file does not say that it is never promoted: after a reboot it may be.
    assert "replica-priority" not in master.configuration.read_text()
    given = hold(tmp_path, master, "absent")
    assert given["done"] and given["changed"] and given["conflicts"] == [], given
    assert master.role == "slave" and master.priority == "100"
    nothing_lost(writers)
    assert writers.longest_gap < patient(6)


@pytest.mark.parametrize("priority", [100, 0])
def test_a_replica_without_which_the_master_would_refuse_writes_waits(tmp_path, priority):
    """Another one is down, as after a reboot, and the master takes writes only while a replica keeps up with it. One that never leads counts, too."""
    with contextlib.closing(Sentinels(tmp_path, more="min-replicas-to-write 1\n")) as cluster:
        master, mine, other = (cluster[name] for name in ("redis1", "redis2", "redis3"))
        mine.ask("CONFIG", "SET", "replica-priority", priority)
        cluster.processes.stop(other.server)
        until(lambda: "min_slaves_good_slaves:1" in master.ask("INFO", "replication"), 30, "the master misses a replica")
        waits = hold(tmp_path, mine)
        assert not waits["done"] and "would refuse writes: 0 replicas would keep up with it, and it wants 1" in waits["waiting_for"], waits
        other.start_server()
        until(lambda: "min_slaves_good_slaves:2" in master.ask("INFO", "replication"), 30, "the replica is back")
        assert hold(tmp_path, mine)["done"]
        cluster.processes.stop(mine.server)
        until(lambda: "min_slaves_good_slaves:1" in master.ask("INFO", "replication"), 30, "the host has gone")
        assert master.ask("SET", "written", "1") == "OK"


@pytest.mark.long  # test_cluster_redis.py of the unit tests holds the same in a model
@pytest.mark.parametrize(
    ("host", "more", "sentinel_more"),
    [
        pytest.param("::1", "", "", marks=NEEDS_IPV6),
        # Sentinel tells addresses, and the replicas announce a name.
        ("localhost", "replica-announce-ip localhost\n", "sentinel resolve-hostnames yes\n"),
        ("localhost", "replica-announce-ip localhost\n", "sentinel resolve-hostnames yes\nsentinel announce-hostnames yes\n"),
    ],
    ids=["ipv6", "names resolved", "names announced"],
)
def test_however_the_servers_are_called(tmp_path, host, more, sentinel_more):
    with contextlib.closing(Sentinels(tmp_path, ("redis1", "redis2"), more, host, sentinel_more)) as cluster:
        master = cluster["redis1"]
        taken = hold(tmp_path, master, timeout=patient(20))
        assert taken["done"] and master.role == "slave" and master.priority == "0", taken
        assert cluster.master() is cluster["redis2"]
        given = hold(tmp_path, master, "absent")
        assert given["done"] and given["conflicts"] == [] and master.priority == "100"


@pytest.mark.long  # the quick suite holds test_the_master_hands_over_and_no_acknowledged_write_is_lost
class TestLong:
    def test_without_the_order_writes_are_lost(self, cluster, writers):
        """Otherwise the counting proves nothing."""
        cluster["redis1"].ask_sentinel("SENTINEL", "FAILOVER", GROUP)
        until(lambda: cluster["redis1"].role == "slave", 60, "Sentinel makes the former master a replica")
        time.sleep(1)
        writers.stop()
        assert len(writers.lost()) > 10

    def test_all_in_turn(self, cluster, writers, tmp_path):
        for name in ("redis1", "redis2", "redis3", "redis1"):
            node = cluster[name]
            was_master = node.role == "master"
            taken = hold(tmp_path / name, node, timeout=patient(20))
            assert taken["done"] and node.role == "slave" and node.priority == "0", taken
            assert taken["members"][0]["found"]["role"] == ("master" if was_master else "replica")
            node.stop()
            node.start()
            cluster.await_whole()
            given = hold(tmp_path / name, node, "absent", timeout=patient(20))
            assert given["done"] and node.priority == "100"
        nothing_lost(writers)

    def test_what_somebody_else_set_is_untouched(self, cluster, tmp_path):
        node = cluster["redis2"]
        node.ask("CONFIG", "SET", "replica-priority", 0)
        assert hold(tmp_path, node, timeout=patient(20))["done"]
        given = hold(tmp_path, node, "absent")
        assert given["done"] and given["conflicts"] == [] and node.priority == "0"
        node.ask("CONFIG", "SET", "replica-priority", 30)
        assert hold(tmp_path, node, timeout=patient(20))["done"]
        node.ask("CONFIG", "SET", "replica-priority", 50)
        assert hold(tmp_path, node)["conflicts"] and node.priority == "0"
        assert hold(tmp_path, node, "absent")["conflicts"] and node.priority == "50"

    @pytest.mark.parametrize("cut", [None, "container", "killed"])
    def test_a_failover_while_it_is_held_leaves_no_priority_in_its_file(self, cluster, tmp_path, cut):
        """Sentinel has the server follow the new master and write its file, with the priority that it has by then."""
        node = cluster["redis2"]
        file = node.configuration
        if cut == "container":
            if os.geteuid() != 0:
                pytest.skip("namespaces, which root alone makes: sudo make test")
            cluster.processes.stop(node.server)
            node.server = cluster.processes.start("contained", *in_container(file), SERVER, "/mnt/redis.conf")
            cluster.await_whole()
        node.ask("CONFIG", "SET", "replica-priority", 30)
        assert hold(tmp_path, node, timeout=patient(20))["done"]
        cluster["redis1"].ask_sentinel("SENTINEL", "FAILOVER", GROUP)
        until(lambda: "replica-priority 0" in file.read_text(), 60, "its file has the priority")
        assert hold(tmp_path, node, timeout=patient(20))["done"] and until(lambda: cluster.master().name == "redis3", 20)
        if cut == "killed":
            assert killed("cluster_hold", arguments(tmp_path, node, "absent"), RedisServer.call, "CONFIG SET replica-priority 30", after=True)
        given = hold(tmp_path, node, "absent", timeout=patient(20))
        assert given["done"] and given["conflicts"] == []
        assert node.priority == "30" and "replica-priority 30" in file.read_text()

    def test_a_master_that_cannot_be_spared_keeps_its_role(self, cluster, writers, tmp_path):
        for name in ("redis2", "redis3"):
            cluster[name].ask("CONFIG", "SET", "replica-priority", 0)
        node = cluster["redis1"]
        waits = {}

        def knows():
            # Sentinel learns the priorities within ten seconds. Until then the replicas themselves tell them.
            waits.update(hold(tmp_path, node, check=True))
            assert not waits["done"], waits
            return waits["waiting_for"].startswith("no replica")

        until(knows, 30, "Sentinel knows the priorities")
        waits = hold(tmp_path, node)
        assert not waits["changed"] and waits["waiting_for"].startswith(f"no replica of {GROUP} can become its master")
        assert node.role == "master"
        nothing_lost(writers)

    def test_sentinels_that_are_too_few(self, cluster, tmp_path):
        for name in ("redis2", "redis3"):
            cluster.processes.stop(cluster[name].sentinel)
        time.sleep(6)
        waits = hold(tmp_path, cluster["redis1"])
        assert not waits["changed"] and "could not agree on another master" in waits["waiting_for"], waits

    @pytest.mark.parametrize("command", CHANGES)
    def test_a_kill_after_any_change_is_made_good(self, cluster, writers, tmp_path, command):
        node = cluster["redis1"]
        assert killed("cluster_hold", arguments(tmp_path, node, timeout=patient(20)), RedisServer.call, command, after=True)
        taken = hold(tmp_path, node, timeout=patient(40))
        assert taken["done"] and node.role == "slave" and node.priority == "0", taken
        given = hold(tmp_path, node, "absent", timeout=patient(20))
        assert given["done"] and node.priority == "100" and given["conflicts"] == []
        nothing_lost(writers)

    @pytest.mark.parametrize("after", [False, True])
    def test_a_kill_while_it_is_given_back(self, cluster, tmp_path, after):
        node = cluster["redis2"]
        assert hold(tmp_path, node, timeout=patient(20))["done"]
        given = arguments(tmp_path, node, "absent", timeout=patient(20))
        assert killed("cluster_hold", given, RedisServer.call, "CONFIG SET replica-priority 100", after=after)
        given = hold(tmp_path, node, "absent", timeout=patient(20))
        assert given["done"] and given["conflicts"] == [] and node.priority == "100"
        assert not list((tmp_path / "state").rglob("*.json"))

    def test_a_kill_between_record_and_change(self, cluster, writers, tmp_path):
        node = cluster["redis1"]
        assert killed("cluster_hold", arguments(tmp_path, node), Redis.out)
        assert len(list((tmp_path / "state").rglob("*.json"))) == 1 and node.role == "master"
        given = hold(tmp_path, node, "absent", timeout=patient(20))
        assert given["done"] and given["conflicts"] == [] and node.role == "master" and node.priority == "100"
        nothing_lost(writers)


@pytest.mark.long  # the quick suite holds test_the_master_hands_over_and_no_acknowledged_write_is_lost
class TestEvents:
    """The playbook handle_events, from the notice to the end."""

    pytestmark = ROOT_NEEDED

    @pytest.fixture(name="writers")
    def make_writers(self, cluster):
        writers = Writers(cluster, pause=0.03)
        yield writers
        writers.stop()

    @pytest.fixture(name="site")
    def make_site(self, cluster, tmp_path):
        (tmp_path / "s").mkdir()
        site = ClusterSite(tmp_path / "s", cluster.nodes, **STEP)
        yield site
        site.close()

    @staticmethod
    def as_found(cluster):
        cluster.await_whole()
        assert [node.priority for node in cluster.nodes.values()] == ["100"] * 3

    def test_reboot(self, cluster, site, writers):
        site.see_through("Reboot", "redis1", site.reboot)
        assert cluster.master() is not cluster["redis1"]
        self.as_found(cluster)
        nothing_lost(writers)

    def test_freeze(self, cluster, site, writers):
        def freeze(name):
            with frozen(cluster[name].server.pid, cluster[name].sentinel.pid):
                time.sleep(8)

        site.see_through("Freeze", "redis1", freeze)
        self.as_found(cluster)
        nothing_lost(writers)

    def test_cancelled(self, cluster, site, writers):
        site.see_cancelled("redis1", lambda: cluster["redis1"].priority == "0" and cluster["redis1"].role == "slave")
        self.as_found(cluster)
        nothing_lost(writers)

    def test_a_run_that_is_killed_is_continued(self, cluster, site, writers):
        site.see_killed_and_continued("redis1", recorded=60, started=100)
        self.as_found(cluster)
        nothing_lost(writers)

    @pytest.mark.timeout(400)
    def test_all_hosts_go_out_one_after_the_other(self, cluster, site, writers):
        ids = [site.simulator.post_event(EventType="Reboot", Resources=[name], **SHORT) for name in cluster.nodes]
        most = 0
        process = site.start("handle_events", handle_events_timeout=patient(300))
        while process.poll() is None and not all("Completed" in site.simulator.statuses(event_id) for event_id in ids):
            most = max(most, sum(path.name.startswith("cluster") for path in site.records()))
            time.sleep(0.05)
        run = site.finish(process, 320)
        assert run.status == 0, run.output
        assert most == 1
        self.as_found(cluster)
        nothing_lost(writers)
