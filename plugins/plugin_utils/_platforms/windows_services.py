# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The services of a Windows host, as the driver of services sees them."""

from __future__ import annotations

import re
from collections.abc import Collection

from ansible_collections.graceful.azure.plugins.module_utils._systemd import SystemdRefused, Unit, is_up
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows import Windows, WindowsError, WindowsServiceState

STATES = {
    "running": "active",
    "stopped": "inactive",
    "paused": "inactive",
    "startpending": "activating",
    "continuepending": "activating",
    "stoppending": "deactivating",
    "pausepending": "deactivating",
}
"""The states of Windows, in the words of the driver. A paused service does not serve, so it is left as it was found."""
NUMBERS = ("", "stopped", "startpending", "stoppending", "running", "continuepending", "pausepending", "paused")
"""The same by their numbers."""
NAME = re.compile(r"[^\\/\x00-\x1f]{1,256}\Z")
MISSING, DISABLED, LOADED = "not-found", "disabled", "loaded"


class WindowsServices:
    """In place of C(Systemd). A service that depends on another is stopped before it, and is remembered."""

    unknown = "There is no service %r on this host (option %s)."
    hint = "See 'Get-Service %s' on the host."

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self.boot_id = windows.boot
        self._moves = False

    def names(self, names: Collection[str], option: str = "services") -> list[str]:
        """The names as the host writes them, each once and in the order given: it compares them without case."""
        for name in names:
            if not NAME.match(name):
                raise ValueError(f"{name!r} is not the name of a Windows service (option {option}).")
        found = self._look(names)
        return list(dict.fromkeys(found[name.lower()].name if name.lower() in found else name for name in names))

    @staticmethod
    def comes_back(name: str) -> bool:
        return True

    def show(self, names: Collection[str]) -> list[Unit]:
        if not names:
            return []
        found = self._look(names)
        units = [_unit(name, found.get(name.lower())) for name in names]
        # The driver asks again and again until it has come to its end.
        self._moves = any(unit.active_state in ("activating", "deactivating") for unit in units)
        return units

    def stop(self, name: str) -> None:
        self._tell(name, "stop")

    def start(self, name: str) -> None:
        self._tell(name, "start")

    @staticmethod
    def down_for(name: str) -> None:
        """Windows does not tell since when a service is down. Whoever looks counts from there."""

    def _look(self, names: Collection[str]) -> dict[str, WindowsServiceState]:
        if self._moves:
            self._windows.forget()
        seen = self._windows.look()
        found = {service.name.lower(): service for service in seen.services}
        if not {name.lower() for name in names} <= set(found):
            self._windows.want(services=names)
            found = {service.name.lower(): service for service in self._windows.look().services}
        return found

    def _tell(self, name: str, verb: str) -> None:
        try:
            self._windows.tell_service(name, verb)
        except WindowsError as error:
            # It may have been told all the same, and then it is no refusal.
            self._windows.forget()
            if is_up(self.show([name])[0]) != (verb == "start"):
                raise SystemdRefused(f"{name} was not told to {verb}: {error}") from error


def _unit(name: str, service: WindowsServiceState | None) -> Unit:
    if service is None:
        return Unit(name, "inactive", MISSING, False, (), (), False, "")
    status = service.status.strip().lower()
    if status.isdecimal() and int(status) < len(NUMBERS):
        status = NUMBERS[int(status)]
    load_state = DISABLED if service.start.strip().lower() in ("disabled", "4") else LOADED
    # What nobody knows counts as running, because nothing is approved then.
    return Unit(service.name, STATES.get(status, "active"), load_state, False, service.dependents, (), False, "")
