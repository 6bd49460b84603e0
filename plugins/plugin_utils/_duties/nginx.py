# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nginx: lines of its configuration that lead to the host. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._conditions import ALREADY_OUT
from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.nginx import (
    OPTIONS,
    never_out,
    nginx_beside,
    nginx_server,
    nginx_stays,
)
from ansible_collections.graceful.azure.plugins.module_utils._nginx_lines import HostLines, comes_back, directive, label_of, places_of
from ansible_collections.graceful.azure.plugins.module_utils._pools import Pool
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import NGINX_SERVER
from ansible_collections.graceful.azure.plugins.module_utils._spellings import (
    MOST_NAMED,
    UNIX,
    fold,
    is_left_out,
    is_same_host,
    leads_back,
    may_be_its,
    may_lead,
    place_text,
    spelled,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.servers import Owners, ServersDuty, may_be_anothers, other_than
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.traffic import CONDITIONS, Claim, left_as_it_is
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.addresses import Addresses
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import MachineObservation, Machines, Record
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import (
    CHANGED,
    CONNECTION,
    HELD,
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
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, Json, Options, Result, StepJson

if TYPE_CHECKING:
    from ansible_collections.graceful.azure.plugins.module_utils._spellings import Destination
    from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host


IN_ROTATION = "in rotation"
DOWN = "down"


def place_name(machine: str, server: Json) -> str:
    return f"{label_of(server['upstream'], server['server'])} on {machine}"


def state_of(server: Json) -> str:
    """Its state as the plan shows it."""
    return IN_ROTATION if server["in_service"] else DOWN


def lines_of(settings: BalancerSettings, result: Result) -> HostLines:
    """Which lines are a host's. C(result): a look, which tells of each file of the settings its path without symbolic links."""
    files = result.get("files") or {}
    return HostLines([settings["server"]], [files.get(path) or path for path in settings["files"]])


def directive_name(machine: str, line: Json) -> str:
    """A directive that passes requests on itself."""
    return f"{directive(line)} on {machine}"


def has_no_server(settings: BalancerSettings, machine: str, present: Sequence[str] = ()) -> str:
    where = f"none of the files {', '.join(settings['files'])}" if settings["files"] else "no upstream"
    has = f"; there are {', '.join(present[:MOST_NAMED])}" if present else ""
    return f"balancer {machine}: {where} has a server {settings['server']!r} (option server){has}"


def mistakes_in(settings: BalancerSettings, machine: str, result: Result) -> Iterator[str]:
    """Sentences: what a look says that forbids to change a host's server there."""
    files = result.get("files") or {}
    named = lines_of(settings, result).named(result["servers"])
    for path in settings["files"]:
        if path in files and files[path] is None:
            yield f"balancer {machine}: {path} is not part of the configuration {result['configuration']} of nginx (option files)"
        elif not any(server["file"] == (files.get(path) or path) for server in named):
            yield f"balancer {machine}: {path} has no server {settings['server']!r} in an upstream (option server)"
    if not named and not settings["files"]:
        yield has_no_server(settings, machine, result.get("present") or ())
    seen = set()
    for server in named:
        upstream = server["context"], server["upstream"]
        if server["double"] or (upstream, server["server"]) in seen:
            yield f"balancer {machine}: upstream {server['upstream']} has the server {server['server']!r} more than once: leave one of the lines"
        seen.add((upstream, server["server"]))


class NginxDuty(ServersDuty):
    name = "nginx"
    kind = NGINX_SERVER
    nouns = {NGINX_SERVER: "nginx server"}
    title = "nginx"
    options = OPTIONS
    look_module = "nginx_info"
    by_others = "has {state} in its line"
    told_apart = ("context", "upstream", "server", "file")
    counts_again = True
    left_key, now_key = "line", "text"
    unclaimed = (
        "is about a file that belongs to the configuration of no nginx that was looked at. It is not released. To release it, let nginx include"
        " the file again. If the file is of no more use, nothing is held any more: delete the record."
    )

    def settings(self, options: Options, host: str) -> BalancerSettings:
        return {
            "files": [str(path) for path in options["files"] or ()],
            "configuration": options["configuration"],
        }

    def claims(self, settings: BalancerSettings) -> Iterator[Claim]:
        for machine in settings["hosts"]:
            for path in settings["files"] or [None]:
                yield machine, (machine, settings["configuration"], spelled(settings["server"])), path

    def judge(self, settings: BalancerSettings, direction: str, acts: Sequence[Result]) -> RoleResult:
        hosts = settings["hosts"]
        in_rotation = direction == "out" and any(not server["down"] for server in gathered(acts, "servers"))
        waits = bool(gathered(acts, "waiting_for"))
        return of_machines(hosts, acts, in_rotation or waits, trouble_at(hosts, acts) or self.said(settings, acts))

    def states(self, settings: BalancerSettings, act: Result) -> Iterator[str]:
        for server in act.get("servers") or ():
            yield f"{server['upstream']} on {act['item']}: {DOWN if server['down'] else IN_ROTATION}"

    def keys(self, settings: BalancerSettings) -> list[tuple[str, str]]:
        return [(machine, f"{machine} nginx {settings['configuration'] or ''}".strip()) for machine in settings["hosts"]]

    def own(self, settings: BalancerSettings, host: Host, machine: MachineObservation) -> set[Destination]:
        return lines_of(settings, machine.result).own(machine.result.get("servers") or ())

    def traffic_among(self, settings: BalancerSettings, host: Host, owners: Mapping[str, Owners], machines: Machines, addresses: Addresses) -> Traffic:
        places: list[Place] = []
        silent: list[Reason] = []
        mistakes: list[str] = []
        doubts: list[str] = []
        for name, key in self.keys(settings):
            machine = machines[key]
            if machine.result.get("servers") is None:
                silent.append(unread(f"balancer {name}", machine.result, Kind.BALANCER))
                continue
            found = list(_places(settings, host, owners[key], name, machine, addresses))
            places.extend(found)
            mistakes.extend(mistakes_in(settings, name, machine.result))
            doubts.extend(filter(None, [_doubts(settings, name, machine.result)]))
            doubts.extend(_undecided(settings, host, owners[key], name, machine.result, addresses))
            problem = machine.result.get("configuration_problem")
            if problem and any(place.must_go_out for place in found):
                mistakes.append(f"balancer {name}: the configuration of nginx has a mistake already: {problem}")
        return Traffic(tuple(places), any(place.serves for place in places), tuple(silent), tuple(mistakes), doubts=tuple(doubts))

    def mine(self, settings: BalancerSettings, machine: MachineObservation) -> Iterator[Record]:
        for record in machine.records or ():
            # Whatever the files are that the settings name now: they may have been others when the hold was put.
            if record.kind == self.kind and spelled(record.server) == spelled(settings["server"]):
                yield record

    def ask_for(self, options: Options, settings: BalancerSettings) -> None:
        if settings["configuration"]:
            options["configuration"] = settings["configuration"]
        files = options.setdefault("files", [])
        files.extend(path for path in settings["files"] if path not in files)

    def sharers(self, settings: BalancerSettings) -> str:
        return "each upstream"

    def left_by(self, settings: BalancerSettings) -> str:
        server = str(settings["server"])
        return "" if server.startswith(UNIX) else f"ss -tn dst {shlex.quote(server)}"

    def read(self, result: Json, options: Options) -> Json:
        problem = result.get("reached") and (result.get("rights_problem") or result.get("state_dir_problem"))
        if problem:
            result = dict(result, fatal=problem)
        return dict(result, servers=None) if result.get("fatal") else result

    def acts(self, settings: BalancerSettings, direction: str, hold: Options, step: StepJson) -> Iterator[tuple[str, str, Options]]:
        for machine in settings["hosts"]:
            yield (
                machine,
                "nginx_hold",
                {
                    "server": settings["server"],
                    # Which of the host's other addresses are there, and no other host's.
                    "addresses": (step.get("addresses") or {}).get(machine) or [],
                    "files": settings["files"] or None,
                    "configuration": settings["configuration"],
                    "min_in_service": step.get("min_in_service"),
                    **hold,
                },
            )

    def shown(self, record: Json) -> dict[str, str]:
        subject = record["subject"]
        return {"held": self.held(record, f"{subject['upstream']}/{subject['server']} ({subject['context']})"), "file": subject["file"]}

    def give_back(self, record: Json, options: Options) -> tuple[str, Options]:
        subject = record["subject"]
        found = {"server": subject["server"], "files": [subject["file"]], "state": "absent"}
        return "nginx_hold", dict(found, **({"configuration": options["configuration"]} if options.get("configuration") else {}))


def _places(
    settings: BalancerSettings,
    host: Host,
    owners: Owners,
    name: str,
    machine: MachineObservation,
    addresses: Addresses,
) -> Iterator[Place]:
    """The host's places on one machine: the lines that have its own address, then all others that lead to it."""
    result = machine.result
    lines, servers = lines_of(settings, result), result["servers"]
    named, own = lines.named(servers), lines.own(servers)
    others = {target: other for target, names in owners.items() for other in [other_than(host, names)] if other}
    led = [json for server in servers if lines.is_held(server) for json in server["leads_to"]]

    def is_here(target: Destination) -> bool:
        return _is_here(host, target, own, others, led, addresses, result)

    mine = lines.of(servers, is_here)
    doubts = _doubts(settings, name, result)
    told = result["beside"]
    beside = tuple(nginx_beside(name, address, told[address]) for address in addresses.searched(host, result) if told.get(address))
    for server in mine:
        ends = [] if server in named else sorted(places_of(server), key=str)
        leads_to = next(filter(is_here, ends), ends[0] if ends else None)
        owner = next((others[target] for target in ends if target in others), None)
        # Where the host has another line and is alone, waiting for the minimum in service would bring no other server.
        by_name = server in named or any(other not in mine for other in _group(server, result))
        note = doubts if server is mine[0] else ""
        place = _place(settings, name, machine, server, place_text(leads_to) if leads_to else "", owner, by_name, note)
        place = replace(place, ports=addresses.ports_of(host, [target for target in places_of(server) if not isinstance(target, str)], result))
        yield replace(place, busy=place.busy + beside) if server is mine[0] else place
    for line in result["passes"]:
        if lines.leads(line, is_here):
            label = directive_name(name, line)
            yield lasting(label, name, nginx_stays(label))


def _doubts(settings: BalancerSettings, name: str, result: Json) -> str:
    """Sentences about what leads nobody knows where."""
    others = lines_of(settings, result).others(result["servers"], result["passes"])
    return "; ".join(may_lead(f"{place} on {name}", line["unresolved"]) for place, line in others if line["unresolved"])


def _undecided(settings: BalancerSettings, host: Host, owners: Owners, name: str, result: Json, addresses: Addresses) -> Iterator[str]:
    """Sentences about what leads to an address of the host that another one may have as well, and about what the option files leaves out."""
    lines = lines_of(settings, result)
    own = lines.own(result["servers"])
    named = {target[0] for target in own if not isinstance(target, str)}
    # Where several targets have a port of an address that none of them has itself, any other port may be one of theirs.
    strange = {address for address in named if address not in addresses.owners and not leads_back(address)}
    shared = strange.intersection(target[0] for target, names in owners.items() if not isinstance(target, str) and other_than(host, names)) if strange else ()
    for place, line in lines.others(result["servers"], result["passes"]):
        # Another duty of the host may name it.
        ends = [each for each in sorted(places_of(line), key=str) if not isinstance(each, str) and host.name not in owners.get(each, ())]
        found = next((target for target in ends if addresses.may_lead_to(host, target, named, result)), None)
        port = next((target for target in ends if target[0] in shared and target not in own and not owners.get(target)), None)
        if found:
            yield may_be_anothers(f"{place} on {name}", place_text(found), host.name, "files")
        elif port:
            yield may_be_its(f"{place} on {name}", place_text(port), host.name, NginxDuty.name)
    of_host = [lines_of(balancer, result) for kind, balancer in host.balancers if kind.name == NginxDuty.name]
    for place, line, at, lacks in lines.left_out(result["servers"], result["passes"]):
        if not any(each.counts(line) for each in of_host):
            yield is_left_out(f"{place} on {name}", place_text(at), host.name, "files", lacks)


def _is_here(
    host: Host,
    target: Destination,
    own: Collection[Destination],
    owners: Mapping[Destination, str],
    led: Collection[Json],
    addresses: Addresses,
    result: Json,
) -> bool:
    """Whether a line that leads there leads to the host. C(own): where its own lines lead. C(owners): where those of other targets do."""
    if target in own:
        return True
    if isinstance(target, str):
        return False
    known = addresses.owners.get(target[0], ())
    if (not known or host.name in known) and is_same_host(target, own, owners):
        return True
    named = {each[0] for each in own if not isinstance(each, str)}
    return addresses.leads_to(host, target, led, named, result)


def _group(server: Json, result: Json) -> list[Json]:
    """The lines that share their requests with one of them, in each of its upstreams."""
    upstreams = set(server["upstream"].split(", "))
    return [other for other in result["servers"] if other["context"] == server["context"] and upstreams.issubset(other["upstream"].split(", "))]


def _place(
    settings: BalancerSettings,
    name: str,
    machine: MachineObservation,
    server: Json,
    leads_to: str,
    owner: str | None,
    by_name: bool,
    note: str,
) -> Place:
    label = place_name(name, server)
    condition = CONDITIONS[server["condition"]]
    # Whoever reloads nginx next puts it there.
    in_rotation = server["in_service"] or comes_back(server)
    is_waited_for = settings["server"] in machine.waited_for
    to_port = next((place[1] for place in places_of(server) if not isinstance(place, str)), None)
    return Place(
        name=label,
        machine=name,
        in_rotation=in_rotation,
        state=state_of(server),
        serves=_serves(server),
        busy=nginx_server(label, server),
        told=tuple(Pool(address, ports, None, to_port) for address, ports in sorted(server["own_ports"].items())),
        seen=machine.looked_at,
        looks=machine.looks(proves=is_waited_for and server["idle"]),
        condition=condition,
        held_by=frozenset(map(fold, server["held_by"])),
        must_go_out=not owner and _must_go_out(server, condition),
        by_name=by_name,
        leads_to=leads_to,
        owner=owner,
        group=Group(
            (machine.key, server["context"], server["upstream"]),
            f"upstream {server['upstream']} on {name}",
            tuple(dict(other, server=f"{other['file']} {other['server']}", in_service=_serves(other)) for other in _group(server, machine.result)),
        ),
        member=f"{server['file']} {server['server']}",
        # Open-source nginx checks no server: it learns from failed requests.
        checked=False,
        health=CONNECTION,
        conflict=_conflict(label, server) if condition == CHANGED else "",
        note=note,
        stays=never_out(label, server["never_out"]) if server["never_out"] else "",
    )


def _serves(server: Json) -> bool:
    """Whether a server counts as in service: nginx sends it requests, and something accepts its connections."""
    return server["in_service"] and not server.get("silent")


def _must_go_out(server: Json, condition: str) -> bool:
    """Whether the role load_balancer has something to do, whoever holds it."""
    # An operator's own parameter down is never touched, even if nginx has not loaded it yet.
    if condition == CHANGED or server["condition"] == ALREADY_OUT:
        return False
    # If the run that took it out was cut off, the record does not say since when nginx has loaded the line. If a person then removes the
    # parameter, it would look as if the line had never been changed.
    is_old = condition == HELD and not server["noted"]
    # Nothing is left to do where the line has the parameter and its upstream does not follow it.
    return server["in_service"] and not (condition == HELD and server["never_out"]) or server["restoring"] or is_old


def _conflict(label: str, server: Json) -> str:
    told = f" to {server['text']!r}, and {server['left']!r} was expected" if server.get("text") and server.get("left") else ""
    return left_as_it_is(f"changed {label}{told}")
