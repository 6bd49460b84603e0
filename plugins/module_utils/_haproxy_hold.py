# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Holds on servers of HAProxy: the driver for the hold engine. It takes servers out of rotation and back, and says what became of a hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.graceful.azure.plugins.module_utils._conditions import ALREADY_OUT, AS_LEFT, CHANGED_MEANWHILE, DRAIN, LOST, MAINT, NONE, READY
from ansible_collections.graceful.azure.plugins.module_utils._haproxy import HaproxyRefused, check_names
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_configuration import (
    backends_cut_in_maint,
    backends_served_in_drain,
    backends_served_in_maint,
)
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_records import TOLD, HaproxyRecords, leads_to, record_process
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_servers import (
    C_MAINT,
    DISABLED,
    ENABLED,
    I_MAINT,
    R_MAINT,
    HaproxyError,
    HaproxyServer,
    same_process,
)
from ansible_collections.graceful.azure.plugins.module_utils._health_check import silent_places
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Driver
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import CHANGING, HELD, RESTORING, holders, is_noted, new_record
from ansible_collections.graceful.azure.plugins.module_utils._minimum import shortage, stays
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import HAPROXY_SERVER
from ansible_collections.graceful.azure.plugins.module_utils._spellings import too_low

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._haproxy import DryHaproxy, Haproxy
    from ansible_collections.graceful.azure.plugins.module_utils._haproxy_servers import HaproxyState, Key, Process
    from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Hold
    from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Events, Record, Request, Store
    from ansible_collections.graceful.azure.plugins.module_utils._spellings import Searched

# A command to HAProxy: its checks decide before the server comes back.
CHECK_FIRST = "check_first"

# In a record of a change from one state to another: the state before. A run may be cut off before the command.
LEFT_BEFORE = "left_before"
# In a record of a hold that is being released, or is held again after that began: HAProxy was told to check the server. If such a server is then
# in maintenance, somebody else has put it there.
CHECKING = "checking"
# In a record: the server goes to maint when its sessions are over, because they would be cut there.
AWAITS = "awaits_sessions"
# In a record: the server's total of sessions when it was out, including the requests that waited for the server.
TOTAL_SESSIONS = "total_sessions"
# In a record: how many of these were waiting requests.
QUEUED = "queued"
# How many processes a record names in which the server is out.
TOLD_LIMIT = 16
# In the part found of a record: the server's agent check was enabled. The hold disables it.
AGENT = "agent"


def condition_of(record: Record | None, server: HaproxyServer, process: Process) -> str:
    """The condition of a server: what became of the hold on it.

    none               it is in rotation, and there is no hold; also if it is out only because its name does not resolve, or with the server that it tracks
    already_out        it is out, but we did not take it out. If it has an agent check that is enabled, a hold disables that, and is held
    held               it is out, as we left it
    lost               it should be out and is in rotation, but no person has changed it: HAProxy is another process, or the
                       run that should have taken it out was cut off
    changed_meanwhile  it is not as we left it, although HAProxy is the same process: somebody else has changed it
    """
    if record is None:
        return NONE if server.forced == READY else ALREADY_OUT
    same = same_process(record_process(record), process)
    # In another process, `disabled` in the configuration has put it into maintenance, not our command.
    configured = not same and server.flags & C_MAINT and server.forced == MAINT
    # Until the change from one state to another is done, both states are ours.
    if server.forced in (record["left"]["admin_state"], record.get(LEFT_BEFORE)) and not configured:
        return AS_LEFT
    if server.forced == READY:
        if same and was_out(record) and not was_found_out(record):
            return CHANGED_MEANWHILE
        return NONE if record["phase"] == RESTORING else LOST
    return CHANGED_MEANWHILE if same else ALREADY_OUT


def was_out(record: Record) -> bool:
    """Whether we had taken the server out in the process of the record, and had not only begun to."""
    return record["phase"] == HELD or LEFT_BEFORE in record or CHECKING in record


def was_found_out(record: Record) -> bool:
    """Whether the server was out already. Then the hold only keeps its agent check from putting it back. Whoever had taken it out may put it back."""
    found: str = record["found"]["admin_state"]
    return found != READY


