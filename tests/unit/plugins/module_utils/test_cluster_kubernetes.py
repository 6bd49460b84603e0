# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import builtins
import json
import re
import time

import pytest
import yaml
from ansible_collections.graceful.azure.plugins.module_utils import _cluster_kubernetes
from ansible_collections.graceful.azure.plugins.module_utils._cluster import MemberError, Tools, check_options
from ansible_collections.graceful.azure.plugins.module_utils._cluster_kubernetes import ANNOTATION, WHY, Kubernetes
from ansible_collections.graceful.azure.plugins.module_utils._duties.all_types import read
from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import Act
from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
from ansible_collections.graceful.azure.plugins.module_utils._file_systems import machine_id_in
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Request

from tests.support.checkout import ROOT
from tests.support.kubernetes import NEEDED, RULES, TOKEN, Cluster
from tests.support.pages import example
from tests.support.patience import patient, until

pytestmark = NEEDED
MEMBER = ROOT / "plugins" / "module_utils" / "_cluster_kubernetes.py"
PAGE = ROOT / "docs" / "duty-kubernetes.md"
EMPTY_DIR = [{"name": "cache", "emptyDir": {}}]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture
def cluster(certificates):
    with Cluster(certificates) as cluster:
        yield cluster


@pytest.fixture
def member(cluster):
    return Kubernetes(cluster.options(), Tools())


def until_left_is(member, left, seconds=5.0):
    """As the passes do: what is out and not drained is told again."""
    ends = time.monotonic() + patient(seconds)
    while True:
        seen = member.look()
        if seen.left == left:
            return seen
        assert time.monotonic() < ends, seen
        if seen.left is not None:
            member.out(seen)
        time.sleep(0.05)


def test_a_node_goes_out_is_drained_and_comes_back_as_it_was(cluster, member):
    cluster.usual_pods()
    cluster.workload("cart", 3, on="n1")
    before = cluster.node()
    seen = member.look()
    assert seen == ("n1", False, True, None, seen.left, {"unschedulable": False, "annotation": None}, ())
    assert seen.left.startswith("3 pods run on node n1: shop/cart-")
    assert member.spare(seen) is None
    member.event_ids = ("602d9444-d2cd",)
    member.out(seen)
    assert cluster.annotations()[ANNOTATION] == WHY + " (602d9444-d2cd)"
    seen = until_left_is(member, None)
    assert seen.events == ("602d9444-d2cd",)
    assert (seen.ours, seen.serves, seen.foreign) == (True, False, None)
    # What every node has is still there, and nobody asked for it to go.
    assert cluster.pods_on("n1") == ["etcd-n1", "job-n1", "proxy-n1"]
    assert {path.split("/")[-2].split("-")[0] for _method, path, _status in cluster.calls("POST")} == {"cart"}
    member.back(seen, {"unschedulable": False, "annotation": None})
    seen = member.look()
    assert (seen.ours, seen.serves) == (False, True)
    after = cluster.node()
    assert (after["spec"], after["metadata"]["annotations"]) == (before["spec"], before["metadata"]["annotations"])


def test_cordon_and_annotation_are_one_patch_with_the_version_that_was_read(cluster, member):
    seen = member.look()
    member.out(seen)
    member.back(member.look(), {})
    assert [status for _method, _path, status in cluster.calls("PATCH")] == [200, 200]
    assert [path for _method, path, _status in cluster.requests if "fieldManager" in path] == ["/api/v1/nodes/n1?fieldManager=graceful.azure"] * 2


def test_a_node_that_somebody_else_cordoned_is_not_ours(cluster, member):
    cluster.cordon("n1")
    seen = member.look()
    assert (seen.ours, seen.serves, seen.foreign) == (False, False, "Node n1 is cordoned, and not by graceful.azure.")
    member.back(seen, {})
    assert cluster.is_cordoned()
    assert cluster.calls("PATCH") == []


