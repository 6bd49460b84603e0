# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A balancer of the user's own, moved by the user's own task files. Private to the collection; pure.

Nothing can be seen of it. What is known is for which events the task file has run to its end, by the record on the host.
"""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import HELD, Place, Provider, Traffic

TASK = "load_balancer_custom"
"""Name of the record on the host, put when the task file begins."""


class Custom(Provider):
    name = "custom"
    tasks = (TASK,)

    def traffic(self, settings, host, hosts, machines, addresses):
        held_by = frozenset(host.task_holds(TASK))
        if held_by:
            place = Place("", condition=HELD, held_by=held_by)
        else:
            place = Place("", in_rotation=True, must_go_out=True, busy=("not out of its balancer yet",))
        return Traffic((place,), serves=place.in_rotation)

    def out_since(self, record, entry, is_new):
        # The host is out at the end of the task file, and a run that sees that end for itself knows better.
        if record.name != TASK or not record.done or not is_new:
            return None
        return entry.since, record.done_since

    def acts(self, settings, direction, hold, step):
        return None
