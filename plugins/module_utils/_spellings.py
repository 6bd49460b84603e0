# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses and ids are written in many ways. Here they are compared. Pure: nobody is asked, so names stay names.

A line of nginx has an address in one of many spellings: with or without a port, as a name, in brackets. What counts is where it leads.
"""

from __future__ import annotations

import difflib
import functools
import ipaddress
import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from ipaddress import IPv4Address, IPv6Address
    from typing import Any, Optional, Union

    # An address and a port.
    Endpoint = tuple[str, int]
    # Where connections go. A text is the path of a Unix socket.
    Destination = Union[Endpoint, str]
    # An address that is searched for, and a port. None stands for every port, and 0 for that of the client.
    Searched = tuple[str, Optional[int]]

UNIX = "unix:"
# How many of the things that there are a message names.
MOST_NAMED = 20
DEFAULT_PORTS = {"http": 80}
# What the name of a duty, or of a node of a cluster, may be.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
NAME_IS_OF = "write it of letters, digits, dots, dashes and underscores"
NOT_ABSOLUTE = "%r is not an absolute path; write one that begins with /"
IPV4 = re.compile(r"\d+\.\d+\.\d+\.\d+\Z", re.ASCII)
# Every machine uses these addresses, so only the port tells the hosts behind them apart. Whoever uses another loopback address has chosen it for one host.
LOOPBACK = ("127.0.0.1", "::1")


# The ids of resources in Azure that somebody names, and how they look.
POOL = (
    r"(?P<balancer>/subscriptions/[^/?#%\s]+/resourceGroups/[^/?#%\s]+/providers/Microsoft\.Network/loadBalancers/[^/?#%\s]+)"
    r"/backendAddressPools/(?P<name>[^/?#%\s]+)\Z"
)
POOL_EXAMPLE = "/subscriptions/S/resourceGroups/RG/providers/Microsoft.Network/loadBalancers/LB/backendAddressPools/POOL"
# The administrative state of an address in a pool that gets no new connections.
DOWN = "Down"
OWNER_OF_EVENTS = (
    r"/subscriptions/[^/?#%\s]+/resourceGroups/[^/?#%\s]+/providers/Microsoft\.Compute/"
    r"(virtualMachines|virtualMachineScaleSets|availabilitySets)/[^/?#%\s]+\Z"
)
OWNER_EXAMPLE = "/subscriptions/S/resourceGroups/RG/providers/Microsoft.Compute/virtualMachines/VM"
# Why nothing is approved any more, whomever the approval is sent to.
READY_LONG_AGO = "It was too long ago that everybody was found ready. Nothing was approved."


def canonical(address: int | str | IPv4Address | IPv6Address) -> str:
    """The address in the form in which addresses are compared: an IPv4-mapped IPv6 address becomes an IPv4 address. Raises ValueError if it is none."""
    return str(_parsed(address))


def _parsed(address: int | str | IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    parsed = ipaddress.ip_address(address)
    return getattr(parsed, "ipv4_mapped", None) or parsed


def leads_back(host: str) -> bool:
    """Whether every machine reaches itself here: at localhost, at a loopback address, or at one that stands for all addresses of a machine."""
    try:
        address = _parsed(host)
    except ValueError:
        return host.lower() == "localhost"
    return address.is_loopback or address.is_unspecified


def normal_address(text: str) -> str | None:
    """The address as addresses are compared; None if the text is not an address, such as a name that did not resolve."""
    try:
        return canonical(text)
    except ValueError:
        return None


def parse_places(texts: Iterable[str]) -> set[Searched]:
    """Addresses, each with or without a port, as pairs: 10.0.0.4, 10.0.0.4:80, 2001:db8::4, [2001:db8::4]:80.

    Port 0 is that of a server without one of its own, which takes the client's.
    """
    places: set[Searched] = set()
    for text in texts:
        address = normal_address(text.strip("[]"))
        if address is not None:
            places.add((address, None))
            continue
        host, _colon, port = text.rpartition(":")
        address = normal_address(host.strip("[]"))
        if address is None or not re.match(r"[0-9]+\Z", port) or int(port) >= 1 << 16:
            raise ValueError("addresses: %r is neither an IP address nor one with a port, such as 10.0.0.4:80." % (text,))
        places.add((address, int(port)))
    return places


def called(text: object) -> str:
    """One spelling for the name or the IP address of a thing in Azure. Names have no case there, and an IPv6 address is written in several ways."""
    known = str(text or "")
    try:
        return str(ipaddress.ip_address(known))
    except ValueError:
        return known.lower()


def last_part(resource_id: str) -> str:
    """The name of a resource in Azure, which is the last part of its id."""
    return resource_id.rpartition("/")[2]


def without_service(unit: str) -> str:
    """A unit has the same name with and without this ending."""
    return unit[: -len(".service")] if unit.endswith(".service") else unit


def plural(number: int, noun: str) -> str:
    return "%d %s" % (number, noun) if number == 1 else "%d %ss" % (number, noun)


def listed(names: Sequence[str], most: int = 3) -> str:
    """The first of these names, and how many more there are."""
    return ", ".join(names[:most]) + (" and %d more" % (len(names) - most) if len(names) > most else "")


def in_rotation(place: str) -> str:
    return "%s is in rotation" % place


def may_lead(place: str, why: str) -> str:
    """About what may send requests to a host."""
    return "nobody knows whether %s leads to it: %s" % (place, why)


def is_left_out(place: str, at: str, host: str, option: str, lacks: str = "") -> str:
    """About what an option leaves out and leads to the same place as a server of the host. C(lacks): what the option can have more; empty if that is no use."""
    told = (
        "%s leads to %s, as %s's own server does, and stays in rotation, because the option %s leaves it out. Its requests keep %s from"
        " its event, and more may come after the approval: %sleave out the option"
    )
    return told % (place, at, host, option, host, "add its %s, or " % lacks if lacks else "")


def may_be_its(place: str, at: str, host: str, duty: str) -> str:
    """About what leads to another port of a host's address. C(duty): the type of duty that can name it."""
    told = (
        "%s leads to %s, where %s has another port, and stays in rotation: behind address translation, each port may be another machine's. If it is"
        " %s, give that a duty %s with this server"
    )
    return told % (place, at, host, host, duty)


