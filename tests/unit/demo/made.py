# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What tests of the demo are made from."""

from __future__ import annotations


def event(event_id, resources=("web1",), history=(), approvals=()):
    """A reboot as the simulator lists it. C(history): times and statuses."""
    return {
        "EventId": event_id,
        "EventType": "Reboot",
        "Resources": list(resources),
        "History": [{"Time": time, "Status": status} for time, status in history],
        "Approvals": [{"Time": time, "Vm": "web1"} for time in approvals],
    }
