# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A role that is used alone: one host takes the steps of a run, and here the user has decided which. Pure.

Acts, looks, what makes a host idle, and the words are those of the passes. A role is a row of passes, too: in each of them the host takes its turns,
and then C(one_pass) says what it does in the next one, or that the role has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ansible_collections.graceful.azure.plugins.module_utils._absence import is_over
from ansible_collections.graceful.azure.plugins.module_utils._duties.options import LOOKS
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import BEING_RESTORED, heard_in
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.groups import groups_out
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.acts import acts_of, as_act
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import Run, read_document
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.judgement import ONCE_MORE, judge_drain
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.memory import HostMemory, Memory, write_memory
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.observation import lost_duties, observe
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.status import UNTIL, unnoticed
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.steps import out_of
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.turns import (
    DRAIN,
    READINGS,
    TRIES,
    at_once,
    idle_options,
    look_at,
    machine_looks,
    with_acts,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._run import gather, sinks
from ansible_collections.graceful.azure.plugins.plugin_utils._steps import approve_event, drain_host, load_balancer, restore_service
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.events import deadline, details_of, events_of_hold, kept
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import NOTHING, RoleResult, is_changed, is_unreachable, together, too_slow
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.without_role import UNFINISHED
from ansible_collections.graceful.azure.plugins.plugin_utils._text import joined, plain
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Result, StepJson, Turn

PAUSE = 1.0
"""Seconds before something is tried, or asked, once more."""
READ = Run.observe_timeout
"""Seconds that an answer of the metadata service may take, if the role needs it."""
GLANCE = 1.0
"""The same if it does not."""
STEP = 1.0
"""Seconds that a single step of drain_host may take beyond those for which no request may come."""
LONGEST_PAUSE = 5.0
"""Seconds after which a host is looked at again, even if a longer time without requests must pass."""
LONGEST_WAIT = 10.0
"""The same while an approved event has not begun. News end the look."""
FIRST, EARLY, IDLE = "first", "early", "idle"
"""The stages in which drain_host takes duties out: before all that brings traffic, at once, and when the host is idle."""
START_IT = "start what should answer, then run it again"
"""What a person does about a host that stays out because it does not answer."""
STATES = {"drained": "draining", "running": "restoring", "in": "restoring", "out": "waiting"}
"""What the lines of a run call a host that waits, by what the role is to do."""
WAITS_UNTIL = "waits until"
"""What the time is where a role gives up, and a run would go on."""
ANY = ""
"""Stands for the id of any event that names the host."""
BY_HAND = "restore_service"
"""Stands for the events where a record must be put and nobody knows any."""
SETTINGS: Json = {"resource_name": None, "rules": [], "min_in_service": 1, "unknown_resources": "hold"}
"""What the plan reads and a role does not."""
NO_DRAIN: Json = {"ports": [], "timeout": 0.0, "steps": []}
NO_BALANCER: Json = {"provider": "none", "hosts": [], "server": "", "quiet": 0.0}


def begin(role: str, name: str, settings: Json, now: float, check: bool = False) -> Json:
    """What comes first. C(settings): what C(_settings.read_role) returned. C(now): the controller's clock."""
    used = dict(settings["used"])
    whole: Json = {**SETTINGS, "load_balancers": [NO_BALANCER], "drain_host": NO_DRAIN, "restore_service": {"timeout": 0.0}, **settings}
    whole.pop("used")
    run = {"started": now, "timeout": 0.0, "wait": bool(used["wait"]), "watch": False, "partial": True, "check": check}
    limit = used["timeout"] if "timeout" in used else whole[role]["timeout"]
    first: Json = {
        "role": role,
        "name": name,
        "used": used,
        "settings": whole,
        "run": dict(run, sleep=Run.sleep, observe_timeout=used.get("observe_timeout") or READ),
        # Like no number of another run in the same playbook.
        "number": int(now * 1000),
        "until": now + limit,
        "seen": {"hosts": {}, "balancers": {}},
        "memory": {},
        "step": None,
        "notes": {},
        "ran": [],
        "has_changed": False,
        "conflicts": [],
        "warned": [],
        "waiting": None,
        "told": {},
        "reached": False,
        "was_met": False,
        "result": dict(UNFINISHED),
    }
    return one_pass({}, first, now)


def refused(why: str) -> Json:
    """The end of a role whose settings are wrong."""
    return {"finished": True, "result": dict(UNFINISHED), "failure": why, "lines": []}


def one_pass(facts: Json, last: Json, now: float) -> Json:
    """How the role goes on after a pass. C(facts): the variables of the host. C(last): what the pass before returned.

    Returns what the next pass needs, among it C(turns) (of the host, as in a run), C(files) (which task file of the user's own is to run before that),
    C(pause) (seconds to wait before), C(warnings), C(lines) (for what the host waits, if that is news), C(finished), C(result) (of the role), and C(failure)
    (why it failed, or empty).
    """
    this = RolePass(facts, last, now)
    found = this.files_left() if last.get("files_left") is not None else this.end_if_failed() or this.end_if_slow() or this.file() or _ROLES[last["role"]](this)
    unchanged = {key: last[key] for key in ("role", "name", "used", "settings", "run", "until", "step", "notes", "ran", "result")}
    always = {
        "number": last["number"] + 1,
        "seen": this.seen,
        "memory": this.memory(),
        "has_changed": last["has_changed"] or any(map(is_changed, this.acts)),
        "conflicts": this.conflicts,
        "warned": [*last["warned"], *this.warnings()],
        "warnings": this.warnings(),
        "reached": this.reached,
        "was_met": this.was_met,
        "turns": {last["name"]: []},
        "files": {},
        "pause": 0.0,
        "finished": False,
        "failure": "",
    }
    after: Json = {**unchanged, **always, **found}
    after.update(this.lines(after["until"]))
    after["result"] = dict(after["result"], changed=after["has_changed"])
    if after["conflicts"]:
        after["result"]["conflicts"] = after["conflicts"]
    return after


class RolePass:
    """What is known of the host in a pass, and the ways to go on."""

    def __init__(self, facts: Json, last: Json, now: float) -> None:
        self.last, self.now, self.name = last, now, str(last["name"])
        self.used: Json = last["used"]
        self.notes: Json = dict(last["notes"])
        self.check = bool(last["run"]["check"])
        self.failure = facts.get("graceful_azure_failure") or {}
        known = {self.name: facts}
        self.acts = gather.acts_of(facts)
        self.seen = gather.observations(known, last["seen"])
        # Of other hosts nothing is known, so what leads to an address of this one may be theirs. The roles go by its name.
        own = {key: value for key, value in self.seen["hosts"][self.name].items() if key not in ("addresses", "network")}
        world = {"now": now, "pass": last["number"], "run": last["run"], "settings": {self.name: last["settings"]}, "memory": last["memory"]}
        world.update(hosts={self.name: own}, balancers=self.seen["balancers"])
        self.observed = observe(read_document(plain(world)))
        self.host = self.observed.hosts[self.name]
        # Also those of events that a person has made up.
        self.host.heard |= heard_in(own.get("holds") or (), self.host.ports)
        self.drain = judge_drain(self.host, now)
        self.step: StepJson | None = last["step"]
        self.result, self.trouble = self._judge()
        self.conflicts = list(dict.fromkeys([*last["conflicts"], *(self.result.get("conflicts") or ())]))
        # What could be reached once may be so again.
        self.reached = last["reached"] or bool(self.acts) and not any(map(is_unreachable, self.acts))
        self.was_met = last["was_met"] or bool(self.host.observation.reached)
        self.waits_for = ""

    def _judge(self) -> tuple[RoleResult, str]:
        """What the last step came to, and why it failed, or an empty text."""
        step, settings = self.step, self.last["settings"]
        if step is None:
            return dict(UNFINISHED), ""
        if self.failure.get("pass") == self.last["number"]:
            return dict(UNFINISHED), str(self.failure["message"])
        result, failure = gather.judged(self.name, step, settings, self.acts)
        if failure and step["role"] == "load_balancer":
            # It tells which balancers failed, and those that did not.
            result = load_balancer.judge_all(settings["load_balancers"], step["state"], self.acts)
        return result, failure or ""

    def memory(self) -> Json:
        host, drain = self.host, self.drain
        mine = HostMemory(
            resource_name=host.resource_name,
            told_name=host.told_name,
            looks=drain.idle_looks,
            boot_id=host.observation.boot_id or host.memory.boot_id,
            arrivals=drain.arrivals,
            not_running=drain.not_running,
            heard=sorted(host.heard),
            seen_out_since=host.seen_out_since,
        )
        return write_memory(Memory(None, {self.name: mine}, {}))

    def warnings(self) -> list[str]:
        """What a run would warn of before it takes the host out."""
        known = [*self.host.untold, *(sentence for _topic, sentence in unnoticed(self.host))] if self.goes_out else []
        found = [f"{self.name}: {sentence}" for sentence in known]
        return [sentence for sentence in found if sentence not in self.last["warned"]]

    def wait_for(self, result: RoleResult) -> None:
        """The role goes on because this is not done."""
        left = joined(result.get("left") or ()) or str(result["reason"])
        self.waits_for = f"not back yet: {left}" if result.get("unanswered") else left

    def lines(self, until: float) -> Json:
        """What is told of the host while it waits, as a run tells it: at once, when it changes, and when it has been so for long."""
        if not self.waits_for or self.check:
            return {"waiting": self.last["waiting"], "told": self.last["told"], "lines": []}
        state = "approved" if self.last["role"] == "approve_event" else STATES[self.used.get("state") or "running"]
        waiting = self.last["waiting"] or {"since": self.now}
        decision = {"state": state, "shown": state, "reason": self.waits_for, "kind": "", "event": None, "step": None, "since": waiting["since"]}
        decision.update(until=until, until_is=UNTIL[state] if state in ("draining", "restoring") else WAITS_UNTIL)
        found: list[str] = []
        outcome: Json = {"hosts": {self.name: decision}, "memory": {}}
        told = sinks.PassResult({}, outcome, {"time": self.now}, {"memory": {"told": self.last["told"]}}, {})
        sinks.Lines(lambda line, _color: found.append(line)).tell(told)
        return {"waiting": waiting, "told": outcome["memory"]["told"], "lines": found}

    @property
    def goes_out(self) -> bool:
        return self.used.get("state") in ("out", "drained")

    @property
    def was_looked_at(self) -> bool:
        return self.host.observation.reached is not None

    @property
    def seconds_left(self) -> float:
        return max(0.0, float(self.last["until"]) - self.now)

    @property
    def may_wait(self) -> bool:
        return bool(self.used["wait"]) and not self.check and self.seconds_left > 0

    def end(self, result: RoleResult, failure: str = "") -> Json:
        """The end of the role. If it is to go on until its job is done, a job that is not done is a failure. Check mode predicts that it would be done."""
        is_lost = self.host.observation.is_silent or any(map(is_unreachable, self.acts))
        if self.check and not (failure or is_lost):
            result = dict(result, done=True)
        if self.used["wait"] and not result["done"]:
            failure = failure or joined([str(result["reason"]), *([START_IT] if result.get("unanswered") else ())])
        return {"finished": True, "result": {key: value for key, value in result.items() if key != "file"}, "failure": failure}

    def fail(self, why: str) -> Json:
        return self.end(dict(UNFINISHED), why)

    def end_if_failed(self) -> Json | None:
        """The end of the role if a step or a task file has failed."""
        return self.end(self.result, self.trouble) if self.trouble else None

    def end_if_slow(self) -> Json | None:
        """The end of the role if its host answers and was never read in time. It is not called out of reach."""
        if not self.host.observation.cut_off or self.was_met or self.host.settings.outside:
            return None
        return self.end(dict(UNFINISHED, reason=too_slow(self.name, self.host.why_silent)))

    def file(self) -> Json | None:
        """The task file of the user's own for which the last step waits. It runs at least once, and while the role waits again and again."""
        if self.check:
            files = [act["file"] for act in self.acts if act.get("file")]
            return {"files_left": files[1:], "files": {self.name: files[0]}, "result": dict(self.result, done=True)} if files else None
        file, ran = self.result.get("file"), self.last["ran"]
        if not file or file["record"] in ran and not self.may_wait:
            return None
        if file["record"] in ran:
            self.wait_for(self.result)
        return {**self.again(), "files": {self.name: file}, "ran": [*ran, file["record"]], "pause": PAUSE if file["record"] in ran else 0.0}

    def files_left(self) -> Json:
        """In check mode each file runs once, and nothing else follows."""
        left = self.last["files_left"]
        if self.failure.get("pass") == self.last["number"]:
            return self.fail(str(self.failure["message"]))
        return {"files_left": left[1:], "files": {self.name: left[0]}} if left else self.end(self.last["result"])

    def go_on(self, can_pass: bool) -> Json:
        """Take the last step once more, if waiting may help; otherwise the end."""
        if self.result["done"] or not (can_pass and self.may_wait):
            return self.end(self.result)
        self.wait_for(self.result)
        return {**self.again(), "pause": PAUSE}

    def again(self) -> Json:
        if self.step is None:
            raise AssertionError("there was a step")
        return self.take(self.release(self.step["state"]) if "records" in self.step else self.step)

    def take(self, step: StepJson, *looks: Turn) -> Json:
        """Take a step, and then look."""
        acts = acts_of(step, self.host, self.observed.run)
        if self.check:
            # What an act comes to is only predicted, so the others do not wait for it.
            acts = [(machine, [dict(act, always=act["part"] != "sent") for act in todo if act["part"] != "restoring"]) for machine, todo in acts]
        return {"step": step, "turns": with_acts({self.name: list(looks)}, {self.name: acts}, self.observed, {})}

    def look(self, seconds: float = GLANCE, **more: Any) -> Turn:
        """A look at the host itself. C(seconds): how long its metadata service may take."""
        ports = self.host.ports if self.last["role"] == "drain_host" else []
        return {**look_at(self.host, max(seconds, self.used.get("observe_timeout") or 0.0), ports=ports, **more), "tries": TRIES}

    def turns(self, *turns: Turn, pause: float = 0.0) -> Json:
        return {"turns": {self.name: list(turns)}, "pause": pause}

    def asked(self) -> Result:
        """The events that name the host, as M(graceful.azure.scheduled_events_info) would return them."""
        observation = self.host.observation
        if observation.is_silent and not observation.fatal:
            return {"unreachable": True, "msg": self.host.why_silent}
        if observation.events is None:
            return {"failed": True, "msg": observation.fatal or self.host.why_silent}
        mine = [event.document for event in observation.events if event.document.get("affects_host")]
        return {"events": mine, "resource_name": observation.resource_name or ""}

    def events(self, purpose: str, needed: bool) -> Json | None:
        """What C(events_of_hold) returns. None if the host must be looked at first."""
        heard = sorted(self.host.heard) if self.host.ports else []
        asked = self.asked() if self.was_looked_at else NOTHING
        found = events_of_hold(self.last["role"], purpose, needed, self.given, self.used.get("event_details"), asked, heard, self.name)
        if found["asks"] and not self.was_looked_at:
            return None
        return dict(found, trouble=str(asked["msg"])) if found["asks"] and asked.get("failed") else found

    @property
    def given(self) -> list[str]:
        return list(self.used.get("event_ids") or ())

    def step_of(self, state: str, event_ids: Iterable[str], details: Json, **more: Any) -> StepJson:
        base = {"role": self.last["role"], "state": state, "event_ids": list(event_ids), "event_details": details, "reason": self.used["reason"]}
        return {**base, **more}

    @property
    def held_for_others(self) -> bool:
        """Whether anything on the host is held for an event besides those that are given."""
        return bool(self.given) and not self.host.recorded <= set(map(fold, self.given))

    def release(self, state: str) -> StepJson:
        """A step that releases the events that are given, or everything."""
        observation = self.host.observation
        known = sorted({event_id for record in observation.holds or () for event_id in record.events})
        ids = self.given or known or [BY_HAND]
        # The first try has left one more.
        records = [*self.host.records, *([BEING_RESTORED] if self.step else [])]
        details = kept(ids, self.used.get("event_details") or {}, host=self.name)
        # Also for events that a person has made up.
        lost = list(dict.fromkeys(told for event_id in ids for told in lost_duties(self.host, fold(event_id))))
        return self.step_of(state, ids, details, releases_all=not self.given, records=records, **({"lost": lost} if lost else {}))


def _load_balancer(this: RolePass) -> Json:
    is_out = this.used["state"] == "out"
    if this.step is None:
        events = this.events("take it out", is_out)
        before = [] if "asked" in this.notes or not is_out else _machines(this, asked=True)
        if events is None or before:
            return {"notes": {"asked": True}, **this.turns(*before, *([this.look(READ)] if events is None else []))}
        if events["trouble"]:
            return this.fail(events["trouble"])
        more = {"min_in_service": this.used.get("min_in_service") or None, "await_checks": this.used.get("await_checks")}
        return this.take(this.step_of("out" if is_out else "in", events["ids"], events["details"], releases_all=not events["ids"], **more))
    # Too few others are in service, or HAProxy's checks have not passed yet.
    waits = any(act.get("refused") or act.get("waiting_for") for act in this.acts)
    return this.go_on(waits and not this.result["failed_hosts"])


def _restore_service(this: RolePass) -> Json:
    if this.step is None:
        return _first_release(this, "restored", restore_service.judge(this.name, {"unreachable": True}, {}))
    found = this.go_on(this.reached)
    if found.get("finished") and this.result["done"] and this.step.get("lost") and not this.check:
        # Nobody gives that back, and its records are gone now. A run fails for that, too.
        found["failure"] = found["failure"] or str(this.result["reason"])
    return found


def _running(this: RolePass) -> Json:
    if this.step is None:
        return _first_release(this, "running", drain_host.judge(this.name, {"unreachable": True}, "running"))
    return this.go_on(this.reached)


def _first_release(this: RolePass, state: str, unreachable: RoleResult) -> Json:
    """The first step of those that put duties back. The records on the host say what there is to put back."""
    if not this.was_looked_at:
        return this.turns(this.look())
    observation = this.host.observation
    if observation.holds is None:
        return this.fail(observation.fatal) if observation.fatal else this.end(unreachable)
    if state == "restored" and this.host.settings.restore_service.ask and this.held_for_others and "balancers" not in this.notes:
        # Where its balancers keep it out for another event, too, nothing goes back, so it need not answer.
        return {"notes": {"balancers": True}, **this.turns(*_machines(this), this.look())}
    return this.take(this.release(state))


def _drain_host(this: RolePass) -> Json:
    return _running(this) if this.used["state"] == "running" else _drained(this)


def _drained(this: RolePass) -> Json:
    """What need not wait is taken out at once, all else when the host is idle."""
    groups = groups_out(this.host.settings.drain_host.steps)
    events = this.events("stop it", bool(groups))
    if events is None or not this.was_looked_at:
        return this.turns(*_glance(this, READ if events is None else GLANCE))
    if "events" not in this.notes:
        trouble = _mistakes(this) or events["trouble"]
        if trouble:
            return this.fail(trouble)
        limit = this.host.settings.drain_host.timeout if this.used["wait"] else this.host.settings.quiet + STEP
        this.last = dict(this.last, until=deadline(this.now, limit, events))
        this.notes = {"events": {"ids": events["ids"], "details": events["details"]}, "taken": []}
    return {"notes": this.notes, "until": this.last["until"], **_next_stage(this, groups)}


def _next_stage(this: RolePass, groups: Sequence[Json]) -> Json:
    stage = this.step["stage"] if this.step else None
    if stage == IDLE:
        return this.end(_judge_drained(this)) if this.check else this.go_on(this.reached)
    if stage and this.result["done"]:
        this.notes["taken"] = [*this.notes["taken"], stage]
    elif stage and not this.may_wait:
        return this.end(_judge_drained(this))
    stages = {FIRST: any(group["first"] for group in groups), EARLY: any(not (group["first"] or group["idle"]) for group in groups)}
    due = [name for name, is_one in stages.items() if is_one and name not in this.notes["taken"]]
    if this.drain.idle_looks >= LOOKS or this.check:
        if not groups:
            return this.end(_judge_drained(this))
        due = [*([] if this.check else due), IDLE]
    if due:
        events, first = this.notes["events"], due[0] == FIRST
        spots = {event_id: out_of(this.host, fold(event_id)) for event_id in events["ids"]}
        details = {**events["details"], **{event_id: {**found, **events["details"].get(event_id, {})} for event_id, found in spots.items() if found}}
        details = details if due[0] == IDLE else kept(events["ids"], details, idle=False)
        step = this.step_of("drained", events["ids"], details, stage=due[0], first=first, idle=due[0] == IDLE)
        if due[0] == IDLE:
            return this.take(step)
        if due[0] == stage:
            this.wait_for(this.result)
        *machines, own = _glance(this)
        found = this.take(step, own)
        return {**found, "turns": {this.name: [*machines, *found["turns"][this.name]]}, "pause": PAUSE if due[0] == stage else 0.0}
    result = _judge_drained(this)
    # A host in rotation is not drained by waiting, unless its balancer has yet to notice that it is out.
    serves = any(place.in_rotation and not place.noticing for place in this.host.places)
    is_hopeless = serves or bool(_mistakes(this)) or this.host.observation.is_silent and not this.was_met
    # A second look at an idle host belongs to it in any case.
    is_late = this.seconds_left == 0.0 and (bool(this.drain.busy) or "late" in this.notes["taken"])
    if is_hopeless or is_late:
        return this.end(result)
    if this.seconds_left == 0.0:
        this.notes["taken"] = [*this.notes["taken"], "late"]
    if this.drain.busy:
        this.wait_for(result)
    return {"step": None, **_wait_until_idle(this)}


def _mistakes(this: RolePass) -> str:
    """What only a person can mend: as long as it is so, the host is never idle."""
    traffic, observation = this.host.traffic, this.host.observation
    found = [*([observation.fatal] if observation.fatal else []), *traffic.mistakes]
    if not this.host.places and traffic.is_helpless:
        found.extend(reason.text for reason in traffic.unread)
    return joined(found)


def _judge_drained(this: RolePass) -> RoleResult:
    steps = together([act for act in this.acts if act["part"] == "steps"])
    busy = [reason.text for reason in this.drain.busy]
    if not busy and this.drain.idle_looks < LOOKS:
        busy = [ONCE_MORE]
    silent = [look["machine"] for look in this.seen["balancers"].values() if not look.get("reached")]
    return drain_host.judge(this.name, steps, busy=busy, failed_hosts=silent)


def _glance(this: RolePass, seconds: float = GLANCE) -> list[Turn]:
    """Looks that wait for nothing, the host's own last."""
    return [*_machines(this), this.look(seconds, **idle_options(this.host))]


def _machines(this: RolePass, quiet: float | None = None, asked: bool = False) -> list[Turn]:
    """Looks at the machines of the balancers. The first waits for the end of the last request if C(quiet) seconds without one must pass.

    C(asked): only those that may tell something before the host goes out.
    """
    balancers = [(this.name, settings) for provider, settings in this.host.balancers if not asked or provider.asks_before(settings)]
    waits = {} if quiet is None else {this.name: quiet}
    looks = machine_looks(balancers, waits, drain_wait=lambda seconds: min(this.seconds_left, max(DRAIN, seconds + READINGS)))
    return [*looks[:1], *map(at_once, looks[1:])]


def _wait_until_idle(this: RolePass) -> Json:
    """The next looks. One of them waits, or nobody is there to wait for and only the time without a request must pass."""
    host, drain = this.host, this.drain
    serves = any(place.busy for place in host.places)
    machines = _machines(this, drain.quiet_left if serves else None)
    own: Json = {"known": host.observation.fingerprint, "wait": min(DRAIN, this.seconds_left), "await_idle": True} if host.ports else {}
    is_waiting = bool(drain.busy) and bool(serves and machines or own)
    pause = PAUSE if drain.busy else min(drain.quiet_left + READINGS, LONGEST_PAUSE)
    return this.turns(*machines, this.look(**own, **idle_options(host)), pause=0.0 if is_waiting else pause)


def _approve_event(this: RolePass) -> Json:
    if this.notes.get("outside"):
        return _approve_outside(this)
    if "approved" in this.notes:
        observation = this.host.observation
        is_read = observation.is_new and observation.events is not None and not observation.empty_body
        shown = {fold(event.event_id): event.event_status for event in observation.events or ()} if is_read else None
        is_twice = is_read and is_over([(observation.at or 0.0) - observation.steady, observation.at or 0.0])
        return _await_begin(this, shown, is_twice)
    if this.step is not None:
        return _approved(this, this.result)
    ready = list(this.used.get("ready_resources") or ())
    if not this.was_looked_at and not (this.given and ready and not this.host.settings.outside):
        return this.turns(this.look(READ))
    asked = this.asked() if this.was_looked_at else NOTHING
    if (is_unreachable(asked) or asked.get("failed")) and this.host.settings.outside:
        return {"notes": {"outside": True}, **_read_by_witness(this)}
    if is_unreachable(asked):
        return this.end(approve_event.judge(this.given, read=asked))
    if asked.get("failed") or this.host.fatal and not (this.given and ready):
        return this.fail(str(asked.get("msg") or this.host.fatal[0].text))
    unknown = None if this.given else approve_event.of_unknown_type(asked["events"])
    if unknown:
        return this.fail(unknown)
    ids = this.given or [event["event_id"] for event in asked["events"]]
    if not ids:
        observation = this.host.observation
        is_proved = _are_over(this, [ANY], None if observation.empty_body else observation.at or this.now)
        if is_proved is None:
            return {"notes": this.notes, **this.turns(this.look(READ))}
        return this.end(approve_event.judge(ids, read=asked) if is_proved else _unproved(this.name))
    details = kept(ids, this.used.get("event_details") or details_of(asked.get("events") or ()), host=this.name)
    own_name = [name for name in [asked.get("resource_name")] if name]
    return this.take(_approval(this, ids, details, ready or own_name))


def _are_over(this: RolePass, absent: Iterable[str], at: float | None) -> bool | None:
    """Note an answer that does not show these events. Returns whether it is proved that they are over, None if another answer may prove it.

    C(at): when the document was read, None if the body was empty. One answer without an event may be wrong or old, and one without a document proves
    nothing. What an answer shows begins anew.
    """
    former = this.notes.get("reads") or {}
    reads = {fold(key): [*(former.get(fold(key)) or ()), at] for key in absent}
    this.notes = {**this.notes, "reads": reads}
    doubtful = [told for told in reads.values() if not is_over([read for read in told if read is not None])]
    return None if any(len(told) < TRIES for told in doubtful) else not doubtful


def _unproved(name: str) -> RoleResult:
    return dict(UNFINISHED, reason=f"the metadata service of {name} answered with an empty body, which proves nothing. Run it again")


def _approval(this: RolePass, ids: list[str], details: Json, ready: list[str], **more: Any) -> StepJson:
    waits = bool(this.used["wait"])
    return this.step_of("approved", ids, details, ready_resources=ready, ready_until=None, patient=waits, record=not waits, **more)


def _approved(this: RolePass, result: RoleResult) -> Json:
    """The approval was sent, or there was none to send."""
    if not (this.used["wait"] and not this.check and result["approved"]):
        return this.end(result)
    this.last = dict(this.last, until=this.now + this.used["timeout"])
    this.notes = {**this.notes, "approved": result["approved"]}
    return {"notes": this.notes, "until": this.last["until"], "result": result, **_look_for_begin(this, result["approved"])}


def _await_begin(this: RolePass, shown: Json | None, is_twice: bool) -> Json:
    """C(shown): the status of each event that stands, None if nobody knows. C(is_twice): whether a second answer has told the same."""
    pending = [key for key in this.notes["approved"] if shown is None or shown.get(fold(key), None if is_twice else "") not in (None, "Started")]
    if not pending:
        return this.end(this.last["result"])
    if not this.may_wait:
        asked = this.used["witness"] if this.notes.get("outside") else this.name
        # The event takes the host away.
        why = "not begun" if shown is not None else f"{asked} has not told whether it has begun"
        return this.end(this.last["result"], f"approved, and {why} within {this.used['timeout']:g} s: {', '.join(pending)}")
    return _look_for_begin(this, pending)


def _look_for_begin(this: RolePass, pending: list[str]) -> Json:
    this.waits_for = f"waits until Azure starts {', '.join(pending)}"
    if this.notes.get("outside"):
        return _read_by_witness(this, PAUSE)
    observation = this.host.observation
    more = {"known": observation.fingerprint, "wait": min(LONGEST_WAIT, this.seconds_left), "expected": pending}
    return {"step": None, **this.turns(this.look(READ, **more), pause=PAUSE if observation.is_silent else 0.0)}


def _read_by_witness(this: RolePass, pause: float = 0.0) -> Json:
    """Have another VM of the set read the events."""
    ids, name = this.given or None, this.host.settings.resource_name
    seen = as_act("seen", "scheduled_events_info", event_ids=ids, affecting_host_only=ids is None, resource_name=name)
    return {"step": None, "turns": with_acts({this.name: []}, {this.name: [(this.used["witness"], [seen])]}, this.observed, {}), "pause": pause}


def _approve_outside(this: RolePass) -> Json:
    """The host cannot send it, so another VM reads the events, and Azure is asked for the approval."""
    settings, ready = this.host.settings, list(this.used.get("ready_resources") or ())
    seen = next((act for act in this.acts if act["part"] == "seen"), NOTHING)
    sent = next((act for act in this.acts if act["part"] == "sent"), NOTHING)
    names = str(settings.resource_name), str(this.used["witness"])
    told = approve_event.progress_outside(seen, sent, this.given, ready, *names, this.used.get("event_details"))
    shown = {fold(event["event_id"]): event["event_status"] for event in seen.get("events") or ()}
    at = float(seen.get("ended_at") or this.now) if seen.get("document_incarnation") else None
    if "approved" in this.notes:
        is_read = not (seen.get("failed") or is_unreachable(seen)) and at is not None
        is_twice = _are_over(this, [key for key in this.notes["approved"] if fold(key) not in shown] if is_read else [], at)
        return {"notes": this.notes, **_await_begin(this, shown if is_read else None, bool(is_twice))}
    if this.step is not None and sent is not NOTHING:
        return _approved(this, told["result"])
    refused = told["refused"] or (None if this.given else approve_event.of_unknown_type(seen.get("events") or ()))
    if refused:
        return this.fail(refused)
    is_proved = _are_over(this, told["absent"] or ([] if this.given or shown else [ANY]), at)
    # What was read may have changed before it was read again.
    if this.step is not None or is_proved is None:
        return {"notes": this.notes, **_read_by_witness(this, PAUSE)}
    if not is_proved:
        return this.end(_unproved(str(this.used["witness"])))
    if not told["ids"]:
        return this.end(told["result"])
    details = kept(told["ids"], this.used.get("event_details") or details_of(seen["events"]), host=this.name)
    step = _approval(this, told["ids"], details, ready or [str(settings.resource_name)], witness=this.used["witness"])
    return {"notes": this.notes, **this.take(step)}


_ROLES: dict[str, Callable[[RolePass], Json]] = {
    "load_balancer": _load_balancer,
    "drain_host": _drain_host,
    "approve_event": _approve_event,
    "restore_service": _restore_service,
}
