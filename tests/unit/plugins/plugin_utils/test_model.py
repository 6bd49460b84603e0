# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The model of the tests."""

from __future__ import annotations

import ast

from tests.support.checkout import ROOT


def test_the_model_has_nothing_of_what_it_judges():
    """Otherwise a mistake there is invisible."""
    tree = ast.parse((ROOT / "tests/support/model.py").read_text())
    imported = [(node.module, name.name) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names]
    ours = [found for found in imported if (found[0] or "").startswith("ansible_collections")]
    assert ours == [("ansible_collections.graceful.azure.plugins.plugin_utils._planning.plan", "plan")]
