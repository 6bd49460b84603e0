# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the lines of nginx lead: names are resolved as nginx did when it read its configuration."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._connections import ConnectionsError, parse_address
from ansible_collections.graceful.azure.plugins.module_utils._spellings import DEFAULT_PORTS, UNIX, reason_of, split_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._spellings import Destination

# Where connections to these addresses go.
ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}
# How long all names together may take to resolve.
RESOLVE_SECONDS = 3.0


def leads_to(address: str, context: str, getaddrinfo: Callable[..., Any] = socket.getaddrinfo) -> set[Destination]:
    """Where the address of a line leads: a set of pairs of address and port, or of the path of a Unix socket.

    A name is resolved here. nginx has resolved it when it read its configuration.
    """
    name, service, _value = address.partition(" service=")
    if service:
        raise ConnectionsError("the servers of %r are those of a service in the DNS, which nginx alone asks for" % name)
    if address.startswith(UNIX):
        # The same socket may be named through links: /var/run is one to /run.
        return {os.path.realpath(address[len(UNIX) :])}
    host, port = split_address(address)
    try:
        number = int(port) if port else DEFAULT_PORTS[context]
        found = getaddrinfo(host, number, type=socket.SOCK_STREAM)
        addresses = {parse_address(sockaddr[0].partition("%")[0]) for _family, _type, _proto, _name, sockaddr in found}
        return {(ANY.get(each, each), number) for each in addresses}
    except (KeyError, ValueError, OverflowError):
        raise ConnectionsError("%r has no port that can be counted" % address) from None
    except OSError as error:
        raise ConnectionsError("%r does not resolve (%s)" % (address, reason_of(error))) from error


class Resolver:
    """Where lines lead. It resolves each name once, all names side by side, and waits for them only so long."""

    def __init__(self, getaddrinfo: Callable[..., Any] = socket.getaddrinfo, seconds: float = RESOLVE_SECONDS) -> None:
        self._getaddrinfo = getaddrinfo
        self._seconds = seconds
        self._known: dict[tuple[str, str], set[Destination] | ConnectionsError] = {}

    def learn(self, lines: Iterable[tuple[str, str]]) -> None:
        """Resolve the addresses of lines: pairs of an address and its context."""
        unknown = [line for line in dict.fromkeys(lines) if line not in self._known]
        # These threads do not keep the process: if a name server is silent, nobody waits for it.
        threads = [threading.Thread(target=self._resolve, args=line, daemon=True) for line in unknown if not self._is_plain(line)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + self._seconds
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        for address, context in unknown:
            self._known.setdefault((address, context), ConnectionsError("%r does not resolve (no answer in time)" % address))

    def _is_plain(self, line: tuple[str, str]) -> bool:
        """Whether nobody must be asked. Then it is known afterwards."""
        address = line[0]
        try:
            if not address.startswith(UNIX):
                parse_address(split_address(address)[0])
        except ConnectionsError:
            return False
        self._resolve(*line)
        return True

    def _resolve(self, address: str, context: str) -> None:
        try:
            found: set[Destination] | ConnectionsError = leads_to(address, context, self._getaddrinfo)
        except ConnectionsError as error:
            found = error
        self._known[address, context] = found

    def places(self, address: str, context: str) -> set[Destination]:
        """Where a line leads. Raises C(ConnectionsError) if that is not known."""
        self.learn([(address, context)])
        found = self._known[address, context]
        if isinstance(found, ConnectionsError):
            raise found
        return found

    def why_unknown(self, address: str, context: str) -> str | None:
        """Why it is not known where a line leads; None if it is."""
        try:
            self.places(address, context)
        except ConnectionsError as error:
            return str(error)
        return None

    def known_places(self, address: str, context: str) -> set[Destination]:
        """The places, and nothing if they are not known."""
        try:
            return self.places(address, context)
        except ConnectionsError:
            return set()
