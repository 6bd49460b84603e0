# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings, and the one secret. Every mistake is a whole sentence that names the setting, never the secret."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from urllib.parse import urlsplit

from . import system

RUN, AWX, EDA, FILE = ACTIONS = ("run", "awx", "eda", "file")
TOKEN, HOST_CONFIG_KEY, HMAC = "token", "host_config_key", "hmac"
TYPES = ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")
AUTHS = {AWX: (TOKEN, HOST_CONFIG_KEY), EDA: (TOKEN, HMAC)}
# Of a secret file: where the service manager puts credentials.
CREDENTIAL = "credential:"
SECRET_LIMIT = 4096

DEFAULTS = {
    "action": None,
    "command": [],
    "command_timeout": 4200.0,
    "url": None,
    "auth": TOKEN,
    "secret_file": None,
    "ca_file": None,
    "path": None,
    "fast_path": [],
    "fast_path_undo": [],
    "fast_path_types": ["Preempt", "Terminate"],
    "repeat": 60.0,
    "textfile": None,
    "imds_url": "http://169.254.169.254",
    "resource_name": None,
    "state_dir": "/var/lib/graceful_azure",
    "data_dir": "/var/lib/graceful-azure-watcher",
    "run_dir": "/run/graceful-azure-watcher",
}


class SettingsError(Exception):
    """Something that cannot be used. Its text is one or more whole sentences."""


class Settings:
    """Those of a file. ``in_unit`` is False where the service manager gives no credentials, which are not looked at then."""

    def __init__(self, values, in_unit=True):
        unknown = sorted(set(values) - set(DEFAULTS))
        if unknown:
            raise SettingsError(f"{', '.join(unknown)}: no such setting.")
        self.__dict__.update(DEFAULTS, **values)
        self.in_unit = in_unit
        self.digest = digest(dict(DEFAULTS, **values))
        mistakes = find_mistakes(self)
        if mistakes:
            raise SettingsError(" ".join(mistakes))

    def secret(self):
        """The secret, read anew: it may have been replaced. SettingsError."""
        return read_secret(self.secret_file)


