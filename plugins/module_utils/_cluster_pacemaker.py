# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node of a Pacemaker cluster. What takes it out is a location constraint of our own for all resources, in the configuration of the cluster.

A node in standby would do the same, but nothing tells who put it there.
"""

from __future__ import annotations

import copy
import os
import re
import tempfile
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from ansible_collections.graceful.azure.plugins.module_utils._cluster import Member, MemberError, SeenMember, last_line, plain_ids, runs
from ansible_collections.graceful.azure.plugins.module_utils._spellings import NAME, NAME_IS_OF, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    # Resources by their names, and whether they are promoted. One that is promoted is there both ways.
    Active = set[tuple[str, bool]]

PREFIX = "graceful-azure-"
# What corosync calls the node of this host, after its name.
LOCAL = "(local)"
# What it calls a device that votes beside the nodes.
DEVICE = "Qdevice"
# What cibadmin exits with if nothing is there.
NOTHING_THERE = 105
# The resource agents that answer scheduled events themselves.
OTHERS = ("azure-events", "azure-events-az")
# The roles of a resource that is promoted, the former word too.
PROMOTED = ("Promoted", "Master")
# What keeps a node, or a resource on it, from running until somebody ends that: attributes of nodes.
PASSING = re.compile(r"(standby|maintenance|fail-count-.*)\Z")


class Pacemaker(Member):
    type = "pacemaker"
    title = "Pacemaker"
    bears_name = True
    options = {"node": {"type": "str"}}

    @classmethod
    def mistakes(cls, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
        node = options.get("node")
        if node is not None and not NAME.match(node):
            yield "node", "%r is no name of a node; %s" % (node, NAME_IS_OF)

    def look(self) -> SeenMember:
        node = self.options.get("node") or self._local()
        status = self._status()
        nodes = {found.get("name", ""): found.attrib for found in status.findall("./nodes/node")}
        if node not in nodes:
            raise MemberError("The cluster has no node %s; it has %s. Set the option node." % (node, ", ".join(sorted(nodes)) or "none"))
        own = nodes[node]
        out = self._constraints()
        self._check_machine(node)
        running = int(own.get("resources_running") or 0) or self._stopping(node)
        state: dict[str, Any] = {
            "constraint": node in out,
            "online": own.get("online") == "true",
            "standby": own.get("standby") == "true",
            "maintenance": own.get("maintenance") == "true" or _is_in_maintenance(status),
            "resources": running,
        }
        left = None
        if running:
            left = "%s on %s" % (runs(running, "resource"), node)
            left += ", and Pacemaker moves nothing, because maintenance mode is on" if state["maintenance"] else ""
        foreign = None
        if state["standby"]:
            foreign = "Somebody else put the node %s into standby." % node
        self._others = sorted(name for name, found in nodes.items() if name != node and _can_serve(found) and name not in out)
        self._ids = {name: found.get("id", "") for name, found in nodes.items()}
        self._leaving = [name for name in sorted(out) if name != node and name in nodes and _votes(nodes[name])]
        self._rival = next((found.get("id") for found in status.iter("resource") if (found.get("resource_agent") or "").split(":")[-1] in OTHERS), None)
        dc = status.find("./summary/current_dc")
        self._is_remote = not _is_full(own)
        self._has_quorum = dc is not None and dc.get("with_quorum") == "true"
        serves = state["online"] and not (state["standby"] or state["constraint"] or own.get("pending") == "true")
        self._active = _active(status, node)
        self._offline = [name for name, found in nodes.items() if found.get("online") != "true" and _is_full(found)]
        self._own = out.get(node, [])
        return SeenMember(node, state["constraint"], serves, foreign, left, state, _ids_in(self._own, node))

    def spare(self, seen: SeenMember) -> str | None:
        if self._has_quorum and not self._others:
            return "Pacemaker has no other node that is online and may run what runs on %s" % seen.member
        return self.still_needed(seen) or self._needed_for_resources(seen.member)

    def still_needed(self, seen: SeenMember) -> str | None:
        if not self._has_quorum:
            return "the cluster has no quorum"
        # A node in standby votes. A remote node has no vote, and no corosync.
        return None if self._is_remote else self._needed_for_quorum(seen.member)

    def out(self, seen: SeenMember) -> None:
        if self._rival:
            raise MemberError(
                "The cluster has the resource %s, which handles scheduled events itself and approves them. Remove it, or leave out this duty." % self._rival
            )
        if self._own:
            return
        name = ".".join([PREFIX + seen.member, "..".join(plain_ids(self.event_ids))]).rstrip(".")
        self._cib("--modify", "--allow-create", "--scope", "constraints", "--xml-text", _constraint(name, seen.member))

    def back(self, seen: SeenMember, found: dict[str, Any]) -> None:
        for name in self._own or [PREFIX + seen.member]:
            self._cib("--delete", "--xpath", "//rsc_location[@id='%s']" % name)

    def _local(self) -> str:
        code, out, err = self.tools.run(["crm_node", "--name"])
        if code or not NAME.match(out.strip()):
            raise MemberError("`crm_node --name` does not tell the name of this node: %s." % last_line(err or out, code))
        return out.strip()

    def _check_machine(self, node: str) -> None:
        """A wrong name would take another machine's resources away and leave ours, or count that machine's hold as ours."""
        code, out, _err = self.tools.run(["crm_node", "--name"]) if self.options.get("node") else (1, "", "")
        local = out.strip()
        if not code and NAME.match(local) and local.lower() != node.lower():
            raise MemberError("This machine is the node %s of the cluster, and not %s. See whether the option node is right." % (local, node))

    def _status(self, **env: str) -> ElementTree.Element:
        code, out, err = self.tools.run(["crm_mon", "--output-as=xml", "--one-shot"], env=env)
        try:
            status = ElementTree.fromstring(out)
        except ElementTree.ParseError:
            raise MemberError("`crm_mon` did not print XML: %s." % last_line(err or out, code)) from None
        if code or status.find("./nodes") is None:
            told = [error.text for error in status.iter("error") if error.text]
            raise MemberError("`crm_mon` cannot ask the cluster: %s." % last_line(told[-1] if told else err, code))
        return status

    def _constraints(self) -> dict[str, list[str]]:
        """The nodes that constraints of ours keep free, with the ids of these. After the node's name, an id tells the events."""
        ours: dict[str, list[str]] = {}
        for entry in self._query("--scope", "constraints").iter("rsc_location"):
            name, node = entry.get("id", ""), entry.get("node", "")
            if node and (name + ".").startswith(PREFIX + node + "."):
                ours.setdefault(node, []).append(name)
        return ours

    def _stopping(self, node: str) -> int:
        """How many resources are about to stop there. C(crm_mon) shows one that has no recurring monitor nowhere meanwhile."""
        pending = "lrm_rsc_op[@operation='stop' and @op-status='-1']"
        found = self._query("--xpath", "//node_state[@uname='%s']//lrm_resource[%s]" % (node, pending))
        return sum(1 for _resource in found.iter("lrm_resource"))

    def _needed_for_quorum(self, node: str) -> str | None:
        """Whether the votes would be too few without this node's."""
        try:
            code, out, err = self.tools.run(["corosync-quorumtool", "-s"])
        except MemberError as error:
            return "nothing tells whether the cluster needs the vote of %s: %s" % (node, str(error).rstrip("."))
        found = {key: int(value) for key, value in re.findall(r"^(Total votes|Quorum):\s+(\d+)", out, re.MULTILINE)}
        if len(found) < 2:
            if "Quorum information" in out and "Votequorum information" not in out:
                return None  # this corosync counts no votes
            return "corosync-quorumtool does not tell whether the cluster needs the vote of %s: %s" % (node, last_line(err or out, code))
        members = re.findall(r"^\s*(\d+)\s+(\d+)\s.*?(\S+)( \(local\))?$", out, re.MULTILINE)
        votes = {number: int(count) for number, count, _name, _local in members}
        named = {LOCAL if local else name: int(count) for _number, count, name, local in members}
        # Corosync may call a node by another name, or by its address. Of one that is not found, it is not known how many votes it has.
        most = max((count for name, count in named.items() if name != DEVICE), default=1)
        # A node that we keep free votes, and may go at any moment.
        going = named.get(LOCAL, most) + sum(votes.get(self._ids.get(name, ""), named.get(name, most)) for name in self._leaving)
        if found["Total votes"] - going < found["Quorum"]:
            also = " and %s, which is out already," % listed(self._leaving) if self._leaving else ""
            told = "without %s%s the cluster would lose its quorum: it has %d votes and needs %d"
            return told % (node, also, found["Total votes"], found["Quorum"])
        return None

    def _needed_for_resources(self, node: str) -> str | None:
        """Whether resources would run nowhere without this node. Others may be online and not take them: for their vote alone, or after failures.

        Pacemaker itself tells, by its simulation of what it would do with our constraint.
        """
        try:
            cib = self._query()
            lost = self._active - self._simulated(cib, node)
            if lost:
                # What no other node may run, whatever becomes of the others, is not worth waiting for.
                possible = {name for name, _promoted in self._simulated(_without_what_passes(cib, node), node, up=self._offline)}
                lost = {(name, promoted) for name, promoted in lost if name in possible}
        except MemberError as error:
            return "nothing tells whether other nodes would run what runs on %s: %s" % (node, str(error).rstrip("."))
        told = [name + (" (promoted)" if promoted else "") for name, promoted in sorted(lost) if not promoted or (name, False) not in lost]
        return "without %s, Pacemaker would run this nowhere (crm_simulate): %s" % (node, listed(told)) if told else None

    def _simulated(self, cib: ElementTree.Element, node: str, up: Iterable[str] = ()) -> Active:
        """What would run if our constraint kept this node free. ``up``: nodes that come online before."""
        cib = copy.deepcopy(cib)
        constraints = cib.find("./configuration/constraints")
        if constraints is None:
            raise MemberError("`cibadmin --query` told no configuration.")
        constraints.append(ElementTree.fromstring(_constraint(PREFIX + node, node)))
        # The configuration may have passwords in it. The folder is ours alone.
        with tempfile.TemporaryDirectory() as folder:
            before, after = (os.path.join(folder, name) for name in ("before.xml", "after.xml"))
            ElementTree.ElementTree(cib).write(before)
            words = [word for name in up for word in ("--node-up", name)]
            code, out, err = self.tools.run(["crm_simulate", "--simulate", "--xml-file", before, "--save-output", after, *words])
            if code:
                raise MemberError("`crm_simulate` failed: %s." % last_line(err or out, code))
            return _active(self._status(CIB_file=after))

    def _query(self, *words: str) -> ElementTree.Element:
        argv = ["cibadmin", "--query", *words]
        code, out, err = self.tools.run(argv)
        if code == NOTHING_THERE and words:
            return ElementTree.Element("nothing")
        try:
            return ElementTree.fromstring(out)
        except ElementTree.ParseError:
            raise MemberError("`%s` failed: %s." % (" ".join(argv), last_line(err or out, code))) from None

    def _cib(self, *words: str) -> None:
        code, out, err = self.tools.run(["cibadmin", *words])
        if code:
            raise MemberError("`cibadmin %s` failed: %s." % (words[0], last_line(err or out, code)))


