# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with the variables of the role event_watcher, as far as the controller can tell. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.graceful.azure.plugins.module_utils._watcher_settings import AUTHS, mistakes_in
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.by_platform import WINDOWS, told_by
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.needed import VARIABLES

PREFIX = "event_watcher_"
COMMANDS = ("command", "fast_path", "fast_path_undo")
SECONDS = ("repeat", "command_timeout")
IS_WINDOWS = "is a Windows host, and the watcher is a service of systemd. Start the playbook handle_events by a schedule, or with watch_events."


def mistakes(given: Mapping[str, Any]) -> list[str]:
    """Whole sentences. C(given): the variables without their prefix, as the user gave them. The argument spec has only looked at copies that it converted.

    Besides, what the host is called (C(host)) and by which its platform is told, empty if not set.
    """
    found = []
    if told_by({name: given[name] for name in VARIABLES if given[name]}) == WINDOWS:
        found.append(f"{given['host']} {IS_WINDOWS}")
    return found + (_of_present(given) if given["state"] == "present" else [])


def _of_present(given: Mapping[str, Any]) -> list[str]:
    found = list(_of_lists(given))
    if found:
        return found
    # A number is a word, too: a port is a number in YAML.
    commands = {name: list(map(str, given[name])) for name in COMMANDS}
    seconds = {name: _number(given[name]) for name in SECONDS}
    found = mistakes_in({**given, **commands, **seconds, "fast_path_types": list(given["fast_path_types"])}, PREFIX)
    return found + (list(_of_secret(given)) if given["action"] in AUTHS else [])


def _of_lists(given: Mapping[str, Any]) -> Iterator[str]:
    names = (*COMMANDS, "fast_path_types")
    if not all(isinstance(given[name], (list, tuple)) for name in names):
        yield f"{', '.join(PREFIX + name for name in names[:-1])} and {PREFIX}{names[-1]} must be lists, like [touch, /run/out]."
    elif any(word == "" or isinstance(word, bool) or not isinstance(word, (str, int, float)) for name in COMMANDS for word in given[name]):
        yield f"A word of {PREFIX}command, {PREFIX}fast_path or {PREFIX}fast_path_undo is empty, or neither text nor a number."


def _number(value: Any) -> Any:
    try:
        return value if isinstance(value, (int, float)) else float(value)
    except (TypeError, ValueError):
        return value


def _of_secret(given: Mapping[str, Any]) -> Iterator[str]:
    secret = given["secret"]
    if bool(secret) == bool(given["secret_file"]):
        yield f"{PREFIX}secret and {PREFIX}secret_file: exactly one of the two must be given."
    if secret and not re.match(r"[!-~]+\Z", str(secret)):
        yield f"{PREFIX}secret must be one line of printable characters without blanks."
