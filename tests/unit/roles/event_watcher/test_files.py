# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The watcher runs from one folder on the VM, without the collection."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.support.checkout import ROOT

ROLE = ROOT / "roles" / "event_watcher"
FILES = yaml.safe_load((ROLE / "vars" / "main.yml").read_text(encoding="utf-8"))["__event_watcher_files"]
NEEDED = re.compile(r"^\s*from ansible_collections\.graceful\.azure\.plugins\.module_utils\.(_\w+) import", re.MULTILINE)


@pytest.mark.parametrize("file", FILES)
def test_what_a_file_imports_is_put_there_too(file):
    text = (ROLE / "files" / file).read_text(encoding="utf-8")
    there = {name.rpartition("/")[2] for name in FILES}
    assert {f"{name}.py" for name in NEEDED.findall(text)} - there == set()


def test_the_page_copies_the_same_files():
    page = (ROLE / "README.md").read_text(encoding="utf-8")
    for file in FILES:
        if "module_utils" in file:
            assert f" {file.rpartition('/')[2]} " in page
