# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The resident watcher of graceful.azure: sees a scheduled event of this VM within a second, and starts what is to be started.

It runs without Ansible. Beside it lie the collection's own transport and model, which keep the names by which they import one another.
"""

from __future__ import annotations

import os
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ("graceful_azure_watcher",) + tuple("ansible_collections.graceful.azure.plugins.module_utils".rsplit(".", count)[0] for count in range(4, -1, -1))


def lay_out():
    """Have this one folder stand for every package that its files name, before any that is installed."""
    for name in PACKAGES:
        package = types.ModuleType(name)
        package.__path__ = [HERE]
        sys.modules[name] = package
    # requests would load what guesses character sets, three megabytes that nothing here ever asks. It wants to see their versions.
    for name, version in (("chardet", "3.0.4"), ("charset_normalizer", "2.0.0")):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__version__ = version


if __name__ == "__main__":
    lay_out()
    from graceful_azure_watcher.cli import main

    sys.exit(main(HERE))
