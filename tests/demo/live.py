# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A page for a browser that shows hosts, events and requests as they happen.

The page asks for its data once a second. The data is made while it is asked for, in a thread of that request. So it costs nothing as long as nobody
looks, and whatever goes wrong ends that request alone.
"""

from __future__ import annotations

import json
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer

from tests.demo import records
from tests.demo.timeline import MEANINGS

PAGE = Path(__file__).with_name("live.html")
LAST_LINES = 200
# The page asks every second. If it has not for so long, nobody looks at it any more.
FORGOTTEN_SECONDS = 3.0
# The page needs no other address, and nothing that it is told becomes a part of it.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'"


def status(event):
    """What an event is now, in one word."""
    last = event["History"][-1]["Status"]
    if last == "Scheduled":
        return "approved" if event["Approvals"] else "announced"
    return last.lower()


def event_rows(events, numbers):
    """The events in the order of their numbers, with the times that the metadata service knows."""
    rows = []
    for event in events:
        approvals = [approval["Time"] for approval in event["Approvals"]]
        row = {
            "number": numbers[event["EventId"]],
            "type": event["EventType"],
            "hosts": list(event["Resources"]),
            "status": status(event),
            "appeared": records.history_time(event, "Scheduled", "Started"),
            "approved": min(approvals) if approvals else None,
            "started": records.history_time(event, "Started"),
            "over": records.history_time(event, "Completed", "Cancelled"),
        }
        rows.append(row)
    return sorted(rows, key=lambda row: row["number"])


def rates(reports):
    """From one report of the load to the next: when, and how many requests per second ended, failed, and were answered by each server."""
    found = []
    for before, after in zip(reports, reports[1:]):
        seconds = max(0.1, after["time"] - before["time"])
        answers = {name: (total - before["answers"].get(name, 0)) / seconds for name, total in after["answers"].items()}
        found.append(
            {
                "time": after["time"],
                "requests": (after["requests"] - before["requests"]) / seconds,
                "failed": (after["failed"] - before["failed"]) / seconds,
                "answers": answers,
            }
        )
    return found


def part(heading, hosts, recorded):
    """One part of the page: a run with the collection or without it. ``recorded`` is what was recorded until now."""
    moved = records.on_axis(dict(recorded, requests=()))
    begin, end = moved["begin"], moved["end"]
    lanes = records.lanes(hosts, moved["states"], moved["impacts"], begin, end, moved["events"], moved["journal"])
    events = event_rows(moved["events"], recorded.get("numbers", {}))
    load = rates(recorded["load"])
    last = load[-1]["answers"] if load else {}
    total = recorded["load"][-1] if recorded["load"] else {"requests": 0, "failed": 0}
    return {
        "heading": heading,
        "begin": begin,
        "end": end,
        "gaps": recorded["axis"].gaps(),
        "requests": total["requests"],
        "failed": total["failed"],
        "load": [{"requests": one["requests"], "failed": one["failed"]} for one in load],
        "hosts": [
            {
                "name": host,
                "state": lanes[host][-1].state,
                "since": lanes[host][-1].begin,
                "answers": last.get(host, 0.0),
                "events": [row["number"] for row in events if host in row["hosts"] and row["over"] is None],
                "lane": lanes[host],
            }
            for host in hosts
        ],
        "events": events,
    }


class Live:
    """The page on a free port of this machine's own address.

    ``log`` is a file for what goes wrong, ``hosts`` are the names of the servers, and ``lines`` what was said so far: (seconds or None, who, what).
    """

    def __init__(self, title, log, hosts, lines):
        self.title = title
        self.log = log
        self.hosts = hosts
        self.lines = lines
        self.parts = {}  # a function for each heading, which returns what was recorded until now
        self.ended = False
        self.asked = None  # when the page last asked for its data
        self.complete = threading.Event()  # a page was given all there is
        self.server = None
        self.trouble = None

    def __enter__(self):
        try:
            server = _Server(self)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.server = server
        except (OSError, RuntimeError) as error:
            self.trouble = error
        return self

    def __exit__(self, *failure):
        if self.server:
            self.server.shutdown()
            self.server.server_close()

    def url(self):
        return "http://127.0.0.1:{0}/".format(self.server.server_address[1])

    def address(self):
        """Where the page is, as a sentence."""
        if self.server is None:
            return "no page for a browser: {0}".format(self.trouble)
        return "watch it in a browser: {0}".format(self.url())

    def show(self, heading, recorded):
        """From now on, that part of the page shows what the function ``recorded`` returns. It is called by other threads."""
        self.parts[heading] = recorded

    def end(self):
        """Marks all as complete. A page that is open gets the time to ask for that."""
        self.ended = True
        if self.asked is not None and time.monotonic() - self.asked <= FORGOTTEN_SECONDS:
            self.complete.wait(FORGOTTEN_SECONDS)

    def state(self):
        """The data of the page."""
        # Read first: if it is set, all that follows is complete.
        ended = self.ended
        return {
            "title": self.title,
            "ended": ended,
            "meanings": dict(MEANINGS),
            "parts": [part(heading, self.hosts, recorded()) for heading, recorded in list(self.parts.items())],
            # The page shows the load in its own way.
            "lines": [line for line in list(self.lines) if line[1] != "load"][-LAST_LINES:],
        }


class _Server(ThreadingTCPServer):
    # No HTTPServer: that one looks up the name of its address, which may take seconds.
    daemon_threads = True

    def __init__(self, live):
        self.live = live
        self.page = PAGE.read_bytes()
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request, client_address):
        with open(self.live.log, "a", encoding="utf-8") as stream:
            traceback.print_exc(file=stream)


class _Handler(BaseHTTPRequestHandler):
    # A client that says nothing is given up.
    timeout = 5

    def do_GET(self):
        if self.path == "/":
            self._answer("text/html; charset=utf-8", self.server.page)
        elif self.path == "/state":
            live = self.server.live
            # Before the answer: whoever has read it is known to be there.
            live.asked = time.monotonic()
            state = live.state()
            self._answer("application/json", json.dumps(state).encode())
            if state["ended"]:
                live.complete.set()
        else:
            self.send_error(404)

    def _answer(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *arguments):
        """Nobody reads it."""
