# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role approve_event has come to. Private to the collection; pure."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.plugin_utils._steps.events import details_of
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import NOTHING, UNREACHABLE, is_changed, is_unreachable


def judge(event_ids, sent=NOTHING, read=NOTHING):
    """The C(approve_event_result): C(done), C(changed), C(reason), C(failed_hosts), C(approved), C(not_approved).

    C(event_ids): the events that were to be approved.
    C(sent): the result of M(graceful.azure.approval_hold).
    C(read): the result of M(graceful.azure.scheduled_events_info), if the events or the name of the host were not given.
    """
    approved, not_approved = list(sent.get("approved") or ()), list(sent.get("not_approved") or ())
    reached = not is_unreachable(read) and not is_unreachable(sent)
    if not reached:
        said = [UNREACHABLE]
    elif not event_ids:
        said = ["no scheduled event names this host"]
    else:
        said = [f"approved {', '.join(approved)}"] if approved else []
        said += [f"nothing to approve for {', '.join(entry['event_id'] for entry in not_approved)}"] if not_approved else []
    return {
        "done": reached,
        "changed": is_changed(sent),
        "reason": "; ".join(said),
        "failed_hosts": [],
        "approved": approved,
        "not_approved": not_approved,
    }


def progress(read, sent, event_ids, event_details, ready_resources):
    """What the tasks of the role go by: C(ids), C(details) and C(ready) (who is ready) of the approval, and C(result) (the C(approve_event_result)).

    C(event_ids), C(event_details), C(ready_resources): what is given; the rest is as the service says.
    """
    # None if the host cannot be reached: what was not read is not approved.
    events = read.get("events") or []
    ids = list(event_ids) or [event["event_id"] for event in events]
    # This host alone, unless it is said who else. Where the service does not tell its name nobody is.
    ready = list(ready_resources) or [name for name in [read.get("resource_name")] if name]
    return {"ids": ids, "details": event_details or details_of(events), "ready": ready, "result": judge(ids, sent, read)}
