# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The interface between the plan and the duties that bring traffic: places. Pure.

A place is one spot at which traffic reaches a host, such as a server in a backend of HAProxy. The plan knows places, but no kind of balancer. A
type of duty knows one kind of balancer. It turns the observations of its machines into places, and returns the options of the next looks at them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._pools import Pool
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.verdicts import Kind, Reason
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, Json, Options

if TYPE_CHECKING:
    from ansible_collections.graceful.azure.plugins.plugin_utils._duties.traffic import TrafficDuty

SearchedAt = Callable[[str, str], list[str]]
"""Returns the addresses of a host, by its name and the key of a look."""
FREE = "free"
"""Condition of a place on which there is no hold of ours."""
HELD = "held"
"""Condition of a place that we hold. The balancer may have lost its state and put the place back."""
BALANCER = "balancer"
"""Health of a place: the balancer checks it."""
CONNECTION = "connection"
"""Health of a place: something accepts connections there. What the target itself answers says more."""
NOBODY = "nobody"
"""Health of a place: the balancer tells nothing. Only the target itself can."""
CHANGED = "changed"
"""Condition of a place that we hold, but that somebody else has changed since."""

MAINTENANCE = "maintenance"
"""State of a place whose health answer somebody else makes fail."""


@dataclass(frozen=True)
class Count:
    """How many requests came to a place so far, as one process of the balancer counts them."""

    process: object
    clock: float  # the steady clock of the machine
    total: int
    quiet_for: float = 0.0  # seconds without a new request that the look itself has seen
    at: float | None = None  # when they were counted, by the controller's clock


@dataclass(frozen=True)
class Group:
    """The servers that share the same requests, as C(_minimum.shortage) counts them."""

    key: tuple[str, ...]
    name: str
    servers: tuple[Json, ...]


@dataclass(frozen=True)
class Place:
    """One spot at which traffic reaches a host."""

    name: str  # the name in messages; empty if the collection knows none
    machine: str = ""  # the machine on which it is changed
    in_rotation: bool = False  # whether new requests may come
    noticing: bool = False  # whether it is out and in rotation because its balancer has yet to notice
    out_since: float | None = None  # when its balancer, which tells nothing, must have noticed that it is out, by the controller's clock
    seen_out_since: float | None = None  # since when passes have seen that somebody else keeps it out, by the controller's clock, if only looks tell it
    state: str = ""  # its state, by the name that the provider gives it
    serves: bool = False  # whether it counts as in service
    may_serve: bool = False  # whether it may be, although what the settings ask does not pass: the minimum keeps it, and no other relies on it
    busy: tuple[str, ...] = ()  # sentences: which requests are still there, or that this is unknown
    count: Count | None = None  # the requests that came; None if it is in rotation, or nobody counts them
    past: tuple[tuple[str, Count], ...] = ()  # what may send requests to the host past its places, and how many came that way
    nothing_comes: bool = False  # whether the balancer can send it nothing, so that no time without a request need pass
    seen: float | None = None  # when it was looked at, by the controller's clock; None if nobody looks at it
    looks: int | None = None  # as how many looks in a row the look at it counts; None if nobody looks at it
    condition: str = FREE
    held_by: frozenset[str] = frozenset()  # folded ids of the events that hold it
    must_go_out: bool = False  # whether the balancer still has to take it out, whoever holds it
    only_in: tuple[str, ...] = ()  # the only groups of the balancer in which the host's name is the host's; empty if it is in all of them
    by_name: bool = True  # whether it has the host's own name; otherwise it only leads to the host's address
    leads_to: str = ""  # the host's address, if the place does not have the host's name: the module that takes the host out must be told
    owner: str | None = None  # the other target whose name it has
    ports: frozenset[int] = frozenset()  # the host's own ports to which it leads, as far as its addresses tell
    group: Group | None = None  # the servers with which it shares its requests
    health: str = BALANCER  # who says that it could answer
    member: str = ""  # its name in the group
    pools: tuple[Pool, ...] = ()  # with which connections the balancer checks the host, or keeps them for later: no requests
    told: tuple[Pool, ...] = ()  # the connections of the balancer to the host of which a sentence in C(busy) tells already
    checked: bool = True  # whether the balancer itself checks that the host serves again
    returns: str = ""  # phrase: how it comes back into rotation by itself
    by_others: str = ""  # phrase: how somebody else keeps it out, if its type says that of each place
    booting: tuple[str, ...] = ()  # per sentence in C(busy), what is said instead once the event has started, if the host probably still boots
    conflict: str = ""  # sentence: what somebody else did to it
    note: str = ""  # sentence: other news about it
    still_out: str = ""  # sentence: what is still to be put back, if its type says that of each place
    stays: str = ""  # sentence: why nothing can take it out
    wrong: str = ""  # sentence: why it never counts as out, although it was taken out, until a person mends something
    passes: bool = False  # whether what its balancer asks was just asked, and passes, and nothing makes it fail
    untold: str = ""  # sentence: why nobody could tell that it is out, or why it gets nothing already
    # The type of duty that made it, and the settings of that balancer.
    balancer: Balancer = ()  # type: ignore[assignment]  # the plan fills it in before anybody reads it

    @property
    def is_out(self) -> bool:
        """Whether the host is out here, whoever took it out."""
        return not self.in_rotation or self.state == MAINTENANCE

    def is_in(self, group: Group | None) -> bool:
        """Whether it is the host's own server of a group."""
        return bool(self.group and group and self.group.key == group.key and not self.owner)

    def lacks_out(self, wanted: set[str]) -> bool:
        """Whether it is not yet out, or not yet held for all these events."""
        return self.must_go_out or self.condition == HELD and not self.owner and not wanted <= self.held_by


