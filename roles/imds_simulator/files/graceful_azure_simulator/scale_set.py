# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What all VMs share: the life of the events, whether the service is on, the faults and the log.

It knows nothing of HTTP. One lock, that of the timetable, protects it.
"""

from __future__ import annotations

from .documents import Documents
from .event_fields import CANCELLED, COMPLETED, SCHEDULED, STARTED
from .events import Event
from .faults import Faults
from .refusals import Refused, shown
from .request_log import RequestLog
from .simulated_time import Clock, Timetable
from .vms import refuse_two_domains


class Habits:
    """What the real service does apart from answering. By default nothing of it happens."""

    def __init__(self, first_answer=0, events_after=0, disable_after=None, rate=None, one_domain=False):
        self.first_answer = first_answer  # simulated seconds until the first request is answered
        self.events_after = events_after  # simulated seconds from the first request until events are shown
        self.disable_after = disable_after  # simulated seconds without a request
        self.rate = rate  # requests a second, for each VM
        self.one_domain = one_domain  # no event names VMs of two update domains


class ScaleSet:
    """The events of all VMs, and the service that shows them."""

    def __init__(self, started, gone, clock=None, habits=None, seed=None, domains=None):
        self.started, self.gone = started, gone  # called with an event
        self.clock = clock or Clock()
        self.timetable = Timetable(self.clock)
        self.changed = self.timetable.changed
        self.faults = Faults(self.timetable, seed)
        self.log = RequestLog(self.clock)
        self.habits = habits or Habits()
        self.domains = domains or {}  # of the VMs, by their names in lower case
        self.events = []
        self.standing = {}  # by the event's key
        self.on_since = self.last_asked = None  # simulated seconds
        self.documents = Documents()
        self.shown = not self.habits.events_after

    # The service: the first request switches it on, and it switches itself off when nobody asks

    def asked(self):
        """Notes a request for the events. Returns the simulated time when it may be answered."""
        with self.changed:
            now, habits = self.clock.passed(), self.habits
            if habits.disable_after is not None and self.last_asked is not None and now - self.last_asked >= habits.disable_after:
                self.switch_off()
            self.last_asked = now
            if self.on_since is None:
                self.on_since = now
                if habits.events_after:
                    self.timetable.later(habits.events_after, self._show, now, alive=lambda: self.on_since == now)
                else:
                    self._show(now)
            return self.on_since + habits.first_answer

    def switch_off(self):
        """Switches the service off, as after a day without a request: incarnations start again."""
        with self.changed:
            self.on_since = self.last_asked = None
            self.shown = False
            self.documents.begin()

    def _show(self, since):
        if self.on_since == since and not self.shown:
            self.shown = True
            if self.standing:
                self._events_changed()

    # The life of an event. A timer that comes too late, because the event was moved on, does nothing.

    def _later(self, delay, event, status, act, *arguments):
        """Acts after a time, if the event still has that status then."""
        self.timetable.later(delay, act, event, *arguments, alive=lambda: event.status == status)

    def add(self, fields, then=None):
        """Adds an event and returns its id. ``then`` is called when it is gone."""
        with self.changed:
            given = fields.get("EventId")
            if given is not None and given.lower() in self.standing:
                raise Refused(f"An event {shown(given)} stands already.", 409)
            if self.habits.one_domain:
                refuse_two_domains(fields["Resources"], self.domains)
            event = Event(fields, self.clock)
            event.then = then
            self.events.append(event)
            self.standing[event.key] = event
            self._events_changed()
            if event.status == STARTED:
                self._impact(event)
            else:
                for delay, after in ((event.notice, STARTED), (event.cancel, CANCELLED)):
                    if delay is not None:
                        self._later(delay, event, SCHEDULED, self._move, SCHEDULED, after)
            return event.id

    def move(self, event_id, before, after):
        """Moves an event on by hand."""
        with self.changed:
            event = self.standing.get(event_id.lower())
            if event is None:
                # An id can be used again when its event is gone: the last event that had it.
                event = next((event for event in reversed(self.events) if event.key == event_id.lower()), None)
            if event is None:
                raise Refused(f"There is no event {shown(event_id)}.", 404)
            if not self._move(event, before, after):
                raise Refused(f"Event {shown(event_id)} is {event.status}: only one that is {before} can become {after}.", 409)
            return event.report()

    def _move(self, event, before, after):
        if event.status != before:
            return False
        event.set_status(after)
        if after != STARTED:
            del self.standing[event.key]
        self._events_changed()
        if after == STARTED:
            self._impact(event)
        else:
            self.gone(event)
            if event.then:
                event.then()
        return True

    def _impact(self, event):
        if event.impact_seconds is not None and event.settle is not None:
            self._later(event.impact_seconds + event.settle, event, STARTED, self._move, STARTED, COMPLETED)
        for delay in event.further:
            self._later(delay, event, STARTED, self._hit)
        self._hit(event)

    def _hit(self, event):
        if event.status == STARTED:
            event.impacts.append({"Time": self.clock.time()})
            self.started(event)

    def _events_changed(self):
        # A document that nobody was shown does not change.
        if self.shown:
            self.documents.change([event.now() for event in self.standing.values()])

    # What the metadata services ask for

    def document(self, version, fault=None):
        """The document and its entity tag. A document that a fault alters has no tag."""
        with self.changed:
            if fault:
                return self.documents.altered(version, fault, self.clock.time()), None
            return self.documents.current(version)

    def approve(self, vm, event_ids, incarnation=None):
        """Approves all of the events, or none."""
        with self.changed:
            if incarnation not in (None, self.documents.incarnation):
                raise Refused(f"DocumentIncarnation {incarnation} is stale: the document is at {self.documents.incarnation}.")
            events = {}
            for event_id in event_ids:
                if event_id.lower() not in self.standing or not self.shown:
                    raise Refused(f"There is no event {shown(event_id)}.")
                events[event_id.lower()] = self.standing[event_id.lower()]
            for event in events.values():
                event.approvals.append({"Time": self.clock.time(), "Vm": vm})
                if event.status == SCHEDULED and event.approval is not None:
                    if event.approved_soon:
                        self.timetable.soon(event.approval, self._move, event, SCHEDULED, STARTED)
                    else:
                        self._later(event.approval, event, SCHEDULED, self._move, SCHEDULED, STARTED)

    def reports(self):
        with self.changed:
            return [event.report() for event in self.events]
