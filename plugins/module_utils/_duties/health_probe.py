# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host behind a balancer that asks it for its health. What takes it off is its own answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._conditions import ALREADY_OUT, CHANGED_MEANWHILE, FAILING, LOST, UNDER_WAY
from ansible_collections.graceful.azure.plugins.module_utils._connections import ConnectionsError, Counted, check_ports, parse_address
from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.health_probe import (
    NEEDS,
    ONCE,
    OPTIONS,
    acted_on,
    health_answer,
    may_send,
    not_passing,
    notice_of,
    option_mistakes,
    probed_url,
)
from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import IN, MOVING, OUT, Call, Duty, holding, outcome
from ansible_collections.graceful.azure.plugins.module_utils._health_actions import ProbeError, as_recorded, subject_of
from ansible_collections.graceful.azure.plugins.module_utils._health_check import ANSWER_SECONDS
from ansible_collections.graceful.azure.plugins.module_utils._health_probe import HealthAnswers, condition_of, describe, record_of
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Engine
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import DEFAULT_STATE_DIR, HoldError, hold_argument_spec
from ansible_collections.graceful.azure.plugins.module_utils._polling import check_seconds, poll
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import FAST_PATH, HEALTH_PROBE, TASK, heard_in, still_uncounted, why_uncounted
from ansible_collections.graceful.azure.plugins.module_utils._spellings import plural
from ansible_collections.graceful.azure.plugins.module_utils._systemd import SystemdError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import Act
    from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
    from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Request
    from ansible_collections.graceful.azure.plugins.module_utils._new_connections import Arrivals

AGAIN_SECONDS = 0.5
ERRORS = (ProbeError, ConnectionsError)


class HealthProbeDuty(Duty):
    type = "health_probe"
    traffic = True
    answers_checks = True
    once = ONCE
    driver_errors = ERRORS
    options = OPTIONS
    own_mistakes = staticmethod(option_mistakes)

    def __init__(self, name: str, options: dict[str, Any], machine: Machine) -> None:
        super().__init__(name, options, machine)
        self._host = machine.health()
        self._on = acted_on(options)
        self._url = probed_url(options)
        self._look: ProbeLook | None = None
        # Whether the answer passed before anything in this request was taken off.
        self._passed = False
        # The new connections that the last look of this call had seen.
        self._before: dict[int, int] = {}

    def look(self) -> dict[str, Any]:
        if self._look is None:
            check_ports(self.machine.ports)
            action = self._action()
            problem = self._problem(action)
            params = {"peer": self.given["peer"], "ports": self.machine.ports, "notice": notice_of(self.given), "url": self._url}
            self._look = ProbeLook(params, action, self.machine, self._host)
            self._look.begin(self.machine.monotonic)
        else:
            problem = self._problem(self._look.action)
        arrivals = self._look.arrivals
        arrivals.see()
        look = self._look.see()
        arrivals.see()
        before, self._before = self._before, dict(arrivals.new)
        came = _came(arrivals, before)
        answer = look["answer"]
        busy = list(health_answer("the health answer (%s)" % self._on, dict(look, new_connections=came), self._url))
        busy += ["%s from %s on port %s" % (plural(entry["count"], "connection"), entry["peer"], entry["port"]) for entry in look["connections"]]
        busy += self._uncounted(self._look.uncounted)
        is_out = answer["state"] == FAILING
        is_moving = answer["restoring"] or answer["condition"] == UNDER_WAY
        return self.seen(
            MOVING if is_moving else OUT if is_out else IN,
            may_send(look),
            busy=busy,
            held_by=answer["held_by"],
            why={
                CHANGED_MEANWHILE: ["somebody else let the health answer pass while it was held (%s)" % answer["told"]],
                ALREADY_OUT: ["somebody else has made the health answer fail (%s)" % answer["told"]],
                LOST: ["the health answer passes again since the host was booted anew, or because a run was cut off"],
            }.get(answer["condition"], []),
            problem=problem or not_passing(look),
            details=dict(look, new_connections=came, quiet_for=arrivals.quiet_for, closed_ago=arrivals.closed_ago, clock=self._host.clock()),
        )

    def watch(self, seconds: float) -> None:
        ends = self.machine.monotonic() + seconds
        while self.machine.rest(ends, self._host.sample_seconds):
            # A connection that the client closes leaves no trace.
            if self._look is not None:
                self._look.arrivals.see()

    def note_before(self) -> None:
        if not self.machine.store().records(HEALTH_PROBE):
            self._passed = self._passes() is True

    def change(self, act: Act) -> dict[str, Any]:
        machine = self.machine
        engine = _change(machine, self._host, act.request, self._action(), act.timeout, lambda: self._passed or self._passes())
        passing = act.request.present and any(engine.driver.describe(hold)["state"] != FAILING for hold in engine.current)
        return outcome(engine, still=["the health answer (%s) passes" % self._on] if passing and not machine.check_mode else [])

    def _passes(self) -> bool | None:
        return passes_at(self._url, self._host, self.machine)

    def _uncounted(self, found: list[dict[str, Any]]) -> list[str]:
        """The ports whose connections cannot be counted, in sentences. Where a service was stopped, nobody listens any more."""
        heard = heard_in(self.machine.store().records(), self.machine.ports) if found else ()
        return why_uncounted(still_uncounted(found, heard))

    def _action(self) -> Any:
        return self._host.action_from(self.given)

    def _problem(self, action: Any) -> str | None:
        try:
            _check(action, self.machine)
            self._host.check_writable(self.machine.state_dir)
        except (ProbeError, SystemdError, HoldError) as error:
            return str(error)
        return None


