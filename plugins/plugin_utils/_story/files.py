# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a report, JSON for programs and HTML for people, and the file of the metrics. Touches these files alone."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Iterable, Sequence

from ansible_collections.graceful.azure.plugins.plugin_utils._story import metrics
from ansible_collections.graceful.azure.plugins.plugin_utils._story.history import OfType
from ansible_collections.graceful.azure.plugins.plugin_utils._story.page import history_page, page
from ansible_collections.graceful.azure.plugins.plugin_utils._story.story import Report, Story, as_report, continued
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json

METRICS_ENDING = ".prom"
"""The textfile collector reads no other files."""
OURS = re.compile(r"report-[0-9]{8}T[0-9]{6}\.[0-9]{3}Z\.json")
MOST_REPORTS, MOST_BYTES = 20, 8_000_000
"""How many reports, and how much of them, a run that begins reads at most."""


def name_of(story: Story) -> str:
    """The name of the files without their ending. The milliseconds tell two runs apart that begin in the same second."""
    started = story["run"]["started"]
    return f"report-{time.strftime('%Y%m%dT%H%M%S', time.gmtime(started))}.{int(started * 1000) % 1000:03d}Z"


def unfinished(folder: str, started: float, names: Iterable[str]) -> Json | None:
    """What a run of these hosts that began then takes over from a former one, see C(continued): from the newest report of any of its hosts, if that run did
    not finish. What cannot be read, or is no report, is ignored."""
    left, bytes_left = set(names), MOST_BYTES
    own = name_of({"run": {"started": started}})
    try:
        found = sorted((name for name in os.listdir(folder) if OURS.fullmatch(name) and name[:-5] < own), reverse=True)
    except OSError:
        return None
    for name in found[:MOST_REPORTS]:
        try:
            text = _read_file(os.path.join(folder, name), bytes_left)
            bytes_left -= len(text)
            report = json.loads(text)
            hosts = {host["name"] for host in report["hosts"]}
            taken_over = continued(f"{name[:-5]}.html", report, left)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
            continue
        if taken_over:
            return taken_over
        left -= hosts
        if not left:
            break
    return None


def _read_file(path: str, most: int) -> bytes:
    """The content of a file. Raises C(ValueError) for anything else, which could keep the reader waiting, and for a file of more than C(most) bytes."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as stream:
        about = os.fstat(stream.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_size > most:
            raise ValueError(f"{path} is no file, or too large")
        return stream.read(most)


def write(folder: str, story: Story) -> tuple[str, bool]:
    """Write the report of a story; returns the path of the page, and whether anything is new. Each file is replaced as a whole, so a reader never sees
    half of it."""
    report = as_report(story)
    os.makedirs(folder, exist_ok=True)
    base = os.path.join(folder, name_of(story))
    is_new = _replace(base + ".json", json.dumps(report, indent=1, default=str) + "\n")
    return base + ".html", _replace(base + ".html", page(report)) or is_new


def group_of(path: str) -> str:
    """What tells the metrics in this file from those in another one beside it: its name without the ending."""
    return os.path.basename(path)[: -len(METRICS_ENDING)]


def read_metrics(path: str) -> dict[str, float]:
    """What the file of the metrics says, or nothing if it is not there."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return metrics.read(stream.read())
    except FileNotFoundError:
        return {}


def write_metrics(path: str, text: str) -> None:
    _replace(path, text, mode=0o644)


def write_history(path: str, found: dict[str, OfType], reports: Sequence[Report]) -> bool:
    """Write the page about many reports; returns whether it is another one than before."""
    return _replace(path, history_page(found, reports))


def _replace(path: str, text: str, mode: int | None = None) -> bool:
    """Returns whether the file had another content before. C(mode): who may read it, whatever the umask says."""
    content = text.encode("utf-8", "backslashreplace")
    try:
        with open(path, "rb") as stream:
            if stream.read() == content:
                return False
    except FileNotFoundError:
        pass
    # Two runs may write the same file at the same time.
    new = f"{path}.{os.getpid()}.new"
    with open(new, "wb") as stream:
        stream.write(content)
    if mode is not None:
        os.chmod(new, mode)
    os.replace(new, path)
    return True
