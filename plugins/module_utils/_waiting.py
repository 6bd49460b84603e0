# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the events of a host, once or until they are in a certain state. It uses only the client and a clock."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.graceful.azure.plugins.module_utils._absence import APART, READ_AGAIN, Absence
from ansible_collections.graceful.azure.plugins.module_utils._events import EventsError, clip, describe, parse_document, set_seconds_until
from ansible_collections.graceful.azure.plugins.module_utils._imds import RATE_MOST, ImdsError, ImdsSetupError, check_seconds
from ansible_collections.graceful.azure.plugins.module_utils._spellings import plural

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any, Protocol

    from ansible_collections.graceful.azure.plugins.module_utils._events import EventsDocument, ScheduledEvent
    from ansible_collections.graceful.azure.plugins.module_utils._imds import Answer, ImdsClient

    class Selection(Protocol):
        """As far as a wait needs it. Ansible would send the file of the class itself with every look, which selects nothing."""

        affecting_host_only: bool

        def apply(self, events: list[ScheduledEvent]) -> list[ScheduledEvent]: ...


STATES = ("present", "scheduled", "started", "absent")
TIMEOUT = "timeout"

# The first request of a VM enables the service, which may take two minutes.
FIRST_ANSWER_TIMEOUT = 120.0
# The last read begins so many seconds before the end of the wait, so that its answer is in time.
LAST_LOOK = 0.25


class Reading(NamedTuple):
    # As every plugin returns them.
    events: list[ScheduledEvent]
    document_incarnation: int
    resource_name: str | None
    # With its zone, by the service's clock.
    service_time: datetime
    warnings: list[str]
    # Whether the answer was a 200 without a document.
    empty_body: bool

    @property
    def proves(self) -> int | None:
        """The number of the document, to conclude something from what it does not show. None if there was no document."""
        return None if self.empty_body else self.document_incarnation


class Result(NamedTuple):
    # That of the last answer.
    reading: Reading | None
    # The selected events of that reading.
    events: list[ScheduledEvent]
    # The state that was reached, TIMEOUT, or None if the wait is not over.
    outcome: str | None
    # In seconds.
    elapsed: float
    # That of the last read.
    error: ImdsError | None


class ImdsNameError(ImdsError):
    """The name of this host is needed, but it is not known."""

    def __init__(self, why: str, error: ImdsError) -> None:
        message = f"This host's name in Resources is not known, which {why} needs. Give it with the option resource_name. ({error})"
        super().__init__(message, error.url, error.status, error.body)
        self.passing = error.passing
        self.retry_in = error.retry_in


class Reader:
    """Reads the events of one host, as often as wanted.

    Without C(resource_name), it asks for the host's name. If the name is not needed, it asks only once, with all retries. With C(insists) a read without
    the name fails if the service may still tell it, and the next one asks again.
    """

    def __init__(self, client: ImdsClient, resource_name: str | None = None, ask_name: bool = True, insists: bool = False) -> None:
        self.client = client
        self.ask_name = ask_name
        self.insists = insists
        self.resource_name = (resource_name or "").strip() or None
        self.name_error: ImdsError | None = None
        # What the document was parsed from: the bytes, and the name of this host.
        self._known: tuple[bytes | None, str | None] = (None, None)
        self._document: EventsDocument | None = None

    def read(
        self, deadline: float | None = None, retry_until: float = math.inf, request_timeout: float | None = None, name_needed_by: str | None = None
    ) -> Reading:
        """Read the current events. Raises ImdsError.

        C(name_needed_by): what is impossible without the host's name, if anything.
        """
        answer = self.client.get_events(deadline, retry_until, request_timeout)
        if self.resource_name is None and self.ask_name:
            self._ask_name(deadline, retry_until, name_needed_by)
        warnings = []
        if self.name_error is not None:
            warnings.append(f"This host's name is not known, so affects_host is null. Give it with the option resource_name. ({self.name_error})")
        # The same bytes mean the same events. The same incarnation does not, because its numbers may start again.
        if self._document is not None and (answer.body, self.resource_name) == self._known:
            set_seconds_until(self._document.events, answer.service_time)
        else:
            self._document = self._parse(answer)
            self._known = (answer.body, self.resource_name)
        return Reading(
            self._document.events,
            self._document.incarnation,
            self.resource_name,
            answer.service_time,
            warnings + self._document.warnings,
            not answer.body.strip(),
        )

    def _parse(self, answer: Answer) -> EventsDocument:
        # The service may send an empty body if there is no event.
        document = self.client.decode_json(answer.body) if answer.body.strip() else {"DocumentIncarnation": 0, "Events": []}
        try:
            return parse_document(document, self.client.api_version, self.resource_name, answer.service_time)
        except EventsError as error:
            raise self.client.protocol_error(error, answer.body) from None

    def _ask_name(self, deadline: float | None, retry_until: float, needed_by: str | None) -> None:
        if self.name_error is not None and not needed_by:
            return
        try:
            self.resource_name = self.client.get_resource_name(deadline, retry_until)
            self.name_error = None
        except ImdsError as error:
            if self.insists and error.passing:
                # The events may have come so late that no time was left for the name.
                raise
            self.name_error = error
            if needed_by:
                raise ImdsNameError(needed_by, error) from None


def name_need(selection: Selection) -> str | None:
    """The argument name_needed_by of Reader.read() for a selection."""
    return "affecting_host_only" if selection.affecting_host_only else None


