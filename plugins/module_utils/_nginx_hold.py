# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Holds on servers of nginx: the driver for the hold engine. It adds the parameter C(down) to a server's line and removes it again."""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Optional

from ansible_collections.graceful.azure.plugins.module_utils._conditions import ALREADY_OUT, AS_LEFT, CHANGED_MEANWHILE, LOST, NONE
from ansible_collections.graceful.azure.plugins.module_utils._connections import ConnectionsError
from ansible_collections.graceful.azure.plugins.module_utils._file_systems import mount_of, replace_by, sync_folder
from ansible_collections.graceful.azure.plugins.module_utils._health_check import silent_places
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Driver
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import (
    CHANGING,
    HELD,
    RESTORING,
    HoldError,
    holders,
    is_noted,
    new_record,
    parse_record,
    to_bytes,
)
from ansible_collections.graceful.azure.plugins.module_utils._minimum import shortage, stays
from ansible_collections.graceful.azure.plugins.module_utils._netlink import NetlinkError
from ansible_collections.graceful.azure.plugins.module_utils._nginx import NginxError, NginxRefused, started_by_clock
from ansible_collections.graceful.azure.plugins.module_utils._nginx_addresses import Resolver
from ansible_collections.graceful.azure.plugins.module_utils._nginx_configuration import (
    MARK,
    MARK_LIMIT,
    Configuration,
    ConfigurationError,
    NginxServer,
    PassDirective,
    changed_at,
    decode,
    encode,
    put_back,
    read_file,
    taken_out,
    words_of,
)
from ansible_collections.graceful.azure.plugins.module_utils._nginx_connections import Connections
from ansible_collections.graceful.azure.plugins.module_utils._nginx_lines import HostLines, comes_back, is_searched
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import NGINX_SERVER
from ansible_collections.graceful.azure.plugins.module_utils._spellings import MOST_NAMED, is_same_host, place_json, plural, spelled

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Hold
    from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Events, Record, Request, Store
    from ansible_collections.graceful.azure.plugins.module_utils._nginx import Nginx, Worker
    from ansible_collections.graceful.azure.plugins.module_utils._spellings import Destination, Searched

    # A server: its context, its upstream, its address and its file.
    Key = tuple[str, str, str, str]


# What a mark keeps of an event if all of it is too long, before the rest.
SHORT = ("event_type", "resources", "not_before", "action", "host")

# From this version on, nginx keeps connections to servers for further requests without being told.
KEEPS_BY_ITSELF = (1, 29, 7)

# In a record: the nginx that has loaded the change, and when the first and the last of the workers that have it started.
PROCESS = "process"
FIRST, LAST = "workers", "last_worker"


def condition_of(record: Record | None, server: NginxServer) -> str:
    """The condition of a server: what became of the hold on it.

    none               it has no C(down), and there is no hold
    already_out        it has C(down), but not from us
    held               its line is as we left it
    lost               it should be out, and the run that should have taken it out was cut off
    changed_meanwhile  its line is not as we left it: somebody else has changed it
    """
    if record is None:
        return ALREADY_OUT if server.down else NONE
    if server.words == words_of(record["left"]["line"]):
        return AS_LEFT
    # The comment comes and goes with the parameter. Where it stands alone, somebody else has removed the parameter.
    if server.words == words_of(record["found"]["line"]) and record["phase"] != HELD and not record_in(server):
        return NONE if record["phase"] == RESTORING else LOST
    return CHANGED_MEANWHILE


def key_of(server: NginxServer) -> Key:
    return server.context, server.upstream, server.address, server.path


def name_of(key: Key) -> str:
    context, upstream, server, path = key
    return "%s/%s (%s, %s)" % (upstream, server, context, path)


def sort_records(records: list[Record], configuration: Configuration, process: Mapping[str, Any] | None = None) -> tuple[dict[Key, Record], list[Record]]:
    """The records that belong to this configuration, by the keys of their servers, and all others. ``process``: the nginx that has the configuration.

    A record whose file is gone belongs to every configuration, because nothing else could release it. One whose change this nginx has loaded belongs to
    it also if its configuration has another file now: a link may lead elsewhere, and nginx still has what it has loaded.

    Where a record is lost, the mark of its line tells what it said.
    """
    ours: dict[Key, Record] = {}
    others: list[Record] = []
    for record in records:
        subject, path = record["subject"], record["subject"]["file"]
        is_its = process is not None and _whose(record.get(PROCESS)) == _whose(process)
        if path in configuration.files or is_its or not os.path.exists(path):
            ours[subject["context"], subject["upstream"], subject["server"], subject["file"]] = record
        else:
            others.append(record)
    found, doubles = servers_of(configuration)
    present = {_present_key(key, record, ours, found, doubles): record for key, record in ours.items()}
    for key, server in found.items():
        marked = record_in(server) if key not in present and key not in doubles else None
        if marked:
            present[key] = marked
    return present, others


