# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of HAProxy's servers, read from the answers of its runtime socket. This module does not connect to it."""

from __future__ import annotations

import collections
import csv
import functools
import io
import ipaddress
import re
import socket
import time
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.graceful.azure.plugins.module_utils._conditions import DRAIN, MAINT, READY
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_former_processes import answering_processes
from ansible_collections.graceful.azure.plugins.module_utils._spellings import is_same_place, normal_address

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Literal, Union

    from ansible_collections.graceful.azure.plugins.module_utils._haproxy_former_processes import Former
    from ansible_collections.graceful.azure.plugins.module_utils._spellings import Endpoint, Searched

    # A server: its backend and its name.
    Key = tuple[str, str]
    # What a former process tells of its servers. None if it cannot be asked, False if it does not answer as it should.
    Told = Union["HaproxyState", Literal[False], None]

# Flags of srv_admin_state in `show servers state`.
F_MAINT = 0x01  # forced: set through the runtime socket or by `disabled`
I_MAINT = 0x02  # inherited from a tracked server
C_MAINT = 0x04  # the configuration says `disabled`
F_DRAIN = 0x08
I_DRAIN = 0x10
R_MAINT = 0x20  # its name does not resolve

OPERATIONAL = {0: "down", 1: "starting", 2: "up", 3: "stopping"}

# The bit of srv_check_state (`show servers state`) that says that health checks are enabled. It stays set in maintenance.
CHECKS_ENABLED = 0x04

# Flags of srv_agent_state.
AGENT_IN_PROGRESS = 0x01
AGENT_CONFIGURED = 0x02
AGENT_ENABLED = 0x04
ENABLED, DISABLED = "enabled", "disabled"


class Process(NamedTuple):
    pid: int
    # In seconds since 1970. It is exact if HAProxy itself told it.
    started: float
    exact: bool
    # What tells it from every other process of this machine, if it was found among them. No clock and no pause of the machine changes that.
    identity: str | None = None

    @property
    def seen_as(self) -> int:
        """Its id as seen from here. In a container it calls itself by another."""
        known = re.match(r"[0-9]+(?=/)", self.identity or "")
        return int(known.group(0)) if known else self.pid

    @property
    def told_start(self) -> float | None:
        """When it started, if HAProxy itself told it."""
        return self.started if self.exact else None


class HaproxyError(Exception):
    """HAProxy cannot be asked, or does not do what it is told; the text is a full sentence."""