# What the calls of passes know of the action.
ACTION = ("action", "file", "file_means", "service", "command_out", "command_back", "responder_port", "iis_site")
REQUIRED = [("action", action, tuple(name for name in options if name in ACTION)) for action, options in NEEDS.items()]


def action_spec() -> dict[str, dict[str, Any]]:
    return {name: {key: value for key, value in OPTIONS[name].items() if key != "required"} for name in ACTION}


def hold_spec() -> dict[str, Any]:
    """The options of C(hold)."""
    return dict(hold_argument_spec(), url=OPTIONS["url"], **action_spec())


def hold(params: Mapping[str, Any], machine: Machine, request: Request) -> dict[str, Any]:
    """Make the health answer fail, or let it pass again."""
    health = machine.health()
    action = health.action_from(params)
    engine = _change(machine, health, request, action, 0.0, lambda: passes_at(params["url"], health, machine))
    return dict(engine.result("answers"), waiting_for=engine.waiting_for)


def _check(action: Any, machine: Machine) -> None:
    """Raise an error if the answer could not be held. What is held goes back, whether or not it could be held today."""
    if machine.store().read(HEALTH_PROBE, subject_of(action.name, action.on)) is None:
        action.check()


def passes_at(url: str | None, health: Any, machine: Machine) -> bool | None:
    """Whether the answer passes at that URL. None if there is no URL, or if nobody could have seen it pass."""
    if not url:
        return None
    # A single bad answer is no news for a balancer either.
    ends = machine.monotonic() + ANSWER_SECONDS

    def ask() -> tuple[bool, str | None]:
        asked: tuple[bool, str | None] = health.ask(url, max(ends - machine.monotonic(), AGAIN_SECONDS))
        return asked

    (answered, said), _took = poll(ask, lambda asked: asked[1] is None, ANSWER_SECONDS - AGAIN_SECONDS, AGAIN_SECONDS, machine.monotonic, machine.sleep)
    return None if _fails_by_fast_path(answered, said, machine.store()) else said is None


