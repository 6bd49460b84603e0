# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run has told people, has yet to tell them, and is telling them. Touches one file of the controller, and processes.

One process at a time sends (C(send.py)), and nobody waits for it but the end of the run. What happens meanwhile is told together, once it has ended. What
was told is kept in a file, because the next run finds the same events and hosts.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypedDict

from ansible import constants as C
from ansible_collections.graceful.azure.plugins.plugin_utils._notify.changes import Change, changes, still
from ansible_collections.graceful.azure.plugins.plugin_utils._notify.entries import lacking, messages, mistakes_in, urls
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import NOTIFY
from ansible_collections.graceful.azure.plugins.plugin_utils._story.story import PassLine, Story
from ansible_collections.graceful.azure.plugins.plugin_utils._text import plain, printable
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Variables
from ansible_collections.graceful.azure.plugins.plugin_utils._variables import resolve

if TYPE_CHECKING:
    from ansible.template import Templar

SEND = os.path.join(os.path.dirname(__file__), "send.py")
SECONDS = 60
"""How long one process may send."""
PATIENCE = 10.0
"""How long the end of a run waits for the last one."""
TICK = 0.05
HARMLESS = re.compile(r"'\w+' is undefined|[Nn]o filter named '\w+'|[Dd]ecryption failed|[Nn]o vault secrets")
"""What is repeated of an error of Ansible's templates. The rest may be a template with secrets in it."""
CHECK_SECONDS = 30
"""How long Apprise may take to read the URLs. It sends nothing then."""


class Sender(TypedDict):
    """The process that sends."""

    result: str  # the file in which it says how that went
    until: float  # when it must have ended


class NoticesSoFar(TypedDict):
    """What a run remembers from pass to pass."""

    queue: list[Change]  # what is not sent yet
    told: dict[str, float]  # per key of a change, when it was told
    sender: Sender | None
    warned: list[str]


def begin() -> NoticesSoFar:
    """What a run remembers from pass to pass, at its beginning."""
    return {"queue": [], "told": {}, "sender": None, "warned": []}


def mistakes(templar: Templar, variables: Variables) -> list[str]:
    """What is wrong with the variable, before anything is done."""
    entries, unresolved = _entries(templar, variables)
    if unresolved:
        return [unresolved]
    try:
        missing = lacking(importlib.metadata.version("apprise"), sys.executable)
    except importlib.metadata.PackageNotFoundError:
        missing = lacking(None, sys.executable)
    return [*missing, *mistakes_in(entries), *([] if missing else _not_read(urls(entries)))]


def _not_read(given: dict[str, str]) -> list[str]:
    """What Apprise says of these URLs, by label, without sending anything."""
    try:
        asked = subprocess.run([sys.executable, SEND], input=json.dumps({"urls": given}).encode(), capture_output=True, check=True, timeout=CHECK_SECONDS)
        return [f"{label}: {why}" for label, why in json.loads(asked.stdout).items()]
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        # What else it says may have secrets in it.
        return [f"{NOTIFY}: Apprise could not be asked about the URLs ({type(error).__name__})"]


def tell(notices: NoticesSoFar, told_story: Story, passed: PassLine, memory: Json, templar: Templar, variables: Variables) -> list[str]:
    """Add what is new in a pass, and begin to send it. Returns warnings."""
    warnings = _collect(notices)
    for key, change in changes(told_story, passed, memory, still({**_read(), **notices["told"]}, passed["time"])):
        notices["told"][key] = passed["time"]
        notices["queue"].append(printable(change))
    return warnings + _send(notices, templar, variables)


