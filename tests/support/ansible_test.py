# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ansible-test needs: a copy of the checkout, because it takes no link, and the Pythons of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.support.checkout import ROOT, checkout_files, must_pass

TARGETS = sorted(path.name for path in (ROOT / "tests" / "integration" / "targets").iterdir() if not path.name.startswith("setup_"))


def copy_checkout(folder):
    """Puts a copy into a folder of collections. Returns the path of the copy, in which ansible-test is to be run."""
    copy = folder / "ansible_collections" / "graceful" / "azure"
    shutil.rmtree(copy, ignore_errors=True)
    for path in checkout_files():
        target = copy / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, target, follow_symlinks=False)
    # In the folder build, ansible-test would otherwise find the repository of the checkout, which ignores that folder.
    subprocess.run(["git", "init", "--quiet", copy], check=True)
    return copy


def path_of_real_pythons():
    """The versions that pyenv installed, where they lie: its shims do not run unless a version is switched on."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return os.pathsep.join([str(path) for path in sorted(versions.glob("3.*/bin"), reverse=True)] + [os.environ["PATH"]])


def not_run(said):
    """The targets of which ansible-test does not say that it ran them."""
    return [name for name in TARGETS if f"Running {name} integration test role" not in said]


def run_targets(folder, *targets, programs=None, seconds=600):
    """Runs targets of tests/integration/targets, or all of them, with the ansible-core in the folder of programs, or with that of build/venv.

    What it says is the test's failure, or is returned.
    """
    copy = copy_checkout(folder)
    path = path_of_real_pythons()
    command = "ansible-test"
    if programs is not None:
        path = os.pathsep.join([str(programs), path])
        command = programs / command
    return must_pass(command, "integration", "--local", "--color", "no", *targets, cwd=copy, env={"PATH": path}, timeout=seconds)
