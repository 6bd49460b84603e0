# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What does each host do in the next pass, and how long does it wait there? Pure.

A look costs some milliseconds, so each pass looks at every machine. If there is nothing to do, the looks on the hosts wait for news, and a new event
ends all of them at once. While a host is drained or brought back, passes follow each other quickly.

Some hosts are left out of a quick pass in which they have no part: those that are silent or whose requests start modules, for some seconds, and those
that would not fit beside the others in the forks, in turn, and until what is known of them is no longer current.

What a host does in a pass is a list of turns, which it takes one after the other. In a turn it carries out acts, or looks at itself or at a machine on
which a balancer runs, or both. A turn has

C(machine)   the machine on which it takes place; missing if that is the host itself
C(key)       with C(machine): the key of the look in the document
C(name)      the name that people see
C(acts)      the acts, which come before the look; see C(acts.py)
C(asks)      with C(machine): that its metadata service is asked, so that the address is that machine's own
C(options)   the options of the look; missing if there is none
C(module)    with C(machine): which look it is
C(read_at)   of the host: when its metadata service was last read, so that it is not read again too soon
C(shown)     of the host: the ids of the events in its last document, with the VMs that they name
C(not_shown) of the host: ids of events that bear its name and that its own metadata service has not shown yet
C(pause)     seconds to wait
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.graceful.azure.plugins.module_utils._pools import not_in_pools
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import CLUSTER, READY_TO_LEAVE
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import ON_HOST, TRAFFIC
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.groups import groups_out
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.approval import NEVER
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.candidates import Decided
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import HostObservation, Run
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.judgement import FRESH, PATIENCE, Drain, may_fail_by_us
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.observation import Observed
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import BALANCER, SearchedAt
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.status import Decision
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Acts, BalancerSettings, DrainStep, Json, Options, Turn

Turns = dict[str, list[Turn]]
"""Per host: its turns in their order."""

IDLE = 40.0
"""Seconds for which a look waits for news while there is nothing to do until an event appears. The helper of a balancer, which is only asked once in
each pass, lives longer than that without a request (C(STAY) of C(module_utils/_helper.py)), so it is there when the event comes."""
PAUSE = 4.0
"""The same while an event names a host or something is held. Then something may happen that is no news for a look, such as a change at a balancer.
No look waits longer for the end of requests either, and for so long a host that takes long to look at is left alone by what does not concern it."""
DRAIN = 2.0
"""Seconds for which a look waits for the last requests or connections to end. So long a host that is idle may have to wait for another."""
LONG_DRAIN = 30.0
"""Seconds after which a drain counts as a long one. While nothing else is in hand, its looks wait as long as others: C(PAUSE). They still end with the last
request or connection, and with news, so only a change at a balancer is seen later, and each pass is some lines of Ansible's."""
READINGS = 0.6
"""Seconds for the two readings at the end of a wait."""
QUIET_SEEN = PAUSE - READINGS
"""Seconds without a request that such a look can see."""
NOTES = {"noted", "forgotten", "restoring"}
"""The parts of acts that only write or remove records of how far a host is."""
THINGS = {duty.module: duty.things for duty in (*ON_HOST.values(), *TRAFFIC.values()) if duty.things}
"""What these calls change on a host, as people call it."""
TIME_LIMIT_RESERVE = 15.0
"""Seconds that a look may take beyond its wait, if the keyword timeout limits tasks."""
TRIES = 3
"""How often a machine that does not answer in time is asked at all where no next pass asks it again."""


def first_turns(settings: dict[str, Json], check_mode: bool, observe_timeout: float) -> Turns:
    """The turns of the first pass: look at everything, and wait for nothing. In check mode each host is asked whether it answers, even without an event, and
    its duties are looked at.

    C(settings): per host, as in the document.
    """
    turns = {}
    for name, values in settings.items():
        ask = dict(values["restore_service"].get("ask") or {})
        if check_mode and ask:
            ask["always"] = True
        drain = values["drain_host"]
        options = {"timeout": observe_timeout, "ports": drain["ports"] or [], "resource_name": values["resource_name"]}
        if values["resource_name"]:
            options["ask_name"] = True
        if check_mode:
            options["before"] = _entries(drain["steps"])
        turns[name] = [{"name": f"look at {name}", "options": {**options, "ask": ask, "marks": _marks(drain["steps"])}}]
    looks = machine_looks([(name, balancer) for name, values in settings.items() for balancer in values["load_balancers"]])
    return _spread(looks, turns, list(settings))


