# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings, and the one secret. Every mistake is a whole sentence that names the setting, never the secret."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat

from ansible_collections.graceful.azure.plugins.module_utils._events import DELETING
from ansible_collections.graceful.azure.plugins.module_utils._imds import DEFAULT_URL
from ansible_collections.graceful.azure.plugins.module_utils._spellings import reason_of
from ansible_collections.graceful.azure.plugins.module_utils._watcher_settings import AUTHS, TOKEN, mistakes_in

from . import system

# The files in run_dir: the one that a running watcher locks, and the one that tells how it is.
LOCK, STATUS = "lock", "status.json"
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
    "target": None,
    "path": None,
    "fast_path": [],
    "fast_path_undo": [],
    "fast_path_types": list(DELETING),
    "repeat": 60.0,
    "textfile": None,
    "imds_url": DEFAULT_URL,
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
    mistakes = mistakes_in(vars(settings))
    if settings.action in AUTHS and settings.auth in AUTHS[settings.action]:
        mistakes += _file_mistakes(settings)
    return mistakes


def _text_mistakes(settings):
    mistakes = []
    for name, default in DEFAULTS.items():
        value = getattr(settings, name)
        # What has no default may be missing.
        if (isinstance(default, str) or (default is None and value is not None)) and not isinstance(value, str):
            mistakes.append(f"{name} must be text, not {value!r}.")
    return mistakes


def _file_mistakes(settings):
    """What is wrong with the files that an action over the network needs."""
    mistakes = []
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


def read_secret(path):
    """The one line of a file that nobody else can read. Raises SettingsError for any other file."""
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
        raise SettingsError(f"The secret {path} cannot be read: {reason_of(error)}.") from None
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
