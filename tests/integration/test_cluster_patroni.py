# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Three real PostgreSQL servers of Patroni, with etcd, under writes of which each is counted.

A cluster takes a quarter of a minute to start, so all tests here are long. What the quick suite holds: tests/unit/plugins/module_utils/test_cluster_patroni.py,
with answers that this Patroni gave.
"""

from __future__ import annotations

import functools
import time
from datetime import datetime, timedelta, timezone

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._cluster_patroni import Patroni

from tests.support.cluster_bed import arguments_of, hold_of
from tests.support.cluster_site import NEEDED as ROOT_NEEDED
from tests.support.cluster_site import ClusterSite
from tests.support.module import killed, run_module
from tests.support.patience import patient, until
from tests.support.patroni import NEEDED, STEP, Cluster, Writers
from tests.support.processes import descendants, frozen

pytestmark = [pytest.mark.long, NEEDED, pytest.mark.timeout(400)]


@pytest.fixture(name="cluster", scope="module")
def make_cluster():
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture(name="leader")
def find_leader(cluster):
    """The node that leads when the test begins."""
    cluster.await_whole()
    return cluster[cluster.leader()]


@pytest.fixture(name="writers")
def make_writers(cluster, leader):
    writers = Writers(cluster)
    until(lambda: len(writers.acknowledged()) > 50, 30, "the writers write")
    yield writers
    writers.stop()


arguments, hold = (functools.partial(each, STEP) for each in (arguments_of, hold_of))


def nothing_lost(cluster, writers):
    cluster.await_whole()
    time.sleep(1)
    writers.stop()
    assert len(writers.acknowledged()) > 200
    assert writers.lost() == []


def test_the_leader_hands_over_and_stays_a_replica(cluster, leader, writers, tmp_path):
    predicted = hold(tmp_path, leader, check=True)
    assert predicted["changed"] and predicted["done"], predicted
    assert cluster.leader() == leader.name and not (tmp_path / "state").exists()
    taken = hold(tmp_path, leader, timeout=patient(50))
    assert taken["done"] and taken["changed"], taken
    assert leader.read("/leader")[0] == 503 and cluster.leader() not in (None, leader.name)
    assert cluster.members()[leader.name]["state"] in ("running", "streaming")
    again = hold(tmp_path, leader)
    assert again["done"] and not again["changed"], again
    given = hold(tmp_path, leader, "absent")
    assert given["done"] and given["changed"] and given["conflicts"] == [], given
    assert cluster.leader() != leader.name
    nothing_lost(cluster, writers)
    assert writers.longest_gap() < 15


def test_a_leader_that_is_killed_leaves_a_gap(cluster, leader, writers):
    """What the drain step saves. Otherwise the measure proves nothing."""
    leader.end()
    try:
        until(lambda: cluster.leader() not in (None, leader.name), 60, "another member leads")
        time.sleep(2)
    finally:
        leader.start()
    nothing_lost(cluster, writers)
    assert writers.longest_gap() > 10


def test_a_replica_is_not_touched(cluster, leader, tmp_path):
    node = next(node for node in cluster.nodes.values() if node is not leader)
    taken = hold(tmp_path, node, timeout=patient(30))
    assert taken["done"], taken
    assert hold(tmp_path, node, "absent")["done"]
    assert cluster.leader() == leader.name


def test_a_paused_cluster_is_left_alone_but_by_force(cluster, leader, writers, tmp_path):
    leader.post("/config", method="PATCH", pause=True)
    try:
        until(lambda: '"pause": true' in leader.read("/cluster")[1], 30, "the cluster is paused")
        waits = hold(tmp_path, leader)
        assert not waits["changed"] and "somebody works on it" in waits["waiting_for"], waits
        assert cluster.leader() == leader.name
        taken = hold(tmp_path, leader, force=True, timeout=patient(50))
        assert taken["done"] and cluster.leader() not in (None, leader.name), taken
        assert '"pause": true' in leader.read("/cluster")[1]
    finally:
        leader.post("/config", method="PATCH", pause=None)
    assert hold(tmp_path, leader, "absent")["done"]
    nothing_lost(cluster, writers)


def test_a_planned_switchover_is_left_alone(cluster, leader, tmp_path):
    at = (datetime.now(timezone.utc) + timedelta(hours=1)).isoformat()
    other = next(name for name in cluster.nodes if name != leader.name)
    assert leader.post("/switchover", leader=leader.name, candidate=other, scheduled_at=at)[0] == 202
    try:
        until(lambda: "scheduled_switchover" in leader.read("/cluster")[1], 30, "it is planned")
        waits = hold(tmp_path, leader)
        assert not waits["changed"] and "a switchover is planned for" in waits["waiting_for"], waits
        assert "scheduled_switchover" in leader.read("/cluster")[1] and cluster.leader() == leader.name
    finally:
        leader.post("/switchover", method="DELETE")


def test_a_leader_that_nobody_can_follow_is_waited_for(cluster, leader, tmp_path):
    others = [node for node in cluster.nodes.values() if node is not leader]
    for node in others:
        node.stop()
    try:
        waits = hold(tmp_path, leader)
        assert not waits["changed"] and waits["waiting_for"].startswith("no other member can become the leader: "), waits
        assert cluster.leader() == leader.name
    finally:
        for node in others:
            node.start()


def test_a_leader_that_streams_to_nobody_is_waited_for(cluster, leader, writers, tmp_path):
    """Patroni itself would hand over, and what was written in the meantime would be lost."""
    cluster.sql("ALTER ROLE replicator NOLOGIN")
    try:
        cluster.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
        until(lambda: cluster.streaming(leader.name) == set(), 30, "nobody gets what is written")
        waits = hold(tmp_path, leader)
        said = f"{leader.name} does not stream what is written there to any member that can become the leader"
        assert not waits["done"] and not waits["changed"] and waits["waiting_for"].startswith(said), waits
        assert cluster.leader() == leader.name
    finally:
        cluster.sql("ALTER ROLE replicator LOGIN")
    until(lambda: cluster.streaming(leader.name), 30, "somebody gets what is written")
    taken = hold(tmp_path, leader, timeout=patient(50))
    assert taken["done"] and cluster.leader() != leader.name, taken
    assert hold(tmp_path, leader, "absent")["done"]
    nothing_lost(cluster, writers)


def test_a_login_that_is_wrong_changes_nothing(cluster, leader, tmp_path):
    options = {key: value for key, value in leader.options.items() if key not in ("username", "password_file")}
    told = run_module("cluster_hold", dict(arguments(tmp_path, leader), options=options))
    assert told["failed"] and "needs a login: see the options username and password_file" in told["msg"], told
    assert not list((tmp_path / "state").rglob("*.json")) and cluster.leader() == leader.name


def test_a_patroni_that_hangs_is_told(cluster, leader, tmp_path):
    began = time.monotonic()
    with frozen(leader.process.pid, *descendants(leader.process.pid)):
        told = hold(tmp_path, leader)
    assert told["failed"] and "was not answered within 4 seconds" in told["msg"], told
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("function, after", [(Patroni.out, False), (Patroni.out, True), (Patroni._request, True)])
def test_a_kill_is_made_good(cluster, leader, writers, tmp_path, function, after):
    """Between record and change, after the change, and after the first answer."""
    assert killed("cluster_hold", arguments(tmp_path, leader, timeout=patient(50)), function, after=after)
    taken = hold(tmp_path, leader, timeout=patient(50))
    assert taken["done"] and cluster.leader() not in (None, leader.name), taken
    assert hold(tmp_path, leader, "absent")["done"]
    assert not list((tmp_path / "state").rglob("*.json"))
    nothing_lost(cluster, writers)


def test_a_kill_between_record_and_change_and_the_event_is_over(cluster, leader, tmp_path):
    assert killed("cluster_hold", arguments(tmp_path, leader), Patroni.out)
    assert len(list((tmp_path / "state").rglob("*.json"))) == 1
    given = hold(tmp_path, leader, "absent")
    assert given["done"] and given["conflicts"] == [] and cluster.leader() == leader.name
    assert not list((tmp_path / "state").rglob("*.json"))


class TestEvents:
    """The playbook handle_events, from the notice to the end."""

    pytestmark = ROOT_NEEDED

    @pytest.fixture(name="site")
    def make_site(self, cluster, leader, tmp_path):
        site = ClusterSite(tmp_path, cluster.nodes, **STEP)
        yield site
        site.close()

    def test_reboot(self, cluster, leader, site, writers):
        site.see_through("Reboot", leader.name, site.reboot)
        assert cluster.leader() != leader.name
        nothing_lost(cluster, writers)

    def test_behind_a_haproxy_that_sends_to_the_leader_alone(self, cluster, leader, site, writers):
        """Nobody else is in service there before the leader has handed over. No server is sticky, so each goes back as soon as the event is over."""
        servers = "".join(f"  server {name} 127.0.0.1:{node.port} check port {node.rest_port}\n" for name, node in cluster.nodes.items())
        site.haproxy.configure(
            "backend www\n  mode tcp\n  option httpchk GET /primary\n  default-server inter 300ms fall 2 rise 2 on-marked-down shutdown-sessions\n" + servers
        )
        site.haproxy.reload()
        until(lambda: [name for name, server in site.haproxy.states("www").items() if server.up] == [leader.name], 20, "HAProxy knows the leader")
        site.write_inventory(
            **{
                name: {
                    "ansible_python_interpreter": str(site.folder / f"python-{name}"),
                    "graceful_azure_duties": [{"type": "patroni", "name": "db", **node.options}, *site.duties(hosts=["lb1"])],
                }
                for name, node in cluster.nodes.items()
            }
        )
        site.see_through("Reboot", leader.name, site.reboot)
        assert cluster.leader() != leader.name and site.admin_states() == dict.fromkeys(site.names, "ready")
        nothing_lost(cluster, writers)

    def test_freeze(self, cluster, leader, site, writers):
        def freeze(_name):
            postmaster = int((leader.folder / "postmaster.pid").read_text().splitlines()[0])
            with frozen(leader.process.pid, *descendants(leader.process.pid), postmaster, *descendants(postmaster)):
                time.sleep(9)

        site.see_through("Freeze", leader.name, freeze)
        nothing_lost(cluster, writers)

    def test_cancelled(self, cluster, leader, site, writers):
        site.see_cancelled(leader.name, lambda: cluster.leader() not in (None, leader.name))
        nothing_lost(cluster, writers)

    def test_a_run_that_is_killed_is_continued(self, cluster, leader, site, writers):
        site.see_killed_and_continued(leader.name)
        nothing_lost(cluster, writers)
