# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checkout: where things lie in it, and commands that check it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from tests.support.patience import patient

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
# What Ansible is told by its environment, so that it finds the checkout as a collection, and nothing of the user's.
SURROUNDINGS = {
    "ANSIBLE_COLLECTIONS_PATH": str(BUILD / "collections"),
    "ANSIBLE_CONFIG": str(ROOT / "tests" / "ansible.cfg"),
    "ANSIBLE_HOME": str(BUILD / "ansible-home"),
}


def checkout_files() -> list[Path]:
    """Every file that belongs to the project, relative to ROOT: what git tracks, and what is new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    return sorted({Path(name) for name in listed.split("\0") if name and (ROOT / name).is_file()})


def copy_files(folder, parts=None):
    """Copies these files into a folder, or those of some parts of the project."""
    for path in checkout_files():
        if parts is None or path.parts[0] in parts:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, folder / path, follow_symlinks=False)


@contextlib.contextmanager
def alone(path):
    """Tests run side by side, and it is enough that one of them makes something: whoever has the lock on this file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def must_pass(*command, cwd=ROOT, env=None, timeout=110, telling=""):
    """Run a command that checks something; what it says is the test's failure, or is returned.

    Of many lines, only those that match the pattern telling are shown.
    """
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1", **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=patient(timeout),
        check=False,
    )
    if done.returncode != 0:
        said = "\n".join(line for line in done.stdout.splitlines() if re.match(telling, line))
        import pytest  # not there where a connection of the tests runs on an older ansible-core

        pytest.fail(f"{shlex.join(map(str, command))} ended with {done.returncode}:\n{said}", pytrace=False)
    return done.stdout