def meant(word: object, words: Iterable[str]) -> str:
    """The end of a sentence about a word that nobody knows: which of these may be meant."""
    close = difflib.get_close_matches(str(word), list(words), n=1)
    return "; did you mean %s?" % close[0] if close else ""


def endpoint(text: str) -> tuple[str, int] | None:
    """The address and the port of a text such as C(10.0.0.4:80) or C([2001:db8::4]:80), to compare with others; None if it is none.

    Every way to write an address yields the same: without brackets, in short and in lower case, and IPv4 as such also where it is mapped into IPv6.
    """
    host, colon, port = text.strip().rpartition(":")
    if not colon or not port.isdigit() or not 0 < int(port) < 65536:
        return None
    try:
        return canonical(host[1:-1] if host.startswith("[") and host.endswith("]") else host), int(port)
    except ValueError:
        return None


def split_address(address: str) -> tuple[str, str]:
    """The host and the port of a line's address. The port is empty if there is none."""
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, ""
    if IPV4.match(host):
        # To nginx these numbers are decimal, whatever they begin with. To others, a zero makes them octal.
        host = ".".join(str(int(number)) for number in host.split("."))
    return host.strip("[]"), port


# Every host asks for those of all lines.
@functools.lru_cache(maxsize=4096)
def spelled(address: str) -> str:
    """One spelling for an address that lines may write in several ways. Nobody is asked for it: names stay names."""
    if address.startswith(UNIX):
        return address
    host, port = split_address(address)
    try:
        host = canonical(host)
    except ValueError:
        host = host.lower().rstrip(".")
    return place_text((host, int(port) if port.isdecimal() else DEFAULT_PORTS["http"]))


def address_text(address: str, port: int | None) -> str:
    """An address and a port as people write them, and as the modules read them. Without a port of its own, that of the client is taken."""
    return ("[%s]:%d" if ":" in address else "%s:%d") % (address, port or 0)


def is_same_place(one: tuple[str | None, int | None], other: tuple[str | None, int | None]) -> bool:
    """Whether what leads to these addresses and ports may lead to the same place. Without a port, it takes that of the client. An unknown address is none."""
    return bool(one[0]) and one[0] == other[0] and (one[1] == other[1] or None in (one[1], other[1]))


def place_text(place: Destination) -> str:
    return UNIX + place if isinstance(place, str) else address_text(*place)


def place_json(place: Destination) -> dict[str, Any]:
    if isinstance(place, str):
        return {"address": UNIX + place, "port": None}
    return {"address": place[0], "port": place[1]}


def place_of(told: dict[str, Any]) -> Destination:
    """The place that C(place_json) returned."""
    address: str = told["address"]
    return address[len(UNIX) :] if address.startswith(UNIX) else (address, int(told["port"]))


def is_same_host(place: Destination, own: Collection[Destination], others: Collection[Destination] = ()) -> bool:
    """Whether a place is on the host that has the places C(own).

    The same address is the same host, whatever the port. But other hosts may share it: every machine has the loopback addresses, and what leads to
    C(others) tells that these have an address of C(own), too. Then only the port tells.
    """
    if place in own:
        return True
    if isinstance(place, str) or place[0] in LOOPBACK:
        return False
    address = place[0]
    return any(mine[0] == address for mine in own if not isinstance(mine, str)) and not any(it[0] == address for it in others if not isinstance(it, str))


def reason_of(error: Exception) -> str:
    """The reason of an error in a few words."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def too_low(path: str, level: str | None) -> str | None:
    """The sentence that the level of a socket of HAProxy is too low; None if it is not, or not known."""
    return None if level in (None, "admin") else "HAProxy socket %s allows only the level %s; admin is needed" % (path, level)


def mistake_in_seconds(value: Any, least: float = 0.0, above: bool = False) -> str:
    """What is wrong with a length of time, or empty. What is below C(least), or with C(above) not above it, infinite or no number is wrong."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (OverflowError, TypeError, ValueError):
        number = math.nan
    if math.isfinite(number) and (number > least if above else number >= least):
        return ""
    return "is %r; it must be a number of seconds%s" % (value, (" above %g" if above else ", %g or more") % least)


def is_lookable(host: str) -> bool:
    """Whether a name of plain letters may be looked up: none of its parts between the dots is empty or too long."""
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


def port_mistake(port: object) -> str:
    """What is wrong with the number of a TCP port, or empty."""
    text = str(port)
    return "" if text.isascii() and text.isdecimal() and 1 <= int(text) <= 65535 else "%r is not a TCP port from 1 to 65535" % (port,)


def check_port(option: str, port: object) -> None:
    """Raises ValueError if this value of an option is no TCP port."""
    mistake = port_mistake(port)
    if mistake:
        raise ValueError("%s: %s" % (option, mistake))


def fold(event_id: str) -> str:
    """Event ids are kept as given and compared without case."""
    return event_id.strip().lower()
