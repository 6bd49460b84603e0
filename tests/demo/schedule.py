# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Azure announces in the demo, and when."""

from __future__ import annotations

from typing import NamedTuple, Optional

HOSTS = ("web1", "web2", "web3", "web4")
# Azure's own notice; an approval starts the event long before.
NOTICE = {"Freeze": 900, "Reboot": 900, "Redeploy": 600}
SETTLE_SECONDS = 2


class Planned(NamedTuple):
    """One event: when it appears, whom it names, how long the impact lasts."""

    number: int
    event_type: str
    hosts: tuple
    impact: float
    at: Optional[float] = None  # seconds since the first event appeared
    once_started: Optional[int] = None  # or: when the event of this number has started
    cancelled: bool = False  # by Azure, as soon as the hosts are out of the balancer


# At any moment at least one server is left in service.
SCHEDULE = (
    Planned(1, "Reboot", ("web1",), 5, at=0),
    Planned(2, "Freeze", ("web2",), 4, at=3),  # overlaps with the first
    Planned(3, "Redeploy", ("web3",), 10, at=6, cancelled=True),
    Planned(4, "Freeze", ("web4",), 4, at=16),
    Planned(5, "Reboot", ("web2", "web3"), 6, at=20),  # one event for two hosts
    Planned(6, "Redeploy", ("web4",), 10, once_started=4),  # hits a host that is out already
)


def document(planned):
    """The event as the simulator's control address takes it."""
    return {
        "EventType": planned.event_type,
        "Resources": list(planned.hosts),
        "NoticeSeconds": NOTICE[planned.event_type],
        "ImpactSeconds": planned.impact,
        "SettleSeconds": SETTLE_SECONDS,
        "EventSource": "Platform",
        "Description": "Host server is undergoing maintenance.",
        "DurationInSeconds": int(planned.impact),
    }
