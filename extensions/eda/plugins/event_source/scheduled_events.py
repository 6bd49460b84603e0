# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Event source for ansible-rulebook: Azure's Scheduled Events as they appear, change and go."""

from __future__ import annotations

import asyncio
import concurrent.futures
import hashlib
import logging
import math
import re
import sys
import time
from pathlib import Path

DOCUMENTATION = r"""
---
short_description: Azure's Scheduled Events when they appear, change and end
description:
  - Asks one or several metadata services for their Scheduled Events, by default once a second, and delivers what is new.
  - When ansible-rulebook starts, the source delivers every event that the services list. It does not deliver events that ended while ansible-rulebook
    was down. A run that was interrupted then is continued by a run over all hosts. The rulebook C(graceful.azure.handle_events) begins with such a run.
  - If a service does not answer, the source delivers nothing. The events that it listed last count as present until it answers again. If it has not
    answered for a minute, as the service of a VM that was deleted, another service that listed an event tells whether that is over.
  - One answer without an event may be wrong or old. The event is delivered as V(gone) when two documents do not list it, or when one does not whose
    C(DocumentIncarnation) is greater than that of the last document that listed it. An answer with an empty body does not count.
  - >-
    Only the VM itself can reach its metadata service, but the service lists the events of the VM's whole scale set or availability set. So run
    ansible-rulebook on one of these VMs. Or let the watchers of the role C(event_watcher) report to a webhook.
options:
  imds_urls:
    description: Base URLs of the metadata services.
    type: list
    elements: str
    default: [http://169.254.169.254]
  resources:
    description: Names of VMs in Azure. Events that name none of them are left out. By default no event is left out.
    type: list
    elements: str
  event_types:
    description: Types of the events to deliver. By default all types.
    type: list
    elements: str
    choices: [Freeze, Reboot, Redeploy, Preempt, Terminate]
  api_version:
    description: Version of the service's interface.
    type: str
    default: "2020-07-01"
  request_timeout:
    description: Seconds for one answer.
    type: float
    default: 10.0
  interval:
    description: Seconds from one request to the next. The service allows five requests a second, for all clients on that VM together.
    type: float
    default: 1.0
  reminder:
    description:
      - After how many seconds an unchanged event is delivered again, with the change V(standing). So a run that failed or was killed is followed by
        another one. The pause doubles each time, up to an hour. A run may take that long, and runs would otherwise queue up behind it.
      - 0 means never.
    type: float
    default: 300.0
"""

EXAMPLES = r"""
- name: On one of the VMs of a scale set
  hosts: all
  execution_strategy: parallel
  sources:
    - graceful.azure.scheduled_events:
        interval: 1
  rules:
    - name: Handle what stands
      condition: event.target != ""
      action:
        run_playbook:
          name: graceful.azure.handle_events
          lock: "{{ event.lane | tojson }}"
          retries: 3
          delay: 10
          extra_vars:
            target: "{{ event.target | tojson }}"
            handle_events_unknown_targets: ignore
"""

RETURN = r"""
change:
  description: V(appeared), V(changed) (another type, status or NotBefore, other resources), V(standing) or V(gone).
  type: str
scheduled_event:
  description:
    - The event, as M(graceful.azure.scheduled_events_info) returns it, but without its C(description). For V(gone), as it was last listed.
    - ansible-rulebook passes it to the playbook as a variable. So a text that is more than a plain word or a time becomes null. A name that
      cannot be the name of a VM is left out. An id that is more than a plain word is replaced by its digest.
  type: dict
target:
  description:
    - >-
      A host pattern for all hosts that the event names or has named, by their names in Azure. For hosts with other names in the inventory,
      C(graceful.azure.handle_events) compares these with the variable C(graceful_azure_resource_name).
  type: str
lane:
  description:
    - >-
      A name for the C(lock) of an action: that of all runs for exactly these hosts. A run sees later events of its hosts by itself, and no others. So
      a host must not wait for the end of a run that may not have it.
  type: str
imds_url:
  description: The service that listed the event.
  type: str
"""

# ansible-rulebook runs this file by its path, and knows nothing of collections. Theirs is the folder above ansible_collections.
sys.path.append(str(Path(__file__).absolute().parents[7]))

from ansible_collections.graceful.azure.plugins.module_utils._absence import Absences  # noqa: E402
from ansible_collections.graceful.azure.plugins.module_utils._events import DEFAULT_API_VERSION, EVENT_TYPES, HOST_NAME, clip, telling  # noqa: E402
from ansible_collections.graceful.azure.plugins.module_utils._imds import DEFAULT_URL, RATE_MOST, ImdsClient, ImdsError  # noqa: E402
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold  # noqa: E402
from ansible_collections.graceful.azure.plugins.module_utils._waiting import Reader  # noqa: E402