def test_a_node_that_somebody_cordons_between_look_and_change_stays_theirs(cluster, member):
    cluster.workload("cart", 1, on="n1")
    seen = member.look()
    cluster.cordon("n1")
    member.out(seen)
    assert ANNOTATION not in cluster.annotations()
    assert cluster.calls("PATCH") + cluster.calls("POST") == []
    # The same within the moment between read and patch: the server refuses the old version.
    cluster.uncordon("n1")
    cluster.fault("/nodes/n1", "PATCH", do=lambda: cluster.cordon("n1"))
    member.out(seen)
    assert [status for _method, _path, status in cluster.calls("PATCH")] == [409]
    assert ANNOTATION not in cluster.annotations()
    assert member.look().foreign


def test_a_kubelet_that_changes_the_node_meanwhile_is_no_hindrance(cluster, member):
    cluster.fault("/nodes/n1", "PATCH", times=2, do=lambda: cluster.touch("n1"))
    member.out(member.look())
    assert [status for _method, _path, status in cluster.calls("PATCH")] == [409, 409, 200]
    cluster.fault("/nodes/n1", "PATCH", times=99, do=lambda: cluster.touch("n1"))
    with pytest.raises(MemberError, match="Node n1 was changed by somebody else each of the 5 times that it was to be uncordoned"):
        member.back(member.look(), {})


def test_an_operator_who_uncordons_is_seen(cluster, member):
    member.out(member.look())
    cluster.uncordon("n1")
    seen = member.look()
    assert (seen.ours, seen.serves) == (False, True)
    member.back(seen, {})
    assert len(cluster.calls("PATCH")) == 1
    # kubectl leaves our annotation, which would make the operator's next cordon ours.
    cluster.fault("/nodes/n1", "PATCH", do=lambda: cluster.touch("n1"))
    member.forget(seen)
    assert ANNOTATION not in cluster.annotations() and not cluster.is_cordoned()
    cluster.cordon("n1")
    assert member.look().foreign
    member.forget(seen)
    assert cluster.is_cordoned()


def test_an_annotation_without_its_cordon_tells_what_became_of_the_hold(cluster, tmp_path):
    """The record is lost, and somebody has uncordoned the node. Otherwise the next cordon of anybody would be ours."""
    machine = Machine(None, str(tmp_path))
    duty = read({"type": "kubernetes", **cluster.options()}, Machine).on(machine)
    assert duty.change(Act(Request(True, ["E1"])))["conflicts"] == []
    for path in tmp_path.glob("*.json"):
        path.unlink()
    cluster.uncordon("n1")
    record, problem = duty.marked({"event_type": "Reboot"})
    assert (list(record["events"]), record["events"]["E1"]["details"], problem) == (["E1"], {"event_type": "Reboot"}, "")
    told = duty.change(Act(Request(False, ["E1"])))
    assert "somebody else acted, so it was not touched" in told["conflicts"][0]
    assert ANNOTATION not in cluster.annotations() and duty.marked({}) == (None, "")
    cluster.cordon("n1")
    assert not duty.change(Act(Request(False, None)))["changed"] and cluster.is_cordoned()
    # While its event stands, it is cordoned once more, and that is told.
    cluster.uncordon("n1")
    duty.change(Act(Request(True, ["E2"])))
    for path in tmp_path.glob("*.json"):
        path.unlink()
    cluster.uncordon("n1")
    told = duty.change(Act(Request(True, ["E2"])))
    assert "somebody else put n1 back while it was held" in told["conflicts"][0] and cluster.is_cordoned()


def test_the_name_stays_at_a_cordon_that_came_back(cluster, member):
    member.out(member.look())
    member.forget(member.look())
    assert member.look().ours


def test_a_budget_is_honoured_and_the_pods_move_one_after_the_other(cluster, member):
    cluster.workload("cart", 3, on="n1")
    cluster.budget("cart", 2)
    member.out(member.look())
    seen = member.look()
    assert "The disruption budget cart needs 2 healthy pods and has 2 currently" in seen.left
    lowest = []
    ends = time.monotonic() + patient(10)
    while seen.left and time.monotonic() < ends:
        lowest.append(cluster.ready("cart"))
        member.out(seen)
        seen = member.look()
    assert seen.left is None
    assert min(lowest) >= 2
    assert {status for _method, _path, status in cluster.calls("POST")} == {201, 429}