def next_turns(
    decided: Decided,
    decisions: dict[str, Decision],
    acts: dict[str, Acts],
    expected: dict[str, list[str]],
    doubtful: set[str],
    end: float,
) -> Turns:
    """The turns of each host in the next pass.

    C(acts): the acts of each host that takes its step without a role (see C(acts.py)). C(expected): per host the ids of its events that are not over.
    C(doubtful): hosts whose event was missing once.
    """
    observed = decided.observed
    hosts = [host for host in observed.hosts.values() if not host.observation.left]
    groups = _group(decided, decisions, doubtful)
    pause = _pause(decided, decisions, end, groups)
    balancers = [(host.name, balancer) for host in observed.hosts.values() for balancer in host.settings.load_balancers]
    waits = {name: _quiet_left(observed.hosts[name], decided.drains[name], observed.now) for name in groups.draining}
    long_wait = pause if _is_long_drain(decisions, groups, observed) else 0.0
    # Nobody waits longer than the host that is nearest to being idle.
    limit = min([waits[name] + READINGS for name in groups.draining if decided.needs_second_look(observed.hosts[name])], default=math.inf)

    def drain_wait(quiet: float) -> float:
        """Seconds for which a look waits until a host serves nobody. C(quiet): seconds without a request that must pass.

        If a host goes out only in this pass, others may look before that.
        """
        return min(limit, max(DRAIN, quiet + READINGS, long_wait) + (DRAIN if groups.leaving else 0.0))

    def searched(name: str, key: str) -> list[str]:
        return observed.addresses.searched(observed.hosts[name], observed.document.machines[key].result)

    results = {key: machine.result for key, machine in observed.document.machines.items()}
    looks = machine_looks(balancers, waits, searched, drain_wait)
    for look in looks:
        if results.get(look["key"], {}).get("ended"):
            look["options"].update(at_once(look)["options"])  # otherwise news could end it again and again
    hang = {key for key, result in results.items() if _is_spared(result.get("began"), result.get("cut_off", 0.0), observed)}
    due = [look for look in looks if look["key"] not in hang]
    left_out = _left_out(observed, groups)
    turns: Turns = {name: [] for name in observed.hosts}
    for host in hosts:
        if host.name not in left_out:
            turns[host.name] = _host_turns(
                host, decided, groups, long_wait if groups.in_hand else pause, waits.get(host.name, 0.0), drain_wait, expected[host.name]
            )
    turns = with_acts(turns, acts, observed, {look["key"]: look for look in looks})
    # Who acts on a balancer looks at it then.
    seen = {turn["key"] for mine in turns.values() for turn in mine if "key" in turn}
    return _spread([look for look in due if look["options"]["timeout"] or look["key"] not in seen], turns, [host.name for host in hosts])


def _quiet_left(host: Host, drain: Drain, now: float) -> float:
    """Seconds without a new request that a look at the balancers must wait for. The next count of the requests also tells of the time since the last one."""
    counted = [place.count.at for place in host.places if place.count and place.count.at is not None]
    since = max(0.0, now - max(counted)) if counted else 0.0
    return max(0.0, min(drain.quiet_left - since, QUIET_SEEN))


def _is_long_drain(decisions: dict[str, Decision], groups: _Groups, observed: Observed) -> bool:
    """Whether all that goes on is a drain that has lasted for long. In several waves, nobody waits."""
    begun = [decisions[name]["since"] for name in groups.draining]
    is_long = bool(begun) and all(since is not None and observed.now - since >= LONG_DRAIN for since in begun)
    return is_long and observed.waves == 1 and not (groups.news or groups.quick or groups.ready or groups.leaving)


