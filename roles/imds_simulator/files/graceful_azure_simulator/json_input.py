# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads JSON strictly, as others send it. Pure."""

from __future__ import annotations

import collections
import json

from .refusals import Refused, shown


def parse_json(body):
    """The value of a text in JSON, given as bytes."""
    try:
        return json.loads(body.decode("utf-8"), parse_int=parse_int, parse_constant=refuse_constant, object_pairs_hook=without_doubles)
    except (ValueError, RecursionError) as error:
        raise Refused(f"This is no JSON: {error}.") from None


def parse_int(digits):
    # Python takes very long to convert a number of a million digits.
    if len(digits) > 100:
        raise ValueError("a number is too long")
    return int(digits)


def refuse_constant(name):
    raise ValueError(f"{name} is no number of JSON")


def without_doubles(pairs):
    """A JSON object as a dictionary. Python would silently drop the first of two fields with the same name."""
    result = dict(pairs)
    if len(result) < len(pairs):
        doubled = next(name for name, count in collections.Counter(name for name, _value in pairs).items() if count > 1)
        raise ValueError(f"the field {shown(doubled)} is given twice")
    return result