class HaproxyState:
    """The servers and backends of HAProxy at one moment."""

    def __init__(self, process: Process, state: list[dict[str, str]], stat: list[dict[str, str]]) -> None:
        self.process = process
        self.uptime: int | None = None
        self._former: Former | None = None
        self._pids: list[int] | None = None
        self._by_address: dict[str | None, list[HaproxyServer]] | None = None
        self.backends: dict[str, dict[str, str]] = {}
        self.servers: dict[Key, HaproxyServer] = {}
        rows: dict[Key, dict[str, str]] = {}
        for row in stat:
            if row["svname"] == "BACKEND":
                self.backends[row["pxname"]] = row
            else:
                rows[row["pxname"], row["svname"]] = row
        for line in state:
            key = line["be_name"], line["srv_name"]
            if key in rows:  # otherwise it was added or deleted between the two answers
                self.servers[key] = HaproxyServer(key, line, rows[key])

    def is_watched(self, server: HaproxyServer) -> bool:
        """Whether HAProxy notices that a server is down, by checks of its own or of the server that this one tracks, which may track another.

        An agent does not tell: if nobody answers it, HAProxy leaves the server as it is.
        """
        tracked = self.servers.get(_key(server.tracks))
        return server.checked or tracked is not None and self.is_watched(tracked)

    def is_unsure(self, server: HaproxyServer) -> bool:
        """Whether a server that HAProxy watches is up although its last check has not passed. It may be dead: HAProxy takes it out only after several checks.

        When HAProxy starts, and so after each reload, each server is up until it is checked.
        """
        tracked = self.servers.get(_key(server.tracks))
        return server.unsure if server.checked else tracked is not None and self.is_unsure(tracked)

    def going_with(self, server: HaproxyServer) -> list[HaproxyServer]:
        """The server, and all that take over its state: those that track it, and those that track these."""
        found = [server]
        for each in found:
            found += [other for other in self.servers.values() if _key(other.tracks) == each.key and other not in found]
        return found

    def add_former(self, former: Former, ask: Callable[[int], Told] = lambda pid: None) -> None:
        """Count what a former process still serves along with the sessions of the one that answers. ``ask``: its own state."""
        for server, count in self._shares(former.connections):
            server.sessions += count
        self._former = former
        self._ask = functools.lru_cache(maxsize=None)(ask)
        for key in self.servers:
            self.discount(key, ())

    def discount(self, key: Key, told: Collection[str]) -> None:
        """Leave out what clients of former processes may send to a server that is out there. ``told``: these processes, by their identities.

        Somebody may have put the server back before the reload. If the former process can be asked, it decides.
        """
        if self._former and key in self.servers:
            out = [one.process for one in self._former.clients if one.process in told and self._is_out(one.pid, key)]
            self.servers[key].uncounted = self._former.problem(out)

    @property
    def hidden(self) -> str | None:
        """Why nobody can tell that a server has no session, as long as something is not mended; None if that can be told."""
        return self._former.lasting if self._former else None

    def _is_out(self, pid: int, key: Key) -> bool:
        """Whether a server is still out in a former process in which it was out, as far as that process can be asked."""
        there = self._ask(pid)
        if not there:
            return there is None
        server = there.servers.get(key)
        return server is None or not server.in_rotation and server.settled

    def _shares(self, connections: collections.Counter[Endpoint]) -> list[tuple[HaproxyServer, int]]:
        """Each server with the number of connections that may belong to it.

        A server without a port of its own takes the client's, so that all connections to its address may be its. Whether
        a port is an offset to the client's HAProxy does not tell: a connection to a port that no server has may be of any
        server of the address. Too many are counted rather than too few.
        """
        shares: dict[HaproxyServer, int] = {}
        for (address, port), count in connections.items():
            there = self._at(address)
            known = any(server.port == port for server in there)
            for server in there:
                if server.port in (None, port) or not known:
                    shares[server] = shares.get(server, 0) + count
        return list(shares.items())

    def _at(self, address: str | None) -> list[HaproxyServer]:
        """The servers that lead to an address."""
        if self._by_address is None:
            self._by_address = {}
            for server in self.servers.values():
                self._by_address.setdefault(server.address, []).append(server)
        return self._by_address.get(address, [])

    def busy_beside(self, server: HaproxyServer) -> list[HaproxyServer]:
        """Other servers that lead to the same address and port and have requests there."""
        # Of servers without an address there may be thousands.
        there, place = self._at(server.address) if server.address is not None else [], (server.address, server.port)
        return [other for other in there if other is not server and (other.sessions or other.queue) and is_same_place((other.address, other.port), place)]

    @property
    def pids(self) -> list[int]:
        """The ids of the process as seen from here. In a container it calls itself by another."""
        if self._pids is None:
            self._pids = answering_processes(self.process.pid, self.uptime, self.process.told_start)
        return self._pids

    @property
    def backends_with_servers(self) -> list[str]:
        return list(dict.fromkeys(backend for backend, _name in self.servers))

    def backends_of(self, name: str) -> list[str]:
        return [backend for backend, server in self.servers if server == name]


