# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kills a process after a while, alone or with all that it started, or cuts off what it is asking its machines.

strike.py PID SECONDS (alone|all|connection)
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

# It is started with neither site packages nor a path of its own.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.processes import command_of, descendants, kill

CLIENT = "import _socket"
"""How a word of the command line of a request to a helper begins, and of no other."""


def strike(pid, who):
    """SIGKILL, as the kernel does that is out of memory, or a container that is stopped (all). Without its connection, a request ends as its client does."""
    # The controller first: it must not see its workers die.
    if who == "connection":
        victims = [child for child in descendants(pid) if _is_client(child)]
    else:
        victims = [pid, *(descendants(pid) if who == "all" else ())]
    for victim in victims:
        if victim != os.getpid():
            kill(victim)


def _is_client(pid):
    return any(word.startswith(CLIENT) for word in command_of(pid))


if __name__ == "__main__":
    time.sleep(float(sys.argv[2]))
    strike(int(sys.argv[1]), sys.argv[3])
