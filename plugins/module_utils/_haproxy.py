# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.
# Do not use this from other collections or standalone plugins/modules!

"""HAProxy through its runtime socket: what its servers do, and holds on them."""

from __future__ import annotations

import collections
import contextlib
import csv
import errno
import io
import ipaddress
import os
import re
import socket
import time

from ansible_collections.graceful.azure.plugins.module_utils._haproxy_configuration import (
    backends_served_in_drain,
)
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_former import answering_processes, former_connections
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_records import Records, leads_to
from ansible_collections.graceful.azure.plugins.module_utils._holds import (
    CHANGING,
    HELD,
    RESTORING,
    holders,
    new_record,
    same_content,
)
from ansible_collections.graceful.azure.plugins.module_utils._minimum import shortage

KIND = "haproxy_server"
DEFAULT_SOCKET = "/run/haproxy/admin.sock"
COMMAND_SECONDS = 3.0
# A HAProxy that is being restarted is away for a moment.
AWAY_SECONDS = 1.0
# What the socket of another record may take to say who answers there.
ASK_SECONDS = 0.5
ANSWER_LIMIT = 64 << 20

READY, DRAIN, MAINT = "ready", "drain", "maint"

# Flags of srv_admin_state in `show servers state`.
F_MAINT = 0x01  # forced: set through the runtime socket or by `disabled`
I_MAINT = 0x02  # inherited from a tracked server
C_MAINT = 0x04  # the configuration says `disabled`
F_DRAIN = 0x08
I_DRAIN = 0x10
R_MAINT = 0x20  # its name does not resolve

OPERATIONAL = {0: "down", 1: "starting", 2: "up", 3: "stopping"}

# Flags of srv_agent_state.
AGENT_IN_PROGRESS = 0x01
AGENT_CONFIGURED = 0x02
AGENT_ENABLED = 0x04
# For how long an agent's answer that is under way is waited for.
AGENT_SECONDS = 1.0

# What HAProxy accepts in the names of servers and proxies. Everything else could end the command or begin another.
NAME = re.compile(r"[A-Za-z0-9_.:-]+\Z")

# Conditions of a server.
NONE = "none"
ALREADY_OUT = "already_out"
CHANGED_MEANWHILE = "changed_meanwhile"
LOST = "lost"

# What is told to HAProxy so that its checks decide before a server comes back.
CHECK_FIRST = "check_first"
# The bit of srv_check_state (`show servers state`) that says that health checks are enabled. It stays set in maintenance.
CHECKS_ENABLED = 0x04

# In a record that goes from one state to another: the one that it comes from. A run may be cut off before the command.
LEFT_BEFORE = "left_before"
# In a record that is being released, or was and is held again: HAProxy was told to check the server. While it is released,
# maintenance is somebody else's from now on.
CHECKING = "checking"
# In a record: the server's total of sessions when the hold was in place, those that waited for the server included.
TOTAL_SESSIONS = "total_sessions"
# In a record: how many of these waited.
QUEUED = "queued"
# In what a record says was found: the server's agent check was enabled. The hold disables it.
AGENT = "agent"
ENABLED, DISABLED = "enabled", "disabled"

ROUNDS = 5

Process = collections.namedtuple("Process", "pid started exact")


class HaproxyError(Exception):
    """HAProxy cannot be asked, or does not do what it is told; the text is a full sentence."""


class Refused(HaproxyError):
    """HAProxy answered that it did not do what it was told."""


class NotThere(HaproxyError):
    """There is no socket, or nobody listens on it."""


def socket_path(text):
    """The socket that the user names. Only a path is one: `@1` and its like are words of the master process."""
    if re.search(r"(^|\s|/)@[!0-9a-z]", text):
        raise ValueError(
            "%r is no path of a socket: '@' begins a prefix for HAProxy's master socket, which is not used here. "
            "Name the socket of a 'stats socket' line in the configuration instead." % (text,)
        )
    return os.path.realpath(text)


