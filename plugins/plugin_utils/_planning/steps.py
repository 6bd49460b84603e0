# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a pass can decide for a host: a step. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import Event
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, StepJson


class Step(NamedTuple):
    """One short step of one role. C(variables): what else the role needs."""

    role: str
    state: str
    events: list[Event]
    variables: Json

    @property
    def event_ids(self) -> list[str]:
        return [event.event_id for event in self.events]

    def as_json(self, host: Host) -> StepJson:
        kept: Json = {"unanswered": host.unanswered, "asked": host.settings.restore_service.ask} if host.unanswered else {}
        if host.ports:
            kept["heard"] = sorted(host.heard)
        if host.probe_passed:
            kept["passed"] = True
        if self.variables.get("idle") is False:
            kept["idle"] = False
        # In these backends the host's name is the host's. In others it is another machine's.
        only_in = {place.group.key[0]: list(place.only_in) for place in host.places if place.only_in and place.group}
        return {
            "role": self.role,
            "state": self.state,
            "event_ids": self.event_ids,
            # The record keeps these. While the host is out, nobody can ask it again, so its missing answer is kept, too, and who listened before.
            "event_details": {event.event_id: dict(event.details(), host=host.name, **kept, **out_of(host, event.key)) for event in self.events},
            "reason": "; ".join(event.label for event in self.events),
            **({"backends": only_in} if only_in else {}),
            **self.variables,
        }


def out_of(host: Host, key: str) -> Json:
    """What a record keeps of where a host was taken out for an event: the settings may have lost a balancer when it is given back."""
    spots = host.spots(key)
    return {"out_of": spots} if spots else {}


def step(role: str, state: str, events: list[Event], **variables: Any) -> Step:
    return Step(role, state, events, variables)


_WORDS = {
    "load_balancer": ("goes out of its balancer", "was taken out of its balancer"),
    "drain_host": ("its services are stopped, its tasks run", "its services were stopped, its tasks have run"),
    "approve_event": ("approves", "was approved"),
    "restore_service": ("is brought back", "was brought back"),
}


def step_words(decided: StepJson, done: bool = False) -> str:
    """What a host does next, in words, or what was done. C(decided): the step as JSON."""
    if decided.get("through"):
        return f"{'was' if done else 'is'} approved through {decided['through']}"
    if (decided["role"], decided["state"]) == ("load_balancer", "in"):
        return f"{'has forgotten' if done else 'forgets'} what was held for an event that is over"
    return _WORDS.get(decided["role"], (decided["role"],) * 2)[done]
