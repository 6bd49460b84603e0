# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A simulator of Azure's Scheduled Events, for tests.

Every --vm is the metadata service of one VM of a scale set: all of them see the same events and may approve them.
A control address adds events, moves them on, makes the services fail and tells what happened. Once everything listens,
one line of JSON on standard output gives the addresses. The standard library of Python 3.7 is all it needs.
"""

from __future__ import annotations

import argparse
import contextlib
import email.utils
import heapq
import http
import itertools
import json
import os
import queue
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
APPROVAL_SECONDS = 0.25  # from approval to start: the approver has the answer before the impact
SECONDS_LIMIT = 10**9  # longer times are slips, and beyond what clocks and calendars can count

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

JSON_TYPE = {"Content-Type": "application/json; charset=utf-8"}


class Refused(Exception):
    """Something that is asked for wrongly or cannot be done; over HTTP, an answer with an error."""

    def __init__(self, message, status=400, headers=None, **more):
        super().__init__(message)
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
        return json.loads(body.decode("utf-8"), parse_int=parse_int, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(f"This is no JSON: {error}.") from None


def parse_int(digits):
    # Python takes very long over numbers of a million digits.
    if len(digits) > 100:
        raise ValueError("a number is too long")
    return int(digits)


def refuse_constant(name):
    raise ValueError(f"{name} is no number of JSON")


def checked(value, what, checks, required=()):
    """The object ``value`` with each of its fields checked."""
    if not isinstance(value, dict):
        raise Refused(f"{what} must be an object, not {shown(value)}.")
    for name in required:
        if name not in value:
            raise Refused(f"{what} needs the field {name}.")
    result = {}
    for name, item in value.items():
        if name not in checks:
            raise Refused(f"{what} has an unknown field {shown(name)}; known are {', '.join(checks)}.")
        try:
            result[name] = checks[name](item)
        except Unfit as error:
            raise Refused(f"{name} must be {error}, not {shown(item)}.") from None
    return result


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


def a_status(value):
    if value not in (SCHEDULED, STARTED):
        raise Unfit(f"{SCHEDULED} or {STARTED}")
    return value


def is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


def a_duration(value):
    if not is_int(value) or not -1 <= value <= SECONDS_LIMIT:
        raise Unfit(f"an integer from -1 (unknown) to {SECONDS_LIMIT}")
    return value


def seconds(value):
    if not (is_int(value) or isinstance(value, float)) or not 0 <= value <= SECONDS_LIMIT:
        raise Unfit(f"a number of seconds from 0 to {SECONDS_LIMIT}")
    return value


def seconds_or_none(value):
    return None if value is None else seconds(value)


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
    "ImpactSeconds": seconds_or_none,
    "SettleSeconds": seconds_or_none,
}
EVENT_REQUIRED = ("EventType", "Resources")
FAULT_CHECKS = {"Status": an_answer_status, "Body": a_body, "Headers": answer_headers, "Delay": seconds, "Drop": true}


def checked_event(value):
    return checked(value, "An event", EVENT_CHECKS, EVENT_REQUIRED)


def checked_fault(value, vms):
    """A fault as the control address and the scenario give it."""

    def a_vm(name):
        if name is None:
            return None
        for vm in vms:
            if isinstance(name, str) and vm.lower() == name.lower():
                return vm
        raise Unfit(f"one of the VMs ({', '.join(vms)}) or null")

    def a_fault(fault):
        fault = checked(fault, "Fault", FAULT_CHECKS)
        if not fault.keys() & {"Status", "Delay", "Drop"}:
            raise Refused("Fault needs Status, Delay or Drop.")
        if "Drop" in fault and "Status" in fault:
            raise Refused("Fault has both Status and Drop: a dropped request is not answered.")
        if fault.keys() & {"Body", "Headers"} and "Status" not in fault:
            raise Refused("Fault has Body or Headers without Status.")
        return fault

    fault = checked(value, "A fault", {"Vm": a_vm, "Method": a_method, "Fault": a_fault, "Times": times_or_none}, ["Fault"])
    return {"Vm": None, "Method": None, "Times": None, **fault}


def checked_scenario(value, vms):
    """The events, as pairs of delay and event, and the faults of a scenario file."""
    scenario = checked(value, "A scenario", {"events": a_list, "faults": a_list})
    events = []
    for number, entry in enumerate(scenario.get("events", []), 1):
        try:
            entry = checked(entry, "An event", {"After": seconds, **EVENT_CHECKS}, EVENT_REQUIRED)
        except Refused as error:
            raise Refused(f"event {number}: {error}") from None
        events.append((entry.pop("After", 0), entry))
    faults = []
    for number, entry in enumerate(scenario.get("faults", []), 1):
        try:
            faults.append(checked_fault(entry, vms))
        except Refused as error:
            raise Refused(f"fault {number}: {error}") from None
    return events, faults


def a_list(value):
    if not isinstance(value, list):
        raise Unfit("a list")
    return value


# Events and what becomes of them


class Event:
    """One event, from its first appearance to after its end."""

    def __init__(self, fields):
        now = time.time()
        self.notice = fields.get("NoticeSeconds", 900)
        self.impact = fields.get("ImpactSeconds", 7)
        self.settle = fields.get("SettleSeconds", 5)
        self.id = fields.get("EventId") or str(uuid.uuid4()).upper()
        # Rounded down to the full second that the document can show: an event must not start before it.
        self.not_before = int(now + (900 if self.notice is None else self.notice))
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
        self.history = []
        self.approvals = []
        self.set_status(self.fields["EventStatus"])

    @property
    def status(self):
        return self.fields["EventStatus"]

    def set_status(self, status):
        self.fields["EventStatus"] = status
        self.history.append({"Time": time.time(), "Status": status})

    def shown(self, version):
        """The event as a document of that version shows it."""
        result = {name: self.fields[name] for name in VERSION_FIELDS[version]}
        if any(entry["Status"] == STARTED for entry in self.history):
            result["NotBefore"] = ""
        elif result["NotBefore"] is None:
            if version == PREVIEW:
                result["NotBefore"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.not_before))
            else:
                result["NotBefore"] = email.utils.formatdate(self.not_before, usegmt=True)
        if version == PREVIEW:
            result["Resources"] = [name if name.startswith("_") else "_" + name for name in result["Resources"]]
        return result

    def report(self):
        """Everything about the event, for the control address and the commands."""
        return {
            **self.shown(NEWEST),
            "NoticeSeconds": self.notice,
            "ImpactSeconds": self.impact,
            "SettleSeconds": self.settle,
            "History": list(self.history),
            "Approvals": list(self.approvals),
        }


class ScaleSet:
    """The events that all the VMs share, the faults of their services, and the requests seen: one lock around it all."""

    def __init__(self, started, gone):
        self.changed = threading.Condition()
        self.started, self.gone = started, gone  # called with an event's report
        self.run = os.urandom(4).hex()  # a document of another run is another document
        self.incarnation = 1
        self.events = []
        self.standing = {}  # by the event's id, whose case does not count
        self.documents = {}  # of the current incarnation, by version
        self.faults = []
        self.requests = []
        self.timers = []
        self.timer_numbers = itertools.count()

    # Time

    def later(self, delay, act, *arguments):
        with self.changed:
            heapq.heappush(self.timers, (time.monotonic() + delay, next(self.timer_numbers), act, arguments))
            self.changed.notify()

    def keep_time(self):
        """Does for ever what is due."""
        with self.changed:
            while True:
                now = time.monotonic()
                if self.timers and self.timers[0][0] <= now:
                    act, arguments = heapq.heappop(self.timers)[2:]
                    act(*arguments)
                else:
                    self.changed.wait(min(self.timers[0][0] - now, 3600) if self.timers else None)

    # The life of an event. A timer may come too late: the event was moved on meanwhile, and it does nothing.

    def add(self, fields):
        with self.changed:
            given = fields.get("EventId")
            if given is not None and given.lower() in self.standing:
                raise Refused(f"An event {shown(given)} stands already.", 409)
            event = Event(fields)
            self.events.append(event)
            self.standing[event.id.lower()] = event
            self._events_changed()
            if event.status == STARTED:
                self._impact(event)
            elif event.notice is not None:
                self.later(event.notice, self._move, event, SCHEDULED, STARTED)
            return event.id

    def move(self, event_id, before, after):
        """Moves an event on by hand."""
        with self.changed:
            event = self.standing.get(event_id.lower())
            if event is None:
                # The last that bore the id, which is free again once its event is gone.
                event = next((event for event in reversed(self.events) if event.id.lower() == event_id.lower()), None)
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
            del self.standing[event.id.lower()]
        self._events_changed()
        if after == STARTED:
            self._impact(event)
        else:
            self.gone(event.report())
        return True

    def _impact(self, event):
        if event.impact is not None and event.settle is not None:
            self.later(event.impact + event.settle, self._move, event, STARTED, COMPLETED)
        self.started(event.report())

    def _events_changed(self):
        self.incarnation += 1
        self.documents = {}

    # What a metadata service does with them

    def document(self, version):
        """The document and its entity tag."""
        with self.changed:
            if version not in self.documents:
                events = [event.shown(version) for event in self.standing.values()]
                self.documents[version] = json.dumps({"DocumentIncarnation": self.incarnation, "Events": events}).encode()
            return self.documents[version], f'"{self.run}-{self.incarnation}"'

    def approve(self, vm, event_ids, incarnation=None):
        """All of the events, or none."""
        with self.changed:
            if incarnation not in (None, self.incarnation):
                raise Refused(f"DocumentIncarnation {incarnation} is stale: the document is at {self.incarnation}.")
            events = {}
            for event_id in event_ids:
                if event_id.lower() not in self.standing:
                    raise Refused(f"There is no event {shown(event_id)}.")
                events[event_id.lower()] = self.standing[event_id.lower()]
            for event in events.values():
                event.approvals.append({"Time": time.time(), "Vm": vm})
                if event.status == SCHEDULED:
                    self.later(APPROVAL_SECONDS, self._move, event, SCHEDULED, STARTED)

    def fault(self, vm, method):
        """How long to wait with a request, and the fault that then answers it, if one does."""
        delay = 0
        with self.changed:
            for fault in list(self.faults):
                if fault["Vm"] not in (None, vm) or fault["Method"] not in (None, method):
                    continue
                if fault["Times"] is not None:
                    fault["Times"] -= 1
                    if fault["Times"] == 0:
                        self.faults.remove(fault)
                delay += fault["Fault"].get("Delay", 0)
                if "Status" in fault["Fault"] or "Drop" in fault["Fault"]:
                    return delay, fault["Fault"]
        return delay, None

    def add_fault(self, fault):
        with self.changed:
            self.faults.append(fault)
            return len(self.faults)

    def clear_faults(self):
        with self.changed:
            self.faults.clear()

    def saw(self, vm, request):
        """The record of a request, whose last item becomes its status."""
        # Small, since there may be very many: most have the same path.
        record = [request.time, vm, sys.intern(request.method), sys.intern(request.target), None]
        with self.changed:
            self.requests.append(record)
        return record

    def reports(self):
        with self.changed:
            return [event.report() for event in self.events]

    def requests_seen(self):
        with self.changed:
            return [dict(zip(("Time", "Vm", "Method", "Path", "Status"), record)) for record in self.requests]


# HTTP, as far as it is needed: Python's own server waits for ever on a client that dawdles, and looks up names


class Request:
    """A request that was read, or whose ``problem`` says why its body was not."""

    def __init__(self, method, target, headers):
        self.time = time.time()
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


def json_response(status, value, headers=None):
    return Response(status, json.dumps(value).encode(), {**JSON_TYPE, **(headers or {})})


def refusal(refused):
    return json_response(refused.status, {"error": str(refused), **refused.more}, refused.headers)


class Connection:
    """One client's connection, with one request after another."""

    def __init__(self, sock, answer):
        self.sock = sock
        self.answer = answer
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
        try:
            while not self.received.lstrip(b"\r\n"):
                self.received.clear()
                self._receive()
        except socket.timeout:
            return False
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
        try:
            response = self.answer(request)
        except Refused as refused:
            response = refusal(refused)
        if response is None or not self._send(response, keep, head_only=request.method == "HEAD"):
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
        headers = {"date": ("Date", email.utils.formatdate(usegmt=True))}
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
        self._write("\r\n".join(lines).encode("latin-1") + (b"" if bare or head_only else response.body))
        if not keep:
            self._hang_up()
        return keep

    def _hang_up(self):
        """Takes what the client still sends: the kernel's reset for unread bytes could overtake the answer."""
        self.sock.shutdown(socket.SHUT_WR)
        self.deadline = time.monotonic() + HANG_UP_SECONDS
        while True:
            self.received.clear()
            self._receive()


