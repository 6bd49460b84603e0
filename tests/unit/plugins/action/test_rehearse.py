# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The simulator of a rehearsal on its host, whatever becomes of the rehearsal."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

from ansible_collections.graceful.azure.plugins.action.rehearse import STARTER, _packed

from tests.support.patience import patient, until


def start(folder, *arguments):
    """Start a simulator. Returns its own folder."""
    command = [sys.executable, "-c", STARTER, "--vm", "a=127.0.0.1:0", *arguments]
    told = subprocess.run(command, input=_packed(), capture_output=True, text=True, timeout=patient(30), env={**os.environ, "TMPDIR": str(folder)}, check=False)
    assert told.returncode == 0 and '"control": "http://127.0.0.1:' in told.stdout, told
    return Path(told.stdout.splitlines()[0])


def test_a_simulator_that_nobody_ends_leaves_nothing(tmp_path):
    folder = start(tmp_path, "--end-after", "1")
    assert folder.parent == tmp_path
    until(lambda: not folder.exists(), 30, "the folder of the simulator is gone")


def test_one_that_is_ended_leaves_nothing(tmp_path):
    folder = start(tmp_path, "--end-after", "60")
    os.kill(int((folder / "imds_simulator.pid").read_text()), signal.SIGTERM)
    until(lambda: list(tmp_path.iterdir()) == [], 30, "the folder of the simulator is gone")


def test_what_others_have_left_is_removed_by_the_next_one(tmp_path):
    """A machine that was switched off removes nothing."""
    left, old, new, lives = (tmp_path / f"graceful_azure-{name}.rehearse" for name in ("left", "old", "new", "lives"))
    for folder in (left, old, new, lives):
        folder.mkdir()
        (folder / "simulator.zip").touch()
    (left / "imds_simulator.pid").write_text("1\n")
    os.utime(old, (1.0, 1.0))
    with (lives / "imds_simulator.pid").open("w") as pid_file:
        fcntl.flock(pid_file, fcntl.LOCK_EX)
        folder = start(tmp_path, "--end-after", "1")
    # One that has just begun has no lock yet.
    assert {each.name for each in tmp_path.iterdir()} - {folder.name} == {new.name, lives.name}
    until(lambda: not folder.exists(), 30, "the folder of the simulator is gone")


def test_no_folder_of_anybody_else_is_removed(tmp_path):
    foreign, named_so, linked = tmp_path / "play.rehearse", tmp_path / "graceful_azure-play.rehearse", tmp_path / "graceful_azure-link.rehearse"
    for folder, name in ((foreign, "simulator.zip"), (named_so, "score.pdf")):
        folder.mkdir()
        (folder / name).touch()
        os.utime(folder, (1.0, 1.0))
    linked.symlink_to(foreign)
    os.utime(linked, (1.0, 1.0), follow_symlinks=False)
    folder = start(tmp_path, "--end-after", "1")
    assert {each.name for each in tmp_path.iterdir()} == {foreign.name, named_so.name, linked.name, folder.name}
    assert (foreign / "simulator.zip").exists() and (named_so / "score.pdf").exists()
    until(lambda: not folder.exists(), 30, "the folder of the simulator is gone")
