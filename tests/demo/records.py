# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From what was recorded to what is shown: the events with their times, and each host's lane. Pure functions.

Four witnesses are asked, each for what it alone knows: the simulator (an event appeared, was approved, started, was
gone), HAProxy (a server was in service or not), the playbook's journal (an event was detected, a host drained), and the
load (a request failed). Times are Unix seconds here; the results count from the demo's first event.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.support.load import OK

# The words of the plan and of the report.
IN_SERVICE = "in service"
DRAINING = "draining"
READY = "ready"
APPROVED = "approved"
STARTED = "started"
RESTORING = "restoring"
IMPACT = "impact"
# A host whose process runs again while the balancer still holds it for dead; only where nobody took it out before.
DEAD = "held for dead"

# The states of the plan in which a host has nothing left to do for its users, and those that a host has until its events are gone.
DRAINED_STATES = (READY, APPROVED, STARTED, RESTORING)
OUT_STATES = (DRAINING, READY, APPROVED, STARTED)


class Axis:
    """The time that is shown for a real one: it counts from a zero, and may jump where nothing happened."""

    def __init__(self, real, shown=0.0):
        self.marks = [(real, shown)]

    def jump(self, real, shown):
        """From a real time on, another one is shown."""
        self.marks.append((real, shown))

    def at(self, real):
        since, shown = next((mark for mark in reversed(self.marks) if mark[0] <= real), self.marks[0])
        return shown + real - since

    def gaps(self):
        """The stretches that were jumped over."""
        return [(shown + until - since, later) for (since, shown), (until, later) in zip(self.marks, self.marks[1:])]


class Segment(NamedTuple):
    """A stretch of a host's lane."""

    state: str
    begin: float
    end: float


def in_service(server):
    """Whether HAProxy gives new requests to a server, by what it said of it."""
    admin, up = server
    return admin == "ready" and up


def intervals(moments, end, wanted):
    """The stretches in which wanted(value) holds, of a list of (time, value), each value standing until the next."""
    found = []
    for position, (time, value) in enumerate(moments):
        until = moments[position + 1][0] if position + 1 < len(moments) else end
        if not wanted(value):
            continue
        if found and found[-1][1] == time:
            found[-1] = (found[-1][0], until)
        else:
            found.append((time, until))
    return found


def host_moments(states, host):
    """HAProxy's words on one host, from those on all: [(time, (admin, up))]."""
    return [(time, tuple(servers[host])) for time, servers in states]


def out_intervals(states, host, end):
    """When the host was taken out of the balancer, and until when it had no new requests."""
    found = intervals(host_moments(states, host), end, lambda server: not in_service(server))
    taken = intervals(host_moments(states, host), end, lambda server: server[0] != "ready")
    return [(begin, until) for begin, until in found if any(begin <= since < until for since, dummy in taken)]


def drained_at(journal, host, begin, end):
    """When the playbook first saw the host drained, in a stretch of time; None when it did not."""
    for entry in journal:
        if begin <= entry["time"] <= end and entry["hosts"].get(host, {}).get("state") in DRAINED_STATES:
            return entry["time"]
    return None


def states_told(journal, host, begin, end):
    """What the playbook said of a host that was out, in a stretch of time: [(time, state)], each state standing until the next."""
    told = []
    for entry in journal:
        state = entry["hosts"].get(host, {}).get("state")
        if begin <= entry["time"] <= end and state in OUT_STATES and (not told or told[-1][1] != state):
            told.append((entry["time"], state))
    return told


def on_axis(recorded):
    """The same records with their times as the axis shows them."""
    at = recorded["axis"].at
    moved = dict(recorded)
    moved["states"] = [(at(moment), servers) for moment, servers in recorded["states"]]
    moved["impacts"] = [dict(impact, begin=at(impact["begin"]), end=at(impact["end"])) for impact in recorded["impacts"]]
    moved["requests"] = [dict(request, start=at(request["start"])) for request in recorded["requests"]]
    moved["journal"] = [dict(entry, time=at(entry["time"])) for entry in recorded.get("journal", ())]
    moved["events"] = [
        dict(
            event,
            History=[dict(step, Time=at(step["Time"])) for step in event["History"]],
            Approvals=[dict(approval, Time=at(approval["Time"])) for approval in event["Approvals"]],
        )
        for event in recorded.get("events", ())
    ]
    moved["begin"], moved["end"] = at(recorded["begin"]), at(recorded["end"])
    return moved


