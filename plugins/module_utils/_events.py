# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Turns the documents of Scheduled Events of every api-version into one shape. Pure.

Everything in a document is data from outside. Strings are kept as they are and never interpreted. If a document is useless as a whole, an
EventsError is raised. If a single field cannot be read, it is null and there is a warning, so the other events are not lost.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import Any, TypedDict

    class ScheduledEvent(TypedDict):
        """An event, as every plugin returns it. What the service does not say, or says in no form that is known, is None."""

        event_id: str
        event_type: str | None
        event_status: str | None
        event_source: str | None
        resource_type: str | None
        resources: list[str]
        not_before: str | None
        description: str | None
        duration_in_seconds: int | None
        affects_host: bool | None
        seconds_until_not_before: float | None

    # Takes a field, its value, and why the value cannot be used.
    Doubt = Callable[[str, object, str], None]

API_VERSIONS = ("2017-03-01", "2017-08-01", "2017-11-01", "2019-01-01", "2019-04-01", "2019-08-01", "2020-07-01")
# In the preview, names in Resources have a leading underscore, and an approval must contain the incarnation.
PREVIEW = "2017-03-01"
# What is asked with unless a user names another one.
DEFAULT_API_VERSION = "2020-07-01"

EVENT_TYPES = ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")
# Those after which the VM is not expected back.
DELETING = ("Preempt", "Terminate")
EVENT_STATUSES = ("Scheduled", "Started")

# What the name of a VM must look like to be part of an Ansible host pattern and of nothing else.
HOST_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}\Z")

# The outcomes of an event in a run. The last is that of one that is over, and was not approved although the rule asked for that.
IN_PROGRESS, COMPLETED, CANCELLED, NOT_APPROVED = "in_progress", "completed", "cancelled", "not_approved"
OVER = (COMPLETED, CANCELLED, NOT_APPROVED)
# The states of its hosts in which they serve.
SERVING = ("in_service", "restored")

# The shortest time in seconds between two reads of one metadata service. Azure advises it for polling.
READ_SECONDS = 1.0

EVENT_KEYS = (
    "event_id",
    "event_type",
    "event_status",
    "event_source",
    "resource_type",
    "resources",
    "not_before",
    "description",
    "duration_in_seconds",
    "affects_host",
    "seconds_until_not_before",
)


class EventsDocument(NamedTuple):
    events: list[ScheduledEvent]
    incarnation: int
    warnings: list[str]


_SPELLING = {name.lower(): name for name in EVENT_TYPES + EVENT_STATUSES}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))? ?(Z|UTC|GMT|[+-]\d\d:?\d\d)?\Z",
    re.IGNORECASE | re.ASCII,
)
# The weekday is ignored, because published documents have wrong ones.
_RFC = re.compile(
    r"(?:[a-z]{3,9}, *)?(\d{1,2}) ([a-z]{3})[a-z]* (\d{4}) (\d\d):(\d\d):(\d\d) ?(?:GMT|UTC|Z|[+-]0000)?\Z",
    re.IGNORECASE | re.ASCII,
)


class EventsError(ValueError):
    """The document is not one that the service sends."""


def parse_time(text: str) -> datetime:
    """Parse a time in RFC 1123 or ISO 8601, in any locale. Returns an aware datetime. Raises ValueError for other texts."""
    match = _RFC.match(text.strip())
    if match:
        day, month, year, hour, minute, second = match.groups()
        if month.lower() not in _MONTHS:
            raise ValueError(f"{text!r} has no month that is known")
        return datetime(int(year), _MONTHS.index(month.lower()) + 1, int(day), int(hour), int(minute), int(second), tzinfo=timezone.utc)
    match = _ISO.match(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a time")
    fraction, zone = match.group(7), match.group(8)
    offset = timedelta(0)
    if zone and zone[0] in "+-":
        offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
        offset = -offset if zone[0] == "-" else offset
    numbers = [int(number) for number in match.groups()[:6]]
    microsecond = int(((fraction or "") + "000000")[:6])
    try:
        return datetime(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], microsecond, timezone.utc) - offset
    except OverflowError:
        raise ValueError(f"{text!r} lies outside of the calendar") from None


def format_time(time: datetime) -> str:
    """ISO 8601 in UTC with Z. Parts of a second are cut off, which is safe for a deadline."""
    return time.astimezone(timezone.utc).replace(tzinfo=None, microsecond=0).isoformat() + "Z"


