# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node of a Kubernetes cluster that its owner runs: cordoned with an annotation of ours, and drained through the eviction API.

The host itself asks the API server. Only what this file says is sent: GET of nodes and of the pods of one node, PATCH of that node, POST of evictions.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import platform
import re
import tempfile
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

from ansible.module_utils.basic import missing_required_lib
from ansible_collections.graceful.azure.plugins.module_utils._cluster import (
    OWNER,
    TLS_OPTIONS,
    Member,
    MemberError,
    SeenMember,
    ids_in,
    parsed,
    runs,
    tls_context,
    tls_mistakes,
    with_ids,
    wrong_url,
)
from ansible_collections.graceful.azure.plugins.module_utils._file_systems import machine_id_in
from ansible_collections.graceful.azure.plugins.module_utils._spellings import MOST_NAMED, listed, reason_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._cluster import Tools

    # A node or a pod, as the API server tells it.
    Thing = dict[str, Any]
    # The URL of the API server, and the headers and the context of requests.
    Access = tuple[str, dict[str, str], ssl.SSLContext]

# It is set with the cordon in one request, and removed with it.
ANNOTATION = OWNER + "/cordoned"
WHY = "for a scheduled event of Azure"
MIRROR = "kubernetes.io/config.mirror"
# The nodes that have a member of etcd: those with the first label, if any has it, otherwise those of the control plane. Some tell it by a static pod.
ETCD_ROLE = "node-role.kubernetes.io/etcd"
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
ETCD_LABEL, ETCD_POD = "component", "etcd"
# Seconds for one answer, and for all evictions of one call. What is left over is asked for in the next call.
ANSWER_SECONDS = 5.0
EVICTION_SECONDS = 4.0
# How often a change is tried again if somebody else changed the node meanwhile: its kubelet does so every few seconds.
TRIES = 5
# Nodes that are asked for in one request.
PAGE = 50
# Pods that a sentence names.
NAMED = 4
NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?\Z")


