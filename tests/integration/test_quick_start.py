# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The quick start of README.md: its files and commands handle an event on one machine."""

from __future__ import annotations

import re

import pytest

from tests.support.pages import follow

PORTS = ("8080", "8081", "8082", "8169", "8171", "8172")


@pytest.mark.timeout(400)
def test_the_quick_start_handles_an_event_and_loses_no_request(tmp_path):
    output = follow(tmp_path, PORTS, ("README.md", "Quick start"))
    assert re.search(r"\(web1\): completed$", output, re.MULTILINE), output
    assert "web1: restored, back as it was found" in output
    assert "a request failed" not in output
    assert (tmp_path / "answer.txt").read_text().startswith("<!DOCTYPE HTML>")
    assert not list(tmp_path.glob("state/*/*.json"))
