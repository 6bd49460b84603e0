# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The helper: the process of a module that goes on for the length of a run, and answers the later requests of that run.

A module is packed, sent, unpacked and compiled for each request. The helper has all that behind it. It is a fork of the module's process, and
listens on a socket in a folder of its user. C(_helper_client.py) is its other side.

The helper itself only accepts connections. For each it forks once more, and the fork calls C(handle) and answers. So no request delays another,
none leaves anything behind for the next, and one that hangs or dies harms nobody.

It is gone C(STAY) seconds after its last request, at once if it is told that the run is over or by SIGTERM, and when its socket was removed or replaced.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gc
import importlib
import importlib.util
import json
import os
import select
import signal
import socket
import stat
import struct
import sys
import time
import traceback
import zipfile
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._proc import stat_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, NoReturn

    # Answers a request with what can be written as JSON. While it waits, it calls its second argument about twice a second. That ends it, by an exception,
    # if nobody waits for the answer any more, or the run is over.
    Handle = Callable[[Any, Callable[[], None]], Any]

# Seconds that the helper stays without a request. A run with nothing to do looks at a balancer more often than that (IDLE of _planning/turns.py), and one
# pass over 500 hosts takes about as long. With what it takes to notice that a controller is gone, it is less than a minute.
STAY = 52.0
# Seconds between two looks whether its socket is still there.
TICK = 1.0
# Seconds in which the new process must say that it listens.
START = 10.0
# Seconds in which a client must have sent its request, and in which it must take the answer.
SEND = 20.0
# Requests that are handled at the same time. More of them wait for their turn.
AT_ONCE = 32
BACKLOG = 256
# Bytes of a request and of an answer. The client knows them, too.
REQUEST_LIMIT = 8 << 20
ANSWER_LIMIT = 64 << 20

# What the kernel shows as the name of the process.
NAME = b"graceful_azure"
# The folder, and the socket in it, with the name that it has until it listens. The folder lies in one of these, which belong to root or the user
# alone, or keep what is in them from others.
PREFIX = "graceful_azure-"
SOCKET = "s"
NEW = "s.new"
PLACES = ("/run", "/run/user/%d", "/tmp")
# Seconds after which a folder whose helper was killed is removed by the next one.
STALE = 60.0

# The first byte of a request.
ASK, FAREWELL = b"a", b"f"
# What the helper sends as soon as it has accepted: a client that does not get it within seconds has met a process that hangs.
HELLO = b"h"
LENGTH = struct.Struct("!Q")
PEER = struct.Struct("3i")


class NotHereError(Exception):
    """There can be no helper; the text says why."""


class AlreadyThereError(Exception):
    """A helper of that name lives already."""


class EndError(BaseException):
    """The helper was told to end."""


def start(name: str, handle: Handle, places: Sequence[str] = PLACES) -> str | None:
    """Let a fork of this process go on as the helper of that name. Returns once it listens: None, or a sentence that says why there is none.

    The sentence is empty where nobody need be told, because the next task tries again.

    If there is a helper of that name already, there is nothing to do.
    """
    if len(os.listdir("/proc/self/task")) > 1:
        # A fork has none of them, but all their locks.
        return ""
    said, says = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        os.close(said)
        os.close(says)
        return "No process can be started: %s." % error
    if pid == 0:
        _go_on(name, handle, places, says)
    os.close(says)
    try:
        told = b""
        if select.select([said], [], [], START)[0]:
            told = os.read(said, 4096)
        if not told:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            return "Its process did not listen in time."
        why: str | None = json.loads(told.decode())["why"]
        return why
    finally:
        os.close(said)


