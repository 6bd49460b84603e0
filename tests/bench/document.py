# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Times the way of a large document through the collection: from its text to the events that a query selects."""

import datetime
import json
import statistics
import sys
import time

from ansible_collections.graceful.azure.plugins.module_utils._events import parse_document
from ansible_collections.graceful.azure.plugins.module_utils._selection import Selection

EVENTS = 1000
RESOURCES = 20
RUNS = 20
API_VERSION = "2020-07-01"


def make_document():
    events = [
        {
            "EventId": "602D9444-D2CD-49C7-8624-{0:012X}".format(number),
            "EventType": ("Freeze", "Reboot", "Redeploy")[number % 3],
            "ResourceType": "VirtualMachine",
            "Resources": ["web_{0}".format(number * RESOURCES + position) for position in range(RESOURCES)],
            "EventStatus": "Scheduled",
            "NotBefore": "Mon, 19 Oct 2026 18:29:47 GMT",
            "Description": "Host server is undergoing maintenance.",
            "EventSource": "Platform",
            "DurationInSeconds": 9,
        }
        for number in range(EVENTS)
    ]
    return json.dumps({"DocumentIncarnation": 5, "Events": events})


def main():
    text = make_document()
    now = datetime.datetime(2026, 10, 19, 18, 0, tzinfo=datetime.timezone.utc)
    times = []
    for _run in range(RUNS):
        begun = time.perf_counter()
        selection = Selection(event_types=["Reboot"], query="[?duration_in_seconds > `5`]")
        events = parse_document(json.loads(text), API_VERSION, "web_100", now).events
        selected = selection.apply(events)
        times.append(1000 * (time.perf_counter() - begun))
        if len(events) != EVENTS or len(selected) != EVENTS // 3:
            sys.exit("{0} events, {1} selected".format(len(events), len(selected)))
    print(json.dumps({"runs": RUNS, "milliseconds": statistics.median(times), "worst": max(times), "bytes": len(text)}))


if __name__ == "__main__":
    main()