def test_two_budgets_for_one_pod_are_told(cluster, member):
    cluster.workload("cart", 1, on="n1")
    cluster.workload("cache", 1, on="n1")
    cluster.budget("one", 0, "cart")
    cluster.budget("two", 0, "cart")
    member.out(member.look())
    assert "shop/cart-" in member.look().left
    assert "more than one disruption budget is for it, and Kubernetes then never evicts it" in member.look().left
    # The others go.
    assert [status for _method, path, status in cluster.calls("POST") if "cache" in path] == [201]


def test_a_server_with_too_much_to_do_is_left_in_peace_until_the_next_call(cluster, member):
    cluster.workload("cart", 5, on="n1")
    busy = {"kind": "Status", "code": 429, "message": "The server is currently unable to handle the request", "details": {"retryAfterSeconds": 1}}
    cluster.fault("/eviction", status=429, body=busy, headers={"Retry-After": "1"})
    member.out(member.look())
    assert [status for _method, _path, status in cluster.calls("POST")] == [429]
    assert "the API server has too much to do" in member.look().left
    until_left_is(member, None)


def test_what_an_eviction_would_lose_for_good_waits_and_is_told(cluster, member):
    cluster.pod("bare", "n1")
    cluster.workload("cache", 1, on="n1", volumes=EMPTY_DIR)
    cluster.workload("cart", 1, on="n1")
    member.out(member.look())
    until(lambda: (member.look().left or "").startswith("2 pods run on node n1: "), 10, lambda: member.look().left)
    left = member.look().left
    assert "shop/bare has no controller that would replace it (option force)" in left
    assert "has an emptyDir, which an eviction deletes (option delete_emptydir_data)" in left
    assert len(cluster.calls("POST")) == 1
    willing = Kubernetes(cluster.options(force=True, delete_emptydir_data=True), Tools())
    willing.out(willing.look())
    until_left_is(willing, None)


def test_a_pod_of_a_stateful_set_that_is_back_on_another_node_is_not_evicted(cluster, member):
    cluster.workload("db", 1, on="n1", kind="StatefulSet")
    cluster.fault("/eviction", do=lambda: cluster.pod("db-0", "n2", owner={"kind": "StatefulSet", "name": "db"}, app="db"))
    member.out(member.look())
    assert [status for _method, _path, status in cluster.calls("POST")] == [409]
    assert member.look().left is None
    assert cluster.pods_on("n2") == ["db-0"]


def test_pods_that_end_are_waited_for_and_not_evicted_twice(cluster, member):
    cluster.grace = 3600
    cluster.workload("cart", 1, on="n1")
    seen = member.look()
    member.out(seen)
    member.out(seen)
    assert len(cluster.calls("POST")) == 1
    assert member.look().left.endswith("is ending")
    cluster.end_pods()
    until_left_is(member, None)


def test_many_pods_are_named_in_part_and_those_that_hinder_first(cluster, member):
    cluster.workload("cart", 9, on="n1")
    cluster.pod("bare", "n1")
    left = member.look().left
    assert left.startswith("10 pods run on node n1: shop/bare has no controller")
    assert left.endswith(", 6 more")


def test_evictions_end_in_time_and_go_on_in_the_next_call(cluster, member, monkeypatch):
    monkeypatch.setattr(_cluster_kubernetes, "EVICTION_SECONDS", 0.2)
    cluster.workload("cart", 9, on="n1")
    cluster.fault("/eviction", times=99, delay=0.1)
    member.out(member.look())
    assert 1 <= len(cluster.calls("POST")) < 9
    until_left_is(member, None)


