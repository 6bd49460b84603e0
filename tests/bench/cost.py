# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stands in for a Python interpreter and notes what each call cost the machine, one line of JSON per call.

Given to Ansible as the interpreter of a host, it tells the host's share of a run from the controller's.
The environment names the real interpreter (COST_PYTHON) and the file for the notes (COST_FILE).
"""

import json
import os
import sys


def main():
    pid = os.spawnv(os.P_NOWAIT, os.environ["COST_PYTHON"], [os.environ["COST_PYTHON"], *sys.argv[1:]])
    dummy, status, usage = os.wait4(pid, 0)
    with open(os.environ["COST_FILE"], "a", encoding="utf-8") as stream:
        stream.write(json.dumps({"cpu": usage.ru_utime + usage.ru_stime, "kilobytes": usage.ru_maxrss}) + "\n")
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
