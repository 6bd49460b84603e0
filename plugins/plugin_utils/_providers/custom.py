# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A balancer of the user's own, moved by the user's own task files. Private to the collection; pure.

Nothing can be seen of it. What is known is for which events the task file has run to its end, by the record on the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.plugin_utils._own_files import own_file
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.addresses import Addresses
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import Entry, Machines, Record
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import HELD, Place, Provider, Traffic
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, Json, Options, StepJson

if TYPE_CHECKING:
    from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host

TASK = "load_balancer_custom"
"""Name of the record on the host, put when the task file begins."""


class Custom(Provider):
    name = "custom"
    tasks = (TASK,)

    def traffic(self, settings: BalancerSettings, host: Host, hosts: dict[str, Host], machines: Machines, addresses: Addresses) -> Traffic:
        held_by = frozenset(host.task_holds(TASK))
        if held_by:
            place = Place("", condition=HELD, held_by=held_by)
        else:
            place = Place("", in_rotation=True, must_go_out=True, busy=("not out of its balancer yet",))
        return Traffic((place,), serves=place.in_rotation)

    def out_since(self, record: Record, entry: Entry, is_new: bool) -> tuple[str | None, ...] | None:
        # The host is out at the end of the task file, and a run that sees that end for itself knows better.
        if record.name != TASK or not record.done or not is_new:
            return None
        return entry.since, record.done_since

    def acts(self, settings: BalancerSettings, direction: str, hold: Options, step: StepJson) -> Iterator[tuple[None, str, Options]]:
        # What was taken out once stays out, also for an event that joins.
        yield None, "task_hold", dict(hold, name=[TASK])

    def file(self, settings: BalancerSettings, direction: str) -> Json:
        return own_file(TASK, settings["out" if direction == "out" else "back"])
