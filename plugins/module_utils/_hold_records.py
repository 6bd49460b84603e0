# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The records of holds: what was found, what was left, and which events hold it.

Each hold has one JSON file, in a folder on the machine that was changed. A record is written before the change that it describes (phase
``changing`` or ``restoring``) and once more after it. So the next run can tell a change that was cut off from a change by somebody else.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import hashlib
import json
import math
import os
import re
import stat
import time
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._file_systems import (
    machine_id,
    missing_mount,
    remove,
    replace_by,
    sync_folder,
    why_lost,
)
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import kind_of
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, TypeVar

    from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import Types

    Looked = TypeVar("Looked")

    # A record, with the fields that each kind adds. What is read from disk also has its path.
    Record = dict[str, Any]
    # The events of a record by their ids, each with its since, reason and details.
    Events = dict[str, dict[str, Any]]

VERSION = 1
DEFAULT_STATE_DIR = "/var/lib/graceful_azure"
LOCK_SECONDS = 10.0
# A file whose time lies so many seconds in the future was made now. If it lies further, the clock was set back.
CLOCK_SECONDS = 60
SIZE_LIMIT = 1 << 20
# Bytes of a record besides its events, and by which it may grow until it is released.
ROOM = 16 << 10

# The details of an event that are about the host.
OF_THE_HOST = {"host", "heard", "idle", "out_of"}

CHANGING = "changing"
HELD = "held"
RESTORING = "restoring"
PHASES = (CHANGING, HELD, RESTORING)

SUFFIX = ".json"
TEMPORARY = ".new-"


