# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node of RabbitMQ. What takes it out is RabbitMQ's maintenance mode.

In maintenance mode a node closes the connections of its clients and takes no new ones, and hands over what leads quorum queues. Nothing tells who put it
into that mode: only the record knows whether it was us. The mode ends whenever RabbitMQ starts.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._cluster import Member, MemberError, SeenMember, first_line, parsed, short_name
from ansible_collections.graceful.azure.plugins.module_utils._spellings import listed, normal_address, plural

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Union

    # Of a program: its exit code, its output and its errors; or why there is none.
    Outcome = Union[tuple[int, str, str], MemberError]

# What the command line tools exit with: they do not know the command, or a check failed.
USAGE, CHECK_FAILED = 64, 69
# Counts the queues that the node leads, in all virtual hosts: those that the maintenance mode hands over. RabbitMQ itself finds them like this.
LEADERS = "length(rabbit_amqqueue:list_local_leaders())."
# The connections between nodes and of the command line tools.
BETWEEN_NODES = ("clustering", "clustering/ssl")
# Where a listener of all addresses is found on the host itself. That of IPv6 also takes connections over IPv4, even where the host has no IPv6 address.
ANY = {"::": ("::1", "127.0.0.1"), "0.0.0.0": ("127.0.0.1",)}
# RabbitMQ's own checks, and what would become of the queues that they name.
CHECKS = (
    ("check_if_node_is_quorum_critical", "would lose their majority"),
    ("check_if_node_is_mirror_sync_critical", "have no other mirror in sync"),
)
# Seconds for a command. Each starts a virtual machine of Erlang.
SECONDS = 20.0


