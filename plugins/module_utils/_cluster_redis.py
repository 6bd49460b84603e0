# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Redis server that Sentinel watches, as a member of its cluster.

C(SENTINEL FAILOVER) alone loses writes: the former master takes them, and acknowledges them, until Sentinel makes it a replica some ten seconds later.
So writes wait from before the failover until the former master is a replica.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._cluster import AttemptFailed, Member, MemberError, SeenMember
from ansible_collections.graceful.azure.plugins.module_utils._spellings import listed, place_text, plural, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._cluster import Tools

    # A host and a port.
    Address = tuple[str, int]

# Seconds for one connection and for one answer.
CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 3.0
# How much one answer may have.
ANSWER_LIMIT = 1 << 20
# Seconds for which writes may wait: until all replicas have what was written, and until the failover is done. Redis ends the pause by itself, also if
# nobody is left who would. After the second one Sentinel has made the former master a replica, if we have not.
CATCH_UP_PAUSE = 5.0
FAILOVER_PAUSE = 30.0
# Seconds for which one step waits for the replicas and for the failover, and between two looks.
CATCH_UP_SECONDS = 3.0
FAILOVER_SECONDS = 6.0
LOOK_SECONDS = 0.1
# A replica that lacks more than these bytes does not get them while writes wait, so they are not made to wait.
TOO_FAR_BEHIND = 16 << 20
# CLIENT PAUSE knows WRITE since this version.
NEEDED_VERSION = (6, 2)

ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^\s:\[\]]+)):(?P<port>[0-9]{1,5})\Z")
NEVER_PROMOTED = re.compile(r"^[ \t]*(?:replica|slave)-priority[ \t]+0[ \t]*\r?$", re.MULTILINE)


