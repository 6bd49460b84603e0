# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The records of holds on a Windows host.

The files are those of other hosts: the same format, the same names. They lie in C(%ProgramData%\\graceful_azure). A script writes each of them beside the
old one and then replaces it, if the old one is still what was read. So a record that somebody else has changed meanwhile is never overwritten, and no
lock is held between two calls: the whole step begins anew.
"""

from __future__ import annotations

import contextlib
import ntpath
from collections.abc import Callable, Iterator
from typing import TypeVar

from ansible_collections.graceful.azure.plugins.module_utils._hold_records import (
    NOTHING_TOUCHED,
    SIZE_LIMIT,
    DamagedRecordError,
    HoldError,
    Store,
    check_name,
    is_record,
    parse_record,
    path_aside,
    record_name,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.by_platform import is_windows_path
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows import SETTLED_AGE, STATE_DIR, Windows, WindowsEntry, WindowsError, WindowsLook
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json

Returned = TypeVar("Returned")

TRUSTED = {
    "S-1-5-18": "the system",
    "S-1-5-32-544": "administrators",
    "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464": "the installer of Windows",
    "S-1-3-0": "whoever creates a file",
}
"""Who may write records besides the user of the task."""
CHANGES = 0x2 | 0x4 | 0x40 | 0x40000 | 0x80000 | 0x10000000 | 0x40000000
"""The rights to write, append, delete within, take over, or all of that."""
BOM = b"\xef\xbb\xbf"
STEPS = 3
"""How often a step is begun anew because somebody else has changed a record meanwhile."""


class MeanwhileError(HoldError):
    """Somebody else has changed a record since it was read."""

    def __init__(self, path: str) -> None:
        super().__init__(f"The record {path} was changed by somebody else meanwhile. {NOTHING_TOUCHED}", path)


def check_folder(seen: WindowsLook) -> None:
    """Raises HoldError if others could put records into the folder. A missing folder is none: it is made by the first record."""
    folder = seen.folder
    if folder.kind == "missing":
        return
    if folder.kind == "unreadable":
        raise HoldError(f"The state folder {folder.path} cannot be reached: {folder.error}", folder.path)
    if folder.kind != "folder":
        what = "is a link" if folder.kind == "link" else "is not a folder"
        raise HoldError(f"The state folder {folder.path} {what}.", folder.path)
    if seen.owner not in TRUSTED and seen.owner != seen.sid:
        raise HoldError(f"The state folder {folder.path} belongs to {seen.owner}; it must belong to administrators or to {seen.user}.", folder.path)
    for sid, rights in seen.rights:
        if rights & CHANGES and sid not in TRUSTED and sid != seen.sid:
            raise HoldError(f"The state folder {folder.path} may be written by {sid}; name a folder that only administrators may write.", folder.path)


def check_writable(seen: WindowsLook) -> None:
    """Raises HoldError if no record could be written there."""
    check_folder(seen)
    if not seen.admin:
        raise HoldError(
            f"The state folder {seen.folder.path} cannot be written by {seen.user}, who is no administrator. Connect as one, or use become with runas.",
            seen.folder.path,
        )
    if seen.free == 0:
        raise HoldError(f"The state folder {seen.folder.path} lies on a drive that is full.", seen.folder.path)


class WindowsStore(Store):
    def __init__(self, windows: Windows, state_dir: str, dry: bool = False) -> None:
        super().__init__(state_dir, dry=dry)
        if not is_windows_path(self.state_dir):
            raise HoldError(f"The state folder {self.state_dir} is not an absolute path of a Windows host, such as {STATE_DIR}.", self.state_dir)
        self._windows = windows
        self._files: dict[str, bytes] | None = None
        windows.want(folder=self.state_dir)

    @contextlib.contextmanager
    def locked(self, create: bool = False) -> Iterator[bool]:
        """Read all records. What is written in the block is refused if somebody else was faster."""
        self._files = None
        yield self._read_files() is not None

    def path(self, kind: str, subject: Json) -> str:
        return ntpath.join(self.folder, record_name(kind, subject))

    @property
    def folder(self) -> str:
        """The folder, with its variables resolved by the host."""
        return self._windows.look(max_age=SETTLED_AGE).folder.path

    def _times(self) -> tuple[float, float | None]:
        seen = self._windows.look(max_age=SETTLED_AGE)
        return seen.now, seen.folder.changed if seen.folder.kind == "folder" else None

    def _load(self, path: str) -> Json | None:
        content = self._read_files().get(ntpath.basename(path))
        return None if content is None else _parse(content, path)

    def _load_all(self) -> list[Json]:
        return records_in(self._read_files(), self.folder)

    def _origin(self) -> dict[str, str]:
        return {}

    def _save(self, path: str, data: bytes | None) -> None:
        self._change(path, data)

    def _drop(self, path: str) -> None:
        self._change(path, None)

    def _change(self, path: str, data: bytes | None) -> None:
        files = self._read_files()
        name = ntpath.basename(path)
        if data is None and name not in files:
            return
        try:
            written = self._windows.write(self.folder, path, files.get(name), data)
        except WindowsError as error:
            raise HoldError(f"The record {path} cannot be {'removed' if data is None else 'written'}: {error}", path) from None
        if not written:
            raise MeanwhileError(path)
        if data is None:
            del files[name]
        else:
            files[name] = data

    def _read_files(self) -> dict[str, bytes]:
        """The records as bytes, by the names of their files."""
        if self._files is None:
            seen = self._windows.look(files=True)
            check_folder(seen)
            self._files = read_files(seen)
        return self._files


def _entries(seen: WindowsLook) -> Iterator[WindowsEntry]:
    """What a look has told of the folder's records."""
    for entry in sorted(seen.records):
        name = ntpath.basename(entry.path)
        if is_record(name.lower()) and entry.kind != "missing":
            yield entry


