# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes times, numbers and values from outside in the form in which people read them."""

from __future__ import annotations

import json
import re
import time
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

OF_SSH = re.compile(r"(Shared c|C)onnection to \S+ closed( by remote host)?\.|Warning: Permanently added .* to the list of known hosts\.")
"""What ssh itself says beside what a module says."""
LAST_SECOND = 253402300799
"""The end of the year 9999 in Unix seconds. No later time can be shown."""
_STOP = re.compile(r"(?<!\.)\.$")


def printable(value: Any) -> Any:
    """Replace every unprintable character by an escape, in texts at any depth of the value.

    Text from events, answers and records may contain anything. A raw line break or a terminal's escape sequence could forge lines of the output.
    """
    return _with_each(value, lambda character: character.encode("unicode_escape").decode("ascii"))


def legible(value: Any) -> Any:
    """The same without an escape, for what Ansible shows as JSON: it would double the backslash. White space becomes a space."""
    return _with_each(value, lambda character: " " if character.isspace() else f"<U+{ord(character):04X}>")


def _with_each(value: Any, shown: Callable[[str], str]) -> Any:
    """The value with each unprintable character as C(shown) shows it."""
    if isinstance(value, str):
        return value if value.isprintable() else "".join(character if character.isprintable() else shown(character) for character in value)
    if isinstance(value, Mapping):
        return {_with_each(key, shown): _with_each(entry, shown) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_each(entry, shown) for entry in value]
    return value


def plain(value: Any) -> Any:
    """Plain data, whatever Ansible has made of it."""
    return json.loads(json.dumps(value, default=str))


def as_text(value: object) -> str:
    """A value as a template writes it. What is not there is an empty text."""
    return "" if value is None else str(value)


def joined(sentences: Iterable[str]) -> str:
    """Sentences as one. A full stop, which some have, stands only at the end."""
    found = list(sentences)
    return "; ".join([*(_STOP.sub("", sentence) for sentence in found[:-1]), *found[-1:]])


def failure(sentences: Iterable[str]) -> dict[str, Any]:
    """The result of a task that failed."""
    return {"failed": True, "msg": printable(" ".join(sentences))}


def first_line(text: object) -> str:
    """The first line of a message that is not empty. C(text): an error, the text itself, or None."""
    lines = (line.strip() for line in as_text(text).splitlines())
    return next(filter(None, lines), "no message")


def last_words(result: Mapping[str, Any]) -> str:
    """What a module that ended without a result has said, in one line.

    With a terminal, as ssh gives it one, the errors of the module are in its output, and only ssh itself writes to the other stream.
    """
    for key in ("module_stderr", "module_stdout"):
        lines = [line for line in map(str.strip, str(result.get(key) or "").splitlines()) if line and not OF_SSH.fullmatch(line)]
        if lines:
            return lines[-1] if lines[0].startswith("Traceback ") else lines[0]
    return first_line(result.get("module_stderr") or result.get("msg"))


def was_killed(result: Mapping[str, Any]) -> bool:
    """Whether a signal ended the process of a module, as when its machine shuts down. A module that cannot run ends in another way."""
    rc = result.get("rc")
    return isinstance(rc, int) and (rc < 0 or rc > 128)


def is_url(address: object) -> bool:
    """Whether this is the address of something that is asked over HTTP, with or without TLS."""
    text = str(address)
    try:
        parts = urllib.parse.urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and text.isprintable() and " " not in text
    except ValueError:
        return False


def shows_connections(ports: Iterable[int]) -> str:
    """What a person types on a host to see the connections to these ports."""
    return f"ss -tnp '{' or '.join(f'sport = :{port}' for port in ports)}' (Windows: netstat -n)"


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table: each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def clock(at: float, now: float | None = None) -> str:
    """A time of day in this machine's time zone. If it is not today, the date comes first."""
    # A user's time limit may be of any length.
    local = time.localtime(min(at, LAST_SECOND))
    same_day = now is None or local[:3] == time.localtime(now)[:3]
    return time.strftime("%H:%M:%S %Z" if same_day else "%Y-%m-%d %H:%M:%S %Z", local)


def duration(seconds: float) -> str:
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
