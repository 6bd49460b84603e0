# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A simulator of Azure's Scheduled Events, for tests.

Every --vm is the metadata service of one VM of a scale set: all of them see the same events and may approve them.
A control address adds events, moves them on, makes the services fail and tells what happened; a browser shows it, too.
Once everything listens, one line of JSON on standard output gives the addresses. The standard library of Python 3.7 is
all it needs.

    imds_simulator.py --vm NAME=ADDRESS:PORT ...    runs it
    imds_simulator.py ctl --help                    talks to one that runs
    imds_simulator.py --list-scenarios              the lives of events that it knows
    imds_simulator.py --check FILE                  every mistake in a scenario file

In this file, in order: what others send and how it is checked; scenarios; simulated time; events, the scale set that they
hit, and faults; HTTP; the services of the VMs and the control address; the process; ctl; the library of scenarios; the page.
"""

from __future__ import annotations

import argparse
import array
import collections
import contextlib
import email.utils
import heapq
import http
import itertools
import json
import os
import queue
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import uuid

BODY_LIMIT = 1024 * 1024
HEAD_LIMIT = 64 * 1024
LINE_LIMIT = 16 * 1024
CONNECTION_LIMIT = 1000  # of each address
BACKLOG = 4096
IDLE_SECONDS = 75.0  # a kept connection on which no request begins
REQUEST_SECONDS = 10.0  # from a request's first byte to its last; as long again to take the answer
HANG_UP_SECONDS = 2.0
APPROVAL_SECONDS = 0.25  # from approval to start, on a real clock: the approver has the answer before the impact
OUTPUT_LIMIT = 4096  # the end of what a command printed is kept
UNREAD_LIMIT = 1024 * 1024  # what standard error has not taken yet; more is dropped
SECONDS_LIMIT = 10**9  # longer times are slips, and beyond what clocks and calendars can count
LAST_TIME = 200 * SECONDS_LIMIT  # a clock that is stepped further runs out of calendar

SCHEDULED, STARTED, COMPLETED, CANCELLED = "Scheduled", "Started", "Completed", "Cancelled"

# A version shows its own fields and those of the versions before it.
FIRST_FIELDS = ("EventId", "EventType", "ResourceType", "Resources", "EventStatus", "NotBefore")
VERSION_FIELDS = {
    "2017-03-01": FIRST_FIELDS,
    "2017-08-01": FIRST_FIELDS,
    "2017-11-01": FIRST_FIELDS,
    "2019-01-01": FIRST_FIELDS,
    "2019-04-01": (*FIRST_FIELDS, "Description"),
    "2019-08-01": (*FIRST_FIELDS, "Description", "EventSource"),
    "2020-07-01": (*FIRST_FIELDS, "Description", "EventSource", "DurationInSeconds"),
}
PREVIEW, NEWEST = min(VERSION_FIELDS), max(VERSION_FIELDS)
# What /metadata/versions adds: versions of the instance endpoint, which takes any here.
INSTANCE_VERSIONS = ("2017-04-02", "2017-12-01", "2018-02-01", "2018-10-01", "2019-03-11", "2019-06-01", "2020-06-01", "2020-09-01", "2021-02-01", "2021-12-13")

JSON_TYPE = {"Content-Type": "application/json; charset=utf-8"}
HTML_TYPE = {"Content-Type": "text/html; charset=utf-8"}


class Refused(Exception):
    """Something that is asked for wrongly or cannot be done; over HTTP, an answer with an error."""

    def __init__(self, message, status=400, headers=None, **more):
        self.mistakes = message if isinstance(message, list) else [message]
        super().__init__(" ".join(self.mistakes))
        self.status, self.headers, self.more = status, headers, more


class Unfit(Exception):
    """A value is not of its kind; the text names the kind."""


# What others send


def shown(value):
    """A value as an error message shows it."""
    try:
        text = json.dumps(value)
    except RecursionError:  # nested as deeply as could just be read
        text = "..."
    return text if len(text) <= 60 else text[:57] + "..."


def parse_json(body):
    """The value that bytes of JSON stand for."""
    try:
        return json.loads(body.decode("utf-8"), parse_int=parse_int, parse_constant=refuse_constant, object_pairs_hook=without_doubles)
    except (ValueError, RecursionError) as error:
        raise Refused(f"This is no JSON: {error}.") from None


def parse_int(digits):
    # Python takes very long over numbers of a million digits.
    if len(digits) > 100:
        raise ValueError("a number is too long")
    return int(digits)


def refuse_constant(name):
    raise ValueError(f"{name} is no number of JSON")


def without_doubles(pairs):
    """An object of JSON; of two fields by one name Python would drop the first."""
    result = dict(pairs)
    if len(result) < len(pairs):
        doubled = next(name for name, count in collections.Counter(name for name, _value in pairs).items() if count > 1)
        raise ValueError(f"the field {shown(doubled)} is given twice")
    return result


def checked(value, what, checks, required=()):
    """The object ``value`` with each of its fields checked; the refusal has every mistake."""
    if not isinstance(value, dict):
        raise Refused(f"{what} must be an object, not {shown(value)}.")
    mistakes = [f"{what} needs the field {name}." for name in required if name not in value]
    result = {}
    for name, item in value.items():
        if name not in checks:
            mistakes.append(f"{what} has an unknown field {shown(name)}; known are {', '.join(checks)}.")
            continue
        try:
            result[name] = checks[name](item)
        except Unfit as error:
            mistakes.append(f"{name} must be {error}, not {shown(item)}.")
        except Refused as refused:  # of an object in the object
            mistakes.extend(refused.mistakes)
    if mistakes:
        raise Refused(mistakes)
    return result


@contextlib.contextmanager
def collected(mistakes, place=""):
    """Adds what is refused to the mistakes, each with its place, and goes on."""
    try:
        yield
    except Refused as refused:
        mistakes.extend(place + mistake for mistake in refused.mistakes)


def a_text(value):
    if not isinstance(value, str):
        raise Unfit("a string")
    return value


def an_id(value):
    if not isinstance(value, str) or not value:
        raise Unfit("a string that is not empty")
    return value


def texts(value):
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Unfit("a list of strings")
    return value


def a_list(value):
    if not isinstance(value, list):
        raise Unfit("a list")
    return value


def a_status(value):
    if value not in (SCHEDULED, STARTED):
        raise Unfit(f"{SCHEDULED} or {STARTED}")
    return value


def is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value):
    return is_int(value) or isinstance(value, float)


def a_duration(value):
    if not is_int(value) or not -1 <= value <= SECONDS_LIMIT:
        raise Unfit(f"an integer from -1 (unknown) to {SECONDS_LIMIT}")
    return value


def seconds(value):
    if not is_number(value) or not 0 <= value <= SECONDS_LIMIT:
        raise Unfit(f"a number of seconds from 0 to {SECONDS_LIMIT}")
    return value


def some_seconds(value):
    if not is_number(value) or not 0 < value <= SECONDS_LIMIT:
        raise Unfit(f"a number of seconds over 0, up to {SECONDS_LIMIT}")
    return value


def seconds_or_none(value):
    return None if value is None else seconds(value)


def list_of_seconds(value):
    try:
        return [seconds(item) for item in a_list(value)]
    except Unfit:
        raise Unfit(f"a list of numbers of seconds from 0 to {SECONDS_LIMIT}") from None


def seconds_either_way(value):
    if not is_number(value) or not -SECONDS_LIMIT <= value <= SECONDS_LIMIT:
        raise Unfit(f"a number of seconds from -{SECONDS_LIMIT} to {SECONDS_LIMIT}")
    return value


def a_scale(value):
    if not is_number(value) or not 0 <= value <= 10**6:
        raise Unfit("a number from 0 (time stands still) to 1000000")
    return value


def a_probability(value):
    if not is_number(value) or not 0 < value <= 1:
        raise Unfit("a number over 0, up to 1")
    return value


def a_whole_number(value):
    if not is_int(value) or not 0 <= value <= SECONDS_LIMIT:
        raise Unfit(f"an integer from 0 to {SECONDS_LIMIT}")
    return value


def a_crowd(value):
    if not is_int(value) or not 0 <= value <= 100000:
        raise Unfit("an integer from 0 to 100000")
    return value


def a_count(value):
    if not is_int(value) or not 0 < value <= SECONDS_LIMIT:
        raise Unfit("a positive integer")
    return value


def one_or_each(value):
    if value != "each" and not (is_int(value) and value > 0):
        raise Unfit('a positive integer or "each"')
    return value


def an_int(value):
    if not is_int(value):
        raise Unfit("an integer")
    return value


def a_method(value):
    if value not in (None, "GET", "POST"):
        raise Unfit('"GET", "POST" or null')
    return value


def times_or_none(value):
    if value is not None and not (is_int(value) and value > 0):
        raise Unfit("a positive integer or null")
    return value


def an_answer_status(value):
    if not is_int(value) or not 200 <= value <= 599:
        raise Unfit("an HTTP status from 200 to 599")
    return value


def a_body(value):
    a_text(value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unfit("a string that UTF-8 can carry") from None
    return value


def a_line(value):
    if not isinstance(value, str) or not re.fullmatch(r"[\t\x20-\x7e\xa0-\xff]*", value):
        raise Unfit("a string of one line that a header can carry")
    return value


def answer_headers(value):
    # Anything else would let one header write others, or an answer of its own.
    if not isinstance(value, dict) or not all(
        isinstance(text, str) and re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) and re.fullmatch(r"[\t\x20-\x7e\xa0-\xff]*", text)
        for name, text in value.items()
    ):
        raise Unfit("an object of header names and their values, each a string of one line")
    return value


def true(value):
    if value is not True:
        raise Unfit("true")
    return value


def a_command_line(value):
    a_text(value)
    try:
        parts = shlex.split(value)
    except ValueError as error:
        raise Unfit(f"a command that can be split like a shell line ({error})") from None
    if not parts or "\0" in value:
        raise Unfit("a command that is not empty")
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        raise Unfit("a command that this system's encoding can carry") from None
    return value


EVENT_CHECKS = {
    "EventId": an_id,
    "EventType": a_text,
    "ResourceType": a_text,
    "Resources": texts,
    "EventStatus": a_status,
    "NotBefore": a_text,
    "Description": a_text,
    "EventSource": a_text,
    "DurationInSeconds": a_duration,
    "NoticeSeconds": seconds_or_none,
    "ApprovalSeconds": seconds_or_none,
    "CancelSeconds": seconds_or_none,
    "ImpactSeconds": seconds_or_none,
    "SettleSeconds": seconds_or_none,
    "Impact": a_text,
    "FurtherImpacts": list_of_seconds,
    "OnStart": a_command_line,
    "OnGone": a_command_line,
}
EVENT_REQUIRED = ("EventType", "Resources")
ENTRY_CHECKS = {
    "After": seconds,
    "Name": an_id,
    "Follows": an_id,
    "Between": seconds,
    "Vm": one_or_each,
    "Domain": one_or_each,
    **EVENT_CHECKS,
}

# What a fault may do: answer in the service's place, tell another document, or spoil the way of the answer.
ANSWERS = {"Status": an_answer_status, "Drop": true, "Portal": true, "Redirect": a_line, "Empty": true}
DOCUMENTS = {"Stale": true, "Incarnation": an_int, "IsoDates": true, "StringNumbers": true, "UnknownType": a_text, "Huge": a_crowd}
WAYS = {"DelayBody": seconds, "Cut": a_whole_number, "Slow": a_count, "DropAfter": true}
FAULT_CHECKS = {
    **ANSWERS,
    "Body": a_body,
    "Headers": answer_headers,
    "Delay": seconds,
    "DelayAnswer": seconds,
    "DropAnswer": true,
    "ContentType": a_line,
    "ClockOff": seconds_either_way,
    **DOCUMENTS,
    **WAYS,
}
# Which requests a fault meets; whose depends on the VMs.
FAULT_AROUND = {
    "Vm": a_text,
    "Method": a_method,
    "Times": times_or_none,
    "Skip": a_whole_number,
    "Probability": a_probability,
    "Seed": an_int,
    "After": seconds,
    "For": seconds,
}
DOES = [name for name in FAULT_CHECKS if name not in ("Body", "Headers")]


def checked_event(value):
    return checked(value, "An event", EVENT_CHECKS, EVENT_REQUIRED)


def a_vm_of(names):
    """A check for the name of a VM; without names, any will do."""

    def a_vm(name):
        if name is None or (names is None and isinstance(name, str)):
            return name
        for vm in names or []:
            if isinstance(name, str) and vm.lower() == name.lower():
                return vm
        raise Unfit(f"one of the VMs ({', '.join(names or [])}) or null")

    return a_vm


def a_fault(value):
    mistakes, fault = [], {}
    with collected(mistakes):
        fault = checked(value, "Fault", FAULT_CHECKS)
    if isinstance(value, dict):
        if not value.keys() & set(DOES):
            mistakes.append(f"Fault needs Status, Delay or Drop, or another of {', '.join(DOES)}.")
        answers = [name for name in ANSWERS if name in value]
        if len(answers) > 1:
            mistakes.append(f"Fault has both {answers[0]} and {answers[1]}: one of them is what happens.")
        if value.keys() & {"Body", "Headers"} and "Status" not in value:
            mistakes.append("Fault has Body or Headers without Status.")
    if mistakes:
        raise Refused(mistakes)
    return fault


def checked_fault(value, names):
    """A fault as the control address and the scenario give it."""
    fault = checked(value, "A fault", {**FAULT_AROUND, "Vm": a_vm_of(names), "Fault": a_fault}, ["Fault"])
    return {"Vm": None, "Method": None, "Times": None, **fault}


# Scenarios

# An event of a scenario: the number of its entry, the seconds until it appears, the place of the one whose end it waits for, and its fields.
Planned = collections.namedtuple("Planned", "entry wait follows fields")


class Scenario:
    """What comes by itself: entries of events, faults, and what is told of VMs."""

    def __init__(self, entries=(), faults=(), vms=None):
        self.entries, self.faults, self.vms = list(entries), list(faults), vms or {}

    def events(self, vms, one_domain):
        """The events in order; the refusal has every entry that asks for what is not there."""
        mistakes, planned = [], []
        last = {}  # the number of the last event of each entry that has a name
        for number, entry in enumerate(self.entries, 1):
            fields = {name: value for name, value in entry.items() if name in EVENT_CHECKS}
            wait, follows = entry.get("After", 0), last[entry["Follows"]] if "Follows" in entry else None
            hit = []
            with collected(mistakes, f"event {number}: "):
                hit = self._resources(entry, vms, one_domain)
            for resources in hit:
                planned.append(Planned(number, wait, follows, {**fields, "Resources": resources}))
                wait, follows = entry.get("Between", 0), len(planned) - 1
            if "Name" in entry:
                last[entry["Name"]] = follows
        if mistakes:
            raise Refused(mistakes)
        return planned

    @staticmethod
    def _resources(entry, vms, one_domain):
        """The VMs of each event that the entry stands for."""
        if "Resources" in entry:
            if one_domain:
                refuse_two_domains(entry["Resources"], {vm.name.lower(): vm.domain for vm in vms})
            return [entry["Resources"]]
        names = [[vm.name] for vm in vms]
        if "Domain" in entry:
            domains = list(dict.fromkeys(vm.domain for vm in vms))
            names = [[vm.name for vm in vms if vm.domain == domain] for domain in domains]
        field = "Domain" if "Domain" in entry else "Vm"
        chosen = entry[field]
        if chosen == "each":
            return names
        if chosen > len(names):
            raise Refused(f"{field} {chosen} is asked for, but there {'is' if len(names) == 1 else 'are'} only {len(names)}.")
        return [names[chosen - 1]]


def strangers_to(vms, names):
    """Those of the names that are no VM's, each once."""
    known = {vm.lower() for vm in vms}
    return list(dict.fromkeys(name for name in names if name.lower() not in known))


