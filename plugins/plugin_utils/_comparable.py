# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether two sentences say the same, although time has passed or fewer clients are left. Pure.

What keeps a host busy is told by machines, by the drivers of all types and by the programs that they ask, and it arrives as sentences with numbers in them.
Kinds of reasons have names. These sentences have none: a name beside each would have to come through every answer and every journal. So here, and nowhere
else, sentences are compared with one another.
"""

from __future__ import annotations

import re

SECONDS = re.compile(r"\b\d+(?:\.\d+)? s\b")
"""Seconds that pass."""
MERE_NUMBERS = (
    (SECONDS, ""),
    # When something was tried or noticed.
    (re.compile(r"\b(?:\d{4}([-/])\d\d\1\d\d[T ]|[IWEF]\d{4} )?\d\d:\d\d:\d\d(?:[.,]\d+)?Z?\b"), ""),
    # The process that says so, and its thread, as nginx and the tools of Kubernetes tell them; an object of Python.
    (re.compile(r"\b\d+#\d+:|(?<= )\d+ (?=\w+\.go:)|\b0x[0-9a-f]+\b"), ""),
    (re.compile(r"\b(try|attempt) \d+"), r"\1"),
    # Who came to a host that goes out, and how many of them. Between two looks, often nobody comes.
    (re.compile(r"; \d+ new connections? came to port \d+(?:, the last)? from [^\s;,)]+"), ""),
    (re.compile(r"\b\d+ new connections? (came to port \d+)(?:, the last)? from [^\s;,)]+"), r"new connection \1"),
    # Where Ansible keeps the files of one task.
    (re.compile(r"\bansible-tmp-[\d.-]+"), ""),
    # How many of something, in one and in many. How many of how many servers are in service is no such count, nor is a port or a part of a name.
    (re.compile(r"(?<![\w./:-])\d+(?:\.\d+)? (?!(?:of|must|in|on|at|to|from|and|or|is|cannot)\b)([a-z]+?)s?\b"), r"\1"),
)
"""What counts as a mere number, and what stays of it."""


def comparable(sentence: str) -> str:
    """The sentence without its mere numbers."""
    for pattern, stays in MERE_NUMBERS:
        sentence = pattern.sub(stays, sentence)
    return sentence