def clip(value: object, length: int = 200) -> str:
    """Write a value from outside for a message: quoted, on one line, and not too long."""
    text = repr(value)
    return text if len(text) <= length else text[:length] + "..."


def telling(event: Mapping[str, Any]) -> tuple[Any, ...]:
    """What of an event makes another event of it. Its status comes first."""
    return event.get("event_status"), event.get("event_type"), event.get("not_before"), sorted(name.lower() for name in event["resources"])


def types_meant(details: Mapping[str, Any] | None) -> dict[str, Any]:
    """Per folded id the type for which an approval was decided on. C(details): what is known of the events; what says no type lets every type pass."""
    return {fold(event_id): known.get("event_type") for event_id, known in (details or {}).items() if isinstance(known, dict)}


def describe(event: ScheduledEvent) -> str:
    """Describe an event for a message in a few words, on one line that is not too long."""
    return clip(f"{event['event_id']} ({event['event_type']}, {event['event_status']})", 80).strip("'\"")


def why_not_approve(
    event: ScheduledEvent, is_ours: bool, own_name: str | None, ready: Collection[str] | None, event_type: str | None
) -> Iterator[tuple[str, str]]:
    """Why an event must not be approved: pairs of the option that says otherwise and a sentence without a full stop.

    C(is_ours): whether it names the host that is called C(own_name), or need not. C(ready): the names of the VMs that are ready; None permits all.
    C(event_type): its type when that was decided; None permits any.
    """
    label = "event " + clip(event["event_id"])
    if not is_ours:
        yield "event_ids", "%s names %s and not this host, which is %s" % (label, clip(", ".join(event["resources"])), clip(own_name))
    if event["event_status"] != "Scheduled":
        yield "event_ids", "%s has the status %s; only one that is Scheduled can be approved" % (label, clip(str(event["event_status"])))
    if event_type and event_type != event["event_type"]:
        yield "event_details", "%s was to be approved as %s and is %s now" % (label, clip(event_type), clip(str(event["event_type"])))
    names = None if ready is None else {name.strip().lower() for name in ready}
    unready = [name for name in event["resources"] if names is not None and name.lower() not in names]
    if names is not None and not event["resources"]:
        yield "ready_resources", "%s names nobody, so nobody knows who must be ready" % label
    if unready:
        yield "ready_resources", "%s names %s, which is not said to be ready" % (label, clip(", ".join(unready)))


def sort_for_approval(
    events: Iterable[ScheduledEvent],
    event_ids: Iterable[str],
    is_ours: Callable[[ScheduledEvent], bool],
    own_name: str | None,
    ready: Collection[str] | None,
    types: Mapping[str, Any] | None = None,
) -> tuple[list[str], list[dict[str, str]], list[tuple[str, str, bool]]]:
    """The ids to approve, the others with the reason, and why one must not be approved: an option, a sentence and whether the event is ours.

    An event that has started needs no approval, but only one that is ours is told as that. C(types): per folded id C(event_type) of C(why_not_approve).
    """
    standing = {fold(event["event_id"]): event for event in events}
    approve: list[str] = []
    leave: list[dict[str, str]] = []
    refused: list[tuple[str, str, bool]] = []
    for event_id in event_ids:
        event = standing.get(fold(event_id))
        if event is None:
            leave.append({"event_id": event_id, "reason": "absent"})
            continue
        ours = is_ours(event)
        if ours and event["event_status"] == "Started":
            leave.append({"event_id": event["event_id"], "reason": "started"})
            continue
        refused.extend((*why, ours) for why in why_not_approve(event, ours, own_name, ready, (types or {}).get(fold(event_id))))
        approve.append(event["event_id"])
    return approve, leave, refused


