# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Windows host, as an action reaches it: modules of C(ansible.windows) and three short scripts.

It only reads what they return. PowerShell turns a list of one thing into that thing, numbers into texts and empty lists into null, so everything is
brought into one form here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import LOCK_SECONDS, SIZE_LIMIT
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.by_platform import Pause, script
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.needed import what_to_install
from ansible_collections.graceful.azure.plugins.plugin_utils._text import as_text, first_line, last_words
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Options, Variables

if TYPE_CHECKING:
    from ansible.plugins.action import ActionBase

STATE_DIR = r"%ProgramData%\graceful_azure"
LOOK_AGE = 3.0
"""Seconds for which a look may be used, unless something of ours has changed since: what a step reads, it reads in one look."""
SETTLED_AGE = 60.0
"""The same for what rarely changes: when the host was booted, its clock, its folder."""


class WindowsEntry(NamedTuple):
    """A file, or what is in its place."""

    path: str
    kind: str  # file, folder, link, large, missing or unreadable
    content: bytes
    error: str
    changed: float  # seconds since 1970


NOT_ASKED = WindowsEntry("", "missing", b"", "", 0.0)
"""In place of the folder if a look was not asked for it."""


class WindowsServiceState(NamedTuple):
    name: str
    status: str
    start: str
    dependents: tuple[str, ...]


class Sample(NamedTuple):
    at: float
    lines: list[str]


class WindowsLook(NamedTuple):
    """What the script C(look) tells."""

    user: str
    sid: str
    admin: bool
    computer: str
    folder: WindowsEntry
    free: float
    owner: str
    rights: list[tuple[str, int]]  # security ids and their rights, of those rules that allow something
    records: list[WindowsEntry]
    files: list[WindowsEntry]
    services: list[WindowsServiceState]
    samples: list[Sample]
    listening: set[int]
    udp: set[int]
    addresses: list[str]
    boot: str
    clock: float
    now: float


class WindowsError(Exception):
    """A module or a script could not do its work on the host. The text is a full sentence."""


def as_list(value: Any) -> list[Any]:
    """A list as PowerShell may return it: the one thing that is in it, or null."""
    if value is None or value == "":
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def as_number(value: Any) -> float:
    """A number as PowerShell may return it: a text, perhaps with the decimal comma of the host's language."""
    if isinstance(value, bool):
        raise ValueError(f"{value!r} is not a number")
    return float(str(value).strip().replace(",", ".")) if isinstance(value, str) else float(value)


def as_bool(value: Any) -> bool:
    return value.strip().lower() == "true" if isinstance(value, str) else bool(value)


def digest(content: bytes | None) -> str:
    """What the script C(write) compares. C(content): bytes, or None if there is no file."""
    return "" if content is None else hashlib.sha256(content).hexdigest()


