# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the next pass looks: who is looked at, who waits for news and for how long. Private to the collection; pure.

A pass in which nobody has anything to do but wait would cost as much as any other. So the pause lies in the look,
on the hosts, where a new event ends it at once. A pass in which somebody is being drained or brought back is quick
instead, and whoever has nothing to do with it is left in peace for some passes.
"""

from __future__ import annotations

import math

from ansible_collections.graceful.azure.plugins.plugin_utils._world import balancer_key

PAUSE = 4.0
"""Seconds for which a look waits for news while there is nothing to do."""
DRAIN = 2.0
"""Seconds for which a look waits for the last sessions or connections to end."""
QUIET_WAIT = 4.0
"""Seconds for which a look at a balancer waits at most, also where no session is to come for longer than that."""
QUIET_SEEN = QUIET_WAIT - 0.6
"""Seconds without a session that such a look can see: two looks, and the time between them, belong to the end of the wait."""
REST = 2.0
"""Seconds for which a host with an event is left in peace while others have steps to take."""
REST_IDLE = 4.0
"""The same for a host without an event, and for a balancer while there is none at all."""


def first_pace(settings, check_mode=False):
    """How the first pass of a run looks: everything, at once. In check mode a host is asked for its answer even where no event names it."""
    pace = {name: dict(_look(0.0), ask=_asked(values)) for name, values in settings.items()}
    for look in pace.values():
        if check_mode and look["ask"]:
            look["ask"]["always"] = True
    return pace, looks(settings)


def _asked(settings):
    """What the host is asked before it is taken out; see the option C(ask) of the module host_observation."""
    return dict(settings["restore_service"].get("ask") or {})


def next_pace(world, decisions, expected, doubtful):
    """How the pass after this one looks: per host its look, and per host the balancers that it looks at.

    C(expected): per host the ids of its events that are not over. C(doubtful): hosts whose event was seen to be gone once.
    """
    hosts = list(world.hosts.values())
    steps = {host.name: (host.step or {}).get("role") for host in hosts}
    # A new event may name hosts that were last read before it appeared.
    news = any(
        event.first_seen == world.now and (event.strangers or any(name not in event.shown_by for name in event.members))
        for event in world.events.values()
    )
    concerned = {host.name for host in hosts if host.events or host.held_ids}
    draining = {name for name in concerned if decisions[name]["state"] == "draining" or steps[name] == "load_balancer"}
    quick = {host.name for host in hosts if _is_quick(steps[host.name], decisions[host.name]["state"])} | doubtful
    # Whoever is about to be approved is looked at anew each time.
    ready = {name for name in concerned if decisions[name]["state"] == "ready" and steps[name] != "approve_event"}
    waves = math.ceil(len(hosts) / max(1, world.run.get("forks") or 1))
    pause = _pause(world, decisions) / waves

    pace = {}
    for host in hosts:
        # Where the look does not come about at all nobody waits for its end.
        wait = pause if host.seen.get("reached", True) else 0.0
        if host.name in draining:
            # More waves than one wait one after the other, so then nobody waits.
            pools = sorted({server["source_address"] for server in host.servers if server.get("source_address")})
            pace[host.name] = _look(DRAIN if waves == 1 else 0.0, await_idle=bool(host.drain["ports"]), ignored_peers=pools)
        elif news or host.name in quick or not host.seen or host.name in ready:
            pace[host.name] = _look(0.0)
        elif quick or draining:
            pace[host.name] = _look(0.0, rest=REST if host.name in concerned else REST_IDLE)
        elif concerned and host.name not in concerned:
            pace[host.name] = _look(wait, rest=REST_IDLE)
        else:
            pace[host.name] = _look(wait)
        pace[host.name]["expected"] = expected[host.name]
        # A host that is held does not serve: its answer would tell nothing.
        pace[host.name]["ask"] = {} if host.held_ids or host.step else _asked(host.settings)
    # Who has left the run looks no more.
    present = [host.name for host in hosts if not host.seen.get("left")]
    settings = {name: host.settings for name, host in world.hosts.items()}
    servers = {}
    for name in draining:
        balancer = world.hosts[name].balancer
        servers[balancer["server"]] = max(servers.get(balancer["server"], 0.0), world.hosts[name].quiet_left())
    return pace, looks(settings, servers, rest=0.0 if concerned else REST_IDLE, lookers=present, addresses=_addresses(world))


def _addresses(world):
    """Per balancer, where the hosts behind it are: other servers may lead there as well."""
    found = {}
    for host in world.hosts.values():
        for machine in host.balancer["hosts"] if host.balancer["provider"] == "haproxy" else ():
            key = balancer_key(machine, host.balancer["socket"])
            found.setdefault(key, []).extend(world.places.searched(host, world.balancers.get(key) or {}))
    return found


def _look(wait, rest=0.0, await_idle=False, ignored_peers=()):
    return {"wait": wait, "rest": rest, "await_idle": await_idle, "ignored_peers": list(ignored_peers), "expected": []}


def _is_quick(role, state):
    """Whether the next step for a host should follow at once."""
    return role in ("load_balancer", "drain_host", "restore_service") or (role is None and state == "restoring")


def _pause(world, decisions):
    """Seconds until something is to be done by the clock, at most PAUSE; none where passes are to lie apart anyway."""
    if world.run.get("sleep", 1.0) > 1.0:
        return 0.0
    moments = [world.end]
    for host in world.hosts.values():
        moments.append(decisions[host.name]["until"])
        moments.extend(moment for event in host.events for moment in (event.deadline, event.not_before_at))
        moments.extend(until for _why, until in host.waiting.values())
        if host.fatal:
            return 0.0
    return min([PAUSE, *(moment - world.now for moment in moments if moment is not None and moment > world.now)])


def looks(settings, draining=None, rest=0.0, lookers=(), addresses=None):
    """Who looks at which balancer: per host a list of looks, each balancer once, spread over the hosts or those C(lookers).

    C(draining): the servers that are waited for, each with the seconds for which no session is to come to it.
    """
    wanted = {}
    draining = draining or {}
    for values in settings.values():
        balancer = values["load_balancer"]
        if balancer["provider"] != "haproxy":
            continue
        for host in balancer["hosts"]:
            key = balancer_key(host, balancer["socket"])
            look = wanted.setdefault(key, {"key": key, "balancer": host, "socket": balancer["socket"], "servers": [], "absent": "unknown"})
            if balancer.get("hard_stop_after") is not None:
                look["hard_stop_after"] = balancer["hard_stop_after"]
            if balancer.get("absent") == "no_traffic":
                look["absent"] = "no_traffic"
            if balancer["server"] not in look["servers"]:
                look["servers"].append(balancer["server"])
    names = list(lookers) or list(settings)
    spread = {name: [] for name in settings}
    for number, look in enumerate(wanted.values()):
        wait_for = [server for server in look["servers"] if server in draining]
        look.update(addresses=(addresses or {}).get(look["key"], []))
        quiet = min(max((draining[server] for server in wait_for), default=0.0), QUIET_SEEN)
        look.update(wait_for=wait_for, timeout=max(DRAIN, quiet + 0.6) if wait_for else 0.0, quiet=quiet, rest=rest)
        spread[names[number % len(names)]].append(look)
    return spread
