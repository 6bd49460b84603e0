# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small world for tests of the plan: VMs, one balancer machine or more, events, and roles that do what their contract says.

The clock is the test's. Nothing here shares code with what it tests: C(plan) is called and is all that is imported of it.
"""

from __future__ import annotations

import copy
import datetime
import marshal
import math

from ansible_collections.graceful.azure.plugins.plugin_utils._planning.plan import plan

SOCKET = "/run/haproxy/admin.sock"


def service(name="web.service", **more):
    return {"name": name, "type": "service", "idle": True, "out": True, "in": True, **more}


def tasks(name, idle=False, out="/out.yml", **more):
    """Task files as a drain step; by default one that runs when the host goes out."""
    return {"name": name, "type": "tasks", "idle": idle, "out": out, "in": "", "record": name, **more}


BEFORE, AFTER = tasks("drain_host_before"), tasks("drain_host_after", idle=True)


def iso(at):
    return datetime.datetime.fromtimestamp(at, tz=datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def copied(value):
    """A copy that shares nothing with what JSON knows. Every pass of every test makes some: this takes a third of the time of copy.deepcopy."""
    return marshal.loads(marshal.dumps(value, 2))


class Model:
    """Hosts web1..webN, each a server of its name in backend www on every balancer."""

    def __init__(self, hosts=2, balancers=("lb1",), timeout=3600.0, wait=True, watch=False, **settings):
        self.now = 1_800_000_000.0
        self.pass_seconds = 2.0
        self.names = [f"web{number + 1}" for number in range(hosts)]
        self.run = {"started": self.now, "timeout": timeout, "wait": wait, "watch": watch}
        self.settings = {name: self._settings(name, balancers, settings) for name in self.names}
        self.servers = {
            lb: {
                name: {"admin_state": "ready", "sessions": 0, "queue": 0, "up": True, "backup": False, "process": 1, "record": None, "total": 0}
                for name in self.names
            }
            for lb in balancers
        }
        self.down_balancers = {}
        self.hosts = {
            name: {
                "azure_name": f"vm_{name}",
                "silent": False,
                "slow": False,
                "service_silent": False,
                "empty_body": False,
                "fatal": None,
                "connections": [],
                "uncounted": [],
                "udp": [],
                "tasks": {},
                "boot": "boot 1",
                "boots": {},  # per record: the boot in which it was written
                "on": [],  # what of its drain steps is on although it was taken out
                "own_balancer": "ready",
                "slow_way_out": False,
            }
            for name in self.names
        }
        self.events = {}
        self.posted = []
        self.acknowledged = []  # without the VMs that the event names
        self.steps = []
        self.memory = {}
        self.results = {name: {} for name in self.names}
        self.number = 0
        self.refuse = {}
        self.outcome = None
        self.incarnation = 1
        self.seen = {}
        self.news_for = 0.0  # seconds after a look within which news of another end the next one that waits
        self.skew = {}  # seconds by which a machine's clock is ahead

    @staticmethod
    def _settings(name, balancers, given):
        base = {
            "resource_name": None,
            "rules": [],
            "min_in_service": 1,
            "unknown_resources": "hold",
            "load_balancer": {
                "provider": "haproxy",
                "hosts": list(balancers),
                "server": name,
                "socket": SOCKET,
                "backends": [],
                "state": None,
                "quiet": 1.0,
                "absent": "unknown",
                "out": "/own/out.yml",  # only those of the user's own have task files
                "back": "/own/back.yml",
                "records": ["load_balancer_custom"],
            },
            "drain_host": {"ports": [80], "steps": [], "timeout": 120.0},
            "restore_service": {"timeout": 300.0, "unanswered": "refuse", "ask": {}},
        }
        given = copied(given)
        base["drain_host"].update(given.pop("drain_host", {}))
        balancer = base.pop("load_balancer")
        balancer.update(given.pop("load_balancer", {}))
        base["load_balancers"] = [dict(balancer, **entry) for entry in given.pop("load_balancers", [{}])]
        base.update(given)
        return base

    # The world's own life

    def announce(self, event_id, *hosts, event_type="Reboot", notice=900.0, status="Scheduled", shown_to=None, **more):
        self.incarnation += 1
        self.events[event_id] = dict(
            {
                "event_id": event_id,
                "event_type": event_type,
                "event_status": status,
                "event_source": "Platform",
                "resource_type": "VirtualMachine",
                "resources": [self.hosts[h]["azure_name"] if h in self.hosts else h for h in hosts],
                "not_before_at": None if notice is None or status == "Started" else self.now + notice,
                "description": "",
                "duration_in_seconds": -1,
                "shown_to": shown_to or self.names,
            },
            **more,
        )

    def start(self, event_id):
        self.incarnation += 1
        self.events[event_id].update(event_status="Started", not_before_at=None)

    def boots(self, name):
        """The host is booted anew, and what was stopped there comes up with it."""
        host = self.hosts[name]
        host["boot"] = "boot %d" % (int(host["boot"].split()[1]) + 1)
        host["on"] = ["web.service is active since the host was booted anew"]

    def over(self, event_id):
        self.incarnation += 1
        del self.events[event_id]

    def balancer_of(self, name):
        """The settings of its balancer, or of the outermost of several."""
        return self.settings[name]["load_balancers"][0]

    def provider(self, name):
        return self.balancer_of(name)["provider"]

    def idle(self, name):
        """Whether nobody is connected to it but the balancers' pools, and none has anything for it to do."""
        servers = [servers[name] for servers in self.servers.values()] if self.provider(name) == "haproxy" else []
        busy = any(server["sessions"] or server["queue"] for server in servers)
        return not busy and all(connection["peer"] == "10.0.0.4" for connection in self.hosts[name]["connections"])

    def in_rotation(self, name):
        if self.provider(name) != "haproxy":
            return ["its own"] if self.provider(name) == "custom" and self.hosts[name]["own_balancer"] == "ready" else []
        return [lb for lb, servers in self.servers.items() if servers[name]["admin_state"] == "ready"]

    def held(self, name):
        return any(servers[name]["record"] for servers in self.servers.values()) or bool(self.hosts[name]["tasks"])

    # What the passes see

    def _shown(self, event, name):
        at = event["not_before_at"]
        shown = {key: event[key] for key in event if key not in ("not_before_at", "shown_to")}
        shown["not_before"] = None if at is None else iso(at)
        shown["seconds_until_not_before"] = None if at is None else at - self.now
        shown["affects_host"] = self.hosts[name]["azure_name"] in event["resources"]
        return shown

    def _task_record(self, name, task, entry):
        host = self.hosts[name]
        done = task != "load_balancer_custom" or host["own_balancer"] == "out"
        if task == "services":
            return {"kind": "service", "subject": {"unit": "web.service"}, "found": {}, "left": {}, "events": entry, "boot_id": host["boots"].get(task)}
        if task.startswith("cluster "):
            _kind, type_name, step_name = task.split()
            return {"kind": "cluster", "subject": {"type": type_name, "name": step_name, "member": name}, "found": {}, "left": {}, "events": entry}
        record = {"kind": "task", "subject": {"name": task}, "found": None, "left": None, "done": done, "events": entry, "boot_id": host["boots"].get(task)}
        if task == "load_balancer_custom" and done:
            record["done_since"] = host["out_since"]
        return record

    def records(self, name):
        return copied([self._task_record(name, task, entry) for task, entry in self.hosts[name]["tasks"].items()])

    def observe_host(self, name):
        host = self.hosts[name]
        if host["silent"]:
            is_refusal = isinstance(host["silent"], str)
            return {"reached": False, "error": host["silent"] if is_refusal else "timed out", "seems_off": not is_refusal, "at": self.now}
        if host["slow"]:
            return {
                "reached": False,
                "error": "the machine is reached, but did not finish its answer within 5 s",
                "cut_off": 5.0,
                "at": self.now,
                "began": self.now - 5,
            }
        if host["fatal"]:
            return {"reached": True, "fatal": host["fatal"], "events": None, "at": self.now}
        seen = {
            "reached": True,
            "at": self.now,
            "time": self._clock(name),
            "resource_name": host["azure_name"],
            "document_incarnation": self.incarnation,
            "events": [self._shown(e, name) for e in self.events.values() if name in e["shown_to"]],
            "connections": copied(host["connections"]),
            "uncounted": copied(host["uncounted"]),
            "udp": host["udp"],
            "holds": self.records(name),
        }
        turn = self.turn(name)
        expected = turn["options"]["expected"] if turn else []
        if not set(expected) <= {event["event_id"] for event in seen["events"]}:
            seen["steady"] = 1.0  # the look reads once more
        seen["boot_id"] = host["boot"]
        if turn and turn["options"].get("duties"):
            seen["still_on"] = list(host["on"])
        if host["empty_body"]:
            seen.update(events=[], empty_body=True, document_incarnation=0)
        if host["service_silent"]:
            seen.update(events=None, resource_name=None, error="no answer")
        return seen

    def observe_balancer(self, lb):
        if lb in self.down_balancers:
            return dict({"machine": lb, "at": self.now, "began": self.now, "servers": None}, **self.down_balancers[lb])
        servers, holds = [], []
        for name, server in self.servers[lb].items():
            record = server["record"]
            condition = "none"
            if record:
                condition = "held"
                if server["admin_state"] != record["left"]:
                    condition = "lost" if record["process"] != server["process"] else "changed_meanwhile"
                holds.append({"kind": "haproxy_server", "subject": {"backend": "www", "server": name}, "events": copied(record["events"])})
            servers.append(
                {
                    "backend": "www",
                    "server": name,
                    "admin_state": server["admin_state"],
                    "sessions": server["sessions"],
                    "queue": server["queue"],
                    "condition": condition,
                    "held_by": list(record["events"]) if record else [],
                    "total_sessions": server["total"],
                    "quiet_for": 0.0,
                    "nothing_comes": server.get("nothing_comes", False),
                    "arrived": max(0, server["total"] - record.get("total", server["total"])) if record and record["process"] == server["process"] else None,
                    "in_service": self._serves(server),
                    "unsure": server.get("unsure"),
                    "backup": server["backup"],
                    "source_address": "10.0.0.4",
                    "uncounted": server.get("uncounted"),
                    "checked": server.get("checked", True),
                    "beside": 0,
                    "connections": 7,  # those that it keeps open
                    "left": None,
                    "process_noted": record is None or record["process"] == server["process"],
                    "restoring": bool(record and record.get("restoring")),
                }
            )
        process = {"pid": max([server["process"] for server in self.servers[lb].values()], default=1), "started": 1}
        return {
            "machine": lb,
            "reached": True,
            "at": self.now,
            "began": self.now,
            "time": self._clock(lb),
            "servers": servers,
            "passes": [],
            "beside": {},
            "known_backends": ["www"],
            "holds": holds,
            "clock": self.now,
            "process": process,
            "absent": False,
        }

    def _look(self, name):
        """What the pass knows of a host: a new look, or the former one where the plan leaves the host in peace."""
        last = self.seen.get(name)
        turn = self.turn(name)
        if last and self.outcome and self.number > 1:
            if turn is None:
                return dict(copied(last), rested=True)
            if turn["options"]["wait"] and self.now - last["at"] < self.news_for:
                return dict(copied(last), ended=True, watched=self.now, unwatched=self.now - last["at"])
        self.seen[name] = dict(self.observe_host(name), began=self.now)
        return copied(self.seen[name])

    def turn(self, name):
        """The turn in which the plan has a host looked at; None where it leaves it in peace, and in the first pass."""
        if not self.outcome or self.number <= 1:
            return None
        return next((turn for turn in self.outcome["turns"][name] if "machine" not in turn and "options" in turn), None)

    def rests(self, name):
        """The plan is to leave a host in peace in the next pass, although it does not want that."""
        self.outcome["turns"][name] = [turn for turn in self.outcome["turns"][name] if "machine" in turn]

    def expects_nothing(self, name):
        """The look at a host is not to read its metadata service again where an event is gone."""
        self.turn(name)["options"]["expected"] = []

    def machine_turns(self, machine=None):
        """The turns of the next pass that look at that machine, or at any."""
        turns = [turn for mine in self.outcome["turns"].values() for turn in mine if "machine" in turn and "options" in turn]
        return [turn for turn in turns if machine in (None, turn["machine"])]

    def world(self):
        return {
            "now": self.now,
            "pass": self.number,
            "run": self.run,
            "settings": self.settings,
            "hosts": {name: self._look(name) for name in self.names},
            "balancers": {f"{lb} {SOCKET}": self.observe_balancer(lb) for lb in self.servers},
            "results": self.results,
            "memory": self.memory,
        }

    # One pass and many

    def go(self):
        """One pass; returns the plan's outcome."""
        self.decide()
        return self.act()

    def decide(self):
        self.number += 1
        self.outcome = plan(copied(self.world()))
        self.memory = self.outcome["memory"]

    def act(self):
        for name, decision in self.outcome["hosts"].items():
            if decision["step"]:
                self._take(name, decision["step"])
        self.now += self.pass_seconds
        return self.outcome

    def until(self, condition, passes=400):
        """Passes until the condition holds; fails the test where it never does."""
        for _number in range(passes):
            outcome = self.go()
            if condition(outcome):
                return outcome
        raise AssertionError(f"not reached within {passes} passes: {self.outcome['hosts']}")

    def finish(self, passes=4000):
        return self.until(lambda outcome: outcome["finished"], passes)

    def killed(self):
        """The run dies; whatever comes next knows nothing but what lies on the machines."""
        self.memory = {}
        self.results = {name: {} for name in self.names}
        self.number = 0
        self.run = dict(self.run, started=self.now)

    def another(self):
        """A second controller of the same machines, with a clock of its own that the test sets."""
        other = copy.copy(self)
        other.seen = {}
        other.outcome = None
        other.killed()
        return other

    def _take(self, name, step):
        self.steps.append((self.now, name, step["role"], tuple(step["event_ids"])))
        self.results[name].pop(step["role"], None)
        said = self.refuse.get((name, step["role"]))
        if said:
            self.results[name]["failure"] = {"pass": self.number, "message": said}
            if step["role"] == "restore_service":
                self._put(name, "restoring", step)
            return
        getattr(self, "_" + step["role"])(name, step)

    def _clock(self, machine):
        return iso(self.now + self.skew.get(machine, 0))

    def _entries(self, step, machine):
        return {i: {"since": self._clock(machine), "reason": step["reason"], "details": step["event_details"][i]} for i in step["event_ids"]}

    def _put(self, name, task, step):
        """A record on the host."""
        entries = self.hosts[name]["tasks"].setdefault(task, {})
        entries.update(self._added(entries, self._entries(step, name)))

    @staticmethod
    def _added(known, entries):
        """What a record says of these events now: of one that it knows, the time and the reason stay, and the details are the new ones."""
        return {i: dict(entry, **{key: known[i][key] for key in ("since", "reason")}) if i in known else entry for i, entry in entries.items()}

    def _load_balancer(self, name, step):
        if self.provider(name) == "custom":
            self._put(name, "load_balancer_custom", step)
            if not self.hosts[name]["slow_way_out"] and self.hosts[name]["own_balancer"] != "out":
                self.hosts[name].update(own_balancer="out", out_since=self._clock(name))
            return
        if step["state"] == "in":
            self._give_back(name, step)
            return
        before = copied([servers[name] for servers in self.servers.values()])
        for lb, servers in self.servers.items():
            server = servers[name]
            if lb in self.down_balancers:
                continue
            record = server["record"]
            if record is None and server["admin_state"] != "ready":
                continue
            if record and server["admin_state"] != record["left"] and record["process"] == server["process"]:
                continue
            if step["min_in_service"] is not None and self._too_few(servers, server, step["min_in_service"]):
                continue
            if record is None:
                record = server["record"] = {"left": "drain", "events": {}, "process": server["process"]}
            kept = record["events"] if server["admin_state"] != "ready" else self._forgotten(record["events"], lb)
            record["events"] = {**kept, **self._added(kept, self._entries(step, lb))}
            record.pop("restoring", None)
            came = server["total"] > record.get("total", server["total"]) and record["process"] == server["process"]
            onward = came and server["admin_state"] == "drain" and self.balancer_of(name)["state"] is None
            if onward or record["process"] != server["process"] or "total" not in record:
                record["total"] = server["total"]
            record["process"] = server["process"]
            given = self.balancer_of(name)["state"] or "drain"
            record["left"] = server["admin_state"] = "maint" if onward or server["admin_state"] == "maint" else given
        changed = before != [servers[name] for servers in self.servers.values()]
        self.results[name]["load_balancer"] = {"done": not self.in_rotation(name), "changed": changed, "reason": "as far as enough others serve"}

    def _forgotten(self, events, machine):
        """Those who hold a server that HAProxy has in rotation again hold it from now on."""
        return {event_id: dict(entry, since=self._clock(machine)) for event_id, entry in events.items()}

    @staticmethod
    def _serves(server):
        return server["admin_state"] == "ready" and server["up"]

    def _too_few(self, servers, leaving, least):
        counted = [server for server in servers.values() if leaving["backup"] or not server["backup"]]
        if isinstance(least, str):
            least = math.ceil(len(counted) * int(least.rstrip("%")) / 100)
        return self._serves(leaving) and sum(map(self._serves, counted)) <= least

    @staticmethod
    def _name_of_record(one):
        return f"cluster {one['type']} {one['name']}" if "options" in one else one.get("record", "services")

    def _drain_host(self, name, step):
        steps = [one for one in self.settings[name]["drain_host"]["steps"] if one["out"]]
        if step["first"]:
            for one in steps:
                if one.get("first"):
                    self._put(name, self._name_of_record(one), step)
            self._put(name, "ready_to_leave", step)
            self.hosts[name]["on"] = []
            self.results[name]["drain_host"] = {"done": True, "reason": "ready to leave"}
            return
        for one in steps:
            if not one["idle"]:
                self._put(name, self._name_of_record(one), step)
        if self.in_rotation(name) or not self.idle(name) or not step["idle"]:
            return
        for one in steps:
            self._put(name, self._name_of_record(one), step)
        self._put(name, "drained", step)
        self.hosts[name].update(on=[], boots=dict.fromkeys(self.hosts[name]["tasks"], self.hosts[name]["boot"]))
        self.results[name]["drain_host"] = {"done": True, "reason": "drained"}

    def _approve_event(self, name, step):
        """Reads the events anew, as the role does: what the look still showed may have begun or be gone."""
        approved = [i for i in step["event_ids"] if i in self.events and self.events[i]["event_status"] == "Scheduled"]
        if step.get("witness"):
            self._acknowledge(name, step, approved)
            return
        for event_id in approved:
            event = self.events[event_id]
            stranger = [r for r in event["resources"] if r not in step["ready_resources"]]
            assert not stranger, stranger
            assert self.hosts[name]["azure_name"] in event["resources"]
            self.posted.append((self.now, event_id, name))
        if approved:
            self._put(name, "approved", dict(step, event_ids=approved))
        self.results[name]["approve_event"] = {"done": bool(approved), "approved": approved, "reason": "approved" if approved else "nothing to approve"}

    def _acknowledge(self, name, step, approved):
        """From outside: another VM reads the event again, if it can. No record is left."""
        witness = self.hosts[step["witness"]]
        if witness["silent"] or witness["service_silent"] or witness["fatal"]:
            self.results[name]["failure"] = {"pass": self.number, "message": "the event could not be read again"}
            return
        approved = [i for i in approved if step["witness"] in self.events[i]["shown_to"] and not witness["empty_body"]]
        for event_id in approved:
            resources = self.events[event_id]["resources"]
            assert self.hosts[name]["azure_name"] in resources and witness["azure_name"] not in resources
            assert {resource.lower() for resource in resources} <= {ready.lower() for ready in step["ready_resources"]}
            self.acknowledged.append((self.now, event_id, name))
        self.results[name]["approve_event"] = {"done": True, "approved": approved, "reason": "approved" if approved else "nothing to approve"}

    def _restore_service(self, name, step):
        kept = {}
        ids = {i.lower() for i in step["event_ids"]}
        for task, entries in self.hosts[name]["tasks"].items():
            stays = task == "approved" and task not in step["records"]
            kept[task] = {i: entry for i, entry in entries.items() if stays or i.lower() not in ids}
        self.hosts[name].update(tasks={task: entries for task, entries in kept.items() if entries}, own_balancer="ready")
        waiting = [lb for lb, servers in self.servers.items() if servers[name]["record"] and servers[name].get("checks_fail")]
        for lb in waiting:
            self.servers[lb][name]["record"]["restoring"] = True
        if waiting:
            self._put(name, "restoring", step)
            self.results[name]["restore_service"] = {"done": False, "reason": "www/%s waits in drain until HAProxy's health check passes" % name}
            return
        self._give_back(name, step)
        known = [one.get("record") for one in self.settings[name]["drain_host"]["steps"]]
        lost = [
            f"the duty {task[len('drain_host_step_') :]} was handed over, and its settings are gone"
            for task in step["records"]
            if task.startswith("drain_host_step_") and task not in known
        ]
        self.results[name]["restore_service"] = {"done": True, "reason": "back", "conflicts": lost}

    def _give_back(self, name, step):
        ids = {i.lower() for i in step["event_ids"]}
        for lb, servers in self.servers.items():
            server = servers[name]
            if lb in self.down_balancers or not server["record"]:
                continue
            record = server["record"]
            record["events"] = {i: e for i, e in record["events"].items() if i.lower() not in ids}
            if not record["events"]:
                if server["admin_state"] == record["left"]:
                    server["admin_state"] = "ready"
                server["record"] = None