# The services


class MetadataService:
    """The metadata service of one VM."""

    def __init__(self, name, number, scale_set):
        self.name = name
        self.scale_set = scale_set
        self.instance = instance(name, number)

    def answer(self, request):
        record = self.scale_set.saw(self.name, request)
        # A real service takes the path in any case.
        scheduled_events = request.path.lower() == "/metadata/scheduledevents"
        delay, fault = self.scale_set.fault(self.name, request.method) if scheduled_events else (0, None)
        if delay:
            time.sleep(delay)
            # A client that did not wait for it has no answer, and must try again: nothing happened.
            if request.hung_up():
                return None
        if fault is None:
            try:
                response = self._scheduled_events(request) if scheduled_events else self._other(request)
            except Refused as refused:
                response = refusal(refused)
        elif "Drop" in fault:
            return None
        else:
            response = Response(fault["Status"], fault.get("Body", "").encode(), fault.get("Headers"))
        record[-1] = response.status
        return response

    def _scheduled_events(self, request):
        allow(request, "GET", "POST")
        version = request.parameter("api-version")
        # Only the published clients of the preview POST without the header.
        self._check(request, header_needed=(request.method, version) != ("POST", PREVIEW))
        if version not in VERSION_FIELDS:
            fault = f"The api-version {shown(version)} is not known." if version else "The request names no api-version."
            raise Refused(fault, **{"newest-versions": sorted(VERSION_FIELDS, reverse=True)})
        if request.method == "POST":
            return self._approve(request, version)
        body, tag = self.scale_set.document(version)
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
        if [part.lower() for part in path[:2]] != ["metadata", "instance"]:
            raise Refused("There is nothing at this path.", 404)
        allow(request, "GET")
        self._check(request)
        if not request.parameter("api-version"):
            raise Refused("The request names no api-version.")
        value = self.instance
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
            raise Refused("The request must have the header Metadata: true.")
        names = [parameter[0] for parameter in request.query]
        if len(set(names)) < len(names):
            raise Refused("A query parameter is repeated.")


