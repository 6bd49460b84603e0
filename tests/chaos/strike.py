# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kills a process after a while, alone or with all that it started: strike.py PID SECONDS (alone|all)."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

# It is started with neither site packages nor a path of its own.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.processes import descendants, kill


def strike(pid, who):
    """SIGKILL, as the kernel does that is out of memory, or a container that is stopped (all)."""
    # The controller first: it must not see its workers die.
    victims = [pid, *(descendants(pid) if who == "all" else ())]
    for victim in victims:
        if victim != os.getpid():
            kill(victim)


if __name__ == "__main__":
    time.sleep(float(sys.argv[2]))
    strike(int(sys.argv[1]), sys.argv[3])
