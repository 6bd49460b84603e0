# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes the last run of the benchmark "providers" into tests/PROVEN.md and its sums into docs/proven.md, and that of "steps" into tests/CLUSTERS.md, each
between two marks.

make bench                                      or only  build/venv/bin/python tests/bench/run.py providers steps
build/venv/bin/python tests/bench/proven.py
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "build" / "bench" / "result.json"
PAGE = ROOT / "tests" / "PROVEN.md"
SUMS_PAGE = ROOT / "docs" / "proven.md"
STEPS_PAGE = ROOT / "tests" / "CLUSTERS.md"
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


def table(lines, head=HEAD):
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *lines])


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


SUMS_HEAD = (
    "balancer",
    "requests during Reboot, Freeze, Redeploy, reimage, Preempt and cancelled events",
    "failed",
    "failed without the collection",
    "last new request after",
    "failed when the event comes without notice",
    "without the collection",
)


def sums(rows):
    """For each provider, what all its events with notice came to, and those without."""
    measured = [row["figures"] for row in rows if row["part"] == "providers" and "event" in (row.get("figures") or {})]
    lines = []
    for provider, name in NAMES.items():
        mine = [figures for figures in measured if figures["provider"] == provider]
        told, untold = ([figures for figures in mine if (figures["event"] == "no notice") is sudden] for sudden in (False, True))
        if not told:
            continue
        ours, controls = [figures["with"] for figures in told], [figures["without"] for figures in told if figures["without"]]
        added = {key: sum(each[key] for each in ours) for key in ("requests", "failed", "failed_new", "failed_kept")}
        last = [each["last_new"] for each in ours if each["last_new"] is not None]
        without = f"{sum(each['failed'] for each in controls)} of {sum(each['requests'] for each in controls):,}"
        sudden = [str(sum(figures[who]["failed"] for figures in untold)) if untold else "" for who in ("with", "without")]
        quick = f"{min(last):.1f} to {max(last):.1f} s" if last else "-"
        lines.append([name, f"{added['requests']:,}", failed(added, provider == "nginx"), without, quick, *sudden])
    return table(lines, SUMS_HEAD)


TIMES = (("drained", "visible to drained"), ("approved", "visible to approved"), ("back", "gone to back"), ("ended", "gone to the end"))
STEPS_HEAD = ("type", *(cell for _figure, words in TIMES for cell in (f"{words}: the duty", "by hand")))
LOST_HEAD = ("type", "what clients count", "lost: the duty", "by hand", "longest pause: the duty", "by hand")


def spread(values):
    """The middle one and the range."""
    return f"{statistics.median(values):.1f} s ({min(values):.1f}-{max(values):.1f})"


def render_steps(rows):
    """The part of the page on members of clusters that the rows of a run make."""
    rows = [row for row in rows if row["part"] == "steps"]
    machines = {row["figures"]["machine"] for row in rows if "machine" in (row.get("figures") or {})}
    figures = {(row["figures"]["type"], row["figures"]["figure"]): row["figures"] for row in rows if "type" in (row.get("figures") or {})}
    kinds = list(dict.fromkeys(kind for kind, _figure in figures))
    days = sorted({row["at"][:10] for row in rows})
    rounds = sorted({len(found["ours"]) for (_kind, figure), found in figures.items() if figure == "drained"})
    said = f"Measured {days[0] if days[0] == days[-1] else f'from {days[0]} to {days[-1]}'} on {', '.join(sorted(machines))}."
    said += f" Each figure is the median of {' or '.join(map(str, rounds))} runs, with the range."
    times = [[f"`{kind}`", *(spread(figures[kind, figure][who]) for figure, _words in TIMES for who in ("ours", "peer"))] for kind in kinds]
    lost = [[f"`{kind}`", *lost_cells(figures[kind, "lost"]["runs"])] for kind in kinds]
    parts = [said, table(times, STEPS_HEAD), table(lost, LOST_HEAD)]
    missing = [f"- {row['what']}: {row['ours']}" for row in rows if row.get("ok") is False or "figures" not in row]
    if missing:
        parts += ["What is missing or was not as it should be:", "\n".join(missing)]
    return "\n\n".join(parts)


def lost_cells(runs):
    """What was counted, what was lost of it, and for how long clients waited at most."""
    cells = [runs["ours"][0]["what"]]
    cells += [f"{sum(run['lost'] for run in runs[who])} of {sum(run['done'] for run in runs[who]):,}" for who in ("ours", "peer")]
    for who in ("ours", "peer"):
        gaps = [run["longest_gap"] for run in runs[who] if run["longest_gap"] is not None]
        cells.append(spread(gaps) if gaps else "")
    return cells


def written_into(page, text):
    """The page with this text between its marks."""
    before, begin, rest = page.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks the marks {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def main():
    try:
        rows = json.loads(RESULT.read_text(encoding="utf-8"))["rows"]
    except FileNotFoundError:
        sys.exit("there is no build/bench/result.json: run make bench first")
    for part, page, text_of in (("providers", PAGE, render), ("providers", SUMS_PAGE, sums), ("steps", STEPS_PAGE, render_steps)):
        if any(row["part"] == part for row in rows):
            page.write_text(written_into(page.read_text(encoding="utf-8"), text_of(rows)), encoding="utf-8")
            print(page.relative_to(ROOT))
        else:
            print(f"the last runs had no part {part!r}: run  build/venv/bin/python tests/bench/run.py {part}", file=sys.stderr)


if __name__ == "__main__":
    main()
