# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the health answer of a Windows host is made to fail, and what the modules for health answers need of such a host."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from ansible_collections.graceful.azure.plugins.module_utils import _iis
from ansible_collections.graceful.azure.plugins.module_utils._conditions import OUT
from ansible_collections.graceful.azure.plugins.module_utils._connections import Counted
from ansible_collections.graceful.azure.plugins.module_utils._health_actions import (
    KEPT,
    Action,
    HealthFile,
    ProbeError,
    Refused,
    SeenAnswer,
    Stopped,
    UnitOfProbe,
    mark_of,
)
from ansible_collections.graceful.azure.plugins.module_utils._spellings import leads_back
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.by_platform import Pause, is_windows_path, parent_of
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.needed import no_such_action
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows import SETTLED_AGE, Windows, WindowsEntry, WindowsError
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows_connections import LOOK_SECONDS, WindowsArrivals, counted
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows_http import status_of
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows_iis import WindowsIis
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows_records import check_writable
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows_services import WindowsServices
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Options


class WindowsHealthFile(HealthFile):
    """A health file on a Windows host, in place of C(File)."""

    def __init__(self, windows: Windows, folder: str, path: str, means: str, name: str = "file") -> None:
        super().__init__(path, means, name)
        self._windows, self._folder = windows, folder
        windows.want(files=[path, path + KEPT, parent_of(path)])

    def check(self) -> None:
        if not is_windows_path(self.on):
            raise ProbeError(f"The health file {self.on} is not an absolute path of a Windows host, such as C:\\inetpub\\health\\out.txt.")
        found, _kept, parent = self._entries()
        if parent.kind != "folder":
            raise ProbeError(f"The health file {self.on} cannot be: there is no folder {parent.path}. Make the folder, or correct the option file.")
        if found.kind in ("folder", "unreadable"):
            raise ProbeError(f"The health file {self.on} {'is a folder; name a file' if found.kind == 'folder' else 'cannot be read: ' + found.error}.")

    def meaning(self, means: str) -> WindowsHealthFile:
        return WindowsHealthFile(self._windows, self._folder, self.on, means, self.name)

    def out_for(self) -> float | None:
        """For how many seconds somebody else has made the answer fail. None: the host does not tell, so whoever looks counts from there."""
        found, _kept, parent = self._entries()
        # A file that was moved there keeps its times, but the folder has changed. What was done to the folder last may have been another file.
        times = [entry.changed for entry in ((found, parent) if self.means == OUT else (parent,))]
        seen = self._windows.look(max_age=SETTLED_AGE)
        # A time in the future tells that the clock was set back since then.
        return max(0.0, min(seen.now - max(times), seen.clock)) if all(times) else None

    def fail(self, record: Json) -> None:
        found = self._entries()[0]
        if self.means == OUT:
            if found.kind == "missing":
                self._write("written", self.on, None, mark_of(record))
        elif found.kind != "missing":
            self._write(f"renamed to {self.on + KEPT}", self.on, found.content, move_to=self.on + KEPT)

    def _is_there(self, path: str) -> bool:
        found, kept, _parent = self._entries()
        return (found if path == self.on else kept).kind != "missing"

    def _content(self) -> bytes | None:
        found = self._entries()[0]
        # What is no file is somebody else's.
        return found.content if found.kind == "file" else None if found.kind == "missing" else b""

    def _remove(self) -> None:
        found = self._entries()[0]
        if found.kind != "missing":
            self._write("removed", self.on, found.content)

    def _put_back(self) -> None:
        self._write("put back", self.on + KEPT, self._entries()[1].content, move_to=self.on)

    def _entries(self) -> tuple[WindowsEntry, WindowsEntry, WindowsEntry]:
        files = {entry.path.lower(): entry for entry in self._windows.look(files=True).files}
        paths = [self.on, self.on + KEPT, parent_of(self.on)]
        missing = [path for path in paths if path.lower() not in files]
        if missing:
            # A variable of the host in the path is resolved there.
            found, kept, parent = self._windows.look(files=True).files[:3]
        else:
            found, kept, parent = (files[path.lower()] for path in paths)
        return found, kept, parent

    def _write(self, what: str, path: str, before: bytes | None, content: bytes | None = None, move_to: str = "") -> None:
        try:
            done = self._windows.write(self._folder, path, before, content, move_to)
        except WindowsError as error:
            raise Refused(f"The health file {self.on} cannot be {what}: {error}") from error
        if not done:
            raise Refused(f"The health file {self.on} was changed by somebody else at the same moment.")


