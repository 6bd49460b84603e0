# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a report: JSON for programs and HTML for people. Private to the collection. Touches the folder of the reports."""

from __future__ import annotations

import json
import os
import time

from ansible_collections.graceful.azure.plugins.plugin_utils._story.page import page
from ansible_collections.graceful.azure.plugins.plugin_utils._story.story import as_report


def name_of(story):
    """The name of the files without their ending. The milliseconds tell two runs apart that begin in the same second."""
    started = story["run"]["started"]
    return f"report-{time.strftime('%Y%m%dT%H%M%S', time.gmtime(started))}.{int(started * 1000) % 1000:03d}Z"


def write(folder, story):
    """Write the report of a story; returns the path of the page. Each file is replaced as a whole, so a reader never sees half of it."""
    report = as_report(story)
    os.makedirs(folder, exist_ok=True)
    base = os.path.join(folder, name_of(story))
    _replace(base + ".json", json.dumps(report, indent=1, default=str) + "\n")
    _replace(base + ".html", page(report))
    return base + ".html"


def _replace(path, text):
    unfinished = f"{path}.new"
    with open(unfinished, "w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(text)
    os.replace(unfinished, path)
