# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One event and its report. It has no timers: the scale set moves it on."""

from __future__ import annotations

import uuid

from .documents import NEWEST, in_version
from .event_fields import SCHEDULED, STARTED

# From approval to start, in real seconds: the client has its answer before the impact.
APPROVAL_SECONDS = 0.25


class Event:
    """One event, from its first appearance to after its end."""

    def __init__(self, fields, clock):
        self.clock = clock
        self.notice = fields.get("NoticeSeconds", 900)
        self.approval = fields.get("ApprovalSeconds", APPROVAL_SECONDS)
        # The short default is no part of the simulated life, so a slow clock does not make it longer.
        self.approved_soon = "ApprovalSeconds" not in fields
        self.cancel = fields.get("CancelSeconds")
        self.impact_seconds = fields.get("ImpactSeconds", 7)
        self.settle = fields.get("SettleSeconds", 5)
        self.further = fields.get("FurtherImpacts", [])
        self.impact = fields.get("Impact", fields["EventType"])
        self.on_start, self.on_gone = fields.get("OnStart"), fields.get("OnGone")
        self.id = fields.get("EventId") or str(uuid.uuid4()).upper()
        self.key = self.id.lower()  # ids are compared without regard to case
        # A full second, as the document shows it, rounded down: an event must not start before its NotBefore.
        self.not_before = int(clock.time() + (900 if self.notice is None else self.notice))
        self.fields = {
            "EventId": self.id,
            "EventType": fields["EventType"],
            "ResourceType": fields.get("ResourceType", "VirtualMachine"),
            "Resources": fields["Resources"],
            "EventStatus": fields.get("EventStatus", SCHEDULED),
            "NotBefore": fields.get("NotBefore"),
            "Description": fields.get("Description", "Simulated event."),
            "EventSource": fields.get("EventSource", "Platform"),
            "DurationInSeconds": fields.get("DurationInSeconds", -1),
        }
        self.then = None  # called when it is gone
        self.history = []
        self.approvals = []
        self.impacts = []
        self.commands = []
        self.set_status(self.fields["EventStatus"])

    @property
    def status(self):
        return self.fields["EventStatus"]

    def set_status(self, status):
        self.fields["EventStatus"] = status
        self.history.append({"Time": self.clock.time(), "Status": status})

    def now(self):
        """Its fields as they are now. A NotBefore that follows from the notice is a number."""
        started = any(entry["Status"] == STARTED for entry in self.history)
        not_before = self.not_before if self.fields["NotBefore"] is None else self.fields["NotBefore"]
        return {**self.fields, "NotBefore": "" if started else not_before}

    def report(self):
        """Everything about the event, for the control address and the commands."""
        return {
            **in_version(self.now(), NEWEST),
            "NoticeSeconds": self.notice,
            "ApprovalSeconds": self.approval,
            "CancelSeconds": self.cancel,
            "ImpactSeconds": self.impact_seconds,
            "SettleSeconds": self.settle,
            "Impact": self.impact,
            "FurtherImpacts": list(self.further),
            "History": list(self.history),
            "Approvals": list(self.approvals),
            "Impacts": list(self.impacts),
            "Commands": [dict(command) for command in self.commands],
        }
