# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every duty has in common on the machine on which it is looked at, taken off and put back.

A C(Duty) is one entry of C(graceful_azure_duties). Its file is a thin adapter: the drivers of the hold engine know the things and their records. All duties
tell what they have seen in one shape (C(seen)), and what became of an act in another (C(outcome)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.graceful.azure.plugins.module_utils._duties.options import common_mistakes
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import DriverError
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import HoldError, Request
from ansible_collections.graceful.azure.plugins.module_utils._minimum import parse_minimum
from ansible_collections.graceful.azure.plugins.module_utils._spellings import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Errors, Machine
    from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Engine


class Call(NamedTuple):
    """Something that a machine can be asked. C(conditions): what its options need besides their types. C(errors): what is told as a failure."""

    spec: dict[str, Any]
    run: Callable[[Mapping[str, Any], Machine], dict[str, Any]]
    errors: Errors = ()
    conditions: dict[str, Any] = {}
    # What is told of the machine even then.
    of_failure: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda params: {}


def holding(
    spec: dict[str, Any],
    hold: Callable[[Mapping[str, Any], Machine, Request], dict[str, Any]],
    errors: Errors = (),
    needs: tuple[str, ...] = (),
    **conditions: Any,
) -> Call:
    """A call that puts and releases holds. C(needs): the options without which none is put."""
    required_if = [("state", "present", ("event_ids", *needs)), *conditions.pop("required_if", ())]

    def run(params: Mapping[str, Any], machine: Machine) -> dict[str, Any]:
        return machine.take(lambda: hold(params, machine, machine.request(params)))

    return Call(spec, run, errors, dict(conditions, required_if=required_if))


# The states of a duty. On its way, or in a part of its places: changing. Not seen: unknown.
IN, OUT, MOVING, UNKNOWN = "in", "out", "changing", "unknown"
BACK = "back"
NO_NAME = "name is empty: give the hold a name."


class Act(NamedTuple):
    """What is to be done with a duty: for which events, and how long that may take."""

    request: Request
    timeout: float = 0.0
    # How many servers of a backend must stay in service, for balancers.
    min_in_service: str | None = None
    # The addresses of the host, for balancers whose servers may have other names. None: those of its own server.
    addresses: list[str] | None = None
    # Whether a server waits for the balancer's own checks on its way back. A machine that is gone for good passes none.
    await_checks: bool = True
    # Whether a member of a cluster goes out although its cluster cannot spare it.
    force: bool = False
    # Whether the user's own tasks have done their job.
    done: bool | None = None
    # Whether what the checks of a balancer may need comes back only after it.
    checked_later: bool = False


class Duty:
    """One thing that a host does for others. ``options``: as the user has written them, checked, with their defaults."""

    type = ""
    # The argument specification of its own options, besides type and name.
    options: dict[str, Any] = {}
    # Whether it brings traffic to the host.
    traffic = False
    # Whether it is the host's own answer, for which the checks of its other balancers may ask as well.
    answers_checks = False
    # Whether it takes no connections while it is off. Then it comes back before what brings traffic, also if it stands first.
    closes = False
    # Whether it is one of the machines in its option hosts, and not of the host itself.
    of_balancer = False
    # Whether it is looked at and changed by the controller, through an API, and not on a machine.
    by_controller = False
    # Why a host may have only one of this type; empty if it may have several.
    once = ""
    # What its name may be, and why it cannot be left out; empty if it can.
    name_pattern = NAME
    needs_name = ""
    # What goes wrong in its driver, besides what goes wrong with records.
    driver_errors: Errors = ()

    def __init__(self, name: str, options: dict[str, Any], machine: Machine) -> None:
        self.name = name
        self.given = options
        self.machine = machine
        # Addresses of the host for which a look at a balancer searches as well.
        self.searched: list[str] = []
        # The names of duties of its type that are taken off after it in the same request.
        self.later: list[str] = []

    @classmethod
    def spec(cls, *names: str) -> dict[str, dict[str, Any]]:
        """These of its options, for a call that has them too."""
        return {name: dict(cls.options[name]) for name in names}

    @classmethod
    def mistakes(cls, name: str, options: dict[str, Any]) -> Iterable[tuple[str, str]]:
        """What is wrong with its options besides their types: pairs of an option and a sentence."""
        # The plan knows which of a balancer's servers the host is.
        if "server" in cls.options and not options["server"]:
            yield "server", "not set; give the name that the balancer has for the host"
        yield from common_mistakes(cls.options, options)
        yield from cls.own_mistakes(name, options)

    @staticmethod
    def own_mistakes(name: str, options: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
        """What both sides know of that: C(option_mistakes) of the file of the type in C(both_sides)."""
        return ()

    @property
    def errors(self) -> Errors:
        return (DriverError, HoldError, ValueError) + self.driver_errors + self.machine.errors

    @property
    def brings_traffic(self) -> bool:
        return self.traffic

    @property
    def quiet(self) -> float:
        """For how many seconds nothing may have come before it counts as idle."""
        return float(self.given.get("quiet", 0))

    @property
    def title(self) -> str:
        """How a sentence about it begins, if what it has seen does not name it."""
        return ""

    def look(self) -> dict[str, Any]:
        """What is there now, in the shape of C(seen)."""
        raise NotImplementedError

    def see(self) -> dict[str, Any]:
        """The same if it cannot be looked at."""
        try:
            return self.look()
        except self.errors as error:
            return self.unseen(error)

    def still_on(self) -> list[str]:
        """What keeps it from being off, in sentences that name it. What is not there is as good as off."""
        seen = self.see()
        busy: list[str] = [] if seen["details"].get("missing") else seen["busy"]
        return ["%s: %s" % (self.title, sentence) for sentence in busy] if self.title and seen["state"] != UNKNOWN else busy

    def watch(self, seconds: float) -> None:
        """Let some time pass until the next look."""
        self.machine.sleep(seconds)

    def note_before(self) -> None:
        """Note what can no longer be seen once the duties before it in a request are off."""

    def change(self, act: Act) -> dict[str, Any]:
        """Take the host off, and record it; or release the hold, and put the host back with the last, if the request of the act says so. Returns an
        C(outcome)."""
        raise NotImplementedError

    def seen(
        self,
        state: str,
        serves: bool | None,
        busy: Iterable[str] = (),
        held_by: Iterable[str] = (),
        why: Iterable[str] = (),
        problem: str | None = None,
        doubts: Iterable[str] = (),
        details: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """``serves``: whether something goes there and could be answered; None if nobody can tell. ``busy``: sentences, what keeps it from being off.

        ``why``: sentences, what somebody else has done. ``problem``: why it could not be taken off now, or why nobody could tell that it is off.

        ``doubts``: sentences, what may go to the host past this duty. ``details``: what this type alone knows.
        """
        return {
            "type": self.type,
            "name": self.name,
            "state": state,
            "serves": serves,
            "busy": list(busy),
            "held_by": list(dict.fromkeys(held_by)),
            "why": list(why),
            "problem": problem,
            "doubts": list(doubts),
            "details": details or {},
        }

    def unseen(self, problem: object) -> dict[str, Any]:
        text = str(problem)
        return self.seen(UNKNOWN, None, busy=["%s cannot be looked at: %s" % (self.title or self.name, text.rstrip("."))], problem=text)


def state_of(servers: Collection[Mapping[str, Any]], serving: Collection[object]) -> str:
    """The state of a host that is these servers of a balancer. C(serving): those that get requests."""
    if any(server["restoring"] for server in servers) or 0 < len(serving) < len(servers):
        return MOVING
    return IN if serving else OUT


def outcome(*engines: Engine[Any], still: Iterable[str] = ()) -> dict[str, Any]:
    """What became of an act. ``still``: sentences, why the duty is not where it should be although nothing is waited for."""
    waiting_for = [sentence for engine in engines for sentence in engine.refused + engine.waiting_for]
    waiting_for = waiting_for or list(still)
    return {
        "done": not waiting_for,
        "changed": any(engine.changed for engine in engines),
        "waiting_for": waiting_for,
        "conflicts": [sentence for engine in engines for sentence in engine.conflicts],
        "diff": as_one(engine.diff for engine in engines),
    }


def as_one(diffs: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """One diff of several."""
    known = list(diffs)
    return {way: {name: told for diff in known for name, told in diff[way].items()} for way in ("before", "after")}


def least_of(params: Mapping[str, Any], where: str = "") -> Any:
    """How many servers must stay in service, as the option min_in_service says. ``where``: what stands before its name in a sentence."""
    if params.get("min_in_service") is None:
        return None
    try:
        return parse_minimum(params["min_in_service"])
    except ValueError as error:
        raise ValueError("%smin_in_service: %s." % (where, error)) from None