class Haproxy:
    """The runtime socket of one HAProxy. Every line of commands has a connection of its own, bounded in time and size."""

    def __init__(
        self, path, hard_stop_after=None, command_seconds=COMMAND_SECONDS, monotonic=time.monotonic, sleep=time.sleep, away_seconds=AWAY_SECONDS
    ):
        self.path = path
        self._hard_stop_after = hard_stop_after
        self._command_seconds = command_seconds
        self._away_seconds = away_seconds
        self._monotonic = monotonic
        self._sleep = sleep

    def command(self, line):
        started = self._monotonic()
        deadline = started + self._command_seconds
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            try:
                self._connect(connection, deadline, started + self._away_seconds)
                connection.sendall(line.encode("ascii") + b"\n")
                return self._read(connection, deadline).decode("utf-8", "replace")
            except socket.timeout:
                if self._is_master():
                    raise HaproxyError(self._master()) from None
                raise HaproxyError(
                    "HAProxy did not answer %r on socket %s within %g seconds." % (line, self.path, self._command_seconds)
                ) from None
            except (FileNotFoundError, ConnectionRefusedError) as error:
                raise NotThere(self._unreachable(error)) from error
            except (OSError, OverflowError) as error:
                raise HaproxyError(self._unreachable(error)) from error

    def _is_master(self):
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

    def _master(self):
        return (
            "%s is the socket of HAProxy's master process (-S), which has no servers. Name the stats socket of the worker "
            "instead: the path of a 'stats socket ... level admin' line in the configuration." % self.path
        )

    def _connect(self, connection, deadline, back):
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

    def _read(self, connection, deadline):
        pieces, size = [], 0
        while True:
            self._limit(connection, deadline)
            piece = connection.recv(1 << 16)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
            size += len(piece)
            if size > ANSWER_LIMIT:
                raise HaproxyError("HAProxy on socket %s answers more than %d bytes." % (self.path, ANSWER_LIMIT))

    def _limit(self, connection, deadline):
        left = deadline - self._monotonic()
        if left <= 0:
            raise socket.timeout()
        connection.settimeout(left)

    def _unreachable(self, error):
        number = getattr(error, "errno", None)
        if number == errno.ENOENT:
            return "There is no HAProxy socket %s. Is HAProxy running, and does its 'stats socket' lie there?" % self.path
        if number == errno.EACCES:
            return (
                "User id %d may not use the HAProxy socket %s. Give the task the rights (become), or the socket another "
                "mode or owner." % (os.geteuid(), self.path)
            )
        if number == errno.ECONNREFUSED:
            return "Nobody listens on the HAProxy socket %s. Is HAProxy running?" % self.path
        return "The HAProxy socket %s cannot be used: %s." % (self.path, getattr(error, "strerror", None) or error)

    def level(self):
        """What this socket allows: user, operator or admin."""
        words = self.command("show cli level").split()
        return words[0] if len(words) == 1 else None

    def look(self):
        """One look: the process, and its backends and servers.

        One line on one connection, which one process answers: while HAProxy is reloaded the next connection may well
        come to another one, and then again to the former.
        """
        # Backends and servers (types 2 and 4) of every proxy.
        text = self.command("show info;show servers state;show stat -1 6 -1")
        # An empty line follows every answer. There may be one within the statistics, which are therefore the last.
        info, state, stat = (re.split("\n\n+", text, maxsplit=2) + ["", ""])[:3]
        if info.startswith("Unknown command") and self._is_master():
            raise HaproxyError(self._master())
        process = parse_info(info, self.path)
        look = Look(process, parse_servers_state(state, self.path), parse_stat(stat, self.path))
        if not text.endswith("\n\n"):
            # Servers may be missing, and a hold on one that is gone would be dropped.
            raise HaproxyError("HAProxy on socket %s broke off in the middle of its answer." % self.path)
        look.uptime = parse_uptime(info)
        look.add_former(former_connections(process.pid, look.uptime, self._hard_stop_after))
        return look

    def sticky_backends(self, look):
        """Which backends send a known client back to a server that drains.

        A cookie shows in the statistics, a table in its stored fields. Which backend uses a table in a section that has
        no server of its own cannot be asked, so that every backend counts as its user.
        """
        sticky = {name for name, row in look.backends.items() if row.get("cookie")}
        tables = {name for name in self._tables() if self._stores_server_id(name)}
        if tables - set(look.backends_with_servers):
            return set(look.backends_with_servers)
        return sticky | tables

    def _tables(self):
        return re.findall(r"^# table: ([^,\s]+),", self.command("show table"), re.MULTILINE)

    def _stores_server_id(self, table):
        # A filter that cannot be right: it is refused before the table is walked, however large that is, and for
        # another reason when the field is not stored.
        answer = self.command("show table %s data.server_id is 0" % table)
        return "not stored" not in answer and "No such table" not in answer

    def set_state(self, backend, server, state):
        answer = self.command("set server %s/%s state %s" % (backend, server, state)).strip()
        if answer:
            raise Refused(
                "HAProxy on socket %s refuses to set %s/%s to %s: %s"
                % (self.path, backend, server, state, " ".join(answer.split()))
            )

    def set_agent(self, backend, server, state):
        """Enable or disable the server's agent check. `set server ... agent down` would last until its next answer."""
        verb = "enable" if state == ENABLED else "disable"
        answer = self.command("%s agent %s/%s" % (verb, backend, server)).strip()
        if answer:
            raise Refused(
                "HAProxy on socket %s refuses to %s the agent check of %s/%s: %s"
                % (self.path, verb, backend, server, " ".join(answer.split()))
            )

    def await_agent(self, backend, server):
        """Wait for an answer of the agent that is under way: it would undo what is set meanwhile."""
        ends = self._monotonic() + AGENT_SECONDS
        while self._monotonic() < ends:
            seen = self.look().servers.get((backend, server))
            if seen is None or not seen.agent_asked:
                return
            self._sleep(0.05)

    def check_first(self, backend, server):
        """Have HAProxy check a server that is in maintenance, and let no new client in.

        Out of maintenance HAProxy takes a server for healthy until a check fails, and with `fall 1` nothing tells that
        from a check that has passed. Its health is therefore set to down in the same line of commands. Now it is up only
        after as many checks as `rise` says have passed. Nobody is sent there meanwhile, sticky sessions included.
        """
        place = "%s/%s" % (backend, server)
        if self.command("set server %s state drain;set server %s health down" % (place, place)).strip():
            # What was refused? The health may be: then HAProxy's own first check decides.
            self.set_state(backend, server, DRAIN)

    def set_healthy(self, backend, server):
        """Undo what C(check_first) said of the server's health. A HAProxy that refuses never took that either."""
        self.command("set server %s/%s health up" % (backend, server))


