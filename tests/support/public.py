# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plugins of which Ansible has pages, and what the files of the public modules, filters and lookups say about them."""

from __future__ import annotations

import ast
from typing import NamedTuple

import yaml

from tests.support.checkout import ROOT, checkout_files

KINDS = {"modules": "module", "callback": "callback", "filter": "filter", "lookup": "lookup"}


class Plugin(NamedTuple):
    """One of them. ``returned`` is what it says under RETURN."""

    kind: str
    name: str
    examples: str
    returned: dict


def plugin_files():
    """The files in which the documentation of plugins is, each with the kind of its plugin: a plugin's own, or a file .yml beside it."""
    return {path: KINDS[path.parts[1]] for path in checkout_files() if path.parts[0] == "plugins" and path.parts[1] in KINDS and path.suffix in (".py", ".yml")}


def public_plugins():
    """All that are called by their names, by file. What is internal says so in the first word."""
    found = {}
    for path, kind in plugin_files().items():
        if kind != "callback" and path.suffix == ".py":
            told = _constants(path)
            if "DOCUMENTATION" in told and not yaml.safe_load(told["DOCUMENTATION"])["short_description"].startswith("Internal: "):
                found[path] = Plugin(kind, path.stem, told.get("EXAMPLES", ""), yaml.safe_load(told["RETURN"]))
    return found


def _constants(path):
    """The texts that a file gives names, by these names."""
    nodes = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    return {
        node.targets[0].id: node.value.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
