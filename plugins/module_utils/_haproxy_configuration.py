# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the configuration files of a running HAProxy, if they can be read.

The runtime socket does not tell which backends use C(use-server) and the like. The command line of the process names its files.
Nothing here fails: a file that cannot be read tells nothing, and what happens to the server is observed anyway.
"""

from __future__ import annotations

import itertools
import os
import re
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.graceful.azure.plugins.module_utils._conditions import MAINT
from ansible_collections.graceful.azure.plugins.module_utils._proc import command_line, has_same_file, parent, path_through_root, program, started_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    # The words with which a directive begins.
    Directive = tuple[str, ...]

# A server in `drain` still gets requests by these directives, and a server in `maint` gets none.
SERVED_IN_DRAIN: tuple[Directive, ...] = (("use-server",), ("option", "prefer-last-server"), ("persist",))
# By these it gets requests even in `maint`.
SERVED_IN_MAINT: tuple[Directive, ...] = (("option", "persist"), ("force-persist",))
# By this, HAProxy ends the sessions of a server when that goes to `maint`.
CUT_IN_MAINT: tuple[Directive, ...] = (("on-marked-down", "shutdown-sessions"),)
# By this, a backend without servers sends requests where the client wanted to go.
TRANSPARENT: tuple[Directive, ...] = (("option", "transparent"),)
# Code in Lua may open connections of its own, if one of these words is in it.
LUA = ("lua-load", "lua-load-per-thread")
CONNECTS = re.compile(r"\b(tcp|httpclient|require|dofile|load\w*|io|os)\b")
# Without one of these words, a configuration has none of that. Each look asks, and to read a large one line by line takes long.
PAST = re.compile(r"dispatch|transparent|lua-load")
# What makes it uncertain that a server that is out gets none, wherever it stands: one of these words, or a variable in place of a directive.
DOUBTFUL = re.compile(r"persist|use-server|prefer-last-server|(?<!re)dispatch|transparent|set-dst|lua-|^\s*(no\s+)?(option\s+)?\S*\$", re.MULTILINE)
# By these, a server in `drain` still gets requests of clients that had it before. HAProxy's balancing chooses no server in `drain`, not even for
# `prefer-last-server` or a client that has authenticated its connection (srv_currently_usable in its source).
BOUND = re.compile(r"cookie|appsession|stick(?!-table)")
# Seconds by which a file must be older than the process that has loaded it. Its start is told to a second.
OLDER = 2.0
# A word of a line, or a comment; and what does not belong to the word itself.
WORD = re.compile(r"""#.*|(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^\s#'"\\])+""")
QUOTING = re.compile(r"""\\(.)|['"]""")
# An environment variable.
VARIABLE = re.compile(r"\$(?:\{[^}]*\}|\w+)")
SECTIONS = ("backend", "listen")
SERVERS = ("server", "default-server", "server-template")
OTHER_SECTIONS = (
    *("global", "frontend", "peers", "resolvers", "mailers", "cache", "program", "userlist", "ring"),
    *("http-errors", "fcgi-app", "log-forward", "log-profile", "crt-store", "traces", "acme"),
)
SIZE_LIMIT = 4 << 20


def backends_served_in_drain(pids: Iterable[int], known: Collection[str], proc: str = "/proc") -> set[str]:
    """Names of the backends whose servers still get requests in `drain` because of a directive.

    ``pids``: the ids, as seen from here, of the processes that may be the HAProxy in question. ``known``: the names of all its backends.
    """
    return _backends_of(SERVED_IN_DRAIN, pids, known, proc)


def backends_served_in_maint(pid: int, known: Collection[str], proc: str = "/proc") -> set[str] | None:
    """Names of the backends whose servers still get requests in `maint`. None if the configuration cannot be read."""
    if not any(files and all(map(_read, files)) for files in _seen_from_here(pid, proc)):
        return None
    return _backends_of(SERVED_IN_MAINT, [pid], known, proc)


