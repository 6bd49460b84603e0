# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for the API server of Kubernetes and its controllers, within the test's process.

No server of Kubernetes could be had for these tests. So this knows only what the drain step asks for, and refuses everything else: nodes (GET, list in
pages, merge patch), the pods of one node and those of etcd, and evictions (policy/v1). It checks what the real one checks, by its documentation and its source
(pkg/registry/core/pod/storage/eviction.go in kubernetes/kubernetes): TLS, the token or the client certificate, the rules of the user's role, the content type
of a patch, the resource version, the names of annotations, the body and the preconditions of an eviction, and budgets. Behind it, pods end after their grace
period, and workloads replace them on nodes that take pods.
"""

from __future__ import annotations

import copy
import json
import re
import shutil
import ssl
import threading
import time
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.support.meanwhile import Meanwhile
from tests.support.serving import Handler, Server, Serving, certificate_and_key

NEEDED = pytest.mark.skipif(shutil.which("openssl") is None, reason="the stand-in makes its certificates with openssl: apt-get install openssl")

TOKEN, USER = "right-token", "drainer"
# What the step needs, in the form of a ClusterRole.
RULES = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
]
ANNOTATION_KEY = re.compile(r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Refusal(Exception):
    """An answer of the kind Status."""

    def __init__(self, code, reason, message, causes=(), headers=None):
        super().__init__(message)
        self.code, self.headers = code, headers or {}
        self.body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code}
        if causes:
            self.body["details"] = {"causes": [{"reason": cause, "message": text} for cause, text in causes]}


class Cluster(Serving):
    """``grace``: how long pods need to end. ``starting``: how long a new pod needs until it is ready. Both in seconds."""

    def __init__(self, folder, nodes=("n1", "n2"), grace=0.1, starting=0.1, rules=None):
        self.grace, self.starting, self.rules = grace, starting, RULES if rules is None else rules
        self.nodes, self.pods, self.budgets, self.workloads = {}, {}, {}, {}
        self.requests, self.faults = [], []
        self._revision, self._serial = 100, 0
        self._lock = threading.RLock()
        for name in nodes:
            self.add_node(name)
        self.ca_cert, key = self._certificate(folder, "api", "-subj", "/CN=kubernetes", "-addext", "subjectAltName=IP:127.0.0.1")
        self.token_file = folder / "token"
        self.token_file.write_text(TOKEN + "\n")
        self.client_cert, self.client_key = self._certificate(folder, "client", "-subj", f"/CN={USER}")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.ca_cert, key)
        context.load_verify_locations(self.client_cert)
        context.verify_mode = ssl.CERT_OPTIONAL
        server = Server(type("Answer", (_Answer,), {"cluster": self}))
        server.encrypt(context)
        self.url = f"https://127.0.0.1:{server.server_port}"
        self.serve(server)

    @staticmethod
    def _certificate(folder, name, *more):
        """Made once for a folder."""
        found = folder / f"{name}.crt", folder / f"{name}.key"
        return found if found[0].exists() else certificate_and_key(folder, name, *more)

    def options(self, node="n1", **more):
        """What the step is told."""
        return dict({"node": node, "host": self.url, "api_key_file": str(self.token_file), "ca_cert": str(self.ca_cert)}, **more)

    # What people and controllers do

    def add_node(self, name, **spec):
        info = {"bootID": BOOT_ID.read_text().strip(), "kubeletVersion": "v1.30.0"}
        metadata = {"name": name, "uid": self._uid(), "annotations": {"node.alpha.kubernetes.io/ttl": "0"}, "labels": {"kubernetes.io/hostname": name}}
        status = {"conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}], "nodeInfo": info}
        self.nodes[name] = {"metadata": metadata, "spec": dict({"podCIDR": "10.1.0.0/24"}, **spec), "status": status}
        self.touch(name)

    def touch(self, name):
        """What a kubelet does every few seconds: the node has another resource version."""
        with self._lock:
            self.nodes[name]["metadata"]["resourceVersion"] = self._next_revision()

    def cordon(self, name):
        """`kubectl cordon`."""
        with self._lock:
            self.nodes[name]["spec"]["unschedulable"] = True
            self.touch(name)

    def uncordon(self, name):
        """`kubectl uncordon`, which knows no annotations."""
        with self._lock:
            self.nodes[name]["spec"].pop("unschedulable", None)
            self.touch(name)

    def booted(self, name, boot_id):
        """Its kubelet reports another boot."""
        with self._lock:
            self.nodes[name]["status"]["nodeInfo"]["bootID"] = boot_id
            self.touch(name)

    def set_ready(self, name, ready):
        with self._lock:
            self.nodes[name]["status"]["conditions"][1]["status"] = "True" if ready else "Unknown"
            self.touch(name)

    def workload(self, name, replicas=1, on=None, kind="ReplicaSet", namespace="shop", **spec):
        """A controller that keeps so many pods. The first ones are on the node ``on``, and ready."""
        with self._lock:
            self.workloads[namespace, name] = {"kind": kind, "replicas": replicas, "spec": spec, "uid": self._uid()}
            for _number in range(replicas if on else 0):
                self._replace(namespace, name, on=on, ready_at=0)

    def budget(self, name, min_available, of=None, namespace="shop"):
        self.budgets[namespace, name] = {"min_available": min_available, "app": of or name}

    def pod(self, name, on, namespace="shop", owner=None, app=None, phase="Running", annotations=None, ready_at=0, **spec):
        metadata = {"name": name, "namespace": namespace, "uid": self._uid(), "labels": {"app": app or name}}
        if owner:
            metadata["ownerReferences"] = [dict({"apiVersion": "apps/v1", "controller": True, "uid": "o"}, **owner)]
        if annotations:
            metadata["annotations"] = annotations
        with self._lock:
            metadata["resourceVersion"] = self._next_revision()
            made = {"metadata": metadata, "spec": dict({"nodeName": on} if on else {}, **spec), "status": {"phase": phase}}
            self.pods[namespace, name] = {"object": made, "ready_at": ready_at, "gone_at": None}

    def usual_pods(self, on="n1"):
        """What every node has and no drain touches."""
        self.pod(f"proxy-{on}", on, "kube-system", {"kind": "DaemonSet", "name": "proxy"}, volumes=[{"name": "tmp", "emptyDir": {}}])
        self.etcd(on)
        self.pod(f"job-{on}", on, "shop", {"apiVersion": "batch/v1", "kind": "Job", "name": "job"}, phase="Succeeded")

    def etcd(self, on, ready=True):
        """What kubeadm and RKE2 have on the nodes of the control plane: a static pod, as its kubelet tells it."""
        self.pod(f"etcd-{on}", on, "kube-system", {"apiVersion": "v1", "kind": "Node", "name": on}, annotations={"kubernetes.io/config.mirror": "abc"})
        told = self.pods["kube-system", f"etcd-{on}"]["object"]
        told["metadata"]["labels"].update(component="etcd", tier="control-plane")
        told["status"]["conditions"] = [{"type": "Ready", "status": str(ready)}]

    def fault(self, path=".*", method=None, times=1, **what):
        """``status`` with ``body`` and ``headers``, ``delay`` in seconds, ``drop``, or ``do``: a function to call before the answer."""
        self.faults.append({"path": re.compile(path), "method": method, "times": times, "what": what})

    # What tests look at

    def node(self, name="n1"):
        with self._lock:
            return copy.deepcopy(self.nodes[name])

    def is_cordoned(self, name="n1"):
        return self.node(name)["spec"].get("unschedulable", False)

    def annotations(self, name="n1"):
        return self.node(name)["metadata"]["annotations"]

    def pods_on(self, name="n1"):
        with self._lock:
            self._advance()
            return sorted(pod for (_namespace, pod), made in self.pods.items() if made["object"]["spec"].get("nodeName") == name)

    def ready(self, app, namespace="shop"):
        with self._lock:
            self._advance()
            return len([1 for made in self._of(namespace, app) if self._is_ready(made)])

    def calls(self, method=None):
        return [(asked, path.split("?")[0], status) for asked, path, status in self.requests if method in (None, asked)]

    # What happens behind the API

    def _uid(self):
        self._serial += 1
        return f"00000000-0000-4000-8000-{self._serial:012d}"

    def _next_revision(self):
        self._revision += 1
        return str(self._revision)

    def end_pods(self):
        """The pods that are ending have ended, whatever their grace."""
        with self._lock:
            for made in self.pods.values():
                made["gone_at"] = None if made["gone_at"] is None else 0.0

    def _of(self, namespace, app):
        return [made for (place, _name), made in self.pods.items() if place == namespace and made["object"]["metadata"]["labels"]["app"] == app]

    def _is_ready(self, made):
        if made["gone_at"] is not None or made["object"]["status"]["phase"] != "Running" or made["ready_at"] > time.monotonic():
            return False
        # If a node is not ready, none of its pods is.
        node = self.nodes.get(made["object"]["spec"].get("nodeName"))
        return node is None or _is_node_ready(node)

    def _advance(self):
        now = time.monotonic()
        for place, made in list(self.pods.items()):
            if made["gone_at"] is not None and made["gone_at"] <= now:
                del self.pods[place]
        for (namespace, name), workload in self.workloads.items():
            alive = [made for made in self._of(namespace, name) if made["gone_at"] is None]
            for _number in range(workload["replicas"] - len(alive)):
                self._replace(namespace, name)
        for made in self.pods.values():
            if made["object"]["status"]["phase"] == "Pending" and self._free_node():
                made["object"]["spec"]["nodeName"] = self._free_node()
                made["object"]["status"]["phase"], made["ready_at"] = "Running", now + self.starting

    def _free_node(self):
        takes = [name for name, node in self.nodes.items() if not node["spec"].get("unschedulable") and _is_node_ready(node)]
        return min(takes, key=lambda name: len([1 for made in self.pods.values() if made["object"]["spec"].get("nodeName") == name]), default=None)

    def _replace(self, namespace, name, on=None, ready_at=None):
        workload = self.workloads[namespace, name]
        if workload["kind"] == "StatefulSet":
            taken = {pod for place, pod in self.pods if place == namespace}
            free = [f"{name}-{number}" for number in range(workload["replicas"]) if f"{name}-{number}" not in taken]
            if not free:
                # The former pod of that name has not ended yet.
                return
            pod = free[0]
        else:
            pod = f"{name}-{self._uid()[-4:]}"
        on = on or self._free_node()
        owner = {"kind": workload["kind"], "name": name, "uid": workload["uid"]}
        ready_at = time.monotonic() + self.starting if ready_at is None else ready_at
        self.pod(pod, on, namespace, owner, name, "Running" if on else "Pending", ready_at=ready_at, **workload["spec"])

    # The API

    def answer(self, method, path, headers, body, user):
        """The status and the object of an answer."""
        with self._lock:
            self._advance()
            if user is None:
                raise Refusal(401, "Unauthorized", "Unauthorized")
            if not re.search(r"application/json|\*/\*", headers.get("Accept", "*/*")):
                raise Refusal(406, "NotAcceptable", "only the following media types are accepted: application/json")
            parts = urlsplit(path)
            query = dict(parse_qsl(parts.query, keep_blank_values=True))
            words = parts.path.split("/")[1:]
            if words[:2] != ["api", "v1"]:
                raise Refusal(404, "NotFound", "the server could not find the requested resource")
            words = words[2:]
            if words == ["nodes"] and method == "GET":
                return self._list_nodes(user, query)
            if len(words) == 2 and words[0] == "nodes" and method in ("GET", "PATCH"):
                return self._node_request(user, method, words[1], query, headers, body)
            if words == ["pods"] and method == "GET":
                return self._list_pods(user, query)
            if len(words) == 5 and (words[0], words[2], words[4]) == ("namespaces", "pods", "eviction") and method == "POST":
                return self._evict(user, words[1], words[3], query, headers, body)
            raise Refusal(405, "MethodNotAllowed", f"the stand-in knows no {method} {path}")

    def _permit(self, user, verb, resource, name="", namespace=""):
        if not any("" in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"] for rule in self.rules):
            where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
            what = f"{resource.split('/')[0]}{f' {name!r}' if name else ''} is forbidden".replace("'", '"')
            raise Refusal(403, "Forbidden", f'{what}: User "{user}" cannot {verb} resource "{resource}" in API group "" {where}')

    @staticmethod
    def _known(query, *names):
        unknown = set(query) - set(names)
        if unknown:
            raise Refusal(400, "BadRequest", f"the stand-in knows no parameter {sorted(unknown)[0]}")

    def _list_nodes(self, user, query):
        self._permit(user, "list", "nodes")
        self._known(query, "limit", "continue")
        names = sorted(self.nodes)
        begin = 0
        if "continue" in query:
            if not re.fullmatch(r"after [0-9]+\+/=", query["continue"]):
                raise Refusal(400, "BadRequest", "continue key is not valid")
            begin = int(query["continue"].split()[1][:-3])
        end = begin + int(query.get("limit", len(names)))
        metadata = {"resourceVersion": str(self._revision)}
        if end < len(names):
            metadata.update({"continue": f"after {end}+/=", "remainingItemCount": len(names) - end})
        return 200, {"kind": "NodeList", "apiVersion": "v1", "metadata": metadata, "items": [self.nodes[name] for name in names[begin:end]]}

    def _node_request(self, user, method, name, query, headers, body):
        self._permit(user, method.lower(), "nodes", name)
        self._known(query, *(["fieldManager"] if method == "PATCH" else []))
        if method == "PATCH":
            kind = headers.get("Content-Type", "")
            if kind != "application/merge-patch+json":
                accepted = "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml"
                raise Refusal(
                    415, "UnsupportedMediaType", f"the body of the request was in an unknown format - accepted media types include: {accepted}; it was {kind}"
                )
        if name not in self.nodes:
            raise Refusal(404, "NotFound", f'nodes "{name}" not found')
        node = self.nodes[name]
        if method == "PATCH":
            node = self.nodes[name] = self._patched(node, _json_object(body))
        return 200, dict({"kind": "Node", "apiVersion": "v1"}, **node)

    def _patched(self, node, patch):
        name = node["metadata"]["name"]
        known = {"metadata": {"resourceVersion", "annotations"}, "spec": {"unschedulable"}}
        if not all(part in known and set(patch[part]) <= known[part] for part in patch):
            raise Refusal(400, "BadRequest", f"the stand-in changes annotations and spec.unschedulable alone, not {patch}")
        version = patch.get("metadata", {}).get("resourceVersion")
        if version is not None and version != node["metadata"]["resourceVersion"]:
            raise Refusal(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on nodes "{name}": the object has been modified; please apply your changes to the latest version and try again',
            )
        patched = copy.deepcopy(node)
        for key, value in (patch.get("metadata", {}).get("annotations") or {}).items():
            if not ANNOTATION_KEY.fullmatch(key) or not (value is None or isinstance(value, str)):
                raise Refusal(422, "Invalid", f'Node "{name}" is invalid: metadata.annotations: Invalid value: "{key}"')
            patched["metadata"]["annotations"].pop(key, None)
            if value is not None:
                patched["metadata"]["annotations"][key] = value
        if "unschedulable" in patch.get("spec", {}):
            value = patch["spec"]["unschedulable"]
            if value not in (True, False, None):
                raise Refusal(400, "BadRequest", "json: cannot unmarshal into Go struct field NodeSpec.spec.unschedulable of type bool")
            patched["spec"].pop("unschedulable", None)
            if value:
                patched["spec"]["unschedulable"] = True
        patched["metadata"]["resourceVersion"] = self._next_revision()
        return patched

    def _list_pods(self, user, query):
        self._permit(user, "list", "pods")
        self._known(query, "fieldSelector", "labelSelector")
        if query == {"labelSelector": "component=etcd"}:
            items = [made["object"] for made in self.pods.values() if made["object"]["metadata"]["labels"].get("component") == "etcd"]
            return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": str(self._revision)}, "items": items}
        found = re.fullmatch(r"spec\.nodeName=([a-z0-9.-]+)", query.get("fieldSelector", ""))
        if not found:
            raise Refusal(400, "BadRequest", f"field label not supported: {query.get('fieldSelector')}")
        items = [made["object"] for made in self.pods.values() if made["object"]["spec"].get("nodeName") == found[1]]
        return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": str(self._revision)}, "items": items}

    def _evict(self, user, namespace, name, query, headers, body):
        self._permit(user, "create", "pods/eviction", name, namespace)
        self._known(query)
        if headers.get("Content-Type") != "application/json":
            raise Refusal(415, "UnsupportedMediaType", "the body of the request was in an unknown format - accepted media types include: application/json")
        eviction = _json_object(body)
        unknown = set(eviction) - {"apiVersion", "kind", "metadata", "deleteOptions"}
        if unknown or (eviction.get("apiVersion"), eviction.get("kind")) != ("policy/v1", "Eviction"):
            raise Refusal(400, "BadRequest", "no Eviction of policy/v1")
        if (eviction["metadata"].get("name"), eviction["metadata"].get("namespace", namespace)) != (name, namespace):
            raise Refusal(400, "BadRequest", "name in URL does not match name in Eviction object")
        made = self.pods.get((namespace, name))
        if made is None:
            raise Refusal(404, "NotFound", f'pods "{name}" not found')
        if made["object"]["status"]["phase"] == "Running" and made["gone_at"] is None:
            self._ask_budget(namespace, made)
        metadata = made["object"]["metadata"]
        wanted = eviction.get("deleteOptions", {}).get("preconditions", {}).get("uid", metadata["uid"])
        if wanted != metadata["uid"]:
            raise Refusal(409, "Conflict", f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {metadata['uid']}")
        if made["gone_at"] is None:
            made["gone_at"] = time.monotonic() + self.grace
            metadata.update(deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=30, resourceVersion=self._next_revision())
        return 201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}

    def _ask_budget(self, namespace, made):
        app = made["object"]["metadata"]["labels"]["app"]
        budgets = [(name, budget) for (place, name), budget in self.budgets.items() if place == namespace and budget["app"] == app]
        if len(budgets) > 1:
            raise Refusal(500, "InternalError", "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
        for name, budget in budgets:
            healthy = len([1 for other in self._of(namespace, app) if self._is_ready(other)])
            if healthy - budget["min_available"] < 1:
                cause = f"The disruption budget {name} needs {budget['min_available']} healthy pods and has {healthy} currently"
                message = "Cannot evict pod as it would violate the pod's disruption budget."
                raise Refusal(429, "TooManyRequests", message, [("DisruptionBudget", cause)], {"Retry-After": "10"})


def _is_node_ready(node):
    return node["status"]["conditions"][1]["status"] == "True"


def _json_object(body):
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Refusal(400, "BadRequest", "the object provided is unrecognized")
    return found


class Watch(Meanwhile):
    """How few pods of each workload that has a budget were ready at once, of all looks: one every C(pause) seconds."""

    def __init__(self, cluster, pause=0.02):
        self.least = {}
        self._cluster, self._pause = cluster, pause
        super().__init__()

    def _run(self):
        while not self._ends.wait(self._pause):
            for (namespace, name), budget in self._cluster.budgets.items():
                ready = self._cluster.ready(budget["app"], namespace)
                self.least[name] = min(ready, self.least.get(name, ready))

    def broken(self):
        """The budgets that were not honoured."""
        return [name for (_namespace, name), budget in self._cluster.budgets.items() if self.least[name] < budget["min_available"]]


class _Answer(Handler):
    protocol_version = "HTTP/1.1"
    cluster = None

    def _handle(self):
        cluster = self.cluster
        body = self.body()
        number = len(cluster.requests)
        cluster.requests.append((self.command, self.path, None))
        what = self._fault()
        if "do" in what:
            what["do"]()
        time.sleep(what.get("delay", 0))
        if what.get("drop"):
            self.close_connection = True
            return
        headers = {}
        if "status" in what:
            status, headers = what["status"], what.get("headers", {})
            text = what.get("body", "")
            text = text if isinstance(text, str) else json.dumps(text)
        else:
            try:
                status, answer = cluster.answer(self.command, self.path, self.headers, body, self._user())
            except Refusal as refusal:
                status, answer, headers = refusal.code, refusal.body, refusal.headers
            text = json.dumps(answer)
        cluster.requests[number] = (self.command, self.path, status)
        self.reply(status, text.encode(), {"Content-Type": "application/json", **headers})

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _handle

    def _fault(self):
        for fault in self.cluster.faults:
            if fault["times"] and fault["method"] in (None, self.command) and fault["path"].search(self.path):
                fault["times"] -= 1
                return fault["what"]
        return {}

    def _user(self):
        given = self.headers.get("Authorization")
        if given is not None:
            return USER if given == f"Bearer {TOKEN}" else None
        subject = (self.connection.getpeercert() or {}).get("subject", ())
        return next((value for part in subject for key, value in part if key == "commonName"), None)