def who_answers(path):
    """The process of the HAProxy on this socket. None where nobody listens there, False where that cannot be told."""
    try:
        return parse_info(Haproxy(path, command_seconds=ASK_SECONDS, away_seconds=0.0).command("show info"), path)
    except HaproxyError as error:
        nobody = getattr(error.__cause__, "errno", None) in (errno.ENOENT, errno.ECONNREFUSED)
        return None if nobody else False


def sort_records(records, path, look):
    """Which of the records belong to the HAProxy that was looked at; see C(_haproxy_records) for the rule."""

    def same(recorded, process):
        return same_process(Process(recorded["pid"], recorded["started"], False), process)

    return Records(records, path, look, who_answers, subject_of, same)


class DryHaproxy:
    """A HAProxy that remembers what it was told instead of doing it: for check mode.

    ``waits``: whether the call would wait for HAProxy's checks, which then count as passed.
    """

    def __init__(self, haproxy, waits=True):
        self._haproxy = haproxy
        self._waits = waits
        self._told = {}
        self._told_agents = {}
        self._checked = set()
        self.path = haproxy.path

    def level(self):
        return self._haproxy.level()

    def sticky_backends(self, look):
        return self._haproxy.sticky_backends(look)

    def look(self):
        look = self._haproxy.look()
        for key, state in self._told.items():
            server = look.servers.get(key)
            if server:
                server.flags = server.flags & ~(F_MAINT | F_DRAIN) | {READY: 0, DRAIN: F_DRAIN, MAINT: F_MAINT}[state]
                if key in self._checked:
                    # As it will be when the checks have passed, or have not yet.
                    server.passed = self._waits
                    server.operational = "up" if self._waits else "down"
        for key, state in self._told_agents.items():
            if key in look.servers:
                look.servers[key].show_agent(state)
        return look

    def set_healthy(self, backend, server):
        pass

    def check_first(self, backend, server):
        self._checked.add((backend, server))
        self.set_state(backend, server, DRAIN)

    def set_state(self, backend, server, state):
        self._told[backend, server] = state

    def set_agent(self, backend, server, state):
        self._told_agents[backend, server] = state

    def await_agent(self, backend, server):
        pass


class Look:
    """What one look at HAProxy saw."""

    def __init__(self, process, state, stat):
        self.process = process
        self.uptime = None
        self.backends = {}
        self.servers = collections.OrderedDict()
        rows = {}
        for row in stat:
            if row["svname"] == "BACKEND":
                self.backends[row["pxname"]] = row
            else:
                rows[row["pxname"], row["svname"]] = row
        for line in state:
            key = line["be_name"], line["srv_name"]
            row = rows.get(key)
            if row is not None:  # not one that was added or deleted between the two answers
                self.servers[key] = Server(key, line, row)

    def add_former(self, former):
        """Count what a former process still serves along with the sessions of the one that answers.

        Where that cannot be counted, each server concerned says so. Of the connections to a server that may be anybody's
        those are left aside that the answering process tells of itself.
        """
        for server, count in self._shares(former.connections):
            server.sessions += count
        if former.uncertain is None:
            for server in self.servers.values():
                server.uncounted = former.problem
            return
        for server, count in self._shares(former.uncertain):
            same = (other for other in self.servers.values() if other.address == server.address)
            if count > sum(other.connections for other in same if server.port in (None, other.port)):
                server.uncounted = former.problem

    def _shares(self, connections):
        """Each server with the number of connections that may be its.

        A server without a port of its own takes the client's, so that all connections to its address may be its. Whether
        a port is an offset to the client's HAProxy does not tell: a connection to a port that no server has may be of any
        server of the address. Too many are counted rather than too few.
        """
        servers = {}
        for server in self.servers.values():
            servers.setdefault(server.address, []).append(server)
        shares = collections.OrderedDict()
        for (address, port), count in connections.items():
            there = servers.get(address, ())
            known = any(server.port == port for server in there)
            for server in there:
                if server.port in (None, port) or not known:
                    shares[server] = shares.get(server, 0) + count
        return list(shares.items())

    @property
    def pids(self):
        """The ids of the process as seen from here. In a container it calls itself by another."""
        return answering_processes(self.process.pid, self.uptime)

    @property
    def backends_with_servers(self):
        return list(collections.OrderedDict((backend, None) for backend, dummy in self.servers))

    def backends_of(self, name):
        return [backend for backend, server in self.servers if server == name]


