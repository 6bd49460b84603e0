# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judges a run by what its witnesses recorded. Shares no code with the collection, and asks it nothing but its result.

The witnesses: the simulator (events, approvals, requests), HAProxy's own state (looked at twenty times a second), the
load generator (every request, and who answered it), and the system (exit codes, files left, processes left). A record
is a dictionary that JSON can carry, so a run can be judged again from a file:

samples      [[time, {"backend/server": [admin, up, weight, sessions and queue]}], ...]
before/after {"backend/server": [admin, weight, address]}, as HAProxy says
events, requests   the simulator's lists
load         the load generator's rows
controllers  [{"name", "begin", "end", "killed", "status", "result", "limit", "output"}, ...]
hosts, least, forbidden (numbers of events that a rule forbids to approve), left (what was left behind), deaf (hosts that do not answer at the end)
"""

from __future__ import annotations

from tests.demo.balancer import BACKEND, DRAIN, MAINTENANCE

ENOUGH = 15.0  # seconds of notice with a controller running, which are enough for everything
REQUEST_LIMIT = 4.0  # after which the load generator gives up
# The balancer is looked at every 50 ms, and the load generator hears of the end of a request after the balancer.
LOOK = 0.15
HEARSAY = 0.3
WORKERS = 2.0  # for which workers of a killed controller may act beside the next one before that has looked
CHECKED = 5.0  # until the balancer knows that a server lives again


def read_balancer(text):
    """Every server in the answer to "show servers state; show stat": its state for a sample, and what must come back."""
    states, totals, columns = {}, {}, []
    for line in text.splitlines():
        if line.startswith("# "):
            columns = line[2:].replace(",", " ").split()
            continue
        if "," in line:
            row = dict(zip(columns, line.split(",")))
            if row["svname"] not in ("FRONTEND", "BACKEND"):
                totals[f"{row['pxname']}/{row['svname']}"] = int(row["scur"]) + int(row["qcur"])
        elif len(line.split()) > 10:
            row = dict(zip(columns, line.split()))
            bits = int(row["srv_admin_state"])
            admin = "maint" if bits & MAINTENANCE else "drain" if bits & DRAIN else "ready"
            up = row["srv_op_state"] != "0"
            states[f"{row['be_name']}/{row['srv_name']}"] = (admin, up, int(row["srv_uweight"]), f"{row['srv_addr']}:{row['srv_port']}")
    sample = {key: [admin, up, weight, totals.get(key, 0)] for key, (admin, up, weight, _address) in states.items()}
    lasting = {key: [admin, weight, address] for key, (admin, _up, weight, address) in states.items()}
    return sample, lasting


class Observer:
    """violations() is a list of sentences; each begins with the number of what is violated."""

    def __init__(self, record):
        self.record = record
        self.hosts = record["hosts"]
        self.samples = record["samples"]
        self.zero = self.samples[0][0]
        self.said = []

    def violations(self):
        for event in self.record["events"]:
            for approval in event["Approvals"]:
                self._approved_ready(event, approval)
            for host in event["Resources"]:
                if host in self.hosts:
                    self._stays_out(event, host)
                    self._out_in_time(event, host)
        self._approved_planned()
        self._as_before()
        self._enough_in_service()
        self._no_failure()
        for controller in self.record["controllers"]:
            self._ended_well(controller)
        return self.said

    # Words

    def at(self, time):
        return f"{time - self.zero:.2f} s"

    def say(self, number, sentence):
        self.said.append(f"({number}) {sentence}")

    @staticmethod
    def name(event):
        return f"{event['EventType']} {event['EventId']} ({', '.join(event['Resources'])})"

    # What the witnesses say

    @staticmethod
    def first(event, *statuses):
        return next((step["Time"] for step in event["History"] if step["Status"] in statuses), None)

    def life(self, event):
        """When it appeared and when it was gone."""
        gone = self.first(event, "Completed", "Cancelled")
        return event["History"][0]["Time"], self.samples[-1][0] if gone is None else gone

    def state(self, host, time):
        """The balancer's last word on a host before a moment: admin, up, weight, sessions and queue."""
        found = self.samples[0][1]
        for when, servers in self.samples:
            if when > time:
                break
            found = servers
        return found[f"{BACKEND}/{host}"]

    def first_out(self, host, since, until):
        """When the host was first seen out of the balancer in a stretch of time, or None."""
        if self.state(host, since)[0] != "ready":
            return since
        key = f"{BACKEND}/{host}"
        return next((when for when, servers in self.samples if since <= when <= until and servers[key][0] != "ready"), None)

    def operators(self, host):
        """Whether the host was out before anything began: then it is the operator's."""
        return self.record["before"][f"{BACKEND}/{host}"][0] != "ready"

    def served_enough(self, event):
        """Whether one controller ran for so long between notice and start that everything could be done."""
        appeared, _gone = self.life(event)
        started = self.first(event, "Started")
        if started is None:
            return True
        return any(min(started, run["end"]) - max(appeared, run["begin"]) >= ENOUGH for run in self.record["controllers"])

    # (1) No event approved while one of its hosts was in rotation or had a connection

    def _approved_ready(self, event, approval):
        time = approval["Time"]
        started = self.first(event, "Started")
        if started is not None and time > started:
            return
        for host in event["Resources"]:
            if host not in self.hosts:
                continue
            admin, _up, _weight, busy = self.state(host, time)
            if admin == "ready":
                self.say(1, f"{self.name(event)} approved at {self.at(time)} while {host} was in rotation")
            elif busy:
                self.say(1, f"{self.name(event)} approved at {self.at(time)} while {host} had {busy} sessions")
            served = [row for row in self.record["load"] if row["backend"] == host]
            under_way = [row for row in served if row["start"] < time and row["start"] + row["seconds"] > time + HEARSAY]
            if under_way:
                self.say(1, f"{self.name(event)} approved at {self.at(time)} while {host} was answering {len(under_way)} requests")

    # (2) No host in rotation while an event that names it stands prepared

    def _stays_out(self, event, host):
        appeared, gone = self.life(event)
        since = self.first_out(host, appeared, gone)
        if since is None:
            return
        if since == appeared:
            # It was out for another event. This one was seen, and the step done for it, when its service was asked a second time.
            asked = [request["Time"] for request in self._read([host]) if appeared < request["Time"] < gone]
            approvals = [approval["Time"] for approval in event["Approvals"]]
            since = min([*asked[1:2], *approvals], default=None)
            if since is None or self.state(host, since)[0] == "ready":
                return
        key = f"{BACKEND}/{host}"
        back = next((when for when, servers in self.samples if since < when < gone - LOOK and servers[key][0] == "ready"), None)
        if back is not None:
            self.say(2, f"{host} was in rotation at {self.at(back)}; {self.name(event)} had it taken out at {self.at(since)} and stood until {self.at(gone)}")

    # (3) Nothing approved that does not name this host, or that was not to be

    def _approved_planned(self):
        for number, event in enumerate(self.record["events"]):
            for approval in event["Approvals"]:
                if approval["Vm"] not in event["Resources"]:
                    self.say(3, f"{self.name(event)} approved through {approval['Vm']}, which it does not name, at {self.at(approval['Time'])}")
                if number in self.record["forbidden"]:
                    self.say(3, f"{self.name(event)} approved at {self.at(approval['Time'])}, against the rule")

    # (4) At the end all is as before

    def _as_before(self):
        before, after = self.record["before"], self.record["after"]
        for key in sorted({*before, *after}):
            if before.get(key) != after.get(key):
                self.say(4, f"{key} was {before.get(key)} before and is {after.get(key)} at the end")
        # Whatever no event names was never touched, not for a moment.
        named = {f"{BACKEND}/{host}" for event in self.record["events"] for host in event["Resources"] if not self.operators(host)}
        touched = set()
        for when, servers in self.samples:
            for key, (admin, _up, weight, _busy) in servers.items():
                if key not in touched and (weight != before[key][1] or (key not in named and admin != before[key][0])):
                    touched.add(key)
                    self.say(4, f"{key} was {before[key]} before and {admin} with weight {weight} at {self.at(when)}; no event has to do with that")
        for what in self.record["left"]:
            self.say(4, f"left behind: {what}")
        for host in self.record["deaf"]:
            self.say(4, f"the service of {host} does not answer at the end")

    # (5) The minimum stays in service

    def _enough_in_service(self):
        """Strict where every event had its notice: none of them starts before it is approved."""
        if not all(self.served_enough(event) or event["Approvals"] for event in self.record["events"]):
            return
        for when, servers in self.samples:
            serving = sorted(host for host in self.hosts if servers[f"{BACKEND}/{host}"][0] == "ready" and servers[f"{BACKEND}/{host}"][1])
            if len(serving) < self.record["least"]:
                self.say(5, f"{len(serving)} servers in service ({', '.join(serving)}) at {self.at(when)}, {self.record['least']} must stay")
                return

    # (6) Out before the impact

    def _out_in_time(self, event, host):
        started = self.first(event, "Started")
        if started is None or not self.served_enough(event):
            return
        if self.state(host, started)[0] == "ready":
            appeared, _gone = self.life(event)
            told = f"{self.name(event)} appeared at {self.at(appeared)} and hit {host} at {self.at(started)} in rotation"
            self.say(6, f"{told}, though a controller had run for {ENOUGH:g} s")

    # (7) No request lost

    def _no_failure(self):
        windows = []
        for event in self.record["events"]:
            started = self.first(event, "Started")
            if started is not None and not event["Approvals"] and not self.served_enough(event):
                windows.append((started - REQUEST_LIMIT - HEARSAY, self.life(event)[1] + CHECKED))
        failed = [row for row in self.record["load"] if row["outcome"] != "ok"]
        lost = [row for row in failed if not any(since <= row["start"] <= until for since, until in windows)]
        if lost:
            outcomes = sorted({f"{row['outcome']} from {row['backend'] or 'nobody'}" for row in lost})
            first, last = min(row["start"] for row in lost), max(row["start"] for row in lost)
            self.say(7, f"{len(lost)} of {len(self.record['load'])} requests failed between {self.at(first)} and {self.at(last)}: {'; '.join(outcomes)}")

    # (8) Every run ended by itself, in time, and told the truth

    def _ended_well(self, run):
        if run["killed"]:
            return
        told = f"the {run['name']} controller ({self.at(run['begin'])} to {self.at(run['end'])})"
        if run["end"] - run["begin"] > run["limit"]:
            self.say(8, f"{told} took longer than {run['limit']:g} s")
        if run["status"] != 0:
            self.say(8, f"{told} ended with {run['status']}")
        if "Traceback" in run["output"]:
            self.say(8, f"{told} showed a traceback")
        if run["result"] is None:
            self.say(8, f"{told} gave no result")
            return
        known = {event["EventId"].lower(): event for event in self.record["events"]}
        listed = set()
        for entry in run["result"]:
            event = known.get(entry["event_id"].lower())
            if event is None:
                self.say(8, f"{told} told of an event {entry['event_id']} that never was")
            else:
                listed.add(entry["event_id"].lower())
                self._entry_true(told, run, event, entry)
        for key, event in known.items():
            if key not in listed and self._must_have_seen(run, event):
                self.say(8, f"{told} did not tell of {self.name(event)}")

    def _alone(self, run):
        return all(other is run or other["end"] <= run["begin"] or other["begin"] >= run["end"] for other in self.record["controllers"])

    def _alone_since(self, run):
        """When a run had its first look at the earliest; till then workers that outlived a killed controller may have acted."""
        follows = any(other["killed"] and other["end"] <= run["begin"] for other in self.record["controllers"])
        return run["begin"] + (WORKERS if follows else 0.0)

    def _must_have_seen(self, run, event):
        appeared, gone = self.life(event)
        if not self._alone(run):
            return appeared <= run["begin"] and gone >= run["begin"] + ENOUGH
        # What is asked in the first second is asked by workers that outlived a killed controller.
        since, until = max(run["begin"] + 1, appeared), min(run["end"], gone) - LOOK
        return any(since < request["Time"] < until for request in self._read(event["Resources"]))

    def _read(self, hosts):
        """The answers that told hosts of the events."""
        return [
            request
            for request in self.record["requests"]
            if request["Vm"] in hosts and request["Method"] == "GET" and request["Status"] == 200 and "scheduledevents" in request["Path"].lower()
        ]

    def _entry_true(self, told, run, event, entry):
        appeared, gone = self.life(event)
        mine = sorted(host for host in event["Resources"] if host in self.hosts)
        if entry["event_type"] not in (event["EventType"], None):
            self.say(8, f"{told} told of {self.name(event)} as {entry['event_type']}")
        if sorted(entry["hosts"]) != mine:
            self.say(8, f"{told} told of the hosts {sorted(entry['hosts'])} in {self.name(event)}")
        if gone > run["end"]:
            outcomes = {"in_progress"}
            self.say(8, f"{told} ended while {self.name(event)} stood")
        elif event["Approvals"] or (self.record["events"].index(event) in self.record["forbidden"] and self.first(event, "Started") is not None):
            outcomes = {"completed"}
        elif self.first(event, "Started") is None:
            outcomes = {"cancelled"}
        else:
            outcomes = {"not_approved"}
        if entry["outcome"] not in outcomes:
            self.say(8, f"{told} called {self.name(event)} {entry['outcome']}, which was {' or '.join(outcomes)}")
        for host, said in entry["hosts"].items():
            if host not in mine:
                continue
            begin = max(appeared, self._alone_since(run))
            taken = not self.operators(host) and begin < min(gone, run["end"]) and self.first_out(host, begin, min(gone, run["end"])) is not None
            # A later run may find the host put back by a killed one, and only the event's record left; one that is not alone
            # may have its first look after the other's last step. An event may be gone between a look at it and the step
            # that takes its host out.
            at_all = not self.operators(host) and self.first_out(host, appeared, run["end"]) is not None
            states = {"restored"} if taken and self._alone(run) else {"in_service", "restored"} if at_all else {"in_service"}
            if said["state"] not in states:
                was = f"{said['state']} ({said['reason']}) in {self.name(event)}, where it was {' or '.join(sorted(states))}"
                self.say(8, f"{told} called {host} {was}")


def judge(record):
    return Observer(record).violations()
