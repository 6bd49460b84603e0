# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes the last run of the benchmark "providers" into docs/proven.md, between its two marks.

make bench                                      or only  build/venv/bin/python tests/bench/run.py providers
build/venv/bin/python tests/bench/proven.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "build" / "bench" / "result.json"
PAGE = ROOT / "docs" / "proven.md"
BEGIN, END = "<!-- begin of what tests/bench/proven.py writes -->", "<!-- end of what tests/bench/proven.py writes -->"
HEAD = ("event", "requests", "failed", "longest pause", "out of service", "last new one", "without: requests", "failed", "longest pause", "out of service")
# The provider that forwards connections counts these, the others requests.
NAMES = {
    "haproxy": "HAProxy",
    "nginx": "nginx",
    "health_probe": "A health probe",
    "azure_load_balancer": "Azure Load Balancer, administrative state",
    "health_probe, haproxy": "Two in a row: a health probe, then HAProxy",
}


def seconds(value):
    return "-" if value is None else f"{value:.1f} s"


def failed(figures, apart):
    if apart and figures["failed"]:
        return f"{figures['failed_new']} of new, {figures['failed_kept']} of kept connections"
    return str(figures["failed"])


def cells(row):
    """One line of the table."""
    figures = row["figures"]
    ours, control, apart = figures["with"], figures["without"], figures["provider"] == "nginx"
    line = [figures["event"], f"{ours['requests']:,}", failed(ours, apart), seconds(ours["longest_pause"]), seconds(ours["out"]), seconds(ours["last_new"])]
    if control is None:
        return [*line, "nothing happens", "", "", ""]
    return [*line, f"{control['requests']:,}", failed(control, apart), seconds(control["longest_pause"]), seconds(control["out"])]


def table(lines):
    return "\n".join(f"| {' | '.join(line)} |" for line in [HEAD, ["---"] * len(HEAD), *lines])


def render(rows):
    """The part of the page that the rows of a run make."""
    rows = [row for row in rows if row["part"] == "providers"]
    machines = [row["figures"]["machine"] for row in rows if "machine" in (row.get("figures") or {})]
    measured = [row for row in rows if "event" in (row.get("figures") or {})]
    parts = [f"The machine: {', '.join(machines)}. Guests, balancer, load and Ansible share its cores."]
    for provider, name in NAMES.items():
        mine = [row for row in measured if row["figures"]["provider"] == provider]
        for rate in sorted({row["figures"]["rate"] for row in mine}):
            heading = f"### {name}, {rate:,} requests/s"
            parts += [heading, table([cells(row) for row in mine if row["figures"]["rate"] == rate])]
    # What was not measured, or went wrong, is not hidden.
    missed = [f"- {row['what']}: {row['ours']}" for row in rows if row.get("ok") is False]
    if missed:
        parts += ["### What was not as it should be", "\n".join(missed)]
    return "\n\n".join(parts)


def written_into(page, text):
    """The page with this text between its marks."""
    before, begin, rest = page.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} lacks the marks {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def main():
    try:
        rows = json.loads(RESULT.read_text(encoding="utf-8"))["rows"]
    except FileNotFoundError:
        sys.exit("there is no build/bench/result.json: run make bench first")
    if not any(row["part"] == "providers" for row in rows):
        sys.exit("the last runs had no part 'providers': run  build/venv/bin/python tests/bench/run.py providers")
    PAGE.write_text(written_into(PAGE.read_text(encoding="utf-8"), render(rows)), encoding="utf-8")
    print("docs/proven.md")


if __name__ == "__main__":
    main()