def backends_cut_in_maint(pids: Iterable[int], known: Collection[str], proc: str = "/proc") -> set[str]:
    """Names of the backends in which a server, or all of them by default, loses its sessions when it goes to `maint`. Nothing if that cannot be read."""
    return _backends_of(CUT_IN_MAINT, pids, known, proc)


def _backends_of(wanted: Iterable[Directive], pids: Iterable[int], known: Collection[str], proc: str) -> set[str]:
    return {name for pid in pids for files in _seen_from_here(pid, proc) for name in _backends_with(wanted, files, known)}


class Destinations(NamedTuple):
    """What sends requests past the servers of a backend."""

    # Backends with the address of their C(dispatch).
    dispatches: tuple[tuple[str, str], ...]
    # Backends with C(option transparent).
    transparent: frozenset[str]
    # Directives that load code which may connect anywhere.
    lua: tuple[str, ...]


def destinations(pid: int, known: Collection[str], proc: str = "/proc") -> Destinations:
    dispatches: dict[tuple[str, str], None] = {}
    transparent: set[str] = set()
    lua: dict[str, None] = {}
    for files in _seen_from_here(pid, proc):
        if not any(PAST.search(_text(path)) for path in files):
            continue
        transparent.update(_backends_with(TRANSPARENT, files, known))
        section: list[str] = []
        for words in (words for path in files for words in _lines(path)):
            if words[0] in (*SECTIONS, *OTHER_SECTIONS, "defaults"):
                section = words
            elif words[0] == "dispatch" and section[:1] and section[0] in SECTIONS:
                dispatches.update(((name, "".join(words[1:2])), None) for name in _meant("".join(section[1:2]), known))
            elif words[0] in LUA and _may_connect(words[1:2]):
                lua[" ".join(words[:2])] = None
    return Destinations(tuple(dispatches), frozenset(transparent), tuple(lua))


def _may_connect(path: list[str]) -> bool:
    """Whether code in Lua may open connections. It is so if the code cannot be read from here."""
    text = _text(path[0]) if path and os.path.isabs(path[0]) else ""
    return not text or CONNECTS.search(text) is not None


def is_never_served(pid: int, state: str, proc: str = "/proc") -> bool:
    """Whether the process has loaded nothing by which a server in this state, `drain` or `maint`, could get requests. False if anything is uncertain.

    The files must be those that the process or its master has at these names, and be older than the process. So a file that was changed and not loaded, or
    one that has the same name in a container, proves nothing.
    """
    started, paths = started_at(pid, proc), named_files(pid, proc)
    ours = [one for one in (pid, *_parents(pid, proc)) if program(one, proc) == program(pid, proc)]
    try:
        # A folder tells whether a file in it was removed.
        files = [each for path in paths for each in _files_at(path)]
        changed = max((_changed(each) for each in (*paths, *files)), default=None)
    except OSError:
        return False
    if started is None or changed is None or changed > started - OLDER or any(os.path.getsize(each) > SIZE_LIMIT for each in files):
        return False
    if not all(any(has_same_file(one, path, proc) for one in ours) for path in paths):
        return False
    # Quotes and backslashes may stand within a word.
    texts = [_text(each).replace("\\", "") for each in files]
    doubtful = [DOUBTFUL] if state == MAINT else [DOUBTFUL, BOUND]
    return bool(texts) and all(text and not any(words.search(text) for words in doubtful) for text in texts)


def _changed(path: str) -> float:
    """When a file, or a link to it, was changed."""
    return max(at for status in (os.stat(path), os.lstat(path)) for at in (status.st_mtime, status.st_ctime))


def _meant(name: str, known: Collection[str]) -> list[str]:
    """The names of backends that a name with environment variables may stand for."""
    pattern = ".*".join(map(re.escape, VARIABLE.split(name)))
    return [name] if "$" not in name else [each for each in known if re.match(pattern + r"\Z", each)]


