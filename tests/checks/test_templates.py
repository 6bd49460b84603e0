# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What pages have of Terraform, Bicep and the shell parses. Of the first two the programs are not here, so nothing more is known, and the page says so."""

from __future__ import annotations

import subprocess

import pytest
import tree_sitter_bicep
import tree_sitter_hcl

from tests.support.checkout import checkout_files
from tests.support.grammar import parser, wrong
from tests.support.pages import blocks

PARSERS = {"hcl": parser(tree_sitter_hcl), "bicep": parser(tree_sitter_bicep)}
BLOCKS = [(path.as_posix(), kind, text) for path in checkout_files() if path.suffix == ".md" for kind, text in blocks(path)]
FOUND = [block for block in BLOCKS if block[1] in PARSERS]


def test_there_is_some_of_each():
    assert {kind for _page, kind, _text in FOUND} == set(PARSERS)


@pytest.mark.parametrize("page, kind, text", FOUND, ids=[f"{page}-{kind}-{number}" for number, (page, kind, _text) in enumerate(FOUND)])
def test_it_parses(page, kind, text):
    assert wrong(PARSERS[kind], text) == []


@pytest.mark.parametrize(
    "kind, text",
    [
        ("hcl", 'resource "azurerm_lb" "web" {\n  name =\n}\n'),
        ("hcl", 'resource "azurerm_lb" "web" {\n'),
        ("hcl", 'output "pool" { value = [1, 2 }\n'),
        ("bicep", "resource web 'Microsoft.Network/loadBalancers@2023-04-01' = {\n  name 'web'\n}\n"),
        ("bicep", "resource web 'Microsoft.Network/loadBalancers@2023-04-01' = {\n"),
        ("bicep", "output pool string =\n"),
    ],
)
def test_the_parsers_find_mistakes(kind, text):
    assert wrong(PARSERS[kind], text)


def test_the_shell_takes_what_it_is_given():
    typed = [(page, text) for page, kind, text in BLOCKS if kind == "shell"]
    assert len(typed) > 60
    told = [(page, subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False).stderr) for page, text in typed]
    assert [(page, said) for page, said in told if said] == []
