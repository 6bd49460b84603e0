# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes of Kubernetes as a drain step, against the strict stand-in for its API server (tests/support/kubernetes.py): the module, and whole events."""

from __future__ import annotations

import json
import time

import pytest

from tests.support.cluster_site import see_one_of_two_events_gone
from tests.support.kubernetes import NEEDED, Cluster, Watch
from tests.support.module import PROGRAM, run_module, run_program
from tests.support.patience import patient, until
from tests.support.service import EVENT
from tests.support.simulator import SHORT
from tests.support.site import Site

pytestmark = [NEEDED, pytest.mark.timeout(240)]

ANNOTATION = "graceful.azure/cordoned"

# The module, killed right before its n-th event of this kind whose arguments have this text: see PEP 578. Whoever is killed says nothing.
KILLED = (
    """
import os, re, signal, sys
event, pattern, left = sys.argv[1], re.compile(sys.argv[2]), [int(sys.argv[3])]
def strike(name, arguments):
    if name == event and pattern.search(" ".join(text(part) for part in arguments)):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
def text(part):
    return part.decode("latin-1") if isinstance(part, bytes) else repr(part)
sys.addaudithook(strike)
del sys.argv[1:4]
"""
    + PROGRAM
)


@pytest.fixture
def cluster(tmp_path):
    folder = tmp_path / "kubernetes"
    folder.mkdir()
    with Cluster(folder, nodes=("web1", "web2", "web3"), grace=0.3, starting=0.3) as cluster:
        cluster.usual_pods("web1")
        cluster.workload("cart", 3, on="web1")
        cluster.budget("cart", 2)
        yield cluster


@pytest.fixture
def arguments(cluster, tmp_path):
    def arguments(state="present", **more):
        of_node = {"type": "kubernetes", "name": "k8s", "options": cluster.options("web1")} if state == "present" else {}
        return {"state": state, "event_ids": [EVENT], "state_dir": str(tmp_path / "state"), "timeout": patient(20), **of_node, **more}

    return arguments


@pytest.fixture
def hold(arguments):
    def hold(state="present", check=False, **more):
        return run_module("cluster_hold", arguments(state, **more), check=check)

    return hold


def records(tmp_path):
    return sorted((tmp_path / "state").glob("cluster*.json"))


def shape(cluster, name="web1"):
    """What a hold may change of a node."""
    node = cluster.node(name)
    return node["spec"], node["metadata"]["annotations"], node["metadata"]["labels"]


def test_the_module_from_out_to_back(cluster, hold, tmp_path):
    before = shape(cluster)
    foreseen = hold(check=True)
    assert foreseen["changed"] and foreseen["done"], foreseen
    assert shape(cluster) == before and records(tmp_path) == [] and not cluster.calls("PATCH") + cluster.calls("POST")
    # A pod that ends is still there when the module looks.
    cluster.grace = 600
    first = hold(timeout=0)
    cluster.grace = 0.3
    cluster.end_pods()
    assert first["changed"] and not first["done"], first
    assert first["waiting_for"].startswith("3 pods run on node web1: shop/cart-"), first
    assert "The disruption budget cart needs 2 healthy pods" in first["waiting_for"]
    done = hold()
    assert done["done"] and not done["changed"], done
    (member,) = done["members"]
    assert (member["condition"], member["left"], member["found"]) == ("held", None, {"unschedulable": False, "annotation": None})
    assert cluster.is_cordoned("web1") and cluster.pods_on("web1") == ["etcd-web1", "job-web1", "proxy-web1"]
    (record,) = (json.loads(path.read_text()) for path in records(tmp_path))
    assert "right-token" not in json.dumps(record)
    again = hold()
    assert again["done"] and not again["changed"]
    assert not hold("absent", check=True)["members"][0]["held_by"] and cluster.is_cordoned("web1")
    back = hold("absent")
    assert back["done"] and back["changed"] and back["conflicts"] == [], back
    assert shape(cluster) == before and records(tmp_path) == []
    assert not hold("absent")["changed"]