def history_time(event, *statuses):
    """When the event first had one of the statuses; None when it never had."""
    return next((step["Time"] for step in event["History"] if step["Status"] in statuses), None)


def last(times):
    """The last of some times, None as soon as one is missing."""
    times = list(times)
    return None if not times or None in times else max(times)


def event_rows(events, journal, states, requests, end):
    """The events as result.json has them, with the failed requests of their time besides."""
    zero = min(history_time(event, "Scheduled", "Started") for event in events)
    rows = []
    for event in events:
        appeared = history_time(event, "Scheduled", "Started")
        gone = history_time(event, "Completed", "Cancelled")
        until = end if gone is None else gone
        outs, drains, backs = [], [], []
        for host in event["Resources"]:
            # The stretch in which the event came to its end; it may have begun for an earlier event.
            stretch = next((pair for pair in reversed(out_intervals(states, host, end)) if pair[1] > appeared and pair[0] <= until), None)
            if stretch is None:
                outs.append(None)
                drains.append(None)
                backs.append(None)
                continue
            outs.append(max(stretch[0], appeared))
            drains.append(drained_at(journal, host, max(stretch[0], appeared), min(stretch[1], until)))
            backs.append(stretch[1] if stretch[1] < end else None)
        approvals = [approval["Time"] for approval in event["Approvals"]]
        restored = last(backs)
        times = {
            "appeared": appeared,
            "detected": next((entry["time"] for entry in journal if event["EventId"] in entry["event_ids"]), None),
            "out_of_load_balancer": last(outs),
            "drained": last(drains),
            "approved": min(approvals) if approvals else None,
            "started": history_time(event, "Started"),
            "gone": gone,
            "restored": restored,
        }
        row = {
            "event_id": event["EventId"],
            "event_type": event["EventType"],
            "resources": list(event["Resources"]),
            "outcome": "cancelled" if history_time(event, "Cancelled") else "completed",
        }
        row.update((key, None if time is None else round(time - zero, 2)) for key, time in times.items())
        window = (appeared, end if restored is None else restored)
        row["failed"] = sum(1 for request in requests if request["outcome"] != OK and window[0] <= request["start"] <= window[1])
        rows.append(row)
    return rows


def lanes(hosts, states, impacts, begin, end, events=(), journal=()):
    """Each host's lane: a dict of name and list of Segment, from begin to end."""
    found = {}
    for host in hosts:
        segments = []
        hits = [(impact["begin"], impact["end"]) for impact in impacts if impact["host"] == host]
        stretches = out_intervals(states, host, end)
        for since, until in stretches:
            goings = [history_time(event, "Completed", "Cancelled") for event in events if host in event["Resources"]]
            gone = max([time for time in goings if time is not None and since <= time <= until], default=until)
            segments.append(Segment(DRAINING, since, gone))
            segments += [Segment(state, time, gone) for time, state in states_told(journal, host, since, gone)]
            segments.append(Segment(RESTORING, gone, until))
        for since, until in intervals(host_moments(states, host), end, lambda server: not in_service(server)):
            if (since, until) not in stretches:
                segments.append(Segment(DEAD, since, until))
        for since, until in hits:
            segments.append(Segment(IMPACT, since, until))
        found[host] = flatten(segments, begin, end)
    return found


def flatten(segments, begin, end):
    """One stretch after the other without gaps; a later segment covers the earlier ones, in service is what is left."""
    edges = sorted({begin, end}.union(time for segment in segments for time in segment[1:] if begin < time < end))
    flat = []
    for since, until in zip(edges, edges[1:]):
        covering = [segment.state for segment in segments if segment.begin <= since and segment.end >= until]
        state = covering[-1] if covering else IN_SERVICE
        if flat and flat[-1].state == state:
            flat[-1] = Segment(state, flat[-1].begin, until)
        else:
            flat.append(Segment(state, since, until))
    return flat


def count_failed(requests):
    return sum(1 for request in requests if request["outcome"] != OK)


def per_second(requests, begin, end, wanted, width=0.5):
    """How many requests ended in each stretch of so many seconds, as a rate: [(time, requests per second)]."""
    buckets = [0] * max(1, int((end - begin) / width))
    for request in requests:
        position = int((request["start"] + request["seconds"] - begin) / width)
        if wanted(request) and 0 <= position < len(buckets):
            buckets[position] += 1
    return [(begin + position * width, count / width) for position, count in enumerate(buckets)]