def _whose(process: Mapping[str, Any] | None) -> tuple[Any, Any]:
    """Which nginx a look or a record names: its master process, and when that started."""
    return (process or {}).get("pid"), (process or {}).get("started")


def mark_of(record: Record) -> str:
    """The comment for a line that is taken out: what the record says. Empty if there is no room for it."""
    events = record["events"]
    short = {key: dict(entry, reason="", details={name: entry["details"][name] for name in SHORT if name in entry["details"]}) for key, entry in events.items()}
    bare = {key: dict(entry, reason="", details={}) for key, entry in events.items()}
    told = {"found": record["found"], **({"for_server": record["for_server"]} if "for_server" in record else {})}
    marks = (MARK + json.dumps(dict(told, events=kept), separators=(",", ":"), sort_keys=True) for kept in (events, short, bare))
    return next((mark for mark in marks if len(mark) <= MARK_LIMIT), "")


def record_in(server: NginxServer) -> Record | None:
    """The record in the mark of a line, also if somebody else has changed the line since. A mark for another server is none of this line."""
    try:
        told = json.loads(server.mark or "{}")
        found = told["found"]["line"]
        more = {"for_server": str(told["for_server"])} if "for_server" in told else {}
        if (words_of(found) or ())[:2] != server.words[:2]:
            return None
        record = new_record(NGINX_SERVER, _subject(server), {"line": found}, {"line": taken_out(found)}, told["events"], **more)
        return parse_record(to_bytes(record), "%s, line %d" % (server.path, server.line))
    except (ValueError, KeyError, TypeError, RecursionError, HoldError):
        return None


def _subject(server: NginxServer) -> dict[str, str]:
    return dict(zip(("context", "upstream", "server", "file"), key_of(server)))


def _present_key(key: Key, record: Record, records: Mapping[Key, Record], found: Mapping[Key, NginxServer], doubles: Mapping[Key, list[NginxServer]]) -> Key:
    """The key of a record's server. If its upstream was renamed, or one more includes the file, this is the only line that is as we left it."""
    if key in found:
        return key
    context, _upstream, address, path = key
    left = words_of(record["left"]["line"])

    def fits(other: Key) -> bool:
        return (other[0], other[2], other[3]) == (context, address, path)

    lines = [other for other, server in found.items() if fits(other) and other not in records and other not in doubles and server.words == left]
    # If another record has lost its line as well, nobody knows which of them it is.
    lost = [other for other in records if fits(other) and other not in found and words_of(records[other]["left"]["line"]) == left]
    return lines[0] if len(lines) == len(lost) == 1 else key


def servers_of(configuration: Configuration) -> tuple[dict[Key, NginxServer], dict[Key, list[NginxServer]]]:
    """All servers by their keys. nginx allows the same address twice in one upstream; then nobody knows which of the lines is meant."""
    found: dict[Key, NginxServer] = {}
    doubles: dict[Key, list[NginxServer]] = {}
    for server in configuration.servers:
        key = key_of(server)
        if key in found:
            doubles[key] = [found[key], server]
        found.setdefault(key, server)
    return found, doubles


class Loaded:
    """What the workers that take requests have loaded, as opposed to what the files have now.

    nginx tells nobody. Two things show it:

    - The record of a hold says when the workers started that loaded its line. As long as one of these serves, nginx has not been reloaded since.
    - If the files, and the links to them, were changed before all these workers started, they have loaded them. This misses a file that is changed in the
      moment between nginx's reading and the start of its workers, and workers that all ended by themselves and were started anew.

    A former master that was replaced by a new one can come back, and then starts workers with what it has read long ago. So what the hold of another
    master left is loaded only if the files were changed before the master started.
    """

    def __init__(self, nginx: Nginx, configuration: Configuration) -> None:
        self.workers = nginx.workers()
        self._process = nginx.process
        # The line's own file is not enough: the files that include it decide whether it is read.
        changed, serving = changed_at(configuration.names), [worker.started for worker in self.workers if not worker.leaving]
        self._by_date = bool(serving) and changed <= started_by_clock(min(serving))
        self._since_start = self._by_date and nginx.started is not None and changed <= started_by_clock(nginx.started)

    def has_what_the_hold_left(self, record: Record | None) -> bool:
        """Whether it is certain that they have the line as the hold left it, whatever the file says."""
        process = (record or {}).get(PROCESS)
        if not process:
            return False
        first, last = process[FIRST], process.get(LAST, process[FIRST])
        return any(not worker.leaving and worker.master == _whose(process) and first <= worker.started <= last for worker in self.workers)

    def has(self, server: NginxServer | None, record: Record | None) -> bool:
        """Whether they have a server's line as its file has it."""
        if record and self.has_what_the_hold_left(record):
            return server is not None and server.words == words_of(record["left"]["line"])
        is_same = _whose((record or {}).get(PROCESS) or self._process) == _whose(self._process)
        return self._by_date if is_same else self._since_start