def no_server(path: str, server: str, option: str = "server", where: str = "No backend") -> str:
    return "%s of HAProxy on socket %s has a server %r (option %s)." % (where, path, server, option)


def silent_servers(seen: HaproxyState, backends: Collection[str], asked: dict[Key, str | None] | None = None) -> dict[Key, str]:
    """Why nothing accepts connections at servers of some backends that get requests and that nobody checks. For HAProxy such a server is up.

    One without a port of its own takes the client's, so it cannot be asked. The same is true for one on a Unix socket, whose path HAProxy does not tell.
    If no server of a backend accepts any, this proves nothing: they may take connections from an address or a network of HAProxy's alone.

    C(asked): what earlier calls have found, which are not asked again.
    """
    asked = {} if asked is None else asked
    unchecked = [server for server in seen.servers.values() if server.backend in backends and server.in_service and not seen.is_watched(server)]
    new = [server for server in unchecked if server.key not in asked]
    places = {server.key: (server.address, server.port) for server in new if server.address is not None and server.port is not None}
    found = silent_places(places.values())
    asked.update((key, found[place]) for key, place in places.items())
    silent = {key: why for key, why in ((server.key, asked.get(server.key)) for server in unchecked) if why}
    answering = {server.backend for key, server in seen.servers.items() if server.in_service and key not in silent}
    return {key: why for key, why in silent.items() if key[0] in answering}


def unsure_servers(seen: HaproxyState, backends: Collection[str]) -> dict[Key, str]:
    """Why servers of some backends that get requests do not count as in service: their last check has not passed."""
    return {
        key: "%s: its last check by HAProxy has not passed (%s)" % (server.name, server.checks)
        for key, server in seen.servers.items()
        if server.backend in backends and server.in_service and seen.is_unsure(server)
    }


class HoldStep(NamedTuple):
    """One step of one hold.

    A change of state takes two steps: the first writes the intent and makes the change, the next finds it done and writes that down.
    So a run that continues after another was cut off does the same as every run.
    """

    # The record to write; None deletes it.
    record: Record | None
    # The state to set; None: no change.
    set_state: str | None = None
    conflict: str | None = None
    waiting_for: str | None = None


# What a diff shows of a server that HAProxy does not have.
NO_VIEW: dict[str, Any] = {"admin_state": None, "weight": None}


