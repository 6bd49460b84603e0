# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ways to make a health answer of this host fail: a file, a service that answers, a command, or the responder of this collection.

Each is an C(Action), and knows nothing of holds but the record that it is shown. On a Windows host a site of IIS may answer as well.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
import time
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.graceful.azure.plugins.module_utils._conditions import IN, OUT
from ansible_collections.graceful.azure.plugins.module_utils._file_systems import sync_folder, write_all
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import CLOCK_SECONDS, HELD, SIZE_LIMIT, HoldError, content_of, parse_record, to_bytes
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import HEALTH_PROBE
from ansible_collections.graceful.azure.plugins.module_utils._spellings import port_mistake
from ansible_collections.graceful.azure.plugins.module_utils._stopped_in_order import QUICK_SECONDS
from ansible_collections.graceful.azure.plugins.module_utils._systemd import LOOK_SECONDS, UNSTARTABLE, SystemdError, SystemdRefused, is_off, is_up, state_of
from ansible_collections.graceful.azure.plugins.module_utils._timeout import run_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Record
    from ansible_collections.graceful.azure.plugins.module_utils._systemd import ServiceManager, Unit
    from ansible_collections.graceful.azure.plugins.module_utils._timeout import RunCommand

COMMAND_SECONDS = 30
# How a file of ours begins. The record follows, because the file may outlive it. A file with another beginning was written by somebody else.
MARK = "graceful.azure keeps this host out of its load balancer for a scheduled event\n"
# Where a file is whose absence means out, while it is held.
KEPT = ".held-by-graceful-azure"
RESPONDER_FOLDER = "/var/lib/graceful_azure_responder"
# What the units of the responder on a port are called, without their endings.
RESPONDER = "graceful-azure-responder-%s"
RESPONDER_UNIT = "/etc/systemd/system/%s.socket" % RESPONDER


class ProbeError(Exception):
    """A health answer cannot be made to fail, or not be seen; the text is a full sentence."""


class Refused(ProbeError):
    """A change was refused."""


class SeenAnswer(NamedTuple):
    """What one look at the thing that is acted on tells."""

    # Whether the health answer fails because of it. None: nobody can tell.
    fails: bool | None
    # Whether that is about to change.
    moves: bool
    # Its state in words.
    told: str


if TYPE_CHECKING:

    class UnitManager(ServiceManager, Protocol):
        def down_for(self, name: str) -> float | None: ...


class Action:
    """A way to make the health answer fail."""

    name: str
    # What is acted on.
    on: str
    # What the record keeps besides.
    more: dict[str, Any] = {}

    def check(self) -> None:
        """Raise an error if it could not be done."""
        raise NotImplementedError

    def look(self, record: Record | None, boot_id: str | None) -> SeenAnswer:
        raise NotImplementedError

    def out_for(self) -> float | None:
        """For how many seconds somebody else has made the answer fail. None: nobody can tell."""

    def redone_for(self) -> float | None:
        """The same where it passed meanwhile, and somebody else has made it fail again while it was held. None: nobody has, or nobody can tell."""

    def marked(self) -> Record | None:
        """The record in a mark of ours, where what is acted on can have one. Raises ProbeError for a mark that does not tell it."""

    def meaning(self, means: str) -> Action:
        """The same file with another meaning. Nothing else has a meaning on record."""
        raise NotImplementedError

    def fail(self, record: Record) -> None:
        raise NotImplementedError

    def complete(self, record: Record) -> None:
        """Write a mark anew of which a run that was cut off has written a part."""

    def pass_again(self) -> str | None:
        """Undo it. Returns a sentence if somebody else has acted, and nothing was touched."""
        raise NotImplementedError

    def forget(self) -> str:
        """What stays where somebody else has undone it."""
        return ""


