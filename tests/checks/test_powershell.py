# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Our own PowerShell: it parses, it is short, plain and written for version 5.1, and Python calls it with the parameters that it has."""

from __future__ import annotations

import re

import pytest
import tree_sitter_powershell

from tests.support import grammar
from tests.support.checkout import ROOT, checkout_files

SCRIPTS = sorted(path for path in checkout_files() if path.suffix == ".ps1")
PARSER = grammar.parser(tree_sitter_powershell)
NEWER = [r"\?\?", r"&&", r"\|\|", r"\?\.", r"\?\[", r"-AsByteStream", r"-Parallel", r"\bclean\b", r"-AsHashtable", r"\$IsWindows"]
"""What Windows PowerShell 5.1 does not know."""
CODE = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|#[^\n]*")


def wrong(text):
    """Where a script does not parse."""
    return grammar.wrong(PARSER, text)


def parameters(text):
    """The names of a script's parameters."""
    block = text.split("\nparam(", 1)[1].split("\n", 1)[0]
    return re.findall(r"\$(\w+)", block)


def test_all_of_it_is_in_one_place():
    ours = "plugins/plugin_utils/_platforms/scripts"
    assert [path.as_posix() for path in SCRIPTS] == ["playbooks/files/test_service.ps1", *(f"{ours}/{name}.ps1" for name in ("look", "service", "write"))]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
class TestScript:
    def test_it_parses(self, path):
        assert wrong((ROOT / path).read_text(encoding="ascii")) == []

    def test_it_is_short_and_plain(self, path):
        data = (ROOT / path).read_bytes()
        lines = data.decode("ascii").splitlines()
        assert len(lines) < 60 and max(map(len, lines)) <= 160
        assert b"\r" not in data and b"\t" not in data and data.endswith(b"\n")

    def test_it_is_for_the_version_that_every_windows_server_has(self, path):
        code = CODE.sub("''", (ROOT / path).read_text(encoding="ascii"))
        assert [pattern for pattern in NEWER if re.search(pattern, code)] == []

    def test_only_the_one_that_changes_nothing_runs_in_check_mode(self, path):
        assert ("SupportsShouldProcess" in (ROOT / path).read_text(encoding="ascii")) == (path.stem == "look")


def test_json_is_not_cut():
    """By itself, ConvertTo-Json cuts what is nested deeper than two levels."""
    text = (ROOT / "plugins/plugin_utils/_platforms/scripts/look.ps1").read_text(encoding="ascii")
    assert "ConvertTo-Json -InputObject $told -Depth 6 -Compress" in text


def test_the_parameters_are_those_that_python_gives():
    told = {path.stem: parameters((ROOT / path).read_text(encoding="ascii")) for path in SCRIPTS}
    assert told == {
        "look": ["Folder", "Files", "Services", "Ports", "Watch", "Limit"],
        "service": ["Name", "Verb"],
        "test_service": ["Program"],
        "write": ["Folder", "Path", "Expected", "Content", "MoveTo", "Seconds"],
    }
    python = (ROOT / "plugins/plugin_utils/_platforms/windows.py").read_text(encoding="utf-8")
    assert 'self.script("service", Name=name, Verb=verb)' in python
    assert all(f"{name}=" in python for name in (*told["write"], "Watch", "Limit"))


@pytest.mark.parametrize(
    "text",
    ["if ($a { }", "$x = @{ a = 1", "foreach ($a in $b { }", "$a ? 1 : 2", "function Get-It([string]$a { }", "try { 1 } catch [", "'unfinished", "$x = @(1, 2"],
)
def test_the_parser_finds_mistakes(text):
    assert wrong(text)