def complain_of_strangers(planned, vms, where):
    """A scenario's names that are no VM's are no mistakes, but may be slips."""
    for event in planned:
        for name in strangers_to(vms, event.fields["Resources"]):
            complain(f"{where}: event {event.entry} hits {name}, which is none of the VMs here")


def refuse_two_domains(names, domains):
    """``domains`` has those of the VMs, by their lower-case names."""
    hit = {domains[name.lower()] for name in names if name.lower() in domains}
    if len(hit) > 1:
        raise Refused(f"An event hits VMs of one update domain; these are of the domains {', '.join(sorted(hit))}.")


def checked_entry(value, known):
    """An event of a scenario; ``known`` has the names of those above it."""
    mistakes, entry = [], {}
    with collected(mistakes):
        entry = checked(value, "An event", ENTRY_CHECKS, ["EventType"])
    if isinstance(value, dict):
        chosen = [name for name in ("Resources", "Vm", "Domain") if name in value]
        if not chosen:
            mistakes.append("An event needs the field Resources, Vm or Domain.")
        elif len(chosen) > 1:
            mistakes.append(f"An event has both {chosen[0]} and {chosen[1]}.")
        if entry.get("Name") in known:
            mistakes.append(f"Name {shown(entry['Name'])} is given twice.")
        if "Follows" in entry and entry["Follows"] not in known:
            mistakes.append(f"Follows must be the Name of an event above, not {shown(entry['Follows'])}.")
    if mistakes:
        raise Refused(mistakes)
    return entry


def checked_scenario(value, names):
    """A scenario; the refusal has every mistake with its place."""

    def told_of_vms(value):
        if not isinstance(value, dict):
            raise Unfit("an object")
        return value

    mistakes, entries, faults, vms = [], [], [], {}
    with collected(mistakes):
        checked(value, "A scenario", {"events": a_list, "faults": a_list, "vms": told_of_vms, "about": a_text, "source": a_text, "$schema": a_text})

    def items(name, kind):
        items = value.get(name) if isinstance(value, dict) else None
        return items if isinstance(items, kind) else kind()

    known = set()
    for number, entry in enumerate(items("events", list), 1):
        with collected(mistakes, f"event {number}: "):
            entries.append(checked_entry(entry, known))
        if isinstance(entry, dict) and isinstance(entry.get("Name"), str):
            known.add(entry["Name"])
    for number, fault in enumerate(items("faults", list), 1):
        with collected(mistakes, f"fault {number}: "):
            faults.append(checked_fault(fault, names))
    for name, told in items("vms", dict).items():
        with collected(mistakes, f"vms {shown(name)}: "):
            try:
                vms[a_vm_of(names)(name)] = checked(told, "A VM", dict.fromkeys(COMPUTE_FIELDS, a_text))
            except Unfit as error:
                mistakes.append(f"vms {shown(name)}: The name must be {error}.")
    if mistakes:
        raise Refused(mistakes)
    return Scenario(entries, faults, vms)


def known_scenario(name, names):
    """One of the library's, by its name."""
    return checked_scenario(SCENARIOS[name], names)


# Time


class Clock:
    """Simulated time: the real one, or faster, slower, standing still; and set on by steps."""

    def __init__(self, scale=1.0):
        self._begun = time.monotonic()
        # What had passed, when on the real clock, and how fast time runs since: set and read at once, since any thread may ask.
        self._course = 0.0, self._begun, scale

    @property
    def scale(self):
        return self._course[2]

    def passed(self):
        """Simulated seconds since the start."""
        passed, since, scale = self._course
        return passed + (time.monotonic() - since) * scale

    def time(self):
        """The simulated time of day, in Unix seconds."""
        passed, since, scale = self._course
        # One look at the clock: two would lie apart on a busy machine. Time that runs as the real one is that, and its steps.
        ahead = passed - (since - self._begun) + (time.monotonic() - since) * (scale - 1)
        return time.time() + ahead

    def real(self, simulated):
        """How many real seconds that takes; none if time stands still."""
        return simulated / self.scale if self.scale else None

    def set_scale(self, scale):
        self._go_on(0, scale)

    def step_to(self, passed):
        """Never back."""
        self._go_on(passed, self.scale)

    def _go_on(self, least, scale):
        passed, since, before = self._course
        now = time.monotonic()
        self._course = max(least, passed + (now - since) * before), now, scale


# Something to do. Of one that is no longer ``alive`` it is known that it would do nothing.
Timer = collections.namedtuple("Timer", "due number act arguments alive")


class Timetable:
    """Does things when they are due, in simulated time or soon on a real clock; one lock, ``changed``, around it all."""

    def __init__(self, clock):
        self.clock = clock
        self.changed = threading.Condition(threading.RLock())
        self._simulated, self._real = [], []
        self._numbers = itertools.count()

    def later(self, delay, act, *arguments, alive=lambda: True):
        with self.changed:
            heapq.heappush(self._simulated, Timer(self.clock.passed() + delay, next(self._numbers), act, arguments, alive))
            self.changed.notify_all()

    def soon(self, delay, act, *arguments):
        """After real seconds, however simulated time goes."""
        with self.changed:
            heapq.heappush(self._real, Timer(time.monotonic() + delay, next(self._numbers), act, arguments, None))
            self.changed.notify_all()

    def next(self):
        """Simulated seconds until something is due, or None."""
        with self.changed:
            due = self._next_due()
            return None if due is None else max(0.0, due - self.clock.passed())

    def _next_due(self):
        while self._simulated and not self._simulated[0].alive():
            heapq.heappop(self._simulated)
        return self._simulated[0].due if self._simulated else None

    def run(self):
        """Does for ever what is due."""
        with self.changed:
            while True:
                waits = [3600.0]
                for timers, now, real in ((self._real, time.monotonic(), lambda wait: wait), (self._simulated, self.clock.passed(), self.clock.real)):
                    if not timers:
                        continue
                    if timers[0].due <= now:
                        timer = heapq.heappop(timers)
                        timer.act(*timer.arguments)
                        waits.append(0)
                    else:
                        waits.append(real(timers[0].due - now))
                wait = min(wait for wait in waits if wait is not None)
                if wait > 0:
                    self.changed.wait(wait)

    def step(self, seconds):
        """Sets time on; what is due meanwhile happens at its own time."""
        with self.changed:
            self._step_to(self.clock.passed() + seconds)

    def step_to_next(self):
        with self.changed:
            due = self._next_due()
            if due is None:
                raise Refused("Nothing is due.", 409)
            self._step_to(due)

    def _step_to(self, end):
        if self.clock.time() + end - self.clock.passed() > LAST_TIME:
            raise Refused("The step leads beyond the calendar.")
        while self._simulated and self._simulated[0].due <= end:
            timer = heapq.heappop(self._simulated)
            self.clock.step_to(timer.due)
            timer.act(*timer.arguments)
        self.clock.step_to(end)
        self.changed.notify_all()

    def set_scale(self, scale):
        with self.changed:
            self.clock.set_scale(scale)
            self.changed.notify_all()

    def wait_until(self, due, given_up):
        """Waits for a simulated time; false if ``given_up`` meanwhile."""
        with self.changed:
            remaining = due - self.clock.passed()
            while remaining > 0:
                real = self.clock.real(remaining)
                self.changed.wait(min(0.5, real if real is not None else 0.5))
                if given_up():
                    return False
                remaining = due - self.clock.passed()
        return True


# Events and what becomes of them


class Event:
    """One event, from its first appearance to after its end."""

    def __init__(self, fields, clock):
        self.clock = clock
        self.notice = fields.get("NoticeSeconds", 900)
        self.approval = fields.get("ApprovalSeconds", APPROVAL_SECONDS)
        # The short default is no part of the simulated life, so no clock that runs slowly may draw it out.
        self.approved_soon = "ApprovalSeconds" not in fields
        self.cancel = fields.get("CancelSeconds")
        self.impact_seconds = fields.get("ImpactSeconds", 7)
        self.settle = fields.get("SettleSeconds", 5)
        self.further = fields.get("FurtherImpacts", [])
        self.impact = fields.get("Impact", fields["EventType"])
        self.on_start, self.on_gone = fields.get("OnStart"), fields.get("OnGone")
        self.id = fields.get("EventId") or str(uuid.uuid4()).upper()
        self.key = self.id.lower()  # its case does not count
        # Rounded down to the full second that the document can show: an event must not start before it.
        self.not_before = int(clock.time() + (900 if self.notice is None else self.notice))
        self.fields = {
            "EventId": self.id,
            "EventType": fields["EventType"],
            "ResourceType": fields.get("ResourceType", "VirtualMachine"),
            "Resources": fields["Resources"],
            "EventStatus": fields.get("EventStatus", SCHEDULED),
            "NotBefore": fields.get("NotBefore"),
            "Description": fields.get("Description", "Simulated event."),
            "EventSource": fields.get("EventSource", "Platform"),
            "DurationInSeconds": fields.get("DurationInSeconds", -1),
        }
        self.then = None  # called when it is gone
        self.history = []
        self.approvals = []
        self.impacts = []
        self.commands = []
        self.set_status(self.fields["EventStatus"])

    @property
    def status(self):
        return self.fields["EventStatus"]

    def set_status(self, status):
        self.fields["EventStatus"] = status
        self.history.append({"Time": self.clock.time(), "Status": status})

    def now(self):
        """Its fields as they stand; a NotBefore that follows from the notice is a number."""
        started = any(entry["Status"] == STARTED for entry in self.history)
        not_before = self.not_before if self.fields["NotBefore"] is None else self.fields["NotBefore"]
        return {**self.fields, "NotBefore": "" if started else not_before}

    def report(self):
        """Everything about the event, for the control address and the commands."""
        return {
            **in_version(self.now(), NEWEST),
            "NoticeSeconds": self.notice,
            "ApprovalSeconds": self.approval,
            "CancelSeconds": self.cancel,
            "ImpactSeconds": self.impact_seconds,
            "SettleSeconds": self.settle,
            "Impact": self.impact,
            "FurtherImpacts": list(self.further),
            "History": list(self.history),
            "Approvals": list(self.approvals),
            "Impacts": list(self.impacts),
            "Commands": [dict(command) for command in self.commands],
        }