class Silence:
    """Which servers accept no connection. Open-source nginx does not check that, so each of their places is asked once.

    If no server of an upstream accepts any, this proves nothing: they may take connections from an address or a network of nginx's alone.
    """

    def __init__(self, resolver: Resolver, has_udp: bool) -> None:
        self._resolver = resolver
        self._has_udp = has_udp
        self._known: dict[Destination, Optional[str]] = {}
        self._asked: list[NginxServer] = []

    def ask(self, servers: Iterable[NginxServer]) -> None:
        """Ask all places of these servers at once: of all that get requests."""
        servers = list(servers)
        self._asked += servers
        places = [place for server in servers for place in self._places(server)]
        self._known.update(silent_places(place for place in places if place not in self._known))

    def of(self, server: NginxServer) -> str | None:
        """Why nothing answers at a server. None if something does at one of its addresses, or if that is not known."""
        others = (other for other in self._asked if other.context == server.context and not set(other.upstreams).isdisjoint(server.upstreams))
        return self._said(server) if any(self._said(other) is None for other in others) else None

    def _said(self, server: NginxServer) -> str | None:
        said = [self._known[place] for place in self._places(server) if place in self._known]
        return None if not said or None in said else said[0]

    def _places(self, server: NginxServer) -> list[Destination]:
        # A server of UDP has nothing that accepts connections, and which upstream is one of UDP cannot be told.
        if server.context == "stream" and self._has_udp:
            return []
        return sorted(self._resolver.known_places(server.target, server.context), key=str)