def steady_clock() -> float:
    """Seconds since the boot, including those for which the machine was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def subject_of(action: str, on: str) -> dict[str, Any]:
    """What the record of an action is about."""
    return {"action": action, "on": on}


def mark_of(record: Record) -> bytes:
    """The content of a file of ours while it is held."""
    return MARK.encode() + to_bytes(content_of(record))


def record_in(content: bytes | None, action: str, on: str) -> Record | None:
    """The record in a mark; None if there is none that can be used."""
    if content is None or not is_mark(content):
        return None
    try:
        record = parse_record(content[len(MARK) :], on)
    except HoldError:
        return None
    return record if (record["kind"], record["subject"]) == (HEALTH_PROBE, subject_of(action, on)) else None


def is_mark(content: bytes | None) -> bool:
    return content is not None and content.startswith(MARK.encode())


def _unknown_mark(path: str) -> ProbeError:
    return ProbeError(
        "%s is of graceful.azure, but its record is gone, and nothing tells for which event it is. See whether this host should serve, and undo it by hand."
        % path
    )


def responder_file(port: int) -> str:
    """The file that makes the responder on this port answer 503."""
    return "%s/out-%d" % (RESPONDER_FOLDER, port)


class HealthFile(Action):
    """A file whose presence (``means`` out) or absence (in) makes the health answer fail. A subclass knows how it is reached."""

    # Whether there is the file, or the one that is kept of it; what the file says, None if it is not there or cannot be read; and both ways to undo it.
    # A subclass has these functions.
    _is_there: Callable[[str], bool]
    _content: Callable[[], bytes | None]
    _remove: Callable[[], None]
    _put_back: Callable[[], None]

    def __init__(self, path: str, means: str, name: str = "file") -> None:
        self.name, self.on, self.means = name, path, means
        self.more = {"means": means}

    def look(self, record: Record | None, boot_id: str | None) -> SeenAnswer:
        there = self._is_there(self.on)
        return SeenAnswer(there == (self.means == OUT), False, "%s is %s" % (self.on, "there" if there else "not there"))

    def redone_for(self) -> float | None:
        content = self._content() if self.means == OUT else None
        return None if content is None or is_mark(content) else self.out_for()

    def marked(self) -> Record | None:
        if self.means == IN:
            if not self._is_there(self.on) and self._is_there(self.on + KEPT):
                # It is the user's own file and has no room for a record.
                raise _unknown_mark(self.on + KEPT)
            return None
        content = self._content()
        record = record_in(content, self.name, self.on)
        if record is None and is_mark(content):
            raise _unknown_mark(self.on)
        return record

    def pass_again(self) -> str | None:
        if self.means == OUT:
            content = self._content()
            if content is not None and not is_mark(content):
                return "%s was written by somebody else while it was held: it was not removed, so the answer fails as long as it is there." % self.on
            self._remove()
        elif self._is_there(self.on + KEPT):
            self._put_back()
        else:
            return "%s was kept as %s, which is gone: it was not put back." % (self.on, self.on + KEPT)
        return None

    def forget(self) -> str:
        if self.means == IN and self._is_there(self.on) and self._is_there(self.on + KEPT):
            return " What it was before is %s." % (self.on + KEPT)
        return ""


class File(HealthFile):
    """Such a file on this machine."""

    def check(self) -> None:
        if not os.path.isabs(self.on):
            raise ProbeError("The health file %s is not an absolute path; name one that begins with / in the option file." % self.on)
        folder = os.path.dirname(self.on)
        if self.name == "responder":
            port = self.on.rpartition("-")[2]
            # A responder on another port would leave its folder, too, and answer on as if nothing was held.
            unit = RESPONDER_UNIT % port
            if not os.path.isdir(folder) or not os.path.exists(unit):
                raise ProbeError(
                    "The responder is not installed here for port %s: there is no %s. Install it before an event (include the role"
                    " graceful.azure.load_balancer with tasks_from: responder), or correct the option responder_port."
                    % (port, unit if os.path.isdir(folder) else "folder " + folder)
                )
        if not os.path.isdir(folder):
            raise ProbeError("The health file %s cannot be made: there is no folder %s. Make the folder, or correct the option file." % (self.on, folder))
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ProbeError(
                "The folder %s of the health file cannot be written by user id %d. Set ansible_become: true for that machine." % (folder, os.geteuid())
            )
        found = self._status(self.on)
        if found is not None and stat.S_ISDIR(found.st_mode):
            raise ProbeError("The health file %s is a folder; name a file in the option file." % self.on)
        if found is not None and stat.S_ISLNK(found.st_mode) and not os.path.exists(self.on):
            # Whoever answers the probe follows it, and finds no file.
            raise ProbeError("The health file %s is a link to something that is not there: remove the link, or correct the option file." % self.on)

    def meaning(self, means: str) -> File:
        return File(self.on, means, self.name)

    def out_for(self) -> float | None:
        status = self._status(self.on if self.means == OUT else os.path.dirname(self.on))
        if status is None:
            return 0.0
        # What was done to the folder last may have been another file, and the wait is then longer than it need be.
        ago = time.time() - (status.st_ctime if self.means == OUT else status.st_mtime)
        # If the clock was set back since then, nobody knows.
        return max(0.0, min(ago, steady_clock())) if ago > -CLOCK_SECONDS else None

    def fail(self, record: Record) -> None:
        if self.means == OUT:
            try:
                fd = os.open(self.on, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
            except FileExistsError:
                return
            except OSError as error:
                raise self._unwritable(error) from error
            try:
                self._write(fd, record, lambda: os.fchmod(fd, 0o644))
            except Refused:
                with contextlib.suppress(OSError):
                    os.unlink(self.on)
                raise
            finally:
                os.close(fd)
        else:
            # It keeps its content, owner and mode, also across a reboot.
            self._rename(self.on, self.on + KEPT)
        self._sync()

    def complete(self, record: Record) -> None:
        content = self._content()
        begun = content is not None and (MARK.encode().startswith(content) or is_mark(content))
        if self.means != OUT or not begun or record_in(content, self.name, self.on):
            return
        try:
            fd = os.open(self.on, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            self._write(fd, record, lambda: os.ftruncate(fd, 0))
        finally:
            os.close(fd)

    def _remove(self) -> None:
        try:
            os.unlink(self.on)
        except FileNotFoundError:
            return
        except OSError as error:
            raise Refused("The health file %s cannot be removed: %s." % (self.on, error.strerror)) from error
        self._sync()

    def _put_back(self) -> None:
        self._rename(self.on + KEPT, self.on)
        self._sync()

    def _is_there(self, path: str) -> bool:
        return self._status(path) is not None

    def _content(self) -> bytes | None:
        try:
            with open(self.on, "rb") as stream:
                return stream.read(len(MARK) + SIZE_LIMIT)
        except OSError:
            return None

    def _write(self, fd: int, record: Record, prepare: Callable[[], object]) -> None:
        """Write the mark from the beginning of the file, and all of it."""
        try:
            prepare()
            write_all(fd, mark_of(record))
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> Refused:
        return Refused("The health file %s cannot be written: %s." % (self.on, error.strerror))

    def _rename(self, old: str, new: str) -> None:
        try:
            os.rename(old, new)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise Refused("The health file %s cannot be renamed to %s: %s." % (old, new, error.strerror)) from error

    def _sync(self) -> None:
        with contextlib.suppress(OSError):
            sync_folder(os.path.dirname(self.on))

    @staticmethod
    def _status(path: str) -> os.stat_result | None:
        try:
            return os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ProbeError("The health file %s cannot be seen: %s." % (path, error.strerror)) from error


class Stopped(Action):
    """What answers the probe, and is stopped. ``errors``: what a command raises. ``refusals``: which of these mean that it was not told."""

    errors: type[Exception]
    refusals: type[Exception]

    def __init__(self, on: str, monotonic: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep) -> None:
        self.on = on
        self._monotonic = monotonic
        self._sleep = sleep

    def _tell(self, command: Callable[[], None], fails: bool) -> None:
        """Give it a command, and look until the answer fails, or passes, for the time of one step. What it then does is looked at by whoever calls."""
        try:
            command()
        except self.errors as error:
            # What was not answered in time may have been told all the same.
            raise (Refused if isinstance(error, self.refusals) else ProbeError)(str(error)) from error
        ends = self._monotonic() + QUICK_SECONDS
        while self._monotonic() < ends:
            seen = self.look(None, None)
            if not seen.moves and seen.fails == fails:
                return
            self._sleep(LOOK_SECONDS)


class UnitOfProbe(Stopped):
    """A unit of systemd that answers the probe."""

    name = "service"
    errors = SystemdError
    refusals = SystemdRefused

    def __init__(self, unit: str, systemd: UnitManager, monotonic: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep) -> None:
        try:
            super().__init__(systemd.names([unit], self.name)[0], monotonic, sleep)
        except ValueError as error:
            raise ProbeError(str(error)) from None
        self._systemd = systemd

    def check(self) -> None:
        unit = self._show()
        if unit.load_state == "not-found":
            raise ProbeError(self._systemd.unknown % (self.on, self.name))
        started = unit.triggers + unit.wanted
        if started and is_up(unit):
            raise ProbeError(
                "%s starts %s, which would go on answering the probe. Use a unit of its own for the answer (option service)." % (self.on, ", ".join(started))
            )
        along = [other.name for other in self._systemd.show(sorted(set(unit.dependents))) if is_up(other) and not other.name.endswith((".target", ".slice"))]
        if along and is_up(unit):
            raise ProbeError(
                "%s answers the probe, and stopping it would also stop %s, or that would start it again. Use a unit of its own for the answer"
                " (option service)." % (self.on, ", ".join(along))
            )

    def look(self, record: Record | None, boot_id: str | None) -> SeenAnswer:
        unit = self._show()
        moves = unit.job or unit.active_state in ("activating", "deactivating", "reloading")
        return SeenAnswer(is_off(unit) and not unit.job, moves, "%s is %s" % (self.on, state_of(unit)))

    def out_for(self) -> float | None:
        return self._systemd.down_for(self.on)

    def redone_for(self) -> float | None:
        # After our own stop, this is as long as the record says.
        return self.out_for()

    def fail(self, record: Record) -> None:
        self._tell(lambda: self._systemd.stop(self.on), True)

    def pass_again(self) -> str | None:
        unit = self._show()
        if unit.load_state in UNSTARTABLE:
            return "%s was stopped and is %s now: it was not started." % (self.on, unit.load_state)
        self._tell(lambda: self._systemd.start(self.on), False)
        return None

    def _show(self) -> Unit:
        return self._systemd.show([self.on])[0]


class Command(Action):
    """A command of the user's. Nobody can see what it has done, so the record says it."""

    name = "command"

    def __init__(self, out: str, back: str, run_command: RunCommand) -> None:
        self.on = out
        self.more = {"command_in": back}
        self._back = back
        self._run_command = run_command

    def check(self) -> None:
        for name, command in (("out", self.on), ("back", self._back)):
            try:
                words = shlex.split(command or "")
            except ValueError as error:
                raise ProbeError("The command for the way %s cannot be split into words: %s." % (name, error)) from None
            if not words:
                raise ProbeError("The command for the way %s is empty; both commands are needed." % name)

    def look(self, record: Record | None, boot_id: str | None) -> SeenAnswer:
        # Of a command that was to let it pass, nobody knows whether it came to its end.
        fails = record is not None and record["phase"] == HELD and record["boot_id"] == boot_id
        return SeenAnswer(fails, False, "the command for %s was run last" % (OUT if fails else IN))

    def fail(self, record: Record) -> None:
        self._run(self.on)

    def pass_again(self) -> None:
        self._run(self._back)

    def _run(self, command: str) -> None:
        called = "The command %r" % command
        status, said, complained = run_limited(self._run_command, COMMAND_SECONDS, shlex.split(command), called, _refused)
        if status:
            raise _refused("%s ended with %d: %s." % (called, status, " ".join((complained or said).split())[:300] or "no message"))