def in_version(fields, version, fault=None):
    """An event's fields as a document of that version shows them, or as a fault has them shown."""
    fault = fault or {}
    result = {name: fields[name] for name in VERSION_FIELDS[version]}
    if is_number(result["NotBefore"]):
        not_before = result["NotBefore"] + fault.get("ClockOff", 0)
        if version == PREVIEW or "IsoDates" in fault:
            result["NotBefore"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(not_before))
        else:
            result["NotBefore"] = email.utils.formatdate(not_before, usegmt=True)
    if version == PREVIEW:
        result["Resources"] = [name if name.startswith("_") else "_" + name for name in result["Resources"]]
    if "UnknownType" in fault:
        result["EventType"] = fault["UnknownType"]
    if "StringNumbers" in fault and "DurationInSeconds" in result:
        result["DurationInSeconds"] = str(result["DurationInSeconds"])
    return result


def crowd(count, when):
    """Events of other VMs, to make a document huge."""
    for number in range(count):
        yield {
            "EventId": str(uuid.uuid5(uuid.NAMESPACE_OID, f"stranger {number}")).upper(),
            "EventType": "Freeze",
            "ResourceType": "VirtualMachine",
            "Resources": [f"stranger_{number}"],
            "EventStatus": SCHEDULED,
            "NotBefore": when,
            "Description": "Host server is undergoing maintenance.",
            "EventSource": "Platform",
            "DurationInSeconds": 5,
        }


class Faults:
    """The faults of the services, in their order."""

    def __init__(self, timetable, seed=None):
        self.clock, self.timetable = timetable.clock, timetable
        self.seed = seed
        self.lock = threading.Lock()
        self.faults = []
        self.added = 0

    def add(self, fault):
        with self.lock:
            self.added += 1
            seed = fault.get("Seed", None if self.seed is None else f"{self.seed} {self.added}")
            begin = self.clock.passed() + fault.get("After", 0)
            fault = {**fault, "random": random.Random(seed), "begin": begin, "end": begin + fault.get("For", float("inf"))}
            self.faults.append(fault)
            count = len(self.faults)
        # What begins and ends by itself is due as events are, though there is nothing to do then.
        if "After" in fault:
            self.timetable.later(fault["After"], lambda: None, alive=lambda: self._stands(fault))
        if "For" in fault:
            self.timetable.later(fault.get("After", 0) + fault["For"], lambda: None, alive=lambda: self._stands(fault))
        return count

    def _stands(self, fault):
        with self.lock:
            return any(standing is fault for standing in self.faults)

    def clear(self):
        with self.lock:
            self.faults.clear()

    def reports(self):
        with self.lock:
            now = self.clock.passed()
            return [{name: value for name, value in fault.items() if name[0].isupper()} for fault in self.faults if now < fault["end"]]

    def meet(self, vm, method):
        """All that a request meets, as one fault: delays add up, and nothing comes after an answer."""
        met = {}
        with self.lock:
            now = self.clock.passed()
            for fault in list(self.faults):
                if not self._applies(fault, vm, method, now):
                    continue
                for name, value in fault["Fault"].items():
                    met[name] = met.get(name, 0) + value if name.startswith("Delay") else value
                if met.keys() & ANSWERS.keys():
                    break
        return met

    def _applies(self, fault, vm, method, now):
        if fault["Vm"] not in (None, vm) or fault["Method"] not in (None, method) or not fault["begin"] <= now < fault["end"]:
            return False
        if fault.get("Skip"):
            fault["Skip"] -= 1
            return False
        if "Probability" in fault and fault["random"].random() >= fault["Probability"]:
            return False
        if fault["Times"] is not None:
            fault["Times"] -= 1
            if fault["Times"] == 0:
                self.faults.remove(fault)
        return True


class RequestLog:
    """Every request seen, in columns: a day at a request a second takes two megabytes."""

    def __init__(self, clock):
        self.clock = clock
        self.lock = threading.Lock()
        self.texts, self.numbers = [], {}  # names of VMs, methods and paths: mostly the same
        self.times = array.array("d")
        self.columns = tuple(array.array("I") for _column in ("Vm", "Method", "Path"))
        self.statuses = array.array("H")  # 0 is none

    def _number(self, text):
        if text not in self.numbers:
            self.numbers[text] = len(self.texts)
            self.texts.append(text)
        return self.numbers[text]

    def saw(self, vm, request):
        """Records a request; the number under which its status is told."""
        with self.lock:
            self.times.append(self.clock.time())
            for column, text in zip(self.columns, (vm, request.method, request.target)):
                column.append(self._number(text))
            self.statuses.append(0)
            return len(self.times) - 1

    def answered(self, number, status):
        with self.lock:
            self.statuses[number] = status

    def seen(self, last=None):
        with self.lock:
            count = len(self.times)
            return [
                {
                    "Time": self.times[number],
                    **{name: self.texts[column[number]] for name, column in zip(("Vm", "Method", "Path"), self.columns)},
                    "Status": self.statuses[number] or None,
                }
                for number in range(max(0, count - (count if last is None else last)), count)
            ]


class Habits:
    """What the real service does beside answering; by default nothing of it."""

    def __init__(self, first_answer=0, events_after=0, disable_after=None, rate=None, one_domain=False):
        self.first_answer = first_answer  # simulated seconds until the first request is answered
        self.events_after = events_after  # simulated seconds from the first request until events are shown
        self.disable_after = disable_after  # simulated seconds without a request
        self.rate = rate  # requests a second, for each VM
        self.one_domain = one_domain  # no event names VMs of two update domains


class ScaleSet:
    """What all the VMs share: the events, the service's state, on or off, its faults, and the requests seen."""

    def __init__(self, started, gone, clock=None, habits=None, seed=None):
        self.started, self.gone = started, gone  # called with an event
        self.clock = clock or Clock()
        self.timetable = Timetable(self.clock)
        self.changed = self.timetable.changed
        self.faults = Faults(self.timetable, seed)
        self.log = RequestLog(self.clock)
        self.habits = habits or Habits()
        self.domains = {}  # of the VMs, by their lower-case names
        self.events = []
        self.standing = {}  # by the event's key
        self.on_since = self.last_asked = None  # simulated
        self._new_service()
        self.shown = not self.habits.events_after

    # The service: on with the first request, off when nobody asks

    def _new_service(self):
        self.run = os.urandom(4).hex()  # a document of another run is another document
        self.incarnation, self.document_events, self.before = 1, [], (1, [])
        self.documents = {}  # of the current incarnation, by version

    def asked(self):
        """Notes a request for the events; the simulated time when it may be answered."""
        with self.changed:
            now, habits = self.clock.passed(), self.habits
            if habits.disable_after is not None and self.last_asked is not None and now - self.last_asked >= habits.disable_after:
                self.switch_off()
            self.last_asked = now
            if self.on_since is None:
                self.on_since = now
                if habits.events_after:
                    self.timetable.later(habits.events_after, self._show, now, alive=lambda: self.on_since == now)
                else:
                    self._show(now)
            return self.on_since + habits.first_answer

    def switch_off(self):
        """Forgets what was told, as after a day without a request: incarnations start again."""
        with self.changed:
            self.on_since = self.last_asked = None
            self.shown = False
            self._new_service()

    def _show(self, since):
        if self.on_since == since and not self.shown:
            self.shown = True
            if self.standing:
                self._events_changed()

    # The life of an event. A timer may come too late: the event was moved on meanwhile, and it does nothing, as one that is not alive.

    def _later(self, delay, event, status, act, *arguments):
        """Acts if the event still is of that status then."""
        self.timetable.later(delay, act, event, *arguments, alive=lambda: event.status == status)

    def add(self, fields, then=None):
        with self.changed:
            given = fields.get("EventId")
            if given is not None and given.lower() in self.standing:
                raise Refused(f"An event {shown(given)} stands already.", 409)
            if self.habits.one_domain:
                refuse_two_domains(fields["Resources"], self.domains)
            event = Event(fields, self.clock)
            event.then = then
            self.events.append(event)
            self.standing[event.key] = event
            self._events_changed()
            if event.status == STARTED:
                self._impact(event)
            else:
                for delay, after in ((event.notice, STARTED), (event.cancel, CANCELLED)):
                    if delay is not None:
                        self._later(delay, event, SCHEDULED, self._move, SCHEDULED, after)
            return event.id

    def move(self, event_id, before, after):
        """Moves an event on by hand."""
        with self.changed:
            event = self.standing.get(event_id.lower())
            if event is None:
                # The last that bore the id, which is free again once its event is gone.
                event = next((event for event in reversed(self.events) if event.key == event_id.lower()), None)
            if event is None:
                raise Refused(f"There is no event {shown(event_id)}.", 404)
            if not self._move(event, before, after):
                raise Refused(f"Event {shown(event_id)} is {event.status}: only one that is {before} can become {after}.", 409)
            return event.report()

    def _move(self, event, before, after):
        if event.status != before:
            return False
        event.set_status(after)
        if after != STARTED:
            del self.standing[event.key]
        self._events_changed()
        if after == STARTED:
            self._impact(event)
        else:
            self.gone(event)
            if event.then:
                event.then()
        return True

    def _impact(self, event):
        if event.impact_seconds is not None and event.settle is not None:
            self._later(event.impact_seconds + event.settle, event, STARTED, self._move, STARTED, COMPLETED)
        for delay in event.further:
            self._later(delay, event, STARTED, self._hit)
        self._hit(event)

    def _hit(self, event):
        if event.status == STARTED:
            event.impacts.append({"Time": self.clock.time()})
            self.started(event)

    def _events_changed(self):
        # What nobody was shown did not change.
        if self.shown:
            self.before = self.incarnation, self.document_events
            self.incarnation += 1
            self.document_events = [event.now() for event in self.standing.values()]
            self.documents = {}

    # What a metadata service does with them

    def document(self, version, fault=None):
        """The document and its entity tag, or a document as a fault has it, without one."""
        with self.changed:
            if fault:
                return self._other_document(version, fault), None
            if version not in self.documents:
                self.documents[version] = as_document(self.incarnation, [in_version(event, version) for event in self.document_events])
            return self.documents[version], f'"{self.run}-{self.incarnation}"'

    def _other_document(self, version, fault):
        incarnation, events = self.before if "Stale" in fault else (self.incarnation, self.document_events)
        incarnation = fault.get("Incarnation", incarnation)
        events = itertools.chain(events, crowd(fault.get("Huge", 0), int(self.clock.time()) + 900))
        return as_document(str(incarnation) if "StringNumbers" in fault else incarnation, [in_version(event, version, fault) for event in events])

    def approve(self, vm, event_ids, incarnation=None):
        """All of the events, or none."""
        with self.changed:
            if incarnation not in (None, self.incarnation):
                raise Refused(f"DocumentIncarnation {incarnation} is stale: the document is at {self.incarnation}.")
            events = {}
            for event_id in event_ids:
                if event_id.lower() not in self.standing or not self.shown:
                    raise Refused(f"There is no event {shown(event_id)}.")
                events[event_id.lower()] = self.standing[event_id.lower()]
            for event in events.values():
                event.approvals.append({"Time": self.clock.time(), "Vm": vm})
                if event.status == SCHEDULED and event.approval is not None:
                    if event.approved_soon:
                        self.timetable.soon(event.approval, self._move, event, SCHEDULED, STARTED)
                    else:
                        self._later(event.approval, event, SCHEDULED, self._move, SCHEDULED, STARTED)

    def reports(self):
        with self.changed:
            return [event.report() for event in self.events]


def as_document(incarnation, events):
    return json.dumps({"DocumentIncarnation": incarnation, "Events": events}).encode()


class Play:
    """A scenario being played: each event at its time, or some time after another one's end."""

    def __init__(self, scale_set, planned):
        self.scale_set = scale_set
        self.planned = planned
        self._add_after(None)

    def _add_after(self, ended):
        for place, event in enumerate(self.planned):
            if event.follows == ended:
                self.scale_set.timetable.later(event.wait, self._add, place, event)

    def _add(self, place, event):
        try:
            self.scale_set.add(event.fields, then=lambda: self._add_after(place))
        except Refused as error:
            complain(f"scenario: event {event.entry}: {error}")
            self._add_after(place)  # those that follow it come all the same


# HTTP, as far as it is needed: Python's own server waits for ever on a client that dawdles, and looks up names


class Request:
    """A request that was read, or whose ``problem`` says why its body was not."""

    def __init__(self, method, target, headers):
        self.method = method
        self.target = target
        self.path, _mark, query = re.sub(r"^(?i:https?)://[^/?]*", "", target).partition("?")
        self.query = [(name.lower(), value) for name, value in urllib.parse.parse_qsl(query, keep_blank_values=True)]
        self.headers = headers  # lists of values by lower-case name
        self.body = b""
        self.problem = None
        self.hung_up = None  # a function: is the client gone?

    def parameter(self, name):
        return next((value for key, value in self.query if key == name), "")


