# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A look at a host, which may wait for news: its records, its events, its connections, and whether its duties are still handed over."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._absence import READ_AGAIN, is_over
from ansible_collections.graceful.azure.plugins.module_utils._connections import ConnectionsError, parse_address
from ansible_collections.graceful.azure.plugins.module_utils._duties.options import LOOKS
from ansible_collections.graceful.azure.plugins.module_utils._health_check import asked_spec
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import DEFAULT_STATE_DIR, HoldError
from ansible_collections.graceful.azure.plugins.module_utils._imds import NAME_SECONDS, ImdsError, imds_argument_spec
from ansible_collections.graceful.azure.plugins.module_utils._polling import pause_after
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import kind_of, still_uncounted
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold
from ansible_collections.graceful.azure.plugins.module_utils._this_host import LOOK_SECONDS
from ansible_collections.graceful.azure.plugins.module_utils._waiting import Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine


def still_on(entries: Sequence[Any], machine: Machine, later: Sequence[Any] = ()) -> list[str]:
    """Which duties are not off, in sentences. What cannot be looked at is not known to be off. Nothing is changed. C(later): the entries that are taken off
    after these.

    A record only says what was done. Since then somebody may have started a service again, or the host was booted anew.
    """
    return _told_of(entries, machine, lambda duty: duty.still_on(), later)


def unseen(entries: Sequence[Any], machine: Machine) -> list[str]:
    """Which duties cannot be looked at, in sentences, such as a service that nobody knows."""
    from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import UNKNOWN

    def why(duty: Any) -> Iterable[str]:
        seen = duty.see()
        return seen["busy"] if seen["state"] == UNKNOWN else ()

    return _told_of(entries, machine, why)


def _told_of(entries: Sequence[Any], machine: Machine, ask: Callable[[Any], Iterable[str]], later: Sequence[Any] = ()) -> list[str]:
    found: list[str] = []
    for number, entry in enumerate(entries, 1):
        try:
            duty = _duty(entry, machine)
            duty.later = [other["name"] for other in [*entries[number:], *later] if other["type"] == duty.type]
            found.extend(ask(duty))
        except ValueError as error:
            found.append("%s cannot be looked at: %s" % (entry.get("name"), str(error).rstrip(".")))
    return found


