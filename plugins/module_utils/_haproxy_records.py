# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which records of holds belong to the HAProxy that answers.

A record names the socket through which the hold was put and the process that answered there. One process may have
several sockets, and the path of a socket may change. So the process decides:

1. A record of the process that answers belongs to it, whichever socket was used.
2. A record of another process belongs to the HAProxy that answers on the record's socket: it was reloaded or restarted.
   The exception is a record whose process still runs as another HAProxy, which must have another socket by now.
3. Where nobody answers on the record's socket and its process is gone, the socket has got another path. The record
   belongs to the HAProxy that answers if the server there leads to the address and port to which it led when the hold was
   put. A record that does not say where that was belongs to nobody.

A record that belongs to nobody here is shown and not touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._haproxy import who_answers
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_former_processes import former_processes
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_servers import Process, same_process
from ansible_collections.graceful.azure.plugins.module_utils._proc import identity, program, read, started_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._haproxy import Answering
    from ansible_collections.graceful.azure.plugins.module_utils._haproxy_servers import HaproxyServer, HaproxyState, Key
    from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Record


# In a record: the processes in which the server is out and gets nothing from their clients, by their identities.
TOLD = "told"

# By how many seconds the kernel and HAProxy may differ about when a process started.
STARTED_SECONDS = 3.0


class HaproxyRecords:
    """The records of holds on servers of HAProxy: ``ours`` belong to the HAProxy that was read, ``others`` do not."""

    def __init__(self, records: list[Record], path: str, seen: HaproxyState) -> None:
        self._path = path
        self._seen = seen
        # Who answers on the sockets of records, by their paths.
        self._asked: dict[str, Answering] = {}
        self.ours: list[Record] = []
        self.others: list[Record] = []
        ranked: list[tuple[int, Record]] = []
        for record in records:
            rank = self._rank(record)
            if rank is None:
                self.others.append(record)
            else:
                ranked.append((rank, record))
        self._by_key: dict[Key, list[tuple[int, Record]]] = {}
        # A record that names this very process comes before one that was only found to belong to it.
        for rank, record in sorted(ranked, key=lambda item: item[0]):
            self.ours.append(record)
            self._by_key.setdefault(key_of(record), []).append((rank, record))

    def discount_former(self) -> None:
        """Clients of a former process do not count for a server that was out in it."""
        for key in self.keys():
            self._seen.discount(key, (self.get(key) or {}).get(TOLD, ()))

    def keys(self) -> list[Key]:
        return list(self._by_key)

    def get(self, key: Key) -> Record | None:
        """The record of a hold on this (backend, server), or None."""
        return self._by_key[key][0][1] if key in self._by_key else None

    def doubles(self, key: Key) -> list[Record]:
        """Further records about the same server. A run that was cut off may leave them."""
        return [record for dummy, record in self._by_key.get(key, [])[1:]]

    def moved(self) -> Iterator[tuple[Record, dict[str, Any]]]:
        """Records whose socket has got another path, each with the subject that it should have now."""
        for key, found in self._by_key.items():
            rank, record = found[0]
            if rank == MOVED:
                yield record, self._own_subject(key)

    def subject(self, key: Key) -> dict[str, Any]:
        """The subject of a record about this server."""
        record = self.get(key)
        return record["subject"] if record else self._own_subject(key)

    def _own_subject(self, key: Key) -> dict[str, Any]:
        subject = subject_of(self._path, key[0], key[1])
        # Where another HAProxy had this path before and holds a server of the same name.
        if any(record["subject"] == subject for record in self.others):
            subject["pid"] = self._seen.process.pid
        return subject

    def _rank(self, record: Record) -> int | None:
        process = record_process(record)
        if same_process(process, self._seen.process):
            return OWN
        socket = record["subject"]["socket"]
        if socket == self._path:
            return None if self._runs_elsewhere(process) else ANSWERS
        if socket not in self._asked:
            self._asked[socket] = who_answers(socket)
        answers = self._asked[socket]
        if answers:
            return ANSWERS if self._is_this_haproxy(answers) and not self._runs_elsewhere(process) else None
        server = self._seen.servers.get(key_of(record))
        if answers is False or server is None or self._runs_elsewhere(process):
            return None
        return MOVED if server.address is not None and record.get("leads_to") == leads_to(server) else None

    def _is_this_haproxy(self, process: Process) -> bool:
        """Whether it is the process that was read, or a former process of it that is about to end."""
        ours = self._seen.process
        if process.pid == ours.pid:
            return same_process(process, ours)
        return process.pid in former_processes([ours.pid])

    def _runs_elsewhere(self, process: Process) -> bool:
        """Whether a process is a HAProxy that runs, and is no former process of the one that was read."""
        pid, ours = process.seen_as, self._seen.process.seen_as
        if pid == ours:
            return False
        if process.identity:
            runs = identity(pid) == process.identity
        else:
            # The HAProxy could not be found among the processes, or a former release wrote the record.
            started = started_at(pid)
            runs = started is not None and abs(started - process.started) <= STARTED_SECONDS
        if not runs or program(pid) != program(ours) or pid in former_processes([ours]):
            return False
        # If the process has just ended, it has no command line, so it cannot be recognised.
        return bool(read("/proc", pid, "cmdline"))


OWN, ANSWERS, MOVED = range(3)


def subject_of(path: str, backend: str, server: str) -> dict[str, Any]:
    return {"socket": path, "backend": backend, "server": server}


def record_process(record: Record) -> Process:
    process = record["process"]
    return Process(process["pid"], process["started"], False, process.get("identity"))


def key_of(record: Record) -> Key:
    return record["subject"]["backend"], record["subject"]["server"]


def leads_to(server: HaproxyServer) -> dict[str, Any]:
    """The address and port of a server, as records keep them."""
    return {"address": server.address, "port": server.port}
