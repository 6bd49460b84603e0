# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How does the next pass look, and for how long? Private to the collection; pure.

A pass in which nobody has anything to do but wait would cost as much as any other. So the pause lies in the look, on the hosts, where
a new event ends it at once, for all of them. A pass in which somebody is being drained or brought back is quick instead, and whoever has
nothing to do with it is left in peace for some passes.

What a host does in a pass is a list of turns, one after the other: it takes its step, and is looked at. A turn has

C(machine)   the machine where it takes place; not there for the host itself
C(key)       of a machine: which of its looks it is, as in the document
C(name)      what people are shown
C(acts)      what is done first, see C(acts.py)
C(look)      options of the module that looks, if one does
C(module)    of a machine: that module
C(unless_back) of the host: whether it is looked at only if it is not back after what is done
C(again)     of the host: whether it is looked at once more if news end the look, because a step has changed what the look before showed
C(read_at)   of the host: when its metadata service was last read, so that it is not asked too soon
C(pause)     seconds for which nothing is done
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ansible_collections.graceful.azure.plugins.plugin_utils._planning.judgement import PATIENCE
from ansible_collections.graceful.azure.plugins.plugin_utils._providers.registry import PROVIDERS

IDLE = 60.0
"""Seconds for which a look waits for news while there is nothing to do before an event appears, starts or is over."""
PAUSE = 4.0
"""The same while an event names a host or something is held: then something may happen that ends no look, as at a balancer."""
DRAIN = 2.0
"""Seconds for which a look waits for the last requests or connections to end."""
LEAVE = 2.0
"""Seconds more in a pass in which the host goes out only: others look at the same time."""
QUIET_WAIT = 4.0
"""Seconds for which a look at a balancer waits at most, also where no request is to come for longer than that."""
QUIET_SEEN = QUIET_WAIT - 0.6
"""Seconds without a request that such a look can see: two looks, and the time between them, belong to the end of the wait."""
REST = 2.0
"""Seconds for which a host with an event is left in peace while others have steps to take."""
REST_IDLE = 4.0
"""The same for a host without an event. Its own event may be one that no other VM shows."""
REST_MACHINE = 30.0
"""The same for a balancer while there is no event at all. The step that takes a host out looks at it anyway, and nothing is approved on an old look."""
TIME_LIMIT_RESERVE = 15.0
"""Seconds that a look may take in all beyond its wait, where the keyword timeout limits tasks."""


def first_turns(settings, check_mode=False, observe_timeout=5.0):
    """How the first pass of a run looks: everything, at once. In check mode a host is asked for its answer even where no event names it.

    C(settings): per host, as in the document.
    """
    turns = {}
    for name, values in settings.items():
        ask = dict(values["restore_service"].get("ask") or {})
        if check_mode and ask:
            ask["always"] = True
        turns[name] = [_turn(name, _look(observe_timeout, values["drain_host"]["ports"], values["resource_name"], ask=ask))]
    looks = _machine_looks([(name, balancer) for name, values in settings.items() for balancer in values["load_balancers"]])
    return _spread(looks, turns, list(settings))


def next_turns(decided, decisions, acts, expected, doubtful, end):
    """What each host does in the next pass.

    C(acts): per host that takes its step in its turn what it does (see C(acts.py)). C(expected): per host the ids of its events that are not over.
    C(doubtful): hosts whose event was seen to be gone once.
    """
    observed = decided.observed
    hosts = [host for host in observed.hosts.values() if not host.look.left]
    groups = _group(decided, decisions, doubtful)
    pause = _pause(decided, decisions, end, groups)
    balancers = [(host.name, balancer) for host in observed.hosts.values() for balancer in host.settings.load_balancers]
    waits = {name: min(decided.drains[name].quiet_left, QUIET_SEEN) for name in groups.draining}
    more = LEAVE if groups.leaving else 0.0

    def searched(name, key):
        return observed.addresses.searched(observed.hosts[name], observed.document.machine(key).look)

    machines = observed.document.machines
    looks = _machine_looks(balancers, waits, searched, more)
    for look in looks:
        if look["key"] in machines and machines[look["key"]].look.get("ended"):
            look["look"].update(wait_for=[], timeout=0.0)  # news must not end it again and again
    # In a pass that approves, the looks that allow it are a moment old.
    rest = 0.0 if groups.ready or groups.quick else REST if groups.concerned else REST_MACHINE
    due = [look for look in looks if look["look"]["timeout"] or not _machine_rests(machines.get(look["key"]), rest, observed.now)]
    turns = {name: [] for name in observed.hosts}
    back, on = _told_by_acts(decided, acts, machines)
    due = [look for look in due if look["look"]["timeout"] or look["machine"] not in on]
    for host in hosts:
        found = _host_turns(host, decided, groups, pause, _drain_wait(waits.get(host.name, 0.0), more), expected[host.name])
        turns[host.name] = [dict(turn, unless_back=True) for turn in found] if host.name in back else found
    return _spread(due, _with_acts(turns, acts, observed), [host.name for host in hosts])


