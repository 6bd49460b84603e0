# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modules, filters and lookups that are public, and what their files say about them."""

from __future__ import annotations

import ast
from typing import NamedTuple

import yaml

from tests.support.checkout import ROOT, checkout_files

KINDS = {"modules": "module", "filter": "filter", "lookup": "lookup"}


class Plugin(NamedTuple):
    """One of them. ``returned`` is what it says under RETURN."""

    kind: str
    name: str
    examples: str
    returned: dict


def public_plugins():
    """All of them, by file. What is internal says so in the first word."""
    found = {}
    for path in checkout_files():
        if path.parts[0] == "plugins" and path.parts[1] in KINDS and path.suffix == ".py":
            told = _constants(path)
            if "DOCUMENTATION" in told and not yaml.safe_load(told["DOCUMENTATION"])["short_description"].startswith("Internal: "):
                found[path] = Plugin(KINDS[path.parts[1]], path.stem, told.get("EXAMPLES", ""), yaml.safe_load(told["RETURN"]))
    return found


def _constants(path):
    """The texts that a file gives names, by these names."""
    nodes = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    return {
        node.targets[0].id: node.value.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
