# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether no process of HAProxy runs on this machine, as on the passive machine of a pair."""

from __future__ import annotations

import os

from ansible_collections.graceful.azure.plugins.module_utils._proc import has_ended

# HAProxy itself, and the names of its commercial builds.
NAMES = ("haproxy", "hapee")
# Programs that only read HAProxy's figures, such as haproxy_exporter.
EXPORTER = "exporter"


def runs_no_haproxy(proc: str = "/proc") -> bool:
    """Whether it is certain that no HAProxy runs here. Also False if not every process can be seen."""
    seen = False
    for pid in os.listdir(proc):
        if not pid.isdigit():
            continue
        try:
            with open(os.path.join(proc, pid, "comm"), encoding="utf-8", errors="replace") as stream:
                words = [stream.read()]
            with open(os.path.join(proc, pid, "cmdline"), encoding="utf-8", errors="replace") as stream:
                words.append(os.path.basename(stream.read().split("\0")[0]))
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        except OSError:
            return False
        if any(name in word for word in words for name in NAMES) and EXPORTER not in words[1] and not has_ended(pid, proc):
            return False
        # If the kernel hides processes of other users, it does not show process 1.
        seen = seen or pid == "1"
    return seen