class _Groups(NamedTuple):
    """Names of hosts, by what the next pass has to do with them."""

    news: bool  # whether a new event may name hosts that were last read before it appeared
    concerned: set[str]  # an event names the host, or something is held on it
    draining: set[str]  # the look waits until the host serves nobody any more
    leaving: set[str]  # the draining hosts that go out in this very pass
    quick: set[str]  # the next step should follow at once
    ready: set[str]  # an event of the host may be approved soon, so it is looked at at once

    @property
    def in_hand(self) -> bool:
        """Whether something goes on, so that no look waits for news."""
        return bool(self.news or self.quick or self.draining)


def _group(decided: Decided, decisions: dict[str, Decision], doubtful: set[str]) -> _Groups:
    observed = decided.observed
    roles = {name: (decision["step"] or {}).get("role") for name, decision in decisions.items()}
    states = {name: decision["state"] for name, decision in decisions.items()}
    concerned = {host.name for host in observed.hosts.values() if host.events or host.held_ids}
    leaving = {name for name in concerned if roles[name] == "load_balancer"}
    uncounted = {host.name for host in observed.hosts.values() if host.not_counted_yet}
    return _Groups(
        news=any(
            event.first_seen == observed.now and (event.strangers or any(name not in event.shown_by for name in event.members))
            for event in observed.events.values()
        ),
        concerned=concerned,
        draining={name for name in concerned - uncounted if states[name] == "draining"} | leaving,
        leaving=leaving,
        quick={name for name in states if _is_quick(roles[name], states[name])} | doubtful | uncounted,
        ready={name for name in concerned if states[name] == "ready" and roles[name] != "approve_event" and _may_be_approved(decided, name)},
    )


def _may_be_approved(decided: Decided, name: str) -> bool:
    """Whether we may approve an event of this host as soon as something else has come about."""
    verdicts = [decided.approvals[event.key] for event in decided.observed.hosts[name].events if event.key in decided.approvals]
    return any(not verdict.about(*NEVER) for verdict in verdicts)


def _left_out(observed: Observed, groups: _Groups) -> set[str]:
    """The hosts that are not looked at while something goes on in which they have no part. Their own event may be one that no other VM shows, so none
    of them is left out for long."""
    if groups.news or not groups.in_hand:
        return set()
    part = groups.quick | groups.draining | groups.ready
    looks = {host.name: host.observation for host in observed.hosts.values() if host.name not in part and not host.observation.left}
    seen = {name: _seen(look, observed.now) for name, look in looks.items()}
    dear = {name for name, look in looks.items() if (look.by_module or look.is_silent) and observed.now - seen[name] < PAUSE}
    # Beyond one round of all forks, each host would delay those that have a part.
    others = sorted(seen.keys() - groups.concerned, key=seen.__getitem__)
    beyond = others[max(1, observed.run.forks - len(part | groups.concerned)) :] if observed.waves > 1 else []
    return {*dear, *(name for name in beyond if observed.now - seen[name] < FRESH)}


def _seen(look: HostObservation, now: float) -> float:
    """When the host would last have told news of its own. A look that news of another host have ended had none until then."""
    at = max(look.at or 0.0, look.watched or 0.0)
    return at if at <= now else 0.0  # the clock was set back, so nobody knows when


def _host_turns(
    host: Host,
    decided: Decided,
    groups: _Groups,
    pause: float,
    quiet: float,
    drain_wait: Callable[[float], float],
    expected: list[str],
) -> list[Turn]:
    """The turn in which a host is looked at; none if it need not be looked at.

    C(pause): seconds for which it waits for news if it is not drained. C(quiet): seconds without a request that must pass at its balancers.
    """
    observed, name = decided.observed, host.name
    if _is_spared(host.observation.began, host.observation.cut_off, observed):
        return [{"name": f"leave {name} alone", "pause": observed.run.sleep}]
    more: dict[str, Any] = {"known": host.observation.fingerprint, "wait": 0.0, "expected": expected, "ask": _ask(host, decided)}
    if name in groups.draining:
        # Several waves would wait one after the other, so then nobody waits.
        more["wait"] = drain_wait(quiet) if observed.waves == 1 else 0.0
        # A look at a balancer waits so long beside it. In the last second, the metadata service need not be read again.
        at_least = max(0.0, quiet - 1.0) if any(place.looks is not None for place in host.places) else 0.0
        more.update(await_idle=bool(host.ports), at_least=at_least, **idle_options(host))
    elif name not in groups.ready and host.observation.reached:
        # A look that cannot reach the host does not wait there.
        more["wait"] = pause
    if host.observation.ended:
        more["wait"] = 0.0  # otherwise news could end it again and again
    if _looks_at_steps(host, decided):
        drain = host.settings.drain_host
        if _is_leaving(host, decided):
            more.update(duties=_entries(drain.first), later=_entries(step for step in drain.steps if step not in drain.first))
        else:
            more["duties"] = _entries(drain.steps)
    if observed.run.check:
        more["before"] = _entries(host.settings.drain_host.steps)
    if _looks_for_marks(host):
        more["marks"] = _marks(host.settings.drain_host.steps)
    more["shown_in"] = {event.event_id: event.shown_in[name] for event in observed.events.values() if event.event_id in expected and name in event.shown_in}
    turn = look_at(host, observed.run.observe_timeout, **more)
    standing = [event for event in observed.events.values() if event.standing]
    turn["shown"] = {event.event_id: event.resources for event in standing if name in event.shown_by}
    turn["not_shown"] = [event.event_id for event in standing if name not in event.shown_by and event.bears_name_of(host)]
    return [turn]


