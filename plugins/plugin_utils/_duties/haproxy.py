# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""HAProxy: a server in its backends. Pure."""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ansible_collections.graceful.azure.plugins.module_utils._conditions import AS_LEFT, DRAIN, LOST, NONE, READY
from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.haproxy import (
    OPTIONS,
    haproxy_beside,
    haproxy_passes,
    haproxy_server,
    haproxy_went,
    is_in_rotation,
    is_meant,
    is_named,
    meant_passes,
    pass_of,
)
from ansible_collections.graceful.azure.plugins.module_utils._pools import Pool
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import HAPROXY_SERVER
from ansible_collections.graceful.azure.plugins.module_utils._spellings import (
    address_text,
    fold,
    is_left_out,
    is_same_host,
    is_same_place,
    may_be_its,
    may_lead,
    plural,
    too_low,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.servers import Owners, ServersDuty, may_be_anothers, other_than
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.traffic import CONDITIONS, Claim, left_as_it_is
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.addresses import Addresses
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import MachineObservation, Machines, Record
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import (
    BALANCER,
    CHANGED,
    CONNECTION,
    FREE,
    HELD,
    Count,
    Group,
    Place,
    Traffic,
    lasting,
    unread,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.verdicts import Kind, Reason
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import (
    RoleResult,
    gathered,
    of_machines,
    trouble_at,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._text import clock
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, Json, Options, Result, StepJson

if TYPE_CHECKING:
    from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host


def place_name(machine: str, server: Json) -> str:
    return f"{server['backend']}/{server['server']} on {machine}"


def pass_name(machine: str, line: Json) -> str:
    return f"{pass_of(line)} on {machine}"


def pools_of(server: Json) -> list[Pool]:
    """The connections that HAProxy keeps to a server, which are no requests. A server in rotation is busy anyway."""
    if not is_in_rotation(server) and server.get("own_ports") is not None:
        return [Pool(address, ports, None, server.get("port")) for address, ports in sorted(server["own_ports"].items())]
    if not server.get("source_address"):
        return []
    if is_in_rotation(server):
        return [Pool(server["source_address"])]
    return [Pool(server["source_address"], None, server["connections"] or 0, server.get("port"))]


def came_to(settings: BalancerSettings, place: str, state: str, number: int, since: str) -> str:
    """The sentence about sessions that came to a server that is out. C(since): a time, or words for it."""
    told = (
        f"{plural(number, 'session')} came to {place} since {since} although it is in {state}:"
        " look for use-server, option persist, force-persist and stick in the configuration of HAProxy"
    )
    if state == DRAIN and settings.get("state") == DRAIN:
        told += "; state: drain keeps it from going on to maint"
    return told


def runs_nowhere(machines: Iterable[str]) -> str:
    return f"no HAProxy runs on any of its balancers ({', '.join(machines)})"


def has_no_server(settings: BalancerSettings, machine: str, seen: Json) -> str:
    """C(seen): what the look at the balancer has found."""
    where = f"none of the backends {', '.join(settings['backends'])}" if settings.get("backends") else "no backend"
    known = seen["known_backends"]
    unknown = [backend for backend in settings.get("backends") or () if known and backend not in known]
    if unknown:
        return f"balancer {machine}: HAProxy has no backend {', '.join(unknown)} (option backends); there are {', '.join(known)}"
    # A journal of an older version does not have them.
    servers = [place for place in seen.get("known_servers") or () if is_meant(settings, place.split("/")[0])]
    others = f"; there are {', '.join(servers)}" if servers else f"; there are the backends {', '.join(known)}" if known else ""
    return f"balancer {machine}: {where} has a server {settings['server']!r} (option server){others}"


def is_left_alone(place: str, at: str, host: str) -> str:
    return (
        f"{place} leads to {at}, which is no address of {host}, so it is another machine's and stays as it is."
        " If it is not, name the backends of the host in the option backends"
    )


def name_decides(place: str, at: str, host: str) -> str:
    return (
        f"{place} leads to {at}, which is no address of {host}. Its name decides: it goes out with {host}."
        " If it is another machine's, set the option server or backends"
    )


def _own(settings: BalancerSettings, host: Host, machine: MachineObservation) -> tuple[list[Json], list[Json]]:
    """The servers that are the host's by its name, and those that have its name and are another machine's.

    A name may stand for different machines in different backends. If one of these servers leads to an address of the host, HAProxy reaches the host at
    its own addresses, and those that lead elsewhere are not its servers. If none does, there may be address translation between them, and the name
    decides. It also decides in backends that the user has named, and where the server is held for the host.
    """
    named = [server for server in _servers(machine) or () if is_named(settings, server)]
    if settings["backends"] or not any(server.get("address") in (host.addresses or ()) for server in named):
        return named, []
    others = [server for server in named if _leads_elsewhere(host, server) and not _is_held(settings, server)]
    return [server for server in named if server not in others], others


def _leads_elsewhere(host: Host, server: Json) -> bool:
    """Whether a server leads to an address that is none of the host's. On a loopback address HAProxy may reach the host itself."""
    address = server.get("address")
    return bool(host.addresses) and address is not None and address not in (host.addresses or ()) and not ipaddress.ip_address(address).is_loopback


def _is_held(settings: BalancerSettings, server: Json) -> bool:
    """Whether a server is held for the host with these settings."""
    return CONDITIONS[server["condition"]] != FREE and (server.get("for_server") or server["server"]) == settings["server"]


def _is_held_for(settings: BalancerSettings, record: Record, addresses: Collection[str]) -> bool:
    """Whether a record is about a host's server, or about one of another name that was taken out with it.

    When the hold was put, the settings may have named more backends. There, another machine may have the name, so the record must name one of the
    addresses of the host's servers (C(addresses)).
    """
    if record.server != settings["server"]:
        return False
    return is_meant(settings, record.subject.get("backend")) or (record.leads_to or {}).get("address") in addresses


def _names_host(settings: BalancerSettings, record: Record) -> bool:
    """Whether a record says that its server was taken out for the host, in whatever backend and wherever it leads."""
    return record.server == settings["server"] and any(
        entry.details.get("host") == settings["host"] for entry in record.events.values() if settings.get("host")
    )


def _without_server(settings: BalancerSettings, machine: MachineObservation) -> list[str]:
    """The backends that the settings name and that have no server of the host's name. What is held there can be given back all the same."""
    there = [server for server in _servers(machine) or () if is_named(settings, server)]
    held = [record.subject for record in machine.records or () if record.subject.get("server") == settings["server"]]
    known = {each.get("backend") for each in (*there, *held)}
    return [backend for backend in settings["backends"] or () if backend not in known]


def _addresses(settings: BalancerSettings, machine: MachineObservation) -> set[str]:
    """The addresses to which a host's servers lead, and led when they were taken out."""
    now = {server.get("address") for server in _servers(machine) or () if is_named(settings, server)}
    led = {record.leads_to.get("address") for record in machine.records or () if record.leads_to and is_named(settings, record.subject)}
    return {address for address in now | led if address is not None}


def _carries_nothing(settings: BalancerSettings, machine: MachineObservation) -> bool:
    """Whether no HAProxy runs on a machine, and the settings say that such a machine carries no traffic."""
    return bool(machine.result.get("absent")) and settings.get("absent") == "no_traffic"


def _servers(machine: MachineObservation) -> list[Json] | None:
    """The servers on a machine, or None if these could not be read."""
    return None if machine.result.get("absent") else machine.result.get("servers")


class HaproxyDuty(ServersDuty):
    name = "haproxy"
    kind = HAPROXY_SERVER
    nouns = {HAPROXY_SERVER: "HAProxy server"}
    title = "HAProxy"
    options = OPTIONS
    look_module = "haproxy_info"
    told_apart = ("backend", "server")
    counts_again = True
    left_key = now_key = "admin_state"
    unclaimed = (
        "belongs to none of the HAProxy sockets that were looked at. It is not released. To release it,"
        " give the socket of its HAProxy in the option socket. If that HAProxy is gone for good, nothing is held any more:"
        " delete the record."
    )
    may_forget = True

    def settings(self, options: Options, host: str) -> BalancerSettings:
        return {
            "host": host,
            "backends": [str(backend) for backend in options["backends"] or ()],
            **{name: options[name] for name in ("socket", "hard_stop_after", "state", "absent")},
        }

    def claims(self, settings: BalancerSettings) -> Iterator[Claim]:
        for machine in settings["hosts"]:
            for backend in settings["backends"] or [None]:
                yield machine, (machine, settings["socket"], settings["server"]), backend

    def judge(self, settings: BalancerSettings, direction: str, acts: Sequence[Result]) -> RoleResult:
        out, hosts = direction == "out", settings["hosts"]
        # If no machine runs HAProxy, nobody knows where the traffic goes.
        nowhere = out and sum(bool(act.get("absent")) for act in acts) == len(hosts)
        in_rotation = out and any(is_in_rotation(server) for server in gathered(acts, "servers"))
        waits = bool(gathered(acts, "waiting_for"))
        trouble = ["No" + runs_nowhere(hosts)[2:] + "."] if nowhere else []
        trouble.extend(trouble_at(hosts, acts))
        return of_machines(hosts, acts, nowhere or in_rotation or waits, trouble or self.said(settings, acts))

    def states(self, settings: BalancerSettings, act: Result) -> Iterator[str]:
        if act.get("absent"):
            yield f"no HAProxy runs on {act['item']}"
        for server in act.get("servers") or ():
            name = server["backend"] if server["server"] == settings["server"] else f"{server['backend']}/{server['server']}"
            yield f"{name} on {act['item']}: {server['admin_state']}"

    def keys(self, settings: BalancerSettings) -> list[tuple[str, str]]:
        return [(machine, f"{machine} {settings['socket']}") for machine in settings["hosts"]]

    def own(self, settings: BalancerSettings, host: Host, machine: MachineObservation) -> Iterator[tuple[str, str]]:
        return ((server["backend"], server["server"]) for server in _own(settings, host, machine)[0])

    def traffic_among(self, settings: BalancerSettings, host: Host, owners: Mapping[str, Owners], machines: Machines, addresses: Addresses) -> Traffic:
        places: list[Place] = []
        silent: list[Reason] = []
        mistakes: list[str] = []
        absent: list[str] = []
        doubts: list[str] = []
        keys = dict(self.keys(settings))
        for name, key in keys.items():
            machine = machines[key]
            if _carries_nothing(settings, machine):
                absent.append(name)
            elif _servers(machine) is None:
                silent.append(unread(f"balancer {name}", machine.result, Kind.BALANCER))
            else:
                found = _places(settings, host, owners[key], name, machine, addresses)
                places.extend(found)
                doubts.extend(_doubts(settings, host, owners[key], name, machine, addresses))
                lacking = _without_server(settings, machine)
                if lacking or not any(place.by_name for place in found):
                    mistakes.append(has_no_server({**settings, "backends": lacking}, name, machine.result))
        if absent and len(absent) == len(set(settings["hosts"])):
            # One machine of a pair must be active. Perhaps it is about to become active.
            silent.append(Reason(Kind.UNREAD, runs_nowhere(absent)))
        not_running = {name: machines[keys[name]].result["clock"] for name in absent}
        serves = any(place.serves for place in places)
        return Traffic(tuple(places), serves, tuple(silent), tuple(mistakes), not_running, tuple(doubts))

    def mine(self, settings: BalancerSettings, machine: MachineObservation) -> Iterator[Record]:
        there = {(server["backend"], server["server"]) for server in _servers(machine) or ()}
        addresses = _addresses(settings, machine)
        for record in machine.records or ():
            name = record.subject.get("server")
            if record.for_server or (record.subject.get("backend"), name) in there:
                is_mine = _is_held_for(settings, record, addresses) or _names_host(settings, record)
            else:
                # If no HAProxy runs, a hold from before must be released.
                is_mine = _carries_nothing(settings, machine) and name == settings["server"]
            if is_mine:
                yield record

    def arrived(self, settings: BalancerSettings, place: Place, came: int, begun: float) -> str:
        return came_to(settings, place.name, place.state, came, clock(begun))

    def went(self, way: str, came: int, begun: float) -> str:
        return haproxy_went(came, way, clock(begun))

    def ask_for(self, options: Options, settings: BalancerSettings) -> None:
        options["socket"] = settings["socket"]
        if settings.get("hard_stop_after") is not None:
            options["hard_stop_after"] = settings["hard_stop_after"]
        # A word that is not known goes to the module, which refuses it.
        options.setdefault("absent", "unknown")
        if settings.get("absent") not in (None, "", "unknown"):
            options["absent"] = settings["absent"]

    def sharers(self, settings: BalancerSettings) -> str:
        return "each backend"

    def left_by(self, settings: BalancerSettings) -> str:
        return f"echo 'show sess' | sudo socat stdio {shlex.quote(str(settings['socket']))}"

    def read(self, result: Json, options: Options) -> Json:
        if result.get("absent"):
            result = dict(result, error="no HAProxy runs there")
        if result["reached"]:
            fatal = too_low(options["socket"], result["level"]) or result.get("state_dir_problem")
            result = dict(result, fatal=fatal) if fatal else result
        return dict(result, servers=None) if result.get("fatal") else result

    def acts(self, settings: BalancerSettings, direction: str, hold: Options, step: StepJson) -> Iterator[tuple[str, str, Options]]:
        known = {
            "server": settings["server"],
            "socket": settings["socket"],
            "out_state": settings.get("state"),
            "absent": settings.get("absent"),
            "min_in_service": step.get("min_in_service"),
            "await_checks": step.get("await_checks"),
            "checked_later": step.get("checked_later"),
            "timeout": 0,
            **({"host": settings.get("host")} if direction == "in" else {}),
        }
        for machine in settings["hosts"]:
            # The host's addresses, if servers of other names lead there as well.
            addresses = (step.get("addresses") or {}).get(machine) or None
            backends = (step.get("backends") or {}).get(f"{machine} {settings['socket']}") or settings["backends"] or None
            yield machine, "haproxy_hold", dict(known, addresses=addresses, backends=backends, **hold)

    def shown(self, record: Json) -> dict[str, str]:
        subject = [str(value) for key, value in record["subject"].items() if key not in ("socket", "pid")]
        return {"held": self.held(record, "/".join(subject)), "socket": record["subject"].get("socket", "none")}

    def give_back(self, record: Json, options: Options) -> tuple[str, Options]:
        # The machine behind it may be gone for good: HAProxy's checks decide when it gets requests.
        of_record = {"server": record["subject"]["server"], "backends": [record["subject"]["backend"]], "await_checks": False}
        return "haproxy_hold", dict(of_record, socket=options["socket"], absent=options["absent"], state="absent")


def _places(
    settings: BalancerSettings,
    host: Host,
    owners: Owners,
    name: str,
    machine: MachineObservation,
    addresses: Addresses,
) -> list[Place]:
    """The host's places on one machine: its servers by name, then those of other names that lead to it.

    After a hold was put, a name may lead to another address (C(set server addr), C(server-template)). It may also never have led to this host.
    """
    servers = _servers(machine) or []
    own, others = _own(settings, host, machine)
    only_in = tuple(server["backend"] for server in own) if others else ()

    def place(server: Json, **more: Any) -> Place:
        ports = addresses.ports_of(host, [(server.get("address"), server.get("port"))], machine.result)
        return _place(settings, name, machine, server, ports=ports, **more)

    places = [place(server, only_in=only_in) for server in own]
    known = _addresses(settings, machine)
    led = [record.leads_to for record in machine.records or () if record.leads_to and _is_held_for(settings, record, known)]
    named = {server.get("address") for server in own}
    for server in servers:
        if is_named(settings, server) or not is_meant(settings, server["backend"]):
            continue
        if addresses.leads_to(host, (server.get("address"), server.get("port")), led, named, machine.result):
            leads_to = address_text(server["address"], server.get("port"))
            places.append(place(server, leads_to=leads_to, owner=_owner(host, owners, server)))
    told = machine.result["beside"]
    beside = tuple(haproxy_beside(name, address, told[address]) for address in addresses.searched(host, machine.result) if told.get(address))
    past = () if any(place.in_rotation for place in places) else tuple(_ways(settings, name, machine))
    places[:1] = [replace(first, busy=first.busy + beside, past=past) for first in places[:1]]
    passes = meant_passes(settings, machine.result["passes"])
    here = {(server["address"], server.get("port") or 0) for server in own if server.get("address")}
    theirs = [server for server in servers if server.get("address") and server not in own and _owner(host, owners, server)] if passes else []
    elsewhere = {(server["address"], server.get("port") or 0) for server in theirs}
    for line in passes:
        ends = [(at["address"], at["port"]) for at in line["leads_to"]]
        # Where its servers lead, the host is, whatever its own addresses are.
        if any(is_same_host(at, here, elsewhere) or addresses.leads_to(host, at, led, named, machine.result) for at in ends):
            label = pass_name(name, line)
            places.append(lasting(label, name, haproxy_passes(label)))
    return places


def _ways(settings: BalancerSettings, name: str, machine: MachineObservation) -> Iterator[tuple[str, Count]]:
    """What sends requests nobody knows where, with their number."""
    for line in meant_passes(settings, machine.result["passes"]):
        if line["unresolved"] and "total" in line:
            yield pass_name(name, line), _count(machine, line["total"], line.get("quiet_for", 0.0))


def _count(machine: MachineObservation, total: int, quiet_for: float) -> Count:
    return Count(machine.result["process"], machine.result["clock"], total, quiet_for, machine.result.get("at"))


def _doubts(settings: BalancerSettings, host: Host, owners: Owners, name: str, machine: MachineObservation, addresses: Addresses) -> Iterator[str]:
    """Sentences about servers of the host's name that lead elsewhere or may, and about what keeps anybody from knowing whether a server is idle."""
    if machine.result.get("hidden"):
        yield f"balancer {name}: {machine.result['hidden']}. As long as this is so, the host never counts as idle"
    for line in meant_passes(settings, machine.result["passes"]):
        if line["unresolved"]:
            yield may_lead(pass_name(name, line), line["unresolved"])
    own, others = _own(settings, host, machine)
    places = {(server.get("address"), server.get("port")) for server in own}
    named = {address for address, _port in places}
    # Each port of an address that no target has may be another machine's, where a target of another name has one of them.
    strange = {address for address in named if address not in addresses.owners}
    if strange:
        strange -= {server.get("address") for server in _servers(machine) or () if _owner(host, owners, server)}
    for label, address, port in _undecided(settings, host, owners, name, machine):
        if addresses.may_lead_to(host, (address, port), named, machine.result):
            yield may_be_anothers(label, address_text(address, port), host.name, "backends")
        elif address in strange and (address, port) not in places and not ipaddress.ip_address(address).is_loopback:
            yield may_be_its(label, address_text(address, port), host.name, HaproxyDuty.name)
    left_out = (server for server in _servers(machine) or () if not is_meant(settings, server["backend"]))
    for server in filter(is_in_rotation, left_out):
        place = (server.get("address"), server.get("port"))
        # Another duty of the host may name it.
        if any(is_same_place(place, mine) for mine in places) and host.name not in owners.get((server["backend"], server["server"]), ()):
            yield is_left_out(place_name(name, server), address_text(server["address"], place[1]), host.name, "backends", "backend")
    for server in others:
        yield is_left_alone(place_name(name, server), address_text(server["address"], server.get("port")), host.name)
    if settings["backends"] or any(not _leads_elsewhere(host, server) for server in own):
        return
    for server in own:
        yield name_decides(place_name(name, server), address_text(server["address"], server.get("port")), host.name)


def _undecided(settings: BalancerSettings, host: Host, owners: Owners, name: str, machine: MachineObservation) -> Iterator[tuple[str, str, int | None]]:
    """What is in rotation and has another name than the host in each of its duties: its name, and each address and port to which it leads."""
    for server in _servers(machine) or ():
        is_its = is_named(settings, server) or host.name in owners.get((server["backend"], server["server"]), ())
        if is_meant(settings, server["backend"]) and not is_its and is_in_rotation(server) and server.get("address"):
            yield place_name(name, server), server["address"], server.get("port")
    for line in meant_passes(settings, machine.result["passes"]):
        yield from ((pass_name(name, line), at["address"], at["port"]) for at in line["leads_to"])


def _owner(host: Host, owners: Owners, server: Json) -> str | None:
    """The other target to which a server belongs by its name, or None."""
    return other_than(host, owners.get((server["backend"], server["server"]), ()))


def _place(
    settings: BalancerSettings, name: str, machine: MachineObservation, server: Json, leads_to: str = "", owner: str | None = None, **more: Any
) -> Place:
    label = place_name(name, server)
    state, condition = server["admin_state"], CONDITIONS[server["condition"]]
    in_rotation = is_in_rotation(server)
    count = None
    if not in_rotation:
        count = _count(machine, server["total_sessions"], server.get("quiet_for", 0.0))
    is_waited_for = not leads_to and settings["server"] in machine.waited_for
    return Place(
        name=label,
        machine=name,
        in_rotation=in_rotation,
        state=state,
        serves=server["in_service"],
        busy=haproxy_server(label, server, leads_to),
        count=count,
        nothing_comes=server["nothing_comes"],
        seen=machine.looked_at,
        looks=machine.looks(proves=is_waited_for and server["idle"]),
        condition=condition,
        held_by=frozenset(map(fold, server["held_by"])),
        must_go_out=_must_go_out(settings, server, condition, owner),
        by_name=not leads_to,
        leads_to=leads_to,
        owner=owner,
        group=Group(
            (machine.key, server["backend"]),
            f"{server['backend']} on {name}",
            tuple(other if condition == HELD else _counted(other) for other in machine.result["servers"] if other["backend"] == server["backend"]),
        ),
        member=server["server"],
        pools=tuple(pools_of(server)),
        checked=server["checked"],
        health=BALANCER if server["checked"] else CONNECTION,
        returns=_returns(server),
        conflict=left_as_it_is(f"set {label} to {state}{_expected(server)}") if condition == CHANGED else "",
        note=_note(label, server, leads_to),
        **more,
    )


def _counted(server: Json) -> Json:
    """A server as one of those that must stay in service. One whose last check has not passed may be dead.

    A host that was out before HAProxy lost its state does not wait for that: what runs on it may be stopped already.
    """
    return dict(server, in_service=False, silent=server["unsure"], early=True) if server.get("unsure") else server


def _expected(server: Json) -> str:
    left = server["left"]
    return f", and {left['admin_state']} was expected" if left else ""


def _returns(server: Json) -> str:
    """When a server that is out comes back without anybody's act, a phrase; empty if it does not."""
    if server.get("returns_by_itself"):
        is_tracking = server.get("status", "").startswith(("MAINT (via ", "DRAIN"))
        return "serves again when the server does that it tracks" if is_tracking else "serves again when its name resolves"
    # While it is held, its agent check is disabled.
    return "serves again when its agent says so" if server.get("returns_by_agent") else ""


def _must_go_out(settings: BalancerSettings, server: Json, condition: str, owner: str | None) -> bool:
    """Whether the role load_balancer has something to do at a server, whoever holds it."""
    state = server["admin_state"]
    # Sessions came in drain, and the user has not asked for drain. In maint only directives of persistence send it anything.
    is_ours = (server.get("found") or {}).get("admin_state", READY) == READY
    awaits_sessions = bool(server.get("awaits_sessions"))
    if server["condition"] == AS_LEFT and is_ours and state == DRAIN and server.get("arrived") and settings.get("state") != DRAIN:
        return not awaits_sessions
    if condition == CHANGED or owner:
        return False
    # This may change at any moment: its name does not resolve, what it tracks is out, or its agent has taken it out.
    comes_back = bool(server.get("returns_by_itself")) and server["condition"] in (NONE, LOST) or bool(server.get("returns_by_agent"))
    # The hold must be put again if it is being released, or if HAProxy kept the state over a reload. After a reload, the record needs the new process.
    # If the run that took the server out was cut off, the record must say that it is out. Otherwise, if a person sets the server to ready, it would
    # look as if HAProxy had lost its state.
    is_old = condition == HELD and (server.get("restoring") or not server.get("process_noted", True) or not (server.get("noted", True) or awaits_sessions))
    return is_in_rotation(server) or comes_back or bool(is_old)


def _note(label: str, server: Json, leads_to: str) -> str:
    """The sentence about a server that leads to another address than its name says."""
    if leads_to:
        return "" if is_in_rotation(server) else f"{label} leads to {leads_to} too and is out"
    led, address, port = server.get("leads_to"), server.get("address"), server.get("port")
    if not led or address is None or led == {"address": address, "port": port}:
        return ""
    return (
        f"{label} led to {address_text(led.get('address') or '', led.get('port'))} when it was taken out and leads to"
        f" {address_text(address, port)} now; it stays out until it is given back"
    )