def _constraint(name: str, node: str) -> str:
    return '<rsc_location id="%s" rsc-pattern=".*" node="%s" score="-INFINITY"/>' % (name, node)


def _active(status: ElementTree.Element, node: str | None = None) -> Active:
    """The resources that run, or run on this node. A bundle counts as one, and so do the copies of a clone.

    Fence devices need not run, and what is not managed stays where it is.
    """
    found: Active = set()
    for top in status.findall("./resources/*"):
        for each in top.iter("resource"):
            nodes = [on.get("name") for on in each.findall("node")]
            is_ours = each.get("managed") == "true" and not (each.get("resource_agent") or "").startswith("stonith:")
            if is_ours and each.get("active") == "true" and (node in nodes if node else nodes):
                name = ((top if top.tag == "bundle" else each).get("id") or "").partition(":")[0]
                found.update((name, promoted) for promoted in (False, each.get("role") in PROMOTED))
    return found


def _without_what_passes(cib: ElementTree.Element, node: str) -> ElementTree.Element:
    """The configuration as it would be if nobody kept other nodes free, and nothing had failed."""
    cib = copy.deepcopy(cib)
    for parent in list(cib.iter()):
        for child in list(parent):
            is_ours = child.tag == "rsc_location" and child.get("id", "").startswith(PREFIX) and child.get("node") != node
            if is_ours or child.tag == "nvpair" and parent.tag == "instance_attributes" and PASSING.match(child.get("name", "")):
                parent.remove(child)
    return cib


def _ids_in(names: list[str], node: str) -> tuple[str, ...]:
    """The events that the ids of our constraints tell."""
    return tuple(event_id for name in names for event_id in name[len(PREFIX + node) + 1 :].split("..") if event_id)


def _is_in_maintenance(status: ElementTree.Element) -> bool:
    options = status.find("./summary/cluster_options")
    return options is not None and options.get("maintenance-mode") == "true"


def _is_full(node: dict[str, str]) -> bool:
    """Whether a node has corosync, and so a vote. A remote node has none."""
    return node.get("type", "member") == "member"


def _votes(node: dict[str, str]) -> bool:
    return node.get("online") == "true" and _is_full(node)


def _can_serve(node: dict[str, str]) -> bool:
    flags = ("standby", "standby_onfail", "maintenance", "pending", "unclean", "shutdown")
    return node.get("online") == "true" and node.get("type", "member") != "ping" and not any(node.get(flag) == "true" for flag in flags)