def wait_argument_spec() -> dict[str, dict[str, Any]]:
    return {
        "state": {"type": "list", "elements": "str", "choices": list(STATES), "default": ["present"]},
        "timeout": {"type": "float", "default": 300.0},
        "sleep": {"type": "float", "default": 1.0},
        "delay": {"type": "float", "default": 0.0},
    }


class Wait:
    """Waits until the selected events are in one of the given states."""

    def __init__(self, reader: Reader, selection: Selection, state: list[str], timeout: float, sleep: float, delay: float) -> None:
        """Raises ImdsSetupError if an option has a wrong value. The message names the option."""
        if not state:
            raise ImdsSetupError(f"state: the list is empty. Give at least one of {', '.join(STATES)}.")
        for name in state:
            if name not in STATES:
                raise ImdsSetupError(f"state: {clip(name)} is not one of {', '.join(STATES)}.")
        self.reader = reader
        self.client = reader.client
        self.selection = selection
        self.states = state
        self.timeout = check_seconds("timeout", timeout) or math.inf
        self.pause = check_seconds("sleep", sleep)
        self.delay = check_seconds("delay", delay)
        # Of all selected events together.
        self.absence = Absence()
        if self.delay >= self.timeout:
            raise ImdsSetupError(f"delay: {self.delay:g} s leave nothing of the timeout of {self.timeout:g} s.")

    @classmethod
    def from_params(cls, client: ImdsClient, selection: Selection, params: Mapping[str, Any]) -> Wait:
        return cls(Reader(client, params["resource_name"]), selection, params["state"], params["timeout"], params["sleep"], params["delay"])

    def look(self) -> Result:
        """Read once and do not wait. The outcome of the Result is None if no state is reached. As a forecast, one document is enough for C(absent)."""
        start = self.client.monotonic()
        reading, events = self._look(None if self.timeout == math.inf else start + self.timeout, math.inf, None)
        return Result(reading, events, self._met(events, not events and not reading.empty_body), self.client.monotonic() - start, None)

    def run(self, step: float = math.inf, first: bool = True) -> Result:
        """Wait until a state is reached or the time is over, but only for about C(step) seconds: no read begins after them.

        C(first): whether this service has not answered anybody yet. Raises ImdsError if asking again would not help. Errors that may go away do not
        end the wait.
        """
        monotonic = self.client.monotonic
        start = monotonic()
        deadline = start + self.timeout
        if self.delay:
            self.client.sleep(self.delay)
        pause_at = monotonic() + step
        reading: Reading | None = None
        events: list[ScheduledEvent] = []
        error: ImdsError | None = None
        while True:
            try:
                reading, events = self._look(deadline, pause_at, max(FIRST_ANSWER_TIMEOUT, self.client.request_timeout) if first else None)
            except ImdsError as caught:
                # Before the first answer, such an error means that the address is wrong. Later, it means that the service is out of order.
                if first and not caught.passing:
                    raise
                error = caught
            else:
                first = False
                error = None
                outcome = self._met(events, self.absence.is_proved)
                if outcome is not None:
                    return Result(reading, events, outcome, monotonic() - start, None)
            now = monotonic()
            last_look = deadline - LAST_LOOK
            wanted = now + max(self._pause(), min(error.retry_in, RATE_MOST) if error else 0.0)
            if now >= last_look:
                self.client.sleep(max(0.0, deadline - now))
                return Result(reading, events, TIMEOUT, monotonic() - start, error)
            self.client.sleep(min(wanted, last_look, max(pause_at, now)) - now)
            if monotonic() >= pause_at:
                return Result(reading, events, None, monotonic() - start, error)

    def _look(self, deadline: float | None, retry_until: float, request_timeout: float | None) -> tuple[Reading, list[ScheduledEvent]]:
        reading = self.reader.read(deadline, retry_until, request_timeout, name_need(self.selection))
        events = self.selection.apply(reading.events)
        self.absence.note(bool(events), self.client.monotonic(), reading.proves)
        return reading, events

    def _pause(self) -> float:
        """Seconds to the next read. If that is to confirm an absence, it comes soon, but not at once."""
        if "absent" in self.states and self.absence.is_doubtful:
            return min(max(self.pause, APART), READ_AGAIN)
        return self.pause

    def _met(self, events: list[ScheduledEvent], is_absent: bool) -> str | None:
        return next((state for state in self.states if _is_met(state, events, is_absent)), None)


def _is_met(state: str, events: list[ScheduledEvent], is_absent: bool) -> bool:
    if state == "present":
        return bool(events)
    if state == "absent":
        return is_absent
    return any((event["event_status"] or "").lower() == state for event in events)


def result_values(reading: Reading | None, events: list[ScheduledEvent]) -> dict[str, Any]:
    """The values that every plugin that reads events returns. They are null if nothing could be read."""
    return {
        "events": events,
        "document_incarnation": reading.document_incarnation if reading else None,
        "resource_name": reading.resource_name if reading else None,
    }


def timeout_message(states: list[str], events: list[ScheduledEvent], elapsed: float, error: ImdsError | None) -> str:
    """The message of a wait that timed out."""
    stood = "no selected event stood"
    if "absent" in states:
        stood += ", but one answer, or an empty one, does not prove that"
    if events:
        stood = f"{plural(len(events), 'selected event')} stood: {', '.join(describe(event) for event in events[:5])}"
    message = f"Timed out after {elapsed:.1f} s waiting for {' or '.join(states)}. At the last answer: {stood}."
    if error is not None:
        message += f" The last error: {error}"
    return message