class Response:
    def __init__(self, status, body=b"", headers=None):
        self.status = status
        self.body = body
        self.headers = headers or {}
        self.way = {}  # what a fault does to it under way
        self.clock_off = 0


def json_response(status, value, headers=None):
    return Response(status, json.dumps(value).encode(), {**JSON_TYPE, **(headers or {})})


def refusal(refused):
    return json_response(refused.status, {"error": str(refused), **refused.more}, refused.headers)


class Connection:
    """One client's connection, with one request after another."""

    def __init__(self, sock, answer, now=time.time):
        self.sock = sock
        self.answer = answer
        self.now = now
        self.idle_since = None  # while no request has begun
        self.received = bytearray()
        self.deadline = time.monotonic() + REQUEST_SECONDS

    def serve(self):
        try:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while self._serve_one():
                pass
        except OSError:
            pass  # The client is gone, or takes no answer: nobody is left to tell.
        finally:
            self.sock.close()

    def _serve_one(self):
        """Answers one request; false ends the connection."""
        self.idle_since = time.monotonic()
        try:
            while not self.received.lstrip(b"\r\n"):
                self.received.clear()
                self._receive()
        except socket.timeout:
            return False
        self.idle_since = None
        self.deadline = time.monotonic() + REQUEST_SECONDS
        try:
            request, keep = self._read_head()
        except Refused as refused:
            self._send(refusal(refused), keep=False)
            return False
        try:
            self._read_body(request)
        except Refused as refused:
            request.problem, keep = refused, False
        request.hung_up = self._hung_up
        head_only = request.method == "HEAD"
        try:
            response = self.answer(request)
        except Refused as refused:
            response = refusal(refused)
        if response is None or not self._send(response, keep, head_only):
            return False
        self.deadline = time.monotonic() + IDLE_SECONDS
        return True

    # Reading

    def _receive(self):
        remaining = self.deadline - time.monotonic()
        if remaining <= 0:
            raise socket.timeout
        self.sock.settimeout(remaining)
        data = self.sock.recv(65536)
        if not data:
            raise ConnectionResetError
        self.received += data

    def _line(self):
        """The next line, without its end."""
        searched = 0
        while True:
            end = self.received.find(b"\n", searched)
            if end >= 0 or len(self.received) > LINE_LIMIT:
                break
            searched = len(self.received)
            try:
                self._receive()
            except socket.timeout:
                raise Refused("The request took too long.", 408) from None
        if not 0 <= end <= LINE_LIMIT:
            raise Refused(f"A line is longer than {LINE_LIMIT} bytes.", 431)
        line = bytes(self.received[:end])
        del self.received[: end + 1]
        return line[:-1] if line.endswith(b"\r") else line

    def _lines(self):
        """The lines up to an empty one."""
        lines, size = [], 0
        while True:
            line = self._line()
            if not line:
                return lines
            size += len(line)
            if size > HEAD_LIMIT:
                raise Refused(f"The head is longer than {HEAD_LIMIT} bytes.", 431)
            lines.append(line.decode("latin-1"))

    def _bytes(self, count):
        while len(self.received) < count:
            try:
                self._receive()
            except socket.timeout:
                raise Refused("The request took too long.", 408) from None
        data = bytes(self.received[:count])
        del self.received[:count]
        return data

    def _read_head(self):
        """A request without its body, and whether the connection may be kept."""
        self.received = self.received.lstrip(b"\r\n")
        lines = self._lines()
        match = re.fullmatch(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([!-~\x80-\xff]+) HTTP/([0-9])\.([0-9])", lines[0])
        if not match:
            raise Refused("This is no request of HTTP/1.1.")
        method, target, major, minor = match.groups()
        if major != "1":
            raise Refused("HTTP/1.1 is spoken here.", 505)
        headers = {}
        for line in lines[1:]:
            match = re.fullmatch(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*", line)
            if not match:
                raise Refused("A header is malformed.")
            headers.setdefault(match.group(1).lower(), []).append(match.group(2))
        wishes = [wish.strip().lower() for value in headers.get("connection", []) for wish in value.split(",")]
        keep = "close" not in wishes and (minor != "0" or "keep-alive" in wishes)
        return Request(method, target, headers), keep

    def _read_body(self, request):
        codings, lengths = request.headers.get("transfer-encoding", []), set(request.headers.get("content-length", []))
        if codings:
            if lengths:
                raise Refused("Content-Length and Transfer-Encoding exclude each other.")
            if [coding.lower() for coding in codings] != ["chunked"]:
                raise Refused("The only Transfer-Encoding known is chunked.", 501)
        elif not lengths:
            return
        elif len(lengths) > 1 or not re.fullmatch(r"[0-9]{1,30}", min(lengths)):
            raise Refused("Content-Length is malformed.")
        elif int(min(lengths)) > BODY_LIMIT:
            raise self._too_big()
        if request.headers.get("expect", [""])[0].lower() == "100-continue":
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.body = self._chunks() if codings else self._bytes(int(min(lengths)))

    def _chunks(self):
        body = bytearray()
        while True:
            match = re.fullmatch(rb"([0-9A-Fa-f]{1,15})[ \t]*(;.*)?", self._line())
            if not match:
                raise Refused("A chunk is malformed.")
            size = int(match.group(1), 16)
            if size == 0:
                self._lines()
                return bytes(body)
            if len(body) + size > BODY_LIMIT:
                raise self._too_big()
            body += self._bytes(size)
            if self._line():
                raise Refused("A chunk is malformed.")

    @staticmethod
    def _too_big():
        return Refused(f"The body is longer than {BODY_LIMIT} bytes.", 413)

    def _hung_up(self):
        self.sock.settimeout(0)
        try:
            return not self.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    # Writing

    def _write(self, data):
        self.sock.settimeout(REQUEST_SECONDS)
        self.sock.sendall(data)

    def _send(self, response, keep, head_only=False):
        """Sends a response; true if the connection is kept."""
        bare = response.status in (204, 304)
        headers = {"date": ("Date", email.utils.formatdate(self.now() + response.clock_off, usegmt=True))}
        if response.body and not bare:
            headers["content-type"] = ("Content-Type", "text/plain; charset=utf-8")
        if not bare:
            headers["content-length"] = ("Content-Length", str(len(response.body)))
        own = {name.lower(): (name, value) for name, value in response.headers.items()}
        headers.update(own)
        # A fault may bring headers that tell the body's length, truly or not, or close the connection.
        keep = keep and not own.keys() & {"content-length", "transfer-encoding"} and "close" not in own.get("connection", ("", ""))[1].lower()
        if not keep:
            headers["connection"] = ("Connection", "close")
        else:
            headers.setdefault("connection", ("Connection", "keep-alive"))
        try:
            phrase = http.HTTPStatus(response.status).phrase
        except ValueError:
            phrase = ""
        lines = [f"HTTP/1.1 {response.status} {phrase}", *(": ".join(header) for header in headers.values()), "", ""]
        head, body = "\r\n".join(lines).encode("latin-1"), b"" if bare or head_only else response.body
        if response.way:
            keep = self._write_slowly(head, body, response.way) and keep
        else:
            self._write(head + body)
        if not keep:
            self._hang_up()
        return keep

    def _write_slowly(self, head, body, way):
        """As a fault has it; false if the connection ends with it."""
        self._write(head)
        time.sleep(way.get("DelayBody", 0))
        whole = len(body)
        body = body[: way.get("Cut", whole)]
        piece = max(1, way["Slow"] // 10) if "Slow" in way else len(body) or 1
        for begin in range(0, len(body), piece):
            self._write(body[begin : begin + piece])
            if "Slow" in way:
                time.sleep(piece / way["Slow"])
        return len(body) == whole and "DropAfter" not in way

    def end_idle(self):
        """Ends a connection on which nothing happens."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def _hang_up(self):
        """Takes what the client still sends: the kernel's reset for unread bytes could overtake the answer."""
        self.sock.shutdown(socket.SHUT_WR)
        self.deadline = time.monotonic() + HANG_UP_SECONDS
        while True:
            self.received.clear()
            self._receive()


# The services


class Vm:
    """What the instance endpoint tells of a VM; ``told`` has fields of ``compute`` as the user wants them."""

    def __init__(self, name, number, told=None):
        told = told or {}
        self.name = name
        vm_id = uuid.uuid5(uuid.NAMESPACE_OID, name)
        compute = {
            "azEnvironment": "AzurePublicCloud",
            "location": "westeurope",
            "name": name,
            "offer": "simulated",
            "osType": "Linux",
            "placementGroupId": "",
            "platformFaultDomain": str(number % 3),
            "platformUpdateDomain": str(number),
            "provider": "Microsoft.Compute",
            "publisher": "simulated",
            "resourceGroupName": "simulated",
            "resourceId": "",
            "sku": "simulated",
            "subscriptionId": "00000000-0000-0000-0000-000000000000",
            "tags": "",
            "version": "1",
            "vmId": str(vm_id),
            "vmScaleSetName": "simulated",
            "vmSize": "Standard_D2s_v5",
            "zone": "",
            **told,
        }
        if "resourceId" not in told:
            group = f"/subscriptions/{compute['subscriptionId']}/resourceGroups/{compute['resourceGroupName']}"
            compute["resourceId"] = f"{group}/providers/Microsoft.Compute/virtualMachines/{compute['name']}"
        if compute["tags"]:
            pairs = [tag.partition(":") for tag in compute["tags"].split(";") if tag]
            compute["tagsList"] = [{"name": name, "value": value} for name, _mark, value in pairs]
        self.domain = compute["platformUpdateDomain"]
        self.instance = {
            "compute": compute,
            "network": {
                "interface": [
                    {
                        "ipv4": {
                            "ipAddress": [{"privateIpAddress": f"10.0.{number // 250}.{number % 250 + 4}", "publicIpAddress": ""}],
                            "subnet": [{"address": "10.0.0.0", "prefix": "16"}],
                        },
                        "ipv6": {"ipAddress": []},
                        "macAddress": "000D3A" + vm_id.hex[:6].upper(),
                    }
                ]
            },
        }


COMPUTE_FIELDS = [name for name in Vm("", 0).instance["compute"] if name != "name"]


class MetadataService:
    """The metadata service of one VM."""

    def __init__(self, name, number, scale_set, told=None):
        self.name = name
        self.scale_set = scale_set
        self.vm = Vm(name, number, told)
        self.answered = collections.deque(maxlen=scale_set.habits.rate or 1)  # when, on a real clock
        self.lock = threading.Lock()
        scale_set.domains[name.lower()] = self.vm.domain

    def answer(self, request):
        number = self.scale_set.log.saw(self.name, request)
        # A real service takes the path in any case.
        scheduled_events = request.path.lower() == "/metadata/scheduledevents"
        fault = self.scale_set.faults.meet(self.name, request.method) if scheduled_events else {}
        # A client that did not wait for it has no answer, and must try again: nothing happened.
        if fault.get("Delay") and not sleep_with(request, fault["Delay"]):
            return None
        if "Drop" in fault:
            return None
        response = answer_of_fault(fault)
        if response is None:
            try:
                self._check_rate()
                response = self._scheduled_events(request, fault) if scheduled_events else self._other(request)
            except Refused as refused:
                response = refusal(refused)
        time.sleep(fault.get("DelayAnswer", 0))
        if response is None or "DropAnswer" in fault:
            return None
        if "ContentType" in fault:
            response.headers = {**response.headers, "Content-Type": fault["ContentType"]}
        response.clock_off = fault.get("ClockOff", 0)
        response.way = {name: value for name, value in fault.items() if name in WAYS}
        self.scale_set.log.answered(number, response.status)
        return response

    def _check_rate(self):
        if self.scale_set.habits.rate is None:
            return
        now = time.monotonic()
        with self.lock:
            if len(self.answered) == self.answered.maxlen and now - self.answered[0] < 1:
                raise Refused(f"Too many requests: {self.scale_set.habits.rate} a second are answered.", 429)
            self.answered.append(now)

    def _scheduled_events(self, request, fault):
        allow(request, "GET", "POST")
        version = request.parameter("api-version")
        # Only the published clients of the preview POST without the header.
        self._check(request, header_needed=(request.method, version) != ("POST", PREVIEW))
        if version not in VERSION_FIELDS:
            mistake = f"{shown(version)} is not known" if version else "there is none"
            raise Refused(
                f"Bad request. api-version is invalid or was not specified in the request: {mistake}.",
                **{"newest-versions": sorted(VERSION_FIELDS, reverse=True)},
            )
        if not self.scale_set.timetable.wait_until(self.scale_set.asked(), request.hung_up):
            return None
        if request.method == "POST":
            return self._approve(request, version)
        altered = {name: value for name, value in fault.items() if name in DOCUMENTS or name == "ClockOff"}
        body, tag = self.scale_set.document(version, altered)
        if tag is None:
            return Response(200, body, JSON_TYPE)
        known = [known.strip() for value in request.headers.get("if-none-match", []) for known in value.split(",")]
        if "*" in known or tag in [known[2:] if known.startswith("W/") else known for known in known]:
            return Response(304, headers={"ETag": tag})
        return Response(200, body, {**JSON_TYPE, "ETag": tag})

    def _approve(self, request, version):
        approval = parse_json(request.body)
        if not isinstance(approval, dict) or not isinstance(approval.get("StartRequests"), list) or not approval["StartRequests"]:
            raise Refused("The body must be an object with a list StartRequests that is not empty.")
        event_ids = []
        for entry in approval["StartRequests"]:
            if not isinstance(entry, dict) or not isinstance(entry.get("EventId"), str):
                raise Refused("Each of StartRequests must be an object with a string EventId.")
            event_ids.append(entry["EventId"])
        incarnation = None
        if version == PREVIEW:
            incarnation = approval.get("DocumentIncarnation")
            if isinstance(incarnation, str) and re.fullmatch("[0-9]{1,18}", incarnation):
                incarnation = int(incarnation)
            if not is_int(incarnation):
                raise Refused(f"With api-version {PREVIEW} the body must carry the DocumentIncarnation of the document read.")
        self.scale_set.approve(self.name, event_ids, incarnation)
        return Response(200)

    def _other(self, request):
        path = [urllib.parse.unquote(part) for part in request.path.strip("/").split("/")]
        place = [part.lower() for part in path[:2]]
        if place == ["metadata", "versions"] and len(path) == 2:
            allow(request, "GET")
            self._check(request)
            return json_response(200, {"apiVersions": sorted({*VERSION_FIELDS, *INSTANCE_VERSIONS})})
        if place != ["metadata", "instance"]:
            raise Refused("There is nothing at this path.", 404)
        allow(request, "GET")
        self._check(request)
        if not request.parameter("api-version"):
            raise Refused("Bad request. api-version is invalid or was not specified in the request.")
        value = self.vm.instance
        for part in path[2:]:
            if isinstance(value, dict) and part in value:
                value = value[part]
            elif isinstance(value, list) and re.fullmatch("[0-9]{1,9}", part) and int(part) < len(value):
                value = value[int(part)]
            else:
                raise Refused("There is nothing at this path.", 404)
        if request.parameter("format").lower() != "text":
            return json_response(200, value)
        if isinstance(value, dict):
            value = "\n".join(name if isinstance(value[name], str) else name + "/" for name in value)
        elif isinstance(value, list):
            value = "\n".join(f"{number}/" for number in range(len(value)))
        return Response(200, value.encode())

    @staticmethod
    def _check(request, header_needed=True):
        """What the metadata service demands of every request."""
        if request.problem:
            raise request.problem
        if "x-forwarded-for" in request.headers:
            raise Refused("Requests with X-Forwarded-For are not answered.")
        if header_needed and request.headers.get("metadata", [""])[0].lower() != "true":
            raise Refused("Bad request. Required metadata header not specified: the request must have the header Metadata: true.")
        names = [parameter[0] for parameter in request.query]
        if len(set(names)) < len(names):
            raise Refused("A query parameter is repeated.")


PORTAL = b"""<!DOCTYPE html>
<html><title>Sign in</title><body><form><input name="user"><input name="password" type="password"></form></body></html>
"""


def sleep_with(request, delay):
    """Sleeps real seconds; false once the client is gone, whose connection others may have."""
    over = time.monotonic() + delay
    while not request.hung_up():
        remaining = over - time.monotonic()
        if remaining <= 0:
            return True
        time.sleep(min(0.5, remaining))
    return False


def answer_of_fault(fault):
    """What a fault answers in the service's place, or None."""
    if "Status" in fault:
        return Response(fault["Status"], fault.get("Body", "").encode(), fault.get("Headers"))
    if "Portal" in fault:
        return Response(200, PORTAL, HTML_TYPE)
    if "Redirect" in fault:
        return Response(302, headers={"Location": fault["Redirect"]})
    if "Empty" in fault:
        return Response(200, headers=dict(JSON_TYPE))
    return None


def allow(request, *methods):
    if request.method not in methods:
        raise Refused(f"The methods here are {', '.join(methods)}.", 405, {"Allow": ", ".join(methods)})


class Control:
    """The control address."""

    MOVES = {"start": (SCHEDULED, STARTED), "complete": (STARTED, COMPLETED), "cancel": (SCHEDULED, CANCELLED)}

    def __init__(self, scale_set, vms, commands_allowed=False):
        self.scale_set = scale_set
        self.vms = vms
        self.names = [vm.name for vm in vms]
        self.commands_allowed = commands_allowed
        self.urls = {}
        self.places = {
            "events": (self._events, "GET", "POST"),
            "faults": (self._faults, "GET", "POST", "DELETE"),
            "requests": (self._requests, "GET"),
            "state": (self._state, "GET"),
            "clock": (self._clock, "GET", "POST"),
            "scenarios": (self._scenarios, "GET", "POST"),
            "disable": (self._disable, "POST"),
        }

    def answer(self, request):
        if request.problem:
            raise request.problem
        refuse_other_pages(request)
        if request.method == "HEAD":
            request.method = "GET"
        path = [urllib.parse.unquote(part) for part in request.path.split("/")[1:]]
        if path == [""] and request.method == "GET":
            return Response(200, PAGE.encode(), HTML_TYPE)
        if len(path) == 1 and path[0] in self.places:
            act, *methods = self.places[path[0]]
            allow(request, *methods)
            return act(request)
        if len(path) == 3 and path[0] == "events" and path[2] in self.MOVES:
            allow(request, "POST")
            return json_response(200, self.scale_set.move(path[1], *self.MOVES[path[2]]))
        raise Refused(f"There is nothing at this path: see /events, /events/ID/start, /complete and /cancel, /{', /'.join(list(self.places)[1:])}.", 404)

    def _events(self, request):
        if request.method == "GET":
            return json_response(200, self.scale_set.reports())
        event = checked_event(parse_json(request.body))
        self._refuse_commands([event])
        told = {"EventId": self.scale_set.add(event)}
        return json_response(201, {**told, **self._not_simulated(event["Resources"])})

    def _not_simulated(self, resources):
        """The names that are no VM's here: as of a scale set with more VMs, or as of a slip."""
        names = strangers_to(self.names, resources)
        return {"NotSimulated": names} if names else {}

    def _faults(self, request):
        if request.method == "GET":
            return json_response(200, self.scale_set.faults.reports())
        if request.method == "DELETE":
            self.scale_set.faults.clear()
            return json_response(200, {"Faults": 0})
        return json_response(201, {"Faults": self.scale_set.faults.add(checked_fault(parse_json(request.body), self.names))})

    def _requests(self, request):
        last = request.parameter("last")
        if last and not re.fullmatch("[0-9]{1,9}", last):
            raise Refused(f"last must be an integer from 0 to 999999999, not {shown(last)}.")
        return json_response(200, self.scale_set.log.seen(int(last) if last else None))

    def _state(self, request):
        with self.scale_set.changed:
            state = {
                **self._time(),
                "On": self.scale_set.on_since is not None,
                "DocumentIncarnation": self.scale_set.incarnation,
                "Vms": {vm.name: {"Url": self.urls.get(vm.name), "Domain": vm.domain} for vm in self.vms},
                "Events": [event.report() for event in self.scale_set.events],
            }
        return json_response(200, {**state, "Faults": self.scale_set.faults.reports(), "Requests": self.scale_set.log.seen(50)})

    def _time(self):
        timetable = self.scale_set.timetable
        with self.scale_set.changed:
            return {"Time": timetable.clock.time(), "Scale": timetable.clock.scale, "Next": timetable.next()}

    def _clock(self, request):
        if request.method == "POST":
            wish = checked(parse_json(request.body), "The clock", {"Scale": a_scale, "Step": seconds, "Next": true})
            if not wish or ("Step" in wish and "Next" in wish):
                raise Refused("The clock needs Scale, or one of Step and Next.")
            timetable = self.scale_set.timetable
            with self.scale_set.changed:
                # The scale last: what is refused changes nothing.
                if "Next" in wish:
                    timetable.step_to_next()
                if "Step" in wish:
                    timetable.step(wish["Step"])
                if "Scale" in wish:
                    timetable.set_scale(wish["Scale"])
        return json_response(200, self._time())

    def _scenarios(self, request):
        if request.method == "GET":
            return json_response(200, SCENARIOS)
        wish = parse_json(request.body)
        if isinstance(wish, dict) and "Name" in wish:
            name = checked(wish, "A scenario", {"Name": a_text})["Name"]
            if name not in SCENARIOS:
                raise Refused(f"There is no scenario {shown(name)}; known are {', '.join(SCENARIOS)}.", 404)
            scenario = known_scenario(name, self.names)
        else:
            scenario = checked_scenario(wish, self.names)
            self._refuse_commands(scenario.entries)
        if scenario.vms:
            raise Refused("What is told of VMs is told at the start: see --scenario.")
        planned = scenario.events(self.vms, self.scale_set.habits.one_domain)
        for fault in scenario.faults:
            self.scale_set.faults.add(fault)
        Play(self.scale_set, planned)
        told = {"Events": len(planned), "Faults": len(scenario.faults)}
        return json_response(201, {**told, **self._not_simulated([name for event in planned for name in event.fields["Resources"]])})

    def _disable(self, request):
        self.scale_set.switch_off()
        return json_response(200, {"DocumentIncarnation": 1})

    def _refuse_commands(self, events):
        # Whoever reaches this address would be whoever runs the simulator.
        if not self.commands_allowed and any(event.keys() & {"OnStart", "OnGone"} for event in events):
            raise Refused("OnStart and OnGone are taken from here with --allow-commands alone.", 403)


def refuse_other_pages(request):
    """A page of another site must not act here through its reader's browser, nor by a name that it lets point here."""
    origin, host = request.headers.get("origin"), request.headers.get("host", [""])[0]
    if origin is None:
        return
    name = re.sub(r":[0-9]*$", "", host)
    if origin != [f"http://{host}"] or not re.fullmatch(r"localhost|[0-9.]+|\[[0-9A-Fa-f:.]+\]", name):
        raise Refused("Only this page itself may ask from a browser, by its number or localhost.", 403)


# The process


class Commands:
    """Runs the user's commands in the order of the events, and waits for none."""

    def __init__(self, on_start=None, on_gone=None, limit=600):
        self.on_start, self.on_gone, self.limit = on_start, on_gone, limit
        self.wanted = queue.SimpleQueue()
        self.pipes = {}  # from which output of commands still comes, by number

    def started(self, event):
        self._want(event, event.on_start or self.on_start)

    def gone(self, event):
        self._want(event, event.on_gone or self.on_gone)

    def _want(self, event, command):
        if not command:
            return
        report = event.report()
        record = {"Time": event.clock.time(), "Command": command, "Seconds": None, "ExitStatus": None, "Problem": None, "Output": ""}
        event.commands.append(record)
        self.wanted.put((command, report, record))

    def run(self):
        while True:
            command, report, record = self.wanted.get()
            parts = shlex.split(command)
            try:
                # A file, since a command that does not read its input would block a pipe.
                with tempfile.TemporaryFile() as stdin:
                    stdin.write(json.dumps(report).encode() + b"\n")
                    stdin.seek(0)
                    process = subprocess.Popen(parts, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
                in_background(self._pass_on, process.stdout, record)
                in_background(self._await, process, record)
            except (OSError, ValueError) as error:
                record["Problem"] = f"cannot be run: {os.strerror(error.errno) if isinstance(error, OSError) else error}"
                complain(f"{parts[0]} {record['Problem']}")

    def _await(self, process, record):
        begun = time.monotonic()
        try:
            process.wait(self.limit)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            record["Problem"] = f"was ended after {self.limit:g} s"
            complain(f"{record['Command']} {record['Problem']}")
        record["Seconds"] = round(time.monotonic() - begun, 3)
        record["ExitStatus"] = process.returncode

    def _pass_on(self, pipe, record):
        """What a command prints goes to standard error; the end of it is kept."""
        number = pipe.fileno()
        self.pipes[number] = pipe
        kept = b""
        while True:
            data = os.read(number, 65536)
            if not data:
                break
            kept = (kept + data)[-OUTPUT_LIMIT:]
            record["Output"] = kept.decode(errors="replace")
            STANDARD_ERROR.write(data)
        del self.pipes[number]
        pipe.close()

    def leave(self):
        """Somebody else passes on what the commands still print: without a reader they would die of it."""
        for pipe in list(self.pipes.values()):
            with contextlib.suppress(OSError, ValueError):
                subprocess.Popen(["cat"], stdin=pipe, stdout=2)


class Listener:
    """An address at which a service listens."""

    def __init__(self, address, answer, now=time.time):
        self.answer = answer
        self.now = now
        self.free = threading.Semaphore(CONNECTION_LIMIT)
        self.connections = set()
        self.lock = threading.Lock()
        family, sockaddr = address
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                self.sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            self.sock.bind(sockaddr)
            self.sock.listen(BACKLOG)
        except OSError as error:
            raise Refused(f"cannot listen at {url(sockaddr)}: {error.strerror}") from None
        self.url = url(self.sock.getsockname())

    def run(self):
        while True:
            try:
                sock = self.sock.accept()[0]
            except OSError:
                # The client is gone already, or there is no file left for it: others end meanwhile.
                time.sleep(0.02)
                continue
            # Beyond the limit, the next client takes the place of one that only keeps its connection, or waits.
            if not self.free.acquire(blocking=False):
                self._make_room()
                self.free.acquire()
            try:
                in_background(self._serve, sock)
            except RuntimeError:  # no thread left for it
                sock.close()
                self.free.release()
                time.sleep(0.02)

    def _serve(self, sock):
        connection = Connection(sock, self.answer, self.now)
        with self.lock:
            self.connections.add(connection)
        try:
            connection.serve()
        finally:
            with self.lock:
                self.connections.discard(connection)
            self.free.release()

    def _make_room(self):
        with self.lock:
            idle = [(connection.idle_since, id(connection), connection) for connection in self.connections]
        idle = [entry for entry in idle if entry[0] is not None]
        if idle:
            min(idle)[2].end_idle()


def url(sockaddr):
    host, port = sockaddr[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def in_background(act, *arguments):
    threading.Thread(target=act, args=arguments, daemon=True).start()


class StandardError:
    """Standard error. Whoever reads it may do so slowly, or never: once ``run`` runs, nobody else waits for that."""

    def __init__(self):
        self.changed = threading.Condition()
        self.running = False
        self.unread = bytearray()

    def write(self, data):
        if not self.running:
            self._write(data)
            return
        with self.changed:
            if len(self.unread) + len(data) <= UNREAD_LIMIT:
                self.unread += data
                self.changed.notify_all()

    def run(self):
        self.running = True
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.unread)
                data = bytes(self.unread)
            self._write(data)
            with self.changed:
                del self.unread[: len(data)]
                self.changed.notify_all()

    def end(self):
        """Waits for what is still to be written, but not for long."""
        with self.changed:
            self.changed.wait_for(lambda: not self.unread, 0.3)

    @staticmethod
    def _write(data):
        with contextlib.suppress(OSError):
            os.write(2, data)


STANDARD_ERROR = StandardError()


def complain(message):
    """One line on standard error."""
    STANDARD_ERROR.write(f"imds_simulator.py: {' '.join(message.split())}\n".encode("ascii", "backslashreplace"))


def announce(line):
    """One line on standard output; false, and told, if it cannot be written."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        print(line.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except OSError as error:
        # Whoever reads no further wants nothing said; and Python would try again at its end.
        if not isinstance(error, BrokenPipeError):
            complain(f"standard output: {error.strerror}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


class Parser(argparse.ArgumentParser):
    def error(self, message):
        complain(message)
        sys.exit(2)


def an_address(text):
    host, _colon, port = text.rpartition(":")
    if not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not ADDRESS:PORT with a port from 0 (any free one) to 65535")
    if host == "localhost":
        host = "127.0.0.1"
    bracketed = re.fullmatch(r"\[(.*:.*)\]", host)
    try:
        if not host or (":" in host and not bracketed):
            raise ValueError
        # Numbers alone: nothing is looked up.
        found = socket.getaddrinfo(bracketed.group(1) if bracketed else host, int(port), type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, ValueError):
        raise argparse.ArgumentTypeError(f"{host!r} in {text!r} is neither an IPv4 address nor an IPv6 address in brackets") from None
    return found[0][0], found[0][4]


def a_named_address(text):
    name, _mark, address = text.rpartition("=")
    if not name or not name.isprintable():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=ADDRESS:PORT")
    return name, an_address(address)


def a_compute_field(text):
    match = re.fullmatch(rf"(?:(.+)/)?({'|'.join(COMPUTE_FIELDS)})=(.*)", text, re.DOTALL)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not FIELD=VALUE or NAME/FIELD=VALUE with one of the fields {', '.join(COMPUTE_FIELDS)}")
    return match.groups()


def a_command(text):
    try:
        return a_command_line(text)
    except Unfit as error:
        raise argparse.ArgumentTypeError("the command is empty" if not text.split() else f"{text!r} is not {error}") from None


def an_option(check, convert=float):
    """The type of an option whose value has to pass a check, too."""

    def convert_and_check(text):
        try:
            return check(convert(text))
        except (ValueError, Unfit):
            try:
                check(object())
            except Unfit as error:
                raise argparse.ArgumentTypeError(f"{text!r} is not {error}") from None

    return convert_and_check


class ListScenarios(argparse.Action):
    def __call__(self, parser, *_arguments):
        told = announce("\n".join(f"{name}\n    {scenario['about']}\n    {scenario['source']}" for name, scenario in SCENARIOS.items()))
        sys.exit(0 if told else 1)


def parse_arguments(arguments):
    parser = Parser(
        description="Simulates the Scheduled Events of Azure's metadata service, for tests. See also: imds_simulator.py ctl --help",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--vm", action="append", default=[], type=a_named_address, dest="vms", metavar="NAME=ADDRESS:PORT", help="a VM and where its metadata service listens"
    )
    parser.add_argument(
        "--control", type=an_address, default="127.0.0.1:0", metavar="ADDRESS:PORT", help="where the control address listens (a free port of 127.0.0.1)"
    )
    parser.add_argument("--scenario", metavar="NAME|FILE", help="events and faults that come by themselves: one of the library, or a file of JSON")
    parser.add_argument("--on-start", type=a_command, metavar="COMMAND", help="run when an event starts, with the event as JSON on standard input")
    parser.add_argument("--on-gone", type=a_command, metavar="COMMAND", help="run when an event is gone, completed or cancelled")
    parser.add_argument("--command-timeout", type=an_option(some_seconds), default=600, metavar="SECONDS", help="a command is ended after that (600)")
    parser.add_argument("--allow-commands", action="store_true", help="events of the control address may bring commands, too")
    parser.add_argument(
        "--background", metavar="DIRECTORY", help="once everything listens, go on in the background, with imds_simulator.pid and .log in this directory"
    )
    time_group = parser.add_argument_group("time")
    time_group.add_argument("--time-scale", type=an_option(a_scale), default=1.0, metavar="FACTOR", help="time runs that fast; 0 stands still (1)")
    time_group.add_argument("--seed", type=an_option(an_int, int), metavar="NUMBER", help="makes faults with a probability come the same way again")
    vm_group = parser.add_argument_group("VMs")
    vm_group.add_argument(
        "--compute", action="append", default=[], type=a_compute_field, metavar="[NAME/]FIELD=VALUE", help="what the instance endpoint tells of all VMs, or one"
    )
    vm_group.add_argument(
        "--domains", type=an_option(a_count, int), metavar="NUMBER", help="deals the VMs over so many update domains, of which an event hits one alone"
    )
    habits = parser.add_argument_group("what the real service does, too; all times are simulated")
    habits.add_argument("--realistic", action="store_true", help="--first-answer 120 --events-after 300 --disable-after 86400 --rate 5 --domains 5")
    habits.add_argument("--first-answer", type=an_option(seconds), metavar="SECONDS", help="the first request is answered that late")
    habits.add_argument("--events-after", type=an_option(seconds), metavar="SECONDS", help="events are shown so long after the first request")
    habits.add_argument("--disable-after", type=an_option(seconds), metavar="SECONDS", help="switched off after so long without a request")
    habits.add_argument("--rate", type=an_option(a_count, int), metavar="NUMBER", help="answers 429 to more requests a (real) second and VM")
    parser.add_argument("--list-scenarios", action=ListScenarios, nargs=0, help="tells the scenarios of the library, and ends")
    parser.add_argument("--check", metavar="FILE", help="tells every mistake in a scenario file, and ends; without --vm any names of VMs will do")
    options = parser.parse_args(arguments)
    if not options.vms and options.check is None:
        parser.error("the following arguments are required: --vm")
    names = set()
    for name, _address in options.vms:
        if name.lower() in names:
            parser.error(f"argument --vm: the name {name!r} is given twice")
        names.add(name.lower())
    for name, _field, _value in options.compute:
        if name is not None and name.lower() not in names:
            parser.error(f"argument --compute: there is no VM {name!r}")
    if options.realistic:
        for name, value in (("first_answer", 120), ("events_after", 300), ("disable_after", 86400), ("rate", 5), ("domains", 5)):
            if getattr(options, name) is None:
                setattr(options, name, value)
    return options


def read_scenario(path, names):
    try:
        with open(path, "rb") as file:
            return checked_scenario(parse_json(file.read()), names)
    except OSError as error:
        raise Refused(f"--scenario {path}: {error.strerror}, and no scenario of the library: {', '.join(SCENARIOS)}.") from None
    except Refused as error:
        raise Refused([f"--scenario {path}: {mistake}" for mistake in error.mistakes]) from None


def check_scenario(options):
    """The command --check."""
    path, names = options.check, [vm[0] for vm in options.vms]
    try:
        with open(path, "rb") as file:
            scenario = checked_scenario(parse_json(file.read()), names or None)
        if names:
            vms = [Vm(name, number, told_of(name, number, options, scenario)) for number, name in enumerate(names)]
            complain_of_strangers(scenario.events(vms, options.domains is not None), names, path)
    except OSError as error:
        complain(f"{path}: {error.strerror}")
        return 2
    except Refused as refused:
        for mistake in refused.mistakes:
            complain(f"{path}: {mistake}")
        return 1
    return 0 if announce(f"{path}: {len(scenario.entries)} events, {len(scenario.faults)} faults, no mistakes") else 1


def allow_files(count):
    """Raises the limit of open files, as far as the system lets us."""
    try:
        import resource  # not on every system
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        count = min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def lock_pid_file(path):
    """The pid file, open and locked: the one whose pid it has holds the lock for as long as it lives."""
    import fcntl  # not on every system, as fork is not

    while True:
        pid_file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(pid_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(f"--background {os.path.dirname(path)}: process {os.read(pid_file, 20).decode().strip()} runs with this directory already.") from None
        # One that was ending may have removed it meanwhile.
        if is_at(pid_file, path):
            return pid_file
        os.close(pid_file)


def is_at(file, path):
    """Whether an open file is the one at that path."""
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(file), os.stat(path))
    return False


def go_to_background(directory, line):
    """Lets a child process go on without this one; returns the locked pid file and its path, in the child alone."""
    path = os.path.join(directory, "imds_simulator.pid")
    try:
        log = os.open(os.path.join(directory, "imds_simulator.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        pid_file = lock_pid_file(path)
        pid = os.fork()
        if pid:
            os.ftruncate(pid_file, 0)
            os.write(pid_file, b"%d\n" % pid)
    except OSError as error:
        raise Refused(f"--background {directory}: {error.strerror}") from None
    if pid:
        announce(line)
        sys.exit(0)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for new, old in ((nothing, 0), (nothing, 1), (log, 2)):
        os.dup2(new, old)
    return pid_file, path


def serve(options):
    """Runs the services until a signal ends them."""
    # A byte in this pipe ends the simulator: a signal may come at any moment, in any thread.
    ending, end = os.pipe()
    os.set_blocking(end, False)
    signal.set_wakeup_fd(end, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_arguments: None)

    names = [vm[0] for vm in options.vms]
    commands = Commands(options.on_start, options.on_gone, options.command_timeout)
    clock = Clock(options.time_scale)
    habits = Habits(options.first_answer or 0, options.events_after or 0, options.disable_after, options.rate, options.domains is not None)
    scale_set = ScaleSet(commands.started, commands.gone, clock, habits, options.seed)
    try:
        scenario = Scenario()
        if options.scenario is not None:
            scenario = known_scenario(options.scenario, names) if options.scenario in SCENARIOS else read_scenario(options.scenario, names)
        services = [MetadataService(name, number, scale_set, told_of(name, number, options, scenario)) for number, name in enumerate(names)]
        vms = [service.vm for service in services]
        try:
            planned = scenario.events(vms, habits.one_domain)
        except Refused as refused:
            raise Refused([f"--scenario {options.scenario}: {mistake}" for mistake in refused.mistakes]) from None
        for fault in scenario.faults:
            scale_set.faults.add(fault)
        allow_files((len(names) + 1) * (CONNECTION_LIMIT + 50))
        listeners = [Listener(address, service.answer, clock.time) for service, (_name, address) in zip(services, options.vms)]
        control = Control(scale_set, vms, options.allow_commands)
        control.urls = dict(zip(names, (listener.url for listener in listeners)))
        listeners.append(Listener(options.control, control.answer, clock.time))
        line = json.dumps({"vms": control.urls, "control": listeners[-1].url})
        pid_file = go_to_background(options.background, line) if options.background is not None else None
    except Refused as error:
        complain(str(error))
        return 2

    complain_of_strangers(planned, names, "scenario")
    Play(scale_set, planned)
    for act in (STANDARD_ERROR.run, scale_set.timetable.run, commands.run, *(listener.run for listener in listeners)):
        in_background(act)
    announce(line)
    os.read(ending, 1)
    commands.leave()
    STANDARD_ERROR.end()
    if pid_file is not None and is_at(*pid_file):
        os.unlink(pid_file[1])
    return 0


def told_of(name, number, options, scenario):
    """What is told of a VM: by --domains, then the scenario, then --compute for every VM, then for this one."""
    told = {"platformUpdateDomain": str(number % options.domains)} if options.domains else {}
    told.update(scenario.vms.get(name, {}))
    for of_this_one in (False, True):
        told.update((field, value) for of, field, value in options.compute if (of is not None and of.lower() == name.lower() if of_this_one else of is None))
    return told


# The control address from the command line


def ctl(arguments):
    """The command ctl."""
    # These may stand before the command and after it.
    anywhere = Parser(add_help=False, argument_default=argparse.SUPPRESS)
    where = "where it is (the environment's IMDS_SIMULATOR_CONTROL, or http://127.0.0.1:8169)"
    anywhere.add_argument("--control", metavar="URL|ADDRESS:PORT", help=where)
    anywhere.add_argument("--json", action="store_const", const=True, help="print the answer as it came")
    parser = Parser(
        prog="imds_simulator.py ctl", description="Talks to the control address of a simulator that runs.", parents=[anywhere], allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name, told, **arguments):
        made = commands.add_parser(name, help=told, description=told, parents=[anywhere], allow_abbrev=False)
        for argument, more in arguments.items():
            made.add_argument(argument, **more)

    command("events", "lists every event ever")
    command("add", "adds an event: its type, the VMs, other fields", type={}, more={"nargs": "+", "metavar": "VM|FIELD=VALUE"})
    for move in Control.MOVES:
        command(move, f"{move}s an event now", id={})
    command("play", "plays a scenario", scenario={"metavar": "NAME|FILE"})
    command("fault", "adds a fault: its fields and those of Fault", more={"nargs": "+", "metavar": "FIELD=VALUE"})
    command("clear-faults", "ends all faults")
    command("requests", "lists the last requests", last={"nargs": "?", "type": an_option(a_count, int), "default": 20})
    command("clock", "shows the clock, or sets it", wish={"nargs": "?", "metavar": "next|step=SECONDS|scale=FACTOR"})
    command("disable", "switches the service off, as after a day without a request")
    command("state", "shows everything")
    control = os.environ.get("IMDS_SIMULATOR_CONTROL", "http://127.0.0.1:8169")
    options = parser.parse_args(arguments, argparse.Namespace(control=control, json=False))
    try:
        value = ask(options.control, *ctl_request(options))
    except Refused as refused:
        complain(str(refused))
        return 1
    return 0 if announce("\n".join(ctl_lines(options, value))) else 1


def ctl_request(options):
    """The method, path and body that a command stands for."""
    name = options.command
    if name in Control.MOVES:
        return "POST", f"/events/{urllib.parse.quote(os.fsencode(options.id), safe='')}/{name}", None
    if name == "add":
        resources = [text for text in options.more if "=" not in text]
        before = {"EventType": options.type, **({"Resources": resources} if resources else {})}
        known = {field: check for field, check in EVENT_CHECKS.items() if field not in before}
        event = {**before, **given_fields([text for text in options.more if "=" in text], known)}
        if "Resources" not in event:
            raise Refused("An event needs a VM.")
        return "POST", "/events", event
    if name == "fault":
        given = given_fields(options.more, {**FAULT_AROUND, "Vm": a_vm_of(None), **FAULT_CHECKS})
        around = {field: given.pop(field) for field in FAULT_AROUND if field in given}
        return "POST", "/faults", {**around, "Fault": given}
    if name == "play":
        if options.scenario in SCENARIOS:
            return "POST", "/scenarios", {"Name": options.scenario}
        try:
            with open(options.scenario, "rb") as file:
                return "POST", "/scenarios", parse_json(file.read())
        except OSError as error:
            raise Refused(f"{options.scenario}: {error.strerror}, and no scenario of the library: {', '.join(SCENARIOS)}.") from None
    if name == "clock" and options.wish:
        wish, mark, number = options.wish.partition("=")
        return "POST", "/clock", {wish.title(): value_of(number) if mark else True}
    paths = {
        "clear-faults": ("DELETE", "/faults", None),
        "disable": ("POST", "/disable", None),
        "requests": ("GET", f"/requests?last={getattr(options, 'last', '')}", None),
    }
    return paths.get(name, ("GET", f"/{name}", None))


def given_fields(texts, known):
    """Fields of the command line, each a NAME=VALUE; ``known`` has the check of each."""
    given = {}
    for text in texts:
        name, mark, value = text.partition("=")
        if name not in known or not mark:
            raise Refused(f"{text!r} is not FIELD=VALUE with one of the fields {', '.join(known)}.")
        if name in given:
            raise Refused(f"{name} is given twice.")
        given[name] = value_for(value, known[name])
    return given


def value_for(text, check):
    """The value that a field takes: JSON, or the text itself."""
    for value in (value_of(text), text):
        with contextlib.suppress(Unfit):
            check(value)
            return value
    return value_of(text)  # for the control address to refuse


def value_of(text):
    """A value of the command line: JSON, or else the text itself."""
    try:
        return parse_json(os.fsencode(text))
    except Refused:
        return text


def ask(base, method, path, body):
    """The control address's answer."""
    import http.client  # takes a while, and the services do without
    import urllib.error
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    where = base if "://" in base else f"http://{base}"
    try:
        request = urllib.request.Request(where.rstrip("/") + path, None if body is None else json.dumps(body).encode(), method=method)
        try:
            with opener.open(request, timeout=30) as answer:
                return json.loads(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(f"{error.code}: {told_error(error.read().decode(errors='replace'))}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Refused(f"{base} does not answer: {getattr(error, 'reason', error)}") from None


def told_error(text):
    """What an answer with an error says."""
    try:
        return json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        return text


def ctl_lines(options, value):
    """What a command prints."""
    if options.json or options.command not in ("events", "requests"):
        return [json.dumps(value, indent=None if options.json else 2)]
    if options.command == "requests":
        return [f"{utc(entry['Time'])}  {entry['Vm']}  {entry['Method']} {entry['Path']}  {entry['Status'] or 'no answer'}" for entry in value]
    lines = []
    for event in value:
        lines.append(f"{event['EventId']}  {event['EventType']}  {event['EventStatus']}  {', '.join(event['Resources'])}")
        lines += [f"    {utc(entry['Time'])}  {entry['Status']}" for entry in event["History"]]
        lines += [f"    {utc(entry['Time'])}  approved through {entry['Vm']}" for entry in event["Approvals"]]
        for command in event["Commands"]:
            end = command["Problem"] or ("runs" if command["ExitStatus"] is None else f"exit status {command['ExitStatus']}")
            lines += [f"    {utc(command['Time'])}  {command['Command']}: {end}", *(f"        {line}" for line in command["Output"].splitlines())]
    return lines or ["no events so far"]


def utc(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    # No socket may take the place of a standard stream that is closed.
    free = os.open(os.devnull, os.O_RDWR)
    while free <= 2:
        free = os.open(os.devnull, os.O_RDWR)
    os.close(free)
    if arguments[:1] == ["ctl"]:
        return ctl(arguments[1:])
    options = parse_arguments(arguments)
    if options.check is not None:
        return check_scenario(options)
    return serve(options)


# The library of scenarios: every one with the page or thread that its times come from

DOCS = "https://learn.microsoft.com/en-us/azure/virtual-machines/linux/scheduled-events"
SCENARIOS = {
    "live-migration": {
        "about": "A VM is moved to another node with its memory: a freeze of 5 s, known 15 minutes ahead, gone after 10 minutes.",
        "source": DOCS + "#example-responses and its rough time line",
        "events": [
            {
                "EventType": "Freeze",
                "Vm": 1,
                "NoticeSeconds": 900,
                "ImpactSeconds": 7,
                "SettleSeconds": 593,
                "DurationInSeconds": 5,
                "Description": "Virtual machine is being paused because of a memory-preserving Live Migration operation.",
            }
        ],
    },
    "short-notice-freeze": {
        "about": "A freeze that is announced 319 s ahead instead of 15 minutes.",
        "source": "https://github.com/MicrosoftDocs/azure-docs/issues/39758",
        "events": [
            {
                "EventType": "Freeze",
                "Vm": 1,
                "NoticeSeconds": 319,
                "ImpactSeconds": 7,
                "SettleSeconds": 593,
                "Description": "Host server is undergoing maintenance.",
            }
        ],
    },
    "host-reboot": {
        "about": "The host is rebooted, and with it the VM: 15 minutes of notice.",
        "source": DOCS + "#event-scheduling",
        "events": [
            {
                "EventType": "Reboot",
                "Vm": 1,
                "NoticeSeconds": 900,
                "ImpactSeconds": 120,
                "SettleSeconds": 480,
                "Description": "Host server is undergoing maintenance.",
            }
        ],
    },
    "user-reboot": {
        "about": "Somebody restarts the VM in the portal: it waits 872 s, unless approved.",
        "source": "https://github.com/scylladb/scylla-cluster-tests/issues/5608",
        "events": [
            {
                "EventType": "Reboot",
                "Vm": 1,
                "NoticeSeconds": 872,
                "ImpactSeconds": 60,
                "SettleSeconds": 30,
                "EventSource": "User",
                "Description": "Virtual machine is going to be restarted as requested by authorized user.",
            }
        ],
    },
    "redeploy": {
        "about": "The VM is moved to another node without its memory and its temporary disk: 10 minutes of notice.",
        "source": DOCS + "#event-scheduling",
        "events": [
            {
                "EventType": "Redeploy",
                "Vm": 1,
                "NoticeSeconds": 600,
                "ImpactSeconds": 300,
                "SettleSeconds": 300,
                "Description": "Host server is undergoing maintenance.",
            }
        ],
    },
    "user-redeploy": {
        "about": "Somebody redeploys the VM: 10 minutes, unless approved.",
        "source": DOCS + "#user-initiated-maintenance",
        "events": [
            {
                "EventType": "Redeploy",
                "Vm": 1,
                "NoticeSeconds": 600,
                "ImpactSeconds": 300,
                "SettleSeconds": 60,
                "EventSource": "User",
                "Description": "Virtual machine is going to be redeployed as requested by authorized user.",
            }
        ],
    },
    "spot-eviction": {
        "about": "A Spot VM is evicted: 30 s of notice, and it does not come back.",
        "source": "https://learn.microsoft.com/en-us/azure/virtual-machines/spot-vms#eviction-policy",
        "events": [{"EventType": "Preempt", "Vm": 1, "NoticeSeconds": 30, "ImpactSeconds": 30, "SettleSeconds": 30, "Description": ""}],
    },
    "spot-eviction-5s": {
        "about": "A Spot VM is evicted with 5 s of notice: often less than 10 s are seen.",
        "source": "https://github.com/Azure/karpenter-provider-azure/issues/1769",
        "events": [{"EventType": "Preempt", "Vm": 1, "NoticeSeconds": 5, "ImpactSeconds": 30, "SettleSeconds": 30, "Description": ""}],
    },
    "scale-in": {
        "about": "A scale set deletes a VM, here the first: the user's setting of 5 minutes, unless approved.",
        "source": "https://learn.microsoft.com/en-us/azure/virtual-machine-scale-sets/virtual-machine-scale-sets-terminate-notification",
        "events": [{"EventType": "Terminate", "Vm": 1, "NoticeSeconds": 300, "ImpactSeconds": 60, "SettleSeconds": 30, "Description": ""}],
    },
    "cancelled": {
        "about": "A reboot that Azure calls off after 5 minutes: from Scheduled to gone, no impact.",
        "source": DOCS + "#event-scheduling",
        "events": [{"EventType": "Reboot", "Vm": 1, "NoticeSeconds": 900, "CancelSeconds": 300, "Description": "Host server is undergoing maintenance."}],
    },
    "predicted-failure": {
        "about": "Hardware that will fail: a move that is announced 7 days ahead, and best not waited for.",
        "source": DOCS + "#event-scheduling (the type of the event is assumed)",
        "events": [
            {
                "EventType": "Redeploy",
                "Vm": 1,
                "NoticeSeconds": 604800,
                "ImpactSeconds": 300,
                "SettleSeconds": 300,
                "Description": "Virtual machine is running on degraded hardware.",
            }
        ],
    },
    "hardware-failure": {
        "about": "The host fails: a reboot that is Started at once, 10 minutes of it.",
        "source": DOCS
        + "#event-scheduling; the 10 minutes: https://learn.microsoft.com/en-us/troubleshoot/azure/virtual-machines/windows/understand-vm-reboot",
        "events": [
            {
                "EventType": "Reboot",
                "Vm": 1,
                "EventStatus": "Started",
                "ImpactSeconds": 600,
                "SettleSeconds": 60,
                "Description": "Virtual machine has encountered a failure.",
            }
        ],
    },
    "repeated-freeze": {
        "about": "A freeze of 6 s that stays Started for 5 minutes, with two more short impacts meanwhile.",
        "source": "https://github.com/Azure/AKS/issues/3719 (the length); " + DOCS + "#high-level-overview (further impacts)",
        "events": [
            {
                "EventType": "Freeze",
                "Vm": 1,
                "NoticeSeconds": 900,
                "ImpactSeconds": 6,
                "FurtherImpacts": [90, 200],
                "SettleSeconds": 294,
                "DurationInSeconds": 6,
                "Description": "Host server is undergoing maintenance.",
            }
        ],
    },
    "reboot-becomes-freeze": {
        "about": "A reboot is announced; what comes is a freeze.",
        "source": DOCS + "#event-properties",
        "events": [
            {
                "EventType": "Reboot",
                "Impact": "Freeze",
                "Vm": 1,
                "NoticeSeconds": 900,
                "ImpactSeconds": 9,
                "SettleSeconds": 591,
                "Description": "Host server is undergoing maintenance.",
            }
        ],
    },
    "overlapping": {
        "about": "A freeze of one VM; a second event for the same VM and one for another are announced before it is over.",
        "source": DOCS + "#query-for-events (several in one document); the times are assumed",
        "events": [
            {"EventType": "Freeze", "Vm": 1, "NoticeSeconds": 900, "ImpactSeconds": 7, "SettleSeconds": 593, "DurationInSeconds": 5},
            {"After": 300, "EventType": "Reboot", "Vm": 1, "NoticeSeconds": 900, "ImpactSeconds": 120, "SettleSeconds": 180},
            {"After": 420, "EventType": "Redeploy", "Vm": 2, "NoticeSeconds": 600, "ImpactSeconds": 300, "SettleSeconds": 60, "EventSource": "User"},
        ],
    },
    "whole-domain": {
        "about": "All VMs of one update domain at once.",
        "source": "https://learn.microsoft.com/en-us/azure/virtual-machines/availability-set-overview",
        "events": [
            {
                "EventType": "Reboot",
                "Domain": 1,
                "NoticeSeconds": 900,
                "ImpactSeconds": 120,
                "SettleSeconds": 480,
                "Description": "Host server is undergoing maintenance.",
            }
        ],
    },
    "os-image-upgrade": {
        "about": "A scale set gets a new OS image, one update domain after the other; each waits 15 minutes, unless approved.",
        "source": "https://learn.microsoft.com/en-us/javascript/api/@azure/arm-compute/osimagenotificationprofile (the type of the event is assumed)",
        "events": [
            {
                "EventType": "Reboot",
                "Domain": "each",
                "NoticeSeconds": 900,
                "ImpactSeconds": 180,
                "SettleSeconds": 60,
                "EventSource": "User",
                "Description": "Virtual machine is going to get a new OS image.",
            }
        ],
    },
    "other-tenants": {
        "about": "A freeze that is approved, but waits 4 minutes for the other tenants of the node.",
        "source": DOCS + "#start-an-event; the 4 minutes are assumed",
        "events": [
            {
                "EventType": "Freeze",
                "Vm": 1,
                "NoticeSeconds": 900,
                "ApprovalSeconds": 240,
                "ImpactSeconds": 7,
                "SettleSeconds": 593,
                "DurationInSeconds": 5,
                "Description": "Host server is undergoing maintenance.",
            }
        ],
    },
}


# The page at the control address

PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Scheduled Events</title>
<style>
  body { font: 15px/1.4 system-ui, sans-serif; margin: 1.5em auto; max-width: 75em; padding: 0 1em; color: #1b1f24; background: #fbfbfa; }
  h1 { font-size: 1.4em; margin: 0; } h2 { font-size: 1.05em; margin: 1.6em 0 .4em; }
  header { display: flex; gap: 1.5em; align-items: baseline; flex-wrap: wrap; border-bottom: 1px solid #d5d8dc; padding-bottom: .6em; }
  table { border-collapse: collapse; width: 100%; background: #fff; }
  th, td { text-align: left; padding: .35em .6em; border-bottom: 1px solid #e4e6e9; vertical-align: top; }
  th { font-weight: 600; color: #57606a; font-size: .85em; } .quiet { color: #6a737d; } .wrong { color: #b3261e; }
  code, pre { font: 13px/1.35 ui-monospace, monospace; } pre { margin: .2em 0; white-space: pre-wrap; max-width: 40em; }
  button { font: inherit; font-size: .9em; padding: .1em .6em; margin: 0 .3em .2em 0; cursor: pointer; }
  form { display: flex; gap: .5em; flex-wrap: wrap; align-items: end; margin-top: .6em; } label { font-size: .85em; color: #57606a; }
  input, select { font: inherit; font-size: .95em; display: block; }
  .Scheduled { color: #8a5a00; } .Started { color: #b3261e; font-weight: 600; } .Completed, .Cancelled { color: #6a737d; }
</style>
<header>
  <h1>Scheduled Events</h1><span id="clock"></span><span id="time"></span>
  <span><button data-post="/clock" data-body='{"Next": true}'>to what is due next</button
  ><button data-post="/clock" data-body='{"Step": 60}'>1 min on</button
  ><button data-post="/disable" data-body="">switch off</button></span>
  <span id="wrong" class="wrong" role="alert"></span>
</header>
<h2>Events</h2>
<table><thead><tr><th>Event<th>Status<th>Resources<th>Life<th>Approvals<th></tr></thead><tbody id="events"></tbody></table>
<h2>Add an event</h2>
<form id="add">
  <label>Type <select name="EventType"><option>Freeze<option>Reboot<option>Redeploy<option>Preempt<option>Terminate</select></label>
  <label>Resources <input name="Resources" size="24" required></label>
  <label>Notice, s <input name="NoticeSeconds" type="number" min="0" value="900" size="7"></label>
  <label>Impact, s <input name="ImpactSeconds" type="number" min="0" value="7" size="7"></label>
  <label>Until gone, s <input name="SettleSeconds" type="number" min="0" value="5" size="7"></label>
  <button>Add</button>
</form>
<form id="play"><label>or play a scenario <select name="Name"></select></label> <button>Play</button> <span id="about" class="quiet"></span></form>
<h2>VMs</h2>
<table><thead><tr><th>Name<th>Service<th>Update domain</tr></thead><tbody id="vms"></tbody></table>
<h2>Faults</h2>
<table><tbody id="faults"></tbody></table>
<form id="fault">
  <label>VM <select name="Vm"></select></label>
  <label>Method <select name="Method"><option value="">any<option>GET<option>POST</select></label>
  <label>Fault <select name="Fault"></select></label>
  <label>Times <input name="Times" type="number" min="1" size="5" placeholder="always"></label>
  <button>Add fault</button><button type="button" data-delete="/faults">Clear all</button>
</form>
<h2>Last requests</h2>
<table><tbody id="requests"></tbody></table>
<script>
"use strict";
const $ = id => document.getElementById(id);
const kinds = [{Status: 503}, {Status: 429, Headers: {"Retry-After": "2"}}, {Status: 410}, {Delay: 3}, {Drop: true}, {DropAnswer: true}, {Cut: 40},
  {Slow: 50}, {Portal: true}, {Redirect: "http://127.0.0.1:9/"}, {Empty: true}, {Stale: true}, {Incarnation: 1}, {IsoDates: true}, {StringNumbers: true},
  {UnknownType: "Hibernate"}, {Huge: 1000}, {ContentType: "text/html"}, {ClockOff: 3600}];
// Whatever the simulator tells is text, never markup.
function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}
function row(...cells) {
  const made = element("tr");
  for (const cell of cells) { const td = element("td"); td.append(...[cell].flat()); made.append(td); }
  return made;
}
function options(select, values, texts) {
  if (select.options.length === values.length) return;
  select.replaceChildren(...values.map((value, index) => { const made = element("option", texts[index]); made.value = value; return made; }));
}
function age(seconds) {
  const s = Math.max(0, Math.round(seconds));
  return s < 120 ? s + " s" : s < 7200 ? Math.round(s / 60) + " min" : s < 172800 ? Math.round(s / 3600) + " h" : Math.round(s / 86400) + " d";
}
async function ask(method, path, body) {
  const answer = await fetch(path, {method, body: method === "GET" ? undefined : body, cache: "no-store"});
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error);
  return value;
}
async function act(method, path, body) {
  try { await ask(method, path, body); $("wrong").textContent = ""; } catch (error) { $("wrong").textContent = error.message; }
  await show();
}
function button(text, path) {
  const made = element("button", text);
  made.onclick = () => act("POST", path, "");
  return made;
}
function life(event, now) {
  const parts = event.History.map(entry => element("div", entry.Status + " " + age(now - entry.Time) + " ago", entry.Status));
  if (event.EventStatus === "Scheduled") parts.push(element("div", "NotBefore " + event.NotBefore, "quiet"));
  if (event.Impacts.length > 1) parts.push(element("div", event.Impacts.length + " impacts", "quiet"));
  for (const command of event.Commands) {
    const failed = command.Problem || command.ExitStatus;
    const end = command.Problem || (command.ExitStatus === null ? "runs" : "exit status " + command.ExitStatus);
    parts.push(element("div", command.Command + ": " + end, failed ? "wrong" : "quiet"));
    if (command.Output) parts.push(element("pre", command.Output));
  }
  return parts;
}
function eventRow(event, now) {
  const path = "/events/" + encodeURIComponent(event.EventId) + "/", buttons = [];
  if (event.EventStatus === "Scheduled") buttons.push(button("Start", path + "start"), button("Cancel", path + "cancel"));
  if (event.EventStatus === "Started") buttons.push(button("Complete", path + "complete"));
  const what = event.EventType + (event.Impact === event.EventType ? "" : " (is a " + event.Impact + ")");
  return row([element("strong", what), element("div", event.EventId, "quiet"), element("div", event.EventSource + ", " + event.Description, "quiet")],
    element("span", event.EventStatus, event.EventStatus), event.Resources.join(", "), life(event, now),
    event.Approvals.map(approval => element("div", approval.Vm + " " + age(now - approval.Time) + " ago")), buttons);
}
let shown = "";
async function show() {
  const state = await ask("GET", "/state");
  const names = Object.keys(state.Vms), time = new Date(state.Time * 1000).toUTCString();
  $("clock").textContent = time + (state.Scale === 1 ? "" : state.Scale === 0 ? ", standing still" : ", " + state.Scale + " times as fast");
  $("time").textContent = "incarnation " + state.DocumentIncarnation + (state.Next === null ? "" : ", next in " + age(state.Next));
  $("events").replaceChildren(...(state.Events.length ? state.Events.slice(-100).reverse().map(event => eventRow(event, state.Time)) : [row("none so far")]));
  $("faults").replaceChildren(...(state.Faults.length ? state.Faults.map(fault => row(fault.Vm || "every VM", fault.Method || "any method",
    element("code", JSON.stringify(fault.Fault)), fault.Times === null ? "always" : fault.Times + " more")) : [row("none")]));
  $("requests").replaceChildren(...state.Requests.slice(-15).reverse().map(request =>
    row(age(state.Time - request.Time) + " ago", request.Vm, request.Method, element("code", request.Path), String(request.Status || "no answer"))));
  if (shown !== names.join()) {
    shown = names.join();
    $("vms").replaceChildren(...names.map(name => row(name, element("code", state.Vms[name].Url), state.Vms[name].Domain)));
    options($("fault").elements.Vm, ["", ...names], ["every VM", ...names]);
    $("add").elements.Resources.value = names[0];
  }
}
options($("fault").elements.Fault, kinds.map(kind => JSON.stringify(kind)), kinds.map(kind => JSON.stringify(kind)));
for (const made of document.querySelectorAll("[data-post]")) made.onclick = () => act("POST", made.dataset.post, made.dataset.body);
for (const made of document.querySelectorAll("[data-delete]")) made.onclick = () => act("DELETE", made.dataset.delete);
$("add").onsubmit = submitted => {
  submitted.preventDefault();
  const given = Object.fromEntries(new FormData($("add")));
  for (const name of Object.keys(given)) if (name.endsWith("Seconds")) given[name] = given[name] === "" ? null : Number(given[name]);
  given.Resources = given.Resources.split(/[ ,]+/).filter(name => name);
  act("POST", "/events", JSON.stringify(given));
};
$("fault").onsubmit = submitted => {
  submitted.preventDefault();
  const given = Object.fromEntries(new FormData($("fault")));
  const around = {Vm: given.Vm || null, Method: given.Method || null, Times: Number(given.Times) || null};
  act("POST", "/faults", JSON.stringify({...around, Fault: JSON.parse(given.Fault)}));
};
$("play").onsubmit = submitted => { submitted.preventDefault(); act("POST", "/scenarios", JSON.stringify({Name: $("play").elements.Name.value})); };
ask("GET", "/scenarios").then(known => {
  const names = Object.keys(known), select = $("play").elements.Name;
  options(select, names, names);
  select.onchange = () => { $("about").textContent = known[select.value].about; };
  select.onchange();
});
async function live() {
  try { await show(); } catch (error) { $("wrong").textContent = "The simulator does not answer."; }
  setTimeout(live, 1000);
}
live();
</script>
"""


if __name__ == "__main__":
    status = main()
    # Threads that serve a client or wait for one are not waited for; what was to be printed is.
    os._exit(status)
