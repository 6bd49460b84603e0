# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes report and metrics pass by pass from a journal, as a run does, and prints the CPU seconds that this took. Reading the journal does not count."""

import json
import os
import sys
import time

from ansible_collections.graceful.azure.plugins.plugin_utils._story import files, metrics, story


def main():
    journal, folder = sys.argv[1:]
    with open(journal, encoding="utf-8") as stream:
        passes = [json.loads(line) for line in stream]
    # What the plan remembers after a pass is in the next one. After the last one it is hardly another.
    memories = [passed["world"]["memory"] for passed in passes[1:]] + [passes[-1]["world"]["memory"]]
    path = os.path.join(folder, "own.prom")
    begun = time.process_time()
    told = story.begin(passes[0]["world"]["run"], list(passes[0]["hosts"]))
    for passed, memory in zip(passes, memories):
        is_new = story.add(told, passed, memory)
        if is_new or passed is passes[-1]:
            files.write(folder, told)
        files.write_metrics(path, metrics.metrics("own", told, passed, memory, {}))
    print(json.dumps({"seconds": time.process_time() - begun, "passes": len(passes)}))


if __name__ == "__main__":
    main()
