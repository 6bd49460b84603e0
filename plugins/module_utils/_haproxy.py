# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The client of HAProxy's runtime socket: its questions and commands."""

from __future__ import annotations

import collections
import errno
import os
import re
import socket
import time
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._conditions import DRAIN, MAINT, READY
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_former_processes import former_connections, master_socket, own_pid
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_servers import (
    ENABLED,
    F_DRAIN,
    F_MAINT,
    HaproxyError,
    HaproxyState,
    parse_info,
    parse_servers_state,
    parse_stat,
    parse_streams,
    parse_uptime,
)
from ansible_collections.graceful.azure.plugins.module_utils._proc import identity
from ansible_collections.graceful.azure.plugins.module_utils._spellings import reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Literal, Union

    from ansible_collections.graceful.azure.plugins.module_utils._haproxy_servers import Key, Process, Told
    from ansible_collections.graceful.azure.plugins.module_utils._spellings import Endpoint

    # The process that answers on a socket. None if nobody listens there, False if that cannot be told.
    Answering = Union[Process, Literal[False], None]

COMMAND_SECONDS = 3.0
# A HAProxy that is being restarted is away for a moment.
AWAY_SECONDS = 1.0
# The process, its servers, and the statistics of the backends and servers (types 2 and 4) of every proxy.
QUESTIONS = ("show info", "show servers state", "show stat -1 6 -1")
# Seconds for the question which process answers on the socket of another record.
ASK_SECONDS = 0.5
ANSWER_LIMIT = 64 << 20
# Seconds to wait for an answer of the agent that is under way.
AGENT_SECONDS = 1.0

# What HAProxy accepts in the names of servers and proxies. Everything else could end the command or begin another.
NAME = re.compile(r"[A-Za-z0-9_.:-]+\Z")


class HaproxyRefused(HaproxyError):
    """HAProxy refused a command."""


class NotThere(HaproxyError):
    """There is no socket, or nobody listens on it."""


def socket_path(text: str) -> str:
    """The socket that the user names. Only a path is one: `@1` and its like are words of the master process."""
    if re.search(r"(^|\s|/)@[!0-9a-z]", text):
        raise ValueError(
            "%r is no path of a socket: '@' begins a prefix for HAProxy's master socket, which is not used here. "
            "Name the socket of a 'stats socket' line in the configuration instead." % (text,)
        )
    return os.path.realpath(text)


def check_names(names: Iterable[str]) -> None:
    for name in names:
        if not NAME.match(name):
            raise ValueError("%r is no name of a server or backend of HAProxy: letters, digits and _ . : - are allowed." % (name,))