class NginxServers(Driver[NginxServer]):
    """One server in the upstreams of nginx, with all lines that lead to the same host.

    ``files``: the files in which to act, or None for all files of the configuration. ``places``: addresses, each with a port or None. Lines that lead
    there are the same host. If this is None, those that lead to an address of the server are.
    """

    Refused = NginxRefused
    # All lines change together, so that nginx reloads once.
    together = True

    def __init__(
        self,
        nginx: Nginx,
        store: Store,
        request: Request,
        server: str,
        files: list[str] | None = None,
        min_in_service: int | str | None = None,
        dry: bool = False,
        places: Collection[Searched] | None = None,
    ) -> None:
        self._places = places
        self._resolver = Resolver()
        self._nginx = nginx
        self._store = store
        self._request = request
        self._server = server
        self._files = files
        self._min_in_service = min_in_service
        self._dry = dry
        # In check mode: what would be in the files.
        self._unwritten: dict[str, bytes] = {}
        self._targets: list[Key] | None = None
        self._tested = False
        self._loaded: Loaded

    def check(self) -> None:
        self._read()
        self._find_targets()

    def look(self) -> list[tuple[str, NginxServer | None, Record | None]]:
        self._read()
        if self._targets is None:
            self._targets = self._find_targets()
        # What this round is to change: per file its servers, each with its new text.
        self._edits: dict[str, list[tuple[NginxServer, str]]] = {}
        # When they were made: what the records say of the nginx that has loaded them.
        self._applied: dict[str, Any] | None = None
        self._restored = True
        return [(name_of(key), self._servers.get(key), self._records.get(key)) for key in self._targets]

    def condition(self, record: Record | None, seen: NginxServer) -> str:
        return condition_of(record, seen)

    view_of_none = {"line": None}

    def view(self, record: Record | None, seen: NginxServer) -> dict[str, Any]:
        return {"line": seen.text}

    def describe(self, hold: Hold[NginxServer]) -> dict[str, Any]:
        """What the module returns of a server."""
        if hold.there:
            result = describe(hold.there, hold.record, hold.condition)
        else:
            if hold.shown is None:
                raise AssertionError("it was looked at because of its record")
            result = dict(hold.shown["subject"], condition=NONE, **NO_SERVER, **_told(hold.record))
        shown = hold.shown
        result.update(found=shown["found"]["line"] if shown else None, left=shown["left"]["line"] if shown else None)
        return result

    def shortages(self, holds: list[Hold[NginxServer]]) -> list[str]:
        """Sentences about the upstreams in which too few servers would stay in service."""
        if self._min_in_service is None:
            return []
        leaving = [hold.there for hold in holds if hold.there and not hold.there.down and hold.condition in (NONE, LOST)]
        groups: dict[tuple[str, str], list[NginxServer]] = {}
        for server in leaving:
            for upstream in server.upstreams:
                members = [other for other in self._servers.values() if other.context == server.context and upstream in other.upstreams]
                # Where the host has another line and is alone, waiting would bring no other server.
                if any(spelled(other.address) == spelled(self._server) or other not in leaving for other in members):
                    groups[server.context, upstream] = members
        silence = Silence(self._resolver, self._configuration.has_udp)
        silence.ask(server for members in groups.values() for server in members if not server.down)
        found = []
        for (_context, upstream), members in groups.items():
            group = [
                {"server": _member(other), "in_service": not (other.down or silence.of(other)), "backup": other.backup, "silent": silence.of(other)}
                for other in members
            ]
            mine = [other for other in members if other in leaving and not silence.of(other)]
            for server in mine:
                short = shortage(
                    self._min_in_service, _member(server), group, "upstream " + upstream, [_member(other) for other in mine if other is not server]
                )
                if short:
                    found.append(stays(self._server, short))
        return list(dict.fromkeys(found))

    def untouched(self, hold: Hold[NginxServer]) -> bool:
        return self._restored

    def put(self, hold: Hold[NginxServer], events: Events) -> Iterator[Record | None]:
        record, server = hold.record, hold.seen
        condition = self.condition(record, server)
        if condition == ALREADY_OUT:
            yield None
            return
        if record is not None and condition == CHANGED_MEANWHILE:
            hold.tell(self.conflict(hold))
            # Its release may have begun, but now it is held again. The phase must say so to the next call.
            yield dict(record, events=events, phase=HELD)
            return
        if record is not None and condition == AS_LEFT:
            kept = dict(record, events=events)
            if record["phase"] == HELD and self._loaded.has(server, record):
                yield kept
                return
            # A run was cut off, or somebody else's configuration was loaded in between.
            kept["phase"] = CHANGING
        else:
            if condition == LOST:
                events = self._request.anew(events)
            more = {} if spelled(server.address) == spelled(self._server) else {"for_server": self._server}
            kept = new_record(NGINX_SERVER, _subject(server), {"line": server.text}, {"line": taken_out(server.text)}, events, **more)
            mark = mark_of(kept)
            self._edit(server, (mark + "\n" + server.indent if mark else "") + kept["left"]["line"])
        self._test()
        yield kept
        process = self._apply(hold)
        yield dict(kept, phase=HELD, **({PROCESS: process} if process else {}))

    def never_out(self, hold: Hold[NginxServer]) -> str | None:
        """A phrase if a line gets requests although it has the parameter."""
        return self._configuration.never_out(hold.seen)

    def is_loaded(self, hold: Hold[NginxServer]) -> bool:
        """Whether the workers have the line as its file has it. Where this call has reloaded nginx, they have."""
        return self._applied is not None or self._loaded.has(hold.there, hold.record)

    def conflict(self, hold: Hold[NginxServer]) -> str:
        left = hold.noted["left"]["line"]
        return "%s was changed by somebody else: it is %r, and the hold left %r. It was not touched." % (hold.seen.place, hold.seen.text, left)

    def give_back(self, hold: Hold[NginxServer], record: Record) -> Iterator[Record | None]:
        server = hold.seen
        condition = self.condition(record, server)
        stays = condition in (CHANGED_MEANWHILE, LOST) and (server.down or self._loaded.has(server, record))
        if condition == CHANGED_MEANWHILE and (stays or server.words != words_of(record["found"]["line"])):
            hold.tell(self.conflict(hold))
        if condition == AS_LEFT:
            # Somebody may have changed the blanks or a comment in it.
            self._edit(server, record["found"]["line"] if server.text == record["left"]["line"] else put_back(server.text))
        is_marked = condition != AS_LEFT and record_in(server) is not None
        if is_marked:
            # Our comment goes, and what somebody else has made of the line stays.
            self._edit(server, server.text)
        # If somebody else has removed the parameter and has not reloaded nginx, its workers still have it: only a reload is missing.
        if is_marked or not stays:
            self._test()
            yield dict(record, phase=RESTORING)
            self._apply(hold)
        yield None

    def gone(self, hold: Hold[NginxServer]) -> str | None:
        if not self._loaded.has(None, hold.noted) and not self._dry:
            # The workers still have the line, and the server may stand somewhere else in the files.
            self._test()
            self._nginx.reload()
            self._loaded = Loaded(self._nginx, self._configuration)
            hold.acted = True
        subject = hold.noted["subject"]
        elsewhere = [server for server in self._servers.values() if server.address == subject["server"] and server.down and key_of(server) not in self._records]
        also = "; %s has the parameter down, see whether it should" % elsewhere[0].place if elsewhere else ""
        return "%s is no longer in upstream %s of %s: the hold on it was dropped%s." % (subject["server"], subject["upstream"], subject["file"], also)

    def stuck(self) -> Exception:
        return NginxError("nginx took the configuration, but the line of %s is not as it was written." % self._server)

    def _read(self) -> None:
        self._nginx.find()
        self._configuration = Configuration(self._nginx.configuration, self._bytes)
        self._servers, self._doubles = servers_of(self._configuration)
        self._resolver.learn((server.target, server.context) for server in self._servers.values())
        self._records, _others = sort_records(self._store.records(NGINX_SERVER), self._configuration, self._nginx.process)
        self._loaded = Loaded(self._nginx, self._configuration)

    def _bytes(self, path: str) -> bytes:
        return self._unwritten[path] if path in self._unwritten else read_file(path)

    def _find_targets(self) -> list[Key]:
        """The keys of the lines that lead to the server's host. Each file that the user named must have one, or nothing is changed."""
        host = HostLines([self._server])
        told = {key: self._line(key) for key in [*self._servers, *self._records]}
        recorded = [key for key in self._records if host.is_known(told[key])]
        named = [key for key in self._servers if host.is_named(told[key])]
        is_its = self._is_its(host.own(told.values())) if self._request.present else lambda _place: False
        known = [key for key in self._servers if host.has(told[key], is_its)]
        wanted = None
        if self._files is not None:
            wanted = [os.path.realpath(path) for path in self._files]
            for path, real in zip(self._files, wanted):
                is_held = not self._request.present and any(key[3] == real for key in recorded)
                if real not in self._configuration.files and not is_held:
                    if not os.path.exists(real):
                        raise NginxError("The file %s does not exist (option files)." % path)
                    raise NginxError("The file %s is not part of the configuration %s of the running nginx (option files)." % (path, self._nginx.configuration))
                if not is_held and not any(key[3] == real for key in known):
                    raise NginxError(no_server_in(path, self._server) + self._others(real))
            known = [key for key in known if key[3] in wanted]
            # The list of files may have become shorter since the hold was put. The events say what is to be released.
            if self._request.present or not self._request.event_ids:
                recorded = [key for key in recorded if key[3] in wanted]
        if not self._request.present:
            known += [key for key in recorded if key not in known]
        if not named and not any(key in recorded for key in known):
            raise NginxError(no_server(self._nginx.configuration, self._server) + self._others())
        for key in known:
            if key in self._doubles:
                lines = " and ".join(str(server.line) for server in self._doubles[key])
                raise NginxError("%s has the server %r more than once in upstream %s (lines %s): leave one of the lines." % (key[3], key[2], key[1], lines))
            twice = [other for other in known if other[:3] == key[:3] and other != key]
            if twice and self._request.present:
                raise NginxError(
                    "Upstream %s has the server %r more than once (%s): leave one of the lines."
                    % (key[1], self._server, ", ".join(self._servers[each].place for each in [key] + twice))
                )
        if self._request.present:
            paths = sorted({key[3] for key in known if key not in self._records and not self._servers[key].down})
            problem = unchangeable(self._nginx, paths)
            if problem:
                raise NginxError("Nothing was changed: %s." % problem)
        return known

    def _line(self, key: Key) -> dict[str, Any]:
        """A line, or one that only its record knows, as a look tells of it."""
        server, record = self._servers.get(key), self._records.get(key) or {}
        there = leads_to(self._resolver, server) if server else []
        return {"server": key[2], "file": key[3], "for_server": record.get("for_server"), "leads_to": there}

    def _is_its(self, own: set[Destination]) -> Callable[[Destination], bool]:
        """Whether a place is on the host. C(own): where the lines of its own address lead."""
        own = own | self._resolver.known_places(self._server, "http")
        searched = self._places
        if searched is None:
            return lambda place: is_same_host(place, own)
        return lambda place: place in own or is_searched(place, searched)

    def _others(self, path: str | None = None) -> str:
        """A sentence: which servers there are."""
        names = sorted({server.address for server in self._servers.values() if path in (None, server.path)})
        if not names:
            return " It has no upstream with servers."
        more = ", ..." if len(names) > MOST_NAMED else ""
        return " It has %s%s. Give the address as the line has it." % (", ".join(names[:MOST_NAMED]), more)

    def _edit(self, server: NginxServer, text: str) -> None:
        self._edits.setdefault(server.path, []).append((server, text))

    def _test(self) -> None:
        """Let nginx test its configuration before anything is recorded or changed."""
        if not self._tested:
            try:
                dump = self._nginx.check()
            except NginxRefused as error:
                # The engine must not take this for the refusal of a change.
                raise NginxError("The configuration %s has a mistake already, so nothing was changed: %s" % (self._nginx.configuration, error)) from error
            difference = self._configuration.differs_from(dump)
            if difference:
                raise NginxError("The configuration %s cannot be read as nginx reads it, so nothing was changed: %s" % (self._nginx.configuration, difference))
            self._tested = True

    def _apply(self, hold: Hold[NginxServer]) -> dict[str, Any]:
        """Write all lines of this round, test and load them. The first hold does it for all. Returns the C(process) for the records."""
        hold.acted = True
        if self._applied is None:
            self._applied = self._load()
            # What the result shows of them.
            self._configuration = Configuration(self._nginx.configuration, self._bytes)
            self._servers, self._doubles = servers_of(self._configuration)
            if self._applied:
                self._note_for_others(self._applied)
        hold.seen = self._servers.get(key_of(hold.seen), hold.seen)
        return self._applied

    def _note_for_others(self, process: dict[str, Any]) -> None:
        """Note in the records of other holds that the new workers have their lines, too."""
        for key, record in self._records.items():
            server, known = self._servers.get(key), record.get(PROCESS)
            if key in (self._targets or ()) or record["phase"] != HELD or server is None or condition_of(record, server) != AS_LEFT:
                continue
            # Older workers that have the line are still known by their start.
            loaded = dict(process, **{FIRST: known[FIRST]}) if known and _whose(known) == _whose(process) else process
            self._store.replace(record, dict(record, **{PROCESS: loaded}))

    def _load(self) -> dict[str, Any]:
        before: dict[str, bytes] = {}
        after: dict[str, bytes] = {}
        for path, edits in self._edits.items():
            before[path] = self._configuration.files[path]
            text = decode(before[path])
            # A file that is included in http and in stream has each line only once.
            lines = {(server.begin, server.end): line for server, line in edits}
            for (start, end), line in sorted(lines.items(), reverse=True):
                text = text[:start] + line + text[end:]
            after[path] = encode(text)
        if self._dry:
            self._unwritten.update(after)
            return {}
        written: list[str] = []
        told = False
        try:
            for path in after:
                if read_file(path) != before[path]:
                    raise NginxRefused("%s was changed by somebody else just now. Try again." % path)
                replace_file(path, after[path])
                written.append(path)
            dump = self._nginx.check()
            difference = Configuration(self._nginx.configuration).differs_from(dump)
            if difference:
                raise NginxRefused(difference)
            told = True
            started = [worker.started for worker in self._nginx.reload()]
        except (NginxError, ConfigurationError, OSError) as error:
            self._restored = _put_back(written, before, after)
            if told:
                with contextlib.suppress(NginxError):
                    # nginx may only be slow, and would then take what is no longer in the files.
                    self._nginx.hang_up()
            left = "The files are as they were." if self._restored else "Not all files are as they were."
            raise NginxRefused("%s %s" % (_sentence(error), left)) from error
        return dict(self._nginx.process, **{FIRST: min(started), LAST: max(started)})