class Server:
    """One server of one backend, as `show servers state` and `show stat` describe it."""

    def __init__(self, key, line, row):
        self.backend, self.name = key
        self.flags = number(line["srv_admin_state"])
        self.weight = number(line["srv_uweight"])
        self.operational = OPERATIONAL.get(number(line["srv_op_state"]), "down")
        self.status = row["status"]
        # By HAProxy itself, which is what the way out of maintenance waits for.
        self.checked = bool(number(line.get("srv_check_state")) & CHECKS_ENABLED)
        # By anything that HAProxy asks: itself, an agent, or the server that this one tracks.
        self.watched = self.checked or bool(number(line.get("srv_agent_state")) & CHECKS_ENABLED) or bool(row.get("tracked"))
        # It takes as many good checks as `rise` says to be up, and is at its best only when none has failed since.
        best = number(row.get("check_rise")) + number(row.get("check_fall")) - 1
        # With `slowstart` a server that is up counts as starting for so long.
        self.passed = self.operational in ("up", "starting") and number(line.get("srv_check_health")) >= best
        self.last_check = ", ".join(text for text in (row.get("check_status"), row.get("last_chk")) if text)
        self.sessions = number(row["scur"])
        self.queue = number(row["qcur"])
        # Connections that the answering process has, in use or kept for the next request. Versions before 2.2 do not tell.
        self.connections = sum(number(row.get(key)) for key in ("used_conn_cur", "idle_conn_cur", "safe_conn_cur"))
        # Why more may be under way than its sessions tell, a sentence.
        self.uncounted = None
        self.total_sessions = number(row.get("stot"))
        self.backup = row.get("bck") == "1"
        self._agent = number(line.get("srv_agent_state"))
        self.address = normal_address(line["srv_addr"])
        port = number(line.get("srv_port"))
        # 0 where the client's port is taken, and beyond all ports, without its sign, where something is taken off that.
        self.port = port if 0 < port < 1 << 16 else None

    @property
    def forced(self):
        """The state that somebody set."""
        return MAINT if self.flags & F_MAINT else DRAIN if self.flags & F_DRAIN else READY

    @property
    def admin_state(self):
        """The state that is in force, wherever it comes from."""
        if self.flags & (F_MAINT | I_MAINT | R_MAINT):
            return MAINT
        return DRAIN if self.flags & (F_DRAIN | I_DRAIN) else READY

    @property
    def wanted_state(self):
        """The state that is in force as soon as the server's name leads somewhere."""
        if self.flags & (F_MAINT | I_MAINT):
            return MAINT
        return DRAIN if self.flags & (F_DRAIN | I_DRAIN) else READY

    @property
    def unresolved(self):
        """Whether its name leads nowhere, as that of a slot of ``server-template`` that has no address yet."""
        return bool(self.flags & R_MAINT) and self.address is None

    @property
    def returns_by_itself(self):
        """Whether it is out only because its name does not resolve: as soon as DNS answers it is in rotation."""
        return bool(self.flags & R_MAINT) and self.wanted_state == READY

    @property
    def in_service(self):
        return self.admin_state == READY and self.weight > 0 and self.operational in ("up", "starting")

    def leads(self, places):
        """Whether it leads to one of these places: an address and a port, which is None for every port and 0 for that of the client."""
        return self.address is not None and ((self.address, None) in places or (self.address, self.port or 0) in places)

    @property
    def agent(self):
        """Whether an agent check may change the server's state: enabled or disabled, None where there is none."""
        if not self._agent & AGENT_CONFIGURED:
            return None
        return ENABLED if self._agent & AGENT_ENABLED else DISABLED

    def show_agent(self, state):
        self._agent = AGENT_CONFIGURED | (AGENT_ENABLED if state == ENABLED else 0)

    @property
    def agent_asked(self):
        """Whether an answer of the agent is under way."""
        return bool(self._agent & AGENT_IN_PROGRESS)

    @property
    def settled(self):
        """Whether it takes part in no session and nothing waits for it."""
        return not self.sessions and not self.queue and self.uncounted is None


def subject_of(path, backend, server):
    return {"socket": path, "backend": backend, "server": server}


def condition_of(record, server, process):
    """What became of a hold: the heart of it all.

    none               in rotation, and nobody says that it should not be; also a server that is out only as long as its
                       name does not resolve
    already_out        out, but not by us
    held               out, as we left it
    lost               it should be out and is not, and no person chose that: HAProxy is another process, or the run
                       that should have taken it out was cut off
    changed_meanwhile  not as we left it, in the process that we left it in: somebody else acted
    """
    if record is None:
        return NONE if server.wanted_state == READY else ALREADY_OUT
    same = same_process(record_process(record), process)
    # In another process it is `disabled` in the configuration that put it into maintenance, not what we had set.
    configured = not same and server.flags & C_MAINT and server.forced == MAINT
    # What was left before counts until the change from it to another is done.
    if server.forced in (record["left"]["admin_state"], record.get(LEFT_BEFORE)) and not configured:
        return HELD
    if server.forced == READY:
        if same and was_out(record):
            return CHANGED_MEANWHILE
        if server.wanted_state != READY:
            return ALREADY_OUT
        return NONE if record["phase"] == RESTORING else LOST
    return CHANGED_MEANWHILE if same else ALREADY_OUT


def was_out(record):
    """Whether the server was out by us in the process of the record, and is not merely on its way there."""
    return record["phase"] == HELD or LEFT_BEFORE in record or CHECKING in record


Step = collections.namedtuple("Step", "record set_state conflict waiting_for", defaults=(None,))


