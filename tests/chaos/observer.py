# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judges a run by what its witnesses recorded. Shares no code with the collection, and asks it nothing but its result.

The witnesses: the simulator (events, approvals, requests), the balancer's own state (looked at twenty times a second, see fronts.py) and its
log (every request, and the server), the load generator (every request, and who answered it), and the system (exit codes,
files left, processes left). No scenario has a rule that ignores an event. A record is a dictionary that JSON can carry, so
a run can be judged again from a file:

samples      [[time, {"backend/server": [admin, up, weight, sessions and queue]}], ...]
before/after {"backend/server": [admin, weight, address]}, as HAProxy says
events, requests   the simulator's lists; a request that met a fault has "Fault"
load         the load generator's rows
log          the balancer's: [{"backend", "start", "seconds", "status"}, ...]; log_of: its name; log_of_requests: whether a row is a request
unnoted      records that did not say that the change was made when an approval was seen
controllers  [{"name", "begin", "end", "hung", "killed", "status", "result", "limit", "output"}, ...]
hosts, least (the minimum in service), yields (seconds before an event from which on it holds no host back), forbidden
(numbers of events that a rule forbids to approve), left (what was left behind), deaf (hosts that do not answer at the end)
"""

from __future__ import annotations

from tests.support.haproxy import DRAIN, MAINTENANCE
from tests.support.world import BACKEND

ENOUGH = 15.0  # seconds of notice with a controller running, which are enough for everything
REQUEST_LIMIT = 4.0  # after which the load generator gives up
# The balancer is looked at every 50 ms, and the load generator hears of the end of a request after the balancer.
LOOK = 0.15
HEARSAY = 0.3
WORKERS = 2.0  # for which workers of a killed controller may act beside the next one before that has looked
ROUNDED = 1.0  # a NotBefore has whole seconds
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


def read_log(text):
    """The requests in the output of the stage's HAProxy."""
    rows = []
    for line in text.splitlines():
        if line.startswith("request "):
            _word, server, accepted, idle, seconds, status = line.split()
            rows.append({"backend": server, "start": float(accepted) + int(idle) / 1000, "seconds": int(seconds) / 1000, "status": int(status)})
    return rows


