# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What does the document of a pass look like, and is this one usable? Pure.

The document is JSON, so a journal can keep it and a pass can be planned again from it:

C(now)       the controller's clock, Unix seconds
C(pass)      number of this pass, from 1
C(run)       see C(Run)
C(settings)  per host: what its variables say (see C(_settings.read_settings))
C(hosts)     per host: what the look at it returned, see C(HostObservation)
C(balancers) per key (the name of a machine, a space, and what its provider adds): what the look at that machine returned; only its provider reads it
C(results)   per host: the last result of each role (C(<role>)), and C(failure) (C(pass), C(message)) if a step failed
C(memory)    the memory that the former pass wrote, empty at first
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from ansible_collections.graceful.azure.plugins.module_utils._duties.options import LOOKS
from ansible_collections.graceful.azure.plugins.module_utils._events import parse_time
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import APPROVED, TASK
from ansible_collections.graceful.azure.plugins.plugin_utils._rules import RuleGiven
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, DrainStep, Json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

AnyData = TypeVar("AnyData", bound="DataclassInstance")


class DocumentError(ValueError):
    """A document that no pass can be planned from. Its text says what is wrong with it."""


def seconds(text: Any) -> float | None:
    """A date of an event or a hold in Unix seconds; None for anything else."""
    try:
        return parse_time(text).timestamp()
    except (AttributeError, TypeError, ValueError):
        return None


def typed(kind: type[AnyData], found: Any, where: str, **more: Any) -> AnyData:
    """An instance of the dataclass C(kind), made from a dictionary. Other keys of the dictionary are left out. C(more) overrides its values."""
    if not isinstance(found, dict):
        raise DocumentError(f"{where} is {found!r} and no dictionary")
    names, needed = names_of(kind)
    missing = [name for name in needed if name not in found and name not in more]
    if missing:
        raise DocumentError(f"{where} has no {', '.join(missing)}")
    return kind(**dict({name: found[name] for name in names if name in found}, **more))


@functools.cache
def names_of(kind: type[DataclassInstance]) -> tuple[list[str], list[str]]:
    """The names of all fields of a dataclass, and of those without a default."""
    known = fields(kind)
    return [f.name for f in known], [f.name for f in known if f.default is MISSING and f.default_factory is MISSING]


@dataclass(frozen=True)
class Run:
    started: float  # Unix seconds
    timeout: float
    wait: bool  # whether more passes follow
    watch: bool  # whether an event is waited for
    partial: bool = False  # whether others behind the balancers are no targets
    check: bool = False  # check mode
    look_twice: bool = False  # whether a run of one pass may add a second look
    forks: int = 1
    sleep: float = 1.0  # seconds between passes
    task_timeout: float = 0.0  # seconds after which Ansible ends a task; 0: never
    observe_timeout: float = 5.0
    rehearsed: bool = False  # whether its event is made up


@dataclass(frozen=True)
class DrainSettings:
    ports: list[int] | None  # None: those to which the balancers lead
    timeout: float
    steps: list[DrainStep]  # the drain steps in the order in which they go out, see C(_duties/on_host.py)

    @property
    def out(self) -> list[DrainStep]:
        """The steps that have anything to do when the host goes out."""
        return [step for step in self.steps if step["out"]]

    @property
    def first(self) -> list[DrainStep]:
        """Those of them that come before the host goes out of its balancers."""
        return [step for step in self.out if step.get("first")]


@dataclass(frozen=True)
class RestoreSettings:
    timeout: float
    unanswered: str = "refuse"
    ask: Json | None = None  # what must answer; empty: nothing; None: nobody needs to know


@dataclass(frozen=True)
class Settings:
    resource_name: str | None
    rules: list[RuleGiven]
    min_in_service: int | str
    unknown_resources: str
    load_balancers: list[BalancerSettings]  # one or more, the outermost first; only its provider reads one, except for C(provider) and C(quiet)
    drain_host: DrainSettings
    restore_service: RestoreSettings
    may_be_off: bool = False
    outside: Json | None = None  # how approvals are sent where no VM can; only _steps/approve_event.py reads it, except for C(title)

    @property
    def quiet(self) -> float:
        """Seconds without a new request after which a host that is out counts as idle."""
        longest: float = max(balancer.get("quiet", 0.0) for balancer in self.load_balancers)
        return longest