def decide(request, record, server, process, subject, out_state, out_state_given, for_server=None, await_checks=True, continued=False):
    """The next step of one hold: the record as it should be, the state to set (None: none), the conflict (None: none).

    A change of state is two steps: the first writes the intent and changes, the next finds it done and writes that down.
    So the way on after a run that was cut off is the way that every run takes.

    ``continued``: a release that began in an earlier call. It leaves alone what was held again meanwhile, for whatever event.
    """
    condition = condition_of(record, server, process)
    place = "%s/%s" % (server.backend, server.name)
    if request.present:
        if condition == ALREADY_OUT:
            return Step(None, None, None)
        if condition in (NONE, LOST):
            # One that HAProxy forgot was in rotation until now.
            held = {known: dict(entry, since=request.now) for known, entry in record["events"].items()} if condition == LOST else {}
            events = request.added_to(held)
            intent = _intent(subject, server, process, events, out_state, for_server, record)
            if condition == LOST and same_process(record_process(record), process) and AGENT in record["found"]:
                # A run was cut off after it had disabled the agent check.
                intent["found"][AGENT] = record["found"][AGENT]
            return Step(intent, out_state, None)
        finished = record["phase"] == RESTORING
        events = request.added_to({} if finished else record["events"])
        kept = dict(record, events=events)
        if condition == CHANGED_MEANWHILE:
            return Step(kept, None, _conflict(record, server, place))
        if not same_process(record_process(record), process):
            kept.pop(TOTAL_SESSIONS, None)
        kept["process"] = _process(process)
        kept["found"] = _with_agent(kept["found"], server)
        # A server that still gets sessions in `drain` gets none in `maint`, whatever directive sends them. The user may
        # forbid that by naming the state. Also on to where a run that was cut off was going.
        onward = out_state == MAINT if out_state_given else bool(arrived(kept, server, process))
        if server.forced == DRAIN and (onward or LEFT_BEFORE in record or CHECKING in record):
            onward = dict(_left(kept, MAINT), phase=CHANGING, **{LEFT_BEFORE: DRAIN})
            if _is_being_checked(record):
                # For a release that comes before it gets there.
                onward[CHECKING] = True
            return Step(onward, MAINT, None)
        if record["phase"] != HELD or TOTAL_SESSIONS not in kept:
            kept[TOTAL_SESSIONS] = server.total_sessions + server.queue
            kept[QUEUED] = server.queue
        return Step(dict(_left(kept, server.forced), phase=HELD), None, None)
    if record is None:
        return Step(None, None, None)
    if continued and record["phase"] != RESTORING:
        return Step(record, None, None)
    remaining = request.taken_from(record["events"])
    if remaining and record["phase"] != RESTORING:
        conflict = _conflict(record, server, place) if condition == CHANGED_MEANWHILE else None
        return Step(dict(record, events=remaining), None, conflict)
    if condition == HELD:
        return _way_back(record, server, place, await_checks)
    # Where nothing of what we set is left and no person took it away, there is nothing to tell.
    told = condition == CHANGED_MEANWHILE or server.forced != READY
    return Step(None, None, _conflict(record, server, place) if told else None)


def _way_back(record, server, place, await_checks):
    """The next step of a server that nobody holds any more.

    In maintenance HAProxy does not check a server. So it goes through `drain` first and stays there until the checks have
    passed. In `drain` it has been checked all the time, and HAProxy knows. Only while checks have begun to fail and it still
    counts as up, it waits: soon a check passes, or it is down and gets no request until HAProxy says otherwise.
    Where it stays in maintenance for another reason there is no check to wait for, and no traffic either.
    Without ``await_checks`` it is given back at once, and is down until HAProxy's checks pass: also out of ``drain``, where
    HAProxy may not have noticed yet that the machine is gone.
    """
    checking = _is_being_checked(record)
    record = dict(record, phase=RESTORING)
    if server.checked and server.forced == MAINT and not server.flags & (I_MAINT | R_MAINT):
        return Step(dict(_left(record, DRAIN), **{LEFT_BEFORE: MAINT}), CHECK_FIRST, None)
    up = server.operational in ("up", "starting")
    watched = server.checked and server.forced == DRAIN and server.admin_state != MAINT
    if watched and up and not await_checks:
        return Step(_left(record, DRAIN), CHECK_FIRST, None)
    if watched and await_checks and (checking or up) and not server.passed:
        if checking:
            # HAProxy took the command. A server that is in maintenance from now on was put there by somebody else.
            record = dict(_left(record, DRAIN), **{CHECKING: True})
        why = "%s%s" % (server.status, ": " + server.last_check if server.last_check else "")
        return Step(record, None, None, "%s waits in drain until HAProxy's health check passes (%s)" % (place, why))
    return Step(_left(record, server.forced), record["found"]["admin_state"], None)


def _is_being_checked(record):
    """Whether the server of a record is in `drain` on its way back, so that HAProxy's checks decide."""
    return record is not None and (CHECKING in record or record["phase"] == RESTORING and record.get(LEFT_BEFORE) == MAINT)


def _intent(subject, server, process, events, out_state, for_server, forgotten):
    left = {"admin_state": out_state, "weight": server.weight}
    found = _with_agent(dict(left, admin_state=READY), server)
    more = {}
    if server.address is not None:
        more["leads_to"] = leads_to(server)
    if for_server is not None:
        more["for_server"] = for_server
    # HAProxy may give the name to another machine while it starts: the hold was put for the one before.
    if forgotten is not None and forgotten["phase"] != RESTORING:
        more.update((key, forgotten[key]) for key in ("leads_to", "for_server") if key in forgotten)
    return new_record(KIND, subject, found, left, events, process=_process(process), **more)


def _with_agent(found, server):
    """What was found, and that the agent check was enabled where it is: the hold is about to disable it."""
    return dict(found, **{AGENT: ENABLED}) if server.agent == ENABLED else found


def arrived(record, server, process):
    """How many sessions came since the hold was in place; None where that cannot be told."""
    if record is None or TOTAL_SESSIONS not in record or not same_process(record_process(record), process):
        return None
    # A person may have cleared HAProxy's counters.
    cleared = server.total_sessions < record[TOTAL_SESSIONS] - record.get(QUEUED, 0)
    before = 0 if cleared else record[TOTAL_SESSIONS]
    return max(0, server.total_sessions - before)


