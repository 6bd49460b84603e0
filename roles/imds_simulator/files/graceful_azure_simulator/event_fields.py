# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fields that a user may give an event, the check of each, and the states of an event. Pure."""

from __future__ import annotations

import os
import shlex

from .checks import SECONDS_LIMIT, a_text, an_id, checked, is_int, list_of_seconds, seconds_or_none, texts
from .refusals import Unfit

SCHEDULED, STARTED, COMPLETED, CANCELLED = "Scheduled", "Started", "Completed", "Cancelled"
# The moves by hand, each with the state before and the state after.
MOVES = {"start": (SCHEDULED, STARTED), "complete": (STARTED, COMPLETED), "cancel": (SCHEDULED, CANCELLED)}


def a_status(value):
    if value not in (SCHEDULED, STARTED):
        raise Unfit(f"{SCHEDULED} or {STARTED}")
    return value


def a_duration(value):
    if not is_int(value) or not -1 <= value <= SECONDS_LIMIT:
        raise Unfit(f"an integer from -1 (unknown) to {SECONDS_LIMIT}")
    return value


def a_command_line(value):
    a_text(value)
    try:
        parts = shlex.split(value)
    except ValueError as error:
        raise Unfit(f"a command that can be split like a shell line ({error})") from None
    if not parts or "\0" in value:
        raise Unfit("a command that is not empty")
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        raise Unfit("a command that this system's encoding can carry") from None
    return value


EVENT_CHECKS = {
    "EventId": an_id,
    "EventType": a_text,
    "ResourceType": a_text,
    "Resources": texts,
    "EventStatus": a_status,
    "NotBefore": a_text,
    "Description": a_text,
    "EventSource": a_text,
    "DurationInSeconds": a_duration,
    "NoticeSeconds": seconds_or_none,
    "ApprovalSeconds": seconds_or_none,
    "CancelSeconds": seconds_or_none,
    "ImpactSeconds": seconds_or_none,
    "SettleSeconds": seconds_or_none,
    "Impact": a_text,
    "FurtherImpacts": list_of_seconds,
    "OnStart": a_command_line,
    "OnGone": a_command_line,
}
EVENT_REQUIRED = ("EventType", "Resources")


def checked_event(value):
    return checked(value, "An event", EVENT_CHECKS, EVENT_REQUIRED)
