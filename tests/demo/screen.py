# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the demo shows on the screen: the live account and the closing table."""

from __future__ import annotations

import sys
import time

COLOURS = {"azure": "35", "host": "31", "haproxy": "36", "ansible": "32", "load": "2", "demo": "1"}

COLUMNS = ("detected", "out_of_load_balancer", "drained", "approved", "started", "gone", "restored")
HEADINGS = ("detected", "out", "drained", "approved", "started", "gone", "restored")


class Screen:
    """Prints one line after another: the time, who says it, what."""

    def __init__(self, stream=None):
        self.stream = stream or sys.stdout
        self.coloured = self.stream.isatty()
        self.zero = None
        self.lines = []  # what was said: seconds or None, who, what

    def say(self, who, words):
        self.lines.append((None if self.zero is None else time.time() - self.zero, who, words))
        clock = " " * 9 if self.zero is None else "{0:7.1f} s".format(time.time() - self.zero)
        name = "{0:<8}".format(who)
        if self.coloured:
            name = "\033[{0}m{1}\033[0m".format(COLOURS.get(who, "0"), name)
        self.stream.write("{0}  {1} {2}\n".format(clock, name, words))
        self.stream.flush()

    def plain(self, text=""):
        self.stream.write(text + "\n")
        self.stream.flush()


def seconds_after(row, column):
    if row[column] is None:
        return "-"
    return "{0:.1f}".format(row[column] - row["appeared"])


def table(rows, total, failed, control_total, control_failed):
    """The closing table as text. rows are those of result.json, with number and failed."""
    lines = [("event", "hosts", *HEADINGS, "failed")]
    for row in rows:
        kind = "{0} {1}".format(row["number"], row["event_type"]) + (" (cancelled)" if row["outcome"] == "cancelled" else "")
        lines.append((kind, ", ".join(row["resources"]), *(seconds_after(row, column) for column in COLUMNS), str(row["failed"])))
    widths = [max(len(line[position]) for line in lines) for position in range(len(lines[0]))]

    def show(line):
        cells = [cell.ljust(width) if position < 2 else cell.rjust(width) for position, (cell, width) in enumerate(zip(line, widths))]
        return "  ".join(cells).rstrip()

    ruler = "-" * len(show(lines[0]))
    left = widths[0] + widths[1] + 4
    return "\n".join(
        [
            " " * left + "seconds after the event became visible",
            show(lines[0]),
            ruler,
            *(show(line) for line in lines[1:]),
            ruler,
            "with graceful.azure                      {0:>7,} requests  {1:>5,} failed".format(total, failed),
            "control: same impacts, nobody acting     {0:>7,} requests  {1:>5,} failed".format(control_total, control_failed),
        ]
    )