class Kubernetes(Member):
    type = "kubernetes"
    title = "Kubernetes"
    bears_name = True
    options = {
        "node": {"type": "str"},
        "host": {"type": "str"},
        "api_key_file": {"type": "path", "no_log": False},
        **TLS_OPTIONS,
        "validate_certs": {"type": "bool", "default": True},
        "kubeconfig": {"type": "path"},
        "context": {"type": "str"},
        "delete_emptydir_data": {"type": "bool", "default": False},
        "force": {"type": "bool", "default": False},
    }
    # Evictions that a budget does not allow now are asked for again.
    goes_on = True

    def __init__(self, options: dict[str, Any], tools: Tools) -> None:
        super().__init__(options, tools)
        self._name = options.get("node") or platform.node().lower()
        self._api: _Api | None = None
        # Whether the node may have a vote in etcd, as the last look found it: by a label, or by a static pod.
        self._may_vote = False
        # Why pods were not evicted in this call, by uid.
        self._refusals: dict[str, str] = {}

    @classmethod
    def mistakes(cls, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
        node, host = options.get("node"), options.get("host")
        if node is not None and not NAME.match(node):
            yield "node", "%r is no name of a node, as `kubectl get nodes` shows it" % node
        if host is not None and wrong_url(host, "https"):
            yield "host", "%r is no URL such as https://10.0.0.1:6443; credentials are sent there, so http is refused" % host
        yield from tls_mistakes(options, has_certificate=bool(options.get("kubeconfig")))
        if options.get("context") and not options.get("kubeconfig"):
            yield "context", "a context is a part of a kubeconfig, but kubeconfig is not set"
        if not options.get("kubeconfig"):
            if not host:
                yield "host", "not set; give the URL of the API server, such as https://10.0.0.1:6443, or kubeconfig"
            if not (options.get("api_key_file") or options.get("client_cert")):
                yield "api_key_file", "not set; give it, or client_cert and client_key, or kubeconfig"

    def look(self) -> SeenMember:
        node = self._node()
        ours, cordoned = _is_ours(node), _is_cordoned(node)
        self._check_machine(node, ours)
        self._may_vote = bool(_roles(node))
        foreign = None
        if cordoned and not ours:
            foreign = "Node %s is cordoned, and not by graceful.azure." % self._name
        return SeenMember(
            member=self._name,
            ours=ours,
            serves=not cordoned,
            foreign=foreign,
            left=self._left(self._pods()),
            state={"unschedulable": cordoned, "annotation": _annotations(node).get(ANNOTATION)},
            # `kubectl uncordon` leaves them.
            events=ids_in(str(_annotations(node).get(ANNOTATION) or "")),
        )

    def spare(self, seen: SeenMember) -> str | None:
        own = self._node()
        if not any(node["metadata"]["name"] != self._name and _may_take_over(node, own) for node in self._nodes()):
            return "Kubernetes has no other node that is ready and takes the pods of %s" % self._name
        return self.still_needed(seen)

    def still_needed(self, seen: SeenMember) -> str | None:
        # A node that is cordoned goes on voting.
        if not self._may_vote:
            return None
        nodes = {node["metadata"]["name"]: node for node in self._nodes()}
        path = "/api/v1/pods?labelSelector=" + quote("%s=%s" % (ETCD_LABEL, ETCD_POD), safe="")
        pods = {str(_dict(pod.get("spec")).get("nodeName")): pod for pod in _items(self._server.ask(path), path) if MIRROR in _annotations(pod)}
        marked = {name for name, node in nodes.items() if ETCD_ROLE in _roles(node)} or {name for name, node in nodes.items() if _roles(node)}
        voters = marked | set(pods).intersection(nodes)
        others, majority = sorted(voters - {self._name}), len(voters) // 2 + 1
        if self._name not in voters or len(others) < majority:
            # It has no vote, or there are so few that no waiting helps.
            return None
        why = {name: _why_gone(nodes[name], pods) for name in others}
        gone = ["%s %s" % (name, why[name]) for name in others if why[name]]
        if len(others) - len(gone) >= majority:
            return None
        told = "without %s, etcd would lose its majority: %d other nodes of the control plane must stay, and %s"
        return told % (self._name, majority, listed(gone))

    def _nodes(self) -> Iterator[Thing]:
        path = "/api/v1/nodes?limit=%d" % PAGE
        following = ""
        while True:
            answer = self._server.ask(path + following)
            yield from _items(answer, path)
            token = answer["metadata"].get("continue") if isinstance(answer.get("metadata"), dict) else None
            if not token:
                return
            following = "&continue=" + quote(token, safe="")

    def out(self, seen: SeenMember) -> None:
        marks = {ANNOTATION: with_ids(WHY, self.event_ids)}
        node = self._until_changed("it was to be cordoned", lambda node: _is_cordoned(node) or self._change(node, marks, True))
        # Whoever cordoned it meanwhile keeps it: the next look tells.
        if not _is_cordoned(node) or _is_ours(node):
            self._evict()

    def back(self, seen: SeenMember, found: dict[str, Any]) -> None:
        self._until_changed("it was to be uncordoned", lambda node: not _is_ours(node) or self._change(node, {ANNOTATION: None}, None))

    def forget(self, seen: SeenMember) -> None:
        # `kubectl uncordon` leaves the annotation. It would make the next cordon of anybody ours.
        self._until_changed(
            "its annotation was to be removed",
            lambda node: ANNOTATION not in _annotations(node) or _is_cordoned(node) or self._change(node, {ANNOTATION: None}, None),
        )

    def _until_changed(self, what: str, attempt: Callable[[Thing], bool]) -> Thing:
        """Read the node and attempt its change until nobody else changes it in between. Returns the node as it was read last."""
        for _try in range(TRIES):
            node = self._node()
            if attempt(node):
                return node
        raise MemberError("Node %s was changed by somebody else each of the %d times that %s." % (self._name, TRIES, what))

    @property
    def _server(self) -> _Api:
        self._api = self._api or _Api(_access(self.options, self.tools), self.tools)
        return self._api

    def _node(self) -> Thing:
        status, answer = self._server.send("GET", self._path)
        if not 200 <= status < 300:
            raise MemberError(_refused("GET", self._server.url + self._path, status, answer) + (self._others() if status == 404 else ""))
        return _checked(answer, self._path)

    def _others(self) -> str:
        """A sentence: which nodes there are, the first of them."""
        path = "/api/v1/nodes?limit=%d" % MOST_NAMED
        try:
            names = [str(node["metadata"]["name"]) for node in _items(self._server.ask(path), path)]
        except MemberError:
            return ""
        return " There are %s." % ", ".join(names[:MOST_NAMED]) if names else ""

    @property
    def _path(self) -> str:
        return "/api/v1/nodes/" + quote(self._name, safe="")

    def _pods(self) -> list[Thing]:
        path = "/api/v1/pods?fieldSelector=" + quote("spec.nodeName=" + self._name, safe="")
        pods = _items(self._server.ask(path), path)
        for pod in pods:
            if not all(isinstance(pod["metadata"].get(key), str) for key in ("namespace", "uid")):
                raise _nonsense(path, "a pod there has no namespace or uid")
        self._may_vote |= any(MIRROR in _annotations(pod) and _dict(pod["metadata"].get("labels")).get(ETCD_LABEL) == ETCD_POD for pod in pods)
        return [pod for pod in pods if not _stays(pod)]

    def _change(self, node: Thing, annotations: Mapping[str, str | None], unschedulable: bool | None) -> bool:
        """Whether it was done. It is not if somebody changed the node since it was read."""
        metadata = {"resourceVersion": node["metadata"].get("resourceVersion"), "annotations": annotations}
        path = self._path + "?fieldManager=" + OWNER
        status, answer = self._server.send("PATCH", path, {"metadata": metadata, "spec": {"unschedulable": unschedulable}}, "merge-patch+json")
        if status == 409:
            return False
        if not 200 <= status < 300:
            raise MemberError(_refused("PATCH", self._server.url + path, status, answer))
        return True

    def _check_machine(self, node: Thing, is_out: bool) -> None:
        """A wrong name would take another machine's pods away and leave ours, or count that machine's hold as ours.

        C(is_out): what a hold of ours has set is there, and is given back before the kubelet has reported a new boot.
        """
        info = _dict(_dict(node.get("status")).get("nodeInfo"))
        theirs, ours = info.get("bootID"), self.tools.boot_id()
        machines = {machine_id_in(str(info.get("systemUUID"))), self.tools.machine_id()}
        if theirs != ours and not (is_out and (None in machines or len(machines) == 1)):
            raise MemberError(
                "Node %s is another machine, or its kubelet has not reported since this machine booted: it says boot id %s, and this machine's is %s. "
                "See whether the option node is right." % (self._name, theirs or "unknown", ours)
            )

    def _evict(self) -> None:
        ends = time.monotonic() + EVICTION_SECONDS
        for pod in self._pods():
            metadata = pod["metadata"]
            if metadata.get("deletionTimestamp") or self._needs_option(pod):
                continue
            if time.monotonic() >= ends:
                return
            path = "/api/v1/namespaces/%s/pods/%s/eviction" % (quote(metadata["namespace"], safe=""), quote(metadata["name"], safe=""))
            eviction = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
                # A pod of a StatefulSet comes again with the same name, on another node.
                "deleteOptions": {"preconditions": {"uid": metadata["uid"]}},
            }
            status, answer = self._server.send("POST", path, eviction)
            if 200 <= status < 300 or status in (404, 409):
                continue
            self._refusals[metadata["uid"]] = _why_not(status, answer)
            if status == 403 and "cannot create resource" in _message(answer):
                raise MemberError(_refused("POST", self._server.url + path, status, answer))
            if status == 429 and not _causes(answer):
                # It is not about this pod: the API server has too much to do.
                return

    def _needs_option(self, pod: Thing) -> str | None:
        """What an eviction would lose for good, in words; None if nothing."""
        if not self.options.get("force") and not _controller(pod):
            return "has no controller that would replace it (option force)"
        volumes = _dict(pod.get("spec")).get("volumes") or ()
        if not self.options.get("delete_emptydir_data") and any("emptyDir" in _dict(volume) for volume in volumes):
            return "has an emptyDir, which an eviction deletes (option delete_emptydir_data)"
        return None

    def _left(self, pods: list[Thing]) -> str | None:
        if not pods:
            return None
        told: list[str] = []
        others: list[str] = []
        for pod in pods:
            metadata = pod["metadata"]
            name = "%s/%s" % (metadata["namespace"], metadata["name"])
            lacking = self._needs_option(pod)
            if metadata.get("deletionTimestamp"):
                others.append("%s is ending" % name)
            elif lacking:
                told.append("%s %s" % (name, lacking))
            elif metadata["uid"] in self._refusals:
                told.append("%s: %s" % (name, self._refusals[metadata["uid"]]))
            else:
                others.append(name)
        told += others
        shown = told[:NAMED] + (["%d more" % (len(told) - NAMED)] if len(told) > NAMED else [])
        return "%s on node %s: %s" % (runs(len(pods), "pod"), self._name, ", ".join(shown))


