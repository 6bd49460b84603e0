# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""For which events a role acts, and how long it may take. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import seconds
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import is_unreachable
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Result

RESERVE = 15.0
"""Seconds before NotBefore at which an event's deadline lies."""
KEPT = ("event_type", "resources", "not_before")
"""The fields of an event that a record keeps. They stay the same from one read of the service to the next."""


def details_of(events: Iterable[Json]) -> dict[str, Json]:
    return {event["event_id"]: {key: event[key] for key in KEPT if key in event} for event in events}


def kept(ids: Iterable[str], details: dict[str, Json], **more: Any) -> dict[str, Json]:
    """The details of events, with more for each of them. What is given in C(details) stays, but for the ports."""
    known = set(map(fold, details))
    found = {**details, **{event_id: {} for event_id in ids if fold(event_id) not in known}}
    ports = {"heard": more["heard"]} if "heard" in more else {}
    return {event_id: {**more, **told, **ports} for event_id, told in found.items()} if more else details


def events_of_hold(
    role: str,
    purpose: str,
    needed: object,
    event_ids: Sequence[str],
    event_details: dict[str, Json] | None,
    asked: Result,
    heard: Sequence[int] = (),
    host: str = "",
) -> Json:
    """For which events a hold is put or released.

    C(purpose): what the role does, such as V(stop it). C(needed): whether there is anything to put a hold for. C(asked): the result of
    M(graceful.azure.scheduled_events_info). The record keeps C(heard) (the ports of the host that can be counted now) and C(host) (its name in the inventory).

    Returns C(asks) (whether the service must be asked), C(trouble) (why nothing may be done, or empty), C(ids) (empty: every event on the hold),
    C(details) and C(events) (what the service told).
    """
    asks = bool(needed) and not event_ids
    events = list(asked.get("events") or ()) if asks else []
    trouble = ""
    if asks and is_unreachable(asked):
        trouble = "The host cannot be reached."
    elif asks and not events:
        trouble = (
            f"No scheduled event names this host, so there is nothing to {purpose} for. To do so all the same, name an event of your own in {role}_event_ids."
        )
    ids = list(event_ids) or [event["event_id"] for event in events]
    details = kept(ids, event_details or details_of(events), **({"host": host} if host else {}), **({"heard": list(heard)} if heard else {}))
    return {"asks": asks, "trouble": trouble, "ids": ids, "details": details, "events": events}


def deadline(now: float, timeout: float, events: Json) -> float:
    """When a drain must end: at the deadline of the first event at the latest, by the service's clock if the service was asked.

    C(events): what C(events_of_hold) returned.
    """
    ends: list[float]
    if events["events"]:
        ends = [now + event["seconds_until_not_before"] for event in events["events"] if event.get("seconds_until_not_before") is not None]
    else:
        known = (seconds(details.get("not_before")) for details in events["details"].values())
        ends = [end for end in known if end is not None]
    return min([now + timeout, *(end - RESERVE for end in ends)])
