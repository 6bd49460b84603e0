# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of single values and of whole objects: each returns the value or says what it should be. Pure.

The checks that only events, faults or scenarios need are in the files of these.
"""

from __future__ import annotations

from .refusals import Refused, Unfit, shown

# A longer time is a typing error, and more than clocks and calendars can count.
SECONDS_LIMIT = 10**9


def checked(value, what, checks, required=()):
    """The fields of the object ``value``, each checked. The refusal names every mistake."""
    if not isinstance(value, dict):
        raise Refused(f"{what} must be an object, not {shown(value)}.")
    mistakes = [f"{what} needs the field {name}." for name in required if name not in value]
    result = {}
    for name, item in value.items():
        if name not in checks:
            mistakes.append(f"{what} has an unknown field {shown(name)}; known are {', '.join(checks)}.")
            continue
        try:
            result[name] = checks[name](item)
        except Unfit as error:
            mistakes.append(f"{name} must be {error}, not {shown(item)}.")
        except Refused as refused:  # the field is an object itself
            mistakes.extend(refused.mistakes)
    if mistakes:
        raise Refused(mistakes)
    return result


def a_text(value):
    if not isinstance(value, str):
        raise Unfit("a string")
    return value


def an_id(value):
    if not isinstance(value, str) or not value:
        raise Unfit("a string that is not empty")
    return value


def texts(value):
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Unfit("a list of strings")
    return value


def a_list(value):
    if not isinstance(value, list):
        raise Unfit("a list")
    return value


def true(value):
    if value is not True:
        raise Unfit("true")
    return value


def is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value):
    return is_int(value) or isinstance(value, float)


def an_int(value):
    if not is_int(value):
        raise Unfit("an integer")
    return value


def a_count(value):
    if not is_int(value) or not 0 < value <= SECONDS_LIMIT:
        raise Unfit("a positive integer")
    return value


def a_whole_number(value):
    if not is_int(value) or not 0 <= value <= SECONDS_LIMIT:
        raise Unfit(f"an integer from 0 to {SECONDS_LIMIT}")
    return value


def seconds(value):
    if not is_number(value) or not 0 <= value <= SECONDS_LIMIT:
        raise Unfit(f"a number of seconds from 0 to {SECONDS_LIMIT}")
    return value


def some_seconds(value):
    if not is_number(value) or not 0 < value <= SECONDS_LIMIT:
        raise Unfit(f"a number of seconds over 0, up to {SECONDS_LIMIT}")
    return value


def seconds_or_none(value):
    return None if value is None else seconds(value)


def list_of_seconds(value):
    try:
        return [seconds(item) for item in a_list(value)]
    except Unfit:
        raise Unfit(f"a list of numbers of seconds from 0 to {SECONDS_LIMIT}") from None


def a_scale(value):
    if not is_number(value) or not 0 <= value <= 10**6:
        raise Unfit("a number from 0 (time stands still) to 1000000")
    return value