class RabbitMQ(Member):
    type = "rabbitmq"
    title = "RabbitMQ"
    options = {"node": {"type": "str"}}
    survives_reboot = False
    closes = True

    # Whether this call has put it into maintenance mode.
    _went_out = False

    @classmethod
    def mistakes(cls, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
        node = options.get("node")
        if node is not None and not re.fullmatch(r"[A-Za-z0-9_.-]+@[A-Za-z0-9_.:-]+", node):
            yield "node", "%r is no name of a node; write it like rabbit@web1" % node

    def look(self) -> SeenMember:
        self._check_machine()
        asked = [["rabbitmq-diagnostics", *self._node(), "--formatter", "json", "status"]]
        if self._went_out:
            # What will be asked next is asked side by side: each command takes about a second until it asks.
            asked.append(["rabbitmqctl", *self._node(), "eval", LEADERS])
        told = self.tools.run_all(asked, SECONDS)
        status = _object(told[0], "rabbitmq-diagnostics status")
        listeners: Any = status.get("listeners")
        totals: Any = status.get("totals")
        out = status.get("is_under_maintenance")
        try:
            node = self.options.get("node") or listeners[0]["node"]
            doors = sorted({(listener["interface"].strip("[]"), listener["port"]) for listener in listeners if listener["protocol"] not in BETWEEN_NODES})
            connections = totals["connection_count"] + 0
            self._process = status["pid"] + 0
        except (AttributeError, TypeError, KeyError, IndexError):
            raise _nonsense("rabbitmq-diagnostics status", "listeners, totals or the pid are not there") from None
        if not isinstance(out, bool):
            raise _nonsense("rabbitmq-diagnostics status", "is_under_maintenance is %r. RabbitMQ has it from 3.8.10 on" % (out,))
        return SeenMember(
            member=node,
            ours=out,
            serves=not out,
            # The record of a hold of ours comes first.
            foreign="The node %s is in maintenance mode already." % node if out else None,
            left=self._left(node, connections, doors, told[1:]) if out else "%s is not in maintenance mode" % node,
            state={"maintenance": out, "connections": connections},
        )

    def life(self, boot_id: str) -> str:
        return "%s, process %s" % (boot_id, self._process)

    def spare(self, seen: SeenMember) -> str | None:
        # Side by side, too.
        asked = ("rabbitmqctl", "cluster_status"), *(("rabbitmq-diagnostics", check) for check, _why in CHECKS)
        told = self.tools.run_all([[program, *self._node(), "--formatter", "json", command] for program, command in asked], SECONDS)
        return self._others_stay(seen.member, told[0]) or self._needed_for_queues(seen.member, told[1:])

    def still_needed(self, seen: SeenMember) -> str | None:
        # In maintenance mode a node keeps its copies of the queues.
        return self.spare(seen)

    def out(self, seen: SeenMember) -> None:
        self._run("rabbitmq-upgrade", "drain")
        self._went_out = True

    def back(self, seen: SeenMember, found: dict[str, Any]) -> None:
        self._run("rabbitmq-upgrade", "revive")

    def _check_machine(self) -> None:
        """A wrong name would put another machine's node into maintenance mode and leave ours. The name of a node ends with that of its host."""
        node = self.options.get("node")
        host = node.partition("@")[2] if node else ""
        if not host or short_name(host) == "localhost":
            return
        told = self.tools.run_all([["hostname"], ["hostname", "--all-ip-addresses"], ["getent", "ahosts", host]], SECONDS)
        name, own, there = ("" if isinstance(each, MemberError) or each[0] else each[1] for each in told)
        ours, theirs = (set(filter(None, map(normal_address, words))) for words in (own.split(), re.findall(r"^\S+", there, re.MULTILINE)))
        # Without a name server the name may mean something to RabbitMQ alone.
        if (
            short_name(host) == short_name(name)
            or not ours
            or not theirs
            or any(address in ours or ipaddress.ip_address(address).is_loopback for address in theirs)
        ):
            return
        where = listed(sorted(theirs))
        raise MemberError("The node %s is on %s, which is no address of this machine (%s). See whether the option node is right." % (node, where, name.strip()))

    def _left(self, node: str, connections: int, doors: list[tuple[str, int]], leaders: list[Outcome]) -> str | None:
        """What is still on the node. ``leaders``: how many queues it leads, if that was asked."""
        if connections:
            return "%s to %s" % (plural(connections, "client connection"), node)
        # RabbitMQ lists a listener also when it is suspended.
        ports = [port for address, port in doors if any(self.tools.accepts(host, port) for host in ANY.get(address, (address,)))]
        if ports:
            return "%s still takes client connections at port %s" % (node, ", ".join(str(port) for port in ports))
        out = (_said(leaders[0], "rabbitmqctl eval") if leaders else self._run("rabbitmqctl", "eval", LEADERS)).strip()
        if not out.isdigit():
            raise _nonsense("rabbitmqctl eval", "it is not the number of queues, but %r" % out[:80])
        return None if out == "0" else "%s quorum queue%s still led by %s" % (out, " is" if out == "1" else "s are", node)

    def _others_stay(self, node: str, told: Outcome) -> str | None:
        """Whether enough other nodes run and are in no maintenance mode. ``told``: the state of the cluster."""
        status = _object(told, "rabbitmqctl cluster_status")
        try:
            nodes = [*status["disk_nodes"], *status.get("ram_nodes", ())]
            running, partitions = list(status["running_nodes"]), dict(status["partitions"])
            # The words come with colours.
            serving = [name for name, told in status["maintenance_status"].items() if "not under maintenance" in told]
        except (KeyError, TypeError, ValueError, AttributeError):
            raise _nonsense("rabbitmqctl cluster_status", "the nodes or their states are not there") from None
        if node not in nodes:
            return "the cluster of %s does not have it among its nodes, %s" % (node, listed([str(name) for name in nodes]) or "of which it tells none")
        if len(nodes) < 2:
            # Nobody could take over, so no waiting helps.
            return None
        if partitions:
            return "the cluster of %s is split: its nodes do not see each other" % node
        # Two nodes have no majority without one of them.
        needed = len(nodes) // 2 + 1 if len(nodes) > 2 else 1
        stay = [name for name in nodes if name != node and name in running and name in serving]
        if len(stay) >= needed:
            return None
        return "without %s, %d of the %d nodes of the cluster would serve, and %d are needed" % (node, len(stay), len(nodes), needed)

    def _needed_for_queues(self, node: str, told: list[Outcome]) -> str | None:
        """Whether queues would be lost or stop without this node. ``told``: what RabbitMQ's own checks said."""
        for (check, why), outcome in zip(CHECKS, told):
            if isinstance(outcome, MemberError):
                raise outcome
            code, out, err = outcome
            if code == 0 or code == USAGE and "mirror" in check:
                # RabbitMQ has no mirrors from 4.0 on.
                continue
            # A check that fails says so among the errors.
            found = _parsed(err) or _parsed(out)
            if code != CHECK_FAILED or not isinstance(found.get("queues"), list):
                raise _failed("rabbitmq-diagnostics %s" % check, outcome)
            names = [str(queue.get("readable_name") or queue.get("name")) for queue in found["queues"] if isinstance(queue, dict)]
            return "without %s, queues %s: %s" % (node, why, listed(names))
        return None

    def _run(self, program: str, *words: str) -> str:
        told = self.tools.run([program, *self._node(), *words], SECONDS)
        return _said(told, "%s %s" % (program, "eval" if words[0] == "eval" else words[-1]))

    def _node(self) -> list[str]:
        node = self.options.get("node")
        if not node:
            return []
        # Names with a dot are long names, and RabbitMQ wants to be told so.
        return ["--node", node] + (["--longnames"] if "." in node.partition("@")[2] else [])


def _parsed(out: str) -> dict[str, Any]:
    """The JSON object in what a tool printed. Warnings may stand before it."""
    found = parsed(out[max(out.find("{"), 0) :])
    return found if isinstance(found, dict) else {}


def _said(told: Outcome, command: str) -> str:
    """What a command printed. Raises an error if it failed."""
    if isinstance(told, MemberError):
        raise told
    code, out, _err = told
    if code:
        raise _failed(command, told)
    return out


def _failed(command: str, told: tuple[int, str, str]) -> MemberError:
    code, out, err = told
    return MemberError("`%s` failed: %s." % (command, first_line((err or out).replace("Error:", ""), code)))


def _object(told: Outcome, command: str) -> dict[str, Any]:
    """The JSON object that a command printed. Raises an error if it failed, or printed none."""
    found = _parsed(_said(told, command))
    if not found:
        raise _nonsense(command, "it is no JSON object")
    return found


def _nonsense(command: str, why: str) -> MemberError:
    return MemberError("The answer to `%s` is not what RabbitMQ says: %s." % (command, why))
