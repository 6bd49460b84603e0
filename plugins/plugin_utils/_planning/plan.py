# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of a whole pass, from top to bottom. Internal: its input and its result may change with every release. Pure: no I/O, no Ansible, no state.

The memory of a pass is part of its document and of its outcome, so any pass can be planned again from a file.
"""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.plugin_utils._planning.acts import acts_of, file_of
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.candidates import decide
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import read_document
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.ending import ending, is_doubtful, of_targets, result
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.judgement import has_ended
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.memory import write_memory
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.observation import observe
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.preview import preview
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.remember import remember
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.status import decision, statuses_of, warnings, why_unread
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.turns import known_events, next_turns
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json


def plan(document: Json) -> Json:
    """Decide one step for each host. C(document): see C(document.py)."""
    observed = observe(read_document(document))
    hosts = observed.hosts.values()
    decided = decide(observed)
    statuses = statuses_of(decided)
    end = ending(decided, statuses)
    decisions = {host.name: decision(decided, statuses, host) for host in hosts}
    expected = {host.name: [event.event_id for event in observed.events_of(host) if not has_ended(event, observed)] for host in hosts}
    steps = {} if observed.run.check else {name: line["step"] for name, line in decisions.items() if line["step"]}
    acts = {name: acts_of(step, observed.hosts[name], observed.run) for name, step in steps.items()}
    last = {name: (observed.document.results.get(name) or {}).get(step["role"]) or {} for name, step in steps.items()}
    files = {name: file_of(step, acts[name], last[name].get("file")) for name, step in steps.items() if observed.hosts[name].did(step)}
    doubtful = {host.name for host in hosts if is_doubtful(host, observed)}
    unread = {host.name: why_unread(host) for host in hosts if not host.was_read}
    return {
        "hosts": decisions,
        "turns": next_turns(decided, decisions, acts, expected, doubtful, end.end),
        "known": known_events(observed),
        "files": {name: file for name, file in files.items() if file},
        "unread": unread,
        "events": [result(decided, statuses, event) for event in of_targets(observed)],
        "finished": end.finished,
        "once_more": end.once_more,
        "failed_run": bool(end.messages),
        "warnings": list(warnings(decided)),
        "preview": preview(decided, statuses, decisions, unread) if observed.run.check else [],
        "messages": [message.text for message in end.messages],
        "faults": [{"text": message.short or message.text, "hosts": list(message.hosts), "in_table": message.in_table} for message in end.messages],
        "of_run": [message.text for message in end.messages if not message.is_theirs],
        "told": sorted({name for message in end.messages for name in message.hosts}),
        "memory": write_memory(remember(decided, statuses, decisions, end)),
    }