class _Api:
    """Requests to one API server."""

    def __init__(self, access: Access, tools: Tools) -> None:
        self.url, self._headers, self._tls = access
        self._tools = tools

    def send(self, method: str, path: str, body: dict[str, Any] | None = None, kind: str = "json") -> tuple[int, dict[str, Any]]:
        """The status, and the answer as a dictionary."""
        headers = dict(self._headers, Accept="application/json")
        sent = None
        if body is not None:
            headers["Content-Type"] = "application/" + kind
            sent = json.dumps(body)
        status, text = self._tools.request(method, self.url + path, sent, headers, ANSWER_SECONDS, self._tls)
        answer = parsed(text)
        if not isinstance(answer, dict):
            if 200 <= status < 300:
                raise MemberError("%s %s%s answers %d, but not as an API server of Kubernetes does: %r." % (method, self.url, path, status, text[:100]))
            answer = {"message": " ".join(text.split())[:200]}
        return status, answer

    def ask(self, path: str) -> dict[str, Any]:
        """What is there. It is an error if that is refused."""
        status, answer = self.send("GET", path)
        if not 200 <= status < 300:
            raise MemberError(_refused("GET", self.url + path, status, answer))
        return answer


def _access(options: dict[str, Any], tools: Tools) -> Access:
    """The URL, the headers and the TLS context for requests, from options or from a kubeconfig."""
    known: dict[str, Any] = {key: options.get(key) for key in ("host", *TLS_OPTIONS)}
    if options.get("api_key_file"):
        known["api_key"] = tools.secret(options["api_key_file"])
    validate = options.get("validate_certs") is not False
    with tempfile.TemporaryDirectory() as folder:
        if options.get("kubeconfig"):
            of_file, skips = _of_kubeconfig(options["kubeconfig"], options.get("context"), folder, tools)
            validate = validate and not skips
            known = {key: known.get(key) or value for key, value in of_file.items()}
            if wrong_url(known["host"], "https"):
                raise MemberError("%s names %r as its server, which is no URL such as https://10.0.0.1:6443." % (options["kubeconfig"], known["host"]))
        token = str(known.get("api_key") or "")
        if not (token or known["client_cert"]):
            raise MemberError("%s has neither a token nor a client certificate." % options.get("kubeconfig"))
        if token and not re.match(r"[!-~]+\Z", token):
            raise MemberError("The token for %s is none: it has spaces or other characters that no token has." % known["host"])
        tls = tls_context(known["ca_cert"], validate, known["client_cert"], known["client_key"])
    return known["host"].rstrip("/"), {"Authorization": "Bearer " + token} if token else {}, tls


