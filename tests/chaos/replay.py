# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plays one case again and says what the observer finds: python -m tests.chaos.replay '{"scenario": "reboot", ...}'.

With a file's name instead it judges the record in that file once more. Everything is kept in build/chaos/replay. A case of a member of a cluster has no record:
it says what was lost or left behind.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from tests.chaos import clusters
from tests.chaos.killer import FOLDER, Case
from tests.chaos.observer import judge
from tests.chaos.stage import play


def main():
    told = sys.argv[1]
    if told.lstrip().startswith("{"):
        os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], "/usr/sbin", "/sbin"])
        folder = FOLDER / "replay"
        shutil.rmtree(folder, ignore_errors=True)
        case = Case(**json.loads(told))
        if clusters.kind_of(case.scenario):
            print("the run was killed" if clusters.replay(case, folder) else "the run was over before the kill", "nothing is lost or left behind", sep="\n")
            return 0
        record = play(case, folder)
        (folder / "record.json").write_text(json.dumps(record), encoding="utf-8")
    else:
        record = json.loads(Path(told).read_text(encoding="utf-8"))
    zero = record["samples"][0][0]
    for controller in record["controllers"]:
        how = "killed" if controller["killed"] else f"ended with {controller['status']}"
        print(f"{controller['name']}: {controller['begin'] - zero:.1f} s to {controller['end'] - zero:.1f} s, {how}")
    for event in record["events"]:
        steps = ", ".join(f"{step['Status']} {step['Time'] - zero:.1f} s" for step in event["History"])
        print(f"{event['EventType']} ({', '.join(event['Resources'])}): {steps}; {len(event['Approvals'])} approvals")
    violations = judge(record)
    print("\n".join(violations) or "nothing is violated")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