class WindowsService(UnitOfProbe):
    """A service that answers the probe."""

    def redone_for(self) -> float | None:
        """Windows does not tell since when a service is down. The record tells since when it is held."""
        return None


class Site(Stopped):
    """A site of IIS that answers the probe."""

    name = "iis_site"
    errors = refusals = _iis.IisRefused

    def __init__(self, site: str, iis: WindowsIis, monotonic: Callable[[], float], sleep: Pause) -> None:
        super().__init__(site, monotonic, sleep)
        self._iis = iis

    def check(self) -> None:
        if self._show().state == _iis.MISSING:
            raise ProbeError(f"IIS has no site {self.on} (option iis_site).")

    def look(self, record: Json | None, boot_id: str | None) -> SeenAnswer:
        site = self._show()
        moves = site.state in (_iis.STARTING, _iis.STOPPING)
        # A site that was removed while it was held answers nobody.
        return SeenAnswer(_iis.Things.is_down(site), moves, f"{_iis.Things.label(site)} is {site.state}")

    def fail(self, record: Json) -> None:
        self._tell(lambda: self._iis.stop((_iis.SITE, self.on)), True)

    def pass_again(self) -> str | None:
        site = self._show()
        if site.state == _iis.MISSING:
            return f"{_iis.Things.label(site)} was stopped and is not there any more: it was not started."
        self._tell(lambda: self._iis.start((_iis.SITE, self.on)), False)
        return None

    def _show(self) -> _iis.Thing:
        return self._iis.show([(_iis.SITE, self.on)])[0]


class WindowsHealth:
    """What health answers need of a Windows host, in place of C(Health)."""

    sample_seconds = 0.2
    look_seconds = LOOK_SECONDS

    def __init__(self, windows: Windows, state_dir: str) -> None:
        self._windows = windows
        self._state_dir = state_dir
        windows.want(folder=state_dir)

    def action_from(self, params: Options) -> Action | None:
        if params["action"] is None:
            return None
        return self._action(params["action"], params.get(params["action"]), params["file_means"])

    def action_of(self, record: Json) -> Action:
        return self._action(record["subject"]["action"], record["subject"]["on"], record.get("means", OUT))

    def _action(self, name: str, on: Any, means: str) -> Action:
        if name == "file":
            return WindowsHealthFile(self._windows, self._state_dir, on, means)
        if name == "service":
            return WindowsService(on, WindowsServices(self._windows), self._windows.monotonic, self._windows.pause)
        if name == "iis_site":
            return Site(on, WindowsIis(self._windows), self._windows.monotonic, self._windows.pause)
        raise ProbeError(no_such_action(name))

    def clock(self) -> float:
        # The time since the last look has passed on the host as well.
        seen = self._windows.look(max_age=SETTLED_AGE)
        return seen.clock + self._windows.age()

    def arrivals(self, ports: Collection[int], peers: Iterable[str], monotonic: Callable[[], float]) -> WindowsArrivals:
        return WindowsArrivals(self._windows, ports, peers, monotonic)

    @staticmethod
    def file_id(path: str) -> None:
        """Nothing tells whether others have the file."""

    def connections(self, ports: Collection[int]) -> Counted:
        found = counted(self._windows, ports)
        return found._replace(connections=[entry for entry in found.connections if not leads_back(entry["peer"])])

    def ask(self, url: str, seconds: float, arrivals: WindowsArrivals | None = None) -> tuple[bool, str | None]:
        # Its own connections come from the host itself, and those are not counted.
        status, said = status_of(self._windows, url, seconds, validate_certs=False)
        return status is not None, said

    def check_writable(self, state_dir: str) -> None:
        check_writable(self._windows.look(max_age=SETTLED_AGE))