class HaproxyServers(Driver[HaproxyServer]):
    """One server in its backends.

    ``places`` are addresses, each with a port or None. Servers of other names that lead to these addresses go out and come back together with
    the server. ``checked_later``: whether what its checks may need comes back only after it. ``host``: the inventory name of its host, if it is known.
    """

    Refused = HaproxyRefused

    def __init__(
        self,
        haproxy: Haproxy | DryHaproxy,
        store: Store,
        request: Request,
        server: str,
        backends: list[str] | None,
        out_state: str | None,
        min_in_service: int | str | None = None,
        places: Collection[Searched] = (),
        await_checks: bool = True,
        checked_later: bool = False,
        host: str | None = None,
    ) -> None:
        self._haproxy = haproxy
        self._store = store
        self._request = request
        self._server = server
        self._backends = backends
        self._out_state = out_state
        self._min_in_service = min_in_service
        self._places = places
        self._await_checks = await_checks
        self._checked_later = checked_later
        self._host = host
        self._targets: list[Key] | None = None
        self._sticky: set[str] | None = None
        self._cut: set[str] | None = None
        # The names of servers whose hold HAProxy had lost.
        self._put_right: set[str] = set()
        # The names of holds whose agent check HAProxy did not put back after it had refused the state. Only the record says what it was.
        self._not_put_back: set[str] = set()

    def check(self) -> None:
        check_names([self._server] + (self._backends or []))
        problem = too_low(self._haproxy.path, self._haproxy.level())
        if problem:
            raise HaproxyError("%s." % problem)
        seen = self._haproxy.look()
        self._find_targets(seen, self._records_of(seen))

    def look(self) -> list[tuple[str, HaproxyServer | None, Record | None]]:
        self._seen = self._haproxy.look()
        self.process = self._seen.process
        self._records = self._follow()
        self._records.discount_former()
        if self._targets is None:
            self._targets = self._find_targets(self._seen, self._records)
        if not self._request.present:
            self._release_doubles(self._targets)
        return [("%s/%s" % key, self._seen.servers.get(key), self._records.get(key)) for key in self._targets]

    def condition(self, record: Record | None, seen: HaproxyServer) -> str:
        return condition_of(record, seen, self.process)

    view_of_none = NO_VIEW

    def view(self, record: Record | None, seen: HaproxyServer) -> dict[str, Any]:
        return {"admin_state": seen.admin_state, "weight": seen.weight}

    def describe(self, hold: Hold[HaproxyServer]) -> dict[str, Any]:
        """What the module returns of a server."""
        if hold.there:
            result = describe(hold.there, hold.record, hold.condition, arrived(hold.record, hold.there, self.process))
        else:
            backend, _slash, name = hold.name.partition("/")
            result = dict(NO_FIGURES, backend=backend, server=name, arrived=None, condition=NONE, **_told(hold.record))
        shown = hold.shown
        result.update(found=shown["found"] if shown else None, left=shown["left"] if shown else None, put_right=hold.name in self._put_right)
        return result

    def shortages(self, holds: list[Hold[HaproxyServer]]) -> list[str]:
        """Sentences about the backends in which too few servers would stay in service.

        As in the plan, only backends that have the server by its own name count. In a backend that has it only by another name, waiting would not
        bring another server.
        """
        if self._min_in_service is None:
            return []
        found = []
        # A server that was removed since the last step does not leave any more.
        leaving = [hold.there for hold in holds if hold.there and hold.there.in_service and hold.condition != CHANGED_MEANWHILE]
        backends = {server.backend for server in leaving}
        silent = silent_servers(self._seen, backends)
        leaving = [server for server in leaving if server.key not in silent]
        # What was out before HAProxy lost its state does not wait for that: what runs there may be stopped already.
        silent.update(unsure_servers(self._seen, {hold.there.backend for hold in holds if hold.there and hold.condition != LOST}))
        for server in leaving:
            if (server.backend, self._server) not in self._seen.servers:
                continue
            backend = [
                {
                    "server": other.name,
                    "in_service": other.in_service and other.key not in silent,
                    "backup": other.backup,
                    "unresolved": other.unresolved,
                    "silent": silent.get(other.key),
                    "admin_state": other.admin_state,
                    "operational": other.operational,
                }
                for other in self._seen.servers.values()
                if other.backend == server.backend
            ]
            others = [other.name for other in leaving if other is not server and other.backend == server.backend]
            short = shortage(self._min_in_service, server.name, backend, server.backend, others)
            if short:
                found.append(stays(self._server, short))
        return list(dict.fromkeys(found))

    def put(self, hold: Hold[HaproxyServer], events: Events) -> Iterator[Record | None]:
        step = self._out(hold, events)
        # If somebody else has set the server's state, its agent check is left alone, too.
        ours = step.record is not None and step.conflict is None
        return self._take(hold, step, DISABLED if ours and hold.seen.agent == ENABLED else None)

    def conflict(self, hold: Hold[HaproxyServer]) -> str:
        server = hold.seen
        return "%s/%s was left in %s and is in %s now (%s): somebody else changed it, so it was not touched." % (
            server.backend,
            server.name,
            hold.noted["left"]["admin_state"],
            server.forced if server.forced != READY else server.admin_state,
            server.status,
        )

    def keep(self, hold: Hold[HaproxyServer], record: Record) -> Record:
        return self._not_told(record) if hold.there and self.condition(record, hold.there) == CHANGED_MEANWHILE else record

    def give_back(self, hold: Hold[HaproxyServer], record: Record) -> Iterator[Record | None]:
        server = hold.seen
        condition = self.condition(record, server)
        if condition == AS_LEFT and was_found_out(record):
            step = HoldStep(None)
        elif condition == AS_LEFT:
            step = _way_back(self._not_told(record), server, self._await_checks, self._checked_later)
        else:
            # If HAProxy lost our change and nobody else has changed it, there is nothing to tell.
            told = condition == CHANGED_MEANWHILE or server.forced != READY
            step = HoldStep(None, conflict=self.conflict(hold) if told else None)
        # While HAProxy's checks decide, the agent check stays disabled: an agent that says ready would come before them.
        checking = step.set_state == CHECK_FIRST or step.waiting_for
        agent = not checking and server.agent == DISABLED and record["found"].get(AGENT) == ENABLED
        return self._take(hold, step, ENABLED if agent else None)

    def gone(self, hold: Hold[HaproxyServer]) -> str | None:
        return "%s is no longer in HAProxy: the hold on it was dropped." % hold.name

    def stuck(self) -> Exception:
        return HaproxyError("HAProxy on socket %s took the command, but %s is not as it was told." % (self._haproxy.path, self._server))

    def _out(self, hold: Hold[HaproxyServer], events: Events) -> HoldStep:
        """The next step of a server that is to be out."""
        record, server = hold.record, hold.seen
        condition = self.condition(record, server)
        if condition == ALREADY_OUT:
            return HoldStep(self._intent(server, events, server.forced, None, found=server.forced) if server.returns_by_agent else None)
        if condition in (NONE, LOST):
            out_state = self._out_state or (MAINT if server.backend in self._sticky_backends() and not self._would_cut(server) else DRAIN)
            if record is None or condition == NONE:
                return HoldStep(self._intent(server, events, out_state, None), out_state)
            if was_out(record) and not was_found_out(record):
                self._put_right.add(hold.name)
            events = self._request.anew(events)
            intent = self._intent(server, events, out_state, record)
            if same_process(record_process(record), self.process) and AGENT in record["found"]:
                # A run that was cut off had already disabled the agent check.
                intent["found"][AGENT] = record["found"][AGENT]
            return HoldStep(intent, out_state)
        if record is None:
            raise AssertionError("the other conditions are those of a hold")
        kept = dict(record, events=events)
        if condition == CHANGED_MEANWHILE:
            kept = self._not_told(kept)
            if record["phase"] == RESTORING:
                # Its release had begun, but now it is held again. The phase must say so to the next call.
                kept = dict(_left(kept, record["left"]["admin_state"]), phase=HELD)
                if _is_being_checked(record):
                    kept[CHECKING] = True
            return HoldStep(kept, conflict=self.conflict(hold))
        if not same_process(record_process(record), self.process):
            kept.pop(TOTAL_SESSIONS, None)
        kept["process"] = _process(self.process)
        kept["found"] = _with_agent(kept["found"], server)
        # A server that still gets sessions in `drain` gets none in `maint`, whatever directive sends them, so it goes on to `maint`. The user can
        # forbid that with out_state. A change to `maint` that was cut off is completed. Where `maint` would end the sessions that it has, these come first.
        is_sent = server.forced == DRAIN and server.backend in self._sticky_backends() and bool(self._losers(server))
        onward = self._out_state == MAINT if self._out_state else is_sent or bool(arrived(kept, server, self.process))
        if server.forced == DRAIN and not was_found_out(kept) and (onward or LEFT_BEFORE in record or CHECKING in record):
            kept = dict(_left(self._not_told(kept), MAINT), phase=CHANGING, **{LEFT_BEFORE: DRAIN})
            if _is_being_checked(record):
                # A release may come before the change is done.
                kept[CHECKING] = True
            left = self._would_cut(server)
            if left and not self._out_state:
                told = "%s/%s stays in drain until its sessions are over (%d): on-marked-down shutdown-sessions would cut them in maint"
                return HoldStep(dict(kept, **{AWAITS: True}), waiting_for=told % (server.backend, server.name, left))
            return HoldStep(kept, MAINT)
        if record["phase"] != HELD or TOTAL_SESSIONS not in kept:
            kept[TOTAL_SESSIONS] = server.total_sessions + server.queue
            kept[QUEUED] = server.queue
        return HoldStep(self._told(dict(_left(kept, server.forced), phase=HELD), server))

    def _told(self, record: Record, server: HaproxyServer) -> Record:
        """The record with the process that answers among those in which the server is out, if its clients can send nothing there any more."""
        record = self._not_told(record)
        # What waits for the server is sent to it in the end.
        if self.process.identity is None or server.queue or arrived(record, server, self.process):
            return record
        if server.forced == DRAIN and server.backend in self._sticky_backends():
            return record
        served = backends_served_in_maint(self._seen.pids[0], self._seen.backends)
        if served is None or server.backend in served:
            return record
        return dict(record, **{TOLD: record.get(TOLD, [])[1 - TOLD_LIMIT :] + [self.process.identity]})

    def _not_told(self, record: Record) -> Record:
        """The record without the process that answers among those in which the server is out."""
        if TOLD not in record:
            return record
        told = [process for process in record[TOLD] if process != self.process.identity]
        return dict({key: value for key, value in record.items() if key != TOLD}, **({TOLD: told} if told else {}))

    def _intent(self, server: HaproxyServer, events: Events, out_state: str, forgotten: Record | None, found: str = READY) -> Record:
        left = {"admin_state": out_state, "weight": server.weight}
        more: dict[str, Any] = {}
        if server.address is not None:
            more["leads_to"] = leads_to(server)
        if server.name != self._server:
            more["for_server"] = self._server
        # When HAProxy starts, it may give the name to another machine. The hold was put for the machine before.
        if forgotten is not None:
            more.update((key, forgotten[key]) for key in ("leads_to", "for_server", TOLD) if key in forgotten)
        subject = self._records.subject(server.key)
        before = _with_agent(dict(left, admin_state=found), server)
        return new_record(HAPROXY_SERVER, subject, before, left, events, process=_process(self.process), **more)

    def _take(self, hold: Hold[HaproxyServer], step: HoldStep, agent: str | None) -> Iterator[Record | None]:
        """Write the record of a step and make its change. ``agent``: the state to which the server's agent check is set; None: no change."""
        record, server = hold.record, hold.seen
        hold.waiting_for = step.waiting_for
        hold.tell(step.conflict)
        if step.record is None:
            if agent is not None:
                hold.look_again = True
                self._haproxy.set_agent(server.backend, server.name, agent)
            yield None
            return
        yield step.record
        if step.set_state is None and agent is None:
            return
        hold.look_again = True
        hold.acted |= step.set_state is not None
        try:
            if agent is not None:
                self._haproxy.set_agent(server.backend, server.name, agent)
            if agent == DISABLED:
                self._haproxy.await_agent(server.backend, server.name)
            if step.set_state == CHECK_FIRST:
                self._haproxy.check_first(server.backend, server.name)
            elif step.set_state is not None:
                if step.set_state == READY and not server.checked and _is_being_checked(record):
                    # Somebody has disabled the checks meanwhile, so no check would bring it up again.
                    self._haproxy.set_healthy(server.backend, server.name)
                self._haproxy.set_state(server.backend, server.name, step.set_state)
        except HaproxyRefused:
            if agent is not None and server.agent is not None and step.set_state is not None:
                try:
                    self._haproxy.set_agent(server.backend, server.name, server.agent)
                except HaproxyRefused:
                    self._not_put_back.add(hold.name)
            raise

    def untouched(self, hold: Hold[HaproxyServer]) -> bool:
        return hold.name not in self._not_put_back

    def _sticky_backends(self) -> set[str]:
        """The backends in which a server in `drain` still gets requests."""
        if self._sticky is None:
            self._sticky = self._haproxy.sticky_backends(self._seen) | backends_served_in_drain(self._seen.pids, self._seen.backends)
        return self._sticky

    def _losers(self, server: HaproxyServer) -> list[HaproxyServer]:
        """Which servers lose their sessions when this one goes to `maint`: itself, and those that track it."""
        if self._cut is None:
            self._cut = backends_cut_in_maint(self._seen.pids, self._seen.backends)
        return [each for each in self._seen.going_with(server) if each.backend in self._cut] if self._cut else []

    def _would_cut(self, server: HaproxyServer) -> int:
        """How many sessions would be lost in `maint`."""
        return sum(each.sessions for each in self._losers(server))

    def _records_of(self, seen: HaproxyState) -> HaproxyRecords:
        return HaproxyRecords(self._store.records(HAPROXY_SERVER), self._haproxy.path, seen)

    def _follow(self) -> HaproxyRecords:
        """The records that belong to this HAProxy. If its socket has a new path, the records get the new path first."""
        records = self._records_of(self._seen)
        moved = list(records.moved())
        for record, subject in moved:
            self._store.write(dict(record, subject=subject))
            self._store.delete(record)
        return self._records_of(self._seen) if moved else records

    def _release_doubles(self, targets: list[Key]) -> None:
        """Release further records about the same servers. They contain nothing new, but they must not stay for ever."""
        for key in targets:
            for record in self._records.doubles(key):
                remaining = self._request.taken_from(record["events"])
                self._store.replace(record, dict(record, events=remaining) if remaining else None)

    def _find_targets(self, seen: HaproxyState, records: HaproxyRecords) -> list[Key]:
        """The pairs of backend and server to change. Each backend that the user named must have the server, or nothing is changed."""
        known = seen.backends_of(self._server)
        recorded = [backend for backend, name in records.keys() if name == self._server]
        wanted = list(self._backends if self._backends is not None else known)
        for backend in wanted:
            if backend in known or not self._request.present and backend in recorded:
                continue
            if backend not in seen.backends:
                there = ", ".join(sorted(seen.backends)) or "none"
                raise HaproxyError("HAProxy on socket %s has no backend %r (option backends). It has %s." % (self._haproxy.path, backend, there))
            raise HaproxyError("The backend %r of HAProxy on socket %s has no server %r (option server)." % (backend, self._haproxy.path, self._server))
        addresses = self._addresses(seen, records, wanted)
        if not self._request.present:
            wanted += [backend for backend in recorded if backend not in wanted and self._is_released(records.get((backend, self._server)), addresses)]
        also = self._also(seen, records, addresses)
        if not wanted and (self._request.present or not also):
            raise HaproxyError(no_server(self._haproxy.path, self._server))
        return [(backend, self._server) for backend in wanted] + also

    def _also(self, seen: HaproxyState, records: HaproxyRecords, addresses: set[str | None]) -> list[Key]:
        """Servers of other names that lead to the given addresses, or that are held for this server."""
        if self._request.present:
            found = [key for key, server in seen.servers.items() if server.leads(self._places) and (self._backends is None or key[0] in self._backends)]
        else:
            held = [key for key in records.keys() if (records.get(key) or {}).get("for_server") == self._server]
            found = [key for key in held if self._is_released(records.get(key), addresses)]
        return [key for key in found if key[1] != self._server]

    def _addresses(self, seen: HaproxyState, records: HaproxyRecords, backends: list[str]) -> set[str | None]:
        """The addresses to which the server leads in these backends, and led when it was taken out."""
        keys = [(backend, self._server) for backend in backends]
        now = {seen.servers[key].address for key in keys if key in seen.servers}
        return (now | {_led(records.get(key)) for key in keys}) - {None}

    def _is_released(self, record: Record | None, addresses: set[str | None]) -> bool:
        """Whether a record is released: its backend is named, or was named when the hold was put.

        The list of backends may have become shorter since. The events say what is to be released. But in another backend, another machine may have
        the name, so it must have led to the same address, or the record must name the host.
        """
        if record is None:
            return False
        if self._backends is None or record["subject"]["backend"] in self._backends:
            return True
        kept = self._request.taken_from(record["events"])
        released = [entry for key, entry in record["events"].items() if key not in kept] if self._request.event_ids else []
        hosts = {entry["details"].get("host") for entry in released}
        return bool(released) and (_led(record) in addresses or self._host is not None and self._host in hosts)


