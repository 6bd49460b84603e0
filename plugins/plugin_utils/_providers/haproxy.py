# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""HAProxy: what a look at it (module haproxy_info) means for the hosts behind it. Private to the collection; pure."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.plugin_utils._planning.addresses import address_text
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import Machine
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import fold
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import CHANGED, FREE, HELD, Count, Group, Place, Provider, Traffic
from ansible_collections.graceful.azure.plugins.plugin_utils._text import clock, plural

CONDITIONS = {"none": FREE, "already_out": FREE, "held": HELD, "lost": HELD, "changed_meanwhile": CHANGED}
"""What the conditions of a server that haproxy_info tells mean for the plan."""
NOT_LOOKED_AT = Machine("", {}, None)


def _keys(settings):
    """The machines of a host's balancers, each with its key: the machine's inventory name and the runtime socket of one HAProxy."""
    return [(machine, f"{machine} {settings['socket']}") for machine in settings["hosts"]]


def _is_named(settings, server):
    """Whether a server is a host's by its name."""
    return server["server"] == settings["server"] and (not settings["backends"] or server["backend"] in settings["backends"])


def _is_held_for(settings, record):
    """Whether a record is about a host's server, or about one of another name that was taken out with it."""
    backends = settings["backends"]
    name = record.for_server or record.subject.get("server")
    return name == settings["server"] and (not backends or record.subject.get("backend") in backends)


def _carries_nothing(settings, machine):
    """Whether no HAProxy runs on a machine, and the settings say that it carries no traffic then."""
    return bool(machine.look.get("absent")) and settings.get("absent") == "no_traffic"


def _servers(machine):
    """The servers on a machine, or None if these could not be read."""
    return None if machine.look.get("absent") else machine.look.get("servers")


class Haproxy(Provider):
    name = "haproxy"
    title = "HAProxy"
    may_forget = True

    def traffic(self, host, hosts, machines, addresses):
        settings = host.settings.load_balancer
        places, unread, mistakes, absent = [], [], [], []
        helpless = True
        for name, key in _keys(settings):
            machine = machines.get(key) or NOT_LOOKED_AT
            if _carries_nothing(settings, machine):
                absent.append(name)
            elif _servers(machine) is None:
                helpless = helpless and bool(machine.look.get("fatal"))
                unread.append(f"balancer {name}: {machine.look.get('fatal') or machine.look.get('error') or 'not observed'}")
            else:
                found = _places(host, hosts, name, machine, addresses)
                places.extend(found)
                if not any(place.by_name for place in found):
                    where = f"none of the backends {', '.join(settings['backends'])}" if settings["backends"] else "no backend"
                    mistakes.append(f"balancer {name}: {where} has a server {settings['server']!r} (load_balancer_server)")
        if absent and len(absent) == len(set(settings["hosts"])):
            # One of a pair is to be active, and is perhaps about to become so.
            unread.append(f"no HAProxy runs on any of its balancers ({', '.join(absent)})")
            helpless = False
        keys = dict(_keys(settings))
        not_running = {name: machines[keys[name]].look["clock"] for name in absent}
        return Traffic(tuple(places), any(place.serves for place in places), tuple(unread), helpless, tuple(mistakes), not_running)

    def records(self, host, machines):
        settings = host.settings.load_balancer
        keys = {key for _name, key in _keys(settings)}
        for key in (key for key in machines if key in keys):
            machine = machines[key]
            named = {(server["backend"], server["server"]) for server in _servers(machine) or () if _is_named(settings, server)}
            for record in machine.records or ():
                name = record.subject.get("server")
                if record.for_server:
                    is_mine = _is_held_for(settings, record)
                else:
                    # Where no HAProxy runs, a hold of the time before has to be released.
                    is_mine = (record.subject.get("backend"), name) in named or _carries_nothing(settings, machine) and name == settings["server"]
                if is_mine:
                    yield record, machine.look.get("time")

    def out_since(self, record, entry, is_new):
        return (entry.since,) if record.kind == "haproxy_server" else None

    def arrived(self, host, place, came, begun):
        told = (
            f"{plural(came, 'session')} came to {place.name} since {clock(begun)} although it is in {place.state}:"
            " look for use-server, option persist, force-persist and stick in the configuration of HAProxy"
        )
        if place.state == "drain" and host.settings.load_balancer.get("state") == "drain":
            told += "; load_balancer_haproxy_state: drain keeps it from going on to maint"
        return told

    def looks(self, settings, waits, searched):
        found, draining = {}, {}
        for name, values in settings.items():
            if name in waits:
                draining[values["server"]] = max(draining.get(values["server"], 0.0), waits[name])
            for machine, key in _keys(values):
                first = {"key": key, "balancer": machine, "socket": values["socket"], "servers": [], "absent": "unknown", "addresses": []}
                look = found.setdefault(key, first)
                if values.get("hard_stop_after") is not None:
                    look["hard_stop_after"] = values["hard_stop_after"]
                if values.get("absent") == "no_traffic":
                    look["absent"] = "no_traffic"
                if values["server"] not in look["servers"]:
                    look["servers"].append(values["server"])
                look["addresses"].extend(searched(name, key))
        for look in found.values():
            wait_for = [server for server in look["servers"] if server in draining]
            look.update(wait_for=wait_for, quiet=max((draining[server] for server in wait_for), default=0.0))
        return list(found.values())