def test_another_node_must_be_ready_and_take_pods(cluster, member):
    seen = member.look()
    nobody = "Kubernetes has no other node that is ready and takes the pods of n1"
    cluster.set_ready("n2", False)
    assert member.spare(seen) == nobody
    cluster.set_ready("n2", True)
    cluster.cordon("n2")
    assert member.spare(seen) == nobody
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    cluster.add_node("n3", taints=[taint])
    assert member.spare(seen) == nobody
    # A node with the same taint takes the pods of one with it.
    cluster.nodes["n1"]["spec"]["taints"] = [taint]
    assert member.spare(seen) is None


def test_the_other_nodes_are_read_in_pages(cluster, member, monkeypatch):
    monkeypatch.setattr(_cluster_kubernetes, "PAGE", 2)
    for number in range(3, 7):
        cluster.add_node(f"n{number}")
    for number in range(2, 6):
        cluster.cordon(f"n{number}")
    assert member.spare(None) is None
    assert len([1 for _method, path, _status in cluster.calls("GET") if path == "/api/v1/nodes"]) == 3


CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


@pytest.fixture
def control_plane(cluster):
    """Three nodes of the control plane, which take pods, and a worker."""
    for name in ("n3", "worker"):
        cluster.add_node(name)
    for name in ("n1", "n2", "n3"):
        cluster.nodes[name]["metadata"]["labels"][CONTROL_PLANE] = ""
    return cluster


def test_the_majority_of_etcd_is_kept(control_plane, member):
    """Each way in which one of the other two may be gone: neither is to go, nor to be approved once it is out."""

    def told():
        return member.spare(member.look())

    needed = "without n1, etcd would lose its majority: 2 other nodes of the control plane must stay, and n2 %s"
    assert told() is None
    control_plane.set_ready("n2", False)
    assert told() == needed % "is not ready"
    control_plane.set_ready("n2", True)
    control_plane.nodes["n2"]["metadata"]["annotations"][ANNOTATION] = WHY
    assert told() is None, "it was uncordoned by hand"
    control_plane.cordon("n2")
    assert told() == member.still_needed(member.look()) == needed % "is out for an event"
    del control_plane.nodes["n2"]["metadata"]["annotations"][ANNOTATION]
    assert told() is None, "somebody cordoned it, and it votes"
    for name in ("n1", "n2", "n3"):
        control_plane.etcd(name, ready=name != "n2")
    assert told() == needed % "has no etcd that is ready"
    # Its static pod was taken away.
    del control_plane.pods["kube-system", "etcd-n2"]
    assert told() == needed % "has no etcd that is ready"
    control_plane.etcd("n2")
    assert told() is None


def test_who_has_no_vote_in_etcd_does_not_count(control_plane, member):
    control_plane.set_ready("n2", False)
    worker = Kubernetes(control_plane.options("worker"), Tools())
    assert worker.spare(worker.look()) is None
    # Pods of users may have that label, too.
    control_plane.pod("etcd-0", "worker")
    control_plane.pods["shop", "etcd-0"]["object"]["metadata"]["labels"]["component"] = "etcd"
    assert worker.spare(worker.look()) is None
    assert not any("labelSelector" in path for _method, path, _status in control_plane.requests)
    # Of two, each is needed, and no waiting helps.
    del control_plane.nodes["n3"]["metadata"]["labels"][CONTROL_PLANE]
    assert member.still_needed(member.look()) is None
    # k3s and RKE2 name the nodes of etcd, which may be others than those of the control plane.
    for name in ("n2", "n3", "worker"):
        control_plane.nodes[name]["metadata"]["labels"]["node-role.kubernetes.io/etcd"] = "true"
    assert member.still_needed(member.look()) is None
    assert worker.still_needed(worker.look()).endswith("2 other nodes of the control plane must stay, and n2 is not ready")


def test_a_control_plane_that_cannot_be_read_is_no_proof(control_plane, member):
    seen = member.look()
    control_plane.fault(r"/pods\?labelSelector", status=403, body={"message": "pods is forbidden"})
    with pytest.raises(MemberError, match="403: pods is forbidden.*role"):
        member.still_needed(seen)