def test_a_node_that_an_operator_cordoned_stays_theirs(cluster, hold, tmp_path):
    cluster.cordon("web1")
    seen = hold(timeout=0)
    assert not seen["changed"] and not seen["done"] and seen["members"][0]["condition"] == "taken_out_by_others", seen
    assert records(tmp_path) == [] and ANNOTATION not in cluster.annotations("web1") and not cluster.calls("POST")
    # `kubectl drain` of the operator goes on.
    cluster.workloads.clear()
    for place in [place for place in cluster.pods if place[1].startswith("cart")]:
        del cluster.pods[place]
    assert hold(timeout=0)["done"]
    assert not hold("absent")["changed"] and cluster.is_cordoned("web1")


def test_an_operator_who_uncordons_meanwhile_is_told_of_and_left_alone(cluster, hold, tmp_path):
    before = shape(cluster)
    assert hold()["done"]
    cluster.uncordon("web1")
    seen = hold(timeout=0)
    assert seen["conflicts"] and seen["changed"] and cluster.is_cordoned("web1"), seen
    cluster.uncordon("web1")
    seen = hold(timeout=0)
    assert not seen["done"] and not cluster.is_cordoned("web1"), seen
    back = hold("absent")
    assert back["done"] and back["conflicts"] and records(tmp_path) == [], back
    assert shape(cluster) == before
    # What the operator does later is the operator's.
    cluster.cordon("web1")
    assert hold(timeout=0)["members"][0]["condition"] == "taken_out_by_others"
    assert not hold("absent")["changed"] and cluster.is_cordoned("web1")


def test_the_last_node_that_takes_pods_waits(cluster, hold, tmp_path):
    cluster.cordon("web2")
    cluster.set_ready("web3", False)
    seen = hold(timeout=0)
    assert not seen["done"] and "no other node that is ready" in seen["waiting_for"], seen
    assert not cluster.is_cordoned("web1") and records(tmp_path) == []
    assert hold(timeout=0, force=True)["changed"] and cluster.is_cordoned("web1")


def test_bad_options_change_nothing(cluster, hold, tmp_path):
    failed = hold(options=cluster.options("web1", host="http://10.0.0.1", grace=3))
    assert failed["failed"] and "grace" in failed["msg"], failed
    failed = hold(options=cluster.options("web1", host="http://10.0.0.1"))
    assert failed["failed"] and "options.host: 'http://10.0.0.1' is no URL such as https" in failed["msg"], failed
    failed = hold(options=cluster.options("web9"))
    assert failed["failed"] and 'nodes "web9" not found' in failed["msg"], failed
    assert records(tmp_path) == [] and not cluster.calls("PATCH")


# The first is the one that matters most, and make test has it. The rest is as in test_hold_engine.py, where every cut is made with made-up things.
POINTS = {
    "record, not the cordon": ("present", "http.client.send", "PATCH ", 1),
    "nothing": ("present", "os.rename", r"/cluster[^/]*\.json'", 1),
    "cordon, no eviction": ("present", "http.client.send", "POST ", 1),
    "one eviction": ("present", "http.client.send", "POST ", 2),
    "cordon, not the second record": ("present", "os.rename", r"/cluster[^/]*\.json'", 2),
    "back: nothing": ("absent", "os.rename", r"/cluster[^/]*\.json'", 1),
    "back: record, not the patch": ("absent", "http.client.send", "PATCH ", 1),
    "back: patch, and the record stays": ("absent", "os.remove", r"/cluster[^/]*\.json'", 1),
}


@pytest.mark.parametrize("point", [pytest.param(name, marks=[pytest.mark.long] if number else []) for number, name in enumerate(POINTS)])
def test_killed_in_mid_change(cluster, arguments, hold, tmp_path, point):
    before = shape(cluster)
    state, event, pattern, nth = POINTS[point]
    if state == "absent":
        assert hold()["done"]
    given = json.dumps({"ANSIBLE_MODULE_ARGS": arguments(state, timeout=0)})
    assert run_program(KILLED, event, pattern, str(nth), "cluster_hold", "-1", given=given)() == ["", ""]
    if point == "record, not the cordon":
        # The event may be over before anybody goes on.
        assert len(records(tmp_path)) == 1 and not cluster.is_cordoned("web1")
        assert hold("absent")["done"] and records(tmp_path) == [] and shape(cluster) == before
    assert hold()["done"] and cluster.is_cordoned("web1")
    assert hold("absent")["done"]
    assert shape(cluster) == before and records(tmp_path) == []


@pytest.fixture
def site(cluster, tmp_path):
    site = Site(tmp_path)
    site.write_inventory({"graceful_azure_duties": site.duties({"name": "k8s", "type": "kubernetes", **cluster.options("{{ inventory_hostname }}")})})
    yield site
    site.close()