class HaproxyServer:
    """One server of one backend, as `show servers state` and `show stat` describe it."""

    def __init__(self, key: Key, line: dict[str, str], row: dict[str, str]) -> None:
        self.key = self.backend, self.name = key
        self.flags = number(line["srv_admin_state"])
        self.weight = number(line["srv_uweight"])
        self.operational = OPERATIONAL.get(number(line["srv_op_state"]), "down")
        self.status = row["status"]
        # Whether HAProxy itself checks the server. The way out of maintenance waits for these checks.
        self.checked = bool(number(line.get("srv_check_state")) & CHECKS_ENABLED)
        # The server whose state this one takes over, as "backend/server"; empty if there is none.
        self.tracks = row.get("tracked") or ""
        # It takes as many good checks as `rise` says to be up, and is at its best only when none has failed since.
        best = number(row.get("check_rise")) + number(row.get("check_fall")) - 1
        self.passed = self.is_up and number(line.get("srv_check_health")) >= best
        # Whether it is up although its last check has not passed: it failed, or there was none yet, which with `fall 1` only its status tells. While a
        # check goes on, a star stands before that.
        is_new = (row.get("check_status") or "").lstrip("* ") == "INI"
        self.unsure = self.checked and self.is_up and (is_new or not self.passed)
        self.last_check = ", ".join(text for text in (row.get("check_status"), row.get("last_chk")) if text)
        self.sessions = number(row["scur"])
        self.queue = number(row["qcur"])
        # Connections that the answering process has, in use or kept for the next request. Versions before 2.2 do not tell.
        told = [row[key] for key in ("used_conn_cur", "idle_conn_cur", "safe_conn_cur") if row.get(key)]
        self.connections = sum(map(number, told)) if told else None
        # A sentence: why the server may have more sessions than those that are counted.
        self.uncounted: str | None = None
        self.total_sessions = number(row.get("stot"))
        # How often a connection to it failed and was to be tried again.
        self.retries = number(row.get("wretr"))
        self.backup = row.get("bck") == "1"
        self._agent = number(line.get("srv_agent_state"))
        self.address = normal_address(line["srv_addr"])
        port = number(line.get("srv_port"))
        # 0 where the client's port is taken, and beyond all ports, without its sign, where something is taken off that.
        self.port = port if 0 < port < 1 << 16 else None

    @property
    def checks(self) -> str:
        """Its status, and what its last check told."""
        return "%s%s" % (self.status, ": " + self.last_check if self.last_check else "")

    @property
    def forced(self) -> str:
        """The state that somebody has set."""
        return MAINT if self.flags & F_MAINT else DRAIN if self.flags & F_DRAIN else READY

    @property
    def admin_state(self) -> str:
        """The state that is in force, whatever its cause."""
        if self.flags & (F_MAINT | I_MAINT | R_MAINT):
            return MAINT
        return DRAIN if self.flags & (F_DRAIN | I_DRAIN) else READY

    @property
    def in_rotation(self) -> bool:
        return self.admin_state == READY

    @property
    def unresolved(self) -> bool:
        """Whether its name does not resolve, such as a slot of ``server-template`` that has no address yet."""
        return bool(self.flags & R_MAINT) and self.address is None

    @property
    def returns_by_itself(self) -> bool:
        """Whether it is out though nobody has set that: its name does not resolve, or the server that it tracks is out. It goes into rotation with these."""
        return self.forced == READY and not self.in_rotation

    @property
    def in_service(self) -> bool:
        return self.in_rotation and self.weight > 0 and self.is_up

    @property
    def is_up(self) -> bool:
        """Whether HAProxy takes it for healthy. With C(slowstart) one that is up counts as starting for so long."""
        return self.operational in ("up", "starting")

    def leads(self, places: Collection[Searched]) -> bool:
        """Whether it leads to one of these places: an address and a port, which is None for every port and 0 for that of the client."""
        return self.address is not None and ((self.address, None) in places or (self.address, self.port or 0) in places)

    @property
    def agent(self) -> str | None:
        """Whether the agent check is enabled or disabled; None if the server has none. An agent check may change the server's state."""
        if not self._agent & AGENT_CONFIGURED:
            return None
        return ENABLED if self._agent & AGENT_ENABLED else DISABLED

    @property
    def returns_by_agent(self) -> bool:
        """Whether it was taken out, and an answer of its agent may put it back at any moment: C(ready) does that, whoever has taken it out."""
        return self.forced != READY and self.agent == ENABLED

    def show_agent(self, state: str) -> None:
        self._agent = AGENT_CONFIGURED | (AGENT_ENABLED if state == ENABLED else 0)

    @property
    def agent_asked(self) -> bool:
        """Whether an answer of the agent is under way."""
        return bool(self._agent & AGENT_IN_PROGRESS)

    @property
    def settled(self) -> bool:
        """Whether it has no session and no request waits for it."""
        return not self.sessions and not self.queue and self.uncounted is None


