# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.
# Do not use this from other collections or standalone plugins/modules!

"""What the configuration files of a running HAProxy say, as far as they can be read.

The runtime socket does not tell which backends use C(use-server). The command line of the process names its files.
Nothing here fails: a file that cannot be read tells nothing, and what happens to the server is observed anyway.
"""

from __future__ import annotations

import os
import re

# A server in `drain` still gets requests by these directives, and a server in `maint` gets none.
SERVED_IN_DRAIN = (("use-server",), ("option", "prefer-last-server"), ("persist",))
SECTIONS = ("backend", "listen")
OTHER_SECTIONS = (
    *("global", "defaults", "frontend", "peers", "resolvers", "mailers", "cache", "program", "userlist", "ring"),
    *("http-errors", "fcgi-app", "log-forward", "log-profile", "crt-store", "traces", "acme"),
)
SIZE_LIMIT = 4 << 20


def backends_served_in_drain(pids, proc="/proc"):
    """Names of the backends whose servers still get requests in `drain` because of a directive.

    ``pids``: the ids, as seen from here, of the processes that may be the HAProxy in question.
    """
    found = set()
    for path in [path for pid in pids for path in _seen_from_here(pid, proc)]:
        for section, words in _lines(path):
            if section is not None and any(tuple(words[: len(directive)]) == directive for directive in SERVED_IN_DRAIN):
                found.add(section)
    return found


def _seen_from_here(pid, proc):
    """The files of the process, and as its own file system and its master's have them, where it runs in a container.

    The process itself may be in a `chroot`. Its master is not.
    """
    status = _read(os.path.join(proc, str(pid), "status"))
    parents = re.findall(r"^PPid:\s*([1-9]\d*)$", status, re.MULTILINE)
    roots = [os.path.join(proc, str(one), "root") for one in (pid, *parents)]
    files = configuration_files(pid, proc)
    for root in roots:
        files += configuration_files(pid, proc, root)
    return files


def configuration_files(pid, proc="/proc", root=""):
    """The files that the process was started with, in its order; of a folder its `.cfg` files. ``root`` comes before each name."""
    folder = os.path.join(proc, str(pid))
    words = _read(os.path.join(folder, "cmdline")).split("\0")
    try:
        base = os.readlink(os.path.join(folder, "cwd"))
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
    files = []
    for path in (root + os.path.join(base, name) for name in named):
        if os.path.isdir(path):
            try:
                files.extend(os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(".cfg"))
            except OSError:
                continue
        else:
            files.append(path)
    return files


def _lines(path):
    """(name of the backend, words) of each line; the name is None outside of a backend."""
    section = None
    for line in _read(path).splitlines():
        words = line.split("#", 1)[0].replace('"', "").replace("'", "").split()
        if not words:
            continue
        if words[0] in SECTIONS:
            section = words[1] if len(words) > 1 else None
        elif words[0] in OTHER_SECTIONS:
            section = None
        yield section, words


def _read(path):
    try:
        # A FIFO in the place of a file must not stop the look.
        if not os.path.isfile(path):
            return ""
        with open(path, "rb") as stream:
            return stream.read(SIZE_LIMIT).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