def idle_options(host: Host) -> Options:
    """Whose connections a look at the host leaves aside while it waits until nobody is connected, and whose it tells apart."""
    pools = [pool for place in host.places for pool in place.pools]
    known = sorted({pool.address for pool in pools})
    # While more come from there than the balancer has, the look waits for their end.
    others = {connection["peer"] for connection in not_in_pools(host.observation.connections or (), pools)}
    return {"told_apart": known, "ignored_peers": [peer for peer in known if peer not in others], "heard": sorted(host.heard)}


def without(turn: Turn, part: str) -> Turn:
    """A turn without its C(acts), or without the C(options) of its look."""
    return {key: value for key, value in turn.items() if key != part}


def with_acts(turns: Turns, acts: dict[str, Acts], observed: Observed, looks: Mapping[str, Turn]) -> Turns:
    """The turns of each host with its acts before its looks. Its last acts on itself share one turn with the look at it. A balancer is looked at after each act
    there. C(looks): the looks at balancers, by their keys."""
    turns = dict(turns)
    for name, found in acts.items():
        balancers = observed.hosts[name].settings.load_balancers
        mine: list[Turn] = []
        for machine, todo in found:
            if not todo:
                continue
            turn: Turn = {
                **({"machine": machine} if machine else {}),
                "name": _what(name, machine, todo),
                "acts": todo,
                "balancers": balancers,
            }
            if any(act["part"] == "seen" for act in todo):
                turn["asks"] = True
            key = _key_at(machine, name, balancers[todo[-1]["balancer"]]) if machine and "balancer" in todo[-1] else None
            mine.append({**at_once(looks[key]), **turn} if key and key in looks else turn)
        look = next((turn for turn in turns[name] if "options" in turn), None)
        if look and mine and "machine" not in mine[-1]:
            mine[-1] = dict(look, **mine[-1])
            look = None
        turns[name] = [*mine, *(turn for turn in turns[name] if turn is look or "options" not in turn)]
    return turns


def _what(name: str, machine: str | None, todo: Sequence[Json]) -> str:
    """What these acts do for a host, as people see it."""
    parts, states = {act["part"] for act in todo}, {act["args"].get("state") for act in todo}
    if "seen" in parts:
        return f"read the events for {name} on {machine}"
    if "sent" in parts:
        return f"approve for {name}"
    if parts == {"answer"}:
        return f"ask whether {name} answers"
    if parts <= NOTES:
        return f"update the records on {name}"
    back = "absent" in states or parts & {"answer", *NOTES}
    if machine and machine != name:
        return f"put {name} back on {machine}" if back else f"take {name} out on {machine}"
    # Duties of several kinds are several turns of the same host.
    kinds = ", ".join(dict.fromkeys(THINGS[act["module"]] for act in todo if act["module"] in THINGS))
    which = f" ({kinds})" if kinds else ""
    return f"put {name} back on duty{which}" if back else f"take {name} off duty{which}"


