# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What many reports say of each type of event, so that people set their time limits by what really happened. Pure.

Several runs may have reported the same event: one that was killed, and the one after it. What they say of it is put together.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypedDict

from ansible_collections.graceful.azure.plugins.module_utils._events import IN_PROGRESS
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import seconds
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.status import DRAINED
from ansible_collections.graceful.azure.plugins.plugin_utils._story.story import Report, shares, states_for
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json

MEASURES = {
    "notice": "notice",
    "drain": "to drain a host",
    "impact": "impact",
    "out": "a host out of service",
}
"""What is measured, all in seconds, and how it is called in a table."""


class OfHost(TypedDict):
    """What happened to a host in an event."""

    out: float | None  # seconds
    drained: float | None  # seconds until it was
    needs_person: bool  # whether a person was needed


@dataclass
class OfEvent:
    event_type: str
    seen: float | None = None
    approved: float | None = None
    started: float | None = None
    gone: float | None = None
    not_before: float | None = None
    outcome: str | None = None
    hosts: dict[str, OfHost] = field(default_factory=dict)  # per name


@dataclass
class OfType:
    """All events of one type. Each list has one value for each event or each of its hosts."""

    events: int = 0
    outcomes: dict[str | None, int] = field(default_factory=dict)
    needs_person: int = 0
    values: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in MEASURES})

    def as_json(self) -> Json:
        told: Json = {"events": self.events, "outcomes": dict(sorted(self.outcomes.items())), "needs_person": self.needs_person}
        for name, values in self.values.items():
            told[name] = None
            if values:
                told[name] = {"count": len(values), "median": round(statistics.median(values), 1), "worst": round(_worst(name, values), 1)}
        return told


def _worst(name: str, values: list[float]) -> float:
    return min(values) if name == "notice" else max(values)


def history(reports: Iterable[Report]) -> dict[str, OfType]:
    """Per type of event what happened. C(reports): in the order in which the runs started."""
    events: dict[str, OfEvent] = {}
    for report in reports:
        for told in report["events"]:
            _add_event(events.setdefault(fold(told["event_id"]), OfEvent(told["event_type"] or "unknown")), told, report)
    found: dict[str, OfType] = {}
    for event in events.values():
        _count(found.setdefault(event.event_type, OfType()), event)
    return dict(sorted(found.items()))


def _add_event(event: OfEvent, told: Json, report: Report) -> None:
    # The service's clock is not the controller's.
    at = seconds(told["not_before"])
    if event.not_before is None and at is not None:
        event.not_before = at - (told.get("service_ahead") or 0.0)
    for name in ("seen", "approved", "started", "gone"):
        if getattr(event, name) is None:
            setattr(event, name, told[name])
    event.outcome = told["outcome"]
    for host in report["hosts"]:
        if host["name"] in told["hosts"]:
            known = event.hosts.setdefault(host["name"], {"out": None, "drained": None, "needs_person": False})
            _add_host(known, host, told, shares(host, report["events"]).get(told["event_id"], []))


def _add_host(known: OfHost, host: Json, told: Json, spans: list[Json]) -> None:
    """C(spans): when the host was out for the event."""
    if spans and spans[-1]["until"] is not None:
        known["out"] = sum(span["until"] - span["from"] for span in spans)
    mine = states_for(host, told["event_id"])
    ready = next((state["from"] for state in mine if state["state"] in DRAINED), None)
    # A host that is out for another event already has no drain of its own for this one.
    goes_out = bool(spans) and any(span["from"] == spans[0]["from"] for span in host["out"])
    if known["drained"] is None and goes_out and ready is not None:
        known["drained"] = max(0.0, ready - spans[0]["from"])
    known["needs_person"] = known["needs_person"] or any(state["state"] == "needs_person" for state in mine)


def _count(of_type: OfType, event: OfEvent) -> None:
    of_type.events += 1
    of_type.outcomes[event.outcome] = of_type.outcomes.get(event.outcome, 0) + 1
    if event.not_before is not None and event.seen is not None:
        of_type.values["notice"].append(max(0.0, event.not_before - event.seen))
    if event.started is not None and event.gone is not None and event.outcome != IN_PROGRESS:
        of_type.values["impact"].append(event.gone - event.started)
    for host in event.hosts.values():
        of_type.needs_person += host["needs_person"]
        of_type.values["out"].extend([host["out"]] if host["out"] is not None else [])
        of_type.values["drain"].extend([host["drained"]] if host["drained"] is not None else [])
