# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How does the next pass look, and for how long? Private to the collection; pure.

A pass in which nobody has anything to do but wait would cost as much as any other. So the pause lies in the look,
on the hosts, where a new event ends it at once. A pass in which somebody is being drained or brought back is quick
instead, and whoever has nothing to do with it is left in peace for some passes.
"""

from __future__ import annotations

import math

from ansible_collections.graceful.azure.plugins.plugin_utils._providers.registry import PROVIDERS

PAUSE = 4.0
"""Seconds for which a look waits for news while there is nothing to do."""
DRAIN = 2.0
"""Seconds for which a look waits for the last requests or connections to end."""
QUIET_WAIT = 4.0
"""Seconds for which a look at a balancer waits at most, also where no request is to come for longer than that."""
QUIET_SEEN = QUIET_WAIT - 0.6
"""Seconds without a request that such a look can see: two looks, and the time between them, belong to the end of the wait."""
REST = 2.0
"""Seconds for which a host with an event is left in peace while others have steps to take."""
REST_IDLE = 4.0
"""The same for a host without an event, and for a balancer while there is none at all."""


def first_pace(settings, check_mode=False):
    """How the first pass of a run looks: everything, at once. In check mode a host is asked for its answer even where no event names it.

    C(settings): per host, as in the document.
    """
    pace = {name: _look(0.0, ask=dict(values["restore_service"].get("ask") or {})) for name, values in settings.items()}
    for look in pace.values():
        if check_mode and look["ask"]:
            look["ask"]["always"] = True
    return pace, _machine_looks({name: values["load_balancer"] for name, values in settings.items()}, list(settings))


def next_pace(decided, decisions, expected, doubtful, end):
    """How the next pass looks: per host the look at it, and per host the balancers that it looks at.

    C(expected): per host the ids of its events that are not over. C(doubtful): hosts whose event was seen to be gone once.
    """
    observed = decided.observed
    hosts = list(observed.hosts.values())
    roles = {host.name: step.role if step else None for host, step in ((host, decided.step(host)) for host in hosts)}
    states = {name: decision["state"] for name, decision in decisions.items()}
    # A new event may name hosts that were last read before it appeared.
    news = any(
        event.first_seen == observed.now and (event.strangers or any(name not in event.shown_by for name in event.members))
        for event in observed.events.values()
    )
    concerned = {host.name for host in hosts if host.events or host.held_ids}
    draining = {name for name in concerned if states[name] == "draining" or roles[name] == "load_balancer"}
    quick = {name for name in states if _is_quick(roles[name], states[name])} | doubtful
    # Whoever is about to be approved is looked at anew each time.
    ready = {name for name in concerned if states[name] == "ready" and roles[name] != "approve_event"}
    waves = math.ceil(len(hosts) / max(1, observed.run.forks or 1))
    pause = _pause(decided, decisions, end) / waves

    pace = {}
    for host in hosts:
        if host.name in draining:
            # More waves than one wait one after the other, so then nobody waits.
            pools = sorted({place.pool_address for place in host.places if place.pool_address})
            look = _look(DRAIN if waves == 1 else 0.0, await_idle=bool(host.ports), ignored_peers=pools)
        elif news or host.name in quick or host.look.reached is None or host.name in ready:
            look = _look(0.0)
        elif quick or draining:
            look = _look(0.0, rest=REST if host.name in concerned else REST_IDLE)
        else:
            # Where the look does not come about at all nobody waits for its end.
            look = _look(0.0 if host.look.is_silent else pause, rest=REST_IDLE if concerned and host.name not in concerned else 0.0)
        # A host that is held does not serve: its answer would tell nothing.
        ask = {} if host.held_ids or decided.step(host) else dict(host.settings.restore_service.ask or {})
        pace[host.name] = dict(look, expected=expected[host.name], ask=ask)

    def searched(name, key):
        return observed.addresses.searched(observed.hosts[name], observed.document.machine(key).look)

    looks = _machine_looks(
        {host.name: host.settings.load_balancer for host in hosts},
        # Who has left the run looks no more.
        [host.name for host in hosts if not host.look.left],
        waits={name: min(decided.drains[name].quiet_left, QUIET_SEEN) for name in draining},
        rest=0.0 if concerned else REST_IDLE,
        searched=searched,
    )
    return pace, looks


def _look(wait, rest=0.0, await_idle=False, ignored_peers=(), ask=None):
    return {"wait": wait, "rest": rest, "await_idle": await_idle, "ignored_peers": list(ignored_peers), "expected": [], "ask": ask}


def _is_quick(role, state):
    """Whether the next step for a host should follow at once."""
    return role in ("load_balancer", "drain_host", "restore_service") or (role is None and state == "restoring")


def _pause(decided, decisions, end):
    """Seconds until something is to be done by the clock, at most PAUSE; none where passes are to lie apart anyway."""
    observed = decided.observed
    hosts = observed.hosts.values()
    if observed.run.sleep > 1.0 or any(host.fatal for host in hosts):
        return 0.0
    moments = [end, *(decision["until"] for decision in decisions.values()), *(wait.until for wait in decided.waiting.values())]
    moments.extend(moment for host in hosts for event in host.events for moment in (event.deadline, event.not_before_at))
    return min([PAUSE, *(moment - observed.now for moment in moments if moment is not None and moment > observed.now)])


def _machine_looks(settings, lookers, waits=None, rest=0.0, searched=lambda name, key: []):
    """Who looks at which machine: per host a list of looks, each machine once, spread over C(lookers).

    C(settings): per host those of its balancer. C(waits): for which hosts it is waited, with the seconds for which no request is to come.
    """
    names = lookers or list(settings)
    spread = {name: [] for name in settings}
    wanted = []
    for provider in PROVIDERS.values():
        mine = {name: values for name, values in settings.items() if values["provider"] == provider.name}
        wanted.extend(provider.looks(mine, waits or {}, searched))
    for number, look in enumerate(wanted):
        look.update(timeout=max(DRAIN, look["quiet"] + 0.6) if look["wait_for"] else 0.0, rest=rest)
        spread[names[number % len(names)]].append(look)
    return spread