def marks(entries: Iterable[Any], machine: Machine, details: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """What bears our name in the clusters of these entries and has no record: the records that it tells, and sentences where it tells no event.

    C(details): what is known of its events. A cluster that cannot be asked is asked in the next run.
    """
    found, unknown = [], []
    for entry in entries:
        duty = _duty(entry, machine)
        try:
            record, problem = duty.marked(details)
        except duty.errors:
            continue
        found.extend([record] if record else [])
        unknown.extend([problem] if problem else [])
    return found, unknown


def _duty(entry: Any, machine: Machine) -> Any:
    # Most looks need none of it.
    from ansible_collections.graceful.azure.plugins.module_utils._duties.all_types import read

    return read(entry, type(machine)).on(machine)


class HostLook:
    """One look at a host, which may wait for news. C(fatal) tells a mistake, C(error) a fault that may pass."""

    def __init__(self, params: Mapping[str, Any], machine: Machine) -> None:
        self.params = params
        self.machine = machine
        self.host = machine.host(params)
        self.still_wanted = machine.still_wanted
        self.monotonic = machine.monotonic
        self.sleep = machine.sleep
        self.seen: dict[str, Any] = {"events": None, "resource_name": None, "connections": None, "holds": []}
        self.looks = 0
        self.began = self.read_at = 0.0
        # Seconds that the last count of the connections took.
        self.counting = 0.0
        self.expected = set(map(fold, params["expected"]))
        # What the last read showed: whether the body was empty, and which of the expected events; and when a read of this look showed that first.
        self.shown: tuple[bool, set[str]] | None = None
        self.shown_since = 0.0
        # The number of the last document that showed each event, and that of the last read; None if it gave no document.
        self.shown_in = {fold(event_id): number for event_id, number in params["shown_in"].items()}
        self.incarnation: int | None = None

    def run(self) -> dict[str, Any]:
        """Everything that was read. Returns when there is news, or the time to wait is over."""
        seen = self.seen
        self._see_records()
        if self._make_reader():
            # The events are read even if a record is damaged, so that the end of an event is known.
            self._read()
            self._see_name()
        if "fatal" not in seen:
            self._count()
            began = self.began = self.monotonic()
            if self._lacks_proof():
                self.sleep(READ_AGAIN)
                self._read()
                self._count()
            while "fatal" not in seen and not self._has_news() and self.monotonic() - began < self.params["wait"]:
                self.still_wanted()
                self.sleep(max(0.0, min(self._pause(), began + self.params["wait"] - self.monotonic())))
                if self.monotonic() - self.read_at >= self.host.read_seconds:
                    self._read()
                    if self._lacks_proof() and self.shown_since == self.read_at:
                        self.sleep(READ_AGAIN)
                        self._read()
                self._count()
            seen.update(waited=self.monotonic() - began, looks=self.looks)
            if seen["waited"] >= LOOK_SECONDS:
                self._see_records()
            if self._is_to_ask():
                seen["unanswered"] = self.host.ask()
            if self.params["duties"]:
                seen["still_on"] = still_on(self.params["duties"], self.machine, self.params["later"])
            # In the middle of an event, things may be down or just starting.
            if self.params["before"] and not seen["holds"]:
                seen["unseen"] = unseen(self.params["before"], self.machine)
            # A record may have been damaged during the look. Then nobody knows what is held.
            if self.params["marks"] and seen["holds"] is not None:
                self._see_marks()
            seen["age"] = self.monotonic() - self.read_at
        seen.update(self.host.facts(), fingerprint=self._fingerprint())
        return seen

    def _pause(self) -> float:
        """Seconds until the connections are counted again: soon if the look waits until there are none."""
        return pause_after(self.counting, self.host.look_seconds) if self.params["await_idle"] else self.host.look_seconds

    def _is_to_ask(self) -> bool:
        """Whether to ask the host for an answer: if an event is about to take it out.

        A host that is held does not serve, so it is asked only if its answer should not have changed. A host whose event has started goes out whatever
        it answers.
        """
        ask = self.params["ask"]
        if not (ask.get("url") or ask.get("port")) or "fatal" in self.seen:
            return False
        if ask.get("back"):
            return self._lacks_expected()
        coming = [event for event in self.seen["events"] or () if event["affects_host"] and event["event_status"] != "Started"]
        if self.seen["holds"]:
            return bool(coming and ask.get("held"))
        return bool(coming or ask.get("always"))

    def _see_records(self) -> None:
        try:
            # A balancer may run on this host or, in tests, share its folder. The look at the balancer returns its records.
            self.seen["holds"] = [record for record in self.host.records() if not kind_of(record["kind"]).of_balancer]
        except HoldError as error:
            # None says that the holds are unknown, and not that there are none.
            self.seen.update(holds=None, fatal=str(error))

    def _see_marks(self) -> None:
        name = self.seen["resource_name"] or self.params["resource_name"]
        # An event of Azure names VMs. One that names none is a person's.
        found, unknown = marks(self.params["marks"], self.machine, {"resources": [name]} if name else {})
        self.seen["holds"] = self.seen["holds"] + found
        if unknown:
            self.seen["fatal"] = "; ".join(unknown)

    def _make_reader(self) -> bool:
        try:
            self.reader = Reader(self.host.client(), self.params["resource_name"], insists=True)
            self.ignored = {parse_address(peer) for peer in self.params["ignored_peers"]}
        except (ConnectionsError, ValueError) as error:
            self.seen["fatal"] = str(error)
            return False
        return True

    def _read(self) -> None:
        for name in ("error", "passing"):
            self.seen.pop(name, None)
        try:
            reading = self.reader.read(self.monotonic() + self.params["timeout"])
        except ImdsError as error:
            self.seen.update(events=None, resource_name=None, error=str(error), passing=error.passing)
            self.read_at = self.monotonic()
            self.shown = None
        else:
            self.read_at = self.monotonic()
            self.incarnation = reading.proves
            there = {fold(event["event_id"]) for event in reading.events}
            self.shown_in.update(dict.fromkeys(there, reading.document_incarnation))
            shown = (reading.empty_body, self.expected & there)
            if shown != self.shown:
                self.shown, self.shown_since = shown, self.read_at
            self.seen.update(
                events=reading.events,
                resource_name=reading.resource_name,
                document_incarnation=reading.document_incarnation,
                empty_body=reading.empty_body,
                steady=self.read_at - self.shown_since,
            )

    def _see_name(self) -> None:
        """What the service itself calls this host, where the settings name it, too. Empty if it does not tell that."""
        if not self.params["ask_name"] or self.seen["events"] is None:
            return
        now = self.monotonic()
        try:
            self.seen["told_name"] = self.reader.client.get_resource_name(now + NAME_SECONDS, retry_until=now)
        except ImdsError:
            self.seen["told_name"] = ""

    def _lacks_expected(self) -> bool:
        """Whether an expected event is missing in the last read."""
        return self.shown is not None and self.shown[1] != self.expected

    def _lacks_proof(self) -> bool:
        """Whether an expected event is missing in the last read, and only another read can prove that it is over."""
        missing = self.expected - self.shown[1] if self.shown else ()
        return not all(is_over([self.read_at], self.incarnation, self.shown_in.get(event_id)) for event_id in missing)

    def _count(self) -> None:
        began = self.monotonic()
        try:
            found = self.host.connections()
        except ConnectionsError as error:
            self.seen["fatal"] = str(error)
            return
        self.counting = self.monotonic() - began
        self.seen.update(connections=found.connections, uncounted=found.uncounted, ports=sorted(self.params["ports"]))
        busy = bool(still_uncounted(found.uncounted, self.params["heard"])) or any(connection["peer"] not in self.ignored for connection in found.connections)
        self.looks = 0 if busy else self.looks + 1

    def _has_news(self) -> bool:
        if self._fingerprint() != self.params["known"]:
            return True
        return self.params["await_idle"] and self.looks >= LOOKS and self.monotonic() - self.began >= self.params["at_least"]

    def _fingerprint(self) -> str:
        events = self.seen["events"]
        if events is not None:
            names = ("event_id", "event_type", "event_status", "resources", "not_before")
            events = [[event[name] for name in names] for event in events]
        return hashlib.sha256(json.dumps(events).encode()).hexdigest()[:16]


def look_at_host(params: Mapping[str, Any], machine: Machine) -> dict[str, Any]:
    return dict(HostLook(params, machine).run(), changed=False)


def argument_spec() -> dict[str, Any]:
    return dict(
        imds_argument_spec(),
        ports={"type": "list", "elements": "int", "default": []},
        state_dir={"type": "path", "default": DEFAULT_STATE_DIR},
        timeout={"type": "float", "default": 5},
        ask_name={"type": "bool", "default": False},
        wait={"type": "float", "default": 0},
        known={"type": "str", "default": "", "no_log": False},
        await_idle={"type": "bool", "default": False},
        at_least={"type": "float", "default": 0},
        ignored_peers={"type": "list", "elements": "str", "default": []},
        heard={"type": "list", "elements": "int", "default": []},
        told_apart={"type": "list", "elements": "str", "default": []},
        expected={"type": "list", "elements": "str", "default": []},
        shown_in={"type": "dict", "default": {}},
        duties={"type": "list", "elements": "dict", "default": []},
        later={"type": "list", "elements": "dict", "default": []},
        before={"type": "list", "elements": "dict", "default": []},
        marks={"type": "list", "elements": "dict", "default": []},
        ask={
            "type": "dict",
            "default": {},
            "options": dict(asked_spec(), **{name: {"type": "bool", "default": False} for name in ("always", "held", "back")}),
        },
    )
