# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ansible-test needs: a copy of the checkout, because it takes no link, and the Pythons of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.checkout import ROOT, alone, copy_files, must_pass
from tests.support.processes import marked

TARGETS = sorted(path.name for path in (ROOT / "tests" / "integration" / "targets").iterdir() if not path.name.startswith("setup_"))

# Where ansible-test itself keeps its virtual environments, for every checkout of this user.
CACHE = Path.home() / ".ansible" / "test"

# ansible-test fills its virtual environments with this script, which it fetches from a host of its own.
# The wheel of the same pip from the package registry does the same.
GET_PIP = """\
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), {wheel!r}))

from pip._internal.cli.main import main

sys.exit(main(["install"] + [argument for argument in sys.argv[1:] if argument not in ("--no-setuptools", "--no-wheel")]))
"""


def copy_checkout(folder):
    """Puts a copy into a folder of collections. Returns the path of the copy, in which ansible-test is to be run."""
    copy = folder / "ansible_collections" / "graceful" / "azure"
    shutil.rmtree(copy, ignore_errors=True)
    copy_files(copy)
    # In the folder build, ansible-test would otherwise find the repository of the checkout, which ignores that folder.
    subprocess.run(["git", "init", "--quiet", copy], check=True)
    return copy


def path_of_real_pythons():
    """The versions that pyenv installed, where they lie: its shims do not run unless a version is switched on."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return os.pathsep.join([str(path) for path in sorted(versions.glob("3.*/bin"), reverse=True)] + [os.environ["PATH"]])


def fill_pip_cache(package):
    """For the ansible-test whose Python package lies in this folder."""
    source = (package / "_internal" / "python_requirements.py").read_text()
    version = re.search(r"pip='([0-9.]+)'", source).group(1)
    script = CACHE / "cache" / f"get_pip_{version.replace('.', '_')}.py"
    script.parent.mkdir(parents=True, exist_ok=True)
    with alone(CACHE / "graceful-azure-pip.lock"):
        if not script.exists():
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", script.parent, f"pip=={version}"], check=True)
            wheel = next(script.parent.glob(f"pip-{version}-*.whl"))
            script.write_text(GET_PIP.format(wheel=wheel.name))


def run_units(folder, programs, python, seconds):
    """Runs all unit tests for this Python, with the ansible-core in the folder of programs. A Python that no controller has gets those of modules alone.

    What it says is the test's failure. How many tests passed is returned, by the parts into which ansible-test divides them.
    """
    copy = copy_checkout(folder)
    fill_pip_cache(next(programs.parent.glob("lib/python3*/site-packages/ansible_test")))
    command = [programs / "ansible-test", "units", "--venv", "--requirements", "--python", python, "--color", "no"]
    path = os.pathsep.join([str(programs), path_of_real_pythons()])
    said = must_pass(*command, cwd=copy, env={"PATH": path}, timeout=seconds)
    left = list(marked(str(folder)))
    assert left == [], f"left behind: {left}"
    parts = re.split(r"^Unit test (\w+) with Python .*\n", said, flags=re.MULTILINE)[1:]
    return {part: int(re.search(r"^=+ (\d+) passed", told, re.MULTILINE).group(1)) for part, told in zip(parts[::2], parts[1::2], strict=True)}


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
