# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A virtual environment for each ansible-core and for each target Python, in build/matrix.

What the machine does not have is the test's failure, told in one line; nothing is skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.checkout import BUILD, alone
from tests.support.patience import patient

# The Pythons on which a controller of that core runs; the first one found is taken. Together they are all of them.
CORES = {
    "2.17": ("3.10", "3.11", "3.12"),
    "2.18": ("3.11", "3.12", "3.13"),
    "2.19": ("3.12", "3.13", "3.11"),
    "2.20": ("3.12", "3.13"),
    "2.21": ("3.13", "3.12"),
}
# The newest core that still runs modules on that Python.
TARGETS = {"3.7": "2.17", "3.8": "2.19", "3.9": "2.21", "3.10": "2.21", "3.11": "2.21", "3.12": "2.21", "3.13": "2.21"}

MAKE_SECONDS = 300


def oldest_core():
    """The oldest core that a Python of this machine runs: what can be tried anywhere."""
    return next((minor for minor, pythons in CORES.items() if any(map(find_python, pythons))), next(iter(CORES)))


def newest_core():
    """The newest core that a Python of this machine runs."""
    return next((minor for minor, pythons in reversed(CORES.items()) if any(map(find_python, pythons))), list(CORES)[-1])


def core(minor, needed=("requests", "jmespath"), name="core"):
    """The folder ``bin`` of an environment with that ansible-core and with the packages that are needed beside it."""
    python = next(filter(None, map(find_python, CORES[minor])), None)
    if python is None:
        pytest.fail(f"ansible-core {minor} needs Python {' or '.join(CORES[minor])} with the module venv; this machine has none", pytrace=False)
    return _made(f"{name}-{minor}", python, f"ansible-core ~= {minor}.0", *needed)


def target(minor):
    """The Python of an environment with that Python and what the collection's modules need of a host."""
    python = find_python(minor)
    if python is None:
        pytest.fail(f"Python {minor} with the module venv is not on this machine", pytrace=False)
    return _made(f"py-{minor}", python, "requests", "jmespath") / "python"


def find_python(minor):
    """A Python that can make virtual environments, looked for as tests/setup.sh does, or None."""
    name = f"python{minor}"
    # Not the set-up's own, which may be another tomorrow.
    found = [Path(folder) / name for folder in os.environ["PATH"].split(os.pathsep) if BUILD not in Path(folder).parents]
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found += sorted(versions.glob(f"{minor}.*/bin/{name}"))
    return next((python for python in found if _usable(python)), None)


def _usable(python):
    # pyenv's shims are there for every version, and end with an error where it is not switched on.
    return shutil.which(python) and subprocess.run([python, "-c", "import ensurepip, ssl, venv"], check=False, capture_output=True).returncode == 0


def _made(name, python, *packages):
    folder = BUILD / "matrix" / name
    stamp = folder / "set-up-with"
    # An environment does not survive being moved.
    wanted = "\n".join([str(folder), str(python), *packages])
    with locked(name):
        if not stamp.exists() or stamp.read_text() != wanted:
            run(f"no environment could be made with {python}", python, "-m", "venv", "--clear", folder)
            pip = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile"]
            run(f"{', '.join(packages)} could not be installed for {python}", *pip, *packages)
            stamp.write_text(wanted)
    return folder / "bin"


def locked(name):
    """Several processes may want the same environment."""
    return alone(BUILD / "matrix" / f"{name}.lock")


def run(trouble, *command):
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=patient(MAKE_SECONDS))
    if done.returncode != 0:
        said = [line for line in done.stdout.splitlines() if line.strip()] or [f"status {done.returncode}"]
        pytest.fail(f"{trouble}: {said[-1]}", pytrace=False)