def digest(values):
    """What tells them from other settings, in a word."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]


def read(path):
    """The settings of a file, with the defaults, not looked at any further."""
    try:
        values = json.loads(system.read_regular(path).decode("utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"The settings {path} cannot be read: {error}.") from None
    if not isinstance(values, dict):
        raise SettingsError(f"The settings {path} are not a JSON object.")
    return dict(DEFAULTS, **values)


def find_mistakes(settings):
    mistakes = _text_mistakes(settings)
    if mistakes:
        return mistakes
    if settings.action not in ACTIONS:
        given = "is not given" if not settings.action else f"is {settings.action!r}"
        mistakes.append(f"action {given}: it must be one of {', '.join(ACTIONS)}.")
    for name in ("command", "fast_path", "fast_path_undo"):
        if not _is_command(getattr(settings, name)):
            mistakes.append(f"{name} must be a list of strings: a program and its arguments.")
    if not _is_command(settings.fast_path_types) or set(settings.fast_path_types) - set(TYPES):
        mistakes.append(f"fast_path_types must be a list of {', '.join(TYPES)}.")
    if settings.action == RUN and not settings.command:
        mistakes.append("action run needs command.")
    if settings.fast_path_undo and not settings.fast_path:
        mistakes.append("fast_path_undo is given, but no fast_path that it undoes.")
    for name in ("command_timeout", "repeat"):
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 1:
            mistakes.append(f"{name} must be a number of seconds from 1 up, not {value!r}.")
    if settings.action in AUTHS:
        mistakes += _network_mistakes(settings)
    return mistakes


def _text_mistakes(settings):
    mistakes = []
    for name, default in DEFAULTS.items():
        value = getattr(settings, name)
        # What has no default may be missing.
        if (isinstance(default, str) or (default is None and value is not None)) and not isinstance(value, str):
            mistakes.append(f"{name} must be text, not {value!r}.")
    return mistakes


def _is_command(value):
    return isinstance(value, list) and all(isinstance(word, str) and word and "\0" not in word for word in value)


def _network_mistakes(settings):
    auths = AUTHS[settings.action]
    if settings.auth not in auths:
        return [f"auth is {settings.auth!r}: with action {settings.action} it must be one of {', '.join(auths)}."]
    mistakes = url_mistakes(settings.action, settings.auth, settings.url)
    if not settings.secret_file:
        mistakes.append(f"action {settings.action} needs secret_file, the file with its {settings.auth}.")
    elif settings.in_unit or not settings.secret_file.startswith(CREDENTIAL):
        try:
            settings.secret()
        except SettingsError as error:
            mistakes.append(str(error))
    # OpenSSL would wait for ever for somebody to write to a FIFO.
    if settings.ca_file and not (os.access(settings.ca_file, os.R_OK) and os.path.isfile(settings.ca_file)):
        mistakes.append(f"ca_file {settings.ca_file} cannot be read.")
    return mistakes


def url_mistakes(action, auth, url):
    if not isinstance(url, str) or not url:
        return [f"action {action} needs url."]
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return [f"url {url!r} cannot be understood: {error}."]
    if parts.username is not None or parts.password is not None:
        # The URL itself is not shown: it has a password in it.
        return ["url must not carry a user name or password."]
    if parts.scheme not in ("https", "http") or not parts.hostname or port == 0 or not re.match(r"[!-~]+\Z", url) or parts.fragment:
        return [f"url must be like https://awx.example.com/..., not {url!r}."]
    if parts.scheme == "http" and auth != HMAC and not _is_loopback(parts.hostname):
        return [f"url {url!r} would send the {auth} unencrypted: it must begin with https://."]
    if action == AWX and (parts.query or not re.search(r"/job_templates/[^/]+/?\Z", parts.path)):
        return [f"url must be that of a job template, like https://awx.example.com/api/v2/job_templates/7/, not {url!r}."]
    return []


def _is_loopback(host):
    return host in ("localhost", "::1") or bool(re.match(r"127\.[0-9.]+\Z", host))


def read_secret(path):
    """The one line of a file that nobody else can read; SettingsError."""
    place = path
    credential = path.startswith(CREDENTIAL)
    if credential:
        folder = os.environ.get("CREDENTIALS_DIRECTORY")
        name = path[len(CREDENTIAL) :]
        if not folder or not re.match(r"[\w.-]+\Z", name) or name in (".", ".."):
            raise SettingsError(f"The secret {path} cannot be read: the service manager has given no such credential.")
        place = os.path.join(folder, name)
    try:
        descriptor = os.open(place, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError) as error:
        raise SettingsError(f"The secret {path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise SettingsError(f"The secret {path} is not a regular file.")
        if not credential and (status.st_mode & 0o077 or status.st_uid not in (0, os.geteuid())):
            raise SettingsError(f"The secret {path} can be read by others: it must belong to root, with mode 0600 or 0400.")
        secret = os.read(descriptor, SECRET_LIMIT + 3)
    except OSError as error:
        raise SettingsError(f"The secret {path} cannot be read: {error.strerror}.") from None
    finally:
        os.close(descriptor)
    return check_secret(secret, path)


def check_secret(data, path):
    # An editor ends the last line, and nobody means that.
    data = data[:-1] if data.endswith(b"\n") else data
    data = data[:-1] if data.endswith(b"\r") else data
    if not data:
        raise SettingsError(f"The secret {path} is empty.")
    if len(data) > SECRET_LIMIT:
        raise SettingsError(f"The secret {path} is longer than {SECRET_LIMIT} characters.")
    if b"\n" in data or b"\r" in data:
        raise SettingsError(f"The secret {path} has more than one line.")
    if not re.match(rb"[!-~]+\Z", data):
        raise SettingsError(f"The secret {path} has characters that no header can carry: printable ASCII without blanks is what it may have.")
    return data.decode("ascii")
