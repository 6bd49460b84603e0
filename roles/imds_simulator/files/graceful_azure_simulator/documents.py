# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documents that clients read: the fields of each version, incarnations, and documents that a fault alters.

No sockets, no threads: the caller holds the lock.
"""

from __future__ import annotations

import email.utils
import itertools
import json
import os
import time
import uuid

from .checks import is_number
from .event_fields import SCHEDULED

# A version shows its own fields and those of the versions before it.
FIRST_FIELDS = ("EventId", "EventType", "ResourceType", "Resources", "EventStatus", "NotBefore")
VERSION_FIELDS = {
    "2017-03-01": FIRST_FIELDS,
    "2017-08-01": FIRST_FIELDS,
    "2017-11-01": FIRST_FIELDS,
    "2019-01-01": FIRST_FIELDS,
    "2019-04-01": (*FIRST_FIELDS, "Description"),
    "2019-08-01": (*FIRST_FIELDS, "Description", "EventSource"),
    "2020-07-01": (*FIRST_FIELDS, "Description", "EventSource", "DurationInSeconds"),
}
PREVIEW, NEWEST = min(VERSION_FIELDS), max(VERSION_FIELDS)


def in_version(fields, version, fault=None):
    """An event's fields as a document of that version shows them, or as a fault alters them."""
    fault = fault or {}
    result = {name: fields[name] for name in VERSION_FIELDS[version]}
    if is_number(result["NotBefore"]):
        not_before = result["NotBefore"] + fault.get("ClockOff", 0)
        if version == PREVIEW or "IsoDates" in fault:
            result["NotBefore"] = iso_time(not_before)
        else:
            result["NotBefore"] = email.utils.formatdate(not_before, usegmt=True)
    if version == PREVIEW:
        result["Resources"] = [name if name.startswith("_") else "_" + name for name in result["Resources"]]
    if "UnknownType" in fault:
        result["EventType"] = fault["UnknownType"]
    if "StringNumbers" in fault and "DurationInSeconds" in result:
        result["DurationInSeconds"] = str(result["DurationInSeconds"])
    return result


def as_document(incarnation, events):
    """The bytes of a document."""
    return json.dumps({"DocumentIncarnation": incarnation, "Events": events}).encode()


def crowd(count, when):
    """Events of unknown VMs, to make a document huge."""
    for number in range(count):
        yield {
            "EventId": str(uuid.uuid5(uuid.NAMESPACE_OID, f"stranger {number}")).upper(),
            "EventType": "Freeze",
            "ResourceType": "VirtualMachine",
            "Resources": [f"stranger_{number}"],
            "EventStatus": SCHEDULED,
            "NotBefore": when,
            "Description": "Host server is undergoing maintenance.",
            "EventSource": "Platform",
            "DurationInSeconds": 5,
        }


def iso_time(seconds):
    """A time in Unix seconds, as ISO 8601 writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class Documents:
    """The document that all VMs show: its incarnation and events, those before the last change, and its bytes."""

    def __init__(self):
        self.begin()

    def begin(self):
        """Starts again, as the service does when it was switched off."""
        self.run = os.urandom(4).hex()  # in the entity tag: the same incarnation after a new start is another document
        self.incarnation, self.events, self.before = 1, [], (1, [])
        self.bodies = {}  # of the current incarnation, by version

    def change(self, events):
        """The next incarnation, with these events."""
        self.before = self.incarnation, self.events
        self.incarnation += 1
        self.events = events
        self.bodies = {}

    def current(self, version):
        """The document in bytes, and its entity tag."""
        if version not in self.bodies:
            self.bodies[version] = as_document(self.incarnation, [in_version(event, version) for event in self.events])
        return self.bodies[version], f'"{self.run}-{self.incarnation}"'

    def altered(self, version, fault, now):
        """The document as a fault alters it. ``now`` is in simulated Unix seconds."""
        incarnation, events = self.before if "Stale" in fault else (self.incarnation, self.events)
        incarnation = fault.get("Incarnation", incarnation)
        events = itertools.chain(events, crowd(fault.get("Huge", 0), int(now) + 900))
        return as_document(str(incarnation) if "StringNumbers" in fault else incarnation, [in_version(event, version, fault) for event in events])
