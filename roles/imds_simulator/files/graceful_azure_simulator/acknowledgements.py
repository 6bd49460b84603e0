# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The part of the stand-in for Azure Resource Manager that acknowledges scheduled events of VMs, scale sets and availability sets.

With the control address of a simulator of metadata services, an acknowledgement starts the event there, as an approval of a VM does. Then the events
of a resource are those of the simulator that name one of its VMs. Without it, they are those that the resource lists.
"""

from __future__ import annotations

import copy
import json
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from .azure_refusals import Refusal, no_resource, unknown_version

VERSIONS = ("2023-10-01-preview", "2025-11-01")
ACTION = "Microsoft.Maintenance/scheduledevents/acknowledge/action"
COMPUTE = re.compile(
    r"/subscriptions/[^/]+/resourcegroups/[^/]+/providers/microsoft\.compute/(?:virtualmachines|virtualmachinescalesets|availabilitysets)/[^/]+\Z",
    re.IGNORECASE,
)
PATH = re.compile(r"(?P<resource>.+)/providers/microsoft\.maintenance/scheduledevents(?:/(?P<event>[^/]+)(?P<act>/acknowledge)?)?\Z", re.IGNORECASE)
SECONDS = 10.0
# No proxy: the simulator is on this machine or near it.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Acknowledgements:
    """The compute resources and the events of each. ``control``: the control address of a simulator of metadata services, or None."""

    def __init__(self, resources, control=None):
        self._lock = threading.Lock()
        self._control = control and control.rstrip("/")
        self._resources = {}
        self._seen = []
        for resource in resources:
            self.set(resource)

    def set(self, resource):
        """Add or replace a resource: ``id``, ``vms`` (as in Resources of an event) and ``events`` (ids)."""
        name = resource["id"].split("/")[-1]
        with self._lock:
            self._resources[resource["id"].lower()] = dict({"vms": [name], "events": []}, **copy.deepcopy(resource))

    def all(self):
        """Every acknowledgement that was accepted."""
        with self._lock:
            return copy.deepcopy(self._seen)

    def answer(self, method, path, version, check_rights):
        """Answer a request below scheduledevents: what the stand-in returns."""
        found = PATH.match(path)
        resource, event_id = found.group("resource"), found.group("event")
        if version not in VERSIONS:
            raise unknown_version(version, VERSIONS)
        if method != "POST" or not found.group("act"):
            raise Refusal(405, "MethodNotAllowed", "The stand-in knows POST .../scheduledevents/ID/acknowledge here. Azure documents nothing else.")
        check_rights(ACTION, path[: -len("/acknowledge")])
        with self._lock:
            known = self._resources.get(resource.lower())
        if known is None:
            raise no_resource(resource)
        name = self._approve(known, event_id)
        with self._lock:
            self._seen.append({"Time": time.time(), "Resource": known["id"], "EventId": name})
        return {}

    def _approve(self, resource, event_id):
        """Returns the id of the event as its owner writes it. An event that has started was approved already, which is no mistake."""
        listed = {each.lower(): each for each in resource["events"]}
        if event_id.lower() in listed:
            return listed[event_id.lower()]
        vms = {vm.lower() for vm in resource["vms"]}
        for event in self._ask("GET", "/events") if self._control else ():
            is_of_resource = vms & {name.lower() for name in event["Resources"]}
            if event["EventId"].lower() == event_id.lower() and is_of_resource:
                status = event["History"][-1]["Status"]
                if status == "Scheduled":
                    self._ask("POST", "/events/%s/start" % urllib.parse.quote(event["EventId"], safe=""))
                if status in ("Scheduled", "Started"):
                    return event["EventId"]
        raise Refusal(404, "ScheduledEventNotFound", "The scheduled event '%s' was not found." % event_id)

    def _ask(self, method, path):
        try:
            with _OPENER.open(urllib.request.Request(self._control + path, method=method), timeout=SECONDS) as answer:
                return json.loads(answer.read().decode("utf-8"))
        except urllib.error.HTTPError as error:
            if error.code == 409:
                return None  # it has started or ended meanwhile
            raise Refusal(503, "ServiceUnavailable", "The simulator of metadata services refused %s %s with %d." % (method, path, error.code)) from error
        except (OSError, ValueError) as error:
            raise Refusal(503, "ServiceUnavailable", "The simulator of metadata services does not answer: %s." % error) from error
