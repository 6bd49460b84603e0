# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fields that a user may give a fault, and the check of each. Pure."""

from __future__ import annotations

import re

from .checks import SECONDS_LIMIT, a_count, a_text, a_whole_number, an_int, checked, is_int, is_number, seconds, true
from .http_messages import HEADER_TEXT, TOKEN
from .refusals import Refused, Unfit, collected
from .vms import a_vm_of


def a_method(value):
    if value not in (None, "GET", "POST"):
        raise Unfit('"GET", "POST" or null')
    return value


def times_or_none(value):
    if value is not None and not (is_int(value) and value > 0):
        raise Unfit("a positive integer or null")
    return value


def a_probability(value):
    if not is_number(value) or not 0 < value <= 1:
        raise Unfit("a number over 0, up to 1")
    return value


def an_answer_status(value):
    if not is_int(value) or not 200 <= value <= 599:
        raise Unfit("an HTTP status from 200 to 599")
    return value


def a_body(value):
    a_text(value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unfit("a string that UTF-8 can carry") from None
    return value


def a_line(value):
    if not isinstance(value, str) or not re.fullmatch(HEADER_TEXT, value):
        raise Unfit("a string of one line that a header can carry")
    return value


def answer_headers(value):
    # Other characters would let one header add further headers, or a second answer.
    if not isinstance(value, dict) or not all(
        isinstance(text, str) and re.fullmatch(TOKEN, name) and re.fullmatch(HEADER_TEXT, text) for name, text in value.items()
    ):
        raise Unfit("an object of header names and their values, each a string of one line")
    return value


def seconds_either_way(value):
    if not is_number(value) or not -SECONDS_LIMIT <= value <= SECONDS_LIMIT:
        raise Unfit(f"a number of seconds from -{SECONDS_LIMIT} to {SECONDS_LIMIT}")
    return value


def a_crowd(value):
    if not is_int(value) or not 0 <= value <= 100000:
        raise Unfit("an integer from 0 to 100000")
    return value


# What a fault may do: answer in the service's place, alter the document, or disturb the sending of the answer.
ANSWERS = {"Status": an_answer_status, "Drop": true, "Portal": true, "Redirect": a_line, "Empty": true}
DOCUMENTS = {"Stale": true, "Incarnation": an_int, "IsoDates": true, "StringNumbers": true, "UnknownType": a_text, "Huge": a_crowd}
SENDING = {"DelayBody": seconds, "Cut": a_whole_number, "Slow": a_count, "DropAfter": true}
FAULT_CHECKS = {
    **ANSWERS,
    "Body": a_body,
    "Headers": answer_headers,
    "Delay": seconds,
    "DelayAnswer": seconds,
    "DropAnswer": true,
    "ContentType": a_line,
    "ClockOff": seconds_either_way,
    **DOCUMENTS,
    **SENDING,
}
# Which requests a fault hits. The names that Vm accepts depend on the VMs.
FAULT_AROUND = {
    "Vm": a_vm_of(None),
    "Method": a_method,
    "Times": times_or_none,
    "Skip": a_whole_number,
    "Probability": a_probability,
    "Seed": an_int,
    "After": seconds,
    "For": seconds,
}
DOES = [name for name in FAULT_CHECKS if name not in ("Body", "Headers")]


def a_fault(value):
    mistakes, fault = [], {}
    with collected(mistakes):
        fault = checked(value, "Fault", FAULT_CHECKS)
    if isinstance(value, dict):
        if not value.keys() & set(DOES):
            mistakes.append(f"Fault needs Status, Delay or Drop, or another of {', '.join(DOES)}.")
        answers = [name for name in ANSWERS if name in value]
        if len(answers) > 1:
            mistakes.append(f"Fault has both {answers[0]} and {answers[1]}: one of them is what happens.")
        if value.keys() & {"Body", "Headers"} and "Status" not in value:
            mistakes.append("Fault has Body or Headers without Status.")
    if mistakes:
        raise Refused(mistakes)
    return fault


def checked_fault(value, names):
    """A fault as the control address or a scenario gives it. If ``names`` is None, it may name any VM."""
    fault = checked(value, "A fault", {**FAULT_AROUND, "Vm": a_vm_of(names), "Fault": a_fault}, ["Fault"])
    return {"Vm": None, "Method": None, "Times": None, **fault}
