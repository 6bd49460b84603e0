# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is known of one host? Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ansible_collections.graceful.azure.plugins.module_utils._absence import is_over
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import (
    CLUSTER,
    DRAINED,
    READY_TO_LEAVE,
    TASK,
    still_uncounted,
    why_uncounted,
)
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import HostObservation, Record, Settings, seconds
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import Event
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.memory import HostMemory, Lasting
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import Balancer, Place, Traffic
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.verdicts import Kind, Reason, reasons
from ansible_collections.graceful.azure.plugins.plugin_utils._types import StepJson

WHOLE = 2.0
"""Seconds by which the time in a record may differ from the clock of its machine: both are in whole seconds."""


def _told_by(record: Record) -> str:
    if record.kind == TASK:
        return record.name
    return f"{record.kind}_{record.subject.get('type')}" if record.kind == CLUSTER else record.kind


@dataclass
class Host(Lasting):
    """One target: its settings, its observation, and all that follows from these in this pass. C(observation.py) fills it in."""

    name: str
    settings: Settings
    observation: HostObservation
    memory: HostMemory  # what the former pass left
    balancers: list[Balancer]  # pairs of a provider and the settings that it reads, the outermost first
    traffic: Traffic = field(default_factory=Traffic)
    events: list[Event] = field(default_factory=list)  # standing events that name it and that no rule ignores, the most urgent first
    fatal: list[Reason] = field(default_factory=list)  # mistakes that forbid every step for it
    conflicts: list[str] = field(default_factory=list)  # sentences: somebody else acted
    held_ids: set[str] = field(default_factory=set)  # folded ids of the events that have a record on it or for it
    approved_ids: set[str] = field(default_factory=set)  # those of which only the record of the approval is left
    foreign_ids: set[str] = field(default_factory=set)  # ids that hold it, but are no events of Azure: a person chose them
    restoring: dict[str, float] = field(default_factory=dict)  # per event: since when runs have tried to restore it, by the record
    told_ports: list[int] = field(default_factory=list)  # its ports to which its balancers lead
    heard: set[int] = field(default_factory=set)  # the ports that could be counted before: if nobody listens now, whoever did was stopped
    out_of: dict[str, set[str]] = field(default_factory=dict)  # per event: where it went out of a balancer for it, by the records; see C(TrafficDuty.spots)
    restoring_reason: str | None = None  # the reason that restore_service gave in the former pass, if that was the step
    is_unanswered: bool = False  # whether that is because the host does not answer
    restoring_left: list[str] = field(default_factory=list)  # sentences: what that reason tells besides that the host is not restored
    drain_steps_left: list[str] = field(default_factory=list)  # sentences: what the drain steps of the former pass wait for
    leaves_again: bool = False  # whether its step of the former pass was to go out, too

    @property
    def is_unmet(self) -> bool:
        """Whether nobody knows which machine it is, because it was never reached."""
        return not (self.observation.reached or self.resource_name or self.state_folder or self.fatal or self.settings.may_be_off)

    @property
    def was_read(self) -> bool:
        """Whether its metadata service was read in this pass."""
        return self.observation.events is not None

    @property
    def read_at(self) -> float:
        """When its metadata service was read in this pass, by the controller's clock. Only for a host that was read."""
        if self.observation.at is None:
            raise AssertionError
        return self.observation.at

    @property
    def tells(self) -> bool:
        """Whether its metadata service was read in this pass and gave a document. An empty body is no proof that no event names it."""
        return self.was_read and not self.observation.empty_body

    def was_read_since(self, moment: float | None) -> bool:
        """Whether its metadata service was read after that moment; None is long ago."""
        return self.was_read and (moment is None or self.read_at > moment + WHOLE)

    def shows_no_more(self, event: Event) -> bool:
        """Whether its metadata service was read in this pass, and reads since the newest hold for the event prove that the event is over."""
        reads = [at for at in self.absent.get(event.key, ()) if event.held_at is None or at > event.held_at + WHOLE]
        number = self.observation.document_incarnation if self.tells else None
        return self.was_read and is_over(reads, number, event.shown_in.get(self.name))

    @property
    def is_unread(self) -> bool:
        """Whether it answers and its metadata service does not."""
        return bool(self.observation.reached) and not self.was_read and not self.fatal

    @property
    def why_silent(self) -> str:
        return self.observation.error or "not observed"

    @property
    def silence(self) -> str:
        """That it cannot be read, and why, as people read it. It is not silent if a time limit ended the look: it had answered."""
        return self.why_silent if self.observation.cut_off else f"silent: {self.why_silent}"

    @property
    def incarnation(self) -> int:
        """The number of the document of its set that was read: the service adds one at each change."""
        return self.observation.document_incarnation or 0

    @property
    def network(self) -> str | None:
        return self.observation.network

    @property
    def ports(self) -> list[int]:
        """The ports whose connections are counted."""
        given = self.settings.drain_host.ports
        return self.told_ports if given is None else given

    @property
    def is_told_its_ports(self) -> bool:
        """Whether its balancers tell these ports, because the settings do not."""
        return self.settings.drain_host.ports is None

    @property
    def not_counted_yet(self) -> list[int]:
        """The ports of which its balancers have told only since the last look at it."""
        counted = self.observation.ports
        return [] if counted is None or self.observation.is_silent else sorted(set(self.ports).difference(counted))

    @property
    def uncounted(self) -> list[str]:
        """Sentences: the ports whose connections cannot be counted."""
        ports = set(self.ports)
        return why_uncounted(still_uncounted((each for each in self.observation.uncounted if each["port"] in ports), self.heard))

    @property
    def udp(self) -> list[int]:
        """The ports whose clients over UDP nobody counts, besides those that cannot be counted at all. What a balancer tells is where it leads to by TCP."""
        uncounted = {each["port"] for each in self.observation.uncounted}
        return [] if self.is_told_its_ports else sorted(set(self.ports).intersection(self.observation.udp) - uncounted)

    @property
    def places(self) -> tuple[Place, ...]:
        return self.traffic.places

    @property
    def blind(self) -> tuple[Reason, ...]:
        """The balancers that could not be read."""
        return self.traffic.unread

    @property
    def in_rotation(self) -> bool:
        """Whether a balancer may still send it requests, as far as is known."""
        return any(place.in_rotation for place in self.places)

    def spots(self, key: str) -> list[str]:
        """Where it is or was taken out for an event. A balancer that the settings have no more is known from the records alone."""
        held = ((place, *place.balancer) for place in self.places if key in place.held_by and not place.owner)
        now = {spot for place, kind, settings in held for machine, spot in kind.spots(settings) if machine == place.machine}
        return sorted(now | self.out_of.get(key, set()))

    @property
    def seen_out_since(self) -> float | None:
        """Since when passes have seen that somebody else keeps it out of a balancer that tells nothing. None: nobody does."""
        return next((place.seen_out_since for place in self.places if place.seen_out_since is not None), None)

    @property
    def wrong(self) -> tuple[Reason, ...]:
        """Why it never counts as out, although it was taken out."""
        return reasons(Kind.MISTAKE, (place.wrong for place in self.places))

    @property
    def untold(self) -> list[str]:
        """Sentences: why nobody could tell that it is out. Where its health answer has passed, what was handed over since may make it fail."""
        return [] if self.probe_passed else [place.untold for place in self.places if place.untold]

    @property
    def notes(self) -> list[str]:
        return [place.note for place in self.places if place.note]

    @property
    def unanswered(self) -> str | None:
        """Why it did not answer although it served, or None. Then the settings of restore_service are wrong: after an event it would stay out."""
        return self.answer or None

    @property
    def refuses_unanswered(self) -> bool:
        """Whether it stays in rotation as long as possible, because it does not answer."""
        return bool(self.answer) and self.settings.restore_service.unanswered == "refuse"

    @property
    def records(self) -> list[str]:
        """What is recorded on the host itself: the names of tasks, and the kinds of all else, with its type for a member of a cluster."""
        return sorted({_told_by(record) for record in self.observation.holds or ()})

    def task_holds(self, name: str) -> set[str]:
        """Folded event ids for which the user's task file of that name ran to its end."""
        records = [record for record in self.observation.holds or () if record.kind == TASK and record.name == name and record.done]
        return {fold(event_id) for record in records for event_id in record.events}

    @property
    def recorded(self) -> set[str]:
        """Folded event ids for which anything but the approval is recorded on the host itself. What was known counts while nobody can read it."""
        if self.observation.holds is None:
            return set(self.memory.recorded)
        return {fold(event_id) for record in self.observation.holds if not record.is_approval for event_id in record.events}

    @property
    def drained(self) -> set[str]:
        """Folded event ids for which services and tasks are done."""
        return self.task_holds(DRAINED)

    def did(self, step: StepJson) -> bool:
        """Whether it took the same step in the former pass. C(step): as JSON."""
        last = self.memory.last_step
        return bool(last and (last.role, last.state) == (step["role"], step["state"]))

    def is_off_first(self, events: Iterable[Event]) -> bool | None:
        """Whether all that stands before its balancers is off for these events. None if it was, and no look of this pass has told whether it still is."""
        if not self.settings.drain_host.first:
            return True
        was_off = {event.key for event in events} <= self.task_holds(READY_TO_LEAVE)
        return None if was_off and self.observation.still_on is None else was_off and not self.observation.still_on

    @property
    def booted_since(self) -> set[str]:
        """Folded ids of the events for which all that was taken out of duty on the host was so in an earlier boot."""
        boot = self.observation.boot_id
        records = [record for record in self.observation.holds or () if boot and record.boot_id]
        # That of a member of a cluster goes on with the process that keeps what was set.
        is_new = {record.boot_id: (record.boot_id or "").startswith(boot or "") for record in records}
        ids = {new: {fold(event_id) for record in records if is_new[record.boot_id] is new for event_id in record.events} for new in (False, True)}
        return ids[False] - ids[True]

    def clock(self, now: float) -> float | None:
        """The time of its own clock at a moment of the controller's clock, as the last look told; None if that is unknown."""
        then, at = seconds(self.observation.time), self.observation.at
        return None if then is None or at is None else then + now - at - self.observation.age
