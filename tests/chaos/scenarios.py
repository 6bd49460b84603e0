# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Azure announces in a run of the chaos tests, and when. Times are short: the whole of a run takes some 20 s."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.support.patience import patient

HOSTS = ("web1", "web2", "web3", "web4")
NOTICE = 900
IMPACT = 2.0
SETTLE = 1.0
TASKS = Path(__file__).resolve().parent / "tasks"


@dataclass(frozen=True)
class Announced:
    """One event: what it is, and when it appears."""

    event_type: str
    hosts: tuple
    notice: float = NOTICE
    impact: float = IMPACT
    status: str = "Scheduled"
    once_started: int | None = None  # appears when the event of this number has started; else at the beginning
    once_out: str | None = None  # appears when this host is out of the balancer
    cancelled: bool = False  # by Azure, as soon as its hosts are out of the balancer

    def document(self):
        """The event as the simulator's control address takes it."""
        # What has started already is to last longer than a run takes to begin, so that there is somebody to take out.
        impact = patient(self.impact) if self.status == "Started" else self.impact
        return {
            "EventType": self.event_type,
            "Resources": list(self.hosts),
            "EventStatus": self.status,
            "NoticeSeconds": self.notice,
            "ImpactSeconds": impact,
            "SettleSeconds": SETTLE,
            "DurationInSeconds": int(impact),
            "Description": "Host server is undergoing maintenance.",
        }


@dataclass(frozen=True)
class Scenario:
    """A list of events and the settings of the run."""

    name: str
    events: tuple
    least: int = 1  # the minimum in service
    variables: dict = field(default_factory=dict)
    hosts: tuple = HOSTS[:3]
    forbidden: tuple = ()  # numbers of the events that a rule has prepared, but not approved
    front: str = "haproxy"  # what sends traffic to the hosts; see fronts.py
    own_tasks: bool = False  # whether the first and the last duty of each host are task files of the user's own
    # What an operator did before the run, as commands to HAProxy. It must all be so at the end.
    operator: tuple = ()

    @property
    def approvals(self):
        """How many of its events are approved."""
        asked = [event for number, event in enumerate(self.events) if number not in self.forbidden]
        return sum(event.status == "Scheduled" and not event.cancelled for event in asked)

    def duties(self, traffic):
        """What each host hands over. C(traffic): its duties that bring traffic."""
        return [own_tasks("before"), *traffic, own_tasks("after")] if self.own_tasks else traffic

    @property
    def yields(self):
        """Seconds before an event from which on the minimum holds no host back."""
        return self.variables.get("graceful_azure_drain_timeout", 120) + 15


def own_tasks(name):
    """A duty with a task file of the user's own, so that there is one more step to take and to record."""
    return {"type": "tasks", "name": name, "out": str(TASKS / f"{name}.yml")}


def _scenarios():
    yield Scenario("reboot", (Announced("Reboot", ("web1",)),))
    yield Scenario("freeze", (Announced("Freeze", ("web2",)),), own_tasks=True)
    yield Scenario("redeploy", (Announced("Redeploy", ("web3",), impact=3.0),), own_tasks=True)
    # The VM comes back by the same name, as one of a scale set does.
    yield Scenario("preempt", (Announced("Preempt", ("web1",), notice=30, impact=3.0),))
    yield Scenario("terminate", (Announced("Terminate", ("web3",), notice=300, impact=3.0),))
    yield Scenario("cancelled", (Announced("Redeploy", ("web3",), cancelled=True),))
    yield Scenario("no_notice", (Announced("Reboot", ("web1",), status="Started", impact=20.0),))
    yield Scenario("two_events", (Announced("Reboot", ("web1",)), Announced("Freeze", ("web3",))))
    yield Scenario("two_vms", (Announced("Reboot", ("web1", "web2")),))
    # The second hits a host that is out already, the third comes while the first is prepared.
    yield Scenario(
        "overlapping",
        (Announced("Reboot", ("web1",)), Announced("Freeze", ("web1",), once_started=0), Announced("Redeploy", ("web2",), once_out="web1")),
    )
    yield Scenario(
        "min_in_service",
        (Announced("Reboot", ("web1",)), Announced("Freeze", ("web2",))),
        least=2,
        variables={"graceful_azure_min_in_service": 2},
    )
    # Nobody can be spared before the minimum yields, 25 s before the event.
    yield Scenario(
        "min_yields",
        (Announced("Reboot", ("web1",), notice=40),),
        least=3,
        variables={"graceful_azure_min_in_service": 3, "graceful_azure_drain_timeout": 10},
    )
    # As little as a deadline leaves room for, as many hosts as that is promised for, and nearly the whole backend.
    yield Scenario("short_notice", (Announced("Reboot", ("web1", "web2", "web3"), notice=20),), hosts=HOSTS)
    yield Scenario(
        "not_approved",
        (Announced("Reboot", ("web1",), notice=18),),
        variables={"graceful_azure_rules": [{"name": "wait for it", "action": "prepare"}]},
        forbidden=(0,),
    )
    # An operator has taken one host out himself, and changed the weight of another.
    yield Scenario(
        "operator",
        (Announced("Reboot", ("web1", "web3")),),
        operator=("set server web/web3 state maint", "set server web/web1 weight 40"),
    )


SCENARIOS = {scenario.name: scenario for scenario in _scenarios()}


def _behind(front):
    """What the other providers are tried with. In Azure's pool the three hosts have no state, None and Up."""
    yield Scenario(f"{front}_reboot", (Announced("Reboot", ("web1",)),), front=front)
    yield Scenario(f"{front}_cancelled", (Announced("Redeploy", ("web3",), cancelled=True),), front=front)
    yield Scenario(f"{front}_no_notice", (Announced("Reboot", ("web2",), status="Started", impact=20.0),), front=front)
    # Two hosts of one file, one pool; the second while the first is out.
    yield Scenario(f"{front}_overlapping", (Announced("Reboot", ("web1",)), Announced("Freeze", ("web2",), once_out="web1")), front=front)


def _with_windows():
    """A group of a Linux host and two Windows hosts."""

    def scenario(name, *events):
        return Scenario(f"windows_{name}", events, hosts=("web1", "win1", "win2"), front="windows")

    yield scenario("reboot", Announced("Reboot", ("web1", "win1")))
    # Nobody else can send the approval of these two. After a Freeze, all that was stopped is started again by the collection.
    yield scenario("alone", Announced("Reboot", ("win1",)))
    yield scenario("freeze", Announced("Freeze", ("win1",)))
    yield scenario("cancelled", Announced("Redeploy", ("win2",), cancelled=True))
    yield scenario("no_notice", Announced("Reboot", ("win2",), status="Started", impact=20.0))
    yield scenario("overlapping", Announced("Reboot", ("win1",)), Announced("Freeze", ("win2",), once_out="win1"))


BEHIND = {scenario.name: scenario for front in ("nginx", "probe", "azure", "row") for scenario in _behind(front)}
"""Scenarios of the other providers."""
WINDOWS = {scenario.name: scenario for scenario in _with_windows()}
ALL = {**SCENARIOS, **BEHIND, **WINDOWS}
VARIANTS = ("min_yields", "short_notice", "not_approved", "operator")
"""Those that differ from another in little."""
