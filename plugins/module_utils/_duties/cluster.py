# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host as a member of a cluster, whichever type that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._cluster import (
    DRAINING,
    RETURNING,
    DryMember,
    MemberError,
    Members,
    check_options,
)
from ansible_collections.graceful.azure.plugins.module_utils._cluster_types import TYPES
from ansible_collections.graceful.azure.plugins.module_utils._conditions import CHANGED_MEANWHILE
from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.cluster import OPTIONS, option_mistakes
from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import IN, MOVING, NO_NAME, OUT, Act, Duty, holding, outcome
from ansible_collections.graceful.azure.plugins.module_utils._duties.options import told_mistake
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Engine
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Request, hold_argument_spec, holders
from ansible_collections.graceful.azure.plugins.module_utils._polling import check_seconds
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._cluster import Member
    from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import Call
    from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine

    # A member: its class, the name of its duty, and its options.
    Wanted = tuple[type[Member], str, dict[str, Any]]

# How often a cluster that answers at once is asked in a wait that is no longer than the usual pause.
LEAST_LOOKS = 4


class ClusterDuty(Duty):
    member: type[Member]

    own_mistakes = staticmethod(option_mistakes)

    @classmethod
    def mistakes(cls, name: str, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
        yield from super().mistakes(name, options)
        yield from cls.member.mistakes(options)

    def look(self) -> dict[str, Any]:
        driver = self._driver
        ((_name, seen, record),) = driver.look()
        condition = driver.condition(record, seen)
        is_out = seen.ours or bool(seen.foreign)
        is_moving = condition in (DRAINING, RETURNING) or is_out and seen.left is not None
        return self.seen(
            MOVING if is_moving else OUT if is_out else IN,
            seen.serves,
            busy=driver.why_on(seen, record),
            held_by=holders(record),
            why=[seen.foreign] if seen.foreign else driver.why_on(seen, record) if condition == CHANGED_MEANWHILE else [],
            details={"member": seen.member, "left": seen.left, "state": seen.state, "condition": condition, "found": record["found"] if record else None},
        )

    def marked(self, details: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
        """What bears our name and has no record: the record that it tells; or a sentence if it tells no event. ``details``: what is known of its events."""
        record = self._driver.marked(details)
        if record is None:
            return None, ""
        mark = "%s: %s" % (self.title, record["subject"]["member"])
        if record["events"]:
            return dict(record, path=mark, marked=True), ""
        told = ", ".join("%s: %s" % (key, value) for key, value in sorted(record["found"].items()))
        return None, (
            "%s was taken out by graceful.azure (%s), its record is gone, and nothing tells for which event. See whether it should serve, and put it back with"
            " the module duty (state: back)" % (mark, told)
        )

    @property
    def title(self) -> str:
        return _title(self.member, self.name)

    def change(self, act: Act) -> dict[str, Any]:
        store, wanted = self.machine.store(), [(self.member, self.name, self._options)]
        if not act.request.present:
            named = {"type": self.type, "name": self.name, "options": self._options}
            wanted = _on_record(store, {self.type: self.member}, named, self.machine.tools())
        engines, left = _follow(self.machine, store, wanted, act)
        return outcome(*engines, still=left)

    @property
    def _driver(self) -> Members:
        """For looks."""
        return _driver(self.machine, self.machine.store(), self.member, self.name, self._options, Act(Request(True, [])))

    @property
    def _options(self) -> dict[str, Any]:
        return {key: value for key, value in self.given.items() if key in self.member.options}


def _title(kind: type[Member], name: str) -> str:
    return "%s (%s)" % (kind.title, name)


def _driver(machine: Machine, store: Any, kind: type[Member], name: str, options: dict[str, Any], act: Act) -> Members:
    tools = machine.tools()
    member = kind(options, tools)
    obeying = DryMember(member) if machine.check_mode else member
    return Members(obeying, store, act.request, kind.type, name, options, tools.boot_id(), act.force)


def _engine(machine: Machine, store: Any, kind: type[Member], name: str, options: dict[str, Any], act: Act) -> Engine[Any]:
    driver = _driver(machine, store, kind, name, options, act)
    if act.timeout <= driver.pause:
        driver.pause = act.timeout / LEAST_LOOKS
    return Engine(driver, store, act.request, machine.monotonic, machine.sleep)


def hold_spec() -> dict[str, Any]:
    """The options of C(hold)."""
    return dict(
        hold_argument_spec(),
        type={"type": "str", "choices": list(TYPES)},
        name={"type": "str"},
        options={"type": "dict"},
        force={"type": "bool", "default": False},
        timeout={"type": "float", "default": 0},
    )


def hold(params: Mapping[str, Any], machine: Machine, request: Request, types: Mapping[str, type[Member]] = TYPES) -> dict[str, Any]:
    """Take a member out and hold it, or release the hold. Without C(name): of all members that are on record."""
    act = Act(request, check_seconds("timeout", params["timeout"]), force=params["force"])
    store = machine.store()
    if request.present:
        wanted = [(types[params["type"]], params["name"], _checked(types, params))]
    else:
        wanted = _on_record(store, types, params, machine.tools())
    engines, left = _follow(machine, store, wanted, act)
    members = [engine.driver.describe(hold) for engine in engines for hold in engine.current]
    return dict(outcome(*engines, still=left), members=members, waiting_for=left[0] if left else None)


def _checked(types: Mapping[str, type[Member]], params: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the member in their types."""
    name = params["name"]
    if name is not None and not name.strip():
        raise ValueError(NO_NAME)
    options, mistakes = check_options(types[params["type"]], params["options"] or {})
    if mistakes:
        raise ValueError("; ".join(told_mistake("options", *mistake) for mistake in mistakes) + ".")
    return options


def _on_record(store: Any, types: Mapping[str, type[Member]], params: Mapping[str, Any], tools: Any) -> list[Wanted]:
    """The members that the request is about: those on record, or the one in its options if what was set there bears our name."""
    found = []
    for record in store.records(CLUSTER):
        type_name, name = record["subject"]["type"], record["subject"]["name"]
        if params["type"] in (None, type_name) and params["name"] in (None, name):
            if type_name not in types:
                raise ValueError("The record %s is about a member of the type %s, which this release does not know." % (record["path"], type_name))
            found.append((types[type_name], name, record["options"]))
    if not found and params["type"] and params["options"] is not None:
        kind, options = types[params["type"]], _checked(types, params)
        if bears_name(kind(options, tools)):
            found.append((kind, params["name"] or kind.type, options))
    return found


def _follow(machine: Machine, store: Any, wanted: Iterable[Wanted], act: Act) -> tuple[list[Engine[Any]], list[str]]:
    """Run an engine for each of these members. Returns them, and what is left to wait for."""
    ends = machine.monotonic() + (0.0 if machine.check_mode else act.timeout)
    engines, left = [], []
    for kind, name, options in wanted:
        engines.append(_engine(machine, store, kind, name, options, act))
        left.append(_run(engines[-1], machine, ends, _title(kind, name)))
    return engines, [told for told in left if told]


def _run(engine: Engine[Any], machine: Machine, ends: float, title: str) -> str:
    """Run the engine. Returns what is left to wait for.

    A cluster that cannot be asked after the event may be starting still, so that is waited for. Before the event it is an error at once.
    """
    while True:
        try:
            engine.run(max(0.0, ends - machine.monotonic()))
            return "; ".join(engine.waiting_for)
        except MemberError as error:
            told = "%s: %s" % (title, error)
            if engine.request.present:
                raise MemberError(told) from error
            left = ends - machine.monotonic()
            if left <= 0:
                return told.rstrip(".")
            machine.sleep(min(engine.driver.pause, left))


def bears_name(member: Member) -> bool:
    """Whether something that bears our name has taken a member out, or has been left of that."""
    try:
        return member.bears_name and member.look().is_named
    except MemberError:
        # Nothing says that it was taken out, so nobody waits for a cluster that cannot be asked.
        return False


def class_of(kind: type[Member]) -> type[ClusterDuty]:
    """The duty of members of this type."""
    return type(kind.__name__ + "Duty", (ClusterDuty,), {"type": kind.type, "member": kind, "closes": kind.closes, "options": dict(kind.options, **OPTIONS)})


DUTIES: dict[str, type[Duty]] = {name: class_of(kind) for name, kind in TYPES.items()}
CALLS: dict[str, Callable[[], Call]] = {"cluster_hold": lambda: holding(hold_spec(), hold, needs=("type", "name"))}
