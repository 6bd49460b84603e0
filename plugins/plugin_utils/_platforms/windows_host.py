# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a look reads of a Windows host: its records, events, connections and clock."""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable

from ansible_collections.graceful.azure.plugins.module_utils import _health_check
from ansible_collections.graceful.azure.plugins.module_utils._connections import Counted
from ansible_collections.graceful.azure.plugins.module_utils._events import READ_SECONDS
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import utc_now
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows import SETTLED_AGE, Windows
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows_connections import LOOK_SECONDS, counted, own_addresses
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows_http import WindowsImdsClient, ask_port, ask_url
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows_records import check_writable, read_files, records_in
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Options

IDLE_SECONDS = 5.0
"""Seconds between two reads while a look waits for news: each read starts a module on the host."""


class ThisWindowsHost:
    """What a look reads of a Windows host, in place of C(ThisHost)."""

    def __init__(self, windows: Windows, params: Options) -> None:
        self.params = params
        self._windows = windows
        self.read_seconds = READ_SECONDS if params["await_idle"] or params["wait"] < IDLE_SECONDS else IDLE_SECONDS
        self.look_seconds = min(self.read_seconds, LOOK_SECONDS) if params["await_idle"] else self.read_seconds
        services = [entry["name"] for entry in [*params["duties"], *params["before"]] if entry["type"] == "service"]
        windows.want(folder=params["state_dir"], ports=params["ports"], services=services)

    def records(self) -> list[Json]:
        seen = self._windows.look(files=True)
        check_writable(seen)
        return records_in(read_files(seen), seen.folder.path)

    def client(self) -> WindowsImdsClient:
        return WindowsImdsClient(self._windows, self.params)

    def connections(self) -> Counted:
        return counted(self._windows, self.params["ports"], self.params["told_apart"])

    def ask(self) -> str | None:
        return ask(self._windows, self.params["ask"], _health_check.ANSWER_SECONDS)

    def facts(self) -> Json:
        seen = self._windows.look(max_age=SETTLED_AGE)
        folder = {"path": seen.folder.path, "id": _digest(f"{seen.computer} {seen.boot} {seen.folder.path.lower()}")}
        return {
            "time": utc_now(seen.now + self._windows.age()),
            "addresses": own_addresses(seen.addresses),
            "udp": sorted(seen.udp.intersection(self.params["ports"])),
            "network": _digest(f"{seen.computer} {seen.boot}"),
            "state_folder": folder,
            "boot_id": seen.boot,
        }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def ask(windows: Windows, asked: Options, seconds: float) -> str | None:
    """None if the port and the URL answer, otherwise why not."""
    return _health_check.ask(asked, seconds, functools.partial(ask_port, windows), functools.partial(ask_url, windows))


def clock_of(windows: Windows) -> Callable[[], float]:
    """The host's clock, by the controller's steady one: a function that tells the seconds since 1970."""
    seen = windows.look(max_age=SETTLED_AGE)
    offset = seen.now + windows.age() - time.time()
    return lambda: time.time() + offset
