# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A strict stand-in for the parts of Azure Resource Manager that change load balancers and acknowledge scheduled events, for tests.

    azure_simulator.py [--load-balancers FILE] [--compute FILE] [--imds-control URL] [--listen ADDRESS:PORT] [--operation-seconds S]

It serves TLS with a certificate of its own. Once it listens, one line of JSON on standard output gives its address and the
file of its certificate. The code lies in graceful_azure_simulator/resource_manager.py beside this file.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
    sys.dont_write_bytecode = True
    from graceful_azure_simulator.resource_manager import main

    os._exit(main(sys.argv[1:]))