def _backends_with(wanted: Iterable[Directive], files: Iterable[str], known: Collection[str]) -> list[str]:
    backends: dict[str, set[Directive]] = {}
    defaults: dict[str | None, set[Directive]] = {}
    latest: str | None = None
    for path in files:
        directives: set[Directive] | None = None
        for words in _lines(path):
            # A section may name its defaults. Otherwise it takes the last defaults before it.
            named = words[words.index("from") + 1 :][:1] if "from" in words[1:] else []
            if words[0] == "defaults":
                latest = " ".join(words[1:2])
                directives = defaults[latest] = set(defaults.get("".join(named), ())) if named else set()
            elif words[0] in SECTIONS:
                directives = backends[" ".join(words[1:2])] = set(defaults.get("".join(named) if named else latest, ()))
            elif words[0] in OTHER_SECTIONS:
                directives = None
            elif directives is not None:
                no = words[0] == "no"
                for directive in wanted:
                    # Some are parameters of servers.
                    at = words.index(directive[0]) if words[0] in SERVERS and directive[0] in words else no
                    if tuple(words[at:][: len(directive)]) == directive:
                        (directives.discard if no else directives.add)(directive)
    return [each for name, directives in backends.items() if name and directives for each in _meant(name, known)]


def _seen_from_here(pid: int, proc: str) -> list[list[str]]:
    """The files of the process, and as its own file system and its master's have them, where it runs in a container.

    The process itself may be in a `chroot`. Its master is not. A list of files for each place.
    """
    return [configuration_files(pid, proc, root) for root in (None, pid, *_parents(pid, proc))]


def _parents(pid: int, proc: str) -> list[int]:
    master = parent(pid, proc)
    return [master] if master else []


def configuration_files(pid: int, proc: str = "/proc", root: int | None = None) -> list[str]:
    """The files that the process was started with, in its order; of a folder its `.cfg` files. ``root``: a process that has the files at these names."""
    files: list[str] = []
    for path in named_files(pid, proc):
        try:
            files.extend(_files_at(path if root is None else path_through_root(root, path, proc)))
        except OSError:
            continue
    return files


def named_files(pid: int, proc: str) -> list[str]:
    """The files and folders that the command line of a process names."""
    words = command_line(pid, proc)
    try:
        base = os.readlink(os.path.join(proc, str(pid), "cwd"))
    except OSError:
        base = "/"
    named = []
    for position, word in enumerate(words[1:-1], 1):
        if word == "-C":
            base = os.path.join(base, words[position + 1])
        elif word == "-f":
            named.append(words[position + 1])
        elif word == "--":
            named.extend(name for name in words[position + 1 :] if name)
            break
    return [os.path.join(base, name) for name in named]


def _files_at(path: str) -> list[str]:
    """The file itself, or those in a folder. HAProxy leaves hidden files out, such as the backup of an editor."""
    if not os.path.isdir(path):
        return [path]
    return [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(".cfg") and not name.startswith(".")]


def _lines(path: str) -> Iterator[list[str]]:
    """The words of each line that is not empty."""
    lines = map(_words, _read(path).splitlines())
    return (words for words in lines if words)


def _words(line: str) -> list[str]:
    """The words of a line as HAProxy reads them: a comment begins wherever a # stands that is neither quoted nor behind a backslash."""
    if not QUOTING.search(line):
        return line.split("#", 1)[0].split()
    return [QUOTING.sub(r"\1", word) for word in itertools.takewhile(lambda word: not word.startswith("#"), WORD.findall(line))]


def _text(path: str) -> str:
    """What a file says, without quotes."""
    return _read(path).replace('"', "").replace("'", "")


def _read(path: str) -> str:
    try:
        # If a file is a FIFO, the read must not hang.
        if not os.path.isfile(path):
            return ""
        with open(path, "rb") as stream:
            return stream.read(SIZE_LIMIT).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