class AbsentServers(Driver[HaproxyServer]):
    """The records of one server on a machine on which no HAProxy runs. They are only deleted, whatever socket they name."""

    view_of_none = NO_VIEW

    def __init__(self, store: Store, server: str, backends: list[str] | None) -> None:
        self._store = store
        self._server = server
        self._backends = backends

    def look(self) -> list[tuple[str, HaproxyServer | None, Record | None]]:
        found: dict[str, Record] = {}
        for record in self._store.records(HAPROXY_SERVER):
            subject = record["subject"]
            if self._server not in (subject["server"], record.get("for_server")) or self._backends and subject["backend"] not in self._backends:
                continue
            place = "%s/%s" % (subject["backend"], subject["server"])
            # Two HAProxies may have had a server of this name.
            found[place if place not in found else record["path"]] = record
        return [(place, None, record) for place, record in found.items()]


def _led(record: Record | None) -> str | None:
    """The address to which a server led when it was taken out; None if it led nowhere."""
    led: str | None = ((record or {}).get("leads_to") or {}).get("address")
    return led


def _way_back(record: Record, server: HaproxyServer, await_checks: bool, checked_later: bool = False) -> HoldStep:
    """The next step of a server that nobody holds any more.

    HAProxy does not check a server in maintenance. So such a server goes to `drain` first and stays there until its checks have passed. A server
    in `drain` is checked all the time, so HAProxy knows its health. It waits only while its checks have begun to fail but HAProxy still counts it
    as up. Soon a check passes, or it is down and gets no request.

    If the server stays in maintenance for another reason, it is not checked and gets no traffic, so there is nothing to wait for.

    Without ``await_checks`` the server is given back at once, and is down until HAProxy's checks pass. This also holds for `drain`, because
    HAProxy may not have noticed yet that the machine is gone.

    With ``checked_later``, a server that comes from maintenance is given back as soon as HAProxy checks it. Otherwise both would wait for one another.
    """
    checking = _is_being_checked(record)
    record = dict(record, phase=RESTORING)
    if server.checked and server.forced == MAINT and not server.flags & (I_MAINT | R_MAINT):
        return HoldStep(dict(_left(record, DRAIN), **{LEFT_BEFORE: MAINT}), CHECK_FIRST)
    watched = server.checked and server.forced == DRAIN and server.admin_state != MAINT
    if watched and server.is_up and not await_checks:
        return HoldStep(_left(record, DRAIN), CHECK_FIRST)
    if watched and await_checks and (server.is_up or checking and not checked_later) and not server.passed:
        if checking:
            # HAProxy took the command. A server that is in maintenance from now on was put there by somebody else.
            record = dict(_left(record, DRAIN), **{CHECKING: True})
        waiting = "%s/%s waits in drain until HAProxy's health check passes (%s)" % (server.backend, server.name, server.checks)
        return HoldStep(record, waiting_for=waiting)
    return HoldStep(_left(record, server.forced), record["found"]["admin_state"])


