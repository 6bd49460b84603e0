# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What must the next pass know about this one? Pure."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.plugin_utils._comparable import comparable
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.candidates import Decided
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.ending import Ending
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import Event
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.judgement import (
    found_ready,
    gone_at,
    is_seen_given_back,
    out_since,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.memory import EventMemory, HostMemory, Lasting, LastStep, Memory, fields_of
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import NOBODY
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.status import (
    Decision,
    Statuses,
    going_on_at,
    restoring_since,
    warned_of,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.verdicts import Kind
from ansible_collections.graceful.azure.plugins.plugin_utils._text import clock, joined
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json

PASSING = (Kind.LOOK, Kind.ACT, Kind.RECORD, Kind.NOT_YET, Kind.NOTE, Kind.TIME)
"""Kinds of reasons that never keep a host for long, or only as its rule says."""
MOST_KEPT = 8
"""Of so many reasons for each host the times are noted, those of the longest."""


def remember(decided: Decided, statuses: Statuses, decisions: dict[str, Decision], end: Ending) -> Memory:
    observed = decided.observed
    return Memory(
        first_found=end.first_found,
        hosts={host.name: _remember_host(decided, statuses, decisions[host.name], host) for host in observed.hosts.values()},
        events={event.key: _remember_event(decided, statuses, event) for event in observed.events.values()},
    )


def _remember_host(decided: Decided, statuses: Statuses, decision: Decision, host: Host) -> HostMemory:
    memory, drain, step = host.memory, decided.drains[host.name], decided.step(host)
    serves = [place.serves for place in host.places if place.group and place.health == NOBODY]
    is_unserved = not all(serves) if serves else memory.unserved
    lasting = fields_of(Lasting, host)
    lasting["resource_name"] = host.observation.resource_name or memory.resource_name
    lasting["held_since"] = _held_since(decided, statuses, host)
    return HostMemory(
        **lasting,
        restoring_since=restoring_since(decided, host) if host.held_ids and host.name not in decided.wanted_out else None,
        last_step=LastStep(step.role, step.event_ids, step.state) if step else None,
        looks=drain.idle_looks,
        boot_id=host.observation.boot_id or memory.boot_id,
        looks_outside=drain.looks_outside,
        recorded=sorted(host.recorded),
        found_ready=found_ready(host, [event for event in host.events if decided.readiness(host, event).holds]) if host.settings.outside else [],
        arrivals=drain.arrivals,
        not_running=drain.not_running,
        in_rotation=bool(host.held_ids) and host.in_rotation,
        ports=host.told_ports,
        heard=sorted(host.heard),
        unserved=is_unserved,
        back_at=None if is_unserved else decided.observed.now if memory.unserved else memory.back_at,
        seen_out_since=host.seen_out_since,
        state=decision["state"],
        state_since=decision["since"],
        warned=sorted({*memory.warned, *(topic for topic, _sentence in warned_of(host, decided.observed.run))}),
    )


def _held_since(decided: Decided, statuses: Statuses, host: Host) -> dict[str, float]:
    """Since when the host is out for its events. The time begins in the pass in which the host is drained, or its time to drain is measured first."""
    held_since = dict(host.held_since)
    for event in decided.observed.events_of(host):
        asked = (host.name, event.key) in decided.counted_out or statuses[host.name, event.key].state == "draining"
        since = out_since(host, event, decided.observed.now) if asked else None
        if since is not None:
            held_since[event.key] = since
    return held_since


def _remember_event(decided: Decided, statuses: Statuses, event: Event) -> EventMemory:
    observed = decided.observed
    known = fields_of(EventMemory, event)
    known["was_ready"] = event.was_ready or event.key in decided.was_ready
    known["sent_through"] = decided.sent_through(event) or event.sent_through
    is_unapproved = event.asks_approval and not event.approved
    known["kept"] = _kept(decided, statuses, event) if is_unapproved else {}
    known["unapproved"] = _why_unapproved(decided, statuses, event, known["kept"]) if is_unapproved else None
    known["gone_at"] = gone_at(event, observed)
    given_back = [host.name for host in observed.hosts.values() if host.name in event.hosts and is_seen_given_back(host, event, observed)]
    known["given_back"] = [] if event.standing else [*event.given_back, *(name for name in given_back if name not in event.given_back)]
    return EventMemory(**known)


def _why_unapproved(decided: Decided, statuses: Statuses, event: Event, kept: dict[str, list[Json]]) -> str:
    """Why the event is not approved. After its start, what was so before stays."""
    verdict = decided.approvals.get(event.key)
    if event.started or not event.standing or not verdict:
        return event.unapproved or "it had started when this run first saw it, and no record tells of an approval"
    observed, members = decided.observed, decided.observed.members(event)
    if verdict.holds:
        return next((host.failure for host in members if host.failure), "it started while it was being approved")
    if verdict.why[0].kind is not Kind.SIBLING:
        return verdict.why[0].text
    missing = [host.name for host in members if statuses[host.name, event.key].state != "ready"]
    return joined(f"{name}: {_longest(kept.get(name), observed.now) or statuses[name, event.key].reason}" for name in missing) or verdict.why[0].text


def _kept(decided: Decided, statuses: Statuses, event: Event) -> dict[str, list[Json]]:
    """Per host what has kept it from being ready, since when and until when. The last second before the start does not tell why a drain never ended."""
    observed = decided.observed
    if event.started or not event.standing:
        return event.kept
    kept = {name: list(entries) for name, entries in event.kept.items()}
    for host in observed.members(event):
        status = statuses[host.name, event.key]
        why = going_on_at(decided, host) if status.state == "draining" else () if status.state == "ready" else status.why
        for reason in why:
            if reason.kind in PASSING:
                continue
            entries = kept.setdefault(host.name, [])
            before = next((entry for entry in entries if comparable(entry["text"]) == comparable(reason.text)), None)
            since = before["since"] if before else observed.now
            entries.append({"text": reason.text, "state": status.state, "since": since, "until": observed.now})
            entries.sort(key=lambda entry: entry["since"] - entry["until"])
            kept[host.name] = [entry for entry in entries if entry is not before][:MOST_KEPT]
    return kept


def _longest(entries: list[Json] | None, now: float) -> str:
    """What has kept a host from being ready for the longest time, as people read it."""
    if not entries:
        return ""
    longest = max(entries, key=lambda entry: (entry["until"] - entry["since"], entry["until"]))
    since, until, text = longest["since"], longest["until"], str(longest["text"])
    if longest["state"] != "draining":
        return text
    if until >= now:
        return f"not drained since {clock(since, now)}: {text}"
    return f"not drained from {clock(since, now)} to {clock(until, now)}: {text}"
