# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A PostgreSQL server of Patroni, as a member of its cluster. Another member becomes the leader; a replica stays as it is."""

from __future__ import annotations

import base64
import json
import socket
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._cluster import (
    TLS_OPTIONS,
    AttemptFailed,
    Member,
    MemberError,
    SeenMember,
    parsed,
    tls_mistakes,
    wrong_url,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

LEADERS = ("leader", "standby_leader")
# States of a former leader on its way to being a replica. Clients may still be connected, or pg_rewind may run: if that is cut off, the data are lost.
MOVING = ("stopping", "stopped", "starting", "restarting")
# States of a replica that can become the leader. Patroni 3.0.4 and later call it streaming.
ABLE = ("running", "streaming")
# States of a leader that serves. Who holds the leader key is called leader also while its PostgreSQL starts, or does not start any more.
SERVING = (*ABLE, "in archive recovery")
# Roles of replicas for which the leader waits with each write: by synchronous_mode, and by its value quorum from Patroni 4 on.
SYNCHRONOUS = ("sync_standby", "quorum_standby")

# Seconds that a look may take.
LOOK_LIMIT = 4.0
# Patroni answers when the switchover is done. It goes on with it if nobody waits for the answer.
SWITCHOVER_SECONDS = 4.0


class Patroni(Member):
    type = "patroni"
    title = "Patroni"
    options = {
        "url": {"type": "str", "default": "http://127.0.0.1:8008"},
        "member": {"type": "str"},
        "username": {"type": "str"},
        "password_file": {"type": "path"},
        **TLS_OPTIONS,
    }
    # The other members may have made it the leader again.
    survives_reboot = False
    undoes_itself = True
    hands_over = True

    @classmethod
    def mistakes(cls, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
        problem = wrong_url(options["url"], "http", "https")
        if problem:
            yield "url", "%r %s; write the address of Patroni's REST API, such as http://127.0.0.1:8008" % (options["url"], problem)
        for one, other in (("username", "password_file"), ("password_file", "username")):
            if options[one] and not options[other]:
                yield other, "it is missing, and %s needs it" % one
        yield from tls_mistakes(options)

    def look(self) -> SeenMember:
        cluster = self._read("/cluster")
        members = cluster.get("members")
        if not isinstance(members, list) or not all(isinstance(member, dict) and member.get("name") for member in members):
            raise MemberError("GET %s does not tell the members of the cluster." % self.url("/cluster"))
        name = self._name()
        this = next((member for member in members if member["name"] == name), None)
        if this is None:
            known = ", ".join(sorted(member["name"] for member in members)) or "none"
            raise MemberError("Patroni's cluster has no member %s (option member). Its members: %s." % (name, known))
        # The node itself is asked, too: what all members know may be some seconds old.
        status, text = self._request("GET", "/leader")
        if status not in (200, 503):
            raise MemberError("GET %s was answered with status %d: %s" % (self.url("/leader"), status, _short(text)))
        told = _name_in(text)
        if told not in (None, name):
            raise MemberError("Patroni at %s is the member %s, not %s (option member)." % (self.options["url"], told, name))
        leads = this.get("role") in LEADERS or status == 200
        leading = this if leads else next((member for member in members if member.get("role") in LEADERS), None)
        leader = leading["name"] if leading else None
        self._able = _able([member for member in members if member is not this])
        # A server that somebody stopped stays down while the cluster is paused.
        paused = cluster.get("pause") is True
        left = None
        if leads:
            left = "%s is the leader" % name
        elif leading is None:
            left = "no other member is the leader yet"
        elif leading.get("state") not in SERVING:
            # If that fails, this one may have to lead.
            left = "PostgreSQL on %s, the leader, is %s" % (leader, leading.get("state") or "in no state that is known")
        elif this.get("state") in MOVING and not (paused and this["state"] == "stopped"):
            left = "PostgreSQL on %s is %s, and must run again first" % (name, this["state"])
        elif this.get("role") in SYNCHRONOUS:
            left = self._needed_for_writes(name, [member for member in members if member["name"] not in (name, leader)])
        state = {
            "role": this.get("role"),
            "state": this.get("state"),
            "leader": leader,
            "paused": paused,
            "planned_switchover": _planned(cluster),
            "others": ", ".join(sorted(_described(member) for member in members if member is not this)),
            "candidate": self._able[0] if self._able else None,
        }
        return SeenMember(member=name, ours=not leads, serves=True, foreign=None, left=left, state=state)

    def spare(self, seen: SeenMember) -> str | None:
        state = seen.state
        if seen.ours:
            return None if state["leader"] else "the cluster has no leader now"
        if not state["candidate"]:
            return "no other member can become the leader: %s" % (state["others"] or "there is no other one")
        if state["planned_switchover"]:
            return "a switchover is planned for %s, and another one now would cancel it" % state["planned_switchover"]
        if state["paused"]:
            return "the cluster is paused (maintenance mode): somebody works on it"
        if not self._streaming().intersection(self._able):
            # Patroni allows for a lag, 1 MB by default, and does not know what was written since it last looked. All of it would be lost.
            return "%s does not stream what is written there to any member that can become the leader (%s)" % (seen.member, ", ".join(self._able))
        return None

    def attempt(self, seen: SeenMember) -> str | None:
        """Without another leader, the members come back after seconds in which nobody wrote. It depends on who can become the leader."""
        return None if self._goes_already(seen) else "%s: %s" % (seen.member, ", ".join(sorted(self._able)))

    def _goes_already(self, seen: SeenMember) -> bool:
        return seen.ours or seen.state["state"] in MOVING

    def out(self, seen: SeenMember) -> None:
        if self._goes_already(seen):
            return
        body = {"leader": seen.member}
        if seen.state["paused"]:
            # Patroni chooses none itself then.
            body["candidate"] = seen.state["candidate"]
        try:
            status, text = self._request("POST", "/switchover", body, SWITCHOVER_SECONDS)
        except MemberError as error:
            if isinstance(error.__cause__, ConnectionRefusedError):
                raise
            # Patroni may go on with it: the next look tells.
            raise AttemptFailed(str(error)) from error
        if status == 401:
            raise MemberError("POST %s needs a login: see the options username and password_file." % self.url("/switchover"))
        if status not in (200, 202):
            told = "POST %s was refused with status %d: %s" % (self.url("/switchover"), status, _short(text))
            # With any other status, and if it could not write down what it was asked, Patroni has not begun.
            raise AttemptFailed(told.rstrip(".") + ".") if status == 503 and "failed to write" not in text else MemberError(told)

    def back(self, seen: SeenMember, found: dict[str, Any]) -> None:
        """A former leader joins as a replica by itself."""

    def _streaming(self) -> set[str]:
        """The members that get what is written here at once."""
        replication = self._read("/patroni").get("replication")
        entries = [entry for entry in replication if isinstance(entry, dict)] if isinstance(replication, list) else []
        return {str(entry.get("application_name")) for entry in entries if entry.get("state") == "streaming"}

    def _needed_for_writes(self, name: str, others: list[dict[str, Any]]) -> str | None:
        """Whether the leader would refuse writes without this synchronous replica. C(others): the members that are neither."""
        # Patroni never makes one with the tag nosync synchronous.
        others = [member for member in others if not _tags(member).get("nosync")]
        if not others or any(member.get("state") in ABLE for member in others):
            # There is another one, or there are so few servers that no waiting helps.
            return None
        found = self._read("/config")
        if not (found.get("synchronous_mode") and found.get("synchronous_mode_strict")):
            return None
        told = ", ".join(sorted(_described(member) for member in others))
        return "without %s, the leader would refuse writes (synchronous_mode_strict): %s" % (name, told)

    def _name(self) -> str:
        given: str | None = self.options["member"]
        if given:
            return given
        about = self._read("/patroni").get("patroni")
        # Patroni tells the name from 3.2 on. Before, it is the name of the host unless somebody chose another.
        return (about.get("name") if isinstance(about, dict) else None) or socket.gethostname()

    def _read(self, path: str) -> dict[str, Any]:
        status, text = self._request("GET", path)
        found = parsed(text) if status == 200 else None
        if not isinstance(found, dict):
            raise MemberError("GET %s was answered with status %d, not as Patroni does: %s" % (self.url(path), status, _short(text)))
        return found

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None, seconds: float = LOOK_LIMIT) -> tuple[int, str]:
        headers = {}
        if self.options["username"]:
            login = "%s:%s" % (self.options["username"], self.tools.secret(self.options["password_file"]))
            headers["Authorization"] = "Basic " + base64.b64encode(login.encode("utf-8")).decode("ascii")
        return self.tools.request(method, self.url(path), body=body, headers=headers, seconds=seconds, tls=self.tls())


def _able(members: list[dict[str, Any]]) -> list[str]:
    """The members that can become the leader. The one that has most of the leader's data comes first."""
    able = [
        member
        for member in members
        if member.get("role") not in LEADERS
        and member.get("state") in ABLE
        and isinstance(member.get("lag", 0), int)
        # Patroni asks each candidate itself.
        and member.get("api_url", True)
        and not _never_leads(member)
    ]
    # In synchronous mode nobody else becomes the leader.
    if any(member.get("role") == "sync_standby" for member in members):
        able = [member for member in able if member.get("role") == "sync_standby"]
    # One that gets all data before the leader says so comes first.
    able.sort(key=lambda member: (member.get("role") == "replica", member.get("lag", 0), member["name"]))
    return [member["name"] for member in able]


def _never_leads(member: dict[str, Any]) -> str | None:
    """The tag with which a member never becomes the leader. The tag nofailover decides; failover_priority does where that is not set."""
    tags = _tags(member)
    if tags.get("nofailover") is not None:
        # Patroni takes any text for true.
        return "nofailover" if tags["nofailover"] else None
    try:
        priority = round(float(tags.get("failover_priority", 1)))
    except (TypeError, ValueError, OverflowError):
        return None
    return "failover_priority: %d" % priority if priority <= 0 else None


def _tags(member: dict[str, Any]) -> dict[str, Any]:
    tags = member.get("tags")
    return tags if isinstance(tags, dict) else {}


def _described(member: dict[str, Any]) -> str:
    words = "%s is %s" % (member["name"], member.get("state"))
    tag = _never_leads(member)
    return words + (" and has the tag %s" % tag if tag else "")


def _name_in(text: str) -> str | None:
    """The name of the member in what Patroni tells of itself, from 3.2 on."""
    try:
        about = json.loads(text)["patroni"]["name"]
    except (ValueError, KeyError, TypeError):
        return None
    return about if isinstance(about, str) else None


def _planned(cluster: dict[str, Any]) -> str | None:
    planned = cluster.get("scheduled_switchover")
    return str(planned.get("at")) if isinstance(planned, dict) else None


def _short(text: str) -> str:
    words = " ".join(text.split())
    return (words if len(words) <= 200 else words[:197] + "...") or "(empty)"
