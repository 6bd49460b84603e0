# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Collects what the chaos tests counted, wherever they ran, and writes it to build/chaos/result.json."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.support.checkout import BUILD

COUNTED = []


@pytest.hookimpl
def pytest_runtest_logreport(report):
    if report.when == "call":
        COUNTED.extend(value for name, value in report.user_properties if name == "chaos")


def pytest_terminal_summary(terminalreporter):
    # A process that only runs tests for another has no table to show.
    if not COUNTED:
        return
    rows = Counter((told["scenario"], told["kind"]) for told in COUNTED)
    kills = Counter((told["scenario"], told["kind"]) for told in COUNTED if told["killed"])
    seconds = Counter()
    wrong = Counter()
    for told in COUNTED:
        wrong[told["scenario"], told["kind"]] += bool(told["violations"])
        seconds[told["scenario"], told["kind"]] += told["seconds"]
    table = [
        {
            "scenario": key[0],
            "kind": key[1],
            "runs": runs,
            "killed": kills[key],
            "violated": wrong[key],
            "seconds": round(seconds[key]),
        }
        for key, runs in sorted(rows.items())
    ]
    folder = BUILD / "chaos"
    folder.mkdir(parents=True, exist_ok=True)
    total = {"runs": sum(rows.values()), "killed": sum(kills.values()), "violated": sum(wrong.values())}
    result = {"total": total, "table": table, "violations": [told for told in COUNTED if told["violations"]]}
    (folder / "result.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    terminalreporter.section("chaos")
    terminalreporter.write_line(f"{'scenario':16}{'kind':22}{'runs':>6}{'killed':>8}{'violated':>10}{'seconds':>9}")
    for row in table:
        terminalreporter.write_line(f"{row['scenario']:16}{row['kind']:22}{row['runs']:6}{row['killed']:8}{row['violated']:10}{row['seconds']:9}")
    terminalreporter.write_line(f"{'all':38}{total['runs']:6}{total['killed']:8}{total['violated']:10}")
