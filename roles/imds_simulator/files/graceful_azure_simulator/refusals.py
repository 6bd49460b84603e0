# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the simulator says no: the exceptions, and values as their messages show them.

Pure. Every other file may import this one.
"""

from __future__ import annotations

import contextlib
import json


class Refused(Exception):
    """A request, file or option is wrong, or cannot be carried out. Over HTTP this is an answer with an error."""

    def __init__(self, message, status=400, headers=None, **more):
        self.mistakes = message if isinstance(message, list) else [message]
        super().__init__(" ".join(self.mistakes))
        self.status, self.headers, self.more = status, headers, more


class Unfit(Exception):
    """A value is not of the kind that is needed. The text says which kind that is."""


def shown(value):
    """A value as an error message shows it: JSON, shortened."""
    try:
        text = json.dumps(value)
    except RecursionError:  # nested as deeply as could just be read
        text = "..."
    return text if len(text) <= 60 else text[:57] + "..."


@contextlib.contextmanager
def collected(mistakes, place=""):
    """Adds the mistakes of a refusal to a list, each with its place, and goes on."""
    try:
        yield
    except Refused as refused:
        mistakes.extend(place + mistake for mistake in refused.mistakes)