@dataclass(frozen=True)
class Traffic:
    """What one balancer does for one host, as its provider tells."""

    places: tuple[Place, ...] = ()
    serves: bool = True  # whether the host serves, as far as its balancer tells
    unread: tuple[Reason, ...] = ()  # the machines that could not be read
    mistakes: tuple[str, ...] = ()  # sentences: what forbids every step for the host
    not_running: dict[str, float] = field(default_factory=dict)  # per machine that carries no traffic because no balancer runs there: its clock
    doubts: tuple[str, ...] = ()  # sentences: what has the host's name and may not be the host's, or may lead to the host

    @property
    def is_helpless(self) -> bool:
        """Whether a person must mend whatever could not be read."""
        return all(reason.kind is not Kind.UNREAD for reason in self.unread)


def lasting(name: str, machine: str, why: str) -> Place:
    """A place from which nothing takes the host out. C(why): the sentence that says so."""
    return Place(name, machine, in_rotation=True, busy=(why,), by_name=False, stays=why)


def unread(label: str, result: Json, mistake: Kind = Kind.MISTAKE) -> Reason:
    """Why a look at a machine told nothing. C(mistake): the kind of the reason if only a person can mend that."""
    return Reason(mistake if result.get("fatal") else Kind.UNREAD, f"{label}: {result.get('fatal') or result.get('error') or 'not observed'}")


@dataclass(frozen=True)
class NextLook:
    """The next look at one machine."""

    key: str  # the key of the look in the document
    machine: str  # inventory name
    module: str  # the module of this collection that looks
    options: Options  # the module's options, without C(wait_for), C(quiet) and C(timeout)
    wait_for: list[str] = field(default_factory=list)  # the names of the servers that the look waits for until they are idle
    quiet: float = 0.0  # seconds without a new request after which they count as idle


def all_traffic(parts: Sequence[tuple[Balancer, Traffic]]) -> Traffic:
    """One C(Traffic) for all balancers of a host. C(parts): pairs of a balancer (C(Place.balancer)) and its C(Traffic)."""
    places: list[Place] = []
    names: set[str] = set()
    for balancer, traffic in parts:
        for place in traffic.places:
            # Two balancers on one machine may have servers of the same name.
            name = f"{place.name} ({balancer[1].get('socket')})" if place.name and place.name in names else place.name
            past = tuple((f"{way} ({balancer[1].get('socket')})" if way in names else way, count) for way, count in place.past)
            places.append(replace(place, name=name, past=past, balancer=balancer))
        names.update(name for place in traffic.places for name in (place.name, *(way for way, _count in place.past)))
    traffics = [traffic for _balancer, traffic in parts]
    return Traffic(
        tuple(places),
        # A request passes through all of them.
        all(traffic.serves for traffic in traffics),
        tuple(reason for traffic in traffics for reason in traffic.unread),
        tuple(sentence for traffic in traffics for sentence in traffic.mistakes),
        {machine: clock for traffic in traffics for machine, clock in traffic.not_running.items()},
        tuple(sentence for traffic in traffics for sentence in traffic.doubts),
    )


Balancer = tuple["TrafficDuty", BalancerSettings]
"""One duty of a host that brings traffic: its type, and the settings that this reads."""