@pytest.mark.long
@pytest.mark.parametrize("event_type", ["Reboot", "Freeze"])
def test_an_event_from_notice_to_end(site, cluster, event_type):
    """test_the_module_from_out_to_back does the same without Ansible."""
    before = shape(cluster)
    event_id = site.simulator.post_event(EventType=event_type, Resources=["web1"], **SHORT)
    with Watch(cluster) as watch:
        process = site.start("handle_events")
        site.reach(process, lambda: site.simulator.event(event_id)["Approvals"], "approved", 60)
        # Approved only when no pod is left.
        assert cluster.pods_on("web1") == ["etcd-web1", "job-web1", "proxy-web1"] and cluster.is_cordoned("web1")
        run = site.finish(process)
    assert run.status == 0 and run.event(event_id)["outcome"] == "completed", run.output
    assert watch.broken() == []
    assert shape(cluster) == before and site.records() == [] and site.admin_states()["web1"] == "ready"


@pytest.mark.long
def test_a_cancelled_event_and_a_killed_run(site, cluster):
    """test_killed_in_mid_change does the same without Ansible."""
    before = shape(cluster)
    cluster.grace = 2
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], **SHORT)
    process = site.start("handle_events")
    until(lambda: cluster.is_cordoned("web1"), 60, "cordoned")
    site.kill(process)
    site.simulator.cancel(event_id)
    run = site.run()
    assert run.status == 0, run.output
    assert shape(cluster) == before and site.records() == [] and site.admin_states()["web1"] == "ready"


@pytest.mark.long
def test_two_nodes_of_one_cluster_go_one_after_the_other(site, cluster):
    """tests/unit/plugins/plugin_utils holds the same for the plan."""
    both = []
    event_ids = [site.simulator.post_event(EventType="Reboot", Resources=[name], **SHORT) for name in ("web1", "web2")]
    process = site.start("handle_events", graceful_azure_min_in_service=0)
    while process.poll() is None:
        both.append(cluster.is_cordoned("web1") and cluster.is_cordoned("web2"))
        time.sleep(0.05)
    run = site.finish(process)
    assert run.status == 0, run.output
    assert [run.event(event_id)["outcome"] for event_id in event_ids] == ["completed", "completed"]
    assert not any(both)
    assert not cluster.is_cordoned("web1") and not cluster.is_cordoned("web2") and site.records() == []


@pytest.mark.long
def test_one_of_two_events_gone(site, cluster):
    before = shape(cluster)
    see_one_of_two_events_gone(site, "web1", lambda: cluster.is_cordoned("web1") and cluster.pods_on("web1") == ["etcd-web1", "job-web1", "proxy-web1"])
    assert shape(cluster) == before


@pytest.mark.long
def test_pods_that_cannot_go_keep_the_host_from_being_approved(site, cluster):
    """test_what_an_eviction_would_lose_for_good_waits_and_is_told, a unit test, does the same for the member."""
    cluster.pod("bare", "web1")
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], NoticeSeconds=25, **SHORT)
    run = site.run(graceful_azure_drain_timeout=5)
    assert site.simulator.event(event_id)["Approvals"] == [], run.output
    assert "shop/bare has no controller that would replace it (option force)" in run.output
    assert not cluster.is_cordoned("web1") and site.records() == []


@pytest.mark.long
def test_a_server_that_is_down_is_named_and_hosts_of_other_clusters_go_on(site, cluster):
    """test_nonsense_and_failures_are_told, a unit test, does the same for the member."""
    node = {"name": "k8s", "type": "kubernetes", "cluster": "{{ inventory_hostname }}", **cluster.options("{{ inventory_hostname }}")}
    site.write_inventory({"graceful_azure_duties": site.duties(node)})
    cluster.fault("/nodes/web1", times=10**6, status=503, body="upstream is down")
    event_ids = {name: site.simulator.post_event(EventType="Reboot", Resources=[name], **SHORT) for name in ("web1", "web2")}
    run = site.run(handle_events_timeout=patient(30), graceful_azure_min_in_service=0)
    assert site.simulator.event(event_ids["web1"])["Approvals"] == []
    assert site.simulator.event(event_ids["web2"])["Approvals"], run.output
    assert "refused with 503: upstream is down" in run.output