def test_a_node_that_is_another_machine_is_refused(cluster, member, monkeypatch):
    cluster.nodes["n1"]["status"]["nodeInfo"]["bootID"] = "11111111-2222-3333-4444-555555555555"
    with pytest.raises(MemberError, match="Node n1 is another machine, or its kubelet has not reported since this machine booted.*option node"):
        member.look()
    # A node that does not tell is not known to be this one.
    del cluster.nodes["n1"]["status"]["nodeInfo"]
    with pytest.raises(MemberError, match="Node n1 is another machine, .*it says boot id unknown"):
        member.look()
    # What is ours after a reboot can be given back before the kubelet has reported.
    cluster.nodes["n1"]["spec"]["unschedulable"] = True
    cluster.nodes["n1"]["metadata"]["annotations"][ANNOTATION] = WHY
    assert member.look().ours
    # The hold of another machine is not. Kernels differ in the order of the id's first bytes.
    info = {"bootID": "11111111-2222-3333-4444-555555555555", "systemUUID": "4C4C4544-0047-3010-8052-B4C04F4C4B31"}
    cluster.nodes["n1"]["status"]["nodeInfo"] = info
    monkeypatch.setattr(Tools, "machine_id", staticmethod(lambda: machine_id_in("44454c4c-4700-1030-8052-b4c04f4c4b31")))
    assert member.look().ours
    monkeypatch.setattr(Tools, "machine_id", staticmethod(lambda: machine_id_in("44454c4c-4700-1030-8052-b4c04f4c4b32")))
    with pytest.raises(MemberError, match="Node n1 is another machine"):
        member.look()


@pytest.mark.parametrize(
    "lacking, does, said",
    [
        ("nodes", "look", '403: nodes "n1" is forbidden: User "drainer" cannot get resource "nodes".*role'),
        ("pods", "look", "403: pods is forbidden.*role"),
        ("pods/eviction", "out", '403: pods "cart-.*cannot create resource "pods/eviction".*role'),
    ],
)
def test_a_role_that_is_too_small_is_told(certificates, lacking, does, said):
    with Cluster(certificates, rules=[rule for rule in RULES if rule["resources"] != [lacking]]) as cluster:
        cluster.workload("cart", 3, on="n1")
        member = Kubernetes(cluster.options(), Tools())
        with pytest.raises(MemberError, match=said):
            member.look() if does == "look" else member.out(member.look())
        assert len(cluster.calls("POST")) <= 1


def test_a_wrong_token_is_told_and_never_shown(cluster, tmp_path):
    (tmp_path / "wrong").write_text("wrong-token")
    member = Kubernetes(cluster.options(api_key_file=str(tmp_path / "wrong")), Tools())
    with pytest.raises(MemberError, match="refused with 401: Unauthorized.*credentials") as caught:
        member.look()
    assert "wrong-token" not in str(caught.value)


def test_a_node_that_nobody_knows_is_told(cluster):
    with pytest.raises(MemberError, match='404: nodes "n9" not found.*option.* There are n1, n2'):
        Kubernetes(cluster.options("n9"), Tools()).look()


def test_a_certificate_that_is_not_trusted_is_told(cluster):
    options = cluster.options()
    del options["ca_cert"]
    with pytest.raises(MemberError, match="GET https://127.0.0.1.*failed.*[Cc]ertificate"):
        Kubernetes(options, Tools()).look()
    assert cluster.requests == []
    assert Kubernetes(dict(options, validate_certs=False), Tools()).look().member == "n1"


def test_a_client_certificate_is_enough(cluster):
    options = cluster.options(client_cert=str(cluster.client_cert), client_key=str(cluster.client_key))
    del options["api_key_file"]
    assert Kubernetes(options, Tools()).look().member == "n1"
    with pytest.raises(MemberError, match="certificates cannot be used.*none.key"):
        Kubernetes(dict(options, client_key="/none.key"), Tools()).look()


