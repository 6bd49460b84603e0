# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host as a server of HAProxy, on the machine on which HAProxy runs."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._balancer_machine import awaited_in, look_spec, machine_facts, other_holds
from ansible_collections.graceful.azure.plugins.module_utils._conditions import ALREADY_OUT, CHANGED_MEANWHILE, LOST, READY
from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.haproxy import (
    OPTIONS,
    haproxy_passes,
    haproxy_server,
    haproxy_went,
    is_in_rotation,
    is_meant,
    is_named,
    meant_passes,
    pass_of,
)
from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import OUT, Call, Duty, holding, least_of, outcome, state_of
from ansible_collections.graceful.azure.plugins.module_utils._duties.options import LOOKS
from ansible_collections.graceful.azure.plugins.module_utils._haproxy import DryHaproxy, Haproxy, NotThere, socket_path
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_absent import runs_no_haproxy
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_beside import passes, with_own_connections
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_configuration import is_never_served
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_hold import (
    AWAITS,
    AbsentServers,
    HaproxyServers,
    arrived,
    condition_of,
    describe,
    no_server,
    silent_servers,
    unsure_servers,
)
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_records import HaproxyRecords, record_process
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_servers import HaproxyError, same_process, source_address
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Engine
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import HELD, RESTORING, hold_argument_spec, holders
from ansible_collections.graceful.azure.plugins.module_utils._polling import Since, check_seconds, pause_after
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import HAPROXY_SERVER
from ansible_collections.graceful.azure.plugins.module_utils._spellings import (
    MOST_NAMED,
    address_text,
    is_left_out,
    is_same_host,
    leads_back,
    may_be_its,
    may_lead,
    parse_places,
    plural,
    too_low,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import Act
    from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
    from ansible_collections.graceful.azure.plugins.module_utils._haproxy_servers import HaproxyServer, HaproxyState, Key
    from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Record, Request, Store
    from ansible_collections.graceful.azure.plugins.module_utils._spellings import Searched


# HAProxy tries a connection that failed again after a second at the most, at the same server, even if that is out by then. Until then it shows no session.
RETRY_SECONDS = 1.2


class HaproxyDuty(Duty):
    type = "haproxy"
    traffic = True
    of_balancer = True
    driver_errors = (HaproxyError,)
    options = OPTIONS

    def __init__(self, name: str, options: dict[str, Any], machine: Machine) -> None:
        super().__init__(name, options, machine)
        self._server: str = options["server"]
        self._backends: list[str] = options["backends"] or []
        # What the last look of this call has seen: for each server that is out, and what may lead to the host past it, the process and its sessions.
        self._before: dict[Key, tuple[Any, int]] = {}

    def look(self) -> dict[str, Any]:
        haproxy, store = _haproxy(self.given), self.machine.store()
        try:
            details = HaproxyWatch(observe(haproxy, store, [self._server], parse_places(self.searched)), self.machine).seen
            details = dict(with_own_connections(details, self.searched, haproxy), clock=self.machine.monotonic())
        except NotThere:
            if not may_be_absent(self.given):
                raise
            details = dict(observe_absent(store), clock=self.machine.monotonic())
            return self.seen(OUT, False, held_by=[event_id for record in self._mine(details["holds"]) for event_id in holders(record)], details=details)
        servers = [server for server in details["servers"] if is_named(self.given, server) or server["for_server"] == self._server]
        there = {server["backend"] for server in servers if server["server"] == self._server}
        if not there:
            return self.unseen(self._not_there(haproxy.path, self._backends))
        lacking = [backend for backend in self._backends if backend not in there]
        ready = [server for server in servers if is_in_rotation(server)]
        past = meant_passes(self.given, details["passes"])
        alike = self._alike(details["servers"], servers)
        return self.seen(
            state_of(servers, ready),
            any(server["in_service"] for server in servers),
            busy=[*self._busy(servers), *self._also(alike), *self._came(details, servers, past), *self._past(past, servers)],
            held_by=[event_id for server in servers for event_id in server["held_by"]],
            why=[sentence for server in servers for sentence in _others(server)],
            problem=too_low(haproxy.path, details["level"]) or details["state_dir_problem"] or (self._not_there(haproxy.path, lacking) if lacking else None),
            doubts=[*self._unknown(past), *self._stays(alike)],
            details=details,
        )

    def change(self, act: Act) -> dict[str, Any]:
        params = {
            "server": self._server,
            "backends": self._backends or None,
            "addresses": act.addresses or [],
            "out_state": self.given["state"],
            "min_in_service": act.min_in_service,
            "await_checks": act.await_checks,
            "checked_later": act.checked_later,
            **{name: self.given[name] for name in ("socket", "absent", "hard_stop_after")},
        }
        engine, process = _change(params, self.machine, act.request, act.timeout)
        servers = [engine.driver.describe(hold) for hold in engine.current] if process and act.request.present else []
        return outcome(engine, still=self._busy(filter(is_in_rotation, servers)))

    def _mine(self, records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        return [record for record in records if self._server in (record["subject"]["server"], record.get("for_server"))]

    def _not_there(self, path: str, backends: Collection[str]) -> str:
        return no_server(path, self._server, where="None of the backends %s" % ", ".join(backends) if backends else "No backend")

    @staticmethod
    def _busy(servers: Iterable[dict[str, Any]]) -> list[str]:
        return [sentence for server in servers for sentence in haproxy_server(label_of(server), server)]

    @staticmethod
    def _alike(found: Iterable[dict[str, Any]], servers: Collection[dict[str, Any]]) -> list[tuple[dict[str, Any], bool]]:
        """What is in rotation beside the host's own servers and leads to an address of theirs, and whether to the same port. In a run, it goes out with them.

        Every machine has the loopback addresses, so only the port tells there.
        """
        own = {(server["address"], server["port"]) for server in servers if server["address"]}
        hosts = {address for address, _port in own if not leads_back(address)}
        others = [server for server in found if server not in servers and is_in_rotation(server)]
        told = [(server, (server["address"], server["port"]) in own) for server in others]
        return [(server, is_same) for server, is_same in told if is_same or server["address"] in hosts]

    def _also(self, alike: Iterable[tuple[dict[str, Any], bool]]) -> Iterator[str]:
        """Those at the same port in the backends that are meant, in sentences. The host serves there."""
        for server, is_same in alike:
            if is_same and is_meant(self.given, server["backend"]):
                yield from haproxy_server(label_of(server), server, address_text(server["address"], server["port"]))

    def _stays(self, alike: Iterable[tuple[dict[str, Any], bool]]) -> Iterator[str]:
        """Those that the option backends leaves out, and those at another port, in sentences."""
        for server, is_same in alike:
            told = label_of(server), address_text(server["address"], server["port"]), self._server
            if is_same != is_meant(self.given, server["backend"]):
                yield is_left_out(*told, "backends", "backend") if is_same else may_be_its(*told, self.type)

    def _past(self, found: Iterable[dict[str, Any]], servers: Iterable[dict[str, Any]]) -> Iterator[str]:
        """What sends requests to the host without a server, in sentences."""
        own = {(server["address"], server["port"]) for server in servers}
        for line in found:
            if any(is_same_host((at["address"], at["port"]), own) for at in line["leads_to"]):
                yield haproxy_passes(pass_of(line))

    def _unknown(self, found: Iterable[dict[str, Any]]) -> Iterator[str]:
        """What may lead to the host past its servers, in sentences."""
        for line in found:
            if line["unresolved"]:
                yield may_lead(pass_of(line), line["unresolved"])

    def _came(self, details: dict[str, Any], servers: Iterable[dict[str, Any]], found: Iterable[dict[str, Any]]) -> list[str]:
        """What came since the last look of this call to servers that are out, or may have come past them, in sentences."""
        out = {key_of(server): server["total_sessions"] for server in servers if not is_in_rotation(server)}
        past = {way_of(line): line["total"] for line in found if line["unresolved"] and "total" in line}
        now = {key: (details["process"], total) for key, total in [*out.items(), *past.items()]}
        before, self._before = self._before, now
        rises = [(key, total - before[key][1]) for key, (there, total) in now.items() if key in before and before[key][0] == there]
        return [
            "%s came to %s although it is out" % (plural(rise, "session"), "/".join(key))
            if key in out
            else haproxy_went(rise, "%s in %s" % (key[1], key[0]), "the last look")
            for key, rise in rises
            if rise > 0
        ]


def _haproxy(params: Mapping[str, Any]) -> Haproxy:
    """The HAProxy that the options name."""
    return Haproxy(socket_path(params["socket"]), params["hard_stop_after"])


def may_be_absent(params: Mapping[str, Any]) -> bool:
    """Whether no HAProxy runs, and the options say that then no traffic comes."""
    return bool(params["absent"] == "no_traffic") and runs_no_haproxy()


def label_of(server: dict[str, Any]) -> str:
    return "%s/%s" % key_of(server)


def key_of(server: dict[str, Any]) -> Key:
    return server["backend"], server["server"]


def way_of(line: dict[str, Any]) -> Key:
    """What tells apart what sends requests past the servers."""
    return line["backend"], line["text"]


def _others(server: dict[str, Any]) -> Iterator[str]:
    """What was not our doing, in sentences."""
    place, condition = label_of(server), server["condition"]
    if condition == CHANGED_MEANWHILE:
        yield "somebody else set %s to %s; the hold had left it in %s" % (place, server["admin_state"], server["left"]["admin_state"])
    elif condition == ALREADY_OUT:
        yield "somebody else has %s in %s" % (place, server["admin_state"])
    elif condition == LOST:
        yield "%s is in rotation again since HAProxy was started or reloaded, or because a run was cut off" % place


def observe(haproxy: Haproxy, store: Store, names: list[str], places: Iterable[Searched] = (), asked: dict[Key, str | None] | None = None) -> dict[str, Any]:
    """One look at HAProxy: its servers with their connections, and its records. ``names``: of the servers whose backends are told."""

    def look() -> tuple[tuple[HaproxyState, HaproxyRecords], object]:
        seen = haproxy.look()
        records = HaproxyRecords(store.records(HAPROXY_SERVER), haproxy.path, seen)
        records.discount_former()
        return (seen, records), records.ours

    seen, records = store.looked_at(look)
    holds = records.ours
    sticky = haproxy.sticky_backends(seen)
    missing = [name for name in names if not seen.backends_of(name)]
    # The addresses to which the names led when they were taken out, and the addresses that the task gives.
    led_to: set[Any] = set(places)
    for record in holds:
        led = record.get("leads_to")
        if isinstance(led, dict) and (record.get("for_server") or record["subject"]["server"]) in names:
            led_to.add((led.get("address"), led.get("port") or 0))
    # What leads to the same machine under another name is told, too: it may have requests there. Every machine has the loopback addresses.
    own = [server for server in seen.servers.values() if server.name in names and server.address is not None]
    led_to.update((server.address, (server.port or 0) if leads_back(str(server.address)) else None) for server in own)
    concerned = {server.backend for server in seen.servers.values() if server.name in names or server.leads(led_to)}
    backends = [backend for backend in seen.backends_with_servers if backend in concerned]
    silent, unsure = silent_servers(seen, backends, asked), unsure_servers(seen, backends)
    closed = functools.lru_cache(maxsize=None)(is_never_served)
    servers = [
        dict(
            _observed(records.get(key), server, seen, closed),
            in_service=server.in_service and key not in silent,
            silent=silent.get(key),
            unsure=unsure.get(key),
        )
        for key, server in seen.servers.items()
        if server.backend in backends
    ]
    return {
        "process": {"pid": seen.process.pid, "started": seen.process.started},
        "level": haproxy.level(),
        "hidden": seen.hidden,
        "passes": passes(seen),
        "backends": [{"backend": backend, "sticky": backend in sticky} for backend in backends],
        "servers": servers,
        "missing": missing,
        # For a message that says which there are. Nobody reads more.
        "known_servers": sorted("%s/%s" % key for key in seen.servers)[:MOST_NAMED] if missing else [],
        "known_backends": sorted(seen.backends) if len(seen.backends) <= MOST_NAMED else [],
        "holds": holds,
        "other_holds": records.others,
        **machine_facts(store.state_dir),
        "absent": False,
    }


def _observed(held: Record | None, server: HaproxyServer, seen: HaproxyState, closed: Callable[[int, str], bool]) -> dict[str, Any]:
    """What a look tells of a server, but for whether it serves. C(closed): whether a process lets nothing through to a server in such a state."""
    came = arrived(held, server, seen.process)
    # Nobody can tell their connections from those of this one, so they keep the host busy, also in a backend that the settings leave out.
    shared = [] if server.in_rotation else [["%s/%s" % other.key, other.sessions + other.queue] for other in seen.busy_beside(server)]
    is_out = held is not None and held["phase"] == HELD and server.forced != READY and came == 0 and len(seen.pids) == 1
    return dict(
        describe(server, held, condition_of(held, server, seen.process), came),
        quiet_for=0.0,
        nothing_comes=is_out and closed(seen.pids[0], server.forced),
        retries=server.retries,
        address=server.address,
        port=server.port,
        source_address=source_address(server.address, server.port),
        connections=server.connections,
        shared=shared,
        operational=server.operational,
        backup=server.backup,
        unresolved=server.unresolved,
        returns_by_itself=server.returns_by_itself,
        returns_by_agent=server.returns_by_agent,
        idle=server.settled and not shared,
        checked=seen.is_watched(server),
        process_noted=held is None or same_process(record_process(held), seen.process),
        restoring=held is not None and held["phase"] == RESTORING,
        awaits_sessions=held is not None and AWAITS in held and server.sessions > 0,
    )


def observe_absent(store: Store) -> dict[str, Any]:
    """The result for a machine on which no HAProxy runs."""
    return {
        "process": None,
        "level": None,
        "hidden": None,
        "backends": [],
        "servers": [],
        "passes": [],
        "beside": {},
        "missing": [],
        "known_servers": [],
        "known_backends": [],
        # No HAProxy runs, so none of the records belongs to another one.
        "holds": store.records(HAPROXY_SERVER),
        "other_holds": [],
        **machine_facts(store.state_dir),
        "absent": True,
    }


def hold_spec() -> dict[str, Any]:
    """The options of C(hold)."""
    return dict(
        hold_argument_spec(),
        **HaproxyDuty.spec("socket", "backends", "absent", "hard_stop_after"),
        server={"type": "str", "required": True},
        addresses={"type": "list", "elements": "str", "default": []},
        out_state=HaproxyDuty.options["state"],
        min_in_service={"type": "str"},
        timeout={"type": "float", "default": 120},
        await_checks={"type": "bool", "default": True},
        checked_later={"type": "bool", "default": False},
        host={"type": "str"},
    )


def hold(params: Mapping[str, Any], machine: Machine, request: Request) -> dict[str, Any]:
    """Put or release the hold on a server. C(timeout): seconds to wait until HAProxy's own checks pass. C(checked_later): as for C(HaproxyServers)."""
    check_seconds("timeout", params["timeout"])
    if params["backends"] is not None and not params["backends"]:
        raise ValueError("backends is an empty list: name at least one backend, or leave the option out for all.")
    engine, process = _change(params, machine, request, params["timeout"])
    servers = [engine.driver.describe(hold) for hold in engine.current] if process else []
    told = {"servers": servers, "process": process, "absent": process is None, "refused": engine.refused, "waiting_for": engine.waiting_for}
    return dict(outcome(engine), **told)


def _change(params: Mapping[str, Any], machine: Machine, request: Request, timeout: float) -> tuple[Engine[Any], dict[str, Any] | None]:
    """Returns also the process of HAProxy, or None if none runs on this machine."""
    least, await_checks, store = least_of(params), params["await_checks"], machine.store()
    haproxy = _haproxy(params)
    servers = HaproxyServers(
        DryHaproxy(haproxy, waits=bool(timeout) and await_checks) if machine.check_mode else haproxy,
        store,
        request,
        params["server"],
        params["backends"],
        params["out_state"],
        least,
        parse_places(params["addresses"]),
        await_checks,
        bool(params.get("checked_later")),
        params.get("host"),
    )
    engine: Engine[Any] = Engine(servers, store, request, machine.monotonic, machine.sleep)
    try:
        engine.run(0.0 if machine.check_mode else timeout)
    except NotThere:
        if not may_be_absent(params):
            raise
        if not request.present:
            # What the events hold in backends that are no longer named is released, too.
            engine.driver = AbsentServers(store, params["server"], None if request.event_ids else params["backends"])
            engine.run()
        return engine, None
    return engine, {"pid": servers.process.pid, "started": servers.process.started}


def info_spec() -> dict[str, Any]:
    """The options of C(info)."""
    return dict(look_spec(), **HaproxyDuty.spec("socket", "absent", "hard_stop_after"))


def info(params: Mapping[str, Any], machine: Machine) -> dict[str, Any]:
    """A look at the servers of several hosts, which may wait until some of them are idle in two looks in a row."""
    timeout, quiet = check_seconds("timeout", params["timeout"]), check_seconds("quiet", params["quiet"])
    haproxy = _haproxy(params)
    store = machine.store()
    names, awaited = params["servers"], awaited_in(params)
    deadline = machine.monotonic() + timeout
    places = parse_places(params["addresses"])
    # A server that nobody checks is asked in the first look only.
    asked: dict[Any, Any] = {}
    began = machine.monotonic()
    try:
        watch = HaproxyWatch(observe(haproxy, store, names, places, asked), machine)
    except NotThere:
        if not may_be_absent(params):
            raise
        return dict(observe_absent(store), clock=machine.monotonic(), idle=True)
    there = {server["server"] for server in watch.seen["servers"]}
    missing = [name for name in awaited if name not in there]
    if missing and (params["wait_for"] is not None or timeout and not machine.check_mode):
        raise HaproxyError(no_server(haproxy.path, missing[0], "servers" if params["wait_for"] is None else "wait_for"))
    if not timeout or machine.check_mode:
        idle = not missing and is_idle(watch.seen["servers"], awaited)
        return dict(with_own_connections(watch.seen, params["addresses"], haproxy), clock=watch.at, idle=idle)
    took = watch.at - began
    proven: set[Key] = set()
    while not is_idle(watch.seen["servers"], awaited, proven):
        if not machine.rest(deadline, pause_after(took), watch.quiet_in(watch.idle_in(1), quiet)):
            break
        began = machine.monotonic()
        watch.saw(observe(haproxy, store, names, places, asked))
        took = watch.at - began
        closed = {key_of(server) for server in watch.seen["servers"] if server["nothing_comes"]}
        proven = {key for key in watch.idle_in(LOOKS) if key in closed or watch.quiet_for(key) >= quiet}
    for server in watch.seen["servers"]:
        key = key_of(server)
        server["idle"] = key in proven
        server["quiet_for"] = round(watch.quiet_for(key), 3)
    for line in watch.seen["passes"]:
        line["quiet_for"] = round(watch.quiet_for(way_of(line)), 3)
    found = with_own_connections(watch.seen, params["addresses"], haproxy)
    return dict(found, clock=watch.at, idle=is_idle(watch.seen["servers"], awaited, proven))


class HaproxyWatch(Since):
    """The last of several looks, and since when each server, and what leads past the servers, has had no new session."""

    def __init__(self, seen: dict[str, Any], machine: Machine) -> None:
        super().__init__(machine.monotonic)
        self.saw(seen)

    def saw(self, seen: dict[str, Any]) -> None:
        self.seen = seen
        self.look()
        self.note_idle({key_of(server) for server in seen["servers"] if server["idle"]})
        process = seen["process"]["pid"], seen["process"]["started"]
        # If a server in rotation gets no session by chance, that says nothing about the time when it is out.
        states: dict[Key, Any] = {key_of(server): (process, not is_in_rotation(server), server["total_sessions"]) for server in seen["servers"]}
        states.update({way_of(line): (process, line.get("total")) for line in seen["passes"]})
        for key, state in states.items():
            self.note(key, state)
        for server in seen["servers"]:
            server["nothing_comes"] = server["nothing_comes"] and self._nothing_is_tried_again(process, server)

    def _nothing_is_tried_again(self, process: tuple[int, int], server: dict[str, Any]) -> bool:
        """Whether no connection to a server has failed so lately that HAProxy may try it again."""
        since = self.note(("retries", server["backend"], server["server"]), (process, server["retries"]))
        return not server["retries"] or self.at - since >= RETRY_SECONDS

    def quiet_in(self, keys: Iterable[Key], quiet: float) -> float:
        """Seconds until the next of these servers has been without a new session for so long; infinite if none is about to be."""
        left = [quiet - self.quiet_for(key) for key in keys]
        return min([seconds for seconds in left if seconds > 0], default=math.inf)


def is_idle(servers: Iterable[dict[str, Any]], awaited: Collection[str], proven: Collection[Key] | None = None) -> bool:
    """Whether all servers that are waited for are idle. C(proven): those that were so in C(LOOKS) looks in a row; None where one look is enough."""
    return all(server["idle"] if proven is None else key_of(server) in proven for server in servers if server["server"] in awaited)


DUTIES: dict[str, type[Duty]] = {"haproxy": HaproxyDuty}
CALLS: dict[str, Callable[[], Call]] = {
    "haproxy_hold": lambda: holding(hold_spec(), hold, HaproxyDuty.driver_errors),
    "haproxy_info": lambda: Call(info_spec(), info, HaproxyDuty.driver_errors, of_failure=lambda params: other_holds(params, HAPROXY_SERVER)),
}