class _Groups(NamedTuple):
    """Names of hosts, by what the next pass has to do with them."""

    news: bool        # whether a new event may name hosts that were last read before it appeared
    waves: int        # how many times Ansible begins anew until it has looked at all
    concerned: set    # an event names them, or something is held
    draining: set     # it is waited until nobody is served there any more
    leaving: set      # those of them who go out only now
    quick: set        # their next step should follow at once
    ready: set        # they are about to be approved, and looked at anew each time


def _group(decided, decisions, doubtful):
    observed = decided.observed
    roles = {name: (decision["step"] or {}).get("role") for name, decision in decisions.items()}
    states = {name: decision["state"] for name, decision in decisions.items()}
    concerned = {host.name for host in observed.hosts.values() if host.events or host.held_ids}
    leaving = {name for name in concerned if roles[name] == "load_balancer"}
    return _Groups(
        news=any(
            event.first_seen == observed.now and (event.strangers or any(name not in event.shown_by for name in event.members))
            for event in observed.events.values()
        ),
        waves=math.ceil(len(observed.hosts) / max(1, observed.run.forks or 1)),
        concerned=concerned,
        draining={name for name in concerned if states[name] == "draining"} | leaving,
        leaving=leaving,
        quick={name for name in states if _is_quick(roles[name], states[name])} | doubtful,
        ready={name for name in concerned if states[name] == "ready" and roles[name] != "approve_event"},
    )


def _host_turns(host, decided, groups, pause, drain_wait, expected):
    """The turn in which a host is looked at; none if it is left in peace."""
    observed, name = decided.observed, host.name
    wait, rest, more = 0.0, 0.0, {}
    if name in groups.draining:
        # More waves than one wait one after the other, so then nobody waits.
        wait = drain_wait if groups.waves == 1 else 0.0
        pools = sorted({place.pool_address for place in host.places if place.pool_address})
        more = {"await_idle": bool(host.ports), "ignored_peers": pools}
    elif groups.news or name in groups.quick or host.look.reached is None or name in groups.ready:
        pass
    elif groups.quick or groups.draining:
        rest = REST if name in groups.concerned else REST_IDLE
    else:
        # Where the look does not come about at all nobody waits for its end.
        wait = 0.0 if host.look.is_silent else pause
        rest = REST_IDLE if groups.concerned and name not in groups.concerned else 0.0
    if host.look.ended:
        wait = 0.0  # news must not end it again and again
    if _rests(host.look, rest, observed.now):
        return []
    if _is_spared(host.look, observed.now):
        return [{"name": name, "pause": observed.run.sleep}]
    known_name = host.settings.resource_name or host.look.resource_name
    look = _look(observed.run.observe_timeout, host.ports, known_name, host.look.fingerprint, wait, expected, _ask(host, decided), **more)
    turn = _turn(name, look, host.look.at)
    return [dict(turn, again=True) if decided.step(host) else turn]


def _told_by_acts(decided, acts, machines):
    """Hosts that are brought back, and machines of their balancers, for which the acts tell what a look would tell.

    If they do not, because something went wrong, the host is looked at all the same, and its balancers in the next pass. So this holds only for what
    was looked at in this pass.
    """
    hosts = decided.observed.hosts
    back = {name for name in acts if decided.step(hosts[name]).role == "restore_service" and hosts[name].look.is_new}
    on = {machine for name in back for machine, _todo in acts[name] if machine}
    new = {machine: [known.is_new for known in machines.values() if known.look.get("machine") == machine] for machine in on}
    return back, {machine for machine in on if new[machine] and all(new[machine])}


def _with_acts(turns, acts, observed):
    """The turns of each host with what it does before it is looked at. What it does last on itself belongs to the same turn as its look."""
    turns = dict(turns)
    for name, found in acts.items():
        balancers = observed.hosts[name].settings.load_balancers
        mine = [dict({"machine": machine} if machine else {}, name=machine or name, acts=todo, balancers=balancers) for machine, todo in found if todo]
        look = next((turn for turn in turns[name] if "look" in turn), None)
        if look and mine and "machine" not in mine[-1]:
            mine[-1] = dict(look, **mine[-1])
            look = None
        turns[name] = [*mine, *(turn for turn in turns[name] if turn is look or "look" not in turn)]
    return turns


def _look(timeout, ports, resource_name, known="", wait=0.0, expected=(), ask=None, await_idle=False, ignored_peers=()):
    """Options of the module host_observation."""
    look = {
        "timeout": timeout, "ports": ports, "wait": wait, "known": known, "expected": list(expected), "ask": ask or {}, "await_idle": await_idle,
        "ignored_peers": list(ignored_peers),
    }
    return dict(look, resource_name=resource_name) if resource_name else look


def _turn(name, look, read_at=None):
    return {"name": name, "look": look, "read_at": read_at}


def _ask(host, decided):
    """What the host is asked. One that is held does not serve: its answer tells nothing before its event is over."""
    ask = dict(host.settings.restore_service.ask or {})
    if not ask or decided.step(host):
        return {}
    if not host.held_ids:
        return ask
    return dict(ask, back=True) if any(event.started for event in decided.observed.events_of(host)) else {}


