# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The IIS of a Windows host, as its driver sees it: modules of C(microsoft.iis).

The module for pools makes a pool that is not there, so nothing is told to a pool that was not seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ansible_collections.graceful.azure.plugins.module_utils._iis import (
    MISSING,
    POOL,
    SITE,
    STARTED,
    STARTING,
    STOPPED,
    STOPPING,
    IisError,
    IisRefused,
    Thing,
    ThingKey,
    Things,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows import LOOK_AGE, Windows, as_list
from ansible_collections.graceful.azure.plugins.plugin_utils._text import as_text, first_line

MODULES = {SITE: "microsoft.iis.website", POOL: "microsoft.iis.web_app_pool"}
FOUND = {SITE: "site", POOL: "app_pools"}
"""The keys under which the modules that look return what they have found."""
STATES = {"starting": STARTING, "started": STARTED, "stopping": STOPPING, "stopped": STOPPED, "0": STARTING, "1": STARTED, "2": STOPPING, "3": STOPPED}
"""By the words of IIS, and by its numbers."""


class WindowsIis:
    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self.boot_id = windows.boot
        self._known: dict[tuple[str, str], tuple[str, float]] = {}

    def show(self, things: Iterable[Sequence[str]]) -> list[Thing]:
        return [Thing(kind, name, self._known_state(kind, name)) for kind, name in (thing[:2] for thing in things)]

    def stop(self, thing: ThingKey) -> None:
        self._tell(thing, "stopped")

    def start(self, thing: ThingKey) -> None:
        self._tell(thing, "started")

    def _known_state(self, kind: str, name: str) -> str:
        """The driver asks several times in a row. What moves is asked anew, and so is what was told something."""
        state, at = self._known.get((kind, name), ("", 0.0))
        if state not in (STARTED, STOPPED, MISSING) or self._windows.monotonic() - at > LOOK_AGE:
            state = self._state(kind, name)
            self._known[kind, name] = state, self._windows.monotonic()
        return state

    def _state(self, kind: str, name: str) -> str:
        result = self._windows.module(f"{MODULES[kind]}_info", {"name": name})
        if result.get("failed"):
            raise IisError(f"The {kind} {name} cannot be looked at: {first_line(result.get('msg'))}")
        for found in as_list(result.get(FOUND[kind])):
            if isinstance(found, dict) and as_text(found.get("name")).lower() == name.lower():
                state = found.get("state") if kind == SITE else (found.get("attributes") or {}).get("state")
                # An attribute of IIS may come with its value inside. What nobody knows counts as running.
                state = state.get("Value", state.get("value")) if isinstance(state, dict) else state
                if kind == POOL and not state and not (found.get("attributes") or {}):
                    return MISSING
                return STATES.get(as_text(state).strip().lower(), STARTED)
        return MISSING

    def _tell(self, thing: ThingKey, state: str) -> None:
        kind, name = thing
        if self._known_state(kind, name) == MISSING:
            raise IisRefused(f"IIS has no {kind} {name}.")
        self._known.pop(thing, None)
        result = self._windows.module(MODULES[kind], {"name": name, "state": state})
        # A module that fails may have done its work all the same, and then it is no refusal.
        if result.get("failed") and Things.is_up(Thing(kind, name, self._state(kind, name))) != (state == STARTED):
            raise IisRefused(f"The {kind} {name} was not {state}: {first_line(result.get('msg'))}")
