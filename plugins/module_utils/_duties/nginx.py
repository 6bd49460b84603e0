# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host as a server in the upstreams of nginx, on the machine on which nginx runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._balancer_machine import awaited_in, look_spec, machine_facts, other_holds
from ansible_collections.graceful.azure.plugins.module_utils._conditions import ALREADY_OUT, CHANGED_MEANWHILE, LOST
from ansible_collections.graceful.azure.plugins.module_utils._connections import ConnectionsError
from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.nginx import (
    OPTIONS,
    never_out,
    nginx_server,
    nginx_stays,
    not_loaded,
)
from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import Call, Duty, holding, least_of, outcome, state_of
from ansible_collections.graceful.azure.plugins.module_utils._duties.options import LOOKS
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Engine
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import hold_argument_spec
from ansible_collections.graceful.azure.plugins.module_utils._nginx import Nginx, NginxError, NginxRefused
from ansible_collections.graceful.azure.plugins.module_utils._nginx_addresses import Resolver
from ansible_collections.graceful.azure.plugins.module_utils._nginx_configuration import ConfigurationError
from ansible_collections.graceful.azure.plugins.module_utils._nginx_hold import NginxLook, NginxServers, Silence, no_server, no_server_in, unchangeable
from ansible_collections.graceful.azure.plugins.module_utils._nginx_lines import HostLines, directive, is_searched, label_of, places_of
from ansible_collections.graceful.azure.plugins.module_utils._polling import MOST_SECONDS, Since, check_seconds
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import NGINX_SERVER
from ansible_collections.graceful.azure.plugins.module_utils._spellings import (
    in_rotation,
    is_left_out,
    is_same_host,
    may_lead,
    parse_places,
    place_text,
    spelled,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import Act
    from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
    from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Request, Store
    from ansible_collections.graceful.azure.plugins.module_utils._nginx_hold import Key
    from ansible_collections.graceful.azure.plugins.module_utils._spellings import Destination


class NginxDuty(Duty):
    type = "nginx"
    traffic = True
    of_balancer = True
    driver_errors = (NginxError, ConfigurationError, ConnectionsError)
    options = OPTIONS

    def __init__(self, name: str, options: dict[str, Any], machine: Machine) -> None:
        super().__init__(name, options, machine)
        self._server: str = options["server"]
        self._files: list[str] = options["files"] or []

    def look(self) -> dict[str, Any]:
        nginx, resolver, store = self._nginx(), Resolver(), self.machine.store()

        def see() -> NginxLook:
            return NginxLook(nginx, store, resolver)

        found, problem = tested(nginx, see, see())
        servers, passes = self._mine(found)
        if not servers:
            if not self._files:
                return self.unseen(no_server(nginx.configuration, self._server))
            return self.unseen("None of the files %s has a server %r (option server)." % (", ".join(self._files), self._server))
        note_silence(found, resolver, servers)
        lacking = [path for path in self._files if os.path.realpath(path) not in [server["file"] for server in servers]]
        there = [server for server in servers if server["in_service"]]
        details = of_nginx(nginx, found, problem, self._files, self.searched, store)
        busy = [sentence for server in servers for sentence in nginx_server(label_of(server["upstream"], server["server"]), server)]
        busy += [nginx_stays(directive(line)) for line in passes]
        return self.seen(
            state_of(servers, there),
            any(not server["silent"] for server in there),
            busy=busy,
            held_by=[event_id for server in servers for event_id in server["held_by"]],
            why=[sentence for server in servers for sentence in _others(server)],
            problem=problem or rights_problem(nginx, servers) or details["state_dir_problem"] or (no_server_in(lacking[0], self._server) if lacking else None),
            doubts=self._unknown(found),
            details=dict(details, servers=found.servers, clock=self.machine.monotonic()),
        )

    def change(self, act: Act) -> dict[str, Any]:
        params = {"server": self._server, "files": self._files or None, "addresses": act.addresses, "min_in_service": act.min_in_service}
        engine = _change(self._nginx(), params, self.machine, act.request)
        up = [hold.there for hold in engine.current if act.request.present and hold.there and not hold.there.down]
        return outcome(engine, still=[*still_served(engine, act.request), *(in_rotation(label_of(server.upstream, server.address)) for server in up)])

    def _nginx(self) -> Nginx:
        return Nginx(self.machine.run_command, self.given["configuration"])

    def _lines(self) -> HostLines:
        return HostLines([self._server], [os.path.realpath(path) for path in self._files])

    def _unknown(self, found: NginxLook) -> Iterator[str]:
        """What may lead to the host, in sentences."""
        lines = self._lines()
        for place, line in lines.others(found.servers, found.passes):
            if line["unresolved"]:
                yield may_lead(place, line["unresolved"])
        for place, _line, at, lacks in lines.left_out(found.servers, found.passes):
            yield is_left_out(place, place_text(at), self._server, "files", lacks)

    def _mine(self, found: NginxLook) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The host's lines: by its address, held for it, or leading to the same host; and the directives that pass requests there themselves."""
        lines = self._lines()
        own = lines.own(found.servers)

        def is_its(place: Destination) -> bool:
            return is_same_host(place, own)

        mine = lines.of(found.servers, is_its) if lines.named(found.servers) else []
        return mine, [line for line in found.passes if lines.leads(line, is_its)]


def tested(nginx: Nginx, look: Callable[[], NginxLook], found: NginxLook) -> tuple[NginxLook, str | None]:
    """A look at a configuration that nginx reads as we do, and what nginx says against it. ``found``: the first look."""
    for is_last in (False, False, True):
        try:
            difference = found.configuration.differs_from(nginx.check())
        except NginxRefused as error:
            return found, str(error)
        if difference is None:
            return found, None
        if is_last:
            raise NginxError("The configuration %s cannot be read as nginx reads it: %s" % (nginx.configuration, difference))
        # Somebody may just be writing a file.
        found = look()
    raise AssertionError("the last round returns or raises")


def note_silence(found: NginxLook, resolver: Resolver, servers: Sequence[dict[str, Any]]) -> None:
    """Ask these servers, as far as they get requests, and note of each why nothing answers there."""
    silence = Silence(resolver, found.has_udp)
    silence.ask(found.lines[key_of(server)] for server in servers if server["in_service"])
    for server in servers:
        server["silent"] = silence.of(found.lines[key_of(server)]) if server["in_service"] else None


def of_nginx(nginx: Nginx, found: NginxLook, problem: str | None, files: Iterable[str], addresses: Iterable[str], store: Store) -> dict[str, Any]:
    """What a look tells besides the servers. C(problem): what nginx says against its configuration."""
    return {
        "process": nginx.process,
        "configuration": nginx.configuration,
        "configuration_problem": problem,
        "files": {path: os.path.realpath(path) if os.path.realpath(path) in found.files else None for path in files},
        "passes": found.passes,
        "beside": {text: sum(found.beside(*place) for place in parse_places([text])) for text in addresses},
        "holds": found.holds,
        "other_holds": found.others,
        **machine_facts(store.state_dir),
    }


def key_of(server: dict[str, Any]) -> Key:
    return server["context"], server["upstream"], server["server"], server["file"]


def rights_problem(nginx: Nginx, servers: Iterable[dict[str, Any]]) -> str | None:
    """Why nginx could not be changed with the rights of this task."""
    try:
        nginx.signal(0)
    except NginxError as error:
        return str(error).rstrip(".")
    files = sorted({server["file"] for server in servers})
    return unchangeable(nginx, files)


def _others(server: dict[str, Any]) -> Iterator[str]:
    """What was not our doing, in sentences."""
    place, condition = label_of(server["upstream"], server["server"]), server["condition"]
    if condition == CHANGED_MEANWHILE:
        yield "somebody else changed the line of %s: it is %r, and the hold left %r" % (place, server["text"], server["left"])
    elif condition == ALREADY_OUT:
        yield "somebody else gave %s the parameter down" % place
    elif condition == LOST:
        yield "%s is in rotation: the run that was to take it out was cut off" % place


def hold_spec() -> dict[str, Any]:
    """The options of C(hold)."""
    return dict(
        hold_argument_spec(),
        **NginxDuty.spec("files", "configuration"),
        server={"type": "str", "required": True},
        addresses={"type": "list", "elements": "str"},
        min_in_service={"type": "str"},
    )


def hold(params: Mapping[str, Any], machine: Machine, request: Request) -> dict[str, Any]:
    """Put or release the hold on the lines of a server."""
    if params["files"] is not None and not params["files"]:
        raise ValueError("files is an empty list: name at least one file, or leave the option out for all.")
    nginx = Nginx(machine.run_command, params["configuration"])
    engine = _change(nginx, params, machine, request)
    waiting_for = engine.waiting_for + still_served(engine, request)
    return dict(engine.result("servers"), done=not waiting_for, refused=engine.refused, waiting_for=waiting_for, process=nginx.process)


def still_served(engine: Engine[Any], request: Request) -> list[str]:
    """Which lines get requests although they have the parameter down, in sentences."""
    found = []
    driver: Any = engine.driver  # one of nginx's servers
    for hold in engine.current if request.present else ():
        if hold.there is not None:
            place, never = label_of(hold.there.upstream, hold.there.address), driver.never_out(hold)
            if never:
                found.append(never_out(place, never))
            elif hold.condition == ALREADY_OUT and not driver.is_loaded(hold):
                found.append(not_loaded(place))
    return found


def _change(nginx: Nginx, params: Mapping[str, Any], machine: Machine, request: Request) -> Engine[Any]:
    store, places = machine.store(), None if params["addresses"] is None else parse_places(params["addresses"])
    servers = NginxServers(nginx, store, request, params["server"], params["files"], least_of(params), dry=machine.check_mode, places=places)
    engine = Engine(servers, store, request, machine.monotonic, machine.sleep)
    engine.run()
    return engine


def info_spec() -> dict[str, Any]:
    """The options of C(info)."""
    return dict(look_spec(), **NginxDuty.spec("files", "configuration"))


def info(params: Mapping[str, Any], machine: Machine) -> dict[str, Any]:
    """A look at the lines of several hosts, which may wait until some of them are idle in two looks in a row."""
    timeout, quiet = check_seconds("timeout", params["timeout"]), check_seconds("quiet", params["quiet"])
    names, awaited = params["servers"], awaited_in(params)
    deadline = machine.monotonic() + timeout
    nginx = Nginx(machine.run_command, params["configuration"])
    store = machine.store()
    addresses = parse_places(params["addresses"])
    resolver = Resolver()
    watch = NginxWatch(machine.monotonic)
    seen = watch.saw(NginxLook(nginx, store, resolver))
    present = {server["server"] for server in seen.servers}
    spellings = {spelled(name) for name in present}
    missing = [name for name in awaited if spelled(name) not in spellings]
    if missing and (params["wait_for"] is not None or timeout and not machine.check_mode):
        raise NginxError(no_server(nginx.configuration, missing[0], "servers" if params["wait_for"] is None else "wait_for"))
    seen, problem = tested(nginx, lambda: watch.saw(NginxLook(nginx, store, resolver)), seen)
    proven: set[Key] | None = None
    if timeout and not machine.check_mode:
        proven = set()
        while not is_idle(seen.servers, awaited, proven):
            if not machine.rest(deadline, MOST_SECONDS):
                break
            seen = watch.saw(NginxLook(nginx, store, resolver))
            proven = {key for key in watch.idle_in(LOOKS) if watch.quiet_for(key) >= quiet}
    servers = []
    concerned = {(server["context"], server["upstream"]) for server in concerning(seen.servers, names, addresses)}
    shown = [server for server in seen.servers if (server["context"], server["upstream"]) in concerned]
    note_silence(seen, resolver, shown)
    for server in shown:
        key = key_of(server)
        idle = server["idle"] if proven is None else key in proven
        servers.append(dict(server, quiet_for=round(watch.quiet_for(key), 3), idle=idle, own_ports=watch.ports(key)))
    return dict(
        of_nginx(nginx, seen, problem, params["files"] or (), params["addresses"], store),
        rights_problem=rights_problem(nginx, servers),
        servers=servers,
        missing=[name for name in names if spelled(name) not in spellings],
        present=sorted(present),
        clock=watch.at,
        idle=not missing and is_idle(seen.servers, awaited, proven),
    )


class NginxWatch(Since):
    """Since when each server has been idle in several looks, and from which ports nginx was connected to it in any of them."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__(monotonic)
        self._ports: dict[Key, dict[str, set[int]]] = {}

    def saw(self, seen: NginxLook) -> NginxLook:
        self.look()
        self.note_idle({key_of(server) for server in seen.servers if server["idle"]})
        for server in seen.servers:
            # What is busy begins anew with each look.
            self.note(key_of(server), server["idle"] or self.at)
            for address, ports in server["own_ports"].items():
                self._ports.setdefault(key_of(server), {}).setdefault(address, set()).update(ports)
        return seen

    def ports(self, key: Key) -> dict[str, list[int]]:
        """Per address of nginx, from which ports it was connected to a server in any of these looks.

        The host counts its connections at another moment. One that has ended since is known as nginx's all the same, and is no client of the host's own.
        """
        return {address: sorted(ports) for address, ports in self._ports.get(key, {}).items()}


def concerning(servers: Sequence[dict[str, Any]], names: Collection[str], addresses: Collection[Any]) -> Sequence[dict[str, Any]]:
    """The servers that a look is about: those of these names, all that lead to the same hosts or to these addresses, and all that lead nobody knows where."""
    lines = HostLines(names)
    known = {place for server in servers if lines.is_known(server) for place in places_of(server)}

    def is_its(place: Destination) -> bool:
        return is_same_host(place, known) or is_searched(place, addresses)

    return [server for server in servers if server["unresolved"] or lines.has(server, is_its)]


def is_idle(servers: Iterable[dict[str, Any]], awaited: Collection[str], proven: Collection[Key] | None = None) -> bool:
    """Whether all servers that are waited for are idle. C(proven): those that were so in C(LOOKS) looks in a row; None where one look is enough."""
    lines = HostLines(awaited)
    return all(server["idle"] if proven is None else key_of(server) in proven for server in servers if lines.is_known(server))


DUTIES: dict[str, type[Duty]] = {"nginx": NginxDuty}
CALLS: dict[str, Callable[[], Call]] = {
    "nginx_hold": lambda: holding(hold_spec(), hold, NginxDuty.driver_errors),
    "nginx_info": lambda: Call(info_spec(), info, NginxDuty.driver_errors, of_failure=lambda params: other_holds(params, NGINX_SERVER)),
}
