# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role approve_event has come to. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.graceful.azure.plugins.module_utils._events import EVENT_TYPES, clip, sort_for_approval, types_meant, why_not_approve
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold
from ansible_collections.graceful.azure.plugins.plugin_utils._steps import azure_resource_manager
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import (
    NOTHING,
    UNREACHABLE,
    RoleResult,
    is_changed,
    is_failed,
    is_skipped,
    is_unreachable,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Options, Result

OUTSIDE = {"azure_resource_manager": azure_resource_manager.AzureApproval()}
"""Per value of C(graceful_azure_approve_through): how an approval is sent from outside, if no VM that the event names can send it. Each has

C(title)     what people call it
C(mistakes)  sentences: what is wrong with C(graceful_azure_approve_resource)
C(settings)  what C(act) needs of that and of C(graceful_azure_approve_access), without secrets
C(act)       the machine, the module and its options for an approval of these events. The module also takes C(ready_until) and C(timeout), and returns
             C(approved)
"""


def outside_of(through: str, resource: str | None, access: Options) -> Json | None:
    """How approvals of a host are sent from outside, as plain data; None if only its metadata service may be asked. The arguments are the values of
    C(graceful_azure_approve_*)."""
    if through not in OUTSIDE:
        return None
    return {"through": through, "title": OUTSIDE[through].title, **OUTSIDE[through].settings(resource, access)}


def act_outside(settings: Json, event_ids: Sequence[str], **more: Any) -> tuple[str, str, Options]:
    """The machine, the module and its options. C(settings): see C(outside_of)."""
    return OUTSIDE[settings["through"]].act(settings, event_ids, **more)


def is_still_so(expected: Mapping[str, Json], read: Result) -> bool:
    """Whether events that are to be approved from outside are as they were when that was decided.

    C(expected): per event id C(event_type) and C(ready) (the names of the VMs that are ready). C(read): the result of M(graceful.azure.scheduled_events_info)
    on another VM, which read them again a moment ago.
    """
    if is_unreachable(read) or is_failed(read) or is_skipped(read):
        return False
    standing = {fold(event["event_id"]): event for event in read.get("events") or ()}
    if not set(map(fold, expected)) <= set(standing):
        return False
    return not any(any(why_not_approve(standing[fold(event_id)], True, None, known["ready"], known["event_type"])) for event_id, known in expected.items())


def of_unknown_type(events: Iterable[Json]) -> str | None:
    """Why not all of these may be approved without being named: nobody knows what an event of an unknown type does; None if all may."""
    for event in events:
        if event["event_status"] == "Scheduled" and event["event_type"] not in EVENT_TYPES:
            what = f"event {clip(event['event_id'])} has the type {clip(event['event_type'])}, which is not known"
            return f"approve_event_event_ids: {what}; only who names it here approves it"
    return None


def failure_outside(done: Iterable[Result]) -> str | None:
    """Why an approval from outside failed; None if it did not. C(done): the results of its acts."""
    seen = next((result for result in done if result["part"] == "seen"), None)
    if seen is None or not (is_failed(seen) or is_unreachable(seen)):
        return None
    return f"nothing was approved, since the event could not be read again: {seen.get('msg') or UNREACHABLE}"


def judge(event_ids: Sequence[str], sent: Result = NOTHING, read: Result = NOTHING) -> RoleResult:
    """The C(approve_event_result), as the role's argument specs say.

    C(event_ids): the events that were to be approved.
    C(sent): what the approval came to.
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


def progress_outside(
    seen: Result,
    sent: Result,
    event_ids: Sequence[str],
    ready_resources: Sequence[str],
    resource_name: str,
    witness: str,
    event_details: Mapping[str, Json] | None = None,
) -> Json:
    """What the tasks of the role go by if the host cannot be asked.

    C(ids): the events to approve. C(absent): those that this read does not show, which must be proved. C(refused): why none may be approved, or empty.
    C(result): the C(approve_event_result).

    C(seen): the result of M(graceful.azure.scheduled_events_info) on the C(witness). C(sent): that of M(graceful.azure.azure_event_acknowledge).
    C(event_ids), C(ready_resources), C(event_details): what is given. C(resource_name): the host's name in Azure.
    """
    if is_unreachable(seen) or is_failed(seen):
        why = f"approve_event_witness: {witness} cannot be asked: {seen.get('msg') or UNREACHABLE}. Nothing was approved."
        return {"ids": [], "absent": [], "refused": why, "result": {}}
    shown = seen.get("events") or ()
    wanted = list(event_ids) or [event["event_id"] for event in shown]
    ids, not_approved, found = sort_for_approval(
        shown,
        wanted,
        lambda event: resource_name.lower() in map(str.lower, event["resources"]),
        resource_name,
        ready_resources or [resource_name],
        types_meant(event_details),
    )
    result = judge(wanted, {**sent, "not_approved": not_approved})
    absent = [entry["event_id"] for entry in not_approved if entry["reason"] == "absent"]
    refused = f"{'; '.join(why for _option, why, _ours in found)}. Nothing was approved." if found else ""
    return {"ids": ids, "absent": absent, "refused": refused, "result": result}