def _left(record, state):
    """The record with this state as the only one that is ours."""
    left = dict(record, left=dict(record["left"], admin_state=state))
    left.pop(LEFT_BEFORE, None)
    left.pop(CHECKING, None)
    return left


def _conflict(record, server, place):
    return "%s was left in %s and is in %s now (%s): somebody else changed it, so it was not touched." % (
        place,
        record["left"]["admin_state"],
        server.forced if server.forced != READY else server.admin_state,
        server.status,
    )


def _process(process):
    return {"pid": process.pid, "started": process.started}


def record_process(record):
    return Process(record["process"]["pid"], record["process"]["started"], False)


def same_process(one, other):
    # Versions that do not tell when they started tell for how long they run: that is off by a second or two.
    return one.pid == other.pid and abs(one.started - other.started) <= 2


class Holder:
    """Puts and releases holds on one server in its backends: record, check and change in one go.

    ``places`` are addresses, each with a port or None. Servers of other names that lead there are taken out as well, and
    given back when the server of that name is.
    """

    def __init__(self, haproxy, store, request, server, backends, out_state, min_in_service=None, places=(), await_checks=True, continued=False):
        self._haproxy = haproxy
        self._store = store
        self._request = request
        self._server = server
        self._backends = backends
        self._out_state = out_state
        self._min_in_service = min_in_service
        self._places = places
        self._await_checks = await_checks
        self._continued = continued
        self.refused = []

    def run(self):
        """A list of outcomes, one per backend and server, and the process."""
        check_names([self._server] + (self._backends or []))
        level = self._haproxy.level()
        if level not in (None, "admin"):
            raise HaproxyError(
                "The HAProxy socket %s allows only the level %s; 'set server' needs 'stats socket ... level admin'."
                % (self._haproxy.path, level)
            )
        # A mistake in the names leaves nothing behind, not even the folder.
        look = self._haproxy.look()
        self._targets(look, self._records(look))
        with self._store.locked(create=self._request.present):
            return self._run()

    def _records(self, look):
        return sort_records(self._store.records(KIND), self._haproxy.path, look)

    def _follow(self, look):
        """The records that belong to this HAProxy. One whose socket has got another path is filed under that first."""
        records = self._records(look)
        moved = list(records.moved())
        for record, subject in moved:
            self._store.write(dict(record, subject=subject))
            self._store.delete(record)
        return self._records(look) if moved else records

    def _run(self):
        look = self._haproxy.look()
        records = self._follow(look)
        targets = self._targets(look, records)
        outcomes = collections.OrderedDict(
            (key, Outcome(key[0], key[1], look.servers.get(key), records.get(key), look.process)) for key in targets
        )
        if self._request.present:
            for key in targets:
                # Whether a record would become too large shows before the first is written.
                self._request.added_to((records.get(key) or {"events": {}})["events"])
            if self._min_in_service is not None:
                self.refused = self._too_few(look, list(outcomes.values()))
        if self.refused:
            return list(outcomes.values()), look.process
        sticky = None
        for _dummy in range(ROUNDS):
            if sticky is None and self._request.present and self._out_state is None:
                sticky = self._haproxy.sticky_backends(look) | backends_served_in_drain(look.pids)
            acted = False
            for key in targets:
                backend, name = key
                server = look.servers.get(key)
                outcome = outcomes[key]
                record = records.get(key)
                self._release_doubles(records.doubles(key))
                if server is None:
                    self._forget(outcome, record)
                    continue
                out_state = self._out_state or (MAINT if backend in (sticky or ()) else DRAIN)
                for_server = None if name == self._server else self._server
                given = self._out_state is not None
                subject = records.subject(key)
                step = decide(
                    self._request, record, server, look.process, subject, out_state, given, for_server, self._await_checks, self._continued
                )
                outcome.saw(server, record, look.process, step)
                acted |= self._take(step, record, server)
            if not acted:
                return list(outcomes.values()), look.process
            look = self._haproxy.look()
            records = self._follow(look)
        raise HaproxyError(
            "HAProxy on socket %s took the command, but %s is not as it was told." % (self._haproxy.path, self._server)
        )

    def _release_doubles(self, doubles):
        """Further records about a server say nothing that its own does not, but they must not stay for ever."""
        for record in doubles if not self._request.present else ():
            remaining = self._request.taken_from(record["events"])
            if not remaining:
                self._store.delete(record)
            elif remaining != record["events"]:
                self._store.write(dict(record, events=remaining))

    def _too_few(self, look, outcomes):
        """Where the server would go out and too few would stay in service, a sentence each.

        Only backends that have the server by its own name count, as in the plan: in another one, which has it by another
        name alone, waiting brings no other server.
        """
        found = []
        leaving = [outcome for outcome in outcomes if outcome.server.in_service and outcome.condition != CHANGED_MEANWHILE]
        for outcome in leaving:
            if (outcome.backend, self._server) not in look.servers:
                continue
            backend = [
                {"server": server.name, "in_service": server.in_service, "backup": server.backup, "unresolved": server.unresolved}
                for server in look.servers.values()
                if server.backend == outcome.backend
            ]
            others = [other.name for other in leaving if other is not outcome and other.backend == outcome.backend]
            short = shortage(self._min_in_service, outcome.name, backend, outcome.backend, others)
            if short:
                found.append("%s stays: %s." % (self._server, short))
        return list(collections.OrderedDict.fromkeys(found))

    def _targets(self, look, records):
        """The places (backend and server) to act on. All that the user named must have the server, or nothing is touched."""
        known = look.backends_of(self._server)
        recorded = [backend for backend, name in records.keys() if name == self._server]
        wanted = self._backends if self._backends is not None else known
        for backend in wanted:
            if backend in known or not self._request.present and backend in recorded:
                continue
            if backend not in look.backends:
                raise HaproxyError("HAProxy on socket %s has no backend %r (option backends)." % (self._haproxy.path, backend))
            raise HaproxyError(
                "The backend %r of HAProxy on socket %s has no server %r (option server)."
                % (backend, self._haproxy.path, self._server)
            )
        if self._backends is None and not self._request.present:
            wanted = wanted + [backend for backend in recorded if backend not in wanted]
        also = self._also(look, records)
        if not wanted and (self._request.present or not also):
            raise HaproxyError(
                "No backend of HAProxy on socket %s has a server %r (option server)." % (self._haproxy.path, self._server)
            )
        return [(backend, self._server) for backend in wanted] + also

    def _also(self, look, records):
        """Servers of other names: those that lead to the places given, or that are held for this one."""
        if self._request.present:
            found = [key for key, server in look.servers.items() if server.leads(self._places)]
        else:
            found = [key for key in records.keys() if records.get(key).get("for_server") == self._server]
        return [key for key in found if key[1] != self._server and (self._backends is None or key[0] in self._backends)]

    def _forget(self, outcome, record):
        """A hold on a server that HAProxy has no longer: there is nothing left to put back."""
        if record is None:
            return
        remaining = self._request.taken_from(record["events"])
        if remaining:
            outcome.after = dict(record, events=remaining)
            self._store.write(outcome.after)
            return
        outcome.conflict = "%s/%s is no longer in HAProxy: the hold on it was dropped." % (outcome.backend, outcome.name)
        outcome.after = None
        self._store.delete(record)

    def _take(self, step, record, server):
        agent = self._wanted_agent(step, record, server)
        if step.record is None:
            if agent is not None:
                self._haproxy.set_agent(server.backend, server.name, agent)
            if record is not None:
                self._store.delete(record)
            return False
        if not same_content(step.record, record):
            self._store.write(step.record)
        if step.set_state is None and agent is None:
            return False
        try:
            if agent is not None:
                self._haproxy.set_agent(server.backend, server.name, agent)
            if agent == DISABLED:
                self._haproxy.await_agent(server.backend, server.name)
            if step.set_state == CHECK_FIRST:
                self._haproxy.check_first(server.backend, server.name)
            elif step.set_state is not None:
                if step.set_state == READY and not server.checked and _is_being_checked(record):
                    # Somebody switched the checks off meanwhile, and no check would ever have it up again.
                    self._haproxy.set_healthy(server.backend, server.name)
                self._haproxy.set_state(server.backend, server.name, step.set_state)
        except Refused:
            if agent is not None and step.set_state is not None:
                with contextlib.suppress(Refused):
                    self._haproxy.set_agent(server.backend, server.name, server.agent)
            # Nothing was changed, so the record says again what it said.
            if record is None:
                self._store.delete(step.record)
            else:
                self._store.write(record)
            raise
        return True

    def _wanted_agent(self, step, record, server):
        """What the server's agent check is to be set to with this step; None: left as it is."""
        if self._request.present:
            # One whose state somebody else set is left alone whole.
            ours = step.record is not None and step.conflict is None
            return DISABLED if ours and server.agent == ENABLED else None
        # While HAProxy's checks decide, an agent that says ready would be quicker.
        checking = step.set_state == CHECK_FIRST or step.waiting_for
        over = record is not None and (step.record is None or step.record["phase"] == RESTORING) and not checking
        if over and server.agent == DISABLED and record["found"].get(AGENT) == ENABLED:
            return ENABLED
        return None