def _fails_by_fast_path(answered: bool, said: str | None, store: Any) -> bool:
    """Whether the watcher's fast path, which comes before every run, may make the answer fail. Where nobody answers at all, a wrong URL tells the same."""
    return answered and said is not None and store.read(TASK, {"name": FAST_PATH}) is not None


def _change(machine: Machine, health: Any, request: Request, action: Any, timeout: float, passes: Callable[[], bool | None]) -> Engine[Any]:
    store = machine.store()
    driver = HealthAnswers(store, request, action, health.action_of, machine.boot_id(), dry=machine.check_mode, clock=health.clock, passes=passes)
    engine = Engine(driver, store, request, machine.monotonic, machine.sleep)
    engine.run(0.0 if machine.check_mode else timeout)
    return engine


def info_spec() -> dict[str, Any]:
    """The options of C(info)."""
    return dict(
        action_spec(),
        action=OPTIONS["action"],
        notice={"type": "float", "default": 0},
        url=OPTIONS["url"],
        ports={"type": "list", "elements": "int", "default": []},
        peer=OPTIONS["peer"],
        wait_for={"type": "list", "elements": "str", "default": []},
        quiet={"type": "float", "default": 0},
        timeout={"type": "float", "default": 0},
        state_dir={"type": "path", "default": DEFAULT_STATE_DIR},
    )


def info(params: Mapping[str, Any], machine: Machine) -> dict[str, Any]:
    """A look at the health answer, which may wait until the balancer must have noticed and nobody is connected."""
    health, monotonic = machine.health(), machine.monotonic
    timeout, quiet = check_seconds("timeout", params["timeout"]), check_seconds("quiet", params["quiet"])
    check_seconds("notice", params["notice"])
    check_ports(params["ports"])
    action = problem = None
    try:
        action = health.action_from(params)
        _check(action, machine)
    except (ProbeError, SystemdError) as error:
        problem = str(error)
    look = ProbeLook(params, action, machine, health)
    deadline = monotonic() + (timeout if params["wait_for"] and not machine.check_mode and not problem else 0.0)
    look.begin(monotonic)
    seen = _nothing(machine.store()) if problem else look.see()
    looked_at = monotonic()

    def quiet_for() -> float:
        return quiet_since_noticed(seen, look.arrivals.quiet_for, params["notice"])

    while not problem and not (is_idle(seen) and quiet_for() >= quiet) and machine.rest(deadline, health.sample_seconds):
        look.arrivals.see()
        if monotonic() - looked_at >= health.look_seconds:
            seen, looked_at = look.see(), monotonic()
    look.arrivals.see()
    if not problem and looked_at < monotonic() - health.sample_seconds:
        seen = look.see()
    return dict(
        seen,
        new_connections=_came(look.arrivals, {}),
        quiet_for=round(quiet_for(), 3),
        closed_ago=round(look.arrivals.closed_ago, 3),
        idle=not problem and is_idle(seen) and quiet_for() >= quiet,
        problem=problem,
        state_dir_problem=_state_dir_problem(health, machine.state_dir),
        clock=health.clock(),
        time=machine.now(),
    )


def _came(arrivals: Arrivals, before: Mapping[int, int]) -> list[dict[str, Any]]:
    """The new connections of each port, with the peer of the last. ``before``: how many had come before, by port."""
    new = {port: count - before.get(port, 0) for port, count in sorted(arrivals.new.items())}
    return [{"port": port, "count": count, "peer": arrivals.peers[port]} for port, count in new.items() if count > 0]


def quiet_since_noticed(seen: Mapping[str, Any], quiet_for: float, notice: float) -> float:
    """Seconds without a new connection, of those since the load balancer must have noticed."""
    failing = seen["answer"]["failing_for"] if seen["answer"] else None
    return quiet_for if failing is None else max(0.0, min(quiet_for, failing - notice))


def is_idle(seen: Mapping[str, Any]) -> bool:
    return not may_send(seen) and not seen["connections"]