class Haproxy:
    """The runtime socket of one HAProxy. Every line of commands has a connection of its own, bounded in time and size.

    ``worker``: the socket is that of a master, and this worker of it is asked, by the id under which the master knows it.
    """

    def __init__(
        self,
        path: str,
        hard_stop_after: float | None = None,
        command_seconds: float = COMMAND_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        away_seconds: float = AWAY_SECONDS,
        worker: int | None = None,
    ) -> None:
        self.path = path
        self._hard_stop_after = hard_stop_after
        self._command_seconds = command_seconds
        self._away_seconds = away_seconds
        self._prefix = "" if worker is None else "@!%d " % worker
        self._monotonic = monotonic
        self._sleep = sleep

    def command(self, line: str) -> str:
        started = self._monotonic()
        deadline = started + self._command_seconds
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            try:
                self._connect(connection, deadline, started + self._away_seconds)
                connection.sendall(line.encode("ascii") + b"\n")
                if self._prefix:
                    # Otherwise the master waits for further lines.
                    connection.shutdown(socket.SHUT_WR)
                return self._read(connection, deadline).decode("utf-8", "replace")
            except socket.timeout:
                if self._is_master():
                    raise HaproxyError(self._master()) from None
                raise HaproxyError("HAProxy did not answer %r on socket %s within %g seconds." % (line, self.path, self._command_seconds)) from None
            except (FileNotFoundError, ConnectionRefusedError) as error:
                raise NotThere(self._unreachable(error)) from error
            except (OSError, OverflowError) as error:
                raise HaproxyError(self._unreachable(error)) from error

    def _is_master(self) -> bool:
        """Whether this is the socket of a master process: it alone knows 'show proc', and keeps the connection open."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(1.0)
                connection.connect(self.path)
                connection.sendall(b"show proc\n")
                connection.shutdown(socket.SHUT_WR)
                return connection.recv(1 << 16).startswith(b"#<PID>")
        except (OSError, OverflowError):
            return False

    def _master(self) -> str:
        return (
            "%s is the socket of HAProxy's master process (-S), which has no servers. Name the stats socket of the worker "
            "instead: the path of a 'stats socket ... level admin' line in the configuration." % self.path
        )

    def _connect(self, connection: socket.socket, deadline: float, back: float) -> None:
        while True:
            self._limit(connection, deadline)
            try:
                return connection.connect(self.path)
            except BlockingIOError:  # its queue of new connections is full
                self._sleep(0.02)
            except (FileNotFoundError, ConnectionRefusedError):
                if self._monotonic() >= back:
                    raise
                self._sleep(0.05)

    def _read(self, connection: socket.socket, deadline: float) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while True:
            self._limit(connection, deadline)
            piece = connection.recv(1 << 16)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
            size += len(piece)
            if size > ANSWER_LIMIT:
                raise HaproxyError("HAProxy on socket %s answers more than %d bytes." % (self.path, ANSWER_LIMIT))

    def _limit(self, connection: socket.socket, deadline: float) -> None:
        left = deadline - self._monotonic()
        if left <= 0:
            raise socket.timeout()
        connection.settimeout(left)

    def _unreachable(self, error: Exception) -> str:
        number = getattr(error, "errno", None)
        if number == errno.ENOENT:
            return "There is no HAProxy socket %s. Is HAProxy running, and does its 'stats socket' lie there?" % self.path
        if number == errno.EACCES:
            return "User id %d may not use the HAProxy socket %s. Set ansible_become: true for that machine, or give the socket another mode or owner." % (
                os.geteuid(),
                self.path,
            )
        if number == errno.ECONNREFUSED:
            return "Nobody listens on the HAProxy socket %s. Is HAProxy running?" % self.path
        return "The HAProxy socket %s cannot be used: %s." % (self.path, reason_of(error))

    def level(self) -> str | None:
        """What this socket allows: user, operator or admin."""
        words = self.command("show cli level").split()
        return words[0] if len(words) == 1 else None

    def look(self) -> HaproxyState:
        """One look: the process, and its backends and servers."""
        seen = self.look_at_own()
        process = seen.process
        seen.add_former(former_connections(seen.pids, process.pid, seen.uptime, self._hard_stop_after), former_state)
        seen.process = process._replace(identity=identity(seen.pids[0]) if len(seen.pids) == 1 else None)
        return seen

    def look_at_own(self) -> HaproxyState:
        """The same without what former processes still serve.

        One line on one connection, which one process answers: while HAProxy is reloaded the next connection may well
        come to another one, and then again to the former.
        """
        text = self.command(";".join(self._prefix + question for question in QUESTIONS))
        # An empty line follows every answer. There may be one within the statistics, which are therefore the last.
        info, state, stat = (re.split("\n\n+", text, maxsplit=2) + ["", ""])[:3]
        if info.startswith("Unknown command") and self._is_master():
            raise HaproxyError(self._master())
        process = parse_info(info, self.path)
        seen = HaproxyState(process, parse_servers_state(state, self.path), parse_stat(stat, self.path))
        if not text.endswith("\n\n"):
            # Servers may be missing, and a hold on one that is gone would be dropped.
            raise HaproxyError("HAProxy on socket %s broke off in the middle of its answer." % self.path)
        seen.uptime = parse_uptime(info)
        return seen

    def streams(self) -> collections.Counter[tuple[Key, Endpoint]]:
        """How many requests each server has under way, by where they were sent."""
        return parse_streams(self.command("show sess all"))

    def sticky_backends(self, seen: HaproxyState) -> set[str]:
        """The backends that send a known client back to a server in `drain`.

        A cookie shows in the statistics, a table in its stored fields. Which backend uses a table in a section that has
        no server of its own cannot be asked, so that every backend counts as its user.
        """
        sticky = {name for name, row in seen.backends.items() if row.get("cookie")}
        tables = {name for name in re.findall(r"^# table: ([^,\s]+),", self.command("show table"), re.MULTILINE) if self._stores_server_id(name)}
        if tables - set(seen.backends_with_servers):
            return set(seen.backends_with_servers)
        return sticky | tables

    def _stores_server_id(self, table: str) -> bool:
        # A filter that cannot be right: it is refused before the table is walked, however large that is, and for
        # another reason when the field is not stored.
        answer = self.command("show table %s data.server_id is 0" % table)
        return "not stored" not in answer and "No such table" not in answer

    def set_state(self, backend: str, server: str, state: str) -> None:
        self._tell("set server %s/%s state %s" % (backend, server, state), "set %s/%s to %s" % (backend, server, state))

    def set_agent(self, backend: str, server: str, state: str) -> None:
        """Enable or disable the server's agent check. `set server ... agent down` would last until its next answer."""
        verb = "enable" if state == ENABLED else "disable"
        self._tell("%s agent %s/%s" % (verb, backend, server), "%s the agent check of %s/%s" % (verb, backend, server))

    def _tell(self, line: str, what: str) -> None:
        """Give it a command. C(what): that in words."""
        answer = self.command(line)
        if answer.strip():
            raise HaproxyRefused("HAProxy on socket %s refuses to %s: %s" % (self.path, what, " ".join(answer.split())))

    def await_agent(self, backend: str, server: str) -> None:
        """Wait for an answer of the agent that is under way, because it would undo a state that is set before it arrives."""
        ends = self._monotonic() + AGENT_SECONDS
        while self._monotonic() < ends:
            seen = self.look().servers.get((backend, server))
            if seen is None or not seen.agent_asked:
                return
            self._sleep(0.05)

    def check_first(self, backend: str, server: str) -> None:
        """Let HAProxy check a server that is in maintenance, without letting new clients in.

        Out of maintenance HAProxy takes a server for healthy until a check fails, and with `fall 1` nothing tells that
        from a check that has passed. Its health is therefore set to down in the same line of commands. Now it is up only
        after as many checks as `rise` says have passed. Nobody is sent there meanwhile, sticky sessions included.
        """
        place = "%s/%s" % (backend, server)
        if self.command("set server %s state drain;set server %s health down" % (place, place)).strip():
            # HAProxy may refuse only the health. Then its own first check decides.
            self.set_state(backend, server, DRAIN)

    def set_healthy(self, backend: str, server: str) -> None:
        """Undo the health that C(check_first) set. If HAProxy refuses this, it has not accepted that health either."""
        self.command("set server %s/%s health up" % (backend, server))