def _refused(told: str) -> Refused:
    return Refused("%s It is run again in the next step." % told)


class Dry(Action):
    """An action that obeys in memory only: for check mode."""

    def __init__(self, action: Action) -> None:
        self._action = action
        self._fails: bool | None = None
        self.name, self.on, self.more = action.name, action.on, action.more

    def check(self) -> None:
        self._action.check()

    def out_for(self) -> float | None:
        return self._action.out_for()

    def forget(self) -> str:
        return self._action.forget()

    def look(self, record: Record | None, boot_id: str | None) -> SeenAnswer:
        seen = self._action.look(record, boot_id)
        if self._fails is None:
            return seen
        told = "%s would %s" % (self.on, "fail" if self._fails else "pass")
        return seen._replace(fails=self._fails, moves=False, told=told)

    def marked(self) -> Record | None:
        return self._action.marked() if self._fails is None else None

    def fail(self, record: Record) -> None:
        self._fails = True

    def pass_again(self) -> None:
        self._fails = False


def action_from(params: Mapping[str, Any], systemd: UnitManager, run_command: RunCommand) -> Action | None:
    """The action that the options name; None if they name none."""
    name = params["action"]
    if name == "file":
        return File(params["file"], params["file_means"])
    if name == "service":
        return UnitOfProbe(params["service"], systemd)
    if name == "command":
        return Command(params["command_out"], params["command_back"], run_command)
    if name == "responder":
        mistake = port_mistake(params["responder_port"])
        if mistake:
            raise ProbeError("responder_port: %s." % mistake)
        return File(responder_file(params["responder_port"]), OUT, "responder")
    if name == "iis_site":
        raise ProbeError("action: iis_site is only possible on a Windows host (graceful_azure_platform: windows).")
    return None


def as_recorded(action: Action, record: Record | None) -> Action:
    """The action, with what the record says of its file. While it is held, this counts, whatever the settings say by now."""
    means = record.get("means") if record else None
    return action if means in (None, action.more.get("means")) else action.meaning(means)


def action_of(record: Record, systemd: UnitManager, run_command: RunCommand) -> Action:
    """The action of a record."""
    name, on = record["subject"]["action"], record["subject"]["on"]
    if name in ("file", "responder"):
        return File(on, record.get("means", OUT), name)
    if name == "service":
        return UnitOfProbe(on, systemd)
    if name == "command":
        return Command(on, record.get("command_in", ""), run_command)
    raise ProbeError("The record %s has the action %r, which this release does not know." % (record["path"], name))