class Outcome:
    """What became of one server of one backend in this run."""

    def __init__(self, backend, name, server, record, process):
        self.backend = backend
        self.name = name
        self.before = view(server, record)
        self.first_record = record
        self.server = server
        self.came = arrived(record, server, process) if server else None
        self.after = record
        self.shown = record
        self.condition = condition_of(record, server, process) if server else NONE
        self.put_right = False
        self.conflict = None
        self.waiting_for = None
        self.acted = False

    def saw(self, server, record, process, step):
        if step.set_state is not None:
            self.acted = True
            lost = record is not None and was_out(record) and self.condition == LOST
            self.put_right |= bool(lost and step.set_state in (DRAIN, MAINT))
        self.server = server
        self.came = arrived(step.record, server, process)
        self.waiting_for = step.waiting_for
        self.after = step.record
        self.shown = step.record or record or self.shown
        if self.conflict is None:
            self.conflict = step.conflict
            if not (step.conflict and self.condition == CHANGED_MEANWHILE):
                self.condition = condition_of(step.record, server, process)

    @property
    def changed(self):
        if self.acted or (self.after is None) != (self.first_record is None):
            return True
        return self.after is not None and self.after["events"] != self.first_record["events"]

    def result(self):
        if self.server:
            result = describe(self.server, self.after, self.condition, self.came)
        else:
            result = absent(self.backend, self.name, self.after)
        shown = self.shown
        result.update(
            found=shown["found"] if shown else None, left=shown["left"] if shown else None, put_right=self.put_right
        )
        return result