class Observer:
    """violations() is a list of sentences; each begins with the number of what is violated."""

    def __init__(self, record):
        self.record = record
        self.hosts = record["hosts"]
        self.samples = record["samples"]
        self.zero = self.samples[0][0]
        # Who tells of requests, and by how much later than the balancer it may have been heard of their ends.
        self.witnesses = {"the load": (record["load"], HEARSAY), f"{record['log_of']}'s log": (record["log"], LOOK)}
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
        return started is None or self.controlled(appeared, started)

    def controlled(self, since, until):
        """Whether one controller ran for long enough in a stretch of time."""
        return any(min(until, run["end"]) - max(since, run["begin"]) >= ENOUGH for run in self.record["controllers"])

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
            for witness, (rows, later) in self.witnesses.items():
                under_way = [row for row in rows if row["backend"] == host and row["start"] < time < row["start"] + row["seconds"] - later]
                if under_way:
                    self.say(1, f"{self.name(event)} approved at {self.at(time)} while {host} was answering {len(under_way)} requests, says {witness}")

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
        for witness, (rows, _later) in self.witnesses.items():
            sent = [row["start"] for row in rows if row["backend"] == host and since + LOOK < row["start"] < gone - LOOK and self._is_sent(row)]
            if sent:
                told = f"{self.name(event)} had it taken out at {self.at(since)} and stood until {self.at(gone)}"
                self.say(2, f"{host} was sent {len(sent)} requests, the first at {self.at(min(sent))}, says {witness}; {told}")

    def _is_sent(self, row):
        """Whether the balancer chose the server of a request. One of connections chooses once for each: its log tells when it was opened, the load does not."""
        return self.record["log_of_requests"] or row.get("connection") != "kept"

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
        for what in self.record["unnoted"]:
            self.say(4, f"approved while the record did not say that the change was made: {what}")
        for what in self.record["left"]:
            self.say(4, f"left behind: {what}")
        for host in self.record["deaf"]:
            self.say(4, f"the service of {host} does not answer at the end")

    # (5) The minimum stays in service, until it yields for an event's hosts

    def _yields(self, event):
        """From when on the minimum held the event's hosts back no more: by its deadline, or by its start without an approval."""
        yields = self.life(event)[0] + event["NoticeSeconds"] - self.record["yields"] - ROUNDED
        started = self.first(event, "Started")
        return yields if started is None or event["Approvals"] else min(yields, started)

    def _enough_in_service(self):
        freed = [(host, self._yields(event)) for event in self.record["events"] for host in event["Resources"]]
        for when, servers in self.samples:
            serving = sorted(host for host in self.hosts if servers[f"{BACKEND}/{host}"][0] == "ready" and servers[f"{BACKEND}/{host}"][1])
            let_go = {host for host, since in freed if since <= when and host in self.hosts}
            if len(let_go.union(serving)) < self.record["least"]:
                self.say(5, f"{len(serving)} servers in service ({', '.join(serving)}) at {self.at(when)}, {self.record['least']} must stay")
                return

    # (6) Out before the impact

    def _out_in_time(self, event, host):
        appeared, gone = self.life(event)
        if self.controlled(appeared, gone) and self.first_out(host, appeared, gone) is None:
            self.say(6, f"{self.name(event)} stood from {self.at(appeared)} to {self.at(gone)}, and {host} was never taken out")
        started = self.first(event, "Started")
        if started is None or not self.served_enough(event):
            return
        if self.state(host, started)[0] == "ready":
            told = f"{self.name(event)} appeared at {self.at(appeared)} and hit {host} at {self.at(started)} in rotation"
            self.say(6, f"{told}, though a controller had run for {ENOUGH:g} s")

    # (7) No request lost

    def _no_failure(self):
        windows = []
        for event in self.record["events"]:
            started = self.first(event, "Started")
            if started is not None and not event["Approvals"] and not self.served_enough(event):
                windows.append((started - REQUEST_LIMIT - HEARSAY, self.life(event)[1] + CHECKED))
        answered = sum(row["outcome"] == "ok" for row in self.record["load"])
        if self.record["log_of_requests"] and len(self.record["log"]) < answered:
            self.say(7, f"{answered} requests were answered, {self.record['log_of']}'s log tells of {len(self.record['log'])}")
        for witness, (rows, _later) in self.witnesses.items():
            told = [(row, row.get("outcome") or ("ok" if row["status"] == 200 else f"status {row['status']}")) for row in rows]
            lost = [(row, said) for row, said in told if said != "ok" and not any(since <= row["start"] <= until for since, until in windows)]
            if lost:
                outcomes = sorted({f"{said} from {row['backend'] or 'nobody'}" for row, said in lost})
                first, last = min(row["start"] for row, _said in lost), max(row["start"] for row, _said in lost)
                between = f"between {self.at(first)} and {self.at(last)}, says {witness}"
                self.say(7, f"{len(lost)} of {len(rows)} requests failed {between}: {'; '.join(outcomes)}")

    # (8) Every run ended by itself, in time, and told the truth

    def _ended_well(self, run):
        if run["killed"]:
            return
        told = f"the {run['name']} controller ({self.at(run['begin'])} to {self.at(run['end'])})"
        if run["hung"]:
            self.say(8, f"{told} did not end")
            return
        if run["end"] - run["begin"] > run["limit"]:
            self.say(8, f"{told} took longer than {run['limit']:g} s")
        if run["status"] != 0 and not (run["status"] == 2 and self._unread(run)):
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

    def _unread(self, run):
        """Whether the last answer of a VM was a fault, and the run says that it could not be read."""
        for host in self.hosts:
            asked = [request for request in self._asked([host]) if run["begin"] <= request["Time"] <= run["end"]]
            if asked and asked[-1].get("Fault") and f"{host}: its metadata service cannot be read" in run["output"]:
                return True
        return False

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
        return [request for request in self._asked(hosts) if request["Status"] == 200]

    def _asked(self, hosts):
        return [request for request in self._requests(hosts) if request["Method"] == "GET"]

    def _requests(self, hosts):
        return [request for request in self.record["requests"] if request["Vm"] in hosts and "scheduledevents" in request["Path"].lower()]

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
            if any(request["Method"] == "POST" and request["Status"] == 200 and request.get("Fault") for request in self._requests(event["Resources"])):
                outcomes.add("completed")  # the service said that it had approved it
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
