# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The metadata service of one VM: answers a request, or lets a fault answer it."""

from __future__ import annotations

import collections
import re
import threading
import time
import urllib.parse

from .checks import is_int
from .documents import PREVIEW, VERSION_FIELDS
from .fault_fields import DOCUMENTS, SENDING
from .http_messages import HTML_TYPE, JSON_TYPE, Response, allow, json_response, refusal
from .json_input import parse_json
from .refusals import Refused, shown

# Versions of the instance endpoint, which /metadata/versions lists, too. The endpoint accepts every version.
INSTANCE_VERSIONS = ("2017-04-02", "2017-12-01", "2018-02-01", "2018-10-01", "2019-03-11", "2019-06-01", "2020-06-01", "2020-09-01", "2021-02-01", "2021-12-13")
PORTAL = b"""<!DOCTYPE html>
<html><title>Sign in</title><body><form><input name="user"><input name="password" type="password"></form></body></html>
"""


class MetadataService:
    """The metadata service of one VM."""

    def __init__(self, vm, scale_set):
        self.vm = vm
        self.scale_set = scale_set
        self.answered = collections.deque(maxlen=scale_set.habits.rate or 1)  # real times of the last answers
        self.lock = threading.Lock()

    def answer(self, request):
        number = self.scale_set.log.saw(self.vm.name, request)
        # The real service does not regard the case of the path either.
        scheduled_events = request.path.lower() == "/metadata/scheduledevents"
        fault = self.scale_set.faults.meet(self.vm.name, request.method) if scheduled_events else {}
        # Nothing happens for a client that left during the delay. It has to try again.
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
        response.sending = {name: value for name, value in fault.items() if name in SENDING}
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
        # The published clients of the preview POST without the header. Nobody else may.
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
        self.scale_set.approve(self.vm.name, event_ids, incarnation)
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
        """Refuses a request that lacks what the service demands of every request."""
        if request.problem:
            raise request.problem
        if "x-forwarded-for" in request.headers:
            raise Refused("Requests with X-Forwarded-For are not answered.")
        if header_needed and request.headers.get("metadata", [""])[0].lower() != "true":
            raise Refused("Bad request. Required metadata header not specified: the request must have the header Metadata: true.")
        names = [parameter[0] for parameter in request.query]
        if len(set(names)) < len(names):
            raise Refused("A query parameter is repeated.")


def sleep_with(request, delay):
    """Sleeps real seconds. False as soon as the client is gone: its place is for other clients."""
    over = time.monotonic() + delay
    while not request.hung_up():
        remaining = over - time.monotonic()
        if remaining <= 0:
            return True
        time.sleep(min(0.5, remaining))
    return False


def answer_of_fault(fault):
    """The answer that a fault gives in the service's place, or None."""
    if "Status" in fault:
        return Response(fault["Status"], fault.get("Body", "").encode(), fault.get("Headers"))
    if "Portal" in fault:
        return Response(200, PORTAL, HTML_TYPE)
    if "Redirect" in fault:
        return Response(302, headers={"Location": fault["Redirect"]})
    if "Empty" in fault:
        return Response(200, headers=dict(JSON_TYPE))
    return None
