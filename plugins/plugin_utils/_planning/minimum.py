# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""May this host go out, as far as the minimum in service is concerned, and until when does the minimum count? Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ansible_collections.graceful.azure.plugins.module_utils._minimum import asks_for_none, shortage
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import Event
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import BALANCER, CHANGED, HELD, NOBODY, Group, Place
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.verdicts import Kind, Reason, Verdict, no
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.events import RESERVE
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json


def yields_at(host: Host, events: Iterable[Event]) -> float | None:
    """When the minimum in service no longer counts, because the impact comes in any case and the host needs time to be drained."""
    ends = [event.not_before_at for event in events if event.not_before_at is not None]
    return min(ends) - host.settings.drain_host.timeout - RESERVE if ends else None


def must_yield(host: Host, events: Sequence[Event], now: float) -> bool:
    at = yields_at(host, events)
    return any(event.may_come for event in events) or (at is not None and now >= at)


def below_minimum(host: Host, hosts: dict[str, Host], leaving: Collection[str], held: bool = False) -> Reason | None:
    """Which of the groups that share its requests would have too few servers in service without the host, or why nobody can tell; None if none would.

    C(leaving): names of the hosts that still serve and will not for long. C(held): of the places that are held out, as their groups are without the host
    now. A group in which the host is not by its own name is not asked: waiting brings it no other server.
    """
    seen = {place.balancer[0] for place in host.places if place.balancer}
    if not held and nobody_can_count(host) and any(not kind.sees_pool and kind not in seen for kind, _settings in host.balancers):
        # Nobody else counts there, neither a balancer nor whoever takes the host out.
        return host.blind[0]
    named = {place.group.key for place in host.places if place.group and place.by_name}
    for place in host.places:
        is_meant = place.condition == HELD if held else place.serves or place.may_serve
        if not is_meant or place.owner or not place.group or place.group.key not in named:
            continue
        # They may be in rotation as yet.
        theirs = _members(place.group, (left for other in hosts.values() if other is not host and other.name in leaving for left in other.places))
        unanswered, unasked = _silent_in(place, host, hosts)
        silent = {**{member: f"{member} goes out" for member in theirs}, **unanswered, **unasked}
        # Servers of other names that lead to this host go out with it.
        lost = _members(place.group, (left for left in host.places if left is not place))
        least = host.settings.min_in_service
        short = shortage(least, place.member, _as_answered(place.group, silent), place.group.name, lost)
        if not short:
            continue
        asked = {member: why for member, why in silent.items() if member not in unasked}
        if not shortage(least, place.member, _as_answered(place.group, asked), place.group.name, lost):
            return Reason(Kind.LOOK, "; ".join(sorted(unasked.values())))
        servers = _as_answered(place.group, silent)
        # Nobody may count what is not known yet.
        early = [server["silent"] for server in servers if server.get("early") and server["server"] != place.member]
        if early and not shortage(least, place.member, [dict(server, in_service=True) if server.get("early") else server for server in servers], "", lost):
            return Reason(Kind.MINIMUM, f"it is too early to count {place.group.name} ({'; '.join(sorted(early))})")
        out = _out_of(place.group, hosts)
        return Reason(
            Kind.MINIMUM, shortage(least, place.member, [{**out.get(each["server"], {}), **each} for each in servers], place.group.name, lost) or short
        )
    return None


def nobody_can_count(host: Host) -> bool:
    """Whether some servers must stay in service, and a balancer of the host cannot be read, so that nobody knows which would."""
    return bool(host.blind) and not asks_for_none(host.settings.min_in_service)


def kept_by(short: Reason, host: Host, events: Iterable[Event]) -> Verdict:
    """That a host waits. C(short): what C(below_minimum) says. That too few would stay counts until the minimum yields."""
    return no(short, until=yields_at(host, events) if short.kind is Kind.MINIMUM else None)


def _out_of(group: Group, hosts: Mapping[str, Host]) -> dict[str, Json]:
    """Which servers of a group are targets that are out, and why."""
    found = {}
    for host in hosts.values():
        for place in host.places:
            if place.is_in(group) and not place.serves:
                why = _why_out(host, place)
                found.update({place.member: {"out": f"{host.name} {why}"}} if why else {})
    return found


def _why_out(host: Host, place: Place) -> str:
    """Why a target does not serve at a place, after its name; empty if only the balancer can tell."""
    if place.condition == HELD:
        mine = next((event.event_type for event in host.events if event.key in place.held_by and event.event_type), None)
        return f"is out for its {mine}" if mine else "is still to come back"
    if place.condition == CHANGED:
        return "was changed by somebody else"
    if place.returns:
        return place.returns
    if place.is_out:
        return "is in an operator's maintenance"
    return "is silent" if host.observation.is_silent else ""


def _members(group: Group, places: Iterable[Place]) -> set[str]:
    """The servers of a group to which these places belong."""
    return {place.member for place in places if place.is_in(group)}


def _silent_in(place: Place, host: Host, hosts: dict[str, Host]) -> tuple[dict[str, str], dict[str, str]]:
    """Which servers of a place's group count as silent, and why: those that did not answer, and those that were not asked yet.

    Where the balancer does not check them, those that are targets count by what these answer.
    """
    unanswered: dict[str, str] = {}
    unasked: dict[str, str] = {}
    for other in hosts.values():
        for theirs in other.places if other is not host else ():
            if not theirs.is_in(place.group):
                continue
            why = _silent(other, theirs)
            if why:
                (unanswered if other.observation.asked or other.observation.is_silent else unasked)[theirs.member] = why
    return unanswered, unasked


def _as_answered(group: Group, silent: Mapping[str, str]) -> list[Json]:
    """The servers of a group. C(silent): which do not count as in service, and why."""
    return [
        dict(server, in_service=False, silent=silent[server["server"]]) if server["in_service"] and server["server"] in silent else server
        for server in group.servers
    ]


def _silent(host: Host, place: Place) -> str | None:
    """Why a place that gets requests cannot answer them, as its target tells; None if it can, or if nobody can be asked.

    Where nobody else tells it, a target that cannot be reached is as good as one that does not answer.
    """
    if place.health == NOBODY and host.observation.is_silent:
        return f"{host.name}: {host.why_silent}"
    if place.health == BALANCER or not host.settings.restore_service.ask:
        return None
    if host.observation.asked:
        return f"{host.name}: {host.observation.unanswered}" if host.observation.unanswered else None
    return f"the next look asks whether {host.name} answers" if place.health == NOBODY else None
