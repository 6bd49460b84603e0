# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""HAProxy: what its options say, and what the results of its modules mean, in words. Private to the collection; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ansible_collections.graceful.azure.plugins.module_utils._duties.words import haproxy_server
from ansible_collections.graceful.azure.plugins.module_utils._pools import Pool
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.balancer import HOSTS, QUIET, Balancer, Claim, without_hosts
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import (
    RoleResult,
    gathered,
    is_failed,
    is_skipped,
    is_unreachable,
    of_machines,
    trouble_at,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._text import plural
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, Json, Options, Result

SOCKET = "/run/haproxy/admin.sock"


def place_name(machine: str, server: Json) -> str:
    return f"{server['backend']}/{server['server']} on {machine}"


def pools_of(server: Json) -> list[Pool]:
    """The connections that HAProxy keeps to a server, which are no requests. A server in rotation is busy anyway."""
    if server["admin_state"] != "ready" and server.get("own_ports") is not None:
        return [Pool(address, ports) for address, ports in sorted(server["own_ports"].items())]
    if not server.get("source_address"):
        return []
    # Journals of older releases do not have the number.
    is_told = server["admin_state"] != "ready" and "connections" in server
    return [Pool(server["source_address"], None, server["connections"] or 0, server.get("port")) if is_told else Pool(server["source_address"])]


def came(settings: BalancerSettings, place: str, state: str, number: int, since: str) -> str:
    """The sentence about sessions that came to a server that is out. C(since): a time, or words for it."""
    told = (
        f"{plural(number, 'session')} came to {place} since {since} although it is in {state}:"
        " look for use-server, option persist, force-persist and stick in the configuration of HAProxy"
    )
    if state == "drain" and settings.get("state") == "drain":
        told += "; load_balancer_haproxy_state: drain keeps it from going on to maint"
    return told


def is_named(settings: BalancerSettings, server: Json) -> bool:
    """Whether a server is the host's by its name."""
    return server["server"] == settings["server"] and (not settings.get("backends") or server["backend"] in settings["backends"])


def backends_on(settings: BalancerSettings, machine: str) -> list[str]:
    """The backends in which the name is the host's, on one machine; empty for all. A step of the playbook may have found them out (C(only_in))."""
    found: list[str] = (settings.get("only_in") or {}).get(f"{machine} {settings['socket']}") or settings.get("backends") or []
    return found


def runs_nowhere(machines: Iterable[str]) -> str:
    return f"no HAProxy runs on any of its balancers ({', '.join(machines)})"


def has_no_server(settings: BalancerSettings, machine: str) -> str:
    where = f"none of the backends {', '.join(settings['backends'])}" if settings.get("backends") else "no backend"
    return f"balancer {machine}: {where} has a server {settings['server']!r} (load_balancer_server)"


def is_left_alone(place: str, at: str, host: str) -> str:
    return (
        f"{place} leads to {at}, which is no address of {host}, so it is another machine's and stays as it is."
        " If it is not, name the backends of the host in load_balancer_haproxy_backends"
    )


def name_decides(place: str, at: str, host: str) -> str:
    return (
        f"{place} leads to {at}, which is no address of {host}. Its name decides: it goes out with {host}."
        " If it is another machine's, set load_balancer_server or load_balancer_haproxy_backends"
    )


class Haproxy(Balancer):
    one_for_each_machine = {"haproxy_socket": "socket"}
    options = {
        "hosts": HOSTS,
        "server": {"type": "str"},
        "socket": {"type": "path", "default": SOCKET},
        "backends": {"type": "list", "elements": "str"},
        "state": {"type": "str", "choices": ["drain", "maint"]},
        "quiet": QUIET,
        "hard_stop_after": {"type": "float"},
        "absent": {"type": "str", "choices": ["unknown", "no_traffic"], "default": "unknown"},
    }

    def settings(self, options: Options, host: str) -> BalancerSettings:
        return {
            "socket": str(options.get("socket") or SOCKET),
            "hard_stop_after": options.get("hard_stop_after"),
            "state": options.get("state") or None,
            "absent": options.get("absent") or "unknown",
            "backends": [str(backend) for backend in options.get("backends") or ()],
        }

    def mistakes(self, options: Options) -> Iterable[tuple[str, str]]:
        return without_hosts(options)

    def claims(self, settings: BalancerSettings) -> Iterator[Claim]:
        for machine in settings["hosts"]:
            for backend in settings["backends"] or [None]:
                yield machine, (machine, settings["socket"], settings["server"]), backend

    def judge(self, settings: BalancerSettings, direction: str, acts: Sequence[Result], check_mode: bool = False) -> RoleResult:
        out, hosts = direction == "out", settings["hosts"]
        # If no machine runs HAProxy, nobody knows where the traffic goes.
        nowhere = out and _is_absent(acts, hosts)
        in_rotation = out and any(server["admin_state"] == "ready" for server in gathered(acts, "servers"))
        waits = bool(gathered(acts, "waiting_for"))
        trouble = ["No" + runs_nowhere(hosts)[2:] + "."] if nowhere else []
        trouble.extend(trouble_at(hosts, acts))
        return of_machines(hosts, acts, nowhere or in_rotation or waits, trouble or _state(settings, acts))

    def looks_at(self, settings: BalancerSettings) -> list[str]:
        return list(settings["hosts"])

    def busy(self, settings: BalancerSettings, looks: Sequence[Result]) -> list[str]:
        if not settings["hosts"]:
            return ["load_balancer_hosts is empty"]
        sentences = [runs_nowhere(settings["hosts"])] if _is_absent(looks, settings["hosts"]) else []
        return sentences + [sentence for look in looks for sentence in _busy_on(settings, look)]

    def pools(self, settings: BalancerSettings, looks: Sequence[Result]) -> list[Pool]:
        return [pool for look in looks for server in _servers_of(settings, look) for pool in pools_of(server)]


def _is_absent(results: Iterable[Result], machines: Sequence[str]) -> bool:
    return sum(bool(result.get("absent")) for result in results) == len(machines)


def _state(settings: BalancerSettings, acts: Sequence[Result]) -> Iterator[str]:
    """Phrases: what is held, and where."""
    held = any(server["held_by"] for server in gathered(acts, "servers"))
    yield f"{settings['server']} is {'held' if held else 'not held'}"
    for act in acts:
        if act.get("absent"):
            yield f"(no HAProxy runs on {act['item']})"
        for server in act.get("servers") or ():
            name = server["backend"] if server["server"] == settings["server"] else f"{server['backend']}/{server['server']}"
            yield f"({name} on {act['item']}: {server['admin_state']})"


def _servers_of(settings: BalancerSettings, look: Result) -> list[Json]:
    """The host's servers on one machine."""
    found = dict(settings, backends=backends_on(settings, str(look.get("item"))))
    return [server for server in look.get("servers") or () if is_named(found, server)]


def _busy_on(settings: BalancerSettings, look: Result) -> list[str]:
    """Sentences: which requests one machine still has for the host, or that this is unknown."""
    machine = str(look.get("item"))
    if is_unreachable(look):
        return [f"{machine} cannot be reached"]
    if is_failed(look):
        return [f"{machine}: {look.get('msg')}"]
    if is_skipped(look) or look.get("absent"):
        return []
    servers = _servers_of(settings, look)
    if not servers:
        return [has_no_server(settings, machine)]
    # Those of other names that were taken out with it, because they lead to the same machine.
    servers += [server for server in look["servers"] if server.get("for_server") == settings["server"]]
    sentences = [sentence for server in servers for sentence in haproxy_server(place_name(machine, server), server)]
    if sentences or all(server["idle"] for server in servers):
        return sentences
    arrived = [server for server in servers if server.get("arrived")]
    return [came(settings, place_name(machine, server), server["admin_state"], server["arrived"], "it was taken out") for server in arrived] or [
        f"{machine} was busy until just now"
    ]
