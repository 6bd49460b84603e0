# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs that answer as those of Slurm do for its node web1. What they were told is in the file C(log) of their folder."""

from __future__ import annotations

SCONTROL = """#!/bin/sh
cd {folder}
case "$*" in
show*) echo "NodeName=web1 Arch=x86_64 State=$(cat state) Weight=1$(cat reason)" ;;
*state=drain*) echo drain >> log; echo IDLE+DRAIN > state; echo " Reason=graceful.azure: Azure scheduled event [root@now]" > reason ;;
*state=resume*) echo resume >> log; echo IDLE > state; : > reason ;;
esac
"""


def pretend(folder, programs):
    for name, text in (("scontrol", SCONTROL.format(folder=folder)), ("squeue", f"#!/bin/sh\ncat {folder}/jobs\n")):
        program = programs / name
        program.write_text(text)
        program.chmod(0o755)


def idle(folder):
    for name, text in (("state", "IDLE\n"), ("reason", ""), ("jobs", ""), ("log", "")):
        (folder / name).write_text(text)