logger = logging.getLogger(__name__)

# Until an event that stands is told again: at first, and at most. A run lasts an hour at most, unless told otherwise.
REMINDER, REMINDER_MOST = 300.0, 3600.0

# A service that does not answer counts for the events that it showed last for so many seconds, or for three times the interval if that is longer.
SILENT_SECONDS = 60.0

# A plain word or a time. Text that anybody may have written, such as a description, could be a template that a playbook then evaluates.
WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+-]{0,254}\Z")
# What of an event is handed on: its words, its numbers, and the names of its VMs.
WORDS = ("event_type", "event_status", "event_source", "resource_type", "not_before")
NUMBERS = ("duration_in_seconds", "seconds_until_not_before")


class ArgumentError(ValueError):
    """An argument of the source is wrong; the text says which, and what would be right."""


def _texts(value):
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) and item.strip() for item in value)


def _types(value):
    return _texts(value) and {name.lower() for name in value} <= {name.lower() for name in EVENT_TYPES}


def _number(least):
    return lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= least


# Per argument: its default, what it must be, and how that is said.
ARGUMENTS = {
    "imds_urls": ([DEFAULT_URL], _texts, "a list of URLs, at least one"),
    # An empty list, or a type that is none, would deliver nothing, and say nothing.
    "resources": (None, _texts, "a list of names, at least one"),
    "event_types": (None, _types, f"a list of {', '.join(EVENT_TYPES)}, at least one"),
    "api_version": (DEFAULT_API_VERSION, lambda value: isinstance(value, str), "one of the service's versions"),
    "request_timeout": (10.0, _number(0.1), "a number of seconds from 0.1 up"),
    "interval": (1.0, _number(0.2), "a number of seconds from 0.2 up"),
    "reminder": (REMINDER, _number(0), "a number of seconds, or 0 for never"),
}


def read_arguments(args):
    """The arguments with their defaults. Raises ArgumentError for wrong ones."""
    # ansible-rulebook adds some of its own.
    given = {name: value for name, value in args.items() if not name.startswith("eda_") and value is not None}
    mistakes = [f"{name}: there is no such argument; there are {', '.join(ARGUMENTS)}." for name in given if name not in ARGUMENTS]
    for name, (_default, fits, wanted) in ARGUMENTS.items():
        if name in given and not fits(given[name]):
            mistakes.append(f"{name} is {given[name]!r}; it must be {wanted}.")
    if mistakes:
        raise ArgumentError("graceful.azure.scheduled_events: " + " ".join(mistakes))
    return {name: given.get(name, default) for name, (default, _fits, _wanted) in ARGUMENTS.items()}


def strip_id(event_id):
    """The id, or a digest in its place where it is more than a word."""
    return event_id if WORD.match(event_id) else "odd-" + hashlib.sha256(event_id.encode("utf-8", "replace")).hexdigest()[:32]


def strip_event(event):
    """What is handed on of an event: no text that a playbook could take for more than a word."""
    words = {name: event.get(name) for name in WORDS}
    return {
        "event_id": strip_id(event["event_id"]),
        **{name: word if isinstance(word, str) and WORD.match(word) else None for name, word in words.items()},
        **{name: event.get(name) for name in NUMBERS},
        "resources": [name for name in event["resources"] if HOST_NAME.match(name)],
    }


def lane_of(names):
    """The lock under which runs for these hosts come one after the other. It is that of no other hosts: these would wait for runs that do not have them."""
    return ",".join(sorted({name.lower() for name in names}))


def is_behind(told, status):
    """Whether somebody has not yet heard what was told of an event: those who show one are not equally quick, and no event goes back."""
    return told == "Started" and status == "Scheduled"


def next_pause(pause):
    """Seconds to the reminder after the one that came after ``pause``."""
    return max(pause, min(2 * pause, REMINDER_MOST))