def _content(entry: WindowsEntry) -> bytes:
    if entry.kind != "file":
        why = {"link": "it is a link", "folder": "it is a folder", "large": f"it is larger than {SIZE_LIMIT} bytes"}.get(entry.kind, entry.error)
        raise HoldError(f"The record {entry.path} cannot be read: {why}. {NOTHING_TOUCHED}", entry.path)
    return entry.content


def read_files(seen: WindowsLook) -> dict[str, bytes]:
    """The records that a look has told, as bytes by the names of their files. Raises HoldError for the first that cannot be read."""
    return {ntpath.basename(entry.path): _content(entry) for entry in _entries(seen)}


def put_aside(windows: Windows, state_dir: str, dry: bool = False) -> tuple[list[dict[str, str]], list[HoldError]]:
    """Rename every damaged record, as C(put_aside) of other hosts does. What is no file is left where it is."""
    aside: list[dict[str, str]] = []
    left: list[HoldError] = []
    WindowsStore(windows, state_dir)  # checks the path, and has the looks tell what is there
    seen = windows.look(files=True)
    check_folder(seen)
    for entry in _entries(seen):
        try:
            _parse(_content(entry), entry.path)
        except DamagedRecordError as problem:
            to = path_aside(entry.path)
            if not dry:
                try:
                    moved = windows.write(seen.folder.path, entry.path, entry.content, move_to=to)
                except WindowsError as error:
                    raise HoldError(f"The record {entry.path} cannot be renamed: {error}", entry.path) from error
                if not moved:
                    raise MeanwhileError(entry.path) from None
            aside.append({"path": entry.path, "to": to, "problem": str(problem)})
        except HoldError as problem:
            left.append(problem)
    return aside, left


def records_in(files: dict[str, bytes], folder: str) -> list[Json]:
    """The records, each with its path. Raises HoldError for the first that is damaged."""
    return [_parse(content, ntpath.join(folder, name)) for name, content in files.items()]


def _parse(content: bytes, path: str) -> Json:
    # An editor of Windows may have put it there.
    record = parse_record(content[len(BOM) :] if content.startswith(BOM) else content, path)
    check_name(record, ntpath.basename(path))
    return record


def anew(step: Callable[[], Returned]) -> Returned:
    """Take a step, and begin it anew if somebody else has changed a record meanwhile. C(step): makes its own store."""
    for _left in range(STEPS - 1):
        with contextlib.suppress(MeanwhileError):
            return step()
    return step()
