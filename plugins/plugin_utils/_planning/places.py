# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The seam between the plan and the balancers: places, and what a provider tells of them. Private to the collection; pure.

A place is one spot at which traffic reaches a host. The plan knows places and no balancer. A provider knows one kind of balancer: it
turns the looks at the machines on which that runs into places, and says how these machines are looked at next.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

FREE = "free"
"""Condition of a place that none of our holds is on."""
HELD = "held"
"""Condition of a place that we hold, also if the balancer has forgotten that it is out."""
CHANGED = "changed"
"""Condition of a place that we hold and that somebody else has changed since."""


@dataclass(frozen=True)
class Count:
    """How many requests came to a place so far, by the count of one process on its machine."""

    process: object
    clock: float            # the steady clock of the machine
    total: int
    quiet_for: float = 0.0  # seconds without a new one that the look itself has seen


@dataclass(frozen=True)
class Group:
    """The servers that share the same requests, as C(_minimum.shortage) counts them."""

    key: tuple
    name: str
    servers: tuple


@dataclass(frozen=True)
class Place:
    """One spot at which traffic reaches a host."""

    name: str                         # in messages, one of the host's own; empty if the collection does not know one
    machine: str = ""                 # where it is changed
    in_rotation: bool = False         # whether new requests may come
    state: str = ""                   # what the provider calls the state that it is in
    serves: bool = False              # whether it counts as in service
    busy: tuple = ()                  # sentences: what is still there, or that nobody can tell
    count: Count | None = None        # what arrives; None if it is in rotation, or nobody counts
    seen: float | None = None         # when it was looked at, by the controller's clock; None if nobody looks at it
    looks: int | None = None          # for how many looks in a row the one at it stands; None if nobody looks at it
    condition: str = FREE
    held_by: frozenset = frozenset()  # folded ids of the events that hold it
    must_go_out: bool = False         # whether something is lacking for it to be out, whoever holds it
    by_name: bool = True              # whether it is the host's by its name, and not because it leads to the host
    leads_to: str = ""                # the address of the host to which it leads, if it is not the host's by its name
    owner: str | None = None          # the other target to which it belongs by its name
    group: Group | None = None        # with whom it shares its requests
    member: str = ""                  # its name in the group
    pool_address: str | None = None   # from where the balancer keeps idle connections to the host
    checked: bool = True              # whether the balancer itself checks that the host serves again
    returns: str = ""                 # how it comes back into rotation without anybody's doing
    conflict: str = ""                # sentence: what somebody else did to it
    note: str = ""                    # sentence: what else is to be told of it
    balancer: tuple = ()              # the provider that tells of it, and the settings of that balancer; the plan fills it in

    def lacks_out(self, wanted):
        """Whether something is to be done until it is out and held for all these events."""
        return self.must_go_out or self.condition == HELD and not self.owner and not wanted <= self.held_by


@dataclass(frozen=True)
class Traffic:
    """What a provider tells of one host."""

    places: tuple = ()
    serves: bool = True     # whether the host serves, as far as its balancer tells
    unread: tuple = ()      # sentences: machines of which nobody can tell
    helpless: bool = True   # whether each of these is a mistake, not a passing fault
    mistakes: tuple = ()    # sentences: what forbids every step for the host
    not_running: dict = field(default_factory=dict)  # machines on which no balancer runs and that therefore carry no traffic, each with its clock


@dataclass(frozen=True)
class MachineLook:
    """How one machine is looked at next."""

    key: str                    # of the look, as in the document
    machine: str                # inventory name
    module: str                 # of this collection
    look: dict                  # the module's options, without C(wait_for), C(quiet) and C(timeout)
    wait_for: list = field(default_factory=list)  # what of it is to be idle, where that is waited for
    quiet: float = 0.0          # seconds without a new request that are wanted then


def joined(told):
    """What all balancers of a host tell together. C(told): pairs of a balancer (C(Place.balancer)) and its C(Traffic)."""
    places, seen = [], set()
    for balancer, traffic in told:
        for place in traffic.places:
            # Two balancers on one machine may call a server the same.
            name = f"{place.name} ({balancer[1].get('socket')})" if place.name in seen else place.name
            places.append(replace(place, name=name, balancer=balancer))
        seen.update(place.name for place in traffic.places)
    found = [traffic for _balancer, traffic in told]
    return Traffic(
        tuple(places),
        # Requests come through all of them.
        all(traffic.serves for traffic in found),
        tuple(sentence for traffic in found for sentence in traffic.unread),
        all(traffic.helpless for traffic in found if traffic.unread),
        tuple(sentence for traffic in found for sentence in traffic.mistakes),
        {machine: clock for traffic in found for machine, clock in traffic.not_running.items()},
    )


class Provider:
    """One kind of balancer. A host that no balancer knows needs no more than this."""

    name = ""
    title = ""
    """How people call it."""
    tasks = ()
    """Names of the task records that its roles leave on a host."""
    may_forget = False
    """Whether it may put a host into rotation again by itself. Then the time for which the host has been out begins anew."""

    def traffic(self, settings, host, hosts, machines, addresses):
        """The C(Traffic) of a host at one balancer with these settings.

        C(hosts): all targets. C(machines): all looks at machines. C(addresses): whose an address is.
        """
        return Traffic()

    def records(self, settings, machines):
        """The records on its machines that are about the host with these settings, each with its C(Machine)."""
        return ()

    def out_since(self, record, entry, is_new):
        """The dates, the last of which tells since when the host has been out by this entry of a record; None if it does not tell.

        C(is_new): whether this run sees the event for the first time.
        """
        return None

    def arrived(self, settings, place, came, begun):
        """The sentence about a place that is out, and to which so many requests came since that moment."""
        return ""

    def looks(self, settings, waits, searched):
        """A C(MachineLook) for each of its machines, for the next pass.

        C(settings): pairs of a host and the settings of one of its balancers. C(waits): for which hosts it is waited, with the seconds without a
        new request that are wanted. C(searched): a function from a host's name and a key to the addresses that lead to that host.
        """
        return []

    def acts(self, settings, direction, hold, step):
        """How it takes a host out or in: a machine, a module and its options, for each machine. None if a task file of the user's own does that.

        C(hold): the options of a hold. C(step): the step as JSON.
        """
        return []

    def shows(self, look, act):
        """Whether a look at a machine shows what an act there has told, so that it was not made before."""
        return True

    def after_release(self, look, act, event_ids):
        """The look at a machine as it would be after holds for these events were released there; None if the act does not tell that."""
        return None
