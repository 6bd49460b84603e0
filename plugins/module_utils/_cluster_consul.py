# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node of Consul. What takes it out is the maintenance mode of its agent.

In maintenance mode the node has one more check, which is critical, so Consul offers no service of the node. The notes of the check are the reason that was
given with the mode: ours is our name, with the ids of the events. If the mode is set twice, Consul keeps the first reason. It ends the mode whoever set it. So
the check is read before each change and after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from ansible_collections.graceful.azure.plugins.module_utils._cluster import (
    OWNER,
    TLS_OPTIONS,
    Member,
    MemberError,
    SeenMember,
    ids_in,
    parsed,
    tls_mistakes,
    with_ids,
    wrong_url,
)
from ansible_collections.graceful.azure.plugins.module_utils._spellings import endpoint, listed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

URL = "http://127.0.0.1:8500"
MAINTENANCE = "_node_maintenance"
# What an agent calls a member of its cluster that answers.
ALIVE = 1
# Tags of servers that have all data and do not vote.
NO_VOTE = ("read_replica", "nonvoter")
# The status of an answer that the token may not have, or that a version does not know.
NOT_TOLD = (403, 404)
SEE_TOKEN = "See whether the token may read all nodes"


class Consul(Member):
    type = "consul"
    title = "Consul"
    bears_name = True
    options = {
        "url": {"type": "str", "default": URL},
        "token_file": {"type": "path"},
        **TLS_OPTIONS,
    }

    @classmethod
    def mistakes(cls, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
        problem = wrong_url(options["url"], "http", "https")
        if problem:
            yield "url", "%r %s; write it like %s" % (options["url"], problem, URL)
        yield from tls_mistakes(options)

    def look(self) -> SeenMember:
        node = self._agent()["NodeName"]
        check = self._object("/v1/agent/checks").get(MAINTENANCE)
        reason = None
        if check is not None:
            reason = check.get("Notes") if isinstance(check, dict) else None
            if not isinstance(reason, str):
                raise self._nonsense("/v1/agent/checks", "the check %s has no notes" % MAINTENANCE)
        ours = _is_ours(reason)
        return SeenMember(
            member=node,
            ours=ours,
            serves=reason is None,
            foreign=None if reason is None or ours else "The node %s is in maintenance mode already, with the reason %r." % (node, reason),
            left="%s is not in maintenance mode" % node if reason is None else self._offered(node),
            state={"maintenance": reason is not None, "reason": reason},
            events=ids_in(reason or "") if ours else (),
        )

    def spare(self, seen: SeenMember) -> str | None:
        return self.still_needed(seen) or self._needed_for_services(seen.member)

    def still_needed(self, seen: SeenMember) -> str | None:
        # Maintenance mode takes no vote.
        return self._needed_as_server(seen.member)

    def out(self, seen: SeenMember) -> None:
        self._maintenance(enable="true", reason=with_ids(OWNER, self.event_ids))

    def back(self, seen: SeenMember, found: dict[str, Any]) -> None:
        self._maintenance(enable="false")

    def _offered(self, node: str) -> str | None:
        """Whether Consul's servers know of the maintenance mode already. Until then they offer the services of the node."""
        try:
            checks = self._list("/v1/health/node/" + quote(node, safe=""))
        except MemberError as error:
            # The agent has answered, so its servers do not.
            return "Consul's servers do not tell whether they still offer the services of %s. %s" % (node, str(error).rstrip("."))
        if any(isinstance(check, dict) and check.get("CheckID") == MAINTENANCE and check.get("Status") == "critical" for check in checks):
            return None
        return "Consul's servers do not know yet that %s is in maintenance mode" % node

    def _needed_as_server(self, node: str) -> str | None:
        """Whether the servers of Consul would lose their majority without this one."""
        if not self._agent()["Server"]:
            return None
        servers = self._servers()
        said, peers = self._peers(servers)
        if not peers or len(peers) < len(said):
            return "Consul's servers do not tell who votes: they name %s" % (", ".join(map(str, said)) or "nobody")
        able = {peer: found for peer, found in peers.items() if not (found and _has_no_vote(found[0]))}
        # A new server votes when it has been stable for a while.
        too_new = self._too_new_to_vote()
        voters = {peer: found for peer, found in able.items() if endpoint(peer) not in too_new}
        others = {peer: found for peer, found in voters.items() if all(member.get("Name") != node for member in found)}
        unknown = sorted(peer for peer, found in voters.items() if not found)
        if len(others) == len(voters):
            if unknown and not any(member.get("Name") == node and _has_no_vote(member) for found in servers.values() for member in found):
                # One of them may be this node.
                return "no voting server of Consul has the address of %s, and nothing is known of %s. %s" % (
                    node,
                    listed(unknown),
                    SEE_TOKEN,
                )
            # Each vote is known to be another server's: this one has none.
            return None
        majority = len(voters) // 2 + 1
        if len(others) < majority and len(voters) == len(able):
            # There are so few servers that no waiting helps.
            return None
        alive = [found[0] for found in others.values() if found and found[0].get("Status") == ALIVE]
        # Without a leader, nobody tells this. Then there are too few anyway.
        leaving = self._held() if len(alive) >= majority else set()
        staying = [member for member in alive if member.get("Name") not in leaving]
        if len(staying) >= majority:
            return None
        gone = sorted(str(member.get("Name")) for member in alive if member not in staying)
        return "without %s the servers of Consul would lose their majority: %d of the other %d answer%s, and %d are needed" % (
            node,
            len(staying),
            len(others),
            " and stay (%s %s out for an event)" % (listed(gone), "is" if len(gone) == 1 else "are") if gone else "",
            majority,
        )

    def _held(self) -> set[str]:
        """The nodes that are in maintenance mode because of us: each of them may go at any moment, although it answers."""
        checks = (check for check in self._list("/v1/health/state/critical") if isinstance(check, dict) and check.get("CheckID") == MAINTENANCE)
        return {str(check.get("Node")) for check in checks if _is_ours(check.get("Notes"))}

    def _servers(self) -> dict[tuple[str, int], list[dict[str, Any]]]:
        """The members that are servers of Consul, by their addresses. Those that the token may not read are left out."""
        servers: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for member in self._list("/v1/agent/members"):
            if isinstance(member, dict) and isinstance(member.get("Tags"), dict) and member["Tags"].get("role") == "consul":
                address = endpoint("%s:%s" % (member.get("Addr"), member["Tags"].get("port")))
                if address is not None:
                    servers.setdefault(address, []).append(member)
        return servers

    def _peers(self, servers: dict[tuple[str, int], list[dict[str, Any]]]) -> tuple[list[Any], dict[str, list[dict[str, Any]]]]:
        """The peers of Consul's servers, whom everybody may read: as they are told, and for each text the members that have its address."""
        said = self._list("/v1/status/peers")
        # A server that was built anew under another name has the address of one that has left, so those that answer come first.
        return said, {
            peer: sorted(servers.get(endpoint(peer) or ("", 0), ()), key=lambda member: member.get("Status") != ALIVE) for peer in said if isinstance(peer, str)
        }

    def _too_new_to_vote(self) -> set[tuple[str, int]]:
        """The addresses of servers that have no vote now. The set is empty if only operators are told that, and the token is none of them."""
        path = "/v1/operator/raft/configuration"
        status, text = self._ask("GET", path, *NOT_TOLD)
        if status in NOT_TOLD:
            return set()
        answer = parsed(text)
        servers = answer.get("Servers") if isinstance(answer, dict) else None
        if not isinstance(servers, list):
            raise self._nonsense(path, "it has no Servers")
        addresses = (endpoint(str(server.get("Address"))) for server in servers if isinstance(server, dict) and server.get("Voter") is False)
        return {address for address in addresses if address is not None}

    def _needed_for_services(self, node: str) -> str | None:
        """Whether a service that other nodes have as well would be offered by none of them."""
        services = self._object("/v1/agent/services").values()
        hidden: list[str] | None = None
        for name in sorted({service["Service"] for service in services if isinstance(service, dict) and isinstance(service.get("Service"), str)}):
            path = "/v1/health/service/" + quote(name, safe="")
            passing: set[str] = set()
            others: set[str] = set()
            # Consul offers a node with a warning as well, if there is no other setting.
            is_known = is_offered = False
            for entry in self._list(path):
                try:
                    name_there, statuses = entry["Node"]["Node"], {check["Status"] for check in entry["Checks"]}
                except (KeyError, TypeError):
                    raise self._nonsense(path, "an entry has no node or no checks") from None
                if name_there == node:
                    is_known = True
                    is_offered = is_offered or "critical" not in statuses
                else:
                    others.add(name_there)
                    passing.update([name_there] if statuses <= {"passing"} else [])
            if not is_known:
                return "Consul's servers do not tell that %s has the service %s. See whether the token may read it" % (node, name)
            if is_offered and not others:
                if hidden is None:
                    hidden = sorted(peer for peer, found in self._peers(self._servers())[1].items() if not found)
                if hidden:
                    # What the token may not read is left out without a word, so other nodes may be, too.
                    return "nobody can tell whether other nodes have the service %s: nothing is known of Consul's servers %s. %s" % (
                        name,
                        listed(hidden),
                        SEE_TOKEN,
                    )
            if is_offered and others and not passing:
                return "%s is the only node that Consul offers for the service %s: it does not pass its checks on %s" % (node, name, listed(sorted(others)))
        return None

    def _agent(self) -> dict[str, Any]:
        config = self._object("/v1/agent/self").get("Config")
        if not (isinstance(config, dict) and isinstance(config.get("NodeName"), str) and isinstance(config.get("Server"), bool)):
            raise self._nonsense("/v1/agent/self", "Config has no NodeName or no Server")
        return config

    def _maintenance(self, **query: str) -> None:
        self._ask("PUT", "/v1/agent/maintenance?" + urlencode(query))

    def _object(self, path: str) -> dict[str, Any]:
        answer = self._get(path)
        if not isinstance(answer, dict):
            raise self._nonsense(path, "it is no object")
        return answer

    def _list(self, path: str) -> list[Any]:
        answer = self._get(path)
        if not isinstance(answer, list):
            raise self._nonsense(path, "it is no list")
        return answer

    def _get(self, path: str) -> Any:
        return parsed(self._ask("GET", path)[1])

    def _ask(self, method: str, path: str, *others: int) -> tuple[int, str]:
        """The status and the text of an answer. C(others): the statuses besides 200 that are no error."""
        headers = {"X-Consul-Token": self.tools.secret(self.options["token_file"])} if self.options.get("token_file") else None
        status, text = self.tools.request(method, self.url(path), headers=headers, tls=self.tls())
        if status not in (200, *others):
            words = " ".join(text.split())[:200].rstrip(".")
            raise MemberError("%s %s was answered with status %d%s." % (method, self.url(path), status, " (%s)" % words if words else ""))
        return status, text

    def _nonsense(self, path: str, why: str) -> MemberError:
        return MemberError("The answer to GET %s is not what an agent of Consul says: %s." % (self.url(path), why))


def _is_ours(reason: object) -> bool:
    return isinstance(reason, str) and (reason == OWNER or reason.startswith(OWNER + " ("))


def _has_no_vote(member: dict[str, Any]) -> bool:
    return any(member["Tags"].get(tag) for tag in NO_VOTE)