def _of_kubeconfig(path: str, context: str | None, folder: str, tools: Tools) -> tuple[dict[str, Any], bool]:
    """The options that a kubeconfig stands for, and whether it says that certificates are not checked. Its data become files in ``folder``."""
    config = _read(path)
    base = os.path.dirname(os.path.abspath(path))
    name = context or config.get("current-context")
    if not name:
        raise MemberError("%s has no current-context: set the option context." % path)
    chosen = _named(path, config, "contexts", "context", name)
    cluster = _named(path, config, "clusters", "cluster", chosen.get("cluster"))
    user = _named(path, config, "users", "user", chosen.get("user"))
    unknown = [key for key in ("proxy-url", "tls-server-name") if cluster.get(key)] + [key for key in ("exec", "auth-provider", "username") if user.get(key)]
    if unknown:
        raise MemberError(
            "%s uses %s, which the collection does not know. Give host, ca_cert and api_key_file, or a client certificate, instead." % (path, unknown[0])
        )

    def file_of(part: dict[str, Any], key: str) -> str | None:
        data = part.get(key + "-data")
        if not data:
            return os.path.join(base, part[key]) if part.get(key) else None
        try:
            content = base64.b64decode(data, validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise MemberError("%s: %s-data is not written in base64." % (path, key)) from None
        target = os.path.join(folder, key)
        # The folder is ours alone, and is gone when the certificates are read.
        with open(target, "wb") as stream:
            stream.write(content)
        return target

    token = user.get("token")
    if not token and user.get("tokenFile"):
        token = tools.secret(os.path.join(base, user["tokenFile"]))
    return {
        "host": cluster.get("server"),
        "api_key": token,
        "ca_cert": file_of(cluster, "certificate-authority"),
        "client_cert": file_of(user, "client-certificate"),
        "client_key": file_of(user, "client-key"),
    }, bool(cluster.get("insecure-skip-tls-verify"))


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path) as stream:
            text = stream.read()
    except (OSError, ValueError) as error:
        raise MemberError("The kubeconfig %s cannot be read: %s." % (path, reason_of(error))) from error
    try:
        config = json.loads(text)
    except ValueError:
        try:
            import yaml
        except ImportError:
            raise MemberError(
                "The kubeconfig %s is YAML. %s Or give host, ca_cert and api_key_file, or a client certificate, instead."
                % (path, missing_required_lib("PyYAML"))
            ) from None
        try:
            config = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise MemberError("The kubeconfig %s is no YAML: %s." % (path, " ".join(str(error).split()))) from error
    if not isinstance(config, dict):
        raise MemberError("%s is no kubeconfig: it has no contexts." % path)
    return config


