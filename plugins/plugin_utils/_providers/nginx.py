# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nginx: what an observation of it (module nginx_info) means for the hosts behind it. Private to the collection; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.plugin_utils._planning.addresses import Addresses
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import NOT_LOOKED_AT, Entry, MachineObservation, Machines, Record
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import fold
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import (
    CHANGED,
    FREE,
    HELD,
    Group,
    NextLook,
    Place,
    Provider,
    Searched,
    Traffic,
    longest_waits,
    look_at_servers,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._steps import nginx as words
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, Json, Options, StepJson

if TYPE_CHECKING:
    from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host

CONDITIONS = {"none": FREE, "already_out": FREE, "held": HELD, "lost": HELD, "changed_meanwhile": CHANGED}
"""The conditions of a server in the result of nginx_info, and what they mean for the plan."""


def _keys(settings: BalancerSettings) -> list[tuple[str, str]]:
    """The machines of a host's balancers, each with its key: the machine's inventory name and the configuration of one nginx."""
    return [(machine, f"{machine} nginx {settings['configuration'] or ''}".strip()) for machine in settings["hosts"]]


def _key_of(server: Json) -> tuple[str, str, str, str]:
    return server["context"], server["upstream"], server["server"], server["file"]


class Nginx(Provider):
    name = "nginx"
    title = "nginx"
    where = ("nginx_configuration",)
    unclaimed = (
        "is about a file that belongs to the configuration of no nginx that was looked at. It is not released. To release it, let nginx include"
        " the file again. If the file is of no more use, nothing is held any more: delete the record."
    )

    def traffic(self, settings: BalancerSettings, host: Host, hosts: dict[str, Host], machines: Machines, addresses: Addresses) -> Traffic:
        places: list[Place] = []
        unread: list[str] = []
        mistakes: list[str] = []
        helpless = True
        for name, key in _keys(settings):
            machine = machines.get(key) or NOT_LOOKED_AT
            if machine.result.get("servers") is None:
                helpless = helpless and bool(machine.result.get("fatal"))
                unread.append(f"balancer {name}: {machine.result.get('fatal') or machine.result.get('error') or 'not observed'}")
                continue
            files = machine.result.get("files")
            found = [_place(name, machine, server) for server in machine.result["servers"] if words.is_named(settings, server, files)]
            places.extend(found)
            mistakes.extend(words.mistakes_in(settings, name, machine.result))
            problem = machine.result.get("configuration_problem")
            if problem and any(place.must_go_out for place in found):
                mistakes.append(f"balancer {name}: the configuration of nginx has a mistake already: {problem}")
        return Traffic(tuple(places), any(place.serves for place in places), tuple(unread), helpless, tuple(mistakes))

    def records(self, settings: BalancerSettings, machines: Machines) -> Iterator[tuple[Record, MachineObservation]]:
        keys = {key for _name, key in _keys(settings)}
        for key in (key for key in machines if key in keys):
            machine = machines[key]
            for record in machine.records or ():
                # Whatever the files are that the settings name now: they may have been others when the hold was put.
                if record.kind == "nginx_server" and record.subject["server"] == settings["server"]:
                    yield record, machine

    def out_since(self, record: Record, entry: Entry, is_new: bool) -> tuple[str | None, ...] | None:
        return (entry.since,) if record.kind == "nginx_server" else None

    def looks(self, settings: Sequence[tuple[str, BalancerSettings]], waits: Mapping[str, float], searched: Searched) -> Iterator[NextLook]:
        found: dict[str, tuple[str, Options]] = {}
        for _name, values in settings:
            for machine, key in _keys(values):
                _machine, options = found.setdefault(key, (machine, {"servers": [], "files": []}))
                if values["configuration"]:
                    options["configuration"] = values["configuration"]
                if values["server"] not in options["servers"]:
                    options["servers"].append(values["server"])
                options["files"].extend(path for path in values["files"] if path not in options["files"])
        longest = longest_waits(settings, waits)
        for key, (machine, options) in found.items():
            yield look_at_servers(key, machine, "nginx_info", options, longest)

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
                    "files": settings["files"] or None,
                    "configuration": settings["configuration"],
                    "min_in_service": step.get("min_in_service"),
                    **hold,
                },
            )

    def shows(self, result: Json, act: Json) -> bool:
        def held(servers: Iterable[Json] | None) -> dict[tuple[str, str, str, str], set[str]]:
            return {_key_of(server): set(map(fold, server["held_by"])) for server in servers or ()}

        told, seen = held(act.get("servers")), held(result.get("servers"))
        return bool(told) and all(seen.get(key) == held_by for key, held_by in told.items())

    def names(self, record: Json) -> tuple[str, str]:
        name = record["subject"]["server"]
        return name, name

    def shown(self, record: Json) -> dict[str, str]:
        subject = record["subject"]
        return {"held": f"{record['kind']} {subject['upstream']}/{subject['server']} ({subject['context']})", "socket": subject["file"]}

    def give_back(self, record: Json, options: Options) -> tuple[str, Options]:
        subject = record["subject"]
        found = {"server": subject["server"], "files": [subject["file"]], "state": "absent"}
        return "nginx_hold", dict(found, **({"configuration": options["configuration"]} if options.get("configuration") else {}))


def _place(name: str, machine: MachineObservation, server: Json) -> Place:
    label = words.place_name(name, server)
    condition = CONDITIONS[server["condition"]]
    in_rotation = server["in_service"]
    is_waited_for = server["server"] in machine.waited_for
    return Place(
        name=label,
        machine=name,
        in_rotation=in_rotation,
        state=words.state_of(server),
        serves=in_rotation,
        busy=words.still_there(label, server),
        seen=machine.looked_at,
        looks=machine.looks(twice=is_waited_for and server["idle"]),
        condition=condition,
        held_by=frozenset(map(fold, server["held_by"])),
        must_go_out=_must_go_out(server, condition),
        group=Group(
            (machine.key, server["context"], server["upstream"]),
            f"upstream {server['upstream']} on {name}",
            tuple(
                dict(other, server=f"{other['file']} {other['server']}")
                for other in machine.result["servers"]
                if (other["context"], other["upstream"]) == (server["context"], server["upstream"])
            ),
        ),
        member=f"{server['file']} {server['server']}",
        # Open-source nginx checks no server: it learns from failed requests.
        checked=False,
        conflict=f"somebody else changed {label}: left as it is" if condition == CHANGED else "",
    )


def _must_go_out(server: Json, condition: str) -> bool:
    """Whether the role load_balancer has something to do, whoever holds it."""
    # An operator's own parameter down is never touched, even if nginx has not loaded it yet.
    if condition == CHANGED or server["condition"] == "already_out":
        return False
    # If the run that took it out was cut off, the record does not say since when nginx has loaded the line. If a person then removes the
    # parameter, it would look as if the line had never been changed.
    is_old = condition == HELD and not server.get("noted", True)
    return server["in_service"] or server["restoring"] or is_old