@pytest.mark.parametrize(
    "fault, said",
    [
        ({"status": 200, "body": "<html>a portal</html>"}, "answers 200, but not as an API server of Kubernetes does: '<html>"),
        ({"status": 200, "body": "[]"}, "not as an API server"),
        ({"status": 200, "body": {"kind": "Node"}}, "not as an API server"),
        ({"status": 503, "body": "upstream is down"}, "refused with 503: upstream is down"),
        ({"drop": True}, "GET .*failed"),
    ],
)
def test_nonsense_and_failures_are_told(cluster, member, fault, said):
    cluster.fault("/nodes/n1", **fault)
    with pytest.raises(MemberError, match=said):
        member.look()
    assert member.look().member == "n1"


@pytest.mark.parametrize("items", [{}, {"items": 3}, {"items": [3]}, {"items": [{"metadata": {"name": "x"}}]}])
def test_a_list_of_pods_that_is_none_is_told(cluster, member, items):
    cluster.fault("/pods", status=200, body=items)
    with pytest.raises(MemberError, match="not as an API server"):
        member.look()


def test_a_server_that_hangs_is_given_up_in_time(cluster, member, monkeypatch):
    monkeypatch.setattr(_cluster_kubernetes, "ANSWER_SECONDS", 0.3)
    cluster.fault("/nodes/n1", delay=2)
    with pytest.raises(MemberError, match="not answered within 0.3 seconds"):
        member.look()


@pytest.mark.parametrize(
    "options, option, said",
    [
        ({"node": "N1"}, "node", "'N1' is no name of a node"),
        ({"node": "n1/../n2"}, "node", "'n1/../n2' is no name of a node"),
        ({"host": None}, "host", "not set; give the URL of the API server"),
        ({"host": "http://10.0.0.1"}, "host", "'http://10.0.0.1' is no URL such as https"),
        ({"host": "https://me@10.0.0.1"}, "host", "is no URL"),
        ({"host": "https://10.0.0.1:port"}, "host", "is no URL"),
        ({"api_key_file": None}, "api_key_file", "not set; give it, or client_cert and client_key, or kubeconfig"),
        ({"client_key": "/k"}, "client_cert", "it is missing, and client_key needs it"),
        ({"context": "x"}, "context", "kubeconfig is not set"),
        ({"validate_certs": "perhaps"}, "", "validate_certs"),
        ({"delete_emptydir_data": "some"}, "", "delete_emptydir_data"),
    ],
)
def test_bad_options_are_told(options, option, said):
    given = dict({"node": "n1", "host": "https://10.0.0.1", "api_key_file": "/token"}, **options)
    _checked, mistakes = check_options(Kubernetes, {key: value for key, value in given.items() if value is not None})
    assert [(wrong, said in told) for wrong, told in mistakes] == [(option, True)]


@pytest.mark.parametrize(
    "options",
    [
        {"host": "https://10.0.0.1:6443", "api_key_file": "/token"},
        {"kubeconfig": "/etc/config"},
        {"kubeconfig": "/c", "context": "x"},
        {"kubeconfig": "/c", "client_key": "/k"},
    ],
)
def test_good_options_are_taken(options):
    assert check_options(Kubernetes, options)[1] == []


@pytest.mark.parametrize(
    "content, said", [("a b", "The token for https://127.0.0.1.* is none"), ("\nx", "first line of the file .* is empty"), (None, "cannot be read")]
)
def test_a_token_that_is_none_is_told(cluster, tmp_path, content, said):
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    with pytest.raises(MemberError, match=said):
        Kubernetes(cluster.options(api_key_file=str(path)), Tools()).look()