def _key_at(machine: str, name: str, balancer: BalancerSettings) -> str | None:
    """The key of the look at one balancer of a host on one of its machines."""
    return next((look["key"] for look in machine_looks([(name, balancer)]) if look["machine"] == machine), None)


def at_once(look: Turn) -> Turn:
    """A look at a balancer that waits for nothing."""
    return dict(look, options=dict(look["options"], wait_for=[], timeout=0.0))


def look_at(host: Host, timeout: float, **more: Any) -> Turn:
    """The turn in which a host is looked at. C(timeout): seconds that its metadata service may take. C(more): other options of the look, and C(ports) if they
    are not the host's (C(module_utils/_host_look.py))."""
    known = host.settings.resource_name or host.observation.resource_name
    options = {"timeout": timeout, "ports": host.ports, "resource_name": known, **more}
    if host.settings.resource_name and (host.told_name is None or not host.told_name and host.observation.events):
        # It may be that of another VM. Who did not tell it is asked again once there is an event, of whomever.
        options["ask_name"] = True
    return {"name": f"look at {host.name}", "options": options, "read_at": host.observation.at}


def _marks(steps: Iterable[DrainStep]) -> list[Options]:
    """What a look needs to find what bears our name in the clusters of a host."""
    return _entries(step for step in steps if ON_HOST[step["type"]].bears_name)


def _entries(steps: Iterable[DrainStep]) -> list[Options]:
    """The duties that are taken off, as a look at the host needs them."""
    return [entry for group in groups_out(steps) for entry in ON_HOST[group["type"]].looks(group)]


def _looks_for_marks(host: Host) -> bool:
    """Whether the next look asks the host's clusters for what bears our name and has no record.

    A run does so in its first look, and goes on while there is such a thing. A host that comes back from an impact may have lost its records with its disk.
    """
    records = host.observation.holds or ()
    if not host.observation.reached or any(record.marked for record in records):
        return True
    return any(event.started for event in host.events) and not any(record.kind == CLUSTER for record in records)


def _looks_at_steps(host: Host, decided: Decided) -> bool:
    """Whether the next look tells if the drain steps are still done: they were taken, or are being taken, for an event whose impact is still to come."""
    coming = _coming(host)
    step = decided.step(host)
    is_taken = step is not None and step.role == "drain_host" and step.variables["idle"]
    return bool(host.settings.drain_host.out and coming) and (is_taken or _is_leaving(host, decided) or bool(coming & host.drained))


def _coming(host: Host) -> set[str]:
    """The events for which the host is prepared, and whose impact is still to come."""
    return {event.key for event in host.events if event.prepares and not event.started}


def _is_leaving(host: Host, decided: Decided) -> bool:
    """Whether the host is off, or goes off, only what stands before its balancers."""
    step = decided.step(host)
    if step is not None and step.role == "drain_host":
        return bool(step.variables["first"])
    coming = _coming(host)
    return bool(host.settings.drain_host.first) and bool(coming & host.task_holds(READY_TO_LEAVE)) and not coming & host.drained


def _ask(host: Host, decided: Decided) -> Options:
    """What the host is asked. A host that is held does not serve, so its answer means nothing before its event is over.

    But the user's own way out may make the answer fail, and then nothing would bring the host back.
    """
    ask = dict(host.settings.restore_service.ask or {})
    step = decided.step(host)
    if ask and decided.observed.run.check:
        # As in the first look. What the last look tells is what counts.
        return dict(ask, always=True)
    if ask and may_fail_by_us(host) and not (step and step.role == "approve_event"):
        return dict(ask, held=True)
    if not ask or step:
        return {}
    if not host.held_ids:
        if host.answer is not None and not host.traffic.serves and not host.in_rotation:
            # Somebody else keeps it out, so it may as well not answer. Where its new connections are counted, each question would be one of them.
            return {}
        # The hosts beside it stay in service if it does not answer, and its balancer does not tell.
        is_unchecked = any(place.group and place.health != BALANCER for place in host.places)
        is_any = any(event.standing for event in decided.observed.events.values())
        return dict(ask, always=True) if is_unchecked and is_any else ask
    return dict(ask, back=True) if any(event.started for event in decided.observed.events_of(host)) else {}