def _nothing(store: Any) -> dict[str, Any]:
    return {"answer": None, "notice_left": None, "passing_for": None, "probe": None, "connections": [], "holds": store.records(HEALTH_PROBE)}


def _state_dir_problem(health: Any, state_dir: str) -> str | None:
    try:
        health.check_writable(state_dir)
    except HoldError as error:
        return str(error)
    return None


class ProbeLook:
    """One look at the health answer and at the connections."""

    def __init__(self, params: Mapping[str, Any], action: Any, machine: Machine, health: Any) -> None:
        self._health = health
        self._params = params
        self.action = action
        self._store = machine.store()
        self._boot_id = machine.boot_id()
        self._out_since: float | None = None
        self.uncounted: list[dict[str, Any]] = []
        try:
            self._peers = {parse_address(peer.strip()) for peer in params["peer"]}
        except ConnectionsError as error:
            raise ValueError("peer: %s" % error) from None

    def begin(self, monotonic: Callable[[], float]) -> None:
        self.arrivals = self._health.arrivals(self._params["ports"], self._peers, monotonic)

    def see(self) -> dict[str, Any]:
        """What is there now."""
        with self._store.locked():
            record = record_of(self._store, self.action)
            action = as_recorded(self.action, record)
            seen = action.look(record, self._boot_id)
            holds = self._store.records(HEALTH_PROBE)
            if record is not None and record["path"] not in [held["path"] for held in holds]:
                holds.append(dict(record, from_mark=True))
        condition = condition_of(record, seen, self._boot_id)
        answer = describe(action, seen, record, condition, self._boot_id, self._health.clock())
        self._note(answer)
        left = None
        if answer["state"] == FAILING:
            # The balancer needs its time to notice, whoever made the answer fail.
            left = 0.0 if answer["failing_for"] is None else max(0.0, self._params["notice"] - answer["failing_for"])
        # Not for longer, if a hold of ours was released since, or the host was booted.
        passing_for = None if answer["state"] == FAILING else round(min(self._store.unchanged_for(), self._health.clock()), 3)
        found = self._health.connections(self._params["ports"]) if self._params["ports"] else Counted([], [])
        connections = [entry for entry in found.connections if entry["peer"] not in self._peers]
        told = {
            "answer": answer,
            "file_id": self._file_id(),
            "notice_left": left,
            "passing_for": passing_for,
            "probe": self._ask(),
            "connections": connections,
            "holds": holds,
        }
        # A look of a pass leaves it to the look at the host, which knows what could be counted before.
        self.uncounted = found.uncounted
        return told

    def _file_id(self) -> str | None:
        """An id of the health file, by which it is known who else has it. None if there is no file, or nobody can tell."""
        return self._health.file_id(self.action.on) if self.action.name == "file" else None

    def _note(self, answer: dict[str, Any]) -> None:
        """What somebody else has made fail fails at least since this look has seen it. A folder may change all the time, and a unit may not tell since when."""
        if answer["condition"] != ALREADY_OUT:
            self._out_since = None
            return
        now = self._health.clock()
        if self._out_since is None:
            self._out_since = now
        answer["failing_for"] = max(answer["failing_for"] or 0.0, now - self._out_since)

    def _ask(self) -> dict[str, Any] | None:
        if not self._params["url"]:
            return None
        answered, said = self._health.ask(self._params["url"], ANSWER_SECONDS, self.arrivals)
        return {"passes": said is None, "said": said, "answered": answered, "fast_path": _fails_by_fast_path(answered, said, self._store)}


DUTIES: dict[str, type[Duty]] = {"health_probe": HealthProbeDuty}
CALLS: dict[str, Callable[[], Call]] = {
    "health_probe_hold": lambda: holding(hold_spec(), hold, ERRORS, ("action",), required_if=REQUIRED),
    "health_probe_info": lambda: Call(info_spec(), info, ERRORS, {"required_if": REQUIRED}),
}
