# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which lines of nginx are a host's: those of its own address, those that are held for it, and all that lead to it. Pure.

Both sides decide it here, from what a look tells of a line: C(server), its address; C(file); C(leads_to); and C(for_server), the host for which it is held
if that has another address. A directive that passes requests on itself (C(proxy_pass) with an address) has neither C(server) nor C(for_server).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._conditions import CHANGED_MEANWHILE
from ansible_collections.graceful.azure.plugins.module_utils._spellings import place_of, spelled

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from typing import Any, TypeVar

    from ansible_collections.graceful.azure.plugins.module_utils._spellings import Destination, Searched

    Line = Mapping[str, Any]
    AnyLine = TypeVar("AnyLine", bound=Line)


class HostLines:
    """The lines of a host, or of several. ``servers``: their own addresses. ``files``: the files that count, without symbolic links; all if there are none."""

    def __init__(self, servers: Iterable[str], files: Collection[str] = ()) -> None:
        self._servers = {spelled(server) for server in servers}
        self._files = files

    def counts(self, line: Line) -> bool:
        """Whether a line is in one of the files."""
        return not self._files or line["file"] in self._files

    def is_named(self, line: Line) -> bool:
        """Whether a line has the host's own address."""
        return spelled(line["server"]) in self._servers and self.counts(line)

    def is_held(self, line: Line) -> bool:
        """Whether a line of another address is held for the host."""
        return bool(line["for_server"]) and spelled(line["for_server"]) in self._servers and self.counts(line)

    def is_known(self, line: Line) -> bool:
        """Whether it is the host's wherever it leads."""
        return self.is_named(line) or self.is_held(line)

    def leads(self, line: Line, is_its: Callable[[Destination], bool]) -> bool:
        """Whether a line or a directive leads to the host. ``is_its``: whether a place is on the host."""
        return self.counts(line) and any(map(is_its, places_of(line)))

    def has(self, line: Line, is_its: Callable[[Destination], bool]) -> bool:
        return self.is_known(line) or self.leads(line, is_its)

    def named(self, lines: Iterable[AnyLine]) -> list[AnyLine]:
        """The lines of its own address."""
        return [line for line in lines if self.is_named(line)]

    def others(self, servers: Iterable[AnyLine], passes: Iterable[AnyLine]) -> list[tuple[str, AnyLine]]:
        """What sends requests elsewhere than to the host's own address, each with what people call it."""
        return [(place, line) for place, line in _called((line for line in servers if not self.is_named(line)), passes) if self.counts(line)]

    def left_out(self, servers: Iterable[AnyLine], passes: Iterable[AnyLine]) -> list[tuple[str, AnyLine, Destination, str]]:
        """The same of what is in no file that counts and leads where a line of the host does, and where that is.

        The last is what the settings can have besides: a file without a server of the host would be a mistake.
        """
        if not self._files:
            return []
        servers = list(servers)
        own = self.own(servers)
        found = [(place, line, sorted(places_of(line) & own, key=str)) for place, line in _called(servers, passes) if not self.counts(line)]
        return [(place, line, there[0], "file" if "server" in line else "") for place, line, there in found if there]

    def own(self, lines: Iterable[Line]) -> set[Destination]:
        """Where the lines of its own address lead."""
        return {place for line in self.named(lines) for place in places_of(line)}

    def of(self, lines: Collection[AnyLine], is_its: Callable[[Destination], bool]) -> list[AnyLine]:
        """All lines of the host, those of its own address first."""
        return self.named(lines) + [line for line in lines if not self.is_named(line) and self.has(line, is_its)]


def _called(servers: Iterable[AnyLine], passes: Iterable[AnyLine]) -> list[tuple[str, AnyLine]]:
    """What sends requests somewhere, each with what people call it."""
    used = (line for line in servers if line["in_service"])
    return [*((label_of(line["upstream"], line["server"]), line) for line in used), *((directive(line), line) for line in passes)]


def label_of(upstream: str, address: str) -> str:
    """What people call a server."""
    return "%s in upstream %s" % (address, upstream)


def directive(line: Line) -> str:
    """What people call a directive that passes requests on itself."""
    return "%s in %s, line %s," % (line["text"].rstrip(";"), line["file"], line["line"])


def comes_back(line: Line) -> bool:
    """Whether the next reload of nginx puts a server into rotation, whoever asks for it: nginx still has the parameter of our hold, and the file has it no
    more, because somebody else removed it.
    """
    return bool(line["condition"] == CHANGED_MEANWHILE and not line["down"] and not line["in_service"])


def places_of(line: Line) -> set[Destination]:
    """Where a line leads."""
    return {place_of(told) for told in line["leads_to"]}


def is_searched(place: Destination, searched: Collection[Searched]) -> bool:
    """Whether a place is at one of these addresses, each with a port or for every port."""
    return not isinstance(place, str) and (place in searched or (place[0], None) in searched)
