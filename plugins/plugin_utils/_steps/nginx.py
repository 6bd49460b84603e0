# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nginx: what its options say, and what the results of its modules mean, in words. Private to the collection; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._duties.words import nginx_server, nginx_stays
from ansible_collections.graceful.azure.plugins.module_utils._spellings import is_same_host, place_of, spelled
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

if TYPE_CHECKING:
    from ansible_collections.graceful.azure.plugins.module_utils._spellings import Place

IN_ROTATION = "in rotation"
DOWN = "down"


def place_name(machine: str, server: Json) -> str:
    return f"{server['server']} in upstream {server['upstream']} on {machine}"


def state_of(server: Json) -> str:
    """Its state as the plan shows it."""
    return IN_ROTATION if server["in_service"] else DOWN


def is_named(settings: BalancerSettings, server: Json, files: Mapping[str, str | None] | None) -> bool:
    """Whether a line has a host's own address. C(files): per file of the settings its path without symbolic links, as nginx_info returned it."""
    return spelled(server["server"]) == spelled(settings["server"]) and is_in_files(settings, server, files)


def is_in_files(settings: BalancerSettings, line: Json, files: Mapping[str, str | None] | None) -> bool:
    """Whether a line is in the files that the settings name, if they name any."""
    wanted = [(files or {}).get(path) or path for path in settings["files"]]
    return not wanted or line["file"] in wanted


def places_of(line: Json) -> set[Place]:
    """Where a line leads."""
    return {place_of(told) for told in line.get("leads_to") or ()}  # journals of older releases do not have it


def directive_name(machine: str, line: Json) -> str:
    """A directive that passes requests on itself."""
    return f"{line['text'].rstrip(';')} in {line['file']}, line {line['line']}, on {machine}"


def stays(machine: str, line: Json) -> str:
    """The sentence about a directive that passes requests to a host itself."""
    return nginx_stays(directive_name(machine, line))


def beside(machine: str, address: str, connections: int) -> str:
    """The sentence about connections to a host that belong to none of its lines."""
    return f"{plural(connections, 'connection')} of nginx on {machine} to {address}, without an upstream"


def has_no_server(settings: BalancerSettings, machine: str, present: Sequence[str] = ()) -> str:
    where = f"none of the files {', '.join(settings['files'])}" if settings["files"] else "no upstream"
    has = f"; there are {', '.join(present[:20])}" if present else ""
    return f"balancer {machine}: {where} has a server {settings['server']!r} (load_balancer_server){has}"


def mistakes_in(settings: BalancerSettings, machine: str, result: Result) -> Iterator[str]:
    """Sentences: what a look says that forbids to change a host's server there."""
    files = result.get("files") or {}
    named = [server for server in result["servers"] if is_named(settings, server, files)]
    for path in settings["files"]:
        if path in files and files[path] is None:
            yield f"balancer {machine}: {path} is not part of the configuration {result['configuration']} of nginx (load_balancer_nginx_files)"
        elif not any(server["file"] == (files.get(path) or path) for server in named):
            yield f"balancer {machine}: {path} has no server {settings['server']!r} in an upstream (load_balancer_server)"
    if not named and not settings["files"]:
        yield has_no_server(settings, machine, result.get("present") or ())
    seen = set()
    for server in named:
        upstream = server["context"], server["upstream"]
        if server["double"] or (upstream, server["server"]) in seen:
            yield f"balancer {machine}: upstream {server['upstream']} has the server {server['server']!r} more than once: leave one of the lines"
        seen.add((upstream, server["server"]))


class Nginx(Balancer):
    one_for_each_machine = {"nginx_configuration": "configuration"}

    options = {
        "hosts": HOSTS,
        "server": {"type": "str"},
        "files": {"type": "list", "elements": "path"},
        "configuration": {"type": "path"},
        "quiet": QUIET,
    }

    def settings(self, options: Options, host: str) -> BalancerSettings:
        return {
            "files": [str(path) for path in options.get("files") or ()],
            "configuration": str(options.get("configuration") or "") or None,
        }

    def mistakes(self, options: Options) -> Iterable[tuple[str, str]]:
        return without_hosts(options)

    def claims(self, settings: BalancerSettings) -> Iterator[Claim]:
        for machine in settings["hosts"]:
            for path in settings["files"] or [None]:
                yield machine, (machine, settings["configuration"], spelled(settings["server"])), path

    def judge(self, settings: BalancerSettings, direction: str, acts: Sequence[Result], check_mode: bool = False) -> RoleResult:
        hosts = settings["hosts"]
        in_rotation = direction == "out" and any(not server["down"] for server in gathered(acts, "servers"))
        return of_machines(hosts, acts, in_rotation, trouble_at(hosts, acts) or _state(settings, acts))

    def looks_at(self, settings: BalancerSettings) -> list[str]:
        return list(settings["hosts"])

    def busy(self, settings: BalancerSettings, looks: Sequence[Result]) -> list[str]:
        if not settings["hosts"]:
            return ["load_balancer_hosts is empty"]
        return [sentence for look in looks for sentence in _busy_on(settings, look)]


def _state(settings: BalancerSettings, acts: Sequence[Result]) -> Iterator[str]:
    """Phrases: what is held, and where."""
    held = any(server["held_by"] for server in gathered(acts, "servers"))
    yield f"{settings['server']} is {'held' if held else 'not held'}"
    for act in acts:
        for server in act.get("servers") or ():
            yield f"({server['upstream']} on {act['item']}: {DOWN if server['down'] else IN_ROTATION})"


def _busy_on(settings: BalancerSettings, look: Result) -> list[str]:
    """Sentences: which connections one machine still has for the host, or that this is unknown."""
    machine = str(look.get("item"))
    if is_unreachable(look):
        return [f"{machine} cannot be reached"]
    if is_failed(look):
        return [f"{machine}: {look.get('msg')}"]
    if is_skipped(look):
        return []
    files = look.get("files")
    named = [server for server in look["servers"] if is_named(settings, server, files)]
    if not named:
        return [has_no_server(settings, machine)]
    own: Collection[Place] = {place for server in named for place in places_of(server)}
    led = [server for server in look["servers"] if server not in named and is_in_files(settings, server, files)]
    # What the role takes out with it: lines that it holds for this host, and others that lead to the same host.
    servers = named + [server for server in led if server.get("for_server") == settings["server"] or any(is_same_host(at, own) for at in places_of(server))]
    passes = [line for line in look.get("passes") or () if is_in_files(settings, line, files) and any(is_same_host(at, own) for at in places_of(line))]
    sentences = [sentence for server in servers for sentence in nginx_server(place_name(machine, server), server)]
    sentences += [stays(machine, line) for line in passes]
    # Other lines are none of this host's.
    if sentences or all(server["idle"] for server in servers):
        return sentences
    return [f"{machine} was busy until just now"]