def _places(host, hosts, name, machine, addresses):
    """The host's places on one machine: its servers by name, then those of other names that lead to it.

    A name may lead elsewhere since the hold was put (C(set server addr), C(server-template)), or have led elsewhere all along.
    """
    settings, servers = host.settings.load_balancer, _servers(machine)
    places = [_place(host, name, machine, server) for server in servers if _is_named(settings, server)]
    led = [record.leads_to for record in machine.records or () if record.leads_to and _is_held_for(settings, record)]
    named = {server.get("address") for server in servers if _is_named(settings, server)}
    for server in servers:
        if _is_named(settings, server) or settings["backends"] and server["backend"] not in settings["backends"]:
            continue
        if addresses.leads_to(host, (server.get("address"), server.get("port")), led, named, machine.look):
            places.append(_place(host, name, machine, server, address_text(server["address"], server.get("port")), _owner(host, hosts, machine.key, server)))
    return places


def _owner(host, hosts, key, server):
    """The other target to which a server belongs by its name, or None."""
    for other in hosts.values():
        settings = other.settings.load_balancer
        if other is not host and settings["provider"] == Haproxy.name and _is_named(settings, server):
            if key in [known for _name, known in _keys(settings)]:
                return other.name
    return None


def _place(host, name, machine, server, leads_to="", owner=None):
    settings = host.settings.load_balancer
    label = f"{server['backend']}/{server['server']} on {name}"
    state, condition = server["admin_state"], CONDITIONS[server["condition"]]
    in_rotation = state == "ready"
    count = None
    if not in_rotation and "total_sessions" in server:  # a journal of a version before does not tell
        count = Count(machine.look["process"], machine.look["clock"], server["total_sessions"], server.get("quiet_for", 0.0))
    # A look that waited for the end of the last session has looked twice.
    is_waited_for = not leads_to and settings["server"] in ((machine.look.get("look") or {}).get("wait_for") or ())
    return Place(
        name=label,
        machine=name,
        in_rotation=in_rotation,
        state=state,
        serves=server["in_service"],
        busy=_busy(label, server, leads_to),
        count=count,
        looks=2 if is_waited_for and server["idle"] else 1,
        condition=condition,
        held_by=frozenset(map(fold, server["held_by"])),
        must_go_out=_must_go_out(settings, server, condition, owner),
        by_name=not leads_to,
        leads_to=leads_to,
        owner=owner,
        group=Group(
            (machine.key, server["backend"]),
            f"{server['backend']} on {name}",
            tuple(other for other in machine.look["servers"] if other["backend"] == server["backend"]),
        ),
        member=server["server"],
        pool_address=server.get("source_address"),
        checked=server.get("checked", True),  # a look by an older release of the modules does not tell
        returns="serves again when its name resolves" if server.get("returns_by_itself") else "",
        conflict=f"somebody else set {label} to {state}: left as it is" if condition == CHANGED else "",
        note=_note(label, server, leads_to),
    )


def _busy(label, server, leads_to):
    if server["admin_state"] == "ready":
        too = f", which leads to {leads_to} too," if leads_to else ""
        return (f"{label}{too} is in rotation",)
    if server["sessions"] or server["queue"]:
        return (f"{plural(server['sessions'], 'session')}, {server['queue']} queued at {label}",)
    return (f"{label}: {server['uncounted']}",) if server.get("uncounted") else ()


def _must_go_out(settings, server, condition, owner):
    """Whether the role load_balancer has something to do at a server, whoever holds it."""
    state = server["admin_state"]
    # Sessions came in drain, and nobody wants it to stay at that. In maint no directive but those of persistence sends it anything.
    if server["condition"] == "held" and state == "drain" and server.get("arrived") and settings.get("state") != "drain":
        return True
    if condition == CHANGED or owner:
        return False
    # Out only because its name does not resolve: nobody may count on that.
    comes_back = bool(server.get("returns_by_itself")) and server["condition"] in ("none", "lost")
    # The hold is to be put again: it is being released, or HAProxy kept the state over a reload. Then the new process belongs into the
    # record. Otherwise a person who sets the server to ready is taken for a HAProxy that has lost its state. It happens once after each reload.
    is_old = condition == HELD and (server.get("restoring") or not server.get("process_noted", True))
    return state == "ready" or comes_back or bool(is_old)


def _note(label, server, leads_to):
    """What is to be told of a server that leads elsewhere than its name says."""
    if leads_to:
        return "" if server["admin_state"] == "ready" else f"{label} leads to {leads_to} too and is out"
    led, address, port = server.get("leads_to"), server.get("address"), server.get("port")
    if not led or address is None or led == {"address": address, "port": port}:
        return ""
    return (
        f"{label} led to {address_text(led.get('address') or '', led.get('port'))} when it was taken out and leads to"
        f" {address_text(address, port)} now; it stays out until it is given back"
    )
