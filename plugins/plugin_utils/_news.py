# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a look that sees a new event ends the looks that wait."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold

READ = 1.5
"""Seconds in which a host that the news name reads it itself: a look that waits reads the service once a second. If the hosts come in several waves,
that saves a pass over all of them."""


class News:
    """A file on the controller, one for each pass. The first look that sees a new event writes it, and all other looks that wait then end.

    The file does not exist before. Each line has the VMs that will see the news themselves, by their names in Azure.

    C(known): the events that are no news, as pairs of id and status.
    """

    def __init__(self, path: str, known: Collection[Sequence[str]] = ()) -> None:
        self.path = path
        self.known = known
        self.since: float | None = None

    def tell_events(
        self,
        events: Sequence[dict[str, Any]],
        expected: Iterable[str] = (),
        shown: Mapping[str, Sequence[str]] | None = None,
        not_shown: Iterable[str] = (),
    ) -> None:
        """Tell the others if a look has seen a new event, or no longer sees an event that it expects.

        C(expected): ids of the host's own events. C(shown): the events that its service has shown, by their ids, with the VMs that they name. If its
        service has never shown an event, that is no news: services may lag behind, and would tell it in each pass. C(not_shown): ids of events that
        bear the host's name and that only others have seen so far. The host goes out as soon as its own service shows them.
        """
        there = {fold(event["event_id"]) for event in events}
        first = set(map(fold, not_shown))
        new = [event for event in events if fold(event["event_id"]) in first or [fold(event["event_id"]), event["event_status"]] not in self.known]
        gone = [names for event_id, names in (shown or {}).items() if fold(event_id) not in there]
        if new or gone or not set(map(fold, expected)) <= there:
            self.tell({name for names in [*gone, *(event["resources"] for event in new)] for name in names})

    def tell(self, named: Iterable[str] = ()) -> None:
        """Tell the others that there is something to do. C(named): the VMs that soon read it from their own service."""
        try:
            # One write, so that nobody reads half a line.
            with open(self.path, "ab", buffering=0) as file:
                file.write(json.dumps(sorted(name.lower() for name in named)).encode() + b"\n")
        except OSError:
            pass  # the other looks wait until their time is over

    def end(self, name: str | None = None) -> bool:
        """Whether the look at the host with this name in Azure must end.

        A host that the news name gets some seconds more: it then reads the event itself, and needs no second look.
        """
        if not os.access(self.path, os.R_OK):
            return False  # as nearly always: each look that waits asks ten times a second, and to fail to open a file takes as long as all else
        try:
            with open(self.path, encoding="utf-8") as file:
                told = [json.loads(line) for line in file]
        except (OSError, ValueError):
            return False
        if self.since is None:
            self.since = time.monotonic()
        is_named = any((name or "").lower() in names for names in told)
        return not is_named or time.monotonic() - self.since >= READ
