# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What must the next pass know? Pure.

Each pass reads the memory of the former one here, and writes it here once, at its end. It is JSON: a journal keeps it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import names_of, typed
from ansible_collections.graceful.azure.plugins.plugin_utils._rules import Rule
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Arrived, Json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class LastStep:
    role: str
    event_ids: list[str]
    state: str = "out"


@dataclass(kw_only=True)
class Lasting:
    """What a pass knows of a host and the next one must know, too. Moments are by the controller's clock."""

    resource_name: str | None = None
    told_name: str | None = None  # what its metadata service calls it, if the settings name it, too
    addresses: list[str] | None = None  # its IP addresses, as the last look that read them told
    state_folder: Json = field(default_factory=dict)  # the path of the folder of its records and its id, as the last look that reached it told
    booted_at: float | None = None  # when this run first saw the boot of the host that goes on
    silent_since: float | None = None  # since when its metadata service was not read
    mute_since: float | None = None  # since when that has given no document
    blind_since: float | None = None  # since when one of its balancers was not read
    fatal_since: float | None = None  # since when a mistake has forbidden every step for it
    failing_since: float | None = None  # since when its steps have failed
    failure: str | None = None  # why its last step failed
    absent: dict[str, list[float]] = field(default_factory=dict)  # per event: when documents without it were read, the last two that C(is_over) counts
    held_since: dict[str, float] = field(default_factory=dict)  # per event: since when it is out for it
    # Whether its health answer was seen to pass. What is handed over before its balancers may make it fail.
    probe_passed: bool = False
    answer: str | None = None  # why it did not answer while it served, empty if it did, None if it was not asked


@dataclass
class HostMemory(Lasting):
    """What is remembered of a host."""

    restoring_since: float | None = None  # since when runs have tried to bring it back
    last_step: LastStep | None = None
    looks: int = 0  # idle looks in a row
    boot_id: str | None = None  # in which boot of the host they were
    looks_outside: int = 0  # the same, by its balancers alone
    recorded: list[str] = field(default_factory=list)  # the events for which it had records of its own
    found_ready: list[str] = field(default_factory=list)  # the events for which it was ready when it could be reached last, and was seen out since
    arrivals: dict[str, Arrived] = field(default_factory=dict)  # per place that is out: see judgement.py
    not_running: dict[str, float] = field(default_factory=dict)  # per machine: since when no balancer runs there, by its own clock
    in_rotation: bool = False  # whether it is held, and a balancer may still send it requests
    ports: list[int] = field(default_factory=list)  # its ports to which its balancers lead
    heard: list[int] = field(default_factory=list)  # the ports on which somebody was seen listening since an event names it
    unserved: bool = False  # whether it did not serve behind a balancer that tells nothing
    back_at: float | None = None  # when it was first seen to serve there again
    seen_out_since: float | None = None  # since when somebody else was seen to keep it out there
    state: str | None = None
    state_since: float | None = None
    warned: list[str] = field(default_factory=list)  # of what people were warned, see status.py


