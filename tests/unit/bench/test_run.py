# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which parts make bench runs, in what surroundings, and what its table says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.bench import figures, run, stage
from tests.support import patience
from tests.support.checkout import ROOT


@pytest.mark.parametrize(("part", "words"), [("reboot", "reboot"), ("idle reaction", "idle reaction"), ("help", "--help"), ("", "")])
def test_make_runs_the_part_that_is_named(part, words):
    said = subprocess.run(["make", "--no-print-directory", "--dry-run", "bench", f"PART={part}"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert said.splitlines()[-1].rstrip() == f"build/venv/bin/python tests/bench/run.py {words}".rstrip()


def test_it_starts_without_the_collection_on_its_path():
    """So does make."""
    words = [sys.executable, ROOT / "tests" / "bench" / "run.py", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, env={"PATH": os.environ["PATH"]}, check=False)
    assert done.returncode == 0 and "modelled" in done.stdout, done.stderr


def test_the_table_says_below_what_nobody_comes(capsys):
    run.show([{"what": "out", "ours": "2 s", "peer": "3 s", "floor": figures.POLLING, "ok": True}, {"what": "CPU", "ours": "1 s", "peer": "2 s"}])
    assert [re.split(r" {2,}", line) for line in capsys.readouterr().out.splitlines()] == [
        ["", "graceful.azure", "peer", "floor"],
        ["out", "2 s", "3 s", "0-1 s: 1 Hz polling", "ok"],
        ["CPU", "1 s", "2 s"],
    ]


def test_how_fast_the_machine_was(monkeypatch):
    monkeypatch.setattr(run.os, "cpu_count", lambda: 2)
    assert run.machine([0.0091, 0.008]) == "2 cores; a fixed loop took 8.0 to 9.1 ms of one, and takes 7.0 ms where the limits were written"
    monkeypatch.setattr(patience, "_work", iter([(9.0, 0.3), (9.0, 0.1), *[(9.0, 0.2)] * 3]).__next__)
    assert patience.loop_seconds() == 0.1


def test_a_reboot_has_a_floor_for_each_figure(monkeypatch):
    once = {"out": 2.0, "approved": 4.0, "whole": 12.0, "cpu": 3.0, "failed": 0, "requests": 10}
    monkeypatch.setattr(figures, "one_reboot", lambda *_arguments: once)
    rows = figures.reboot_against_handwritten(None, rounds=2)
    assert [row["floor"] for row in rows] == [
        "0-1 s: 1 Hz polling",
        "0-1 s: 1 Hz polling, 2 s: the last answer under way",
        "0-1 s: 1 Hz polling, 2 s: the last answer under way, 7 s: the impact",
        "",
        "0",
    ]


def test_byte_code_is_kept_whatever_the_surroundings_say(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    started = {}
    here = stage.Stage.__new__(stage.Stage)
    here.configuration, here.inventory = tmp_path / "ansible.cfg", tmp_path / "inventory.yml"
    processes = SimpleNamespace(start=lambda _name, *_command, env, cwd: started.update(env))
    here.world = SimpleNamespace(socket_folder=tmp_path, processes=processes)
    for playbook in (figures.OURS, figures.PEER):
        here.play(playbook)
        assert "PYTHONDONTWRITEBYTECODE" not in started and started["ANSIBLE_CONFIG"]
