# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Times and steps as a person reads them. Private to the collection."""

from __future__ import annotations

import time
from collections.abc import Mapping

_STEPS = {
    "load_balancer": "goes out of its balancer",
    "drain_host": "its services are stopped, its tasks run",
    "approve_event": "approves",
    "restore_service": "is brought back",
}


def printable(value):
    """The value with every character that is not printable written as an escape, in texts at any depth.

    Text from events, answers and records may hold anything. Shown raw, a line break or a terminal's escape sequence would forge lines.
    """
    if isinstance(value, str):
        return "".join(character if character.isprintable() else character.encode("unicode_escape").decode("ascii") for character in value)
    if isinstance(value, Mapping):
        return {printable(key): printable(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [printable(entry) for entry in value]
    return value


def clock(at, now=None):
    """A moment on this machine's clock, with its zone; with its day where that is not today."""
    local = time.localtime(at)
    same_day = now is None or local[:3] == time.localtime(now)[:3]
    return time.strftime("%H:%M:%S %Z" if same_day else "%Y-%m-%d %H:%M:%S %Z", local)


def duration(seconds):
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def step(decided):
    """What a host does next; None where it waits."""
    if decided and (decided["role"], decided["state"]) == ("load_balancer", "in"):
        return "forgets what was held for an event that is over"
    return decided and _STEPS.get(decided["role"], decided["role"])


def unanswered(host):
    """A sentence about a host that serves and does not answer what restore_service asks."""
    when = "it is in service, and does not answer" if host.in_rotation else "when it was in service it did not answer"
    return (
        f"{when} what restore_service asks ({host.unanswered}): it would stay out after the event;"
        " correct restore_service_url or restore_service_port, or set restore_service_unanswered to warn"
    )
