# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host to which nothing brings traffic: it is only drained, and taken to serve, because nobody else can tell. Pure."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.tasks import OUT_NAMES, OUT_RECORD
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import CLUSTER, DRAINED, TASK
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.traffic import TrafficDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import Record, RecordedEvent


class Nothing(TrafficDuty):
    name = "none"

    def out_since(self, record: Record, entry: RecordedEvent, is_new: bool) -> tuple[str | None, ...] | None:
        is_task = record.kind == TASK and (record.name in (OUT_NAMES[0], DRAINED) or record.name.startswith(OUT_RECORD))
        return (entry.since,) if is_task or record.kind == CLUSTER else None
