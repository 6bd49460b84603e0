# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.
# Do not use this from other collections or standalone plugins/modules!

"""A host as a server in the upstreams of nginx, on the machine on which nginx runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._balancer_machine import machine_facts
from ansible_collections.graceful.azure.plugins.module_utils._connections import ConnectionsError
from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import CHANGING, IN, OUT, QUIET, Duty, no_seconds, of_balancer, outcome
from ansible_collections.graceful.azure.plugins.module_utils._duties.words import nginx_server, nginx_stays
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_servers import parse_places
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Engine
from ansible_collections.graceful.azure.plugins.module_utils._minimum import parse_minimum
from ansible_collections.graceful.azure.plugins.module_utils._nginx import Nginx, NginxError, Refused
from ansible_collections.graceful.azure.plugins.module_utils._nginx_addresses import Resolver
from ansible_collections.graceful.azure.plugins.module_utils._nginx_configuration import ConfigurationError
from ansible_collections.graceful.azure.plugins.module_utils._nginx_hold import Look, Servers, Silence
from ansible_collections.graceful.azure.plugins.module_utils._spellings import is_same_host, place_of, spelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import Act, Machine
    from ansible_collections.graceful.azure.plugins.module_utils._spellings import Place

    # A server in a result: its context, its upstream, its address and its file.
    Key = tuple[str, str, str, str]


class NginxDuty(Duty):
    type = "nginx"
    traffic = True
    of_balancer = True
    driver_errors = (NginxError, ConfigurationError, ConnectionsError)
    options = {
        "hosts": {"type": "list", "elements": "str", "required": True},
        "server": {"type": "str"},
        "files": {"type": "list", "elements": "path", "default": []},
        "configuration": {"type": "path"},
        "quiet": QUIET,
    }

    def __init__(self, name: str, options: dict[str, Any], machine: Machine) -> None:
        super().__init__(name, options, machine)
        self._server: str = options["server"]
        self._files: list[str] = options["files"]

    @classmethod
    def mistakes(cls, name: str, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
        yield from of_balancer(options)
        yield from no_seconds("quiet", options["quiet"])
        for path in options["files"]:
            if not os.path.isabs(path):
                yield "files", "%r is not an absolute path; write one that begins with /" % path

    def look(self) -> dict[str, Any]:
        nginx, resolver, store = self._nginx(), Resolver(), self.machine.store()

        def see() -> Look:
            return Look(nginx, store, resolver=resolver)

        found, problem = tested(nginx, see, see())
        servers, passes = self._mine(found)
        if not servers:
            where = "None of the files %s" % ", ".join(self._files) if self._files else "No upstream in the configuration %s" % nginx.configuration
            return self.unseen("%s has a server %r (option server)." % (where, self._server))
        silence = Silence(resolver, found.has_udp)
        silence.ask(found.lines[key_of(server)] for server in servers if server["in_service"])
        for server in servers:
            server["silent"] = silence.of(found.lines[key_of(server)]) if server["in_service"] else None
        there = [server for server in servers if server["in_service"]]
        facts = machine_facts(store.state_dir)
        busy = [sentence for server in servers for sentence in nginx_server("%s in upstream %s" % (server["server"], server["upstream"]), server)]
        busy += [nginx_stays("%s in %s, line %s," % (line["text"].rstrip(";"), line["file"], line["line"])) for line in passes]
        return self.seen(
            CHANGING if any(server["restoring"] for server in servers) or 0 < len(there) < len(servers) else IN if there else OUT,
            any(not server["silent"] for server in there),
            busy=busy,
            held_by=[event_id for server in servers for event_id in server["held_by"]],
            why=[sentence for server in servers for sentence in _others(server)],
            problem=problem or rights_problem(nginx, servers) or facts["state_dir_problem"],
            details=dict(
                facts,
                process=nginx.process,
                configuration=nginx.configuration,
                configuration_problem=problem,
                servers=found.servers,
                passes=found.passes,
                holds=found.holds,
                other_holds=found.others,
                files={path: os.path.realpath(path) if os.path.realpath(path) in found.files else None for path in self._files},
                beside={text: sum(found.beside(*place) for place in parse_places([text])) for text in self.searched},
                clock=self.machine.monotonic(),
            ),
        )

    def out(self, act: Act) -> dict[str, Any]:
        return self._change(act)

    def back(self, act: Act) -> dict[str, Any]:
        return self._change(act)

    def _change(self, act: Act) -> dict[str, Any]:
        machine, store, request = self.machine, self.machine.store(), act.request
        least = None if act.min_in_service is None else parse_minimum(act.min_in_service)
        places = None if act.addresses is None else parse_places(act.addresses)
        servers = Servers(self._nginx(), store, request, self._server, self._files or None, least, dry=machine.check_mode, places=places)
        engine = Engine(servers, store, request, machine.monotonic, machine.sleep)
        engine.run()
        up = [server for server in map(servers.describe, engine.current) if request.present and not server["down"]]
        return outcome(engine, still=["%s in upstream %s is in rotation" % (server["server"], server["upstream"]) for server in up])

    def _nginx(self) -> Nginx:
        return Nginx(self.machine.run_command, self.given["configuration"])

    def _mine(self, found: Look) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The host's lines: by its address, held for it, or leading to the same host; and the directives that pass requests there themselves."""
        wanted = [os.path.realpath(path) for path in self._files]
        lines = [server for server in found.servers if not wanted or server["file"] in wanted]
        named = [server for server in lines if spelled(server["server"]) == spelled(self._server)]
        own: set[Place] = {place for server in named for place in _places(server)}
        mine = [
            server
            for server in lines
            if server in named or named and (server["for_server"] == self._server or any(is_same_host(place, own) for place in _places(server)))
        ]
        passes = [line for line in found.passes if (not wanted or line["file"] in wanted) and any(is_same_host(place, own) for place in _places(line))]
        return mine, passes


