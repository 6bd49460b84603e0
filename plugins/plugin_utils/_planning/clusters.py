# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whose turn is it in each cluster? Pure.

Targets that are members of one cluster go out one after the other: a cluster that lost several members may stop what it runs. A member that is out
counts until it is back. Like the minimum in service, this gives way shortly before the impact.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import CLUSTER
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import Event, add_new, urgency
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.judgement import is_borne_with, is_deleted, is_given_back
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.minimum import must_yield
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.observation import Observed
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.verdicts import Kind, Reason

Cluster = tuple[str, str]
"""A type and a name."""


def clusters_of(host: Host) -> dict[str, Cluster]:
    """The clusters whose members go out one after the other, per name of a drain step of the host: pairs of a type and a name."""
    return {step["name"]: (step["type"], step["cluster"]) for step in host.settings.drain_host.steps if step.get("cluster")}


def wait_for_turn(preparing: dict[str, list[Event]], observed: Observed) -> dict[str, Reason]:
    """Why a host must not go out yet, as far as its clusters are concerned, per name. C(preparing): per host the events that it goes out for."""
    waits: dict[str, Reason] = {}
    for cluster in sorted({cluster for host in observed.hosts.values() for cluster in clusters_of(host).values()}):
        members = [host for host in observed.hosts.values() if cluster in clusters_of(host).values()]
        out = [host.name for host in members if _is_out(host, cluster, observed)]
        waiting = [host for host in members if host.name in preparing and not _has_begun(host, cluster, observed)]
        for host in sorted(waiting, key=lambda host: _order(host, preparing[host.name])):
            # That nobody can read it, or that it may be hit unprepared, gives it no turn of its own.
            others = [name for name in out if name != host.name]
            if others and not must_yield(host, preparing[host.name], observed.now):
                waits.setdefault(host.name, _one_after_the_other(cluster, others))
            else:
                add_new(out, [host.name])
    return waits


def wait_unprepared(host: Host, event: Event, observed: Observed, leaving: Collection[str]) -> Reason | None:
    """Why a host must not be hit without preparation yet, as far as its clusters are concerned. C(leaving): names of the hosts that will soon be out."""
    for cluster in sorted(set(clusters_of(host).values())):
        others = [other for other in observed.hosts.values() if cluster in clusters_of(other).values() and other.name not in event.members]
        out = [other.name for other in others if other.name in leaving or _is_out(other, cluster, observed)]
        if out:
            return _one_after_the_other(cluster, out)
    return None


def _one_after_the_other(cluster: Cluster, out: Iterable[str]) -> Reason:
    return Reason(Kind.TURN, f"waits for {', '.join(out)}: members of the {cluster[0]} cluster {cluster[1]} go out one after the other")


def _is_out(host: Host, cluster: Cluster, observed: Observed) -> bool:
    """Whether a member is out, or may be: its records say so, or they cannot be read and an event concerns it, or its impact may come."""
    if any(event.standing and event.may_come and not event.prepares and host.name in event.members for event in observed.events.values()):
        return True
    return _has_begun(host, cluster, observed) or host.observation.holds is None and (bool(host.events) or _may_have_been_taken_out(host, observed))


def _may_have_been_taken_out(host: Host, observed: Observed) -> bool:
    """Whether a run that was killed may have taken it out: this one has never read its records, and may do so soon, or an event may name it."""
    if host.memory.boot_id or host.fatal or host.settings.may_be_off:
        return False
    may_be_named = not host.resource_name and any(event.standing and event.strangers for event in observed.events.values())
    return may_be_named or is_borne_with(host, observed)


def _has_begun(host: Host, cluster: Cluster, observed: Observed) -> bool:
    """Whether a member is out, or was when its records could be read last."""
    holds = host.observation.holds
    if holds is None:
        # A VM that was deleted does not come back, and its cluster knows what it lacks.
        return not is_deleted(host, observed) and any(
            host.name in event.held and not is_given_back(host, event, observed) for event in observed.events_of(host)
        )
    return any(record.kind == CLUSTER and (record.subject.get("type"), record.subject.get("name")) in _names(host, cluster) for record in holds)


def _names(host: Host, cluster: Cluster) -> list[tuple[str, str]]:
    return [(cluster[0], name) for name, theirs in clusters_of(host).items() if theirs == cluster]


def _order(host: Host, events: Sequence[Event]) -> tuple[Any, ...]:
    """Who has begun goes on. Then the most urgent goes first."""
    begun = any(event.key in host.held_ids for event in events)
    return not begun, *urgency(events), host.name
