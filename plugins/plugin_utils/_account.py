# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a pass says of each host and event, and whether the run is over. Private to the collection; pure."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.plugin_utils._pace import QUIET_SEEN, next_pace
from ansible_collections.graceful.azure.plugins.plugin_utils._words import unanswered
from ansible_collections.graceful.azure.plugins.plugin_utils._world import LAG

PATIENCE_FATAL = 10.0
"""Seconds for which a mistake must stand before a run gives up on that host."""
PATIENCE = 30.0
"""Seconds for which anything else that only a person can mend must stand."""
QUIET_PATIENCE = 30.0
"""Seconds beyond twice C(load_balancer_quiet) after which a run that takes one step no longer waits for that time."""
DELETED = ("Preempt", "Terminate")
"""Event types after which the VM is not expected back."""


def _wait_for_quiet(settings):
    """Seconds after which a run that takes one step no longer waits until no session has come for a while."""
    return 2 * settings["load_balancer"].get("quiet", 0.0) + QUIET_PATIENCE


def longest_wait_for_quiet(settings):
    """The same for all hosts together. C(settings): per host."""
    return max(map(_wait_for_quiet, settings.values()), default=0.0)


class Account:
    """The words for what C(world) shows and C(plan) decided."""

    def __init__(self, world, plan):
        self.world = world
        self.plan = plan

    def outcome(self):
        """What the pass says: decisions, results, whether the run ends and how, and what the next pass must remember."""
        world = self.world
        states = {}
        for host in world.hosts.values():
            for event in self._events_of(host):
                state, reason, until = self._state(host, event)
                if event.key in host.held_ids:
                    reason = "; ".join([reason, *host.notes])
                states[host.name, event.key] = state, reason, until
        self._note_gone()
        listed = [event for event in world.events.values() if event.facts.get("hosts")]
        listed.sort(key=lambda event: (event.first_seen, event.key))
        results = [self._result(event, states) for event in listed]
        found = any(event.action != "ignore" and not self._left_behind(event) for event in listed)
        if found and world.memory["first_found"] is None:
            world.memory["first_found"] = world.now
        left = [event for event in listed if not self._over(event, states)]
        patient = [self._patient(host) for host in world.hosts.values()]
        helpless = all(host.fatal for host in world.hosts.values())
        undecided = any(map(world.may_mean, world.events.values()))
        nothing_left = not left and not undecided and all(patient) and (found or helpless or not world.run["watch"])
        messages = self._messages(results, left)
        look_again = world.run.get("look_twice", False) and self._looks_again()
        decisions = {host.name: self._decision(host, states) for host in world.hosts.values()}
        expected = {host.name: [event.event_id for event in self._events_of(host) if not self._gone(event)] for host in world.hosts.values()}
        doubtful = {host.name for host in world.hosts.values() if self._absent_once(host)}
        pace, looks = next_pace(world, decisions, expected, doubtful)
        return {
            "hosts": decisions,
            "pace": pace,
            "looks": looks,
            "unread": {host.name: self._why_unread(host) for host in world.hosts.values() if not host.observed},
            "events": results,
            "finished": (not world.run["wait"] and not look_again) or nothing_left or world.time_is_over,
            "once_more": not world.run["wait"] and not world.time_is_over and all(map(self._may_try_again, world.hosts.values())),
            "failed_run": bool(messages),
            "warnings": self._warnings(),
            "messages": messages,
            "memory": dict(
                world.memory,
                events={event.key: event.facts for event in world.events.values()},
                hosts={host.name: host.memory for host in world.hosts.values()},
            ),
        }

    def _may_try_again(self, host):
        """Whether a run that takes one step takes it again where it fails: what fails for so long needs a person."""
        return self._failing_for(host, host.events) < PATIENCE

    def _failing_for(self, host, events):
        """Seconds for which the host's steps have failed, or the approvals of one of these events, whoever tried."""
        since = [host.memory.get("failing_since"), *(event.facts.get("refused_since") for event in events)]
        return max((self.world.now - moment for moment in since if moment is not None), default=0.0)

    def _looks_again(self):
        """Whether a run that takes one step needs another look for any host.

        A host that was not restored in its time may be by the step of this pass, which may be the second where an event is over.
        """
        hosts = self.world.hosts.values()
        if self.world.number <= 2 and any(map(self._is_late_and_tried, hosts)):
            return True
        if self.world.number == 1 and any(map(self._second_look, hosts)):
            return True
        return any(map(self._needs_time, hosts))

    def _needs_time(self, host):
        """Whether an idle host lacks nothing but time in which no session comes, or no HAProxy runs. The next run would begin to count anew."""
        in_hand = [event for event in host.events if event.prepares and not event.started and event.key not in host.waiting]
        if host.busy or host.name not in self.plan.too_early or all(event.facts.get("approved_at") is not None for event in in_hand):
            return False
        if self.world.now - self.world.run["started"] >= _wait_for_quiet(host.settings):
            return False
        # This step waits for that time, too, as long as a look does.
        too_short = host.step is not None and host.step["role"] == "drain_host" and host.quiet_left() > QUIET_SEEN
        return too_short or self.plan.looks_once(host)

    def _is_late_and_tried(self, host):
        since = host.memory.get("restoring_since")
        return since is not None and bool(host.step) and self.world.now - since >= host.settings["restore_service"]["timeout"]

    def _second_look(self, host):
        """Whether the host needs a second look: an idle host is drained, and an event is over, after two looks; what cannot be read may be restarting."""
        if host.memory.get("restoring_since") is not None and host.step:
            return False
        return self.plan.looks_once(host) or bool(host.blind) or self._unread(host) or self._is_lost(host) or self._absent_once(host)

    def _absent_once(self, host):
        """Whether an event of the host was seen to be gone once, so that the next look may end it."""
        over = [event for event in self._events_of(host) if not event.standing and event.key in host.memory["absent"]]
        return any(not self._gone(event) and not self.world.is_over_for(event, host) for event in over)

    def _messages(self, results, left):
        """Why the run, if it ended now, would be a failure: sentences, each once."""
        world = self.world
        messages = list(world.messages)
        if world.time_is_over:
            limit = f"handle_events_timeout ({world.run['timeout']:g} s)"
            messages.extend(f"{e.label}: not over when {limit} ran out{self._waited_for(e, results)}" for e in left if not self._next_act_is_later(e))
        told = {}
        for host in world.hosts.values():
            for sentence in host.fatal:
                told.setdefault(sentence, []).append(host.name)
        # One mistake in the settings of a group is one mistake.
        messages.extend(f"{', '.join(names)}: {sentence}" for sentence, names in told.items())
        for host in world.hosts.values():
            given_up = self._patient(host) or world.time_is_over or not world.run["wait"]
            if given_up and not host.fatal:
                messages.extend(f"{host.name}: {sentence}" for sentence in host.blind)
            if given_up and self._unread(host):
                messages.append(f"{host.name}: its metadata service cannot be read: {host.seen.get('error')}")
            if given_up and self._is_lost(host):
                messages.append(
                    f"{host.name}: it cannot be reached, and no event is known that names it, so nobody watches it: {self._why_unread(host)}."
                    " Mend it, leave it out of the target, or set graceful_azure_may_be_off for it"
                )
        if world.run.get("check"):
            # In check mode a host is asked even where no event names it, or its event has time.
            messages.extend(f"{host.name}: {unanswered(host)}" for host in world.hosts.values() if host.refuses_unanswered)
        hosts = world.hosts.values()
        if not any(host.seen.get("reached") for host in hosts) and not all(host.settings.get("may_be_off") for host in hosts):
            messages.append("none of the targets could be reached")
        for entry in results:
            messages.extend(f"{name}: {said['reason']}" for name, said in entry["hosts"].items() if said["state"] == "needs_person")
        return list(dict.fromkeys(messages))

    def _warnings(self):
        """What a person should know and what stops nothing, each once in a run."""
        warnings = []
        for host in self.world.hosts.values():
            if host.unanswered and not host.refuses_unanswered and host.events and not host.memory.get("warned_unanswered"):
                host.memory["warned_unanswered"] = True
                warnings.append(f"{host.name}: {unanswered(host)}")
            unchecked = self._unchecked(host)
            if unchecked and not host.memory.get("warned_unchecked"):
                host.memory["warned_unchecked"] = True
                warnings.append(
                    f"{host.name}: nothing tells whether it serves again after the event: HAProxy has no health check of"
                    f" {', '.join(unchecked)}, and neither restore_service_url nor restore_service_port is set."
                    " It gets requests as soon as the event is over"
                )
        return warnings

    @staticmethod
    def _unchecked(host):
        """Its servers that come back unchecked, where an event is about to take the host out."""
        if host.settings["restore_service"].get("ask", True) or not any(event.prepares for event in host.events):
            return []
        # A look by an older release of the modules does not tell.
        return [f"{server['backend']}/{server['server']} on {server['machine']}" for server in host.servers if not server.get("checked", True)]

    def _unnamed(self, host):
        """What is told of a host whose service shows no event that names it."""
        doubtful = [event for event in self.world.events.values() if host in self.world.may_mean(event)]
        if not doubtful:
            return "no event names it"
        return (
            f"{doubtful[0].label} bears its name at {', '.join(doubtful[0].shown_by)}; if its own metadata service does not show it within {LAG:g} s,"
            " another VM of that name is meant"
        )

    @staticmethod
    def _waited_for(event, results):
        """Which hosts are not through with an event, and why."""
        (hosts,) = [entry["hosts"] for entry in results if entry["event_id"] == event.event_id]
        waited = [f"{name}: {said['state']}: {said['reason']}" for name, said in hosts.items() if said["state"] not in ("in_service", "restored")]
        return f" ({'; '.join(waited)})" if waited else ""

    @staticmethod
    def _unread(host):
        """Whether the host answers and its metadata service does not."""
        return bool(host.seen.get("reached")) and not host.observed and not host.fatal

    def _is_lost(self, host):
        """Whether nobody can tell of the host: it cannot be reached, may not be off, and no event is known that names it."""
        if host.seen.get("reached") or host.fatal or host.settings.get("may_be_off"):
            return False
        return not self._events_of(host)

    @staticmethod
    def _why_unread(host):
        return "; ".join(host.fatal) or host.seen.get("error") or "not observed"

    def _patient(self, host):
        """Whether what is wrong with the host, if anything, has stood for so long that waiting is no use."""
        now = self.world.now
        if not host.fatal:
            host.memory.pop("fatal_since", None)
            if host.blind and now - host.memory["blind_since"] < PATIENCE:
                return False
            if not self._unread(host) and not self._is_lost(host):
                return True
            return self._silent_for(host) >= (PATIENCE if host.seen.get("passing", True) else PATIENCE_FATAL)
        since = host.memory.setdefault("fatal_since", now)
        # A balancer that is being restarted looks like one that was set up wrong.
        limit = PATIENCE if host.blind else PATIENCE_FATAL
        nothing_at_stake = host.observed and not host.seen["events"] and host.seen.get("holds") is not None and not host.held_ids
        return now - since >= limit or nothing_at_stake

    def _events_of(self, host):
        return [event for event in self.world.events.values() if host.name in event.facts.get("hosts", ())]

    def _note_gone(self):
        for event in self.world.events.values():
            if event.standing:
                event.facts.pop("gone_at", None)
                event.facts.pop("given_back", None)
            elif self._gone(event):
                event.facts.setdefault("gone_at", self.world.now)

    def _gone(self, event):
        """Whether the event is known to be over: a host that it names was read twice without it, or none of them is expected back."""
        if event.standing:
            return False
        if any(self.world.is_over_for(event, host) for host in self._witnesses(event)):
            return True
        return all(self._is_lost_to(event, self.world.hosts[name]) for name in event.members)

    def _is_lost_to(self, event, host):
        """Whether nothing more is to be expected from the host for the event: its VM was deleted, or its service tells that the event is over."""
        return self._deleted(host) and self._silent_for(host) >= PATIENCE or self.world.is_over_for(event, host)

    def _witnesses(self, event):
        """The hosts whose services tell whether the event is over: those that have shown it, as long as any of these can be asked, and no namesake."""
        hosts = [self.world.hosts[name] for name in event.members]
        confirmed = [host for host in hosts if host.name in event.facts.get("confirmed", ()) and self._silent_for(host) < PATIENCE and not host.fatal]
        return confirmed or [host for host in hosts if host.name not in event.namesakes] or hosts

    def _deleted(self, host):
        """Whether an event that deletes the host's VM has had its time."""
        return any(event.event_type in DELETED and not event.standing and self._has_started(event) for event in self._events_of(host))

    def _has_started(self, event):
        # A hold without a NotBefore was put when the event had started.
        recalled_started = event.facts.get("recalled") and event.not_before_at is None
        return event.facts.get("seen_started") or event.facts.get("approved_at") or recalled_started or self._past_not_before(event)

    def _left_behind(self, event):
        """Whether nothing but the holds for VMs that were deleted is left of the event: no reason for a run that watches to end."""
        hosts = [self.world.hosts[name] for name in event.members]
        silent = not any(host.seen.get("reached") for host in hosts)
        deleted = event.event_type in DELETED or all(map(self._deleted, hosts))
        return not event.standing and event.facts.get("recalled", False) and deleted and silent

    def _past_not_before(self, event):
        return event.not_before_at is not None and self.world.now >= event.not_before_at

    def _silent_for(self, host):
        return self.world.now - host.memory.get("silent_since", self.world.now)

    def _state(self, host, event):
        """State, reason and, where one is known, until when, of one host in one event."""
        if event.ignored and event.key not in host.held_ids and not host.fatal:
            return "in_service", f"rule {event.rule['name']!r}: left alone", None
        if host.fatal:
            return "needs_person", "; ".join(host.fatal), None
        if event.ignored or not event.standing:
            return self._state_after(host, event)
        if host.name not in event.members:
            return self._state_of_namesake(host, event)
        if host.conflicts and event.prepares and host.in_rotation and event.key in host.held_ids:
            return "needs_person", "; ".join(host.conflicts), event.deadline
        if host.blind and event.prepares:
            return "needs_person", "; ".join(host.blind), event.deadline
        if (host.name, event.key) in self.plan.unanswered:
            return ("needs_person", *host.waiting[event.key])
        failure = host.memory.get("failure")
        if failure and self._failing_for(host, [event]) >= PATIENCE:
            return "needs_person", failure, event.deadline
        failed = f" (last step failed: {failure})" if failure else ""
        if event.started:
            return "started", self._prepared_so_far(host, event) + failed, None
        if not host.seen.get("reached", True):
            return "unobserved", host.busy, event.deadline
        if event.facts.get("approved_at") is not None:
            again = "is in rotation, although it is approved, and goes out again; " if event.prepares and host.in_rotation else ""
            return "approved", again + "waits for the start" + failed, event.not_before_at
        if event.key in host.waiting and not host.step:
            why, until = host.waiting[event.key]
            return "waiting", why + failed, until
        if not event.prepares:
            told = self._ready_reason(event) if self.plan.forbidden(event) else f"rule {event.rule['name']!r}: to be approved unprepared"
            return "waiting", told + failed, event.not_before_at
        if not self.plan.is_ready(host, event):
            return "draining", self._draining_reason(host, event) + failed, self._drain_until(host, event)
        return "ready", self._ready_reason(event) + failed, event.not_before_at

    def _state_of_namesake(self, host, event):
        """The same for a host that was taken for one that a standing event names, and whose own service does not show the event."""
        held = event.key in host.held_ids
        if not event.bears_name_of(host):
            return "unobserved" if held else "in_service", f"{event.label} no longer names it", None
        if host.name not in event.namesakes:
            told = f"its metadata service does not show {event.label}; if it still does not after {LAG:g} s, another VM of its name is meant"
            return "unobserved", told, None
        if held and not self.world.means_another(event, host):
            stays = "it is in rotation" if host.in_rotation else "as it is out, it stays out until the event is over"
            return "unobserved", f"its metadata service does not show {event.label}; {stays}", None
        return "restoring" if held else "in_service", f"{event.label} means another VM of its name", None

    def _state_after(self, host, event):
        """The same for an event that no longer stands, or of which nobody can tell."""
        silent = "silent: " + (host.seen.get("error") or "not observed")
        if not event.ignored and not self._gone(event) and not self.world.is_over_for(event, host):
            return "unobserved", self._absence(host, event) if host.observed else silent, None
        if event.key not in host.held_ids:
            if host.blind and event.prepares:
                until = self._blind_until(host, event)
                if self.world.now < until:
                    return "restoring", "; ".join(host.blind), until
                return "needs_person", "; ".join(host.blind), None
            was_held = host.name in event.facts.get("held", ())
            given_back = event.facts.setdefault("given_back", [])
            if host.name not in given_back:
                if host.seen.get("holds") is not None:
                    given_back.append(host.name)
                elif was_held or event.facts.get("recalled"):
                    return "unobserved", silent, None  # its own records cannot be read
            if not was_held:
                return "in_service", "; ".join(filter(None, ["was not taken out", self._maintenance(host)])), None
            return "restored", self._how_restored(host, event), None
        held = "; ".join(
            f"{s['backend']}/{s['server']} on {s['machine']} is out" for s in host.servers if s["condition"] in ("held", "lost")
        )
        if not host.observed:
            return "unobserved", "; ".join(part for part in (silent, held) if part), None
        if host.needed:
            return "restoring", "another event still names it", None
        since = host.memory.get("restoring_since", self.world.now)
        why = host.memory.get("failure") or host.memory.get("restoring") or held or "holds remain"
        limit = host.settings["restore_service"]["timeout"]
        # Somebody may have mended it before this run began.
        if host.memory.get("restoring") is not None and self.world.now - since >= limit:
            return "needs_person", f"not restored within {limit:g} s: {why}", None
        return "restoring", why, since + limit

    def _blind_until(self, host, event):
        """Until when a balancer that cannot be read is waited for after an event: one that was read while the host was held for it may hold it still."""
        since = host.memory["blind_since"]
        if not self._is_owed(host, event) or host.memory.get("held_since", {}).get(event.key, since) >= since:
            return since + PATIENCE
        return max(since, event.facts.get("gone_at", since)) + max(PATIENCE, host.settings["restore_service"]["timeout"])

    @staticmethod
    def _absence(host, event):
        """Why an event that the host's service does not show is not over yet."""
        if host.seen.get("empty_body"):
            return "its metadata service answered with an empty body, which ends no event that is held or still to come"
        if not host.observed_since(event.held_at):
            return f"held for {event.label} since it was last looked at"
        return "its metadata service no longer shows the event; it is brought back once a second look shows the same"

    @staticmethod
    def _maintenance(host):
        """Which servers of the host are out though nothing of ours holds them, and why: mostly an operator took them out."""
        out = [s for s in host.servers if s["admin_state"] != "ready" and s["condition"] in ("none", "already_out") and not s.get("owner")]
        places = {id(s): f"{s['backend']}/{s['server']} on {s['machine']}" for s in out}
        told = [f"{places[id(s)]} is in {s['admin_state']}" for s in out if not s.get("returns_by_itself")]
        said = [f"in an operator's maintenance ({', '.join(told)})"] if told else []
        said.extend(f"{places[id(s)]} serves again when its name resolves" for s in out if s.get("returns_by_itself"))
        return "; ".join(said)

    def _how_restored(self, host, event):
        told = event.facts.get("conflicts", {}).get(host.name)
        if not told:
            told = filter(None, ["back as it was found", self._maintenance(host)])
        return "; ".join(told)

    def _prepared_so_far(self, host, event):
        if event.prepares and host.busy and host.seen.get("reached", True):
            return host.busy
        if not host.seen.get("reached", True):
            return f"silent for {self._silent_for(host):.0f} s"
        return "out until the event is gone" if event.prepares else "the event has started"

    def _drain_until(self, host, event):
        since = self.plan.held_since(host, event)
        if since is None:
            return event.deadline
        ends = since + host.drain["timeout"]
        return ends if event.deadline is None else min(ends, event.deadline)

    def _draining_reason(self, host, event):
        if host.step and host.step["role"] == "load_balancer":
            return "is to go out of its balancer"
        until = self._drain_until(host, event)
        what = host.busy or ("services and tasks" if host.step else "idle, looked at once more")
        if until is not None and self.world.now >= until:
            return f"not drained in time ({event.rule['on_drain_timeout']}): {what}"
        return what

    def _ready_reason(self, event):
        if self.plan.forbidden(event):
            return f"not approved by us: {', '.join(event.strangers)} is none of the targets"
        if not event.asks_approval:
            return f"rule {event.rule['name']!r}: prepared, not approved"
        silent = [name for name in event.members if self.world.hosts[name].refuses_unanswered]
        if silent:
            return f"not approved by us: {', '.join(silent)} did not answer while in service, and may not come back"
        unready = [name for name in event.members if not self.plan.is_ready(self.world.hosts[name], event)]
        return f"waits for {', '.join(unready)}" if unready else self.plan.doubt(event) or "is being approved"

    def _decision(self, host, states):
        """The host's step, and what a person is told of it: the most pressing of its events."""
        mine = [(*states[host.name, event.key], event.label) for event in self._events_of(host)]
        order = ("needs_person", "draining", "unobserved", "waiting", "ready", "approved", "started", "restoring", "restored")
        if mine:
            state, reason, until, label = min(mine, key=lambda said: order.index(said[0]) if said[0] in order else len(order))
        else:
            until = label = None
            if host.fatal:
                state, reason = "needs_person", "; ".join(host.fatal)
            elif not host.observed:
                state, reason = "unobserved", host.seen.get("error") or "not observed"
            else:
                state, reason = "in_service", "; ".join(filter(None, [self._maintenance(host), self._unnamed(host)]))
                if host.foreign_ids:
                    reason += f"; held for {', '.join(map(repr, sorted(host.foreign_ids)))}, no event of Azure's: whoever holds it gives it back"
        if host.memory.get("state") != state:
            host.memory["state"], host.memory["state_since"] = state, self.world.now
        if not host.held_ids or host.needed:
            host.memory.pop("restoring_since", None)
        if host.step:
            host.memory["last_step"] = {key: host.step[key] for key in ("role", "state", "event_ids")}
        return {
            "step": host.step,
            "state": state,
            "reason": reason,
            "since": host.memory["state_since"],
            "until": until,
            "event": label,
            "events": [event.event_id for event in self._events_of(host) if event.standing],
        }

    def _result(self, event, states):
        named = event.facts["hosts"]
        return {
            "event_id": event.event_id,
            "event_type": event.event_type,
            "resources": event.resources,
            "outcome": self._outcome_of(event, states),
            "hosts": {name: {"state": states[name, event.key][0], "reason": states[name, event.key][1]} for name in named},
        }

    def _outcome_of(self, event, states):
        if event.standing or not self._gone(event) or not self._settled(event, states):
            return "in_progress"
        facts = event.facts
        approved = self._approved(event)
        untouched = not approved and not facts.get("seen_started")
        if untouched and event.not_before_at is not None and facts["gone_at"] < event.not_before_at:
            return "cancelled"
        if event.asks_approval and not approved:
            return "not_approved"
        return "completed"

    @staticmethod
    def _approved(event):
        """Whether we approved it. Of a run that was killed while it did nobody can tell; but an event that nobody approves starts at its NotBefore."""
        facts = event.facts
        if facts.get("approved_at") or "approving_until" not in facts:
            return bool(facts.get("approved_at"))
        over = facts.get("seen_started") or facts["gone_at"]
        return facts["approving_until"] is None or over < facts["approving_until"]

    def _settled(self, event, states):
        """Whether nothing is left to do for the hosts of an event that is over."""
        for name in event.facts["hosts"]:
            state = states[name, event.key][0]
            if state not in ("restored", "in_service", "needs_person", "unobserved") or self._may_be_mended(self.world.hosts[name], event):
                return False
            if state == "unobserved" and not self._deleted(self.world.hosts[name]):
                return False
        return True

    def _over(self, event, states):
        """Whether a run has nothing more to wait for in this event."""
        hosts = [self.world.hosts[name] for name in event.facts["hosts"]]
        if hosts and all(self._is_hopeless(host, event) for host in hosts):
            return True
        return (event.ignored or self._gone(event)) and self._settled(event, states)

    def _is_hopeless(self, host, event):
        """Whether nothing can be done for the host until a person has mended something, and nothing of it will have to be given back."""
        if self._is_owed(host, event) or (event.facts.get("approved_at") is not None and host.name not in event.facts.get("given_back", ())):
            return bool(host.seen.get("left"))
        if host.fatal:
            return True
        # With one balancer set up wrong the host still goes out of the others, once its event begins or the minimum allows.
        _why, until = host.waiting.get(event.key, (None, None))
        acts = host.step is not None or (event.key in host.waiting and (until is None or until <= self.world.end))
        return bool(host.blind and host.helpless and not acts) and self.world.now - host.memory["blind_since"] >= PATIENCE

    @staticmethod
    def _is_owed(host, event):
        """Whether something is held for the event and will have to be given back, as far as is known where it cannot be read now."""
        if event.key in host.held_ids:
            return True
        return not event.ignored and host.name in event.facts.get("held", ()) and host.name not in event.facts.get("given_back", ())

    def _may_be_mended(self, host, event):
        """Whether a host that cannot be given back because of a mistake still has time: what boots, or is restarted, looks like one set up wrong."""
        if not host.fatal or host.seen.get("left") or self._deleted(host) or not self._is_owed(host, event):
            return False
        return self.world.now - event.facts.get("gone_at", self.world.now) < host.settings["restore_service"]["timeout"]

    def _next_act_is_later(self, event):
        """Whether the next act for a standing event lies beyond this run's end."""
        if not event.standing or event.started:
            return False
        hosts = [self.world.hosts[name] for name in event.members]
        waiting = [host.waiting[event.key] for host in hosts if event.key in host.waiting]
        if waiting:
            return all(until is None or until > self.world.end for _why, until in waiting)
        stands_ready = all(self.plan.is_ready(host, event) for host in hosts) or (not event.prepares and self.plan.forbidden(event))
        if event.facts.get("approved_at") is None and stands_ready:
            return event.not_before_at is None or event.not_before_at > self.world.end
        return False