def allow(request, *methods):
    if request.method not in methods:
        raise Refused(f"The methods here are {', '.join(methods)}.", 405, {"Allow": ", ".join(methods)})


def instance(name, number):
    """What the instance endpoint tells of a VM."""
    vm_id = uuid.uuid5(uuid.NAMESPACE_OID, name)
    group = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/simulated"
    return {
        "compute": {
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
            "resourceId": f"{group}/providers/Microsoft.Compute/virtualMachines/{name}",
            "sku": "simulated",
            "subscriptionId": "00000000-0000-0000-0000-000000000000",
            "tags": "",
            "version": "1",
            "vmId": str(vm_id),
            "vmScaleSetName": "simulated",
            "vmSize": "Standard_D2s_v5",
            "zone": "",
        },
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


class Control:
    """The control address."""

    MOVES = {"start": (SCHEDULED, STARTED), "complete": (STARTED, COMPLETED), "cancel": (SCHEDULED, CANCELLED)}

    def __init__(self, scale_set, vms):
        self.scale_set = scale_set
        self.vms = vms

    def answer(self, request):
        if request.problem:
            raise request.problem
        path = [urllib.parse.unquote(part) for part in request.path.split("/")[1:]]
        if path == ["events"]:
            allow(request, "GET", "POST")
            return self._events(request)
        if path == ["faults"]:
            allow(request, "POST", "DELETE")
            return self._faults(request)
        if path == ["requests"]:
            allow(request, "GET")
            return json_response(200, self.scale_set.requests_seen())
        if len(path) == 3 and path[0] == "events" and path[2] in self.MOVES:
            allow(request, "POST")
            return json_response(200, self.scale_set.move(path[1], *self.MOVES[path[2]]))
        raise Refused("There is nothing at this path: see /events, /events/ID/start, /complete and /cancel, /faults, /requests.", 404)

    def _events(self, request):
        if request.method == "GET":
            return json_response(200, self.scale_set.reports())
        return json_response(201, {"EventId": self.scale_set.add(checked_event(parse_json(request.body)))})

    def _faults(self, request):
        if request.method == "DELETE":
            self.scale_set.clear_faults()
            return json_response(200, {"Faults": 0})
        return json_response(201, {"Faults": self.scale_set.add_fault(checked_fault(parse_json(request.body), self.vms))})


# The process


class Commands:
    """Runs the user's commands in the order of the events, and waits for none."""

    def __init__(self):
        self.wanted = queue.SimpleQueue()

    def hand(self, command):
        """A function that has the command run with an event's report."""
        return lambda report: self.wanted.put((command, report)) if command else None

    def run(self):
        while True:
            command, report = self.wanted.get()
            try:
                # A file, since a command that does not read its input would block a pipe.
                with tempfile.TemporaryFile() as stdin:
                    stdin.write(json.dumps(report).encode() + b"\n")
                    stdin.seek(0)
                    in_background(subprocess.Popen(command, stdin=stdin, stdout=2).wait)
            except OSError as error:
                complain(f"{command[0]} cannot be run: {os.strerror(error.errno)}")


class Listener:
    """An address at which a service listens."""

    def __init__(self, address, answer):
        self.answer = answer
        self.free = threading.Semaphore(CONNECTION_LIMIT)
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
            # Beyond the limit, clients wait in the backlog.
            self.free.acquire()
            try:
                sock = self.sock.accept()[0]
                in_background(self._serve, sock)
            except (OSError, RuntimeError):
                # The client is gone already, or there is no file or thread left for it: others end meanwhile.
                self.free.release()
                time.sleep(0.02)

    def _serve(self, sock):
        try:
            Connection(sock, self.answer).serve()
        finally:
            self.free.release()


def url(sockaddr):
    host, port = sockaddr[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def in_background(act, *arguments):
    threading.Thread(target=act, args=arguments, daemon=True).start()


def complain(message):
    """One line on standard error."""
    with contextlib.suppress(OSError):
        os.write(2, f"imds_simulator.py: {' '.join(message.split())}\n".encode("ascii", "backslashreplace"))


def announce(line):
    with contextlib.suppress(OSError):
        print(line, flush=True)


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


def a_vm(text):
    name, _mark, address = text.rpartition("=")
    if not name or not name.isprintable():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=ADDRESS:PORT")
    return name, an_address(address)


def a_command(text):
    try:
        command = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be split: {error}") from None
    if not command:
        raise argparse.ArgumentTypeError("the command is empty")
    return command


def parse_arguments(arguments):
    parser = Parser(description="Simulates the Scheduled Events of Azure's metadata service, for tests.", allow_abbrev=False)
    parser.add_argument(
        "--vm", action="append", required=True, type=a_vm, dest="vms", metavar="NAME=ADDRESS:PORT", help="a VM and where its metadata service listens"
    )
    parser.add_argument(
        "--control", type=an_address, default="127.0.0.1:0", metavar="ADDRESS:PORT", help="where the control address listens (a free port of 127.0.0.1)"
    )
    parser.add_argument("--scenario", metavar="FILE", help="JSON with events and faults that come by themselves")
    parser.add_argument("--on-start", type=a_command, metavar="COMMAND", help="run when an event starts, with the event as JSON on standard input")
    parser.add_argument("--on-gone", type=a_command, metavar="COMMAND", help="run when an event is gone, completed or cancelled")
    parser.add_argument(
        "--background", metavar="DIRECTORY", help="once everything listens, go on in the background, with imds_simulator.pid and .log in this directory"
    )
    options = parser.parse_args(arguments)
    names = set()
    for name, _address in options.vms:
        if name.lower() in names:
            parser.error(f"argument --vm: the name {name!r} is given twice")
        names.add(name.lower())
    return options


def read_scenario(path, vms):
    try:
        with open(path, "rb") as file:
            return checked_scenario(parse_json(file.read()), vms)
    except OSError as error:
        raise Refused(f"--scenario {path}: {error.strerror}") from None
    except Refused as error:
        raise Refused(f"--scenario {path}: {error}") from None


def play(scale_set, fields):
    """Adds an event of the scenario."""
    try:
        scale_set.add(fields)
    except Refused as error:
        complain(f"scenario: {error}")


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


def go_to_background(directory, line):
    """Lets a child process go on without this one; returns the path of its pid file, in the child alone."""
    path = os.path.join(directory, "imds_simulator.pid")
    try:
        log = os.open(os.path.join(directory, "imds_simulator.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        with open(path, "w", encoding="ascii") as file:
            pid = os.fork()
            if pid:
                file.write(f"{pid}\n")
    except OSError as error:
        raise Refused(f"--background {directory}: {error.strerror}") from None
    if pid:
        announce(line)
        sys.exit(0)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for new, old in ((nothing, 0), (nothing, 1), (log, 2)):
        os.dup2(new, old)
    return path


def main(arguments=None):
    # A byte in this pipe ends the simulator: a signal may come at any moment, in any thread.
    ending, end = os.pipe()
    os.set_blocking(end, False)
    signal.set_wakeup_fd(end, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_arguments: None)

    options = parse_arguments(arguments)
    names = [vm[0] for vm in options.vms]
    commands = Commands()
    scale_set = ScaleSet(commands.hand(options.on_start), commands.hand(options.on_gone))
    try:
        events, scale_set.faults = read_scenario(options.scenario, names) if options.scenario is not None else ([], [])
        allow_files((len(names) + 1) * (CONNECTION_LIMIT + 50))
        vms = [Listener(address, MetadataService(name, number, scale_set).answer) for number, (name, address) in enumerate(options.vms)]
        control = Listener(options.control, Control(scale_set, names).answer)
        line = json.dumps({"vms": dict(zip(names, (vm.url for vm in vms))), "control": control.url})
        pid_file = go_to_background(options.background, line) if options.background is not None else None
    except Refused as error:
        complain(str(error))
        return 2

    for after, fields in events:
        scale_set.later(after, play, scale_set, fields)
    for act in (scale_set.keep_time, commands.run, *(vm.run for vm in vms), control.run):
        in_background(act)
    announce(line)
    os.read(ending, 1)
    if pid_file is not None:
        os.unlink(pid_file)
    return 0


if __name__ == "__main__":
    status = main()
    # Threads that serve a client or wait for one are not waited for.
    os._exit(status)