class View:
    """What stands, as all services together show it. Pure: readings and a clock in, changes out."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.absences = {}  # per service what it tells of events that it no longer shows
        self.shown = {}  # per service the ids of the events that it showed last, or may still have
        self.said = {}  # per service what it said of the events that it showed last
        self.read_at = {}  # per service when it answered last
        self.over = {}  # per service the ids of events that it has shown, of which it tells now that they are over
        self.standing = {}  # per id what was last told of it, when, and how long until it is told again

    def update(self, imds_url, events, now, incarnation):
        """The changes after one service was read. ``incarnation``: the number of its document, None for an empty body."""
        events = {fold(event["event_id"]): event for event in events if self._is_wanted(event)}
        last = self.shown.get(imds_url, set())
        self.read_at[imds_url] = now
        self.shown[imds_url] = set(events) | self.absences.setdefault(imds_url, Absences()).note(events, now, incarnation)
        said, self.said[imds_url] = self.said.get(imds_url, {}), {key: telling(event) for key, event in events.items()}
        changes = []
        for key, event in events.items():
            before = self.standing.get(key)
            change = self._change(before, event, said.get(key), now)
            if change:
                pause = next_pause(before["pause"]) if change == "standing" else self.arguments["reminder"]
                # Whom it named before may still be out for it.
                names = list(dict.fromkeys([*(before["names"] if before else ()), *event["resources"]]))
                self.standing[key] = {"scheduled_event": event, "names": names, "at": now, "pause": pause}
                changes.append(self._tell(change, self.standing[key], imds_url))
        self.over[imds_url] = (self.over.get(imds_url, set()) | last - self.shown[imds_url]) - set(events)
        silent = max(SILENT_SECONDS, 3 * self.arguments["interval"])
        answering = [ids for url, ids in self.shown.items() if now - self.read_at[url] < silent]
        for key in sorted(key for key in set().union(*self.over.values()) if not any(key in ids for ids in answering)):
            for ids in self.over.values():
                ids.discard(key)
            if key in self.standing:
                changes.append(self._tell("gone", self.standing.pop(key), imds_url))
        return changes

    def _is_wanted(self, event):
        types, names = self.arguments["event_types"], self.arguments["resources"]
        # What was told and becomes one of another type is not over.
        is_told = fold(event["event_id"]) in self.standing
        if types is not None and not is_told and (event["event_type"] or "").lower() not in [wanted.lower() for wanted in types]:
            return False
        return names is None or bool({name.lower() for name in event["resources"]} & {name.lower() for name in names})

    def _change(self, told, event, said, now):
        """C(said): what the same service said of it before. Services may differ, for some seconds or for ever, and each would else undo what another told."""
        if told is None:
            return "appeared"
        last, what = told["scheduled_event"], telling(event)
        is_news = what not in (telling(last), said) or not {name.lower() for name in event["resources"]} <= {name.lower() for name in told["names"]}
        if is_news and not is_behind(last["event_status"], event["event_status"]):
            return "changed"
        return "standing" if told["pause"] and now - told["at"] >= told["pause"] else None

    def _tell(self, change, told, imds_url):
        event = told["scheduled_event"]
        names = self._usable(event, told["names"])
        return {"change": change, "scheduled_event": strip_event(event), "target": ":".join(names), "imds_url": imds_url, "lane": lane_of(names)}

    def _usable(self, event, names):
        odd = [name for name in names if not HOST_NAME.match(name)]
        if odd:
            logger.warning("event %s: %s cannot be the name of a VM and is left out", clip(event["event_id"]), clip(odd))
        return [name for name in names if name not in odd]


async def watch(imds_url, view, queue, arguments, threads):
    """Asks one service for ever."""
    client = ImdsClient(imds_url, arguments["api_version"], arguments["request_timeout"])
    reader = Reader(client, ask_name=False)
    failing = None
    while True:
        began = time.monotonic()
        pause = arguments["interval"]
        try:
            # One answer and no repetition: the next question comes soon.
            reading = await asyncio.get_running_loop().run_in_executor(threads, reader.read, began + arguments["request_timeout"], began)
        except ImdsError as error:
            if failing is None:
                logger.warning("%s: %s", imds_url, clip(str(error), 600)[1:-1])
            failing = error
            # Where it was asked too often.
            pause = max(pause, min(error.retry_in or 0.0, RATE_MOST))
        else:
            if failing is not None:
                logger.warning("%s answers again", imds_url)
            failing = None
            for change in view.update(imds_url, reading.events, time.monotonic(), reading.proves):
                await queue.put(change)
        await asyncio.sleep(max(0.0, began + pause - time.monotonic()))


async def main(queue, args):
    """What ansible-rulebook calls."""
    arguments = read_arguments(args)
    view = View(arguments)
    urls = list(dict.fromkeys(arguments["imds_urls"]))
    # A service that is silent keeps no other waiting.
    threads = concurrent.futures.ThreadPoolExecutor(len(urls))
    try:
        await asyncio.gather(*(watch(url, view, queue, arguments, threads) for url in urls))
    finally:
        threads.shutdown(wait=False)