def _put_back(written: Collection[str], before: Mapping[str, bytes], after: Mapping[str, bytes]) -> bool:
    """Put back each file that was written and that nobody has changed since. Returns whether none of the files is known, or may be, as it was to become."""
    is_back = True
    for path in after:
        try:
            if path in written and read_file(path) == after[path]:
                replace_file(path, before[path])
            is_back = is_back and read_file(path) != after[path]
        except (OSError, ConfigurationError):
            is_back = False
    return is_back


def _member(server: NginxServer) -> str:
    """The name of a line among those of its upstream."""
    return "%s %s" % (server.path, server.address)


def _sentence(error: Exception) -> str:
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror + (": %s" % error.filename if error.filename else "")
    return text if text.endswith(".") else text + "."


def replace_file(path: str, data: bytes) -> None:
    """Replace a file at once by another with the same owner, mode and extended attributes (such as the label of SELinux).

    The name of the file in between begins with a dot, so that no C(include conf.d/*) finds it. A call that was cut off leaves it, and the next one
    overwrites it.
    """
    temporary = os.path.join(os.path.dirname(path), ".%s.graceful_azure" % os.path.basename(path))
    status = os.stat(path)

    def prepare(fd: int) -> None:
        if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
            os.fchown(fd, status.st_uid, status.st_gid)
        with contextlib.suppress(OSError):  # some file systems know no attributes
            for name in os.listxattr(path):
                # Where the kernel itself sets the right one, it may refuse to have it set.
                with contextlib.suppress(OSError):
                    os.setxattr(fd, name, os.getxattr(path, name))
        os.fchmod(fd, status.st_mode & 0o7777)

    replace_by(temporary, path, data, prepare)
    with contextlib.suppress(OSError):
        sync_folder(os.path.dirname(path))


