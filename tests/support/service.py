# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A metadata service of scripted answers, and time that passes only when somebody sleeps."""

from __future__ import annotations

import json
import time

from tests.support.serving import Handler, Server, Serving

EVENT = "602d9444-d2cd-49c7-8624-8643e7171297"
DATE = "Mon, 19 Sep 2016 18:14:47 GMT"


class Clock:
    """A monotonic clock for code that takes its clock as an argument."""

    def __init__(self):
        self.now = 1000.0
        self.slept = []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        assert seconds >= 0
        self.slept.append(round(seconds, 3))
        self.now += seconds


def document(*events, incarnation=5):
    return {"DocumentIncarnation": incarnation, "Events": list(events)}


def event(event_id=EVENT, **fields):
    """An event in the shape of the newest version; a field that is None is left out."""
    whole = {
        "EventId": event_id,
        "EventType": "Reboot",
        "ResourceType": "VirtualMachine",
        "Resources": ["FrontEnd_IN_0", "BackEnd_IN_0"],
        "EventStatus": "Scheduled",
        "NotBefore": "Mon, 19 Sep 2016 18:29:47 GMT",
        "Description": "Host server is undergoing maintenance.",
        "EventSource": "Platform",
        "DurationInSeconds": 9,
    }
    whole.update(fields)
    return {name: value for name, value in whole.items() if value is not None}


class Request:
    def __init__(self, method, path, headers, body):
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)


class Service(Serving):
    """Answers requests for events with ``answers``, one after the other, and goes on with the last.

    An answer is a status, a document (answered with 200), bytes, a tuple of status, body and headers, or a function
    that gets the handler and answers by itself. ``name`` is the host's name, or an answer.
    """

    def __init__(self, *answers, name="FrontEnd_IN_0"):
        self.answers = list(answers)
        self.name = name
        self.seen = []
        service = self

        class Answer(Handler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                service.handle(self)

            do_POST = do_PUT = do_GET

            def date_time_string(self, timestamp=None):
                return DATE

        self.serve(Server(Answer))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def requests(self, method="GET", path="/metadata/scheduledevents"):
        return [request for request in self.seen if request.method == method and request.path.startswith(path)]

    def handle(self, handler):
        self.seen.append(Request(handler.command, handler.path, handler.headers, handler.body()))
        if handler.path.startswith("/metadata/instance/"):
            answer = self.name.encode() if isinstance(self.name, str) else self.name
        else:
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            answer(handler)
            return
        status, body, headers = 200, b"", {}
        if isinstance(answer, int):
            status = answer
        elif isinstance(answer, tuple):
            status, body, headers = answer
        else:
            body = answer
        if not isinstance(body, bytes):
            body = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        handler.reply(status, body, headers)


class Posting(Service):
    """Answers POSTs with answers of their own."""

    def __init__(self, *answers, posts=(200,), name="FrontEnd_IN_0"):
        super().__init__(*answers, name=name)
        self.posts = list(posts)

    def handle(self, handler):
        if handler.command == "POST":
            gets, self.answers = self.answers, self.posts
            super().handle(handler)
            self.answers = gets
        else:
            super().handle(handler)


def drop(handler):
    """No answer at all, the connection is closed."""
    handler.close_connection = True


def trickle(head=b"HTTP/1.1 200 OK\r\n", piece=b"X-More: a\r\n", pause=0.05, seconds=5):
    """An answer without an end, a few bytes at a time."""

    def answer(handler):
        handler.wfile.write(head)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            handler.wfile.write(piece)
            handler.wfile.flush()
            time.sleep(pause)
        handler.close_connection = True

    return answer