def kubeconfig(cluster, **user):
    data = base64.b64encode(cluster.ca_cert.read_bytes()).decode()
    return {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}, {"name": "broken", "context": {"cluster": "d", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": cluster.url, "certificate-authority-data": data}}],
        "users": [{"name": "u", "user": user}],
    }


def test_a_kubeconfig_says_all(cluster, tmp_path):
    path = tmp_path / "config"
    key, cert = (base64.b64encode(file.read_bytes()).decode() for file in (cluster.client_key, cluster.client_cert))
    (tmp_path / "token").write_text(TOKEN + "\n")
    (tmp_path / "client.key").write_bytes(cluster.client_key.read_bytes())
    for user in (
        {"token": TOKEN},
        {"tokenFile": "token"},
        {"client-certificate-data": cert, "client-key-data": key},
        {"client-certificate": str(cluster.client_cert), "client-key": "client.key"},
    ):
        path.write_text(json.dumps(kubeconfig(cluster, **user)))
        assert Kubernetes({"node": "n1", "kubeconfig": str(path)}, Tools()).look().member == "n1"


def test_a_kubeconfig_in_yaml_needs_pyyaml(cluster, tmp_path, monkeypatch):
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(kubeconfig(cluster, token=TOKEN)))
    options = {"node": "n1", "kubeconfig": str(path)}
    assert Kubernetes(options, Tools()).look().member == "n1"
    wanted = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", lambda name, *more: no_yaml() if name == "yaml" else wanted(name, *more))
    with pytest.raises(MemberError, match="is YAML.*PyYAML.*give host"):
        Kubernetes(options, Tools()).look()


def no_yaml():
    raise ImportError("No module named yaml")


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda config: "{", "is no YAML"),
        (lambda config: "3", "is no kubeconfig"),
        (lambda config: dict(config, **{"current-context": None}), "has no current-context"),
        (lambda config: dict(config, **{"current-context": "gone"}), "has no context named gone; there is here, broken"),
        (lambda config: dict(config, **{"current-context": "broken"}), "has no cluster named d; there is c"),
        (lambda config: dict(config, users=[{"name": "u", "user": {"exec": {"command": "x"}}}]), "uses exec, which the collection does not know"),
        (lambda config: dict(config, users=[{"name": "u", "user": {"tokenFile": "none"}}]), "none cannot be read"),
        (lambda config: dict(config, users=[{"name": "u", "user": {"client-key-data": "%"}}]), "client-key-data is not written in base64"),
        (lambda config: dict(config, users=[{"name": "u", "user": {}}]), "has neither a token nor a client certificate"),
        (lambda config: dict(config, clusters=[{"name": "c", "cluster": {"server": "http://x"}}]), "names 'http://x' as its server, which is no URL"),
        (lambda config: dict(config, users=[]), "has no user named u; there is none"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_told(cluster, tmp_path, change, said):
    path = tmp_path / "config"
    changed = change(kubeconfig(cluster, token=TOKEN))
    path.write_text(changed if isinstance(changed, str) else json.dumps(changed))
    with pytest.raises(MemberError, match=said):
        Kubernetes({"node": "n1", "kubeconfig": str(path)}, Tools()).look()


def test_a_kubeconfig_that_is_not_there_is_told():
    with pytest.raises(MemberError, match="The kubeconfig /none cannot be read: No such file"):
        Kubernetes({"node": "n1", "kubeconfig": "/none"}, Tools()).look()


def test_the_role_of_the_page_is_the_one_that_the_stand_in_demands():
    (rules,) = (part["rules"] for part in yaml.safe_load(example("kubernetes")["role.yaml"])["items"] if part["kind"] == "ClusterRole")
    assert rules == RULES


def test_the_pages_have_every_option_and_every_sentence():
    page, duties = PAGE.read_text(), (ROOT / "docs" / "duties.md").read_text()
    (options,) = re.findall(r"^### kubernetes\n(.*?)(?=^##)", duties, re.MULTILINE | re.DOTALL)
    rows = dict(re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (.*?) \| ", options, re.MULTILINE))
    told = {name: kind for names, kind in rows.items() for name in re.findall(r"`(\w+)`", names)}
    assert set(told) == {*Kubernetes.options, "cluster"}
    for name, spec in Kubernetes.options.items():
        if "default" in spec:
            assert told[name].replace("`", "").endswith(f", {str(spec['default']).lower()}"), name
    for sentence in (
        "more than one disruption budget is for it, and Kubernetes then never evicts it",
        "has no controller that would replace it (option force)",
        "has an emptyDir, which an eviction deletes (option delete_emptydir_data)",
        "the API server has too much to do",
    ):
        assert sentence in page and sentence in MEMBER.read_text()