class DryHaproxy:
    """A HAProxy for check mode: it remembers commands and does not carry them out.

    ``waits``: whether the call would wait for HAProxy's checks, which then count as passed.
    """

    def __init__(self, haproxy: Haproxy, waits: bool = True) -> None:
        self._haproxy = haproxy
        self._waits = waits
        self._told: dict[Key, str] = {}
        self._told_agents: dict[Key, str] = {}
        self._checked: set[Key] = set()
        self.path = haproxy.path

    def level(self) -> str | None:
        return self._haproxy.level()

    def sticky_backends(self, seen: HaproxyState) -> set[str]:
        return self._haproxy.sticky_backends(seen)

    def look(self) -> HaproxyState:
        seen = self._haproxy.look()
        for key, state in self._told.items():
            server = seen.servers.get(key)
            if server:
                server.flags = server.flags & ~(F_MAINT | F_DRAIN) | {READY: 0, DRAIN: F_DRAIN, MAINT: F_MAINT}[state]
                if key in self._checked:
                    # As it will be when the checks have passed, or have not yet.
                    server.passed = self._waits
                    server.operational = "up" if self._waits else "down"
        for key, state in self._told_agents.items():
            if key in seen.servers:
                seen.servers[key].show_agent(state)
        return seen

    def set_healthy(self, backend: str, server: str) -> None:
        pass

    def check_first(self, backend: str, server: str) -> None:
        self._checked.add((backend, server))
        self.set_state(backend, server, DRAIN)

    def set_state(self, backend: str, server: str, state: str) -> None:
        self._told[backend, server] = state

    def set_agent(self, backend: str, server: str, state: str) -> None:
        self._told_agents[backend, server] = state

    def await_agent(self, backend: str, server: str) -> None:
        pass


def who_answers(path: str) -> Answering:
    """The process of the HAProxy on this socket. None if nobody listens there, False if that cannot be told."""
    try:
        return parse_info(Haproxy(path, command_seconds=ASK_SECONDS, away_seconds=0.0).command("show info"), path)
    except HaproxyError as error:
        nobody = getattr(error.__cause__, "errno", None) in (errno.ENOENT, errno.ECONNREFUSED)
        return None if nobody else False


def former_state(pid: int) -> Told:
    """What a former process tells of its servers through its master. None if it cannot be asked, False if it does not answer as it should."""
    path = master_socket(pid)
    if path is None:
        return None
    try:
        return Haproxy(path, command_seconds=ASK_SECONDS, away_seconds=0.0, worker=own_pid(pid)).look_at_own()
    except NotThere:
        return None
    except HaproxyError:
        return False
