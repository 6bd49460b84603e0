# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Members of clusters as drain steps, one kind for each type of cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from ansible_collections.graceful.azure.plugins.module_utils._cluster import Member, check_options
from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.cluster import OPTIONS, option_mistakes
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import CLUSTER
from ansible_collections.graceful.azure.plugins.module_utils._spellings import leads_back
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.on_host import HostDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._types import DrainStep, Options, StepGroup, StepJson

FOLLOWED = 1.0
"""Seconds for which a step of a pass follows what it began. A cluster often needs no longer, and the next pass comes later. All hosts wait for it."""

ITSELF = ("node", "member")
"""What the option is called that says which member the host is."""
ASKED = ("url", "address")
"""What the option is called that says where the member itself is asked. On its own host, it may be the same for all."""


def _is_same_for_all(place: str | None) -> bool:
    """Whether each host reaches itself at this URL or address."""
    try:
        return leads_back(urlsplit(place if place and "://" in place else f"//{place or ''}").hostname or "localhost")
    except ValueError:
        return True  # its own mistake is told


class ClusterDuty(HostDuty):
    module = "cluster_hold"
    things = "cluster"
    own_mistakes = staticmethod(option_mistakes)
    # A member that leads hands that over before its connections are counted.
    needs_idle = False
    asks_first = True

    def __init__(self, member: type[Member]) -> None:
        self.name = member.type
        self.options = {**OPTIONS, **{name: dict(spec) for name, spec in member.options.items()}}
        self.record = f"{CLUSTER}_{member.type}"
        self.bears_name = member.bears_name
        self.closes = member.closes
        self.hands_over = member.hands_over
        self._member = member

    def step(self, options: Options) -> DrainStep:
        step = {"options": check_options(self._member, self._own(options))[0], "out": True, "in": True}
        if self._member.one_by_one:
            # Its hosts go out one after the other.
            step["cluster"] = str(options.get("cluster") or options["name"])
        return step

    def places(self, options: Options) -> Iterator[tuple[str, str, str | None]]:
        cluster = str(options.get("cluster") or options["name"])
        for option in (*ITSELF, *ASKED):
            given = options.get(option)
            if option in self._member.options and not (option in ASKED and _is_same_for_all(given)):
                yield cluster, option, given

    def mistakes(self, options: Options) -> Iterator[tuple[str, str]]:
        yield from super().mistakes(options)
        yield from check_options(self._member, self._own(options))[1]

    def acts(self, group: StepGroup, hold: Options, step: StepJson) -> Options:
        named = group["steps"][0] if group["steps"] else None
        args = dict({"type": self.name, "timeout": FOLLOWED}, **hold)
        if group["names"]:
            args["name"] = group["names"][0]
        if named and (self.bears_name or hold.get("state") == "present"):
            args["options"] = named["options"]
        return args

    def looks(self, group: StepGroup) -> list[Options]:
        return [{"type": self.name, "name": step["name"], **step["options"]} for step in group["steps"]]

    def _own(self, options: Options) -> Options:
        return {key: options[key] for key in self._member.options if options.get(key) is not None}
