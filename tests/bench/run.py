# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""make bench: what the collection costs and how quick it is, each figure with its peer in the same run.

Writes build/bench/result.json and a table. Parts can be named on the command line; without names all run, some
eighty minutes, but for three that last long: "many" watches 500 hosts, "kinds" boots guests for an hour, "fast_path" for twenty minutes.
"providers" boots guests and "steps" starts clusters, for which they need root; each takes half an hour.
What an earlier run wrote of other parts stays in the file.
The peer is playbooks/handwritten.yml with community.general from the Python package "ansible".
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench import cases, figures, providers, responder, scale, steps, watcher  # noqa: E402
from tests.bench.stage import Stage, StageError  # noqa: E402
from tests.support.others import fetch  # noqa: E402
from tests.support.patience import REFERENCE_SECONDS, loop_seconds  # noqa: E402
from tests.support.simulator import SimulatorError  # noqa: E402
from tests.support.world import WorldError  # noqa: E402

PEER = "community.general"


def show(rows):
    """A table of what, ours, the peer's, below what nobody comes, and the verdict."""
    lines = [("", "graceful.azure", "peer", "floor", ""), *((row["what"], row["ours"], row["peer"], row.get("floor", ""), verdict(row)) for row in rows)]
    widths = [max(len(str(line[position])) for line in lines) for position in range(5)]
    for line in lines:
        print("  ".join(str(cell).ljust(width) for cell, width in zip(line, widths)).rstrip())


def verdict(row):
    return {True: "ok", False: "MISSED", None: ""}[row.get("ok")]


def machine(loops):
    """How fast the machine was, in words. C(loops): seconds that a fixed loop took before each part."""
    words = "{0} cores; a fixed loop took {1:.1f} to {2:.1f} ms of one, and takes {3:.1f} ms where the limits were written"
    return words.format(os.cpu_count(), 1000 * min(loops), 1000 * max(loops), 1000 * REFERENCE_SECONDS)


def interrupted(number, frame):
    raise KeyboardInterrupt


PARTS = {
    "document": figures.document,
    "info": figures.info_against_uri,
    "wait": figures.waiting_host,
    "idle": figures.idle_pass,
    "reaction": figures.reaction,
    "reboot": figures.reboot_against_handwritten,
    "story": figures.story,
    "scale": scale.scale,
    "many": scale.many,
    "modelled": scale.modelled,
    "watcher": watcher.watcher,
    "kinds": watcher.kinds,
    "fast_path": watcher.fast_path,
    **cases.CASES,
    "responder": responder.responder,
    "providers": providers.providers,
    "steps": steps.steps,
}


LONG = ("many", "kinds", "fast_path")


def merged(path, rows):
    """These rows, and those of other parts from earlier runs."""
    try:
        former = json.loads(path.read_text(encoding="utf-8"))["rows"]
    except FileNotFoundError:
        former = []
    new = {row["part"] for row in rows}
    return sorted([row for row in former if row["part"] in PARTS and row["part"] not in new] + rows, key=lambda row: list(PARTS).index(row["part"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("part", nargs="*", help="one or more of " + ", ".join(PARTS))
    chosen = parser.parse_args().part or [name for name in PARTS if name not in LONG]
    unknown = [name for name in chosen if name not in PARTS]
    if unknown:
        parser.error("unknown part {0}; there are {1}".format(", ".join(unknown), ", ".join(PARTS)))
    signal.signal(signal.SIGTERM, interrupted)
    build = ROOT / "build" / "bench"
    stage_folder = build / "stage"
    if stage_folder.exists():
        shutil.rmtree(stage_folder)
    rows, loops = [], []
    try:
        stage_folder.mkdir(parents=True)
        print("bench: the peer's modules (50 MB, unless they are there)", flush=True)
        version = fetch("ansible", PEER, build / "collections")
        with Stage(stage_folder) as stage:
            for name in chosen:
                begun = time.monotonic()
                loops.append(loop_seconds())
                print("bench: {0} (a fixed loop: {1:.1f} ms)".format(name, 1000 * loops[-1]), flush=True)
                try:
                    new = PARTS[name](stage)
                except StageError as error:
                    new = [{"what": name, "ours": str(error), "peer": "", "ok": False}]
                for row in new:
                    print("   {what}: {ours}  (peer: {peer})".format(**row), flush=True)
                rows += [dict(row, part=name, at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), loop_seconds=loops[-1]) for row in new]
                print("   took {0:.0f} s".format(time.monotonic() - begun), flush=True)
    except (WorldError, SimulatorError) as error:
        print("bench: {0}".format(error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nbench: interrupted; everything it started was stopped", file=sys.stderr)
        return 130
    print("\n" + machine(loops))
    show(rows)
    result = build / "result.json"
    told = {"peer": {PEER: version}, "cores": os.cpu_count(), "rows": merged(result, rows)}
    result.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    print("\nbuild/bench/result.json")
    return 1 if any(row.get("ok") is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