def _named(path: str, config: dict[str, Any], several: str, one: str, name: object) -> dict[str, Any]:
    entries = [entry for entry in config.get(several) or () if isinstance(entry, dict)]
    for entry in entries:
        found = entry.get(one)
        if entry.get("name") == name and isinstance(found, dict):
            return found
    names = ", ".join(str(entry.get("name")) for entry in entries) or "none"
    raise MemberError("%s has no %s named %s; there is %s." % (path, one, name, names))


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _checked(thing: object, path: str) -> Thing:
    """A node or pod that has what every one has."""
    checked = _dict(thing)
    if not isinstance(_dict(checked.get("metadata")).get("name"), str):
        raise _nonsense(path, "something there has no name")
    return checked


def _items(answer: dict[str, Any], path: str) -> list[Thing]:
    items = answer.get("items")
    # Go writes an empty list as null here and there.
    if "items" not in answer or not (items is None or isinstance(items, list)):
        raise _nonsense(path, "there is no list of items")
    return [_checked(item, path) for item in items or ()]


def _nonsense(path: str, why: str) -> MemberError:
    return MemberError("%s answers, but not as an API server of Kubernetes does: %s." % (path, why))


def _annotations(thing: Thing) -> dict[str, Any]:
    return _dict(thing["metadata"].get("annotations"))


def _is_cordoned(node: Thing) -> bool:
    return _dict(node.get("spec")).get("unschedulable") is True


def _is_ours(node: Thing) -> bool:
    return _is_cordoned(node) and ANNOTATION in _annotations(node)


def _is_ready(thing: Thing) -> bool:
    conditions = _dict(thing.get("status")).get("conditions") or ()
    return any(_dict(condition).get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)


def _may_take_over(node: Thing, own: Thing) -> bool:
    return _is_ready(node) and not _is_cordoned(node) and _barriers(node) <= _barriers(own)


def _roles(node: Thing) -> set[str]:
    """The labels of a node by which it may have a member of etcd."""
    return {ETCD_ROLE, *CONTROL_PLANE}.intersection(_dict(node["metadata"].get("labels")))


def _why_gone(node: Thing, pods: Mapping[str, Thing]) -> str | None:
    """Why the vote of a node does not count. C(pods): the static pods of etcd, by their nodes. Where there are none, only the node tells."""
    name = node["metadata"]["name"]
    if not _is_ready(node):
        return "is not ready"
    if pods and not (name in pods and _is_ready(pods[name])):
        return "has no etcd that is ready"
    return "is out for an event" if _is_ours(node) else None


def _barriers(node: Thing) -> set[tuple[Any, Any, Any]]:
    """The taints that keep pods away."""
    taints = [_dict(taint) for taint in _dict(node.get("spec")).get("taints") or ()]
    return {(taint.get("key"), taint.get("value"), taint.get("effect")) for taint in taints if taint.get("effect") in ("NoSchedule", "NoExecute")}


def _controller(pod: Thing) -> dict[str, Any] | None:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if _dict(owner).get("controller") is True), None)


def _stays(pod: Thing) -> bool:
    """Whether a pod is none of our business: the node's own, or finished."""
    if MIRROR in _annotations(pod) or _dict(pod.get("status")).get("phase") in ("Succeeded", "Failed"):
        return True
    return (_controller(pod) or {}).get("kind") == "DaemonSet"


def _causes(answer: dict[str, Any]) -> list[str]:
    causes = [_dict(cause) for cause in _dict(answer.get("details")).get("causes") or ()]
    return [str(cause.get("message")) for cause in causes if cause.get("reason") == "DisruptionBudget"]


def _why_not(status: int, answer: dict[str, Any]) -> str:
    causes = _causes(answer)
    if status == 429 and causes:
        return causes[0][:200].rstrip(".")
    if status == 429:
        return "the API server has too much to do"
    if status == 500 and "more than one PodDisruptionBudget" in _message(answer):
        return "more than one disruption budget is for it, and Kubernetes then never evicts it"
    return "its eviction was refused with %d: %s" % (status, _message(answer).rstrip("."))


def _message(answer: dict[str, Any]) -> str:
    return " ".join(str(answer.get("message") or "nothing more is said").split())[:300]


def _refused(method: str, url: str, status: int, answer: dict[str, Any]) -> str:
    hints = {
        401: " The credentials are not accepted: see whether they have expired.",
        403: " Give the user of these credentials the role that docs/duty-kubernetes.md shows.",
        404: " See whether the options node and host are right.",
    }
    return "%s %s was refused with %d: %s.%s" % (method, url, status, _message(answer).rstrip("."), hints.get(status, ""))