def _go_on(name: str, handle: Handle, places: Sequence[str], says: int) -> NoReturn:
    """What the fork does: it never returns to the module."""
    why: str | None = None
    try:
        os.setsid()
        for number in (signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        _let_go_of_files(says)
        os.chdir("/")
        sys.meta_path.insert(0, FromMemory([path for path in sys.path if os.path.isfile(path) and zipfile.is_zipfile(path)]))
        _hide(NAME)
        with Listener(name, places) as listener:
            says = _say(says, None)
            Helper(listener, handle).serve()
    except (AlreadyThereError, EndError):
        pass
    except NotHereError as error:
        why = str(error)
    except BaseException as error:  # noqa: BLE001  pylint: disable=broad-exception-caught
        why = "%s: %s" % (type(error).__name__, error)
    finally:
        # Nothing may reach the code of the module that comes after the fork.
        _say(says, why)
        os._exit(0)


def _say(says: int, why: str | None) -> int:
    """Tell the module's process once. Returns the number with which nothing more is said."""
    if says >= 0:
        with contextlib.suppress(OSError):
            os.write(says, json.dumps({"why": why and why[:2000]}).encode())
        os.close(says)
    return -1


def _let_go_of_files(kept: int) -> None:
    """Nobody may wait for the end of the module's output.

    What still has the number of a file may close it, or even write to it, long after. So it gets a file of its own, and none that is opened from now on.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number not in (kept, null):
            os.dup2(null, number, inheritable=number < 3)


# -- what the process keeps, and what it shows ---------------------------------------------------------------------------------------------------------


class FromMemory:
    """Finds in memory what is imported later from the module's archive, which is deleted when the module ends."""

    def __init__(self, archives: Sequence[str]) -> None:
        self.sources: dict[str, tuple[bool, str, bytes]] = {}
        for archive in archives:
            with zipfile.ZipFile(archive) as opened:
                for path in opened.namelist():
                    if path.startswith("ansible") and path.endswith(".py"):
                        parts = path[:-3].split("/")
                        is_package = parts[-1] == "__init__"
                        name = ".".join(parts[:-1] if is_package else parts)
                        self.sources.setdefault(name, (is_package, "%s/%s" % (archive, path), opened.read(path)))

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        if name not in self.sources:
            return None
        return importlib.util.spec_from_loader(name, self, origin=self.sources[name][1], is_package=self.sources[name][0])  # type: ignore[arg-type]

    @staticmethod
    def create_module(_spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        _is_package, path, source = self.sources[module.__name__]
        exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)


def _hide(name: bytes) -> None:
    """Overwrite the environment and the command line of this process as others see them. What runs in it still has its environment."""
    kept = dict(os.environ)
    fields = stat_fields("self", "/proc")
    # See "man 5 proc": the fields arg_start to env_end are number 48 to 51, and the list begins with the third.
    areas = [(int(fields[45]), int(fields[46])), (int(fields[47]), int(fields[48]))] if len(fields) > 48 else []
    if not all(0 < begin <= end for begin, end in areas) or not areas:
        raise NotHereError("The kernel does not tell where the environment of a process lies, so nobody can hide it.")
    os.environ.clear()
    try:
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            for (begin, end), text in zip(areas, (name + b" helper", b"")):
                memory.seek(begin)
                memory.write(text[: max(0, end - begin - 1)].ljust(end - begin, b"\0"))
        with open("/proc/self/environ", "rb") as shown:
            left = shown.read().strip(b"\0")
    except OSError as error:
        raise NotHereError("The environment of a process cannot be hidden: %s." % error) from None
    finally:
        os.environ.update(kept)
    if left:
        raise NotHereError("The environment of a process cannot be hidden: it is still shown.")
    with contextlib.suppress(OSError), open("/proc/self/comm", "wb", buffering=0) as comm:
        comm.write(name)


# -- where it listens --------------------------------------------------------------------------------------------------------------------------------


class Listener:
    """The socket of the helper of a name, as a context. At its end, the socket and its folder are removed if they are still the same."""

    def __init__(self, name: str, places: Sequence[str]) -> None:
        self.name = name
        self.places = [place % os.geteuid() if "%d" in place else place for place in places]

    def __enter__(self) -> Listener:
        why = []
        for place in self.places:
            try:
                _check_place(place)
                remove_stale(place)
                self._listen(os.path.join(place, PREFIX + self.name))
                return self
            except OSError as error:
                why.append("%s: %s" % (place, error.strerror or error))
        raise NotHereError("No folder for its socket can be made (%s)." % "; ".join(why))

    def _listen(self, folder: str) -> None:
        self.folder, self.path = folder, os.path.join(folder, SOCKET)
        self.lock = _locked(folder)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # A client takes a socket on which nobody listens for that of a helper that was killed, and removes it.
            new = os.path.join(folder, NEW)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(new)
            self.socket.bind(new)
            os.chmod(new, 0o600)
            self.socket.listen(BACKLOG)
            self.socket.setblocking(False)
            os.rename(new, self.path)
            self.own = _identity(self.path)
        except OSError:
            self.close()
            raise

    def is_there(self) -> bool:
        """Whether whoever looks for this helper finds it."""
        return _identity(self.path) == self.own

    def close(self) -> None:
        """Close the files, in a process that does not listen."""
        self.socket.close()
        os.close(self.lock)

    def __exit__(self, *_error: object) -> None:
        if self.is_there():
            with contextlib.suppress(OSError):
                os.unlink(self.path)
                os.rmdir(self.folder)
        self.close()


def _check_place(place: str) -> None:
    """Refuse a folder in which somebody else could rename or replace what this user makes."""
    found = os.lstat(place)
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    by_others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX
    if by_others or found.st_uid not in (0, os.geteuid()):
        raise OSError(errno.EPERM, "others may change what is in it")


def _locked(folder: str) -> int:
    """Make the folder, check that it is ours alone, and lock it for as long as the helper lives. Returns the lock."""
    for _attempt in range(3):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # the helper before has just removed it
        try:
            found = os.fstat(lock)
            if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
                raise OSError(errno.EPERM, "somebody else has made %s" % os.path.basename(folder))
            _lock(lock)
            if _identity(folder) == (found.st_dev, found.st_ino):
                kept, lock = lock, -1
                return kept
        finally:
            if lock >= 0:
                os.close(lock)
    raise OSError(errno.EAGAIN, "%s is removed again and again" % os.path.basename(folder))


def _lock(file: int) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise AlreadyThereError from None
        raise


def remove_stale(place: str) -> None:
    """Remove the folders of helpers that were killed, so that they could not do it themselves. Nobody has locked these."""
    for name in os.listdir(place):
        if name.startswith(PREFIX):
            with contextlib.suppress(OSError, AlreadyThereError):
                _remove_if_stale(os.path.join(place, name))


def _remove_if_stale(folder: str) -> None:
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(lock)
        if found.st_uid == os.geteuid() and time.time() - found.st_mtime > STALE:
            _lock(lock)
            # A folder of that name may be somebody's own.
            if set(os.listdir(lock)) <= {SOCKET, NEW}:
                for name in os.listdir(lock):
                    os.unlink(name, dir_fd=lock)
                os.rmdir(folder)
    finally:
        os.close(lock)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


# -- what it answers ---------------------------------------------------------------------------------------------------------------------------------


class Helper:
    """Accepts connections, and has a fork answer each of them."""

    def __init__(self, listener: Listener, handle: Handle, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.listener = listener
        self.handle = handle
        self.monotonic = monotonic
        self.forks: dict[int, int] = {}  # by the pipe on which each says what it has loaded: its process
        self.queue: list[socket.socket] = []

    def serve(self) -> None:
        """Until it has nothing to do any more."""
        signal.signal(signal.SIGTERM, self._on_end)
        gc.freeze()  # the forks share what is there
        last = self.monotonic()
        while self.listener.is_there():
            if self._has_served() or self.forks or self.queue:
                last = self.monotonic()
            elif self.monotonic() - last >= STAY:
                return

    def _has_served(self) -> bool:
        """Wait until there is something to do, a second at most, and do it."""
        poll = select.poll()
        for number in [self.listener.socket.fileno(), *self.forks]:
            poll.register(number, select.POLLIN)
        found = poll.poll(TICK * 1000)
        for number, _event in found:
            if number in self.forks:
                self._load(number)
            else:
                self._accept()
        while self.queue and len(self.forks) < AT_ONCE:
            self._fork(self.queue.pop(0))
        return bool(found)

    def _on_end(self, *_signal: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # The forks notice that this process is gone: those that wait end, and what changes something goes on to its end.
        raise EndError

    def _accept(self) -> None:
        try:
            client = self.listener.socket.accept()[0]
        except OSError:
            return  # it is gone already
        _pid, uid, _gid = PEER.unpack(client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))
        if uid != os.geteuid():
            client.close()
            return
        with contextlib.suppress(OSError):
            client.send(HELLO)
        self.queue.append(client)

    def _fork(self, client: socket.socket) -> None:
        reads, writes = os.pipe()
        pid = os.fork()
        if pid:
            self.forks[reads] = pid
            os.close(writes)
            client.close()
            return
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self.listener.close()
            for number in [reads, *self.forks]:
                os.close(number)
            for other in self.queue:
                other.close()
            known = set(sys.modules)
            self._answer(client)
            client.close()
            os.write(writes, "\n".join(sorted(set(sys.modules) - known)).encode()[: select.PIPE_BUF])
        finally:
            os._exit(0)

    def _load(self, number: int) -> None:
        """Load what a fork has loaded, so that the next need not, and let it go if that was all."""
        names = os.read(number, select.PIPE_BUF)
        if not names:
            os.close(number)
            os.waitpid(self.forks.pop(number), 0)
        for name in names.decode().split("\n"):
            if name and name not in sys.modules:
                with contextlib.suppress(Exception):
                    importlib.import_module(name)

    def _answer(self, client: socket.socket) -> None:
        """What a fork does with its connection."""
        helper = os.getppid()

        def still_wanted() -> None:
            if os.getppid() != helper or _is_gone(client):
                raise SystemExit("Nobody waits for the answer any more.")

        try:
            kind, request = _received(client, self.monotonic)
            if kind == ASK:
                if _is_gone(client):
                    # The request may have waited for its turn for long, and be wrong by now.
                    return
                answer = self.handle(request, still_wanted)
            elif kind == FAREWELL:
                os.kill(helper, signal.SIGTERM)
                answer = {}
            else:
                raise ValueError("Nobody knows the request %r." % kind)
            told = json.dumps(answer).encode()
            if len(told) > ANSWER_LIMIT:
                raise ValueError("The answer has %d bytes; %d are allowed." % (len(told), ANSWER_LIMIT))
        except (Exception, SystemExit) as error:  # noqa: BLE001  pylint: disable=broad-exception-caught
            # A module that fails so also ends with what its process told.
            failure = {"failed": True, "msg": "%s: %s" % (type(error).__name__, error), "exception": traceback.format_exc()}
            told = json.dumps(failure).encode()
        client.settimeout(SEND)
        with contextlib.suppress(OSError):
            client.sendall(LENGTH.pack(len(told)) + told)


def _received(client: socket.socket, monotonic: Callable[[], float]) -> tuple[bytes, Any]:
    ends = monotonic() + SEND

    def bytes_of(size: int) -> bytes:
        parts = []
        while size:
            client.settimeout(max(0.01, ends - monotonic()))
            part = client.recv(min(size, 1 << 20))
            if not part:
                raise ValueError("The request is cut off.")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    kind = bytes_of(1)
    size = LENGTH.unpack(bytes_of(LENGTH.size))[0]
    if size > REQUEST_LIMIT:
        raise ValueError("The request has %d bytes; %d are allowed." % (size, REQUEST_LIMIT))
    return kind, json.loads(bytes_of(size).decode())


def _is_gone(client: socket.socket) -> bool:
    """Whether nobody waits for the answer any more. A client sends nothing after its request."""
    poll = select.poll()
    poll.register(client, select.POLLIN)
    return bool(poll.poll(0))
