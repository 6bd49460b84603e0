# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services of systemd through systemctl, and holds on them: the driver for the engine of holds."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import DriverError, this_boot
from ansible_collections.graceful.azure.plugins.module_utils._proc import has_ended, process_ids, read
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import SERVICE
from ansible_collections.graceful.azure.plugins.module_utils._stopped_in_order import STOPPING, StoppedInOrder
from ansible_collections.graceful.azure.plugins.module_utils._timeout import run_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from typing import Any, Protocol

    from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Hold, RecordReader
    from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Record, Request
    from ansible_collections.graceful.azure.plugins.module_utils._stopped_in_order import Manager
    from ansible_collections.graceful.azure.plugins.module_utils._timeout import RunCommand

CALL_SECONDS = 10
# Seconds between two looks at services that go down or come up quickly.
LOOK_SECONDS = 0.1

PROC = "/proc"

TYPES = "service socket device mount automount swap target path timer slice scope".split()
NAME = re.compile(r"[A-Za-z0-9:_.\\@][A-Za-z0-9:_.\\@-]*\Z")

# These properties of a unit name the units that systemd stops along with it. The last two name the units that would start it again: those that
# trigger it, and those that keep it running (Upholds=, from systemd 249 on).
STOPPED_ALONG = ("RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf", "PropagatesStopTo", "TriggeredBy", "UpheldBy")
RIVALS = ("Conflicts", "ConflictedBy")
# Units of these types are started again after they were stopped along with another. Targets are not, because they would start all units that they
# want. Slices, scopes and devices come and go with their content.
STARTED_AGAIN = (".service", ".socket", ".timer", ".path", ".mount", ".automount", ".swap")
DOWN = ("inactive", "failed", "maintenance")
# Stopping a target does not stop these units, unless they say so themselves (PartOf=).
OF_TARGET = ("Wants", "Requires", "BindsTo", "Upholds")
# A unit in one of these states cannot be started. Those of systemd's are the first two.
UNSTARTABLE = ("not-found", "masked", "disabled")
# systemd refuses to start these units while the unit that they trigger runs.
REFUSED_LATER = (".socket", ".automount")


class Unit(NamedTuple):
    name: str
    active_state: str
    load_state: str
    job: bool
    dependents: tuple[str, ...]
    # What it starts by itself, as a socket or a timer.
    triggers: tuple[str, ...]
    # Whether it is a oneshot without RemainAfterExit, which is never active.
    ends: bool
    result: str
    # What of it goes on although it is down, words after a comma; empty if nothing does.
    left: str = ""
    # Whether systemd will start it as soon as what it waits for is there, as after a boot.
    starts: bool = False
    # What systemd stops if it starts the unit.
    rivals: tuple[str, ...] = ()
    # Whether it counts as active although it has come to its end, with RemainAfterExit.
    exited: bool = False
    # The services that a target starts, and does not stop.
    wanted: tuple[str, ...] = ()


if TYPE_CHECKING:

    class ServiceManager(Manager[Unit, str], Protocol):
        """What knows the services of a machine: systemd, or its counterpart on another platform."""

        # What is said of a service that it does not know, with its name and the option that names it, and where to look after a failure.
        unknown: str
        hint: str

        def names(self, names: Collection[str], option: str = "services") -> list[str]: ...

        def comes_back(self, name: str) -> bool: ...


class SystemdError(DriverError):
    """systemd cannot be asked, or does not do what it is told; the text is a full sentence."""


class SystemdRefused(SystemdError):
    """systemctl refused a command."""