def quick_look(turn):
    """A turn that looks at the same machine and waits for nothing."""
    return dict({key: turn[key] for key in ("machine", "key", "name", "module")}, look=dict(turn["look"], wait_for=[], timeout=0.0))


def known_events(observed):
    """Pairs of an event's id and status that are no news for a look. A service that lags behind may still show as Scheduled what has started."""
    return [[event.key, status] for event in observed.events.values() for status in ("Scheduled", "Started") if status == "Scheduled" or event.started]


def _rests(look, rest, now):
    """Whether the former look is good enough. Where the clock was set back nothing is known of how long ago it was."""
    return look.at is not None and 0 <= now - look.at < rest


def _is_spared(look, now):
    """Whether a machine whose former look was cut off is left in peace, so that it holds up every second pass at most."""
    return look.began is not None and 0 <= now - look.began < 2 * look.cut_off


def _machine_rests(machine, rest, now):
    """Whether the former look at a machine is good enough, or was cut off."""
    look = machine.look if machine else {}
    at = look.get("at", look.get("began"))
    if not at:
        return False
    can_be_read = machine.records is not None and not look.get("error") and not look.get("fatal")
    rest = rest if can_be_read else look.get("cut_off", 0.0)
    return 0 <= now - at < rest


def _drain_wait(quiet, more):
    """Seconds for which it is waited until nobody is served any more, and no request has come for so long. C(more): until the host is out."""
    return max(DRAIN, quiet + 0.6) + more


def _is_quick(role, state):
    """Whether the next step for a host should follow at once."""
    return role in ("load_balancer", "drain_host", "restore_service") or (role is None and state == "restoring")


def _pause(decided, decisions, end, groups):
    """Seconds until something is to be done by the clock, at most IDLE or PAUSE; none where passes are to lie apart anyway."""
    observed = decided.observed
    hosts = observed.hosts.values()
    if observed.run.sleep > 1.0 or any(host.fatal for host in hosts):
        return 0.0
    # What cannot be read for so long that a run gives it up is no reason any more to look often.
    troubles = [since for host in hosts for since in (host.silent_since, host.blind_since) if since is not None]
    is_troubled = any(observed.now - since < PATIENCE for since in troubles)
    longest = PAUSE if groups.waves > 1 or is_troubled or groups.concerned else IDLE
    if observed.run.task_timeout:
        longest = min(longest, max(0.0, observed.run.task_timeout - TIME_LIMIT_RESERVE))
    moments = [end, *(decision["until"] for decision in decisions.values()), *(wait.until for wait in decided.waiting.values())]
    moments.extend(moment for host in hosts for event in host.events for moment in (event.deadline, event.not_before_at))
    return min([longest, *(moment - observed.now for moment in moments if moment is not None and moment > observed.now)]) / groups.waves


def _machine_looks(balancers, waits=None, searched=lambda name, key: [], more=0.0):
    """The turns that look at machines, each once.

    C(balancers): pairs of a host and the settings of one of its balancers. C(waits): for which hosts it is waited, with the seconds for which
    no request is to come. C(more): seconds until those who wait are out.
    """
    turns = []
    for provider in PROVIDERS.values():
        mine = [(name, settings) for name, settings in balancers if settings["provider"] == provider.name]
        for found in provider.looks(mine, waits or {}, searched):
            look = dict(found.look, wait_for=found.wait_for, quiet=found.quiet, timeout=_drain_wait(found.quiet, more) if found.wait_for else 0.0)
            turns.append({"machine": found.machine, "key": found.key, "name": found.key, "module": found.module, "look": look})
    return turns


def _spread(looks, turns, lookers):
    """Give the looks at machines to hosts, first to those who have nothing to do themselves or to wait for.

    A look that may wait is the last that a host does; nor does any other delay what it does itself. A machine that somebody acts on is looked at by
    the last one who does.
    """
    turns = {name: list(mine) for name, mine in turns.items()}
    idle = [name for name in lookers if not any("acts" in turn for turn in turns[name])] or lookers
    free = [name for name in idle if not any("look" in turn and turn["look"].get("wait") for turn in turns[name])] or idle
    acting = {turn["machine"]: name for name, mine in turns.items() for turn in mine if "acts" in turn and "machine" in turn}
    given = dict.fromkeys(lookers, 0)
    for look in looks if lookers else ():
        waits = look["look"]["timeout"] > 0
        if look["machine"] in acting and not waits:
            mine = turns[acting[look["machine"]]]
            after = max(number for number, turn in enumerate(mine) if "acts" in turn and turn.get("machine") == look["machine"])
            mine.insert(after + 1, look)
        else:
            name = min(free if waits else idle, key=given.get)
            given[name] += 1
            is_first = not waits and not any("acts" in turn for turn in turns[name])
            turns[name].insert(0 if is_first else len(turns[name]), look)
    return turns