def no_server(configuration: str, server: str, option: str = "server") -> str:
    return "No upstream in the configuration %s of the running nginx has a server %r (option %s)." % (configuration, server, option)


def no_server_in(path: str, server: str) -> str:
    return "%s has no server %r in an upstream (option server)." % (path, server)


def unchangeable(nginx: Nginx, paths: Sequence[str]) -> str | None:
    """Why these files cannot be changed for this nginx, a phrase."""
    return next(filter(None, map(irreplaceable, paths)), None) or shared_with(nginx, paths)


def irreplaceable(path: str) -> str | None:
    """Why a file cannot be replaced with the rights of this process, a phrase."""
    if not os.access(os.path.dirname(path), os.W_OK):
        return "the folder of %s cannot be written by user id %d" % (path, os.geteuid())
    try:
        status = os.stat(path)
    except OSError as error:
        return "%s cannot be read: %s" % (path, error.strerror)
    is_ours = status.st_uid == os.geteuid() and status.st_gid in (os.getegid(), *os.getgroups())
    if os.geteuid() != 0 and not is_ours:
        told = "%s belongs to another user or group, which user id %d cannot give to a new file: set ansible_become: true for that machine"
        return told % (path, os.geteuid())
    if os.geteuid() == 0 and not os.access(path, os.W_OK):
        return "%s cannot be changed, not even by root: see whether it is immutable (lsattr)" % path
    mount = mount_of(path)
    if mount and mount.point == path:
        return "%s is mounted by itself, as Docker does with a single file, and cannot be replaced: mount its folder" % path
    return None