class HoldError(Exception):
    """A record or its folder cannot be used; the text is a full sentence that names the path."""

    def __init__(self, message: str, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


def hold_argument_spec() -> dict[str, dict[str, Any]]:
    """The options that every module which puts or releases a hold has."""
    return {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "event_ids": {"type": "list", "elements": "str"},
        "event_details": {"type": "dict", "default": {}},
        "reason": {"type": "str", "default": ""},
        "state_dir": {"type": "path", "default": DEFAULT_STATE_DIR},
    }


class Request:
    """What a module is asked to do: put or release holds, for which events, and why."""

    def __init__(
        self, present: bool, event_ids: list[str] | None, reason: str = "", details: dict[str, dict[str, Any]] | None = None, now: str | None = None
    ) -> None:
        self.present = present
        self.event_ids = event_ids
        self.reason = reason
        self.details = details or {}
        self._now = now or utc_now()
        self._tell_now: Callable[[], str] | None = None

    @property
    def now(self) -> str:
        """The time of this request, by the clock of the machine on which the record lies. Another machine's is asked when it is needed."""
        if self._tell_now:
            self._now, self._tell_now = self._tell_now(), None
        return self._now

    @classmethod
    def from_params(cls, params: Mapping[str, Any], tell_now: Callable[[], str] | None = None) -> Request:
        """C(tell_now): the clock of the machine on which the record lies, if that is another one."""
        present = params["state"] == "present"
        ids = params["event_ids"]
        if ids is None and present:
            raise ValueError("event_ids is required when state is present: name the events that the hold is for.")
        if ids is not None and not ids:
            raise ValueError(
                "event_ids is an empty list. Name at least one event%s." % ("" if present else ", or leave the option out to release the hold for every event")
            )
        for event_id in ids or []:
            if not event_id.strip():
                raise ValueError("event_ids contains an empty id.")
        details = {}
        for event_id, detail in params["event_details"].items():
            if not isinstance(detail, dict):
                raise ValueError("event_details[%r] is %r; it must be a dictionary." % (event_id, detail))
            if not is_json(detail):
                raise ValueError("event_details[%r] cannot be written as JSON." % event_id)
            details[fold(event_id)] = detail
        request = cls(present, ids, params["reason"], details)
        request._tell_now = tell_now
        return request

    def added_to(self, events: Events) -> Events:
        """The events of a record, with those of this request added.

        An event that is there already keeps its time and reason. Its details are replaced if the request has some, but what tells nothing of the event itself
        is added to them.
        """
        if self.event_ids is None:
            raise AssertionError("only a release may leave them out")
        merged = {known: dict(entry) for known, entry in events.items()}
        known_ids = {fold(known): known for known in merged}
        for event_id in self.event_ids:
            details = self.details.get(fold(event_id))
            known = known_ids.get(fold(event_id))
            if known is None:
                known_ids[fold(event_id)] = event_id
                merged[event_id] = {"since": self.now, "reason": self.reason, "details": details or {}}
            elif details is not None:
                merged[known]["details"] = dict(merged[known]["details"], **details) if details.keys() <= OF_THE_HOST else details
        # This check comes before any change. Only its events make a record grow.
        size = len(to_bytes({"events": merged}))
        if size > max(SIZE_LIMIT - ROOM, len(to_bytes({"events": events}))):
            raise HoldError(
                "The events %s and their details would make a record of %d bytes; %d are allowed. Nothing was changed. Shorten "
                "event_details or reason, or release holds that are no longer needed."
                % (", ".join(event_id[:60] for event_id in sorted(merged)[:5]), size, SIZE_LIMIT - ROOM)
            )
        return merged

    def anew(self, events: Events) -> Events:
        """These events, held since now: their hold was lost, so the host was in rotation until now."""
        return {known: dict(entry, since=self.now) for known, entry in events.items()}

    def taken_from(self, events: Events) -> Events:
        """The events of a record, without those of this request."""
        if self.event_ids is None:
            return {}
        released = set(map(fold, self.event_ids))
        return {known: entry for known, entry in events.items() if fold(known) not in released}


class Store:
    """The records in one folder. With ``dry`` nothing is written: changes are kept in memory, and read from there."""

    def __init__(
        self,
        state_dir: str,
        dry: bool = False,
        lock_seconds: float = LOCK_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.state_dir = state_dir
        self.dry = dry
        self._lock_seconds = lock_seconds
        self._monotonic = monotonic
        self._sleep = sleep
        # By their paths; None if it was deleted.
        self._unwritten: dict[str, Record | None] = {}

    @contextlib.contextmanager
    def locked(self, create: bool = False) -> Iterator[bool]:
        """Lock the folder while the block runs. ``create`` makes a missing folder, but never when ``dry``.

        Yields whether the folder is locked: a missing folder cannot be locked, and somebody else may make it meanwhile.
        The lock is on the folder itself, so no lock file is left behind.
        """
        if create:
            check_folder(self.state_dir)
            check_lasting(self.state_dir)
        fd = self._open_folder(create and not self.dry)
        if fd is None:
            yield False
            return
        try:
            self._lock(fd)
            yield True
        finally:
            os.close(fd)

    def read(self, kind: str, subject: dict[str, Any]) -> Record | None:
        """The record of this hold, or None."""
        path = self.path(kind, subject)
        if path in self._unwritten:
            return self._unwritten[path]
        record = self._load(path)
        if record is not None and (record["kind"], record["subject"]) != (kind, subject):
            raise _damaged(path, "it is about %s %r" % (record["kind"], record["subject"]))
        return record

    def looked_at(self, look: Callable[[], tuple[Looked, object]]) -> Looked:
        """What C(look) returns of a machine and of its records, read together. Second, it returns whether there are any records."""
        while True:
            with self.locked() as locked:
                looked, are_there = look()
            # Without a lock, a hold may be put between the look and the reading of the records.
            if locked or not are_there:
                return looked

    def records(self, kind: str | None = None) -> list[Record]:
        """All records, or those of one kind, in the order of their files' names; each with its ``path``."""
        found = {record["path"]: record for record in self._load_all()}
        for path, record in self._unwritten.items():
            found.pop(path, None)
            if record is not None:
                found[path] = record
        return [found[path] for path in sorted(found) if kind in (None, found[path]["kind"])]

    def path(self, kind: str, subject: dict[str, Any]) -> str:
        return os.path.join(self.state_dir, record_name(kind, subject))

    def write(self, record: Record) -> None:
        """Write the record to disk. After a crash at any moment, the disk has either the new record or the old one."""
        path = self.path(record["kind"], record["subject"])
        data = to_bytes(dict(content_of(record), **self._origin()))
        if len(data) > SIZE_LIMIT:
            raise HoldError("The record %s would have %d bytes; only %d can be read back, so it was not written." % (path, len(data), SIZE_LIMIT), path)
        if self.dry:
            self._unwritten[path] = dict(json.loads(data.decode()), path=path)
        else:
            self._save(path, data)

    def replace(self, record: Record | None, wanted: Record | None) -> None:
        """Replace the record on disk by another; None means no record. A record with the same content is not written again."""
        if wanted is None:
            if record is not None:
                self.delete(record)
        elif not same_content(record, wanted):
            self.write(wanted)

    def delete(self, record: Record) -> None:
        path = self.path(record["kind"], record["subject"])
        if self.dry:
            self._unwritten[path] = None
        else:
            self._drop(path)

    def unchanged_for(self) -> float:
        """For how many seconds no record has come or gone, as the folder tells: for ever if there is none, or if the clock was set back since."""
        now, then = self._times()
        return math.inf if then is None or then > now + CLOCK_SECONDS else max(0.0, now - then)

    # How the files are reached. Another platform has a store that reaches them otherwise.

    def _times(self) -> tuple[float, float | None]:
        """The time now, and that at which the folder has changed last; None if there is none."""
        try:
            return time.time(), os.stat(self.state_dir).st_mtime
        except OSError:
            return time.time(), None

    def _load(self, path: str) -> Record | None:
        return read_record(path, missing_ok=True)

    def _load_all(self) -> list[Record]:
        return list_records(self.state_dir)

    def _origin(self) -> dict[str, str]:
        """What a record says of the machine on which it lies."""
        machine = machine_id()
        return {"machine": machine} if machine else {}

    def _save(self, path: str, data: bytes) -> None:
        # What is released may be known by its mark alone, because the folder was lost.
        check_folder(self.state_dir, create=True)
        temporary = os.path.join(self.state_dir, TEMPORARY + os.path.basename(path))
        try:
            replace_by(temporary, path, data)
            sync_folder(self.state_dir)
        except OSError as error:
            raise HoldError("The record %s cannot be written: %s." % (path, reason_of(error)), path) from error

    def _drop(self, path: str) -> None:
        try:
            remove(path)
            sync_folder(self.state_dir)
        except OSError as error:
            raise HoldError("The record %s cannot be removed: %s." % (path, reason_of(error)), path) from error

    def _open_folder(self, create: bool) -> int | None:
        check_folder(self.state_dir, create)
        try:
            return os.open(self.state_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return None
            raise HoldError("The state folder %s cannot be opened: %s." % (self.state_dir, reason_of(error)), self.state_dir) from error

    def _lock(self, fd: int) -> None:
        deadline = self._monotonic() + self._lock_seconds
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES, errno.EINTR):
                    raise HoldError("The state folder %s cannot be locked: %s." % (self.state_dir, reason_of(error)), self.state_dir) from error
            if self._monotonic() >= deadline:
                raise HoldError(
                    "The state folder %s is locked by another process for more than %g seconds." % (self.state_dir, self._lock_seconds),
                    self.state_dir,
                )
            self._sleep(0.02)


def to_bytes(content: object) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode("utf-8", "backslashreplace")


def new_record(kind: str, subject: dict[str, Any], found: dict[str, Any], left: dict[str, Any], events: Events, **more: Any) -> Record:
    return dict(version=VERSION, kind=kind, subject=subject, found=found, left=left, phase=CHANGING, events=events, **more)


def list_records(state_dir: str) -> list[Record]:
    """Every record in the folder, each a dictionary with its ``path``; the first that cannot be read is an error."""
    records, problems = scan_records(state_dir)
    if problems:
        raise problems[0]
    return records


def scan_records(state_dir: str) -> tuple[list[Record], list[HoldError]]:
    """The records that can be read, and a ``HoldError`` for each that cannot."""
    check_folder(state_dir)
    try:
        names = sorted(os.listdir(state_dir))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return [], []
        raise HoldError("The state folder %s cannot be read: %s." % (state_dir, reason_of(error)), state_dir) from error
    records: list[Record] = []
    problems: list[HoldError] = []
    for name in names:
        if not is_record(name):
            continue
        try:
            record = read_record(os.path.join(state_dir, name), missing_ok=True)
            if record is not None:
                check_name(record, name)
        except HoldError as error:
            problems.append(error)
            continue
        if record is not None:
            records.append(record)
    return records, problems


def _unreadable(path: str, why: str) -> HoldError:
    return HoldError("The record %s cannot be read: %s. %s" % (path, why, NOTHING_TOUCHED), path)


def read_record(path: str, missing_ok: bool = False) -> Record | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENOENT and missing_ok:
            return None
        raise _unreadable(path, "it is a symbolic link" if error.errno == errno.ELOOP else reason_of(error)) from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise _damaged(path, "it is not a regular file")
        if status.st_uid not in (0, os.geteuid()):
            raise _damaged(path, "it belongs to user id %d" % status.st_uid)
        data = _read_all(fd)
    except OSError as error:
        raise _unreadable(path, reason_of(error)) from error
    finally:
        os.close(fd)
    if len(data) > SIZE_LIMIT:
        raise _damaged(path, "it is larger than %d bytes" % SIZE_LIMIT)
    record = parse_record(data, path)
    theirs, ours = record.get("machine"), machine_id()
    if theirs and ours and theirs != ours:
        raise HoldError(
            "The record %s was made on another machine: on %s, and this one is %s. If machines share the folder, give each one of its own "
            "(graceful_azure_state_dir). If this is a copy of a disk, delete the record. %s" % (path, theirs, ours, NOTHING_TOUCHED),
            path,
        )
    return record


NOTHING_TOUCHED = "Nothing was touched because of it."


def parse_record(data: bytes, path: str) -> Record:
    """The record in ``data``; the path is only for the message."""
    try:
        record = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        raise _damaged(path, "it is empty" if not data.strip() else "it is not complete JSON") from None
    if not isinstance(record, dict):
        raise _damaged(path, "it is not a JSON object")
    version = record.get("version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise _damaged(path, "its version is %r" % (version,))
    if version > VERSION:
        raise HoldError(
            "The record %s has version %d, written by a newer release of graceful.azure; this one knows version %d. %s"
            % (path, version, VERSION, NOTHING_TOUCHED),
            path,
        )
    if version < 1:
        raise _damaged(path, "its version is %d" % version)
    for key, kinds, words in _SHAPE:
        if not isinstance(record.get(key), kinds):
            raise _damaged(path, "its %s is not %s" % (key, words))
    if record["phase"] not in PHASES:
        raise _damaged(path, "its phase is %r, not one of %s" % (record["phase"], ", ".join(PHASES)))
    for event_id, entry in record["events"].items():
        if (
            not isinstance(entry, dict)
            or not isinstance(entry.get("since"), str)
            or not isinstance(entry.get("reason"), str)
            or not isinstance(entry.get("details"), dict)
        ):
            raise _damaged(path, "its event %r is not an object with since, reason and details" % event_id)
    kind = kind_of(record["kind"])
    for key, fields in kind.objects.items():
        value = record.get(key)
        if not isinstance(value, dict):
            raise _damaged(path, "its %s is not an object" % key)
        for name, kinds in fields.items():
            if not isinstance(value.get(name), kinds) or isinstance(value.get(name), bool):
                raise _damaged(path, "its %s has no usable %s" % (key, name))
    for name, kinds in kind.fields.items():
        if not isinstance(record.get(name), kinds):
            raise _damaged(path, "its %s is not usable" % name)
    for name, inside in kind.optional.items():
        value = record.get(name, {})
        if name in record and not (isinstance(value, dict) and all(isinstance(value.get(field), wanted) for field, wanted in inside.items())):
            raise _damaged(path, "its %s is not usable" % name)
    record["path"] = path
    return record


_SHAPE: tuple[tuple[str, Types, str], ...] = (
    ("kind", str, "a string"),
    ("subject", dict, "an object"),
    ("found", dict, "an object"),
    ("left", dict, "an object"),
    ("phase", str, "a string"),
    ("events", dict, "an object"),
)


def check_folder(state_dir: str, create: bool = False) -> None:
    """Raise HoldError if other users could put records into the folder. ``create`` makes a missing folder.

    A missing folder is no error without ``create``: it has no records.
    """
    if not os.path.isabs(state_dir):
        # A relative path depends on where the module runs. That may be another place in each run, or the installed collection.
        raise HoldError("The state folder %s is not an absolute path. Name one that begins with / (graceful_azure_state_dir)." % state_dir, state_dir)
    missing = missing_mount(state_dir)
    if missing:
        raise HoldError(
            "The state folder %s lies on a disk that /etc/fstab mounts at %s, and that is not mounted. Only that disk tells what is held here:"
            " mount it, or remove that line if the disk is gone for good." % (state_dir, missing),
            state_dir,
        )
    try:
        status = os.stat(state_dir)
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise HoldError("The state folder %s cannot be reached: %s." % (state_dir, reason_of(error)), state_dir) from error
        if os.path.islink(state_dir):
            raise HoldError("The state folder %s is a symbolic link to a place that is missing." % state_dir, state_dir) from error
        if not create:
            return
        _make_folder(state_dir)
        status = os.stat(state_dir)
    if not stat.S_ISDIR(status.st_mode):
        raise HoldError("The state folder %s is not a folder." % state_dir, state_dir)
    owners = {status.st_uid, os.lstat(state_dir).st_uid}
    for owner in owners - {0, os.geteuid()}:
        raise HoldError(
            "The state folder %s belongs to user id %d; it must belong to root or to user id %d, who runs this "
            "task: its records say what is changed back." % (state_dir, owner, os.geteuid()),
            state_dir,
        )
    if status.st_mode & stat.S_IWOTH:
        raise HoldError(
            "The state folder %s is writable by everybody; name a folder that only its owner can write." % state_dir,
            state_dir,
        )


def check_writable(state_dir: str, create: bool = False) -> None:
    """Raise ``HoldError`` if records could not be written there, or would not stay. Nothing is made or written unless ``create``."""
    check_folder(state_dir)
    # What is held already must be released.
    if not _has_records(state_dir):
        check_lasting(state_dir)
    check_folder(state_dir, create)
    place = state_dir
    while not os.path.isdir(place):
        place = os.path.dirname(os.path.abspath(place))
    if not os.access(place, os.W_OK | os.X_OK):
        raise HoldError(
            "The state folder %s cannot be written by user id %d. Set ansible_become: true for that machine, or name a folder that this "
            "user may write (graceful_azure_state_dir)." % (state_dir, os.geteuid()),
            state_dir,
        )
    status = os.statvfs(place)
    if status.f_flag & os.ST_RDONLY:
        raise HoldError("The state folder %s lies on a file system that is read-only." % state_dir, state_dir)
    blocks, files = (status.f_bfree, status.f_ffree) if os.geteuid() == 0 else (status.f_bavail, status.f_favail)
    # Some file systems have no number of files.
    if status.f_blocks and not blocks or status.f_files and not files:
        what = "is full" if not blocks else "takes no more files (df -i)"
        raise HoldError("The state folder %s lies on a file system that %s." % (state_dir, what), state_dir)


def check_lasting(state_dir: str) -> None:
    """Raise ``HoldError`` if the records would be lost, and whatever outlives them would be held for ever."""
    why = why_lost(state_dir)
    if why:
        raise HoldError(
            "The state folder %s %s. Then nobody would know what is held here. Name a folder on a disk that stays, such as %s (graceful_azure_state_dir)."
            % (state_dir, why, DEFAULT_STATE_DIR),
            state_dir,
        )


def _has_records(state_dir: str) -> bool:
    try:
        return any(map(is_record, os.listdir(state_dir)))
    except OSError:
        return False


def is_record(name: str) -> bool:
    """Whether a file of this name is a record. One that is yet to become a record begins with a dot."""
    return name.endswith(SUFFIX) and not name.startswith(".")


def record_name(kind: str, subject: dict[str, Any]) -> str:
    """The file name of a record. People can read it, and no other subject can have the same, even with a hostile name."""
    identity = json.dumps([kind, subject], sort_keys=True)
    words = [kind] + [str(value) for key, value in subject.items() if key != "socket"]
    readable = re.sub(r"[^A-Za-z0-9._@-]+", "_", "-".join(words))[:120]
    return "%s-%s%s" % (readable, hashlib.sha256(identity.encode("utf-8", "backslashreplace")).hexdigest()[:10], SUFFIX)


def check_name(record: Record, name: str) -> None:
    """Raise HoldError for a record under another name than its own, such as a copy. No release would ever remove it."""
    own = record_name(record["kind"], record["subject"])
    if name != own:
        raise _damaged(record["path"], "it is about %s %r, whose record is %s" % (record["kind"], record["subject"], own))


def content_of(record: Record) -> Record:
    """The record as it lies on disk, where it does not say its path."""
    return {key: value for key, value in record.items() if key != "path"}


def same_content(one: Record | None, other: Record | None) -> bool:
    """Whether two records have the same content. Their paths do not count."""
    if one is None or other is None:
        return one is other
    return content_of(one) == content_of(other)


def is_noted(record: Record | None) -> bool:
    """Whether nothing that a record says is yet to be done, as far as it tells."""
    return record is None or record["phase"] != CHANGING


def holders(record: Record | None) -> list[str]:
    """The ids of the events that hold, in the order in which they came."""
    if record is None:
        return []
    return sorted(record["events"], key=lambda event_id: (record["events"][event_id]["since"], event_id))


def is_json(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def utc_now(at: float | None = None) -> str:
    """The time now, or C(at) in seconds since 1970, as records have it."""
    return datetime.datetime.fromtimestamp(time.time() if at is None else at, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _make_folder(state_dir: str) -> None:
    parent = os.path.dirname(os.path.abspath(state_dir))
    try:
        if not os.path.isdir(parent):
            os.makedirs(parent, 0o755, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(state_dir, 0o700)
        sync_folder(parent)
    except OSError as error:
        raise HoldError("The state folder %s cannot be made: %s." % (state_dir, reason_of(error)), state_dir) from error


def _read_all(fd: int) -> bytes:
    data = b""
    while len(data) <= SIZE_LIMIT:
        piece = os.read(fd, 1 << 16)
        if not piece:
            break
        data += piece
    return data


class DamagedRecordError(HoldError):
    """A record that no release of the collection can use."""

    path: str


def put_aside(state_dir: str, dry: bool = False) -> tuple[list[dict[str, str]], list[HoldError]]:
    """Rename every damaged record, so that it holds nothing any more.

    Returns the path, new path and problem of each, and the problems of records that are not damaged.
    """
    aside: list[dict[str, str]] = []
    left: list[HoldError] = []
    with Store(state_dir).locked():
        for problem in scan_records(state_dir)[1]:
            if not isinstance(problem, DamagedRecordError):
                left.append(problem)
                continue
            to = path_aside(problem.path)
            aside.append({"path": problem.path, "to": to, "problem": str(problem)})
            if dry:
                continue
            try:
                os.rename(problem.path, to)
                sync_folder(state_dir)
            except OSError as error:
                raise HoldError("The record %s cannot be renamed: %s." % (problem.path, reason_of(error)), problem.path) from error
    return aside, left


def path_aside(path: str) -> str:
    """Where a damaged record is put. It is never read there."""
    return "%s.damaged-%s" % (path, utc_now().replace(":", ""))


def _damaged(path: str, what: str) -> DamagedRecordError:
    return DamagedRecordError(
        "The record %s cannot be used: %s. %s Repair it, or delete it and see to what it held by hand." % (path, what, NOTHING_TOUCHED),
        path,
    )