def end(notices: NoticesSoFar, templar: Templar, variables: Variables) -> list[str]:
    """Have what is left sent, and wait for it, but not for long. Returns warnings."""
    deadline = time.monotonic() + PATIENCE
    warnings: list[str] = []
    while notices["queue"] or notices["sender"]:
        warnings += _collect(notices) + _send(notices, templar, variables)
        if not notices["sender"]:
            break  # all is sent, or the rest cannot be sent now: the next run tells it
        if time.monotonic() > deadline:
            return [*warnings, f"{NOTIFY}: some notifications may not have been sent, because they take longer than {PATIENCE:g} s"]
        time.sleep(TICK)
    return warnings


def _entries(templar: Templar, variables: Variables) -> tuple[Any, str]:
    values, unresolved = resolve(templar, [NOTIFY], variables)
    if NOTIFY in unresolved:
        why = HARMLESS.search(unresolved[NOTIFY])
        return None, f"{NOTIFY}: it cannot be resolved: {why[0] if why else 'a template in it is wrong'}"
    # Before core 2.19, the value of a vaulted text is not a text.
    return plain(values.get(NOTIFY)), ""


def _send(notices: NoticesSoFar, templar: Templar, variables: Variables) -> list[str]:
    if notices["sender"] or not notices["queue"]:
        return []
    entries, unresolved = _entries(templar, variables)
    if unresolved:
        return _once(notices, [unresolved])
    warnings = []
    to_send = list(messages(entries, notices["queue"]))
    try:
        if to_send:
            notices["sender"] = _start(to_send)
        notices["queue"] = []
        _keep(notices["told"])
    except OSError as error:
        warnings.append(f"{NOTIFY}: {error.strerror}: {error.filename}" if error.filename else f"{NOTIFY}: {error.strerror}")
    return _once(notices, warnings)


def _start(to_send: list[Json]) -> Sender:
    """Start the process that sends these; returns where it says how that went, and when it must have ended."""
    result = os.path.join(tempfile.mkdtemp(prefix="graceful-azure-notify-"), "failed.json")
    try:
        process = subprocess.Popen([sys.executable, SEND], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    except OSError:
        os.rmdir(os.path.dirname(result))
        raise
    if process.stdin is None:
        raise AssertionError
    with process.stdin as stream, contextlib.suppress(BrokenPipeError):
        stream.write(json.dumps({"messages": to_send, "seconds": SECONDS, "result": result}).encode())
    return {"result": result, "until": time.time() + SECONDS + 5}


def _collect(notices: NoticesSoFar) -> list[str]:
    """What the process said that has ended, as warnings."""
    sender = notices["sender"]
    if not sender:
        return []
    try:
        with open(sender["result"], encoding="utf-8") as stream:
            failed = json.load(stream)
    except FileNotFoundError:
        if time.time() < sender["until"]:
            return []
        failed = [[NOTIFY, "the process that sends notifications has ended without a word"]]
    notices["sender"] = None
    with contextlib.suppress(OSError):
        os.remove(sender["result"])
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(sender["result"]))
    return _once(notices, [f"{label}: not sent: {why}" for label, why in failed])


def _once(notices: NoticesSoFar, warnings: Iterable[str]) -> list[str]:
    """Each warning is given once in a run."""
    fresh = [warning for warning in dict.fromkeys(warnings) if warning not in notices["warned"]]
    notices["warned"].extend(fresh)
    return list(printable(fresh))


def _path() -> str:
    return os.path.join(C.ANSIBLE_HOME, "graceful_azure_told.json")


def _read() -> dict[str, float]:
    """What former runs have told. A file that cannot be read tells nothing."""
    try:
        with open(_path(), encoding="utf-8") as stream:
            found = json.load(stream)
        return {str(key): float(at) for key, at in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _keep(told: dict[str, float]) -> None:
    """Add what this run has told to the file, while no other run does."""
    os.makedirs(C.ANSIBLE_HOME, exist_ok=True)
    with open(f"{_path()}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        new = f"{_path()}.new"
        with open(new, "w", encoding="utf-8") as stream:
            json.dump(still({**_read(), **told}, time.time()), stream)
        os.replace(new, _path())