def _key(text: str) -> Key:
    """The key of a server that is written as C(backend/server). Neither name has a slash."""
    backend, _slash, name = text.partition("/")
    return backend, name


def same_process(one: Process, other: Process) -> bool:
    if one.identity and other.identity:
        return one.identity == other.identity
    # Some versions do not tell when they started, but for how long they run. The start is then exact to a second or two.
    return one.pid == other.pid and abs(one.started - other.started) <= 2


def parse_info(text: str, path: str, now: Callable[[], float] = time.time) -> Process:
    fields = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            fields[key.strip()] = value.strip()
    pid = _natural(fields.get("Pid"))
    if pid is None:
        raise HaproxyError(_strange(path, "show info", text))
    if (_natural(fields.get("Nbproc")) or 1) > 1:
        raise HaproxyError(
            "HAProxy on socket %s runs as %s processes (nbproc), each with servers of its own; run it with threads instead." % (path, fields["Nbproc"])
        )
    started = _natural(fields.get("Start_time_sec"))
    if started is not None:
        return Process(pid, started, True)
    uptime = parse_uptime(text)
    if uptime is None:
        raise HaproxyError(_strange(path, "show info", text))
    return Process(pid, int(now()) - uptime, False)


def parse_uptime(text: str) -> int | None:
    """For how many seconds HAProxy has run, by its own steady clock; None if it does not tell."""
    match = re.search(r"^Uptime_sec: *(\d+)", text, re.MULTILINE)
    return int(match.group(1)) if match else None


def parse_servers_state(text: str, path: str) -> list[dict[str, str]]:
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or not lines[1].startswith("# "):
        raise HaproxyError(_strange(path, "show servers state", text))
    names = lines[1][2:].split()
    needed = {"be_name", "srv_name", "srv_addr", "srv_op_state", "srv_admin_state", "srv_uweight"}
    if not needed <= set(names):
        raise HaproxyError(_strange(path, "show servers state", text))
    return [dict(zip(names, line.split(" "))) for line in lines[2:]]


# Of a request under way in `show sess all`: its backend, its server, and where it was sent. Without a server, the latter says so.
STREAM = re.compile(r"^  backend=(\S+) .*\n  server=(\S+) .*\baddr=(\S+):(\d+)$", re.MULTILINE)


def parse_streams(text: str) -> collections.Counter[tuple[Key, Endpoint]]:
    """How many requests each server has under way, by where they were sent."""
    found: collections.Counter[tuple[Key, Endpoint]] = collections.Counter()
    for backend, server, host, port in STREAM.findall(text):
        address = normal_address(host)
        if address is not None:
            found[(backend, server), (address, int(port))] += 1
    return found


def parse_stat(text: str, path: str) -> list[dict[str, str]]:
    if not text.startswith("# "):
        raise HaproxyError(_strange(path, "show stat", text))
    rows = list(csv.DictReader(io.StringIO(text[2:], newline="")))
    needed = {"pxname", "svname", "qcur", "scur", "status"}
    if rows and not needed <= set(rows[0]):
        raise HaproxyError(_strange(path, "show stat", text))
    return rows


def number(text: str | None) -> int:
    """The whole number in a field; an empty field counts as 0."""
    try:
        return int(text or 0)
    except ValueError:
        raise HaproxyError("HAProxy shows %r where a number belongs." % (text,)) from None


def _natural(text: str | None) -> int | None:
    return int(text) if text and re.match(r"[0-9]+\Z", text) else None


def _strange(path: str, command: str, text: str) -> str:
    return "The socket %s does not answer %r as HAProxy does: %r." % (path, command, text[:80])


def source_address(address: str | None, port: int | None) -> str | None:
    """The local address from which this machine reaches ``address``; None on loopback and where there is no way.

    A UDP socket that is connected has its source chosen by the kernel, and sends nothing.
    """
    if address is None or ipaddress.ip_address(address).is_loopback:
        return None
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, port or 1))
            source: str = probe.getsockname()[0]
            return source
    except (OSError, OverflowError):  # OverflowError: the number is not a port
        return None