def shared_with(nginx: Nginx, paths: Iterable[str]) -> str | None:
    """A phrase about another nginx that reads one of these files, too, and would not be reloaded."""
    wanted = set(paths)
    for pid, configuration in nginx.others.items():
        try:
            both = wanted.intersection(Configuration(configuration).files)
        except ConfigurationError:
            continue
        if both:
            told = "another nginx (process %d with %s) reads %s, too, and would go on without the change: give each nginx a file of its own"
            return told % (pid, configuration, min(both))
    return None


NO_SERVER: dict[str, Any] = {"line": None, "text": None, "down": None, "backup": None}


def describe(server: NginxServer, record: Record | None, condition: str) -> dict[str, Any]:
    return {**_subject(server), **{key: getattr(server, key) for key in NO_SERVER}, "condition": condition, **_told(record)}


def _told(record: Record | None) -> dict[str, Any]:
    return {
        "found": record["found"]["line"] if record else None,
        "left": record["left"]["line"] if record else None,
        "held_by": holders(record),
        "noted": is_noted(record),
        "restoring": record is not None and record["phase"] == RESTORING,
        "for_server": record.get("for_server") if record else None,
    }


def leads_to(resolver: Resolver, line: NginxServer | PassDirective) -> list[dict[str, Any]]:
    """Where a line leads, as far as that is known."""
    return [place_json(place) for place in sorted(resolver.known_places(line.target, line.context), key=str)]


