# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kills a process after a while, alone or with all that it started: strike.py PID SECONDS (alone|all)."""

from __future__ import annotations

import os
import signal
import sys
import time


def offspring(pid):
    """The processes below one, also those that made a session of their own."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as stream:
                    parent = int(stream.read().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(parent, []).append(int(entry))
    found, wanted = [], [pid]
    while wanted:
        below = children.get(wanted.pop(), [])
        found += below
        wanted += below
    return found


def strike(pid, who):
    """SIGKILL, as the kernel does that is out of memory, or a container that is stopped (all)."""
    # The controller first: it must not see its workers die.
    victims = [pid, *(offspring(pid) if who == "all" else ())]
    for victim in victims:
        if victim != os.getpid():
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                pass


if __name__ == "__main__":
    time.sleep(float(sys.argv[2]))
    strike(int(sys.argv[1]), sys.argv[3])