def known_events(observed: Observed) -> list[list[str]]:
    """The events that are no news for a look, as pairs of id and status. A service that lags behind may still show a started event as Scheduled."""
    return [[event.key, status] for event in observed.events.values() for status in ("Scheduled", "Started") if status == "Scheduled" or event.started]


def _is_spared(began: float | None, cut_off: float, observed: Observed) -> bool:
    """Whether a machine is not looked at because the last look at it was cut off. So it delays every second pass at most. A run of one step has few."""
    return began is not None and 0 <= observed.now - began < 2 * cut_off and observed.run.wait


def _is_quick(role: str | None, state: str) -> bool:
    """Whether the next step for a host should follow at once."""
    return role in ("load_balancer", "drain_host", "restore_service") or (role is None and state == "restoring")


def _pause(decided: Decided, decisions: dict[str, Decision], end: float, groups: _Groups) -> float:
    """Seconds until the clock demands something, at most IDLE or PAUSE. 0 if the user has set a longer time between passes."""
    observed = decided.observed
    hosts = observed.hosts.values()
    if observed.run.sleep > Run.sleep or any(host.fatal for host in hosts):
        return 0.0
    # After PATIENCE a run gives up what it cannot read, so this is no reason to look often any more.
    troubles = [since for host in hosts for since in (host.silent_since, host.blind_since) if since is not None]
    is_troubled = any(observed.now - since < PATIENCE for since in troubles)
    # In several waves, all wait one after the other.
    longest = PAUSE if groups.concerned or is_troubled or observed.waves > 1 else IDLE
    if observed.run.task_timeout:
        longest = min(longest, max(0.0, observed.run.task_timeout - TIME_LIMIT_RESERVE))
    moments = [end, *(decision["until"] for decision in decisions.values()), *(wait.until for wait in decided.waiting.values())]
    moments.extend(moment for host in hosts for event in host.events for moment in (event.deadline, event.not_before_at))
    return min([longest, *(moment - observed.now for moment in moments if moment is not None and moment > observed.now)]) / observed.waves


def machine_looks(
    balancers: Sequence[tuple[str, BalancerSettings]],
    waits: Mapping[str, float] | None = None,
    searched: SearchedAt = lambda name, key: [],
    drain_wait: Callable[[float], float] = lambda quiet: 0.0,
) -> list[Turn]:
    """The turns that look at machines, one for each HAProxy or other balancer there.

    C(balancers): pairs of a host and the settings of one of its balancers. C(waits): the hosts whose last requests a look waits for, with the seconds
    without a request that must pass. C(drain_wait): how long such a look waits, from these seconds.
    """
    turns = []
    for provider in TRAFFIC.values():
        mine = [(name, settings) for name, settings in balancers if settings["provider"] == provider.name]
        for found in provider.looks(mine, waits or {}, searched):
            timeout = drain_wait(found.quiet) if found.wait_for else 0.0
            options = dict(found.options, wait_for=found.wait_for, quiet=found.quiet, timeout=timeout)
            turn = {
                "machine": found.machine,
                "key": found.key,
                "name": f"look at the {provider.things} of {found.machine}" if provider.things else f"look at {provider.name} on {found.machine}",
                "provider": provider.name,
                "module": found.module,
            }
            turns.append(dict(turn, options=options))
    return turns


def _spread(looks: Sequence[Turn], turns: Turns, lookers: list[str]) -> Turns:
    """Divide the looks at machines among the hosts. Hosts that have no act and do not wait come first.

    A look never delays the acts of its host, and a look that waits comes last.
    """
    turns = {name: list(mine) for name, mine in turns.items()}
    idle = [name for name in lookers if not any("acts" in turn for turn in turns[name])] or lookers
    free = [name for name in idle if not any("options" in turn and turn["options"].get("wait") for turn in turns[name])] or idle
    given = dict.fromkeys(lookers, 0)
    for look in looks if lookers else ():
        waits = look["options"]["timeout"] > 0
        able = free if waits else idle
        # What is at a host itself is mostly looked at by that host.
        name = look["machine"] if look["machine"] in able else min(able, key=given.__getitem__)
        given[name] += 1
        is_first = not waits and not any("acts" in turn for turn in turns[name])
        turns[name].insert(0 if is_first else len(turns[name]), look)
    return turns