@dataclass(frozen=True)
class Shown:
    """One event as one metadata service shows it."""

    event_id: str
    event_type: str | None
    event_status: str
    resources: list[str]
    event_source: str | None
    description: str | None
    duration_in_seconds: int | None
    not_before: str | None
    seconds_until_not_before: float | None
    document: Json  # the whole event: rules may use any of its keys


@dataclass(frozen=True)
class RecordedEvent:
    """One event in a record."""

    since: str | None = None
    details: Json = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """The record of a hold, as the module that looks returned it."""

    kind: str
    subject: Json
    events: dict[str, RecordedEvent]  # per event id
    done: bool = False
    done_since: str | None = None
    boot_id: str | None = None  # the boot of the machine in which it was taken out or done
    leads_to: Json | None = None
    for_server: str | None = None
    marked: bool = False  # whether there is no record, and what was changed tells this

    @property
    def server(self) -> str:
        """The balancer's server for which it is held, if it is about one: that itself, or one that it went out with."""
        return self.for_server or self.subject.get("server") or ""

    @property
    def name(self) -> str:
        """The name of what is held; empty if it has none."""
        name: str | None = self.subject.get("name")
        return name or ""

    @property
    def is_approval(self) -> bool:
        return self.kind == TASK and self.name == APPROVED


@dataclass(frozen=True)
class HostObservation:
    """What the last look at a host returned. If the look failed, it tells why."""

    reached: bool | None = None  # whether the module ran there; None: there was no look
    left: bool = False  # whether the host has left the run
    fatal: str | None = None  # a mistake that forbids every step for the host
    error: str | None = None
    passing: bool = True  # whether the error may be over soon
    seems_off: bool = False  # whether nothing answered at its address
    at: float | None = None  # when the look read the host, by the controller's clock
    began: float | None = None  # when the look began, by the same clock
    cut_off: float = 0.0  # the time limit in seconds that ended the look, if one did
    ended: bool = False  # whether news of another look ended it; then this is the observation before
    watched: float | None = None  # until when that look would have told news of its own, by the controller's clock
    unwatched: float = 0.0  # seconds between the observation and the begin of the look that was ended
    rested: bool = False  # whether there was no look in this pass; then, too, this is an earlier observation
    by_module: bool = False  # whether each request to the host starts a module
    fingerprint: str = ""  # a digest of the events that it showed
    age: float = 0.0  # seconds between the host's clock and the end of the look
    time: str | None = None  # the host's clock
    events: list[Shown] | None = None  # None: its metadata service was not read
    empty_body: bool = False  # whether the metadata service answered without a document
    document_incarnation: int | None = None
    steady: float = 0.0  # for how many seconds the metadata service showed the same
    looks: int = 1  # as how many looks in a row it counts
    resource_name: str | None = None
    told_name: str | None = None  # what its metadata service calls it, empty if it does not tell; None: it was not asked, or only the service names it
    addresses: list[str] | None = None
    network: str | None = None
    state_folder: Json = field(default_factory=dict)  # the path of the folder of its records, and an id that hosts with the same folder share
    connections: list[Json] | None = None
    ports: list[int] | None = None  # the ports whose connections were counted; None: none were
    uncounted: list[Json] = field(default_factory=list)  # the ports whose connections cannot be counted; see module_utils/_connections.py
    udp: list[int] = field(default_factory=list)  # those of the ports on which somebody waits for UDP
    holds: list[Record] | None = None  # its records; None: not read
    asked: bool = False  # whether the host was asked for the answer that restore_service waits for
    unanswered: str | None = None  # why it did not answer
    boot_id: str | None = None  # which boot of the host this is
    unseen: list[str] = field(default_factory=list)  # sentences: which duties check mode could not look at
    still_on: list[str] | None = None  # sentences: which drain steps are not out of duty; None: they were not looked at

    @property
    def is_new(self) -> bool:
        """Whether a look of this pass made it."""
        return not (self.ended or self.rested)

    def seen_at(self, now: float) -> float:
        """When the host's clock showed C(time)."""
        return now if self.at is None else self.at + self.age

    @property
    def is_silent(self) -> bool:
        """Whether the host was looked at and could not be reached."""
        return self.reached is not None and not self.reached