class Systemd:
    """The few calls of systemctl that are needed. None of them touches whether a unit is enabled.

    ``run_command`` is the method of AnsibleModule.
    """

    unknown = "systemd knows no unit %r (option %s)."
    hint = "See 'systemctl status %s' on the host."
    boot_id = staticmethod(this_boot)

    def __init__(self, run_command: RunCommand) -> None:
        self._run_command = run_command

    def show(self, names: Collection[str]) -> list[Unit]:
        """The units of these names, in their order."""
        if not names:
            return []
        properties = (
            (
                "ActiveState",
                "SubState",
                "LoadState",
                "Job",
                "Triggers",
                "Accept",
                "Type",
                "RemainAfterExit",
                "Result",
                "ControlGroup",
                "NConnections",
                "OnFailure",
                "OnSuccess",
            )
            + STOPPED_ALONG
            + RIVALS
            + OF_TARGET
        )
        text = self._call("show", "--property=" + ",".join(properties), "--", *names)
        blocks = [block for block in text.strip().split("\n\n") if block]
        if len(blocks) != len(names):
            raise SystemdError("systemctl showed %d units although it was asked for %d." % (len(blocks), len(names)))
        told = [dict(line.partition("=")[::2] for line in block.splitlines()) for block in blocks]
        waits = any(fields.get("ActiveState", "inactive") in DOWN and _has_job(fields) for fields in told)
        starting = self._starting() if waits else ()
        units = []
        for name, fields in zip(names, told):
            state = fields.get("ActiveState", "inactive")
            units.append(
                Unit(
                    name,
                    state,
                    fields.get("LoadState", "not-found"),
                    _has_job(fields),
                    tuple(word for key in STOPPED_ALONG for word in fields.get(key, "").split()),
                    # A socket that starts an instance for each connection is never refused because of them.
                    tuple(fields.get("Triggers", "").split()) if fields.get("Accept") != "yes" else (),
                    fields.get("Type") == "oneshot" and fields.get("RemainAfterExit") == "no",
                    fields.get("Result", ""),
                    _left(fields) if state in DOWN else "",
                    state in DOWN and fields.get("Job") in starting,
                    # What runs since the unit has failed or was stopped is nobody's will.
                    tuple(sorted(_words(fields, *RIVALS).difference(_words(fields, "OnFailure", "OnSuccess")))),
                    fields.get("SubState") == "exited",
                    _wanted(fields) if name.endswith(".target") else (),
                )
            )
        return units

    def _starting(self) -> set[str]:
        """The numbers of the jobs that start something."""
        jobs = [line.split() for line in self._call("list-jobs", "--no-legend", "--plain").splitlines()]
        return {job[0] for job in jobs if len(job) > 2 and job[2] != "stop"}

    @staticmethod
    def names(names: Iterable[str], option: str = "services") -> list[str]:
        """The full names of units, each once and in the order given."""
        full: dict[str, None] = {}
        for name in names:
            if not NAME.match(name):
                raise ValueError("%r is not the name of a systemd unit (option %s)." % (name, option))
            stem, dot, kind = name.rpartition(".")
            if not dot or kind not in TYPES:
                name, stem = name + ".service", name
            if stem.endswith("@"):
                raise ValueError("%r is a template (option %s): name an instance of it, such as %s1.service." % (name, option, stem))
            full[name] = None
        return list(full)

    @staticmethod
    def comes_back(name: str) -> bool:
        """Whether a unit that was stopped along with another is started again."""
        return name.endswith(STARTED_AGAIN)

    def down_for(self, name: str) -> float | None:
        """For how many seconds a unit that is down has been so. None: systemd does not know.

        It forgets this when it unloads a unit that nothing needs, such as one that is not enabled. So 0 is no proof that the unit never ran.
        """
        text = self._call("show", "--property=InactiveEnterTimestampMonotonic", "--", name).strip()
        since = text.partition("=")[2]
        return max(0.0, time.monotonic() - int(since) / 1e6) if since.isdigit() and int(since) else None

    def stop(self, name: str) -> None:
        self._tell("stop", name)

    def start(self, name: str) -> None:
        self._tell("start", name)

    def _tell(self, verb: str, name: str) -> None:
        try:
            self._call(verb, "--no-block", "--no-ask-password", "--", name)
        except SystemdRefused as error:
            hint = ""
            if re.search("authentication|[Aa]ccess denied|not permitted", str(error)):
                hint = " User id %d lacks the rights: set ansible_become: true for that machine." % os.geteuid()
            raise SystemdRefused("%s was not told to %s: %s%s" % (name, verb, error, hint)) from error

    def _call(self, *arguments: str) -> str:
        command, called = ["systemctl", *arguments], "systemctl %s" % arguments[0]
        environment = {"LC_ALL": "C", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"}
        status, said, complained = run_limited(self._run_command, CALL_SECONDS, command, called, SystemdError, environ_update=environment)
        if status == 127:
            raise SystemdError("There is no systemctl on this host: services can be held only on hosts with systemd.")
        if status:
            why = " ".join(complained.split()) or "exit status %d" % status
            raise SystemdRefused("%s failed: %s" % (called, why))
        return said


def _wanted(fields: dict[str, str]) -> tuple[str, ...]:
    """The services that a target starts, and does not stop."""
    left = _words(fields, *OF_TARGET) - _words(fields, "ConsistsOf", "PropagatesStopTo")
    return tuple(sorted(word for word in left if word.endswith(".service")))


def _left(fields: dict[str, str]) -> str:
    """What goes on of a unit that is down: processes that systemd leaves with C(KillMode=process) and C(none), and services that a socket has started, one
    for each connection.
    """
    connections = fields.get("NConnections", "0")
    if connections.isdigit() and int(connections):
        return _go_on(int(connections), "connections")
    # systemd removes the group when it is empty.
    group = fields.get("ControlGroup", "")
    processes = _processes_in(group) if group else 0
    return _go_on(processes, "processes") + ": systemd leaves them with its KillMode. End them, or set KillMode=control-group" if processes else ""


def _words(fields: dict[str, str], *keys: str) -> set[str]:
    return {word for key in keys for word in fields.get(key, "").split()}


def _has_job(fields: dict[str, str]) -> bool:
    return fields.get("Job", "0") not in ("", "0")


def _go_on(number: int, things: str) -> str:
    return "%d of its %s %s on" % (number, things, "goes" if number == 1 else "go")


def _processes_in(group: str) -> int:
    """How many processes a control group of systemd has, those of the groups below it too."""
    line = re.compile(r"^(?:0:|\d+:name=systemd):%s(?:/.*)?$" % re.escape(group), re.MULTILINE)
    return sum(bool(line.search(read(PROC, pid, "cgroup"))) and not has_ended(pid, PROC) for pid in process_ids(PROC))


def is_up(unit: Unit) -> bool:
    return unit.starts or unit.active_state not in (*DOWN, "deactivating")


def is_down(unit: Unit) -> bool:
    return unit.active_state in DOWN and not unit.starts


def state_of(unit: Unit) -> str:
    """Its state, in a sentence after "is"."""
    more = unit.left or ("systemd is about to start it" if unit.starts else "")
    return "%s, and %s" % (unit.active_state, more) if more else unit.active_state


def is_off(unit: Unit) -> bool:
    """Whether a unit is down and nothing of it goes on: what its former processes do would be cut off as well."""
    return is_down(unit) and not unit.left


def is_back(record: Record, unit: Unit) -> bool:
    """Whether a unit runs again, or ran to its end after we started it."""
    if unit.active_state == "active":
        return True
    return bool(record.get("started")) and unit.ends and unit.active_state == "inactive" and unit.result == "success" and not unit.job


def _runs(unit: Unit) -> bool:
    """Whether anything of a unit runs: not of a target, nor of what has come to its end."""
    return unit.name.endswith(".service") and is_up(unit) and not unit.exited


class Services(StoppedInOrder[Unit, str]):
    """Services."""

    _manager: ServiceManager

    Refused = SystemdRefused
    kind = SERVICE
    found, left = {"active_state": "active"}, {"active_state": "inactive"}
    settled = {"starts": False}
    pause = LOOK_SECONDS
    is_up, is_down, is_back = staticmethod(is_up), staticmethod(is_off), staticmethod(is_back)
    key = label = staticmethod(lambda unit: unit.name)
    subject, key_in = staticmethod(lambda name: {"service": name}), staticmethod(lambda subject: subject["service"])
    state = staticmethod(state_of)
    shown = staticmethod(lambda unit: {"name": unit.name, "active_state": unit.active_state})
    needs_start, ends = staticmethod(lambda unit: unit.active_state != "activating"), staticmethod(lambda unit: unit.ends)
    # A socket cannot be started while its service runs.
    is_first = staticmethod(lambda name: name.endswith(".socket"))

    def __init__(
        self,
        systemd: ServiceManager,
        store: RecordReader,
        request: Request,
        services: Collection[str] | None,
        timeout: float = 0.0,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(systemd, store, request, None if services is None else systemd.names(services), timeout, monotonic, sleep)
        # What is to be down in this call, and with which service each other one is stopped along.
        self._stopped: list[str] = []
        self._along_with: dict[str, str] = {}

    def missing(self, seen: Unit) -> Exception | None:
        return SystemdError(self._manager.unknown % (seen.name, "services")) if seen.load_state == "not-found" else None

    def view(self, record: Record | None, seen: Unit) -> dict[str, Any]:
        return {"active_state": seen.active_state}

    def hindrance(self, hold: Hold[Unit]) -> str | None:
        unit = hold.seen
        runs = self._refusing(unit)
        if runs is not None and (not is_up(runs) or self.condition(self._read(runs.name), runs) == STOPPING):
            # Our own stop of it was cut off or is under way. When it is down, both can be started.
            if is_up(runs):
                self._manager.stop(runs.name)
                hold.acted = True
            self._wait_for(hold)
        if unit.load_state in UNSTARTABLE and not is_up(unit):
            return "%s was running when it was stopped and is %s now: it was not started." % (unit.name, unit.load_state)
        if runs is not None:
            return "%s was stopped, and %s, which it triggers, is %s: systemd refuses to start it now, so it was left alone." % (
                unit.name,
                runs.name,
                runs.active_state,
            )
        # What a boot has started is nobody's will. Nearly every unit excludes shutdown.target.
        is_asked = is_down(unit) and hold.noted["boot_id"] == self._boot_id
        rivals = [name for name in unit.rivals if is_asked and name != "shutdown.target"]
        rival = next((other for other in self._manager.show(rivals) if is_up(other)), None)
        if rival is not None:
            return "%s was stopped, and somebody else has started %s since: they exclude each other, so it was left alone." % (unit.name, rival.name)
        return None

    def failure(self, record: Record, seen: Unit) -> Exception | None:
        # It is also down before systemd begins. If it has no job and is down, it has ended again.
        if is_back(record, seen) or not is_down(seen) or seen.job:
            return None
        return SystemdError("%s was started and is %s. %s" % (seen.name, seen.active_state, self._manager.hint % seen.name))

    def seen_now(self, things: Collection[str]) -> list[Unit]:
        return [unit._replace(left=unit.left or self._started(unit)) if is_down(unit) else unit for unit in super().seen_now(things)]

    def _started(self, unit: Unit) -> str:
        """What a unit that is down has started and that still runs, such as the job of a timer or a service of a target: it is awaited, unless it is to be
        stopped as well."""
        started = unit.triggers + unit.wanted
        if not self._request.present or not started:
            return ""
        if unit.wanted:
            # What a target that we have not stopped wants runs for another reason, as after a boot.
            record = self._read(unit.name)
            if record is None or record["boot_id"] != (self._boot_id or self._manager.boot_id()):
                return ""
        named = {*self._stopped, *self._manager.names(self.later)}
        others = self._manager.show([name for name in started if name not in named])
        return ", ".join("%s, which it has started, is %s" % (one.name, one.active_state) for one in others if _runs(one))

    def to_stop(self, named: list[str], records: list[Record]) -> list[str]:
        names = self._stopped = self._with_others(named)
        # After a reboot, systemd does not know the units that are not loaded yet.
        along = [record["subject"]["service"] for record in records if record.get("along_with") in names]
        return [name for name in along if name not in names] + names

    def _with_others(self, services: list[str]) -> list[str]:
        """The services, each after the units that stop along with it or would start it again, and before what it has started, if they run now or are held."""
        units: dict[str, Unit] = {}
        names = services
        while names:
            units.update((unit.name, unit) for unit in self._manager.show(names))
            others = {name for unit in units.values() for name in unit.dependents}
            others |= {name for service in services for name in units[service].triggers}
            names = sorted(others - set(units))
        ordered: dict[str, str | None] = {}

        def visit(name: str, service: str, above: tuple[str, ...]) -> None:
            if name in ordered or name in above:
                return
            for dependent in units[name].dependents:
                visit(dependent, service, above + (name,))
            if name in services:
                ordered[name] = None
            elif self._manager.comes_back(name) and (is_up(units[name]) or self._read(name)):
                ordered[name] = service

        for service in services:
            visit(service, service, ())
            for name in units[service].triggers if service.endswith(REFUSED_LATER) else ():
                # It serves on without its socket, and as long as it does, the socket cannot be started again.
                if name not in services and not units[name].ends:
                    visit(name, service, (service,))
        self._along_with = {name: along for name, along in ordered.items() if along}
        # An automount comes right after its mount: stopped before, it would tear the mount away from those who use it,
        # and in reverse it cannot be started any more once its mount is there.
        place = {name: number for number, name in enumerate(ordered)}
        return sorted(ordered, key=lambda name: (place.get(re.sub(r"\.automount\Z", ".mount", name), place[name]), name.endswith(".automount")))

    def more(self, seen: Unit) -> dict[str, Any]:
        return {"along_with": self._along_with[seen.name]} if seen.name in self._along_with else {}

    def _refusing(self, unit: Unit) -> Unit | None:
        """The units that this unit triggers and that are not down yet. While they run, systemd refuses to start this unit."""
        if unit.name.endswith(REFUSED_LATER) and is_down(unit):
            for triggered in self._manager.show(unit.triggers):
                if not is_down(triggered):
                    return triggered
        return None
