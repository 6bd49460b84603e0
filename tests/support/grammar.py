# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Languages whose programs are not here: whether a text could be theirs."""

from __future__ import annotations

import tree_sitter


def parser(language):
    """Of a package of tree-sitter's that has the grammar of a language."""
    return tree_sitter.Parser(tree_sitter.Language(language.language()))


def wrong(grammar, text):
    """Where a text does not parse."""
    found, todo = [], [grammar.parse(text.encode()).root_node]
    while todo:
        node = todo.pop()
        if node.is_error or node.is_missing:
            found.append(f"line {node.start_point[0] + 1}: {node.text[:60]!r}")
        todo.extend(node.children)
    return found