@dataclass(frozen=True)
class MachineObservation:
    """What the last look at a machine on which a balancer runs returned."""

    key: str
    result: Json  # all of it; only the provider of the machine reads it
    records: list[Record] | None  # None: not read

    @property
    def is_new(self) -> bool:
        """Whether a look of this pass made it."""
        return not (self.result.get("ended") or self.result.get("rested"))

    def seen_at(self, now: float) -> float:
        """When the machine's clock showed the time that the look returned."""
        return float(self.result.get("at", now))

    @property
    def looked_at(self) -> float | None:
        """When it was looked at, by the controller's clock. None if there was no look, or if news have ended the last one."""
        at: float | None = self.result.get("at", self.result.get("began"))
        return None if self.result.get("ended") else at

    @property
    def waited_for(self) -> Collection[str]:
        """The names of the servers for whose last requests the look has waited."""
        names: Collection[str] = (self.result.get("look") or {}).get("wait_for") or ()
        return names

    def looks(self, proves: bool) -> int:
        """As how many looks in a row it counts. C(proves): whether it alone is enough, such as a look that has waited for the end of the last request."""
        if not self.is_new:
            return 0
        return LOOKS if proves else 1


NOT_LOOKED_AT = MachineObservation("", {}, None)


class Machines(dict[str, MachineObservation]):
    """The observations of the machines on which balancers run, by their keys; an empty one where there was no look."""

    def __missing__(self, key: str) -> MachineObservation:
        return NOT_LOOKED_AT


@dataclass(frozen=True)
class Document:
    now: float
    number: int
    run: Run
    settings: dict[str, Settings]
    observations: dict[str, HostObservation]
    machines: Machines
    results: dict[str, Json]
    memory: Json


def _read_records(found: list[Json] | None, where: str) -> list[Record] | None:
    """The records in an observation; None if the look could not read them."""
    if found is None:
        return None
    return [typed(Record, record, where, events={key: _read_entry(entry, where) for key, entry in record["events"].items()}) for record in found]


def read_document(found: Json) -> Document:
    """Check a document and read it."""
    missing = [key for key in ("now", "pass", "run", "settings", "hosts", "balancers") if key not in found]
    if missing:
        raise DocumentError(f"the document has no {', '.join(missing)}")
    return Document(
        now=found["now"],
        number=found["pass"],
        run=typed(Run, found["run"], "run"),
        settings={name: _read_settings(values, f"settings of {name}") for name, values in found["settings"].items()},
        observations={name: _read_observation(found["hosts"].get(name) or {}, f"look at {name}") for name in found["settings"]},
        machines=Machines({key: MachineObservation(key, look, _read_records(look.get("holds"), f"look at {key}")) for key, look in found["balancers"].items()}),
        results=found.get("results") or {},
        memory=found.get("memory") or {},
    )


def _read_settings(found: Json, where: str) -> Settings:
    inner = {
        "drain_host": typed(DrainSettings, found.get("drain_host"), f"drain_host in {where}"),
        "restore_service": typed(RestoreSettings, found.get("restore_service"), f"restore_service in {where}"),
    }
    return typed(Settings, found, where, **inner)


def _read_observation(found: Json, where: str) -> HostObservation:
    events = found.get("events")
    if events and found.get("at") is None:
        raise DocumentError(f"{where} does not tell when it was made")
    return typed(
        HostObservation,
        found,
        where,
        events=None if events is None else [typed(Shown, shown, where, document=shown) for shown in events],
        holds=_read_records(found.get("holds"), where),
        asked="unanswered" in found,
    )


def _read_entry(found: Json, where: str) -> RecordedEvent:
    return typed(RecordedEvent, found, where, details=found.get("details") or {})
