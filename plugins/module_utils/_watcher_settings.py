# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be said of the settings of the watcher without its machine. The role says it before it changes anything, and the watcher when it starts."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ansible_collections.graceful.azure.plugins.module_utils._events import EVENT_TYPES, HOST_NAME
from ansible_collections.graceful.azure.plugins.module_utils._spellings import leads_back

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# Who says so in what the watcher sends and writes.
SOURCE = "graceful.azure.event_watcher"
RUN, AWX, EDA, FILE = ACTIONS = ("run", "awx", "eda", "file")
TOKEN, HOST_CONFIG_KEY, HMAC = "token", "host_config_key", "hmac"
# How the URL of a job template ends.
JOB_TEMPLATE = re.compile(r"/job_templates/[^/]+/?\Z")
# How each action that asks somebody over the network may show who it is.
AUTHS = {AWX: (TOKEN, HOST_CONFIG_KEY), EDA: (TOKEN, HMAC)}


def mistakes_in(values: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Whole sentences, which never repeat a secret. C(prefix): what stands before the name of each setting."""
    mistakes: list[str] = []
    action = values["action"]
    if action not in ACTIONS:
        given = "is not given" if not action else f"is {action!r}"
        mistakes.append(f"{prefix}action {given}: it must be one of {', '.join(ACTIONS)}.")
    for name in ("command", "fast_path", "fast_path_undo"):
        if not _is_command(values[name]):
            mistakes.append(f"{prefix}{name} must be a list of strings: a program and its arguments.")
    if not _is_command(values["fast_path_types"]) or set(values["fast_path_types"]) - set(EVENT_TYPES):
        mistakes.append(f"{prefix}fast_path_types must be a list of {', '.join(EVENT_TYPES)}.")
    elif values["fast_path"] and not values["fast_path_types"]:
        mistakes.append(f"{prefix}fast_path_types is empty, so {prefix}fast_path would never run.")
    if action == RUN and not values["command"]:
        mistakes.append(f"{prefix}action run needs {prefix}command.")
    if values["fast_path_undo"] and not values["fast_path"]:
        mistakes.append(f"{prefix}fast_path_undo is given, but no {prefix}fast_path that it undoes.")
    for name in ("command_timeout", "repeat"):
        value = values[name]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 1:
            mistakes.append(f"{prefix}{name} must be a number of seconds from 1 up, not {value!r}.")
    target = values.get("target")
    if target and not all(map(HOST_NAME.match, str(target).split(","))):
        mistakes.append(f"{prefix}target must be the name of a group or a host, or several with commas between them, not {target!r}.")
    if target and action == AWX and values["auth"] == HOST_CONFIG_KEY:
        mistakes.append(f"{prefix}target is of no use with {prefix}auth {HOST_CONFIG_KEY}: a provisioning callback starts a job for this host alone.")
    if action in AUTHS:
        mistakes += _network_mistakes(action, values["auth"], values["url"], prefix)
    return mistakes


def _is_command(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) and word and "\0" not in word for word in value)


def _network_mistakes(action: str, auth: str, url: Any, prefix: str) -> list[str]:
    if auth not in AUTHS[action]:
        return [f"{prefix}auth is {auth!r}: with {prefix}action {action} it must be one of {', '.join(AUTHS[action])}."]
    if not isinstance(url, str) or not url:
        return [f"{prefix}action {action} needs {prefix}url."]
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return [f"{prefix}url {url!r} cannot be understood: {error}."]
    if parts.username is not None or parts.password is not None:
        # The URL itself is not shown: it has a password in it.
        return [f"{prefix}url must not carry a user name or password."]
    if parts.scheme not in ("https", "http") or not parts.hostname or port == 0 or not re.match(r"[!-~]+\Z", url) or parts.fragment:
        return [f"{prefix}url must be like https://awx.example.com/..., not {url!r}."]
    if parts.scheme == "http" and auth != HMAC and not leads_back(parts.hostname):
        return [f"{prefix}url {url!r} would send the {auth} unencrypted: it must begin with https://."]
    if action == AWX and (parts.query or not JOB_TEMPLATE.search(parts.path)):
        return [f"{prefix}url must be that of a job template, like https://awx.example.com/api/v2/job_templates/7/, not {url!r}."]
    return []