class Windows:
    """One Windows host, for the time of one task. C(pause): how to wait on the controller for some seconds."""

    def __init__(
        self,
        action: ActionBase,
        task_vars: Variables,
        pause: Pause | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._action = action
        self._task_vars = task_vars
        self.pause = pause or time.sleep
        self.monotonic = monotonic
        self.check_mode = bool(action._task.check_mode)
        self._wanted: Options = {"folder": "", "files": [], "services": [], "ports": []}
        self._last: WindowsLook | None = None
        self._last_at: float | None = None
        self._has_written = False
        self._spent: set[str] = set()

    def module(self, name: str, args: Options) -> Json:
        """What a module of another collection returns, also if it failed. Raises AnsibleConnectionFailure if it gave no result."""
        try:
            result: Json = self._action._execute_module(module_name=name, module_args=dict(args), task_vars=self._task_vars)
        except AnsibleConnectionFailure:
            raise
        except AnsibleError as error:
            if "was not found" not in str(error):
                # Connections to Windows hosts also raise this if the host goes away meanwhile.
                raise AnsibleConnectionFailure(first_line(error)) from error
            collection = name.rpartition(".")[0]
            raise WindowsError(f"{name} is not on the controller: {what_to_install(collection)}") from None
        if "module_stdout" in result:
            raise AnsibleConnectionFailure(f"{name} ended without a result (rc {result.get('rc')}): {last_words(result)}")
        if result.get("unreachable"):
            raise AnsibleConnectionFailure(first_line(result.get("msg")))
        return result

    def script(self, name: str, **parameters: Any) -> Json:
        """Run one of our scripts. Returns the object that it told."""
        args = {"script": script(name), "parameters": parameters, "error_action": "stop"}
        result = self.module("ansible.windows.win_powershell", args)
        if result.get("failed"):
            errors = as_list(result.get("error"))
            exception = (errors[0].get("exception") or {}) if errors and isinstance(errors[0], dict) else {}
            raise WindowsError(f"{name}.ps1 failed on the host: {first_line(exception.get('message') or result.get('msg'))}")
        output = "".join(as_text(line) for line in as_list(result.get("output"))).lstrip("\ufeff").strip()
        try:
            told = json.loads(output)
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise WindowsError(f"{name}.ps1 told {output[:200]!r} instead of an object: {first_line(result.get('msg'))}")
        return told

    def want(self, folder: str | None = None, files: Iterable[str] = (), services: Iterable[str] = (), ports: Iterable[int] = ()) -> None:
        """Have the looks of this task tell these, too. Fewer looks are needed if they are known before."""
        before = json.dumps(self._wanted)
        self._wanted["folder"] = folder or self._wanted["folder"]
        for key, more in (("files", files), ("services", services), ("ports", ports)):
            self._wanted[key] += [entry for entry in dict.fromkeys(more) if entry not in self._wanted[key]]
        if json.dumps(self._wanted) != before:
            self.forget()

    def look(self, max_age: float = LOOK_AGE, once: str | None = None, watch: float = 0.0, files: bool = False) -> WindowsLook:
        """What is on the host. It may be that many seconds old.

        C(once): a name; what was looked at once under this name is not returned again. C(files): whether records and files are wanted as they are
        since we have written.
        """
        last = self._last
        if last is None or self.age() > max_age or once in self._spent or watch or files and self._has_written:
            told = self.script("look", **{key.capitalize(): value for key, value in self._wanted.items()}, Watch=watch, Limit=SIZE_LIMIT)
            last = self._last = _seen(told)
            self._last_at, self._spent, self._has_written = self.monotonic(), set(), False
        if once:
            self._spent.add(once)
        return last

    def boot(self) -> str:
        """Which boot of the host this is."""
        return self.look(max_age=SETTLED_AGE).boot

    def age(self) -> float:
        """Seconds since the last look."""
        return self.monotonic() - self._last_at if self._last_at is not None else 0.0

    def forget(self) -> None:
        """Something has changed since the last look."""
        self._last = None

    def write(self, folder: str, path: str, before: bytes | None, content: bytes | None = None, move_to: str = "") -> bool:
        """Replace a file if its content is still C(before). No content: delete it, or move it. Returns whether that was so.

        C(before) and C(content) are bytes; None if there is no file.
        """
        self._has_written = True
        told = self.script(
            "write",
            Folder=folder,
            Path=path,
            Expected=digest(before),
            Content=base64.b64encode(content).decode() if content is not None else "",
            MoveTo=move_to,
            Seconds=LOCK_SECONDS,
        )
        if not as_bool(told.get("locked")):
            raise WindowsError(f"{folder} is locked by another process for more than {LOCK_SECONDS:g} seconds: {first_line(told.get('error'))}")
        return as_bool(told.get("written"))

    def tell_service(self, name: str, verb: str) -> None:
        self.forget()
        self.script("service", Name=name, Verb=verb)


def _entry(told: Json) -> WindowsEntry:
    content = base64.b64decode(as_text(told.get("content")))
    return WindowsEntry(as_text(told["path"]), as_text(told["kind"]), content, first_line(told.get("error")), as_number(told.get("changed", 0)))


def _seen(told: Json) -> WindowsLook:
    try:
        folder = told.get("folder")
        rights = [(as_text(rule["sid"]), int(as_number(rule["rights"]))) for rule in as_list(told.get("rights")) if as_bool(rule["allow"])]
        services = [
            WindowsServiceState(as_text(one["name"]), as_text(one["status"]), as_text(one["start"]), tuple(map(as_text, as_list(one.get("dependents")))))
            for one in as_list(told.get("services"))
        ]
        samples = [Sample(as_number(one["at"]), [as_text(line) for line in as_list(one.get("lines"))]) for one in as_list(told.get("samples"))]
        seen = WindowsLook(
            user=as_text(told["user"]),
            sid=as_text(told["sid"]),
            admin=as_bool(told["admin"]),
            computer=as_text(told["computer"]),
            folder=_entry(folder) if folder else NOT_ASKED,
            free=as_number(told["free"]),
            owner=as_text(told["owner"]),
            rights=rights,
            records=[_entry(one) for one in as_list(told.get("records"))],
            files=[_entry(one) for one in as_list(told.get("files"))],
            services=services,
            samples=samples,
            listening={int(as_number(port)) for port in as_list(told.get("listening"))},
            udp={int(as_number(port)) for port in as_list(told.get("udp"))},
            addresses=[as_text(address) for address in as_list(told.get("addresses"))],
            boot=as_text(told["boot"]),
            clock=as_number(told["clock"]),
            now=as_number(told["now"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, binascii.Error) as error:
        raise WindowsError(f"look.ps1 told something that cannot be understood: {error!r}.") from None
    if not seen.boot:
        raise WindowsError("look.ps1 did not tell when the host was booted.")
    return seen
