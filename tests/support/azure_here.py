# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in for Azure Resource Manager within the test's own process. No time passes but the clock's."""

from __future__ import annotations

import io
import json

import requests
from graceful_azure_simulator.resource_manager import Faults, Handler, LoadBalancers

from tests.support.azure import BALANCER, StandIn
from tests.support.service import Clock


class Here(StandIn, requests.adapters.BaseAdapter):
    """The stand-in within this process, as what ``requests`` sends its requests through. Its time passes only when a client sleeps."""

    def __init__(self, resources=(BALANCER,)):
        super().__init__("https://127.0.0.1", None)
        self.time = Clock()
        self.clock = {"monotonic": self.time.monotonic, "sleep": self.time.sleep}
        balancers = LoadBalancers(resources, clients=[("app", "right")], monotonic=self.time.monotonic)
        self.handler = type("Handler", (HandlerHere,), {"balancers": balancers, "faults": Faults(), "url": self.url})

    def control(self, method, path, body=None):
        return self.handler(method, "/control/" + path, {}, None if body is None else json.dumps(body).encode()).json()

    def send(self, request, **options):
        answer = self.handler(request.method, request.path_url, request.headers, request.body).answer_or_none
        if answer is None:
            raise requests.exceptions.ConnectionError("The connection was closed without an answer.")
        answer.url, answer.request = request.url, request
        return answer

    def close(self):
        """There is nothing to close."""


class HandlerHere(Handler):
    """One request to the stand-in, without a socket."""

    def __init__(self, method, path, headers, body):
        body = body.encode() if isinstance(body, str) else body or b""
        self.command, self.path, self.close_connection = method, path, False
        self.headers = requests.structures.CaseInsensitiveDict(headers, **{"Content-Length": str(len(body))})
        self.rfile = io.BytesIO(body)
        self.answer_or_none = None
        self.handle_any()

    def answer(self, status, body, headers=None):
        self.answer_or_none = answer = requests.Response()
        answer.status_code = status
        answer.headers.update({"Content-Type": "application/json", "Date": self.date_time_string(), **(headers or {})})
        answer._content = json.dumps(body).encode()

    def json(self):
        return self.answer_or_none.json()