def _is_being_checked(record: Record | None) -> bool:
    """Whether the server of a record is in `drain` on its way back, so that HAProxy's checks decide."""
    return record is not None and (CHECKING in record or record["phase"] == RESTORING and record.get(LEFT_BEFORE) == MAINT)


def _with_agent(found: dict[str, Any], server: HaproxyServer) -> dict[str, Any]:
    """What was found, and that the agent check was enabled where it is: the hold is about to disable it."""
    return dict(found, **{AGENT: ENABLED}) if server.agent == ENABLED else found


def arrived(record: Record | None, server: HaproxyServer, process: Process) -> int | None:
    """How many sessions came since the hold was in place; None where that cannot be told."""
    if record is None or TOTAL_SESSIONS not in record or not same_process(record_process(record), process):
        return None
    # A person may have cleared HAProxy's counters.
    cleared = server.total_sessions < record[TOTAL_SESSIONS] - record.get(QUEUED, 0)
    before = 0 if cleared else record[TOTAL_SESSIONS]
    return max(0, server.total_sessions - before)


def _left(record: Record, state: str) -> Record:
    """The record with this state as the only one that is ours."""
    left = dict(record, left=dict(record["left"], admin_state=state))
    left.pop(LEFT_BEFORE, None)
    left.pop(CHECKING, None)
    left.pop(AWAITS, None)
    return left


def _process(process: Process) -> dict[str, Any]:
    return {"pid": process.pid, "started": process.started, "identity": process.identity}


def describe(server: HaproxyServer, record: Record | None, condition: str, came: int | None = None) -> dict[str, Any]:
    """What the modules return of a server."""
    figures = {figure: getattr(server, figure) for figure in NO_FIGURES}
    return dict(figures, backend=server.backend, server=server.name, arrived=came, condition=condition, **_told(record))


# What is told of a server that HAProxy no longer has.
NO_FIGURES: dict[str, Any] = {
    "admin_state": None,
    "status": None,
    "weight": None,
    "sessions": 0,
    "queue": 0,
    "uncounted": None,
    "total_sessions": 0,
    "agent": None,
}


def _told(record: Record | None) -> dict[str, Any]:
    """What is told of a record, if there is one."""
    told = {key: record.get(key) if record else None for key in ("found", "left", "leads_to", "for_server")}
    return dict(told, held_by=holders(record), noted=is_noted(record))
