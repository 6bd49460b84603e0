# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the files are written."""

from __future__ import annotations

import shutil

import pytest

from tests.support.checkout import ROOT, checkout_files, must_pass

COPYRIGHT = "Copyright (c) 2026, the graceful.azure authors"
LICENSE = "SPDX-License-Identifier: GPL-3.0-or-later"
# These cannot bear a comment, or are written by a program.
WITHOUT_HEADER = {".json", ".png", ".svg", ".txt"}
NAMES_WITHOUT_HEADER = {".gitignore", "CHANGELOG.md", "COPYING", "changelog.yaml"}


def test_ruff():
    must_pass("ruff", "check", "--output-format", "concise", ".")


def test_shellcheck():
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed")
    scripts = [path for path in checkout_files() if path.suffix == ".sh" or (ROOT / path).read_bytes().startswith((b"#!/bin/sh", b"#!/usr/bin/env bash"))]
    assert scripts
    must_pass("shellcheck", *map(str, scripts))


def test_every_file_bears_copyright_and_licence():
    wrong = []
    for path in checkout_files():
        if path.suffix in WITHOUT_HEADER or path.name in NAMES_WITHOUT_HEADER:
            continue
        head = "\n".join((ROOT / path).read_text(encoding="utf-8").splitlines()[:6])
        if COPYRIGHT not in head or LICENSE not in head:
            wrong.append(str(path))
    assert not wrong
