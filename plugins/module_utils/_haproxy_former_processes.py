# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Connections that former processes of HAProxy still have.

After a reload, the former process goes on until its clients are gone. It still has each server as it was before the reload, so it may send there
what its clients ask next: those that are idle, and those that have sent only a part of a request. Only a process in which the server was out before
the reload sends nothing there; the record of the hold names it. No socket tells about it, because the process
that answers counts only its own sessions. So its connections are read from the kernel.

A process that still accepts clients where the one that answers does, too, is no former process: HAProxy was started twice, or a reload did not end it.
The kernel gives each of them a part of the new clients (SO_REUSEPORT). So it proves nothing that it has no client now.

Not every user can read them. What is unknown is then told as unknown, and never as 0:

- A former process is there, and its open files may not be listed (the task is not root). It would have ended if nobody was connected to it.
- The process that answers cannot be found (HAProxy runs in another container than the task, or /proc hides it).
  Then a former process cannot be seen either. HAProxy does not tell whether it was ever reloaded, so there may always be a
  former process, unless the user says how long one can live (``hard-stop-after``).

The processes of a container can be seen from outside, together with their ids inside the container. Clients that use QUIC have a UDP socket each, on the
port of the listener, or share that of the listener. Then nobody can tell how many they are, and the socket counts as one.
"""

from __future__ import annotations

import collections
import os
import re
from typing import TYPE_CHECKING, NamedTuple, Optional

from ansible_collections.graceful.azure.plugins.module_utils._connections import LISTENING, decode_endpoint
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_configuration import named_files
from ansible_collections.graceful.azure.plugins.module_utils._proc import (
    CONNECTED_UNIX,
    chosen_ports,
    command_line,
    identity,
    namespace,
    parent,
    path_through_root,
    process_ids,
    program,
    read,
    socket_inodes,
    started_at,
    started_ticks,
    status_field,
    unix_sockets,
)
from ansible_collections.graceful.azure.plugins.module_utils._spellings import plural

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ansible_collections.graceful.azure.plugins.module_utils._spellings import Endpoint

    # The name of a process, its command line without what a reload adds, its network, and the full paths of its configuration.
    Command = tuple[str, list[str], Optional[str], list[str]]

# States of sockets that carry no requests: closed, and listening.
QUIET = ("07", LISTENING)
# The ports from which the kernel chooses that of a connection, unless it says otherwise.
PORTS = range(32768, 61000)
# Among the flags in the table of Unix sockets.
ACCEPTS = "00010000"

# By how many seconds the age of a process may differ from what HAProxy says. HAProxy counts from the start of the program. A worker is
# forked later, when the whole configuration has been read.
YOUNGER, OLDER = 600, 60
# How long after the start of the new process the former one may be told to stop (s).
STOP_MARGIN = 10


class Clients(NamedTuple):
    """How many clients a former process has."""

    pid: int
    # What tells it from every other process with this id.
    process: str
    number: int
    # Whether it gets new ones, too.
    accepts: bool = False


class Former(NamedTuple):
    """What is known of former processes."""

    # How many connections they have, by their remote ends. Those of clients are left out.
    connections: collections.Counter[Endpoint]
    # Why it is unknown what else they have, a sentence. None if everything was counted.
    unknown: str | None
    # Their clients. Whatever these ask next may come to any server that the process has in rotation.
    clients: tuple[Clients, ...] = ()

    @property
    def lasting(self) -> str | None:
        """Why that does not pass by itself, a sentence, which is told before an event, too; None if it does."""
        accepting = [str(one.pid) for one in self.clients if one.accepts]
        if accepting and not self.unknown:
            return "process %s of HAProxy accepts clients on the same ports as the one that answers, and may send them to it" % ", ".join(accepting)
        return self.unknown

    def problem(self, told: Collection[str] = ()) -> str | None:
        """Why more may come to a server, a sentence; None if nothing more can. ``told``: the processes in which it is out, by their identities."""
        waiting = [one for one in self.clients if one.process not in told]
        lasting = self._replace(clients=tuple(waiting)).lasting
        if lasting or not waiting:
            return lasting
        clients = plural(sum(one.number for one in waiting), "client")
        return "%s of process %s of HAProxy from before a reload may still send requests to it" % (clients, ", ".join(str(one.pid) for one in waiting))


def former_connections(running: list[int], pid: int, uptime: float | None, hard_stop_after: float | None = None, proc: str = "/proc") -> Former:
    """What former processes of HAProxy ``pid`` are connected to. By its own words it runs for ``uptime`` seconds. ``running``: its ids as seen from here."""
    # The connections that can be counted are counted, even if the user gives hard-stop-after.
    ended = hard_stop_after is not None and uptime is not None and uptime > hard_stop_after + STOP_MARGIN
    if not running and ended:
        return Former(collections.Counter(), None)
    if not running:
        return Former(
            collections.Counter(),
            "process %d of HAProxy cannot be seen from here (another container, or a /proc that hides it), so connections that "
            "a process from before a reload still has cannot be counted; run the task where HAProxy's processes can be seen, or "
            "set the option hard_stop_after to HAProxy's own hard-stop-after" % pid,
        )
    counted: collections.Counter[Endpoint] = collections.Counter()
    denied: list[int] = []
    clients: list[Clients] = []
    answering: set[Endpoint] | None = None
    for former in former_processes(running, proc):
        inodes = socket_inodes(former, proc)
        if inodes is None:
            if not ended:
                denied.append(former)
            continue
        to_servers, from_clients, accepting = _connections(former, inodes, proc)
        counted.update(to_servers)
        if accepting and answering is None:
            answering = _listening_of(running, proc)
        accepts = bool(answering and accepting & answering)
        if from_clients or accepts:
            clients.append(Clients(former, identity(former, proc) or "", from_clients, accepts))
    if denied:
        return Former(
            counted,
            "process %s of HAProxy from before a reload may still serve it, and user id %d may not count its connections; "
            "set ansible_become: true for that machine" % (", ".join(map(str, denied)), os.geteuid()),
        )
    return Former(counted, None, tuple(clients))


def answering_processes(pid: int, uptime: float | None, started: float | None = None, proc: str = "/proc") -> list[int]:
    """The ids, as seen from here, of the processes that may be the HAProxy which calls itself ``pid``: one, as a rule.

    In a container it calls itself by another id than it has here. Another program may have this id here.
    """
    # Few processes name a configuration, and the kernel tells that faster than the rest.
    named = [other for other in process_ids(proc) if _names_configuration(other, proc)]
    return [other for other in named if own_pid(other, proc) == pid and _plausible(other, uptime, started, proc)]


def former_processes(running: list[int], proc: str = "/proc") -> list[int]:
    """The other processes of the same HAProxy: the same program, run with the same command line, but for what a reload adds.

    The new process may have been started with another command line: another version, another file. So a process that listens no more is a
    former one, too, unless it belongs to a HAProxy of its own, which listens. One that has the same configuration and listens on the
    same ports is the same HAProxy, started twice.

    The master is left out. It has no connection to a server.
    """
    commands = {one: _command(one, proc) for one in running}
    known = [command for command in commands.values() if command]
    found = _others(running, commands, known, proc)
    if all(command in known for command in found.values()):
        return list(found)
    # Another HAProxy may be reloaded at this moment. Its new process listens before the former one stops, but may be younger than the list of processes.
    again = _others(running, commands, known, proc)
    return [other for other in found if other in again]


def _others(running: list[int], commands: dict[int, Command | None], known: list[Command], proc: str) -> dict[int, Command]:
    """What C(former_processes) finds in one look: each process with its command line."""
    names = {command[0] for command in known}
    # A process of each network. Another than one that answers may end while its kernel's tables are read.
    networks = {command[2]: one for one, command in commands.items() if command}
    masters = {parent(one, proc) for one in running}
    others = {}
    for other in process_ids(proc):
        if other not in running and other not in masters and program(other, proc) in names:
            command = _command(other, proc)
            if command and command[2] in networks:
                others[other] = command
    accepting: dict[str | None, set[str]] = {}
    ended, twice = set(), set()
    configurations = [command[3] for command in known]
    for other, command in others.items():
        if command in known:
            continue
        network = command[2]
        # The kernel's tables are those of a network: with many connections, they are read once.
        if network not in accepting:
            accepting[network] = _accepting(networks[network], proc) or _accepting(other, proc)
        inodes = socket_inodes(other, proc)
        # What we may not look at may listen.
        if inodes is not None and not inodes & accepting[network]:
            ended.add(other)
        elif inodes and command[3] in configurations and _listening(other, inodes, proc) & _listening_of(running, proc):
            twice.add(other)
    apart = [command for other, command in others.items() if other not in ended]
    return {other: command for other, command in others.items() if command in known or other in twice or (other in ended and command not in apart)}


def own_connections(running: list[int], proc: str = "/proc") -> list[tuple[Endpoint, Endpoint]] | None:
    """The local and the remote end of each connection of the HAProxy that answers.

    None if they may not be listed, if HAProxy is in another network, whose addresses and ports others do not see, or if several processes may be the
    one that answers: in two containers, both may have the same id.
    """
    found = []
    if len(running) > 1:
        return None
    for pid in running:
        inodes, network = socket_inodes(pid, proc), namespace(pid, "net", proc)
        if inodes is None or network is None or network != namespace("self", "net", proc):
            return None
        found += [(local, remote) for local, remote, state, inode in _sockets(pid, inodes, proc) if inode in inodes and state not in QUIET]
    return found if running else None


def master_socket(pid: int, proc: str = "/proc") -> str | None:
    """The path by which we reach the socket (``-S``) of the master of a worker; None if it has none in the file system."""
    master = parent(pid, proc)
    words = [] if master is None else command_line(master, proc)
    if master is None or "-S" not in words[:-1] or program(master, proc) != program(pid, proc):
        return None
    path = re.sub(r"\Aunix@", "", words[words.index("-S") + 1].split(",")[0])
    try:
        return path_through_root(master, path, proc) if path.startswith("/") else None
    except OSError:
        return None


def own_pid(pid: int, proc: str = "/proc") -> int:
    """The id by which the process knows itself: inside its own container."""
    known = status_field(pid, "NSpid", proc).split()
    return int(known[-1]) if known else pid


def _names_configuration(pid: int, proc: str) -> bool:
    """Whether the process is started as HAProxy is, whatever it is called."""
    return any(word == "--" or word.startswith("-f") for word in command_line(pid, proc)[1:])


def _plausible(pid: int, uptime: float | None, started: float | None, proc: str) -> bool:
    """Whether the process can be the HAProxy that tells this of itself."""
    ticks, up = started_ticks(pid, proc), read(proc, "uptime").split()
    if ticks is None or not up:
        return False
    age = float(up[0]) - ticks / os.sysconf("SC_CLK_TCK")
    if uptime is None or -YOUNGER <= age - uptime <= OLDER:
        return True
    # While its machine is paused or has no time for it, HAProxy's uptime stands still. When it started is a date, which somebody may have set since.
    begun = started_at(pid, proc)
    return started is not None and begun is not None and -OLDER <= begun - started <= YOUNGER


def _command(pid: int, proc: str) -> Command | None:
    """The name of a process, its command line without what a reload adds, its network and its configuration; None where there is none.

    A command line may name the configuration from the folder in which it was typed, as another one does in another folder.
    """
    words = []
    skipped = None
    for word in command_line(pid, proc):
        if word in ("-sf", "-st", "-x"):
            skipped = word
        elif skipped and (word.isdigit() or skipped == "-x"):
            # -sf and -st are followed by any number of process ids, -x by one socket.
            skipped = None if skipped == "-x" else skipped
        else:
            skipped = None
            words.append(word)
    if not any(words):  # gone, or a thread of the kernel
        return None
    return program(pid, proc), words, namespace(pid, "net", proc), named_files(pid, proc)


def _accepting(pid: int, proc: str) -> set[str]:
    """The inodes of the sockets that accept clients in the network of a process, whoever has them."""
    listening = {inode for _local, _remote, state, inode in _sockets(pid, set(), proc) if state == LISTENING}
    return listening | {fields[6] for fields in unix_sockets(pid, proc) if fields[3] == ACCEPTS}


def _connections(pid: int, inodes: set[str], proc: str) -> tuple[list[Endpoint], int, set[Endpoint]]:
    """Where the connections go that a process made itself, how many clients it has, and where it accepts new ones by TCP."""
    sockets = list(_sockets(pid, inodes, proc))
    listening = {local for local, _remote, state, _inode in sockets if state == LISTENING}
    chosen = chosen_ports(proc) or PORTS
    to_servers: list[Endpoint] = []
    clients = 0
    for (address, port), remote, state, inode in sockets:
        if state in QUIET or inode not in inodes:
            continue
        # If somebody listens on this port, a client made the connection. The client may be on a server's machine.
        if listening & {(address, port), ("0.0.0.0", port), ("::", port)}:
            clients += 1
            continue
        to_servers.append(remote)
        # The new process may listen on other ports. But the kernel chooses the port of a connection that the process made itself.
        clients += port not in chosen
    # Clients that use QUIC. To name servers and for its log, the kernel chooses the port.
    clients += sum(local[1] not in chosen for local, _remote, _state, inode in _sockets(pid, inodes, proc, ("udp", "udp6")) if inode in inodes)
    # Of the sockets that a process has in the file system, only those that listen and those of their clients have a path.
    clients += sum(len(fields) > 7 and fields[5] == CONNECTED_UNIX and fields[6] in inodes for fields in unix_sockets(pid, proc))
    return to_servers, clients, _accepts(sockets, inodes)


def _listening_of(running: list[int], proc: str) -> set[Endpoint]:
    return {place for one in running for place in _listening(one, socket_inodes(one, proc) or set(), proc)}


def _listening(pid: int, inodes: set[str], proc: str) -> set[Endpoint]:
    return _accepts(_sockets(pid, set(), proc), inodes)


def _accepts(sockets: Iterable[tuple[Endpoint, Endpoint, str, str]], inodes: set[str]) -> set[Endpoint]:
    """Where a process with these inodes accepts clients by TCP."""
    return {local for local, _remote, state, inode in sockets if state == LISTENING and inode in inodes}


def _sockets(pid: int, inodes: set[str], proc: str, tables: tuple[str, ...] = ("tcp", "tcp6")) -> Iterator[tuple[Endpoint, Endpoint, str, str]]:
    """Sockets of the network of a process: local end, remote end, state and inode. Of all with these inodes, and of those that listen, whoever has them.

    A busy balancer has a hundred thousand others, most of them closed. If something changes while the kernel writes its table, a socket may be in it twice.
    """
    left = set(inodes)
    for table in tables:
        for fields in (line.split() for line in read(proc, pid, "net", table).splitlines()[1:]):
            if len(fields) > 9 and (fields[9] in left or fields[3] == LISTENING):
                left.discard(fields[9])
                yield decode_endpoint(fields[1]), decode_endpoint(fields[2]), fields[3], fields[9]
