# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Azure announces in the demo, and when: the scenarios from which one chooses."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, Optional

HOSTS = ("web1", "web2", "web3", "web4")
# Azure's own notice. An approval starts the event long before, except for Preempt.
NOTICE = {"Freeze": 900, "Reboot": 900, "Redeploy": 600, "Preempt": 30}
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


class Scenario(NamedTuple):
    """Events, and what they show in one sentence.

    At any moment at least one server is left in service. At least one event of each scenario is carried out: its impact is what the control repeats.
    """

    about: str
    events: tuple
    variables: Mapping = MappingProxyType({})  # of the web servers


DEFAULT = "tour"
SCENARIOS = {
    "tour": Scenario(
        "Six events of all kinds, some at the same time.",
        (
            Planned(1, "Reboot", ("web1",), 5, at=0),
            Planned(2, "Freeze", ("web2",), 4, at=3),  # overlaps with the first
            Planned(3, "Redeploy", ("web3",), 10, at=6, cancelled=True),
            Planned(4, "Freeze", ("web4",), 4, at=16),
            Planned(5, "Reboot", ("web2", "web3"), 6, at=20),  # one event for two hosts
            Planned(6, "Redeploy", ("web4",), 10, once_started=4),  # hits a host that is out already
        ),
    ),
    "reboot": Scenario("One server is rebooted.", (Planned(1, "Reboot", ("web1",), 5, at=0),)),
    "freeze": Scenario("One server is paused for a few seconds, as in a live migration.", (Planned(1, "Freeze", ("web2",), 4, at=0),)),
    "spot": Scenario("A Spot VM is evicted with 30 seconds of notice, and comes back later.", (Planned(1, "Preempt", ("web3",), 10, at=0),)),
    "cancelled": Scenario(
        "Azure cancels one event when its server is out already, and carries out another one.",
        (Planned(1, "Redeploy", ("web3",), 10, at=0, cancelled=True), Planned(2, "Reboot", ("web1",), 5, at=1)),
    ),
    "several": Scenario(
        "One event names two servers. When it has started, another event names one of them, which is out already.",
        (Planned(1, "Reboot", ("web2", "web3"), 6, at=0), Planned(2, "Redeploy", ("web3",), 8, once_started=1)),
    ),
    "minimum": Scenario(
        "Three servers are to be rebooted at the same time, but three of the four must stay in service.",
        tuple(Planned(number, "Reboot", ("web{0}".format(number),), 4, at=0) for number in (1, 2, 3)),
        MappingProxyType({"graceful_azure_min_in_service": 3}),
    ),
}


def choices():
    """The scenarios as text, one a line."""
    width = max(map(len, SCENARIOS))
    return "\n".join("  {0:<{1}}  {2}{3}".format(name, width, one.about, " The default." if name == DEFAULT else "") for name, one in SCENARIOS.items())


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