def parse_document(document: object, api_version: str, resource_name: str | None = None, service_time: datetime | None = None) -> EventsDocument:
    """The events of a document, in the form in which every plugin returns them.

    Without C(resource_name), affects_host is null. Without C(service_time), seconds_until_not_before is null.
    """
    if not isinstance(document, dict):
        raise EventsError(f"it is {json_type(document)} instead of an object")
    incarnation = _incarnation(document)
    entries = document.get("Events")
    if not isinstance(entries, list):
        raise EventsError("Events is {0} instead of an array".format(json_type(entries) if "Events" in document else "missing"))

    preview = api_version == PREVIEW
    own_name: str | None = None
    if resource_name:
        own_name = _bare(resource_name, preview).lower()
    events: list[ScheduledEvent] = []
    warnings: list[str] = []
    seen: set[str] = set()
    for entry in entries:
        event = _parse_event(entry, preview, warnings)
        folded = fold(event["event_id"])
        if folded in seen:
            # Nobody knows which of the two is right, so nothing may be approved or restored because of this document.
            raise EventsError("EventId {0} is in it twice".format(clip(event["event_id"])))
        seen.add(folded)
        if own_name is not None:
            event["affects_host"] = any(name.lower() == own_name for name in event["resources"])
        events.append(event)
    if service_time is not None:
        set_seconds_until(events, service_time)
    return EventsDocument(events, incarnation, warnings)


def set_seconds_until(events: list[ScheduledEvent], service_time: datetime) -> None:
    """Update seconds_until_not_before of each event."""
    for event in events:
        if event["not_before"] is not None:
            event["seconds_until_not_before"] = (parse_time(event["not_before"]) - service_time).total_seconds()


def _incarnation(document: dict[str, Any]) -> int:
    value = document.get("DocumentIncarnation")
    if isinstance(value, str) and re.match(r"\s*-?[0-9]{1,30}\s*\Z", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise EventsError("DocumentIncarnation is {0} instead of a number".format(clip(value) if "DocumentIncarnation" in document else "missing"))
    return value


def _parse_event(entry: object, preview: bool, warnings: list[str]) -> ScheduledEvent:
    if not isinstance(entry, dict):
        raise EventsError(f"an entry of Events is {json_type(entry)} instead of an object")
    event_id = entry.get("EventId")
    if not isinstance(event_id, str) or not event_id.strip():
        raise EventsError("the EventId of an event is {0} instead of a string".format(clip(event_id) if "EventId" in entry else "missing"))
    event_id = _clean(event_id)

    def doubt(field: str, value: object, meaning: str) -> None:
        warnings.append(f"{field} of event {clip(event_id)} is {clip(value)}, which is {meaning}; it is returned as null")

    def text(field: str) -> str | None:
        value = entry.get(field)
        if value is None:
            return None
        if not isinstance(value, str):
            doubt(field, value, "no text")
            return None
        return _clean(value)

    event_type = text("EventType")
    event_status = text("EventStatus")
    return {
        "event_id": event_id,
        "event_type": event_type and _SPELLING.get(event_type.lower(), event_type),
        "event_status": event_status and _SPELLING.get(event_status.lower(), event_status),
        "event_source": text("EventSource"),
        "resource_type": text("ResourceType"),
        "resources": _resources(entry, event_id, preview),
        "not_before": _not_before(text("NotBefore"), doubt),
        "description": text("Description"),
        "duration_in_seconds": _duration(entry.get("DurationInSeconds"), doubt),
        "affects_host": None,
        "seconds_until_not_before": None,
    }


def _not_before(value: str | None, doubt: Doubt) -> str | None:
    # NotBefore is empty once the event has started. A text that cannot be read means "unknown" and never "now".
    if value is None or not value.strip():
        return None
    try:
        return format_time(parse_time(value))
    except ValueError:
        doubt("NotBefore", value, "no time that could be read")
        return None


def _duration(value: object, doubt: Doubt) -> int | None:
    if value is None or value == "":
        return None
    number = value
    if isinstance(value, str) and re.match(r"\s*[+-]?[0-9]{1,15}(\.0*)?\s*\Z", value):
        number = float(value)
    # This also refuses infinity and NaN.
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not abs(number) < 1e15 or number != int(number):
        doubt("DurationInSeconds", value, "no number of whole seconds")
        return None
    return int(number)


def _resources(entry: dict[str, Any], event_id: str, preview: bool) -> list[str]:
    # A list that cannot be read is an error. Otherwise a host whose name is in it would be hit unprepared.
    names = entry.get("Resources")
    if names is None:
        return []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise EventsError(f"Resources of event {clip(event_id)} is {clip(names)} instead of an array of names")
    return [_bare(_clean(name), preview) for name in names]


def _bare(name: str, preview: bool) -> str:
    return name[1:] if preview and name.startswith("_") else name


def _clean(text: str) -> str:
    # JSON can contain half of a surrogate pair. UTF-8 cannot.
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")
    return text


def json_type(value: object) -> str:
    """What kind of JSON value this is, in words."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