def tested(nginx: Nginx, look: Callable[[], Look], found: Look) -> tuple[Look, str | None]:
    """A look at a configuration that nginx reads as we do, and what nginx says against it. ``found``: the first look."""
    for is_last in (False, False, True):
        try:
            difference = found.configuration.differs_from(nginx.check())
        except Refused as error:
            return found, str(error)
        if difference is None:
            return found, None
        if is_last:
            raise NginxError("The configuration %s cannot be read as nginx reads it: %s" % (nginx.configuration, difference))
        # Somebody may just be writing a file.
        found = look()
    raise AssertionError("the last round returns or raises")


def key_of(server: dict[str, Any]) -> Key:
    return server["context"], server["upstream"], server["server"], server["file"]


def rights_problem(nginx: Nginx, servers: Iterable[dict[str, Any]]) -> str | None:
    """Why nginx could not be changed with the rights of this task."""
    try:
        os.kill(nginx.pid, 0)
    except PermissionError:
        return "user id %d may not signal nginx (process %d): give the task the rights (become)" % (os.geteuid(), nginx.pid)
    except ProcessLookupError:
        return "the master process %d of nginx has ended" % nginx.pid
    for path in sorted({server["file"] for server in servers}):
        if not os.access(os.path.dirname(path), os.W_OK):
            return "the folder of %s cannot be written by user id %d" % (path, os.geteuid())
    return None


def _places(line: dict[str, Any]) -> list[Place]:
    return [place_of(told) for told in line["leads_to"]]


def _others(server: dict[str, Any]) -> Iterator[str]:
    """What was not our doing, in sentences."""
    place, condition = "%s in upstream %s" % (server["server"], server["upstream"]), server["condition"]
    if condition == "changed_meanwhile":
        yield "somebody else changed the line of %s: it is %r, and the hold left %r" % (place, server["text"], server["left"])
    elif condition == "already_out":
        yield "somebody else gave %s the parameter down" % place
    elif condition == "lost":
        yield "%s is in rotation: the run that was to take it out was cut off" % place
