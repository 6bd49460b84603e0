# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A simulator of Azure's Scheduled Events, for tests.

Every --vm is the metadata service of one VM of a scale set. All of them see the same events and may approve them. A
control address adds events, moves them on, makes the services fail and says what happened. A browser shows it, too. Once
everything listens, one line of JSON on standard output gives the addresses.

    imds_simulator.py --vm NAME=ADDRESS:PORT ...    runs it
    imds_simulator.py ctl --help                    talks to one that runs
    imds_simulator.py --list-scenarios              the library of scenarios
    imds_simulator.py --check FILE                  every mistake in a scenario file

This is the command alone. The code lies in the folder graceful_azure_simulator, which must lie beside this file.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # For Python that runs isolated. Otherwise it does this itself.
    sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
    # Nothing is to be left beside the code, which may belong to another user.
    sys.dont_write_bytecode = True
    from graceful_azure_simulator.cli import main

    status = main(sys.argv[1:])
    # Threads that serve a client or wait for one are not waited for. What was to be printed is printed.
    os._exit(status)
