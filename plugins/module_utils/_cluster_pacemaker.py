# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node of a Pacemaker cluster. What takes it out is a location constraint of our own for all resources, in the configuration of the cluster.

A node in standby would do the same, but nothing tells who put it there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from ansible_collections.graceful.azure.plugins.module_utils._cluster import Member, MemberError, Seen, last_line, plain_ids
from ansible_collections.graceful.azure.plugins.module_utils._spellings import NAME, listed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

PREFIX = "graceful-azure-"
# What corosync calls the node of this host, after its name.
LOCAL = "(local)"
# What it calls a device that votes beside the nodes.
DEVICE = "Qdevice"
# What cibadmin exits with if nothing is there.
NOTHING_THERE = 105
# The resource agents that answer scheduled events themselves.
OTHERS = ("azure-events", "azure-events-az")


class Pacemaker(Member):
    type = "pacemaker"
    title = "Pacemaker"
    bears_name = True
    options = {"node": {"type": "str"}}

    @classmethod
    def mistakes(cls, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
        node = options.get("node")
        if node is not None and not NAME.match(node):
            yield "node", "%r is no name of a node; write it of letters, digits, dots, dashes and underscores" % node

    def look(self) -> Seen:
        node = self.options.get("node") or self._local()
        status = self._status()
        nodes = {found.get("name", ""): found.attrib for found in status.findall("./nodes/node")}
        if node not in nodes:
            raise MemberError("The cluster has no node %s; it has %s. Set the option node." % (node, ", ".join(sorted(nodes)) or "none"))
        own = nodes[node]
        out = self._constraints()
        if node not in out:
            self._check_machine(node)
        running = int(own.get("resources_running") or 0)
        state: dict[str, Any] = {
            "constraint": node in out,
            "online": own.get("online") == "true",
            "standby": own.get("standby") == "true",
            "maintenance": own.get("maintenance") == "true" or _is_in_maintenance(status),
            "resources": running,
        }
        left = None
        if running:
            left = "%d resource%s on %s" % (running, " runs" if running == 1 else "s run", node)
            left += ", and Pacemaker moves nothing, because maintenance mode is on" if state["maintenance"] else ""
        foreign = None
        if state["standby"]:
            foreign = "Somebody else put the node %s into standby." % node
        self._others = sorted(name for name, found in nodes.items() if name != node and _can_serve(found) and name not in out)
        self._ids = {name: found.get("id", "") for name, found in nodes.items()}
        self._leaving = [name for name in sorted(out) if name != node and name in nodes and _votes(nodes[name])]
        self._rival = next((found.get("id") for found in status.iter("resource") if (found.get("resource_agent") or "").split(":")[-1] in OTHERS), None)
        dc = status.find("./summary/current_dc")
        self._is_remote = own.get("type", "member") != "member"
        self._has_quorum = dc is not None and dc.get("with_quorum") == "true"
        serves = state["online"] and not (state["standby"] or state["constraint"] or own.get("pending") == "true")
        self._own = out.get(node, [])
        return Seen(node, state["constraint"], serves, foreign, left, state, _ids_in(self._own, node))

    def spare(self, seen: Seen) -> str | None:
        if not self._has_quorum:
            return "the cluster has no quorum"
        if not self._others:
            return "Pacemaker has no other node that is online and may run what runs on %s" % seen.member
        # A remote node has no vote, and no corosync.
        return None if self._is_remote else self._needed_for_quorum(seen.member)

    def out(self, seen: Seen) -> None:
        if self._rival:
            raise MemberError(
                "The cluster has the resource %s, which handles scheduled events itself and approves them. Remove it, or leave out this duty." % self._rival
            )
        if self._own:
            return
        name = ".".join([PREFIX + seen.member, "..".join(plain_ids(self.event_ids))]).rstrip(".")
        constraint = '<rsc_location id="%s" rsc-pattern=".*" node="%s" score="-INFINITY"/>' % (name, seen.member)
        self._cib("--modify", "--allow-create", "--scope", "constraints", "--xml-text", constraint)

    def back(self, seen: Seen, found: dict[str, Any]) -> None:
        for name in self._own or [PREFIX + seen.member]:
            self._cib("--delete", "--xpath", "//rsc_location[@id='%s']" % name)

    def _local(self) -> str:
        code, out, err = self.tools.run(["crm_node", "--name"])
        if code or not NAME.match(out.strip()):
            raise MemberError("`crm_node --name` does not tell the name of this node: %s." % last_line(err or out, code))
        return out.strip()

    def _check_machine(self, node: str) -> None:
        """A wrong name would take another machine's resources away and leave ours."""
        code, out, _err = self.tools.run(["crm_node", "--name"]) if self.options.get("node") else (1, "", "")
        local = out.strip()
        if not code and NAME.match(local) and local.lower() != node.lower():
            raise MemberError("This machine is the node %s of the cluster, and not %s. See whether the option node is right." % (local, node))

    def _status(self) -> ElementTree.Element:
        code, out, err = self.tools.run(["crm_mon", "--output-as=xml", "--one-shot"])
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
        argv = ["cibadmin", "--query", "--scope", "constraints"]
        code, out, err = self.tools.run(argv)
        if code == NOTHING_THERE:
            return {}
        try:
            found = ElementTree.fromstring(out)
        except ElementTree.ParseError:
            raise MemberError("`%s` failed: %s." % (" ".join(argv), last_line(err or out, code))) from None
        ours: dict[str, list[str]] = {}
        for entry in found.iter("rsc_location"):
            name, node = entry.get("id", ""), entry.get("node", "")
            if node and (name + ".").startswith(PREFIX + node + "."):
                ours.setdefault(node, []).append(name)
        return ours

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

    def _cib(self, *words: str) -> None:
        code, out, err = self.tools.run(["cibadmin", *words])
        if code:
            raise MemberError("`cibadmin %s` failed: %s." % (words[0], last_line(err or out, code)))


def _ids_in(names: list[str], node: str) -> tuple[str, ...]:
    """The events that the ids of our constraints tell."""
    return tuple(event_id for name in names for event_id in name[len(PREFIX + node) + 1 :].split("..") if event_id)


def _is_in_maintenance(status: ElementTree.Element) -> bool:
    options = status.find("./summary/cluster_options")
    return options is not None and options.get("maintenance-mode") == "true"


def _votes(node: dict[str, str]) -> bool:
    return node.get("online") == "true" and node.get("type", "member") == "member"


def _can_serve(node: dict[str, str]) -> bool:
    flags = ("standby", "standby_onfail", "maintenance", "pending", "unclean", "shutdown")
    return node.get("online") == "true" and node.get("type", "member") != "ping" and not any(node.get(flag) == "true" for flag in flags)