class RedisRefused(MemberError):
    """The server answered with an error. ``code`` is its first word."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class RedisServer:
    """One connection to a Redis server or to a Sentinel."""

    def __init__(self, what: str, address: Address, username: str | None, password: str | None, connect: Callable[[Address, float], socket.socket]) -> None:
        self.name = "%s at %s" % (what, place_text(address))
        self._received = b""
        try:
            self._socket = connect(address, CONNECT_SECONDS)
        except (OSError, UnicodeError) as error:  # UnicodeError: the host is no name that can be looked up
            raise MemberError("%s cannot be reached: %s." % (self.name, reason_of(error))) from error
        try:
            if password:
                self.call("AUTH", *([username] if username else []), password, told="AUTH")
        except MemberError:
            self.close()
            raise

    def call(self, *words: object, told: str | None = None) -> Any:
        """The answer to one command. ``told`` is the command in messages."""
        told = told or " ".join(str(word) for word in words[:2])
        parts = [str(word).encode("utf-8") for word in words]
        self._deadline = time.monotonic() + ANSWER_SECONDS
        try:
            self._socket.settimeout(ANSWER_SECONDS)
            self._socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
            answer = self._answer()
        except socket.timeout as error:
            raise MemberError("%s did not answer %s within %g seconds." % (self.name, told, ANSWER_SECONDS)) from error
        except OSError as error:
            raise MemberError("%s did not answer %s: %s." % (self.name, told, reason_of(error))) from error
        except (ValueError, RecursionError) as error:
            raise MemberError("%s answered %s with something that Redis does not send." % (self.name, told)) from error
        if isinstance(answer, RedisRefused):
            raise RedisRefused("%s refused %s: %s." % (self.name, told, str(answer).rstrip(".")), answer.code)
        return answer

    def close(self) -> None:
        self._socket.close()

    @property
    def is_here(self) -> bool:
        """Whether it is on this host: then a connection to it has the same address at both ends."""
        try:
            return bool(self._socket.getsockname()[0] == self._socket.getpeername()[0])
        except OSError:
            return False

    def _answer(self) -> Any:
        line = self._line()
        kind, rest = line[:1], line[1:].decode("utf-8", "replace")
        if kind == b"+":
            return rest
        if kind == b"-":
            return RedisRefused(rest, rest.split(" ")[0])
        number = int(rest)
        if kind == b":":
            return number
        if number > ANSWER_LIMIT or kind not in (b"$", b"*"):
            raise ValueError(kind)
        if number < 0:
            return None
        if kind == b"*":
            return [self._answer() for _number in range(number)]
        return self._bytes(number + 2)[:-2].decode("utf-8", "replace")

    def _line(self) -> bytes:
        while b"\r\n" not in self._received:
            self._receive()
        line, _end, self._received = self._received.partition(b"\r\n")
        return line

    def _bytes(self, number: int) -> bytes:
        while len(self._received) < number:
            self._receive()
        found, self._received = self._received[:number], self._received[number:]
        return found

    def _receive(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise socket.timeout()
        self._socket.settimeout(left)
        received = self._socket.recv(65536)
        if not received:
            raise ConnectionError("it closed the connection")
        self._received += received
        if len(self._received) > ANSWER_LIMIT:
            raise ValueError("too long")


class Redis(Member):
    type = "redis"
    title = "Redis"
    options = {
        "master": {"type": "str", "default": "mymaster"},
        "address": {"type": "str", "default": "127.0.0.1:6379"},
        "username": {"type": "str"},
        "password_file": {"type": "path"},
        "sentinel": {"type": "str", "default": "127.0.0.1:26379"},
        "sentinel_password_file": {"type": "path"},
    }
    # Redis forgets CONFIG SET when it starts anew.
    survives_reboot = False
    hands_over = True

    # What a test puts its own in place of.
    connect = staticmethod(socket.create_connection)
    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    def __init__(self, options: dict[str, Any], tools: Tools) -> None:
        super().__init__(options, tools)
        self.member = options["address"]
        self.master = options["master"]
        # The connections of a step.
        self._here: RedisServer
        self._sentinel: RedisServer
        # The id under which the Redis of this host runs, as the last look found it.
        self._process: str | None = None

    @classmethod
    def mistakes(cls, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
        for name in ("address", "sentinel"):
            if _address(options[name]) is None:
                yield name, "%r is no host with a port, such as 127.0.0.1:6379" % options[name]

    # What the driver calls

    def look(self) -> SeenMember:
        with self._connections():
            return self._look()

    def life(self, boot_id: str) -> str:
        return "%s %s" % (boot_id, self._process)

    def spare(self, seen: SeenMember) -> str | None:
        with self._connections():
            return self._spare(seen)

    def still_needed(self, seen: SeenMember) -> str | None:
        # A replica that never leads counts for min-replicas-to-write as any other. What is left of its own failover goes on without it.
        with self._connections():
            return self._spare(seen, is_out=True)

    def attempt(self, seen: SeenMember) -> str | None:
        """Writes wait for a failover. What it depends on: who may become the master, in the eyes of Sentinel."""
        if seen.state["role"] != "master":
            return None
        with self._connections():
            if not self._is_this(self._named()) or "failover_in_progress" in self._flags():
                return None
            known = [" ".join(str(fields.get(key)) for key in ("name", "runid", "flags", "slave-priority", "master-link-status")) for fields in self._known()]
        return "; ".join(["%s %s" % (self.member, self._process), *sorted(known)])

    def out(self, seen: SeenMember) -> None:
        with self._connections():
            if seen.state["role"] == "master" and not self._hand_over():
                return
            # Never while it is the master: Sentinel would ask for it after the next failover only.
            self._here.call("CONFIG", "SET", "replica-priority", 0)

    def back(self, seen: SeenMember, found: dict[str, Any]) -> None:
        with self._connections():
            self._here.call("CONFIG", "SET", "replica-priority", found["priority"])
            self._correct_file(found["priority"], unread=True)

    def forget(self, seen: SeenMember) -> None:
        # The run that gave it back may have been killed before it came to the file.
        with self._connections():
            self._correct_file(seen.state["priority"], unread=False)

    def is_back(self, seen: SeenMember, found: dict[str, Any]) -> bool:
        return bool(seen.state["priority"] == found["priority"])

    # A look

    def _look(self) -> SeenMember:
        role = self._here.call("ROLE")
        is_master = isinstance(role, list) and role[:1] == ["master"]
        if not is_master and not (isinstance(role, list) and role[:1] == ["slave"] and len(role) >= 3):
            raise MemberError("%s is neither a master nor a replica: ROLE says %r." % (self._here.name, role))
        priority = self._setting(self._here, "replica-priority")
        self._process = self._run_id(self._here)
        named = self._named()
        # A replica follows another server than itself.
        is_named = not (not is_master and (role[1], role[2]) == named) and self._is_this(named)
        left = None
        if is_master and is_named:
            left = "%s is the master of %s" % (self.member, self.master)
        elif is_master:
            left = self._stranger() or "%s does not follow the new master %s yet" % (self.member, place_text(named))
        elif is_named:
            left = "Sentinel still names %s as the master of %s" % (self.member, self.master)
        ours = left is None and priority == 0
        state = {"role": "master" if is_master else "replica", "priority": priority, "master": place_text(named)}
        return SeenMember(
            member=self.member,
            ours=ours,
            serves=priority != 0,
            # A priority bears no name.
            foreign="Its replica-priority is 0, so it never becomes the master." if ours else None,
            left=left,
            state=state,
        )

    @staticmethod
    def _setting(server: RedisServer, name: str) -> int:
        answer = server.call("CONFIG", "GET", name)
        if not isinstance(answer, list) or len(answer) != 2 or not str(answer[1]).isdigit():
            raise MemberError("%s does not tell its %s: %r." % (server.name, name, answer))
        return int(answer[1])

    def _named(self) -> Address:
        """The address of the master, as Sentinel tells it to clients."""
        answer = self._sentinel.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.master)
        if answer is None:
            raise MemberError("%s watches no master with the name %s (option master)." % (self._sentinel.name, self.master))
        if not isinstance(answer, list) or len(answer) != 2 or not str(answer[1]).isdigit():
            raise MemberError("%s does not tell the address of the master %s: %r." % (self._sentinel.name, self.master, answer))
        return answer[0], int(answer[1])

    def _is_this(self, address: Address) -> bool:
        """Whether an address leads to the Redis of this host. A host has many addresses, so the server there is asked who it is."""
        server = self._redis(address)
        try:
            return self._run_id(server) == self._process
        finally:
            server.close()

    def _leads_here(self, address: Address) -> bool:
        """Whether it is known to lead to the Redis of this host: the address of a name may have changed meanwhile."""
        try:
            return self._is_this(address)
        except MemberError:
            return False

    def _stranger(self) -> str | None:
        """Why a master that Sentinel does not name must not follow the one that it names; None if it is one of the same servers.

        What a server has that belongs to another master would be lost: it would take over what the named one has.
        """
        for fields in self._known():
            address = _address_in(fields)
            if fields.get("runid") == self._process or address and self._leads_here(address):
                return None
        return "%s is a master, and %s does not know it as a server of %s: see the options master and address" % (self.member, self._sentinel.name, self.master)

    def _run_id(self, server: RedisServer) -> str:
        run_id = _fields(server.call("INFO", "server")).get("run_id")
        if not run_id:
            raise MemberError("%s does not tell its run_id in INFO server." % server.name)
        return run_id

    # Whether the cluster can spare it

    def _spare(self, seen: SeenMember, is_out: bool = False) -> str | None:
        try:
            self._sentinel.call("SENTINEL", "CKQUORUM", self.master)
        except RedisRefused as error:
            return "the Sentinels of %s could not agree on another master: %s" % (self.master, str(error).rstrip("."))
        if seen.state["role"] == "master" and not self._is_this(self._named()):
            return self._stranger()  # another one leads already, and this one has to follow it
        flags = self._flags()
        if "failover_in_progress" in flags and not is_out:
            return "a failover of %s is under way" % self.master
        vote = self._needed_for_votes()
        if vote:
            return vote
        if seen.state["role"] != "master":
            down = sorted({"s_down", "o_down", "disconnected"}.intersection(flags))
            if down:
                return "Sentinel does not reach %s, the master of %s (%s)" % (seen.state["master"], self.master, ", ".join(down))
            with contextlib.closing(self._redis(self._named())) as master:
                return self._needed_for_writes(master)
        electable = self._electable()
        if not electable:
            return "no replica of %s can become its master: Sentinel knows none that is up and has a priority above 0" % self.master
        unlinked = sorted(place_text(address) for address, fields in electable.items() if fields.get("master-link-status") != "ok")
        if unlinked:
            return "%s may become the master of %s and is not linked to it" % (", ".join(unlinked), self.master)
        try:
            with self._electable_replicas() as replicas:
                here, told = self._replication(replicas)
                never, behind = self._never(told), self._lacking(here, told, TOO_FAR_BEHIND)
        except MemberError as error:
            return "Sentinel may make any of these replicas the master of %s, and one does not tell how much it has: %s" % (self.master, str(error).rstrip("."))
        if never:
            return never
        if behind:
            return "writes are not made to wait, because a replica cannot get all of them soon: %s" % listed(behind)
        return self._needed_for_writes(self._here)

    def _needed_for_votes(self) -> str | None:
        """A phrase if the Sentinels could not agree on another master without the one of this host, which goes, too; otherwise None."""
        if not self._sentinel.is_here:
            return None
        others = [fields.get("flags", "").split(",") for fields in self._list("SENTINELS", "other Sentinels")]
        up = [flags for flags in others if not {"s_down", "o_down"}.intersection(flags)]
        quorum = _number(self._of_master().get("quorum")) or 0
        # As CKQUORUM counts, which counts this one, too.
        needed = max(quorum, (len(others) + 1) // 2 + 1)
        if len(up) >= needed or len(others) < needed:
            # It is enough, or there are so few that no waiting helps.
            return None
        told = "without the Sentinel of this host, the others of %s could not agree on another master: %d of %d %s up, and %d are needed"
        return told % (self.master, len(up), len(others), "is" if len(up) == 1 else "are", needed)

    def _needed_for_writes(self, master: RedisServer) -> str | None:
        """Whether writes would be refused without this server: a master may take them only while enough replicas keep up with it."""
        # It tells this only if it wants some. Who hands over has one less, too: that one is the new master.
        keep_up = _number(_fields(master.call("INFO", "replication")).get("min_slaves_good_slaves"))
        if keep_up is None:
            return None
        here = _fields(self._here.call("INFO", "replication"))
        if here.get("role") == "slave" and here.get("master_link_status") != "up":
            return None
        wanted, staying = self._setting(master, "min-replicas-to-write"), max(0, keep_up - 1)
        if staying >= wanted or len(self._known()) <= wanted:
            # It is enough, or there are so few servers that no waiting helps.
            return None
        told = "without %s, the master of %s would refuse writes: %s would keep up with it, and it wants %d (min-replicas-to-write)"
        return told % (self.member, self.master, plural(staying, "replica"), wanted)

    def _flags(self) -> list[str]:
        return self._of_master().get("flags", "").split(",")

    def _of_master(self) -> dict[str, str]:
        """What Sentinel says of the master."""
        return _pairs(self._sentinel.call("SENTINEL", "MASTER", self.master), self._sentinel)

    def _known(self) -> list[dict[str, str]]:
        """The replicas that Sentinel knows."""
        return self._list("REPLICAS", "replicas")

    def _list(self, what: str, words: str) -> list[dict[str, str]]:
        answer = self._sentinel.call("SENTINEL", what, self.master)
        if not isinstance(answer, list):
            raise MemberError("%s does not tell the %s of %s: %r." % (self._sentinel.name, words, self.master, answer))
        return [_pairs(pairs, self._sentinel) for pairs in answer]

    def _electable(self) -> dict[Address, dict[str, str]]:
        """The replicas that Sentinel may make the master, by the addresses that it has of them."""
        found: dict[Address, dict[str, str]] = {}
        for fields in self._known():
            if fields.get("flags") == "slave" and fields.get("slave-priority") != "0":
                address = _address_in(fields)
                if address is None:
                    raise MemberError("%s does not tell the address of a replica of %s: %r." % (self._sentinel.name, self.master, fields.get("name")))
                found[address] = fields
        return found

    @contextlib.contextmanager
    def _electable_replicas(self) -> Iterator[list[RedisServer]]:
        """Connections to all servers that Sentinel may make the master.

        Each is asked itself how much it has. In the list that the master has of its replicas they may stand under other addresses: those by which they
        announce themselves, where Sentinel has names or what names were resolved to.
        """
        with contextlib.ExitStack() as stack:
            servers = []
            for address in self._electable():
                servers.append(self._redis(address))
                stack.callback(servers[-1].close)
            yield servers

    def _replication(self, replicas: list[RedisServer]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
        """What the Redis of this host says of its replication, and after it each of these replicas, by name."""
        here = _fields(self._here.call("INFO", "replication"))
        return here, {replica.name: _fields(replica.call("INFO", "replication")) for replica in replicas}

    def _never(self, told: dict[str, dict[str, str]]) -> str | None:
        """That Sentinel may choose a replica whose own priority is 0. It asks only every ten seconds, and the host of that replica may be about to go."""
        never = [name for name, fields in told.items() if fields.get("slave_priority") == "0"]
        return "Sentinel does not know yet that %s never becomes the master of %s" % (listed(never), self.master) if never else None

    def _lacking(self, here: dict[str, str], told: dict[str, dict[str, str]], allowed: int = 0) -> list[str]:
        """Which replicas lack more than these bytes of what was written here, and why, in words."""
        written = _number(here.get("master_repl_offset"))
        if written is None or not here.get("master_replid"):
            raise MemberError("%s does not tell in INFO replication how much was written." % self._here.name)
        found = []
        for name, fields in told.items():
            has = _number(fields.get("slave_repl_offset"))
            if fields.get("role") != "slave" or fields.get("master_link_status") != "up" or fields.get("master_replid") != here["master_replid"] or has is None:
                # The id of what it replicates is that of the server that it follows, or of one further up.
                found.append("%s does not replicate %s" % (name, self.member))
            elif written - has > allowed:
                found.append("%s lacks %d bytes" % (name, written - has))
        return found

    # Out

    def _hand_over(self) -> bool:
        """Make another server the master. Returns whether this one follows it."""
        self._check_version()
        named = self._named()
        if self._is_this(named):
            if "failover_in_progress" not in self._flags():
                self._start_failover()
            else:
                self._pause(FAILOVER_PAUSE)
            another = self._await_another(named)
            if another is None:
                # Writes go on waiting: this server must not take any more.
                return False
            named = another
        else:
            stranger = self._stranger()
            if stranger:
                raise MemberError(stranger + ".")
        self._here.call("REPLICAOF", named[0], named[1])
        # As Sentinel does. Without it this server would be a master when it starts anew.
        self._rewrite()
        # Clients that waited see a lost connection, which they know how to handle, and ask Sentinel.
        self._here.call("CLIENT", "KILL", "TYPE", "normal")
        self._here.call("CLIENT", "UNPAUSE")
        return True

    def _check_version(self) -> None:
        version = _fields(self._here.call("INFO", "server")).get("redis_version", "")
        numbers = tuple(int(number) for number in re.findall(r"[0-9]+", version)[:2])
        if numbers < NEEDED_VERSION:
            raise MemberError(
                "%s has version %s: to hand over without a loss, it must be able to let writes wait, as Redis does from %s on."
                % (self._here.name, version or "unknown", ".".join(map(str, NEEDED_VERSION)))
            )

    def _pause(self, seconds: float) -> None:
        self._here.call("CLIENT", "PAUSE", int(seconds * 1000), "WRITE")

    def _start_failover(self) -> None:
        with self._electable_replicas() as replicas:
            here, told = self._replication(replicas)
            never, behind = self._never(told), self._lacking(here, told, TOO_FAR_BEHIND)
            if never or behind or not replicas:
                # Writes would wait for nothing.
                what = never or listed(behind) or "Sentinel knows no replica that can become the master of %s" % self.master
                raise MemberError("%s was not told to hand over: %s." % (self._here.name, what))
            deadline = self.monotonic() + CATCH_UP_SECONDS
            waits = False
            try:
                self._pause(CATCH_UP_PAUSE)
                waits = True
                self._await_replicas(replicas, deadline)
                self._pause(FAILOVER_PAUSE)
            except MemberError as error:
                self._unpause()
                if isinstance(error, RedisRefused) and not waits:
                    raise
                raise AttemptFailed(str(error)) from error
        try:
            self._sentinel.call("SENTINEL", "FAILOVER", self.master)
        except RedisRefused as error:
            # Any other error leaves it open whether the failover has begun. Then writes have to wait.
            if error.code != "INPROG":
                self._unpause()
                raise AttemptFailed(str(error)) from error
        except MemberError as error:
            raise AttemptFailed(str(error)) from error

    def _unpause(self) -> None:
        try:
            self._here.call("CLIENT", "UNPAUSE")
        except MemberError:
            pass  # the pause ends by itself, and why it was to end is told already

    def _await_replicas(self, replicas: list[RedisServer], deadline: float) -> None:
        """Until each of these replicas has all that was written."""
        while True:
            behind = self._lacking(*self._replication(replicas))
            # If the answers were slow, writes may soon not wait any more.
            late = self.monotonic() >= deadline
            if not behind and not late:
                return
            if late:
                what = listed(behind) or "the replicas did not tell in time how much they have"
                raise MemberError("%s was not told to hand over: writes waited for %g seconds, and %s." % (self._here.name, CATCH_UP_SECONDS, what))
            self.sleep(LOOK_SECONDS)

    def _await_another(self, former: Address) -> Address | None:
        """Until Sentinel names another master. Returns its address, or None if the failover still goes on."""
        deadline = self.monotonic() + FAILOVER_SECONDS
        while True:
            # In this order: if the failover is over, the address is that of the new master.
            goes_on = "failover_in_progress" in self._flags()
            named = self._named()
            if named != former and not self._leads_here(named):
                return named
            if not goes_on:
                self._unpause()
                raise AttemptFailed("%s gave up the failover of %s. See its log." % (self._sentinel.name, self.master))
            if self.monotonic() >= deadline:
                return None
            self.sleep(LOOK_SECONDS)

    # The configuration file

    def _rewrite(self) -> None:
        try:
            self._here.call("CONFIG", "REWRITE")
        except RedisRefused:
            pass  # it has no configuration file, or one that it may not write

    def _correct_file(self, priority: int, unread: bool) -> None:
        """Sentinel has each server that it tells to follow another master write its configuration file, with our priority in it.

        ``unread``: whether a file that cannot be read, such as that of a Redis in a container, counts as one with it.
        """
        if priority and self._file_says_never(unread):
            self._rewrite()

    def _file_says_never(self, unread: bool) -> bool:
        path = _fields(self._here.call("INFO", "server")).get("config_file")
        try:
            with open(path or os.devnull, encoding="utf-8", errors="replace") as stream:
                return NEVER_PROMOTED.search(stream.read()) is not None
        except OSError:
            return unread

    # Connections

    @contextlib.contextmanager
    def _connections(self) -> Iterator[None]:
        """Connections of one step to the Redis of this host and to Sentinel."""
        here, sentinel = _address(self.options["address"]), _address(self.options["sentinel"])
        if here is None or sentinel is None:
            raise AssertionError("others are among the mistakes")
        self._here = self._redis(here)
        try:
            self._sentinel = self._connect("Sentinel", sentinel, None, "sentinel_password_file")
            try:
                yield
            finally:
                self._sentinel.close()
        finally:
            self._here.close()

    def _redis(self, address: Address) -> RedisServer:
        return self._connect("Redis", address, self.options["username"], "password_file")

    def _connect(self, what: str, address: Address, username: str | None, password_file: str) -> RedisServer:
        path = self.options[password_file]
        return RedisServer(what, address, username, self.tools.secret(path) if path else None, self.connect)


def _address(text: str) -> Address | None:
    """Host and port of an address; None if it is none."""
    found = ADDRESS.match(text)
    if not found or not 0 < int(found.group("port")) < 65536:
        return None
    return found.group("six") or found.group("name"), int(found.group("port"))


def _fields(text: object) -> dict[str, str]:
    """The lines of INFO."""
    return dict(line.strip().partition(":")[::2] for line in str(text).splitlines() if ":" in line)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _address_in(fields: dict[str, str]) -> Address | None:
    host, port = fields.get("ip"), fields.get("port", "")
    return (host, int(port)) if host and port.isdigit() else None


def _pairs(answer: object, server: RedisServer) -> dict[str, str]:
    """What Sentinel tells of one server: names and values in turns."""
    if not isinstance(answer, list):
        raise MemberError("%s tells nothing of a server that it knows: %r." % (server.name, answer))
    return dict(zip(answer[::2], answer[1::2]))