def release_absent(store, request, server, backends):
    """Release holds on a machine on which no HAProxy runs: there is nothing to put back, whatever socket the records name.

    Gives whether anything changed, and what a diff shows, before and after.
    """
    before, after, changed = {}, {}, False
    with store.locked():
        for record in store.records(KIND):
            subject = record["subject"]
            if server not in (subject["server"], record.get("for_server")) or backends and subject["backend"] not in backends:
                continue
            remaining = request.taken_from(record["events"])
            kept = dict(record, events=remaining) if remaining else None
            place = "%s/%s" % (subject["backend"], subject["server"])
            before[place], after[place] = view(None, record), view(None, kept)
            changed |= remaining != record["events"] or kept is None
            if kept is None:
                store.delete(record)
            elif remaining != record["events"]:
                store.write(kept)
    return changed, before, after


def describe(server, record, condition, came=None):
    return {
        "backend": server.backend,
        "server": server.name,
        "admin_state": server.admin_state,
        "status": server.status,
        "weight": server.weight,
        "sessions": server.sessions,
        "queue": server.queue,
        "uncounted": server.uncounted,
        "total_sessions": server.total_sessions,
        "arrived": came,
        "agent": server.agent,
        "condition": condition,
        "found": record["found"] if record else None,
        "left": record["left"] if record else None,
        "held_by": holders(record),
        "leads_to": record.get("leads_to") if record else None,
        "for_server": record.get("for_server") if record else None,
    }


def absent(backend, name, record):
    return {
        "backend": backend,
        "server": name,
        "admin_state": None,
        "status": None,
        "weight": None,
        "sessions": 0,
        "queue": 0,
        "uncounted": None,
        "total_sessions": 0,
        "arrived": None,
        "agent": None,
        "condition": NONE,
        "found": None,
        "left": None,
        "held_by": holders(record),
        "leads_to": record.get("leads_to") if record else None,
        "for_server": record.get("for_server") if record else None,
    }


def view(server, record):
    """What a diff shows of a server."""
    return {
        "admin_state": server.admin_state if server else None,
        "weight": server.weight if server else None,
        "held_by": holders(record),
    }


def parse_places(texts):
    """Addresses, each with or without a port, as pairs: 10.0.0.4, 10.0.0.4:80, 2001:db8::4, [2001:db8::4]:80.

    Port 0 is that of a server without one of its own, which takes the client's.
    """
    places = set()
    for text in texts:
        address, port = normal_address(text.strip("[]")), None
        if address is None:
            host, colon, port = text.rpartition(":")
            address = normal_address(host.strip("[]"))
            if address is None or not re.match(r"[0-9]+\Z", port) or int(port) >= 1 << 16:
                raise ValueError("addresses: %r is neither an IP address nor one with a port, such as 10.0.0.4:80." % (text,))
        places.add((address, port and int(port)))
    return places


def check_names(names):
    for name in names:
        if not NAME.match(name):
            raise ValueError(
                "%r is no name of a server or backend of HAProxy: letters, digits and _ . : - are allowed." % (name,)
            )


def parse_info(text, path, now=time.time):
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
            "HAProxy on socket %s runs as %s processes (nbproc), each with servers of its own; run it with threads instead."
            % (path, fields["Nbproc"])
        )
    started = _natural(fields.get("Start_time_sec"))
    if started is not None:
        return Process(pid, started, True)
    uptime = _natural(fields.get("Uptime_sec"))
    if uptime is None:
        raise HaproxyError(_strange(path, "show info", text))
    return Process(pid, int(now()) - uptime, False)


def parse_uptime(text):
    """For how many seconds HAProxy runs, by its own clock, which does not jump; None where it does not tell."""
    match = re.search(r"^Uptime_sec: *(\d+)", text, re.MULTILINE)
    return int(match.group(1)) if match else None


def parse_servers_state(text, path):
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or not lines[1].startswith("# "):
        raise HaproxyError(_strange(path, "show servers state", text))
    names = lines[1][2:].split()
    needed = {"be_name", "srv_name", "srv_addr", "srv_op_state", "srv_admin_state", "srv_uweight"}
    if not needed <= set(names):
        raise HaproxyError(_strange(path, "show servers state", text))
    return [dict(zip(names, line.split(" "))) for line in lines[2:]]


def parse_stat(text, path):
    if not text.startswith("# "):
        raise HaproxyError(_strange(path, "show stat", text))
    rows = list(csv.DictReader(io.StringIO(text[2:], newline="")))
    needed = {"pxname", "svname", "qcur", "scur", "status"}
    if rows and not needed <= set(rows[0]):
        raise HaproxyError(_strange(path, "show stat", text))
    return rows


def number(text):
    """The whole number in a field; an empty field counts as 0."""
    try:
        return int(text or 0)
    except ValueError:
        raise HaproxyError("HAProxy shows %r where a number belongs." % (text,)) from None


def _natural(text):
    return int(text) if text and re.match(r"[0-9]+\Z", text) else None


def _strange(path, command, text):
    return "The socket %s does not answer %r as HAProxy does: %r." % (path, command, text[:80])


def normal_address(text):
    """The address in its usual spelling; None for what is none, such as a name that did not resolve."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None


def source_address(address, port):
    """The local address from which this machine reaches ``address``; None on loopback and where there is no way.

    A UDP socket that is connected has its source chosen by the kernel, and sends nothing.
    """
    if address is None or ipaddress.ip_address(address).is_loopback:
        return None
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, port or 1))
            return probe.getsockname()[0]
    except (OSError, OverflowError):  # the latter for a port that is none
        return None
