# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plugins for Event-Driven Ansible, which ansible-rulebook runs as files."""

from __future__ import annotations

import importlib.util

from tests.support.checkout import BUILD, ROOT

# Under ansible-test, the checkout itself lies in a folder of collections, where the plugins look for the collection.
LINKED = BUILD / "collections" / "ansible_collections" / "graceful" / "azure"
COLLECTION = LINKED if LINKED.exists() else ROOT


def names_in(kind, name):
    """All that the file defines, as runpy.run_path tells it. Under ansible-test, runpy takes no file of a collection."""
    spec = importlib.util.spec_from_file_location(name, COLLECTION / "extensions" / "eda" / "plugins" / kind / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)