@dataclass
class EventMemory:
    """What is known of an event, also when no metadata service shows it any more."""

    first_seen: float
    event_id: str
    event_type: str | None = None
    event_source: str | None = None
    resources: list[str] = field(default_factory=list)
    description: str | None = None
    duration_in_seconds: int | None = None
    status: str | None = None
    not_before: str | None = None  # as the service wrote it
    not_before_at: float | None = None  # by the controller's clock
    seen_started: float | None = None
    document: Json | None = None  # as it was shown last, for rules
    recalled: bool = False  # whether this run first knew it only from a record
    hosts: list[str] = field(default_factory=list)  # every target that it was ever taken to name
    confirmed: list[str] = field(default_factory=list)  # the targets whose own services have shown it
    unconfirmed: list[str] = field(default_factory=list)  # the targets that it was taken to name while their own services told nothing
    namesakes: list[str] = field(default_factory=list)  # the targets whose own services proved that it names another VM of the same name
    answered_empty: list[str] = field(default_factory=list)  # the targets whose own services have answered with an empty body
    named: dict[str, float] = field(default_factory=dict)  # per lower-case name in Resources: since when it is there
    # Per host: since when its service gives documents without it, and when it gave the last.
    without: dict[str, tuple[float, float]] = field(default_factory=dict)
    unnamed: dict[str, float] = field(default_factory=dict)  # per host that it named: since when its service shows it without its name
    shown_in: dict[str, int] = field(default_factory=dict)  # per host: the number of the last document in which its service showed it
    targets: list[str | None] | None = None  # the names in Azure of the targets that it names
    action: str | None = None
    rule: Rule | None = None  # the rule that decides
    judged_late: bool = False  # whether the rule decided only after the event had started
    mistake: str | None = None  # why no rule can decide
    unasked: str | None = None  # why the user's rules do not decide
    approved_at: float | None = None  # when this run approved it last
    approved_before: bool = False  # whether a record says that it was approved, and nobody knows when
    approving: bool = False  # whether a run began to approve it, and nobody knows whether the service accepted that
    approving_until: float | None = None  # its NotBefore at that time
    sent_through: str | None = None  # what its approval was sent through last, if not through a VM
    refused_since: float | None = None  # since when its approval has failed, on any host
    was_ready: bool = False  # whether all of its hosts were ready before it started
    unapproved: str | None = None  # why it was not approved, as the passes before its start saw it
    kept: dict[str, list[Json]] = field(default_factory=dict)  # per host: what kept it from being ready, as C(remember.py) notes it
    held: list[str] = field(default_factory=list)  # the hosts that were held for it
    conflicts: dict[str, list[str]] = field(default_factory=dict)  # per host: sentences about what was left alone because somebody else had acted
    lost: dict[str, list[str]] = field(default_factory=dict)  # per host: sentences about what it was taken off and the settings have no more
    gone_at: float | None = None  # when this run first knew that it was over
    given_back: list[str] = field(default_factory=list)  # the hosts on which no hold for it was left after it was over


@dataclass(frozen=True)
class Memory:
    first_found: float | None  # when the run first found an event that concerns it
    hosts: dict[str, HostMemory]  # per name
    events: dict[str, EventMemory]  # per folded id


def read_memory(found: Json, names: Iterable[str]) -> Memory:
    """The memory of the former pass, with an entry for each of these hosts."""
    found = json.loads(json.dumps(found))  # a copy
    hosts, events = found.get("hosts") or {}, found.get("events") or {}
    return Memory(
        first_found=found.get("first_found"),
        hosts={name: _read_host(hosts.get(name) or {}, f"memory of {name}") for name in names},
        events={key: typed(EventMemory, event, f"memory of event {key}", approving="approving_until" in event) for key, event in events.items()},
    )


def _read_host(found: Json, where: str) -> HostMemory:
    last = found.get("last_step")
    answer = (found["unanswered"] or "") if "unanswered" in found else None
    last = typed(LastStep, last, f"last step in {where}") if last else None
    return typed(HostMemory, found, where, last_step=last, answer=answer)


def write_memory(memory: Memory) -> Json:
    """The memory as JSON."""
    return {
        "first_found": memory.first_found,
        "events": {key: _write_event(event) for key, event in memory.events.items()},
        "hosts": {name: _write_host(host) for name, host in memory.hosts.items()},
    }


def fields_of(cls: type[DataclassInstance], value: DataclassInstance) -> Json:
    """The fields of the dataclass C(cls), which is the class of C(value) or a base of it."""
    return {name: getattr(value, name) for name in names_of(cls)[0]}


def _write_host(host: HostMemory) -> Json:
    found = _known(host)
    if host.last_step:
        found["last_step"] = dict(vars(host.last_step))
    if not host.looks_outside:
        found.pop("looks_outside", None)
    answer = found.pop("answer", None)
    return found if answer is None else dict(found, unanswered=answer or None)


def _write_event(event: EventMemory) -> Json:
    found = _known(event)
    if found.pop("approving", False):
        found["approving_until"] = event.approving_until
    return found


def _known(value: DataclassInstance) -> Json:
    """The fields of a dataclass that are not empty."""
    found = fields_of(type(value), value)
    return {name: entry for name, entry in found.items() if not (entry is None or entry is False or entry in ([], {}))}