class NginxLook:
    """One look at nginx: its servers with their connections, and its records."""

    def __init__(self, nginx: Nginx, store: Store, resolver: Resolver) -> None:
        self.nginx = nginx
        self._resolver = resolver
        nginx.find()

        def look() -> tuple[tuple[Configuration, Loaded, list[Record]], object]:
            configuration = Configuration(nginx.configuration)
            loaded = Loaded(nginx, configuration)
            on_disk = store.records(NGINX_SERVER)
            return (configuration, loaded, on_disk), on_disk

        configuration, self._loaded, on_disk = store.looked_at(look)
        records, self.others = sort_records(on_disk, configuration, nginx.process)
        self.holds = list(records.values())
        self._workers = self._loaded.workers
        self._connections = Connections(nginx.pid, self._workers)
        self.configuration = configuration
        self.lines, doubles = servers_of(configuration)
        self._resolver.learn((server.target, server.context) for server in configuration.servers)
        passes = configuration.passes
        self._resolver.learn((each.target, each.context) for each in passes if not each.unknown)
        self._once = self._places("stream") - self._places("http")
        self._is_kept_anywhere: bool | None = None
        self.servers = [dict(self._describe(server, records.get(key)), double=key in doubles) for key, server in self.lines.items()]
        self.passes = [
            {
                "context": each.context,
                "text": each.text,
                "file": each.path,
                "line": each.line,
                "leads_to": [] if each.unknown else leads_to(self._resolver, each),
                "unresolved": each.unknown or self._resolver.why_unknown(each.target, each.context),
            }
            for each in passes
        ]
        self.files = list(configuration.files)
        self.has_udp = configuration.has_udp

    def beside(self, address: str, port: int | None) -> int:
        """How many connections nginx has to an address to which no line of an upstream leads. All ports count if there is none."""
        known = {place for server in self.lines.values() for place in self._resolver.known_places(server.target, server.context)}
        return self._connections.beside(address, port, known)

    def _places(self, context: str) -> set[Destination]:
        """Where all lines of a context lead, as far as that is known."""
        lines: list[NginxServer | PassDirective] = [*self.configuration.servers, *(each for each in self.configuration.passes if not each.unknown)]
        return {place for line in lines if line.context == context for place in self._resolver.known_places(line.target, context)}

    def _describe(self, server: NginxServer, record: Record | None) -> dict[str, Any]:
        condition = condition_of(record, server)
        result = describe(server, record, condition)
        loaded = self._loaded.has(server, record)
        is_out = server.down and loaded or self._loaded.has_what_the_hold_left(record)
        never_out = self.configuration.never_out(server)
        result.update(loaded=loaded, never_out=never_out, in_service=bool(never_out) or not is_out, connections=0, own_ports={}, former=0, uncounted=None)
        result.update(leads_to=leads_to(self._resolver, server), unresolved=None, silent=None)
        try:
            places = self._resolver.places(server.target, server.context)
            result["connections"] = self._connections.to(places)
            result["own_ports"] = self._connections.own_ports(places)
            result["uncounted"] = next(filter(None, (self._hidden(place) for place in places if isinstance(place, str))), None)
        except ConnectionsError as error:
            result["unresolved"] = str(error)
            result["uncounted"] = "its connections cannot be counted: %s" % error
        former = [worker for worker in self._workers if worker.leaving and self._may_know(worker, record)]
        if former:
            result["former"], hidden = self._clients_of(former, self._resolver.known_places(server.target, server.context))
            result["uncounted"] = hidden or result["uncounted"]
        result["idle"] = not (result["in_service"] or comes_back(result) or result["connections"] or result["former"] or result["uncounted"])
        return result

    def _clients_of(self, former: Iterable[Worker], places: set[Destination]) -> tuple[int, str | None]:
        """How many clients of workers that are shutting down may still be sent to a server at these places, and why that is unknown."""
        label = "worker process %s of nginx from before a reload" % ", ".join(str(worker.pid) for worker in former)
        if self.configuration.has_quic:
            return 0, "%s may have clients over QUIC, which cannot be seen" % label
        several = self.configuration.has_several or self.configuration.hides_answers
        try:
            pending = [self._connections.pending(worker.pid, several, self._reused(), self._once, places) for worker in former]
        except NetlinkError as error:
            return 0, "%s may send on to it what other servers have not answered, and which requests these are cannot be seen (%s)" % (label, error)
        if None in pending:
            told = "%s may still send requests, and user id %d may not see its connections; set ansible_become: true for that machine"
            return 0, told % (label, os.geteuid())
        return sum(count for count in pending if count is not None), None

    def _reused(self) -> set[Destination] | None:
        """The servers to which nginx may keep connections for further requests. None for all."""
        if self._is_kept_anywhere is None:
            self._is_kept_anywhere = self.nginx.version() >= KEEPS_BY_ITSELF
        if self._is_kept_anywhere:
            return None
        kept = (line for line in self.configuration.servers if line.context == "http" and not self.configuration.kept.isdisjoint(line.upstreams))
        return {place for line in kept for place in self._resolver.known_places(line.target, line.context)}

    def _hidden(self, path: str) -> str | None:
        """Why more connections may go to a Unix socket than those that have its path; None if none do, or if nobody is there."""
        unseen = self._connections.unseen(path)
        if not unseen or silent_places([path])[path] is not None:
            return None
        return "who listens on %s cannot be seen from here, as with a container, and %s may be to it" % (path, plural(unseen, "connection"))

    def _may_know(self, worker: Worker, record: Record | None) -> bool:
        """Whether a worker that is shutting down may have the server without C(down)."""
        process = (record or {}).get(PROCESS) or {}
        return not (_whose(process) == worker.master and worker.started >= process[FIRST])
