# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the files are written."""

from __future__ import annotations

import shutil

import pytest

from tests.support.checkout import ROOT, checkout_files, must_pass


def test_ruff():
    must_pass("ruff", "check", "--output-format", "concise", ".")


def test_ruff_format():
    must_pass("ruff", "format", "--diff", ".")


def test_yamllint():
    must_pass("yamllint", "--strict", ".")


def test_mypy():
    must_pass("mypy")


def test_shellcheck():
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed")
    scripts = [path for path in checkout_files() if path.suffix == ".sh" or (ROOT / path).read_bytes().startswith((b"#!/bin/sh", b"#!/usr/bin/env bash"))]
    assert scripts
    must_pass("shellcheck", *map(str, scripts))


def test_every_file_bears_copyright_and_licence():
    must_pass("reuse", "lint", "--lines")
